"""Programs that prepend rows to one prefix in the model checker: rows on a server that gives the time, and who may have
which key.

In addition to the writers' steps, the server's clock moves, by a millisecond or by more than the grace time, and the
first row may be deleted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import frozen

import hbmodel as hb
from hbmodel.errors import UnknownOutcome
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import FLAG
from hbmodel.protocol.operations import (
    AskIfAhead,
    CheckAndMutate,
    CheckAndPut,
    DeleteRows,
    FirstRows,
    GetRows,
    LetClockTick,
    Protocol,
    PutRows,
    ReadClock,
)
from hbmodel.protocol.prepend import KeyPrefix, prepend_row
from hbmodel.protocol.server_timed.insert_by_flag import insert_claimed
from hbmodel.protocol.server_timed.unindexed_insert import insert_unindexed
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.writes import PutObject, put_object
from hbmodel.store import Delete, Put
from tests.checker.behaviour import once
from tests.checker.cells import OPS
from tests.checker.pool import Pool
from tests.checker.protocol_adapter import Step, Steps, StoredCell, StoredRow, Told
from tests.checker.search import Model

GRACE = 100
LATER = 3 * GRACE
"""How far time moves when claims become old."""

CLOCK, HISTORY, GONE, FLAGGED = ("clock", 0), ("history", 0), ("gone", 0), ("flagged", 0)


@hb.model(table="remarks", family="d", exists=hb.flag("e"))
class Remark:
    """A flag, two columns, and numbers that ascend: the first row has the smallest."""

    page: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    text: hb.Column[str] = hb.column("t")
    mood: hb.Column[str | None] = hb.column("m", default=None)


@hb.model(table="salted_remarks", family="d", exists=hb.flag("e"), salt=hb.HashSalt(2))
class SaltedRemark:
    """The same, and the rows of a prefix are spread over two buckets."""

    page: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    text: hb.Column[str] = hb.column("t")
    mood: hb.Column[str | None] = hb.column("m", default=None)


@hb.model(table="words", family="d")
class Word:
    """One column, so that a row is one cell."""

    page: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    text: hb.Column[str] = hb.column("t")


PAGE = 7

# --- the server -------------------------------------------------------------------------------------------------------
# A row is its tombstone and the newest cell (column, timestamp, value) of each column.


def _visible(store: Any, row: bytes) -> dict[bytes, tuple[int, bytes]]:
    tombstone, cells = store.get(("row", row), (-1, ()))
    return {column: (at, value) for column, at, value in cells if at > tombstone}


def _put(store: Any, put: Put) -> None:
    at = store[CLOCK] if put.timestamp is None else put.timestamp
    tombstone, cells = store.get(("row", put.row), (-1, ()))
    newest = {column: (at, value) for column, at, value in cells}
    newest.update(
        (column, (at, value)) for column, value in put.cells.items() if at >= newest.get(column, (-1, b""))[0]
    )
    store["row", put.row] = tombstone, tuple(sorted((column, *cell) for column, cell in newest.items()))


def _checked(store: Any, operation: Any, puts: Sequence[Any]) -> bool:
    _, held = _visible(store, operation.row).get(operation.column, (0, b""))
    if held != (operation.expected or b""):
        return False
    for put in puts:
        assert isinstance(put, Put)
        _put(store, put)
    return True


def _step(store: Any, step: Step) -> Any:
    """One operation of a process; `begins` is the number of the call that begins with it."""
    _, _, begins, operation = step
    if begins is not None:
        over = frozenset(number for number, (_, result) in store[HISTORY] if result is not None)
        store[HISTORY] = tuple(sorted((*store[HISTORY], (begins, (_front(store), None)))))
        assert begins not in over
    match operation:
        case ReadClock():
            return store[CLOCK]
        case GetRows(_, (row,), columns):
            return _told(store, row, columns)
        case FirstRows(_, ranges, columns, limit):
            rows = sorted(row for name, row in store if name == "row")
            found = [
                [(row, cells) for row in rows if row in of and (cells := _told(store, row, columns))][:limit]
                for of in ranges
            ]
            return Told(map(Told, found))
        case PutRows(_, (put,)):
            _put(store, put)
        case DeleteRows(_, (delete,)):
            assert isinstance(delete, Delete)
            store["row", delete.row] = store[CLOCK], ()
        case CheckAndMutate(_, _, _, _, mutations):
            return _checked(store, operation, mutations)
        case CheckAndPut(_, _, _, _, put):
            return _checked(store, operation, [put])
    return None


def _told(store: Any, row: bytes, columns: Sequence[bytes]) -> Told:
    found = _visible(store, row)
    wanted = {column for column in found if column in columns or column.partition(b":")[0] in columns}
    return Told((column, *found[column]) for column in sorted(wanted))


def _live(store: Any) -> dict[int, bytes | None]:
    """The numbers of the live rows, each with its text."""
    found: dict[int, bytes | None] = {}
    for name, row in store:
        if name != "row":
            continue
        cells = {column: value for column, (_, value) in _visible(store, row).items()}
        if cells.get(b"d:e") == FLAG or (not store[FLAGGED] and b"d:t" in cells):
            found[row[-1]] = cells.get(b"d:t")
    return found


def _front(store: Any) -> int:
    """Before which number whatever is prepended from now on must be."""
    return min((number for number in _live(store) if number != store[GONE]), default=256)


def _done(store: Any, step: Step) -> None:
    _, begun, result = step
    store[HISTORY] = tuple(sorted((n, (front, result if n == begun else told)) for n, (front, told) in store[HISTORY]))


def _tick(store: Any, step: Step) -> None:
    store[CLOCK] += step[1]


OPS.update(prepend=_step, passes=_tick)


# --- processes --------------------------------------------------------------------------------------------------------


@frozen
class Rules:
    """The code under test, or a mutant of it.

    Attributes:
        around: changes what a protocol does.
        prefix: changes the order of the numbers.
        reader: says which rows are live.
        grace: the age at which a claim is taken over.
    """

    around: Callable[[Protocol[Any]], Protocol[Any]] = lambda protocol: protocol
    prefix: Callable[[KeyPrefix], KeyPrefix] = lambda prefix: prefix
    search: Callable[[KeyPrefix, RowDecoder, Callable[[int], Protocol[Any]]], Protocol[Any]] = prepend_row
    grace: int = GRACE


SHIPPED = Rules()


@once
def _writes(model: Any, text: str) -> dict[int, PutObject]:
    schema = hb.schema.schema_of(model)
    return {number: put_object(schema, model(page=PAGE, number=number, text=text)) for number in range(240, 256)}


@once
def writer(model: Any, process: int, calls: int, atomic: bool, rules: Rules) -> Callable[[], Steps]:
    """A process that prepends several rows, one after the other."""
    schema = hb.schema.schema_of(model)
    prefix = rules.prefix(KeyPrefix.of(schema, {"page": PAGE}))
    reader = RowDecoder.of(schema, False, frozenset())

    def run() -> Steps:
        drawn = itertools.count()
        planner = UnindexedRowPlanner(schema, lambda: bytes((process, next(drawn))) + bytes(6))
        for call in range(calls):
            number = 10 * process + call
            insert = _insert(planner, _writes(model, f"{number}"), atomic, rules)
            tried: list[int] = []
            protocol = rules.search(prefix, reader, _noting(insert, tried))
            try:
                yield from _called(process, number, rules.around(protocol))
            except UnknownOutcome:
                continue  # its row was put, and is gone: as after a call without an answer
            yield ("acknowledge", number, tried[-1])

    return run


def _noting(insert: Callable[[int], Protocol[Any]], tried: list[int]) -> Callable[[int], Protocol[Any]]:
    def noted(number: int) -> Protocol[Any]:
        tried[:] = [number]
        return insert(number)

    return noted


def _insert(
    planner: UnindexedRowPlanner, writes: dict[int, PutObject], atomic: bool, rules: Rules
) -> Callable[[int], Protocol[Any]]:
    schema = planner.schema
    column = schema.exists_column or schema.required_columns[0]

    def insert(number: int) -> Protocol[Any]:
        write = writes[number]
        if atomic:
            return insert_unindexed(planner, write, column, GRACE, rules.grace)
        if schema.exists_column is None:
            return insert_unindexed(planner, write, column, GRACE, one_cell=True)
        return insert_claimed(planner, write, column, GRACE, rules.grace, planner.draw)

    return insert


def _called(process: int, number: int, protocol: Protocol[Any]) -> Steps:
    begins: int | None = number
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration:
            return
        answer = None
        if isinstance(operation, AskIfAhead):
            continue
        if isinstance(operation, LetClockTick):
            yield ("passes", 1)
            continue
        answer = yield ("prepend", process, begins, operation)
        begins = None
        if isinstance(operation, GetRows):
            answer = [_row(operation.rows[0], answer)]
        elif isinstance(operation, FirstRows):
            answer = [[_row(row, cells) for row, cells in rows] for rows in answer]


def _row(row: bytes, cells: Any) -> Any:
    return StoredRow(row, {column: StoredCell(value, at) for column, at, value in cells}) if cells else None


@once
def deleter(model: Any, number: int) -> Callable[[], Steps]:
    """A process that deletes a row; the store lets the clock tick before it says that it has."""
    row = hb.row_key(model, page=PAGE, number=number)

    def run() -> Steps:
        yield ("prepend", 0, None, DeleteRows(hb.schema.schema_of(model).table, [Delete(row, families=(b"d",))]))
        yield ("passes", 1)

    return run


@once
def time(moves: Sequence[int]) -> Callable[[], Steps]:
    """The server's clock."""

    def run() -> Steps:
        for move in moves:
            yield ("passes", move)

    return run


