from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hbmodel.errors import InvalidRequest
from hbmodel.store import Family, Put, Scan
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
from hbmodel.store.gateway.filter_language import filter_string, quoted
from hbmodel.store.ranges import KeyRange
from hbmodel.store.thrift1.store import Thrift1Store
from tests.support.examples import examples as so_many
from tests.support.gateway_tables import store_with_table, values

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (ValueFilter(b"d:n", "=", b"x"), b"SingleColumnValueFilter('d', 'n', =, 'binary:x', true, true)"),
        (
            ValueFilter(b"d:n", "<=", b"", if_missing=True),
            b"SingleColumnValueFilter('d', 'n', <=, 'binary:', false, true)",
        ),
        (
            ValueFilter(b"d:a:b", "!=", b"o'clock"),
            b"SingleColumnValueFilter('d', 'a:b', !=, 'binary:o''clock', true, true)",
        ),
        (RowContains("it's"), b"RowFilter(=, 'substring:it''s')"),
        (ColumnRange(b"a", True, None, False), b"ColumnRangeFilter('a', true, '', false)"),
        (ColumnRange(None, False, b"\x00'", True), b"ColumnRangeFilter('', false, '\x00''', true)"),
        (ColumnPrefix(b"'"), b"ColumnPrefixFilter('''')"),
        (Pagination(10, 20), b"ColumnPaginationFilter(10, 20)"),
        (KeyOnly(), b"KeyOnlyFilter()"),
        (FirstCellOnly(), b"FirstKeyOnlyFilter()"),
        (And([FirstCellOnly(), KeyOnly()]), b"(FirstKeyOnlyFilter() AND KeyOnlyFilter())"),
        (
            Or([And([KeyOnly(), ColumnPrefix(b"a")]), ColumnPrefix(b"b")]),
            b"((KeyOnlyFilter() AND ColumnPrefixFilter('a')) OR ColumnPrefixFilter('b'))",
        ),
        (And([Or([KeyOnly()])]), b"KeyOnlyFilter()"),
    ],
)
def test_sentences(value: Filter, sentence: bytes) -> None:
    assert filter_string(value) == sentence


@pytest.mark.parametrize(
    "value", [And([]), Or([KeyOnly(), And([])]), ValueFilter(b"d", "=", b""), Pagination(-1, 0), Pagination(1, -1)]
)
def test_what_cannot_be_said_is_refused(value: Filter) -> None:
    with pytest.raises(InvalidRequest):
        filter_string(value)


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=4))
def test_quoted_arguments_end_where_they_should(arguments: list[bytes]) -> None:
    """Read as `ParseFilter` reads: an argument runs to the first quote that is not doubled."""
    sentence = b",".join(quoted(argument) for argument in arguments)
    found, position = [], 0
    while position < len(sentence):
        assert sentence[position : position + 1] == b"'"
        position += 1
        argument = b""
        while sentence[position : position + 1] != b"'" or sentence[position : position + 2] == b"''":
            width = 2 if sentence[position : position + 1] == b"'" else 1
            argument += sentence[position : position + 1]
            position += width
        found.append(argument)
        position += 2  # the quote and the comma
    assert found == arguments


# --- beside HBase -----------------------------------------------------------------------------------------------------

TABLE = f"test_filter_language_{uuid4().hex[:8]}"  # the workers of pytest-xdist share an HBase

# Few different bytes, the special ones among them, so that values often meet.
few = st.lists(
    st.sampled_from([b"'", b"a", b"A", b"b", b"\x00", b"\xff", b")", b" AND ", b"\\", b":", b"="]), max_size=3
).map(b"".join)
qualifiers = few
columns = few.map(lambda qualifier: b"d:" + qualifier)
table_rows = st.dictionaries(
    few.filter(len), st.dictionaries(columns, few, min_size=1, max_size=4), min_size=1, max_size=5
)

