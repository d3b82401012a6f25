"""A store for code that makes calls: they become steps of the model checker, and the code runs again from its start for
each.

The behaviour of the code must be a function of the answers that it has received. Rows are kept as in `cells.py`,
several tables side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from hbmodel.errors import StoreError
from hbmodel.store import Capabilities, Delete, Get, Put, Row
from hbmodel.store.values import ConditionalChange
from tests.checker.protocol_adapter import StoredCell, StoredRow, Told, mc

SERVER, DISTINCT = ("server", 0), ("distinct", 0)
"""The server's clock, and by how much it moves before each call that changes something."""

LOST = "lost"
"""Stands for an answer that never came."""

Call = tuple[Any, ...]


class Needed(BaseException):
    """The code has made a call that is not answered yet."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call


class LostAnswer(StoreError):
    """A call was carried out, and its answer was lost."""


@define(eq=False)
class Replayed:
    """Answers calls in turn, and raises `Needed` at the first one that has no answer yet.

    Attributes:
        capabilities: what the store can do.
        answers: so far.
        at: how many of them were given.
    """

    capabilities: Capabilities
    answers: Sequence[Any] = ()
    at: int = field(default=0, init=False)

    def _answer(self, *call: Any) -> Any:
        if self.at == len(self.answers):
            raise Needed(Told(call))
        found = self.answers[self.at]
        self.at += 1
        if found == LOST:
            raise LostAnswer("The answer was lost.")
        return found

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        return self.get_each(table, [Get(row, columns) for row in rows])

    def get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        found = self._answer("get", table, tuple((get.row, tuple(get.columns), get.prefix) for get in gets))
        return [as_row(get.row, cells) for get, cells in zip(gets, found, strict=True)]

    def put(self, table: str, puts: Sequence[Put]) -> None:
        self._answer("change", table, tuple(map(_taken, puts)))

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        self._answer("change", table, tuple(map(_taken, deletes)))

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        self._answer("change", table, tuple(map(_taken, mutations)))

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        (applied,) = self.check_and_mutate_many(table, [ConditionalChange(row, column, expected, mutations)])
        return applied

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        asked = tuple((c.row, c.column, c.expected, tuple(map(_taken, c.mutations))) for c in changes)
        found: Sequence[bool] = self._answer("change if", table, asked)
        return found


def as_row(row: bytes, cells: Sequence[tuple[bytes, int, bytes]]) -> Any:
    """The answer of a store for these cells of a row."""
    return (
        StoredRow(row, {column: StoredCell(value, timestamp) for column, timestamp, value in cells}) if cells else None
    )


def _taken(mutation: Put | Delete) -> tuple[Any, ...]:
    if isinstance(mutation, Put):
        assert mutation.ttl is None, "nothing expires here"
        return Told(("put", mutation.row, tuple(sorted(mutation.cells.items())), mutation.timestamp))
    return Told(("delete", mutation.row, tuple(mutation.families), tuple(mutation.columns), mutation.timestamp))


# --- what a call does -------------------------------------------------------------------------------------------------


def carried_out(store: Any, call: Call) -> Any:
    """A call in the checker's store, and its answer."""
    name, table, asked = call
    if name == "get":
        return Told(Told(read(store, table, *get)) for get in asked)
    store[SERVER] += store[DISTINCT]
    if name == "change":
        return _change(store, table, asked)
    return Told(_change_if(store, table, *each) for each in asked)


def read(
    store: Any, table: str, row: bytes, columns: Sequence[bytes] = (), prefix: bytes = b""
) -> tuple[tuple[bytes, int, bytes], ...]:
    """The cells that a get shows."""
    return tuple(
        (c, t, v)
        for c, t, v in mc.vis(store, table, row)
        if (not columns or c in columns or c.partition(b":")[0] in columns) and c.partition(b":")[2].startswith(prefix)
    )


def _change(store: Any, table: str, mutations: Sequence[Any]) -> None:
    for kind, row, *what, timestamp in mutations:
        at = store[SERVER] if timestamp is None else timestamp
        if kind == "put":
            mc._put(store, table, row, what[0], at)
            continue
        families, columns = what
        for column in columns:
            mc._delcol(store, table, row, column, at)
        if families or not columns:
            mc._delrow(store, table, row, at)


def _change_if(
    store: Any, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Any]
) -> bool:
    held = {c: value for c, _, value in mc.vis(store, table, row)}.get(column)
    if (held or None) != (expected or None):
        return False
    _change(store, table, mutations)
    return True
