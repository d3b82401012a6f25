"""Moves to another key in the model checker: the shipped generators beside writers, readers and other moves, and what must hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

import hbmodel as hb
from hbmodel.errors import HbmodelError
from hbmodel.mapping.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed_write import insert_indexed, write_indexed_batch
from hbmodel.protocol.move_marks import mark_of
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutate,
    CheckAndMutateRows,
    CheckLease,
    DeleteRows,
    GetRows,
    LetClockTick,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    ReadClock,
    ReadRunningTime,
    Together,
)
from hbmodel.protocol.rekey import Move, rekey
from hbmodel.protocol.rekey_indexed import IndexedMover, VersionedMover
from hbmodel.protocol.rekey_rows import RowMover, UnindexedMover
from hbmodel.protocol.server_time import MOVED, OWN, STAMP_LIFE
from hbmodel.protocol.unindexed_insert import insert_unindexed
from hbmodel.protocol.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.unindexed_write import write_unindexed_batch
from hbmodel.protocol.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.versioned_write import insert_versioned, write_versioned_batch
from hbmodel.protocol.writes import DeleteRow, Outcome, UpdateFields, put_object
from hbmodel.store import Delete, Put
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import BOUND, Step, Steps, StoredCell, StoredRow, Told, mc
from tests.checker.protocol_unindexed import ATOMIC
from tests.checker.search import Model


@hb.model(table="moved", family="d")
class Bare:
    """No index."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.UInt8)


@hb.model(table="moved_indexed", family="d")
class Indexed:
    """One index; the last write wins."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.UInt8)

    by_tag = hb.index("tag")


@hb.model(table="moved_fact", family="d", immutable=True)
class Fact:
    """One index of rows that never change."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.UInt8)

    by_tag = hb.index("tag")


@hb.model(table="moved_versioned", family="d")
class Versioned:
    """One index, and a version."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.UInt8)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag")


@hb.model(table="moved_unique", family="d")
class Unique:
    """One unique index."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.UInt8)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", unique=True)


@hb.model(table="moved_wide", family="d", row=b"r")
class Wide:
    """Objects of one row; the last write wins."""

    name: hb.Key[str] = hb.key(part="column")
    who: hb.Column[int] = hb.column("w", hb.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.UInt8)

    by_tag = hb.index("tag")


@hb.model(table="moved_wide_bare", family="d", row=b"r")
class WideBare:
    """Objects of one row without an index."""

    name: hb.Key[str] = hb.key(part="column")
    who: hb.Column[int] = hb.column("w", hb.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.UInt8)


@hb.model(table="moved_wide_versioned", family="d", row=b"r")
class WideVersioned:
    """Objects of one row that has a version."""

    name: hb.Key[str] = hb.key(part="column")
    who: hb.Column[int] = hb.column("w", hb.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.UInt8)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag")


MODELS: Mapping[str, type[Any]] = {
    "bare": Bare, "indexed": Indexed, "fact": Fact, "versioned": Versioned, "unique": Unique,
    "wide": Wide, "wide bare": WideBare, "wide versioned": WideVersioned,
}  # fmt: skip
EXACT = frozenset({"versioned", "unique", "wide versioned"})
"""The models that lose no write which is acknowledged."""

SERVER, DELETING, BROKEN, SAME = ("server", 0), ("deleting", 0), ("broken", 0), ("same", 0)
LATE = ("late", 0)
OUTCOME, ROW_VERSION = "outcome", "row version"
"""Keys of the checker's store: the server's clock, whether a delete has begun, what a step found wrong, whether the second
move is the first one's call once more and nothing else can be under the new key, whether so much time has passed that the cells have
expired which say who put a row, and what calls have ended in."""

THE, ANOTHER = 1, 2
"""Who: the object that moves, and others."""


@frozen
class Rules:
    """The code under test: the shipped one, or a mutant of it.

    Attributes:
        bare: moves rows without system cells.
        indexed: moves rows where the last write wins.
        versioned: moves versioned rows.
        frozen: whether writers of versioned rows heed marks.
        around: changes what a move does.
        inserts: changes what an insert of the object that moves does.
        new_first: whether a reader looks under the new key first.
        exact: whether no write is lost where the last write wins.
    """

    bare: type[UnindexedMover] = UnindexedMover
    indexed: type[IndexedMover[Any]] = IndexedMover
    versioned: type[VersionedMover] = VersionedMover
    frozen: bool = True
    around: Callable[[Protocol[Any]], Protocol[Any]] = lambda protocol: protocol
    inserts: Callable[[Protocol[Any]], Protocol[Any]] = lambda protocol: protocol
    new_first: bool = False
    exact: bool = False


