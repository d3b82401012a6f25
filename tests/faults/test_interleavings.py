"""Several writers of the same rows, their storage operations in any order: no index ever lacks a row, and none is
torn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.protocol.corrected_clock import CLOCK_BOUND, wall_time
from hbmodel.protocol.driver import perform
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed.indexed_write import insert_indexed, write_indexed_batch
from hbmodel.protocol.operations import Operation, Protocol
from hbmodel.protocol.writes import DeleteRow, UpdateFields, put_object
from hbmodel.store import Store
from tests.support.examples import examples
from tests.support.models import Person
from tests.support.scenarios import check_exact, check_queries, objects

SCHEMA = hb.schema.schema_of(Person)
CITIES = (None, "Oslo", "Rome")
STREETS = (None, "A", "B")


@frozen
class Clock:
    """A clock that does not move, `ahead` ms from the true time."""

    ahead: int

    def now(self, exact: bool = False) -> int:
        return NOW + self.ahead

    def ahead(self, timestamp: int) -> int | None:
        return None

    def fresh(self, since: int) -> bool:
        return True


NOW = wall_time()


class Writer:
    """One writer of one row, stopped before each of its storage operations.

    Attributes:
        acknowledged: whether the write may count on having happened.
    """

    def __init__(self, store: Store, kind: str, person: Person, ahead: int, atomic: bool) -> None:
        self.store = store
        writer = IndexedRowPlanner(SCHEMA, tuple(SCHEMA.indexes.values()), CLOCK_BOUND)
        key = {"name": person.name}
        row = hb.row_key(Person, **key)
        rounds: dict[str, Callable[[], Protocol[Any]]] = {
            "add": lambda: write_indexed_batch(writer, [put_object(SCHEMA, person)], atomic),
            "insert": lambda: insert_indexed(writer, put_object(SCHEMA, person)),
            "city": lambda: write_indexed_batch(
                writer, [UpdateFields(person, row, key, {"city": person.city})], atomic
            ),
            "street": lambda: write_indexed_batch(
                writer, [UpdateFields(person, row, key, {"street": person.street})], atomic
            ),
            "story": lambda: write_indexed_batch(
                writer, [UpdateFields(person, row, key, {"story": person.story})], atomic
            ),
            "delete": lambda: write_indexed_batch(writer, [DeleteRow(person, row)], atomic),
        }
        self.clock = Clock(ahead)
        self.protocol = rounds[kind]()
        self.operation: Operation | None = None
        self._advance(None)

    def step(self) -> None:
        """Carries out the next operation."""
        assert self.operation is not None
        self._advance(perform(self.store, self.operation, self.clock))

    def _advance(self, answer: Any) -> None:
        try:
            self.operation = self.protocol.send(answer)
        except (StopIteration, hb.RowExists):
            self.operation = None


def missing(store: Store) -> list[tuple[str, bytes]]:
    """Entries that live rows should have and have not."""
    keys = KeyMapper(SCHEMA)
    lacking = []
    for person in objects(store, Person).values():
        row = hb.row_key(Person, name=person.name)
        for index in SCHEMA.indexes.values():
            (entry,) = keys.entries(index, vars(person), row)
            if store.get(index.table, [entry])[0] is None:
                lacking.append((index.table, entry))
    return lacking


people = st.builds(
    Person,
    name=st.just("ann"),
    city=st.sampled_from(CITIES),
    street=st.sampled_from(STREETS),
    story=st.sampled_from(["", "long"]),
)
writers = st.tuples(
    st.sampled_from(["add", "add", "insert", "city", "street", "story", "delete"]),
    people,
    st.sampled_from([-3, 0, 0, 0, 2]),
)


@pytest.mark.lengthy
@settings(deadline=None, max_examples=examples(120))
@given(
    st.lists(writers, max_size=2),
    st.lists(writers, min_size=2, max_size=4),
    st.lists(st.integers(0, 3), max_size=40),
    st.booleans(),
    st.sets(st.integers(0, 3), max_size=1),
)
def test_any_order_of_storage_operations(
    before: list[Any], racing: list[Any], order: list[int], atomic: bool, dying: set[int]
) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Person)
        for kind, person, ahead in before:
            alone = Writer(store, kind, person, ahead, atomic)
            while alone.operation is not None:
                alone.step()
        active = [Writer(store, kind, person, ahead, atomic) for kind, person, ahead in racing]
        for number in order:
            if number < len(active) and active[number].operation is not None:
                active[number].step()
                assert missing(store) == []
        for number, writer in enumerate(active):
            while writer.operation is not None and number not in dying:
                writer.step()
                assert missing(store) == []
        check_queries(store, Person, [person for _, person, _ in racing])
        written = [person for _, person, _ in (*before, *racing)]
        for found in objects(store, Person).values():
            # Every field holds what somebody wrote: no half of a deleted row comes back as garbage.
            assert found.story in {"", *(person.story for person in written)}
            assert (found.city, found.street) in {(p.city, q.street) for p in written for q in written}


@pytest.mark.lengthy
@settings(deadline=None, max_examples=examples(60))
@given(st.lists(writers, min_size=1, max_size=5), st.booleans())
def test_writers_one_after_the_other_leave_exact_indexes(one_by_one: list[Any], atomic: bool) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Person)
        expected: Person | None = None
        for kind, person, ahead in one_by_one:
            writer = Writer(store, kind, person, ahead, atomic)
            while writer.operation is not None:
                writer.step()
            if kind == "add" or (kind == "insert" and expected is None):
                expected = person
            elif kind == "delete":
                expected = None
            elif kind != "insert" and expected is not None:
                values = {
                    "city": expected.city,
                    "street": expected.street,
                    "story": expected.story,
                    kind: getattr(person, kind),
                }
                expected = Person(name="ann", **values)
            assert objects(store, Person) == ({} if expected is None else {("ann",): expected})
            check_exact(store, Person)
