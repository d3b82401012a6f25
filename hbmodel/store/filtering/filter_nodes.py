"""The filters of HBase as state machines over the cells of one row at a time.

Each class follows the class of HBase in its docstring, including the return codes, because results depend on them. For
example, a filter may send the scanner to the next row of a family. Then the other filters of its list do not see the
cells that are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import eq, ge, gt, le, lt, ne

from msgspec import Struct

from hbmodel.store.filters import (
    And,
    ColumnPrefix,
    ColumnRange,
    Filter,
    FirstCellOnly,
    KeyOnly,
    Or,
    Pagination,
    RowContains,
    ValueFilter,
)
from hbmodel.store.values import Cell

# Return codes: how far to step (to the next cell, column or row of the family, or to a hint). Bit 0 is set if the cell
# is left out. A longer step has a larger code, so And is the maximum of codes and Or the minimum (`FilterListWithAND`,
# `FilterListWithOR`).
_INCLUDE = 0
_SKIP = 1
_INCLUDE_NEXT_COLUMN = 2
_NEXT_COLUMN = 3
NEXT_ROW = 5
HINT = 7

_OPERATORS: dict[str, Callable[[bytes, bytes], bool]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


class NoValue(Struct, frozen=True, gc=False):
    """A cell without its value."""

    timestamp: int
    value: bytes = b""


class Node:
    """One filter, with the defaults of `FilterBase`."""

    __slots__ = ()

    def reset(self) -> None:
        """Forgets the previous row."""

    def rejects(self, row: bytes) -> bool:
        """Returns whether the row is excluded because of its key (`filterRowKey`)."""
        return False

    def code(self, family: bytes, qualifier: bytes, cell: Cell) -> int:
        """Returns the return code for a cell (`filterCell`)."""
        return _INCLUDE

    def hint(self, qualifier: bytes) -> bytes | None:
        """Returns the qualifier at which to continue after `HINT` (`getNextCellHint`)."""
        return None

    def excludes(self) -> bool:
        """Returns whether the row is excluded because of the cells that were seen (`filterRow`)."""
        return False

    def changed(self, cell: Cell) -> Cell:
        """Returns the cell in the form in which the reader gets it (`transformCell`)."""
        return cell

    def essential(self, family: bytes) -> bool:
        """Returns whether the family is needed to decide about a row (`isFamilyEssential`)."""
        return True


class _Value(Node):
    """`SingleColumnValueFilter`, only for the newest version."""

    __slots__ = ("_compare", "_drop_missing", "_family", "_found", "_matched", "_qualifier", "_value")

    def __init__(self, filter: ValueFilter) -> None:
        self._family, _, self._qualifier = filter.column.partition(b":")
        self._compare = _OPERATORS[filter.operator]
        self._value = filter.value
        self._drop_missing = not filter.if_missing
        self.reset()

    def reset(self) -> None:
        self._found = self._matched = False

    def code(self, family: bytes, qualifier: bytes, cell: Cell) -> int:
        if self._matched:
            return _INCLUDE
        if self._found:
            return NEXT_ROW
        if qualifier != self._qualifier or family != self._family:
            return _INCLUDE
        self._found = True
        if not self._compare(cell.value, self._value):
            return NEXT_ROW
        self._matched = True
        return _INCLUDE

    def excludes(self) -> bool:
        return not self._matched if self._found else self._drop_missing

    def essential(self, family: bytes) -> bool:
        return not self._drop_missing or family == self._family


class _Row(Node):
    """`RowFilter` with a `SubstringComparator`."""

    __slots__ = ("_out", "_text")

    def __init__(self, filter: RowContains) -> None:
        self._text = filter.text.lower()
        self._out = False

    def reset(self) -> None:
        self._out = False

    def rejects(self, row: bytes) -> bool:
        self._out = self._text not in row.decode("utf-8", "replace").lower()
        return self._out

    def code(self, family: bytes, qualifier: bytes, cell: Cell) -> int:
        return NEXT_ROW if self._out else _INCLUDE

    def excludes(self) -> bool:
        return self._out


class _Range(Node):
    """`ColumnRangeFilter`."""

    __slots__ = ("_start", "_start_inclusive", "_stop", "_stop_inclusive")

    def __init__(self, filter: ColumnRange) -> None:
        self._start = filter.start or None
        self._start_inclusive = filter.start_inclusive
        self._stop = filter.stop or None
        self._stop_inclusive = filter.stop_inclusive

    def code(self, family: bytes, qualifier: bytes, cell: Cell) -> int:
        if self._start is not None:
            if qualifier < self._start:
                return HINT
            if not self._start_inclusive and qualifier == self._start:
                return _NEXT_COLUMN
        if self._stop is None or qualifier < self._stop or (self._stop_inclusive and qualifier == self._stop):
            return _INCLUDE
        return NEXT_ROW

    def hint(self, qualifier: bytes) -> bytes | None:
        return self._start or b""


class _Prefix(Node):
    """`ColumnPrefixFilter`."""

    __slots__ = ("_prefix",)

    def __init__(self, filter: ColumnPrefix) -> None:
        self._prefix = filter.prefix

    def code(self, family: bytes, qualifier: bytes, cell: Cell) -> int:
        if qualifier.startswith(self._prefix):
            return _INCLUDE
        return HINT if qualifier < self._prefix else NEXT_ROW

    def hint(self, qualifier: bytes) -> bytes | None:
        return self._prefix


class _Pagination(Node):
    """`ColumnPaginationFilter`."""

    __slots__ = ("_count", "_end", "_offset")

    def __init__(self, filter: Pagination) -> None:
        self._offset = filter.offset
        self._end = filter.offset + filter.limit
        self._count = 0

    def reset(self) -> None:
        self._count = 0

    def code(self, family: bytes, qualifier: bytes, cell: Cell) -> int:
        if self._count >= self._end:
            return NEXT_ROW
        self._count += 1
        return _NEXT_COLUMN if self._count <= self._offset else _INCLUDE_NEXT_COLUMN


class _KeyOnly(Node):
    """`KeyOnlyFilter`."""

    __slots__ = ()

    def changed(self, cell: Cell) -> Cell:
        return NoValue(cell.timestamp)


class _First(Node):
    """`FirstKeyOnlyFilter`."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found = False

    def reset(self) -> None:
        self._found = False

    def code(self, family: bytes, qualifier: bytes, cell: Cell) -> int:
        if self._found:
            return NEXT_ROW
        self._found = True
        return _INCLUDE


