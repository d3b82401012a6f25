"""Cells that a filter ignores can be left out: it passes the same cells."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbmodel.errors import InvalidRequest
from hbmodel.store.checks.reads import check_filter
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


def ranges_first(filters: Sequence[Filter]) -> And:
    """HBase takes them in that order only, if others count cells."""
    return And(sorted(filters, key=lambda part: not isinstance(part, ColumnRange | ColumnPrefix)))


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
        st.builds(
            lambda first, rest: ranges_first([first, *rest]), RANGES | inner, st.lists(inner, min_size=1, max_size=3)
        )
        | st.builds(Or, st.lists(inner, min_size=1, max_size=2))
    ),
    max_leaves=6,
)
FROM = st.builds(ColumnRange, NAMES, st.booleans(), st.none(), st.just(False)) | st.builds(ColumnPrefix, NAMES)
JUMPING = st.builds(lambda *parts: And(parts), FROM, FROM, VALUES)
ROWS = st.tuples(*[st.sampled_from([b"", b"x", b"", None])] * len(QUALIFIERS)).map(
    lambda values: {name: value for name, value in zip(QUALIFIERS, values, strict=True) if value is not None}
)


def kept(filter: Filter, row: dict[bytes, bytes], seen: KeyRange, reversed: bool) -> dict[bytes, Cell]:
    """The cells in a range of qualifiers that pass."""
    asked = RowFilter(filter, reversed)
    if asked.rejects(b"r"):
        return {}
    return dict(asked.kept({b"d:" + name: StoredCell(row[name], 1) for name in sorted(row) if name in seen}))


def allowed(filter: Filter) -> bool:
    try:
        check_filter(filter, reversed=False)
    except InvalidRequest:
        return False
    return True


@pytest.mark.lengthy
@settings(max_examples=examples(1_500), deadline=None)
@given((FILTERS | JUMPING).filter(allowed), ROWS, st.booleans())
def test_what_a_filter_does_not_see_may_be_left_out(filter: Filter, row: dict[bytes, bytes], reversed: bool) -> None:
    assert kept(filter, row, seen_qualifiers(filter), reversed) == kept(filter, row, KeyRange(), reversed)


A = ColumnRange(b"a", start_inclusive=True, stop=None, stop_inclusive=False)
IS_X = ValueFilter(b"d:a", "=", b"x", if_missing=True)


@pytest.mark.parametrize(
    ("filter", "start"),
    [
        (And([A, IS_X]), b"a"),
        (And([A, ColumnPrefix(b"b"), IS_X]), b"a"),
        (And([And([A, IS_X]), KeyOnly()]), b"a"),
        (And([A, Or([IS_X, ColumnPrefix(b"b")])]), b"a"),
        (And([IS_X, Or([A])]), b""),
    ],
)
def test_a_filter_sees_the_cells_of_its_first_range(filter: Filter, start: bytes) -> None:
    assert seen_qualifiers(filter).start == start
