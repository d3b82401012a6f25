"""Index entries held against the rows that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain

from attrs import frozen

from hbmodel.mapping.mapper import KeyMapper, RowDecoder, Values
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.operations import GetRows, Protocol
from hbmodel.store.values import Row


@frozen(eq=False)
class EntryVerifier:
    """Decides which index entries stand for a row (rule 5): no memory, no clock, and readers never delete.

    Attributes:
        schema: of the model.
        index: that is read.
        reader: decodes the primary rows; its fields include the index's and the predicate's.
        accepts: the query's predicate, over the values of the primary row.
    """

    schema: TableSchema
    index: Index
    reader: RowDecoder
    accepts: Callable[[Values], bool]

    @cached_property
    def _entry_of(self) -> Callable[[Values, bytes], bytes]:
        """The function from a row's values and key to its entry in the index."""
        return KeyMapper(self.schema).entry_code(self.index)

    def verify(self, entries: Sequence[bytes]) -> Protocol[list[Values | None]]:
        """The values of the row behind each entry, or None for an entry that must not be returned.

        One multi-get for all of them. An entry counts if and only if its row is live, satisfies the predicate and has exactly
        this entry as its current one; a row has one entry in an index, so it comes once. Under a random salt the newest of
        the rows with the same key is the object.
        """
        candidates = list(map(KeyMapper(self.schema).rows_of_entry_code(self.index), entries))
        wanted = list(dict.fromkeys(chain.from_iterable(candidates)))
        if not wanted:
            return []
        got: Sequence[Row | None] = yield GetRows(self.schema.table, wanted, self.reader.columns)
        exists = self.reader.exists
        found = {row.row: row for row in got if row is not None and exists(row)}
        if self.schema.salt.random:
            current = [newest_of([found[row] for row in rows if row in found]) for rows in candidates]
        else:
            current = [found.get(row) for (row,) in candidates]
        return [None if row is None else self._decide(entry, row) for entry, row in zip(entries, current, strict=True)]

    def _decide(self, entry: bytes, row: Row) -> Values | None:
        values = self.reader.values(row)
        if self._entry_of(values, row.row) != entry or not self.accepts(values):
            return None
        return values


def newest_of(rows: Sequence[Row]) -> Row | None:
    """The `newest` of the rows that may stand for one object, or None where there is none."""
    if len(rows) > 1:
        return newest(rows)
    return rows[0] if rows else None


def newest(rows: Iterable[Row]) -> Row:
    """The row with the newest cell; of equals the one with the greatest key, so that every reader picks the same."""
    return max(rows, key=lambda row: (max(cell.timestamp for cell in row.columns.values()), row.row))
