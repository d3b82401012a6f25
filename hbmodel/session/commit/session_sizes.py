"""The sizes that limit how much a session reads, writes and remembers at once."""

from __future__ import annotations

from attrs import frozen

from hbmodel.protocol.relocation.seal_and_move import ROUNDS
from hbmodel.query.run.first_of_each import PLANNED, TOGETHER
from hbmodel.query.run.page_window import KEYS_SKIPPED
from hbmodel.session.commit.batches import BATCH_ROWS
from hbmodel.store.wide.page_sizes import PAGE_SIZES, PageSizes


@frozen(kw_only=True)
class SessionSizes:
    """The sizes with which a session works. They influence the number of calls and the use of memory, but no result.

    Attributes:
        pages: how much of a wide row, or of a map column, is read at once.
        scans: the maximum number of scans that `first_of_each` begins before it waits for the first answer.
        ranges: the maximum number of key ranges for which `first_of_each` makes one plan.
        batch_rows: the maximum number of writes in one batch of a commit. A batch is larger only if one row has more
            writes.
        move_rounds: the number of rounds after which the write of an object fails because other programs keep moving
            the object from one table to another.
        unswept: the maximum number of batches that are kept for another attempt because their index entries could not
            be brought up to date.
        skipped: from this offset of a query on, the skipped items are read by separate scans, without the cells that
            are needed only for the result.
    """

    pages: PageSizes = PAGE_SIZES
    scans: int = TOGETHER
    ranges: int = PLANNED
    batch_rows: int = BATCH_ROWS
    move_rounds: int = ROUNDS
    unswept: int = 16
    skipped: int = KEYS_SKIPPED


SESSION_SIZES = SessionSizes()
"""The default sizes of a session."""
