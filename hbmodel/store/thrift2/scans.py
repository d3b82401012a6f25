"""The calls by which the second Thrift gateway reads ranges of rows: gets, single calls for short ranges, and
scanners.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thriftpy2.thrift import TApplicationException

from hbmodel.store.gateway.scanning.scan_calls import Reading, Request
from hbmodel.store.ranges import key_successor
from hbmodel.store.thrift2.service import FAILURES, GetRow, TIllegalArgument, TReadType, TScan, time_range
from hbmodel.store.thrift2.writes import column_of

SHORT = 100
"""Scans of at most this many rows read single blocks through the cache (`PREAD`); longer scans read as a stream."""


class Thrift2ScanCalls:
    """Uses a get for a part of one row, one call for ranges that may be short, and a scanner for ranges that are known
    to be longer.
    """

    failures = FAILURES
    forgotten: tuple[type[Exception], ...] = (TIllegalArgument, TApplicationException)

    def whole(self, reading: Reading) -> Request | None:
        """Returns the call that reads all requested rows. The server closes its scanner itself when it reaches the
        limit.

        The first cells of one row are read by a get, which needs only half the time, because the gateway and the region
        server open no scanner for it.
        """
        if reading.cells is not None and reading.rows == 1 and reading.stop == key_successor(reading.start):
            return "getMultiple", {"table": reading.table, "tgets": [_first_cells(reading, reading.cells)]}
        scan = _scan(reading)
        scan.limit = reading.rows
        if reading.rows <= SHORT and reading.filter is None:
            scan.readType = TReadType.PREAD
        return "getScannerResults", {"table": reading.table, "tscan": scan, "numRows": reading.rows}

    def open(self, reading: Reading) -> Request:
        """Returns the call that opens a scanner."""
        return "openScanner", {"table": reading.table, "tscan": _scan(reading)}

    def rows(self, scanner: int, count: int) -> Request:
        """Returns the call that reads the next rows of a scanner."""
        return "getScannerRows", {"scannerId": scanner, "numRows": count}

    def received(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Returns the rows unchanged, in HBase's order, without the empty result of a get."""
        return [] if rows and not rows[0].columnValues else rows

    def close(self, scanner: int) -> Request:
        """Returns the call that closes a scanner."""
        return "closeScanner", {"scannerId": scanner}


def _first_cells(reading: Reading, cells: int) -> GetRow:
    counted = b"ColumnPaginationFilter (%d, 0)" % cells
    chosen = counted if reading.filter is None else b"(%s) AND %s" % (reading.filter, counted)
    columns = [column_of(column) for column in reading.columns] or None
    return GetRow(reading.start, columns, chosen, time_range(reading.before))


def _scan(reading: Reading) -> Any:
    return TScan(
        startRow=reading.start,
        stopRow=reading.stop,
        columns=[column_of(column) for column in reading.columns] or None,
        caching=reading.rows,
        filterString=reading.filter,
        reversed=True if reading.reversed else None,
        batchSize=reading.cells,
        timeRange=time_range(reading.before),
    )
