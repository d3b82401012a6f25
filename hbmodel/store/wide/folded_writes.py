"""Turns writes of objects into writes of the wide rows: puts are merged, and deletes list the columns of an object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, field, frozen

from hbmodel.errors import DecodingError, InvalidRequest
from hbmodel.store.checks.rows import (
    check_column,
    check_conditional_change,
    check_conditional_put,
    check_put,
    check_row,
)
from hbmodel.store.gate import pass_gate
from hbmodel.store.port import BegunPut, PipelinedStore, Store, change_and_get, check_and_put_each
from hbmodel.store.row_changes import change_together
from hbmodel.store.values import CELL_OVERHEAD, ConditionalChange, ConditionalPut, Delete, Get, Put, Row
from hbmodel.store.wide.object_get import PartOfRow
from hbmodel.store.wide.row_versions import checked_where_it_stands
from hbmodel.store.wide.wide_rows import ROW_VERSION, WideRows

MAX_PUT_BYTES = 1024 * 1024
"""The approximate maximum number of bytes of one put."""

_TIMES = {int, type(None)}

ONE_ROW = "An atomic change can change only one row."


@define(eq=False)
class _GrowingPut:
    """A put of some objects of one row, to which more objects may be added."""

    timestamp: int | None
    ttl: int | None
    cells: dict[bytes, bytes] = field(factory=dict)
    size: int = 0


@frozen
class FoldedWrites:
    """Writes objects of one wide model."""

    store: Store
    wide: WideRows

    # --- puts ---------------------------------------------------------------------------------------------------------

    def put(self, puts: Sequence[Put]) -> None:
        """See `FoldedStore.put`."""
        if merged := self._merged(puts):
            self.store.put(self.wide.table, merged)

    def begin_put(self, puts: Sequence[Put]) -> BegunPut:
        """See `FoldedStore.begin_put`."""
        store = self.store
        if isinstance(store, PipelinedStore):
            return store.begin_put(self.wide.table, self._merged(puts))
        return LatePut(lambda: self.put(puts))

    def _merged(self, puts: Iterable[Put], max_bytes: int | None = MAX_PUT_BYTES) -> list[Put]:
        """Makes puts of rows from puts of objects. Puts into one row with the same timestamp and TTL are joined into
        one put, unless it would have more than about `max_bytes`.
        """
        growing: dict[bytes, list[_GrowingPut]] = {}
        for put in puts:
            self._grow(growing, put, max_bytes)
        return [Put(row, part.cells, part.timestamp, part.ttl) for row, parts in growing.items() for part in parts]

    def _grow(self, growing: dict[bytes, list[_GrowingPut]], put: Put, max_bytes: int | None) -> None:
        """Adds a put of an object to the puts of its row. It is merged into the last put with the same timestamp if
        that put also has the same TTL and does not become too large. Otherwise, it becomes a separate put.
        """
        try:
            row, prefix = self._cut(put.row)
            head = self.wide.lead + prefix
            start = len(self.wide.lead)
            cells = {head + column[start:]: value for column, value in put.cells.items()}
            if self.wide.row_version is not None and (version := put.cells.get(self.wide.row_version)) is not None:
                del cells[head + self.wide.row_version[start:]]
                cells[self.wide.lead + ROW_VERSION] = version
            size = sum(map(len, cells)) + sum(map(len, cells.values())) + (CELL_OVERHEAD + len(row)) * len(cells)
        except (TypeError, DecodingError):
            check_put(self.wide.name, put)
            raise
        if not cells or not {type(put.timestamp), type(put.ttl)} <= _TIMES:
            check_put(self.wide.name, put)
        parts = growing.setdefault(row, [])
        same_time = next((part for part in reversed(parts) if part.timestamp == put.timestamp), None)
        if (
            same_time is None
            or same_time.ttl != put.ttl
            or (max_bytes is not None and same_time.size + size > max_bytes)
        ):
            same_time = _GrowingPut(put.timestamp, put.ttl)
            parts.append(same_time)
        same_time.cells.update(cells)
        same_time.size += size

    # --- changes of rows ----------------------------------------------------------------------------------------------

    def delete(self, deletes: Sequence[Delete]) -> None:
        """See `FoldedStore.delete`."""
        if row_deletes := self._deletes(deletes):
            self.store.delete(self.wide.table, row_deletes)

    def mutate_row(self, mutations: Sequence[Put | Delete]) -> None:
        """See `FoldedStore.mutate_row`."""
        if row_changes := self._change(mutations):
            self.store.mutate_row(self.wide.table, row_changes)

    def _change(self, mutations: Sequence[Put | Delete]) -> list[Put | Delete]:
        """Returns the mutations of one row, made by `of_rows`. Raises `InvalidRequest` if there are several rows."""
        changes = self.of_rows(mutations)
        rows = {self._cut(mutation.row)[0] for mutation in mutations}
        if len(rows) > 1:
            raise InvalidRequest(ONE_ROW, table=self.wide.name, rows=len(rows))
        return changes

    def of_rows(self, mutations: Sequence[Put | Delete]) -> list[Put | Delete]:
        """Translates mutations of objects into mutations of the wide rows.

        Puts of one row with the same timestamp and TTL are joined into one put.
        """
        deletes = self._deletes([mutation for mutation in mutations if isinstance(mutation, Delete)])
        return [*deletes, *self._merged((mutation for mutation in mutations if isinstance(mutation, Put)), None)]

    def _deletes(self, deletes: Sequence[Delete]) -> list[Delete]:
        """Makes deletes of columns, one for each row and timestamp. For a whole object, the delete lists its declared
        columns and all other columns that it has.
        """
        wide = self.wide
        whole = [delete.row for delete in deletes if delete.families or not delete.columns]
        columns_of_rows = self._columns_of(whole) if whole else {}
        growing: dict[tuple[bytes, int | None], dict[bytes, None]] = {}
        for delete in deletes:
            row, prefix = self._cut(delete.row)
            columns = growing.setdefault((row, delete.timestamp), {})
            columns.update(dict.fromkeys(wide.column(prefix, column) for column in delete.columns))
            if delete.families or not delete.columns:
                own = dict.fromkeys(
                    [
                        *(wide.column(prefix, column) for column in (*wide.columns, *wide.rare)),
                        *columns_of_rows[delete.row],
                    ]
                )
                for column in wide.kept:
                    own.pop(wide.column(prefix, column), None)
                columns.update(own)
        return [
            Delete(row, columns=list(columns), timestamp=timestamp)
            for (row, timestamp), columns in growing.items()
            if columns
        ]

    def _columns_of(self, places: Iterable[bytes]) -> dict[bytes, Sequence[bytes]]:
        """Returns the columns of the table in which some objects have cells, by object key."""
        distinct = list(dict.fromkeys(places))
        if self.wide.bare:
            return dict.fromkeys(distinct, ())
        gets = []
        for place in distinct:
            row, prefix = self._cut(place)
            gets.append(Get(row, [self.wide.family], prefix))
        rows_read = self.store.get_each(self.wide.table, gets)
        pass_gate()
        version = None if self.wide.row_version is None else self.wide.lead + ROW_VERSION
        return {
            place: () if row is None else [column for column in row.columns if column != version]
            for place, row in zip(distinct, rows_read, strict=True)
        }

    # --- conditions ---------------------------------------------------------------------------------------------------

    def check_and_put(self, place: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        """See `FoldedStore.check_and_put`."""
        if put.row != place:
            check_conditional_put(self.wide.name, place, column, put)
        row_put = self._conditional_put(ConditionalPut(column, expected, put))
        return self.store.check_and_put(self.wide.table, row_put.put.row, row_put.column, expected, row_put.put)

    def check_and_put_each(self, puts: Sequence[ConditionalPut]) -> Sequence[bool]:
        """See `FoldedStore.check_and_put_each`."""
        return check_and_put_each(self.store, self.wide.table, list(map(self._conditional_put, puts)))

    def _conditional_put(self, object_put: ConditionalPut) -> ConditionalPut:
        """Turns a conditional put of an object into a conditional put of its row."""
        row, prefix = self._cut(object_put.put.row)
        cells = {self.wide.column(prefix, name): value for name, value in object_put.put.cells.items()}
        return ConditionalPut(
            self.wide.column(prefix, object_put.column),
            object_put.expected,
            Put(row, cells, object_put.put.timestamp, object_put.put.ttl),
        )

    def check_and_mutate(
        self, place: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        """See `FoldedStore.check_and_mutate`."""
        if not mutations:
            check_conditional_change(self.wide.name, place, column, mutations)
        return self._change_if(self.conditional(place, column, expected, mutations))

    def _change_if(self, change: ConditionalChange) -> bool:
        if not change.mutations:  # there is nothing to delete, so only the condition is checked
            return self._holds(change)
        return self.store.check_and_mutate(
            self.wide.table, change.row, change.column, change.expected, change.mutations
        )

    def change_and_get(
        self, change: ConditionalChange | ConditionalPut, columns: Sequence[bytes]
    ) -> tuple[bool, Sequence[Row | None] | None]:
        """See `FoldedStore.change_and_get`."""
        row_change: ConditionalChange | ConditionalPut
        if isinstance(change, ConditionalPut):
            part = PartOfRow(self.wide, Get(change.put.row, columns))
            row_change = self._conditional_put(change)
        else:
            if not change.mutations:
                check_conditional_change(self.wide.name, change.row, change.column, ())
            row_change = self.conditional(change.row, change.column, change.expected, change.mutations)
            if not row_change.mutations:
                return self._change_if(row_change), None
            part = PartOfRow(self.wide, Get(change.row, columns))
        applied, rows = change_and_get(self.store, self.wide.table, row_change, part.get.columns)
        return applied, None if rows is None else [part.object(row) for row in rows]

    def check_and_mutate_many(self, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        """See `FoldedStore.check_and_mutate_many`."""
        for change in changes:
            if not change.mutations:
                check_conditional_change(self.wide.name, change.row, change.column, ())
        row_changes = [
            self.conditional(change.row, change.column, change.expected, change.mutations) for change in changes
        ]
        if all(change.mutations for change in row_changes):
            if self.wide.row_version is None:
                return self.store.check_and_mutate_many(self.wide.table, row_changes)
            return change_together(self.store, self.wide.table, row_changes, atomic=False)
        return [self._change_if(change) for change in row_changes]

    def _cut(self, place: bytes) -> tuple[bytes, bytes]:
        """Returns the row and the qualifier prefix of an object. An object key may be longer than a row key."""
        if type(place) is not bytes or not place:
            check_row(self.wide.name, place)
        return self.wide.places.cut(place)

    def conditional(
        self, place: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> ConditionalChange:
        """Turns a conditional change of an object into a conditional change of its row. The result may have no
        mutations.
        """
        row, prefix = self._cut(place)
        change = self._change(mutations)
        if any(mutation.row != row for mutation in change):
            raise InvalidRequest(ONE_ROW, table=self.wide.name, key=row)
        row_change = ConditionalChange(row, self.wide.column(prefix, column), expected, change)
        return (
            row_change
            if self.wide.row_version is None
            else checked_where_it_stands(row_change, self.wide.lead + ROW_VERSION)
        )

    def _holds(self, change: ConditionalChange) -> bool:
        (current,) = self.store.get(self.wide.table, [change.row], [change.column])
        cell = None if current is None else current.columns.get(change.column)
        return (b"" if cell is None else cell.value) == (change.expected or b"")

    def increment(self, place: bytes, column: bytes, amount: int) -> int:
        """See `FoldedStore.increment`."""
        check_column(self.wide.name, column)
        row, prefix = self._cut(place)
        return self.store.increment(self.wide.table, row, self.wide.column(prefix, column), amount)


@frozen
class LatePut:
    """A put that is made when `end` is called."""

    put: Callable[[], None]

    def end(self) -> None:
        """Makes the put."""
        pass_gate()
        self.put()

    def abandon(self) -> None:
        """Does nothing, since nothing was begun."""
