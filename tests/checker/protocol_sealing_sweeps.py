"""The invariants of versioned objects that move between two tables, and the processes: programs of two phases, or a
whole migration.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.version_cell import VersionCell
from hbmodel.protocol.operations import GetRows
from hbmodel.protocol.relocation.migration_phases import (
    BEFORE,
    CUT,
    DONE,
    HALTING,
    MOVING,
    PREPARED,
    RETURNED,
    RETURNING,
    TURNED,
)
from hbmodel.protocol.relocation.row_seals import Pair
from hbmodel.protocol.relocation.seal_and_move import reopen_rows
from hbmodel.protocol.writes import put_object
from tests.checker.protocol_adapter import Steps, Told, mc
from tests.checker.protocol_sealing import (
    ACKNOWLEDGED,
    BARE,
    BASES,
    BROKEN,
    FIRST,
    GONE,
    KEY,
    KNOWN,
    ROWS,
    SHIPPED,
    SINCE,
    Later,
    Nonces,
    Outdated,
    Rules,
    current,
    driven,
    found_row,
    planner_of,
    reader,
    values_of,
    way_of,
    writer,
)
from tests.checker.search import Model


def moving(name: str, number: int, rules: Rules, layouts: Mapping[str, TableSchema], *, seals: bool = True) -> Steps:
    """Moves the object, in a phase."""
    phase = rules.phases[name]
    nonces = Nonces(number)
    way = way_of(layouts, phase, nonces, rules, seals=seals)
    pair = Pair(ROWS[way.source.schema.table], ROWS[way.target.schema.table])
    yield from driven(rules.move(way, [pair], seals=seals), name, 10 + 3 * number, nonces)


def mover(
    name: str, number: int, rules: Rules, layouts: Mapping[str, TableSchema], *, waits: bool = True
) -> Callable[[], Steps]:
    """Another program that moves objects in its phase; it may die, or pause for any length of time."""

    def run() -> Steps:
        if not waits or (yield ("sealing_look", True)) == name:
            try:
                yield from moving(name, number, rules, layouts)
            except Outdated:
                return

    return run


def leader(way: str, rules: Rules, layouts: Mapping[str, TableSchema]) -> Callable[[], Steps]:
    """Leads the migration to its end, or back to the beginning: before anything has moved, or after all has."""

    def to(phase: str) -> Steps:
        yield ("sealing_phase", phase)
        if rules.waits:
            yield ("sealing_drained",)

    def run() -> Steps:
        if rules.prepares:
            yield from to(PREPARED)
        yield from to(MOVING)
        if way != "back" and rules.completes:
            yield from moving(MOVING, 7, rules, layouts)
        if way == "there":
            yield from to(CUT)
            yield from to(DONE)
            return
        if rules.halts:
            yield from to(HALTING)
            yield from moving(HALTING, 8, rules, layouts, seals=False)
        if rules.turns:
            yield from to(TURNED)
        yield from to(RETURNING)
        if rules.returns:
            yield from moving(RETURNING, 9, rules, layouts)
        yield from to(RETURNED)
        if rules.reopens:
            cells = yield Told(("sealing", RETURNED, GetRows("old", (ROWS["old"],), ())))
            if cells:
                nonces = Nonces(10)
                planner = planner_of(layouts, "old", nonces)
                yield from driven(reopen_rows(planner, [found_row(ROWS["old"], cells)]), RETURNED, 40, nonces)
        yield from to(BEFORE)

    return run


class SealingModel(Model):
    """In every state, whichever phase a program knows: what is acknowledged is found, and what is deleted is not;
    versions count writes.
    """

    merges = True

    def __init__(
        self,
        store: Any,
        processes: Sequence[tuple[str, Callable[[], Steps], int]],
        rules: Rules,
        layouts: Mapping[str, TableSchema],
    ) -> None:
        super().__init__(store, processes, crashes=1)
        self._phases, self._layouts = rules.phases, layouts

    def broken(self, store: Any) -> str | None:
        """The objects that a program would wrongly miss or find."""
        if BROKEN in store:
            return str(store[BROKEN])
        for phase in store[KNOWN]:
            found = current(store, self._phases[phase].reads, self._layouts)
            letters = set() if found is None else set(found["log"])
            if lost := store[ACKNOWLEDGED] - store[BASES] - letters:
                return f"LOST: {sorted(lost)} for programs that know the phase {phase}"
            if back := store[GONE] & letters:
                return f"BACK: {sorted(back)} for programs that know the phase {phase}"
            if found is not None and found["log"].startswith("0") and found["version"] != FIRST + len(found["log"]) - 1:
                return f"VERSION: {found['version']} of {found['log']}"
        return self._unindexed(store)

    def _unindexed(self, store: Any) -> str | None:
        for side, schema in self._layouts.items():
            found = (
                values_of(schema, found_row(ROWS[side], mc.vis(store, side, ROWS[side]))) if schema.indexes else None
            )
            if found is not None:
                write = put_object(schema, Later(**KEY, log=found["log"]))
                for name, entries in write.entries.items():
                    if not all(mc.vis(store, schema.indexes[name].table, entry) for entry in entries):
                        return f"MISSING: {found['log']} has no entry in the {side} table's index"
        return None

    def over(self, store: Any, process: int) -> bool:
        """Nothing in the store says whether a process has died."""
        return True


def beginning(there: str, layouts: Mapping[str, TableSchema]) -> dict[Any, Any]:
    """The store in which the processes begin: with the object, where it is absent, or where it was deleted."""
    store: dict[Any, Any] = {
        KNOWN: (BEFORE,),
        SINCE: 0,
        BASES: frozenset(),
        ACKNOWLEDGED: frozenset(),
        GONE: frozenset(),
    }
    if there == "absent":
        return store
    schema = layouts["old"]
    write = put_object(schema, Later(**KEY, log="0"))
    version = VersionCell(FIRST, (b"original",)).data
    cells = {**write.cells, schema.version_column: version, schema.liveness_column: b"\x01"}
    mc._put(store, "old", write.row, tuple(sorted(cells.items())), 5)
    for name, entries in write.entries.items():
        for entry in entries:
            mc._put(store, schema.indexes[name].table, entry, ((schema.version_column, version),), 5)
    store[ACKNOWLEDGED] = frozenset("0")
    return store


def _run(store: Any, steps: Steps, changes: int) -> None:
    """Takes steps of a process, up to a number of changes."""
    answer: Any = None
    for _ in itertools.count():
        try:
            step = steps.send(answer)
        except StopIteration:
            return
        change = step[0] == "sealing" and not isinstance(step[2], GetRows)
        if change and not changes:
            return
        changes -= change
        answer = mc.OPS[step[0]](store, step)


LONG = 99
"""More changes than a process makes."""


def halfway(there: str, layouts: Mapping[str, TableSchema]) -> dict[Any, Any]:
    """The store in the middle of a migration: the object has come so far, by programs that have died."""
    store = beginning("absent" if there in {"absent", "closed", "opened"} else "live", layouts)
    store[KNOWN] = (MOVING,)
    if there in {"closed", "opened"}:
        _run(store, writer("add", 6, False, SHIPPED, layouts)(), 1)
    elif there not in {"live", "absent"}:
        _run(
            store,
            moving(MOVING, 6, SHIPPED, layouts),
            {"sealed": 1, "copied": 2 + len(layouts["new"].indexes)}.get(there, LONG),
        )
    if there == "opened":
        row = found_row(ROWS["old"], mc.vis(store, "old", ROWS["old"]))
        store[KNOWN] = (RETURNED,)
        nonces = Nonces(4)
        _run(store, driven(reopen_rows(planner_of(layouts, "old", nonces), [row]), RETURNED, 40, nonces), LONG)  # type: ignore[arg-type]
    if there == "dropped":
        _run(store, writer("delete", 5, False, SHIPPED, layouts)(), LONG)
    if there.startswith("back"):
        store[KNOWN] = (RETURNING,)
        changes = {"back sealed": 1, "back copied": 2 + len(layouts["old"].indexes)}.get(there, LONG)
        _run(store, moving(RETURNING, 5, SHIPPED, layouts), changes)
    return store


Crew = tuple[str, Sequence[tuple[str, bool]]]
CREWS: Sequence[Crew] = (
    ("live", (("update", True), ("update", False))),
    ("live", (("update", True), ("mover", False))),
    ("live", (("update", False), ("read", True))),
    ("live", (("update", True), ("read", False))),
    ("live", (("delete", True), ("mover", False))),
    ("live", (("delete", False), ("read", True))),
    ("live", (("delete", False), ("add", True))),
    ("live", (("delete", True), ("update", False))),
    ("absent", (("add", True), ("add", False))),
    ("absent", (("add", True), ("read", False))),
    ("absent", (("add", False), ("mover", True))),
)
"""What is there at the beginning, who is at work besides the leader, and whether each knows the oldest phase that it
may.
"""

ALONE: Sequence[Crew] = tuple(
    ("absent" if what == "add" else "live", ((what, stale),))
    for what, stale in itertools.product(("update", "delete", "add", "read", "mover"), (True, False))
)
"""The same with one program besides the leader."""

WAYS = ("there", "back", "back at last")

ANY = ("live", "absent", "sealed", "copied", "moved", "dropped", "closed")
ENDED = ("live", "absent", "moved", "dropped", "closed")
PAIRS: Sequence[tuple[str, str, Sequence[str], str | None]] = (
    (BEFORE, PREPARED, ("live", "absent"), None),
    (PREPARED, MOVING, ANY, MOVING),
    (MOVING, CUT, ("absent", "moved", "dropped", "closed"), None),
    (MOVING, HALTING, ANY, MOVING),
    (HALTING, TURNED, ENDED, None),
    (TURNED, RETURNING, (*ENDED, "back sealed", "back copied", "back"), RETURNING),
    (RETURNING, RETURNED, ("live", "absent", "dropped", "closed", "back"), None),
    (RETURNED, BEFORE, ("live", "absent", "opened", "back"), None),
)
"""Phases by which programs may act at the same time, what there may be then, and in which of them rows move."""

TOGETHER: Sequence[Sequence[tuple[str, bool]]] = (
    (("update", True), ("update", False)),
    (("update", True), ("read", False)),
    (("update", False), ("read", True)),
    (("delete", True), ("update", False)),
    (("delete", True), ("add", False)),
    (("delete", False), ("add", True)),
    (("delete", True), ("read", False)),
    (("add", True), ("add", False)),
    (("add", True), ("read", False)),
)
"""Who is at work in such phases, besides somebody who moves."""


def pairs(
    rules: Rules = SHIPPED,
    phases: Sequence[tuple[str, str, Sequence[str], str | None]] = PAIRS,
    together: Sequence[Sequence[tuple[str, bool]]] = TOGETHER,
    layouts: Mapping[str, TableSchema] = BARE,
    *,
    movers: bool = True,
) -> Iterator[tuple[str, SealingModel]]:
    """Programs that act on a phase and on the next one, with or without a program that moves the object, if the phases
    allow this.
    """
    for before, after, starts, moves in phases:
        for there, crew in itertools.product(starts, together):
            if (there in {"absent", "dropped", "closed", "opened"}) != (crew[0][0] == "add"):
                continue
            running: list[Any] = (
                [] if moves is None or not movers else [("W3", mover(moves, 3, rules, layouts, waits=False), 0)]
            )
            for at, (what, stale) in enumerate(crew, 1):
                made = reader(stale, rules, layouts) if what == "read" else writer(what, at, stale, rules, layouts)
                running.append((f"{'R' if what == 'read' else 'W'}{at}", made, 0))
            store = {**halfway(there, layouts), KNOWN: (before, after)}
            yield f"{before} and {after}, {there}, {crew}", SealingModel(store, running, rules, layouts)


def models(
    rules: Rules = SHIPPED,
    ways: Sequence[str] = WAYS,
    crews: Sequence[Crew] = CREWS,
    layouts: Mapping[str, TableSchema] = BARE,
) -> Iterator[tuple[str, SealingModel]]:
    """Every crew, there and back."""
    for way, (there, crew) in itertools.product(ways, crews):
        running: list[Any] = [("L", leader(way, rules, layouts), 0)]
        for at, (what, stale) in enumerate(crew, 1):
            if what == "mover":
                running.append(
                    (f"W{at}", mover(MOVING if way == "there" or stale else RETURNING, at, rules, layouts), 0)
                )
            elif what == "read":
                running.append((f"R{at}", reader(stale, rules, layouts), 0))
            else:
                running.append((f"W{at}", writer(what, at, stale, rules, layouts), 0))
        yield f"{way}, {there}, {crew}", SealingModel(beginning(there, layouts), running, rules, layouts)
