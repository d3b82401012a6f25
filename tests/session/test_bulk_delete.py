"""Deleting the items of a query: every path, concurrent writes, failures, progress and memory."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import DecodingError
from hbmodel.store import Put
from tests.support.beds import HBASE, Bed, fresh
from tests.support.examples import examples
from tests.support.faulty import FaultyStore
from tests.support.models import Order, order
from tests.support.scenarios import check_exact
from tests.support.things import DRAWN, KEYS, MUTABLE, Asked, Values, asked, key_of, things, values_of


@hb.model(table="deleted_log", salt=hb.HashSalt(2, by=("day",)))
class Entry:
    """Without an index."""

    day: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t", default="")
    note: hb.Column[str | None] = hb.column("n", default=None)


@hb.model(table="deleted_jobs")
class Job:
    name: hb.Key[str] = hb.key()
    state: hb.Column[str] = hb.column("s")
    version: hb.Column[int] = hb.version()

    first = hb.computed(lambda state: state[:1], of="state", codec=hb.Text)
    by_state = hb.index("state")


@hb.model(table="deleted_pets")
class Pet:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(hb.Text, in_qualifier=True)
    kind: hb.Column[str] = hb.column("k")


def test_everything_that_the_query_finds_goes_and_nothing_else(bed: Bed) -> None:
    session = bed.use(Order, Entry, Pet)
    session.bulk_add(order(n, ("odd", "even")[n % 2], customer=n % 3) for n in range(60))
    reported: list[int] = []
    assert session.query(Order).where(Order.state == "odd").delete(batch_size=8, progress=reported.append) == 30
    assert reported == [8, 16, 24, 30]
    assert session.query(Order).allow_full_scan().count() == 30
    check_exact(bed.store, Order)
    assert session.query(Order).where(Order.customer == 1).offset(2).limit(3).delete(batch_size=2) == 3
    assert session.query(Order).where(Order.customer == 1).count() == 7
    assert session.query(Order).where(Order.state == "odd").delete(progress=reported.append) == 0
    session.bulk_add(Entry(day=n % 2, number=n) for n in range(20))
    assert session.query(Entry).where(Entry.day == 1, Entry.number > 10).reversed().delete(batch_size=3) == 5
    assert [entry.number for entry in session.query(Entry).where(Entry.day == 1)] == [1, 3, 5, 7, 9]
    session.bulk_add(Pet(owner=owner, name=name, kind="cat") for owner in "ab" for name in ("tom", "tim", "ina"))
    assert session.query(Pet).where(Pet.owner == "a", Pet.name.startswith("t")).delete() == 2
    assert [(pet.owner, pet.name) for pet in session.query(Pet).allow_full_scan()] == [
        ("a", "ina"),
        *(("b", n) for n in ("ina", "tim", "tom")),
    ]


@pytest.mark.lengthy
@settings(
    max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(
    model=st.sampled_from([*MUTABLE, DRAWN]),
    written=st.lists(things, max_size=16, unique_by=key_of),
    question=asked,
    size=st.integers(1, 5),
)
def test_any_query(model: Any, written: list[Values], question: Asked, size: int) -> None:
    with fresh(model) as store:
        session = hb.Session(store)
        session.bulk_add(model(**values) for values in written)
        found = {key_of(values) for values in question.answer(question.query(session, model), written)}
        assert question.query(session, model).delete(batch_size=size) == len(found)
        kept = [values for values in written if key_of(values) not in found]
        left = {key_of(values): values for values in map(values_of, session.query(model).allow_full_scan())}
        assert left == {key_of(values): values for values in kept}
        for name in hb.schema.schema_of(model).indexes:
            through = session.query(model).use_index(name).allow_full_scan()
            assert sorted(map(repr, (key_of(values_of(obj)) for obj in through))) == sorted(
                repr(key_of(values)) for values in kept
            )
        assert all(session.get(model, **dict(zip(KEYS, key, strict=True))) is None for key in found)


def test_a_delete_leaves_what_is_pending_alone() -> None:
    with fresh(Entry) as store:
        session = hb.Session(store)
        session.bulk_add(Entry(day=1, number=n) for n in range(3))
        session.add(Entry(day=1, number=9))
        assert session.query(Entry).where(Entry.day == 1).delete() == 3
        session.commit()
        assert [entry.number for entry in session.query(Entry).where(Entry.day == 1)] == [9]


def test_a_part_of_a_query_is_deleted() -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        session.bulk_add(order(n, customer=n % 5) for n in range(50))
        parts = session.query(Order).allow_full_scan().partitions(2)
        first = session.read_partition(parts[0])
        count = first.count()
        assert 0 < count < 50
        assert first.delete(batch_size=7) == count
        assert session.query(Order).allow_full_scan().count() == 50 - count


@pytest.mark.parametrize("bed", ["memory", "embedded", HBASE[1]], indirect=True)
def test_a_versioned_row_that_was_changed_meanwhile_stays(bed: Bed) -> None:
    session = bed.use(Job)
    session.add_all(Job(name=f"{n:02}", state="done") for n in range(9))
    session.commit()
    other = hb.Session(bed.store)

    def take_one(deleted: int) -> None:
        if deleted == 4:
            other.update_key(Job, name="05", state="open")
            other.commit()

    assert session.query(Job).where(Job.state == "done").delete(batch_size=4, progress=take_one) == 8
    assert [(job.name, job.state) for job in session.query(Job).allow_full_scan()] == [("05", "open")]


def test_the_condition_of_a_delete_is_the_query() -> None:
    """Between the read of a page and its deletes a row changes; all rows of the page may."""
    with fresh(Job) as store:
        session, other = hb.Session(store), hb.Session(store)
        for changed in (["a"], ["a", "b"]):
            session.add_all(Job(name=name, state="done") for name in "ab")
            session.commit()
            query = session.query(Job).where(Job.first == "d").allow_full_scan()
            page = query._source.page

            def reading(*arguments: Any, page: Any = page, changed: list[str] = changed) -> Any:
                found = page(*arguments)
                for name in changed:
                    other.update_key(Job, name=name, state="open")
                other.commit()
                return found

            query._source.page = reading  # type: ignore[method-assign]
            try:
                assert query.delete() == 2 - len(changed)
            finally:
                query._source.page = page  # type: ignore[method-assign]
            assert sorted(job.name for job in session.query(Job).allow_full_scan()) == changed
            assert session.query(Job).allow_full_scan().delete() == len(changed)


@pytest.mark.lengthy
@pytest.mark.parametrize("mode", ["before", "after", "first half"])
def test_a_failure_says_how_many_are_deleted_and_repeating_is_safe(mode: Any) -> None:
    reported, said = set(), set()
    for at in range(16):
        with FaultyStore(hb.connect("memory:"), mode=mode) as store:
            hb.create_tables(store, Order)
            session = hb.Session(store)
            session.bulk_add(order(n, "odd") for n in range(10))
            query = session.query(Order).where(Order.state == "odd")
            query.count()
            store.at = len(store.calls) + at
            certain = 0
            try:
                query.delete(batch_size=4)
            except hb.HbmodelError as error:
                certain = error.deleted or 0
                reported.add((type(error), certain))
                said.add(error.message.partition(":")[0])
            store.at = None
            remaining = hb.Session(store).query(Order).allow_full_scan().count()
            assert query.delete() == remaining <= 10 - certain
            assert hb.Session(store).query(Order).allow_full_scan().count() == 0
    assert {certain for kind, certain in reported if kind is hb.PartialWrite} >= {4, 8}
    assert "The delete stopped" in said


@pytest.mark.parametrize(
    ("failing", "call", "deleted", "key"),
    [(2, "delete", 0, 0), (3, "scan", 4, None), (4, "get", 4, None), (5, "delete", 4, 4)],
)
def test_a_failed_delete_names_the_first_key_and_the_reason(
    failing: int, call: str, deleted: int, key: int | None
) -> None:
    """Each page is a scan, a get and a delete; where a read fails no key is to blame."""
    with FaultyStore(hb.connect("memory:"), mode="first half") as store:
        hb.create_tables(store, Entry)
        session = hb.Session(store)
        session.bulk_add(Entry(day=1, number=n) for n in range(10))
        query = session.query(Entry).where(Entry.day == 1)
        query.count()
        store.at = len(store.calls) + failing
        with pytest.raises(hb.PartialWrite) as caught:
            query.delete(batch_size=4)
        assert str(store.calls[-1]) == f"{call} deleted_log"
        error = caught.value
        assert error.deleted == deleted
        assert (error.reason or "").startswith(
            "StoreUnavailable: The gateway is away" if key is None else "UnknownOutcome: The connection broke"
        )
        row = None if key is None else hb.row_key(Entry, day=1, number=key)
        assert error.key == row
        head, last = str(error).splitlines()
        assert last == f"reason: {error.reason}"
        assert head.endswith(f"deleted={deleted}]")
        assert f"key={row!r}" in head if row is not None else "key=" not in head


def test_a_failed_delete_names_the_row_that_was_refused() -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        session.bulk_add(order(n, "odd") for n in range(10))
        row = hb.row_key(Order, customer=1, at=order(3).at, number=3)
        store.put("orders", [hb.store.Put(row, {b"d:n": b"from the future"}, 2**62)])
        with pytest.raises(hb.PartialWrite) as caught:
            session.query(Order).where(Order.state == "odd").delete(batch_size=4)
        error = caught.value
        assert (error.key, error.deleted, len(error.applied)) == (row, 7, 3)
        head, last = str(error).splitlines()
        assert f"applied=3, pending=0, failures=1, key={row!r}, deleted=7]" in head
        assert last.startswith(
            "reason: ClockError: The row has a cell whose timestamp is further in the future than the clock bound"
        )
        assert [found.number for found in session.query(Order).where(Order.state == "odd")] == [3, 1, 0]


@hb.model(table="covered_orders", family="d")
class Covered:
    """A versioned model with an index from which whole objects are read."""

    shop: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32)
    total: hb.Column[int] = hb.column("n", hb.Int32)
    tag: hb.Column[str | None] = hb.column("t", default=None)
    version: hb.Column[int] = hb.version()
    by_total = hb.index("total", covers=("tag",))


def damaged() -> hb.Store:
    """A store with twenty objects, of which one has a damaged row and a sound entry."""
    store = fresh(Covered)
    with hb.Session(store) as session:
        session.add_all(Covered(shop="a", number=n, total=1) for n in range(20))
    store.put("covered_orders", [Put(hb.row_key(Covered, shop="a", number=7), {b"d:n": b"xx"})])
    return store


@pytest.mark.parametrize("size", [1, 3, 1000])  # a commit whose only call fails raises the error of the call
def test_a_row_that_only_its_entry_shows_to_be_readable_is_kept_and_reported(size: int) -> None:
    store, errors = damaged(), list[Any]()
    query = hb.Session(store).query(Covered).where(Covered.total == 1).on_unreadable(errors.append)
    assert query.delete(batch_size=size) == 19
    (error,) = errors
    assert isinstance(error, DecodingError)
    assert error.key == hb.row_key(Covered, shop="a", number=7)
    assert store.get("covered_orders", [error.key])[0].columns[b"d:n"].value == b"xx"  # type: ignore[union-attr]


def test_the_deletes_of_the_last_commit_are_counted_too() -> None:
    query = hb.Session(damaged()).query(Covered).where(Covered.total == 1)
    with pytest.raises(hb.PartialWrite) as caught:
        query.delete()
    assert (caught.value.deleted, len(caught.value.failures)) == (19, 1)


def test_what_is_refused() -> None:
    with fresh(Entry) as store:
        session = hb.Session(store)
        with pytest.raises(hb.FullScanRefused):
            session.query(Entry).where(Entry.text == "x").delete()
        with pytest.raises(hb.QueryError, match="whole objects"):
            session.query(Entry).where(Entry.day == 1).select(Entry.day).delete()
        for size in (0, -1, True, 1.5, None):
            with pytest.raises(hb.QueryError, match="at least one"):
                session.query(Entry).where(Entry.day == 1).delete(batch_size=size)  # type: ignore[arg-type]
        session.close()
        with pytest.raises(hb.errors.SessionClosed):
            session.query(Entry).where(Entry.day == 1).delete()


def peak(path: Path, count: int) -> int:
    """The maximum memory, in bytes, for deleting a number of rows of a file."""
    with hb.connect(f"embedded:{path / str(count)}") as store:
        session = hb.Session(store)
        hb.create_tables(store, Entry)
        session.bulk_add(Entry(day=n % 2, number=n, text="x" * 50) for n in range(count))
        query = session.query(Entry).where(Entry.day.in_([0, 1]))
        query.limit(1).delete()
        tracemalloc.start()
        try:
            assert query.delete(batch_size=500) == count - 1
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.lengthy
def test_memory_is_that_of_a_page(tmp_path: Path) -> None:
    assert peak(tmp_path, 6_000) < 1.5 * peak(tmp_path, 1_500)


@pytest.mark.slow
def test_a_hundred_thousand_rows_in_bounded_memory(tmp_path: Path) -> None:
    assert peak(tmp_path, 100_000) < 1.5 * peak(tmp_path, 2_000) < 30 * 1024 * 1024


# --- one row by its key -----------------------------------------------------------------------------------------------


def test_a_row_is_updated_by_its_key(bed: Bed) -> None:
    session = bed.use(Order, Entry)
    session.add(order(1, "new", customer=3))
    session.add(Entry(day=1, number=2, text="x", note="y"))
    session.commit()
    session.update_key(Order, customer=3, at=order(1).at, number=1, state="paid")
    session.update_key(Entry, day=1, number=2, note=None)
    assert [outcome.action for outcome in session.commit()] == ["put", "put"]
    check_exact(bed.store, Order)
    assert [found.number for found in session.query(Order).where(Order.state == "paid")] == [1]
    assert session.get(Entry, day=1, number=2) == Entry(day=1, number=2, text="x")
    session.update_key(Entry, day=1, number=3, note="z")
    with pytest.raises(hb.RowNotFound):
        session.commit()


def test_an_update_by_key_under_a_condition() -> None:
    with fresh(Job) as store:
        session = hb.Session(store)
        session.add(Job(name="a", state="open"))
        session.commit()
        session.update_key(Job, name="a", state="done", condition=Job.first == "o")
        session.commit()
        session.update_key(Job, name="a", state="late", condition=Job.state == "open")
        with pytest.raises(hb.ConditionFailed):
            session.commit()
        assert [job.state for job in session.query(Job).allow_full_scan()] == ["done"]


def test_updates_by_key_that_no_row_can_have() -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        at = datetime(2026, 1, 1, tzinfo=UTC)
        with pytest.raises(hb.errors.IncompleteKey) as caught:
            session.update_key(Order, customer=1, state="x")
        assert caught.value.missing == ["at", "number"]
        with pytest.raises(hb.SessionError, match=r"update\(\) takes at least one field to change"):
            session.update_key(Order, customer=1, at=at, number=1)
        with pytest.raises(hb.errors.UnknownField):
            session.update_key(Order, customer=1, at=at, number=1, colour="x")
        with pytest.raises(hb.SessionError, match=r"increment\(\)"):
            session.update_key(Order, customer=1, at=at, number=1, views=1)
        assert not session.commit()
