"""Computes distances between qualifiers, from which a read guesses where the last objects of a row begin."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hbmodel.store.wide.intervals import Interval, within


def distance(ranges: Sequence[Interval]) -> Fraction:
    """Returns the length of some ranges of qualifiers. The bytes of a qualifier are read as the digits of a fraction in
    base 256.
    """
    return sum(map(_length, ranges), Fraction(0))


def mean_distance(ranges: Sequence[Interval], places: Sequence[bytes]) -> Fraction:
    """Returns the mean distance between adjacent qualifiers of a sorted list, measured within some ranges, or 0 if the
    list has fewer than two qualifiers.
    """
    if len(places) < 2:
        return Fraction(0)
    return distance(within(ranges, places[0], places[-1])) / (len(places) - 1)


def place_before_end(ranges: Sequence[Interval], length: Fraction) -> bytes:
    """Returns the qualifier after which about this length of the ranges, or a little more, is left. If the ranges are
    shorter, this is their first qualifier.

    If the length is not 0, the qualifier is below the end of the ranges.
    """
    for first, stop in reversed(ranges):
        whole = _length((first, stop))
        if length < whole:
            digits = (length.denominator // length.numerator).bit_length() // 8 + 2
            end = Fraction(1) if stop is None else _number(stop)
            place = int((end - length) * 256**digits).to_bytes(digits, "big").rstrip(b"\x00")
            return max(first, place)
        length -= whole
        if not length:
            return first
    return ranges[0][0]


def _length(interval: Interval) -> Fraction:
    first, stop = interval
    return (Fraction(1) if stop is None else _number(stop)) - _number(first)


def _number(qualifier: bytes) -> Fraction:
    return Fraction(int.from_bytes(qualifier, "big"), 256 ** len(qualifier))
