"""Sessions that are opened one after the other on one store: what they share, and what changes end the sharing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.errors import IndexUnavailable
from hbmodel.store.closing import ClosingStore
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.store.observed import ObservedStore
from hbmodel.tables.registry.read_roll import RollLines
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.roll.binding_cache import BindingCache
from tests.support.faulty import RecordingStore

QUICK = hb.indexes.IndexTimes(lease=0.1, longest_call=0.05, grace=20, clock_bound=2)
"""Times for changes of the registry; they do not wait for the leases of sessions."""


class SharingStore(RecordingStore):
    """Records calls. Its sessions share what a store's sessions share."""

    shared_caches = ClosingStore.shared_caches  # type: ignore[assignment]


@hb.model(table="shared", family="d")
class Plain:
    name: hb.Key[str] = hb.key()
    rank: hb.Column[int] = hb.column("r")


@hb.model(table="shared", family="d")
class Ranked:
    name: hb.Key[str] = hb.key()
    rank: hb.Column[int] = hb.column("r")
    by_rank = hb.index("rank")


@hb.model(table="shared", family="d")
class Wider:
    name: hb.Key[str] = hb.key()
    rank: hb.Column[int] = hb.column("r")
    note: hb.Column[str | None] = hb.column("n", default=None)


@hb.model(table="shared_2", family="d", replaces=Ranked)
class Moved:
    name: hb.Key[str] = hb.key()
    rank: hb.Column[int] = hb.column("r")
    by_rank = hb.index("rank")


@pytest.fixture(params=[True, False], ids=["registry checked by writes", "writers on the roll"])
def store(request: pytest.FixtureRequest) -> Iterator[SharingStore]:
    with SharingStore(EmbeddedStore(None), gated=request.param) as sharing:
        yield sharing


def add(store: hb.Store, name: str, model: Any = Plain, **options: Any) -> None:
    with hb.Session(store, **options) as session:
        session.add(model(name=name, rank=1))


def kinds(store: hb.Store) -> list[str]:
    """The kinds of the lines on the writers' roll of the table."""
    lines = RollLines(store, "hbmodel").of_row(registry_row(hb.schema.schema_of(Plain)))
    return [found.line.kind for found in lines if found.line is not None]


def of_registry(calls: list[str]) -> list[str]:
    return [call for call in calls if "hbmodel" in call]


# --- what they share --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [Plain, Ranked])
def test_only_the_first_session_reads_the_registry_and_the_clock(store: SharingStore, model: Any) -> None:
    hb.create_tables(store, model)
    store.told()
    add(store, "a", model)
    first = store.told()
    assert of_registry(first)
    for name in "bc":
        add(store, name, model)
        assert store.told() == [call for call in first if "hbmodel" not in call]
    with hb.Session(store) as session:
        assert session.get(model, name="c") == model(name="c", rank=1)
    assert store.told() == ["get shared"]


def test_sessions_with_a_call_for_each_call_share_it_too(store: SharingStore) -> None:
    hb.create_tables(store, Plain)
    add(store, "a")
    calls: list[hb.store.Call] = []
    add(store, "b", on_call=calls.append)
    assert [call.table for call in calls] == ["shared"]


@pytest.mark.parametrize("options", [{"lease": 30}, {"grace": 3000}, {"clock_bound": 4}, {"longest_call": 50}], ids=str)
def test_sessions_with_other_times_share_nothing(store: SharingStore, options: dict[str, float]) -> None:
    hb.create_tables(store, Ranked)
    add(store, "a", Ranked)
    store.told()
    add(store, "b", Ranked, **options)
    assert of_registry(store.told())
    add(store, "c", Ranked, **options)
    assert not of_registry(store.told())


def test_sessions_of_another_registry_share_nothing(store: SharingStore) -> None:
    hb.create_tables(store, Plain)
    add(store, "a")
    store.told()
    with hb.Session(store, registry="other") as session:
        session.get(Plain, name="a")
    assert store.told() == ["get other", "get shared"]


def test_a_lease_of_no_time_is_read_by_each_session(store: SharingStore) -> None:
    hb.create_tables(store, Plain)
    for _ in range(2):
        store.told()
        with hb.Session(store, lease=0) as session:
            session.get(Plain, name="a")
        assert store.told() == ["get hbmodel", "get shared"]


def test_sessions_of_a_factory_share_it_with_other_sessions(store: SharingStore) -> None:
    hb.create_tables(store, Plain)
    add(store, "a")
    store.told()
    with hb.SessionFactory(store)() as session:
        session.add(Plain(name="b", rank=1))
    assert store.told() == ["put shared"]


