"""Integers as fixed-width, order-preserving, big-endian bytes."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, DefaultCodecs, FixedWidth, Source, SpecReaders, wrong_type, wrong_width
from hbmodel.errors import EncodingError
from hbmodel.store.checks.numbers import whole_number

UNSIGNED = {8: Struct(">B"), 16: Struct(">H"), 32: Struct(">I"), 64: Struct(">Q")}


def integer(value: Any) -> int:
    """Converts any integer (an object with `__index__`), including the scalars of NumPy, to a plain int.

    Raises:
        EncodingError: the value is not an integer, or is a bool.
    """
    number = whole_number(value)
    if number is None:
        raise wrong_type(int, value)
    return number


def out_of_range(low: int, high: int) -> EncodingError:
    """Returns the error for an integer that does not fit; integers are never wrapped or truncated."""
    return EncodingError(
        "An integer is out of the range of its codec: it must be from `low` to `high`.", low=low, high=high
    )


def floor_integer(value: Any, low: int, high: int) -> int | None:
    """Returns the largest integer from `low` to `high` that is not above `value`, or None if there is no such
    integer.
    """
    number = value if type(value) is int else integer(value)
    return None if number < low else min(number, high)


@frozen
class IntCodec(FixedWidth[int]):
    """An integer of 1 to 8 bytes, big-endian.

    Signed: the sign bit is flipped (the lowest number is all 00). Unsigned: unchanged, which for non-negative numbers
    equals Java's `Bytes.toBytes`.
    """

    bits: int
    signed: bool
    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.bits // 8, takes_self=True))
    low: int = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: -(1 << (self.bits - 1)) if self.signed else 0, takes_self=True),
    )
    high: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.low + (1 << self.bits) - 1, takes_self=True)
    )
    # `struct` has words of 1, 2, 4 and 8 bytes only
    _struct: Struct | None = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: UNSIGNED.get(self.bits), takes_self=True)
    )

    python_type = int

    def encode(self, value: int) -> bytes:
        if type(value) is not int:
            value = integer(value)
        try:
            if self._struct is None:
                return (value - self.low).to_bytes(self.width, "big")
            return self._struct.pack(value - self.low)
        except (StructError, OverflowError):
            raise out_of_range(self.low, self.high) from None

    encode_part = encode

    def decode(self, data: bytes) -> int:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        return int.from_bytes(data, "big") + self.low

    def decode_part(self, data: bytes, start: int) -> tuple[int, int]:
        if self._struct is None:
            return super().decode_part(data, start)
        try:
            number: int = self._struct.unpack_from(data, start)[0]
        except StructError:
            raise wrong_width(self.width, len(data) - start) from None
        return number + self.low, start + self.width

    def floor(self, value: int) -> int | None:
        return floor_integer(value, self.low, self.high)

    @property
    def source(self) -> Source | None:
        if self._struct is None:
            return None
        word = self._struct.format[1:]
        if not self.low:
            return Source(int, "{v}", "{v}", word)
        return Source(int, f"({{v}} - {-self.low})", f"{{v}} + {-self.low}", word)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "int", "bits": self.bits, "signed": self.signed}


Int8 = IntCodec(8, True)
Int16 = IntCodec(16, True)
Int32 = IntCodec(32, True)
Int64 = IntCodec(64, True)
UInt8 = IntCodec(8, False)
UInt16 = IntCodec(16, False)
UInt24 = IntCodec(24, False)
UInt32 = IntCodec(32, False)
UInt40 = IntCodec(40, False)
UInt48 = IntCodec(48, False)
UInt56 = IntCodec(56, False)
UInt64 = IntCodec(64, False)

DEFAULTS: DefaultCodecs = {int: Int64}
BITS = frozenset({*UNSIGNED, 24, 40, 48, 56})


def _of_spec(bits: int, signed: bool) -> IntCodec:
    if bits not in BITS:
        raise KeyError(bits)
    return IntCodec(bits, signed)


SPECS: SpecReaders = {"int": lambda spec, codec_of: _of_spec(spec["bits"], spec["signed"])}
