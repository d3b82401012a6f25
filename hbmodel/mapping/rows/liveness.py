"""Decides which rows of a table are objects of a model: by their liveness cell if they have one, otherwise by their
other cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hbmodel.mapping.schema import LIVE, TableSchema
from hbmodel.store.values import Row


def existence(schema: TableSchema, indexed: bool, adopting: bool) -> Callable[[Row], bool]:
    """A function that tells whether a row is an object. The arguments `indexed` and `adopting` have the same meaning as
    in `RowDecoder`.

    If rows need not have a liveness cell, and a row has no such cell, the other cells of the row show whether it is an
    object. A deleted row to which an update has written is then not an object, because it lacks every required column.
    In an indexed table a delete leaves empty cells, and an update may leave other cells. So if a row has a liveness
    cell, only that cell matters.

    In an external table any cell makes a row an object, unless the model names the cell that does. So a row that lacks
    a required column is not left out, but raises an error when it is decoded.
    """
    if indexed and not adopting:
        return _live(schema.liveness_column)
    liveness = schema.liveness_column if adopting else b""  # no column has this name
    if schema.exists_column is not None:
        return _flagged(liveness, schema.exists_column, schema.is_flag)
    is_system = schema.is_system
    if schema.witness is not None:
        required: Sequence[bytes] = (schema.witness,)
    else:
        required = () if schema.any_cell_shows else schema.required_columns
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


def _flagged(liveness: bytes, flag: bytes, is_flag: Callable[[bytes], bool]) -> Callable[[Row], bool]:
    def flagged(row: Row) -> bool:
        cell = row.columns.get(liveness)
        if cell is not None:
            return cell.value[:1] == LIVE
        cell = row.columns.get(flag)
        return cell is not None and is_flag(cell.value)

    return flagged
