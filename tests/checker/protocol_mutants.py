"""The rules of the index protocol broken on purpose, each by changing what the shipped code does; the checker must
notice every one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.mapping.rows.covering import VERIFIED
from hbmodel.mapping.rows.mapper import Values
from hbmodel.mapping.schema import LIVE
from hbmodel.protocol.indexed.entry_verifier import EntryVerifier
from hbmodel.protocol.indexed.index_build import RowEntries, RowIndexer
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner, OldRow, RowPlan
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutate,
    DeleteRows,
    GetRows,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    Question,
    Together,
)
from hbmodel.protocol.writes import DeleteRow, PutObject, RowWrite, UpdateFields, without_nulls
from hbmodel.store import Delete, Put, Row
from tests.checker.protocol_adapter import SetClock
from tests.checker.protocol_processes import Rules
from tests.checker.protocol_sweeps import (
    Configuration,
    building,
    built,
    places,
    purgers,
    ranges,
    readers,
    repairers,
    two,
)


def is_verification(put: Put) -> bool:
    """Whether a put verifies an entry."""
    return all(column.endswith(b":_s") and value[:1] == VERIFIED for column, value in put.cells.items())


# --- the order of the phases ------------------------------------------------------------------------------------------


def phase_of(operation: Operation) -> str:
    """The phase that an operation of `write_indexed_batch` belongs to."""
    match operation:
        case Together([PutRows(_, puts), *_]) if not all(map(is_verification, puts)):
            return "entries"
        case Together():
            return "stale"
        case Acknowledge():
            return "acknowledge"
        case DeleteRows():
            return "row delete"
        case MutateRow() | PutRows():
            return "row"
    raise AssertionError(operation)


def in_order(*phases: str) -> Callable[[Protocol[Any]], Protocol[Any]]:
    """Carries out the phases after the read in another order."""

    def around(protocol: Protocol[Any]) -> Protocol[Any]:
        held: list[Operation] = []
        answer: Any = None
        while True:
            try:
                operation = protocol.send(answer)
            except StopIteration:
                break
            answer = None
            if isinstance(operation, Question):
                answer = yield operation
            else:
                held.append(operation)
        for operation in sorted(held, key=lambda operation: phases.index(phase_of(operation))):
            yield operation

    return around


def around_insert(
    change: Callable[[CheckAndMutate, Together], Protocol[bool]],
) -> Callable[[Protocol[Any]], Protocol[Any]]:
    """An insert whose entries and check-and-mutate are carried out by `change`."""

    def around(protocol: Protocol[Any]) -> Protocol[Any]:
        answer: Any = None
        entries: Together | None = None
        while True:
            try:
                operation = protocol.send(answer)
            except StopIteration:
                return
            answer = None
            if isinstance(operation, CheckAndMutate) and entries is not None:
                answer = yield from change(operation, entries)
            elif entries is None and isinstance(operation, Together):
                entries = operation
            else:
                entries = None if isinstance(operation, GetRows) else entries
                answer = yield operation

    return around


def entries_last(check: CheckAndMutate, entries: Together) -> Protocol[bool]:
    """Entries after the row."""
    applied = yield check
    if applied:
        yield entries
    return bool(applied)


def loser_cleans(check: CheckAndMutate, entries: Together) -> Protocol[bool]:
    """A loser deletes the entries that it has put."""
    yield entries
    applied = yield check
    if not applied:
        parts = [part for part in entries.operations if isinstance(part, PutRows)]
        yield Together(
            [DeleteRows(part.table, [Delete(put.row, timestamp=put.timestamp) for put in part.puts]) for part in parts]
        )
    return bool(applied)


def unconditional(check: CheckAndMutate, entries: Together) -> Protocol[bool]:
    """No condition but what the row holds now."""
    yield entries
    (row,) = yield GetRows(check.table, [check.row], [check.column])
    applied = yield evolve(check, expected=None if row is None else row.columns[check.column].value)
    return bool(applied)


def row_again(protocol: Protocol[Any]) -> Protocol[Any]:
    """An insert that took too long puts its row once more, not just its entries."""
    answer: Any = None
    applied: CheckAndMutate | None = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration:
            return
        answer = yield operation
        if isinstance(operation, CheckAndMutate) and answer:
            applied = operation
        elif applied is not None and isinstance(operation, Together):
            part = operation.operations[0]
            assert isinstance(part, PutRows)
            times = {put.timestamp for put in part.puts}
            yield PutRows(
                applied.table, [evolve(put, timestamp=max(times)) for put in applied.mutations if isinstance(put, Put)]
            )


# --- what is planned --------------------------------------------------------------------------------------------------


class StaleAtTime(IndexedRowPlanner):
    """Old-key entries go at t, not at t-1."""

    def _stale(self, old: OldRow, entries: Sequence[tuple[str, Put]], timestamp: int) -> Any:
        return super()._stale(old, entries, timestamp + 1)


class NoSecondPut(IndexedRowPlanner):
    """Entries whose key does not change are not put again."""

    def _plan(self, write: RowWrite, old: OldRow, now: int) -> RowPlan:
        plan = super()._plan(write, old, now)
        if not old.live or old.row is None:
            return plan
        current = {(index.table, entry) for index, entry in self._entries(self.reader.values(old.row), old.row.row)}
        return evolve(plan, entries=[(table, put) for table, put in plan.entries if (table, put.row) not in current])


class OwnClock(IndexedRowPlanner):
    """t is the clock's, whatever the row holds."""

    def old(self, row: Row | None) -> OldRow:
        return evolve(super().old(row), newest=-1)


