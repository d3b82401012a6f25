"""Scans through the first Thrift gateway: several requests ahead on one connection, and resumed exactly once when it breaks."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from thriftpy2.thrift import TApplicationException

from hbmodel.errors import HbmodelError, StoreClosed, StoreError, StoreUnavailable, UnknownOutcome
from hbmodel.store import Row, Scan
from hbmodel.stores.calls import Backoff
from hbmodel.stores.connection import ThriftConnection
from hbmodel.stores.filter_language import filter_string
from hbmodel.stores.gateway_failures import first_line, is_passing, store_error
from hbmodel.stores.pool import Lease
from hbmodel.stores.read_requests import distinct_columns, reversible
from hbmodel.stores.scan_bounds import forward_bounds, reversed_bounds
from hbmodel.stores.thrift1_service import FAILURES, IllegalArgument, TScan

logger = logging.getLogger("hbmodel")

REQUESTS_AHEAD = 3
"""Batches that a connection has asked for or holds, while its caller works on the last: with three, the gateway and HBase's
client inside it always have something to do (one or two ahead measured slower)."""


_UNWANTED = -1  # the era of requests whose reply nobody waits for


class Cursor:
    """How far one scan has come.

    Args:
        table: the table's name as the server knows it.
        scan: what to read.
    """

    def __init__(self, table: bytes, scan: Scan) -> None:
        self.table = table
        self.scan = scan
        self.filter = None if scan.filter is None else filter_string(reversible(scan.filter) if scan.reversed else scan.filter)
        self.rest = scan.range
        """The rows that have not been received yet."""
        self.left = scan.limit
        """How many rows may still come."""
        self.scanner: int | None = None
        """The gateway's number of the open scanner."""
        self.opening = False
        self.era = 0
        """Raised when a scanner is given up: replies to requests of an earlier era are of no interest."""
        self.asked: deque[int] = deque()
        """Rows asked for by each request under way."""
        self.batches: deque[Sequence[Row]] = deque()
        """Received and not delivered."""
        self.is_long = False
        """Whether a full batch has come, so that it is worth asking ahead."""
        self.finished = scan.range.empty or scan.limit == 0
        self.trouble: HbmodelError | None = None
        """Why the scanner had to be given up; it may be opened again."""
        self.error: HbmodelError | None = None
        """Why the scan cannot go on."""

    def open_arguments(self) -> dict[str, Any] | None:
        """Arguments of scannerOpenWithScan for the rest of the rows; None when no row can be there."""
        bounds = (reversed_bounds if self.scan.reversed else forward_bounds)(self.rest)
        if bounds is None:
            return None
        scan = self.scan
        request = TScan(
            startRow=bounds[0],
            stopRow=bounds[1],
            columns=distinct_columns(scan.columns) or None,
            caching=self.wanted(),
            filterString=self.filter,
            reversed=True if scan.reversed else None,
        )
        return {"tableName": self.table, "scan": request, "attributes": {}}

    def wanted(self) -> int:
        """Rows to ask for next; 0 when all are asked for."""
        if self.left is None:
            return self.scan.batch_size
        return min(self.scan.batch_size, self.left - sum(self.asked))

    def accept(self, rows: Sequence[Row]) -> None:
        """Takes the rows of the oldest request under way."""
        asked = self.asked.popleft()
        exhausted = len(rows) < asked  # HBase's scanner stops short at its end only
        self.is_long = not exhausted
        if self.scan.reversed and rows:
            rows = self._inside(rows)
        if rows:
            last = rows[-1].row
            self.rest = self.rest.before(last) if self.scan.reversed else self.rest.after(last)
            if self.left is not None:
                self.left -= len(rows)
            self.batches.append(rows)
        self.finished = self.finished or exhausted or self.left == 0

    def _inside(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows within the range: a reversed scan may begin and end a little outside (see `reversed_bounds`)."""
        if rows[0].row in self.rest and rows[-1].row in self.rest:
            return rows
        return [row for row in rows if row.row in self.rest]

    def give_up_scanner(self) -> None:
        """Forgets the scanner and the requests under way; what was received stays."""
        self.era += 1
        self.scanner = None
        self.opening = False
        self.asked.clear()


class Lane:
    """One connection and the scans that share it.

    Replies come in the order of the requests, whosever they are; a scan that waits for its own takes in those of the others on
    the way. Each scan's batches that are asked for or received are bounded, so what a slow reader leaves behind is too.
    A lane's scanners live on its connection alone: when it breaks, each is opened again behind the last row it received.

    Args:
        lease: of the connection; released when the last scan ends.
        cursors: the scans.
        backoff: how often a broken scan is taken up again without a row of progress.
        timeout: seconds to wait for a reply; doubled when a scan is taken up again after a timeout, since a filter that lets
            few rows pass keeps a region server silent for long.
    """

    def __init__(self, lease: Lease[ThriftConnection], cursors: Sequence[Cursor], backoff: Backoff, timeout: float) -> None:
        self._lease = lease
        self.cursors = list(cursors)
        self._backoff = backoff
        self._timeout = timeout
        self._patience = timeout
        self._ahead = -(-REQUESTS_AHEAD // len(cursors))
        self._under_way: deque[tuple[Cursor, int, str]] = deque()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def start(self) -> None:
        """Sends the requests that open the scanners, without waiting. What fails here is told when rows are asked for."""
        with self._lock, self._later():
            for cursor in self.cursors:
                self._open(cursor)

    def ask(self) -> None:
        """Takes in the replies to `start` and sends the first request for rows of each scan. Failures wait as in `start`."""
        with self._lock, self._later():
            for _ in range(len(self._under_way)):
                self._take_in()

    def next_batch(self, cursor: Cursor) -> Sequence[Row] | None:
        """The next rows of a scan, None at its end; raises what `Store.scan` may raise."""
        with self._lock:
            self._notice_fork()
            try:
                return self._next_batch(cursor)
            except HbmodelError as error:
                if isinstance(error, StoreClosed):
                    self._lost(error)
                raise
            except BaseException as error:
                # Interrupted anywhere, perhaps between receiving rows and taking note of it.
                cursor.error = StoreError("A scan was interrupted; start it again.", table=cursor.table.decode())
                cursor.finished = True
                self._lost(error)
                raise

    def end(self, cursor: Cursor) -> None:
        """Closes a scan that is not wanted any more."""
        with self._lock:
            self._notice_fork()
            cursor.batches.clear()
            if not cursor.finished:
                cursor.finished = True
                with self._later():
                    self._close(cursor)

    def forget(self, cursor: Cursor) -> None:
        """For finalisers: gives the connection up once none of its scans has an owner."""
        cursor.finished = True
        if all(other.finished for other in self.cursors):
            self._lease.abandon()

    def _next_batch(self, cursor: Cursor) -> Sequence[Row] | None:
        waits = self._backoff.waits()
        while not cursor.batches:
            if cursor.error is not None:
                raise cursor.error
            if cursor.finished:
                return None
            trouble: HbmodelError
            try:
                self._advance(cursor)
                if cursor.trouble is None:
                    continue
                trouble, cursor.trouble = cursor.trouble, None
            except (StoreUnavailable, UnknownOutcome) as lost:
                trouble = lost
                self._lost(lost)
            self._wait(cursor, waits, trouble)
        batch = cursor.batches.popleft()
        with self._later():  # ask for more before the caller works on this batch
            self._ask_for_rows(cursor)
        return batch

    # --- requests -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _later(self) -> Iterator[None]:
        """Around requests whose failure need not be told now: scans go on when their rows are asked for."""
        try:
            yield
        except (StoreUnavailable, UnknownOutcome, StoreClosed) as error:
            self._lost(error)

    def _send(self, cursor: Cursor, api: str, **arguments: Any) -> None:
        connection = self._lease.connection()
        if self._patience != self._timeout:
            connection.limit(self._patience)
        connection.send(api, **arguments)
        self._under_way.append((cursor, cursor.era, api))

    def _send_close(self, cursor: Cursor, scanner: int) -> None:
        self._lease.connection().send("scannerClose", id=scanner)
        self._under_way.append((cursor, _UNWANTED, "scannerClose"))

    def _open(self, cursor: Cursor) -> None:
        arguments = cursor.open_arguments()
        if arguments is None:
            cursor.finished = True
            self._retire()
            return
        self._send(cursor, "scannerOpenWithScan", **arguments)
        cursor.opening = True

    def _ask_for_rows(self, cursor: Cursor) -> None:
        ahead = self._ahead if cursor.is_long else 1
        while cursor.scanner is not None and len(cursor.asked) + len(cursor.batches) < ahead and (rows := cursor.wanted()) > 0:
            self._send(cursor, "scannerGetList", id=cursor.scanner, nbRows=rows)
            cursor.asked.append(rows)

    def _close(self, cursor: Cursor) -> None:
        scanner = cursor.scanner
        cursor.give_up_scanner()
        if scanner is not None:
            self._send_close(cursor, scanner)
        self._retire()

    def _retire(self) -> None:
        """Releases the connection when all scans have ended.

        Rows that were asked for in vain are read past without decoding; the replies to the closing requests are left to
        whoever uses the connection next.
        """
        if not all(cursor.finished for cursor in self.cursors):
            return
        for cursor in self.cursors:
            if cursor.scanner is not None:  # its owner was garbage-collected
                self._send_close(cursor, cursor.scanner)
                cursor.give_up_scanner()
        while any(api != "scannerClose" for _, _, api in self._under_way):
            self._take_in()
        self._under_way.clear()
        if self._patience != self._timeout:
            self._lease.drop()
        self._lease.release()

    # --- replies ------------------------------------------------------------------------------------------------------

    def _advance(self, cursor: Cursor) -> None:
        if cursor.scanner is None and not cursor.opening:
            self._open(cursor)
            if cursor.finished:
                return
        self._ask_for_rows(cursor)
        self._take_in()

    def _take_in(self) -> None:
        """Reads one reply, for whomever it is."""
        cursor, era, api = self._under_way.popleft()
        connection = self._lease.connection()
        if era != cursor.era and api != "scannerOpenWithScan":
            connection.skip()
            return
        try:
            answer = connection.receive()
        except FAILURES as failure:
            if era == cursor.era:
                self._failed(cursor, api, failure)
            return
        if era != cursor.era:  # opened in vain
            self._send_close(cursor, answer)
        elif api == "scannerOpenWithScan":
            cursor.opening = False
            cursor.scanner = answer
            self._ask_for_rows(cursor)
        else:
            cursor.accept(answer)
            if cursor.finished:
                with self._later():
                    self._close(cursor)
            else:
                self._ask_for_rows(cursor)

    def _failed(self, cursor: Cursor, api: str, failure: Exception) -> None:
        table = cursor.table.decode()
        lame = api == "scannerGetList" and isinstance(failure, (IllegalArgument, TApplicationException))
        if lame or is_passing(failure):
            # The gateway has forgotten the scanner ("scanner ID is invalid") or closed it under its own hands ("internal
            # error"), or a region is on its way elsewhere. Requests that were sent ahead may get rows from behind a gap now,
            # or none; giving the scanner up makes their replies unwanted.
            cursor.trouble = StoreUnavailable("HBase cannot go on with a scan.", table=table, reason=first_line(failure))
        else:
            cursor.error = store_error(failure, table=table)
            cursor.finished = True
        with self._later():
            self._close(cursor)

    # --- trouble ------------------------------------------------------------------------------------------------------

    def _notice_fork(self) -> None:
        """In a forked child the connection and the scanners are the parent's; the child opens its own."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._lost(None)

    def _lost(self, error: BaseException | None) -> None:
        """The connection is gone, and the scanners that were open on it with it."""
        if isinstance(error, UnknownOutcome) and error.timed_out:
            self._patience *= 2
        self._lease.drop()
        self._under_way.clear()
        for cursor in self.cursors:
            cursor.give_up_scanner()
        if isinstance(error, StoreClosed) or all(cursor.finished for cursor in self.cursors):
            self._lease.release()

    def _wait(self, cursor: Cursor, waits: Iterator[float], trouble: HbmodelError) -> None:
        wait = next(waits, None)
        table = cursor.table.decode()
        reason = trouble.reason or trouble.message
        if wait is None:
            cursor.finished = True
            cursor.error = StoreUnavailable("A scan broke off.", table=table, reason=reason)
            with self._later():
                self._close(cursor)
            raise cursor.error from trouble
        logger.warning("A scan of %s is taken up again in %.2f s: %s", table, wait, reason)
        time.sleep(wait)


class Batches(Iterator[Sequence[Row]]):
    """The batches of one scan, in order; without a lane there are none.

    It may be closed early, from any thread; an iterator that is dropped unread is closed too, but later.
    """

    def __init__(self, lane: Lane | None, cursor: Cursor) -> None:
        self._lane = lane
        self._cursor = cursor

    def __next__(self) -> Sequence[Row]:
        batch = None if self._lane is None else self._lane.next_batch(self._cursor)
        if batch is None:
            raise StopIteration
        return batch

    def close(self) -> None:
        """Ends the scan and, with the last one on its connection, gives that back. Closing twice is allowed."""
        if self._lane is not None:
            self._lane.end(self._cursor)

    def __del__(self) -> None:
        if self._lane is not None and not self._cursor.finished:
            self._lane.forget(self._cursor)
