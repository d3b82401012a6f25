"""Scans that share a connection to a gateway, on which requests are sent ahead, and that are resumed after the
connection breaks.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from types import TracebackType

from hbmodel.errors import (
    CertificateRefused,
    HbmodelError,
    InvalidRequest,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    UnknownOutcome,
)
from hbmodel.store.gateway.failures import is_passing, reason_of, store_error
from hbmodel.store.gateway.pool import Lease
from hbmodel.store.gateway.retry import UNREACHED, Backoff, whereabouts
from hbmodel.store.gateway.scanning.scan_calls import Request, ScanCalls
from hbmodel.store.gateway.scanning.scan_cursor import Cursor
from hbmodel.store.gateway.wire.call_sizes import CALL_SIZES
from hbmodel.store.gateway.wire.connection import ThriftConnection
from hbmodel.store.values import Row

logger = logging.getLogger("hbmodel")

REQUESTS_AHEAD = 3
"""The number of batches of a scan that are requested, or kept, while its caller works on the previous batch. With
three, the gateway and the HBase client in it are always busy. (Measurements with one and two were slower.)
"""


class Step(Enum):
    """The purpose of a request."""

    OPEN = "a scanner"
    ROWS = "rows"
    CLOSE = "nothing any more"


_UNWANTED = -1  # the epoch of requests whose reply is not wanted


class ScanMultiplexer:
    """One connection, and the scans that share it.

    Replies come in the order of the requests. A scan that waits for its own reply also reads the replies to other scans
    that come before it. For each scan, the number of batches that are requested or wait to be consumed is bounded, even
    if its reader is slow. The scanners belong to this connection. When it breaks, each scan opens a new scanner after
    the last row that it has received.

    If no scan can have more rows than fit into one batch, all scans are read as soon as one is. The connection is then
    free again, however long the callers work on the rows, and whatever else they read in the meantime.

    Args:
        lease: the lease of the connection, which is released when the last scan ends.
        backoff: how often and for how long a broken scan is resumed while it receives no row.
        timeout: seconds to wait for a reply. The time is doubled when a scan is resumed after a timeout, because a
            region server may not answer for a long time if a filter lets few rows pass.
        first_bytes: roughly the number of bytes of first requests that may be sent before a reply is read.
    """

    def __init__(
        self,
        calls: ScanCalls,
        lease: Lease[ThriftConnection],
        cursors: Sequence[Cursor],
        backoff: Backoff,
        timeout: float,
        repeated: Callable[[], None] = lambda: None,
        first_bytes: int = CALL_SIZES.first_bytes,
    ) -> None:
        self._calls = calls
        self._lease = lease
        self.cursors = list(cursors)
        self._backoff = backoff
        self._timeout = timeout
        self._repeated = repeated
        self._first_bytes = first_bytes
        self._patience = timeout
        self._put_off: HbmodelError | None = None
        self._ahead = -(-REQUESTS_AHEAD // len(cursors))
        self._brief = len(self.cursors) > 1 and all(cursor.is_brief for cursor in self.cursors)
        self._ended = 0
        self._under_way: deque[tuple[Cursor, int, Step]] = deque()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def start(self) -> None:
        """Sends the first request of each scan, without waiting. Failures are raised when rows are requested."""
        room = self._first_bytes
        with self._lock, _Later(self), self._joined():
            for cursor in self.cursors:
                if (room := room - cursor.size) < 0:  # the other scans begin when their rows are requested
                    return
                self._begin(cursor)

    def _joined(self) -> AbstractContextManager[None]:
        """Returns a context manager for the requests of several scans; see `ThriftConnection.joined`."""
        return nullcontext() if len(self.cursors) == 1 else self._lease.connection().joined()

    def ask(self) -> None:
        """Waits for scanners that are being opened, and sends their first requests for rows. Failures are raised later,
        as in `start`.
        """
        with self._lock, _Later(self):
            while self._under_way and self._under_way[0][2] is Step.OPEN:
                self._take_in()

    def next_batch(self, cursor: Cursor) -> Sequence[Row] | None:
        """Returns the next rows of a scan, or None at its end. Raises the errors of `Store.scan`."""
        with self._lock:
            self._notice_fork()
            try:
                batch = self._next_batch(cursor)
                if self._brief:
                    self._read_all()
                return batch
            except HbmodelError as error:
                if error is not cursor.error:  # the store was closed, or an HTTP server refuses the requests
                    cursor.error = error
                    cursor.finished = True
                    self._lost(error)
                raise
            except BaseException as error:
                # The interruption may have happened after rows were received and before they were recorded.
                cursor.error = StoreError("A scan was interrupted: start it again.", table=cursor.called)
                cursor.finished = True
                self._lost(error)
                raise

    def end(self, cursor: Cursor) -> None:
        """Closes a scan that is no longer wanted."""
        with self._lock:
            self._notice_fork()
            cursor.batches.clear()
            if not cursor.finished:
                cursor.finished = True
                try:
                    with _Later(self):
                        self._close(cursor)
                except BaseException as error:  # perhaps after a request was sent but before it was recorded
                    self._lost(error)
                    raise

    def forget(self, cursor: Cursor) -> None:
        """Gives up the connection if none of its scans has an owner any more. This is for finalisers."""
        cursor.finished = True
        if self._all_finished():
            self._lease.abandon()

    def _next_batch(self, cursor: Cursor) -> Sequence[Row] | None:
        waits = self._backoff.waits(lambda: self._lease.reached)
        while not cursor.batches:
            if cursor.error is not None:
                raise cursor.error
            if cursor.finished:
                return None
            trouble: HbmodelError
            try:
                if self._put_off is not None:
                    cursor.trouble, self._put_off = self._put_off, None
                else:
                    self._advance(cursor)
                if cursor.trouble is None:
                    continue
                trouble, cursor.trouble = cursor.trouble, None
            except (StoreUnavailable, UnknownOutcome) as lost:
                trouble = lost
                self._lost(lost)
            self._wait(cursor, waits, trouble)
            # The error refers to this frame and through it to the callers' frames. If it were kept, only the garbage
            # collector could free what these frames hold.
            del trouble
        batch = cursor.batches.popleft()
        if cursor.scanner is not None:
            with _Later(self):  # request more rows before the caller works on this batch
                self._ask_for_rows(cursor)
        return batch

    def _read_all(self) -> None:
        """Reads the rows of all scans. Failures are raised when the rows of a scan are requested."""
        with _Later(self):
            for cursor in self.cursors:
                while not cursor.finished and cursor.trouble is None:
                    self._advance(cursor)

    # --- requests -----------------------------------------------------------------------------------------------------

    def put_off(self, error: StoreError) -> None:
        """Records a failure that need not be raised now. The next scan whose rows are requested handles it."""
        self._lost(error)
        if isinstance(error, StoreUnavailable | UnknownOutcome):
            self._put_off = error

    def _send(self, cursor: Cursor, step: Step, request: Request) -> None:
        connection = self._lease.connection()
        if self._patience != self._timeout:
            connection.limit(self._patience)
        api, arguments = request
        connection.send(api, **arguments)
        self._under_way.append((cursor, _UNWANTED if step is Step.CLOSE else cursor.epoch, step))

    def _begin(self, cursor: Cursor) -> None:
        """Requests the rest of the rows, in one call if that may be enough, otherwise through a scanner.

        After a timeout, a scanner is used, because its opening shows the cause: if the gateway opens it, the filter is
        slow; otherwise the gateway does not respond.
        """
        reading = cursor.reading()
        if reading is None:
            cursor.finished = True
            self._retire()
        elif (
            cursor.is_short and self._patience == self._timeout and (request := self._calls.whole(reading)) is not None
        ):
            self._send(cursor, Step.ROWS, request)
            cursor.asked.append(reading.rows)
        else:
            self._send(cursor, Step.OPEN, self._calls.open(reading))
            cursor.opening = True

    def _ask_for_rows(self, cursor: Cursor) -> None:
        ahead = self._ahead if cursor.is_long else 1
        while (
            cursor.scanner is not None
            and len(cursor.asked) + len(cursor.batches) < ahead
            and (rows := cursor.wanted()) > 0
        ):
            self._send(cursor, Step.ROWS, self._calls.rows(cursor.scanner, rows))
            cursor.asked.append(rows)

    def _all_finished(self) -> bool:
        """Returns whether all scans have finished. Scans that have already been found finished are not checked again,
        because a finished scan is never resumed.
        """
        cursors, ended = self.cursors, self._ended
        while ended < len(cursors) and cursors[ended].finished:
            ended += 1
        self._ended = ended
        return ended == len(cursors)

    def _close(self, cursor: Cursor) -> None:
        if not self._all_finished():
            self._give_up_later(cursor)
        self._retire()

    def _give_up_later(self, cursor: Cursor) -> None:
        """Closes a scanner. If its scan has reached its end, the request that closes the scanner is sent after the next
        request on the connection. If not, this request is sent at once.
        """
        if cursor.scanner is None or not cursor.ended:
            self._give_up(cursor)
            return
        api, arguments = self._calls.close(cursor.scanner)
        self._lease.connection().later(api, **arguments)
        cursor.give_up_scanner()

    def _give_up(self, cursor: Cursor) -> None:
        scanner = cursor.scanner
        cursor.give_up_scanner()
        if scanner is not None:
            self._send(cursor, Step.CLOSE, self._calls.close(scanner))

    def _retire(self) -> None:
        """Releases the connection when all scans have ended.

        Rows that are no longer wanted are skipped without decoding. If a scan has reached its end, the request that
        closes its scanner is sent right after the next request on the connection, even if another user of the
        connection sends that request. Any other scanner still uses resources on the server, and is closed at once. The
        next user of the connection reads the replies.
        """
        if not self._all_finished():
            return
        for cursor in self.cursors:  # includes cursors whose owner was garbage-collected
            self._give_up_later(cursor)
        while any(step is not Step.CLOSE for _, _, step in self._under_way):
            self._take_in()
        self._under_way.clear()
        if self._patience != self._timeout:
            self._lease.drop()
        self._lease.release()

    # --- replies ------------------------------------------------------------------------------------------------------

    def _advance(self, cursor: Cursor) -> None:
        if cursor.scanner is None and not cursor.under_way:
            self._begin(cursor)
            if cursor.finished:
                return
        self._ask_for_rows(cursor)
        self._take_in()

    def _take_in(self) -> None:
        """Reads one reply, which may be for any scan."""
        cursor, epoch, step = self._under_way.popleft()
        connection = self._lease.connection()
        if epoch != cursor.epoch and step is not Step.OPEN:
            connection.skip()
            return
        try:
            answer = connection.receive()
        except self._calls.failures as failure:
            if epoch == cursor.epoch:
                self._failed(cursor, failure)
            return
        if epoch != cursor.epoch:  # the scanner is no longer wanted
            self._send(cursor, Step.CLOSE, self._calls.close(answer))
        elif step is Step.OPEN:
            cursor.opening = False
            cursor.scanner = answer
            self._ask_for_rows(cursor)
        else:
            cursor.accept(self._calls.received(answer))
            if cursor.finished:
                with _Later(self):
                    self._close(cursor)
            elif cursor.scanner is None:
                self._begin(cursor)
            else:
                self._ask_for_rows(cursor)

    def _failed(self, cursor: Cursor, failure: Exception) -> None:
        name, table = cursor.table.decode(), cursor.called
        forgotten = cursor.scanner is not None and isinstance(failure, self._calls.forgotten)
        if forgotten or is_passing(failure, name):
            # The gateway has dropped the scanner ("scanner ID is invalid") or closed it during a request ("internal
            # error"), or a region is moving. Requests that were sent ahead may now return rows after a gap, or none.
            # When the scanner is given up, the replies to them are skipped.
            gateway = self._lease.connection().gateway
            reason = reason_of(failure)
            cursor.trouble = StoreUnavailable(
                "HBase cannot continue a scan.", table=table, gateway=str(gateway), reason=reason
            )
            if not (forgotten or gateway.alone):  # another gateway may have a better connection to HBase
                self._lost(cursor.trouble)
        else:
            cursor.error = store_error(failure, name, table=table)
            cursor.finished = True
        with _Later(self):
            self._close(cursor)

    # --- trouble ------------------------------------------------------------------------------------------------------

    def _notice_fork(self) -> None:
        """Gives up the connection and the scanners in a forked child, because they belong to the parent. The child
        opens new ones.
        """
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._lost(None)

    def _lost(self, error: BaseException | None) -> None:
        """Drops the connection, and with it the scanners that were open on it."""
        if (
            isinstance(error, UnknownOutcome)
            and error.timed_out
            and (error.answered or self._patience == self._timeout)
        ):
            # If a filter passes few rows, a reply may take long, and after a timeout the scan has to begin again. So
            # the timeout is doubled. A gateway that has never answered is probably down. For such a gateway, the
            # timeout is doubled only once.
            self._patience *= 2
        self._lease.drop()
        self._under_way.clear()
        for cursor in self.cursors:
            cursor.give_up_scanner()
        if isinstance(error, StoreClosed) or self._all_finished():
            self._lease.release()

    def _wait(self, cursor: Cursor, waits: Iterator[float], trouble: HbmodelError) -> None:
        wait = None if isinstance(trouble, CertificateRefused) else next(waits, None)
        table = cursor.called
        reason = trouble.reason or trouble.message
        if wait is None:
            cursor.finished = True
            refused = isinstance(trouble, CertificateRefused)
            kind = CertificateRefused if refused else StoreUnavailable
            # A scan that has received no row was not interrupted. It fails like any other call.
            first = trouble.message if refused else UNREACHED
            message = "A scan was cut off: start it again." if cursor.begun else first
            cursor.error = kind(message, table=table, **whereabouts(trouble), reason=reason)
            with _Later(self):
                self._close(cursor)
            raise cursor.error from trouble
        logger.warning("A scan of %s is resumed in %.2f s: %s", table, wait, reason)
        self._backoff.sleep(wait)
        self._repeated()


class _Later:
    """A context manager for requests whose failure need not be raised now, because scans are resumed when their rows
    are requested.
    """

    __slots__ = ("_multiplexer",)

    def __init__(self, multiplexer: ScanMultiplexer) -> None:
        self._multiplexer = multiplexer

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, StoreError) or isinstance(error, InvalidRequest):
            return False  # in other cases the connection is lost, the store is closed, or an HTTP server refuses
        self._multiplexer.put_off(error)
        return True


class ScanIterator(Iterator[Sequence[Row]]):
    """The batches of one scan, in order. If there is no multiplexer, there are no batches.

    It may be closed early, from any thread. An iterator that is garbage-collected before its end is closed too, but
    later.
    """

    def __init__(self, multiplexer: ScanMultiplexer | None, cursor: Cursor) -> None:
        self._multiplexer = multiplexer
        self._cursor = cursor

    def __next__(self) -> Sequence[Row]:
        batch = None if self._multiplexer is None else self._multiplexer.next_batch(self._cursor)
        if batch is None:
            raise StopIteration
        return batch

    def close(self) -> None:
        """Ends the scan. The last scan on a connection releases the connection. Closing twice is allowed."""
        if self._multiplexer is not None:
            self._multiplexer.end(self._cursor)

    def __del__(self) -> None:
        if self._multiplexer is not None and not self._cursor.finished:
            self._multiplexer.forget(self._cursor)
