"""Writes filters in HBase's filter language (`org.apache.hadoop.hbase.filter.ParseFilter`), which both gateways
parse.
"""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.errors import InvalidRequest
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


def filter_string(filter: Filter) -> bytes:
    """Returns a filter as a string, in which any byte may occur.

    Raises:
        InvalidRequest: an `And` or `Or` without parts, a column without a colon, or a negative count.
    """
    match filter:
        case ValueFilter(column, operator, value, if_missing):
            family, colon, qualifier = column.partition(b":")
            if not colon:
                raise InvalidRequest("A column must have the form family:qualifier.", column=column)
            compare = (quoted(family), quoted(qualifier), operator.encode(), quoted(b"binary:" + value))
            # The two flags say whether rows without the column are dropped, and whether only the newest version is
            # compared.
            return _call(b"SingleColumnValueFilter", *compare, _flag(not if_missing), _flag(True))
        case RowContains(text):
            return _call(b"RowFilter", b"=", quoted(b"substring:" + text.encode("ascii")))
        case ColumnRange(start, start_inclusive, stop, stop_inclusive):
            bounds = (quoted(start or b""), _flag(start_inclusive), quoted(stop or b""), _flag(stop_inclusive))
            return _call(b"ColumnRangeFilter", *bounds)
        case ColumnPrefix(prefix):
            return _call(b"ColumnPrefixFilter", quoted(prefix))
        case Pagination(limit, offset):
            if limit < 0 or offset < 0:
                raise InvalidRequest("A pagination filter takes no negative numbers.", limit=limit, offset=offset)
            return _call(b"ColumnPaginationFilter", b"%d" % limit, b"%d" % offset)
        case KeyOnly():
            return _call(b"KeyOnlyFilter")
        case FirstCellOnly():
            return _call(b"FirstKeyOnlyFilter")
        case And(filters):
            return _joined(b" AND ", filters)
        case Or(filters):
            return _joined(b" OR ", filters)


def quoted(argument: bytes) -> bytes:
    """Returns an argument of the filter language, enclosed in single quotes. Single quotes inside it are doubled. No
    other byte is special.
    """
    return b"'" + argument.replace(b"'", b"''") + b"'"


def _call(name: bytes, *arguments: bytes) -> bytes:
    return name + b"(" + b", ".join(arguments) + b")"


def _flag(value: bool) -> bytes:
    return b"true" if value else b"false"


def _joined(word: bytes, filters: Sequence[Filter]) -> bytes:
    parts = [filter_string(part) for part in filters]
    if not parts:
        raise InvalidRequest("And and Or take at least one filter.")
    return parts[0] if len(parts) == 1 else b"(" + word.join(parts) + b")"
