"""The rules of versioned objects that share a row broken on purpose; the checker must notice every one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.mapping.version_cell import VersionCell
from hbmodel.protocol.indexed.indexed_plan import OldRow, RowPlan
from hbmodel.protocol.operations import CheckAndMutateRows, Operation, Protocol
from hbmodel.protocol.versioned.versioned_plan import Sent, Verdict, VersionedRowPlanner
from hbmodel.protocol.writes import RowWrite
from hbmodel.store import ConditionalChange, Get, Row
from hbmodel.store.wide.folded import FoldedStore
from hbmodel.store.wide.object_get import PartOfRow
from hbmodel.store.wide.wide_rows import WideRows
from tests.checker.protocol_mutants import Patient
from tests.checker.protocol_shared import Rules
from tests.checker.protocol_shared_sweeps import LATE, purgers, shared
from tests.checker.protocol_sweeps import Configuration
from tests.checker.protocol_version_mutants import changed


@frozen
class Mutant:
    """One rule broken; see `protocol_mutants.Mutant`."""

    rules: Rules
    where: Callable[[Rules], Iterable[Configuration]]
    violation: str


class ObjectsFirst(FoldedStore):
    """Objects are read before the version of their row."""

    def _get_each(self, table: str, wide: WideRows | None, gets: Sequence[Get]) -> Sequence[Row | None]:
        if wide is None:
            return super()._get_each(table, wide, gets)
        asked = [PartOfRow(wide, get) for get in gets]
        rows = self._store.get_each(wide.table, [part.get for part in asked])
        found = self._row_versions(wide, {part.get.row for part in asked if part.versioned})
        return [part.object(row, found.get(part.get.row)) for part, row in zip(asked, rows, strict=True)]


class SameRowVersion(VersionedRowPlanner):
    """A write does not change the version of its row."""

    def change(self, plan: RowPlan, old: OldRow) -> ConditionalChange:
        made = super().change(plan, old)
        return evolve(made, mutations=[plan.put, *made.mutations[1:]])


class OwnVersion(VersionedRowPlanner):
    """A write is conditional on the version of its own object."""

    def change(self, plan: RowPlan, old: OldRow) -> ConditionalChange:
        return evolve(super().change(plan, old), column=self.schema.version_column, expected=self.stored(old))


class Unpinned(VersionedRowPlanner):
    """The version that a local transaction has read is not compared."""

    def _check_version(self, write: RowWrite, old: OldRow) -> None:
        super(Unpinned, evolve(self, pinned=None))._check_version(write, old)


class Tall(Sent):
    """Who was refused has lost to another write of the same object."""

    def verdict(self, found: VersionCell) -> Verdict:
        if self.cell.nonces[0] in found.nonces:
            return "applied"
        if self.first:
            return "lost" if found.complete and found.nonces else "unknown"
        return "lost" if 0 <= found.version - self.cell.version < len(found.nonces) else "unknown"


class Neighbourly(Sent):
    """An object without a version was passed by, even if it was deleted and purged."""

    def verdict(self, found: VersionCell) -> Verdict:
        if self.cell.nonces[0] not in found.nonces and found.version < self.cell.version:
            return "lost"
        return super().verdict(found)


class Hasty(VersionedRowPlanner):
    """A local transaction does not look again whether its row is as it was, before it ends in another error."""

    def check_pinned(self, row: bytes, old: OldRow) -> None:
        pass

    def _check_version(self, write: RowWrite, old: OldRow) -> None:
        VersionedRowPlanner.check_pinned(self, write.row, old)
        super()._check_version(write, old)


def one_by_one(operation: Operation) -> Protocol[Any]:
    """Each object of a row is written by a separate call."""
    if not isinstance(operation, CheckAndMutateRows):
        return (yield operation)
    applied: list[bool | None] = []
    for change in operation.changes:
        applied += yield CheckAndMutateRows(operation.table, [change])
    return applied


def pair(one: str, other: str, **options: Any) -> Callable[[Rules], Iterable[Configuration]]:
    """These two writers, by every clock."""
    return lambda rules: shared((one,), (other,), rules=rules, **options)


def purged(one: str, store: str) -> Callable[[Rules], Iterable[Configuration]]:
    """The answer is lost, another writer deletes the object, and its marker is purged once the grace time is over."""
    late: dict[str, Any] = {"others": purgers, "crashes": 0, "paused": True, "always": False, "first": {"repeat": 1}}
    return lambda rules: shared((one,), ("k delete",), (12,), rules, stores=(store,), **late)


def _objects_first(store: Any, wide: WideRows | None) -> Any:
    return store if wide is None else ObjectsFirst(store, [wide])


HALF = Rules(around=changed(one_by_one).around)

MUTANTS: Mapping[str, Mutant] = {
    "objects before the row version": Mutant(Rules(view=_objects_first), pair("k note", "k put b"), "COUNT"),
    "the row version stays": Mutant(Rules(planner=SameRowVersion), pair("k note", "k put b"), "COUNT"),
    "a condition on the own version": Mutant(Rules(planner=OwnVersion), pair("pinned m note", "k note"), "SKEW"),
    "half a commit": Mutant(HALF, pair("put both", "k note"), "HALF"),
    "half a local transaction": Mutant(HALF, pair("pinned k tag b, m note", "k note"), "HALF"),
    "refused by a neighbour": Mutant(Rules(sent=Tall), pair("k note", "m note"), "UNKNOWN"),
    "inserted beside a neighbour": Mutant(Rules(sent=Tall), pair("k insert", "m note", stores=("beside",)), "UNKNOWN"),
    "lost though purged": Mutant(evolve(LATE, sent=Neighbourly), purged("k put b", "live"), "after repair: AGAIN"),
    "lost though absent for long": Mutant(
        evolve(LATE, clock=Patient), purged("k insert", "absent"), "after repair: AGAIN"
    ),
    "a local transaction ends in haste": Mutant(Rules(planner=Hasty), pair("pinned m note", "m delete"), "PINNED"),
    "a local transaction deletes nothing in haste": Mutant(
        Rules(planner=Hasty), pair("pinned k delete", "k delete"), "PINNED"
    ),
    "the pinned version not compared": Mutant(Rules(planner=Unpinned), pair("pinned m note", "k note"), "SKEW"),
}
