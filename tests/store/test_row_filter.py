"""What a filter does not take notice of may be left out: it passes the same cells."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbmodel.store.embedded.cells import StoredCell
from hbmodel.store.filtering.row_filter import RowFilter, seen_qualifiers
from hbmodel.store.filters import (
    And,
    ColumnPrefix,
    ColumnRange,
    Filter,
    FirstCellOnly,
    KeyOnly,
    Or,
    Pagination,
    ValueFilter,
)
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Cell
from tests.support.examples import examples

QUALIFIERS = [b"\x00", b"a", b"aa", b"ab", b"b", b"c", b"\xff"]
NAMES = st.sampled_from(QUALIFIERS)
BOUNDS = st.none() | NAMES
RANGES = st.builds(ColumnRange, BOUNDS, st.booleans(), BOUNDS, st.booleans()) | st.builds(
    ColumnPrefix, st.just(b"") | NAMES
)
VALUES = st.builds(
    ValueFilter,
    NAMES.map(lambda name: b"d:" + name),
    st.sampled_from(["=", "!="]),
    st.sampled_from([b"", b"x"]),
    st.booleans(),
)
LEAVES = (
    RANGES
    | VALUES
    | st.builds(Pagination, st.integers(0, 3), st.integers(0, 2))
    | st.builds(KeyOnly)
    | st.builds(FirstCellOnly)
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda first, rest: And([first, *rest]), RANGES | inner, st.lists(inner, min_size=1, max_size=3))
        | st.builds(Or, st.lists(inner, min_size=1, max_size=2))
    ),
    max_leaves=6,
)
FROM = st.builds(ColumnRange, NAMES, st.booleans(), st.none(), st.just(False)) | st.builds(ColumnPrefix, NAMES)
JUMPING = st.builds(lambda *parts: And(parts), FROM, VALUES, FROM)
ROWS = st.tuples(*[st.sampled_from([b"", b"x", b"", None])] * len(QUALIFIERS)).map(
    lambda values: {name: value for name, value in zip(QUALIFIERS, values, strict=True) if value is not None}
)


def kept(filter: Filter, row: dict[bytes, bytes], seen: KeyRange, reversed: bool) -> dict[bytes, Cell]:
    """What passes of the cells in a range of qualifiers."""
    asked = RowFilter(filter, reversed)
    if asked.rejects(b"r"):
        return {}
    return dict(asked.kept({b"d:" + name: StoredCell(row[name], 1) for name in sorted(row) if name in seen}))


@settings(max_examples=examples(1_500), deadline=None)
@given(FILTERS | JUMPING, ROWS, st.booleans())
def test_what_a_filter_does_not_see_may_be_left_out(filter: Filter, row: dict[bytes, bytes], reversed: bool) -> None:
    assert kept(filter, row, seen_qualifiers(filter), reversed) == kept(filter, row, KeyRange(), reversed)


A = ColumnRange(b"a", start_inclusive=True, stop=None, stop_inclusive=False)
IS_X = ValueFilter(b"d:a", "=", b"x", if_missing=True)


@pytest.mark.parametrize(
    ("filter", "start"),
    [
        (And([A, IS_X]), b"a"),
        (And([A, IS_X, ColumnPrefix(b"a")]), b"a"),
        (And([A, IS_X, ColumnPrefix(b"")]), b"a"),
        (And([A, IS_X, ColumnPrefix(b"b")]), b""),
        (And([A, IS_X, ColumnRange(b"b", start_inclusive=False, stop=None, stop_inclusive=False)]), b""),
        (And([And([A, IS_X]), ColumnPrefix(b"b")]), b""),
        (And([A, Or([IS_X, ColumnPrefix(b"b")])]), b"a"),
    ],
)
def test_a_later_range_lets_the_scanner_jump_from_the_cells_below_the_first(filter: Filter, start: bytes) -> None:
    assert seen_qualifiers(filter).start == start
    with_one_below, without = {b"\x00": b"", b"a": b"", b"b": b""}, {b"a": b"", b"b": b""}
    for row in (with_one_below, without):
        assert kept(filter, row, seen_qualifiers(filter), reversed=False) == kept(
            filter, row, KeyRange(), reversed=False
        )


def test_a_jump_over_the_cell_of_a_value_filter_keeps_the_row() -> None:
    """As HBase does it: whether the cell is seen depends on whether there is a cell below the ranges to jump from."""
    filter = And([A, IS_X, ColumnPrefix(b"b")])
    assert kept(filter, {b"\x00": b"", b"a": b"", b"b": b""}, KeyRange(), reversed=False) == {
        b"d:b": StoredCell(b"", 1)
    }
    assert kept(filter, {b"a": b"", b"b": b""}, KeyRange(), reversed=False) == {}
