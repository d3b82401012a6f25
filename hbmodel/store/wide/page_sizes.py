"""How much of a wide row is read at once."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


@frozen(kw_only=True)
class PageSizes:
    """The pages in which wide rows and map columns are read.

    The first ones are small, since most rows have few cells; the later ones are large, since each takes a call.

    Attributes:
        cells: cells in the first page of a row, in the second, and so on; the last number is for all pages that follow.
        keys: the same for reads that need only the keys of one row's objects.
        passed: the keys that a read of one row backwards passes over, from the first one, before it searches where the
            row ends.
        bytes: bytes of a page, roughly, unless one object is larger.
    """

    cells: Sequence[int] = (100, 1_000, 5_000)
    keys: Sequence[int] = (10_000,)
    passed: int = 2_000
    bytes: int = 4 * 1024 * 1024

    @property
    def keys_of_many_rows(self) -> Sequence[int]:
        """As `keys`, for reads of many rows: the first page is smaller, since a batch has one page of each row."""
        return (*self.cells[1:2], *self.keys)


PAGE_SIZES = PageSizes()
"""The pages of every read that is not given others."""
