"""Floating-point numbers as eight order-preserving bytes."""

from __future__ import annotations

from math import isnan
from numbers import Real
from struct import Struct

from attrs import frozen

from hbmodel.encoding.codecs.base import JSON, FixedWidth, Source, wrong_type, wrong_width
from hbmodel.errors import DecodingError, EncodingError

DOUBLE = Struct(">d")
WORD = Struct(">Q")
SIGN = 1 << 63
ALL = (1 << 64) - 1
NEGATIVE_ZERO = WORD.pack(SIGN ^ ALL)


def _exact(value: object) -> float:
    # Any real number is welcome if a double holds all of it: ints, NumPy's floats of other sizes, fractions.
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(float, value)
    try:
        number = float(value)
    except OverflowError:
        raise EncodingError("A number is too large for a double.") from None
    if number != value and not isnan(number):
        raise EncodingError("A number has no exact double; it would lose precision.", found=type(value).__name__)
    return number


@frozen
class FloatCodec(FixedWidth[float]):
    """An IEEE 754 double, big-endian, with the sign bit flipped if positive and all bits flipped if negative.

    NaN is refused: it has no place in an order. -0.0 is equal to 0.0 and written as it.
    """

    python_type = float
    width = 8

    def encode(self, value: float) -> bytes:
        """Eight bytes that sort as the numbers do."""
        if type(value) is not float:
            value = _exact(value)
        if isnan(value):
            raise EncodingError("NaN cannot be stored: it has no place in an order.")
        # Adding 0.0 turns -0.0 into 0.0 and leaves every other number alone.
        word: int = WORD.unpack(DOUBLE.pack(value + 0.0))[0]
        return WORD.pack(word ^ ALL if word & SIGN else word | SIGN)

    encode_part = encode

    def decode(self, data: bytes) -> float:
        """The number in these bytes."""
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        word: int = WORD.unpack(data)[0]
        number: float = DOUBLE.unpack(WORD.pack(word ^ SIGN if word & SIGN else word ^ ALL))[0]
        if isnan(number) or data == NEGATIVE_ZERO:
            raise DecodingError("Stored bytes are a NaN or a negative zero, which are never written.")
        return number

    @property
    def source(self) -> Source | None:
        """Expressions for values of exactly the codec's type."""
        # A positive number is stored with its sign flipped, as the negative one; the others are left to the methods.
        return Source(
            float,
            "(-{t} if ({t} := {unpack}({v})[0]) < 0 else {decode}({v}))",
            "({pack}(-{v}) if {v} > 0 else {encode}({v}))",
            scope={"unpack": DOUBLE.unpack, "pack": DOUBLE.pack, "decode": self.decode, "encode": self.encode},
        )

    @property
    def spec(self) -> dict[str, JSON]:
        """The number of bits."""
        return {"codec": "float", "bits": 64}


Float64 = FloatCodec()
