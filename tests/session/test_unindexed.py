"""Models without indexes: rows that expire during deletes, fragments of deleted rows, None as absence, two models of a
table.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.protocol.corrected_clock import SharedOffset, wall_time
from hbmodel.store import Delete, Put
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.store.embedded.clock_waits import EmbeddedClock
from hbmodel.tables.registry.registration import LEASE
from hbmodel.tables.roll.binding_cache import BindingCache
from tests.support.beds import Bed, cells_of, fresh
from tests.support.faulty import Crash, FaultyStore

HOUR = timedelta(hours=1)


@hb.model(table="cards", family="d")
class Card:
    """Two required columns, an optional one and a counter that no TTL meets."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    line: hb.Column[int] = hb.column("l", hb.Int32)
    note: hb.Column[str | None] = hb.column("n", default=None)


@hb.model(table="scores", family="d")
class Tally:
    """A required column and a counter."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[int] = hb.column("p", hb.Int32)
    note: hb.Column[str | None] = hb.column("n", default=None)
    views: hb.Column[int] = hb.counter("v")


@hb.model(table="gaps", family="d")
class Gap:
    """Every None is the absence of its cell, and no column is required."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str | None] = hb.column("p", default=None, null="delete")
    note: hb.Column[str | None] = hb.column("n", default=None, null="delete")


def card(name: str = "a", page: str = "x", line: int = 1, note: str | None = None) -> Card:
    return Card(name=name, page=page, line=line, note=note)


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.every_store
def test_what_is_added_with_a_ttl_right_after_a_delete_is_there(bed: Bed) -> None:
    session = bed.use(Card)
    for n in range(30):
        session.add(card(page="old"))
        session.commit()
        session.delete_key(Card, name="a")
        session.commit()
        session.add(card(page=str(n)), ttl=HOUR)
        session.commit()
        assert session.get(Card, name="a") == card(page=str(n))


@pytest.mark.every_store
@pytest.mark.lengthy
def test_what_is_inserted_with_a_ttl_right_after_a_delete_is_there(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Card)
    for n in range(30):
        session.insert(card(page=str(n)), ttl=HOUR)
        assert session.get(Card, name="a") == card(page=str(n))
        session.delete_key(Card, name="a")
        session.commit()
        assert session.get(Card, name="a") is None


@pytest.mark.lengthy
def test_a_column_that_was_deleted_comes_with_a_row_that_expires(bed: Bed) -> None:
    session = bed.use(Gap)
    for n in range(30):
        session.update(Gap(name="a"), note=None) if n else session.add(Gap(name="a", page="x", note="n"))
        session.commit()
        session.add(Gap(name="a", page="x", note="new"), ttl=HOUR)
        session.commit()
        assert session.get(Gap, name="a") == Gap(name="a", page="x", note="new")


@pytest.mark.parametrize("ahead", [-30_000, 30_000])
def test_this_machines_clock_does_not_matter_to_rows_that_expire(bed: Bed, ahead: int) -> None:
    jump = 0
    bed.use(Card)
    session = hb.Session(bed.store, cache=BindingCache(LEASE, offset=SharedOffset(lambda: wall_time() + jump)))
    session.add(card(page="first"), ttl=HOUR)
    session.commit()
    jump = ahead
    session.add(card(page="second"), ttl=HOUR)
    session.commit()
    assert session.get(Card, name="a") == card(page="second")
    session.delete_key(Card, name="a")
    session.commit()
    assert session.get(Card, name="a") is None
    session.add(card(page="third"))
    session.commit()
    assert session.get(Card, name="a") == card(page="third")


