"""Changes of a layout that is already registered: names of fields, members of enumerations, and nullable columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hbmodel.mapping.schema import TableSchema
from hbmodel.tables.registry.enum_members import with_members_alone
from hbmodel.tables.registry.nullable_columns import WAITING, with_nullable_columns, without_waiting
from hbmodel.tables.registry.registered_fields import SAFE, field_renames, has_place, names_at, renamed_layout
from hbmodel.tables.registry.registry_table import Registry


def rename_fields(registry: Registry, schema: TableSchema) -> None:
    """Registers the model's names of renamed fields, except for ambiguous renames. Does nothing if the table is not
    registered.
    """

    def renamed(layout: Mapping[str, Any]) -> Mapping[str, Any]:
        return renamed_layout(layout, [rename for rename in field_renames(schema, layout) if rename.how in SAFE])

    registry.change_layout(schema, renamed)


def keep_names(registry: Registry, old: TableSchema, layout: Mapping[str, Any], new: TableSchema) -> None:
    """Registers, for a table to which objects move, all names that its fields have had in the old table. So programs
    that use the old table with earlier names can use the new table too.

    Args:
        registry: the registry.
        old: the model of the old table, with the same names of fields as `new`.
        layout: the registered layout of the old table.
        new: the model of the new table.
    """
    names = {field.name: names_at(layout, place) for place, field in old.stored_places if has_place(layout, place)}

    def named(new_layout: Mapping[str, Any]) -> Mapping[str, Any]:
        was = {place: list(earlier) for place, earlier in new_layout.get("was", {}).items()}
        for place, field in new.stored_places:
            if not has_place(new_layout, place):
                continue
            if missing := {*names.get(field.name, ())} - {*names_at(new_layout, place)}:
                was[place] = sorted({*was.get(place, ()), *missing})
        return {**new_layout, "was": was} if was else new_layout

    registry.change_layout(new, named)


def keep_members(registry: Registry, schema: TableSchema) -> None:
    """Deletes the registered members of enumerations that the model's fields do not have. Does nothing if the table is
    not registered.
    """
    registry.change_layout(schema, lambda layout: with_members_alone(schema.layout_spec, layout))


def declare_nullable(registry: Registry, schema: TableSchema) -> Sequence[str]:
    """Registers the model's new nullable columns, in which None must not be written yet. Returns all columns in which
    None must not be written yet, from this call or an earlier one.
    """
    registry.change_layout(schema, lambda layout: with_nullable_columns(schema, layout))
    registration = registry.read(schema)
    return () if registration is None else tuple(registration.layout.get(WAITING, ()))


def allow_none(registry: Registry, schema: TableSchema, places: Collection[str]) -> None:
    """Registers that None may be written in some nullable columns."""
    registry.change_layout(schema, lambda layout: without_waiting(layout, places))
