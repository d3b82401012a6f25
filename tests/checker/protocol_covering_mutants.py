"""The rules of covering reads broken on purpose, each by changing what the shipped code does; the checker must
notice every one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.mapping.rows.covering import VERIFIED, is_bare, verification, verified
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.indexed.index_build import RowIndexer
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutate,
    CheckAndMutateRows,
    CheckLease,
    DeleteRows,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    Together,
)
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.store import Put, Row
from tests.checker.protocol_covering import (
    INSERTS,
    MORTAL,
    PUTS,
    Rules,
    builders,
    covering,
    repairers,
    reverifiers,
    unkept,
    updaters,
)
from tests.checker.protocol_mutants import is_verification
from tests.checker.protocol_processes import Rules as Around
from tests.checker.protocol_sweeps import Configuration


@frozen
class Mutant:
    """One rule broken; see `protocol_mutants.Mutant`."""

    rules: Rules
    where: Callable[[Rules], Iterable[Configuration]]
    violation: str = "VERIFIED"


def planning(change: Callable[[Any], type[Any]]) -> Rules:
    """Both planners, changed alike."""
    return Rules(facts=change(IndexedRowPlanner), posts=change(VersionedRowPlanner))


# --- marks ------------------------------------------------------------------------------------------------------------


def no_marks(of: Any) -> Any:
    """Old entries are not marked."""

    class Mutated(of):  # type: ignore[misc]
        def _marks(self, *args: Any) -> Any:
            return []

    return Mutated


def no_own_marks(of: Any) -> Any:
    """A put that expires marks no entries of its own."""

    class Mutated(of):  # type: ignore[misc]
        def _marks(self, stale: Any, nonce: bytes, timestamp: int, own: Any = ()) -> Any:
            return super()._marks(stale, nonce, timestamp)

    return Mutated


def expiring_marks(of: Any) -> Any:
    """Marks expire with the put that made them."""

    class Mutated(of):  # type: ignore[misc]
        def _marks(self, stale: Any, nonce: bytes, timestamp: int, own: Any = ()) -> Any:
            ttl = next((put.ttl for _, put in own), None)
            return [(table, evolve(put, ttl=ttl)) for table, put in super()._marks(stale, nonce, timestamp, own)]

    return Mutated


def marks_at_time(of: Any) -> Any:
    """Marks of immutable rows are at the time of the marker."""

    class Mutated(of):  # type: ignore[misc]
        def _marks(self, *args: Any) -> Any:
            return [(table, evolve(put, timestamp=put.timestamp - 1)) for table, put in super()._marks(*args)]

    return Mutated


def marks_late(protocol: Protocol[Any]) -> Protocol[Any]:
    """Marks after the row."""
    answer: Any = None
    held: list[PutRows] = []
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(operation, Acknowledge) and held:
            yield Together(held)
            held = []
        if isinstance(operation, Together) and isinstance(operation.operations[0], PutRows):
            kept, marks = [], []
            for part in operation.operations:
                if not isinstance(part, PutRows):
                    kept.append(part)
                    continue
                marks += [(part.table, put) for put in part.puts if is_mark(put)]
                rest = [put for put in part.puts if not is_mark(put)]
                kept += [PutRows(part.table, rest)] if rest else []
            held += [PutRows(table, [put]) for table, put in marks]
            answer = (yield Together(kept)) if kept else None
            continue
        answer = yield operation


def marks_with_the_row(protocol: Protocol[Any]) -> Protocol[Any]:
    """Marks of deletes land with the row, in any order."""
    answer: Any = None
    marks: list[Any] = []
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(operation, Together) and all(
            isinstance(p, PutRows) and all(map(is_mark, p.puts)) for p in operation.operations
        ):
            marks, answer = list(operation.operations), None
        elif marks and isinstance(operation, MutateRow | PutRows):
            answer = yield Together([operation, *marks])
            marks = []
        else:
            answer = yield operation


def row_delete_first(protocol: Protocol[Any]) -> Protocol[Any]:
    """If a delete is two calls, the delete of the row comes before the marks and before the marker."""
    answer: Any = None
    earlier: list[Operation] = []
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = None
        if isinstance(operation, DeleteRows):
            yield operation
            yield from earlier
            earlier = []
        elif isinstance(operation, Together) and all(
            isinstance(p, PutRows) and all(map(is_mark, p.puts)) for p in operation.operations
        ):
            earlier = [operation]
        elif earlier and isinstance(operation, PutRows):
            earlier.append(operation)
        else:
            answer = yield operation


def is_mark(put: Put) -> bool:
    """Whether a put takes an entry back."""
    return all(column.endswith(b":_s") and value[:1] != VERIFIED for column, value in put.cells.items())


# --- verification -----------------------------------------------------------------------------------------------------


def verified_at_once(of: Any) -> Any:
    """Entries are put verified."""

    class Mutated(of):  # type: ignore[misc]
        def _puts(self, *args: Any, **options: Any) -> Any:
            return [(table, _verified(self.schema, put)) for table, put in super()._puts(*args, **options)]

    return Mutated


def _verified(schema: TableSchema, put: Put) -> Put:
    return evolve(put, cells={**put.cells, schema.status_column: verified(put.cells[schema.version_column])})


def verified_above(of: Any) -> Any:
    """Verified one above the time of the entry."""

    class Mutated(of):  # type: ignore[misc]
        def verifications(self, *args: Any) -> Any:
            return [(table, evolve(put, timestamp=put.timestamp + 1)) for table, put in super().verifications(*args)]

    return Mutated


def expiring_verified(of: Any) -> Any:
    """Entries that expire are verified too."""

    class Mutated(of):  # type: ignore[misc]
        def verifications(self, entries: Any) -> Any:
            return [
                (table, evolve(verification(self.schema, put), timestamp=put.timestamp + 1)) for table, put in entries
            ]

    return Mutated


def early(protocol: Protocol[Any]) -> Protocol[Any]:
    """Entries are verified before the row is put."""
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = yield operation
        if isinstance(operation, Together) and isinstance(operation.operations[0], PutRows):
            yield from _verify(operation)


def _verify(entries: Together) -> Protocol[None]:
    """Verifies what was put."""
    puts = [
        (part.table, put)
        for part in entries.operations
        if isinstance(part, PutRows)
        for put in part.puts
        if len(put.cells) > 1
    ]
    made = []
    for table, put in puts:
        version = next(value for column, value in put.cells.items() if column.endswith(b":_v"))
        made.append(PutRows(table, [Put(put.row, {b"d:_s": verified(version)}, put.timestamp)]))
    if made:
        yield Together(made)


def loser_verifies(protocol: Protocol[Any]) -> Protocol[Any]:
    """A writer that was refused nevertheless verifies its entries."""
    answer: Any = None
    entries: Together | None = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = yield operation
        if isinstance(operation, Together) and isinstance(operation.operations[0], PutRows):
            entries = operation
        refused = (isinstance(operation, CheckAndMutateRows) and not all(answer)) or (
            isinstance(operation, CheckAndMutate) and not answer
        )
        if refused and entries is not None:
            yield from _verify(entries)
            entries = None


def late_verified(protocol: Protocol[Any]) -> Protocol[Any]:
    """Entries that were put once more, since their write took too long, are verified."""
    answer: Any = None
    late: Together | None = None
    expired = False
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = yield operation
        expired |= isinstance(operation, CheckLease) and not answer
        if expired and isinstance(operation, Together) and isinstance(operation.operations[0], PutRows):
            late = operation if not any(map(is_verification, operation.operations[0].puts)) else late
        if isinstance(operation, Acknowledge) and late is not None:
            yield from _verify(late)


def unconditional(protocol: Protocol[Any]) -> Protocol[Any]:
    """Versioned rows are put without the check."""
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(operation, CheckAndMutateRows):
            for change in operation.changes:
                yield MutateRow(operation.table, change.mutations)
            answer = [True for _ in operation.changes]
        else:
            answer = yield operation


# --- entries ----------------------------------------------------------------------------------------------------------


def nulls_left_out(of: Any) -> Any:
    """A covered cell that is None is left out of the entry."""

    class Mutated(of):  # type: ignore[misc]
        def _puts(self, *args: Any, **options: Any) -> Any:
            puts = super()._puts(*args, **options)
            return [(table, evolve(put, cells={c: v for c, v in put.cells.items() if v})) for table, put in puts]

    return Mutated


def same_key_kept(of: Any) -> Any:
    """A put to the same key leaves the status of the entry alone, as if that needed no care."""

    class Mutated(of):  # type: ignore[misc]
        def _puts(self, *args: Any, **options: Any) -> Any:
            puts = super()._puts(*args, **options)
            return [
                (table, evolve(put, cells={c: v for c, v in put.cells.items() if not c.endswith(b":_s")}))
                for table, put in puts
            ]

    return Mutated


def without_nonce(schema: TableSchema, entry: Row) -> bool:
    """Verified whatever the nonce of the status."""
    status = entry.columns.get(schema.status_column)
    return status is not None and status.value[:1] == VERIFIED and not is_bare(schema, entry)


def stale_at(offset: int) -> Callable[[Any], Any]:
    """Old entries are deleted at another time than t-1."""

    def change(of: Any) -> Any:
        class Mutated(of):  # type: ignore[misc]
            def _stale(self, *args: Any) -> Any:
                return [
                    (table, evolve(delete, timestamp=delete.timestamp + offset))
                    for table, delete in super()._stale(*args)
                ]

        return Mutated

    return change


# --- repair and builds ------------------------------------------------------------------------------------------------


class BuiltNow(RowIndexer):
    """Lost entries are put verified, at the time of the clock."""

    def of(self, row: Row | None) -> Any:
        made = super().of(row)
        return made if made is None else evolve(made, entries=[(t, evolve(p, timestamp=40)) for t, p in made.entries])


class EntriesForEver(RowIndexer):
    """The entries of a row that expires are put without a TTL."""

    def _puts(self, *args: Any) -> Any:
        return [(table, evolve(put, ttl=None)) for table, put in super()._puts(*args)]


def in_v(
    names: Sequence[str] | None = None, clocks: Sequence[int] = (5, 12), **options: Any
) -> Callable[[Rules], Iterable[Configuration]]:
    """Versioned rows."""
    return lambda rules: covering("V", names, clocks, rules, **options)


def in_i(
    names: Sequence[str], clocks: Sequence[int] = (12,), **options: Any
) -> Callable[[Rules], Iterable[Configuration]]:
    """Immutable rows."""
    return lambda rules: covering("I", names, clocks, rules, **options)


def both(name: str, rules: Rules, versioned: Any, immutable: Any, violation: str = "VERIFIED") -> dict[str, Mutant]:
    """One mutant in each kind of model."""
    return {
        f"{name}, versioned": Mutant(rules, versioned, violation),
        f"{name}, immutable": Mutant(rules, immutable, violation),
    }


MOVES = ("put b", "delete")
ABSENT: dict[str, Any] = {"stores": ("absent",)}
SLOW: dict[str, Any] = {"ordered": True, "first": {"slow": 1}}
REPAIRS_NOW = Rules(repair=Around(repair_at=lambda timestamp: 40))
MUTANTS: Mapping[str, Mutant] = {
    **both("old entries are not marked", planning(no_marks), in_v(MOVES), in_i(PUTS)),
    **both("marks after the row", Rules(around=marks_late), in_v(MOVES), in_i(PUTS)),
    "marks are not awaited": Mutant(Rules(around=marks_with_the_row), in_i(PUTS)),
    "the row is deleted before the marks, in two calls": Mutant(
        Rules(around=row_delete_first), in_i(("delete", "put, delete"), atomic=False)
    ),
    **both("entries put verified", planning(verified_at_once), in_v(("put b", "extra")), in_i(INSERTS, **ABSENT)),
    **both("verified before the row", Rules(around=early), in_v(("put b", "extra")), in_i(INSERTS, **ABSENT)),
    **both(
        "verified above the time of the entry", planning(verified_above), in_v(("put b", "extra")), in_i(PUTS, (11, 12))
    ),
    **both("a loser verifies", Rules(around=loser_verifies), in_v(("put b", "extra")), in_i(INSERTS, **ABSENT)),
    **both(
        "verified though the write took too long",
        Rules(around=late_verified),
        in_v(("put b", "delete", "extra"), **SLOW),
        in_i(INSERTS, **ABSENT, **SLOW),
    ),
    **both(
        "the nonce is not compared",
        Rules(trusts=without_nonce),
        in_v(clocks=(12,)),
        in_i(INSERTS, stores=("live", "absent")),
    ),
    "a put to the same key leaves the status, and the nonce is not compared": Mutant(
        Rules(trusts=without_nonce, posts=same_key_kept(VersionedRowPlanner)), in_v(("put a", "extra"))
    ),
    "rows are put without the check": Mutant(Rules(around=unconditional), in_v(("put b", "extra")), "SERIAL"),
    **both(
        "a covered None is left out",
        planning(nulls_left_out),
        in_v(("no extra",)),
        in_i(("insert a", "delete")),
        "COVER",
    ),
    "marks of immutable rows at the time of the marker": Mutant(
        Rules(facts=marks_at_time(IndexedRowPlanner)), in_i(PUTS, (11, 12))
    ),
    "old entries of immutable rows are deleted at t": Mutant(
        Rules(facts=stale_at(1)(IndexedRowPlanner)), in_i(PUTS, (11, 12)), "MISSING"
    ),
    "old entries are deleted above t": Mutant(
        Rules(posts=stale_at(2)(VersionedRowPlanner)), in_v(("put b", "put b, put a"), (12,)), "MISSING"
    ),
    "a put that expires does not mark": Mutant(
        Rules(facts=no_own_marks(IndexedRowPlanner)), in_i(MORTAL, (11, 12), expire=True, **ABSENT)
    ),
    "marks expire": Mutant(Rules(facts=expiring_marks(IndexedRowPlanner)), in_i(MORTAL, (11, 12), expire=True)),
    "entries that expire are verified": Mutant(
        Rules(facts=expiring_verified(IndexedRowPlanner)), in_i(MORTAL, (12,), expire=True)
    ),
    "repair without the grace time, versioned": Mutant(
        Rules(repair=Around(grace="never")), in_v(("put b",), (12,), others=repairers), "MISSING"
    ),
    **both(
        "verified by repair without the grace time",
        Rules(repair=Around(grace="never")),
        in_v(("extra",), (12,), others=reverifiers),
        in_i(("delete",), others=reverifiers),
    ),
    "verified by repair without reading again": Mutant(
        Rules(repair=Around(reread=False)), in_v(("extra",), (12,), others=reverifiers)
    ),
    **both(
        "outdated entries are put again without the grace time",
        Rules(repair=Around(grace="never")),
        in_v(("extra",), (12,), others=updaters),
        in_i(("delete",), others=updaters),
    ),
    "outdated entries are put again without reading again": Mutant(
        Rules(repair=Around(reread=False)), in_v(("extra",), (12,), others=updaters)
    ),
    "repair deletes at now": Mutant(REPAIRS_NOW, in_i(INSERTS, (5, 12), others=repairers), "HIDDEN"),
    **both(
        "lost entries are put verified",
        Rules(indexer=BuiltNow),
        in_v(("put b", "extra"), others=builders),
        in_i(PUTS, others=builders),
    ),
    "entries of rows that expire are built without a TTL": Mutant(
        Rules(indexer=EntriesForEver), in_i(("expiring", "put"), others=builders, expire=True), "OUTLIVES"
    ),
    **both(
        "verified beside a program that does not keep the index",
        Rules(maintained_by_all=True),
        lambda rules: unkept("V", rules),
        lambda rules: unkept("I", rules),
    ),
}
