"""Refuses what a model of an external table would otherwise leave out silently: rows in a salt bucket that differs from
the one computed from their key, and cells of wide rows whose qualifiers cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable

from hbmodel.errors import DecodingError
from hbmodel.mapping.schema import STAMP_QUALIFIER, TableSchema
from hbmodel.store.values import Row
from hbmodel.store.wide.wide_rows import STRANGE


def checks_rows(schema: TableSchema) -> bool:
    """Whether rows of the model must be checked when they are read."""
    return _checks_salt(schema) or _is_strict(schema)


def _checks_salt(schema: TableSchema) -> bool:
    return schema.external and bool(schema.salt.width) and not schema.salt.random


def _is_strict(schema: TableSchema) -> bool:
    return schema.wide_rows is not None and schema.wide_rows.strict


def with_row_check(schema: TableSchema, exists: Callable[[Row], bool]) -> Callable[[Row], bool]:
    """Returns a function that works like `exists`, but raises `DecodingError` for rows and cells that the model cannot
    read; see `checks_rows`.
    """
    return _with_salt_check(schema, _with_qualifier_check(schema, exists))


def _with_qualifier_check(schema: TableSchema, exists: Callable[[Row], bool]) -> Callable[[Row], bool]:
    if not _is_strict(schema) or schema.wide is None:
        return exists
    cut, prefix_end = schema.wide.form.cut, schema.wide.prefix_end

    def is_object(row: Row) -> bool:
        if STRANGE not in row.columns:
            return exists(row)
        qualifier = cut(row.row)[1]
        at = qualifier.find(STAMP_QUALIFIER)
        while at >= 0:
            if prefix_end(qualifier[:at]) == at:
                return False  # a session that is just writing the object has put this cell, and will remove the cell
            at = qualifier.find(STAMP_QUALIFIER, at + 1)
        raise DecodingError(
            "A qualifier cannot be read as the key fields of an object. Declare the fields in the qualifier in the "
            "same way as the program that put it. If only the cells of a required column are objects, name this "
            "column with exists=: other cells are then left out.",
            table=schema.table,
            key=row.row,
            column=qualifier,
        )

    return is_object


def _with_salt_check(schema: TableSchema, exists: Callable[[Row], bool]) -> Callable[[Row], bool]:
    """Returns a function that works like `exists`, but raises `DecodingError` for a row in a wrong bucket.

    Only another program can have put such a row. Such a row shows that the hash, the number of buckets or the salted
    fields that the model declares differ from those that the program uses. Gets and scans of single buckets would
    silently miss rows of that program.
    """
    salt = schema.salt
    if not _checks_salt(schema):
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
                "The row is not in the salt bucket that the model computes from its key: the program that put it uses "
                "another hash, another number of buckets, or other fields for the salt. Declare the salt of that "
                "program.",
                table=schema.table,
                key=key,
                expected=expected.hex(),
                found=key[:width].hex(),
            )
        return True

    return in_its_bucket