def test_sessions_of_a_store_that_shares_nothing_share_nothing() -> None:
    with RecordingStore(EmbeddedStore(None)) as store:
        hb.create_tables(store, Plain)
        for name in "ab":
            store.told()
            add(store, name)
            assert of_registry(store.told())


@pytest.mark.parametrize("url", ["memory:", "embedded"])
def test_threads_that_open_sessions_at_the_same_time_share_one_cache(url: str, tmp_path: Path) -> None:
    with hb.connect(f"embedded:{tmp_path / 'file'}" if url == "embedded" else url) as store:
        hb.create_tables(store, Ranked)
        ready, failures = threading.Barrier(8), list[BaseException]()

        def work(number: int) -> None:
            try:
                ready.wait()
                for step in range(5):
                    add(store, f"{number}-{step}", Ranked)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        with hb.Session(store) as session:
            assert session.query(Ranked).where(Ranked.rank == 1).count() == 40
        assert hb.indexes.verify_index(store, Ranked, "by_rank").sound


# --- changes of the registry ------------------------------------------------------------------------------------------


def build(store: hb.Store) -> None:
    hb.create_tables(store, Ranked)
    hb.indexes.build_index(store, Ranked, "by_rank", times=QUICK)


def by_rank(store: hb.Store) -> int:
    with hb.Session(store) as session:
        return session.query(Ranked).where(Ranked.rank == 1).count()


def test_sessions_opened_after_a_build_use_the_index(store: SharingStore) -> None:
    hb.create_tables(store, Plain)
    add(store, "a")
    build(store)
    assert by_rank(store) == 1
    add(store, "b", Ranked)
    assert by_rank(store) == 2


def test_sessions_opened_after_a_drop_of_an_index_do_not_use_it(store: SharingStore) -> None:
    hb.create_tables(store, Ranked)
    add(store, "a", Ranked)
    assert by_rank(store) == 1
    hb.indexes.drop_index(store, Ranked, "by_rank", times=QUICK)
    with pytest.raises(IndexUnavailable), hb.Session(store) as session:
        session.query(Ranked).use_index("by_rank").where(Ranked.rank == 1).count()
    store.told()
    add(store, "b")
    assert [call for call in store.told() if "by_rank" in call] == []


def test_tables_that_are_dropped_and_created_again_are_used_at_once(store: SharingStore) -> None:
    for _ in range(3):
        hb.create_tables(store, Ranked)
        add(store, "a", Ranked)
        assert by_rank(store) == 1
        hb.drop_tables(store, Ranked)
        hb.create_tables(store, Plain)
        add(store, "b")
        with hb.Session(store) as session:
            assert session.query(Plain).allow_full_scan().all() == [Plain(name="b", rank=1)]
        hb.drop_tables(store, Plain)


def test_an_entry_that_is_forgotten_is_read_again(store: SharingStore) -> None:
    hb.create_tables(store, Ranked)
    add(store, "a", Ranked)
    for table in ("shared", "shared.by_rank"):
        store.delete_table(table)
    hb.tables.forget(store, "shared")
    with pytest.raises(hb.SchemaMismatch, match="registered"), hb.Session(store) as session:
        session.get(Ranked, name="a")


def test_new_columns_are_written_after_an_alter(store: SharingStore) -> None:
    hb.create_tables(store, Plain)
    add(store, "a")
    with pytest.raises(hb.SchemaMismatch, match="does not know all columns"):
        add(store, "b", Wider)
    hb.alter(store, Wider)
    add(store, "b", Wider)


def test_a_migration_is_followed_by_new_sessions(store: SharingStore) -> None:
    hb.create_tables(store, Ranked)
    add(store, "a", Ranked)
    moving = hb.migration.migrate(store, Moved, offline=True, times=QUICK)
    moving.start()
    with pytest.raises(hb.SchemaMismatch):
        add(store, "b", Ranked)
    moving.verify()
    moving.cut_over()
    add(store, "b", Moved)
    with hb.Session(store) as session:
        assert [moved.name for moved in session.query(Moved).allow_full_scan()] == ["a", "b"]
    with pytest.raises(hb.SchemaMismatch), hb.Session(store) as session:
        session.get(Ranked, name="a")


def test_an_open_session_keeps_its_lease_when_the_registry_changes(store: SharingStore) -> None:
    hb.create_tables(store, Plain)
    add(store, "a")
    with hb.Session(store) as session:
        session.get(Plain, name="a")
        hb.create_tables(store, Ranked)
        store.told()
        session.get(Plain, name="a")
        assert store.told() == ["get shared"]


# --- the writers' roll ------------------------------------------------------------------------------------------------


