"""Changes of the key of a versioned model's table: how a row shows in which table its object is, and how an object
moves.

The old row determines where the object is. While the old row is live, the object is in the old table. After that, it is
in the new table. A move first seals the old row, so that no program changes it. Then it copies the row, and closes it
with a sealed dead marker. Only after that do programs write the new row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from attrs import evolve, field, frozen

from hbmodel.errors import ConflictError
from hbmodel.mapping.rows.covering import unverified
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.version_cell import VersionCell
from hbmodel.protocol.corrected_clock import time_above
from hbmodel.protocol.indexed.indexed_plan import DEAD, OldRow, RowPlan
from hbmodel.protocol.indexed.move_marks import mark_of
from hbmodel.protocol.relocation.undeclared_cells import undeclared_cells
from hbmodel.protocol.versioned.versioned_plan import Sent, VersionedRowPlanner
from hbmodel.protocol.versioned.versioned_write import SentChanges
from hbmodel.protocol.writes import DeleteRow, Outcome, PutObject, RowWrite, put_object
from hbmodel.store.values import ConditionalChange, Put, Row

State = Literal["live", "sealed", "free", "closed"]
"""The state of a row, in this order: live; live and sealed; dead or absent; dead and sealed."""


@frozen(eq=False)
class Pair:
    """The row keys of an object in the table from which it moves (`source`), and in the table to which it moves
    (`target`).
    """

    source: bytes
    target: bytes


@frozen(eq=False)
class FollowingPlanner(VersionedRowPlanner):
    """Plans writes of rows whose objects may have been in another table.

    Each write has a later timestamp than the cells that the object has left in the other table, so that the object's
    version increases.

    Attributes:
        floors: for each row, the newest timestamp of the cells that were left in the other table.
    """

    floors: Mapping[bytes, int] = field(factory=dict)

    def _plan(self, write: RowWrite, old: OldRow, now: int) -> RowPlan:
        return super()._plan(write, old, max(now, self.floors.get(write.row, -1) + 1))


@frozen(eq=False)
class Way:
    """The two tables of a move, and its direction.

    Attributes:
        source: plans writes into the table from which objects move.
        target: plans writes into the other table.
        back: whether objects move back into the old table. In this case, `target` has closed rows of the objects.
        seals: whether writers seal rows. If they do not, they begin no moves of rows, and only finish moves that have
            begun.
        reader: decodes whole rows of `source`.
    """

    source: VersionedRowPlanner
    target: VersionedRowPlanner
    back: bool = False
    seals: bool = True
    reader: RowDecoder = field(init=False)
    _mover: VersionedRowPlanner = field(init=False)
    _copier: VersionedRowPlanner = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "reader", RowDecoder.of(self.source.schema, True))
        object.__setattr__(self, "_mover", evolve(self.source, moving=True))
        object.__setattr__(self, "_copier", evolve(self.target, moving=True))

    @property
    def nonce(self) -> Callable[[], bytes]:
        """The function that draws nonces."""
        return self.source.nonce

    # --- the states of rows -------------------------------------------------------------------------------------------

    def old(self, row: Row | None) -> OldRow:
        """Returns the `OldRow` of a row of the source."""
        return self.source.old(row)

    def state(self, old: OldRow) -> State:
        """Returns the state of a row of the source."""
        return _state(self.source, old)

    def there(self, row: Row | None) -> bool:
        """Returns whether a row of the target is or was a copy. If not, the copy must still be put."""
        old = self.target.old(row)
        return _state(self.target, old) != "closed" and bool(self.target.cell(old).version)

    def closed_in_target(self, row: Row | None) -> bool:
        """Returns whether a row of the target shows that its object has moved to the source."""
        return _state(self.target, self.target.old(row)) == "closed"

    # --- the steps ----------------------------------------------------------------------------------------------------

    def seal(self, row: bytes, old: OldRow, now: int) -> ConditionalChange:
        """Returns the change that seals a live row. Programs still read a sealed row, but do not write it."""
        put = Put(row, {self._version: self._sealed(old)}, _time(self.source.schema, row, old, now, self.source.bound))
        return ConditionalChange(row, self._version, self.source.stored(old), [put])

    def copy(self, row: Row, target: Row | None, now: int) -> tuple[RowPlan, ConditionalChange]:
        """Plans the put of a sealed row's object into the target, with its version and the nonces of its earlier
        writes.
        """
        planner, over = self._copier, self.target.old(target)
        plan = planner.plan(self.written(row), over, now)
        if plan.outcome.error is not None:
            raise plan.outcome.error
        version = self.source.cell(self.old(row)).opened_by(self.nonce()).data
        plan = _in_version(planner, plan, version)
        return plan, planner.change(plan, over)

    def written(self, row: Row) -> PutObject:
        """Returns the write that puts the object of a row into the target. Raises an error if it cannot be stored
        there.
        """
        mark = mark_of(self.source.schema, row)
        if mark is not None:
            raise ConflictError(
                "A program that crashed was moving the object to another key: finish the move with rekey() first.",
                table=self.source.schema.table, key=row.row, other=mark.other,
            )  # fmt: skip
        write = put_object(self.target.schema, self.reader.make(self.reader.values(row)))
        others = undeclared_cells(self.source.schema, self.target.schema, row)
        return evolve(write, version=0, cells={**write.cells, **others} if others else write.cells)

    def close(self, row: bytes, old: OldRow, now: int) -> tuple[RowPlan, ConditionalChange]:
        """Plans the delete of a sealed row whose copy exists. The dead marker is sealed too."""
        planner = self._mover
        plan = planner.plan(DeleteRow(None, row), old, now)
        if plan.outcome.error is not None:
            raise plan.outcome.error
        assert plan.put is not None
        cells = {**plan.put.cells, self._version: self._sealed(old)}
        plan = evolve(plan, put=evolve(plan.put, cells=cells))
        return plan, planner.change(plan, old)

    def close_free(self, row: bytes, old: OldRow, now: int) -> ConditionalChange:
        """Returns the change that closes a dead or absent row, so that its object can only be created in the target."""
        schema = self.source.schema
        cells = {self._version: self._sealed(old), schema.liveness_column: DEAD + self.nonce()}
        put = Put(row, cells, _time(schema, row, old, now, self.source.bound))
        return ConditionalChange(row, self._version, self.source.stored(old), [put])

    @property
    def _version(self) -> bytes:
        return self.source.schema.version_column

    def _sealed(self, old: OldRow) -> bytes:
        return self.source.cell(old).sealed_by(self.nonce()).data


def reopened(planner: VersionedRowPlanner, row: Row, now: int) -> ConditionalChange | None:
    """Returns the change that makes a closed row an ordinary dead row again, or None for a row that is not closed."""
    old = planner.old(row)
    if _state(planner, old) != "closed":
        return None
    cell, schema, nonce = planner.cell(old), planner.schema, planner.nonce()
    timestamp = _time(schema, row.row, old, now, planner.bound)
    version = cell.opened_by(nonce) if cell.version else VersionCell().next(nonce, timestamp, 0)
    put = Put(row.row, {schema.version_column: version.data, schema.liveness_column: DEAD + nonce}, timestamp)
    return ConditionalChange(row.row, schema.version_column, planner.stored(old), [put])


def carry_over(sent: SentChanges, row: bytes, other: SentChanges, other_row: bytes) -> None:
    """Moves the record of a sent change to the other table, which now holds the object with the nonces of its
    writes.
    """
    change = sent.pop(row, None)
    if change is not None:
        other[other_row] = _elsewhere(change, other_row)


def _elsewhere(change: Sent, row: bytes) -> Sent:
    outcome = Outcome(
        change.plan.outcome.action, row, change.plan.outcome.timestamp, version=change.plan.outcome.version
    )
    return evolve(change, plan=RowPlan(outcome), releases=())


def _state(planner: VersionedRowPlanner, old: OldRow) -> State:
    if old.live:
        return "sealed" if planner.cell(old).sealed else "live"
    return "closed" if planner.cell(old).sealed else "free"


def _time(schema: TableSchema, row: bytes, old: OldRow, now: int, bound: int) -> int:
    timestamp, error = time_above(schema.table, row, old.newest, now, bound)
    if error is not None:
        raise error
    return timestamp


def _in_version(planner: VersionedRowPlanner, plan: RowPlan, version: bytes) -> RowPlan:
    """Returns the plan with another version."""
    assert plan.put is not None
    schema, version_value = planner.schema, planner.entry_version(version)
    entries = []
    for table, put in plan.entries:
        cells = {**put.cells, schema.version_column: version_value}
        if schema.status_column in cells:
            cells[schema.status_column] = unverified(version_value)
        entries.append((table, evolve(put, cells=cells)))
    return evolve(plan, entries=entries, put=evolve(plan.put, cells={**plan.put.cells, schema.version_column: version}))
