"""Walks over the pages of a query or a slice, forwards and backwards at random, and compares them with a list of
items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

import hbmodel as hb

Step = tuple[bool, int]
"""A step of a walk: whether it goes to the previous page, and the size of the page."""

MANY = 100
"""A page size larger than the number of rows in any test of walks."""

sizes = st.one_of(*[st.integers(1, 5)] * 3, st.integers(MANY, MANY + 5))
"""The sizes of pages. Most are small, so that walks have several pages, and some are larger than the number of rows."""

steps = st.lists(st.tuples(st.booleans(), sizes), min_size=1, max_size=8)


def neighbour(asked: Any, page: hb.Page[Any] | None, step: Step) -> hb.Page[Any] | None:
    """Returns the next or the previous page, or the first page if `page` is None. Returns None if there is no page on
    that side.
    """
    backwards, size = step
    found: hb.Page[Any]
    if page is None:
        found = asked.page(size)
    elif backwards:
        if page.previous_token is None:
            return None
        found = asked.page(size, before=page.previous_token)
    else:
        if page.next_token is None:
            return None
        found = asked.page(size, after=page.next_token)
    return found


def check_walk(
    asked: Any, expected: Sequence[Any], walk: Sequence[Step], shown: Callable[[Any], Any] = lambda item: item
) -> None:
    """Asserts that each page of a walk has the items next to the page before it, if nothing is written meanwhile.

    Args:
        asked: a query or a slice.
        expected: its items, converted by `shown`.
        walk: the steps; the first step reads the first page.
        shown: returns the part of an item that is compared.
    """
    start = stop = 0
    page: hb.Page[Any] | None = None
    for step in walk:
        found = neighbour(asked, page, step)
        if found is None:
            continue
        backwards, size = step
        if page is not None and backwards:
            start, stop = max(0, start - size), start
        else:
            start, stop = stop, min(len(expected), stop + size)
        assert [shown(item) for item in found] == list(expected[start:stop])
        assert len(found) == stop - start
        assert (found.at_start, found.at_end) == (start == 0, stop == len(expected))
        page = found
