"""Puts an object of a model without live indexes if its key is free, as a sans-IO generator."""

from __future__ import annotations

from hbmodel.errors import RowExists, UnknownOutcome
from hbmodel.mapping.schema import COUNTER_ZERO
from hbmodel.protocol.corrected_clock import GRACE
from hbmodel.protocol.future_cells import check_shown, counters_above
from hbmodel.protocol.operations import (
    AwaitClock,
    CheckAndMutate,
    CheckAndPut,
    DeleteRows,
    GetRows,
    Protocol,
    ReadClock,
)
from hbmodel.protocol.server_timed.flag_claim import abandoned_claim
from hbmodel.protocol.server_timed.unindexed_batch import UnindexedRowPlan
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.ttl_timestamps import MOVED, OWN, STAMP_LIFE, StampedRow, unstamped
from hbmodel.protocol.writes import Outcome, PutObject
from hbmodel.store.values import Delete, Put, Row


def insert_unindexed(
    planner: UnindexedRowPlanner,
    write: PutObject,
    column: bytes,
    bound: int,
    grace: int = GRACE,
    *,
    one_cell: bool = False,
) -> Protocol[Outcome]:
    """Puts an object if `column`, which is never empty in a row, is absent. Otherwise raises `RowExists`.

    Every column is written, including counters and columns with None, because an update or an increment may have left
    cells of a deleted row. A delete of the same millisecond hides the put, so the row is read once more. A mark, which
    is a cell that soon expires, shows which insert put the row, or that the row has been moved to another key. If the
    read does not find the row that was put, the row is not put again: this could bring back a row that another program
    has seen and deleted.

    Args:
        grace: G, the age in ms at which this insert may take over the claim of another insert.
        one_cell: whether the row is a single cell, put by check-and-put, for stores that can do no more.

    Raises:
        RowExists: the key is taken or claimed; nothing was put.
        UnknownOutcome: the row was put, but has been hidden, deleted or replaced since.
    """
    schema = planner.schema
    stamped: StampedRow | None = None
    claim: bytes | None = None
    if schema.external and not planner.marking:
        yield from check_free(planner, write)
    while True:
        checked: tuple[bytes, bytes | None] = (column, claim)
        if planner.marking:
            checked = yield from _free(planner, write, column)
        if write.ttl is None:
            plan = whole_row(planner, write)
        else:
            stamped = (yield from planner.stamped([write.row], bound))[write.row]
            plan = planner.plan(write, stamped)
            if plan.outcome.error is not None:
                raise plan.outcome.error
        assert plan.put is not None
        counters = yield from counters_over(planner, plan.put, column, bound)
        mark: bytes | None = None
        columns_read = planner.columns
        if one_cell:
            then = GetRows(schema.table, [write.row], columns_read)
            went_through = yield CheckAndPut(schema.table, write.row, column, b"", plan.put, then)
        else:
            # The mark distinguishes the row from a row that another insert has put. There is no place for a mark if an
            # object is one cell with an empty qualifier. In a table that other programs write, only the model's own
            # cells are put.
            markable = not schema.external and (schema.wide_rows is None or not schema.wide_rows.bare)
            mark = schema.stamp_prefix + planner.draw() if markable else None
            marks = (
                []
                if mark is None
                else [Put(write.row, {mark: OWN}, plan.put.timestamp, min(STAMP_LIFE, plan.put.ttl or STAMP_LIFE))]
            )
            if mark is not None and columns_read != schema.family_names:
                columns_read = (*columns_read, mark)
            then = GetRows(schema.table, [write.row], columns_read)
            mutations = [*plan.joined, *counters, *marks]
            went_through = yield CheckAndMutate(schema.table, write.row, *checked, mutations, then)
        if not went_through:
            if stamped is not None:
                yield DeleteRows(schema.table, [unstamped(stamped)])
            if planner.marking:
                continue
            if column == schema.exists_column:
                (row,) = yield GetRows(schema.table, [write.row], (column,))
                claim = yield from abandoned_claim(
                    schema.table, write.row, None if row is None else row.columns.get(column), grace
                )
                continue
            raise RowExists(
                "A row with this key exists already: use another key, or change the row with update().",
                table=schema.table,
                key=write.row,
            )
        (row,) = yield then
        there = row is not None and column in row.columns
        if row is not None and there:
            yield from check_shown(schema, row, plan.put, plan.blanks)
        if row is not None and (
            _landed(row, there, mark)
            if mark is not None
            else there and shows(row, plan.put, {column} & {schema.exists_column})
        ):
            if stamped is not None and stamped.ahead:
                yield AwaitClock(stamped.timestamp)
            return plan.outcome
        raise UnknownOutcome(
            "The row was put, but reading it back did not show it: a delete of the same millisecond hides it, or "
            "another program has deleted or overwritten it since. It is not put again: read the key.",
            table=schema.table,
            key=write.row,
        )


