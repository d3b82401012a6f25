"""Where a session reads and writes the objects of a model whose key is being changed, phase by phase."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from hbmodel.errors import CapabilityError, SchemaMismatch
from hbmodel.mapping.mapper import KeyMapper
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.migration import DONE, PHASES, Phase, Side
from hbmodel.protocol.writes import DeleteRow, PutObject, RowWrite, put_object
from hbmodel.session.batches import Batch
from hbmodel.session.get_many import get_many
from hbmodel.store.port import Store
from hbmodel.tables.registration import Binding

T = TypeVar("T")


class Moves:
    """The tables of models that replace others.

    Args:
        bind: gives the current binding of a model; that of an earlier layout says which phase its migration is in.
        view: gives the store as a model sees it.
    """

    def __init__(self, bind: Callable[[TableSchema], Binding], view: Callable[[TableSchema], Store]) -> None:
        self._bind, self._view = bind, view

    def phase(self, schema: TableSchema) -> Phase:
        """Of the migration into the table of a model.

        Raises:
            SchemaMismatch: programs are refused until it is over.
        """
        assert schema.replaces is not None, "only such a model has a phase"
        phase = PHASES[self._bind(schema.replaces).phase]
        if phase.writes is None or (not schema.immutable and phase.name != DONE):
            raise SchemaMismatch(
                "The objects are not in the table of this model yet, and can be used by no program until they are: "
                "move them with hb.migrate(..., offline=True).",
                table=schema.table, replaces=schema.replaces.table, phase=phase.name,
            )  # fmt: skip
        return phase

    def read(self, schema: TableSchema) -> list[TableSchema]:
        """The layouts to read objects of a model from, in this order."""
        return [schema] if schema.replaces is None else [_of(schema, side) for side in self.phase(schema).reads]

    def get_many(self, schema: TableSchema, keys: Iterable[Mapping[str, Any] | Sequence[Any]]) -> list[Any]:
        """The objects under many keys, each from the first table that has it."""
        if schema.replaces is None:
            return get_many(self._view(schema), schema, keys, lambda: self._bind(schema).reader)
        mapper = KeyMapper(schema)
        named = [dict(zip(schema.layout.names, mapper.given(key), strict=False)) for key in keys]
        found: list[Any] = [None] * len(named)
        for layout in self.read(schema):
            lacking = [at for at, obj in enumerate(found) if obj is None]
            if lacking:
                got = get_many(self._view(layout), layout, [named[at] for at in lacking], lambda of=layout: self._bind(of).reader)  # type: ignore[misc]
                for at, obj in zip(lacking, got, strict=True):
                    found[at] = obj
        return found

    def check_changes(self, schema: TableSchema, what: str) -> TableSchema:
        """The layout in which an object may be deleted, or put only if its key is free.

        Raises:
            CapabilityError: both tables are in use.
        """
        if schema.replaces is None:
            return schema
        phase = self.phase(schema)
        if not phase.changes:
            raise CapabilityError(
                f"{what} is not possible while objects move between tables, since another program may look only into the other one: "
                "wait until the migration is over.",
                table=schema.table, phase=phase.name,
            )  # fmt: skip
        return _of(schema, phase.writes)

    def check_insert(self, schema: TableSchema) -> None:
        """Raises `CapabilityError` where one table alone does not say yet whether a key is free."""
        if schema.replaces is not None and self.phase(schema).name != DONE:
            raise CapabilityError(
                "insert(), prepend() and rekey() are possible once all objects are in the table of this model: wait until the migration "
                "is over.",
                table=schema.table, replaces=schema.replaces.table,
            )  # fmt: skip

    def written(self, schema: TableSchema) -> TableSchema:
        """The layout in which new objects are put."""
        return schema if schema.replaces is None else _of(schema, self.phase(schema).writes)

    def route(self, batch: Batch) -> None:
        """Has a batch write where the objects of its model belong now."""
        schema = batch.owners[0].schema
        if schema.replaces is None:
            return
        if any(not isinstance(write, PutObject) for write in batch.writes):
            self.check_changes(schema, "delete()")
        target = self.written(schema)
        if target is not batch.schema:
            batch.writes = [_rewritten(target, write) for write in batch.writes]
            batch.schema, batch.running, batch.binding = target, None, None
            batch.deleted, batch.sent = {}, {}

    def stayed(self, batch: Batch) -> bool:
        """Whether what a batch has written may be acknowledged: else it was under way while the phase changed."""
        schema = batch.owners[0].schema
        phase = self.phase(schema)
        deletes = any(not isinstance(write, PutObject) for write in batch.writes)
        return _of(schema, phase.writes) is batch.schema and (phase.ends or not deletes)


def _of(schema: TableSchema, side: Side | None) -> TableSchema:
    assert schema.replaces is not None
    return schema if side == "new" else schema.replaces


def _rewritten(schema: TableSchema, write: RowWrite) -> RowWrite:
    """The same write in another layout."""
    if isinstance(write, PutObject):
        return put_object(schema, write.subject, write.ttl)
    assert isinstance(write, DeleteRow), "objects that change are used in one layout alone"
    subject = write.subject
    key = [subject[name] if isinstance(subject, Mapping) else getattr(subject, name) for name in schema.layout.names]
    (row,) = KeyMapper(schema).rows(key)
    return DeleteRow(subject, row)
