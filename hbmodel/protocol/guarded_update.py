"""Updates that must not create a row if it is deleted at the same time, as a sans-IO generator.

An update of a required column puts a cell that alone makes a row. So it is put only if the row still exists: by one atomic check if
the store supports it; otherwise the row is read afterwards, and the remains of a deleted row are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from hbmodel.protocol.operations import CheckAndMutate, CheckAndPut, DeleteRows, GetRows, LetClockTick, Protocol
from hbmodel.protocol.unindexed_batch import ATOMIC_ROWS, UnindexedRowPlan, carry_out
from hbmodel.protocol.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.writes import Outcome, UpdateFields, not_found
from hbmodel.store.port import Capabilities
from hbmodel.store.values import Delete, Row

Planned = Mapping[bytes, tuple[UnindexedRowPlan, Row | None]]
"""The plan of each update, and the row that it was planned over, by row key."""


def update_guarded(
    planner: UnindexedRowPlanner,
    writes: Sequence[UpdateFields],
    planned: Planned,
    bound: int,
    can: Capabilities,
    done: Set[bytes] = frozenset(),
) -> Protocol[dict[bytes, UnindexedRowPlan]]:
    """Carries out updates whose cells would make a row by themselves; returns the final plan of each.

    Args:
        planner: plans the mutations.
        writes: at most one per row.
        planned: the plans, by row key.
        bound: the largest distance of a timestamp into the future of its server's clock, in ms.
        can: what the store can do in one atomic call.
        done: rows that are written already; for these, only pieces of deleted rows are removed.
    """
    plans: dict[bytes, UnindexedRowPlan] = {}
    blind: list[UnindexedRowPlan] = []
    for write in writes:
        plan, row = planned[write.row]
        if write.row in done:
            plans[write.row] = plan
        elif len(writes) <= ATOMIC_ROWS and row is not None and _guard(planner, row, plan, can) is not None:
            plans[write.row] = yield from _put_where_it_is(planner, write, plan, row, bound, can)
        else:
            plans[write.row] = plan
            blind.append(plan)
    yield from carry_out(planner.schema.table, blind, can)
    written = [write for write in writes if plans[write.row].put is not None]
    if written:
        found = yield GetRows(planner.schema.table, [write.row for write in written], planner.columns)
        rows: dict[bytes, Row | None] = dict(zip((write.row for write in written), found, strict=True))
        pieces = [write for write in written if _is_piece(planner, plans[write.row], planned[write.row][1], rows[write.row])]
        if pieces:
            plans |= yield from _take_back(planner, pieces, planned, plans)
        yield from keep_together(planner, found, bound, can)
    return plans


def keep_together(planner: UnindexedRowPlanner, found: Iterable[Row | None], bound: int, can: Capabilities) -> Protocol[None]:
    """Rewrites expiring rows over which updates have put cells that would outlive them, so that all cells of a row expire together.

    Args:
        planner: plans the mutations.
        found: rows, just read with every column.
        bound: the largest distance of a timestamp into the future of its server's clock, in ms.
        can: what the store can do in one atomic call.
    """
    while loose := {row.row: cells for row in found if row is not None and (cells := planner.loose(row))}:
        stamped = yield from planner.stamped(loose, bound)
        plans = [planner.renewed(row, loose[row.row]) for row in stamped.values()]
        yield from carry_out(planner.schema.table, plans, can)
        found = yield GetRows(planner.schema.table, list(loose), planner.columns)


def _guard(planner: UnindexedRowPlanner, row: Row, plan: UnindexedRowPlan, can: Capabilities) -> bytes | None:
    """A required column that is not empty, whose value one atomic call can check, or None; preferably one that the put leaves as it is."""
    put = plan.put
    if put is None:
        return None
    if not can.check_and_mutate and (plan.deletes or len(put.cells) > 1):
        return None
    held = [column for column in planner.schema.required_columns if column in row.columns and row.columns[column].value]
    return min(held, key=lambda column: column in put.cells, default=None)


def _put_where_it_is(
    planner: UnindexedRowPlanner, write: UpdateFields, plan: UnindexedRowPlan, row: Row, bound: int, can: Capabilities
) -> Protocol[UnindexedRowPlan]:
    """Puts an update if its row still holds a value that was read; a row that was changed in between is read again."""
    table = planner.schema.table
    while True:
        guard = _guard(planner, row, plan, can)
        if plan.put is None or guard is None:
            return plan
        expected = row.columns[guard].value
        if can.check_and_mutate:
            applied = yield CheckAndMutate(table, write.row, guard, expected, plan.joined)
        else:
            applied = yield CheckAndPut(table, write.row, guard, expected, plan.put)
        if applied:
            return plan
        (found,) = yield GetRows(table, [write.row], planner.columns)
        if planner.expires(found):
            found = (yield from planner.stamped([write.row], bound))[write.row]
        plan = planner.plan(write, found)
        if plan.put is not None and plan.put.ttl is not None:  # its time is below that of any delete of the row from now on
            yield from carry_out(table, [plan], can)
            return plan
        if found is not None:
            row = found


def _is_piece(planner: UnindexedRowPlanner, plan: UnindexedRowPlan, before: Row | None, now: Row | None) -> bool:
    """Whether the put of an update is all that is left of a row that had other cells."""
    if plan.put is None or before is None or now is None:
        return False
    own = plan.put.cells.keys()
    left, had = planner.own(now.columns).keys(), planner.own(before.columns).keys()
    return bool(left) and left <= own and not had <= own


def _take_back(
    planner: UnindexedRowPlanner, pieces: Sequence[UpdateFields], planned: Planned, plans: Mapping[bytes, UnindexedRowPlan]
) -> Protocol[dict[bytes, UnindexedRowPlan]]:
    """Deletes the cells that updates have put into rows deleted before; the delete wins."""
    table = planner.schema.table
    yield LetClockTick()  # a whole row put from now on has a later time than what is deleted
    found = yield GetRows(table, [write.row for write in pieces], planner.columns)
    failed: dict[bytes, UnindexedRowPlan] = {}
    deletes: list[Delete] = []
    for write, row in zip(pieces, found, strict=True):
        plan = plans[write.row]
        if row is not None and plan.put is not None and _is_piece(planner, plan, planned[write.row][1], row):
            newest = max(cell.timestamp for cell in planner.own(row.columns).values())
            deletes.append(Delete(write.row, columns=tuple(plan.put.cells), timestamp=newest))
            failed[write.row] = UnindexedRowPlan(_not_found(planner, write))
    if deletes:
        yield DeleteRows(table, deletes)
    return failed


def _not_found(planner: UnindexedRowPlanner, write: UpdateFields) -> Outcome:
    return Outcome("failed", write.row, error=not_found(planner.schema, write.row))
