"""Reads rows from all parts of a table, with a few short scans that begin at random keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen

from hbmodel.store.filters import Filter, FirstCellOnly
from hbmodel.store.jitter import jitter
from hbmodel.store.port import Store
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Row, Scan

SAMPLE = 100
"""How many rows of each table `diff` searches for columns that no model declares, for missing required columns, and for
members of enumerations that are about to be removed from the registry.
"""

PLACES = 20
"""The maximum number of scans that read one sample."""

WIDTH = 24
"""How many bytes of a key, after the common prefix of all keys, are used to compute its position among the other
keys.
"""

EVEN = 100
"""The share of a sample is estimated only if the density of rows in the densest place is at most this many times the
density in the sparsest place.
"""


@frozen
class Sample:
    """Some rows of a table, or all of them.

    Attributes:
        share: the estimated share of the table's rows that are in the sample; None if the distances between the rows
            are too different for an estimate.
    """

    batches: Iterable[Sequence[Row]]
    share: float | None


def sample_rows(store: Store, table: str, count: int, columns: Sequence[bytes], only: Filter | None = None) -> Sample:
    """Returns about `count` rows from random places between the first and the last row.

    The places are spread evenly over the space of keys, and not over the rows. So a cluster of keys may contain few of
    these places, or none.

    Args:
        count: how many rows, at least 1.
        only: a filter for the cells of the rows, or None.
    """
    first, last = _end(store, table, False), _end(store, table, True)
    if first is None or last is None:
        return Sample((), 1.0)
    if last < first:  # rows were deleted or put between the two reads
        first, last = b"", first
    common = first[
        : next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    ]
    low, high = _place(first, common), _place(last, common)
    places = min(PLACES, max(2, count // 10), count)
    starts = sorted(
        {first, *(common + jitter.randint(low, high).to_bytes(WIDTH).rstrip(b"\x00") for _ in range(places - 1))}
    )
    limit = max(1, count // len(starts))
    batches_read: list[Sequence[Row]] = []
    runs: list[_Run] = []
    after = b""
    for start in starts:
        begin, rows = max(start, after), 0
        (batches,) = store.scan(
            table, [Scan(KeyRange(begin), columns=columns, filter=only, limit=limit, batch_size=limit)]
        )
        for batch in batches:
            batches_read.append(batch)
            rows += len(batch)
            after = batch[-1].row + b"\x00"
        if rows:
            # The first scan begins exactly at the first row, not at a random key before the row. So this row is not
            # counted.
            runs.append(_Run(rows - (begin == first), max(1, _place(after, common) - _place(begin, common))))
        if rows < limit:  # the scan reached the end of the table
            break
    whole = len(batches_read) == 1 and len(batches_read[0]) < limit
    return Sample(batches_read, 1.0 if whole else _share(runs, max(1, high - low)))


@frozen
class _Run:
    """The number and distance of the rows that one scan read.

    Attributes:
        rows: the number of rows, without the row at which the scan begins exactly.
        length: the distance, in the space of keys, from the beginning of the scan to its last row.
    """

    rows: int
    length: int


def _share(runs: Sequence[_Run], length: int) -> float | None:
    """Returns the share of the table's rows that was read, or None if the rows are not spread evenly over the `length`
    keys.
    """
    # If the rows are in clusters, a scan from a random key usually begins in a gap, and the rows after the gap are much
    # closer together.
    dense = [run.rows / run.length for run in runs if run.rows]
    if len(dense) < 2 or max(dense) > EVEN * min(dense):
        return None
    return min(1.0, sum(run.length for run in runs) / length)


def _place(key: bytes, common: bytes) -> int:
    """Returns the position of a key among all keys that begin with `common`."""
    return int.from_bytes(key[len(common) : len(common) + WIDTH].ljust(WIDTH, b"\x00"))


def _end(store: Store, table: str, backwards: bool) -> bytes | None:
    (batches,) = store.scan(table, [Scan(filter=FirstCellOnly(), limit=1, batch_size=1, reversed=backwards)])
    for batch in batches:
        return batch[0].row
    return None
