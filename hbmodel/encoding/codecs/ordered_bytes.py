"""Values as HBase's class `OrderedBytes` writes them: a header byte for the type, and bytes in the order of the values.

`desc=True` in a key has the same effect as the order `DESCENDING` of that class: every byte is complemented, including
the header and the terminator.
"""

from __future__ import annotations

import re
from decimal import Decimal

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import COMPLEMENT, JSON, Codec, FixedWidth, SpecReaders, T, wrong_width
from hbmodel.encoding.codecs.ieee import FloatsOfJava
from hbmodel.encoding.codecs.integers import UNSIGNED, IntCodec, floor_integer
from hbmodel.encoding.codecs.packed_digits import number_of_pairs, pairs_of, stripped_digits
from hbmodel.encoding.codecs.padded_and_delimited import delimited_end
from hbmodel.encoding.codecs.text import from_utf8, to_bytes, to_utf8
from hbmodel.errors import DeclarationError, DecodingError, EncodingError

NULL = b"\x05"
INTEGERS = {8: b"\x29", 16: b"\x2a", 32: b"\x2b", 64: b"\x2c"}
FLOATS = {32: b"\x30", 64: b"\x31"}
TEXT = b"\x34"
BLOB_VAR = b"\x37"
BLOB_COPY = b"\x38"
END = b"\x00"

GROUPS = re.compile(rb"[\x80-\xff]*[\x00-\x7f]")
"""The bytes after the header of a `BlobVar`: seven bits in each byte, and the high bit set in all but the last."""

ZERO, SMALL, MEDIUM, LARGE = 0x15, 0x16, 0x17, 0x22
"""Header bytes of numbers that are not negative. The header byte of a medium number is increased by its exponent."""

OPPOSITE = ZERO + ZERO
"""The sum of the header byte of a number and the header byte of its negative."""

MOST_DIGITS = 31
MOST_PAIRS = 16
HIGHEST = 351
"""The largest base-100 exponent that every version of HBase writes."""

LOWEST = 2 - (1 << 31)
"""The smallest base-10 exponent of the last pair of digits; the limit is that Java computes the scale in 32 bits."""


def _check_null(data: bytes, start: int) -> None:
    if data[start : start + 1] == NULL:
        raise DecodingError("Stored bytes are the NULL of OrderedBytes, which is not a value of this codec.")


def _check_header(data: bytes, start: int, header: bytes) -> None:
    _check_null(data, start)
    if data[start : start + 1] != header:
        raise DecodingError("Stored bytes do not begin with the header of their OrderedBytes type.", expected=header)


class _Ordered:
    __slots__ = ()

    def check_row_key(self, *, nullable: bool, last: bool) -> None:
        if nullable:
            raise DeclarationError(
                "OrderedBytes writes NULL in a key as 05, or leaves it out, which differs from how hbmodel writes "
                "None: leave None out of the annotation."
            )


@frozen
class OrderedIntCodec(_Ordered, FixedWidth[int]):
    """`OrderedBytes.encodeInt8` to `encodeInt64`, the types `OrderedInt8` to `OrderedInt64`: the header (29, 2A, 2B or
    2C) and the number, big-endian, with its sign bit flipped.
    """

    bits: int
    width: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.bits // 8 + 1, takes_self=True)
    )
    _header: bytes = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: INTEGERS[self.bits], takes_self=True)
    )
    _number: IntCodec = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: IntCodec(self.bits, True), takes_self=True)
    )

    python_type = int

    def encode(self, value: int) -> bytes:
        return self._header + self._number.encode(value)

    encode_part = encode

    def decode(self, data: bytes) -> int:
        if len(data) != self.width:
            _check_null(data, 0)
            raise wrong_width(self.width, len(data))
        _check_header(data, 0, self._header)
        return self._number.decode(data[1:])

    def floor(self, value: int) -> int | None:
        return floor_integer(value, self._number.low, self._number.high)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "ordered_int", "bits": self.bits}