# --- what must hold ---------------------------------------------------------------------------------------------------


@once
def _pool() -> Pool:
    return Pool()


class PrependModel(Model):
    """The checker over programs that prepend rows to one prefix.

    Args:
        model: of the rows.
        begin: numbers of the rows that are there.
        programs: how many rows each prepends, and whether its store changes rows under conditions.
        crashes: how many programs may die.
        moves: of the clock.
        gone: the number of the row that is deleted, or None.
        rules: the code under test.
    """

    def __init__(
        self,
        model: Any,
        begin: Sequence[int],
        programs: Sequence[tuple[int, bool]],
        *,
        crashes: int = 0,
        moves: Sequence[int] = (1,),
        gone: int | None = None,
        rules: Rules = SHIPPED,
    ) -> None:
        schema = hb.schema.schema_of(model)
        store: Any = {CLOCK: 5, HISTORY: (), GONE: gone, FLAGGED: int(schema.exists_column is not None)}
        planner = UnindexedRowPlanner.of(schema)
        for write in [_writes(model, "old")[number] for number in begin]:
            _put(store, Put(write.row, planner.cells(write)))
        store[CLOCK] = 6
        self._begin_with = sorted(begin)
        processes: list[Any] = [
            (f"W{n}", writer(model, n, calls, atomic, rules), 0) for n, (calls, atomic) in enumerate(programs, 1)
        ]
        if gone is not None:
            processes.append(("D", deleter(model, gone), 0))
        processes.append(("T", time(tuple(moves)), 0))
        super().__init__(store, processes, crashes, _pool())
        self.terminals = {}

    def broken(self, store: Any) -> str | None:
        """Rows that were acknowledged and are not there, or not where they must be."""
        live = _live(store)
        if any(text is None for text in live.values()):
            return "TORN: a row is there without its text"
        done = {number: (front, result) for number, (front, result) in store[HISTORY] if result is not None}
        if len({result for _, result in done.values()}) < len(done):
            return f"TWICE: two programs have the same key: {done}"
        for number, (front, result) in done.items():
            if live.get(result) != b"%d" % number:
                return f"LOST: the row {result} of call {number} holds {live.get(result)!r}"
            if result >= front:
                return f"BEHIND: call {number} has put {result} behind a row that was there, {front}"
        return None

    def acknowledged(self, store: Any, step: Step) -> Any:
        """With the key that a call has; from now on the row must stay."""
        _done(store, step)
        return store

    def over(self, store: Any, process: int) -> bool:
        """A history does not say whether a program has died."""
        return True

    def terminal(self, store: Any) -> str | None:
        """Gaps that no dead program and no delete explains."""
        found = sorted(_live(store))
        new = [number for number in found if not self._begin_with or number <= self._begin_with[0]]
        last = self._begin_with[0] if self._begin_with else 255
        lost = sum(result is None for _, (_, result) in store[HISTORY]) + (store[GONE] is not None)
        gaps = last - min(new, default=last) + 1 - len(new)
        return f"GAPS: {gaps} between {found}, where {lost} are explained" if gaps > lost else None


PrependConfiguration = tuple[str, PrependModel]
CLAIMING, ATOMIC = False, True


def prepends(
    model: Any, kinds: Sequence[bool], rules: Rules = SHIPPED, *, calls: Sequence[int] = (1, 1), crashes: int = 1
) -> Iterator[Any]:
    """Two programs over an empty prefix, over rows, over rows with a gap, and over rows whose first one is deleted."""
    for begin, gone in (((), None), ((255,), None), ((255, 253), None), ((255, 254), 254), ((255,), 255)):
        for moves in ((1,), (1, LATER)):
            name = f"{model.__name__}, {begin} without {gone}, time {moves}, {kinds}"
            programs = tuple(zip(calls, kinds, strict=True))
            yield name, PrependModel(model, begin, programs, crashes=crashes, moves=moves, gone=gone, rules=rules)
