"""Copies the rows of a table to a table with a different layout, in ranges that programs share, and finds missing
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Self

from attrs import evolve, frozen

from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.corrected_clock import ServerClock
from hbmodel.protocol.operations import Protocol
from hbmodel.protocol.relocation.migration_phases import TranslatedRow, copy_rows
from hbmodel.protocol.relocation.undeclared_cells import undeclared_cells
from hbmodel.store.port import Store
from hbmodel.store.ranges import KeyRange, key_successor
from hbmodel.store.values import Row, Scan
from hbmodel.tables.indexes.index_report import SAMPLES
from hbmodel.tables.indexes.index_sweeps import Throttle
from hbmodel.tables.indexes.shared_ranges import (
    CLAIM_LIFE,
    Counts,
    Progress,
    RangeClaim,
    SharedRanges,
    work_row,
)
from hbmodel.tables.indexes.timed_batches import timed_batches
from hbmodel.tables.migration.migration_report import MigrationProgress, MigrationProgressReport
from hbmodel.tables.migration.move_writes import MovePlan, MoveWrites
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry


@frozen
class Compared:
    """The result of a comparison of two tables.

    Attributes:
        rows: how many rows were compared.
        missing: how many of them are missing in the other table.
        differing: how many of them have different values in the other table.
        refused: how many of them cannot be stored in the other table.
        samples: some of the refused rows, as (row key in hex, reason).
    """

    rows: int = 0
    missing: int = 0
    differing: int = 0
    refused: int = 0
    samples: Sequence[Sequence[str]] = ()


@frozen(eq=False)
class Copying:
    """Copies from one table into another.

    Attributes:
        plan: how rows are copied or moved into the other table.
        planned: makes a new plan from the current state of the registry.
        writes: carries out the writes of the plan.
        clock: the clock of the server.
        still: raises an error if the phase in which rows are copied is over.
        report: called with the progress of the work, or None.
        claim_life: seconds after which another program takes over a range if the program that has claimed it stops
            responding.
    """

    store: Store
    registry: Registry
    plan: MovePlan
    planned: Callable[[], MovePlan]
    writes: MoveWrites
    clock: ServerClock
    throttle: Throttle
    batch_size: int
    still: Callable[[], None]
    report: MigrationProgressReport | None = None
    claim_life: float = CLAIM_LIFE

    @property
    def _source(self) -> TableSchema:
        return self.plan.source.schema

    @property
    def _target(self) -> TableSchema:
        return self.plan.target.schema

    @cached_property
    def claims(self) -> SharedRanges:
        """The key ranges of the work."""
        row = copying_row(self._source, self._target)
        return SharedRanges(self.store, self.registry.table, row, self.clock.now, round(self.claim_life * 1000))

    def begin_again(self) -> None:
        """Restarts copying that is finished but has left out some rows."""
        progress = self.claims.progress()
        if progress is not None and progress.done == progress.ranges and progress.counts.unfinished:
            self.claims.begin_again(progress, self._ranges())

    def _ranges(self) -> Sequence[KeyRange]:
        return [region.range for region in self.store.regions(self._source.table)]

    def copy(self) -> None:
        """Copies all rows. Programs that run the same migration share the work."""
        self.claims.work_off(self._ranges, self._goes_on, lambda claim, _: self._through(claim))

    def _goes_on(self, progress: Progress | None) -> bool:
        self.still()
        if progress is not None:
            self._show("copying", progress.done, progress.ranges, progress.counts.rows)
        return True

    def _through(self, claim: RangeClaim) -> None:
        """Copies one range until it is done."""
        while True:
            self.still()
            current = self._current()
            for rows, since in current._batches(claim.range):
                moved = current._moved(rows)
                if not current._carry(moved, since):
                    break  # the rows are too old, the phase is over, or the indexes have changed
                claim.advance(key_successor(rows[-1].row), _counted(moved))
                self.throttle.passed(rows)
            else:
                claim.finish(Counts())
                return

    def _current(self) -> Self:
        """Returns a copy of this object with a new plan."""
        return evolve(self, plan=self.planned())

    def _carry(self, moved: Sequence[TranslatedRow], since: int) -> bool:
        """Copies or moves rows to the other table. Returns False if a new plan is needed.

        Raises:
            IndexUnavailable: a table has an index that the model does not declare.
        """
        self.plan.check_writable()
        return self.writes.carry_out(self._carried(moved, since), self.plan, self.clock)

    def _carried(self, moved: Sequence[TranslatedRow], since: int) -> Protocol[bool]:
        """Returns the protocol that copies or moves rows into the other table. The protocol returns whether it has done
        so.
        """
        return copy_rows(moved, self._target.table, since)

    def _moved(self, rows: Sequence[Row]) -> list[TranslatedRow]:
        return [moved for row in rows if (moved := self.plan.mover.of(row)) is not None]

    def _batches(self, within: KeyRange | None = None) -> Iterator[tuple[Sequence[Row], int]]:
        """Yields the rows of a range, or of the table, in batches, each with a reading of the server's clock from
        before the batch was read.
        """
        scan = Scan(columns=self.plan.mover.columns, batch_size=self.batch_size)
        within_range = scan if within is None else evolve(scan, range=within)
        return timed_batches(self.store, self._source.table, within_range, self.clock)

    # --- both tables --------------------------------------------------------------------------------------------------

    def compare(self, *, mend: bool) -> Compared:
        """Compares every row with the other table. With `mend`, copies the rows that are missing there."""
        compared = Compared()
        for rows, since in self._batches():
            moved = self._moved(rows)
            compared = self._compared(compared, rows, moved, since, mend)
            self.throttle.passed(rows)
            self._show("verifying", 0, None, compared.rows)
        return compared

    def _compared(
        self, compared: Compared, rows: Sequence[Row], moved: Sequence[TranslatedRow], since: int, mend: bool
    ) -> Compared:
        good = [(row, row.put.row) for row in moved if row.put is not None]
        refused = [row for row in moved if row.put is None]
        target, reader = self.plan.target.reader, self.plan.mover.reader
        read = self.store.get(self._target.table, [key for _, key in good], self._target.row_columns) if good else []
        own = {row.row: row for row in rows}
        missing: list[TranslatedRow] = []
        differing = 0
        for (row, _), other in zip(good, read, strict=True):
            if other is None or not target.exists(other):
                missing.append(row)
            else:
                differing += reader.values(own[row.source]) != target.values(other) or self._lacks(
                    own[row.source], other
                )
        if mend and missing:
            # If a row is still missing after this, it has expired, or it was deleted by a program that had been
            # suspended until deletes were no longer allowed.
            self._carry_all([own[row.source] for row in missing], missing, since)
        samples = [*compared.samples, *((row.source.hex(), str(row.error)) for row in refused)]
        return Compared(
            compared.rows + len(moved),
            compared.missing + len(missing),
            compared.differing + differing,
            compared.refused + len(refused),
            samples[:SAMPLES],
        )

    def _lacks(self, row: Row, other: Row) -> bool:
        """Returns whether a cell that the models do not declare is missing or different in the other table."""
        there = {column: cell.value for column, cell in other.columns.items()}
        return any(
            there.get(column) != value for column, value in undeclared_cells(self._source, self._target, row).items()
        )

    def _carry_all(self, rows: Sequence[Row], moved: Sequence[TranslatedRow], since: int) -> None:
        """Copies or moves rows to the other table. After an attempt that fails, a new plan is made."""
        current = self
        while not current._carry(moved, since):
            self.still()
            # Immutable rows are still the same. The protocol reads rows again that may have changed.
            current, since = self._current(), self.clock.now()
            moved = current._moved(rows)

    def _show(self, phase: str, done: int, total: int | None, rows: int) -> None:
        if self.report is not None:
            self.report(MigrationProgress("copying" if phase == "copying" else "verifying", done, total, rows))


def copying_row(source: TableSchema, target: TableSchema) -> bytes:
    """Returns the key of the registry's row that describes the copying from one table into another."""
    return work_row(registry_row(source), target.table, "copying")


def _counted(moved: Sequence[TranslatedRow]) -> Counts:
    refused = [row for row in moved if row.error is not None]
    entries = sum(len(row.entries) for row in moved)
    return Counts(
        len(moved), entries, refused=len(refused), samples=tuple((row.source.hex(), str(row.error)) for row in refused)
    )
