"""Hypothesis strategies for codecs, key layouts and their values, and the order of these values in Python."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache, cmp_to_key
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from hbmodel.encoding import codecs
from hbmodel.encoding.codecs.booleans import BoolCodec
from hbmodel.encoding.codecs.decimals import DecimalCodec
from hbmodel.encoding.codecs.enums import EnumOf
from hbmodel.encoding.codecs.float_and_bool_text import BoolText
from hbmodel.encoding.codecs.floats import FloatCodec
from hbmodel.encoding.codecs.integers import IntCodec
from hbmodel.encoding.codecs.ip_addresses import IPAddressCodec, IPVersionCodec
from hbmodel.encoding.codecs.java import JavaIntCodec, JavaShort, JavaUTFCodec, ReverseLongCodec, ReverseStampCodec
from hbmodel.encoding.codecs.java_values import IntTime, JavaBoolean, JavaBooleanCodec, JavaTimeCodec, LongTime
from hbmodel.encoding.codecs.padded_and_delimited import DecimalText, Delimited, HexText
from hbmodel.encoding.codecs.phoenix import (
    Char,
    PhoenixDecimal,
    PhoenixDecimalCodec,
    PhoenixDouble,
    PhoenixFloat,
    PhoenixFloatCodec,
    PhoenixTimestamp,
    PhoenixTimestampCodec,
    UnsignedCodec,
    UnsignedInt,
)
from hbmodel.encoding.codecs.reversed_and_digests import DigestPrefixed, Reversed, ReversedDigits
from hbmodel.encoding.codecs.text import BytesCodec, FixedBytes, FixedText, PaddedBytes, TextCodec
from hbmodel.encoding.codecs.time_text import DateText, DatetimeText
from hbmodel.encoding.codecs.times import MICROSECONDS, DateCodec, Datetime, DurationCodec, since_epoch
from hbmodel.encoding.codecs.uuids import UUIDCodec
from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout


class Colour(enum.Enum):
    """An enumeration of texts, in which one value is a prefix of another."""

    RED = "red"
    REDDISH = "reddish"
    EMPTY = ""
    NUL = "\0"


class Level(enum.IntEnum):
    """An enumeration of numbers, one of which is negative."""

    LOW = -1
    MIDDLE = 0
    HIGH = 7


class Stage(enum.Enum):
    """An enumeration of numbers that are not negative, whose members Python cannot compare."""

    FIRST = 0
    SECOND = 1
    LAST = 2**63 - 1


KEY_CODECS: tuple[codecs.Codec[Any], ...] = (
    codecs.Int8,
    codecs.Int16,
    codecs.Int32,
    codecs.Int64,
    codecs.UInt8,
    codecs.UInt16,
    codecs.UInt24,
    codecs.UInt32,
    codecs.UInt56,
    codecs.UInt64,
    codecs.Float64,
    codecs.Float32,
    codecs.DecimalNumber,
    codecs.Bool,
    codecs.UUID128,
    codecs.Date,
    codecs.Timestamp,
    codecs.Datetime("ms"),
    codecs.Datetime("s"),
    codecs.Datetime("ms", round=True),
    codecs.Duration,
    codecs.Duration(round=True),
    codecs.Text,
    codecs.Text(4),
    codecs.Bytes,
    codecs.NonEmpty(codecs.Text),
    codecs.DelimitedInt("_"),
    codecs.DelimitedInt("-"),
    codecs.NonEmpty(codecs.Bytes),
    codecs.Bytes(3),
    codecs.PaddedBytes(3),
    codecs.IPAddress,
    codecs.IPv4,
    codecs.IPv6,
    codecs.EnumOf(Colour),
    codecs.EnumOf(Level),
    codecs.EnumOf(Level, codecs.JavaLong),
    codecs.EnumOf(Colour, codecs.Delimited("|")),
    codecs.EnumOf(Stage, codecs.ReverseStampInt),
    codecs.JavaInt,
    codecs.JavaLong,
    JavaShort,
    JavaBoolean,
    LongTime,
    LongTime("s", round=True),
    IntTime(signed=True),
    UnsignedInt,
    PhoenixDouble,
    PhoenixFloat,
    PhoenixDecimal,
    PhoenixTimestamp,
    Char(3),
    codecs.JavaUTF,
    codecs.ReverseStamp,
    codecs.ReverseStamp("s"),
    codecs.ReverseStamp("s", round=True),
    codecs.ReverseStampInt,
    codecs.DecimalText(3),
    codecs.ReverseDecimalText(3),
    codecs.HexText(3),
    codecs.Separated(codecs.DecimalText(3), "|"),
    codecs.Separated(codecs.HexText(3), b"1"),
    codecs.Separated(codecs.ReverseDecimalText(3), "::"),
    codecs.Separated(codecs.Bytes(3), b"\x00"),
    codecs.Separated(codecs.ReverseStamp("s", round=True), "-"),
    codecs.Separated(codecs.Reversed(codecs.UInt32), "|"),
    BoolText("1", "0"),
    BoolText("no", "on"),
    DateText(),
    DateText("%d.%m.%Y"),
    DatetimeText(),
    DatetimeText("%Y%m%d%H", round=True),
    DatetimeText("%Y-%m-%d %H:%M:%S.%3f"),
    codecs.Delimited("|"),
    codecs.Delimited("::"),
    codecs.Delimited(b"\x00"),
    codecs.Reversed(codecs.UInt32),
    codecs.Reversed(codecs.Timestamp),
    codecs.Reversed(codecs.Datetime("s", round=True)),
    codecs.ReversedDigits(3),
    codecs.DigestPrefixed(codecs.Text),
    codecs.DigestPrefixed(codecs.Int32, 2, "sha1"),
    codecs.DigestPrefixed(codecs.IPAddress),
    codecs.Reversed(codecs.EnumOf(Level)),
    codecs.DigestPrefixed(codecs.Delimited("|"), 3, hex=True),
    codecs.DigestPrefixed(codecs.Delimited("|"), 4, hex=True, separator="|"),
)
"""One instance of every codec that can be used in keys."""

# All characters, and in addition those at the edges of escaping, padding, delimiters and the ranges of UTF-8.
CHARACTERS = st.one_of(
    st.sampled_from("\0\x01ab|:!\x7f\x80\xff\ud7ff\ue000\uffff\U00010000\U0010ffff"),
    st.characters(exclude_categories=["Cs"]),
)
TEXTS = st.text(CHARACTERS, max_size=6)
EDGE_BYTES = st.one_of(st.sampled_from([0, 1, 0x7F, 0xFE, 0xFF]), st.integers(0, 255))
BYTES = st.lists(EDGE_BYTES, max_size=6).map(bytes)


def numbers(low: int, high: int) -> st.SearchStrategy[int]:
    """Returns a strategy for the integers of a range, which draws its ends and its middle more often."""
    near = {n for edge in (low, 0, high) for n in range(edge - 2, edge + 3) if low <= n <= high}
    return st.one_of(st.sampled_from(sorted(near)), st.integers(low, high))


CHANGES: tuple[tuple[str, datetime], ...] = (
    ("Europe/Paris", datetime(2026, 3, 29, 2)),
    ("Europe/Paris", datetime(2026, 10, 25, 2)),
    ("Europe/Dublin", datetime(2026, 3, 29, 1)),
    ("Europe/Dublin", datetime(2026, 10, 25, 1)),
    ("America/New_York", datetime(2026, 3, 8, 2)),
    ("America/New_York", datetime(2026, 11, 1, 1)),
    ("Australia/Lord_Howe", datetime(2026, 10, 4, 2)),
    ("Australia/Lord_Howe", datetime(2026, 4, 5, 1, 30)),
)
"""Times at which the clocks of some zones skip or repeat an hour or half an hour."""


@cache
def changes() -> st.SearchStrategy[datetime]:
    """Returns a strategy for aware datetimes within and around the gaps and folds of clock changes."""
    steps = st.sampled_from([-60, -30, -1, 0, 1, 15, 29, 30, 31, 59, 60, 90])
    micros = st.sampled_from([0, 0, 0, 1, 999_000, 999_999])

    def shown(change: tuple[str, datetime], minutes: int, micro: int, fold: int) -> datetime:
        return (change[1] + timedelta(0, 0, micro, 0, minutes)).replace(tzinfo=ZoneInfo(change[0]), fold=fold)

    return st.builds(shown, st.sampled_from(CHANGES), steps, micros, st.integers(0, 1))


@cache
def instants(first: datetime = datetime.min) -> st.SearchStrategy[datetime]:
    """Returns a strategy for aware datetimes, in UTC and in zones."""
    zones = st.sampled_from(sorted({ZoneInfo(name) for name, _ in CHANGES}, key=str))
    zoned = st.datetimes(max(first, datetime(1900, 1, 1)) + timedelta(2), datetime(2100, 1, 1), timezones=zones)
    return st.one_of(st.datetimes(first, timezones=st.just(UTC)), zoned, changes())


def in_units(unit: str, first: datetime = datetime.min) -> st.SearchStrategy[datetime]:
    """Returns a strategy for aware datetimes that are whole units."""
    scale = MICROSECONDS[unit]
    return instants(first).map(lambda value: value.replace(microsecond=value.microsecond - value.microsecond % scale))


UNITS_OF_TEXT = {"%Y-%m-%dT%H:%M:%SZ": 10**6, "%Y%m%d%H": 3600 * 10**6, "%Y-%m-%d %H:%M:%S.%3f": 1000}
"""The number of microseconds in the smallest unit of each format."""


def unit_of(codec: codecs.Codec[Any]) -> int:
    """Returns the unit in microseconds to which a codec rounds times down, or 1 for a codec that does not round."""
    match codec:
        case DatetimeText():
            return UNITS_OF_TEXT[codec.format] if codec.round else 1
        case Reversed() | DigestPrefixed():
            return unit_of(codec.codec)
        case Datetime() | ReverseStampCodec() | JavaTimeCodec():
            return MICROSECONDS[codec.unit] if codec.round else 1
    return 1


def given_as(draw: st.DrawFn, codec: codecs.Codec[Any], value: Any) -> Any:
    """Returns a value that is stored like the given one: the value itself, or a finer time if the codec rounds."""
    unit = unit_of(codec)
    if value is None or unit == 1:
        return value
    finer = draw(st.sampled_from([0, 1, unit // 2, unit - 1]))
    if unit > MICROSECONDS["s"]:
        return value + timedelta(0, 0, finer)
    return value.replace(microsecond=value.microsecond + finer)


def _delimited(codec: Delimited) -> st.SearchStrategy[str]:
    delimiter = codec.delimiter
    return TEXTS.filter(lambda text: (text.encode() + delimiter).find(delimiter) == len(text.encode()))


def _decimals() -> st.SearchStrategy[Decimal]:
    exact = st.builds(
        lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
        st.integers(0, 1),
        st.lists(st.integers(0, 9), min_size=1, max_size=6).map(tuple),
        st.one_of(st.integers(-4, 4), st.sampled_from([-(2**31) - 5, 2**31 - 7])),
    )
    return st.one_of(exact, st.decimals(allow_nan=False, allow_infinity=False)).filter(
        lambda value: not value or -(2**31) <= value.adjusted() + 1 < 2**31
    )


@cache
def phoenix_decimals() -> st.SearchStrategy[Decimal]:
    """Returns a strategy for the decimal numbers that Phoenix keeps in order."""
    return st.builds(
        lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
        st.integers(0, 1),
        st.lists(st.integers(0, 9), min_size=1, max_size=38).map(tuple),
        st.one_of(st.integers(-4, 4), st.integers(-126, 86)),
    ).filter(lambda value: not value or -126 <= value.adjusted() < 124)


def chars(width: int) -> st.SearchStrategy[str]:
    """Returns a strategy for texts that Phoenix's `CHAR` of a width stores."""
    characters = st.one_of(st.sampled_from(" !ab\x7f"), st.characters(min_codepoint=0x20, max_codepoint=0x7F))
    return st.text(characters, max_size=width).filter(lambda text: not text.endswith(" "))


