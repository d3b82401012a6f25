"""Two programs with a call each for one row, their requests in any order: the result is that of some order of the two
calls.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.support.called_kinds import KINDS, Kind
from tests.support.calls_of_kinds import DEEDS, beginnings, fitting
from tests.support.examples import examples
from tests.support.turns import short_turns
from tests.support.two_programs import Fault, Stage

STORES = [
    pytest.param(name, limited, id=f"{name}{', limited' if limited else ''}")
    for limited in (False, True)
    for name in KINDS
    if not (limited and KINDS[name].schema.versioned)
]
"""The kinds, each on a store that changes rows atomically, and on one that does not, where there are no versions."""

Case = tuple[tuple[str, ...], tuple[str, str], int]


def cases(of: Kind) -> list[Case]:
    """Every beginning with every two calls, and numbers from which schedules are drawn."""
    pairs = itertools.combinations_with_replacement(fitting(of), 2)
    return list(itertools.product(beginnings(of), pairs, range(40)))


def some(of: list[Case], seed: str) -> list[Case]:
    return random.Random(seed).sample(of, min(len(of), examples(12)))


@pytest.mark.parametrize("distinct", [True, False], ids=["every request a later time", "a clock that stands still"])
@pytest.mark.parametrize(("name", "limited"), STORES)
def test_two_calls_leave_what_some_order_of_them_leaves(name: str, distinct: bool, limited: bool) -> None:
    stage = Stage.of_kind(KINDS[name], distinct=distinct, limited=limited)
    for number, (begin, pair, seed) in enumerate(some(cases(KINDS[name]), f"{name} {distinct}")):
        result = stage.run(begin, pair, number, short_turns(seed))
        assert result.wrong is None, (begin, pair, seed, result.wrong)


MOST = 15_000
"""About how many cases of a kind the long tests try: every beginning with every two calls, in as many ways as that
allows.
"""


def spread(of: list[Any], seed: str) -> list[Any]:
    """Some cases of each beginning with each two calls; a case begins with these."""
    grouped: dict[Any, list[Any]] = {}
    for case in of:
        grouped.setdefault(case[:2], []).append(case)
    drawn, each = random.Random(seed), max(1, MOST // len(grouped))
    return [case for group in grouped.values() for case in drawn.sample(group, min(each, len(group)))]


Interruption = tuple[tuple[str, ...], tuple[str, str], int, tuple[bool, bool], bool]


def interruptions(of: Kind) -> list[Interruption]:
    """Every initial state with every pair of calls, the request of the first call that fails, how it fails, and whether
    its program continues.

    `rekey` is never the first call: an interrupted one is completed by repeating it.
    """
    pairs = itertools.product([name for name in fitting(of) if name != "rekey"], fitting(of))
    failures = [(True, False), (True, True), (False, False)]
    return list(itertools.product(beginnings(of), pairs, range(7), failures, (False, True)))


def _interrupted(stage: Stage, number: int, case: Interruption) -> None:
    begin, pair, at, (sent, carried_out), crash = case
    result = stage.run_interrupted(begin, pair, number, Fault(at, sent, carried_out), crash=crash)
    assert result.wrong is None, (case, result.wrong)


@pytest.mark.lengthy
@pytest.mark.parametrize("distinct", [True, False], ids=["every request a later time", "a clock that stands still"])
@pytest.mark.parametrize(("name", "limited"), STORES)
def test_a_call_beside_one_that_is_interrupted(name: str, distinct: bool, limited: bool) -> None:
    stage = Stage.of_kind(KINDS[name], distinct=distinct, limited=limited)
    drawn = random.Random(f"{name} {distinct}")
    cases = interruptions(KINDS[name])
    for number, case in enumerate(drawn.sample(cases, min(len(cases), examples(14)))):
        _interrupted(stage, number, case)


@pytest.mark.slow
@pytest.mark.parametrize("distinct", [True, False], ids=["every request a later time", "a clock that stands still"])
@pytest.mark.parametrize("name", KINDS)
def test_every_call_beside_every_one_that_is_interrupted(name: str, distinct: bool) -> None:
    stage = Stage.of_kind(KINDS[name], distinct=distinct)
    for number, case in enumerate(spread(interruptions(KINDS[name]), f"{name} {distinct}")):
        _interrupted(stage, number, case)


@pytest.mark.slow
@pytest.mark.parametrize("distinct", [True, False], ids=["every request a later time", "a clock that stands still"])
@pytest.mark.parametrize("name", KINDS)
def test_every_two_calls(name: str, distinct: bool) -> None:
    stage = Stage.of_kind(KINDS[name], distinct=distinct)
    for number, (begin, pair, seed) in enumerate(spread(cases(KINDS[name]), f"{name} {distinct}")):
        result = stage.run(begin, pair, number, short_turns(seed))
        assert result.wrong is None, (begin, pair, seed, result.wrong)


def test_every_call_is_drawn() -> None:
    assert {name for of in KINDS.values() for name in fitting(of)} == DEEDS.keys()
