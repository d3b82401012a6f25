"""The differences between the columns that models declare and the cells of sampled rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from hbmodel.mapping.schema import TableSchema
from hbmodel.store.port import Store
from hbmodel.tables.creation.comparison.differences_as_text import Difference, Effect
from hbmodel.tables.creation.comparison.lacking_columns import lacking_columns
from hbmodel.tables.creation.comparison.object_places import object_places
from hbmodel.tables.creation.comparison.undeclared_columns import (
    LiveColumns,
    dropped_columns,
    registered_others,
    unmapped_columns,
)
from hbmodel.tables.creation.declared import DeclaredTable
from hbmodel.tables.registry.registered_fields import moved_columns, possible_renames
from hbmodel.tables.registry.registration import Registration
from hbmodel.tables.registry.registry_table import Registry

REQUIRED = "required"
"""The `declared` text of a difference about a required column that rows lack."""

OBJECTS = 1_000
"""The maximum number of objects that are examined, if a sampled row has several objects."""

_UNMAPPED = "no field maps it: reads ignore it, and deleting the object deletes it too"
_DROPPED = (
    "the registry has it as {name}, and an earlier model may require it: a program with such a model raises "
    "IncompleteRow when it reads a row that this model writes, so before you remove the field, give its column a "
    "default in all programs"
)
_LACKING = (
    "the column is required, and reading a row that lacks it raises IncompleteRow: give the column a default, and fill "
    "the rows before you make it required"
)
_UNREADABLE = (
    "the column is new and required, so programs with this model could not read these rows: give it a default, "
    "register and deploy the model, fill the rows, and then make the column required"
)


def compare_columns(
    store: Store,
    table: DeclaredTable,
    catalog: Registry,
    entries: Mapping[TableSchema, Registration | None],
    sample: int,
) -> Iterator[Difference]:
    """Yields the differences in the columns of a live table.

    These are columns in sampled rows that no registered model declares, neither these models nor others; registered
    columns that these models no longer declare; and required columns that are missing.
    """
    registered = {schema: entry for schema in table.schemas if (entry := entries[schema]) is not None}
    others = registered_others(catalog, table.schemas)
    dropped = {
        column: name
        for schema, entry in registered.items()
        for column, name in dropped_columns(schema, entry.layout).items()
    }
    if others is None and not dropped:
        return
    live = unmapped_columns(store, table.schemas, others or (), sample)
    if not live.rows:
        for column, name in dropped.items():
            yield _undeclared(table, column, "not declared", _DROPPED.format(name=name))
    # If another registered model cannot be rebuilt, it may declare any column that these models do not declare.
    judged = live.held if others is not None else live.held.keys() & dropped
    yield from _held(table, live, judged, dropped, entries)
    if others is not None:
        yield from _lacking(store, table, live, registered)


def _undeclared(table: DeclaredTable, column: str, live: str, why: str) -> Difference:
    return Difference(table.name, "column", f"column {column}", None, live, "left", why, column.partition(":")[0])


def _held(
    table: DeclaredTable,
    live: LiveColumns,
    judged: Collection[str],
    dropped: Mapping[str, str],
    entries: Mapping[TableSchema, Registration | None],
) -> Iterator[Difference]:
    """Yields the differences for columns that sampled rows have and no model declares."""
    known = {
        column: spec
        for entry in entries.values()
        if entry is not None
        for column, spec in entry.layout["columns"].items()
    }
    renames = [
        each
        for schema, entry in entries.items()
        for each in possible_renames(schema, {} if entry is None else entry.layout)
    ]
    for column, rows in live.held.items():
        if column not in judged:
            continue
        if column in dropped:
            why = f"{_UNMAPPED}; {_DROPPED.format(name=dropped[column])}"
        else:
            why = _UNMAPPED + (f"; the registry has it as {known[column]['name']}" if column in known else "")
        for each in renames:
            if each.live == column:
                why += f"; if {each.field} is its new name, declare {each.field} as {each.declaration}"
        yield _undeclared(table, column, f"in {rows} of {len(live.rows)} sampled rows", why)


def _lacking(
    store: Store, table: DeclaredTable, live: LiveColumns, registered: Mapping[TableSchema, Registration]
) -> Iterator[Difference]:
    """Yields the differences for required columns that objects of the sampled rows lack."""
    for schema, entry in registered.items():
        moved_places = {each.declared for each in moved_columns(schema, entry.layout)}
        renames = possible_renames(schema, entry.layout)
        at_most = max(1, OBJECTS // max(1, len(live.rows)))
        places = dict(
            place for row, cells in live.rows.items() for place in islice(object_places(schema, row, cells), at_most)
        )
        for each in lacking_columns(store, schema, places, entry):
            column = each.column.decode("latin-1")
            if each.unreadable and column in moved_places:  # `moved_columns` reports this column
                continue
            what = "rows" if schema.wide is None else "objects"
            missing = f"missing in {each.missing} of {each.objects} sampled {what}"
            effect: Effect = "refused" if each.unreadable else "left"
            why, family = _UNREADABLE if each.unreadable else _LACKING, column.partition(":")[0]
            for other in renames:
                if other.declared == column:
                    why += f"; or, if its name was {other.live_name} before, declare {other.declaration}"
            yield Difference(table.name, "column", f"column {column}", REQUIRED, missing, effect, why, family)
