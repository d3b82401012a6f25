"""What every store promises about atomic changes: conditions, counters, and changes of a whole row where the store
can do them.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hbmodel.errors import CapabilityError, InvalidRequest
from hbmodel.store import ConditionalChange, ConditionalPut, Delete, Put
from hbmodel.store.port import change_and_get, check_and_put_each
from tests.conformance.conformance import Bed, long, now
from tests.support.slow_machines import lives_for


def get_behind(
    bed: Bed, row: bytes, change: ConditionalChange | ConditionalPut, columns: list[bytes]
) -> tuple[bool, dict[bytes, bytes] | None]:
    """Whether a change was applied, and the values that a get behind it finds, or None for an absent row."""
    applied, rows = change_and_get(bed.store, bed.table, change, columns)
    (found,) = bed.store.get(bed.table, [row], columns) if rows is None else rows
    return applied, None if found is None else {column: cell.value for column, cell in found.columns.items()}


class CheckAndPutConformance:
    def check_and_put(
        self, bed: Bed, row: bytes, column: bytes, expected: bytes | None, cell: bytes, value: bytes
    ) -> bool:
        return bed.store.check_and_put(bed.table, row, column, expected, Put(row, {cell: value}))

    @pytest.mark.parametrize("expected", [None, b""])
    def test_none_and_empty_expect_absent_or_empty(self, bed: Bed, expected: bytes | None) -> None:
        row = bed.key()(b"r")
        assert self.check_and_put(bed, row, b"d:a", expected, b"d:a", b"1")
        assert not self.check_and_put(bed, row, b"d:a", expected, b"d:a", b"2")
        bed.put(row, {b"d:empty": b""})
        assert self.check_and_put(bed, row, b"d:empty", expected, b"d:a", b"3")
        assert bed.values(row) == {b"d:a": b"3", b"d:empty": b""}

    def test_expects_exactly(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"one"})
        assert not self.check_and_put(bed, row, b"d:a", b"on", b"d:a", b"x")
        assert not self.check_and_put(bed, row, b"d:a", b"one\x00", b"d:a", b"x")
        assert not self.check_and_put(bed, row, b"d:absent", b"one", b"d:a", b"x")
        assert self.check_and_put(bed, row, b"d:a", b"one", b"d:b", b"two")
        assert bed.values(row) == {b"d:a": b"one", b"d:b": b"two"}

    def test_a_get_behind_a_conditional_put_sees_it(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        for value, applied in ((b"one", True), (b"two", False)):
            put = ConditionalPut(b"d:a", None, Put(row, {b"d:a": value}))
            assert get_behind(bed, row, put, [b"d:a"]) == (applied, {b"d:a": b"one"})
        put = ConditionalPut(b"d:a", b"one", Put(row, {b"d:b": b"three"}))
        assert get_behind(bed, row, put, [b"d:b"]) == (True, {b"d:b": b"three"})
        put = ConditionalPut(b"d:a", b"other", Put(row, {b"d:b": b"four"}))
        assert get_behind(bed, row, put, [b"d:none"]) == (False, None)
        assert bed.values(row) == {b"d:a": b"one", b"d:b": b"three"}

    def test_a_get_behind_a_conditional_change_sees_it(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"one", b"d:c": b"old"}, 10)
        change = ConditionalChange(row, b"d:a", b"one", [Put(row, {b"d:b": b"two"}), Delete(row, columns=[b"d:c"])])
        timed = ConditionalChange(row, b"d:b", b"two", [Delete(row, columns=[b"d:b"], timestamp=now() + 10_000)])
        if not bed.store.capabilities.check_and_mutate:
            with pytest.raises(CapabilityError):
                change_and_get(bed.store, bed.table, change, [b"d:a"])
            return
        columns = [b"d:b", b"d:c"]
        assert get_behind(bed, row, change, columns) == (True, {b"d:b": b"two"})
        assert get_behind(bed, row, timed, columns) == (True, None)
        assert get_behind(bed, row, timed, [b"d:a"]) == (False, {b"d:a": b"one"})

    def test_a_deleted_cell_is_absent(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"one"}, 10)
        bed.delete(row, timestamp=10)
        assert not self.check_and_put(bed, row, b"d:a", b"one", b"d:a", b"x")
        assert self.check_and_put(bed, row, b"d:a", None, b"d:a", b"two")
        assert bed.values(row) == {b"d:a": b"two"}

    def test_a_dead_cell_is_absent(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"one"}, timestamp=1000, ttl=1000)
        assert self.check_and_put(bed, row, b"d:a", None, b"d:a", b"two")

    def test_stamps_the_larger_of_the_clock_and_the_checked_cell(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        future = now() + 1_000_000
        bed.put(row, {b"d:a": b"future"}, future)
        assert self.check_and_put(bed, row, b"d:a", b"future", b"d:a", b"changed")
        assert bed.get(row) == {b"d:a": (b"changed", future)}
        before = now()
        bed.put(row, {b"d:b": b"past"}, 10)
        assert self.check_and_put(bed, row, b"d:b", b"past", b"d:b", b"present")
        assert before <= bed.get(row)[b"d:b"][1] <= now()

    def test_one_of_many_wins(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        with ThreadPoolExecutor(8) as threads:
            won = list(
                threads.map(
                    lambda number: self.check_and_put(bed, row, b"d:a", None, b"d:a", b"%d" % number), range(32)
                )
            )
        assert won.count(True) == 1
        assert bed.values(row) == {b"d:a": b"%d" % won.index(True)}

    def test_many_rows_are_put_each_on_its_own_condition(self, bed: Bed) -> None:
        key = bed.key()
        rows = [key(b"%04d" % n) for n in range(200)]
        bed.store.put(bed.table, [Put(row, {b"d:a": b"%d" % (n % 3)}) for n, row in enumerate(rows) if n % 3])
        for expected, wanted, value in (
            (b"1", 1, b"first"),
            (None, 0, b"second"),
            (b"2", 2, b"third"),
            (b"none", 3, b"fourth"),
        ):
            puts = [ConditionalPut(b"d:a", expected, Put(row, {b"d:b": value})) for row in rows]
            assert list(check_and_put_each(bed.store, bed.table, puts)) == [n % 3 == wanted for n in range(200)]
        found = bed.store.get(bed.table, rows, [b"d:b"])
        assert [row and row.columns[b"d:b"].value for row in found] == [
            (b"second", b"first", b"third")[n % 3] for n in range(200)
        ]
        assert list(check_and_put_each(bed.store, bed.table, [])) == []

    def test_what_it_refuses(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        for put in (
            Put(row, {b"d:a": b"1"}, timestamp=5),
            Put(row, {b"d:a": b"1", b"d:b": b"1"}),
            Put(row + b"x", {b"d:a": b"1"}),
        ):
            with pytest.raises(InvalidRequest, match="A check-and-put writes one cell of the checked row, without"):
                bed.store.check_and_put(bed.table, row, b"d:a", None, put)


class CounterConformance:
    def test_an_absent_counter_is_zero(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        assert bed.store.increment(bed.table, row, b"d:c", 5) == 5
        assert bed.store.increment(bed.table, row, b"d:c", -7) == -2
        assert bed.values(row) == {b"d:c": long(-2)}

    def test_by_nothing(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        assert bed.store.increment(bed.table, row, b"d:c", 0) == 0
        assert bed.values(row) == {b"d:c": long(0)}

    def test_wraps_at_64_bits(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:c": long(2**63 - 1)})
        assert bed.store.increment(bed.table, row, b"d:c", 1) == -(2**63)
        with pytest.raises(InvalidRequest):
            bed.store.increment(bed.table, row, b"d:c", 2**63)

    @pytest.mark.parametrize("value", [b"", b"1234567", b"123456789"])
    def test_a_cell_of_another_width_is_refused(self, bed: Bed, value: bytes) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:c": value})
        with pytest.raises(InvalidRequest):
            bed.store.increment(bed.table, row, b"d:c", 1)
        assert bed.values(row) == {b"d:c": value}

    def test_a_deleted_counter_is_zero(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:c": long(41)}, 10)
        bed.delete(row, timestamp=10)
        assert bed.store.increment(bed.table, row, b"d:c", 1) == 1

    def test_under_a_tombstone_of_the_future_it_never_counts(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.delete(row, timestamp=now() + 1_000_000)
        assert bed.store.increment(bed.table, row, b"d:c", 3) == 3
        assert bed.store.increment(bed.table, row, b"d:c", 3) == 3
        assert bed.get(row) == {}

    def test_it_is_newer_than_the_cell_before(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        future = now() + 1_000_000
        bed.put(row, {b"d:c": long(1)}, future)
        assert bed.store.increment(bed.table, row, b"d:c", 1) == 2
        assert bed.get(row) == {b"d:c": (long(2), future + 1)}

    @lives_for(0.4)
    def test_the_ttl_of_the_cell_is_carried_on(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:c": long(1)}, ttl=400)
        assert bed.store.increment(bed.table, row, b"d:c", 1) == 2
        time.sleep(0.6)
        assert bed.get(row) == {}

    def test_no_increment_is_lost(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(lambda _: bed.store.increment(bed.table, row, b"d:c", 1), range(64)))
        assert sorted(found) == list(range(1, 65))


class RowChangeConformance:
    """Stores without a capability must say so; those with it must keep HBase's rules."""

    def test_a_delete_below_a_put_leaves_the_put(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        bed.put(row, {b"d:a": b"old", b"d:b": b"old"}, 10)
        change = [Put(row, {b"d:a": b"new"}, 20), Delete(row, timestamp=19)]
        if not bed.store.capabilities.mutate_row:
            with pytest.raises(CapabilityError):
                bed.store.mutate_row(bed.table, change)
            return
        bed.store.mutate_row(bed.table, change)
        assert bed.get(row) == {b"d:a": (b"new", 20)}

    def test_a_tombstone_hides_puts_of_its_own_time_in_the_same_call(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        for change in (
            [Delete(row, timestamp=30), Put(row, {b"d:a": b"1"}, 30)],
            [Delete(row), Put(row, {b"d:a": b"1"})],
        ):
            if not bed.store.capabilities.mutate_row:
                with pytest.raises(CapabilityError):
                    bed.store.mutate_row(bed.table, change)
                continue
            bed.store.mutate_row(bed.table, change)
            assert bed.get(row) == {}

    def test_mixed_lives_in_one_change(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        change = [Put(row, {b"d:a": b"dead"}, timestamp=1000, ttl=1000), Put(row, {b"d:b": b"ever"}, timestamp=1000)]
        if not bed.store.capabilities.mutate_row:
            with pytest.raises(CapabilityError):
                bed.store.mutate_row(bed.table, change)
            return
        bed.store.mutate_row(bed.table, change)
        assert bed.values(row) == {b"d:b": b"ever"}

    def test_of_one_cell_put_twice_at_one_time_the_last_takes_the_place_of_the_first(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        change = [Put(row, {b"d:a": b"first", b"d:b": b"first"}, 1000), Put(row, {b"d:a": b"last"}, 1000, ttl=1000)]
        if not bed.store.capabilities.mutate_row:
            with pytest.raises(CapabilityError):
                bed.store.mutate_row(bed.table, change)
            return
        bed.store.mutate_row(bed.table, change)
        assert bed.get(row) == {b"d:b": (b"first", 1000)}
        bed.put(row, {b"d:a": b"before"}, 10)
        assert bed.store.check_and_mutate(bed.table, row, b"d:c", None, change)
        assert bed.values(row) == {b"d:a": b"before", b"d:b": b"first"}

    def test_check_and_mutate(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        change = [Put(row, {b"d:v": b"1", b"d:a": b"new", b"e:a": b"new"}, 20), Delete(row, timestamp=19)]
        if not bed.store.capabilities.check_and_mutate:
            with pytest.raises(CapabilityError):
                bed.store.check_and_mutate(bed.table, row, b"d:v", None, change)
            return
        bed.put(row, {b"d:old": b"1"}, 10)
        assert not bed.store.check_and_mutate(bed.table, row, b"d:v", b"0", change)
        assert set(bed.get(row)) == {b"d:old"}
        assert bed.store.check_and_mutate(bed.table, row, b"d:v", None, change)
        assert bed.get(row) == {b"d:v": (b"1", 20), b"d:a": (b"new", 20), b"e:a": (b"new", 20)}
        assert not bed.store.check_and_mutate(bed.table, row, b"d:v", None, [Delete(row, timestamp=30)])
        assert bed.store.check_and_mutate(bed.table, row, b"d:v", b"1", [Delete(row, timestamp=30)])
        assert bed.get(row) == {}

    def test_many_rows_are_changed_each_on_its_own_condition(self, bed: Bed) -> None:
        key = bed.key()
        rows = [key(b"%04d" % n) for n in range(300)]

        def changes(expected: bytes | None, value: bytes, timestamp: int) -> list[ConditionalChange]:
            return [
                ConditionalChange(
                    row,
                    b"d:v",
                    expected,
                    [Put(row, {b"d:v": value, b"e:a": row}, timestamp), Delete(row, (b"d",), (), 1)],
                )
                for row in rows
            ]

        if not bed.store.capabilities.check_and_mutate:
            with pytest.raises(CapabilityError):
                bed.store.check_and_mutate_many(bed.table, changes(None, b"1", 20))
            return
        assert list(bed.store.check_and_mutate_many(bed.table, [])) == []
        bed.put(rows[7], {b"d:v": b"0"}, 10)
        applied = bed.store.check_and_mutate_many(bed.table, changes(None, b"1", 20))
        assert [number for number, done in enumerate(applied) if not done] == [7]
        assert bed.get(rows[7]) == {b"d:v": (b"0", 10)}
        assert bed.get(rows[8]) == {b"d:v": (b"1", 20), b"e:a": (rows[8], 20)}
        applied = bed.store.check_and_mutate_many(bed.table, changes(b"1", b"2", 30))
        assert [number for number, done in enumerate(applied) if not done] == [7]
        again = [change for change in changes(b"2", b"3", 40) if change.row == rows[3]]
        assert list(bed.store.check_and_mutate_many(bed.table, [*again, *again])) == [True, False]  # in the order given

    def test_a_change_is_of_one_row(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        if bed.store.capabilities.mutate_row:
            with pytest.raises(InvalidRequest, match="An atomic change can change only one row"):
                bed.store.mutate_row(bed.table, [Put(row, {b"d:a": b"1"}), Put(row + b"x", {b"d:a": b"1"})])
        if bed.store.capabilities.check_and_mutate:
            with pytest.raises(InvalidRequest):
                bed.store.check_and_mutate(bed.table, row, b"d:a", None, [Put(row + b"x", {b"d:a": b"1"})])
        assert bed.store.get(bed.table, [row, row + b"x"]) == [None, None]
