"""Rows from all over a table, read by a few short scans that begin at random keys."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from attrs import frozen

from hbmodel.store.filters import Filter, FirstCellOnly
from hbmodel.store.port import Store
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Row, Scan

PLACES = 20
"""Scans of one sample, at most."""

WIDTH = 24
"""Bytes of a key by which its place among others is found, behind those that all keys have in common."""

EVEN = 100
"""Rows are spread evenly enough to be counted by their keys if the places where they are closest have so many times
as many as others.
"""


@frozen
class Sample:
    """Some rows of a table, or all of them.

    Attributes:
        batches: the batches of rows.
        share: of the rows of the table, as an estimate; None where the distances of the rows found are too different
            for one.
    """

    batches: Iterable[Sequence[Row]]
    share: float | None


def sample_rows(store: Store, table: str, count: int, columns: Sequence[bytes], only: Filter | None = None) -> Sample:
    """About `count` rows, from random places between the first row and the last one.

    Places are even in the space of keys, not in the number of rows: a cluster of keys may be looked at seldom.

    Args:
        store: the store that holds the table.
        table: the table to sample.
        count: of rows, at least 1.
        columns: the columns to read of them.
        only: what of their cells is read, or None.
    """
    first, last = _end(store, table, False), _end(store, table, True)
    if first is None or last is None:
        return Sample((), 1.0)
    common = first[
        : next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    ]
    low, high = _place(first, common), _place(last, common)
    places = min(PLACES, max(2, count // 10), count)
    starts = sorted(
        {first, *(common + random.randint(low, high).to_bytes(WIDTH).rstrip(b"\x00") for _ in range(places - 1))}
    )
    limit = max(1, count // len(starts))
    found: list[Sequence[Row]] = []
    runs: list[_Run] = []
    after = b""
    for start in starts:
        begin, rows = max(start, after), 0
        (batches,) = store.scan(
            table, [Scan(KeyRange(begin), columns=columns, filter=only, limit=limit, batch_size=limit)]
        )
        for batch in batches:
            found.append(batch)
            rows += len(batch)
            after = batch[-1].row + b"\x00"
        if rows:
            # The first scan begins at a row, not at a random place before one.
            runs.append(_Run(rows - (begin == first), max(1, _place(after, common) - _place(begin, common))))
        if rows < limit:  # the end of the table
            break
    whole = len(found) == 1 and len(found[0]) < limit
    return Sample(found, 1.0 if whole else _share(runs, max(1, high - low)))


@frozen
class _Run:
    """What one scan read.

    Attributes:
        rows: the rows that have a distance to what is before them.
        length: the length of the keys from the beginning of the scan to its last row.
    """

    rows: int
    length: int


def _share(runs: Sequence[_Run], length: int) -> float | None:
    """The share of a table's rows, if the rows are spread evenly over `length` keys."""
    # A scan that begins at random among clusters of rows begins in a gap, and the rows behind it are much closer to
    # each other.
    dense = [run.rows / run.length for run in runs if run.rows]
    if len(dense) < 2 or max(dense) > EVEN * min(dense):
        return None
    return min(1.0, sum(run.length for run in runs) / length)


def _place(key: bytes, common: bytes) -> int:
    """The position of a key among all that begin with the same bytes."""
    return int.from_bytes(key[len(common) : len(common) + WIDTH].ljust(WIDTH, b"\x00"))


def _end(store: Store, table: str, backwards: bool) -> bytes | None:
    (batches,) = store.scan(table, [Scan(filter=FirstCellOnly(), limit=1, batch_size=1, reversed=backwards)])
    for batch in batches:
        return batch[0].row
    return None
