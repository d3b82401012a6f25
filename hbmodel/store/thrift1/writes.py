"""Makes calls of the first Thrift gateway from puts and deletes, each with one timestamp and one TTL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from typing import Any

from attrs import define, field

from hbmodel.store.gateway.call_batches import delete_size, put_size, without_rivals
from hbmodel.store.gateway.ttl_attributes import ttl_attributes
from hbmodel.store.gateway.wire.call_sizes import CALL_SIZES, CallSizes
from hbmodel.store.thrift1.service import BatchMutation, Mutation, PutCell, PutRow
from hbmodel.store.values import Delete, Put


@define(eq=False)
class WriteCall:
    """One call of either puts or deletes, to which rows are added until it is sent."""

    timestamp: int | None
    ttl: int | None
    rows: list[Any] = field(factory=list)
    size: int = 0

    def request(self, table: bytes) -> tuple[str, dict[str, Any]]:
        """Returns the name of the call and its arguments. A single row is sent by a special call, which is faster by a
        quarter.
        """
        arguments: dict[str, Any] = {"tableName": table, "attributes": ttl_attributes(self.ttl)}
        if len(self.rows) == 1:
            api = "mutateRow"
            arguments.update(row=self.rows[0].row, mutations=self.rows[0].mutations)
        else:
            api = "mutateRows"
            arguments.update(rowBatches=self.rows)
        if self.timestamp is None:
            return api, arguments
        return api + "Ts", {**arguments, "timestamp": self.timestamp}


def put_calls(puts: Sequence[Put], size: int | None = None, sizes: CallSizes = CALL_SIZES) -> Iterator[WriteCall]:
    """Groups puts into calls. If several puts give a cell the same timestamp, the last one in `puts` wins.

    Args:
        size: the sum of their `put_size`, or None if it is not known.
    """
    if len(puts) == 1:
        yield WriteCall(puts[0].timestamp, puts[0].ttl, [_put_row(puts[0])])
        return
    shared = {(put.timestamp, put.ttl) for put in puts}
    if len(shared) == 1 and size is not None and size <= sizes.write_bytes and len(puts) <= sizes.rows:
        yield WriteCall(*shared.pop(), [_put_row(put) for put in puts], size)
        return
    for run in without_rivals(puts):
        yield from _grouped(((_put_row(put), put_size(put), put.timestamp, put.ttl) for put in run), sizes)


def delete_calls(
    deletes: Sequence[Delete], families: Sequence[bytes], sizes: CallSizes = CALL_SIZES
) -> Iterator[WriteCall]:
    """Groups deletes into calls, by timestamp.

    Args:
        families: all families of the table. A delete of a whole row lists all of them, because the gateway has no batch
            call that deletes whole rows.
    """
    return _grouped((_delete_row(delete, families) for delete in deletes), sizes)


def _put_row(put: Put) -> Any:
    return PutRow(put.row, list(starmap(PutCell, put.cells.items())))


def _delete_row(delete: Delete, families: Sequence[bytes]) -> tuple[Any, int, int | None, int | None]:
    # A name without a colon stands for a family, all cells of which are deleted.
    columns = [*delete.families, *delete.columns] or list(families)
    row = BatchMutation(row=delete.row, mutations=[Mutation(column=column, isDelete=True) for column in columns])
    return row, delete_size(delete.row, columns), delete.timestamp, None


def _grouped(rows: Iterable[tuple[Any, int, int | None, int | None]], sizes: CallSizes) -> Iterator[WriteCall]:
    """Makes calls of bounded size from rows, each of which is given with its size, timestamp and TTL."""
    growing: dict[tuple[int | None, int | None], WriteCall] = {}
    for row, size, timestamp, ttl in rows:
        call = growing.get((timestamp, ttl))
        if call is None or len(call.rows) == sizes.rows or call.size + size > sizes.write_bytes:
            if call is not None:
                yield call
            call = growing[timestamp, ttl] = WriteCall(timestamp, ttl)
        call.rows.append(row)
        call.size += size
    yield from growing.values()
