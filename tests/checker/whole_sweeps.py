"""The whole sweeps of the model checker, by name: what `make check-protocol` runs to the end."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from attrs import evolve

from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.writes import UpdateFields
from tests.checker import protocol_counters as counted
from tests.checker import protocol_covering as held
from tests.checker import protocol_joint as joint
from tests.checker import protocol_joint_unique as joint_unique
from tests.checker import protocol_kinds as several
from tests.checker import protocol_lives as expiring
from tests.checker import protocol_map_versions as mapped_versions
from tests.checker import protocol_maps as mapped
from tests.checker import protocol_plain as plain
from tests.checker import protocol_roll_sweeps as roll
from tests.checker import protocol_row_states as states
from tests.checker import protocol_row_sweeps as bare
from tests.checker import protocol_shared_sweeps as shared
from tests.checker import protocol_shared_unique as shared_unique
from tests.checker import protocol_unique as unique
from tests.checker import protocol_unique_build as unique_build
from tests.checker import protocol_unique_versions as unique_versions
from tests.checker import protocol_versions as versions
from tests.checker import protocol_wide as wide
from tests.checker.clocks import Clocks, Turns
from tests.checker.protocol_processes import Rules
from tests.checker.protocol_sweeps import (
    ACTIONS,
    CLOCKS,
    batches,
    built,
    places,
    purgers,
    ranges,
    readers,
    repairers,
    two,
)
from tests.checker.whole_key_sweeps import KEYS

Sweep = Callable[[], Iterable[Any]]
"""Configurations, each a name and a model of the checker; an iterator among them gives further ones, each once the
last was run.
"""

EVERY_CLOCK = bool(os.environ.get("EVERY_CLOCK"))
"""Whether the writers have every combination of clocks, in place of one for each choice of all else."""


class _Clocks:
    """The clocks of a family: its sweeps take turns."""

    def __init__(self) -> None:
        self.two, self.late = Turns(5, 12, every=EVERY_CLOCK), Turns(11, 12, every=EVERY_CLOCK)
        self.three, self.apart = Turns(*CLOCKS, every=EVERY_CLOCK), Turns(5, 12, 15, every=EVERY_CLOCK)


EVERY_ROW = ("live", "dead", "absent")
UNCOUNTED = tuple(name for name in ACTIONS if name != "increment")
TWICE = range(6)
"""Which mutating step of a writer is carried out once more."""


def _calls(atomic: bool) -> str:
    return "atomic" if atomic else "two calls"


def _of_stores(atomic: bool, configurations: Sweep) -> Sweep:
    """Configurations over a store that mutates rows atomically or not; it makes a difference only where a writer
    deletes its row.
    """
    return configurations if atomic else lambda: (found for found in configurations() if "delete" in found[0])


def _indexed() -> Iterator[tuple[str, Sweep]]:
    """Two writers of an indexed row, with other processes, crashes, compactions and lost answers."""
    clocks = _Clocks()
    for row, atomic in itertools.product(EVERY_ROW, (True, False)):
        of = {"stores": (row,), "atomic": atomic}
        name = f"{row} row, {_calls(atomic)}"
        beside = partial(two, UNCOUNTED, **of)
        yield f"a repairer: {name}", _of_stores(atomic, partial(beside, clocks.two(), others=repairers))
        yield f"queries: {name}", _of_stores(atomic, partial(beside, clocks.two(), others=readers))
        yield (
            f"a query for a range: {name}",
            _of_stores(atomic, partial(beside, clocks.two(), others=ranges, unmoved="tag")),
        )
        crashing = partial(two, UNCOUNTED, clocks.three(), crashes=2, compaction="any", strict=False, **of)
        yield f"two crashes and a compaction: {name}", _of_stores(atomic, crashing)
        for compaction in ("grace", "any"):
            options = {"crashes": 0, "compaction": compaction, "strict": compaction == "grace", "ordered": True, **of}
            yield (
                f"a call that arrives again, compaction {compaction}: {name}",
                _each("again", partial(two, UNCOUNTED, clocks.two(), others=purgers, **options), atomic),
            )
    for row in EVERY_ROW:
        ordered = partial(two, UNCOUNTED, clocks.two(), stores=(row,), ordered=True)
        yield f"a lost answer: {row} row", _each("repeat", ordered)
        yield f"a write that takes too long: {row} row", partial(ordered, first={"slow": 1})
        yield f"a partial update reads less: {row} row", partial(_reading_less, row, clocks.two(), clocks.three())
    for row in ("live", "dead"):
        yield f"a writer that stands still: {row} row", partial(_standing_still, row)
    for atomic in (True, False):
        yield f"rounds of two rows: {_calls(atomic)}", partial(batches, clocks.two(), atomic=atomic)
    yield "two indexes", partial(places, crashes=2)
    yield (
        "two indexes and a repairer of one",
        partial(places, (5, 12), ("city", "street", "delete", "insert"), repair=True),
    )
    yield "increments", _increments
    yield (
        "three writers",
        partial(
            two, ("put b", "tag b", "note", "delete", "insert"), clocks.two(), stores=EVERY_ROW, count=3, crashes=0
        ),
    )


def _built() -> Iterator[tuple[str, Sweep]]:
    """Two writers of an indexed row while its index is built, and a query that begins after the build."""
    clocks = _Clocks()
    for row in EVERY_ROW:
        of = {"stores": (row,)}
        yield f"a built index, queries: {row} row", partial(built, tuple(ACTIONS), clocks.two(), **of)
        two_calls = partial(built, UNCOUNTED, clocks.two(), atomic=False, **of)
        yield f"a built index, queries: {row} row, {_calls(False)}", _of_stores(False, two_calls)
        yield (
            f"a built index, a query for a range: {row} row",
            partial(built, UNCOUNTED, clocks.two(), queries=ranges, unmoved="tag", **of),
        )
        yield f"a built index, two builders: {row} row", partial(built, UNCOUNTED, (12,), builders=2, **of)


def _each(what: str, configurations: Callable[..., Iterable[Any]], atomic: bool = True) -> Sweep:
    """The first writer carries out one of its mutating steps twice, each in turn."""

    def first(at: int) -> Iterable[Any]:
        return _of_stores(atomic, lambda: configurations(first={what: at}))()

    return lambda: _in_turn(first)


def _in_turn(configurations: Callable[[int], Iterable[Any]]) -> Iterator[Iterator[Any]]:
    """For each configuration those that differ in which step comes twice, until the first writer has no such step."""
    return map(_while_there_are, zip(*map(configurations, TWICE), strict=True))


def _while_there_are(turns: Sequence[Any]) -> Iterator[Any]:
    for at, turn in zip(TWICE, turns, strict=True):
        yield turn
        if turn[1].calls(0) <= at:
            return


def _increments() -> Iterator[Any]:
    configurations = two(tuple(ACTIONS), (5, 12), stores=EVERY_ROW, others=purgers)
    return (configuration for configuration in configurations if "'increment'" in configuration[0])


def _standing_still(row: str) -> Iterator[Any]:
    """A writer's row may be unindexed until the check before the acknowledgement; the end must be right."""
    options: dict[str, Any] = {"others": repairers, "stores": (row,), "crashes": 0, "paused": True, "always": False}
    yield from two(UNCOUNTED, CLOCKS, Rules(grace="clock", checks=True), count=1, **options)
    yield from two(("put b", "tag b", "delete", "insert"), (5,), Rules(grace="clock", checks=True), **options)


