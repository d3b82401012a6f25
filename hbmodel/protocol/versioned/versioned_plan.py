"""Plans the conditional change for a write and the old row of a versioned model."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, Self

from attrs import evolve, frozen

from hbmodel.errors import (
    ClockError,
    ComputedFieldError,
    ConditionFailed,
    ConflictError,
    DecodingError,
    EncodingError,
    IncompleteRow,
    KeyTooLong,
    RowMoved,
)
from hbmodel.mapping.rows.mapper import RowDecoder, encode_cell
from hbmodel.mapping.schema import Index
from hbmodel.mapping.version_cell import UNKNOWN, VersionCell, entry_version
from hbmodel.protocol.corrected_clock import time_above
from hbmodel.protocol.future_cells import newest_beside_counters
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner, OldRow, RowPlan
from hbmodel.protocol.indexed.move_marks import mark_of
from hbmodel.protocol.writes import PutObject, RowWrite, UpdateFields
from hbmodel.store.values import ConditionalChange, Delete, Put
from hbmodel.store.wide.row_versions import version_shown

KEPT = 3
"""The number of nonces of earlier writes that a version cell keeps. A writer whose answer was lost can still find its
outcome, unless the row was written more than this many times since.
"""

KEPT_WHEN_BUSY = 31
"""The maximum number of nonces of earlier writes that a row keeps while each write follows the previous one within
`BUSY`.
"""

BUSY = 1_000
"""A row that is written again within this many milliseconds keeps all its nonces, up to `KEPT_WHEN_BUSY`. For each
further period of this length, it loses one nonce, until `KEPT` nonces are left. So a pause of all writers does not hide
an outcome from writers that still wait for it.
"""


@frozen
class RowVersion:
    """The version that a row with several objects must have; None if the row must have no version."""

    value: bytes | None


def row_written(table: str, row: bytes) -> ConflictError:
    """Returns the error of a group of objects whose row has been written by other programs."""
    return ConflictError("The row has been written since the group was begun: begin again.", table=table, key=row)


@frozen(eq=False)
class VersionedRowPlanner(IndexedRowPlanner):
    """Plans writes of a versioned model, with or without indexes.

    Every write reads its row, increments the version, and is applied only if the version cell is still the one that was
    read. Each object of a wide model has a version. But writes of an object are checked against the version of its row,
    which is a nonce that each write of the row changes. So any number of objects of a row can be changed under one
    condition. Objects in the same row do not cause conflicts for each other: a refused write is planned again over the
    current row.

    Attributes:
        patience: the number of rounds in which a write waits for another one that has claimed the same unique value.
        claim_rounds: the maximum number of rounds of a write that wants unique values.
        pinned: the version that the row of each object must have, or None. If it is given, the first write that fails
            ends the batch.
        moving: whether the planned writes are steps of a move to another key or table. Only such writes may change rows
            that a move has marked or sealed.
        over_closed: whether closed rows are overwritten, because their objects move back from the other table.
        answering: the other indexes whose entries can be used without their rows, if `indexes` has only some indexes;
            see `whole`.
    """

    patience: int = 20
    claim_rounds: int = 50
    pinned: RowVersion | None = None
    moving: bool = False
    over_closed: bool = False
    answering: Sequence[Index] = ()

    @property
    def whole(self) -> Self:
        """The same planner with all indexes, for rows that were read with all columns."""
        return evolve(self, indexes=(*self.indexes, *self.answering), answering=()) if self.answering else self

    def needs_read(self, write: RowWrite) -> bool:
        return True

    def cell(self, old: OldRow) -> VersionCell:
        """Returns the row's parsed version cell. A dead row has one too."""
        return VersionCell.of(self.stored(old) or b"")

    def stored(self, old: OldRow) -> bytes | None:
        """Returns the bytes of the row's version cell, or None."""
        cell = None if old.row is None else old.row.columns.get(self.schema.version_column)
        return None if cell is None else cell.value

    def version(self, nonce: bytes, old: OldRow, timestamp: int) -> bytes:
        cell = self.cell(old)
        lost = max(0, timestamp - self.version_time(old) - 1) // BUSY
        count = min(KEPT_WHEN_BUSY, max(KEPT, len(cell.nonces) - lost))
        return cell.next(nonce, timestamp, count).data

    def entry_version(self, version: bytes) -> bytes:
        return entry_version(version)

    def change(self, plan: RowPlan, old: OldRow) -> ConditionalChange:
        """Returns the conditional change that carries out a plan."""
        assert plan.put is not None
        put, column, expected = plan.put, self.schema.version_column, self.stored(old)
        if (shared := self.schema.row_version_column) is not None:
            put, column, expected = (
                evolve(put, cells={**put.cells, shared: self.nonce()}),
                shared,
                self.row_version(old),
            )
        mutations: list[Put | Delete] = [put] if plan.row_delete is None else [put, plan.row_delete]
        return ConditionalChange(put.row, column, expected, mutations)

    def no_change(self, row: bytes, old: OldRow) -> ConditionalChange:
        """Returns a conditional change without mutations, for a write that changes nothing. Wide rows that are changed
        as a whole need it.
        """
        assert self.schema.row_version_column is not None
        return ConditionalChange(row, self.schema.row_version_column, self.row_version(old), ())

    def row_version(self, old: OldRow) -> bytes | None:
        """Returns the version of the wide row that holds the object, which is read with the cells of the object.
        Returns None if there is no such version.
        """
        shared = self.schema.row_version_column
        cell = None if old.row is None or shared is None else old.row.columns.get(shared)
        return None if cell is None else cell.value

    def change_together(self, one: bytes, other: bytes) -> bool:
        """Returns whether two objects are changed by one mutation, so that neither can wait for the change of the
        other.
        """
        return self.changed_with(one) == self.changed_with(other)

    def changed_with(self, place: bytes) -> bytes:
        """Returns the key of the row if an object is changed together with other objects of its row, otherwise the key
        of the object.
        """
        wide = self.schema.wide
        return place if wide is None or place not in self.together else wide.form.cut(place)[0]

    def time_of_fence(self, row: bytes, old: OldRow, now: int) -> tuple[int, ClockError | None]:
        """Returns the timestamp of a fence, which does not change counters; see `time_above`."""
        return time_above(self.schema.table, row, newest_beside_counters(self.schema, old.row), now, self.bound)

    def put_cell(self, plan: RowPlan) -> VersionCell:
        """Returns the version cell that a plan puts."""
        assert plan.put is not None
        return VersionCell.of(plan.put.cells[self.schema.version_column])

    def current_entries(self, old: OldRow) -> list[tuple[str, Put]]:
        """Returns the entries of the current row, with the timestamp of its version."""
        stored = self.stored(old)
        if not old.live or old.row is None or stored is None:
            return []
        cells = {column: cell.value for column, cell in old.row.columns.items()}
        return self._puts(
            self._entries(self.reader.values(old.row), old.row.row), cells, stored, self.version_time(old)
        )

    def entries_again(self, old: OldRow, version: bytes, timestamp: int) -> list[tuple[str, Put]]:
        """Returns the entries to put again before a change that raises the version of a row, but changes no value in an
        index.

        A query uses a verified entry instead of its row and, if the entry has every column, reads the version from it.
        So no entry may stay verified with the previous version. Claims of unique values are derived from the entries of
        a write, so the entries of unique indexes are included. Entries that expire are never verified.
        """
        if not self.covering or not old.live or old.row is None or self.end_of(old.row) is not None:
            return []
        # a row whose entries cannot be made has no verified entries
        with suppress(IncompleteRow, DecodingError, KeyTooLong, EncodingError, ComputedFieldError):
            values = self.reader.values(old.row)
            cells = {
                field.column: encode_cell(self.schema, field, values[field.name])
                for field in map(self.schema.by_name.__getitem__, self.group)
            }
            places = [
                place
                for place in self._entries(values, old.row.row)
                if place[0].table in self.covering or place[0].unique
            ]
            return self._puts(places, cells, version, timestamp)
        return []

    def _plan(self, write: RowWrite, old: OldRow, now: int) -> RowPlan:
        self._check_version(write, old)
        if not isinstance(write, PutObject) and write.condition is not None and old.live and old.row is not None:
            values = RowDecoder.of(self.schema, True, write.condition.reads(), self.adopting).values(old.row)
            if not write.condition.test()(values):
                raise ConditionFailed(
                    "The row does not satisfy the condition: read it again.", table=self.schema.table, key=write.row
                )
        plan = super()._plan(write, old, now)
        if plan.put is None or plan.outcome.action != "put":
            return plan
        return evolve(plan, outcome=evolve(plan.outcome, version=self.put_cell(plan).version))

    def check_pinned(self, row: bytes, old: OldRow) -> None:
        """Raises `ConflictError` if the version of a row is not the pinned version."""
        if self.pinned is not None and version_shown(self.row_version(old)) != self.pinned.value:
            raise row_written(self.schema.table, row)

    def _check_version(self, write: RowWrite, old: OldRow) -> None:
        """Raises `ConflictError` if a row does not have the version that the write expects.

        Updates and deletes of an absent row pass this check: what happens to them is decided when they are planned.
        """
        self.check_pinned(write.row, old)
        self._check_unmoved(write.row, old)
        current = self.cell(old).version if old.live else UNKNOWN
        if write.version in {UNKNOWN, current} or (not old.live and not isinstance(write, PutObject)):
            return
        message = (
            "The row has been written since the object was read: read it again, or continue with the copy that "
            "update() returned."
            if old.live
            else "The row has been deleted since the object was read: to put it as a new row, insert "
            "type(obj)(**hb.asdict(obj))."
        )
        raise ConflictError(message, table=self.schema.table, key=write.row, expected=write.version, found=current)

    def _check_unmoved(self, row: bytes, old: OldRow) -> None:
        """Raises `ConflictError` for the old and the new row of an object that is being moved to another key.

        Raises `RowMoved` for an object that is being moved, or has moved, to another table.
        """
        if not self.moving and self.cell(old).sealed and (old.live or not self.over_closed):
            raise RowMoved(
                "The row is sealed, because its object is being moved to another table: use the model of that table.",
                table=self.schema.table,
                key=row,
            )
        mark = mark_of(self.schema, old.row) if old.live and not self.moving else None
        if mark is not None:
            raise ConflictError(
                "The object is being moved to another key; if the program that moves it has crashed, call rekey() "
                "again.",
                table=self.schema.table,
                key=row,
                other=mark.other,
            )

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._partial(write, old, timestamp)
        if plan.put is None or self.schema.version_column in plan.put.cells:
            return plan
        version = self.version(self.nonce(), old, timestamp)
        put = evolve(plan.put, cells={**plan.put.cells, self.schema.version_column: version})
        # Queries read the version from an entry only if it has every column, and no entry has a changed column that is
        # not in the group. Map entries do not count as columns here.
        alone = write.changes.keys() <= self.schema.maps_by_name.keys()
        return evolve(plan, put=put, entries=self.entries_again(old, version, timestamp) if alone else plan.entries)


