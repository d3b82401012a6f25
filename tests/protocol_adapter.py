"""Puts the shipped protocol generators into the explicit-state model checker: operations become checker steps, cells become rows.

The checker (`../shared/protocol/mc.py` beside the checkout) holds a small HBase: per row and column the newest cell that no
tombstone masks. Here tables, rows, columns and values are the real bytes. A cell of a primary row also says which write put it,
which no generator ever sees: the invariants need it. Calls of several rows land in any order and, after a crash, in any subset.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from attrs import define, evolve, field, frozen

import hbmodel as hb
from hbmodel.errors import HbmodelError
from hbmodel.mapper import KeyMapper, RowReader, Values
from hbmodel.mutations import DEAD, FullWrite, IndexedWriter, PartialWriteOf, RowDelete, RowWrite, full_write
from hbmodel.operations import Acknowledge, CheckAndMutate, DeleteRows, GetRows, MutateRow, Operation, Protocol, PutRows, Together
from hbmodel.protocol import EntryVerifier, insert_indexed, write_round
from hbmodel.schema import LIVE, Index, TableSchema
from hbmodel.store import Delete, Put

CHECKER = Path(__file__).parent.parent.parent / "shared" / "protocol" / "mc.py"


def load_checker() -> ModuleType:
    """The checker as a module; without it the tests are skipped, but fail where CI is set."""
    if not CHECKER.exists() and not os.environ.get("CI"):
        pytest.skip(f"the model checker is not there: {CHECKER}", allow_module_level=True)
    spec = importlib.util.spec_from_file_location("protocol_checker", CHECKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


mc: Any = load_checker()

BOUND = 1_000
BEGAN, ACKNOWLEDGED, BROKEN = "begun", ("acknowledged", 0), ("broken", 0)  # keys of the checker's store that are no rows
Store = dict[Any, Any]
Step = tuple[Any, ...]
Steps = Generator[Step, Any, None]


class Row(tuple[Any, ...]):
    """State of one row in the checker's store, (tombstone, columns): states are compared often, so its hash is kept."""

    def __hash__(self) -> int:
        found: int | None = self.__dict__.get("hash")
        if found is None:
            found = self.__dict__["hash"] = tuple.__hash__(self)
        return found


class Told(tuple[Any, ...]):
    """A step or an answer that prints short."""

    def __repr__(self) -> str:
        text: str | None = self.__dict__.get("text")
        if text is None:
            text = self.__dict__["text"] = "(" + ", ".join(_short(part) for part in self) + ")"
        return text


def _short(part: Any) -> str:
    return ascii(part).replace("\\x00", ".") if isinstance(part, bytes) else repr(part)


@frozen
class StoredCell:
    value: bytes
    timestamp: int


@frozen
class StoredRow:
    row: bytes
    columns: dict[bytes, StoredCell]


# --- what happens in the store ----------------------------------------------------------------------------------------
# A put of a primary row holds (value, number of the write) in its cells, one of an index just the value.


def visible(store: Store, table: str, row: bytes, columns: Sequence[bytes] = ()) -> tuple[tuple[bytes, int, bytes], ...]:
    """What a get of these columns or families answers: (column, timestamp, value)."""
    cells = mc.vis(store, table, row)
    families = {column for column in columns if b":" not in column}
    return tuple(
        (column, timestamp, value[0] if isinstance(value, tuple) else value)
        for column, timestamp, value in cells
        if not columns or column in columns or column.partition(b":")[0] in families
    )


def _read(store: Store, step: Step) -> Told:
    _, table, row, columns = step
    return Told(visible(store, table, row, columns))


def _begin(store: Store, step: Step) -> Told:
    """The read that a write starts with, and which writes were over by then; those of crashed writers are added later."""
    _, table, row, columns, write, kind = step
    over = store.get(ACKNOWLEDGED, frozenset((0,)))
    alive = any(column.endswith(b":_l") and value == LIVE for column, _, value in visible(store, table, row))
    store[(BEGAN, write)] = Began(row, kind, mc.NEG, (), not alive, over, True)
    return Told(visible(store, table, row, columns))


