"""Commits of several kinds into one row in the model checker: the shipped `JointCommit` drives the shipped protocols.

It makes calls itself, so it runs over a store that replays answers (`replayed.py`). The visible row in any state must
be the result of the commits one after the other, each as a whole or not at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from attrs import frozen

import hbmodel as hb
from hbmodel.errors import HbmodelError
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed.indexed_write import write_indexed_batch
from hbmodel.protocol.operations import CheckAndMutateRows, LetClockTick, Protocol
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.server_timed.unindexed_write import write_unindexed_batch
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.versioned.versioned_write import write_versioned_batch
from hbmodel.protocol.writes import DeleteRow, PutObject, RowWrite, UpdateFields, put_object
from hbmodel.session.commit.batches import Batch, Pending
from hbmodel.session.commit.shared_row_batches import joint_batches
from hbmodel.session.commit.shared_row_commit import JointCommit, Part
from hbmodel.store import Capabilities
from hbmodel.store.port import EVERYTHING_POSSIBLE, Store
from hbmodel.store.wide.folded import folded
from tests.checker.behaviour import once
from tests.checker.clocks import Clocks, at_clocks
from tests.checker.pool import Pool
from tests.checker.protocol_adapter import BOUND, Step, Steps, mc
from tests.checker.replayed import DISTINCT, LOST, SERVER, LostAnswer, Needed, Replayed, as_row, carried_out, read
from tests.checker.search import Model

HISTORY = ("history", 0)
"""Of each commit that has begun: which were over then, and what became of its writes, or None."""


def declare(table: str, indexed: bool, versioned: bool = False) -> tuple[Any, Any]:
    """A model with many objects in a row, and a model with one object in each row."""

    def made(kind: bytes, name: str, more: Mapping[str, Any]) -> Any:
        fields: dict[str, Any] = {
            "owner": hb.key(),
            **more,
            "tag": hb.column("t"),
            "note": hb.column("n", default=None),
        }
        types: dict[str, Any] = {"owner": hb.Key[str], "tag": hb.Column[str], "note": hb.Column[str | None]}
        types |= dict.fromkeys(more, hb.Key[str])
        if versioned:
            fields["version"], types["version"] = hb.version(), hb.Column[int]
        if indexed:
            fields["by_tag"] = hb.index("tag")
        body = {**fields, "__annotations__": types, "__module__": __name__}
        return hb.model(table=table, family="d", kind=kind)(type(name, (), body))

    return made(b"p", f"{table.title()}Pet", {"name": hb.key(in_qualifier=True)}), made(
        b"o", f"{table.title()}Owner", {}
    )


MODELS: Mapping[str, tuple[Any, Any]] = {
    "no index": declare("households", indexed=False),
    "indexed": declare("families", indexed=True),
    "versioned": declare("clans", indexed=False, versioned=True),
    "versioned, indexed": declare("tribes", indexed=True, versioned=True),
}
ROW = b"r"
CLAIMS = 3
"""How many calls a program may make for unique values: those of an undisturbed one, and of one round more or two."""

Writes = Sequence[tuple[TableSchema, RowWrite]]


@once
def commits_of(kind: str) -> Mapping[str, Writes]:
    """The writes of a commit: to the pet `k`, the pet `m` and their owner."""
    pet, owner = (hb.schema.schema_of(model) for model in MODELS[kind])

    def key(schema: TableSchema, name: str) -> dict[str, str]:
        return {"owner": "r", "name": name} if schema is pet else {"owner": "r"}

    def place(schema: TableSchema, name: str) -> bytes:
        return KeyMapper(schema).rows(tuple(key(schema, name).values()))[0]

    def put(schema: TableSchema, tag: str, name: str = "k") -> tuple[TableSchema, RowWrite]:
        return schema, put_object(schema, schema.model(**key(schema, name), tag=tag))

    def note(schema: TableSchema, value: str, name: str = "k") -> tuple[TableSchema, RowWrite]:
        return schema, UpdateFields(None, place(schema, name), key(schema, name), {"note": value})

    def tag(schema: TableSchema, value: str, name: str = "k") -> tuple[TableSchema, RowWrite]:
        return schema, UpdateFields(None, place(schema, name), key(schema, name), {"tag": value})

    def gone(schema: TableSchema, name: str = "k") -> tuple[TableSchema, RowWrite]:
        return schema, DeleteRow(None, place(schema, name))

    return {
        "put all": (put(pet, "b"), put(owner, "b"), put(pet, "b", "m")),
        "put both": (put(pet, "c"), put(owner, "c")),
        # Without an index or a version a mutation checks one object.
        "tags": (tag(pet, "d"), tag(owner, "d") if pet.indexes or pet.versioned else gone(pet, "m")),
        "notes": (note(pet, "n"), note(owner, "n")),
        "delete, put": (gone(pet), put(owner, "e")),
        "delete both": (gone(pet), gone(owner)),
        "delete, note": (gone(owner), note(pet, "v")),
        "put, delete nothing": (put(pet, "f"), gone(pet, "z")),
        "put both pets": (put(pet, "g"), put(pet, "g", "z")),
        "put owner, delete nothing": (put(owner, "h"), gone(pet, "z")),
        "put owner and pet": (put(owner, "i"), put(pet, "i", "z")),
        "put, update nothing": (put(owner, "j"), note(pet, "n", "z")),
        "begin": (put(pet, "a"), put(owner, "a"), put(pet, "a", "m")),
    }


NOTHING = ("put, delete nothing", "put owner, delete nothing", "put, update nothing")
"""Commits that meet no object at one of their places."""

PLACED = ("put both pets", "put owner and pet")
"""Commits that put an object there."""

NAMES = tuple(name for name in commits_of("no index") if name not in {"begin", *NOTHING, *PLACED})
CHANGING = ("put all", "put both", "delete, put", "delete both")
"""Commits that find what they need wherever they come in the order."""


@frozen
class Rules:
    """The code under test, or a mutant of it.

    Attributes:
        commit: drives the protocols.
        ticks: whether the clock of a program shows a later time whenever it is read.
        distinct: whether no two calls that change something share a millisecond of the server.
        around: what a protocol of the commit is driven through.
    """

    commit: type[JointCommit] = JointCommit
    ticks: bool = True
    distinct: bool = True
    around: Callable[[Protocol[Any]], Protocol[Any]] = lambda protocol: protocol


SHIPPED = Rules()


class Clock:
    """A clock of one program."""

    def __init__(self, reading: int, ticks: bool) -> None:
        self._reading, self._ticks = reading, ticks

    def now(self, exact: bool = False) -> int:
        found = self._reading
        self._reading += self._ticks
        return found

    def ahead(self, timestamp: int) -> int | None:
        return None

    def fresh(self, since: int) -> bool:
        return True


# --- a commit as a process --------------------------------------------------------------------------------------------


def _protocol(batch: Batch, can: Capabilities, drawn: Callable[[], bytes]) -> Protocol[Any]:
    """As `UnitOfWork` makes it."""
    schema = batch.schema
    indexes = tuple(schema.indexes.values())
    if schema.versioned:
        planner = VersionedRowPlanner(schema, indexes, BOUND, drawn, patience=0, together=batch.together)
        return _disturbed(write_versioned_batch(planner, batch.writes, batch.sent), schema.table)
    if indexes:
        last_wins = IndexedRowPlanner(schema, indexes, BOUND, drawn)
        return write_indexed_batch(
            last_wins, batch.writes, can.mutate_row, batch.deleted, batch.together, batch.placing()
        )
    return write_unindexed_batch(
        UnindexedRowPlanner(schema, drawn), batch.writes, BOUND, can, batch.deleted, batch.together
    )


class Disturbed(BaseException):
    """A program has claimed values too often."""


def _disturbed(protocol: Protocol[Any], table: str) -> Protocol[Any]:
    """A protocol that does not wait for a clock, since any other program may run between two of its calls.

    It ends, as by a crash, after `CLAIMS` calls for unique values: two programs can disturb each other for longer than
    can be searched.
    """
    answer: Any = None
    claims = 0
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        claims += isinstance(operation, CheckAndMutateRows) and (operation.table != table or operation.fences)
        if claims > CLAIMS:
            raise Disturbed
        answer = None if isinstance(operation, LetClockTick) else (yield operation)


def _commit(number: int, writes: Writes, reading: int, rules: Rules, store: Replayed) -> JointCommit:
    """A commit over a store, with nothing sent yet."""
    calls = [Pending(schema, None, [write]) for schema, write in writes]
    nonces = itertools.count()
    (batch,) = joint_batches(calls, store.capabilities, lambda schema: not schema.indexes) or ()
    parts = []
    for of in batch.parts:
        view = folded(cast(Store, store), of.schema.wide_rows)
        drawn = lambda: bytes((number, next(nonces))) + bytes(6)  # noqa: E731
        begin = lambda of=of, view=view, drawn=drawn: rules.around(_protocol(of, view.capabilities, drawn))  # noqa: E731
        parts.append(Part(of.schema, view, begin, lambda: None, placed=of.placing()))
    return rules.commit(
        cast(Store, store), batch.parts[0].schema.table, parts, batch.shared, cast(Any, Clock(reading, rules.ticks))
    )


def _run(commit: JointCommit) -> tuple[str, ...]:
    """Runs it, once more after each error of the store; what became of the writes, in the order of the parts."""
    while True:
        try:
            commit.run()
        except LostAnswer:
            continue
        return _said(commit)


def _said(commit: JointCommit) -> tuple[str, ...]:
    return tuple(
        (outcome.key, "failed" if outcome.error is not None else outcome.action)  # type: ignore[misc]
        for outcomes in commit.outcomes or ()
        for outcome in outcomes
    )


@once
def writer(
    number: int, writes: Writes, reading: int, rules: Rules, can: Capabilities, lost: int | None = None
) -> Callable[[], Steps]:
    """A program that makes one commit; the answer to its change number `lost` is lost."""

    reached: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def after_answers(answers: tuple[Any, ...]) -> tuple[Any, Any]:
        """The next call, or None, and what became of the commit, or None: found out once for the same answers."""
        if answers not in reached:
            commit = _commit(number, writes, reading, rules, Replayed(can, answers))
            try:
                reached[answers] = None, _run(commit)
            except Needed as needed:
                reached[answers] = needed.call, _said(commit) if commit.outcomes is not None else None
            except Disturbed:
                reached[answers] = None, None
            except HbmodelError as error:
                reached[answers] = None, type(error).__name__
        return reached[answers]

    def run() -> Steps:
        answers: list[Any] = []
        changes = 0
        said = False
        while True:
            call, result = after_answers(tuple(answers))
            if result is not None and not said:
                yield ("joint_done", number, result)
                said = True
            if call is None:
                return
            answers.append((yield ("joint", None if answers else number, call)))
            if call[0] != "get":
                if changes == lost:
                    answers[-1] = LOST
                changes += 1
            del call, result

    return run


def _step(store: Any, step: Step) -> Any:
    _, number, call = step
    if number is not None:
        over = frozenset(n for n, (_, result) in store[HISTORY] if result is not None)
        store[HISTORY] = tuple(sorted((*store[HISTORY], (number, (over, None)))))
    return carried_out(store, call)


def _done(store: Any, step: Step) -> None:
    _, number, result = step
    store[HISTORY] = tuple((n, (over, result if n == number else said)) for n, (over, said) in store[HISTORY])


mc.OPS.update(joint=_step, joint_done=_done)

# --- what must hold ---------------------------------------------------------------------------------------------------

State = tuple[tuple[bytes, Any], ...]
"""The objects of the row, each with its values, by place."""


@once
def readers_of(models: Sequence[Any]) -> Sequence[RowDecoder]:
    """Decodes the objects of each model."""
    return [RowDecoder(schema, bool(schema.indexes) or schema.versioned) for schema in map(hb.schema.schema_of, models)]


def objects_of(models: Sequence[Any], store: Any, row: bytes = ROW) -> State:
    """The objects that a program sees if it reads a whole row."""
    readers = readers_of(models)
    return tuple(sorted(found for of in readers for found in _objects_in(of, row, mc.vis(store, of.schema.table, row))))


@lru_cache(100_000)
def _objects_in(reader: RowDecoder, row: bytes, stored: tuple[tuple[bytes, int, bytes], ...]) -> State:
    """The objects of one model in a row with these cells."""
    schema = reader.schema
    rows = schema.wide_rows
    assert rows is not None
    cells: dict[bytes, list[tuple[bytes, int, bytes]]] = {}
    for column, timestamp, value in stored:
        qualifier = column[len(rows.lead) :]
        end = rows.prefix_end(qualifier)
        if end is not None:
            place = rows.places.join(row, qualifier[:end])
            cells.setdefault(place, []).append((rows.lead + qualifier[end:], timestamp, value))
    found: dict[bytes, Any] = {}
    for place, own in cells.items():
        found_row = as_row(place, own)
        if reader.exists(found_row):
            values = {name: value for name, value in reader.values(found_row).items() if name != "version"}
            found[schema.kind + place] = tuple(sorted(values.items()))
    return tuple(found.items())


def after(state: State, writes: Writes, result: Any, pieces: frozenset[bytes] = frozenset()) -> State:
    """The objects after a commit; its failed writes change nothing.

    Updates in `pieces` create an object if there is none: without system cells, they may run at the same time as a
    delete, and are then undone.
    """
    failed = (
        frozenset()
        if result is None or isinstance(result, str)
        else frozenset(key for key, what in result if what == "failed")
    )
    found = dict(state)
    for schema, write in writes:
        key = schema.kind + write.row
        if write.row in failed and len({w.row for _, w in writes}) == len(writes):
            continue
        if isinstance(write, PutObject):
            found[key] = tuple(
                sorted((f.name, getattr(write.subject, f.name)) for f in schema.fields if f.kind in {"key", "column"})
            )
        elif isinstance(write, DeleteRow):
            found.pop(key, None)
        elif key in found:
            found[key] = tuple(sorted({**dict(found[key]), **write.changes}.items()))
        elif key in pieces:
            found[key] = tuple(sorted({**write.key, "note": None, **write.changes}.items()))
    return tuple(sorted(found.items()))


def _none(writes: Writes) -> Iterator[frozenset[bytes]]:
    yield frozenset()


def explained(
    commits: Mapping[int, Writes],
    history: Mapping[int, Any],
    first: State,
    shown: State,
    failing: Callable[[Writes], Iterable[frozenset[bytes]]] = _none,
) -> bool:
    """Whether the rows are the result of commits one after the other: of all commits that are over, and of some of the
    others, each as a whole.

    Args:
        commits: the writes of each.
        history: see `HISTORY`.
        first: the objects before all of them.
        shown: the objects.
        failing: the writes of a commit in progress that may have failed.
    """
    sure = [n for n, (_, result) in history.items() if result is not None and not isinstance(result, str)]
    open_ = [n for n, (_, result) in history.items() if result is None]
    for count in range(len(open_) + 1):
        for some in itertools.combinations(open_, count):
            for order in itertools.permutations((*sure, *some)):
                if any(history[n][0] & {*order[at + 1 :]} for at, n in enumerate(order)):
                    continue
                for pieces in _pieces([write for n in some for write in commits[n]]):
                    for failed in itertools.product(*(failing(commits[n]) for n in some)):
                        results = {
                            n: tuple((key, "failed") for key in keys) for n, keys in zip(some, failed, strict=True)
                        }
                        state = first
                        for n in order:
                            state = after(
                                state, commits[n], results.get(n, history[n][1]), pieces if n in some else frozenset()
                            )
                        if state == shown:
                            return True
    return False


def _pieces(writes: Writes) -> Iterator[frozenset[bytes]]:
    """The updates that may have left objects of their own: every update of a required column, in models without system
    cells.
    """
    left = [
        schema.kind + write.row
        for schema, write in writes
        if isinstance(write, UpdateFields) and "tag" in write.changes and not schema.indexes and not schema.versioned
    ]
    for count in range(len(left) + 1):
        yield from map(frozenset, itertools.combinations(left, count))


class JointModel(Model):
    """The checker over commits into one row."""

    def __init__(
        self,
        kind: str,
        names: Sequence[str],
        clocks: Sequence[int],
        rules: Rules = SHIPPED,
        *,
        can: Capabilities = EVERYTHING_POSSIBLE,
        crashes: int = 1,
        lost: int | None = None,
        begin: Sequence[int] = (10,),
    ) -> None:
        known = self.commits(kind)
        self.models = self.models_of(kind)
        self._commits = {n: known[name] for n, name in enumerate(names, 1)}
        store: Any = {SERVER: 10, DISTINCT: int(rules.distinct), HISTORY: ()}
        for reading in begin:
            _alone(writer(0, known["begin"], reading, SHIPPED, EVERYTHING_POSSIBLE)(), store)
        store[HISTORY] = ()
        store[SERVER] += 1
        self.prepare(store)
        self._first = self.shown(store)
        self._explained: dict[Any, str | None] = {}
        processes = [
            (f"W{n}", writer(n, known[name], at, rules, can, lost if n == 1 else None), at)
            for n, (name, at) in enumerate(zip(names, clocks, strict=True), 1)
        ]
        super().__init__(store, processes, crashes, Pool())

    def models_of(self, kind: str) -> Sequence[Any]:
        """The models of the rows."""
        return MODELS[kind]

    def commits(self, kind: str) -> Mapping[str, Writes]:
        """The writes of the commits, by name."""
        return commits_of(kind)

    def prepare(self, store: Any) -> None:
        """Cells other than those of the objects that commits have put."""

    def shown(self, store: Any) -> State:
        """The objects."""
        return objects_of(self.models, store)

    def explained(self, history: Mapping[int, Any], shown: State) -> bool:
        """See the function."""
        return explained(self._commits, history, self._first, shown)

    def over(self, store: Any, process: int) -> bool:
        """A history does not say whether a program has died."""
        return True

    def broken(self, store: Any) -> str | None:
        """A state that no sequence of commits gives, or an object without its entries."""
        shown = self.shown(store)
        key = (store[HISTORY], shown)
        if key not in self._explained:
            good = self.explained(dict(store[HISTORY]), shown)
            self._explained[key] = None if good else f"HALF: {shown} after {store[HISTORY]}"
        return self._explained[key] or self.missing(store, shown)

    def missing(self, store: Any, shown: State) -> str | None:
        """The entries that an object needs in other tables, and that are missing."""
        for schema in map(hb.schema.schema_of, self.models):
            for key, values in shown:
                if not key.startswith(schema.kind):
                    continue
                for index in schema.indexes.values():
                    for entry in KeyMapper(schema).entries(index, dict(values), key[len(schema.kind) :]):
                        if not read(store, index.table, entry):
                            return f"MISSING: {dict(values)} has no entry in {index.table}"
        return None


def _alone(steps: Steps, store: Any) -> None:
    answer: Any = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            return
        answer = mc.apply_op(store, step, 0)


def joint(
    kind: str,
    mine: Sequence[str] = NAMES,
    theirs: Sequence[str] = NAMES,
    clocks: Clocks = (5, 12, 15),
    rules: Rules = SHIPPED,
    **options: Any,
) -> Iterator[tuple[str, JointModel]]:
    """Two commits into one row, each of two or three objects of two kinds."""
    for one, two, *readings in at_clocks(clocks, 2, mine, theirs):
        yield (
            f"{kind}, {one} at {readings[0]}, {two} at {readings[1]}, {options}",
            JointModel(kind, (one, two), readings, rules, **options),
        )