@frozen
class OrderedFloatCodec(_Ordered, FloatsOfJava):
    """`OrderedBytes.encodeFloat32` and `encodeFloat64`, the types `OrderedFloat32` and `OrderedFloat64`: the header (30
    or 31) and IEEE 754, big-endian, with the sign bit flipped if positive and all bits flipped if negative.

    -0.0 is stored as 0.0. NaN is refused, and so is a -0.0 that Java stored, because equal numbers must have equal
    bytes in keys. `Float64(nan=True)` and `Float32(nan=True)` read and write both NaN and -0.0, in columns only.
    """

    width: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.bits // 8 + 1, takes_self=True)
    )
    _header: bytes = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: FLOATS[self.bits], takes_self=True)
    )

    def __call__(self, *, nan: bool) -> OrderedFloatCodec:
        """Returns the same codec with or without NaN and -0.0."""
        return OrderedFloatCodec(self.bits, nan)

    def _stored(self, word: int) -> bytes:
        return self._header + UNSIGNED[self.bits].pack(word)

    def _word(self, data: bytes) -> int:
        if len(data) != self.width:
            _check_null(data, 0)
            raise wrong_width(self.width, len(data))
        _check_header(data, 0, self._header)
        return int.from_bytes(data[1:], "big")

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "ordered_float", "bits": self.bits}


class _SelfEnding(_Ordered, Codec[T]):
    # Raw form and part form are the same, because Java writes the end mark in both.
    __slots__ = ()

    def encode_part(self, value: T) -> bytes:
        return self.encode(value)

    def decode(self, data: bytes) -> T:
        value, end = self.decode_part(data, 0)
        if end != len(data):
            raise DecodingError("Stored bytes continue after the end of their value.")
        return value


@frozen
class OrderedStringCodec(_SelfEnding[str]):
    """`OrderedBytes.encodeString`, the type `OrderedString`: the header 34, UTF-8, and 00 at the end, even in a column
    and at the end of a key.

    Text that contains 00 is refused, as in Java.
    """

    python_type = str

    def encode(self, value: str) -> bytes:
        data = to_utf8(value)
        if END in data:
            raise EncodingError("OrderedBytes ends a text with 00, so the text must not contain it: remove it.")
        return TEXT + data + END

    def decode_part(self, data: bytes, start: int) -> tuple[str, int]:
        end = self.part_end(data, start)
        return from_utf8(data[start + 1 : end - 1]), end

    def part_end(self, data: bytes, start: int) -> int:
        _check_header(data, start, TEXT)
        return delimited_end(data, start, END)

    def encode_prefix(self, prefix: str) -> bytes | None:
        data = to_utf8(prefix)
        return None if END in data else TEXT + data

    def floor(self, value: str) -> str:
        to_utf8(value)
        return value if "\0" not in value else value[: value.index("\0")]

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "ordered_string"}


@frozen
class OrderedBlobVarCodec(_SelfEnding[bytes]):
    """`OrderedBytes.encodeBlobVar`, the type `OrderedBlobVar`: the header 37, and the bits in groups of seven. Each
    group is stored in one byte. The high bit of each byte is set, except in the last one.

    Java's documentation says that these bytes keep the order, but they do not: FF is written as 37 FF 40, and the
    smaller FE FF as 37 FF BF 60.
    """

    python_type = bytes
    order = None
    raw_order = None

    def encode(self, value: bytes) -> bytes:
        data = to_bytes(value)
        groups = bytearray(BLOB_VAR)
        for at in range(0, len(data), 7):
            seven = data[at : at + 7]
            count = len(seven) + 1
            number = int.from_bytes(seven, "big") << (7 * count - 8 * len(seven))
            groups += bytes([0x80 | number >> shift & 0x7F for shift in range(7 * (count - 1), -1, -7)])
        if data:
            groups[-1] &= 0x7F
        else:
            groups += END
        return bytes(groups)

    def decode_part(self, data: bytes, start: int) -> tuple[bytes, int]:
        end = self.part_end(data, start)
        value = bytearray()
        for at in range(start + 1, end, 8):
            number = 0
            eight = data[at : min(at + 8, end)]
            for group in eight:
                number = number << 7 | group & 0x7F
            length = 7 * len(eight) // 8
            value += (number >> (7 * len(eight) - 8 * length)).to_bytes(length, "big")
        blob = bytes(value)
        if self.encode(blob) != data[start:end]:
            raise DecodingError("Stored bytes are not a BlobVar: bits are set after its end.")
        return blob, end

    def part_end(self, data: bytes, start: int) -> int:
        _check_header(data, start, BLOB_VAR)
        groups = GROUPS.match(data, start + 1)
        if groups is None:
            raise DecodingError("A stored BlobVar has no end.")
        return groups.end()

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "ordered_blob_var"}


