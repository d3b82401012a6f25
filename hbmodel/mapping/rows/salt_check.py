"""Refuses rows of external tables that stand in another salt bucket than the model computes from their key."""

from __future__ import annotations

from collections.abc import Callable

from hbmodel.errors import DecodingError
from hbmodel.mapping.schema import TableSchema
from hbmodel.store.values import Row


def checks_salt(schema: TableSchema) -> bool:
    """Whether every row that is read must show that it is in its salt bucket."""
    return schema.external and bool(schema.salt.width) and not schema.salt.random


def with_salt_check(schema: TableSchema, exists: Callable[[Row], bool]) -> Callable[[Row], bool]:
    """A function like `exists` that raises `DecodingError` for a row in a wrong bucket.

    Only another program can have put such a row. The model then declares another hash, another number of buckets or
    other fields than that program uses, so that gets and scans of single buckets miss rows silently.
    """
    salt = schema.salt
    if not checks_salt(schema):
        return exists
    width, bucket, prefixes = salt.width, salt.salt.bucket, salt.prefixes
    if schema.wide is None and salt.by == schema.layout.names:

        def prefix(key: bytes) -> bytes:
            return prefixes[bucket(key[width:])]

    else:
        layout = schema.layout

        def prefix(key: bytes) -> bytes:
            return prefixes[salt.bucket_of(layout.pack_parts(layout.unpack(key, width)))]

    def in_its_bucket(row: Row) -> bool:
        if not exists(row):
            return False
        key = row.row
        try:
            expected = prefix(key)
        except DecodingError as error:
            raise DecodingError(error.message, **{**error.details, "table": schema.table, "key": key}) from None
        if key[:width] != expected:
            raise DecodingError(
                "The row is not in the salt bucket that the model computes from its key: the program that put it has "
                "another hash, number of buckets or fields of the salt. Declare the salt of that program.",
                table=schema.table,
                key=key,
                expected=expected.hex(),
                found=key[:width].hex(),
            )
        return True

    return in_its_bucket