def _write(store: Store, step: Step) -> None:
    """One atomic call on one row."""
    _, table, row, changes, write = step
    for change in changes:
        if change[0] == "put":
            mc._put(store, table, row, change[1], change[2])
            if write is not None and (BEGAN, write) in store:
                columns = tuple(column for column, _ in change[1])
                store[(BEGAN, write)] = evolve(store[(BEGAN, write)], timestamp=change[2], columns=columns)
        elif change[0] == "row":
            mc._delrow(store, table, row, change[1])
        else:
            for column in change[1]:
                mc._delcol(store, table, row, column, change[2])
    if (table, row) in store:
        store[(table, row)] = Row(store[(table, row)])


def _check(store: Store, step: Step) -> bool:
    """A check-and-mutate, as an insert uses it: nobody's row is overwritten, and the row is there after it."""
    _, table, row, column, expected, changes, write = step
    before = {c: value for c, _, value in visible(store, table, row)}
    if (before.get(column) or None) != expected:
        return False
    _write(store, ("write", table, row, changes, write))
    after = {c: (timestamp, value) for c, timestamp, value in visible(store, table, row)}
    ((_, cells, timestamp),) = changes
    if before.get(column) == LIVE:
        store[BROKEN] = f"TWICE: insert {write} succeeds over a live row"
    elif after.get(column) != (timestamp, LIVE) or any(after.get(c, (mc.NEG,))[0] < timestamp for c, _ in cells):
        store[BROKEN] = f"HIDDEN: insert {write}@{timestamp} succeeds, and the row is {after}"
    return True


def _increment(store: Store, step: Step) -> None:
    """HBase's increment: atomic, at the server's time or that of the cell if it is later."""
    _, table, row, column, amount, write, server = step
    found = {c: (timestamp, value) for c, timestamp, value in mc.vis(store, table, row)}.get(column)
    timestamp, (value, putter) = found if found is not None else (mc.NEG, (bytes(8), write))
    if len(value) != 8:
        store[BROKEN] = f"INCREMENT of {value!r}"
        return
    total = (int.from_bytes(value, "big") + amount).to_bytes(8, "big")
    _write(store, ("write", table, row, (("put", ((column, (total, putter)),), max(server, timestamp)),), None))


mc.OPS.update(read=_read, begin=_begin, write=_write, check=_check, inc=_increment)


@frozen(cache_hash=True)
class Began:
    """What is known of a write that has begun.

    Attributes:
        row: that it writes.
        kind: `full`, `partial`, `delete` or `increment`.
        timestamp: of its put, or -1 before it.
        columns: of its put.
        revives: whether the row was dead or absent when it was read.
        over: the writes that were over by then.
        new: whether those of crashed writers are still to be added.
    """

    row: bytes
    kind: str
    timestamp: int
    columns: tuple[bytes, ...]
    revives: bool
    over: frozenset[int]
    new: bool


# --- from operations to steps -----------------------------------------------------------------------------------------


def found_row(row: bytes, cells: Sequence[tuple[bytes, int, bytes]]) -> StoredRow | None:
    """What the store port answers for these cells."""
    return StoredRow(row, {column: StoredCell(value, timestamp) for column, timestamp, value in cells}) if cells else None


def _changes(mutations: Iterable[Put | Delete], write: int | None) -> tuple[Any, ...]:
    changes: list[Any] = []
    for mutation in mutations:
        assert mutation.timestamp is not None, "every cell of an indexed row is written with its time (rule 1)"
        if isinstance(mutation, Put):
            cells = sorted(mutation.cells.items())
            changes.append(("put", tuple((c, v if write is None else (v, write)) for c, v in cells), mutation.timestamp))
        elif mutation.columns:
            changes.append(("columns", tuple(mutation.columns), mutation.timestamp))
        else:
            changes.append(("row", mutation.timestamp))
    return tuple(Told(change) for change in changes)


