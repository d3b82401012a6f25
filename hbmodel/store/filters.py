"""Values that describe the filters which a store can apply while it reads; each means the same as HBase's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from attrs import field, frozen

from hbmodel.errors import InvalidRequest

Operator = Literal["=", "!=", "<", "<=", ">", ">="]


@frozen
class ValueFilter:
    """Rows whose newest cell of `column` compares with `value` as `operator` says (HBase's `SingleColumnValueFilter`).

    Values are compared as bytes. The column must be among the columns that the scan reads; otherwise HBase treats the
    cell as missing.

    Attributes:
        column: `family:qualifier`.
        operator: cell value on the left, `value` on the right.
        if_missing: whether rows without the column pass.
    """

    column: bytes
    operator: Operator
    value: bytes
    if_missing: bool = False


@frozen
class RowContains:
    """Rows whose key, read as UTF-8 and lower-cased, contains the lower-cased ASCII `text` (HBase's
    `SubstringComparator`).

    By design, this is less strict than equality: the server drops most rows, and the reader must check the rest.
    """

    text: str

    def __attrs_post_init__(self) -> None:
        if not self.text or not self.text.isascii():
            raise InvalidRequest("A row substring filter takes non-empty ASCII text.")


@frozen
class ColumnRange:
    """Cells whose qualifier lies in a range (HBase's `ColumnRangeFilter`); an empty or None bound is unbounded."""

    start: bytes | None
    start_inclusive: bool
    stop: bytes | None
    stop_inclusive: bool


@frozen
class ColumnPrefix:
    """Cells whose qualifier starts with a prefix (HBase's `ColumnPrefixFilter`)."""

    prefix: bytes


@frozen
class Pagination:
    """At most `limit` cells of each row, from the `offset`-th on, in column order (HBase's
    `ColumnPaginationFilter`).
    """

    limit: int
    offset: int


@frozen
class KeyOnly:
    """Cells without their values (HBase's `KeyOnlyFilter`)."""


@frozen
class FirstCellOnly:
    """Only the first cell of each row (HBase's `FirstKeyOnlyFilter`)."""


def _filters(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    return tuple(filters)


@frozen
class And:
    """Everything that all the filters let pass (HBase's `FilterList`, MUST_PASS_ALL)."""

    filters: tuple[Filter, ...] = field(converter=_filters)


@frozen
class Or:
    """Everything that at least one of the filters lets pass (HBase's `FilterList`, MUST_PASS_ONE)."""

    filters: tuple[Filter, ...] = field(converter=_filters)


Filter = ValueFilter | RowContains | ColumnRange | ColumnPrefix | Pagination | KeyOnly | FirstCellOnly | And | Or