class AboveVersion(IndexedRowPlanner):
    """t is above the system cells only, not above every cell."""

    def old(self, row: Row | None) -> OldRow:
        system = (self.schema.version_column, self.schema.liveness_column)
        times = [cell.timestamp for column, cell in row.columns.items() if column in system] if row is not None else []
        return evolve(super().old(row), newest=max(times, default=-1))


class Blind(IndexedRowPlanner):
    """Full writes read nothing."""

    def needs_read(self, write: RowWrite) -> bool:
        return not isinstance(write, PutObject)


class RowDeleteAtTime(IndexedRowPlanner):
    """The row delete that goes with a marker is at t, not at t-1."""

    def _delete(self, write: DeleteRow, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._delete(write, old, timestamp)
        return (
            plan if plan.row_delete is None else evolve(plan, row_delete=evolve(plan.row_delete, timestamp=timestamp))
        )


class MarkerAlone(IndexedRowPlanner):
    """A marker without a row delete."""

    def _delete(self, write: DeleteRow, old: OldRow, timestamp: int) -> RowPlan:
        return evolve(super()._delete(write, old, timestamp), row_delete=None)


class NoMarker(IndexedRowPlanner):
    """A row delete without a marker."""

    def _delete(self, write: DeleteRow, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._delete(write, old, timestamp)
        return (
            plan
            if plan.row_delete is None
            else evolve(plan, put=None, row_delete=evolve(plan.row_delete, timestamp=timestamp))
        )


class MarkerWithoutNonce(IndexedRowPlanner):
    """Every dead row has the same marker."""

    def _delete(self, write: DeleteRow, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._delete(write, old, timestamp)
        if plan.put is None:
            return plan
        return evolve(plan, put=evolve(plan.put, cells={**plan.put.cells, self.schema.liveness_column: bytes(9)}))


class NoBlanks(IndexedRowPlanner):
    """A full write over a dead row writes no empty cells."""

    def full_cells(self, write: PutObject, old: OldRow, version: bytes) -> dict[bytes, bytes]:
        cells = super().full_cells(write, old, version)
        return cells if old.live else without_nulls(cells, frozenset(cells))


class CountersKept(IndexedRowPlanner):
    """A full write over a dead row leaves the counters alone."""

    def full_cells(self, write: PutObject, old: OldRow, version: bytes) -> dict[bytes, bytes]:
        counters = {f.column for f in self.schema.columns if f.kind == "counter"}
        return {
            column: value for column, value in super().full_cells(write, old, version).items() if column not in counters
        }


class HalfGroup(IndexedRowPlanner):
    """A partial update puts only the columns that it changes."""

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._partial(write, old, timestamp)
        if plan.put is None:
            return plan
        kept = {self.schema.by_name[name].column for name in write.changes} | {self.schema.version_column}
        return evolve(plan, put=evolve(plan.put, cells={c: v for c, v in plan.put.cells.items() if c in kept}))


class Reviving(IndexedRowPlanner):
    """A partial update sets the live flag too."""

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._partial(write, old, timestamp)
        if plan.put is None:
            return plan
        return evolve(plan, put=evolve(plan.put, cells={**plan.put.cells, self.schema.liveness_column: LIVE}))


class EarlyEntries(IndexedRowPlanner):
    """Entries at t-1."""

    def _plan(self, write: RowWrite, old: OldRow, now: int) -> RowPlan:
        plan = super()._plan(write, old, now)
        return evolve(
            plan, entries=[(table, evolve(put, timestamp=(put.timestamp or 0) - 1)) for table, put in plan.entries]
        )


# --- reading and time -------------------------------------------------------------------------------------------------


class Unaware(IndexedRowPlanner):
    """Does not know of the index that is being built."""

    def _puts(self, *args: Any, **options: Any) -> list[tuple[str, Put]]:
        return []


class Trusting(EntryVerifier):
    """The row of an entry is returned whether or not the entry is a current entry of the row."""

    def _decide(self, entry: bytes, row: Row) -> Values | None:
        return self.reader.values(row)


class Unasking(EntryVerifier):
    """The predicate is not asked again."""

    def _decide(self, entry: bytes, row: Row) -> Values | None:
        return EntryVerifier(self.schema, self.index, self.reader, lambda values: True, self.scope)._decide(entry, row)


class Matching(EntryVerifier):
    """A row is returned at every entry as long as it satisfies the predicate."""

    def _decide(self, entry: bytes, row: Row) -> Values | None:
        values = self.reader.values(row)
        return values if self.accepts(values) else None


class Patient(SetClock):
    """A clock by which no write is ever too old."""

    def fresh(self, since: int) -> bool:
        return True


class LeavesOutChanged(RowIndexer):
    """Leaves out rows with a cell newer than their version, as if every writer of a cell kept the index."""

    @property
    def columns(self) -> Sequence[bytes]:
        return self.schema.row_columns

    def of(self, row: Row | None) -> RowEntries | None:
        made = super().of(row)
        return (
            made
            if made is None or row is None or all(cell.timestamp <= made.version for cell in row.columns.values())
            else None
        )


# --- where each shows -------------------------------------------------------------------------------------------------


@frozen
class Mutant:
    """One rule broken.

    Attributes:
        rules: the code with the change.
        where: configurations in which it shows.
        violation: how the checker's message begins, or its ends after repair.
    """

    rules: Rules
    where: Callable[[Rules], Iterable[Configuration]]
    violation: str


def pair(first: str, second: str, **options: Any) -> Callable[[Rules], Iterable[Configuration]]:
    """These two writers, by every clock."""
    return lambda rules: two((first, second), rules=rules, **options)


def writing(kind: type[IndexedRowPlanner]) -> Rules:
    """The shipped protocols with another planner."""
    return Rules(writer=kind)


LATE = {"others": repairers, "paused": True, "always": False, "crashes": 0, "clocks": (5,)}

MUTANTS: Mapping[str, Mutant] = {
    "row before entries": Mutant(
        Rules(around=in_order("row", "row delete", "entries", "acknowledge", "stale")), pair("put b", "note"), "MISSING"
    ),
    "old entries before the row": Mutant(
        Rules(around=in_order("stale", "entries", "row", "row delete", "acknowledge")), pair("put b", "note"), "MISSING"
    ),
    "acknowledged before the row": Mutant(
        Rules(around=in_order("entries", "acknowledge", "row", "row delete", "stale")), pair("put b", "note"), "STALE"
    ),
    "acknowledged before the row delete": Mutant(
        Rules(around=in_order("entries", "row", "acknowledge", "row delete", "stale")),
        pair("delete", "put a", atomic=False),
        "KEPT",
    ),
    "row delete before the marker": Mutant(
        Rules(around=in_order("entries", "row delete", "row", "acknowledge", "stale")),
        pair("delete", "put a", atomic=False),
        "LOST",
    ),
    "old entries at t": Mutant(writing(StaleAtTime), pair("put a", "put b"), "MISSING"),
    "unchanged entries not put": Mutant(writing(NoSecondPut), pair("put a", "put b"), "MISSING"),
    "entries at t-1": Mutant(writing(EarlyEntries), pair("put a", "put b"), "MISSING"),
    "t from the clock alone": Mutant(writing(OwnClock), pair("put b", "note"), "STALE"),
    "t above the version alone": Mutant(writing(AboveVersion), pair("note", "put b"), "STALE"),
    "full writes read nothing": Mutant(writing(Blind), pair("delete, put", "put b"), "LOST"),
    "row delete at t": Mutant(writing(RowDeleteAtTime), pair("delete", "put b"), "LOST"),
    "row delete at t, in two calls": Mutant(writing(RowDeleteAtTime), pair("delete", "put b", atomic=False), "LOST"),
    "marker alone": Mutant(writing(MarkerAlone), pair("delete", "put b"), "KEPT"),
    "no marker": Mutant(writing(NoMarker), pair("delete, put", "put b"), "LOST"),
    "marker without a nonce": Mutant(writing(MarkerWithoutNonce), pair("insert", "delete, insert, delete"), "HIDDEN"),
    "no blanks over a dead row": Mutant(writing(NoBlanks), pair("note", "delete, put"), "LEFTOVER"),
    "counters kept over a dead row": Mutant(writing(CountersKept), pair("increment", "delete, put"), "LEFTOVER"),
    "half a group": Mutant(writing(HalfGroup), lambda rules: places(names=("city", "street"), rules=rules), "MISSING"),
    "a partial update revives": Mutant(writing(Reviving), pair("note", "delete"), "GHOST"),
    "insert: entries after the row": Mutant(
        Rules(around=around_insert(entries_last)), pair("insert", "note", stores=("absent",)), "MISSING"
    ),
    "insert: the loser cleans up": Mutant(
        Rules(around=around_insert(loser_cleans)), pair("insert", "note", stores=("absent",)), "MISSING"
    ),
    "insert: no condition": Mutant(
        Rules(around=around_insert(unconditional)), pair("insert", "put a", stores=("absent",)), "TWICE"
    ),
    "insert: the row put again": Mutant(
        Rules(around=row_again), pair("insert", "delete, insert", stores=("absent",), slow=1), "OVER"
    ),
    "no writer is ever too late": Mutant(
        Rules(grace="clock", clock=Patient), pair("put b", "put b", **LATE, count=1), "after repair: MISSING"
    ),
    "no insert is ever too late": Mutant(
        Rules(grace="clock", clock=Patient),
        pair("insert", "insert", **LATE, count=1, stores=("absent",)),
        "after repair: MISSING",
    ),
    "reader: entries trusted": Mutant(Rules(verifier=Trusting), pair("put b", "tag b", others=readers), "DIRTY"),
    "reader: returned at every entry": Mutant(
        Rules(verifier=Matching), pair("put b", "note", others=ranges, unmoved="tag"), "TWICE"
    ),
    "a build beside writers that do not keep the index": Mutant(
        writing(Unaware), lambda rules: building(("tag b",), (12,), rules), "after repair: MISSING"
    ),
    "a query before the build is over": Mutant(
        Rules(built=False), lambda rules: built(("note", "extra"), (12,), rules), "MISS: the query"
    ),
    "a query of a built index trusts entries": Mutant(
        Rules(verifier=Trusting), lambda rules: built(("put b", "tag b"), (12,), rules), "DIRTY"
    ),
    "a build leaves out rows that something has changed": Mutant(
        Rules(indexer=LeavesOutChanged), lambda rules: built(("increment", "insert"), (12,), rules), "MISS: the query"
    ),
    "a purge without a condition": Mutant(
        Rules(grace="clock"), pair("put b", "delete", **LATE), "after repair: PURGED"
    ),
    "repair without grace": Mutant(Rules(grace="never"), pair("put b", "put b", others=repairers), "MISSING"),
    "repair at now": Mutant(Rules(repair_at=lambda timestamp: 99), pair("put b", "tag a", others=repairers), "MISSING"),
    "purge without grace": Mutant(Rules(grace="never"), pair("delete", "put b", others=purgers), "PURGED"),
    "purge at now": Mutant(Rules(repair_at=lambda timestamp: 99), pair("delete", "put b", others=purgers), "LOST"),
    "purge without reading again": Mutant(Rules(reread=False), pair("delete", "put b", others=purgers), "PURGED"),
    "repair without reading again": Mutant(Rules(reread=False), pair("put b", "put a", others=repairers), "MISSING"),
}
