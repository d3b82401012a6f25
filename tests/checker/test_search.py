"""The checker's search leaves out only states that it has already seen: without its reductions, it finds the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice, product
from typing import Any

import pytest

from tests.checker import protocol_covering as held
from tests.checker import protocol_kinds as several
from tests.checker import protocol_lives as expiring
from tests.checker import protocol_row_sweeps as bare
from tests.checker import protocol_unique as unique
from tests.checker import protocol_versions as versions
from tests.checker.broken_rules import BROKEN
from tests.checker.protocol_facts import DELETED, facts
from tests.checker.protocol_row_mutants import CALLS as BROKEN_CALLS
from tests.checker.protocol_sweeps import batches, building, flat, places, purgers, ranges, readers, repairers, two
from tests.checker.sample_sweeps import BARE
from tests.checker.whole_sweeps import TWICE, UNCOUNTED, WHOLE

TWO_CLOCKS = (5, 12)

CONFIGURATIONS: dict[str, Callable[[], Iterable[Any]]] = {
    "a repairer": lambda: two(("put b", "delete, put"), (12,), others=repairers, atomic=False),
    "queries": lambda: two(("put b", "tag a"), TWO_CLOCKS, others=readers),
    "a range": lambda: two(("put b",), TWO_CLOCKS, others=ranges, unmoved="tag"),
    "two crashes and a compaction": lambda: two(
        ("put b", "delete, insert"), (12,), stores=("dead",), crashes=2, compaction="any"
    ),
    "a call again": lambda: two(
        ("put b", "delete"), TWO_CLOCKS, others=purgers, compaction="grace", ordered=True, first={"again": 1}
    ),
    "a crash and a compaction of what is old": lambda: two(
        ("put b", "delete"), (12,), others=purgers, compaction="grace"
    ),
    "three writers, two crashes": lambda: two(("tag b", "delete"), (12,), count=3, crashes=2),
    "a writer that is late": lambda: two(("put b", "insert"), TWO_CLOCKS, ordered=True, first={"slow": 1}),
    "rounds of two rows": lambda: batches((12,), ("note",), names=("delete both",)),
    "two indexes": lambda: places((5,), ("city", "street", "delete"), repair=True),
    "facts": lambda: facts(DELETED, (12,)),
    "expiring rows": lambda: expiring.lives(("expiring b",), ("tag b", "delete"), (12,), others=expiring.repairers),
    "a family with a TTL": lambda: expiring.fading(("tag b",), ("note", "delete"), (12,), repair=True, ages=(10,)),
    "a build": lambda: building(("put b", "tag b"), (12,), repair=True),
    "several entries": lambda: several.kinds(("put bc", "tags b"), (12,), others=several.ranges, unmoved="tags"),
    "versions": lambda: versions.two(("put b", "delete, put"), (12,), others=versions.repairers),
    "versions, queries": lambda: versions.two(("put b", "note"), (12,), others=versions.readers, crashes=2),
    "unique": lambda: unique.members(("k x", "m x"), stores=("empty", "owned")),
    "no index": lambda: islice(bare.pairs("atomic", ticks=0), 0, None, 20),
    "an adopted row": lambda: islice(bare.adopted("absent cells"), 0, None, 20),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_reduced_search_sees_every_store(name: str) -> None:
    """Invariants are of stores and of what reads have seen, so nothing that they could find is left out."""
    states = [0, 0]
    for label, model in CONFIGURATIONS[name]():
        found = model.run()
        seen = model.reached()
        model.reduced = False
        full = model.run()
        assert found["ok"] is full["ok"] is True, label
        assert seen == model.reached(), label
        states = [states[0] + found["states"], states[1] + full["states"]]
    print(f"{states[0]} of {states[1]} states")
    assert 0 < states[0] <= states[1]


LED = frozenset(
    {"sealing: writers do not look whether their phase is over", "sealing: what was sealed is not read again"}
)
"""Whole migrations, in which a writer repeats its attempts: without reductions each of them leads to further states,
and none to an end.
"""


@pytest.mark.parametrize("name", sorted(BROKEN.keys() - LED))
def test_the_full_search_finds_what_the_reduced_one_finds(name: str) -> None:
    for label, model in flat(BROKEN[name].mutant()):
        found = model.run()
        model.reduced = False
        full = model.run()
        assert found["ok"] is full["ok"], label
        if full["ok"] is False:
            assert full["error"].startswith(BROKEN[name].violation), full["error"]
            return
    pytest.fail("no search finds it")


# --- configurations that are left out because they are there already --------------------------------------------------


def _counts(configurations: Iterable[Any]) -> list[tuple[int, int]]:
    return [(found["states"], found["trans"]) for _, model in flat(configurations) for found in [model.run()]]


def test_a_store_that_is_not_atomic_makes_no_difference_where_nothing_is_deleted() -> None:
    names = [name for name in UNCOUNTED if "delete" not in name]
    kinds = [name for name in several.ACTIONS if "delete" not in name]
    fading = [name for name in expiring.FADING if "delete" not in name]
    for row in ("live", "dead"):
        counts = [_counts(two(names, (12,), stores=(row,), crashes=0, atomic=atomic)) for atomic in (True, False)]
        assert counts[0] == counts[1]
        counts = [
            _counts(several.kinds(kinds, (12,), stores=(row,), crashes=0, count=1, atomic=atomic))
            for atomic in (True, False)
        ]
        assert counts[0] == counts[1]
        facts = ("put", "insert a", "insert b")
        counts = [
            _counts(held.covering("I", facts, (12,), stores=(row,), crashes=0, atomic=atomic))
            for atomic in (True, False)
        ]
        assert counts[0] == counts[1]
        of = {"ages": (10,), "crashes": 0, "stores": (row,)}
        counts = [_counts(expiring.fading(fading, fading[:2], (12,), atomic=atomic, **of)) for atomic in (True, False)]
        assert counts[0] == counts[1]


@pytest.mark.parametrize("what", ["repeat", "again"])
def test_a_step_that_a_writer_does_not_have_cannot_come_twice(what: str) -> None:
    names = ("put b", "delete, insert")
    turns = {at: _counts(two(names, (12,), ordered=True, first={what: at})) for at in TWICE}
    plain = _counts(two(names, (12,), ordered=True))
    for n, pair in enumerate(two(names, (12,), ordered=True)):
        pair[1].run()
        calls = pair[1].calls(0)
        assert all(turns[at][n] == plain[n] for at in TWICE if at >= calls), pair[0]
        assert any(turns[at][n] != plain[n] for at in TWICE if at < calls), pair[0]


def test_programs_that_know_the_same_may_change_places() -> None:
    for one, two_ in (("add", "delete"), ("update page", "expiring add"), ("insert", "forget")):
        cases = [
            ("add", *names, ("marking", "marking"), first) for names in ((one, two_), (two_, one)) for first in (0, 1)
        ]
        found = [bare.side_by_side("atomic", case, ticks=0).run() for case in cases]
        assert len({(one["ok"], one["states"], one["trans"]) for one in found}) == 1


@pytest.mark.parametrize("left", sorted(bare.TWINS))
@pytest.mark.parametrize("begin", ["absent", "add"])
def test_a_pair_of_calls_stands_for_the_one_with_other_values(left: str, begin: str) -> None:
    kept = bare.TWINS[left]
    for other in ("update note", "delete", "insert", left):
        one, two_ = (bare.RowModel(bare.Slip, begin, [[call], [other]], ticks=0).run() for call in (left, kept))
        assert one["ok"] is two_["ok"] is True, other
        assert one["states"] <= two_["states"], "where values are the same, stores are"
        assert one["states"] == two_["states"] or begin != "absent" or other == left, other


def test_what_a_pair_finds_the_one_with_other_values_finds_too() -> None:
    found = 0
    for name, (rules, begin, _) in BROKEN_CALLS.items():
        for (left, kept), other in product(bare.TWINS.items(), ("update note", "delete", "expiring update")):
            one, two_ = (bare.RowModel(bare.Slip, begin, [[call], [other]], rules=rules).run() for call in (left, kept))
            assert one["ok"] or not two_["ok"], (name, left, other)
            found += not one["ok"]
    assert found >= 10


def test_every_whole_sweep_has_configurations() -> None:
    assert BARE in versions.MODELS
    for name, configurations in WHOLE.items():
        assert next(iter(flat(configurations())), None) is not None, name
