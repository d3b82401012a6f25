"""The calls by which the first Thrift gateway reads ranges of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thriftpy2.thrift import TApplicationException

from hbmodel.store.gateway.scanning.scan_calls import Reading, Request
from hbmodel.store.thrift1.service import FAILURES, IllegalArgument, TScan, in_order


class Thrift1ScanCalls:
    """Uses a scanner for every scan, because this gateway has no call that reads rows without a scanner."""

    failures = FAILURES
    forgotten: tuple[type[Exception], ...] = (IllegalArgument, TApplicationException)

    def whole(self, reading: Reading) -> Request | None:
        """Returns None, because there is no such call."""
        return None

    def open(self, reading: Reading) -> Request:
        """Returns the call that opens a scanner.

        The call has no parameter for a limit, and the gateway reads more rows than are requested. So a page filter ends
        the scan in each region. If the scan already has a filter, no page filter is added, because it would also count
        rows that the scan's filter drops.
        """
        chosen = reading.filter
        if chosen is None and reading.most is not None:
            chosen = b"PageFilter (%d)" % reading.most
        scan = TScan(
            startRow=reading.start,
            stopRow=reading.stop,
            columns=list(reading.columns) or None,
            caching=reading.rows,
            filterString=chosen,
            reversed=True if reading.reversed else None,
            batchSize=reading.cells,
            timestamp=reading.before,  # the timestamp is exclusive
        )
        return "scannerOpenWithScan", {"tableName": reading.table, "scan": scan, "attributes": {}}

    def rows(self, scanner: int, count: int) -> Request:
        """Returns the call that reads the next rows of a scanner."""
        return "scannerGetList", {"id": scanner, "nbRows": count}

    def received(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Returns the rows with their cells in order."""
        return in_order(rows)

    def close(self, scanner: int) -> Request:
        """Returns the call that closes a scanner."""
        return "scannerClose", {"id": scanner}
