"""Configurations for the model checker in which rows expire, at any moment; and rules of that broken on purpose."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from attrs import evolve

import hbmodel as hb
from hbmodel.mapping.rows.mapper import Values
from hbmodel.mapping.schema import LIVE
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner, OldRow, RowPlan
from hbmodel.protocol.writes import DeleteRow, UpdateFields, put_object
from hbmodel.store import Put, Row
from tests.checker.behaviour import once
from tests.checker.clocks import Clocks, at_clocks
from tests.checker.protocol_adapter import END, Step, Steps, Store
from tests.checker.protocol_invariants import ProtocolModel, watch_of
from tests.checker.protocol_mutants import Mutant, writing
from tests.checker.protocol_processes import (
    SHIPPED,
    Action,
    Insert,
    Rules,
    change,
    gone,
    prepared,
    reader,
    repairer,
    writer,
)
from tests.checker.protocol_sweeps import Configuration, Process

LIFE = END // 2


@hb.model(table="leaves", family="d")
class Leaf:
    """One index over one column, with a covered column and one outside; no counter, so that rows may expire."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    extra: hb.Column[str | None] = hb.column("e", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_tag = hb.index("tag", covers=("extra",))


LEAF, KEY = hb.schema.schema_of(Leaf), hb.row_key(Leaf, name="k")
INDEX = LEAF.indexes["by_tag"]
OLD = Leaf(name="k", tag="a", extra="e", note="old")


def leaf(tag: str, note: str | None = None, ttl: int | None = None) -> Any:
    """A full write."""
    return put_object(LEAF, Leaf(name="k", tag=tag, note=note), ttl)


ACTIONS: Mapping[str, tuple[Action, ...]] = {
    "put a": (leaf("a"),),
    "put b": (leaf("b", "new"),),
    "tag b": (change(Leaf, "k", tag="b"),),
    "note": (change(Leaf, "k", note="n"),),
    "delete": (gone(Leaf, "k"),),
    "insert": (Insert(leaf("b")),),
    "delete, put": (gone(Leaf, "k"), leaf("b")),
    "expiring a": (leaf("a", "x", LIFE),),
    "expiring b": (leaf("b", "x", LIFE),),
    "expiring insert": (Insert(leaf("b", "x", LIFE)),),
    "expiring tag b": (evolve(change(Leaf, "k", tag="b"), ttl=LIFE),),
    "delete, expiring b": (gone(Leaf, "k"), leaf("b", "x", LIFE)),
    "expiring b, note": (leaf("b", "x", LIFE), change(Leaf, "k", note="n")),
    "expiring b, put a": (leaf("b", "x", LIFE), leaf("a")),
}
MORTAL = tuple(name for name in ACTIONS if "expiring" in name)
IMMORTAL = tuple(name for name in ACTIONS if "expiring" not in name)

STORES: Mapping[str, Store] = {
    "live": prepared(LEAF, (10, leaf("a", "old"))),
    "dead": prepared(LEAF, (9, leaf("a", "old")), (10, gone(Leaf, "k"))),
    "absent": {},
    "expiring": prepared(LEAF, (9, leaf("a", "old")), (10, leaf("a", "older", LIFE))),
}


@once
def repairers(rules: Rules) -> list[Process]:
    """A repairer of the index that also purges the row's dead marker."""
    return [("G", repairer(LEAF, INDEX, rules, purge=KEY), 0)]


@once
def readers(rules: Rules) -> list[Process]:
    """Queries for one tag each."""

    def has(tag: str) -> Callable[[Values], bool]:
        return lambda values: values["tag"] == tag

    return [
        (f"R{tag}", reader(LEAF, INDEX, tag.encode(), tag.encode() + b"\xff", has(tag), rules=rules), 0) for tag in "ab"
    ]


def time_passes() -> Steps:
    """A process with one step, in which everything that can expire expires."""
    step: Step = ("expire",)
    yield step


def lives(
    first: Sequence[str] = MORTAL,
    second: Sequence[str] = tuple(ACTIONS),
    clocks: Clocks = (5, 12),
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = ("live",),
    others: Callable[[Rules], Sequence[Process]] | None = None,
    crashes: int = 1,
    compaction: str | None = None,
    **options: Any,
) -> Iterator[Configuration]:
    """A writer of a row that expires, another writer, and the passing of time."""
    watch = watch_of(LEAF)
    for kind, one, two, *readings in at_clocks(clocks, 2, stores, first, second):
        for other in others(rules) if others is not None else (None,):
            running: list[Process] = [
                (f"W{n}", writer(LEAF, n, ACTIONS[name], reading, rules, **options), reading)
                for n, (name, reading) in enumerate(zip((one, two), readings, strict=True), 1)
            ]
            running += [("T", time_passes, 0), *([other] if other is not None else [])]
            label = (
                f"{kind} row, {one} at {readings[0]}, {two} at {readings[1]}, {None if other is None else other[0]}, "
                f"{options}"
            )
            yield label, ProtocolModel(watch, STORES[kind], running, crashes, compaction)


