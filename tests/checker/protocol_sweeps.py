"""Families of configurations for the model checker: which writers, clocks and other processes run over which row."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

import hbmodel as hb
from hbmodel.mapping.rows.mapper import Values
from tests.checker.behaviour import once
from tests.checker.clocks import Clocks, at_clocks, combinations, over_stores
from tests.checker.protocol_adapter import Steps, Store
from tests.checker.protocol_invariants import ProtocolModel, watch_of
from tests.checker.protocol_processes import (
    PLACE,
    SHIPPED,
    THING,
    Action,
    Increment,
    Insert,
    Place,
    Rules,
    Thing,
    builder,
    change,
    gone,
    prepared,
    put,
    reader,
    repairer,
    writer,
)

Process = tuple[str, Callable[[], Steps], int]

KEY, OTHER = hb.row_key(Thing, name="k"), hb.row_key(Thing, name="m")
INDEX = THING.indexes["by_tag"]
OLD = Thing(name="k", tag="a", extra="e", note="old")
CLOCKS = (5, 12, 13)

ACTIONS: dict[str, tuple[Action, ...]] = {
    "put a": (put(Thing(name="k", tag="a")),),
    "put b": (put(Thing(name="k", tag="b", note="new")),),
    "tag b": (change(Thing, "k", tag="b"),),
    "tag a": (change(Thing, "k", tag="a"),),
    "extra": (change(Thing, "k", extra="f"),),
    "note": (change(Thing, "k", note="n"),),
    "no note": (change(Thing, "k", note=None),),
    "delete": (gone(Thing, "k"),),
    "insert": (Insert(put(Thing(name="k", tag="b"))),),
    "delete, insert": (gone(Thing, "k"), Insert(put(Thing(name="k", tag="a")))),
    "delete, put": (gone(Thing, "k"), put(Thing(name="k", tag="b"))),
    "delete, insert, delete": (gone(Thing, "k"), Insert(put(Thing(name="k", tag="a"))), gone(Thing, "k")),
    "insert, delete": (Insert(put(Thing(name="k", tag="a", note="i"))), gone(Thing, "k")),
    "increment": (Increment(KEY),),
}

STORES: dict[str, Store] = {
    "live": prepared(THING, (10, put(OLD))),
    "dead": prepared(THING, (9, put(OLD)), (10, gone(Thing, "k"))),
    "absent": {},
}


@frozen
class Found:
    """The result of a sweep.

    Attributes:
        models: the number of configurations that were run. states: the number of states that they reached.
        error: the first violation, or None.
        trace: the configuration and the steps that lead to it.
    """

    models: int
    states: int
    error: str | None = None
    trace: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n    ".join([f"{self.models} models, {self.states} states: {self.error}", *self.trace])


Configuration = tuple[str, ProtocolModel]


def flat(configurations: Iterable[Any]) -> Iterator[Configuration]:
    """Configurations one by one; an iterator among them gives further ones, each once the last was run."""
    for found in configurations:
        if isinstance(found, Iterator):
            yield from found
        else:
            yield found


def sweep(configurations: Iterable[Configuration], budget: float | None = None) -> Found:
    """Runs configurations until one is violated, or for `budget` seconds."""
    models = states = 0
    begun = time.monotonic()
    for name, model in flat(configurations):
        result = model.run()
        models += 1
        states += result["states"]
        if result["ok"] is not True:
            return Found(models, states, result["error"], (name, *result.get("trace", ())))
        if budget is not None and time.monotonic() - begun > budget:
            break
    return Found(models, states)


@once
def repairers(rules: Rules) -> list[Process]:
    """A repairer of the index that also purges the row's dead marker."""
    return [("G", repairer(THING, INDEX, rules, purge=KEY), 0)]


@once
def purgers(rules: Rules) -> list[Process]:
    """A purge of the row's dead marker alone."""
    return [("G", repairer(THING, INDEX, rules, purge=KEY, entries=False), 0)]


