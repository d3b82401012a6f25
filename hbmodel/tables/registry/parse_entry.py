"""Parses the entry of a table in the registry, which is one row of the registry table."""

from __future__ import annotations

import json

from hbmodel.store.values import Row
from hbmodel.tables.registry.entry_shape import check_layout_shape, entry_of
from hbmodel.tables.registry.migration_phase import read_move
from hbmodel.tables.registry.read_roll import listed_since
from hbmodel.tables.registry.registration import Registration
from hbmodel.tables.registry.registry_cells import cells_of, index_state, row_state, shown
from hbmodel.tables.registry.registry_rows import INDEX_PREFIX, LAYOUT, ROWS


def parse_registration(table: str, registry: str, row: Row | None) -> Registration | None:
    """Returns the registration in a row of the registry, or None if the row registers nothing.

    Args:
        table: the registered table.
        registry: the name of the registry, for errors.
        row: the row as it is stored, or None.

    Raises:
        SchemaMismatch: the entry is damaged, or a later version wrote it.
    """
    if row is None or LAYOUT not in row.columns or not row.columns[LAYOUT].value:
        return None
    with entry_of(table, registry):
        check_layout_shape(layout := json.loads(row.columns[LAYOUT].value))
        indexes = {
            (name := column[len(INDEX_PREFIX) :].decode()): index_state(name, cell)
            for column, cell in row.columns.items()
            if column.startswith(INDEX_PREFIX) and cell.value
        }
        state = row.columns.get(ROWS)
        rows = row_state(None if state is None else state.value, indexes)
        if rows is None:
            raise ValueError("a state that this version does not know")
        since, move = 0 if state is None else state.timestamp, read_move(table, row.columns)
        return Registration(layout, shown(indexes), rows, cells_of(row), since, move, listed_since(row))