@cache
def values_of(codec: codecs.Codec[Any]) -> st.SearchStrategy[Any]:
    """Returns a strategy for the values that a codec stores exactly."""
    match codec:
        case IntCodec() | UnsignedCodec():
            return numbers(codec.low, codec.high)
        case JavaIntCodec():
            return numbers(-(1 << codec.bits - 1), (1 << codec.bits - 1) - 1)
        case ReverseLongCodec():
            return numbers(0, 2**63 - 1)
        case DecimalText() | codecs.ReverseDecimalText() | ReversedDigits():
            return numbers(0, 10**codec.width - 1)
        case HexText():
            return numbers(0, 16**codec.width - 1)
        case FloatCodec():
            return st.floats(allow_nan=False, width=codec.bits)
        case PhoenixFloatCodec():
            return st.floats(allow_nan=False, width=codec.bits)
        case PhoenixDecimalCodec():
            return phoenix_decimals()
        case Char():
            return chars(codec.width)
        case PhoenixTimestampCodec():
            return in_units("us", datetime.min if codec.signed else datetime(1970, 1, 1))
        case DecimalCodec():
            return _decimals()
        case BoolCodec() | JavaBooleanCodec():
            return st.booleans()
        case UUIDCodec():
            return numbers(0, 2**128 - 1).map(lambda number: UUID(int=number))
        case DateCodec() | DateText():
            return st.dates()
        case DatetimeText():
            return instants().map(
                lambda at: at.astimezone(UTC) - timedelta(0, 0, since_epoch(at) % UNITS_OF_TEXT[codec.format])
            )
        case BoolText():
            return st.booleans()
        case Datetime():
            return in_units(codec.unit)
        case ReverseStampCodec():
            return in_units(codec.unit, datetime(1970, 1, 1))
        case JavaTimeCodec():
            if codec.bits == 32:
                low = -(2**31) if codec.signed else 0
                return numbers(low, 2**31 - 1).map(lambda n: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=n))
            return in_units(codec.unit, datetime.min if codec.signed else datetime(1970, 1, 1))
        case DurationCodec():
            return numbers(-(2**63), 2**63 - 1).map(lambda number: timedelta(0, 0, number))
        case codecs.DelimitedInt():
            return numbers(0 if b"-" in codec.delimiter else -(10**20), 10**20)
        case codecs.Separated():
            return values_of(codec.codec)
        case codecs.NonEmpty():
            return values_of(codec.codec).filter(lambda value: len(value) > 0)
        case FixedText():
            return TEXTS.filter(lambda text: len(text.encode()) <= codec.width and not text.endswith("\0"))
        case FixedBytes():
            return st.lists(EDGE_BYTES, min_size=codec.width, max_size=codec.width).map(bytes)
        case PaddedBytes():
            return BYTES.filter(lambda data: len(data) <= codec.width and not data.endswith(b"\0"))
        case TextCodec() | JavaUTFCodec():
            return TEXTS
        case BytesCodec():
            return BYTES
        case Delimited():
            return _delimited(codec)
        case IPAddressCodec():
            return st.one_of(values_of(codecs.IPv4), values_of(codecs.IPv6))
        case IPVersionCodec():
            of, bits = (IPv4Address, 32) if codec.tag == b"\x04" else (IPv6Address, 128)
            return numbers(0, 2**bits - 1).map(of)
        case EnumOf():
            return st.sampled_from(list(codec.python_type))
        case Reversed() | DigestPrefixed():
            return values_of(codec.codec)
    raise AssertionError(f"no values are known for {codec}")


