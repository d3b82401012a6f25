"""The value of a paused generator contains the state that it continues with, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checker.fingerprint import fingerprint

Steps = Generator[Any, Any, None]


def after(start: Callable[[], Steps], *answers: Any) -> Any:
    """The value of a generator that was given these answers."""
    steps = start()
    next(steps)
    for answer in answers:
        steps.send(answer)
    return fingerprint(steps)


def forgetful() -> Steps:
    found = yield "read"
    large = found > 5
    yield "look"
    yield large


def looping() -> Steps:
    for _ in (1, 2, 3):
        yield "same"


def summing() -> Steps:
    total = 0
    while True:
        total += yield "more"


def nested() -> Steps:
    kept = []

    def add(one: Any) -> None:
        kept.append(one)

    while True:
        add((yield from asking()))


def asking() -> Any:
    return (yield "ask")


def sharing() -> Steps:
    shared: list[int] = []
    pair = (shared, shared) if (yield "which") else ([], [])
    yield "wait"
    pair[0].append(1)
    yield pair[1]


def hiding() -> Steps:
    source = memoryview(bytes((yield "read")))
    yield "wait"
    yield source


def test_what_is_not_read_again_does_not_count() -> None:
    assert after(forgetful, 6) == after(forgetful, 7) is not None
    assert after(forgetful, 6) != after(forgetful, 5)


def test_the_place_in_a_loop_counts() -> None:
    assert after(looping) != after(looping, None) != after(looping, None, None) != after(looping)


def test_whether_two_objects_are_one_counts() -> None:
    assert after(sharing, True) != after(sharing, False) is not None


def test_what_cannot_be_seen_is_like_nothing_else() -> None:
    assert after(hiding, b"x") is None


@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6))
def test_histories_that_leave_the_same_are_the_same(one: list[int], other: list[int]) -> None:
    assert (after(summing, *one) == after(summing, *other)) == (sum(one) == sum(other))
    assert (after(nested, *one) == after(nested, *other)) == (one == other)


@pytest.mark.parametrize("same", [(1, True), (0, False), (b"a", "a")])
def test_values_of_different_types_differ(same: Any) -> None:
    one, other = same
    assert after(nested, one) != after(nested, other)
