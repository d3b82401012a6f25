"""Divides the key ranges of a plan into partitions along region boundaries, and restricts a plan to one partition."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from attrs import evolve

from hbmodel.errors import QueryError
from hbmodel.query.ask.query_partition import QueryPartition
from hbmodel.query.match.plan import Bucket, Plan
from hbmodel.store.ranges import KeyRange, merge_ranges

Unit = Sequence[KeyRange]
"""Key ranges that belong to the same partition."""


def partition(plan: Plan, region_starts: Sequence[bytes], count: int) -> list[Sequence[KeyRange]]:
    """Divides the key ranges of a plan into at most `count` partitions, so that every key is in one of them.

    A unit is the intersection of a range and a region, or a row that is read by its key. Each partition consists of
    successive units; the numbers of units in two partitions differ by at most one. There are fewer partitions than
    requested if there are fewer units.

    Args:
        plan: the plan of the query.
        region_starts: first keys of the regions of the path's table.

    Returns:
        The partitions in the direction of the plan, none of them empty.
    """
    units = _units(plan, sorted(set(region_starts)))
    parts = min(count, len(units))
    bounds = [len(units) * number // parts for number in range(parts + 1)] if parts else []
    partitions = [
        merge_ranges(itertools.chain.from_iterable(units[low:high])) for low, high in itertools.pairwise(bounds)
    ]
    return partitions[::-1] if plan.backwards else partitions


def _units(plan: Plan, region_starts: Sequence[bytes]) -> list[Unit]:
    position = plan.path.position
    if plan.rows is not None:
        rows = sorted(plan.rows, key=position)
        return [tuple(KeyRange.exactly(row) for row in same) for _, same in itertools.groupby(rows, key=position)]
    if plan.path.salt.random:
        # Rows that have the same key in several buckets are one object, so every bucket is cut at the same keys.
        width = plan.path.salt.width
        starts = {start[width:] for start in region_starts} | {
            r.start[width:] for bucket in plan.buckets for r in bucket.ranges
        }
        cuts = sorted(starts | {b""})
        cut = [_cut_bucket(bucket, cuts) for bucket in plan.buckets]
        units = [tuple(itertools.chain.from_iterable(pieces)) for pieces in zip(*cut, strict=True)]
        return [unit for unit in units if unit]
    pieces = [
        piece for bucket in plan.buckets for key_range in bucket.ranges for piece in _cut(key_range, region_starts)
    ]
    return [(piece,) for piece in sorted(pieces, key=lambda piece: piece.start)]


def _cut_bucket(bucket: Bucket, cuts: Sequence[bytes]) -> Sequence[Sequence[KeyRange]]:
    """For each interval from one cut to the next, the ranges of a bucket in this interval. The last interval has no
    end. The cuts are keys without the bucket's prefix.
    """
    starts = [bucket.prefix + cut for cut in cuts]
    pieces: list[list[KeyRange]] = [[] for _ in cuts]
    for key_range in bucket.ranges:
        for piece in _cut(key_range, starts):
            pieces[bisect_right(starts, piece.start) - 1].append(piece)
    return pieces


def _cut(key_range: KeyRange, cuts: Sequence[bytes]) -> list[KeyRange]:
    """Cuts a range at the cuts inside it; `cuts` is sorted."""
    last = len(cuts) if key_range.stop is None else bisect_left(cuts, key_range.stop)
    bounds = [key_range.start, *cuts[bisect_right(cuts, key_range.start) : last]]
    return [KeyRange(low, high) for low, high in itertools.pairwise([*bounds, key_range.stop]) if low is not None]


def _common(ranges: Sequence[KeyRange], limits: Sequence[KeyRange]) -> list[KeyRange]:
    """Returns the intersection of two lists of ranges, each sorted and disjoint."""
    starts = [limit.start for limit in limits]
    common_ranges: list[KeyRange] = []
    for key_range in ranges:
        first = max(0, bisect_right(starts, key_range.start) - 1)
        last = len(starts) if key_range.stop is None else bisect_left(starts, key_range.stop)
        common_ranges += [common for limit in limits[first:last] if not (common := key_range.intersect(limit)).empty]
    return common_ranges


def within(plan: Plan, partition: QueryPartition[object]) -> Plan:
    """Returns the plan, restricted to the keys of one partition.

    Raises:
        QueryError: the plan and the partition read different tables, because the index was rebuilt after the query was
            divided.
    """
    if (plan.path.name, plan.path.table) != (partition.path, partition.table):
        raise QueryError(
            "The partition does not belong to the table that the query would read now: call partitions() again.",
            table=plan.path.table,
            partition=partition.table,
        )
    limits = partition.key_ranges
    buckets = [evolve(bucket, ranges=_common(bucket.ranges, limits)) for bucket in plan.buckets]
    rows = plan.rows
    if rows is not None:
        starts = [limit.start for limit in limits]
        rows = [row for row in rows if (at := bisect_right(starts, row)) and row in limits[at - 1]]
    return evolve(plan, buckets=[bucket for bucket in buckets if bucket.ranges], rows=rows)
