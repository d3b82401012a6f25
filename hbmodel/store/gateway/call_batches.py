"""Splits long lists into batches, one for each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from hbmodel.errors import InvalidRequest
from hbmodel.store.checks.rows import LATEST, check_column, check_put
from hbmodel.store.gateway.wire.call_sizes import CALL_SIZES, CallSizes
from hbmodel.store.values import MAX_CELL_SIZE, MAX_ROW_LENGTH, Put

T = TypeVar("T")

ROW_OVERHEAD = 64
"""The maximum number of bytes that a row adds to a call in addition to its key and cells, with any gateway and
protocol.
"""

THRIFT_CELL_OVERHEAD = 32
"""The number of bytes that a cell adds to a call in addition to its column and value."""


def put_size(put: Put) -> int:
    """Returns an estimate of the bytes that a put needs in a call. It is larger than the size that HBase counts for any
    cell of the put. Raises TypeError if values are not bytes.
    """
    row, cells = put.row, put.cells
    return (
        ROW_OVERHEAD
        + len(row)
        + THRIFT_CELL_OVERHEAD * len(cells)
        + sum(map(len, cells))
        + len(b"".join(cells.values()))
    )


def delete_size(row: bytes, names: Iterable[bytes]) -> int:
    """Returns an estimate of the bytes that a delete of these families and columns of a row needs in a call."""
    return ROW_OVERHEAD + len(row) + sum(THRIFT_CELL_OVERHEAD + len(name) for name in names)


def put_batches(puts: Sequence[Put], size: int | None = None, sizes: CallSizes = CALL_SIZES) -> Iterator[Sequence[Put]]:
    """Divides puts into lists, one for each call. `size` is the sum of their `put_size`, if it is known."""
    if size is not None and size <= sizes.write_bytes and 0 < len(puts) <= sizes.rows:
        return iter((puts,))
    return in_batches(puts, put_size, sizes.write_bytes, sizes.rows)


def in_batches(items: Iterable[T], size: Callable[[T], int], most_bytes: int, most_items: int) -> Iterator[list[T]]:
    """Divides items into lists of at most `most_bytes` and `most_items`. A list with only one item may have more
    bytes.
    """
    batch: list[T] = []
    total = 0
    for item in items:
        added = size(item)
        if batch and (len(batch) == most_items or total + added > most_bytes):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += added
    if batch:
        yield batch


def without_rivals(puts: Sequence[Put]) -> Iterator[Sequence[Put]]:
    """Divides puts into runs in which no row has two puts with the same timestamp but different TTLs.

    If two such puts are applied in order, the later one is visible until it expires, and then the earlier one becomes
    visible. In one call, they might be applied in the wrong order, or the later one might replace the earlier one.
    """
    if len(puts) == 1 or len({put.ttl for put in puts}) < 2:
        yield puts
        return
    run: list[Put] = []
    ttls: dict[tuple[bytes, int | None], int | None] = {}
    for put in puts:
        if ttls.setdefault((put.row, put.timestamp), put.ttl) != put.ttl:
            yield run
            run, ttls = [], {(put.row, put.timestamp): put.ttl}
        run.append(put)
    yield run


_BYTES = frozenset({bytes})


@lru_cache(1000, typed=True)
def _checked(*columns: bytes) -> Sequence[bytes]:
    for column in columns:
        check_column("", column)
    return columns


def check_puts(table: str, puts: Iterable[Put]) -> int:
    """Checks many puts like `check_put`, but faster, because puts that are obviously valid are not checked cell by
    cell. Returns the sum of their `put_size`.
    """
    known: set[bytes] = set()
    total = 0
    for put in puts:
        cells, timestamp = put.cells, put.timestamp
        try:
            size = put_size(put)
            if not known.issuperset(cells):
                known.update(_checked(*cells))
        except (TypeError, InvalidRequest):
            check_put(table, put)
            raise
        total += size
        if (
            cells
            and _BYTES.issuperset(map(type, cells.values()))
            and put.ttl is None
            and (timestamp is None or (type(timestamp) is int and 0 <= timestamp < LATEST))
            and type(put.row) is bytes
            and 0 < len(put.row) <= MAX_ROW_LENGTH
            and size <= MAX_CELL_SIZE
        ):
            continue
        check_put(table, put)
    return total
