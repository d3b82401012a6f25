"""Decides which objects without the entries of their map columns may be written without losing entries.

An object that was read without a map column may be put into its own row again, because the put leaves the entries in
the row. An object that a program constructs without the entries must not be put, because a new row would lack them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from hbmodel.errors import SessionError
from hbmodel.mapping.map_columns import NotLoaded, Taken
from hbmodel.mapping.schema import TableSchema

_CONSTRUCTED: Final = "_hbmodel_constructed_without_entries"
"""The key of a mark in the dictionary of an object whose constructor was given `NotLoaded`."""


def note_missing_entries(obj: object, _: object, entries: object) -> None:
    """Marks an object whose constructor was given `NotLoaded`. This is the attrs validator of map columns."""
    if entries is NotLoaded:
        vars(obj)[_CONSTRUCTED] = True


def of_the_same_row(obj: object) -> None:
    """Removes the mark from a copy that belongs to the row of an object that was read."""
    vars(obj).pop(_CONSTRUCTED, None)


def is_constructed(obj: object) -> bool:
    """Whether the object was constructed by a program and lacks entries."""
    return _CONSTRUCTED in vars(obj)


def with_known_entries(schema: TableSchema, take: Callable[[Any], Taken]) -> Callable[[Any], Taken]:
    """Extends `take`, which returns the data of an object to write: it refuses a constructed object that lacks
    entries.
    """
    if not schema.maps:
        return take

    def taken(obj: Any) -> Taken:
        if _CONSTRUCTED in vars(obj):
            check_loaded(schema, obj)
        return take(obj)

    return taken


def check_loaded(schema: TableSchema, obj: object) -> None:
    """Raises `SessionError` for an object that lacks the entries of a map column. This is the check for puts into new
    rows.
    """
    for map_field in schema.maps:
        if getattr(obj, map_field.name) is NotLoaded:
            _refuse(schema, map_field.name)


def _refuse(schema: TableSchema, name: str) -> NoReturn:
    raise SessionError(
        "The new row would lack the entries of the map column, because an object was read without them: add "
        ".load(Model.field) to the query that reads it, or give the entries. For a changed copy in the same row, use "
        "hb.evolve().",
        table=schema.table,
        field=name,
    )
