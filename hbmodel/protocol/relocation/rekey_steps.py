"""The steps that move an object to another key: the steps common to all kinds of rows, and the steps for rows without
system cells.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, evolve, field

from hbmodel.errors import ClockError
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.future_cells import hide_increments, mask_of, time_for
from hbmodel.protocol.indexed.entries_first import with_entries_first
from hbmodel.protocol.indexed.index_build import RowIndexer, keep_entries
from hbmodel.protocol.indexed.move_marks import MoveMark
from hbmodel.protocol.operations import (
    Acknowledge,
    AwaitClock,
    CheckAndMutate,
    DeleteRows,
    LetClockTick,
    Operation,
    Protocol,
    ReadClock,
    carried_out,
)
from hbmodel.protocol.server_timed.unindexed_insert import insert_unindexed
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.ttl_timestamps import traces_of
from hbmodel.protocol.writes import Outcome, PutObject
from hbmodel.store.values import Delete, Put, Row


def draw_move_nonce() -> bytes:
    """Returns a nonce that distinguishes moves. It is drawn from the random source of the system, so forked processes
    never share a nonce.
    """
    return os.urandom(8)


def without_acknowledgement(
    protocol: Protocol[Any], change: Callable[[CheckAndMutate], Operation] = lambda operation: operation
) -> Protocol[Any]:
    """Runs a protocol as a part of another protocol, without its acknowledgement. The function `change` may replace the
    protocol's conditional change.
    """

    def step(operation: Operation) -> Protocol[Any]:
        if isinstance(operation, Acknowledge):
            return None
        return (yield change(operation) if isinstance(operation, CheckAndMutate) else operation)

    return carried_out(protocol, step)


@define(eq=False)
class RowMover:
    """The steps of a move that rows of every kind have in common.

    Attributes:
        reader: decodes whole objects.
        placed: the outcome of the mutation that moved an object within its row, once the mutation was carried out.
        left: whether that mutation was carried out, even if a delete may have hidden the cells that it put.
    """

    reader: RowDecoder
    nonce: Callable[[], bytes] = field(default=draw_move_nonce, kw_only=True)
    placed: Outcome | None = field(default=None, init=False)
    left: bool = field(default=False, init=False)

    @property
    def schema(self) -> TableSchema:
        """The schema of the model."""
        return self.reader.schema

    @property
    def columns(self) -> Sequence[bytes]:
        """The columns or families that must be read from a row: everything that belongs to the object."""
        return self.schema.family_names

    def end_of(self, row: Row) -> int | None:
        """Returns the time in ms since 1970 at which a row expires, or None if it does not expire."""
        raise NotImplementedError

    def moves_within_row(self, row: Row) -> bool:
        """Returns whether one mutation can move an object to another place in its row, given the row as it was read."""
        return True

    @property
    def moves_unmarked(self) -> bool:
        """Whether an object moves within its row without a mark. If so, the version of the row serves as the mark."""
        return self.schema.versioned

    @property
    def copies_again(self) -> bool:
        """Whether a new copy is made if the old row has changed since it was copied."""
        return True

    def live(self, row: Row | None) -> bool:
        """Returns whether a row that was read is an object."""
        return row is not None and self.reader.exists(row)

    def outcome(self, row: Row) -> Outcome:
        """Returns the outcome of putting the new row."""
        return Outcome("put", row.row)

    def mark(self, row: Row, mark: MoveMark, version: int, over: MoveMark | None = None) -> Protocol[bool]:
        """Marks the old row. Returns whether the row was marked.

        Args:
            version: the version that the row must have, or 0 for any.
            over: the mark that the new mark replaces, or None. A program that has read the replaced mark can no longer
                delete the row.
        """
        raise NotImplementedError

    def unmark(self, row: Row, mark: MoveMark) -> Protocol[None]:
        """Removes the mark from an old row that is not deleted."""
        yield from self.clear(mark, row.row)

    def clear(self, mark: MoveMark, row: bytes) -> Protocol[None]:
        """Removes a mark that no program needs any more."""
        yield DeleteRows(self.schema.table, [Delete(row, columns=(self.schema.move_column,), timestamp=mark.timestamp)])

    def copy(self, write: PutObject) -> Protocol[Any]:
        """Puts the new row if its key is free. Otherwise raises `RowExists`."""
        raise NotImplementedError

    def take_back(self, row: Row) -> Protocol[Any]:
        """Deletes a copy, unless another program has changed it."""
        raise NotImplementedError

    def claim(self, old: Row, new: Row) -> Protocol[bool]:
        """Claims the unique values for the new row. Returns False if the rows must be read again."""
        return True
        yield

    def leave(self, row: Row) -> Protocol[bool]:
        """Deletes the old row if it has not changed since it was read. Returns whether the row was deleted."""
        raise NotImplementedError

    def move_within_row(self, old: Row, new: Row | None, write: PutObject, version: int) -> Protocol[Outcome | None]:
        """Moves an object to another place in its row by one mutation. Returns None if the row must be read again."""
        raise NotImplementedError

    def keep_entries(self, row: bytes) -> Protocol[None]:
        """Puts the entries of the new row for the current indexes.

        The program that put the row may have stopped before it put all entries.
        """
        return
        yield

    def finish(self) -> Protocol[None]:
        """Yields the steps that may follow the acknowledgement."""
        return
        yield


@define(eq=False)
class UnindexedMover(RowMover):
    """Moves objects whose rows have no system cells, at the server's time.

    Attributes:
        column: the column that is never empty in a row.
        bound: the maximum time, in ms, by which a cell may be ahead of its server's clock.
        indexes: the indexes that must be maintained for rows without system cells.
    """

    planner: UnindexedRowPlanner
    column: bytes
    bound: int
    indexes: Sequence[Index] = ()

    @property
    def columns(self) -> Sequence[bytes]:
        if not self.schema.external:
            return self.schema.family_names
        return tuple(sorted({*self.planner.own_columns, self.schema.move_column}))

    @property
    def moves_unmarked(self) -> bool:
        """True for an object that is one cell whose qualifier contains only the key: in its row, a mark would be
        another object.

        One mutation puts the object, if its new key is free, and deletes it under the old key. As always, the last
        write wins, so a write to the old key at this moment is not moved.
        """
        return self._bare

    @property
    def _bare(self) -> bool:
        return self.schema.wide_rows is not None and self.schema.wide_rows.bare

    def end_of(self, row: Row) -> int | None:
        return self.planner.end_of(row)

    def mark(self, row: Row, mark: MoveMark, version: int, over: MoveMark | None = None) -> Protocol[bool]:
        """See `RowMover.mark`. The mark expires with its row.

        This call also puts traces. From the traces, an insert that has put the row but has not read it back yet learns
        that the row has moved.
        """
        schema, end, ttl = self.schema, self.end_of(row), None
        yield from self._masks(row)  # errors are raised here, before anything is changed
        if end is not None:
            ttl = max(1, end - (yield ReadClock()))
        put = Put(row.row, {schema.move_column: mark.value}, ttl=ttl)
        applied: bool = yield CheckAndMutate(
            schema.table,
            row.row,
            schema.move_column,
            None if over is None else over.value,
            [put, *traces_of(schema, row)],
        )
        return applied

    def copy(self, write: PutObject) -> Protocol[Any]:
        return self._inserted(write)

    def _inserted(
        self, write: PutObject, change: Callable[[CheckAndMutate], Operation] = lambda operation: operation
    ) -> Protocol[Any]:
        protocol: Protocol[Any] = self._noting(insert_unindexed(self.planner, write, self.column, self.bound))
        if self.indexes:
            protocol = with_entries_first(self.schema, self.indexes, [write], protocol)
        yield from without_acknowledgement(protocol, change)

    def _noting(self, protocol: Protocol[Outcome]) -> Protocol[Outcome]:
        """Runs an insert, and records in `placed` and `left` what was done."""
        self.placed, self.left = None, False

        def step(operation: Operation) -> Protocol[Any]:
            answer = yield operation
            self.left |= isinstance(operation, CheckAndMutate) and answer
            return answer

        outcome = yield from carried_out(protocol, step)
        self.placed = outcome
        return outcome

    def keep_entries(self, row: bytes) -> Protocol[None]:
        return keep_entries(RowIndexer(self.schema, self.indexes, plain=True), row)

    def take_back(self, row: Row) -> Protocol[Any]:
        return self._deleted(row)

    def leave(self, row: Row) -> Protocol[bool]:
        return self._deleted(row)

    def _deleted(self, row: Row) -> Protocol[bool]:
        """Deletes a row if it still has the mark that was read, and then waits for a clock tick, as after every
        delete.
        """
        schema = self.schema
        mark = row.columns[schema.move_column].value
        masks = yield from self._masks(row)
        applied: bool = yield CheckAndMutate(
            schema.table, row.row, schema.move_column, mark, self._deletion(row, masks)
        )
        if applied:
            yield from self._settled(masks)
        return applied

    def _masks(self, row: Row) -> Protocol[list[Delete]]:
        """Returns the deletes of those cells of an old row whose timestamps may be ahead of the server's clock. Raises
        `ClockError` if a cell is too far ahead.
        """
        cells = {
            column: cell for column, cell in row.columns.items() if not column.startswith(self.schema.stamp_prefix)
        }
        now = yield from time_for(self.schema, [cells])
        if now is None:
            return []
        mask = mask_of(self.schema, row.row, cells, now, self.bound)
        if isinstance(mask, ClockError):
            raise mask
        return [] if mask is None else [mask]

    def _settled(self, masks: Sequence[Delete]) -> Protocol[None]:
        """Deletes counters that have been incremented since they were read, and waits until the clock has passed the
        timestamps of all deletes.
        """
        again = yield from hide_increments(self.schema, masks)
        yield LetClockTick()
        for mask in (*masks, *again):
            assert mask.timestamp is not None
            yield AwaitClock(mask.timestamp)

    def _deletion(self, row: Row, masks: Sequence[Delete] = ()) -> list[Put | Delete]:
        whole = self.planner.deletion(row.row)
        if self._bare:
            return [whole, *masks]
        if not whole.families:
            whole = Delete(row.row, columns=(*whole.columns, self.schema.move_column))
        return [whole, *masks, *traces_of(self.schema, row)]

    def move_within_row(self, old: Row, new: Row | None, write: PutObject, version: int) -> Protocol[Outcome | None]:
        masks = yield from self._masks(old)

        def both(operation: CheckAndMutate) -> Operation:
            return evolve(operation, mutations=[*operation.mutations, *self._deletion(old, masks)])

        yield from self._inserted(write, both)
        yield from self._settled(masks)
        return Outcome("put", write.row)
