"""The clock of an embedded store: it does not go back, and deletes and versions wait for its next millisecond."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store import Delete, Family, Put
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.store.embedded.clock_waits import EmbeddedClock, SteadyClock

T = "t"
MS = 1_000_000


class Machine:
    """Clocks that a test sets, in ns."""

    def __init__(self) -> None:
        self.time, self.monotonic = 1_000_000 * MS, 0

    def passes(self, milliseconds: int) -> None:
        """Lets time pass."""
        self.time += milliseconds * MS
        self.monotonic += milliseconds * MS

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.time, lambda: self.monotonic)


def test_a_clock_that_is_set_back_continues_at_half_speed_until_the_machine_has_caught_up() -> None:
    machine = Machine()
    clock = machine.clock()
    assert clock() == 1_000_000
    machine.passes(50)
    assert clock() == 1_000_050
    machine.time -= 20 * MS
    shown = []
    for _ in range(6):
        machine.passes(10)
        shown.append(clock())
    assert shown == [1_000_055, 1_000_060, 1_000_060, 1_000_070, 1_000_080, 1_000_090]
    machine.time += 1000 * MS
    assert clock() == 1_001_090


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(-10_000, 10_000))))
def test_the_clock_never_goes_back_and_is_never_behind_the_machine(steps: list[tuple[int, int]]) -> None:
    machine = Machine()
    clock = machine.clock()
    shown = [clock()]
    for passed, change in steps:
        machine.passes(passed)
        machine.time += change * MS
        shown.append(clock())
        assert shown[-1] >= machine.time // MS
    assert all(before <= after for before, after in pairwise(shown))
    machine.passes(4)
    assert clock() >= shown[-1]
    machine.passes(4)
    assert clock() > shown[-1]


@hb.model(table="pages", family="d")
class Page:
    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")


@pytest.mark.parametrize("back", [20, 3000, 3_600_000])
def test_what_is_written_after_the_clock_was_set_back_is_read(back: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_back = [0]
    with EmbeddedStore(None) as store, hb.Session(store) as session:
        clock = SteadyClock(lambda: time.time_ns() - set_back[0] * MS)
        monkeypatch.setattr(store._clock, "_read", clock)
        hb.create_tables(store, Page)
        session.add(Page(name="home", size=1))
        session.commit()
        session.delete_key(Page, name="home")
        session.commit()
        set_back[0] = back
        session.add(Page(name="home", size=2))
        session.commit()
        assert session.get_one(Page, name="home").size == 2
        session.delete_key(Page, name="home")
        session.commit()
        session.insert(Page(name="home", size=3))
        assert session.get_one(Page, name="home").size == 3


# --- clocks of tests --------------------------------------------------------------------------------------------------


def now() -> int:
    """Returns the time of the machine's clock in ms, as a test gives it to a store."""
    return time.time_ns() // MS


def values(store: EmbeddedStore) -> dict[bytes, bytes]:
    (found,) = store.get(T, [b"r"])
    return {} if found is None else {column: cell.value for column, cell in found.columns.items()}


def test_a_delete_does_not_hide_the_puts_that_follow_it_by_a_given_clock() -> None:
    with EmbeddedStore(None, now) as store:
        store.create_table(T, [Family(b"d")])
        for _ in range(50):
            store.put(T, [Put(b"r", {b"d:q": b"old"})])
            store.delete(T, [Delete(b"r")])
            store.put(T, [Put(b"r", {b"d:q": b"new"})])
            assert values(store) == {b"d:q": b"new"}
            store.mutate_row(T, [Delete(b"r")])
            store.put(T, [Put(b"r", {b"d:q": b"new"})])
            assert values(store) == {b"d:q": b"new"}


def test_puts_by_a_given_clock_do_not_replace_versions() -> None:
    with EmbeddedStore(None, now) as store:
        store.create_table(T, [Family(b"d", max_versions=20)])
        for number in range(20):
            store.put(T, [Put(b"r", {b"d:q": b"%d" % number})])
        (versions,) = store.versions(T, b"r", [b"d:q"], 20)
        assert [cell.value for cell in versions] == [b"%d" % number for number in reversed(range(20))]


def test_nothing_waits_twice_for_a_clock_that_only_the_test_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    passed = iter(range(1_000_000))
    monkeypatch.setattr("hbmodel.store.embedded.clock_waits.time.sleep", waits.append)
    monkeypatch.setattr("hbmodel.store.embedded.clock_waits.time.monotonic", lambda: next(passed) / 1000)
    clock = EmbeddedClock(lambda: 7)
    delete: Any = [Delete(b"r")]
    clock.pass_deletes(delete, 7)
    assert waits
    waits.clear()
    clock.pass_deletes(delete, 7)
    assert waits == []