def group_and_own(writer: IndexedRowPlanner, write: UpdateFields) -> Sequence[bytes]:
    """The columns that a partial update changes, the group and the system cells."""
    own = {writer.schema.by_name[name].column for name in write.changes}
    return tuple(sorted(own | writer.group_columns | {writer.schema.version_column, writer.schema.liveness_column}))


def _reading_less(row: str, few: Clocks, many: Clocks) -> Iterator[Any]:
    """Not what the code does: what deletes and full writes must read, partial updates need not."""
    rules = Rules(partial_reads=group_and_own)
    names = ("put a", "put b", "tag b", "extra", "note", "delete", "delete, put", "increment")
    yield from two(names, few, rules, stores=(row,), others=repairers)
    yield from two(names, many, rules, stores=(row,), crashes=2, compaction="any", strict=False)
    if row == "live":
        yield from places(rules=rules, crashes=2)


def _several() -> Iterator[tuple[str, Sweep]]:
    """Two writers of a row that has several entries in one index and sometimes one in another."""
    clocks = _Clocks()
    for row, atomic in itertools.product(several.STORES, (True, False)):
        for name, others, unmoved in (
            ("repairers", several.repairers, None),
            ("queries", several.readers, None),
            ("a query for several", several.ranges, "tags"),
        ):
            yield (
                f"several entries, {name}: {row} row, {_calls(atomic)}",
                _of_stores(
                    atomic,
                    partial(
                        several.kinds, clocks=clocks.two(), stores=(row,), others=others, unmoved=unmoved, atomic=atomic
                    ),
                ),
            )


