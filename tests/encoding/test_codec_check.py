"""The check of a codec of a program: what it accepts, and which promise it says is broken."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.codecs import FixedWidth, check_codec
from hbmodel.encoding.codecs.base import JSON
from tests.support.examples import examples
from tests.support.strategies import KEY_CODECS, values_of


@frozen
class Celsius(FixedWidth[Decimal]):
    """A temperature in hundredths of a degree, as 4 bytes above 2^31."""

    python_type = Decimal
    width = 4

    def encode(self, value: Decimal) -> bytes:
        """The number of hundredths, plus 2^31."""
        if not isinstance(value, Decimal):
            raise hb.EncodingError("A temperature is a Decimal.", found=type(value).__name__)
        number = value * 100
        if number != int(number) or not -27315 <= number <= 10**6:
            raise hb.EncodingError("A temperature has hundredths from -273.15 to 10,000.00.")
        return (int(number) + 2**31).to_bytes(4, "big")

    def decode(self, data: bytes) -> Decimal:
        """The inverse."""
        if len(data) != 4:
            raise hb.DecodingError("A temperature has 4 bytes.", width=4, found=len(data))
        number = int.from_bytes(data, "big") - 2**31
        if not -27315 <= number <= 10**6:
            raise hb.DecodingError("No temperature has these bytes.")
        return Decimal(number) / 100

    @property
    def spec(self) -> dict[str, JSON]:
        """The layout."""
        return {"codec": "celsius"}


TEMPERATURES = [Decimal(text) for text in ("-273.15", "-0.01", "0", "0.00", "0.01", "1", "25.5", "10000")]


def test_a_codec_that_keeps_its_promises_passes() -> None:
    check_codec(Celsius(), TEMPERATURES)


@settings(max_examples=examples(20))
@given(st.data())
@pytest.mark.parametrize("codec", KEY_CODECS, ids=repr)
def test_the_codecs_of_the_library_pass(codec: hb.Codec[Any], data: st.DataObject) -> None:
    def reads_back(value: Any) -> bool:
        return bool(codec.decode(codec.encode(value)) == value)  # not so of a time that a clock change leaves out

    check_codec(codec, data.draw(st.lists(values_of(codec).filter(reads_back), max_size=6)))


def test_structured_values_pass() -> None:
    check_codec(hb.Json(dict[str, list[int]]), [{}, {"a": [1]}, {"b": [], "a": [2, 1]}])
    check_codec(hb.codecs.MsgPack(dict[int, bytes]), [{}, {2: b"", 1: b"x"}, {1: b"x", 2: b""}])


def changed(**methods: Any) -> hb.Codec[Decimal]:
    """The codec with some of its methods or attributes replaced."""
    made: hb.Codec[Decimal] = frozen(type("Changed", (Celsius,), {"__module__": __name__, **methods}))()
    return made


def raising(error: Exception) -> Callable[..., Any]:
    """A method that always fails."""

    def fail(*_: object) -> Any:
        raise error

    return fail


good = Celsius()
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "spec is a list": ({"spec": ["celsius"]}, "The spec must be a dictionary"),
    "spec without a name": ({"spec": {"unit": "K"}}, "The spec must be a dictionary"),
    "spec is no JSON": ({"spec": {"codec": "celsius", "of": Decimal(1)}}, "The spec must be JSON"),
    "spec of the library": ({"spec": {"codec": "uuid"}}, "has the name in the spec"),
    "compares by identity": (
        {"__eq__": lambda self, other: self is other, "__hash__": object.__hash__},
        "does not equal a copy",
    ),
    "no bytes": ({"encode": lambda self, value: bytearray(good.encode(value))}, "must return bytes"),
    "another width": ({"width": 5}, "declared width"),
    "empty": (
        {"width": None, "key": False, "encode": lambda self, value: b"" if value == 0 else good.encode(value)},
        "empty bytes",
    ),
    "another type": ({"decode": lambda self, data: float(good.decode(data))}, "equal and of the same type"),
    "another value": ({"decode": lambda self, data: good.decode(data) + 1}, "equal and of the same type"),
    "little endian": (
        {
            "encode": lambda self, value: good.encode(value)[::-1],
            "decode": lambda self, data: good.decode(data[::-1]),
            "encode_part": lambda self, value: good.encode(value)[::-1],
        },
        "do not sort as raw_order says",
    ),
    "the wrong direction": ({"raw_order": "descending"}, "do not sort as raw_order says"),
    "the wrong direction of parts": ({"order": "descending"}, "do not sort as order says"),
    "takes anything": (
        {"encode": lambda self, value: good.encode(value if isinstance(value, Decimal) else Decimal(0))},
        "another type must raise EncodingError",
    ),
    "a raw error": (
        {"encode": lambda self, value: good.encode(value) if isinstance(value, Decimal) else len(value)},
        "another type must raise EncodingError",
    ),
    "reads anything": (
        {"decode": lambda self, data: good.decode(data[:4].ljust(4, b"\0"))},
        "does not write must raise DecodingError|of an incomplete part form",
    ),
    "a raw error of bytes": (
        {"decode": lambda self, data: good.decode(data) if len(data) == 4 else raising(ValueError())()},
        "does not write must raise DecodingError",
    ),
    "no end": (
        {
            "width": None,
            "encode_part": lambda self, value: str(value).encode(),
            "decode_part": lambda self, data, start: (Decimal(data[start:].decode()), len(data)),
            "part_end": lambda self, data, start: len(data),
            "order": None,
        },
        "InvalidOperation|ConversionSyntax|equal and of the same type|end of the part form",
    ),
    "two forms of one value": (
        {
            "width": None,
            "order": None,
            "raw_order": None,
            "key": False,
            "canonical": True,
            "encode": lambda self, value: (
                raising(hb.EncodingError("x"))() if not isinstance(value, Decimal) else str(value).encode()
            ),
            "decode": lambda self, data: (
                Decimal(data.decode()) if data[-1:].isdigit() else raising(hb.DecodingError("x"))()
            ),
            "constant": lambda self, value: value,
        },
        "canonical",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_named(name: str) -> None:
    methods, message = BROKEN[name]
    if "spec" in methods:
        methods = {"spec": property(lambda self, spec=methods["spec"]: spec)}
    codec = changed(**methods)
    with pytest.raises((hb.DeclarationError, InvalidOperation), match=message):
        check_codec(codec, TEMPERATURES)


@pytest.mark.parametrize("spec", [["celsius"], "celsius", None, {}, {"codec": 1}, {"codec": "x", "of": {1: 2}}])
def test_a_spec_that_the_registry_cannot_keep_is_refused_at_the_declaration(spec: Any) -> None:
    codec = changed(spec=property(lambda self: spec))
    body = {
        "k": hb.key(hb.UInt32),
        "x": hb.column("x", codec),
        "__annotations__": {"k": hb.Key[int], "x": hb.Column[Decimal]},
        "__module__": __name__,
    }
    with pytest.raises(hb.DeclarationError, match="The registry stores the spec of the codec") as caught:
        hb.model(table="t")(type("Bad", (), body))
    assert caught.value.field == "x"
