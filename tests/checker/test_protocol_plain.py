"""Index entries of rows without system cells through every interleaving and crash, and every rule broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import pytest

from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.operations import CheckLease, DeleteRows, Protocol, PutRows, ReadClock, Together
from hbmodel.protocol.plain_write import behind_entries
from hbmodel.protocol.writes import DeleteRow, RowWrite
from hbmodel.store import Delete
from tests.checker.protocol_plain import ENTRY, SCHEMA, SHIPPED, Rules, models


def run(rules: Rules, every: int = 1, **options: Any) -> tuple[int, str | None]:
    """States, and the first violation."""
    states = 0
    for name, model in islice(models(rules, **options), 0, None, every):
        found = model.run()
        states += found["states"]
        if found["ok"] is not True:
            return states, "\n".join([str(found["error"]), name, *found.get("trace", ())])
    return states, None


BY_CLOCK = Rules(by_clock=True)


@pytest.mark.parametrize("rules", [SHIPPED, BY_CLOCK], ids=["graceful", "stands still"])
def test_a_row_of_ours_has_its_entry_in_a_sample(rules: Rules, record_property: Callable[[str, Any], None]) -> None:
    states, error = run(rules, 61 if rules is SHIPPED else 211)
    record_property("states", states)
    assert error is None, error
    assert states > 1_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rules", [SHIPPED, BY_CLOCK], ids=["graceful", "stands still"])
def test_a_row_of_ours_has_its_entry(rules: Rules, record_property: Callable[[str, Any], None]) -> None:
    states, error = run(rules)
    record_property("states", states)
    print(f"{states} states")
    assert error is None, error


def _rows_first(schema: TableSchema, indexes: Sequence[Index], writes: Sequence[RowWrite], protocol: Protocol[Any]) -> Protocol[Any]:
    """Entries wait until the rows are put."""
    inner, held, answer = behind_entries(schema, indexes, writes, protocol), [], None
    while True:
        try:
            operation = inner.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = None
        if isinstance(operation, Together):
            held.append(operation)
            continue
        answer = yield operation
        if isinstance(operation, PutRows) or answer is True:
            while held:
                yield held.pop()


def _entries_go_too(schema: TableSchema, indexes: Sequence[Index], writes: Sequence[RowWrite], protocol: Protocol[Any]) -> Protocol[Any]:
    """A delete deletes the entries of its row, as they are now."""
    result = yield from behind_entries(schema, indexes, writes, protocol)
    if isinstance(writes[0], DeleteRow):
        now = yield ReadClock()
        yield DeleteRows(f"{SCHEMA.table}.by_tag", [Delete(ENTRY, timestamp=now)])
    return result


def _unhurried(schema: TableSchema, indexes: Sequence[Index], writes: Sequence[RowWrite], protocol: Protocol[Any]) -> Protocol[Any]:
    """Nobody looks how long the rows took."""
    inner, answer = behind_entries(schema, indexes, writes, protocol), None
    while True:
        try:
            operation = inner.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = True if isinstance(operation, CheckLease) else (yield operation)


MUTANTS: Mapping[str, Rules] = {
    "rows before their entries": Rules(_rows_first),
    "a delete takes the entries along": Rules(_entries_go_too),
    "a repairer waits for nobody": Rules(waits=False),
    "no look at the time before the acknowledgement": Rules(_unhurried, by_clock=True),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found(name: str) -> None:
    states, error = run(MUTANTS[name], programs=(("add",), ("delete",)), clocks=(12,))
    print(f"{states} states: {error}")
    assert error is not None, f"the checker does not notice: {name}"
    assert error.startswith("MISSING")
    held = Rules(by_clock=MUTANTS[name].by_clock)
    assert run(held, programs=(("add",), ("delete",)), clocks=(12,))[1] is None