def _writes(operation: Operation) -> Iterator[tuple[str, bytes, Sequence[Put | Delete]]]:
    match operation:
        case PutRows(table, mutations) | DeleteRows(table, mutations):
            yield from ((table, mutation.row, [mutation]) for mutation in mutations)
        case MutateRow(table, mutations):
            yield table, mutations[0].row, mutations
        case CheckAndMutate(table, row, _, _, mutations):
            yield table, row, mutations
        case Together(operations):
            for part in operations:
                yield from _writes(part)


@define
class Translation:
    """One protocol of one process, as steps of the checker.

    Attributes:
        table: the primary table.
        kinds: number and kind of the write of each row.
        order: numbers of the writes, by position in the round.
        sent: the mutating steps so far.
        repeat: which of them gets no answer and is therefore carried out twice in a row, or None.
    """

    table: str
    kinds: dict[bytes, tuple[int, str]]
    order: Sequence[int]
    sent: list[Step] = field(factory=list)
    repeat: int | None = None

    def steps(self, protocol: Protocol[Any]) -> Steps:
        """Drives the protocol to its end."""
        answer: Any = None
        earliest: int | None = None
        checked = False  # a read just after a check-and-mutate looks for the own nonce; any other begins an attempt
        while True:
            try:
                operation = protocol.send(answer)
            except (StopIteration, HbmodelError):
                return
            answer = None
            if isinstance(operation, GetRows):
                earliest = earliest if checked else None
                answer = []
                for row in operation.rows:
                    answer.append(found_row(row, (yield self._get(operation, row, checked))))
                checked = False
                continue
            if isinstance(operation, Acknowledge):
                done = [n for n, outcome in zip(self.order, operation.outcomes, strict=True) if outcome.action in {"put", "deleted"}]
                yield ("acknowledge", frozenset(done))
                continue
            times = [m.timestamp for _, _, mutations in _writes(operation) for m in mutations if isinstance(m, Put)]
            if times and (earliest is None or min(times) < earliest):
                earliest = min(times)
                yield ("issue", earliest)
            step = self._step(operation)
            if len(self.sent) == self.repeat:
                yield step
            self.sent.append(step)
            answer = yield step
            checked = isinstance(operation, CheckAndMutate)

    def _get(self, operation: GetRows, row: bytes, checked: bool) -> Step:
        columns = tuple(operation.columns)
        if operation.table == self.table and row in self.kinds and not checked:
            return Told(("begin", operation.table, row, columns, *self.kinds[row]))
        return Told(("read", operation.table, row, columns))

    def _step(self, operation: Operation) -> Step:
        if isinstance(operation, CheckAndMutate):
            write = self.kinds[operation.row][0]
            changes = _changes(operation.mutations, write)
            return Told(("check", operation.table, operation.row, operation.column, operation.expected, changes, write))
        steps = []
        for table, row, mutations in _writes(operation):
            write_number = self.kinds[row][0] if table == self.table else None
            steps.append(Told(("write", table, row, _changes(mutations, write_number), write_number)))
        return steps[0] if len(steps) == 1 else Told(("par", tuple(steps)))


# --- processes --------------------------------------------------------------------------------------------------------


@define
class SetClock:
    """A clock that stands; after an attempt that took too long it has gone on.

    Attributes:
        reading: of `now`, in ms.
        slow: how many attempts take longer than half the grace time.
    """

    reading: int
    slow: int = 0

    def now(self) -> int:
        return self.reading

    def fresh(self, since: int) -> bool:
        self.slow -= 1
        if self.slow >= 0:
            self.reading += 8
        return self.slow < 0


