"""Every codec: its bytes written out by hand, round trips, order, strictness, and what a schema registry is told."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel.encoding.codecs as c
from hbmodel.encoding.codecs.float_and_bool_text import BoolText
from hbmodel.encoding.codecs.java import JavaShort
from hbmodel.encoding.codecs.java_values import IntTime, JavaBoolean, LongTime
from hbmodel.encoding.codecs.phoenix import (
    Char,
    PhoenixDecimal,
    PhoenixDouble,
    PhoenixFloat,
    PhoenixTimestamp,
    UnsignedInt,
)
from hbmodel.encoding.codecs.time_text import DateText, DatetimeText
from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.errors import DeclarationError, DecodingError, QueryError
from tests.support.strategies import KEY_CODECS, Colour, Level, as_read, plain, values_of

SECOND = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)

# codec, value, raw form, part form (None: the same), complement of the part form (descending key field)
GOLDEN: list[tuple[c.Codec[Any], Any, str, str | None, str]] = [
    (c.Int8, -128, "00", None, "ff"),
    (c.Int8, 0, "80", None, "7f"),
    (c.Int8, 127, "ff", None, "00"),
    (c.Int16, -1, "7fff", None, "8000"),
    (c.Int16, 258, "8102", None, "7efd"),
    (c.Int32, 1, "80000001", None, "7ffffffe"),
    (c.Int32, -(2**31), "00000000", None, "ffffffff"),
    (c.Int64, -1, "7fffffffffffffff", None, "8000000000000000"),
    (c.Int64, 2**63 - 1, "ffffffffffffffff", None, "0000000000000000"),
    (c.UInt8, 255, "ff", None, "00"),
    (c.UInt16, 258, "0102", None, "fefd"),
    (c.UInt24, 258, "000102", None, "fffefd"),
    (c.UInt24, 2**24 - 1, "ffffff", None, "000000"),
    (c.UInt32, 1, "00000001", None, "fffffffe"),
    (c.UInt40, 1, "0000000001", None, "fffffffffe"),
    (c.UInt48, 2**48 - 2, "fffffffffffe", None, "000000000001"),
    (c.UInt56, 1, "00000000000001", None, "fffffffffffffe"),
    (c.UInt64, 2**64 - 1, "ffffffffffffffff", None, "0000000000000000"),
    (c.Float32, 1.0, "bf800000", None, "407fffff"),
    (c.Float32, -1.0, "407fffff", None, "bf800000"),
    (c.Float32, -0.0, "80000000", None, "7fffffff"),
    (c.Float32, 16777216.0, "cb800000", None, "347fffff"),
    (c.Float32, float("-inf"), "007fffff", None, "ff800000"),
    (c.Float64, 1.0, "bff0000000000000", None, "400fffffffffffff"),
    (c.Float64, -1.0, "400fffffffffffff", None, "bff0000000000000"),
    (c.Float64, 0.0, "8000000000000000", None, "7fffffffffffffff"),
    (c.Float64, -0.0, "8000000000000000", None, "7fffffffffffffff"),
    (c.Float64, float("inf"), "fff0000000000000", None, "000fffffffffffff"),
    (c.Float64, float("-inf"), "000fffffffffffff", None, "fff0000000000000"),
    (c.DecimalNumber, Decimal("1.5"), "03 80000001 10 00", None, "fc 7ffffffe ef ff"),
    (c.DecimalNumber, Decimal("1.50"), "03 80000001 10 00", None, "fc 7ffffffe ef ff"),
    (c.DecimalNumber, Decimal("-1.5"), "01 7ffffffe ef ff", None, "fe 80000001 10 00"),
    (c.DecimalNumber, Decimal("-0.00"), "02", None, "fd"),
    (c.DecimalNumber, Decimal(100), "03 80000003 0b 00", None, "fc 7ffffffc f4 ff"),
    (c.DecimalNumber, Decimal("0.0123"), "03 7fffffff 0d 1f 00", None, "fc 80000000 f2 e0 ff"),
    (c.DecimalNumber, Decimal(99), "03 80000002 64 00", None, "fc 7ffffffd 9b ff"),
    (c.Bool, False, "00", None, "ff"),
    (c.Bool, True, "01", None, "fe"),
    (c.UUID128, UUID(int=1), "00" * 15 + "01", None, "ff" * 15 + "fe"),
    (c.Date, date(1970, 1, 2), "80000001", None, "7ffffffe"),
    (c.Date, date(1969, 12, 31), "7fffffff", None, "80000000"),
    (c.Timestamp, SECOND, "80000000000f4240", None, "7ffffffffff0bdbf"),
    (c.Datetime("ms"), SECOND, "80000000000003e8", None, "7ffffffffffffc17"),
    (c.Datetime("s"), SECOND, "8000000000000001", None, "7ffffffffffffffe"),
    (c.Duration, timedelta(microseconds=-1), "7fffffffffffffff", None, "8000000000000000"),
    (c.Text, "a\0b", "610062", "6100ff62 0001", "9eff009d fffe"),
    (c.Text, "", "", "0001", "fffe"),
    (c.Text, "é", "c3a9", "c3a9 0001", "3c56 fffe"),
    (c.Text(4), "ab", "61620000", None, "9e9dffff"),
    (c.Bytes, b"\x00\xff", "00ff", "00ffff 0001", "ff0000 fffe"),
    (c.Bytes(3), b"\xff\x01\x00", "ff0100", None, "00feff"),
    (c.PaddedBytes(3), b"\xff", "ff0000", None, "00ffff"),
    (c.IPAddress, IPv4Address("1.2.3.4"), "04 01020304", None, "fb fefdfcfb"),
    (c.IPAddress, IPv6Address("::1"), "06" + "00" * 15 + "01", None, "f9" + "ff" * 15 + "fe"),
    (c.IPv4, IPv4Address("1.2.3.4"), "04 01020304", None, "fb fefdfcfb"),
    (c.IPv6, IPv6Address("::1"), "06" + "00" * 15 + "01", None, "f9" + "ff" * 15 + "fe"),
    (c.EnumOf(Colour), Colour.RED, "726564", "726564 0001", "8d9a9b fffe"),
    (c.EnumOf(Level), Level.HIGH, "8000000000000007", None, "7ffffffffffffff8"),
    (c.JavaInt, -1, "ffffffff", None, "00000000"),
    (c.JavaInt, 258, "00000102", None, "fffffefd"),
    (c.JavaLong, 1, "0000000000000001", None, "fffffffffffffffe"),
    (c.JavaLong, -2, "fffffffffffffffe", None, "0000000000000001"),
    (JavaShort, -2, "fffe", None, "0001"),
    (JavaBoolean, True, "ff", None, "00"),
    (JavaBoolean, False, "00", None, "ff"),
    (LongTime, SECOND, "00000000000003e8", None, "fffffffffffffc17"),
    (IntTime(signed=True), SECOND, "00000001", None, "fffffffe"),
    (UnsignedInt, 1, "00000001", None, "fffffffe"),
    (PhoenixDouble, -1.5, "4008000000000000", None, "bff7ffffffffffff"),
    (PhoenixFloat, 1.5, "bfc00001", None, "403ffffe"),
    (PhoenixDecimal, Decimal("-1.5"), "3e643366", "3e643366 00", "c19bcc99 ff"),
    (PhoenixTimestamp, SECOND, "80000000000003e8 00000000", None, "7ffffffffffffc17 ffffffff"),
    (Char(4), "ab", "61622020", None, "9e9ddfdf"),
    (c.ReverseStampInt, 1, "7ffffffffffffffe", None, "8000000000000001"),
    (c.ReverseStamp, SECOND, "7ffffffffffffc17", None, "80000000000003e8"),
    (c.ReverseStamp("s"), SECOND, "7ffffffffffffffe", None, "8000000000000001"),
    (c.JavaUTF, "a\0\N{GRINNING FACE}", "0009 61 c080 eda0bd edb880", None, "fff6 9e 3f7f 125f42 12477f"),
    (c.JavaUTF, "é", "0002 c3a9", None, "fffd 3c56"),
    (c.JavaUTF, "", "0000", None, "ffff"),
    (c.DecimalText(4), 42, "30303432", None, "cfcfcbcd"),
    (c.HexText(4), 42, "30303261", None, "cfcfcd9e"),
    (c.Delimited("|"), "ab", "6162", "6162 7c", "9e9d 83"),
    (c.Delimited(b"\x00"), "ab", "6162", "6162 00", "9e9d ff"),
    (c.Reversed(c.UInt32), 1, "01000000", None, "feffffff"),
    (c.ReversedDigits(4), 42, "32343030", None, "cdcbcfcf"),
    (c.ReverseDecimalText(4), 42, "39393537", None, "c6c6cac8"),
    (BoolText("1", "0"), True, "31", None, "ce"),
    (DateText("%Y%m%d"), date(2026, 3, 1), "3230323630333031", None, "cdcfcdc9cfcccfce"),
    (DatetimeText("%Y%m%d%H"), SECOND.replace(second=0), "31393730303130313030", None, "cec6c8cfcfcecfcecfcf"),
    (c.Separated(c.DecimalText(4), "|"), 42, "30303432", "30303432 7c", "cfcfcbcd 83"),
    (c.Separated(c.ReverseDecimalText(4), b"::"), 42, "39393537", "39393537 3a3a", "c6c6cac8 c5c5"),
    (c.DelimitedInt("_"), 42, "3432", "3432 5f", "cbcd a0"),
    (c.DelimitedInt("::"), -7, "2d37", "2d37 3a3a", "d2c8 c5c5"),
    (c.DelimitedInt("_"), 0, "30", "30 5f", "cf a0"),
    (c.DelimitedInt("-"), 42, "3432", "3432 2d", "cbcd d2"),
    (c.NonEmpty(c.Text), "a", "61", "61 0001", "9e fffe"),
    (c.NonEmpty(c.Bytes), b"\x00", "00", "00ff 0001", "ff00 fffe"),
    (c.DigestPrefixed(c.Text, 2), "a", "0cc1 61", "0cc1 61 0001", "f33e 9e fffe"),
    (c.DigestPrefixed(c.Text, 3, hex=True), "a", "306363 61", "306363 61 0001", "cf9c9c 9e fffe"),
    (c.DigestPrefixed(c.UInt8, 1, "sha1"), 0, "5b 00", None, "a4 ff"),
    (c.DigestPrefixed(c.Text, 2, separator="|"), "a", "0cc1 7c 61", "0cc1 7c 61 0001", "f33e 83 9e fffe"),
    (
        c.DigestPrefixed(c.Delimited("|"), 3, hex=True, separator=b"||"),
        "a",
        "306363 7c7c 61",
        "306363 7c7c 61 7c",
        "cf9c9c 8383 9e 83",
    ),
]


@pytest.mark.parametrize(("codec", "value", "raw", "part", "desc"), GOLDEN, ids=lambda x: repr(x)[:40])
def test_bytes_as_a_column_and_in_every_place_of_a_key(
    codec: c.Codec[Any], value: Any, raw: str, part: str | None, desc: str
) -> None:
    raw_form, desc_form = bytes.fromhex(raw), bytes.fromhex(desc)
    part_form = raw_form if part is None else bytes.fromhex(part)
    assert codec.encode(value) == raw_form
    assert codec.encode_part(value) == part_form

    def key(*fields: KeyField) -> KeyLayout:
        return KeyLayout(fields)

    one = KeyField("z", c.UInt8)
    assert key(KeyField("f", codec)).pack((value,)) == raw_form
    assert key(KeyField("f", codec), one).pack((value, 1)) == part_form + b"\x01"
    assert key(KeyField("f", codec, desc=True)).pack((value,)) == desc_form
    assert key(KeyField("f", codec, desc=True), one).pack((value, 1)) == desc_form + b"\x01"
    assert key(KeyField("f", codec, nullable=True)).pack((value,)) == b"\x01" + raw_form
    assert key(KeyField("f", codec, nullable=True)).pack((None,)) == b"\x00"
    assert key(KeyField("f", codec, nullable=True), one).pack((value, 1)) == b"\x01" + part_form + b"\x01"
    assert key(KeyField("f", codec, nullable=True), one).pack((None, 1)) == b"\x00\x01"
    assert key(KeyField("f", codec, desc=True, nullable=True)).pack((value,)) == b"\xfe" + desc_form
    assert key(KeyField("f", codec, desc=True, nullable=True)).pack((None,)) == b"\xff"
    assert KeyLayout((KeyField("f", codec),), tail=1).pack((value,)) == part_form


def test_golden_bytes_name_every_codec() -> None:
    assert {type(codec) for codec, *_ in GOLDEN} == {type(codec) for codec in KEY_CODECS}


def test_what_comes_back_may_be_another_writing_of_the_same_value() -> None:
    assert str(c.Float64.decode(c.Float64.encode(-0.0))) == "0.0"
    assert str(c.DecimalNumber.decode(c.DecimalNumber.encode(Decimal("1.50")))) == "1.5"
    assert str(c.DecimalNumber.decode(c.DecimalNumber.encode(Decimal("-0.00")))) == "0"
    there = datetime(2024, 6, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    back = c.Timestamp.decode(c.Timestamp.encode(there))
    assert back == there
    assert back.tzinfo is UTC
    assert type(c.Int64.decode(c.Int64.encode(Level.HIGH))) is int
    assert type(c.Float64.decode(c.Float64.encode(3))) is float


each_codec = st.sampled_from(KEY_CODECS)


@pytest.mark.lengthy
@given(each_codec.flatmap(lambda codec: st.tuples(st.just(codec), values_of(codec))))
def test_round_trip_as_raw_and_as_part(example: tuple[c.Codec[Any], Any]) -> None:
    codec, value = example
    raw, part = codec.encode(value), codec.encode_part(value)
    assert codec.decode(raw) == as_read(value)
    assert type(codec.decode(raw)) is type(value)
    assert codec.decode_part(b"??" + part + b"\x00\x01\xff", 2) == (as_read(value), 2 + len(part))
    if codec.width is not None:
        assert raw == part
        assert len(raw) == codec.width
    assert raw or codec.may_be_empty
    assert part


@given(each_codec.flatmap(lambda codec: st.tuples(st.just(codec), values_of(codec), values_of(codec))))
def test_bytes_compare_as_values_do_and_no_part_is_a_prefix_of_another(example: tuple[c.Codec[Any], Any, Any]) -> None:
    codec, left, right = example
    for encode, order in ((codec.encode, codec.raw_order), (codec.encode_part, codec.order)):
        a, b = encode(left), encode(right)
        assert (a == b) == (plain(left) == plain(right))
        if order == "ascending":
            assert (a < b) == (plain(left) < plain(right))
        elif order == "descending":
            assert (a < b) == (plain(left) > plain(right))
    if plain(left) != plain(right):
        assert not codec.encode_part(right).startswith(codec.encode_part(left))


UNORDERED: list[tuple[c.Codec[Any], Any, Any]] = [
    (c.JavaInt, -1, 1),
    (c.JavaLong, -1, 1),
    (JavaShort, -1, 1),
    (IntTime(signed=True), SECOND.replace(year=1969), SECOND),
    (c.JavaUTF, "aa", "b"),
    (c.Delimited("|"), "a", "a!"),
    (c.Delimited("::"), "a", "a!"),
    (c.DelimitedInt("_"), 9, 10),
    (c.DelimitedInt("-"), 9, 10),
    (c.Reversed(c.UInt32), 1, 256),
    (c.Separated(c.Reversed(c.UInt32), "|"), 1, 256),
    (DateText("%d.%m.%Y"), date(2025, 12, 31), date(2026, 1, 1)),
    (c.Reversed(c.Timestamp), SECOND, SECOND.replace(second=4)),
    (c.ReversedDigits(3), 9, 10),
    (c.DigestPrefixed(c.Text), "b", "c"),
    (c.DigestPrefixed(c.IPAddress), IPv4Address("0.0.0.2"), IPv4Address("0.0.0.0")),
    (c.EnumOf(Level, c.JavaLong), Level.LOW, Level.HIGH),
    (c.EnumOf(Colour, c.Delimited("|")), Colour.EMPTY, Colour.NUL),
    (c.Reversed(c.EnumOf(Level)), Level.LOW, Level.HIGH),
    (c.DigestPrefixed(c.Int32, 2, "sha1"), 1, 2),
    (c.DigestPrefixed(c.Delimited("|"), 3, hex=True), "b", "c"),
    (c.DigestPrefixed(c.Delimited("|"), 4, hex=True, separator="|"), "b", "c"),
]


@pytest.mark.parametrize(("codec", "small", "large"), UNORDERED, ids=lambda x: repr(x)[:40])
def test_codecs_that_say_so_really_lose_their_order(codec: c.Codec[Any], small: Any, large: Any) -> None:
    assert codec.order is None
    assert codec.encode_part(small) > codec.encode_part(large)


def test_no_other_codec_says_that_it_loses_its_order() -> None:
    assert {codec for codec in KEY_CODECS if codec.order is None and codec.exact == codec} == {
        codec for codec, *_ in UNORDERED
    }
    assert c.Delimited("|").raw_order == "ascending"
    assert c.Delimited(b"\x00").order == "ascending"


@pytest.mark.lengthy
@given(each_codec.flatmap(lambda codec: st.tuples(st.just(codec), values_of(codec))), st.data())
def test_decoding_accepts_nothing_that_encoding_does_not_write(
    example: tuple[c.Codec[Any], Any], data: st.DataObject
) -> None:
    codec, value = example
    for encode, decode in ((codec.encode, codec.decode), (codec.encode_part, lambda b: codec.decode_part(b, 0)[0])):
        stored = bytearray(encode(value))
        for _ in range(data.draw(st.integers(1, 2))):
            at = data.draw(st.integers(0, len(stored)))
            edit = data.draw(st.sampled_from(["insert", "replace", "cut"]))
            byte = data.draw(st.one_of(st.sampled_from([0, 1, 0xFF]), st.integers(0, 255)))
            stored[at : at + (edit == "replace")] = bytes((byte,)) if edit != "cut" else b""
            if edit == "cut":
                del stored[at:]
        changed = bytes(stored)
        try:
            found = decode(changed)
        except DecodingError:
            continue
        written = encode(found)
        assert written == changed if decode == codec.decode else changed.startswith(written)


@pytest.mark.parametrize("codec", KEY_CODECS, ids=repr)
def test_specs_are_json_and_codecs_are_values(codec: c.Codec[Any]) -> None:
    assert json.loads(json.dumps(codec.spec)) == codec.spec
    again = pickle.loads(pickle.dumps(codec))
    assert again == codec
    assert hash(again) == hash(codec)
    assert copy.deepcopy(codec) == codec
    assert again.spec == codec.spec


def test_different_layouts_have_different_specs() -> None:
    specs = [
        json.dumps(codec.spec, sort_keys=True)
        for codec in KEY_CODECS
        if not isinstance(codec, c.EnumOf | c.PaddedBytes) and codec.exact == codec
    ]
    assert len(set(specs)) == len(specs)
    assert c.Int64.spec == {"codec": "int", "bits": 64, "signed": True}
    assert c.EnumOf(Level).spec == c.Int64.spec
    assert c.PaddedBytes(3).spec == c.Bytes(3).spec == {"codec": "bytes", "width": 3}
    assert c.Delimited("|").spec == {"codec": "delimited", "delimiter": "7c"}


@pytest.mark.parametrize(
    ("codec", "prefix", "part", "raw"),
    [
        (c.Text, "a\0", b"a\x00\xff", b"a\x00"),
        (c.Text, "", b"", b""),
        (c.Bytes, b"\x00", b"\x00\xff", b"\x00"),
        (c.Text(3), "é", b"\xc3\xa9", b"\xc3\xa9"),
        (c.Text(3), "abcd", None, None),
        (c.Bytes(2), b"\xff\xff", b"\xff\xff", b"\xff\xff"),
        (c.Bytes(2), b"\xff\xff\xff", None, None),
        (c.Bytes(3), b"\x00", b"\x00", b"\x00"),
        (c.Bytes(2), b"a\x00", b"a\x00", b"a\x00"),
        (c.PaddedBytes(2), b"\xff\xff\xff", None, None),
        (c.Delimited("::"), "a", b"a", b"a"),
        (c.Delimited("::"), "a::b", None, None),
    ],
)
def test_bytes_of_a_prefix(codec: c.Codec[Any], prefix: Any, part: bytes | None, raw: bytes | None) -> None:
    assert codec.encode_prefix(prefix) == part
    assert codec.raw_prefix(prefix) == raw


@pytest.mark.parametrize(
    ("codec", "prefix"),
    [
        (c.Text(3), "a\0"),
        (c.PaddedBytes(3), b"\x00"),
        (c.Delimited("::"), "a:"),
        (c.JavaUTF, "a"),
        (c.Int64, 1),
        (c.DigestPrefixed(c.Text), "a"),
    ],
)
def test_prefixes_that_bytes_cannot_tell_apart_are_refused(codec: c.Codec[Any], prefix: Any) -> None:
    with pytest.raises(QueryError):
        codec.encode_prefix(prefix)


def test_a_delimiter_in_half_a_prefix_matters_only_where_a_delimiter_follows() -> None:
    assert c.Delimited("::").raw_prefix("a:") == b"a:"


@pytest.mark.parametrize(
    ("codec", "value", "floor"),
    [
        (c.Int8, 200, 127),
        (c.Int8, -129, None),
        (c.Int8, 5, 5),
        (c.UInt32, -1, None),
        (c.UInt32, 2**40, 2**32 - 1),
        (c.Datetime("s"), SECOND.replace(microsecond=999_999), SECOND),
        (
            c.Datetime("ms"),
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        ),
        (c.Timestamp, SECOND.replace(microsecond=1), SECOND.replace(microsecond=1)),
        (c.ReverseStamp, SECOND.replace(microsecond=1_999), SECOND.replace(microsecond=1_000)),
        (c.ReverseStamp, datetime(1969, 12, 31, tzinfo=UTC), None),
        (c.ReverseStampInt, -1, None),
        (c.ReverseStampInt, 2**63, 2**63 - 1),
        (c.DecimalText(2), 100, 99),
        (c.ReverseDecimalText(2), 100, 99),
        (c.ReverseDecimalText(2), -1, None),
        (c.Separated(c.DecimalText(2), "|"), 100, 99),
        (c.Separated(c.ReverseStamp("s"), "|"), SECOND.replace(microsecond=1), SECOND),
        (c.HexText(2), -1, None),
        (DatetimeText("%Y%m%d"), SECOND, SECOND.replace(hour=0, minute=0, second=0)),
        (DatetimeText("%Y-%m-%d %H:%M:%S.%3f"), SECOND.replace(microsecond=1_999), SECOND.replace(microsecond=1_000)),
        (DatetimeText("%Y%m%d %H", round=True), SECOND, SECOND.replace(minute=0, second=0)),
        (c.HexText(2), 256, 255),
        (c.Duration, timedelta.max, timedelta(microseconds=2**63 - 1)),
        (c.Duration, timedelta.min, None),
        (c.Text, "any", "any"),
        (c.Bytes(2), b"a\x00", b"a\x00"),
        (c.Bytes(2), b"a\x00\x00", b"a\x00"),
        (c.Bytes(2), b"\xff\xff\xff", b"\xff\xff"),
        (c.Bytes(2), b"a", b"\x60\xff"),
        (c.Bytes(2), b"\x00\x00\x01", b"\x00\x00"),
        (c.Bytes(2), b"\x00", None),
        (c.Bytes(2), b"", None),
    ],
)
def test_floor_is_the_nearest_storable_value_from_below(codec: c.Codec[Any], value: Any, floor: Any) -> None:
    assert codec.floor(value) == floor
    if floor is not None:
        assert codec.decode(codec.encode(floor)) == floor


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(["us", "ms", "s"]))
def test_floors_of_times_are_not_later(value: datetime, unit: Any) -> None:
    floor = c.Datetime(unit).floor(value)
    assert (
        timedelta(0) <= value - floor < {"us": timedelta(0, 0, 1), "ms": timedelta(0, 0, 1000), "s": timedelta(1)}[unit]
    )
    assert c.Datetime(unit).decode(c.Datetime(unit).encode(floor)) == floor


@pytest.mark.parametrize("codec", [c.Json(list[int]), c.MsgPack(list[int])])
def test_column_codecs_have_no_part_form(codec: c.Codec[Any]) -> None:
    assert not codec.key
    with pytest.raises(DeclarationError, match="This codec cannot be part of a key: use a scalar codec"):
        codec.encode_part([1])
    with pytest.raises(DeclarationError):
        codec.decode_part(b"[1]", 0)


def test_the_prefix_of_values_that_are_never_empty_is_that_of_their_codec() -> None:
    assert c.NonEmpty(c.Text).raw_prefix("ab") == c.Text.raw_prefix("ab") == b"ab"
    assert c.NonEmpty(c.Bytes).raw_prefix(b"a") == b"a"
