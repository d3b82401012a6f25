"""A view of a store in which each object of a wide row is a separate row, while all other tables are unchanged."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeVar

from attrs import evolve

from hbmodel.errors import FamilyNotFound, InvalidRequest
from hbmodel.store.as_of_view import AsOfStore
from hbmodel.store.checks.reads import check_scans
from hbmodel.store.checks.rows import NO_FAMILY, check_column, check_get, check_read_columns
from hbmodel.store.port import (
    BegunPut,
    PipelinedStore,
    RepeatingStore,
    Store,
    change_and_get,
    check_and_put_each,
    read_versions,
)
from hbmodel.store.values import Cell, ConditionalChange, ConditionalPut, Delete, Family, Get, Put, Region, Row, Scan
from hbmodel.store.wide.folded_writes import FoldedWrites, LatePut
from hbmodel.store.wide.intervals import EVERY_COLUMN, Interval, within
from hbmodel.store.wide.object_filters import keys_only, object_filter
from hbmodel.store.wide.object_get import PartOfRow
from hbmodel.store.wide.page_sizes import PAGE_SIZES, PageSizes
from hbmodel.store.wide.row_size_warnings import RowWidths
from hbmodel.store.wide.row_versions import read_row_versions
from hbmodel.store.wide.slices import NO_OBJECTS, SliceReader, SliceScan, close_scan
from hbmodel.store.wide.wide_rows import ROW_VERSION, STRANGE, ObjectRow, WideRows
from hbmodel.store.wrapping import WrappingStore

A = TypeVar("A")
K = TypeVar("K")
R = TypeVar("R")


def folded(store: Store, wide: WideRows | None, pages: PageSizes = PAGE_SIZES) -> Store:
    """Returns a view of a store in which each object of a model is a separate row.

    Args:
        wide: how the objects share rows; None if they do not.
    """
    return store if wide is None else FoldedStore(store, [wide], pages)


def as_of(store: Store, before: int) -> Store:
    """Returns a view of a store, for reading, without the cell versions that have a timestamp of `before` (in ms) or
    later. Deletes apply even if they are later.
    """
    return store.as_of(before) if isinstance(store, FoldedStore) else AsOfStore(store, before)


class FoldedStore(WrappingStore):
    """Shows each object of the wide models as one logical row. The key of this row is the object key, and its columns
    are named by aliases.

    Calls on a table of logical rows become calls on the table of the wide rows. The view has the same guarantees for an
    object as the store has for a row. Puts into one row with the same timestamp and TTL are joined into one put, unless
    the joined put would be too large.

    A read of several objects is not a snapshot, even if it reads only one page.

    Args:
        wides: the wide models, no two of them with the same table of logical rows.
    """

    def __init__(
        self, store: Store, wides: Iterable[WideRows], pages: PageSizes = PAGE_SIZES, widths: RowWidths | None = None
    ) -> None:
        super().__init__(store)
        self._wides = {wide.name: wide for wide in wides}
        self._pages = pages
        self._widths = RowWidths() if widths is None else widths
        self._readers = {table: SliceReader(store, wide, pages, self._widths) for table, wide in self._wides.items()}

    def on_retry(self, repeated: Callable[[], None]) -> Store:
        """See `RepeatingStore`."""
        if not isinstance(self._store, RepeatingStore):
            return self
        return FoldedStore(self._store.on_retry(repeated), self._wides.values(), pages=self._pages, widths=self._widths)

    def as_of(self, before: int | None) -> FoldedStore:
        """Returns the view as of an earlier time, in which objects are made from the rows as they were at that time."""
        if before is None:
            return self
        return FoldedStore(AsOfStore(self._store, before), self._wides.values(), pages=self._pages, widths=self._widths)

    def wide(self, table: str) -> WideRows | None:
        """Returns the description of the wide rows behind a table of logical rows, or None for any other table."""
        return self._wides.get(table)

    def _of(self, table: str, columns: Iterable[bytes] = ()) -> WideRows | None:
        """Returns the wide rows behind a table if a call specifies no columns, or only columns of the wide model's
        family. Otherwise returns None.

        Raises:
            InvalidRequest: only some of the columns are in that family.
            FamilyNotFound: the table lacks the family of a column.
        """
        wide = self._wides.get(table)
        if wide is None:
            return None
        families = {column.partition(b":")[0] for column in columns}
        if families <= {wide.family}:
            return wide
        if wide.family in families:
            known = {family.name for family in self._store.families(wide.table)}
            if missing := sorted(families - known):
                raise FamilyNotFound(NO_FAMILY, table=table, family=missing[0])
            raise InvalidRequest(
                "The columns of a wide model and other columns cannot be read or written in one call: use two calls.",
                table=table,
                columns=families,
            )
        return None

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        """See `Store.get`."""
        if table not in self._wides:
            return self._store.get(table, rows, columns)
        check_read_columns(table, columns)
        if self._of(table, columns) is None:
            return self._store.get(table, rows, columns)
        distinct = list(dict.fromkeys(rows))
        rows_by_key = dict(zip(distinct, self.get_each(table, [Get(row, columns) for row in distinct]), strict=True))
        return [rows_by_key[row] for row in rows]

    def get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        """See `Store.get_each`."""
        if table not in self._wides:
            return self._store.get_each(table, gets)
        for get in gets:
            check_read_columns(table, get.columns)
            if type(get.row) is not bytes or not get.row or not isinstance(get.prefix, bytes):
                check_get(table, get)
        kinds = [(self._of(table, get.columns), get.before) for get in gets]
        return _apart(kinds, gets, lambda kind, some: self.as_of(kind[1])._get_each(table, kind[0], some))

    def _get_each(self, table: str, wide: WideRows | None, gets: Sequence[Get]) -> Sequence[Row | None]:
        if wide is None:
            return self._store.get_each(table, gets)
        requests = [PartOfRow(wide, get) for get in gets]
        # The versions are read before the objects. If another program changes an object between the two reads, it also
        # changes the version, so a change that requires the version that was read here is refused.
        versions = self._row_versions(wide, {part.get.row for part in requests if part.versioned})
        rows = self._store.get_each(wide.table, [part.get for part in requests])
        return [part.object(row, versions.get(part.get.row)) for part, row in zip(requests, rows, strict=True)]

    def _row_versions(self, wide: WideRows, rows: Iterable[bytes]) -> dict[bytes, Cell]:
        """Returns the versions of the rows that have one. Returns an empty dictionary if the model does not read
        versions.
        """
        if wide.row_version is None or not (wanted_rows := list(rows)):
            return {}
        own = wide.lead + ROW_VERSION
        return {
            row: version.shown(own)
            for row, version in read_row_versions(self._store, wide.table, own, wanted_rows).items()
        }

    def versions(self, table: str, row: bytes, columns: Sequence[bytes], limit: int) -> Sequence[Sequence[Cell]]:
        """See `VersionsStore`."""
        wide = self._of(table, columns)
        if wide is None:
            return read_versions(self._store, table, row, columns, limit)
        shared_row, prefix = wide.places.cut(row)
        return read_versions(
            self._store, wide.table, shared_row, [wide.column(prefix, column) for column in columns], limit
        )

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        """See `Store.scan`. The first requests of all scans are sent together."""
        if table not in self._wides:
            return self._store.scan(table, scans)
        check_scans(table, scans)
        kinds = [(self._of(table, scan.columns), scan.before) for scan in scans]
        return _apart(kinds, scans, lambda kind, some: self.as_of(kind[1])._scan(table, kind[0], some))

    def scan_columns(
        self, table: str, scans: Sequence[Scan], columns: Sequence[Interval]
    ) -> Sequence[Iterator[Sequence[Row]]]:
        """Starts scans like `scan`, which read only the objects whose qualifiers are in some ranges; see
        `column_scans`.
        """
        check_scans(table, scans)
        wide = self._of(table, [column for scan in scans for column in scan.columns])
        if wide is None:
            raise InvalidRequest(NO_OBJECTS, table=table)
        return _apart(
            [scan.before for scan in scans],
            scans,
            lambda before, some: self.as_of(before)._scan(table, wide, some, columns),
        )

    def _scan(
        self, table: str, wide: WideRows | None, scans: Sequence[Scan], columns: Sequence[Interval] = EVERY_COLUMN
    ) -> Sequence[Iterator[Sequence[Row]]]:
        if wide is None:
            return self._store.scan(table, scans)
        reader = self._readers[wide.name]
        parts_of_scans = [_parts(wide, scan, columns) for scan in scans]
        first_scans: list[Scan] = []
        for parts in filter(None, parts_of_scans):
            parts[0] = reader.sized(parts[0])
            first_scans.append(reader.first_scan(parts[0]))
        started = iter(self._store.scan(wide.table, first_scans) if first_scans else ())
        return [
            _ObjectBatches(scan, reader, parts, next(started) if parts else None)
            for scan, parts in zip(scans, parts_of_scans, strict=True)
        ]

    def slices(self, table: str, scan: SliceScan) -> Iterator[Sequence[Row]]:
        """Yields the objects in ranges of columns of some rows; see `SliceScan`.

        Raises:
            InvalidRequest: the table is not a table of logical rows.
        """
        reader = self._readers.get(table)
        if reader is None:
            raise InvalidRequest(NO_OBJECTS, table=table)
        return _ObjectBatches(Scan(), reader, [scan], None)

    # --- writing ------------------------------------------------------------------------------------------------------

    def _writes(self, wide: WideRows) -> FoldedWrites:
        return FoldedWrites(self._store, wide)

    def put(self, table: str, puts: Sequence[Put]) -> None:
        """See `Store.put`."""
        wide = self._of_puts(table, puts)
        if wide is None:
            self._store.put(table, puts)
        else:
            self._writes(wide).put(puts)

    def begin_put(self, table: str, puts: Sequence[Put]) -> BegunPut:
        """See `PipelinedStore`. If the store cannot begin a put, the put is made when its `end` is called."""
        wide = self._of_puts(table, puts)
        store = self._store
        if wide is None:
            return (
                store.begin_put(table, puts)
                if isinstance(store, PipelinedStore)
                else LatePut(lambda: store.put(table, puts))
            )
        return self._writes(wide).begin_put(puts)

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        """See `Store.delete`. A delete of the family or of the whole logical row deletes only the columns of this
        object, which are looked up first.
        """
        wide = self._of_all(table, deletes)
        if wide is None:
            self._store.delete(table, deletes)
        else:
            self._writes(wide).delete(deletes)

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        """See `Store.mutate_row`. The mutations may be for any number of objects that share a row."""
        wide = self._of_all(table, mutations)
        if wide is None:
            self._store.mutate_row(table, mutations)
        else:
            self._writes(wide).mutate_row(mutations)

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        """See `Store.check_and_put`."""
        wide = self._of_columns(table, [column, *put.cells])
        if wide is None:
            return self._store.check_and_put(table, row, column, expected, put)
        return self._writes(wide).check_and_put(row, column, expected, put)

    def check_and_put_each(self, table: str, puts: Sequence[ConditionalPut]) -> Sequence[bool]:
        """See `ConditionalPutsStore`. If the store has no such call, the puts are made one after the other."""
        wide = self._of_columns(table, {column for each in puts for column in (each.column, *each.put.cells)})
        return (
            check_and_put_each(self._store, table, puts)
            if wide is None
            else self._writes(wide).check_and_put_each(puts)
        )

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        """See `Store.check_and_mutate`."""
        wide = self._of_columns(table, [column])
        if wide is None or self._of_all(table, mutations) is None:
            return self._store.check_and_mutate(table, row, column, expected, mutations)
        return self._writes(wide).check_and_mutate(row, column, expected, mutations)

    def change_and_get(
        self, table: str, change: ConditionalChange | ConditionalPut, columns: Sequence[bytes]
    ) -> tuple[bool, Sequence[Row | None] | None]:
        """See `ChangeAndGetStore`. In a table of logical rows, the read must specify columns of the wide model's
        family, and the rows must have no versions. Otherwise, only the change is made.
        """
        wide = self._of_columns(table, [change.column])
        if wide is None:
            return change_and_get(self._store, table, change, columns)
        mutations = (change.put,) if isinstance(change, ConditionalPut) else change.mutations
        named = bool(columns) and all(column.startswith(wide.lead) for column in columns)
        if not named or wide.row_version is not None or self._of_all(table, mutations) is None:
            return super().change_and_get(table, change, columns)
        return self._writes(wide).change_and_get(change, columns)

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        """See `Store.check_and_mutate_many`."""
        wide = self._of_columns(table, [change.column for change in changes])
        if (
            wide is None
            or self._of_all(table, [mutation for change in changes for mutation in change.mutations]) is None
        ):
            return self._store.check_and_mutate_many(table, changes)
        return self._writes(wide).check_and_mutate_many(changes)

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        """See `Store.increment`."""
        wide = self._of_columns(table, [column])
        if wide is None:
            return self._store.increment(table, row, column, amount)
        return self._writes(wide).increment(row, column, amount)

    def of_rows(self, table: str, mutations: Sequence[Put | Delete]) -> Sequence[Put | Delete]:
        """Translates mutations of logical rows to mutations of the wide rows. If a whole object is deleted, its columns
        are looked up first.
        """
        wide = self._wides.get(table)
        return mutations if wide is None else self._writes(wide).of_rows(mutations)

    def conditional(self, table: str, change: ConditionalChange) -> ConditionalChange:
        """Translates a conditional change of a logical row to a conditional change of the wide row. The result may have
        no mutations.
        """
        wide = self._wides.get(table)
        return (
            change
            if wide is None
            else self._writes(wide).conditional(change.row, change.column, change.expected, change.mutations)
        )

    def _of_puts(self, table: str, puts: Sequence[Put]) -> WideRows | None:
        if table not in self._wides:
            return None
        return self._of_columns(table, {column for put in puts for column in put.cells})

    def _of_all(self, table: str, mutations: Sequence[Put | Delete]) -> WideRows | None:
        if table not in self._wides:
            return None
        columns = {name for m in mutations for name in (m.cells if isinstance(m, Put) else m.columns)}
        return self._of_columns(
            table, columns, [name for m in mutations if isinstance(m, Delete) for name in m.families]
        )

    def _of_columns(self, table: str, columns: Iterable[bytes], families: Sequence[bytes] = ()) -> WideRows | None:
        if table not in self._wides:
            return None
        for column in columns:
            check_column(table, column)
        return self._of(table, [*columns, *families])

    # --- tables -------------------------------------------------------------------------------------------------------

    def families(self, table: str) -> list[Family]:
        return self._store.families(self._table(table))

    def regions(self, table: str) -> list[Region]:
        regions = self._store.regions(self._table(table))
        wide = self._wides.get(table)
        return (
            regions if wide is None else [evolve(region, range=wide.places.places(region.range)) for region in regions]
        )

    def _table(self, table: str) -> str:
        wide = self._wides.get(table)
        return table if wide is None else wide.table

    def __repr__(self) -> str:
        return f"FoldedStore({self._store!r})"


def _apart(kinds: Sequence[K], requests: Sequence[A], answer: Callable[[K, Sequence[A]], Sequence[R]]) -> Sequence[R]:
    """Answers requests in groups of the same kind, and returns the answers in the order of the requests.

    A kind consists of a wide model, or None, and the time as of which rows are read.
    """
    if kinds and kinds.count(kinds[0]) == len(kinds):
        return answer(kinds[0], requests)
    answers: dict[int, R] = {}
    for kind in set(kinds):
        places = [place for place, each in enumerate(kinds) if each == kind]
        answers.update(zip(places, answer(kind, [requests[place] for place in places]), strict=True))
    return [answers[place] for place in range(len(requests))]


def _parts(wide: WideRows, scan: Scan, columns: Sequence[Interval]) -> list[SliceScan]:
    """Returns the slices that a scan reads, in order."""
    if scan.range.empty or scan.limit == 0:
        return []
    parts = [
        SliceScan(object_slice.rows, ranges, scan.reversed, keys_only(scan.filter), scan.limit)
        for object_slice in wide.places.slices(scan.range, wide.prefix_end)
        if (ranges := within(columns, object_slice.first, object_slice.stop))
    ]
    return parts[::-1] if scan.reversed else parts


class _ObjectBatches(Iterator[Sequence[Row]]):
    """The batches of a scan of logical rows. All except the last are full, unless the objects of each row are read by
    separate calls.
    """

    def __init__(self, scan: Scan, reader: SliceReader, parts: Sequence[SliceScan], started: Any) -> None:
        self._started = started
        self._batches = self._read(scan, reader, parts, started)

    def __next__(self) -> Sequence[Row]:
        return next(self._batches)

    def close(self) -> None:
        """Ends the scan early."""
        self._batches.close()
        close_scan(self._started)

    def _read(
        self, scan: Scan, reader: SliceReader, parts: Sequence[SliceScan], started: Any
    ) -> Generator[Sequence[Row], None, None]:
        shown, passing = _shown(scan), object_filter(scan.filter, scan.reversed)
        if reader.strict:
            shown, passing = _but_strange(shown), _but_strange(passing)
        left, size, waiting = scan.limit, scan.batch_size, list[Row]()
        try:
            for part in parts:
                with closing(reader.read(part, started)) as pages:
                    started = None
                    for objects in pages:
                        chosen = objects if shown is None else list(filter(None, map(shown, objects)))
                        chosen = chosen if passing is None else list(filter(None, map(passing, chosen)))
                        if left is not None:
                            chosen = chosen[:left]
                            left -= len(chosen)
                        waiting += chosen
                        while len(waiting) >= size or (waiting and (left == 0 or part.keys_of_rows)):
                            batch, waiting = waiting[:size], waiting[size:]
                            yield batch
                        if left == 0:
                            return
            if waiting:
                yield waiting
        finally:
            close_scan(self._started)


def _but_strange(
    change: Callable[[ObjectRow], ObjectRow | None] | None,
) -> Callable[[ObjectRow], ObjectRow | None] | None:
    """Restricts a function to objects. A cell that belongs to no object is returned unchanged, because the function
    cannot decide whether it is wanted.
    """
    if change is None:
        return None
    return lambda row: row if STRANGE in row.columns else change(row)


def _shown(scan: Scan) -> Callable[[ObjectRow], ObjectRow | None] | None:
    """Returns the function that reduces an object to the columns that a scan requests, or None if the scan requests all
    columns.
    """
    if not scan.columns or any(b":" not in column for column in scan.columns):
        return None
    wanted = frozenset(scan.columns)

    def show(row: ObjectRow) -> ObjectRow | None:
        columns = {column: cell for column, cell in row.columns.items() if column in wanted}
        return ObjectRow(row.row, columns) if columns else None

    return show
