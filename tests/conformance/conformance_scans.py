"""What every store promises about scans: ranges, directions, columns, limits, batches and filters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from hbmodel.errors import FamilyNotFound, InvalidRequest
from hbmodel.store import Put, Scan
from hbmodel.store.filters import (
    And,
    ColumnPrefix,
    ColumnRange,
    Filter,
    FirstCellOnly,
    KeyOnly,
    Or,
    Pagination,
    RowContains,
    ValueFilter,
)
from hbmodel.store.ranges import KeyRange
from tests.conformance.conformance import Bed, long, rows_of

NAMES = (b"", b"\x00", b"a", b"a\x00", b"aa", b"ab", b"b", b"b\xff", b"b\xff\xff", b"c", b"\xff", b"\xff\xff")


class ScanConformance:
    many: ClassVar[int] = 3000

    @pytest.fixture
    def prefix(self, bed: Bed) -> bytes:
        """The prefix of a dozen rows with neighbours on both sides."""
        prefix = bed.key()(b"")
        bed.store.put(bed.table, [Put(prefix + name, {b"d:n": name}, 1) for name in NAMES])
        outside = [prefix[:-1] + bytes((prefix[-1] - 1,)) + b"\xff\xff", prefix[:-1] + bytes((prefix[-1] + 1,))]
        bed.store.put(bed.table, [Put(row, {b"d:n": b"outside"}, 1) for row in outside])
        return prefix

    def names(self, bed: Bed, prefix: bytes, range: KeyRange, **options: object) -> list[bytes]:
        return [row.row.removeprefix(prefix) for row in rows_of(bed, Scan(range, **options))]  # type: ignore[arg-type]

    def test_a_prefix_both_ways(self, bed: Bed, prefix: bytes) -> None:
        assert self.names(bed, prefix, KeyRange.prefix(prefix)) == sorted(NAMES)
        # The row that is the prefix itself comes last.
        assert self.names(bed, prefix, KeyRange.prefix(prefix), reversed=True) == sorted(NAMES, reverse=True)

    @pytest.mark.parametrize("reversed", [False, True])
    def test_ranges_are_half_open_both_ways(self, bed: Bed, reversed: bool, prefix: bytes) -> None:
        for start, stop in itertools.product(NAMES, [b"a", b"a\x00", b"b", b"b\xff", b"bz", b"\xff\xff\xff"]):
            expected = sorted((name for name in NAMES if start <= name < stop), reverse=reversed)
            assert self.names(bed, prefix, KeyRange(prefix + start, prefix + stop), reversed=reversed) == expected, (
                start,
                stop,
            )

    @pytest.mark.parametrize("reversed", [False, True])
    def test_one_row(self, bed: Bed, prefix: bytes, reversed: bool) -> None:
        for name in NAMES:
            assert self.names(bed, prefix, KeyRange.exactly(prefix + name), reversed=reversed) == [name]
            assert self.names(bed, prefix, KeyRange.prefix(prefix).after(prefix + name), reversed=reversed) == sorted(
                (other for other in NAMES if other > name), reverse=reversed
            )

    @pytest.mark.parametrize("reversed", [False, True])
    def test_bounds_longer_than_a_row(self, bed: Bed, reversed: bool) -> None:
        prefix = bed.key()(b"")
        rows = [prefix.ljust(32_766, b"m") + last for last in (b"m", b"n", b"\xff")]
        bed.store.put(bed.table, [Put(row, {b"d:n": b"1"}, 1) for row in rows])
        everything = KeyRange.prefix(prefix)
        for place, row in enumerate(rows):
            assert [found.row for found in rows_of(bed, Scan(KeyRange.exactly(row), reversed))] == [row]
            after = [found.row for found in rows_of(bed, Scan(everything.after(row), reversed))]
            assert after == sorted(rows[place + 1 :], reverse=reversed)
            before = [found.row for found in rows_of(bed, Scan(everything.before(row + b"\x00"), reversed))]
            assert before == sorted(rows[: place + 1], reverse=reversed)

    def test_an_empty_range(self, bed: Bed, prefix: bytes) -> None:
        for reversed in (False, True):
            assert self.names(bed, prefix, KeyRange(prefix + b"b", prefix + b"a"), reversed=reversed) == []
            assert self.names(bed, prefix, KeyRange(prefix + b"a", prefix + b"a"), reversed=reversed) == []
            assert self.names(bed, prefix, KeyRange(b"", b""), reversed=reversed) == []

    @pytest.mark.parametrize("reversed", [False, True])
    @pytest.mark.parametrize("batch_size", [1, 2, 5, 12, 100])
    def test_limits_and_batches(self, bed: Bed, prefix: bytes, batch_size: int, reversed: bool) -> None:
        expected = sorted(NAMES, reverse=reversed)
        options = {"batch_size": batch_size, "reversed": reversed}
        assert self.names(bed, prefix, KeyRange.prefix(prefix), **options) == expected
        for limit in (0, 1, 4, 12, 50):
            assert self.names(bed, prefix, KeyRange.prefix(prefix), limit=limit, **options) == expected[:limit]

    def test_a_limit_counts_what_the_filter_lets_pass(self, bed: Bed, prefix: bytes) -> None:
        filter = ValueFilter(b"d:n", ">=", b"aa")
        expected = [name for name in sorted(NAMES) if name >= b"aa"][:3]
        assert self.names(bed, prefix, KeyRange.prefix(prefix), filter=filter, limit=3, batch_size=2) == expected

    def test_many_rows_in_batches(self, bed: Bed) -> None:
        prefix = bed.key()(b"")
        puts = [
            Put(prefix + b"%05d" % number, {b"d:n": b"%d" % number, b"d:x": bytes(20)}, 1)
            for number in range(self.many)
        ]
        bed.store.put(bed.narrow, puts)
        for reversed in (False, True):
            found = rows_of(bed, Scan(KeyRange.prefix(prefix), reversed, batch_size=700), bed.narrow)
            assert [row.row for row in found] == sorted((put.row for put in puts), reverse=reversed)
            assert all(row.columns[b"d:n"].value == b"%d" % int(row.row[-5:]) for row in found)

    def test_several_scans_at_once(self, bed: Bed, prefix: bytes) -> None:
        ranges = [
            KeyRange(prefix + b"b", prefix + b"c"),
            KeyRange(prefix, prefix + b"a"),
            KeyRange(prefix + b"x", prefix + b"y"),
        ]
        scans = [Scan(range, reversed=reversed, batch_size=1) for range in ranges for reversed in (False, True)]
        started = bed.store.scan(bed.table, scans)
        found: list[list[bytes]] = [[] for _ in scans]
        while started:  # in turns, so that all are under way together
            for place, batches in enumerate(started):
                found[place] += [row.row.removeprefix(prefix) for row in next(batches, ())]
            if not any(len(rows) < expected for rows, expected in zip(found, (3, 3, 2, 2, 0, 0), strict=True)):
                break
        assert [next(batches, None) for batches in started] == [None] * 6
        assert found == [
            [b"b", b"b\xff", b"b\xff\xff"],
            [b"b\xff\xff", b"b\xff", b"b"],
            [b"", b"\x00"],
            [b"\x00", b""],
            [],
            [],
        ]

    def test_closed_early(self, bed: Bed, prefix: bytes) -> None:
        for _ in range(20):  # more often than a store has connections
            (batches,) = bed.store.scan(bed.table, [Scan(KeyRange.prefix(prefix), batch_size=1)])
            assert next(batches)[0].row == prefix
            batches.close()  # type: ignore[attr-defined]
            assert list(batches) == []

    def test_what_is_no_range_is_refused(self, bed: Bed) -> None:
        wrong: list[Any] = [Scan(), [Scan(b"a")], [Scan((b"a", b"b"))], [KeyRange(b"a")], [b"a"]]  # type: ignore[arg-type]
        for scans in wrong:
            with pytest.raises(InvalidRequest, match="Give"):
                bed.store.scan(bed.table, scans)

    def test_no_scans(self, bed: Bed) -> None:
        assert bed.store.scan(bed.table, []) == []

    def test_projection(self, bed: Bed) -> None:
        key = bed.key()
        bed.put(key(b"1"), {b"d:a": b"1", b"d:b": b"1", b"d1:a": b"1", b"e:a": b"1"}, 1)
        bed.put(key(b"2"), {b"d:b": b"2", b"e:b": b"2"}, 2)
        bed.put(key(b"3"), {b"e:a": b"3"}, 3)

        def found(*columns: bytes) -> list[tuple[bytes, set[bytes]]]:
            return [
                (row.row[-1:], set(row.columns))
                for row in rows_of(bed, Scan(KeyRange.prefix(key(b"")), columns=columns))
            ]

        assert found(b"d:a", b"e:a") == [(b"1", {b"d:a", b"e:a"}), (b"3", {b"e:a"})]
        assert found(b"d") == [(b"1", {b"d:a", b"d:b"}), (b"2", {b"d:b"})]
        assert found(b"e", b"d:b") == [(b"1", {b"d:b", b"e:a"}), (b"2", {b"d:b", b"e:b"}), (b"3", {b"e:a"})]
        assert found(b"d:b", b"d", b"d1:a") == [(b"1", {b"d:a", b"d:b", b"d1:a"}), (b"2", {b"d:b"})]

    def test_deleted_rows_do_not_come(self, bed: Bed) -> None:
        key = bed.key()
        for name in (b"1", b"2", b"3"):
            bed.put(key(name), {b"d:a": name}, 10)
        bed.delete(key(b"2"), timestamp=10)
        assert [row.row[-1:] for row in rows_of(bed, Scan(KeyRange.prefix(key(b""))))] == [b"1", b"3"]

    def test_what_it_refuses(self, bed: Bed) -> None:
        for scan in (
            Scan(batch_size=0),
            Scan(limit=-1),
            Scan(columns=[b":a"]),
            Scan(filter=Or([])),
            Scan(filter=And([])),
        ):
            with pytest.raises(InvalidRequest):
                rows_of(bed, scan)
        with pytest.raises(FamilyNotFound):
            rows_of(bed, Scan(columns=[b"x:a"]))


class FilterConformance:
    def found(
        self, bed: Bed, prefix: bytes, filter: Filter, columns: Sequence[bytes] = (), reversed: bool = False
    ) -> dict[bytes, dict[bytes, bytes]]:
        rows = rows_of(bed, Scan(KeyRange.prefix(prefix), filter=filter, columns=columns, reversed=reversed))
        return {
            row.row.removeprefix(prefix): {column: cell.value for column, cell in row.columns.items()} for row in rows
        }

    @pytest.fixture
    def prefix(self, bed: Bed) -> bytes:
        prefix = bed.key()(b"")
        values = {b"empty": b"", b"low": b"\x00", b"mid": b"m", b"high": b"\xff", b"quote": b"it's 'so'\x00\xff"}
        for name, value in values.items():
            bed.put(prefix + name, {b"d:v": value, b"d:w": b"w", b"e:x": b"x"}, 1)
        bed.put(prefix + b"missing", {b"d:w": b"w"}, 1)
        return prefix

    @pytest.mark.parametrize(
        ("operator", "value", "expected"),
        [
            ("=", b"m", {b"mid"}),
            ("!=", b"m", {b"empty", b"low", b"high", b"quote"}),
            ("<", b"m", {b"empty", b"low", b"quote"}),
            ("<=", b"m", {b"empty", b"low", b"quote", b"mid"}),
            (">", b"m", {b"high"}),
            (">=", b"m", {b"mid", b"high"}),
            ("=", b"it's 'so'\x00\xff", {b"quote"}),
            ("=", b"", {b"empty"}),
            (">", b"", {b"low", b"mid", b"high", b"quote"}),
            ("<", b"\x00", {b"empty"}),  # an empty cell sorts below every value
        ],
    )
    def test_value(self, bed: Bed, prefix: bytes, operator: str, value: bytes, expected: set[bytes]) -> None:
        found = self.found(bed, prefix, ValueFilter(b"d:v", operator, value))  # type: ignore[arg-type]
        assert set(found) == expected
        assert all(set(columns) == {b"d:v", b"d:w", b"e:x"} for columns in found.values())
        with_missing = self.found(bed, prefix, ValueFilter(b"d:v", operator, value, if_missing=True))  # type: ignore[arg-type]
        assert set(with_missing) == expected | {b"missing"}

    def test_a_value_filter_in_a_reversed_scan_of_several_families(self, bed: Bed, prefix: bytes) -> None:
        """HBase itself refuses it where the filter drops rows, unless something else wants to see all the families."""
        for filter in (
            ValueFilter(b"d:v", "=", b"m"),
            Or([ValueFilter(b"d:v", "=", b"m"), ValueFilter(b"d:v", "=", b"no")]),
        ):
            assert self.found(bed, prefix, filter, reversed=True) == {
                b"mid": {b"d:v": b"m", b"d:w": b"w", b"e:x": b"x"}
            }
            assert self.found(bed, prefix, filter, [b"d:v", b"e"], reversed=True) == {
                b"mid": {b"d:v": b"m", b"e:x": b"x"}
            }

    def test_a_value_filter_sees_only_the_columns_that_are_read(self, bed: Bed, prefix: bytes) -> None:
        filter = ValueFilter(b"d:v", "=", b"m")
        assert set(self.found(bed, prefix, filter, [b"d:w", b"d:v"])) == {b"mid"}
        assert self.found(bed, prefix, filter, [b"d:w"]) == {}
        everything = self.found(bed, prefix, ValueFilter(b"d:v", "=", b"m", if_missing=True), [b"d:w"])
        assert set(everything) == {b"empty", b"low", b"mid", b"high", b"quote", b"missing"}

    def test_a_negative_counter_compares_as_a_large_one(self, bed: Bed) -> None:
        prefix = bed.key()(b"")
        for number in (-1, 0, 1):
            bed.put(prefix + b"%d" % number, {b"d:c": long(number)}, 1)
        assert set(self.found(bed, prefix, ValueFilter(b"d:c", ">", long(0)))) == {b"1", b"-1"}

    def test_only_the_newest_version_counts(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"e:v": b"old"}, 1)
        bed.put(row, {b"e:v": b"new"}, 2)
        assert self.found(bed, row, ValueFilter(b"e:v", "=", b"old")) == {}
        assert self.found(bed, row, ValueFilter(b"e:v", "=", b"new")) == {b"": {b"e:v": b"new"}}

    def test_row_contains(self, bed: Bed) -> None:
        prefix = bed.key()(b"")
        # No letters of the prefix's hexadecimal digits.
        names = [b"xyz", b"wXYZw", b"xy", b"\xff\xfexyz\xff", b"x'yz", b"w\xe2\x84\xaaw"]
        bed.store.put(bed.table, [Put(prefix + name, {b"d:a": b"1"}, 1) for name in names])
        assert set(self.found(bed, prefix, RowContains("xYz"))) == {b"xyz", b"wXYZw", b"\xff\xfexyz\xff"}
        assert set(self.found(bed, prefix, RowContains("'Y"))) == {b"x'yz"}
        # The Kelvin sign is a k in lower case, to HBase as to Python.
        assert set(self.found(bed, prefix, RowContains("K"))) == {b"w\xe2\x84\xaaw"}

    QUALIFIERS = (b"", b"a", b"a\x00", b"ab", b"b", b"b'", b"ba", b"c", b"\xff")

    @pytest.fixture
    def wide(self, bed: Bed) -> bytes:
        """A row with the same qualifiers in two families."""
        row = bed.key()(b"r")
        bed.put(
            row, {family + b":" + qualifier: qualifier for family in (b"d", b"e") for qualifier in self.QUALIFIERS}, 1
        )
        return row

    def qualifiers(self, bed: Bed, row: bytes, filter: Filter, reversed: bool = False) -> list[bytes]:
        """The qualifiers that pass, the same in both families."""
        cells = self.found(bed, row, filter, reversed=reversed).get(b"", {})
        first, second = ({column[2:] for column in cells if column.startswith(family)} for family in (b"d:", b"e:"))
        assert first == second
        return sorted(first)

    @pytest.mark.parametrize("reversed", [False, True])
    @pytest.mark.parametrize("inclusive", [(True, False), (False, True), (True, True), (False, False)])
    @pytest.mark.parametrize("start", [None, b"", b"a", b"aa", b"b", b"\xff", b"\xff\xff"])
    def test_column_range(
        self, bed: Bed, wide: bytes, start: bytes | None, inclusive: tuple[bool, bool], reversed: bool
    ) -> None:
        for stop in (None, b"", b"a", b"b", b"b'", b"bb", b"\xff"):
            above = [q for q in self.QUALIFIERS if not start or q > start or (inclusive[0] and q == start)]
            expected = [q for q in above if not stop or q < stop or (inclusive[1] and q == stop)]
            assert (
                self.qualifiers(bed, wide, ColumnRange(start, inclusive[0], stop, inclusive[1]), reversed) == expected
            )

    @pytest.mark.parametrize("prefix", [b"", b"a", b"b", b"b'", b"bx", b"\xff", b"\xff\xff"])
    def test_column_prefix(self, bed: Bed, wide: bytes, prefix: bytes) -> None:
        for reversed in (False, True):
            expected = [q for q in self.QUALIFIERS if q.startswith(prefix)]
            assert self.qualifiers(bed, wide, ColumnPrefix(prefix), reversed) == expected

    def test_pagination_counts_through_the_families_in_their_order(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(
            row, {family + b":" + qualifier: b"1" for family in (b"d", b"d1", b"e") for qualifier in (b"a", b"b")}, 1
        )
        in_order = [b"d:a", b"d:b", b"d1:a", b"d1:b", b"e:a", b"e:b"]
        for offset in range(7):
            for limit in range(7):
                found = self.found(bed, row, Pagination(limit, offset)).get(b"", {})
                assert set(found) == set(in_order[offset : offset + limit])

    def test_key_only_and_first_cell_only(self, bed: Bed, prefix: bytes) -> None:
        assert self.found(bed, prefix, KeyOnly())[b"mid"] == {b"d:v": b"", b"d:w": b"", b"e:x": b""}
        assert self.found(bed, prefix, FirstCellOnly())[b"mid"] == {b"d:v": b"m"}
        assert self.found(bed, prefix, And([FirstCellOnly(), KeyOnly()]))[b"missing"] == {b"d:w": b""}
        # What a key-only read returns says nothing of the values, but the filters beside it saw them.
        assert self.found(bed, prefix, And([KeyOnly(), ValueFilter(b"d:v", "=", b"m")])) == {
            b"mid": {b"d:v": b"", b"d:w": b"", b"e:x": b""}
        }

    def test_and_of_values(self, bed: Bed, prefix: bytes) -> None:
        above, below = ValueFilter(b"d:v", ">", b"\x00"), ValueFilter(b"d:v", "<", b"n")
        assert set(self.found(bed, prefix, And([above, below]))) == {b"mid", b"quote"}
        assert set(self.found(bed, prefix, And([above, ValueFilter(b"e:x", "=", b"x")]))) == {b"mid", b"high", b"quote"}
        assert set(self.found(bed, prefix, And([above, ValueFilter(b"e:x", "=", b"y")]))) == set()

    def test_or_of_values(self, bed: Bed, prefix: bytes) -> None:
        for filter in (
            Or([ValueFilter(b"d:v", "=", b"m"), ValueFilter(b"d:v", "=", b"")]),
            Or(
                [
                    ValueFilter(b"d:v", "=", b"m"),
                    And([ValueFilter(b"d:w", "=", b"w"), ValueFilter(b"d:v", "<", b"\x00")]),
                ]
            ),
        ):
            found = self.found(bed, prefix, filter)
            assert set(found) == {b"mid", b"empty"}
            assert all(set(columns) == {b"d:v", b"d:w", b"e:x"} for columns in found.values())
        assert set(self.found(bed, prefix, Or([ValueFilter(b"d:v", "=", b"m"), ValueFilter(b"e:x", "=", b"x")]))) == {
            b"empty",
            b"low",
            b"mid",
            b"high",
            b"quote",
        }
        assert self.found(bed, prefix, Or([ValueFilter(b"d:v", "=", b"no"), ValueFilter(b"e:x", "=", b"no")])) == {}

    def test_rows_and_values(self, bed: Bed, prefix: bytes) -> None:
        assert set(self.found(bed, prefix, And([RowContains("i"), ValueFilter(b"d:v", ">", b"")]))) == {b"mid", b"high"}
        assert set(self.found(bed, prefix, Or([RowContains("miss"), ValueFilter(b"d:v", "=", b"m")]))) == {
            b"mid",
            b"missing",
        }

    def test_pages_of_a_column_range(self, bed: Bed, wide: bytes) -> None:
        """A page inside a row: the range first, then the count."""
        page = And([ColumnRange(b"a", False, None, False), Pagination(3, 0)])
        for reversed in (False, True):
            assert set(self.found(bed, wide, page, [b"d"], reversed)[b""]) == {b"d:a\x00", b"d:ab", b"d:b"}

    def slices(self, bed: Bed, *filters: Filter) -> list[list[bytes]]:
        """The cells that the filters pass, of a row of 500 columns, some of them above 7F, and of two short rows."""
        key = bed.key()
        names = [b"%03d" % number for number in range(480)] + [bytes((number,)) for number in range(0x70, 0x84)]
        bed.put(key(b"1"), {b"d:" + name: b"v" * 100 for name in names} | {b"e:100": b"1"}, 1)
        bed.store.put(bed.table, [Put(key(name), {b"d:100": b"v", b"d:\x80": b"v"}, 1) for name in (b"0", b"2")])
        found = []
        for filter in filters:
            for rows in (KeyRange.exactly(key(b"1")), KeyRange.prefix(key(b""))):
                scanned = rows_of(bed, Scan(rows, columns=[b"d"], filter=filter, batch_size=2))
                found.append([row.row[-1:] + b"/" + column[2:] for row in scanned for column in row.columns])
        return found

    def test_slices_of_a_row_and_of_rows(self, bed: Bed) -> None:
        """A column range first and then a count: from the front, the middle, and past the end, where pages are
        short.
        """
        ranges = [
            ColumnRange(b"000", True, b"480", False),
            ColumnRange(b"100", True, None, False),
            ColumnRange(b"\x7f", True, None, False),
        ]
        pages = [And([found, Pagination(3, 0)]) for found in ranges]
        assert self.slices(bed, *pages) == [
            [b"1/000", b"1/001", b"1/002"],
            [b"0/100", b"1/000", b"1/001", b"1/002", b"2/100"],
            [b"1/100", b"1/101", b"1/102"],
            [b"0/100", b"0/\x80", b"1/100", b"1/101", b"1/102", b"2/100", b"2/\x80"],
            [b"1/\x7f", b"1/\x80", b"1/\x81"],
            [b"0/\x80", b"1/\x7f", b"1/\x80", b"1/\x81", b"2/\x80"],
        ]
        assert self.slices(bed, And([ColumnRange(b"\x83", True, None, False), Pagination(3, 0)])) == [
            [b"1/\x83"],
            [b"1/\x83"],
        ]

    def test_several_column_ranges_under_one_count(self, bed: Bed) -> None:
        ranges = [
            ColumnRange(b"\x80", True, b"\x82", True),
            ColumnRange(b"099", True, b"101", True),
            ColumnRange(b"470", True, b"471", False),
        ]
        for some in (
            ranges,
            ranges[::-1],
            [ranges[1], ranges[2], ranges[0], ColumnRange(b"100", False, b"102", False)],
        ):
            first, all_rows, everything, _ = self.slices(
                bed, And([Or(some), Pagination(5, 0)]), And([Or(some), Pagination(100, 0)])
            )
            assert first == [b"1/099", b"1/100", b"1/101", b"1/470", b"1/\x80"]
            assert all_rows == [b"0/100", b"0/\x80", *first, b"2/100", b"2/\x80"]
            assert everything == [*first, b"1/\x81", b"1/\x82"]

    def test_keys_of_a_slice(self, bed: Bed) -> None:
        key = bed.key()
        bed.put(key(b"r"), {b"d:%03d" % number: b"v" * 50 for number in range(600)}, 1)
        for filter in (
            And([ColumnRange(b"300", True, None, False), Pagination(4, 0), KeyOnly()]),
            And([KeyOnly(), ColumnRange(b"300", True, None, False), Pagination(4, 0)]),
            And(
                [
                    Or([ColumnRange(b"300", True, b"302", False), ColumnRange(b"302", True, b"600", False)]),
                    Pagination(4, 0),
                    KeyOnly(),
                ]
            ),
        ):
            assert self.found(bed, key(b""), filter) == {b"r": {b"d:30%d" % number: b"" for number in range(4)}}

    @pytest.mark.parametrize("size", [1, 100_000])
    def test_a_later_column_range_is_jumped_to(self, bed: Bed, size: int) -> None:
        """And the cells before it are not counted, wherever the first range begins."""
        key = bed.key()
        bed.put(key(b"r"), {b"d:%s" % name: b"v" * size for name in (b"0", b"a", b"b", b"b1", b"c")}, 1)
        filter = And([ColumnRange(b"a", True, None, False), ColumnPrefix(b"b"), KeyOnly(), Pagination(1, 1)])
        for columns in ([], [b"d"]):
            for reversed in (False, True):
                assert self.found(bed, key(b""), filter, columns, reversed=reversed) == {b"r": {b"d:b1": b""}}

    @pytest.mark.parametrize(
        "counting",
        [
            Pagination(4, 0),
            FirstCellOnly(),
            ValueFilter(b"d:a", "=", b"y", if_missing=True),
            And([ColumnRange(b"a", True, None, False), FirstCellOnly()]),
            Or([KeyOnly(), Pagination(4, 0)]),
        ],
    )
    def test_a_column_range_behind_a_filter_that_counts_is_refused(
        self, bed: Bed, wide: bytes, counting: Filter
    ) -> None:
        """What the filter sees there depends on the version of HBase."""
        for behind in (ColumnRange(b"b", True, None, False), ColumnPrefix(b"b")):
            for filter in (And([counting, behind]), Or([KeyOnly(), And([KeyOnly(), counting, KeyOnly(), behind])])):
                with pytest.raises(InvalidRequest, match="must come before value filters"):
                    self.found(bed, wide, filter)
            self.found(bed, wide, And([behind, counting]))
        for everything in (ColumnRange(None, True, b"b", False), ColumnPrefix(b"")):  # they make no jump
            self.found(bed, wide, And([counting, everything]))

    @pytest.mark.parametrize(
        "part", [ColumnRange(b"b", True, None, False), ColumnPrefix(b"b"), And([KeyOnly(), ColumnPrefix(b"b")])]
    )
    def test_a_reversed_scan_takes_no_column_range_inside_or(self, bed: Bed, wide: bytes, part: Filter) -> None:
        """HBase would lose cells: its filter list compares seek hints the wrong way round there."""
        filter = Or([RowContains("nowhere"), part])
        assert self.qualifiers(bed, wide, filter) == [
            q for q in self.QUALIFIERS if q.startswith(b"b") or (isinstance(part, ColumnRange) and q >= b"b")
        ]
        with pytest.raises(InvalidRequest, match="A reversed scan cannot have a column range or prefix inside"):
            self.qualifiers(bed, wide, filter, reversed=True)
