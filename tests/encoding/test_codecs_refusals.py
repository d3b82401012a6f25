"""Values that cannot be stored exactly are refused, bytes that were never written are not read, and no error shows a
value.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, localcontext
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Interface, IPv6Address
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel.encoding.codecs as c
from hbmodel.codecs import java
from hbmodel.errors import DeclarationError, DecodingError, EncodingError
from tests.support.strategies import KEY_CODECS, Colour, Level

AWARE = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)


class Number:
    """Something that is an integer without being an int, as NumPy's scalars are."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


class NotATime(datetime):
    """What pandas calls NaT: an instance of datetime whose parts are NaN."""

    year = property(lambda self: float("nan"))  # type: ignore[assignment]


class Nanoseconds(datetime):
    """A time that is finer than a datetime, as pandas has it."""

    nanosecond = 1


class FinerDuration(timedelta):
    """A duration that is finer than a timedelta, as pandas has it."""

    nanoseconds = 1


class Answerless(tzinfo):
    """A time zone that does not know its offset, which makes a datetime naive."""

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        return None


class Shape(enum.Enum):
    ROUND = "red"


REFUSED: list[tuple[c.Codec[Any], Any]] = [
    *[(codec, True) for codec in KEY_CODECS if codec.python_type is int],
    *[(codec, 1.0) for codec in KEY_CODECS if codec.python_type is int],
    (c.Int64, "1"),
    (c.Int8, 128),
    (c.Int8, -129),
    (c.Int64, 2**63),
    (c.Int64, -(2**63) - 1),
    (c.UInt32, -1),
    (c.UInt32, 2**32),
    (c.UInt64, 2**64),
    (c.UInt64, 10**40),
    (c.JavaInt, 2**31),
    (c.JavaLong, -(2**63) - 1),
    (c.ReverseStampInt, -1),
    (c.ReverseStampInt, 2**63),
    (c.DecimalText(3), 1000),
    (c.DecimalText(3), -1),
    (c.ReverseDecimalText(3), 1000),
    (c.ReverseDecimalText(3), -1),
    (c.Separated(c.DecimalText(3), "|"), 1000),
    (c.HexText(2), 256),
    (c.HexText(2), -1),
    (c.ReversedDigits(3), 1000),
    (c.Float32, float("nan")),
    (c.Float32, 0.1),
    (c.Float32, 1e39),
    (c.Float32, 16777217),
    (c.Float32, "1"),
    (c.Float64, float("nan")),
    (c.Float64, True),
    (c.Float64, "1"),
    (c.Float64, 2**53 + 1),
    (c.Float64, 10**400),
    (c.Float64, Fraction(1, 3)),
    (c.Float64, Decimal(1)),
    (c.DecimalNumber, Decimal("NaN")),
    (c.DecimalNumber, Decimal("sNaN")),
    (c.DecimalNumber, Decimal("Infinity")),
    (c.DecimalNumber, Decimal("-Infinity")),
    (c.DecimalNumber, Decimal("1E+2147483647")),
    (c.DecimalNumber, Decimal("1E-2147483650")),
    (c.DecimalNumber, 1),
    (c.DecimalNumber, 1.5),
    (c.Bool, 1),
    (c.Bool, "yes"),
    (c.UUID128, "00000000-0000-0000-0000-000000000001"),
    (c.Date, AWARE),
    (c.Date, "2024-02-29"),
    (c.Timestamp, AWARE.replace(tzinfo=None)),
    (c.Timestamp, AWARE.replace(tzinfo=Answerless())),
    (c.Timestamp, date(2024, 2, 29)),
    (c.Timestamp, NotATime(2024, 2, 29, tzinfo=UTC)),
    (c.Timestamp, Nanoseconds(2024, 2, 29, tzinfo=UTC)),
    (c.Timestamp, 1_709_209_800),
    (c.Timestamp, datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))),
    (c.Timestamp, datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))),
    (c.Datetime("ms"), AWARE.replace(microsecond=1)),
    (c.Datetime("s"), AWARE.replace(microsecond=1_000)),
    (c.ReverseStamp, AWARE.replace(microsecond=1)),
    (c.ReverseStamp, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    (c.ReverseStamp, AWARE.replace(tzinfo=None)),
    (c.Duration, timedelta.max),
    (c.Duration, timedelta.min),
    (c.Duration, FinerDuration(1)),
    (c.Duration, 1),
    (c.Text, "\ud800"),
    (c.Text, b"a"),
    (c.Text(4), "\udfff"),
    (c.Text(4), "abcde"),
    (c.Text(4), "ééé"),
    (c.Text(4), "a\0"),
    (c.Bytes, "a"),
    (c.Bytes, bytearray(b"a")),
    (c.Bytes(2), b"abc"),
    (c.Bytes(2), b"a"),
    (c.Bytes(2), b""),
    (c.Bytes(2), "ab"),
    (c.PaddedBytes(2), b"abc"),
    (c.PaddedBytes(2), b"a\x00"),
    (c.JavaUTF, "\ud800"),
    (c.JavaUTF, "a" * 65_536),
    (c.JavaUTF, "\0" * 32_768),
    (c.JavaUTF, b"a"),
    (c.Delimited("|"), "a|b"),
    (c.Delimited("::"), "a:"),
    (c.Delimited("|"), "\udc00"),
    (c.DelimitedInt("_"), "1"),
    (c.DelimitedInt("_"), 1.5),
    (c.DelimitedInt("-"), -1),
    (c.DelimitedInt("_-"), -1),
    (c.IPAddress, "1.2.3.4"),
    (c.IPAddress, IPv4Interface("1.2.3.4/24")),
    (c.IPAddress, IPv6Address("fe80::1%eth0")),
    (c.IPv4, IPv6Address("::1")),
    (c.IPv6, IPv4Address("1.2.3.4")),
    (c.EnumOf(Colour), "red"),
    (c.EnumOf(Colour), Shape.ROUND),
    (c.EnumOf(Level), 7),
    (c.Reversed(c.UInt32), -1),
    (c.DigestPrefixed(c.Text), "\ud800"),
]