@once
def readers(rules: Rules) -> list[Process]:
    """Queries for one tag each; a query that fixes every index field never misses a row that matched throughout."""
    return [
        (f"R{tag}", reader(THING, INDEX, tag.encode(), tag.encode() + b"\xff", _has(tag), rules=rules), 0)
        for tag in "ab"
    ]


@once
def ranges(rules: Rules, page: int = 1) -> list[Process]:
    """A query for a range of tags; it may miss rows that move in it."""
    return [("R", reader(THING, INDEX, b"a", b"z", lambda values: values["tag"] >= "a", page, rules), 0)]


def _has(tag: str) -> Callable[[Values], bool]:
    return lambda values: values["tag"] == tag


def writers(
    names: Sequence[str],
    clocks: Sequence[int],
    rules: Rules = SHIPPED,
    actions: Mapping[str, Sequence[Action]] = ACTIONS,
    first: Mapping[str, Any] | None = None,
    schema: Any = THING,
    **options: Any,
) -> list[Process]:
    """One writer for each name; `first` are options of the first alone."""
    return [
        (
            f"W{n}",
            writer(schema, n, actions[name], clock, rules, **{**options, **(first or {} if n == 1 else {})}),
            clock,
        )
        for n, (name, clock) in enumerate(zip(names, clocks, strict=True), 1)
    ]


