"""Functions that return the constructor arguments of an object as a dictionary, and copies of an object with some
fields changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import attrs

from hbmodel.errors import HbmodelError, UnknownField
from hbmodel.mapping.declare.model import VERSION_ARGUMENT
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.map_columns import NotLoaded
from hbmodel.mapping.missing_entries import is_constructed, of_the_same_row
from hbmodel.mapping.schema import TableSchema, schema_of_object
from hbmodel.mapping.version_cell import UNKNOWN

T = TypeVar("T")


def asdict(obj: object) -> dict[str, Any]:
    """Returns the constructor arguments of an object, by name: `Model(**hb.asdict(obj)) == obj` except for counters.

    The dictionary does not contain counters, the version or computed fields. A map column that was not read is
    `NotLoaded`, so that writing an object made from the dictionary raises an error instead of losing entries. Values
    are not copied, except for the dictionaries of map columns.
    """
    schema = schema_of_object(obj)
    maps = {name: getattr(obj, name) for name in schema.maps_by_name}
    return {
        **{name: getattr(obj, name) for name in _taken(schema)},
        **{name: entries if entries is NotLoaded else dict(entries) for name, entries in maps.items()},
    }


def evolve(obj: T, /, **changes: Any) -> T:
    """Returns a copy with some fields changed; nothing is written.

    Counters of the copy are zero. The copy keeps the version with which the object was read, unless its key changes.
    If the key changes and a map column was not read, the copy cannot be added, because the new row would lack the
    entries.

    Args:
        obj: the object.
        **changes: new values by field name, of key fields, columns and map columns.

    Raises:
        UnknownField: there is no such field, or the constructor does not accept it.
    """
    schema = schema_of_object(obj)
    check_taken(schema, changes)
    moved = any(_differs(schema, obj, name, changes) for name in schema.layout.names)
    if schema.version_field is not None and moved:
        changes[VERSION_ARGUMENT.format(name=schema.version_field.name)] = UNKNOWN
    changed: T = attrs.evolve(obj, **changes)  # type: ignore[misc]
    if not moved and not is_constructed(obj):
        of_the_same_row(changed)
    return changed


def check_taken(schema: TableSchema, names: Iterable[str], *, but: str | None = None) -> None:
    """Raises `UnknownField` for a name that the constructor does not accept. The error does not list the field `but`
    as a known one.
    """
    taken = _taken(schema)
    for name in names:
        if name in taken or name in schema.maps_by_name:
            continue
        if name not in schema.by_name:
            known = sorted({*taken, *schema.maps_by_name} - {but})
            raise UnknownField("The model has no such field.", table=schema.table, field=name, known=known)
        raise UnknownField(
            "The constructor does not accept this field: increment() changes a counter, a commit sets the version, "
            "and a computed field is computed from other fields.",
            table=schema.table,
            field=name,
        )


def _differs(schema: TableSchema, obj: object, name: str, changes: dict[str, Any]) -> bool:
    """Whether the stored value of a key field changes."""
    if name not in changes:
        return False
    field = FieldExpression[Any](of=schema.by_name[name])
    try:
        return bool(field.checked(changes[name]) != field.checked(getattr(obj, name)))
    except HbmodelError:  # no row has such a key
        return True


def _taken(schema: TableSchema) -> list[str]:
    return [field.name for field in schema.fields if field.kind in {"key", "column"}]
