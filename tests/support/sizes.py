"""Page sizes so small that a few cells and rows already need several pages."""

from __future__ import annotations

from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store.wide.page_sizes import PageSizes


def pages_of(*cells: int) -> PageSizes:
    """Returns page sizes with these numbers of cells in the first page, the second page, and so on. They are the same
    for reads of keys.
    """
    return PageSizes(cells=cells, keys=cells)


SMALL_PAGES = pages_of(7, 7)
SMALL_SIZES = SessionSizes(pages=PageSizes(cells=(5, 7), keys=(6,)))