Verdict = Literal["applied", "lost", "unknown"]


@frozen(eq=False)
class Sent:
    """A conditional change that was sent. It is kept until it is known to have lost against another change.

    Attributes:
        planner: the planner that planned it; a later planner may have other indexes.
        first: whether the row had no version before.
        since: the reading of the clock from which its timestamp was chosen.
        releases: the releases of the unique values that the row gives up, each with its index table.
    """

    planner: VersionedRowPlanner
    plan: RowPlan
    cell: VersionCell
    first: bool
    since: int
    releases: Sequence[tuple[str, ConditionalChange]] = ()

    @property
    def shares_row(self) -> bool:
        """Whether the change may have been refused because of another object in the same row."""
        return self.planner.schema.row_version_column is not None

    @property
    def creates(self) -> bool:
        """Whether the change creates an object in a shared row. If so, the cells of the object show the outcome of the
        change only for a limited time.

        After the grace time, the change may have been applied, the object deleted, its marker purged, and another
        object put.
        """
        return self.shares_row and self.first

    def verdict(self, current: VersionCell) -> Verdict:
        """Returns the outcome of the change, given the version cell that the row has after the refusal."""
        if self.cell.nonces[0] in current.nonces:
            return "applied"
        if self.shares_row and UNKNOWN < current.version < self.cell.version:
            return "lost"  # another object of the row was written instead, and the version of the row never recurs
        if self.first:
            return "lost" if current.complete and current.nonces else "unknown"
        if UNKNOWN < current.version < self.cell.version:
            return "lost"  # a seal was put instead, which does not change the version
        return "lost" if 0 <= current.version - self.cell.version < len(current.nonces) else "unknown"
