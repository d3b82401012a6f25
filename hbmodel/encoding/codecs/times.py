"""Dates, instants and durations as order-preserving integers."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from struct import Struct
from struct import error as StructError
from typing import Any, Literal

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, DefaultCodecs, FixedWidth, Source, SpecReaders, wrong_type, wrong_width
from hbmodel.encoding.codecs.integers import Int32, Int64
from hbmodel.errors import DeclarationError, DecodingError, EncodingError

Unit = Literal["us", "ms", "s"]

MICROSECONDS: dict[str, int] = {"us": 1, "ms": 1_000, "s": 1_000_000}
WORD = Struct(">Q")
OFFSET = 1 << 63
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY = date(1970, 1, 1).toordinal()


def microseconds(duration: timedelta) -> int:
    """Converts a duration to microseconds, exactly."""
    return (duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds


LOWEST = microseconds(datetime.min.replace(tzinfo=UTC) - EPOCH)
HIGHEST = microseconds(datetime.max.replace(tzinfo=UTC) - EPOCH)
# If the seconds are below this value, the error of a double is less than half a microsecond. So the faster constructor,
# which takes a double and rounds, is exact.
EXACT = (1 << 32) * 1_000_000


def _plain(value: Any, round: bool) -> datetime:
    # Objects of subclasses may contain what a datetime cannot (in pandas: nanoseconds, or no time at all), or calculate
    # differently.
    if not isinstance(value, datetime) or not isinstance(value.year, int):
        raise wrong_type(datetime, value)
    if getattr(value, "nanosecond", 0) and not round:
        raise EncodingError(
            "A time is more precise than a microsecond: truncate it (in pandas: .floor('us')), or declare the codec "
            'with round=True, as in hb.Datetime("us", round=True), so that it rounds down to its unit.'
        )
    try:
        return datetime(
            value.year,
            value.month,
            value.day,
            value.hour,
            value.minute,
            value.second,
            value.microsecond,
            value.tzinfo,
            fold=value.fold,
        )
    except ValueError:
        raise EncodingError("A time lies outside the years 1 to 9999: store it as a number instead.") from None


def since_epoch(value: datetime, round: bool = False) -> int:
    """Returns the number of microseconds from 1970 to an aware datetime.

    Args:
        round: whether nanoseconds are cut off.

    Raises:
        EncodingError: the datetime is naive, not a time (NaT), finer than a microsecond, or outside the years 1 to 9999
            in UTC.
    """
    if type(value) is not datetime:
        value = _plain(value, round)
    try:
        duration = value - EPOCH
    except TypeError:
        raise EncodingError("A datetime without a time zone is not an instant: give it one, e.g. tzinfo=UTC.") from None
    instant = (duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds
    if not LOWEST <= instant <= HIGHEST:
        raise EncodingError("A time lies outside the years 1 to 9999 in UTC: store it as a number instead.")
    return instant


def from_epoch(instant: int) -> datetime:
    """Returns the datetime, in UTC, that is this many microseconds after 1970."""
    if 0 <= instant < EXACT:
        return datetime.fromtimestamp(instant / 1_000_000, UTC)
    try:
        return EPOCH + timedelta(0, 0, instant)
    except OverflowError:
        raise DecodingError("A stored time lies outside the years 1 to 9999.") from None


def declared_unit(unit: Unit) -> Unit:
    """Validates a unit of time given in a declaration."""
    if unit not in MICROSECONDS:
        raise DeclarationError("A unit of time must be us, ms or s.", found=unit)
    return unit


def whole_units(instant: int, scale: int, codec: str = "Datetime") -> int:
    """Converts microseconds to units of `scale` microseconds.

    Args:
        instant: a number of microseconds.
        scale: the number of microseconds in a unit.
        codec: the name of the codec, for the error.

    Raises:
        EncodingError: the microseconds are not a whole number of units.
    """
    units, rest = divmod(instant, scale)
    if rest:
        unit = next(unit for unit, length in MICROSECONDS.items() if length == scale)
        raise EncodingError(
            "A time is more precise than the unit of its codec: truncate it (.replace(microsecond=0)), let the "
            "codec round it down, "
            f'hb.{codec}("{unit}", round=True), or declare a finer unit for a new table.'
        )
    return units


def declared_round(round: bool) -> bool:
    """Validates the option `round` of a declaration, which is True or False."""
    if type(round) is not bool:
        raise DeclarationError("round must be True or False.", found=repr(round))
    return round


@frozen
class Datetime(FixedWidth[datetime]):
    """An aware datetime, stored as an order-preserving Int64: whole units since 1970 (UTC). It reads back in UTC.

    Args:
        unit: `"us"`, `"ms"` or `"s"`. A value with a finer part is refused, unless it is rounded.
        round: whether a value is rounded down to a whole unit. The stored bytes have the same form as without rounding.
            Values that are written, looked up by key, or compared with `==` and `in_` are rounded; `<`, `<=`, `>` and
            `>=` compare with the unrounded value.
    """

    unit: Unit = field(default="us", converter=declared_unit)
    round: bool = field(default=False, converter=declared_round)
    _scale: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: MICROSECONDS[self.unit], takes_self=True)
    )

    python_type = datetime
    width = 8

    def encode(self, value: datetime) -> bytes:
        instant = since_epoch(value, self.round)
        if self._scale > 1:
            instant = instant // self._scale if self.round else whole_units(instant, self._scale)
        return WORD.pack(instant + OFFSET)

    encode_part = encode

    def decode(self, data: bytes) -> datetime:
        return from_epoch(Int64.decode(data) * self._scale)

    def decode_part(self, data: bytes, start: int) -> tuple[datetime, int]:
        try:
            units: int = WORD.unpack_from(data, start)[0] - OFFSET
        except StructError:
            raise wrong_width(8, len(data) - start) from None
        return from_epoch(units * self._scale), start + 8

    def floor(self, value: datetime) -> datetime:
        instant = since_epoch(value, self.round)
        return from_epoch(instant - instant % self._scale)

    @property
    def exact(self) -> Datetime:
        return Datetime(self.unit) if self.round else self

    @property
    def source(self) -> Source | None:
        decode, encode = f"({{v}} - {OFFSET})", "{since_epoch}({v})"
        if self._scale > 1:
            rounded = f"{encode} // {self._scale}" if self.round else f"{{whole_units}}({encode}, {self._scale})"
            decode, encode = f"{decode} * {self._scale}", rounded
        scope = {"from_epoch": from_epoch, "since_epoch": since_epoch, "whole_units": whole_units}
        return Source(datetime, f"{{from_epoch}}({decode})", f"{encode} + {OFFSET}", "Q", scope=scope)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "datetime", "unit": self.unit}


@frozen
class DateCodec(FixedWidth[date]):
    """A date as days since 1970-01-01, an order-preserving Int32."""

    python_type = date
    width = 4

    def encode(self, value: date) -> bytes:
        if isinstance(value, datetime) or not isinstance(value, date):
            raise wrong_type(date, value)
        return Int32.encode(value.toordinal() - EPOCH_DAY)

    encode_part = encode

    def decode(self, data: bytes) -> date:
        day = Int32.decode(data) + EPOCH_DAY
        try:
            return date.fromordinal(day)
        except (ValueError, OverflowError):
            raise DecodingError("A stored date lies outside the years 1 to 9999.") from None

    @property
    def source(self) -> Source | None:
        shift = EPOCH_DAY + Int32.low
        return Source(
            date, f"{{date}}({{v}} + {shift})", f"{{v}}.toordinal() - {shift}", "I", scope={"date": date.fromordinal}
        )

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "date"}


@frozen
class DurationCodec(FixedWidth[timedelta]):
    """A timedelta as microseconds, an order-preserving Int64 (up to 292,271 years in either direction).

    `Duration(round=True)` cuts off nanoseconds, which some subclasses of timedelta have.
    """

    round: bool = field(default=False, converter=declared_round)

    python_type = timedelta
    width = 8

    def __call__(self, *, round: bool) -> DurationCodec:
        """Returns the same codec with or without rounding."""
        return DurationCodec(round=round)

    def encode(self, value: timedelta) -> bytes:
        return Int64.encode(_duration(value, self.round))

    encode_part = encode

    def decode(self, data: bytes) -> timedelta:
        return timedelta(0, 0, Int64.decode(data))

    def floor(self, value: timedelta) -> timedelta | None:
        number = Int64.floor(_duration(value, self.round))
        return None if number is None else timedelta(0, 0, number)

    @property
    def exact(self) -> DurationCodec:
        return Duration if self.round else self

    @property
    def source(self) -> Source | None:
        scope = {"timedelta": timedelta, "microseconds": microseconds}
        return Source(
            timedelta, f"{{timedelta}}(0, 0, {{v}} - {OFFSET})", f"{{microseconds}}({{v}}) + {OFFSET}", "Q", scope=scope
        )

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "duration", "unit": "us"}


def _duration(value: timedelta, round: bool) -> int:
    if not isinstance(value, timedelta):
        raise wrong_type(timedelta, value)
    if getattr(value, "nanoseconds", 0) and not round:
        raise EncodingError(
            "A duration is more precise than a microsecond: truncate it (in pandas: .floor('us')), or let the codec "
            "round it down: hb.codecs.Duration(round=True)."
        )
    return microseconds(value)


Timestamp = Datetime()
Date = DateCodec()
Duration = DurationCodec()

DEFAULTS: DefaultCodecs = {date: Date, datetime: Timestamp, timedelta: Duration}
SPECS: SpecReaders = {
    "date": lambda spec, codec_of: Date,
    "datetime": lambda spec, codec_of: Datetime(spec["unit"]),
    "duration": lambda spec, codec_of: Duration,
}
