"""Adds index entries and system cells for existing rows, as a sans-IO generator.

An entry has the timestamp of its row's version. If a writer has changed the row since the builder read it, the writer
has put new entries with later timestamps. The writer's deletes of stale entries have timestamps below those, so they
never hide a current entry (rule 9).
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, field, frozen

from hbmodel.errors import HbmodelError
from hbmodel.mapping.model_field import NO_CELL
from hbmodel.mapping.rows.covering import unverified, verified
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder, check_size, encode_cell
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.mapping.version_cell import LAST_WRITE_WINS, NONCE_LENGTH, entry_version
from hbmodel.protocol.expiry import end_of_adopted, end_of_live, live_value
from hbmodel.protocol.indexed.indexed_batch import by_table
from hbmodel.protocol.operations import CheckLease, GetRows, Protocol, PutRows, ReadClock, Together
from hbmodel.store.values import Put, Row

ADOPTED = LAST_WRITE_WINS + bytes(NONCE_LENGTH)
"""The version cell that index entries get if their row has no version cell: the row is older than the first index, or
is in a table that other programs fill. A row that is adopted also gets this version cell. All builders use the same
version cell, so two builders that process the same row write the same cells.
"""


@frozen(eq=False)
class RowEntries:
    """The index entries of a row.

    Attributes:
        version: the timestamp of the row's version, in ms, which is also the timestamp of the entries.
        entries: puts by index table.
        adoption: the put that adds system cells to a row that is older than the first index, or None.
        error: the reason why the entries cannot be made, or None.
    """

    row: bytes
    version: int
    entries: Sequence[tuple[str, Put]] = ()
    adoption: Put | None = None
    error: HbmodelError | None = None


@frozen(eq=False)
class RowIndexer:
    """Makes the index entries of rows that were read.

    Attributes:
        indexes: the indexes whose entries are made, each with its live table.
        adopting: whether rows without system cells are live too, and get system cells.
        plain: whether rows never have system cells.
        reader: decodes the columns that the indexes read or cover.
    """

    schema: TableSchema
    indexes: Sequence[Index]
    adopting: bool = False
    plain: bool = False
    reader: RowDecoder = field(init=False)
    _keys: KeyMapper = field(init=False)

    def __attrs_post_init__(self) -> None:
        columns = {f.name for f in self.schema.columns if f.kind == "column"}
        used = frozenset(name for index in self.indexes for name in (*index.reads, *index.covers)) & columns
        object.__setattr__(self, "reader", RowDecoder.of(self.schema, not self.plain, used, self.adopting))
        object.__setattr__(self, "_keys", KeyMapper(self.schema))

    @property
    def columns(self) -> Sequence[bytes]:
        """The columns that must be read from a row: all columns if rows without system cells may have to get system
        cells.
        """
        if self.adopting:
            return self.schema.row_columns
        return self.reader.columns if self.plain else tuple(sorted({*self.reader.columns, self.schema.version_column}))

    @property
    def entry_columns(self) -> Sequence[bytes]:
        """The columns that must be read from an entry to compare the entry with its row."""
        schema = self.schema
        covering = [index for index in self.indexes if index.name in schema.covering]
        covered = {schema.by_name[name].column for index in covering for name in index.covers}
        return (schema.version_column, *((schema.status_column, *sorted(covered)) if covering else ()))

    def of(self, row: Row | None) -> RowEntries | None:
        """Returns the entries of a row that was read with `columns`. Returns None if the row is not an object."""
        if row is None or not self.reader.exists(row):
            return None
        schema = self.schema
        end = end_of_adopted(schema, row) if self.adopting else end_of_live(row, schema.liveness_column)
        adoption = self._adoption(row, end)
        version_cell = None if self.plain else row.columns.get(schema.version_column)
        if version_cell is not None:
            version, value = version_cell.timestamp, entry_version(version_cell.value)
        else:
            version, value = self._oldest(row), ADOPTED
        try:
            return RowEntries(row.row, version, self._puts(row, value, version, end), adoption)
        except HbmodelError as error:
            return RowEntries(row.row, version, (), adoption, error)

    def _oldest(self, row: Row, after: int = -1) -> int:
        """Returns the timestamp of the oldest cell whose timestamp exceeds `after`, without system cells. If there is
        no such cell, returns the timestamp of the oldest of all cells.
        """
        is_system = self.schema.is_system
        own = [
            cell.timestamp for column, cell in row.columns.items() if not is_system(column) and cell.timestamp > after
        ]
        return min(own or [cell.timestamp for cell in row.columns.values()])

    def _adoption(self, row: Row, end: int | None) -> Put | None:
        """Returns a put of the system cells that the row lacks, or None.

        These cells get the timestamp of the oldest cell of the row. So every delete of the row has a later timestamp,
        even a delete that is still in progress and was overtaken by an update.
        """
        schema = self.schema
        live = row.columns.get(schema.liveness_column)
        if not self.adopting:
            return None
        cells: dict[bytes, bytes] = {}
        after = -1
        if live is None or end_of_live(row, schema.liveness_column) != end:
            cells[schema.liveness_column] = live_value(end)
            after = -1 if live is None else live.timestamp
        if schema.version_column not in row.columns:
            cells[schema.version_column] = ADOPTED
        timestamp = self._oldest(row, after)
        return Put(row.row, cells, timestamp, None if end is None else end - timestamp) if cells else None

    def _puts(self, row: Row, version: bytes, timestamp: int, end: int | None) -> list[tuple[str, Put]]:
        schema, values = self.schema, self.reader.values(row)
        puts: list[tuple[str, Put]] = []
        for index in self.indexes:
            entries = self._keys.entries(index, values, row.row)
            cells = {schema.version_column: version}
            if index.name in schema.covering:
                cells[schema.status_column] = (
                    verified(version) if index.maintained_by_all and end is None else unverified(version)
                )
            for name in index.covers if entries else ():
                covered = schema.by_name[name]
                cell = encode_cell(schema, covered, values[name])
                check_size(schema, covered, cell, *entries)
                if cell is not NO_CELL:
                    cells[covered.column] = cell
            puts += [
                (index.table, Put(entry, cells, timestamp, None if end is None else end - timestamp))
                for entry in entries
            ]
        return puts


def index_rows(
    indexer: RowIndexer, rows: Sequence[Row], since: int, again: bool = False
) -> Protocol[list[RowEntries] | None]:
    """Puts the entries of rows that have just been read, and the system cells that the rows lack. Any number of
    builders may do so, any number of times.

    Args:
        rows: rows read with the `columns` of the indexer.
        since: a reading of the clock, in ms, from before the rows were read.
        again: whether lost entries are put again. Lost entries are put with the timestamp `since`, which is above the
            deletes that removed them. If an entry turns out to be superfluous, it is harmless: a repair removes it when
            the clocks of all writers have passed its timestamp. The entries are put unverified, because their
            timestamps are above the marks of writers that are changing the rows now.

    Returns:
        The entries of the rows that are objects; None if the rows are too old and must be read again.
    """
    row_entries = [entries for row in rows if (entries := indexer.of(row)) is not None]
    schema = indexer.schema
    puts = by_table(
        (table, _moved(schema, put, since) if again else put) for one in row_entries for table, put in one.entries
    )
    if puts:
        yield Together([PutRows(table, of_table) for table, of_table in puts.items()])
    adoptions = [one.adoption for one in row_entries if one.adoption is not None]
    if not (yield CheckLease(since)):
        return None
    if adoptions:
        yield PutRows(schema.table, adoptions)
    return row_entries


def keep_entries(indexer: RowIndexer, row: bytes) -> Protocol[None]:
    """Puts the entries of one row, see `keep_entries_of`."""
    yield from keep_entries_of(indexer, [row])


def keep_entries_of(indexer: RowIndexer, rows: Sequence[bytes]) -> Protocol[dict[bytes, HbmodelError]]:
    """Puts the entries of the current rows, after a writer has noticed that the indexes have changed or that it was
    interrupted.

    The entries are put like lost entries, see `index_rows`: a repair may have deleted a row's entries as orphans before
    the row was put.

    Args:
        rows: the keys of the rows; a row that is not an object needs no entries.

    Returns:
        The errors of rows whose entries cannot be made, by row.
    """
    while rows and indexer.indexes:
        since = yield ReadClock()
        rows_read: Sequence[Row | None] = yield GetRows(indexer.schema.table, rows, indexer.columns)
        row_entries = [entries for row in rows_read if (entries := indexer.of(row)) is not None]
        puts = by_table(
            (table, _moved(indexer.schema, put, since)) for one in row_entries for table, put in one.entries
        )
        if puts:
            yield Together([PutRows(table, of_table) for table, of_table in puts.items()])
        if (yield CheckLease(since)):
            return {one.row: one.error for one in row_entries if one.error is not None}
    return {}


def _moved(schema: TableSchema, put: Put, timestamp: int) -> Put:
    """Returns the put, with its timestamp raised to at least `timestamp`. If it is raised, the entry becomes
    unverified.

    The new put still expires at the same time, or at once if that time has passed.
    """
    if put.timestamp is None or put.timestamp >= timestamp:
        return put
    cells = put.cells
    if schema.status_column in cells:
        cells = {**cells, schema.status_column: unverified(cells[schema.version_column])}
    return evolve(
        put,
        cells=cells,
        timestamp=timestamp,
        ttl=None if put.ttl is None else max(1, put.timestamp + put.ttl - timestamp),
    )
