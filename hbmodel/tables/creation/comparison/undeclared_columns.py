"""Finds columns that no model declares, in a sample of live rows and in the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from hbmodel.errors import SchemaMismatch
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.store.filters import And, KeyOnly, Pagination
from hbmodel.store.port import Store
from hbmodel.store.values import Cell, Get
from hbmodel.store.wide.wide_rows import ROW_VERSION
from hbmodel.tables.creation.row_samples import sample_rows
from hbmodel.tables.registry.registered_fields import moved_columns
from hbmodel.tables.registry.registered_model import registered_model
from hbmodel.tables.registry.registry_table import Registry

CELLS = 1000
"""The maximum number of cells of a sampled row that are examined. A row of a wide model may have millions of cells."""

ToDeclare = Callable[[bytes], bytes | None]
"""The function from the column of a cell to the column that a model would have to declare for it. The function returns
None if the model declares that column, or if the cell is a system cell of hbmodel.
"""


@frozen
class LiveColumns:
    """The columns of sampled rows that no model declares.

    Attributes:
        rows: the cells of each sampled row, without their values, at most `CELLS` cells per row.
        held: for each undeclared column, written as a model would declare it, the number of rows that have it.
    """

    rows: Mapping[bytes, Mapping[bytes, Cell]]
    held: Mapping[str, int]


def unmapped_columns(
    store: Store, schemas: Sequence[TableSchema], others: Sequence[TableSchema], count: int
) -> LiveColumns:
    """Returns the columns of sampled rows of a table that no model declares.

    Empty cells are ignored, because an update of an object may have emptied them.

    Args:
        schemas: the schemas of the models whose families are examined, all of one table.
        others: the schemas of further models of the table.
    """
    table, mapped = schemas[0].table, {name for schema in schemas for name in schema.family_names}
    families = sorted(mapped & {family.name for family in store.families(table)})
    models = [(schema.family_names, _to_declare(schema)) for schema in (*schemas, *others)]
    rows: dict[bytes, Mapping[bytes, Cell]] = {}
    doubtful: list[tuple[bytes, dict[str, bytes]]] = []
    for batch in sample_rows(store, table, count, families, And((Pagination(CELLS, 0), KeyOnly()))).batches:
        for row in batch:
            rows[row.row] = row.columns
            columns_by_name = {
                name: column for column in row.columns if (name := _undeclared_name(column, models)) is not None
            }
            if columns_by_name:
                doubtful.append((row.row, columns_by_name))
    row_counts: dict[str, int] = {}
    gets = [Get(row, sorted(columns_by_name.values())) for row, columns_by_name in doubtful]
    # the scan returned no values, so the cells that may be empty are read again, with their values
    for read, (_, columns_by_name) in zip(store.get_each(table, gets) if gets else (), doubtful, strict=True):
        cells = {} if read is None else read.columns
        for name, column in columns_by_name.items():
            if column in cells and cells[column].value:
                row_counts[name] = row_counts.get(name, 0) + 1
    return LiveColumns(rows, dict(sorted(row_counts.items())))


def dropped_columns(schema: TableSchema, layout: Mapping[str, Any]) -> dict[str, str]:
    """Returns the registered columns, with their names, that a model does not declare but that an earlier model may
    require.

    The registry does not say whether a column has a default, so all columns that must not be None are returned. Columns
    that the model has under another alias are left out, because `moved_columns` reports them.
    """
    declared, moved = schema.layout_spec["columns"], {each.live for each in moved_columns(schema, layout)}
    return {
        column: spec["name"]
        for column, spec in layout.get("columns", {}).items()
        if column not in declared and column not in moved and spec["kind"] == "column" and not spec["nullable"]
    }


def registered_others(catalog: Registry, schemas: Sequence[TableSchema]) -> list[TableSchema] | None:
    """Returns the registered models of a table, except those in `schemas`. Returns None if one of the models cannot be
    rebuilt from the registry, because a program defines its salt or one of its codecs.
    """
    own = {(schema.family, schema.kind) for schema in schemas}
    others: list[TableSchema] = []
    for place in catalog.keys_of_table(schemas[0].table):
        registration = None if (place.family, place.kind) in own else catalog.read(place)
        if registration is not None:
            try:
                others.append(schema_of(registered_model(place, registration)))
            except SchemaMismatch:
                return None
    return others


def _undeclared_name(column: bytes, models: Sequence[tuple[Sequence[bytes], ToDeclare]]) -> str | None:
    """Returns the column as a model would declare it, or None if one of the models already declares it."""
    family, shortest = column.partition(b":")[0], column
    for families, to_declare in models:
        if family in families:
            name = to_declare(column)
            if name is None:
                return None
            shortest = min(shortest, name, key=len)
    return shortest.decode("latin-1")


def _to_declare(schema: TableSchema) -> ToDeclare:
    known = {field.column for field in schema.columns} | ({schema.exists_column} if schema.exists_column else set())
    maps = tuple(map_field.column for map_field in schema.maps)
    wide = schema.wide_rows
    if wide is not None and wide.row_version is not None:
        known.add(wide.lead + ROW_VERSION)

    def to_declare(column: bytes) -> bytes | None:
        family, _, qualifier = column.partition(b":")
        end = 0 if wide is None else wide.prefix_end(qualifier)
        alias = qualifier if end is None else qualifier[end:]
        name = family + b":" + alias
        return None if alias.startswith(b"_") or name in known or (maps and name.startswith(maps)) else name

    return to_declare
