"""Covering reads through every interleaving and crash of small configurations, and every rule of them broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import pytest

from tests.checker.protocol_covering import (
    INSERTS,
    MORTAL,
    PUTS,
    SHIPPED,
    builders,
    covering,
    readers,
    repairers,
    unkept,
)
from tests.checker.protocol_covering_mutants import MUTANTS
from tests.checker.protocol_sweeps import Configuration, Found, sweep

EVERY_ROW = ("live", "dead", "absent", "built before")


def held(found: Found, record: Callable[[str, Any], None]) -> None:
    """No violation; tells how many states there were."""
    record("states", found.states)
    print(f"{found.models} models, {found.states} states")
    assert found.states > found.models > 0
    assert found.error is None, str(found)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found(name: str) -> None:
    mutant = MUTANTS[name]
    found = sweep(mutant.where(mutant.rules))
    print(f"found after {found.models} models, {found.states} states: {found.error}")
    assert found.error is not None, f"the checker does not notice: {name}"
    assert found.error.startswith(mutant.violation), str(found)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", MUTANTS)
def test_the_shipped_code_holds_where_a_broken_rule_is_found(name: str, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(MUTANTS[name].where(SHIPPED)), record_property)


SAMPLES: dict[str, Callable[[], Iterable[Configuration]]] = {
    "versioned": lambda: covering("V", ("put b", "extra"), (12,), stores=EVERY_ROW),
    "versioned, several entries": lambda: covering("V2", ("put b", "note", "delete"), (12,), crashes=0),
    "puts of facts": lambda: chain(
        covering("I", ("put", "delete"), (12,), stores=EVERY_ROW), covering("I", ("put", "delete"), (12,), heal=True)
    ),
    "inserts of facts": lambda: covering("I", INSERTS, (12,), stores=("live", "absent")),
    "facts that expire": lambda: covering("I", ("expiring", "put", "delete"), (12,), expire=True),
    "queries": lambda: chain(
        covering("V", ("put b",), (12,), others=readers, crashes=0),
        covering("I", ("insert b", "delete"), (12,), others=readers, stores=("absent",)),
    ),
    "a repairer": lambda: chain(
        covering("V", ("put b", "extra"), (12,), others=repairers, count=1, stores=EVERY_ROW),
        covering("I", ("delete",), (12,), others=repairers, stores=("live", "built before"), crashes=0),
    ),
    "a build": lambda: chain(
        covering("V", ("put b", "extra", "delete"), (12,), others=builders, crashes=0),
        covering("I", ("put", "delete"), (12,), others=builders, crashes=0),
    ),
    "programs that do not keep the index yet": lambda: chain(unkept("V"), unkept("I")),
    "a write that takes too long": lambda: chain(
        covering("V", ("put b", "insert"), (12,), ordered=True, first={"slow": 1}),
        covering("I", INSERTS, (12,), stores=("absent",), ordered=True, first={"slow": 1}),
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_shipped_code_holds_in_a_sample(name: str, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(SAMPLES[name]()), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
@pytest.mark.parametrize("kind", ["V", "V2"])
@pytest.mark.parametrize("others", [readers, repairers, builders])
def test_two_writers_of_versioned_rows_beside_others(kind: str, others: Any, row: str, record_property: Callable[[str, Any], None]) -> None:
    names = ("put b", "extra", "note", "delete", "insert")
    held(sweep(covering(kind, names, (5, 12), stores=(row,), others=others)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
@pytest.mark.parametrize("names", [PUTS, INSERTS])
@pytest.mark.parametrize("others", [readers, repairers, builders])
def test_two_writers_of_facts_beside_others(names: Any, others: Any, row: str, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(covering("I", names, (5, 12), stores=(row,), others=others)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
@pytest.mark.parametrize("kind", ["I", "V", "V2"])
def test_two_writers_two_crashes_and_a_compaction(kind: str, row: str, record_property: Callable[[str, Any], None]) -> None:
    for names in (PUTS, INSERTS) if kind == "I" else (None,):
        held(sweep(covering(kind, names, (11, 12), stores=(row,), crashes=2, compaction="any", heal=kind == "I")), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
@pytest.mark.parametrize("what", ["repeat", "again"])
@pytest.mark.parametrize("kind", ["I", "V"])
def test_a_call_that_is_carried_out_twice(kind: str, what: str, row: str, record_property: Callable[[str, Any], None]) -> None:
    names = ("put", "delete", "insert b") if kind == "I" else ("put b", "extra", "delete", "insert")
    configurations = (
        covering(kind, names, (5, 12), stores=(row,), ordered=True, crashes=0, compaction="grace", first={what: at}) for at in range(6)
    )
    held(sweep(chain.from_iterable(configurations)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
def test_facts_that_expire(row: str, record_property: Callable[[str, Any], None]) -> None:
    for others in (repairers, builders, readers):
        held(sweep(covering("I", MORTAL, (12,), stores=(row,), others=others, expire=True, crashes=0)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["I", "V"])
def test_three_writers(kind: str, record_property: Callable[[str, Any], None]) -> None:
    names = ("put", "delete") if kind == "I" else ("put b", "extra", "delete", "insert")
    held(sweep(covering(kind, names, (11, 12), stores=EVERY_ROW, count=3, crashes=0)), record_property)
