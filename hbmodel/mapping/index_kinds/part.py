"""What every kind of index part answers: its values in a row, and what the conditions of a query say about entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from hbmodel.encoding.codecs.base import JSON
from hbmodel.mapping.model_field import Field, Values
from hbmodel.mapping.predicates import Predicate


@frozen(eq=False)
class Condition:
    """One condition of a query, and what it means for an index entry.

    Attributes:
        asked: as the query has it, about rows.
        on_entry: about the parts of an entry's key: a row that satisfies `asked` has an entry that satisfies this.
    """

    asked: Predicate
    on_entry: Predicate


class IndexPart(ABC):
    """One declared part of an index's key, resolved.

    Attributes:
        operand: what stands at this place of the key, under the name that it has there; predicates on it are about entries.
        desc: whether it sorts descending.
        required: what a row satisfies that has entries; a query must say it too, to be answered by the index.
    """

    __slots__ = ()

    operand: Field
    desc: bool
    required: Sequence[Predicate]

    @property
    @abstractmethod
    def reads(self) -> frozenset[str]:
        """The stored fields that the values come from."""

    @abstractmethod
    def values_of(self, values: Values) -> Sequence[Any]:
        """The values of this part for a row: an entry for each of them, none for a row without entries.

        Args:
            values: of the row's fields, `reads` among them.
        """

    @property
    def is_field(self) -> bool:
        """Whether the one value is that of the stored field of the operand's name."""
        return False

    @property
    def has_one_value(self) -> bool:
        """Whether there is never more than one value for a row."""
        return True

    def on_entries(self, conditions: Sequence[Condition]) -> Sequence[Condition] | None:
        """The conditions of a query with what they mean for this part; None where rows without entries may satisfy the query.

        Args:
            conditions: of the query.
        """
        return conditions

    @abstractmethod
    def without_none(self) -> IndexPart:
        """The same part of an index that leaves None out; itself where there is none."""

    @property
    def spec(self) -> Mapping[str, JSON]:
        """What the registry keeps of the part, beyond its place in the key; nothing for a plain field."""
        return {}

    @property
    def description(self) -> str | None:
        """The kind in a few words, for `explain()`; None for a plain field."""
        return None


class DeclaredPart(ABC):
    """A part of an index as it was declared.

    Attributes:
        name: of the field.
        desc: the direction; None keeps the field's own.
    """

    __slots__ = ()

    name: str
    desc: bool | None

    @abstractmethod
    def resolve(self, fields: Mapping[str, Field]) -> IndexPart:
        """The part, given the fields of the model, which have this one's among them.

        Raises:
            DeclarationError: the field cannot be indexed so.
        """
