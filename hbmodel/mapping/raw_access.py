"""Raw access: the row key of a model's object and the object of a stored row, for work beside sessions."""

from __future__ import annotations

from typing import Any, TypeVar

from hbmodel.errors import CapabilityError
from hbmodel.mapping.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import schema_of
from hbmodel.store.values import Row

T = TypeVar("T")


def row_key(model: type[Any], /, **key: Any) -> bytes:
    """The row key, salt included, that a model's object is stored under; many objects of a wide model share one.

    Raises:
        IncompleteKey: names the missing key fields.
        CapabilityError: the model has a random salt, so the key fields do not say the bucket.
    """
    schema = schema_of(model)
    if schema.salt.random:
        raise CapabilityError("Under RandomSalt the key fields do not say the bucket.", table=schema.table)
    mapper = KeyMapper(schema)
    place = mapper.rows(mapper.complete(key))[0]
    return place if schema.wide is None else schema.wide.form.cut(place)[0]


def decode(model: type[T], row: Row | None) -> T | None:
    """The object of a row that was read with the model's families; None for a row that is marked as dead, and for None (an absent row).

    Raises:
        IncompleteRow: the row lacks a required column.
        DecodingError: key or cells are not what the model writes.
        CapabilityError: the model is wide, so a row may hold several objects.
    """
    schema = schema_of(model)
    if schema.wide is not None:
        raise CapabilityError("A row of a wide model may hold several objects.", table=schema.table)
    if row is None:
        return None
    reader = RowDecoder(schema, indexed=schema.liveness_column in row.columns)
    if not reader.exists(row):
        return None
    made: T = reader.make(reader.values(row))
    return made
