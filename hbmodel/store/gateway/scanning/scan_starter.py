"""Starts the scans of a call in the cheapest of three ways."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.store.gateway.pool import Pool
from hbmodel.store.gateway.retry import Backoff, Idempotence, RetryingCaller
from hbmodel.store.gateway.scanning.first_cells import FirstPiece, first_piece
from hbmodel.store.gateway.scanning.first_rows import FirstRowsReader, ReadScan, want_first_rows
from hbmodel.store.gateway.scanning.scan_calls import ScanCalls
from hbmodel.store.gateway.scanning.scan_cursor import Cursor
from hbmodel.store.gateway.scanning.scan_multiplexer import ScanIterator, ScanMultiplexer
from hbmodel.store.gateway.wire.call_sizes import CallSizes
from hbmodel.store.gateway.wire.connection import ThriftConnection, Wire
from hbmodel.store.values import Row, Scan

logger = logging.getLogger("hbmodel")


@frozen(eq=False)
class ScanStarter:
    """Starts scans on the connections of a pool.

    Attributes:
        calls: makes the gateway's calls.
        service: the Thrift service that the gateway offers.
        caller: makes single calls, and reports each retry.
        backoff: how often a scan is tried again.
    """

    calls: ScanCalls
    service: Any
    pool: Pool[ThriftConnection]
    caller: RetryingCaller
    backoff: Backoff
    wire: Wire
    sizes: CallSizes

    def start(self, name: bytes, scans: Sequence[Scan], called: str) -> list[Iterator[Sequence[Row]]]:
        """Starts scans: by one call for a piece of one row, by encoded requests for the first rows of many ranges, or
        as scans that share connections.

        Args:
            name: the table's name on the server.
            called: the table's name for the user of the store.
        """
        reading = first_piece(name, scans)
        if reading is not None and (request := self.calls.whole(reading)) is not None:
            api, arguments = request

            def read() -> Any:
                return self.caller.run(
                    Idempotence.NONE, lambda connection: connection.call(api, **arguments), table=called
                )

            return [FirstPiece(lambda: self.calls.received(read()))]
        if not (self.wire.takes_encoded and self.backoff.attempts != 1 and want_first_rows(scans)):
            return self._sharing(name, scans, called, self.backoff)
        first = FirstRowsReader(self.calls, self.service, name, scans, self.sizes)
        first.read(self.pool.lease_streams(len(scans), len(scans) // self.sizes.scans_each))
        left = [scan for scan, rows in zip(scans, first.found, strict=True) if rows is None]
        backoff = self.backoff
        if left and first.trouble is not None:
            logger.warning(
                "%d scans of %s are begun again: %s", len(left), called, first.trouble.reason or first.trouble.message
            )
            self.caller.repeated()
            backoff = evolve(backoff, attempts=backoff.attempts and backoff.attempts - 1)
        rest = iter(self._sharing(name, left, called, backoff))
        return [next(rest) if rows is None else ReadScan(rows) for rows in first.found]

    def _sharing(
        self, name: bytes, scans: Sequence[Scan], called: str, backoff: Backoff
    ) -> list[Iterator[Sequence[Row]]]:
        """Starts scans that share connections, and sends their first requests."""
        cursors = [Cursor(name, scan, called) for scan in scans]
        live = [cursor for cursor in cursors if not cursor.finished]
        if not live:
            return [ScanIterator(None, cursor) for cursor in cursors]
        leases = self.pool.lease_streams(len(live))
        multiplexers = [
            ScanMultiplexer(
                self.calls,
                lease,
                live[first :: len(leases)],
                backoff,
                self.wire.timeout,
                self.caller.repeated,
                self.sizes.first_bytes,
            )
            for first, lease in enumerate(leases)
        ]
        shared = {cursor: multiplexer for multiplexer in multiplexers for cursor in multiplexer.cursors}
        batches = [ScanIterator(shared.get(cursor), cursor) for cursor in cursors]
        try:
            for multiplexer in multiplexers:
                multiplexer.start()
            for multiplexer in multiplexers:
                multiplexer.ask()
        except BaseException:
            for each in batches:
                each.close()
            raise
        return list(batches)
