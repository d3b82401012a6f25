"""Plans the mutations of one write from the old row, with timestamps: puts of entries, changes of the row, and deletes
of stale entries.

The rules are numbered as in the index protocol: the primary row is authoritative, index entries are a superset, and
reads verify them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import evolve, field, frozen

from hbmodel.errors import (
    CapabilityError,
    ComputedFieldError,
    DecodingError,
    EncodingError,
    HbmodelError,
    IncompleteRow,
    KeyTooLong,
)
from hbmodel.mapping.rows.cells_of_update import cells_of_changes
from hbmodel.mapping.rows.covering import UNVERIFIED, unverified, verification
from hbmodel.mapping.rows.entries_of_row import entry_families
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder, check_size, encode_cell
from hbmodel.mapping.schema import COUNTER_ZERO, FLAG, LIVE, Index, TableSchema
from hbmodel.mapping.version_cell import LAST_WRITE_WINS, NONCE_LENGTH
from hbmodel.protocol.corrected_clock import time_above
from hbmodel.protocol.expiry import end_of_adopted, end_of_live, end_value, family_life, live_value
from hbmodel.protocol.future_cells import newest_beside_counters
from hbmodel.protocol.row_condition import cell_of_condition, cell_of_expiry, unrepeated
from hbmodel.protocol.writes import DeleteRow, Outcome, PutObject, RowWrite, UpdateFields, not_found, without_nulls
from hbmodel.store.values import Delete, Put, Row

DEAD = b"\x00"
"""The first byte of the liveness cell of a dead row. A nonce follows it."""


def draw_nonce() -> bytes:
    """Returns a new nonce. It is drawn from the random source of the system, so forked processes never share a
    nonce.
    """
    return os.urandom(NONCE_LENGTH)


@frozen(eq=False)
class RowPlan:
    """The mutations of one write, in the order of the protocol's phases.

    Attributes:
        outcome: the outcome of the write once the row is written.
        entries: the puts of entries, each with its index table. All of them must be carried out before the put of the
            row.
        put: the put of the row.
        row_delete: the delete that is sent with the put of a dead marker or of an expiring row, with a timestamp one ms
            below that of the put.
        stale: the deletes of stale entries, each with its index table. They start after the acknowledgement.
        marks: the puts that make verified entries unverified, each with its index table. All of them must be carried
            out before the put of the row.
        condition: a column and the value that the row must still have in this column when the row is changed; the value
            None means no cell. If the condition is None, the row is changed unconditionally.
    """

    outcome: Outcome
    entries: Sequence[tuple[str, Put]] = ()
    put: Put | None = None
    row_delete: Delete | None = None
    stale: Sequence[tuple[str, Delete]] = ()
    marks: Sequence[tuple[str, Put]] = ()
    condition: tuple[bytes, bytes | None] | None = None

    @property
    def mutations(self) -> list[Put | Delete]:
        """The mutations of the row."""
        return [mutation for mutation in (self.put, self.row_delete) if mutation is not None]


@frozen(eq=False)
class OldRow:
    """The row that a write found when it read the row."""

    live: bool
    newest: int
    row: Row | None


UNREAD = OldRow(False, -1, None)
"""The old row for a write that does not need to read it, or finds none."""


@frozen(eq=False)
class IndexedRowPlanner:
    """Plans writes of a model with live indexes (last-write-wins mode).

    Attributes:
        indexes: the indexes that writes must maintain, each with its live table.
        bound: the maximum time by which a timestamp may be ahead of the corrected clock, in ms.
        nonce: the function that draws nonces.
        adopting: whether rows without system cells are live too.
        mixed: whether other programs still write rows without system cells, at the server's time and without markers of
            deleted rows.
        checks: whether the store can change a row under the condition that a cell has an expected value.
        together: the objects in wide rows that are changed as a whole, by one mutation per row.
        keys: packs the keys of entries.
        reader: decodes the fields in `group` of a row.
        group: the fields that determine the entries of an index or are covered by an index. A put of one of these
            fields writes all of them.
        group_columns: the columns of these fields.
        marks: the cells, in addition to the version, that make a row live.
        covering: the tables of the indexes whose entries have a status.
    """

    schema: TableSchema
    indexes: Sequence[Index]
    bound: int
    nonce: Callable[[], bytes] = draw_nonce
    adopting: bool = False
    mixed: bool = False
    checks: bool = True
    together: frozenset[bytes] = frozenset()
    keys: KeyMapper = field(init=False)
    reader: RowDecoder = field(init=False)
    group: frozenset[str] = field(init=False)
    group_columns: frozenset[bytes] = field(init=False)
    marks: Mapping[bytes, bytes] = field(init=False)
    covering: frozenset[str] = field(init=False)
    _rests: dict[frozenset[str], RowDecoder] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        columns = {f.name for f in self.schema.columns if f.kind == "column"}
        object.__setattr__(self, "keys", KeyMapper(self.schema))
        used = {name for index in self.indexes for name in (*index.reads, *index.covers)}
        object.__setattr__(self, "group", frozenset(used & columns))
        object.__setattr__(self, "reader", RowDecoder(self.schema, True, self.group, self.adopting))
        object.__setattr__(self, "group_columns", frozenset(self.schema.by_name[name].column for name in self.group))
        flag = {} if self.schema.exists_column is None else {self.schema.exists_column: FLAG}
        object.__setattr__(self, "marks", {self.schema.liveness_column: LIVE, **flag})
        covering = frozenset(index.table for index in self.indexes if index.name in self.schema.covering)
        object.__setattr__(self, "covering", covering)

    def needs_read(self, write: RowWrite) -> bool:
        """Returns whether the old row must be read first.

        A put of a whole object of an immutable model needs no read (rule 1), unless the object expires (rule 10).
        """
        return not (self.schema.immutable and isinstance(write, PutObject) and write.ttl is None)

    def old(self, row: Row | None) -> OldRow:
        """Returns the liveness and the newest cell of a row that was read with the schema's `row_columns` (rule 1)."""
        return (
            UNREAD
            if row is None
            else OldRow(self.reader.exists(row), max(cell.timestamp for cell in row.columns.values()), row)
        )

    def plan(self, write: RowWrite, old: OldRow, now: int) -> RowPlan:
        """Returns the mutations of `write` over `old`, at the time `now` of the corrected clock (ms)."""
        try:
            return self._plan(write, old, now)
        except HbmodelError as error:  # only this row of the batch cannot be written
            return RowPlan(Outcome("failed", write.row, error=error))

    def _plan(self, write: RowWrite, old: OldRow, now: int) -> RowPlan:
        mixed = self.mixed and not isinstance(write, UpdateFields)
        whole = (
            not old.live
            or isinstance(write, DeleteRow)
            or write.ttl is not None
            or mixed
            or family_life(self.schema) is not None
        )
        # a write that does not replace the whole row does not change counters
        newest = old.newest if whole else min(old.newest, newest_beside_counters(self.schema, old.row))
        timestamp, error = time_above(self.schema.table, write.row, newest, now, self.bound)
        if error is not None:
            raise error
        if isinstance(write, PutObject):
            return self._full(write, old, timestamp)
        if isinstance(write, UpdateFields):
            return self._partial(write, old, timestamp)
        return self._delete(write, old, timestamp)

    def version(self, nonce: bytes, old: OldRow, timestamp: int) -> bytes:
        """Returns the version cell that a write puts at this time, given the row before the write."""
        return LAST_WRITE_WINS + nonce

    def entry_version(self, version: bytes) -> bytes:
        """Returns the version cell to put into the entries of a row, given the row's own version cell."""
        return version

    def _entries(self, values: Mapping[str, Any], row: bytes) -> list[tuple[Index, bytes]]:
        return [(index, entry) for index in self.indexes for entry in self.keys.entries(index, values, row)]

    def _puts(
        self,
        entries: Sequence[tuple[Index, bytes]],
        cells: Mapping[bytes, bytes],
        version: bytes,
        timestamp: int,
        ttl: int | None = None,
    ) -> list[tuple[str, Put]]:
        """Returns puts of entries, with the cells of the row that they cover."""
        puts: list[tuple[str, Put]] = []
        for index, entry in entries:
            own = {self.schema.version_column: (version_value := self.entry_version(version))}
            if index.table in self.covering:
                own[self.schema.status_column] = unverified(version_value)
            for name in index.covers:
                covered = self.schema.by_name[name]
                own[covered.column] = cell = cells[covered.column]
                check_size(self.schema, covered, cell, entry)
            puts.append((index.table, Put(entry, own, timestamp, ttl)))
        return puts

    def _stale(self, old: OldRow, entries: Sequence[tuple[str, Put]], timestamp: int) -> list[tuple[str, Delete]]:
        """Returns the deletes of stale entries, with a timestamp that is one below that of the new version.

        So the entry of another writer that has put its row with the new version's timestamp is not deleted (rule 3).
        """
        if not old.live or old.row is None:
            return []
        try:
            values = self.reader.values(old.row)
        except (IncompleteRow, DecodingError):
            # The entries of a damaged row are not known. The row can nevertheless be overwritten and deleted. In this
            # case, its entries remain, and readers skip them.
            return []
        put_again = {(table, put.row) for table, put in entries}
        deletes: list[tuple[str, Delete]] = []
        for index in self.indexes:
            # Entries that cannot be computed now (because the row is older than the index, or a function fails) remain,
            # and readers skip them.
            with suppress(KeyTooLong, EncodingError, ComputedFieldError):
                gone, families = self.keys.entries(index, values, old.row.row), entry_families(self.schema, index)
                deletes += [(index.table, Delete(entry, families=families, timestamp=timestamp - 1)) for entry in gone]
        return [(table, delete) for table, delete in deletes if (table, delete.row) not in put_again]

    def _marks(
        self, stale: Sequence[tuple[str, Delete]], nonce: bytes, timestamp: int, own: Sequence[tuple[str, Put]] = ()
    ) -> list[tuple[str, Put]]:
        """Returns marks that make the entries to delete, and the entries in `own`, unverified, so that no query uses
        them instead of the row.

        Rows of immutable models are put without reading the old row. If such a put has the same timestamp as a delete
        of its row, the put may win, and its entry must then be unverified. So the mark that belongs to a delete has a
        timestamp one millisecond above that of the delete. Marks do not expire with their entries.
        """
        if not self.covering:
            return []
        timestamp += not self.schema.versioned
        cells = {self.schema.status_column: UNVERIFIED + nonce}
        entries = dict.fromkeys(
            [*((table, delete.row) for table, delete in stale), *((table, put.row) for table, put in own)]
        )
        return [(table, Put(entry, cells, timestamp)) for table, entry in entries if table in self.covering]

    def verifications(self, entries: Sequence[tuple[str, Put]]) -> list[tuple[str, Put]]:
        """Returns puts that verify the entries of acknowledged writes, except entries that expire and entries of an
        index that some program does not maintain.
        """
        tables = {index.table for index in self.indexes if index.table in self.covering and index.maintained_by_all}
        return [
            (table, verification(self.schema, put)) for table, put in entries if table in tables and put.ttl is None
        ]

    def full_cells(self, write: PutObject, old: OldRow, version: bytes) -> dict[bytes, bytes]:
        """Returns the cells of a put of a whole object. If the row is dead or absent, they include zeros for the
        counters, and empty cells for the other columns that were read (rule 4).

        The cells whose timestamps show when entries of map columns were last put are left unchanged. A put of map
        entries that is older than this write may still be in progress. If an empty cell with a later timestamp hid the
        cell that this put writes, later writes would not know of its entries, and the entries would appear in a later
        object.

        A put that expires writes every column too, so that no older cell remains under the put.
        """
        schema = self.schema
        if old.live and old.row is not None and write.ttl is None:
            # All columns of the group are written (rule 2). In other columns, an empty cell is needed only to hide a
            # cell of the live row.
            cells = without_nulls(write.cells, schema.optional_columns - self.group_columns - old.row.columns.keys())
        else:
            cells = without_nulls(write.cells, frozenset())
        cells |= {schema.version_column: version, **self.marks}
        if not old.live and self.needs_read(write):
            cells = {**dict.fromkeys(sorted(schema.counter_columns), COUNTER_ZERO), **cells}
            if old.row is not None:
                spared = {*cells, *schema.kept_columns}
                cells.update((column, b"") for column in old.row.columns if column not in spared)
        return cells

    def _full(self, write: PutObject, old: OldRow, timestamp: int) -> RowPlan:
        write = write.at(timestamp)
        if write.ttl is not None and write.ttl <= 0:
            raise not_found(self.schema, write.row)
        version = self.version(nonce := self.nonce(), old, timestamp)
        places = [(index, entry) for index in self.indexes for entry in write.entries[index.name]]
        entries = self._puts(places, write.cells, version, timestamp, write.ttl)
        cells = self.full_cells(write, old, version)
        if write.ttl is not None:
            cells |= self._end_cells(timestamp + write.ttl, nonce)
        return self._whole(old, Put(write.row, cells, timestamp, write.ttl), entries, nonce)

    def _end_cells(self, end: int | None, nonce: bytes) -> dict[bytes, bytes]:
        """Returns the cells that say that a row is live and when it expires.

        Programs that do not write the version read the expiry cell, and check its nonce when they change the row.
        """
        cells = {self.schema.liveness_column: live_value(end)}
        if self.mixed and end is not None:
            cells[self.schema.expiry_column] = end_value(end, nonce)
        return cells

    def end_of(self, row: Row) -> int | None:
        """Returns the time at which a live row expires, or None if it does not expire."""
        return end_of_adopted(self.schema, row) if self.adopting else end_of_live(row, self.schema.liveness_column)

    def _whole(self, old: OldRow, put: Put, entries: Sequence[tuple[str, Put]], nonce: bytes) -> RowPlan:
        """Plans a put of the whole row. If it expires, no older cells may remain under it or under its entries (rule
        10).
        """
        assert put.timestamp is not None
        outcome = Outcome("put", put.row, put.timestamp)
        if put.ttl is None:
            stale = self._stale(old, entries, put.timestamp)
            return RowPlan(outcome, entries, put, None, stale, self._marks(stale, nonce, put.timestamp))
        older = Delete(put.row, families=self.schema.family_names, timestamp=put.timestamp - 1)
        # Only entries up to the old row's version are deleted: later entries of other writers may become current again
        # once this put expires.
        stale = self._stale(old, (), version + 1) if (version := self.version_time(old)) >= 0 else []
        return RowPlan(outcome, entries, put, older, stale, self._marks(stale, nonce, put.timestamp, entries))

    def version_time(self, old: OldRow) -> int:
        """Returns the timestamp with which the entries of the old row were put.

        Returns -1 for a row without entries, which another program has put, or which is older than the first index.
        """
        cell = None if old.row is None else old.row.columns.get(self.schema.version_column)
        return -1 if cell is None else cell.timestamp

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        schema = self.schema
        if not old.live or old.row is None:
            return RowPlan(Outcome("failed", write.row, error=not_found(schema, write.row)))
        cells = without_nulls(cells_of_changes(schema, write.changes), frozenset())
        end = self.end_of(old.row) if write.ttl is None else timestamp + write.ttl
        if end is not None or family_life(schema) is not None or (self.mixed and write.row in self.together):
            return self._rewritten(write, old, cells, timestamp, end)
        # If other programs delete without a marker, the cells of the update must not outlive the rest of the row. So
        # the update has a condition, or a timestamp that is so low that every delete hides it.
        condition = self.condition(old.row) if self.mixed and self.checks else None
        low = self.mixed and condition is None
        at = newest_beside_counters(schema, old.row) + 1 if low else timestamp
        if condition is None and not self.group.intersection(write.changes):
            return RowPlan(Outcome("put", write.row, at), put=Put(write.row, cells, at))
        # The whole group and the version go in one put, so that no reader ever sees only a part of an index key (rule
        # 2).
        rest = self._rest(frozenset(write.changes))
        values = {**rest.values(old.row), **write.changes}
        version = self.version(nonce := self.nonce(), old, timestamp)
        for name in self.group:
            cells.setdefault(schema.by_name[name].column, encode_cell(schema, schema.by_name[name], values[name]))
        cells[schema.version_column] = version
        entries = self._puts(self._entries(values, write.row), cells, version, timestamp)
        # with a low timestamp, nothing is deleted: another update with this timestamp may have put an entry that seems
        # stale
        stale = () if low else self._stale(old, entries, timestamp)
        return RowPlan(
            outcome=Outcome("put", write.row, at),
            entries=entries,
            put=Put(write.row, cells, at),
            stale=stale,
            marks=self._marks(stale, nonce, timestamp),
            condition=condition,
        )

    def rewritten_by_updates(self, row: Row) -> bool:
        """Returns whether every update of a live row puts the whole row again. If so, a delete must not have an earlier
        timestamp than such an update.
        """
        schema = self.schema
        if schema.versioned or schema.immutable:
            return False
        return family_life(schema) is not None or self.end_of(row) is not None

    def condition(self, row: Row) -> tuple[bytes, bytes] | None:
        """Returns the cell that shows whether an object has been deleted, or put again as a whole, since it was read.

        See `cell_of_condition`. Returns None for an object that shares a row with other objects of its commit, because
        one mutation changes all of them.
        """
        return None if row.row in self.together else cell_of_condition(self.schema, row)

    def _condition_of_delete(self, row: Row) -> tuple[bytes, bytes | None] | None:
        """Returns the cell that a delete checks, and its value, or None.

        An update by another writer may put the whole row again, because its cells must expire together. Without the
        check, such a put could get a later timestamp than the delete, and the object would reappear.
        """
        if not self.checks:
            return None
        if self.rewritten_by_updates(row):
            return self.condition(row)
        return cell_of_expiry(self.schema, row) if self.mixed and row.row not in self.together else None

    def _rewritten(
        self, write: UpdateFields, old: OldRow, changed: Mapping[bytes, bytes], timestamp: int, end: int | None
    ) -> RowPlan:
        """Returns the plan that puts the whole row as it was read, with the changes applied.

        So all cells of an expiring row expire at the same time (rule 10). And if other programs delete without a
        marker, the update leaves no fragment of a row that was deleted since it was read.

        The put contains the liveness cell, so it could bring back an object that was deleted or moved since the row was
        read. Therefore the put is carried out only if the row has not changed since then. The put must not hide a later
        delete either, so deletes of rows that updates rewrite have a condition too. A delete of a row without a TTL
        needs no condition: an update that gives the row a TTL puts it with the lowest possible timestamp, which is not
        above that of any delete that has read the same row.
        """
        schema, row = self.schema, old.row
        assert row is not None
        if end is not None and end <= timestamp:
            return RowPlan(Outcome("failed", write.row, error=not_found(schema, write.row)))
        if end is not None and not self.checks:
            raise CapabilityError(
                "A row with a TTL in a model with indexes can be updated only in a store with check-and-mutate: put "
                "the whole object with add(obj, ttl=...), or use an hbase+thrift2: store.",
                table=schema.table,
                key=write.row,
            )
        below = not self.rewritten_by_updates(row) and write.row not in self.together
        at = old.newest + 1 if below else timestamp
        version = LAST_WRITE_WINS + (nonce := self.nonce())
        values = {**self._rest(frozenset(write.changes)).values(row), **write.changes}
        left = unrepeated(schema, row, ends=end is not None) if self.adopting else ()
        cells = {**{column: cell.value for column, cell in row.columns.items() if column not in left}, **changed}
        cells |= {schema.version_column: version, **self._end_cells(end, nonce)}
        group = {
            (field := schema.by_name[name]).column: encode_cell(schema, field, values[name]) for name in self.group
        }
        ttl = None if end is None else end - timestamp
        entries = self._puts(self._entries(values, write.row), group, version, timestamp, ttl)
        # Entries that the row already has get the timestamp of the row's put, although it is low: a repair cannot
        # mistake them for old orphans, because the row has them.
        if below and end is not None:
            stale = {(table, delete.row) for table, delete in self._stale(old, (), timestamp)}
            entries = [
                (table, evolve(p, timestamp=at, ttl=end - at) if (table, p.row) in stale else p) for table, p in entries
            ]
        put = Put(write.row, cells, at, None if end is None else end - at)
        plan = self._whole(OldRow(True, -1, row), put, entries, nonce)
        return evolve(plan, condition=self.condition(row)) if self.checks else plan

    def _rest(self, changed: frozenset[str]) -> RowDecoder:
        """Returns the decoder of the fields in the group that an update does not change. It is made once for each set
        of changed fields.
        """
        names = self.group - changed
        reader = self._rests.get(names)
        if reader is None:
            reader = self._rests[names] = RowDecoder(self.schema, indexed=True, names=names)
        return reader

    def _delete(self, write: DeleteRow, old: OldRow, timestamp: int) -> RowPlan:
        schema = self.schema
        if not old.live:
            return RowPlan(Outcome("absent", write.row))
        nonce = self.nonce()
        cells = {schema.by_name[name].column: b"" for name in self.group}
        cells[schema.version_column] = self.version(nonce, old, timestamp)
        cells[schema.liveness_column] = DEAD + nonce
        stale = self._stale(old, (), timestamp)
        return RowPlan(
            outcome=Outcome("deleted", write.row, timestamp),
            put=Put(write.row, cells, timestamp),
            row_delete=Delete(write.row, families=schema.family_names, timestamp=timestamp - 1),
            stale=stale,
            marks=self._marks(stale, nonce, timestamp),
            condition=None if old.row is None else self._condition_of_delete(old.row),
        )
