"""Dates and times as text of a fixed width, such as `20260301` or `2026-03-01T12:00:00Z`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, FixedWidth, Order, SpecReaders, wrong_type, wrong_width
from hbmodel.encoding.codecs.times import EPOCH, declared_round, from_epoch, since_epoch
from hbmodel.errors import DeclarationError, DecodingError, EncodingError

DIRECTIVES = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2, "%3f": 3, "%f": 6}
"""The directives of a format, the largest unit first, and how many digits each of them has."""

UNITS = {
    "%d": 86_400_000_000,
    "%H": 3_600_000_000,
    "%M": 60_000_000,
    "%S": 1_000_000,
    "%3f": 1_000,
    "%f": 1,
}
"""The microseconds in the unit of a directive."""

TIME_OF_DAY = ("%H", "%M", "%S", "%f")
_PIECES = re.compile(r"%3f|%.?|[^%]+", re.DOTALL)


@frozen
class TimeFormat:
    """A format of `strftime` in which each directive has a fixed number of digits.

    Attributes:
        directives: the directives, in the order in which they occur.
        template: the format for `%`, with a number for each directive.
        pattern: matches the bytes of a time, with a group for each directive.
        width: the length of the bytes.
    """

    directives: Sequence[str]
    template: bytes
    pattern: re.Pattern[bytes]
    width: int

    @property
    def order(self) -> Order:
        """Ascending if the largest unit comes first, otherwise None."""
        return "ascending" if list(self.directives) == sorted(self.directives, key=[*DIRECTIVES].index) else None

    @property
    def unit(self) -> int:
        """The microseconds in the smallest unit."""
        return min(UNITS.get(directive, UNITS["%d"]) for directive in self.directives)

    def write(self, value: datetime | date) -> bytes:
        """Returns the text of a date, or of a time in UTC."""
        return self.template % tuple(_NUMBERS[directive](value) for directive in self.directives)

    def read(self, data: bytes) -> dict[str, int]:
        """Returns the numbers in a text, by their directives."""
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        match = self.pattern.fullmatch(data)
        if match is None:
            raise DecodingError("Stored bytes are not a time in the format of their codec.")
        return dict(zip(self.directives, map(int, match.groups()), strict=True))


_NUMBERS: Mapping[str, Callable[[Any], int]] = {
    "%Y": lambda value: value.year,
    "%m": lambda value: value.month,
    "%d": lambda value: value.day,
    "%H": lambda value: value.hour,
    "%M": lambda value: value.minute,
    "%S": lambda value: value.second,
    "%3f": lambda value: value.microsecond // 1_000,
    "%f": lambda value: value.microsecond,
}


def _declared_format(text: Any, codec: str, times: Sequence[str]) -> TimeFormat:
    """Parses a format.

    Args:
        text: the format, as declared.
        codec: the name of the codec, for the error.
        times: the directives that it may contain besides those of a date, the largest unit first.
    """
    if type(text) is not str or not text.isascii():
        raise DeclarationError("The format of a time must be ASCII text, such as '%Y-%m-%d'.", found=repr(text))
    directives: list[str] = []
    template, pattern, width = "", "", 0
    for piece in _PIECES.findall(text):
        if piece in DIRECTIVES:
            directives.append(piece)
            template += f"%0{DIRECTIVES[piece]}d"
            pattern += f"([0-9]{{{DIRECTIVES[piece]}}})"
            width += DIRECTIVES[piece]
        elif piece.startswith("%"):
            raise DeclarationError(
                "This directive has no fixed number of digits, or is not supported: use %Y, %m, %d, %H, %M, %S, %f, "
                "or %3f for milliseconds.",
                found=repr(piece),
            )
        else:
            template += piece
            pattern += re.escape(piece)
            width += len(piece)
    small = [directive.replace("3", "") for directive in directives]
    used = [directive for directive in small if directive not in {"%Y", "%m", "%d"}]
    if not {"%Y", "%m", "%d"} <= set(small) or len(set(small)) != len(small):
        raise DeclarationError(
            "The format of a date or time must have the year, the month and the day, and no directive twice.",
            found=repr(text),
        )
    if sorted(used, key=TIME_OF_DAY.index) != list(times[: len(used)]):
        raise DeclarationError(
            "A date has no hours: declare hb.codecs.as_text.Datetime."
            if not times
            else "The format of a time must not leave out a unit between the day and its smallest unit.",
            found=repr(text),
            codec=codec,
        )
    return TimeFormat(tuple(directives), template.encode(), re.compile(pattern.encode()), width)


@frozen
class DateText(FixedWidth[date]):
    """A date as text: `2026-03-01`, or in another format.

    The bytes sort as the dates do if the format begins with the year, followed by month and day. Otherwise there are no
    ranges.

    Args:
        format: as for `strftime`, with `%Y`, `%m` and `%d`, each with all its digits; other characters are copied.
    """

    format: str = "%Y-%m-%d"
    _parsed: TimeFormat = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: _declared_format(self.format, "Date", ()), takes_self=True),
    )
    width: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self._parsed.width, takes_self=True)
    )
    order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self._parsed.order, takes_self=True)
    )
    raw_order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self._parsed.order, takes_self=True)
    )

    python_type = date

    def encode(self, value: date) -> bytes:
        if isinstance(value, datetime) or not isinstance(value, date):
            raise wrong_type(date, value)
        return self._parsed.write(value)

    encode_part = encode

    def decode(self, data: bytes) -> date:
        numbers = self._parsed.read(data)
        try:
            return date(numbers["%Y"], numbers["%m"], numbers["%d"])
        except ValueError:
            raise DecodingError("Stored text is not a valid date.") from None

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "date_text", "format": self.format}


@frozen
class DatetimeText(FixedWidth[datetime]):
    """An aware datetime as text in UTC: `2026-03-01T12:00:00Z` or in another format. It reads back in UTC.

    The bytes sort as the times do if the format begins with the year, followed by the smaller units in their order.
    Otherwise there are no ranges.

    Args:
        format: as for `strftime`, with `%Y`, `%m`, `%d`, then those of `%H`, `%M` and `%S` that are needed, and `%f`
            for microseconds or `%3f` for milliseconds; other characters are copied. The smallest unit is the unit of
            the stored times. A value with a finer part is refused, unless it is rounded.
        round: whether a value is rounded down to a whole unit, as in `hb.Datetime`.
    """

    format: str = "%Y-%m-%dT%H:%M:%SZ"
    round: bool = field(default=False, converter=declared_round)
    _parsed: TimeFormat = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: _declared_format(self.format, "Datetime", TIME_OF_DAY), takes_self=True),
    )
    width: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self._parsed.width, takes_self=True)
    )
    order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self._parsed.order, takes_self=True)
    )
    raw_order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self._parsed.order, takes_self=True)
    )

    python_type = datetime

    def encode(self, value: datetime) -> bytes:
        instant = since_epoch(value, self.round)
        rest = instant % self._parsed.unit
        if rest and not self.round:
            raise EncodingError(
                "A time is more precise than the format of its codec: truncate it, let the codec round it down "
                "(round=True), or declare a finer format for a new table."
            )
        return self._parsed.write(from_epoch(instant - rest))

    encode_part = encode

    def decode(self, data: bytes) -> datetime:
        numbers = self._parsed.read(data)
        fraction = numbers.get("%f", 1_000 * numbers.get("%3f", 0))
        hour, minute, second = (numbers.get(directive, 0) for directive in ("%H", "%M", "%S"))
        try:
            return datetime(numbers["%Y"], numbers["%m"], numbers["%d"], hour, minute, second, fraction, UTC)
        except ValueError:
            raise DecodingError("Stored text is not a valid time.") from None

    def floor(self, value: datetime) -> datetime:
        instant = since_epoch(value, self.round)
        return EPOCH + timedelta(microseconds=instant - instant % self._parsed.unit)

    @property
    def exact(self) -> DatetimeText:
        return DatetimeText(self.format) if self.round else self

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "datetime_text", "format": self.format}


SPECS: SpecReaders = {
    "date_text": lambda spec, codec_of: DateText(spec["format"]),
    "datetime_text": lambda spec, codec_of: DatetimeText(spec["format"]),
}
