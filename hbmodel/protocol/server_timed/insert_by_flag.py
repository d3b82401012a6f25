"""Puts an object only if its key is free, without conditional changes of whole rows, as a sans-IO generator.

HBase's Thrift1 gateway can check one cell and put one cell, at the server's time. So an insert first claims the key: it
puts a unique value into the existence flag if the flag is absent. Then it puts the columns. Last, it puts the value
that the flag of an existing row has, if the claim is still there. Readers treat a claimed row as absent. The claim of a
program that crashed is taken over once it is older than the grace time.

The columns have the timestamp of the claim, and later writes have later timestamps. So if the claim of a slow program
is deleted, overwritten or taken over, the program does not overwrite a row that was put after that. For the same
reason, a program can safely delete the map entries that it has put.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from hbmodel.mapping.schema import CLAIMED
from hbmodel.protocol.future_cells import error_if_hidden
from hbmodel.protocol.operations import CheckAndPut, DeleteRows, GetRows, LetClockTick, Protocol, PutRows
from hbmodel.protocol.server_timed.flag_claim import abandoned_claim
from hbmodel.protocol.server_timed.unindexed_insert import check_free, counters_over, whole_row
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.writes import Outcome, PutObject
from hbmodel.store.values import Delete, Put, Row


def insert_claimed(
    planner: UnindexedRowPlanner, write: PutObject, flag: bytes, bound: int, grace: int, draw: Callable[[], bytes]
) -> Protocol[Outcome]:
    """Puts an object if its row neither exists nor is claimed. Otherwise raises `RowExists`.

    No row is put twice: before the last step no part of the row can be read, and after this step the call ends. No
    earlier delete hides the flag that the last step puts: the server gives the flag a timestamp that is not below that
    of the claim, so such a delete would have hidden the claim too.

    Args:
        write: the object, without a TTL.
        grace: G, the age in ms at which a claim may be taken over.
        draw: the function that draws nonces of 8 bytes.
    """
    table, row = planner.schema.table, write.row
    plan = whole_row(planner, write)
    assert plan.put is not None
    columns = {column: value for column, value in plan.put.cells.items() if column != flag}
    entries = tuple(
        column for column in columns if any(column.startswith(map_field.column) for map_field in planner.schema.maps)
    )
    expected = b""
    if planner.schema.external:
        yield from check_free(planner, write)
    while True:
        claim = CLAIMED + draw()
        yield CheckAndPut(table, row, flag, expected, Put(row, {flag: claim}))
        # puts and deletes of other programs are visible now, or get a later timestamp than the claim
        yield LetClockTick()
        current: Row | None
        # the row is read in any case, because a delete of the same millisecond hides a claim
        (current,) = yield GetRows(table, [row], planner.columns)
        flag_cell = None if current is None else current.columns.get(flag)
        expected = b""
        if current is None or flag_cell is None:
            continue
        if flag_cell.value != claim:
            expected = yield from abandoned_claim(table, row, flag_cell, grace)
            continue
        if (
            error := (
                yield from error_if_hidden(planner.schema, current, {*columns, *plan.blanks}, flag_cell.timestamp)
            )
        ) is not None:
            yield DeleteRows(table, [Delete(row, columns=(flag,), timestamp=flag_cell.timestamp)])  # the claim
            raise error
        puts = [Put(row, columns, flag_cell.timestamp)] if columns else []
        puts += yield from counters_over(planner, plan.put, flag, bound)
        if puts:
            yield PutRows(table, puts)
        if plan.deletes:
            yield DeleteRows(table, [evolve(delete, timestamp=flag_cell.timestamp) for delete in plan.deletes])
        if (yield CheckAndPut(table, row, flag, claim, Put(row, {flag: planner.schema.flag_value}))):
            return plan.outcome
        if entries:  # a row that was put over the claim hides this insert's columns, but not its map entries
            yield DeleteRows(table, [Delete(row, columns=entries, timestamp=flag_cell.timestamp)])
