"""Cells that may be ahead of the server's clock, and the additional deletes that hide them when their rows are deleted.

If a counter is incremented several times in one millisecond, each increment gives its cell a timestamp that is one
above the previous timestamp. So the cell may be ahead of the server's clock, and a delete at the server's time does not
hide it. In this case, the column is also deleted up to the cell's own timestamp, and the delete is acknowledged only
when the clock has passed that timestamp, since later writes and increments must not be hidden.

Other programs may put cells with explicit timestamps. If a cell is ahead of the server's clock by no more than the
clock bound, every write that reads the cell waits until the clock has reached the cell's timestamp. If the cell is
further ahead, the write is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from hbmodel.errors import ClockError
from hbmodel.mapping.schema import COUNTER_ZERO, TableSchema
from hbmodel.protocol.corrected_clock import time_above
from hbmodel.protocol.operations import AskIfAhead, AwaitClock, DeleteRows, GetRows, Protocol, ReadClock
from hbmodel.protocol.ttl_timestamps import is_trace
from hbmodel.store.values import Cell, Delete, Put, Row

MARGIN = 20
"""A counter is deleted up to this many ms above the timestamp of its cell. If the counter is incremented between the
read and the delete, the new cell includes the old value, and must be hidden too.
"""

ROUNDS = 5
"""The maximum number of times that a deleted row is read again to find increments above its mask. After so many reads,
programs that read a row before they increment it have found it deleted, and have stopped incrementing it.
"""


def read_masks(
    schema: TableSchema, rows: Sequence[bytes], columns: Sequence[bytes], bound: int
) -> Protocol[dict[bytes, Delete | ClockError]]:
    """Reads columns of rows that will be deleted at the server's time, and returns the masks of the rows, by row key.

    A mask is an additional delete, for the cells that might outlive the delete of their row. If these cells cannot be
    hidden, the mask is an error that says why.

    Args:
        columns: the columns that may have cells ahead of the server's clock.
    """
    rows_read: Sequence[Row | None] = yield GetRows(schema.table, rows, columns)
    # The trace of a move is not masked: it must outlive the row.
    cells = {
        row.row: {column: cell for column, cell in row.columns.items() if not is_trace(schema, column, cell)}
        for row in rows_read
        if row is not None
    }
    return (yield from masks_of(schema, cells, bound))


def masks_of(
    schema: TableSchema, cells: Mapping[bytes, Mapping[bytes, Cell]], bound: int
) -> Protocol[dict[bytes, Delete | ClockError]]:
    """Returns masks like `read_masks`, for rows that have already been read. `cells` has the cells that may be ahead of
    the server's clock, by row.
    """
    now = yield from time_for(schema, cells.values())
    if now is None:
        return {}
    masks = {row: mask_of(schema, row, of_row, now, bound) for row, of_row in cells.items()}
    return {row: mask for row, mask in masks.items() if mask is not None}


def hide_increments(schema: TableSchema, masks: Iterable[Delete]) -> Protocol[list[Delete]]:
    """Deletes counters again that were incremented between the read and the delete. The cell of such a counter is newer
    than its mask, and still includes the old value.

    Args:
        masks: the masks that were applied with the deletes of the rows.

    Returns:
        The additional deletes.
    """
    deletes: list[Delete] = []
    left = [mask for mask in masks if not schema.counter_columns.isdisjoint(mask.columns)]
    for _ in range(ROUNDS):
        if not left:
            break
        # The read does not find cells that a mask hides.
        rows_read: Sequence[Row | None] = yield GetRows(
            schema.table, [mask.row for mask in left], sorted(schema.counter_columns)
        )
        left = [
            Delete(
                row.row,
                columns=tuple(row.columns),
                timestamp=max(cell.timestamp for cell in row.columns.values()) + MARGIN,
            )
            for row in rows_read
            if row is not None
        ]
        if left:
            yield DeleteRows(schema.table, left)
        deletes += left
    return deletes


def time_for(schema: TableSchema, rows: Iterable[Mapping[bytes, Cell]]) -> Protocol[int | None]:
    """Returns the server's time in ms that is needed for the deletes of these cells. Returns None if a delete at the
    server's time hides all of the cells.

    Counters are often ahead of the server's clock, so for counters the server's time is always requested. For other
    cells, it is requested only if this machine's clock has not reached their timestamps.
    """
    cells = [(column, cell.timestamp) for row in rows for column, cell in row.items()]
    if not cells:
        return None
    counted = any(column in schema.counter_columns for column, _ in cells)
    now: int | None = yield (ReadClock() if counted else AskIfAhead(max(timestamp for _, timestamp in cells)))
    return now


def mask_of(
    schema: TableSchema, row: bytes, cells: Mapping[bytes, Cell], now: int, bound: int
) -> Delete | ClockError | None:
    """Returns the mask of a row: an additional delete, for the cells that might outlive a delete of the row at the
    server's time.

    Returns:
        The mask; or an error if a cell is further ahead than the bound; or None if every cell is old.
    """
    counters = schema.counter_columns & cells.keys()
    ends = {column: cell.timestamp + (MARGIN if column in counters else 0) for column, cell in cells.items()}
    # The clocks of other servers may be behind. So a cell is also masked if it is older than the server's time by the
    # bound or less. But a mask has one timestamp for all columns. With a counter among the columns, this timestamp may
    # be ahead of the server's time, and the mask would hide other columns of an object that is put meanwhile. So in a
    # row with counters, another column is masked only if its cell is ahead.
    since = {column: now + 1 if counters and column not in counters else now - bound for column in ends}
    recent = {column: end for column, end in ends.items() if end >= since[column]}
    if not recent:
        return None
    _, error = time_above(schema.table, row, max(cells[column].timestamp for column in recent), now, bound)
    return error if error is not None else Delete(row, columns=tuple(recent), timestamp=max(recent.values()))


def counters_above(
    schema: TableSchema, row: bytes, left: Mapping[bytes, Cell], cells: Mapping[bytes, bytes], now: int, bound: int
) -> list[Put]:
    """Returns puts of counters with timestamps that are later than those of the counter cells that are left in a row
    without an object.

    Later increments get timestamps above these puts, so no call has to wait for the clock.

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
    """Returns the timestamp of the newest cell of a row without its counters, or -1 if there is no such cell."""
    columns = {} if row is None else row.columns
    return max((cell.timestamp for column, cell in columns.items() if column not in schema.counter_columns), default=-1)


