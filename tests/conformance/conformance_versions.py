"""What every store promises about the versions of cells: reads as of a time, and reads of several versions."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from hbmodel.errors import FamilyNotFound, InvalidRequest
from hbmodel.store import Delete, Get, Put, Row, Scan, Store
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.store.filters import And, ColumnPrefix, FirstCellOnly, KeyOnly, ValueFilter
from hbmodel.store.port import read_versions
from hbmodel.store.ranges import KeyRange
from tests.conformance.conformance import Bed, rows_of

TIMES = (None, 0, 1, 10, 11, 20, 21, 30, 31, 2**62)


def shown(row: Row | None) -> dict[bytes, tuple[bytes, int]]:
    return {} if row is None else {column: (cell.value, cell.timestamp) for column, cell in row.columns.items()}


def versions(store: Store, table: str, row: bytes, column: bytes, most: int = 10) -> list[tuple[int, bytes]]:
    (found,) = read_versions(store, table, row, [column], most)
    return [(cell.timestamp, cell.value) for cell in found]


def ways_to_put(bed: Bed, row: bytes) -> dict[str, Callable[[int], object]]:
    """Puts of a number into `e:a` at the server's time; each must follow the put of the previous number."""
    store, table = bed.store, bed.table

    def put(number: int) -> Put:
        return Put(row, {b"e:a": b"%d" % number})

    def before(number: int) -> bytes | None:
        return b"%d" % (number - 1) if number else None

    ways: dict[str, Callable[[int], object]] = {
        "put": lambda number: store.put(table, [put(number)]),
        "check_and_put": lambda number: store.check_and_put(table, row, b"e:a", before(number), put(number)),
    }
    if store.capabilities.mutate_row:
        ways["mutate_row"] = lambda number: store.mutate_row(table, [put(number), Put(row, {b"e:b": b"x"})])
    if store.capabilities.check_and_mutate:
        ways["check_and_mutate"] = lambda number: store.check_and_mutate(
            table, row, b"e:a", before(number), [put(number)]
        )
    return ways


