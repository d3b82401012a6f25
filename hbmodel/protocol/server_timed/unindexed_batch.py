"""The mutations for writes of models without live indexes, and the operations that carry them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from hbmodel.protocol.operations import AwaitClock, DeleteRows, MutateRow, Protocol, PutRows, ReadClock, Together
from hbmodel.protocol.writes import Outcome
from hbmodel.store.port import Capabilities
from hbmodel.store.values import Delete, Put

ATOMIC_ROWS = 100
"""If at most this many writes of a batch both put and delete cells, each of them is sent as one atomic call."""


@frozen(eq=False)
class UnindexedRowPlan:
    """The mutations of one write.

    Attributes:
        outcome: the outcome of the write once its mutations are carried out.
        deletes: deletes that belong to the put. They are sent in the same call, or in a call that follows the puts of
            the batch.
        blanks: columns that a separate put makes empty until `deletes` removes them.
        bare: columns in which an empty cell would be an empty value, so that no put may make them empty.
        owners: a put that is sent with `put` and shows which inserts have put the row.
        masks: deletes of cells that may be ahead of the server's clock, so that `deletes` may not hide them.
    """

    outcome: Outcome
    put: Put | None = None
    deletes: Sequence[Delete] = ()
    blanks: Sequence[bytes] = ()
    owners: Put | None = None
    masks: Sequence[Delete] = ()
    bare: frozenset[bytes] = frozenset()

    @property
    def joined(self) -> list[Put | Delete]:
        """The mutations of one atomic call."""
        return [*(put for put in (self.put, self.owners) if put is not None), *self.deletes]

    @property
    def first(self) -> Put | None:
        """The put for a separate call. It already shows the new row, so that no reader sees only a part of the write,
        and no crash leaves only a part of it. Only the columns in `bare` show their old values until the deletes are
        carried out.
        """
        blanks = [column for column in self.blanks if column not in self.bare]
        if self.put is None or not blanks:
            return self.put
        return evolve(self.put, cells={**self.put.cells, **dict.fromkeys(blanks, b"")})


def carry_out(table: str, plans: Sequence[UnindexedRowPlan], can: Capabilities) -> Protocol[None]:
    """Carries out plans.

    A plan that both puts and deletes is sent as one atomic call, if the store supports this and there are few such
    plans. Otherwise the deletes follow the puts.
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
        # A commit of several objects in one row cannot combine deletes at two different times. Reading the clock makes
        # it carry out the first deletes here.
        yield ReadClock()
        yield DeleteRows(table, masks)
    if both:
        calls = [MutateRow(table, plan.joined) for plan in both]
        yield calls[0] if len(calls) == 1 else Together(calls)


def await_masks(masks: Iterable[Delete], others: Iterable[int] = ()) -> Protocol[None]:
    """Waits until the server's clock has passed the times of the masks and the times in `others`.

    After that, no delete hides a later write.
    """
    times = [*others]
    times += [mask.timestamp for mask in masks if mask.timestamp is not None]
    if times:
        yield AwaitClock(max(times))
