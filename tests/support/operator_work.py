"""Runs calls of two programs for one row, while an operator works on an index of the table or moves its objects.

There is only one clock, which moves with the requests and the pauses of the programs. So a program may pause for any
time between two requests, while the operator waits until leases end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from attrs import evolve, frozen

import hbmodel as hb
from hbmodel.store.gate import TRANSACTION
from tests.support.called_kinds import Kind, kind
from tests.support.calls_of_kinds import DEEDS
from tests.support.deeds import Program
from tests.support.faulty import Call
from tests.support.turns import Schedule, Turns
from tests.support.two_programs import Result, Stage, SteppedStore

CLOCKED = (
    "hbmodel.protocol.corrected_clock", "hbmodel.protocol.driver", "hbmodel.tables.indexes.index_work",
    "hbmodel.tables.indexes.index_sweeps", "hbmodel.tables.indexes.shared_ranges",
    "hbmodel.tables.migration.phase_waits", "hbmodel.session.commit.conflict_retries",
)  # fmt: skip
"""The modules that read a clock or wait."""


class PausedStore(SteppedStore):
    """A store that lets programs pause after each request. The server's clock is the only clock.

    A program measures its lease from before a request. So a pause after a request is a pause of the program, not of a
    request in progress.
    """

    CLOCK_BOOTTIME = 7

    def _do(self, call: Call, apply: Any) -> Any:
        answer = self._at_once(call, apply)
        if call.writes:
            self.now += 1  # the pause of the store itself
        if self.turns is not None and TRANSACTION.get() is None:  # no other program can write before a transaction ends
            self.turns.wait()
        return answer

    # --- the replacement of `time` in the modules that wait
    # -------------------------------------------------------------

    def time_ns(self) -> int:
        return self.now * 1_000_000

    def monotonic_ns(self) -> int:
        return self.now * 1_000_000

    def clock_gettime_ns(self, clock: int) -> int:
        return self.now * 1_000_000

    def monotonic(self) -> float:
        return self.now / 1000

    def sleep(self, seconds: float) -> None:
        """Pauses a program."""
        self.now += max(1, round(seconds * 1000))
        if self.turns is not None:
            self.turns.wait()


@frozen(eq=False)
class Work:
    """The work of an operator.

    Attributes:
        name: the name of the work.
        kind: the kind of model that programs declare.
        before: the kind that was declared when the table was created.
        run: does the work.
        after: the kind that is declared when the work is done.
    """

    name: str
    kind: Kind
    before: Kind
    run: Callable[[PausedStore, Kind], object]
    after: Kind


def _build(store: PausedStore, of: Kind) -> None:
    """Builds the index. While an object is under both keys of a `rekey`, a unique value is in two rows, and the build
    must be repeated. A build that begins after the calls have ended must succeed.
    """
    while True:
        last = store.turns is None or store.turns.alone
        if hb.indexes.build_index(store, of.model, "by_m").readable:
            return
        assert not last, "the index cannot be read"


def _drop(store: PausedStore, of: Kind) -> None:
    hb.indexes.drop_index(store, of.model, "by_m")


def _repair(store: PausedStore, of: Kind) -> None:
    hb.indexes.repair_index(store, of.model, "by_m")


def _purge(store: PausedStore, of: Kind) -> None:
    hb.indexes.purge_rows(store, of.model)


def _move(store: PausedStore, of: Kind) -> None:
    moving = hb.migration.migrate(store, of.model)
    moving.start()
    report = moving.verify()
    assert report.sound, report
    assert moving.cut_over().phase == "done"


def _move_back(store: PausedStore, of: Kind) -> None:
    moving = hb.migration.migrate(store, of.model)
    moving.start()
    moving.roll_back()


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "indexed": {"index": "m", "null": None},
    "text": {"index": "m", "null": None, "number": False},
    "flag": {"index": "m", "null": None, "exists": hb.flag("e")},
    "counter": {"index": "m", "null": None, "counter": True},
    "versioned": {"index": "m", "null": None, "version": True},
    "covering": {"index": "covering", "null": None, "version": True},
    "unique": {"index": "unique", "null": None, "version": True},
    "wide": {"index": "m", "wide": True},
    "wide_counter": {"index": "m", "wide": True, "counter": True},
    "wide_versioned": {"index": "m", "wide": True, "version": True},
}


MOVED: Mapping[str, Mapping[str, Any]] = {
    "versioned": {"null": None, "version": True},
    "indexed": {"index": "m", "null": None, "version": True},
    "covering": {"index": "covering", "null": None, "version": True},
    "families": {"index": "m", "null": None, "version": True, "family": "x"},
}
"""The models whose objects move to another table while programs run, which are the versioned models."""


def works() -> Mapping[str, Work]:
    """Returns all work, for every kind of model."""
    found: dict[str, Work] = {}
    for name, options in OPTIONS.items():
        of, bare = kind(f"beside_{name}", **options), kind(f"beside_{name}", **{**options, "index": ""})
        for what, run, before, after in (
            ("build", _build, bare, of),
            ("drop", _drop, of, bare),
            ("repair", _repair, of, of),
            ("purge", _purge, of, of),
        ):
            found[f"{what} {name}"] = Work(f"{what} {name}", of, before, run, after)
    for name, options in MOVED.items():
        old = kind(f"old_{name}", **options)
        of = kind(f"new_{name}", **options, salt=hb.HashSalt(3), replaces=old.model)
        found[f"move {name}"] = Work(f"move {name}", of, old, _move, of)
        found[f"move back {name}"] = Work(f"move back {name}", of, old, _move_back, old)
    return found


WORKS = works()


@frozen(eq=False)
class Place:
    """A new store with the table for one piece of work."""

    work: Work
    store: PausedStore

    @classmethod
    def of(cls, work: Work, *, distinct: bool, limited: bool = False, gated: bool = False) -> Place:
        """Returns a new store. A limited store cannot change rows atomically. On a gated store, no change waits for
        writers.
        """
        store = PausedStore(distinct=distinct, limited=limited, gated=gated)
        hb.create_tables(store, work.before.model, create_external=True)
        return cls(work, store)

    def run(
        self,
        begin: Sequence[str],
        deeds: Sequence[str],
        number: int,
        schedule: Schedule,
        crash: tuple[int, int] | None = None,
    ) -> Result:
        """Makes two calls at the same time, while the operator works. `number` must be new, since it determines the key
        and the values.
        """
        of, key, base = self.work.kind, f"{number:07}", 10 * number
        errors: list[Any] = [None, None, None]
        with self.clocks():
            stage = Stage(self.work.before, self.store, hb.SessionFactory(self.store))
            state = stage._begun(begin, key, base)
            sessions = [hb.Session(self.store) for _ in (0, 1)]
            for session in sessions:
                session.get(of.model, **_names(of, "warm"))

            def program(at: int) -> None:
                one = Program(sessions[at])
                try:
                    one.call(DEEDS[deeds[at]], of, key, base + 5 + at)
                except hb.PartialWrite as error:
                    errors[at] = type(error.failures[0].error or error) if error.failures else type(error)
                except Exception as error:
                    errors[at] = type(error)
                    if isinstance(error, hb.SchemaMismatch) and deeds[at] == "query delete":
                        # a query that is read while the phase of a move changes may be refused
                        errors[at] = hb.UnknownOutcome
                finally:
                    one.discard()

            def operator() -> None:
                try:
                    self.work.run(self.store, of)
                except Exception as error:
                    errors[2] = error

            turns = self.store.turns = Turns(schedule, crash)
            try:
                turns.run([lambda: program(0), lambda: program(1), operator])
            finally:
                self.store.turns = None
            for at in turns.crashed & {0, 1}:
                errors[at] = hb.UnknownOutcome
            if 2 in turns.crashed:
                operator()
            self.store.now += 10_000
            if errors[2] is not None:
                return Result({}, (errors[0], errors[1]), f"the operator: {errors[2]!r}")
            judge = Stage(self.work.after, self.store, hb.SessionFactory(self.store))
            result = judge._judged(begin, state, deeds, key, base, (errors[0], errors[1]))
            if result.wrong is None and self.work.after.indexed:
                report = hb.indexes.verify_index(self.store, self.work.after.model, "by_m")
                if report.missing:
                    return evolve(result, wrong=str(report))
        return result

    def clocks(self) -> ExitStack:
        """Gives all programs the clock of the store, until the returned stack is closed."""
        stack = ExitStack()
        for module in CLOCKED:
            stack.enter_context(patch(f"{module}.time", self.store))
        for name, pause in (
            ("hbmodel.protocol.driver.let_tick_pass", self.store.tick),
            ("hbmodel.session.commit.batch_runner.let_tick_pass", self.store.tick),
            ("hbmodel.protocol.driver.await_clock", self.store.pass_by),
        ):
            stack.enter_context(patch(name, pause))
        for module in ("hbmodel.tables.indexes.index_work", "hbmodel.tables.migration.phase_waits"):
            stack.enter_context(patch(f"{module}.LOOK", 1e9))  # a wait is one pause
        return stack


def _names(of: Kind, key: str) -> dict[str, str]:
    return {"r": "r" + key, "k": "k"} if of.wide else {"k": key}
