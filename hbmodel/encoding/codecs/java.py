"""Formats of Java programs: `Bytes.toBytes` of whole numbers, reverse timestamps, and `DataOutput.writeUTF`."""

from __future__ import annotations

from datetime import datetime
from struct import Struct
from struct import error as StructError

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, FixedWidth, Source, SpecReaders, wrong_type, wrong_width
from hbmodel.encoding.codecs.integers import floor_integer, integer, out_of_range
from hbmodel.encoding.codecs.times import (
    MICROSECONDS,
    Unit,
    declared_round,
    declared_unit,
    from_epoch,
    since_epoch,
    whole_units,
)
from hbmodel.errors import DecodingError, EncodingError

LONG = Struct(">q")
SIGNED = {8: Struct(">b"), 16: Struct(">h"), 32: Struct(">i"), 64: LONG}
LONG_MAX = (1 << 63) - 1


@frozen
class JavaIntCodec(FixedWidth[int]):
    """Java's `Bytes.toBytes(int)`, `(long)` or `(short)`, or a single byte: two's complement, big-endian. HBase's
    counters have the same bytes.

    Negative numbers sort after positive ones, so order is not preserved. For numbers that are never negative, `UInt32`
    and `UInt64` write the same bytes and preserve order.
    """

    bits: int
    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.bits // 8, takes_self=True))
    _struct: Struct = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: SIGNED[self.bits], takes_self=True)
    )

    python_type = int
    order = None
    raw_order = None

    def encode(self, value: int) -> bytes:
        try:
            return self._struct.pack(integer(value))
        except StructError:
            bound = 1 << (self.bits - 1)
            raise out_of_range(-bound, bound - 1) from None

    encode_part = encode

    def decode(self, data: bytes) -> int:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        return int.from_bytes(data, "big", signed=True)

    @property
    def source(self) -> Source | None:
        return Source(int, "{v}", "{v}", self._struct.format[1:])

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "java_int", "bits": self.bits}


@frozen
class ReverseLongCodec(FixedWidth[int]):
    """`Long.MAX_VALUE - n` as a Java long, for 0 <= n: the largest number sorts first."""

    python_type = int
    order = "descending"
    raw_order = "descending"
    width = 8
    low, high = 0, LONG_MAX

    def encode(self, value: int) -> bytes:
        number = integer(value)
        if not 0 <= number <= LONG_MAX:
            raise out_of_range(0, LONG_MAX)
        return LONG.pack(LONG_MAX - number)

    encode_part = encode

    def decode(self, data: bytes) -> int:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        stored = int.from_bytes(data, "big")
        if stored > LONG_MAX:
            raise DecodingError("A stored reverse timestamp is negative.")
        return LONG_MAX - stored

    def floor(self, value: int) -> int | None:
        return floor_integer(value, 0, LONG_MAX)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "reverse_long"}


ReverseStampInt = ReverseLongCodec()
JavaByte = JavaIntCodec(8)
JavaShort = JavaIntCodec(16)
JavaInt = JavaIntCodec(32)
JavaLong = JavaIntCodec(64)


