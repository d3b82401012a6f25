"""Puts the shipped protocol generators into the explicit-state model checker: operations become checker steps, cells
become rows.

The checker (`search.py`) holds a small HBase (`cells.py`): per row and column the newest cell that no tombstone masks.
Here tables, rows, columns and values are the real bytes. A cell of a primary row also records which write put it, which
the generators cannot see: the invariants need it. Calls of several rows land in any order and, after a crash, in any
subset.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from attrs import define, field, frozen
from msgspec import Struct
from msgspec.structs import replace

from hbmodel.errors import HbmodelError
from hbmodel.mapping.schema import LIVE
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutate,
    CheckAndMutateRows,
    CheckLease,
    DeleteRows,
    GetRows,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    ReadClock,
    Together,
)
from hbmodel.store import Delete, Put
from tests.checker import cells as mc

BOUND = 1_000
BEGAN, ACKNOWLEDGED, BROKEN, REPAIRED = "begun", ("acknowledged", 0), ("broken", 0), ("repaired", 0)
EXPIRED, AGED = ("expired", 0), ("aged", 0)
"""Keys of the checker's store that are no rows: each write that began (with its number), those acknowledged, a
violation seen by a step, the latest time that a repairer took to be older than the grace time, whether what has a TTL
of its own has expired, and the latest time whose cells have expired with a family's TTL."""

SERIAL, APPLIED = "serial", "applied"
"""Of versioned rows: what each must hold after the writes so far, one after the other; and how often each write was
applied.
"""

NO_ROWS = frozenset((BEGAN, ACKNOWLEDGED[0], BROKEN[0], REPAIRED[0], EXPIRED[0], AGED[0], SERIAL, APPLIED))
BENEATH = "beneath"
"""A row whose cells may expire is kept once more without them, in the table (BENEATH, table), as long as that
differs.
"""

END = 1_000
"""Puts that end by then do so when time passes; those that end later live for ever."""

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


class Began(Struct, frozen=True, cache_hash=True, gc=False):
    """The known facts about a write that has begun.

    Attributes:
        row: that it writes.
        kind: `full`, `insert`, `partial`, `delete` or `increment`.
        timestamp: of its put, or -1 before it.
        columns: of its put.
        revives: whether the row was dead or absent when it was read.
        over: the writes that were over by then.
        new: whether those of crashed writers are still to be added.
        expires: whether its put does.
        again: `revives` and `over` of a further attempt after one that wrote: they hold once that one writes too.
    """

    row: bytes
    kind: str
    timestamp: int
    columns: tuple[bytes, ...]
    revives: bool
    over: frozenset[int]
    new: bool = True
    expires: bool = False
    again: tuple[bool, frozenset[int]] | None = None

    def written(self, timestamp: int, columns: tuple[bytes, ...], expires: bool) -> Began:
        """The same once its put has landed."""
        revives, over = self.again or (self.revives, self.over)
        return replace(
            self, timestamp=timestamp, columns=columns, revives=revives, over=over, expires=expires, again=None
        )

    def completed(self, dead: frozenset[int]) -> Began:
        """The same with the writes of crashed writers, which are over too."""
        if self.again is not None:
            return replace(self, again=(self.again[0], self.again[1] | dead), new=False)
        return replace(self, over=self.over | dead, new=False)


# --- what happens in the store ----------------------------------------------------------------------------------------
# A put of a primary row holds (value, number of the write) in its cells, one of an index just the value.


def visible(
    store: Store, table: str, row: bytes, columns: Sequence[bytes] = ()
) -> tuple[tuple[bytes, int, bytes], ...]:
    """The answer to a get of these columns or families: (column, timestamp, value)."""
    return _named(mc.vis(store, table, row), tuple(columns))


