"""The calls that a gateway must offer for reading ranges of rows."""

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
        columns: the columns, without repetitions; empty means all.
        filter: the filter in HBase's filter language, or None.
        reversed: whether to read from the last row to the first.
        rows: how many rows the next request asks for.
        most: how many rows will be taken in all; None if there is no limit.
        cells: the most cells of each piece of a row, or None if rows are read whole.
        before: the time below which the newest version of each cell is read, or None.
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
    """The exceptions that the gateway returns."""

    forgotten: tuple[type[Exception], ...]
    """The exceptions that the gateway returns to a request for rows if it no longer has the scanner."""

    def whole(self, reading: Reading) -> Request | None:
        """The call that reads all rows at once without leaving a scanner open; None if the gateway has no such call."""
        ...

    def open(self, reading: Reading) -> Request:
        """The call that opens a scanner; the reply is the scanner's number."""
        ...

    def rows(self, scanner: int, count: int) -> Request:
        """The call that reads the next rows of a scanner."""
        ...

    def received(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows of a reply, in the form that `Store` promises."""
        ...

    def close(self, scanner: int) -> Request:
        """The call that closes a scanner."""
        ...
