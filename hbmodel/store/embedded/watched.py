"""Rows that are read again and again in writing transactions, remembered as long as nobody has written them."""

from __future__ import annotations

from collections.abc import Callable
from sqlite3 import Connection

from hbmodel.store.values import Row


class WatchedRows:
    """Rows of a file, as the latest writing transaction that asked saw them. To be used inside such transactions alone.

    Whatever another connection writes changes SQLite's `data_version` for this one; what this store writes, it says itself.

    Args:
        alone: whether there is no other connection, as in memory.
    """

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone
        self._connection: Connection | None = None
        self._version = 0
        self._rows: dict[tuple[str, bytes], Row | None] = {}

    def row(self, connection: Connection, table: str, row: bytes, read: Callable[[], Row | None]) -> Row | None:
        """A row; the same object as before if it has not changed.

        Args:
            connection: of the transaction.
            table: of the row.
            row: its key.
            read: reads it.
        """
        version = 0 if self._alone else connection.execute("PRAGMA data_version").fetchone()[0]
        if connection is not self._connection or version != self._version:
            self._rows.clear()
            self._connection, self._version = connection, version
        key = table, row
        if key not in self._rows:
            self._rows[key] = read()
        return self._rows[key]

    def forget(self, table: str, row: bytes) -> None:
        """To be called when a row is written."""
        if self._rows:
            self._rows.pop((table, row), None)

    def forget_all(self) -> None:
        """To be called when tables are made, changed or deleted."""
        self._rows.clear()
