"""Covering reads in the model checker: writers, queries that trust verified entries, repair and builds.

The invariants of every model require that a verified entry agrees with its row in every state. Queries are checked for
what they return: a state that the row had during the query. Models are immutable (I) or versioned (V).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

import hbmodel as hb
from hbmodel.mapping.rows.covering import EntryDecoder, fields_held, is_verified
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder, Values
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.indexed.entry_verifier import CoveringReader, EntryScope, EntryVerifier
from hbmodel.protocol.indexed.index_build import RowIndexer
from hbmodel.protocol.indexed.index_repair import marker_of, purge_markers, repair_entries, reverify_entries
from hbmodel.protocol.indexed.index_verify import Entry
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.operations import Protocol
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.writes import DeleteRow, PutObject, UpdateFields, put_object
from hbmodel.store.ranges import KeyRange
from tests.checker.clocks import Clocks, over_stores
from tests.checker.protocol_adapter import Began, SetClock, Step, Steps, Store, Told, Translation, found_row, mc
from tests.checker.protocol_invariants import ProtocolModel, View, Watch
from tests.checker.protocol_lives import LIFE, time_passes
from tests.checker.protocol_processes import LATEST, Insert, _repairing, builder
from tests.checker.protocol_processes import Rules as Around
from tests.checker.protocol_processes import prepared as prepared_facts
from tests.checker.protocol_processes import writer as fact_writer
from tests.checker.protocol_sweeps import Configuration, Process
from tests.checker.protocol_versions import Rules as VersionRules
from tests.checker.protocol_versions import VersionWatch
from tests.checker.protocol_versions import prepared as prepared_posts
from tests.checker.protocol_versions import writer as post_writer

# --- models -----------------------------------------------------------------------------------------------------------


@hb.model(table="facts2", family="d", immutable=True)
class Fact:
    """Immutable: one covering index, one column outside it."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    extra: hb.Column[str | None] = hb.column("e", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_tag = hb.index("tag", covers=("extra",))