def _expiring() -> Iterator[tuple[str, Sweep]]:
    """Rows that expire, and families with a TTL."""
    clocks = _Clocks()
    for row, atomic in itertools.product(expiring.STORES, (True, False)):
        lives = partial(expiring.lives, stores=(row,), atomic=atomic)
        name = f"{row} row, {_calls(atomic)}"
        yield f"rows that expire: {name}", partial(lives, clocks=clocks.three())
        yield (
            f"rows that expire, and a compaction: {name}",
            partial(lives, clocks=clocks.two(), crashes=0, compaction="grace"),
        )
        yield f"rows that expire, and queries: {name}", partial(lives, clocks=(12,), others=expiring.readers)
        yield f"rows that expire, and a repairer: {name}", partial(lives, clocks=(12,), others=expiring.repairers)
    for row, atomic in itertools.product(expiring.FADING_STORES, (True, False)):
        fading = partial(expiring.fading, stores=(row,), atomic=atomic)
        name = f"{row} row, {_calls(atomic)}"
        yield (
            f"a family with a TTL: {name}",
            _of_stores(atomic, partial(fading, clocks=clocks.two(), ages=(10, 11, 12))),
        )
        yield (
            f"a family with a TTL, and a repairer: {name}",
            _of_stores(atomic, partial(fading, clocks=(12,), repair=True)),
        )
    for atomic in (True, False):
        yield (
            f"writes over a row that expires: {_calls(atomic)}",
            partial(expiring.lives, expiring.IMMORTAL, clocks=clocks.two(), stores=("expiring",), atomic=atomic),
        )


def _versioned() -> Iterator[tuple[str, Sweep]]:
    """Versioned models, with an index and without."""
    clocks = _Clocks()
    for row in EVERY_ROW:
        of = partial(versions.two, clocks=clocks.two(), stores=(row,))
        yield f"versions, a repairer: {row} row", partial(of, clocks=clocks.two(), others=versions.repairers)
        yield f"versions, queries: {row} row", partial(of, clocks=clocks.two(), others=versions.readers)
        for model in versions.MODELS:
            yield (
                f"versions, two crashes and a compaction: {row} row, {model}",
                partial(of, model=model, crashes=2, compaction="any"),
            )
        for what in ("repeat", "again"):
            yield f"versions, {what}: {row} row", _each(what, partial(of, ordered=True))
        yield f"versions, a write that takes too long: {row} row", partial(of, ordered=True, first={"slow": 1})
        still = {"others": versions.repairers, "crashes": 0, "paused": True, "always": False}
        rules = evolve(versions.SHIPPED, repair=Rules(grace="clock"))
        yield (
            f"versions, a writer that stands still: {row} row",
            partial(of, ("put b", "tag b", "delete", "insert"), clocks=(5,), rules=rules, **still),
        )
    for model in versions.MODELS:
        names = ("put b", "tag c at 10", "note", "delete", "insert")
        yield (
            f"versions, three writers: {model}",
            partial(versions.two, names, (12,), model=model, stores=EVERY_ROW, count=3, crashes=0),
        )


def _unique() -> Iterator[tuple[str, Sweep]]:
    """Unique indexes."""
    clocks = _Clocks()
    names = ("k x", "k y", "k gone", "m x", "m insert x")
    for store in unique.STORES:
        yield f"unique, two writers: {store}", partial(unique.members, stores=(store,), clocks=clocks.two())
        for what in ("repeat", "again"):
            twice = partial(unique.members, names, stores=(store,), crashes=0, ordered=True)
            yield f"unique, {what}: {store}", partial(_in_turn, lambda at, twice=twice, what=what: twice(**{what: at}))
    yield "unique, three writers", partial(unique.members, ("k y", "m x", "m y"), count=3, crashes=0)


