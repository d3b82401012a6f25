"""Values as `Bytes.toBytes` of HBase's Java client writes them: floats, booleans, `BigDecimal` and times; and numbers
as text.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from math import isnan
from struct import Struct
from struct import error as StructError
from typing import Any

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, FixedWidth, Order, Source, SpecReaders, wrong_type, wrong_width
from hbmodel.encoding.codecs.ieee import IEEE, exact_float, exact_single, single_below
from hbmodel.encoding.codecs.integers import out_of_range
from hbmodel.encoding.codecs.java import SIGNED
from hbmodel.encoding.codecs.packed_digits import finite_digits
from hbmodel.encoding.codecs.padded_and_delimited import integer_text, text_integer
from hbmodel.encoding.codecs.times import (
    MICROSECONDS,
    Unit,
    declared_round,
    declared_unit,
    from_epoch,
    since_epoch,
    whole_units,
)
from hbmodel.errors import DeclarationError, DecodingError, EncodingError

SCALE = Struct(">i")


@frozen
class JavaFloatCodec(FixedWidth[float]):
    """Java's `Bytes.toBytes(double)` or `(float)`: IEEE 754, big-endian, for columns.

    Every double can be stored and read back, including -0.0 and NaN. With 32 bits, a value that a 32-bit float cannot
    represent exactly is refused.

    The bytes do not sort as the numbers do, and 0.0 and -0.0 have different bytes, so the codec is not for keys.
    Conditions on columns are tested after reading.
    """

    bits: int
    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.bits // 8, takes_self=True))
    _struct: Struct = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: IEEE[self.bits], takes_self=True)
    )

    python_type = float
    order = None
    raw_order = None
    key = False

    def encode(self, value: float) -> bytes:
        return self._struct.pack(exact_float(value) if self.bits == 64 else exact_single(value))

    def decode(self, data: bytes) -> float:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        number: float = self._struct.unpack(data)[0]
        # Some NaNs of 32 bits change when they are converted to 64 bits.
        if isnan(number) and self._struct.pack(number) != data:
            raise DecodingError("Stored bytes are a NaN that cannot be written again as it is.")
        return number

    def floor(self, value: float) -> float:
        return single_below(exact_float(value)) if self.bits == 32 else value

    @property
    def source(self) -> Source | None:
        if self.bits != 64:
            return None
        scope = {"unpack": self._struct.unpack, "pack": self._struct.pack}
        return Source(float, "{unpack}({v})[0]", "{pack}({v})", scope=scope)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "java_float", "bits": self.bits}


@frozen
class JavaBooleanCodec(FixedWidth[bool]):
    """Java's `Bytes.toBytes(boolean)`: FF for true, 00 for false."""

    python_type = bool
    width = 1

    def encode(self, value: bool) -> bytes:
        if value is True:
            return b"\xff"
        if value is False:
            return b"\x00"
        raise wrong_type(bool, value)

    encode_part = encode

    def decode(self, data: bytes) -> bool:
        if data == b"\xff":
            return True
        if data == b"\x00":
            return False
        raise DecodingError(
            "A stored bool is not 00 or FF, the bytes that Bytes.toBytes writes: for 00 and 01 declare hb.codecs.Bool."
        )

    @property
    def source(self) -> Source | None:
        return Source(
            bool, "{values}[{v}]", "(b'\\xff' if {v} else b'\\x00')", scope={"values": {b"\x00": False, b"\xff": True}}
        )

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "java_bool"}


@frozen
class BigDecimalCodec(Codec[Decimal]):
    """Java's `Bytes.toBytes(BigDecimal)`: the scale (4 bytes) and the unscaled number as two's complement, for columns.

    Zeros at the end are kept: `Decimal("1.50")` reads back as `Decimal("1.50")`. Equal numbers can therefore have
    different bytes, and the bytes do not sort as the numbers do, so the codec is not for keys.
    """

    python_type = Decimal
    order = None
    raw_order = None
    key = False

    def encode(self, value: Decimal) -> bytes:
        sign, digits, exponent = finite_digits(value)
        # Conversions between Decimal and int are exact and, unlike conversions of text, have no limit on the number of
        # digits.
        number = int(Decimal((sign, digits, 0)))
        try:
            scale = SCALE.pack(-exponent)
        except StructError:
            raise EncodingError("The exponent of a decimal number does not fit in 32 bits.") from None
        return scale + number.to_bytes(_bytes_of(number), "big", signed=True)

    def decode(self, data: bytes) -> Decimal:
        if len(data) < 5:
            raise DecodingError("Stored bytes are not a BigDecimal: a BigDecimal has at least 5 bytes.")
        number = int.from_bytes(data[4:], "big", signed=True)
        if len(data) - 4 != _bytes_of(number):
            raise DecodingError("Stored bytes are not a BigDecimal: its number has more bytes than it needs.")
        sign, digits, _ = Decimal(number).as_tuple()
        return Decimal((sign, digits, -SCALE.unpack_from(data)[0]))

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "java_decimal"}


