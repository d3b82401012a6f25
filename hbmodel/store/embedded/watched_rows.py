"""A cache of rows that gates read in each writing transaction, in which a row stays until a program writes it."""

from __future__ import annotations

from collections.abc import Callable
from sqlite3 import Connection

from hbmodel.store.gate import GATE, pass_gate
from hbmodel.store.values import Row

Read = Callable[[Connection, str, bytes], Row | None]
"""A function that reads a row of a table."""


class WatchedRows:
    """The rows that gates have read, as the latest writing transaction saw them.

    A write of another connection changes SQLite's `data_version` for this one. The store reports its own writes, see
    `forget`. The cache must only be used inside writing transactions, of which a store has one at a time.

    Args:
        alone: whether there is no other connection, as in memory.
    """

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone
        self._connection: Connection | None = None
        self._version = 0
        self._rows: dict[tuple[str, bytes], Row | None] = {}

    def pass_gate(self, connection: Connection, read: Read) -> None:
        """Passes the gate of this thread, if there is one. Call this in the only transaction that may write, before it
        has written anything.
        """
        if GATE.get() is not None:
            pass_gate(lambda table, row: self._row(connection, table, row, read))

    def _row(self, connection: Connection, table: str, row: bytes, read: Read) -> Row | None:
        """Returns a row. If it has not changed, this is the same object as before."""
        version = 0 if self._alone else connection.execute("PRAGMA data_version").fetchone()[0]
        if connection is not self._connection or version != self._version:
            self._rows.clear()
            self._connection, self._version = connection, version
        key = table, row
        if key not in self._rows:
            self._rows[key] = read(connection, table, row)
        return self._rows[key]

    def forget(self, table: str, row: bytes) -> None:
        """Forgets a row. Call this when the row is written."""
        if self._rows:
            self._rows.pop((table, row), None)

    def forget_all(self) -> None:
        """Forgets all rows. Call this when tables are altered or deleted."""
        self._rows.clear()
