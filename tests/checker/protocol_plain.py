"""Index entries of rows without system cells in the model checker: writers, others who know of no index, a repairer
and a builder.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

import hbmodel as hb
from hbmodel.errors import RowExists, UnknownOutcome
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.indexed.entries_first import with_entries_first
from hbmodel.protocol.indexed.index_build import RowIndexer, index_rows
from hbmodel.protocol.indexed.index_repair import repair_entries
from hbmodel.protocol.indexed.index_verify import Entry
from hbmodel.protocol.operations import (
    Acknowledge,
    AskIfAhead,
    CheckAndMutate,
    CheckLease,
    DeleteRows,
    GetRows,
    LetClockTick,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    ReadClock,
    Together,
)
from hbmodel.protocol.server_timed.unindexed_insert import insert_unindexed
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.server_timed.unindexed_write import write_unindexed_batch
from hbmodel.protocol.writes import DeleteRow, RowWrite, put_object
from hbmodel.store import Capabilities, Delete, Put
from tests.checker.protocol_adapter import Step, Steps, StoredCell, StoredRow, Told, mc
from tests.checker.protocol_unindexed import ATOMIC
from tests.checker.search import Model


@hb.model(table="taken", family="d", external=True, immutable=True)
class Taken:
    """A row whose tag is indexed; all programs put the same values."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)

    by_tag = hb.index("tag")


SCHEMA: TableSchema = hb.schema.schema_of(Taken)
INDEX: Index = SCHEMA.indexes["by_tag"]
WRITE = put_object(SCHEMA, Taken(name="k", tag=1))
(ENTRY,) = WRITE.entries["by_tag"]
ROW = WRITE.row

SERVER, REPAIRED, WHOSE = ("server", 0), ("repaired", 0), ("whose", 0)
"""The server's clock, the latest time that a repairer took to be older than the grace time, and who put the row
last; None: others.
"""

Behind = Callable[[TableSchema, Sequence[Index], Sequence[RowWrite], Protocol[Any]], Protocol[Any]]


@frozen
class Rules:
    """The code under test.

    Attributes:
        behind: puts entries around a protocol.
        waits: whether the repairer waits for the writers that chose their time before.
        by_clock: whether writers may stand still for longer than the grace time; the repairer then goes by its clock
            alone.
    """

    behind: Behind = with_entries_first
    waits: bool = True
    by_clock: bool = False


SHIPPED = Rules()


def _shown(store: Any, table: str, row: bytes, columns: Sequence[bytes]) -> Told:
    families = {column for column in columns if b":" not in column}
    cells = (
        (c, ts, v)
        for c, ts, v in mc.vis(store, table, row)
        if not columns or c in columns or c.partition(b":")[0] in families
    )
    return Told(cells)


def _apply(store: Any, table: str, mutations: Sequence[Put | Delete], who: int | None) -> None:
    store[SERVER] += 1  # no two calls share a millisecond: the other tests of such rows have them do so
    for mutation in mutations:
        at = store[SERVER] if mutation.timestamp is None else mutation.timestamp
        if isinstance(mutation, Put):
            mc._put(store, table, mutation.row, tuple(sorted(mutation.cells.items())), at)
            if table == SCHEMA.table:
                store[WHOSE] = who
        elif mutation.columns:
            for column in mutation.columns:
                mc._delcol(store, table, mutation.row, column, at)
        else:
            mc._delrow(store, table, mutation.row, at)


def _call(store: Any, step: Step) -> Any:
    _, who, operation = step
    match operation:
        case ReadClock():
            return store[REPAIRED]
        case GetRows(table, (row,), columns):
            return _shown(store, table, row, columns)
        case PutRows(table, mutations) | DeleteRows(table, mutations) | MutateRow(table, mutations):
            _apply(store, table, mutations, who)
        case Together((part,)):
            return _call(store, ("plain", who, part))
        case CheckAndMutate(table, row, column, expected, mutations):
            held = {c: v for c, _, v in mc.vis(store, table, row)}.get(column)
            if (held or None) != expected:
                return False
            _apply(store, table, mutations, who)
            return True
    return None


