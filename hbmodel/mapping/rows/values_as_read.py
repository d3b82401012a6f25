"""Converts values and objects to the form that a read returns, in which times are in UTC and are rounded if their codec
rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from hbmodel.encoding.codecs.base import read_back
from hbmodel.mapping.map_columns import MapField
from hbmodel.mapping.rows.mapper import changed_copy, give_version
from hbmodel.mapping.schema import TableSchema, schema_of_object
from hbmodel.mapping.version_cell import UNKNOWN

T = TypeVar("T")


def stored_entries(map_field: MapField, entries: Any) -> Any:
    """Returns the entries of a map column, in the form that a read returns. An argument that is not a mapping is
    returned unchanged, and so are keys and values that cannot be stored.
    """
    if not isinstance(entries, Mapping):
        return entries
    return {read_back(map_field.key, key): map_field.value.read_back(value) for key, value in entries.items()}


def stored_copy(obj: T, changes: Mapping[str, Any], version: int = UNKNOWN) -> T:
    """Returns a copy with some fields changed. All values of the copy have the form that a read returns.

    Args:
        obj: the object; its other fields need not be storable.
        changes: new values by field name. Each of them can be stored, and has the form that a read returns.
        version: the version of the copy, if the model has one.
    """
    schema = schema_of_object(obj)
    return changed_copy(obj, {**_stored_fields(schema, obj), **changes}, version)


def as_written(obj: T, version: int = UNKNOWN) -> T:
    """Returns the object as a read after its put would return it: the object itself, or a copy if a read would return
    different values.

    Args:
        obj: the object, which gets the version.
        version: the version of the row, if the model has one.
    """
    schema = schema_of_object(obj)
    give_version(schema, obj, version)
    read = _stored_fields(schema, obj)
    same = all(_same(value, getattr(obj, name)) for name, value in read.items())
    return obj if same else changed_copy(obj, read, version)


def _same(read: object, written: object) -> bool:
    # An instance of a subclass may equal a value that contains less information: a time with nanoseconds may equal a
    # time without nanoseconds. So the types are compared too.
    return read is written or (type(read) is type(written) and bool(read == written))


def _stored_fields(schema: TableSchema, obj: object) -> dict[str, Any]:
    fields = (field for field in schema.fields if field.kind in {"key", "column"})
    return {
        **{field.name: field.read_back(getattr(obj, field.name)) for field in fields},
        **{name: stored_entries(map_field, getattr(obj, name)) for name, map_field in schema.maps_by_name.items()},
    }
