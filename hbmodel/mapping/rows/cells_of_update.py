"""The cells that an update puts, for new values and for entries of map columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hbmodel.mapping.map_columns import MapField
from hbmodel.mapping.rows.mapper import encode_cell
from hbmodel.mapping.schema import TableSchema


def cells_of_changes(schema: TableSchema, changes: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Returns the cells for new values, which are given by field name. The new value of a map column is a mapping of
    entries, in which the value None removes an entry.
    """
    cells: dict[bytes, bytes] = {}
    for name, value in changes.items():
        entries_of: MapField | None = schema.maps_by_name.get(name)
        if entries_of is not None:
            cells |= entries_of.cells(value)
        else:
            declared = schema.by_name[name]
            cells[declared.column] = encode_cell(schema, declared, value)
    return cells


def merged_changes(first: Mapping[str, Any], second: Mapping[str, Any], maps: Collection[str]) -> dict[str, Any]:
    """Returns the combined changes of two successive updates.

    Args:
        first: new values by field name.
        second: new values of the later update.
        maps: names of map columns, whose entries are merged.
    """
    both = {name: {**first[name], **second[name]} for name in maps if name in first and name in second}
    return {**first, **second, **both}
