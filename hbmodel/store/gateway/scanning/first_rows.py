"""Reads the first row of each of many ranges, with short requests that are made from one template and sent together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hbmodel.errors import InvalidRequest, StoreError
from hbmodel.store.checks.reads import distinct_columns, reversible
from hbmodel.store.gateway.filter_language import filter_string
from hbmodel.store.gateway.pool import Lease
from hbmodel.store.gateway.scanning.message_template import (
    NUMBER,
    START,
    STOP,
    MessageTemplate,
    with_bounds,
    with_number,
)
from hbmodel.store.gateway.scanning.scan_bounds import forward_bounds, reversed_bounds
from hbmodel.store.gateway.scanning.scan_calls import Reading, ScanCalls
from hbmodel.store.gateway.wire.call_sizes import CALL_SIZES, CallSizes
from hbmodel.store.gateway.wire.connection import ThriftConnection
from hbmodel.store.values import Row, Scan

FEWEST = 8
"""The minimum number of scans for which a template is worthwhile."""

ASKED_TOGETHER = 32
"""The number of scanners whose requests for rows are sent in one packet."""


def want_first_rows(scans: Sequence[Scan]) -> bool:
    """Returns whether there are many scans of one row each, and whether they differ only in their ranges."""
    if len(scans) < FEWEST or scans[0].cells is not None:
        return False
    one = scans[0]
    shape = (1, one.columns, one.filter, one.reversed, one.cells, one.before)
    return all(
        (scan.limit, scan.columns, scan.filter, scan.reversed, scan.cells, scan.before) == shape for scan in scans
    )


class ReadScan(Iterator[Sequence[Row]]):
    """The batches of a scan that has already been read.

    Args:
        rows: the only batch; if it is empty, there is no batch.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def __next__(self) -> Sequence[Row]:
        rows, self._rows = self._rows, ()
        if not rows:
            raise StopIteration
        return rows

    def close(self) -> None:
        """Forgets the rows."""
        self._rows = ()


class _Share:
    """The scans that are read on one connection.

    Args:
        rest: the requests that are still to be sent, each with the position of its scan and the number of rows to
            request.
    """

    def __init__(self, lease: Lease[ThriftConnection], rest: Iterator[tuple[int, int, bytes]]) -> None:
        self.lease = lease
        self.rest = rest
        self.sent: list[tuple[int, int]] = []
        """The scans that wait for a reply, in the order of the replies, each with its position and the number of
        requested rows.
        """
        self.scanners: list[int] = []
        """The scanners that must be closed."""


