"""Puts an object before the first row of its key prefix, for `Session.prepend`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from hbmodel.encoding.codecs.dictionary import claiming
from hbmodel.errors import SessionError
from hbmodel.mapping.missing_entries import check_loaded
from hbmodel.mapping.rows.mapper import RowDecoder, changed_copy
from hbmodel.mapping.rows.object_copies import check_taken
from hbmodel.mapping.schema import schema_of
from hbmodel.protocol.operations import Protocol
from hbmodel.protocol.prepend import KeyPrefix, prepend_row
from hbmodel.protocol.writes import put_object
from hbmodel.session.calls.insert import Attempt, Inserter
from hbmodel.tables.registry.registration import Binding

T = TypeVar("T")


def prepend(by: Inserter, model: type[T], fields: Mapping[str, Any]) -> T:
    """Puts an object before the first row of its prefix and returns it; see `Session.prepend`."""
    schema = schema_of(model)
    last = schema.layout.names[-1]
    if last in fields:
        raise SessionError(
            "prepend() sets the last key field itself: leave it out, or use insert() to choose its value.",
            table=schema.table,
            field=last,
        )
    check_taken(schema, fields, but=last)
    missing = [field.name for field in schema.columns if field.required and field.name not in fields]
    if missing:
        raise SessionError(
            "prepend() puts a new row, so it needs each column that has no default: give them.",
            table=schema.table,
            missing=missing,
        )
    with claiming():  # names in the object may be new, and then get ids
        prefix = KeyPrefix.of(schema, fields)
    by.pending.check_ranges("prepend", schema, prefix.ranges)
    blank = model(**fields, **{last: prefix.order.last})
    check_loaded(schema, blank)
    attempts: list[Attempt[T]] = []

    def attempt(number: int) -> Attempt[T]:
        obj = changed_copy(blank, {last: number})
        return Attempt(by, obj, put_object(schema, obj))

    def begin(binding: Binding) -> Protocol[Any]:
        # an object that cannot be stored, or that this store cannot insert, is refused before any call
        attempt(prefix.order.last).protocol(binding)

        def insert(number: int) -> Protocol[Any]:
            attempts[:] = [attempt(number)]
            return attempts[0].protocol(binding)

        reader = RowDecoder.of(schema, binding.indexed, frozenset(), binding.adopting)
        return prepend_row(prefix, reader, insert)

    return by.carry_out(schema, begin, lambda: attempts[0] if attempts else None)
