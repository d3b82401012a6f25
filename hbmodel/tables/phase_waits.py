"""For whom each phase of a migration waits, and how the wait is shown."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hbmodel.protocol.migration import CLOSED, CUT, PREPARED, RETURNED, TURNED
from hbmodel.tables.index_sweeps import LOOK
from hbmodel.tables.migration_phase import MOVE
from hbmodel.tables.migration_report import MigrationProgress, MigrationProgressReport
from hbmodel.tables.other_programs import Awaited, OtherPrograms
from hbmodel.tables.registration import Registration

READ_OTHERWISE = frozenset((PREPARED, CLOSED, CUT, TURNED, RETURNED))
"""The phases in which programs read other tables than in the phase before, or in another order."""


def is_over(found: Registration, row: bytes, others: OtherPrograms) -> bool:
    """Whether no program acts any more by the phase before the one that the registry was found in; waits a moment where
    one may.

    Args:
        found: what the registry says of the table that the objects come from.
        row: the row of the registry.
        others: the programs that use the tables.
    """
    move = found.move
    assert move is not None, "it was read in a phase"
    now = others.registry.server_time()
    # After a maintenance window there are no readers.
    reads = move.phase in READ_OTHERWISE and not (move.phase == CUT and move.offline)
    if reads and not others.have_read(move.since, now):
        return False
    return others.have_written(row, found, MOVE, move.since, now)


def wait_for(progress: MigrationProgressReport | None, seconds: float, whom: Awaited, writers: Sequence[str]) -> None:
    """Waits some of the seconds that are left, and reports for whom."""
    if progress is not None:
        progress(MigrationProgress("waiting", seconds_left=seconds, waits_for=whom, writers=tuple(writers)))
    time.sleep(min(LOOK, seconds))
