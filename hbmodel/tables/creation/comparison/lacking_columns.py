"""Finds required columns that sampled rows lack."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from attrs import frozen

from hbmodel.mapping.schema import LIVE, SPARE_FLAG_QUALIFIER, TableSchema
from hbmodel.store.port import Store
from hbmodel.store.values import Cell
from hbmodel.store.wide.folded import folded
from hbmodel.tables.registry.registration import Binding, Registration


@frozen
class LackingColumn:
    """A required column that is missing in rows.

    Attributes:
        missing: how many objects lack it.
        objects: how many objects were examined.
        unreadable: whether the column is not registered yet and no object has it, so that programs with this model
            could not read any object.
    """

    column: bytes
    missing: int
    objects: int
    unreadable: bool = False


def lacking_columns(
    store: Store, schema: TableSchema, rows: Mapping[bytes, Collection[bytes]], registration: Registration
) -> list[LackingColumn]:
    """Returns the required columns that are missing in objects of a table.

    Reading an object that lacks a required column raises `IncompleteRow`. If it lacks all of them and nothing else
    shows that it is an object, reads leave it out.

    Args:
        rows: the columns of each object, by its key, which in a wide model is the object key. Some columns of a long
            row may be missing.
    """
    known = Binding(schema, (), (), (), registration.rows)
    required = {field.column: field for field in schema.columns if field.required}
    marks = {schema.exists_column, schema.liveness_column if known.indexed or known.adopting else None}
    live = {family.name for family in store.families(schema.table)}
    read = sorted(column for column in {*required, *marks} if column is not None and column.partition(b":")[0] in live)
    if not required or not rows:
        return []
    view = folded(store, schema.wide_rows)
    found = view.get(schema.table, list(rows), read) if read else [None] * len(rows)
    objects = [row.columns for row in found if row is not None and known.reader.exists(row)]
    columns = {column.encode("latin-1"): spec for column, spec in registration.layout["columns"].items()}
    maps = tuple(column for column, spec in columns.items() if spec["kind"] == "map")
    written = {*columns, schema.family + b":" + SPARE_FLAG_QUALIFIER}
    shown = [
        cells
        for row, names in zip(found, rows.values(), strict=True)
        for cells in [{} if row is None else row.columns]
        if _was_object(known, cells, any(name in written or name.startswith(maps) for name in names))
    ]
    lacking: list[LackingColumn] = []
    for column, field in sorted(required.items()):

        def lacks(cells: Mapping[bytes, Cell]) -> bool:
            return column not in cells or (field.empty_is_missing and not cells[column].value)  # noqa: B023

        new = column not in columns
        examined = shown if new else objects
        if missing := sum(map(lacks, examined)):
            lacking.append(LackingColumn(column, missing, len(examined), new and missing == len(examined)))
    return lacking


def _was_object(known: Binding, cells: Mapping[bytes, Cell], written: bool) -> bool:
    """Returns whether a row is an object of the model, or was one before the model had its required columns.

    Args:
        cells: the required columns of the row, and the columns that show whether it exists.
        written: whether the row has a registered column.
    """
    schema = known.schema
    liveness = cells.get(schema.liveness_column)
    if liveness is not None:
        return liveness.value.startswith(LIVE)
    if known.indexed and not known.adopting:
        return False
    if schema.exists_column is not None:
        flag = cells.get(schema.exists_column)
        return flag is not None and schema.is_flag(flag.value)
    return written
