"""Bulk loading: batches, order, failures and memory."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.session.commit.bulk_add import BATCH_BYTES
from tests.support.beds import Bed, fresh, rows_of
from tests.support.faulty import FaultyStore, RecordingStore
from tests.support.models import DAY, Fact, Hit, Logged, Order, Sample, day, order
from tests.support.scenarios import check_exact, objects


def samples(count: int, length: int = 1) -> Iterator[Sample]:
    return (Sample(station="s", label=f"{n:06}", level=n, remark="r" * length) for n in range(count))


def sizes(store: RecordingStore, table: str) -> list[int]:
    """Rows of each put into a table."""
    return [len(call.items) for call in store.calls if call.name == "put" and call.table == table]


def test_everything_is_written_and_counted(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    told: list[int] = []
    loaded = session.bulk_add(
        (order(n, f"state {n % 3}", customer=n % 5) for n in range(250)), batch_size=100, progress=told.append
    )
    assert (loaded, told) == (250, [100, 200, 250])
    assert sizes(bed.store, "orders") == [100, 100, 50]
    assert session.query(Order).allow_full_scan().count() == 250
    assert session.query(Order).where(Order.state == "state 1").count() == 83
    check_exact(bed.store, Order)
    assert session.bulk_add(samples(30)) == 30
    assert session.query(Sample).where(Sample.station == "s").count() == 30
    assert session.bulk_add([]) == 0


def test_the_last_of_a_repeated_key_wins_across_batches(bed: Bed) -> None:
    session = bed.use(Order)
    assert session.bulk_add((order(n % 4, f"round {n // 4}") for n in range(40)), batch_size=7) == 40
    assert {found.state for found in session.query(Order).allow_full_scan()} == {"round 9"}
    assert session.query(Order).where(Order.state == "round 9").count() == 4
    check_exact(bed.store, Order)


def test_repeating_a_load_is_safe(bed: Bed) -> None:
    session = bed.use(Order, Hit)
    for _ in range(2):
        assert session.bulk_add(order(n) for n in range(20)) == 20
        assert session.bulk_add(Hit(at=DAY, serial=n, page="/") for n in range(20)) == 20
    assert session.query(Order).where(Order.state == "new").count() == 20
    assert session.query(Hit).where(Hit.page == "/").count() == 20
    assert [hit.serial for hit in session.query(Hit).where(Hit.at == DAY)] == list(range(20))
    check_exact(bed.store, Order)


def test_a_load_leaves_what_is_pending_alone(bed: Bed) -> None:
    session = bed.use(Order)
    session.add(order(1, "pending"))
    session.bulk_add([order(2)])
    assert [found.number for found in session.query(Order).allow_full_scan()] == [2]
    session.commit()
    assert [found.number for found in session.query(Order).allow_full_scan()] == [2, 1]


def test_objects_of_several_models_may_be_mixed(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    mixed = [thing for n in range(10) for thing in (order(n), Sample(station="s", label=str(n), level=n))]
    assert session.bulk_add(mixed, batch_size=6) == 20
    assert session.query(Order).allow_full_scan().count() == session.query(Sample).allow_full_scan().count() == 10


@pytest.mark.lengthy
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 9), st.integers(0, 12), st.integers())
def test_shuffling_keeps_the_last_of_every_key(numbers: list[int], batch_size: int, shuffle: int, seed: int) -> None:
    told: list[int] = []
    with fresh(Order) as store:
        random.seed(seed)
        session = hb.Session(store)
        loaded = session.bulk_add(
            (order(n, f"turn {turn}") for turn, n in enumerate(numbers)),
            batch_size=batch_size,
            shuffle=shuffle,
            progress=told.append,
        )
        assert loaded == len(numbers)
        assert {n: found.state for (_, _, n), found in objects(store, Order).items()} == {
            n: f"turn {turn}" for turn, n in enumerate(numbers)
        }
        check_exact(store, Order)
    assert told == sorted(told)
    assert told[-1:] == [len(numbers)][: len(numbers)]
    assert all(size <= batch_size for size in sizes(store, "orders"))


def test_shuffling_keeps_the_last_of_a_key_under_a_random_salt() -> None:
    with fresh(Logged) as store:
        for _ in range(20):
            hb.Session(store).bulk_add((Logged(serial=1, page=page) for page in "abcdef"), shuffle=6)
            (found,) = hb.Session(store).query(Logged).allow_full_scan()
            assert found.page == "f"
            with hb.Session(store) as session:
                session.delete(found)


@hb.model(table="shelves", family="d")
class Shelf:
    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")
    books: hb.Map[str, int] = hb.map_column("b", factory=dict)


@pytest.mark.parametrize("shuffle", [0, 2, 10])
@pytest.mark.parametrize("batch_size", [1, 10])
def test_shuffling_keeps_the_entries_of_every_object_of_a_key(shuffle: int, batch_size: int) -> None:
    objs = [Shelf(name="abab"[n], size=n, books={f"book {n}": n}) for n in range(4)]
    with fresh(Shelf) as store:
        session = hb.Session(store)
        assert session.bulk_add(objs, batch_size=batch_size, shuffle=shuffle) == 4
        (a, b) = session.query(Shelf).allow_full_scan().load(Shelf.books)
        assert (a.size, a.books) == (2, {"book 0": 0, "book 2": 2})
        assert (b.size, b.books) == (3, {"book 1": 1, "book 3": 3})


def test_sorted_input_is_mixed_within_a_window() -> None:
    with fresh(Sample) as store:
        hb.Session(store).bulk_add(samples(1000), batch_size=50, shuffle=500)
        puts = [int(put.row[-6:]) for call in store.calls if call.name == "put" for put in call.items]
    assert puts != sorted(puts)
    assert sorted(puts[:500]) == list(range(500))
    first = sorted(puts[:50])
    assert first[-1] - first[0] > 250  # a batch reaches over the window: the chance that it does not is below 1e-13


@pytest.mark.lengthy
def test_batches_are_bounded_in_bytes_too() -> None:
    with fresh(Sample) as store:
        length = BATCH_BYTES // 10
        assert hb.Session(store).bulk_add(samples(25, length)) == 25
        assert sizes(store, "samples") == [10, 10, 5]
        store.calls.clear()
        assert hb.Session(store).bulk_add(samples(3, BATCH_BYTES + 1)) == 3
        assert sizes(store, "samples") == [1, 1, 1]


@pytest.mark.lengthy
@pytest.mark.parametrize("shuffle", [0, 100])
def test_input_streams_in_bounded_memory(shuffle: int) -> None:
    class Sink(RecordingStore):
        """Takes puts and forgets them."""

        def put(self, table: str, puts: Any) -> None:
            return

    with fresh(Sample) as store:
        session = hb.Session(Sink(store))

        def peak(count: int) -> int:
            read = 0
            ahead: list[int] = []

            def watched() -> Iterator[Sample]:
                nonlocal read
                for sample in samples(count, 500):
                    read += 1
                    yield sample

            tracemalloc.reset_peak()
            assert (
                session.bulk_add(
                    watched(), batch_size=50, shuffle=shuffle, progress=lambda written: ahead.append(read - written)
                )
                == count
            )
            assert max(ahead) <= shuffle
            return tracemalloc.get_traced_memory()[1]

        tracemalloc.start()
        try:
            few = peak(500)
            assert peak(4_000) < 2 * few
        finally:
            tracemalloc.stop()


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failure_says_how_many_leading_objects_are_written() -> None:
    with fresh(Sample) as inner:
        store = FaultyStore(inner, at=3, mode="first half")
        told: list[int] = []
        with pytest.raises(hb.PartialWrite) as caught:
            hb.Session(store).bulk_add(samples(50), batch_size=10, progress=told.append)
        error = caught.value
        assert (error.position, told) == (20, [10, 20])
        assert isinstance(error.__cause__, hb.PartialWrite)
        assert [sample.level for sample in error.pending] == list(range(20, 30))
        assert error.applied == error.failures == []
        assert len(rows_of(inner, "samples")) == 25
        hb.Session(store).bulk_add(samples(50), batch_size=10)
        assert len(rows_of(inner, "samples")) == 50


def test_a_failure_before_anything_is_sent_is_the_stores_own() -> None:
    with fresh(Order) as inner:
        with pytest.raises(hb.StoreUnavailable):
            hb.Session(FaultyStore(inner, at=0)).bulk_add(order(n) for n in range(5))
        with pytest.raises(hb.StoreUnavailable):
            hb.Session(FaultyStore(inner, at=1)).bulk_add(order(n) for n in range(5))
        assert rows_of(inner, "orders") == rows_of(inner, "orders.by_state") == {}


def test_a_failure_within_a_window_says_that_something_may_be_written() -> None:
    with fresh(Order) as inner:
        store = FaultyStore(inner, at=7)  # reads the second batch
        with pytest.raises(hb.PartialWrite) as caught:
            hb.Session(store).bulk_add((order(n) for n in range(20)), batch_size=5, shuffle=20)
        assert str(store.calls[-1]) == "get orders"
        assert caught.value.position == 0
        assert len(caught.value.pending) == 5
        assert isinstance(caught.value.__cause__, hb.StoreUnavailable)
        assert len(rows_of(inner, "orders")) == 5


@pytest.mark.parametrize("batch_size", [1, 10])
def test_a_row_that_cannot_be_written_is_told(batch_size: int) -> None:
    with fresh(Order) as store:
        row = hb.row_key(Order, customer=1, at=day(25), number=25)
        store.put("orders", [hb.store.Put(row, {b"d:n": b"from the future"}, 2**62)])
        with pytest.raises(hb.PartialWrite) as caught:
            hb.Session(store).bulk_add((order(n) for n in range(50)), batch_size=batch_size)
        error = caught.value
        assert error.position == (20 if batch_size == 10 else 25)
        if batch_size == 10:
            assert [outcome.key for outcome in error.failures] == [row]
            assert (len(error.applied), error.pending) == (9, [])
        else:
            assert [o.number for o in error.pending] == [25]
            assert isinstance(error.__cause__, hb.errors.ClockError)
        assert error.reason is not None
        assert error.reason.startswith("ClockError: The row has a cell")
        assert hb.Session(store).query(Order).allow_full_scan().count() == error.position + len(error.applied)


@pytest.mark.parametrize("shuffle", [0, 4])
def test_an_object_that_cannot_be_stored_is_named_by_its_place(shuffle: int) -> None:
    objs = [Sample(station="s", label=str(n), level=n if n != 25 else 2**40) for n in range(50)]
    with fresh(Sample) as store:
        with pytest.raises(hb.EncodingError) as caught:
            hb.Session(store).bulk_add(objs, batch_size=10, shuffle=shuffle)
        assert (caught.value.field, caught.value.position, caught.value.written) == ("level", 25, 20)
        assert len(rows_of(store, "samples")) == 20
        with pytest.raises(hb.DeclarationError) as strange:
            hb.Session(store).bulk_add([objs[0], "no object"])
        assert strange.value.position == 1


def test_an_error_of_the_input_passes_through() -> None:
    def broken() -> Iterator[Sample]:
        yield from samples(15)
        raise ValueError("the file ends here")

    with fresh(Sample) as store:
        session = hb.Session(store)
        with pytest.raises(ValueError, match="the file ends here"):
            session.bulk_add(broken(), batch_size=10)
        assert len(rows_of(store, "samples")) == 10
        assert session.commit() == []


@hb.model(table="loaded_accounts", family="d")
class Account:
    name: hb.Key[str] = hb.key()
    mail: hb.Column[str] = hb.column("m")
    age: hb.Column[int] = hb.column("a", hb.Int32)
    version: hb.Column[int] = hb.version()
    by_mail = hb.index("mail", unique=True)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=40),
    st.integers(1, 9),
    st.integers(0, 12),
)
def test_refused_objects_are_left_out_and_told(drawn: list[tuple[int, bool]], batch_size: int, shuffle: int) -> None:
    """Objects that cannot be stored, among others with the same keys."""
    objs = [Sample(station="s", label=str(n), level=at if fits else 2**40) for at, (n, fits) in enumerate(drawn)]
    refused: list[tuple[Sample, Any]] = []
    told: list[int] = []
    with fresh(Sample) as store:
        written = hb.Session(store).bulk_add(
            objs,
            batch_size=batch_size,
            shuffle=shuffle,
            progress=told.append,
            on_refused=lambda obj, error: refused.append((obj, error)),
        )
        left = {obj.label: obj.level for obj in hb.Session(store).query(Sample).allow_full_scan()}
    fitting = [obj for obj in objs if obj.level < 2**40]
    assert written == len(fitting)
    assert left == {obj.label: obj.level for obj in fitting}
    assert [obj for obj, _ in refused] == [obj for obj in objs if obj.level == 2**40]
    assert all(objs[error.position] is obj and error.field == "level" for obj, error in refused)
    assert told == sorted(told)
    assert told[-1:] == [len(objs)][: len(objs)]


@pytest.mark.parametrize("batch_size", [1, 2, 10])
@pytest.mark.parametrize("shuffle", [0, 2, 10])
def test_a_refused_object_leaves_an_earlier_one_with_its_key(batch_size: int, shuffle: int) -> None:
    objs = [Account(name=name, mail=mail, age=1) for name, mail in [("a", "m1"), ("b", "m2"), ("a", "m0"), ("c", "m3")]]
    refused: list[Account] = []
    with fresh(Account) as store:
        session = hb.Session(store)
        session.bulk_add([Account(name="old", mail="m0", age=1)])
        written = session.bulk_add(
            objs, batch_size=batch_size, shuffle=shuffle, on_refused=lambda obj, error: refused.append(obj)
        )
        left = {each.name: each.mail for each in session.query(Account).allow_full_scan()}
    assert (written, refused) == (3, [objs[2]])
    assert left == {"old": "m0", "a": "m1", "b": "m2", "c": "m3"}


@pytest.mark.parametrize("batch_size", [1, 3, 10])
def test_rows_that_the_store_refuses_are_left_out_and_told(batch_size: int) -> None:
    refused: dict[str, Exception] = {}
    accounts = [Account(name=f"n{n}", mail=f"m{n}", age=n if n != 4 else 2**40) for n in range(10)]
    with fresh(Account) as store:
        session = hb.Session(store)
        session.bulk_add([Account(name="old", mail="m2", age=1)])
        written = session.bulk_add(
            accounts, batch_size=batch_size, on_refused=lambda obj, error: refused.setdefault(obj.name, error)
        )
        left = {f"n{n}" for n in range(10)} - refused.keys()
        assert {each.name for each in session.query(Account).allow_full_scan()} == {"old", *left}
        assert [each.name for each in session.query(Account).where(Account.mail == "m2")] == ["old"]
    assert written == len(left)
    assert {name: type(error) for name, error in refused.items()} == {
        "n2": hb.UniqueViolation,
        "n4": hb.EncodingError,
    }


def domain_of(mail: str) -> str:
    return mail.split("@")[1]


@hb.model(table="bulk_computed", family="d")
class Mailed:
    name: hb.Key[str] = hb.key()
    mail: hb.Column[str] = hb.column("m")
    domain = hb.computed(domain_of, of="mail")

    by_domain = hb.index("domain", "name")


def test_an_object_whose_field_cannot_be_computed_is_left_out_and_told() -> None:
    refused: list[tuple[Mailed, Exception]] = []
    bad, good = Mailed(name="a", mail="nowhere"), Mailed(name="b", mail="b@example.org")
    with fresh(Mailed) as store:
        session = hb.Session(store)
        assert session.bulk_add([bad, good], on_refused=lambda obj, error: refused.append((obj, error))) == 1
        assert session.query(Mailed).allow_full_scan().all() == [good]
    ((obj, error),) = refused
    assert (obj, type(error)) == (bad, hb.errors.ComputedFieldError)


def test_all_of_a_batch_may_be_refused() -> None:
    refused: list[Account] = []
    accounts = [Account(name=f"n{n}", mail=f"m{n}", age=n) for n in range(6)]
    with fresh(Account) as store:
        session = hb.Session(store)
        session.bulk_add(Account(name=f"old {n}", mail=f"m{n}", age=1) for n in range(3))
        assert session.bulk_add(accounts, batch_size=3, on_refused=lambda obj, error: refused.append(obj)) == 3
    assert refused == accounts[:3]


def test_a_failure_of_the_store_ends_a_load_that_leaves_refused_objects_out() -> None:
    refused: list[Account] = []
    with fresh(Account) as inner:
        hb.Session(inner).bulk_add([Account(name="old", mail="m1", age=1)])
        accounts = [Account(name=f"n{n}", mail=f"m{n}", age=n) for n in range(10)]
        with pytest.raises(hb.PartialWrite) as caught:
            hb.Session(FaultyStore(inner, at=12)).bulk_add(
                accounts, batch_size=2, on_refused=lambda obj, error: refused.append(obj)
            )
        assert refused == [accounts[1]]
        assert 2 <= (caught.value.position or 0) < 10
        position = caught.value.position
        assert {f"n{n}" for n in range(10) if n < (position or 0) and n != 1} <= {
            each.name for each in hb.Session(inner).query(Account).allow_full_scan()
        }


def test_an_exception_of_the_function_ends_the_load() -> None:
    def stop(obj: object, error: Exception) -> None:
        raise ValueError("too many")

    objs = [Sample(station="s", label=str(n), level=n if n != 25 else 2**40) for n in range(50)]
    with fresh(Sample) as store:
        with pytest.raises(ValueError, match="too many"):
            hb.Session(store).bulk_add(objs, batch_size=10, on_refused=stop)
        assert len(rows_of(store, "samples")) == 20
        wrong: Any = "skip"
        with pytest.raises(hb.SessionError, match="on_refused takes a function"):
            hb.Session(store).bulk_add(objs, on_refused=wrong)
        with pytest.raises(hb.EncodingError, match="The TTL is not positive"):  # so no object can be stored
            hb.Session(store).bulk_add(objs, ttl=timedelta(0), on_refused=lambda obj, error: None)
        with pytest.raises(hb.DeclarationError):  # no object at all: a mistake of the program
            hb.Session(store).bulk_add([objs[0], "no object"], on_refused=lambda obj, error: None)


@pytest.mark.parametrize(
    "sizes", [{"batch_size": 0}, {"batch_size": 1.5}, {"shuffle": -1}, {"shuffle": True}, {"batch_size": "many"}]
)
def test_sizes_that_make_no_sense(sizes: dict[str, Any]) -> None:
    with (
        fresh(Sample) as store,
        pytest.raises(hb.SessionError, match="batch_size must be a number of at least 1, and shuffle of"),
    ):
        hb.Session(store).bulk_add(samples(1), **sizes)


def test_sizes_may_be_numpys_integers() -> None:
    with fresh(Sample) as store:
        many: Any = np.int64(2)
        assert hb.Session(store).bulk_add(samples(5), batch_size=many, shuffle=many) == 5
        assert sizes(store, "samples") == [2, 2, 1]


def test_sizes_may_be_larger_than_any_input() -> None:
    with fresh(Sample) as store:
        assert hb.Session(store).bulk_add(samples(5), batch_size=2**70, shuffle=2**70) == 5


# --- round trips ------------------------------------------------------------------------------------------------------


def test_a_batch_costs_one_call_per_table_and_phase() -> None:
    with fresh(Order, Fact) as store:
        session = hb.Session(store)
        session.bulk_add((order(n) for n in range(30)), batch_size=10)
        batch = ["get orders", "put orders.by_state", "put orders.by_amount", "put orders"]
        assert store.told() == ["get hbmodel", "get orders", "put hbmodel", "get hbmodel", *batch[1:], *batch, *batch]
        session.bulk_add((Fact(number=n, topic="t") for n in range(20)), batch_size=10)
        assert store.told() == ["get hbmodel", *["put facts.by_topic", "put facts", "put facts.by_topic"] * 2]