@lru_cache(100_000)
def _named(cells: tuple[Any, ...], columns: tuple[bytes, ...]) -> tuple[tuple[bytes, int, bytes], ...]:
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
    """The first read of a write, and the writes that were over at that time; writes of crashed writers are added later.

    Answers with the time of the latest repair or expiry too: that is so long ago that every clock has passed it.
    """
    _, table, row, columns, write, kind = step
    over = store.get(ACKNOWLEDGED, frozenset((0,)))
    alive = _is_live(visible(store, table, row))
    before = store.get((BEGAN, write))
    if before is None or before.timestamp == mc.NEG:
        store[(BEGAN, write)] = Began(row, kind, mc.NEG, (), not alive, over)
    else:
        store[(BEGAN, write)] = replace(before, again=(not alive, over), new=True)
    passed = max(store.get(key, mc.NEG) for key in (REPAIRED, EXPIRED, AGED))
    return Told((passed, Told(visible(store, table, row, columns))))


def _write(store: Store, step: Step) -> None:
    """One atomic call on one row."""
    _, table, row, changes, write = step
    record = store.get((BEGAN, write))
    if record is not None and record.kind == "insert":
        # Only the check-and-mutate of an insert may put its row; what comes later would undo what others did to it
        # since.
        whose = {value[1] for _, _, value in mc.vis(store, table, row)}
        if whose != {write}:
            store[BROKEN] = f"OVER: insert {write} puts its row again, over what writes {whose} left"
    _put(store, table, row, changes, write)


def _put(store: Store, table: str, row: bytes, changes: Sequence[Step], write: int | None) -> None:
    beneath = (BENEATH, table)
    for change in changes:
        expires = change[0] == "put" and change[3]
        if expires and (beneath, row) not in store:
            store[(beneath, row)] = store.get((table, row), NOTHING)
        if expires and EXPIRED in store:
            store[EXPIRED] = max(store[EXPIRED], change[2])
        else:
            _apply(store, table, row, change)
        if not expires and (beneath, row) in store:
            _apply(store, beneath, row, change)
        if change[0] == "put" and write is not None and (BEGAN, write) in store:
            store[(BEGAN, write)] = store[(BEGAN, write)].written(
                change[2], tuple(column for column, _ in change[1]), expires
            )
    _settle(store, table, row)


NOTHING = Row((mc.NEG, ()))


def _apply(store: Store, table: Any, row: bytes, change: Step) -> None:
    if change[0] == "put":
        mc._put(store, table, row, change[1], change[2])
    elif change[0] == "row":
        mc._delrow(store, table, row, change[1])
    else:
        for column in change[1]:
            mc._delcol(store, table, row, column, change[2])


def _settle(store: Store, table: Any, row: bytes) -> None:
    """One shared state for equal states."""
    for key in ((table, row), ((BENEATH, table), row)):
        if key in store:
            store[key] = Row(store[key])
    if store.get(((BENEATH, table), row)) == store.get((table, row), NOTHING):
        del store[((BENEATH, table), row)]


def _expire(store: Store, step: Step) -> None:
    """Every cell with a TTL ends, in all tables at once; those that come later have ended by then.

    Remembers their latest time: TTLs are longer than clocks may differ, so every clock has passed it.
    """
    latest = 0
    for key in [key for key in store if isinstance(key[0], tuple)]:
        left = store.pop(key)
        _, columns = store.pop((key[0][1], key[1]), NOTHING)
        latest = max(latest, *(timestamp for _, (_, timestamp, _) in columns))
        if left != NOTHING:
            store[(key[0][1], key[1])] = left
    store[EXPIRED] = latest


COUNTER = b"d:v"
"""The column of the one counter of the models."""

UNDECLARED = b"d:x"
"""A column that no model declares: an older version of one has put it."""


ENTRIES = b"d:l"
"""What the columns of the one map column of the models begin with."""


def _age(store: Store, step: Step) -> None:
    """Every cell of these rows up to a time has expired with its family's TTL, those too that come later."""
    _, rows, timestamp = step
    for table, row in rows:
        _put(store, table, row, [("row", timestamp)], None)
    store[AGED] = timestamp


