"""How the first gateway is asked for ranges of rows."""

from __future__ import annotations

import pytest

from hbmodel.store import Scan
from hbmodel.store.filters import KeyOnly
from hbmodel.store.gateway.scanning.scan_cursor import Cursor
from hbmodel.store.ranges import KeyRange
from hbmodel.store.thrift1.scans import Thrift1ScanCalls


@pytest.mark.parametrize(
    ("scan", "filter"),
    [
        (Scan(limit=3), b"PageFilter (3)"),
        (Scan(limit=3, batch_size=2), b"PageFilter (3)"),
        # The scan begins at the row behind the range, which counts too.
        (Scan(KeyRange(b"a", b"b"), reversed=True, limit=3), b"PageFilter (4)"),
        (Scan(), None),
        (Scan(filter=KeyOnly(), limit=3), b"KeyOnlyFilter()"),
    ],
)
def test_a_limit_ends_the_scan_in_the_gateway_where_no_other_filter_drops_rows(
    scan: Scan, filter: bytes | None
) -> None:
    reading = Cursor(b"t", scan).reading()
    assert reading is not None
    _, arguments = Thrift1ScanCalls().open(reading)
    assert arguments["scan"].filterString == filter
