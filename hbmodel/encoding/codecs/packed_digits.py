"""Converts decimal numbers to digits or pairs of digits, as several formats write them, and back."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from hbmodel.encoding.codecs.base import wrong_type
from hbmodel.errors import EncodingError


def finite_digits(value: Decimal) -> tuple[int, tuple[int, ...], int]:
    """Returns the sign (1 if negative), the digits and the exponent of a number.

    Raises:
        EncodingError: the value is not a finite decimal number.
    """
    if not isinstance(value, Decimal):
        raise wrong_type(Decimal, value)
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise EncodingError("Only finite decimal numbers can be stored.")
    return sign, digits, exponent


def stripped_digits(value: Decimal) -> tuple[int, str]:
    """Returns the sign and the digits of a number without zeros at the end; zero has no digits.

    Raises:
        EncodingError: the value is not a finite decimal number.
    """
    sign, digits, _ = finite_digits(value)
    return sign, "".join(map(str, digits)).rstrip("0")


def pairs_of(digits: str, exponent: int) -> tuple[list[int], int]:
    """Splits digits into pairs. Returns the pairs and the base-100 exponent of the first pair; `exponent` is the
    base-10 exponent of the first digit.
    """
    exponent, odd = divmod(exponent, 2)
    digits = digits if odd else "0" + digits
    digits += "0" * (len(digits) % 2)
    return [int(digits[i : i + 2]) for i in range(0, len(digits), 2)], exponent


def number_of_pairs(sign: int, pairs: Sequence[int], exponent: int) -> Decimal:
    """Returns the normalised number that has these pairs of digits; `exponent` is the base-100 exponent of the first
    pair.
    """
    digits = "".join([f"{pair:02d}" for pair in pairs]).rstrip("0")
    return Decimal((sign, tuple(map(int, digits.lstrip("0"))), 2 * exponent + 2 - len(digits)))
