"""The write protocol of models without live indexes, as a sans-IO generator."""

from __future__ import annotations

from collections.abc import Sequence, Set

from hbmodel.protocol.future_cells import hide_increments
from hbmodel.protocol.operations import Acknowledge, Protocol, PutRows
from hbmodel.protocol.server_timed.guarded_update import update_guarded
from hbmodel.protocol.server_timed.unindexed_batch import UnindexedRowPlan, await_masks, carry_out
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.ttl_timestamps import StampedRow
from hbmodel.protocol.writes import DeleteRow, Outcome, RowWrite, UpdateFields, under_condition
from hbmodel.store.port import Capabilities


def write_unindexed_batch(
    planner: UnindexedRowPlanner,
    writes: Sequence[RowWrite],
    bound: int,
    can: Capabilities,
    deleted: dict[bytes, Outcome] | None = None,
    together: Set[bytes] = frozenset(),
) -> Protocol[None]:
    """Writes rows of a model without live indexes, each row at most once.

    Args:
        writes: the writes, at most one per row.
        deleted: records deleted rows, see `write_indexed_batch`.
        together: rows that are written together with others. Their changes may be combined into one conditional change.
    """
    puts = planner.puts_of_objects(writes)
    if puts:
        yield PutRows(planner.schema.table, puts)
        yield Acknowledge([Outcome("put", put.row) for put in puts])
        return
    rows = yield from planner.read(writes)
    rows |= yield from planner.read_expiring(writes, rows, bound)
    masks = yield from planner.read_masks(writes, bound)
    masks |= yield from planner.await_replaced(writes, rows, bound)
    plans = {write.row: planner.plan(write, rows.get(write.row), masks.get(write.row)) for write in writes}
    guarded = [
        write
        for write in writes
        if not isinstance(write, DeleteRow) and (_expires(plans[write.row]) or _under_condition(planner, write))
    ]
    behind = {write.row for write in guarded}
    yield from carry_out(planner.schema.table, [plan for row, plan in plans.items() if row not in behind], can)
    if deleted is not None:
        deleted |= {row: plan.outcome for row, plan in plans.items() if plan.outcome.action == "deleted"}
    if guarded:
        planned = {row: (plans[row], rows.get(row)) for row in behind}
        plans |= yield from update_guarded(planner, guarded, planned, bound, can, together)
    done = [mask for plan in plans.values() for mask in plan.masks]
    done += yield from hide_increments(planner.schema, done)
    ahead = [row.row for row in rows.values() if isinstance(row, StampedRow) and row.ahead]
    yield from await_masks(done, [at for row in ahead if (at := plans[row].outcome.timestamp) is not None])
    yield Acknowledge([plans[write.row].outcome for write in writes])


def _under_condition(planner: UnindexedRowPlanner, write: RowWrite) -> bool:
    return isinstance(write, UpdateFields) and under_condition(planner.schema, write)


def _expires(plan: UnindexedRowPlan) -> bool:
    return plan.put is not None and plan.put.ttl is not None
