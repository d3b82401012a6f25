"""Writes rows with index entries and without system cells, as a sans-IO generator: first the entries, then the rows.

The rows are written as in a model without indexes. A row never changes, so its entries cannot become wrong, but an
entry can be superfluous because its row was never put, was deleted, or has expired. Only a repair deletes superfluous
entries. A program that deletes a row cannot also delete its entries: the server sets the timestamps of rows, so the
program could not distinguish these entries from the entries of a later put of the same key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from hbmodel.errors import SchemaMismatch
from hbmodel.mapping.model_field import NO_CELL
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.indexed.index_build import ADOPTED
from hbmodel.protocol.indexed.indexed_batch import by_table
from hbmodel.protocol.operations import Acknowledge, CheckLease, Operation, Protocol, PutRows, ReadClock, Together
from hbmodel.protocol.writes import PutObject, RowWrite
from hbmodel.store.values import Put

R = TypeVar("R")


def with_entries_first(
    schema: TableSchema,
    indexes: Sequence[Index],
    writes: Sequence[RowWrite],
    protocol: Protocol[R],
    placed: list[R] | None = None,
) -> Protocol[R]:
    """Puts the entries of objects, runs the protocol that puts their rows, and acknowledges.

    If the protocol took too long, a repair may have deleted the entries as orphans. In this case the entries are put
    again before the acknowledgement.

    Args:
        indexes: the indexes to maintain, each with its live table.
        protocol: the protocol of a model without indexes; its acknowledgement is held back.
        placed: receives the result of the protocol; after that, only entries remain to be put.
    """
    objects = [write for write in writes if isinstance(write, PutObject)]
    now = yield ReadClock()
    yield from _put_entries(schema, indexes, objects, now)
    acknowledged: Operation | None = None
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            result: R = stop.value
            if placed is not None:
                placed.append(result)
            break
        answer = None
        if isinstance(operation, Acknowledge):
            acknowledged = operation
        else:
            try:
                answer = yield operation
            except SchemaMismatch as error:
                protocol.throw(error)
                raise
    while objects and not (yield CheckLease(now)):
        now = yield ReadClock()
        yield from _put_entries(schema, indexes, objects, now)
    if acknowledged is not None:
        yield acknowledged
    return result


def _put_entries(
    schema: TableSchema, indexes: Sequence[Index], objects: Sequence[PutObject], timestamp: int
) -> Protocol[None]:
    puts: list[tuple[str, Put]] = []
    for write in objects:
        for index in indexes:
            cells = {schema.version_column: ADOPTED}
            covered = {(column := schema.by_name[name].column): write.cells[column] for name in index.covers}
            cells |= {column: value for column, value in covered.items() if value is not NO_CELL}
            puts += [(index.table, Put(entry, cells, timestamp)) for entry in write.entries[index.name]]
    if puts:
        yield Together([PutRows(table, of_table) for table, of_table in by_table(puts).items()])