def _aged(store: Any, step: Step) -> None:
    store[REPAIRED] = max(store[REPAIRED], step[1])


def _compact(store: Any, step: Step) -> None:
    """A major compaction: tombstones are forgotten."""
    for table, row in ((SCHEMA.table, ROW), (INDEX.table, ENTRY)):
        kept = tuple((column, (mc.NEG, timestamp, value)) for column, timestamp, value in mc.vis(store, table, row))
        store.pop((table, row), None)
        if kept:
            store[(table, row)] = (mc.NEG, kept)


mc.OPS.update(plain=_call, plain_aged=_aged, plain_compact=_compact)


def compaction() -> Steps:
    """At any time, once."""
    yield ("plain_compact",)


def others(deletes: bool) -> Callable[[], Steps]:
    """A program that knows of no index."""
    change: Operation = (
        DeleteRows(SCHEMA.table, [Delete(ROW, families=(b"d",))])
        if deletes
        else PutRows(SCHEMA.table, [Put(ROW, WRITE.cells)])
    )

    def run() -> Steps:
        yield ("plain", None, change)

    return run


def writer(
    number: int, calls: Sequence[str], reading: int, rules: Rules, can: Capabilities = ATOMIC
) -> Callable[[], Steps]:
    """A process of this library with its own clock."""

    def run() -> Steps:
        for call in calls:
            yield from _driven(number, call, reading, rules, can)

    return run


def _driven(number: int, call: str, reading: int, rules: Rules, can: Capabilities) -> Steps:
    planner = UnindexedRowPlanner(SCHEMA)
    write: RowWrite = DeleteRow(None, ROW) if call == "delete" else WRITE
    if call == "insert":
        protocol: Protocol[Any] = insert_unindexed(planner, WRITE, SCHEMA.required_columns[0], 100)
    else:
        protocol = write_unindexed_batch(planner, [write], 100, can)
    protocol = rules.behind(SCHEMA, (INDEX,), [write], protocol)
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except (StopIteration, RowExists, UnknownOutcome):
            return
        answer = None
        if isinstance(operation, ReadClock):
            answer = max(reading, (yield ("plain", number, operation)) + 1)
            yield ("issue", answer)
        elif isinstance(operation, AskIfAhead):
            answer = None
        elif isinstance(operation, CheckLease):
            answer = not rules.by_clock or (yield ("plain", number, ReadClock())) < operation.since
        elif not isinstance(operation, Acknowledge | LetClockTick):
            answer = yield ("plain", number, operation)
            if isinstance(operation, GetRows):
                answer = [_row(operation.rows[0], answer)]


def _row(row: bytes, cells: Any) -> Any:
    return StoredRow(row, {c: StoredCell(v, t) for c, t, v in cells}) if cells else None


def repairer(rules: Rules) -> Callable[[], Steps]:
    """Repairs the only entry, if it exists."""
    indexer = RowIndexer(SCHEMA, (INDEX,), plain=True)

    def run() -> Steps:
        cells = yield ("plain", None, GetRows(INDEX.table, [ENTRY], ()))
        if not cells:
            return
        at = max(timestamp for _, timestamp, _ in cells)
        if rules.waits and not rules.by_clock:
            yield ("grace", at)
        yield ("plain_aged", at)
        yield from _alone(repair_entries(indexer, INDEX, [Entry(ENTRY, at)], 1), lambda: at + 2)

    return run


def builder() -> Callable[[], Steps]:
    """Puts the entry of the row, if it is there."""
    indexer = RowIndexer(SCHEMA, (INDEX,), plain=True)

    def run() -> Steps:
        cells = yield ("plain", None, GetRows(SCHEMA.table, [ROW], tuple(indexer.columns)))
        if cells:
            yield from _alone(index_rows(indexer, [_row(ROW, cells)], 0), lambda: 0)

    return run