def _unique_build() -> Iterator[tuple[str, Sweep]]:
    """Builds of unique indexes, and repairs of their claims."""
    clocks = _Clocks()
    calls = ("k x", "k y", "k none", "k note", "k gone", "m x", "m insert x")
    names = (*calls, "k y, k x")
    for store in ("nothing", "one"):
        building = partial(unique_build.building, (*names, "k gone, m x"), stores=(store,), clocks=clocks.two())
        yield f"unique build, two writers: {store}", building
    # Two rows hold the value already: a writer of two calls has another one beside it in the sweeps above alone. Here a
    # single configuration of such a pair would have millions of states.
    of = {"stores": ("two",), "clocks": clocks.two()}
    yield "unique build, two writers: two", partial(unique_build.building, calls, **of)
    yield (
        "unique build, a writer of two calls: two",
        partial(unique_build.building, ("k y, k x", "k gone, m x"), count=1, **of),
    )
    yield (
        "unique build, two builders",
        partial(unique_build.building, ("k x", "k y", "k note", "m x"), others=1, count=1),
    )
    yield "unique build, a release", partial(unique_build.releasing, names)


def _bare() -> Iterator[tuple[str, Sweep]]:
    """Models without an index, and tables that get their first one."""
    for store in ("atomic", "absent cells"):
        yield f"no index, rows that are adopted: {store}", partial(bare.adopted, store)
    for store in bare.STORES:
        yield (
            f"no index, every two calls: {store}",
            partial(bare.pairs, store, **({} if store in bare.TIMED else {"ticks": 0})),
        )
    for store in ("atomic", "absent cells", "apart"):
        yield f"no index, adjacent states of a table: {store}", partial(bare.joint, store, ticks=0)
        yield f"no index, nothing is lost beside a first index: {store}", partial(states.kept, store)
    for store in ("atomic", "absent cells", "nothing required"):
        yield f"no index, early reads: {store}", partial(bare.early_reads, store)
    for store in counted.STORES:
        yield f"no index, counters: {store}", partial(counted.counters, store)
        yield f"no index, counters without a margin: {store}", partial(counted.counters, store, counted.WITHOUT_MARGIN)


def _covering() -> Iterator[tuple[str, Sweep]]:
    """Covering reads of versioned rows and of rows that never change."""
    clocks = _Clocks()
    for row in held.EVERY_ROW:
        for name, others in (("queries", held.readers), ("a repairer", held.repairers), ("a build", held.builders)):
            for kind in ("V", "V2"):
                names = ("put b", "extra", "note", "delete", "insert")
                sweep = partial(held.covering, kind, names, clocks.two(), stores=(row,), others=others)
                yield f"covering, {kind}, {name}: {row} row", sweep
            for what, names in (("puts", held.PUTS), ("inserts", held.INSERTS)):
                sweep = partial(held.covering, "I", names, clocks.two(), stores=(row,), others=others)
                yield f"covering, {what} of facts, {name}: {row} row", sweep
            expiring_facts = partial(
                held.covering, "I", held.MORTAL, clocks.late(), stores=(row,), others=others, expire=True
            )
            yield f"covering, facts that expire, {name}: {row} row", expiring_facts
        for kind, what, names in (
            ("V", "", ("put b", "extra", "delete", "insert")),
            ("I", ", puts", held.PUTS),
            ("I", ", inserts", held.INSERTS),
        ):
            again = partial(held.covering, kind, names, clocks.late(), stores=(row,), others=held.updaters)
            yield f"covering, {kind}{what}, entries put again: {row} row", again
        crashing = {"stores": (row,), "crashes": 2, "compaction": "any"}
        yield (
            f"covering, V, two crashes and a compaction: {row} row",
            partial(held.covering, "V", None, clocks.late(), **crashing),
        )
        # Two indexes: with a second crash one sweep alone would take as long as a tenth of all others. Entries from
        # before a build differ from those of a live row in their status alone, which only readers look at, and none is
        # here: the states are as many.
        if row != "built before":
            yield (
                f"covering, V2, a crash and a compaction: {row} row",
                partial(held.covering, "V2", None, clocks.late(), **{**crashing, "crashes": 1}),
            )
        for what, names in (("puts", held.PUTS), ("inserts", held.INSERTS)):
            sweep = partial(held.covering, "I", names, clocks.late(), heal=True, **crashing)
            yield f"covering, {what} of facts, two crashes and a compaction: {row} row", sweep
        # A fact is put without a read, so programs that put different ones under one key must all insert them.
        for kind, of, names in (
            ("I", ", puts of facts", ("put", "delete")),
            ("I", ", inserts of facts", ("insert a", "insert b", "delete")),
            ("V", "", ("put b", "extra", "delete", "insert")),
        ):
            twice = partial(
                held.covering, kind, names, clocks.two(), stores=(row,), ordered=True, crashes=0, compaction="grace"
            )
            for what in ("repeat", "again"):
                yield f"covering, {kind}{of}, {what}: {row} row", _each(what, twice)
    for kind, names in (("I", ("put", "delete")), ("V", ("put b", "extra", "delete", "insert"))):
        three = partial(held.covering, kind, names, clocks.late(), stores=held.EVERY_ROW, count=3, crashes=0)
        yield f"covering, {kind}, three writers", three


