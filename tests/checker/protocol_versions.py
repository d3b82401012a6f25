"""Versioned models in the model checker: the shipped generators, their invariants, and mutants of their rules.

In addition to the invariants of every indexed model, a versioned row has the result of its writes one after the other:
each is applied once if it is acknowledged, and not at all if it is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from attrs import define, evolve, field, frozen

import hbmodel as hb
from hbmodel.errors import UnknownOutcome
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.version_cell import VersionCell
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutate,
    CheckAndMutateRows,
    GetRows,
    LetClockTick,
    Operation,
    Protocol,
)
from hbmodel.protocol.versioned.versioned_plan import Sent, VersionedRowPlanner
from hbmodel.protocol.versioned.versioned_write import insert_versioned, write_versioned_batch
from hbmodel.protocol.writes import DeleteRow, PutObject, RowWrite, UpdateFields, put_object
from hbmodel.store import Put
from tests.checker.behaviour import once
from tests.checker.clocks import Clocks, over_stores
from tests.checker.protocol_adapter import (
    ACKNOWLEDGED,
    APPLIED,
    BOUND,
    BROKEN,
    SERIAL,
    Sends,
    SetClock,
    Step,
    Steps,
    Store,
    Told,
    Translation,
    _changes,
    _put,
    alone,
    mc,
    visible,
)
from tests.checker.protocol_invariants import ProtocolModel, Watch
from tests.checker.protocol_processes import Insert, kind_of, reader, repairer
from tests.checker.protocol_processes import Rules as Around
from tests.checker.protocol_sweeps import Configuration, Process

Action = RowWrite | Insert | tuple[RowWrite, ...]


UNBROKEN = Around()


@frozen
class Rules:
    """The code under test: the shipped one, or a mutant of it.

    Attributes:
        planner: plans changes.
        around: changes what a protocol does.
        sent: makes the note of a change that was sent.
        nonce: of the nth change of a process.
        clock: of the writers.
        repair: the repairer, see `protocol_processes.Rules`.
    """

    planner: type[VersionedRowPlanner] = VersionedRowPlanner
    around: Callable[[Protocol[Any]], Protocol[Any]] = lambda protocol: protocol
    sent: type[Sent] = Sent
    nonce: Callable[[int, int], bytes] = lambda process, number: bytes((process, number)) + bytes(6)
    clock: type[SetClock] = SetClock
    repair: Around = UNBROKEN


SHIPPED = Rules()

# --- what happens in the store ----------------------------------------------------------------------------------------


@frozen(eq=False)
class Intent:
    """The intended effect of a write, independent of the code under test."""

    write: RowWrite
    insert: bool
    schema: TableSchema

    def __repr__(self) -> str:
        return kind_of(self.write)

    def after(self, state: tuple[int, Any]) -> Any:
        """The values that a row of a version and values (or None) holds after it, or what is wrong with carrying it
        out there, a text.
        """
        version, values = state
        write, before = self.write, None if values is None else dict(values)
        if self.insert and before is not None:
            return "TWICE: an insert over a live row"
        if write.version and write.version != (0 if before is None else version):
            return f"DEMAND: version {write.version} is demanded, and the row has {version}"
        if isinstance(write, PutObject):
            put = {f.name: getattr(write.subject, f.name) for f in self.schema.fields if f.kind in {"key", "column"}}
            return _values({**put, **dict(_entries(self.schema, before, vars(write.subject)))}.items())
        if before is None:
            return "ABSENT: there is no row to change"
        if write.condition is not None and not write.condition.test()({**before, "version": version}):
            return "CONDITION: the row does not satisfy it"
        if isinstance(write, DeleteRow):
            return None
        return _values({**before, **write.changes, **dict(_entries(self.schema, before, write.changes))}.items())


def _entries(
    schema: TableSchema, before: Mapping[str, Any] | None, written: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Map columns after a write: its entries are merged into the earlier ones, and None removes an entry."""
    for of in schema.maps:
        merged = {**dict((before or {}).get(of.name, ())), **written.get(of.name, {})}
        yield of.name, tuple((key, merged[key]) for key in sorted(merged) if merged[key] is not None)


