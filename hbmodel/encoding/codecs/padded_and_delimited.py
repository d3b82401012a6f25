"""Text formats of other programs' keys: numbers with leading zeros, hex numbers, and text up to a delimiter."""

from __future__ import annotations

import re
from typing import Any

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, FixedWidth, Order, SpecReaders, declared_width, wrong_width
from hbmodel.encoding.codecs.integers import floor_integer, integer, out_of_range
from hbmodel.encoding.codecs.text import from_utf8, to_utf8
from hbmodel.errors import DeclarationError, DecodingError, EncodingError, QueryError

DECIMAL_DIGITS = re.compile(rb"[0-9]+")
HEX_DIGITS = re.compile(rb"[0-9a-f]+")


def digits_of(value: int, width: int) -> bytes:
    """Formats a number as `width` decimal digits."""
    number = integer(value)
    if not 0 <= number < 10**width:
        raise out_of_range(0, 10**width - 1)
    return b"%0*d" % (width, number)


def number_of(data: bytes, width: int) -> int:
    """Parses a number of `width` decimal digits."""
    if len(data) != width:
        raise wrong_width(width, len(data))
    if not DECIMAL_DIGITS.fullmatch(data):
        raise DecodingError("Stored bytes are not decimal digits.")
    return int(data)


@frozen
class DecimalText(FixedWidth[int]):
    """A non-negative number as decimal text of `width` digits, with leading zeros: 42 as `00000042`."""

    width: int = field(converter=declared_width)

    python_type = int
    low = 0

    @property
    def high(self) -> int:
        """The largest number."""
        largest: int = 10**self.width - 1
        return largest

    def encode(self, value: int) -> bytes:
        return digits_of(value, self.width)

    encode_part = encode

    def decode(self, data: bytes) -> int:
        return number_of(data, self.width)

    def floor(self, value: int) -> int | None:
        return floor_integer(value, self.low, self.high)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "decimal_text", "width": self.width}


@frozen
class ReverseDecimalText(DecimalText):
    """A non-negative number, subtracted from the largest number of `width` digits, as decimal text: `"%013d" % (10**13
    - 1 - n)` for 13 digits. The largest number sorts first.
    """

    order = "descending"
    raw_order = "descending"

    def encode(self, value: int) -> bytes:
        return digits_of(self.high - integer(value), self.width)

    encode_part = encode

    def decode(self, data: bytes) -> int:
        return self.high - number_of(data, self.width)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "reverse_decimal_text", "width": self.width}


@frozen
class HexText(FixedWidth[int]):
    """A non-negative number as hex text of `width` lower-case digits, with leading zeros: 42 as `0000002a`."""

    width: int = field(converter=declared_width)

    python_type = int
    low = 0

    @property
    def high(self) -> int:
        """The largest number."""
        largest: int = 16**self.width - 1
        return largest

    def encode(self, value: int) -> bytes:
        number = integer(value)
        if not self.low <= number <= self.high:
            raise out_of_range(self.low, self.high)
        return b"%0*x" % (self.width, number)

    encode_part = encode

    def decode(self, data: bytes) -> int:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        if not HEX_DIGITS.fullmatch(data):
            raise DecodingError("Stored bytes are not lower-case hex digits.")
        return int(data, 16)

    def floor(self, value: int) -> int | None:
        return floor_integer(value, self.low, self.high)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "hex_text", "width": self.width}


INTEGER_TEXT = re.compile(rb"0|-?[1-9][0-9]*")


def integer_text(value: int) -> bytes:
    """Returns an integer as decimal text without leading zeros."""
    number = integer(value)
    try:
        return b"%d" % number
    except ValueError:  # Python refuses to convert more digits than its limit
        raise EncodingError("An integer has too many digits to be stored as text.") from None


def text_integer(data: bytes) -> int:
    """Parses the integer that these bytes contain as text."""
    if not INTEGER_TEXT.fullmatch(data):
        raise DecodingError("Stored bytes are not the text of an integer without leading zeros.")
    try:
        return int(data)
    except ValueError:
        raise DecodingError("Stored text has more digits than Python converts to an integer.") from None


def declared_delimiter(delimiter: Any) -> bytes:
    """Returns the bytes of a delimiter, as a model declares it."""
    data = delimiter.encode() if isinstance(delimiter, str) else delimiter
    if not isinstance(data, bytes) or not data:
        raise DeclarationError("A delimiter must have at least one byte.", found=repr(delimiter))
    return data


def delimited_end(data: bytes, start: int, delimiter: bytes) -> int:
    """Returns the position after the next delimiter."""
    end = data.find(delimiter, start)
    if end < 0:
        raise DecodingError("A field has no delimiter after it.", delimiter=delimiter)
    return end + len(delimiter)


