"""Objects out of the cells of a row, by the names of the cells."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hbmodel.encoding.codecs.text import terminated
from hbmodel.store.wide.wide_rows import Unfolding, WideRows
from tests.support.cut_rows import end_of_text, wide_rows

Named = tuple[bytes, bytes]
"""The text of an object, and an alias."""


def name_of(wide: WideRows, named: Named) -> bytes:
    return wide.lead + wide.places.kind + terminated(named[0]) + named[1]


def check(wide: WideRows, cells: list[Named]) -> None:
    """Cells of one row become the objects that they belong to, regardless of earlier rows."""
    names = {name_of(wide, named): named for named in cells}
    expected = {
        text: [wide.lead + names[name][1] for name in of_object]
        for text, of_object in groupby(sorted(names), key=lambda name: names[name][0])
    }
    found = Unfolding(wide).objects(b"r", sorted(names), sorted(names))  # type: ignore[arg-type]  # each cell is its own name
    assert {each.row: [*each.columns] for each in found} == {
        terminated(b"r") + terminated(text): columns for text, columns in expected.items()
    }
    for each in found:
        prefix = wide.places.cut(each.row)[1]
        assert all(cell == wide.column(prefix, column) for column, cell in each.columns.items())


PARTS = st.lists(st.sampled_from([b"d", b"d:", b":", b"e", b"a", b"p", b"", b"\x00"]), max_size=3).map(b"".join)
TEXTS = st.sampled_from([b"A", b"Xd:Y", b"Y"]) | PARTS
ALIASES = st.sampled_from([b"m", b"md:X", b"z"]) | PARTS.filter(bool)
OBJECTS = st.dictionaries(TEXTS, st.sets(ALIASES, min_size=1, max_size=3), max_size=5)
FAMILIES = st.sampled_from([b"d", b"dd", b"e"])
KINDS = st.sampled_from([b"", b"p", b"d", b":"])
BEFORE = {b"A": {b"mk", b"z"}}
"""An object whose aliases the next cells are compared with."""


@example({**BEFORE, b"Xd:Y": {b"mkd:X"}, b"Y": {b"z"}}, b"d", b"")
@example({b"A": {b"mkd:Z", b"z"}, b"X": {b"mk"}, b"Zd:X": {b"z"}}, b"d", b"")
@given(OBJECTS, FAMILIES, KINDS)
def test_cells_belong_to_their_objects(objects: dict[bytes, set[bytes]], family: bytes, kind: bytes) -> None:
    """Also where the names of some cells, joined, are the joined names of the cells of other objects."""
    wide = WideRows("t", family, wide_rows("t", family, kind=kind).places, end_of_text(kind))
    check(wide, [(text, alias) for text, aliases in objects.items() for alias in aliases])


@pytest.mark.parametrize("alias", [b"a", b"ad:", b"a:d", b"d:"])
def test_objects_with_the_same_columns(alias: bytes) -> None:
    wide = wide_rows("t", b"d")
    check(wide, [(text, each) for text in (b"", b"d:", b"d:d:", b":", b"x") for each in (alias, alias + b"z")])