SHIPPED = Rules()

# --- the store --------------------------------------------------------------------------------------------------------


def cells_of(store: Any, table: str, row: bytes, columns: Sequence[bytes] = ()) -> tuple[Any, ...]:
    """The cells that a get shows; objects of a versioned wide model show the version of their row too."""
    families = {column for column in columns if b":" not in column}
    cells = mc.vis(store, table, row) + mc.vis(store, (ROW_VERSION, table), b"")
    return tuple((c, ts, v) for c, ts, v in cells if not columns or c in columns or c.partition(b":")[0] in families)


def _apply(store: Any, table: str, mutations: Sequence[Put | Delete]) -> None:
    if any(mutation.timestamp is None for mutation in mutations):
        store[SERVER] += 1  # no two calls share a millisecond: the other tests of such rows have them do so
    for mutation in mutations:
        at = store[SERVER] if mutation.timestamp is None else mutation.timestamp
        if isinstance(mutation, Put):
            own = tuple(sorted((c, v) for c, v in mutation.cells.items() if c != b"d:_r"))
            mc._put(store, table, mutation.row, own, at)
            if b"d:_r" in mutation.cells:
                mc._put(store, (ROW_VERSION, table), b"", ((b"d:_r", mutation.cells[b"d:_r"]),), at)
        elif mutation.columns:
            for column in mutation.columns:
                mc._delcol(store, table, mutation.row, column, at)
        else:
            mc._delrow(store, table, mutation.row, at)


def _call(store: Any, step: Step) -> Any:
    match step[1]:
        case GetRows(table, (row,), columns):
            return Told(cells_of(store, table, row, columns))
        case PutRows(table, mutations) | DeleteRows(table, mutations) | MutateRow(table, mutations):
            _apply(store, table, mutations)
        case CheckAndMutate(table, row, column, expected, mutations):
            held = {c: v for c, _, v in cells_of(store, table, row)}.get(column)
            if (held or None) != expected:
                return False
            _apply(store, table, mutations)
            return True
    return None


def _ended(store: Any, step: Step) -> None:
    store[(OUTCOME, step[1])] = step[2]


def _deleting(store: Any, step: Step) -> None:
    store[DELETING] = 1


def _passed(store: Any, step: Step) -> int:
    return 2 * STAMP_LIFE * store.get(LATE, 0)


def _late(store: Any, step: Step) -> None:
    store[LATE] = 1
    store[SERVER] += 2 * STAMP_LIFE
    for place, (whole, columns) in [(of, held) for of, held in store.items() if isinstance(of[1], bytes)]:
        store[place] = whole, tuple(cell for cell in columns if not cell[0].startswith(b"d:_p") or cell[1][2] not in {OWN, MOVED})


def _looked(store: Any, step: Step) -> None:
    if not store.get(DELETING):
        store[BROKEN] = "MISSED: a reader found the object under neither key"


mc.OPS.update(moving=_call, moving_ended=_ended, moving_deleting=_deleting, moving_missed=_looked, moving_passed=_passed, moving_late=_late)

# --- processes --------------------------------------------------------------------------------------------------------


def _single(operation: Operation) -> Iterator[Operation]:
    """The calls of one row each that an operation is made of."""
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


def driven(who: str, protocol: Protocol[Any], reading: int, *, timed: bool = False) -> Steps:
    """A protocol as steps; notes what it ends in, or acknowledges. One that is `timed` may learn that it has taken too long."""
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
        elif isinstance(operation, ReadRunningTime):
            answer = (yield ("moving_passed",)) if timed else 0
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


def row_of(row: bytes, cells: Any) -> Any:
    return StoredRow(row, {c: StoredCell(v, t) for c, t, v in cells}) if cells else None


def place_of(model: type[Any], name: str) -> bytes:
    return KeyMapper(hb.schema_of(model)).rows((name,))[0]


def nonces_of(number: int) -> Callable[[], bytes]:
    drawn = itertools.count(1)
    return lambda: bytes((number, next(drawn))) + bytes(6)


def planner_of(schema: TableSchema, number: int, moving: bool) -> Any:
    indexes = tuple(schema.indexes.values())
    if schema.versioned:
        return VersionedRowPlanner(schema, indexes, BOUND, nonces_of(number), patience=0, claim_rounds=2, moving=moving)
    return IndexedRowPlanner(schema, indexes, BOUND, nonces_of(number))


