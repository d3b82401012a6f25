"""Object keys: a bijection with row key and qualifier prefix that keeps their order, and exact slices of any range
of them.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbmodel.encoding.codecs.base import COMPLEMENT
from hbmodel.encoding.codecs.text import terminated, unescape_part
from hbmodel.encoding.object_keys import ObjectKeyForm, PrefixEnd, Slice
from hbmodel.errors import DecodingError
from hbmodel.store.ranges import KeyRange, key_successor, prefix_successor

# The bytes around which escaping, terminators, kinds and successors turn, besides all others.
DATA = st.lists(st.one_of(st.sampled_from([0, 1, 2, 0x61, 0xFE, 0xFF]), st.integers(0, 255)), max_size=5).map(bytes)


@st.composite
def forms(draw: st.DrawFn) -> ObjectKeyForm:
    kind = draw(st.sampled_from([b"", b"p", b"\x00", b"\xff", b"\xfe"]))
    if draw(st.integers(0, 3)) == 0:
        return ObjectKeyForm(row=draw(DATA.filter(bool)), kind=kind)
    return ObjectKeyForm(salt=draw(st.integers(0, 2)), kind=kind)


@st.composite
def rows_of(draw: st.DrawFn, form: ObjectKeyForm) -> bytes:
    if form.row is not None:
        return form.row
    return draw(st.sampled_from([b"", b"\x00", b"\x01\xff"])).ljust(form.salt, b"\x01")[: form.salt] + draw(DATA)


def end_of_text(form: ObjectKeyForm, desc: bool) -> PrefixEnd:
    """Where one terminated field ends."""

    def prefix_end(qualifier: bytes) -> int | None:
        if not qualifier.startswith(form.kind):
            return None
        try:
            return unescape_part(qualifier.translate(COMPLEMENT) if desc else qualifier, len(form.kind))[1]
        except DecodingError:
            return None

    return prefix_end


@st.composite
def objects(draw: st.DrawFn) -> tuple[ObjectKeyForm, PrefixEnd, list[tuple[bytes, bytes]]]:
    """A form, and objects of a model with one terminated column field: row and qualifier prefix of each."""
    form, desc = draw(forms()), draw(st.booleans())
    shared = draw(st.lists(rows_of(form), min_size=1, max_size=3))

    def prefix(data: bytes) -> bytes:
        return form.kind + (terminated(data).translate(COMPLEMENT) if desc else terminated(data))

    pairs = st.tuples(
        st.sampled_from(shared).filter(bool) if any(shared) else st.just(b"r" * max(1, form.salt)), DATA.map(prefix)
    )
    return form, end_of_text(form, desc), draw(st.lists(pairs, min_size=1, max_size=6))


def bounds_near(draw: st.DrawFn, form: ObjectKeyForm, found: list[tuple[bytes, bytes]]) -> bytes:
    place = form.join(*draw(st.sampled_from(found)))
    cut = place[: draw(st.integers(0, len(place)))]
    near = [cut + draw(DATA), place, cut, key_successor(place), prefix_successor(cut) or cut]
    return draw(st.sampled_from(near))


@st.composite
def ranges(draw: st.DrawFn, form: ObjectKeyForm, found: list[tuple[bytes, bytes]]) -> KeyRange:
    start = bounds_near(draw, form, found) if draw(st.integers(0, 4)) else b""
    return KeyRange(start, bounds_near(draw, form, found) if draw(st.integers(0, 4)) else None)


def holds(piece: Slice, row: bytes, qualifier: bytes) -> bool:
    return row in piece.rows and piece.first <= qualifier and (piece.stop is None or qualifier < piece.stop)


@pytest.mark.lengthy
@given(st.data())
def test_a_place_key_is_a_bijection(data: st.DataObject) -> None:
    form = data.draw(forms())
    row, prefix = data.draw(rows_of(form)), form.kind + data.draw(DATA)
    place = form.join(row, prefix)
    assert form.cut(place) == (row, prefix)


@given(st.data())
def test_whatever_is_cut_joins_to_the_same_bytes(data: st.DataObject) -> None:
    form, place = data.draw(forms()), data.draw(DATA) + data.draw(DATA)
    try:
        row, prefix = form.cut(place)
    except DecodingError:
        return
    assert form.join(row, prefix) == place


@pytest.mark.lengthy
@given(st.data())
def test_place_keys_keep_the_order_of_rows_and_prefixes(data: st.DataObject) -> None:
    form = data.draw(forms())
    pairs = data.draw(st.lists(st.tuples(rows_of(form), DATA.map(lambda rest: form.kind + rest)), max_size=6))
    assert [form.cut(place) for place in sorted(form.join(*pair) for pair in pairs)] == sorted(pairs)


@pytest.mark.lengthy
@given(st.data())
def test_slices_hold_the_cells_of_exactly_the_objects_in_a_range(data: st.DataObject) -> None:
    form, prefix_end, found = data.draw(objects())
    places = data.draw(ranges(form, found))
    pieces = form.slices(places, prefix_end)
    assert len(pieces) <= 3
    assert not any(piece.rows.empty for piece in pieces)
    assert all(piece.stop is None or piece.first < piece.stop for piece in pieces)
    for row, prefix in found:
        qualifier = prefix + data.draw(DATA)
        assert sum(holds(piece, row, qualifier) for piece in pieces) == (form.join(row, prefix) in places)
        assert not any(holds(piece, row, b"") for piece in pieces)


@pytest.mark.lengthy
@given(st.data())
def test_slices_by_bytes_alone_hold_exactly_the_prefixes_in_a_range(data: st.DataObject) -> None:
    """This holds for any prefixes, even those of a last field without a terminator."""
    form = data.draw(forms())
    pairs = st.tuples(rows_of(form).filter(bool), DATA.map(lambda rest: form.kind + rest).filter(bool))
    found = data.draw(st.lists(pairs, min_size=1, max_size=6))
    places = data.draw(ranges(form, found))
    pieces = form.slices(places)
    for row, prefix in found:
        assert sum(holds(piece, row, prefix) for piece in pieces) == (form.join(row, prefix) in places)


@pytest.mark.lengthy
@given(st.data())
def test_slices_come_in_the_order_of_places(data: st.DataObject) -> None:
    form, prefix_end, found = data.draw(objects())
    pieces = form.slices(data.draw(ranges(form, found)), prefix_end)
    for before, behind in pairwise(pieces):
        assert before.rows.stop is not None
        assert before.rows.stop <= behind.rows.start


@pytest.mark.lengthy
@given(st.data())
def test_places_of_a_range_of_rows(data: st.DataObject) -> None:
    form = data.draw(forms())
    found = data.draw(st.lists(rows_of(form), min_size=1, max_size=4))
    near = st.one_of(st.sampled_from(found), DATA, st.sampled_from(found).map(key_successor))
    rows = KeyRange(data.draw(near), data.draw(st.one_of(st.none(), near)))
    places = form.places(rows)
    for row in found:
        assert (form.join(row, form.kind + data.draw(DATA)) in places) == (row in rows)


@pytest.mark.parametrize(
    ("form", "row", "prefix", "place"),
    [
        (ObjectKeyForm(), b"ann", b"rex\x00\x01", b"ann\x00\x01rex\x00\x01"),
        (ObjectKeyForm(kind=b"p"), b"ann", b"prex\x00\x01", b"ann\x00\x01rex\x00\x01"),
        (ObjectKeyForm(kind=b"o"), b"ann", b"o", b"ann\x00\x01"),
        (ObjectKeyForm(salt=1), b"\x00a\x00b", b"x", b"\x00a\x00\xffb\x00\x01x"),
        (ObjectKeyForm(row=b"pets", kind=b"p"), b"pets", b"prex|", b"rex|"),
    ],
)
def test_golden_place_keys(form: ObjectKeyForm, row: bytes, prefix: bytes, place: bytes) -> None:
    assert form.join(row, prefix) == place
    assert form.cut(place) == (row, prefix)


@pytest.mark.parametrize(
    ("form", "places", "pieces"),
    [
        (ObjectKeyForm(), KeyRange(), [Slice(KeyRange(), b"\x00", None)]),
        (ObjectKeyForm(kind=b"p"), KeyRange(), [Slice(KeyRange(), b"p", b"q")]),
        (ObjectKeyForm(kind=b"\xff"), KeyRange(), [Slice(KeyRange(), b"\xff", None)]),
        (ObjectKeyForm(kind=b"p"), KeyRange.prefix(b"ann\x00\x01"), [Slice(KeyRange.exactly(b"ann"), b"p", b"q")]),
        (
            ObjectKeyForm(kind=b"p"),
            KeyRange.prefix(b"ann\x00\x01flu"),
            [Slice(KeyRange.exactly(b"ann"), b"pflu", b"pflv")],
        ),
        (ObjectKeyForm(kind=b"p"), KeyRange.prefix(b"ann"), [Slice(KeyRange(b"ann", b"ano"), b"p", b"q")]),
        (
            ObjectKeyForm(kind=b"p"),
            KeyRange(b"ann\x00\x01flu", b"bob\x00\x01rex"),
            [
                Slice(KeyRange.exactly(b"ann"), b"pflu", b"q"),
                Slice(KeyRange(b"ann\x00", b"bob"), b"p", b"q"),
                Slice(KeyRange.exactly(b"bob"), b"p", b"prex"),
            ],
        ),
        (ObjectKeyForm(row=b"pets"), KeyRange(), [Slice(KeyRange.exactly(b"pets"), b"\x00", None)]),
        (ObjectKeyForm(row=b"pets"), KeyRange(b"a", b"b"), [Slice(KeyRange.exactly(b"pets"), b"a", b"b")]),
    ],
)
def test_golden_slices(form: ObjectKeyForm, places: KeyRange, pieces: list[Slice]) -> None:
    assert list(form.slices(places)) == pieces


def test_a_range_behind_an_object_leaves_out_its_cells() -> None:
    form = ObjectKeyForm(kind=b"p")
    behind = KeyRange(key_successor(form.join(b"ann", b"prex\x00\x01")), None)
    (head, _) = form.slices(behind, end_of_text(form, False))
    assert head == Slice(KeyRange.exactly(b"ann"), b"prex\x00\x02", b"q")


def test_one_row() -> None:
    assert Slice(KeyRange.exactly(b"ann"), b"a", None).row == b"ann"
    assert Slice(KeyRange(b"ann", b"bob"), b"a", None).row is None


@pytest.mark.parametrize("place", [b"", b"ann", b"ann\x00", b"ann\x00\x02\x00\x01", b"\x00\x01"])
def test_bytes_that_are_no_place_key(place: bytes) -> None:
    with pytest.raises(DecodingError):
        ObjectKeyForm(salt=2).cut(place)


@pytest.mark.parametrize(
    ("form", "row", "prefix"),
    [
        (ObjectKeyForm(kind=b"p"), b"ann", b"q"),
        (ObjectKeyForm(row=b"pets"), b"cars", b"q"),
        (ObjectKeyForm(salt=2), b"a", b"q"),
    ],
)
def test_pairs_that_have_no_place_key(form: ObjectKeyForm, row: bytes, prefix: bytes) -> None:
    with pytest.raises(DecodingError):
        form.join(row, prefix)