# --- a family with a TTL ----------------------------------------------------------------------------------------------


@hb.model(table="fleeting", family=hb.family("d", ttl=timedelta(days=1)))
class Fleeting:
    """As `Leaf`, in a family whose cells expire."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    extra: hb.Column[str | None] = hb.column("e", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_tag = hb.index("tag", covers=("extra",))


FLEETING = hb.schema.schema_of(Fleeting)
FADING: Mapping[str, tuple[Action, ...]] = {
    "put a": (put_object(FLEETING, Fleeting(name="k", tag="a")),),
    "put b": (put_object(FLEETING, Fleeting(name="k", tag="b", note="new")),),
    "tag b": (change(Fleeting, "k", tag="b"),),
    "note": (change(Fleeting, "k", note="n"),),
    "extra": (change(Fleeting, "k", extra="f"),),
    "delete": (gone(Fleeting, "k"),),
    "insert": (Insert(put_object(FLEETING, Fleeting(name="k", tag="b"))),),
    "delete, put": (gone(Fleeting, "k"), put_object(FLEETING, Fleeting(name="k", tag="b"))),
    "note, tag b": (change(Fleeting, "k", note="n"), change(Fleeting, "k", tag="b")),
}
FADING_STORES: Mapping[str, Store] = {
    "live": prepared(FLEETING, (10, put_object(FLEETING, Fleeting(name="k", tag="a", extra="e", note="old")))),
    "dead": prepared(
        FLEETING, (9, put_object(FLEETING, Fleeting(name="k", tag="a", note="old"))), (10, gone(Fleeting, "k"))
    ),
}


def fading(
    first: Sequence[str] = tuple(FADING),
    second: Sequence[str] = tuple(FADING),
    clocks: Clocks = (5, 12),
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = ("live",),
    ages: Sequence[int] = (10, 11),
    repair: bool = False,
    crashes: int = 1,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers of a row in a family with a TTL, and the moment at which all cells up to an age have expired."""
    watch, index = watch_of(FLEETING), FLEETING.indexes["by_tag"]
    rows = ((FLEETING.table, b"k"), *((index.table, tag + b"\x00\x01k") for tag in (b"a", b"b")))
    for kind, age, one, two, *readings in at_clocks(clocks, 2, stores, ages, first, second):

        def ageing(age: int = age) -> Steps:
            yield ("age", rows, age)

        running: list[Process] = [
            (f"W{n}", writer(FLEETING, n, FADING[name], reading, rules, **options), reading)
            for n, (name, reading) in enumerate(zip((one, two), readings, strict=True), 1)
        ]
        running += [("T", ageing, 0), *([("G", repairer(FLEETING, index, rules, purge=b"k"), 0)] if repair else [])]
        label = f"{kind} row, {one} at {readings[0]}, {two} at {readings[1]}, cells up to {age} expire, {options}"
        yield label, ProtocolModel(watch, FADING_STORES[kind], running, crashes)


class ChangesAlone(IndexedRowPlanner):
    """An update where a family has a TTL writes only what it changes (and the group with it)."""

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        mortal = self.schema
        object.__setattr__(self, "schema", evolve(mortal, families=()))
        try:
            return super()._partial(write, old, timestamp)
        finally:
            object.__setattr__(self, "schema", mortal)


# --- rules broken on purpose ------------------------------------------------------------------------------------------


class OlderStays(IndexedRowPlanner):
    """A put that expires deletes nothing below itself."""

    def _whole(self, *args: Any) -> RowPlan:
        return evolve(super()._whole(*args), row_delete=None)


class DeleteAtTime(IndexedRowPlanner):
    """The delete that goes with a put that expires is at t, not at t-1."""

    def _whole(self, *args: Any) -> RowPlan:
        plan = super()._whole(*args)
        return (
            plan
            if plan.row_delete is None
            else evolve(plan, row_delete=evolve(plan.row_delete, timestamp=plan.outcome.timestamp))
        )


class EntriesStay(IndexedRowPlanner):
    """Entries have no TTL."""

    def _puts(self, entries: Any, values: Any, version: bytes, timestamp: int, ttl: int | None = None) -> Any:
        return super()._puts(entries, values, version, timestamp)


