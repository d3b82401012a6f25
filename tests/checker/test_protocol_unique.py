"""Unique indexes through every interleaving and crash of small configurations, and every rule of claims broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

import pytest

from tests.checker.protocol_sweeps import Configuration, sweep
from tests.checker.protocol_unique import MUTANTS, STORES, members
from tests.checker.protocol_versions import SHIPPED
from tests.checker.test_protocol_versions import held


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found_where_the_shipped_code_holds(name: str, record_property: Callable[[str, object], None]) -> None:
    mutant = MUTANTS[name]
    found = sweep(mutant.where(mutant.rules))
    print(f"found after {found.models} models, {found.states} states: {found.error}")
    assert found.error is not None, f"the checker does not notice: {name}"
    assert found.error.startswith(mutant.violation), str(found)
    held(sweep(mutant.where(SHIPPED)), record_property)


SAMPLES: dict[str, Callable[[], Iterable[Configuration]]] = {
    "two rows, one value": lambda: members(("k x", "m x", "m insert x")),
    "a value that moves": lambda: members(("k y", "k gone", "m x"), stores=("owned",), clocks=(5, 12)),
    "a value and back": lambda: members(("k y, k x", "m x"), stores=("owned",), crashes=0),
    "a crashed claim": lambda: members(("k note", "m x", "m y", "k none"), stores=("a claim of nobody", "a claim beside")),
    "a lost answer": lambda: chain.from_iterable(
        members(("k y", "m x"), stores=("owned", "empty"), crashes=0, ordered=True, repeat=at) for at in range(3)
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_shipped_code_holds_in_a_sample(name: str, record_property: Callable[[str, object], None]) -> None:
    held(sweep(SAMPLES[name]()), record_property)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("store", STORES)
def test_two_writers(store: str, record_property: Callable[[str, object], None]) -> None:
    held(sweep(members(stores=(store,), clocks=(5, 12))), record_property)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("what", ["repeat", "again"])
def test_a_call_that_is_carried_out_twice(what: str, store: str, record_property: Callable[[str, object], None]) -> None:
    names = ("k x", "k y", "k gone", "m x", "m insert x")
    configurations = (members(names, stores=(store,), crashes=0, ordered=True, **{what: at}) for at in range(6))
    held(sweep(chain.from_iterable(configurations)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_three_writers(record_property: Callable[[str, object], None]) -> None:
    held(sweep(members(("k y", "m x", "m y"), count=3, crashes=0), budget=3000), record_property)
