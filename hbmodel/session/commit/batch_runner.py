"""Writes the batches of a commit: chooses the protocol of each batch, and repeats the batch if the indexes of its
table change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from hbmodel.errors import (
    FamilyNotFound,
    InvalidRequest,
    RowMoved,
    SchemaMismatch,
    StoreError,
    TableNotFound,
    UnknownOutcome,
)
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.corrected_clock import ServerClock
from hbmodel.protocol.driver import Resumable, counts_again
from hbmodel.protocol.indexed.entries_first import with_entries_first
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed.indexed_write import write_indexed_batch
from hbmodel.protocol.operations import Operation, Protocol
from hbmodel.protocol.relocation.migration_phases import RETURNED
from hbmodel.protocol.server_timed.unindexed_write import write_unindexed_batch
from hbmodel.protocol.versioned.versioned_plan import RowVersion, VersionedRowPlanner
from hbmodel.protocol.versioned.versioned_write import write_versioned_batch
from hbmodel.session.commit.batches import Batch
from hbmodel.session.commit.migration_routing import MigrationRouting
from hbmodel.session.commit.row_planner import row_planner
from hbmodel.session.commit.session_sizes import SESSION_SIZES, SessionSizes
from hbmodel.session.commit.shared_row_batches import JointBatch
from hbmodel.session.commit.shared_row_commit import JointCommit, Part
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.store.port import Store
from hbmodel.tables.registry.nullable_columns import BindingWithoutNone
from hbmodel.tables.registry.registration import Binding
from hbmodel.tables.roll.renewed_lines import Calls

log = logging.getLogger("hbmodel")

RESTARTS = 5
"""How many times a batch is repeated because the indexes of its table have changed. Between two such changes at least
the time of a lease passes.
"""

Unswept = Resumable | JointCommit

LASTING = (TableNotFound, FamilyNotFound, InvalidRequest)
"""Errors of a store that would occur again in the next call, for example after an index was dropped."""

UNKNOWN = (
    "Calls were sent, and their result is unknown: sent again, they could undo what other programs have written since."
)


class BatchRunner:
    """Writes batches, each of which may be continued after an error.

    Args:
        bind: returns the current binding of a model, or raises an error if the model cannot be used.
        writing: called with the schemas of the models that will be written; returns a context manager around the
            writes.
        sizes: the maximum sizes of what is written at once and of what is remembered.
        inserting: whether it is an error if a row of a versioned model exists.

    Attributes:
        pinned: the version that the row must have, if all writes are into one row, or None if no version is required.
            If a version is required, either all writes are executed or none.
        unswept: batches whose index entries must still be verified or deleted. The list may be shared with another
            runner.
        doubted: whether the last batch may have put rows, so that it must not be planned again.
    """

    def __init__(
        self,
        store: Store,
        view: Callable[[TableSchema], Store],
        bind: Callable[[TableSchema], Binding],
        clock: ServerClock,
        writing: Callable[..., AbstractContextManager[object]],
        sizes: SessionSizes = SESSION_SIZES,
        *,
        pinned: RowVersion | None = None,
        inserting: bool = False,
        unswept: list[tuple[Store, Unswept]] | None = None,
    ) -> None:
        self._moves = MigrationRouting(bind, view)
        self.store, self.view, self.bind, self.sizes = store, view, bind, sizes
        self._clock, self._writing, self._inserting = clock, writing, inserting
        self._resumed = False  # whether an earlier commit may have written part of the current batch
        self.pinned, self.doubted = pinned, False
        self.unswept: list[tuple[Store, Unswept]] = [] if unswept is None else unswept

    def apart(self, *, pinned: RowVersion | None, inserting: bool) -> BatchRunner:
        """Returns a separate runner, which shares the list `unswept`."""
        return BatchRunner(
            self.store,
            self.view,
            self.bind,
            self._clock,
            self._writing,
            self.sizes,
            pinned=pinned,
            inserting=inserting,
            unswept=self.unswept,
        )

    def run(self, current: Batch | JointBatch, *, resumed: bool) -> None:
        """Writes a batch, or continues it, and records its outcomes.

        Args:
            resumed: whether an earlier commit may have written part of the batch.

        Raises:
            UnknownOutcome: the indexes of the table have changed, and the batch must not be planned again, since an
                earlier commit may have put its rows; `doubted` is then True.
        """
        self._resumed = resumed
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
            if not current.writes:
                return
        if current.running is None:
            current.running = Resumable(
                lambda: self._protocol(current),
                self._clock,
                lambda: self._check_bound(current),
                lambda each: self._only_once(current, each),
            )
        running = current.running
        try:
            self._follow([current], running, self.view(current.schema))
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
            self._leave(self.view(current.schema), running, current.schema.table, error)
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
                self.store, current.parts[0].schema.table, parts, current.shared, self._clock
            )
        try:
            self._follow(current.parts, running, self.store)
        except StoreError as error:
            if running.outcomes is None:
                raise
            self._leave(self.store, running, current.parts[0].schema.table, error)
        for batch, outcomes in zip(current.parts, running.outcomes or (), strict=True):
            for owner, outcome in zip(batch.owners, outcomes, strict=True):
                owner.settle(batch.reported(outcome) if batch.restarted else outcome)

    def _part(self, batch: Batch) -> Part:
        return Part(
            batch.schema,
            self.view(batch.schema),
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
                    batch.binding is None or self.bind(batch.schema).writes_like(batch.binding) for batch in batches
                ):
                    raise
                if self._resumed and any(map(_in_doubt, batches)):
                    self.doubted = True
                    raise UnknownOutcome(UNKNOWN) from None
                for batch in batches:
                    batch.restarted |= running.wrote
            else:
                return
        running.run(store)

    def _leave(self, store: Store, running: Unswept, table: str, error: StoreError) -> None:
        """Leaves the rest of an acknowledged batch to the next commit, unless the rest would fail again.

        The rest consists of deletes of old index entries, which reads never return, and of verifications of new
        entries; until an entry is verified, reads get the row instead. The deletes and the verifications use the
        timestamp of the write, so they do no harm if the next commit makes them.
        """
        log.warning("index entries of table %s could not be brought up to date: %s", table, error.message)
        if not isinstance(error, LASTING):
            self.unswept.append((store, running))

    def sweep(self) -> None:
        """Continues the work on index entries that earlier commits have left. If it fails again, no error is raised."""
        again = self.unswept[-self.sizes.unswept :]
        self.unswept.clear()
        for store, running in again:
            try:
                running.run(store)
            except LASTING:
                continue
            except StoreError:
                self.unswept.append((store, running))

    def _protocol(self, current: Batch) -> Protocol[Any]:
        """Returns the protocol that writes a batch with the binding that its model has now."""
        if current.phase is not None:
            bound, rounds = self._clock.bound, self.sizes.move_rounds
            between = self._moves.between(current, bound, insert=self._inserting, rounds=rounds)
            if between is not None:
                return between
        binding = current.binding = self.bind(current.schema)
        if not binding.writable:  # cached in the binding, so it is faster than the check
            binding.check_writable()
        if isinstance(binding, BindingWithoutNone):
            binding.check_values(current.writes)
        able = self.view(current.schema).capabilities
        planner = row_planner(
            binding,
            self._clock.bound,
            checks=able.check_and_mutate,
            together=current.together,
            pinned=self.pinned,
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
        if current.binding is not None and not self.bind(current.schema).writes_like(current.binding):
            raise SchemaMismatch(
                "The indexes of the table changed during a commit; commit again.", table=current.schema.table
            )


def _note_outcome(current: Batch | JointBatch, calls: object) -> None:
    """If a batch has stopped before it sent anything that the store may have carried out, notes this in the counted
    calls. In this case, no change of the registry needs to wait for this program.
    """
    if isinstance(calls, Calls):
        calls.nothing_sent = not current.wrote


def _in_doubt(batch: Batch) -> bool:
    """Whether a batch that stopped may have put rows although this was not recorded. If such a batch were planned
    again, it would put these rows with a later timestamp, and undo what other programs have written since.
    """
    placed = () if batch.placed is None else batch.placed.outcomes
    return not batch.schema.versioned and any(write.row not in placed for write in batch.writes)
