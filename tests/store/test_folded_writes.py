"""Writes of objects that share rows: the puts that are joined, the writes that are refused before anything is sent, and
the cells that a delete leaves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import count

import pytest
from attrs import evolve

from hbmodel.encoding.codecs.text import terminated
from hbmodel.errors import FamilyNotFound, InvalidRequest
from hbmodel.store import ConditionalChange, ConditionalPut, Delete, Family, Put, Scan
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.store.filters import ColumnPrefix, ColumnRange
from hbmodel.store.wide.folded import FoldedStore
from hbmodel.store.wide.wide_rows import ROW_VERSION
from tests.support.beds import ATOMIC, HBASE, Bed
from tests.support.cut_rows import wide_rows
from tests.support.following import Following
from tests.support.sizes import SMALL_PAGES

TABLES = (f"folded_writes_{number}" for number in count())
STORES = ("memory", "limited", *HBASE)


def place(row: bytes, name: bytes) -> bytes:
    return terminated(row) + terminated(name)


class Wide:
    """A table with objects of a wide model in the rows `r` and `s`, and with cells that belong to no object."""

    def __init__(self, bed: Bed) -> None:
        self.bed, self.table = bed, next(TABLES)
        if self.table in bed.store.tables():
            bed.store.delete_table(self.table)
        bed.store.create_table(self.table, [Family(b"d"), Family(b"e")])
        columns = [b"d:a", b"d:b", b"d:_l"]
        self.store = FoldedStore(bed.store, [wide_rows(self.table, b"d", columns)], pages=SMALL_PAGES)
        bed.store.put(
            self.table, [Put(row, {b"d:": b"version", b"d:q": b"other", b"e:x": b"e"}, 5) for row in (b"r", b"s")]
        )
        bed.store.calls.clear()

    def cells(self) -> dict[bytes, dict[bytes, tuple[bytes, int]]]:
        (batches,) = self.bed.store.scan(self.table, [Scan()])
        return {
            row.row: {name: (cell.value, cell.timestamp) for name, cell in row.columns.items()}
            for b in batches
            for row in b
        }

    def objects(self) -> dict[bytes, Mapping[bytes, bytes]]:
        (batches,) = self.store.scan(self.table, [Scan()])
        return {row.row: {name: cell.value for name, cell in row.columns.items()} for batch in batches for row in batch}

    def names(self) -> list[str]:
        return [call.name for call in self.bed.store.calls if call.writes]

    def puts(
        self, *names: bytes, row: bytes = b"r", timestamp: int | None = 10, ttl: int | None = None
    ) -> Sequence[Put]:
        return [Put(place(row, name), {b"d:a": name, b"d:b": name}, timestamp, ttl) for name in names]


@pytest.mark.parametrize("bed", STORES, indirect=True)
def test_puts_into_one_row_are_one_put(bed: Bed) -> None:
    wide = Wide(bed)
    wide.store.put(wide.table, [*wide.puts(b"x", b"y"), *wide.puts(b"x", row=b"s"), *wide.puts(b"z")])
    (call,) = [call for call in bed.store.calls if call.writes]
    assert [(put.row, len(put.cells)) for put in call.items] == [(b"r", 6), (b"s", 2)]
    assert list(wide.objects()) == [place(b"r", b"x"), place(b"r", b"y"), place(b"r", b"z"), place(b"s", b"x")]
    assert wide.objects()[place(b"r", b"y")] == {b"d:a": b"y", b"d:b": b"y"}
    assert wide.cells()[b"r"][b"d:"] == (b"version", 5)


@pytest.mark.parametrize("bed", STORES, indirect=True)
def test_each_time_and_life_in_a_row_is_a_put_of_its_own(bed: Bed) -> None:
    wide = Wide(bed)
    now = time.time_ns() // 1_000_000
    mixed = [
        *wide.puts(b"x"),
        *wide.puts(b"v", timestamp=now, ttl=600_000),
        *wide.puts(b"y", timestamp=11),
        *wide.puts(b"x", row=b"s"),
    ]
    wide.store.put(wide.table, mixed)
    assert wide.names() == ["put"]
    assert {
        name: cell[1] for name, cell in wide.cells()[b"r"].items() if name.startswith(b"d:p") and name.endswith(b"a")
    } == {b"d:p" + terminated(name) + b"a": at for name, at in ((b"v", now), (b"x", 10), (b"y", 11))}
    wide.store.put(wide.table, [*wide.puts(b"w", timestamp=now - 1000, ttl=1), *wide.puts(b"x", timestamp=12)])
    assert place(b"r", b"w") not in wide.objects()


@pytest.mark.parametrize("bed", ["memory", "limited"], indirect=True)
def test_what_cannot_be_written_at_once_is_refused_before_anything_is_sent(bed: Bed) -> None:
    wide = Wide(bed)
    with pytest.raises(InvalidRequest, match="A put needs at least one cell"):
        wide.store.put(wide.table, [Put(place(b"r", b"x"), {})])
    with pytest.raises(InvalidRequest, match="The columns of a wide model and other columns cannot be read"):
        wide.store.put(wide.table, [Put(place(b"r", b"x"), {b"d:a": b"1", b"e:a": b"1"})])
    with pytest.raises(FamilyNotFound):
        wide.store.put(wide.table, [Put(place(b"r", b"x"), {b"d:a": b"1", b"f:a": b"1"})])
    with pytest.raises(InvalidRequest):
        wide.store.mutate_row(wide.table, [*wide.puts(b"x"), *wide.puts(b"x", row=b"s")])
    assert wide.names() == []
    wide.store.put(
        wide.table, [Put(place(b"r", b"%d" % number), {b"d:a": bytes(1024 * 1024)}, 10) for number in range(5)]
    )
    (call,) = [call for call in bed.store.calls if call.writes]
    assert [len(put.cells) for put in call.items] == [1] * 5


@pytest.mark.parametrize("bed", STORES, indirect=True)
def test_a_delete_takes_the_objects_own_columns_and_hides_what_comes_late(bed: Bed) -> None:
    wide = Wide(bed)
    wide.store.put(wide.table, [*wide.puts(b"x", b"x\x00", b"xy"), Put(place(b"r", b"x"), {b"d:older": b"1"}, 10)])
    before = wide.cells()[b"r"]
    wide.store.delete(wide.table, [Delete(place(b"r", b"x"), families=[b"d"], timestamp=10)])
    own = b"d:p" + terminated(b"x")
    assert wide.cells()[b"r"] == {name: cell for name, cell in before.items() if not name.startswith(own)}
    wide.store.put(wide.table, [Put(place(b"r", b"x"), {b"d:_l": b"late", b"d:older": b"late"}, 10)])
    assert place(b"r", b"x") not in wide.objects()
    wide.store.put(wide.table, wide.puts(b"x", timestamp=11))
    wide.store.delete(
        wide.table,
        [Delete(place(b"r", b"x"), columns=[b"d:a"], timestamp=11), Delete(place(b"r", b"xy"), timestamp=10)],
    )
    assert wide.objects() == {
        place(b"r", b"x"): {b"d:b": b"x"},
        place(b"r", b"x\x00"): {b"d:a": b"x\x00", b"d:b": b"x\x00"},
    }


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_objects_of_one_row_change_together(bed: Bed) -> None:
    wide = Wide(bed)
    wide.store.put(wide.table, wide.puts(b"x", b"y"))
    change = [
        Delete(place(b"r", b"x"), families=[b"d"], timestamp=19),
        *wide.puts(b"y", timestamp=20),
        *wide.puts(b"z", timestamp=21),
    ]
    bed.store.calls.clear()
    wide.store.mutate_row(wide.table, change)
    assert wide.names() == ["mutate_row"]
    after = {place(b"r", b"y"): {b"d:a": b"y", b"d:b": b"y"}, place(b"r", b"z"): {b"d:a": b"z", b"d:b": b"z"}}
    assert wide.objects() == after
    of_y = (place(b"r", b"y"), b"d:a")
    gone = [Delete(place(b"r", b"z"), timestamp=30), *wide.puts(b"x", timestamp=30)]
    assert not wide.store.check_and_mutate(wide.table, *of_y, b"no", gone)
    assert wide.objects() == after
    assert wide.store.check_and_mutate(wide.table, *of_y, b"y", gone)
    assert list(wide.objects()) == [place(b"r", b"x"), place(b"r", b"y")]
    with pytest.raises(InvalidRequest):
        wide.store.check_and_mutate(wide.table, *of_y, b"y", wide.puts(b"x", row=b"s"))
    applied = wide.store.check_and_mutate_many(
        wide.table,
        [
            ConditionalChange(place(b"r", b"x"), b"d:a", b"x", [Put(place(b"r", b"x"), {b"d:b": b"new"}, 31)]),
            ConditionalChange(place(b"r", b"y"), b"d:a", None, [Put(place(b"r", b"y"), {b"d:b": b"new"}, 31)]),
        ],
    )
    assert list(applied) == [True, False]


@pytest.mark.parametrize("bed", STORES, indirect=True)
def test_conditions_and_counters_are_of_the_object(bed: Bed) -> None:
    wide = Wide(bed)
    x = place(b"r", b"x")
    assert wide.store.check_and_put(wide.table, x, b"d:a", None, Put(x, {b"d:a": b"1"}))
    assert not wide.store.check_and_put(wide.table, x, b"d:a", None, Put(x, {b"d:a": b"2"}))
    assert wide.store.check_and_put(wide.table, x, b"d:a", b"1", Put(x, {b"d:b": b"2"}))
    bed.store.calls.clear()
    places = [place(row, b"%02d" % n) for row in (b"r", b"s") for n in range(40)]
    puts = [ConditionalPut(b"d:a", expected, Put(at, {b"d:b": b"3"})) for at in (x, *places) for expected in (b"1",)]
    assert list(wide.store.check_and_put_each(wide.table, puts)) == [True, *[False] * 80]
    assert wide.names() == ["check_and_put_each"]
    assert all(each.put.row in (b"r", b"s") for each in bed.store.calls[0].items)
    [other] = wide.store.check_and_put_each(wide.table, [ConditionalPut(b"e:x", b"e", Put(b"r", {b"e:x": b"f"}))])
    assert other
    assert wide.cells()[b"r"][b"e:x"][0] == b"f"
    assert [wide.store.increment(wide.table, x, b"d:n", 3), wide.store.increment(wide.table, x, b"d:n", 4)] == [3, 7]
    assert wide.objects() == {x: {b"d:a": b"1", b"d:b": b"3", b"d:n": (7).to_bytes(8, "big")}}


@pytest.mark.parametrize("bed", STORES, indirect=True)
def test_other_families_and_tables_are_seen_as_they_are(bed: Bed) -> None:
    wide = Wide(bed)
    wide.store.put(wide.table, [Put(b"r", {b"e:y": b"2"}, 9)])
    (row,) = wide.store.get(wide.table, [b"r"], [b"e"])
    assert row is not None
    assert {name: cell.value for name, cell in row.columns.items()} == {b"e:x": b"e", b"e:y": b"2"}
    (batches,) = wide.store.scan(wide.table, [Scan(columns=[b"e"], filter=ColumnPrefix(b"x"))])
    assert [row.row for batch in batches for row in batch] == [b"r", b"s"]
    wide.store.delete(wide.table, [Delete(b"r", families=[b"e"], timestamp=9)])
    assert b"e:y" not in wide.cells()[b"r"]
    assert wide.store.begin_put(wide.table, wide.puts(b"x")).end() is None  # type: ignore[func-returns-value]
    assert list(wide.objects()) == [place(b"r", b"x")]
    assert [family.name for family in wide.store.families(wide.table)] == [b"d", b"e"]
    (region,) = wide.store.regions(wide.table)
    assert (region.range.start, region.range.stop) == (b"", None)


@pytest.mark.parametrize("bed", HBASE, indirect=True)
def test_a_newer_cell_in_the_empty_qualifier_hides_the_tombstone_of_its_family(bed: Bed) -> None:
    """HBase seeks from that cell to the first column of a range, past the tombstone. So the version of a row has
    another qualifier.
    """
    for qualifier, shown in ((b"", [b"d:x"]), (ROW_VERSION, [])):
        table = next(TABLES)
        bed.store.create_table(table, [Family(b"d")])
        bed.store.put(table, [Put(b"r", {b"d:x": b"deleted"}, 5)])
        bed.store.delete(table, [Delete(b"r", families=[b"d"], timestamp=6)])
        bed.store.put(table, [Put(b"r", {b"d:" + qualifier: b"version"}, 7)])
        (batches,) = bed.store.scan(table, [Scan(columns=[b"d"], filter=ColumnRange(b"a", True, None, False))])
        assert [column for batch in batches for row in batch for column in row.columns] == shown


def changes_of(name: bytes) -> list[ConditionalChange | ConditionalPut]:
    """A conditional put and a conditional change of one object, on its first column."""
    put = Put(place(b"r", name), {b"d:b": b"new"})
    return [
        ConditionalPut(b"d:a", name, put),
        ConditionalChange(put.row, b"d:a", name, [put, Delete(put.row, columns=[b"d:_l"], timestamp=10)]),
    ]


@pytest.mark.parametrize("number", [0, 1], ids=["put", "change"])
def test_a_read_behind_a_change_of_an_object_is_sent_with_it(number: int) -> None:
    following = Following(EmbeddedStore(None))
    following.create_table("t", [Family(b"d"), Family(b"e")])
    store = FoldedStore(following, [wide_rows("t", b"d", [b"d:a", b"d:b"])])
    store.put("t", [Put(place(b"r", name), {b"d:a": name, b"d:b": name}, 10) for name in (b"x", b"xy")])
    following.calls.clear()
    change = changes_of(b"x")[number]
    applied, rows = store.change_and_get("t", change, [b"d:b", b"d:_l"])
    assert [call.name for call in following.calls] == ["change_and_get"]
    assert applied
    assert rows is not None
    assert rows[0] is not None
    assert rows[0].row == place(b"r", b"x")
    assert {name: cell.value for name, cell in rows[0].columns.items()} == {b"d:b": b"new"}
    assert store.change_and_get("t", evolve(change, expected=b"other"), [b"d:_l"]) == (False, [None])
    following.lost = True
    assert store.change_and_get("t", change, [b"d:a"]) == (True, None)


@pytest.mark.parametrize("number", [0, 1], ids=["put", "change"])
@pytest.mark.parametrize("columns", [[], [b"d"], [b"e:x"], [b"d:a", b"e:x"]])
def test_a_read_that_names_no_columns_of_objects_is_not_sent_with_a_change(columns: list[bytes], number: int) -> None:
    following = Following(EmbeddedStore(None))
    following.create_table("t", [Family(b"d"), Family(b"e")])
    store = FoldedStore(following, [wide_rows("t", b"d", [b"d:a", b"d:b"])])
    store.put("t", [Put(place(b"r", b"x"), {b"d:a": b"x"}, 10)])
    following.calls.clear()
    assert store.change_and_get("t", changes_of(b"x")[number], columns) == (True, None)
    assert [call.name for call in following.calls] == [("check_and_put", "check_and_mutate")[number]]


def test_a_read_is_not_sent_with_a_change_of_a_row_that_has_a_version() -> None:
    following = Following(EmbeddedStore(None))
    following.create_table("t", [Family(b"d")])
    store = FoldedStore(following, [evolve(wide_rows("t", b"d", [b"d:a", b"d:b"]), row_version=b"d:_v")])
    store.put("t", [Put(place(b"r", b"x"), {b"d:a": b"x"}, 10)])
    following.calls.clear()
    assert store.change_and_get("t", changes_of(b"x")[1], [b"d:b"]) == (True, None)
    assert [call.name for call in following.calls] == ["check_and_mutate"]


@pytest.mark.parametrize("bed", ["memory", "embedded", HBASE[1]], indirect=True)
def test_changes_of_a_row_under_several_conditions_are_independent(bed: Bed) -> None:
    table = Wide(bed).table
    store = FoldedStore(bed.store, [evolve(wide_rows(table, b"d", [b"d:a", b"d:b"]), row_version=b"d:_v")])
    x, y, z = (place(b"r", name) for name in (b"x", b"y", b"z"))
    store.put(table, [Put(each, {b"d:a": b"1"}, 10) for each in (x, y, z)])
    bed.store.calls.clear()
    changes = [
        ConditionalChange(x, b"d:a", b"1", [Put(x, {b"d:b": b"new"}, 20)]),
        ConditionalChange(y, b"d:a", b"no", [Put(y, {b"d:b": b"new"}, 20)]),
        ConditionalChange(z, b"d:a", b"1", [Delete(z, families=[b"d"], timestamp=20)]),
        ConditionalChange(x, b"d:a", b"1", [Put(x, {b"d:a": b"2"}, 20)]),
    ]
    assert store.check_and_mutate_many(table, changes) == [True, False, True, True]
    (call,) = [call for call in bed.store.calls if call.writes]
    assert [len(change.mutations) for change in call.items] == [1, 1, 1]
    (batches,) = store.scan(table, [Scan()])
    assert {row.row: {name: cell.value for name, cell in row.columns.items()} for each in batches for row in each} == {
        x: {b"d:a": b"2", b"d:b": b"new"},
        y: {b"d:a": b"1"},
    }


def test_a_change_without_mutations_is_refused_before_a_read_behind_it_is_sent() -> None:
    following = Following(EmbeddedStore(None))
    following.create_table("t", [Family(b"d")])
    store = FoldedStore(following, [wide_rows("t", b"d", [b"d:a"])])
    following.calls.clear()
    with pytest.raises(InvalidRequest, match="at least one mutation"):
        store.change_and_get("t", ConditionalChange(place(b"r", b"x"), b"d:a", None, []), [b"d:a"])
    assert not following.calls
