"""Puts and removals of entries of map columns, as changes of an update."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hbmodel.errors import EncodingError, QueryError
from hbmodel.mapping.map_columns import NotLoaded, checked_values
from hbmodel.mapping.map_declaration import map_of
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.mapping.values_as_read import stored_entries


def put_changes(obj: object, of: object, entries: object) -> dict[str, Any]:
    """The changes of an update that puts entries."""
    return {map_of(schema_of(type(obj)), of).name: entries}


def remove_changes(obj: object, of: object, keys: Iterable[Any]) -> dict[str, Any]:
    """The changes of an update that removes entries."""
    schema = schema_of(type(obj))
    found = map_of(schema, of)
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise QueryError(
            "Give a collection of map keys.", table=schema.table, field=found.name, found=type(keys).__name__
        )
    try:
        return {found.name: Removed(dict.fromkeys(keys))}
    except TypeError as error:
        raise EncodingError("A map key is hashable.", table=schema.table, field=found.name, reason=str(error)) from None


class Removed(dict[Any, None]):
    """Keys of entries to remove."""


def merged_entries(
    schema: TableSchema, held: Any, name: str, entries: object, row: bytes
) -> tuple[dict[Any, Any], Any]:
    """The entries to write, with None as the value of those to remove, and the resulting map column of the object.

    Args:
        held: the entries of the object, or `NotLoaded`.

    Raises:
        EncodingError: an entry cannot be stored; names the field.
    """
    of = schema.maps_by_name[name]
    try:
        asked: Mapping[Any, Any] = entries if isinstance(entries, Removed) else checked_values(of, entries)
        written = of.settled(asked, row)
    except EncodingError as error:
        raise EncodingError(error.message, **{"table": schema.table, **error.details}) from None
    if held is NotLoaded:
        return written, NotLoaded
    merged = {**stored_entries(of, held), **written}
    return written, {key: value for key, value in merged.items() if value is not None}
