"""The rules of map columns broken on purpose; the checker must notice every one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from attrs import evolve

from hbmodel.mapping.map_columns import MARK
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner, OldRow, RowPlan
from hbmodel.protocol.operations import GetRows, Protocol
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.writes import PutObject, UpdateFields
from hbmodel.query.run.map_entries import EntryReader
from hbmodel.store import Delete, Row
from tests.checker import protocol_map_versions as of_versions
from tests.checker import protocol_shared, protocol_versions
from tests.checker.protocol_maps import TWICE_DELETED, Reading, careless, maps
from tests.checker.protocol_mutants import Mutant
from tests.checker.protocol_processes import Rules
from tests.checker.protocol_sweeps import Configuration
from tests.checker.protocol_version_mutants import VersionsAlone

PREFIX = b"d:lk\x00\x01"
"""What the columns of the first object of the one row begin with."""


class BlankMark(IndexedRowPlanner):
    """A new object blanks the cell that says when entries were put."""

    def full_cells(self, write: PutObject, old: OldRow, version: bytes) -> dict[bytes, bytes]:
        cells = super().full_cells(write, old, version)
        shown = () if old.live or old.row is None else old.row.columns
        return {**{column: b"" for column in self.schema.kept_columns if column in shown}, **cells}


class NoMark(IndexedRowPlanner):
    """Entries are put without the cell that says when."""

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._partial(write, old, timestamp)
        if plan.put is None:
            return plan
        cells = {column: value for column, value in plan.put.cells.items() if column not in self.schema.kept_columns}
        return evolve(plan, put=evolve(plan.put, cells=cells))


class Unasked(IndexedRowPlanner):
    """Entries are put whether their object is there or not."""

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        if old.row is None or write.changes.keys() != self.schema.maps_by_name.keys():
            return super()._partial(write, old, timestamp)
        return super()._partial(write, evolve(old, live=True), timestamp)


class Replacing(IndexedRowPlanner):
    """An object that is put has its own entries alone."""

    def _full(self, write: PutObject, old: OldRow, timestamp: int) -> RowPlan:
        older = Delete(write.row, families=self.schema.family_names, timestamp=timestamp - 1)
        return evolve(super()._full(write, old, timestamp), row_delete=older)


def without_whole_read(protocol: Protocol[Any]) -> Protocol[Any]:
    """The rest of a deleted object is not read with its entries."""
    answer: Any = None
    before: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(operation, GetRows) and all(b":" not in column for column in operation.columns):
            answer = before
            continue
        answer = before = yield operation


def with_mark(delete: Delete, listed: Collection[bytes]) -> Delete:
    """A delete that takes the cells that say when entries were put."""
    return evolve(delete, columns=list(dict.fromkeys([*delete.columns, PREFIX + b"l"])))


def without_entry(delete: Delete, listed: Collection[bytes]) -> Delete:
    """A delete omits one of the entries that it has listed."""
    return evolve(delete, columns=[column for column in delete.columns if column != PREFIX + b"lx"])


class Showing(EntryReader):
    """Removed entries are shown as empty ones."""

    def _cell(self, entry: Row) -> bytes:
        return super()._cell(entry) or b"\x00"


class Uncounted(VersionedRowPlanner):
    """A put of entries does not change the version."""

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._partial(write, old, timestamp)
        if plan.put is None or write.changes.keys() != self.schema.maps_by_name.keys():
            return plan
        cells = {**plan.put.cells, self.schema.version_column: self.stored(old) or b""}
        return evolve(plan, put=evolve(plan.put, cells=cells))


class Unremoved(VersionedRowPlanner):
    """Entries that are removed stay."""

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._partial(write, old, timestamp)
        if plan.put is None:
            return plan
        return evolve(
            plan, put=evolve(plan.put, cells={column: value for column, value in plan.put.cells.items() if value})
        )


class Unlisted(VersionedRowPlanner):
    """A new object leaves the entries of the previous object."""

    def full_cells(self, write: PutObject, old: OldRow, version: bytes) -> dict[bytes, bytes]:
        cells = super().full_cells(write, old, version)
        if old.live:
            return cells
        return {**cells, **{self.schema.maps[0].column + b"w": b"o", self.schema.maps[0].column: MARK}}


def pair(one: str, other: str, **options: Any) -> Callable[[Any], Iterable[Configuration]]:
    """These two writers, by every clock."""
    return lambda rules: maps((one,), (other,), rules=rules, **options)


def versioned(one: str, other: str, model: str, **options: Any) -> Callable[[Any], Iterable[Configuration]]:
    """The same of versioned objects."""
    return lambda rules: of_versions.maps((one,), (other,), (12,), rules, model=model, **options)


def reading(how: Reading, one: str, other: str, **options: Any) -> Callable[[Any], Iterable[Configuration]]:
    """A reader of entries and two writers; the writers run the shipped code."""
    return lambda rules: maps(
        (one,), (other,), (12,), others=careless(how if rules is BROKEN_READER else Reading()), **options
    )


BROKEN_READER = Rules()
"""Says that the reader is broken, and nothing else."""


def _of(planner: type[VersionedRowPlanner], model: str) -> Any:
    return (protocol_shared if model == "wide" else protocol_versions).Rules(planner=planner)


LEFT: Mapping[str, Any] = {"stores": ("entries of a dead object",)}

MUTANTS: Mapping[str, Mutant] = {
    "a new object blanks the time of entries": Mutant(
        Rules(writer=BlankMark), pair("new entry", TWICE_DELETED, model="wide", clocks=(5,)), "LEFTOVER"
    ),
    "entries put without their time": Mutant(Rules(writer=NoMark), pair("new entry", "delete, put"), "LEFTOVER"),
    "entries put without their time, in one row": Mutant(
        Rules(writer=NoMark), pair("new entry", "delete, put", model="wide"), "KEPT"
    ),
    "entries put without an object": Mutant(
        Rules(writer=Unasked), pair("new entry", "delete", stores=("dead",)), "LOST"
    ),
    "entries of others replaced": Mutant(Rules(writer=Replacing), pair("new entry", "put"), "LOST"),
    "what is left not read whole": Mutant(Rules(around=without_whole_read), pair("put", "note", **LEFT), "LEFTOVER"),
    "what is left not read whole, in one row": Mutant(
        Rules(around=without_whole_read), pair("put", "note", model="wide", **LEFT), "LEFTOVER"
    ),
    "a delete takes the time of entries": Mutant(
        Rules(tombstones=with_mark), pair("new entry", "delete, put", model="wide", clocks=(5, 12)), "LEFTOVER"
    ),
    "a delete leaves an entry": Mutant(Rules(tombstones=without_entry), pair("delete", "note", model="wide"), "KEPT"),
    "a reader does not ask for the object": Mutant(
        BROKEN_READER, reading(Reading(asks=False), "note", "delete", **LEFT), "DEAD"
    ),
    "a reader shows removed entries": Mutant(
        BROKEN_READER, reading(Reading(reader=Showing), "remove", "note"), "DIRTY"
    ),
}

VERSION_MUTANTS: Mapping[str, Mapping[str, Mutant]] = {
    model: {
        f"entries put without a version: {model}": Mutant(
            _of(Uncounted, model), versioned("entry", "put", model), "COUNT"
        ),
        f"removed entries stay: {model}": Mutant(_of(Unremoved, model), versioned("remove", "put", model), "SERIAL"),
        f"a new object has entries of the old one: {model}": Mutant(
            _of(Unlisted, model), versioned("delete, put", "entry", model), "SERIAL"
        ),
    }
    for model in ("tall", "wide")
}

COVERED_MUTANTS: Mapping[str, Mutant] = {
    "entries that keep the version before": Mutant(
        _of(VersionsAlone, "covered"), versioned("entry", "remove", "covered"), "VERIFIED"
    ),
}
