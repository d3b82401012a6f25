"""The rows that a batch of writes has already put, for a protocol that is started again because the indexes have
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from attrs import define, field

from hbmodel.protocol.indexed.index_build import RowIndexer, keep_entries_of
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.operations import DeleteRows, Protocol
from hbmodel.protocol.writes import Outcome
from hbmodel.store.values import Delete


@define
class PlacedRows:
    """The part of a batch of writes that is known to be done.

    Attributes:
        outcomes: the outcomes of the writes whose rows were put, by row.
        rest: the deletes that belong to these puts and may not have been carried out yet, by row.
    """

    outcomes: dict[bytes, Outcome] = field(factory=dict)
    rest: dict[bytes, Delete] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.outcomes)

    def note(self, outcomes: Iterable[Outcome], rest: Sequence[Delete] = ()) -> None:
        """Records writes whose rows have been put.

        Args:
            outcomes: the outcomes of writes; outcomes of writes that put nothing are ignored.
            rest: the deletes that follow the puts.
        """
        self.outcomes |= {outcome.key: outcome for outcome in outcomes if outcome.action in PUT}
        self.rest |= {delete.row: delete for delete in rest}

    def forget(self, rows: Set[bytes]) -> None:
        """Removes the records of rows whose puts were prepared but not carried out."""
        for row in rows:
            self.outcomes.pop(row, None)
            self.rest.pop(row, None)

    def completed(self, planner: IndexedRowPlanner) -> Protocol[dict[bytes, Outcome]]:
        """Completes the writes of these rows for the current indexes. Returns the outcomes of the writes.

        A row gets the entries of its current values, as in a build. If another writer has changed the row since, that
        writer has put the entries itself. A row whose entries cannot be made gets a failed outcome.
        """
        schema = planner.schema
        if self.rest:
            yield DeleteRows(schema.table, list(self.rest.values()))
            self.rest.clear()
        rows = [row for row, outcome in self.outcomes.items() if outcome.action == "put"]
        indexer = RowIndexer(schema, planner.indexes, planner.adopting)
        errors = yield from keep_entries_of(indexer, rows)
        return {**self.outcomes, **{row: Outcome("failed", row, error=error) for row, error in errors.items()}}


PUT = frozenset(("put", "deleted"))
"""The actions of outcomes for which something was put: a delete puts a marker."""
