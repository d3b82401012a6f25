"""The processes that the model checker runs: each drives the shipped generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from attrs import evolve, frozen

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder, Values
from hbmodel.mapping.schema import LIVE, Index, TableSchema
from hbmodel.protocol.indexed.entry_verifier import EntryScope, EntryVerifier
from hbmodel.protocol.indexed.index_build import RowIndexer, index_rows
from hbmodel.protocol.indexed.index_repair import marker_of, purge_markers, repair_entries
from hbmodel.protocol.indexed.index_verify import Entry
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed.indexed_write import insert_indexed, write_indexed_batch
from hbmodel.protocol.operations import CheckAndMutate, DeleteRows, GetRows, Protocol, PutRows, ReadClock
from hbmodel.protocol.writes import DeleteRow, PutObject, RowWrite, UpdateFields, put_object
from hbmodel.store import Delete
from hbmodel.store.ranges import KeyRange
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import (
    BOUND,
    Sends,
    SetClock,
    Step,
    Steps,
    Store,
    Told,
    _changes,
    alone,
    found_row,
)
from tests.checker.protocol_folded import Tombstones, as_they_are, gathered, purge_steps, translation


@frozen
class Insert:
    """`Session.insert` of an object."""

    write: PutObject


@frozen
class Increment:
    """`Session.increment` by an amount that names the write, at the server's time."""

    row: bytes
    server: int = 11


Action = RowWrite | Insert | Increment | tuple[RowWrite, ...]


@frozen
class Rules:
    """The code under test: the shipped one, or a mutant of it.

    Attributes:
        writer: plans mutations.
        around: changes what a protocol of writes does.
        verifier: decides what readers return.
        clock: of the writers.
        partial_reads: columns that a partial update reads, or None for every family.
        grace: how the repairer waits for it: `wait` also for every writer under way whose time is not later (they stop
            after half of it), `clock` by its clock alone, `never`.
        reread: whether the repairer reads the row again before it deletes.
        repair_at: time at which it deletes an entry, from the entry's own.
        spare: whether it leaves the entries of rows that expire alone.
        tombstones: of the objects that share a row: what becomes of a delete, which the folded view has made, before it
            is sent.
        indexer: makes the entries of builds.
        built: whether a query of an index waits for its build.
        checks: whether a purge deletes under the condition that the marker is there still.
    """

    writer: type[IndexedRowPlanner] = IndexedRowPlanner
    around: Callable[[Protocol[Any]], Protocol[Any]] = lambda protocol: protocol
    verifier: type[EntryVerifier] = EntryVerifier
    clock: type[SetClock] = SetClock
    partial_reads: Callable[[IndexedRowPlanner, UpdateFields], Sequence[bytes]] | None = None
    grace: Literal["wait", "clock", "never"] = "wait"
    reread: bool = True
    repair_at: Callable[[int], int] = lambda timestamp: timestamp
    spare: bool = True
    tombstones: Tombstones = as_they_are
    indexer: type[RowIndexer] = RowIndexer
    built: bool = True
    checks: bool = False


SHIPPED = Rules()


def kind_of(write: RowWrite | Insert) -> str:
    """How the invariants call it."""
    return {PutObject: "full", Insert: "insert", UpdateFields: "partial", DeleteRow: "delete"}[type(write)]


@once
def writer(
    schema: TableSchema,
    process: int,
    actions: Sequence[Action],
    reading: int,
    rules: Rules = SHIPPED,
    *,
    atomic: bool = True,
    slow: int = 0,
    repeat: int | None = None,
    again: int | None = None,
    paused: bool = False,
    joint: bool = False,
) -> Callable[[], Steps]:
    """A process that carries out actions one after the other.

    Args:
        schema: of the model.
        process: its number, from 1; its writes are numbered from ten times that.
        actions: a tuple is one round of several writes.
        reading: of its clock.
        rules: the code under test.
        atomic: whether the store mutates rows atomically.
        slow: how many attempts take too long to be acknowledged.
        repeat: which mutating step is carried out twice in a row, because its answer was lost.
        again: which one is delivered once more at any time after the last.
        paused: whether the process may stand still for longer than the grace time.
        joint: whether what it writes into a row that objects share is written at once.
    """

    def run() -> Steps:
        nonces = iter(range(1, 100))
        planner = rules.writer(
            schema, tuple(schema.indexes.values()), BOUND, lambda: bytes((process, next(nonces))) + bytes(6)
        )
        clock = rules.clock(reading, slow)
        number = 10 * process
        sent: list[Step] = Sends(again)
        for action in actions:
            if number > 10 * process:
                yield ("issue", clock.now())
            writes: Sequence[Any] = action if isinstance(action, tuple) else (action,)
            numbers = range(number, number + len(writes))
            number += len(writes)
            if isinstance(action, Increment):
                yield from _incremented(schema, action, numbers[0])
                continue
            if isinstance(action, Insert):
                writes = [action.write]
                protocol: Protocol[Any] = insert_indexed(planner, action.write)
            else:
                together = frozenset(write.row for write in writes) if joint else frozenset()
                protocol = write_indexed_batch(planner, writes, atomic, together=together)
                protocol = gathered(protocol, schema.table) if joint else protocol
            if rules.partial_reads is not None:
                protocol = _reading_less(protocol, planner, writes, rules.partial_reads)
            kinds = {
                write.row: (n, kind_of(action if isinstance(action, Insert) else write))
                for n, write in zip(numbers, writes, strict=True)
            }
            of = translation(schema, clock, kinds, numbers, sent, repeat, paused, tombstones=rules.tombstones)
            yield from of.steps(rules.around(protocol))
        if again is not None and again < len(sent):
            yield sent[again]

    return run


