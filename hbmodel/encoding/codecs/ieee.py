"""IEEE 754 numbers of 32 and 64 bits: exact values, and words that sort as the numbers do."""

from __future__ import annotations

from abc import abstractmethod
from math import inf, isinf, isnan, nan
from numbers import Real
from struct import Struct
from typing import Any

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import FixedWidth, wrong_type
from hbmodel.encoding.codecs.integers import UNSIGNED
from hbmodel.errors import DeclarationError, DecodingError, EncodingError

IEEE = {32: Struct(">f"), 64: Struct(">d")}
LARGEST_SINGLE: float = IEEE[32].unpack(b"\x7f\x7f\xff\xff")[0]


def exact_float(value: object) -> float:
    """Returns the float that equals a real number, such as an int, a fraction or a float of NumPy.

    Raises:
        EncodingError: the value is not a real number, or a double cannot represent it exactly.
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


def exact_single(value: object) -> float:
    """Returns the float that equals a real number and can be stored exactly in four bytes.

    Raises:
        EncodingError: the value is not a real number, or would be rounded.
    """
    number = exact_float(value)
    try:
        same = isnan(number) or isinf(number) or IEEE[32].unpack(IEEE[32].pack(number))[0] == number
    except OverflowError:
        same = False
    if not same:
        raise EncodingError(
            "A number has no exact float of 32 bits and would lose precision: round it first, in NumPy with "
            "float(numpy.float32(number))."
        )
    return number


def single_below(number: float) -> float:
    """Returns the largest 32-bit float that is less than or equal to a number.

    Raises:
        EncodingError: the number is NaN.
    """
    if isnan(number):
        raise nan_without_order()
    try:
        data = IEEE[32].pack(number)
    except OverflowError:
        return LARGEST_SINGLE if number > 0 else -inf
    near: float = IEEE[32].unpack(data)[0]
    if near <= number:
        return near
    # The previous number has the next smaller word or, if it is below zero, the next larger word.
    word = int.from_bytes(data, "big")
    step = 1 if word >> 31 else -1
    below: float = IEEE[32].unpack((word + step).to_bytes(4, "big"))[0]
    return below


def declared_nan(nan: Any) -> bool:
    """Validates the option `nan` of a declaration, which is True or False."""
    if type(nan) is not bool:
        raise DeclarationError("nan must be True or False.", found=repr(nan))
    return nan


def nan_without_order() -> EncodingError:
    """Returns the error that a comparison with NaN raises."""
    return EncodingError("NaN has no order: use == or in_ to find the rows that hold it.")


def float_bits(bits: int) -> int:
    """Returns the number of bits in the description of a codec; raises KeyError unless it is 32 or 64."""
    if bits not in IEEE:
        raise KeyError(bits)
    return bits


def word_in_order(number: float, bits: int) -> int:
    """Returns the bits of a number as an unsigned integer. All bits are flipped if the number is negative, otherwise
    only the sign bit is flipped. These words sort as the numbers do, and NaN sorts above all numbers.
    """
    sign = 1 << (bits - 1)
    word: int = UNSIGNED[bits].unpack(IEEE[bits].pack(number))[0]
    return word ^ (2 * sign - 1) if word & sign else word | sign


def number_in_order(word: int, bits: int) -> float:
    """Returns the number that a word represents; the inverse of `word_in_order`."""
    sign = 1 << (bits - 1)
    number: float = IEEE[bits].unpack(UNSIGNED[bits].pack(word ^ sign if word & sign else word ^ (2 * sign - 1)))[0]
    return number


def is_negative_zero(word: int, bits: int) -> bool:
    """Whether a word of `word_in_order` represents -0.0, which equals 0.0 but has different bits."""
    return word == (1 << (bits - 1)) - 1


@frozen
class FloatsOfJava(FixedWidth[float]):
    """Base class of codecs that store the words of `word_in_order` in the form of a Java program. -0.0 is stored as
    0.0, and NaN is refused. With `nan=True`, which is for columns only, both -0.0 and NaN are stored.
    """

    bits: int
    nan: bool = field(default=False, converter=declared_nan)
    key: bool = field(init=False, eq=False, repr=False, default=Factory(lambda self: not self.nan, takes_self=True))

    python_type = float

    @abstractmethod
    def _stored(self, word: int) -> bytes:
        """Converts a word of `word_in_order` to the stored bytes."""

    @abstractmethod
    def _word(self, data: bytes) -> int:
        """Converts stored bytes to a word of `word_in_order`. Raises `DecodingError` for bytes that `_stored` never
        returns.
        """

    def encode(self, value: float) -> bytes:
        number = exact_float(value) if self.bits == 64 else exact_single(value)
        if isnan(number):
            if not self.nan:
                raise EncodingError(
                    "NaN cannot be stored here, because it has no order: store None in a field that allows it, or "
                    "declare a column that accepts NaN, with nan=True."
                )
            number = nan  # Java writes a single NaN
        elif not self.nan:
            number += 0.0  # turns -0.0 into 0.0 and does not change any other number
        return self._stored(word_in_order(number, self.bits))

    def encode_part(self, value: float) -> bytes:
        return self.encode(value)

    def decode(self, data: bytes) -> float:
        word = self._word(data)
        number = number_in_order(word, self.bits)
        if (is_negative_zero(word, self.bits) or isnan(number)) and not self.nan:
            raise DecodingError(
                "Stored bytes are a NaN or a negative zero, which have no order: declare a column with nan=True."
            )
        if isnan(number) and self.encode(number) != data:
            raise DecodingError("Stored bytes are a NaN that Java does not write.")
        return number

    @property
    def canonical(self) -> bool:
        return not self.nan  # 0.0 equals -0.0

    def floor(self, value: float) -> float:
        number = exact_float(value)
        if isnan(number):
            if not self.nan:
                return value  # encode() refuses it
            raise nan_without_order()
        return single_below(number) if self.bits == 32 else value

    def order_key(self, value: float) -> Any:
        return float(value)
