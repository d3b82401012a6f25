"""What an object's constructor takes: as a dictionary, and for a copy with some fields changed."""

from __future__ import annotations

from typing import Any, TypeVar

import attrs

from hbmodel.errors import UnknownField
from hbmodel.mapping.map_columns import NotLoaded
from hbmodel.mapping.model import VERSION_ARGUMENT
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.mapping.version_cell import UNKNOWN

T = TypeVar("T")


def asdict(obj: object) -> dict[str, Any]:
    """The fields of an object by name, as its constructor takes them: `Model(**hb.asdict(obj)) == obj` but for counters.

    Counters, the version and computed fields are not in it, nor map columns that were not read. Values are not copied, apart from the
    dictionaries of map columns.
    """
    schema = schema_of(type(obj))
    maps = {name: getattr(obj, name) for name in schema.maps_by_name}
    return {
        **{name: getattr(obj, name) for name in _taken(schema)},
        **{name: dict(entries) for name, entries in maps.items() if entries is not NotLoaded},
    }


def evolve(obj: T, /, **changes: Any) -> T:
    """A copy with some fields changed; nothing is written.

    Counters are zero in it. It keeps the version that the object was read with, unless its key is another one.

    Args:
        obj: the object.
        **changes: new values by field name, of key fields, columns and map columns.

    Raises:
        UnknownField: there is no such field, or the constructor does not take it.
    """
    schema = schema_of(type(obj))
    for name in changes:
        if name not in schema.maps_by_name and name not in _taken(schema):
            schema.field(name)
            raise UnknownField(
                "The constructor does not take this field: increment() changes a counter, a commit gives the version, and a computed "
                "field follows from others.",
                table=schema.table, field=name,
            )  # fmt: skip
    moved = any(name in changes and changes[name] != getattr(obj, name) for name in schema.layout.names)
    if schema.version_field is not None and moved:
        changes[VERSION_ARGUMENT.format(name=schema.version_field.name)] = UNKNOWN
    changed: T = attrs.evolve(obj, **changes)  # type: ignore[misc]
    return changed


def _taken(schema: TableSchema) -> list[str]:
    return [of.name for of in schema.fields if of.kind in {"key", "column"}]