@frozen
class OrderedBlobCodec(_Ordered, Codec[bytes]):
    """`OrderedBytes.encodeBlobCopy`, the type `OrderedBlob`: the header 38 and the bytes, unchanged.

    In a key this must be the last field, since nothing marks its end. With `desc=True`, 00 is appended and then all
    bytes are complemented. Therefore bytes that contain 00 are refused, as in Java.
    """

    python_type = bytes

    def check_row_key(self, *, nullable: bool, last: bool) -> None:
        super().check_row_key(nullable=nullable, last=last)
        if not last:
            raise DeclarationError(
                "Nothing marks the end of a Blob of OrderedBytes, so only the last field of a key can be one: "
                "declare it last, or use BlobVar."
            )

    def encode(self, value: bytes) -> bytes:
        return BLOB_COPY + to_bytes(value)

    def decode(self, data: bytes) -> bytes:
        _check_header(data, 0, BLOB_COPY)
        return data[1:]

    def encode_part(self, value: bytes) -> bytes:
        data = to_bytes(value)
        if END in data:
            raise EncodingError(
                "Where the end of a Blob must be marked, as in descending order, OrderedBytes marks it with 00: such a "
                "Blob cannot contain 00."
            )
        return BLOB_COPY + data + END

    def decode_part(self, data: bytes, start: int) -> tuple[bytes, int]:
        end = self.part_end(data, start)
        return data[start + 1 : end - 1], end

    def part_end(self, data: bytes, start: int) -> int:
        _check_header(data, start, BLOB_COPY)
        return delimited_end(data, start, END)

    def encode_prefix(self, prefix: bytes) -> bytes | None:
        data = to_bytes(prefix)
        return None if END in data else BLOB_COPY + data

    def raw_prefix(self, prefix: bytes) -> bytes:
        return BLOB_COPY + to_bytes(prefix)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "ordered_blob"}


def _varint(number: int) -> bytes:
    # the variable-length integers of SQLite4, but only those that exponents need
    if number <= 240:
        return bytes([number])
    if number <= 2287:
        return (number - 240 + (241 << 8)).to_bytes(2, "big")
    if number <= 67823:
        return b"\xf9" + (number - 2288).to_bytes(2, "big")
    if number < 1 << 24:
        return b"\xfa" + number.to_bytes(3, "big")
    return b"\xfb" + number.to_bytes(4, "big")


def _varint_at(data: bytes) -> tuple[int, int]:
    """Returns the number at the beginning of the bytes, and the length of its encoding. The caller must check that the
    number was encoded as `_varint` does it.
    """
    first = data[0] if data else 255
    if first <= 240:
        return first, 1
    if first <= 248:
        return int.from_bytes(data[:2], "big") - (241 << 8) + 240, 2
    if first == 249:
        return int.from_bytes(data[1:3], "big") + 2288, 3
    length = {250: 4, 251: 5}.get(first)
    if length is None:
        raise _no_number()
    return int.from_bytes(data[1:length], "big"), length


def _no_number() -> DecodingError:
    return DecodingError(
        "Stored bytes are not a finite number in the form that OrderedBytes writes in every version of HBase."
    )


