"""Raw access: the row key of a model's object and the object of a stored row, for work without a session."""

from __future__ import annotations

from typing import Any, TypeVar

from hbmodel.errors import CapabilityError
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import schema_of
from hbmodel.store.values import Row

T = TypeVar("T")


def row_key(model: type[Any], /, **key: Any) -> bytes:
    """The row key, with the salt, under which a model's object is stored; in a wide model many objects share a row key.

    Raises:
        IncompleteKey: key fields are missing; the error names them.
        CapabilityError: the model has a random salt, so the key fields do not determine the bucket.
    """
    schema = schema_of(model)
    if schema.salt.random:
        raise CapabilityError(
            "Under RandomSalt the row key cannot be computed from the key fields: read the object with session.get().",
            table=schema.table,
        )
    mapper = KeyMapper(schema)
    place = mapper.rows(mapper.complete(key))[0]
    return place if schema.wide is None else schema.wide.form.cut(place)[0]


def decode(model: type[T], row: Row | None) -> T | None:
    """The object in a row that was read with the model's families; None for an absent row (None) or one marked as
    deleted.

    Raises:
        IncompleteRow: the row lacks a required column.
        DecodingError: key or cells are not in the model's format.
        CapabilityError: the model is wide, so a row may contain several objects.
    """
    schema = schema_of(model)
    if schema.wide is not None:
        raise CapabilityError(
            "A row of a wide model may contain several objects: read them with a query.", table=schema.table
        )
    if row is None:
        return None
    reader = RowDecoder(schema, indexed=schema.liveness_column in row.columns)
    if not reader.exists(row):
        return None
    obj: T = reader.make(reader.values(row))
    return obj
