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
"""Bytes of a key by which its place among others is found."""


@frozen
class Sample:
    """Some rows of a table, or all of them.

    Attributes:
        batches: of rows.
        share: of the keys that the table spans, an estimate of the share of its rows.
    """

    batches: Iterable[Sequence[Row]]
    share: float


def sample_rows(store: Store, table: str, count: int, columns: Sequence[bytes], only: Filter | None = None) -> Sample:
    """About `count` rows, from random places between the first row and the last one.

    Places are even in the space of keys, not in the number of rows: a cluster of keys may be looked at seldom.

    Args:
        store: that holds the table.
        table: to sample.
        count: of rows, at least 1.
        columns: to read of them.
        only: what of their cells is read, or None.
    """
    first, last = _end(store, table, False), _end(store, table, True)
    if first is None or last is None:
        return Sample((), 1.0)
    low, high = _place(first), _place(last)
    places = min(PLACES, max(1, count // 10))
    starts = sorted({first, *(random.randint(low, high).to_bytes(WIDTH).rstrip(b"\x00") for _ in range(places - 1))})
    limit = max(1, count // len(starts))
    found: list[Sequence[Row]] = []
    after, covered = b"", 0
    for start in starts:
        begin = max(start, after)
        (batches,) = store.scan(table, [Scan(KeyRange(begin), columns=columns, filter=only, limit=limit, batch_size=limit)])
        for batch in batches:
            found.append(batch)
            after = batch[-1].row + b"\x00"
        covered += max(0, _place(max(after, begin)) - _place(begin))
    return Sample(found, min(1.0, max(covered, 1) / max(high - low, 1)))


def _place(key: bytes) -> int:
    """The position of a key among all keys."""
    return int.from_bytes(key[:WIDTH].ljust(WIDTH, b"\x00"))


def _end(store: Store, table: str, backwards: bool) -> bytes | None:
    (batches,) = store.scan(table, [Scan(filter=FirstCellOnly(), limit=1, batch_size=1, reversed=backwards)])
    for batch in batches:
        return batch[0].row
    return None
