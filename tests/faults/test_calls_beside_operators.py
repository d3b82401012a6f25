"""Two programs with a call each for one row while an operator works at its table: what is left is what some order of the calls leaves."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterable, Iterator

import pytest

from tests.support.calls_of_kinds import beginnings, fitting
from tests.support.examples import examples
from tests.support.operator_work import WORKS, Place
from tests.support.turns import random_turns

OPERATOR = 2
"""The number of its thread."""

Drawn = tuple[tuple[str, ...], tuple[str, str], int, bool, bool, bool, tuple[int, int] | None]


def drawn(name: str, seed: int, count: int) -> Iterator[Drawn]:
    """Beginnings with two calls, the seed of a schedule, whether the clock moves with every request, whether no row is changed atomically,
    whether writes look at the registry inside their transactions, and who crashes after how many requests.

    `rekey` does not crash: one that was interrupted is completed by repeating it.
    """
    of, source = WORKS[name].kind, random.Random(f"{name} {seed}")
    for _ in range(count):
        begin, pair = source.choice(beginnings(of)), (source.choice(fitting(of)), source.choice(fitting(of)))
        crash = None if source.random() < 0.6 else (source.randrange(3), source.randrange(30))
        if crash is not None and crash[0] != OPERATOR and pair[crash[0]] == "rekey":
            crash = None
        limited = source.random() < 0.3 and not of.schema.versioned
        gated = source.random() < 0.5
        yield begin, pair, source.randrange(10**9), source.random() < 0.5, limited, gated, crash


def check(name: str, cases: Iterable[Drawn], caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()  # sessions that earlier tests left warn when they are collected
    caplog.clear()
    for begin, pair, seed, distinct, limited, gated, crash in cases:
        result = Place.of(WORKS[name], distinct=distinct, limited=limited, gated=gated).run(begin, pair, 1, random_turns(seed), crash)
        assert result.wrong is None, (begin, pair, seed, distinct, limited, gated, crash, result.wrong)
        said = [record.getMessage() for record in caplog.records]
        assert not said or name.startswith("drop"), (begin, pair, seed, distinct, limited, gated, crash, said)


@pytest.mark.lengthy
@pytest.mark.parametrize("name", WORKS)
def test_two_calls_leave_what_some_order_of_them_leaves_beside(name: str, caplog: pytest.LogCaptureFixture) -> None:
    check(name, drawn(name, 0, examples(8)), caplog)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_two_calls_leave_what_some_order_of_them_leaves_beside(name: str, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    check(name, drawn(name, seed, 100), caplog)