cell_filters = st.one_of(
    st.builds(ColumnRange, st.none() | few, st.booleans(), st.none() | few, st.booleans()),
    st.builds(ColumnPrefix, few),
    st.builds(Pagination, st.integers(0, 3), st.integers(0, 3)),
    st.just(FirstCellOnly()),
)
row_filters = st.recursive(
    st.one_of(
        st.builds(ValueFilter, columns, st.sampled_from(sorted(OPERATORS)), few, st.booleans()),
        st.sampled_from(["a", "A", "b'", ")", "'a"]).map(RowContains),
    ),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from([And(parts), Or(parts)])
    ),
    max_leaves=4,
)


def row_passes(value: Filter, row: bytes, cells: dict[bytes, bytes]) -> bool:
    match value:
        case ValueFilter(column, comparison, wanted, if_missing):
            return OPERATORS[comparison](cells[column], wanted) if column in cells else if_missing
        case RowContains(text):
            return text.lower() in row.decode("utf-8", "replace").lower()
        case And(filters):
            return all(row_passes(part, row, cells) for part in filters)
        case Or(filters):
            return any(row_passes(part, row, cells) for part in filters)
    raise AssertionError(value)


def cells_left(value: Filter, cells: dict[bytes, bytes]) -> dict[bytes, bytes]:
    columns = sorted(cells)
    match value:
        case ColumnRange(start, start_inclusive, stop, stop_inclusive):
            columns = [
                column
                for column in columns
                if not start or (start < column[2:]) or (start_inclusive and start == column[2:])
                if not stop or (column[2:] < stop) or (stop_inclusive and stop == column[2:])
            ]
        case ColumnPrefix(prefix):
            columns = [column for column in columns if column[2:].startswith(prefix)]
        case Pagination(limit, offset):
            columns = columns[offset : offset + limit]
        case FirstCellOnly():
            columns = columns[:1]
        case _:
            raise AssertionError(value)
    return {column: cells[column] for column in columns}


@pytest.fixture(scope="module")
def store(hbmodel_hbase: Any) -> Iterator[Thrift1Store]:
    with store_with_table(hbmodel_hbase.url, TABLE, Family(b"d")) as store:
        yield store


examples = 0


def filled(store: Thrift1Store, rows: dict[bytes, dict[bytes, bytes]]) -> bytes:
    """Writes the rows under a new prefix, and returns the prefix."""
    global examples
    examples += 1
    prefix = b"%06d/" % examples
    store.put(TABLE, [Put(prefix + row, cells, 1) for row, cells in rows.items()])
    return prefix


def read(store: Thrift1Store, prefix: bytes, value: Filter) -> dict[bytes, dict[bytes, bytes]]:
    [scan] = store.scan(TABLE, [Scan(KeyRange.prefix(prefix), filter=value)])
    return {row.row[len(prefix) :]: values(row) for batch in scan for row in batch}


on_hbase = settings(
    max_examples=so_many(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.hbase
@on_hbase
@given(table_rows, row_filters)
def test_hbase_lets_the_same_rows_pass(
    store: Thrift1Store, rows: dict[bytes, dict[bytes, bytes]], value: Filter
) -> None:
    prefix = filled(store, rows)
    assert read(store, prefix, value) == {row: cells for row, cells in rows.items() if row_passes(value, row, cells)}


@pytest.mark.hbase
@on_hbase
@given(table_rows, cell_filters)
def test_hbase_lets_the_same_cells_pass(
    store: Thrift1Store, rows: dict[bytes, dict[bytes, bytes]], value: Filter
) -> None:
    prefix = filled(store, rows)
    left = {row: cells_left(value, cells) for row, cells in rows.items()}
    assert read(store, prefix, value) == {row: cells for row, cells in left.items() if cells}


@pytest.mark.hbase
@on_hbase
@given(table_rows)
def test_keys_come_without_values(store: Thrift1Store, rows: dict[bytes, dict[bytes, bytes]]) -> None:
    prefix = filled(store, rows)
    assert read(store, prefix, KeyOnly()) == {row: dict.fromkeys(cells, b"") for row, cells in rows.items()}
    first = {row: {min(cells): b""} for row, cells in rows.items()}
    assert read(store, prefix, And([FirstCellOnly(), KeyOnly()])) == first