class _List(Node):
    """`FilterListBase`."""

    __slots__ = ("_included", "_nodes")

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        # For each filter, whether it let the last cell pass. Only such filters change the cell.
        self._included = [False] * len(nodes)

    def reset(self) -> None:
        for node in self._nodes:
            node.reset()

    def changed(self, cell: Cell) -> Cell:
        for node, included in zip(self._nodes, self._included, strict=True):
            if included:
                cell = node.changed(cell)
        return cell

    def essential(self, family: bytes) -> bool:
        return not self._nodes or any(node.essential(family) for node in self._nodes)


class _And(_List):
    """`FilterListWithAND`."""

    __slots__ = ("_hinting",)

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__(nodes)
        self._hinting: list[Node] = []

    def rejects(self, row: bytes) -> bool:
        # All filters are called, even if the first one rejects the row, because each remembers its result for the cells
        # of the row.
        return sum(node.rejects(row) for node in self._nodes) > 0

    def code(self, family: bytes, qualifier: bytes, cell: Cell) -> int:
        result = _INCLUDE
        self._hinting.clear()
        for index, node in enumerate(self._nodes):
            self._included[index] = False
            # If a filter leaves the cell out, the filters after it do not see the cell, so that their counts do not
            # change (HBASE-20565). Newer servers nevertheless request a hint from column ranges (HBASE-28622). For the
            # filters that `check_filter` allows, this makes no difference.
            if result & 1:
                continue
            code = node.code(family, qualifier, cell)
            if code == HINT:
                self._hinting.append(node)
            result = max(result >> 1, code >> 1) << 1 | code & 1
            self._included[index] = not code & 1
        return HINT if self._hinting else result

    def hint(self, qualifier: bytes) -> bytes | None:
        hints = [node.hint(qualifier) for node in self._hinting]
        return max((hint for hint in hints if hint is not None), default=None)

    def excludes(self) -> bool:
        return any(node.excludes() for node in self._nodes)


class _Or(_List):
    """`FilterListWithOR`."""

    __slots__ = ("_before",)

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__(nodes)
        # For each filter, its return code for the previous cell, and the family and qualifier of that cell. If a filter
        # wanted to skip further than the whole list, it is not called for the cells that it wanted to skip
        # (HBASE-17678, HBASE-18368).
        self._before: list[tuple[int, bytes, bytes] | None] = [None] * len(nodes)

    def reset(self) -> None:
        super().reset()
        self._before = [None] * len(self._nodes)

    def rejects(self, row: bytes) -> bool:
        return 0 < len(self._nodes) == sum(node.rejects(row) for node in self._nodes)

    def code(self, family: bytes, qualifier: bytes, cell: Cell) -> int:
        if not self._nodes:
            return _INCLUDE
        codes = []
        for index, node in enumerate(self._nodes):
            code = self._standing(index, node, family, qualifier)
            if code is None:
                code = node.code(family, qualifier, cell)
            self._before[index] = (code, family, qualifier)
            self._included[index] = not code & 1
            codes.append(code)
        if all(code == HINT for code in codes):
            return HINT
        # A hint among other codes counts as the smallest step, since it is not known how far it would lead.
        step = min(0 if code == HINT else code >> 1 for code in codes)
        return step << 1 | min(code & 1 for code in codes)

    def _standing(self, index: int, node: Node, family: bytes, qualifier: bytes) -> int | None:
        before = self._before[index]
        if before is None:
            return None
        code, old_family, old_qualifier = before
        if code == HINT:
            hint = node.hint(old_qualifier)
            return HINT if hint is not None and family == old_family and qualifier < hint else None
        if code in (_NEXT_COLUMN, _INCLUDE_NEXT_COLUMN):
            return _NEXT_COLUMN if qualifier == old_qualifier and family == old_family else None
        if code == NEXT_ROW:
            return NEXT_ROW if family == old_family else None
        return None

    def hint(self, qualifier: bytes) -> bytes | None:
        hints = [node.hint(qualifier) for node in self._nodes]
        known = [hint for hint in hints if hint is not None]
        return min(known) if len(known) == len(hints) and known else None

    def excludes(self) -> bool:
        return bool(self._nodes) and all(node.excludes() for node in self._nodes)


def node(filter: Filter) -> Node:
    """Returns the state machine of a filter."""
    match filter:
        case ValueFilter():
            return _Value(filter)
        case RowContains():
            return _Row(filter)
        case ColumnRange():
            return _Range(filter)
        case ColumnPrefix():
            return _Prefix(filter)
        case Pagination():
            return _Pagination(filter)
        case KeyOnly():
            return _KeyOnly()
        case FirstCellOnly():
            return _First()
        case And(filters):
            return _And([node(part) for part in filters])
        case Or(filters):
            return _Or([node(part) for part in filters])