def _landed(row: Row, there: bool, mark: bytes) -> bool:
    """Returns whether a row shows that it was put with the mark `mark`: it exists with that mark, or has moved to
    another key since.
    """
    mark_cell = row.columns.get(mark)
    return mark_cell is not None and (there or mark_cell.value == MOVED)


def _free(planner: UnindexedRowPlanner, write: PutObject, column: bytes) -> Protocol[tuple[bytes, bytes | None]]:
    """Returns the column to check and its expected value. These are the column and the value of the dead marker, if
    there is one.

    Raises `RowExists` if the key is not free.
    """
    row = yield from check_free(planner, write)
    marker = None if row is None else row.columns.get(planner.schema.liveness_column)
    return (column, None) if marker is None else (planner.schema.liveness_column, marker.value)


def check_free(planner: UnindexedRowPlanner, write: PutObject) -> Protocol[Row | None]:
    """Returns the cells of a row that is not an object. Raises `RowExists` if the row is an object.

    In an external table, checking a single cell does not find every object. The row may have only cells of other
    programs, or an empty cell, which HBase's check cannot distinguish from an absent cell.
    """
    row: Row | None
    (row,) = yield GetRows(planner.schema.table, [write.row], planner.columns)
    if row is not None and planner.reader.exists(row):
        raise RowExists(
            "A row with this key exists already: use another key, or change the row with update().",
            table=planner.schema.table,
            key=write.row,
        )
    return row


def counters_over(planner: UnindexedRowPlanner, put: Put, column: bytes, bound: int) -> Protocol[list[Put]]:
    """Returns puts of counters, with timestamps above those of the counter cells that are left in a row without an
    object.

    The cells that are left may be ahead of the server's clock.

    Args:
        column: a column that, if there is no object, is absent or shows that the key is claimed.

    Raises:
        ClockError: a counter is further ahead than the bound.
    """
    schema = planner.schema
    if not schema.counter_columns:
        return []
    current: Row | None
    (current,) = yield GetRows(schema.table, [put.row], sorted({column, *schema.counter_columns}))
    if current is None or schema.counter_columns.isdisjoint(current.columns):
        return []
    cell = current.columns.get(column)
    if cell is not None and not (column == schema.exists_column and not schema.is_flag(cell.value)):
        return []  # there is an object
    return counters_above(schema, put.row, current.columns, put.cells, (yield ReadClock()), bound)


def whole_row(planner: UnindexedRowPlanner, write: PutObject) -> UnindexedRowPlan:
    """Returns the plan that writes every column, without a TTL, so that no cells of a deleted row stay visible."""
    schema = planner.schema
    cells = {**dict.fromkeys(sorted(schema.counter_columns), COUNTER_ZERO), **planner.cells(write)}
    stored, nulls = planner.without_gone(cells)
    deletes = [Delete(write.row, columns=nulls)] if nulls else []
    return UnindexedRowPlan(Outcome("put", write.row), Put(write.row, stored), deletes, nulls, bare=planner.bare)


def shows(row: Row, put: Put, flag: set[bytes]) -> bool:
    """Returns whether the row has any value that the put writes. The flag and counters of zero are considered only if
    the put writes nothing else.
    """
    shown = {
        column: value for column, value in put.cells.items() if column not in flag and value != COUNTER_ZERO
    } or put.cells
    return any(column in row.columns and row.columns[column].value == value for column, value in shown.items())
