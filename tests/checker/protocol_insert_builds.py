"""Inserts in the model checker while an index is built, which may be unique: two programs want one value, and a third
deletes a row.

The registry changes at one moment, as in `protocol_rekey_builds`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

import hbmodel as hb
from hbmodel.errors import HbmodelError, SchemaMismatch
from hbmodel.protocol.indexed.index_build import RowIndexer, keep_entries
from hbmodel.protocol.indexed.indexed_write import insert_indexed, write_indexed_batch
from hbmodel.protocol.operations import GetRows, Protocol
from hbmodel.protocol.versioned.claim_comparison import claim_existing
from hbmodel.protocol.versioned.versioned_write import insert_versioned, write_versioned_batch
from hbmodel.protocol.writes import DeleteRow, PutObject, put_object
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import Steps
from tests.checker.protocol_rekey import nonces_of, planner_of
from tests.checker.protocol_rekey_builds import BUILT, BuildRules, BuildWatch, _driven, builder
from tests.checker.protocol_rekey_models import MODELS
from tests.checker.protocol_rekey_rows import ANOTHER, OUTCOME, SERVER, place_of
from tests.checker.protocol_rekey_watch import RekeyModel

CHECKED = BuildRules()


@frozen
class InsertRules:
    """The code under test: the shipped one, or a mutant of it.

    Attributes:
        gate: see `protocol_rekey_builds.BuildRules`.
        puts_again: whether an insert that notices the change after its put writes the object once more.
    """

    gate: BuildRules = CHECKED
    puts_again: bool = False


SOUND = InsertRules()


@once
def inserter(kind: str, number: int, name: str, rules: InsertRules) -> Callable[[], Steps]:
    """`Session.insert` of an object with the value 1; see `session.insert.Attempt`."""
    model = MODELS[kind]
    schema = hb.schema.schema_of(model)
    write = put_object(schema, model(name=name, who=ANOTHER, tag=1))

    def run() -> Steps:
        nonces, sent, placed = nonces_of(number), dict[bytes, Any](), list[Any]()
        violations: list[Any] = []
        undone: dict[bytes, Any] = {}
        while True:
            binding = yield ("move_bound",)
            planner = evolve(
                planner_of(schema, number, moving=False),
                nonce=nonces,
                indexes=tuple(schema.indexes.values()) if binding else (),
            )
            try:
                late = bool(placed or sent)
                if late and rules.puts_again:
                    yield from _driven(write_indexed_batch(planner, [write], True), binding, rules.gate)
                elif not violations and not placed:
                    protocol = (
                        insert_versioned(planner, write, sent)
                        if schema.versioned
                        else insert_indexed(planner, write, placed)
                    )
                    yield from _driven(protocol, binding, rules.gate)
                if late and not rules.puts_again:
                    if not violations:
                        violations = yield from _driven(_late(planner, write), binding, rules.gate)
                    if violations:
                        version = sent[write.row].cell.version
                        delete = write_versioned_batch(planner, [DeleteRow(None, write.row, version)], undone)
                        yield from _driven(delete, binding, rules.gate)
                        yield ("moving_ended", f"insert {name}", "UniqueViolation")
                        return
            except SchemaMismatch:
                continue
            except HbmodelError as error:
                yield ("moving_ended", f"insert {name}", type(error).__name__)
                return
            yield ("moving_ended", f"insert {name}", "put")
            return

    return run


def _late(planner: Any, write: PutObject) -> Protocol[list[Any]]:
    schema = planner.schema
    yield from keep_entries(RowIndexer(schema, planner.indexes), write.row)
    found: list[Any] = []
    for index in planner.indexes:
        (row,) = yield GetRows(schema.table, [write.row], schema.row_columns)
        if index.unique and row is not None:
            found += yield from claim_existing(evolve(planner, indexes=(index,)), [row])
    return found


@once
def deleter(kind: str, number: int, name: str) -> Callable[[], Steps]:
    """A program that maintains the index, and deletes a row if it finds one."""
    model = MODELS[kind]
    schema = hb.schema.schema_of(model)

    def run() -> Steps:
        planner, delete = planner_of(schema, number, moving=False), DeleteRow(None, place_of(model, name))
        batch = write_versioned_batch(planner, [delete], {}) if schema.versioned else _outcomes(planner, delete)
        (outcome,) = yield from _driven(batch, 0, BuildRules(gate="none"))
        yield ("moving_ended", f"delete {name}", outcome.action)

    return run


def _outcomes(planner: Any, delete: DeleteRow) -> Protocol[list[Any]]:
    deleted: dict[bytes, Any] = {}
    yield from write_indexed_batch(planner, [delete], True, deleted)
    return [deleted.get(delete.row) or _Absent()]


@frozen
class _Absent:
    action: str = "absent"


class InsertWatch(BuildWatch):
    """The invariants of inserts while an index is built."""

    def broken(self, store: Any) -> str | None:
        """In every state."""
        rows = self.rows(store)
        if store.get((OUTCOME, "delete m")) == "deleted" and "m" in rows:
            return "BACK: a row that was deleted is there again"
        return next(iter(self.without_entry(store, rows)), None)

    def terminal(self, store: Any) -> str | None:
        """Once everything has stopped."""
        rows, unique = self.rows(store), any(index.unique for index in self.schema.indexes.values())
        acknowledged = [name for name in "mo" if store.get((OUTCOME, f"insert {name}")) == "put" and name in rows]
        if unique and store.get(BUILT) and len(acknowledged) > 1:
            return f"DUPLICATE: the rows {acknowledged} hold one value"
        return None


def inserts(
    kinds: Sequence[str] = ("indexed", "versioned", "unique", "wide", "wide versioned", "covered"),
    rules: InsertRules = SOUND,
    crashes: int = 1,
    *,
    deletes: Sequence[bool] = (False, True),
) -> Iterator[tuple[str, RekeyModel]]:
    """An insert (two inserts of one value for a unique index), and a build that may begin between any two of their
    calls.
    """
    for kind, beside in itertools.product(kinds, deletes):
        names = "mo" if kind == "unique" and not beside else "m"
        running: list[Any] = [(f"W{n}", inserter(kind, n, name, rules), 12) for n, name in enumerate(names, 1)]
        if beside:
            running.append(("W5", deleter(kind, 5, "m"), 12))
        running.append(("B", builder(kind, "mo"), 12))
        store = {SERVER: 10}
        yield (
            f"{kind}, inserts beside a build{', a delete' if beside else ''}",
            RekeyModel(InsertWatch(kind, False), store, running, crashes),
        )


@frozen
class InsertMutant:
    """One rule broken."""

    rules: InsertRules
    where: Callable[[InsertRules], Iterator[tuple[str, RekeyModel]]]
    violation: str


def _where(kind: str, *, delete: bool = False) -> Callable[[InsertRules], Iterator[tuple[str, RekeyModel]]]:
    return lambda rules: inserts((kind,), rules, crashes=0, deletes=(delete,))


UNGATED = InsertRules(BuildRules(gate="none"))

MUTANTS: Mapping[str, InsertMutant] = {
    "an insert without a gate": InsertMutant(UNGATED, _where("versioned"), "MISSING"),
    "an insert without a gate, a unique value": InsertMutant(UNGATED, _where("unique"), "DUPLICATE"),
    "an insert that puts its row again": InsertMutant(
        InsertRules(puts_again=True), _where("indexed", delete=True), "BACK"
    ),
}
