"""Programs in which the sharing of a cache by sessions must not hang, fail, or leave a line on the roll."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.store.shared_caches import SharedCaches
from hbmodel.tables.ids.name_cache import NameCache
from hbmodel.tables.roll.binding_cache import BindingCache
from hbmodel.tables.roll.own_line import OwnLine
from hbmodel.tables.roll.renewed_lines import OwnLines
from tests.session.test_sessions_of_one_store import Plain, Ranked, SharingStore, add, kinds

SECONDS = 15
"""How long a call may take before it counts as one that hangs."""


@pytest.fixture
def rolled() -> Iterator[SharingStore]:
    with SharingStore(EmbeddedStore(None), gated=False) as sharing:
        hb.create_tables(sharing, Plain)
        yield sharing


class CallingStore(SharingStore):
    """Calls a function before it carries out a call to one table."""

    before: Callable[[], None] | None = None
    named = "put shared"

    def _carried_out(self, call: Any, apply: Any) -> Any:
        if self.before is not None and str(call) == self.named:
            before, self.before = self.before, None
            before()
        return super()._carried_out(call, apply)


def in_thread(function: Callable[[], None]) -> None:
    """Runs a function in another thread; fails if it takes too long or raises."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive(), "it hangs"
    assert failures == []


# --- hangs ------------------------------------------------------------------------------------------------------------


def test_a_function_that_is_told_of_calls_may_write_through_another_session(rolled: SharingStore) -> None:
    told: list[str] = []

    def on_call(call: hb.store.Call) -> None:
        told.append(call.table)
        add(rolled, f"call {len(told)}")

    in_thread(lambda: add(rolled, "a", on_call=on_call))
    with hb.Session(rolled) as session:
        assert session.query(Plain).allow_full_scan().count() == 1 + len(told)


# --- lines that stay --------------------------------------------------------------------------------------------------


@hb.model(table="shared", family="d")
class TwiceRanked:
    name: hb.Key[str] = hb.key()
    rank: hb.Column[int] = hb.column("r")
    by_rank = hb.index("rank")
    by_both = hb.index("rank", "name")