class EntriesLiveLonger(IndexedRowPlanner):
    """Entries have a longer TTL than their rows."""

    def _puts(self, entries: Any, values: Any, version: bytes, timestamp: int, ttl: int | None = None) -> Any:
        return super()._puts(entries, values, version, timestamp, None if ttl is None else 4 * ttl)


class EntriesDieFirst(IndexedRowPlanner):
    """A row that expires does so only long after its entries."""

    def _whole(self, *args: Any) -> RowPlan:
        plan = super()._whole(*args)
        return (
            plan
            if plan.put is None or plan.put.ttl is None
            else evolve(plan, put=evolve(plan.put, ttl=4 * plan.put.ttl))
        )


class NoEnd(IndexedRowPlanner):
    """Rows do not say when they end, so updates change single columns."""

    def _whole(self, old: OldRow, put: Put, *args: Any) -> RowPlan:
        return super()._whole(old, evolve(put, cells={**put.cells, self.schema.liveness_column: LIVE}), *args)


class ChangesExpire(IndexedRowPlanner):
    """An update of a row that expires puts the group with the rest of its TTL, but not the whole row."""

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._partial(write, old, timestamp)
        if plan.put is None or plan.put.ttl is None or write.ttl is not None:
            return plan
        kept = (
            self.group_columns
            | {self.schema.version_column}
            | {self.schema.by_name[name].column for name in write.changes}
        )
        cells = {column: value for column, value in plan.put.cells.items() if column in kept}
        return evolve(plan, put=evolve(plan.put, cells=cells), row_delete=None, stale=self._stale(old, (), timestamp))


class Unchecked(IndexedRowPlanner):
    """Nothing is checked when a row that expires is written."""

    def condition(self, row: Row) -> None:
        """None."""


class UncheckedDelete(IndexedRowPlanner):
    """A row that expires is deleted whatever was written since it was read."""

    def _delete(self, write: DeleteRow, old: OldRow, timestamp: int) -> RowPlan:
        return evolve(super()._delete(write, old, timestamp), condition=None)


class FirstLifeOnTop(IndexedRowPlanner):
    """A row that gets a TTL is put at the time of the clock, like a row that already has a TTL."""

    def rewritten_by_updates(self, row: Row) -> bool:
        """Whether the row seems to have one, only for updates."""
        return sys._getframe(1).f_code.co_name == "_rewritten" or super().rewritten_by_updates(row)


def pair(first: str, second: str, **options: Any) -> Callable[[Rules], Iterable[Configuration]]:
    """These two writers, by every clock."""
    return lambda rules: lives((first,), (second,), rules=rules, **options)


MUTANTS: Mapping[str, Mutant] = {
    "older cells stay under a row that expires": Mutant(writing(OlderStays), pair("expiring b", "note"), "STALE"),
    "a row that expires deletes at t": Mutant(writing(DeleteAtTime), pair("expiring b", "note"), "LOST"),
    "entries without a TTL": Mutant(writing(EntriesStay), pair("expiring b", "note"), "OUTLIVES"),
    "entries with a longer TTL": Mutant(writing(EntriesLiveLonger), pair("expiring b", "note"), "OUTLIVES"),
    "entries with a shorter TTL": Mutant(writing(EntriesDieFirst), pair("expiring b", "note"), "MISSING"),
    "rows that do not say when they end": Mutant(writing(NoEnd), pair("expiring b, note", "delete"), "LOST"),
    "an update that expires alone": Mutant(
        writing(ChangesExpire), pair("expiring b, note", "put b", crashes=0), "STALE"
    ),
    "an update in a family with a TTL changes single columns": Mutant(
        writing(ChangesAlone), lambda rules: fading(("note",), ("extra",), rules=rules), "LOST"
    ),
    "a group in a family with a TTL alone": Mutant(
        writing(ChangesAlone), lambda rules: fading(("tag b",), ("note",), rules=rules), "LOST"
    ),
    "an update puts an expiring row again whatever happened to it": Mutant(
        writing(Unchecked), pair("note", "delete", stores=("expiring",)), "RETURNED"
    ),
    "a delete of an expiring row below an update": Mutant(
        writing(UncheckedDelete), pair("note", "delete", stores=("expiring",), clocks=(5, 14)), "RETURNED"
    ),
    "an update in a family with a TTL brings a row back": Mutant(
        writing(Unchecked), lambda rules: fading(("note",), ("delete",), rules=rules), "RETURNED"
    ),
    "a row gets its TTL above a delete": Mutant(
        writing(FirstLifeOnTop), pair("expiring tag b", "delete", clocks=(5, 14)), "RETURNED"
    ),
    "repair of a row that expires": Mutant(
        Rules(spare=False), pair("expiring a", "put b", others=repairers), "MISSING"
    ),
}
