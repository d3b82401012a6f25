"""The unit of work: pending writes in the order they were asked for, carried out in batches that touch each row once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from hbmodel.errors import CapabilityError, ConflictError, HbmodelError, PartialWrite, SchemaMismatch, SessionError, StoreError
from hbmodel.mapping.mapper import give_version
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.clock import ServerClock
from hbmodel.protocol.driver import Resumable
from hbmodel.protocol.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed_write import write_indexed_batch
from hbmodel.protocol.operations import Protocol
from hbmodel.protocol.plain_write import behind_entries
from hbmodel.protocol.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.unindexed_write import write_unindexed_batch
from hbmodel.protocol.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.versioned_write import SentChanges, write_versioned_batch
from hbmodel.protocol.writes import Outcome, PutObject, RowWrite
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.store.port import Store
from hbmodel.tables.registration import AT_SERVER_TIME, Binding

log = logging.getLogger("hbmodel")

BATCH_ROWS = 5_000
"""Most writes in one batch; what a commit holds beyond that follows in further batches."""

RESTARTS = 5
"""How often a batch begins again because the indexes of its table have changed, each time at least a lease apart."""

UNSWEPT_BATCHES = 16
"""Most batches whose index entries could not be brought up to date that a session remembers."""


@define(eq=False)
class Pending:
    """One call of a session: the writes it stands for (several under a random salt) and what became of it.

    Attributes:
        copy: the object that is given the version which the row of a versioned model has then, or None.
    """

    schema: TableSchema
    subject: Any
    writes: Sequence[RowWrite]
    outcome: Outcome | None = None
    remaining: int = field(default=0)
    superseded: Pending | None = None
    copy: Any = None

    def settle(self, outcome: Outcome) -> None:
        """Takes the outcome of one of the writes; a failure stays, and a delete that found something outweighs those that did not.

        The earlier put that this one replaced shares its fate, so that it counts as pending until this one is written.
        """
        self.remaining -= 1
        if self.outcome is None or outcome.action == "failed" or (self.outcome.action == "absent" and outcome.action == "deleted"):
            self.outcome = outcome
        if outcome.version is not None and self.copy is not None:
            give_version(self.schema, self.copy, outcome.version)
        earlier = self.superseded
        if earlier is not None and outcome.error is None:
            outcome = Outcome("superseded", outcome.key)
        while earlier is not None:
            earlier.remaining -= 1
            earlier.outcome = outcome
            earlier = earlier.superseded


@define(eq=False)
class Batch:
    """Writes of one model, each row at most once, and the protocol that carries them out.

    Attributes:
        sent: the changes of versioned rows that were sent.
        deleted: the outcomes of deletes that were carried out, by row.
    """

    schema: TableSchema
    owners: list[Pending]
    writes: list[RowWrite]
    running: Resumable | None = None
    binding: Binding | None = None
    sent: SentChanges = field(factory=dict)
    deleted: dict[bytes, Outcome] = field(factory=dict)

    @property
    def wrote(self) -> bool:
        """Whether anything was sent that may have changed a table."""
        return self.running is not None and self.running.wrote


def split_batches(pending: Sequence[Pending]) -> list[Batch]:
    """Puts writes into batches: order between writes of one row is kept, and a put followed by a put of the same row is dropped.

    Sets how many outcomes each pending call waits for.
    """
    if len(pending) == 1 and len(pending[0].writes) == 1:
        pending[0].remaining = 1
        return [Batch(pending[0].schema, [pending[0]], [pending[0].writes[0]])]
    batches: list[Batch] = []
    of_model: dict[int, list[Batch]] = {}
    first_open: dict[int, int] = {}
    latest: dict[tuple[int, bytes], tuple[int, int]] = {}  # row -> batch of its model, place in it
    drawn: dict[tuple[int, bytes], bytes] = {}  # key without a random salt -> row of its last put
    for call in pending:
        model = id(call.schema)
        own = of_model.setdefault(model, [])
        call.remaining = len(call.writes)
        for asked in call.writes:
            write = asked
            if isinstance(write, PutObject) and call.schema.salt.random:
                # Puts of one key in several buckets would share a timestamp, and readers could not tell which is the newest.
                bare = (model, write.row[call.schema.salt.width :])
                earlier = latest.get((model, drawn.get(bare, b"")))
                if earlier is not None and isinstance(own[earlier[0]].writes[earlier[1]], PutObject):
                    write = write.moved_to(drawn[bare])
                drawn[bare] = write.row
            key = (model, write.row)
            before = latest.get(key)
            if before is not None and isinstance(write, PutObject):
                holder, place = own[before[0]], before[1]
                earlier_write = holder.writes[place]
                if isinstance(earlier_write, PutObject) and earlier_write.version == write.version:
                    call.superseded = holder.owners[place]
                    holder.owners[place], holder.writes[place] = call, write
                    continue
            at = max(-1 if before is None else before[0], first_open.get(model, 0) - 1) + 1
            while at < len(own) and len(own[at].writes) >= BATCH_ROWS:
                at += 1
                if before is None:
                    first_open[model] = at
            if at == len(own):
                own.append(Batch(call.schema, [], []))
                batches.append(own[-1])
            latest[key] = (at, len(own[at].writes))
            own[at].owners.append(call)
            own[at].writes.append(write)
    return batches


def check_versions_possible(store: Store, schema: TableSchema) -> None:
    """Raises `CapabilityError` where a model is versioned and the store cannot check versions."""
    if schema.versioned and not store.capabilities.check_and_mutate:
        raise CapabilityError(
            "A versioned model can be written only in a store with check-and-mutate: embedded, or HBase through its Thrift2 gateway.",
            table=schema.table,
        )


class UnitOfWork:
    """Pending writes and the commit under way.

    Args:
        view: gives the store to write a model to.
        bind: gives the current binding of a model; raises if it cannot be used.
        clock: for indexed rows.
        unswept: batches whose index entries are still to be verified or deleted; another unit of work may share them.
    """

    def __init__(
        self,
        view: Callable[[TableSchema], Store],
        bind: Callable[[TableSchema], Binding],
        clock: ServerClock,
        unswept: list[tuple[Store, Resumable]] | None = None,
    ) -> None:
        self._view, self._bind, self._clock = view, bind, clock
        self._pending: list[Pending] = []
        self._committing: list[Pending] = []
        self._batches: list[Batch] = []
        self._begun = False  # whether a batch of the commit under way is done
        self._unswept: list[tuple[Store, Resumable]] = [] if unswept is None else unswept
        self._writers: dict[tuple[str, bytes, bytes], TableSchema] = {}  # by table, column family and kind

    def apart(self) -> UnitOfWork:
        """Another one for calls of their own; what it cannot sweep, this one sweeps at its next commit."""
        return UnitOfWork(self._view, self._bind, self._clock, self._unswept)

    @property
    def waiting(self) -> int:
        """How many calls are not committed."""
        return len(self._pending) + sum(1 for call in self._committing if call.remaining)

    def add(self, call: Pending) -> None:
        """Takes a call in.

        Raises:
            SessionError: another model of the same table and column family has pending calls: their order would be lost.
        """
        schema = call.schema
        if self._writers.get((schema.table, schema.family, schema.kind)) is not schema:
            if schema.versioned:
                check_versions_possible(self._view(schema), schema)
            self._check_alone(schema)
        self._pending.append(call)

    def _check_alone(self, schema: TableSchema) -> None:
        for place in schema.places:
            other = self._writers.get(place, schema)
            if other is not schema:
                raise SessionError(
                    "Another model of the same table and column family has pending calls: commit them first.",
                    table=schema.table, family=place[1].decode(), model=other.model.__qualname__,
                )  # fmt: skip
        self._writers.update(dict.fromkeys(schema.places, schema))

    def discard(self) -> None:
        """Drops what is pending."""
        self._pending, self._committing, self._batches, self._begun = [], [], [], False
        self._writers.clear()

    def commit(self) -> list[Outcome]:
        """Carries out what is pending, or goes on with the commit that stopped; see `Session.commit`."""
        self._batches += split_batches(self._pending)
        self._committing += self._pending
        self._pending = []
        while self._batches:
            try:
                self._run(self._batches[0])
            except HbmodelError as error:
                if self._begun or self._batches[0].wrote:
                    raise self._partial(error) from error
                raise
            self._batches.pop(0).running = None  # it refers back to its batch: neither would be freed before the garbage collector runs
            self._begun = True
        if self._unswept:
            self._sweep()
        self._begun = False
        self._writers.clear()
        done, self._committing = self._committing, []
        outcomes = [call.outcome for call in done if call.outcome is not None]
        failures = [outcome for outcome in outcomes if outcome.error is not None]
        if failures and len(outcomes) == 1 and failures[0].error is not None:
            raise failures[0].error
        if failures:
            raise _refused(outcomes, failures)
        return outcomes

    def _run(self, current: Batch) -> None:
        if current.running is None:
            current.running = Resumable(lambda: self._protocol(current), self._clock, lambda: self._check_bound(current))
        running = current.running
        try:
            self._follow(current, running)
        except StoreError as error:
            if running.outcomes is None:
                raise
            # Everything is acknowledged; what is left are old index entries, which reads never return, and new ones to verify, for
            # which reads get the row until then. Both carry the time of their write, so they are as right at the next commit as now.
            log.warning("index entries of table %s could not be brought up to date: %s", current.schema.table, error.message)
            self._unswept.append((self._view(current.schema), running))
        if current.schema.salt.random:
            # Of the rows of one key in several buckets the newest counts: the next one must not have the same time.
            let_tick_pass()
        for owner, outcome in zip(current.owners, running.outcomes or (), strict=True):
            owner.settle(outcome)

    def _follow(self, current: Batch, running: Resumable) -> None:
        """Runs a batch to its end; where the indexes of its table change meanwhile, once more by what they are then."""
        for _ in range(RESTARTS):
            try:
                running.run(self._view(current.schema))
            except SchemaMismatch:
                if current.binding is None or self._bind(current.schema).writes_like(current.binding):
                    raise
            else:
                return
        running.run(self._view(current.schema))

    def _sweep(self) -> None:
        """Tries again to delete the old index entries that earlier commits left behind; another failure is no error either."""
        again = self._unswept[-UNSWEPT_BATCHES:]
        self._unswept.clear()
        for store, running in again:
            try:
                running.run(store)
            except StoreError:
                self._unswept.append((store, running))

    def _protocol(self, current: Batch) -> Protocol[Any]:
        binding = current.binding = self._bind(current.schema)
        binding.check_writable()
        able = self._view(current.schema).capabilities
        if binding.rows in AT_SERVER_TIME:
            unindexed = UnindexedRowPlanner.of(current.schema, binding.rows == "marking")
            protocol = write_unindexed_batch(unindexed, current.writes, self._clock.bound, able, current.deleted)
            return behind_entries(current.schema, binding.written, current.writes, protocol) if binding.written else protocol
        if current.schema.versioned:
            versioned = VersionedRowPlanner(current.schema, binding.written, self._clock.bound, adopting=binding.adopting)
            return write_versioned_batch(versioned, current.writes, current.sent)
        planner = IndexedRowPlanner(
            current.schema, binding.written, self._clock.bound, adopting=binding.adopting, mixed=binding.rows == "mixed"
        )
        return write_indexed_batch(planner, current.writes, able.mutate_row, current.deleted)

    def _check_bound(self, current: Batch) -> None:
        """Raises `SchemaMismatch` where the batch was planned by a binding that no longer holds, so that nothing more is written by it."""
        if current.binding is not None and not self._bind(current.schema).writes_like(current.binding):
            raise SchemaMismatch("The indexes of the table changed during a commit; commit again.", table=current.schema.table)

    def _partial(self, error: HbmodelError) -> HbmodelError:
        pending = [call for call in self._committing if call.remaining]
        applied = [call.outcome for call in self._committing if not call.remaining and call.outcome is not None]
        return PartialWrite(
            "The commit stopped part of the way: what is listed as applied is written, the rest is pending; commit() goes on.",
            applied=[outcome for outcome in applied if outcome.error is None],
            pending=[call.subject for call in pending],
            failures=[outcome for outcome in applied if outcome.error is not None],
            reason=str(error),
        )


def _refused(outcomes: Sequence[Outcome], failures: Sequence[Outcome]) -> HbmodelError:
    """The error of a commit of which some calls failed: a conflict if nothing but conflicts came of it."""
    conflicts = [outcome.error for outcome in failures if isinstance(outcome.error, ConflictError)]
    if conflicts and len(conflicts) == len(failures) and not any(outcome.action in {"put", "deleted"} for outcome in outcomes):
        return ConflictError(conflicts[0].message, **conflicts[0].details, failures=failures)
    return PartialWrite(
        "Some objects cannot be written as asked; all others are.",
        applied=[outcome for outcome in outcomes if outcome.error is None], pending=[], failures=failures,
    )  # fmt: skip
