"""Builds an index in a process of a pool, which opens its own store from a URL, because a store cannot be pickled."""

from __future__ import annotations

import os
from multiprocessing.synchronize import Barrier

import hbmodel as hb
from tests.support.faulty import RecordingStore

TIMES = hb.indexes.IndexTimes(lease=1, longest_call=1, clock_bound=1, grace=10)


@hb.model(table="spawned", family="d")
class Plain:
    number: hb.Key[int] = hb.key(hb.UInt32)
    group: hb.Column[int] = hb.column("g", hb.codecs.UInt8)


@hb.model(table="spawned", family="d")
class Grouped:
    number: hb.Key[int] = hb.key(hb.UInt32)
    group: hb.Column[int] = hb.column("g", hb.codecs.UInt8)

    by_group = hb.index("group")


def begin_together(barrier: Barrier) -> None:
    """Waits until every process of the pool has been started."""
    barrier.wait(60)


def build(url: str) -> tuple[int, bool, int, int]:
    """Builds an index together with other processes. Returns the id of this process, whether the index is readable, the
    number of all rows, and the number of entries that were put.
    """
    with RecordingStore(hb.connect(url)) as store:
        built = hb.indexes.build_index(store, Grouped, "by_group", times=TIMES, batch_size=10, rows_per_second=100)
        entries = sum(len(call.items) for call in store.calls if str(call) == "put spawned.by_group")
    return os.getpid(), built.readable, built.rows, entries
