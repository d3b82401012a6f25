"""Decides which cells of a row pass a filter, as HBase's region server does.

The loop over the cells follows `StoreScanner` and `RegionScannerImpl` (2.6). Families are scanned one after the other.
Families that do not affect the decision ("not essential") are scanned after the row was found to pass. Filters see the
newest version of each cell.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from operator import itemgetter

from attrs import frozen

from hbmodel.store.filtering.filter_nodes import HINT, NEXT_ROW, node
from hbmodel.store.filters import And, ColumnPrefix, ColumnRange, Filter, KeyOnly, Pagination
from hbmodel.store.ranges import KeyRange, key_successor
from hbmodel.store.values import Cell


def seen_qualifiers(filter: Filter) -> KeyRange:
    """Returns a range of qualifiers that contains all cells on which the filter depends.

    The range is limited only if a column range or prefix comes first, because a filter before it in an And would see
    every cell.
    """
    match filter:
        case ColumnRange(start, start_inclusive, stop, stop_inclusive):
            first = (start if start_inclusive else key_successor(start)) if start else b""
            last = (key_successor(stop) if stop_inclusive else stop) if stop else None
            return KeyRange(first, last)
        case ColumnPrefix(prefix):
            return KeyRange.prefix(prefix)
        case And(filters):
            return seen_qualifiers(filters[0])
        case _:
            return KeyRange()


def first_piece(filter: Filter, cells: int) -> Filter:
    """Returns the filter for a read of one family, limited to one piece: the first `cells` cells that pass."""
    parts = filter.filters if isinstance(filter, And) else [filter]
    return And([*parts, Pagination(cells, 0)])


@frozen
class Run:
    """The effect of a filter that only passes the first cells in a range of qualifiers.

    Attributes:
        limit: how many cells pass, or None for all.
        keys_only: whether the cells pass without their values.
    """

    limit: int | None = None
    keys_only: bool = False


def run_of(filter: Filter) -> Run | None:
    """Returns the run of cells that a filter passes among the cells that it sees, or None if the filter does anything
    else.
    """
    match filter:
        case ColumnRange() | ColumnPrefix():
            return Run()
        case And((ColumnRange() | ColumnPrefix(), KeyOnly())):
            return Run(keys_only=True)
        case And((ColumnRange() | ColumnPrefix(), Pagination(limit, 0))):
            return Run(limit)
        case And(
            (ColumnRange() | ColumnPrefix(), Pagination(limit, 0), KeyOnly())
            | (ColumnRange() | ColumnPrefix(), KeyOnly(), Pagination(limit, 0))
        ):
            return Run(limit, keys_only=True)
        case _:
            return None


_Entry = tuple[bytes, bytes, Cell]
"""The qualifier, the column and the newest version of a cell."""

_qualifier = itemgetter(0)


class RowFilter:
    """A scan's filter, which is applied to one row after the other.

    Args:
        filter: the filter, which must have been checked with `check_filter`.
        reversed: the direction of the scan; a reversed scanner does not jump to hints.

    Attributes:
        seen: a range of qualifiers; cells outside of it need not be shown to the filter.
        run: see `run_of`.
    """

    def __init__(self, filter: Filter, reversed: bool) -> None:
        self.seen = seen_qualifiers(filter)
        self.run = run_of(filter)
        self._root = node(filter)
        self._reversed = reversed

    def rejects(self, row: bytes) -> bool:
        """Begins a row, and returns whether it is excluded because of its key."""
        self._root.reset()
        return self._root.rejects(row)

    def kept(self, cells: Mapping[bytes, Cell]) -> dict[bytes, Cell]:
        """Returns the cells of the row that pass the filter, or no cells if the row is excluded.

        The cells are given and returned in HBase's order.
        """
        families: dict[bytes, list[_Entry]] = {}
        for column, cell in cells.items():
            family, _, qualifier = column.partition(b":")
            families.setdefault(family, []).append((qualifier, column, cell))
        # A reversed scan does not read families on demand.
        essential = {family: self._reversed or self._root.essential(family) for family in families}
        passing: dict[bytes, Cell] = {}
        for family, entries in families.items():
            if essential[family]:
                self._pass(family, _once(entries), passing)
        if not passing or self._root.excludes():
            return {}
        if all(essential.values()):
            return passing
        for family, entries in families.items():
            if not essential[family]:
                self._pass(family, _once(entries), passing)
        return {column: passing[column] for column in cells if column in passing}

    def kept_of_family(self, family: bytes, part: Callable[[bytes], Mapping[bytes, Cell] | None]) -> dict[bytes, Cell]:
        """Returns the cells of a row that pass the filter. Only one family of the row is read, part by part.

        Args:
            family: the name of the family.
            part: returns the next part, or None at the end. It is called only for parts that the filter needs to see.
                Parts that are entirely below the given qualifier may be left out.
        """
        passing: dict[bytes, Cell] = {}
        start = len(family) + 1

        def entries(resume: bytes) -> list[_Entry] | None:
            cells = part(resume)
            return None if cells is None else [(column[start:], column, cell) for column, cell in cells.items()]

        if self._root.essential(family):
            self._pass(family, entries, passing)
        return {} if self._root.excludes() else passing

    def _pass(self, family: bytes, part: Callable[[bytes], list[_Entry] | None], passing: dict[bytes, Cell]) -> None:
        root = self._root
        resume = b""
        while (entries := part(resume)) is not None:
            position = bisect_left(entries, resume, key=_qualifier) if resume else 0
            if position < len(entries):
                resume = b""
            while position < len(entries):
                qualifier, column, cell = entries[position]
                code = root.code(family, qualifier, cell)
                if not code & 1:
                    passing[column] = root.changed(cell)
                if code == NEXT_ROW:
                    return
                position += 1
                if code == HINT and not self._reversed:
                    hint = root.hint(qualifier)
                    if hint is not None and hint > qualifier:
                        position = bisect_left(entries, hint, lo=position, key=_qualifier)
                        if position == len(entries):
                            resume = hint


def _once(entries: list[_Entry]) -> Callable[[bytes], list[_Entry] | None]:
    parts = iter((entries,))
    return lambda _: next(parts, None)
