"""Rows from the start, the middle and the end of every region of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from hbmodel.store.filters import Pagination
from hbmodel.store.port import Store
from hbmodel.store.ranges import KeyRange, key_successor
from hbmodel.store.values import Row, Scan

CELLS = 1_000
"""The number of cells that are read of a row, at most: the first ones."""

PLACES = 5
"""The number of scans that begin between the first and the last sampled rows of a region, at most."""

WIDTH = 24
"""How many bytes of a key, after the prefix that it shares with another one, decide what is halfway between them."""


def sampled_rows(store: Store, table: str, count: int) -> Iterator[Row]:
    """About so many rows, each once. If the table has fewer rows, all of them.

    Each region contributes its first rows, its last ones, and rows that follow keys which are evenly spread between
    these. If there are more regions than rows to read, only some of the regions are read, evenly spread over the table.
    """
    regions = [region.range for region in store.regions(table)]
    chosen = regions[:: -(-len(regions) // count)]
    share = -(-count // max(1, len(chosen)))
    for region in chosen:
        yield from _of_region(store, table, region, share)


def _of_region(store: Store, table: str, region: KeyRange, count: int) -> Iterator[Row]:
    part = -(-count // 3)
    head = _read(store, table, region, part)
    yield from head
    if len(head) < part or part == count:
        return
    rest = KeyRange(key_successor(head[-1].row), region.stop)
    tail = _read(store, table, rest, part, backwards=True)
    if len(tail) == part and count > 2 * part:
        places = _spread(rest.start, tail[-1].row, min(PLACES, count - 2 * part))
        limit = -(-(count - 2 * part) // len(places))
        after = rest.start
        for place in places:
            middle = _read(store, table, KeyRange(max(place, after), tail[-1].row), limit)
            yield from middle
            if middle:
                after = key_successor(middle[-1].row)
    yield from reversed(tail)


def _read(store: Store, table: str, rows: KeyRange, limit: int, *, backwards: bool = False) -> Sequence[Row]:
    if rows.stop is not None and rows.start >= rows.stop:
        return ()
    scan = Scan(rows, reversed=backwards, filter=Pagination(CELLS, 0), limit=limit, batch_size=min(limit, 100))
    (batches,) = store.scan(table, [scan])
    return list(chain.from_iterable(batches))


def _spread(low: bytes, high: bytes, count: int) -> Sequence[bytes]:
    """So many keys from `low` on, evenly spread below `high`."""
    common = next((at for at, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), len(low))
    first, last = (int.from_bytes(key[common : common + WIDTH].ljust(WIDTH, b"\x00")) for key in (low, high))
    step = (last - first) / (count + 1)
    return [low[:common] + (first + int(step * at)).to_bytes(WIDTH) for at in range(1, count + 1)]
