"""From annotations to codecs, enumerations, and structured values."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from random import Random
from typing import Annotated, Any, NewType, Optional, TypeVar, Union
from uuid import UUID

import msgspec
import pytest
from attrs import define
from hypothesis import given
from hypothesis import strategies as st

import hbmodel.encoding.codecs as c
from hbmodel.errors import DeclarationError, DecodingError, EncodingError
from tests.support.strategies import Colour, Level

UserId = NewType("UserId", int)


class Permission(enum.Flag):
    READ = 1
    WRITE = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Empty(enum.Enum):
    pass


class Lenient(enum.Enum):
    KNOWN = "known"

    @classmethod
    def _missing_(cls, value: object) -> Lenient:
        return cls.KNOWN


class Surrogate(enum.Enum):
    BAD = "\ud800"


class Name(str):
    """A custom subclass of str, which a codec of str would not return."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("declared", "codec", "nullable"),
    [
        (int, c.Int64, False),
        (float, c.Float64, False),
        (str, c.Text, False),
        (bytes, c.Bytes, False),
        (bool, c.Bool, False),
        (Decimal, c.DecimalNumber, False),
        (UUID, c.UUID128, False),
        (date, c.Date, False),
        (datetime, c.Timestamp, False),
        (timedelta, c.Duration, False),
        (IPv4Address, c.IPv4, False),
        (IPv6Address, c.IPv6, False),
        (IPv4Address | IPv6Address, c.IPAddress, False),
        (IPv6Address | None | IPv4Address, c.IPAddress, True),
        (int | None, c.Int64, True),
        (Optional[str], c.Text, True),  # noqa: UP045
        (Union[None, bool], c.Bool, True),  # noqa: UP007
        (Colour, c.EnumOf(Colour), False),
        (Level | None, c.EnumOf(Level), True),
        (Annotated[int, "a note"], c.Int64, False),
        (Annotated[int, "a note", c.UInt32], c.UInt32, False),
        (Annotated[int, c.UInt32] | None, c.UInt32, True),
        (Annotated[int | None, "a note"], c.Int64, True),
        (UserId, c.Int64, False),
        (UserId | None, c.Int64, True),
    ],
)
def test_codec_of_a_type(declared: Any, codec: c.Codec[Any], nullable: bool) -> None:
    assert c.codec_for(declared) == (codec, nullable)


@pytest.mark.parametrize(
    "declared",
    [
        list[int],
        dict,
        object,
        Any,
        int | str,
        complex,
        None,
        type(None),
        Name,
        TypeVar("T"),
        "int",
        7,
        [int],
        list[int] | None,
    ],
)
def test_a_type_without_an_obvious_codec_says_what_to_do(declared: Any) -> None:
    with pytest.raises(DeclarationError, match=r"codec=hb\.Json"):
        c.codec_for(declared)


def test_a_codec_in_an_annotation_says_whether_none_is_allowed() -> None:
    assert c.codec_for(Annotated[int | None, c.UInt32]) == (c.UInt32, True)


def test_enumerations_take_the_codec_of_their_values() -> None:
    assert c.EnumOf(Colour).codec == c.Text
    assert c.EnumOf(Level).codec == c.Int64
    assert c.EnumOf(Level, c.Int8).encode(Level.LOW) == b"\x7f"
    assert c.EnumOf(Level, c.Int8).width == 1
    assert c.EnumOf(Colour).may_be_empty
    assert not c.EnumOf(Colour, c.Json(str)).key
    with pytest.raises(DeclarationError, match="one plain type"):
        c.EnumOf(Mixed)
    with pytest.raises(DeclarationError, match="one plain type"):
        c.EnumOf(Empty)
    with pytest.raises(DeclarationError, match="A member of an enumeration has a value that its codec cannot"):
        c.EnumOf(Level, c.UInt8)
    with pytest.raises(DeclarationError, match="A member of an enumeration has a value that its codec cannot"):
        c.EnumOf(Surrogate)