@hb.model(table="posts", family="d")
class Post:
    """Versioned, the same otherwise."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    extra: hb.Column[str | None] = hb.column("e", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", covers=("extra",))


@hb.model(table="tasks", family="d")
class Task:
    """Versioned, with several entries of a row: an index of all rows, whose entries also show the version, and a
    partial index.
    """

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    extra: hb.Column[str | None] = hb.column("e", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", covers=("extra", "note"))
    unnoted = hb.index("tag", covers=("extra",), where=lambda task: task.note.is_(None))


MODELS: Mapping[str, Any] = {"I": Fact, "V": Post, "V2": Task}


def whole(model: Any, *, ttl: int | None = None, **values: Any) -> PutObject:
    """A put of the row `k`."""
    return put_object(hb.schema.schema_of(model), model(name="k", **values), ttl)


def gone(model: Any) -> DeleteRow:
    """A delete of it."""
    return DeleteRow(None, hb.row_key(model, name="k"))


def change(model: Any, **changes: Any) -> UpdateFields:
    """An update of it."""
    return UpdateFields(None, hb.row_key(model, name="k"), {"name": "k"}, changes)


def versioned_actions(model: Any) -> dict[str, tuple[Any, ...]]:
    """The actions of writers of a versioned model."""
    return {
        "put a": (whole(model, tag="a"),),
        "put b": (whole(model, tag="b", note="new"),),
        "extra": (change(model, extra="f"),),
        "no extra": (change(model, extra=None),),
        "note": (change(model, note="n"),),
        "delete": (gone(model),),
        "insert": (Insert(whole(model, tag="b")),),
        "put b, put a": (whole(model, tag="b"), whole(model, tag="a")),
        "delete, put": (gone(model), whole(model, tag="a", extra="g")),
    }


SAME = whole(Fact, tag="a", extra="e")
ACTIONS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "I": {
        "put": (SAME,),
        "put, put": (SAME, SAME),
        "delete": (gone(Fact),),
        "put, delete": (SAME, gone(Fact)),
        "insert a": (Insert(whole(Fact, tag="a")),),
        "insert b": (Insert(whole(Fact, tag="b", extra="f")),),
        "insert a too": (Insert(whole(Fact, tag="a", extra="f")),),
        "insert b, delete": (Insert(whole(Fact, tag="b", extra="f")), gone(Fact)),
        "expiring": (whole(Fact, tag="a", extra="e", ttl=LIFE),),
        "expiring, delete": (whole(Fact, tag="a", extra="e", ttl=LIFE), gone(Fact)),
    },
    "V": versioned_actions(Post),
    "V2": versioned_actions(Task),
}
PUTS = ("put", "put, put", "delete", "put, delete")
"""Programs that put the same fact, and delete it."""

INSERTS = ("insert a", "insert a too", "insert b", "delete", "insert b, delete")
"""Programs that put different facts under one key. With three of them a key that is used again within the grace time
can be wrong.
"""

MORTAL = ("expiring", "expiring, delete", "put", "delete")


# --- the code under test ----------------------------------------------------------------------------------------------


def bare(code: Protocol[Any]) -> Protocol[Any]:
    """Changes nothing."""
    return code


@frozen
class Rules:
    """The shipped code, or a mutant of it.

    Attributes:
        facts: plans writes of immutable models.
        posts: plans writes of versioned ones.
        around: changes what a protocol of writes does.
        trusts: whether an entry is used without its row.
        indexer: makes the entries of builds and of repair.
        repair: the repairer, see `protocol_processes.Rules`.
        again: the reading of the clock at which a build puts lost entries, or None.
        maintained_by_all: whether writers take an index for one that every program keeps while some do not.
    """

    facts: type[IndexedRowPlanner] = IndexedRowPlanner
    posts: type[VersionedRowPlanner] = VersionedRowPlanner
    around: Callable[[Protocol[Any]], Protocol[Any]] = bare
    trusts: Callable[[TableSchema, Any], bool] = is_verified
    indexer: type[RowIndexer] = RowIndexer
    repair: Around = field(factory=Around)
    again: int | None = None
    maintained_by_all: bool = False


SHIPPED = Rules()


def writer(kind: str, process: int, name: str, reading: int, rules: Rules, **options: Any) -> Callable[[], Steps]:
    """A process that carries out the actions of that name."""
    schema, actions = hb.schema.schema_of(MODELS[kind]), ACTIONS[kind][name]
    if kind == "I":
        return fact_writer(
            schema, process, actions, reading, Around(writer=rules.facts, around=rules.around), **options
        )
    return post_writer(
        schema, process, actions, reading, VersionRules(planner=rules.posts, around=rules.around), **options
    )


def reader(kind: str, tags: str, rules: Rules, index_name: str = "by_tag", page: int = 9) -> Callable[[], Steps]:
    """A query for a tag, or a range of tags, that selects every field in the entries: pages of entries, and one
    multi-get for the unverified entries.
    """
    schema = hb.schema.schema_of(MODELS[kind])
    index, keys = schema.indexes[index_name], KeyMapper(schema)
    held = fields_held(schema, index)
    decoder, rows = EntryDecoder(schema, index, held), RowDecoder(schema, True, held | index.reads)
    low, high = tags[0].encode(), tags[-1].encode() + b"\xff"

    def asked(values: Values) -> bool:
        return bool(tags[0] <= values["tag"] <= tags[-1])

    def run() -> Steps:
        verifier = EntryVerifier(
            schema, index, rows, lambda values: tags[0] <= values["tag"] <= tags[-1], EntryScope([KeyRange(low, high)])
        )
        covering = _Reader(decoder, None, verifier, rules.trusts)
        after: bytes | None = None
        got: list[Any] = []
        watch: tuple[Any, ...] = (lambda found: asked(dict(found[1])) and _has(index, dict(found[1])),)
        ended = False
        while not ended:
            entries: list[Any] = []
            while len(entries) < page and not ended:
                found = yield ("scan", index.table, after, low, high, *watch)
                watch = ()
                ended = found is None
                if found is not None:
                    after = found[0]
                    entries.append(found_row(*found))
            homes = [keys.row_of_entry(index, entry.row)[0] for entry in entries]
            yield from Translation(schema.table, SetClock(0), {}, ()).steps(
                _kept(covering.read(entries), got, homes, held)
            )
        yield ("end", tuple(got))

    return run


def _has(index: Index, values: Values) -> bool:
    return all(condition.test()({"note": None, **values}) for condition in index.conditions)


@frozen(eq=False)
class _Reader(CoveringReader):
    """The shipped reader, and what it trusts."""

    trusts: Callable[[TableSchema, Any], bool] = is_verified

    def read(self, entries: Sequence[Any]) -> Protocol[list[Values | None]]:
        if self.trusts is is_verified:
            return (yield from super().read(entries))
        return [self.decoder.values(entry) if self.trusts(self.decoder.schema, entry) else None for entry in entries]


def _kept(
    protocol: Protocol[list[Values | None]], got: list[Any], rows: Sequence[bytes], held: frozenset[str]
) -> Protocol[None]:
    for row, values in zip(rows, (yield from protocol), strict=True):
        if values is not None:
            got.append((row, _part(values.items(), held)))


def _part(values: Any, held: frozenset[str]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, value) for name, value in values if name in held))


def repairer(
    kind: str, rules: Rules, index_name: str = "by_tag", only_verify: bool = False, every: bool = False
) -> Callable[[], Steps]:
    """Repair of an index: entries without a row are deleted, and correct entries that are not verified are put again;
    then the dead row's marker is deleted. With `every`, each correct entry is put again, as if its covered values were
    outdated.
    """
    schema = hb.schema.schema_of(MODELS[kind])
    index, row = schema.indexes[index_name], hb.row_key(MODELS[kind], name="k")
    indexer = rules.indexer(schema, (index,))

    def run() -> Steps:
        after: bytes | None = None
        seen: list[Entry] = []
        while found := (yield ("scan", index.table, after, b"", b"\xff" * 9)):
            seen.append(Entry.of(schema, index, found_row(*found)))  # type: ignore[arg-type]
            after = found[0]
        for entry in seen:
            if not only_verify:
                yield from _repairing(schema, repair_entries(indexer, index, [entry], 0), rules.repair, entry.timestamp)
            if entry.unverified or every:
                yield from _repairing(
                    schema, reverify_entries(indexer, index, [entry], 0), rules.repair, entry.timestamp
                )
        if only_verify:
            return
        cells = yield Told(("read", schema.table, row, (schema.liveness_column,)))
        dead = found_row(row, cells)
        if dead is not None and (marker := marker_of(schema, dead)) is not None:  # type: ignore[arg-type]
            yield from _repairing(schema, purge_markers(schema, [dead], 0), rules.repair, marker.timestamp, [dead])  # type: ignore[list-item]

    return run


# --- configurations ---------------------------------------------------------------------------------------------------


class FactWatch(Watch):
    """For immutable rows it is only required that entries exist and are correct: puts do not read the old row, so a put
    with a slow clock may lose.
    """

    def _writes(self, store: Store, row: bytes, view: View, history: dict[int, Began]) -> Iterator[str]:
        return iter(())


def watch_of(kind: str, rules: Rules) -> Watch:
    """The invariants of the rows of a kind."""
    schema = hb.schema.schema_of(MODELS[kind])
    return FactWatch(schema, True, rules.trusts) if kind == "I" else VersionWatch(schema, True, rules.trusts)


class CoveringModel(ProtocolModel):
    """The checker over writers and queries that see what entries hold."""

    def __init__(
        self, kind: str, watch: Watch, store: Store, processes: Sequence[Process], crashes: int, compaction: str | None,
        *, heal: bool = False, kept: bool = True,
    ) -> None:  # fmt: skip
        """With `heal` builds and repair must leave every entry verified in the end; where an index is not `kept`,
        none is ever.
        """
        self.kind, self.heal, self.kept = kind, heal, kept
        schema = hb.schema.schema_of(MODELS[kind])
        super().__init__(watch, store, processes, crashes, compaction, "tag")
        read = next((name.partition(" ")[2] for name, _, _ in processes if name.startswith("R")), None)
        self._read = None if read is None else schema.indexes[read]
        self._held = frozenset() if self._read is None else fields_held(schema, self._read)

    def broken(self, store: Store) -> str | None:
        """The invariants; of an index that not all keep, that no entry is verified."""
        return super().broken(store) if self.kept else next(self.watch._verified(store), None)

    def primary(self, store: Store) -> tuple[Any, ...]:
        """The items of the live rows that a query may find."""
        live = super().primary(store)
        if self._read is None:
            return live
        return tuple((row, _part(values, self._held)) for row, values in live if _has(self._read, dict(values)))

    def remembered(self, answer: Any) -> Any:
        """An entry that a scan found is remembered with its cells."""
        return answer

    def terminal(self, store: Store) -> str | None:
        """The entries that must remain after repair."""
        if not self.kept:
            return None
        return self._healed(store) if self.heal else super().terminal(store)

    def _healed(self, store: Store) -> str | None:
        """Builds and repair leave every current entry verified, and nothing else."""
        schema = hb.schema.schema_of(MODELS[self.kind])
        after = dict(store)
        for name, index in schema.indexes.items():
            _alone(builder(schema, index, [hb.row_key(MODELS[self.kind], name="k")])(), after)
            _alone(repairer(self.kind, SHIPPED, name)(), after)
        if broken := self.watch.check(after):
            return f"after repair: {broken}"
        for row in self.watch.rows(after):
            for index, entry in self.watch.view(after, row).entries:
                found: Any = found_row(entry, mc.vis(after, index.table, entry))
                if not is_verified(schema, found) and "expire" not in str(self.procs):
                    return f"UNVERIFIED survives repair: {entry!r}"
        return None


def _alone(steps: Steps, store: Store) -> None:
    """Takes the steps one after the other, the grace time being over."""
    answer: Any = None
    try:
        while True:
            step: Step = steps.send(answer)
            parts = step[1] if step[0] == "par" else (step,)
            answers = [
                mc.apply_op(store, part, 0) for part in parts if part[0] not in {"issue", "acknowledge", "grace", "old"}
            ]
            answer = answers[0] if len(answers) == 1 else None
    except StopIteration:
        return


def _stores() -> Mapping[str, Mapping[str, Store]]:
    made: dict[str, dict[str, Store]] = {}
    for kind, model in MODELS.items():
        schema = hb.schema.schema_of(model)
        first = whole(model, tag="a", extra="e")
        rounds = {"live": [(10, first)], "dead": [(9, first), (10, gone(model))], "absent": []}
        prepared: Any = prepared_facts if kind == "I" else prepared_posts
        made[kind] = {name: prepared(schema, *actions) for name, actions in rounds.items()}
        unverified = {
            key: type(state)((state[0], tuple((c, cell) for c, cell in state[1] if not c.endswith(b":_s"))))
            for key, state in made[kind]["live"].items()
            if key[0] in {index.table for index in schema.indexes.values()}
        }
        made[kind]["built before"] = {**made[kind]["live"], **unverified}
    return made


STORES = _stores()


def readers(kind: str, rules: Rules) -> list[Process]:
    """Queries for one tag each, and for a range of tags."""
    names = tuple(hb.schema.schema_of(MODELS[kind]).indexes)
    return [(f"R{tags} {name}", reader(kind, tags, rules, name), 0) for name in names for tags in ("a", "b", "ab")]


def repairers(kind: str, rules: Rules) -> list[Process]:
    """A repairer of each index."""
    return [("WG", repairer(kind, rules, name), LATEST) for name in hb.schema.schema_of(MODELS[kind]).indexes]


def reverifiers(kind: str, rules: Rules) -> list[Process]:
    """Only what repair does for entries that are right but not verified."""
    return [("WG", repairer(kind, rules, only_verify=True), LATEST)]


def updaters(kind: str, rules: Rules) -> list[Process]:
    """Only what repair does for entries whose covered values are outdated."""
    return [("WG", repairer(kind, rules, only_verify=True, every=True), LATEST)]


def builders(kind: str, rules: Rules) -> list[Process]:
    """A build, while writers maintain the index."""
    schema, row = hb.schema.schema_of(MODELS[kind]), hb.row_key(MODELS[kind], name="k")
    return [("WB", builder(schema, schema.indexes["by_tag"], [row], rules.indexer, rules.again), LATEST)]


def nobody(kind: str, rules: Rules) -> list[Any]:
    """Nobody else."""
    return [None]


EVERY_ROW = ("live", "dead", "absent", "built before")


def covering(
    kind: str,
    names: Sequence[str] | None = None,
    clocks: Clocks = (5, 12),
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = ("live",),
    others: Callable[[str, Rules], Sequence[Any]] = nobody,
    crashes: int = 1,
    compaction: str | None = None,
    count: int = 2,
    ordered: bool = False,
    expire: bool = False,
    heal: bool = False,
    first: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers (or `count`) of one row, each pair of actions and clocks, and one other process or none."""
    watches: dict[str | None, Watch] = {}
    of = tuple(ACTIONS[kind]) if names is None else names
    chosen_of = list(over_stores(stores, of, clocks, count, ordered=ordered))
    for (store, (chosen, readings)), other in itertools.product(chosen_of, others(kind, rules)):
        running: list[Process] = [
            (f"W{n}", writer(kind, n, name, at, rules, **{**options, **(first or {} if n == 1 else {})}), at)
            for n, (name, at) in enumerate(zip(chosen, readings, strict=True), 1)
        ]
        running += [] if other is None else [other]
        running += [("T", time_passes, 0)] if expire else []
        watch = watches.setdefault(None if other is None else other[0], watch_of(kind, rules))
        made = CoveringModel(kind, watch, STORES[kind][store], running, crashes, compaction, heal=heal)
        label = (
            f"{kind}, {store} row, {list(zip(chosen, readings, strict=True))}, "
            f"{None if other is None else other[0]}, {first}, {options}"
        )
        yield label, made


