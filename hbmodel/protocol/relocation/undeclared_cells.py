"""Finds the cells of a row that its model does not declare, and the columns for these cells in the other table."""

from __future__ import annotations

from hbmodel.errors import MigrationError
from hbmodel.mapping.schema import SPARE_FLAG_QUALIFIER, TableSchema
from hbmodel.store.values import Row


def undeclared_cells(source: TableSchema, target: TableSchema, row: Row) -> dict[bytes, bytes]:
    """Returns the cells of a row that its model does not declare, by their columns in the other table. For example, a
    newer program may have put such cells.

    Cells of the model's default family are moved to the default family of the other model. In that family, they may
    collide with cells that come from another family.

    Raises:
        MigrationError: one of the cells cannot be stored in the other table.
    """
    undeclared: dict[bytes, bytes] = {}
    own, theirs = _columns_of(source), _columns_of(target)
    for column, cell in row.columns.items():
        if column in own or source.is_system(column):
            continue
        family, _, qualifier = column.partition(b":")
        place = target.family + b":" + qualifier if family == source.family else column
        known = place in theirs or target.is_system(place)
        if known or place in undeclared or place.partition(b":")[0] not in target.family_names:
            raise MigrationError(
                "The row has a cell that the model does not declare, and the other table has no place for it: declare "
                "a column for it in both models, or delete the cell.",
                table=source.table,
                key=row.row,
                column=column.decode("latin-1"),
            )
        undeclared[place] = cell.value
    return undeclared


def _columns_of(schema: TableSchema) -> frozenset[bytes]:
    """Returns the columns that a model without map columns may write, without system cells: fields, existence flags and
    the mark of a move.
    """
    declared = () if schema.exists_column is None else (schema.exists_column,)
    return frozenset(
        (
            schema.family + b":" + SPARE_FLAG_QUALIFIER,
            schema.move_column,
            *declared,
            *(field.column for field in schema.columns),
        )
    )