def _mover(kind: str, number: int, rules: Rules) -> RowMover:
    schema = hb.schema_of(MODELS[kind])
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
    move = Move(place_of(model, old), place_of(model, new), {"name": new}, one_row=hb.schema_of(model).wide is not None)

    def run() -> Steps:
        yield from driven(f"move {number}", rules.around(rekey(_mover(kind, number, rules), move)), 12)

    return run


@once
def writer(kind: str, number: int, call: str, name: str, rules: Rules) -> Callable[[], Steps]:
    """Another program: `tag`, `delete`, `insert` or `take` (an insert with the value of the object that moves)."""
    model = MODELS[kind]
    schema, row = hb.schema_of(model), place_of(model, name)

    def protocol() -> Protocol[Any]:
        planner = planner_of(schema, number, moving=not rules.frozen) if schema.indexes else None
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
        yield from driven(f"{call} {name}", protocol(), 12)

    return run


@once
def change(kind: str) -> Callable[[], Steps]:
    """An update of the old row in one call."""
    model = MODELS[kind]

    def run() -> Steps:
        row = place_of(model, "k")
        yield Told(("moving", CheckAndMutate(hb.schema_of(model).table, row, b"d:w", b"\x01", [Put(row, {b"d:t": b"\x05"})])))

    return run


@once
def reader(kind: str, new: str, rules: Rules) -> Callable[[], Steps]:
    """Looks under the old key, and then under the new one."""
    model = MODELS[kind]
    schema = hb.schema_of(model)
    decoder = RowDecoder.of(schema, bool(schema.indexes) or schema.versioned)

    def run() -> Steps:
        for name in (new, "k") if rules.new_first else ("k", new):
            cells = yield Told(("moving", GetRows(schema.table, (place_of(model, name),), ())))
            row = row_of(place_of(model, name), cells)
            if row is not None and decoder.exists(row):
                return
        yield ("moving_missed",)

    return run


# --- what must hold ---------------------------------------------------------------------------------------------------

NAMES = ("k", "m", "n", "o")


@frozen(eq=False)
class Watch:
    """The invariants of one model.

    Attributes:
        kind: of the model.
        exact: whether no acknowledged write is lost.
    """

    kind: str
    exact: bool

    @property
    def schema(self) -> TableSchema:
        """Of the model."""
        return hb.schema_of(MODELS[self.kind])

    def rows(self, store: Any) -> dict[str, dict[str, Any]]:
        """The live rows, decoded."""
        schema = self.schema
        decoder = RowDecoder.of(schema, bool(schema.indexes) or schema.versioned)
        found = {}
        for name in NAMES:
            place = place_of(MODELS[self.kind], name)
            row = row_of(place, cells_of(store, schema.table, place))
            if row is not None and decoder.exists(row):
                found[name] = decoder.values(row)
        return found

    def broken(self, store: Any) -> str | None:
        """In every state."""
        rows = self.rows(store)
        here = [name for name, values in rows.items() if values["who"] == THE]
        return store.get(BROKEN) or next(itertools.chain(self._places(store, rows, here), self._writes(store, rows, here)), None)

    def _places(self, store: Any, rows: Mapping[str, Any], here: Sequence[str]) -> Iterator[str]:
        if not here and not store.get(DELETING):
            yield "NEITHER: the object is under no key"
        if {"m", "n"} <= set(here):
            yield "DOUBLED: the object is under two new keys"
        yield from self.together(here)
        if store.get((OUTCOME, "insert m")) == "put" and rows.get("m", {}).get("who") != ANOTHER:
            yield "TAKEN: an object that another program has put under the new key is gone"
        yield from self.without_entry(store, rows)

    def together(self, here: Sequence[str]) -> Iterator[str]:
        """Two places of the object in one row."""
        if self.schema.wide is not None and len(here) > 1:
            yield f"BOTH: the object is under {here} in one row"

    def without_entry(self, store: Any, rows: Mapping[str, Any]) -> Iterator[str]:
        """Rows that an index does not show."""
        for name, values in rows.items():
            for index in self.schema.indexes.values():
                for entry in KeyMapper(self.schema).entries(index, values, place_of(MODELS[self.kind], name)):
                    if not index.unique and not mc.vis(store, index.table, entry):
                        yield f"MISSING: the row {name} has no entry"

    def _writes(self, store: Any, rows: Mapping[str, Any], here: Sequence[str]) -> Iterator[str]:
        holders = [name for name, values in rows.items() if values["tag"] == 1]
        if self.kind == "unique" and "o" in holders and len(holders) > 1:
            yield f"DUPLICATE: the rows {holders} hold one value"
        if not self.exact:
            return
        if store.get((OUTCOME, "delete k")) == "deleted" and here:
            yield f"BACK: the object was deleted and is under {here}"
        for name in ("k", "m"):
            if here and store.get((OUTCOME, f"tag {name}")) == "put" and rows[here[-1]]["tag"] != 5:
                yield f"LOST: an update under {name} is acknowledged and is not there"

    def terminal(self, store: Any) -> str | None:
        """Once everything has stopped."""
        done = [number for number in (1, 2) if store.get((OUTCOME, f"move {number}")) == "put"]
        rows, schema = self.rows(store), self.schema
        if done and not store.get(DELETING):
            if rows.get("k", {}).get("who") == THE:
                return "LEFT: the object has moved and is under the old key too"
            for name in ("m", "n"):
                place = place_of(MODELS[self.kind], name)
                if mark_of(schema, row_of(place, cells_of(store, schema.table, place))) is not None:
                    return "LEFT: the object has moved and is marked still"
        refused = store.get((OUTCOME, "move 2")) in {"RowExists", "ConflictError"}
        if refused and store.get(SAME) and len(rows) > 1:
            return "STUCK: a move that died is not ended by the same call"
        return None


