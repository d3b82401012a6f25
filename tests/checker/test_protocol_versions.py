"""The protocol of versioned models through every interleaving and crash of small configurations, and every rule broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import pytest
from attrs import evolve

from tests.checker.protocol_processes import Rules as Around
from tests.checker.protocol_sweeps import Configuration, Found, sweep
from tests.checker.protocol_version_mutants import MUTANTS
from tests.checker.protocol_versions import SHIPPED, batches, readers, repairers, two

EVERY_ROW = ("live", "dead", "absent")
BARE = "without an index"
FEW = ("put b", "tag c at 10", "note", "delete, put")


def held(found: Found, record: Callable[[str, Any], None]) -> None:
    """No violation; tells how many states there were."""
    record("states", found.states)
    print(f"{found.models} models, {found.states} states")
    assert found.states > found.models > 0
    assert found.error is None, str(found)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found_where_the_shipped_code_holds(name: str, record_property: Callable[[str, Any], None]) -> None:
    mutant = MUTANTS[name]
    found = sweep(mutant.where(mutant.rules))
    print(f"found after {found.models} models, {found.states} states: {found.error}")
    assert found.error is not None, f"the checker does not notice: {name}"
    assert found.error.startswith(mutant.violation), str(found)
    by_clock = mutant.rules.repair.grace == "clock"
    held(sweep(mutant.where(evolve(SHIPPED, repair=Around(grace="clock" if by_clock else "wait")))), record_property)


SAMPLES: dict[str, Callable[[], Iterable[Configuration]]] = {
    "two writers": lambda: two(stores=EVERY_ROW, clocks=(12,)),
    "two writers, no index": lambda: two(stores=EVERY_ROW, clocks=(12,), model=BARE),
    "two writers, final refusals": lambda: two(stores=EVERY_ROW, clocks=(12,), model=BARE, final=True),
    "a repairer": lambda: two(("put b", "tag c at 10", "delete, put"), (12,), others=repairers),
    "queries": lambda: two(FEW, others=readers),
    "two crashes and a compaction": lambda: two(FEW, (12,), stores=("live", "dead"), crashes=2, compaction="any"),
    "a lost answer": lambda: chain.from_iterable(
        two(("tag b if a", "note at 10", "insert", "delete"), (12,), stores=("live", "absent"), ordered=True, first={"repeat": at})
        for at in (0, 1)
    ),
    "a call that arrives again": lambda: chain.from_iterable(
        two(
            ("put b", "delete", "insert"),
            (12,),
            stores=("live", "absent"),
            crashes=0,
            compaction="grace",
            ordered=True,
            first={"again": at},
        )
        for at in (0, 1)
    ),
    "a write that takes too long": lambda: two(("put b", "tag b", "insert", "delete, insert"), (12,), ordered=True, first={"slow": 1}),
    "commits of two rows": lambda: chain(batches(), batches(repeat=1), batches(repeat=2)),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_shipped_code_holds_in_a_sample(name: str, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(SAMPLES[name]()), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
@pytest.mark.parametrize("others", [repairers, readers])
def test_two_writers_beside_others(others: Any, row: str, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(two(stores=(row,), others=others)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
@pytest.mark.parametrize("model", ["indexed", BARE])
def test_two_writers_two_crashes_and_a_compaction(model: str, row: str, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(two(model=model, stores=(row,), crashes=2, compaction="any")), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
@pytest.mark.parametrize("what", ["repeat", "again"])
def test_a_call_that_is_carried_out_twice(what: str, row: str, record_property: Callable[[str, Any], None]) -> None:
    configurations = (two(stores=(row,), ordered=True, first={what: at}) for at in range(6))
    held(sweep(chain.from_iterable(configurations)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
def test_writers_that_take_too_long_or_stand_still(row: str, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(two(stores=(row,), ordered=True, first={"slow": 1})), record_property)
    rules = evolve(SHIPPED, repair=Around(grace="clock"))
    options: dict[str, Any] = {"others": repairers, "stores": (row,), "crashes": 0, "paused": True, "always": False}
    held(sweep(two(("put b", "tag b", "delete", "insert"), (5,), rules, **options)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("model", ["indexed", BARE])
def test_three_writers(model: str, record_property: Callable[[str, Any], None]) -> None:
    names = ("put b", "tag c at 10", "note", "delete", "insert")
    held(sweep(two(names, (12,), model=model, stores=EVERY_ROW, count=3, crashes=0)), record_property)
