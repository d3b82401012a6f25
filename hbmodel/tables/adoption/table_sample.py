"""Reads rows from the start, the middle and the end of every region of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from hbmodel.store.filters import Pagination
from hbmodel.store.port import Store
from hbmodel.store.ranges import KeyRange, key_successor
from hbmodel.store.values import Row, Scan

CELLS = 1_000
"""Of each row, at most this many cells are read, from the beginning."""

AT_ONCE = 20
"""The maximum number of rows that a scan returns in one batch. It is small because rows of `CELLS` cells can be
large.
"""

PLACES = 5
"""The maximum number of scans that begin between the first and the last sampled rows of a region."""

WIDTH = 24
"""How many bytes after the common prefix of two keys are used to compute a key halfway between them."""


def sampled_rows(store: Store, table: str, count: int, families: Sequence[bytes] = ()) -> Iterator[Row]:
    """Yields about `count` rows, each once, or all rows if the table has fewer.

    The first and the last rows of each region are read, and rows from evenly spread places between them. If there are
    more regions than rows to read, only some of the regions are read, evenly spread over the table.

    Args:
        families: the families to read; rows without a cell in them are left out. By default all families.
    """
    regions = [region.range for region in store.regions(table)]
    chosen = regions[:: -(-len(regions) // count)]
    share = -(-count // max(1, len(chosen)))
    for region in chosen:
        yield from _of_region(store, table, region, share, families)


def _of_region(store: Store, table: str, region: KeyRange, count: int, families: Sequence[bytes]) -> Iterator[Row]:
    """Yields the first rows of a region, then the last ones backwards, then rows between them."""
    read = partial(_read, store, table, families)
    part = -(-count // 3)
    found, row = 0, None
    for row in read(region, part):
        found += 1
        yield row
    if row is None or found < part or part == count:
        return
    rest = KeyRange(key_successor(row.row), region.stop)
    found, row = 0, None
    for row in read(rest, part, backwards=True):
        found += 1
        yield row
    if row is not None and found == part and count > 2 * part:
        places = _spread(rest.start, row.row, min(PLACES, count - 2 * part))
        limit = -(-(count - 2 * part) // len(places))
        after, stop = rest.start, row.row
        for place in places:
            for row in read(KeyRange(max(place, after), stop), limit):
                after = key_successor(row.row)
                yield row


def _read(
    store: Store, table: str, families: Sequence[bytes], rows: KeyRange, limit: int, *, backwards: bool = False
) -> Iterator[Row]:
    if rows.stop is not None and rows.start >= rows.stop:
        return iter(())
    scan = Scan(
        rows,
        reversed=backwards,
        columns=families,
        filter=Pagination(CELLS, 0),
        limit=limit,
        batch_size=min(limit, AT_ONCE),
    )
    (batches,) = store.scan(table, [scan])
    return chain.from_iterable(batches)


def _spread(low: bytes, high: bytes, count: int) -> Sequence[bytes]:
    """Returns `count` keys that are evenly spread between the keys `low` and `high`."""
    common = next((at for at, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), len(low))
    first, last = (int.from_bytes(key[common : common + WIDTH].ljust(WIDTH, b"\x00")) for key in (low, high))
    step = (last - first) / (count + 1)
    return [low[:common] + (first + int(step * at)).to_bytes(WIDTH) for at in range(1, count + 1)]