@pytest.mark.parametrize(("codec", "value"), REFUSED, ids=lambda x: repr(x)[:50])
def test_encoding_refuses(codec: c.Codec[Any], value: Any) -> None:
    with pytest.raises(EncodingError):
        codec.encode(value)
    with pytest.raises(EncodingError):
        codec.encode_part(value)


@pytest.mark.parametrize("codec", [*KEY_CODECS, c.Json(int), c.MsgPack(int)], ids=repr)
@pytest.mark.parametrize(
    "value", [None, object(), [], float("nan"), NotATime(2024, 1, 1)], ids=lambda x: type(x).__name__
)
def test_no_codec_takes_what_is_no_value_at_all(codec: c.Codec[Any], value: Any) -> None:
    with pytest.raises(EncodingError):
        codec.encode(value)


def test_an_error_shows_types_and_bounds_and_never_the_value() -> None:
    with pytest.raises(EncodingError, match=r"out of the range .*\[low=-128, high=127\]"):
        c.Int8.encode(4711)
    with pytest.raises(EncodingError, match=r"\[expected='int', found='str'\]") as caught:
        c.Int8.encode("secret")  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)
    with pytest.raises(EncodingError, match="expected='IPv4Address or IPv6Address'"):
        c.IPAddress.encode("1.2.3.4")  # type: ignore[arg-type]


