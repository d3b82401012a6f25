"""The marks of an object that is being moved to another key: a cell in its old row, and one in its new row until the old one is gone.

Both are stored among the stamps of active writers, which no reader uses, and which no write of the object puts again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from attrs import frozen

from hbmodel.mapping.schema import COUNTER_ZERO, TableSchema
from hbmodel.store.values import Row

LEAVING, COPIED = b"\x01", b"\x02"
"""First byte of the mark in the old row, and of the one in the new row."""

_NONCE, _DIGEST = 8, 16


@frozen
class MoveMark:
    """A mark, taken apart.

    Attributes:
        kind: `LEAVING` or `COPIED`.
        nonce: of the move; 8 bytes.
        other: the row key at the other end of the move.
        digest: of the cells that were copied; nothing in the old row.
        timestamp: of the mark's cell, or -1 where it is still to be put.
    """

    kind: bytes
    nonce: bytes
    other: bytes
    digest: bytes = b""
    timestamp: int = -1

    @property
    def value(self) -> bytes:
        """The cell."""
        return self.kind + self.nonce + self.digest + self.other

    def belongs_to(self, leaving: MoveMark) -> bool:
        """Whether the row with this mark is the copy that a move has made whose mark in the old row is `leaving`."""
        return self.kind == COPIED and self.nonce == leaving.nonce


def mark_of(schema: TableSchema, row: Row | None) -> MoveMark | None:
    """The mark of a row, if it has one."""
    cell = None if row is None else row.columns.get(schema.move_column)
    if cell is None or cell.value[:1] not in {LEAVING, COPIED}:
        return None
    value, digest = cell.value, _DIGEST * (cell.value[:1] == COPIED)
    rest = 1 + _NONCE + digest
    return MoveMark(value[:1], value[1 : 1 + _NONCE], value[rest:], value[1 + _NONCE : rest], cell.timestamp)


def moved_cells(schema: TableSchema, row: Row) -> dict[bytes, bytes]:
    """What moves with an object: every cell of its row but those that say of the row itself how it was written."""
    left = {schema.liveness_column, schema.version_column, schema.row_version_column, schema.expiry_column}
    return {c: cell.value for c, cell in row.columns.items() if c not in left and not c.startswith(schema.stamp_prefix)}


def digest_of(schema: TableSchema, cells: Mapping[bytes, bytes]) -> bytes:
    """Of the cells of an object without those that say nothing: empty ones, and counters that stand at zero."""
    counters = {f.column for f in schema.columns if f.kind == "counter"}
    said = hashlib.sha256()
    for column, value in sorted(cells.items()):
        if value and not (value == COUNTER_ZERO and column in counters):
            said.update(len(column).to_bytes(4) + column + len(value).to_bytes(4) + value)
    return said.digest()[:_DIGEST]
