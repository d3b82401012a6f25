"""The store of moves to another key in the model checker: calls on rows and entries, and what the processes note in
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.protocol.operations import CheckAndMutate, DeleteRows, GetRows, MutateRow, PutRows
from hbmodel.protocol.ttl_timestamps import MOVED, OWN, STAMP_LIFE
from hbmodel.store import Delete, Put
from tests.checker.protocol_adapter import Step, StoredCell, StoredRow, Told, mc

SERVER, DELETING, BROKEN, SAME = ("server", 0), ("deleting", 0), ("broken", 0), ("same", 0)
LATE = ("late", 0)
OUTCOME, ROW_VERSION = "outcome", "row version"
"""Keys of the checker's store: the server's clock, whether a delete has begun, what a step found wrong, whether the
second move is the first one's call once more and nothing else can be under the new key, whether so much time has passed
that the cells have expired which say who put a row, and what calls have ended in."""

THE, ANOTHER = 1, 2


def row_of(row: bytes, cells: Any) -> Any:
    return StoredRow(row, {c: StoredCell(v, t) for c, t, v in cells}) if cells else None


def place_of(model: type[Any], name: str) -> bytes:
    return KeyMapper(hb.schema.schema_of(model)).rows((name,))[0]


def cells_of(store: Any, table: str, row: bytes, columns: Sequence[bytes] = ()) -> tuple[Any, ...]:
    """The cells that a get shows; objects of a versioned wide model show the version of their row too."""
    families = {column for column in columns if b":" not in column}
    cells = mc.vis(store, table, row) + mc.vis(store, (ROW_VERSION, table), b"")
    return tuple((c, ts, v) for c, ts, v in cells if not columns or c in columns or c.partition(b":")[0] in families)


def _apply(store: Any, table: str, mutations: Sequence[Put | Delete]) -> None:
    if any(mutation.timestamp is None for mutation in mutations):
        store[SERVER] += 1  # no two calls share a millisecond: the other tests of such rows have them do so
    for mutation in mutations:
        at = store[SERVER] if mutation.timestamp is None else mutation.timestamp
        if isinstance(mutation, Put):
            own = tuple(sorted((c, v) for c, v in mutation.cells.items() if c != b"d:_r"))
            mc._put(store, table, mutation.row, own, at)
            if b"d:_r" in mutation.cells:
                mc._put(store, (ROW_VERSION, table), b"", ((b"d:_r", mutation.cells[b"d:_r"]),), at)
        elif mutation.columns:
            for column in mutation.columns:
                mc._delcol(store, table, mutation.row, column, at)
        else:
            mc._delrow(store, table, mutation.row, at)


def _call(store: Any, step: Step) -> Any:
    match step[1]:
        case GetRows(table, (row,), columns):
            return Told(cells_of(store, table, row, columns))
        case PutRows(table, mutations) | DeleteRows(table, mutations) | MutateRow(table, mutations):
            _apply(store, table, mutations)
        case CheckAndMutate(table, row, column, expected, mutations):
            held = {c: v for c, _, v in cells_of(store, table, row)}.get(column)
            if (held or None) != expected:
                return False
            _apply(store, table, mutations)
            return True
    return None


def _ended(store: Any, step: Step) -> None:
    store[(OUTCOME, step[1])] = step[2]


def _deleting(store: Any, step: Step) -> None:
    store[DELETING] = 1


def _late(store: Any, step: Step) -> None:
    store[LATE] = 1
    store[SERVER] += 2 * STAMP_LIFE
    for place, (whole, columns) in [(of, held) for of, held in store.items() if isinstance(of[1], bytes)]:
        store[place] = (
            whole,
            tuple(cell for cell in columns if not cell[0].startswith(b"d:_p") or cell[1][2] not in {OWN, MOVED}),
        )


def _looked(store: Any, step: Step) -> None:
    if not store.get(DELETING):
        store[BROKEN] = "MISSED: a reader found the object under neither key"


mc.OPS.update(moving=_call, moving_ended=_ended, moving_deleting=_deleting, moving_missed=_looked, moving_late=_late)
