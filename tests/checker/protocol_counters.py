"""Counters of rows without an index in the model checker: increments that are ahead of the server's clock, together
with deletes and new rows.

Increments of one millisecond raise the time of their cell above the server's clock. An increment that ended before a
delete began must not count in a later row, once the delete is acknowledged. Every increment that began after the
acknowledgement of the delete must count.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import evolve

import hbmodel as hb
from hbmodel.protocol.future_cells import MARGIN
from hbmodel.protocol.operations import AwaitClock, DeleteRows, GetRows, Operation, Protocol, carried_out
from hbmodel.protocol.server_timed.unindexed_batch import UnindexedRowPlan
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.store import Capabilities, Delete
from tests.checker.protocol_mutants import Mutant
from tests.checker.protocol_unindexed import (
    APART,
    ATOMIC,
    CELLS,
    CLOCK,
    HISTORY,
    SHIPPED,
    RowModel,
    Rules,
    visible,
)

BEFORE = 64
"""The counter in the beginning: more than all increments of a configuration."""

COUNTER = b"d:h"


@hb.model(table="counted", family="d", exists=hb.flag("e"))
class Counted:
    """A flag, required columns and a counter."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    line: hb.Column[str] = hb.column("l")
    note: hb.Column[str | None] = hb.column("n", default=None)
    hits: hb.Column[int] = hb.counter("h")


class CountedModel(RowModel):
    """The checker for calls on one row whose counter is initially a number of ms ahead of the server's clock."""

    def __init__(
        self,
        programs: Sequence[Sequence[str]],
        can: Capabilities,
        ahead: int,
        rules: Rules = SHIPPED,
        begin: str = "add",
    ) -> None:
        super().__init__(Counted, begin, programs, can, rules, ends=False)
        store = self._store
        store[CELLS] = (*store[CELLS], (COUNTER, store[CLOCK] + ahead, BEFORE.to_bytes(8, "big"), None))

    def terminal(self, store: Any) -> str | None:
        """A counter that no order of the calls explains."""
        history: Mapping[int, Any] = dict(store[HISTORY])
        cells = visible(store)
        if b"d:e" not in cells:
            return None
        found = int.from_bytes(cells[COUNTER].value, "big") if COUNTER in cells else 0
        applied = {n: over for n, (over, result) in history.items() if type(result) is int}
        resets = {n for n in history if self.is_reset(n, history[n][1])}
        least = sum(resets <= over for over in applied.values())
        most = sum(all(n not in history[reset][0] for reset in resets) for n in applied)
        if not resets:
            least, most = least + BEFORE, most + BEFORE
        return (
            None
            if least <= found <= most
            else f"COUNTED: {found}, not {least} to {most}, after {[(n, r) for n, (_, r) in store[HISTORY]]}"
        )

    def is_reset(self, number: int, result: Any) -> bool:
        """Whether a call ends what was counted before it."""
        return result == "deleted"


# --- sweeps -----------------------------------------------------------------------------------------------------------

STORES: Mapping[str, Capabilities] = {"atomic": ATOMIC, "apart": APART}
RENEWALS = ("add", "insert")
BESIDE = (("increment",), ("increment", "increment"), ("delete",), ("delete", "increment"), ("add",), ("update note",))


def counters(store: str, rules: Rules = SHIPPED) -> Iterator[tuple[str, CountedModel]]:
    """A delete, a new row and an increment, at the same time as calls of another program."""
    can = STORES[store]
    for ahead, again, beside in itertools.product((0, 2), RENEWALS if can is ATOMIC else RENEWALS[:1], BESIDE):
        programs = (("delete", again, "increment"), beside)
        yield f"{store}, a counter {ahead} ms ahead: {programs}", CountedModel(programs, can, ahead, rules)


# --- mutants ----------------------------------------------------------------------------------------------------------


class Unmasked(UnindexedRowPlanner):
    """A delete at the server's time takes no counter that is ahead."""

    def _plan(self, *args: Any) -> UnindexedRowPlan:
        return evolve(super()._plan(*args), masks=())


class NoMargin(UnindexedRowPlanner):
    """A counter is deleted up to the time that was read."""

    def _plan(self, write: Any, row: Any, mask: Any = None) -> UnindexedRowPlan:
        exact = evolve(mask, timestamp=mask.timestamp - MARGIN) if isinstance(mask, Delete) else mask
        return super()._plan(write, row, exact)


def _unawaited(protocol: Protocol[Any]) -> Protocol[Any]:
    """A delete is acknowledged while the clock is behind the timestamps that the delete hides."""

    def step(operation: Operation) -> Protocol[Any]:
        return None if isinstance(operation, AwaitClock) else (yield operation)

    return carried_out(protocol, step)


def _read_once(protocol: Protocol[Any]) -> Protocol[Any]:
    """A deleted row is not read again for increments beyond its mask."""
    deleted = False

    def step(operation: Operation) -> Protocol[Any]:
        nonlocal deleted
        if deleted and isinstance(operation, GetRows):
            return [None] * len(operation.rows)
        deleted |= isinstance(operation, DeleteRows)
        return (yield operation)

    return carried_out(protocol, step)


WITHOUT_MARGIN = Rules(writer=NoMargin)
"""Every increment between the read and the delete is beyond the mask, and is found by reading again."""


def _one(programs: Sequence[Sequence[str]], ahead: int, rules: Rules) -> Iterable[tuple[str, CountedModel]]:
    yield f"{programs}", CountedModel(programs, ATOMIC, ahead, rules)


MUTANTS: Mapping[str, Mutant] = {
    "a counter that is ahead survives": Mutant(
        Rules(writer=Unmasked), partial(_one, (("delete", "add"),), 2), "COUNTED"
    ),
    "a counter is masked where it was read": Mutant(
        Rules(writer=NoMargin, around=_read_once),
        partial(_one, (("delete", "add"), ("increment", "increment")), 2),
        "COUNTED",
    ),
    "no wait for what a delete hides": Mutant(
        Rules(around=_unawaited), partial(_one, (("delete", "add", "increment"),), 2), "COUNTED"
    ),
}