BROKEN: list[tuple[c.Codec[Any], bytes]] = [
    *[(codec, b"") for codec in KEY_CODECS if not codec.may_be_empty],
    *[(codec, b"\x00" * (codec.width + 1)) for codec in KEY_CODECS if codec.width],
    *[(codec, b"\x00" * (codec.width - 1)) for codec in KEY_CODECS if codec.width],
    (c.Float32, bytes.fromhex("ffc00000")),
    (c.Float32, bytes.fromhex("7fffffff")),
    (c.Float32, b"\x00" * 4),
    (c.Float32, bytes(8)),
    (c.Float64, b"\xff\xf8\x00\x00\x00\x00\x00\x00"),
    (c.Float64, b"\x00" * 8),
    (c.Float64, b"\x7f" + b"\xff" * 7),
    (c.Bool, b"\x02"),
    (c.Date, b"\x00" * 4),
    (c.Date, b"\xff" * 4),
    (c.Timestamp, b"\x00" * 8),
    (c.Timestamp, b"\xff" * 8),
    (c.Datetime("s"), b"\xff" * 8),
    (c.ReverseStamp, b"\x00" * 8),
    (c.ReverseStampInt, b"\x80" + b"\x00" * 7),
    (c.DecimalNumber, b"\x00"),
    (c.DecimalNumber, b"\x04\x80\x00\x00\x01\x10\x00"),
    (c.DecimalNumber, b"\x02\x00"),
    (c.DecimalNumber, b"\x03\x80\x00\x00\x01\x10"),
    (c.DecimalNumber, b"\x03\x80\x00\x00\x01\x00"),
    (c.DecimalNumber, b"\x03\x80\x00\x00\x01\x02\x00"),
    (c.DecimalNumber, b"\x03\x80\x00\x00\x01\x10\x01\x00"),
    (c.DecimalNumber, b"\x03\x80\x00\x00\x01\x65\x00"),
    (c.DecimalNumber, b"\x03\x80\x00\x00\x01\x10\x00\x00"),
    (c.DecimalNumber, b"\x01\x80\x00\x00\x01\x10\x00"),
    (c.Text, b"\xff"),
    (c.Text, b"\xed\xa0\x80"),
    (c.Text(2), b"\xc3\x00"),
    (c.IPAddress, b"\x05\x01\x02\x03\x04"),
    (c.IPAddress, b"\x04\x01\x02\x03"),
    (c.IPAddress, b"\x04\x01\x02\x03\x04\x05"),
    (c.IPv4, b"\x06\x01\x02\x03\x04"),
    (c.EnumOf(Colour), b"blue"),
    (c.EnumOf(Level), b"\x80" + b"\x00" * 6 + b"\x05"),
    (c.JavaUTF, b"\x00\x02a"),
    (c.JavaUTF, b"\x00\x01ab"),
    (c.JavaUTF, b"\x00"),
    (c.JavaUTF, b"\x00\x01\x00"),
    (c.JavaUTF, b"\x00\x04\xf0\x9f\x98\x80"),
    (c.JavaUTF, b"\x00\x03\xed\xa0\xbd"),
    (c.JavaUTF, b"\x00\x01\xff"),
    (c.DecimalText(3), b"1.5"),
    (c.DecimalText(3), b" 12"),
    (c.ReverseDecimalText(3), b"-12"),
    (c.Separated(c.DecimalText(3), "|"), b"123|"),
    (c.DecimalText(3), b"+12"),
    (c.DecimalText(3), "١٢"[:1].encode() + b"1"),
    (c.HexText(3), b"0AF"),
    (c.HexText(3), b"0x1"),
    (c.HexText(3), b"1_0"),
    (c.ReversedDigits(3), b"1 2"),
    (c.Delimited("|"), b"a|b"),
    (c.DelimitedInt("_"), b""),
    (c.DelimitedInt("_"), b"01"),
    (c.DelimitedInt("_"), b"-0"),
    (c.DelimitedInt("_"), b"1_"),
    (c.DelimitedInt("-"), b"-1"),
    (c.DelimitedInt("-"), b"1-"),
    (c.Delimited("|"), b"\xff"),
    (c.DigestPrefixed(c.Text, 2), b"\x0c"),
    (c.DigestPrefixed(c.Text, 2), b"\x0c\xc2a"),
    (c.Json(list[int]), b""),
    (c.Json(list[int]), b"[1"),
    (c.Json(list[int]), b'["a"]'),
    (c.Json(list[int]), b"[" * 100_000),
    (c.MsgPack(list[int]), b"\xc1"),
    (c.MsgPack(list[int]), b"\x91\xa1a"),
]


