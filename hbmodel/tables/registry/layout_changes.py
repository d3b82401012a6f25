"""Changes of a layout that is already registered: names of fields, members of enumerations, and nullable columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hbmodel.mapping.schema import TableSchema
from hbmodel.tables.registry.enum_members import with_members_alone
from hbmodel.tables.registry.nullable_columns import WAITING, with_nullable_columns, without_waiting
from hbmodel.tables.registry.registered_fields import SAFE, field_renames, renamed_layout
from hbmodel.tables.registry.registry_table import Registry


def rename_fields(registry: Registry, schema: TableSchema) -> None:
    """Registers the model's names of renamed fields, except for ambiguous renames. Does nothing if the table is not
    registered.
    """

    def renamed(layout: Mapping[str, Any]) -> Mapping[str, Any]:
        return renamed_layout(layout, [rename for rename in field_renames(schema, layout) if rename.how in SAFE])

    registry.change_layout(schema, renamed)


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
