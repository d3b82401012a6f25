"""Reads a scan in batches, each with a time after which its rows were read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hbmodel.protocol.driver import Clock
from hbmodel.store.port import Store
from hbmodel.store.values import Row, Scan
from hbmodel.store.wide.slices import closing_scan


def timed_batches(store: Store, table: str, scan: Scan, clock: Clock) -> Iterator[tuple[Sequence[Row], int]]:
    """Yields the rows of a scan in batches. Each batch has a reading of the server's clock from before the batch was
    read.
    """
    read_at = following = clock.now()
    (batches,) = store.scan(table, [scan])
    with closing_scan(batches):
        for batch in batches:
            yield batch, read_at
            read_at, following = following, clock.now()  # a store may fetch a batch ahead
