"""The results of work on an index, as values that can be shown as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import asdict, frozen

SAMPLES = 20
"""The maximum number of refused rows that a report names, and that are recorded for a range. Further rows are only
counted.
"""


@frozen
class IndexBuild:
    """The result of `build_index`.

    Attributes:
        table: primary table.
        index: name of the index.
        state: current state of the index: `readable`, or `building` or `verifying` if rows were refused or share a
            value.
        rows: the rows that were checked, by all builders.
        entries: the entries that were put.
        adopted: rows without system cells that were converted to indexed rows.
        missing: entries that the check found missing and put.
        refused: rows for which no entries can be made, because a key is too long or a value cannot be read.
        samples: some of the refused rows, as (row key in hex, reason).
        duplicates: rows whose value in a unique index is held by another row.
        duplicated: some of the duplicates, as (value, row key in hex, row key of the other row in hex).
        already: whether the index was readable before the call, so that nothing was left to build.
    """

    table: str
    index: str
    state: str
    rows: int = 0
    entries: int = 0
    adopted: int = 0
    missing: int = 0
    refused: int = 0
    samples: Sequence[Sequence[str]] = ()
    duplicates: int = 0
    duplicated: Sequence[Sequence[str]] = ()
    already: bool = False

    @property
    def readable(self) -> bool:
        """Whether queries may use the index."""
        return self.state == "readable"

    @property
    def as_json(self) -> Mapping[str, Any]:
        """The fields, as numbers and text only."""
        samples, duplicated = (list(map(list, each)) for each in (self.samples, self.duplicated))
        return {**asdict(self), "samples": samples, "duplicated": duplicated}

    def __str__(self) -> str:
        if self.already:
            return f"{self.table}.{self.index}: {self.state}, built already"
        lines = [
            f"{self.table}.{self.index}: {self.state}",
            f"  rows {self.rows}, entries {self.entries}, adopted {self.adopted}",
        ]
        if self.missing:
            lines.append(f"  entries that were missing and are put: {self.missing}")
        if self.refused:
            lines.append(f"  rows refused: {self.refused}")
            lines += [f"    {key}: {why}" for key, why in self.samples]
        if self.duplicates:
            lines.append(f"  rows whose value another row holds: {self.duplicates}")
            lines += [f"    {value}: {row} and {other}" for value, row, other in self.duplicated]
        return "\n".join(lines)


@frozen
class IndexReport:
    """The result of `verify_index`, `repair_index` or `index_status`.

    Attributes:
        table: primary table.
        index: name of the index.
        state: the state of the index in the registry.
        rows: live rows that were checked.
        entries: entries that were checked.
        missing: rows that lack an entry.
        stale: entries that match no row and are older than the grace time.
        pending: entries that match no row but are younger than the grace time, so that their writers may not have
            finished.
        expiring: entries that differ from a row with a TTL; they expire together with the row.
        refused: rows whose entries cannot be made or whose values cannot be read.
        put: missing entries that were put.
        deleted: stale entries and bare marks that were deleted.
        unclaimed: rows that have a value in a unique index without a claim on it.
        unheld: claims that are older than the grace time and whose rows do not have the value.
        released: claims whose values were released; such claims remain in the table.
        claimed: values that were claimed for their rows.
        freed: `unheld` claims that were released.
        sampled: whether only a part of the table was checked.
        seconds: duration.
        whole: the estimated number of seconds for the whole table; None if no estimate is possible, because the keys of
            the sample lie in clusters.
        samples: some of the problems, as (kind of problem, key in hex).
        unverified: correct entries of a covering index that are older than the grace time but not verified, so that
            queries must read their rows.
        verified: how many of the unverified entries the repair has verified.
        bare: marks of deleted entries that are older than the grace time.
        outdated: entries of a covering index that are older than the grace time and whose covered values are not those
            of their rows, for example because the default of a covered column was changed. Queries show these values.
        updated: how many of the outdated entries the repair has put again.
        dropping: whether a drop of the index has begun but not ended. If no program continues it, call `drop_index`
            again.
        preparing: whether the index is absent and the table is being prepared for its first index: a build has begun,
            and waits for programs that write the table. If no program continues it, call `build_index` again.
    """

    table: str
    index: str
    state: str
    rows: int = 0
    entries: int = 0
    missing: int = 0
    stale: int = 0
    pending: int = 0
    expiring: int = 0
    refused: int = 0
    put: int = 0
    deleted: int = 0
    unclaimed: int = 0
    unheld: int = 0
    released: int = 0
    claimed: int = 0
    freed: int = 0
    sampled: bool = False
    seconds: float = 0.0
    whole: float | None = None
    samples: Sequence[Sequence[str]] = ()
    unverified: int = 0
    verified: int = 0
    bare: int = 0
    outdated: int = 0
    updated: int = 0
    dropping: bool = False
    preparing: bool = False

    @property
    def shown_state(self) -> str:
        """The state as text. It also tells whether the index is being dropped, and whether the build of the table's
        first index has begun.
        """
        if self.preparing:
            return f"{self.state}, the table is being prepared for its first index"
        return f"{self.state}, being dropped" if self.dropping else self.state

    @property
    def sound(self) -> bool:
        """Whether every row has its entries and claims, and the entries contain the values of their rows. Extra entries
        are ignored here: they cost time and space, but never cause wrong results.
        """
        return not self.missing and not self.refused and not self.unclaimed and not self.outdated

    @property
    def mended(self) -> bool:
        """Whether the index is sound, or all missing entries and claims and all outdated entries were put."""
        put = self.missing <= self.put and self.unclaimed <= self.claimed and self.outdated <= self.updated
        return put and not self.refused

    @property
    def drift(self) -> float:
        """The number of missing and stale entries, divided by the number of checked rows and entries."""
        looked = self.rows + self.entries
        return (self.missing + self.stale) / looked if looked else 0.0

    @property
    def as_json(self) -> Mapping[str, Any]:
        """The fields, as numbers and text only."""
        return {
            **asdict(self),
            "samples": [list(sample) for sample in self.samples],
            "sound": self.sound,
            "drift": self.drift,
        }

    def __str__(self) -> str:
        part = " (a sample)" if self.sampled else ""
        judgement = "sound" if self.sound else "sound again" if self.mended else "NOT sound"
        lines = [
            f"{self.table}.{self.index}: {self.shown_state}, {judgement}",
            f"  looked at {self.rows} rows and {self.entries} entries{part} in {self.seconds:.1f} s",
            f"  missing {self.missing}, stale {self.stale}, pending {self.pending}, expiring {self.expiring}, "
            f"refused {self.refused}",
        ]
        if self.unclaimed or self.unheld or self.released:
            lines.append(
                f"  claims: rows without {self.unclaimed}, without rows {self.unheld}, released {self.released}"
            )
        if self.unverified or self.bare:
            lines.append(f"  unverified {self.unverified}, bare marks {self.bare}")
        if self.outdated:
            lines.append(f"  with other values than their rows {self.outdated}")
        if self.put or self.deleted or self.verified or self.updated:
            verified = f", verified {self.verified}" if self.verified else ""
            updated = f", updated {self.updated}" if self.updated else ""
            lines.append(f"  put {self.put}, deleted {self.deleted}{verified}{updated}")
        if self.claimed or self.freed:
            lines.append(f"  claimed {self.claimed}, freed {self.freed}")
        if self.sampled and self.whole is not None:
            lines.append(f"  the whole table would take about {self.whole:.0f} s")
        return "\n".join([*lines, *(f"    {problem}: {key}" for problem, key in self.samples)])
