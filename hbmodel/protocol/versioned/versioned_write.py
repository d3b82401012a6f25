"""The write protocol of versioned models (optimistic concurrency), as a sans-IO generator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import define, field

from hbmodel.errors import ConflictError, RowExists, RowMoved, SchemaMismatch, UnknownOutcome
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.protocol.indexed.indexed_batch import by_table
from hbmodel.protocol.indexed.indexed_plan import OldRow, RowPlan
from hbmodel.protocol.indexed.indexed_write import at_time, finish
from hbmodel.protocol.indexed.read_rows import read_rows
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutateRows,
    CheckLease,
    LetClockTick,
    Protocol,
    PutRows,
    ReadClock,
    Together,
)
from hbmodel.protocol.versioned.unique_values import claim_values, claims_of, release
from hbmodel.protocol.versioned.versioned_plan import Sent, VersionedRowPlanner
from hbmodel.protocol.writes import Outcome, RowWrite
from hbmodel.store.values import ConditionalChange, Delete, Put, Row

Release = tuple[str, ConditionalChange]

SentChanges = dict[bytes, Sent]
"""The changes that were sent, by row."""


def write_versioned_batch(
    planner: VersionedRowPlanner, writes: Sequence[RowWrite], sent: SentChanges, *, insert: bool = False
) -> Protocol[list[Outcome]]:
    """Writes rows of a versioned model, each row at most once, in rounds of one call per table and phase.

    A round reads the rows, puts the new entries, waits for all of them, and then changes each row whose version cell is
    still the one that was read. Refused writes are tried again in the next round. If a call whose answer was lost may
    have been carried out, the next round first looks for the write's own nonce. After the last round the protocol
    acknowledges, verifies the entries of covering indexes and deletes the stale entries. A write that loses never
    deletes its entries, because they may also be the winner's entries.

    Args:
        writes: the writes, at most one per row.
        sent: records the sent changes. A protocol that is started again because the indexes have changed gets the same
            mapping.
        insert: whether it is an error if a row is live.

    Raises:
        RowMoved: a row is sealed. The writes of other rows may have been carried out.
    """
    batch = yield from write_rounds(planner, writes, sent, insert=insert)
    outcomes = [batch.outcomes[write.row] for write in writes]
    for outcome in outcomes:
        if isinstance(outcome.error, RowMoved):
            raise outcome.error
    yield Acknowledge(outcomes)
    yield from batch.finish()
    return outcomes


def write_rounds(
    planner: VersionedRowPlanner, writes: Sequence[RowWrite], sent: SentChanges, *, insert: bool = False
) -> Protocol[WrittenRows]:
    """Carries out the rounds of a batch, as a part of another protocol that acknowledges the outcomes."""
    batch = WrittenRows(planner, sent, insert)
    remaining: Sequence[RowWrite] = writes
    while remaining:
        remaining = yield from batch.round(remaining)
    return batch


def insert_versioned(planner: VersionedRowPlanner, write: RowWrite, sent: SentChanges) -> Protocol[list[Outcome]]:
    """Puts an object of a versioned model if its key is free. Returns a list with one item: the outcome, which is
    already acknowledged. Raises `RowExists` if the key is not free.
    """
    (outcome,) = outcomes = yield from write_versioned_batch(planner, [write], sent, insert=True)
    if outcome.error is not None:
        raise outcome.error
    return outcomes


@define
class WrittenRows:
    """The rounds of a batch, and their results so far.

    Attributes:
        outcomes: the outcomes of the writes that are done, by row.
        stale: deletes of stale entries, each with its index table.
        verifications: the puts that verify new entries, each with its index table, by row.
        releases: the releases of unique values that rows have given up, each with its index table.
        rounds: for each row that wants unique values, the number of its rounds since the last time that any row was
            done.
        done: how many rows were done when `rounds` was last cleared.
    """

    planner: VersionedRowPlanner
    sent: SentChanges
    insert: bool
    outcomes: dict[bytes, Outcome] = field(factory=dict)
    stale: list[tuple[str, Delete]] = field(factory=list)
    verifications: dict[bytes, Sequence[tuple[str, Put]]] = field(factory=dict)
    releases: list[Release] = field(factory=list)
    rounds: Counter[bytes] = field(factory=Counter)
    done: int = 0

    def finish(self) -> Protocol[None]:
        """Yields the steps that follow the acknowledgement."""
        yield from finish([put for puts in self.verifications.values() for put in puts], self.stale)
        yield from release(self.releases)

    def round(self, writes: Sequence[RowWrite]) -> Protocol[list[RowWrite]]:
        """Carries out one round, and returns the writes that were refused."""
        planner, table = self.planner, self.planner.schema.table
        rows: Sequence[Row | None] = yield from read_rows(planner, [write.row for write in writes])
        now = yield ReadClock()
        entries: list[tuple[str, Put]] = []
        planned: dict[bytes, tuple[RowPlan, OldRow]] = {}
        changes: dict[bytes, ConditionalChange] = {}
        unchanged: dict[bytes, Outcome] = {}
        for write, row in zip(writes, rows, strict=True):
            old = planner.old(row)
            if (yield from self._settled(write, old, entries)):
                continue
            plan = self._planned(write, old, now)
            if plan.put is None and planner.pinned is not None:
                yield from self._still_pinned(write, plan)
            if plan.put is None and self._judged_with_row(plan):
                changes[write.row], unchanged[write.row] = planner.no_change(write.row, old), plan.outcome
                continue
            if plan.put is None:
                self.outcomes[write.row] = plan.outcome
                continue
            planned[write.row] = plan, old
        claimed = yield from self._claimed(planned, now)
        notes: SentChanges = {}
        for row_key, releases in claimed.items():
            plan, old = planned[row_key]
            entries += [*plan.entries, *plan.marks]
            changes[row_key] = planner.change(plan, old)
            notes[row_key] = Sent(planner, plan, planner.put_cell(plan), not planner.cell(old).version, now, releases)
        if entries:
            yield put_entries(entries)
        if changes:
            for row_key, note in notes.items():
                self.sent[row_key] = note
            try:
                waiting = [row for row in planned if row not in changes and row not in self.outcomes]
                applied: Sequence[bool | None] = yield CheckAndMutateRows(table, list(changes.values()), waiting)
            except SchemaMismatch:  # the changes were not sent, because the indexes have changed
                for row_key in notes:
                    del self.sent[row_key]
                raise
            for row_key, went_through in zip(changes, applied, strict=True):
                if row_key in unchanged:
                    if went_through:
                        self.outcomes[row_key] = unchanged[row_key]
                elif went_through:
                    self._note(self.sent[row_key])
                elif went_through is False:
                    del self.sent[row_key]
        yield from self._keep_entries([write.row for write in writes if write.row in self.outcomes])
        return [write for write in writes if write.row not in self.outcomes]

    def _judged_with_row(self, plan: RowPlan) -> bool:
        """Returns whether the outcome of a write that changes nothing depends on a check of the row that it shares with
        other writes of its commit.

        Without the check, another commit could put all objects of the row before this commit changes its other objects,
        and each of the two commits would be carried out only in part. A local transaction does not need this check,
        because it has read the version of the row again.
        """
        together = plan.outcome.key in self.planner.together
        return together and self.planner.pinned is None and not isinstance(plan.outcome.error, RowMoved)

    def _claimed(
        self, planned: Mapping[bytes, tuple[RowPlan, OldRow]], now: int
    ) -> Protocol[dict[bytes, Sequence[Release]]]:
        """Claims the unique values of rows. Returns the rows that may be written, each with its releases."""
        claims = {row: claims_of(self.planner, plan, old) for row, (plan, old) in planned.items()}
        if len(self.outcomes) > self.done:  # if values move along a chain of rows, each row waits for the row before it
            self.rounds.clear()
            self.done = len(self.outcomes)
        tried = max((self.rounds[row] for row in planned), default=0)
        for row in [row for row, each in claims.items() if each.wanted]:
            self.rounds[row] += 1
            if self.rounds[row] > self.planner.claim_rounds:
                table = self.planner.schema.table
                error = ConflictError(
                    "Other writes keep claiming the same unique value: try again.", table=table, key=row
                )
                if self.planner.pinned is not None:
                    raise error
                self.outcomes[row] = Outcome("failed", row, error=error)
                del claims[row]
        claimed = yield from claim_values(self.planner, claims, now, wait=tried < self.planner.patience)
        for row, result in claimed.items():
            if result.error is not None:
                if self.planner.pinned is not None:
                    raise result.error
                self.outcomes[row] = Outcome("failed", row, error=result.error)
        if any(result.refused for result in claimed.values()):
            yield LetClockTick()
        return {row: result.releases for row, result in claimed.items() if result.ready}

    def _still_pinned(self, write: RowWrite, plan: RowPlan) -> Protocol[None]:
        """Checks the row of a write in a local transaction that changes nothing, and raises the error of the write.

        A write that changes nothing has no put whose condition would check the cells that were read. The version of the
        row was read before the object, so the row is read once more. If its version has changed, `ConflictError` is
        raised.
        """
        planner = self.planner
        if not isinstance(plan.outcome.error, ConflictError):
            (row,) = yield from read_rows(planner, [write.row])
            planner.check_pinned(write.row, planner.old(row))
        if plan.outcome.error is not None:
            raise plan.outcome.error

    def _settled(self, write: RowWrite, old: OldRow, entries: list[tuple[str, Put]]) -> Protocol[bool]:
        """Returns whether the outcome of a change that was sent earlier is known, or can no longer be found.

        Adds the entries that the row needs to `entries`.
        """
        sent = self.sent.get(write.row)
        if sent is None:
            return False
        current = self.planner.cell(old)
        verdict = sent.verdict(current)
        if sent.creates and verdict != "applied":
            lost = verdict == "lost" or current.version == UNKNOWN
            verdict = "lost" if lost and (yield CheckLease(sent.since)) else "unknown"  # it is too early for a purge
        if verdict == "lost":
            del self.sent[write.row]
            return False
        if verdict == "unknown" and current.sealed and not self.planner.over_closed:
            return False  # planning the write raises RowMoved, and then a read of the other table decides
        if verdict == "unknown":
            error = UnknownOutcome(
                "The write may or may not have been applied, because its row has been written too often since: "
                "read the row to find out.",
                table=self.planner.schema.table,
                key=write.row,
            )
            self.outcomes[write.row] = Outcome("failed", write.row, error=error)
            return True
        if sent.planner is not self.planner and current.nonces[0] == sent.cell.nonces[0]:
            entries += self.planner.current_entries(old)  # the entries for the current indexes
        self._note(sent)
        return True

    def _planned(self, write: RowWrite, old: OldRow, now: int) -> RowPlan:
        if self.insert and old.live:
            error = RowExists(
                "A row with this key exists already: use another key, or change the row with update().",
                table=self.planner.schema.table,
                key=write.row,
            )
            return RowPlan(Outcome("failed", write.row, error=error))
        return self.planner.plan(write, old, now)

    def _note(self, sent: Sent) -> None:
        self.outcomes[sent.plan.outcome.key] = sent.plan.outcome
        self.stale += sent.plan.stale
        self.verifications[sent.plan.outcome.key] = sent.planner.verifications(sent.plan.entries)
        self.releases += sent.releases

    def _keep_entries(self, rows: Sequence[bytes]) -> Protocol[None]:
        """If changes took too long, puts their entries again, because a repair may have deleted them as orphans (rule
        3).

        The rows are not put again, because other programs may have changed or deleted them since. So it is not known
        whether the entries match the rows.
        """
        done = [sent for row in rows if self.outcomes[row].error is None and (sent := self.sent.get(row)) is not None]
        if not done:
            return
        since = min(sent.since for sent in done)
        while not (yield CheckLease(since)):
            since = yield ReadClock()
            for sent in done:
                self.verifications.pop(sent.plan.outcome.key, None)
            late = [
                (name, at_time(put, max(since, (put.timestamp or 0) + 1)))
                for sent in done
                for name, put in sent.plan.entries
            ]
            if late:
                yield put_entries(late)


def put_entries(entries: Sequence[tuple[str, Put]]) -> Together:
    """Returns an operation that puts entries, each in its index table, with one call per table."""
    return Together([PutRows(name, puts) for name, puts in by_table(entries).items()])
