"""Runs two programs that each make one call for the same row, with their requests to the store in any order.

The programs run in threads, and a schedule decides which of them makes its next request. The server's clock moves
either only in the pauses of the programs, or with every request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from attrs import define, frozen

import hbmodel as hb
from hbmodel.errors import StoreUnavailable
from hbmodel.protocol.corrected_clock import wall_time
from hbmodel.store.clock_tick import deletes_now
from hbmodel.store.embedded import EmbeddedStore
from tests.support.called_kinds import Kind, Row, State, names
from tests.support.calls_of_kinds import DEEDS
from tests.support.deeds import Program
from tests.support.faulty import Call, RecordingStore
from tests.support.turns import Schedule, Turns
from tests.support.two_outcomes import INTERRUPTED, Pair


class SteppedStore(RecordingStore):
    """A store that lets the thread of a program make one request in each of its turns.

    Args:
        distinct: whether the server's clock moves with every request.
        limited: see `RecordingStore`.
        gated: see `RecordingStore`.
    """

    def __init__(self, *, distinct: bool, limited: bool = False, gated: bool = True) -> None:
        self.now = wall_time()
        self.distinct = distinct
        self.turns: Turns | None = None
        self.fault: Fault | None = None
        super().__init__(EmbeddedStore(None, lambda: self.now), limited=limited, gated=gated)

    def _do(self, call: Call, apply: Any) -> Any:
        turns = self.turns
        if self.fault is not None and not call.table.startswith("hbmodel"):
            return self._perhaps(self.fault, call, apply)
        if turns is None or call.table.startswith("hbmodel"):
            return self._at_once(call, apply)
        turns.wait()
        answer = self._at_once(call, apply)
        if call.name in ("delete", "mutate_row", "check_and_mutate", "check_and_mutate_many") and _deletes(call.items):
            turns.wait()
            self.now += 1  # the pause of the store itself
        return answer

    def _perhaps(self, fault: Fault, call: Call, apply: Any) -> Any:
        fault.left -= 1
        if fault.left >= 0:
            return self._at_once(call, apply)
        self.fault = None
        if not call.writes or not fault.sent:
            raise StoreUnavailable("On purpose: nothing was sent.")
        if fault.carried_out:
            self._at_once(call, apply)
        raise hb.UnknownOutcome("On purpose: the answer is lost.")

    def _at_once(self, call: Call, apply: Any) -> Any:
        self.now += self.distinct
        return self._carried_out(call, apply)

    def tick(self) -> None:
        """Pauses a program until the next tick of the clock."""
        if self.turns is not None:
            self.turns.wait()
        self.now += 1

    def pass_by(self, _: object, passed: int) -> None:
        """Pauses until the server's clock shows a later time."""
        self.tick()
        self.now = max(self.now, passed + 1)


@define
class Fault:
    """A request that fails.

    Attributes:
        left: the number of requests that succeed before the failing one.
        sent: whether the failing request was sent.
        carried_out: whether the failing request was carried out.
    """

    left: int
    sent: bool
    carried_out: bool


def _deletes(items: Sequence[Any]) -> bool:
    return any(
        deletes_now(item if isinstance(item, list | tuple) else getattr(item, "mutations", (item,))) for item in items
    )


Errors = tuple[type[BaseException] | None, type[BaseException] | None]
"""The error of each of two calls, or None if it raised none."""


@frozen
class Result:
    """The results of two calls."""

    found: State
    errors: Errors
    wrong: str | None


