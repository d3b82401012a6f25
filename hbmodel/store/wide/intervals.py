"""Functions that cut sorted, disjoint ranges of qualifiers."""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.store.ranges import prefix_successor

Interval = tuple[bytes, bytes | None]
"""A range of qualifiers, from the first one (inclusive) to the second one (exclusive); None means that it has no end.
"""

EVERY_COLUMN: Sequence[Interval] = ((b"", None),)


def starting(ranges: Sequence[Interval], first: bytes) -> list[Interval]:
    """Returns the part of the ranges from a qualifier on."""
    return [(max(first, start), stop) for start, stop in ranges if stop is None or stop > first]


def behind(ranges: Sequence[Interval], prefix: bytes) -> list[Interval]:
    """Returns the part of the ranges after all qualifiers with a prefix."""
    stop = prefix_successor(prefix)
    return [] if stop is None else starting(ranges, stop)


def until(ranges: Sequence[Interval], stop: bytes) -> list[Interval]:
    """Returns the part of the ranges below a qualifier."""
    return [(first, stop if end is None else min(end, stop)) for first, end in ranges if first < stop]


def within(ranges: Sequence[Interval], first: bytes, stop: bytes | None) -> list[Interval]:
    """Returns the part of the ranges from a qualifier on and below another."""
    return starting(ranges if stop is None else until(ranges, stop), first)
