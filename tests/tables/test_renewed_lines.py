"""Programs on the writers' roll: what it costs them, and whom a change of the registry waits for."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.errors import FamilyNotFound, StoreUnavailable, TableNotFound, UnknownOutcome
from hbmodel.protocol.corrected_clock import SharedOffset
from hbmodel.store import Delete, Family, Put, Row
from hbmodel.store.gate import may_pass
from hbmodel.tables.registry.read_roll import LISTED, FoundLine, RollLines
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.binding_cache import BindingCache
from hbmodel.tables.roll.own_line import ROLL_TIMES, RollTimes
from tests.support.beds import HBASE, fresh
from tests.support.faulty import Call, RecordingStore
from tests.support.waiting import comes_true, wait_until


def declare(*indexes: str, table: str = "rolled") -> Any:
    """A model of a table, with an index or without."""
    types: dict[str, Any] = {"name": hb.Key[str], "rank": hb.Column[int]}
    body: dict[str, Any] = {"name": hb.key(), "rank": hb.column("r", hb.codecs.UInt8)}
    for index in indexes:
        body[index] = hb.index("rank")
    return hb.model(table=table, family="d")(type("Thing", (), {**body, "__annotations__": types}))


PLAIN, ONE, OTHER = declare(), declare("by_rank"), declare(table="rolled_too")
QUIET = RollTimes(poll=1e6, idle=1e6, short_idle=1e6)
"""A thread that never does anything: the program was killed, or stands still."""

OFTEN = RollTimes(poll=0.01, idle=1e6)


def lines(store: hb.Store, model: Any = PLAIN) -> list[FoundLine]:
    return RollLines(store, "hbmodel").of_row(registry_row(hb.schema.schema_of(model)))


def kinds(store: hb.Store) -> list[str]:
    return [found.line.kind for found in lines(store) if found.line is not None]


def session_of(store: hb.Store, times: RollTimes = ROLL_TIMES, **options: Any) -> hb.Session:
    return hb.Session(store, cache=BindingCache(options.pop("lease", 60), roll_times=times), **options)


def add(session: hb.Session, name: str, model: Any = PLAIN) -> None:
    session.add(model(name=name, rank=1))
    session.commit()


class Waits(list[hb.indexes.IndexProgress]):
    """The waits that a build reports; it is stopped by the first one."""

    class Seen(Exception):
        pass

    def __call__(self, progress: hb.indexes.IndexProgress) -> None:
        if progress.phase == "waiting":
            self.append(progress)
            raise self.Seen


def waited_for(store: hb.Store, model: Any = ONE, **options: Any) -> Sequence[str]:
    """Whom a build waits for."""
    hb.create_tables(store, model)
    waits = Waits()
    with pytest.raises(Waits.Seen):
        hb.indexes.build_index(store, model, "by_rank", progress=waits, **options)
    return waits[0].writers


# --- what it costs ----------------------------------------------------------------------------------------------------


def script(store: RecordingStore, model: Any) -> list[str]:
    """The calls of a program that puts one row."""
    store.told()
    with hb.Session(store) as session:
        session.add(model(name="a", rank=1))
    return store.told()


def test_a_script_that_puts_one_row_of_a_plain_table_makes_four_calls() -> None:
    with fresh(PLAIN, gated=False) as store:
        assert script(store, PLAIN) == ["check_and_put hbmodel", "get hbmodel", "put rolled", "delete hbmodel"]
        assert lines(store) == []


def test_a_script_that_puts_one_row_of_an_indexed_table_makes_six_calls() -> None:
    with fresh(ONE, gated=False) as store:
        calls = script(store, ONE)
        assert (calls[:2], calls[-1], len(calls)) == (["check_and_put hbmodel", "get hbmodel"], "delete hbmodel", 6)


def test_a_reader_is_not_on_the_roll() -> None:
    with fresh(PLAIN, gated=False) as store, hb.Session(store) as session:
        session.get(PLAIN, name="a")
        session.query(PLAIN).allow_full_scan().all()
        assert store.told() == ["get hbmodel", "get rolled", "scan rolled"]


def test_a_write_within_the_lease_asks_for_nothing() -> None:
    with fresh(PLAIN, gated=False) as store, session_of(store, QUIET) as session:
        add(session, "a")
        store.told()
        for name in "bcd":
            add(session, name)
        assert store.told() == ["put rolled"] * 3


def test_sessions_that_share_metadata_share_a_line() -> None:
    with fresh(PLAIN, gated=False) as store:
        opened = hb.SessionFactory(store)
        for name in "abc":
            with opened() as session:
                session.add(PLAIN(name=name, rank=1))
        assert [call for call in store.told() if "hbmodel" in call] == ["check_and_put hbmodel", "get hbmodel"]
        assert kinds(store) == ["on"]


def test_stores_that_check_each_write_have_no_roll() -> None:
    with fresh(PLAIN) as store, hb.Session(store) as session:
        add(session, "a")
        assert lines(store) == []


def test_programs_without_a_registry_write_plain_tables() -> None:
    with fresh(gated=False) as store:
        store.create_table("rolled", [Family(b"d")])
        with hb.Session(store) as session:
            add(session, "a")
            assert session.get(PLAIN, name="a") == PLAIN(name="a", rank=1)
        assert store.tables() == ["rolled"]


# --- whom a build waits for -------------------------------------------------------------------------------------------


def test_a_build_waits_for_nobody_where_nobody_writes() -> None:
    with fresh(PLAIN, gated=False) as store:
        with hb.Session(store) as session:
            session.bulk_add(PLAIN(name=f"{n}", rank=n) for n in range(100))
        hb.create_tables(store, ONE)
        seen: list[hb.indexes.IndexProgress] = []
        assert hb.indexes.build_index(
            store, ONE, "by_rank", times=hb.indexes.IndexTimes(lease=0.01), progress=seen.append
        ).readable
        assert [progress.writers for progress in seen if progress.writers] == []
        assert max((progress.seconds_left or 0 for progress in seen if progress.phase == "waiting"), default=0) < 1


@pytest.mark.lengthy
def test_a_build_names_the_program_that_it_waits_for() -> None:
    with fresh(ONE, gated=False) as store:
        session = session_of(store, QUIET)
        add(session, "a", ONE)
        hb.indexes.drop_index(store, ONE, "by_rank", times=hb.indexes.IndexTimes(lease=0, longest_call=0))
        (writer,) = waited_for(store, times=hb.indexes.IndexTimes(lease=0.001))
        assert f"process {os.getpid()} on " in writer
        assert "last seen" in writer


@pytest.mark.lengthy
def test_a_writer_that_notices_the_change_is_waited_for_no_longer() -> None:
    """Its calls continue without end, and so does the build."""
    with fresh(PLAIN, gated=False) as store:
        hb.create_tables(store, ONE)
        ended = threading.Event()

        def write() -> None:
            with session_of(store, OFTEN) as session:
                for n in range(1 << 30):
                    add(session, f"{n}", ONE)
                    if ended.is_set():
                        return

        thread = threading.Thread(target=write)
        thread.start()
        try:
            wait_until(lambda: kinds(store) == ["on"])
            assert hb.indexes.build_index(store, ONE, "by_rank", times=hb.indexes.IndexTimes(lease=0.01)).readable
        finally:
            ended.set()
            thread.join()
        report = hb.indexes.verify_index(store, ONE, "by_rank")
        assert (report.missing, report.stale) == (0, 0)


def test_a_program_without_calls_rests_and_is_not_waited_for() -> None:
    with fresh(PLAIN, gated=False) as store:
        session = session_of(store, RollTimes(idle=0.01))
        add(session, "a")
        assert comes_true(lambda: kinds(store) == ["rest"])
        hb.create_tables(store, ONE)
        assert hb.indexes.build_index(store, ONE, "by_rank", times=hb.indexes.IndexTimes(lease=0.01)).readable
        with pytest.raises(hb.errors.IndexUnavailable):
            add(session, "b")  # it takes a lease again, and learns of the index


@pytest.mark.parametrize(("lease", "idle"), [(0.0, 1.0), (0.5, 1.0), (2.0, 4.0), (60.0, 10.0)])
def test_a_line_with_a_short_lease_rests_soon(lease: float, idle: float) -> None:
    now = [50_000]
    with fresh(PLAIN, gated=False) as store:
        cache = BindingCache(lease, running=lambda: now[0])
        line = cache.roll(1).line(store, "hbmodel", registry_row(hb.schema.schema_of(PLAIN)))
        calls = cache.roll(1).calls(store, "hbmodel", [registry_row(hb.schema.schema_of(PLAIN))])
        with calls:
            calls.begin()
        assert kinds(store) == ["on"]
        now[0] += round(1000 * idle) - 1
        line.keep()
        assert kinds(store) == ["on"]
        now[0] += 1
        line.keep()
        assert kinds(store) == ["rest"]
        cache.leave()


@pytest.mark.lengthy
def test_a_call_of_unknown_outcome_is_waited_for_though_the_program_has_ended() -> None:
    with fresh(ONE, gated=False) as store:

        class Lossy(RecordingStore):
            def _carried_out(self, call: Call, apply: Callable[[Sequence[Any]], Any]) -> Any:
                if call.name in {"put", "mutate_row"} and call.table == "rolled":
                    raise UnknownOutcome("lost")
                return super()._carried_out(call, apply)

        session = session_of(Lossy(store, gated=False), RollTimes(idle=0.01))
        session.add(ONE(name="a", rank=1))
        with pytest.raises(hb.PartialWrite):
            session.commit()
        assert comes_true(lambda: kinds(store) == ["rest"])
        session.discard()
        hb.indexes.drop_index(store, ONE, "by_rank", times=hb.indexes.IndexTimes(lease=0, longest_call=0))
        (writer,) = waited_for(store, times=hb.indexes.IndexTimes(lease=0.001))
        assert "has calls of unknown outcome" in writer


class RefusingStore(RecordingStore):
    """Refuses the changes of a table with an error."""

    error: type[Exception] = TableNotFound
    refused = "rolled"

    def _carried_out(self, call: Call, apply: Callable[[Sequence[Any]], Any]) -> Any:
        if call.writes and call.table == self.refused:
            raise self.error("refused", table=call.table)
        return super()._carried_out(call, apply)


@hb.model(table="rolled", family="d")
class Shared:
    row: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    rank: hb.Column[int] = hb.column("r")


@hb.model(table="rolled", family="d")
class Kept:
    """Its family keeps several versions, so its sessions wait for a tick of the clock after each commit."""

    name: hb.Key[str] = hb.key()
    rank: hb.Column[int] = hb.column("r", versions=3)


@pytest.mark.parametrize("error", [TableNotFound, FamilyNotFound])
@pytest.mark.parametrize("model", [PLAIN, Shared, Kept])
def test_a_commit_that_was_certainly_refused_is_not_waited_for(model: Any, error: type[Exception]) -> None:
    with fresh(model, gated=False, apart=False) as inner:
        store = RefusingStore(inner, gated=False, apart=False)
        store.error = error
        with hb.Session(store) as session:
            keys = {"row": "r"} if model is Shared else {}
            for name in ("a", "b")[: 1 + (error is TableNotFound)]:
                session.add(model(name=name, rank=1, **keys))
            with pytest.raises(error):
                session.commit()
            session.discard()
        assert kinds(inner) == []


def test_a_commit_that_was_refused_after_its_index_entries_is_waited_for() -> None:
    with fresh(ONE, gated=False) as inner:
        with hb.Session(RefusingStore(inner, gated=False)) as session:
            session.add(ONE(name="a", rank=1))
            with pytest.raises(hb.PartialWrite):
                session.commit()
            session.discard()
        (found,) = lines(inner, ONE)
        assert found.line is not None
        assert (found.line.kind, len(found.line.late)) == ("rest", 1)


@hb.model(table="rolled", family="d")
class Numbered:
    name: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32)
    rank: hb.Column[int] = hb.column("r")
    visits: hb.Column[int] = hb.counter("v")


@hb.model(table="rolled", family="d")
class Free:
    """It has only a counter, so an increment may create a row."""

    name: hb.Key[str] = hb.key()
    visits: hb.Column[int] = hb.counter("v")


@hb.model(table="rolled", family="d", external=True)
class Foreign:
    name: hb.Key[str] = hb.key()
    rank: hb.Column[int] = hb.column("r")


@hb.model(table="rolled", family="d")
class Versioned:
    name: hb.Key[str] = hb.key()
    rank: hb.Column[int] = hb.column("r")
    version: hb.Column[int] = hb.version()


AT_ONCE: dict[str, tuple[Any, Callable[[hb.Session], object]]] = {
    "insert": (PLAIN, lambda session: session.insert(PLAIN(name="new", rank=1))),
    "insert shared": (Shared, lambda session: session.insert(Shared(row="r", name="new", rank=1))),
    "insert kept": (Kept, lambda session: session.insert(Kept(name="new", rank=1))),
    "insert versioned": (Versioned, lambda session: session.insert(Versioned(name="new", rank=1))),
    "put": (PLAIN, lambda session: session.put(PLAIN, name="new", rank=1)),
    "put over": (PLAIN, lambda session: session.put(PLAIN, name="old", rank=2)),
    "put cells": (Foreign, lambda session: session.put(Foreign, name="new", rank=1)),
    "prepend": (Numbered, lambda session: session.prepend(Numbered, name="new", rank=1)),
    "rekey": (PLAIN, lambda session: session.rekey(PLAIN(name="old", rank=1), name="new")),
    "rekey versioned": (Versioned, lambda session: session.rekey(Versioned(name="old", rank=1), name="new")),
    "increment": (Numbered, lambda session: session.increment_key(Numbered, Numbered.visits, name="old", number=7)),
    "increment free": (Free, lambda session: session.increment_key(Free, Free.visits, name="new")),
}
"""Calls that are made at once, each with its model."""


def with_an_object(model: Any) -> RecordingStore:
    """A store with one object that is called `old`, written by a program that has ended."""
    store = fresh(model, gated=False)
    if model is not Free:
        keys = {Shared: {"row": "r"}, Numbered: {"number": 7}}.get(model, {})
        with hb.Session(store) as session:
            session.add(model(name="old", rank=1, **keys))
    assert kinds(store) == []
    return store


IN_DOUBT = {"insert versioned", "rekey versioned", "increment", "increment free"}
"""Calls whose first change counts as perhaps carried out in part if a family is missing."""


@pytest.mark.parametrize(
    ("call", "error"),
    [
        *((call, TableNotFound) for call in AT_ONCE),
        *((call, FamilyNotFound) for call in AT_ONCE if call not in IN_DOUBT),
    ],
)
def test_a_call_at_once_that_was_certainly_refused_is_not_waited_for(call: str, error: type[Exception]) -> None:
    model, made = AT_ONCE[call]
    with with_an_object(model) as inner:
        store = RefusingStore(inner, gated=False)
        store.error = error
        with hb.Session(store) as session, pytest.raises(error):
            made(session)
        assert kinds(inner) == []


@pytest.mark.parametrize("call", AT_ONCE)
def test_a_call_at_once_that_reached_no_gateway_is_not_waited_for(call: str) -> None:
    """The line is left on the roll, since it could not be deleted either. It lists no call of unknown outcome."""
    model, made = AT_ONCE[call]
    with with_an_object(model) as inner:
        store = RefusingStore(inner, gated=False)
        store.error = StoreUnavailable
        session = session_of(store, RollTimes(idle=0.01))
        with pytest.raises(StoreUnavailable):
            made(session)
        assert comes_true(lambda: kinds(inner) == ["rest"])
        assert [found.line.late for found in lines(inner) if found.line is not None] == [()]


@pytest.mark.parametrize("call", AT_ONCE)
def test_a_call_at_once_whose_answer_was_lost_is_waited_for(call: str) -> None:
    model, made = AT_ONCE[call]
    with with_an_object(model) as inner:
        store = RefusingStore(inner, gated=False)
        store.error = UnknownOutcome
        session = session_of(store, RollTimes(idle=0.01))
        with pytest.raises(UnknownOutcome):
            made(session)
        assert comes_true(lambda: kinds(inner) == ["rest"])
        (found,) = lines(inner)
        assert found.line is not None
        assert len(found.line.late) == 1


class RefusingLater(RefusingStore):
    """Carries out the first change of a table, and refuses all others."""

    def _carried_out(self, call: Call, apply: Callable[[Sequence[Any]], Any]) -> Any:
        if call.writes and call.table == self.refused and any(each is not call for each in self.of_rows):
            return super()._carried_out(call, apply)
        return RecordingStore._carried_out(self, call, apply)


def test_a_rekey_that_was_refused_after_its_first_change_is_waited_for() -> None:
    with with_an_object(PLAIN) as inner:
        with hb.Session(RefusingLater(inner, gated=False)) as session, pytest.raises(TableNotFound):
            session.rekey(PLAIN(name="old", rank=1), name="new")
        (found,) = lines(inner)
        assert found.line is not None
        assert (found.line.kind, len(found.line.late)) == ("rest", 1)


def test_an_insert_that_was_refused_after_its_index_entries_is_waited_for() -> None:
    with fresh(ONE, gated=False) as inner:
        with hb.Session(RefusingStore(inner, gated=False)) as session, pytest.raises(TableNotFound):
            session.insert(ONE(name="a", rank=1))
        (found,) = lines(inner, ONE)
        assert found.line is not None
        assert (found.line.kind, len(found.line.late)) == ("rest", 1)


def test_the_status_of_an_index_says_that_its_build_waits() -> None:
    with fresh(PLAIN, gated=False) as store, session_of(store, QUIET) as session:
        add(session, "a")
        hb.create_tables(store, ONE)
        (before,) = hb.indexes.index_status(store, ONE)
        assert (before.preparing, before.shown_state) == (False, "absent")
        assert waited_for(store)
        (status,) = hb.indexes.index_status(store, ONE)
        assert (status.state, status.preparing) == ("absent", True)
        assert status.shown_state == "absent, the table is being prepared for its first index"


def test_a_table_that_older_programs_may_write_is_waited_for_once() -> None:
    at_once = hb.indexes.IndexTimes(lease=0, longest_call=0)
    with fresh(ONE, gated=False) as store:
        hb.indexes.drop_index(store, ONE, "by_rank", times=at_once)
        store.delete("hbmodel", [Delete(registry_row(hb.schema.schema_of(ONE)), columns=(LISTED,))])
        assert waited_for(store) == ()
        found = Registry(store).read(hb.schema.schema_of(ONE))
        assert found is not None
        assert found.listed is not None
        assert found.listed > 0
        assert hb.indexes.build_index(
            store, ONE, "by_rank", times=hb.indexes.IndexTimes(lease=0.01, longest_call=0.01)
        ).readable


def test_a_line_that_cannot_be_read_is_waited_for() -> None:
    with fresh(ONE, gated=False) as store:
        key = b"\x02" + registry_row(hb.schema.schema_of(ONE)) + b"\x00" + b"x" * 16
        hb.indexes.drop_index(store, ONE, "by_rank", times=hb.indexes.IndexTimes(lease=0, longest_call=0))
        store.put("hbmodel", [Put(key, {b"m:w": b'{"form":2}'})])
        (writer,) = waited_for(store, times=hb.indexes.IndexTimes(lease=0.001))
        assert writer.startswith("a program, process 0 on an unknown host")


def test_lines_of_the_dead_are_marked_and_deleted() -> None:
    times = hb.indexes.IndexTimes(lease=0.01, longest_call=0.01, clock_bound=0.1, grace=1)
    with fresh(ONE, gated=False) as store:
        session = session_of(store, QUIET, lease=0.01, longest_call=0.01, clock_bound=0.1, grace=1)
        add(session, "a", ONE)
        (line,) = lines(store)

        def after_a_build() -> list[str]:
            hb.indexes.drop_index(store, ONE, "by_rank", times=times)
            hb.indexes.build_index(store, ONE, "by_rank", times=times)
            return kinds(store)

        assert comes_true(lambda: after_a_build() != ["on"])
        left = kinds(store)
        assert left in (["gone"], []), "a slow machine finds it deleted as well"
        add(session, "b", ONE)  # under another id
        assert sorted(kinds(store)) == [*left, "on"]
        assert comes_true(lambda: line.key not in [found.key for found in lines(store) if after_a_build() is not None])


# --- what the roll survives -------------------------------------------------------------------------------------------


class Failing(RecordingStore):
    """Fails at puts of lines, as often as it is told to."""

    def __init__(self, store: hb.Store, *modes: str) -> None:
        super().__init__(store, gated=False)
        self.modes = [*modes]

    def _carried_out(self, call: Call, apply: Callable[[Sequence[Any]], Any]) -> Any:
        if call.name != "check_and_put" or call.table != "hbmodel" or not self.modes:
            return super()._carried_out(call, apply)
        mode = self.modes.pop(0)
        if mode == "before":
            raise StoreUnavailable("down")
        if mode == "lost":
            raise UnknownOutcome("lost")
        super()._carried_out(call, apply)
        raise UnknownOutcome("late")


@pytest.mark.parametrize("modes", [["late"], ["lost"], ["lost", "late"], ["lost", "lost", "lost", "late"]])
def test_a_line_whose_answer_is_lost_is_read(modes: list[str]) -> None:
    with fresh(PLAIN, gated=False) as store:
        failing = Failing(store, *modes)
        with hb.Session(failing) as session:
            add(session, "a")
            assert kinds(store) == ["on"]
        assert lines(store) == []


def test_nothing_is_written_where_the_line_cannot_be_put() -> None:
    with fresh(PLAIN, gated=False) as store:
        with hb.Session(Failing(store, *["lost"] * 5)) as session:
            session.add(PLAIN(name="a", rank=1))
            with pytest.raises(
                hb.StoreUnavailable, match="line on the writers' roll could not be put, so nothing was written"
            ):
                session.commit()
            assert store.told().count("put rolled") == 0
            session.commit()
            assert session.get(PLAIN, name="a") is not None
        with hb.Session(Failing(store, "before")) as session:
            session.add(PLAIN(name="b", rank=1))
            with pytest.raises(hb.StoreUnavailable, match="down"):
                session.commit()
            session.commit()


class Down(RecordingStore):
    """Cannot be reached when lines are deleted, and sends the delete again for as long as its gate lets it pass."""

    def __init__(self, store: hb.Store, now: list[int]) -> None:
        super().__init__(store, gated=False)
        self.now, self.sent = now, 0

    def _carried_out(self, call: Call, apply: Callable[[Sequence[Any]], Any]) -> Any:
        if call.name != "delete" or call.table != "hbmodel":
            return super()._carried_out(call, apply)
        self.sent += 1
        self.now[0] += 2_000
        while self.sent < 9 and may_pass():
            self.sent += 1
            self.now[0] += 2_000
        raise StoreUnavailable("down")


def test_the_end_of_a_program_does_not_wait_for_a_store_that_is_down() -> None:
    now = [1_000_000]
    with fresh(PLAIN, OTHER, gated=False) as store:
        down = Down(store, now)
        cache = BindingCache(60, running=lambda: now[0], offset=SharedOffset(running=lambda: now[0]), roll_times=QUIET)
        session = hb.Session(down, cache=cache)
        add(session, "a")
        add(session, "a", OTHER)
        assert len(lines(store)) == len(lines(store, OTHER)) == 1
        cache.leave(down)
        assert down.sent == 3, "sent again for 5 seconds, and the second line not at all"


@pytest.mark.lengthy
def test_a_lease_that_was_slept_through_is_taken_again() -> None:
    """The machine sleeps between two writes, and an index is built meanwhile."""
    now = [1_000_000]
    with fresh(PLAIN, gated=False) as store:
        cache = BindingCache(60, running=lambda: now[0], offset=SharedOffset(running=lambda: now[0]), roll_times=QUIET)
        session = hb.Session(store, cache=cache)
        add(session, "a")
        hb.create_tables(store, ONE)
        assert hb.indexes.build_index(
            store, ONE, "by_rank", times=hb.indexes.IndexTimes(lease=0, longest_call=0)
        ).readable
        now[0] += 61_000
        with pytest.raises(
            hb.errors.IndexUnavailable, match="The table has a live index that the model does not declare"
        ):
            add(session, "b")


def test_writes_do_not_lengthen_the_lease_of_readers() -> None:
    """A drop waits one lease for readers: what a session reads by must be no older than that, also if it writes."""
    now, other = [1_000_000], declare()
    with fresh(PLAIN, gated=False) as store:
        cache = BindingCache(60, running=lambda: now[0], offset=SharedOffset(running=lambda: now[0]), roll_times=QUIET)
        with hb.Session(store, cache=cache) as session:
            add(session, "a")
            now[0] += 10_000
            session.get(other, name="a")
            now[0] += 45_000
            add(session, "b", other)  # within the lease of the line
            store.told()
            now[0] += 20_000
            session.get(other, name="a")
            assert store.told() == ["get hbmodel", "get rolled"]


@pytest.mark.lengthy
def test_a_writer_learns_of_a_change_from_what_it_reads() -> None:
    now = [1_000_000]
    with fresh(PLAIN, gated=False) as store:
        cache = BindingCache(60, running=lambda: now[0], offset=SharedOffset(running=lambda: now[0]), roll_times=QUIET)
        with hb.Session(store, cache=cache) as session:
            session.get(PLAIN, name="a")
            now[0] += 30_000
            add(session, "a")
            hb.create_tables(store, ONE)
            assert hb.indexes.build_index(
                store, ONE, "by_rank", times=hb.indexes.IndexTimes(lease=0, longest_call=0)
            ).readable
            now[0] += 59_000
            session._cache._bindings.clear()  # as if a reader's lease had ended before that of the line
            session.get(PLAIN, name="a")
            now[0] += 500
            session.add(PLAIN(name="b", rank=1))
            with pytest.raises(hb.errors.IndexUnavailable):
                session.commit()
            session.discard()


def test_a_session_that_nobody_closes_is_not_kept_until_the_end_of_the_program() -> None:
    with fresh(PLAIN, gated=False) as store:
        session = session_of(store, RollTimes(idle=0.001))
        add(session, "a")
        roll = weakref.ref(session._cache.roll(1200))
        assert comes_true(lambda: kinds(store) == ["rest"])
        del session

        def forgotten() -> bool:
            gc.collect()
            return roll() is None

        assert comes_true(forgotten)


@pytest.fixture(params=HBASE)
def url(request: pytest.FixtureRequest, hbmodel_hbase: Any) -> str:
    """Of a gateway, with tables of its own."""
    of = hbmodel_hbase.url if request.param == "thrift1" else hbmodel_hbase.thrift2_url
    return f"{of}?table_prefix=r{uuid4().hex[:8]}"


def test_closing_the_store_takes_its_programs_off_the_roll(url: str) -> None:
    with hb.connect(url) as store, hb.connect(url) as other:
        hb.create_tables(other, PLAIN)
        add(hb.SessionFactory(store)(), "a")
        assert len(lines(other)) == 1
        store.close()
        assert lines(other) == []


PROGRAM = """
import os, signal, sys, time
import hbmodel as hb
from tests.tables.test_renewed_lines import PLAIN, add
url, way = sys.argv[1:]
store = hb.connect(url)
session = hb.Session(store)
add(session, "program")
if way == "fork":
    child = os.fork()
    if not child:
        add(session, "child")
        sys.exit(0)
    os.waitpid(child, 0)
    print("forked", flush=True)
    sys.stdin.readline()
