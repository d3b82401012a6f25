"""Reading rows of an embedded store: multi-get, and scans in short transactions that continue behind the last row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field, frozen

from hbmodel.store.checks.reads import distinct_columns
from hbmodel.store.embedded.cells import Cells, StoredRow, decode_cells, visible
from hbmodel.store.embedded.descriptor import TableDescriptor
from hbmodel.store.embedded.row_filter import RowFilter
from hbmodel.store.ranges import KeyRange, prefix_successor
from hbmodel.store.values import Scan

Segment = tuple[bytes, int | None, bytes]
"""Lower bound, end of the first TTL of a put, and encoded cells."""

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
        filter: the scan's, or None.
        now: the server's time in ms.
    """

    def __init__(self, layout: TableDescriptor, projection: Projection, filter: RowFilter | None, now: int) -> None:
        self._layout = layout
        self._projection = projection
        self._everything = not projection.columns and not projection.prefixes
        self._filter = filter
        self._now = now
        self._oldest = {prefix[:-1]: now - layout.lives.get(prefix[:-1], now) for prefix in layout.prefixes} if layout.lives else None
        self._bounds = projection.bounds
        if filter is not None and len(layout.prefixes) == 1:
            (prefix,) = layout.prefixes
            seen = filter.seen
            stop = prefix_successor(prefix) if seen.stop is None else prefix + seen.stop
            self._bounds = self._bounds.intersect(KeyRange(prefix + seen.start, stop))

    def row(self, row: bytes, segments: Sequence[Segment]) -> StoredRow | None:
        """The row as the read shows it, or None if nothing of it is to be seen."""
        filter = self._filter
        if filter is not None and filter.rejects(row):
            return None
        if len(segments) == 1:
            ((_, ends, data),) = segments
            cells = self._shown(data, ends)
        elif filter is not None and len(self._layout.families) == 1:
            cells = filter.kept_of_family(self._layout.families[0].name, self._parts(segments))
            return StoredRow(row, cells) if cells else None
        else:
            cells = {}
            for part in self._parts(segments):
                cells.update(part)
        if not self._layout.plain_order:
            cells = self._layout.ordered(cells)
        if filter is not None:
            cells = filter.kept(cells)
        return StoredRow(row, cells) if cells else None

    def _parts(self, segments: Sequence[Segment]) -> Iterator[Cells]:
        for place, (first, ends, data) in enumerate(segments):
            stop = segments[place + 1][0] if place + 1 < len(segments) else None
            if not self._bounds.intersect(KeyRange(first, stop)).empty:
                yield self._shown(data, ends)

    def _shown(self, data: bytes, ends: int | None) -> Cells:
        cells = decode_cells(data)
        if self._oldest is not None or (ends is not None and ends < self._now):
            cells = self._alive(cells)
        return cells if self._everything else self._projection.select(cells)

    def _alive(self, cells: Cells) -> Cells:
        now, oldest = self._now, self._oldest
        alive: Cells = {}
        for column, chain in cells.items():
            cell = visible(chain, now, 0 if oldest is None else oldest[column[: column.index(b":")]])
            if cell is not None:
                alive[column] = cell
        return alive


def read_rows(connection: sqlite3.Connection, table_id: int, rows: Sequence[bytes], reader: RowReader) -> dict[bytes, StoredRow]:
    """Reads single rows; those that show nothing are left out."""
    found: dict[bytes, StoredRow] = {}
    position = 0
    while position < len(rows):
        remaining = len(rows) - position
        size = next((size for size in _GET_SIZES if remaining <= size), _GET_SIZES[-1])
        asked = list(rows[position : position + size])
        position += len(asked)
        # A repeated row fills the statement up; it does not come twice.
        asked += asked[-1:] * (size - len(asked))
        statement = (
            f"SELECT row, first, ends, cells FROM segments WHERE table_id = ? AND row IN ({','.join('?' * size)}) ORDER BY row, first"
        )
        for row, segments in _by_row(connection.execute(statement, (table_id, *asked))):
            stored = reader.row(row, segments)
            if stored is not None:
                found[row] = stored
    return found


def _by_row(records: Iterable[tuple[bytes, bytes, int | None, bytes]]) -> Iterable[tuple[bytes, list[Segment]]]:
    current: bytes | None = None
    segments: list[Segment] = []
    for row, first, ends, data in records:
        if row == current:
            segments.append((first, ends, data))
            continue
        if current is not None:
            yield current, segments
        current, segments = row, [(first, ends, data)]
    if current is not None:
        yield current, segments


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
    remaining = position.range
    assert remaining is not None
    most = scan.batch_size if position.remaining is None else min(scan.batch_size, position.remaining)
    examined = max(_EXAMINED_ROWS, scan.batch_size)
    condition, parameters = "", [table_id, remaining.start]
    if remaining.stop is not None:
        condition, parameters = " AND row < ?", [table_id, remaining.start, remaining.stop]
    # Within a row the segments always come in their order.
    statement = (
        f"SELECT row, first, ends, cells FROM segments WHERE table_id = ? AND row >= ?{condition}"
        f" ORDER BY row{' DESC, first DESC' if scan.reversed else ', first'}"
    )
    batch: list[StoredRow] = []
    size = 0
    cursor = connection.execute(statement, parameters)
    try:
        for row, segments in _by_row(cursor):
            if scan.reversed and len(segments) > 1:
                segments.reverse()
            stored = reader.row(row, segments)
            if stored is not None:
                batch.append(stored)
            examined -= 1
            size += sum(len(data) for _, _, data in segments)
            if len(batch) >= most or examined <= 0 or size > _EXAMINED_BYTES:
                position.range = remaining.before(row) if scan.reversed else remaining.after(row)
                break
        else:
            position.range = None
    finally:
        cursor.close()
    if position.remaining is not None:
        position.remaining -= len(batch)
        if position.remaining <= 0:
            position.range = None
    return batch
