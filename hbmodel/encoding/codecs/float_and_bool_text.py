"""Numbers and bools as the text that other programs write, for example Python's `str()`."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, Order, SpecReaders, wrong_type, wrong_width
from hbmodel.encoding.codecs.ieee import exact_float
from hbmodel.encoding.codecs.packed_digits import finite_digits
from hbmodel.errors import DeclarationError, DecodingError, EncodingError

MOST_ZEROS = 10_000
"""The maximum exponent of a decimal number that is written as text without an exponent, and the maximum number of
digits after its decimal point.
"""

_OTHER_FORM = "Stored text of a number does not have the form that Python writes for a float: declare the column as"


@frozen
class FloatTextCodec(Codec[float]):
    """A float as the text that Python's `str()` returns, such as `0.5` or `1e+16`, for columns.

    Text in other forms, such as `1.50`, `1` or `1E5`, is refused, because it could not be written back unchanged.
    `DecimalValue` reads the forms without an exponent.
    """

    python_type = float
    order = None
    raw_order = None
    key = False

    def encode(self, value: float) -> bytes:
        return repr(exact_float(value)).encode()

    def decode(self, data: bytes) -> float:
        try:
            number = float(data)
        except ValueError:
            raise DecodingError("Stored bytes are not the text of a number.") from None
        if repr(number).encode() != data:
            try:
                DecimalValue.decode(data)
            except DecodingError:
                raise DecodingError(f"{_OTHER_FORM} hb.Text.") from None
            raise DecodingError(
                f"{_OTHER_FORM} Decimal, with hb.codecs.as_text.Decimal, which keeps forms such as 1.50."
            )
        return number

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "float_text"}


@frozen
class DecimalValueCodec(Codec[Decimal]):
    """A decimal number as text without an exponent, such as `1.50`, `-3` or `0.007`, for columns: Python's
    `f"{number:f}"`, and the text of a float with a fixed number of digits, `"%.2f"`.

    Zeros at the end are kept: `Decimal("1.50")` reads back as `Decimal("1.50")`.
    """

    python_type = Decimal
    order = None
    raw_order = None
    key = False

    def encode(self, value: Decimal) -> bytes:
        _, _, exponent = finite_digits(value)
        if abs(exponent) > MOST_ZEROS:
            raise EncodingError("A decimal number has too many digits to be stored as text without an exponent.")
        return f"{value:f}".encode()

    def decode(self, data: bytes) -> Decimal:
        try:
            number = Decimal(data.decode("ascii"))
        except (InvalidOperation, UnicodeDecodeError):
            raise DecodingError("Stored bytes are not the text of a decimal number.") from None
        if not number.is_finite() or "E" in data.decode().upper() or f"{number:f}".encode() != data:
            raise DecodingError(
                "Stored text is not a decimal number in the form that this codec writes, such as 1.50: declare the "
                "column as hb.Text."
            )
        return number

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "decimal_value_text"}


def _text_of_bool(text: Any) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    if not isinstance(data, bytes) or not data:
        raise DeclarationError(
            "The text of a bool must have at least one byte: give the text of true and of false, such as "
            'hb.codecs.as_text.Bool("1", "0").',
            found=repr(text),
        )
    return data


@frozen
class BoolText(Codec[bool]):
    """A bool as one of two texts: `BoolText("1", "0")`, or `BoolText("True", "False")` for Python's `str()`.

    It can be part of a key if both texts have the same length.

    Args:
        true: the text of True, or its bytes.
        false: the text of False, or its bytes.
    """

    true: bytes = field(converter=_text_of_bool)
    false: bytes = field(converter=_text_of_bool)
    width: int | None = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: len(self.true) if len(self.true) == len(self.false) else None, takes_self=True),
    )
    key: bool = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.width is not None, takes_self=True)
    )
    order: Order = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: "ascending" if self.false < self.true else "descending", takes_self=True),
    )
    raw_order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.order, takes_self=True)
    )

    python_type = bool

    def __attrs_post_init__(self) -> None:
        if self.true == self.false:
            raise DeclarationError("True and False need different texts.", found=repr(self.true))

    def encode(self, value: bool) -> bytes:
        if value is True:
            return self.true
        if value is False:
            return self.false
        raise wrong_type(bool, value)

    def decode(self, data: bytes) -> bool:
        if data == self.true:
            return True
        if data == self.false:
            return False
        raise DecodingError("Stored bytes are neither the text of True nor that of False.")

    def encode_part(self, value: bool) -> bytes:
        return super().encode_part(value) if self.width is None else self.encode(value)

    def decode_part(self, data: bytes, start: int) -> tuple[bool, int]:
        end = self.part_end(data, start)
        return self.decode(data[start:end]), end

    def part_end(self, data: bytes, start: int) -> int:
        if self.width is None:
            return super().part_end(data, start)
        end = start + self.width
        if end > len(data):
            raise wrong_width(self.width, len(data) - start)
        return end

    @property
    def canonical(self) -> bool:
        return True

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "bool_text", "true": self.true.hex(), "false": self.false.hex()}


FloatText = FloatTextCodec()
DecimalValue = DecimalValueCodec()

SPECS: SpecReaders = {
    "float_text": lambda spec, codec_of: FloatText,
    "decimal_value_text": lambda spec, codec_of: DecimalValue,
    "bool_text": lambda spec, codec_of: BoolText(bytes.fromhex(spec["true"]), bytes.fromhex(spec["false"])),
}
