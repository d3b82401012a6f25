"""Translates a query on a model for the table of the earlier model that it replaces.

The fields of the earlier model may have other codecs, and its table may have other indexes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen
from typing_extensions import override

from hbmodel.errors import EncodingError, OrderNotAvailable, QueryError
from hbmodel.mapping.collection_elements import element_of
from hbmodel.mapping.declare.computed import ComputedField
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.model_field import Field
from hbmodel.mapping.predicates import (
    And,
    Comparison,
    Contains,
    In,
    Not,
    Or,
    Ordering,
    Predicate,
    StartsWith,
    Test,
    is_nan,
)
from hbmodel.mapping.schema import PRIMARY, TableSchema
from hbmodel.query.ask.query_partition import described, rebuilt
from hbmodel.query.ask.terms import QueryTerms

Leaf = Comparison | In | StartsWith | Contains

_ORDERED: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def in_replaced_layout(terms: QueryTerms, layout: TableSchema) -> QueryTerms:
    """Returns a query that finds the objects of a model in the table that the model replaces.

    The values in conditions are encoded with the codecs of that table. If a codec cannot store a value, no row has the
    value. If the query names an index that the table does not have, the planner chooses the path.

    Raises:
        OrderNotAvailable: the query is ordered by a computed field that the replaced model does not declare.
    """
    index = terms.index_name
    if index is not None and index != PRIMARY and index not in layout.indexes:
        index = None
    selection = None if terms.selection is None else tuple(_field(field, layout) for field in terms.selection)
    predicate = None if terms.predicate is None else _translated(terms.predicate, layout)
    ordering = tuple(_ordering(part, layout) for part in terms.ordering)
    return evolve(terms, schema=layout, predicate=predicate, ordering=ordering, selection=selection, index_name=index)


def _field(field: Field, layout: TableSchema) -> Field:
    """Returns the field of the layout with the same name. A computed field that the layout does not declare in the same
    way is computed from the values in rows of the layout.
    """
    if not isinstance(field, ComputedField):
        return layout.by_name[field.name]
    other = layout.by_name.get(field.name)
    if other is not None and other.derivation == field.derivation:
        return other
    return evolve(field, forms=(_as_it_is,) * len(field.of))


def _as_it_is(value: Any) -> Any:
    return value


def _ordering(part: Ordering, layout: TableSchema) -> Ordering:
    field = _field(part.field, layout)
    if field is not layout.by_name.get(field.name):
        raise OrderNotAvailable(
            "The objects are still in the table that the model replaces, and neither the key nor an index of that "
            "table gives this order: sort the items yourself, or wait until the migration has begun.",
            table=layout.table,
            fields=[field.name],
        )
    return Ordering(field, part.desc)


def _translated(predicate: Predicate, layout: TableSchema) -> Predicate:
    match predicate:
        case And(parts):
            return And(tuple(_translated(part, layout) for part in parts))
        case Or(parts):
            return Or(tuple(_translated(part, layout) for part in parts))
        case Not((part,)):
            return Not((_translated(part, layout),))
        case Comparison() | In() | StartsWith() | Contains():
            return _leaf(predicate, _field(predicate.field, layout), layout)
    raise AssertionError(predicate)


def _leaf(leaf: Leaf, field: Field, layout: TableSchema) -> Predicate:
    if field is not layout.by_name.get(
        field.name
    ):  # no index of the layout contains a field that only the model computes
        return OnValues(evolve(leaf, field=field), field)
    if field.codec.spec == leaf.field.codec.spec:
        return rebuilt(layout, described(leaf))  # the layout may decode these bytes to another type
    try:
        return _by_value(leaf, FieldExpression[Any](of=field, model=layout.model.__name__))
    except (EncodingError, QueryError):  # the layout's codec cannot express the condition
        return OnValues(leaf, field)


def _by_value(leaf: Leaf, field: FieldExpression[Any]) -> Predicate:
    match leaf:
        case Comparison(_, "=", value):
            return In(field.of, _stored(field, (value,)))
        case Comparison(_, "!=", value):
            return Not((In(field.of, _stored(field, (value,))),))
        case Comparison(_, ordered, value):
            condition: Predicate = _ORDERED[ordered](field, value)
            return condition
        case In(_, values):
            return In(field.of, _stored(field, values))
        case StartsWith(_, prefix):
            return field.startswith(prefix)
        case Contains(_, _, values):
            element = element_of(field.of)
            if element is None:
                return OnValues(leaf, field.of)
            return Contains(field.of, element, _stored(FieldExpression[Any](of=element), values))
    raise AssertionError(leaf)


def _stored(field: FieldExpression[Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the given values that rows of the layout can hold exactly."""
    stored_values: list[Any] = []
    for value in values:
        if value is None and not field.of.nullable:
            continue
        try:
            stored = field.checked(value)
        except EncodingError:
            continue
        if stored == value or (is_nan(stored) and is_nan(value)):  # otherwise the codec would round the value
            stored_values.append(stored)
    return tuple(stored_values)


@frozen(eq=False, repr=False)
class OnValues(Predicate):
    """A condition of the model that the layout's codecs cannot express. It is tested on the values that were read."""

    tested: Predicate
    field: Field

    @override
    def test(self) -> Test:
        return self.tested.test()

    @override
    def fields(self) -> tuple[Field, ...]:
        return (self.field,)

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("values", self.tested.canonical())