def _incremented(schema: TableSchema, action: Increment, number: int) -> Steps:
    reader = RowDecoder(schema, indexed=True, names=frozenset())
    (counter,) = (f.column for f in schema.columns if f.kind == "counter")
    _, cells = yield Told(("begin", schema.table, action.row, tuple(reader.columns), number, "increment"))
    found = found_row(action.row, cells)
    if found is not None and reader.exists(found):
        yield Told(("inc", schema.table, action.row, counter, amount_of(number), number, action.server))
        yield ("acknowledge", frozenset((number,)))


def amount_of(number: int) -> int:
    """The amount of an increment: one bit for each write, so that a counter shows which increments it includes."""
    return 1 << number


def _reading_less(
    protocol: Protocol[Any], planner: IndexedRowPlanner, writes: Sequence[RowWrite], columns: Any
) -> Protocol[Any]:
    """The protocol, but rows of partial updates are read in just these columns."""
    asked = {write.row: columns(planner, write) for write in writes if isinstance(write, UpdateFields)}
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(operation, GetRows):
            answer = []
            for row in operation.rows:
                answer += yield GetRows(operation.table, [row], asked.get(row, operation.columns))
        else:
            answer = yield operation


@once
def reader(
    schema: TableSchema,
    index: Index,
    low: bytes,
    high: bytes,
    accepts: Callable[[Values], bool],
    page: int = 9,
    rules: Rules = SHIPPED,
) -> Callable[[], Steps]:
    """A query through an index: pages of entries, each verified by one multi-get, as in `PlanExecutor`."""
    rows, keys = RowDecoder(schema, indexed=True, names=frozenset(f.name for f in schema.columns)), KeyMapper(schema)

    def run() -> Steps:
        verifier = rules.verifier(schema, index, rows, accepts, EntryScope([KeyRange(low, high)]))
        after: bytes | None = None
        got: list[Any] = []
        # what the first step of the scan tells the checker
        watch: tuple[Any, ...] = (lambda found: accepts(dict(found[1])),)
        ended = False
        while not ended:
            entries: list[bytes] = []
            while len(entries) < page and not ended:
                found = yield ("scan", index.table, after, low, high, *watch)
                watch = ()
                ended = found is None
                if found is not None:
                    after = found[0]
                    entries.append(found[0])
            homes = [keys.row_of_entry(index, entry)[0] for entry in entries]
            yield from translation(schema, SetClock(0), {}, ()).steps(_kept(verifier.verify(entries), got, homes))
        yield ("end", tuple(got))

    return run


def _kept(protocol: Protocol[list[Values | None]], got: list[Any], rows: Sequence[bytes]) -> Protocol[None]:
    for row, values in zip(rows, (yield from protocol), strict=True):
        if values is not None:
            got.append((row, tuple(sorted(values.items()))))


def _aged(rules: Rules, times: Sequence[int]) -> Steps:
    if rules.grace == "wait":
        yield ("grace", max(times))
    elif rules.grace == "clock":
        yield ("old", max(times))


LATEST = 10**9
"""A reading of the clock at which everything is older than the grace time."""


def _repairing(
    schema: TableSchema, protocol: Protocol[Any], rules: Rules, timestamp: int, seen: Sequence[Any] = ()
) -> Steps:
    """A protocol of repair, as steps: the reading of the clock waits for the grace time of what was read until then.

    Rows that were `seen` before it began are what it goes by if it does not read again.
    """
    times, first = [timestamp], True
    kept: list[Any] = [*seen]
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration:
            return
        if isinstance(operation, ReadClock):
            yield from _aged(rules, times)
            answer, first = LATEST, False
        elif isinstance(operation, GetRows):
            if first or rules.reread:
                kept = []
                for row in operation.rows:
                    cells = yield Told(("read", operation.table, row, tuple(operation.columns)))
                    times += [cell[1] for cell in cells if cell[0].rpartition(b":")[2] in {b"_v", b"_l"}]
                    if not rules.spare:  # it does not see which rows expire
                        cells = tuple(
                            (c, t, value[:1] if c == schema.liveness_column and value[:1] == LIVE else value)
                            for c, t, value in cells
                        )
                    kept.append(found_row(row, cells))
            answer = kept
        elif isinstance(operation, CheckAndMutate):
            (delete,) = operation.mutations
            assert isinstance(delete, Delete)
            assert delete.timestamp is not None
            aged, at = timestamp if rules.grace == "wait" else -1, rules.repair_at(delete.timestamp)
            if schema.wide_rows is not None:
                yield from purge_steps(
                    schema, evolve(delete, timestamp=at), aged, (operation.column, operation.expected)
                )
                answer = None  # what comes of it is of no interest to a purge
                continue
            checked = (operation.table, operation.row, operation.column, operation.expected)
            answer = yield Told(("checked_repair", *checked, at, aged))
        elif isinstance(operation, PutRows):
            for put in operation.puts:
                yield ("issue", put.timestamp)  # it may arrive late, like a writer's
                yield Told(("write", operation.table, put.row, _changes([put], None), None))
            yield ("issue", LATEST)
            answer = None
        else:
            assert isinstance(operation, DeleteRows)
            for delete in operation.deletes:
                assert delete.timestamp is not None
                aged = timestamp if rules.grace == "wait" else -1
                at = rules.repair_at(delete.timestamp)
                if schema.wide_rows is not None and operation.table == schema.table:
                    yield from purge_steps(schema, evolve(delete, timestamp=at), aged)
                else:
                    yield Told(("repair", operation.table, delete.row, at, aged))
            answer = None


