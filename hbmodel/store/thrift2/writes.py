"""Makes calls of the second Thrift gateway from puts and deletes, each with a separate timestamp and TTL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hbmodel.store.gateway.call_batches import delete_size, in_batches, put_batches, without_rivals
from hbmodel.store.gateway.scanning.scan_calls import Request
from hbmodel.store.gateway.ttl_attributes import ttl_attributes
from hbmodel.store.gateway.wire.call_sizes import CALL_SIZES, CallSizes
from hbmodel.store.thrift2.service import PutCell, PutRow, TColumn, TDelete, TDeleteType, TMutation, TRowMutations
from hbmodel.store.values import Delete, Put


def column_of(column: bytes, timestamp: int | None = None) -> Any:
    """Returns the gateway's description of a column, or of a family if there is no colon."""
    family, colon, qualifier = column.partition(b":")
    return TColumn(family=family, qualifier=qualifier if colon else None, timestamp=timestamp)


def put_requests(
    table: bytes, puts: Sequence[Put], size: int | None = None, sizes: CallSizes = CALL_SIZES
) -> Iterator[Request]:
    """Yields the calls for puts, in order. If several puts give a cell the same timestamp, the last of them wins.

    Args:
        size: the sum of the `put_size` of the puts, or None if it is not known.
    """
    for run in without_rivals(puts):
        for batch in put_batches(run, size, sizes):
            if len(batch) == 1:
                yield "put", {"table": table, "tput": _put(batch[0])}
            else:
                yield "putMultiple", {"table": table, "tputs": [_put(put) for put in batch]}


def delete_requests(table: bytes, deletes: Sequence[Delete], sizes: CallSizes = CALL_SIZES) -> Iterator[Request]:
    """Yields the calls for deletes.

    A delete of the gateway has either families or columns, so a delete of both is sent as an atomic change of its row.
    """
    simple: list[Delete] = []
    for delete in deletes:
        if delete.families and delete.columns:
            yield "mutateRow", {"table": table, "trowMutations": row_mutations([delete])}
        else:
            simple.append(delete)

    def size(delete: Delete) -> int:
        return delete_size(delete.row, (*delete.families, *delete.columns))

    for batch in in_batches(simple, size, sizes.write_bytes, sizes.rows):
        requests = [part for delete in batch for part in _deletes(delete)]
        if len(requests) == 1:
            yield "deleteSingle", {"table": table, "tdelete": requests[0]}
        else:
            yield "deleteMultiple", {"table": table, "tdeletes": requests}


def row_mutations(mutations: Sequence[Put | Delete]) -> Any:
    """Returns the gateway's description of changes of one row that are applied atomically and in order."""
    row_parts: list[Any] = []
    for mutation in mutations:
        if isinstance(mutation, Put):
            row_parts.append(TMutation(put=_put(mutation)))
        else:
            row_parts += [TMutation(deleteSingle=part) for part in _deletes(mutation)]
    return TRowMutations(row=mutations[0].row, mutations=row_parts)


def _put(put: Put) -> Any:
    cells = []
    for column, value in put.cells.items():
        family, _, qualifier = column.partition(b":")
        cells.append(PutCell(family, qualifier, value))
    return PutRow(put.row, cells, put.timestamp, ttl_attributes(put.ttl) or None)


def _deletes(delete: Delete) -> Iterator[Any]:
    # HBase uses the time of a TDelete only for whole rows. For columns, it uses the times of the columns. DELETE_FAMILY
    # is the only kind of delete that also deletes the older cells of a family.
    row, timestamp = delete.row, delete.timestamp
    if not delete.families and not delete.columns:
        yield TDelete(row=row, timestamp=timestamp)
    for names, kind in ((delete.families, TDeleteType.DELETE_FAMILY), (delete.columns, TDeleteType.DELETE_COLUMNS)):
        if names:
            yield TDelete(row=row, columns=[column_of(name, timestamp) for name in names], deleteType=kind)
