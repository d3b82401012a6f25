"""Updates as they are asked for: checked, encoded, and copied into the object as it will be."""

from __future__ import annotations

from typing import Any

from hbmodel.encoding.codecs.dictionary import claiming
from hbmodel.errors import SessionError
from hbmodel.mapping.mapper import KeyMapper, changed_copy, check_size, encode_cell, key_of, version_of
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import schema_of
from hbmodel.protocol.expiry import milliseconds
from hbmodel.protocol.writes import UpdateFields
from hbmodel.session.batches import Pending
from hbmodel.session.conflicts import check_condition
from hbmodel.session.map_writes import merged_entries
from hbmodel.session.options import check_updated


def update_call(obj: Any, changes: dict[str, Any], condition: Predicate | None) -> Pending:
    """The pending call of an update; see `Session.update`. Its copy is the changed object.

    Args:
        obj: whose key says which row.
        changes: new values by field name, and `ttl`.
        condition: what the row must satisfy, or None.
    """
    schema = schema_of(type(obj))
    check_condition(schema, condition)
    ttl = None if "ttl" in schema.by_name else milliseconds(schema, changes.pop("ttl", None))
    if not changes and ttl is None:
        raise SessionError("update() takes at least one field to change.", table=schema.table)
    if schema.immutable:
        raise SessionError("Rows of an immutable model cannot be updated.", table=schema.table)
    check_updated(schema, changes)
    key = dict(zip(schema.layout.names, key_of(schema, obj), strict=True))
    (row,) = KeyMapper(schema).rows(tuple(key.values()))
    written: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for name, value in changes.items():
        if name in schema.maps_by_name:
            written[name], merged[name] = merged_entries(schema, obj, name, value, row)
            continue
        declared = schema.by_name[name]
        with claiming():
            cell = encode_cell(schema, declared, value)
        check_size(schema, declared, cell, row)
        written[name] = declared.decode_cell(cell)  # as it is now: the caller may change a list before the commit
    version = version_of(schema, obj)
    changed = changed_copy(obj, {**changes, **merged}, version + 1 if version else version)
    if not any(written[name] for name in changes if name in merged) and merged.keys() == changes.keys() and ttl is None:
        raise SessionError("There are no entries to put or to remove: leave the field out.", table=schema.table, field=next(iter(merged)))
    return Pending(schema, obj, [UpdateFields(obj, row, key, written, ttl, version, condition)], copy=changed)
