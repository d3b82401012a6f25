"""What of a row shows that it is still as it was read, for changes of it that are conditional on one of its cells."""

from __future__ import annotations

from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.server_time import OWN
from hbmodel.store.values import Row


def cell_of_condition(schema: TableSchema, row: Row) -> tuple[bytes, bytes] | None:
    """The cell that shows whether an object has been deleted, or put again as a whole, since it was read; None if there
    is none.

    That is the version cell. A row from before the first index has none: there it is the cell with the time of its
    expiry, which no other put of the row has, or else a cell that no delete leaves, preferably of a required column.
    """
    held = {column: cell.value for column, cell in row.columns.items() if cell.value}
    first = (schema.version_column, schema.expiry_column, schema.exists_column, *schema.required_columns)
    own = sorted(column for column in held if not schema.is_system(column))
    column = next((column for column in (*first, *own) if column in held), None)
    return None if column is None else (column, held[column])


def cell_of_expiry(schema: TableSchema, row: Row) -> tuple[bytes, bytes | None]:
    """The cell that changes when a row is put again as a whole to expire; one of an earlier life of the row may be
    left.
    """
    held = row.columns.get(schema.expiry_column)
    return schema.expiry_column, None if held is None else held.value


def lacks_version(schema: TableSchema, row: Row) -> bool:
    """Whether a row has no cell that every put of the whole row changes."""
    return row.columns.keys().isdisjoint((schema.version_column, schema.expiry_column))


def unrepeated(schema: TableSchema, row: Row, *, ends: bool) -> frozenset[bytes]:
    """Columns of a row that are not put again with it: counters, which other programs increment, and cells of other
    writers.

    If the row expires, all older cells are deleted. But the cell that shows which insert put the row is put again: an
    insert that has not been acknowledged yet recognizes its row by it.

    Args:
        schema: the schema of the model.
        row: the row as it was read; it may be from before the first index.
        ends: whether the row expires.
    """
    stamps = (
        c for c, cell in row.columns.items() if c.startswith(schema.stamp_prefix) and not (ends and cell.value == OWN)
    )
    return frozenset((*schema.counter_columns, *stamps, schema.expiry_column)) - {schema.move_column}
