"""Checks and corrects reads before they are sent: filters that HBase evaluates wrongly, and columns that are read
twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import get_args

from hbmodel.errors import InvalidRequest
from hbmodel.store.checks.rows import check_read_columns, check_timestamp
from hbmodel.store.filters import (
    And,
    ColumnPrefix,
    ColumnRange,
    Filter,
    FirstCellOnly,
    Operator,
    Or,
    Pagination,
    ValueFilter,
)
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Scan

_OPERATORS = frozenset(get_args(Operator))


def distinct_columns(columns: Sequence[bytes]) -> list[bytes]:
    """Returns the columns of a read, without repetitions and without columns of families that are read as a whole.

    If a column and its whole family are given, HBase's `Get` and `Scan` read only the one that comes last.
    """
    whole = {column for column in columns if b":" not in column}
    return [column for column in dict.fromkeys(columns) if b":" not in column or column.partition(b":")[0] not in whole]


def wanted_columns(table: str, columns: Sequence[bytes]) -> Sequence[bytes]:
    """Checks the columns of a read as `check_read_columns` does, and returns them as `distinct_columns` does."""
    try:
        return _known_columns(tuple(columns))
    except (InvalidRequest, TypeError):
        check_read_columns(table, columns)
        raise


@lru_cache(1000)
def _known_columns(columns: tuple[bytes, ...]) -> Sequence[bytes]:
    check_read_columns("", columns)
    return tuple(distinct_columns(columns))


def check_scans(table: str, scans: Sequence[Scan]) -> None:
    """Raises InvalidRequest for scans that HBase cannot carry out."""
    if isinstance(scans, Scan):
        raise InvalidRequest("Give a list of scans: store.scan(table, [Scan(...)]).", table=table)
    checked: Sequence[bytes] = ()
    for scan in scans:
        if not isinstance(scan, Scan) or not isinstance(scan.range, KeyRange):
            raise InvalidRequest(
                "Give the range of a scan as Scan(KeyRange(start_row, stop_row)), or a prefix as "
                "Scan(KeyRange.prefix(prefix)).",
                table=table,
                found=type(scan.range if isinstance(scan, Scan) else scan).__name__,
            )
        if scan.columns is not checked:
            check_read_columns(table, checked := scan.columns)
        check_timestamp(table, scan.before)
        if scan.batch_size < 1 or (scan.limit is not None and scan.limit < 0):
            raise InvalidRequest("A scan needs a positive batch size and no negative limit.", table=table)
        if scan.filter is not None:
            check_filter(scan.filter, reversed=scan.reversed)
        if scan.cells is not None:
            _check_pieces(table, scan, scan.cells)


def _check_pieces(table: str, scan: Scan, cells: int) -> None:
    if cells < 1:
        raise InvalidRequest("A piece of a row must have at least one cell.", table=table, cells=cells)
    if scan.reversed:
        raise InvalidRequest("A reversed scan cannot read rows in pieces.", table=table)
    if scan.filter is not None and _judges_rows(scan.filter):
        raise InvalidRequest(
            "A scan with a value filter cannot read rows in pieces: the filter needs whole rows.", table=table
        )


def _judges_rows(filter: Filter) -> bool:
    match filter:
        case ValueFilter():
            return True
        case And(filters) | Or(filters):
            return any(map(_judges_rows, filters))
        case _:
            return False


def check_filter(filter: Filter, *, reversed: bool) -> None:
    """Raises InvalidRequest for a filter that HBase cannot evaluate, or that its versions evaluate differently.

    In a reversed scan, a column range or prefix inside an Or makes HBase lose the cells after the first cell that is
    left out, because `FilterListWithOR` compares seek hints in the wrong direction.

    The result of a value filter, a pagination or a `FirstCellOnly` depends on the cells that it has seen before. If a
    column range or prefix follows such a filter in an And, these cells differ between versions. From 2.6.1 on,
    `FilterListWithAND` requests a seek hint from the range when the filter before it leaves a cell out. Older servers
    do not (HBASE-28622).
    """
    match filter:
        case ValueFilter(column, operator):
            if column.find(b":") < 1:
                raise InvalidRequest("A column must have the form family:qualifier.", column=column)
            if operator not in _OPERATORS:
                raise InvalidRequest("A value filter must compare with =, !=, <, <=, > or >=.", operator=operator)
        case Pagination(limit, offset):
            if limit < 0 or offset < 0:
                raise InvalidRequest(
                    "A pagination filter takes no negative limit or offset.", limit=limit, offset=offset
                )
        case And(filters) | Or(filters):
            if not filters:
                raise InvalidRequest("And and Or take at least one filter.")
            if reversed and isinstance(filter, Or) and any(_seeks(part) for part in filters):
                raise InvalidRequest("A reversed scan cannot have a column range or prefix inside Or.")
            if isinstance(filter, And) and any(_seeks(part) for part in _behind_counting(filters)):
                raise InvalidRequest(
                    "In an And, column ranges and prefixes must come before value filters, paginations and "
                    "FirstCellOnly: otherwise versions of HBase give different answers."
                )
            for part in filters:
                check_filter(part, reversed=reversed)
        case _:
            pass


def _behind_counting(filters: Sequence[Filter]) -> Sequence[Filter]:
    """Returns the column ranges and prefixes that come after the first filter that depends on earlier cells."""
    counting = next((number for number, part in enumerate(filters) if _counts(part)), len(filters))
    # Nested lists are left out: no version of HBase requests a seek hint from the ranges in them.
    return [part for part in filters[counting + 1 :] if isinstance(part, ColumnRange | ColumnPrefix)]


def _counts(filter: Filter) -> bool:
    match filter:
        case ValueFilter() | Pagination() | FirstCellOnly():
            return True
        case And(filters) | Or(filters):
            return any(map(_counts, filters))
        case _:
            return False


def reversible(filter: Filter) -> Filter:
    """Returns an equivalent filter that HBase also accepts in a reversed scan of several families.

    If a value filter drops rows without its column, the server reads other families on demand. A reversed scan refuses
    this ("Reverse scan with loading CFs on demand is not supported"). So a filter is added that passes everything but
    needs every family.
    """
    return And([filter, ColumnPrefix(b"")]) if _drops_rows(filter) else filter


def _drops_rows(filter: Filter) -> bool:
    match filter:
        case ValueFilter(if_missing=if_missing):
            return not if_missing
        case And(filters) | Or(filters):
            return any(_drops_rows(part) for part in filters)
        case _:
            return False


def _seeks(filter: Filter) -> bool:
    match filter:
        case ColumnRange(start=start):
            return bool(start)
        case ColumnPrefix(prefix):
            return bool(prefix)
        case And(filters) | Or(filters):
            return any(_seeks(part) for part in filters)
        case _:
            return False
