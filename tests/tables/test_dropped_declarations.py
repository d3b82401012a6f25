"""Indexes that a model no longer declares: dropped by `alter`, while programs with the older declaration read and
write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.registry.registration import ABSENT
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.binding_cache import BindingCache
from hbmodel.tables.roll.own_line import RollTimes
from tests.support.beds import HBASE, Bed, fresh, paired
from tests.support.faulty import RecordingStore
from tests.support.waiting import wait_until
from tests.tables.test_indexes import Killed, Two, declare, versioned

TIMES = hb.indexes.IndexTimes(lease=0.15, longest_call=0.1, clock_bound=2, grace=10)
SESSION: dict[str, Any] = {"lease": 0.15, "longest_call": 0.1, "clock_bound": 2, "grace": 10}


def open_session(store: hb.Store) -> hb.Session:
    return hb.Session(store, **SESSION)


def session_on_the_roll(store: hb.Store) -> hb.Session:
    """A session whose line does not rest while a slow machine runs the next lines of a test."""
    return hb.Session(store, cache=BindingCache(SESSION["lease"], roll_times=RollTimes(short_idle=60)), **SESSION)


STORES = ("memory", "limited", *HBASE)
MOST_STORES = (*STORES[:2], pytest.param("thrift1", marks=[pytest.mark.hbase, pytest.mark.slow]), HBASE[1])


@pytest.fixture(params=STORES)
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    if request.param.startswith("thrift"):
        yield Bed(request.param, request.getfixturevalue("real_beds")(request.param).store)
        return
    with RecordingStore(EmbeddedStore(None), limited=request.param == "limited") as store:
        yield Bed(request.param, store)


@pytest.mark.lengthy
def test_alter_drops_what_is_not_declared_only_when_asked(bed: Bed) -> None:
    two = declare()
    table = two.schema.table
    hb.create_tables(bed.store, two.after)
    with open_session(bed.store) as session:
        session.add(two.after(name="a", topic="t"))
    left = hb.alter(bed.store, two.before)
    assert (len(left.left), left.dropped) == (2, ())
    assert "drop=True" in str(left)
    session = session_on_the_roll(bed.store)
    session.add(two.before(name="b", topic="t"))
    with pytest.raises(hb.errors.IndexUnavailable, match=r"hb\.alter\(\.\.\., drop=True\)"):
        session.commit()
    began = time.monotonic()
    altered = hb.alter(bed.store, two.before, drop=True, times=TIMES)
    assert sorted(altered.dropped) == [f"{table}.by_note", f"{table}.by_topic"]
    assert (len(altered.applied), len(altered.left)) == (2, 0)
    assert time.monotonic() - began >= (
        TIMES.lease if bed.store.capabilities.gated_writes else TIMES.lease + TIMES.longest_call
    )
    session.commit()
    assert not hb.diff(bed.store, two.before)
    assert hb.alter(bed.store, two.before, drop=True, times=TIMES).dropped == ()
    assert [name for name in bed.store.tables() if name.startswith(table)] == [table]
    hb.create_tables(bed.store, two.after)
    assert hb.indexes.build_index(bed.store, two.after, "by_topic", times=TIMES).readable
    assert f"{table}.by_topic.2" in bed.store.tables()
    assert hb.indexes.verify_index(bed.store, two.after, "by_topic", times=TIMES).entries == 2


@pytest.mark.lengthy
def test_writes_wait_for_the_lease_of_readers_and_not_for_the_tables() -> None:
    """However many indexes there are: the tables go when the longest call is over, which the model's writes need not
    wait for.
    """
    two = declare()
    times = hb.indexes.IndexTimes(lease=0.3, longest_call=1.5, clock_bound=0.2, grace=4)
    refused: list[float] = []
    with fresh(two.after, gated=False) as store:
        options: Any = {"lease": 0.3, "longest_call": 1.5, "clock_bound": 0.2, "grace": 4}
        # The tables wait for this one, whose line stays on the roll for two of its own leases.
        silent = hb.Session(store, **{**options, "lease": 2})
        silent.add(two.after(name="silent", topic="t"))
        silent.commit()
        session = hb.Session(store, **options)
        ended = threading.Event()

        def write() -> None:
            n = 0
            while not ended.is_set():
                session.add(two.before(name=f"{n}", topic="t"))
                asked = time.monotonic()
                try:
                    session.commit()
                except hb.errors.IndexUnavailable:
                    refused.append(asked)
                    session.discard()
                n += 1
                time.sleep(0.02)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            hb.alter(store, two.before, drop=True, times=times)
            done = time.monotonic()
        finally:
            ended.set()
            thread.join()
        assert refused
        assert done - max(refused) > 1


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("bed", "make"), paired((MOST_STORES, declare), (("memory", HBASE[1]), versioned)), indirect=["bed"]
)
def test_programs_of_the_older_declaration_lose_nothing(bed: Bed, make: Callable[[], Two]) -> None:
    two = make()
    hb.create_tables(bed.store, two.after)
    with open_session(bed.store) as session:
        session.add_all(two.after(name=f"still{n}", topic="still") for n in range(5))
    ended, errors = threading.Event(), list[BaseException]()
    expected: list[dict[str, str]] = [{}, {}, {}]

    def carry(work: Callable[[], None]) -> Callable[[], None]:
        def carried() -> None:
            try:
                while not ended.is_set():
                    work()
            except BaseException as error:
                errors.append(error)
                raise

        return carried

    def writer(own: int, model: type[Any]) -> Callable[[], None]:
        session, random, mine = open_session(bed.store), Random(own), expected[own]

        def one() -> None:
            name, topic = f"w{own}{random.randrange(6)}", f"t{random.randrange(3)}"
            if random.random() < 0.3:
                session.delete_key(model, name=name)
            else:
                session.add(model(name=name, topic=topic))
            try:
                session.commit()
            except hb.errors.IndexUnavailable:
                assert model is two.before
                session.discard()
                return
            if session.get(model, name=name) is None:
                mine.pop(name, None)
            else:
                mine[name] = topic

        return one

    def reader() -> Callable[[], None]:
        session = open_session(bed.store)
        query = session.query(two.after).where(two.after.topic == "still").use_index("by_topic")

        def one() -> None:
            try:
                found = [item.name for item in query]
            except hb.errors.IndexUnavailable:
                time.sleep(0.01)
                return
            assert found == [f"still{n}" for n in range(5)]

        return one

    works = [writer(0, two.after), writer(1, two.after), writer(2, two.before), reader()]
    threads = [threading.Thread(target=carry(work)) for work in works]
    for thread in threads:
        thread.start()
    try:
        time.sleep(0.3)
        patient = hb.indexes.IndexTimes(
            lease=0.15, longest_call=1.0, clock_bound=2, grace=12
        )  # threads of a busy machine stand still for longer than TIMES allows
        assert len(hb.alter(bed.store, two.before, drop=True, times=patient).dropped) == 2
        time.sleep(0.3)
        hb.create_tables(bed.store, two.after)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not errors
    whole = {name: topic for mine in expected for name, topic in mine.items()} | {
        f"still{n}": "still" for n in range(5)
    }
    items = open_session(bed.store).query(two.before).allow_full_scan()
    assert {item.name: item.topic for item in items} == whole
    assert hb.indexes.build_index(bed.store, two.after, "by_topic", times=TIMES).missing == 0
    report = hb.indexes.verify_index(bed.store, two.after, "by_topic", times=TIMES)
    assert (report.rows, report.missing) == (len(whole), 0)


@pytest.mark.lengthy
@pytest.mark.parametrize("stop_in", ["write-only", "absent"])
def test_a_call_that_was_killed_is_finished_by_the_next(stop_in: str) -> None:
    two = declare()
    with fresh(two.after, gated=False) as store:
        writer = hb.Session(store)  # which is waited for
        writer.add(two.after(name="a", topic="t"))
        writer.commit()

        def dying(progress: hb.indexes.IndexProgress) -> None:
            found = Registry(store).read(two.schema)
            assert found is not None
            if found.indexes["by_topic"].state == stop_in:
                raise Killed

        with pytest.raises(Killed):
            hb.alter(store, two.before, drop=True, times=TIMES, progress=dying)
        assert sorted(hb.alter(store, two.before, drop=True, times=TIMES).dropped) == [
            f"{two.schema.table}.by_note", f"{two.schema.table}.by_topic",
        ]  # fmt: skip


@pytest.mark.lengthy
def test_a_build_that_ends_while_it_is_dropped() -> None:
    """The index becomes readable between two looks of the drop: queries are stopped first all the same."""
    two = declare()
    with fresh(two.before) as store:
        with hb.Session(store, **SESSION) as session:
            session.add_all(two.before(name=f"{n}", topic="t") for n in range(20))
        hb.create_tables(store, two.after)
        build = threading.Thread(target=lambda: _until_dropped(store, two))
        build.start()
        wait_until(lambda: _state(store, two) != ABSENT)  # a drop before the build begins would leave it to the build
        dropped: list[str] = []
        while not dropped:
            dropped += hb.alter(store, two.before, drop=True, times=TIMES).dropped
            time.sleep(0.1)
        build.join()
        assert _state(store, two) == ABSENT


def _state(store: hb.Store, two: Two) -> str:
    found = Registry(store).read(two.schema)
    assert found is not None
    return found.indexes["by_topic"].state


def _until_dropped(store: hb.Store, two: Two) -> None:
    with suppress(hb.errors.IndexUnavailable):
        hb.indexes.build_index(store, two.after, "by_topic", times=TIMES)
