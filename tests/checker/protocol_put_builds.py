"""Puts of objects in the model checker while an index is built, concurrent with programs that update or delete these
objects.

The registry changes at one moment, as in `protocol_rekey_builds`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

import hbmodel as hb
from hbmodel.errors import HbmodelError, SchemaMismatch
from hbmodel.protocol.indexed.indexed_write import write_indexed_batch
from hbmodel.protocol.indexed.placed_rows import PlacedRows
from hbmodel.protocol.writes import Outcome, PutObject, UpdateFields, put_object
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import Steps
from tests.checker.protocol_insert_builds import InsertWatch, deleter
from tests.checker.protocol_rekey import nonces_of, planner_of
from tests.checker.protocol_rekey_builds import BuildRules, _driven, builder
from tests.checker.protocol_rekey_models import MODELS
from tests.checker.protocol_rekey_rows import ANOTHER, OUTCOME, SERVER, place_of
from tests.checker.protocol_rekey_watch import RekeyModel

CHECKED = BuildRules()
EARLIER = BuildRules(gate="each change, earlier")
CHANGED = 5
"""The value of the indexed field after the update."""


@frozen
class PutRules:
    """The code under test: the shipped one, or a mutant of it.

    Attributes:
        gate: see `protocol_rekey_builds.BuildRules`.
        remembers: whether a batch that is started again knows which rows it has put.
        completes: whether the entries of these rows are put by the indexes as they are then.
    """

    gate: BuildRules = CHECKED
    remembers: bool = True
    completes: bool = True


SOUND = PutRules()


def sound(rules: PutRules) -> PutRules:
    """The shipped code, in a store of the same kind."""
    return PutRules(EARLIER) if rules.gate == EARLIER else SOUND


class Idle(PlacedRows):
    """Takes it that rows which were put need nothing more."""

    def completed(self, planner: Any) -> Any:
        return dict(self.outcomes)
        yield


@once
def putter(kind: str, number: int, name: str, rules: PutRules) -> Callable[[], Steps]:
    """A commit that puts an object with the value 1; see `session.unit_of_work`."""
    model = MODELS[kind]
    schema = hb.schema.schema_of(model)
    write = put_object(schema, model(name=name, who=ANOTHER, tag=1))
    return lambda: _committed(kind, number, [write], rules, f"put {name}", 0)


@once
def updater(kind: str, number: int, name: str) -> Callable[[], Steps]:
    """A program that maintains the index, and updates a row if it finds one."""
    write = UpdateFields(None, place_of(MODELS[kind], name), {"name": name}, {"tag": CHANGED})
    return lambda: _committed(kind, number, [write], PutRules(BuildRules(gate="none")), f"update {name}", 1)


def _committed(
    kind: str, number: int, writes: Sequence[PutObject | UpdateFields], rules: PutRules, name: str, bound: int
) -> Steps:
    schema = hb.schema.schema_of(MODELS[kind])
    nonces = nonces_of(number)
    placed = PlacedRows() if rules.completes else Idle()
    while True:
        binding = bound or (yield ("move_bound",))
        planner = evolve(
            planner_of(schema, number, moving=False),
            nonce=nonces,
            indexes=tuple(schema.indexes.values()) if binding else (),
        )
        try:
            (outcome,) = yield from _driven(_acknowledged(planner, writes, placed), binding, rules.gate)
        except SchemaMismatch:
            placed = placed if rules.remembers else PlacedRows()
            continue
        except HbmodelError as error:
            yield ("moving_ended", name, type(error).__name__)
            return
        yield ("moving_ended", name, outcome.action)
        return


def _acknowledged(planner: Any, writes: Sequence[Any], placed: PlacedRows) -> Any:
    """The outcomes of a batch."""
    outcomes: Sequence[Outcome] = ()
    protocol, answer = write_indexed_batch(planner, writes, True, placed=placed), None
    operation = protocol.send(None)
    while True:
        outcomes = getattr(operation, "outcomes", outcomes)
        try:
            answer = yield operation
        except SchemaMismatch as error:
            protocol.throw(error)
            raise
        try:
            operation = protocol.send(answer)
        except StopIteration:
            return outcomes


@frozen(eq=False)
class PutWatch(InsertWatch):
    """The invariants of puts while an index is built.

    Attributes:
        late: whether a row may be put after the index is built, by a program that has looked at the registry before:
            then it needs entries once it is acknowledged.
    """

    late: bool = False

    def without_entry(self, store: Any, rows: Mapping[str, Any]) -> Iterator[str]:
        """Rows that the index does not show."""
        return iter(()) if self.late and store.get((OUTCOME, "put m")) is None else super().without_entry(store, rows)

    def broken(self, store: Any) -> str | None:
        """In every state."""
        rows = self.rows(store)
        if store.get((OUTCOME, "update m")) == "put" and "m" in rows and rows["m"]["tag"] != CHANGED:
            return "LOST: an update is acknowledged and is not there"
        return super().broken(store)


BESIDE: Mapping[str, Callable[..., Callable[[], Steps]] | None] = {
    "nobody": None,
    "a delete": deleter,
    "an update": updater,
}


def puts(
    kinds: Sequence[str] = ("indexed", "wide"),
    beside: Sequence[str] = tuple(BESIDE),
    rules: PutRules = SOUND,
    crashes: int = 1,
) -> Iterator[tuple[str, RekeyModel]]:
    """A put, and a build that may begin between any two of its calls."""
    for kind, others in itertools.product(kinds, beside):
        running: list[Any] = [("W1", putter(kind, 1, "m", rules), 12)]
        if (program := BESIDE[others]) is not None:
            running.append(("W5", program(kind, 5, "m"), 12))
        running.append(("B", builder(kind, "m"), 12))
        late = rules.gate.gate == "each change, earlier"
        yield (
            f"{kind}, a put beside a build, {others}{', late' if late else ''}",
            RekeyModel(PutWatch(kind, False, late=late), {SERVER: 10}, running, crashes),
        )


def late_puts() -> Iterator[tuple[str, RekeyModel]]:
    """The same where a put may land after the index is built."""
    return puts(rules=PutRules(EARLIER), crashes=0)


@frozen
class PutMutant:
    """One rule broken."""

    rules: PutRules
    where: Callable[[PutRules], Iterator[tuple[str, RekeyModel]]]
    violation: str


def _where(beside: str, kind: str = "indexed") -> Callable[[PutRules], Iterator[tuple[str, RekeyModel]]]:
    return lambda rules: puts((kind,), (beside,), rules, crashes=0)


MUTANTS: Mapping[str, PutMutant] = {
    "a put without a gate": PutMutant(PutRules(BuildRules(gate="none")), _where("nobody"), "MISSING"),
    "a row that was put is put again, an update": PutMutant(PutRules(remembers=False), _where("an update"), "LOST"),
    "a row that was put is put again, an object of a row": PutMutant(
        PutRules(remembers=False), _where("an update", "wide"), "LOST"
    ),
    "a row that was put is put again, a delete": PutMutant(PutRules(remembers=False), _where("a delete"), "BACK"),
    "a row that was put gets no entries": PutMutant(PutRules(EARLIER, completes=False), _where("nobody"), "MISSING"),
}