def test_flags_are_stored_by_number_combinations_included() -> None:
    codec = c.EnumOf(Permission)
    both = Permission.READ | Permission.WRITE
    assert codec.decode(codec.encode(both)) is both
    with pytest.raises(DecodingError, match="A stored value is not a member of its enumeration"):
        codec.decode(c.Int64.encode(8))


def test_an_unknown_value_is_not_taken_for_a_member() -> None:
    assert Lenient("unknown") is Lenient.KNOWN
    with pytest.raises(DecodingError):
        c.EnumOf(Lenient).decode(b"unknown")


@dataclass
class Point:
    x: int
    y: int = 0


@define
class Box:
    corners: list[Point]
    name: str | None = None


VALUES: list[tuple[Any, Any]] = [
    (list[int], [1, 2]),
    (dict[str, int], {"b": 1, "a": 2}),
    (Any, {"a": [1, 1.5, None, True, "x"]}),
    (Point, Point(1, 2)),
    (Box, Box([Point(1), Point(2, 3)], "a")),
    (set[str], {"c", "a", "b"}),
    (tuple[int, str], (1, "a")),
    (datetime, datetime(2024, 1, 1)),
    (int | None, None),
    (Decimal, Decimal("1.50")),
]


def name_of(parameter: object) -> str:
    """The same in every process: sets are sorted, and addresses left out."""
    shown = f"set({sorted(parameter)})" if isinstance(parameter, set | frozenset) else repr(parameter)
    return shown.partition(" at 0x")[0][:30]


@pytest.mark.lengthy
@given(
    st.sampled_from(
        [
            (dict[int, int], st.integers(-(2**40), 2**40), st.integers(-9, 9)),
            (dict[bytes, list[bytes]], st.binary(max_size=4), st.lists(st.binary(max_size=3), max_size=2)),
            (dict[tuple[int, str], set[int]], st.tuples(st.integers(0, 3), st.text(max_size=2)),
             st.sets(st.integers(0, 9))),
            (dict[UUID, Decimal], st.uuids(), st.decimals(-9, 9, places=2)),
            (dict[datetime, dict[int, bytes]], st.datetimes(timezones=st.just(UTC)),
             st.dictionaries(st.integers(0, 9), st.binary(max_size=3), max_size=3)),
        ]
    ).flatmap(lambda kind: st.tuples(st.just(kind[0]), st.dictionaries(kind[1], kind[2], max_size=5))),
    st.randoms(),
)  # fmt: skip
def test_keys_of_a_dictionary_need_not_be_text(drawn: tuple[Any, dict[Any, Any]], random: Random) -> None:
    declared, value = drawn
    codec = c.MsgPack(declared)
    data = codec.encode(value)
    assert codec.decode(data) == value
    mixed = list(value.items())
    random.shuffle(mixed)
    assert codec.encode(dict(mixed)) == data
    assert codec.decode(msgspec.msgpack.encode(dict(mixed))) == value


def test_keys_of_several_types_have_no_order() -> None:
    codec = c.MsgPack(dict[int | None, int])
    assert codec.decode(codec.encode({None: 1})) == {None: 1}
    with pytest.raises(EncodingError, match="use keys of one type"):
        codec.encode({None: 1, 2: 3})


def test_what_json_cannot_have_as_a_key_names_the_other_codec() -> None:
    assert c.Json(dict[int, int]).encode({10: 1, 9: 2}) == b'{"9":2,"10":1}'
    assert c.Json(dict[bytes, int]).decode(c.Json(dict[bytes, int]).encode({b"\0": 1})) == {b"\0": 1}
    with pytest.raises(EncodingError, match=r"use hb\.codecs\.MsgPack"):
        c.Json(dict[tuple[int, int], int]).encode({(1, 2): 3})


