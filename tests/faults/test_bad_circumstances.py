"""Closed sessions, busy threads, wrong clocks and stores that are away: told by errors, and nothing is half-written."""

from __future__ import annotations

import inspect
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.protocol.corrected_clock import CLOCK_BOUND
from hbmodel.store import Family, Put
from tests.support.beds import Bed, fresh, rows_of
from tests.support.faulty import RecordingStore, ShiftedStore
from tests.support.models import Order, Person, Sample, day, order


@hb.model(table="closed_noted", family="d")
class Noted:
    name: hb.Key[str] = hb.key()
    kind: hb.Column[str] = hb.column("k")
    notes: hb.Map[str, str] = hb.map_column("n", factory=dict)


KEY = {"customer": 1, "at": day(1), "number": 1}


# --- sessions ---------------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[hb.Session], Any]] = {
    "get": lambda s: s.get(Order, **KEY),
    "get as of": lambda s: s.get(Order, as_of=day(1), **KEY),
    "get_one": lambda s: s.get_one(Order, **KEY),
    "get_many": lambda s: s.get_many(Order, []),
    "versions": lambda s: s.versions(Order, Order.state, **KEY),
    "add": lambda s: s.add(order(1)),
    "add_all": lambda s: s.add_all([]),
    "insert": lambda s: s.insert(order(1)),
    "put_all": lambda s: s.put_all(Order, [hb.asdict(order(1))]),
    "put": lambda s: s.put(Order, **hb.asdict(order(1))),
    "prepend": lambda s: s.prepend(Order, **KEY),
    "rekey": lambda s: s.rekey(order(1), number=2),
    "entries": lambda s: s.entries(Noted.notes, name="n"),
    "put_entries": lambda s: s.put_entries(Noted(name="n", kind="k"), Noted.notes, {"a": "b"}),
    "remove_entries": lambda s: s.remove_entries(Noted(name="n", kind="k"), Noted.notes, ["a"]),
    "update": lambda s: s.update(order(1), state="b"),
    "update_key": lambda s: s.update_key(Order, **KEY, state="b"),
    "delete": lambda s: s.delete(order(1)),
    "delete of a query": lambda s: s.query(Order).allow_full_scan().delete(),
    "delete_key": lambda s: s.delete_key(Order, **KEY),
    "increment": lambda s: s.increment(order(1), Order.views),
    "increment_key": lambda s: s.increment_key(Order, Order.views, **KEY),
    "bulk_add": lambda s: s.bulk_add([]),
    "commit": lambda s: s.commit(),
    "retry": lambda s: s.retry(lambda s: None),
    "group": lambda s: s.group(Order, **KEY),
    "discard": lambda s: s.discard(),
    "all": lambda s: s.query(Order).allow_full_scan().all(),
    "page": lambda s: s.query(Order).allow_full_scan().page(1),
    "count": lambda s: s.query(Order).allow_full_scan().count(),
    "explain": lambda s: s.query(Order).allow_full_scan().explain(),
    "partitions": lambda s: s.query(Order).allow_full_scan().partitions(2),
    "read_partition": lambda s: s.read_partition(
        hb.Session(s.store).query(Order).allow_full_scan().partitions(2)[0]
    ).all(),
}


def test_every_public_method_of_a_session_is_here() -> None:
    public = {name for name, member in inspect.getmembers(hb.Session, callable) if not name.startswith("_")}
    assert public - {"close", "query"} <= set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_closed_session_says_so(name: str) -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        session.add(order(1))
        session.close()
        session.close()
        with pytest.raises(hb.errors.SessionClosed):
            CALLS[name](session)
        assert rows_of(store.inner, "orders") == {}


class Gate(RecordingStore):
    """A store whose reads of orders wait until they are allowed to continue."""

    def __init__(self, store: hb.Store) -> None:
        super().__init__(store)
        self.reached, self.open = threading.Event(), threading.Event()

    def get(self, table: str, rows: Any, columns: Any = ()) -> Any:
        if table == "orders":
            self.reached.set()
            assert self.open.wait(60)
        return super().get(table, rows, columns)


def test_a_session_used_by_two_threads_at_once_says_so() -> None:
    with fresh(Order) as inner:
        store = Gate(inner)
        session = hb.Session(store)
        session.add(order(1))
        outcomes: list[Any] = []
        worker = threading.Thread(target=lambda: outcomes.append(session.commit()))
        worker.start()
        try:
            assert store.reached.wait(60)
            for name, call in {**CALLS, "close": hb.Session.close}.items():
                with pytest.raises(hb.errors.SessionThreadError, match="Another thread is using this session"):
                    call(session)
                assert not session.closed, name
        finally:
            store.open.set()
            worker.join()
        assert [outcome.action for outcome in outcomes[0]] == ["put"]
        # One after the other is no mistake, whatever the thread.
        assert session.get(Order, **KEY) == order(1)


