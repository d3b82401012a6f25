"""How much of a wide row is read at once backwards, and where that begins."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from attrs import frozen

from hbmodel.store.wide.backwards.qualifier_distances import place_before_end
from hbmodel.store.wide.intervals import Interval
from hbmodel.store.wide.wide_row_sizes import RowWidths
from hbmodel.store.wide.wide_rows import WideRows

_SPARE = Fraction(3, 2)
"""The factor by which a guessed portion is longer than the mean distances suggest, since objects are not evenly spread.
"""


@frozen
class Portions:
    """How large the portions of a read backwards are.

    Attributes:
        sizes: cells in the first page of a row, in the second, and so on.
        page_bytes: bytes of a page, roughly.
        passed: about how many cells a pass over the keys reads before the end of a row is searched instead.
    """

    wide: WideRows
    widths: RowWidths
    sizes: Sequence[int]
    page_bytes: int
    passed: int
    keys_only: bool

    @property
    def most_cells(self) -> int:
        """The cells of a portion, unless one object has more."""
        return max(1, min(self.sizes[-1], self.page_bytes // self._cell))

    @property
    def most(self) -> int:
        """The objects of a portion."""
        return max(1, self.most_cells // self.cells_of_object)

    def wanted(self, limit: int | None) -> int:
        """The objects of the first portion."""
        return self.most if limit is None else min(limit, self.most)

    def size(self, wanted: int) -> int:
        """The cells of the first page of a guessed portion: more than it should have, so that it is one page."""
        known = self.keys_only or self.wide.table in self.widths.cell
        return (
            max(self.sizes[0], min(2 * wanted * self.cells_of_object + 1, self.most_cells)) if known else self.sizes[0]
        )

    def ends_at_object(self, ranges: Sequence[Interval]) -> bool:
        """Whether the end of some ranges may be the place of an object, so that others are likely to lie right before
        it.
        """
        stop = ranges[-1][1]
        return stop is not None and self.wide.prefix_end(stop) is not None

    def length(self, wanted: int, spacing: Fraction) -> Fraction:
        """The length of a portion with this number of objects at this distance."""
        return (wanted + 1) * spacing * _SPARE

    def start(self, before: Sequence[Interval], length: Fraction) -> bytes:
        """Where a portion of about this length at the end of some ranges begins; not within an object."""
        place = place_before_end(before, length)
        end = self.wide.prefix_end(place)
        return place if end is None else place[:end]

    def place(self, row: bytes) -> bytes:
        """The qualifier prefix of an object, by its object key."""
        return self.wide.places.cut(row)[1]

    @property
    def spacing(self) -> Fraction | None:
        """The mean distance between two objects, as earlier reads have shown it."""
        return self.widths.spacing.get(self.wide.name)

    def remember(self, spacing: Fraction) -> None:
        """Notes the mean distance between two objects."""
        self.widths.spacing[self.wide.name] = spacing

    @property
    def _cell(self) -> int:
        return 1 if self.keys_only else self.widths.cell.get(self.wide.table, 1)

    @property
    def cells_of_object(self) -> int:
        """The cells that an object probably has."""
        return max(1, len(self.wide.columns))