if way == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(url: str, way: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_programs_that_end_are_off_the_roll_and_killed_ones_are_named(url: str) -> None:
    with hb.connect(url) as store:
        hb.create_tables(store, PLAIN)
        ended = run(url, "end")
        ended.communicate()
        assert ended.returncode == 0
        assert lines(store) == []
        forked = run(url, "fork")
        assert forked.stdout is not None
        assert forked.stdin is not None
        assert forked.stdout.readline() == "forked\n"
        (of_parent,) = lines(store)
        assert of_parent.line is not None
        assert of_parent.line.writer.pid == forked.pid
        forked.communicate("\n")
        assert lines(store) == []
        killed = run(url, "kill")
        killed.communicate()
        (left,) = lines(store)
        assert left.line is not None
        assert (left.line.writer.pid, left.line.writer.program, left.line.kind) == (killed.pid, "-c", "on")
        (writer,) = waited_for(store, times=hb.indexes.IndexTimes(lease=0.001))
        assert f"process {killed.pid} on " in writer
        command = [
            sys.executable,
            "-m",
            "hbmodel",
            "index",
            "build",
            "rolled",
            "by_rank",
            "--store",
            url,
            "--model",
            f"{__name__}:ONE",
        ]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as shell:
            assert shell.stderr is not None
            told = next(line for line in shell.stderr if line.startswith("waiting for "))
            shell.kill()
        assert f"process {killed.pid} on " in told


def test_an_index_is_built_without_a_wait_where_nobody_writes(url: str) -> None:
    with hb.connect(url) as store:
        hb.create_tables(store, ONE)
        with hb.Session(store) as session:
            session.bulk_add(ONE(name=f"{n}", rank=n) for n in range(100))
        hb.indexes.drop_index(store, ONE, "by_rank", times=hb.indexes.IndexTimes(lease=0))
        assert hb.indexes.build_index(store, ONE, "by_rank", progress=Waits()).readable


PAUSED = """
import json, sys, threading
import hbmodel as hb
from tests.tables.test_renewed_lines import ONE, SHORT
store = hb.connect(sys.argv[1])
session = hb.Session(store, **SHORT)
stop, held = threading.Event(), {}
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
n = 0
while not stop.is_set():
    name, rank = f"w{n % 40}", n % 251
    if name in held and n % 3:
        session.update_key(ONE, name=name, rank=rank)
    else:
        session.add(ONE(name=name, rank=rank))
    session.commit()
    held[name] = rank
    if n == 5:
        print("ready", flush=True)
    n += 1
print(json.dumps(held), flush=True)
"""

SHORT = {"lease": 0.5, "longest_call": 4.0, "clock_bound": 0.2, "grace": 20.0}


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", range(2))
def test_no_entry_is_missing_of_a_writer_that_stands_still_beyond_its_lease(url: str, seed: int) -> None:
    """It is stopped and continued all the time while an index is built, dropped and built again. No stop is as long
    as a call may last.
    """
    draw = random.Random(seed)
    times = hb.indexes.IndexTimes(**SHORT)
    with hb.connect(url) as store:
        hb.create_tables(store, PLAIN)
        with hb.Session(store) as session:
            session.bulk_add(PLAIN(name=f"r{n}", rank=n) for n in range(50))
        hb.create_tables(store, ONE)
        writer = subprocess.Popen(
            [sys.executable, "-c", PAUSED, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        built = threading.Event()

        def pause() -> None:
            while not built.wait(draw.uniform(0.01, 0.3)):
                writer.send_signal(signal.SIGSTOP)
                built.wait(draw.uniform(0.2, 2.0))
                writer.send_signal(signal.SIGCONT)

        pausing = threading.Thread(target=pause)
        pausing.start()
        try:
            assert hb.indexes.build_index(store, ONE, "by_rank", times=times).readable
            hb.indexes.drop_index(store, ONE, "by_rank", times=times)
            assert hb.indexes.build_index(store, ONE, "by_rank", times=times).readable
        finally:
            built.set()
            pausing.join()
            told, _ = writer.communicate("\n")
        held: dict[str, int] = json.loads(told)
        report = hb.indexes.verify_index(store, ONE, "by_rank", times=times)
        assert (report.missing, report.rows) == (0, 50 + len(held))
        reader = hb.Session(store)
        assert {thing.name: thing.rank for thing in reader.query(ONE).allow_full_scan() if thing.name in held} == held
        for rank in {*held.values()}:
            names = {thing.name for thing in reader.query(ONE).where(ONE.rank == rank).use_index("by_rank")}
            assert {name for name, of in held.items() if of == rank} <= names


def test_a_line_is_kept_again_after_an_error_of_any_kind(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(RecordingStore):
        fails = False

        @property
        def unobserved(self) -> hb.Store:
            return self

        def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
            if self.fails and threading.current_thread() is not threading.main_thread():
                type(self).fails = False
                raise ZeroDivisionError
            return super().get(table, rows, columns)

    with fresh(PLAIN, gated=False) as store:
        broken = Broken(store, gated=False)
        session = session_of(broken, RollTimes(poll=0.01, idle=0.2))
        add(session, "a")
        Broken.fails = True

        def written() -> bool:
            add(session, "b")
            return not Broken.fails and "could not be kept" in caplog.text

        assert comes_true(written)
        add(session, "c")
        assert comes_true(lambda: kinds(store) == ["rest"])


def test_calls_that_keep_a_line_are_not_recorded() -> None:
    """They come at any time, and would be among the calls of a later test on the same store."""

    class Wrapped(RecordingStore):
        @property
        def unobserved(self) -> hb.Store:
            """Keeps its lines through itself."""
            return self

    with fresh(PLAIN, gated=False) as inner:
        store = Wrapped(inner, gated=False)
        session = session_of(store, RollTimes(poll=0.01, idle=0.01))
        session.add(PLAIN(name="a", rank=1))
        session.commit()
        told = store.told()
        wait_until(lambda: kinds(inner.inner) == ["rest"])
        assert store.told() == []
        assert "put rolled" in told
