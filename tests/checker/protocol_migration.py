"""Changing the key of a table in the model checker: writers, readers, movers that crash, and the process that leads it
from phase to phase.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

import hbmodel as hb
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.indexed.index_build import ADOPTED
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckLease,
    DeleteRows,
    GetRows,
    LetClockTick,
    MutateRow,
    Protocol,
    PutRows,
    Together,
)
from hbmodel.protocol.relocation.migration_phases import (
    BEFORE,
    CUT,
    DONE,
    MOVING,
    PHASES,
    PREPARED,
    RETURNED,
    RETURNING,
    Phase,
    RowTranslator,
    TranslatedRow,
    copy_rows,
)
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.server_timed.unindexed_write import write_unindexed_batch
from hbmodel.protocol.writes import DeleteRow, RowWrite, put_object
from hbmodel.store import Delete, Put
from tests.checker.protocol_adapter import Step, Steps, StoredCell, StoredRow, Told, mc
from tests.checker.protocol_mutants import Mutant
from tests.checker.protocol_unindexed import ATOMIC
from tests.checker.search import Model


@hb.model(table="old", family="d", immutable=True)
class Earlier:
    """As it was."""

    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    b: hb.Key[int] = hb.key(hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)


@hb.model(table="new", family="d", immutable=True, replaces=Earlier)
class Later:
    """With its key the other way round."""

    b: hb.Key[int] = hb.key(hb.codecs.UInt8)
    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)

    by_tag = hb.index("tag")


NEW: TableSchema = evolve(hb.schema.schema_of(Later), indexes={})
"""Of the new table; its index is looked at apart."""

INDEXED: TableSchema = hb.schema.schema_of(Later)
assert INDEXED.replaces is not None
OLD: TableSchema = INDEXED.replaces
LAYOUTS: Mapping[str, TableSchema] = {"old": OLD, "new": NEW}
OBJECTS = (Later(a=1, b=2, tag=3), Later(a=4, b=5, tag=3))

SERVER, KNOWN, ADDED, DELETING, DELETED, BROKEN = (
    ("server", 0),
    ("known", 0),
    ("added", 0),
    ("deleting", 0),
    ("deleted", 0),
    ("broken", 0),
)
"""The server's clock; the phases by which a program may act now, the current one last; the objects whose put is
acknowledged, whose delete has begun, and whose delete is acknowledged; a violation that a step has seen."""

Copy = Callable[[Sequence[TranslatedRow], str, int], Protocol[bool]]


@frozen
class Rules:
    """The code under test.

    Attributes:
        phases: by name.
        copy: puts rows into the other table.
        waits: whether the leader of the migration waits, in each phase, until no process acts on the previous phase.
        looks_again: whether a writer looks, once it has written, whether that is still the place.
        ends: whether one that deletes looks, too, whether deletes are allowed still.
        prepares: whether all programs read both tables before one writes into the new one.
        completes: whether every row is copied before the cut.
        returns: whether what only the new table holds is copied back before programs use the old one alone.
    """

    phases: Mapping[str, Phase] = PHASES
    copy: Copy = copy_rows
    waits: bool = True
    looks_again: bool = True
    ends: bool = True
    prepares: bool = True
    completes: bool = True
    returns: bool = True


SHIPPED = Rules()


def _row(layout: str, number: int) -> bytes:
    return put_object(LAYOUTS[layout], OBJECTS[number]).row


ROWS = {layout: tuple(_row(layout, number) for number in range(len(OBJECTS))) for layout in LAYOUTS}


def _call(store: Any, step: Step) -> Any:
    (_, operation) = step
    match operation:
        case GetRows(table, rows, _):
            return Told(Told(mc.vis(store, table, row)) for row in rows)
        case PutRows(table, mutations) | DeleteRows(table, mutations) | MutateRow(table, mutations):
            store[SERVER] += 1
            for mutation in mutations:
                at = store[SERVER] if mutation.timestamp is None else mutation.timestamp
                if isinstance(mutation, Put):
                    mc._put(store, table, mutation.row, tuple(sorted(mutation.cells.items())), at)
                else:
                    assert isinstance(mutation, Delete)
                    mc._delrow(store, table, mutation.row, at)
        case Together(parts):
            for part in parts:
                _call(store, ("migration", part))
        case CheckLease():
            return store[KNOWN][-1] in {MOVING, RETURNING}
    return None


def _phase(store: Any, step: Step) -> None:
    """The next phase; earlier phases are known until all leases are over."""
    store[KNOWN] = (*store[KNOWN], step[1])


def _drained(store: Any, step: Step) -> None:
    store[KNOWN] = store[KNOWN][-1:]


def _look(store: Any, step: Step) -> Any:
    """The phase that a program knows: the current one, or the oldest that a lease may still hold."""
    return store[KNOWN][0 if step[1] else -1]


def _note(store: Any, step: Step) -> None:
    """A write that is acknowledged, or begins."""
    _, what, number = step
    store[what] = store[what] | {number}


def _begin(store: Any, step: Step) -> Any:
    """The objects that a reader must find, those that it must not find, and the phase that it knows."""
    return store[ADDED] - store[DELETING], store[DELETED], _look(store, step)


def _end(store: Any, step: Step) -> None:
    _, must, gone, found = step
    if lost := must - store[DELETING] - found:
        store[BROKEN] = f"LOST: a reader does not find {sorted(lost)}"
    if found & gone:
        store[BROKEN] = f"BACK: a reader finds {sorted(found & gone)}, which is deleted"


mc.OPS.update(
    migration=_call, migration_phase=_phase, migration_drained=_drained, migration_look=_look, migration_note=_note,
    migration_begin=_begin, migration_end=_end,
)  # fmt: skip


def _driven(protocol: Protocol[Any]) -> Iterator[Any]:
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = None
        if not isinstance(operation, Acknowledge | LetClockTick):
            answer = yield ("migration", operation)
            if isinstance(operation, GetRows):
                answer = [_found(row, cells) for row, cells in zip(operation.rows, answer, strict=True)]


def _found(row: bytes, cells: Any) -> Any:
    return StoredRow(row, {c: StoredCell(v, t) for c, t, v in cells}) if cells else None


def writer(number: int, deletes: bool, stale: bool, rules: Rules) -> Callable[[], Steps]:
    """Puts an object, or deletes it, in the table of the phase that it knows; `stale`: as long as its
    lease may last.
    """

    def run() -> Steps:
        if deletes:
            yield ("migration_note", DELETING, number)
        while True:
            phase = rules.phases[(yield ("migration_look", stale))]
            if deletes and not phase.changes:
                return  # refused
            schema, obj = LAYOUTS[phase.writes or ""], OBJECTS[number]
            write: RowWrite = DeleteRow(obj, _row(schema.table, number)) if deletes else put_object(schema, obj)
            yield from _driven(write_unindexed_batch(UnindexedRowPlanner(schema), [write], 100, ATOMIC))
            if not rules.looks_again:
                break
            now = rules.phases[(yield ("migration_look", stale))]
            if now.writes == phase.writes and (now.ends or not deletes or not rules.ends):
                break
        yield ("migration_note", DELETED if deletes else ADDED, number)

    return run


def reader(stale: bool, rules: Rules) -> Callable[[], Steps]:
    """Reads every object, in one table after the other."""

    def run() -> Steps:
        must, gone, known = yield ("migration_begin", stale)
        found: frozenset[int] = frozenset()
        for layout in rules.phases[known].reads:
            for number, row in enumerate(ROWS[layout]):
                (cells,) = yield ("migration", GetRows(layout, [row], ()))
                found |= {number} if cells else frozenset()
        yield ("migration_end", must, gone, found)

    return run


def _copying(source: str, target: str, rules: Rules) -> Steps:
    mover = RowTranslator(RowDecoder.of(LAYOUTS[source], indexed=False), LAYOUTS[target])
    for row in ROWS[source]:
        while True:
            (cells,) = yield ("migration", GetRows(source, [row], ()))
            moved = mover.of(_found(row, cells)) if cells else None
            if moved is None:
                break
            if (yield from _driven(rules.copy([moved], target, 0))):
                break
            return  # the phase is over


def mover(source: str, target: str, rules: Rules) -> Callable[[], Steps]:
    """Another program that copies in its phase; it may crash, or pause for any length of time."""
    phase = MOVING if source == "old" else RETURNING

    def run() -> Steps:
        known = yield ("migration_look", True)
        if known == phase:
            yield from _copying(source, target, rules)

    return run


def leader(way: str, rules: Rules) -> Callable[[], Steps]:
    """Leads the migration to its end, or back to the beginning: before anything is copied, or after all is."""

    def to(phase: str, waits: bool = True) -> Steps:
        yield ("migration_phase", phase)
        if waits and rules.waits:
            yield ("migration_drained",)

    def run() -> Steps:
        if rules.prepares:
            yield from to(PREPARED)
        yield from to(MOVING, way != "back")
        if way != "there":
            if way == "back at last":
                yield from _copying("old", "new", rules)
            yield from to(RETURNING)
            if rules.returns:
                yield from _copying("new", "old", rules)
            yield from to(RETURNED)
            yield from to(BEFORE)
            return
        if rules.completes:
            yield from _copying("old", "new", rules)
        yield from to(CUT)
        yield from to(DONE)

    return run


class MigrationModel(Model):
    """In every state, whichever phase a program knows: what is acknowledged is found, and what is deleted is not."""

    def __init__(self, processes: Sequence[tuple[str, Callable[[], Steps], int]], rules: Rules) -> None:
        super().__init__(beginning(), processes, crashes=1)
        self._phases = rules.phases

    def broken(self, store: Any) -> str | None:
        """The objects that a program would wrongly miss or find."""
        if BROKEN in store:
            return str(store[BROKEN])
        there = {
            layout: frozenset(number for number, row in enumerate(rows) if mc.vis(store, layout, row))
            for layout, rows in ROWS.items()
        }
        for phase in store[KNOWN]:
            found = frozenset[int]().union(*(there[side] for side in self._phases[phase].reads))
            if lost := store[ADDED] - store[DELETING] - found:
                return f"LOST: {sorted(lost)} for programs that know the phase {phase}"
            if back := store[DELETED] & found:
                return f"BACK: {sorted(back)} for programs that know the phase {phase}"
        return None

    def over(self, store: Any, process: int) -> bool:
        """Nothing in the store says whether a process has died."""
        return True


def beginning() -> dict[Any, Any]:
    """The store in which the processes begin: the first object is in the old table."""
    nobody: frozenset[int] = frozenset()
    store: dict[Any, Any] = {SERVER: 10, KNOWN: (BEFORE,), ADDED: frozenset({0}), DELETING: nobody, DELETED: nobody}
    write = put_object(OLD, OBJECTS[0])
    mc._put(store, OLD.table, write.row, tuple(sorted(write.cells.items())), 5)
    return store


Crew = Sequence[tuple[str, bool]]
CREWS: Sequence[Crew] = (
    (("add", False), ("add", True), ("mover", False)),
    (("add", True), ("read", True)),
    (("add", False), ("read", True)),
    (("add", True), ("read", False)),
    (("delete", True), ("mover", False)),
    (("delete", False), ("read", True)),
    (("delete", True), ("add", True)),
    (("again", True), ("add", True), ("mover", True)),
)
"""Who is at work besides the leader, and whether each knows the oldest phase that it may."""


WAYS = ("there", "back", "back at last")


def models(
    rules: Rules = SHIPPED, ways: Sequence[str] = WAYS, crews: Sequence[Crew] = CREWS
) -> Iterator[tuple[str, MigrationModel]]:
    """Every crew, there and back."""
    for way, crew in itertools.product(ways, crews):
        running: list[Any] = [("L", leader(way, rules), 0)]
        for at, (what, stale) in enumerate(crew):
            if what == "mover":
                running.append((f"W{at}", mover(*(("old", "new") if way == "there" else ("new", "old")), rules), 0))
            elif what == "read":
                running.append(("R", reader(stale, rules), 0))
            else:
                running.append(
                    (f"W{at}", writer(0 if what in {"delete", "again"} else 1, what == "delete", stale, rules), 0)
                )
        yield f"{way}, {crew}", MigrationModel(running, rules)


# --- the index of the new table ---------------------------------------------------------------------------------------


class IndexedCopies(Model):
    """A row of the new table has its entry, regardless of crashes."""

    def broken(self, store: Any) -> str | None:
        """A row without its entry."""
        for number, obj in enumerate(OBJECTS):
            write = put_object(INDEXED, obj)
            (entry,) = write.entries["by_tag"]
            if mc.vis(store, INDEXED.table, write.row) and not mc.vis(store, "new.by_tag", entry):
                return f"MISSING: the copy of {number} has no entry"
        return None

    def over(self, store: Any, process: int) -> bool:
        """Nothing in the store says whether a process has died."""
        return True


def indexed(rules: Rules = SHIPPED) -> Iterator[tuple[str, IndexedCopies]]:
    """Two movers into a table with an index; one of them may crash."""
    copying = RowTranslator(
        RowDecoder.of(OLD, indexed=False), INDEXED, tuple(INDEXED.indexes.values()), system_cells=True
    )

    def run() -> Steps:
        (cells,) = yield ("migration", GetRows("old", [ROWS["old"][0]], ()))
        moved = copying.of(_found(ROWS["old"][0], cells))
        assert moved is not None
        assert moved.put is not None
        assert moved.put.cells[INDEXED.version_column] == ADOPTED
        yield from _driven(rules.copy([moved], "new", 0))

    yield "two movers", IndexedCopies({**beginning(), KNOWN: (MOVING,)}, [("W1", run, 0), ("W2", run, 0)], 1)


# --- rules broken on purpose ------------------------------------------------------------------------------------------


def _rows_first(moved: Sequence[TranslatedRow], table: str, since: int) -> Protocol[bool]:
    """Rows are put before their entries."""
    operations: list[Any] = []
    inner, answer = copy_rows(moved, table, since), None
    while True:
        try:
            operation = inner.send(answer)
        except StopIteration:
            break
        answer = True if isinstance(operation, CheckLease) else None
        operations.append(operation)
    for operation in reversed(operations):
        yield operation
    return True


def _at_once(moved: Sequence[TranslatedRow], table: str, since: int) -> Protocol[bool]:
    """Copies are put at the server's time, so that a late one lies above a delete."""
    yield PutRows(table, [evolve(row.put, timestamp=None) for row in moved if row.put is not None])
    return True


