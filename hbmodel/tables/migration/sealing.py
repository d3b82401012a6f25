"""Moves rows of versioned models from one table to another, in ranges that programs share, and finds rows that are
still to be moved.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from hbmodel.errors import HbmodelError
from hbmodel.protocol.operations import Protocol
from hbmodel.protocol.relocation.migration_phases import TranslatedRow
from hbmodel.protocol.relocation.row_seals import Pair, Way
from hbmodel.protocol.relocation.seal_and_move import move_rows, reopen_rows
from hbmodel.store.values import Row
from hbmodel.tables.indexes.index_report import SAMPLES
from hbmodel.tables.migration.copy_and_compare import Compared, Copying


@frozen(eq=False)
class Sealing(Copying):
    """Seals, copies and closes the rows of one table."""

    @property
    def _way(self) -> Way:
        assert self.plan.way is not None, "rows of versioned models have one"
        return self.plan.way

    def _moved(self, rows: Sequence[Row]) -> list[TranslatedRow]:
        return [self._target_of(row) for row in rows if self._way.old(row).live]

    def _target_of(self, row: Row) -> TranslatedRow:
        """Returns the key of a row in the other table, or an error if the row cannot be stored there. In this case the
        row is not sealed.
        """
        try:
            return TranslatedRow(row.row, None, (), None, self._way.written(row).row)
        except HbmodelError as error:
            return TranslatedRow(row.row, None, (), error)

    def _carried(self, moved: Sequence[TranslatedRow], since: int) -> Protocol[bool]:
        way = self._way
        return move_rows(
            way, [Pair(row.source, row.target) for row in moved if row.target is not None], seals=way.seals
        )

    def compare(self, *, mend: bool) -> Compared:
        compared = Compared()
        for rows, since in self._batches():
            moved = self._moved(rows)
            refused = [row for row in moved if row.error is not None]
            if mend:
                self._carry_all(rows, moved, since)
            samples = [*compared.samples, *((row.source.hex(), str(row.error)) for row in refused)]
            compared = evolve(
                compared,
                rows=compared.rows + len(moved),
                missing=compared.missing + len(moved) - len(refused),
                refused=compared.refused + len(refused),
                samples=samples[:SAMPLES],
            )
            self.throttle.passed(rows)
            self._show("verifying", 0, None, compared.rows)
        return compared

    def reopen(self) -> None:
        """Turns the closed rows of the table into ordinary dead rows. Call this only when no program reads the other
        table any more.
        """
        for rows, _ in self._batches():
            current = self
            while not current.writes.carry_out(_reopened(current._way, rows), current.plan, self.clock):
                self.still()
                current = self._current()


def _reopened(way: Way, rows: Sequence[Row]) -> Protocol[bool]:
    yield from reopen_rows(way.source, rows)
    return True
