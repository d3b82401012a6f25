"""A store that keeps rows as objects of wide rows: each row key is cut after some bytes, and the rest is in the
qualifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.encoding.codecs.text import escape, terminated, unescape_part
from hbmodel.encoding.object_keys import ObjectKeyForm, PrefixEnd
from hbmodel.errors import DecodingError
from hbmodel.store import Cell, ConditionalChange, ConditionalPut, Delete, Family, Get, Put, Region, Row, Scan, Store
from hbmodel.store.checks.reads import check_scans
from hbmodel.store.checks.rows import check_row
from hbmodel.store.filters import And, Filter, Or, RowContains
from hbmodel.store.port import BegunPut, RepeatingStore, change_and_get, check_and_put_each, read_versions
from hbmodel.store.ranges import KeyRange
from hbmodel.store.wide.folded import FoldedStore
from hbmodel.store.wide.object_filters import object_filter
from hbmodel.store.wide.page_sizes import PageSizes
from hbmodel.store.wide.wide_rows import ObjectRow, WideRows
from hbmodel.store.wrapping import WrappingStore
from tests.support.sizes import SMALL_PAGES

KIND = b"p"


def end_of_text(kind: bytes) -> PrefixEnd:
    """Returns the end of the only column field of a model, which is terminated text."""

    def prefix_end(qualifier: bytes) -> int | None:
        if not qualifier.startswith(kind):
            return None
        try:
            return unescape_part(qualifier, len(kind))[1]
        except DecodingError:
            return None

    return prefix_end


def wide_rows(table: str, family: bytes, columns: Sequence[bytes] = (), kind: bytes = KIND) -> WideRows:
    """Returns the wide rows of a model with a row part and a column part, which are both terminated text."""
    return WideRows(table, family, ObjectKeyForm(kind=kind), end_of_text(kind), columns)


@frozen
class Cut:
    """Row keys as object keys: the first bytes as the row, the rest as the column part."""

    length: int

    def place(self, row: bytes) -> bytes:
        return terminated(row[: self.length]) + terminated(row[self.length :])

    def row(self, place: bytes) -> bytes:
        first, end = unescape_part(place, 0)
        rest, _ = unescape_part(place, end)
        return first + rest

    def bound(self, row: bytes) -> bytes:
        """Returns a lower bound for the object keys of this row and of all later rows."""
        if len(row) <= self.length:
            return escape(row)
        return terminated(row[: self.length]) + escape(row[self.length :])

    def range(self, rows: KeyRange) -> KeyRange:
        return KeyRange(
            self.bound(rows.start), None if rows.stop is None else (self.bound(rows.stop) if rows.stop else b"")
        )


def _looks_at_keys(filter: Filter | None) -> bool:
    """Returns whether a filter needs the unchanged row keys instead of object keys."""
    match filter:
        case RowContains():
            return True
        case And(filters) | Or(filters):
            return any(map(_looks_at_keys, filters))
        case _:
            return False


class CutStore(WrappingStore):
    """A store whose tables with one family are wide, except index tables and the registry. Its users do not notice
    this.

    Args:
        store: the store with the tables.
        length: the number of bytes of a row key before the cut.
        folds: decides which tables are cut.
        columns: the columns that an object may have; a delete of a row does not hide late puts into other columns.
    """

    def __init__(
        self,
        store: Store,
        length: int,
        *,
        folds: Callable[[str], bool] = lambda table: "." not in table and table != "hbmodel",
        columns: Sequence[bytes] = (),
        pages: PageSizes = SMALL_PAGES,
        known: dict[str, FoldedStore | None] | None = None,
    ) -> None:
        super().__init__(store)
        self.cut = Cut(length)
        self._arguments: dict[str, Any] = {"folds": folds, "columns": columns, "pages": pages}
        self._known = {} if known is None else known

    def on_retry(self, repeated: Callable[[], None]) -> Store:
        store = self._store
        return (
            CutStore(store.on_retry(repeated), self.cut.length, **self._arguments)
            if isinstance(store, RepeatingStore)
            else self
        )

    def _folded(self, table: str) -> FoldedStore | None:
        if table not in self._known:
            if not self._arguments["folds"](table):
                self._known[table] = None
            else:
                families = self._store.families(table)  # a table that does not exist has none
                wide = wide_rows(table, families[0].name, self._arguments["columns"])
                folded = FoldedStore(self._store, [wide], pages=self._arguments["pages"])
                self._known[table] = folded if len(families) == 1 else None
        return self._known[table]

    def delete_table(self, table: str) -> None:
        self._known.pop(table, None)
        self._store.delete_table(table)

    def add_family(self, table: str, family: Family) -> None:
        self._known.pop(table, None)
        self._store.add_family(table, family)

    def families(self, table: str) -> list[Family]:
        return self._store.families(table)

    def regions(self, table: str) -> list[Region]:
        return self._store.regions(table)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _shown(self, row: Row | None) -> Row | None:
        return None if row is None else ObjectRow(self.cut.row(row.row), row.columns)

    def _placed(self, row: bytes) -> bytes:
        check_row("", row)  # object keys may be longer
        return self.cut.place(row)

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        folded = self._folded(table)
        if folded is None:
            return self._store.get(table, rows, columns)
        return [self._shown(row) for row in folded.get(table, [self._placed(row) for row in rows], columns)]

    def get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        folded = self._folded(table)
        if folded is None:
            return self._store.get_each(table, gets)
        return [
            self._shown(row) for row in folded.get_each(table, [evolve(get, row=self._placed(get.row)) for get in gets])
        ]

    def versions(self, table: str, row: bytes, columns: Sequence[bytes], most: int) -> Sequence[Sequence[Cell]]:
        folded = self._folded(table)
        if folded is None:
            return read_versions(self._store, table, row, columns, most)
        return folded.versions(table, self._placed(row), columns, most)

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        folded = self._folded(table)
        if folded is None:
            return self._store.scan(table, scans)
        check_scans(table, scans)
        asked = [evolve(scan, range=self.cut.range(scan.range)) for scan in scans]
        here = [scan.filter if _looks_at_keys(scan.filter) else None for scan in scans]
        asked = [
            scan if filter is None else evolve(scan, filter=None, limit=None)
            for scan, filter in zip(asked, here, strict=True)
        ]
        found = folded.scan(table, asked)
        return [self._batches(batches, scan, filter) for batches, scan, filter in zip(found, scans, here, strict=True)]

    def _batches(self, batches: Any, scan: Scan, filter: Filter | None) -> Iterator[Sequence[Row]]:
        passing = object_filter(filter, scan.reversed) or (lambda row: row)
        left = -1 if filter is None or scan.limit is None else scan.limit
        try:
            if left == 0:
                return
            for batch in batches:
                shown = [ObjectRow(self.cut.row(row.row), row.columns) for row in batch]
                kept = [passed for row in shown if (passed := passing(row)) is not None]
                if kept:
                    yield kept if left < 0 else kept[:left]
                if 0 <= left <= len(kept):
                    return
                left -= len(kept) if left > 0 else 0
        finally:
            batches.close()

    # --- writing ------------------------------------------------------------------------------------------------------

    def _moved(self, mutations: Sequence[Any]) -> list[Any]:
        return [evolve(mutation, row=self._placed(mutation.row)) for mutation in mutations]

    def _plain(self, table: str) -> Any:
        return self._folded(table) or self._store

    def put(self, table: str, puts: Sequence[Put]) -> None:
        self._plain(table).put(table, puts if self._folded(table) is None else self._moved(puts))

    def begin_put(self, table: str, puts: Sequence[Put]) -> BegunPut:
        folded = self._folded(table) or FoldedStore(self._store, [])
        begun: BegunPut = folded.begin_put(table, puts if self._folded(table) is None else self._moved(puts))
        return begun

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        self._plain(table).delete(table, deletes if self._folded(table) is None else self._moved(deletes))

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        self._plain(table).mutate_row(table, mutations if self._folded(table) is None else self._moved(mutations))

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        folded = self._folded(table)
        if folded is None:
            return self._store.check_and_put(table, row, column, expected, put)
        return folded.check_and_put(table, self._placed(row), column, expected, self._moved([put])[0])

    def check_and_put_each(self, table: str, puts: Sequence[ConditionalPut]) -> Sequence[bool]:
        folded = self._folded(table)
        moved = puts if folded is None else [evolve(each, put=self._moved([each.put])[0]) for each in puts]
        return check_and_put_each(folded or self._store, table, moved)

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        folded = self._folded(table)
        if folded is None:
            return self._store.check_and_mutate(table, row, column, expected, mutations)
        return folded.check_and_mutate(table, self._placed(row), column, expected, self._moved(mutations))

    def change_and_get(
        self, table: str, change: ConditionalChange | ConditionalPut, columns: Sequence[bytes]
    ) -> tuple[bool, Sequence[Row | None] | None]:
        folded = self._folded(table)
        if folded is None:
            return change_and_get(self._store, table, change, columns)
        if isinstance(change, ConditionalPut):
            moved: ConditionalChange | ConditionalPut = evolve(change, put=self._moved([change.put])[0])
        else:
            moved = evolve(change, row=self._placed(change.row), mutations=self._moved(change.mutations))
        applied, rows = change_and_get(folded, table, moved, columns)
        return applied, None if rows is None else [self._shown(row) for row in rows]

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        folded = self._folded(table)
        if folded is None:
            return self._store.check_and_mutate_many(table, changes)
        moved = [
            evolve(change, row=self._placed(change.row), mutations=self._moved(change.mutations)) for change in changes
        ]
        return folded.check_and_mutate_many(table, moved)

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        folded = self._folded(table)
        if folded is None:
            return self._store.increment(table, row, column, amount)
        return folded.increment(table, self._placed(row), column, amount)
