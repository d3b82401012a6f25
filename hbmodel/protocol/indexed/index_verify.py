"""Compares an index with its table in both directions, as sans-IO generators that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from hbmodel.errors import DecodingError
from hbmodel.mapping.rows.covering import is_bare, is_verified
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.schema import Field, Index, TableSchema
from hbmodel.protocol.expiry import end_of_live
from hbmodel.protocol.indexed.index_build import RowEntries, RowIndexer
from hbmodel.protocol.operations import GetRows, Protocol, ReadClock
from hbmodel.store.values import Put, Row

LOOKS = 5
"""The number of times that a row is read if it changes during the check. After that, the row is left to its writers."""


@frozen
class Entry:
    """An entry that was found in an index.

    Attributes:
        timestamp: the timestamp of the newest cell of the entry, marks included, in ms.
        bare: whether only a mark is left of the entry.
        unverified: whether the entry belongs to a covering index and is not verified, so that its row must be read.
        covered: the values of the cells of covered columns, by column.
    """

    key: bytes
    timestamp: int
    bare: bool = False
    unverified: bool = False
    covered: Mapping[bytes, bytes] = field(factory=dict, hash=False)

    @classmethod
    def of(cls, schema: TableSchema, index: Index, row: Row) -> Entry:
        """Returns an entry that was read with `RowIndexer.entry_columns`."""
        bare = is_bare(schema, row)
        unverified = index.name in schema.covering and not bare and not is_verified(schema, row)
        columns = [schema.by_name[name].column for name in index.covers if index.name in schema.covering]
        covered = {column: row.columns[column].value for column in columns if column in row.columns}
        return cls(row.row, max(cell.timestamp for cell in row.columns.values()), bare, unverified, covered)


@frozen(eq=False)
class RowFindings:
    """The findings about rows.

    Attributes:
        refused: rows whose entries cannot be made.
    """

    live: int
    missing: Sequence[RowEntries]
    refused: Sequence[RowEntries]


@frozen(eq=False)
class EntryFindings:
    """The findings about entries.

    Attributes:
        stale: entries that match no current row, and are old enough for repair.
        pending: entries that match no current row but are younger, so that a writer may still put the row.
        expiring: entries that do not match a row that will expire. They are not deleted: when the row expires, older
            cells that they match may become visible.
        unverified: correct entries, old enough for repair, that are not verified because a writer was interrupted.
        bare: marks of deleted entries, old enough for repair. No query reads them.
    """

    stale: Sequence[Entry]
    pending: Sequence[Entry]
    expiring: Sequence[Entry]
    unverified: Sequence[Entry] = ()
    bare: Sequence[Entry] = ()
    outdated: Sequence[Entry] = ()


@frozen(eq=False)
class ComparedEntry:
    """An entry and what its row says about it.

    Attributes:
        row: the row that the entry points to, as it was read; None if there is no such row.
        put: the put of the current entry with the same key; None if the row has no such entry, or if its entries cannot
            be made.
        current: whether the row has such an entry. It is True if the entries of the row cannot be made.
    """

    entry: Entry
    row: Row | None
    put: Put | None
    current: bool


def find_missing(indexer: RowIndexer, rows: Sequence[Row]) -> Protocol[RowFindings]:
    """Looks for the entries of rows that have just been read.

    A writer puts the entries before the row, so a row that was read has its entries, unless the row has changed since.
    If an entry seems to be missing, its row is read again: the entry is missing only if the row is still the same.

    Args:
        rows: rows read with the `columns` of the indexer.
    """
    schema = indexer.schema
    expected = [entries for row in rows if (entries := indexer.of(row)) is not None]
    live, refused = len(expected), [entries for entries in expected if entries.error is not None]
    missing: list[RowEntries] = []
    for look in range(LOOKS):
        lacking = yield from _lacking(indexer, expected)
        if not lacking:
            break
        again: Sequence[Row | None] = yield GetRows(schema.table, [entries.row for entries in lacking], indexer.columns)
        expected = []
        for before, row in zip(lacking, again, strict=True):
            now = indexer.of(row)
            if now is not None and _same(before, now):
                missing.append(now)
            elif now is not None and look + 1 < LOOKS:
                expected.append(now)
    return RowFindings(live, missing, refused)


def _lacking(indexer: RowIndexer, expected: Sequence[RowEntries]) -> Protocol[list[RowEntries]]:
    """Returns the rows that lack an entry."""
    version = indexer.schema.version_column
    lacking: dict[bytes, RowEntries] = {}
    for index in indexer.indexes:
        wanted = [(entries, put.row) for entries in expected for table, put in entries.entries if table == index.table]
        if wanted:
            rows_read = yield GetRows(index.table, [entry for _, entry in wanted], (version,))
            lacking.update(
                (entries.row, entries) for (entries, _), row in zip(wanted, rows_read, strict=True) if row is None
            )
    return list(lacking.values())


def _same(one: RowEntries, other: RowEntries) -> bool:
    """Returns whether no value of the row that an index uses was written between two reads of the row."""
    return one.version == other.version and [(t, p.row, p.cells) for t, p in one.entries] == [
        (t, p.row, p.cells) for t, p in other.entries
    ]


def find_stale(indexer: RowIndexer, index: Index, entries: Sequence[Entry], grace: int) -> Protocol[EntryFindings]:
    """Compares entries, which must just have been read, with the rows to which they point. `grace` is in ms."""
    compared = yield from compare(indexer, index, entries)
    now: int = yield ReadClock()

    def is_old(one: ComparedEntry) -> bool:
        return now - newest_time(indexer, one.entry, one.row) > grace

    right = [one for one in compared if one.current]
    unverified = [one.entry for one in right if one.entry.unverified and now - one.entry.timestamp > grace]
    outdated = [
        one.entry for one in right if not one.entry.unverified and is_outdated(indexer, index, one) and is_old(one)
    ]
    odd = [one for one in compared if not one.current]
    marks = [one.entry for one in odd if one.entry.bare and is_old(one)]
    odd = [one for one in odd if not one.entry.bare]
    expiring = [one.entry for one in odd if expires(indexer, one.row)]
    rest = [one for one in odd if not expires(indexer, one.row)]
    stale = [one.entry for one in rest if is_old(one)]
    pending = [one.entry for one in rest if not is_old(one)]
    return EntryFindings(stale, pending, expiring, unverified, marks, outdated)


def differing(indexer: RowIndexer, index: Index, entries: Sequence[Entry]) -> Protocol[list[tuple[Entry, Row | None]]]:
    """Returns the entries that are not current entries of their rows, each with its row as it was read."""
    compared = yield from compare(indexer, index, entries)
    return [(one.entry, one.row) for one in compared if not one.current]


def compare(indexer: RowIndexer, index: Index, entries: Sequence[Entry]) -> Protocol[list[ComparedEntry]]:
    """Reads the rows to which entries point, and returns the entries with their rows, in the given order."""
    schema = indexer.schema
    rows_of = KeyMapper(schema).rows_of_entry_code(index)
    rows = [_row_of(rows_of, entry.key) for entry in entries]
    wanted = [row for row in dict.fromkeys(rows) if row is not None]
    got: Sequence[Row | None] = (yield GetRows(schema.table, wanted, indexer.columns)) if wanted else ()
    primary_rows: dict[bytes | None, Row | None] = {None: None, **dict(zip(wanted, got, strict=True))}
    expected = {key: indexer.of(row) for key, row in primary_rows.items()}
    return [_compared(index, entry, primary_rows[row], expected[row]) for entry, row in zip(entries, rows, strict=True)]


def _row_of(rows_of: Callable[[bytes], Sequence[bytes]], entry: bytes) -> bytes | None:
    """Returns the row key that an entry points to, or None for an entry that no row can have."""
    try:
        return rows_of(entry)[0]
    except DecodingError:
        return None


def _compared(index: Index, entry: Entry, row: Row | None, expected: RowEntries | None) -> ComparedEntry:
    if expected is None:
        return ComparedEntry(entry, row, None, False)
    puts = (put for table, put in expected.entries if table == index.table and put.row == entry.key)
    put = next(puts, None)
    return ComparedEntry(entry, row, put, put is not None or expected.error is not None)


def is_outdated(indexer: RowIndexer, index: Index, one: ComparedEntry) -> bool:
    """Returns whether an entry contains other values than its row, for example after the default of a covered column
    was changed. Only entries that queries may use without their rows are compared, and not those of rows that expire.
    """
    if index.name not in indexer.schema.covering or one.put is None or expires(indexer, one.row):
        return False
    for name in index.covers:
        covered = indexer.schema.by_name[name]
        old, new = one.entry.covered.get(covered.column), one.put.cells.get(covered.column)
        if old != new and not _same_value(covered, old, new):
            return True
    return False


def _same_value(covered: Field, old: bytes | None, new: bytes | None) -> bool:
    """Returns whether two different cells have the same value: several encodings of a value may exist, for example of
    a set.
    """
    try:
        return bool(_value(covered, old) == _value(covered, new))
    except DecodingError:
        return False


def _value(covered: Field, cell: bytes | None) -> Any:
    """Returns the value that a query reads from the cell of an entry."""
    if cell is not None and (cell or not covered.empty_is_missing):
        return covered.decode_cell(cell)
    if covered.required:
        raise DecodingError("The entry lacks a covered column.", field=covered.name)
    return covered.default_value()


def expires(indexer: RowIndexer, row: Row | None) -> bool:
    """Returns whether a row expires. If it does, older cells of the row may become visible."""
    return row is not None and end_of_live(row, indexer.schema.liveness_column) is not None


def newest_time(indexer: RowIndexer, entry: Entry, row: Row | None) -> int:
    """Returns the timestamp of an entry or of the version of its row, whichever is later."""
    system = (indexer.schema.version_column, indexer.schema.liveness_column)
    times = [] if row is None else [row.columns[column].timestamp for column in system if column in row.columns]
    return max([entry.timestamp, *times])
