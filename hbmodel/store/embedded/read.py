"""Reading rows of an embedded store: multi-get, and scans in short transactions that continue behind the last row."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Sequence

from attrs import define, field, frozen

from hbmodel.store.checks.reads import distinct_columns
from hbmodel.store.embedded.cells import Cells, StoredRow, decode_cells, visible
from hbmodel.store.embedded.descriptor import TableDescriptor
from hbmodel.store.embedded.row_filter import RowFilter
from hbmodel.store.embedded.segments import RowSegments
from hbmodel.store.ranges import KeyRange, prefix_successor
from hbmodel.store.values import Scan

_EXAMINED_ROWS = 2048
_EXAMINED_BYTES = 4 * 1024 * 1024

# Numbers of rows that one statement asks for: few, so that SQLite's compiled statements are used again.
_GET_SIZES = (1, 16, 256)


@frozen
class Projection:
    """The columns that a read asks for: some columns and some whole families; neither means everything.

    Attributes:
        columns: sorted as HBase does.
        prefixes: `family:` of each whole family.
    """

    columns: tuple[bytes, ...] = ()
    prefixes: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, layout: TableDescriptor, table: str, columns: Sequence[bytes]) -> Projection:
        """Checks the columns of a read; those of a family that is asked for as a whole add nothing.

        Raises:
            FamilyNotFound: the table has no such family.
        """
        for column in columns:
            layout.family_of(table, column)
        wanted = sorted(distinct_columns(columns), key=lambda column: column.partition(b":"))
        return cls(tuple(column for column in wanted if b":" in column), tuple(column + b":" for column in wanted if b":" not in column))

    @property
    def only_columns(self) -> bool:
        """Whether single columns are asked for, and no family."""
        return bool(self.columns) and not self.prefixes

    @property
    def only_family(self) -> bytes | None:
        """The family of all that is asked for, None where there are several."""
        families = {column.partition(b":")[0] for column in (*self.columns, *self.prefixes)}
        return families.pop() if len(families) == 1 else None

    @property
    def bounds(self) -> KeyRange:
        """A range of columns that has all those asked for."""
        ranges = [KeyRange.prefix(prefix) for prefix in self.prefixes] + [KeyRange.exactly(column) for column in self.columns]
        if not ranges:
            return KeyRange()
        stops = [found.stop for found in ranges if found.stop is not None]
        return KeyRange(min(found.start for found in ranges), max(stops) if len(stops) == len(ranges) else None)

    def select(self, cells: Cells) -> Cells:
        """The cells that are asked for, in their order."""
        if self.prefixes:
            columns, prefixes = self.columns, self.prefixes
            return {column: cell for column, cell in cells.items() if column.startswith(prefixes) or column in columns}
        if self.columns:
            return {column: cells[column] for column in self.columns if column in cells}
        return cells


class RowReader:
    """Turns the segments of a row into what a read shows of it.

    Args:
        layout: of the table.
        projection: the columns asked for.
        filter: the read's, or None.
        now: the server's time in ms.
    """

    def __init__(self, layout: TableDescriptor, projection: Projection, filter: RowFilter | None, now: int) -> None:
        self._layout = layout
        self._projection = projection
        self._everything = not projection.columns and not projection.prefixes
        self._filter = filter
        self._now = now
        self._oldest = {prefix[:-1]: now - layout.lives.get(prefix[:-1], now) for prefix in layout.prefixes} if layout.lives else None

    def row(self, row: bytes, ends: int | None, data: bytes) -> StoredRow | None:
        """A row of one segment as the read shows it, or None if nothing of it is to be seen."""
        filter = self._filter
        if filter is not None and filter.rejects(row):
            return None
        cells = self._shown(decode_cells(data), ends)
        if not self._layout.plain_order:
            cells = self._layout.ordered(cells)
        if filter is not None:
            cells = filter.kept(cells)
        return StoredRow(row, cells) if cells else None

    def wide_row(self, row: bytes, segments: RowSegments) -> StoredRow | None:
        """The same for a row that may have many segments, of which no more are read than the read needs."""
        filter = self._filter
        if filter is None:
            cells = self._named(segments) if self._projection.only_columns else self._all(segments, self._projection.bounds)
            return StoredRow(row, self._layout.ordered(cells)) if cells else None
        if filter.rejects(row):
            return None
        family = self._projection.only_family or (self._layout.families[0].name if len(self._layout.families) == 1 else None)
        if family is None:
            cells = filter.kept(self._layout.ordered(self._all(segments, self._projection.bounds)))
        else:
            prefix = family + b":"
            seen = filter.seen
            stop = prefix_successor(prefix) if seen.stop is None else prefix + seen.stop
            parts = _Parts(self, segments, self._projection.bounds.intersect(KeyRange(prefix + seen.start, stop)))
            cells = filter.kept_of_family(family, lambda qualifier: parts.next(prefix + qualifier))
        return StoredRow(row, cells) if cells else None

    def _named(self, segments: RowSegments) -> Cells:
        """The columns of the projection, by the segments that hold them."""
        found: Cells = {}
        for column in sorted(self._projection.columns):
            segment = segments.holding(column)
            if segment is not None and (cell := segment.cells.get(column)) is not None:
                found.update(self._alive_of({column: cell}, segment.ends))
        return found

    def _all(self, segments: RowSegments, bounds: KeyRange) -> Cells:
        parts = _Parts(self, segments, bounds)
        cells: Cells = {}
        while (part := parts.next()) is not None:
            cells.update(part)
        return cells

    def _shown(self, cells: Cells, ends: int | None) -> Cells:
        """The cells of one segment that are alive and asked for."""
        cells = self._alive_of(cells, ends)
        return cells if self._everything else self._projection.select(cells)

    def _alive_of(self, cells: Cells, ends: int | None) -> Cells:
        return self._alive(cells) if self._oldest is not None or (ends is not None and ends < self._now) else cells

    def _alive(self, cells: Cells) -> Cells:
        now, oldest = self._now, self._oldest
        alive: Cells = {}
        for column, chain in cells.items():
            cell = visible(chain, now, 0 if oldest is None else oldest[column[: column.index(b":")]])
            if cell is not None:
                alive[column] = cell
        return alive


class _Parts:
    """What a read shows of the segments of a row, one after the other within some bounds."""

    def __init__(self, reader: RowReader, segments: RowSegments, bounds: KeyRange) -> None:
        self._reader = reader
        self._segments = segments
        self._bounds = bounds
        self._last: bytes | None = None

    def next(self, column: bytes = b"") -> Cells | None:
        """The next segment, or a later one that holds `column`; None where no more of them are within the bounds."""
        bounds, last = self._bounds, self._last
        if bounds.empty:
            return None
        segment = self._segments.holding(max(bounds.start, column)) if last is None or column else None
        if segment is None or (last is not None and segment.first <= last):
            segment = self._segments.behind(b"" if last is None else last)
        if segment is None or (bounds.stop is not None and segment.first >= bounds.stop):
            return None
        self._last = segment.first
        return self._reader._shown(segment.cells, segment.ends)


def read_rows(connection: sqlite3.Connection, table_id: int, rows: Sequence[bytes], reader: RowReader) -> dict[bytes, StoredRow]:
    """Reads single rows, each given once; those that show nothing are left out."""
    found: dict[bytes, StoredRow] = {}
    rest = list(rows)
    while rest:
        size = next((size for size in _GET_SIZES if len(rest) <= size), _GET_SIZES[-1])
        asked, rest = rest[:size], rest[size:]
        # A repeated row fills the statement up; it does not come twice.
        values = asked + asked[-1:] * (size - len(asked))
        statement = (
            f"SELECT row, first, ends, cells FROM segments WHERE table_id = ? AND row IN ({','.join('?' * size)}) ORDER BY row, first"
        )
        cursor = connection.execute(statement, (table_id, *values))
        for row, ends, data, wide in _by_row(cursor):
            if wide:  # not one segment after the other: the rows behind it are asked for once more
                cursor.close()
                stored = reader.wide_row(row, RowSegments(connection, table_id, row))
                rest += [other for other in asked if other > row]
            else:
                stored = reader.row(row, ends, data)
            if stored is not None:
                found[row] = stored
            if wide:
                break
    return found


def read_each(connection: sqlite3.Connection, table_id: int, row: bytes, readers: Sequence[RowReader]) -> list[StoredRow | None]:
    """Reads one row in several ways; they are quickest in the order of what they read."""
    segments = RowSegments(connection, table_id, row)
    return [reader.wide_row(row, segments) for reader in readers]


def _by_row(records: Iterator[tuple[bytes, bytes, int | None, bytes]]) -> Iterator[tuple[bytes, int | None, bytes, bool]]:
    """The first segment of each row, and whether it has more; whoever is told so must not go on."""
    record = next(records, None)
    while record is not None:
        row, _, ends, data = record
        record = next(records, None)
        yield row, ends, data, record is not None and record[0] == row


@define
class ScanPosition:
    """How far a scan has come.

    Attributes:
        range: what is still to be read; None when nothing is.
        remaining: rows still to be given out, or None for all.
    """

    range: KeyRange | None
    remaining: int | None = field(default=None)


def scan_batch(connection: sqlite3.Connection, table_id: int, scan: Scan, reader: RowReader, position: ScanPosition) -> list[StoredRow]:
    """Reads on from a position, which it moves, until a batch is full or enough was looked at for one short transaction."""
    most = scan.batch_size if position.remaining is None else min(scan.batch_size, position.remaining)
    examined = max(_EXAMINED_ROWS, scan.batch_size)
    batch: list[StoredRow] = []
    size = 0
    found = _rows(connection, table_id, position.range, scan.reversed, reader)
    try:
        for row, stored, read in found:
            if stored is not None:
                batch.append(stored)
            examined -= 1
            size += read
            if len(batch) >= most or examined <= 0 or size > _EXAMINED_BYTES:
                position.range = _beyond(position.range, row, scan.reversed)
                break
        else:
            position.range = None
    finally:
        found.close()
    if position.remaining is not None:
        position.remaining -= len(batch)
        if position.remaining <= 0:
            position.range = None
    return batch


def _rows(
    connection: sqlite3.Connection, table_id: int, rest: KeyRange | None, reversed: bool, reader: RowReader
) -> Generator[tuple[bytes, StoredRow | None, int], None, None]:
    """The rows of a range: their keys, what the read shows of them, and how many bytes were read for it."""
    order = " DESC" if reversed else ""
    while rest is not None:
        condition, parameters = "", [table_id, rest.start]
        if rest.stop is not None:
            condition, parameters = " AND row < ?", [table_id, rest.start, rest.stop]
        cursor = connection.execute(
            f"SELECT row, first, ends, cells FROM segments WHERE table_id = ? AND row >= ?{condition} ORDER BY row{order}, first{order}",
            parameters,
        )
        try:
            for row, ends, data, wide in _by_row(cursor):
                if wide:
                    rest = _beyond(rest, row, reversed)
                    break
                yield row, reader.row(row, ends, data), len(data)
            else:
                return
        finally:
            cursor.close()
        segments = RowSegments(connection, table_id, row)
        yield row, reader.wide_row(row, segments), segments.read


def _beyond(range: KeyRange | None, row: bytes, reversed: bool) -> KeyRange | None:
    """What is left of a range behind a row, None where that is nothing."""
    rest = (range or KeyRange()).before(row) if reversed else (range or KeyRange()).after(row)
    return None if rest.empty else rest
