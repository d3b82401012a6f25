"""The shipped protocols through every interleaving and crash of small configurations, and every rule broken on purpose.

The default run takes samples of the sweeps; the slow tests run them whole, as `make check-protocol` does on two
processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.checker.behaviour import forget
from tests.checker.broken_rules import BROKEN
from tests.checker.protocol_sweeps import Found, sweep
from tests.checker.sample_sweeps import SAMPLES
from tests.checker.whole_sweeps import WHOLE


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    """The memory of a sweep is released after it."""
    yield
    forget()


def held(found: Found, record: Callable[[str, Any], None]) -> None:
    """No violation; notes how many states there were."""
    record("states", found.states)
    print(f"{found.models} models, {found.states} states")
    assert found.states > found.models > 0
    assert found.error is None, str(found)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_shipped_code_holds_in_a_sample(name: str, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(SAMPLES[name]()), record_property)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_where_the_shipped_code_holds(
    name: str, record_property: Callable[[str, Any], None]
) -> None:
    broken = BROKEN[name]
    found = sweep(broken.mutant())
    print(f"found after {found.models} models, {found.states} states: {found.error}")
    assert found.error is not None, f"the checker does not notice: {name}"
    assert found.error.startswith(broken.violation), str(found)
    held(sweep(broken.shipped()), record_property)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", WHOLE)
def test_the_shipped_code_holds_in_a_whole_sweep(name: str, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(WHOLE[name]()), record_property)
