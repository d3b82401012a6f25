"""Calls of a session that run at once: insert and increment."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from tests.support.beds import Bed, fresh, rows_of
from tests.support.faulty import RecordingStore
from tests.support.models import DAY, Fact, Flagged, Hit, Logged, Order, Person, Sample, day, order
from tests.support.orders import of_state, states

# --- insert -----------------------------------------------------------------------------------------------------------


def test_insert_takes_a_free_key_once(bed: Bed) -> None:
    session = bed.use(Order, Sample, Flagged, Fact)
    objects = [
        order(1, amount=1),
        Sample(station="s", label="l", level=1),
        Flagged(name="a"),
        Fact(number=1, topic="t"),
    ]
    if not bed.atomic:
        session.insert(Flagged(name="a"))
        with pytest.raises(hb.RowExists):
            session.insert(Flagged(name="a"))
        for obj in (objects[0], objects[1], objects[3]):
            with pytest.raises(hb.CapabilityError, match="check-and-mutate"):
                session.insert(obj)
            assert rows_of(bed.store, hb.schema.schema_of(type(obj)).table) == {}
        assert rows_of(bed.store, "orders.by_state") == {}
        return
    for obj in objects:
        assert session.insert(obj) is obj
        with pytest.raises(hb.RowExists):
            session.insert(obj)
    assert states(session, 1) == ["new"]
    assert of_state(session, "new") == [1]
    assert session.get(Sample, station="s", label="l") == objects[1]
    assert session.get(Flagged, name="a") == objects[2]
    assert session.query(Fact).where(Fact.topic == "t").all() == [objects[3]]


@pytest.mark.every_store
def test_insert_over_a_deleted_row_shows_nothing_old(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Person, Sample)
    session.insert(Person(name="ann", city="Oslo", story="long"))
    session.increment(Person(name="ann"), Person.visits, 3)
    session.delete_key(Person, name="ann")
    session.commit()
    session.insert(Person(name="ann", street="B"))
    assert session.get(Person, name="ann") == Person(name="ann", street="B")
    assert session.query(Person).where(Person.city == "Oslo").all() == []
    sample = Sample(station="s", label="l", level=1, remark="r")
    session.insert(sample)
    session.delete(sample)
    session.commit()
    session.insert(Sample(station="s", label="l", level=2))
    assert session.get(Sample, station="s", label="l") == Sample(station="s", label="l", level=2)


def test_insert_needs_a_column_that_is_never_empty(atomic_bed: Bed) -> None:
    @hb.model(table="unflagged")
    class Loose:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column(default="")

    @hb.model(table="coloured", family="d", row=b"r")
    class Colour:
        name: hb.Key[str] = hb.key(in_qualifier=True)
        colour: hb.Column[str] = hb.column("", default="red")

    session = atomic_bed.use(Loose, Colour, Logged, Hit)
    with pytest.raises(hb.CapabilityError, match=r"insert\(\) needs a column that every row has: declare"):
        session.insert(Loose(name="a", text="b"))
    with pytest.raises(hb.CapabilityError, match=r"has no room for a flag: put .* hb\.codecs\.NonEmpty"):
        session.insert(Colour(name="a", colour="red"))
    with pytest.raises(hb.CapabilityError, match=r"insert\(\) is not possible under RandomSalt"):
        session.insert(Logged(serial=1, page="/"))
    with pytest.raises(hb.CapabilityError, match=r"insert\(\) is not possible under RandomSalt"):
        session.insert(Hit(at=DAY, serial=1, page="/"))
    assert rows_of(atomic_bed.store, "unflagged") == rows_of(atomic_bed.store, "hits.by_page") == {}


class Repeating(RecordingStore):
    """A gateway that repeats a conditional change whose first answer it lost."""

    def check_and_mutate(self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Any) -> bool:
        super().check_and_mutate(table, row, column, expected, mutations)
        return super().check_and_mutate(table, row, column, expected, mutations)


def test_an_insert_that_lost_to_its_own_repetition_has_won() -> None:
    with fresh(Order) as inner:
        session = hb.Session(Repeating(inner))
        assert session.insert(order(1)) == order(1)
        with pytest.raises(hb.RowExists):
            session.insert(order(1))
        session.delete(order(1))
        session.commit()
        session.insert(order(1, "again"))
        assert of_state(session, "again") == [1]


def _try_to_insert(store: hb.Store, who: str, won: Any, start: Any) -> None:
    start.wait()
    session = hb.Session(store)
    for number in range(10):
        try:
            session.insert(order(number, who))
        except hb.RowExists:
            continue
        won.append((number, who))


@pytest.mark.every_store
def test_of_racing_threads_exactly_one_inserts(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Order)
    won: list[tuple[int, str]] = []
    start = threading.Barrier(8)
    racers = [
        threading.Thread(target=_try_to_insert, args=(atomic_bed.store, f"racer {n}", won, start)) for n in range(8)
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    _check_winners(session, won)


def _race_in_a_process(url: str, who: str, queue: Any, start: Any) -> None:
    won: list[tuple[int, str]] = []
    with hb.connect(url) as store:
        _try_to_insert(store, who, won, start)
    queue.put(won)


@pytest.mark.lengthy
def test_of_racing_processes_exactly_one_inserts(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'store.db'}"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hbmodel", "models"])
    with hb.connect(url) as store:
        hb.create_tables(store, Order)
        queue, start = context.Queue(), context.Barrier(8)
        racers = [context.Process(target=_race_in_a_process, args=(url, f"racer {n}", queue, start)) for n in range(8)]
        for racer in racers:
            racer.start()
        won = [pair for _ in racers for pair in queue.get(timeout=60)]
        for racer in racers:
            racer.join()
        _check_winners(hb.Session(store), won)


def _check_winners(session: hb.Session, won: list[tuple[int, str]]) -> None:
    assert sorted(number for number, _ in won) == list(range(10))
    assert states(session, *range(10)) == [who for _, who in sorted(won)]
    for racer in range(8):
        mine = sorted((number for number, who in won if who == f"racer {racer}"), reverse=True)
        assert of_state(session, f"racer {racer}") == mine


# --- increment --------------------------------------------------------------------------------------------------------


@pytest.mark.every_store
def test_increment_runs_at_once_and_survives_other_writes(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    session.add_all([order(1), Sample(station="s", label="l", level=1)])
    session.commit()
    assert session.increment(order(1), Order.views) == 1
    assert session.increment(order(1), Order.views, 41) == 42
    session.update(order(1), state="paid")
    session.add(order(1, "shipped"))
    session.commit()
    assert session.increment(order(1), Order.views, -50) == -8
    assert session.increment(Sample(station="s", label="l", level=1), Sample.seen, 2**40) == 2**40
    found = session.get(Order, customer=1, at=day(1), number=1)
    assert found is not None
    assert (found.state, found.views) == ("shipped", -8)


def test_increment_of_an_absent_row(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    for obj, counter in ((order(1), Order.views), (Sample(station="s", label="l", level=1), Sample.seen)):
        with pytest.raises(hb.RowNotFound):
            session.increment(obj, counter)
    session.add(order(1))
    session.commit()
    session.delete(order(1))
    session.commit()
    with pytest.raises(hb.RowNotFound):
        session.increment(order(1), Order.views)
    assert states(session, 1) == [None]
    assert rows_of(bed.store, "samples") == {}


def test_a_counter_begins_a_row_where_nothing_else_must_be_there(bed: Bed) -> None:
    @hb.model(table="tallies_at_once")
    class Tally:
        name: hb.Key[str] = hb.key()
        count: hb.Column[int] = hb.counter("c")

    session = bed.use(Tally)
    assert session.increment(Tally(name="a"), Tally.count, 3) == 3
    found = session.get(Tally, name="a")
    assert found is not None
    assert found.count == 3
