"""Chooses the protocol that moves an object to another key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from hbmodel.encoding.codecs.dictionary import claiming
from hbmodel.errors import (
    CapabilityError,
    IndexUnavailable,
    PartialWrite,
    SchemaMismatch,
    SessionError,
    UniqueViolation,
    UnknownField,
)
from hbmodel.mapping.rows.mapper import KeyMapper, key_of, version_of
from hbmodel.mapping.schema import TableSchema, schema_of_object
from hbmodel.protocol.corrected_clock import ServerClock
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed.move_marks import LEAVING, mark_of
from hbmodel.protocol.operations import GetRows, Protocol
from hbmodel.protocol.relocation.rekey import Move, Moved, Progress
from hbmodel.protocol.relocation.rekey import rekey as moved_to
from hbmodel.protocol.relocation.rekey_indexed_steps import IndexedMover, VersionedMover
from hbmodel.protocol.relocation.rekey_steps import RowMover, UnindexedMover
from hbmodel.protocol.versioned.unique_values import claim_of, held_claims, owner_of, read_claims
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
            mover = _mover(binding, clock.bound)
            if isinstance(mover, VersionedMover) and not progress.begun:
                readable = {index.name for index in binding.readable}
                sending.drive(store, _unique_values_free(mover, move, readable), clock, check)
            done: Moved = sending.drive(store, moved_to(mover, move, progress), clock, check)
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


def _unique_values_free(mover: VersionedMover, move: Move, readable: Collection[str]) -> Protocol[None]:
    """Raises `UniqueViolation` if another row holds a unique value that the object would have under its new key.

    The move claims the values only once the object is under both keys. If another row held one, the object would stay
    there, and could not be written, until that row has changed. This is possible only in an index that contains a
    changed key field, and in one whose build has not ended, since there two rows may have the same value.

    Args:
        readable: the names of the indexes whose builds have ended.
    """
    planner, schema = mover.planner, mover.schema
    doubtful = [
        index
        for index in planner.indexes
        if index.unique and (index.name not in readable or not move.changes.keys().isdisjoint(index.fields))
    ]
    if not doubtful:
        return
    (old,) = yield GetRows(schema.table, [move.old], mover.columns)
    mark = mark_of(schema, old)
    if old is None or not mover.live(old) or (mark is not None and mark.kind == LEAVING):
        return  # the move ends with an error, or has begun
    values = {**mover.reader.values(old), **move.changes}
    entries = [(index, entry) for index in doubtful for entry in planner.keys.entries(index, values, move.new)]
    claims = [claim for index, entry in entries if (claim := claim_of(index, entry)) is not None]
    cells = yield from read_claims(planner, claims)
    for claim in claims:
        owner = owner_of(cells[claim].value) if claim in cells else None
        if owner is None or owner in {move.old, move.new}:
            continue
        (other,) = yield GetRows(schema.table, [owner], mover.columns)
        if claim in held_claims(planner, planner.old(other)):  # otherwise the move can take the claim over
            raise UniqueViolation(
                "Another row holds the value of a unique index that the object would have under its new key: change "
                "that row (`owner`) or the object first, or choose another key. The object was not moved.",
                table=schema.table,
                key=move.old,
                index=claim.index.name,
                fields=list(claim.index.fields),
                owner=owner,
                value=claim.values[0] if len(claim.values) == 1 else tuple(claim.values),
            )


def _mover(binding: Binding, bound: int) -> RowMover:
    schema, reader = binding.schema, binding.reader
    match row_planner(binding, bound, moving=True):
        case VersionedRowPlanner() as versioned:
            return VersionedMover(reader, versioned)
        case IndexedRowPlanner() as indexed:
            return IndexedMover(reader, indexed)
        case unindexed:
            return UnindexedMover(reader, unindexed, never_empty_column(schema, "rekey"), bound, binding.written)