@pytest.mark.parametrize(("codec", "stored"), BROKEN, ids=lambda x: repr(x)[:50])
def test_decoding_refuses(codec: c.Codec[Any], stored: bytes) -> None:
    with pytest.raises(DecodingError):
        codec.decode(stored)


BROKEN_PARTS: list[tuple[c.Codec[Any], bytes]] = [
    *[(codec, b"\x00" * (codec.width - 1)) for codec in KEY_CODECS if codec.width],
    *[(codec, b"") for codec in KEY_CODECS],
    (c.Text, b"abc"),
    (c.Text, b"abc\x00"),
    (c.Text, b"a\x00\x02\x00\x01"),
    (c.Text, b"a\x00\x00\x01"),
    (c.Text, b"a\x00\xff\x00"),
    (c.Bytes, b"a\x00\xfe\x00\x01"),
    (c.Delimited("|"), b"abc"),
    (c.JavaUTF, b"\x00\x05abcd"),
    (c.DecimalNumber, b"\x03\x80\x00\x00\x01\x10"),
    (c.DigestPrefixed(c.Text, 2), b"\x0c\xc2a\x00\x01"),
    (c.Separated(c.DecimalText(3), "|"), b"123"),
    (c.Separated(c.DecimalText(3), "|"), b"123/"),
    (c.Separated(c.DecimalText(3), "||"), b"123|"),
]


@pytest.mark.parametrize(("codec", "stored"), BROKEN_PARTS, ids=lambda x: repr(x)[:50])
def test_decoding_a_part_refuses(codec: c.Codec[Any], stored: bytes) -> None:
    with pytest.raises(DecodingError):
        codec.decode_part(stored, 0)


@given(st.sampled_from(KEY_CODECS), st.binary(max_size=24))
def test_any_bytes_are_decoded_exactly_or_refused(codec: c.Codec[Any], stored: bytes) -> None:
    try:
        value = codec.decode(stored)
    except DecodingError:
        pass
    else:
        assert codec.encode(value) == stored
    try:
        value, end = codec.decode_part(stored, 0)
    except DecodingError:
        pass
    else:
        assert codec.encode_part(value) == stored[:end]


def test_integers_of_other_kinds() -> None:
    assert c.Int64.encode(Number(5)) == c.Int64.encode(5)  # type: ignore[arg-type]
    assert c.JavaInt.encode(Number(5)) == b"\x00\x00\x00\x05"  # type: ignore[arg-type]
    assert c.Int64.encode(Level.HIGH) == c.Int64.encode(7)
    with pytest.raises(EncodingError):
        c.UInt8.encode(Number(256))  # type: ignore[arg-type]


def test_numpy_scalars() -> None:
    numpy = pytest.importorskip("numpy")
    assert c.Int64.encode(numpy.int32(-5)) == c.Int64.encode(-5)
    assert c.UInt8.encode(numpy.uint64(255)) == b"\xff"
    assert c.Float64.encode(numpy.float64(1.5)) == c.Float64.encode(1.5)
    assert c.Float64.encode(numpy.float32(1.5)) == c.Float64.encode(1.5)
    assert c.Text.encode(numpy.str_("a")) == b"a"
    assert type(c.Bytes.encode(numpy.bytes_(b"a"))) is bytes
    for codec, value in [
        (c.Int64, numpy.bool_(True)),
        (c.Int64, numpy.float64(1.0)),
        (c.Int8, numpy.int64(128)),
        (c.Float64, numpy.float32("nan")),
        (c.Timestamp, numpy.datetime64("NaT", "us")),
    ]:
        with pytest.raises(EncodingError):
            codec.encode(value)


