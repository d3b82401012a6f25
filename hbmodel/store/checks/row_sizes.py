"""Refuses changes of one row that are too large for one atomic mutation."""

from __future__ import annotations

from collections.abc import Iterable

from hbmodel.errors import InvalidRequest
from hbmodel.store.values import CELL_OVERHEAD

MAX_ROW_BYTES = 4 * 1024 * 1024
"""The maximum number of bytes that are written into one row at once."""

_TOO_LARGE = (
    "Objects that share a row are written in one mutation, and this mutation is larger than 4 MiB: write fewer objects "
    "in a commit, or open the session with atomic_rows=False."
)


def cell_bytes(row: bytes, cells: Iterable[tuple[bytes, bytes]]) -> int:
    """Returns an estimate of the bytes that cells of a row need in a request."""
    return sum(len(row) + CELL_OVERHEAD + len(column) + len(value) for column, value in cells)


def check_row_size(table: str, row: bytes, size: int) -> None:
    """Raises `InvalidRequest` if a change of one row has more bytes than may be written at once."""
    if size > MAX_ROW_BYTES:
        raise InvalidRequest(_TOO_LARGE, table=table, key=row, size=size)
