"""Reads slices of wide rows (the objects in ranges of columns of one or many rows), page by page and in bounded
memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

from attrs import Factory, evolve, field, frozen

from hbmodel.store.filters import And, ColumnRange, Filter, KeyOnly, Or, Pagination
from hbmodel.store.port import Reads
from hbmodel.store.ranges import KeyRange, key_successor
from hbmodel.store.values import Get, Row, Scan
from hbmodel.store.wide.backwards.end_search import EndSearch
from hbmodel.store.wide.backwards.portions import Portions
from hbmodel.store.wide.backwards.qualifier_distances import mean_distance
from hbmodel.store.wide.backwards.row_backwards import BegunPortion, RowBackwards
from hbmodel.store.wide.intervals import Interval, behind, starting, until
from hbmodel.store.wide.page_sizes import PAGE_SIZES, PageSizes
from hbmodel.store.wide.row_pieces import JoinedPieces, cut
from hbmodel.store.wide.row_size_warnings import RowWidths, bytes_of
from hbmodel.store.wide.wide_rows import ObjectRow, Unfolding, WideRows

ROWS = 100
"""The number of rows in a batch."""

SEVERAL = 5
"""If at least this many rows of a batch, and at least a quarter of the batch, do not fit into one page, the following
rows are read in larger pages.
"""

_EVERY_OBJECT = [(b"\x00", None)]
"""The range of all objects whose qualifiers have no kind. Only the empty qualifier, which belongs to no object, is
outside of it.
"""

NO_OBJECTS = "Only tables of wide models can be read by ranges of columns."


@frozen
class SliceScan:
    """Objects to read: the objects in some ranges of qualifiers, in each row of a range of rows.

    Attributes:
        ranges: the ranges of qualifiers, sorted, disjoint, not empty; their bounds are not within an object.
        reversed: whether to read from the last object of the last row to the first.
        keys_only: whether to read cells without their values.
        limit: about how many objects the first scan should return; it may return more. If a filter drops some of the
            objects and the caller needs more of them, another scan follows.
        page: the number of cells in the first page of each row; None before `SliceReader.sized` has chosen it.
        batch_size: the maximum number of rows in a batch.
        first: for a read of one row backwards, the place where the last portion probably begins, as guessed by
            `SliceReader.sized`; None if there is no guess.
        single: whether only one row is read.
    """

    rows: KeyRange
    ranges: Sequence[Interval]
    reversed: bool = False
    keys_only: bool = False
    limit: int | None = None
    page: int | None = None
    batch_size: int = ROWS
    first: bytes | None = None
    single: bool = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: self.rows.stop == key_successor(self.rows.start), takes_self=True),
    )

    @property
    def rows_at_once(self) -> int | None:
        """The maximum number of rows that one table scan reads, or None. A scan with a limit reads one batch, so that
        it occupies no connection while the caller reads something else.
        """
        return None if self.limit is None else max(1, min(self.batch_size, self.limit))

    @property
    def whole(self) -> bool:
        """Whether many rows are read, forwards and to their ends."""
        return not (self.single or self.reversed or self.limit is not None)

    @property
    def keys_of_rows(self) -> bool:
        """Whether the keys of rows are read first, and then the objects of each row. This is necessary because HBase
        does not accept several ranges of columns in a reversed scan.
        """
        return self.reversed and len(self.ranges) > 1 and not self.single


class SliceReader:
    """Reads the objects of one model.

    No object is assembled from two reads: the last object of a full page is read again from its first cell, with the
    cells that follow. If many rows are read forwards to their ends, the scan returns each row in pieces that are from
    the same read (`Scan.cells`). These pieces are joined, and no object is read again. But rows are not read in pieces
    if objects may have any number of columns, because not all columns of such objects are read.
    """

    def __init__(
        self, store: Reads, wide: WideRows, pages: PageSizes = PAGE_SIZES, widths: RowWidths | None = None
    ) -> None:
        self._store = store
        self._wide = wide
        self._pages = pages
        self._widths = RowWidths() if widths is None else widths
        self._start = len(wide.lead)
        self._unfolding = Unfolding(wide)
        self.strict = wide.strict
        # A strict reader would return a cell with an empty qualifier, so the range has to exclude it.
        self._filters_all = wide.strict or wide.prefix_end(b"") is not None

    def sized(self, scan: SliceScan) -> SliceScan:
        """Returns the scan with page and batch sizes. They are chosen only once, so that measurements of other reads do
        not change a scan in progress.
        """
        if scan.page is not None:
            return scan
        if scan.single and scan.reversed and (guessed := self._guessed(scan)) is not None:
            return guessed
        if not self._in_pieces(scan):
            return evolve(scan, page=self._first_size(scan))
        page = self._pages.cells[0]
        cell = 1 if scan.keys_only else self._widths.cell.get(self._wide.table, 1)
        return evolve(scan, page=page, batch_size=max(1, min(scan.batch_size, 2 * self._pages.bytes // (page * cell))))

    def first_scan(self, scan: SliceScan) -> Scan:
        """Returns the table scan with which a slice scan that has sizes begins."""
        assert scan.page is not None
        cells = scan.page if scan.single or self._in_pieces(scan) else None
        chosen = self._chosen(scan.ranges if scan.first is None else starting(scan.ranges, scan.first), scan.keys_only)
        if scan.keys_of_rows:
            chosen = _page([(scan.ranges[0][0], scan.ranges[-1][1])], 1, keys_only=True)
        elif cells is None:
            chosen = _page(scan.ranges, scan.page, scan.keys_only)
        return Scan(
            scan.rows,
            reversed=scan.reversed and not scan.single,
            columns=[self._wide.family],
            filter=chosen,
            limit=1 if scan.single else scan.rows_at_once,
            batch_size=scan.batch_size if scan.rows_at_once is None else scan.rows_at_once,
            cells=cells,
        )

    def read(
        self, scan: SliceScan, started: Iterator[Sequence[Row]] | None = None
    ) -> Generator[Sequence[ObjectRow], None, None]:
        """Yields the objects, several at a time.

        Args:
            scan: the objects to read.
            started: the scan that `first_scan` returns, if it has already been started for `scan`; the caller closes
                it.
        """
        following: SliceScan | None = scan
        while following is not None:
            if started is None:
                following = self.sized(following)
                (started,) = self._store.scan(self._wide.table, [self.first_scan(following)])
                with closing_scan(started):
                    following = yield from self._scanned(following, started)
            else:
                following = yield from self._scanned(following, started)
            started = None

    def _chosen(self, ranges: Sequence[Interval], keys_only: bool) -> Filter | None:
        """Returns the filter that passes the cells in some ranges. Returns None if all cells of the family are read,
        because a filter is expensive for the server.
        """
        if self._filters_all or list(ranges) != _EVERY_OBJECT:
            return _chosen(ranges, keys_only)
        return KeyOnly() if keys_only else None

    def _in_pieces(self, scan: SliceScan) -> bool:
        """Returns whether one scan should return all rows in pieces of the size of a page, so that pages are not
        requested one by one.

        This is not done if an object may have any number of columns, because all of them would be read.
        """
        return scan.whole and not self._wide.more

    def _sizes(self, scan: SliceScan) -> Sequence[int]:
        if not scan.keys_only:
            return self._pages.cells
        return self._pages.keys if scan.single else self._pages.keys_of_many_rows

    def _first_size(self, scan: SliceScan) -> int:
        """Returns how many cells the first page of each row has.

        The first page of a single row may be larger than usual if more cells are wanted and earlier reads have shown
        how large cells are.
        """
        if scan.page is not None:
            return scan.page
        sizes, table = self._sizes(scan), self._wide.table
        if scan.keys_only or len(sizes) < 2 or not scan.single or table not in self._widths.cell:
            return sizes[0]
        size = min(sizes[1], self._pages.bytes // self._widths.cell[table])
        wanted = size if scan.limit is None else scan.limit * max(1, len(self._wide.columns)) + 1
        return max(sizes[0], min(size, wanted))

    def _behind(self, scan: SliceScan, last: bytes) -> KeyRange:
        return scan.rows.before(last) if scan.reversed else scan.rows.after(last)

    def _wider(self, scan: SliceScan, size: int, batch: Sequence[Row]) -> tuple[int, SliceScan] | None:
        """Returns the position of the first row in the batch that does not fit into one page, and the scan that reads
        this row and all rows after it in larger pages. Returns None unless there are many such rows.
        """
        if scan.single or scan.keys_of_rows:
            return None
        full = [at for at, row in enumerate(batch) if len(row.columns) >= size and not self._filled(row)]
        larger = next((each for each in self._sizes(scan) if each > size), None)
        if larger is None or len(full) < max(SEVERAL, len(batch) / 4):
            return None
        first = batch[full[0]]
        each = max(1, bytes_of(list(first.columns), list(first.columns.values())) // len(first.columns))
        page = min(larger, self._pages.bytes // each)
        if page <= size:
            return None
        rows = scan.rows.before(key_successor(first.row)) if scan.reversed else KeyRange(first.row, scan.rows.stop)
        batch_size = max(1, min(ROWS, 2 * self._pages.bytes // (page * each)))
        return full[0], evolve(scan, rows=rows, page=page, batch_size=batch_size)

    def _filled(self, row: Row) -> bool:
        """Returns whether most of a full page belongs to one object that may have any number of columns. If so, a
        larger page would only hold more columns of this object.
        """
        return self._wide.more and 2 * cut(self._wide, list(row.columns))[1] < len(row.columns)

    def _scanned(
        self, scan: SliceScan, batches: Iterator[Sequence[Row]]
    ) -> Generator[Sequence[ObjectRow], None, SliceScan | None]:
        """Yields the objects of a scan, and returns the scan for the rows that follow, or None."""
        if scan.first is None:
            return (yield from self._rows(scan, batches))
        yield from self._from_guess(scan, _only(batches))
        return None

    def _rows(
        self, scan: SliceScan, batches: Iterable[Sequence[Row]]
    ) -> Generator[Sequence[ObjectRow], None, SliceScan | None]:
        """Yields the objects of a scan, and returns the scan for the rows that follow, or None.

        No more rows are read than objects are wanted, because each row has at least one object.
        """
        assert scan.page is not None
        if self._in_pieces(scan):
            yield from self._joined(scan.page, batches)
            return None
        size, count, last = scan.page, 0, b""
        for batch in batches:
            count, last = count + len(batch), batch[-1].row
            wider = self._wider(scan, size, batch)
            if wider is not None:
                batch = batch[: wider[0]]  # noqa: PLW2901
            whole: list[ObjectRow] = []
            for row in batch:
                columns = row.columns
                if len(columns) < size and not scan.keys_of_rows:
                    objects = self._unfolding.objects(row.row, list(columns), list(columns.values()))
                    whole += reversed(objects) if scan.reversed else objects
                    continue
                if whole:
                    yield whole
                    whole = []
                yield from self._backwards(scan, row) if scan.reversed else self._pages_of(scan, row)
            if whole:
                yield whole
            if wider is not None:
                close_scan(batches)
                return wider[1]
        if scan.single or count != scan.rows_at_once:
            return None
        rows = self._behind(scan, last)
        return None if rows.empty else evolve(scan, rows=rows, limit=4 * count)

    def _joined(self, size: int, batches: Iterable[Sequence[Row]]) -> Generator[Sequence[ObjectRow], None, None]:
        """Yields the objects of rows that come in pieces."""
        pieces = JoinedPieces(self._wide, self._unfolding, size, self._widths)
        for batch in batches:
            if objects := [each for piece in batch for each in pieces.piece(piece)]:
                yield objects
        if objects := pieces.end():
            yield objects

    def _pages_of(
        self,
        scan: SliceScan,
        row: Row | None,
        row_key: bytes | None = None,
        left: list[Interval] | None = None,
    ) -> Generator[Sequence[ObjectRow], None, None]:
        """Yields the objects of one row. The first page of the row has already been read, unless only the row's key is
        given.

        Args:
            left: receives, before objects are yielded, the ranges that are not read yet.
        """
        left = [] if left is None else left
        sizes = self._sizes(scan)
        key = row.row if row is not None else row_key
        assert key is not None
        size, ranges = self._first_size(scan), list(scan.ranges)
        number = sum(each <= size for each in sizes[1:])
        read = read_bytes = 0
        page: Iterator[Sequence[Row]] | None = None
        if row is None:
            page = self._begin(scan, key, ranges, size)
        try:
            while True:
                if page is not None:
                    row = _only(page)
                    page = None
                if row is None:
                    left[:] = ()
                    return
                columns: Mapping[bytes, Any] = row.columns
                names, cells = list(columns), list(columns.values())
                if len(names) < size:
                    left[:] = ()
                    if objects := self._unfolding.objects(key, names, cells):
                        yield objects
                    return
                resume, length = cut(self._wide, names)
                following = starting(ranges, resume)
                if self._wide.more and 2 * length < len(names):  # most cells of the page belong to its last object
                    left[:] = following
                    if objects := self._unfolding.objects(key, names[:length], cells[:length]):
                        yield objects
                    left[:] = ranges = behind(ranges, resume)
                    if whole := self._columns_of(key, resume):
                        yield [whole]
                    if not ranges:
                        return
                    page = self._begin(scan, key, ranges, size)
                    continue
                if following == ranges:  # one object fills the page
                    size *= 2
                    page = self._begin(scan, key, ranges, size)
                    continue
                number = min(number + 1, len(sizes) - 1)
                page_bytes = bytes_of(names, cells)
                self._widths.page(self._wide.table, len(cells), page_bytes)
                read, read_bytes = read + len(cells), read_bytes + page_bytes
                self._widths.read(self._wide.table, key, read, read_bytes)
                size = max(2, min(sizes[number], self._pages.bytes * len(cells) // page_bytes))
                left[:] = ranges = following
                if ranges and scan.limit is None:  # the next page is requested before the caller works on this one
                    page = self._begin(scan, key, ranges, size)
                if objects := self._unfolding.objects(key, names[:length], cells[:length]):
                    yield objects
                if not ranges:
                    return
                page = page or self._begin(scan, key, ranges, size)
        finally:
            if page is not None:
                close_scan(page)

    def _begin(self, scan: SliceScan, row: bytes, ranges: Sequence[Interval], size: int) -> Iterator[Sequence[Row]]:
        (started,) = self._store.scan(self._wide.table, [self._page(scan, row, ranges, size)])
        return started

    def _page(self, scan: SliceScan, row: bytes, ranges: Sequence[Interval], size: int) -> Scan:
        chosen = self._chosen(ranges, scan.keys_only)
        return Scan(KeyRange.exactly(row), columns=[self._wide.family], filter=chosen, limit=1, cells=size)

    def _columns_of(self, row: bytes, prefix: bytes) -> ObjectRow | None:
        """Returns an object with the columns that its model declares, read in one call."""
        columns = [self._wide.column(prefix, column) for column in self._wide.columns]
        (current,) = self._store.get_each(self._wide.table, [Get(row, columns)])
        if current is None:
            return None
        (whole,) = self._unfolding.objects(row, list(current.columns), list(current.columns.values()))
        return whole

    # --- backwards ----------------------------------------------------------------------------------------------------

    def _guessed(self, scan: SliceScan) -> SliceScan | None:
        """Returns the scan of one row backwards, with a guess where its last portion begins, or None if nothing is
        known for a guess.
        """
        portions = self._portions(scan)
        spacing, before = portions.spacing, scan.ranges
        if spacing is None:
            return None
        if not portions.ends_at_object(scan.ranges):
            last = self._widths.last_place(self._wide.name, scan.rows.start, scan.ranges[-1][1])
            if last is None or not (before := until(scan.ranges, key_successor(last))):
                return None
        wanted = portions.wanted(scan.limit)
        first = portions.start(before, portions.length(wanted, spacing))
        return None if first <= scan.ranges[0][0] else evolve(scan, page=portions.size(wanted), first=first)

    def _portions(self, scan: SliceScan) -> Portions:
        passed = min(self._pages.passed, self._pages.keys[-1])
        return Portions(self._wide, self._widths, self._sizes(scan), self._pages.bytes, passed, scan.keys_only)

    def _row_backwards(self, scan: SliceScan, row: bytes) -> RowBackwards:
        def pages(
            ranges: Sequence[Interval],
            size: int | None = None,
            *,
            page: Row | None = None,
            left: list[Interval] | None = None,
            keys_only: bool = False,
        ) -> Generator[Sequence[ObjectRow], None, None]:
            forwards = evolve(
                scan,
                ranges=ranges,
                reversed=False,
                page=size,
                keys_only=keys_only or scan.keys_only,
                limit=scan.limit if left is None else 1,  # whether another page is needed depends on `left`
            )
            return self._pages_of(forwards, page, row, left)

        def probes(ranges: Sequence[Interval], places: Sequence[bytes], cells: int) -> Sequence[Sequence[bytes]]:
            every = [self._page(evolve(scan, keys_only=True), row, starting(ranges, place), cells) for place in places]
            with ExitStack() as stack:
                started = self._store.scan(self._wide.table, every)
                for each in started:
                    stack.enter_context(closing_scan(each))
                answers = [_only(each) for each in started]
            return [[] if answer is None else [name[self._start :] for name in answer.columns] for answer in answers]

        portions = self._portions(scan)
        return RowBackwards(portions, pages, EndSearch(portions, probes), scan.limit)

    def _from_guess(self, scan: SliceScan, page: Row | None) -> Generator[Sequence[ObjectRow], None, None]:
        """Yields the objects of one row backwards.

        Args:
            page: the first page of the portion that `first_scan` has guessed, or None if it has no cells.
        """
        spacing = self._portions(scan).spacing
        assert scan.first is not None
        assert scan.page is not None
        assert spacing is not None
        begun = BegunPortion(scan.first, scan.page, page)
        guessed = self._row_backwards(scan, scan.rows.start).guessed(scan.ranges, spacing, begun)
        yield from self._remembering_end(scan, scan.rows.start, guessed)

    def _backwards(self, scan: SliceScan, row: Row) -> Generator[Sequence[ObjectRow], None, None]:
        """Yields the objects of one wide row, the last one first.

        Args:
            row: the first page of the row, which is full; with `keys_of_rows`, only its first key.
        """
        spacing = None if scan.keys_of_rows else self._noted(scan, row)
        backwards = self._row_backwards(scan, row.row)
        if spacing and self._portions(scan).ends_at_object(scan.ranges):
            yield from backwards.guessed(scan.ranges, spacing)
        else:
            yield from self._remembering_end(scan, row.row, backwards.by_keys(scan.ranges))

    def _remembering_end(
        self, scan: SliceScan, row: bytes, found: Iterable[Sequence[ObjectRow]]
    ) -> Generator[Sequence[ObjectRow], None, None]:
        """Yields the objects of one row backwards unchanged. Records the place of the last object if it cannot be
        inferred from the scan's ranges, so that a later read can begin there without a search.
        """
        stop = scan.ranges[-1][1]
        unnoted = not self._portions(scan).ends_at_object(scan.ranges)
        for objects in found:
            if unnoted and objects:
                self._widths.ends_at(self._wide.name, row, stop, self._wide.places.cut(objects[0].row)[1])
                unnoted = False
            yield objects

    def _noted(self, scan: SliceScan, row: Row) -> Fraction:
        """Records the size of the cells in the first page of a row. Returns the mean distance between its objects."""
        names, cells = list(row.columns), list(row.columns.values())
        if not scan.keys_only:
            self._widths.page(self._wide.table, len(cells), bytes_of(names, cells))
        objects = self._unfolding.objects(row.row, names, cells)
        return mean_distance(scan.ranges, [self._wide.places.cut(each.row)[1] for each in objects])


def _chosen(ranges: Sequence[Interval], keys_only: bool) -> Filter:
    columns = [ColumnRange(first, True, stop, False) for first, stop in ranges]
    chosen = columns[0] if len(columns) == 1 else Or(columns)
    return And([chosen, KeyOnly()]) if keys_only else chosen


def _page(ranges: Sequence[Interval], size: int, keys_only: bool) -> Filter:
    """Returns a filter that passes the first cells of each row."""
    parts = [_chosen(ranges, keys_only=False), Pagination(size, 0)]
    return And([*parts, KeyOnly()] if keys_only else parts)


def _only(batches: Iterator[Sequence[Row]]) -> Row | None:
    """Returns the only row of a scan, or None, and closes the scan."""
    with closing_scan(batches):
        return next((row for batch in batches for row in batch), None)


def close_scan(batches: object) -> None:
    """Closes a scan, if it has a `close`."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()


class closing_scan:
    """A context manager that closes a scan at the end of its block, if it has a `close`."""

    def __init__(self, batches: object) -> None:
        self._batches = batches

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        close_scan(self._batches)
