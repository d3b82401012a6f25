"""The rules of versioned mode broken on purpose, each by changing what the shipped code does; the checker must
notice every one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import evolve, frozen

from hbmodel.mapping.version_cell import VersionCell
from hbmodel.protocol.indexed.indexed_plan import OldRow, RowPlan
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutateRows,
    DeleteRows,
    GetRows,
    Operation,
    Protocol,
    PutRows,
    Together,
    carried_out,
)
from hbmodel.protocol.versioned.versioned_plan import Sent, Verdict, VersionedRowPlanner
from hbmodel.protocol.writes import DeleteRow, RowWrite, UpdateFields
from hbmodel.store import Delete, Put
from tests.checker.protocol_mutants import Patient
from tests.checker.protocol_processes import Rules as Around
from tests.checker.protocol_sweeps import Configuration
from tests.checker.protocol_versions import Rules, repairers, two

BARE = "without an index"


@frozen
class Mutant:
    """One rule broken; see `protocol_mutants.Mutant`."""

    rules: Rules
    where: Callable[[Rules], Iterable[Configuration]]
    violation: str


class VersionsAlone(VersionedRowPlanner):
    """A change that only raises the version leaves the entries of its row unchanged."""

    def entries_again(self, old: OldRow, version: bytes, timestamp: int) -> list[tuple[str, Put]]:
        """None."""
        return []


def changed(change: Callable[[Operation], Protocol[Any]]) -> Rules:
    """Each operation is carried out by `change`."""

    return Rules(around=lambda protocol: carried_out(protocol, change))


def entries_last() -> Rules:
    """Entries after the row."""

    def around(protocol: Protocol[Any]) -> Protocol[Any]:
        held: list[Together] = []
        answer: Any = None
        while True:
            try:
                operation = protocol.send(answer)
            except StopIteration as stop:
                return stop.value
            answer = None
            if isinstance(operation, Together) and isinstance(operation.operations[0], PutRows):
                held.append(operation)
                continue
            answer = yield operation
            if isinstance(operation, CheckAndMutateRows):
                while held:
                    yield held.pop()

    return Rules(around=around)


def acknowledged_first(protocol: Protocol[Any]) -> Protocol[Any]:
    """Acknowledged before the row is changed."""
    held: list[Operation] = []
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(operation, CheckAndMutateRows):
            held.append(operation)
            answer = [True for _ in operation.changes]
            continue
        answer = yield operation
        if isinstance(operation, Acknowledge):
            yield from held


def _loser_cleans() -> Callable[[Protocol[Any]], Protocol[Any]]:
    def around(protocol: Protocol[Any]) -> Protocol[Any]:
        answer: Any = None
        entries: Together | None = None
        while True:
            try:
                operation = protocol.send(answer)
            except StopIteration as stop:
                return stop.value
            answer = yield operation
            if isinstance(operation, Together):
                entries = operation
            elif isinstance(operation, CheckAndMutateRows) and not all(answer) and entries is not None:
                parts = [part for part in entries.operations if isinstance(part, PutRows)]
                yield Together(
                    [
                        DeleteRows(part.table, [Delete(put.row, timestamp=put.timestamp) for put in part.puts])
                        for part in parts
                    ]
                )

    return around


def unconditional(operation: Operation) -> Protocol[Any]:
    """No condition but what the row holds now."""
    if isinstance(operation, CheckAndMutateRows):
        made = []
        for change in operation.changes:
            (row,) = yield GetRows(operation.table, [change.row], [change.column])
            made.append(evolve(change, expected=None if row is None else row.columns[change.column].value))
        operation = CheckAndMutateRows(operation.table, made)
    return (yield operation)


class Forgetful(Sent):
    """Who is refused has lost."""

    def verdict(self, found: VersionCell) -> Verdict:
        return "lost"


class Sure(Sent):
    """Who does not find the own nonce has lost, however many writes have come since."""

    def verdict(self, found: VersionCell) -> Verdict:
        found_verdict = super().verdict(found)
        return "lost" if found_verdict == "unknown" else found_verdict


class NoEarlierNonces(VersionedRowPlanner):
    """A version cell holds its own nonce alone."""

    def version(self, nonce: bytes, old: OldRow, timestamp: int) -> bytes:
        return self.cell(old).next(nonce, timestamp, 0).data


class Uncounted(VersionedRowPlanner):
    """Columns that an update writes in addition to the indexed ones are ignored."""

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._partial(write, old, timestamp)
        if plan.put is None or self.group.intersection(write.changes):
            return plan
        assert old.row is not None
        kept = {**plan.put.cells, self.schema.version_column: old.row.columns[self.schema.version_column].value}
        return evolve(plan, put=evolve(plan.put, cells=kept))


class Undemanding(VersionedRowPlanner):
    """The version of an object is not looked at."""

    def _check_version(self, write: RowWrite, old: OldRow) -> None:
        pass


class Unasking(VersionedRowPlanner):
    """The condition is asked of the first row that is read alone."""

    def _plan(self, write: RowWrite, old: OldRow, now: int) -> RowPlan:
        plan = super()._plan(write, old, now)
        self._asked.add(write.row)
        return plan

    @property
    def _asked(self) -> set[bytes]:
        found: set[bytes] = self.__dict__.setdefault("asked", set())
        return found

    def plan(self, write: RowWrite, old: OldRow, now: int) -> RowPlan:
        if write.row in self._asked and isinstance(write, UpdateFields):
            write = evolve(write, condition=None)
        return super().plan(write, old, now)


class NoMarker(VersionedRowPlanner):
    """A delete leaves nothing, its version neither."""

    def change(self, plan: RowPlan, old: OldRow) -> Any:
        made = super().change(plan, old)
        if plan.row_delete is None or plan.put is None:
            return made
        return evolve(made, mutations=[evolve(plan.row_delete, timestamp=plan.put.timestamp)])


class RowDeleteAtTime(VersionedRowPlanner):
    """The row delete that goes with a marker is at t, not at t-1."""

    def _delete(self, write: DeleteRow, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._delete(write, old, timestamp)
        return (
            plan if plan.row_delete is None else evolve(plan, row_delete=evolve(plan.row_delete, timestamp=timestamp))
        )


class OwnClock(VersionedRowPlanner):
    """t is the clock's, whatever the row holds."""

    def old(self, row: Any) -> OldRow:
        return evolve(super().old(row), newest=-1)


