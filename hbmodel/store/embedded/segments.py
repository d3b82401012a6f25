"""The segments of one row of an embedded store, each of which is found by a column and read only when it is needed."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator

from hbmodel.store.embedded.cells import Cells, decode_cells

_HOLDING = (
    "SELECT first, ends, cells FROM segments WHERE table_id = ? AND row = ? AND first <= ? ORDER BY first DESC LIMIT 1"
)
_BEHIND = "SELECT first, ends, cells FROM segments WHERE table_id = ? AND row = ? AND first > ? ORDER BY first LIMIT 1"
_FROM = (
    "SELECT first, ends, cells FROM segments WHERE table_id = ? AND row = ? AND first >= coalesce("
    "(SELECT max(first) FROM segments WHERE table_id = ? AND row = ? AND first <= ?), x''){} ORDER BY first"
)
_NEXT_BOUND = "SELECT first FROM segments WHERE table_id = ? AND row = ? AND first > ? ORDER BY first LIMIT 1"
_BOUNDS_FROM = "SELECT first FROM segments WHERE table_id = ? AND row = ? AND first >= ? ORDER BY first"


class Segment:
    """A stored segment.

    Attributes:
        first: its lower bound; the segment holds the columns from there up to the lower bound of the next segment.
        ends: the earliest time at which a cell expires because of the TTL of its put, or None.
        cells: all versions that are stored.
        columns: the columns of the cells, sorted.
        size: the number of bytes of the encoded cells.
    """

    __slots__ = ("cells", "columns", "ends", "first", "last", "size")

    def __init__(self, first: bytes, ends: int | None, data: bytes) -> None:
        self.first = first
        self.ends = ends
        self.cells: Cells = decode_cells(data)
        self.columns = list(self.cells)
        self.last = self.columns[-1] if self.columns else first
        self.size = len(data)


class RowSegments:
    """The segments of one row, in one transaction. The segment that was read last is kept.

    Attributes:
        read: the number of bytes of encoded cells that were read.
    """

    def __init__(self, connection: sqlite3.Connection, table_id: int, row: bytes) -> None:
        self._connection = connection
        self._key = (table_id, row)
        self._kept: Segment | None = None
        self.read = 0

    def holding(self, column: bytes) -> Segment | None:
        """Returns the segment whose range contains a column, or None if the column is below the first segment."""
        segment = self._kept
        if segment is not None and segment.first <= column <= segment.last:
            return segment
        return self._segment(_HOLDING, column)

    def behind(self, first: bytes) -> Segment | None:
        """Returns the next segment above the segment with the lower bound `first`, or None at the end of the row."""
        return self._segment(_BEHIND, first)

    def all_of(self, start: bytes, stop: bytes | None) -> Iterator[Segment]:
        """Yields the segments that may hold columns of a range. All of them are read at once, but each is decoded only
        when the iterator reaches it.
        """
        behind = "" if stop is None else " AND first < ?"
        bounds = (*self._key, *self._key, start, *(() if stop is None else (stop,)))
        records = deque(self._connection.execute(_FROM.format(behind), bounds).fetchall())
        self.read += sum(len(data) for _, _, data in records)
        return _decoded(records)

    def next_bound(self, first: bytes) -> bytes | None:
        """Returns the lower bound of the next segment above `first`, or None."""
        record = self._connection.execute(_NEXT_BOUND, (*self._key, first)).fetchone()
        return None if record is None else record[0]

    def bounds_from(self, first: bytes) -> list[bytes]:
        """Returns the lower bounds of all segments from `first` on."""
        return [bound for (bound,) in self._connection.execute(_BOUNDS_FROM, (*self._key, first))]

    def _segment(self, statement: str, column: bytes) -> Segment | None:
        record = self._connection.execute(statement, (*self._key, column)).fetchone()
        if record is None:
            return None
        first, ends, data = record
        if self._kept is None or self._kept.first != first:
            self._kept = Segment(first, ends, data)
            self.read += len(data)
        return self._kept


def _decoded(records: deque[tuple[bytes, int | None, bytes]]) -> Iterator[Segment]:
    while records:
        yield Segment(*records.popleft())