@pytest.mark.lengthy
def test_a_store_is_shared_by_sessions_of_many_threads() -> None:
    with fresh(Order) as store:
        failures: list[BaseException] = []

        def work(customer: int) -> None:
            try:
                for n in range(10):
                    with hb.Session(store) as session:
                        session.add(order(n, customer=customer))
                session = hb.Session(store)
                assert session.query(Order).where(Order.customer == customer).count() == 10
            except BaseException as error:
                failures.append(error)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failures == []
        assert hb.Session(store).query(Order).where(Order.state == "new").count() == 80


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [CLOCK_BOUND + 5_000, -CLOCK_BOUND - 5_000])
def test_a_clock_that_is_off_beyond_the_bound_refuses_writes_of_indexed_rows(bed: Bed, ahead: int) -> None:
    session = bed.use(Order, Sample)
    session.add(order(1))
    session.commit()
    store = ShiftedStore(bed.store, ahead)
    session = hb.Session(store)
    session.add(order(2))
    session.update(order(1), state="paid")
    session.delete(order(1))
    with pytest.raises(hb.errors.ClockError) as caught:
        session.commit()
    assert abs(caught.value.offset - ahead) < 5_000
    assert caught.value.bound == CLOCK_BOUND
    if bed.atomic:
        with pytest.raises(hb.errors.ClockError):
            session.insert(order(3))
    with pytest.raises(hb.errors.ClockError):
        session.bulk_add([order(4)])
    assert [o.state for o in session.query(Order).allow_full_scan()] == ["new"]
    assert len(rows_of(bed.store, "orders.by_state")) == len(rows_of(bed.store, "orders")) == 1
    # Rows without indexes take the server's time.
    other = hb.Session(store)
    other.add(Sample(station="s", label="l", level=1))
    other.commit()
    assert other.get(Sample, station="s", label="l") is not None
    store.ahead = 0
    assert [outcome.action for outcome in session.commit()] == ["put", "put", "deleted"]
    assert [o.number for o in session.query(Order).where(Order.state == "new")] == [2]


@hb.model(table="clocks", family="d")
class Clocked:
    """For one test only, since a bed is not emptied before the times of its cells have passed."""

    name: hb.Key[str] = hb.key()
    city: hb.Column[str | None] = hb.column("c", default=None)

    by_city = hb.index("city")


def test_a_clock_within_the_bound_is_corrected(bed: Bed) -> None:
    bed.use(Clocked)
    real = hb.Session(bed.store)
    for ahead in (CLOCK_BOUND - 10_000, 10_000 - CLOCK_BOUND):
        session = hb.Session(ShiftedStore(bed.store, ahead))
        for one, other in ((session, real), (real, session)):
            one.add(Clocked(name=f"{ahead}", city="a"))
            (first,) = one.commit()
            other.update(Clocked(name=f"{ahead}"), city=f"b {ahead}")
            (second,) = other.commit()
            assert first.timestamp is not None
            assert second.timestamp is not None
            assert second.timestamp > first.timestamp
            assert real.get(Clocked, name=f"{ahead}") == Clocked(name=f"{ahead}", city=f"b {ahead}")
        assert real.query(Clocked).where(Clocked.city == f"b {ahead}").count() == 1


@pytest.mark.every_store
def test_a_cell_from_the_future_is_named_and_stops_only_its_row(bed: Bed) -> None:
    session = bed.use(Person)
    session.add_all([Person(name="zoe", city="Oslo"), Person(name="bob", city="Oslo")])
    session.commit()
    future = 2**42  # on HBase the tombstone of its end stays, so no other test may use this row
    bed.store.put("people", [Put(b"zoe", {b"x:t": b"from the future"}, future)])
    writes: list[Callable[[], Any]] = [
        lambda: session.add(Person(name="zoe", city="Rome")),
        lambda: session.update(Person(name="zoe"), city="Rome"),
        lambda: session.update(Person(name="zoe"), story="Rome"),
        lambda: session.delete(Person(name="zoe")),
    ]
    for write in writes:
        write()
        session.update(Person(name="bob"), city="Bonn")
        with pytest.raises(hb.PartialWrite) as caught:
            session.commit()
        (failure,) = caught.value.failures
        assert isinstance(failure.error, hb.errors.ClockError)
        assert (failure.key, failure.error.key, failure.error.newest) == (b"zoe", b"zoe", future)
        assert [outcome.key for outcome in caught.value.applied] == [b"bob"]
    assert [p.name for p in session.query(Person).where(Person.city == "Oslo")] == ["zoe"]
    assert [p.name for p in session.query(Person).where(Person.city == "Bonn")] == ["bob"]
    bed.store.delete("people", [hb.store.Delete(b"zoe", columns=[b"x:t"], timestamp=future)])
    session.update(Person(name="zoe"), city="Rome")
    session.commit()
    assert [p.name for p in session.query(Person).where(Person.city == "Rome")] == ["zoe"]


