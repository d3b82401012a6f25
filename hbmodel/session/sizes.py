"""How much a session reads, writes and remembers at once."""

from __future__ import annotations

from attrs import frozen

from hbmodel.protocol.seal_and_move import ROUNDS
from hbmodel.query.first_of_each import PLANNED, TOGETHER
from hbmodel.session.batches import BATCH_ROWS
from hbmodel.store.page_sizes import PAGE_SIZES, PageSizes


@frozen(kw_only=True)
class SessionSizes:
    """The sizes that a session is made with; they change how many calls it makes and how much memory it takes, and no
    result.

    Attributes:
        pages: how much of a wide row, or of a map column, is read at once.
        scans: scans of `first_of_each` that are begun before the first answer is awaited, at most.
        ranges: ranges of keys for which `first_of_each` makes one plan, at most.
        batch_rows: writes in one batch of a commit, at most, unless more of them go into one row.
        move_rounds: rounds after which a write is given up because other programs keep moving its object from one table
            to another.
        unswept: batches whose index entries could not be brought up to date that are remembered, at most.
    """

    pages: PageSizes = PAGE_SIZES
    scans: int = TOGETHER
    ranges: int = PLANNED
    batch_rows: int = BATCH_ROWS
    move_rounds: int = ROUNDS
    unswept: int = 16


SESSION_SIZES = SessionSizes()
"""The sizes of every session that is not given others."""
