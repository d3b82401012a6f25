"""Sizes so small that a few cells and rows already need several pages."""

from __future__ import annotations

from hbmodel.session.commit.sizes import SessionSizes
from hbmodel.store.wide.page_sizes import PageSizes


def pages_of(*cells: int) -> PageSizes:
    """Pages with these numbers of cells: the first, the second, and so on; the same for reads that read only keys."""
    return PageSizes(cells=cells, keys=cells)


SMALL_PAGES = pages_of(7, 7)
SMALL_SIZES = SessionSizes(pages=PageSizes(cells=(5, 7), keys=(6,)))
