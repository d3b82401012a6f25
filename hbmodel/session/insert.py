"""Chooses the protocol by which an object is put only if its key is free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hbmodel.errors import CapabilityError, SchemaMismatch
from hbmodel.mapping.mapper import changed_copy, give_version
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.protocol.clock import ServerClock
from hbmodel.protocol.driver import drive
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


def insert(
    store: Store,
    bind: Callable[[TableSchema], Binding],
    clock: ServerClock,
    work: Callable[[], UnitOfWork],
    obj: T,
    ttl: int | None,
) -> T:
    """Puts an object if its key is free and returns it; see `Session.insert`.

    Args:
        store: to write to.
        bind: gives the current binding of a model.
        clock: for rows whose time does not come from the server.
        work: opens a unit of work, for a row whose indexes have changed under it.
        obj: the object.
        ttl: of its row in ms, or None.
    """
    schema = schema_of(type(obj))
    if schema.salt.random:
        raise CapabilityError(
            "insert() is not possible under RandomSalt: a free key in one bucket says nothing of the others.", table=schema.table
        )
    if not store.capabilities.check_and_mutate:
        raise CapabilityError(
            "insert() needs a store with check-and-mutate: embedded, or HBase through its Thrift2 gateway.", table=schema.table
        )
    write = put_object(schema, obj, ttl)
    if schema.versioned:
        return _insert_versioned(store, bind, clock, obj, write)
    for _ in range(RESTARTS):
        try:
            return _insert(store, bind, clock, work, obj, write)
        except _Outdated:  # its row is not written yet
            continue
    raise SchemaMismatch("The indexes of the table change again and again; insert again.", table=schema.table)


class _Outdated(Exception):
    """The table is written otherwise by now than an insert was planned."""


def _insert(
    store: Store, bind: Callable[[TableSchema], Binding], clock: ServerClock, work: Callable[[], UnitOfWork], obj: T, write: PutObject
) -> T:
    schema = schema_of(type(obj))
    binding = bind(schema)
    binding.check_writable()

    def check() -> None:
        if not bind(schema).writes_like(binding):
            raise _Outdated

    try:
        drive(store, _protocol(binding, write, clock.bound), clock, check)
    except SchemaMismatch:
        # The lease ran out after the row was in place, and its indexes have changed: write it again as they are now.
        again = work()
        again.add(Pending(schema, obj, [write]))
        again.commit()
    return obj


def _protocol(binding: Binding, write: PutObject, bound: int) -> Protocol[Any]:
    schema = binding.schema
    if binding.writes_system_cells:
        writer = IndexedRowPlanner(schema, binding.written, bound, adopting=binding.adopting, mixed=binding.rows == "mixed")
        return insert_indexed(writer, write)
    column = schema.exists_column or next(
        (f.column for f in schema.columns if f.required and not f.nullable and not f.codec.may_be_empty), None
    )
    if column is None:
        raise CapabilityError('insert() needs a column that is never empty: declare @hb.model(exists=hb.flag("e")).', table=schema.table)
    protocol = insert_unindexed(UnindexedRowPlanner.of(schema, binding.indexed), write, column, bound)
    return behind_entries(schema, binding.written, [write], protocol) if binding.written else protocol


def _insert_versioned(store: Store, bind: Callable[[TableSchema], Binding], clock: ServerClock, obj: T, write: PutObject) -> T:
    schema, sent = schema_of(type(obj)), SentChanges()
    while True:
        binding = bind(schema)
        binding.check_writable()
        planner = VersionedRowPlanner(schema, binding.written, clock.bound, adopting=binding.adopting)
        try:
            (outcome,) = drive(store, insert_versioned(planner, write, sent), clock)
        except SchemaMismatch:
            if not sent:
                raise
            continue  # the lease ran out after the row was in place: its entries are put by the indexes as they are now
        assert outcome.version is not None
        if give_version(schema, obj, outcome.version):
            return obj
        return changed_copy(obj, {}, outcome.version)