def test_a_call_that_finds_its_table_late_is_waited_for_by_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program creates the registry while a call looks for its table, and then builds another index during the
    put of that call.
    """
    inner = EmbeddedStore(None)
    look = OwnLine.look

    def late_look(line: OwnLine, store: hb.Store) -> None:
        monkeypatch.setattr(OwnLine, "look", look)
        hb.create_tables(other, Ranked)
        look(line, store)

    def change() -> None:
        hb.create_tables(other, TwiceRanked)
        add(store, "x", TwiceRanked)  # another thread of the same program, which reads the registry
        build.start()
        build.join(SECONDS)
        in_time.append(not build.is_alive())

    in_time: list[bool] = []
    with CallingStore(inner, gated=False) as store, SharingStore(inner, gated=False) as other:
        build = threading.Thread(target=lambda: hb.indexes.build_index(other, TwiceRanked, "by_both"), daemon=True)
        monkeypatch.setattr(OwnLine, "look", late_look)
        store.before = change
        refused: BaseException | None = None
        try:
            add(store, "late", Ranked)
        except hb.HbmodelError as error:
            refused = error
        if in_time == [True]:
            assert hb.indexes.verify_index(other, TwiceRanked, "by_both").sound
        else:  # the call was refused before its put, or the build waits for it
            assert in_time == [False] or isinstance(refused, hb.SchemaMismatch)


def test_a_session_that_is_opened_while_its_cache_is_superseded_leaves_the_roll(
    rolled: SharingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(rolled, "a")
    opened = BindingCache.opened

    def late(cache: BindingCache, session: object) -> None:
        monkeypatch.setattr(BindingCache, "opened", opened)
        end = OwnLines._end_with_the_program

        def write_meanwhile(roll: Any, last: bool) -> None:
            """Another thread writes through the session while the lines of the roll are being deleted."""
            monkeypatch.setattr(OwnLines, "_end_with_the_program", end)
            end(roll, last)
            if not last:
                opened(cache, session)
                ready.set()
                assert written.wait(SECONDS)

        monkeypatch.setattr(OwnLines, "_end_with_the_program", write_meanwhile)
        changing.start()
        assert ready.wait(SECONDS)

    ready, written = threading.Event(), threading.Event()
    changing = threading.Thread(target=lambda: hb.create_tables(rolled, Ranked), daemon=True)
    monkeypatch.setattr(BindingCache, "opened", late)
    with hb.Session(rolled) as session:
        session.add(Plain(name="b", rank=1))
        session.commit()
        written.set()
        changing.join(SECONDS)
    assert not changing.is_alive()
    caches = SharingStore.shared_caches.fget(rolled)  # type: ignore[attr-defined]
    caches.renew()
    assert kinds(rolled) == []


def test_a_session_that_is_refused_does_not_count_as_open(rolled: SharingStore) -> None:
    add(rolled, "a")
    with pytest.raises(hb.SessionError) as refused:
        hb.Session(rolled, token_key="short")
    hb.create_tables(rolled, Ranked)
    assert kinds(rolled) == []
    assert refused.value  # the traceback holds the session


# --- SharedCaches -----------------------------------------------------------------------------------------------------


class Kept:
    """A cache that calls a function when it is superseded."""

    def __init__(self, while_superseded: Callable[[], None] = lambda: None) -> None:
        self.superseded, self.while_superseded = 0, while_superseded

    def supersede(self) -> None:
        self.superseded += 1
        self.while_superseded()


def test_a_cache_that_is_made_during_a_renewal_is_superseded() -> None:
    shared = SharedCaches()

    def slowly() -> Kept:
        shared.renew()
        return Kept()

    late = shared.cache("a", slowly)
    assert shared.cache("a", Kept) is not late
    assert late.superseded == 1


def test_a_cache_that_is_made_during_a_renewal_does_not_break_it() -> None:
    shared = SharedCaches()
    making, renewing, made = threading.Event(), threading.Event(), threading.Event()

    def leave() -> None:
        renewing.set()
        made.wait(SECONDS)

    def slowly() -> Kept:
        making.set()
        renewing.wait(SECONDS)
        return Kept()

    def make() -> None:
        shared.cache("b", slowly)
        made.set()

    shared.cache("a", lambda: Kept(leave))
    maker = threading.Thread(target=make)
    maker.start()
    making.wait(SECONDS)
    try:
        shared.renew()
    finally:
        maker.join()


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gated", [True, False])
def test_models_that_are_declared_again_and_again_are_forgotten(gated: bool) -> None:
    cache = BindingCache(60, models=10)
    with SharingStore(EmbeddedStore(None), gated=gated) as store:
        hb.create_tables(store, Plain)
        for number in range(30):

            @hb.model(table="shared", family="d")
            class Again:
                name: hb.Key[str] = hb.key()
                rank: hb.Column[int] = hb.column("r")

            add(store, f"{number}", Again, cache=cache)
        cache.leave(store)
        assert len(cache._bindings) <= 10
        assert len(cache._seen) <= 10


@pytest.mark.lengthy
def test_sessions_with_ever_other_times_do_not_keep_a_cache_each(rolled: SharingStore) -> None:
    shared = SharingStore.shared_caches.fget(rolled)  # type: ignore[attr-defined]
    for number in range(300):
        add(rolled, "a", lease=30 + number / 10)
    assert len(shared._caches) < 200
    assert len(kinds(rolled)) < 200


# --- forks ------------------------------------------------------------------------------------------------------------


def write_in_child(path: str) -> None:
    store = SharingStore(EmbeddedStore(path), gated=False)
    add(store, "child")


@pytest.mark.lengthy
@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_that_ends_leaves_the_roll(method: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with SharingStore(EmbeddedStore(str(path)), gated=False) as store:
        hb.create_tables(store, Plain)
    context: Any = multiprocessing.get_context(method)
    child = context.Process(target=write_in_child, args=(str(path),))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    with SharingStore(EmbeddedStore(str(path)), gated=False) as store:
        assert kinds(store) == []


def write_to(path: str, name: str) -> None:
    add(SharingStore(EmbeddedStore(path), gated=False), name)


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_workers_of_a_pool_leave_the_roll(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    with SharingStore(EmbeddedStore(path), gated=False) as store:
        hb.create_tables(store, Plain)
    context: Any = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:  # at its end, the workers get a signal
        pool.starmap(write_to, [(path, f"{number}") for number in range(4)])
    with SharingStore(EmbeddedStore(path), gated=False) as store:
        assert kinds(store) == []


metrics = hb.ids.dictionary("metrics", hb.UInt32)


@hb.model(table="named", family="d")
class Named:
    name: hb.Key[str] = hb.key(metrics)
    rank: hb.Column[int] = hb.column("r")


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_child_that_is_forked_while_a_name_is_cached_can_cache_names(tmp_path: Path) -> None:
    with EmbeddedStore(str(tmp_path / "file")) as store:
        hb.create_tables(store, Named)
        with hb.Session(store) as session:
            session.add(Named(name="a", rank=1))
            names: NameCache = session._cache.names
        with names._lock:  # another thread is caching a name
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(SECONDS)
                try:
                    with hb.Session(store) as session:
                        session.add(Named(name="b", rank=1))
                    os._exit(0)
                finally:
                    os._exit(1)
        _, status = os.waitpid(pid, 0)
        assert status == 0


# --- names of tables that were deleted --------------------------------------------------------------------------------

uids = hb.ids.opentsdb_uids("metrics")


@hb.model(table="points", family="d", external=True)
class Point:
    name: hb.Key[str] = hb.key(uids)
    rank: hb.Column[int] = hb.column("r")


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize(("model", "options"), [(Named, {}), (Point, {"create_external": True})])
def test_names_are_found_again_after_their_tables_were_deleted_and_created(
    gated: bool, model: Any, options: dict[str, Any]
) -> None:
    """The registry's entries stay, so that `hb.create_tables` does not change the registry."""
    with SharingStore(EmbeddedStore(None), gated=gated) as store:
        hb.create_tables(store, model, **options)
        add(store, "a", model)
        add(store, "b", model)
        for table in store.tables():
            if table != "hbmodel":
                store.delete_table(table)
        hb.create_tables(store, model, **options)
        add(store, "b", model, lease=50)  # as another program does, it gives the id of "a" to "b"
        add(store, "a", model)
        with hb.Session(store, lease=40) as session:
            assert {each.name for each in session.query(model).allow_full_scan()} == {"a", "b"}


# --- two stores -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gated", [True, False])
def test_names_of_a_dictionary_that_another_program_has_created_again_are_found_again(gated: bool) -> None:
    with SharingStore(EmbeddedStore(None), gated=gated) as store, SharingStore(store.inner, gated=gated) as other:
        hb.create_tables(store, Named)
        with hb.Session(store, lease=0.05) as session:
            session.add(Named(name="a", rank=1))
        hb.drop_tables(other, Named, metrics)
        threading.Event().wait(0.3)  # more than the lease, as `drop_tables` demands
        hb.create_tables(other, Named)
        with hb.Session(store, lease=0.05) as session:
            session.add(Named(name="a", rank=1))
        with hb.Session(other) as session:
            assert session.query(Named).allow_full_scan().all() == [Named(name="a", rank=1)]
