"""Decides, from the phase of a migration, in which tables a session reads and writes the objects of a model whose key
is being changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import evolve

from hbmodel.errors import CapabilityError, EncodingError, KeyTooLong, SchemaMismatch
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.predicates import is_nan
from hbmodel.mapping.rows.cells_of_update import cells_of_changes
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.operations import Protocol
from hbmodel.protocol.relocation.migration_phases import DONE, Phase, Side, phase_of
from hbmodel.protocol.relocation.row_seals import Way, carry_over
from hbmodel.protocol.relocation.seal_and_move import PairedWrite, write_between
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.writes import PutObject, RowWrite, UpdateFields, put_object
from hbmodel.session.commit.batches import Batch
from hbmodel.session.get_many import get_many
from hbmodel.store.port import Store
from hbmodel.tables.registry.registration import Binding

T = TypeVar("T")
Moment = tuple[Phase, int]
"""A phase, and the time at which the registry recorded its start, in ms by the server's clock."""


class MigrationRouting:
    """Chooses the tables for models that replace others.

    Args:
        bind: returns the current binding of a model. The binding of a layout that is being replaced contains the phase
            of the migration.
    """

    def __init__(self, bind: Callable[[TableSchema], Binding], view: Callable[[TableSchema], Store]) -> None:
        self._bind, self._view = bind, view

    def phase(self, schema: TableSchema) -> Phase:
        """Returns the phase of the migration into the table of a model.

        Raises:
            SchemaMismatch: programs are refused until the migration ends.
        """
        assert schema.replaces is not None, "only such a model has a phase"
        name = self._bind(schema.replaces).phase
        phase = phase_of(schema, name)
        if phase is None or phase.writes is None or not (schema.immutable or schema.versioned or phase.name == DONE):
            raise SchemaMismatch(
                "The objects are not in the table of this model yet, and no program can use them until they have been "
                "moved there: move them with hb.migration.migrate(..., offline=True).",
                table=schema.table,
                replaces=schema.replaces.table,
                phase=name,
            )
        return phase

    def read(self, schema: TableSchema) -> list[TableSchema]:
        """Returns the layouts of the tables from which objects of a model are read, in this order."""
        return [schema] if schema.replaces is None else [_of(schema, side) for side in self.phase(schema).reads]

    def get_many(self, schema: TableSchema, keys: Iterable[Mapping[str, Any] | Sequence[Any]]) -> list[Any]:
        """Returns the objects with these keys, each from the first table in which it is found."""
        if schema.replaces is None:
            return get_many(self._view(schema), schema, keys, lambda: self._bind(schema).reader)
        keys = list(keys)
        while True:
            moment = self.moment(schema)
            objects = self._found(schema, [_of(schema, side) for side in moment[0].reads], keys)
            if None not in objects or self.lasts(schema, moment):
                return objects

    def moment(self, schema: TableSchema) -> Moment:
        """Returns the current phase of the migration, and the time of its start."""
        assert schema.replaces is not None
        return self.phase(schema), self._bind(schema.replaces).phase_since

    def lasts(self, schema: TableSchema, moment: Moment) -> bool:
        """Whether it is certain that a read that began at this moment has missed no object. Only versioned models need
        this check, because their objects leave a table when they move.
        """
        if not schema.versioned:
            return True
        phase, since = self.moment(schema)
        return since == moment[1] if phase is moment[0] else phase.name in moment[0].lasts

    def _found(
        self, schema: TableSchema, layouts: Sequence[TableSchema], keys: Sequence[Mapping[str, Any] | Sequence[Any]]
    ) -> list[Any]:
        mapper = KeyMapper(schema)
        named = [dict(zip(schema.layout.names, mapper.given(key), strict=False)) for key in keys]
        for key in named:
            if not any(_can_have(layout, key) for layout in layouts):
                # no table can have this key, so the caller made a mistake
                mapper.rows([key[name] for name in schema.layout.names])
        objects: list[Any] = [None] * len(named)
        for layout in layouts:
            lacking = [at for at, obj in enumerate(objects) if obj is None and _can_have(layout, named[at])]
            if lacking:
                reader = lambda bound_layout=layout: self._bind(bound_layout).reader  # noqa: E731
                got = get_many(self._view(layout), layout, [named[at] for at in lacking], reader)
                for at, obj in zip(lacking, got, strict=True):
                    objects[at] = obj
        return objects

    def check_changes(self, schema: TableSchema, action: str) -> TableSchema:
        """Returns the layout in which deletes and inserts are made.

        Raises:
            CapabilityError: the phase of the migration does not allow deletes and inserts, because another program may
                look only in the other table.
        """
        if schema.replaces is None:
            return schema
        phase = self.phase(schema)
        if not phase.changes:
            raise CapabilityError(
                f"{action} is not possible while objects move between tables, since another program may look only "
                "in the other table: wait until the migration is over.",
                table=schema.table,
                phase=phase.name,
            )
        return _of(schema, phase.writes)

    def inserts(self, schema: TableSchema) -> bool:
        """Whether an insert must be made by a unit of work, because the objects are versioned and may be in either
        table.
        """
        return schema.replaces is not None and schema.versioned and self.phase(schema).name != DONE

    def check_insert(self, schema: TableSchema) -> None:
        """Raises `CapabilityError` if reading only one of the tables cannot show whether a key is free."""
        if schema.replaces is not None and self.phase(schema).name != DONE:
            calls = "prepend() and rekey()" if schema.versioned else "insert(), prepend() and rekey()"
            raise CapabilityError(
                f"{calls} are possible once all objects are in the table of this model: wait until the migration "
                "is over.",
                table=schema.table,
                replaces=schema.replaces.table,
            )

    def written(self, schema: TableSchema) -> TableSchema:
        """Returns the layout of the table into which new objects are put."""
        return schema if schema.replaces is None else _of(schema, self.phase(schema).writes)

    def route(self, batch: Batch) -> None:
        """Directs a batch to the table into which objects of its model are currently written. The writes of objects
        that do not fit this table are refused, and leave the batch. While both tables are read, each object must fit
        both, since the migration may still be rolled back.
        """
        schema = batch.owners[0].schema
        if schema.replaces is None:
            return
        if any(not isinstance(write, PutObject) for write in batch.writes):
            self.check_changes(schema, "delete()")
        current, target = self.phase(schema), self.written(schema)
        phase = current if schema.versioned else None
        for layout in (target,) if len(current.reads) == 1 else (schema, schema.replaces):
            if layout is not batch.schema:
                batch.leave_out([_unfit(layout, write) for write in batch.writes])
        if phase != batch.phase:
            batch.phase, batch.running, batch.binding = phase, None, None
        if target is not batch.schema:
            batch.writes = [rewritten(target, write) for write in batch.writes]
            batch.schema, batch.running, batch.binding = target, None, None
            batch.deleted, batch.placed = {}, None
        if phase is not None and phase.seals is None and batch.running is None:
            _carry_over(batch, schema if target is not schema else schema.replaces)

    def check_phase(self, batch: Batch) -> None:
        """Raises `SchemaMismatch` if the phase of a batch is over."""
        if self.outdated(batch):
            table = batch.owners[0].schema.table
            raise SchemaMismatch(
                "The migration went on to its next phase during the commit: call commit() again.", table=table
            )

    def outdated(self, batch: Batch) -> bool:
        """Whether the migration has left the phase in which a batch was planned, so that its objects must be written to
        a different table, or must not be deleted now.
        """
        schema = batch.owners[0].schema
        if batch.phase is not None:
            return self.phase(schema) is not batch.phase
        return schema.replaces is not None and not self.stayed(batch)

    def between(self, batch: Batch, bound: int, *, insert: bool, rounds: int) -> Protocol[Any] | None:
        """Returns the protocol that writes a batch whose objects may be in either of two tables, or None if all of them
        are in one table.
        """
        phase, schema = batch.phase, batch.owners[0].schema
        if phase is None or phase.seals is None:
            return None
        assert schema.replaces is not None
        layouts = (schema, schema.replaces) if phase.back else (schema.replaces, schema)
        batch.binding = self._bind(batch.schema)
        bindings = [self._bind(layout) for layout in layouts]
        for binding in bindings:
            binding.check_writable()
        source, target = (VersionedRowPlanner(binding.schema, binding.written, bound) for binding in bindings)
        way = Way(source, evolve(target, over_closed=phase.back), phase.back, phase.seals)
        writes = [PairedWrite(*(rewritten(layout, write) for layout in layouts)) for write in batch.writes]
        sent = {layout.table: batch.sent_to(layout.table) for layout in layouts}
        return write_between(way, writes, sent, insert=insert, rounds=rounds)

    def stayed(self, batch: Batch) -> bool:
        """Whether the writes of a batch may be acknowledged, because the phase has not changed in the meantime in a way
        that matters for them.
        """
        schema = batch.owners[0].schema
        if schema.versioned:
            return True  # a row that was written stays in its table until it is sealed
        phase = self.phase(schema)
        deletes = any(not isinstance(write, PutObject) for write in batch.writes)
        return _of(schema, phase.writes) is batch.schema and (phase.ends or not deletes)