class RekeyModel(Model):
    """Processes around the rows of one model."""

    def __init__(self, watch: Watch, store: Any, processes: Sequence[Any], crashes: int) -> None:
        super().__init__(store, processes, crashes)
        self._watch = watch

    def broken(self, store: Any) -> str | None:
        """See `Watch.broken`."""
        return self._watch.broken(store)

    def terminal(self, store: Any) -> str | None:
        """See `Watch.terminal`."""
        return self._watch.terminal(store)

    def over(self, store: Any, process: int) -> bool:
        """Nothing in the store says whether a process has died."""
        return True


def beginning(kind: str) -> dict[Any, Any]:
    """A store with the one object."""
    model = MODELS[kind]
    schema = hb.schema_of(model)
    store: dict[Any, Any] = {SERVER: 10}
    write = put_object(schema, model(name="k", who=THE, tag=1))
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
    """A store with the one object, whose move to another key has died once the old row was marked."""
    store = beginning(kind)
    steps, answer = mover(kind, 9, "m", SHIPPED)(), None
    while True:
        step = steps.send(answer)
        answer = mc.apply_op(store, step)
        if not isinstance(step[1], GetRows):
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
    """Moves of one object beside other writers and a reader."""
    for kind, others, ways in itertools.product(kinds, beside, also):
        if kind == "fact" and others.startswith("an update"):
            continue
        store = beginning(kind)
        if ways == "twice" and not others.startswith("an insert"):
            store[SAME] = 1
        running: list[Any] = [(f"W{n}", mover(kind, n, new, rules), 12) for n, new in enumerate(ALSO[ways], 1)]
        running += [(f"W{n}", writer(kind, n, *call, rules), 12) for n, call in enumerate(BESIDE[others], 5)]
        if reads and others == "nobody" and ways == "one":
            running.append(("R", reader(kind, "m", rules), 0))
        exact = kind in EXACT or rules.exact
        yield f"{kind}, {others}, {ways}", RekeyModel(Watch(kind, exact), store, running, crashes)


def renewals(kind: str, rules: Rules = SHIPPED, crashes: int = 0) -> Iterator[tuple[str, RekeyModel]]:
    """Two calls that end a move, and an update of the old row that only one of them may have seen."""
    running: list[Any] = [(f"W{n}", mover(kind, n, "m", rules), 12) for n in (1, 2)]
    running.append(("W5", change(kind), 12))
    yield f"{kind}, a move that is ended twice", RekeyModel(Watch(kind, kind in EXACT), {**marked(kind), SAME: 1}, running, crashes)


def values(rules: Rules = SHIPPED, crashes: int = 1, calls: Sequence[str] = ("take", "tag k", "tag m")) -> Iterator[tuple[str, RekeyModel]]:
    """Moves of an object with a unique value beside a program that wants the value, and one that may give it up."""
    store = beginning("unique")
    for call in calls:
        running: list[Any] = [("W1", mover("unique", 1, "m", rules), 12), ("W5", writer("unique", 5, "take", "o", rules), 12)]
        if call != "take":
            running.append(("W6", writer("unique", 6, *call.split(), rules), 12))
        yield f"a unique value, {call}", RekeyModel(Watch("unique", True), store, running, crashes)
