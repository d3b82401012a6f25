"""The write protocol of models without live indexes, as a sans-IO generator."""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.guarded_update import update_guarded
from hbmodel.mutations import PartialWriteOf, RowWrite
from hbmodel.operations import Acknowledge, Protocol
from hbmodel.plain import PlainWriter
from hbmodel.plain_plan import carry_out
from hbmodel.schema import TableSchema
from hbmodel.store import Capabilities


def plain_round(schema: TableSchema, writes: Sequence[RowWrite], bound: int, can: Capabilities) -> Protocol[None]:
    """Writes rows of a model without live indexes, each row at most once.

    Args:
        schema: of the model.
        writes: at most one per row.
        bound: how far a cell may lie ahead of its server's clock, in ms.
        can: what the store can do in one atomic call.
    """
    writer = PlainWriter(schema)
    rows = yield from writer.read(writes)
    rows |= yield from writer.read_expiring(writes, rows, bound)
    plans = {write.row: writer.plan(write, rows.get(write.row)) for write in writes}
    guarded = [write for write in writes if isinstance(write, PartialWriteOf) and writer.may_leave_a_piece(plans[write.row])]
    behind = {write.row for write in guarded}
    yield from carry_out(schema.table, [plan for row, plan in plans.items() if row not in behind], can)
    if guarded:
        plans |= yield from update_guarded(writer, guarded, {row: (plans[row], rows[row]) for row in behind}, bound, can)
    yield Acknowledge([plans[write.row].outcome for write in writes])
