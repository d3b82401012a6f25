"""What goes wrong is told by an error of the documented tree that names the culprit, and nothing is half-written without a word."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from beds import KINDS, Bed, open_bed, rows_of
from faulty import RecordingStore, ShiftedStore
from hypothesis import given, settings
from hypothesis import strategies as st
from models import DAY, Flagged, Hit, Order, Person, Sample, day, order

import hbmodel as hb
from hbmodel.clock import CLOCK_BOUND
from hbmodel.store import Family, Put


@pytest.fixture(scope="module", params=KINDS)
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with open_bed(request, tmp_path_factory) as made:
        yield made


def fresh(*models: type[Any]) -> RecordingStore:
    store = RecordingStore(hb.connect("memory:"))
    hb.create_tables(store, *models)
    store.calls.clear()
    return store


KEY = {"customer": 1, "at": day(1), "number": 1}


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("customer", "1"),
        ("customer", 1.0),
        ("customer", True),
        ("customer", None),
        ("customer", -1),
        ("customer", 65_536),
        ("at", datetime(2026, 1, 1)),
        ("at", date(2026, 1, 1)),
        ("at", "2026-01-01"),
        ("number", 2**32),
        ("number", b"1"),
    ],
)
def test_a_key_value_that_cannot_be_stored_is_named_before_any_call(field: str, value: Any) -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        key = KEY | {field: value}
        wrong = Order(**key, state="s")
        for call in (
            lambda: session.get(Order, **key),
            lambda: session.get_many(Order, [tuple(key.values())]),
            lambda: session.add(wrong),
            lambda: session.insert(wrong),
            lambda: session.update(wrong, state="t"),
            lambda: session.delete(wrong),
            lambda: session.delete_key(Order, **key),
            lambda: session.increment(wrong, Order.views),
            lambda: session.load([wrong]),
            lambda: session.query(Order).where(getattr(Order, field) == value),
        ):
            with pytest.raises(hb.EncodingError) as caught:
                call()
            assert caught.value.field == field
        assert store.told() == []
        assert session.commit() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("state", None),
        ("state", b"s"),
        ("state", 5),
        ("state", "\ud800"),
        ("amount", 1.5),
        ("amount", 1),
        ("amount", Decimal("NaN")),
        ("note", 0),
    ],
)
def test_a_column_value_that_cannot_be_stored_is_named_before_any_call(field: str, value: Any) -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        wrong = Order(**{**KEY, "state": "s", field: value})  # type: ignore[arg-type]
        for call in (lambda: session.add(wrong), lambda: session.insert(wrong), lambda: session.update(order(1), **{field: value})):
            with pytest.raises(hb.EncodingError) as caught:
                call()
            assert (caught.value.field, caught.value.table) == (field, "orders")
        assert store.told() == []
        assert session.commit() == []


junk = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters()), st.binary(), st.decimals(), st.datetimes(), st.dates(),
    st.timedeltas(), st.uuids(), st.complex_numbers(), st.lists(st.integers(), max_size=2), st.just(object()), st.just(int),
    st.sampled_from([math.nan, "\ud800", bytearray(b"x"), memoryview(b"x"), {}, range(3), Order, Order.state, lambda: None]),
)  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(["customer", "at", "number", "state", "amount", "note"]), junk)
def test_junk_is_either_stored_or_refused_with_an_error_of_the_tree(field: str, value: Any) -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        obj = Order(**{**KEY, "state": "s", field: value})  # type: ignore[arg-type]
        key = {name: getattr(obj, name) for name in KEY}
        changes = {field: value}
        calls: list[Callable[[], Any]] = [
            lambda: session.add(obj),
            lambda: session.insert(obj),
            lambda: session.update(obj, **changes),
            lambda: session.delete(obj),
            lambda: session.get(Order, **key),
            lambda: session.increment(obj, Order.views, value),
            lambda: session.query(Order).where(getattr(Order, field) == value).allow_full_scan().all(),
            lambda: session.query(Order).where(getattr(Order, field).in_([value])).allow_full_scan().all(),
            lambda: session.query(Order).where(getattr(Order, field) < value).allow_full_scan().all(),
            lambda: session.query(Order).where(getattr(Order, field).between(value, value)).allow_full_scan().all(),
            lambda: session.query(Order).where(value).allow_full_scan().all(),
            lambda: session.query(Order).select(value).allow_full_scan().all(),
            lambda: session.query(Order).order_by(value).all(),
            lambda: session.query(Order).limit(value).allow_full_scan().all(),
            lambda: session.query(Order).allow_full_scan().page(value),
            lambda: session.query(Order).allow_full_scan().page(1, after=value),
            lambda: session.query(value),
            lambda: session.query(Order).use_index(value).allow_full_scan().all(),
            lambda: session.get_many(Order, [value]),
            lambda: session.add(value),
            session.commit,
        ]
        for call in calls:
            with suppress(hb.HbmodelError):
                call()


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_that_a_model_does_not_have(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    with pytest.raises(hb.UnknownField) as unknown:
        session.get(Order, **KEY, colour="red")
    assert unknown.value.field == "colour"
    with pytest.raises(hb.IncompleteKey) as incomplete:
        session.get(Order, customer=1)
    assert incomplete.value.missing == ["at", "number"]
    with pytest.raises(hb.IncompleteKey):
        session.delete_key(Order, number=1)
    with pytest.raises(hb.HbmodelError):
        session.get_many(Order, [(1, day(1))])
    with pytest.raises(hb.UnknownField):
        session.update(order(1), colour="red")
    with pytest.raises(hb.SessionError) as key_field:
        session.update(order(1), number=2)
    assert key_field.value.field == "number"
    with pytest.raises(hb.SessionError) as counter:
        session.update(order(1), views=2)
    assert counter.value.field == "views"
    with pytest.raises(hb.SessionError):
        session.update(order(1))
    with pytest.raises(hb.SessionError, match=r"hb\.counter"):
        session.increment(order(1), Order.number)
    for counter_of in (Sample.seen, "views", 5):
        with pytest.raises(hb.UnknownField):
            session.increment(order(1), counter_of)  # type: ignore[arg-type]
    with pytest.raises(hb.UnknownField):
        session.query(Order).where(Sample.level == 1)
    with pytest.raises(hb.UnknownIndex) as index:
        session.query(Order).use_index("by_colour")
    assert index.value.known == ["by_amount", "by_state"]
    assert session.commit() == []
    assert bed.store.told() == []


def test_what_is_no_model() -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        for call in (
            lambda: session.add("text"),
            lambda: session.add(Order),
            lambda: session.get(dict, a=1),
            lambda: session.query(int),
            lambda: session.delete(None),
            lambda: hb.create_tables(store, Order, str),
        ):
            with pytest.raises(hb.DeclarationError, match="not a model"):
                call()
        with pytest.raises(hb.SessionError, match="connect"):
            hb.Session("memory:")  # type: ignore[arg-type]


def test_immutable_rows_cannot_change(bed: Bed) -> None:
    session = bed.use(Hit)
    hit = Hit(at=DAY, serial=1, page="/")
    with pytest.raises(hb.SessionError, match="immutable"):
        session.update(hit, page="b")
    assert session.commit() == []


@pytest.mark.parametrize("amount", [1.5, "1", None, True, 2**63, -(2**63) - 1])
def test_an_amount_that_is_no_whole_number_of_64_bits(bed: Bed, amount: Any) -> None:
    session = bed.use(Order)
    session.add(order(1))
    session.commit()
    with pytest.raises(hb.EncodingError) as caught:
        session.increment(order(1), Order.views, amount)
    assert caught.value.field == "views"
    assert session.increment(order(1), Order.views, 1) == 1


# --- keys -------------------------------------------------------------------------------------------------------------


def test_row_keys_and_entries_of_impossible_length(bed: Bed) -> None:
    session = bed.use(Flagged, Person, Order)
    for name in ("", "n" * 32_768):
        for call in (
            lambda name=name: session.add(Flagged(name=name)),
            lambda name=name: session.get(Flagged, name=name),
            lambda name=name: session.delete_key(Flagged, name=name),
            lambda name=name: session.update(Flagged(name=name), text="t"),
        ):
            with pytest.raises(hb.KeyTooLong) as caught:
                call()
            assert caught.value.table == "flagged"
    session.add(Flagged(name="n" * 32_767))
    session.commit()
    assert session.get(Flagged, name="n" * 32_767) is not None
    assert session.query(Flagged).where(Flagged.name == "n" * 32_768).all() == []
    with pytest.raises(hb.KeyTooLong) as index:
        session.add(order(1, "s" * 32_767))
    assert (index.value.index, index.value.table) == ("by_state", "orders.by_state")
    longest = "s" * (32_767 - 2 - 8 - 2 - 4)  # beside its terminator, the moment, the customer and the number
    session.add(order(1, longest))
    session.commit()
    assert [o.number for o in session.query(Order).where(Order.state == longest)] == [1]
    with pytest.raises(hb.KeyTooLong):
        session.add(order(1, longest + "s"))
    # Only the commit knows the rest of the entry: the row is refused then, whole.
    session.add(Person(name="ann", street="s" * 20_000))
    session.commit()
    session.update(Person(name="ann"), city="c" * 20_000)
    with pytest.raises(hb.KeyTooLong) as late:
        session.commit()
    assert late.value.index == "by_place"
    assert session.get(Person, name="ann") == Person(name="ann", street="s" * 20_000)


# --- queries ----------------------------------------------------------------------------------------------------------


def test_a_full_scan_must_be_asked_for(bed: Bed) -> None:
    session = bed.use(Order)
    for query in (session.query(Order), session.query(Order).where(Order.note == "n"), session.query(Order).where(Order.number == 1)):
        for read in (query.all, query.count, query.first, query.last, query.exists, query.explain, lambda query=query: query.page(3)):
            with pytest.raises(hb.FullScanRefused) as caught:
                read()
            assert (caught.value.table, caught.value.leading) == ("orders", "customer")
    assert "scan orders" not in bed.store.told()


def test_a_token_edited_by_a_character_is_refused(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all(order(n) for n in range(4))
    session.commit()
    query = session.query(Order).where(Order.state == "new")
    token = query.page(2).next_token
    assert token is not None
    bed.store.told()
    for at in range(len(token)):
        for other in ("A" if token[at] != "A" else "B", "é", "=", ""):
            with pytest.raises(hb.TokenError):
                query.page(2, after=token[:at] + other + token[at + 1 :])
    for text in ("", "x", token + "A", token[:-1], token * 2, token.swapcase()):
        with pytest.raises(hb.TokenError):
            query.page(2, after=text)
    assert bed.store.told() == []
    assert [o.number for o in query.page(2, after=token).items] == [1, 0]


def test_a_token_of_another_query_is_refused(bed: Bed) -> None:
    session = bed.use(Order, Person)
    session.add_all(order(n) for n in range(4))
    session.add_all(Person(name=str(n), city="new") for n in range(4))
    session.commit()
    query = session.query(Order).where(Order.state == "new")
    token = query.page(2).next_token
    for other in (
        session.query(Order).where(Order.state == "other"),
        query.where(Order.at > day(0)),
        query.limit(3),
        query.offset(1),
        query.reversed(),
        query.order_by(Order.at),
        session.query(Order).where(Order.customer == 1),
        session.query(Order).allow_full_scan(),
        session.query(Person).where(Person.city == "new"),
    ):
        with pytest.raises(hb.TokenError):
            other.page(2, after=token)


# --- sessions ---------------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[hb.Session], Any]] = {
    "get": lambda s: s.get(Order, **KEY),
    "get_many": lambda s: s.get_many(Order, []),
    "add": lambda s: s.add(order(1)),
    "add_all": lambda s: s.add_all([]),
    "insert": lambda s: s.insert(order(1)),
    "update": lambda s: s.update(order(1), state="b"),
    "delete": lambda s: s.delete(order(1)),
    "delete_key": lambda s: s.delete_key(Order, **KEY),
    "increment": lambda s: s.increment(order(1), Order.views),
    "load": lambda s: s.load([]),
    "commit": lambda s: s.commit(),
    "discard": lambda s: s.discard(),
    "all": lambda s: s.query(Order).allow_full_scan().all(),
    "page": lambda s: s.query(Order).allow_full_scan().page(1),
    "count": lambda s: s.query(Order).allow_full_scan().count(),
    "explain": lambda s: s.query(Order).allow_full_scan().explain(),
}


def test_every_public_method_of_a_session_is_here() -> None:
    public = {name for name, member in vars(hb.Session).items() if callable(member) and not name.startswith("_")}
    assert public - {"close", "query"} <= set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_closed_session_says_so(name: str) -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        session.add(order(1))
        session.close()
        session.close()
        with pytest.raises(hb.SessionClosed):
            CALLS[name](session)
        assert rows_of(store.inner, "orders") == {}


class Gate(RecordingStore):
    """A store whose reads of orders wait until they may go on."""

    def __init__(self, store: hb.Store) -> None:
        super().__init__(store)
        self.reached, self.open = threading.Event(), threading.Event()

    def get(self, table: str, rows: Any, columns: Any = ()) -> Any:
        if table == "orders":
            self.reached.set()
            assert self.open.wait(10)
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
            assert store.reached.wait(10)
            for name, call in {**CALLS, "close": hb.Session.close}.items():
                with pytest.raises(hb.SessionThreadError):
                    call(session)
                assert not session.closed, name
        finally:
            store.open.set()
            worker.join()
        assert [outcome.action for outcome in outcomes[0]] == ["put"]
        # One after the other is no mistake, whatever the thread.
        assert session.get(Order, **KEY) == order(1)


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
    with pytest.raises(hb.ClockError) as caught:
        session.commit()
    assert abs(caught.value.offset - ahead) < 5_000
    assert caught.value.bound == CLOCK_BOUND
    if bed.atomic:
        with pytest.raises(hb.ClockError):
            session.insert(order(3))
    with pytest.raises(hb.ClockError):
        session.load([order(4)])
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


@pytest.mark.parametrize("ahead", [CLOCK_BOUND - 10_000, 10_000 - CLOCK_BOUND])
def test_a_clock_within_the_bound_is_corrected(bed: Bed, ahead: int) -> None:
    bed.use(Person)
    session = hb.Session(ShiftedStore(bed.store, ahead))
    real = hb.Session(bed.store)
    for one, other in ((session, real), (real, session)):
        one.add(Person(name=f"{ahead}", city="a"))
        (first,) = one.commit()
        other.update(Person(name=f"{ahead}"), city="b")
        (second,) = other.commit()
        assert first.timestamp is not None
        assert second.timestamp is not None
        assert second.timestamp > first.timestamp
        assert real.get(Person, name=f"{ahead}") == Person(name=f"{ahead}", city="b")
    assert real.query(Person).where(Person.city == "b").count() == 1


def test_a_cell_from_the_future_is_named_and_stops_only_its_row(bed: Bed) -> None:
    session = bed.use(Person)
    session.add_all([Person(name="ann", city="Oslo"), Person(name="bob", city="Oslo")])
    session.commit()
    (outcome,) = [hb.Session(bed.store).get(Person, name="ann")]
    assert outcome is not None
    future = 2**42
    bed.store.put("people", [Put(b"ann", {b"x:t": b"from the future"}, future)])
    writes: list[Callable[[], Any]] = [
        lambda: session.add(Person(name="ann", city="Rome")),
        lambda: session.update(Person(name="ann"), city="Rome"),
        lambda: session.update(Person(name="ann"), story="Rome"),
        lambda: session.delete(Person(name="ann")),
    ]
    for write in writes:
        write()
        session.update(Person(name="bob"), city="Bonn")
        with pytest.raises(hb.PartialWrite) as caught:
            session.commit()
        (failure,) = caught.value.failures
        assert isinstance(failure.error, hb.ClockError)
        assert (failure.key, failure.error.key, failure.error.newest) == (b"ann", b"ann", future)
        assert [outcome.key for outcome in caught.value.applied] == [b"bob"]
    assert [p.name for p in session.query(Person).where(Person.city == "Oslo")] == ["ann"]
    assert [p.name for p in session.query(Person).where(Person.city == "Bonn")] == ["bob"]
    bed.store.delete("people", [hb.store.Delete(b"ann", columns=[b"x:t"], timestamp=future)])
    session.update(Person(name="ann"), city="Rome")
    session.commit()
    assert [p.name for p in session.query(Person).where(Person.city == "Rome")] == ["ann"]


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
            lambda: session.increment(order(1), Order.views),
            lambda: session.load([order(1)]),
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
    with pytest.raises(hb.StoreClosed):
        session.commit()


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
        lambda: session.load([Lost(name="a", text="b")]),
    ):
        with pytest.raises(hb.TableNotFound) as caught:
            call()
        assert caught.value.table == "nowhere"


def test_an_index_table_that_is_not_there_is_named_and_no_row_is_written() -> None:
    with fresh(Order) as store:
        store.delete_table("orders.by_amount")
        session = hb.Session(store)
        session.add(order(1))
        with pytest.raises(hb.PartialWrite) as caught:
            session.commit()
        assert isinstance(caught.value.__cause__, hb.TableNotFound)
        assert caught.value.__cause__.table == "orders.by_amount"
        assert len(caught.value.pending) == 1
        assert rows_of(store, "orders") == {}
        assert session.query(Order).where(Order.state == "new").all() == []
        hb.create_tables(store, Order)  # what is there already is left alone
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
        with pytest.raises(hb.FamilyNotFound) as caught:
            hb.create_tables(bed.store, model)
        assert (caught.value.table, caught.value.family) == ("halves", family)
        session.add(model(name="c", text="d"))
        with pytest.raises(hb.HbmodelError) as commit:
            session.commit()
        assert isinstance(commit.value if isinstance(commit.value, hb.FamilyNotFound) else commit.value.__cause__, hb.FamilyNotFound)
        session.discard()
        for read in (lambda model=model: session.get(model, name="a"), lambda model=model: session.query(model).allow_full_scan().all()):
            with pytest.raises(hb.FamilyNotFound):
                read()
    assert list(rows_of(bed.store, "halves")) == [b"a"]
