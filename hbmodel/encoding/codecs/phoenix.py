"""Values as Apache Phoenix writes them: numbers, decimals, times and text of fixed length."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from struct import Struct

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, FixedWidth, SpecReaders, declared_width, wrong_width
from hbmodel.encoding.codecs.ieee import FloatsOfJava, float_bits
from hbmodel.encoding.codecs.integers import UNSIGNED, floor_integer, integer, out_of_range
from hbmodel.encoding.codecs.packed_digits import number_of_pairs, pairs_of, stripped_digits
from hbmodel.encoding.codecs.padded_and_delimited import Delimited, delimited_end
from hbmodel.encoding.codecs.text import to_utf8
from hbmodel.encoding.codecs.times import Datetime, from_epoch, since_epoch
from hbmodel.errors import DecodingError, EncodingError, QueryError

BLANK = 0x20
"""The padding of `CHAR` in Phoenix. A value with a lower character would sort before its own prefixes."""

TIMESTAMP = Struct(">QI")
OFFSET = 1 << 63

ZERO = b"\x80"
LOWEST, HIGHEST = -63, 62
"""The smallest and the largest base-100 exponent of the first pair of digits of a decimal for which Phoenix keeps the
order.
"""

MOST_DIGITS = 38
MOST_BYTES = 21
END_OF_NEGATIVE = 102


@frozen
class UnsignedCodec(FixedWidth[int]):
    """Phoenix's `UNSIGNED_INT` and similar types: big-endian, from 0 to the largest number of Java's signed type."""

    bits: int
    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.bits // 8, takes_self=True))
    high: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: (1 << (self.bits - 1)) - 1, takes_self=True)
    )

    python_type = int
    low = 0

    def encode(self, value: int) -> bytes:
        number = integer(value)
        if not 0 <= number <= self.high:
            raise out_of_range(0, self.high)
        return number.to_bytes(self.width, "big")

    encode_part = encode

    def decode(self, data: bytes) -> int:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        number = int.from_bytes(data, "big")
        if number > self.high:
            raise DecodingError("A stored unsigned number is larger than any that Phoenix writes.")
        return number

    def floor(self, value: int) -> int | None:
        return floor_integer(value, 0, self.high)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "phoenix_unsigned", "bits": self.bits}


@frozen
class PhoenixFloatCodec(FloatsOfJava):
    """Phoenix's `DOUBLE` or `FLOAT`: IEEE 754, big-endian, with all bits flipped if negative and the sign bit flipped
    if positive; then one is added.

    -0.0 is stored as 0.0. NaN is refused, and so is a -0.0 that Phoenix stored, because they have no place in an order.
    `Double(nan=True)` and `Float(nan=True)` read and write both NaN and -0.0, in columns only.
    """

    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.bits // 8, takes_self=True))

    def __call__(self, *, nan: bool) -> PhoenixFloatCodec:
        """Returns the same codec with or without NaN and -0.0."""
        return PhoenixFloatCodec(self.bits, nan)

    def _stored(self, word: int) -> bytes:
        return UNSIGNED[self.bits].pack(word + 1)

    def _word(self, data: bytes) -> int:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        word = int.from_bytes(data, "big") - 1
        if word < 0:
            raise DecodingError("Stored bytes are not a number of Phoenix.")
        return word

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "phoenix_float", "bits": self.bits}


@frozen
class PhoenixDecimalCodec(Codec[Decimal]):
    """Phoenix's `DECIMAL`: a byte for the sign and the base-100 exponent, and the digits in pairs.

    Numbers have up to 38 digits and go up to 10 to the 126. Phoenix rounds other numbers, or loses their order, so they
    are refused. Numerically equal values have the same bytes and come back normalised: `Decimal("1.50")` as
    `Decimal("1.5")`. In a key, 00 is appended if another field follows.
    """

    python_type = Decimal

    def encode(self, value: Decimal) -> bytes:
        negative, digits = stripped_digits(value)
        if not digits:
            return ZERO
        if len(digits) > MOST_DIGITS:
            raise EncodingError("Phoenix stores at most 38 digits of a decimal number: round it first.")
        pairs, exponent = pairs_of(digits, value.adjusted())
        # The first byte of a negative number with the highest exponent would be 00, which ends a field of a key.
        if not LOWEST <= exponent <= HIGHEST - negative:
            raise EncodingError("Phoenix does not keep the order of decimal numbers that large or that small.")
        first = exponent + 65 | 0x80
        if not negative:
            return bytes([first, *[pair + 1 for pair in pairs]])
        data = bytes([~first & 0xFF, *[101 - pair for pair in pairs]])
        return data + bytes([END_OF_NEGATIVE]) if len(data) < MOST_BYTES else data

    def decode(self, data: bytes) -> Decimal:
        if data == ZERO:
            return Decimal(0)
        if len(data) < 2:
            raise _no_decimal()
        if data[0] & 0x80:
            negative, first, pairs = 0, data[0], [byte - 1 for byte in data[1:]]
        else:
            end = len(data) - (data[-1] == END_OF_NEGATIVE)
            negative, first, pairs = 1, ~data[0] & 0xFF, [101 - byte for byte in data[1:end]]
        if not pairs or not all(0 <= pair <= 99 for pair in pairs):
            raise _no_decimal()
        value = number_of_pairs(negative, pairs, (first & 0x7F) - 65)
        try:
            same = self.encode(value) == data
        except EncodingError:
            same = False
        if not same:
            raise _no_decimal()
        return value

    def encode_part(self, value: Decimal) -> bytes:
        return self.encode(value) + b"\x00"

    def decode_part(self, data: bytes, start: int) -> tuple[Decimal, int]:
        end = self.part_end(data, start)
        return self.decode(data[start : end - 1]), end

    def part_end(self, data: bytes, start: int) -> int:
        return delimited_end(data, start, b"\x00")

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "phoenix_decimal"}


def _no_decimal() -> DecodingError:
    return DecodingError("Stored bytes are not a decimal number that Phoenix keeps in order.")


@frozen
class PhoenixTimestampCodec(FixedWidth[datetime]):
    """Phoenix's `TIMESTAMP` as an aware datetime: milliseconds since 1970 (8 bytes, sign bit flipped) and the
    nanoseconds beyond them (4 bytes). It reads back in UTC.

    A stored time that is finer than a microsecond is refused. `UnsignedTimestamp` stores the milliseconds without
    flipping the sign bit, and refuses times before 1970.
    """

    signed: bool

    python_type = datetime
    width = 12

    def encode(self, value: datetime) -> bytes:
        millis, micros = divmod(since_epoch(value), 1_000)
        if millis < 0 and not self.signed:
            raise EncodingError("An unsigned time cannot be before 1970.")
        return TIMESTAMP.pack(millis + OFFSET if self.signed else millis, micros * 1_000)

    encode_part = encode

    def decode(self, data: bytes) -> datetime:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        millis, nanos = TIMESTAMP.unpack(data)
        if nanos % 1_000 or nanos >= 1_000_000:
            raise DecodingError("A stored time is more precise than a microsecond: read it as hb.Bytes(12).")
        if self.signed:
            millis -= OFFSET
        return from_epoch(millis * 1_000 + nanos // 1_000)

    def floor(self, value: datetime) -> datetime | None:
        return value if self.signed or since_epoch(value) >= 0 else None

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "phoenix_timestamp", "signed": self.signed}


@frozen
class Char(FixedWidth[str]):
    """Phoenix's `CHAR(n)`: ASCII text, padded with blanks to `width` characters.

    The blanks at the end are not part of the value, so text that ends in a blank is refused. Control characters, which
    would sort before the padding, are refused too.
    """

    width: int = field(converter=declared_width)

    python_type = str

    def _plain(self, value: str) -> bytes:
        data = to_utf8(value)
        if data and not (min(data) >= BLANK and data.isascii()):
            raise EncodingError("CHAR stores ASCII text without control characters.")
        return data

    def encode(self, value: str) -> bytes:
        data = self._plain(value)
        if data.endswith(b" "):
            raise EncodingError("Text that ends in a blank cannot be stored as CHAR, which pads with blanks.")
        if len(data) > self.width:
            raise EncodingError("Text is longer than its CHAR.", width=self.width, found=len(data))
        return data.ljust(self.width)

    def decode(self, data: bytes) -> str:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        if min(data) < BLANK or not data.isascii():
            raise DecodingError("Stored bytes contain a control character, or a byte that is not ASCII.")
        return data.rstrip(b" ").decode()

    def encode_prefix(self, prefix: str) -> bytes | None:
        data = self._plain(prefix)
        if data.endswith(b" "):
            raise QueryError("CHAR cannot be searched by a prefix that ends in a blank, because blanks are padding.")
        return data if len(data) <= self.width else None

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "phoenix_char", "width": self.width}


Varchar = Delimited(b"\x00")
"""The codec of `VARCHAR` in keys. For `VARCHAR` in columns use `hb.Text`, which may contain 00."""

Date = Time = Datetime("ms")
UnsignedTinyInt = UnsignedCodec(8)
UnsignedSmallInt = UnsignedCodec(16)
UnsignedInt = UnsignedCodec(32)
UnsignedLong = UnsignedCodec(64)
PhoenixDouble = PhoenixFloatCodec(64)
PhoenixFloat = PhoenixFloatCodec(32)
PhoenixDecimal = PhoenixDecimalCodec()
PhoenixTimestamp = PhoenixTimestampCodec(signed=True)
UnsignedTimestamp = PhoenixTimestampCodec(signed=False)

SPECS: SpecReaders = {
    "phoenix_unsigned": lambda spec, codec_of: UnsignedCodec(spec["bits"]),
    "phoenix_float": lambda spec, codec_of: PhoenixFloatCodec(float_bits(spec["bits"])),
    "phoenix_decimal": lambda spec, codec_of: PhoenixDecimal,
    "phoenix_timestamp": lambda spec, codec_of: PhoenixTimestampCodec(signed=spec["signed"]),
    "phoenix_char": lambda spec, codec_of: Char(spec["width"]),
}
