"""The unit of work, which keeps pending writes in the order of the calls and executes them in batches that write each
row once.
"""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.errors import (
    CapabilityError,
    HbmodelError,
    PartialWrite,
    SessionError,
    StoreError,
    UnknownOutcome,
)
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.versioned.versioned_plan import RowVersion
from hbmodel.protocol.writes import Outcome
from hbmodel.session.commit.batch_runner import UNKNOWN, BatchRunner
from hbmodel.session.commit.batches import Batch, Pending, held_version, split_batches
from hbmodel.session.commit.conflict_retries import reason_of, refusal
from hbmodel.session.commit.pending_rows import PendingRows
from hbmodel.session.commit.shared_row_batches import JointBatch, joint_batches
from hbmodel.session.commit.unresolved_deletes import UnresolvedDelete
from hbmodel.store.port import Store


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
        runner: writes the batches of a commit.
        atomic_rows: whether all writes to one row of a wide model are made in one mutation.
    """

    def __init__(self, runner: BatchRunner, *, atomic_rows: bool = True) -> None:
        self._runner, self._atomic_rows = runner, atomic_rows
        self._pending: list[Pending] = []
        self._committing: list[Pending] = []
        self._batches: list[Batch | JointBatch] = []
        self._begun = False  # whether a batch of the running commit has ended
        self._writers: dict[tuple[str, bytes, bytes], TableSchema] = {}  # by table, column family and kind
        self._shared: dict[str, None] = {}  # tables whose rows are shared by objects
        self._rows = PendingRows()
        # the pending updates, by the `id()` of the version object in the copy that each update returned
        self._updates: dict[int, Pending] = {}

    def apart(
        self, *, atomic_rows: bool | None = None, pinned: RowVersion | None = None, inserting: bool = False
    ) -> UnitOfWork:
        """Returns a separate unit of work without calls. Both share the list of batches whose index entries must still
        be verified or deleted.
        """
        atomic = self._atomic_rows if atomic_rows is None else atomic_rows
        return UnitOfWork(self._runner.apart(pinned=pinned, inserting=inserting), atomic_rows=atomic)

    def pin(self, version: RowVersion) -> None:
        """Requires this version of the row from now on, because the row's version is now in a different column."""
        self._runner.pinned = version

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
                check_versions_possible(self._runner.view(schema), schema)
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
        self._begun = self._runner.doubted = False
        self._writers.clear()
        self._shared.clear()
        self._updates.clear()

    def commit(self, *, resend: bool = False) -> list[Outcome]:
        """Writes everything that is pending, or continues a commit that stopped; see `Session.commit`."""
        if self._rows.taken:
            self._rows.clear()
        absent: list[UnresolvedDelete] = []
        for call in self._pending:
            if isinstance(call, UnresolvedDelete) and not call.resolve():
                absent.append(call)
        self._batches += (
            self._split(self._pending) if self._shared else split_batches(self._pending, self._runner.sizes.batch_rows)
        )
        for delete in absent:
            delete.settle_absent()
        self._committing += self._pending
        self._pending = []
        self._runner.doubted &= not resend
        while self._batches:
            try:
                current = self._batches[0]
                running = current.running
                if running is not None and (self._runner.doubted or running.in_doubt) and not resend:
                    raise UnknownOutcome(UNKNOWN)
                self._runner.run(current, resumed=running is not None and running.wrote and not resend)
            except HbmodelError as error:
                # in this case a pinned row was not changed, and only index entries may have been written
                refused = self._runner.pinned is not None and not isinstance(error, StoreError)
                if (self._begun or self._batches[0].wrote) and not refused:
                    raise self._partial(error) from error
                raise
            # The running protocol and its batch refer to each other. If this reference were not removed, only the
            # garbage collector could free the two.
            self._batches.pop(0).running = None
            self._begun = True
        if self._runner.unswept:
            self._runner.sweep()
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
        runner, apart, batch_rows = self._runner, list(pending), self._runner.sizes.batch_rows
        for table in self._shared:
            calls = [call for call in apart if call.schema.table == table and not call.schema.salt.random]
            joint = joint_batches(
                calls, runner.store.capabilities, lambda schema: not runner.bind(schema).writes_system_cells, batch_rows
            )
            if joint is not None:
                batches += joint
                joined = set(map(id, calls))
                apart = [call for call in apart if id(call) not in joined]
        return [*batches, *split_batches(apart, batch_rows)] if batches else [*split_batches(pending, batch_rows)]

    def _partial(self, error: HbmodelError) -> HbmodelError:
        pending = [call for call in self._committing if call.remaining]
        applied = [call.outcome for call in self._committing if not call.remaining and call.outcome is not None]
        running = self._batches[0].running
        return PartialWrite(
            _IN_DOUBT if self._runner.doubted or (running is not None and running.in_doubt) else _STOPPED,
            applied=[outcome for outcome in applied if outcome.error is None],
            pending=[call.subject for call in pending],
            failures=[outcome for outcome in applied if outcome.error is not None],
            table=pending[0].schema.table if pending else None,
            key=pending[0].writes[0].row if pending else None,
            reason=reason_of(error),
        )


_STOPPED = (
    "The commit stopped partway: the objects in `applied` are written, those in `pending` are not. Call commit() "
    "again to finish, once the cause in `reason` is gone; discard() drops the pending ones."
)

_IN_DOUBT = (
    "The commit stopped partway: the objects in `applied` are written, and some of those in `pending` may be. Read "
    "them, then call discard(), or commit(resend=True) to write all of them: that overwrites what other programs have "
    "written to them since."
)
