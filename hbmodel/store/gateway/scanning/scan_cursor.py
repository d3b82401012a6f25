"""The progress of one scan through a gateway, and the rows to request next."""

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
        table: the table's name on the server.
        called: the table's name for the user of the store; by default the same.
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
        """The number of rows that may still be returned; None if there is no limit."""
        self.inside: bytes | None = None
        """The row of which more pieces may follow, which is the first row of `rest`; None if there is no such row."""
        self.begins_again = False
        """Whether the next reply begins with the first cell of the row `inside`."""
        self.surplus = 0
        """The maximum number of rows outside the range that the scanner may return first."""
        self.scanner: int | None = None
        """The gateway's number of the open scanner."""
        self.opening = False
        self.epoch = 0
        """A number that increases when a scanner is given up. Replies to requests of an earlier epoch are not
        wanted.
        """
        self.asked: deque[int] = deque()
        """For each request in progress, the number of rows that it asks for."""
        self.batches: deque[Sequence[Row]] = deque()
        """Batches that were received and not yet delivered."""
        self.is_long = False
        """Whether a full batch was received, so that it is useful to request rows ahead."""
        self.finished = scan.range.empty or scan.limit == 0
        self.ended = False
        """Whether the server's scan has reached its end."""
        self.trouble: HbmodelError | None = None
        """The reason why the scanner had to be given up, or None. Another scanner may be opened."""
        self.error: HbmodelError | None = None
        """The reason why the scan cannot be continued, or None."""

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
    def is_brief(self) -> bool:
        """Whether all rows of the scan fit into a single batch."""
        return self.scan.limit is not None and self.scan.limit <= self.scan.batch_size

    @property
    def size(self) -> int:
        """The approximate size in bytes of a request that describes the scan."""
        scan = self.scan.range
        columns = sum(map(len, self.columns)) + 20 * len(self.columns)
        return 100 + len(scan.start) + len(scan.stop or b"") + len(self.filter or b"") + columns

    def reading(self) -> Reading | None:
        """Returns the read of the rows that are left, by a new call or scanner, or None if there can be no more
        rows.
        """
        scan = self.scan
        bounds = (reversed_bounds if scan.reversed else forward_bounds)(self.rest)
        if bounds is None:
            return None
        start, stop = bounds
        self.begins_again = self.inside is not None
        self.surplus = int(scan.reversed and start == self.rest.stop)
        # If rows are read in pieces, HBase refuses the filter that counts rows, so no limit is sent.
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
        """Returns the number of rows to request next, or 0 if all have been requested."""
        if self.remaining is None:
            return self.scan.batch_size
        rows = self.remaining - sum(self.asked)
        if rows <= 0:
            return 0
        return rows + self.surplus if rows <= self.scan.batch_size else self.scan.batch_size

    def accept(self, rows: Sequence[Row]) -> None:
        """Records the rows in the reply to the oldest request in progress."""
        requested = self.asked.popleft()
        exhausted = len(rows) < requested  # HBase's scanner returns fewer rows than requested only at its end
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
        """Sets where the unread rows begin: after the row of `last`, or at this row if `last` is a full piece, because
        the row may have more pieces.
        """
        whole = self.scan.cells is None or len(last.columns) < self.scan.cells
        self.inside = None if whole else last.row
        if self.scan.reversed:
            self.rest = self.rest.before(last.row)
        else:
            self.rest = self.rest.after(last.row) if whole else KeyRange(last.row, self.rest.stop)

    def _inside(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Returns the rows within the range, because a reversed scan may begin and end a little outside of it (see
        `reversed_bounds`).

        No more rows are returned than are wanted. One more row is requested if the first row may be outside the range.
        """
        if rows[0].row not in self.rest or rows[-1].row not in self.rest:
            rows = [row for row in rows if row.row in self.rest]
        return rows if self.remaining is None else rows[: self.remaining]

    def give_up_scanner(self) -> None:
        """Forgets the scanner and the requests in progress. Rows that were received are kept."""
        self.epoch += 1
        self.scanner = None
        self.opening = False
        self.asked.clear()
