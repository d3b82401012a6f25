"""Writing rows of an embedded store: puts and tombstones merged into the stored segments of one row at a time."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Sequence

from hbmodel.store.embedded.cells import Cells, StoredCell, decode_cells, earliest_end, encode_segments, masked, with_version
from hbmodel.store.embedded.descriptor import TableDescriptor
from hbmodel.store.ranges import KeyRange, prefix_successor
from hbmodel.store.values import Delete, Put

_UPSERT = "INSERT OR REPLACE INTO segments (table_id, row, first, ends, cells) VALUES (?, ?, ?, ?, ?)"
REMOVE = "DELETE FROM segments WHERE table_id = ? AND row = ? AND first = ?"
_BURY = (
    "INSERT INTO tombstones (table_id, row, target, timestamp) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET timestamp = max(timestamp, excluded.timestamp)"
)
_FORGET = "DELETE FROM tombstones WHERE table_id = ? AND row = ? AND target >= ? AND target < ? AND timestamp <= ?"

# A row with more tombstones than this has them looked up one by one.
_TOMBSTONES_READ = 64


class _Segment:
    """The cells of one segment while they change."""

    __slots__ = ("cells", "changed", "ends", "first", "grown", "mortal")

    def __init__(self, first: bytes, ends: int | None, cells: Cells) -> None:
        self.first = first
        self.ends = ends
        self.cells = cells
        # Whether anything changed; whether columns were added, which must be sorted in; whether a put's own TTL may be among them.
        self.changed = self.grown = False
        self.mortal = ends is not None


class _Tombstones:
    """The tombstones of one row."""

    def __init__(self, connection: sqlite3.Connection, table_id: int, row: bytes, present: bool) -> None:
        self._connection = connection
        self._key = (table_id, row)
        self._complete = True
        self._known: dict[bytes, int | None] = {}
        if present:
            found = connection.execute(
                f"SELECT target, timestamp FROM tombstones WHERE table_id = ? AND row = ? LIMIT {_TOMBSTONES_READ}", self._key
            ).fetchall()
            self._known.update(found)
            self._complete = len(found) < _TOMBSTONES_READ

    @property
    def none(self) -> bool:
        """Whether the row has none at all."""
        return self._complete and not self._known

    def of(self, target: bytes) -> int:
        """Up to which time cells of a family or column are deleted; -1 if there is no tombstone."""
        if target not in self._known and not self._complete:
            found = self._connection.execute(
                "SELECT timestamp FROM tombstones WHERE table_id = ? AND row = ? AND target = ?", (*self._key, target)
            ).fetchone()
            self._known[target] = None if found is None else found[0]
        timestamp = self._known.get(target)
        return -1 if timestamp is None else timestamp

    def add(self, target: bytes, timestamp: int) -> None:
        """Adds one; of several on one target the latest counts."""
        self._connection.execute(_BURY, (*self._key, target, timestamp))
        self._known[target] = max(timestamp, self.of(target))
        if b":" not in target:
            # A family's tombstone makes those of its columns up to its time pointless.
            self._connection.execute(_FORGET, (*self._key, target + b":", target + b";", timestamp))


class RowWriter:
    """One row while it is changed; `flush` writes it back.

    Args:
        connection: in a writing transaction.
        table_id: the table.
        layout: of the table.
        row: the row key.
        tombstones: whether the table has any tombstone.
    """

    def __init__(self, connection: sqlite3.Connection, table_id: int, layout: TableDescriptor, row: bytes, *, tombstones: bool) -> None:
        self._connection = connection
        self._table_id = table_id
        self._layout = layout
        self._row = row
        self._tombstones = _Tombstones(connection, table_id, row, tombstones)
        found = connection.execute(
            "SELECT first, ends, cells FROM segments WHERE table_id = ? AND row = ? ORDER BY first LIMIT 2", (table_id, row)
        ).fetchall()
        self._loaded = {first: _Segment(first, ends, decode_cells(data)) for first, ends, data in found}
        # The lower bounds of all segments, sorted; those of a wide row are loaded when they are needed.
        self._firsts = [first for first, _, _ in found]
        if len(found) == 2:
            statement = "SELECT first FROM segments WHERE table_id = ? AND row = ? ORDER BY first"
            self._firsts = [first for (first,) in connection.execute(statement, (table_id, row))]

    def chain(self, column: bytes) -> StoredCell | None:
        """The stored versions of a column, dead ones possibly among them."""
        place = bisect_right(self._firsts, column) - 1
        return None if place < 0 else self._segment(self._firsts[place]).cells.get(column)

    def apply(self, mutation: Put | Delete, now: int, put_time: int) -> None:
        """Applies one mutation.

        Args:
            mutation: of this row; its families exist.
            now: the server's time in ms, for deletes without a timestamp.
            put_time: the same for puts.
        """
        if isinstance(mutation, Put):
            self._put(mutation, put_time if mutation.timestamp is None else mutation.timestamp)
        else:
            self._delete(mutation, now if mutation.timestamp is None else mutation.timestamp)

    def _put(self, put: Put, timestamp: int) -> None:
        tombstones, ttl, versions = self._tombstones, put.ttl, self._layout.versions
        buried = not tombstones.none
        whole = self._segment_for(b"") if self._firsts in ([], [b""]) else None
        for column, value in put.cells.items():
            family = column[: column.index(b":")]
            if buried and (timestamp <= tombstones.of(family) or timestamp <= tombstones.of(column)):
                continue  # hidden by an earlier tombstone for good: a compaction drops it with the tombstone
            segment = whole or self._segment_for(column)
            cells = segment.cells
            before = cells.get(column)
            cells[column] = with_version(before, value, timestamp, ttl, versions[family])
            segment.changed = True
            if before is None:
                segment.grown = True
            if ttl is not None:
                segment.mortal = True

    def _delete(self, delete: Delete, timestamp: int) -> None:
        families: Sequence[bytes] = delete.families
        if not families and not delete.columns:
            families = [family.name for family in self._layout.families]
        for family in families:
            self._tombstones.add(family, timestamp)
            prefix = family + b":"
            covered = KeyRange(prefix, prefix_successor(prefix))
            for place, first in enumerate(self._firsts):
                stop = self._firsts[place + 1] if place + 1 < len(self._firsts) else None
                if covered.intersect(KeyRange(first, stop)).empty:
                    continue
                segment = self._segment(first)
                for column in [column for column in segment.cells if column.startswith(prefix)]:
                    _mask(segment, column, timestamp)
        for column in delete.columns:
            self._tombstones.add(column, timestamp)
            place = bisect_right(self._firsts, column) - 1
            if place >= 0:
                _mask(self._segment(self._firsts[place]), column, timestamp)

    def _segment(self, first: bytes) -> _Segment:
        segment = self._loaded.get(first)
        if segment is None:
            ends, data = self._connection.execute(
                "SELECT ends, cells FROM segments WHERE table_id = ? AND row = ? AND first = ?", (self._table_id, self._row, first)
            ).fetchone()
            segment = self._loaded[first] = _Segment(first, ends, decode_cells(data))
        return segment

    def _segment_for(self, column: bytes) -> _Segment:
        place = bisect_right(self._firsts, column) - 1
        if place >= 0:
            return self._segment(self._firsts[place])
        self._firsts.insert(0, b"")
        segment = self._loaded[b""] = _Segment(b"", None, {})
        return segment

    def flush(self) -> list[tuple[int, bytes, bytes, int | None, bytes]]:
        """Removes emptied segments and answers the changed ones, for `store_segments`."""
        records = []
        for segment in self._loaded.values():
            if not segment.changed:
                continue
            if not segment.cells:
                self._connection.execute(REMOVE, (self._table_id, self._row, segment.first))
                continue
            cells = dict(sorted(segment.cells.items())) if segment.grown else segment.cells
            for first, piece, data in encode_segments(segment.first, cells):
                ends = earliest_end(piece) if segment.mortal else None
                records.append((self._table_id, self._row, first, ends, data))
        return records


def _mask(segment: _Segment, column: bytes, tombstone: int) -> None:
    before = segment.cells.get(column)
    if before is None:
        return
    after = masked(before, tombstone)
    if after is before:
        return
    segment.changed = True
    if after is None:
        del segment.cells[column]
    else:
        segment.cells[column] = after


def store_segments(connection: sqlite3.Connection, records: Sequence[tuple[int, bytes, bytes, int | None, bytes]]) -> None:
    """Writes what `RowWriter.flush` answered."""
    connection.executemany(_UPSERT, records)


def has_tombstones(connection: sqlite3.Connection, table_id: int) -> bool:
    """Whether any row of the table has a tombstone."""
    return connection.execute("SELECT 1 FROM tombstones WHERE table_id = ? LIMIT 1", (table_id,)).fetchone() is not None
