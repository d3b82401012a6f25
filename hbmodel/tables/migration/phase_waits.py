"""Waits for the programs that may still follow an earlier phase of a migration, and reports the waits."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hbmodel.protocol.relocation.migration_phases import CLOSED, CUT, PREPARED, RETURNED, TURNED
from hbmodel.tables.indexes.shared_ranges import LOOK
from hbmodel.tables.migration.migration_report import MigrationProgress, MigrationProgressReport
from hbmodel.tables.registry.migration_phase import MOVE
from hbmodel.tables.registry.registration import Registration
from hbmodel.tables.roll.logged_waits import LoggedWaits
from hbmodel.tables.roll.other_programs import Awaited, OtherPrograms

READ_OTHERWISE = frozenset((PREPARED, CLOSED, CUT, TURNED, RETURNED))
"""The phases in which programs read different tables than in the previous phase, or the same tables in a different
order.
"""


def is_over(registration: Registration, row: bytes, others: OtherPrograms) -> bool:
    """Returns whether all programs follow the registered phase. If a program may still follow the previous phase, waits
    a moment.

    Args:
        registration: the registration of the table from which the objects move.
        row: the key of the row in the registry that holds this registration.
    """
    move = registration.move
    assert move is not None, "it was read in a phase"
    now = others.registry.server_time()
    # After a maintenance window there are no readers.
    reads = move.phase in READ_OTHERWISE and not (move.phase == CUT and move.offline)
    if reads and not others.have_read(move.since, now):
        return False
    return others.have_written(row, registration, MOVE, move.since, now)


def wait_for(
    progress: MigrationProgressReport | None,
    logged: LoggedWaits,
    seconds: float,
    whom: Awaited,
    writers: Sequence[str],
) -> None:
    """Reports or logs for which programs the migration waits, and then waits for a part of the seconds that are
    left.
    """
    if progress is not None:
        progress(MigrationProgress("waiting", seconds_left=seconds, waits_for=whom, writers=tuple(writers)))
    else:
        logged(seconds, whom, writers)
    time.sleep(min(LOOK, seconds))
