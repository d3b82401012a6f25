"""Builds and repairs of a unique index in the model checker, concurrent with writers of the rows, and mutants of their
rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, frozen

import hbmodel as hb
from hbmodel.errors import UniqueViolation
from hbmodel.protocol.indexed.index_build import RowIndexer, index_rows
from hbmodel.protocol.operations import CheckAndMutate, CheckAndMutateRows, Operation, Protocol
from hbmodel.protocol.versioned.claim_comparison import FoundClaim, claim_existing, release_unheld
from hbmodel.protocol.versioned.unique_values import owner_of
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from tests.checker.clocks import Clocks, at_clocks
from tests.checker.protocol_adapter import BOUND, SetClock, Step, Steps, Store, Told, _changes, found_row, mc
from tests.checker.protocol_invariants import ProtocolModel
from tests.checker.protocol_sweeps import Configuration, Process
from tests.checker.protocol_unique import (
    ACTIONS,
    INDEX,
    MEMBER,
    Member,
    UniqueWatch,
    _claimed,
    by_force,
    put,
    unclaimed,
    unfenced,
)
from tests.checker.protocol_versions import SHIPPED, Rules, VersionTranslation, claims_in, is_fence, prepared, writer

BUILT = ("built", 0)
"""Key of the checker's store once a builder has found that no value is held twice."""

BUILDER = 90
"""Number under which the builder's fences put their cells; no write's."""


def _built(store: Store, step: Step) -> None:
    store[BUILT] = True


mc.OPS.update(built=_built)


@define(eq=False)
class BuildWatch(UniqueWatch):
    """The guarantees of the index hold from the moment that its build is done."""

    def _broken(self, store: Store) -> Iterator[str]:
        promised = ("MISSING", "DUPLICATE", "CLAIM")
        return (broken for broken in super()._broken(store) if BUILT in store or not broken.startswith(promised))


@define
class BuildTranslation(VersionTranslation):
    """The protocol of a build, which makes no writes of its own except fences."""

    def _step(self, operation: Operation) -> Step:
        if isinstance(operation, CheckAndMutate) and operation.table == self.table and is_fence(operation):
            changes = _changes(operation.mutations, BUILDER)
            return Told(("fence", operation.table, operation.row, operation.column, operation.expected, changes))
        return super()._step(operation)


@frozen
class BuildRules:
    """The code under test: the shipped one, or a mutant of it.

    Attributes:
        around: changes what the builder's or repairer's protocol does.
        counted: the rows that share a value, as the build counts them.
        writes: the concurrent writers.
        drained: whether every writer maintains the index.
    """

    around: Callable[[Protocol[Any]], Protocol[Any]] = lambda protocol: protocol
    counted: Callable[[Sequence[UniqueViolation]], Sequence[UniqueViolation]] = lambda found: found
    writes: Rules = SHIPPED
    drained: bool = True


SOUND = BuildRules()


def _planner(process: int) -> VersionedRowPlanner:
    drawn = itertools.count(1)
    return VersionedRowPlanner(MEMBER, (INDEX,), BOUND, lambda: bytes((process, next(drawn))) + bytes(6))


def builder(
    process: int, reading: int, rows: Sequence[bytes], rules: BuildRules = SOUND, *, ends: bool = True
) -> Callable[[], Steps]:
    """A build of the index, row by row; a build that does not end represents a program that crashed."""
    indexer = RowIndexer(MEMBER, (INDEX,))

    def run() -> Steps:
        planner, found = _planner(process), list[UniqueViolation]()
        translation = BuildTranslation(MEMBER.table, SetClock(reading), {}, ())

        def claimed(row: Any) -> Protocol[None]:
            found.extend(rules.counted((yield from claim_existing(planner, [row]))))

        for key in rows:
            row = found_row(key, (yield Told(("read", MEMBER.table, key, tuple(indexer.columns)))))
            if row is not None:
                yield from translation.steps(index_rows(indexer, [row], reading))  # type: ignore[list-item]
                yield from translation.steps(rules.around(claimed(row)))
        if ends and not found:
            yield Told(("built",))

    return run


