"""Reads the objects of one wide row from the last to the first.

HBase returns the cells of a row only forwards. So the beginning of the last portion is guessed, from the distance that
objects have, or found by a pass over the keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing
from fractions import Fraction
from typing import Protocol

from attrs import frozen

from hbmodel.store.values import Row
from hbmodel.store.wide.intervals import Interval, starting, until
from hbmodel.store.wide.portions import Portions
from hbmodel.store.wide.qualifier_distances import distance, mean_distance
from hbmodel.store.wide.wide_rows import ObjectRow

_GROWTH = 16
"""The factor by which a portion grows after an empty one; it is squared, cubed and so on after further ones."""

_DENSER = 3
"""How many guesses of one portion may turn out to be too long before its beginning is searched by keys."""

_LONGER = 4
"""How many pages a portion that was to be one page may have, before a nearer beginning is guessed."""


class RowPages(Protocol):
    """Reads ranges of columns of one row forwards."""

    def __call__(
        self,
        ranges: Sequence[Interval],
        size: int | None = None,
        *,
        page: Row | None = None,
        left: list[Interval] | None = None,
        keys_only: bool = False,
    ) -> Generator[Sequence[ObjectRow], None, None]:
        """The objects, page by page.

        Args:
            size: cells in the first page.
            page: the first page, if it was read before.
            left: receives, before each page is returned, the ranges that are not read yet.
            keys_only: whether to read keys only, even if the whole read needs more.
        """
        ...


@frozen
class BegunPortion:
    """The first portion of a read, if it is begun already.

    Attributes:
        start: where it begins.
        size: the cells for which its first page has room.
        page: the first page; None if there is no cell.
    """

    start: bytes
    size: int
    page: Row | None


@frozen
class _Portion:
    """What lies in some ranges, or, if that is too much, where it was not read.

    Attributes:
        objects: the last objects, as many as a portion should have; none if `left` is not empty.
        bounds: where they begin, and before that where the portions in front of them begin; if `left` is not empty,
            those of the portions in front of that.
        left: the ranges that were not read.
        spacing: the mean distance between two objects, or between those that were passed before `left`; 0 if unknown.
    """

    objects: Sequence[ObjectRow]
    bounds: Sequence[bytes]
    left: Sequence[Interval] = ()
    spacing: Fraction = Fraction(0)


class _Groups:
    """Puts objects into groups of the size of a portion, and keeps the last group.

    Attributes:
        bounds: where the groups begin.
        last: the objects of the last group.
        number: how many objects there are.
    """

    def __init__(self, portions: Portions, first: bytes) -> None:
        self._portions = portions
        self._most_cells = portions.most_cells
        self.bounds = [first]
        self.last: list[ObjectRow] = []
        self.number = 0
        self._cells = 0

    def add(self, object_row: ObjectRow) -> None:
        """Adds the next object."""
        if self.last and self._cells + len(object_row.columns) > self._most_cells:
            self.bounds.append(self._portions.place(object_row.row))
            self.last, self._cells = [], 0
        self.last.append(object_row)
        self._cells += len(object_row.columns)
        self.number += 1


class RowBackwards:
    """Reads the objects of one row backwards.

    Args:
        limit: about how many objects are wanted at first, or None.
    """

    def __init__(self, portions: Portions, pages: RowPages, limit: int | None) -> None:
        self._portions = portions
        self._pages = pages
        self._all = limit is None
        self._wanted = self._missing = portions.wanted(limit)

    def guessed(
        self, before: Sequence[Interval], spacing: Fraction, begun: BegunPortion | None = None
    ) -> Generator[Sequence[ObjectRow], None, None]:
        """The objects in some ranges, portion by portion; where a portion begins is guessed.

        Args:
            before: the ranges.
            spacing: the distance between two objects at the end of the ranges.
            begun: the first portion, if it is begun already.
        """
        portions = self._portions
        empty = denser = 0
        length = portions.length(self._missing, spacing)
        start = portions.start(before, length) if begun is None else begun.start
        while before:
            ranges = starting(before, start)
            found, begun = self._portion(ranges, begun), None
            count = len(found.objects)
            if found.left and found.spacing and denser < _DENSER:
                denser += 1
                length = portions.length(self._missing, found.spacing)
                start = max(found.left[0][0], portions.start(found.left, length))
                continue
            if found.left:
                first = found.left[0][0]
                yield from self.by_keys(found.left)
                yield from self._between(until(ranges, first), found.bounds)
                spacing = portions.spacing or spacing  # of the objects that were found by keys
            elif count:
                *earlier, first = found.bounds
                yield found.objects[::-1]
                spacing = found.spacing or spacing
                if count < self._missing:
                    spacing = max(spacing, distance(starting(ranges, first)) / count)
                self._take(count)
                yield from self._between(until(ranges, first), earlier)
            before = until(before, start)
            if count or found.left:
                empty = 0
                if not self._all:  # if all objects are wanted, it saves little to drop what was read
                    denser = 0
                length = portions.length(self._missing, spacing)
            else:
                empty += 1
                length *= _GROWTH**empty
            if before:
                start = portions.start(before, length)

    def by_keys(self, before: Sequence[Interval]) -> Generator[Sequence[ObjectRow], None, None]:
        """The objects in some ranges, portion by portion; a pass over the keys of all objects finds where the portions
        begin.
        """
        groups = _Groups(self._portions, before[0][0])
        last = deque[bytes](maxlen=self._missing)
        with closing(self._pages(before, keys_only=True)) as pages:
            for page in pages:
                for object_row in page:
                    last.append(object_row.row)
                    groups.add(object_row)
        bounds = groups.bounds
        if last and (place := self._portions.place(last[0])) > bounds[-1]:
            bounds.append(place)
        if last:
            yield from self._between(before, bounds)

    def _between(
        self, before: Sequence[Interval], bounds: Sequence[bytes]
    ) -> Generator[Sequence[ObjectRow], None, None]:
        """The objects in some ranges, whose portions begin at some places."""
        for first in reversed(bounds):
            yield from self.whole(starting(before, first))
            before = until(before, first)

    def whole(self, ranges: Sequence[Interval]) -> Generator[Sequence[ObjectRow], None, None]:
        """The objects in some ranges, as one portion."""
        with closing(self._pages(ranges, self._portions.size(self._missing))) as pages:
            objects = [each for page in pages for each in page]
        if objects:
            self._note(ranges, objects)
            self._take(len(objects))
            yield objects[::-1]

    def _portion(self, ranges: Sequence[Interval], begun: BegunPortion | None) -> _Portion:
        """The last objects in some ranges that should hold one portion."""
        if begun is not None and begun.page is None:
            return _Portion([], [])
        size, page = (self._portions.size(self._missing), None) if begun is None else (begun.size, begun.page)
        enough = min(_LONGER * size, 2 * self._portions.most_cells)
        groups = _Groups(self._portions, ranges[0][0])
        read = 0
        left: list[Interval] = []
        with closing(self._pages(ranges, size, page=page, left=left)) as pages:
            for each in pages:
                for object_row in each:
                    groups.add(object_row)
                    read += len(object_row.columns)
                if left:
                    length = distance(until(ranges, left[0][0]))
                    if read > enough or (length and distance(left) * read > enough * length):
                        return _Portion([], groups.bounds, [*left], length / groups.number)
        objects = groups.last
        return _Portion(objects, groups.bounds, spacing=self._note(ranges, objects))

    def _take(self, count: int) -> None:
        """Notes how many objects were returned: if more are wanted than were expected, portions grow."""
        self._missing -= count
        if self._missing <= 0:
            self._missing = self._wanted = min(4 * self._wanted, self._portions.most)

    def _note(self, ranges: Sequence[Interval], objects: Sequence[ObjectRow]) -> Fraction:
        """Notes the mean distance of some objects, and returns it; 0 if it is unknown."""
        spacing = mean_distance(ranges, [self._portions.place(each.row) for each in objects])
        if spacing:
            self._portions.remember(spacing)
        return spacing
