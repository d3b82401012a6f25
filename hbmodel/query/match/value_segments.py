"""Ranges of values of one key field, as bytes, each with the remaining conditions of a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hbmodel.mapping.predicates import And, Or, Predicate

Left = bool | Predicate
"""What remains of a condition: a predicate that must still be checked, or True if the condition holds. False does not
occur in segments, because a range in which a condition cannot hold is left out.
"""


class Segment(NamedTuple):
    """A range of values of one field, as bytes, and what remains of each condition of the query for values in this
    range.
    """

    start: bytes
    stop: bytes | None
    left: tuple[Left, ...]


EVERY = (b"", None)
"""The range of all values of a field."""


def as_one(segment: Segment) -> Segment:
    """Returns the same segment, with all remaining conditions joined into one."""
    left = [tree for tree in segment.left if not isinstance(tree, bool)]
    condition = all_of(left)
    return Segment(segment.start, segment.stop, (condition,))


def all_of(trees: Sequence[Predicate]) -> Left:
    """Returns the remaining condition if all of these must hold; True if there are none."""
    return True if not trees else trees[0] if len(trees) == 1 else And(tuple(trees))


def any_of(trees: Sequence[Predicate]) -> Left:
    """Returns the remaining condition if at least one of these must hold; False if there are none."""
    return False if not trees else trees[0] if len(trees) == 1 else Or(tuple(trees))


def _below(stop: bytes | None, other: bytes | None) -> bool:
    """Whether the end `stop` is before the end `other`; None is after everything."""
    return stop is not None and (other is None or stop < other)


def both(left: Sequence[Segment], right: Sequence[Segment]) -> list[Segment]:
    """Returns the segments of the values that are in both lists, with the conditions of both."""
    segments: list[Segment] = []
    at = to = 0
    while at < len(left) and to < len(right):
        a, b = left[at], right[to]
        start, stop = max(a.start, b.start), a.stop if _below(a.stop, b.stop) else b.stop
        if stop is None or start < stop:
            segments.append(Segment(start, stop, a.left + b.left))
        if _below(a.stop, b.stop):
            at += 1
        else:
            to += 1
    return segments


def either(sides: Sequence[Sequence[Segment]]) -> list[Segment]:
    """Returns the segments of the values that are in at least one of these lists. Each given segment has one condition;
    where segments overlap, one of their conditions must hold.
    """
    events: dict[bytes, list[tuple[int, Left | None]]] = {}
    for number, segments in enumerate(sides):
        for segment in segments:
            if segment.stop is not None:
                # at the same place, the end of one segment is handled before the start of another
                events.setdefault(segment.stop, []).insert(0, (number, None))
            events.setdefault(segment.start, []).append((number, segment.left[0]))
    places = sorted(events)
    active: dict[int, Left] = {}
    settling: set[int] = set()
    either_segments: list[Segment] = []
    for start, stop in zip(places, [*places[1:], None], strict=False):
        for number, left in events[start]:
            settling.discard(number)
            if left is None:
                active.pop(number, None)
            else:
                active[number] = left
                if left is True:
                    settling.add(number)
        if settling:
            either_segments.append(Segment(start, stop, (True,)))
        elif active:
            trees = list({id(tree): tree for tree in active.values() if not isinstance(tree, bool)}.values())
            either_segments.append(Segment(start, stop, (trees[0] if len(trees) == 1 else Or(tuple(trees)),)))
    return either_segments
