"""The marks of an object that is being moved to another key: a cell in its old row, and a cell in its new row.

The mark in the new row remains until the old row is deleted. Both marks are stored among the stamps of active writers,
which readers ignore. Only an update that puts the whole row again also puts the marks again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from attrs import evolve, frozen

from hbmodel.mapping.schema import COUNTER_ZERO, TableSchema
from hbmodel.mapping.version_cell import LAST_WRITE_WINS, NONCE_LENGTH
from hbmodel.protocol.indexed.indexed_plan import DEAD
from hbmodel.store.values import Row

LEAVING, COPIED = b"\x01", b"\x02"
"""The first byte of the mark in the old row, and of the mark in the new row."""

_NONCE, _DIGEST = 8, 16
_MARKER, _VERSION = len(DEAD) + 8, len(LAST_WRITE_WINS) + NONCE_LENGTH


@frozen
class MoveMark:
    """A parsed mark.

    Attributes:
        kind: `LEAVING` or `COPIED`.
        nonce: the nonce of the move, 8 bytes. The last byte counts how often the mark in the old row was renewed.
        other: the row key at the other end of the move.
        digest: the digest of the cells that were copied; empty for the mark in the old row.
        timestamp: the timestamp of the mark's cell, or -1 if it has not been put yet.
    """

    kind: bytes
    nonce: bytes
    other: bytes
    digest: bytes = b""
    timestamp: int = -1

    @property
    def value(self) -> bytes:
        """The value of the cell."""
        return self.kind + self.nonce + self.digest + self.other

    def renewals(self, leaving: MoveMark) -> int | None:
        """Returns the number of times that the mark in the old row was renewed since the copy with this mark was made.
        Returns None if this is not the mark of a copy that belongs to that move.

        The number is negative if the copy was made after the old row was read.
        """
        if self.kind != COPIED or self.nonce[:-1] != leaving.nonce[:-1]:
            return None
        return (leaving.nonce[-1] - self.nonce[-1] + 128) % 256 - 128

    def renewed(self) -> MoveMark:
        """Returns the mark that replaces this mark in the old row. This is done before an outdated copy is deleted, so
        that the object can be copied again.
        """
        return evolve(self, nonce=self.nonce[:-1] + bytes([(self.nonce[-1] + 1) % 256]))


def mark_of(schema: TableSchema, row: Row | None) -> MoveMark | None:
    """Returns the mark of a row, or None if it has no mark."""
    cell = None if row is None else row.columns.get(schema.move_column)
    if cell is None or cell.value[:1] not in {LEAVING, COPIED}:
        return None
    value, digest = cell.value, _DIGEST * (cell.value[:1] == COPIED)
    rest = 1 + _NONCE + digest
    return MoveMark(value[:1], value[1 : 1 + _NONCE], value[rest:], value[1 + _NONCE : rest], cell.timestamp)


def marked_as_moved(marker: bytes, version: bytes) -> bytes:
    """Returns the liveness cell of a dead row whose object is under another key.

    The cell shows the version that the object had, so that an insert whose answer was lost does not put the object
    again.

    Args:
        marker: the liveness cell of a row that was deleted.
        version: the version cell of the object.
    """
    return marker + version


def moved_version(marker: bytes) -> bytes | None:
    """Returns the version cell of the object that was moved away from a row, or None. See `marked_as_moved`."""
    return marker[_MARKER:] if len(marker) == _MARKER + _VERSION and marker.startswith(DEAD) else None


def moved_cells(schema: TableSchema, row: Row) -> dict[bytes, bytes]:
    """Returns the cells that move with an object: all cells of its row, except those that record how that row itself
    was written.
    """
    left = {schema.liveness_column, schema.version_column, schema.row_version_column, schema.expiry_column}
    return {c: cell.value for c, cell in row.columns.items() if c not in left and not c.startswith(schema.stamp_prefix)}


def digest_of(schema: TableSchema, cells: Mapping[bytes, bytes]) -> bytes:
    """Returns the digest of an object's cells; empty cells and counters at zero are left out."""
    counters = {f.column for f in schema.columns if f.kind == "counter"}
    said = hashlib.sha256()
    for column, value in sorted(cells.items()):
        if value and not (value == COUNTER_ZERO and column in counters):
            said.update(len(column).to_bytes(4) + column + len(value).to_bytes(4) + value)
    return said.digest()[:_DIGEST]
