"""The embedded store, which implements the port of `hbmodel.store` on SQLite."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby
from sqlite3 import Connection

from attrs import evolve

from hbmodel.errors import InvalidRequest, TableExists, TableNotFound
from hbmodel.store.checks.reads import check_scans
from hbmodel.store.checks.rows import (
    NO_TABLE,
    check_conditional_change,
    check_conditional_changes,
    check_conditional_put,
    check_delete,
    check_get,
    check_increment,
    check_put,
    check_read_columns,
    check_row,
    check_row_change,
    check_versions,
)
from hbmodel.store.checks.tables import TABLE_EXISTS, check_family, is_table_name
from hbmodel.store.closing import ClosingStore
from hbmodel.store.embedded.cells import SEGMENT_SIZE, StoredCell, StoredRow, visible
from hbmodel.store.embedded.clock_waits import EmbeddedClock
from hbmodel.store.embedded.compaction import compact_table
from hbmodel.store.embedded.descriptor import TableDescriptor, new_layout
from hbmodel.store.embedded.namespaces import (
    check_namespace_of,
    create_namespace,
    delete_namespace,
    namespaces,
    table_names,
)
from hbmodel.store.embedded.read import Projection, RowReader, ScanPosition, read_rows, scan_batch
from hbmodel.store.embedded.segments import RowSegments
from hbmodel.store.embedded.sqlite_file import Connect, Database, open_connection
from hbmodel.store.embedded.versions import versions_of
from hbmodel.store.embedded.watched_rows import WatchedRows
from hbmodel.store.embedded.write import RowWriter, has_tombstones, store_segments, without_replaced
from hbmodel.store.filtering.row_filter import RowFilter, first_piece
from hbmodel.store.filters import ColumnPrefix
from hbmodel.store.port import EVERYTHING_POSSIBLE, Capabilities
from hbmodel.store.values import Cell, ConditionalChange, Delete, Family, Get, Put, Region, Row, Scan

_COUNTER = struct.Struct(">q")


class EmbeddedStore(ClosingStore):
    """A store in one SQLite file, or in memory, that behaves as HBase does.

    Versions, tombstones (which also hide late puts, until `compact`), TTLs, filters, counters and conditional changes
    follow HBase 2.6. Rows change atomically. Each batch of a scan shows its rows as they were at one moment; HBase
    guarantees this only for each single row. Threads may share a store, and processes a file. In a family that keeps
    several versions, a put at the server's time would replace a version from the same millisecond. So such a put waits
    for the next millisecond (except with a given `clock`).

    Args:
        path: the path of the file, which is created if it does not exist (its directory is not); with None, everything
            is kept in memory, private to this object.
        clock: the server's clock, in ms since 1970; the machine's by default. It must not stand still: some calls wait
            until it shows a later time.
        connect: opens a connection to a SQLite file, or to a database in memory, and decides how long it waits for
            other processes.
        segment_size: the number of bytes above which a stored row is cut into segments of half this size.

    Raises:
        StoreError: the file cannot be opened or is not an embedded store.
    """

    TRUSTED = 1.0  # a read of the registry takes only microseconds

    def __init__(
        self,
        path: str | None,
        clock: Callable[[], int] | None = None,
        *,
        connect: Connect = open_connection,
        segment_size: int = SEGMENT_SIZE,
    ) -> None:
        self.token_key: bytes | str | None = None
        self._path = path
        self._clock = EmbeddedClock(clock)
        self._segment_size = segment_size
        self._database = Database(path, connect)
        # The layout of each table by its id, as stored and as decoded. Ids are never used again, so the layout of a
        # dropped table is harmless.
        self._layouts: dict[int, tuple[bytes, TableDescriptor]] = {}
        self._watched = WatchedRows(alone=path is None)

    @property
    def capabilities(self) -> Capabilities:
        """All capabilities of the port."""
        return _CAPABILITIES

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> list[Row | None]:
        """See `hbmodel.store.Store.get`."""
        for row in rows:
            check_row(table, row)
        check_read_columns(table, columns)
        with self._database.read() as connection:
            table_id, layout = self._table(connection, table)
            reader = RowReader(layout, Projection.of(layout, table, columns), None, self._clock())
            rows_by_key = read_rows(connection, table_id, list(dict.fromkeys(rows)), reader)
        return [rows_by_key.get(row) for row in rows]

    def get_each(self, table: str, gets: Sequence[Get]) -> list[Row | None]:
        """See `hbmodel.store.Store.get_each`."""
        for get in gets:
            check_get(table, get)
        answers: list[Row | None] = [None] * len(gets)
        # Gets that read the same segments of a row are carried out one after the other.
        order = sorted(
            range(len(gets)),
            key=lambda place: (gets[place].row, next(iter(gets[place].columns), b""), gets[place].prefix),
        )
        with self._database.read() as connection:
            table_id, layout = self._table(connection, table)
            now = self._clock()
            for family in {column.partition(b":")[0] for get in gets for column in get.columns}:
                layout.family(table, family)
            readers = {
                before: RowReader(layout, Projection(), None, now, before) for before in {get.before for get in gets}
            }
            for row, places in groupby(order, key=lambda place: gets[place].row):
                segments = RowSegments(connection, table_id, row)
                for place in places:
                    get = gets[place]
                    if get.columns and not get.prefix and all(b":" in column for column in get.columns):
                        cells = layout.ordered(readers[get.before].named(segments, get.columns))
                        answers[place] = StoredRow(row, cells) if cells else None
                    else:
                        answers[place] = _reader(layout, table, get, now).wide_row(row, segments)
        return answers

    def versions(self, table: str, row: bytes, columns: Sequence[bytes], limit: int) -> Sequence[Sequence[Cell]]:
        """See `hbmodel.store.VersionsStore`."""
        check_versions(table, row, columns, limit)
        with self._database.read() as connection:
            table_id, layout = self._table(connection, table)
            return versions_of(layout, table, RowSegments(connection, table_id, row), columns, limit, self._clock())

    def scan(self, table: str, scans: Sequence[Scan]) -> list[Iterator[Sequence[Row]]]:
        """See `hbmodel.store.Store.scan`."""
        check_scans(table, scans)
        with self._database.read() as connection:
            _, layout = self._table(connection, table)
        projections = [Projection.of(layout, table, scan.columns) for scan in scans]
        return [self._batches(table, scan, projection) for scan, projection in zip(scans, projections, strict=True)]

    def _batches(self, table: str, scan: Scan, projection: Projection) -> Iterator[Sequence[Row]]:
        position = ScanPosition(scan.range, scan.limit, ended=scan.range.empty or scan.limit == 0)
        wanted = scan.filter
        if wanted is not None and scan.cells is not None and scan.limit == 1 and projection.only_family is not None:
            wanted = first_piece(wanted, scan.cells)  # only the returned part of a wide row is read
        filter = None if wanted is None else RowFilter(wanted, scan.reversed)
        while not position.ended:
            with self._database.read() as connection:
                table_id, layout = self._table(connection, table)
                batch = scan_batch(
                    connection,
                    table_id,
                    scan,
                    RowReader(layout, projection, filter, self._clock(), scan.before),
                    position,
                )
            if batch:
                yield batch

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(self, table: str, puts: Sequence[Put]) -> None:
        """See `hbmodel.store.Store.put`. The whole call is atomic."""
        for put in puts:
            check_put(table, put)
        self._write(table, puts)

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        """See `hbmodel.store.Store.delete`. The whole call is atomic.

        A tombstone hides puts in the same millisecond. So a delete at the server's time waits for the next millisecond
        (except with a given `clock`), and puts that follow it are visible.
        """
        for delete in deletes:
            check_delete(table, delete)
        self._clock.pass_deletes(deletes, self._write(table, deletes))

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        """See `hbmodel.store.Store.mutate_row`."""
        if mutations:
            check_row_change(table, mutations[0].row, mutations)
            self._clock.pass_deletes(mutations, self._write(table, mutations, atomic=True))

    def _write(self, table: str, mutations: Sequence[Put | Delete], *, atomic: bool = False) -> int:
        with self._database.write() as connection:
            self._watched.pass_gate(connection, self._row)
            table_id, layout = self._table(connection, table)
            by_row: dict[bytes, list[Put | Delete]] = {}
            for mutation in mutations:
                _check_families(layout, table, mutation)
                by_row.setdefault(mutation.row, []).append(mutation)
            tombstones = has_tombstones(connection, table_id)
            writers = [
                (RowWriter(connection, table_id, layout, row, tombstones=tombstones), of_row)
                for row, of_row in by_row.items()
            ]
            now = self._clock.time_apart(layout, writers, self._clock())
            records = []
            for writer, changes in writers:
                self._watched.forget(table, writer.row)
                for change in without_replaced(changes, now) if atomic else changes:
                    writer.apply(change, now, now)
                records += writer.flush(self._segment_size)
            store_segments(connection, records)
        return now

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        """See `hbmodel.store.Store.check_and_put`."""
        check_conditional_put(table, row, column, put)
        return self.check_and_mutate(table, row, column, expected, [put])

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        """See `hbmodel.store.Store.check_and_mutate`."""
        check_conditional_change(table, row, column, mutations)
        return self._changed_where(table, [ConditionalChange(row, column, expected, mutations)])[0]

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> list[bool]:
        """See `hbmodel.store.Store.check_and_mutate_many`. The whole call is one transaction."""
        check_conditional_changes(table, changes)
        return self._changed_where(table, changes) if changes else []

    def _changed_where(self, table: str, changes: Sequence[ConditionalChange]) -> list[bool]:
        with self._database.write() as connection:
            self._watched.pass_gate(connection, self._row)
            table_id, layout = self._table(connection, table)
            for mutation in chain.from_iterable(change.mutations for change in changes):
                _check_families(layout, table, mutation)
            times = [self._change_where(connection, table_id, layout, table, change) for change in changes]
        applied = [time is not None for time in times]
        done = [
            mutation
            for time, change in zip(times, changes, strict=True)
            if time is not None
            for mutation in change.mutations
        ]
        self._clock.pass_deletes(done, max((time for time in times if time is not None), default=0))
        return applied

    def _change_where(
        self, connection: Connection, table_id: int, layout: TableDescriptor, table: str, change: ConditionalChange
    ) -> int | None:
        """Applies a change if its condition is true. Returns the time of the change, or None if the condition is
        false.
        """
        now = self._clock()
        writer = RowWriter(connection, table_id, layout, change.row, tombstones=has_tombstones(connection, table_id))
        cell = _newest(layout, table, writer, change.column, now)
        current = b"" if cell is None else cell.value
        if current != (change.expected or b""):
            return None
        now = self._clock.time_apart(layout, [(writer, change.mutations)], now)
        # The checked cell must not hide the put (`HRegion.checkAndMutateInternal`).
        put_time = now if cell is None else max(now, cell.timestamp)
        self._watched.forget(table, change.row)
        for mutation in without_replaced(change.mutations, put_time):
            writer.apply(mutation, now, put_time)
        store_segments(connection, writer.flush(self._segment_size))
        return now

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        """See `hbmodel.store.Store.increment`. As in HBase, the sum wraps at 64 bits, and the new cell keeps the TTL of
        the old one.
        """
        check_increment(table, row, column, amount)
        with self._database.write() as connection:
            self._watched.pass_gate(connection, self._row)
            self._watched.forget(table, row)
            table_id, layout = self._table(connection, table)
            writer = RowWriter(connection, table_id, layout, row, tombstones=has_tombstones(connection, table_id))
            now = self._clock()
            cell = _newest(layout, table, writer, column, now)
            if cell is None:
                value, timestamp, ttl = amount, now, None
            elif len(cell.value) != _COUNTER.size:
                raise InvalidRequest(
                    "Only a cell of 8 bytes can be incremented: if other programs store the number in another form, "
                    "declare the column with the codec of that form instead of hb.counter().",
                    table=table,
                    key=row,
                    column=column,
                    found=len(cell.value),
                )
            else:
                value = (_COUNTER.unpack(cell.value)[0] + amount + 2**63) % 2**64 - 2**63
                timestamp, ttl = max(now, cell.timestamp + 1), cell.ttl
            writer.apply(Put(row, {column: _COUNTER.pack(value)}, timestamp, ttl), now, now)
            store_segments(connection, writer.flush(self._segment_size))
        return value

    def _row(self, connection: Connection, table: str, row: bytes) -> Row | None:
        table_id, layout = self._table(connection, table)
        return read_rows(connection, table_id, [row], RowReader(layout, Projection(), None, self._clock())).get(row)

    # --- tables -------------------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """See `hbmodel.store.Store.tables`."""
        with self._database.read() as connection:
            return table_names(connection)

    def families(self, table: str) -> list[Family]:
        """See `hbmodel.store.Store.families`."""
        with self._database.read() as connection:
            return list(self._table(connection, table)[1].families)

    def create_table(self, table: str, families: Sequence[Family], split_keys: Sequence[bytes] = ()) -> None:
        """See `hbmodel.store.Store.create_table`. Split keys do not divide the file, and are only shown by
        `regions`.
        """
        layout = new_layout(table, families, split_keys)
        with self._database.write() as connection:
            if connection.execute("SELECT 1 FROM tables WHERE name = ?", (table,)).fetchone() is not None:
                raise TableExists(TABLE_EXISTS, table=table)
            check_namespace_of(connection, table)
            connection.execute("INSERT INTO tables (name, layout) VALUES (?, ?)", (table, layout.encode()))

    def add_family(self, table: str, family: Family) -> None:
        """See `hbmodel.store.Store.add_family`."""
        check_family(table, family)
        self._alter(table, lambda layout: layout.with_family(table, family))

    def modify_family(self, table: str, family: Family) -> None:
        """See `hbmodel.store.Store.modify_family`."""
        check_family(table, family)
        self._alter(table, lambda layout: layout.with_changes(table, family))

    def _alter(self, table: str, change: Callable[[TableDescriptor], TableDescriptor]) -> None:
        with self._database.write() as connection:
            table_id, layout = self._table(connection, table)
            self._watched.forget_all()
            connection.execute("UPDATE tables SET layout = ? WHERE id = ?", (change(layout).encode(), table_id))

    def namespaces(self) -> list[str]:
        """See `hbmodel.store.Store.namespaces`."""
        with self._database.read() as connection:
            return sorted(namespaces(connection))

    def create_namespace(self, namespace: str) -> None:
        """See `hbmodel.store.Store.create_namespace`."""
        with self._database.write() as connection:
            create_namespace(connection, namespace)

    def delete_namespace(self, namespace: str) -> None:
        """See `hbmodel.store.Store.delete_namespace`."""
        with self._database.write() as connection:
            delete_namespace(connection, namespace)

    def delete_table(self, table: str) -> None:
        """See `hbmodel.store.Store.delete_table`."""
        with self._database.write() as connection:
            table_id, _ = self._table(connection, table)
            self._watched.forget_all()
            connection.execute("DELETE FROM segments WHERE table_id = ?", (table_id,))
            connection.execute("DELETE FROM tombstones WHERE table_id = ?", (table_id,))
            connection.execute("DELETE FROM tables WHERE id = ?", (table_id,))

    def regions(self, table: str) -> list[Region]:
        """See `hbmodel.store.Store.regions`."""
        with self._database.read() as connection:
            table_id, layout = self._table(connection, table)
        return layout.regions(table, table_id)

    def compact(self, table: str | None = None) -> None:
        """Runs a major compaction, which removes expired and excess cells, and tombstones. After that, cells that the
        removed tombstones would have hidden can be put again.

        Cells that were invisible before the compaction stay invisible. Families keep tombstones for the time in their
        option `hbase.hstore.time.to.purge.deletes` (in ms).

        Args:
            table: the table; with None, all tables are compacted.
        """
        for name in self.tables() if table is None else [table]:
            with self._database.write() as connection:
                table_id, layout = self._table(connection, name)
                compact_table(connection, table_id, layout, self._clock(), self._segment_size)

    def _table(self, connection: Connection, table: str) -> tuple[int, TableDescriptor]:
        # The table is looked up every time, because another process may have altered it, or dropped it and created it
        # again.
        record = (
            connection.execute("SELECT id, layout FROM tables WHERE name = ?", (table,)).fetchone()
            if is_table_name(table)
            else None
        )
        if record is None:
            raise TableNotFound(NO_TABLE, table=table)
        table_id, data = record
        known, layout = self._layouts.get(table_id, (b"", None))
        if layout is None or known != data:
            layout = TableDescriptor.decode(data)
            self._layouts[table_id] = data, layout
        return table_id, layout

    # --- closing ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._database.close()

    def __repr__(self) -> str:
        return "EmbeddedStore(memory)" if self._path is None else f"EmbeddedStore({self._path!r})"


_CAPABILITIES = evolve(EVERYTHING_POSSIBLE, final_refusals=True, gated_writes=True, versions_apart=True)


def _reader(layout: TableDescriptor, table: str, get: Get, now: int) -> RowReader:
    filter = RowFilter(ColumnPrefix(get.prefix), reversed=False) if get.prefix else None
    return RowReader(layout, Projection.of(layout, table, get.columns), filter, now, get.before)


def _newest(layout: TableDescriptor, table: str, writer: RowWriter, column: bytes, now: int) -> StoredCell | None:
    life = layout.lives.get(layout.family_of(table, column).name, now)
    return visible(writer.chain(column), now, now - life)


def _check_families(layout: TableDescriptor, table: str, mutation: Put | Delete) -> None:
    if isinstance(mutation, Put):
        for column in mutation.cells:
            if not column.startswith(layout.prefixes):
                layout.family_of(table, column)
        return
    for family in mutation.families:
        layout.family(table, family)
    for column in mutation.columns:
        layout.family_of(table, column)
