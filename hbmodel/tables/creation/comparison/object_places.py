"""Finds the objects of a model in sampled rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hbmodel.mapping.schema import TableSchema
from hbmodel.store.values import Cell
from hbmodel.store.wide.wide_rows import STRANGE, Unfolding


def object_places(
    schema: TableSchema, row: bytes, cells: Mapping[bytes, Cell]
) -> Iterator[tuple[bytes, Mapping[bytes, Cell]]]:
    """Yields the key of each object of a row, with the cells of the object.

    Args:
        cells: the cells of the row, by column and in HBase's order. If these are not all cells, the last object may
            lack some.
    """
    wide = schema.wide_rows
    if wide is None:
        yield row, cells
    elif schema.row is None or row == schema.row:
        for found in Unfolding(wide).objects(row, [*cells], [*cells.values()]):
            if STRANGE not in found.columns:
                yield found.row, found.columns