@frozen
class Insert:
    """`Session.insert` of an object."""

    write: FullWrite


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
        partial_reads: columns that a partial update reads, or None for every family.
        grace: whether the repairer waits for it.
        reread: whether the repairer reads the row again before it deletes.
        repair_at: time at which it deletes an entry, from the entry's own.
    """

    writer: type[IndexedWriter] = IndexedWriter
    around: Callable[[Protocol[Any]], Protocol[Any]] = lambda protocol: protocol
    verifier: type[EntryVerifier] = EntryVerifier
    partial_reads: Callable[[IndexedWriter, PartialWriteOf], Sequence[bytes]] | None = None
    grace: bool = True
    reread: bool = True
    repair_at: Callable[[int], int] = lambda timestamp: timestamp


SHIPPED = Rules()


def kind_of(write: RowWrite | Increment) -> str:
    """How the invariants call it."""
    kinds = {FullWrite: "full", PartialWriteOf: "partial", RowDelete: "delete", Increment: "increment"}
    return kinds[type(write)]


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
    """

    def run() -> Steps:
        nonces = iter(range(1, 100))
        planner = rules.writer(schema, tuple(schema.indexes.values()), BOUND, lambda: bytes((process, next(nonces))) + bytes(6))
        clock = SetClock(reading, slow)
        number = 10 * process
        sent: list[Step] = []
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
                protocol: Protocol[Any] = insert_indexed(planner, action.write, clock)
            else:
                protocol = write_round(planner, writes, clock, atomic)
            if rules.partial_reads is not None:
                protocol = _reading_less(protocol, planner, writes, rules.partial_reads)
            kinds = {write.row: (n, kind_of(write)) for n, write in zip(numbers, writes, strict=True)}
            yield from Translation(schema.table, kinds, numbers, sent, repeat).steps(rules.around(protocol))
        if again is not None and again < len(sent):
            yield sent[again]

    return run


def _incremented(schema: TableSchema, action: Increment, number: int) -> Steps:
    reader = RowReader(schema, indexed=True, names=frozenset())
    (counter,) = (f.column for f in schema.columns if f.kind == "counter")
    found = found_row(action.row, (yield Told(("begin", schema.table, action.row, tuple(reader.columns), number, "increment"))))
    if found is not None and reader.exists(found):
        yield Told(("inc", schema.table, action.row, counter, amount_of(number), number, action.server))
        yield ("acknowledge", frozenset((number,)))


def amount_of(number: int) -> int:
    """What an increment adds: one bit for each write, so that a counter says which it has seen."""
    return 1 << number


def _reading_less(protocol: Protocol[Any], planner: IndexedWriter, writes: Sequence[RowWrite], columns: Any) -> Protocol[Any]:
    """The protocol, but rows of partial updates are read in just these columns."""
    asked = {write.row: columns(planner, write) for write in writes if isinstance(write, PartialWriteOf)}
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


def reader(
    schema: TableSchema,
    index: Index,
    low: bytes,
    high: bytes,
    accepts: Callable[[Values], bool],
    page: int = 9,
    rules: Rules = SHIPPED,
) -> Callable[[], Steps]:
    """A query through an index: pages of entries, each verified by one multi-get, as in `PlanReader`."""
    rows = RowReader(schema, indexed=True, names=frozenset(f.name for f in schema.columns))

    def run() -> Steps:
        verifier = rules.verifier(schema, index, rows, accepts)
        after: bytes | None = None
        got: list[Any] = []
        ended = first = False
        while not ended:
            entries: list[bytes] = []
            while len(entries) < page and not ended:
                found = yield ("scan", index.table, after, low, high, *((_matches(accepts),) if not first else ()))
                first = True
                ended = found is None
                if found is not None:
                    after = found[0]
                    entries.append(found[0])
            candidates = {row: entry for entry in entries for row in verifier_rows(schema, index, entry)}
            steps = Translation(schema.table, {}, ()).steps(_kept(verifier.verify(entries), got, list(candidates)))
            yield from steps
        yield ("end", tuple(got))

    return run


def verifier_rows(schema: TableSchema, index: Index, entry: bytes) -> list[bytes]:
    """The primary rows that an entry may stand for."""
    return KeyMapper(schema).row_of_entry(index, entry)


def _matches(accepts: Callable[[Values], bool]) -> Callable[[Any], bool]:
    return lambda found: accepts(dict(found[1]))


