"""Checks that refuse, before any call, requests that a gateway would misinterpret or answer only with "internal
error".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hbmodel.errors import InvalidRequest
from hbmodel.store.checks.numbers import is_plain
from hbmodel.store.values import CELL_OVERHEAD, MAX_CELL_SIZE, MAX_ROW_LENGTH, ConditionalChange, Delete, Get, Put

NO_TABLE = (
    "There is no such table: check its name. hb.create_tables() creates the tables of the models, sequences and "
    "dictionaries that it is given."
)
"""The message of `TableNotFound`."""

NO_FAMILY = "The table has no column family of that name: hb.alter() adds the families that a model declares."
"""The message of `FamilyNotFound`."""


def check_row(table: str, row: bytes) -> None:
    """Raises `InvalidRequest` for a row key of the wrong type, or a key that HBase refuses only with "internal
    error".
    """
    if not isinstance(row, bytes):
        raise InvalidRequest("A row key must be bytes.", table=table, found=type(row).__name__)
    if not row:
        raise InvalidRequest("A row key must not be empty.", table=table)
    if len(row) > MAX_ROW_LENGTH:
        raise InvalidRequest("A row key must not be longer than 32,767 bytes.", table=table, length=len(row))


def check_cells(table: str, row: bytes, cells: Mapping[bytes, bytes]) -> None:
    """Raises `InvalidRequest` for cells of the wrong type, or cells that HBase refuses only with "internal error"."""
    if not cells:
        raise InvalidRequest("A put needs at least one cell.", table=table, key=row)
    for column, value in cells.items():
        if not isinstance(column, bytes) or not isinstance(value, bytes | bytearray | memoryview):
            raise InvalidRequest(
                "Columns and values must be bytes.",
                table=table,
                key=row,
                found=sorted({type(column).__name__, type(value).__name__}),
            )
        if b":" not in column:
            raise InvalidRequest("A column must have the form family:qualifier.", table=table, key=row, column=column)
        if len(row) + len(column) + len(value) + CELL_OVERHEAD > MAX_CELL_SIZE:
            raise InvalidRequest(
                "A cell is larger than the 10 MiB that HBase accepts.", table=table, key=row, column=column
            )


LATEST = 2**63 - 1  # HConstants.LATEST_TIMESTAMP: HBase reads it as "now", so it is not a timestamp


def check_put(table: str, put: Put) -> None:
    """Raises InvalidRequest for a put that HBase cannot execute."""
    check_row(table, put.row)
    check_cells(table, put.row, put.cells)
    check_timestamp(table, put.timestamp)
    if put.ttl is not None and not (is_plain(put.ttl) and 0 < put.ttl < LATEST):
        raise InvalidRequest("A TTL must be a positive whole number of milliseconds.", table=table, ttl=put.ttl)
    for column in put.cells:
        check_column(table, column)


def check_get(table: str, get: Get) -> None:
    """Raises InvalidRequest for a read of a row that HBase cannot execute."""
    check_row(table, get.row)
    check_read_columns(table, get.columns)
    check_timestamp(table, get.before)
    if not isinstance(get.prefix, bytes):
        raise InvalidRequest(
            "A prefix of qualifiers must be bytes.", table=table, key=get.row, found=type(get.prefix).__name__
        )


def check_versions(table: str, row: bytes, columns: Sequence[bytes], limit: int) -> None:
    """Raises InvalidRequest for a read of versions that HBase cannot carry out."""
    check_row(table, row)
    for column in columns:
        check_column(table, column)
    if not (is_plain(limit) and 0 < limit < 2**31):
        raise InvalidRequest("Give the number of versions to read, at least one.", table=table, found=limit)


def check_delete(table: str, delete: Delete) -> None:
    """Raises InvalidRequest for a delete that HBase cannot execute."""
    check_row(table, delete.row)
    check_timestamp(table, delete.timestamp)
    for family in delete.families:
        check_family(table, family)
    for column in delete.columns:
        check_column(table, column)


def check_row_change(table: str, row: bytes, mutations: Sequence[Put | Delete]) -> None:
    """Raises InvalidRequest for an atomic change of several rows, or a change that HBase cannot execute."""
    check_row(table, row)
    for mutation in mutations:
        if mutation.row != row:
            raise InvalidRequest("An atomic change can change only one row.", table=table, key=row)
        if isinstance(mutation, Put):
            check_put(table, mutation)
        else:
            check_delete(table, mutation)


def check_conditional_change(table: str, row: bytes, column: bytes, mutations: Sequence[Put | Delete]) -> None:
    """Raises InvalidRequest for a conditional change that HBase cannot execute."""
    check_column(table, column)
    if not mutations:
        raise InvalidRequest("A conditional change needs at least one mutation.", table=table, key=row)
    check_row_change(table, row, mutations)


def check_conditional_changes(table: str, changes: Sequence[ConditionalChange]) -> None:
    """Calls `check_conditional_change` for each of many changes."""
    for change in changes:
        check_conditional_change(table, change.row, change.column, change.mutations)


def check_conditional_put(table: str, row: bytes, column: bytes, put: Put) -> None:
    """Raises InvalidRequest unless a conditional put has one cell, of the checked row, at the server's time."""
    check_row(table, row)
    check_column(table, column)
    check_put(table, put)
    if put.row != row or len(put.cells) != 1 or put.timestamp is not None:
        raise InvalidRequest(
            "A check-and-put writes one cell of the checked row, without a timestamp.", table=table, key=row
        )


def check_increment(table: str, row: bytes, column: bytes, amount: int) -> None:
    """Raises InvalidRequest for an increment that HBase cannot execute."""
    check_row(table, row)
    check_column(table, column)
    if not -(2**63) <= amount < 2**63:
        raise InvalidRequest("An increment must fit in eight bytes.", table=table, key=row, amount=amount)


def check_timestamp(table: str, timestamp: int | None) -> None:
    """Raises InvalidRequest for a timestamp that HBase does not accept. None means the server's time."""
    if timestamp is not None and not (is_plain(timestamp) and 0 <= timestamp < LATEST):
        raise InvalidRequest(
            "A timestamp must be whole milliseconds since 1970, below 2**63 - 1.", table=table, timestamp=timestamp
        )


def check_column(table: str, column: bytes) -> None:
    """Raises InvalidRequest for a column without a colon or without a family."""
    if not isinstance(column, bytes) or column.find(b":") < 1:
        raise InvalidRequest("A column must have the form family:qualifier.", table=table, column=column)


def check_family(table: str, family: bytes) -> None:
    """Raises InvalidRequest for a family name that is empty or holds a colon."""
    if not family or b":" in family:
        raise InvalidRequest("A column family must have a name, without a colon.", table=table, family=family)


def check_rows(table: str, rows: Sequence[bytes]) -> int:
    """Calls `check_row` for many row keys, optimised for valid keys. Returns their total size in bytes."""
    if len(rows) == 1:
        check_row(table, rows[0])
        return len(rows[0])
    lengths = [len(row) for row in rows if type(row) is bytes]
    if len(lengths) < len(rows) or (lengths and not 0 < min(lengths) <= max(lengths) <= MAX_ROW_LENGTH):
        for row in rows:
            check_row(table, row)
        return sum(map(len, rows))
    return sum(lengths)


def check_read_columns(table: str, columns: Sequence[bytes]) -> None:
    """Raises InvalidRequest for a column that is neither `family` nor `family:qualifier`."""
    for column in columns:
        if not isinstance(column, bytes) or not column or column.startswith(b":"):
            raise InvalidRequest("A column must have the form family or family:qualifier.", table=table, column=column)
