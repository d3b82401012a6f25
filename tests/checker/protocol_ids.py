"""The protocols that give ids in the model checker: names that several programs claim at once, and blocks of a
sequence.

Programs die at any moment, answers get lost, so that a call is made twice, and a call whose answer was lost may arrive
later than everything else. A counter may have been set back, and a program that died may have left half of a claim.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

import hbmodel as hb
from hbmodel.mapping.declare.dictionary_tables import Counter, DictionaryTables, tables_of
from hbmodel.protocol.id_assignment import claim_name
from hbmodel.protocol.id_block import take_block
from hbmodel.protocol.operations import CheckAndPut, GetRows, Increment, Operation, PutRows
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import Step, Steps, StoredCell, StoredRow, mc
from tests.checker.search import Model

TABLES = tables_of(hb.ids.dictionary("names", hb.codecs.UInt8))
COUNTER, USED, TAKEN, LATE = ("counter", 0), ("used", 0), ("taken", 0), ("late", 0)

Cells = Mapping[tuple[str, bytes], bytes]


def _id(number: int) -> bytes:
    return TABLES.packed(number)


EMPTY: dict[Any, Any] = {COUNTER: 0, USED: (), TAKEN: (), LATE: None}
CLAIMED = {(TABLES.id_table, _id(1)): b"a", (TABLES.name_table, b"a"): _id(1)}
STORES: Mapping[str, dict[Any, Any]] = {
    "empty": EMPTY,
    "a claimed": {**EMPTY, **CLAIMED, COUNTER: 1},
    "a half claimed": {**EMPTY, (TABLES.id_table, _id(1)): b"a", COUNTER: 1},
    "set back": {**EMPTY, **CLAIMED, COUNTER: 0},
    "set back, a half claimed": {**EMPTY, (TABLES.id_table, _id(1)): b"a", COUNTER: 0},
}


@frozen
class Rules:
    """The code under test, or a mutant of it."""

    claim: Callable[[DictionaryTables, str], Any] = claim_name
    block: Callable[[Counter, int], Any] = take_block


SHIPPED = Rules()


# --- the store --------------------------------------------------------------------------------------------------------


def _call(operation: Operation) -> tuple[Any, ...]:
    """An operation as a value: what it does, where, and with what."""
    match operation:
        case Increment(amount=amount):
            return ("increment", COUNTER, amount)
        case GetRows(table, (row,), _):
            return ("get", COUNTER if table == TABLES.counter.table else (table, row), None)
        case CheckAndPut(table, row, _, _, put):
            return ("put if absent", (table, row), *put.cells.values())
        case PutRows(table, (put,)):
            return ("put", COUNTER if table == TABLES.counter.table else (table, put.row), *put.cells.values())
    raise AssertionError(operation)


def _step(store: Any, step: Step) -> Any:
    kind, key, value = step[1]
    if kind == "increment":
        store[key] += value
        return store[key]
    if kind == "get" or (kind == "put if absent" and key in store):
        return store.get(key) if kind == "get" else False
    store[key] = value
    return True


def _lost(store: Any, step: Step) -> None:
    """A call that may arrive at any time from now on."""
    store[LATE] = step[1]


def _arrives(store: Any, step: Step) -> None:
    if store[LATE] is not None:
        _step(store, ("ids", store[LATE]))
        store[LATE] = None


def _used(store: Any, step: Step) -> None:
    store[USED] = tuple(sorted({*store[USED], step[1:]}))


def _taken(store: Any, step: Step) -> None:
    store[TAKEN] = tuple(sorted((*store[TAKEN], *step[1])))


mc.OPS.update(ids=_step, lost_call=_lost, arrives=_arrives, used=_used, taken=_taken)


# --- processes --------------------------------------------------------------------------------------------------------


def _carried_out(protocol: Any, lost: int | None, later: bool) -> Iterator[Any]:
    """Runs a protocol. The answer to call number `lost` is lost, so that the call is repeated, and the first call may
    arrive later.
    """
    answer: Any = None
    for at in itertools.count():
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        if at == lost:
            yield ("lost_call" if later else "ids", _call(operation))
        answer = yield ("ids", _call(operation))
        if isinstance(operation, GetRows) and operation.table != TABLES.counter.table:
            column = operation.columns[0]
            answer = [None if answer is None else StoredRow(operation.rows[0], {column: StoredCell(answer, 1)})]


@once
def claimant(names: Sequence[str], rules: Rules, lost: int | None, later: bool) -> Callable[[], Steps]:
    """A program that claims names one after the other, and uses their ids."""

    def run() -> Steps:
        for name in names:
            number = yield from _carried_out(rules.claim(TABLES, name), lost, later)
            yield ("used", name, number)

    return run


@once
def taker(blocks: int, rules: Rules, lost: int | None, later: bool) -> Callable[[], Steps]:
    """A program that takes blocks of two ids."""

    def run() -> Steps:
        for _ in range(blocks):
            block = yield from _carried_out(rules.block(TABLES.counter, 2), lost, later)
            yield ("taken", tuple(block))

    return run


@once
def network() -> Callable[[], Steps]:
    """Hands over what was on its way."""

    def run() -> Steps:
        yield ("arrives",)

    return run


# --- what must hold ---------------------------------------------------------------------------------------------------


class IdModel(Model):
    """The checker over programs that give ids."""

    def broken(self, store: Any) -> str | None:
        """An id with no name or with two names, and a name with two ids."""
        for (table, row), value in store.items():
            if table == TABLES.name_table and store.get((TABLES.id_table, value)) != row:
                return f"NAMELESS: the id of {row!r} has the name {store.get((TABLES.id_table, value))!r}"
        names = [name for name, _ in store[USED]]
        numbers = [number for _, number in store[USED]]
        if len(set(names)) < len(names) or any(
            store.get((TABLES.name_table, n.encode())) != _id(i) for n, i in store[USED]
        ):
            return f"TWO IDS: {store[USED]}"
        if len(set(numbers)) < len(numbers):
            return f"TWO NAMES: {store[USED]}"
        return f"TWICE: {store[TAKEN]}" if len(set(store[TAKEN])) < len(store[TAKEN]) else None

    def over(self, store: Any, process: int) -> bool:
        """A program that has died does nothing more."""
        return True


def _models(
    store: str, programs: Sequence[Callable[[int | None, bool], Any]], crashes: int
) -> Iterator[tuple[str, IdModel]]:
    """Without a lost answer, and with each answer to the first program lost."""
    for lost, later in ((None, False), *itertools.product(range(6), (False, True))):
        starts = [program(lost if number == 0 else None, later) for number, program in enumerate(programs)]
        processes: list[Any] = [(f"W{number}", start, 0) for number, start in enumerate(starts)]
        if later:
            processes.append(("N", network(), 0))
        yield f"{store}, answer {lost} lost{', late' * later}", IdModel(STORES[store], processes, crashes)


def claims(
    rules: Rules = SHIPPED,
    programs: Iterable[Sequence[Sequence[str]]] = (),
    stores: Iterable[str] = STORES,
    crashes: int = 1,
) -> Iterator[tuple[str, IdModel]]:
    """Programs that claim names."""
    for store, those in itertools.product(stores, programs or PROGRAMS):
        made = [lambda lost, later, names=names: claimant(names, rules, lost, later) for names in those]
        for name, model in _models(store, made, crashes):
            yield f"{those}: {name}", model


PROGRAMS = ((("a",), ("a",)), (("a",), ("b",)), (("a", "b"), ("b", "a")), (("a",), ("a",), ("b",)))
MORE = ((("a",), ("a",), ("a",)), (("a", "b"), ("b", "a"), ("a",)), (("b",), ("a", "b"), ("c",)))


def blocks(rules: Rules = SHIPPED, crashes: int = 1) -> Iterator[tuple[str, IdModel]]:
    """Programs that take blocks of a sequence."""
    yield from _models("empty", [lambda lost, later: taker(2, rules, lost, later)] * 3, crashes)


# --- rules broken on purpose ------------------------------------------------------------------------------------------


@frozen
class Mutant:
    """One rule broken, see `protocol_mutants`."""

    rules: Rules
    where: Callable[[Rules], Iterable[Any]]
    violation: str


def _changed(change: Callable[[Operation], Any]) -> Callable[[DictionaryTables, str], Any]:
    """A claim in which `change` replaces some operations: its result is yielded instead of the operation, or is the
    answer to the operation if it is a bool.
    """

    def claim(of: DictionaryTables, name: str) -> Any:
        protocol, answer = claim_name(of, name), None
        while True:
            try:
                operation = protocol.send(answer)
            except StopIteration as stop:
                return stop.value
            for each in change(operation):
                answer = each if isinstance(each, bool) else (yield each)

    return claim


def _unchecked(table: str) -> Callable[[Operation], Any]:
    """Puts whatever is there."""

    def change(operation: Operation) -> Any:
        if isinstance(operation, CheckAndPut) and operation.table == table:
            return [PutRows(table, [operation.put]), True]
        return [operation]

    return change


def _refusals_ignored(table: str) -> Callable[[Operation], Any]:
    """Goes on as if the check had held."""

    def change(operation: Operation) -> Any:
        return [operation, True] if isinstance(operation, CheckAndPut) and operation.table == table else [operation]

    return change


def _name_first(of: DictionaryTables, name: str) -> Any:
    """The name gets its id before the id has the name."""
    held: list[Operation] = []

    def change(operation: Operation) -> Any:
        if isinstance(operation, CheckAndPut) and operation.table == of.id_table:
            held.append(operation)
            return [True]
        return [operation, *held, True] if isinstance(operation, CheckAndPut) else [operation]

    return (yield from _changed(change)(of, name))


def _id_only(of: DictionaryTables, name: str) -> Any:
    """An id is used once it has the name, though the name may have another one."""
    row = name.encode()
    (found,) = yield GetRows(of.name_table, [row], [of.id_column])
    if found is not None:
        return of.ids.decode(found.columns[of.id_column].value)
    protocol = claim_name(of, name)
    operation, answer = next(protocol), None
    while not (isinstance(operation, CheckAndPut) and operation.table == of.name_table):
        answer = yield operation
        if isinstance(answer, list) and operation.table == of.name_table and answer[0] is not None:
            return of.ids.decode(answer[0].columns[of.id_column].value)
        operation = protocol.send(answer)
    claimed = operation.put.cells[of.id_column]
    yield operation
    return of.ids.decode(claimed)


def _read_and_written(counter: Counter, count: int) -> Any:
    """The counter is read, then put."""
    last = yield GetRows(counter.table, [counter.row], [counter.column])
    yield PutRows(counter.table, [hb.store.Put(counter.row, {counter.column: last + count})])
    return range(last + 1, last + count + 1)


def _overlapping(counter: Counter, count: int) -> Any:
    """A block begins with the last id of the previous block."""
    last = yield Increment(counter.table, counter.row, counter.column, count)
    return range(last - count, last + 1)


def _few(rules: Rules) -> Iterator[Any]:
    return claims(rules, PROGRAMS[:3])


def _set_back(rules: Rules) -> Iterator[Any]:
    return claims(rules, PROGRAMS[1:3], ("set back",))


MUTANTS: Mapping[str, Mutant] = {
    "a name gets its id first": Mutant(Rules(claim=_name_first), _few, "NAMELESS"),
    "an id is put over another's": Mutant(Rules(claim=_changed(_unchecked(TABLES.id_table))), _set_back, "NAMELESS"),
    "a name's id is put over another": Mutant(Rules(claim=_changed(_unchecked(TABLES.name_table))), _few, "TWO IDS"),
    "an id that another name has is used": Mutant(
        Rules(claim=_changed(_refusals_ignored(TABLES.id_table))), _set_back, "NAMELESS"
    ),
    "a loser uses its own id": Mutant(Rules(claim=_changed(_refusals_ignored(TABLES.name_table))), _few, "TWO IDS"),
    "nobody looks who has won": Mutant(Rules(claim=_id_only), _few, "TWO IDS"),
    "a counter is read and put": Mutant(Rules(block=_read_and_written), blocks, "TWICE"),
    "blocks overlap": Mutant(Rules(block=_overlapping), blocks, "TWICE"),
}
