"""Chooses and runs the protocol that puts an object only if its key is free."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from attrs import define, field

from hbmodel.errors import (
    CapabilityError,
    IndexUnavailable,
    PartialWrite,
    SchemaMismatch,
    UniqueViolation,
    UnknownOutcome,
)
from hbmodel.mapping.missing_entries import check_loaded
from hbmodel.mapping.rows.values_as_read import as_written
from hbmodel.mapping.schema import TableSchema, schema_of_object
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.protocol.corrected_clock import ServerClock
from hbmodel.protocol.expiry import family_life
from hbmodel.protocol.indexed.entries_first import with_entries_first
from hbmodel.protocol.indexed.index_build import RowIndexer, keep_entries
from hbmodel.protocol.indexed.indexed_write import insert_indexed
from hbmodel.protocol.operations import GetRows, Protocol
from hbmodel.protocol.server_timed.insert_by_flag import insert_claimed
from hbmodel.protocol.server_timed.unindexed_insert import insert_unindexed
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.versioned.claim_comparison import answering, claim_existing
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.versioned.versioned_write import SentChanges, insert_versioned, write_versioned_batch
from hbmodel.protocol.writes import DeleteRow, Outcome, PutObject, put_object
from hbmodel.session.calls.sending import Sending
from hbmodel.session.commit.batch_runner import RESTARTS
from hbmodel.session.commit.batches import Pending
from hbmodel.session.commit.conflict_retries import reason_of
from hbmodel.session.commit.pending_rows import PendingRows
from hbmodel.session.commit.row_planner import row_planner
from hbmodel.session.commit.unit_of_work import UnitOfWork
from hbmodel.store.gate import Gate
from hbmodel.store.port import Store
from hbmodel.tables.registry.nullable_columns import BindingWithoutNone, NoneNotAllowed
from hbmodel.tables.registry.registration import Binding

T = TypeVar("T")


@define(eq=False)
class Inserter:
    """Inserts objects into a store. An object is inserted only if its key is free and no pending call writes its row.

    Attributes:
        call: the name of the session's call, for error messages.
        sending: carries out the operations.
    """

    store: Store
    bind: Callable[[TableSchema], Binding]
    clock: ServerClock
    pending: PendingRows
    call: str = "insert"
    sending: Sending = field(factory=Sending)

    def check(self, obj: object, ttl: int | None) -> None:
        """Raises `CapabilityError` if this store cannot insert such an object at all."""
        schema = schema_of_object(obj)
        check_loaded(schema, obj)
        Attempt(self, obj, put_object(schema, obj, ttl)).protocol(self.bind(schema))

    def insert(self, obj: T, ttl: int | None) -> T:
        """Puts an object if its key is free and returns it; see `Session.insert`."""
        schema = schema_of_object(obj)
        if schema.salt.random:
            raise CapabilityError(
                "insert() is not possible under RandomSalt: a key that is free in one bucket may be used in others.",
                table=schema.table,
            )
        check_loaded(schema, obj)
        attempt = Attempt(self, obj, put_object(schema, obj, ttl))
        self.pending.check_row(self.call, schema, attempt.write.row)
        return self.carry_out(schema, attempt.protocol, lambda: attempt)

    def carry_out(
        self, schema: TableSchema, begin: Callable[[Binding], Protocol[Any]], latest: Callable[[], Attempt[T] | None]
    ) -> T:
        """Runs the protocol of an insert, and restarts it if the way in which the table must be written changes.

        Args:
            latest: returns the current or last attempt of the protocol; None before the first.
        """
        for _ in range(RESTARTS):
            binding = self.bind(schema)
            binding.check_writable()
            try:
                outcome = self.sending.drive(self.store, begin(binding), self.clock, self.gate(binding))
            except NoneNotAllowed:
                raise
            except SchemaMismatch:
                attempt = latest()
                if attempt is None or not attempt.begun:  # its row is not written yet
                    continue
                return attempt.finished()
            attempt = latest()
            assert attempt is not None
            return attempt.inserted(outcome)
        raise SchemaMismatch("The indexes of the table keep changing: insert again.", table=schema.table)

    def gate(self, binding: Binding) -> Gate:
        """Returns the gate for the writes of a protocol, which checks that their binding is still valid."""

        def check() -> None:
            if not self.bind(binding.schema).writes_like(binding):
                raise SchemaMismatch("The indexes of the table changed during an insert.", table=binding.schema.table)

        return check


@define(eq=False)
class Attempt(Generic[T]):
    """An attempt to put one object if its key is free.

    Attributes:
        sent: the changes of a versioned row that were sent.
        placed: for an unversioned model with indexes, the outcome of the put; empty before the put.
    """

    by: Inserter
    obj: T
    write: PutObject
    sent: SentChanges = field(factory=dict)
    placed: list[Outcome] = field(factory=list)

    def protocol(self, binding: Binding) -> Protocol[Any]:
        """Returns the protocol that puts the object; raises `CapabilityError` if the store supports none for the
        model.
        """
        if isinstance(binding, BindingWithoutNone):
            binding.check_values([self.write])
        planner = row_planner(binding, self.by.clock.bound)
        if isinstance(planner, UnindexedRowPlanner):
            protocol = self._unindexed(binding, planner)
            written = binding.written
            return (
                with_entries_first(binding.schema, written, [self.write], protocol, self.placed)
                if written
                else protocol
            )
        _need_check_and_mutate(self.by.store, binding.schema)
        if isinstance(planner, VersionedRowPlanner):
            return insert_versioned(planner, self.write, self.sent)
        return insert_indexed(planner, self.write, self.placed)

    def _unindexed(self, binding: Binding, planner: UnindexedRowPlanner) -> Protocol[Any]:
        schema, write, clock, can = binding.schema, self.write, self.by.clock, self.by.store.capabilities
        column = never_empty_column(schema, self.by.call)
        if can.check_and_mutate:
            return insert_unindexed(planner, write, column, clock.bound, clock.grace)
        one_cell = schema.exists_column is None and len(schema.columns) == 1 and not schema.maps
        life = family_life(schema)
        short_claims = not one_cell and (schema.exists_column is None or (life is not None and life < clock.grace))
        if binding.rows != "unindexed" or binding.written or write.ttl is not None or short_claims:
            _need_check_and_mutate(self.by.store, schema)
        if one_cell:
            return insert_unindexed(planner, write, column, clock.bound, one_cell=True)
        return insert_claimed(planner, write, column, clock.bound, clock.grace, lambda: os.urandom(8))

    @property
    def begun(self) -> bool:
        """Whether the row was put, or may have been."""
        return bool(self.placed or self.sent)

    def finished(self) -> T:
        """If the indexes have changed after the row was sent, completes the insert with the current binding.

        The row is not put again, because other programs may have changed or deleted it since then. Its index entries
        and claims of unique values are added in the same way as by a build of an index.

        Raises:
            UniqueViolation: another row has one of the object's unique values; the inserted row was deleted again.
            PartialWrite: another row has one of the object's unique values, but the inserted row is not deleted because
                other programs have written it since; or the model can no longer write the table.
            UnknownOutcome: the indexes keep changing.
        """
        by, schema = self.by, schema_of_object(self.obj)
        outcome: Any = self.placed[-1] if self.placed else None
        violation: UniqueViolation | None = None
        undone: SentChanges = {}
        for _ in range(RESTARTS):
            binding = self._bound()
            gate = by.gate(binding)
            try:
                if violation is None:
                    if schema.versioned:
                        outcome = by.sending.drive(by.store, self.protocol(binding), by.clock, gate)
                    violations = by.sending.drive(by.store, self._brought_up_to_date(binding), by.clock, gate)
                    violation = next(iter(violations), None)
                if violation is not None:
                    self._take_back(binding, outcome[0], violation, undone)
            except SchemaMismatch:
                continue
            return self.inserted(outcome)
        raise UnknownOutcome(
            "The indexes of the table keep changing: read the key to find out whether the object was put.",
            table=schema.table,
        )

    def _bound(self) -> Binding:
        """Returns the current binding; raises `PartialWrite` if the model can no longer write the table."""
        schema = schema_of_object(self.obj)
        try:
            binding = self.by.bind(schema)
            binding.check_writable()
        except (SchemaMismatch, IndexUnavailable) as error:
            raise PartialWrite(
                "The table was changed during the insert, and the model can no longer write it. The row may have "
                "been put: read its key.",
                applied=self.placed,
                pending=[],
                failures=[],
                table=schema.table,
                key=self.write.row,
                reason=reason_of(error),
            ) from error
        return binding

    def _brought_up_to_date(self, binding: Binding) -> Protocol[list[UniqueViolation]]:
        """If the row exists, puts its entries and claims its unique values. Returns a violation for each value that
        another row holds.
        """
        schema, row = binding.schema, self.write.row
        yield from keep_entries(
            RowIndexer(schema, binding.written, binding.adopting, plain=binding.rows == "plain"), row
        )
        unique = [index for index in binding.written if index.unique]
        violations: list[UniqueViolation] = []
        for index in unique:
            (read,) = yield GetRows(schema.table, [row], schema.row_columns)
            if read is not None:
                others = answering(schema, index, binding.written)
                planner = VersionedRowPlanner(
                    schema, (index,), self.by.clock.bound, adopting=binding.adopting, answering=others
                )
                violations += yield from claim_existing(planner, [read])
        return violations

    def _take_back(self, binding: Binding, outcome: Outcome, violation: UniqueViolation, sent: SentChanges) -> None:
        """Deletes the row if it still has the version that the insert gave it, and raises the violation."""
        by, schema, row = self.by, binding.schema, self.write.row
        planner = row_planner(binding, by.clock.bound)
        assert isinstance(planner, VersionedRowPlanner), "only versioned models have unique indexes"
        delete = DeleteRow(self.obj, row, version=outcome.version or UNKNOWN)
        protocol = write_versioned_batch(planner, [delete], sent)
        (deleted,) = by.sending.drive(by.store, protocol, by.clock, by.gate(binding))
        if deleted.error is None:
            raise violation
        raise PartialWrite(
            "The row was put while a unique index was built, and has been written since. Another row (`owner` of the "
            "failure) holds one of its values: change one of the two.",
            applied=[outcome],
            pending=[],
            failures=[Outcome("failed", row, error=violation)],
            table=schema.table,
            key=row,
            reason=reason_of(violation),
        ) from deleted.error

    def inserted(self, outcome: Any) -> T:
        """Returns the object as it is after the insert, with its version."""
        schema = schema_of_object(self.obj)
        if not schema.versioned:
            return as_written(self.obj)
        (result,) = outcome
        assert result.version is not None
        return as_written(self.obj, result.version)


def insert_between(work: UnitOfWork, pending: PendingRows, obj: T) -> T:
    """Puts an object of a versioned model if its key is free, while the model's objects are moving between two tables.

    Args:
        work: a unit of work in which an existing row is an error.

    Raises:
        UnknownOutcome: the store became unreachable after something was sent.
    """
    schema = schema_of_object(obj)
    check_loaded(schema, obj)
    put = put_object(schema, obj)
    pending.check_row("insert", schema, put.row)
    work.add(Pending(schema, obj, [put]))
    try:
        (outcome,) = work.commit()
    except PartialWrite as error:
        raise UnknownOutcome(
            "The object may or may not have been put: read its key to find out.",
            **{**error.details, "applied": None, "pending": None},
        ) from error
    assert outcome.version is not None
    return as_written(obj, outcome.version)


def never_empty_column(schema: TableSchema, call: str) -> bytes:
    """Returns a column whose cell proves that a row without system cells exists. Raises `CapabilityError`, with the
    name of the call, if there is none.
    """
    column = schema.exists_column or next((f.column for f in schema.columns if f.never_empty), None)
    if column is None and schema.wide_rows is not None and schema.wide_rows.bare:
        raise CapabilityError(
            f"{call}() needs a column that is never empty, and an object that is one cell has no room for a flag: "
            "put it with add(), or declare its column without a default and without None (in a table of other "
            "programs, text and bytes also with hb.codecs.NonEmpty).",
            table=schema.table,
        )
    if column is None and schema.external:
        raise CapabilityError(
            f"{call}() needs a column that every row of the other program has, and that is never empty: declare it as "
            "a field without a default (text as hb.codecs.NonEmpty(hb.Text)), or name its cell with exists=hb.flag().",
            table=schema.table,
        )
    if column is None:
        raise CapabilityError(
            f"{call}() needs a column that every row has: declare one that has no default and is never None, or "
            'declare @hb.model(exists=hb.flag("e")).',
            table=schema.table,
        )
    return column


def _need_check_and_mutate(store: Store, schema: TableSchema) -> None:
    if not store.capabilities.check_and_mutate:
        raise CapabilityError(
            "insert(), put() and prepend() need a store with check-and-mutate: embedded, or HBase through its Thrift2 "
            "gateway. Through the Thrift1 gateway they are possible only without a TTL, and only for a model without "
            "indexes and without a version. The model must have a single column that is never empty, or a flag: "
            '@hb.model(exists=hb.flag("e")).',
            table=schema.table,
        )
