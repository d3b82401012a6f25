"""Writes of objects as writes of the rows in which they are: puts merged, deletes by an object's own columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, field, frozen

from hbmodel.errors import CapabilityError, DecodingError, InvalidRequest
from hbmodel.store.checks.rows import check_column, check_conditional_change, check_conditional_put, check_put, check_row
from hbmodel.store.port import BegunPut, PipelinedStore, Store
from hbmodel.store.values import CELL_OVERHEAD, ConditionalChange, Delete, Get, Put
from hbmodel.store.wide_rows import WideRows

MAX_ROW_BYTES = 4 * 1024 * 1024
"""Bytes that are written into one row at once, at most."""

MAX_PUT_BYTES = 1024 * 1024
"""Bytes of one put, roughly, where the objects of a row need not be written at once."""


_TIMES = {int, type(None)}

ONE_ROW = "An atomic change is of one row only."


@define(eq=False)
class _GrowingPut:
    """A put of some objects of one row."""

    timestamp: int | None
    ttl: int | None
    cells: dict[bytes, bytes] = field(factory=dict)
    size: int = 0


@frozen
class _Puts:
    """What is put: rows by a put each, and rows that need an atomic change."""

    plain: Sequence[Put]
    changes: Sequence[Sequence[Put]]


@frozen
class FoldedWrites:
    """Writes objects of one wide model.

    Attributes:
        store: with the table.
        wide: of the model.
        atomic_rows: whether all that a `put` writes into one row is written at once.
    """

    store: Store
    wide: WideRows
    atomic_rows: bool = True

    # --- puts -----------------------------------------------------------------------------------------------------------

    def put(self, puts: Sequence[Put]) -> None:
        """See `FoldedStore.put`."""
        merged = self._merged(puts)
        for change in merged.changes:
            self.store.mutate_row(self.wide.table, change)
        if merged.plain:
            self.store.put(self.wide.table, merged.plain)

    def begin_put(self, puts: Sequence[Put]) -> BegunPut:
        """See `FoldedStore.begin_put`."""
        merged = self._merged(puts)
        store = self.store
        if isinstance(store, PipelinedStore) and not merged.changes:
            return store.begin_put(self.wide.table, merged.plain)
        return LatePut(lambda: self.put(puts))

    def _merged(self, puts: Sequence[Put]) -> _Puts:
        growing: dict[bytes, list[_GrowingPut]] = {}
        for put in puts:
            self._grow(growing, put, None if self.atomic_rows else MAX_PUT_BYTES)
        plain: list[Put] = []
        changes: list[Sequence[Put]] = []
        for row, parts in growing.items():
            made = [Put(row, part.cells, part.timestamp, part.ttl) for part in parts]
            if self.atomic_rows:
                self._check_size(row, sum(part.size for part in parts))
                if len(made) > 1:
                    self._check_atomic(row, made)
                    changes.append(made)
                    continue
            plain += made
        return _Puts(plain, changes)

    def _grow(self, growing: dict[bytes, list[_GrowingPut]], put: Put, most: int | None) -> None:
        """Adds a put to those of its row: to the last one of its time, if that has the same life."""
        try:
            row, prefix = self._cut(put.row)
            head = self.wide.lead + prefix
            start = len(self.wide.lead)
            cells = {head + column[start:]: value for column, value in put.cells.items()}
            size = sum(map(len, cells)) + sum(map(len, cells.values())) + (CELL_OVERHEAD + len(row)) * len(cells)
        except (TypeError, DecodingError):
            check_put(self.wide.name, put)
            raise
        if not cells or not {type(put.timestamp), type(put.ttl)} <= _TIMES:
            check_put(self.wide.name, put)
        parts = growing.setdefault(row, [])
        same_time = next((part for part in reversed(parts) if part.timestamp == put.timestamp), None)
        if same_time is None or same_time.ttl != put.ttl or (most is not None and same_time.size + size > most):
            same_time = _GrowingPut(put.timestamp, put.ttl)
            parts.append(same_time)
        same_time.cells.update(cells)
        same_time.size += size

    def _check_size(self, row: bytes, size: int) -> None:
        if size > MAX_ROW_BYTES:
            raise InvalidRequest(
                "Objects that share a row are written at once, and these have more than 4 MiB; write fewer, or give up "
                "atomic_rows.", table=self.wide.name, key=row, size=size,
            )  # fmt: skip

    def _check_atomic(self, row: bytes, puts: Sequence[Put]) -> None:
        """Raises CapabilityError where puts of one row cannot be one change, before anything is sent."""
        if not self.store.capabilities.mutate_row:
            raise CapabilityError(
                "Objects that share a row are written at once, but this store takes no puts of several times or lives in one call; "
                "an hbase+thrift2: store does, or give up atomic_rows.", table=self.wide.name, key=row,
            )  # fmt: skip
        seen: set[tuple[int | None, bytes]] = set()
        for put in puts:
            written = {(put.timestamp, column) for column in put.cells}
            if seen & written:
                raise CapabilityError(
                    "A cell cannot be put twice at one time with two lives and be written at once with its row.",
                    table=self.wide.name, key=row,
                )  # fmt: skip
            seen |= written

    # --- changes of rows ------------------------------------------------------------------------------------------------

    def delete(self, deletes: Sequence[Delete]) -> None:
        """See `FoldedStore.delete`."""
        if made := self._deletes(deletes):
            self.store.delete(self.wide.table, made)

    def mutate_row(self, mutations: Sequence[Put | Delete]) -> None:
        """See `FoldedStore.mutate_row`."""
        if made := self._change(mutations):
            self.store.mutate_row(self.wide.table, made)

    def _change(self, mutations: Sequence[Put | Delete]) -> list[Put | Delete]:
        """The mutations of one row, puts of one time and life in one."""
        deletes = self._deletes([mutation for mutation in mutations if isinstance(mutation, Delete)])
        growing: dict[bytes, list[_GrowingPut]] = {}
        for mutation in mutations:
            if isinstance(mutation, Put):
                self._grow(growing, mutation, None)
        rows = {*growing, *(self._cut(mutation.row)[0] for mutation in mutations)}
        if len(rows) > 1:
            raise InvalidRequest(ONE_ROW, table=self.wide.name, rows=len(rows))
        for row, parts in growing.items():
            self._check_size(row, sum(part.size for part in parts))
        return [*deletes, *(Put(row, part.cells, part.timestamp, part.ttl) for row, parts in growing.items() for part in parts)]

    def _deletes(self, deletes: Sequence[Delete]) -> list[Delete]:
        """Deletes of columns, one for each row and time; those of whole objects take the columns declared and those found."""
        wide = self.wide
        whole = [delete.row for delete in deletes if delete.families or not delete.columns]
        found = self._columns_of(whole) if whole else {}
        growing: dict[tuple[bytes, int | None], dict[bytes, None]] = {}
        for delete in deletes:
            row, prefix = self._cut(delete.row)
            columns = growing.setdefault((row, delete.timestamp), {})
            columns.update(dict.fromkeys(wide.column(prefix, column) for column in delete.columns))
            if delete.families or not delete.columns:
                columns.update(dict.fromkeys(wide.column(prefix, column) for column in wide.columns))
                columns.update(dict.fromkeys(found[delete.row]))
        return [Delete(row, columns=list(columns), timestamp=timestamp) for (row, timestamp), columns in growing.items() if columns]

    def _columns_of(self, places: Iterable[bytes]) -> dict[bytes, Sequence[bytes]]:
        """The columns that objects have, as the table has them."""
        asked = list(dict.fromkeys(places))
        if self.wide.bare:
            return dict.fromkeys(asked, ())
        gets = []
        for place in asked:
            row, prefix = self._cut(place)
            gets.append(Get(row, [self.wide.family], prefix))
        found = self.store.get_each(self.wide.table, gets)
        return {place: () if row is None else list(row.columns) for place, row in zip(asked, found, strict=True)}

    # --- conditions -----------------------------------------------------------------------------------------------------

    def check_and_put(self, place: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        """See `FoldedStore.check_and_put`."""
        if put.row != place:
            check_conditional_put(self.wide.name, place, column, put)
        row, prefix = self._cut(place)
        cells = {self.wide.column(prefix, name): value for name, value in put.cells.items()}
        return self.store.check_and_put(
            self.wide.table, row, self.wide.column(prefix, column), expected, Put(row, cells, put.timestamp, put.ttl)
        )

    def check_and_mutate(self, place: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]) -> bool:
        """See `FoldedStore.check_and_mutate`."""
        if not mutations:
            check_conditional_change(self.wide.name, place, column, mutations)
        change = self._conditional(place, column, expected, mutations)
        if not change.mutations:  # nothing to delete: it is the same whether the condition and the change are one
            return self._holds(change)
        return self.store.check_and_mutate(self.wide.table, change.row, change.column, expected, change.mutations)

    def check_and_mutate_many(self, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        """See `FoldedStore.check_and_mutate_many`."""
        for change in changes:
            if not change.mutations:
                check_conditional_change(self.wide.name, change.row, change.column, ())
        made = [self._conditional(change.row, change.column, change.expected, change.mutations) for change in changes]
        if all(change.mutations for change in made):
            return self.store.check_and_mutate_many(self.wide.table, made)
        return [self.check_and_mutate(change.row, change.column, change.expected, change.mutations) for change in changes]

    def _cut(self, place: bytes) -> tuple[bytes, bytes]:
        """The row and the qualifier prefix of an object; a place key may be longer than a row key."""
        if type(place) is not bytes or not place:
            check_row(self.wide.name, place)
        return self.wide.places.cut(place)

    def _conditional(self, place: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]) -> ConditionalChange:
        row, prefix = self._cut(place)
        change = self._change(mutations)
        if any(mutation.row != row for mutation in change):
            raise InvalidRequest(ONE_ROW, table=self.wide.name, key=row)
        return ConditionalChange(row, self.wide.column(prefix, column), expected, change)

    def _holds(self, change: ConditionalChange) -> bool:
        (found,) = self.store.get(self.wide.table, [change.row], [change.column])
        cell = None if found is None else found.columns.get(change.column)
        return (b"" if cell is None else cell.value) == (change.expected or b"")

    def increment(self, place: bytes, column: bytes, amount: int) -> int:
        """See `FoldedStore.increment`."""
        check_column(self.wide.name, column)
        row, prefix = self._cut(place)
        return self.store.increment(self.wide.table, row, self.wide.column(prefix, column), amount)


@frozen
class LatePut:
    """A put that is made when it ends."""

    end: Callable[[], None]

    def abandon(self) -> None:
        """Nothing was begun."""
