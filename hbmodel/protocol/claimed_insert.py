"""Puts an object only if its key is free, without conditional changes of whole rows, as a sans-IO generator.

HBase's Thrift1 gateway can check one cell and put one, at the server's time. So an insert first claims the key: it puts a unique value
into the existence flag if that is absent, and then the whole row, with the flag of an existing row. A claimed row reads as absent. The
claim of a program that died is taken over once it is older than the grace time.

No other program may put or delete the key in the meantime: a delete ends the claim, and a put of the object is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable

from hbmodel.errors import RowExists
from hbmodel.mapping.schema import FLAG
from hbmodel.protocol.claimed_key import CLAIMED, abandoned_claim
from hbmodel.protocol.operations import CheckAndPut, CheckLease, GetRows, LetClockTick, Protocol, PutRows, ReadClock
from hbmodel.protocol.unindexed_batch import carry_out
from hbmodel.protocol.unindexed_insert import counters_over, shows, whole_row
from hbmodel.protocol.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.writes import Outcome, PutObject
from hbmodel.store.port import Capabilities
from hbmodel.store.values import Cell, Put, Row


def insert_claimed(
    planner: UnindexedRowPlanner,
    write: PutObject,
    flag: bytes,
    bound: int,
    grace: int,
    can: Capabilities,
    draw: Callable[[], bytes],
    placed: list[Outcome] | None = None,
) -> Protocol[Outcome]:
    """Puts an object if its row is neither there nor claimed; raises `RowExists`.

    Args:
        planner: plans the mutations.
        write: the object, without a TTL.
        flag: the existence flag.
        bound: the largest distance of a timestamp into the future of its server's clock, in ms.
        grace: G in ms: how old a claim must be to be retaken.
        can: what the store can do in one call.
        draw: source of nonces, 8 bytes each.
        placed: where the outcome is noted once the row is put; empty columns may be left to delete then.
    """
    table, row = planner.schema.table, write.row
    plan = whole_row(planner, write)
    assert plan.put is not None
    expected = b""
    while True:
        since = yield ReadClock()
        claim = CLAIMED + draw()
        yield CheckAndPut(table, row, flag, expected, Put(row, {flag: claim}))
        held = yield from _flag(table, row, flag)  # whatever the answer was: a delete of the same millisecond hides a claim
        if held is None:
            yield LetClockTick()
            expected = b""
            continue
        if held.value != claim:
            expected = yield from abandoned_claim(table, row, held, grace)
            continue
        if not (yield CheckLease(since)):
            expected = claim  # others may soon take the claim for an abandoned one: it is replaced by a new one
            continue
        counters = yield from counters_over(planner, plan.put, flag, bound)
        if counters:
            yield PutRows(table, counters)
        for operation in carry_out(table, [plan], can):
            yield operation
            if placed is not None and not placed:
                placed.append(plan.outcome)
        (found,) = yield GetRows(table, [row], planner.columns)
        if found is not None and flag in found.columns and found.columns[flag].value == FLAG:
            if shows(found, plan.put, {flag}):
                return plan.outcome
            raise RowExists(
                "Another program has written a row with this key since the insert: read it, or insert under another key.",
                table=table,
                key=row,
            )
        # A delete has hidden the row, or a server whose clock was set back gave it a time below that of the claim.
        held = None if found is None else found.columns.get(flag)
        if held is not None and held.value == claim and (yield CheckAndPut(table, row, flag, claim, Put(row, {flag: FLAG}))):
            return plan.outcome
        yield LetClockTick()
        expected = b""


def _flag(table: str, row: bytes, flag: bytes) -> Protocol[Cell | None]:
    found: Row | None
    (found,) = yield GetRows(table, [row], (flag,))
    return None if found is None else found.columns.get(flag)
