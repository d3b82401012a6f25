"""Two programs with a call each for one row, their requests in any order: what is left is what some order of the two calls leaves."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.support.examples import examples
from tests.support.two_programs import DEEDS, KINDS, Kind, Stage, beginnings, fitting, random_schedule

Case = tuple[tuple[str, ...], tuple[str, str], int]


def cases(of: Kind) -> list[Case]:
    """Every beginning with every two calls, and numbers from which schedules are drawn."""
    pairs = itertools.combinations_with_replacement(fitting(of), 2)
    return list(itertools.product(beginnings(of), pairs, range(40)))


def some(of: list[Case], seed: str) -> list[Case]:
    return random.Random(seed).sample(of, min(len(of), examples(50)))


@pytest.mark.parametrize("distinct", [True, False], ids=["every request a later time", "a clock that stands still"])
@pytest.mark.parametrize("name", KINDS)
def test_two_calls_leave_what_some_order_of_them_leaves(name: str, distinct: bool) -> None:
    stage = Stage.of_kind(KINDS[name], distinct=distinct)
    for number, (begin, pair, seed) in enumerate(some(cases(KINDS[name]), f"{name} {distinct}")):
        result = stage.run(begin, pair, number, random_schedule(seed))
        assert result.wrong is None, (begin, pair, seed, result.wrong)


@pytest.mark.slow
@pytest.mark.parametrize("distinct", [True, False], ids=["every request a later time", "a clock that stands still"])
@pytest.mark.parametrize("name", KINDS)
def test_every_two_calls(name: str, distinct: bool) -> None:
    stage = Stage.of_kind(KINDS[name], distinct=distinct)
    for number, (begin, pair, seed) in enumerate(cases(KINDS[name])):
        result = stage.run(begin, pair, number, random_schedule(seed))
        assert result.wrong is None, (begin, pair, seed, result.wrong)


def test_every_call_is_drawn() -> None:
    assert {name for of in KINDS.values() for name in fitting(of)} == DEEDS.keys()