def two(
    names: Sequence[str] = tuple(ACTIONS),
    clocks: Clocks = CLOCKS,
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = ("live",),
    others: Callable[[Rules], Sequence[Process]] | None = None,
    crashes: int = 1,
    compaction: str | None = None,
    unmoved: str | None = None,
    strict: bool = True,
    always: bool = True,
    count: int = 2,
    ordered: bool = False,
    first: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers (or `count`) of one row, each pair of actions and clocks, and one other process or none."""
    watch = watch_of(THING, strict)
    for kind, (chosen, readings) in over_stores(stores, names, clocks, count, ordered=ordered):
        for other in others(rules) if others is not None else (None,):
            running = writers(chosen, readings, rules, first=first, **options) + ([other] if other is not None else [])
            label = (
                f"{kind} row, {list(zip(chosen, readings, strict=True))}, {None if other is None else other[0]}, "
                f"{first}, {options}"
            )
            yield label, ProtocolModel(watch, STORES[kind], running, crashes, compaction, unmoved, always=always)


# --- an index that is built -------------------------------------------------------------------------------------------


def building(
    names: Sequence[str],
    clocks: Clocks,
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = ("live",),
    again: int | None = None,
    repair: bool = False,
    crashes: int = 1,
    compaction: str | None = None,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers of a row whose index has no entries yet, and a builder; what must hold then holds once everything has
    stopped.

    Args:
        names: of what the writers do.
        clocks: their readings.
        rules: the code under test.
        stores: what there is before.
        again: the reading of the clock of a repair that puts lost entries, instead of a build.
        repair: whether a repairer is at work too.
        crashes: how many writers may crash.
        compaction: as for `ProtocolModel`.
        **options: of the writers.
    """
    watch = watch_of(THING)
    for kind, (chosen, readings) in over_stores(stores, names, clocks):
        store = {key: value for key, value in STORES[kind].items() if key[0] != INDEX.table}
        running = [*writers(chosen, readings, rules, **options), ("B", builder(THING, INDEX, [KEY], again=again), 0)]
        if repair:
            running += repairers(rules)
        label = f"a build, {kind} row, {list(zip(chosen, readings, strict=True))}, {again}, {options}"
        yield label, ProtocolModel(watch, store, running, crashes, compaction, always=False)


@once
def _one_after_the_other(first: Callable[[], Steps], second: Callable[[], Steps]) -> Callable[[], Steps]:
    def run() -> Steps:
        yield from first()
        yield from second()

    return run


def built(
    names: Sequence[str],
    clocks: Clocks,
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = ("live",),
    queries: Callable[[Rules], Sequence[Process]] = readers,
    builders: int = 1,
    crashes: int = 1,
    unmoved: str | None = None,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers of a row whose index has no entries yet, builders, and a query that begins once one of them is done.

    Queries of an index that is being built are refused. Two builders do the same work, and the first that is done
    writes the state that lets queries through.
    """
    watch = watch_of(THING)
    over = list(over_stores(stores, names, clocks))
    for (kind, (chosen, readings)), query in itertools.product(over, queries(rules)):
        store = {key: value for key, value in STORES[kind].items() if key[0] != INDEX.table}
        build = builder(THING, INDEX, [KEY], rules.indexer)
        name, start, _ = query
        running = writers(chosen, readings, rules, **options)
        running += [(f"B{name}", _one_after_the_other(build, start), 0)] if rules.built else [("B", build, 0), query]
        running += [(f"B{n}", build, 0) for n in range(1, builders)]
        label = f"{builders} builds, {kind} row, {list(zip(chosen, readings, strict=True))}, {name}, {options}"
        yield label, ProtocolModel(watch, store, running, crashes, None, unmoved, always=False)


# --- rounds of several rows, and several indexes ----------------------------------------------------------------------

BATCHES: dict[str, tuple[Action, ...]] = {
    "put both": ((put(Thing(name="k", tag="b")), put(Thing(name="m", tag="a"))),),
    "delete both": ((gone(Thing, "k"), gone(Thing, "m")),),
    "mixed": ((gone(Thing, "k"), change(Thing, "m", tag="b")),),
    "mixed too": ((change(Thing, "k", note="n"), put(Thing(name="m", tag="b", note="n"))),),
}


def batches(
    clocks: Clocks = (5, 12),
    singles: Sequence[str] = ("put b", "tag b", "note", "delete", "insert", "delete, insert"),
    rules: Rules = SHIPPED,
    names: Sequence[str] = tuple(BATCHES),
    others: Callable[[Rules], Sequence[Process]] | None = None,
    crashes: int = 1,
    **options: Any,
) -> Iterator[Configuration]:
    """One round over two live rows, concurrent with a writer of the first row; the second row has one more tag than the
    first.
    """
    store = prepared(THING, (10, put(OLD)), (10, put(Thing(name="m", tag="c", note="old"))))
    watch = watch_of(THING)
    for name, single, *readings in at_clocks(clocks, 2, names, singles):
        for other in others(rules) if others is not None else (None,):
            running = writers((name, single), readings, rules, {**BATCHES, **ACTIONS}, **options) + (
                [other] if other is not None else []
            )
            yield f"{name} beside {single} at {readings}, {options}", ProtocolModel(watch, store, running, crashes)


PLACES: dict[str, tuple[Action, ...]] = {
    "put": (put(Place(name="k", city="b", street="y")),),
    "city": (change(Place, "k", city="b"),),
    "street": (change(Place, "k", street="y"),),
    "back": (change(Place, "k", street="x"),),
    "note": (change(Place, "k", note="n"),),
    "delete": (gone(Place, "k"),),
    "insert": (Insert(put(Place(name="k", city="b", street="x"))),),
}


def places(
    clocks: Clocks = CLOCKS,
    names: Sequence[str] = tuple(PLACES),
    rules: Rules = SHIPPED,
    *,
    repair: bool = False,
    crashes: int = 1,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers of a row with two indexes, one of them over two columns."""
    store = prepared(PLACE, (10, put(Place(name="k", city="a", street="x", note="old"))))
    watch = watch_of(PLACE)
    for chosen, readings in combinations(names, clocks):
        running = writers(chosen, readings, rules, PLACES, schema=PLACE, **options)
        if repair:
            running.append(
                ("G", repairer(PLACE, PLACE.indexes["by_place"], rules, purge=hb.row_key(Place, name="k")), 0)
            )
        yield f"places, {list(zip(chosen, readings, strict=True))}", ProtocolModel(watch, store, running, crashes)
