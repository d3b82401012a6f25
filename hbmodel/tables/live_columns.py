"""Columns that live rows hold and no field of their models has, as far as a sample shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from hbmodel.errors import SchemaMismatch
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.store.filters import And, KeyOnly, Pagination
from hbmodel.store.port import Store
from hbmodel.store.values import Get
from hbmodel.tables.registered_model import registered_model
from hbmodel.tables.registry import Registry
from hbmodel.tables.sampling import sample_rows

CELLS = 1000
"""Cells that are looked at in each sampled row, at most: a row of a wide model may have millions."""

Unmapped = Callable[[bytes], bytes | None]
"""From the column of a cell to the column that a model would have to declare for it; None where it declares it, or keeps it itself."""


@frozen
class LiveColumns:
    """What a sample shows.

    Attributes:
        rows: that were looked at.
        held: by column, as a model would declare it, how many of the rows hold it; only those that no model has.
    """

    rows: int
    held: Mapping[str, int]


def unmapped_columns(store: Store, schemas: Sequence[TableSchema], others: Sequence[TableSchema], count: int) -> LiveColumns:
    """The columns that sampled rows of a table hold and no model has. Empty cells do not count: an object may have blanked them.

    Args:
        store: that holds the table.
        schemas: of the models whose families are looked at, all of one table.
        others: of further models of the table.
        count: of rows to sample, about.
    """
    table, mapped = schemas[0].table, {name for schema in schemas for name in schema.family_names}
    families = sorted(mapped & {family.name for family in store.families(table)})
    unmapped = [(schema.family_names, _unmapped(schema)) for schema in (*schemas, *others)]
    rows, doubtful = 0, []
    for batch in sample_rows(store, table, count, families, And((Pagination(CELLS, 0), KeyOnly()))).batches:
        rows += len(batch)
        for row in batch:
            found = {name: column for column in row.columns if (name := _declared(column, unmapped)) is not None}
            doubtful += [(row.row, found)] if found else []
    held: dict[str, int] = {}
    gets = [Get(row, sorted(found.values())) for row, found in doubtful]
    for read, (_, found) in zip(store.get_each(table, gets) if gets else (), doubtful, strict=True):
        cells = {} if read is None else read.columns
        for name, column in found.items():
            if column in cells and cells[column].value:
                held[name] = held.get(name, 0) + 1
    return LiveColumns(rows, dict(sorted(held.items())))


def registered_others(catalog: Registry, schemas: Sequence[TableSchema]) -> list[TableSchema] | None:
    """The models of a table that the registry knows besides these; None where one of them can be read by its own program only."""
    own = {(schema.family, schema.kind) for schema in schemas}
    found: list[TableSchema] = []
    for place in catalog.places(schemas[0].table):
        registration = None if (place.family, place.kind) in own else catalog.read(place)
        if registration is not None:
            try:
                found.append(schema_of(registered_model(place, registration)))
            except SchemaMismatch:
                return None
    return found


def _declared(column: bytes, models: Sequence[tuple[Sequence[bytes], Unmapped]]) -> str | None:
    """The column as a model would declare it, where no model has it."""
    family, name = column.partition(b":")[0], column
    for families, unmapped in models:
        if family in families:
            found = unmapped(column)
            if found is None:
                return None
            name = min(name, found, key=len)
    return name.decode("latin-1")


def _unmapped(schema: TableSchema) -> Unmapped:
    known = {of.column for of in schema.columns} | ({schema.exists_column} if schema.exists_column else set())
    maps = tuple(of.column for of in schema.maps)
    wide = schema.wide

    def unmapped(column: bytes) -> bytes | None:
        family, _, qualifier = column.partition(b":")
        end = 0 if wide is None else wide.prefix_end(qualifier)
        alias = qualifier if end is None else qualifier[end:]
        name = family + b":" + alias
        return None if alias.startswith(b"_") or name in known or (maps and name.startswith(maps)) else name

    return unmapped
