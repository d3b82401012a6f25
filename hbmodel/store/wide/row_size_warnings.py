"""Measurements of wide rows, made while they are read, and warnings about rows that are too wide."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

MANY_CELLS = 1_000_000
"""If one read receives this many cells of one row, a warning is logged."""

MANY_BYTES = 256 * 1024 * 1024
"""If one read receives this many bytes of one row, a warning is logged. HBase cannot split a row across regions, and
does not return a whole row above 1 GB.
"""

_SAMPLED = 64
"""The number of cells of a page that are measured to estimate the bytes of the page."""

_ENDS = 1_000
"""The maximum number of row ends that are remembered."""

logger = logging.getLogger("hbmodel")


class RowWidths:
    """Measurements from the reads of one session.

    Args:
        many_cells: the number of cells of one row in one read for which a warning is logged.
        many_bytes: the number of bytes of one row in one read for which a warning is logged.

    Attributes:
        cell: the mean size of a cell in bytes, by table, from the page with the largest mean.
        spacing: the mean distance between two objects in the last portion that was read backwards, by table of logical
            rows.
    """

    def __init__(self, many_cells: int = MANY_CELLS, many_bytes: int = MANY_BYTES) -> None:
        self._many_cells, self._many_bytes = many_cells, many_bytes
        self.cell: dict[str, int] = {}
        self.spacing: dict[str, Fraction] = {}
        self._known: set[tuple[str, bytes]] = set()
        self._ends: dict[tuple[str, bytes, bytes | None], bytes] = {}

    def last_place(self, name: str, row: bytes, stop: bytes | None) -> bytes | None:
        """Returns the place of the last object before a qualifier that `ends_at` has recorded, or None.

        Args:
            name: the table of logical rows.
            stop: the qualifier; None means the end of the row.
        """
        return self._ends.get((name, row, stop))

    def ends_at(self, name: str, row: bytes, stop: bytes | None, place: bytes) -> None:
        """Records the place of the last object before a qualifier. If there are too many records, the oldest one is
        removed.
        """
        key = (name, row, stop)
        self._ends.pop(key, None)
        self._ends[key] = place
        if len(self._ends) > _ENDS:
            del self._ends[next(iter(self._ends))]

    def page(self, table: str, cells: int, size: int) -> None:
        """Records the size of a full page."""
        self.cell[table] = max(self.cell.get(table, 1), -(-size // cells))

    def read(self, table: str, row: bytes, cells: int, size: int) -> None:
        """Logs a warning, once for each row, if a read has received so much of the row that the row is too wide."""
        if (cells > self._many_cells or size > self._many_bytes) and (table, row) not in self._known:
            self._known.add((table, row))
            logger.warning(
                "One read returned %d cells, %d MiB, of one row of table %s: HBase cannot split a row across regions. "
                "Choose the fields of the row key so that rows stay smaller, or give the time field a row_span=.",
                cells,
                size >> 20,
                table,
            )


def bytes_of(names: Sequence[bytes], cells: Sequence[Any]) -> int:
    """Returns the approximate size of a page in bytes."""
    step = -(-len(cells) // _SAMPLED)
    sampled = range(0, len(cells), step)
    return max(1, sum(len(names[at]) + len(cells[at].value) for at in sampled) * step)