def _bytes_of(number: int) -> int:
    # as many bytes as BigInteger.toByteArray returns: enough for all bits and one bit for the sign
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


def _declared_signed(signed: Any) -> bool:
    if type(signed) is not bool:
        raise DeclarationError("signed must be True or False.", found=repr(signed))
    return signed


@frozen
class JavaTimeCodec(FixedWidth[datetime]):
    """An aware datetime as `Bytes.toBytes` of a Java number of units since 1970 (UTC); it reads back in UTC.

    `LongTime` is a long of milliseconds, like the result of `System.currentTimeMillis()`. `IntTime` is an int of
    seconds, which ends in January 2038. For a different unit, call them with the unit: `LongTime("s")`.

    Times before 1970 are refused, because the bytes that Java writes for negative numbers sort last. With `signed=True`
    such times can be stored and read, but the bytes do not preserve the order.

    Args:
        unit: `"us"`, `"ms"` or `"s"`. A value with a finer part is refused, unless it is rounded.
        round: whether a value is rounded down to a whole unit; see `Datetime`.
        signed: whether times before 1970 are allowed.
    """

    bits: int
    unit: Unit = field(converter=declared_unit)
    round: bool = field(default=False, converter=declared_round)
    signed: bool = field(default=False, converter=_declared_signed)
    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.bits // 8, takes_self=True))
    order: Order = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: None if self.signed else "ascending", takes_self=True),
    )
    raw_order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.order, takes_self=True)
    )
    _struct: Struct = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: SIGNED[self.bits], takes_self=True)
    )
    _scale: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: MICROSECONDS[self.unit], takes_self=True)
    )

    python_type = datetime

    def __call__(self, unit: Unit | None = None, *, round: bool = False, signed: bool = False) -> JavaTimeCodec:
        """Returns the same codec with a different unit, with rounding, or with times before 1970."""
        return JavaTimeCodec(self.bits, self.unit if unit is None else unit, round, signed)

    @property
    def _name(self) -> str:
        return "LongTime" if self.bits == 64 else "IntTime"

    @property
    def _high(self) -> int:
        return (1 << (self.bits - 1)) - 1

    def encode(self, value: datetime) -> bytes:
        instant = since_epoch(value, self.round)
        if instant < 0 and not self.signed:
            raise EncodingError(
                "A time before 1970 would sort last in Java's bytes: declare its codec with signed=True, which stores "
                "it, but does not preserve the order."
            )
        units = instant // self._scale if self.round else whole_units(instant, self._scale, f"codecs.java.{self._name}")
        try:
            return self._struct.pack(units)
        except StructError:
            raise out_of_range(~self._high if self.signed else 0, self._high) from None

    encode_part = encode

    def decode(self, data: bytes) -> datetime:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        units = int.from_bytes(data, "big", signed=True)
        if units < 0 and not self.signed:
            raise DecodingError(
                "A stored time is before 1970, and its bytes sort last: declare its codec with signed=True, which "
                "reads it, but does not preserve the order."
            )
        return from_epoch(units * self._scale)

    def floor(self, value: datetime) -> datetime | None:
        instant = since_epoch(value, self.round)
        if instant < (~self._high * self._scale if self.signed else 0):
            return None
        return from_epoch(min(instant // self._scale, self._high) * self._scale)

    @property
    def exact(self) -> JavaTimeCodec:
        return JavaTimeCodec(self.bits, self.unit, signed=self.signed) if self.round else self

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "java_time", "bits": self.bits, "unit": self.unit, "signed": self.signed}


@frozen
class IntTextCodec(Codec[int]):
    """An integer as decimal text without leading zeros, such as `-42`, for columns. Java programs write this text with
    `Bytes.toBytes(Long.toString(n))`, and Hive writes it for numbers.

    Text does not sort as numbers do, so the codec is not for keys. In keys use `hb.codecs.DelimitedInt`, or for
    text of a fixed width `hb.codecs.DecimalText`.
    """

    python_type = int
    order = None
    raw_order = None
    key = False

    def encode(self, value: int) -> bytes:
        return integer_text(value)

    def decode(self, data: bytes) -> int:
        return text_integer(data)

    @property
    def canonical(self) -> bool:
        return True

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "int_text"}


JavaDouble = JavaFloatCodec(64)
JavaFloat = JavaFloatCodec(32)
JavaBoolean = JavaBooleanCodec()
BigDecimal = BigDecimalCodec()
LongTime = JavaTimeCodec(64, "ms")
IntTime = JavaTimeCodec(32, "s")
IntText = IntTextCodec()

SPECS: SpecReaders = {
    "java_float": lambda spec, codec_of: JavaFloatCodec(spec["bits"]),
    "java_bool": lambda spec, codec_of: JavaBoolean,
    "java_decimal": lambda spec, codec_of: BigDecimal,
    "java_time": lambda spec, codec_of: JavaTimeCodec(spec["bits"], spec["unit"], signed=spec["signed"]),
    "int_text": lambda spec, codec_of: IntText,
}