def _repair(store: Store, step: Step) -> None:
    """A repairer's delete of a whole row or of columns, with the time that it has found to be older than the grace
    time before, or -1.
    """
    _, table, row, timestamp, aged, *columns = step
    before, excused = mc.vis(store, table, row), _too_late(store, timestamp)
    _put(store, table, row, [("columns", columns[0], timestamp) if columns else ("row", timestamp)], None)
    _old(store, ("old", aged))
    # A counter's older increments may go, and a column that the model does not declare: a delete that crashed between
    # its two calls, beside a full write that had read the row alive and so left these alone, has the purge end what the
    # delete began. Entries of maps may go that were put while their object was deleted, at its time, and were not there
    # yet when the next one was planned; and the cell that says that there were some, which a delete leaves where
    # objects share rows.
    kept, beside = mc.vis(store, table, row), _beside_delete(store, row, timestamp)
    gone = [
        cell
        for cell in before
        if cell not in kept and cell[0] not in {COUNTER, UNDECLARED, ENTRIES} and _writer(cell) not in excused
    ]
    gone = [cell for cell in gone if not cell[0].startswith(ENTRIES) or _writer(cell) not in beside]
    if gone and _is_live(_named(before, ())):
        store[BROKEN] = f"PURGED: cells of the live row {_named(before, ())}"


def _writer(cell: tuple[bytes, int, Any]) -> int | None:
    """The number of the write that put a cell of a primary row."""
    value = cell[2]
    return value[1] if isinstance(value, tuple) else None


def _beside_delete(store: Store, row: bytes, timestamp: int) -> frozenset[int]:
    """The writes of a row that were not over when the delete of that time began."""
    found = {key[1]: began for key, began in store.items() if key[0] == BEGAN and began.row == row}
    deletes = [began for began in found.values() if began.kind == "delete" and began.timestamp == timestamp]
    return frozenset(number for number in found if any(number not in began.over for began in deletes))


def _shared(store: Store, step: Step) -> None:
    """One atomic call on several objects that share a row of the table."""
    for part in step[1]:
        _write(store, part)


def _too_late(store: Store, timestamp: int) -> frozenset[int]:
    """The writes that are not acknowledged when a repair has waited longer than a write may take.

    Their writers have been paused during this time. What they have put with this time may go, since they must begin
    again before they acknowledge.
    """
    if timestamp > store.get(REPAIRED, mc.NEG):
        return frozenset()
    return frozenset(key[1] for key in store if key[0] == BEGAN) - store.get(ACKNOWLEDGED, frozenset())


def _checked_repair(store: Store, step: Step) -> bool:
    """The same if the row still holds a value in a column."""
    _, table, row, column, expected, timestamp, aged, *columns = step
    if {c: value for c, _, value in visible(store, table, row)}.get(column) != expected:
        return False
    _repair(store, ("repair", table, row, timestamp, aged, *columns))
    return True


def _is_live(cells: Sequence[tuple[bytes, int, bytes]]) -> bool:
    return any(column.endswith(b":_l") and value[:1] == LIVE for column, _, value in cells)


def _check(store: Store, step: Step) -> bool:
    """A check-and-mutate. As used by an insert, it overwrites no row, and the row exists afterwards."""
    _, table, row, column, expected, changes, write = step
    cells = visible(store, table, row)
    if ({c: value for c, _, value in cells}.get(column) or None) != expected:
        return False
    _put(store, table, row, changes, write)
    if store[(BEGAN, write)].kind != "insert":
        return True
    after = {c: (timestamp, value) for c, timestamp, value in visible(store, table, row)}
    ((_, put, timestamp, expires),) = [change for change in changes if change[0] == "put"]
    if _is_live(cells):
        store[BROKEN] = f"TWICE: insert {write} succeeds over a live row"
    elif timestamp <= store.get(AGED, mc.NEG) or (
        EXPIRED in store and (expires or _one_expired(store, store[(BEGAN, write)].over))
    ):
        pass  # it came too late, or a row that expires began and ended meanwhile, to which it has lost
    elif after.get(column) != (timestamp, dict(put).get(column, (LIVE,))[0]) or any(
        after.get(c, (mc.NEG,))[0] < timestamp for c, _ in put
    ):
        store[BROKEN] = f"HIDDEN: insert {write}@{timestamp} succeeds, and the row is {after}"
    return True


