"""The rows that a batch of writes has put, for a protocol that is started again because the indexes of its table
have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from attrs import define, field

from hbmodel.protocol.index_build import RowIndexer, keep_entries_of
from hbmodel.protocol.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.operations import DeleteRows, Protocol
from hbmodel.protocol.writes import Outcome
from hbmodel.store.values import Delete


@define
class PlacedRows:
    """What is known to be done of a batch.

    Attributes:
        outcomes: the outcomes of the writes whose rows were put, by row.
        rest: the deletes that belong to such puts and may not be carried out yet, by row.
    """

    outcomes: dict[bytes, Outcome] = field(factory=dict)
    rest: dict[bytes, Delete] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.outcomes)

    def note(self, outcomes: Iterable[Outcome], rest: Sequence[Delete] = ()) -> None:
        """Takes in what has been put: of these outcomes, those of writes that put something.

        Args:
            outcomes: the outcomes of writes.
            rest: the deletes that follow their puts.
        """
        self.outcomes |= {outcome.key: outcome for outcome in outcomes if outcome.action in PUT}
        self.rest |= {delete.row: delete for delete in rest}

    def forget(self, rows: Set[bytes]) -> None:
        """Takes back what was said of rows whose puts were gathered, and then not carried out."""
        for row in rows:
            self.outcomes.pop(row, None)
            self.rest.pop(row, None)

    def completed(self, planner: IndexedRowPlanner) -> Protocol[dict[bytes, Outcome]]:
        """Does what is left to do for these rows, by the indexes as they are now; returns their outcomes.

        A row gets the entries of what it holds now, as in a build: a writer that has changed it since has put its own.
        A row that the indexes refuse has a failed outcome.
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
"""The actions of outcomes of writes that put something; what is deleted gets a marker."""
