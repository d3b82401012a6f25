"""Decides which rows of a table are objects of a model: by their liveness cell if they have one, otherwise by their
other cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hbmodel.encoding.codegen import Code
from hbmodel.mapping.schema import LIVE, TableSchema
from hbmodel.store.values import Row


def existence(schema: TableSchema, indexed: bool, adopting: bool) -> Callable[[Row], bool]:
    """Returns a function that tells whether a row is an object. The arguments `indexed` and `adopting` have the same
    meaning as in `RowDecoder`.

    If rows need not have a liveness cell, and a row has no such cell, the other cells of the row show whether it is an
    object. In this case, a deleted row to which an update has written is not an object, because it lacks every required
    column. In an indexed table a delete leaves empty cells, and an update may leave other cells. So if a row has a
    liveness cell, only that cell matters.

    In an external table any cell makes a row an object, unless the model names the cell that shows this. So a row that
    lacks a required column is not left out, but raises an error when it is decoded.
    """
    code = Code("def exists(row):")
    code.add("cells = row.columns")
    code.add(f"return {existence_code(code, schema, indexed, adopting)}")
    return code.build()


def existence_code(code: Code, schema: TableSchema, indexed: bool, adopting: bool) -> str:
    """For generated code: the condition under which the variable `cells` contains the cells of an object; see
    `existence`.
    """
    cell = code.variable()
    found = f"({cell} := cells.get({code.name(schema.liveness_column)}))"
    live = f"{cell}.value[:1] == {code.name(LIVE)}"
    if indexed and not adopting:
        return f"{found} is not None and {live}"
    shown = _shown_by_others(code, schema)
    return f"({shown} if {found} is None else {live})" if adopting else shown


def _shown_by_others(code: Code, schema: TableSchema) -> str:
    """Returns the condition under which the cells of a row without a liveness cell show that it is an object."""
    if schema.exists_column is not None:
        flag = code.variable()
        return (
            f"(({flag} := cells.get({code.name(schema.exists_column)})) is not None and "
            f"{code.name(schema.is_flag)}({flag}.value))"
        )
    if schema.witness is not None:
        return f"{code.name(schema.witness)} in cells"
    required: Sequence[bytes] = () if schema.any_cell_shows else schema.required_columns
    if not required:
        return f"not all(map({code.name(schema.is_system)}, cells))"
    first = f"{code.name(required[0])} in cells"
    if len(required) == 1:
        return first
    return f"({first} or not cells.keys().isdisjoint({code.name(required)}))"