@pytest.fixture
def rolled() -> Iterator[SharingStore]:
    with SharingStore(EmbeddedStore(None), gated=False) as sharing:
        hb.create_tables(sharing, Plain)
        yield sharing


def test_all_sessions_have_one_line_on_the_roll(rolled: SharingStore) -> None:
    for name in "abc":
        add(rolled, name)
    assert kinds(rolled) == ["on"]


def test_a_change_of_the_registry_waits_for_no_closed_session(rolled: SharingStore) -> None:
    add(rolled, "a")
    waits: list[hb.indexes.IndexProgress] = []
    hb.create_tables(rolled, Ranked)
    assert kinds(rolled) == []
    hb.indexes.build_index(rolled, Ranked, "by_rank", progress=waits.append, times=QUICK)
    assert [progress.writers for progress in waits if progress.phase == "waiting"] == []


def test_the_last_session_of_a_superseded_cache_leaves_the_roll(rolled: SharingStore) -> None:
    one, two = hb.Session(rolled), hb.Session(rolled)
    one.add(Plain(name="a", rank=1))
    one.commit()
    hb.create_tables(rolled, Ranked)
    assert kinds(rolled) == ["on"]
    one.close()
    assert kinds(rolled) == ["on"]
    two.close()
    assert kinds(rolled) == []


def test_closed_sessions_leave_the_line_to_the_next_ones(rolled: SharingStore) -> None:
    add(rolled, "a")
    rolled.told()
    add(rolled, "b")
    assert rolled.told() == ["put shared"]
    assert kinds(rolled) == ["on"]


@pytest.mark.parametrize("registry", [True, False], ids=["other tables are registered", "there is no registry"])
def test_a_first_table_that_another_program_creates_is_written_at_once(registry: bool) -> None:
    with SharingStore(EmbeddedStore(None), gated=False) as store, SharingStore(store.inner, gated=False) as other:
        if registry:
            hb.create_tables(other, Moved)
        with pytest.raises(hb.SchemaMismatch, match=r"hb\.create_tables"):
            add(store, "a", Ranked)
        hb.create_tables(other, Ranked)
        add(store, "a", Ranked)
        assert by_rank(store) == 1


# --- the embedded store -----------------------------------------------------------------------------------------------


def test_sessions_of_the_embedded_store_read_the_registry_every_second() -> None:
    now, calls = [0], list[hb.store.Call]()
    with EmbeddedStore(None) as store:
        hb.create_tables(store, Plain)
        cache = BindingCache(60, running=lambda: now[0])
        with hb.Session(store, cache=cache, on_call=calls.append) as session:
            for now[0] in (0, 999, 1000, 1999, 2000):
                session.get(Plain, name="a")
            assert [call.table for call in calls] == [*["hbmodel", "shared", "shared"] * 2, "hbmodel", "shared"]


def test_names_are_as_old_as_the_registry_at_most_in_the_embedded_store() -> None:
    with EmbeddedStore(None) as store, hb.Session(store) as session, hb.Session(store, lease=0.5) as shorter:
        assert (session._cache.lease, shorter._cache.lease) == (1, 0.5)


def test_a_shorter_lease_is_kept_in_the_embedded_store() -> None:
    now, calls = [0], list[hb.store.Call]()
    with EmbeddedStore(None) as store:
        hb.create_tables(store, Plain)
        cache = BindingCache(0.5, running=lambda: now[0])
        with hb.Session(store, cache=cache, on_call=calls.append) as session:
            for now[0] in (0, 499, 500):
                session.get(Plain, name="a")
            assert [call.table for call in calls] == ["hbmodel", "shared", "shared", "hbmodel", "shared"]


def test_a_drop_waits_a_second_at_most_for_readers_of_the_embedded_store() -> None:
    waits: list[hb.indexes.IndexProgress] = []
    with EmbeddedStore(None) as store, ObservedStore(store, lambda call: None) as view:
        hb.create_tables(store, Ranked)
        add(store, "a", Ranked)
        hb.indexes.drop_index(view, Ranked, "by_rank", progress=waits.append)
        left = [progress.seconds_left for progress in waits if progress.waits_for == "readers"]
        assert left
        assert all(seconds is not None and seconds <= 1.001 for seconds in left)


def test_a_query_says_when_it_notices_a_change(store: SharingStore) -> None:
    with EmbeddedStore(None) as embedded:
        for each, seconds in ((embedded, 1), (store, 60)):
            hb.create_tables(each, Plain)
            hb.create_tables(each, Ranked)
            query = hb.Session(each).query(Ranked).where(Ranked.rank == 1).allow_full_scan()
            assert f"noticed within {seconds} s" in str(query.explain())
