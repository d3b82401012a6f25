"""Compares an index with its table in both directions, as sans-IO generators that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from hbmodel.errors import DecodingError
from hbmodel.mapping.rows.covering import is_bare, is_verified
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.expiry import end_of_live
from hbmodel.protocol.indexed.index_build import RowEntries, RowIndexer
from hbmodel.protocol.operations import GetRows, Protocol, ReadClock
from hbmodel.store.values import Row

LOOKS = 5
"""The number of times that a row is read if it changes during the check. After that, the row is left to its writers."""


@frozen
class Entry:
    """An entry that was found in an index.

    Attributes:
        timestamp: the timestamp of the newest cell of the entry, marks included, in ms.
        bare: whether only a mark is left of the entry.
        unverified: whether the entry belongs to a covering index and is not verified, so that its row must be read.
    """

    key: bytes
    timestamp: int
    bare: bool = False
    unverified: bool = False

    @classmethod
    def of(cls, schema: TableSchema, index: Index, row: Row) -> Entry:
        """Returns an entry that was read with `RowIndexer.entry_columns`."""
        bare = is_bare(schema, row)
        unverified = index.name in schema.covering and not bare and not is_verified(schema, row)
        return cls(row.row, max(cell.timestamp for cell in row.columns.values()), bare, unverified)


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
    odd = yield from differing(indexer, index, entries)
    now = yield ReadClock()
    wrong = {entry.key for entry, _ in odd}
    unverified = [
        entry for entry in entries if entry.unverified and entry.key not in wrong and now - entry.timestamp > grace
    ]
    marks = [entry for entry, row in odd if entry.bare and now - newest_time(indexer, entry, row) > grace]
    odd = [(entry, row) for entry, row in odd if not entry.bare]
    expiring = [entry for entry, row in odd if expires(indexer, row)]
    rest = [(entry, row) for entry, row in odd if not expires(indexer, row)]
    old = [entry for entry, row in rest if now - newest_time(indexer, entry, row) > grace]
    return EntryFindings(old, [entry for entry, _ in rest if entry not in old], expiring, unverified, marks)


def differing(indexer: RowIndexer, index: Index, entries: Sequence[Entry]) -> Protocol[list[tuple[Entry, Row | None]]]:
    """Returns the entries that are not current entries of their rows, each with its row as it was read."""
    schema = indexer.schema
    rows_of = KeyMapper(schema).rows_of_entry_code(index)
    rows = [_row_of(rows_of, entry.key) for entry in entries]
    wanted = [row for row in dict.fromkeys(rows) if row is not None]
    got: Sequence[Row | None] = (yield GetRows(schema.table, wanted, indexer.columns)) if wanted else ()
    primary_rows: dict[bytes | None, Row | None] = {None: None, **dict(zip(wanted, got, strict=True))}
    expected = {key: indexer.of(row) for key, row in primary_rows.items()}
    return [
        (entry, primary_rows[row])
        for entry, row in zip(entries, rows, strict=True)
        if not _has(expected[row], index, entry.key)
    ]


def _row_of(rows_of: Callable[[bytes], Sequence[bytes]], entry: bytes) -> bytes | None:
    """Returns the row key that an entry points to, or None for an entry that no row can have."""
    try:
        return rows_of(entry)[0]
    except DecodingError:
        return None


def _has(expected: RowEntries | None, index: Index, entry: bytes) -> bool:
    """Returns whether a row has an entry. Returns True if the entries of the row cannot be made."""
    if expected is None:
        return False
    return expected.error is not None or any(
        table == index.table and put.row == entry for table, put in expected.entries
    )


def expires(indexer: RowIndexer, row: Row | None) -> bool:
    """Returns whether a row expires. If it does, older cells of the row may become visible."""
    return row is not None and end_of_live(row, indexer.schema.liveness_column) is not None


def newest_time(indexer: RowIndexer, entry: Entry, row: Row | None) -> int:
    """Returns the timestamp of an entry or of the version of its row, whichever is later."""
    system = (indexer.schema.version_column, indexer.schema.liveness_column)
    times = [] if row is None else [row.columns[column].timestamp for column in system if column in row.columns]
    return max([entry.timestamp, *times])
