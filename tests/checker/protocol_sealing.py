"""Versioned objects that move between two tables in the model checker: writers, readers, movers that crash, and the
process that leads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import define, evolve, frozen

import hbmodel as hb
from hbmodel.errors import ConflictError, RowExists, RowMoved, RowNotFound, SchemaMismatch
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutate,
    CheckAndMutateRows,
    CheckBinding,
    CheckLease,
    GetRows,
    LetClockTick,
    Protocol,
    ReadClock,
)
from hbmodel.protocol.relocation.migration_phases import (
    RETURNED,
    VERSIONED_PHASES,
    Phase,
)
from hbmodel.protocol.relocation.row_seals import Way
from hbmodel.protocol.relocation.seal_and_move import PairedWrite, move_rows, write_between
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.versioned.versioned_write import SentChanges, write_versioned_batch
from hbmodel.protocol.writes import DeleteRow, Outcome, RowWrite, UpdateFields, put_object
from hbmodel.store import Delete, Put
from tests.checker.protocol_adapter import BOUND, Step, Steps, StoredCell, StoredRow, Told, mc
from tests.checker.protocol_rekey import _single


@hb.model(table="old", family="d")
class Earlier:
    """As it was."""

    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    b: hb.Key[int] = hb.key(hb.codecs.UInt8)
    log: hb.Column[str] = hb.column("l")
    version: hb.Column[int] = hb.version()

    by_log = hb.index("log")


@hb.model(table="new", family="d", replaces=Earlier)
class Later:
    """With its key the other way round."""

    b: hb.Key[int] = hb.key(hb.codecs.UInt8)
    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    log: hb.Column[str] = hb.column("l")
    version: hb.Column[int] = hb.version()

    by_log = hb.index("log")


INDEXED_NEW: TableSchema = hb.schema.schema_of(Later)
assert INDEXED_NEW.replaces is not None
INDEXED_OLD: TableSchema = INDEXED_NEW.replaces
BARE: Mapping[str, TableSchema] = {"old": evolve(INDEXED_OLD, indexes={}), "new": evolve(INDEXED_NEW, indexes={})}
INDEXED: Mapping[str, TableSchema] = {"old": INDEXED_OLD, "new": INDEXED_NEW}
KEY = {"a": 1, "b": 2}
ROWS = {side: KeyMapper(schema).rows([KEY[name] for name in schema.layout.names])[0] for side, schema in BARE.items()}

KNOWN, SINCE, BASES, ACKNOWLEDGED, GONE, BROKEN = (
    ("known", 0),
    ("since", 0),
    ("bases", 0),
    ("acknowledged", 0),
    ("gone", 0),
    ("broken", 0),
)
"""The phases by which a program may act now, the current one last; their number; what deletes have been asked to
delete; the letters of acknowledged writes; those of the objects whose delete is acknowledged; a violation that a step
has seen."""

OUTDATED = "outdated"
"""The answer to a change by a phase that nobody may go by any more: it is not sent."""

WRITE_ROUNDS = 6
"""More than a write needs while the others of a model move its object."""

FIRST = 5
"""The version of the object that is there at the beginning."""

CURRENT: Sequence[str] = ("old", "new")


@frozen
class Rules:
    """The code under test.

    Attributes:
        phases: by name.
        way: from one table to the other.
        move: moves rows.
        heeds: whether writers heed seals.
        waits: whether the leader waits, in each phase, until no process acts on the previous phase.
        prepares: whether all programs heed seals before the first one seals.
        completes: whether every row has moved before the cut.
        halts: whether the way back begins by ending the moves that have begun.
        turns: whether programs read the other way round before rows move back.
        returns: whether all that is in the new table moves back before programs use the old one alone.
        reopens: whether closed rows are opened in the end.
        purges: whether what is deleted in the new table leaves nothing.
        new_first: whether readers look into the other table first.
        looks_again: whether a reader looks, once it has found nothing, whether its phase is over.
        rounds_look: whether a writer looks, after a round in which it has written nothing, whether its phase is over.
        tries_again: whether a writer that finds its row sealed reads it once more where its phase is not over.
    """

    phases: Mapping[str, Phase] = VERSIONED_PHASES
    way: type[Way] = Way
    move: Callable[..., Protocol[bool]] = move_rows
    heeds: bool = True
    waits: bool = True
    prepares: bool = True
    completes: bool = True
    halts: bool = True
    turns: bool = True
    returns: bool = True
    reopens: bool = True
    purges: bool = False
    new_first: bool = False
    looks_again: bool = True
    rounds_look: bool = True
    tries_again: bool = True


SHIPPED = Rules()

# --- the store --------------------------------------------------------------------------------------------------------


def _apply(store: Any, table: str, mutations: Sequence[Put | Delete]) -> None:
    for mutation in mutations:
        assert mutation.timestamp is not None
        if isinstance(mutation, Put):
            mc._put(store, table, mutation.row, tuple(sorted(mutation.cells.items())), mutation.timestamp)
        else:
            mc._delrow(store, table, mutation.row, mutation.timestamp)


def _call(store: Any, step: Step) -> Any:
    _, phase, operation = step
    if not isinstance(operation, GetRows) and phase not in store[KNOWN]:
        return OUTDATED
    match operation:
        case GetRows(table, (row,), _):
            return Told(mc.vis(store, table, row))
        case CheckAndMutate(table, row, column, expected, mutations):
            if ({c: v for c, _, v in mc.vis(store, table, row)}.get(column) or None) != expected:
                return False
            _apply(store, table, mutations)
            return True
        case _:
            _apply(store, operation.table, getattr(operation, "puts", None) or operation.deletes)
    return None


def _phase(store: Any, step: Step) -> None:
    store[KNOWN] = (*store[KNOWN], step[1])
    store[SINCE] += 1


def _drained(store: Any, step: Step) -> None:
    store[KNOWN] = store[KNOWN][-1:]


def _look(store: Any, step: Step) -> Any:
    """The phase that a program knows: the current one, or the oldest that a lease may still hold."""
    return store[KNOWN][0 if step[1] else -1]


def _holds(store: Any, step: Step) -> bool:
    return step[1] in store[KNOWN]


def _deleting(store: Any, step: Step) -> None:
    store[BASES] = store[BASES] | set(step[1])


def _acknowledged(store: Any, step: Step) -> None:
    _, letters, gone = step
    store[ACKNOWLEDGED], store[GONE] = store[ACKNOWLEDGED] | set(letters), store[GONE] | set(gone)


def _began(store: Any, step: Step) -> Any:
    """The objects that a reader must find, those that it must not find, and the phase that it knows."""
    return Told((store[ACKNOWLEDGED] - store[BASES], store[GONE], *_moment(store, step)))


def _moment(store: Any, step: Step) -> Any:
    """The phase that a reader knows, and since when it is."""
    return Told((_look(store, step), store[SINCE] - (step[1] and len(store[KNOWN]) - 1)))


def _ended(store: Any, step: Step) -> None:
    _, must, gone, found = step
    if lost := must - store[BASES] - set(found or ()):
        store[BROKEN] = f"LOST: a reader does not find {sorted(lost)}"
    if set(found or ()) & gone:
        store[BROKEN] = f"BACK: a reader finds {found}, of which {sorted(gone)} is deleted"


def _conflict(store: Any, step: Step) -> None:
    """Another program must have changed the object since it was read, because the version is different."""
    found = current(store, CURRENT, BARE)
    if found is not None and found["version"] == step[1]:
        store[BROKEN] = f"CONFLICT: nobody has changed version {step[1]}"


def _wrong(store: Any, step: Step) -> None:
    store[BROKEN] = f"ERROR: {step[1]}"


def _purge(store: Any, step: Step) -> None:
    store.pop(("new", ROWS["new"]), None)


mc.OPS.update(
    sealing=_call,
    sealing_phase=_phase,
    sealing_drained=_drained,
    sealing_look=_look,
    sealing_moment=_moment,
    sealing_holds=_holds,
    sealing_deleting=_deleting,
    sealing_acknowledged=_acknowledged,
    sealing_began=_began,
    sealing_ended=_ended,
    sealing_conflict=_conflict,
    sealing_wrong=_wrong,
    sealing_purge=_purge,
)


def found_row(row: bytes, cells: Any) -> Any:
    return StoredRow(row, {c: StoredCell(v, t) for c, t, v in cells}) if cells else None


def values_of(schema: TableSchema, row: Any) -> dict[str, Any] | None:
    reader = RowDecoder.of(schema, True)
    return dict(reader.values(row)) if row is not None and reader.exists(row) else None


def current(store: Any, reads: Sequence[str], layouts: Mapping[str, TableSchema]) -> dict[str, Any] | None:
    """The object, in the first of the tables that has it."""
    for side in reads:
        found = values_of(layouts[side], found_row(ROWS[side], mc.vis(store, side, ROWS[side])))
        if found is not None:
            return found
    return None


# --- processes --------------------------------------------------------------------------------------------------------


class Outdated(Exception):
    """The phase is over by which a program acts."""


@define
class Nonces:
    """Source of a program's nonces; a nonce with which nothing was put is drawn again, so that failed attempts lead to
    one state.

    Attributes:
        number: of the program.
        applied: how many of its changes were carried out.
        drawn: how many nonces were drawn since.
    """

    number: int
    applied: int = 0
    drawn: int = 0

    def __call__(self) -> bytes:
        self.drawn += 1
        return bytes((self.number, self.applied, self.drawn)) + bytes(5)

    def settle(self, applied: bool) -> None:
        """After a change that was carried out or refused, or before anything is sent."""
        self.applied += applied
        self.drawn = 0


def driven(
    protocol: Protocol[Any], phase: str, clock: int, nonces: Nonces, *, writes: bool = False, looks: bool = True
) -> Iterator[Any]:
    """A protocol as steps; returns what it does. One that writes for a program begins again where its phase is over."""
    answer: Any = None
    nonces.settle(False)
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = None
        if isinstance(operation, ReadClock):
            answer = clock
            nonces.settle(False)
        elif isinstance(operation, CheckLease):
            answer = yield ("sealing_holds", phase)
            if not answer and writes:
                raise Outdated
        elif isinstance(operation, CheckBinding):
            if looks and not (yield ("sealing_holds", phase)):
                raise Outdated
        elif isinstance(operation, GetRows):
            answer = []
            for row in operation.rows:
                cells = yield Told(("sealing", phase, GetRows(operation.table, (row,), ())))
                answer.append(found_row(row, cells))
        elif isinstance(operation, CheckAndMutateRows):
            answer = []
            for change in operation.changes:
                one = CheckAndMutate(operation.table, change.row, change.column, change.expected, change.mutations)
                found = yield Told(("sealing", phase, one))
                if found == OUTDATED:
                    with suppress(SchemaMismatch):  # it is to know that the change was not sent
                        protocol.throw(SchemaMismatch("The phase is over."))
                    raise Outdated
                answer.append(found or None)
                nonces.settle(bool(found))
        elif not isinstance(operation, LetClockTick | Acknowledge):
            for one in _single(operation):
                if (yield Told(("sealing", phase, one))) == OUTDATED:
                    raise Outdated


def planner_of(
    layouts: Mapping[str, TableSchema], side: str, nonce: Callable[[], bytes], **more: Any
) -> VersionedRowPlanner:
    schema = layouts[side]
    return VersionedRowPlanner(schema, tuple(schema.indexes.values()), BOUND, nonce, patience=0, **more)


def way_of(
    layouts: Mapping[str, TableSchema],
    phase: Phase,
    nonce: Callable[[], bytes],
    rules: Rules,
    *,
    seals: bool | None = None,
) -> Way:
    source, target = ("new", "old") if phase.back else ("old", "new")
    return rules.way(
        planner_of(layouts, source, nonce, moving=not rules.heeds),
        planner_of(layouts, target, nonce, over_closed=phase.back),
        phase.back,
        bool(phase.seals) if seals is None else seals,
    )


def _read(reads: Sequence[str], layouts: Mapping[str, TableSchema]) -> Iterator[Any]:
    for side in reads:
        cells = yield Told(("sealing", "", GetRows(side, (ROWS[side],), ())))
        found = values_of(layouts[side], found_row(ROWS[side], cells))
        if found is not None:
            return found
    return None


def _write(
    side: str, layouts: Mapping[str, TableSchema], kind: str, letter: str, base: Mapping[str, Any] | None
) -> RowWrite:
    version = UNKNOWN if base is None else base["version"]
    if kind == "add":
        return put_object(layouts[side], Later(**KEY, log=letter))
    if kind == "delete":
        return DeleteRow(None, ROWS[side], version)
    assert base is not None
    return UpdateFields(None, ROWS[side], KEY, {"log": base["log"] + letter}, version=version)


def writer(
    kind: str, number: int, stale: bool, rules: Rules, layouts: Mapping[str, TableSchema]
) -> Callable[[], Steps]:
    """Reads the object and updates, deletes or inserts it by the phase that it knows, and by the next one where that
    is over.
    """
    letter, clock = str(number), 10 + 3 * number

    def run() -> Steps:
        nonce = Nonces(number)
        phase = rules.phases[(yield ("sealing_look", stale))]
        base = yield from _read(phase.reads, layouts)
        if kind != "add" and base is None:
            return
        if kind == "delete":
            yield ("sealing_deleting", base["log"])
        sent: dict[str, SentChanges] = {"old": {}, "new": {}}
        outcome: Outcome
        again = False
        while True:
            try:
                (outcome,) = yield from driven(
                    protocol(phase, base, sent, nonce), phase.name, clock, nonce, writes=True, looks=rules.rounds_look
                )
                break
            except RowMoved:
                over = not (yield ("sealing_holds", phase.name))
                if not over and (again or not rules.tries_again):
                    yield ("sealing_wrong", f"{kind} is refused in the phase {phase.name}")
                    return
                again = not over
            except Outdated:
                again = False
            phase = rules.phases[(yield ("sealing_look", stale))]
        if isinstance(outcome.error, ConflictError) and kind != "add":
            yield ("sealing_conflict", base["version"])
        elif outcome.error is None and kind == "delete":
            yield ("sealing_acknowledged", "", base["log"])
            if rules.purges:
                yield ("sealing_purge",)
        elif outcome.error is None:
            yield ("sealing_acknowledged", letter, "")
        elif not isinstance(outcome.error, RowExists | RowNotFound):
            yield ("sealing_wrong", f"{kind} {type(outcome.error).__name__}")

    def protocol(
        phase: Phase, base: Any, sent: dict[str, SentChanges], nonce: Callable[[], bytes]
    ) -> Protocol[list[Outcome]]:
        if phase.seals is None:
            side = phase.writes or ""
            planner = planner_of(layouts, side, nonce, over_closed=phase.name == RETURNED)
            return write_versioned_batch(
                planner, [_write(side, layouts, kind, letter, base)], sent[side], insert=kind == "add"
            )
        way = way_of(layouts, phase, nonce, rules)
        writes = [
            PairedWrite(*(_write(of.schema.table, layouts, kind, letter, base) for of in (way.source, way.target)))
        ]
        return write_between(way, writes, sent, insert=kind == "add", rounds=WRITE_ROUNDS)

    return run


def reader(stale: bool, rules: Rules, layouts: Mapping[str, TableSchema]) -> Callable[[], Steps]:
    """Reads the object."""

    def run() -> Steps:
        must, gone, known, since = yield ("sealing_began", stale)
        found = None
        while found is None:
            phase = rules.phases[known]
            found = yield from _read(phase.reads[::-1] if rules.new_first else phase.reads, layouts)
            began = since
            known, since = yield ("sealing_moment", stale)
            if not rules.looks_again or (since == began if known == phase.name else known in phase.lasts):
                break
        yield ("sealing_ended", must, gone, found and found["log"])

    return run
