"""When a session looks at the registry again, and how tables come to be registered."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.schema import schema_of
from hbmodel.protocol.corrected_clock import GRACE, SharedOffset, wall_time
from hbmodel.store import Put, Row
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.registry.layout_differences import canonical_json
from hbmodel.tables.registry.registration import ABSENT, LEASE, READABLE
from hbmodel.tables.registry.registry_rows import LAYOUT, ROWS, registry_row
from hbmodel.tables.roll.binding_cache import BindingCache
from tests.support.beds import Bed, cells_of, fresh, rows_of, set_state
from tests.support.faulty import MODES, Crash, FaultyStore, RecordingStore
from tests.support.lease_clock import LeaseClock
from tests.support.models import Order, Person, Sample, day, order
from tests.support.pauses import OPTIONS, TIMES, Pause
from tests.support.scenarios import check_exact, check_queries
from tests.tables.test_indexes import declare

# --- leases -----------------------------------------------------------------------------------------------------------


def test_the_registry_is_read_again_once_the_lease_is_over(lease_clock: LeaseClock) -> None:
    with fresh(Order) as store:
        session = lease_clock.session(store)
        query = session.query(Order).where(Order.state == "new")
        for seconds, reads in ((0, 1), (59, 0), (2, 1), (59, 0), (1, 1)):
            lease_clock.move(seconds)
            query.all()
            session.get(Order, customer=1, at=day(1), number=1)
            assert store.told().count("get hbmodel") == reads
        session = lease_clock.session(store, lease=5)
        session.get(Order, customer=1, at=day(1), number=1)
        lease_clock.move(5)
        session.get(Order, customer=1, at=day(1), number=1)
        assert store.told().count("get hbmodel") == 2


def test_a_change_of_layout_is_noticed_after_the_lease(lease_clock: LeaseClock) -> None:
    with fresh(Sample, gated=False) as store:
        session = lease_clock.session(store)
        session.add(Sample(station="s", label="l", level=1))
        session.commit()
        row = registry_row(schema_of(Sample))
        layout = json.loads(cells_of(store, "hbmodel")[row][LAYOUT])
        layout["columns"]["d:l"]["codec"] = "another"
        store.put("hbmodel", [Put(row, {LAYOUT: canonical_json(layout)})])
        session.add(Sample(station="s", label="m", level=1))
        session.commit()
        lease_clock.move(61)
        session.add(Sample(station="s", label="n", level=1))
        for call in (
            session.commit,
            lambda: session.get(Sample, station="s", label="l"),
            session.query(Sample).allow_full_scan().all,
        ):
            with pytest.raises(hb.SchemaMismatch, match="does not have the layout"):
                call()
        assert len(rows_of(store, "samples")) == 2


def test_an_index_that_comes_alive_is_kept_after_the_lease(lease_clock: LeaseClock) -> None:
    with fresh(Order) as store:
        set_state(store, Order, "by_amount", ABSENT)
        session = lease_clock.session(store)
        session.add(order(1, amount=1))
        session.commit()
        assert (len(rows_of(store, "orders.by_state")), rows_of(store, "orders.by_amount")) == (1, {})
        set_state(store, Order, "by_amount", "write-only")
        lease_clock.move(61)
        session.add(order(2, amount=1))
        session.commit()
        assert (len(rows_of(store, "orders.by_state")), len(rows_of(store, "orders.by_amount"))) == (2, 1)


class Changing(RecordingStore):
    """A store in which an index comes alive, and the lease runs out, once the first orders are put."""

    def __init__(self, store: hb.Store, change: Callable[[], None]) -> None:
        super().__init__(store)
        self.change = change

    def put(self, table: str, puts: Any) -> None:
        super().put(table, puts)
        self._now(table)

    def check_and_mutate(self, table: str, *arguments: Any) -> bool:
        applied = super().check_and_mutate(table, *arguments)
        self._now(table)
        return applied

    def _now(self, table: str) -> None:
        if table == "orders":
            change, self.change = self.change, lambda: None
            change()


@pytest.mark.parametrize("how", ["commit", "load", "insert"])
def test_an_index_that_comes_alive_during_a_write_is_kept_before_it_is_acknowledged(
    how: str, lease_clock: LeaseClock
) -> None:
    with fresh(Order) as inner:
        set_state(inner, Order, "by_amount", ABSENT)

        def change() -> None:
            set_state(inner, Order, "by_amount", "write-only")
            lease_clock.move(61)

        store = Changing(inner, change)
        session = lease_clock.session(store)
        if how == "insert":
            session.insert(order(1, amount=1))
        elif how == "load":
            session.bulk_add([order(1, amount=1)])
        else:
            session.add(order(1, amount=1))
            assert [outcome.action for outcome in session.commit()] == ["put"]
        set_state(inner, Order, "by_amount", READABLE)
        check_exact(inner, Order)
        check_queries(inner, Order)


def _stopped(at: int | None, lease_clock: LeaseClock, inner: hb.Store) -> tuple[hb.Session, FaultyStore]:
    """A session whose commit of an order stops at a call, whose answer is lost."""
    store = FaultyStore(inner, at, "after")
    session = lease_clock.session(store)
    session.add(order(1, amount=2))
    return session, store


@pytest.mark.parametrize("resend", [False, True])
def test_a_write_in_doubt_is_not_made_anew_by_other_indexes(lease_clock: LeaseClock, resend: bool) -> None:
    """Another program deletes the row, and an index becomes live, before the commit continues. If the write were
    planned again, it would get a time after the delete.
    """
    with fresh(Order) as inner:
        session, store = _stopped(None, lease_clock, inner)
        session.commit()
        writes = [at for at, call in enumerate(store.calls) if call.writes and call.table.startswith("orders")]
    doubted = 0
    for at in writes:
        with fresh(Order) as inner:
            set_state(inner, Order, "by_amount", ABSENT)
            lease_clock.session(inner).commit()
            session, store = _stopped(at, lease_clock, inner)
            try:
                session.commit()
            except hb.PartialWrite:
                pass
            else:
                continue  # stopped after the acknowledgement
            other = lease_clock.session(inner)
            other.delete(order(1))
            other.commit()
            set_state(inner, Order, "by_amount", "write-only")
            lease_clock.move(61)
            for _ in range(2):
                with pytest.raises(hb.PartialWrite, match=r"or commit\(resend=True\) to write all of them"):
                    session.commit()
                assert lease_clock.session(inner).get(Order, customer=1, at=order(1).at, number=1) is None
            doubted += 1
            if resend:
                assert [outcome.action for outcome in session.commit(resend=True)] == ["put"]
            else:
                session.discard()
            assert session.commit() == []
            session.add(order(2, amount=3))
            assert [outcome.action for outcome in session.commit()] == ["put"]
            set_state(inner, Order, "by_amount", READABLE)
            assert len(lease_clock.session(inner).query(Order).allow_full_scan().all()) == 1 + resend
            check_queries(inner, Order)
            if resend:  # otherwise entries of the first order may be left
                check_exact(inner, Order)
    assert doubted


@hb.model(table="leased_rows", family="d")
class LeasedRow:
    """Objects that share rows."""

    room: hb.Key[str] = hb.key()
    seat: hb.Key[int] = hb.key(in_qualifier=True)
    guest: hb.Column[str] = hb.column("g")

    by_guest = hb.index("guest")
    by_guest_down = hb.index(hb.desc("guest"))


def test_objects_of_one_row_that_are_in_doubt_are_not_made_anew_by_other_indexes(lease_clock: LeaseClock) -> None:
    with fresh(LeasedRow) as inner:
        set_state(inner, LeasedRow, "by_guest_down", ABSENT)
        store = FaultyStore(inner)
        session = lease_clock.session(store)
        session.add(LeasedRow(room="a", seat=1, guest="ann"))
        session.commit()
        store.at, store.mode = len(store.calls) + 2, "after"  # what was read is known, and the entries are put first
        session.add_all([LeasedRow(room="b", seat=1, guest="ann"), LeasedRow(room="b", seat=2, guest="bob")])
        with pytest.raises(hb.PartialWrite):
            session.commit()
        assert (store.calls[-1].name, store.calls[-1].table) == ("put", "leased_rows")
        other = lease_clock.session(inner)
        other.delete(LeasedRow(room="b", seat=1, guest="ann"))
        other.commit()
        set_state(inner, LeasedRow, "by_guest_down", "write-only")
        lease_clock.move(61)
        with pytest.raises(hb.PartialWrite, match=r"or commit\(resend=True\) to write all of them"):
            session.commit()
        assert [one.seat for one in lease_clock.session(inner).query(LeasedRow).where(LeasedRow.room == "b")] == [2]
        assert [outcome.action for outcome in session.commit(resend=True)] == ["put", "put"]
        set_state(inner, LeasedRow, "by_guest_down", READABLE)
        assert hb.indexes.verify_index(inner, LeasedRow, "by_guest").missing == 0
        guests = lease_clock.session(inner).query(LeasedRow).use_index("by_guest_down").where(LeasedRow.guest > "")
        assert [one.guest for one in guests if one.room == "b"] == ["bob", "ann"]


def test_a_write_that_is_known_to_have_landed_goes_on_with_other_indexes(lease_clock: LeaseClock) -> None:
    """The row is put, and the lease runs out; the entries that it then lacks are put by the next commit."""
    with fresh(Order) as inner:
        set_state(inner, Order, "by_amount", ABSENT)

        def change() -> None:
            set_state(inner, Order, "by_amount", "write-only")
            lease_clock.move(61)
            faulty.at, faulty.mode = len(faulty.calls), "before"

        faulty = FaultyStore(inner)
        session = lease_clock.session(Changing(faulty, change))
        session.add(order(1, amount=2))
        with pytest.raises(hb.PartialWrite):
            session.commit()
        assert [outcome.action for outcome in session.commit()] == ["put"]
        set_state(inner, Order, "by_amount", READABLE)
        check_exact(inner, Order)


@hb.model(table="leased", family="d")
class Leased:
    """Versioned, with two indexes."""

    name: hb.Key[str] = hb.key()
    topic: hb.Column[str] = hb.column("t")
    version: hb.Column[int] = hb.version()

    by_topic = hb.index("topic")
    by_topic_down = hb.index(hb.desc("topic"))


@pytest.mark.parametrize("before", ["put leased.by_topic", "check_and_mutate_many leased"])
def test_a_versioned_write_that_an_index_overtakes_is_made_by_the_indexes_of_then(
    before: str, lease_clock: LeaseClock
) -> None:
    """The lease runs out right before or after the entries are put: the change of the row was not sent, so its outcome
    is known.
    """
    with fresh(Leased) as inner:
        session = lease_clock.session(inner)
        session.add(Leased(name="a", topic="x"))
        session.commit()
        set_state(inner, Leased, "by_topic_down", ABSENT)
        session = lease_clock.session(
            Overtaken(
                inner, before, lambda: (set_state(inner, Leased, "by_topic_down", READABLE), lease_clock.move(61))
            )
        )
        session.update(Leased(name="a", topic=""), topic="y")
        assert [outcome.action for outcome in session.commit()] == ["put"]
        assert hb.indexes.verify_index(inner, Leased, "by_topic_down").missing == 0


class Overtaken(RecordingStore):
    """A store in which something happens before a call, once."""

    def __init__(self, store: hb.Store, before: str, change: Callable[[], object]) -> None:
        super().__init__(store)
        self.before, self.change = before, change

    def get(self, table: str, *arguments: Any) -> Any:
        found = super().get(table, *arguments)
        if self.before.startswith("put") and table == "leased":
            self._now()
        return found

    def put(self, table: str, puts: Any) -> None:
        super().put(table, puts)
        if self.before.startswith("check") and table == "leased.by_topic":
            self._now()

    def _now(self) -> None:
        change, self.change = self.change, lambda: None
        change()


def test_indexes_that_change_without_end_stop_a_commit(lease_clock: LeaseClock) -> None:
    with fresh(Order) as inner:
        states = itertools.cycle([ABSENT, "write-only"])

        class Changing(RecordingStore):
            def put(self, table: str, puts: Any) -> None:
                super().put(table, puts)
                self.landed |= table == "orders"
                if self.landed:
                    set_state(inner, Order, "by_amount", next(states))
                    lease_clock.move(61)

            landed = False

        session = lease_clock.session(Changing(inner))
        session.add(order(1, amount=1))
        with pytest.raises(hb.PartialWrite) as caught:
            session.commit()
        assert isinstance(caught.value.__cause__, hb.SchemaMismatch)
        assert "The indexes of the table changed during a commit; commit again." in str(caught.value)
        assert len(caught.value.pending) == 1
        assert session.get(Order, customer=1, at=day(1), number=1) == order(1, amount=1)


class Restless(RecordingStore):
    """A store in which an index is in another state at each look at the registry."""

    def __init__(self, store: hb.Store, model: type[Any], index: str) -> None:
        super().__init__(store)
        self.model, self.index, self.states = model, index, itertools.cycle([ABSENT, "write-only"])

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        if registry_row(schema_of(self.model)) in rows:
            set_state(self.inner, self.model, self.index, next(self.states))
        return super().get(table, rows, columns)


def test_indexes_that_change_without_end_stop_calls_that_run_at_once() -> None:
    with fresh(Order, Leased, gated=False) as inner:
        with hb.Session(inner) as session:
            session.add(order(1))
        session = hb.Session(Restless(inner, Order, "by_amount"), lease=0)
        with pytest.raises(hb.SchemaMismatch, match="The indexes of the table keep changing: insert again"):
            session.insert(order(2))
        with pytest.raises(hb.SchemaMismatch, match=r"The indexes of the table keep changing: call rekey\(\) again"):
            session.rekey(order(1), number=2)
        assert hb.Session(inner).query(Order).allow_full_scan().all() == [order(1)]
        session = hb.Session(Restless(inner, Leased, "by_topic_down"), lease=0)
        with pytest.raises(hb.SchemaMismatch, match="The indexes of the table keep changing: insert again"):
            session.insert(Leased(name="a", topic="x"))
        assert hb.Session(inner).get(Leased, name="a") is None


def notes(versioned: bool, nullable: bool) -> Any:
    """A model of one table, with or without a version. Its text may be None or not."""
    text: Any = str | None if nullable else str
    own: dict[str, Any] = {
        "__annotations__": {"number": hb.Key[int], "text": hb.Column[text], "state": hb.Column[str]},
        "number": hb.key(),
        "text": hb.column("t", default=None) if nullable else hb.column("t"),
        "state": hb.column("s"),
    }
    if versioned:
        own["__annotations__"]["version"] = hb.Column[int]
        own["version"] = hb.version()
    return hb.model(table="notes_of_leases", family="d")(type("Note", (), own))


@pytest.mark.parametrize("versioned", [False, True])
def test_calls_that_run_at_once_say_that_their_model_can_no_longer_be_used(versioned: bool) -> None:
    """None was allowed in a column, and a program with the earlier model has not read the registry since."""
    earlier, later = (notes(versioned, nullable) for nullable in (False, True))
    with EmbeddedStore(None) as store:
        hb.create_tables(store, earlier)
        session = hb.Session(RecordingStore(store))
        session.add(earlier(number=1, text="x", state="new"))
        session.commit()
        first = session.get(earlier, number=1)
        hb.alter(store, later, times=TIMES)
        with pytest.raises(hb.SchemaMismatch, match="restore the declaration that `live` shows"):
            session.insert(earlier(number=2, text="x", state="new"))
        with pytest.raises((hb.SchemaMismatch, hb.PartialWrite), match="restore the declaration that `live` shows"):
            session.rekey(first, number=2)
        assert [one.number for one in hb.Session(store).query(later).allow_full_scan()] == [1]


@pytest.mark.parametrize("model", [Order, Leased])
def test_indexes_that_change_without_end_once_a_row_is_put_stop_an_insert(model: Any) -> None:
    index = "by_amount" if model is Order else "by_topic_down"
    obj = order(1) if model is Order else Leased(name="a", topic="x")
    with fresh(Order, Leased) as inner:

        class Late(Restless):
            landed = False

            def check_and_mutate(self, table: str, *arguments: Any) -> bool:
                applied = super().check_and_mutate(table, *arguments)
                self.landed = True
                return applied

            def check_and_mutate_many(self, table: str, changes: Any) -> Any:
                applied = super().check_and_mutate_many(table, changes)
                self.landed = True
                return applied

            def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
                return (
                    super().get(table, rows, columns) if self.landed else RecordingStore.get(self, table, rows, columns)
                )

        store = Late(inner, model, index)
        session = hb.Session(store, lease=0)
        with pytest.raises(hb.UnknownOutcome, match="read the key to find out whether the object was put"):
            session.insert(obj)
        assert len(hb.Session(inner).query(model).allow_full_scan().all()) == 1


@pytest.mark.lengthy
def test_a_query_goes_on_when_the_table_is_read_otherwise(lease_clock: LeaseClock) -> None:
    """A table gets its first index, and rows are deleted with a marker, while a program reads it for longer than a
    lease.
    """
    with fresh(Order) as store:
        for index in hb.schema.schema_of(Order).indexes:
            set_state(store, Order, index, ABSENT)
        _say(store, "unindexed")
        session = lease_clock.session(store)
        session.add_all(order(number) for number in range(1, 3000))
        session.commit()
        reading = iter(session.query(Order).allow_full_scan())
        counted = [next(reading)]
        _say(store, "adopting")
        lease_clock.move(61)
        other = lease_clock.session(store)
        for number in range(1, 1000):
            other.delete(order(number))
        other.commit()
        found = counted + list(reading)
        assert sorted(item.number for item in found) == list(range(1000, 3000))
        assert session.query(Order).allow_full_scan().count() == 2000


def _say(store: hb.Store, rows: str) -> None:
    store.put("hbmodel", [Put(registry_row(hb.schema.schema_of(Order)), {ROWS: canonical_json({"state": rows})})])


@pytest.mark.lengthy
def test_a_query_through_an_index_that_is_dropped_ends(lease_clock: LeaseClock) -> None:
    with fresh(Order) as store:
        session = lease_clock.session(store)
        session.add_all(order(number, "open") for number in range(1, 3000))
        session.commit()
        query = session.query(Order).where(Order.state == "open").use_index("by_state")
        reading = iter(query)
        assert next(reading).state == "open"
        lease_clock.move(61)
        assert next(reading).state == "open"
        set_state(store, Order, "by_state", "write-only")
        lease_clock.move(61)
        with pytest.raises(hb.errors.IndexUnavailable):
            list(reading)


def test_a_lease_that_runs_out_without_a_change_is_no_matter(lease_clock: LeaseClock) -> None:
    with fresh(Order) as inner:
        store = Changing(inner, lambda: lease_clock.move(61))
        session = lease_clock.session(store)
        session.add(order(1))
        assert [outcome.action for outcome in session.commit()] == ["put"]
        assert store.told().count("put orders") == 1


def test_a_commit_that_took_too_long_puts_its_entries_again_at_a_fresh_time() -> None:
    now = wall_time() - GRACE  # of the server's clock and of this machine's

    def long_call() -> None:
        nonlocal now
        now += GRACE // 2

    with RecordingStore(EmbeddedStore(None, lambda: now)) as inner:
        hb.create_tables(inner, Order)
        cache = BindingCache(LEASE, offset=SharedOffset(lambda: now, lambda: now))
        with hb.Session(inner, cache=cache) as session:
            session.add_all([order(1, "old"), order(2, "old")])
        store = Changing(inner, long_call)
        session = hb.Session(store, cache=cache)
        session.update(order(1), state="new")
        session.delete(order(2))
        assert [outcome.action for outcome in session.commit()] == ["put", "deleted"]
        told = store.told()
        assert (told.count("put orders"), told.count("put orders.by_state")) == (1, 2)
        assert rows_of(inner, "orders.by_state").keys() == {
            entry for entry, at in rows_of(inner, "orders.by_state").items() if at == now
        }
        check_exact(inner, Order)
        check_queries(inner, Order)


# --- creating tables --------------------------------------------------------------------------------------------------


@pytest.mark.lengthy
def test_tables_are_created_whatever_call_a_crash_followed() -> None:
    with hb.connect("memory:") as store:
        watched = RecordingStore(store)
        hb.create_tables(watched, Order, Sample)
        calls = watched.calls
    assert {call.name for call in calls} >= {"create_table", "check_and_put", "tables"}
    for at in range(len(calls)):
        for mode in MODES[:2]:
            with hb.connect("memory:") as store:
                with pytest.raises(Crash):
                    hb.create_tables(FaultyStore(store, at, mode, crash=True), Order, Sample)
                hb.create_tables(store, Order, Sample)
                with hb.Session(store) as session:
                    session.add_all([order(1), Sample(station="s", label="l", level=1)])
                assert hb.Session(store).query(Order).where(Order.state == "new").count() == 1
                check_exact(store, Order)


def test_many_programs_create_the_same_tables_at_once() -> None:
    with hb.connect("memory:") as store:
        failures: list[BaseException] = []
        start = threading.Barrier(6)

        def create() -> None:
            start.wait()
            try:
                hb.create_tables(store, Order, Sample, Person)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=create) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        with hb.Session(store) as session:
            session.add_all([order(1), Person(name="ann", city="Oslo")])
        assert hb.Session(store).query(Person).where(Person.city == "Oslo").count() == 1


def test_two_models_share_a_table_each_in_its_families(bed: Bed) -> None:
    @hb.model(table="shared", family="a")
    class First:
        name: hb.Key[str] = hb.key()
        tag: hb.Column[str] = hb.column("t")
        by_tag = hb.index("tag")

    @hb.model(table="shared", family="b")
    class Second:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")

    session = bed.use(First, Second)
    session.add_all([First(name="x", tag="1"), Second(name="x", text="one"), Second(name="y", text="two")])
    session.commit()
    assert session.query(First).where(First.tag == "1").all() == [First(name="x", tag="1")]
    session.delete(First(name="x", tag=""))
    session.commit()
    assert session.get(First, name="x") is None
    assert session.get(Second, name="x") == Second(name="x", text="one")
    assert session.query(First).allow_full_scan().count() == 0
    assert session.query(Second).allow_full_scan().count() == 2
    session.delete_key(Second, name="x")
    session.add(First(name="x", tag="2"))
    session.commit()
    assert session.get(First, name="x") == First(name="x", tag="2")
    assert session.get(Second, name="x") is None


@pytest.mark.parametrize("limited", [False, True])
def test_a_delete_that_was_carried_out_before_the_indexes_changed_is_reported(
    limited: bool, lease_clock: LeaseClock
) -> None:
    """The restarted protocol finds no row, because the same call has already deleted it."""
    with fresh(Order) as inner:
        with lease_clock.session(inner) as session:
            session.add_all([order(1), order(2)])
        set_state(inner, Order, "by_amount", ABSENT)

        class Changing(RecordingStore):
            def delete(self, table: str, deletes: Any) -> None:
                super().delete(table, deletes)
                self.change(table)

            def mutate_row(self, table: str, mutations: Any) -> None:
                super().mutate_row(table, mutations)
                self.change(table)

            def change(self, table: str) -> None:
                if table == "orders":
                    set_state(inner, Order, "by_amount", "write-only")
                    lease_clock.move(61)

        session = lease_clock.session(Changing(inner, limited=limited))
        session.delete(order(1))
        session.delete(order(3))
        assert [outcome.action for outcome in session.commit()] == ["deleted", "absent"]
        session = lease_clock.session(Changing(inner, limited=limited))
        set_state(inner, Order, "by_amount", ABSENT)
        session.delete(order(2))
        assert [outcome.action for outcome in session.commit()] == ["deleted"]


@pytest.mark.lengthy
def test_a_write_that_the_new_index_refuses_may_have_been_carried_out(lease_clock: LeaseClock) -> None:
    """Without check-and-mutate, rows of tables with an index take no update with a TTL."""
    two = declare()
    seen: set[tuple[type | None, str]] = set()
    for at in itertools.count(1):
        with RecordingStore(hb.connect("memory:"), limited=True) as store:
            hb.create_tables(store, two.before)
            with lease_clock.session(store, **OPTIONS) as session:
                session.add(two.before(name="a", topic="old"))
            let_tick_pass()  # in the millisecond of the row, the update would draw another time

            def build(store: hb.Store = store) -> None:
                hb.indexes.build_index(store, two.after, "by_topic", times=TIMES)
                lease_clock.move(61)

            pause = Pause(at, build)
            session = lease_clock.session(store, on_call=pause, **OPTIONS)
            session.update_key(two.after, name="a", topic="new", ttl=timedelta(hours=1))
            error: hb.HbmodelError | None = None
            try:
                session.commit()
            except hb.HbmodelError as raised:
                error = raised
            if pause.over:
                break
            found = lease_clock.session(store, **OPTIONS).get(two.after, name="a")
            assert found is not None
            seen.add((error and type(error), found.topic))
            if isinstance(error, hb.UnknownOutcome):
                assert error.message.endswith("It may have been carried out before: read the row.")
                assert "can be updated only in a store with check-and-mutate" in error.details["reason"]
    assert (hb.UnknownOutcome, "new") in seen
    assert seen <= {(None, "new"), (hb.UnknownOutcome, "new"), (hb.UnknownOutcome, "old"), (hb.CapabilityError, "old")}