class VersionConformance:
    """Family `e` keeps three versions."""

    def test_reads_as_of_times(self, bed: Bed) -> None:
        key = bed.key()
        row = key(b"1")
        for time in (30, 10, 20):
            bed.put(row, {b"e:a": b"%d" % time}, time)
        bed.put(row, {b"e:b": b"b"}, 20)
        for before in TIMES:
            newest = max((time for time in (10, 20, 30) if before is None or time < before), default=None)
            expected = {} if newest is None else {b"e:a": (b"%d" % newest, newest)}
            if before is None or before > 20:
                expected[b"e:b"] = (b"b", 20)
            only = {column: cell for column, cell in expected.items() if column == b"e:a"}
            gets = [Get(row, before=before), Get(row, [b"e"], before=before), Get(row, [b"e:a"], before=before)]
            gets.append(Get(row, [b"e"], b"a", before))
            assert [shown(found) for found in bed.store.get_each(bed.table, gets)] == [
                expected,
                expected,
                only,
                only,
            ], before
            for reversed in (False, True):
                found = rows_of(bed, Scan(KeyRange.exactly(row), reversed, before=before))
                assert [shown(each) for each in found] == ([expected] if expected else []), before
            pieces = rows_of(bed, Scan(KeyRange.exactly(row), cells=1, before=before))
            assert {column: cell for piece in pieces for column, cell in shown(piece).items()} == expected

    def test_times_are_apart_in_one_call(self, bed: Bed) -> None:
        key = bed.key()
        for time in (10, 20, 30):
            bed.put(key(b"1"), {b"e:a": b"%d" % time, b"e:b": b"x"}, time)
        gets = [Get(key(b"1"), [column], before=before) for before in TIMES for column in (b"e:a", b"e:b")]
        found = [shown(row) for row in bed.store.get_each(bed.table, gets)]
        assert found == [shown(bed.store.get_each(bed.table, [get])[0]) for get in gets]
        scans = [Scan(KeyRange.exactly(key(b"1")), before=before) for before in TIMES]
        together = [[shown(row) for batch in batches for row in batch] for batches in bed.store.scan(bed.table, scans)]
        assert together == [[shown(row) for row in rows_of(bed, scan)] for scan in scans]

    def test_filters_see_the_same_versions(self, bed: Bed) -> None:
        key = bed.key()
        for time in (10, 20):
            bed.put(key(b"1"), {b"e:a": b"%d" % time, b"e:b": b"x"}, time)
        everything = KeyRange.prefix(key(b""))

        def found(filter: object, before: int) -> list[dict[bytes, tuple[bytes, int]]]:
            return [shown(row) for row in rows_of(bed, Scan(everything, filter=filter, before=before))]  # type: ignore[arg-type]

        assert found(ValueFilter(b"e:a", "=", b"10"), 15) == [{b"e:a": (b"10", 10), b"e:b": (b"x", 10)}]
        assert found(ValueFilter(b"e:a", "=", b"20"), 15) == []
        assert found(ValueFilter(b"e:a", "=", b"10"), 25) == []
        assert found(And((FirstCellOnly(), KeyOnly())), 15) == [{b"e:a": (b"", 10)}]
        assert found(ColumnPrefix(b"b"), 15) == [{b"e:b": (b"x", 10)}]
        assert found(KeyOnly(), 5) == []

    def test_what_a_delete_hides_is_hidden_as_of_every_time(self, bed: Bed) -> None:
        key = bed.key()
        for name, delete in (
            (b"family", Delete(key(b"family"), [b"e"], timestamp=20)),
            (b"column", Delete(key(b"column"), columns=[b"e:a"], timestamp=20)),
            (b"row", Delete(key(b"row"), timestamp=20)),
        ):
            for time in (10, 20, 30):
                bed.put(key(name), {b"e:a": b"%d" % time}, time)
            bed.store.delete(bed.table, [delete])
            for before in TIMES:
                (found,) = bed.store.get_each(bed.table, [Get(key(name), before=before)])
                seen = before is None or before > 30
                assert shown(found) == ({b"e:a": (b"30", 30)} if seen else {}), (name, before)
                assert len(rows_of(bed, Scan(KeyRange.exactly(key(name)), before=before))) == seen
            assert versions(bed.store, bed.table, key(name), b"e:a") == [(30, b"30")]

    def test_a_delete_between_versions_leaves_the_newer_ones(self, bed: Bed) -> None:
        row = bed.key()(b"1")
        for time in (10, 20, 30):
            bed.put(row, {b"e:a": b"%d" % time}, time)
        bed.store.delete(bed.table, [Delete(row, columns=[b"e:a"], timestamp=15)])
        found = [
            shown(row) for row in bed.store.get_each(bed.table, [Get(row, before=before) for before in (15, 25, 35)])
        ]
        assert found == [{}, {b"e:a": (b"20", 20)}, {b"e:a": (b"30", 30)}]

    def test_versions(self, bed: Bed) -> None:
        row = bed.key()(b"1")
        assert versions(bed.store, bed.table, row, b"e:a") == []
        for time in (30, 10, 40, 20):
            bed.put(row, {b"e:a": b"%d" % time, b"d:a": b"%d" % time}, time)
        assert versions(bed.store, bed.table, row, b"e:a") == [(40, b"40"), (30, b"30"), (20, b"20")]
        assert versions(bed.store, bed.table, row, b"e:a", 2) == [(40, b"40"), (30, b"30")]
        assert versions(bed.store, bed.table, row, b"d:a") == [(40, b"40")]
        both = read_versions(bed.store, bed.table, row, [b"e:none", b"e:a"], 1)
        assert [[cell.timestamp for cell in cells] for cells in both] == [[], [40]]
        bed.put(row, {b"e:a": b"again"}, 30)
        assert versions(bed.store, bed.table, row, b"e:a") == [(40, b"40"), (30, b"again"), (20, b"20")]
        bed.put(row, {b"e:a": b""}, 50)
        assert versions(bed.store, bed.table, row, b"e:a", 1) == [(50, b"")]

    def test_each_call_puts_a_version(self, bed: Bed) -> None:
        """HBase replaces a version of the same millisecond, so callers let the clock tick there."""
        key = bed.key()
        for way in ways_to_put(bed, key(b"")):
            put = ways_to_put(bed, row := key(way.encode()))[way]
            for number in range(6):
                put(number)
                if not bed.store.capabilities.versions_apart:
                    let_tick_pass()
            found = versions(bed.store, bed.table, row, b"e:a")
            assert [value for _, value in found] == [b"5", b"4", b"3"], way
            assert len({time for time, _ in found}) == 3, way

    def test_calls_that_follow_each_other_at_once(self, bed: Bed) -> None:
        """HBase may have lost some versions; the remaining versions are in order, and the last one exists."""
        row = bed.key()(b"1")
        for number in range(10, 40):
            bed.put(row, {b"e:a": b"%d" % number, b"d:a": b"%d" % number})
        found = [value for _, value in versions(bed.store, bed.table, row, b"e:a")]
        assert found == sorted(found, reverse=True)
        assert found[0] == b"39"
        if bed.store.capabilities.versions_apart:
            assert found == [b"39", b"38", b"37"]
        assert bed.values(row, b"d:a") == {b"d:a": b"39"}

    def test_calls_at_the_same_time(self, bed: Bed) -> None:
        row = bed.key()(b"1")
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda number: bed.put(row, {b"e:a": b"%d" % number}), range(40)))
        found = versions(bed.store, bed.table, row, b"e:a")
        assert len({time for time, _ in found}) == len({value for _, value in found}) == len(found)
        if bed.store.capabilities.versions_apart:
            assert len(found) == 3

    def test_puts_of_one_call_are_one_version(self, bed: Bed) -> None:
        key = bed.key()
        bed.store.put(bed.table, [Put(key(b"1"), {b"e:a": b"%d" % number}) for number in range(5)])
        assert [value for _, value in versions(bed.store, bed.table, key(b"1"), b"e:a")] == [b"4"]
        if bed.store.capabilities.mutate_row:
            bed.store.mutate_row(bed.table, [Put(key(b"2"), {b"e:a": b"%d" % number}) for number in range(5)])
            assert [value for _, value in versions(bed.store, bed.table, key(b"2"), b"e:a")] == [b"4"]

    def test_bad_requests(self, bed: Bed) -> None:
        row = bed.key()(b"1")
        for before in (-1, 2**63 - 1, 1.5, True):
            with pytest.raises(InvalidRequest):
                bed.store.get_each(bed.table, [Get(row, before=before)])  # type: ignore[arg-type]
            with pytest.raises(InvalidRequest):
                bed.store.scan(bed.table, [Scan(before=before)])  # type: ignore[arg-type]
        for most in (0, 2**31, "1"):
            with pytest.raises(InvalidRequest, match="Give the number of versions to read, at least one"):
                read_versions(bed.store, bed.table, row, [b"e:a"], most)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest):
            read_versions(bed.store, bed.table, row, [b"e"], 1)
        with pytest.raises(FamilyNotFound):
            read_versions(bed.store, bed.table, row, [b"none:a"], 1)
