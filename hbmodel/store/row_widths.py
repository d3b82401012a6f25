"""Warns of rows that are very wide: each once, when one read has taken a great deal of it."""

from __future__ import annotations

import logging

MANY_CELLS = 1_000_000
"""Cells of one row in one read that are worth a warning."""

MANY_BYTES = 256 * 1024 * 1024
"""The same in bytes: HBase itself gives out no whole row above 1 GB, and cannot split one."""

logger = logging.getLogger("hbmodel")


class RowWidths:
    """Which rows have been warned of."""

    def __init__(self) -> None:
        self._known: set[tuple[str, bytes]] = set()

    def read(self, table: str, row: bytes, cells: int, size: int) -> None:
        """Notes what a read has taken of a row until now."""
        if (cells > MANY_CELLS or size > MANY_BYTES) and (table, row) not in self._known:
            self._known.add((table, row))
            logger.warning(
                "One read has taken %d cells, %d MiB, of one row of table %s: HBase cannot split a row over regions. Choose the fields of "
                "the row key so that rows stay smaller, or cut times with split=.",
                cells, size >> 20, table,
            )  # fmt: skip
