"""Applies filters to logical rows in the client, because the server can filter only whole rows, not the objects in
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hbmodel.store.filtering.row_filter import RowFilter
from hbmodel.store.filters import And, Filter, FirstCellOnly, KeyOnly, Or, RowContains, ValueFilter
from hbmodel.store.values import Cell
from hbmodel.store.wide.wide_rows import ObjectRow

Cells = Mapping[bytes, Cell]
"""The cells of a logical row."""

ObjectFilter = Callable[[ObjectRow], ObjectRow | None]
"""A function that returns the part of a logical row that passes, or None if nothing passes."""

_COMPARISONS: dict[str, Callable[[bytes, bytes], bool]] = {
    "=": bytes.__eq__,
    "!=": bytes.__ne__,
    "<": bytes.__lt__,
    "<=": bytes.__le__,
    ">": bytes.__gt__,
    ">=": bytes.__ge__,
}

COUNTED = And([FirstCellOnly(), KeyOnly()])
"""The filter of a read that only finds out which rows exist."""

_KEYS_ONLY = KeyOnly()


def keys_only(filter: Filter | None) -> bool:
    """Returns whether the server can omit all values, because the filter does not return them."""
    return filter is not None and filter in (_KEYS_ONLY, COUNTED)


def object_filter(filter: Filter | None, reversed: bool) -> ObjectFilter | None:
    """Returns the function that applies a filter to logical rows, or None if the filter would change nothing.

    A filter that only decides whether a row passes becomes a test of the row. Any other filter is evaluated cell by
    cell, as HBase does in a scan of the same direction.
    """
    if filter is None or filter == _KEYS_ONLY:  # the server has already left the values out
        return None
    if filter == COUNTED:
        return _first_cell
    passes = _predicate(filter)
    if passes is None:
        return _evaluated(RowFilter(filter, reversed))
    return lambda row: row if passes(row) else None


def _first_cell(row: ObjectRow) -> ObjectRow:
    for column, cell in row.columns.items():
        return ObjectRow(row.row, {column: cell})
    return row


def _predicate(filter: Filter) -> Callable[[ObjectRow], bool] | None:
    match filter:
        case ValueFilter(column, operator, value, if_missing):
            compare = _COMPARISONS[operator]

            def has_value(row: ObjectRow) -> bool:
                cell = row.columns.get(column)
                return if_missing if cell is None else compare(cell.value, value)

            return has_value
        case RowContains(text):
            wanted = text.lower()
            return lambda row: wanted in row.row.decode("utf-8", "replace").lower()
        case And(filters) | Or(filters):
            parts = [_predicate(part) for part in filters]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            decide = all if isinstance(filter, And) else any
            return lambda row: decide(part(row) for part in known)
        case _:
            return None


def _evaluated(filter: RowFilter) -> ObjectFilter:
    def apply(row: ObjectRow) -> ObjectRow | None:
        if filter.rejects(row.row):
            return None
        passing = filter.kept(row.columns)
        return ObjectRow(row.row, passing) if passing else None

    return apply
