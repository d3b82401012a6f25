"""Writes rows of an embedded store, by merging puts and tombstones into the stored segments of one row at a time."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence

from attrs import evolve

from hbmodel.store.embedded.cells import (
    Cells,
    StoredCell,
    decode_cells,
    earliest_end,
    encode_segments,
    has_version_of,
    masked,
    with_version,
)
from hbmodel.store.embedded.descriptor import TableDescriptor
from hbmodel.store.embedded.segments import RowSegments, Segment
from hbmodel.store.ranges import KeyRange, prefix_successor
from hbmodel.store.values import Delete, Put

_UPSERT = "INSERT OR REPLACE INTO segments (table_id, row, first, ends, cells) VALUES (?, ?, ?, ?, ?)"
REMOVE = "DELETE FROM segments WHERE table_id = ? AND row = ? AND first = ?"
_BURY = (
    "INSERT INTO tombstones (table_id, row, target, timestamp) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET timestamp = max(timestamp, excluded.timestamp)"
)
_FORGET = "DELETE FROM tombstones WHERE table_id = ? AND row = ? AND target >= ? AND target < ? AND timestamp <= ?"

# If a row has more tombstones than this, they are looked up one by one.
_TOMBSTONES_READ = 64


class _Segment:
    """The cells of a segment that is being changed: the columns from `first` up to `stop`, or to the end of the row."""

    __slots__ = ("cells", "changed", "first", "grown", "mortal", "stop")

    def __init__(self, first: bytes, stop: bytes | None, ends: int | None, cells: Cells) -> None:
        self.first = first
        self.stop = stop
        self.cells = cells
        # `changed`: whether any cell has changed. `grown`: whether columns were added, so that the cells must be
        # sorted. `mortal`: whether a cell may have been put with a TTL.
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
            records = connection.execute(
                f"SELECT target, timestamp FROM tombstones WHERE table_id = ? AND row = ? LIMIT {_TOMBSTONES_READ}",
                self._key,
            ).fetchall()
            self._known.update(records)
            self._complete = len(records) < _TOMBSTONES_READ

    @property
    def none(self) -> bool:
        """Whether the row has no tombstones."""
        return self._complete and not self._known

    def of(self, target: bytes) -> int:
        """Returns the time up to which cells of a family or column are deleted, or -1 if there is no tombstone."""
        if target not in self._known and not self._complete:
            record = self._connection.execute(
                "SELECT timestamp FROM tombstones WHERE table_id = ? AND row = ? AND target = ?", (*self._key, target)
            ).fetchone()
            self._known[target] = None if record is None else record[0]
        timestamp = self._known.get(target)
        return -1 if timestamp is None else timestamp

    def add(self, target: bytes, timestamp: int) -> None:
        """Adds a tombstone. If a target has several tombstones, the one with the latest time is used."""
        self._connection.execute(_BURY, (*self._key, target, timestamp))
        self._known[target] = max(timestamp, self.of(target))
        if b":" not in target:
            # The tombstone of a family makes the tombstones of its columns up to the same time superfluous.
            self._connection.execute(_FORGET, (*self._key, target + b":", target + b";", timestamp))


class RowWriter:
    """A row that is being changed in a write transaction. `flush` returns the changed segments.

    Args:
        tombstones: whether the table has any tombstones.
    """

    def __init__(
        self, connection: sqlite3.Connection, table_id: int, layout: TableDescriptor, row: bytes, *, tombstones: bool
    ) -> None:
        self._connection = connection
        self._table_id = table_id
        self._layout = layout
        self.row = row
        self._tombstones = _Tombstones(connection, table_id, row, tombstones)
        # The segments in use, by their lower bounds, and the sorted bounds. No other segments of a wide row are read.
        self._loaded: dict[bytes, _Segment] = {}
        self._firsts: list[bytes] = []
        records = connection.execute(
            "SELECT first, ends, cells FROM segments WHERE table_id = ? AND row = ? ORDER BY first LIMIT 2",
            (table_id, row),
        ).fetchall()
        self._stored = RowSegments(connection, table_id, row) if len(records) == 2 else None
        if len(records) == 1:
            [(first, ends, data)] = records
            self._add(_Segment(first, None, ends, decode_cells(data)))

    def chain(self, column: bytes) -> StoredCell | None:
        """Returns the stored versions of a column, possibly including dead ones."""
        segment = self._segment(column)
        return None if segment is None else segment.cells.get(column)

    def would_replace(self, mutation: Put | Delete, now: int) -> bool:
        """Returns whether a put at the server's time would replace a version with the timestamp `now`, in a family that
        keeps several versions.
        """
        if not isinstance(mutation, Put) or mutation.timestamp is not None:
            return False
        versions = self._layout.versions
        versioned = [column for column in mutation.cells if versions[column[: column.index(b":")]] > 1]
        return any(has_version_of(self.chain(column), now) for column in versioned)

    def apply(self, mutation: Put | Delete, now: int, put_time: int) -> None:
        """Applies one mutation.

        Args:
            mutation: a mutation of this row, with families that exist.
            now: the server's time in ms, for deletes without a timestamp.
            put_time: the time in ms for puts without a timestamp.
        """
        if isinstance(mutation, Put):
            self._put(mutation, put_time if mutation.timestamp is None else mutation.timestamp)
        else:
            self._delete(mutation, now if mutation.timestamp is None else mutation.timestamp)

    def _put(self, put: Put, timestamp: int) -> None:
        tombstones, ttl, versions = self._tombstones, put.ttl, self._layout.versions
        buried = not tombstones.none
        whole = self._segment_for(b"") if self._stored is None and self._firsts in ([], [b""]) else None
        for column, value in put.cells.items():
            family = column[: column.index(b":")]
            if buried and (timestamp <= tombstones.of(family) or timestamp <= tombstones.of(column)):
                continue  # an earlier tombstone hides this put permanently, because a compaction drops both together
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
            for segment in self._overlapping(covered):
                for column in [column for column in segment.cells if column.startswith(prefix)]:
                    _mask(segment, column, timestamp)
        for column in delete.columns:
            self._tombstones.add(column, timestamp)
            stored_segment = self._segment(column)
            if stored_segment is not None:
                _mask(stored_segment, column, timestamp)

    def _segment(self, column: bytes) -> _Segment | None:
        """Returns the segment whose range contains a column, or None if the column is below the first segment."""
        place = bisect_right(self._firsts, column) - 1
        if place >= 0:
            segment = self._loaded[self._firsts[place]]
            if segment.stop is None or column < segment.stop:
                return segment
        stored = None if self._stored is None else self._stored.holding(column)
        return None if stored is None else self._load(stored)

    def _segment_for(self, column: bytes) -> _Segment:
        segment = self._segment(column)
        if segment is None:
            lowest = self._firsts[0] if self._stored is None and self._firsts else None
            stop = lowest if self._stored is None else self._stored.next_bound(b"")
            segment = _Segment(b"", stop, None, {})
            self._add(segment)
        return segment

    def _overlapping(self, columns: KeyRange) -> list[_Segment]:
        """Returns all segments that may have cells in a range of columns."""
        if self._stored is not None:
            stored = self._stored.holding(columns.start)
            for bound in self._stored.bounds_from(columns.start if stored is None else stored.first):
                if (columns.stop is None or bound < columns.stop) and bound not in self._loaded:
                    segment = self._stored.holding(bound)
                    assert segment is not None
                    self._load(segment)
        return [
            segment
            for segment in self._loaded.values()
            if not columns.intersect(KeyRange(segment.first, segment.stop)).empty
        ]

    def _load(self, stored: Segment) -> _Segment:
        assert self._stored is not None
        segment = _Segment(stored.first, self._stored.next_bound(stored.first), stored.ends, dict(stored.cells))
        self._add(segment)
        return segment

    def _add(self, segment: _Segment) -> None:
        insort(self._firsts, segment.first)
        self._loaded[segment.first] = segment

    def flush(self, segment_size: int) -> list[tuple[int, bytes, bytes, int | None, bytes]]:
        """Deletes segments that have become empty, and returns the changed segments for `store_segments`.

        Args:
            segment_size: the number of bytes above which an encoded segment is cut.
        """
        records = []
        for segment in self._loaded.values():
            if not segment.changed:
                continue
            if not segment.cells:
                self._connection.execute(REMOVE, (self._table_id, self.row, segment.first))
                continue
            cells = dict(sorted(segment.cells.items())) if segment.grown else segment.cells
            for first, piece, data in encode_segments(segment.first, cells, segment_size):
                ends = earliest_end(piece) if segment.mortal else None
                records.append((self._table_id, self.row, first, ends, data))
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


def without_replaced(mutations: Sequence[Put | Delete], put_time: int) -> Iterator[Put | Delete]:
    """Yields the mutations of an atomic change, without cells that a later put of the same change replaces because it
    has the same timestamp.

    In HBase, the two cells have the same sequence number, so the later cell replaces the earlier one permanently. The
    earlier cell does not become visible again when the TTL of the later one ends.
    """

    def cell(put: Put, column: bytes) -> tuple[bytes, int]:
        return column, put_time if put.timestamp is None else put.timestamp

    puts = [mutation for mutation in mutations if isinstance(mutation, Put)]
    last = {cell(put, column): number for number, put in enumerate(puts) for column in put.cells}
    numbers = iter(range(len(puts)))
    for mutation in mutations:
        if isinstance(mutation, Put):
            number = next(numbers)
            yield evolve(
                mutation, cells={c: value for c, value in mutation.cells.items() if last[cell(mutation, c)] == number}
            )
        else:
            yield mutation


def store_segments(
    connection: sqlite3.Connection, records: Sequence[tuple[int, bytes, bytes, int | None, bytes]]
) -> None:
    """Writes the segments that `RowWriter.flush` returned."""
    connection.executemany(_UPSERT, records)


def has_tombstones(connection: sqlite3.Connection, table_id: int) -> bool:
    """Returns whether any row of the table has tombstones."""
    return connection.execute("SELECT 1 FROM tombstones WHERE table_id = ? LIMIT 1", (table_id,)).fetchone() is not None
