"""Guesses the codec of a column from its sampled values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import Any, Final

from attrs import define, field, frozen

from hbmodel.encoding.codecs import Bool, Bytes, Codec, JavaInt, JavaLong, Json, Text
from hbmodel.encoding.codecs.float_and_bool_text import BoolText, DecimalValue, FloatText
from hbmodel.encoding.codecs.java_values import IntText, JavaBoolean, JavaDouble
from hbmodel.encoding.codecs.time_text import DateText, DatetimeText
from hbmodel.tables.adoption.codec_guess import ENOUGH, TIMES, CodecGuess, in_bytes, is_exact, is_text

PLAUSIBLE: Final = 1 << 61
"""Eight bytes are not taken for a number if the number is this large or larger; nanoseconds since 1970 are smaller."""

SMALL_LONG: Final = 1 << 53
SMALL_INT: Final = 1 << 24

_DOUBLE: Final = Struct(">d")
_SINGLE: Final = Struct(">f")

Test = Callable[[bytes], bool]


@frozen
class _Form:
    """A codec that values may have.

    Attributes:
        test: whether a value looks as if this codec had written it. In addition, the codec must encode the decoded
            value to the same bytes.
        reason: the evidence for this codec.
    """

    annotation: str
    text: str
    codec: Codec[Any]
    test: Test
    reason: str


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _is_moderate(data: bytes, format: Struct) -> bool:
    number: float = format.unpack(data)[0]
    return number == 0 or 1e-9 < abs(number) < 1e15


FORMS: Final[Sequence[_Form]] = (
    _Form("bool", "hb.codecs.Bool", Bool, lambda data: data in {b"\x00", b"\x01"}, "00 or 01"),
    _Form("bool", "java.Boolean", JavaBoolean, lambda data: data in {b"\x00", b"\xff"}, "00 or FF"),
    _Form(
        "dict[str, Any]",
        "hb.Json(dict[str, Any])",
        Json(dict[str, Any]),
        lambda data: data[:1] == b"{",
        "JSON objects",
    ),
    _Form("list[Any]", "hb.Json(list[Any])", Json(list[Any]), lambda data: data[:1] == b"[", "JSON arrays"),
    _Form("str", "hb.Text", Text, is_text, "text (UTF-8)"),
    _Form(
        "int",
        "java.Long",
        JavaLong,
        lambda data: len(data) == 8 and abs(_number(data)) < PLAUSIBLE,
        "8 bytes that are plausible as big-endian numbers (if programs increment them, hb.counter())",
    ),
    _Form(
        "float",
        "java.Double",
        JavaDouble,
        lambda data: len(data) == 8 and _is_moderate(data, _DOUBLE),
        "8 bytes that are moderate numbers if read as doubles, and huge ones if read as longs",
    ),
    _Form("int", "java.Int", JavaInt, lambda data: len(data) == 4, "4 bytes"),
    _Form("bytes", "hb.Bytes", Bytes, lambda data: True, "bytes of no known form"),
)
"""The codecs that are tried, the first choice first."""

TEXT_CODECS: Final[Mapping[str, Codec[Any]]] = {
    'Bool("1", "0")': BoolText("1", "0"),
    'Date("%Y%m%d")': DateText("%Y%m%d"),
    "Int": IntText,
    "Float": FloatText,
    "Decimal": DecimalValue,
    "Date()": DateText(),
    "Datetime()": DatetimeText(),
    'Bool("True", "False")': BoolText("True", "False"),
    'Bool("true", "false")': BoolText("true", "false"),
}
"""Codecs of `hb.codecs.as_text` that may fit if every value is text, the first choice first."""

TRAITS: Final[Mapping[str, Test]] = {
    "zero": lambda data: not any(data),
    "small": lambda data: (
        abs(_number(data)) < SMALL_LONG
        if len(data) == 8
        else abs(_number(data)) < SMALL_INT
        if len(data) == 4
        else len(data) > 0
    ),
    "time": lambda data: len(data) == 8 and _number(data) in TIMES,
    "single": lambda data: len(data) == 4 and any(data) and _is_moderate(data, _SINGLE),
    "object": lambda data: data[:1] == b"{" and data[-1:] == b"}",
    "array": lambda data: data[:1] == b"[" and data[-1:] == b"]",
    **{name: partial(is_exact, codec) for name, codec in TEXT_CODECS.items()},
}
"""A further condition on every value."""


@define
class ValueProfile:
    """The common properties of the values of a column. The values themselves are not kept.

    Attributes:
        count: how many values there are.
        empty: how many values are empty.
        first: the first value that is not empty; if all are empty, an empty value.
        constant: whether all values are the same.
        widths: the smallest and the largest length of a value.
    """

    count: int = 0
    empty: int = 0
    first: bytes = b""
    constant: bool = True
    widths: tuple[int, int] = (0, 0)
    _forms: Sequence[_Form] = field(default=FORMS)
    _traits: Sequence[str] = field(default=tuple(TRAITS))

    def add(self, data: bytes) -> None:
        """Adds one value to the profile."""
        known = self.count > 0 and data == self.first
        self.count += 1
        self.empty += not data
        if known:
            return
        if self.count == 1:
            self.widths = (len(data), len(data))
        else:
            self.constant = False
            self.widths = (min(self.widths[0], len(data)), max(self.widths[1], len(data)))
        self.first = self.first or data
        self._forms = [form for form in self._forms if form.test(data) and is_exact(form.codec, data)]
        self._traits = [name for name in self._traits if TRAITS[name](data)]

    @classmethod
    def of_all(cls, profiles: Collection[ValueProfile]) -> ValueProfile:
        """Returns the common properties of the values of several columns. At least one column must be given."""
        firsts = [each.first for each in profiles]
        return cls(
            sum(each.count for each in profiles),
            sum(each.empty for each in profiles),
            next(filter(None, firsts), b""),
            all(each.constant for each in profiles) and len({*firsts}) == 1,
            (min(each.widths[0] for each in profiles), max(each.widths[1] for each in profiles)),
            [form for form in FORMS if all(form in each._forms for each in profiles)],
            [name for name in TRAITS if all(name in each._traits for each in profiles)],
        )

    def guess(self) -> CodecGuess:
        """Returns the first codec that decodes every value and encodes it to the same bytes."""
        if not self.widths[1]:
            return CodecGuess("bytes", "hb.Bytes", Bytes, False, "always empty")
        form = self._forms[0]
        traits = self._traits
        unsure = form.codec is Bytes or (form.annotation in {"int", "bool"} and "zero" in traits)
        if form.codec is JavaLong or form.codec is JavaInt:
            unsure = unsure or "small" not in traits
        said = [form.reason]
        if form.codec is Bytes:
            said = [f"{in_bytes(self.widths)} of no known form"]
        if form.codec is JavaLong and "time" in traits:
            said.append("perhaps times in milliseconds (java.LongTime)")
        if form.codec is JavaInt and "single" in traits:
            said.append("perhaps floats (java.Float)")
        if form.codec is Text and (fitting := next((name for name in TEXT_CODECS if name in traits), None)):
            said.append(f"every value fits hb.codecs.as_text.{fitting}")
        if form.codec is Text and ("object" in traits or "array" in traits):
            said.append("perhaps JSON in a different form from that of hb.Json")
        if self.empty:
            said.append("some are empty")
        return CodecGuess(form.annotation, form.text, form.codec, self.count >= ENOUGH and not unsure, "; ".join(said))