@frozen
class ReverseStampCodec(FixedWidth[datetime]):
    """`Long.MAX_VALUE - t` as a Java long, where t is an aware datetime since 1970: the newest sorts first.

    The unit is milliseconds unless another one is given, as in `ReverseStamp("s")`. Times before 1970 are refused.
    Times that are more precise than the unit are refused too, unless they are rounded: `ReverseStamp(round=True)`, see
    `Datetime`. `ReverseStampInt` stores plain numbers as the same bytes.
    """

    unit: Unit = field(default="ms", converter=declared_unit)
    round: bool = field(default=False, converter=declared_round)
    _scale: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: MICROSECONDS[self.unit], takes_self=True)
    )

    python_type = datetime
    order = "descending"
    raw_order = "descending"
    width = 8

    def __call__(self, unit: Unit = "ms", *, round: bool = False) -> ReverseStampCodec:
        """Returns the same codec with a different unit, or with rounding."""
        return ReverseStampCodec(unit, round=round)

    def encode(self, value: datetime) -> bytes:
        instant = since_epoch(value, self.round)
        if instant < 0:
            raise EncodingError("A reverse timestamp cannot hold a time before 1970.")
        return ReverseStampInt.encode(
            instant // self._scale if self.round else whole_units(instant, self._scale, "ReverseStamp")
        )

    encode_part = encode

    def decode(self, data: bytes) -> datetime:
        return from_epoch(ReverseStampInt.decode(data) * self._scale)

    def floor(self, value: datetime) -> datetime | None:
        instant = since_epoch(value, self.round)
        return None if instant < 0 else from_epoch(instant - instant % self._scale)

    @property
    def exact(self) -> ReverseStampCodec:
        return ReverseStampCodec(self.unit) if self.round else self

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "reverse_stamp", "unit": self.unit}


ReverseStamp = ReverseStampCodec()


def _to_modified_utf8(value: str) -> bytes:
    # Java writes UTF-16 code units one by one: characters beyond U+FFFF as two surrogates of three bytes each, NUL as
    # C0 80.
    if value.isascii():
        data = value.encode()
    else:
        try:
            units = value.encode("utf-16-be")
        except UnicodeEncodeError:
            raise EncodingError("Text with a lone surrogate cannot be stored: remove the surrogate.") from None
        data = "".join([chr(high << 8 | low) for high, low in zip(units[::2], units[1::2], strict=True)]).encode(
            "utf-8", "surrogatepass"
        )
    return data.replace(b"\x00", b"\xc0\x80")


def _from_modified_utf8(data: bytes) -> str:
    try:
        units = data.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass").encode("utf-16-be", "surrogatepass")
        value = units.decode("utf-16-be")
    except UnicodeError:
        raise DecodingError("Stored bytes are not modified UTF-8.") from None
    # The steps above accept plain zero bytes and characters of four bytes, but Java does not write these.
    if _to_modified_utf8(value) != data:
        raise DecodingError("Stored bytes are not modified UTF-8.")
    return value


@frozen
class JavaUTFCodec(Codec[str]):
    """Java's `DataOutput.writeUTF`: the length in bytes (2, big-endian) and modified UTF-8. Raw and part form are the
    same.

    The length comes first, so order is not preserved and prefix searches are not possible. At most 65,535 bytes.
    """

    python_type = str
    order = None
    raw_order = None

    def encode(self, value: str) -> bytes:
        if not isinstance(value, str):
            raise wrong_type(str, value)
        data = _to_modified_utf8(value)
        if len(data) > 0xFFFF:
            raise EncodingError(
                "Text is longer than the 65,535 bytes that writeUTF allows: shorten it.", found=len(data)
            )
        return len(data).to_bytes(2, "big") + data

    encode_part = encode

    def decode(self, data: bytes) -> str:
        value, end = self.decode_part(data, 0)
        if end != len(data):
            raise DecodingError("Stored bytes continue after the end of a text.")
        return value

    def decode_part(self, data: bytes, start: int) -> tuple[str, int]:
        begin = start + 2
        end = begin + int.from_bytes(data[start:begin], "big")
        if begin > len(data) or end > len(data):
            raise DecodingError("Stored bytes end before the text does.")
        return _from_modified_utf8(data[begin:end]), end

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "java_utf"}


JavaUTF = JavaUTFCodec()

SPECS: SpecReaders = {
    "java_int": lambda spec, codec_of: JavaIntCodec(spec["bits"]),
    "java_utf": lambda spec, codec_of: JavaUTF,
    "reverse_long": lambda spec, codec_of: ReverseStampInt,
    "reverse_stamp": lambda spec, codec_of: ReverseStampCodec(spec["unit"]),
}
