"""Searches for the place where the columns of a row end, with several reads of a few keys in each round trip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from attrs import frozen

from hbmodel.store.ranges import key_successor, prefix_successor
from hbmodel.store.wide.backwards.portions import Portions
from hbmodel.store.wide.backwards.qualifier_distances import distance, mean_distance
from hbmodel.store.wide.intervals import Interval, starting, until

Probes = Callable[[Sequence[Interval], Sequence[bytes], int], Sequence[Sequence[bytes]]]
"""A function with the arguments ranges, places and a number. In one round trip, it reads for each place at most that
number of qualifiers, which are in the ranges and not before the place.
"""

_PROBES = 12
"""The number of places that are read in one round trip.

With more places, a search needs fewer round trips, but more scans in all. If everything runs on one machine, a scan
costs about a quarter of a round trip, and a search is fastest with 6 to 12 places. Over a network, round trips cost
more.
"""

_ROUNDS = 12
"""The number of round trips after which the search ends with its results so far."""

_NEAR = 2
"""The search ends when the end of the columns is at most about this many portions after the last known object."""

_CELLS = (4, 16)
"""The minimum and the maximum number of keys that a probe reads. A probe should find at least two objects."""


@frozen
class RowEnd:
    """The result of a search.

    Attributes:
        stop: a place after all objects; None if there may be objects up to the end of the ranges.
        start: the probable beginning of the last portion.
        spacing: the approximate distance between two objects in that portion.
    """

    stop: bytes | None
    start: bytes
    spacing: Fraction


@frozen
class EndSearch:
    """Searches for the end of the columns of one row.

    Each round trip reads at several places. In the first round trip, the distances of the places double or grow even
    faster, so that the search is fast for any position of the end. In later rounds, they divide the remaining range
    evenly. If the end is before the first of these places, the distances grow again.
    """

    portions: Portions
    probes: Probes

    def end(
        self,
        ranges: Sequence[Interval],
        known: bytes | None,
        spacing: Fraction,
        wanted: int,
        *,
        near_stop: bool = False,
    ) -> RowEnd:
        """Searches for the last objects in some ranges.

        Args:
            known: the place of an object in the ranges, or None.
            spacing: the distance between two objects; 0 if it is not known.
            wanted: the number of objects in a portion.
            near_stop: whether the end of the columns is probably closer to the end of the ranges than to the known
                place.
        """
        portions, before = self.portions, list(ranges)
        low, stop = known, None
        cells = min(max(_CELLS[0], portions.cells_of_object + 1), _CELLS[1])
        evenly = ended = False
        for _ in range(_ROUNDS):
            rest = before if low is None else starting(before, key_successor(low))
            length, gap = portions.length(wanted, spacing), distance(rest)
            if ended or not gap or (low is not None and gap <= _NEAR * length):
                break
            lengths = _even(gap) if evenly else _growing(length or gap / 2**64, gap)
            from_stop = near_stop and not evenly
            near_stop = False
            places = {portions.start(rest, each if from_stop else gap - each) for each in lengths}
            places = {place for place in places if place > (low or before[0][0])}
            if low is None:
                places.add(before[0][0])
            if not places:  # the remaining range is within the last object
                break
            found = False
            for place, names in zip(sorted(places), self.probes(before, sorted(places), cells), strict=True):
                if not names:
                    stop, before = place, until(before, place)
                    break
                found, low = True, max(low or b"", names[-1])
                spacing = mean_distance(ranges, sorted({*map(self._object, names)})) or spacing
                if len(names) < cells:
                    stop, ended = self._behind(names[-1]), True
                    before = before if stop is None else until(before, stop)
                    break
            evenly = found or not evenly
        if low is None:
            return RowEnd(stop, ranges[0][0], spacing)
        start = portions.start(until(ranges, key_successor(low)), portions.length(wanted, spacing) or Fraction(1))
        return RowEnd(stop, max(start, ranges[0][0]), spacing)

    def _object(self, name: bytes) -> bytes:
        return name[: self.portions.wide.prefix_end(name)]

    def _behind(self, name: bytes) -> bytes | None:
        """Returns the first place after the object that has this column, or None if there is no later place."""
        end = self.portions.wide.prefix_end(name)
        return key_successor(name) if end is None or end == len(name) else prefix_successor(name[:end])


def _even(gap: Fraction) -> list[Fraction]:
    return [gap * number / (_PROBES + 1) for number in range(1, _PROBES + 1)]


def _growing(first: Fraction, gap: Fraction) -> list[Fraction]:
    """Returns lengths that begin with `first`, grow by about the same factor, and stay below `gap`."""
    ratio = gap / first
    bits = max(1, ratio.numerator.bit_length() - ratio.denominator.bit_length() + 1)
    doubled = [divmod(bits * number, _PROBES) for number in range(_PROBES)]
    lengths = [first * 2**whole * (_PROBES + part) / _PROBES for whole, part in doubled]
    return [length for length in lengths if length < gap]
