"""Key layouts: composite keys byte by byte, round trips, order, and errors that name the field."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel.encoding.codecs as c
from hbmodel.encoding.key_layout import KEY_FORMAT, KeyField, KeyLayout, check_length
from hbmodel.errors import DeclarationError, DecodingError, EncodingError, IncompleteKey, KeyTooLong, RowKeyError
from hbmodel.store import MAX_ROW_LENGTH
from tests.support.strategies import as_read, declared_order, key_tuples, key_values, layouts, plain

ACTIONS = KeyLayout((KeyField("user", c.UInt32), KeyField("at", c.Timestamp, desc=True), KeyField("name", c.Text)))
SECOND = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
ACTION = (7, SECOND, "a\0")
ACTION_PARTS = [b"\x00\x00\x00\x07", b"\x7f\xff\xff\xff\xff\xf0\xbd\xbf", b"a\x00"]


def test_a_composite_key() -> None:
    assert ACTIONS.names == ("user", "at", "name")
    assert ACTIONS.pack_parts(ACTION) == ACTION_PARTS
    assert ACTIONS.pack(ACTION) == b"".join(ACTION_PARTS)
    assert ACTIONS.pack_leading(ACTION[:2]) == ACTION_PARTS[:2]
    assert ACTIONS.pack_leading(ACTION) == ACTION_PARTS
    assert ACTIONS.pack_leading(()) == []
    assert ACTIONS.unpack(b"".join(ACTION_PARTS)) == ACTION
    assert ACTIONS.unpack(b"salt" + b"".join(ACTION_PARTS), 4) == ACTION


def test_with_a_tail_no_field_is_last() -> None:
    layout = KeyLayout((KeyField("name", c.Text, nullable=True),), tail=1)
    assert layout.pack(("ab",)) == b"\x01ab\x00\x01"
    assert layout.pack((None,)) == b"\x00"
    assert layout.unpack(b"\x01ab\x00\x01\x07") == ("ab",)
    assert layout.unpack(b"\x00\x07") == (None,)
    for stored in (b"\x01ab\x00\x01", b"\x01ab\x00\x01\x07\x07", b"\x00", b"\x00\x07\x07"):
        with pytest.raises(DecodingError):
            layout.unpack(stored)


def test_a_descending_last_text_keeps_its_terminator() -> None:
    layout = KeyLayout((KeyField("name", c.Text, desc=True),))
    assert layout.pack(("a",)) == b"\x9e\xff\xfe"
    assert layout.pack(("ab",)) < layout.pack(("a",))


@pytest.mark.lengthy
@given(
    layouts().flatmap(lambda layout: st.tuples(st.just(layout), key_values(layout))), st.binary(max_size=2), st.data()
)
def test_round_trip(example: tuple[KeyLayout, tuple[Any, ...]], salt: bytes, data: st.DataObject) -> None:
    layout, values = example
    tail = data.draw(st.binary(min_size=layout.tail, max_size=layout.tail))
    key = layout.pack(values)
    assert layout.unpack(salt + key + tail, len(salt)) == tuple(map(as_read, values))
    assert layout.pack_leading(values[:-1]) == layout.pack_parts(values)[:-1]


@pytest.mark.lengthy
@given(layouts(ordered=True).flatmap(lambda layout: st.tuples(st.just(layout), key_tuples(layout))))
def test_keys_sort_as_declared(example: tuple[KeyLayout, list[tuple[Any, ...]]]) -> None:
    layout, tuples = example
    order = declared_order(layout)
    by_values = sorted(tuples, key=order)
    assert sorted(map(layout.pack, tuples)) == list(map(layout.pack, by_values))
    for left, right in pairwise(by_values):
        assert (layout.pack(left) == layout.pack(right)) == ([*map(plain, left)] == [*map(plain, right)])


@pytest.mark.lengthy
@given(layouts().flatmap(lambda layout: st.tuples(st.just(layout), key_values(layout))), st.data())
def test_damaged_keys_are_read_exactly_or_refused(
    example: tuple[KeyLayout, tuple[Any, ...]], data: st.DataObject
) -> None:
    layout, values = example
    stored = bytearray(layout.pack(values) + b"\x07" * layout.tail)
    at = data.draw(st.integers(0, len(stored)))
    replaced = data.draw(st.integers(0, 2))
    stored[at : at + replaced] = data.draw(st.binary(max_size=2))
    changed = bytes(stored)
    try:
        found = layout.unpack(changed)
    except DecodingError:
        return
    assert layout.pack(found) == changed[: len(changed) - layout.tail]


@pytest.mark.parametrize(
    ("codec", "desc", "alone", "followed"),
    [
        (c.Int64, False, "ascending", "ascending"),
        (c.Int64, True, "descending", "descending"),
        (c.ReverseStamp, False, "descending", "descending"),
        (c.ReverseStamp, True, "ascending", "ascending"),
        (c.Text, True, "descending", "descending"),
        (c.Delimited("|"), False, "ascending", None),
        (c.Delimited("|"), True, None, None),
        (c.JavaLong, False, None, None),
        (c.Reversed(c.UInt32), True, None, None),
    ],
    ids=repr,
)
def test_order_of_a_field_depends_on_codec_direction_and_position(
    codec: Any, desc: bool, alone: Any, followed: Any
) -> None:
    of = KeyField("f", codec, desc=desc)
    assert KeyLayout((of,)).order_of(0) == alone
    assert KeyLayout((of,), tail=1).order_of(0) == followed
    assert KeyLayout((of, KeyField("g", c.Int8))).order_of(0) == followed
    assert KeyLayout((KeyField("g", c.Int8), of)).order_of(1) == alone


def test_errors_name_the_field() -> None:
    with pytest.raises(EncodingError, match="field='at'"):
        ACTIONS.pack((7, SECOND.replace(tzinfo=None), "a"))
    with pytest.raises(EncodingError, match="field='user'"):
        ACTIONS.pack_leading((None,))
    with pytest.raises(DecodingError, match="field='user'"):
        ACTIONS.unpack(b"\x00")
    with pytest.raises(DecodingError, match="field='at'"):
        ACTIONS.unpack(b"\x00" * 12 + b"a")
    with pytest.raises(DecodingError, match="field='name'"):
        ACTIONS.unpack(b"".join(ACTION_PARTS) + b"\xff")
    with pytest.raises(DecodingError, match="longer or shorter"):
        KeyLayout((KeyField("a", c.Int8), KeyField("b", c.Int8, desc=True))).unpack(b"\x80\x80\x80")


@pytest.mark.parametrize("stored", [b"", b"\x02a", b"\x00a"])
def test_the_marker_of_a_nullable_field_is_read_strictly(stored: bytes) -> None:
    with pytest.raises(DecodingError, match="field='a'"):
        KeyLayout((KeyField("a", c.Text, nullable=True),)).unpack(stored)
    if stored != b"\x00a":
        with pytest.raises(DecodingError, match="field='a'"):
            KeyLayout((KeyField("a", c.Text, nullable=True), KeyField("b", c.Int8))).unpack(stored)


def test_the_number_of_values_must_be_that_of_the_fields() -> None:
    with pytest.raises(IncompleteKey, match="A key needs a value for every field") as caught:
        ACTIONS.pack((7,))
    assert caught.value.missing == ("at", "name")
    with pytest.raises(IncompleteKey):
        ACTIONS.pack_parts(())
    for pack in (ACTIONS.pack, ACTIONS.pack_parts, ACTIONS.pack_leading):
        with pytest.raises(RowKeyError, match="more values"):
            pack((*ACTION, 1))


@pytest.mark.parametrize(
    "declare",
    [
        lambda: KeyLayout(()),
        lambda: KeyLayout((KeyField("a", c.Int8), KeyField("a", c.Text))),
        lambda: KeyField("a", c.Json(int)),
        lambda: KeyField("a", c.EnumOf),
        lambda: KeyField("a", int),  # type: ignore[arg-type]
    ],
)
def test_declarations_that_cannot_work(declare: Any) -> None:
    with pytest.raises(DeclarationError):
        declare()


def test_layouts_are_values() -> None:
    again = KeyLayout([KeyField(f.name, f.codec, f.desc, f.nullable) for f in ACTIONS.fields])  # type: ignore[arg-type]
    assert again == ACTIONS
    assert hash(again) == hash(ACTIONS)
    assert KeyLayout(ACTIONS.fields, tail=1) != ACTIONS
    for copied in (pickle.loads(pickle.dumps(ACTIONS)), copy.deepcopy(ACTIONS)):
        assert copied == ACTIONS
        assert copied.pack(ACTION) == ACTIONS.pack(ACTION)


def test_spec() -> None:
    assert KeyField("at", c.Timestamp, desc=True).spec == {
        "name": "at",
        "codec": {"codec": "datetime", "unit": "us"},
        "desc": True,
        "nullable": False,
    }
    assert ACTIONS.spec == {"format": KEY_FORMAT, "fields": [f.spec for f in ACTIONS.fields], "tail": 0}
    assert json.loads(json.dumps(ACTIONS.spec)) == ACTIONS.spec


def test_keys_that_hbase_refuses_are_found_before_any_call() -> None:
    check_length(b"a", table="t")
    check_length(b"a" * MAX_ROW_LENGTH)
    with pytest.raises(KeyTooLong, match=r"empty.*table='t'"):
        check_length(b"", table="t")
    with pytest.raises(KeyTooLong, match=r"32,767 bytes.*table='t', index='i', length=32768"):
        check_length(b"a" * (MAX_ROW_LENGTH + 1), table="t", index="i")
