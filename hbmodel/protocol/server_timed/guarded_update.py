"""Carries out updates under the condition that their rows still exist, as a sans-IO generator.

Some cells make a row exist even if it has no other cells. An update must not put such a cell into a row that was
deleted since the update read it. So the update is conditional on a cell of the row that every delete removes: this cell
must still have the value that was read. If it has another value, the row is read again. An update never deletes the
cells that it has put, because cells do not show which program has put them.

If possible, the condition is on a cell that the update does not change. On HBase's Thrift1 gateway, each cell is put by
a separate conditional call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from attrs import frozen

from hbmodel.errors import CapabilityError
from hbmodel.mapping.schema import FLAG, TableSchema
from hbmodel.protocol.operations import (
    CheckAndMutate,
    CheckAndMutateRows,
    CheckAndPut,
    CheckAndPutRows,
    DeleteRows,
    GetRows,
    Protocol,
)
from hbmodel.protocol.server_timed.unindexed_batch import UnindexedRowPlan, carry_out
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.ttl_timestamps import StampedRow, unstamped
from hbmodel.protocol.writes import Outcome, PutObject, UpdateFields
from hbmodel.store.port import Capabilities
from hbmodel.store.values import ConditionalChange, ConditionalPut, Put, Row

Planned = Mapping[bytes, tuple[UnindexedRowPlan, Row | None]]
"""The plan of each update, and the row from which it was planned, by row key."""


@frozen
class _Guarded:
    """An update, and the cell that shows that its row exists. If the row was read for a put of the whole row, `stamped`
    is the result of that read.
    """

    write: UpdateFields | PutObject
    plan: UnindexedRowPlan
    column: bytes
    expected: bytes
    stamped: StampedRow | None


def update_guarded(
    planner: UnindexedRowPlanner,
    writes: Sequence[UpdateFields | PutObject],
    planned: Planned,
    bound: int,
    can: Capabilities,
    together: Set[bytes] = frozenset(),
) -> Protocol[dict[bytes, UnindexedRowPlan]]:
    """Carries out updates, each under the condition that its row still exists. Returns the final plan of each update.

    A row that expires is put again as a whole. If the store can change rows under a condition, the condition is that
    the row has not been replaced since it was read. An object that is put with a TTL over such a row is put under the
    same condition.

    Args:
        writes: updates, and puts with a TTL; at most one per row.
        together: rows whose conditional changes may be combined with other changes.
    """
    table = planner.schema.table
    plans: dict[bytes, UnindexedRowPlan] = {}
    left = [(write, *planned[write.row]) for write in writes]
    while left:
        free: list[UnindexedRowPlan] = []
        guarded: list[_Guarded] = []
        for write, plan, row in left:
            if row is None or plan.outcome.error is not None:
                free.append(plan)
                continue
            expires = plan.put is not None and plan.put.ttl is not None
            known = isinstance(write, UpdateFields) or planner.schema.expiry_column in row.columns
            if expires and not (known and can.check_and_mutate and write.row not in together):
                free.append(plan)  # its put has a lower timestamp than any later delete of the row
                continue
            guard = _guard_of_whole(planner, row) if expires else _guard(planner, row, plan, can)
            if isinstance(guard, UnindexedRowPlan):
                free.append(guard)
            else:
                guarded.append(_Guarded(write, plan, *guard, row if isinstance(row, StampedRow) else None))
        yield from carry_out(table, free, can)
        plans |= {plan.outcome.key: plan for plan in free}
        refused: list[UpdateFields | PutObject] = []
        if can.check_and_mutate:
            applied = yield from _change(planner, guarded, together)
        else:
            applied = yield from _put_cell_by_cell(planner, guarded)
        for update, went_through in zip(guarded, applied, strict=True):
            if went_through:
                plans[update.write.row] = update.plan
            else:
                refused.append(update.write)
        left_over = [update.stamped for update, done in zip(guarded, applied, strict=True) if not done]
        if stamps := [unstamped(stamped) for stamped in left_over if stamped is not None]:
            yield DeleteRows(table, stamps)
        left = yield from _planned_again(planner, refused, bound)
    were_there = {write.row for write in writes if (row := planned[write.row][1]) is not None and row.columns}
    put = [row for row, plan in plans.items() if plan.put is not None and row in were_there]
    if put and planner.outlives:  # a row that has been put again with a TTL may hold the value that was checked
        ends: Sequence[Row | None] = yield _read_ends(planner, put)
        if expiring := [row.row for row in ends if row is not None]:
            yield from keep_together(planner, (yield GetRows(table, expiring, planner.columns)), bound, can)
    return plans


def _change(
    planner: UnindexedRowPlanner, guarded: Sequence[_Guarded], together: Set[bytes]
) -> Protocol[Sequence[bool | None]]:
    if not guarded:
        return []
    table = planner.schema.table
    changes = [
        ConditionalChange(update.write.row, update.column, update.expected, update.plan.joined) for update in guarded
    ]
    if len(changes) == 1 and changes[0].row not in together:
        (change,) = changes
        then = _read_ends(planner, [change.row]) if planner.outlives else None
        return [(yield CheckAndMutate(table, change.row, change.column, change.expected, change.mutations, then))]
    applied: Sequence[bool | None] = yield CheckAndMutateRows(table, changes)
    return applied


def _read_ends(planner: UnindexedRowPlanner, rows: Sequence[bytes]) -> GetRows:
    """Returns the read of the times at which rows expire. It finds only rows that expire."""
    return GetRows(planner.schema.table, rows, (planner.schema.expiry_column,))


def _put_cell_by_cell(planner: UnindexedRowPlanner, guarded: Sequence[_Guarded]) -> Protocol[list[bool]]:
    """Puts the cells of updates one by one, each under the condition. Returns for each row whether all its cells were
    put.

    Each step puts the next cell of every row. A row whose condition does not hold gets no further cell, and no delete.
    Cells that are None are deleted last.

    A reader may see some of the new values before others. If the program crashes, the others may never be put.
    """
    puts = [_conditional_puts(planner, update) for update in guarded]
    refused: set[int] = set()
    for number in range(max(map(len, puts), default=0)):
        going = [at for at, of_row in enumerate(puts) if number < len(of_row) and at not in refused]
        last = len(puts) == 1 and number == len(puts[0]) - 1 and not guarded[0].plan.deletes
        then = _read_ends(planner, [guarded[0].write.row]) if last and planner.outlives else None
        applied = yield from _put_each(planner.schema.table, [puts[at][number] for at in going], then)
        refused.update(at for at, went_through in zip(going, applied, strict=True) if not went_through)
    if deletes := [delete for at, update in enumerate(guarded) if at not in refused for delete in update.plan.deletes]:
        yield DeleteRows(planner.schema.table, deletes)
    return [at not in refused for at in range(len(guarded))]


def _put_each(table: str, puts: Sequence[ConditionalPut], then: GetRows | None) -> Protocol[Sequence[bool]]:
    if len(puts) == 1:
        (one,) = puts
        return [(yield CheckAndPut(table, one.put.row, one.column, one.expected or b"", one.put, then))]
    applied: Sequence[bool] = (yield CheckAndPutRows(table, puts)) if puts else []
    return applied


def _conditional_puts(planner: UnindexedRowPlanner, update: _Guarded) -> list[ConditionalPut]:
    """Returns the puts of an update's cells in their order, each with a condition that is satisfied if all earlier puts
    were applied.
    """
    schema, put, row = planner.schema, update.plan.put, update.write.row
    column, expected = update.column, update.expected
    cells = {} if put is None else dict(put.cells)
    flag = schema.spare_flag_column
    if flag is not None and update.plan.blanks and not schema.required_columns:
        # The deletes are unconditional, so each of two programs may delete the cell that the other program keeps. The
        # flag shows that the row still exists.
        cells[flag] = FLAG
    proving = {flag, *schema.proving_columns}
    puts: list[ConditionalPut] = []
    for name in sorted(cells, key=lambda name: (name != flag, not cells[name], name == column)):
        puts.append(ConditionalPut(column, expected, Put(row, {name: cells[name]})))
        if name in proving and cells[name]:  # the cell checked so far may become empty
            column, expected = name, cells[name]
    return puts


def _guard(
    planner: UnindexedRowPlanner, row: Row, plan: UnindexedRowPlan, can: Capabilities
) -> tuple[bytes, bytes] | UnindexedRowPlan:
    """Returns the column to check and its value, or a failed plan if no column can be checked."""
    schema = planner.schema
    changed = {} if plan.put is None else plan.put.cells
    if plan.blanks and schema.external and not (can.mutate_row or schema.required_columns or schema.exists_column):
        return _failed(schema, row, _CLEARS)
    candidates = [column for column in _guards(planner, row) if row.columns[column].value]
    if not any(map(changed.get, (schema.spare_flag_column or b"", *schema.proving_columns))):
        # Two concurrent updates could each empty the only cell that the other one does not change, and the row would no
        # longer be an object. So each update checks a cell that it does not change.
        candidates = [column for column in candidates if column not in plan.blanks and column not in changed]
    column = min(candidates, key=lambda column: column in changed, default=None)
    return _failed(schema, row, _ALL_EMPTY) if column is None else (column, row.columns[column].value)


def _guard_of_whole(planner: UnindexedRowPlanner, row: Row) -> tuple[bytes, bytes] | UnindexedRowPlan:
    """Returns the column to check and its value, or a failed plan, for a whole row that is put again with a TTL.

    It does not matter which cells of the row become empty, because the whole row is put.
    """
    # programs that set the version cell change it with each write
    version = [planner.schema.version_column] if planner.marking else []
    columns = [planner.schema.expiry_column, *version, *_guards(planner, row)]
    filled = [
        (column, row.columns[column].value) for column in columns if column in row.columns and row.columns[column].value
    ]
    return filled[0] if filled else _failed(planner.schema, row, _ALL_EMPTY)


def _guards(planner: UnindexedRowPlanner, row: Row) -> list[bytes]:
    """Returns the columns of a row whose cells show that it exists, the columns that change least often first."""
    schema = planner.schema
    counters = {f.column for f in schema.columns if f.kind == "counter"}
    columns = [schema.exists_column, schema.spare_flag_column]
    if schema.exists_column is None:
        columns += sorted(schema.proving_columns, key=counters.__contains__)
    if schema.any_cell_shows:  # any cell shows that the row exists, including cells of other programs
        columns += sorted(column for column in row.columns if column not in columns and not schema.is_system(column))
    return [column for column in columns if column is not None and column in row.columns]


_ALL_EMPTY = (
    "The update must check that the row still exists, but no cell can show this: it would have to be non-empty both "
    "before and after the update. Put the whole object with add()."
)

_CLEARS = (
    "Through a Thrift1 gateway, no column of an external table can be updated to None unless the model has a required "
    "column: the row could be left without any cell. Use an hbase+thrift2: store, or delete the object."
)


def _failed(schema: TableSchema, row: Row, message: str) -> UnindexedRowPlan:
    return UnindexedRowPlan(Outcome("failed", row.row, error=CapabilityError(message, table=schema.table, key=row.row)))


def _planned_again(
    planner: UnindexedRowPlanner, writes: Sequence[UpdateFields | PutObject], bound: int
) -> Protocol[list[tuple[UpdateFields | PutObject, UnindexedRowPlan, Row | None]]]:
    """Returns the updates whose rows have changed since they were read, planned again for the current rows."""
    if not writes:
        return []
    rows_read: Sequence[Row | None] = yield GetRows(
        planner.schema.table, [write.row for write in writes], planner.columns
    )
    rows: dict[bytes, Row | None] = {write.row: row for write, row in zip(writes, rows_read, strict=True)}
    rows |= yield from planner.read_expiring(writes, rows, bound)
    return [(write, planner.plan(write, rows[write.row]), rows[write.row]) for write in writes]


def keep_together(
    planner: UnindexedRowPlanner, rows_read: Iterable[Row | None], bound: int, can: Capabilities
) -> Protocol[None]:
    """Puts expiring rows again if updates have put cells over them that would outlive them, so that all cells of a row
    expire together. The rows must just have been read, with every column.
    """
    while loose := [row.row for row in rows_read if row is not None and planner.loose(row)]:
        stamped = yield from planner.stamped(loose, bound)
        yield from carry_out(planner.schema.table, [planner.renewed(row) for row in stamped.values()], can)
        rows_read = yield GetRows(planner.schema.table, loose, planner.columns)