def _covering_in_two_calls() -> Iterator[tuple[str, Sweep]]:
    """Covering reads of rows that never change, where a delete is two calls, as on Thrift1: a versioned model needs
    atomic changes.

    Entries from before a build differ from those of a live row in their status alone, see `_covering`. Rows that expire
    have a live row before them alone, because their states are many.
    """
    clocks = _Clocks()
    for row in ("live", "dead", "absent"):
        of = partial(held.covering, "I", stores=(row,), atomic=False)
        for what, names in (("puts", held.PUTS), ("inserts", held.INSERTS)):
            for name, others in (("queries", held.readers), ("a repairer", held.repairers), ("a build", held.builders)):
                sweep = partial(of, names, clocks.two(), others=others)
                yield f"covering, {what} of facts, {name}: {row} row, {_calls(False)}", _of_stores(False, sweep)
            crashing = partial(of, names, clocks.late(), heal=True, crashes=2, compaction="any")
            yield (
                f"covering, {what} of facts, two crashes and a compaction: {row} row, {_calls(False)}",
                _of_stores(False, crashing),
            )
    for name, others in (("queries", held.readers), ("a repairer", held.repairers), ("a build", held.builders)):
        sweep = partial(held.covering, "I", held.MORTAL, (12,), others=others, expire=True, atomic=False)
        # what expires deletes what is older
        yield f"covering, facts that expire, {name}: live row, {_calls(False)}", sweep


def _plain() -> Iterator[tuple[str, Sweep]]:
    """Rows without system cells that have index entries."""
    for by_clock in (False, True):
        name = "a table of others, a writer that stands still" if by_clock else "a table of others"
        yield name, partial(plain.models, plain.Rules(by_clock=by_clock))


