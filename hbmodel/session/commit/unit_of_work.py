"""The unit of work, which keeps pending writes in the order of the calls and executes them in batches that write each
row once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from hbmodel.errors import (
    CapabilityError,
    FamilyNotFound,
    HbmodelError,
    InvalidRequest,
    PartialWrite,
    RowMoved,
    SchemaMismatch,
    SessionError,
    StoreError,
    TableNotFound,
    UnknownOutcome,
)
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.clock import ServerClock
from hbmodel.protocol.driver import Resumable, counts_again
from hbmodel.protocol.indexed.entries_first import with_entries_first
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed.indexed_write import write_indexed_batch
from hbmodel.protocol.operations import Operation, Protocol
from hbmodel.protocol.relocation.migration import RETURNED
from hbmodel.protocol.server_timed.unindexed_write import write_unindexed_batch
from hbmodel.protocol.versioned.versioned_plan import RowVersion, VersionedRowPlanner
from hbmodel.protocol.versioned.versioned_write import write_versioned_batch
from hbmodel.protocol.writes import Outcome
from hbmodel.session.commit.batches import Batch, Pending, held_version, split_batches
from hbmodel.session.commit.conflicts import reason_of, refusal
from hbmodel.session.commit.migration_routing import MigrationRouting
from hbmodel.session.commit.pending_rows import PendingRows
from hbmodel.session.commit.row_planner import row_planner
from hbmodel.session.commit.shared_row_batches import JointBatch, joint_batches
from hbmodel.session.commit.shared_row_commit import JointCommit, Part
from hbmodel.session.commit.sizes import SESSION_SIZES, SessionSizes
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.store.port import Store
from hbmodel.tables.registry.nullable_columns import BindingWithoutNone
from hbmodel.tables.registry.registration import Binding
from hbmodel.tables.roll.writers_roll import Calls

log = logging.getLogger("hbmodel")

RESTARTS = 5
"""How many times a batch is repeated because the indexes of its table have changed. Between two such changes there is
at least one lease.
"""

Unswept = Resumable | JointCommit

LASTING = (TableNotFound, FamilyNotFound, InvalidRequest)
"""Errors of a store that would occur again in the next call, for example after an index was dropped."""


def check_versions_possible(store: Store, schema: TableSchema) -> None:
    """Raises `CapabilityError` if a model is versioned and the store cannot check versions."""
    if schema.versioned and not store.capabilities.check_and_mutate:
        raise CapabilityError(
            "A versioned model can be written only in a store with check-and-mutate: embedded, or HBase through "
            "its Thrift2 gateway.",
            table=schema.table,
        )


class UnitOfWork:
    """Pending writes and the running commit.

    Args:
        bind: returns the current binding of a model, or raises an error if the model cannot be used.
        writing: called with the schemas of the models that will be written; returns a context manager around the
            writes.
        atomic_rows: whether all writes to one row of a wide model are made in one mutation.
        pinned: the version that the row must have, if all writes are into one row. Either all of them are executed or
            none. None if no version is required.
        inserting: whether it is an error if a row of a versioned model exists.
        unswept: batches whose index entries must still be verified or deleted. The list may be shared with another unit
            of work.
        sizes: the maximum sizes of what is written at once and of what is remembered.
    """

    def __init__(
        self,
        store: Store,
        view: Callable[[TableSchema], Store],
        bind: Callable[[TableSchema], Binding],
        clock: ServerClock,
        writing: Callable[..., AbstractContextManager[object]],
        *,
        atomic_rows: bool = True,
        pinned: RowVersion | None = None,
        inserting: bool = False,
        unswept: list[tuple[Store, Unswept]] | None = None,
        sizes: SessionSizes = SESSION_SIZES,
    ) -> None:
        self._moves = MigrationRouting(bind, view)
        self._store, self._view, self._bind, self._clock, self._atomic_rows = store, view, bind, clock, atomic_rows
        self._writing, self._sizes = writing, sizes
        self._pinned, self._inserting = pinned, inserting
        self._pending: list[Pending] = []
        self._committing: list[Pending] = []
        self._batches: list[Batch | JointBatch] = []
        self._begun = False  # whether a batch of the running commit is done
        self._resumed = False  # whether an earlier commit may have written part of the current batch
        self._doubted = False  # whether the current batch may have put rows, so that it must not be planned again
        self._unswept: list[tuple[Store, Unswept]] = [] if unswept is None else unswept
        self._writers: dict[tuple[str, bytes, bytes], TableSchema] = {}  # by table, column family and kind
        self._shared: dict[str, None] = {}  # tables whose rows are shared by objects
        self._rows = PendingRows()
        # the pending updates, by the `id()` of the version object in the copy that each update returned
        self._updates: dict[int, Pending] = {}

    def apart(
        self, *, atomic_rows: bool | None = None, pinned: RowVersion | None = None, inserting: bool = False
    ) -> UnitOfWork:
        """A separate unit of work without calls. The list of batches whose index entries must still be verified or
        deleted is shared with this one.
        """
        atomic = self._atomic_rows if atomic_rows is None else atomic_rows
        return UnitOfWork(
            self._store,
            self._view,
            self._bind,
            self._clock,
            self._writing,
            atomic_rows=atomic,
            pinned=pinned,
            inserting=inserting,
            unswept=self._unswept,
            sizes=self._sizes,
        )

    def pin(self, version: RowVersion) -> None:
        """Requires this version of the row from now on, because the row's version is now in a different column."""
        self._pinned = version

    @property
    def waiting(self) -> int:
        """The number of calls that are not committed."""
        return len(self._waiting)

    @property
    def stopped(self) -> bool:
        """Whether a commit stopped partway and can be continued."""
        return bool(self._batches)

    @property
    def tables(self) -> list[str]:
        """The tables of the calls that are not committed, sorted."""
        return sorted({call.schema.table for call in self._waiting})

    @property
    def _waiting(self) -> list[Pending]:
        return [*(call for call in self._committing if call.remaining), *self._pending]

    @property
    def pending_rows(self) -> PendingRows:
        """The rows of the pending calls. Each access examines only the calls that were added since the previous access,
        so a session that only collects writes has no extra cost.
        """
        waiting = self._waiting if self._committing else self._pending
        self._rows.take(waiting[self._rows.taken :])
        return self._rows

    def add(self, call: Pending) -> None:
        """Adds a call.

        Raises:
            SessionError: another model of the same table and column family has pending calls. The order of the calls
                would be lost.
        """
        schema = call.schema
        if self._writers.get((schema.table, schema.family, schema.kind)) is not schema:
            if schema.versioned:
                check_versions_possible(self._view(schema), schema)
            self._check_alone(schema)
        if schema.versioned:
            self._build_on(call)
        self._pending.append(call)

    def _build_on(self, call: Pending) -> None:
        """Makes a call depend on the pending update that returned the object to be written, if there is one. If that
        update is pending in another session, the call requires the version that the row had before the update.
        """
        own_version = held_version(call.schema, call.subject)
        if own_version is not None:
            call.base = self._updates.get(id(own_version))
            if call.base is None:
                call.require(own_version.stored)
        if call.following is not None:
            self._updates[id(call.following)] = call

    def _check_alone(self, schema: TableSchema) -> None:
        for place in schema.registry_keys:
            other = self._writers.get(place, schema)
            if other is not schema:
                raise SessionError(
                    "Another model of the same table and column family has pending calls: commit them first.",
                    table=schema.table,
                    family=place[1].decode(),
                    model=other.model.__qualname__,
                )
        self._writers.update(dict.fromkeys(schema.registry_keys, schema))
        if schema.wide is not None and self._atomic_rows:
            self._shared[schema.table] = None

    def discard(self) -> None:
        """Drops all pending writes."""
        for call in [*(call for call in self._committing if call.remaining), *self._pending]:
            call.take_back()
        if self._rows.taken:
            self._rows.clear()
        self._pending, self._committing, self._batches = [], [], []
        self._begun = self._doubted = False
        self._writers.clear()
        self._shared.clear()
        self._updates.clear()

    def commit(self, *, resend: bool = False) -> list[Outcome]:
        """Writes everything that is pending, or continues a commit that stopped; see `Session.commit`."""
        if self._rows.taken:
            self._rows.clear()
        self._batches += (
            self._split(self._pending) if self._shared else split_batches(self._pending, self._sizes.batch_rows)
        )
        self._committing += self._pending
        self._pending = []
        self._doubted &= not resend
        while self._batches:
            try:
                current = self._batches[0]
                running = current.running
                if running is not None and (self._doubted or running.in_doubt) and not resend:
                    raise UnknownOutcome(_UNKNOWN)
                self._resumed = running is not None and running.wrote and not resend
                self._run(current)
            except HbmodelError as error:
                # in this case a pinned row was not changed, and only index entries may have been written
                refused = self._pinned is not None and not isinstance(error, StoreError)
                if (self._begun or self._batches[0].wrote) and not refused:
                    raise self._partial(error) from error
                raise
            # The running protocol and its batch refer to each other. If the reference were not removed, only the
            # garbage collector could free them.
            self._batches.pop(0).running = None
            self._begun = True
        if self._unswept:
            self._sweep()
        self._begun = False
        self._writers.clear()
        self._shared.clear()
        self._updates.clear()
        done, self._committing = self._committing, []
        outcomes = [call.outcome for call in done if call.outcome is not None]
        failures = [outcome for outcome in outcomes if outcome.error is not None]
        if failures and len(outcomes) == 1 and failures[0].error is not None:
            raise failures[0].error
        if failures:
            raise refusal(outcomes, failures, whole=all(len(call.writes) == 1 for call in done if call.refused))
        return outcomes

    def _split(self, pending: Sequence[Pending]) -> list[Batch | JointBatch]:
        """Divides calls into batches. Writes into shared rows are joined."""
        batches: list[Batch | JointBatch] = []
        apart, batch_rows = list(pending), self._sizes.batch_rows
        for table in self._shared:
            calls = [call for call in apart if call.schema.table == table and not call.schema.salt.random]
            joint = joint_batches(
                calls, self._store.capabilities, lambda schema: not self._bind(schema).writes_system_cells, batch_rows
            )
            if joint is not None:
                batches += joint
                joined = set(map(id, calls))
                apart = [call for call in apart if id(call) not in joined]
        return [*batches, *split_batches(apart, batch_rows)] if batches else [*split_batches(pending, batch_rows)]

    def _run(self, current: Batch | JointBatch) -> None:
        if isinstance(current, JointBatch):
            with self._writing(*[part.owners[0].schema for part in current.parts]) as calls:
                try:
                    self._run_joint(current)
                except StoreError:
                    _note_outcome(current, calls)
                    raise
            return
        if current.schema.versioned and current.running is None:
            current.leave_out_dependents()
        if current.writes:
            with self._writing(current.owners[0].schema) as calls:
                try:
                    self._run_batch(current)
                except StoreError:
                    _note_outcome(current, calls)
                    raise

    def _run_batch(self, current: Batch, *, again: bool = False) -> None:
        """Writes a batch, or continues it, and records its outcomes.

        Args:
            again: whether the batch was already begun again because a row had moved.
        """
        moving = current.owners[0].schema.replaces is not None
        if moving:
            self._moves.route(current)
        if current.running is None:
            current.running = Resumable(
                lambda: self._protocol(current),
                self._clock,
                lambda: self._check_bound(current),
                lambda each: self._only_once(current, each),
            )
        running = current.running
        try:
            self._follow([current], running, self._view(current.schema))
        except SchemaMismatch as error:
            outdated = self._moves.outdated(current)
            if not outdated and (again or not isinstance(error, RowMoved)):
                raise
            # the batch is written again in the next phase, or because a row has moved back since it was read
            self._run_batch(current, again=not outdated)
            return
        except StoreError as error:
            if running.outcomes is None:
                raise
            self._leave(self._view(current.schema), running, current.schema.table, error)
        if moving and not self._moves.stayed(current):
            current.running = None
            current.placed = None
            self._run_batch(current)
            return
        if current.schema.salt.random:
            # A key may have rows in several buckets, of which only the newest counts. So the next row with this key
            # must get a later time.
            let_tick_pass()
        for owner, outcome in zip(current.owners, running.outcomes or (), strict=True):
            owner.settle(current.reported(outcome) if current.restarted else outcome)

    def _run_joint(self, current: JointBatch) -> None:
        running = current.running
        if running is None:
            parts = [self._part(batch) for batch in current.parts]
            running = current.running = JointCommit(
                self._store, current.parts[0].schema.table, parts, current.shared, self._clock
            )
        try:
            self._follow(current.parts, running, self._store)
        except StoreError as error:
            if running.outcomes is None:
                raise
            self._leave(self._store, running, current.parts[0].schema.table, error)
        for batch, outcomes in zip(current.parts, running.outcomes or (), strict=True):
            for owner, outcome in zip(batch.owners, outcomes, strict=True):
                owner.settle(batch.reported(outcome) if batch.restarted else outcome)

    def _part(self, batch: Batch) -> Part:
        return Part(
            batch.schema,
            self._view(batch.schema),
            lambda: self._protocol(batch),
            lambda: self._check_bound(batch),
            lambda operation: self._only_once(batch, operation),
            batch.placing(),
        )

    def _follow(self, batches: Sequence[Batch], running: Resumable | JointCommit, store: Store) -> None:
        """Runs batches to their end. If the indexes of the table change in the meantime, repeats the batches with the
        current indexes.
        """
        for _ in range(RESTARTS):
            try:
                running.run(store)
            except SchemaMismatch:
                if all(
                    batch.binding is None or self._bind(batch.schema).writes_like(batch.binding) for batch in batches
                ):
                    raise
                if self._resumed and any(map(_in_doubt, batches)):
                    self._doubted = True
                    raise UnknownOutcome(_UNKNOWN) from None
                for batch in batches:
                    batch.restarted |= running.wrote
            else:
                return
        running.run(store)

    def _leave(self, store: Store, running: Unswept, table: str, error: StoreError) -> None:
        """Leaves the rest of a batch, after its acknowledgement, to the next commit, unless it would fail again.

        The rest consists of deletes of old index entries, which reads never return, and of verifications of new
        entries; until an entry is verified, reads get the row instead. Both use the timestamp of the write, so they do
        no harm if they are made by the next commit.
        """
        log.warning("index entries of table %s could not be brought up to date: %s", table, error.message)
        if not isinstance(error, LASTING):
            self._unswept.append((store, running))

    def _sweep(self) -> None:
        """Continues the work on index entries that earlier commits have left. If it fails again, no error is raised."""
        again = self._unswept[-self._sizes.unswept :]
        self._unswept.clear()
        for store, running in again:
            try:
                running.run(store)
            except LASTING:
                continue
            except StoreError:
                self._unswept.append((store, running))

    def _protocol(self, current: Batch) -> Protocol[Any]:
        """The protocol that writes a batch with the binding that its model has now."""
        if current.phase is not None:
            bound, rounds = self._clock.bound, self._sizes.move_rounds
            between = self._moves.between(current, bound, insert=self._inserting, rounds=rounds)
            if between is not None:
                return between
        binding = current.binding = self._bind(current.schema)
        if not binding.writable:  # cached in the binding, so it is faster than the check
            binding.check_writable()
        if isinstance(binding, BindingWithoutNone):
            binding.check_values(current.writes)
        able = self._view(current.schema).capabilities
        planner = row_planner(
            binding,
            self._clock.bound,
            checks=able.check_and_mutate,
            together=current.together,
            pinned=self._pinned,
            over_closed=current.phase is not None and current.phase.name == RETURNED,
        )
        match planner:
            case VersionedRowPlanner():
                sent = current.sent_to(current.schema.table)
                return write_versioned_batch(planner, current.writes, sent, insert=self._inserting)
            case IndexedRowPlanner():
                return write_indexed_batch(
                    planner, current.writes, able.mutate_row, current.deleted, current.together, current.placing()
                )
        protocol = write_unindexed_batch(
            planner, current.writes, self._clock.bound, able, current.deleted, current.together
        )
        if not binding.written:
            return protocol
        # In a table of other programs, rows have no system cells, but an immutable model may have indexes.
        return with_entries_first(current.schema, binding.written, current.writes, protocol)

    @staticmethod
    def _only_once(current: Batch, operation: Operation) -> bool:
        return not current.schema.versioned and counts_again(current.schema, operation)

    def _check_bound(self, current: Batch) -> None:
        """Raises `SchemaMismatch` if the binding of the batch is no longer current, so that nothing more is written
        with it.
        """
        self._moves.check_phase(current)
        if current.binding is not None and not self._bind(current.schema).writes_like(current.binding):
            raise SchemaMismatch(
                "The indexes of the table changed during a commit; commit again.", table=current.schema.table
            )

    def _partial(self, error: HbmodelError) -> HbmodelError:
        pending = [call for call in self._committing if call.remaining]
        applied = [call.outcome for call in self._committing if not call.remaining and call.outcome is not None]
        running = self._batches[0].running
        return PartialWrite(
            _IN_DOUBT if self._doubted or (running is not None and running.in_doubt) else _STOPPED,
            applied=[outcome for outcome in applied if outcome.error is None],
            pending=[call.subject for call in pending],
            failures=[outcome for outcome in applied if outcome.error is not None],
            table=pending[0].schema.table if pending else None,
            key=pending[0].writes[0].row if pending else None,
            reason=reason_of(error),
        )


def _note_outcome(current: Batch | JointBatch, calls: object) -> None:
    """Notes in the counted calls if a batch has stopped although it has sent nothing that the store may have carried
    out: then no change of the registry needs to wait for this program.
    """
    if isinstance(calls, Calls):
        calls.nothing_sent = not current.wrote


def _in_doubt(batch: Batch) -> bool:
    """Whether a batch that stopped may have put rows although this was not recorded. If such a batch were planned
    again, it would put these rows with a later timestamp, and undo what other programs have written since.
    """
    placed = () if batch.placed is None else batch.placed.outcomes
    return not batch.schema.versioned and any(write.row not in placed for write in batch.writes)


_STOPPED = (
    "The commit stopped partway: the objects in `applied` are written, those in `pending` are not. Call commit() "
    "again to finish, once the cause in `reason` is gone; discard() drops the pending ones."
)

_IN_DOUBT = (
    "The commit stopped partway: the objects in `applied` are written, and some of those in `pending` may be. Read "
    "them, then call discard(), or commit(resend=True) to write all of them: that overwrites what other programs have "
    "written to them since."
)

_UNKNOWN = (
    "Calls were sent, and their result is unknown: sent again, they could undo what other programs have written since."
)
