"""The search through the writers' roll finds the states that a search without numbers and hidden parts finds."""

from __future__ import annotations

import pytest

from tests.checker.protocol_roll import CALLS, PART, SHIPPED, Bounds, RollModel, Rules
from tests.checker.protocol_roll_states import State

SMALL = {
    "a collector": Bounds(work=1, flips=0, unknown=0, collected=1, rests=False),
    "a fork": Bounds(threads=(1, 0), puts=(1, 1), forks=1, unknown=0, flips=0, work=0, killed=0),
    "two builders": Bounds(puts=(1,), builders=(1, 1), builders_killed=1, unknown=0, work=0, flips=0),
    "renewals without end": Bounds(puts=(1,), urgent=True, killed=0, after=2, rests=False, ends=False),
    "attempts": Bounds(puts=(1,), attempts=1, work=1, killed=0),
}


@pytest.mark.parametrize("bounds", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("rules", [SHIPPED, Rules(fork="same", ids="kept")], ids=["shipped", "broken"])
def test_hidden_parts_change_no_step(bounds: Bounds, rules: Rules) -> None:
    found = RollModel(rules, bounds).run()
    if found["ok"]:
        assert found["states"] == len(_reached(RollModel(rules, bounds)))


def _reached(model: RollModel) -> set[State]:
    """Every state, each step made from the whole state before it."""
    reached, left = {model._first}, [model._first]
    while left:
        state = left.pop()
        for actor in model._actors(model._states.number(state) >> CALLS & PART):
            for _, after in actor.steps(state):
                if after not in reached:
                    reached.add(after)
                    left.append(after)
    return reached