@frozen
class Delimited(Codec[str]):
    """Text (UTF-8) that ends at a delimiter if another field follows: `a|b` for two fields. The raw form has no
    delimiter.

    Values that contain the delimiter are refused. `a!` sorts before `a` if `|` follows both, so parts do not preserve
    order, except with the delimiter 00. If the field is the last one, its bytes preserve order.

    Args:
        delimiter: one or more bytes, or ASCII text.
    """

    delimiter: bytes = field(converter=declared_delimiter)
    order: Order = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: "ascending" if self.delimiter == b"\x00" else None, takes_self=True),
    )

    python_type = str
    may_be_empty = True

    def encode(self, value: str) -> bytes:
        data = to_utf8(value)
        # The value is searched together with the delimiter, so that a value that ends with a part of the delimiter is
        # refused too.
        if (data + self.delimiter).find(self.delimiter) != len(data):
            raise EncodingError(
                "The delimiter is stored after the text, so the text must not contain it, or end with its first bytes.",
                delimiter=self.delimiter,
            )
        return data

    def decode(self, data: bytes) -> str:
        if (data + self.delimiter).find(self.delimiter) != len(data):
            raise DecodingError("Stored text contains its delimiter.", delimiter=self.delimiter)
        return from_utf8(data)

    def encode_part(self, value: str) -> bytes:
        return self.encode(value) + self.delimiter

    def decode_part(self, data: bytes, start: int) -> tuple[str, int]:
        end = self.part_end(data, start)
        return from_utf8(data[start : end - len(self.delimiter)]), end

    def part_end(self, data: bytes, start: int) -> int:
        return delimited_end(data, start, self.delimiter)

    def encode_prefix(self, prefix: str) -> bytes | None:
        data = self.raw_prefix(prefix)
        if data is not None and any(data.endswith(self.delimiter[:length]) for length in range(1, len(self.delimiter))):
            # The delimiter of a shorter value may begin with these bytes.
            raise QueryError(
                "Delimited text cannot be searched by a prefix whose last bytes are the first bytes of the delimiter: "
                "use a shorter prefix."
            )
        return data

    def raw_prefix(self, prefix: str) -> bytes | None:
        data = to_utf8(prefix)
        return None if self.delimiter in data else data

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "delimited", "delimiter": self.delimiter.hex()}


def _integer_delimiter(delimiter: Any) -> bytes:
    data = declared_delimiter(delimiter)
    if set(data) & set(b"0123456789"):
        raise DeclarationError(
            "The delimiter of an integer must not contain a digit: for numbers of a fixed width without a delimiter, "
            "declare hb.codecs.DecimalText(width).",
            found=repr(delimiter),
        )
    return data


@frozen
class DelimitedInt(Codec[int]):
    """An integer as decimal text without leading zeros, which ends at a delimiter if another field follows: `"%d_%d"`.
    The raw form has no delimiter.

    Text does not sort as numbers do (10 comes before 9), so there are no ranges and no order.

    Args:
        delimiter: one or more bytes, or ASCII text, without digits. If it contains `-`, numbers below 0 are refused.
    """

    delimiter: bytes = field(converter=_integer_delimiter)

    python_type = int
    order = None
    raw_order = None

    def encode(self, value: int) -> bytes:
        data = integer_text(value)
        if data.startswith(b"-") and b"-" in self.delimiter:
            raise EncodingError("A number below 0 cannot be stored as text if the delimiter contains a minus sign.")
        return data

    def decode(self, data: bytes) -> int:
        if data.startswith(b"-") and b"-" in self.delimiter:
            raise DecodingError(
                "Stored text of a number has a minus sign, which the delimiter contains.", delimiter=self.delimiter
            )
        return text_integer(data)

    def encode_part(self, value: int) -> bytes:
        return self.encode(value) + self.delimiter

    def decode_part(self, data: bytes, start: int) -> tuple[int, int]:
        end = self.part_end(data, start)
        return self.decode(data[start : end - len(self.delimiter)]), end

    def part_end(self, data: bytes, start: int) -> int:
        return delimited_end(data, start, self.delimiter)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "delimited_int", "delimiter": self.delimiter.hex()}


SPECS: SpecReaders = {
    "decimal_text": lambda spec, codec_of: DecimalText(spec["width"]),
    "reverse_decimal_text": lambda spec, codec_of: ReverseDecimalText(spec["width"]),
    "hex_text": lambda spec, codec_of: HexText(spec["width"]),
    "delimited_int": lambda spec, codec_of: DelimitedInt(bytes.fromhex(spec["delimiter"])),
    "delimited": lambda spec, codec_of: Delimited(bytes.fromhex(spec["delimiter"])),
}
