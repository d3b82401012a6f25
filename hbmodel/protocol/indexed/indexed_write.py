"""The write protocols of indexed models where the last write wins, as sans-IO generators.

The generators yield operations and receive the answers.

A session runs them against a store. The model checker in the tests runs the same code through every interleaving and
crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import cast

from attrs import evolve

from hbmodel.errors import RowExists, UnknownOutcome
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.expiry import family_life
from hbmodel.protocol.indexed.index_build import RowIndexer
from hbmodel.protocol.indexed.indexed_batch import BatchPlan, by_table, plan_unread
from hbmodel.protocol.indexed.indexed_plan import UNREAD, IndexedRowPlanner, OldRow, RowPlan
from hbmodel.protocol.indexed.move_marks import moved_version
from hbmodel.protocol.indexed.placed_rows import PlacedRows
from hbmodel.protocol.indexed.read_rows import read_rows
from hbmodel.protocol.operations import (
    Acknowledge,
    AwaitClock,
    CheckAndMutate,
    CheckAndMutateRows,
    CheckLease,
    DeleteRows,
    GetRows,
    MutateRow,
    Protocol,
    PutRows,
    ReadClock,
    Together,
)
from hbmodel.protocol.row_condition import lacks_version
from hbmodel.protocol.writes import Outcome, PutObject, RowWrite
from hbmodel.store.values import Cell, ConditionalChange, Delete, Put, Row


def write_indexed_batch(
    planner: IndexedRowPlanner,
    writes: Sequence[RowWrite],
    atomic_rows: bool,
    deleted: dict[bytes, Outcome] | None = None,
    together: Set[bytes] = frozenset(),
    placed: PlacedRows | None = None,
) -> Protocol[None]:
    """Writes rows of an indexed model, each row at most once, in phases with one call per table and phase.

    In the first phase, the old rows are read. Then the new entries are put, and marks over the old entries of covering
    indexes. When all of these puts are carried out, the rows are put. After the acknowledgement, the new entries are
    verified and the stale ones deleted. Before the acknowledgement, conditional writes whose rows have changed since
    they were read go through these phases again, all together. If a driver could not carry out an operation, it repeats
    exactly that operation, including the timestamps.

    A row that was put is never put again with a later timestamp: other programs may have updated, deleted or moved the
    row since, and the later put would hide their acknowledged writes. If the write took too long, or the indexes have
    changed, only its entries are put again.

    Args:
        writes: the writes, at most one for each row.
        atomic_rows: whether the store mutates a row atomically. If so, a single delete is one call.
        deleted: records the rows that an attempt has deleted, since the next attempt finds them absent. A protocol that
            is started again because the indexes have changed gets the same mapping.
        together: the keys of objects that are written together. Objects that share a row of the table get the same
            timestamp.
        placed: records the rows that were put; a protocol that is started again gets the same record.
    """
    deleted = {} if deleted is None else deleted
    placed = PlacedRows() if placed is None else placed
    table = planner.schema.table
    if together:
        planner = evolve(planner, together=frozenset(together))
    outcomes = (yield from placed.completed(planner)) if placed else {}
    verifications: list[tuple[str, Put]] = []
    stale: list[tuple[str, Delete]] = []
    remaining = [write for write in writes if write.row not in outcomes] if outcomes else writes
    while remaining:
        reading = [write for write in remaining if planner.needs_read(write)]
        rows: Sequence[Row | None] = ()
        if reading:
            rows = yield from read_rows(planner, [write.row for write in reading])
            rows = yield from _with_versions(planner, reading, rows)
        now = yield ReadClock(planner.mixed)
        refused: Set[bytes] = frozenset()
        if reading:
            old_rows = {write.row: planner.old(row) for write, row in zip(reading, rows, strict=True)}
            plans = _planned(planner, remaining, old_rows, now, together)
            plan = BatchPlan.of(plans)
            yield from await_times(planner, plan.puts, now)
            yield from _put_first(plan)
            refused = yield from _write_planned(table, plans, planner.schema.version_column, atomic_rows, placed)
            plan = BatchPlan.of([of_row for of_row in plans if of_row.outcome.key not in refused]) if refused else plan
        else:
            # only puts are left, because only puts can be planned without a read
            plan = plan_unread(planner, cast(Sequence[PutObject], remaining), now)
            yield from _put_first(plan)
            yield from _write_rows(table, plan, atomic_rows, placed)
        deleted |= {outcome.key: outcome for outcome in plan.outcomes if outcome.action == "deleted"}
        outcomes |= {outcome.key: outcome for outcome in plan.outcomes}
        stale += plan.stale
        late = yield from _keep_entries(plan, now)
        if late and not planner.checks:
            outcomes |= yield from _not_there(planner.schema, plan.outcomes)
        if not late:
            verifications += planner.verifications([(name, put) for name, puts in plan.entries.items() for put in puts])
        remaining = [write for write in remaining if write.row in refused] if refused else ()
    done = [outcomes[write.row] for write in writes]
    yield Acknowledge(
        [deleted.get(outcome.key, outcome) if outcome.action == "absent" else outcome for outcome in done]
    )
    yield from finish(verifications, stale)


def _with_versions(
    planner: IndexedRowPlanner, writes: Sequence[RowWrite], rows: Sequence[Row | None]
) -> Protocol[Sequence[Row | None]]:
    """Returns the rows of writes, which were read before. If a row lacks a version cell that it needs, the cell is
    added, as in the build of an index.

    The changes of such rows are conditional on the version cell. If a version cell was added to any row, all rows are
    read again.
    """
    schema = planner.schema
    if not (planner.adopting and planner.checks) or family_life(schema) is None:
        # Only a row that expires with its family needs a version cell, because an update puts such a row again as a
        # whole.
        return rows
    indexer = RowIndexer(schema, (), adopting=True)
    puts: list[Put] = []
    for write, row in zip(writes, rows, strict=True):
        if row is None or isinstance(write, PutObject) or row.row in planner.together or not lacks_version(schema, row):
            continue
        row_entries = indexer.of(row)
        puts += [row_entries.adoption] if row_entries is not None and row_entries.adoption is not None else []
    if not puts:
        return rows
    yield PutRows(schema.table, puts)
    return (yield from read_rows(planner, [write.row for write in writes]))


def await_times(planner: IndexedRowPlanner, puts: Sequence[Put], now: int) -> Protocol[None]:
    """If other programs write at the server's time, waits until the server's clock has reached the timestamps of the
    puts.

    Later writes of those programs must not get lower timestamps than these puts.
    """
    latest = max((put.timestamp or 0 for put in puts), default=0) if planner.mixed else 0
    if latest > now:
        yield AwaitClock(latest - 1)


def _keep_entries(plan: BatchPlan, since: int) -> Protocol[bool]:
    """If a round took too long, puts its entries again, because a repair may have deleted the entries as orphans (rule
    3).

    The rows are not put again, because other programs may have changed or deleted them since. So it is unknown whether
    the entries match the rows.

    Args:
        since: the reading of the clock from which the timestamps of this round were chosen.

    Returns:
        Whether the round took too long.
    """
    late = False
    while not (yield CheckLease(since)):
        late = True
        since = yield ReadClock()
        if plan.entries:
            yield Together(
                [
                    PutRows(name, [at_time(put, max(since, (put.timestamp or 0) + 1)) for put in puts])
                    for name, puts in plan.entries.items()
                ]
            )
    return late


def _not_there(schema: TableSchema, outcomes: Sequence[Outcome]) -> Protocol[dict[bytes, Outcome]]:
    """Returns the failed outcomes of puts that took too long and whose rows are absent and have no marker.

    The outcome of such a put cannot be known. Its row may have been deleted and the marker purged. Or the put had the
    timestamp of an earlier marker, and arrived just as that marker was purged: a store without conditional deletes
    purges unconditionally, and so removes the put as well.
    """
    rows = [outcome.key for outcome in outcomes if outcome.action == "put"]
    rows_read: Sequence[Row | None] = (yield GetRows(schema.table, rows, [schema.version_column])) if rows else ()
    error = (
        "The write took longer than half the grace time, and its row was not found afterwards: read the row, and write "
        "it again if it is still missing."
    )
    return {
        key: Outcome("failed", key, error=UnknownOutcome(error, table=schema.table, key=key))
        for key, row in zip(rows, rows_read, strict=True)
        if row is None
    }


def _planned(
    planner: IndexedRowPlanner,
    writes: Sequence[RowWrite],
    old_rows: Mapping[bytes, OldRow],
    now: int,
    together: Set[bytes],
) -> list[RowPlan]:
    """Returns the plan of each write. If several writes share a row of the table, all of them get the latest time that
    any of them needs.
    """
    plans = [planner.plan(write, old_rows.get(write.row, UNREAD), now) for write in writes]
    wide = planner.schema.wide
    if wide is None or not together:
        return plans
    rows = {place: wide.form.cut(place)[0] for place in together}
    latest: dict[bytes, int] = {}
    for write, plan in zip(writes, plans, strict=True):
        if write.row in rows and plan.put is not None and plan.put.timestamp is not None:
            latest[rows[write.row]] = max(plan.put.timestamp, latest.get(rows[write.row], 0))
    return [
        plan
        if plan.put is None or (at := latest.get(rows.get(write.row, b""), plan.put.timestamp)) == plan.put.timestamp
        else planner.plan(write, old_rows.get(write.row, UNREAD), at or now)
        for write, plan in zip(writes, plans, strict=True)
    ]


def finish(verifications: Sequence[tuple[str, Put]], stale: Sequence[tuple[str, Delete]]) -> Protocol[None]:
    """Yields the steps after the acknowledgement: entries are verified, and stale entries are deleted. The steps may be
    carried out in any order, or not at all.
    """
    last: list[PutRows | DeleteRows] = [PutRows(name, puts) for name, puts in by_table(verifications).items()]
    last += [DeleteRows(name, deletes) for name, deletes in by_table(stale).items()]
    if last:
        yield Together(last)


def _put_first(plan: BatchPlan) -> Protocol[None]:
    """Yields the puts that must take effect before the rows are put."""
    if first := plan.before_rows:
        yield Together([PutRows(name, puts) for name, puts in first.items()])


def _write_planned(
    table: str, plans: Sequence[RowPlan], version_column: bytes, atomic_rows: bool, placed: PlacedRows
) -> Protocol[Set[bytes]]:
    """Writes the rows. Returns the rows that have changed since they were read, so that their writes must be planned
    again.

    If a write loses against another one, its entries remain, because they may also be the entries of the winner.
    """
    checked = {plan.outcome.key: plan for plan in plans if plan.condition is not None}
    if not checked:
        yield from _write_rows(table, BatchPlan.of(plans), atomic_rows, placed)
        return frozenset()
    yield from _write_rows(table, BatchPlan.of([plan for plan in plans if plan.condition is None]), atomic_rows, placed)
    changes = [
        ConditionalChange(row, *plan.condition, plan.mutations)
        for row, plan in checked.items()
        if plan.condition is not None
    ]
    applied: Sequence[bool | None]
    if len(changes) == 1:
        (one,) = changes
        applied = [(yield CheckAndMutate(table, one.row, one.column, one.expected, one.mutations))]
    else:
        applied = yield CheckAndMutateRows(table, changes)
    placed.note([plan.outcome for plan, went_through in zip(checked.values(), applied, strict=True) if went_through])
    refused = [row for row, went_through in zip(checked, applied, strict=True) if not went_through]
    if not refused:
        return frozenset()
    # An earlier call whose answer was lost may have been carried out. In this case, the row has the version of the
    # write.
    rows_read: Sequence[Row | None] = yield GetRows(table, refused, [version_column])
    again = {row for row, now in zip(refused, rows_read, strict=True) if not _is_put(checked[row], now, version_column)}
    placed.note([checked[row].outcome for row in refused if row not in again])
    return again


def _is_put(plan: RowPlan, row: Row | None, version_column: bytes) -> bool:
    cell = None if row is None else row.columns.get(version_column)
    return cell is not None and plan.put is not None and cell.value == plan.put.cells[version_column]


def _write_rows(table: str, plan: BatchPlan, atomic_rows: bool, placed: PlacedRows) -> Protocol[None]:
    if atomic_rows and len(plan.puts) == len(plan.row_deletes) == 1:
        yield MutateRow(table, [*plan.puts, *plan.row_deletes])
        placed.note(plan.outcomes)
        return
    if plan.puts:
        yield PutRows(table, plan.puts)
        placed.note(plan.outcomes, plan.row_deletes)
    if plan.row_deletes:  # the markers are written before anything is deleted (rule 4)
        yield DeleteRows(table, plan.row_deletes)
        placed.rest.clear()


def insert_indexed(
    planner: IndexedRowPlanner, write: PutObject, placed: list[Outcome] | None = None
) -> Protocol[list[Outcome]]:
    """Puts an object if its key is free: first the entries, then the row by one check-and-mutate against the liveness
    cell that was read.

    An insert that loses leaves its entries, which are orphans until a repair. If the insert was refused because an
    earlier attempt of the same call was applied, it finds its nonce in the version cell. Returns the outcome, which is
    already acknowledged, as the only item of a list. Raises `RowExists` if the key is not free.

    Args:
        placed: receives the outcome as soon as the row is put; the remaining steps concern only its entries.
    """
    schema = planner.schema
    while True:
        (row,) = yield from read_rows(planner, [write.row])
        old = planner.old(row)
        if old.live:
            raise RowExists(
                "A row with this key exists already: use another key, or change the row with update().",
                table=schema.table,
                key=write.row,
            )
        now = yield ReadClock(planner.mixed)
        plan = planner.plan(write, old, now)
        if plan.put is None or plan.outcome.error is not None:
            raise plan.outcome.error or AssertionError("a full write always puts its row")
        yield from await_times(planner, [plan.put], now)
        if plan.entries:
            yield Together([PutRows(name, puts) for name, puts in by_table([*plan.entries, *plan.marks]).items()])
        seen = None if row is None else row.columns.get(schema.liveness_column)
        mutations: Sequence[Put | Delete] = [plan.put] if plan.row_delete is None else [plan.put, plan.row_delete]
        applied = yield CheckAndMutate(
            schema.table, write.row, schema.liveness_column, None if seen is None else seen.value, mutations
        )
        if not applied:
            (row,) = yield GetRows(schema.table, [write.row], schema.row_columns)
            if _moved_since(planner, plan.put, seen, row):
                yield Acknowledge([plan.outcome])
                return [plan.outcome]
            version = None if row is None else row.columns.get(schema.version_column)
            if version is None or version.value != plan.put.cells[schema.version_column]:
                if planner.old(row).live:
                    raise RowExists(
                        "A row with this key exists already: use another key, or change the row with update().",
                        table=schema.table,
                        key=write.row,
                    )
                continue
        if placed is not None:
            placed.append(plan.outcome)
        verifications = planner.verifications(plan.entries)
        while not (yield CheckLease(now)):
            # A repair may have deleted the entries as orphans before the row was put, so they are put again (rule 3).
            # The row is not put again, because other programs may have changed or deleted it since. So it is not known
            # whether these entries match the row.
            verifications = []
            now = yield ReadClock(planner.mixed)
            fresh = max(now, (plan.outcome.timestamp or now) + 1)
            entries = [(name, at_time(put, fresh)) for name, put in plan.entries]
            yield Together([PutRows(name, puts) for name, puts in by_table(entries).items()])
        yield Acknowledge([plan.outcome])
        yield from finish(verifications, ())
        return [plan.outcome]


def _moved_since(planner: IndexedRowPlanner, put: Put, seen: Cell | None, row: Row | None) -> bool:
    """Returns whether a put was refused although an earlier call, whose answer was lost, carried it out, and the object
    has moved since.

    Args:
        seen: the liveness cell that was read before the put.

    Raises:
        UnknownOutcome: another program has moved an object away from the row since the cell `seen` was read, and it
            cannot be known whether this is the object of the put.
    """
    schema = planner.schema
    marker = None if row is None else row.columns.get(schema.liveness_column)
    moved = None if marker is None or (seen is not None and marker.value == seen.value) else moved_version(marker.value)
    if moved is not None and moved != put.cells[schema.version_column]:
        raise UnknownOutcome(
            "Another program has moved an object from this key during the insert. It may be the object that this call "
            "inserted: look for it under its new key.",
            table=schema.table,
            key=put.row,
        )
    return moved is not None


def at_time(put: Put, timestamp: int) -> Put:
    """Returns the put with a later timestamp. The new put still expires at the same time, or at once if that time has
    passed.
    """
    if put.ttl is None or put.timestamp is None:
        return evolve(put, timestamp=timestamp)
    return evolve(put, timestamp=timestamp, ttl=max(1, put.timestamp + put.ttl - timestamp))
