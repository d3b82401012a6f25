"""Floating-point numbers as eight order-preserving bytes."""

from __future__ import annotations

from math import isnan, nan
from numbers import Real
from struct import Struct
from typing import Any

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, DefaultCodecs, FixedWidth, Source, SpecReaders, wrong_type, wrong_width
from hbmodel.errors import DeclarationError, DecodingError, EncodingError

DOUBLE = Struct(">d")
WORD = Struct(">Q")
SIGN = 1 << 63
ALL = (1 << 64) - 1
NEGATIVE_ZERO = WORD.pack(SIGN ^ ALL)
NAN = bytes.fromhex("fff8000000000000")
"""The bytes of every NaN: those of Java's canonical NaN, which sort above all numbers."""


def exact_float(value: object) -> float:
    """A float that equals a real number: an int, a fraction, one of NumPy's floats.

    Raises:
        EncodingError: the value is none, or a double cannot hold all of it.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(float, value)
    try:
        number = float(value)
    except OverflowError:
        raise EncodingError("A number is too large for a double.") from None
    if number != value and not isnan(number):
        raise EncodingError(
            "A number has no exact double and would lose precision: convert it with float() first, or use a Decimal.",
            found=type(value).__name__,
        )
    return number


def declared_nan(nan: Any) -> bool:
    """Whether NaN is stored, given in a declaration; it is True or False."""
    if type(nan) is not bool:
        raise DeclarationError("nan must be True or False.", found=repr(nan))
    return nan


@frozen
class FloatCodec(FixedWidth[float]):
    """An IEEE 754 double, big-endian, with the sign bit flipped if positive and all bits flipped if negative.

    NaN is refused: it has no place in an order. -0.0 equals 0.0 and has the same bytes.

    `Float64(nan=True)` stores NaN too, in columns alone. In queries `==` and `in_` with NaN find the rows that hold it,
    whichever NaN it is; `<` and its like are false for it, as in Python. All other bytes are those of `Float64`.
    """

    nan: bool = field(default=False, converter=declared_nan)
    key: bool = field(init=False, eq=False, repr=False, default=Factory(lambda self: not self.nan, takes_self=True))

    python_type = float
    width = 8

    def __call__(self, *, nan: bool) -> FloatCodec:
        """The same with or without NaN."""
        return FloatCodec(nan)

    def encode(self, value: float) -> bytes:
        if type(value) is not float:
            value = exact_float(value)
        if isnan(value):
            if self.nan:
                return NAN
            raise EncodingError(
                "NaN cannot be stored here, because it has no order: store None in a field that allows it, or "
                "declare a column that "
                "accepts NaN: hb.column(codec=hb.Float64(nan=True))."
            )
        # Adding 0.0 turns -0.0 into 0.0 and leaves every other number alone.
        word: int = WORD.unpack(DOUBLE.pack(value + 0.0))[0]
        return WORD.pack(word ^ ALL if word & SIGN else word | SIGN)

    encode_part = encode

    def decode(self, data: bytes) -> float:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        word: int = WORD.unpack(data)[0]
        number: float = DOUBLE.unpack(WORD.pack(word ^ SIGN if word & SIGN else word ^ ALL))[0]
        if isnan(number) or data == NEGATIVE_ZERO:
            if self.nan and data == NAN:
                return nan
            raise DecodingError(
                "Stored bytes are a NaN or a negative zero, which this codec never writes; see hb.Float64(nan=True)."
            )
        return number

    @property
    def canonical(self) -> bool:
        return True

    def floor(self, value: float) -> float:
        if self.nan and isinstance(value, Real) and value != value:  # noqa: PLR0124
            raise EncodingError("NaN has no order: use == or in_ to find the rows that hold it.")
        return value

    def order_key(self, value: float) -> Any:
        return float(value)

    @property
    def source(self) -> Source | None:
        # A positive number is stored with its sign flipped, as the negative one; the others are left to the methods.
        return Source(
            float,
            "(-{t} if ({t} := {unpack}({v})[0]) < 0 else {decode}({v}))",
            "({pack}(-{v}) if {v} > 0 else {encode}({v}))",
            scope={"unpack": DOUBLE.unpack, "pack": DOUBLE.pack, "decode": self.decode, "encode": self.encode},
        )

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "float", "bits": 64}


Float64 = FloatCodec()

DEFAULTS: DefaultCodecs = {float: Float64}
SPECS: SpecReaders = {"float": lambda spec, codec_of: Float64}
