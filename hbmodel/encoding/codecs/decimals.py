"""Decimal numbers of any precision as order-preserving bytes."""

from __future__ import annotations

from decimal import Decimal
from struct import Struct
from struct import error as StructError

from attrs import frozen

from hbmodel.encoding.codecs.base import COMPLEMENT, JSON, Codec, DefaultCodecs, SpecReaders
from hbmodel.encoding.codecs.packed_digits import stripped_digits
from hbmodel.errors import DecodingError, EncodingError

NEGATIVE, ZERO, POSITIVE = b"\x01", b"\x02", b"\x03"
EXPONENT = Struct(">I")
EXPONENT_OFFSET = 1 << 31
PAIRS = tuple(bytes((pair + 1,)) for pair in range(100))


def _digits(data: bytes) -> str:
    digits = "".join([f"{byte - 1:02d}" for byte in data])
    # A pair is 01 (zero) to 64 (ninety-nine). Only the last pair may end in a digit that is padding. The digits of the
    # last pair are never 00.
    if not data or max(data) > 100 or digits.startswith("0") or digits.endswith("00"):
        raise DecodingError("Stored bytes are not a decimal number.")
    return digits.rstrip("0")


@frozen
class DecimalCodec(Codec[Decimal]):
    """A finite decimal number: sign byte (01 negative, 02 zero, 03 positive), exponent, digits, terminator.

    The number has the form 0.d1d2... times ten to the exponent. Its bytes are the exponent (an order-preserving Int32),
    the digits in pairs, each pair plus one so that no pair is 00, and 00 as the terminator. For negative numbers
    everything after the sign byte is complemented. Numerically equal values have the same bytes and come back
    normalised: `Decimal("1.50")` as `Decimal("1.5")`. Raw and part form are the same.
    """

    python_type = Decimal

    def encode(self, value: Decimal) -> bytes:
        sign, digits = stripped_digits(value)
        if not digits:
            return ZERO
        if len(digits) % 2:
            digits += "0"
        try:
            exponent = EXPONENT.pack(value.adjusted() + 1 + EXPONENT_OFFSET)
        except StructError:
            raise EncodingError("The exponent of a decimal number does not fit in 32 bits.") from None
        body = exponent + b"".join([PAIRS[int(digits[i : i + 2])] for i in range(0, len(digits), 2)]) + b"\x00"
        return NEGATIVE + body.translate(COMPLEMENT) if sign else POSITIVE + body

    encode_part = encode

    def decode(self, data: bytes) -> Decimal:
        value, end = self.decode_part(data, 0)
        if end != len(data):
            raise DecodingError("Stored bytes continue after the end of a decimal number.")
        return value

    def decode_part(self, data: bytes, start: int) -> tuple[Decimal, int]:
        sign = data[start : start + 1]
        if sign == ZERO:
            return Decimal(0), start + 1
        if sign not in (NEGATIVE, POSITIVE):
            raise DecodingError("Stored bytes are not a decimal number.")
        end = data.find(b"\x00" if sign == POSITIVE else b"\xff", start + 5)
        if end < 0:
            raise DecodingError("Stored bytes are not a decimal number.")
        body = data[start + 1 : end]
        if sign == NEGATIVE:
            body = body.translate(COMPLEMENT)
        exponent: int = EXPONENT.unpack_from(body)[0] - EXPONENT_OFFSET
        digits = _digits(body[4:])
        # The constructor, unlike arithmetic, is exact whatever the precision of the current context.
        return Decimal(f"{'-' if sign == NEGATIVE else ''}{digits}E{exponent - len(digits)}"), end + 1

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "decimal"}


DecimalNumber = DecimalCodec()

DEFAULTS: DefaultCodecs = {Decimal: DecimalNumber}
SPECS: SpecReaders = {"decimal": lambda spec, codec_of: DecimalNumber}
