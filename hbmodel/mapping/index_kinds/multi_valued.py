"""The multi-valued kind of index part: one entry for each different element of a collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen
from typing_extensions import override

from hbmodel.encoding.codecs.base import JSON
from hbmodel.errors import DeclarationError
from hbmodel.mapping.collection_elements import element_of
from hbmodel.mapping.index_kinds.asked_elements import elements_asked_for
from hbmodel.mapping.index_kinds.base import Condition, DeclaredPart, IndexPart
from hbmodel.mapping.model_field import Field, Values
from hbmodel.mapping.predicates import Comparison, Contains, In, Predicate


@frozen
class EachPart(IndexPart):
    """A part that contains each element of a field's value. Rows whose value is None or empty have no entries.

    Attributes:
        leaves_none_out: whether elements that are None have no entries.
        chosen: a function that leaves out elements that a query does not ask for. None if the part has all elements.
    """

    of: Field
    operand: Field
    desc: bool
    leaves_none_out: bool = False
    required: Sequence[Predicate] = ()
    chosen: Callable[[Iterable[Any]], Sequence[Any]] | None = field(default=None, eq=False, repr=False)

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
        if self.chosen is not None:
            elements = self.chosen(elements)
        return [element for element in elements if element is not None or not self.leaves_none_out]

    @override
    def asked_for(self, asked: Sequence[Any], pack: Callable[[Any], bytes]) -> IndexPart:
        chosen = elements_asked_for(self.operand.codec, asked, pack)
        return self if chosen is None else evolve(self, chosen=chosen)

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
        """Returns a set of elements such that every row that satisfies the condition has at least one of them. The
        result is empty if no such set is known, or if some element in the set has no entry.
        """
        if not isinstance(predicate, Contains) or predicate.field.name != self.of.name:
            return ()
        return () if self.leaves_none_out and None in predicate.values else predicate.values

    @override
    def without_none(self) -> IndexPart:
        if not self.operand.nullable:
            return self
        return evolve(self, operand=evolve(self.operand, nullable=False), leaves_none_out=True)

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
        collection = fields[self.name]
        element = element_of(collection)
        if element is None:
            raise DeclarationError(
                "hb.each takes a collection whose annotation names elements that keys can hold: "
                'hb.Column[list[str]] = hb.column("t", hb.Json(list[str])).',
            )
        return EachPart(collection, element, bool(self.desc))
