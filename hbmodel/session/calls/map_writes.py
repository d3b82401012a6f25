"""Turns puts and removals of entries of map columns into changes of an update."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hbmodel.errors import EncodingError, QueryError
from hbmodel.mapping.declare.map_declaration import map_of
from hbmodel.mapping.map_columns import NotLoaded, checked_values
from hbmodel.mapping.rows.values_as_read import stored_entries
from hbmodel.mapping.schema import TableSchema, schema_of_object


def put_changes(obj: object, map_column: object, entries: object) -> dict[str, Any]:
    """Returns the changes of an update that puts entries."""
    return {map_of(schema_of_object(obj), map_column).name: entries}


def remove_changes(obj: object, map_column: object, keys: Iterable[Any]) -> dict[str, Any]:
    """Returns the changes of an update that removes entries."""
    schema = schema_of_object(obj)
    map_field = map_of(schema, map_column)
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise QueryError(
            "Give a collection of map keys.", table=schema.table, field=map_field.name, found=type(keys).__name__
        )
    try:
        return {map_field.name: Removed(dict.fromkeys(keys))}
    except TypeError as error:
        raise EncodingError(
            "Map keys must be hashable.", table=schema.table, field=map_field.name, reason=str(error)
        ) from None


class Removed(dict[Any, None]):
    """Keys of entries to remove."""


def merged_entries(
    schema: TableSchema, loaded: Any, name: str, entries: object, row: bytes
) -> tuple[dict[Any, Any], Any]:
    """Returns the entries to write, in which None means a removal, and the resulting map column of the object.

    Args:
        loaded: the entries in the object, or `NotLoaded`.

    Raises:
        EncodingError: an entry cannot be stored; the error names the field.
    """
    map_field = schema.maps_by_name[name]
    try:
        given: Mapping[Any, Any] = entries if isinstance(entries, Removed) else checked_values(map_field, entries)
        written = map_field.settled(given, row)
    except EncodingError as error:
        raise EncodingError(error.message, **{"table": schema.table, **error.details}) from None
    if loaded is NotLoaded:
        return written, NotLoaded
    merged = {**stored_entries(map_field, loaded), **written}
    return written, {key: value for key, value in merged.items() if value is not None}
