"""The registry's record of a migration between two tables, which is one cell in the row of each table.

`m:move` in the row of the old table contains the phase (see `protocol.relocation.migration`) and the new table. It is
changed by check-and-put. While programs must not use the new table without the old one, `m:from` in the row of the new
table contains the old table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import frozen

from hbmodel.errors import SchemaMismatch, StoreError
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.relocation.migration_phases import BEFORE, DONE, PHASES, VERSIONED_PHASES
from hbmodel.store.values import Cell

MOVE = b"m:move"
FROM = b"m:from"


@frozen
class TableMove:
    """The progress of the move of a table's objects.

    Attributes:
        phase: one of `PHASES`, or of `VERSIONED_PHASES`.
        to: the new table.
        since: when the phase was written to the registry, in ms by its server's clock.
        offline: whether programs are refused during the migration.
    """

    phase: str
    to: str
    since: int = 0
    offline: bool = False


def read_move(table: str, columns: Mapping[bytes, Cell]) -> TableMove | None:
    """Returns the progress of the migration of a table's objects, read from the registry's row, or None if the objects
    are not being moved. Raises `StoreError` for a phase that this version does not support.
    """
    cell = columns.get(MOVE)
    if cell is None or not cell.value:
        return None
    fields = json.loads(cell.value)
    if fields["phase"] not in PHASES and fields["phase"] not in VERSIONED_PHASES:
        raise StoreError(
            "The objects of the table are being moved in a phase that this version of hbmodel does not know: "
            "update hbmodel.",
            table=table,
        )
    return TableMove(fields["phase"], str(fields["to"]), cell.timestamp, bool(fields.get("offline")))


def check_moves(schema: TableSchema, move: TableMove | None, cells: Mapping[bytes, bytes]) -> str:
    """Returns the phase of the migration of a model's table, or `BEFORE` if its objects are not being moved.

    Raises:
        SchemaMismatch: objects move into or out of the table, and the models do not declare this with `replaces=`.
    """
    if cells.get(FROM) and schema.replaces is None:
        raise SchemaMismatch(
            "Objects are being moved into this table: until the migration is over, declare its model with "
            "@hb.model(replaces=...).",
            table=schema.table,
            replaces=cells[FROM].decode(errors="replace"),
        )
    if move is None or move.phase == BEFORE:
        return BEFORE
    if not schema.successor:
        moved = "have moved" if move.phase == DONE else "are being moved"
        raise SchemaMismatch(
            f"The objects of this table {moved} to another one: use the model of that table, with "
            "@hb.model(replaces=...).",
            table=schema.table,
            to=move.to,
            phase=move.phase,
        )
    if schema.successor != move.to:
        raise SchemaMismatch(
            "The objects of this table are being moved, but not to the table that the model names: use the model of "
            "the other table.",
            table=schema.table,
            to=move.to,
        )
    return move.phase