def _kept(protocol: Protocol[list[Values | None]], got: list[Any], rows: Sequence[bytes]) -> Protocol[None]:
    for row, values in zip(rows, (yield from protocol), strict=True):
        if values is not None:
            got.append((row, tuple(sorted(values.items()))))


def dead_marker(cells: Sequence[tuple[bytes, int, bytes]], schema: TableSchema) -> tuple[bytes, int, bytes] | None:
    """The liveness cell of a dead row."""
    return next((cell for cell in cells if cell[0] == schema.liveness_column and cell[2].startswith(DEAD)), None)


def repairer(schema: TableSchema, index: Index, rules: Rules = SHIPPED, *, purge: bytes | None = None, entries: bool = True) -> Callable[[], Steps]:
    """Rule 6, as in the models: mismatched entries go at their own time once they and their row are older than the grace time.

    Args:
        schema: of the model.
        index: whose entries are looked at.
        rules: the code under test.
        purge: a row whose dead marker is then purged (rule 4), or None.
        entries: whether entries are repaired.
    """
    keys, decoder = KeyMapper(schema), RowReader(schema, indexed=True, names=frozenset(index.fields))

    def current(row: bytes, cells: Sequence[tuple[bytes, int, bytes]]) -> bytes | None:
        found = found_row(row, cells)
        return None if found is None or not decoder.exists(found) else keys.entry(index, decoder.values(found), row)  # type: ignore[arg-type]

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
            (row,) = keys.row_of_entry(index, entry)
            get = Told(("read", schema.table, row, (*schema.family_names,)))
            cells = yield get
            if current(row, cells) == entry:
                continue
            if rules.grace:
                yield ("grace", max(timestamp, *(cell[1] for cell in cells if cell[0].rpartition(b":")[2] in {b"_v", b"_l"}), mc.NEG))
            if rules.reread and current(row, (yield get)) == entry:
                continue
            yield Told(("write", index.table, entry, (("row", rules.repair_at(timestamp)),), None))
        if purge is None:
            return
        get = Told(("read", schema.table, purge, (schema.liveness_column,)))
        marker = dead_marker((yield get), schema)
        if marker is None:
            return
        if rules.grace:
            yield ("grace", marker[1])
        if rules.reread and dead_marker((yield get), schema) != marker:
            return
        yield Told(("write", schema.table, purge, (("row", rules.repair_at(marker[1])),), None))

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
    """Two indexes, one of them over two columns that change apart."""

    name: hb.Key[str] = hb.key()
    city: hb.Column[str] = hb.column("c")
    street: hb.Column[str] = hb.column("s")
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_place = hb.index("city", "street")
    by_street = hb.index("street")


THING, PLACE = hb.schema_of(Thing), hb.schema_of(Place)


def put(obj: Any) -> FullWrite:
    """A full write."""
    return full_write(hb.schema_of(type(obj)), obj)


def change(model: type[Any], name: str, **changes: Any) -> PartialWriteOf:
    """A partial update."""
    return PartialWriteOf(None, hb.row_key(model, name=name), {"name": name}, changes)


def gone(model: type[Any], name: str) -> RowDelete:
    """A delete."""
    return RowDelete(None, hb.row_key(model, name=name))


def prepared(schema: TableSchema, *rounds: tuple[int, Action]) -> Store:
    """A store in which these actions were carried out, each at its clock's reading; they count as write 0."""
    store: Store = {}
    for reading, action in rounds:
        steps = writer(schema, 0, [action], reading)()
        answer = None
        try:
            while True:
                step = steps.send(answer)
                parts = step[1] if step[0] == "par" else (step,)
                answers = [mc.apply_op(store, part, 0) for part in parts if part[0] in {"read", "begin", "write", "check"}]
                answer = answers[0] if len(answers) == 1 else None
        except StopIteration:
            pass
    return {key: value for key, value in store.items() if key[0] in {schema.table, *(i.table for i in schema.indexes.values())}}
