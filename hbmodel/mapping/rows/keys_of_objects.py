"""Raw access: the row key of a model's object, the fields of a stored key, and the object of a stored row, for work
without a session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hbmodel.encoding.codecs.text import escape
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.encoding.salts import BoundSalt
from hbmodel.errors import CapabilityError, DecodingError, EncodingError, QueryError, RowKeyError
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import Index, TableSchema, schema_of
from hbmodel.store.values import Row
from hbmodel.store.wide.wide_rows import ObjectRow

T = TypeVar("T")


def row_key(model: type[Any], /, **key: Any) -> bytes:
    """Returns the row key, with the salt, under which a model's object is stored; in a wide model many objects share a
    row key.

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


def key_of(model: type[Any], key: bytes, /, *, index: str | Index | None = None) -> dict[str, Any]:
    """Returns the key fields that a row key contains, by name and in key order, without the salt. The row key may come
    from an error, an outcome or a stored row.

    For a wide model, give the object key, which errors and outcomes contain. For the row key of a wide model, the
    result has only the fields that the row key contains completely. If the bytes can be read both as an object key and
    as a row key, they are read as an object key. This ambiguity is possible only if the row key ends with text or bytes
    that contain the bytes 00 01.

    Args:
        model: the model.
        key: the whole key, with the salt.
        index: the name of an index, or the index as a model attribute, if the key is that of an index entry. The result
            then has the fields of the index, followed by the other key fields of the row.

    Raises:
        DecodingError: the model does not write such a key; `table`, `key` and, if it is known, `field` say what is
            wrong.
        EncodingError: the key is not bytes.
        UnknownIndex: the model has no such index.
    """
    schema = schema_of(model)
    if not isinstance(key, bytes):
        raise EncodingError("A row key must be bytes.", table=schema.table, found=type(key).__name__)
    if not key:
        raise DecodingError("No row has an empty key.", table=schema.table, key=key)
    if index is not None:
        entries = schema.index(index)
        return _entry_fields(schema, entries, key)
    try:
        return _object_fields(schema, key)
    except DecodingError as error:
        if schema.wide is not None and (fields := _row_fields(schema, key)) is not None:
            return fields
        raise _at(error, table=schema.table, key=key) from None


def _object_fields(schema: TableSchema, key: bytes) -> dict[str, Any]:
    """Returns the fields of a row key, or of the object key of a wide model."""
    values = schema.layout.unpack(key, schema.salt.width)
    _check_packed(schema.layout, schema.salt, values, key)
    return dict(zip(schema.layout.names, values, strict=True))


def _row_fields(schema: TableSchema, key: bytes) -> dict[str, Any] | None:
    """Returns the fields that the row key of a wide model contains completely, or None if the bytes are not a row key
    of the model.
    """
    layout, salt = schema.layout, schema.salt
    if schema.row_layout is None or not isinstance(layout, ObjectKeyLayout):
        return None
    try:
        values = schema.row_layout.unpack(key, salt.width)
        if layout.halves is not None:
            values = (*values[:-1], layout.halves.joined(values[-1], 0))
        _check_packed(schema.row_layout, salt, values, key, close=escape)
    except DecodingError:
        return None
    whole = layout.rows - (layout.halves is not None)
    return dict(zip(layout.names[:whole], values[:whole], strict=True))


def _entry_fields(schema: TableSchema, index: Index, key: bytes) -> dict[str, Any]:
    """Returns the fields of the key of an index entry."""
    try:
        values = index.layout.unpack(key, index.salt.width)
        tail = key[len(key) - index.layout.tail :]
        if tail and tail not in schema.salt.prefixes:
            raise DecodingError("A stored key does not begin with the prefix of any bucket.", prefix=tail)
        _check_packed(index.layout, index.salt, values, key, tail=tail)
    except DecodingError as error:
        raise _at(error, table=index.table, index=index.name, key=key) from None
    return dict(zip(index.layout.names, values, strict=True))


def _check_packed(
    layout: KeyLayout,
    salt: BoundSalt,
    values: Sequence[Any],
    key: bytes,
    *,
    tail: bytes = b"",
    close: Callable[[bytes], bytes] = bytes,
) -> None:
    """Raises `DecodingError` unless the bytes of the key are exactly those that a model writes for these values.

    Args:
        tail: the bytes after the fields.
        close: a function that converts the packed fields to the form from which the salt is computed.
    """
    bucket = salt.bucket_at(key)
    try:
        parts = layout.pack_parts(values)
        expected = bucket if salt.random else salt.bucket_of([close(part) for part in parts])
    except (EncodingError, RowKeyError) as error:
        raise DecodingError(error.message, **error.details) from None
    if b"".join(parts) + tail != key[salt.width :]:
        raise DecodingError("The model encodes the fields of the key as other bytes.")
    if expected != bucket:
        raise DecodingError(
            "The key does not begin with the bucket that its fields give.", found=bucket, expected=expected
        )


def _at(error: DecodingError, **place: Any) -> DecodingError:
    """Returns a copy of the error with the place of the bytes added to its details."""
    return DecodingError(error.message, **{**place, **error.details})


def decode(model: type[T], row: Row | None) -> T | None:
    """Returns the object in a row, or None if the row is None (absent), has no cell in the model's families, or is
    marked as deleted.

    The row must have been read with all of the model's families. It may also contain cells of other families, which are
    ignored. So several models that share rows can be decoded from the same row, after a single read.

    Raises:
        IncompleteRow: the row lacks a required column.
        DecodingError: key or cells are not in the model's format.
        CapabilityError: the model is wide, so a row may contain several objects.
        QueryError: the argument is not a row.
    """
    schema = schema_of(model)
    if schema.wide is not None:
        raise CapabilityError(
            "A row of a wide model may contain several objects: read them with a query.", table=schema.table
        )
    if row is None:
        return None
    if not hasattr(row, "columns"):
        raise QueryError(
            "Give a row as a store returns it: store.get(table, [key]) returns a list of rows, each of which may be "
            "None. hb.schema.key_of(Model, key) decodes a row key.",
            table=schema.table,
            found=type(row).__name__,
        )
    leads = tuple(family + b":" for family in schema.family_names)
    own = {column: cell for column, cell in row.columns.items() if column.startswith(leads)}
    if not own:
        return None
    row = ObjectRow(row.row, own)
    reader = RowDecoder(schema, indexed=schema.liveness_column in row.columns)
    if not reader.exists(row):
        return None
    obj: T = reader.make(reader.values(row))
    return obj
