"""Reads the rows that indexed and versioned writes change, as a sans-IO generator."""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.operations import GetRows, Protocol
from hbmodel.store.values import Row


def read_rows(planner: IndexedRowPlanner, rows: Sequence[bytes]) -> Protocol[Sequence[Row | None]]:
    """Reads rows with all cells that writes need (rule 1): every column of the families, except the entries of map
    columns.

    The cell whose qualifier is only the alias of a map column has the timestamp of the column's newest entry. If a row
    that is not live has such a cell with a value, a delete of the row has not finished, or entries were put after the
    delete. Such a row is read completely, so that a put of a new object also blanks the entries that are left (rule 4).
    """
    schema = planner.schema
    rows_read: Sequence[Row | None] = yield GetRows(schema.table, rows, schema.row_columns)
    left = [
        row.row
        for row in rows_read
        if row is not None and schema.maps and _has_entries(schema, row) and not planner.old(row).live
    ]
    if not left:
        return rows_read
    again: Sequence[Row | None] = yield GetRows(schema.table, left, schema.family_names)
    whole = dict(zip(left, again, strict=True))
    return [whole[row.row] if row is not None and row.row in whole else row for row in rows_read]


def _has_entries(schema: TableSchema, row: Row) -> bool:
    cells = (row.columns.get(map_field.column) for map_field in schema.maps)
    return any(cell is not None and cell.value for cell in cells)