def _one_expired(store: Store, over: frozenset[int]) -> bool:
    """Whether a write that was not over then has expired."""
    return any(key[1] not in over and began.expires for key, began in store.items() if key[0] == BEGAN)


def _increment(store: Store, step: Step) -> None:
    """HBase's increment: atomic, at the server's time, or at the time of the cell if that is later."""
    _, table, row, column, amount, write, server = step
    found = {c: (timestamp, value) for c, timestamp, value in mc.vis(store, table, row)}.get(column)
    timestamp, (value, putter) = found if found is not None else (mc.NEG, (bytes(8), write))
    if len(value) != 8:
        store[BROKEN] = f"INCREMENT of {value!r}"
        return
    total = (int.from_bytes(value, "big") + amount).to_bytes(8, "big")
    _put(store, table, row, (("put", ((column, (total, putter)),), max(server, timestamp), False),), None)


def _old(store: Store, step: Step) -> None:
    """A repairer finds by its clock that what has this time is older than the grace time."""
    if step[1] > store.get(REPAIRED, mc.NEG):
        store[REPAIRED] = step[1]


def _late(store: Store, step: Step) -> int:
    return int(store.get(REPAIRED, mc.NEG))


mc.OPS.update(
    old=_old,
    late=_late,
    read=_read,
    begin=_begin,
    write=_write,
    repair=_repair,
    checked_repair=_checked_repair,
    check=_check,
    inc=_increment,
    expire=_expire,
    age=_age,
    shared=_shared,
)


# --- from operations to steps -----------------------------------------------------------------------------------------


def found_row(row: bytes, cells: Sequence[tuple[bytes, int, bytes]]) -> StoredRow | None:
    """The answer of the store port for these cells."""
    return (
        StoredRow(row, {column: StoredCell(value, timestamp) for column, timestamp, value in cells}) if cells else None
    )


def _changes(mutations: Iterable[Put | Delete], write: int | None) -> tuple[Any, ...]:
    changes: list[Any] = []
    for mutation in mutations:
        assert mutation.timestamp is not None, "every cell of an indexed row is written with its time (rule 1)"
        if isinstance(mutation, Put):
            cells = sorted(mutation.cells.items())
            expires = mutation.ttl is not None and mutation.timestamp + mutation.ttl <= END
            changes.append(
                ("put", tuple((c, v if write is None else (v, write)) for c, v in cells), mutation.timestamp, expires)
            )
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
        case CheckAndMutateRows(table, changes):
            yield from ((table, change.row, change.mutations) for change in changes)
        case Together(operations):
            for part in operations:
                yield from _writes(part)


@define
class SetClock:
    """A clock that stands; after an attempt that took too long it has gone on.

    Attributes:
        reading: of `now`, in ms.
        slow: how many attempts take longer than half the grace time.
        repaired: the latest time that a repairer took to be older than the grace time.
    """

    reading: int
    slow: int = 0
    repaired: int = -1

    def now(self, exact: bool = False) -> int:
        return self.reading

    def ahead(self, timestamp: int) -> int | None:
        return None

    def fresh(self, since: int) -> bool:
        self.slow -= 1
        if self.slow < 0 and self.repaired < since:
            return True
        self.reading = max(self.reading + 8, self.repaired + 1)
        return False