def as_read(value: Any) -> Any:
    """Returns a value in the form in which it is read: times in UTC."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def plain(value: Any) -> Any:
    """Returns a value in a form that Python compares in the codec's order: times in UTC, so that equal times of
    different zones are equal.
    """
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, IPv4Address | IPv6Address):
        return (value.version, int(value))
    return as_read(value)


@st.composite
def key_fields(draw: st.DrawFn, name: str, ordered: bool = False) -> KeyField:
    """Returns a key field of any codec and direction; with `ordered`, it has a codec whose bytes keep the order at any
    place.
    """
    codec = draw(st.sampled_from([c for c in KEY_CODECS if not ordered or (c.order and c.raw_order)]))
    return KeyField(name, codec, desc=draw(st.booleans()), nullable=draw(st.booleans()))


@st.composite
def layouts(draw: st.DrawFn, ordered: bool = False) -> KeyLayout:
    """Returns a layout of one to four fields, with or without a tail."""
    count = draw(st.integers(1, 4))
    return KeyLayout(
        tuple(draw(key_fields(f"f{i}", ordered)) for i in range(count)), tail=draw(st.sampled_from([0, 0, 1]))
    )


SPLITS = (
    (
        codecs.Datetime("s"),
        [timedelta(seconds=2), timedelta(seconds=256), timedelta(seconds=257), timedelta(hours=1), timedelta(days=7)],
    ),
    (codecs.Datetime("s", round=True), [timedelta(seconds=2), timedelta(hours=1)]),
    (codecs.Datetime("ms"), [timedelta(milliseconds=2), timedelta(hours=1), timedelta(days=365)]),
    (codecs.Timestamp, [timedelta(microseconds=3), timedelta(seconds=1), timedelta(days=1)]),
)
"""Codecs of split fields, each with buckets whose offsets have several widths."""


@st.composite
def place_layouts(draw: st.DrawFn, ordered: bool = False) -> ObjectKeyLayout:
    """Returns a layout of the object keys of a wide row, with fields in the row, in the qualifier, or in both."""
    fields = [draw(key_fields(f"f{i}", ordered)) for i in range(draw(st.integers(1, 4)))]
    rows = draw(st.integers(0, len(fields)))
    split = None
    if rows and draw(st.booleans()):
        codec, buckets = draw(st.sampled_from(SPLITS))
        fields[rows - 1] = KeyField(fields[rows - 1].name, codec, draw(st.booleans()))
        split = draw(st.sampled_from(buckets))
    raw = (rows < len(fields) or split is not None) and draw(st.booleans())
    return ObjectKeyLayout(tuple(fields), rows=rows, split=split, raw=raw)


def field_values(of: KeyField) -> st.SearchStrategy[Any]:
    """Returns a strategy for the values of a key field, including None if it is allowed."""
    values = values_of(of.codec)
    return st.one_of(st.none(), values) if of.nullable else values


def key_values(layout: KeyLayout) -> st.SearchStrategy[tuple[Any, ...]]:
    """Returns a strategy for the values of one key."""
    return st.tuples(*[field_values(of) for of in layout.fields])


@st.composite
def key_tuples(draw: st.DrawFn, layout: KeyLayout, max_size: int = 12) -> list[tuple[Any, ...]]:
    """Returns the values of several keys, many of which share fields."""
    pools = [draw(st.lists(field_values(of), min_size=1, max_size=4)) for of in layout.fields]
    return draw(st.lists(st.tuples(*[st.sampled_from(pool) for pool in pools]), min_size=1, max_size=max_size))


def declared_order(layout: KeyLayout) -> Any:
    """Returns a sort key function for tuples of values. It has the order that the layout declares, and is computed
    without bytes.
    """

    def compare(left: Sequence[Any], right: Sequence[Any]) -> int:
        for position, of in enumerate(layout.fields):
            a, b = plain(left[position]), plain(right[position])
            if a is None or b is None:
                sign = (a is not None) - (b is not None)
                sign = -sign if of.desc else sign
            else:
                sign = (a > b) - (a < b)
                if (of.codec.order == "descending") != of.desc:
                    sign = -sign
            if sign:
                return sign
        return 0

    return cmp_to_key(compare)
