"""The rules of seal and move broken on purpose; the checker must notice every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.mapping.version_cell import VersionCell
from hbmodel.protocol.indexed.indexed_plan import OldRow, RowPlan
from hbmodel.protocol.operations import CheckAndMutateRows, GetRows, Protocol, PutRows, ReadClock, Together
from hbmodel.protocol.relocation.migration_phases import (
    BEFORE,
    HALTING,
    MOVING,
    PREPARED,
    RETURNED,
    RETURNING,
    TURNED,
    VERSIONED_PHASES,
    Side,
)
from hbmodel.protocol.relocation.row_seals import Pair, State, Way
from hbmodel.protocol.relocation.seal_and_move import move_rows
from hbmodel.store import Put, Row
from hbmodel.store.values import ConditionalChange
from tests.checker.protocol_mutants import Mutant
from tests.checker.protocol_sealing import BARE, INDEXED, Rules
from tests.checker.protocol_sealing_sweeps import Crew, models, pairs


@frozen(eq=False)
class _WritesEarly(Way):
    """The new row is written as soon as the old one is sealed."""

    def state(self, old: OldRow) -> State:
        found = super().state(old)
        return "closed" if found == "sealed" else found


@frozen(eq=False)
class _ClosesOpenly(Way):
    """The marker of a closed row is like any other."""

    def close(self, row: bytes, old: OldRow, now: int) -> tuple[RowPlan, ConditionalChange]:
        plan, change = super().close(row, old, now)
        assert plan.put is not None
        cells = {
            **plan.put.cells,
            self.source.schema.version_column: self.source.cell(old).next(self.nonce(), now, 3).data,
        }
        return plan, evolve(change, mutations=[evolve(plan.put, cells=cells), *change.mutations[1:]])


@frozen(eq=False)
class _CountsAgain(Way):
    """A copy begins with a new version."""

    def copy(self, row: Row, target: Row | None, now: int) -> tuple[RowPlan, ConditionalChange]:
        plan, change = super().copy(row, target, now)
        (put,) = change.mutations
        assert isinstance(put, Put)
        cells = {**put.cells, self.target.schema.version_column: VersionCell().next(self.nonce(), now, 3).data}
        return plan, evolve(change, mutations=[evolve(put, cells=cells)])


@frozen(eq=False)
class _Unclosed(Way):
    """Rows that are dead or absent are not closed before the object is put into the other table."""

    def state(self, old: OldRow) -> State:
        found = super().state(old)
        return "closed" if found == "free" and self.seals else found


def _copy_first(way: Way, pairs_: Sequence[Pair], *, seals: bool = True) -> Protocol[bool]:
    """The row is copied, and then sealed and closed."""
    (pair,) = pairs_
    now = yield ReadClock()
    (row,) = yield GetRows(way.source.schema.table, [pair.source], ())
    (other,) = yield GetRows(way.target.schema.table, [pair.target], ())
    if row is not None and way.state(way.old(row)) == "live" and not way.there(other):
        yield CheckAndMutateRows(way.target.schema.table, [way.copy(row, other, now)[1]])
    return (yield from move_rows(way, pairs_, seals=seals))


def _closes_first(way: Way, pairs_: Sequence[Pair], *, seals: bool = True) -> Protocol[bool]:
    """The old row is closed before its copy stands."""
    held: Any = None
    inner, answer = move_rows(way, pairs_, seals=seals), None
    while True:
        try:
            operation = inner.send(answer)
        except StopIteration as stop:
            return bool(stop.value)
        if isinstance(operation, CheckAndMutateRows) and operation.table == way.target.schema.table:
            held, answer = operation, [True]
            continue
        answer = yield operation
        if held is not None and isinstance(operation, CheckAndMutateRows):
            yield held
            held = None


def _rows_first(way: Way, pairs_: Sequence[Pair], *, seals: bool = True) -> Protocol[bool]:
    """The copy is put before its entries."""
    late: list[Any] = []
    inner, answer = move_rows(way, pairs_, seals=seals), None
    while True:
        try:
            operation = inner.send(answer)
        except StopIteration as stop:
            return bool(stop.value)
        if isinstance(operation, Together) and isinstance(operation.operations[0], PutRows):
            late.append(operation)
            answer = None
            continue
        answer = yield operation
        if late and isinstance(operation, CheckAndMutateRows):
            yield late.pop()


Sweep = Callable[[Rules], Iterator[tuple[str, Any]]]


def _at(
    before: str, after: str, there: str, *crew: tuple[str, bool], moving: str | None = None, indexed: bool = False
) -> Sweep:
    layouts = INDEXED if indexed else BARE
    return lambda rules: pairs(rules, ((before, after, (there,), moving),), (crew,), layouts)


def _two(
    rules: Rules, before: str, after: str, there: str, *crew: tuple[str, bool], moves: str | None = None
) -> Iterator[tuple[str, Any]]:
    return pairs(rules, ((before, after, (there,), moves),), (crew,))


def _led(way: str, there: str, *crew: tuple[str, bool]) -> Sweep:
    crews: Sequence[Crew] = ((there, crew),)
    return lambda rules: models(rules, (way,), crews)


def _reads(name: str, *reads: Side) -> Rules:
    return Rules({**VERSIONED_PHASES, name: evolve(VERSIONED_PHASES[name], reads=reads)})


BOTH = _at(PREPARED, MOVING, "live", ("update", True), moving=MOVING)
READ = _at(PREPARED, MOVING, "live", ("read", False), moving=MOVING)

MUTANTS: Mapping[str, Mutant] = {
    "copy before seal": Mutant(Rules(move=_copy_first), BOTH, "LOST"),
    "closed before the copy stands": Mutant(Rules(move=_closes_first), READ, "LOST"),
    "the copy is put before its entries": Mutant(
        Rules(move=_rows_first), _at(PREPARED, MOVING, "live", ("read", False), moving=MOVING, indexed=True), "MISSING"
    ),
    "the new row is written before the old one is closed": Mutant(
        Rules(way=_WritesEarly), _at(PREPARED, MOVING, "copied", ("update", False)), "LOST"
    ),
    "writers do not heed seals": Mutant(Rules(heeds=False), BOTH, "LOST"),
    "closed rows are like other dead ones": Mutant(
        Rules(way=_ClosesOpenly), _at(PREPARED, MOVING, "live", ("delete", False), ("add", True)), "LOST"
    ),
    "absent rows are not closed": Mutant(
        Rules(way=_Unclosed), _at(PREPARED, MOVING, "absent", ("add", True), ("add", False)), "LOST"
    ),
    "versions begin again": Mutant(Rules(way=_CountsAgain), BOTH, "VERSION"),
    "what is deleted in the new table is purged at once": Mutant(
        Rules(purges=True), _at(PREPARED, MOVING, "live", ("delete", False), moving=MOVING), "BACK"
    ),
    "readers look into the new table first": Mutant(Rules(new_first=True), READ, "LOST"),
    "readers look into the old table alone": Mutant(
        _reads(PREPARED, "old"), _at(PREPARED, MOVING, "moved", ("read", True)), "LOST"
    ),
    "readers do not look whether their phase is over": Mutant(
        Rules(looks_again=False), _led("there", "live", ("read", True)), "LOST"
    ),
    "writers do not look whether their phase is over": Mutant(
        Rules(rounds_look=False), _led("back", "live", ("delete", True)), "CONFLICT"
    ),
    "what was sealed is not read again": Mutant(
        Rules(tries_again=False), _led("back at last", "live", ("delete", False)), "ERROR"
    ),
    "nobody heeds seals before the first is put": Mutant(
        Rules(prepares=False),
        lambda rules: _two(
            rules, BEFORE, PREPARED if rules.prepares else MOVING, "live", ("update", False), ("read", True)
        ),
        "LOST",
    ),
    "nobody waits for leases": Mutant(Rules(waits=False), _led("there", "live", ("read", True)), "LOST"),
    "the cut comes before all has moved": Mutant(
        Rules(completes=False), _led("there", "live", ("read", False)), "LOST"
    ),
    "rows move back before moves are ended": Mutant(
        Rules(halts=False),
        lambda rules: _two(
            rules, MOVING, HALTING if rules.halts else RETURNING, "sealed", ("update", False), moves=MOVING
        ),
        "CONFLICT",
    ),
    "rows move back before all read so": Mutant(
        Rules(turns=False),
        lambda rules: _two(
            rules,
            HALTING,
            TURNED if rules.turns else RETURNING,
            "moved",
            ("read", True),
            moves=None if rules.turns else RETURNING,
        ),
        "LOST",
    ),
    "what the new table holds stays there": Mutant(
        Rules(returns=False), _led("back at last", "live", ("read", False)), "LOST"
    ),
    "closed rows stay closed": Mutant(
        Rules(reopens=False),
        lambda rules: _two(
            rules, RETURNED, BEFORE, "opened" if rules.reopens else "closed", ("add", True), ("add", False)
        ),
        "ERROR",
    ),
}