CLAIM_KEYS = {
    tag: next(key for table, key in _claimed({}, tag, "k") if table == claims_in(INDEX.table)) for tag in "xy"
}


def releaser(process: int, reading: int, tag: str, rules: BuildRules = SOUND) -> Callable[[], Steps]:
    """A repairer that gives up the claim of a value whose row does not hold it, however young it is."""

    def run() -> Steps:
        table, key = claims_in(INDEX.table), CLAIM_KEYS[tag]
        found = found_row(key, (yield Told(("read", table, key, (MEMBER.claim_column,)))))
        if found is None:
            return
        cell = found.columns[MEMBER.claim_column]
        if owner_of(cell.value) is not None:
            protocol = release_unheld(_planner(process), INDEX, [FoundClaim(key, cell)])
            yield from BuildTranslation(MEMBER.table, SetClock(reading), {}, ()).steps(rules.around(protocol))

    return run


def purger(tag: str, *, waits: bool) -> Callable[[], Steps]:
    """Deletes a released claim after the grace time, if it is still the same claim.

    Args:
        tag: the value.
        waits: whether it waits for writers that are paused for longer than the grace time.
    """

    def run() -> Steps:
        table, key = claims_in(INDEX.table), CLAIM_KEYS[tag]
        found = found_row(key, (yield Told(("read", table, key, (MEMBER.claim_column,)))))
        if found is None:
            return
        cell = found.columns[MEMBER.claim_column]
        if owner_of(cell.value) is None:
            yield ("grace" if waits else "old", cell.timestamp)
            yield Told(("claim", table, key, MEMBER.claim_column, cell.value, (("row", cell.timestamp),)))

    return run


# --- configurations ---------------------------------------------------------------------------------------------------


def _unindexed(*names: str) -> Store:
    """Rows with the value x, from before the index was kept."""
    found: Store = {}
    for name in names:
        of_one = prepared(MEMBER, (10, put(name, "x")))
        found |= {key: value for key, value in of_one.items() if key[0] not in {INDEX.table, claims_in(INDEX.table)}}
    return found


KEYS = [hb.row_key(Member, name=name) for name in "km"]
BEFORE: Mapping[str, Store] = {"nothing": {}, "one": _unindexed("k"), "two": _unindexed("k", "m")}


def building(
    names: Sequence[str],
    rules: BuildRules = SOUND,
    *,
    stores: Sequence[str] = tuple(BEFORE),
    clocks: Clocks = (12,),
    crashes: int = 1,
    count: int = 2,
    others: int = 0,
    ordered: bool = False,
) -> Iterator[Configuration]:
    """Writers of the two rows, each with some of the actions, or `ordered` as given, and a build, optionally with
    `others` that crashed.
    """
    watch = BuildWatch(MEMBER)
    every = [tuple(names)] if ordered else list(itertools.combinations_with_replacement(names, count))
    for kind, chosen, clock in at_clocks(clocks, 1, stores, every):
        running: list[Process] = [(f"W{n}", _writer(n, name, clock, rules), clock) for n, name in enumerate(chosen, 1)]
        running += [(f"B{n}", builder(7 + n, 12, KEYS[n - 1 :], rules, ends=False), 12) for n in range(1, others + 1)]
        running.append(("B", builder(7, 12, KEYS, rules), 12))
        yield f"a build over {kind}, {chosen} at {clock}", ProtocolModel(watch, BEFORE[kind], running, crashes)


def _writer(process: int, name: str, clock: int, rules: BuildRules) -> Callable[[], Steps]:
    if rules.drained:
        return writer(MEMBER, process, ACTIONS[name], clock, rules.writes)
    return writer(MEMBER, process, ACTIONS[name], clock, evolve(rules.writes, planner=_Undrained))


