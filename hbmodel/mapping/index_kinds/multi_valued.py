"""The multi-valued kind of index part: one entry for each different element of a collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen
from typing_extensions import override

from hbmodel.encoding.codecs.base import JSON
from hbmodel.errors import DeclarationError
from hbmodel.mapping.collection_elements import element_of
from hbmodel.mapping.index_kinds.part import Condition, DeclaredPart, IndexPart
from hbmodel.mapping.model_field import Field, Values
from hbmodel.mapping.predicates import Comparison, Contains, In, Predicate


@frozen
class EachPart(IndexPart):
    """Each element of a field's value; rows whose value is None or empty have no entries.

    Attributes:
        leaves_none_out: whether elements that are None have no entries.
    """

    of: Field
    operand: Field
    desc: bool
    leaves_none_out: bool = False
    required: Sequence[Predicate] = ()

    @property
    @override
    def reads(self) -> frozenset[str]:
        return self.of.reads

    @property
    @override
    def has_one_value(self) -> bool:
        return False

    @override
    def values_of(self, values: Values) -> Sequence[Any]:
        elements = self.of.value_in(values)
        if elements is None:
            return ()
        return [element for element in elements if element is not None or not self.leaves_none_out]

    @override
    def on_entries(self, conditions: Sequence[Condition]) -> Sequence[Condition] | None:
        able = [(len(elements), at) for at, c in enumerate(conditions) if (elements := self._elements(c.asked))]
        if not able:
            return None
        _, chosen = min(able)
        predicate = conditions[chosen].asked
        values = self._elements(predicate)
        one = len(values) == 1 and values[0] is not None
        on_entry = Comparison(self.operand, "=", values[0]) if one else In(self.operand, values)
        return [*conditions[:chosen], Condition(predicate, on_entry), *conditions[chosen + 1 :]]

    def _elements(self, predicate: Predicate) -> Sequence[Any]:
        """Elements of which every row that satisfies a condition has at least one; empty if none are known, or if not
        all of them have entries.
        """
        if not isinstance(predicate, Contains) or predicate.field.name != self.of.name:
            return ()
        return () if self.leaves_none_out and None in predicate.values else predicate.values

    @override
    def without_none(self) -> IndexPart:
        field = self.operand
        return evolve(self, operand=evolve(field, nullable=False), leaves_none_out=True) if field.nullable else self

    @property
    @override
    def spec(self) -> Mapping[str, JSON]:
        return {**self.of.derivation, "each": self.of.name}

    @property
    @override
    def description(self) -> str | None:
        return f"each of {self.of.name}{' without None' if self.leaves_none_out else ''}"


@frozen
class EachField(DeclaredPart):
    """A part of an index declared by `each`."""

    name: str
    desc: bool | None = None

    @override
    def resolve(self, fields: Mapping[str, Field]) -> IndexPart:
        field = fields[self.name]
        element = element_of(field)
        if element is None:
            raise DeclarationError(
                "hb.each takes a collection whose annotation names elements that keys can hold: "
                'hb.Column[list[str]] = hb.column("t", hb.Json(list[str])).',
            )
        return EachPart(field, element, bool(self.desc))
