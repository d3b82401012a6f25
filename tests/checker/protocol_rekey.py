"""Moves to another key in the model checker: the shipped generators, concurrent with writers, readers and other moves,
and the invariants.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

import hbmodel as hb
from hbmodel.errors import HbmodelError
from hbmodel.mapping.rows.covering import EntryDecoder, fields_held, verification
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.indexed.entry_verifier import CoveringReader, EntryScope, EntryVerifier
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed.indexed_write import insert_indexed, write_indexed_batch
from hbmodel.protocol.operations import (
    Acknowledge,
    AskIfAhead,
    CheckAndMutate,
    CheckAndMutateRows,
    CheckLease,
    DeleteRows,
    GetRows,
    LetClockTick,
    Operation,
    Protocol,
    PutRows,
    ReadClock,
    Together,
)
from hbmodel.protocol.relocation.rekey import Move, rekey
from hbmodel.protocol.relocation.rekey_indexed_steps import IndexedMover, VersionedMover
from hbmodel.protocol.relocation.rekey_steps import RowMover, UnindexedMover
from hbmodel.protocol.server_timed.unindexed_insert import insert_unindexed
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.server_timed.unindexed_write import write_unindexed_batch
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.versioned.versioned_write import insert_versioned, write_versioned_batch
from hbmodel.protocol.writes import DeleteRow, Outcome, UpdateFields, put_object
from hbmodel.store import Put
from hbmodel.store.ranges import KeyRange
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import BOUND, END, Steps, Told, mc
from tests.checker.protocol_rekey_models import COVERED, EXACT, LIVES, MODELS
from tests.checker.protocol_rekey_rows import ANOTHER, OUTCOME, SAME, SERVER, THE, place_of, row_of
from tests.checker.protocol_rekey_watch import RekeyModel, Watch
from tests.checker.protocol_unindexed import ATOMIC


@frozen
class Rules:
    """The code under test: the shipped one, or a mutant of it.

    Attributes:
        bare: moves rows without system cells.
        indexed: moves rows where the last write wins.
        versioned: moves versioned rows.
        planner: plans what other programs write where the last write wins.
        frozen: whether writers of versioned rows heed marks.
        around: changes what a move does.
        inserts: changes what an insert of the object that moves does.
        new_first: whether a reader looks under the new key first.
        exact: whether no write is lost where the last write wins.
    """

    bare: type[UnindexedMover] = UnindexedMover
    indexed: type[IndexedMover[Any]] = IndexedMover
    versioned: type[VersionedMover] = VersionedMover
    planner: type[IndexedRowPlanner] = IndexedRowPlanner
    frozen: bool = True
    around: Callable[[Protocol[Any]], Protocol[Any]] = lambda protocol: protocol
    inserts: Callable[[Protocol[Any]], Protocol[Any]] = lambda protocol: protocol
    new_first: bool = False
    exact: bool = False


SHIPPED = Rules()


def _single(operation: Operation) -> Iterator[Operation]:
    """The calls of an operation, each on one row."""
    match operation:
        case PutRows(table, puts):
            yield from (PutRows(table, [put]) for put in puts)
        case DeleteRows(table, deletes):
            yield from (DeleteRows(table, [delete]) for delete in deletes)
        case Together(operations):
            for one in operations:
                yield from _single(one)
        case _:
            yield operation


def driven(who: str, protocol: Protocol[Any], reading: int) -> Steps:
    """A protocol as steps; notes what it ends in, or acknowledges."""
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            if isinstance(stop.value, Outcome):  # an insert without system cells acknowledges nothing
                yield ("moving_ended", who, stop.value.action)
            return
        except HbmodelError as error:
            yield ("moving_ended", who, type(error).__name__)
            return
        answer = None
        if isinstance(operation, ReadClock):
            answer = reading
        elif isinstance(operation, AskIfAhead):
            answer = None
        elif isinstance(operation, CheckLease):
            answer = True
        elif isinstance(operation, Acknowledge):
            (outcome,) = operation.outcomes
            outcome = getattr(outcome, "outcome", outcome)
            yield ("moving_ended", who, outcome.action if outcome.error is None else type(outcome.error).__name__)
        elif isinstance(operation, GetRows):
            answer = []
            for row in operation.rows:
                cells = yield Told(("moving", GetRows(operation.table, (row,), tuple(operation.columns))))
                answer.append(row_of(row, cells))
        elif isinstance(operation, CheckAndMutateRows):
            answer = []
            for change in operation.changes:
                one = CheckAndMutate(operation.table, change.row, change.column, change.expected, change.mutations)
                answer.append((yield Told(("moving", one))) or None)
        elif not isinstance(operation, LetClockTick):
            steps = tuple(Told(("moving", one)) for one in _single(operation))
            answer = yield steps[0] if len(steps) == 1 else ("par", steps)


def nonces_of(number: int) -> Callable[[], bytes]:
    drawn = itertools.count(1)
    return lambda: bytes((number, next(drawn))) + bytes(6)


def planner_of(
    schema: TableSchema, number: int, moving: bool, made: type[IndexedRowPlanner] = IndexedRowPlanner
) -> Any:
    indexes = tuple(schema.indexes.values())
    if schema.versioned:
        return VersionedRowPlanner(schema, indexes, BOUND, nonces_of(number), patience=0, claim_rounds=2, moving=moving)
    return made(schema, indexes, BOUND, nonces_of(number))


def _mover(kind: str, number: int, rules: Rules) -> RowMover:
    schema = hb.schema.schema_of(MODELS[kind])
    reader = RowDecoder.of(schema, bool(schema.indexes) or schema.versioned)
    if not schema.indexes:
        writer = UnindexedRowPlanner(schema, nonces_of(number))
        return rules.bare(reader, writer, schema.required_columns[0], BOUND, nonce=nonces_of(number + 50))
    made = rules.versioned if schema.versioned else rules.indexed
    return made(reader, planner_of(schema, number, moving=True), nonce=nonces_of(number + 50))


@once
def mover(kind: str, number: int, new: str, rules: Rules, old: str = "k") -> Callable[[], Steps]:
    """`Session.rekey`."""
    model = MODELS[kind]
    move = Move(
        place_of(model, old), place_of(model, new), {"name": new}, one_row=hb.schema.schema_of(model).wide is not None
    )

    def run() -> Steps:
        yield from driven(f"move {number}", rules.around(rekey(_mover(kind, number, rules), move)), 12)

    return run


@once
def writer(kind: str, number: int, call: str, name: str, rules: Rules) -> Callable[[], Steps]:
    """Another program: `tag`, `delete`, `insert` or `take` (an insert with the value of the object that moves)."""
    model = MODELS[kind]
    schema, row = hb.schema.schema_of(model), place_of(model, name)

    def protocol() -> Protocol[Any]:
        planner = planner_of(schema, number, not rules.frozen, rules.planner) if schema.indexes else None
        if call in {"insert", "take"}:
            write = put_object(schema, model(name=name, who=ANOTHER, tag=1 if call == "take" else 9))
            if schema.versioned:
                return insert_versioned(planner, write, {})
            return (
                insert_unindexed(UnindexedRowPlanner(schema, nonces_of(number)), write, b"d:w", BOUND)
                if planner is None
                else insert_indexed(planner, write)
            )
        one: Any = DeleteRow(None, row) if call == "delete" else UpdateFields(None, row, {"name": name}, {"tag": 5})
        if schema.versioned:
            return write_versioned_batch(planner, [one], {})
        if planner is None:
            return write_unindexed_batch(UnindexedRowPlanner.of(schema), [one], BOUND, ATOMIC)
        return write_indexed_batch(planner, [one], True)

    def run() -> Steps:
        if call == "delete":
            yield ("moving_deleting",)
        yield from driven(f"{call} {name}", protocol(), 14 if kind in LIVES else 12)  # later: what it puts hides more

    return run


@once
def change(kind: str) -> Callable[[], Steps]:
    """An update of the old row in one call."""
    model = MODELS[kind]

    def run() -> Steps:
        row = place_of(model, "k")
        yield Told(
            (
                "moving",
                CheckAndMutate(hb.schema.schema_of(model).table, row, b"d:w", b"\x01", [Put(row, {b"d:t": b"\x05"})]),
            )
        )

    return run


@once
def reader(kind: str, new: str, rules: Rules) -> Callable[[], Steps]:
    """Looks under the old key, and then under the new one."""
    model = MODELS[kind]
    schema = hb.schema.schema_of(model)
    decoder = RowDecoder.of(schema, bool(schema.indexes) or schema.versioned)

    def run() -> Steps:
        for name in (new, "k") if rules.new_first else ("k", new):
            cells = yield Told(("moving", GetRows(schema.table, (place_of(model, name),), ())))
            row = row_of(place_of(model, name), cells)
            if row is not None and decoder.exists(row):
                return
        yield ("moving_missed",)

    return run


@once
def query(kind: str, new: str) -> Callable[[], Steps]:
    """A query that the index covers: the entry of the old row, and then the entry of the new row, which follows it in
    the index.
    """
    model = MODELS[kind]
    schema = hb.schema.schema_of(model)
    index, keys = schema.indexes["by_tag"], KeyMapper(schema)
    held = fields_held(schema, index)
    rows = RowDecoder(schema, True, held | index.reads)
    verifier = EntryVerifier(schema, index, rows, lambda values: bool(values["who"] == THE), EntryScope([KeyRange()]))
    covering = CoveringReader(EntryDecoder(schema, index, held), None, verifier)

    def asked(found: list[Any]) -> Protocol[None]:
        for name in ("k", new):
            (key,) = keys.entries(index, {"name": name, "who": THE, "tag": 1}, place_of(model, name))
            (entry,) = yield GetRows(index.table, [key], [])
            if entry is not None:
                found += yield from covering.read([entry])

    def run() -> Steps:
        found: list[Any] = []
        yield from driven("query", asked(found), 12)
        if not any(values is not None and values["who"] == THE for values in found):
            yield ("moving_missed",)

    return run


def beginning(kind: str) -> dict[Any, Any]:
    """A store with only the object."""
    model = MODELS[kind]
    schema = hb.schema.schema_of(model)
    store: dict[Any, Any] = {SERVER: 10}
    write = put_object(schema, model(name="k", who=THE, tag=1), END // 2 if kind in LIVES else None)
    if schema.versioned:
        protocol: Protocol[Any] = insert_versioned(planner_of(schema, 90, moving=False), write, {})
    elif schema.indexes:
        protocol = insert_indexed(planner_of(schema, 90, moving=False), write)
    else:
        protocol = insert_unindexed(UnindexedRowPlanner(schema, nonces_of(90)), write, b"d:w", BOUND)
    steps, answer = driven("begin", protocol, 5), None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            break
        answers = [mc.apply_op(store, part) for part in (step[1] if step[0] == "par" else (step,))]
        answer = answers[0] if len(answers) == 1 else None
    store.pop((OUTCOME, "begin"), None)
    return store


def marked(kind: str) -> dict[Any, Any]:
    """A store with only the object, after a program died that was moving it and had marked the old row."""
    store = beginning(kind)
    steps, answer = mover(kind, 9, "m", SHIPPED)(), None
    while True:
        step = steps.send(answer)
        answers = [mc.apply_op(store, part) for part in (step[1] if step[0] == "par" else (step,))]
        answer = answers[0] if len(answers) == 1 else None
        if step[0] != "par" and isinstance(step[1], CheckAndMutate):
            return store


def repaired(kind: str) -> dict[Any, Any]:
    """The same, and a repair has verified the entries of the marked row."""
    store, schema = marked(kind), hb.schema.schema_of(MODELS[kind])
    planner, row = planner_of(schema, 91, moving=True), place_of(MODELS[kind], "k")
    cells = mc.apply_op(store, Told(("moving", GetRows(schema.table, (row,), ()))))
    puts = [
        (table, verification(schema, put)) for table, put in planner.current_entries(planner.old(row_of(row, cells)))
    ]
    for table, put in puts:
        mc.apply_op(store, Told(("moving", PutRows(table, [put]))))
    return store


BESIDE: Mapping[str, Sequence[tuple[str, str]]] = {
    "nobody": (), "an update of the old key": (("tag", "k"),), "an update of the new key": (("tag", "m"),),
    "a delete of the old key": (("delete", "k"),), "an insert of the new key": (("insert", "m"),),
}  # fmt: skip
"""What other programs do, by name: calls and keys."""

ALSO: Mapping[str, tuple[str, ...]] = {"one": ("m",), "twice": ("m", "m"), "two ways": ("m", "n")}
"""Where moves of the object go."""


def moves(
    kinds: Sequence[str] = tuple(MODELS),
    beside: Sequence[str] = tuple(BESIDE),
    also: Sequence[str] = tuple(ALSO),
    rules: Rules = SHIPPED,
    crashes: int = 1,
    *,
    reads: bool = True,
) -> Iterator[tuple[str, RekeyModel]]:
    """Moves of one object, concurrent with other writers and a reader."""
    for kind, others, ways in itertools.product(kinds, beside, also):
        if hb.schema.schema_of(MODELS[kind]).immutable and others.startswith("an update"):
            continue
        store = beginning(kind)
        if ways == "twice" and not others.startswith("an insert"):
            store[SAME] = 1
        running: list[Any] = [(f"W{n}", mover(kind, n, new, rules), 12) for n, new in enumerate(ALSO[ways], 1)]
        running += [(f"W{n}", writer(kind, n, *call, rules), 12) for n, call in enumerate(BESIDE[others], 5)]
        if reads and others == "nobody" and ways == "one":
            running.append(("R", reader(kind, "m", rules), 0))
            if kind in COVERED:
                running.append(("R2", query(kind, "m"), 0))
        exact = kind in EXACT or rules.exact
        yield f"{kind}, {others}, {ways}", RekeyModel(Watch(kind, exact), store, running, crashes)


def renewals(kind: str, rules: Rules = SHIPPED, crashes: int = 0) -> Iterator[tuple[str, RekeyModel]]:
    """Two calls that end a move, and an update of the old row that only one of them may have seen."""
    running: list[Any] = [(f"W{n}", mover(kind, n, "m", rules), 12) for n in (1, 2)]
    running.append(("W5", change(kind), 12))
    yield (
        f"{kind}, a move that is ended twice",
        RekeyModel(Watch(kind, kind in EXACT), {**marked(kind), SAME: 1}, running, crashes),
    )


def refusals(kind: str, rules: Rules = SHIPPED, crashes: int = 1) -> Iterator[tuple[str, RekeyModel]]:
    """A call that ends a move of a row whose entries were verified since, and an insert of the new key, which takes
    the mark away.
    """
    ends: list[Any] = [("W1", mover(kind, 1, "m", rules), 12)]
    for name, beside in (("ended", []), ("refused", [("W5", writer(kind, 5, "insert", "m", rules), 12)])):
        yield (
            f"{kind}, a move that is {name}",
            RekeyModel(Watch(kind, kind in EXACT), repaired(kind), [*ends, *beside], crashes),
        )


def values(
    rules: Rules = SHIPPED, crashes: int = 1, calls: Sequence[str] = ("take", "tag k", "tag m")
) -> Iterator[tuple[str, RekeyModel]]:
    """Moves of an object with a unique value, concurrent with a program that wants the value, and one that may give it
    up.
    """
    store = beginning("unique")
    for call in calls:
        running: list[Any] = [
            ("W1", mover("unique", 1, "m", rules), 12),
            ("W5", writer("unique", 5, "take", "o", rules), 12),
        ]
        if call != "take":
            running.append(("W6", writer("unique", 6, *call.split(), rules), 12))
        yield f"a unique value, {call}", RekeyModel(Watch("unique", True), store, running, crashes)
