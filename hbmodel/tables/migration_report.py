"""What was found of a table whose objects move into another one, as a value that prints as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import asdict, frozen

from hbmodel.tables.index_report import IndexReport


@frozen
class MigrationProgress:
    """How far work on a migration has come.

    Attributes:
        phase: `waiting` (until programs have learnt of a change), `copying` or `verifying`.
        done: key ranges that are done, by all programs.
        total: key ranges that there are, or None where that is not known.
        rows: rows looked at so far.
        seconds_left: of the wait, or None.
    """

    phase: Literal["waiting", "copying", "verifying"]
    done: int = 0
    total: int | None = None
    rows: int = 0
    seconds_left: float | None = None


MigrationProgressReport = Callable[[MigrationProgress], object]


@frozen
class MigrationReport:
    """How far a migration has come, and what a check has found.

    Attributes:
        old: the table that the objects come from.
        new: the table that they go to.
        phase: `before`, `prepared`, `moving`, `cut`, `done`; on the way back `returning` and `returned`; `closed` in a maintenance window.
        rows: that were copied, or looked at by a check.
        ranges: key ranges that the copying is divided into.
        finished: how many of them are done.
        refused: rows that cannot be copied: too long a key, or values that the new layout does not take.
        samples: some of them, as (row key in hex, why).
        missing: rows that a check has found in the table that is copied and not in the other one.
        differing: rows that have other values there. Of rows that never change, two programs have put the same key differently.
        only_new: rows that a check has found in the new table alone.
        indexes: what a check has found of the indexes of the new table.
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

    @property
    def copied(self) -> bool:
        """Whether every row is in the table that it is copied into."""
        return bool(self.ranges) and self.finished == self.ranges and not self.refused

    @property
    def sound(self) -> bool:
        """Whether a check has found nothing wrong."""
        return not self.missing and not self.differing and not self.refused and all(report.sound for report in self.indexes)

    @property
    def as_json(self) -> Mapping[str, Any]:
        """Of numbers and text alone."""
        indexes = [report.as_json for report in self.indexes]
        return {**asdict(self, recurse=False), "samples": [list(sample) for sample in self.samples], "indexes": indexes}

    def __str__(self) -> str:
        lines = [f"{self.old} -> {self.new}: {self.phase}"]
        if self.ranges:
            lines.append(f"  copied {self.rows} rows, {self.finished} of {self.ranges} key ranges")
        if self.refused:
            lines.append(f"  rows refused: {self.refused}")
            lines += [f"    {key}: {why}" for key, why in self.samples]
        return "\n".join(lines)

    def as_check(self) -> str:
        """As text, of a check."""
        lines = [
            f"{self.old} -> {self.new}: {self.phase}",
            f"  rows {self.rows}, missing {self.missing}, differing {self.differing}, only in the new table {self.only_new}",
        ]
        if self.refused:
            lines.append(f"  rows refused: {self.refused}")
        return "\n".join([*lines, *map(str, self.indexes)])