@once
def repairer(
    schema: TableSchema, index: Index, rules: Rules = SHIPPED, *, purge: bytes | None = None, entries: bool = True
) -> Callable[[], Steps]:
    """Rule 6: mismatched entries go at their own time once they and their row are older than the grace time.

    Args:
        schema: of the model.
        index: whose entries are looked at.
        rules: the code under test.
        purge: a row whose dead marker is then purged (rule 4), or None.
        entries: whether entries are repaired.
    """
    indexer = RowIndexer(schema, (index,))

    def run() -> Steps:
        after: bytes | None = None
        seen: list[tuple[bytes, int]] = []
        while entries:
            found = yield ("scan", index.table, after, b"", b"\xff" * 9)
            if found is None:
                break
            seen.append(found)
            after = found[0]
        for entry, timestamp in seen:
            yield from _repairing(
                schema, repair_entries(indexer, index, [Entry(entry, timestamp)], 0), rules, timestamp
            )
        if purge is None:
            return
        cells = yield Told(("read", schema.table, purge, (schema.liveness_column,)))
        row = found_row(purge, cells)
        if row is not None and (marker := marker_of(schema, row)) is not None:  # type: ignore[arg-type]
            yield from _repairing(
                schema, purge_markers(schema, [row], 0, checks=rules.checks), rules, marker.timestamp, [row]
            )  # type: ignore[list-item]

    return run


@once
def builder(
    schema: TableSchema,
    index: Index,
    rows: Sequence[bytes],
    indexer: type[RowIndexer] = RowIndexer,
    again: int | None = None,
) -> Callable[[], Steps]:
    """A build of one index, row by row.

    Args:
        schema: of the model.
        index: whose entries are put.
        rows: to go through.
        indexer: the code under test.
        again: the reading of the clock of a repair that puts entries once more, or None.
    """
    making = indexer(schema, (index,))

    def run() -> Steps:
        for row in rows:
            cells = yield Told(("read", schema.table, row, tuple(making.columns)))
            found = found_row(row, cells)
            if found is not None:
                protocol = index_rows(making, [found], again or 0, again is not None)  # type: ignore[list-item]
                yield from translation(schema, SetClock(again or 0), {}, ()).steps(protocol)

    return run


# --- models of the tests ----------------------------------------------------------------------------------------------


@hb.model(table="things", family="d")
class Thing:
    """One index over one column, with a covered column; two columns and a counter outside."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    extra: hb.Column[str | None] = hb.column("e", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)
    views: hb.Column[int] = hb.counter("v")

    by_tag = hb.index("tag", covers=("extra",))


@hb.model(table="places", family="d")
class Place:
    """Two indexes, one of them over two columns that change independently."""

    name: hb.Key[str] = hb.key()
    city: hb.Column[str] = hb.column("c")
    street: hb.Column[str] = hb.column("s")
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_place = hb.index("city", "street")
    by_street = hb.index("street")


THING, PLACE = hb.schema.schema_of(Thing), hb.schema.schema_of(Place)


def put(obj: Any) -> PutObject:
    """A full write."""
    return put_object(hb.schema.schema_of(type(obj)), obj)


def change(model: type[Any], name: str, **changes: Any) -> UpdateFields:
    """A partial update."""
    return UpdateFields(None, hb.row_key(model, name=name), {"name": name}, changes)


def gone(model: type[Any], name: str) -> DeleteRow:
    """A delete."""
    return DeleteRow(None, hb.row_key(model, name=name))


def prepared(schema: TableSchema, *rounds: tuple[int, Action]) -> Store:
    """A store in which these actions were carried out, each at its clock's reading; they count as write 0."""
    store: Store = {}
    for reading, action in rounds:
        alone(writer(schema, 0, [action], reading)(), store)
    tables = {schema.table, *(i.table for i in schema.indexes.values())}
    return {key: value for key, value in store.items() if key[0] in tables or isinstance(key[0], tuple)}
