"""Samples of the model checker's sweeps, by name: what the default tests run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from typing import Any

from tests.checker import protocol_counters as counted
from tests.checker import protocol_covering as held
from tests.checker import protocol_ids as ids
from tests.checker import protocol_insert_builds as filled
from tests.checker import protocol_joint as joint
from tests.checker import protocol_joint_unique as joint_unique
from tests.checker import protocol_kinds as several
from tests.checker import protocol_lives as expiring
from tests.checker import protocol_map_versions as mapped_versions
from tests.checker import protocol_maps as mapped
from tests.checker import protocol_migration as migration
from tests.checker import protocol_plain as plain
from tests.checker import protocol_prepend as prepended
from tests.checker import protocol_put_builds as put_builds
from tests.checker import protocol_rekey as moved
from tests.checker import protocol_rekey_builds as rebuilt
from tests.checker import protocol_rekey_inserts as inserted
from tests.checker import protocol_roll_sweeps as roll
from tests.checker import protocol_row_states as states
from tests.checker import protocol_row_sweeps as bare
from tests.checker import protocol_sealing as sealing
from tests.checker import protocol_sealing_sweeps as sealing_sweeps
from tests.checker import protocol_shared_sweeps as shared
from tests.checker import protocol_shared_unique as shared_unique
from tests.checker import protocol_unique as unique
from tests.checker import protocol_unique_build as unique_build
from tests.checker import protocol_unique_versions as unique_versions
from tests.checker import protocol_versions as versions
from tests.checker import protocol_wide as wide
from tests.checker.protocol_facts import DELETED, REPEATED, facts
from tests.checker.protocol_sweeps import batches, building, built, places, purgers, ranges, readers, repairers, two
from tests.checker.whole_sweeps import EVERY_ROW, UNCOUNTED, Sweep

TWO_CLOCKS = (5, 12)

BARE = "without an index"
FEW = ("put b", "tag a", "note", "delete, put")
VERSIONED_FEW = ("put b", "tag c at 10", "note", "delete, put")


def _some(configurations: Callable[..., Iterable[Any]], part: int, *args: Any, **options: Any) -> Sweep:
    """Every n-th configuration."""
    return lambda: islice(configurations(*args, **options), 0, None, part)


INDEXED: Mapping[str, Sweep] = {
    "a repairer": lambda: two(("put b", "tag a", "delete, put"), TWO_CLOCKS, others=repairers),
    "a repairer, deletes in two calls": lambda: two(
        ("put b", "delete", "insert"), (5, 13), others=repairers, atomic=False
    ),
    "queries for one tag": lambda: two(FEW, TWO_CLOCKS, others=readers),
    "a query for a range": lambda: two(("put b", "delete, insert"), TWO_CLOCKS, others=ranges, unmoved="tag"),
    "two crashes and a compaction": lambda: two(
        UNCOUNTED, (12,), stores=("dead",), crashes=2, compaction="any", strict=False
    ),
    "a lost answer": lambda: chain.from_iterable(
        two(("tag b", "insert", "delete"), TWO_CLOCKS, stores=("live", "absent"), ordered=True, first={"repeat": at})
        for at in (0, 1)
    ),
    "a call that arrives again": lambda: chain.from_iterable(
        two(
            ("put b", "delete"),
            TWO_CLOCKS,
            others=purgers,
            crashes=0,
            compaction="grace",
            ordered=True,
            first={"again": at},
        )
        for at in (0, 1)
    ),
    "a write that takes too long": lambda: two(
        ("put b", "tag b", "insert", "delete, insert"), TWO_CLOCKS, ordered=True, first={"slow": 1}
    ),
    "rounds of two rows": lambda: batches((12,), ("note", "delete, insert"), names=("delete both", "mixed too")),
    "two indexes": lambda: places(TWO_CLOCKS),
    "rows that never change": lambda: chain(
        facts(REPEATED, (12,)), facts(DELETED, (12,)), facts((("delete",), ("delete", "delete")), (5, 12, 13))
    ),
    "rows that expire": lambda: expiring.lives(
        ("expiring b", "expiring tag b", "expiring b, note"), ("put b", "note", "delete"), TWO_CLOCKS
    ),
    "rows that expire, in two calls": lambda: expiring.lives(
        ("expiring b",), ("expiring a", "tag b", "insert"), TWO_CLOCKS, atomic=False
    ),
    "rows that expire over others that do": lambda: expiring.lives(
        ("put b", "expiring insert"), ("note", "delete, put"), stores=("expiring",)
    ),
    "rows that expire, updated beside deletes": lambda: chain(
        expiring.lives(("note", "tag b", "expiring tag b"), ("delete",), (5, 14), stores=("live", "expiring")),
        expiring.lives(("note",), ("expiring tag b", "delete, put"), TWO_CLOCKS, stores=("expiring",)),
    ),
    "rows that expire, and compactions": lambda: expiring.lives(
        ("expiring a",), ("put a", "delete"), crashes=0, compaction="grace"
    ),
    "rows that expire, and a repairer": lambda: expiring.lives(
        ("expiring a",), ("put b", "tag b", "delete"), (12,), stores=("live", "dead"), others=expiring.repairers
    ),
    "rows that expire, and queries": lambda: expiring.lives(
        ("expiring a", "expiring b"), ("put b", "note"), (12,), others=expiring.readers
    ),
    "a family with a TTL": lambda: expiring.fading(
        ("put b", "tag b", "note"), ("note", "delete", "insert"), TWO_CLOCKS
    ),
    "a family with a TTL, in two calls, and a repairer": lambda: expiring.fading(
        ("tag b",), ("note", "delete"), (12,), repair=True, atomic=False, ages=(10,)
    ),
    "a build": lambda: building(("put b", "tag b", "delete, put", "insert"), TWO_CLOCKS),
    "a build of a dead row, and a compaction": lambda: building(
        ("put b", "delete, insert", "note"), (12,), stores=("dead",), compaction="any", crashes=0
    ),
    "a build beside a repairer": lambda: building(("put b", "tag a"), (12, 13), repair=True),
    "a built index, queries": lambda: built(("put b", "tag a", "note", "delete"), (12,), stores=("live", "dead")),
    "a built index, two builders": lambda: built(("tag b", "delete, put"), (12,), builders=2),
    "lost entries put again": lambda: building(("put b", "tag a", "delete"), (5, 12), again=12),
    "lost entries put again beside a repairer": lambda: building(("put b", "tag a"), (12,), again=20, repair=True),
    "several entries": lambda: several.kinds(
        ("put bc", "no tags, tags ab", "shut", "delete", "insert"), (12,), stores=("live", "shut", "dead")
    ),
    "several entries, and queries": lambda: several.kinds(("put bc", "tags b", "shut"), (12,), others=several.readers),
    "several entries, and a query for several": lambda: several.kinds(
        ("put bc", "note"), (12,), others=several.ranges, unmoved="tags"
    ),
    "several entries, and a repairer": lambda: several.kinds(("put bc", "shut"), (12,), others=several.repairers),
    "increments": lambda: two(("increment", "put a", "delete, put"), TWO_CLOCKS),
}

VERSIONED: Mapping[str, Sweep] = {
    "two writers": _some(versions.two, 2, stores=EVERY_ROW, clocks=(12,)),
    "two writers, no index": lambda: versions.two(stores=EVERY_ROW, clocks=(12,), model=BARE),
    "two writers, final refusals": lambda: versions.two(stores=EVERY_ROW, clocks=(12,), model=BARE, final=True),
    "a repairer": lambda: islice(
        versions.two(("put b", "tag c at 10", "delete, put"), (12,), others=versions.repairers), 5
    ),
    "queries": lambda: versions.two(VERSIONED_FEW, (12,), others=versions.readers),
    "two crashes and a compaction": lambda: versions.two(
        VERSIONED_FEW, (12,), stores=("live", "dead"), crashes=2, compaction="any"
    ),
    "a lost answer": lambda: chain.from_iterable(
        versions.two(
            ("tag b if a", "note at 10", "insert", "delete"),
            (12,),
            stores=("live", "absent"),
            ordered=True,
            first={"repeat": at},
        )
        for at in (0, 1)
    ),
    "a call that arrives again": lambda: chain.from_iterable(
        versions.two(
            ("put b", "delete", "insert"),
            (12,),
            stores=("live", "absent"),
            crashes=0,
            compaction="grace",
            ordered=True,
            first={"again": at},
        )
        for at in (0, 1)
    ),
    "a write that takes too long": lambda: versions.two(
        ("put b", "tag b", "insert", "delete, insert"), (12,), ordered=True, first={"slow": 1}
    ),
    "commits of two rows": lambda: chain(versions.batches(), versions.batches(repeat=1), versions.batches(repeat=2)),
}

UNIQUE: Mapping[str, Sweep] = {
    "two rows, one value": lambda: unique.members(("k x", "m x", "m insert x")),
    "a value that moves": lambda: unique.members(("k y", "k gone", "m x"), stores=("owned",), clocks=(5, 12)),
    "a value and back": lambda: islice(unique.members(("k y, k x", "m x"), stores=("owned",), crashes=0), 1, None),
    "entries that answer for versions": unique_versions.holders,
    "a crashed claim": lambda: unique.members(
        ("k note", "m x", "m y", "k none"), stores=("a claim of nobody", "a claim beside")
    ),
    "a lost answer": lambda: chain.from_iterable(
        unique.members(("k y", "m x"), stores=("owned", "empty"), crashes=0, ordered=True, repeat=at) for at in range(3)
    ),
}


def _called_twice() -> Iterator[Any]:
    """A call that follows another sees what that has done."""
    for programs in ([["delete", "expiring add"], ["get"]], [["delete", "expiring insert"], ["update page"]]):
        for begin in bare.BEGINNINGS:
            yield f"{begin}: {programs}", bare.RowModel(bare.Slip, begin, programs, ticks=0)


BARE_SAMPLES: Mapping[str, Sweep] = {
    "two calls": _some(bare.pairs, 7, "atomic", ticks=0),
    "two calls, apart": _some(bare.pairs, 43, "apart", ticks=0),
    "two calls, absent cells": _some(bare.pairs, 11, "absent cells", ticks=0),
    **{
        f"two calls, {store}": _some(bare.pairs, 97, store, ticks=0)
        for store in bare.STORES
        if store not in (*bare.TIMED, "apart")
    },
    "adjacent states": _some(bare.joint, 149, "atomic", ticks=0),
    "adjacent states, apart": _some(bare.joint, 281, "apart", ticks=0),
    "adjacent states, absent cells": _some(bare.joint, 149, "absent cells", ticks=0),
    "early reads": _some(bare.early_reads, 41, "atomic"),
    "nothing is lost beside a first index": _some(states.kept, 7, "atomic"),
    "nothing is lost beside a first index, apart": _some(states.kept, 5, "apart"),
    "nothing is lost beside a first index, absent cells": _some(states.kept, 9, "absent cells"),
    "rows that are adopted": _some(bare.adopted, 4, "atomic"),
    "rows that are adopted, absent cells": _some(bare.adopted, 9, "absent cells"),
    "a call that follows another": _called_twice,
    **{f"counters, {store}": _some(counted.counters, 5, store) for store in counted.STORES},
}

UNIQUE_BUILD: Mapping[str, Sweep] = {
    "one writer": lambda: unique_build.building(
        ("k x", "k y", "k none", "k gone", "m x", "m insert x"), count=1, clocks=TWO_CLOCKS
    ),
    "a value that moves": lambda: unique_build.building(("k y", "m x"), stores=("one",), crashes=0, ordered=True),
    "two builders": lambda: unique_build.building(("m x",), stores=("one",), others=1, count=1, crashes=0),
    "a release": lambda: unique_build.releasing(("k x", "k y", "m x", "m insert x"), count=1),
}

COVERING: Mapping[str, Sweep] = {
    "versioned": lambda: held.covering("V", ("put b", "extra"), (12,), stores=held.EVERY_ROW),
    "versioned, several entries": lambda: held.covering("V2", ("put b", "note", "delete"), (12,), crashes=0),
    "puts of facts": lambda: chain(
        held.covering("I", ("put", "delete"), (12,), stores=held.EVERY_ROW),
        held.covering("I", ("put", "delete"), (12,), heal=True),
    ),
    "deletes of facts in two calls": lambda: held.covering(
        "I", ("put", "delete"), (12,), others=held.readers, atomic=False
    ),
    "inserts of facts": lambda: held.covering("I", held.INSERTS, (12,), stores=("live", "absent")),
    "facts that expire": lambda: held.covering("I", ("expiring", "put", "delete"), (12,), expire=True),
    "queries": lambda: chain(
        held.covering("V", ("put b",), (12,), others=held.readers, crashes=0),
        held.covering("I", ("insert b", "delete"), (12,), others=held.readers, stores=("absent",)),
    ),
    "a repairer": lambda: chain(
        held.covering("V", ("put b", "extra"), (12,), others=held.repairers, count=1, stores=held.EVERY_ROW),
        held.covering("I", ("delete",), (12,), others=held.repairers, stores=("live", "built before"), crashes=0),
    ),
    "a build": lambda: chain(
        held.covering("V", ("put b", "extra", "delete"), (12,), others=held.builders, crashes=0),
        held.covering("I", ("put", "delete"), (12,), others=held.builders, crashes=0),
    ),
    "programs that do not keep the index yet": lambda: chain(held.unkept("V"), held.unkept("I")),
    "a write that takes too long": lambda: chain(
        held.covering("V", ("put b", "insert"), (12,), ordered=True, first={"slow": 1}),
        held.covering("I", held.INSERTS, (12,), stores=("absent",), ordered=True, first={"slow": 1}),
    ),
}


WIDE: Mapping[str, Sweep] = {
    "two writers": lambda: wide.pieces(("k put b", "k delete", "k insert"), clocks=(12,), stores=("live", "older")),
    "two writers, deletes in two calls": lambda: wide.pieces(
        ("k delete",), ("k put b", "k tag b", "m note", "m delete"), (5, 13), atomic=False
    ),
    "objects that expire": lambda: wide.pieces(
        ("k expiring b",), ("k put b", "k note", "k delete", "m note"), (12,), stores=("live", "absent")
    ),
    "commits of two objects": lambda: wide.pieces(
        tuple(wide.BOTH), ("k note", "k delete, insert", "m put b", "m delete"), (5, 12)
    ),
    "commits of two objects at once": lambda: wide.pieces(
        tuple(wide.BOTH), ("k note", "m put b", "m delete"), (5, 12), stores=("live", "older"), joint=True
    ),
    "a repairer": lambda: wide.pieces(
        ("k delete", "k delete, put"), ("k note", "m note"), (12,), others=wide.repairers
    ),
    "queries": lambda: wide.pieces(("k delete",), ("k put b", "m tag b"), (12,), others=wide.readers),
    "a compaction": lambda: wide.pieces(
        ("k delete, insert",), ("k note", "m delete"), (12,), compaction="any", strict=False
    ),
    "a lost answer": lambda: wide.pieces(
        ("k delete", "delete both"), ("k note", "m note"), (5, 13), first={"repeat": 0}
    ),
}

SHARED: Mapping[str, Sweep] = {
    "two writers": _some(
        shared.shared, 2, ("k put b", "k delete, insert"), shared.NAMES, (12,), stores=("live", "absent")
    ),
    "two writers, no index": _some(
        shared.shared, 4, clocks=(12,), stores=("live", "dead", "beside"), model=shared.BARE
    ),
    "two writers, final refusals": lambda: shared.shared(
        clocks=(12,), stores=("live", "absent"), model=shared.BARE, final=True
    ),
    "commits of two objects": _some(shared.shared, 2, shared.BOTH, shared.FEW, (12,), stores=("live", "dead")),
    "local transactions": lambda: shared.shared(
        shared.PINNED, (*shared.FEW, "m delete"), (12,), stores=("live", "beside")
    ),
    "a lost answer": lambda: shared.shared(
        ("k note", "k insert"), shared.FEW, (12,), stores=("live", "absent"), first={"repeat": 1}
    ),
    "a lost answer, and a purge": lambda: shared.shared(
        ("k insert", "k note"),
        ("k delete", "k delete, insert", "m note"),
        (12,),
        shared.LATE,
        stores=("live", "absent"),
        others=shared.purgers,
        crashes=0,
        paused=True,
        always=False,
        first={"repeat": 1},
    ),
    "a repairer": lambda: shared.shared(
        ("k delete",), ("k note", "m note", "put both"), (12,), others=shared.repairers
    ),
    "unique values": lambda: shared_unique.badges(
        ("k x", "k insert x", "pinned k x"), ("m x", "pinned m x"), stores=("empty", "owned")
    ),
    "queries": lambda: shared.shared(
        ("k put b",), ("k delete", "m tag c at 10", "put both"), (12,), others=shared.readers
    ),
    "two crashes and a compaction": lambda: shared.shared(
        ("k delete, insert", "put both"), ("k note", "m delete", "pinned m note"), (12,), crashes=2, compaction="any"
    ),
}

MAPS: Mapping[str, Sweep] = dict(
    chain.from_iterable(
        (
            (
                f"two writers: {model}",
                partial(mapped.maps, mapped.FEW, mapped.FEW, (12,), stores=mapped.EVERY_STORE, model=model),
            ),
            (
                f"deletes in two calls: {model}",
                partial(mapped.maps, ("delete",), mapped.FEW, (5, 12), atomic=False, model=model),
            ),
            (
                f"a repairer: {model}",
                partial(
                    mapped.maps, ("delete, put",), ("entry", "remove"), (12,), others=mapped.repairers, model=model
                ),
            ),
            (
                f"readers: {model}",
                partial(mapped.maps, mapped.FEW, ("entry", "delete"), (12,), others=mapped.readers, model=model),
            ),
            (
                f"a lost answer: {model}",
                partial(mapped.maps, ("entry", "delete"), mapped.FEW, (5, 12), first={"repeat": 0}, model=model),
            ),
            (
                f"versions, two writers: {model}",
                partial(mapped_versions.maps, mapped_versions.FEW, clocks=(12,), model=model),
            ),
            (
                f"versions, a lost answer: {model}",
                partial(
                    mapped_versions.maps,
                    mapped_versions.FEW,
                    ("entry", "delete"),
                    (12,),
                    first={"repeat": 1},
                    model=model,
                ),
            ),
            (
                f"versions, readers: {model}",
                partial(
                    mapped_versions.maps,
                    ("entry",),
                    ("delete, put",),
                    (12,),
                    others=mapped_versions.readers,
                    model=model,
                ),
            ),
        )
        for model in mapped.MODELS
    )
) | {
    "versions, entries that answer for them": partial(
        mapped_versions.maps, mapped_versions.FEW, mapped_versions.FEW, (12,), model="covered"
    )
}

JOINT: Mapping[str, Sweep] = {
    "no index": partial(joint.joint, "no index", clocks=(12,)),
    "indexed": partial(
        joint.joint, "indexed", ("put all", "delete, put"), ("put both", "tags", "delete, note"), (5, 12)
    ),
    "versioned": partial(
        joint.joint, "versioned", ("put all", "delete, put"), ("put both", "notes", "delete, note"), (12,)
    ),
    "versioned, absent objects": lambda: chain(
        *(joint.joint("versioned", joint.NOTHING, joint.PLACED, (12,), lost=at) for at in (None, 0)),
    ),
    "a lost answer": lambda: chain.from_iterable(
        joint.joint(kind, ("put all", "delete, put"), ("put both", "tags"), (12,), lost=at)
        for kind in joint.MODELS
        for at in (0, 1)
    ),
    "unique values": lambda: joint_unique.joint(
        ("r k x, m none", "s k x"), ("s k x",), stores=("empty", "a claim of nobody", "a claim in the row"), crashes=0
    ),
    "unique values that move": lambda: joint_unique.joint(
        joint_unique.CHANGING, ("s k x",), stores=("owned",), crashes=0
    ),
    "unique values, a lost answer": lambda: chain.from_iterable(
        joint_unique.joint(("r k x",), ("s k x",), stores=("empty",), crashes=0, lost=at) for at in range(4)
    ),
}

PLAIN: Mapping[str, Sweep] = {
    "a table of others": lambda: islice(plain.models(), 0, None, 61),
    "a table of others, a writer that stands still": lambda: islice(
        plain.models(plain.Rules(by_clock=True)), 0, None, 211
    ),
}

PREPENDED: Mapping[str, Sweep] = {
    "rows of one cell": lambda: islice(
        prepended.prepends(prepended.Word, (prepended.CLAIMING, prepended.CLAIMING)), 1, None, 5
    ),
    "checked rows": lambda: islice(
        prepended.prepends(prepended.Remark, (prepended.ATOMIC, prepended.ATOMIC)), 1, None, 5
    ),
    "claimed rows": lambda: islice(
        prepended.prepends(prepended.Remark, (prepended.CLAIMING, prepended.CLAIMING)), 6, 7
    ),
    "claimed rows beside checked ones": lambda: islice(
        prepended.prepends(prepended.SaltedRemark, (prepended.CLAIMING, prepended.ATOMIC)), 1, 2
    ),
}
IDS: Mapping[str, Sweep] = {"claims of names": ids.claims, "blocks of a sequence": ids.blocks}
MIGRATION: Mapping[str, Sweep] = {
    "puts and queries": lambda: migration.models(ways=("there",), crews=migration.CREWS[1:3]),
    "deletes": lambda: migration.models(crews=migration.CREWS[4:6]),
    "copies into a table with an index": migration.indexed,
}

SEALING: Mapping[str, Sweep] = {
    "two programs": lambda: islice(sealing_sweeps.pairs(movers=False), 0, None, 3),
    "two programs, an index": lambda: islice(sealing_sweeps.pairs(layouts=sealing.INDEXED, movers=False), 1, None, 9),
}

REKEY: Mapping[str, Sweep] = {
    "a move that is ended and refused": lambda: moved.refusals("covered"),
    "one program": lambda: moved.moves(also=("one",)),
    "two keys": lambda: moved.moves(
        ("indexed", "versioned", "wide", "wide versioned"), ("nobody", "a delete of the old key"), ("two ways",)
    ),
    "an object with a TTL": lambda: moved.moves(("expiring", "wide expiring"), also=("one", "two ways")),
    "the same call again": lambda: moved.moves(("bare", "versioned", "wide", "wide bare"), ("nobody",), ("twice",)),
    "a unique value": lambda: moved.values(calls=("take", "tag m")),
    "an index that is built": lambda: rebuilt.moves(("indexed", "versioned", "wide", "wide versioned", "covered")),
    "a put, and an index that is built": put_builds.puts,
    "an insert, and an index that is built": lambda: filled.inserts(
        ("indexed", "versioned", "wide", "wide versioned", "covered")
    ),
    "a unique index that is built": lambda: rebuilt.moves(("unique",), ("nobody",)),
    "an insert that is not acknowledged": lambda: inserted.inserts(
        ("bare", "indexed", "wide bare"), ("nobody", "a delete")
    ),
    "an insert that takes too long": lambda: inserted.inserts(inserted.BARE, ("nobody",), late=True),
}

SAMPLES: Mapping[str, Sweep] = dict(
    chain(
        ((f"prepend, {name}", sweep) for name, sweep in PREPENDED.items()),
        ((f"unique build, {name}", sweep) for name, sweep in UNIQUE_BUILD.items()),
        ((f"covering, {name}", sweep) for name, sweep in COVERING.items()),
        PLAIN.items(),
        ((f"several kinds, {name}", sweep) for name, sweep in JOINT.items()),
        ((f"maps, {name}", sweep) for name, sweep in MAPS.items()),
        ((f"ids, {name}", sweep) for name, sweep in IDS.items()),
        ((f"migration, {name}", sweep) for name, sweep in MIGRATION.items()),
        ((f"sealing, {name}", sweep) for name, sweep in SEALING.items()),
        ((f"row versions, {name}", sweep) for name, sweep in SHARED.items()),
        ((f"one row, {name}", sweep) for name, sweep in WIDE.items()),
        INDEXED.items(),
        ((f"versions, {name}", sweep) for name, sweep in VERSIONED.items()),
        ((f"unique, {name}", sweep) for name, sweep in UNIQUE.items()),
        ((f"no index, {name}", sweep) for name, sweep in BARE_SAMPLES.items()),
        ((f"rekey, {name}", sweep) for name, sweep in REKEY.items()),
        (("writers' roll", roll.sample),),
    )
)
"""Every sample. A module with further families adds its own here."""
