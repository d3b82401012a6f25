"""Which clocks the configurations of a sweep have, and that none is left out by the end of a family."""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.checker.clocks import Turns, at_clocks, combinations, over_stores
from tests.checker.whole_sweeps import EVERY_CLOCK, UNCOUNTED, WHOLE

BOTH = {(5, 5), (5, 12), (12, 5), (12, 12)}


def test_readings_are_combined_with_every_choice() -> None:
    assert set(at_clocks((5, 12), 2, "ab", "x")) == {(of, "x", *both) for of in "ab" for both in BOTH}
    pairs = set(combinations("ab", (5, 12)))
    assert pairs >= {(("a", "b"), both) for both in BOTH}
    assert {both for names, both in pairs if names == ("a", "a")} == BOTH - {(12, 5)}  # the same writers, in any order
    assert (("b", "a"), (5, 12)) in set(combinations("ab", (5, 12), ordered=True))


def test_all_turns_together_are_every_combination() -> None:
    turns = Turns(5, 12)
    swept = [set(at_clocks(turns(), 2, "abc", "xy")) for _ in range(4)]
    assert [len(found) for found in swept] == [6, 6, 6, 6]
    assert set.union(*swept) == set(at_clocks((5, 12), 2, "abc", "xy"))
    paired = [set(combinations("abc", turns(), ordered=True)) for _ in range(4)]
    assert set.union(*paired) == set(combinations("abc", (5, 12), ordered=True))


def test_one_sweep_has_every_combination_with_some_writers() -> None:
    assert {readings for _, readings in combinations("abcd", Turns(5, 12)())} == BOTH
    assert {tuple(readings) for _, _, *readings in at_clocks(Turns(5, 12)(), 2, "abcd", "abcd")} == BOTH
    assert len({readings for _, (_, readings) in over_stores(("live", "dead"), ["a"], Turns(5, 12)())}) == 2


def test_every_sweep_can_have_every_combination() -> None:
    turns = Turns(5, 12, every=True)
    assert [*combinations("ab", turns())] == [*combinations("ab", (5, 12))] == [*combinations("ab", turns())]


def writers(label: str) -> list[tuple[str, int]]:
    found = re.search(r"\[\(.*?\)\]", label)
    return [] if found is None else sorted(ast.literal_eval(found[0]))


def labels(configurations: Any) -> Iterator[str]:
    for found in configurations:
        yield (next(found) if isinstance(found, Iterator) else found)[0]


@pytest.mark.skipif(EVERY_CLOCK, reason="each sweep has every clock")
def test_every_two_writers_of_an_indexed_row_have_every_two_clocks() -> None:
    met: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    swept = [name for name in WHOLE if re.match("(a repairer|queries|a query for a range|a lost answer): ", name)]
    assert len(swept) == 6 + 6 + 6 + 3
    for name in swept:
        for label in labels(WHOLE[name]()):
            (one, clock), (other, its) = writers(label)
            met[(one, other)].add((clock, its))
    for pair in itertools.combinations(sorted(UNCOUNTED), 2):
        assert met[pair] == BOTH, pair