def _wide() -> Iterator[tuple[str, Sweep]]:
    """Objects that share a row, which are deleted by their own columns."""
    clocks = _Clocks()
    for row, atomic in itertools.product(wide.STORES, (True, False)):
        of: dict[str, Any] = {"clocks": clocks.two(), "stores": (row,), "atomic": atomic}
        name = f"{row} objects, {_calls(atomic)}"
        yield f"one row, a repairer: {name}", _of_stores(atomic, partial(wide.pieces, others=wide.repairers, **of))
        yield f"one row, queries: {name}", _of_stores(atomic, partial(wide.pieces, others=wide.readers, **of))
        crashing = partial(wide.pieces, **{**of, "clocks": clocks.three()}, crashes=2, compaction="any", strict=False)
        yield f"one row, two crashes and a compaction: {name}", _of_stores(atomic, crashing)
        expiring_too = partial(wide.pieces, ("k expiring b", "m expiring b"), tuple(wide.ACTIONS), **of)
        yield f"one row, objects that expire: {name}", expiring_too
        both = partial(wide.pieces, tuple(wide.BOTH), tuple(wide.ACTIONS), **of)
        yield f"one row, commits of two objects: {name}", both
        again = partial(wide.pieces, (*wide.UNEXPIRING, *wide.BOTH), **of)
        yield f"one row, a lost answer: {name}", _each("repeat", again, atomic)
        yield (
            f"one row, a call that arrives again: {name}",
            _each("again", partial(again, crashes=0, compaction="grace"), atomic),
        )
    for row in wide.STORES:
        joint = partial(wide.pieces, tuple(wide.BOTH), tuple(wide.ACTIONS), clocks.two(), stores=(row,), joint=True)
        yield f"one row, commits of two objects at once: {row} objects", joint
        yield (
            f"one row, commits of two objects at once, and a repairer: {row} objects",
            partial(joint, others=wide.repairers),
        )
        yield (
            f"one row, commits of two objects at once, two crashes and a compaction: {row} objects",
            partial(joint, crashes=2, compaction="any", strict=False),
        )
    yield (
        "one row, a write that takes too long",
        partial(wide.pieces, clocks=clocks.two(), stores=EVERY_ROW, first={"slow": 1}),
    )


def _shared() -> Iterator[tuple[str, Sweep]]:
    """Versioned objects that share a row: commits of one and of two, and local transactions."""
    clocks = _Clocks()
    mine = (*shared.OF_K, *shared.BOTH, *shared.PINNED)
    for row in shared.STORES["indexed"]:
        of = partial(shared.shared, mine=mine, clocks=(12,), stores=(row,))
        name = f"{row} objects"
        yield f"row versions, two writers: {name}", partial(of, clocks=clocks.two())
        for final in (True, False):
            refusals = "final" if final else "uncertain"
            yield (
                f"row versions, no index, {refusals} refusals: {name}",
                partial(of, clocks=clocks.two(), model=shared.BARE, final=final),
            )
        yield f"row versions, a lost answer: {name}", _each("repeat", of)
        # A conditional call that arrives again is always refused: few writers show what entries do.
        few = partial(of, mine=shared.FEW, theirs=shared.FEW, crashes=0, compaction="grace")
        yield f"row versions, a call that arrives again: {name}", _each("again", few)
        yield f"row versions, two crashes and a compaction: {name}", partial(of, crashes=2, compaction="any")
        yield f"row versions, queries: {name}", partial(of, others=shared.readers)
        beside = partial(of, mine=("k put b", "k delete", "k insert"), theirs=shared.FEW, others=shared.repairers)
        yield f"row versions, a repairer: {name}", beside
        late = {"rules": shared.LATE, "others": shared.purgers, "crashes": 0, "paused": True, "always": False}
        still = partial(of, mine=shared.FEW, theirs=("k note", "k delete", "k delete, insert", "m note"), **late)
        yield f"row versions, a writer that stands still: {name}", still
        yield f"row versions, a writer that stands still and loses an answer: {name}", _each("repeat", still)
    for row in shared_unique.STORES:
        claims = partial(shared_unique.badges, stores=(row,))
        yield f"row versions, unique values: {row}", claims
        yield f"row versions, unique values, a lost answer: {row}", _each("repeat", partial(claims, crashes=0))
    yield (
        "row versions, a write that takes too long",
        partial(shared.shared, mine, clocks=clocks.two(), first={"slow": 1}),
    )


