"""The protocols of models without indexes in the model checker: a row on a server that gives the time, and what its
writers may see.

In addition to the writers' steps, the server's clock moves, a row expires and a program reads, at any moment. All
acknowledged and read results must be those of the calls one after the other, in some order in which a call comes before
every call that began after its end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from attrs import evolve, frozen

import hbmodel as hb
from hbmodel.errors import CapabilityError, IncompleteRow, RowExists, RowNotFound, UnknownOutcome
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.protocol.expiry import end_of_live
from hbmodel.protocol.indexed.index_build import RowIndexer, index_rows
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed.indexed_write import insert_indexed, write_indexed_batch
from hbmodel.protocol.operations import (
    Acknowledge,
    AskIfAhead,
    AwaitClock,
    CheckAndMutate,
    CheckAndMutateRows,
    CheckAndPut,
    CheckLease,
    DeleteRows,
    GetRows,
    Increment,
    LetClockTick,
    MutateRow,
    Operation,
    PutRows,
    ReadClock,
)
from hbmodel.protocol.server_timed.unindexed_insert import insert_unindexed
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.server_timed.unindexed_write import write_unindexed_batch
from hbmodel.protocol.writes import DeleteRow, PutObject, RowWrite, UpdateFields, put_object
from hbmodel.store import Capabilities, Delete, Put
from hbmodel.tables.registry.registration import AT_SERVER_TIME, Binding, RowState
from tests.checker.behaviour import once
from tests.checker.pool import Pool
from tests.checker.protocol_adapter import Step, Steps, StoredCell, StoredRow, Told, mc
from tests.checker.search import Model

LIFE = 1_000
BEGINS = 5
LATER = 2 * LIFE
"""How far time moves when lives end."""

CELLS, TOMBSTONES, CLOCK, HISTORY, LATE = ("cells", 0), ("tombstones", 0), ("clock", 0), ("history", 0), ("late", 0)
DISTINCT = ("distinct", 0)
EXPIRY = 99
"""The end of lives, as one of the calls of a history."""

REFUSED = "refused"
"""The result of an update of a row with a TTL, in a store that changes no row under a condition."""

UNKNOWN = "unknown"
"""The result of a call that is over and may have been carried out, or not."""

ATOMIC = Capabilities(
    check_and_mutate=True,
    mutate_row=True,
    presplit=True,
    family_configuration=True,
    put_ttl_mixed=True,
    alter=True,
    namespaces=True,
    one_call_scans=True,
)
APART = evolve(ATOMIC, check_and_mutate=False, mutate_row=False)


@hb.model(table="slips", family="d")
class Slip:
    """Two required columns and an optional one."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    line: hb.Column[str] = hb.column("l")
    note: hb.Column[str | None] = hb.column("n", default=None)


@hb.model(table="sparse", family="d", exists=hb.flag("e"))
class Sparse:
    """A flag, and a column whose None is the absence of its cell."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    line: hb.Column[str | None] = hb.column("l", default=None, null="delete")
    note: hb.Column[str | None] = hb.column("n", default=None, null="delete")


@hb.model(table="loose", family="d")
class Loose:
    """Required columns, and an optional one whose None is the absence of its cell."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    line: hb.Column[str] = hb.column("l")
    note: hb.Column[str | None] = hb.column("n", default=None, null="delete")


@hb.model(table="free", family="d")
class Free:
    """Nothing is required, and every None is the absence of its cell."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str | None] = hb.column("p", default=None, null="delete")
    line: hb.Column[str | None] = hb.column("l", default=None, null="delete")
    note: hb.Column[str | None] = hb.column("n", default=None, null="delete")


@hb.model(table="blank", family="d")
class Blank:
    """Nothing is required, and None is an empty cell."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str | None] = hb.column("p", default=None)
    line: hb.Column[str | None] = hb.column("l", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)


