"""The interface of all kinds of index parts: the values of a row, and the conditions of a query on entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from hbmodel.encoding.codecs.base import JSON
from hbmodel.mapping.model_field import Field, Values
from hbmodel.mapping.predicates import Predicate


@frozen(eq=False)
class Condition:
    """One condition of a query, and its meaning for an index entry.

    If the ranges of a query enforce `on_entry`, `asked` is not tested. So the row of an entry that satisfies `on_entry`
    must satisfy `asked`. A kind of part that cannot guarantee this keeps the condition unchanged, and adds another one:
    `Condition(on_entry, on_entry)`.

    Attributes:
        asked: the condition on rows, as in the query.
        on_entry: the condition on the parts of an entry's key: a row that satisfies `asked` has an entry that satisfies
            this.
    """

    asked: Predicate
    on_entry: Predicate


class IndexPart(ABC):
    """One declared part of an index's key, resolved.

    Attributes:
        operand: the field that the key contains at this place, by its name there; predicates on it refer to entries.
        desc: whether it sorts descending.
        required: the predicates that every row with entries satisfies; a query must imply them to be answered by the
            index.
    """

    __slots__ = ()

    operand: Field
    desc: bool
    required: Sequence[Predicate]

    @property
    @abstractmethod
    def reads(self) -> frozenset[str]:
        """The stored fields that the values depend on."""

    @abstractmethod
    def values_of(self, values: Values) -> Sequence[Any]:
        """The values of this part for a row: the row has one entry for each value, and no entries if there is none.

        Args:
            values: the values of the row's fields, including `reads`.
        """

    @property
    def is_field(self) -> bool:
        """Whether the part has one value for each row: the value of the stored field with the operand's name."""
        return False

    @property
    def has_one_value(self) -> bool:
        """Whether no row has more than one value."""
        return True

    def on_entries(self, conditions: Sequence[Condition]) -> Sequence[Condition] | None:
        """The conditions of a query with their meaning for this part; None if rows without entries may satisfy the
        query.
        """
        return conditions

    def asked_for(self, asked: Sequence[Any], pack: Callable[[Any], bytes]) -> IndexPart:
        """The part without some of the values that a query does not ask for: it may leave out each value that neither
        equals a value of the query nor has its bytes.

        Args:
            asked: the values that the query asks for.
            pack: the bytes of a value at this place of an entry's key.
        """
        return self

    @abstractmethod
    def without_none(self) -> IndexPart:
        """The same part for an index that excludes None; the part itself if it never has None."""

    @property
    def spec(self) -> Mapping[str, JSON]:
        """The registry's description of the part, in addition to its place in the key; empty for a plain field."""
        return {}

    @property
    def description(self) -> str | None:
        """The kind in a few words, for `explain()`; None for a plain field."""
        return None


class DeclaredPart(ABC):
    """A part of an index as declared.

    Attributes:
        desc: the direction; None keeps the field's own.
    """

    __slots__ = ()

    name: str
    desc: bool | None

    @abstractmethod
    def resolve(self, fields: Mapping[str, Field]) -> IndexPart:
        """The resolved part, given the fields of the model; the field that the part names must be one of them.

        Raises:
            DeclarationError: the field cannot be indexed in this way.
        """
