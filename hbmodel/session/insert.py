"""Chooses and runs the protocol that puts an object only if its key is free."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from attrs import define, field

from hbmodel.errors import CapabilityError, PartialWrite, SchemaMismatch, UnknownOutcome
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.mapping.stored_values import as_written
from hbmodel.protocol.claimed_insert import insert_claimed
from hbmodel.protocol.clock import ServerClock
from hbmodel.protocol.driver import drive
from hbmodel.protocol.expiry import family_life
from hbmodel.protocol.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed_write import insert_indexed
from hbmodel.protocol.operations import Protocol
from hbmodel.protocol.plain_write import behind_entries
from hbmodel.protocol.unindexed_insert import insert_unindexed
from hbmodel.protocol.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.versioned_write import SentChanges, insert_versioned
from hbmodel.protocol.writes import PutObject, put_object
from hbmodel.session.batches import Pending
from hbmodel.session.unit_of_work import RESTARTS, UnitOfWork
from hbmodel.store.port import Store
from hbmodel.tables.registration import Binding

T = TypeVar("T")


@define(eq=False)
class Inserter:
    """The dependencies of inserts.

    Attributes:
        store: the store to write to.
        bind: returns the current binding of a model.
        clock: the clock for rows whose time does not come from the server.
        work: opens a unit of work, for a row whose indexes have changed during the insert.
    """

    store: Store
    bind: Callable[[TableSchema], Binding]
    clock: ServerClock
    work: Callable[[], UnitOfWork]

    def insert(self, obj: T, ttl: int | None) -> T:
        """Puts an object if its key is free and returns it; see `Session.insert`.

        Args:
            obj: the object.
            ttl: the TTL of its row in ms, or None.
        """
        schema = schema_of(type(obj))
        if schema.salt.random:
            raise CapabilityError(
                "insert() is not possible under RandomSalt: a key that is free in one bucket may be used in others.", table=schema.table
            )
        attempt = Attempt(self, obj, put_object(schema, obj, ttl))
        return self.carry_out(schema, attempt.protocol, lambda: attempt)

    def carry_out(self, schema: TableSchema, begin: Callable[[Binding], Protocol[Any]], latest: Callable[[], Attempt[T]]) -> T:
        """Runs the protocol of an insert, and restarts it if the way its table is written has changed.

        Args:
            schema: the schema of the model.
            begin: makes the protocol, given a binding.
            latest: returns the current or last attempt of the protocol.
        """
        for _ in range(RESTARTS):
            binding = self.bind(schema)
            binding.check_writable()
            try:
                outcome = drive(self.store, begin(binding), self.clock, None if schema.versioned else partial(self._check, binding))
            except _Outdated:  # its row is not written yet
                continue
            except SchemaMismatch as error:
                return latest().finished_otherwise(error)
            return latest().inserted(outcome)
        raise SchemaMismatch("The indexes of the table keep changing: insert again.", table=schema.table)

    def _check(self, binding: Binding) -> None:
        if not self.bind(binding.schema).writes_like(binding):
            raise _Outdated


class _Outdated(Exception):
    """The way the table is written has changed since an insert was planned."""


@define(eq=False)
class Attempt(Generic[T]):
    """One object that is put if its key is free.

    Attributes:
        by: the inserter.
        obj: the object.
        write: its put.
        sent: the changes of a versioned row that were sent.
    """

    by: Inserter
    obj: T
    write: PutObject
    sent: SentChanges = field(factory=dict)

    def protocol(self, binding: Binding) -> Protocol[Any]:
        """The protocol that puts the object; raises `CapabilityError` if the store supports none for the model."""
        schema, write, clock = binding.schema, self.write, self.by.clock
        if schema.versioned:
            _need_check_and_mutate(self.by.store, schema)
            planner = VersionedRowPlanner(schema, binding.written, clock.bound, adopting=binding.adopting)
            return insert_versioned(planner, write, self.sent)
        if binding.writes_system_cells:
            _need_check_and_mutate(self.by.store, schema)
            writer = IndexedRowPlanner(schema, binding.written, clock.bound, adopting=binding.adopting, mixed=binding.rows == "mixed")
            return insert_indexed(writer, write)
        protocol = self._unindexed(binding)
        return behind_entries(schema, binding.written, [write], protocol) if binding.written else protocol

    def _unindexed(self, binding: Binding) -> Protocol[Any]:
        schema, write, clock, can = binding.schema, self.write, self.by.clock, self.by.store.capabilities
        planner = UnindexedRowPlanner.of(schema, binding.indexed)
        column = never_empty_column(schema, "insert")
        if can.check_and_mutate:
            return insert_unindexed(planner, write, column, clock.bound, clock.grace)
        one_cell = schema.exists_column is None and len(schema.columns) == 1 and not schema.maps
        life = family_life(schema)
        short_claims = not one_cell and (schema.exists_column is None or (life is not None and life < clock.grace))
        if binding.rows != "unindexed" or binding.written or write.ttl is not None or short_claims:
            _need_check_and_mutate(self.by.store, schema)
        if one_cell:
            return insert_unindexed(planner, write, column, clock.bound, one_cell=True)
        return insert_claimed(planner, write, column, clock.grace, can, lambda: os.urandom(8))

    def finished_otherwise(self, error: SchemaMismatch) -> T:
        """Writes the object in the current way of its table: the lease expired after its row was put, or after its key was claimed.

        Raises:
            SchemaMismatch: the `error`, if nothing of a versioned row was sent.
        """
        by, schema = self.by, schema_of(type(self.obj))
        if not schema.versioned:
            again = by.work()
            again.add(Pending(schema, self.obj, [self.write]))
            again.commit()
            return as_written(self.obj)
        for _ in range(RESTARTS):
            if not self.sent:
                raise error
            binding = by.bind(schema)
            binding.check_writable()
            try:
                return self.inserted(drive(by.store, self.protocol(binding), by.clock))
            except SchemaMismatch as found:
                error = found
        raise UnknownOutcome(
            "The indexes of the table keep changing: read the key to find out whether the object was put.", table=schema.table
        )

    def inserted(self, outcome: Any) -> T:
        """The object after it is inserted, with its version."""
        schema = schema_of(type(self.obj))
        if not schema.versioned:
            return as_written(self.obj)
        (found,) = outcome
        assert found.version is not None
        return as_written(self.obj, found.version)


def insert_between(work: UnitOfWork, obj: T) -> T:
    """Puts an object if its key is free, for a versioned model whose objects move between two tables.

    Args:
        work: a unit of work in which a live row is an error.
        obj: the object.

    Raises:
        UnknownOutcome: the store became unreachable after something was sent.
    """
    schema = schema_of(type(obj))
    work.add(Pending(schema, obj, [put_object(schema, obj)]))
    try:
        (outcome,) = work.commit()
    except PartialWrite as error:
        raise UnknownOutcome(
            "The object may or may not have been put: read its key to find out.", **{**error.details, "applied": None, "pending": None}
        ) from error
    assert outcome.version is not None
    return as_written(obj, outcome.version)


def never_empty_column(schema: TableSchema, call: str) -> bytes:
    """A column that proves the existence of a row without system cells; raises `CapabilityError`, which names the call."""
    column = schema.exists_column or next(
        (f.column for f in schema.columns if f.required and not f.nullable and not f.codec.may_be_empty), None
    )
    if column is None:
        raise CapabilityError(f'{call}() needs a column that is never empty: declare @hb.model(exists=hb.flag("e")).', table=schema.table)
    return column


def _need_check_and_mutate(store: Store, schema: TableSchema) -> None:
    if not store.capabilities.check_and_mutate:
        raise CapabilityError(
            "insert() and prepend() need a store with check-and-mutate: embedded, or HBase through its Thrift2 gateway. The Thrift1 "
            "gateway supports them, without a TTL, only for models without indexes and without a version that have a single column, which "
            'is never empty, or a flag: @hb.model(exists=hb.flag("e")).',
            table=schema.table,
        )
