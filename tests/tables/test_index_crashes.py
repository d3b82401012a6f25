"""The effect of killed builders, of programs that start during a build, and of models with another layout
on an index.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Delete, Put, Row, Scan
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.creation.create import create_declared
from hbmodel.tables.indexes.index_states import IndexStates
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from tests.support.faulty import RecordingStore
from tests.tables.test_indexes import TIMES, Two, build, declare, found_through, open_session


@pytest.fixture
def store() -> Iterator[hb.Store]:
    with EmbeddedStore(None) as made:
        yield made


@pytest.fixture
def two(store: hb.Store) -> Two:
    """A table with rows whose model has an index by now."""
    made = declare()
    hb.create_tables(
        store, made.before, splits=hb.tables.AtKeys([hb.row_key(made.before, name=f"{n:02}") for n in (5, 10, 15)])
    )
    open_session(store).bulk_add([made.before(name=f"{n:02}", topic=f"t{n % 3}") for n in range(20)])
    hb.create_tables(store, made.after)
    return made


def all_found(store: hb.Store, two: Two) -> bool:
    return all(
        found_through(store, two, f"t{topic}") == [f"{n:02}" for n in range(20) if n % 3 == topic] for topic in range(3)
    )


def work_left(store: hb.Store, two: Two) -> list[bytes]:
    (batches,) = store.scan("hbmodel", [Scan()])
    return [row.row for batch in batches for row in batch if row.row.startswith(b"\x01" + registry_row(two.schema))]


class Killed(BaseException):
    """The program is gone."""


def killed_in(phase: str) -> Any:
    def report(progress: hb.indexes.IndexProgress) -> None:
        if progress.phase == phase:
            raise Killed

    return report


def killed_before_the_work_is_forgotten(monkeypatch: pytest.MonkeyPatch, store: hb.Store, two: Two) -> None:
    def forget(_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("hbmodel.tables.indexes.index_sweeps.Sweeps.forget", forget)
        with pytest.raises(Killed):
            build(store, two.after)


class SlowToPut(RecordingStore):
    """Takes long for some of its puts into an index."""

    slow = 0

    def put(self, table: str, puts: Sequence[Put]) -> None:
        if table.endswith(".by_topic") and self.slow:
            self.slow -= 1
            time.sleep(TIMES.grace / 2 + 0.05)
        super().put(table, puts)


@pytest.mark.lengthy
@pytest.mark.parametrize("slow", [0, 1, 3])
def test_a_repair_that_is_slow_puts_again_and_counts_what_it_put(store: hb.Store, two: Two, slow: int) -> None:
    assert build(store, two.after).readable
    table = f"{two.schema.table}.by_topic"
    ((batch,),) = store.scan(table, [Scan(limit=1)])
    store.delete(table, [Delete(row.row) for row in batch])
    time.sleep(0.01)
    through = SlowToPut(store)
    through.slow = slow
    repaired = hb.indexes.repair_index(through, two.after, "by_topic", times=TIMES)
    assert (repaired.missing, repaired.put) == (1, 1)
    assert through.slow == 0
    assert all_found(store, two)


# --- models of another layout -----------------------------------------------------------------------------------------


@pytest.mark.lengthy
def test_a_model_that_declares_the_index_otherwise_touches_nothing(store: hb.Store) -> None:
    def model(by: str) -> type[Any]:
        @hb.model(table="otherwise", family="d")
        class Pair:
            name: hb.Key[int] = hb.key(hb.UInt64)
            a: hb.Column[int] = hb.column("a", hb.UInt64)
            b: hb.Column[int] = hb.column("b", hb.UInt64)

            by_number = hb.index(by)

        return Pair

    one, other = model("a"), model("b")
    hb.create_tables(store, one)
    session = open_session(store)
    session.add_all(one(name=n, a=n, b=n + 100) for n in range(9))
    session.commit()
    time.sleep(TIMES.grace + 0.1)
    calls: list[Any] = [
        partial(hb.indexes.verify_index, store, other, "by_number", times=TIMES),
        partial(hb.indexes.repair_index, store, other, "by_number", times=TIMES),
        partial(hb.indexes.build_index, store, other, "by_number", dry_run=True, times=TIMES),
        partial(hb.indexes.purge_rows, store, other, times=TIMES),
    ]
    for call in calls:
        with pytest.raises(hb.SchemaMismatch):
            call()
    assert session.query(one).where(one.a < 100).use_index("by_number").count() == 9
    assert hb.indexes.drop_index(store, other, "by_number", times=TIMES) == ["otherwise.by_number"]


# --- builds that are killed -------------------------------------------------------------------------------------------


def killed_before_markers_are_written(
    monkeypatch: pytest.MonkeyPatch, store: hb.Store, model: type[Any], index: str
) -> None:
    """A first build that has come to the state in which every put says that its row is live."""

    def written(*_: Any) -> bool:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(IndexStates, "_written", written)
        with pytest.raises(Killed):
            hb.indexes.build_index(store, model, index, times=TIMES)
    found = Registry(store).read(hb.schema.schema_of(model))
    assert found is not None
    assert found.rows == "marking"


def test_tables_dropped_and_created_during_a_build_are_indexed_from_the_start(
    monkeypatch: pytest.MonkeyPatch, store: hb.Store, two: Two
) -> None:
    killed_before_markers_are_written(monkeypatch, store, two.after, "by_topic")
    store.delete_table(two.schema.table)  # all that a killed drop_tables has come to
    hb.create_tables(store, two.after)
    session = open_session(store)
    session.add_all(two.after(name=f"{n:02}", topic=f"t{n % 3}") for n in range(20))
    session.commit()
    assert all_found(store, two)


@pytest.mark.lengthy
def test_an_index_dropped_behind_a_killed_build_is_built_whole(
    monkeypatch: pytest.MonkeyPatch, store: hb.Store, two: Two
) -> None:
    killed_before_the_work_is_forgotten(monkeypatch, store, two)
    hb.indexes.drop_index(store, two.after, "by_topic", times=TIMES)
    assert work_left(store, two) == []

    def create(*_: Any) -> bool:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("hbmodel.tables.indexes.index_states.create_declared", create)
        with pytest.raises(Killed):
            build(store, two.after)
    hb.create_tables(store, two.after)  # a program starts
    found = Registry(store).read(two.schema)
    assert found is not None
    assert found.indexes["by_topic"].table == f"{two.schema.table}.by_topic.2"
    assert build(store, two.after).readable
    assert all_found(store, two)


@pytest.mark.lengthy
def test_what_a_killed_build_has_left_is_forgotten(monkeypatch: pytest.MonkeyPatch, store: hb.Store, two: Two) -> None:
    killed_before_the_work_is_forgotten(monkeypatch, store, two)
    assert len(work_left(store, two)) == 2
    assert build(store, two.after).readable
    assert work_left(store, two) == []


@pytest.mark.lengthy
def test_a_table_that_a_killed_build_has_created_is_dropped(
    monkeypatch: pytest.MonkeyPatch, store: hb.Store, two: Two
) -> None:
    def create(*arguments: Any) -> bool:
        create_declared(*arguments)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("hbmodel.tables.indexes.index_states.create_declared", create)
        with pytest.raises(Killed):
            build(store, two.after)
    name = f"{two.schema.table}.by_topic"
    assert name in store.tables()
    assert hb.indexes.drop_index(store, two.after, "by_topic", times=TIMES) == [name]
    assert name not in store.tables()
    assert build(store, two.after).readable
    assert all_found(store, two)


# --- rows that are refused --------------------------------------------------------------------------------------------


@pytest.mark.lengthy
def test_builders_who_begin_again_do_not_hide_refused_rows(store: hb.Store, two: Two) -> None:
    session = open_session(store)
    session.add(two.before(name="long", topic="x" * 33_000))
    session.commit()
    assert build(store, two.after).refused == 1
    for _ in range(3):
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(partial(build, store, two.after, batch_size=3), ["by_topic"] * 4))
        assert not any(result.readable for result in results)
    session.delete_key(two.before, name="long")
    with pytest.raises(hb.errors.IndexUnavailable):
        session.commit()
    session = open_session(store)
    session.delete_key(two.after, name="long")
    session.commit()
    assert build(store, two.after).readable
    assert all_found(store, two)


def test_a_build_begun_again_in_the_millisecond_of_its_end_is_done() -> None:
    now = [1_700_000_000_000]
    times = hb.indexes.IndexTimes(lease=0, longest_call=0, clock_bound=1e10, grace=1e11)
    with EmbeddedStore(None, lambda: now[0]) as store:
        two = declare()
        hb.create_tables(store, two.before)
        session = hb.Session(store, lease=0, longest_call=0, clock_bound=1e10, grace=1e11)
        session.add_all([two.before(name="a", topic="t"), two.before(name="long", topic="x" * 33_000)])
        session.commit()
        hb.create_tables(store, two.after)

        def later(_: hb.indexes.IndexProgress) -> None:
            now[0] += 1

        assert hb.indexes.build_index(store, two.after, "by_topic", times=times, progress=later).refused == 1
        again = hb.indexes.build_index(store, two.after, "by_topic", times=times)
        assert (again.state, again.refused) == ("building", 1)


# --- queries ----------------------------------------------------------------------------------------------------------


def test_a_query_that_is_begun_late_is_read_as_the_table_is_then(store: hb.Store, two: Two) -> None:
    items = iter(open_session(store).query(two.after).allow_full_scan())
    build(store, two.after)
    session = open_session(store)
    session.delete_key(two.after, name="00")
    session.commit()
    assert [item.name for item in items][:2] == ["01", "02"]


# --- side by side -----------------------------------------------------------------------------------------------------


@pytest.mark.lengthy
def test_a_builder_adopts_nothing_once_another_has_adopted_the_rows(store: hb.Store, two: Two) -> None:
    begun, done = threading.Event(), threading.Event()

    def stop(progress: hb.indexes.IndexProgress) -> None:
        if progress.phase == "building":
            begun.set()
            done.wait(60)

    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(build, store, two.after, "by_note", progress=stop)
        try:
            begun.wait(60)
            assert build(store, two.after).readable
            session = open_session(store)
            session.delete_key(two.after, name="03")
            session.commit()
            time.sleep(TIMES.grace + 0.1)
            assert hb.indexes.purge_rows(store, two.after, times=TIMES) == 1
            # of an update that has overtaken the delete
            late = Put(b"03", {b"d:t": b"late"}, time.time_ns() // 1_000_000)
            store.put(two.schema.table, [late])
        finally:
            done.set()
        assert second.result().adopted == 0
    assert session.get(two.after, name="03") is None
    assert hb.indexes.verify_index(store, two.after, "by_note", times=TIMES).sound


@pytest.mark.lengthy
def test_an_index_that_is_dropped_during_its_build_ends_the_build(store: hb.Store, two: Two) -> None:
    dropped: list[str] = []

    def drop(progress: hb.indexes.IndexProgress) -> None:
        if progress.phase == "building" and not dropped:
            dropped.extend(hb.indexes.drop_index(store, two.after, "by_topic", times=TIMES))

    with pytest.raises(
        hb.errors.IndexUnavailable, match="Another program dropped the index in the meantime: build it with"
    ) as caught:
        build(store, two.after, progress=drop)
    assert caught.value.index == "by_topic"
    assert len(dropped) == 1
    assert build(store, two.after).readable
    assert all_found(store, two)


def test_a_program_that_starts_while_an_index_table_is_made_finds_it(store: hb.Store, two: Two) -> None:
    class Beside(RecordingStore):
        """A build runs right after the first look at the tables."""

        def tables(self) -> list[str]:
            found = super().tables()
            if len(self.calls) == 1:
                build(store, two.after)
            return found

    hb.create_tables(Beside(store), two.after)


def test_an_entry_that_no_row_can_have_is_stale(store: hb.Store, two: Two) -> None:
    build(store, two.after)
    table = two.schema.indexes["by_topic"].table
    store.put(table, [Put(b"\xff", {b"d:_v": b"x"}, 1_600_000_000_000)])
    assert hb.indexes.verify_index(store, two.after, "by_topic", times=TIMES).stale == 1
    assert hb.indexes.repair_index(store, two.after, "by_topic", times=TIMES).deleted == 1
    report = hb.indexes.verify_index(store, two.after, "by_topic", times=TIMES)
    assert (report.sound, report.entries) == (True, 20)


def test_an_insert_that_outlasts_its_lease_is_made_as_the_table_is_then(
    monkeypatch: pytest.MonkeyPatch, store: hb.Store
) -> None:
    def declared(indexed: bool) -> type[Any]:
        @hb.model(table="inserted-late", family="d")
        class Page:
            number: hb.Key[int] = hb.key(hb.UInt64)
            size: hb.Column[int] = hb.column("s", hb.UInt64)

            if indexed:
                by_size = hb.index("size")

        return Page

    page = declared(True)

    class Late(RecordingStore):
        """The index is built after the first read of a row."""

        def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
            found = super().get(table, rows, columns)
            if table == "inserted-late":
                hb.indexes.build_index(store, page, "by_size", times=TIMES)
            return found

    hb.create_tables(store, declared(False))
    hb.create_tables(store, page)
    killed_before_markers_are_written(monkeypatch, store, page, "by_size")
    open_session(Late(store)).insert(page(number=1, size=7))
    found = open_session(store).query(page).where(page.size == 7).use_index("by_size")
    assert [one.number for one in found] == [1]