# --- stores -----------------------------------------------------------------------------------------------------------


def test_a_gateway_that_is_down_is_told_and_everything_stays_pending() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with hb.connect(f"hbase://127.0.0.1:{port}?attempts=1&connect_timeout=1") as store:
        session = hb.Session(store)
        session.add_all([Sample(station="s", label="l", level=1), order(1)])
        for call in (
            session.commit,
            lambda: session.get(Sample, station="s", label="l"),
            lambda: session.query(Sample).where(Sample.station == "s").all(),
            lambda: session.increment(order(2), Order.views),
            lambda: session.bulk_add([order(1)]),
            lambda: hb.create_tables(store, Order),
            session.commit,
        ):
            with pytest.raises(hb.StoreUnavailable):
                call()


def test_a_store_that_is_closed_says_so() -> None:
    store = fresh(Order)
    session = hb.Session(store)
    session.add(order(1))
    store.close()
    with pytest.raises(hb.errors.StoreClosed):
        session.commit()


@pytest.mark.every_store
def test_tables_that_are_not_there_are_named(bed: Bed) -> None:
    @hb.model(table="nowhere")
    class Lost:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")

    session = bed.use(Order)
    session.add(Lost(name="a", text="b"))
    for call in (
        session.commit,
        lambda: session.get(Lost, name="a"),
        lambda: session.query(Lost).allow_full_scan().all(),
        lambda: session.query(Lost).allow_full_scan().count(),
        lambda: session.bulk_add([Lost(name="a", text="b")]),
    ):
        with pytest.raises(hb.errors.TableNotFound) as caught:
            call()
        assert caught.value.table == "nowhere"


def test_an_index_table_that_is_not_there_is_named_and_no_row_is_written() -> None:
    with fresh(Order) as store:
        store.delete_table("orders.by_amount")
        session = hb.Session(store)
        session.add(order(1))
        with pytest.raises(hb.PartialWrite, match="The commit stopped partway") as caught:
            session.commit()
        assert isinstance(caught.value.__cause__, hb.errors.TableNotFound)
        assert caught.value.__cause__.table == "orders.by_amount"
        assert len(caught.value.pending) == 1
        assert rows_of(store, "orders") == {}
        assert session.query(Order).where(Order.state == "new").all() == []
        with pytest.raises(hb.SchemaMismatch, match="its table is gone"):
            hb.create_tables(store, Order)
        store.create_table("orders.by_amount", [Family(b"d")])
        session.commit()
        assert session.query(Order).where(Order.state == "new").count() == 1


def test_families_that_are_not_there_are_named(bed: Bed) -> None:
    @hb.model(table="halves", family="d")
    class Half:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")

    @hb.model(table="halves", family="d")
    class Whole:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")
        more: hb.Column[str] = hb.column("m", family="x", default="")

    @hb.model(table="halves", family="z")
    class Elsewhere:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")

    session = bed.use(Half)
    session.add(Half(name="a", text="b"))
    session.commit()
    for model, family in ((Whole, "x"), (Elsewhere, "z")):
        with pytest.raises(hb.errors.FamilyNotFound) as caught:
            hb.create_tables(bed.store, model)
        assert (caught.value.table, caught.value.family) == ("halves", family)
        session.add(model(name="c", text="d"))
        with pytest.raises(hb.HbmodelError) as commit:
            session.commit()
        if model is Whole:  # the registry is asked before the store, and does not know the column
            assert isinstance(commit.value, hb.SchemaMismatch)
            assert commit.value.details["columns"] == ["x:m"]
        else:
            cause = commit.value if isinstance(commit.value, hb.errors.FamilyNotFound) else commit.value.__cause__
            assert isinstance(cause, hb.errors.FamilyNotFound)
        session.discard()
        for read in (
            lambda model=model: session.get(model, name="a"),
            lambda model=model: session.query(model).allow_full_scan().all(),
        ):
            with pytest.raises(hb.errors.FamilyNotFound):
                read()
    assert list(rows_of(bed.store, "halves")) == [b"a"]
