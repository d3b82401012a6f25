"""The portions in which a wide row is read backwards, with their sizes and the places where they begin."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from attrs import frozen

from hbmodel.store.wide.backwards.qualifier_distances import place_before_end
from hbmodel.store.wide.intervals import Interval
from hbmodel.store.wide.row_size_warnings import RowWidths
from hbmodel.store.wide.wide_rows import WideRows

_SPARE = Fraction(3, 2)
"""A guessed portion is longer by this factor than the mean distance suggests, because objects are not evenly spread."""


@frozen
class Portions:
    """The sizes of the portions of a read backwards.

    Attributes:
        sizes: the number of cells in the first page of a row, in the second page, and so on.
        page_bytes: the approximate number of bytes of a page.
        passed: about how many cells a pass over the keys reads; if there are more, a search finds the end of the row.
    """

    wide: WideRows
    widths: RowWidths
    sizes: Sequence[int]
    page_bytes: int
    passed: int
    keys_only: bool

    @property
    def most_cells(self) -> int:
        """The maximum number of cells of a portion, unless a single object has more."""
        return max(1, min(self.sizes[-1], self.page_bytes // self._cell))

    @property
    def most(self) -> int:
        """The maximum number of objects of a portion."""
        return max(1, self.most_cells // self.cells_of_object)

    def wanted(self, limit: int | None) -> int:
        """Returns how many objects the first portion should have."""
        return self.most if limit is None else min(limit, self.most)

    def size(self, wanted: int) -> int:
        """Returns how many cells the first page of a portion may have if the portion's beginning was guessed. This is
        more than the expected number of cells in the portion, so that one page is usually enough.
        """
        known = self.keys_only or self.wide.table in self.widths.cell
        return (
            max(self.sizes[0], min(2 * wanted * self.cells_of_object + 1, self.most_cells)) if known else self.sizes[0]
        )

    def ends_at_object(self, ranges: Sequence[Interval]) -> bool:
        """Returns whether some ranges end where an object might begin. If so, there are probably objects right before
        this place.
        """
        stop = ranges[-1][1]
        return stop is not None and self.wide.prefix_end(stop) is not None

    def length(self, wanted: int, spacing: Fraction) -> Fraction:
        """Returns the length of a portion for this number of objects, given their mean distance."""
        return (wanted + 1) * spacing * _SPARE

    def start(self, before: Sequence[Interval], length: Fraction) -> bytes:
        """Returns the place where a portion of about this length at the end of some ranges begins. The place is not
        within an object.
        """
        place = place_before_end(before, length)
        end = self.wide.prefix_end(place)
        return place if end is None else place[:end]

    def place(self, row: bytes) -> bytes:
        """Returns the qualifier prefix of an object, given its object key."""
        return self.wide.places.cut(row)[1]

    @property
    def spacing(self) -> Fraction | None:
        """The mean distance between two objects that an earlier read has measured, or None."""
        return self.widths.spacing.get(self.wide.name)

    def remember(self, spacing: Fraction) -> None:
        """Records the mean distance between two objects."""
        self.widths.spacing[self.wide.name] = spacing

    @property
    def _cell(self) -> int:
        return 1 if self.keys_only else self.widths.cell.get(self.wide.table, 1)

    @property
    def cells_of_object(self) -> int:
        """How many cells an object probably has."""
        return max(1, len(self.wide.columns))
