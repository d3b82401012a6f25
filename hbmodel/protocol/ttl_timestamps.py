"""Determines timestamps for rows with a TTL, from the clock of the server that holds each row, as a sans-IO generator.

A put with a TTL needs an explicit timestamp, because it also deletes the older cells of its row. This timestamp must be
later than every acknowledged delete of the row, although reads do not show deletes. It must not be ahead of the
server's clock either, because the next write would then get an earlier timestamp. Only the region server of the row can
provide such a timestamp. So a cell is put into the row without a timestamp, and is read back with the timestamp that
the server gave it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from attrs import frozen

from hbmodel.errors import ClockError, HbmodelError
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.corrected_clock import time_above
from hbmodel.protocol.operations import GetRows, LetClockTick, Protocol, PutRows
from hbmodel.store.values import Cell, Delete, Put, Row

STAMP = b"\x01"
"""The value of a stamp cell."""

OWN = b"\x02"
"""The value of the stamp cell by which an insert recognizes a row that it has put."""

MOVED = b"\x03"
"""The value that replaces `OWN` after the row was moved to another key. A cell with this value remains after the row
was deleted, and expires when the cell with `OWN` would have expired.
"""

STAMP_LIFE = 60_000
"""The TTL of stamp cells in ms. It makes sure that a stamp cell does not remain if its program crashes."""

SETTLED = 3
"""The number of times that a row may show a cell that is not older than the server's time. After that, the cell counts
as a cell from the future.
"""

ATTEMPTS = 50
"""The maximum number of requests for the time of a row's server, if other programs keep writing the row."""


def draw_stamp() -> bytes:
    """Returns a random name that distinguishes the stamp cells of writers. It is drawn from the random source of the
    system, so forked processes never share a name.
    """
    return os.urandom(8)


@frozen(eq=False)
class StampedRow:
    """A row with all requested columns, and the timestamp with which it may be written.

    Attributes:
        columns: the cells of the row without stamps; empty if the row is absent.
        timestamp: the time in ms. It is above every cell of the row, and above every delete that was acknowledged
            before.
        stamps: the columns of the row's stamps.
        owners: the columns that show which insert put the row; a write that puts the whole row again includes them.
        error: the reason why the row cannot be written, or None.
        mark: the mark of a move to another key, or None; an update that puts the whole row again keeps the mark.
        ahead: whether the time may be ahead of the server's clock, because a cell of the row is ahead of it.
    """

    row: bytes
    columns: Mapping[bytes, Cell]
    timestamp: int
    stamps: Sequence[bytes]
    error: HbmodelError | None = None
    owners: Sequence[bytes] = ()
    mark: bytes | None = None
    ahead: bool = False


def read_stamped(
    schema: TableSchema,
    rows: Iterable[bytes],
    columns: Sequence[bytes],
    bound: int,
    draw: Callable[[], bytes] = draw_stamp,
) -> Protocol[dict[bytes, StampedRow]]:
    """Reads rows and, from the clock of each row's region server, a time that a write of the row can use as its
    timestamp.

    One put and one get are sent for all rows, and are repeated for rows that another program wrote between the two.
    After the put, the get is delayed until the clock has ticked, so every cell that the get does not show gets a later
    timestamp from the server. The stamp cells remain until the delete that `unstamped` makes is carried out.

    Args:
        bound: the maximum time by which a timestamp may be ahead of its server's clock, in ms.
        draw: the function that draws the names of stamps.
    """
    stamped: dict[bytes, StampedRow] = {}
    overtaken = dict.fromkeys(rows, 0)
    stamps: list[bytes] = []
    for _ in range(ATTEMPTS):
        stamp = schema.stamp_prefix + draw()
        stamps.append(stamp)
        yield PutRows(schema.table, [Put(row, {stamp: STAMP}, ttl=STAMP_LIFE) for row in overtaken])
        # after the tick, no more cells get the timestamp of the stamp, so the read shows all cells with this timestamp
        yield LetClockTick()
        columns_read = columns if columns == schema.family_names else (*columns, stamp)
        rows_read = yield GetRows(schema.table, tuple(overtaken), columns_read)
        for row, read in zip(tuple(overtaken), rows_read, strict=True):
            cell = None if read is None else read.columns.get(stamp)
            if read is None or cell is None:
                continue  # a later delete has hidden the stamp
            system = {
                column: cell.value for column, cell in read.columns.items() if column.startswith(schema.stamp_prefix)
            }
            cells = {column: cell for column, cell in read.columns.items() if column not in system}
            newest = max((cell.timestamp for cell in cells.values()), default=-1)
            if newest >= cell.timestamp and overtaken[row] < SETTLED:
                overtaken[row] += 1
                continue
            timestamp, error = time_above(schema.table, row, newest, cell.timestamp, bound)
            owners = tuple(column for column, value in system.items() if value == OWN)
            mark, ahead = system.get(schema.move_column), error is None and timestamp > cell.timestamp
            stamped[row] = StampedRow(
                row, MappingProxyType(cells), timestamp, tuple(stamps), error, owners, mark, ahead
            )
            del overtaken[row]
        if not overtaken:
            return stamped
    for row in overtaken:
        error = ClockError(
            "A new cell of the row was hidden again and again, by a delete whose timestamp is ahead of the server's "
            "clock or by writes of other programs: try again later.",
            table=schema.table,
            key=row,
        )
        stamped[row] = StampedRow(row, {}, 0, tuple(stamps), error)
    return stamped


def unstamped(row: StampedRow, others: Sequence[bytes] = ()) -> Delete:
    """Returns a delete of a row's stamps, and of its columns `others`, up to the row's new timestamp."""
    return Delete(row.row, columns=(*row.stamps, *others), timestamp=row.timestamp)


def is_trace(schema: TableSchema, column: bytes, cell: Cell) -> bool:
    """Returns whether a cell is the trace of a move; see `traces_of`."""
    return cell.value == MOVED and column.startswith(schema.stamp_prefix)


def traces_of(schema: TableSchema, row: Row) -> list[Put]:
    """Returns the traces of a row that moves to another key. From the traces, inserts that have put the row learn that
    it has moved.

    The delete of the row has the server's time. So that this delete does not hide a trace while an insert may still
    look for the trace, the trace has a later timestamp than the delete. A trace replaces a cell that shows which insert
    put the row, and its timestamp is the time at which this cell would expire.
    """
    owned = {
        column: cell
        for column, cell in row.columns.items()
        if column.startswith(schema.stamp_prefix) and cell.value == OWN
    }
    return [Put(row.row, {column: MOVED}, cell.timestamp + STAMP_LIFE, ttl=1) for column, cell in owned.items()]
