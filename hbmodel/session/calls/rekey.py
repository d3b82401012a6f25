"""Chooses the protocol that moves an object to another key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hbmodel.encoding.codecs.dictionary import claiming
from hbmodel.errors import CapabilityError, IndexUnavailable, PartialWrite, SchemaMismatch, SessionError, UnknownField
from hbmodel.mapping.rows.mapper import KeyMapper, key_of, version_of
from hbmodel.mapping.schema import TableSchema, schema_of_object
from hbmodel.protocol.corrected_clock import ServerClock
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.relocation.rekey import Move, Moved, Progress
from hbmodel.protocol.relocation.rekey import rekey as moved_to
from hbmodel.protocol.relocation.rekey_indexed_steps import IndexedMover, VersionedMover
from hbmodel.protocol.relocation.rekey_steps import RowMover, UnindexedMover
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.session.calls.insert import never_empty_column
from hbmodel.session.calls.sending import Sending
from hbmodel.session.commit.batch_runner import RESTARTS
from hbmodel.session.commit.batches import held_version
from hbmodel.session.commit.conflict_retries import reason_of
from hbmodel.session.commit.pending_rows import PendingRows
from hbmodel.session.commit.row_planner import row_planner
from hbmodel.store.port import Store
from hbmodel.tables.registry.registration import Binding

T = TypeVar("T")

_CHANGING = "The indexes of the table keep changing: call rekey() again."


def rekey(
    store: Store,
    bind: Callable[[TableSchema], Binding],
    clock: ServerClock,
    pending: PendingRows,
    obj: T,
    changes: Mapping[str, Any],
    sending: Sending,
) -> T:
    """Moves an object to another key and returns it with that key; see `Session.rekey`."""
    schema = schema_of_object(obj)
    move, progress = _move(store, schema, obj, changes), Progress()
    for row in (move.old, move.new):
        pending.check_row("rekey", schema, row)
    for _ in range(RESTARTS):
        binding = _bound(bind, schema, move, progress)

        def check(planned: Binding = binding) -> None:
            if not bind(schema).writes_like(planned):
                raise SchemaMismatch(_CHANGING, table=schema.table)

        try:
            protocol = moved_to(_mover(binding, clock.bound), move, progress)
            done: Moved = sending.drive(store, protocol, clock, check)
        except SchemaMismatch:  # the next run finds out what is already done
            continue
        moved: T = (done[0] if isinstance(done, list) else done).obj
        return moved
    raise SchemaMismatch(_CHANGING, table=schema.table)


def _bound(bind: Callable[[TableSchema], Binding], schema: TableSchema, move: Move, progress: Progress) -> Binding:
    """Returns the binding for the move. Raises `PartialWrite` if the model can no longer write the table although the
    move has begun.
    """
    try:
        binding = bind(schema)
        binding.check_writable()
    except (SchemaMismatch, IndexUnavailable) as error:
        if progress.moved is None and not progress.begun:
            raise
        state = (
            "The object is under its new key, but the table was changed before the move ended. If the object cannot be "
            "written, call rekey() again with a model that fits."
            if progress.moved is not None
            else "The move stopped partway, because the table was changed and the model can no longer write it. The "
            "object is under its old key, and perhaps under the new one too: call rekey() again with a model that fits."
        )
        applied = [] if progress.moved is None else [progress.moved.outcome]
        raise PartialWrite(
            state, applied=applied, pending=[], failures=[], table=schema.table, key=move.old, reason=reason_of(error)
        ) from error
    return binding


def _move(store: Store, schema: TableSchema, obj: Any, changes: Mapping[str, Any]) -> Move:
    """Makes the requested move, and checks it before any call."""
    if schema.salt.random:
        raise CapabilityError(
            "rekey() is not possible under RandomSalt: a key that is free in one bucket may be used in others.",
            table=schema.table,
        )
    if not store.capabilities.check_and_mutate:
        raise CapabilityError(
            "rekey() needs a store with check-and-mutate: embedded, or HBase through its Thrift2 gateway.",
            table=schema.table,
        )
    names = schema.layout.names
    unknown = sorted(changes.keys() - set(names))
    if unknown:
        message = "rekey() takes key fields only: change other fields with update()."
        raise UnknownField(message, table=schema.table, field=unknown[0], known=[*names])
    if not changes:
        raise SessionError("rekey() takes at least one field of the key.", table=schema.table)
    key = dict(zip(names, key_of(schema, obj), strict=True))
    mapper = KeyMapper(schema)
    (old,) = mapper.rows(tuple(key.values()))
    with claiming():  # names in the new key may be new: they get ids
        (new,) = mapper.rows(tuple({**key, **changes}.values()))
    if old == new:
        raise SessionError("The object has this key already: change other fields with update().", table=schema.table)
    wide = schema.wide
    one_row = wide is not None and wide.form.cut(old)[0] == wide.form.cut(new)[0]
    if wide is not None and wide.qualifiers.raw and not one_row:
        raise CapabilityError(
            "An object that is a single cell can be moved only within its row, because it has no room for the mark of "
            "a move: add it under the new key, and delete the old one.",
            table=schema.table,
        )
    stored = {name: schema.by_name[name].read_back(value) for name, value in changes.items()}
    own_version = held_version(schema, obj)
    return Move(old, new, stored, version_of(schema, obj) if own_version is None else own_version.stored, one_row)


def _mover(binding: Binding, bound: int) -> RowMover:
    schema, reader = binding.schema, binding.reader
    match row_planner(binding, bound, moving=True):
        case VersionedRowPlanner() as versioned:
            return VersionedMover(reader, versioned)
        case IndexedRowPlanner() as indexed:
            return IndexedMover(reader, indexed)
        case unindexed:
            return UnindexedMover(reader, unindexed, never_empty_column(schema, "rekey"), bound, binding.written)
