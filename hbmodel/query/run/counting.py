"""Counts the items of a plan.

If the keys are enough to find out which rows are objects, only keys are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.mapping.rows.row_check import checks_rows
from hbmodel.query.run.executor import GET_CHUNK, PlanExecutor
from hbmodel.store.filters import KeyOnly
from hbmodel.store.wide.object_filters import COUNTED


def count_items(executor: PlanExecutor) -> int:
    """Returns the number of items of the executor's plan. If keys are enough to count the items, only keys are read."""
    plan, reader = executor.plan, executor.plan.reader
    adopted = reader.adopting and (reader.indexed or checks_rows(reader.schema))
    checked = plan.accepts is not None or plan.path.salt.random or adopted
    if plan.path.index is not None or plan.rows is not None or checked:
        return sum(1 for _ in executor.items())
    exists = reader.exists
    if reader.schema.exists_column in reader.anchors:  # its value shows whether an insert has only claimed the row
        return sum(sum(map(exists, batch)) for batch in executor.one_by_one(plan.buckets, plan.filter, reader.columns))
    if reader.schema.external and reader.schema.wide is None and not reader.indexed:
        return _count_external(executor)
    batches = executor.one_by_one(plan.buckets, plan.filter, reader.columns)
    if plan.filter == COUNTED:
        return sum(map(len, batches))
    return sum(sum(map(exists, batch)) for batch in batches)


def _count_external(executor: PlanExecutor) -> int:
    """Returns the number of objects in an external table. Usually the first cell of a row is enough to decide whether
    it is an object.
    """
    plan, reader = executor.plan, executor.plan.reader
    if plan.filter not in {None, KeyOnly()} or not reader.whole_families:
        cells = KeyOnly() if plan.filter is None else plan.filter
        return sum(sum(map(reader.exists, batch)) for batch in executor.one_by_one(plan.buckets, cells, reader.columns))
    count = 0
    for batch in executor.one_by_one(plan.buckets, COUNTED, reader.columns):
        doubtful = [row.row for row in batch if not reader.exists(row)]  # the first cell is a system cell
        count += len(batch) - len(doubtful) + _objects_of(executor, doubtful)
    return count


def _objects_of(executor: PlanExecutor, rows: Sequence[bytes]) -> int:
    """Returns the number of objects among these rows, which are read again with their values."""
    reader, table, count = executor.plan.reader, executor.plan.path.table, 0
    for start in range(0, len(rows), GET_CHUNK):
        rows_read = executor.store.get(table, rows[start : start + GET_CHUNK], reader.columns)
        executor.check()
        count += sum(row is not None and reader.exists(row) for row in rows_read)
    return count
