"""Finds the cells of a row that its model does not declare, and their columns in the table to which the row moves."""

from __future__ import annotations

from hbmodel.errors import MigrationError
from hbmodel.mapping.schema import SPARE_FLAG_QUALIFIER, TableSchema
from hbmodel.store.values import Row


def undeclared_cells(source: TableSchema, target: TableSchema, row: Row) -> dict[bytes, bytes]:
    """The cells of a row that its layout does not declare, such as cells in a column of a newer program, by their
    columns in the other table.

    Cells of the family that the model declares for itself are moved to the family that the other model declares for
    itself. There, they may collide with cells of another family.

    Raises:
        MigrationError: the other table has no place for one of the cells.
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
    """What a model without map columns may write in a row, except system cells: its fields, existence flags and the
    mark of a move.
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
