"""Reads the objects of one wide row from the last to the first.

HBase returns the cells of a row only forwards. So the place where the last portion begins is guessed from the distance
between objects, or found by a pass over the keys or, if there are many keys, by a search.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing
from fractions import Fraction
from typing import Protocol

from attrs import frozen

from hbmodel.store.values import Row
from hbmodel.store.wide.backwards.end_search import EndSearch, RowEnd
from hbmodel.store.wide.backwards.portions import Portions
from hbmodel.store.wide.backwards.qualifier_distances import distance, mean_distance
from hbmodel.store.wide.intervals import Interval, starting, until
from hbmodel.store.wide.wide_rows import ObjectRow

_GROWTH = 64
"""The factor by which a portion grows after an empty one."""

_EMPTY = 2
"""After this many empty portions, a search finds the end of the columns."""

_DENSER = 3
"""The number of guesses for one portion that may turn out to be too long. After that, the keys are read to find the
beginning of the portion.
"""

_LONGER = 5
"""A guessed portion should have one page. If it has more pages than this, a beginning closer to the end is guessed."""


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
        """Yields the objects, page by page.

        Args:
            size: the number of cells in the first page.
            page: the first page, if it has already been read.
            left: receives, before each page is returned, the ranges that are not read yet.
            keys_only: whether to read only keys, even if the read as a whole needs values.
        """
        ...


@frozen
class BegunPortion:
    """The first portion of a read whose first page has been read already.

    Attributes:
        start: the place where the portion begins.
        size: the maximum number of cells of its first page.
        page: the first page; None if there is no cell.
    """

    start: bytes
    size: int
    page: Row | None


@frozen
class _Portion:
    """The result of reading the end of some ranges: the last objects or, if there were too many objects, the ranges
    that were not read.

    Attributes:
        objects: the last objects, as many as a portion should have; none if `left` is not empty.
        bounds: the places where portions begin, in ascending order. The last one is the place where `objects` begin. If
            `left` is not empty, all of these portions are before it.
        left: the ranges that were not read.
        spacing: the mean distance between two objects (before `left`, if it is not empty); 0 if it is unknown.
    """

    objects: Sequence[ObjectRow]
    bounds: Sequence[bytes]
    left: Sequence[Interval] = ()
    spacing: Fraction = Fraction(0)


@frozen
class _Passed:
    """The result of a pass over keys.

    Attributes:
        bounds: the places where portions begin; empty if there are no objects.
        left: the ranges whose keys were not read.
        last: the place of the last object, or None.
        spacing: the mean distance between the last objects; 0 if it is unknown.
    """

    bounds: Sequence[bytes]
    left: Sequence[Interval]
    last: bytes | None
    spacing: Fraction


class _Groups:
    """Divides objects into groups of the size of a portion, and keeps only the objects of the last group.

    Attributes:
        bounds: the places where the groups begin.
        last: the objects of the last group.
        number: the number of objects.
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
        limit: about how many objects are wanted at first; None if all are wanted.
    """

    def __init__(self, portions: Portions, pages: RowPages, search: EndSearch, limit: int | None) -> None:
        self._portions = portions
        self._pages = pages
        self._search = search
        self._all = limit is None
        self._wanted = self._missing = portions.wanted(limit)
        self._before: Sequence[Interval] = ()
        self._spacing = self._length = Fraction(0)
        self._start: bytes | None = None
        self._empty = self._denser = 0
        self._found = False

    def guessed(
        self, before: Sequence[Interval], spacing: Fraction, begun: BegunPortion | None = None
    ) -> Generator[Sequence[ObjectRow], None, None]:
        """Yields the objects in some ranges, portion by portion, with guessed beginnings of portions.

        Args:
            before: the ranges.
            spacing: the distance between two objects at the end of the ranges.
            begun: the first portion, if its read has already begun.
        """
        self._before = before
        self._expect(spacing)
        self._start = None if begun is None else begun.start
        yield from self._read(begun)

    def by_keys(self, before: Sequence[Interval]) -> Generator[Sequence[ObjectRow], None, None]:
        """Yields the objects in some ranges, portion by portion.

        A pass over the keys finds the places where the portions begin. If there are many keys, the pass is ended early,
        and a search finds the end of the objects.
        """
        passed = self._pass(before)
        if not passed.left:
            yield from self._between(before, passed.bounds)
            return
        self._before = before
        self._go_to(self._search.end(before, passed.last, passed.spacing, self._missing))
        yield from self._read()

    def _read(self, begun: BegunPortion | None = None) -> Generator[Sequence[ObjectRow], None, None]:
        while self._before:
            start, self._start = self._start, None
            if start is None:
                start = self._portions.start(self._before, self._length or Fraction(1))
            ranges = starting(self._before, start)
            found, begun = self._portion(ranges, begun), None
            yield from self._too_long(ranges, found) if found.left else self._returned(ranges, found)

    def _returned(self, ranges: Sequence[Interval], found: _Portion) -> Generator[Sequence[ObjectRow], None, None]:
        """Yields the objects of a portion, and then of the portions before it whose beginnings are known."""
        self._before = until(self._before, ranges[0][0])
        count = len(found.objects)
        if count:
            yield found.objects[::-1]
            *earlier, first = found.bounds
            spacing = found.spacing or self._spacing
            if count < self._missing:
                spacing = max(spacing, distance(starting(ranges, first)) / count)
            self._take(count)
            yield from self._between(until(ranges, first), earlier)
            self._empty = 0
            if not self._all:  # if all objects are wanted, dropping objects that were read is hardly useful
                self._denser = 0
            self._expect(spacing)
            return
        self._empty += 1
        self._length *= _GROWTH
        if self._empty >= _EMPTY and self._before:
            yield from self._after_nothing()

    def _after_nothing(self) -> Generator[Sequence[ObjectRow], None, None]:
        """Searches for the end of the columns, after several empty portions.

        If no object has been found yet, a few keys are read first. If these are all the keys, yields all objects
        instead.
        """
        last: bytes | None = None
        if not self._found:
            before = self._before
            passed = self._pass(before, max(1, self._portions.passed // 10))
            if not passed.left:
                self._before = ()
                yield from self._between(before, passed.bounds)
                return
            last = passed.last
        wanted = min(self._missing << self._empty, self._portions.most)
        self._go_to(self._search.end(self._before, last, self._spacing, wanted, near_stop=True))

    def _too_long(self, ranges: Sequence[Interval], found: _Portion) -> Generator[Sequence[ObjectRow], None, None]:
        """Guesses a beginning of the portion that is closer to the end. After several guesses, reads the keys to find
        the beginnings of portions.
        """
        left = found.left
        if found.spacing and self._denser < _DENSER:
            self._denser += 1
            start = self._portions.start(left, self._portions.length(self._missing, found.spacing))
            self._start = max(left[0][0], start)
            return
        passed = self._pass(left)
        if passed.left:
            self._go_to(self._search.end(left, passed.last, passed.spacing or found.spacing, self._missing))
            return
        yield from self._between(left, passed.bounds)
        yield from self._between(until(ranges, left[0][0]), found.bounds)
        self._before = until(self._before, ranges[0][0])
        self._expect(self._portions.spacing or self._spacing)

    def _expect(self, spacing: Fraction) -> None:
        self._spacing = spacing
        self._length = self._portions.length(self._missing, spacing)

    def _go_to(self, end: RowEnd) -> None:
        if end.stop is not None:
            self._before = until(self._before, end.stop)
        self._start = end.start if starting(self._before, end.start) else None
        self._expect(end.spacing or self._spacing)

    def _pass(self, before: Sequence[Interval], most: int | None = None) -> _Passed:
        """Reads the keys in some ranges, but only the first keys if there are many.

        Args:
            most: about how many cells are read at most; by default, `Portions.passed`.
        """
        most = self._portions.passed if most is None else most
        groups = _Groups(self._portions, before[0][0])
        last = deque[bytes](maxlen=max(2, self._missing))
        left: list[Interval] = []
        cells = 0
        with closing(self._pages(before, most, left=left, keys_only=True)) as pages:
            for page in pages:
                for object_row in page:
                    last.append(object_row.row)
                    groups.add(object_row)
                    cells += len(object_row.columns)
                if left and 2 * cells >= most:  # the last object of a full page is left out of its objects
                    break
        places = [*map(self._portions.place, last)]
        bounds = groups.bounds if places else []
        if len(places) >= self._missing and places[-self._missing] > bounds[-1]:
            bounds.append(places[-self._missing])
        return _Passed(bounds, [*left], places[-1] if places else None, mean_distance(before, places))

    def _between(
        self, before: Sequence[Interval], bounds: Sequence[bytes]
    ) -> Generator[Sequence[ObjectRow], None, None]:
        """Yields the objects in some ranges, in portions that begin at the given places."""
        for first in reversed(bounds):
            yield from self.whole(starting(before, first))
            before = until(before, first)

    def whole(self, ranges: Sequence[Interval]) -> Generator[Sequence[ObjectRow], None, None]:
        """Yields the objects in some ranges, as one portion."""
        with closing(self._pages(ranges, self._portions.size(self._missing))) as pages:
            objects = [each for page in pages for each in page]
        if objects:
            self._note(ranges, objects)
            self._take(len(objects))
            yield objects[::-1]

    def _portion(self, ranges: Sequence[Interval], begun: BegunPortion | None) -> _Portion:
        """Reads some ranges that should hold one portion."""
        if begun is not None and begun.page is None:
            return _Portion([], [])
        size, page = (self._portions.size(self._missing), None) if begun is None else (begun.size, begun.page)
        enough = _LONGER * size
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
        """Records how many objects were returned. If the caller wants more objects than were expected, portions
        grow.
        """
        self._found = True
        self._missing -= count
        if self._missing <= 0:
            self._missing = self._wanted = min(4 * self._wanted, self._portions.most)

    def _note(self, ranges: Sequence[Interval], objects: Sequence[ObjectRow]) -> Fraction:
        """Records the mean distance between some objects, and returns it, or 0 if it is unknown."""
        spacing = mean_distance(ranges, [self._portions.place(each.row) for each in objects])
        if spacing:
            self._portions.remember(spacing)
        return spacing