def _alone(protocol: Protocol[Any], now: Callable[[], int]) -> Steps:
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration:
            return
        if isinstance(operation, ReadClock):
            answer = now()
        elif isinstance(operation, CheckLease):
            answer = True
        else:
            answer = yield ("plain", None, operation)
            if isinstance(operation, GetRows):
                answer = [_row(operation.rows[0], answer)]


class PlainModel(Model):
    """The invariant: a row that this library put has its entry, always or once everything has stopped."""

    def __init__(self, store: Any, processes: Sequence[tuple[str, Callable[[], Steps], int]], always: bool) -> None:
        super().__init__(store, processes, crashes=1 if always else 0)
        self._always = always

    def broken(self, store: Any) -> str | None:
        """A row without its entry."""
        return missing(store) if self._always else None

    def terminal(self, store: Any) -> str | None:
        """The same in the end."""
        return missing(store)

    def over(self, store: Any, process: int) -> bool:
        """Nothing in the store says whether a process has died."""
        return True


def missing(store: Any) -> str | None:
    """The error if a row that this library put has no entry."""
    if store[WHOSE] is None or not mc.vis(store, SCHEMA.table, ROW) or mc.vis(store, INDEX.table, ENTRY):
        return None
    return f"MISSING: the row put by {store[WHOSE]} has no entry"


BEGINNINGS: Mapping[str, Sequence[tuple[str, int]]] = {
    "absent": (), "own": (("add", 1),), "deleted": (("add", 1), ("delete", 2)), "others'": (("others", 1),),
}  # fmt: skip
"""What was done before, and when by the writer's clock."""


def beginning(name: str) -> dict[Any, Any]:
    """The store in which the processes begin."""
    store: dict[Any, Any] = {SERVER: 10, REPAIRED: -1, WHOSE: None}
    for call, reading in BEGINNINGS[name]:
        steps = others(False)() if call == "others" else writer(0, [call], reading, SHIPPED)()
        answer: Any = None
        try:
            while True:
                step = steps.send(answer)
                answer = None if step[0] == "issue" else mc.apply_op(store, step, 0)
        except StopIteration:
            continue
    return store


PROGRAMS: Sequence[Sequence[str]] = (("add",), ("delete",), ("delete", "add"), ("insert",))
CLOCKS = (5, 12, 40)
"""Behind the server's clock, by it, and ahead."""

CREWS: Sequence[Sequence[str]] = (
    ("repairer", "compaction"),
    ("repairer", "puts"),
    ("repairer", "builder"),
    ("builder", "deletes"),
)
"""What is at work besides two writers."""


def models(
    rules: Rules = SHIPPED,
    programs: Sequence[Sequence[str]] = PROGRAMS,
    clocks: Sequence[int] = CLOCKS,
    crews: Sequence[Sequence[str]] = CREWS,
) -> Iterator[tuple[str, PlainModel]]:
    """Two writers of a row over every beginning, and a crew."""
    others_: Mapping[str, Callable[[], Steps]] = {
        "repairer": repairer(rules),
        "builder": builder(),
        "compaction": compaction,
        "puts": others(False),
        "deletes": others(True),
    }
    each = list(itertools.product(programs, clocks))
    for begin, two, crew in itertools.product(BEGINNINGS, itertools.combinations_with_replacement(each, 2), crews):
        running: list[Any] = [
            (f"W{n}", writer(n, calls, clock, rules), clock) for n, (calls, clock) in enumerate(two, 1)
        ]
        running += [(name, others_[name], 0) for name in crew]
        # One that stands still for longer than the grace time has its entry put once more before it is acknowledged.
        yield f"{begin}, {two}, {crew}", PlainModel(beginning(begin), running, not rules.by_clock)
