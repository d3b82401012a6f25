"""Puts cells into rows of external tables without reading the rows, for `Session.put`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hbmodel.errors import SchemaMismatch, StoreUnavailable, UnknownOutcome
from hbmodel.mapping.model_field import NO_CELL
from hbmodel.mapping.rows.cells_of_update import cells_of_changes
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.operations import Operation, Protocol
from hbmodel.protocol.server_timed.unindexed_batch import UnindexedRowPlan, carry_out
from hbmodel.protocol.writes import Outcome, UpdateFields
from hbmodel.session.calls.insert import Inserter
from hbmodel.session.commit.batch_runner import RESTARTS
from hbmodel.store.values import Delete, Put
from hbmodel.tables.registry.nullable_columns import BindingWithoutNone


def put_cells(by: Inserter, schema: TableSchema, updates: Sequence[UpdateFields]) -> None:
    """Puts the cells of the new values, and deletes the cells of fields that become None. Each row occurs at most once.

    Raises:
        SchemaMismatch: the table keeps changing.
        UnknownOutcome: the store became unreachable after something was sent.
    """
    plans = [_plan(schema, update) for update in updates]
    done: list[Operation] = []
    for _ in range(RESTARTS):
        binding = by.bind(schema)
        binding.check_writable()
        if isinstance(binding, BindingWithoutNone):
            binding.check_values(updates)
        protocol = _noted(carry_out(schema.table, plans, by.store.capabilities), done)
        try:
            by.sending.drive(by.store, protocol, by.clock, by.gate(binding))
        except SchemaMismatch:
            continue
        except StoreUnavailable as error:
            if not done:
                raise
            raise UnknownOutcome(
                "The new values are put, but the cells of fields that are None may not be deleted yet: put the same "
                "fields again.",
                **error.details,
            ) from error
        return
    raise SchemaMismatch("The indexes of the table keep changing: put again.", table=schema.table)


def _noted(protocol: Protocol[None], done: list[Operation]) -> Protocol[None]:
    """Runs a protocol, and appends each operation that was carried out to `done`."""
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration:
            return
        answer = yield operation
        done.append(operation)


def _plan(schema: TableSchema, update: UpdateFields) -> UnindexedRowPlan:
    cells = cells_of_changes(schema, update.changes)
    blanks = [column for column, value in cells.items() if value is NO_CELL]
    kept = {column: value for column, value in cells.items() if value is not NO_CELL}
    return UnindexedRowPlan(
        Outcome("put", update.row),
        Put(update.row, kept) if kept else None,
        [Delete(update.row, columns=tuple(blanks))] if blanks else (),
        blanks=blanks,
        bare=frozenset(blanks),
    )
