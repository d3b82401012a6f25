"""Prepares updates by checking and encoding the changes, and by copying them into the resulting object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hbmodel.encoding.codecs.dictionary import claiming
from hbmodel.errors import SessionError
from hbmodel.mapping.map_columns import NotLoaded
from hbmodel.mapping.next_version import NextVersion
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.rows.mapper import KeyMapper, check_size, encode_cell, key_of, version_of
from hbmodel.mapping.rows.values_as_read import stored_copy
from hbmodel.mapping.schema import TableSchema, schema_of_object
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.protocol.expiry import milliseconds
from hbmodel.protocol.writes import UpdateFields
from hbmodel.session.calls.map_writes import merged_entries
from hbmodel.session.commit.batches import Pending, held_version
from hbmodel.session.commit.conflict_retries import check_condition
from hbmodel.session.options import check_updated


def update_call(obj: Any, changes: dict[str, Any], condition: Predicate | None) -> Pending:
    """Returns the pending call of an update, whose `copy` is the changed object; see `Session.update`."""
    schema = schema_of_object(obj)
    version = version_of(schema, obj)
    update, merged = _update(schema, obj, key_of(schema, obj), changes, condition, version, partial(getattr, obj))
    read = {
        name: merged[name] if name in merged else schema.by_name[name].read_back(value)
        for name, value in changes.items()
    }
    following = NextVersion(held_version(schema, obj) or version) if version else None
    changed = stored_copy(obj, read, UNKNOWN if following is None else following)
    return Pending(schema, obj, [update], copy=changed, following=following)


def update_key_call(schema: TableSchema, fields: Mapping[str, Any], condition: Predicate | None) -> Pending:
    """Returns the pending call of an update by key; see `Session.update_key`."""
    key = {name: fields[name] for name in schema.layout.names if name in fields}
    changes = {name: value for name, value in fields.items() if name not in key}
    if len(key) < len(schema.layout.names):  # one of these names may be a misspelt key field
        check_updated(schema, [name for name in changes if name != "ttl"])
    update, _ = _update(
        schema, key, KeyMapper(schema).complete(key), changes, condition, UNKNOWN, lambda name: NotLoaded
    )
    return Pending(schema, key, [update])


def _update(
    schema: TableSchema,
    subject: Any,
    values: tuple[Any, ...],
    changes: dict[str, Any],
    condition: Predicate | None,
    version: int,
    loaded: Callable[[str], Any],
) -> tuple[UpdateFields, dict[str, Any]]:
    """Returns the write of an update, and the resulting contents of the map columns that it changes.

    Args:
        subject: the object or key that is named in outcomes and errors.
        changes: new values by field name. `ttl` is removed from them.
        loaded: returns the entries of a map column by its name, or `NotLoaded`.
    """
    check_condition(schema, condition)
    misplaced = next((name for name, value in changes.items() if isinstance(value, Predicate)), None)
    if misplaced is not None:
        raise SessionError(
            "A condition was given as the value of a field: pass it as condition=Model.field == value.",
            table=schema.table,
            field=misplaced,
        )
    ttl = None if "ttl" in schema.by_name else milliseconds(schema, changes.pop("ttl", None))
    if not changes and ttl is None:
        raise SessionError("update() takes at least one field to change.", table=schema.table)
    if schema.immutable:
        raise SessionError(
            "Rows of an immutable model cannot be updated: put a new object under another key, or declare the "
            "model without immutable=True.",
            table=schema.table,
        )
    check_updated(schema, changes)
    key = dict(zip(schema.layout.names, values, strict=True))
    (row,) = KeyMapper(schema).rows(values)
    written: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for name, value in changes.items():
        if name in schema.maps_by_name:
            written[name], merged[name] = merged_entries(schema, loaded(name), name, value, row)
            continue
        declared = schema.by_name[name]
        with claiming():
            cell = encode_cell(schema, declared, value)
        check_size(schema, declared, cell, row)
        written[name] = declared.decode_cell(cell)  # not `value`: the caller may change it later
    if not any(written[name] for name in changes if name in merged) and merged.keys() == changes.keys() and ttl is None:
        raise SessionError(
            "There are no entries to put or to remove: leave out the field.",
            table=schema.table,
            field=next(iter(merged)),
        )
    return UpdateFields(subject, row, key, written, ttl, version, condition), merged
