"""The results of a migration of objects between tables, as values that can be shown as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import asdict, frozen

from hbmodel.tables.indexes.index_report import IndexReport
from hbmodel.tables.roll.other_programs import Awaited


@frozen
class MigrationProgress:
    """The progress of a migration.

    Attributes:
        phase: `waiting` (until programs have noticed a change), `copying` or `verifying`.
        done: how many key ranges all programs together have finished.
        total: the total number of key ranges, or None if it is not known.
        rows: rows read so far.
        seconds_left: the remaining time of the wait, or None; during a wait for writers, the maximum remaining time.
        waits_for: while `waiting`: `readers`, whose leases must end, or `writers`, whose calls must end too.
        writers: the writers for which the migration waits, each with its process, its host and the time when it was
            last seen; empty if they are not known because they run an older version of hbmodel.
    """

    phase: Literal["waiting", "copying", "verifying"]
    done: int = 0
    total: int | None = None
    rows: int = 0
    seconds_left: float | None = None
    waits_for: Awaited | None = None
    writers: Sequence[str] = ()


MigrationProgressReport = Callable[[MigrationProgress], object]


@frozen
class MigrationReport:
    """The state of a migration, and the results of a check.

    Attributes:
        old: the table from which the objects move.
        new: the table to which they move.
        phase: `before`, `prepared`, `moving`, `cut` or `done`; `closed` in a maintenance window; during a rollback
            `returning` and `returned`, and for versioned models `halting` and `turned` before these.
        rows: the rows that were read for copying or by a check, including those in `refused`.
        ranges: the number of key ranges into which the copying is divided.
        finished: how many of the key ranges are finished.
        refused: rows that cannot be copied, because the key is too long or the new layout does not accept their values.
        samples: some of the refused rows, as (row key in hex, reason).
        missing: rows that a check found in the source table but not in the target table.
        differing: rows that have different values in the two tables. For immutable rows this means that two programs
            have put different values under the same key.
        only_new: rows that a check found only in the new table.
        indexes: results of the check of the new table's indexes.
        checked: whether these are the results of a check.
    """

    old: str
    new: str
    phase: str
    rows: int = 0
    ranges: int = 0
    finished: int = 0
    refused: int = 0
    samples: Sequence[Sequence[str]] = ()
    missing: int = 0
    differing: int = 0
    only_new: int = 0
    indexes: Sequence[IndexReport] = ()
    checked: bool = False

    @property
    def copied(self) -> bool:
        """Whether every row has been copied."""
        return bool(self.ranges) and self.finished == self.ranges and not self.refused

    @property
    def sound(self) -> bool:
        """Whether a check found no problems."""
        return (
            not self.missing
            and not self.differing
            and not self.refused
            and all(report.sound for report in self.indexes)
        )

    @property
    def as_json(self) -> Mapping[str, Any]:
        """The fields, as values that JSON can represent."""
        indexes = [report.as_json for report in self.indexes]
        return {**asdict(self, recurse=False), "samples": [list(sample) for sample in self.samples], "indexes": indexes}

    def __str__(self) -> str:
        if self.checked:
            return self.as_check()
        lines = [f"{self.old} -> {self.new}: {self.phase}"]
        if self.ranges:
            copied = f"{self.rows - self.refused} of {self.rows}" if self.refused else f"{self.rows}"
            lines.append(f"  copied {copied} rows, {self.finished} of {self.ranges} key ranges")
        if self.refused:
            lines.append(f"  rows refused: {self.refused}")
            lines += [f"    {key}: {why}" for key, why in self.samples]
        return "\n".join(lines)

    def as_check(self) -> str:
        """Returns the results of a check, as text."""
        lines = [
            f"{self.old} -> {self.new}: {self.phase}",
            f"  rows {self.rows}, missing {self.missing}, differing {self.differing}, only in the new table "
            f"{self.only_new}",
            "  sound" if self.sound else "  not sound: see what is missing, differing or refused, and the indexes",
        ]
        if self.refused:
            lines.append(f"  rows refused: {self.refused}")
            lines += [f"    {key}: {why}" for key, why in self.samples]
        return "\n".join([*lines, *map(str, self.indexes)])