@frozen
class OrderedNumericCodec(_SelfEnding[Decimal]):
    """`OrderedBytes.encodeNumeric`, the type `OrderedNumeric`: a header (08 to 22) with the sign and the base-100
    exponent, further bytes if the exponent is large or small, and the digits in pairs.

    A pair is written as twice its number, plus one if another pair follows. For a negative number, all bytes after the
    header are complemented. Java writes a `long` or `double` like the `BigDecimal` of the same value.

    Numbers have up to 31 digits and are less than 10 to the 702. Java rounds other numbers, or writes wrong bytes for
    them, so they are refused. Numerically equal values have the same bytes and come back normalised: `Decimal("1.50")`
    as `Decimal("1.5")`. NaN and infinity, which Java writes for a `double`, are refused.
    """

    python_type = Decimal

    def encode(self, value: Decimal) -> bytes:
        negative, digits = stripped_digits(value)
        if not digits:
            return bytes([ZERO])
        if len(digits) > MOST_DIGITS:
            raise EncodingError("OrderedBytes stores at most 31 digits of a decimal number: round it first.")
        pairs, exponent = pairs_of(digits, value.adjusted())
        exponent += 1
        if exponent > HIGHEST or 2 * (exponent - len(pairs)) < LOWEST:
            raise EncodingError("OrderedBytes does not store decimal numbers that large or that small.")
        if exponent > 10:
            header, body = LARGE, _varint(exponent)
        elif exponent > 0:
            header, body = MEDIUM + exponent, b""
        else:
            header, body = SMALL, _varint(-exponent).translate(COMPLEMENT)
        body += bytes([2 * pair + 1 for pair in pairs[:-1]]) + bytes([2 * pairs[-1]])
        return bytes([OPPOSITE - header]) + body.translate(COMPLEMENT) if negative else bytes([header]) + body

    def decode_part(self, data: bytes, start: int) -> tuple[Decimal, int]:
        header = data[start] if start < len(data) else 0
        if header == ZERO:
            return Decimal(0), start + 1
        negative, body = header < ZERO, data[start + 1 :]
        if negative:
            header, body = OPPOSITE - header, body.translate(COMPLEMENT)
        if header == LARGE:
            exponent, at = _varint_at(body)
        elif header == SMALL:
            exponent, at = _varint_at(body[:5].translate(COMPLEMENT))
            exponent = -exponent
        elif MEDIUM < header < LARGE:
            exponent, at = header - MEDIUM, 0
        else:
            _check_null(data, start)
            raise _no_number()
        pairs: list[int] = []
        for byte in body[at : at + MOST_PAIRS]:
            pairs.append(byte >> 1)
            if not byte & 1:
                break
        end = start + 1 + at + len(pairs)
        if not pairs or max(pairs) > 99:
            raise _no_number()
        value = number_of_pairs(int(negative), pairs, exponent - 1)
        try:
            same = self.encode(value) == data[start:end]
        except EncodingError:
            same = False
        if not same:
            raise _no_number()
        return value, end

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "ordered_numeric"}


OrderedInt8 = OrderedIntCodec(8)
OrderedInt16 = OrderedIntCodec(16)
OrderedInt32 = OrderedIntCodec(32)
OrderedInt64 = OrderedIntCodec(64)
OrderedFloat32 = OrderedFloatCodec(32)
OrderedFloat64 = OrderedFloatCodec(64)
OrderedString = OrderedStringCodec()
OrderedBlobVar = OrderedBlobVarCodec()
OrderedBlob = OrderedBlobCodec()
OrderedNumeric = OrderedNumericCodec()

SPECS: SpecReaders = {
    "ordered_int": lambda spec, codec_of: OrderedIntCodec(spec["bits"]),
    "ordered_float": lambda spec, codec_of: OrderedFloatCodec(spec["bits"]),
    "ordered_string": lambda spec, codec_of: OrderedString,
    "ordered_blob_var": lambda spec, codec_of: OrderedBlobVar,
    "ordered_blob": lambda spec, codec_of: OrderedBlob,
    "ordered_numeric": lambda spec, codec_of: OrderedNumeric,
}