def _values(items: Iterable[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(items))


def _change(store: Store, step: Step) -> bool:
    """A conditional change of a versioned row, with the serial history."""
    _, table, row, column, expected, changes, number, intent = step
    cells = {c: value for c, _, value in visible(store, table, row)}
    if (cells.get(column) or None) != expected:
        return False
    carried_out(store, table, row, column, changes, number, intent)
    return True


def carried_out(
    store: Store, table: str, row: bytes, column: bytes, changes: Sequence[Step], number: int, intent: Intent
) -> None:
    """The change of one row, with its version in a column, under a condition that holds."""
    cells = visible(store, table, row)
    _put(store, table, row, changes, number)
    store[(APPLIED, number)] = store.get((APPLIED, number), 0) + 1
    if store[(APPLIED, number)] > 1:
        store[BROKEN] = f"AGAIN: write {number} is applied twice"
    before, values = store.get((SERIAL, row), (0, None))
    after = intent.after((before, values))
    version = VersionCell.of({c: value for c, _, value in visible(store, table, row)}.get(column, b"")).version
    if isinstance(after, str):
        store[BROKEN] = f"{after}, write {number} ({intent})"
    elif version <= before or (cells and version != before + 1):
        store[BROKEN] = f"COUNT: write {number} gives version {version} after {before}"
    store[(SERIAL, row)] = (version, after)


def claims_in(table: str) -> str:
    """Where the claims of an index table stand: its entries are read without them."""
    return table + " claims"


def is_fence(operation: CheckAndMutate) -> bool:
    """Whether a change counts the version on and nothing else."""
    return all(
        isinstance(mutation, Put) and {c[-3:] for c in mutation.cells} <= {b":_v", b":_l"}
        for mutation in operation.mutations
    )


def _claim(store: Store, step: Step) -> bool:
    _, table, row, column, expected, changes = step
    cells = {c: value for c, _, value in visible(store, table, row)}
    if (cells.get(column) or None) != expected:
        return False
    _put(store, table, row, changes, None)
    return True


def _fenced(store: Store, step: Step) -> bool:
    _, table, row, column, *_ = step
    if not _claim(store, step):
        return False
    before, values = store.get((SERIAL, row), (0, None))
    version = VersionCell.of({c: value for c, _, value in visible(store, table, row)}.get(column, b"")).version
    if version <= before:
        store[BROKEN] = f"COUNT: a fence gives version {version} after {before}"
    store[(SERIAL, row)] = (version, values)
    return True


mc.OPS.update(versioned=_change, claim=_claim, fence=_fenced)


@define(eq=False)
class VersionWatch(Watch):
    """The invariants of a versioned model."""

    def _broken(self, store: Store) -> Iterator[str]:
        yield from super()._broken(store)
        for key, state in store.items():
            if key[0] == SERIAL:
                yield from self._known("serial", (self.view(store, key[1]), state), self._serial, store, key[1], *state)
        for number in store.get(ACKNOWLEDGED, ()):
            applied = store.get((APPLIED, abs(number)), 0)
            if number > 0 and not applied:
                yield f"PHANTOM: write {number} is acknowledged, and was never applied"
            if number < 0 and applied:
                yield f"DENIED: write {-number} is reported as refused, and was applied"

    def _serial(self, store: Store, row: bytes, version: int, values: Any) -> Iterator[str]:
        cells = {column: value for column, _, value in visible(store, self.schema.table, row)}
        found = VersionCell.of(cells.get(self.schema.version_column, b"")).version
        view = self.view(store, row)
        shown = (
            _values((name, value) for name, value in view.values if name in dict(values or ())) if view.live else None
        )
        if shown != values:
            yield f"SERIAL: row {row!r} holds {shown}, and one write after the other gives {values}"
        if found != version and cells:
            yield f"SERIAL: row {row!r} has version {found}, and its last write gave {version}"


# --- processes --------------------------------------------------------------------------------------------------------


@define
class VersionTranslation(Translation):
    """A protocol of a versioned model, as steps of the checker.

    Attributes:
        intents: of the writes, by row.
        refused: the negated numbers of those that were not applied, by what the protocol says.
        final: whether a refusal guarantees that nothing was applied.
    """

    intents: dict[bytes, Intent] = field(factory=dict)
    refused: frozenset[int] = frozenset()
    final: bool = False

    def _get(self, operation: GetRows, row: bytes, checked: bool) -> Step:
        if operation.table != self.table:
            return Told(("read", claims_in(operation.table), row, tuple(operation.columns)))
        return super()._get(operation, row, False)  # whoever was refused begins anew

    def _step(self, operation: Operation) -> Step:
        if not isinstance(operation, CheckAndMutate):
            return super()._step(operation)
        if operation.table != self.table:
            changes = _changes(operation.mutations, None)
            return Told(
                ("claim", claims_in(operation.table), operation.row, operation.column, operation.expected, changes)
            )
        if is_fence(operation):
            ((number, _), *_) = self.kinds.values()
            changes = _changes(operation.mutations, number)
            return Told(("fence", operation.table, operation.row, operation.column, operation.expected, changes))
        number = self.kinds[operation.row][0]
        changes = _changes(operation.mutations, number)
        return Told(
            (
                "versioned",
                operation.table,
                operation.row,
                operation.column,
                operation.expected,
                changes,
                number,
                self.intents[operation.row],
            )
        )

    def steps(self, protocol: Protocol[Any]) -> Steps:
        yield from super().steps(_one_by_one(protocol, self.final))


def _one_by_one(protocol: Protocol[Any], final: bool) -> Protocol[Any]:
    """The changes of a call land in their order, one after the other; refusals are `final`, or may come from a lost
    answer.
    """
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(operation, LetClockTick):
            answer = None
        elif isinstance(operation, CheckAndMutateRows):
            answer = []
            for change in operation.changes:
                applied = yield CheckAndMutate(
                    operation.table, change.row, change.column, change.expected, change.mutations
                )
                answer.append(True if applied else False if final else None)
        else:
            answer = yield operation


@once
def writer(
    schema: TableSchema,
    process: int,
    actions: Sequence[Action],
    reading: int,
    rules: Rules = SHIPPED,
    *,
    slow: int = 0,
    repeat: int | None = None,
    again: int | None = None,
    paused: bool = False,
    final: bool = False,
) -> Callable[[], Steps]:
    """A process that carries out actions one after the other; see `protocol_processes.writer`."""

    def run() -> Steps:
        drawn = itertools.count(1)
        planner = rules.planner(
            schema,
            tuple(schema.indexes.values()),
            BOUND,
            lambda: rules.nonce(process, next(drawn)),
            patience=0,
            claim_rounds=2,
        )
        clock = rules.clock(reading, slow)
        number = 10 * process
        sent: list[Step] = Sends(again)
        for action in actions:
            if number > 10 * process:
                yield ("issue", clock.now())
            writes: Sequence[RowWrite] = (
                action
                if isinstance(action, tuple)
                else (action.write if isinstance(action, Insert) else cast(RowWrite, action),)
            )
            numbers = range(number, number + len(writes))
            number += len(writes)
            kinds = {
                w.row: (n, kind_of(action if isinstance(action, Insert) else w))
                for n, w in zip(numbers, writes, strict=True)
            }
            intents = {write.row: Intent(write, isinstance(action, Insert), schema) for write in writes}
            notes: Any = _Notes(rules.sent)
            if isinstance(action, Insert):
                protocol: Protocol[Any] = insert_versioned(planner, action.write, notes)
            else:
                protocol = write_versioned_batch(planner, writes, notes)
            translation = VersionTranslation(
                schema.table, clock, kinds, numbers, sent, repeat, paused, intents, final=final
            )
            yield from _with_refusals(translation.steps(_outcomes_of(rules.around(protocol), translation)), translation)
        if again is not None and again < len(sent):
            yield sent[again]

    return run


class _Notes(dict[bytes, Sent]):
    """Notes of changes, each made by the code under test."""

    def __init__(self, kind: type[Sent]) -> None:
        self._kind = kind

    def __setitem__(self, row: bytes, sent: Sent) -> None:
        super().__setitem__(row, self._kind(sent.planner, sent.plan, sent.cell, sent.first, sent.since, sent.releases))


def _outcomes_of(protocol: Protocol[Any], translation: VersionTranslation) -> Protocol[Any]:
    """Notes which writes the protocol reports as refused."""
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(operation, Acknowledge):
            translation.refused = frozenset(
                -number
                for number, outcome in zip(translation.order, operation.outcomes, strict=True)
                if outcome.action not in {"put", "deleted"} and not isinstance(outcome.error, UnknownOutcome)
            )
        answer = yield operation


def _with_refusals(steps: Steps, translation: VersionTranslation) -> Steps:
    answer: Any = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            return
        answer = yield (("acknowledge", step[1] | translation.refused) if step[0] == "acknowledge" else step)


def prepared(schema: TableSchema, *rounds: tuple[int, Action]) -> Store:
    """A store in which these actions were carried out, each at its clock's reading; they count as write 0."""
    store: Store = {}
    for reading, action in rounds:
        alone(writer(schema, 0, [action], reading)(), store)
        store.pop((APPLIED, 0), None)
    indexes = [i.table for i in schema.indexes.values()]
    tables = {schema.table, *indexes, *map(claims_in, indexes), SERIAL}
    return {key: value for key, value in store.items() if key[0] in tables}


# --- models, actions and configurations -------------------------------------------------------------------------------


@hb.model(table="accounts", family="d")
class Account:
    """One index over one column, with a covered column; one column outside."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    extra: hb.Column[str | None] = hb.column("e", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", covers=("extra",))


@hb.model(table="slips", family="d")
class Slip:
    """No index."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()


MODELS: Mapping[str, Any] = {"indexed": Account, "without an index": Slip}


def actions_of(model: Any) -> dict[str, tuple[Action, ...]]:
    """The actions of writers of the row `k`; those named `at 10` hold an object of version 10, which is the version of
    a live row.
    """
    schema, row = hb.schema.schema_of(model), hb.row_key(model, name="k")

    def put(version: int = 0, **values: Any) -> PutObject:
        return evolve(put_object(schema, model(name="k", **values)), version=version)

    def change(version: int = 0, condition: Predicate | None = None, **changes: Any) -> UpdateFields:
        return UpdateFields(None, row, {"name": "k"}, changes, None, version, condition)

    def gone(version: int = 0, condition: Predicate | None = None) -> DeleteRow:
        return DeleteRow(None, row, version, condition)

    return {
        "put a": (put(tag="a"),),
        "put b": (put(tag="b", note="new"),),
        "put b at 10": (put(10, tag="b"),),
        "tag b": (change(tag="b"),),
        "tag c at 10": (change(10, tag="c"),),
        "note": (change(note="n"),),
        "note at 10": (change(10, note="m"),),
        "tag b if a": (change(0, model.tag == "a", tag="b"),),
        "delete": (gone(),),
        "delete at 10": (gone(10),),
        "delete if a": (gone(0, model.tag == "a"),),
        "insert": (Insert(put(tag="b")),),
        "delete, put": (gone(), put(tag="b")),
        "delete, insert": (gone(), Insert(put(tag="a"))),
        "insert, delete": (Insert(put(tag="a", note="i")), gone()),
    }


ACTIONS = {name: actions_of(model) for name, model in MODELS.items()}
STORES: Mapping[str, Mapping[str, Store]] = {
    name: {
        "live": prepared(
            hb.schema.schema_of(model),
            (10, put_object(hb.schema.schema_of(model), model(name="k", tag="a", note="old"))),
        ),
        "dead": prepared(
            hb.schema.schema_of(model),
            (9, put_object(hb.schema.schema_of(model), model(name="k", tag="a", note="old"))),
            (10, DeleteRow(None, hb.row_key(model, name="k"))),
        ),
        "absent": {},
    }
    for name, model in MODELS.items()
}
ACCOUNT, KEY = hb.schema.schema_of(Account), hb.row_key(Account, name="k")
INDEX = ACCOUNT.indexes["by_tag"]


@once
def repairers(rules: Rules) -> list[Process]:
    """A repairer of the index that also purges the row's dead marker."""
    return [("G", repairer(ACCOUNT, INDEX, rules.repair, purge=KEY), 0)]


@once
def readers(rules: Rules) -> list[Process]:
    """A query for one tag."""
    return [("R", reader(ACCOUNT, INDEX, b"b", b"b\xff", lambda values: values["tag"] == "b", rules=rules.repair), 0)]


@once
def watch_of(schema: TableSchema) -> VersionWatch:
    """The invariants of a versioned model, with all that was found out about its stores."""
    return VersionWatch(schema)


def two(
    names: Sequence[str] | None = None,
    clocks: Clocks = (5, 12),
    rules: Rules = SHIPPED,
    *,
    model: str = "indexed",
    stores: Sequence[str] = ("live",),
    others: Callable[[Rules], Sequence[Process]] | None = None,
    crashes: int = 1,
    compaction: str | None = None,
    always: bool = True,
    count: int = 2,
    ordered: bool = False,
    first: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers (or `count`) of one row, each pair of actions and clocks, and one other process or none."""
    schema, actions = hb.schema.schema_of(MODELS[model]), ACTIONS[model]
    watch = watch_of(schema)
    of = tuple(actions) if names is None else names
    for kind, (chosen, readings) in over_stores(stores, of, clocks, count, ordered=ordered):
        for other in others(rules) if others is not None else (None,):
            running: list[Process] = [
                (
                    f"W{n}",
                    writer(schema, n, actions[name], at, rules, **{**options, **(first or {} if n == 1 else {})}),
                    at,
                )
                for n, (name, at) in enumerate(zip(chosen, readings, strict=True), 1)
            ]
            running += [] if other is None else [other]
            label = (
                f"{model}, {kind} row, {list(zip(chosen, readings, strict=True))}, "
                f"{None if other is None else other[0]}, {first}"
            )
            yield label, ProtocolModel(watch, STORES[model][kind], running, crashes, compaction, always=always)


def batches(rules: Rules = SHIPPED, **options: Any) -> Iterator[Configuration]:
    """One commit of two rows, one of which another program also writes."""
    schema = ACCOUNT
    other = hb.row_key(Account, name="m")
    store = prepared(
        schema,
        (10, put_object(schema, Account(name="k", tag="a"))),
        (10, put_object(schema, Account(name="m", tag="c"))),
    )
    watch = watch_of(schema)
    both: tuple[RowWrite, ...] = (
        evolve(put_object(schema, Account(name="k", tag="b")), version=10),
        UpdateFields(None, other, {"name": "m"}, {"note": "n"}),
    )
    for name, first, second in itertools.product(("put b", "note at 10", "delete"), (5, 12), (5, 12)):
        running: list[Process] = [
            ("W1", writer(schema, 1, [both], first, rules, **options), first),
            ("W2", writer(schema, 2, ACTIONS["indexed"][name], second, rules), second),
        ]
        yield f"both beside {name}", ProtocolModel(watch, store, running, 1)