def _can_have(layout: TableSchema, key: Mapping[str, Any]) -> bool:
    """Whether a row of a layout can have this key. A value that the codecs of one layout can store may be impossible
    for the codecs of the other.
    """
    try:
        for key_field in layout.key_fields:
            value = FieldExpression[Any](of=key_field).checked(key[key_field.name])
            if value != key[key_field.name] and not is_nan(value):
                return False
    except EncodingError:
        return False
    return True


def _of(schema: TableSchema, side: Side | None) -> TableSchema:
    assert schema.replaces is not None
    return schema if side == "new" else schema.replaces


def _unfit(layout: TableSchema, write: RowWrite) -> EncodingError | KeyTooLong | None:
    """Returns why an object cannot be stored in this layout, or None if it can be stored."""
    try:
        rewritten(layout, write)
        if isinstance(write, UpdateFields):
            cells_of_changes(layout, write.changes)
    except (EncodingError, KeyTooLong) as error:
        return type(error)(
            "The object does not fit the table that the model replaces. Until the migration is over, each object must "
            "fit both tables: write it after the cutover.",
            **{**error.details, "reason": error.message},
        )
    return None


def _carry_over(batch: Batch, other: TableSchema) -> None:
    """Records changes that were sent to the other table as changes of the batch's table, which now holds all objects.
    The protocol then looks for these changes in the batch's table.
    """
    sent = batch.sent_to(other.table)
    for write in batch.writes if sent else ():
        carry_over(sent, rewritten(other, write).row, batch.sent_to(batch.schema.table), write.row)


def rewritten(schema: TableSchema, write: RowWrite) -> RowWrite:
    """Returns the same write, in the given layout."""
    if isinstance(write, PutObject):
        return evolve(put_object(schema, write.subject, write.ttl), version=write.version)
    subject: Any = write.key if isinstance(write, UpdateFields) else write.subject
    key = [subject[name] if isinstance(subject, Mapping) else getattr(subject, name) for name in schema.layout.names]
    (row,) = KeyMapper(schema).rows(key)
    return evolve(write, row=row)
