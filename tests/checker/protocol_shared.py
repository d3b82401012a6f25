"""Versioned objects that share a row in the model checker: their writers, including those that pin the row, and the
invariants.

Each object has the serial history that a versioned row has. Every change is conditional on the version of the row: one
cell, which is read in a step of its own, and which the change of any object of the row replaces. One call on the row is
one step, of however many objects; the shipped folded view decides what is read and put.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any, cast

from attrs import define, evolve, frozen

from hbmodel.errors import HbmodelError
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.version_cell import UNKNOWN, VersionCell
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutate,
    CheckAndMutateRows,
    GetRows,
    LetClockTick,
    Operation,
    Protocol,
)
from hbmodel.protocol.versioned.versioned_plan import RowVersion
from hbmodel.protocol.versioned.versioned_write import insert_versioned, write_versioned_batch
from hbmodel.protocol.writes import DeleteRow, Outcome, PutObject, RowWrite
from hbmodel.store import Delete, Put
from hbmodel.store.wide.folded import folded
from hbmodel.store.wide.wide_rows import ROW_VERSION, WideRows
from tests.checker import protocol_versions as versions
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import (
    APPLIED,
    BOUND,
    BROKEN,
    REPAIRED,
    SERIAL,
    Sends,
    Step,
    Steps,
    Store,
    Told,
    _changes,
    _is_live,
    _put,
    alone,
    found_row,
    mc,
    visible,
)
from tests.checker.protocol_folded import (
    FoldedTranslation,
    Script,
    View,
    _object,
    _objects,
    _through_view,
    _wide,
    versions_in,
)
from tests.checker.protocol_processes import Insert, kind_of
from tests.checker.protocol_versions import Intent, carried_out


@frozen
class Rules(versions.Rules):
    """The code under test, see `protocol_versions.Rules`.

    Attributes:
        view: makes the folded view.
    """

    view: View = folded


SHIPPED = Rules()


@frozen
class Pinned:
    """A local transaction, see `Session.group`: it reads objects and makes writes, if the row does not change in
    between.

    Attributes:
        reads: the objects.
        writes: each demands the version that its object was read with; updates and deletes of objects that are not
            there are left out.
    """

    reads: tuple[bytes, ...]
    writes: tuple[RowWrite, ...]


Action = RowWrite | Insert | Pinned | tuple[RowWrite, ...]

# --- what happens in the store ----------------------------------------------------------------------------------------


@frozen(eq=False)
class Commit:
    """The writes of one commit, apart from the code under test.

    Attributes:
        intents: of the writes, by object. numbers: of the writes.
        whole: whether none of them can fail unless all do; but of an object whose marker was purged it may not be known
            what became.
        pinned: whether the version of the row was.
    """

    intents: dict[bytes, Intent]
    numbers: dict[bytes, int]
    whole: bool
    pinned: bool

    def left_out(self, store: Store, changed: Sequence[bytes]) -> list[int]:
        """The writes that a change should carry out together with the writes of these objects, but does not."""
        return [self.numbers[place] for place in self.intents.keys() - set(changed) if not self._nothing(store, place)]

    def _nothing(self, store: Store, place: bytes) -> bool:
        """Whether it is a delete of what is not there."""
        return isinstance(self.intents[place].write, DeleteRow) and store.get((SERIAL, place), (0, None))[1] is None

    def __repr__(self) -> str:
        return "pinned" if self.pinned else "commit"


def _shown(cells: Sequence[tuple[bytes, int, bytes]]) -> Any:
    """The content of an object that was read, or that it does not exist."""
    return tuple(cells) if _is_live(cells) else ()


def _grouped(store: Store, step: Step) -> bool:
    """A conditional change of objects that share a row, at once."""
    _, (table, row, column), expected, row_version, parts, seen, commit = step
    found = {c: value for c, _, value in visible(store, table, row)}.get(column)
    if (found or None) != (expected or None):
        return False
    schema_table = parts[0][0]
    for place, cells in seen:
        if _shown(visible(store, schema_table, place)) != _shown(cells):
            store[BROKEN] = f"SKEW: {place!r} is not as it was read, and {commit} changes its row"
    if (
        (commit.pinned or REPAIRED not in store)
        and commit.whole
        and (left := commit.left_out(store, [place for _, place, *_ in parts]))
    ):
        store[BROKEN] = f"HALF: writes {left} are not carried out with the others of their {commit}"
    if row_version is not None:
        place, changes = row_version
        _put(store, versions_in(schema_table), place, changes, None)
    for part in parts:
        carried_out(store, *part)
    return True


def _denied(store: Store, step: Step) -> None:
    """Writes of a commit have failed: no neighbour may be the only reason, unless the version of the row was pinned."""
    _, (table, row, column), pinned, failed = step
    found = {c: value for c, _, value in visible(store, versions_in(table), row)}.get(column)
    for number, place, write, error in failed:
        version, values = store.get((SERIAL, place), (0, None))
        if error == "UnknownOutcome" and REPAIRED not in store:
            store[BROKEN] = f"UNKNOWN: it could be said what became of write {number}"
        elif pinned is not None and error not in {"UnknownOutcome", "ConflictError", "UniqueViolation", "Disturbed"}:
            store[BROKEN] = f"PINNED: write {number} ends in {error}, and was planned over what had been read"
        elif error == "ConflictError":
            same = (
                found == pinned.value
                if pinned is not None
                else write.version in {UNKNOWN, version} and (values is not None or not write.version)
            )
            if same:
                store[BROKEN] = f"CONFLICT: write {number} is refused, and nobody has changed what it rests on"


mc.OPS.update(grouped=_grouped, denied=_denied)

# --- processes --------------------------------------------------------------------------------------------------------


@define
class SharedTranslation(FoldedTranslation):
    """A protocol of a versioned model whose objects share a row, as steps of the checker.

    Attributes:
        commit: what is written.
        pinned: the version that the row must have, if any.
        seen: what a local transaction has read.
        final: whether a refusal guarantees that nothing was applied.
        failed: the writes that have, by what the protocol says.
        went: the changes that are in a call that succeeds.
    """

    commit: Commit | None = None
    pinned: RowVersion | None = None
    seen: Any = ()
    final: bool = False
    failed: tuple[Any, ...] = ()
    went: Sequence[bool] = ()

    def _get(self, operation: Any, row: bytes, checked: bool) -> Step:
        if operation.table != self.table:
            return Told(("read", versions.claims_in(operation.table), row, tuple(operation.columns)))
        return super()._get(operation, row, False)  # whoever was refused begins anew

    def _read(self, operation: GetRows, checked: bool, begun: set[bytes]) -> Generator[Step, Any, list[Any]]:
        found = yield from super()._read(operation, checked, begun)
        if self.paused and self.sent:
            # the protocol may ask the clock next, whether the answer that it lost is too old
            self.clock.repaired = yield ("late",)
        return found

    def _made(self, operation: Operation) -> Generator[Step, Any, Step]:
        if isinstance(operation, CheckAndMutate):
            changes = _changes(operation.mutations, None)
            return Told(
                (
                    "claim",
                    versions.claims_in(operation.table),
                    operation.row,
                    operation.column,
                    operation.expected,
                    changes,
                )
            )
        if not isinstance(operation, CheckAndMutateRows):
            return (yield from super()._made(operation))
        assert self.schema is not None

        def listed(place: bytes, columns: tuple[bytes, ...]) -> Steps:
            return (yield Told(("read", self.table, place, columns)))

        def call(view: Any, table: Script) -> Any:
            return view.check_and_mutate_many(self.table, operation.changes), table.conditional

        (self.went, made), _ = yield from _through_view(self.schema, call, listed, self.tombstones, self.view)
        (change,) = made
        wide = _wide(self.schema)
        if change.column == wide.lead + ROW_VERSION:
            checked = (versions_in(self.table), change.row, change.column)
        else:
            checked = (self.table, *_object(wide, change.row, change.column))
        own_version = self.schema.version_column
        row_version, mutations = _without_version(wide, change.mutations)
        if operation.fences:
            if row_version:
                return Told(("claim", *checked, change.expected, _changes(row_version, None)))
            ((number, _), *_) = self.kinds.values()
            (own,) = _objects(wide, mutations).values()
            return Told(("fence", *checked, change.expected, _changes(own, number)))
        parts = tuple(
            Told(
                (
                    self.table,
                    place,
                    own_version,
                    _changes(own, self.kinds[place][0]),
                    self.kinds[place][0],
                    self._intent(place),
                )
            )
            for place, own in _objects(wide, mutations).items()
        )
        return Told(
            (
                "grouped",
                checked,
                change.expected,
                None if not row_version else (change.row, _changes(row_version, None)),
                parts,
                self.seen,
                self.commit,
            )
        )

    def _intent(self, place: bytes) -> Intent:
        assert self.commit is not None
        return self.commit.intents[place]

    def steps(self, protocol: Protocol[Any]) -> Steps:
        steps = super().steps(self._asked(protocol))
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            if step[0] == "acknowledge":
                step = (
                    "acknowledge",
                    step[1] | {-number for number, _, _, error in self.failed if error != "UnknownOutcome"},
                )
                if self.failed:
                    yield Told(("denied", self._row_version(), self.pinned, self.failed))
            answer = yield step

    def _row_version(self) -> tuple[str, bytes, bytes]:
        assert self.schema is not None
        wide = _wide(self.schema)
        return self.table, wide.places.cut(next(iter(self.kinds)))[0], wide.lead + ROW_VERSION

    def _asked(self, protocol: Protocol[Any]) -> Protocol[Any]:
        """Records which writes have failed, and the outcome of each conditional change.

        An error that ends a local transaction is the outcome of all its writes.
        """
        assert self.commit is not None
        answer: Any = None
        while True:
            try:
                operation = protocol.send(answer)
            except StopIteration as stop:
                return stop.value
            except HbmodelError as error:
                if self.pinned is None:
                    raise
                operation = Acknowledge([Outcome("failed", place, error=error) for place in self.commit.intents])
                protocol = _ended()
                next(protocol, None)
            if isinstance(operation, LetClockTick):
                answer = None
                continue
            if isinstance(operation, CheckAndMutateRows) and operation.table != self.table:
                answer = []
                for claim in operation.changes:
                    applied = yield CheckAndMutate(
                        operation.table, claim.row, claim.column, claim.expected, claim.mutations
                    )
                    answer.append(True if applied else False if self.final else None)
                continue
            if isinstance(operation, Acknowledge):
                self.failed = tuple(
                    (number, outcome.key, self._intent(outcome.key).write, _named(outcome.error))
                    for number, outcome in zip(self.order, operation.outcomes, strict=True)
                    if outcome.action not in {"put", "deleted"}
                )
            answer = yield operation
            if isinstance(operation, CheckAndMutateRows):
                refused = False if self.final else None
                answer = [True if answer and went else refused for went in self.went]


def _named(error: HbmodelError | None) -> str:
    """The name of an error; a different name if others keep claiming a value although no one has changed the object."""
    return (
        "Disturbed"
        if error is not None and error.message.startswith("Other writes keep claiming")
        else type(error).__name__
    )


def _ended() -> Protocol[None]:
    """A protocol that is over once it is asked for more."""
    yield Acknowledge(())


def _without_version(wide: WideRows, mutations: Sequence[Put | Delete]) -> tuple[list[Put], list[Put | Delete]]:
    """The puts of the version of the row, and what is left for its objects."""
    column = wide.lead + ROW_VERSION
    row_version: list[Put] = []
    others: list[Put | Delete] = []
    for mutation in mutations:
        if not isinstance(mutation, Put) or column not in mutation.cells:
            others.append(mutation)
            continue
        row_version.append(evolve(mutation, cells={column: mutation.cells[column]}))
        others.append(evolve(mutation, cells={name: value for name, value in mutation.cells.items() if name != column}))
    return row_version, others


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
        clock = rules.clock(reading, slow)
        number = 10 * process
        sent: list[Step] = Sends(again)
        for action in actions:
            if number > 10 * process:
                yield ("issue", clock.now())
            pinned, seen = None, ()
            if isinstance(action, Pinned):
                pinned, seen, writes = yield from _pinned(schema, action)
            else:
                writes = (
                    action
                    if isinstance(action, tuple)
                    else (action.write if isinstance(action, Insert) else cast(RowWrite, action),)
                )
            if not writes:
                continue
            indexes = tuple(schema.indexes.values())
            planner = rules.planner(
                schema,
                indexes,
                BOUND,
                lambda: rules.nonce(process, next(drawn)),
                patience=0,
                claim_rounds=2,
                pinned=pinned,
            )
            numbers = range(number, number + len(writes))
            number += len(writes)
            kinds = {
                w.row: (n, kind_of(action if isinstance(action, Insert) else w))
                for n, w in zip(numbers, writes, strict=True)
            }
            commit = _commit(schema, writes, numbers, isinstance(action, Insert), pinned is not None)
            notes: Any = versions._Notes(rules.sent)
            if isinstance(action, Insert):
                protocol: Protocol[Any] = insert_versioned(planner, action.write, notes)
            else:
                protocol = write_versioned_batch(planner, writes, notes)
            translation = SharedTranslation(
                schema.table,
                clock,
                kinds,
                numbers,
                sent,
                repeat,
                paused,
                schema=schema,
                view=rules.view,
                commit=commit,
                pinned=pinned,
                seen=seen,
                final=final,
            )
            yield from translation.steps(rules.around(protocol))
        if again is not None and again < len(sent):
            yield sent[again]

    return run


def _commit(
    schema: TableSchema, writes: Sequence[RowWrite], numbers: Sequence[int], insert: bool, pinned: bool
) -> Commit:
    sure = all(isinstance(write, PutObject) and not write.version for write in writes)
    intents = {write.row: Intent(write, insert, schema) for write in writes}
    return Commit(
        intents, {w.row: n for w, n in zip(writes, numbers, strict=True)}, pinned or (sure and not insert), pinned
    )


def _pinned(schema: TableSchema, action: Pinned) -> Generator[Step, Any, tuple[RowVersion, Any, tuple[RowWrite, ...]]]:
    """The version of the row, before any object is read; what was read; and the writes that rest on it.

    `Session.get` reads the version of the row once more with each object, and has no use for it.
    """
    wide = _wide(schema)
    column = wide.lead + ROW_VERSION
    row = wide.places.cut(action.reads[0])[0]
    cells = yield Told(("read", versions_in(schema.table), row, (column,)))
    pinned = RowVersion(cells[0][2] if cells else None)
    reader = RowDecoder(schema, indexed=True, names=frozenset())
    seen: list[Any] = []
    live: dict[bytes, int] = {}
    for place in action.reads:
        cells = yield Told(("read", schema.table, place, ()))
        seen.append((place, cells))
        read: Any = found_row(place, cells)
        if read is not None and reader.exists(read):
            live[place] = VersionCell.of(read.columns[schema.version_column].value).version
    writes = tuple(
        write if isinstance(write, PutObject) else evolve(write, version=live[write.row])
        for write in action.writes
        if isinstance(write, PutObject) or write.row in live
    )
    return pinned, tuple(seen), writes


def prepared(schema: TableSchema, *rounds: tuple[int, Action]) -> Store:
    """A store in which these actions were carried out, each at its clock's reading; they count as write 0."""
    store: Store = {}
    for reading, action in rounds:
        alone(writer(schema, 0, [action], reading)(), store)
        for key in [key for key in store if key[0] == APPLIED]:
            del store[key]
    assert BROKEN not in store
    tables = {
        schema.table,
        versions_in(schema.table),
        SERIAL,
        *(of for index in schema.indexes.values() for of in (index.table, versions.claims_in(index.table))),
    }
    return {key: value for key, value in store.items() if key[0] in tables}
