"""Cells that may be ahead of their server's clock, and the deletes that hide them in rows that are deleted at the server's time.

Of several increments in one millisecond, each gives the counter's cell a timestamp one above the one before. So the cell may be ahead
of the server's clock, and a delete at the server's time does not hide it. Its column is then deleted up to its own timestamp too, and
the delete is acknowledged once the clock has passed that: later writes and increments must not be hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hbmodel.errors import ClockError
from hbmodel.mapping.schema import COUNTER_ZERO, TableSchema
from hbmodel.protocol.clock import time_above
from hbmodel.protocol.operations import GetRows, Protocol, ReadClock
from hbmodel.store.values import Cell, Delete, Put, Row

MARGIN = 20
"""How far above a counter's cell it is deleted, in ms: for increments between the read and the delete, which carry its value on."""


def read_masks(
    schema: TableSchema, rows: Sequence[bytes], columns: Sequence[bytes], bound: int
) -> Protocol[dict[bytes, Delete | ClockError]]:
    """Reads columns of rows to delete at the server's time; returns the deletes of what that may not hide, or why it cannot be hidden.

    Args:
        schema: the schema of the model.
        rows: row keys.
        columns: the columns that may have cells ahead of the server's clock.
        bound: the largest distance of a timestamp into the future of the server's clock, in ms.
    """
    found: Sequence[Row | None] = yield GetRows(schema.table, rows, columns)
    cells = {row.row: row.columns for row in found if row is not None}
    if not cells:
        return {}
    now: int = yield ReadClock()
    masks = {row: mask_of(schema, row, of_row, now, bound) for row, of_row in cells.items()}
    return {row: mask for row, mask in masks.items() if mask is not None}


def mask_of(schema: TableSchema, row: bytes, cells: Mapping[bytes, Cell], now: int, bound: int) -> Delete | ClockError | None:
    """The delete of the cells of a row that a delete at the server's time may not hide.

    Args:
        schema: the schema of the model.
        row: row key.
        cells: the cells to delete.
        now: the server's time as far as it is known, in ms.
        bound: the largest distance of a timestamp into the future of the server's clock, in ms.

    Returns:
        The delete, or the error of a row with a cell that is further ahead than the bound; None if every cell is old.
    """
    ends = {column: cell.timestamp + (MARGIN if column in schema.counter_columns else 0) for column, cell in cells.items()}
    recent = {column: end for column, end in ends.items() if end >= now - bound}  # other servers' clocks may be behind
    if not recent:
        return None
    _, error = time_above(schema.table, row, max(cells[column].timestamp for column in recent), now, bound)
    return error if error is not None else Delete(row, columns=tuple(recent), timestamp=max(recent.values()))


def counters_above(
    schema: TableSchema, row: bytes, left: Mapping[bytes, Cell], cells: Mapping[bytes, bytes], now: int, bound: int
) -> list[Put]:
    """Puts of counters above those that are left in a row without an object.

    Increments that follow are above them, so nothing has to wait for the clock.

    Args:
        schema: the schema of the model.
        row: row key.
        left: the cells of the row.
        cells: the cells of the object to put.
        now: the server's time as far as it is known, in ms.
        bound: the largest distance of a timestamp into the future of the server's clock, in ms.

    Raises:
        ClockError: a counter is further ahead than the bound.
    """
    columns = sorted(schema.counter_columns & left.keys())
    if not columns:
        return []
    newest = max(left[column].timestamp for column in columns)
    _, error = time_above(schema.table, row, newest, now, bound)
    if error is not None:
        raise error
    return [Put(row, {column: cells.get(column, COUNTER_ZERO) for column in columns}, newest + MARGIN)]


def newest_beside_counters(schema: TableSchema, row: Row | None) -> int:
    """The timestamp of the newest cell of a row that is no counter, or -1."""
    columns = {} if row is None else row.columns
    return max((cell.timestamp for column, cell in columns.items() if column not in schema.counter_columns), default=-1)
