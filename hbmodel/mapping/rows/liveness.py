"""Tells which rows of a table are objects of a model: by their liveness cell if they have one, otherwise by their other
cells.
"""

from __future__ import annotations

from collections.abc import Callable

from hbmodel.mapping.schema import FLAG, LIVE, TableSchema
from hbmodel.store.values import Row


def existence(schema: TableSchema, indexed: bool, adopting: bool) -> Callable[[Row], bool]:
    """The function that tells whether a row is an object; `indexed` and `adopting` are those of `RowDecoder`.

    If rows need not have a liveness cell, and a row has none, its other cells decide. A deleted row to which an update
    has written is then not an object, because it lacks every required column. In an indexed table a delete leaves empty
    cells, and an update may leave other cells. So if a row has a liveness cell, only that cell decides.
    """
    if indexed and not adopting:
        return _live(schema.liveness_column)
    liveness = schema.liveness_column if adopting else b""  # no column has this name
    if schema.exists_column is not None:
        return _flagged(liveness, schema.exists_column)
    required, is_system = schema.required_columns, schema.is_system
    if not required:

        def any_cell(row: Row) -> bool:
            cell = row.columns.get(liveness)
            return not all(map(is_system, row.columns)) if cell is None else cell.value[:1] == LIVE

        return any_cell
    first = required[0]

    def whole(row: Row) -> bool:
        columns = row.columns
        cell = columns.get(liveness)
        if cell is not None:
            return cell.value[:1] == LIVE
        return first in columns or not columns.keys().isdisjoint(required)

    return whole


def _live(liveness: bytes) -> Callable[[Row], bool]:
    def live(row: Row) -> bool:
        cell = row.columns.get(liveness)
        return cell is not None and cell.value[:1] == LIVE

    return live


def _flagged(liveness: bytes, flag: bytes) -> Callable[[Row], bool]:
    def flagged(row: Row) -> bool:
        cell = row.columns.get(liveness)
        if cell is not None:
            return cell.value[:1] == LIVE
        cell = row.columns.get(flag)
        return cell is not None and cell.value == FLAG

    return flagged
