"""Moves objects of versioned models from one table to another, and writes objects meanwhile, as sans-IO generators.

Each row moves independently: it is sealed, copied and closed, see `row_seals`. Readers look in the source table, and
then in the target table. Writers follow the state of the row in the source table. While rows are being moved, writers
first move the rows that they will change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

from hbmodel.errors import ConflictError, HbmodelError, RowMoved
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.protocol.indexed.indexed_plan import OldRow
from hbmodel.protocol.indexed.indexed_write import finish
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutateRows,
    CheckBinding,
    CheckLease,
    GetRows,
    Protocol,
    ReadClock,
)
from hbmodel.protocol.relocation.row_seals import FollowingPlanner, Pair, Way, carry_over, reopened
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.versioned.versioned_write import SentChanges, WrittenRows, put_entries, write_rounds
from hbmodel.protocol.writes import Outcome, RowWrite
from hbmodel.store.values import ConditionalChange, Delete, Put, Row

ROUNDS = 100
"""The number of rounds after which a write fails because other programs keep moving its object."""


def move_rows(way: Way, pairs: Sequence[Pair], *, seals: bool = True) -> Protocol[bool]:
    """Moves live rows. Any number of programs may do this, any number of times. Each of them may crash at any point.

    Args:
        seals: whether to move rows that are not sealed yet, too.

    Returns:
        Whether all rows have been moved. False means that the phase that allows moves has ended, or was last checked
        too long ago.
    """
    left = list(pairs)
    while left:
        since = yield ReadClock()
        rows = yield from _read(way.source, [pair.source for pair in left])
        live_rows = [(pair, row) for pair, row in zip(left, rows, strict=True) if row is not None and way.old(row).live]
        unsealed = [(pair, row) for pair, row in live_rows if way.state(way.old(row)) == "live"]
        sealed = [(pair, row) for pair, row in live_rows if way.state(way.old(row)) == "sealed"]
        if unsealed and seals:
            for _, row in unsealed:
                way.written(row)  # raises an error if the row cannot be copied, because such a row must not be sealed
            if not (yield CheckLease(since)):
                return False
            yield _changes(way.source, [way.seal(row.row, way.old(row), since) for _, row in unsealed])
        if sealed and not (yield from _move_sealed(way, sealed, since)):
            return False
        left = [pair for pair, row in live_rows if seals or way.state(way.old(row)) == "sealed"]
    return True


def _move_sealed(way: Way, sealed: Sequence[tuple[Pair, Row]], since: int) -> Protocol[bool]:
    """Copies sealed rows, and closes the rows whose copies exist. Returns False if the lease has ended."""
    others = yield from _read(way.target, [pair.target for pair, _ in sealed])
    missing = [(row, pair, other) for (pair, row), other in zip(sealed, others, strict=True) if not way.there(other)]
    copied = {pair.source for (pair, _), other in zip(sealed, others, strict=True) if way.there(other)}
    if missing:
        plans = [way.copy(row, other, since) for row, _, other in missing]
        if entries := [entry for plan, _ in plans for entry in (*plan.entries, *plan.marks)]:
            yield put_entries(entries)
        if not (yield CheckLease(since)):
            return False
        applied = yield _changes(way.target, [change for _, change in plans])
        copied |= {pair.source for (_, pair, _), went in zip(missing, applied, strict=True) if went}
    yield from _close(way, [row for pair, row in sealed if pair.source in copied], since)
    return True


def _close(way: Way, rows: Sequence[Row], since: int) -> Protocol[None]:
    if not rows:
        return
    plans = [way.close(row.row, way.old(row), since) for row in rows]
    if marks := [mark for plan, _ in plans for mark in plan.marks]:
        yield put_entries(marks)
    applied = yield _changes(way.source, [change for _, change in plans])
    stale: list[tuple[str, Delete]] = [
        delete for (plan, _), went in zip(plans, applied, strict=True) if went for delete in plan.stale
    ]
    nothing: list[tuple[str, Put]] = []
    yield from finish(nothing, stale)


def reopen_rows(planner: VersionedRowPlanner, rows: Sequence[Row]) -> Protocol[None]:
    """Turns closed rows into ordinary dead rows again. This is done once no program reads the other table any more."""
    now = yield ReadClock()
    changes = [change for row in rows if (change := reopened(planner, row, now)) is not None]
    if changes:
        yield _changes(planner, changes)


def _read(planner: VersionedRowPlanner, rows: Sequence[bytes]) -> Protocol[Sequence[Row | None]]:
    rows_read: Sequence[Row | None] = yield GetRows(planner.schema.table, rows, planner.schema.row_columns)
    return rows_read


def _changes(planner: VersionedRowPlanner, changes: Sequence[ConditionalChange]) -> CheckAndMutateRows:
    return CheckAndMutateRows(planner.schema.table, changes)


# --- writes -----------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class PairedWrite:
    """One write, in the layout of the source table and in the layout of the target table."""

    source: RowWrite
    target: RowWrite

    @property
    def pair(self) -> Pair:
        """The row keys of the written object."""
        return Pair(self.source.row, self.target.row)


def write_between(
    way: Way,
    writes: Sequence[PairedWrite],
    sent: Mapping[str, SentChanges],
    *,
    insert: bool = False,
    rounds: int = ROUNDS,
) -> Protocol[list[Outcome]]:
    """Writes objects while they are being moved between two tables. It corresponds to `write_versioned_batch` for one
    table.

    Args:
        writes: the writes, at most one per object.
        sent: records the sent changes, by table. A protocol that is started again gets the same mappings.
        insert: whether it is an error if the object exists.
        rounds: the number of rounds after which a write fails because other programs keep moving its object.
    """
    batch = _Between(way, sent, insert)
    left: Sequence[PairedWrite] = writes
    for _ in range(rounds):
        left = yield from batch.round(left)
        if not left:
            break
        # Once the next phase has begun, other programs may leave a row sealed for an unlimited time, so the phase is
        # checked before the next round.
        yield CheckBinding()
    table = way.source.schema.table
    for write in left:
        error = ConflictError("Other programs keep moving the object: try again.", table=table, key=write.source.row)
        batch.outcomes[write] = Outcome("failed", write.source.row, error=error)
    outcomes = [batch.outcomes[write] for write in writes]
    yield Acknowledge(outcomes)
    for written in batch.written:
        yield from written.finish()
    return outcomes


@define
class _Between:
    """The rounds of a batch, and the outcomes of its writes so far."""

    way: Way
    sent: Mapping[str, SentChanges]
    insert: bool
    outcomes: dict[PairedWrite, Outcome] = field(factory=dict)
    written: list[WrittenRows] = field(factory=list)

    def round(self, writes: Sequence[PairedWrite]) -> Protocol[Sequence[PairedWrite]]:
        """Carries out one round, and returns the writes that must be checked again."""
        way = self.way
        since = yield ReadClock()
        rows = yield from _read(way.source, [write.source.row for write in writes])
        old_rows = {write: way.old(row) for write, row in zip(writes, rows, strict=True)}
        here: list[PairedWrite] = []
        there = yield from self._never_there(old_rows)
        moving: list[PairedWrite] = []
        closing: list[PairedWrite] = []
        for write, old in old_rows.items():
            state = way.state(old)
            if write in there:
                continue
            if state == "closed":
                if not (yield from self._settled(write, old)):
                    there[write] = old.newest
            elif state == "sealed" or (state == "live" and way.seals):
                moving.append(write)
            elif way.seals:
                closing.append(write)
            else:
                here.append(write)
        if closing and (yield CheckLease(since)):
            yield _changes(way.source, [way.close_free(write.source.row, old_rows[write], since) for write in closing])
        yield from self._move(moving)
        yield from self._write(way.source, {write: write.source for write in here})
        planner = FollowingPlanner(
            way.target.schema, way.target.indexes, way.target.bound, way.target.nonce, over_closed=way.back,
            floors={write.target.row: newest for write, newest in there.items()},
        )  # fmt: skip
        yield from self._write(planner, {write: write.target for write in there})
        return [write for write in writes if write not in self.outcomes]

    def _never_there(self, old_rows: Mapping[PairedWrite, OldRow]) -> Protocol[dict[PairedWrite, int]]:
        """If objects move back, returns the writes whose objects have never left the target table. Each has the
        timestamp -1, because there is no earlier timestamp to exceed.
        """
        absent = [write for write, old in old_rows.items() if self.way.back and old.row is None]
        if not absent:
            return {}
        others = yield from _read(self.way.target, [write.target.row for write in absent])
        return {write: -1 for write, other in zip(absent, others, strict=True) if not self.way.closed_in_target(other)}

    def _settled(self, write: PairedWrite, closed: OldRow) -> Protocol[bool]:
        """Returns whether a change that was sent earlier was applied before its row was closed."""
        sent = self.sent[self.way.source.schema.table]
        change = sent.get(write.source.row)
        if change is None:
            return False
        cell = self.way.source.cell(closed)
        verdict = change.verdict(cell)
        if verdict == "applied":
            self.outcomes[write] = change.plan.outcome
            return True
        if verdict == "lost" or (cell.version == UNKNOWN and change.first and (yield CheckLease(change.since))):
            del sent[write.source.row]
            return False
        carry_over(sent, write.source.row, self.sent[self.way.target.schema.table], write.target.row)
        return False

    def _move(self, writes: Sequence[PairedWrite]) -> Protocol[None]:
        """Moves the rows that will be written. If a row cannot be moved to the other table, its write fails."""
        for write in writes:
            try:
                yield from move_rows(self.way, [write.pair], seals=self.way.seals)
            except HbmodelError as error:
                self.outcomes[write] = Outcome("failed", write.source.row, error=error)

    def _write(self, planner: VersionedRowPlanner, writes: Mapping[PairedWrite, RowWrite]) -> Protocol[None]:
        """Carries out writes in one table. If a row has been sealed since it was read, it is read again in the next
        round.
        """
        if not writes:
            return
        done = yield from write_rounds(
            planner, list(writes.values()), self.sent[planner.schema.table], insert=self.insert
        )
        self.written.append(done)
        for write, of_row in writes.items():
            outcome = done.outcomes[of_row.row]
            if not isinstance(outcome.error, RowMoved):
                self.outcomes[write] = outcome
