"""Chooses the cell that shows whether a row has changed since it was read, for conditional changes of the row."""

from __future__ import annotations

from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.ttl_timestamps import OWN
from hbmodel.store.values import Row


def cell_of_condition(schema: TableSchema, row: Row) -> tuple[bytes, bytes] | None:
    """Returns the cell that shows whether an object has been deleted, or put again as a whole, since it was read.
    Returns None if there is no such cell.

    This is usually the version cell. A row that is older than the first index has no version cell. For such a row, the
    cell with the time of expiry is returned, because each put of the row writes a different value into it. If the row
    has neither of the two, a cell that every delete removes is returned, preferably the existence flag or a required
    column.
    """
    filled = {column: cell.value for column, cell in row.columns.items() if cell.value}
    first = (schema.version_column, schema.expiry_column, schema.exists_column, *schema.required_columns)
    own = sorted(column for column in filled if not schema.is_system(column))
    column = next((column for column in (*first, *own) if column in filled), None)
    return None if column is None else (column, filled[column])


def cell_of_expiry(schema: TableSchema, row: Row) -> tuple[bytes, bytes | None]:
    """Returns the column and the value of the cell that changes when a whole row is put again with a TTL. The value is
    None if there is no such cell.

    The cell may remain from an earlier, deleted object under the same key.
    """
    expiry_cell = row.columns.get(schema.expiry_column)
    return schema.expiry_column, None if expiry_cell is None else expiry_cell.value


def lacks_version(schema: TableSchema, row: Row) -> bool:
    """Returns whether a row has no cell that every put of the whole row changes."""
    return row.columns.keys().isdisjoint((schema.version_column, schema.expiry_column))


def unrepeated(schema: TableSchema, row: Row, *, ends: bool) -> frozenset[bytes]:
    """Returns the columns that are left out when a whole row is put again.

    These are counters, which other programs increment, stamps of other writers, and the cell with the time of expiry.
    The mark of a move is put again. If the row expires, all older cells are deleted. So in this case the cell that
    shows which insert put the row is put again too: an insert that has not been acknowledged yet recognizes its row by
    this cell.

    Args:
        row: the row as it was read. It may be older than the first index.
        ends: whether the row expires.
    """
    stamps = (
        c for c, cell in row.columns.items() if c.startswith(schema.stamp_prefix) and not (ends and cell.value == OWN)
    )
    return frozenset((*schema.counter_columns, *stamps, schema.expiry_column)) - {schema.move_column}