@hb.model(table="theirs", family="d", external=True)
class Theirs:
    """Rows of other programs, with cells for every column that is not None."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    line: hb.Column[str] = hb.column("l")
    note: hb.Column[str | None] = hb.column("n", default=None, null="delete")


@frozen
class Insert:
    write: PutObject


@frozen
class Read:
    """`Session.get`."""


@frozen
class Glance:
    """A query that reads the note alone, to see whether there is a row."""


@frozen
class Increase:
    """`Session.increment` by one; of the column of a counter."""

    column: bytes


Call = RowWrite | Insert | Read | Glance | Increase


def absent_cells(model: Any) -> bool:
    """Whether the None of some column is the absence of its cell."""
    return any(f.null == "delete" for f in hb.schema.schema_of(model).columns)


@once
def calls_of(model: Any) -> Mapping[str, Call]:
    """The actions of the processes, by name."""
    schema, key = hb.schema.schema_of(model), {"name": "k"}
    row = hb.row_key(model, **key)

    def whole(ttl: int | None = None, **values: Any) -> PutObject:
        return put_object(schema, model(name="k", **{"page": "x", "line": "x", **values}), ttl)

    def change(ttl: int | None = None, **changes: Any) -> UpdateFields:
        return UpdateFields(None, row, key, changes, ttl)

    return {
        "add": whole(page="a", line="a", note="a"),
        "add b": whole(page="b", line="b", note=None if absent_cells(model) else "b"),
        "expiring add": whole(LIFE, page="e", line="e", note="e"),
        "expiring add f": whole(LIFE, page="f", line="f", note=None if absent_cells(model) else "f"),
        "update page": change(page="u"),
        "update line": change(line="w"),
        "update note": change(note="v"),
        "update both": change(page="y", note="y"),
        "forget": change(note=None),
        "update page, forget": change(page="q", note=None),
        **({} if schema.required_columns else {"forget the rest": change(page=None, line=None)}),
        "expiring update": change(LIFE, page="z"),
        "delete": DeleteRow(None, row),
        "insert": Insert(whole(page="i", line="i")),
        "expiring insert": Insert(whole(LIFE, page="j", line="j")),
        "get": Read(),
        "glance": Glance(),
        **dict(zip(("increment",), map(Increase, sorted(schema.counter_columns)), strict=False)),
    }


# --- the server -------------------------------------------------------------------------------------------------------
# A cell is (column, timestamp, value, end or None); of equal times the later arrival is the newer one.

Cell = tuple[bytes, int, bytes, int | None]


def visible(store: Any, columns: Sequence[bytes] = ()) -> dict[bytes, StoredCell]:
    """The newest cell of each column that no tombstone hides and whose life has not ended."""
    return _visible(store[CLOCK], store[TOMBSTONES], store[CELLS], tuple(columns))


@lru_cache(100_000)
def _visible(now: int, tombstones: Any, cells: tuple[Cell, ...], columns: tuple[bytes, ...]) -> dict[bytes, StoredCell]:
    whole, single = tombstones
    hidden = dict(single)
    found: dict[bytes, StoredCell] = {}
    for column, timestamp, value, end in cells:
        wanted = not columns or column in columns or column.partition(b":")[0] in columns
        if not wanted or timestamp <= whole or timestamp <= hidden.get(column, -1) or (end is not None and end <= now):
            continue
        if column not in found or timestamp >= found[column].timestamp:
            found[column] = StoredCell(value, timestamp)
    return found


def _unsaid_end(store: Any, column: bytes) -> str | None:
    """The error in a liveness cell that expires. An update of the row gives its cells the end that the cell says."""
    cells = visible(store, (column,))
    ends = [
        end for name, at, _, end in store[CELLS] if column in cells and (name, at) == (column, cells[column].timestamp)
    ]
    if not ends or ends[-1] is None:
        return None
    row: Any = StoredRow(b"k", cells)
    said = end_of_live(row, column)
    return None if said == ends[-1] else f"UNSAID: the liveness cell expires at {ends[-1]} and says {said}"


def _apply(store: Any, mutations: Sequence[Put | Delete]) -> None:
    store[CLOCK] += store.get(DISTINCT, 0)
    now, (whole, single) = store[CLOCK], store[TOMBSTONES]
    hidden = dict(single)
    cells: list[Cell] = list(store[CELLS])
    for mutation in mutations:
        at = now if mutation.timestamp is None else mutation.timestamp
        if isinstance(mutation, Put):
            end = None if mutation.ttl is None else at + mutation.ttl
            cells += [(column, at, value, end) for column, value in mutation.cells.items()]
        elif mutation.columns:
            hidden.update((column, max(at, hidden.get(column, -1))) for column in mutation.columns)
        else:
            whole = max(whole, at)
    store[TOMBSTONES] = (whole, tuple(sorted((c, t) for c, t in hidden.items() if t > whole)))
    # A cell under a newer one that does not end, or that came later at the same time, is never seen again.
    top: dict[bytes, tuple[int, int]] = {}
    for n, (column, at, _, end) in enumerate(cells):
        if end is None and (at, n) > top.get(column, (-1, 0)):
            top[column] = at, n
    kept: list[Cell] = []
    for n, cell in enumerate(cells):
        column, at, _, end = cell
        if (
            at > whole
            and at > hidden.get(column, -1)
            and (at, n) >= top.get(column, (-1, 0))
            and (end is None or end > now)
        ):
            kept.append(cell)
    store[CELLS] = tuple(kept)


def _step(store: Any, step: Step) -> Any:
    """One call, with the record of the write that begins with it."""
    _, number, operation = step
    if number is not None:
        done = frozenset(n for n, (_, result) in store[HISTORY] if result is not None)
        store[HISTORY] = tuple(sorted((*store[HISTORY], (number, (done, None)))))
    match operation:
        case ReadClock():
            store[CLOCK] += store.get(DISTINCT, 0)
            return store[CLOCK]
        case GetRows(_, _, columns):
            return Told(
                sorted((column, cell.timestamp, cell.value) for column, cell in visible(store, columns).items())
            )
        case PutRows(_, (put,)):
            _apply(store, [put])
        case DeleteRows(_, deletes):
            _apply(store, deletes)
        case MutateRow(_, mutations):
            _apply(store, mutations)
        case CheckAndMutate(_, _, column, expected, mutations):
            return _check(store, column, expected, mutations)
        case CheckAndMutateRows(_, (change,)):
            return [_check(store, change.column, change.expected, change.mutations)]
        case CheckAndPut(_, _, column, expected, put):
            return _check(store, column, expected, [put])
        case Increment(_, _, column, amount):
            return _increment(store, column, amount)
        case AwaitClock(passed):
            store[CLOCK] = max(store[CLOCK], passed + 1)
    return None


def _increment(store: Any, column: bytes, amount: int) -> int:
    """HBase's increment: atomic, at the server's time, or at one above the time of the cell if that is later."""
    held = visible(store).get(column)
    value = amount if held is None else int.from_bytes(held.value, "big") + amount
    at = store[CLOCK] if held is None else max(store[CLOCK], held.timestamp + 1)
    _apply(store, [Put(b"k", {column: value.to_bytes(8, "big")}, at)])
    return value


def _check(store: Any, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]) -> bool:
    held = visible(store).get(column)
    if (None if held is None else held.value or None) != expected:
        return False
    _apply(store, mutations)
    return True


def _done(store: Any, step: Step) -> None:
    _, number, result = step
    store[HISTORY] = tuple(sorted((n, (over, result if n == number else told)) for n, (over, told) in store[HISTORY]))


def _tick(store: Any, step: Step) -> None:
    store[CLOCK] += step[1]
    if step[1] == LATER:
        store[LATE] = frozenset(n for n, (_, result) in store[HISTORY] if result is None)
        done = frozenset(n for n, (_, result) in store[HISTORY] if result is not None)
        store[HISTORY] = tuple(sorted((*store[HISTORY], (EXPIRY, (done, "over")))))


mc.OPS.update(unindexed=_step, tick=_tick)


# --- processes --------------------------------------------------------------------------------------------------------


@once
def caller(
    model: Any, number: int, calls: Sequence[Call], can: Capabilities, rules: Rules, rows: RowState = "unindexed"
) -> Callable[[], Steps]:
    """A process that makes calls one after the other, according to the state of the table that it knows."""
    binding = Binding(hb.schema.schema_of(model), (), (), (), rows)

    def run() -> Steps:
        drawn = itertools.count()
        for at, call in enumerate(calls):
            protocol = _protocol(binding, call, can, rules, lambda: bytes((number, next(drawn))))
            yield from _called(10 * number + at, rules.around(protocol), rules)

    return run


def _protocol(binding: Binding, call: Call, can: Capabilities, rules: Rules, draw: Callable[[], bytes]) -> Any:
    schema, bound = binding.schema, LIFE // 2
    if isinstance(call, Read):
        return _get(schema.table, rules.reader(binding))
    if isinstance(call, Glance):
        return _glance(schema.table, rules.glance(binding))
    if isinstance(call, Increase):
        return _increase(schema, call.column, binding.reader)
    if binding.writes_system_cells:
        mixed = rules.mixed and binding.rows == "mixed"
        planner = rules.indexed(
            schema, (), bound, lambda: draw() + bytes(6), binding.adopting, mixed, can.check_and_mutate
        )
        return (
            insert_indexed(planner, call.write)
            if isinstance(call, Insert)
            else write_indexed_batch(planner, [call], can.mutate_row)
        )
    writer = rules.writer(schema, draw, rules.marking and binding.rows == "marking")
    if isinstance(call, Insert):
        return insert_unindexed(writer, call.write, schema.exists_column or schema.required_columns[0], bound)
    return write_unindexed_batch(writer, [call], bound, can)


@once
def adopter(model: Any, rules: Rules) -> Callable[[], Steps]:
    """A build that makes the row an indexed one, without any index."""
    indexer = rules.indexer(hb.schema.schema_of(model), (), adopting=True)

    def run() -> Steps:
        cells = yield ("unindexed", None, GetRows(indexer.schema.table, [b"k"], tuple(indexer.columns)))
        if not cells:
            return
        row: Any = StoredRow(b"k", {c: StoredCell(v, t) for c, t, v in cells})
        protocol = index_rows(indexer, [row], 0)
        answer: Any = None
        with suppress(StopIteration):
            while True:
                operation = protocol.send(answer)
                answer = True
                if not isinstance(operation, CheckLease):
                    answer = yield ("unindexed", None, operation)

    return run


def _called(number: int, protocol: Any, rules: Rules) -> Steps:
    begins: int | None = number
    answer: Any = None
    outcome: Any = None
    while True:
        try:
            operation: Operation = protocol.send(answer)
        except StopIteration as stop:
            result = _result(outcome if stop.value is None else stop.value)
            break
        except RowExists:
            result = "exists"
            break
        except UnknownOutcome:
            result = UNKNOWN
            break
        answer = None
        if isinstance(operation, Acknowledge):
            (outcome,) = operation.outcomes
        elif isinstance(operation, LetClockTick):
            yield ("tick", 1)
        elif isinstance(operation, CheckLease):
            answer = True
        elif isinstance(operation, AskIfAhead):
            answer = None  # a program does not put cells with times of its own
        else:
            answer = yield ("unindexed", begins, operation)
            begins = None
            if isinstance(operation, GetRows):
                answer = [StoredRow(operation.rows[0], {c: StoredCell(v, t) for c, t, v in answer}) if answer else None]
            elif rules.ticks and _deletes_now(operation):
                yield ("tick", 1)  # the store's own pause
    yield ("acknowledge", number, result)


def _get(table: str, reader: RowDecoder) -> Any:
    (row,) = yield GetRows(table, [b"k"], reader.columns)
    return shown(reader, row)


def _glance(table: str, reader: RowDecoder) -> Any:
    (row,) = yield GetRows(table, [b"k"], reader.columns)
    return "absent" if row is None or not reader.exists(row) else "there"


def _increase(schema: Any, column: bytes, reader: RowDecoder) -> Any:
    (row,) = yield GetRows(schema.table, [b"k"], reader.columns)
    if row is None or not reader.exists(row):
        return "not found"
    return (yield Increment(schema.table, b"k", column, 1))


def _deletes_now(operation: Any) -> bool:
    mutations = getattr(operation, "deletes", None) or getattr(operation, "mutations", ())
    return any(isinstance(mutation, Delete) and mutation.timestamp is None for mutation in mutations)


def _result(outcome: Any) -> Any:
    if isinstance(outcome, list):
        (outcome,) = outcome
    if not isinstance(outcome, hb.Outcome):
        return outcome
    if isinstance(outcome.error, RowNotFound):
        return "not found"
    if isinstance(outcome.error, CapabilityError):
        return REFUSED
    return outcome.action if outcome.error is None else repr(outcome.error)


def shown(reader: RowDecoder, row: Any) -> Any:
    """The result of reading a row: its values, `absent` or `incomplete`."""
    if row is None or not reader.exists(row):
        return "absent"
    try:
        return tuple(sorted(reader.values(row).items()))
    except IncompleteRow:
        return "incomplete"


# --- what must hold ---------------------------------------------------------------------------------------------------


def explained(
    calls: Mapping[int, Call],
    history: Mapping[int, Any],
    end: Any,
    initial: Any,
    drawn: frozenset[int] = frozenset(),
    presence: bool = False,
    exact: bool = False,
) -> bool:
    """Whether the answers and the final state are those of the calls one after the other, in some order.

    The calls in `drawn` use a time that was drawn earlier for everything that they put. With `presence`, only the
    existence of the row is compared. With `exact`, no update of a whole row covers cells that were written since the
    row was read.
    """
    if presence:
        history = {n: (over, _present(result)) for n, (over, result) in history.items()}
        end = _present(end)
    open_results = (None, UNKNOWN)
    sure = [number for number, (_, result) in history.items() if result not in open_results]
    lost = [number for number, (_, result) in history.items() if result in open_results]
    if any(result == UNKNOWN for _, result in history.values()) and not any(map(_replaces, calls.values())):
        return False
    for count in range(len(lost) + 1):
        # of a program that died, or does not know, a call may have been carried out
        for some in itertools.combinations(lost, count):
            if _ordered(frozenset((*sure, *some)), calls, history, end, [((), initial)], drawn, presence, exact):
                return True
    return False


def _ordered(
    left: frozenset[int],
    calls: Mapping[int, Call],
    history: Mapping[int, Any],
    end: Any,
    states: Any,
    drawn: frozenset[int],
    presence: bool,
    exact: bool,
) -> bool:
    """Whether the remaining calls can follow `states`, each after the calls that led to it."""
    done, state = states[-1]
    if not left:
        last = state if state == "absent" else state[0]
        return bool((_present(last) if presence else last) == end)
    for number in left:
        over, result = history[number]
        if over & left:
            continue  # something that was over before it began must come first
        call = calls.get(number)
        concurrent = any(n not in over and n in calls and (n in drawn or _rewrites(calls[n])) for n in done)
        if presence and isinstance(call, Read):
            result = state[0] if result == "there" and state != "absent" else result
        found = [_carried_out(call, result, state, concurrent)]
        if call is not None and _rewrites(call) and isinstance(call, UpdateFields) and not exact:
            # A row that expires is written whole, as it was read: the later of two at the same time wins with all its
            # columns.
            found += [_carried_out(call, result, earlier) for before, earlier in states if over <= {*before}]
        following = [after for after in found if after is not None]
        for after in following:
            if _ordered(
                left - {number}, calls, history, end, [*states, ((*done, number), after)], drawn, presence, exact
            ):
                return True
    return False


def _present(result: Any) -> Any:
    """A row, or what a call has read, without its values."""
    return "there" if isinstance(result, tuple) or result == "incomplete" else result


def _rewrites(call: Call) -> bool:
    """Whether a call gives the row a time that was drawn before."""
    return _expires(call) or isinstance(call, UpdateFields)


def _carried_out(call: Call | None, result: Any, state: Any, over: bool = False) -> Any:
    """The state after a call, or None where it cannot have this result in this state: `absent`, or values and
    whether they end.
    """
    there = state != "absent"
    if call is None:  # the end of lives
        return "absent" if there and state[1] else state
    if isinstance(call, Read):
        return state if result in {None, state[0] if there else "absent"} else None
    if isinstance(call, Glance):
        return state if result in {None, "there" if there else "absent"} else None
    if isinstance(call, Increase):
        return state
    if isinstance(call, DeleteRow):
        return "absent"
    if isinstance(call, Insert):
        if result in (None, UNKNOWN):
            return state if there else _values(call.write)
        if result == "exists":
            return state if there else None
        return None if there and not over else _values(call.write)
    if isinstance(call, PutObject):
        return _values(call)
    if result == "not found":
        return None if there else state
    if result == REFUSED:
        return state
    if not there:
        return None if result is not None else state
    values = tuple(sorted({**dict(state[0]), **call.changes}.items()))
    return values, state[1] or call.ttl is not None


def _replaces(call: Call) -> bool:
    """Whether a call may hide or replace what an insert has put."""
    return isinstance(call, DeleteRow | PutObject)


def _expires(call: Call) -> bool:
    ttl = getattr(call.write if isinstance(call, Insert) else call, "ttl", None)
    return ttl is not None


def _values(write: PutObject) -> Any:
    values = {name: getattr(write.subject, name) for name in hb.schema.schema_of(type(write.subject)).by_name}
    return tuple(sorted(values.items())), write.ttl is not None


def reader_of(binding: Binding) -> RowDecoder:
    """As sessions read whole rows."""
    return binding.reader


def glance_of(binding: Binding) -> RowDecoder:
    """As queries read a projection."""
    return RowDecoder.of(binding.schema, binding.indexed, frozenset({"note"}), binding.adopting)


class PageIndexed(IndexedRowPlanner):
    """As if the page were indexed: a delete leaves its empty cell, and every update of it puts the version too. It
    has no entries.
    """

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        column = self.schema.by_name["page"].column
        for name, value in (("group", frozenset({"page"})), ("group_columns", frozenset({column}))):
            object.__setattr__(self, name, value)


@frozen
class Rules:
    """The code under test, or a mutant of it.

    Attributes:
        writer: plans mutations.
        around: changes what a protocol does.
        ticks: whether the store lets the clock tick after a delete at its own time.
        marking: whether writers that mark rows do so.
        mixed: whether writers of indexed rows heed that others still write without system cells.
        indexer: makes the system cells of rows that have none.
        indexed: plans mutations of rows with system cells.
        reader: decodes whole rows.
        glance: decodes the notes alone.
    """

    writer: type[UnindexedRowPlanner] = UnindexedRowPlanner
    around: Callable[[Any], Any] = lambda protocol: protocol
    ticks: bool = True
    marking: bool = True
    mixed: bool = True
    indexer: type[RowIndexer] = RowIndexer
    indexed: type[IndexedRowPlanner] = IndexedRowPlanner
    reader: Callable[[Binding], RowDecoder] = reader_of
    glance: Callable[[Binding], RowDecoder] = glance_of


SHIPPED = Rules()


@once
def _pools() -> dict[Any, Pool]:
    return {}


def _pool(of: Any) -> Pool:
    """The stores of models in which the same rows may be seen."""
    pools = _pools()
    if of not in pools or pools[of].full:
        pools[of] = Pool()
    return pools[of]


class RowModel(Model):
    """The checker over calls of one row."""

    def __init__(
        self,
        model: Any,
        begin: str,
        programs: Sequence[Sequence[str]],
        can: Capabilities = ATOMIC,
        rules: Rules = SHIPPED,
        *,
        crashes: int = 0,
        ends: bool = True,
        ticks: int = 1,
        distinct: bool = False,
        rows: Sequence[RowState] = (),
        first: int = 0,
        before: RowState | None = None,
        adopt: bool = False,
        presence: bool = False,
        exact: bool = False,
    ) -> None:
        """`presence` compares only whether the row exists, if a call changes its cells one by one; `exact` is as for
        `explained`.

        `rows` is the state of the table that each program knows.

        The earlier calls were made by the program `first`, or by one that knew `before`. With `adopt` a build adopts
        the row; in the end it is then read as that of an indexed table too.
        """
        rows = rows or ["unindexed"] * len(programs)
        known = calls_of(model)
        self._model, self._whole, self._presence, self._exact = model, can.check_and_mutate, presence, exact
        self._readers = [
            rules.reader(Binding(hb.schema.schema_of(model), (), (), (), state)) for state in dict.fromkeys(rows)
        ]
        self._adopted = Binding(hb.schema.schema_of(model), (), (), (), "indexed").reader if adopt else None
        self._calls = {10 * n + at: known[name] for n, names in enumerate(programs, 1) for at, name in enumerate(names)}
        self._drawn = frozenset(number for number in self._calls if rows[number // 10 - 1] not in AT_SERVER_TIME)
        self._first, self._explained = "absent", {}
        store: Any = {CELLS: (), TOMBSTONES: (-1, ()), CLOCK: BEGINS, HISTORY: (), DISTINCT: int(distinct)}
        for name in [] if begin == "absent" else begin.split(", "):
            for step in _alone(caller(model, 0, [known[name]], can, rules, before or rows[first])(), store):
                assert step
            self._first = _carried_out(known[name], None, self._first)
            store[HISTORY] = ()
            store[CLOCK] += 1
        processes: list[Any] = [
            (f"W{n}", caller(model, n, [known[name] for name in names], can, rules, rows[n - 1]), 0)
            for n, names in enumerate(programs, 1)
        ]
        processes += [("T", _time(ticks, ends), 0)]
        if adopt:
            processes += [("B", adopter(model, rules), 0)]
        super().__init__(store, processes, crashes, _pool((model, self._whole, adopt, *dict.fromkeys(rows))))
        self.terminals = {}  # what is right in the end depends on the calls

    def broken(self, store: Any) -> str | None:
        """A row that no reader may see, and an expiring row that programs of an indexed table treat as lasting."""
        found = "absent" if EXPIRY in dict(store[HISTORY]) else self._shown(store)
        if found == "incomplete" and self._whole:
            return "INCOMPLETE: a row lacks some of its required columns"
        return None if self._adopted is None else _unsaid_end(store, self._adopted.schema.liveness_column)

    def acknowledged(self, store: Any, step: Step) -> Any:
        """With the result of a call. Where it came later, fewer calls would have to come after it: nothing else
        would be different.
        """
        _done(store, step)
        return store

    def over(self, store: Any, process: int) -> bool:
        """A history does not say whether a program has died."""
        return True

    def _shown(self, store: Any) -> Any:
        cells = visible(store)
        found = [shown(reader, StoredRow(b"k", cells) if cells else None) for reader in self._readers]
        return found[0] if found.count(found[0]) == len(found) else f"different: {found}"

    def terminal(self, store: Any) -> str | None:
        """Answers that no order of the calls gives."""
        late = store.get(LATE, ())
        if any(
            number in self._drawn or _expires(call) or isinstance(call, Insert)
            for number in late
            for call in [self._calls[number]]
        ):
            return None  # a life must be longer than the call that begins it, or that goes by its end
        if any(isinstance(self._calls[number], UpdateFields) for number in late) and any(
            map(_expires, self._calls.values())
        ):
            return None  # and longer than an update under way, which has read a row that does not end
        key = (store[HISTORY], self._shown(store))
        if self._adopted is not None:
            cells = visible(store)
            found = shown(self._adopted, StoredRow(b"k", cells) if cells else None)
            if found != key[1]:
                return f"UNADOPTED: {key[1]} reads as {found} once the table is indexed"
        if key not in self._explained:
            self._explained[key] = explained(
                self._calls, dict(key[0]), key[1], self._first, self._drawn, self._presence, self._exact
            )
        if self._explained[key]:
            return None
        return f"UNEXPLAINED: {key[1]} after {[(n, result) for n, (_, result) in key[0]]}"


@once
def _time(ticks: int, ends: bool) -> Callable[[], Steps]:
    def run() -> Steps:
        for _ in range(ticks):
            yield ("tick", 1)
        if ends:
            yield ("tick", LATER)

    return run


def _alone(steps: Steps, store: Any) -> Iterator[Step]:
    answer: Any = None
    try:
        while True:
            step = steps.send(answer)
            answer = None if step[0] == "acknowledge" else mc.apply_op(store, step, 0)
            yield step
    except StopIteration:
        return