class Sends(list[Any]):
    """The number of mutating steps of a process so far, and the step among them that is carried out twice.

    What a process need not know of its past is not kept: the checker takes those that hold the same for one.
    """

    def __init__(self, again: int | None = None) -> None:
        super().__init__()
        self._again = again

    def append(self, step: Step) -> None:
        super().append(step if len(self) == self._again else None)


@define
class Translation:
    """One protocol of one process, as steps of the checker.

    Attributes:
        table: the primary table.
        clock: of the process.
        kinds: number and kind of the write of each row.
        order: numbers of the writes, by position in the round.
        sent: the mutating steps so far.
        repeat: which of them gets no answer and is therefore carried out twice in a row, or None.
        paused: whether the process may stand still for longer than the grace time, which its clock then shows.
    """

    table: str
    clock: SetClock
    kinds: dict[bytes, tuple[int, str]]
    order: Sequence[int]
    sent: list[Step] = field(factory=Sends)
    repeat: int | None = None
    paused: bool = False

    def steps(self, protocol: Protocol[Any]) -> Steps:
        """Drives the protocol to its end."""
        answer: Any = None
        earliest: int | None = None
        inserted = False
        begun: set[bytes] = set()
        checked = False  # a read just after a check-and-mutate looks for the own nonce; any other begins an attempt
        while True:
            try:
                operation = protocol.send(answer)
            except (StopIteration, HbmodelError):
                return
            answer = None
            if isinstance(operation, ReadClock):
                answer = self.clock.now()
                continue
            if isinstance(operation, CheckLease):
                answer = self.clock.fresh(operation.since)
                continue
            if isinstance(operation, GetRows):
                earliest = earliest if checked else None
                answer = yield from self._read(operation, checked, begun)
                checked = False
                continue
            if isinstance(operation, Acknowledge):
                done = [
                    n
                    for n, outcome in zip(self.order, operation.outcomes, strict=True)
                    if outcome.action in {"put", "deleted"}
                ]
                yield ("acknowledge", frozenset(done))
                continue
            for row in self.kinds.keys() - begun:  # a write that reads nothing
                begun.add(row)
                yield Told(("begin", self.table, row, (), *self.kinds[row]))
            times = [m.timestamp for _, _, mutations in _writes(operation) for m in mutations if isinstance(m, Put)]
            if times and (earliest is None or min(times) < earliest):
                earliest = min(times)
                yield ("issue", earliest)
            step = yield from self._made(operation)
            if len(self.sent) == self.repeat:
                yield step
                step = yield from self._made(operation)
            self.sent.append(step)
            answer = yield step
            checked = isinstance(operation, CheckAndMutate)
            inserted |= checked and answer
            if self.paused and (inserted or any(table == self.table for table, _, _ in _writes(operation))):
                self.clock.repaired = yield ("late",)  # the protocol may ask the clock next

    def _read(self, operation: GetRows, checked: bool, begun: set[bytes]) -> Generator[Step, Any, list[Any]]:
        found: list[Any] = []
        for row in operation.rows:
            step = self._get(operation, row, checked)
            cells = yield step
            if step[0] == "begin":
                begun.add(row)
                repaired, cells = cells
                self.clock.reading = max(self.clock.reading, repaired + 1)
            found.append(found_row(row, cells))
        return found

    def _made(self, operation: Operation) -> Generator[Step, Any, Step]:
        """The step that carries out a change, after those that it needs before."""
        return self._step(operation)
        yield

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


def alone(steps: Steps, store: Store) -> None:
    """Takes the steps one after the other, without any other process."""
    answer: Any = None
    try:
        while True:
            step = steps.send(answer)
            parts = step[1] if step[0] == "par" else (step,)
            answers = [mc.apply_op(store, part, 0) for part in parts if part[0] not in {"issue", "acknowledge"}]
            answer = answers[0] if len(answers) == 1 else None
    except StopIteration:
        return