class _Undrained(VersionedRowPlanner):
    """A session that has not noticed that there is an index."""

    def __init__(self, schema: Any, indexes: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(schema, (), *arguments, **options)


def releasing(
    names: Sequence[str], rules: BuildRules = SOUND, *, crashes: int = 1, count: int = 2
) -> Iterator[Configuration]:
    """Writers and a repair of claims."""
    owned = prepared(MEMBER, (10, put("k", "x")))
    stores = {
        "a claim of nobody": (_claimed({}, "x", "k"), "x"),
        "a claim beside": (_claimed(owned, "y", "k"), "y"),
        "a held one": (owned, "x"),
    }
    watch = UniqueWatch(MEMBER)
    for kind, (store, tag) in stores.items():
        for chosen in itertools.combinations_with_replacement(names, count):
            running: list[Process] = [
                (f"W{n}", writer(MEMBER, n, ACTIONS[name], 12), 12) for n, name in enumerate(chosen, 1)
            ]
            running.append(("G", releaser(7, 12, tag, rules), 12))
            yield f"a release beside {chosen}, {kind}", ProtocolModel(watch, store, running, crashes)


def purging(
    names: Sequence[str], *, waits: bool, crashes: int = 0, clocks: Sequence[int] = (5, 12)
) -> Iterator[Configuration]:
    """Writers and a purge of a released claim."""
    watch = UniqueWatch(MEMBER)
    for store, chosen, clock in itertools.product(
        ({}, prepared(MEMBER, (10, put("k", "x")))), itertools.product(names, repeat=2), clocks
    ):
        running: list[Process] = [
            (f"W{n}", writer(MEMBER, n, ACTIONS[name], at), at)
            for n, (name, at) in enumerate(zip(chosen, (12, clock), strict=True), 1)
        ]
        running.append(("G", purger("x", waits=waits), 0))
        yield f"a purge beside {chosen} at {clock}", ProtocolModel(watch, store, running, crashes)


# --- rules broken on purpose ------------------------------------------------------------------------------------------


def _around(change: Callable[[CheckAndMutateRows], Protocol[Any]]) -> Callable[[Protocol[Any]], Protocol[Any]]:
    def changed(protocol: Protocol[Any]) -> Protocol[Any]:
        answer: Any = None
        while True:
            try:
                operation = protocol.send(answer)
            except StopIteration as stop:
                return stop.value
            if isinstance(operation, CheckAndMutateRows):
                answer = yield from change(operation)
            else:
                answer = yield operation

    return changed


@frozen
class BuildMutant:
    """One rule broken."""

    rules: BuildRules
    where: Callable[[BuildRules], Iterator[Configuration]]
    violation: str


def _building(*names: str, **options: Any) -> Callable[[BuildRules], Iterator[Configuration]]:
    return lambda rules: building(names, rules, **{"crashes": 0, "stores": ("one",), **options})


def _releasing(*names: str) -> Callable[[BuildRules], Iterator[Configuration]]:
    return lambda rules: releasing(names, rules, count=1)


MUTANTS: Mapping[str, BuildMutant] = {
    "build: rows are not claimed": BuildMutant(BuildRules(_around(unclaimed)), _building("k note", count=1), "CLAIM"),
    "build: claims by force": BuildMutant(BuildRules(_around(by_force)), _building("m x", count=1), "DUPLICATE"),
    "build: taken over without a fence": BuildMutant(
        BuildRules(_around(unfenced)), _building("m x", count=1), "DUPLICATE"
    ),
    "build: what is held twice is not counted": BuildMutant(
        BuildRules(counted=lambda found: ()), _building("k note", count=1, stores=("two",)), "DUPLICATE"
    ),
    "build: writers that do not keep the index yet": BuildMutant(
        BuildRules(drained=False), _building("m x", count=1), "MISSING"
    ),
    "repair: released without a fence": BuildMutant(BuildRules(_around(unfenced)), _releasing("k x", "m x"), "CLAIM"),
    "repair: released whatever it is by then": BuildMutant(
        BuildRules(_around(by_force)), _releasing("k x", "m x", "k y"), "CLAIM"
    ),
}