def _maps() -> Iterator[tuple[str, Sweep]]:
    """Map columns of objects with rows of their own and in one row."""
    for model in mapped.MODELS:
        for atomic in (True, False):
            of = partial(
                mapped.maps,
                mapped.BRIEF,
                mapped.BRIEF,
                clocks=(12,),
                model=model,
                stores=mapped.EVERY_STORE,
                atomic=atomic,
            )
            yield f"maps, two writers: {model}, {_calls(atomic)}", _of_stores(atomic, of)
        twice = partial(mapped.maps, mapped.FEW, (mapped.TWICE_DELETED,), (5,), model=model)
        yield f"maps, an object that is deleted twice: {model}", twice
        for row in mapped.EVERY_STORE:
            of = partial(mapped.maps, model=model, stores=(row,), clocks=(12,))
            name = f"{model}, {row}"
            few = partial(of, mapped.FEW, mapped.BRIEF)
            yield f"maps, a repairer: {name}", partial(of, mapped.FEW, mapped.FEW, others=mapped.repairers)
            yield f"maps, readers: {name}", partial(of, mapped.FEW, mapped.BRIEF, others=mapped.readers)
            yield f"maps, two crashes and a compaction: {name}", partial(few, crashes=2, compaction="grace")
            yield f"maps, a lost answer: {name}", _each("repeat", few)
            yield (
                f"maps, a call that arrives again: {name}",
                _each("again", partial(few, crashes=0, compaction="grace")),
            )
        yield (
            f"maps, a write that takes too long: {model}",
            partial(mapped.maps, mapped.BRIEF, mapped.FEW, clocks=(12,), model=model, first={"slow": 1}),
        )
        for row in mapped_versions.EVERY_STORE:
            of = partial(mapped_versions.maps, model=model, stores=(row,), clocks=(12,))
            name = f"{model}, {row}"
            yield f"maps, versions, two writers: {name}", of
            yield (
                f"maps, versions, a repairer: {name}",
                partial(of, mapped_versions.FEW, others=mapped_versions.repairers),
            )
            yield f"maps, versions, readers: {name}", partial(of, mapped_versions.FEW, others=mapped_versions.readers)
            yield f"maps, versions, two crashes and a compaction: {name}", partial(of, crashes=2, compaction="grace")
            yield f"maps, versions, a lost answer: {name}", _each("repeat", partial(of, mapped_versions.FEW))


def _versions_of_entries() -> Iterator[tuple[str, Sweep]]:
    """Changes that raise only the version, with entries from which queries take the version."""
    covered = partial(mapped_versions.maps, model="covered", clocks=(12,))
    for row in mapped_versions.EVERY_STORE:
        yield f"maps, versions, entries that answer for them: {row}", partial(covered, stores=(row,))
        yield (
            f"maps, versions, entries that answer for them, two crashes: {row}",
            partial(covered, mapped_versions.FEW, mapped_versions.FEW, stores=(row,), crashes=2, compaction="grace"),
        )
    yield "unique values, entries that answer for versions", partial(unique_versions.holders, crashes=2)


def _joint() -> Iterator[tuple[str, Sweep]]:
    """Commits of several kinds into one row."""
    clocks = _Clocks()
    for kind in joint.MODELS:
        timed = kind == "indexed"
        yield (
            f"several kinds, two commits: {kind}",
            partial(joint.joint, kind, clocks=clocks.apart() if timed else (12,), crashes=2),
        )
        for at in range(3):
            yield f"several kinds, answer {at} lost: {kind}", partial(joint.joint, kind, clocks=(12,), lost=at)
        if kind.startswith("versioned"):
            absent = partial(joint.joint, kind, joint.NOTHING, (*joint.NAMES, *joint.PLACED, *joint.NOTHING), (12,))
            yield f"several kinds, absent objects: {kind}", partial(absent, crashes=2)
            for at in range(3):
                yield f"several kinds, absent objects, answer {at} lost: {kind}", partial(absent, lost=at)
    for store in joint_unique.STORES:
        names = (*joint_unique.NAMES, *(joint_unique.CHANGING if store == "owned" else ()))
        of = partial(joint_unique.joint, mine=names, theirs=names, stores=(store,))
        yield f"several kinds, unique values: {store}", of
        for at in range(4):
            yield (
                f"several kinds, unique values, answer {at} lost: {store}",
                partial(of, theirs=("s k x",), crashes=0, lost=at),
            )


FAMILIES = (
    _indexed,
    _built,
    _several,
    _expiring,
    _versioned,
    _unique,
    _unique_build,
    _bare,
    _covering,
    _covering_in_two_calls,
    _plain,
    _wide,
    _shared,
    _maps,
    _versions_of_entries,
    _joint,
    roll.whole,
    *KEYS,
)

WHOLE: Mapping[str, Sweep] = dict(chain.from_iterable(family() for family in FAMILIES))
"""Every whole sweep. A module with further families adds its own here."""
