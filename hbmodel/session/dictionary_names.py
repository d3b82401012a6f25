"""Looks up the names of all ids in the rows that a call returned, before the rows are decoded one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from hbmodel.encoding.codecs import Dictionary
from hbmodel.encoding.codecs.dictionary import bind_names, unbind_names
from hbmodel.errors import HbmodelError
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import TableSchema
from hbmodel.store.port import Store
from hbmodel.store.values import Get, Row, Scan
from hbmodel.store.wide.folded import FoldedStore
from hbmodel.store.wide.intervals import Interval
from hbmodel.store.wide.page_sizes import PAGE_SIZES, PageSizes
from hbmodel.store.wide.slices import SliceScan, close_scan
from hbmodel.tables.ids.dictionaries import Names

_GET = object()
"""The key of the rows of the last get in `SessionNames.kept`."""


class SessionNames(Names):
    """The names and ids of the dictionaries in a session's store.

    If an id is not cached, its name is looked up, together with the names of all ids in the rows that scans and the
    last get have returned. This takes one call for each dictionary. A name without an id is looked up once in a call of
    the session. Not thread-safe.

    Attributes:
        kept: batches of rows that are kept only until the call of the session ends, each under the scan or get that
            returned it.
        absent: names that have no id, kept only until the call of the session ends: another program may assign an id.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._batches: dict[object, tuple[TableSchema, Iterable[Row]]] = {}
        self.kept: dict[object, tuple[TableSchema, Iterable[Row]]] = {}
        self.absent: set[tuple[Dictionary, str]] = set()

    def expect(self, scan: object, schema: TableSchema, rows: Iterable[Row]) -> None:
        """Keeps a batch of a scan until the next one arrives or the scan ends."""
        self._batches[scan] = (schema, rows)

    def got(self, schema: TableSchema, rows: Iterable[Row]) -> None:
        """Keeps the rows of a get until the next get, or until the call of the session ends."""
        self.kept[_GET] = (schema, rows)

    def ended(self, scan: object) -> None:
        """Keeps the last batch of a scan only until the call of the session ends: its rows may not be decoded yet."""
        batch = self._batches.pop(scan, None)
        if batch is not None:
            self.kept[scan] = batch

    @contextmanager
    def bound(self) -> Iterator[None]:
        """See `Names.bound`."""
        with super().bound():
            try:
                yield
            finally:
                self.kept.clear()
                self.absent.clear()

    def find(self, dictionary: Dictionary, names: Iterable[str]) -> Mapping[str, int]:
        """See `Names.find`."""
        asked = [name for name in names if (dictionary, name) not in self.absent]
        ids = super().find(dictionary, asked)
        self.absent.update((dictionary, name) for name in asked if name not in ids)
        return ids

    def claim(self, dictionary: Dictionary, name: str) -> int:
        """See `Names.claim`."""
        number = super().claim(dictionary, name)
        self.absent.discard((dictionary, name))
        return number

    def name_of(self, dictionary: Dictionary, number: int) -> str:
        """See `Names.name_of`."""
        name = self._cache.name_of(dictionary, number)
        if name is not None:
            return name
        if self._batches or self.kept:
            batches = [*self._batches.values(), *self.kept.values()]
            self._batches.clear()
            self.kept.clear()
            self.look_up(batches)
        return super().name_of(dictionary, number)

    def look_up(self, batches: Iterable[tuple[TableSchema, Iterable[Row]]]) -> None:
        """Looks up the names of the ids in rows of some models, so that they are cached. Rows that cannot be decoded
        are left to the call that reads them.
        """
        collected = _CollectedIds()
        bound = bind_names(collected)
        try:
            for schema, rows in batches:
                named = frozenset(f.name for f in schema.columns if isinstance(f.codec, Dictionary))
                values = RowDecoder.of(schema, indexed=False, names=named).values
                for row in rows:
                    with suppress(HbmodelError):
                        values(row)
        finally:
            unbind_names(bound)
        for dictionary, numbers in collected.numbers.items():
            self.find_names(dictionary, numbers)


class _CollectedIds:
    """Collects the ids that are decoded, and gives each the same name."""

    def __init__(self) -> None:
        self.numbers: dict[Dictionary, dict[int, None]] = defaultdict(dict)

    def id_of(self, dictionary: Dictionary, name: str) -> int:
        """Not called: nothing is encoded."""
        raise AssertionError(name)

    claim = id_of

    def name_of(self, dictionary: Dictionary, number: int) -> str:
        """Collects an id."""
        self.numbers[dictionary][number] = None
        return "a"


class NamedRows(FoldedStore):
    """A view of a store for a model with dictionaries. It passes the rows of the model to `SessionNames`.

    Args:
        store: the store.
        schema: the schema of the model.
        names: the names of the session.
        pages: how much of a wide row is read at once.
    """

    def __init__(self, store: Store, schema: TableSchema, names: SessionNames, pages: PageSizes = PAGE_SIZES) -> None:
        super().__init__(store, [] if schema.wide_rows is None else [schema.wide_rows], pages)
        self._schema, self._names = schema, names

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        """See `Store.get`."""
        return self._got(table, super().get(table, rows, columns))

    def get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        """See `Store.get_each`."""
        return self._got(table, super().get_each(table, gets))

    def _got(self, table: str, rows: Sequence[Row | None]) -> Sequence[Row | None]:
        # Many calls, for example deletes, do not need the names in the rows that they read.
        if len(rows) > 1 and table == self._schema.table:
            self._names.got(self._schema, [row for row in rows if row is not None])
        return rows

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        """See `Store.scan`."""
        started = super().scan(table, scans)
        if table != self._schema.table:
            return started
        return [_Expected(self._names, self._schema, batches) for batches in started]

    def scan_columns(
        self, table: str, scans: Sequence[Scan], columns: Sequence[Interval]
    ) -> Sequence[Iterator[Sequence[Row]]]:
        """See `FoldedStore.scan_columns`."""
        started = super().scan_columns(table, scans, columns)
        return [_Expected(self._names, self._schema, batches) for batches in started]

    def slices(self, table: str, scan: SliceScan) -> Iterator[Sequence[Row]]:
        """See `FoldedStore.slices`."""
        return _Expected(self._names, self._schema, super().slices(table, scan))


class _Expected(Iterator[Sequence[Row]]):
    """The batches of a scan. The latest batch is passed to the names of the session."""

    def __init__(self, names: SessionNames, schema: TableSchema, batches: Iterator[Sequence[Row]]) -> None:
        self._names, self._schema, self._batches = names, schema, batches

    def __next__(self) -> Sequence[Row]:
        try:
            batch = next(self._batches)
        except BaseException:
            self._names.ended(self)
            raise
        self._names.expect(self, self._schema, batch)
        return batch

    def close(self) -> None:
        """Ends the scan early."""
        self._names.ended(self)
        close_scan(self._batches)