@pytest.mark.parametrize("form", [c.Json, c.MsgPack])
@pytest.mark.parametrize(("declared", "value"), VALUES, ids=name_of)
def test_structured_round_trip(form: Any, declared: Any, value: Any) -> None:
    codec = form(declared)
    stored = codec.encode(value)
    assert stored
    assert codec.decode(stored) == value


def test_structured_bytes() -> None:
    assert c.Json(dict[str, int]).encode({"b": 1, "a": 2}) == b'{"a":2,"b":1}'
    assert c.Json(Point).encode(Point(1)) == b'{"x":1,"y":0}'
    assert c.Json(set[str]).encode({"b", "a"}) == b'["a","b"]'
    assert c.MsgPack(list[int]).encode([1, -1]) == b"\x92\x01\xff"
    assert c.Json(Point).decode(b' {"x": 1}') == Point(1)


@pytest.mark.parametrize(("form", "null"), [(c.Json, b"null"), (c.Json, b" null\n"), (c.MsgPack, b"\xc0")])
def test_null_names_the_type_that_allows_it(form: Any, null: bytes) -> None:
    with pytest.raises(DecodingError, match=r"The cell holds null, .* hb\.Json\(dict \| None\)"):
        form(dict).decode(null)
    assert form(dict | None).decode(null) is None
    assert form(Any).decode(null) is None


@pytest.mark.parametrize("data", [b'{"a": NaN}', b'{"a": Infinity}', b'{"a": "\\ud800"}'])
def test_what_json_of_other_programs_is_not_read(data: bytes) -> None:
    with pytest.raises(DecodingError, match="not a structured value of the declared type"):
        c.Json(dict).decode(data)


@pytest.mark.parametrize("form", [c.Json, c.MsgPack])
@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (list[int], ["a"]),
        (list[int], (1, 2)),
        (list[float], [float("nan")]),
        (Any, (1, 2)),
        (Any, {1, 2}),
        (Any, object()),
        (Any, datetime(2024, 1, 1)),
        (str, "\ud800"),
        (Point, {"x": 1, "y": 0}),
        (int, None),
    ],
    ids=name_of,
)
def test_structured_values_that_would_not_read_back_equal_are_refused(form: Any, declared: Any, value: Any) -> None:
    with pytest.raises(EncodingError):
        form(declared).encode(value)


def test_integers_beyond_64_bits() -> None:
    assert c.Json(int).decode(c.Json(int).encode(2**70)) == 2**70
    with pytest.raises(EncodingError):
        c.MsgPack(int).encode(2**70)


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for codec in (c.Json(Any), c.MsgPack(Any)):
        with pytest.raises(EncodingError):
            codec.encode(endless)


def test_types_that_cannot_be_read_are_refused_at_declaration() -> None:
    with pytest.raises(DeclarationError, match="A structured value cannot have this type"):
        c.Json(dict[str, int] | list[int] | Point)
    with pytest.raises(DeclarationError):
        c.MsgPack(Point | Box)


def test_structured_codecs_are_values() -> None:
    assert c.Json(list[int]) == c.Json(list[int])
    assert hash(c.Json(list[int])) == hash(c.Json(list[int]))
    assert c.Json(list[int]) != c.Json(list[str])
    assert c.Json(list[int]) != c.MsgPack(list[int])
    assert c.Json(list[int]).spec == c.Json(list[str]).spec == {"codec": "json"}
    assert c.MsgPack(int).spec == {"codec": "msgpack"}


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.lengthy
@given(json_values)
def test_any_plain_value_round_trips(value: Any) -> None:
    for codec in (c.Json(Any), c.MsgPack(Any)):
        assert codec.decode(codec.encode(value)) == value
        assert codec.encode(value) == codec.encode(codec.decode(codec.encode(value)))


def test_msgspec_structs() -> None:
    class Item(msgspec.Struct):
        name: str

    assert c.Json(Item).decode(c.Json(Item).encode(Item("a"))) == Item("a")
