"""Increments of counters: immediate, and atomic on the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hbmodel.encoding.codecs.dictionary import claiming
from hbmodel.errors import EncodingError, RowNotFound, SessionError, UnknownField
from hbmodel.mapping.expressions import FieldExpression
from hbmodel.mapping.mapper import KeyMapper, RowDecoder, key_of
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.store.checks.numbers import whole_number
from hbmodel.store.port import Store
from hbmodel.tables.registration import Binding


def increment(store: Store, bind: Callable[[TableSchema], Binding], obj: Any, counter: FieldExpression[int], amount: int) -> int:
    """Adds to a counter and returns its new value; see `Session.increment`.

    Args:
        store: the store to write to.
        bind: returns the current binding of a model.
        obj: the object whose key identifies the row.
        counter: the counter, as an attribute of the model class.
        amount: the amount to add.
    """
    schema = schema_of(type(obj))
    if not isinstance(counter, FieldExpression) or schema.by_name.get(counter.of.name) is not counter.of:
        raise UnknownField("increment() takes a counter as an attribute of the model class: Model.field.", table=schema.table)
    if counter.of.kind != "counter":
        raise SessionError(
            "Only a counter can be incremented: declare the field with hb.counter().", table=schema.table, field=counter.of.name
        )
    if schema.immutable:
        raise SessionError(
            "Rows of an immutable model cannot be incremented: declare the model without immutable=True, if nothing else needs it.",
            table=schema.table,
        )
    number = whole_number(amount)
    if number is None or not -(2**63) <= number < 2**63:
        raise EncodingError("A counter can be incremented by whole numbers of 64 bits only.", table=schema.table, field=counter.of.name)
    with claiming():  # it may begin a row
        (row,) = KeyMapper(schema).rows(key_of(schema, obj))
    binding = bind(schema)
    reader = RowDecoder.of(schema, binding.indexed, frozenset(), binding.adopting)
    if binding.indexed or any(f.required for f in schema.columns) or schema.exists_column is not None:
        (found,) = store.get(schema.table, [row], reader.columns)
        if found is None or not reader.exists(found):
            raise RowNotFound("There is no row with this key to increment: add the object first.", table=schema.table, key=row)
    return store.increment(schema.table, row, counter.of.column, number)
