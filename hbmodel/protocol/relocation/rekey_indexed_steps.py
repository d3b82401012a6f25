"""The steps that move an object to another key, for rows with system cells, in last-write-wins and versioned models."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from attrs import define, evolve, field

from hbmodel.mapping.version_cell import LAST_WRITE_WINS, UNKNOWN, VersionCell
from hbmodel.protocol.corrected_clock import time_above
from hbmodel.protocol.indexed.index_build import RowIndexer, keep_entries
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner, OldRow, RowPlan
from hbmodel.protocol.indexed.indexed_write import at_time, finish, insert_indexed
from hbmodel.protocol.indexed.move_marks import MoveMark, mark_of, marked_as_moved
from hbmodel.protocol.operations import (
    CheckAndMutate,
    CheckAndMutateRows,
    CheckLease,
    GetRows,
    Protocol,
    PutRows,
    ReadClock,
)
from hbmodel.protocol.relocation.rekey_steps import RowMover, without_acknowledgement
from hbmodel.protocol.versioned.unique_values import (
    CLAIMED,
    RowClaims,
    change_claim,
    claim_values,
    held_claims,
    owner_of,
    read_claims,
)
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.versioned.versioned_write import insert_versioned, put_entries
from hbmodel.protocol.writes import DeleteRow, Outcome, PutObject, UpdateFields
from hbmodel.store.values import ConditionalChange, Delete, Put, Row

P = TypeVar("P", bound=IndexedRowPlanner)


@define(eq=False)
class IndexedMover(RowMover, Generic[P]):
    """Moves objects of a model with live indexes, where the last write wins.

    Attributes:
        stale: deletes of stale entries, sent after the acknowledgement.
        verifications: puts that verify new entries, sent after the acknowledgement.
    """

    planner: P
    stale: list[tuple[str, Delete]] = field(factory=list, kw_only=True)
    verifications: list[tuple[str, Put]] = field(factory=list, kw_only=True)

    def end_of(self, row: Row) -> int | None:
        return self.planner.end_of(row)

    def moves_within_row(self, row: Row) -> bool:
        return not self.planner.rewritten_by_updates(row)

    def mark(self, row: Row, mark: MoveMark, version: int, over: MoveMark | None = None) -> Protocol[bool]:
        """See `RowMover.mark`. The mark expires with its row.

        If the mark replaces another one, the cell that a delete of the row checks is changed too. That cell is also
        changed in a row that updates put again as a whole, because otherwise an update that has read the row before
        would put it without the mark.
        """
        schema, end = self.schema, self.end_of(row)
        now = yield ReadClock(self.planner.mixed)
        timestamp = self._after(row, now)
        column, expected, cells = schema.move_column, None, {schema.move_column: mark.value if mark.kind else b""}
        rewritten = self.planner.rewritten_by_updates(row)
        if over is not None or (rewritten and schema.version_column in row.columns):
            column, expected = self._checked(row)
        if rewritten or column == schema.version_column:
            cells |= {schema.version_column: LAST_WRITE_WINS + self.planner.nonce()}
        put = Put(row.row, cells, timestamp, None if end is None else max(1, end - timestamp))
        applied: bool = yield CheckAndMutate(schema.table, row.row, column, expected, [put])
        return applied

    def _checked(self, row: Row) -> tuple[bytes, bytes]:
        """Returns the column and value of the version cell, which changes with each write of a column that an index
        reads.

        If there is no version cell, returns the column and value of the mark.
        """
        schema, columns = self.schema, row.columns
        column = schema.version_column if schema.version_column in columns else schema.move_column
        return column, columns[column].value

    def _after(self, row: Row, now: int) -> int:
        timestamp, error = time_above(self.schema.table, row.row, self.planner.old(row).newest, now, self.planner.bound)
        if error is not None:
            raise error
        return timestamp

    def unmark(self, row: Row, mark: MoveMark) -> Protocol[None]:
        schema, current = self.schema, row
        if not self.planner.rewritten_by_updates(row):
            yield PutRows(schema.table, [Put(row.row, {schema.move_column: b""}, mark.timestamp + 1)])
            return
        # An update that has read the mark would put it again. So the cell that such an update checks is changed.
        while (current_mark := mark_of(schema, current)) is not None and current_mark.nonce == mark.nonce:
            if (yield from self.mark(current, evolve(mark, kind=b""), UNKNOWN, over=mark)):
                return
            (current,) = yield GetRows(schema.table, [row.row], self.columns)

    def copy(self, write: PutObject) -> Protocol[Any]:
        return without_acknowledgement(insert_indexed(self.planner, write))

    def take_back(self, row: Row) -> Protocol[Any]:
        return self._deleted(row)

    def leave(self, row: Row) -> Protocol[bool]:
        return self._deleted(row)

    def _deleted(self, row: Row) -> Protocol[bool]:
        """Deletes a row, unless a column that an index reads has been written since the row was read. Returns whether
        the row was deleted.
        """
        old = self.planner.old(row)
        plan = self._gone(old, (yield ReadClock(self.planner.mixed)))
        if plan.marks:
            yield put_entries(plan.marks)
        if not (yield from self._changed(plan, old)):
            return False
        self.stale += plan.stale
        return True

    def _gone(self, old: OldRow, now: int) -> RowPlan:
        assert old.row is not None
        plan = self.planner.plan(DeleteRow(None, old.row.row), old, now)
        if plan.outcome.error is not None:
            raise plan.outcome.error
        return self._moved(plan, old.row)

    def _moved(self, plan: RowPlan, row: Row) -> RowPlan:
        """Returns the plan with a dead marker that also shows which version was moved."""
        column, version = self.schema.liveness_column, row.columns.get(self.schema.version_column)
        if plan.put is None or version is None or not version.value.startswith(LAST_WRITE_WINS):
            return plan
        cells = {**plan.put.cells, column: marked_as_moved(plan.put.cells[column], version.value)}
        return evolve(plan, put=evolve(plan.put, cells=cells))

    def _changed(self, plan: RowPlan, old: OldRow) -> Protocol[bool]:
        """Carries out a plan if its row has not changed since it was read. Returns whether the plan was carried out."""
        assert old.row is not None
        column, expected = self._checked(old.row)
        applied: bool = yield CheckAndMutate(self.schema.table, old.row.row, column, expected, _mutations(plan))
        return applied

    def move_within_row(self, old: Row, new: Row | None, write: PutObject, version: int) -> Protocol[Outcome | None]:
        before = self.planner.old(new)
        now = yield ReadClock(self.planner.mixed)
        plan = self.planner.plan(write, before, now)
        self._check(old, version)
        gone = self._gone(self.planner.old(old), now)
        if plan.outcome.error is not None:
            raise plan.outcome.error
        if entries := [*plan.entries, *plan.marks, *gone.marks]:
            yield put_entries(entries)
        if not (yield from self._changed_together(plan, before, gone, old)):
            return None
        self.placed = plan.outcome
        self.verifications += self.planner.verifications(plan.entries)
        while not (yield CheckLease(now)):  # a repair may have deleted the entries as orphans
            self.verifications = []
            now = yield ReadClock(self.planner.mixed)
            if plan.entries:
                yield put_entries(
                    [(name, at_time(put, max(now, (put.timestamp or 0) + 1))) for name, put in plan.entries]
                )
        self.stale += gone.stale
        return plan.outcome

    def _check(self, row: Row, version: int) -> None:
        """Raises `ConflictError` for a row of another version."""

    def _changed_together(self, plan: RowPlan, before: OldRow, gone: RowPlan, old: Row) -> Protocol[bool]:
        schema, row = self.schema, plan.outcome.key
        seen = None if before.row is None else before.row.columns.get(schema.liveness_column)
        expected = None if seen is None else seen.value
        applied = yield CheckAndMutate(
            schema.table, row, schema.liveness_column, expected, [*_mutations(plan), *_mutations(gone)]
        )
        return bool(applied) or (yield from self._landed(plan))

    def _landed(self, plan: RowPlan) -> Protocol[bool]:
        """Returns whether a change that was refused had already been carried out, by a call whose answer was lost."""
        assert plan.put is not None
        column, row = self.schema.version_column, plan.outcome.key
        (current,) = yield GetRows(self.schema.table, [row], [column])
        value = None if current is None or column not in current.columns else current.columns[column].value
        put = plan.put.cells[column]
        return value == put or (
            value is not None and {*VersionCell.of(put).nonces[:1]} & {*VersionCell.of(value).nonces} != set()
        )

    def keep_entries(self, row: bytes) -> Protocol[None]:
        return keep_entries(RowIndexer(self.schema, self.planner.indexes, self.planner.adopting), row)

    def finish(self) -> Protocol[None]:
        yield from finish(self.verifications, self.stale)


@define(eq=False)
class VersionedMover(IndexedMover[VersionedRowPlanner]):
    """Moves objects of a versioned model. No other program can write an object while it is being moved."""

    def _moved(self, plan: RowPlan, row: Row) -> RowPlan:
        return plan

    @property
    def _unique(self) -> bool:
        return any(index.unique for index in self.planner.indexes)

    def moves_within_row(self, row: Row) -> bool:
        return not self._unique

    @property
    def copies_again(self) -> bool:
        return not self._unique

    def outcome(self, row: Row) -> Outcome:
        return Outcome("put", row.row, version=self.planner.cell(self.planner.old(row)).version)

    def mark(self, row: Row, mark: MoveMark, version: int, over: MoveMark | None = None) -> Protocol[bool]:
        old = self.planner.old(row)
        plan = yield from self._counted_on(old, version)
        assert plan.put is not None
        marked = evolve(plan.put, cells={**plan.put.cells, self.schema.move_column: mark.value})
        if plan.entries:
            yield put_entries(plan.entries)  # the entries are not verified, because the object will leave this row
        return (yield from self._changed(evolve(plan, put=marked), old))

    def unmark(self, row: Row, mark: MoveMark) -> Protocol[None]:
        old = self.planner.old(row)
        plan = yield from self._counted_on(old, UNKNOWN)
        taken = Delete(row.row, columns=(self.schema.move_column,), timestamp=mark.timestamp)
        since = yield ReadClock()
        if plan.entries:
            yield put_entries(plan.entries)
        applied = yield from self._changed(evolve(plan, row_delete=taken), old)
        if applied and plan.entries and (yield CheckLease(since)):
            yield from finish(self.planner.verifications(plan.entries), ())

    def _counted_on(self, old: OldRow, version: int) -> Protocol[RowPlan]:
        assert old.row is not None
        now = yield ReadClock()
        plan = self.planner.plan(UpdateFields(None, old.row.row, {}, {}, version=version), old, now)
        if plan.outcome.error is not None:
            raise plan.outcome.error
        return plan

    def copy(self, write: PutObject) -> Protocol[Any]:
        planner = evolve(self.planner, indexes=tuple(evolve(index, unique=False) for index in self.planner.indexes))
        return without_acknowledgement(insert_versioned(planner, write, {}))

    def claim(self, old: Row, new: Row) -> Protocol[bool]:
        planner = self.planner
        claims = held_claims(planner, planner.old(new))
        if not claims:
            return True
        cells = yield from read_claims(planner, claims)
        now = yield ReadClock()
        owners = {claim: owner_of(cells[claim].value) if claim in cells else None for claim in claims}
        moved = [claim for claim, owner in owners.items() if owner == old.row]
        for claim in moved:
            change = change_claim(planner, claim, cells[claim], CLAIMED + planner.nonce() + new.row, now)
            yield CheckAndMutateRows(claim.table, [change])
        if moved:
            return False
        wanted = [claim for claim, owner in owners.items() if owner != new.row]
        if not wanted:
            return True
        claimed = yield from claim_values(planner, {new.row: RowClaims(wanted)}, now)
        if (error := claimed[new.row].error) is not None:
            raise error
        return False

    def _changed(self, plan: RowPlan, old: OldRow) -> Protocol[bool]:
        (applied,) = yield CheckAndMutateRows(self.schema.table, [self.planner.change(plan, old)])
        return bool(applied)

    def _check(self, row: Row, version: int) -> None:
        old = self.planner.old(row)
        error = self.planner.plan(UpdateFields(None, row.row, {}, {}, version=version), old, old.newest).outcome.error
        if error is not None:
            raise error

    def _changed_together(self, plan: RowPlan, before: OldRow, gone: RowPlan, old: Row) -> Protocol[bool]:
        change = self.planner.change(plan, before)
        # the version from the first of the two reads, so that the check covers both
        expected = self.planner.row_version(self.planner.old(old))
        both = ConditionalChange(change.row, change.column, expected, [*change.mutations, *_mutations(gone)])
        (applied,) = yield CheckAndMutateRows(self.schema.table, [both])
        return bool(applied) or (yield from self._landed(plan))


def _mutations(plan: RowPlan) -> list[Put | Delete]:
    assert plan.put is not None
    return [plan.put] if plan.row_delete is None else [plan.put, plan.row_delete]
