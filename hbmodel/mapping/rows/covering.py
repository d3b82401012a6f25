"""Covering index entries, which can answer queries without a read of their rows: their status cells, and the fields
that they contain.

An entry is put with the status 00 and the nonce of its write. Once the write is acknowledged, the status becomes 01
with the same nonce: the entry is verified. A later write of the row first marks the entry: it puts a status 00 with its
own nonce.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from attrs import frozen

from hbmodel.errors import DecodingError, IncompleteRow
from hbmodel.mapping.rows.mapper import Values
from hbmodel.mapping.rows.row_codegen import compile_decode
from hbmodel.mapping.schema import Field, Index, TableSchema
from hbmodel.mapping.version_cell import NONCE_LENGTH
from hbmodel.store.values import Put, Row

UNVERIFIED, VERIFIED = b"\x00", b"\x01"
"""The first byte of the status cell of an entry. It is followed by the nonce of the write that put the cell."""


def unverified(version: bytes) -> bytes:
    """Returns the status of an entry that must be checked against its row. The argument is the version cell of the
    entry.
    """
    return UNVERIFIED + version[-NONCE_LENGTH:]


def verified(version: bytes) -> bytes:
    """Returns the status of an entry that needs no check against its row. The argument is the version cell of the
    entry.
    """
    return VERIFIED + version[-NONCE_LENGTH:]


def verification(schema: TableSchema, put: Put) -> Put:
    """Returns the mutation that verifies the entry that `put` has put. The mutation has exactly the timestamp of `put`,
    so that the mark of a later write has a higher timestamp.
    """
    return Put(put.row, {schema.status_column: verified(put.cells[schema.version_column])}, put.timestamp)


def is_bare(schema: TableSchema, entry: Row) -> bool:
    """Whether an entry was deleted, so that only its mark is left."""
    return schema.version_column not in entry.columns


def verified_test(schema: TableSchema) -> Callable[[Row], bool]:
    """Returns a function that tells whether an entry is verified: its status is 01 and has the nonce of its version
    cell.
    """
    status_column, version_column = schema.status_column, schema.version_column

    def is_verified(entry: Row) -> bool:
        cells = entry.columns
        status, version = cells.get(status_column), cells.get(version_column)
        return status is not None and version is not None and status.value == VERIFIED + version.value[-NONCE_LENGTH:]

    return is_verified


def is_verified(schema: TableSchema, entry: Row) -> bool:
    """Whether an entry is verified; see `verified_test`."""
    return verified_test(schema)(entry)


def fields_held(schema: TableSchema, index: Index) -> frozenset[str]:
    """Returns the names of the fields whose values an entry contains.

    The version is included only if every write that increments the version also puts the entry again. This has two
    conditions. The entry must contain all columns of all programs. And the model must not have a unique index, because
    claims of unique values increment the version without putting the entry.
    """
    stored = frozenset(f.name for f in schema.fields)
    in_entries = (frozenset(index.layout.names) & stored) | frozenset(index.covers)
    version = schema.version_field
    columns = frozenset(f.name for f in schema.columns if f.kind == "column")
    unique = any(other.unique for other in schema.indexes.values())
    whole = index.schema_complete and columns <= in_entries and not unique
    return in_entries | {version.name} if version is not None and whole else in_entries


@frozen(eq=False)
class EntryDecoder:
    """Decodes verified entries of one index, for one set of fields.

    Attributes:
        index: a covering index.
        names: the wanted fields, which entries must contain; None means all fields of the model.
    """

    schema: TableSchema
    index: Index
    names: frozenset[str] | None = None

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields that are decoded from the cells of an entry, and not from its key."""
        in_key = frozenset(self.index.layout.names)
        return tuple(
            f for f in self.schema.columns if f.name not in in_key and (self.names is None or f.name in self.names)
        )

    @cached_property
    def columns(self) -> tuple[bytes, ...]:
        """The columns that must be read from an entry."""
        schema = self.schema
        return tuple(sorted({schema.version_column, schema.status_column, *(f.column for f in self.fields)}))

    @cached_property
    def scanned(self) -> tuple[bytes, ...]:
        """The columns that a scan of the index requests: whole families, unless the index is unique or covers columns
        that are not wanted and may be large.

        A region server needs about 9 microseconds more for a row if it selects columns by name than if it returns the
        whole row.
        """
        in_key = frozenset(self.index.layout.names)
        if self.index.unique or {
            self.schema.by_name[name].column for name in self.index.covers if name not in in_key
        } - {*self.columns}:
            return self.columns
        return tuple(sorted({column.partition(b":")[0] for column in self.columns}))

    @cached_property
    def values(self) -> Callable[[Row], Values]:
        """Decodes the key and the wanted cells of a verified entry. Raises `IncompleteRow` or `DecodingError` if this
        is not possible.
        """
        schema, key = self.schema, ("entry values", self.index.name, self.names)
        decode: Callable[[Row], Values] | None = schema.compiled.get(key)
        return (
            schema.keep(key, compile_decode(schema, self.fields, self.values_slow, self.index))
            if decode is None
            else decode
        )

    def values_slow(self, entry: Row) -> Values:
        """Does the same as `values`, but field by field, which is slower and reports the cause of an error in an
        entry.
        """
        index = self.index
        name: str | None = None
        column: bytes | None = None
        try:
            in_key = zip(index.layout.names, index.layout.unpack(entry.row, index.salt.width), strict=True)
            values = {name: value for name, value in in_key if name not in index.derived}
            for field in self.fields:
                name, column = field.name, field.column
                cell = entry.columns.get(field.column)
                if cell is not None and (cell.value or not field.empty_is_missing):
                    values[name] = field.decode_cell(cell.value)
                elif not field.required:
                    values[name] = field.default_value()
                else:
                    raise IncompleteRow(
                        "The entry lacks a covered column: write its object again, or drop the index and build it.",
                        table=index.table,
                        key=entry.row,
                        field=name,
                        column=column,
                    )
        except DecodingError as error:
            details = {
                **error.details,
                "table": index.table,
                "key": entry.row,
                "field": error.details.get("field", name),
                "column": column,
            }
            raise DecodingError(error.message, **details) from None
        return values