@pytest.mark.lengthy
def test_a_cell_from_the_future_is_refused_beyond_the_bound(bed: Bed) -> None:
    session = bed.use(Card)
    row = hb.row_key(Card, name="a")
    cells = {b"d:p": b"x", b"d:l": b"\x80\x00\x00\x01"}
    now = time.time_ns() // 1_000_000
    bed.store.put("cards", [Put(row, cells, now + 1_500)])
    session.add(card(page="above"), ttl=HOUR)
    session.commit()
    assert session.get(Card, name="a") == card(page="above")
    bed.store.put("cards", [Put(row, cells, now + 3_600_000)])
    session.add(card(page="below"), ttl=HOUR)
    session.add(card("b"), ttl=HOUR)
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    (failure,) = caught.value.failures
    assert isinstance(failure.error, hb.errors.ClockError)
    assert session.get(Card, name="b") == card("b")
    assert not any(b":_p" in column for cells in cells_of(bed.store, "cards").values() for column in cells)
    if bed.real:
        bed.store.delete("cards", [])  # the bed is emptied at the newest time of each row


def clocked(store: Any) -> list[int]:
    """Stops the clock of a store in this process; the list holds its time in ms."""
    now = [time.time_ns() // 1_000_000 + 60_000]
    store.inner._clock = EmbeddedClock(lambda: now[0])
    return now


def test_an_insert_that_a_delete_of_its_millisecond_hides_is_in_doubt() -> None:
    """The server stamps both with one time, and the delete hides what is put after it."""
    with fresh(Card) as store:
        session = hb.Session(store)
        session.insert(card(page="first"))
        now = clocked(store)
        store.delete("cards", [hb_delete("a")])
        with pytest.raises(hb.UnknownOutcome, match="The row was put, but reading it back did not show it") as caught:
            session.insert(card(page="second"))
        assert (caught.value.table, caught.value.key) == ("cards", hb.row_key(Card, name="a"))
        assert session.get(Card, name="a") is None
        now[0] += 1
        session.insert(card(page="third"))
        assert session.get(Card, name="a") == card(page="third")


@hb.model(table="labels", family="d")
class Label:
    """A row is one cell."""

    name: hb.Key[str] = hb.key()
    text: hb.Column[int] = hb.column("t")


@pytest.mark.parametrize("model", [Card, Label])
def test_an_insert_never_brings_back_what_was_deleted_since(model: Any) -> None:
    """Another program is refused because of the row, deletes it, and the insert then looks for it."""
    obj: Any = card() if model is Card else Label(name="a", text=1)
    for limited in (False, True) if model is Label else (False,):
        with fresh(model) as inner:
            store = type(inner)(inner, limited=limited)
            other = hb.Session(inner)
            read = store.get

            def get(table: str, *args: Any, read: Any = read, store: Any = store, other: Any = other) -> Any:
                if table == "hbmodel":
                    return read(table, *args)
                store.get = read
                with pytest.raises(hb.RowExists):
                    other.insert(obj)
                other.delete_key(model, name="a")
                other.commit()
                return read(table, *args)

            session = hb.Session(store)
            assert session.get(model, name="z") is None
            store.get = get  # type: ignore[method-assign]
            with pytest.raises(hb.UnknownOutcome, match="The row was put"):
                session.insert(obj)
            assert other.get(model, name="a") is None


def hb_delete(name: str) -> Any:
    from hbmodel.store import Delete

    return Delete(hb.row_key(Card, name=name), families=(b"d",))


def test_a_row_under_a_delete_from_the_future_takes_no_ttl() -> None:
    with fresh(Card) as store:
        session = hb.Session(store)
        ahead = time.time_ns() // 1_000_000 + 3_600_000
        store.delete("cards", [Delete(hb.row_key(Card, name="a"), families=(b"d",), timestamp=ahead)])
        session.add(card(), ttl=HOUR)
        with pytest.raises(hb.errors.ClockError, match="A new cell of the row was hidden again and again, by a delete"):
            session.commit()
        session.discard()


# --- pieces -----------------------------------------------------------------------------------------------------------


def leave_piece(store: hb.Store, name: str, cells: dict[bytes, bytes]) -> None:
    """The cells that an update or an increment during a delete leaves."""
    store.put("scores", [Put(hb.row_key(Tally, name=name), cells)])


PIECES = [
    {b"d:n": b"left"},
    {b"d:v": (7).to_bytes(8, "big")},
    {b"d:n": b"", b"d:v": (7).to_bytes(8, "big")},
    {b"d:_t": bytes(8)},
]


@pytest.mark.parametrize("cells", PIECES)
def test_a_row_without_any_required_column_is_absent(bed: Bed, cells: dict[bytes, bytes]) -> None:
    session = bed.use(Tally)
    there = [Tally(name=name, page=1) for name in "bdf"]
    session.add_all(there)
    session.commit()
    for name in "aceg":
        leave_piece(bed.store, name, cells)
    query = session.query(Tally).allow_full_scan()
    assert session.get(Tally, name="a") is None
    assert session.get_many(Tally, [["a"], ["b"]]) == [None, there[0]]
    assert query.all() == there
    assert [item.name for item in query.reversed()] == ["f", "d", "b"]
    assert query.count() == 3
    assert query.select(Tally.name, Tally.note).all() == [("b", None), ("d", None), ("f", None)]
    assert query.where(Tally.note.is_(None)).count() == 3
    assert query.first() == there[0]
    assert query.last() == there[-1]
    assert query.limit(2).all() == there[:2]
    assert not query.where(Tally.name >= "g").exists()
    for size in (1, 2, 3, 4):
        page, items = query.page(size), []
        items += page.items
        while page.next_token is not None:
            assert len(page.items) == size
            page = query.page(size, after=page.next_token)
            items += page.items
        assert items == there
    session.update(Tally(name="a", page=0), note="n")
    with pytest.raises(hb.RowNotFound):
        session.commit()
    with pytest.raises(hb.RowNotFound):
        session.increment(Tally(name="a", page=0), Tally.views)


@pytest.mark.parametrize("cells", PIECES)
def test_an_insert_overwrites_a_piece_whole(atomic_bed: Bed, cells: dict[bytes, bytes]) -> None:
    session = atomic_bed.use(Tally)
    leave_piece(atomic_bed.store, "a", cells)
    session.insert(Tally(name="a", page=1))
    found = session.get(Tally, name="a")
    assert found is not None
    assert (found.page, found.note, found.views) == (1, None, 0)
    assert session.increment(found, Tally.views) == 1


@pytest.mark.lengthy
@pytest.mark.every_store
def test_a_delete_beside_updates_wins(bed: Bed) -> None:
    """An update of any column, required or not, leaves nothing of a row that somebody deletes at the same time."""
    bed.use(Card)
    rounds = 40 if bed.real else 80
    changes: list[dict[str, Any]] = [
        {"page": "u"},
        {"note": "u"},
        {"page": "u", "line": 2},
        {"page": "u", "note": None},
    ]
    for n in range(rounds):
        session = hb.Session(bed.store)
        session.add(card())
        session.commit()
        changed = changes[n % 4]
        errors = at_once(
            lambda: _commit(bed, lambda s: s.update(card(), **changed)),  # noqa: B023
            lambda: _commit(bed, lambda s: s.delete(card())),
        )
        assert all(isinstance(error, hb.RowNotFound) for error in errors), errors
        assert session.get(Card, name="a") is None
        assert session.query(Card).allow_full_scan().all() == []


def _commit(bed: Bed, call: Callable[[hb.Session], object]) -> None:
    session = hb.Session(bed.store)
    call(session)
    session.commit()


def at_once(*calls: Callable[[], None]) -> list[BaseException]:
    """Runs calls in threads that start together; returns their errors."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], None]) -> None:
        barrier.wait()
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_updates_of_many_rows_beside_their_deletes(bed: Bed) -> None:
    """More rows than are checked one by one."""
    session = bed.use(Card)
    cards = [card(f"{n:03}") for n in range(150)]
    session.add_all(cards)
    session.commit()
    errors = at_once(
        lambda: _commit(bed, lambda s: [s.update(one, page="u") for one in cards]),
        lambda: _commit(bed, lambda s: [s.delete(one) for one in cards]),
    )
    assert all(isinstance(error, hb.PartialWrite | hb.RowNotFound) and not error.pending for error in errors)
    assert session.query(Card).allow_full_scan().all() == []


# --- None -------------------------------------------------------------------------------------------------------------


def test_an_update_to_nothing_but_none_leaves_the_row(bed: Bed) -> None:
    session = bed.use(Gap)
    session.add(Gap(name="a", page="x"))
    session.commit()
    session.update(Gap(name="a"), page=None)
    session.commit()
    assert session.get(Gap, name="a") == Gap(name="a")
    session.update(Gap(name="a"), page=None, note="n")
    session.commit()
    session.update(Gap(name="a"), note=None, page="y")
    session.commit()
    assert session.get(Gap, name="a") == Gap(name="a", page="y")


def test_a_row_whose_none_is_no_cell_is_old_or_new() -> None:
    """After any crash: by one atomic call, otherwise by empty cells before the delete."""
    for limited in (False, True):
        for at, mode in [(at, mode) for at in range(2) for mode in ("before", "after")]:
            with fresh(Gap) as store:
                session = hb.Session(store)
                session.add(Gap(name="a", page="old", note="old"))
                session.commit()
                let_tick_pass()
                failing = hb.Session(FaultyStore(store, at + 2, mode, crash=True, limited=limited))  # type: ignore[arg-type]
                failing.get(Gap, name="a")
                failing.add(Gap(name="a", page="new"))
                try:
                    failing.commit()
                except Crash:
                    pass
                finally:
                    failing.discard()
                assert session.get(Gap, name="a") in (Gap(name="a", page="old", note="old"), Gap(name="a", page="new"))


def test_a_none_that_is_no_cell_costs_one_call_where_rows_change_atomically() -> None:
    for limited, calls in ((False, ["mutate_row gaps"]), (True, ["put gaps", "delete gaps"])):
        with fresh(Gap) as inner:
            store = type(inner)(inner, limited=limited)
            session = hb.Session(store)
            session.get(Gap, name="a")
            store.calls.clear()
            session.add(Gap(name="a", page="new"))
            session.commit()
            assert [str(call) for call in store.of_rows] == calls
            assert cells_of(store, "gaps") == {b"a": {b"d:_": b"\x01", b"d:p": b"new"}}


# --- two models of a table --------------------------------------------------------------------------------------------


@hb.model(table="cards", family="d")
class Twin:
    """Another model of the cards, in the same family."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")


@hb.model(table="cards", family="d")
class Neighbour:
    """Another model, with one column in another family."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    more: hb.Column[str] = hb.column("m", family="x", default="")


def test_two_models_of_one_family_are_not_created_together() -> None:
    with hb.connect("memory:") as store:
        for call in (lambda: hb.create_tables(store, Card, Twin), lambda: hb.diff(store, Card, Neighbour)):
            with pytest.raises(hb.SchemaMismatch) as caught:
                call()
            assert (caught.value.table, caught.value.family) == ("cards", "d")


def test_two_models_of_one_family_are_not_written_in_one_commit(bed: Bed) -> None:
    session = bed.use(Card)
    session.add(card())
    with pytest.raises(
        hb.SessionError, match="Another model of the same table and column family has pending"
    ) as caught:
        session.add(Twin(name="a", page="y"))
    assert (caught.value.table, caught.value.family) == ("cards", "d")
    with pytest.raises(hb.SessionError):
        session.delete_key(Twin, name="a")
    session.commit()
    session.delete_key(Twin, name="a")
    session.commit()
    assert session.get(Card, name="a") is None
    session.add(card())
    session.discard()
    session.add(Twin(name="a", page="y"))
    session.commit()
