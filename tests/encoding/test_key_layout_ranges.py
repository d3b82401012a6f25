"""Ranges of keys: exactly the keys whose next field lies within bounds, whatever the codec, the direction and the
position.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel.encoding.codecs as c
from hbmodel.encoding.key_layout import UNSET, Bounds, KeyField, KeyLayout
from hbmodel.errors import EncodingError, QueryError
from hbmodel.store.ranges import KeyRange
from tests.support.strategies import changes, field_values, key_tuples, layouts, place_layouts, plain, values_of

SECOND = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def within(value: Any, bounds: Bounds | None) -> bool:
    """The meaning of bounds, defined without bytes."""
    if bounds is None:
        return True
    if bounds.only_none:
        return value is None
    if value is None:
        return False
    found = plain(value)
    return (
        (bounds.low is UNSET or found > plain(bounds.low) or (bounds.low_inclusive and found == plain(bounds.low)))
        and (
            bounds.high is UNSET
            or found < plain(bounds.high)
            or (bounds.high_inclusive and found == plain(bounds.high))
        )
        and (bounds.prefix is UNSET or value.startswith(bounds.prefix))
    )


def near(codec: c.Codec[Any], value: Any) -> st.SearchStrategy[Any]:
    """Bounds around a value, those between and beyond the storable values included."""
    if type(codec).floor is not c.Codec.floor and isinstance(value, int):
        return st.sampled_from([value - 1, value, value + 1, -(10**30), 10**30])
    if type(codec).floor is not c.Codec.floor and isinstance(value, bytes):
        return st.sampled_from([value, value[:-1], value[:1], b"", value + b"\x00", value + b"a"])
    if isinstance(value, datetime):
        steps = [timedelta(0, 0, n) for n in (-1, 0, 1, 999_999)]
        inside = (
            datetime.min.replace(tzinfo=UTC) + timedelta(1) < value < datetime.max.replace(tzinfo=UTC) - timedelta(1)
        )
        return st.sampled_from([value + step for step in steps] if inside else [value])
    return st.just(value)


@st.composite
def questions(
    draw: st.DrawFn, of_layouts: st.SearchStrategy[KeyLayout]
) -> tuple[KeyLayout, list[tuple[Any, ...]], tuple[Any, ...], Bounds | None]:
    """A layout, keys of it, the values of some leading fields, and bounds of the next one."""
    layout = draw(of_layouts)
    tuples = draw(key_tuples(layout))
    leading = draw(st.sampled_from(tuples))[: draw(st.integers(0, len(layout.fields)))]
    if len(leading) == len(layout.fields):
        return layout, tuples, leading, None
    position = len(leading)
    of = layout.fields[position]
    values = st.one_of(
        st.sampled_from([t[position] for t in tuples]).filter(lambda v: v is not None), values_of(of.codec)
    )
    sides = st.one_of(st.just(UNSET), values.flatmap(lambda value: near(of.codec, value)))
    kinds = ["all", "equal", "not none", "none"]
    if layout.order_of(position) is not None:
        kinds += ["range"] * 4
    if isinstance(
        of.codec, type(c.Text) | type(c.Bytes) | type(c.Text(1)) | type(c.Bytes(1)) | c.PaddedBytes | c.Delimited
    ):
        kinds += ["prefix"] * 3
    bounds: Bounds | None
    match draw(st.sampled_from(kinds)):
        case "equal":
            bounds = Bounds.equal(draw(st.one_of(field_values(of), values)))
        case "not none":
            bounds = Bounds.not_none()
        case "none":
            bounds = Bounds.is_none()
        case "range":
            bounds = Bounds(draw(sides), draw(st.booleans()), draw(sides), draw(st.booleans()))
        case "prefix":
            whole = draw(values)
            prefix = whole[: draw(st.integers(0, len(whole)))]
            low = draw(sides) if layout.order_of(position) else UNSET
            bounds = Bounds(low=low, prefix=prefix)
        case _:
            bounds = None
    return layout, tuples, leading, bounds


@pytest.mark.lengthy
@given(st.one_of(questions(layouts()), questions(place_layouts())), st.data())
def test_a_range_holds_exactly_the_keys_within(
    question: tuple[KeyLayout, list[tuple[Any, ...]], tuple[Any, ...], Bounds | None], data: st.DataObject
) -> None:
    layout, tuples, leading, bounds = question
    try:
        found = layout.range_of(layout.pack_leading(leading), bounds)
    except QueryError:
        # Only these prefixes cannot be told apart by bytes: one that ends like padding, or as a delimiter begins.
        assert bounds is not None
        assert bounds.prefix is not UNSET
        assert bounds.prefix.endswith(("\0", ":") if isinstance(bounds.prefix, str) else b"\0")
        return
    for values in tuples:
        key = layout.pack(values) + data.draw(st.binary(min_size=layout.tail, max_size=layout.tail))
        led = [*map(plain, values[: len(leading)])] == [*map(plain, leading)]
        wanted = led and (len(leading) == len(values) or within(values[len(leading)], bounds))
        assert (key in found) == wanted


@pytest.mark.lengthy
@given(st.data())
def test_ranges_of_times_within_changes_of_the_clock(data: st.DataObject) -> None:
    """Bounds are compared as instants, even two in one zone that show the same time on the clock."""
    codec = data.draw(
        st.sampled_from(
            [c.Timestamp, c.Datetime("s"), c.Datetime("s", round=True), c.ReverseStamp, c.ReverseStamp(round=True)]
        )
    )
    layout = KeyLayout((KeyField("a", codec, desc=data.draw(st.booleans()), nullable=data.draw(st.booleans())),))
    low, high = data.draw(changes()), data.draw(changes())
    bounds = Bounds(low, data.draw(st.booleans()), high, data.draw(st.booleans()))
    found = layout.range_of([], bounds)
    for value in [codec.floor(low), codec.floor(high), data.draw(values_of(codec))]:
        assert (layout.pack((value,)) in found) == within(value, bounds)


@pytest.mark.parametrize(
    ("of", "bounds", "found"),
    [
        # One field, the last: raw text.
        (KeyField("a", c.Text), None, KeyRange(b"", None)),
        (KeyField("a", c.Text), Bounds(low="b"), KeyRange(b"b", None)),
        (KeyField("a", c.Text), Bounds(low="b", low_inclusive=False), KeyRange(b"b\x00", None)),
        (KeyField("a", c.Text), Bounds(high="b"), KeyRange(b"", b"b\x00")),
        (KeyField("a", c.Text), Bounds(high="b", high_inclusive=False), KeyRange(b"", b"b")),
        (KeyField("a", c.Text), Bounds.equal("b"), KeyRange(b"b", b"b\x00")),
        (KeyField("a", c.Text), Bounds.starting_with("b\0"), KeyRange(b"b\x00", b"b\x01")),
        (KeyField("a", c.Text), Bounds.starting_with(""), KeyRange(b"", None)),
        (KeyField("a", c.Bytes), Bounds.starting_with(b"\xff\xff"), KeyRange(b"\xff\xff", None)),
        (KeyField("a", c.Bytes), Bounds.starting_with(b"a\xff"), KeyRange(b"a\xff", b"b")),
        # Nullable: every bound leaves None out.
        (KeyField("a", c.Text, nullable=True), Bounds(high="b"), KeyRange(b"\x01", b"\x01b\x00")),
        (KeyField("a", c.Text, nullable=True), Bounds(low="b"), KeyRange(b"\x01b", b"\x02")),
        (KeyField("a", c.Text, nullable=True), Bounds.not_none(), KeyRange(b"\x01", b"\x02")),
        (KeyField("a", c.Text, nullable=True), Bounds.is_none(), KeyRange(b"\x00", b"\x00\x00")),
        (KeyField("a", c.Text, desc=True, nullable=True), Bounds.is_none(), KeyRange(b"\xff", None)),
        (KeyField("a", c.Text, desc=True, nullable=True), Bounds.not_none(), KeyRange(b"\xfe", b"\xff")),
        (KeyField("a", c.UInt8, desc=True, nullable=True), Bounds(low=1), KeyRange(b"\xfe", b"\xfe\xff")),
        # Descending: the bounds change sides, and the lowest value ends at the end of the parent.
        (KeyField("a", c.UInt8, desc=True), Bounds(low=1), KeyRange(b"", b"\xff")),
        (KeyField("a", c.UInt8, desc=True), Bounds(low=0), KeyRange(b"", None)),
        (KeyField("a", c.UInt8, desc=True), Bounds(low=0, low_inclusive=False), KeyRange(b"", b"\xff")),
        (KeyField("a", c.UInt8, desc=True), Bounds(high=1), KeyRange(b"\xfe", None)),
        (KeyField("a", c.UInt8, desc=True), Bounds(high=0), KeyRange(b"\xff", None)),
        (KeyField("a", c.ReverseStampInt), Bounds(low=1), KeyRange(b"", b"\x7f" + b"\xff" * 7)),
        (KeyField("a", c.ReverseStampInt, desc=True), Bounds(low=1), KeyRange(b"\x80" + b"\x00" * 6 + b"\x01", None)),
        # The largest value has no successor: the range stays open and does not wrap.
        (KeyField("a", c.UInt8, desc=True), Bounds.starting_with(1), QueryError),
        (KeyField("a", c.Bytes(2)), Bounds.equal(b"\xff\xff"), KeyRange(b"\xff\xff", b"\xff\xff\x00")),
    ],
    ids=repr,
)
def test_ranges_of_a_single_field(of: KeyField, bounds: Bounds | None, found: Any) -> None:
    if found is QueryError:
        with pytest.raises(QueryError, match="field='a'"):
            KeyLayout((of,)).range_of([], bounds)
    else:
        assert KeyLayout((of,)).range_of([], bounds) == found


PAIR = KeyLayout((KeyField("a", c.UInt8), KeyField("b", c.UInt8), KeyField("c", c.Text)))


@pytest.mark.parametrize(
    ("leading", "bounds", "found"),
    [
        ((1,), None, KeyRange(b"\x01", b"\x02")),
        ((255,), None, KeyRange(b"\xff", None)),
        ((1,), Bounds(low=255), KeyRange(b"\x01\xff", b"\x02")),
        ((1,), Bounds(high=255), KeyRange(b"\x01", b"\x02")),
        ((255,), Bounds(low=255), KeyRange(b"\xff\xff", None)),
        ((1,), Bounds(low=3, high=5), KeyRange(b"\x01\x03", b"\x01\x06")),
        ((1,), Bounds(low=3, low_inclusive=False, high=5, high_inclusive=False), KeyRange(b"\x01\x04", b"\x01\x05")),
        ((1,), Bounds.equal(255), KeyRange(b"\x01\xff", b"\x02")),
        ((1, 2), None, KeyRange(b"\x01\x02", b"\x01\x03")),
        ((1, 2), Bounds(low="a"), KeyRange(b"\x01\x02a", b"\x01\x03")),
        ((1, 2, "a"), None, KeyRange(b"\x01\x02a", b"\x01\x02a\x00")),
    ],
)
def test_ranges_under_a_prefix(leading: tuple[Any, ...], bounds: Bounds | None, found: KeyRange) -> None:
    assert PAIR.range_of(PAIR.pack_leading(leading), bounds) == found


def test_nothing_is_above_the_largest_key() -> None:
    assert PAIR.range_of([b"\xff"], Bounds(low=255, low_inclusive=False)).empty
    assert PAIR.range_of([b"\x01"], Bounds(low=255, low_inclusive=False)).empty
    assert PAIR.range_of([b"\x01"], Bounds(low=9, high=3)).empty


def test_with_a_tail_a_whole_key_is_a_prefix() -> None:
    layout = KeyLayout((KeyField("a", c.UInt8), KeyField("b", c.Text)), tail=1)
    assert layout.range_of(layout.pack_parts((1, "x"))) == KeyRange(b"\x01x\x00\x01", b"\x01x\x00\x02")


@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        (Bounds(low=-5), KeyRange(b"", None)),
        (Bounds(low=256), None),
        (Bounds(high=-1), None),
        (Bounds(high=10**20), KeyRange(b"", None)),
        (Bounds.equal(256), None),
        (Bounds.equal(-1), None),
    ],
)
def test_bounds_beyond_the_storable_values(bounds: Bounds, found: KeyRange | None) -> None:
    answer = KeyLayout((KeyField("a", c.UInt8),)).range_of([], bounds)
    assert answer.empty if found is None else answer == found


@pytest.mark.parametrize("inclusive", [False, True])
def test_bounds_between_the_storable_values(inclusive: bool) -> None:
    layout = KeyLayout((KeyField("a", c.Datetime("s")),))
    between = SECOND.replace(microsecond=5)
    second_two = b"\x80" + b"\x00" * 6 + b"\x02"
    assert layout.range_of([], Bounds(low=between, low_inclusive=inclusive)) == KeyRange(second_two, None)
    assert layout.range_of([], Bounds(high=between, high_inclusive=inclusive)) == KeyRange(b"", second_two)
    assert layout.range_of([], Bounds.equal(between)).empty


def test_a_prefix_that_no_value_has_is_an_empty_range() -> None:
    assert KeyLayout((KeyField("a", c.Text(2)),)).range_of([], Bounds.starting_with("abc")).empty
    layout = KeyLayout((KeyField("a", c.Delimited("|")), KeyField("b", c.Text)))
    assert layout.range_of([], Bounds.starting_with("a|")).empty


def test_a_field_that_cannot_be_none_is_never_none() -> None:
    assert KeyLayout((KeyField("a", c.Text),)).range_of([], Bounds.is_none()).empty


@pytest.mark.parametrize(
    "codec", [c.JavaLong, c.Reversed(c.UInt32), c.ReversedDigits(3), c.DigestPrefixed(c.UInt32)], ids=repr
)
def test_fields_without_order_have_no_ranges_but_equality(codec: c.Codec[Any]) -> None:
    layout = KeyLayout((KeyField("g", c.Int8), KeyField("f", codec, nullable=True)))
    parts = layout.pack_leading((1,))
    for bounds in (Bounds(low=1), Bounds(high=1), Bounds(low=1, high=2)):
        with pytest.raises(QueryError, match="The bytes of this field do not keep the order of its values"):
            layout.range_of(parts, bounds)
    key = layout.pack((1, 5))
    assert layout.range_of(parts, Bounds.equal(5)) == KeyRange.exactly(key)
    assert layout.range_of(parts, Bounds.is_none()) == KeyRange.exactly(layout.pack((1, None)))
    assert key in layout.range_of(parts, Bounds.not_none())


def test_delimited_text_has_ranges_only_where_it_is_last() -> None:
    last = KeyLayout((KeyField("a", c.Delimited("|")),))
    assert last.range_of([], Bounds(low="b")) == KeyRange(b"b", None)
    first = KeyLayout((KeyField("a", c.Delimited("|")), KeyField("b", c.Text)))
    with pytest.raises(QueryError, match="field='a'"):
        first.range_of([], Bounds(low="b"))
    assert first.range_of([], Bounds.starting_with("b")) == KeyRange(b"b", b"c")


def test_bounds_of_the_wrong_type_name_the_field() -> None:
    for bounds in (Bounds(low="x"), Bounds(high=True), Bounds.equal(1.5)):
        with pytest.raises(EncodingError, match="field='a'"):
            PAIR.range_of([], bounds)
    with pytest.raises(EncodingError, match="field='c'"):
        PAIR.range_of([b"\x01", b"\x02"], Bounds.starting_with(b"x"))


def test_a_key_that_is_fixed_has_no_next_field() -> None:
    with pytest.raises(QueryError, match="Every key field is fixed already"):
        PAIR.range_of(PAIR.pack_parts((1, 2, "a")), Bounds(low=1))
    with pytest.raises(QueryError):
        PAIR.range_of([b""] * 4)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Bounds(low=None),
        lambda: Bounds(high=None),
        lambda: Bounds(low=None, high=3),
        lambda: Bounds(low=None, high=None, low_inclusive=False),
        lambda: Bounds(low=None, high=None, prefix="a"),
        lambda: Bounds(prefix=None),
    ],
)
def test_none_has_no_order(declare: Any) -> None:
    with pytest.raises(QueryError, match="None has no order: use only == or is_"):
        declare()


def test_bounds_are_values() -> None:
    assert Bounds.equal(None) == Bounds.is_none()
    assert Bounds.is_none().only_none
