"""Reads the first piece of one row in a single call, if the gateway has such a call, without keeping a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hbmodel.store.checks.reads import distinct_columns
from hbmodel.store.gateway.filter_language import filter_string
from hbmodel.store.gateway.scanning.scan_calls import Reading
from hbmodel.store.ranges import key_successor
from hbmodel.store.values import MAX_ROW_LENGTH, Row, Scan

MOST_CELLS = 1_000
"""The maximum number of cells of a piece that is read in a single call. For a larger piece, the request is sent ahead
on a leased connection, so that the caller can do other work until the piece arrives.
"""


def first_piece(table: bytes, scans: Sequence[Scan]) -> Reading | None:
    """Returns the read to make if there is only one scan, and it reads only the first piece of one row. Otherwise
    returns None.

    Args:
        table: the table's name on the server.
    """
    if len(scans) != 1:
        return None
    scan = scans[0]
    row = scan.range.start
    if (
        scan.limit != 1
        or scan.cells is None
        or scan.cells > MOST_CELLS
        or scan.reversed
        or not 0 < len(row) < MAX_ROW_LENGTH
        or scan.range.stop != key_successor(row)
    ):
        return None
    chosen = None if scan.filter is None else filter_string(scan.filter)
    return Reading(
        table,
        row,
        key_successor(row),
        distinct_columns(scan.columns),
        chosen,
        reversed=False,
        rows=1,
        cells=scan.cells,
        before=scan.before,
    )


class FirstPiece(Iterator[Sequence[Row]]):
    """The only batch of a scan, which is read when the iterator is advanced.

    Args:
        read: makes the call. If it returns no row, there is no batch.
    """

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Sequence[Row]]) -> None:
        self._read: Callable[[], Sequence[Row]] | None = read

    def __next__(self) -> Sequence[Row]:
        read, self._read = self._read, None
        rows = () if read is None else read()
        if not rows:
            raise StopIteration
        return rows

    def close(self) -> None:
        """Ends the scan, which reads nothing from now on."""
        self._read = None
