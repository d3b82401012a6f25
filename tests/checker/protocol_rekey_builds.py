"""Moves to another key in the model checker while an index is built: requests that rely on an earlier state of the
registry are not sent.

The build waits until no request of a writer that does not maintain the index can arrive any more. So here the registry
changes at one moment: a request is sent under the binding that holds at that moment, or not at all. Then the builder
goes through the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from attrs import evolve, frozen

import hbmodel as hb
from hbmodel.errors import HbmodelError, SchemaMismatch
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.protocol.indexed.index_build import RowIndexer, index_rows
from hbmodel.protocol.operations import (
    Acknowledge,
    Change,
    CheckAndMutate,
    CheckAndMutateRows,
    CheckLease,
    GetRows,
    LetClockTick,
    Protocol,
    ReadClock,
)
from hbmodel.protocol.relocation.rekey import Move, Progress, rekey
from hbmodel.protocol.relocation.rekey_indexed_steps import IndexedMover, VersionedMover
from hbmodel.protocol.versioned.claim_comparison import claim_existing
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import Step, Steps, Told, mc
from tests.checker.protocol_rekey import SHIPPED, _single, beginning, nonces_of, planner_of, writer
from tests.checker.protocol_rekey_models import MODELS
from tests.checker.protocol_rekey_rows import OUTCOME, THE, _call, place_of, row_of
from tests.checker.protocol_rekey_watch import RekeyModel, Watch

REGISTERED, BUILT = ("registered", 0), ("built move", 0)
"""Keys of the checker's store: whether writers keep the index, and whether its build has ended."""

SHUT = "shut"
"""The answer to a request that is not sent, because the binding is an earlier one."""


def _gated(store: Any, step: Step) -> Any:
    return SHUT if store.get(REGISTERED, 0) != step[1] else _call(store, ("moving", step[2]))


def _bound(store: Any, step: Step) -> int:
    return int(store.get(REGISTERED, 0))


def _register(store: Any, step: Step) -> None:
    store[REGISTERED] = 1


def _built(store: Any, step: Step) -> None:
    store[BUILT] = 1


mc.OPS.update(move_gated=_gated, move_bound=_bound, move_register=_register, move_built=_built)

Gate = Literal["each change", "each change, earlier", "the first change", "none"]


@frozen
class BuildRules:
    """The code under test: the shipped one, or a mutant of it.

    Attributes:
        gate: before which changes the binding is checked: in the same moment, or earlier, where the store cannot do
            that.
        remembers: whether a move that is started again knows what it has done.
    """

    gate: Gate = "each change"
    remembers: bool = True


SOUND = BuildRules()


def _driven(protocol: Protocol[Any], binding: int, rules: BuildRules) -> Any:
    """A protocol as steps that pass the gate; returns what the protocol returns, and raises what it raises."""
    answer: Any = None
    error: SchemaMismatch | None = None
    changed = acknowledged = False
    while True:
        try:
            operation = protocol.send(answer) if error is None else protocol.throw(error)
        except StopIteration as stop:
            return stop.value
        answer = error = None
        open_ = acknowledged or rules.gate == "none" or (changed and rules.gate == "the first change")
        if isinstance(operation, ReadClock):
            answer = 12
        elif isinstance(operation, CheckLease):
            answer = True
            if not open_ and (yield ("move_bound",)) != binding:
                error = SchemaMismatch("changed")
        elif isinstance(operation, Acknowledge):
            acknowledged = True
        elif isinstance(operation, GetRows):
            answer = []
            for row in operation.rows:
                answer.append(
                    row_of(row, (yield Told(("moving", GetRows(operation.table, (row,), tuple(operation.columns))))))
                )
        elif isinstance(operation, Change):
            answers = []
            for one in _each(operation):
                if not open_ and rules.gate == "each change, earlier":
                    if (yield ("move_bound",)) != binding:
                        error = SchemaMismatch("changed")
                        break
                    answers.append((yield Told(("moving", one))))
                    continue
                found = yield Told(("moving", one) if open_ else ("move_gated", binding, one))
                if found == SHUT:
                    error = SchemaMismatch("changed")
                    break
                answers.append(found)
            else:
                changed = changed or any(answers)
                answer = (
                    [found or None for found in answers] if isinstance(operation, CheckAndMutateRows) else answers[0]
                )
        else:
            assert isinstance(operation, LetClockTick)


def _each(operation: Change) -> Iterator[Any]:
    if isinstance(operation, CheckAndMutateRows):
        for change in operation.changes:
            yield CheckAndMutate(operation.table, change.row, change.column, change.expected, change.mutations)
    else:
        yield from _single(operation)


def _mover(
    kind: str, number: int, binding: int, nonces: Callable[[], bytes], marks: Callable[[], bytes]
) -> IndexedMover[Any]:
    schema = hb.schema.schema_of(MODELS[kind])
    planner = evolve(
        planner_of(schema, number, moving=True), nonce=nonces, indexes=tuple(schema.indexes.values()) if binding else ()
    )
    made = VersionedMover if schema.versioned else IndexedMover
    return made(RowDecoder.of(schema, True), planner, nonce=marks)


