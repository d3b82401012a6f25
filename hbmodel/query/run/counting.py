"""Counts the items of a plan.

Only keys are read if they show which rows are objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.mapping.rows.row_check import checks_rows
from hbmodel.query.run.executor import GET_CHUNK, PlanExecutor
from hbmodel.store.filters import And, FirstCellOnly, KeyOnly
from hbmodel.store.values import Row


def count_items(executor: PlanExecutor) -> int:
    """The number of items of the executor's plan; reads only keys, if nothing else is needed."""
    plan, reader = executor.plan, executor.plan.reader
    checking = checks_rows(reader.schema)
    checked = plan.accepts is not None or plan.path.salt.random or (reader.adopting and (reader.indexed or checking))
    if plan.path.index is not None or plan.rows is not None or checked:
        return sum(1 for _ in executor.items())
    exists = reader.exists
    if reader.schema.exists_column in reader.anchors:  # its value says whether an insert has only claimed the row
        return sum(sum(map(exists, batch)) for batch in executor.one_by_one(plan.buckets, plan.filter, reader.columns))
    if reader.schema.external and reader.schema.wide is None and not reader.indexed:
        return _count_external(executor)
    if checking:
        cells = KeyOnly() if plan.filter is None else plan.filter
        return sum(sum(map(exists, batch)) for batch in executor.one_by_one(plan.buckets, cells, reader.columns))
    if plan.filter is not None:
        # The filter needs the values of the columns that it looks at.
        return sum(map(len, executor.one_by_one(plan.buckets, plan.filter, reader.columns)))
    if reader.adopting:
        return sum(_live(executor, batch) for batch in executor.one_by_one(plan.buckets, KeyOnly(), reader.columns))
    if not reader.anchors:  # a row may have only system cells
        return sum(sum(map(exists, batch)) for batch in executor.one_by_one(plan.buckets, KeyOnly(), reader.columns))
    return sum(map(len, executor.one_by_one(plan.buckets, And((FirstCellOnly(), KeyOnly())), reader.columns)))


def _count_external(executor: PlanExecutor) -> int:
    """The number of rows of other programs that are objects; mostly the first cell of a row shows it."""
    plan, reader = executor.plan, executor.plan.reader
    if plan.filter is not None or not reader.whole_families:
        cells = KeyOnly() if plan.filter is None else plan.filter
        return sum(sum(map(reader.exists, batch)) for batch in executor.one_by_one(plan.buckets, cells, reader.columns))
    count, first = 0, And((FirstCellOnly(), KeyOnly()))
    for batch in executor.one_by_one(plan.buckets, first, reader.columns):
        doubtful = [row.row for row in batch if not reader.exists(row)]  # a system cell comes first
        count += len(batch) - len(doubtful) + _objects_of(executor, doubtful)
    return count


def _live(executor: PlanExecutor, keys: Sequence[Row]) -> int:
    """The number of objects among rows that were read without values. The few with a liveness cell are read again."""
    reader = executor.plan.reader
    liveness = reader.schema.liveness_column
    marked = [row.row for row in keys if liveness in row.columns]
    if not marked:
        return len(keys) if reader.anchors else sum(map(reader.exists, keys))
    return sum(reader.exists(row) for row in keys if liveness not in row.columns) + _objects_of(executor, marked)


def _objects_of(executor: PlanExecutor, rows: Sequence[bytes]) -> int:
    """The number of objects among rows that are read again, with their values."""
    reader, table, count = executor.plan.reader, executor.plan.path.table, 0
    for start in range(0, len(rows), GET_CHUNK):
        rows_read = executor.store.get(table, rows[start : start + GET_CHUNK], reader.columns)
        executor.check()
        count += sum(row is not None and reader.exists(row) for row in rows_read)
    return count
