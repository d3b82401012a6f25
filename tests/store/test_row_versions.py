"""The versions of rows, and the links between the versions of several families."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

import hbmodel as hb
from hbmodel.store import Delete, Family, Put
from hbmodel.store.values import ConditionalChange
from hbmodel.store.wide.row_versions import (
    RowVersionCell,
    checked_where_it_stands,
    link_row_versions,
    read_row_versions,
    read_versions_of,
    version_shown,
)
from tests.support.beds import HBASE, Bed

A, B, C = b"a:\x00", b"b:\x00", b"c:\x00"
VERSION = b"12345678"
LINK = bytes(8)


@hb.model(table="rv_rows", family="a")
class Thing:
    name: hb.Key[str] = hb.key()
    first: hb.Column[str] = hb.column("f")
    second: hb.Column[str] = hb.column("s", family="b")


def opened(cells: dict[bytes, bytes], timestamp: int | None = 5) -> hb.store.Store:
    store = hb.connect("memory:")
    store.create_table("rows", [Family(b"a"), Family(b"b"), Family(b"c")])
    if cells:
        store.put("rows", [Put(b"r", cells, timestamp)])
    return store


def cells_of(store: hb.store.Store) -> dict[bytes, bytes]:
    (row,) = store.get("rows", [b"r"])
    return {} if row is None else {column: cell.value for column, cell in row.columns.items()}


@pytest.mark.parametrize("column", [A, B, b"long_name_of_a_family:\x00", b"12345678:\x00"])
@pytest.mark.parametrize("value", [VERSION, b"", LINK, b"x", b"longer than a version"])
def test_what_objects_show_says_where_the_version_is_checked(column: bytes, value: bytes) -> None:
    shown = RowVersionCell(column, value, 7).shown(A)
    assert shown.timestamp == 7
    assert version_shown(shown.value) == (value or None)
    others = [Put(b"r", {b"a:x": b"1"}, 3), Delete(b"r", columns=[b"a:y"])]
    change = ConditionalChange(b"r", A, shown.value or None, [Put(b"r", {A: b"next", b"a:z": b"2"}, 3), *others])
    made = checked_where_it_stands(change, A)
    assert (made.row, made.column, made.expected) == (b"r", column, value or None)
    assert list(made.mutations) == [Put(b"r", {column: b"next", b"a:z": b"2"}, 3), *others]


def test_other_conditions_stay_as_they_are() -> None:
    shown = RowVersionCell(B, VERSION, 7).shown(A).value
    for column, expected in ((A, None), (b"a:_v", shown), (b"a:_v", None)):
        change = ConditionalChange(b"r", column, expected, [Put(b"r", {A: b"next"})])
        assert checked_where_it_stands(change, A) is change
    assert version_shown(None) is None


def test_versions_are_read_along_links() -> None:
    store = opened({A: VERSION, B: LINK + A, C: LINK + B})
    store.put("rows", [Put(b"s", {C: b"87654321"}, 9), Put(b"t", {C: LINK + B}, 9)])
    assert read_row_versions(store, "rows", C, [b"t", b"s", b"r", b"u"]) == {
        b"r": RowVersionCell(A, VERSION, 5),
        b"s": RowVersionCell(C, b"87654321", 9),
        b"t": RowVersionCell(B, b"", 9),  # what it leads to is gone
    }
    assert read_row_versions(store, "rows", A, []) == {}
    assert read_versions_of(store, "rows", {b"r": [C, B], b"u": [A, B]}) == {
        b"r": [RowVersionCell(A, VERSION, 5)],
        b"u": [RowVersionCell(A, b"", 0), RowVersionCell(B, b"", 0)],
    }


STARTS: Sequence[dict[bytes, bytes]] = [
    {column: value for column, value in zip((A, B, C), values, strict=True) if value}
    for values in itertools.product(
        (b"", b"aaaaaaaa"), (b"", b"bbbbbbbb", LINK + A), (b"", b"cccccccc", LINK + A, LINK + B)
    )
]


@pytest.mark.parametrize("columns", [(A, B), (B, C), (C, A), (C, B, A)])
@pytest.mark.parametrize("start", STARTS)
def test_linked_versions_are_one(start: dict[bytes, bytes], columns: Sequence[bytes]) -> None:
    store = opened(start)
    before = read_versions_of(store, "rows", {b"r": columns})
    linked = link_row_versions(store, "rows", before)[b"r"]
    (after,) = read_versions_of(store, "rows", {b"r": columns})[b"r"]
    assert (after.column, after.value) == (linked.column, linked.value)
    leader = min(before[b"r"], key=lambda version: version.column)
    assert after.column == leader.column
    assert len(after.value) == 8
    if leader.value:
        assert after.value == leader.value


@pytest.mark.parametrize("written", [A, B])
@pytest.mark.parametrize("start", [{}, {A: b"aaaaaaaa"}, {B: b"bbbbbbbb"}, {A: b"aaaaaaaa", B: b"bbbbbbbb"}])
def test_a_version_that_was_written_since_is_not_linked(start: dict[bytes, bytes], written: bytes) -> None:
    store = opened(start)
    before = read_versions_of(store, "rows", {b"r": [A, B]})
    store.put("rows", [Put(b"r", {written: b"otherone"}, 6)])
    linked = link_row_versions(store, "rows", before)
    if written == A and A in start:  # the version that stays is a condition of the next write, not of the link
        assert cells_of(store) == {A: b"otherone", B: LINK + A}
    else:
        assert linked == {}
        assert cells_of(store)[written] == b"otherone"


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ["memory", "embedded", HBASE[1]], indirect=True)
def test_a_link_is_seen_whatever_the_clocks_say(bed: Bed) -> None:
    """A version has the time of a program's clock, which may be ahead of the server's."""
    bed.use(Thing)
    ahead = 32_503_680_000_000  # the year 3000
    bed.store.put("rv_rows", [Put(b"r", {A: b"aaaaaaaa", B: b"bbbbbbbb"}, ahead)])
    link_row_versions(bed.store, "rv_rows", read_versions_of(bed.store, "rv_rows", {b"r": [A, B]}))
    assert read_versions_of(bed.store, "rv_rows", {b"r": [B]}) == {b"r": [RowVersionCell(A, b"aaaaaaaa", ahead)]}
