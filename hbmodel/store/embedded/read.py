"""Reads rows of an embedded store: multi-gets, and scans in short transactions that continue after the last row."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from attrs import define, field, frozen

from hbmodel.store.checks.reads import distinct_columns
from hbmodel.store.embedded.cells import NEVER, Cells, StoredCell, StoredRow, decode_cells, visible
from hbmodel.store.embedded.descriptor import TableDescriptor
from hbmodel.store.embedded.segments import RowSegments, Segment
from hbmodel.store.filtering.row_filter import RowFilter, Run
from hbmodel.store.ranges import KeyRange, prefix_successor
from hbmodel.store.values import Cell, Scan

_EXAMINED_ROWS = 2048
_EXAMINED_BYTES = 4 * 1024 * 1024

# Numbers of rows that one statement reads. There are only a few different numbers, so that SQLite can reuse its
# compiled statements.
_GET_SIZES = (1, 16, 256)


@frozen
class Projection:
    """The columns that a read requests: some columns and some whole families, or everything if both are empty.

    Attributes:
        columns: the columns, in HBase's order.
        prefixes: `family:` of each whole family.
    """

    columns: tuple[bytes, ...] = ()
    prefixes: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, layout: TableDescriptor, table: str, columns: Sequence[bytes]) -> Projection:
        """Checks the columns of a read. Columns of a family that is requested as a whole are dropped.

        Raises:
            FamilyNotFound: the table has no such family.
        """
        for column in columns:
            layout.family_of(table, column)
        wanted = sorted(distinct_columns(columns), key=lambda column: column.partition(b":"))
        return cls(
            tuple(column for column in wanted if b":" in column),
            tuple(column + b":" for column in wanted if b":" not in column),
        )

    @property
    def only_columns(self) -> bool:
        """Whether only single columns are requested, and no whole family."""
        return bool(self.columns) and not self.prefixes

    @property
    def only_family(self) -> bytes | None:
        """The only family from which cells are requested; None if there are several, or if everything is requested."""
        families = {column.partition(b":")[0] for column in (*self.columns, *self.prefixes)}
        return families.pop() if len(families) == 1 else None

    @property
    def bounds(self) -> KeyRange:
        """A range of columns that contains all requested columns."""
        ranges = [KeyRange.prefix(prefix) for prefix in self.prefixes] + [
            KeyRange.exactly(column) for column in self.columns
        ]
        if not ranges:
            return KeyRange()
        stops = [key_range.stop for key_range in ranges if key_range.stop is not None]
        return KeyRange(min(key_range.start for key_range in ranges), max(stops) if len(stops) == len(ranges) else None)

    def select(self, cells: Cells) -> Cells:
        """Returns the requested cells, in their order."""
        if self.prefixes:
            columns, prefixes = self.columns, self.prefixes
            return {column: cell for column, cell in cells.items() if column.startswith(prefixes) or column in columns}
        if self.columns:
            return {column: cells[column] for column in self.columns if column in cells}
        return cells


class RowReader:
    """Makes the row that a read returns from the row's segments. `now` is the server's time in ms."""

    def __init__(
        self,
        layout: TableDescriptor,
        projection: Projection,
        filter: RowFilter | None,
        now: int,
        before: int | None = None,
    ) -> None:
        self._layout = layout
        self._projection = projection
        self._everything = not projection.columns and not projection.prefixes
        self._filter = filter
        self._now = now
        self._oldest = (
            {prefix[:-1]: now - layout.lives.get(prefix[:-1], now) for prefix in layout.prefixes}
            if layout.lives
            else None
        )
        self._before = NEVER if before is None else before
        # Whether the newest version of a cell is shown unless the TTL of its put has ended.
        self._shows_newest = self._oldest is None and before is None
        self._bounds = projection.bounds
        # The only family from which cells are shown, or None.
        self._family: bytes | None = None
        if filter is not None:
            self._family = projection.only_family or (layout.families[0].name if len(layout.families) == 1 else None)
        self._run: Run | None = None
        if filter is not None and self._family is not None:
            prefix, seen = self._family + b":", filter.seen
            stop = prefix_successor(prefix) if seen.stop is None else prefix + seen.stop
            self._bounds = self._bounds.intersect(KeyRange(prefix + seen.start, stop))
            self._run = None if projection.columns else filter.run

    def row(self, row: bytes, ends: int | None, data: bytes) -> StoredRow | None:
        """Returns the result of the read for a row of one segment, or None if no cell of the row is visible."""
        filter = self._filter
        if filter is not None and filter.rejects(row):
            return None
        if self._run is not None:
            cells = self._of_run(iter([Segment(b"", ends, data)]), self._run)
            return StoredRow(row, cells) if cells else None
        cells = self._shown(decode_cells(data), ends)
        if not self._layout.plain_order:
            cells = self._layout.ordered(cells)
        passing = cells if filter is None else filter.kept(cells)
        return StoredRow(row, passing) if passing else None

    def wide_row(self, row: bytes, segments: RowSegments) -> StoredRow | None:
        """Returns the result of the read for a row of any number of segments, or None. Only the segments that are
        needed are read.
        """
        filter = self._filter
        if filter is None:
            cells = (
                self.named(segments, self._projection.columns) if self._projection.only_columns else self._all(segments)
            )
            return StoredRow(row, self._layout.ordered(cells)) if cells else None
        if filter.rejects(row):
            return None
        passing: Mapping[bytes, Cell]
        if self._family is None:
            passing = filter.kept(self._layout.ordered(self._all(segments)))
        elif self._run is not None:
            passing = self._of_run(_Parts(segments, self._bounds), self._run)
        else:
            parts, prefix = _Parts(segments, self._bounds), self._family + b":"

            def part(qualifier: bytes) -> Cells | None:
                segment = parts.next(prefix + qualifier)
                return None if segment is None else self._shown(segment.cells, segment.ends)

            passing = filter.kept_of_family(self._family, part)
        return StoredRow(row, passing) if passing else None

    def pieces(self, row: bytes, segments: RowSegments, cells: int, *, all_now: bool) -> Iterator[StoredRow]:
        """Yields the result of the read for a row of any number of segments, in pieces.

        Each segment is decoded only when it is needed, unless the filter depends on the whole row.

        Args:
            all_now: reads the bytes of all segments now, for pieces that are taken after the end of the transaction.
        """
        run, bounds = self._run, self._bounds
        if (
            bounds.empty
            or self._projection.only_columns
            or (self._filter is not None and (run is None or run.limit is not None))
        ):
            whole = self.wide_row(row, segments)
            return iter(()) if whole is None else pieces_of(whole, cells)
        if (self._filter is not None and self._filter.rejects(row)) or not self._layout.plain_order:
            whole = self.wide_row(row, segments)
            return iter(()) if whole is None else pieces_of(whole, cells)
        parts = segments.all_of(bounds.start, bounds.stop) if all_now else _Parts(segments, bounds)
        shown = (
            self._shown(part.cells, part.ends) if run is None else self._of_run(iter([part]), run) for part in parts
        )
        return _cut(row, shown, cells)

    def named(self, segments: RowSegments, columns: Sequence[bytes]) -> Cells:
        """Returns the given columns of a row, read from the segments that hold them."""
        named_cells: Cells = {}
        for column in sorted(columns):
            segment = segments.holding(column)
            if segment is None or (cell := segment.cells.get(column)) is None:
                continue
            if self._shows_newest and (segment.ends is None or segment.ends >= self._now):
                named_cells[column] = cell
            else:
                named_cells.update(self._alive({column: cell}))
        return named_cells

    def _all(self, segments: RowSegments) -> Cells:
        cells: Cells = {}
        for segment in _Parts(segments, self._bounds):
            cells.update(self._shown(segment.cells, segment.ends))
        return cells

    def _of_run(self, segments: Iterator[Segment], run: Run) -> Cells:
        """Returns the first cells within the bounds."""
        bounds = self._bounds
        run_cells: Cells = {}
        left = run.limit
        while left is None or left > 0:
            segment = next(segments, None)
            if segment is None:
                break
            columns = segment.columns
            first = bisect_left(columns, bounds.start)
            stop = len(columns) if bounds.stop is None else bisect_left(columns, bounds.stop)
            some_dead = not self._shows_newest or (segment.ends is not None and segment.ends < self._now)
            chosen = columns[first : stop if left is None or some_dead else min(stop, first + left)]
            cells = {column: segment.cells[column] for column in chosen}
            if some_dead:
                cells = dict(islice(self._alive(cells).items(), left))
            run_cells.update(cells)
            if left is not None:
                left -= len(cells)
        return (
            {column: StoredCell(b"", cell.timestamp) for column, cell in run_cells.items()}
            if run.keys_only
            else run_cells
        )

    def _shown(self, cells: Cells, ends: int | None) -> Cells:
        """Returns the requested cells of one segment that are alive."""
        cells = self._alive_of(cells, ends)
        return cells if self._everything else self._projection.select(cells)

    def _alive_of(self, cells: Cells, ends: int | None) -> Cells:
        return cells if self._shows_newest and (ends is None or ends >= self._now) else self._alive(cells)

    def _alive(self, cells: Cells) -> Cells:
        now, oldest, before = self._now, self._oldest, self._before
        alive: Cells = {}
        for column, chain in cells.items():
            cell = visible(chain, now, 0 if oldest is None else oldest[column[: column.index(b":")]], before)
            if cell is not None:
                alive[column] = cell
        return alive


class _Parts(Iterator[Segment]):
    """The segments of a row that have columns within some bounds."""

    def __init__(self, segments: RowSegments, bounds: KeyRange) -> None:
        self._segments = segments
        self._bounds = bounds
        self._last: bytes | None = None
        self._ended = False

    def __next__(self) -> Segment:
        segment = self.next()
        if segment is None:
            raise StopIteration
        return segment

    def next(self, column: bytes = b"") -> Segment | None:
        """Returns the next segment, or a later one that holds `column`, or None if no more segments are within the
        bounds.
        """
        bounds, last = self._bounds, self._last
        if self._ended or bounds.empty:
            return None
        segment = self._segments.holding(max(bounds.start, column)) if last is None or column else None
        if segment is None or (last is not None and segment.first <= last):
            segment = self._segments.behind(b"" if last is None else last)
        if segment is None or (bounds.stop is not None and segment.first >= bounds.stop):
            return None
        self._last = segment.first
        self._ended = bounds.stop is not None and segment.last >= bounds.stop
        return segment


def read_rows(
    connection: sqlite3.Connection, table_id: int, rows: Sequence[bytes], reader: RowReader
) -> dict[bytes, StoredRow]:
    """Reads single rows, of which none may be given twice. Rows without visible cells are left out."""
    rows_by_key: dict[bytes, StoredRow] = {}
    rest = list(rows)
    while rest:
        size = next((size for size in _GET_SIZES if len(rest) <= size), _GET_SIZES[-1])
        chunk, rest = rest[:size], rest[size:]
        # A repeated row fills the remaining parameters of the statement. It is still returned only once.
        values = chunk + chunk[-1:] * (size - len(chunk))
        statement = (
            f"SELECT row, first, ends, cells FROM segments WHERE table_id = ? AND row IN ({','.join('?' * size)}) "
            "ORDER BY row, first"
        )
        cursor = connection.execute(statement, (table_id, *values))
        for row, ends, data, wide in _by_row(cursor):
            if wide:  # not all segments of this row were read, so the rows after it are read again
                cursor.close()
                stored = reader.wide_row(row, RowSegments(connection, table_id, row))
                rest += [other for other in chunk if other > row]
            else:
                stored = reader.row(row, ends, data)
            if stored is not None:
                rows_by_key[row] = stored
            if wide:
                break
    return rows_by_key


def _by_row(
    records: Iterator[tuple[bytes, bytes, int | None, bytes]],
) -> Iterator[tuple[bytes, int | None, bytes, bool]]:
    """Yields the first segment of each row, and whether the row has more segments. After a row with more segments, the
    iterator must not be used any more.
    """
    record = next(records, None)
    while record is not None:
        row, _, ends, data = record
        record = next(records, None)
        yield row, ends, data, record is not None and record[0] == row


def pieces_of(row: StoredRow, cells: int) -> Iterator[StoredRow]:
    """Yields a row in pieces of `cells` cells. The last piece may have fewer."""
    return iter([row]) if len(row.columns) <= cells else _cut(row.row, [row.columns], cells)


def _cut(row: bytes, parts: Iterable[Mapping[bytes, Cell]], cells: int) -> Iterator[StoredRow]:
    waiting: dict[bytes, Cell] = {}
    for part in parts:
        for column, cell in part.items():
            waiting[column] = cell
            if len(waiting) == cells:
                yield StoredRow(row, waiting)
                waiting = {}
    if waiting:
        yield StoredRow(row, waiting)


@define
class ScanPosition:
    """The progress of a scan.

    Attributes:
        range: the range that is still to be read, or None.
        remaining: the number of rows that are still to be returned; None for all.
        pieces: the remaining pieces of the current row, as they were when it was read.
        ended: whether the scan has ended.
    """

    range: KeyRange | None
    remaining: int | None = field(default=None)
    pieces: Iterator[StoredRow] = field(factory=lambda: iter(()))
    ended: bool = field(default=False)

    def given(self, batch: list[StoredRow], full: bool) -> list[StoredRow]:
        """Records that a batch is returned, and returns it. After a full batch, pieces of its last row may be left."""
        self.ended = self.range is None and not full
        if self.remaining is not None:
            self.remaining -= len(batch)
            self.ended = self.ended or self.remaining <= 0
        return batch


def scan_batch(
    connection: sqlite3.Connection, table_id: int, scan: Scan, reader: RowReader, position: ScanPosition
) -> list[StoredRow]:
    """Continues to read at a position, and advances it, until a batch is full, or enough rows have been read for one
    short transaction.
    """
    rows_wanted = scan.batch_size if position.remaining is None else min(scan.batch_size, position.remaining)
    examined = max(_EXAMINED_ROWS, scan.batch_size)
    batch: list[StoredRow] = list(islice(position.pieces, rows_wanted))
    if len(batch) >= rows_wanted:
        return position.given(batch, full=True)
    size = 0
    stored_rows = _rows(connection, table_id, position.range, scan, reader, all_now=position.remaining != 1)
    try:
        for row, stored, read in stored_rows:
            if isinstance(stored, StoredRow):
                batch.append(stored)
            elif stored is not None:
                position.pieces = stored
                batch += islice(stored, rows_wanted - len(batch))
            examined -= 1
            size += read
            if len(batch) >= rows_wanted or examined <= 0 or size > _EXAMINED_BYTES:
                position.range = _beyond(position.range, row, scan.reversed)
                break
        else:
            position.range = None
    finally:
        stored_rows.close()
    return position.given(batch, full=scan.cells is not None and len(batch) >= rows_wanted)


def _rows(
    connection: sqlite3.Connection,
    table_id: int,
    rest: KeyRange | None,
    scan: Scan,
    reader: RowReader,
    *,
    all_now: bool,
) -> Generator[tuple[bytes, StoredRow | Iterator[StoredRow] | None, int], None, None]:
    """Yields, for each row of a range, its key, the result of the read (as a whole or in pieces), and the number of
    bytes that were read.
    """
    reversed, cells = scan.reversed, scan.cells
    order = " DESC" if reversed else ""
    while rest is not None:
        condition, parameters = "", [table_id, rest.start]
        if rest.stop is not None:
            condition, parameters = " AND row < ?", [table_id, rest.start, rest.stop]
        cursor = connection.execute(
            f"SELECT row, first, ends, cells FROM segments WHERE table_id = ? AND row >= ?{condition} ORDER BY "
            f"row{order}, first{order}",
            parameters,
        )
        try:
            for row, ends, data, wide in _by_row(cursor):
                if wide:
                    rest = _beyond(rest, row, reversed)
                    break
                stored = reader.row(row, ends, data)
                yield row, stored if cells is None or stored is None else pieces_of(stored, cells), len(data)
            else:
                return
        finally:
            cursor.close()
        segments = RowSegments(connection, table_id, row)
        yield (
            row,
            reader.wide_row(row, segments) if cells is None else reader.pieces(row, segments, cells, all_now=all_now),
            segments.read,
        )


def _beyond(range: KeyRange | None, row: bytes, reversed: bool) -> KeyRange | None:
    """Returns the part of a range after a row, or None if it is empty."""
    rest = (range or KeyRange()).before(row) if reversed else (range or KeyRange()).after(row)
    return None if rest.empty else rest
