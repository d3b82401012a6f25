"""Split key fields, which store one time in two parts: the bucket in the row key, and the offset within the bucket in
the column qualifier.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from struct import Struct
from typing import Any, Final

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, FixedWidth, Source, wrong_width
from hbmodel.encoding.codecs.integers import Int64
from hbmodel.encoding.codecs.times import (
    HIGHEST,
    LOWEST,
    MICROSECONDS,
    OFFSET,
    WORD,
    Datetime,
    from_epoch,
    microseconds,
    since_epoch,
    whole_units,
)
from hbmodel.encoding.key_field import KeyField
from hbmodel.errors import DeclarationError, DecodingError

WORDS: Final = (Struct(">B"), Struct(">H"), Struct(">I"), Struct(">Q"))
"""The formats of offsets. The smallest format that can store the largest offset is used."""


def units_of(value: datetime, scale: int) -> int:
    """Returns the time from 1970 to an aware datetime in units of `scale` microseconds. Raises `EncodingError` if the
    time is not a whole number of units.
    """
    return whole_units(since_epoch(value), scale)


def rounded_units_of(value: datetime, scale: int) -> int:
    """Returns the time from 1970 to an aware datetime in units of `scale` microseconds, rounded down to a whole
    number.
    """
    return since_epoch(value, True) // scale


def _units_of(codec: BucketCodec | OffsetCodec) -> Callable[[datetime, int], int]:
    return rounded_units_of if codec.round else units_of


@frozen
class BucketCodec(FixedWidth[Any]):
    """The first unit of the bucket in which a time lies, as an order-preserving Int64. Decoding returns the number of
    that unit.

    Args:
        scale: microseconds in a unit.
        units: the number of units in a bucket.
        round: whether times are rounded down to a unit.
    """

    scale: int
    units: int
    round: bool = False

    python_type = datetime
    width = 8

    def encode(self, value: datetime) -> bytes:
        units = _units_of(self)(value, self.scale)
        return WORD.pack(units - units % self.units + OFFSET)

    def decode(self, data: bytes) -> int:
        return Int64.decode(data)

    @property
    def source(self) -> Source | None:
        encode = f"{{units_of}}({{v}}, {self.scale}) // {self.units} * {self.units} + {OFFSET}"
        return Source(datetime, f"({{v}} - {OFFSET})", encode, "Q", scope={"units_of": _units_of(self)})

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "bucket", "scale": self.scale, "units": self.units}


def _word(offsets: OffsetCodec) -> Struct:
    return next(word for word in WORDS if offsets.units <= 1 << 8 * word.size)


@frozen
class OffsetCodec(FixedWidth[Any]):
    """The number of units from the beginning of the bucket to a time, unsigned. Decoding returns this number.

    Args:
        scale: microseconds in a unit.
        units: the number of units in a bucket.
        round: whether times are rounded down to a unit.
    """

    scale: int
    units: int
    round: bool = False
    _word: Struct = field(init=False, eq=False, repr=False, default=Factory(_word, takes_self=True))
    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self._word.size, takes_self=True))

    python_type = datetime

    def encode(self, value: datetime) -> bytes:
        data: bytes = self._word.pack(_units_of(self)(value, self.scale) % self.units)
        return data

    def decode(self, data: bytes) -> int:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        return int.from_bytes(data, "big")

    @property
    def source(self) -> Source | None:
        encode = f"{{units_of}}({{v}}, {self.scale}) % {self.units}"
        return Source(datetime, "{v}", encode, self._word.format[1:], scope={"units_of": _units_of(self)})

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "offset", "scale": self.scale, "units": self.units}


@frozen
class SplitField:
    """A key field in two parts. Both are complemented if the field descends.

    Attributes:
        every: the length of a bucket.
        bucket: the field of the row key.
        offset: the field of the qualifier.
    """

    of: KeyField
    every: timedelta
    bucket: KeyField
    offset: KeyField

    @classmethod
    def build(cls, key_field: KeyField, every: timedelta) -> SplitField:
        """Resolves a declaration.

        Raises:
            DeclarationError: the codec does not store times, or the length of a bucket is not a multiple of the codec's
                unit.
        """
        codec: Codec[Any] = key_field.codec
        if type(codec) is not Datetime:
            raise DeclarationError(
                "Only times can have a row span: hb.key(hb.Datetime(...), row_span=timedelta(hours=1)).",
                codec=repr(codec),
            )
        if key_field.nullable:
            raise DeclarationError("A field with a row span cannot be None: None has no offset.")
        scale = MICROSECONDS[codec.unit]
        if not isinstance(every, timedelta) or microseconds(every) < 2 * scale or microseconds(every) % scale:
            raise DeclarationError(
                "A row span is a timedelta of two or more whole units of the codec.", unit=codec.unit, found=repr(every)
            )
        units = microseconds(every) // scale
        bucket, offset = (
            KeyField(key_field.name, half, key_field.desc)
            for half in (BucketCodec(scale, units, codec.round), OffsetCodec(scale, units, codec.round))
        )
        return cls(key_field, every, bucket, offset)

    def joined(self, bucket: int, offset: int) -> datetime:
        """Returns the time that two parts represent.

        Raises:
            DecodingError: the model writes no such parts.
        """
        codec: Any = self.offset.codec
        if bucket % codec.units or offset >= codec.units:
            raise DecodingError(
                "The row or the offset of a split field does not match its buckets.", field=self.of.name
            )
        return from_epoch((bucket + offset) * codec.scale)

    def ends(self, value: datetime) -> tuple[datetime, datetime]:
        """Returns the first and the last valid time of the bucket in which a time lies."""
        codec: Any = self.bucket.codec
        first = codec.decode(codec.encode(value))
        lowest, highest = first * codec.scale, (first + codec.units - 1) * codec.scale
        return from_epoch(max(lowest, LOWEST)), from_epoch(min(highest, HIGHEST - HIGHEST % codec.scale))
