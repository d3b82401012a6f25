"""Builds and repairs of a unique index through every interleaving and crash of small configurations, and their rules broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.checker.protocol_sweeps import Configuration, sweep
from tests.checker.protocol_unique_build import BEFORE, MUTANTS, SOUND, building, purging, releasing
from tests.checker.test_protocol_versions import held


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found_where_the_shipped_code_holds(name: str, record_property: Callable[[str, object], None]) -> None:
    mutant = MUTANTS[name]
    found = sweep(mutant.where(mutant.rules))
    print(f"found after {found.models} models, {found.states} states: {found.error}")
    assert found.error is not None, f"the checker does not notice: {name}"
    assert found.error.startswith(mutant.violation), str(found)
    held(sweep(mutant.where(SOUND)), record_property)


SAMPLES: dict[str, Callable[[], Iterable[Configuration]]] = {
    "one writer": lambda: building(("k x", "k y", "k none", "k gone", "m x", "m insert x"), count=1, clocks=(5, 12)),
    "a value that moves": lambda: building(("k y", "m x"), stores=("one",), crashes=0, ordered=True),
    "two builders": lambda: building(("m x",), stores=("one",), others=1, count=1, crashes=0),
    "a release": lambda: releasing(("k x", "k y", "m x", "m insert x"), count=1),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_shipped_code_holds_in_a_sample(name: str, record_property: Callable[[str, object], None]) -> None:
    held(sweep(SAMPLES[name]()), record_property)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("store", BEFORE)
def test_a_build_beside_two_writers(store: str, record_property: Callable[[str, object], None]) -> None:
    names = ("k x", "k y", "k none", "k note", "k gone", "m x", "m insert x", "k y, k x", "k gone, m x")
    held(sweep(building(names, stores=(store,), clocks=(5, 12))), record_property)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_two_builders(record_property: Callable[[str, object], None]) -> None:
    held(sweep(building(("k x", "k y", "k note", "m x"), others=1, count=1)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_release_beside_two_writers(record_property: Callable[[str, object], None]) -> None:
    names = ("k x", "k y", "k none", "k note", "k gone", "m x", "m insert x", "k y, k x")
    held(sweep(releasing(names)), record_property)


def test_released_claims_must_not_be_deleted() -> None:
    """Why nothing purges them: a writer that has read no claim and stands still for longer than the grace time puts its claim under
    the tombstone, where the store says that it was put and nobody sees it.
    """
    found = sweep(purging(("k x", "k gone", "m x", "k none"), waits=False))
    assert found.error is not None
    print(found)