@pytest.mark.lengthy
def test_pandas_times() -> None:
    pandas = pytest.importorskip("pandas")
    assert c.Timestamp.encode(pandas.Timestamp("2024-02-29T12:30Z")) == c.Timestamp.encode(AWARE)
    assert c.Duration.encode(pandas.Timedelta(1, "s")) == c.Duration.encode(timedelta(seconds=1))
    for codec, value in [
        (c.Timestamp, pandas.NaT),
        (c.ReverseStamp, pandas.NaT),
        (c.Date, pandas.NaT),
        (c.Duration, pandas.NaT),
        (c.Int64, pandas.NA),
        (c.Timestamp, pandas.Timestamp("2024-02-29T12:30:00.000000001Z")),
        (c.Timestamp, pandas.Timestamp("2024-02-29T12:30")),
        (c.Duration, pandas.Timedelta(1, "ns")),
    ]:
        with pytest.raises(EncodingError):
            codec.encode(value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3), st.integers(1, 4))
def test_decimals_are_exact_whatever_the_context(value: Decimal, precision: int) -> None:
    stored = c.DecimalNumber.encode(value)
    with localcontext(prec=precision):
        assert c.DecimalNumber.encode(value) == stored
        found = c.DecimalNumber.decode(stored)
    assert found == value


def test_decimal_exponents_up_to_the_last() -> None:
    for value in (Decimal("9E+2147483646"), Decimal("-9E+2147483646"), Decimal("1E-2147483649")):
        assert c.DecimalNumber.decode(c.DecimalNumber.encode(value)) == value


@pytest.mark.lengthy
@given(st.datetimes(timezones=st.timezones()))
def test_times_of_any_zone_are_the_same_instant(value: datetime) -> None:
    try:
        value.astimezone(UTC)
    except OverflowError:
        with pytest.raises(EncodingError):
            c.Timestamp.encode(value)
    else:
        assert c.Timestamp.decode(c.Timestamp.encode(value)) == value.astimezone(UTC)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: c.Text(0),
        lambda: c.Bytes(-1),
        lambda: c.PaddedBytes(0),
        lambda: c.Text("8"),  # type: ignore[arg-type]
        lambda: c.Text(True),
        lambda: c.DecimalText(0),
        lambda: c.HexText(1.5),  # type: ignore[arg-type]
        lambda: c.ReversedDigits(0),
        lambda: c.Datetime("ns"),  # type: ignore[arg-type]
        lambda: c.ReverseStamp("h"),  # type: ignore[arg-type]
        lambda: c.Delimited(""),
        lambda: c.Delimited(7),
        lambda: c.DelimitedInt(""),
        lambda: c.DelimitedInt("_1"),
        lambda: c.Separated(c.Text, "|"),
        lambda: c.Separated(c.DecimalText(3), ""),
        lambda: c.Separated(c.Float64(nan=True), "|"),
        lambda: c.ReverseDecimalText(0),
        lambda: c.Reversed(c.Text),
        lambda: c.Reversed(int),
        lambda: c.DigestPrefixed(c.Text, 17),
        lambda: c.DigestPrefixed(c.Text, 0),
        lambda: c.DigestPrefixed(c.Text, algorithm="crc7"),
        lambda: c.DigestPrefixed(c.Text, algorithm="shake_128"),
        lambda: c.DigestPrefixed(str),  # type: ignore[arg-type]
        lambda: c.EnumOf(int),  # type: ignore[type-var]
    ],
)
def test_declarations_that_cannot_work(declare: Callable[[], object]) -> None:
    with pytest.raises(DeclarationError):
        declare()


@pytest.mark.parametrize("codec", [c.DelimitedInt("_"), java.IntText], ids=repr)
@pytest.mark.parametrize("value", ["7", b"7", 7.0, True, None])
def test_a_number_as_text_names_the_type_that_it_found(codec: c.Codec[Any], value: Any) -> None:
    with pytest.raises(EncodingError, match="A value does not have the type that its codec stores") as raised:
        codec.encode(value)
    assert (raised.value.expected, raised.value.found) == ("int", type(value).__name__)


