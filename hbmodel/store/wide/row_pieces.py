"""Makes objects from the pieces in which a scan returns wide rows, but never an object from two different reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from hbmodel.store.ranges import key_successor, prefix_successor
from hbmodel.store.values import Row
from hbmodel.store.wide.row_size_warnings import RowWidths, bytes_of
from hbmodel.store.wide.wide_rows import ObjectRow, Unfolding, WideRows


class JoinedPieces:
    """Joins the pieces of rows, which are added one after the other, and returns the objects that have become complete.

    The last object of a full piece waits for the next piece of its row. If a scan reads a row again from its beginning,
    the waiting object is dropped, and objects that were already returned are skipped.

    Args:
        size: the number of cells of a full piece.
    """

    def __init__(self, wide: WideRows, unfolding: Unfolding, size: int, widths: RowWidths) -> None:
        self._wide, self._unfolding, self._size, self._widths = wide, unfolding, size, widths
        self._start = len(wide.lead)
        self._row: bytes | None = None
        self._names: list[bytes] = []
        self._cells: list[Any] = []
        self._last: bytes | None = None
        """The last column of the row that belongs to an object that was returned."""
        self._dropping = False
        """Whether the scan has begun the row again, and still repeats columns of objects that were already returned."""
        self._read = self._read_bytes = 0

    def piece(self, row: Row) -> list[ObjectRow]:
        """Adds a piece, and returns the objects that are now complete."""
        objects: list[ObjectRow] = []
        key = row.row
        if key != self._row:
            objects = self.end()
            self._row, self._last, self._dropping, self._read, self._read_bytes = key, None, False, 0, 0
        columns: Mapping[bytes, Any] = row.columns
        if not columns:
            self._names, self._cells, self._dropping = [], [], True
            return objects
        names, cells = list(columns), list(columns.values())
        full = len(names) >= self._size
        if full:
            self._note(key, names, cells)
        if self._dropping and self._last is not None:
            first = len(names) if (resume := self._behind(self._last)) is None else bisect_left(names, resume)
            names, cells = names[first:], cells[first:]
        if not full:
            self._names += names
            self._cells += cells
            objects += self.end()
        elif names:
            objects += self._full(key, names, cells)
        return objects

    def end(self) -> list[ObjectRow]:
        """Returns the objects that are still waiting. Call this at the end of their row."""
        names, cells, key = self._names, self._cells, self._row
        self._names, self._cells, self._row = [], [], None
        return self._unfolding.objects(key, names, cells) if names and key is not None else []

    def _full(self, key: bytes, names: list[bytes], cells: list[Any]) -> list[ObjectRow]:
        resume, whole = cut(self._wide, names)
        if not whole and self._names and self._names[0].startswith(self._wide.lead + resume):
            self._names += names
            self._cells += cells
            objects = []
        else:
            objects = self._unfolding.objects(key, self._names + names[:whole], self._cells + cells[:whole])
            self._last = names[whole - 1] if whole else self._names[-1] if self._names else self._last
            self._names, self._cells = names[whole:], cells[whole:]
        return objects

    def _behind(self, last: bytes) -> bytes | None:
        """Returns the first column after the object to which column `last` belongs, or None if there is no such
        column.
        """
        end = self._wide.prefix_end(last[self._start :])
        if end is None or self._start + end == len(last):
            return key_successor(last)
        return prefix_successor(last[: self._start + end])

    def _note(self, key: bytes, names: list[bytes], cells: list[Any]) -> None:
        self._read += len(names)
        if self._read > len(names):  # most rows have one piece
            size = bytes_of(names, cells)
            self._read_bytes += size
            self._widths.page(self._wide.table, len(names), size)
            self._widths.read(self._wide.table, key, self._read, self._read_bytes)


def cut(wide: WideRows, names: Sequence[bytes]) -> tuple[bytes, int]:
    """Returns the qualifier at which to continue after a full page, and how many cells of the page belong to objects
    that are certainly complete.
    """
    start = len(wide.lead)
    last = names[-1][start:]
    end = wide.prefix_end(last)
    if end is None or end == len(last):  # the last cell belongs to no object, or is a complete object
        return key_successor(last), len(names)
    prefix = names[-1][: start + end]
    whole = len(names) - 1
    while whole and names[whole - 1].startswith(prefix):
        whole -= 1
    return prefix[start:], whole
