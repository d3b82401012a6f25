"""Reads different columns of each row through the first Thrift gateway, whose calls have only one list of columns for
all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import define, field

from hbmodel.store.checks.reads import distinct_columns
from hbmodel.store.gateway.scanning.scan_calls import Request
from hbmodel.store.gateway.wire.call_sizes import CALL_SIZES, CallSizes
from hbmodel.store.thrift1.service import ResultRow, in_order
from hbmodel.store.values import Get, Row

# The number of bytes that Thrift's binary protocol adds to each row key or column in a list.
_OVERHEAD = 4


@define(eq=False)
class Question:
    """One call, which reads the same columns of some rows.

    Attributes:
        rows: the row keys, each once.
        columns: the columns, without repetitions; if there are none, all columns are read.
        size: the approximate number of bytes of rows and columns.
        before: as in `Get`.
    """

    rows: list[bytes]
    columns: dict[bytes, None]
    size: int
    before: int | None = None
    found: dict[bytes, Any] = field(factory=dict)

    def request(self, table: bytes) -> Request:
        """Returns the name of the call and its arguments."""
        arguments: dict[str, Any] = {
            "tableName": table,
            "rows": self.rows,
            "columns": distinct_columns(list(self.columns)) or None,
            "attributes": {},
        }
        if self.before is None:
            return "getRowsWithColumns", arguments
        return "getRowsWithColumnsTs", {**arguments, "timestamp": self.before}  # the timestamp is exclusive


class Questions:
    """The calls that answer some gets. There is one call for each row, or for several rows of which the same columns
    are read.

    A `Get` is never split over calls. Several gets of one row share a call, unless the call would become too large.

    Args:
        gets: the gets, without prefixes.
    """

    def __init__(self, gets: Sequence[Get], sizes: CallSizes = CALL_SIZES) -> None:
        self._gets = gets
        self._sizes = sizes
        self._asked: list[Question] = []
        self._by_get: list[Question] = []
        self._wanted = [distinct_columns(get.columns) for get in gets]
        growing: dict[tuple[bytes, int | None], Question] = {}
        for get, wanted in zip(gets, self._wanted, strict=True):
            self._by_get.append(self._place(growing, get, wanted))
        self._join()

    def _place(self, growing: dict[tuple[bytes, int | None], Question], get: Get, wanted: Sequence[bytes]) -> Question:
        added = sum(map(len, wanted)) + _OVERHEAD * len(wanted)
        question = growing.get(key := (get.row, get.before))
        # Without columns, everything is read, so the answer is large although the request is small.
        if question is None or not wanted or not question.columns or question.size + added > self._sizes.read_bytes:
            question = growing[key] = Question([get.row], {}, len(get.row) + _OVERHEAD, get.before)
            self._asked.append(question)
        question.columns.update(dict.fromkeys(wanted))
        question.size += added
        return question

    def _join(self) -> None:
        """Joins calls that read the same columns into one call for all their rows."""
        most_rows, most_bytes = self._sizes.rows, self._sizes.read_bytes
        calls: dict[tuple[tuple[bytes, ...], int | None], Question] = {}
        joined: dict[int, Question] = {}
        remaining: list[Question] = []
        for question in self._asked:
            [row] = question.rows
            other = calls.get(key := (tuple(question.columns), question.before))
            size = len(row) + _OVERHEAD
            if other is None or row in other.found or len(other.rows) == most_rows or other.size + size > most_bytes:
                calls[key] = other = question
                remaining.append(other)
            else:
                other.rows.append(row)
                other.size += size
            other.found[row] = None
            joined[id(question)] = other
        self._by_get = [joined[id(question)] for question in self._by_get]
        self._asked = remaining

    def requests(self, table: bytes) -> Iterator[Request]:
        """Yields the calls, in order."""
        return (question.request(table) for question in self._asked)

    def answers(self, replies: Iterable[Any]) -> list[Row | None]:
        """Returns the result of each `Get`, from the replies to these calls."""
        for question, reply in zip(self._asked, replies, strict=True):
            question.found.update((row.row, row) for row in in_order(reply))
        return [
            _selected(question.found[get.row], wanted, question)
            for get, wanted, question in zip(self._gets, self._wanted, self._by_get, strict=True)
        ]


def _selected(row: Any, wanted: Sequence[bytes], question: Question) -> Row | None:
    if row is None or len(wanted) == len(question.columns):
        selected: Row | None = row
        return selected
    cells = row.columns
    families = tuple(column + b":" for column in wanted if b":" not in column)
    if families:
        named = set(wanted)
        chosen = {column: cell for column, cell in cells.items() if column.startswith(families) or column in named}
    else:
        chosen = {column: cells[column] for column in sorted(wanted) if column in cells}
    return ResultRow(row=row.row, columns=chosen) if chosen else None