def await_replaced(schema: TableSchema, replaced: Mapping[bytes, int], bound: int) -> Protocol[dict[bytes, ClockError]]:
    """Waits until the server's clock has reached the timestamps of cells that will be replaced or deleted at the
    server's time.

    Args:
        replaced: for each row, by its key, the timestamp of the newest cell that will be replaced or deleted.

    Returns:
        The errors of rows with a cell further ahead than the bound, by row key.
    """
    if not replaced:
        return {}
    now: int | None = yield AskIfAhead(max(replaced.values()))
    if now is None:
        return {}
    checked = {row: time_above(schema.table, row, timestamp, now, bound)[1] for row, timestamp in replaced.items()}
    late = [timestamp for row, timestamp in replaced.items() if checked[row] is None and timestamp > now]
    if late:
        yield AwaitClock(max(late))
    return {row: error for row, error in checked.items() if error is not None}


def check_shown(schema: TableSchema, row: Row, put: Put, blanks: Collection[bytes]) -> Protocol[None]:
    """Raises `ClockError` if cells ahead of the server's clock hide the cells that an insert has put.

    Args:
        blanks: the columns that the insert has deleted.
    """
    hidden = [c for c, cell in row.columns.items() if c in blanks or put.cells.get(c, cell.value) != cell.value]
    newest, now = yield from _newest_ahead(schema, row, hidden)
    if now is not None:
        raise ClockError(
            "The object was put, but cells of its row whose timestamps are ahead of the server's clock hide a part of "
            "it: delete these versions in `hbase shell`, and put the object again.",
            table=schema.table,
            key=row.row,
            newest=newest,
            now=now,
        )


def error_if_hidden(
    schema: TableSchema, row: Row, columns: Collection[bytes], claimed: int
) -> Protocol[ClockError | None]:
    """Returns the error of an insert whose cells would be hidden by cells ahead of the server's clock, or None.

    Args:
        columns: the columns that the insert puts or deletes.
        claimed: the timestamp of these puts and deletes, in ms.
    """
    later = [column for column, cell in row.columns.items() if column in columns and cell.timestamp > claimed]
    newest, now = yield from _newest_ahead(schema, row, later)
    if now is None:
        return None
    return ClockError(
        "Cells of the row whose timestamps are ahead of the server's clock would hide a part of the object: nothing "
        "was put. Delete these versions in `hbase shell`, and insert again.",
        table=schema.table,
        key=row.row,
        newest=newest,
        now=now,
    )


def _newest_ahead(schema: TableSchema, row: Row, columns: Collection[bytes]) -> Protocol[tuple[int, int | None]]:
    """Returns the newest timestamp in some columns of a row, without counters, and the server's time.

    The timestamp is -1 if the row has no cell in these columns. The time is None unless it is lower than the timestamp.
    """
    newest = max(
        (row.columns[column].timestamp for column in columns if column not in schema.counter_columns), default=-1
    )
    now: int | None = (yield AskIfAhead(newest)) if newest >= 0 else None
    return newest, now if now is not None and newest > now else None
