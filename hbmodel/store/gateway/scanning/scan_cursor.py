"""The progress of one scan through a gateway, and what to ask for next."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hbmodel.errors import HbmodelError
from hbmodel.store.checks.reads import distinct_columns, reversible
from hbmodel.store.gateway.filter_language import filter_string
from hbmodel.store.gateway.scanning.scan_bounds import forward_bounds, reversed_bounds
from hbmodel.store.gateway.scanning.scan_calls import Reading
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import BegunAgain, Row, Scan


class Cursor:
    """The progress of one scan.

    Args:
        table: the table's name as the server knows it.
        called: the table's name as the store's user knows it; by default the same.
    """

    def __init__(self, table: bytes, scan: Scan, called: str | None = None) -> None:
        self.table = table
        self.called = table.decode() if called is None else called
        self.scan = scan
        self.columns = distinct_columns(scan.columns)
        self.filter = (
            None if scan.filter is None else filter_string(reversible(scan.filter) if scan.reversed else scan.filter)
        )
        self.rest = scan.range
        """The rows that have not been received yet."""
        self.remaining = scan.limit
        """How many rows may still come."""
        self.inside: bytes | None = None
        """The row of which more pieces may follow; it is the first row of `rest`. None if there is no such row."""
        self.begins_again = False
        """Whether the next reply begins with the first cell of the row `inside`."""
        self.surplus = 0
        """The maximum number of rows outside the range that the scanner may return first."""
        self.scanner: int | None = None
        """The gateway's number of the open scanner."""
        self.opening = False
        self.epoch = 0
        """Incremented when a scanner is given up: replies to requests of an earlier epoch are not wanted."""
        self.asked: deque[int] = deque()
        """How many rows each request in progress asks for."""
        self.batches: deque[Sequence[Row]] = deque()
        """Batches that were received and not yet delivered."""
        self.is_long = False
        """Whether a full batch was received, so that it is worthwhile to request rows ahead."""
        self.finished = scan.range.empty or scan.limit == 0
        self.ended = False
        """Whether the server's scan has reached its end."""
        self.trouble: HbmodelError | None = None
        """Why the scanner had to be given up; another one may be opened."""
        self.error: HbmodelError | None = None
        """Why the scan cannot be continued."""

    @property
    def under_way(self) -> bool:
        """Whether a request for rows, or for a scanner, is in progress."""
        return self.opening or bool(self.asked)

    @property
    def begun(self) -> bool:
        """Whether a row has been received."""
        return self.rest != self.scan.range

    @property
    def is_short(self) -> bool:
        """Whether the rows that are left may fit into a single batch."""
        return not self.is_long or (self.remaining is not None and self.remaining <= self.scan.batch_size)

    @property
    def size(self) -> int:
        """The approximate size in bytes of a request that describes the scan."""
        scan = self.scan.range
        columns = sum(map(len, self.columns)) + 20 * len(self.columns)
        return 100 + len(scan.start) + len(scan.stop or b"") + len(self.filter or b"") + columns

    def reading(self) -> Reading | None:
        """The rows that are left, to be read by a new call or scanner; None if there can be no more rows."""
        scan = self.scan
        bounds = (reversed_bounds if scan.reversed else forward_bounds)(self.rest)
        if bounds is None:
            return None
        start, stop = bounds
        self.begins_again = self.inside is not None
        self.surplus = int(scan.reversed and start == self.rest.stop)
        # HBase refuses the filter that counts rows if rows are read in pieces.
        limit = None if self.remaining is None or scan.cells is not None else self.remaining + self.surplus
        return Reading(
            self.table,
            start,
            stop,
            self.columns,
            self.filter,
            scan.reversed,
            self.wanted(),
            limit,
            scan.cells,
            scan.before,
        )

    def wanted(self) -> int:
        """Rows to ask for next; 0 when all have been asked for."""
        if self.remaining is None:
            return self.scan.batch_size
        rows = self.remaining - sum(self.asked)
        if rows <= 0:
            return 0
        return rows + self.surplus if rows <= self.scan.batch_size else self.scan.batch_size

    def accept(self, rows: Sequence[Row]) -> None:
        """Records the rows that answer the oldest request in progress."""
        requested = self.asked.popleft()
        exhausted = len(rows) < requested  # HBase's scanner returns fewer rows only at its end
        self.is_long = not exhausted
        self.surplus = 0
        if self.scan.reversed and rows:
            exhausted = exhausted or rows[-1].row < self.rest.start
            rows = self._inside(rows)
        if self.begins_again and self.inside is not None:
            self.batches.append([BegunAgain(self.inside)])
            self.begins_again, self.inside = False, None
        if rows:
            self._behind(rows[-1])
            if self.remaining is not None:
                self.remaining -= len(rows)
            self.batches.append(rows)
        self.ended = exhausted or self.remaining == 0
        self.finished = self.finished or self.ended

    def _behind(self, last: Row) -> None:
        """Sets where the unread rows begin: after the row of `last`, or at that row if `last` is a full piece, because
        the row may have more pieces.
        """
        whole = self.scan.cells is None or len(last.columns) < self.scan.cells
        self.inside = None if whole else last.row
        if self.scan.reversed:
            self.rest = self.rest.before(last.row)
        else:
            self.rest = self.rest.after(last.row) if whole else KeyRange(last.row, self.rest.stop)

    def _inside(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows within the range: a reversed scan may begin and end a little outside (see `reversed_bounds`).

        At most as many rows are returned as are wanted, although one row more is requested if the first one may be
        outside the range.
        """
        if rows[0].row not in self.rest or rows[-1].row not in self.rest:
            rows = [row for row in rows if row.row in self.rest]
        return rows if self.remaining is None else rows[: self.remaining]

    def give_up_scanner(self) -> None:
        """Forgets the scanner and the requests in progress; received rows stay."""
        self.epoch += 1
        self.scanner = None
        self.opening = False
        self.asked.clear()
