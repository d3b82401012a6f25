"""Removes old markers of deleted rows, and entries that crashes have left without a row, as sans-IO generators (rules 4
and 6).

If an interrupted writer has left a correct entry of a covering index unverified, the entry is put again as verified. An
entry whose covered values are not those of its row is put again, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from hbmodel.mapping.rows.entries_of_row import entry_families
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.indexed.index_build import RowIndexer
from hbmodel.protocol.indexed.index_verify import Entry, differing, expires, newest_time
from hbmodel.protocol.indexed.indexed_plan import DEAD
from hbmodel.protocol.operations import (
    CheckAndMutate,
    CheckAndMutateRows,
    DeleteRows,
    GetRows,
    Protocol,
    PutRows,
    ReadClock,
)
from hbmodel.store.values import Cell, ConditionalChange, Delete, Put, Row


def repair_entries(indexer: RowIndexer, index: Index, entries: Sequence[Entry], grace: int) -> Protocol[list[Entry]]:
    """Deletes entries that match no row, and marks of deleted entries, each up to its own timestamp. Returns the
    deleted entries and marks.

    An entry is deleted only under two conditions. The entry and its row must be older than the grace time, so that the
    row's writers have ended. And the row must be read again after this check, and must still not have the entry.
    Entries of rows that expire are not deleted. The entries must just have been read; `grace` is in ms.
    """
    odd = yield from differing(indexer, index, entries)
    if not odd:
        return []
    now = yield ReadClock()
    old = [entry for entry, row in odd if not expires(indexer, row) and now - newest_time(indexer, entry, row) > grace]
    if not old:
        return []
    again = yield from differing(indexer, index, old)
    # If a row has changed since the first read, the program that changed it takes care of its entries.
    stale = [
        entry for entry, row in again if not expires(indexer, row) and now - newest_time(indexer, entry, row) > grace
    ]
    if stale:
        families = entry_families(indexer.schema, index)
        yield DeleteRows(
            index.table, [Delete(entry.key, families=families, timestamp=entry.timestamp) for entry in stale]
        )
    return stale


def reverify_entries(indexer: RowIndexer, index: Index, entries: Sequence[Entry], grace: int) -> Protocol[list[Entry]]:
    """Puts entries of a covering index again as verified, if a writer that stopped or crashed has left a mark on them,
    or if their covered values are not those of their rows. Returns these entries.

    An entry is put only under two conditions. The entry and its row must be older than the grace time, so that the
    writer that left the mark has ended. And the row must be read again after this check, and must be unchanged. The
    whole entry is put, with the mark's timestamp. A later writer gives its mark a later timestamp, so that mark takes
    effect.

    Args:
        entries: the entries, which must just have been read and must be current entries of their rows.
    """
    schema = indexer.schema
    rows_of = KeyMapper(schema).rows_of_entry_code(index)
    by_row = {rows_of(entry.key)[0]: entry for entry in entries}
    if not by_row:
        return []
    rows: Sequence[Row | None] = yield GetRows(schema.table, list(by_row), indexer.columns)
    now = yield ReadClock()
    seen = {
        key: row for key, row in zip(by_row, rows, strict=True) if now - newest_time(indexer, by_row[key], row) > grace
    }
    if not seen:
        return []
    again: Sequence[Row | None] = yield GetRows(schema.table, list(seen), indexer.columns)
    puts: dict[bytes, Put] = {}
    for key, row in zip(seen, again, strict=True):
        before, current, entry = indexer.of(seen[key]), indexer.of(row), by_row[key]
        if before is None or current is None or before.version != current.version or expires(indexer, row):
            continue
        for table, put in current.entries:
            if (table, put.row) == (index.table, entry.key):
                puts[put.row] = evolve(put, timestamp=max(entry.timestamp, current.version))
    if puts:
        yield PutRows(index.table, list(puts.values()))
    return [entry for entry in entries if entry.key in puts]


def purge_markers(
    schema: TableSchema, rows: Sequence[Row], grace: int, delete: bool = True, *, checks: bool = False
) -> Protocol[list[bytes]]:
    """Deletes the markers of deleted rows that are older than the grace time, each at exactly the timestamp of the
    marker. Returns the keys of these rows.

    Args:
        schema: the schema of the model. Its table must not be in adoption, where only a marker distinguishes a deleted
            row from a row without system cells.
        rows: the rows, which must just have been read, with at least the liveness cell.
        delete: if False, nothing is deleted; the row keys that would be deleted are returned.
        checks: whether the store can delete a row under the condition that it still has its marker. A put with the
            timestamp of the marker may arrive at any moment, from a program that was paused for longer than the grace
            time. An unconditional delete of the marker would then remove the put's cells too.
    """
    markers = {row.row: cell for row in rows if (cell := marker_of(schema, row)) is not None}
    if not markers:
        return []
    now = yield ReadClock()
    old = {row: cell for row, cell in markers.items() if now - cell.timestamp > grace}
    if not old:
        return []
    again: Sequence[Row | None] = yield GetRows(schema.table, list(old), (schema.liveness_column,))
    kept_columns = () if schema.wide is None else schema.kept_columns
    still = {row: old[row] for row, reread in zip(old, again, strict=True) if _is_still(schema, old[row], reread)}
    if not still or not delete:
        return list(still)
    deletes = [
        Delete(row, families=schema.family_names, columns=kept_columns, timestamp=cell.timestamp)
        for row, cell in still.items()
    ]
    if not checks and not schema.versioned:  # a write of a versioned row may depend on the marker that it has read
        yield DeleteRows(schema.table, deletes)
        return list(still)
    changes = [ConditionalChange(gone.row, schema.liveness_column, still[gone.row].value, [gone]) for gone in deletes]
    applied: Sequence[bool | None]
    if len(changes) == 1:
        (one,) = changes
        applied = [(yield CheckAndMutate(schema.table, one.row, one.column, one.expected, one.mutations))]
    else:
        applied = yield CheckAndMutateRows(schema.table, changes)
    return [change.row for change, went_through in zip(changes, applied, strict=True) if went_through]


def marker_of(schema: TableSchema, row: Row | None) -> Cell | None:
    """Returns the liveness cell of a dead row, or None."""
    cell = None if row is None else row.columns.get(schema.liveness_column)
    return cell if cell is not None and cell.value.startswith(DEAD) else None


def _is_still(schema: TableSchema, marker: Cell, row: Row | None) -> bool:
    current = marker_of(schema, row)
    return current is not None and (current.timestamp, current.value) == (marker.timestamp, marker.value)