def _phases(name: str, **changes: Any) -> Rules:
    return Rules({**PHASES, name: evolve(PHASES[name], **changes)})


def _where(way: str, *crew: tuple[str, bool]) -> Callable[[Rules], Iterator[tuple[str, Any]]]:
    return lambda rules: models(rules, (way,), (crew,))


STALE, FRESH = _where("there", ("add", True), ("read", True)), _where("there", ("add", False), ("read", True))
DELETED_AT_LAST = _where("back at last", ("delete", False))
BACK, DELETES = _where("back", ("add", False), ("read", True)), _where("there", ("delete", False), ("mover", True))

MUTANTS: Mapping[str, Mutant] = {
    "the new table is written before all read it": Mutant(Rules(prepares=False), FRESH, "LOST"),
    "nobody waits for leases": Mutant(Rules(waits=False), STALE, "LOST"),
    "a writer does not look again": Mutant(Rules(looks_again=False), STALE, "LOST"),
    "a delete ends whenever it likes": Mutant(Rules(ends=False), DELETED_AT_LAST, "BACK"),
    "the cut comes before the copies": Mutant(Rules(completes=False), STALE, "LOST"),
    "what only the new table holds stays there": Mutant(Rules(returns=False), BACK, "LOST"),
    "the old table is not read while rows are copied": Mutant(_phases(MOVING, reads=("new",)), FRESH, "LOST"),
    "the new table is not read on the way back": Mutant(_phases(RETURNING, reads=("old",)), BACK, "LOST"),
    "deletes while rows are copied": Mutant(_phases(MOVING, changes=True, ends=True), DELETES, "BACK"),
    "deletes at the cut": Mutant(_phases(CUT, changes=True, ends=True), DELETES, "BACK"),
    "deletes at the end of the way back": Mutant(
        _phases(RETURNED, changes=True, ends=True), _where("back at last", ("delete", False)), "BACK"
    ),
    "copies at the server's time": Mutant(Rules(copy=_at_once), DELETES, "BACK"),
    "rows before their entries": Mutant(Rules(copy=_rows_first), indexed, "MISSING"),
}
