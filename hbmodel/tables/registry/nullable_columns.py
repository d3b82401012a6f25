"""Finds the columns of a model that may be None although the registry does not allow this yet.

The values of a column have the same bytes whether it may be None or not. So a model that newly allows None in a column
can be used at once, except for writing None. The registry allows None in three steps: it records that the column may be
None, so that models that do not allow None are refused; it waits until no program can still read or write with a model
that does not allow None; and it records that None may be written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
from attrs import frozen

from hbmodel.errors import SchemaMismatch
from hbmodel.mapping.model_field import NO_CELL, REQUIRED
from hbmodel.mapping.schema import Field, TableSchema
from hbmodel.protocol.writes import PutObject, RowWrite, UpdateFields
from hbmodel.tables.registry.layout_differences import jsonable
from hbmodel.tables.registry.registration import Binding

WAITING = "waiting"
"""The part of a layout that lists the columns in which models may declare None but must not write it yet."""


def new_nullable_columns(schema: TableSchema, layout: Mapping[str, Any]) -> list[str]:
    """Returns the columns that may be None in the model but not in a registered layout, and have no other difference.

    If the objects are being moved between two tables, the result is empty: the tables must store the same objects.
    """
    return [] if schema.replaces is not None else _newly_nullable(schema, layout)


def nullable_after_migration(schema: TableSchema, layout: Mapping[str, Any]) -> list[str]:
    """Returns the columns that a model could newly allow to be None if it did not replace another model."""
    return [] if schema.replaces is None else _newly_nullable(schema, layout)


def _newly_nullable(schema: TableSchema, layout: Mapping[str, Any]) -> list[str]:
    registered, places = layout.get("columns", {}), list[str]()
    for field in schema.columns:
        place = field.column.decode("latin-1")
        live = registered.get(place)
        if field.kind != "column" or not field.nullable or live is None or live.get("nullable") is not False:
            continue
        if live.get("kind") == field.kind and live.get("codec") == jsonable(field.codec.spec):
            places.append(place)
    return places


def with_nullable_columns(schema: TableSchema, layout: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a layout in which a model may declare None for its new nullable columns, but must not write it yet."""
    places = new_nullable_columns(schema, layout)
    declared = jsonable(schema.layout_spec["columns"])
    columns = {place: {**declared[place], "name": layout["columns"][place]["name"]} for place in places}
    waiting = sorted({*places, *layout.get(WAITING, ())})
    return {**layout, "columns": {**layout["columns"], **columns}, WAITING: waiting} if waiting else dict(layout)


def without_waiting(layout: Mapping[str, Any], places: Collection[str]) -> dict[str, Any]:
    """Returns a layout in which None may now be written in some columns. Other columns may still wait for another call
    of `hb.alter`.
    """
    waiting = [place for place in layout.get(WAITING, ()) if place not in places]
    others = {part: value for part, value in layout.items() if part != WAITING}
    return {**others, WAITING: waiting} if waiting else others


def none_must_wait(schema: TableSchema, layout: Mapping[str, Any]) -> tuple[Field, ...]:
    """Returns the fields of a model whose columns must not become None yet."""
    places = {*new_nullable_columns(schema, layout), *layout.get(WAITING, ())}
    return tuple(f for f in schema.columns if places and f.column.decode("latin-1") in places)


class NoneNotAllowed(SchemaMismatch):
    """The `SchemaMismatch` for a write of None that the registry does not allow yet. Trying again would not help."""


@frozen(eq=False)
class BindingWithoutNone(Binding):
    """The binding of a model with fields that must not become None yet.

    Attributes:
        waiting: the fields that must not become None yet.
    """

    waiting: Sequence[Field] = ()

    @cached_property
    def writable(self) -> bool:
        """False, so that the binding is trusted only for a short time, and None is allowed soon after `hb.alter` has
        ended.
        """
        return False

    @cached_property
    def planned(self) -> TableSchema:
        """The schema with which writes are planned. In it, the waiting fields have no default.

        With the earlier model, a row exists even if a cell of such a column is its only cell. So an update that puts
        this cell must check that the row was not deleted before the put, as updates with the earlier model do.
        """
        schema = self.schema
        if schema.exists_column is not None or not schema.required_columns:
            return schema
        names = frozenset(f.name for f in self.waiting if not f.required)
        known: TableSchema | None = schema.compiled.get(("planned", names))
        if known is not None or not names:
            return known or schema
        fields = [attrs.evolve(f, default=REQUIRED) if f.name in names else f for f in schema.fields]
        return schema.keep(("planned", names), attrs.evolve(schema, fields=fields))

    def check_values(self, writes: Iterable[RowWrite]) -> None:
        """Raises `SchemaMismatch` for a write that stores None in a field that must not become None yet."""
        for write in writes:
            for field in self.waiting:
                if _stores_none(write, field):
                    raise NoneNotAllowed(
                        "The registry does not allow None in this column yet: when no program uses a model without "
                        "None any more, call hb.alter(). Until then, give the field a value.",
                        table=self.schema.table,
                        key=write.row,
                        field=field.name,
                    )


def _stores_none(write: RowWrite, field: Field) -> bool:
    if isinstance(write, UpdateFields):
        return field.name in write.changes and write.changes[field.name] is None
    if not isinstance(write, PutObject):
        return False
    cell: object = write.cells.get(field.column, NO_CELL)
    return cell is NO_CELL or (cell == b"" and not field.unescaped)
