"""The mutations for writes of models without live indexes, and the operations that execute them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from hbmodel.protocol.operations import AwaitClock, DeleteRows, MutateRow, Protocol, PutRows, ReadClock, Together
from hbmodel.protocol.writes import Outcome
from hbmodel.store.port import Capabilities
from hbmodel.store.values import Delete, Put

ATOMIC_ROWS = 100
"""The most rows of a batch for which writes that put and delete cells get a call each, which makes them atomic."""


@frozen(eq=False)
class UnindexedRowPlan:
    """The mutations of one write.

    Attributes:
        outcome: the outcome once it is carried out.
        put: the put of the row.
        deletes: deletes that belong to the put: in the same call, or in a call that follows the puts of the batch.
        blanks: columns that the put shows empty until `deletes` has taken them away.
        owners: a put that goes with the row and shows which inserts it comes from.
        masks: deletes of cells that may be ahead of the server's clock, which the others do not hide.
    """

    outcome: Outcome
    put: Put | None = None
    deletes: Sequence[Delete] = ()
    blanks: Sequence[bytes] = ()
    owners: Put | None = None
    masks: Sequence[Delete] = ()

    @property
    def joined(self) -> list[Put | Delete]:
        """The mutations of one atomic call."""
        return [*(put for put in (self.put, self.owners) if put is not None), *self.deletes]

    @property
    def first(self) -> Put | None:
        """The put of a separate call: it already shows the new row, so no reader sees half of the write, and no
        crash leaves half of it.
        """
        if self.put is None or not self.blanks:
            return self.put
        return evolve(self.put, cells={**self.put.cells, **dict.fromkeys(self.blanks, b"")})


def carry_out(table: str, plans: Sequence[UnindexedRowPlan], can: Capabilities) -> Protocol[None]:
    """The puts and deletes of plans: atomic by row if the store can do this and they are few; otherwise deletes
    follow puts.
    """
    both = [plan for plan in plans if plan.put is not None and plan.deletes]
    if not can.mutate_row or len(both) > ATOMIC_ROWS:
        both = []
    joined = {plan.outcome.key for plan in both}
    apart = [plan for plan in plans if plan.outcome.key not in joined]
    puts = [put for plan in apart for put in (plan.first, plan.owners) if put is not None]
    if puts:
        yield PutRows(table, puts)
    deletes = [delete for plan in apart for delete in plan.deletes]
    masks = [mask for plan in apart for mask in plan.masks]
    if deletes and (not masks or can.mutate_row):
        yield DeleteRows(table, [*deletes, *masks])
    elif deletes:
        yield DeleteRows(table, deletes)
        # so that a commit of several objects in a row carries out the deletes: it joins no deletes of two times
        yield ReadClock()
        yield DeleteRows(table, masks)
    if both:
        calls = [MutateRow(table, plan.joined) for plan in both]
        yield calls[0] if len(calls) == 1 else Together(calls)


def await_masks(masks: Iterable[Delete], others: Iterable[int] = ()) -> Protocol[None]:
    """Waits until the server's clock is past what masks hide, and `others`, so that nothing hides what is written
    later.
    """
    times = [*others]
    times += [mask.timestamp for mask in masks if mask.timestamp is not None]
    if times:
        yield AwaitClock(max(times))
