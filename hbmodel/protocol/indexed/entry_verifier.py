"""Compares index entries with their rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from attrs import field, frozen

from hbmodel.mapping.rows.covering import EntryDecoder, is_bare, verified_test
from hbmodel.mapping.rows.entries_of_row import Entries
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder, Values
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.operations import GetRows, Protocol
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Row


@frozen(eq=False)
class EntryScope:
    """All entries that a query requests. They are the same for each page and each part of the query, and in both
    directions.

    Attributes:
        ranges: the ranges of entry keys, including the salt. They are disjoint.
        width: the width of the salt, which the order of entries ignores.
        passes: tests the key of an entry for the other conditions of the query; None if there are none.
    """

    ranges: Sequence[KeyRange]
    width: int = 0
    passes: Callable[[bytes], bool] | None = None

    @cached_property
    def _sorted(self) -> tuple[list[bytes], list[KeyRange]]:
        ranges = sorted(self.ranges, key=lambda key_range: key_range.start)
        return [key_range.start for key_range in ranges], ranges

    def __contains__(self, entry: bytes) -> bool:
        starts, ranges = self._sorted
        at = bisect_right(starts, entry)
        return bool(at) and entry in ranges[at - 1] and (self.passes is None or self.passes(entry))

    def first(self, entries: Iterable[bytes]) -> bytes | None:
        """Returns the first of a row's entries, in key order, that the query requests, or None if it requests none of
        them.

        A reversed scan also uses the first entry in key order, so that the reversed query returns the same items in
        reverse.
        """
        return min((entry for entry in entries if entry in self), key=lambda entry: entry[self.width :], default=None)


@frozen(eq=False)
class EntryVerifier:
    """Decides which index entries match their row (rule 5), without state or a clock; readers never delete.

    Attributes:
        reader: decodes the primary rows; its fields include the fields of the index and of the predicate.
        scope: the entries that the query requests.
        prefix: the common prefix of all entries, if the rest of each entry is the key of its row; otherwise None.
        asked: a function from a row's values and key to its entries in the index. It may leave out entries outside the
            scope. With None, the index's own function is used, which returns all entries.
    """

    schema: TableSchema
    index: Index
    reader: RowDecoder
    accepts: Callable[[Values], bool]
    scope: EntryScope
    prefix: bytes | None = None
    asked: Entries | None = None
    _alike: dict[Any, bool] = field(init=False, repr=False, factory=dict)

    @cached_property
    def _entries_of(self) -> Entries:
        """The function from a row's values and key to its entries in the index. The function returns at least the
        entries in the scope.
        """
        return KeyMapper(self.schema).entries_code(self.index) if self.asked is None else self.asked

    def verify(self, entries: Sequence[bytes]) -> Protocol[list[Values | None]]:
        """Returns the values of the row of each entry, or None for an entry that must not be returned.

        All rows are read by one multi-get. An entry is used if and only if its row is live and satisfies the predicate,
        and the entry is the first of the row's current entries in the query's scope. So each row is returned once. With
        a random salt, the object is the newest of the rows with the same key.
        """
        if self.prefix is not None and all(len(entry) > len(self.prefix) for entry in entries):
            return (yield from self._verify_behind(self.prefix, entries))
        candidates = list(map(KeyMapper(self.schema).rows_of_entry_code(self.index), entries))
        wanted = list(dict.fromkeys(chain.from_iterable(candidates)))
        if not wanted:
            return []
        got: Sequence[Row | None] = yield GetRows(self.schema.table, wanted, self.reader.columns_of_gets)
        exists = self.reader.exists
        live_rows = {row.row: row for row in got if row is not None and exists(row)}
        if self.schema.salt.random:
            current = [newest_of([live_rows[row] for row in rows if row in live_rows]) for rows in candidates]
        else:
            current = [live_rows.get(row) for (row,) in candidates]
        return [None if row is None else self._decide(entry, row) for entry, row in zip(entries, current, strict=True)]

    def _verify_behind(self, prefix: bytes, entries: Sequence[bytes]) -> Protocol[list[Values | None]]:
        """Verifies entries with a common prefix.

        Whether the entry of a row has the prefix depends only on the cells of the row's indexed fields, so it is
        decided once for rows with equal cells.
        """
        start = len(prefix)
        got: Sequence[Row | None] = ()
        if entries:
            got = yield GetRows(self.schema.table, [entry[start:] for entry in entries], self.reader.columns_of_gets)
        exists, decode, accepts, alike = self.reader.exists, self.reader.values, self.accepts, self._alike
        first, *rest = [self.schema.by_name[name].column for name in sorted(self.index.reads)]
        verified: list[Values | None] = []
        stored_value: Any
        for entry, row in zip(entries, got, strict=True):
            if row is None or not exists(row):
                verified.append(None)
                continue
            values, cells = decode(row), row.columns
            stored_value = None if (cell := cells.get(first)) is None else cell.value
            if rest:
                stored_value = (
                    stored_value,
                    *(None if (cell := cells.get(column)) is None else cell.value for column in rest),
                )
            if stored_value not in alike:
                alike[stored_value] = self._stands_for(entry, self._entries_of(values, row.row))
            verified.append(values if alike[stored_value] and accepts(values) else None)
        return verified

    def _decide(self, entry: bytes, row: Row) -> Values | None:
        values = self.reader.values(row)
        return values if self._stands_for(entry, self._entries_of(values, row.row)) and self.accepts(values) else None

    def _stands_for(self, entry: bytes, current: Sequence[bytes]) -> bool:
        """Returns whether the query returns the row when it finds this entry. It returns the row only for the first of
        the row's current entries that the query requests.
        """
        if len(current) > 1:
            return self.scope.first(current) == entry
        return len(current) == 1 and current[0] == entry


@frozen(eq=False)
class CoveringReader:
    """Answers queries from verified entries, and for all other entries from their rows (rule 11).

    A verified entry matches its row at the time of the scan, because a writer marks the entry before it changes the
    row.

    Attributes:
        accepts: tests the values in a verified entry for the query's conditions; None if there are none.
    """

    decoder: EntryDecoder
    accepts: Callable[[Values], bool] | None
    verifier: EntryVerifier

    def read(self, entries: Sequence[Row]) -> Protocol[list[Values | None]]:
        """Returns the values of each entry's object, or None for an entry that must not be returned. The rows of all
        unverified entries are read by one multi-get. The entries must have been read with the columns of the decoder.
        """
        decode, accepts, is_verified = self.decoder.values, self.accepts, verified_test(self.decoder.schema)
        verified: list[Values | None] = []
        doubtful: list[int] = []
        for at, entry in enumerate(entries):
            values = None
            if is_verified(entry):
                entry_values = decode(entry)
                if accepts is None or accepts(entry_values):
                    values = entry_values
            elif not is_bare(self.decoder.schema, entry):
                doubtful.append(at)
            verified.append(values)
        if doubtful:
            answers = yield from self.verifier.verify([entries[at].row for at in doubtful])
            for at, values in zip(doubtful, answers, strict=True):
                verified[at] = values
        return verified


def newest_of(rows: Sequence[Row]) -> Row | None:
    """Returns the `newest` of several rows that may contain the same object, or None if there is no row."""
    if len(rows) > 1:
        return newest(rows)
    return rows[0] if rows else None


def newest(rows: Iterable[Row]) -> Row:
    """Returns the row with the newest cell. If several rows are equally new, returns the one with the greatest key.

    So every reader uses the same row.
    """
    return max(rows, key=lambda row: (max(cell.timestamp for cell in row.columns.values()), row.row))