def pair(one: str, other: str, **options: Any) -> Callable[[Rules], Iterable[Configuration]]:
    """These two writers, by every clock."""
    return lambda rules: two((one, other), rules=rules, **options)


LOST_ANSWER = {"ordered": True, "first": {"repeat": 1}, "crashes": 0}
LATE = {"others": repairers, "paused": True, "always": False, "crashes": 0, "clocks": (5,)}

TAKEN = Rules(around=lambda protocol: protocol)
"""Where an answer was lost, a refusal is taken for final."""

MUTANTS: Mapping[str, Mutant] = {
    "versions: row before entries": Mutant(entries_last(), pair("put b", "note"), "MISSING"),
    "versions: acknowledged before the row": Mutant(Rules(around=acknowledged_first), pair("tag b", "note"), "PHANTOM"),
    "versions: the loser cleans up": Mutant(Rules(around=_loser_cleans()), pair("put b", "tag b"), "MISSING"),
    "versions: no condition": Mutant(changed(unconditional), pair("note", "tag b"), "COUNT"),
    "versions: no condition, no index": Mutant(changed(unconditional), pair("note", "put b", model=BARE), "COUNT"),
    "versions: the own nonce not looked for": Mutant(
        Rules(sent=Forgetful), pair("note", "put b at 10", **LOST_ANSWER), "AGAIN"
    ),
    "versions: refused though applied": Mutant(
        Rules(sent=Forgetful), pair("tag c at 10", "note at 10", **LOST_ANSWER), "DENIED"
    ),
    "versions: refusals taken for final": Mutant(
        TAKEN, lambda rules: two(("note", "put b at 10"), (12,), rules, final=rules is TAKEN, **LOST_ANSWER), "AGAIN"
    ),
    "versions: no earlier nonces": Mutant(
        Rules(planner=NoEarlierNonces, sent=Sure), pair("tag b", "note", **LOST_ANSWER), "AGAIN"
    ),
    "versions: one nonce for all": Mutant(
        Rules(nonce=lambda process, number: bytes(8)),
        pair("note at 10", "put b", clocks=(12,), model=BARE, crashes=0),
        "PHANTOM",
    ),
    "versions: a write that is not counted": Mutant(Rules(planner=Uncounted), pair("note", "put b"), "COUNT"),
    "versions: the version not demanded": Mutant(Rules(planner=Undemanding), pair("put b at 10", "note"), "DEMAND"),
    "versions: the condition asked once": Mutant(Rules(planner=Unasking), pair("tag b if a", "put b"), "CONDITION"),
    "versions: no marker": Mutant(Rules(planner=NoMarker), pair("delete, put", "note"), "COUNT"),
    "versions: row delete at t": Mutant(Rules(planner=RowDeleteAtTime), pair("delete, put", "note"), "COUNT"),
    "versions: t from the clock alone": Mutant(Rules(planner=OwnClock), pair("put b", "note"), "COUNT"),
    "versions: no writer is ever too late": Mutant(
        Rules(clock=Patient, repair=Around(grace="clock")),
        pair("put b", "put b", **LATE, count=1),
        "after repair: MISSING",
    ),
    "versions: repair without grace": Mutant(
        Rules(repair=Around(grace="never")), pair("put b", "put b", others=repairers), "MISSING"
    ),
}