def test_a_number_as_text_that_python_does_not_write() -> None:
    with pytest.raises(EncodingError, match="An integer has too many digits to be stored as text"):
        java.IntText.encode(10**5000)


def test_a_digest_in_hex_has_twice_the_length() -> None:
    assert c.DigestPrefixed(c.Text, 32, hex=True).encode("a") == b"0cc175b9c0f1b6a831c399e269772661a"


@dataclass
class Line:
    """A structured value with fields."""

    sku: str
    count: int


STRUCTURED: list[tuple[Any, Any, dict[str, str]]] = [
    (list[Line], [{"sku": "x", "count": "secret"}], {"expected": "int", "found": "str", "path": "$[0].count"}),
    (list[Line], [{"sku": "secret"}], {"missing": "count", "path": "$[0]"}),
    (
        dict[str, dict[str, int]],
        {"secret": {"secret": 2.5}},
        {"expected": "int", "found": "float", "path": "$[...][...]"},
    ),
    (tuple[int, int], (123454321,), {"expected": "array"}),
    (int, "secret", {"expected": "int", "found": "str"}),
    (list[int], [object()], {"found": "object"}),
    (list[Colour], ["secret"], {"reason": "ValidationError", "path": "$[0]"}),
    (UUID, "secret", {"reason": "ValidationError"}),
]


@pytest.mark.parametrize("make", [c.Json, c.MsgPack])
@pytest.mark.parametrize(("declared", "value", "details"), STRUCTURED)
def test_a_structured_value_that_does_not_fit_is_refused_by_place(
    make: Any, declared: Any, value: Any, details: dict[str, str]
) -> None:
    with pytest.raises(EncodingError, match="does not fit its declared type") as caught:
        make(declared).encode(value)
    assert caught.value.details == details
    assert "secret" not in str(caught.value)
    assert "123454321" not in str(caught.value)


@pytest.mark.lengthy
@given(
    st.recursive(
        st.text(min_size=9) | st.integers(10**9, 2**63),
        lambda of: st.lists(of) | st.dictionaries(st.text(min_size=9), of),
    )
)
def test_no_refusal_of_a_structured_value_shows_a_part_of_it(value: Any) -> None:
    def parts(of: Any) -> list[str]:
        inner = [*of, *of.values()] if isinstance(of, dict) else of if isinstance(of, list) else []
        return [str(of)] * (not isinstance(of, dict | list)) + [part for each in inner for part in parts(each)]

    for declared in (int, str, Colour, UUID, Line, list[Line], dict[str, bool], dict[int, str]):
        with contextlib.suppress(EncodingError):
            c.Json(declared).encode(value)  # type: ignore[arg-type]
            continue
        with pytest.raises(EncodingError) as caught:
            c.Json(declared).encode(value)  # type: ignore[arg-type]
        assert not [part for part in parts(value) if part in str(caught.value)]


@dataclass
class Spot:
    """A structured value with a float."""

    height: float


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "inside",
    [
        lambda number: number,
        lambda number: [1.0, [number]],
        lambda number: {"a": {"b": (number,)}},
        lambda number: {number: "key"},
        Spot,
    ],
    ids=["alone", "list", "dict", "key", "dataclass"],
)
def test_numbers_that_no_structured_value_can_hold_are_named(number: str, inside: Callable[[float], Any]) -> None:
    value = inside(float(number))
    codecs: list[tuple[c.Codec[Any], str]] = [(c.Json(type(value)), "JSON has neither NaN nor infinities")]
    if number == "nan":
        codecs.append((c.MsgPack(type(value)), "A NaN inside a structured value"))
    for codec, message in codecs:
        with pytest.raises(EncodingError, match=message) as caught:
            codec.encode(value)
        assert caught.value.found == number