def unkept(kind: str, rules: Rules = SHIPPED) -> Iterator[Configuration]:
    """A writer that maintains the index, and one that does not know the index yet: no entry is verified then."""
    schema = hb.schema.schema_of(MODELS[kind])
    index = evolve(schema.indexes["by_tag"], maintained_by_all=rules.maintained_by_all)
    for name, other in itertools.product(
        ("put", "insert b") if kind == "I" else ("put a", "put b", "extra", "insert"), ("delete", "put", "put b")
    ):
        if other not in ACTIONS[kind]:
            continue
        for store, readings in itertools.product(("live", "absent"), itertools.product((5, 12), repeat=2)):
            planners = [_keeping(kind, rules, indexes) for indexes in ((index,), ())]
            running: list[Process] = [
                (f"W{n}", writer(kind, n, of, at, planner), at)
                for n, (of, at, planner) in enumerate(zip((name, other), readings, planners, strict=True), 1)
            ]
            before = {key: value for key, value in STORES[kind][store].items() if key[0] != index.table}
            made = CoveringModel(kind, watch_of(kind, rules), before, running, 1, None, kept=False)
            yield f"{kind}, {store} row, {name} beside {other} without the index, {readings}", made


def _keeping(kind: str, rules: Rules, indexes: Sequence[Index]) -> Rules:
    """Writers that keep just these indexes."""
    of: Any = rules.facts if kind == "I" else rules.posts

    class Keeping(of):  # type: ignore[misc]
        def __attrs_post_init__(self) -> None:
            object.__setattr__(self, "indexes", indexes)
            super().__attrs_post_init__()

    return evolve(rules, facts=Keeping) if kind == "I" else evolve(rules, posts=Keeping)
