"""What a gateway must offer to read ranges of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from attrs import frozen

from hbmodel.store.values import Row

Request = tuple[str, dict[str, Any]]
"""The name of a call and its arguments."""


@frozen
class Reading:
    """Rows to be read, in the terms of a gateway.

    Attributes:
        table: the table's name as the server knows it.
        start: row to start at, inclusive; empty means unbounded.
        stop: row to stop before.
        columns: without repetitions; empty means all.
        filter: in HBase's filter language, or None.
        reversed: whether from the last row to the first.
        rows: how many are asked for next.
        most: how many will be taken in all, or None.
        cells: of each piece of a row, at most; None where rows come whole.
        before: time below which the newest version of each cell is read, or None.
    """

    table: bytes
    start: bytes
    stop: bytes
    columns: Sequence[bytes]
    filter: bytes | None
    reversed: bool
    rows: int
    most: int | None = None
    cells: int | None = None
    before: int | None = None


class ScanCalls(Protocol):
    """The calls by which a gateway reads ranges of rows."""

    failures: tuple[type[Exception], ...]
    """The exceptions by which it answers."""

    forgotten: tuple[type[Exception], ...]
    """Those of them by which it answers a request for rows when it has no such scanner any more."""

    def whole(self, reading: Reading) -> Request | None:
        """Reads all rows asked for and keeps nothing open; None where there is no such call."""
        ...

    def open(self, reading: Reading) -> Request:
        """Opens a scanner; the reply is its number."""
        ...

    def rows(self, scanner: int, count: int) -> Request:
        """Reads the next rows of a scanner."""
        ...

    def received(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows of a reply as the port promises them."""
        ...

    def close(self, scanner: int) -> Request:
        """Closes a scanner."""
        ...