@once
def mover(kind: str, number: int, rules: BuildRules) -> Callable[[], Steps]:
    """`Session.rekey`, started again when the registry has changed."""
    model = MODELS[kind]
    move = Move(
        place_of(model, "k"), place_of(model, "m"), {"name": "m"}, one_row=hb.schema.schema_of(model).wide is not None
    )

    def run() -> Steps:
        nonces, marks, progress = nonces_of(number), nonces_of(number + 50), Progress()
        while True:
            binding = yield ("move_bound",)
            try:
                moved = yield from _driven(
                    rekey(_mover(kind, number, binding, nonces, marks), move, progress), binding, rules
                )
            except SchemaMismatch:
                progress = progress if rules.remembers else Progress()
                continue
            except HbmodelError as error:
                yield ("moving_ended", f"move {number}", type(error).__name__)
                return
            yield ("moving_ended", f"move {number}", moved.outcome.action)
            return

    return run


@once
def builder(kind: str, names: str = "km") -> Callable[[], Steps]:
    """The build: the registry changes, writers of the earlier state are waited for, and the rows are read one after
    the other.
    """
    model = MODELS[kind]
    schema = hb.schema.schema_of(model)
    (index,) = schema.indexes.values()

    def run() -> Steps:
        yield ("move_register",)
        planner, indexer, found = planner_of(schema, 80, moving=False), RowIndexer(schema, (index,)), []
        for name in names:
            place = place_of(model, name)
            row = row_of(place, (yield Told(("moving", GetRows(schema.table, (place,), ())))))
            if row is None:
                continue
            yield from _driven(index_rows(indexer, [row], 12), 1, SOUND)
            if index.unique:
                found += yield from _driven(claim_existing(planner, [row]), 1, SOUND)
        if not found:
            yield ("move_built",)

    return run


@frozen(eq=False)
class BuildWatch(Watch):
    """The invariants of moves while an index is built: the guarantees of the index, once it is built.

    Attributes:
        alone: whether only one program moves the object.
    """

    alone: bool = True

    def without_entry(self, store: Any, rows: Mapping[str, Any]) -> Iterator[str]:
        """Rows that the index does not show."""
        return super().without_entry(store, rows) if store.get(BUILT) else iter(())

    def terminal(self, store: Any) -> str | None:
        """Once everything has stopped."""
        refused = self.alone and store.get((OUTCOME, "move 1")) == "RowNotFound"
        if refused and any(values["who"] == THE for values in self.rows(store).values()):
            return "REFUSED: the object has moved, and the call says that there is none"
        return super().terminal(store)


BESIDE: Mapping[str, tuple[str, str] | None] = {"nobody": None, "a delete of the old key": ("delete", "k")}


def moves(
    kinds: Sequence[str] = ("indexed", "versioned", "unique", "wide", "wide versioned", "covered"),
    beside: Sequence[str] = tuple(BESIDE),
    rules: BuildRules = SOUND,
    crashes: int = 1,
    *,
    twice: bool = False,
) -> Iterator[tuple[str, RekeyModel]]:
    """A move, or `twice` the same one, and a build of the index that may begin between any two of its calls."""
    for kind, others in itertools.product(kinds, beside):
        schema = hb.schema.schema_of(MODELS[kind])
        tables = {index.table for index in schema.indexes.values()}
        store = {key: value for key, value in beginning(kind).items() if key[0] not in tables}
        running: list[Any] = [(f"W{n}", mover(kind, n, rules), 12) for n in range(1, 3 if twice else 2)]
        if (call := BESIDE[others]) is not None:
            running.append(("W5", writer(kind, 5, *call, SHIPPED), 12))
        running.append(("B", builder(kind), 12))
        yield (
            f"{kind}, a build, {others}{', twice' if twice else ''}",
            RekeyModel(BuildWatch(kind, False, not twice), store, running, crashes),
        )


@frozen
class BuildMutant:
    """One rule broken."""

    rules: BuildRules
    where: Callable[[BuildRules], Iterator[tuple[str, RekeyModel]]]
    violation: str


def _where(kind: str) -> Callable[[BuildRules], Iterator[tuple[str, RekeyModel]]]:
    return lambda rules: moves((kind,), ("nobody",), rules, crashes=0)


MUTANTS: Mapping[str, BuildMutant] = {
    "a gate before the first change alone": BuildMutant(
        BuildRules(gate="the first change"), _where("indexed"), "MISSING"
    ),
    "a gate before the first change alone, versions": BuildMutant(
        BuildRules(gate="the first change"), _where("versioned"), "MISSING"
    ),
    "a move in one row that does not know what it has done": BuildMutant(
        BuildRules(remembers=False), _where("wide"), "REFUSED"
    ),
}
