"""Sweeps a table row by row for an index, at a limited rate, either alone or in key ranges that several programs
share.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

from attrs import define, field, frozen

from hbmodel.errors import HbmodelError, IndexUnavailable
from hbmodel.mapping.schema import Index
from hbmodel.protocol.corrected_clock import ServerClock
from hbmodel.protocol.driver import drive
from hbmodel.protocol.indexed.index_build import RowEntries, RowIndexer, index_rows
from hbmodel.protocol.indexed.index_verify import RowFindings, find_missing
from hbmodel.protocol.versioned.claim_comparison import claim_existing, unclaimed_rows
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.store.port import Store
from hbmodel.store.ranges import KeyRange, key_successor
from hbmodel.store.values import Row, Scan
from hbmodel.tables.indexes.index_arguments import check_speeds
from hbmodel.tables.indexes.shared_ranges import CLAIM_LIFE, LOOK, WORK, Counts, RangeClaim, SharedRanges, work_row
from hbmodel.tables.indexes.shared_ranges import Progress as ClaimProgress
from hbmodel.tables.indexes.timed_batches import timed_batches
from hbmodel.tables.registry.registration import ABSENT, IndexState
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.other_programs import Awaited


@frozen
class IndexProgress:
    """The progress of work on an index.

    Attributes:
        phase: `waiting` (until programs have left an earlier state), `building`, `verifying` or `repairing`.
        done: the number of finished key ranges, or of seconds waited.
        total: the total number of key ranges, or of seconds to wait; None if it is not known.
        rows: rows read so far.
        seconds_left: an estimate of the remaining time, or None; during a wait for writers, the maximum remaining time.
        waits_for: while `waiting`: `readers`, whose leases must end, or `writers`, whose calls must end too.
        writers: the writers for which the work waits, each with its process, its host and the time when it was last
            seen; empty if they are not known because they run an older version of hbmodel.
    """

    phase: Literal["waiting", "building", "verifying", "repairing"]
    done: float
    total: float | None
    rows: int
    seconds_left: float | None = None
    waits_for: Awaited | None = None
    writers: Sequence[str] = ()


Report = Callable[[IndexProgress], object]

LONGEST_SLEEP = 1e9
"""The maximum number of seconds for which a thread sleeps at once. The operating system refuses much longer times."""


@define
class Throttle:
    """Limits the number of rows per second, and of bytes of keys and cells. None means no limit."""

    rows: float | None = None
    size: float | None = None
    _due: float = field(factory=time.monotonic)

    def __attrs_post_init__(self) -> None:
        check_speeds(rows_per_second=self.rows, bytes_per_second=self.size)

    def passed(self, rows: Sequence[Row]) -> None:
        """Sleeps for the time that the rows need at the maximum rate, minus the time since the previous rows."""
        seconds = 0.0
        if self.rows is not None:
            seconds = len(rows) / self.rows
        if self.size is not None:
            size = sum(len(row.row) + sum(len(c) + len(cell.value) for c, cell in row.columns.items()) for row in rows)
            seconds = max(seconds, size / self.size)
        if not seconds:
            return
        self._due = max(self._due, time.monotonic() - seconds) + seconds
        if (left := self._due - time.monotonic()) > 0:
            time.sleep(min(left, LONGEST_SLEEP))


@frozen
class Sweeps:
    """Sweeps over the rows of a table, for an index.

    Attributes:
        indexer: makes the entries of rows.
        index: the index for which the work is done, with its live table.
        report: called with the progress, or None.
        claim_life: seconds after which a range is taken from a program that stops responding.
        then: the sweeps to use as soon as all rows are adopted; None if all rows are adopted already.
        claims: the planner of claims for a unique index; None for any other index.
        look: seconds between two checks of the index state.
    """

    store: Store
    registry: Registry
    indexer: RowIndexer
    index: Index
    clock: ServerClock
    throttle: Throttle
    batch_size: int
    report: Report | None = None
    claim_life: float = CLAIM_LIFE
    then: Sweeps | None = None
    claims: VersionedRowPlanner | None = None
    look: float = LOOK

    def build(self) -> Counts:
        """Puts the entries of all rows. Programs that run the same build share the work."""
        return self._shared("building", Sweeps._build)

    def verify(self) -> Counts:
        """Checks the entries of all rows, and puts missing entries. Programs that run the same check share the work."""
        return self._shared("verifying", Sweeps._verify)

    def counted_in(self, work: str) -> Counts:
        """Returns the counts of a piece of work, from all programs together."""
        progress = self._claims(work).progress()
        return Counts() if progress is None else progress.counts

    def begin_again(self) -> None:
        """Restarts finished work that has refused rows."""
        for work in WORK:
            claims = self._claims(work)
            progress = claims.progress()
            if progress is not None and progress.done == progress.ranges and progress.counts.unfinished:
                claims.begin_again(progress, self._ranges())

    def forget(self) -> None:
        """Removes the work from the registry."""
        for work in WORK:
            claims = self._claims(work)
            if claims.progress() is not None:
                claims.forget()

    def _ranges(self) -> Sequence[KeyRange]:
        return [region.range for region in self.store.regions(self.indexer.schema.table)]

    def _claims(self, work: str) -> SharedRanges:
        row = work_row(registry_row(self.indexer.schema), self.index.table, work)
        return SharedRanges(self.store, self.registry.table, row, self.clock.now, round(self.claim_life * 1000))

    def _shared(self, phase: Literal["building", "verifying"], work: Work) -> Counts:
        counts, first, began = Counts(), -1.0, time.monotonic()

        def goes_on(progress: ClaimProgress | None) -> bool:
            nonlocal counts, first
            if progress is None:
                return self._state().state == phase  # otherwise another program has finished the work
            counts, first = progress.counts, progress.done if first < 0 else first
            self._show(phase, progress, first, began, 0)
            if progress.free_at:
                self._state()
            return True

        def through(claim: RangeClaim, progress: ClaimProgress) -> None:
            self._through(claim, work, partial(self._show, phase, progress, first, began))

        self._claims(phase).work_off(self._ranges, goes_on, through)
        return counts

    def _show(
        self, phase: Literal["building", "verifying"], progress: ClaimProgress, first: float, began: float, rows: int
    ) -> None:
        if self.report is not None:
            done = progress.done - first
            left = (time.monotonic() - began) * (progress.ranges - progress.done) / done if done else None
            self.report(IndexProgress(phase, progress.done, progress.ranges, progress.counts.rows + rows, left))

    def _through(self, claim: RangeClaim, work: Work, show: Callable[[int], None]) -> None:
        """Works on a range to its end."""
        before, looked = claim.counts.rows, time.monotonic()
        while True:
            current = self._current()
            for rows, since in current.batches(claim.range):
                counts = work(current, rows, since)
                if counts is None:
                    break  # the rows are too old, or were read before another build adopted all rows
                if time.monotonic() - looked >= self.look:
                    self._state()
                    looked = time.monotonic()
                claim.advance(key_successor(rows[-1].row), counts)
                self.throttle.passed(rows)
                show(claim.counts.rows - before)
            else:
                claim.finish(Counts())
                return

    def _current(self) -> Sweeps:
        """Returns this object. If another build has adopted all rows, returns the sweeps that use only rows with system
        cells.

        After the adoption, a row without system cells is no object: late writes have left its cells in a deleted row.
        """
        if self.then is not None:
            registration = self.registry.read(self.indexer.schema)
            if registration is not None and registration.rows == "indexed":
                return self.then
        return self

    def batches(self, within: KeyRange) -> Iterator[tuple[Sequence[Row], int]]:
        """Yields the rows of a range in batches, each with a reading of the server's clock from before the batch was
        read.
        """
        scan = Scan(within, columns=self.indexer.columns, batch_size=self.batch_size)
        return timed_batches(self.store, self.indexer.schema.table, scan, self.clock)

    def _build(self, rows: Sequence[Row], since: int) -> Counts | None:
        row_entries = drive(self.store, index_rows(self.indexer, rows, since), self.clock)
        return None if row_entries is None else counted(row_entries) + self.claim(rows)

    def claim(self, rows: Sequence[Row]) -> Counts:
        """Claims the values of rows in a unique index."""
        violations = [] if self.claims is None else drive(self.store, claim_existing(self.claims, rows), self.clock)
        duplicated = tuple((repr(each.value), each.key.hex(), each.owner.hex()) for each in violations)
        return Counts(duplicates=len(violations), duplicated=duplicated)

    def unclaimed(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Returns the rows that have no claim in the unique index."""
        return [] if self.claims is None else drive(self.store, unclaimed_rows(self.claims, rows), self.clock)

    def _verify(self, rows: Sequence[Row], since: int) -> Counts | None:
        findings = drive(self.store, find_missing(self.indexer, rows), self.clock)
        if findings.missing and self.put_missing(findings) is None:
            return None
        counts = Counts(
            rows=findings.live,
            missing=len(findings.missing),
            refused=len(findings.refused),
            samples=_samples(findings.refused),
        )
        return counts + self.claim(rows)

    def put_missing(self, findings: RowFindings) -> Counts | None:
        """Rereads the rows that have missing entries, and puts these entries. Returns None if this took too long."""
        since = self.clock.now()
        again = self.store.get(
            self.indexer.schema.table, [entries.row for entries in findings.missing], self.indexer.columns
        )
        row_entries = drive(
            self.store,
            index_rows(self.indexer, [row for row in again if row is not None], since, again=True),
            self.clock,
        )
        return None if row_entries is None else counted(row_entries)

    def _state(self) -> IndexState:
        """Returns the state of the index. Raises `IndexUnavailable` if the index was dropped during the work."""
        registration = self.registry.read(self.indexer.schema)
        states = () if registration is None else registration.indexes.values()
        state = next((state for state in states if state.table == self.index.table), None)
        if state is None or state.state == ABSENT or state.entry.get("dropping"):
            raise IndexUnavailable(
                "Another program dropped the index in the meantime: build it with hb.indexes.build_index() if it "
                "is still wanted.",
                table=self.indexer.schema.table,
                index=self.index.name,
            )
        return state


def counted(row_entries: Sequence[RowEntries]) -> Counts:
    """Returns the counts of rows whose entries were put."""
    refused = [one for one in row_entries if one.error is not None]
    return Counts(
        rows=len(row_entries),
        entries=sum(len(one.entries) for one in row_entries),
        adopted=sum(one.adoption is not None for one in row_entries),
        refused=len(refused),
        samples=_samples(refused),
    )


def _samples(refused: Sequence[RowEntries]) -> Sequence[Sequence[str]]:
    """Returns the keys of refused rows in hex, each with the reason in one line, without the advice that is meant for
    queries.
    """
    return tuple(
        (one.row.hex(), " ".join(HbmodelError.__str__(one.error).split())) for one in refused if one.error is not None
    )


Work = Callable[[Sweeps, Sequence[Row], int], Counts | None]
"""The work on a batch of rows, which gets a time of the clock from before they were read. If it returns None, the rows
must be read again.
"""
