"""Long lists cut into what one call takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

MAX_ROWS = 1000
"""Rows in one call."""

MAX_BYTES = 1024 * 1024
"""Bytes in one call that writes, roughly, unless a single row is larger. A gateway with framed transport refuses more than two
MiB (`hbase.regionserver.thrift.framed.max_frame_size_in_mb`)."""

MAX_QUESTION_BYTES = 64 * 1024
"""Bytes in one call that reads, roughly. A gateway that waits for its reply to be read reads no requests, so what is sent ahead
meanwhile must find room between the two."""


def in_portions(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """The items in lists of at most MAX_ROWS and of at most so many bytes, unless a single item has more."""
    portion: list[T] = []
    total = 0
    for item in items:
        added = size(item)
        if portion and (len(portion) == MAX_ROWS or total + added > most):
            yield portion
            portion, total = [], 0
        portion.append(item)
        total += added
    if portion:
        yield portion
