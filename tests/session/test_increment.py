"""Counters at the ends of their range, and with cells that hold no number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.session.calls.increment import CounterCell
from hbmodel.store import Put
from tests.support.beds import Bed, cells_of, fresh, rows_of
from tests.support.faulty import RecordingStore
from tests.support.models import Order, Person, Sample, order
from tests.support.strategies import numbers

LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@hb.model(table="tallies-at-ends")
class Tally:
    """Nothing but a counter: an increment reads nothing."""

    name: hb.Key[str] = hb.key()
    count: hb.Column[int] = hb.counter("c")


@hb.model(table="tallies-wide")
class WideTally:
    """The same in wide rows."""

    name: hb.Key[str] = hb.key()
    day: hb.Key[int] = hb.key(hb.codecs.UInt16, in_qualifier=True)
    count: hb.Column[int] = hb.counter("c")


MODELS = (Tally, WideTally, Order, Sample, Person)
COUNTERS: list[tuple[Any, Any]] = [
    (Tally(name="a"), Tally.count),
    (WideTally(name="a", day=1), WideTally.count),
    (order(1), Order.views),
    (Sample(station="s", label="l", level=1), Sample.seen),
    (Person(name="ann", city="Oslo"), Person.visits),
]
each_counter = pytest.mark.parametrize(("obj", "counter"), COUNTERS, ids=[repr(counter) for _, counter in COUNTERS])


def begun(session: hb.Session, obj: Any) -> hb.Session:
    """The session, with the object in its table unless an increment begins it."""
    if type(obj) not in {Tally, WideTally}:
        session.add(obj)
        session.commit()
    return session


def value_of(session: hb.Session, obj: Any, counter: Any) -> int:
    key = {of.name: getattr(obj, of.name) for of in hb.schema.schema_of(type(obj)).key_fields}
    number: int = getattr(session.get(type(obj), **key), counter.of.name)
    return number


def refused(session: hb.Session, obj: Any, counter: Any, amount: int) -> None:
    with pytest.raises(
        hb.errors.CounterOverflow, match="The sum would be beyond the 64 bits of a counter: the counter is unchanged"
    ) as caught:
        session.increment(obj, counter, amount)
    assert (caught.value.field, caught.value.unchanged) == (counter.of.name, True)


@each_counter
def test_a_row_given_by_its_key_is_that_of_the_object(bed: Bed, obj: Any, counter: Any) -> None:
    session = begun(bed.use(*MODELS), obj)
    key = {of.name: getattr(obj, of.name) for of in hb.schema.schema_of(type(obj)).key_fields}
    assert session.increment_key(type(obj), counter, **key) == 1
    assert session.increment(obj, counter, 4) == 5
    assert session.increment_key(type(obj), counter, -7, **key) == -2
    assert value_of(session, obj, counter) == -2


def test_a_key_is_checked_before_a_counter_is_incremented() -> None:
    store = fresh(WideTally, Person)
    session = hb.Session(store)
    with pytest.raises(hb.errors.IncompleteKey) as caught:
        session.increment_key(WideTally, WideTally.count, name="a")
    assert caught.value.missing == ["day"]
    with pytest.raises(hb.errors.UnknownField):
        session.increment_key(WideTally, WideTally.count, name="a", day=1, hour=2)
    with pytest.raises(hb.errors.UnknownField, match="takes a counter as an attribute of the model class"):
        session.increment_key(WideTally, Person.visits, name="a", day=1)
    with pytest.raises(hb.RowNotFound, match="There is no row with this key to increment"):
        session.increment_key(Person, Person.visits, name="nobody")
    assert cells_of(store, "tallies-wide") == cells_of(store, "people") == {}


@pytest.mark.every_store
@each_counter
def test_a_counter_stops_at_the_ends_of_its_range(bed: Bed, obj: Any, counter: Any) -> None:
    session = begun(bed.use(*MODELS), obj)
    assert session.increment(obj, counter, LARGEST) == LARGEST
    for amount in (1, 2, LARGEST):
        refused(session, obj, counter, amount)
        assert value_of(session, obj, counter) == LARGEST
    assert session.increment(obj, counter, -LARGEST) == 0
    assert session.increment(obj, counter, SMALLEST) == SMALLEST
    for amount in (-1, -LARGEST, SMALLEST):
        refused(session, obj, counter, amount)
        assert value_of(session, obj, counter) == SMALLEST
    assert session.increment(obj, counter, LARGEST) == -1


def overwrite(bed: Bed, table: str, row: bytes, column: bytes, value: bytes) -> None:
    """Puts a cell later than all cells of its row, some of which may be ahead of the clock."""
    bed.store.put(table, [Put(row, {column: value}, rows_of(bed.store, table)[row] + 1)])


@each_counter
def test_an_empty_cell_counts_as_zero_and_can_be_incremented(bed: Bed, obj: Any, counter: Any) -> None:
    session = begun(bed.use(*MODELS), obj)
    session.increment(obj, counter, 7)
    table = hb.schema.schema_of(type(obj)).table
    ((row, stored),) = cells_of(bed.store, table).items()
    (column,) = (column for column, value in stored.items() if value == (7).to_bytes(8, "big"))
    overwrite(bed, table, row, column, b"")
    assert value_of(session, obj, counter) == 0
    assert session.increment(obj, counter, -3) == -3
    assert value_of(session, obj, counter) == -3
    for value in (b"5", b"\x00\x00\x00\x05", b"123456789"):
        overwrite(bed, table, row, column, value)
        with pytest.raises(hb.DecodingError):
            value_of(session, obj, counter)
        with pytest.raises(hb.errors.InvalidRequest):
            session.increment(obj, counter)
        assert cells_of(bed.store, table)[row][column] == value


def test_a_program_without_the_counter_may_have_emptied_it(bed: Bed) -> None:
    @hb.model(table="people", family="p")
    class Before:
        name: hb.Key[str] = hb.key()
        city: hb.Column[str | None] = hb.column("c", default=None)
        street: hb.Column[str | None] = hb.column("s", default=None)
        story: hb.Column[str] = hb.column("t", family="x", default="")

        by_place = hb.index("city", "street")

    session, ann = bed.use(Person), Person(name="ann", city="Oslo")
    session.add(ann)
    session.commit()
    session.increment(ann, Person.visits, 5)
    overwrite(bed, "people", b"ann", b"p:_l", b"\x00deadrow.")
    older = hb.Session(bed.store)
    older.add(Before(name="ann", city="Rome"))
    older.commit()
    assert cells_of(bed.store, "people")[b"ann"][b"x:v"] == b""
    assert value_of(session, ann, Person.visits) == 0
    assert session.increment(ann, Person.visits, 2) == 2
    assert value_of(session, ann, Person.visits) == 2


def test_an_increment_costs_no_further_call() -> None:
    store = fresh(*MODELS)
    session = hb.Session(store)
    begun(session, order(1)).increment(order(1), Order.views)
    session.increment(Tally(name="a"), Tally.count, LARGEST)
    store.told()
    session.increment(order(1), Order.views)
    assert store.told() == ["get orders", "increment orders"]
    session.increment(Tally(name="a"), Tally.count, -5)
    assert store.told() == ["increment tallies-at-ends"]
    session.increment(order(1), Order.views, LARGEST - 2)
    store.told()
    refused(session, order(1), Order.views, 1)
    assert store.told() == ["get orders"]
    refused(session, Tally(name="a"), Tally.count, 6)
    assert store.told() == ["increment tallies-at-ends"] * 2


class Interrupted(RecordingStore):
    """Does something after the first increment."""

    then: Callable[[], Any] | None = None

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        value = super().increment(table, row, column, amount)
        then, self.then = self.then, None
        if then is not None:
            then()
        return value


def interrupted(value: int) -> tuple[Interrupted, hb.Session, Callable[[int], int]]:
    """A store, a session, and what another program does to the counter."""
    store = Interrupted(hb.connect("memory:"))
    hb.create_tables(store, Tally)
    session = hb.Session(store)
    session.increment(Tally(name="a"), Tally.count, value)
    return store, session, lambda amount: store.inner.increment("tallies-at-ends", b"a", b"d:c", amount)


def test_undoing_takes_back_its_own_amount_only() -> None:
    store, session, other = interrupted(LARGEST - 10)
    store.then = lambda: other(-4)
    refused(session, Tally(name="a"), Tally.count, 20)
    assert value_of(session, Tally(name="a"), Tally.count) == LARGEST - 14


def test_what_others_add_to_a_wrapped_counter_is_told() -> None:
    store, session, other = interrupted(LARGEST)
    store.then = lambda: other(1)
    with pytest.raises(
        hb.errors.CounterOverflow, match="Another program changed the counter in between, so it may have wrapped"
    ) as caught:
        session.increment(Tally(name="a"), Tally.count)
    assert caught.value.unchanged is False
    assert value_of(session, Tally(name="a"), Tally.count) == SMALLEST  # the other program's increment alone


def test_an_increment_that_cannot_be_undone_is_told() -> None:
    store, session, _ = interrupted(LARGEST)

    def broken() -> None:
        def increment(*_: Any) -> int:
            raise hb.UnknownOutcome("The connection broke.")

        store.increment = increment  # type: ignore[method-assign]

    store.then = broken
    with pytest.raises(hb.errors.CounterOverflow, match="undoing it failed: the counter may have wrapped") as caught:
        session.increment(Tally(name="a"), Tally.count)
    assert caught.value.unchanged is False
    assert isinstance(caught.value.__cause__, hb.UnknownOutcome)


@pytest.mark.lengthy
@given(numbers(SMALLEST, LARGEST), st.lists(numbers(SMALLEST, LARGEST), max_size=6))
def test_sums_are_exact_or_refused(first: int, amounts: list[int]) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Tally)
        cell = CounterCell(store, "tallies-at-ends", b"a", b"d:c", "count")
        assert cell.add(first) == first
        for amount in amounts:
            if SMALLEST <= first + amount <= LARGEST:
                first += amount
                assert cell.add(amount) == first
            else:
                with pytest.raises(hb.errors.CounterOverflow):
                    cell.add(amount)
            assert cell.add(0) == first
