"""Puts and deletes as calls of the first Thrift gateway, each of which has room for one timestamp and one TTL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import field, frozen

from hbmodel.store import Delete, Put
from hbmodel.stores.operation_attributes import ttl_attributes
from hbmodel.stores.portions import MAX_BYTES, MAX_ROWS, without_rivals
from hbmodel.stores.thrift1_service import BatchMutation, Mutation

# What Thrift's binary protocol adds to a row and to a cell, roughly.
_ROW_OVERHEAD = 24
_CELL_OVERHEAD = 24


@frozen
class WriteCall:
    """Puts or deletes, never both, that go in one call."""

    timestamp: int | None
    ttl: int | None
    rows: list[Any] = field(factory=list)

    def request(self, table: bytes) -> tuple[str, dict[str, Any]]:
        """The name of the call and its arguments; a single row has calls of its own, which take a quarter less time."""
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


def put_calls(puts: Sequence[Put]) -> Iterator[WriteCall]:
    """Puts, grouped by what a call has room for; of puts of the same cell at the same time the last one given wins."""
    for run in without_rivals(puts):
        yield from _grouped((_put_row(put), _size(put.row, put.cells.items()), put.timestamp, put.ttl) for put in run)


def delete_calls(deletes: Sequence[Delete], families: Sequence[bytes]) -> Iterator[WriteCall]:
    """Deletes, grouped by timestamp.

    Args:
        deletes: what to delete.
        families: all families of the table, for the deletes of whole rows; the gateway has no batch call for those.
    """
    return _grouped(_delete_row(delete, families) for delete in deletes)


def _put_row(put: Put) -> Any:
    return BatchMutation(row=put.row, mutations=[Mutation(column=column, value=value) for column, value in put.cells.items()])


def _delete_row(delete: Delete, families: Sequence[bytes]) -> tuple[Any, int, int | None, int | None]:
    # A column without a colon is a family, and goes with all its cells.
    columns = [*delete.families, *delete.columns] or list(families)
    row = BatchMutation(row=delete.row, mutations=[Mutation(column=column, isDelete=True) for column in columns])
    return row, _size(delete.row, ((column, b"") for column in columns)), delete.timestamp, None


def _size(row: bytes, cells: Iterable[tuple[bytes, bytes]]) -> int:
    return _ROW_OVERHEAD + len(row) + sum(_CELL_OVERHEAD + len(column) + len(value) for column, value in cells)


def _grouped(rows: Iterable[tuple[Any, int, int | None, int | None]]) -> Iterator[WriteCall]:
    """Calls of bounded size, from rows with their size, timestamp and TTL."""
    growing: dict[tuple[int | None, int | None], tuple[WriteCall, int]] = {}
    for row, size, timestamp, ttl in rows:
        call, so_far = growing.get((timestamp, ttl)) or (WriteCall(timestamp, ttl), 0)
        if call.rows and (len(call.rows) == MAX_ROWS or so_far + size > MAX_BYTES):
            yield call
            call, so_far = WriteCall(timestamp, ttl), 0
        call.rows.append(row)
        growing[timestamp, ttl] = (call, so_far + size)
    for call, _ in growing.values():
        yield call
