"""The mutations of a batch of writes, grouped by phase and table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from attrs import frozen

from hbmodel.mapping.rows.covering import unverified
from hbmodel.mapping.version_cell import LAST_WRITE_WINS
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner, RowPlan
from hbmodel.protocol.writes import Outcome, PutObject, without_nulls
from hbmodel.store.values import Delete, Put


@frozen(eq=False)
class BatchPlan:
    """The mutations of a batch of writes, in the order of the protocol's phases; see `RowPlan`.

    Attributes:
        entries: the puts of entries, by index table.
        row_deletes: the deletes in rows of the primary table.
        stale: the deletes of stale entries, each with its index table.
        outcomes: the outcomes, by position of the write.
        marks: the puts of marks, each with its index table.
    """

    entries: Mapping[str, Sequence[Put]]
    puts: Sequence[Put]
    row_deletes: Sequence[Delete]
    stale: Sequence[tuple[str, Delete]]
    outcomes: Sequence[Outcome]
    marks: Sequence[tuple[str, Put]] = ()

    @classmethod
    def of(cls, plans: Sequence[RowPlan]) -> BatchPlan:
        """Gathers the plans of single rows."""
        return cls(
            by_table(entry for plan in plans for entry in plan.entries),
            [plan.put for plan in plans if plan.put is not None],
            [plan.row_delete for plan in plans if plan.row_delete is not None],
            [delete for plan in plans for delete in plan.stale],
            [plan.outcome for plan in plans],
            [mark for plan in plans for mark in plan.marks],
        )

    @property
    def before_rows(self) -> Mapping[str, Sequence[Put]]:
        """All puts that must take effect before the rows are put: entries and marks, by index table."""
        if not self.marks:
            return self.entries
        return by_table(chain(((table, put) for table, puts in self.entries.items() for put in puts), self.marks))


def by_table(mutations: Iterable[tuple[str, Any]]) -> Mapping[str, list[Any]]:
    """Groups pairs of a table and a mutation by table."""
    gathered: dict[str, list[Any]] = defaultdict(list)
    for table, mutation in mutations:
        gathered[table].append(mutation)
    return gathered


def plan_unread(planner: IndexedRowPlanner, writes: Sequence[PutObject], now: int) -> BatchPlan:
    """Plans writes that need no old row (see `IndexedRowPlanner.needs_read`), in one pass over the writes.

    The result is the same as if each row were planned separately.
    """
    schema, nonce, version_column, marks = planner.schema, planner.nonce, planner.schema.version_column, planner.marks
    entries: dict[str, list[Put]] = defaultdict(list)
    status_column = schema.status_column
    places = [
        (
            entries[index.table].append,
            index.name,
            [schema.by_name[name].column for name in index.covers],
            index.table in planner.covering,
        )
        for index in planner.indexes
    ]
    puts: list[Put] = []
    absent = any(field.null == "delete" for field in planner.schema.columns)
    for write in writes:
        version = LAST_WRITE_WINS + nonce()
        cells, keys = write.cells, write.entries
        if absent:
            cells = without_nulls(cells, frozenset())
        for add, name, covers, has_status in places:
            covered = {column: cells[column] for column in covers} if covers else {}
            covered[version_column] = version
            if has_status:
                covered[status_column] = unverified(version)
            for entry in keys[name]:
                add(Put(entry, covered, now))
        puts.append(Put(write.row, {**cells, version_column: version, **marks}, now))
    return BatchPlan(entries, puts, (), (), [Outcome("put", write.row, now) for write in writes])
