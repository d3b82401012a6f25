"""Rules of index entries of rows without system cells broken on purpose; the checker must notice every one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.indexed.entries_first import with_entries_first
from hbmodel.protocol.operations import CheckLease, DeleteRows, Protocol, PutRows, ReadClock, Together
from hbmodel.protocol.writes import DeleteRow, RowWrite
from hbmodel.store import Delete
from tests.checker.protocol_mutants import Mutant
from tests.checker.protocol_plain import ENTRY, INDEX, Rules, models


def _rows_first(
    schema: TableSchema, indexes: Sequence[Index], writes: Sequence[RowWrite], protocol: Protocol[Any]
) -> Protocol[Any]:
    """Entries wait until the rows are put."""
    inner, held, answer = with_entries_first(schema, indexes, writes, protocol), [], None
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


def _entries_go_too(
    schema: TableSchema, indexes: Sequence[Index], writes: Sequence[RowWrite], protocol: Protocol[Any]
) -> Protocol[Any]:
    """A delete deletes the current entries of its row."""
    result = yield from with_entries_first(schema, indexes, writes, protocol)
    if isinstance(writes[0], DeleteRow):
        now = yield ReadClock()
        yield DeleteRows(INDEX.table, [Delete(ENTRY, timestamp=now)])
    return result


def _unhurried(
    schema: TableSchema, indexes: Sequence[Index], writes: Sequence[RowWrite], protocol: Protocol[Any]
) -> Protocol[Any]:
    """Nobody looks how long the rows took."""
    inner, answer = with_entries_first(schema, indexes, writes, protocol), None
    while True:
        try:
            operation = inner.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = True if isinstance(operation, CheckLease) else (yield operation)


def _few(rules: Rules) -> Iterable[Any]:
    return models(rules, (("add",), ("delete",)), (12,))


MUTANTS: Mapping[str, Mutant] = {
    name: Mutant(rules, _few, "MISSING")
    for name, rules in {
        "rows before their entries": Rules(_rows_first),
        "a delete takes the entries along": Rules(_entries_go_too),
        "a repairer waits for nobody": Rules(waits=False),
        "no look at the time before the acknowledgement": Rules(_unhurried, by_clock=True),
    }.items()
}
