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
    """A condition of a query, and the condition on index entries that follows from it.

    If the ranges of a query enforce `on_entry`, `asked` is not tested. So the row of an entry that satisfies `on_entry`
    must satisfy `asked`. A kind of part that cannot guarantee this keeps the condition unchanged, and adds a second
    condition: `Condition(on_entry, on_entry)`.

    Attributes:
        asked: the condition on rows, as in the query.
        on_entry: the condition on the parts of an entry's key. Each row that satisfies `asked` has an entry that
            satisfies `on_entry`.
    """

    asked: Predicate
    on_entry: Predicate


class IndexPart(ABC):
    """One declared part of an index's key, resolved.

    Attributes:
        operand: the field that the key of an entry contains at this place, with the name that it has there. Predicates
            on this field refer to entries.
        desc: whether the part sorts descending.
        required: the predicates that every row with entries satisfies. The index can answer a query only if the query
            implies these predicates.
    """

    __slots__ = ()

    operand: Field
    desc: bool
    required: Sequence[Predicate]

    @property
    @abstractmethod
    def reads(self) -> frozenset[str]:
        """Names of the stored fields on which the values of the part depend."""

    @abstractmethod
    def values_of(self, values: Values) -> Sequence[Any]:
        """Returns the values of this part for a row. The row has one entry for each value, and no entries if there are
        no values.

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
        """Returns the conditions of a query, each as a condition on the values of this part, or None if a row without
        entries may satisfy the query.
        """
        return conditions

    def asked_for(self, asked: Sequence[Any], pack: Callable[[Any], bytes]) -> IndexPart:
        """Returns the same part, but with fewer values for each row. The part may leave out a value that a query does
        not ask for, that is, a value that neither equals a value of the query nor has the same bytes as such a value.

        Args:
            asked: the values that the query asks for.
            pack: a function that returns the bytes of a value at this place of an entry's key.
        """
        return self

    @abstractmethod
    def without_none(self) -> IndexPart:
        """Returns the variant of this part for an index that excludes None. If the part never has the value None, this
        is the part itself.
        """

    @property
    def spec(self) -> Mapping[str, JSON]:
        """What the registry stores about the part in addition to its place in the key; empty for a plain field."""
        return {}

    @property
    def description(self) -> str | None:
        """The kind of the part in a few words, for `explain()`; None for a plain field."""
        return None


class DeclaredPart(ABC):
    """A part of an index as declared.

    Attributes:
        desc: whether the part sorts descending. None means the direction with which the field is declared.
    """

    __slots__ = ()

    name: str
    desc: bool | None

    @abstractmethod
    def resolve(self, fields: Mapping[str, Field]) -> IndexPart:
        """Resolves the part with the fields of the model, which must include the field that the part names.

        Raises:
            DeclarationError: the field cannot be indexed in this way.
        """
