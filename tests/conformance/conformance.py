"""What every store promises about the cells of single rows: reads, puts, deletes, lives, conditions and counters.

The classes are run by `test_stores.py` against each store; the expected facts were first observed on a running HBase.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import uuid4

import pytest
from attrs import frozen

from hbmodel.errors import FamilyNotFound, InvalidRequest
from hbmodel.store import Delete, Family, Get, Put, Row, Scan, Store
from hbmodel.store.ranges import KeyRange
from tests.support.slow_machines import lives_for

FAMILIES = (
    Family(b"d"),
    # Sorts behind b"d" in HBase although its columns sort before b"d:" as bytes.
    Family(b"d1"),
    Family(b"e", max_versions=3),
    Family(b"s", ttl=3),
)


@frozen
class Bed:
    """A store to test, with two tables that many tests share.

    Attributes:
        store: under test.
        open: another store object on the same data (for a store in memory: on new data).
        table: with all of FAMILIES.
        narrow: with the family `d` only.
    """

    store: Store
    open: Callable[[], Store]
    table: str
    narrow: str

    def key(self, name: bytes = b"") -> Callable[[bytes], bytes]:
        """Row keys that no other test has: a function from the end of a key to the key."""
        prefix = uuid4().hex.encode() + b"/" + name
        return lambda end: prefix + end

    def get(self, row: bytes, *columns: bytes) -> dict[bytes, tuple[bytes, int]]:
        """The cells of one row, empty if it is absent."""
        (found,) = self.store.get(self.table, [row], columns)
        return {} if found is None else cells(found)

    def values(self, row: bytes, *columns: bytes) -> dict[bytes, bytes]:
        """The values of one row, empty if it is absent."""
        return {column: value for column, (value, _) in self.get(row, *columns).items()}

    def put(
        self, row: bytes, cells: Mapping[bytes, bytes], timestamp: int | None = None, ttl: int | None = None
    ) -> None:
        self.store.put(self.table, [Put(row, cells, timestamp, ttl)])

    def delete(
        self, row: bytes, *, families: Sequence[bytes] = (), columns: Sequence[bytes] = (), timestamp: int | None = None
    ) -> None:
        self.store.delete(self.table, [Delete(row, families, columns, timestamp)])


def cells(row: Row) -> dict[bytes, tuple[bytes, int]]:
    """Column to value and timestamp."""
    return {column: (cell.value, cell.timestamp) for column, cell in row.columns.items()}


def rows_of(bed: Bed, scan: Scan, table: str | None = None) -> list[Row]:
    """All rows of one scan."""
    (batches,) = bed.store.scan(table or bed.table, [scan])
    found: list[Row] = []
    for batch in batches:
        assert batch, "a batch must not be empty"
        assert len(batch) <= scan.batch_size
        found += batch
    return found


def pieces_of(bed: Bed, scan: Scan, table: str | None = None) -> list[Row]:
    """The pieces of rows of one scan, without pieces whose row begins again."""
    found: list[Row] = []
    for piece in rows_of(bed, scan, table):
        if piece.columns:
            found.append(piece)
        else:
            found = [other for other in found if other.row != piece.row]
    return found


def now() -> int:
    return time.time_ns() // 1_000_000


def long(value: int) -> bytes:
    return struct.pack(">q", value)


class GetConformance:
    def test_absent_row_is_none(self, bed: Bed) -> None:
        assert bed.store.get(bed.table, [bed.key()(b"nobody")]) == [None]

    def test_no_rows_are_no_answer(self, bed: Bed) -> None:
        assert bed.store.get(bed.table, []) == []

    def test_order_and_duplicates_are_kept(self, bed: Bed) -> None:
        key = bed.key()
        for name in (b"a", b"b", b"c"):
            bed.put(key(name), {b"d:n": name}, 1)
        asked = [key(name) for name in (b"c", b"x", b"a", b"c", b"y", b"b", b"x")]
        found = bed.store.get(bed.table, asked)
        assert [None if row is None else row.columns[b"d:n"].value for row in found] == [
            b"c",
            None,
            b"a",
            b"c",
            None,
            b"b",
            None,
        ]
        assert [row.row for row in found if row is not None] == [key(b"c"), key(b"a"), key(b"c"), key(b"b")]

    def test_many_rows_in_one_call(self, bed: Bed) -> None:
        key = bed.key()
        bed.store.put(
            bed.table, [Put(key(b"%04d" % number), {b"d:n": b"%d" % number}, 1) for number in range(0, 700, 2)]
        )
        found = bed.store.get(bed.table, [key(b"%04d" % number) for number in range(700)])
        assert [row is not None for row in found] == [True, False] * 350
        assert [row.columns[b"d:n"].value for row in found if row is not None] == [
            b"%d" % number for number in range(0, 700, 2)
        ]

    def test_projection(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"1", b"d:ab": b"2", b"d1:a": b"3", b"e:a": b"4"}, 1)
        assert set(bed.get(row, b"d:a", b"e:a", b"e:none")) == {b"d:a", b"e:a"}
        assert set(bed.get(row, b"d")) == {b"d:a", b"d:ab"}
        assert set(bed.get(row, b"d1", b"d:ab")) == {b"d1:a", b"d:ab"}
        assert bed.store.get(bed.table, [row], [b"d:none"]) == [None]
        assert bed.store.get(bed.table, [row], [b"s"]) == [None]

    @pytest.mark.parametrize("columns", [(b"d", b"d:a"), (b"d:a", b"d")])
    def test_a_whole_family_is_read_although_one_of_its_columns_is_named_too(
        self, bed: Bed, columns: tuple[bytes, ...]
    ) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"1", b"d:b": b"2", b"e:a": b"3"}, 1)
        assert set(bed.get(row, *columns)) == {b"d:a", b"d:b"}

    def test_empty_qualifier_is_a_column(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:": b"none", b"d:a": b"some"}, 1)
        assert bed.values(row) == {b"d:": b"none", b"d:a": b"some"}
        assert bed.values(row, b"d:") == {b"d:": b"none"}

    def test_any_byte_in_row_qualifier_and_value(self, bed: Bed) -> None:
        row = bed.key()(bytes(range(256)))
        bed.put(row, {b"d:" + bytes(range(256)): bytes(range(256)), b"d:with:colons": b""}, 1)
        assert bed.values(row) == {b"d:" + bytes(range(256)): bytes(range(256)), b"d:with:colons": b""}

    def test_the_cells_of_a_family_come_in_the_order_of_their_qualifiers(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        qualifiers = [
            b"",
            *(bytes((first,)) for first in range(256)),
            b"a\x00",
            b"a\x7f",
            b"a\x80",
            b"a\xff",
            b"\x80a",
            b"\x7fa",
        ]
        bed.put(
            row, {family + b":" + qualifier: b"1" for family in (b"d", b"d1") for qualifier in reversed(qualifiers)}, 1
        )
        (got,) = bed.store.get(bed.table, [row])
        (scanned,) = rows_of(bed, Scan(KeyRange.exactly(row)))
        for found in (got, scanned):
            assert found is not None
            columns = list(found.columns)
            runs = [list(run) for _, run in groupby(columns, key=lambda column: column.partition(b":")[0])]
            assert [run[0].partition(b":")[0] for run in sorted(runs)] == [b"d1", b"d"]
            assert all([column.partition(b":")[2] for column in run] == sorted(qualifiers) for run in runs)

    def test_longest_row(self, bed: Bed) -> None:
        row = bed.key()(b"k").ljust(32_767, b"\xff")
        bed.put(row, {b"d:a": b"1"}, 1)
        assert bed.values(row) == {b"d:a": b"1"}


class GetEachConformance:
    def found(self, bed: Bed, *gets: Get) -> list[dict[bytes, bytes] | None]:
        rows = bed.store.get_each(bed.table, gets)
        assert [row.row for row in rows if row is not None] == [
            get.row for get, row in zip(gets, rows, strict=True) if row is not None
        ]
        return [None if row is None else {column: cell.value for column, cell in row.columns.items()} for row in rows]

    def test_nothing_to_read(self, bed: Bed) -> None:
        assert list(bed.store.get_each(bed.table, [])) == []

    def test_other_columns_in_each_row_and_one_row_several_times(self, bed: Bed) -> None:
        key = bed.key()
        for name in (b"a", b"b"):
            bed.put(key(name), {b"d:a": name + b"1", b"d:b": name + b"2", b"d1:a": name + b"3", b"e:a": name + b"4"}, 1)
        assert self.found(
            bed,
            Get(key(b"b"), [b"d:b"]),
            Get(key(b"a"), [b"d:b", b"d:a", b"d:none"]),
            Get(key(b"a"), [b"d:a"]),
            Get(key(b"none"), [b"d:a"]),
            Get(key(b"a"), [b"e", b"d1:a"]),
            Get(key(b"a"), [b"d:none"]),
            Get(key(b"b"), [b"d:b"]),
            Get(key(b"a"), [b"d:a", b"d"]),
            Get(key(b"b")),
            Get(key(b"none")),
        ) == [
            {b"d:b": b"b2"},
            {b"d:a": b"a1", b"d:b": b"a2"},
            {b"d:a": b"a1"},
            None,
            {b"d1:a": b"a3", b"e:a": b"a4"},
            None,
            {b"d:b": b"b2"},
            {b"d:a": b"a1", b"d:b": b"a2"},
            {b"d:a": b"b1", b"d:b": b"b2", b"d1:a": b"b3", b"e:a": b"b4"},
            None,
        ]

    def test_by_the_prefix_of_qualifiers(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(
            row,
            {
                family + b":" + name: name
                for family in (b"d", b"e")
                for name in (b"", b"a", b"a\x00", b"ab'", b"b", b"\xff")
            },
            1,
        )
        assert self.found(
            bed,
            Get(row, prefix=b"a"),
            Get(row, [b"e"], prefix=b"a"),
            Get(row, [b"d:a", b"d:b"], prefix=b"a"),
            Get(row, [b"d"], prefix=b"ab'"),
            Get(row, [b"d"], prefix=b"\xff"),
            Get(row, prefix=b"c"),
            Get(row + b"none", prefix=b"a"),
        ) == [
            {family + b":" + name: name for family in (b"d", b"e") for name in (b"a", b"a\x00", b"ab'")},
            {b"e:" + name: name for name in (b"a", b"a\x00", b"ab'")},
            {b"d:a": b"a"},
            {b"d:ab'": b"ab'"},
            {b"d:\xff": b"\xff"},
            None,
            None,
        ]

    def test_many_parts_of_one_wide_row(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        names = [b"%05d" % number for number in range(3000)]
        bed.put(row, {b"d:" + name + field: name * 4 for name in names for field in (b"a", b"b")}, 1)
        asked = names[::-3] + names[::50]
        gets = [Get(row, [b"d:" + name + b"b", b"d:" + name + b"a"]) for name in asked]
        assert self.found(bed, *gets) == [
            {b"d:" + name + b"a": name * 4, b"d:" + name + b"b": name * 4} for name in asked
        ]
        by_prefix = [Get(row, [b"d"], prefix=name) for name in asked[::10]]
        assert self.found(bed, *by_prefix) == [
            {b"d:" + name + b"a": name * 4, b"d:" + name + b"b": name * 4} for name in asked[::10]
        ]
        # Among rows of other sizes, and by columns for all rows alike.
        bed.put(row + b"0", {b"d:00000a": b"small"}, 1)
        for columns in ([b"d:00000a"], [b"d:00000a", b"d:02999b"], [b"d"]):
            small, wide, none, again = bed.store.get(bed.table, [row + b"0", row, row + b"1", row + b"0"], columns)
            assert small is not None
            assert again is not None
            assert set(small.columns) == set(again.columns) == {b"d:00000a"}
            assert none is None
            assert wide is not None
            assert len(wide.columns) == (6000 if columns == [b"d"] else len(columns))

    def test_what_it_refuses(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        for wrong in (Get(b""), Get(b"k" * 32_768), Get(row, [b":a"]), Get(row, prefix="a"), Get(row.decode())):  # type: ignore[arg-type]
            with pytest.raises(InvalidRequest):
                bed.store.get_each(bed.table, [Get(row), wrong])
        for columns in ([b"x"], [b"x:a"]):
            with pytest.raises(FamilyNotFound, match="The table has no column family of that name"):
                bed.store.get_each(bed.table, [Get(row, [b"d:a"]), Get(row, columns)])


class PutConformance:
    def test_a_cell_put_twice_at_one_time_outlives_the_shorter_life(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.store.put(bed.table, [Put(row, {b"d:a": b"first"}, 1000), Put(row, {b"d:a": b"last"}, 1000, ttl=1000)])
        assert bed.get(row) == {b"d:a": (b"first", 1000)}

    def test_newest_timestamp_is_read_whatever_the_order(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        for timestamp in (20, 10, 30, 5):
            bed.put(row, {b"d:a": b"at %d" % timestamp}, timestamp)
            bed.put(row, {b"e:a": b"at %d" % timestamp}, timestamp)
        assert bed.get(row) == {b"d:a": (b"at 30", 30), b"e:a": (b"at 30", 30)}

    def test_last_arrival_wins_among_equal_timestamps(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"z"}, 7)
        bed.put(row, {b"d:a": b"a"}, 7)
        assert bed.get(row) == {b"d:a": (b"a", 7)}
        bed.store.put(bed.table, [Put(row, {b"d:a": b"first"}, 7), Put(row, {b"d:a": b"second"}, 7)])
        assert bed.get(row) == {b"d:a": (b"second", 7)}

    def test_columns_are_merged(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:b": b"1", b"d:c": b"1"}, 1)
        bed.put(row, {b"d:a": b"2", b"d:c": b"2", b"e:a": b"2"}, 2)
        assert bed.get(row) == {b"d:a": (b"2", 2), b"d:b": (b"1", 1), b"d:c": (b"2", 2), b"e:a": (b"2", 2)}

    def test_one_call_with_several_timestamps_and_repeated_rows(self, bed: Bed) -> None:
        key = bed.key()
        puts = [Put(key(b"%d" % (number % 3)), {b"d:n": b"%d" % number}, 100 - number) for number in range(9)]
        bed.store.put(bed.table, puts)
        assert [bed.get(key(b"%d" % number)) for number in range(3)] == [
            {b"d:n": (b"%d" % number, 100 - number)} for number in range(3)
        ]

    def test_nothing_to_put_or_delete(self, bed: Bed) -> None:
        bed.store.put(bed.table, [])
        bed.store.delete(bed.table, [])

    def test_server_time(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        before = now()
        bed.put(row, {b"d:a": b"1"})
        assert before <= bed.get(row)[b"d:a"][1] <= now()

    def test_timestamp_zero_is_a_time(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"1"}, 0)
        assert bed.get(row) == {b"d:a": (b"1", 0)}

    def test_requests_that_cannot_succeed(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        for put in (
            Put(b"", {b"d:a": b"1"}),
            Put(b"k" * 32_768, {b"d:a": b"1"}),
            Put(row, {}),
            Put(row, {b"d": b"1"}),
            Put(row, {b":a": b"1"}),
            Put(row, {b"d:a": b"1"}, timestamp=-1),
            Put(row, {b"d:a": b"1"}, timestamp=2**63 - 1),
            Put(row, {b"d:a": b"1"}, ttl=0),
            Put(row, {b"d:a": bytes(10 * 1024 * 1024)}),
        ):
            with pytest.raises(InvalidRequest):
                bed.store.put(bed.table, [put])
        with pytest.raises(InvalidRequest):
            bed.store.get(bed.table, [b""])
        with pytest.raises(InvalidRequest):
            bed.store.delete(bed.table, [Delete(b"")])
        with pytest.raises(InvalidRequest, match="A timestamp must be whole milliseconds since 1970, below"):
            bed.store.delete(bed.table, [Delete(row, timestamp=-1)])
        assert bed.get(row) == {}

    @pytest.mark.parametrize("before", [0, 3], ids=["alone", "behind good ones"])
    def test_what_is_of_another_type_is_refused_and_breaks_nothing(self, bed: Bed, before: int) -> None:
        key = bed.key()
        row, good = key(b"r"), [Put(key(b"good %d" % number), {b"d:a": b"1"}, 5) for number in range(before)]
        wrong: Any
        for wrong in (
            Put(row.decode(), {b"d:a": b"1"}),  # type: ignore[arg-type]
            Put(bytearray(row), {b"d:a": b"1"}),  # type: ignore[arg-type]
            Put(row, {b"d:a": "1"}),  # type: ignore[dict-item]
            Put(row, {b"d:a": 1}),  # type: ignore[dict-item]
            Put(row, {b"d:a": None}),  # type: ignore[dict-item]
            Put(row, {"d:a": b"1"}),  # type: ignore[dict-item]
            Put(row, {b"d:a": b"1"}, timestamp=5.0),  # type: ignore[arg-type]
            Put(row, {b"d:a": b"1"}, timestamp=True),
            Put(row, {b"d:a": b"1"}, timestamp="5"),  # type: ignore[arg-type]
            Put(row, {b"d:a": b"1"}, ttl=5.5),  # type: ignore[arg-type]
            Put(row, {b"d:a": b"1"}, ttl=True),
        ):
            with pytest.raises(InvalidRequest):
                bed.store.put(bed.table, [*good, wrong])
        for wrong in (Delete(row, timestamp=5.0), Delete(row.decode()), Delete(row, columns=("d:a",))):  # type: ignore[arg-type]
            with pytest.raises(InvalidRequest):
                bed.store.delete(bed.table, [wrong])
        for wrong in (row.decode(), bytearray(row)):
            with pytest.raises(InvalidRequest, match="A row key must be bytes"):
                bed.store.get(bed.table, [wrong])
        with pytest.raises(InvalidRequest):
            bed.store.get(bed.table, [row], ["d:a"])  # type: ignore[list-item]
        assert bed.get(row) == {}
        bed.store.put(bed.table, [*good, Put(row, {b"d:a": b"1"}, 5)])
        assert bed.get(row) == {b"d:a": (b"1", 5)}

    def test_unknown_family(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        calls: list[Callable[[], object]] = [
            lambda: bed.put(row, {b"x:a": b"1"}, 1),
            lambda: bed.get(row, b"x:a"),
            lambda: bed.get(row, b"x"),
            lambda: bed.delete(row, families=[b"x"], timestamp=1),
            lambda: bed.delete(row, columns=[b"x:a"], timestamp=1),
            lambda: bed.store.increment(bed.table, row, b"x:a", 1),
            lambda: bed.store.check_and_put(bed.table, row, b"x:a", None, Put(row, {b"d:a": b"1"})),
        ]
        for call in calls:
            with pytest.raises(FamilyNotFound) as refused:
                call()
            assert refused.value.family == b"x"


class DeleteConformance:
    def test_row_delete_hides_up_to_its_time(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"1", b"e:a": b"1"}, 50)
        bed.delete(row, timestamp=49)
        assert bed.get(row) == {b"d:a": (b"1", 50), b"e:a": (b"1", 50)}
        bed.delete(row, timestamp=50)
        assert bed.get(row) == {}
        bed.put(row, {b"d:a": b"late", b"d:b": b"late"}, 50)
        assert bed.get(row) == {}
        bed.put(row, {b"d:a": b"new"}, 51)
        assert bed.get(row) == {b"d:a": (b"new", 51)}

    def test_a_tombstone_also_hides_what_arrives_behind_it_in_an_absent_row(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.delete(row, timestamp=100)
        bed.put(row, {b"d:a": b"old", b"e:b": b"old"}, 99)
        bed.put(row, {b"d:a": b"same"}, 100)
        assert bed.get(row) == {}

    def test_a_delete_reveals_no_older_version(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        for timestamp in (10, 20, 30):
            bed.put(row, {b"d:a": b"%d" % timestamp, b"e:a": b"%d" % timestamp}, timestamp)
        bed.delete(row, columns=[b"d:a", b"e:a"], timestamp=30)
        assert bed.get(row) == {}

    def test_a_delete_of_older_versions_leaves_the_newest(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        for timestamp in (10, 20, 30):
            bed.put(row, {b"e:a": b"%d" % timestamp}, timestamp)
        bed.delete(row, columns=[b"e:a"], timestamp=29)
        assert bed.get(row) == {b"e:a": (b"30", 30)}

    def test_family_delete(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"old", b"d1:a": b"old", b"e:a": b"old"}, 10)
        bed.put(row, {b"d:b": b"new"}, 20)
        bed.delete(row, families=[b"d"], timestamp=15)
        assert bed.get(row) == {b"d:b": (b"new", 20), b"d1:a": (b"old", 10), b"e:a": (b"old", 10)}
        bed.put(row, {b"d:c": b"late", b"d1:c": b"late"}, 15)
        assert set(bed.get(row)) == {b"d:b", b"d1:a", b"d1:c", b"e:a"}

    def test_column_delete(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:": b"1", b"d:a": b"1", b"d:b": b"1"}, 10)
        bed.delete(row, columns=[b"d:a"], timestamp=9)
        assert set(bed.get(row)) == {b"d:", b"d:a", b"d:b"}
        bed.delete(row, columns=[b"d:a"], timestamp=10)
        assert set(bed.get(row)) == {b"d:", b"d:b"}
        bed.delete(row, columns=[b"d:"], timestamp=10)  # the empty qualifier, not the family
        assert set(bed.get(row)) == {b"d:b"}

    def test_families_and_columns_in_one_delete(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"1", b"d:b": b"1", b"e:a": b"1", b"d1:a": b"1"}, 10)
        bed.delete(row, families=[b"e"], columns=[b"d:a"], timestamp=10)
        assert set(bed.get(row)) == {b"d:b", b"d1:a"}

    def test_deletes_in_many_rows(self, bed: Bed) -> None:
        key = bed.key()
        bed.store.put(bed.table, [Put(key(b"%d" % number), {b"d:a": b"1", b"d:b": b"1"}, 10) for number in range(6)])
        deletes = [Delete(key(b"%d" % number), timestamp=8 + number) for number in range(4)]
        bed.store.delete(bed.table, [*deletes, Delete(key(b"4"), columns=[b"d:a"], timestamp=10), Delete(key(b"5"))])
        found = bed.store.get(bed.table, [key(b"%d" % number) for number in range(6)])
        assert [0 if row is None else len(row.columns) for row in found] == [2, 2, 0, 0, 1, 0]

    def test_the_later_of_two_tombstones_counts(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.delete(row, timestamp=50)
        bed.delete(row, timestamp=20)
        bed.delete(row, columns=[b"d:a"], timestamp=60)
        bed.put(row, {b"d:a": b"1", b"d:b": b"1"}, 55)
        assert set(bed.get(row)) == {b"d:b"}
        bed.put(row, {b"d:b": b"0", b"d:c": b"1"}, 50)
        assert bed.get(row) == {b"d:b": (b"1", 55)}

    def test_a_put_right_after_a_delete_at_the_servers_time_is_seen(self, bed: Bed) -> None:
        key = bed.key()
        for number in range(20):
            bed.delete(key(b"%d" % number))
            bed.put(key(b"%d" % number), {b"d:a": b"1"})
        assert None not in bed.store.get(bed.table, [key(b"%d" % number) for number in range(20)])

    def test_a_delete_at_the_servers_time_spares_the_future(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        future = now() + 1_000_000
        bed.put(row, {b"d:a": b"future"}, future)
        bed.put(row, {b"d:b": b"present"})
        bed.delete(row)
        assert bed.get(row) == {b"d:a": (b"future", future)}

    def test_a_tombstone_in_the_future_hides_puts_at_the_servers_time(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.delete(row, columns=[b"d:a"], timestamp=now() + 1_000_000)
        bed.put(row, {b"d:a": b"hidden", b"d:b": b"seen"})
        assert set(bed.get(row)) == {b"d:b"}


class LifeConformance:
    @lives_for(3)
    def test_family_ttl(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"s:old": b"1", b"d:old": b"1"}, now() - 3500)
        bed.put(row, {b"s:new": b"1"}, now())
        assert set(bed.get(row)) == {b"s:new", b"d:old"}

    def test_a_dead_row_is_absent(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"s:old": b"1"}, now() - 3500)
        assert bed.store.get(bed.table, [row]) == [None]

    @lives_for(0.4)
    def test_ttl_of_puts_mixed_in_one_call(self, bed: Bed) -> None:
        key = bed.key()
        bed.store.put(
            bed.table,
            [
                Put(key(b"a"), {b"d:a": b"short", b"d:b": b"short"}, ttl=400),
                Put(key(b"b"), {b"d:a": b"long"}, ttl=600_000),
                Put(key(b"c"), {b"d:a": b"ever"}),
            ],
        )
        assert [bed.values(key(name)) for name in (b"a", b"b", b"c")] == [
            {b"d:a": b"short", b"d:b": b"short"},
            {b"d:a": b"long"},
            {b"d:a": b"ever"},
        ]
        time.sleep(0.5)
        assert [bed.values(key(name)) for name in (b"a", b"b", b"c")] == [{}, {b"d:a": b"long"}, {b"d:a": b"ever"}]

    def test_ttl_counts_from_the_timestamp(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"dead"}, timestamp=1000, ttl=1000)
        bed.put(row, {b"d:b": b"alive"}, timestamp=now() - 1000, ttl=600_000)
        assert set(bed.get(row)) == {b"d:b"}

    def test_a_put_cannot_outlive_its_family(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"s:a": b"1"}, timestamp=now() - 3500, ttl=600_000)
        assert bed.get(row) == {}

    @lives_for(0.4)
    def test_an_older_cell_returns_when_the_newer_dies(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"ever", b"d:b": b"ever"}, timestamp=5)
        bed.put(row, {b"d:a": b"dead"}, timestamp=1000, ttl=1000)
        assert bed.values(row) == {b"d:a": b"ever", b"d:b": b"ever"}
        stamp = now()
        bed.put(row, {b"d:b": b"dying"}, timestamp=stamp, ttl=400)
        assert bed.values(row) == {b"d:a": b"ever", b"d:b": b"dying"}
        time.sleep(0.5)
        assert bed.get(row) == {b"d:a": (b"ever", 5), b"d:b": (b"ever", 5)}

    @lives_for(0.3)
    def test_unless_a_delete_below_the_newer_took_it(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        stamp = now()
        bed.put(row, {b"d:a": b"older"}, timestamp=5)
        bed.delete(row, families=[b"d"], timestamp=stamp - 1)
        bed.put(row, {b"d:a": b"dying"}, timestamp=stamp, ttl=300)
        time.sleep(0.4)
        assert bed.get(row) == {}
