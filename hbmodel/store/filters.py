"""Values that describe the filters which a store can apply while it reads, each with the meaning of an HBase filter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from attrs import field, frozen

from hbmodel.errors import InvalidRequest

Operator = Literal["=", "!=", "<", "<=", ">", ">="]


@frozen
class ValueFilter:
    """Passes rows for which the comparison of the newest cell of `column` with `value` is true (HBase's
    `SingleColumnValueFilter`).

    Values are compared as bytes. The column must be among the columns that the scan reads; otherwise HBase treats the
    cell as missing.

    Attributes:
        column: `family:qualifier`.
        operator: the comparison, with the cell's value on the left and `value` on the right.
        if_missing: whether rows without the column pass.
    """

    column: bytes
    operator: Operator
    value: bytes
    if_missing: bool = False


@frozen
class RowContains:
    """Passes rows whose key, as lower-cased UTF-8 text, contains the lower-cased ASCII `text` (HBase's
    `SubstringComparator`).

    This is deliberately less strict than equality: the server drops most rows, and the reader must check the rest.
    """

    text: str

    def __attrs_post_init__(self) -> None:
        if not self.text or not self.text.isascii():
            raise InvalidRequest("A row substring filter takes non-empty ASCII text.")


@frozen
class ColumnRange:
    """Passes cells whose qualifier is in a range (HBase's `ColumnRangeFilter`). An empty bound, or None, means that
    there is no bound.
    """

    start: bytes | None
    start_inclusive: bool
    stop: bytes | None
    stop_inclusive: bool


@frozen
class ColumnPrefix:
    """Passes cells whose qualifier starts with a prefix (HBase's `ColumnPrefixFilter`)."""

    prefix: bytes


@frozen
class Pagination:
    """Passes at most `limit` cells of each row after the first `offset` cells, in column order (HBase's
    `ColumnPaginationFilter`).
    """

    limit: int
    offset: int


@frozen
class KeyOnly:
    """Passes cells without their values (HBase's `KeyOnlyFilter`)."""


@frozen
class FirstCellOnly:
    """Passes only the first cell of each row (HBase's `FirstKeyOnlyFilter`)."""


def _filters(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    return tuple(filters)


@frozen
class And:
    """Passes everything that all the filters let pass (HBase's `FilterList`, MUST_PASS_ALL)."""

    filters: tuple[Filter, ...] = field(converter=_filters)


@frozen
class Or:
    """Passes everything that at least one of the filters lets pass (HBase's `FilterList`, MUST_PASS_ONE)."""

    filters: tuple[Filter, ...] = field(converter=_filters)


Filter = ValueFilter | RowContains | ColumnRange | ColumnPrefix | Pagination | KeyOnly | FirstCellOnly | And | Or
