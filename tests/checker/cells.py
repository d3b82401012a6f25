"""Rows of HBase as the model checker keeps them: of each column the newest cell and its tombstone, with the row's own
tombstone.

A store is a dict from (table, row) to (tombstone, columns), columns being sorted pairs of a column and (tombstone,
timestamp, value). Per column the cell of the greatest timestamp counts and, of equal ones, the one that arrived last. A
tombstone hides every cell up to its timestamp, those too that arrive after it. Deletes are of everything up to a
timestamp, so older cells never show again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

NEG = -1
"""The timestamp of what is not there."""

Store = dict[Any, Any]
Step = tuple[Any, ...]


class Violation(Exception):
    """Something that must hold does not."""


def vis(store: Store, table: Any, row: Any) -> tuple[tuple[Any, int, Any], ...]:
    """The visible cells of a row: (column, timestamp, value)."""
    state = store.get((table, row))
    return () if state is None else _vis(state)


@lru_cache(100_000)
def _vis(state: tuple[int, Any]) -> tuple[tuple[Any, int, Any], ...]:
    whole, columns = state
    return tuple((c, ts, value) for c, (tombstone, ts, value) in columns if ts > whole and ts > tombstone and ts >= 0)


def _put(store: Store, table: Any, row: Any, cells: Any, timestamp: int) -> None:
    """Puts (column, value) pairs; what a tombstone hides is left out."""
    whole, columns = store.get((table, row), (NEG, ()))
    after = dict(columns)
    for column, value in cells:
        tombstone, newest, _ = after.get(column, (NEG, NEG, None))
        if timestamp > max(whole, tombstone) and timestamp >= newest:
            after[column] = (tombstone, timestamp, value)
    store[(table, row)] = (whole, tuple(sorted(after.items())))


def _delrow(store: Store, table: Any, row: Any, timestamp: int) -> None:
    """Hides every cell of a row up to a timestamp."""
    whole, columns = store.get((table, row), (NEG, ()))
    _keep(store, (table, row), max(whole, timestamp), columns)


def _delcol(store: Store, table: Any, row: Any, column: Any, timestamp: int) -> None:
    """Hides every cell of a column up to a timestamp."""
    whole, columns = store.get((table, row), (NEG, ()))
    after = dict(columns)
    tombstone, newest, value = after.get(column, (NEG, NEG, None))
    after[column] = (max(tombstone, timestamp), newest, value)
    _keep(store, (table, row), whole, tuple(sorted(after.items())))


def _keep(store: Store, key: tuple[Any, Any], whole: int, columns: Any) -> None:
    """One state for what is the same: hidden cells and tombstones under the row's own are left out."""
    kept = []
    for column, (tombstone, timestamp, value) in columns:
        shown = timestamp > max(whole, tombstone)
        cell = (tombstone if tombstone > whole else NEG, timestamp if shown else NEG, value if shown else None)
        if cell[:2] != (NEG, NEG):
            kept.append((column, cell))
    if whole == NEG and not kept:
        store.pop(key, None)
    else:
        store[key] = (whole, tuple(kept))


OPS: dict[str, Callable[[Store, Step], Any]] = {}
"""What each kind of step does to a store, by name; answers with what the process sees."""


def apply_op(store: Store, step: Step, clock: int = 0) -> Any:
    """Carries out a step in a store; returns its answer."""
    return OPS[step[0]](store, step)


def _scan(store: Store, step: Step) -> tuple[Any, Any] | None:
    """The next row with any visible cell after a key within bounds, with its cells."""
    _, table, after, low, high = step[:5]
    keys = [key for where, key in store if where == table and (after is None or key > after) and low <= key <= high]
    return next(((key, cells) for key in sorted(keys) if (cells := vis(store, table, key))), None)


OPS["scan"] = _scan
