"""The steps that move an object to another key, for rows without system cells, last-write-wins rows, and versioned rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, evolve, field

from hbmodel.mapping.mapper import RowDecoder
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.move_marks import MoveMark
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutate,
    DeleteRows,
    LetClockTick,
    Operation,
    Protocol,
    ReadClock,
)
from hbmodel.protocol.plain_write import behind_entries
from hbmodel.protocol.server_time import traces_of
from hbmodel.protocol.unindexed_insert import insert_unindexed
from hbmodel.protocol.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.writes import Outcome, PutObject
from hbmodel.store.values import Delete, Put, Row


def draw_move_nonce() -> bytes:
    """By which moves are distinguished; from the system's source, so that forked processes never share one."""
    return os.urandom(8)


def without_acknowledgement(
    protocol: Protocol[Any], change: Callable[[CheckAndMutate], Operation] = lambda operation: operation
) -> Protocol[Any]:
    """A protocol as a part of another one: it acknowledges nothing, and its conditional change may be another."""
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = None
        if not isinstance(operation, Acknowledge):
            answer = yield change(operation) if isinstance(operation, CheckAndMutate) else operation


@define(eq=False)
class RowMover:
    """The steps of a move that rows of every kind have in common.

    Attributes:
        reader: of whole objects.
        nonce: source of the nonces of moves.
    """

    reader: RowDecoder
    nonce: Callable[[], bytes] = field(default=draw_move_nonce, kw_only=True)

    @property
    def schema(self) -> TableSchema:
        """Of the model."""
        return self.reader.schema

    @property
    def columns(self) -> Sequence[bytes]:
        """What is read of rows: all that belongs to the object."""
        return self.schema.family_names

    def end_of(self, row: Row) -> int | None:
        """When a row expires, in ms since 1970, or None."""
        raise NotImplementedError

    @property
    def moves_within_rows(self) -> bool:
        """Whether an object moves to another place in its row by one mutation."""
        return True

    @property
    def copies_again(self) -> bool:
        """Whether a copy is made once more where the old row has changed since."""
        return True

    def live(self, row: Row | None) -> bool:
        """Whether a row that was read is an object."""
        return row is not None and self.reader.exists(row)

    def outcome(self, row: Row) -> Outcome:
        """Of the put of the new row."""
        return Outcome("put", row.row)

    def mark(self, row: Row, mark: MoveMark, version: int, over: MoveMark | None = None) -> Protocol[bool]:
        """Marks the old row; returns whether that was done.

        Args:
            row: the old row.
            mark: of the move.
            version: that the row must have, or 0 for any.
            over: the mark that this one takes the place of. Whoever has read that does not delete the row any more.
        """
        raise NotImplementedError

    def unmark(self, row: Row, mark: MoveMark) -> Protocol[None]:
        """Takes the mark away from an old row that stays."""
        yield from self.clear(mark, row.row)

    def clear(self, mark: MoveMark, row: bytes) -> Protocol[None]:
        """Takes a mark away where nobody can mind."""
        yield DeleteRows(self.schema.table, [Delete(row, columns=(self.schema.move_column,), timestamp=mark.timestamp)])

    def copy(self, write: PutObject) -> Protocol[Any]:
        """Puts the new row, if its key is free; raises `RowExists`."""
        raise NotImplementedError

    def take_back(self, row: Row) -> Protocol[Any]:
        """Deletes a copy that nobody has changed."""
        raise NotImplementedError

    def claim(self, old: Row, new: Row) -> Protocol[bool]:
        """Has the values that may stand once only claimed for the new row; False where it must be looked at again."""
        return True
        yield

    def leave(self, row: Row) -> Protocol[bool]:
        """Deletes the old row, if it is still as it was read; returns whether that was done."""
        raise NotImplementedError

    def move_within_row(self, old: Row, new: Row | None, write: PutObject, version: int) -> Protocol[Outcome | None]:
        """Moves an object to another place in its row, by one mutation; None where it must be looked at again."""
        raise NotImplementedError

    def finish(self) -> Protocol[None]:
        """What may follow the acknowledgement."""
        return
        yield


@define(eq=False)
class UnindexedMover(RowMover):
    """Moves objects whose rows have no system cells, at the server's time.

    Attributes:
        planner: plans the mutations.
        column: that no row leaves empty.
        bound: how far a cell may lie ahead of its server's clock, in ms.
        indexes: those whose entries stand without system cells.
    """

    planner: UnindexedRowPlanner
    column: bytes
    bound: int
    indexes: Sequence[Index] = ()

    @property
    def columns(self) -> Sequence[bytes]:
        """Every column of the model, and in a table of its own whatever else is in its families."""
        if not self.schema.foreign:
            return self.schema.family_names
        return tuple(sorted({*self.planner.columns, self.schema.move_column}))

    def end_of(self, row: Row) -> int | None:
        """See `RowMover.end_of`."""
        return self.planner.end_of(row)

    def mark(self, row: Row, mark: MoveMark, version: int, over: MoveMark | None = None) -> Protocol[bool]:
        """See `RowMover.mark`; the mark expires with its row.

        An insert that has put the row and has not looked at it yet learns that it was seen, and does not put it again when it is gone.
        """
        schema, end, ttl = self.schema, self.end_of(row), None
        if end is not None:
            ttl = max(1, end - (yield ReadClock()))
        put = Put(row.row, {schema.move_column: mark.value}, ttl=ttl)
        applied: bool = yield CheckAndMutate(
            schema.table, row.row, schema.move_column, None if over is None else over.value, [put, *traces_of(schema, row)]
        )
        return applied

    def copy(self, write: PutObject) -> Protocol[Any]:
        """See `RowMover.copy`."""
        return self._inserted(write)

    def _inserted(self, write: PutObject, change: Callable[[CheckAndMutate], Operation] = lambda operation: operation) -> Protocol[Any]:
        protocol: Protocol[Any] = insert_unindexed(self.planner, write, self.column, self.bound)
        if self.indexes:
            protocol = behind_entries(self.schema, self.indexes, [write], protocol)
        yield from without_acknowledgement(protocol, change)

    def take_back(self, row: Row) -> Protocol[Any]:
        """See `RowMover.take_back`."""
        return self._deleted(row)

    def leave(self, row: Row) -> Protocol[bool]:
        """See `RowMover.leave`."""
        return self._deleted(row)

    def _deleted(self, row: Row) -> Protocol[bool]:
        """Deletes a row under its mark, and lets the clock tick as after every delete."""
        schema = self.schema
        mark = row.columns[schema.move_column].value
        applied: bool = yield CheckAndMutate(schema.table, row.row, schema.move_column, mark, self._deletion(row))
        if applied:
            yield LetClockTick()
        return applied

    def _deletion(self, row: Row) -> list[Put | Delete]:
        whole = self.planner.deletion(row.row)
        if not whole.families:
            whole = Delete(row.row, columns=(*whole.columns, self.schema.move_column))
        return [whole, *traces_of(self.schema, row)]

    def move_within_row(self, old: Row, new: Row | None, write: PutObject, version: int) -> Protocol[Outcome | None]:
        """See `RowMover.move_within_row`."""

        def both(operation: CheckAndMutate) -> Operation:
            return evolve(operation, mutations=[*operation.mutations, *self._deletion(old)])

        yield from self._inserted(write, both)
        yield LetClockTick()
        return Outcome("put", write.row)
