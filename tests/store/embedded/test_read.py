"""The progress of a scan, and the segments of a wide row one after the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from hbmodel.store.embedded.cells import StoredCell, StoredRow, encode_segments
from hbmodel.store.embedded.read import ScanPosition, _Parts
from hbmodel.store.embedded.segments import RowSegments
from hbmodel.store.ranges import KeyRange

ROWS = [StoredRow(row, {b"d:a": StoredCell(b"", 1)}) for row in (b"r", b"s")]
SEGMENTS = {b"": (b"a", b"b"), b"d": (b"d", b"e"), b"g": (b"g",)}


@pytest.fixture
def segments() -> Iterator[RowSegments]:
    """A row of three segments."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE segments (table_id, row, first, ends, cells)")
        for bound, columns in SEGMENTS.items():
            ((first, _, data),) = encode_segments(bound, {column: StoredCell(b"", 1) for column in columns}, 1000)
            connection.execute("INSERT INTO segments VALUES (1, ?, ?, NULL, ?)", (b"r", first, data))
        yield RowSegments(connection, 1, b"r")


def test_a_scan_ends_with_the_last_row_that_is_wanted() -> None:
    position = ScanPosition(KeyRange(), 3)
    assert position.given(ROWS, full=True) == ROWS
    assert not position.ended
    position.given(ROWS[:1], full=True)
    assert (position.remaining, position.ended) == (0, True)


def test_a_scan_without_a_limit_ends_where_nothing_is_left_to_read() -> None:
    position = ScanPosition(None)
    position.given(ROWS, full=True)  # there may be more pieces of the last row
    assert not position.ended
    position.given(ROWS, full=False)
    assert position.ended


def test_a_segment_comes_once_however_small_the_column_that_is_asked_for(segments: RowSegments) -> None:
    parts = _Parts(segments, KeyRange(b"a"))
    assert [part.first if (part := parts.next(column)) else None for column in (b"", b"b", b"a", b"a")] == [
        b"",
        b"d",
        b"g",
        None,
    ]


def test_segments_below_the_column_that_is_asked_for_are_left_out(segments: RowSegments) -> None:
    parts = _Parts(segments, KeyRange(b"a"))
    assert [part.first if (part := parts.next(column)) else None for column in (b"", b"h", b"")] == [b"", b"g", None]
    assert [part.first for part in _Parts(segments, KeyRange(b"c", b"g"))] == [b"", b"d"]
