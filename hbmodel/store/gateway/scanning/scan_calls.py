"""The calls by which a gateway reads ranges of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from attrs import frozen

from hbmodel.store.values import Row

Request = tuple[str, dict[str, Any]]
"""The name of a call and its arguments."""


@frozen
class Reading:
    """A read of a range of rows, in the terms of a gateway.

    Attributes:
        table: the table's name on the server.
        start: the row at which to start, inclusive; empty means unbounded.
        stop: the row before which to stop; empty means unbounded.
        columns: the columns, without repetitions; empty means all.
        filter: the filter in HBase's filter language, or None.
        reversed: whether to read from the last row to the first.
        rows: the number of rows that the next request asks for.
        most: the maximum number of rows in all; None if there is no limit.
        cells: the maximum number of cells of each piece of a row, or None if whole rows are read.
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
    """The exceptions that the gateway returns to a request for rows if the scanner no longer exists."""

    def whole(self, reading: Reading) -> Request | None:
        """Returns the call that reads all rows at once, without leaving a scanner open, or None if the gateway has no
        such call.
        """
        ...

    def open(self, reading: Reading) -> Request:
        """Returns the call that opens a scanner. The reply is the scanner's number."""
        ...

    def rows(self, scanner: int, count: int) -> Request:
        """Returns the call that reads the next rows of a scanner."""
        ...

    def received(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Returns the rows of a reply, in the form that `Store` specifies."""
        ...

    def close(self, scanner: int) -> Request:
        """Returns the call that closes a scanner."""
        ...