@frozen(eq=False)
class Stage:
    """A store with the table of one kind.

    Attributes:
        of: the kind.
        store: the store with its tables.
        sessions: opens sessions on the store.
    """

    of: Kind
    store: SteppedStore
    sessions: Any

    @classmethod
    def of_kind(cls, of: Kind, *, distinct: bool, limited: bool = False) -> Stage:
        """Returns a new store."""
        store = SteppedStore(distinct=distinct, limited=limited)
        hb.create_tables(store, of.model, create_external=True)
        return cls(of, store, hb.SessionFactory(store))

    def run(self, begin: Sequence[str], deeds: Sequence[str], number: int, schedule: Schedule) -> Result:
        """Makes two calls at the same time. `number` must be unused, because it determines the key and the values."""
        key, base = f"{number:07}", 10 * number
        with (
            patch("hbmodel.protocol.driver.let_tick_pass", self.store.tick),
            patch("hbmodel.session.commit.batch_runner.let_tick_pass", self.store.tick),
            patch("hbmodel.protocol.driver.await_clock", self.store.pass_by),
        ):
            state = self._begun(begin, key, base)
            errors: list[type[BaseException] | None] = [None, None]

            def program(at: int) -> None:
                try:
                    self._call(deeds[at], key, base + 5 + at)
                except hb.PartialWrite as error:
                    errors[at] = type(error.failures[0].error or error) if error.failures else type(error)
                except BaseException as error:
                    errors[at] = type(error)

            turns = self.store.turns = Turns(schedule)
            try:
                turns.run([lambda: program(0), lambda: program(1)])
            finally:
                self.store.turns = None
        return self._judged(begin, state, deeds, key, base, (errors[0], errors[1]))

    def run_interrupted(
        self, begin: Sequence[str], deeds: Sequence[str], number: int, fault: Fault, *, crash: bool
    ) -> Result:
        """Makes two calls. A request of the first call fails, then the second call is made, and then the first call
        continues, unless it crashed.

        If the first call never reaches the failing request, the second call follows the first.
        """
        of, key = self.of, f"{number:07}"
        base = 10 * number
        with (
            patch("hbmodel.protocol.driver.let_tick_pass", self.store.tick),
            patch("hbmodel.session.commit.batch_runner.let_tick_pass", self.store.tick),
            patch("hbmodel.protocol.driver.await_clock", self.store.pass_by),
        ):
            state = self._begun(begin, key, base)
            first, other = Program(self.sessions()), Program(self.sessions())
            self.store.fault = fault
            error = self._tried(lambda: first.call(DEEDS[deeds[0]], of, key, base + 5))
            self.store.fault = None
            error_beside = self._tried(lambda: other.call(DEEDS[deeds[1]], of, key, base + 6))
            if error in INTERRUPTED and not crash and first.waiting:
                error = self._tried(first.pending.commit)
            if error in INTERRUPTED:
                error = hb.UnknownOutcome
            first.discard()
            other.discard()
        return self._judged(begin, state, deeds, key, base, (error, error_beside))

    def _begun(self, begin: Sequence[str], key: str, base: int) -> State:
        state: State = {}
        for at, name in enumerate(begin):
            self._call(name, key, base + at)
            after = DEEDS[name].then(self.of, state, base + at)
            assert not isinstance(after, type), (begin, after)
            state = after
            self.store.now += 1
        return state

    @staticmethod
    def _tried(call: Callable[[], object]) -> type[BaseException] | None:
        try:
            call()
        except hb.PartialWrite as error:
            return type(error.failures[0].error or error) if error.failures else type(error)
        except Exception as error:
            return type(error)
        return None

    def _call(self, name: str, key: str, number: int) -> None:
        program = Program(self.sessions())
        try:
            program.call(DEEDS[name], self.of, key, number)
        finally:
            program.discard()

    def _judged(
        self, begin: Sequence[str], state: State, deeds: Sequence[str], key: str, base: int, errors: Errors
    ) -> Result:
        found, wrong = self._found(key)
        pair = Pair(self.of, self.store.distinct, self.store.limited, begin, state, deeds, errors, base)
        return Result(found, errors, wrong or pair.wrong(found))

    @property
    def _leaves_entries(self) -> bool:
        """Whether map entries that are put while their object is deleted may remain. They are not visible until the key
        is used again.
        """
        of = self.of
        return not (of.indexed or of.schema.versioned) and (self.store.limited or of.wide or not of.required)

    def _found(self, key: str) -> tuple[State, str | None]:
        """Returns the remaining rows, and an error if different ways to read them disagree."""
        of, session = self.of, self.sessions()
        found: dict[str, Row] = {}
        for name, fields in ((name, names(of, key, name)) for name in of.places):
            try:
                row = session.get(of.model, **fields)
            except hb.IncompleteRow:
                return {}, f"{name}: incomplete"
            if row is not None:
                found[name] = Row(row.m, row.o, row.h if of.counter else 0)
            if of.mapped:
                entries = session.entries(of.model.e, **fields).all()
                if row is not None:
                    found[name] = found[name].merged(entries)
                elif entries and not self._leaves_entries:
                    return {}, f"{name}: entries {entries} without an object"
        model, (name, value) = of.model, next(iter(names(of, key).items()))
        field = getattr(model, name)
        query = session.query(model).where(
            *([field == value] if of.wide and not of.numbers else [field >= value, field <= value + "z"])
        )
        rows = (query.load(model.e) if of.mapped else query).allow_full_scan().all()
        at = {tuple(names(of, key, name).values()): name for name in of.places}
        scanned = {at.get(tuple(getattr(row, name) for name in names(of, key)), "another"): row for row in rows}
        if scanned.keys() != found.keys() or len(rows) != len(found):
            return found, f"get finds {sorted(found)}, a scan {sorted(scanned)}"
        loaded = {name: dict(row.e) for name, row in found.items() if of.mapped}
        if of.mapped and {name: row.e for name, row in scanned.items()} != loaded:
            return found, f"the scan loads other entries than {loaded}"
        if of.indexed:
            for name, row in found.items():
                hits = session.query(of.model).where(of.model.m == row.m).use_index("by_m").all()
                if len(hits) != list(found.values()).count(row) and {hit.m for hit in hits} != {row.m}:
                    return found, f"{name}: the index finds {hits}"
                if not hits:
                    return found, f"{name}: the index finds nothing"
        return found, None
