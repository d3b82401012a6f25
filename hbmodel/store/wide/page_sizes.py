"""The sizes of the pages in which wide rows are read."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


@frozen(kw_only=True)
class PageSizes:
    """The sizes of the pages in which wide rows and map columns are read.

    The first pages are small, because most rows have few cells. Later pages are large, because each of them needs a
    call.

    Attributes:
        cells: the number of cells in the first page of a row, in the second page, and so on; the last number is for all
            further pages.
        keys: the same for reads that need only the keys of one row's objects.
        passed: a read of one row backwards first reads the keys of the row from the beginning. After this many keys, it
            stops and searches for the end of the row.
        bytes: the approximate number of bytes of a page, unless one object is larger.
    """

    cells: Sequence[int] = (100, 1_000, 5_000)
    keys: Sequence[int] = (10_000,)
    passed: int = 2_000
    bytes: int = 4 * 1024 * 1024

    @property
    def keys_of_many_rows(self) -> Sequence[int]:
        """The sizes for reads of keys of many rows. The first page is smaller than in `keys`, because a batch has one
        page of each row.
        """
        return (*self.cells[1:2], *self.keys)


PAGE_SIZES = PageSizes()
"""The page sizes that reads use by default."""
