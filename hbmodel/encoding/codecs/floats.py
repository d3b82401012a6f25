"""Floating-point numbers as eight or four order-preserving bytes."""

from __future__ import annotations

from math import isnan, nan
from numbers import Real
from typing import Any

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, DefaultCodecs, FixedWidth, Source, SpecReaders, wrong_width
from hbmodel.encoding.codecs.ieee import (
    IEEE,
    declared_nan,
    exact_float,
    exact_single,
    float_bits,
    is_negative_zero,
    nan_without_order,
    number_in_order,
    single_below,
    word_in_order,
)
from hbmodel.encoding.codecs.integers import UNSIGNED
from hbmodel.errors import DecodingError, EncodingError

NAN = {64: bytes.fromhex("fff8000000000000"), 32: bytes.fromhex("ffc00000")}
"""The bytes of every NaN, by the number of bits: the bytes of Java's canonical NaN, which sort above all numbers."""


@frozen
class FloatCodec(FixedWidth[float]):
    """An IEEE 754 number of 64 or 32 bits, big-endian, with the sign bit flipped if positive and all bits flipped if
    negative.

    NaN is refused, because it has no place in an order. -0.0 equals 0.0 and has the same bytes. With 32 bits, a number
    that would be rounded is refused, because a query for the number would not find its row.

    `Float64(nan=True)` and `Float32(nan=True)` store NaN too, in columns only. In queries, `==` and `in_` with any NaN
    find the rows that contain a NaN. As in Python, `<` and the other comparisons are false for NaN. All other values
    have the same bytes as without `nan=True`.
    """

    bits: int = 64
    nan: bool = field(default=False, converter=declared_nan)
    key: bool = field(init=False, eq=False, repr=False, default=Factory(lambda self: not self.nan, takes_self=True))
    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.bits // 8, takes_self=True))

    python_type = float

    def __call__(self, *, nan: bool) -> FloatCodec:
        """Returns the same codec with or without NaN."""
        return FloatCodec(self.bits, nan)

    def encode(self, value: float) -> bytes:
        if self.bits == 32:
            value = exact_single(value)
        elif type(value) is not float:
            value = exact_float(value)
        if isnan(value):
            if self.nan:
                return NAN[self.bits]
            raise EncodingError(
                "NaN cannot be stored here, because it has no order: store None in a field that allows it, or "
                "declare a column that accepts NaN: hb.column(codec=hb.Float64(nan=True))."
            )
        # Adding 0.0 turns -0.0 into 0.0 and does not change any other number.
        return UNSIGNED[self.bits].pack(word_in_order(value + 0.0, self.bits))

    encode_part = encode

    def decode(self, data: bytes) -> float:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        word = int.from_bytes(data, "big")
        number = number_in_order(word, self.bits)
        if isnan(number) or is_negative_zero(word, self.bits):
            if self.nan and data == NAN[self.bits]:
                return nan
            raise DecodingError(
                "Stored bytes are a NaN or a negative zero, which this codec never writes; see hb.Float64(nan=True)."
            )
        return number

    @property
    def canonical(self) -> bool:
        return True

    def floor(self, value: float) -> float:
        if isinstance(value, Real) and value != value:  # noqa: PLR0124
            if not self.nan:
                return value  # encode() refuses it
            raise nan_without_order()
        return value if self.bits == 64 else single_below(exact_float(value))

    def order_key(self, value: float) -> Any:
        return float(value)

    @property
    def source(self) -> Source | None:
        # A positive number is stored as the bytes of its negation; other values are left to the methods.
        stored = "({pack}(-{v}) if {v} > 0 else {encode}({v}))" if self.bits == 64 else "{encode}({v})"
        return Source(
            float,
            "(-{t} if ({t} := {unpack}({v})[0]) < 0 else {decode}({v}))",
            stored,
            scope={
                "unpack": IEEE[self.bits].unpack,
                "pack": IEEE[self.bits].pack,
                "decode": self.decode,
                "encode": self.encode,
            },
        )

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "float", "bits": self.bits}


Float64 = FloatCodec()
Float32 = FloatCodec(32)

DEFAULTS: DefaultCodecs = {float: Float64}
SPECS: SpecReaders = {"float": lambda spec, codec_of: FloatCodec(float_bits(spec["bits"]))}
