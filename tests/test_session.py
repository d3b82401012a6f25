"""What each call of a session does, on every store."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from beds import ATOMIC, KINDS, Bed, cells_of, open_bed, rows_of
from models import DAY, Fact, Flagged, Hit, Legacy, Logged, Order, Person, Sample, day, order

import hbmodel as hb
from hbmodel.schema import LIVE


@pytest.fixture(scope="module", params=KINDS)
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with open_bed(request, tmp_path_factory) as made:
        yield made


@pytest.fixture(scope="module", params=ATOMIC)
def atomic_bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with open_bed(request, tmp_path_factory) as made:
        yield made


def states(session: hb.Session, *numbers: int) -> list[str | None]:
    found = session.get_many(Order, [(1, day(n), n) for n in numbers])
    return [None if o is None else o.state for o in found]


def of_state(session: hb.Session, state: str) -> list[int]:
    """Numbers of the orders of a state, through the index, newest first."""
    query = session.query(Order).where(Order.state == state)
    assert query.explain().path == "by_state"
    return [o.number for o in query]


# --- add --------------------------------------------------------------------------------------------------------------


def test_what_is_added_comes_back_whole(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    first = order(1, amount=12, note="it's 100% \0 ÿ 🦄 שלום")
    sample = Sample(station="", label="", level=-5, remark="")
    session.add(first)
    session.add(sample)
    outcomes = session.commit()
    assert [outcome.action for outcome in outcomes] == ["put", "put"]
    assert outcomes[0].key == hb.row_key(Order, customer=1, at=day(1), number=1)
    assert outcomes[0].timestamp is not None
    assert outcomes[1].timestamp is None
    assert session.get(Order, customer=1, at=day(1), number=1) == first
    assert session.get(Sample, station="", label="") == sample


def test_add_overwrites_every_column(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    session.add_all([order(1, amount=3, note="old"), Sample(station="s", label="l", level=1, remark="old")])
    session.commit()
    session.add_all([order(1, "paid"), Sample(station="s", label="l", level=2)])
    session.commit()
    assert session.get(Order, customer=1, at=day(1), number=1) == order(1, "paid")
    assert session.get(Sample, station="s", label="l") == Sample(station="s", label="l", level=2)
    assert of_state(session, "new") == []
    assert of_state(session, "paid") == [1]
    assert session.query(Order).where(Order.amount == Decimal(3)).all() == []


def test_reads_never_see_what_is_pending(bed: Bed) -> None:
    session = bed.use(Order)
    session.add(order(1))
    assert states(session, 1) == [None]
    assert of_state(session, "new") == []
    session.commit()
    session.update(order(1), state="paid")
    session.delete(order(1))
    assert states(session, 1) == ["new"]
    assert of_state(session, "new") == [1]
    session.discard()
    assert session.commit() == []
    assert states(session, 1) == ["new"]


def test_models_of_several_tables_go_into_one_commit(bed: Bed) -> None:
    session = bed.use(Order, Sample, Hit)
    hit = Hit(at=DAY, serial=1, page="/")
    session.add_all([order(1), Sample(station="s", label="l", level=1), hit, order(2)])
    assert [outcome.action for outcome in session.commit()] == ["put"] * 4
    assert states(session, 1, 2) == ["new", "new"]
    assert session.get(Hit, at=DAY, serial=1) == hit
    assert session.query(Hit).where(Hit.page == "/").all() == [hit]


def test_writes_of_one_row_run_in_their_order(bed: Bed) -> None:
    session = bed.use(Order)
    session.add(order(1, "a", note="gone"))
    session.update(order(1), state="b")
    session.delete(order(1))
    session.add(order(1, "c"))
    session.update(order(1), note="kept")
    session.add(order(2, "x"))
    session.delete(order(2))
    session.update(order(1), state="d")
    assert [outcome.action for outcome in session.commit()] == ["put", "put", "deleted", "put", "put", "put", "deleted", "put"]
    assert session.get(Order, customer=1, at=day(1), number=1) == order(1, "d", note="kept")
    assert states(session, 2) == [None]
    assert [of_state(session, state) for state in "abcdx"] == [[], [], [], [1], []]


def test_unindexed_writes_of_one_row_run_in_their_order(bed: Bed) -> None:
    session = bed.use(Sample)
    session.add(Sample(station="s", label="l", level=1, remark="gone"))
    session.delete_key(Sample, station="s", label="l")
    session.add(Sample(station="s", label="l", level=2))
    session.update(Sample(station="s", label="l", level=0), level=3)
    session.commit()
    assert session.get(Sample, station="s", label="l") == Sample(station="s", label="l", level=3)
    session.delete_key(Sample, station="s", label="l")
    session.commit()
    assert session.get(Sample, station="s", label="l") is None


def test_the_last_of_several_adds_of_a_key_wins_and_the_others_say_so(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all([order(1, "a"), order(2, "a"), order(1, "b"), order(1, "c")])
    bed.store.told()
    assert [outcome.action for outcome in session.commit()] == ["superseded", "put", "superseded", "put"]
    assert sum(len(call.items) for call in bed.store.calls if call.name == "put" and call.table == "orders") == 2
    assert (of_state(session, "a"), of_state(session, "b"), of_state(session, "c")) == ([2], [], [1])


def test_a_key_twice_under_a_random_salt_is_one_row(bed: Bed) -> None:
    session = bed.use(Hit, Logged)
    for serial in range(8):
        session.add_all([Hit(at=DAY, serial=serial, page=page) for page in ("a", "b", "c")])
        session.add_all([Logged(serial=serial, page=page) for page in ("a", "b", "c")])
    session.commit()
    assert (len(rows_of(bed.store, "hits")), len(rows_of(bed.store, "logged"))) == (8, 8)
    assert session.query(Hit).where(Hit.page == "c").count() == 8
    assert {found.page for found in session.query(Logged).allow_full_scan()} == {"c"}


def test_no_system_cells_without_indexes(bed: Bed) -> None:
    session = bed.use(Sample, Order)
    session.add_all([Sample(station="s", label="l", level=1, remark="r"), order(1, note="n", amount=1)])
    session.commit()
    assert [sorted(cells) for cells in cells_of(bed.store, "samples").values()] == [[b"d:l", b"d:r"]]
    (row,) = cells_of(bed.store, "orders").values()
    assert sorted(row) == [b"d:_l", b"d:_v", b"d:a", b"d:n", b"d:s", b"d:v"]
    assert row[b"d:_l"] == LIVE
    assert row[b"d:v"] == bytes(8)


# --- get --------------------------------------------------------------------------------------------------------------


def test_get_many_keeps_order_duplicates_and_gaps_in_one_call(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all(order(n) for n in range(1, 6))
    session.commit()
    bed.store.told()
    keys: list[Any] = [
        (1, day(5), 5), (1, day(9), 9), {"number": 2, "at": day(2), "customer": 1}, (1, day(5), 5), [1, day(1), 1], (2, day(1), 1),
    ]  # fmt: skip
    found = session.get_many(Order, iter(keys))
    assert [None if o is None else o.number for o in found] == [5, None, 2, 5, 1, None]
    assert bed.store.told() == ["get orders"]
    assert session.get_many(Order, []) == []
    assert bed.store.told() == []


def test_a_row_without_its_flag_or_with_other_cells_only(bed: Bed) -> None:
    session = bed.use(Flagged)
    session.add(Flagged(name="a"))
    session.commit()
    assert session.get(Flagged, name="a") == Flagged(name="a", text="", extra=None)
    bed.store.put("flagged", [hb.store.Put(b"b", {b"d:t": b"text"})])
    assert session.get(Flagged, name="b") is None
    assert session.query(Flagged).allow_full_scan().all() == [Flagged(name="a")]
    assert session.query(Flagged).allow_full_scan().count() == 1


# --- update -----------------------------------------------------------------------------------------------------------


def test_update_changes_just_its_fields_and_returns_a_changed_copy(bed: Bed) -> None:
    session = bed.use(Order)
    before = order(1, amount=1, note="n")
    session.add(before)
    session.commit()
    after = session.update(before, state="paid", amount=None)
    assert (before.state, before.amount) == ("new", 1)
    assert after == order(1, "paid", note="n")
    assert type(after) is Order
    session.commit()
    assert session.get(Order, customer=1, at=day(1), number=1) == after
    assert of_state(session, "paid") == [1]
    assert [o.number for o in session.query(Order).where(Order.amount.is_(None))] == [1]
    assert session.query(Order).where(Order.amount == Decimal(1)).all() == []


def test_frozen_models_can_be_updated(bed: Bed) -> None:
    session = bed.use(Sample)
    sample = Sample(station="s", label="l", level=1)
    session.add(sample)
    session.commit()
    changed = session.update(sample, level=2)
    assert (sample.level, changed.level) == (1, 2)
    assert hash(changed) == hash(Sample(station="s", label="l", level=2))
    session.commit()
    assert session.get(Sample, station="s", label="l") == changed


def test_a_stale_object_undoes_nothing_that_another_session_wrote(bed: Bed) -> None:
    session = bed.use(Person, Sample)
    stale = Person(name="ann", city="Oslo", street="A", story="long")
    sample = Sample(station="s", label="l", level=1, remark="r")
    session.add_all([stale, sample])
    session.commit()
    with hb.Session(bed.store) as other:
        other.update(stale, street="B", story="longer")
        other.update(sample, remark="changed")
    session.update(stale, city="Rome")
    session.update(sample, level=2)
    session.commit()
    now = Person(name="ann", city="Rome", street="B", story="longer")
    assert session.get(Person, name="ann") == now
    assert session.get(Sample, station="s", label="l") == Sample(station="s", label="l", level=2, remark="changed")
    assert session.query(Person).where(Person.city == "Rome", Person.street == "B").all() == [now]
    for city, street in (("Oslo", "A"), ("Oslo", "B"), ("Rome", "A")):
        assert session.query(Person).where(Person.city == city, Person.street == street).all() == []


def test_a_stale_delete_takes_only_the_key(bed: Bed) -> None:
    session = bed.use(Order)
    stale = order(1)
    session.add(stale)
    session.commit()
    with hb.Session(bed.store) as other:
        other.update(stale, state="paid", amount=Decimal(2))
    session.delete(stale)
    session.commit()
    assert states(session, 1) == [None]
    assert rows_of(bed.store, "orders.by_state") == rows_of(bed.store, "orders.by_amount") == {}


@pytest.mark.parametrize("changes", [{"state": "paid"}, {"note": "n"}, {"state": "paid", "note": "n"}], ids=["indexed", "other", "both"])
def test_an_update_of_an_absent_or_deleted_row_brings_nothing_back(bed: Bed, changes: dict[str, Any]) -> None:
    session = bed.use(Order)
    session.update(order(1), **changes)
    with pytest.raises(hb.RowNotFound) as caught:
        session.commit()
    assert caught.value.key == hb.row_key(Order, customer=1, at=day(1), number=1)
    session.add(order(1))
    session.commit()
    session.delete(order(1))
    session.commit()
    session.update(order(1), **changes)
    with pytest.raises(hb.RowNotFound):
        session.commit()
    assert session.commit() == []
    assert states(session, 1) == [None]
    assert session.query(Order).allow_full_scan().all() == []
    assert of_state(session, "paid") == of_state(session, "new") == []


def test_an_unindexed_update_of_an_absent_row(bed: Bed) -> None:
    session = bed.use(Sample, Flagged)
    session.update(Sample(station="s", label="l", level=1), remark="r")
    session.update(Flagged(name="a"), text="t")
    session.add(Sample(station="t", label="l", level=1))
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    assert [type(outcome.error) for outcome in caught.value.failures] == [hb.RowNotFound, hb.RowNotFound]
    assert [outcome.action for outcome in caught.value.applied] == ["put"]
    assert caught.value.pending == []
    assert session.get(Sample, station="t", label="l") is not None
    assert len(rows_of(bed.store, "samples")) == 1
    assert rows_of(bed.store, "flagged") == {}
    assert session.commit() == []


def test_an_update_of_a_field_with_a_default_over_a_row_without_the_cell(bed: Bed) -> None:
    session = bed.use(Flagged)
    session.add(Flagged(name="a"))
    session.commit()
    session.update(Flagged(name="a"), extra=b"\0")
    session.commit()
    assert session.get(Flagged, name="a") == Flagged(name="a", extra=b"\0")


def test_none_deletes_the_cell_where_the_model_says_so(bed: Bed) -> None:
    session = bed.use(Legacy)
    legacy = Legacy(code="x", when=5, title="t", tag="tag")
    session.add(legacy)
    session.commit()
    assert [sorted(cells) for cells in cells_of(bed.store, "legacy").values()] == [[b"f:tag", b"f:title"]]
    session.update(legacy, tag=None)
    session.commit()
    assert [sorted(cells) for cells in cells_of(bed.store, "legacy").values()] == [[b"f:title"]]
    assert session.get(Legacy, code="x", when=5) == Legacy(code="x", when=5, title="t")
    session.add(legacy)
    session.commit()
    session.add(Legacy(code="x", when=5, title="u"))
    session.commit()
    assert session.get(Legacy, code="x", when=5) == Legacy(code="x", when=5, title="u")


# --- delete -----------------------------------------------------------------------------------------------------------


def test_delete_removes_row_and_entries_and_tells_what_was_absent(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all([order(1), order(2, amount=1)])
    session.commit()
    session.delete(order(1))
    session.delete_key(Order, customer=1, at=day(2), number=2)
    session.delete(order(3))
    outcomes = session.commit()
    assert [outcome.action for outcome in outcomes] == ["deleted", "deleted", "absent"]
    assert states(session, 1, 2, 3) == [None] * 3
    assert session.query(Order).allow_full_scan().count() == 0
    assert rows_of(bed.store, "orders.by_state") == rows_of(bed.store, "orders.by_amount") == {}


def test_a_row_deleted_and_added_again_has_nothing_of_the_old_one(bed: Bed) -> None:
    session = bed.use(Person, Sample)
    session.add_all([Person(name="ann", city="Oslo", street="A", story="long"), Sample(station="s", label="l", level=1, remark="r")])
    session.commit()
    assert session.increment(Person(name="ann"), Person.visits, 7) == 7
    assert session.increment(Sample(station="s", label="l", level=1), Sample.seen, 7) == 7
    session.delete_key(Person, name="ann")
    session.delete_key(Sample, station="s", label="l")
    session.commit()
    session.add_all([Person(name="ann"), Sample(station="s", label="l", level=2)])
    session.commit()
    assert session.get(Person, name="ann") == Person(name="ann")
    assert session.get(Sample, station="s", label="l") == Sample(station="s", label="l", level=2)
    assert session.query(Person).where(Person.city == "Oslo").all() == []
    assert session.query(Person).where(Person.city.is_(None)).all() == [Person(name="ann")]


def test_delete_under_a_random_salt_empties_every_bucket_and_the_index(bed: Bed) -> None:
    session = bed.use(Hit, Logged)
    for _ in range(6):  # a repeated load leaves copies in several buckets
        with hb.Session(bed.store) as other:
            other.add_all([Hit(at=DAY, serial=1, page="/"), Logged(serial=1, page="/")])
    assert len(rows_of(bed.store, "hits")) > 1
    session.delete_key(Hit, at=DAY, serial=1)
    session.delete(Logged(serial=1, page=""))
    session.delete_key(Hit, at=DAY, serial=2)
    assert [outcome.action for outcome in session.commit()] == ["deleted", "deleted", "absent"]
    assert session.get(Hit, at=DAY, serial=1) is None
    assert session.get(Logged, serial=1) is None
    assert rows_of(bed.store, "hits.by_page") == rows_of(bed.store, "logged") == {}
    assert session.query(Hit).allow_full_scan().all() == []


def test_delete_spares_what_the_model_of_a_foreign_table_does_not_map(bed: Bed) -> None:
    session = bed.use(Legacy)
    session.add(Legacy(code="x", when=5, title="t", tag="g"))
    session.commit()
    (row,) = rows_of(bed.store, "legacy")
    bed.store.put("legacy", [hb.store.Put(row, {b"f:other": b"theirs"})])
    session.delete_key(Legacy, code="x", when=5)
    session.commit()
    assert cells_of(bed.store, "legacy") == {row: {b"f:other": b"theirs"}}
    assert session.get(Legacy, code="x", when=5) is None


# --- insert -----------------------------------------------------------------------------------------------------------


def test_insert_takes_a_free_key_once(bed: Bed) -> None:
    session = bed.use(Order, Sample, Flagged, Fact)
    objects = [order(1, amount=1), Sample(station="s", label="l", level=1), Flagged(name="a"), Fact(number=1, topic="t")]
    if not bed.atomic:
        for obj in objects:
            with pytest.raises(hb.CapabilityError, match="check-and-mutate"):
                session.insert(obj)
            assert rows_of(bed.store, hb.schema_of(type(obj)).table) == {}
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
    @hb.model(table="loose")
    class Loose:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column()

    session = atomic_bed.use(Loose, Logged, Hit)
    with pytest.raises(hb.CapabilityError, match=r"exists=hb\.flag"):
        session.insert(Loose(name="a", text="b"))
    with pytest.raises(hb.CapabilityError, match="RandomSalt"):
        session.insert(Logged(serial=1, page="/"))
    with pytest.raises(hb.CapabilityError, match="RandomSalt"):
        session.insert(Hit(at=DAY, serial=1, page="/"))
    assert rows_of(atomic_bed.store, "loose") == rows_of(atomic_bed.store, "hits.by_page") == {}


def _try_to_insert(store: hb.Store, who: str, won: Any, start: Any) -> None:
    start.wait()
    session = hb.Session(store)
    for number in range(10):
        try:
            session.insert(order(number, who))
        except hb.RowExists:
            continue
        won.append((number, who))


def test_of_racing_threads_exactly_one_inserts(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Order)
    won: list[tuple[int, str]] = []
    start = threading.Barrier(8)
    racers = [threading.Thread(target=_try_to_insert, args=(atomic_bed.store, f"racer {n}", won, start)) for n in range(8)]
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
    @hb.model(table="tallies")
    class Tally:
        name: hb.Key[str] = hb.key()
        count: hb.Column[int] = hb.counter("c")

    session = bed.use(Tally)
    assert session.increment(Tally(name="a"), Tally.count, 3) == 3
    found = session.get(Tally, name="a")
    assert found is not None
    assert found.count == 3


# --- the life of a session --------------------------------------------------------------------------------------------


def test_a_clean_exit_commits_and_an_exception_discards(bed: Bed) -> None:
    session = bed.use(Order)
    with hb.Session(bed.store) as writing:
        writing.add(order(1))
    assert writing.closed
    assert states(session, 1) == ["new"]
    abandoned = hb.Session(bed.store)
    with pytest.raises(KeyError), abandoned:
        _add_and_fail(abandoned)
    assert abandoned.closed
    assert states(session, 2) == [None]


def _add_and_fail(session: hb.Session) -> None:
    session.add(order(2))
    raise KeyError


def test_a_session_closed_inside_its_block_commits_nothing(bed: Bed) -> None:
    session = bed.use(Order)
    with hb.Session(bed.store) as writing:
        writing.add(order(1))
        writing.close()
        writing.close()
    assert states(session, 1) == [None]


def test_a_failed_commit_leaves_the_session_open(bed: Bed) -> None:
    session = bed.use(Order)
    with pytest.raises(hb.RowNotFound), hb.Session(bed.store) as writing:
        writing.update(order(1), state="paid")
    assert not writing.closed
    writing.add(order(1))
    writing.commit()
    writing.close()
    assert states(session, 1) == ["new"]


def test_discard_drops_everything_pending(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all([order(1), order(2)])
    session.delete(order(3))
    session.discard()
    bed.store.told()
    assert session.commit() == []
    assert bed.store.told() == []


# --- round trips ------------------------------------------------------------------------------------------------------


def test_adds_of_indexed_objects_cost_one_call_per_table_and_phase(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all(order(n, amount=n) for n in range(50))
    session.commit()
    entries = ["put orders.by_state", "put orders.by_amount"]
    assert bed.store.told() == ["get hbmodel", "get orders", "put hbmodel", "get hbmodel", *entries, "put orders"]
    # The registry and the clock are asked once per session.
    session.add_all(order(n, "paid", amount=n) for n in range(50))
    session.commit()
    assert bed.store.told() == ["get orders", *entries, "put orders", "delete orders.by_state"]


def test_updates_write_indexes_only_when_they_must(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all(order(n) for n in range(3))
    session.commit()
    bed.store.told()
    for n in range(3):
        session.update(order(n), note="n")
    session.commit()
    assert bed.store.told() == ["get orders", "put orders"]
    for n in range(3):
        session.update(order(n), state="paid")
    session.commit()
    assert bed.store.told() == [
        "get orders", "put orders.by_state", "put orders.by_amount", "put orders", "delete orders.by_state",
    ]  # fmt: skip


def test_deletes_cost_one_call_more_where_rows_cannot_be_changed_atomically(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all(order(n) for n in range(4))
    session.commit()
    bed.store.told()
    session.delete(order(0))
    session.commit()
    row = ["mutate_row orders"] if bed.atomic else ["put orders", "delete orders"]
    entries = ["delete orders.by_state", "delete orders.by_amount"]
    assert bed.store.told() == ["get orders", *row, *entries]
    for n in (1, 2, 3):
        session.delete(order(n))
    session.commit()
    assert bed.store.told() == ["get orders", "put orders", "delete orders", *entries]


def test_immutable_models_read_nothing_before_they_put(bed: Bed) -> None:
    session = bed.use(Fact, Hit)
    session.add_all(Fact(number=n, topic="t") for n in range(20))
    session.commit()
    assert bed.store.told() == ["get hbmodel", "put hbmodel", "get hbmodel", "put facts.by_topic", "put facts"]
    session.add_all(Hit(at=DAY, serial=n, page="/") for n in range(20))
    session.commit()
    assert bed.store.told() == ["get hbmodel", "put hits.by_page", "put hits"]


def test_unindexed_models_cost_one_put(bed: Bed) -> None:
    session = bed.use(Sample)
    session.add_all(Sample(station="s", label=str(n), level=n) for n in range(20))
    session.commit()
    assert bed.store.told() == ["get hbmodel", "put samples"]
    session.update(Sample(station="s", label="1", level=0), level=2)
    session.delete_key(Sample, station="s", label="2")
    session.commit()
    assert bed.store.told() == ["get samples", "put samples", "delete samples"]


def test_calls_that_run_at_once_cost_what_they_must(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    session.add_all([order(1), Sample(station="s", label="l", level=1)])
    session.commit()
    bed.store.told()
    session.increment(order(1), Order.views)
    assert bed.store.told() == ["get orders", "increment orders"]
    if bed.atomic:
        session.insert(order(2))
        assert bed.store.told() == ["get orders", "put orders.by_state", "put orders.by_amount", "check_and_mutate orders"]
        session.insert(Sample(station="s", label="m", level=1))
        assert bed.store.told() == ["check_and_mutate samples"]


# --- several rounds ---------------------------------------------------------------------------------------------------


def test_a_commit_larger_than_a_round_keeps_the_order_of_each_row(atomic_bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbmodel.writing.ROUND_ROWS", 3)
    session = atomic_bed.use(Order)
    for n in range(10):
        session.add(order(n, "a"))
    for n in range(10):
        session.update(order(n), state="b")
    for n in range(0, 10, 2):
        session.delete(order(n))
    assert [outcome.action for outcome in session.commit()] == ["put"] * 20 + ["deleted"] * 5
    assert states(session, *range(10)) == [None, "b"] * 5
    assert of_state(session, "a") == []
    assert of_state(session, "b") == [9, 7, 5, 3, 1]
    assert all(len(call.items) <= 3 for call in atomic_bed.store.calls if call.writes and call.table.startswith("orders"))