class FirstRowsReader:
    """Reads the first rows of ranges.

    Nothing is retried here. If a range got no answer for any reason, an ordinary scan reads it.

    Args:
        table: the table's name on the server.
        scans: scans for which `want_first_rows` is true.
    """

    def __init__(
        self, calls: ScanCalls, service: Any, table: bytes, scans: Sequence[Scan], sizes: CallSizes = CALL_SIZES
    ) -> None:
        self._calls, self._service, self._table, self._scans, self._sizes = calls, service, table, scans, sizes
        self.found: list[Sequence[Row] | None] = [None] * len(scans)
        """The rows of each scan, or None if it got no answer."""
        self.trouble: StoreError | None = None
        """The reason why a connection was given up, or None."""
        one = scans[0]
        self._columns = distinct_columns(one.columns)
        self._filter = (
            None if one.filter is None else filter_string(reversible(one.filter) if one.reversed else one.filter)
        )
        self._templates = [self._template(rows) for rows in ((1, 2) if one.reversed else (1,))]

    def _template(self, rows: int) -> tuple[MessageTemplate, MessageTemplate | None]:
        """Returns the first request of a scan for `rows` rows, and the second request if the first request only opens a
        scanner.
        """
        one = self._scans[0]
        reading = Reading(
            self._table, START, STOP, self._columns, self._filter, one.reversed, rows, rows, None, one.before
        )
        request = self._calls.whole(reading)
        if request is not None:
            return with_bounds(self._service, request), None
        return with_bounds(self._service, self._calls.open(reading)), with_number(
            self._service, self._calls.rows(NUMBER, rows)
        )

    def read(self, leases: Sequence[Lease[ThriftConnection]]) -> None:
        """Reads the rows on these connections, and releases the leases. Failures of gateways are not raised."""
        steps = (
            [self._send, self._receive]
            if self._templates[0][1] is None
            else [self._send, self._ask, self._receive, self._close]
        )
        try:
            connected = self._connected(leases)
            every = range(len(self._scans))
            shares = [
                _Share(lease, self._requests(every[first :: len(connected)])) for first, lease in enumerate(connected)
            ]
            while shares:
                for step in steps:
                    shares = [share for share in shares if self._goes_on(step, share)]
                shares = [share for share in shares if share.sent]
        except BaseException:
            for lease in leases:
                lease.drop()
            raise
        finally:
            for lease in leases:
                lease.release()

    def _connected(self, leases: Sequence[Lease[ThriftConnection]]) -> Sequence[Lease[ThriftConnection]]:
        """Opens the connections one after the other, and stops at the first failure, because each further failure might
        also take a full timeout. Returns the leases whose connections are open.
        """
        for count, lease in enumerate(leases):
            try:
                lease.connection()
            except StoreError as error:
                self.trouble = error
                return leases[:count]
        return leases

    def _goes_on(self, step: Callable[[ThriftConnection, _Share], None], share: _Share) -> bool:
        """Carries out a step on a connection. Returns whether the connection is still usable."""
        try:
            step(share.lease.connection(), share)
        except InvalidRequest:
            raise
        except StoreError as error:
            self.trouble = error
            share.lease.drop()
            return False
        return True

    def _requests(self, positions: Iterable[int]) -> Iterator[tuple[int, int, bytes]]:
        """Yields the requests for the scans at some positions, each with the position and the number of rows. A
        reversed scan may begin with a row outside its range. In this case, one more row is requested.
        """
        reverse, complete = self._scans[0].reversed, [first.complete for first, _ in self._templates]
        bounds_of = reversed_bounds if reverse else forward_bounds
        for at in positions:
            key_range = self._scans[at].range
            bounds = bounds_of(key_range)
            if bounds is None:
                self.found[at] = ()
            else:
                surplus = int(reverse and bounds[0] == key_range.stop)
                yield at, 1 + surplus, complete[surplus](*bounds)

    # --- steps --------------------------------------------------------------------------------------------------------

    def _send(self, connection: ThriftConnection, share: _Share) -> None:
        """Sends the first requests, up to the limit of bytes that may wait for replies."""
        api, room, packet_size = self._templates[0][0].api, self._sizes.first_bytes, self._sizes.packet
        packet: list[bytes] = []
        size = 0
        share.sent = []
        for at, rows, request in share.rest:
            share.sent.append((at, rows))
            packet.append(request)
            size += len(request)
            if size >= packet_size:
                connection.send_encoded(api, packet)
                room -= size
                packet, size = [], 0
                if room <= 0:
                    break
        if packet:
            connection.send_encoded(api, packet)

    def _ask(self, connection: ThriftConnection, share: _Share) -> None:
        """Reads the numbers of the scanners, and requests their rows."""
        opened, share.sent, share.scanners = share.sent, [], []
        asking = [second for _, second in self._templates if second is not None]
        packet: list[bytes] = []
        for at, rows in opened:
            try:
                scanner = connection.receive()
            except self._calls.failures:
                continue
            share.sent.append((at, rows))
            share.scanners.append(scanner)
            packet.append(asking[rows - 1].complete(scanner))
            if len(packet) == ASKED_TOGETHER:
                connection.send_encoded(asking[0].api, packet)
                packet = []
        if packet:
            connection.send_encoded(asking[0].api, packet)

    def _receive(self, connection: ThriftConnection, share: _Share) -> None:
        """Reads the rows from the replies."""
        receive, received, failures, firsts, reverse = (
            connection.receive, self._calls.received, self._calls.failures, self.found, self._scans[0].reversed
        )  # fmt: skip
        for at, _ in share.sent:
            try:
                rows = received(receive())
            except failures:
                continue
            if reverse:
                key_range = self._scans[at].range
                rows = [row for row in rows if row.row in key_range]
            firsts[at] = rows[:1]

    def _close(self, connection: ThriftConnection, share: _Share) -> None:
        """Closes the scanners. The next user of the connection reads the replies."""
        if share.scanners:
            template = with_number(self._service, self._calls.close(NUMBER))
            connection.send_encoded(
                template.api, [template.complete(scanner) for scanner in share.scanners], wanted=False
            )
