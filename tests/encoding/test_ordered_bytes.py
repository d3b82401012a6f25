"""What HBase's class `OrderedBytes` writes: bytes and keys that HBase itself made, and the promises of each
codec.
"""

from __future__ import annotations

import enum
import json
import math
import subprocess
import sys
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.codecs import check_codec, ordered_bytes
from hbmodel.encoding.bounds import Bounds
from hbmodel.encoding.codecs.base import COMPLEMENT
from hbmodel.encoding.codecs.from_spec import codec_of
from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.store import Put
from tests.support.beds import Bed
from tests.support.examples import examples
from tests.support.strategies import numbers

PARTS = "1234567890123456789012345678901"
"""A number of 31 digits, the most that Java stores."""

# codec, value, its bytes in ascending order, what Java is asked: the method and the text or the bytes of the value
GOLDEN: list[tuple[hb.Codec[Any], Any, str, str, str]] = [
    (ordered_bytes.Int8, -2, "297e", "Int8", "-2"),
    (ordered_bytes.Int8, 127, "29ff", "Int8", "127"),
    (ordered_bytes.Int16, -2, "2a7ffe", "Int16", "-2"),
    (ordered_bytes.Int16, -(2**15), "2a0000", "Int16", "-32768"),
    (ordered_bytes.Int32, -42, "2b7fffffd6", "Int32", "-42"),
    (ordered_bytes.Int32, 0, "2b80000000", "Int32", "0"),
    (ordered_bytes.Int64, -42, "2c7fffffffffffffd6", "Int64", "-42"),
    (ordered_bytes.Int64, 2**63 - 1, "2cffffffffffffffff", "Int64", "9223372036854775807"),
    (ordered_bytes.Float32, 1.5, "30bfc00000", "Float32", "1.5"),
    (ordered_bytes.Float32, -1.5, "30403fffff", "Float32", "-1.5"),
    (ordered_bytes.Float32, 0.0, "3080000000", "Float32", "0.0"),
    (ordered_bytes.Float32, math.inf, "30ff800000", "Float32", "Infinity"),
    (ordered_bytes.Float32(nan=True), math.nan, "30ffc00000", "Float32", "NaN"),
    (ordered_bytes.Float32(nan=True), -0.0, "307fffffff", "Float32", "-0.0"),
    (ordered_bytes.Float64, 1.5, "31bff8000000000000", "Float64", "1.5"),
    (ordered_bytes.Float64, -1.5, "314007ffffffffffff", "Float64", "-1.5"),
    (ordered_bytes.Float64, 0.0, "318000000000000000", "Float64", "0.0"),
    (ordered_bytes.Float64, -math.inf, "31000fffffffffffff", "Float64", "-Infinity"),
    (ordered_bytes.Float64, 5e-324, "318000000000000001", "Float64", "4.9E-324"),
    (ordered_bytes.Float64(nan=True), math.nan, "31fff8000000000000", "Float64", "NaN"),
    (ordered_bytes.Float64(nan=True), -0.0, "317fffffffffffffff", "Float64", "-0.0"),
    (ordered_bytes.String, "", "3400", "String", ""),
    (ordered_bytes.String, "aé", "3461c3a900", "String", "aé"),
    (ordered_bytes.String, "😀", "34f09f988000", "String", "😀"),
    (ordered_bytes.BlobVar, b"", "3700", "BlobVar", ""),
    (ordered_bytes.BlobVar, b"\0", "378000", "BlobVar", "00"),
    (ordered_bytes.BlobVar, b"\xff", "37ff40", "BlobVar", "ff"),
    (ordered_bytes.BlobVar, b"\xfe\xff", "37ffbf60", "BlobVar", "feff"),
    (ordered_bytes.BlobVar, b"1234567", "3798ccc6b3a1d4ec37", "BlobVar", "31323334353637"),
    (ordered_bytes.BlobVar, b"12345678", "3798ccc6b3a1d4ecb79c00", "BlobVar", "3132333435363738"),
    (ordered_bytes.BlobVar, b"\0" * 7, "378080808080808000", "BlobVar", "00" * 7),
    (ordered_bytes.Blob, b"", "38", "BlobCopy", ""),
    (ordered_bytes.Blob, b"ab", "386162", "BlobCopy", "6162"),
    (ordered_bytes.Blob, b"a\0b", "38610062", "BlobCopy", "610062"),
    (ordered_bytes.Numeric, Decimal(0), "15", "Numeric", "0"),
    (ordered_bytes.Numeric, Decimal(1), "1802", "Numeric", "1"),
    (ordered_bytes.Numeric, Decimal(-1), "12fd", "Numeric", "-1"),
    (ordered_bytes.Numeric, Decimal("1.5"), "180364", "Numeric", "1.50"),
    (ordered_bytes.Numeric, Decimal("-1.5"), "12fc9b", "Numeric", "-1.5"),
    (ordered_bytes.Numeric, Decimal("1E+2"), "1902", "Numeric", "100"),
    (ordered_bytes.Numeric, Decimal("0.5"), "16ff64", "Numeric", "0.5"),
    (ordered_bytes.Numeric, Decimal("-0.5"), "14009b", "Numeric", "-0.5"),
    (ordered_bytes.Numeric, Decimal("0.01"), "16ff02", "Numeric", "0.01"),
    (ordered_bytes.Numeric, Decimal("-0.001"), "1401eb", "Numeric", "-0.001"),
    (ordered_bytes.Numeric, Decimal("1E+19"), "2114", "Numeric", "1E+19"),
    (ordered_bytes.Numeric, Decimal("1E+20"), "220b02", "Numeric", "1E+20"),
    (ordered_bytes.Numeric, Decimal("-1E+22"), "08f3fd", "Numeric", "-1E+22"),
    (ordered_bytes.Numeric, Decimal("9.9E+701"), "22f16fc6", "Numeric", "9.9E+701"),
    (ordered_bytes.Numeric, Decimal("1E-30"), "16f102", "Numeric", "1E-30"),
    (ordered_bytes.Numeric, Decimal("1E-1000"), "160dfc02", "Numeric", "1E-1000"),
    (ordered_bytes.Numeric, Decimal("-1.23E-10000"), "14f90a97fcd1", "Numeric", "-1.23E-10000"),
    (ordered_bytes.Numeric, Decimal("1E-600000"), "1605fb6c2002", "Numeric", "1E-600000"),
    (ordered_bytes.Numeric, Decimal(PARTS), "2210032f5b87b3032f5b87b3032f5b87b302", "Numeric", PARTS),
    (ordered_bytes.Numeric, Decimal(-(2**63)), "09ecd2bc6ef87692648aef", "Numeric", str(-(2**63))),
]  # fmt: skip

STRUCTS: list[tuple[list[tuple[str, bool]], list[str], str]] = [
    ([("String", False), ("Int32", True), ("BlobCopy", False)], ["ab", "7", "780079"], "34616200d47ffffff838780079"),
    ([("String", True), ("Int64", False)], ["ab", "7"], "cb9e9dff2c8000000000000007"),
    ([("String", True), ("String", True)], ["a", ""], "cb9effcbff"),
    ([("Numeric", True), ("BlobVar", True)], ["-1.5", "ff"], "ed0364c800bf"),
    ([("Numeric", False), ("String", False)], ["1.5", "z"], "180364347a00"),
    ([("BlobVar", False), ("BlobCopy", True)], ["", "6162"], "3700c79e9dff"),
    ([("Float32", True), ("Float64", True)], ["1.5", "-1.5"], "cf403fffffcebff8000000000000"),
    ([("Int8", True), ("Int16", False)], ["-2", "-2"], "d6812a7ffe"),
]
"""Fields with whether they are descending, their values as text or bytes, and the row key that `Struct` makes."""

BYTES_OF = {"BlobCopy", "BlobVar"}
CODECS: dict[str, hb.Codec[Any]] = {
    **{kind: codec for codec, _, _, kind, _ in GOLDEN if codec.key},
    "BlobCopy": ordered_bytes.Blob,
}

IN_JAVA = """
import json, os, sys
import jpype
from hbmodel.localhbase.hbase_configuration import JVM_FLAGS
from hbmodel.localhbase.jars import class_path
from hbmodel.localhbase.java import find_java

os.environ["JAVA_HOME"] = str(find_java().path.parents[1])
jpype.startJVM(*JVM_FLAGS, f"-Dhbmodel.log={os.devnull}", classpath=class_path(progress=False).split(os.pathsep))
util, types, lang = "org.apache.hadoop.hbase.util.", "org.apache.hadoop.hbase.types.", jpype.java.lang
OrderedBytes, Order = jpype.JClass(util + "OrderedBytes"), jpype.JClass(util + "Order")
Range, Builder = jpype.JClass(util + "SimplePositionedMutableByteRange"), jpype.JClass(types + "StructBuilder")

def blob(text):
    return jpype.JArray(jpype.JByte)([byte - 256 * (byte > 127) for byte in bytes.fromhex(text)])

makers = {
    "Int8": lambda text: lang.Byte.valueOf(text), "Int16": lambda text: lang.Short.valueOf(text),
    "Int32": lambda text: lang.Integer.valueOf(text), "Int64": lambda text: lang.Long.valueOf(text),
    "Float32": lambda text: lang.Float.valueOf(text), "Float64": lambda text: lang.Double.valueOf(text),
    "String": jpype.JString, "BlobVar": blob, "BlobCopy": blob, "Numeric": jpype.java.math.BigDecimal,
}
single = {
    "Int8": jpype.JByte, "Int16": jpype.JShort, "Int32": jpype.JInt, "Int64": jpype.JLong,
    "Float32": jpype.JFloat, "Float64": jpype.JDouble,
}

def written(into, count):
    return bytes(byte & 255 for byte in into.getBytes())[:count].hex()

def encoded(kind, text, order):
    value, into = makers[kind](text), Range(100)
    return written(into, getattr(OrderedBytes, "encode" + kind)(into, single.get(kind, lambda x: x)(value), order))

def struct(fields, texts):
    builder = Builder()
    for kind, descending in fields:
        of = jpype.JClass(types + "Ordered" + kind.replace("Copy", ""))
        builder.add(of.DESCENDING if descending else of.ASCENDING)
    made, values = builder.toStruct(), [makers[kind](text) for (kind, _), text in zip(fields, texts)]
    array = jpype.JArray(lang.Object)(values)
    into = Range(made.encodedLength(array))
    return written(into, made.encode(into, array))

asked = json.load(sys.stdin)
ascending = [encoded(kind, text, Order.ASCENDING) for kind, text in asked["values"]]
descending = [encoded(kind, text, Order.DESCENDING) for kind, text in asked["descending"]]
structs = [struct(fields, texts) for fields, texts in asked["structs"]]
print(json.dumps([ascending, descending, structs]))
"""


def descending(codec: hb.Codec[Any], value: Any) -> str:
    """The bytes of a descending field."""
    return codec.encode_part(value).translate(COMPLEMENT).hex()


FORWARD = [(kind, text) for *_, kind, text in GOLDEN]
BACKWARD = [(codec, value, kind, text) for codec, value, _, kind, text in GOLDEN if codec.key and value != b"a\0b"]


@pytest.mark.parametrize(("codec", "value", "data", "kind", "text"), GOLDEN, ids=lambda x: repr(x)[:40])
def test_golden_bytes(codec: hb.Codec[Any], value: Any, data: str, kind: str, text: str) -> None:
    written = bytes.fromhex(data)
    assert codec.encode(value) == written
    read = codec.decode(written)
    assert type(read) is type(value)
    assert repr(read) == repr(value) or read == value


@pytest.mark.parametrize(("fields", "texts", "key"), STRUCTS, ids=repr)
def test_row_keys_are_those_of_a_struct(fields: list[tuple[str, bool]], texts: list[str], key: str) -> None:
    layout = KeyLayout(tuple(KeyField(f"f{n}", CODECS[kind], desc=desc) for n, (kind, desc) in enumerate(fields)))
    values = tuple(_value(kind, text) for (kind, _), text in zip(fields, texts, strict=True))
    assert layout.pack(values).hex() == key
    assert layout.unpack(bytes.fromhex(key)) == values


def _value(kind: str, text: str) -> Any:
    if kind in BYTES_OF:
        return bytes.fromhex(text)
    return {"S": str, "I": int, "F": float, "N": Decimal}[kind[0]](text)


@pytest.mark.lengthy
@pytest.mark.hbase
def test_java_itself_makes_the_golden_bytes_and_keys() -> None:
    asked = {"values": FORWARD, "descending": [(kind, text) for *_, kind, text in BACKWARD]}
    asked["structs"] = [(fields, texts) for fields, texts, _ in STRUCTS]  # type: ignore[assignment, misc]
    command = [sys.executable, "-c", IN_JAVA]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [
        [data for _, _, data, _, _ in GOLDEN],
        [descending(codec, value) for codec, value, _, _ in BACKWARD],
        [key for *_, key in STRUCTS],
    ]


TEXTS = st.text(st.one_of(st.sampled_from("\x01ab\x7fé\uffff😀"), st.characters(exclude_categories=["Cs"]))).filter(
    lambda text: "\0" not in text
)
BLOBS = st.lists(st.one_of(st.sampled_from([0, 1, 127, 128, 254, 255]), st.integers(0, 255)), max_size=17).map(bytes)
PLAIN_BLOBS = BLOBS.map(lambda data: data.replace(b"\0", b"\x01"))
DECIMALS = st.builds(
    lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
    st.integers(0, 1),
    st.lists(st.integers(0, 9), min_size=1, max_size=31).map(tuple),
    st.one_of(
        st.integers(-4, 4),
        st.integers(-80, 80),
        st.sampled_from([-480, -482, 450, 669, -5000, -140_000, -(2**31) + 2]),
    ),
).filter(lambda value: not value or value.adjusted() < 702)

VALUES: list[tuple[hb.Codec[Any], st.SearchStrategy[Any]]] = [
    (ordered_bytes.Int8, numbers(-128, 127)),
    (ordered_bytes.Int16, numbers(-(2**15), 2**15 - 1)),
    (ordered_bytes.Int32, numbers(-(2**31), 2**31 - 1)),
    (ordered_bytes.Int64, numbers(-(2**63), 2**63 - 1)),
    (ordered_bytes.Float32, st.floats(allow_nan=False, width=32)),
    (ordered_bytes.Float64, st.floats(allow_nan=False)),
    (ordered_bytes.Float32(nan=True), st.floats(allow_nan=False, width=32)),
    (ordered_bytes.Float64(nan=True), st.floats(allow_nan=False)),
    (ordered_bytes.String, TEXTS),
    (ordered_bytes.BlobVar, BLOBS),
    (ordered_bytes.Blob, PLAIN_BLOBS),
    (ordered_bytes.Numeric, DECIMALS),
]
IN_KEYS = [(codec, values) for codec, values in VALUES if codec.key]
NO_BLOBS = [(codec, values) for codec, values in IN_KEYS if codec is not ordered_bytes.Blob]


@pytest.mark.parametrize(("codec", "values"), VALUES, ids=lambda x: repr(x)[:40])
@settings(max_examples=examples(60))
@given(data=st.data())
def test_every_codec_keeps_its_promises(
    codec: hb.Codec[Any], values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    check_codec(codec, data.draw(st.lists(values, max_size=6)))


@given(BLOBS)
def test_a_blob_of_a_column_or_at_the_end_of_a_key_may_contain_any_bytes(blob: bytes) -> None:
    assert ordered_bytes.Blob.decode(ordered_bytes.Blob.encode(blob)) == blob


@st.composite
def keys(draw: st.DrawFn) -> tuple[KeyLayout, list[tuple[Any, ...]]]:
    """A layout of up to three fields, and values of keys that share fields."""
    chosen = [draw(st.sampled_from(NO_BLOBS)) for _ in range(draw(st.integers(0, 2)))] + [
        draw(st.sampled_from(IN_KEYS))
    ]
    fields = tuple(KeyField(f"f{n}", codec, desc=draw(st.booleans())) for n, (codec, _) in enumerate(chosen))
    pools = [draw(st.lists(values, min_size=1, max_size=3)) for _, values in chosen]
    return KeyLayout(fields), draw(st.lists(st.tuples(*map(st.sampled_from, pools)), min_size=2, max_size=6))


@pytest.mark.lengthy
@settings(max_examples=examples(200))
@given(keys())
def test_keys_read_back_and_sort_as_their_fields_say(example: tuple[KeyLayout, list[tuple[Any, ...]]]) -> None:
    layout, rows = example
    for row in rows:
        packed = layout.pack(row)
        assert layout.unpack(packed) == row
        for other in rows:
            against = layout.pack(other)
            assert (packed == against) == (row == other)
            at = next((n for n, (a, b) in enumerate(zip(row, other, strict=True)) if a != b), None)
            if at is None:
                continue
            if at < len(row) - 1:
                assert not against.startswith(packed)
            if layout.order_of(at) is not None:
                assert (packed < against) == ((row[at] > other[at]) if layout.fields[at].desc else row[at] < other[at])


@pytest.mark.lengthy
@settings(max_examples=examples(200))
@given(keys(), st.data())
def test_ranges_hold_just_the_keys_within_their_bounds(
    example: tuple[KeyLayout, list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    layout, rows = example
    at = data.draw(st.integers(0, len(layout.fields) - 1))
    if layout.order_of(at) is None:
        return
    low, high = (data.draw(st.sampled_from(rows))[at] for _ in range(2))
    inclusive, also = data.draw(st.booleans()), data.draw(st.booleans())
    bounds = Bounds(low=low, high=high, low_inclusive=inclusive, high_inclusive=also)
    found = layout.range_of(layout.pack_leading(rows[0][:at]), bounds)
    for row in rows:
        within = (low <= row[at] if inclusive else low < row[at]) and (row[at] <= high if also else row[at] < high)
        assert (layout.pack(row) in found) == (within and row[:at] == rows[0][:at])


@pytest.mark.parametrize("codec", [codec for codec, _ in IN_KEYS], ids=repr)
def test_the_registry_describes_every_codec(codec: hb.Codec[Any]) -> None:
    assert codec_of(json.loads(json.dumps(codec.spec))) == codec


@given(
    st.one_of(st.binary(max_size=12), st.builds(lambda first, rest: bytes([first]) + rest, st.integers(5, 60), BLOBS))
)
@example(b"\x05")
@example(b"\x16\x0e\xff\x02")
@example(b"\x22\xf9\x00\x00\x02")
def test_bytes_read_back_byte_for_byte_or_are_refused(data: bytes) -> None:
    for codec, _ in VALUES:
        try:
            value = codec.decode(data)
        except hb.DecodingError:
            continue
        assert codec.encode(value) == data


def test_a_blob_of_variable_length_does_not_keep_the_order() -> None:
    lower, higher = b"\xfe\xff", b"\xff"
    assert ordered_bytes.BlobVar.encode(lower) > ordered_bytes.BlobVar.encode(higher)
    layout = KeyLayout((KeyField("f", ordered_bytes.BlobVar),))
    with pytest.raises(hb.QueryError, match="has no ranges"):
        layout.range_of([], Bounds(low=b"a"))
    with pytest.raises(hb.QueryError, match="searched by prefix"):
        layout.range_of([], Bounds(prefix=b"a"))


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (ordered_bytes.Int8, 128),
        (ordered_bytes.Int16, -(2**15) - 1),
        (ordered_bytes.Int32, 2**31),
        (ordered_bytes.Int64, 2**63),
        (ordered_bytes.Int64, True),
        (ordered_bytes.Int64, 1.0),
        (ordered_bytes.Float64, math.nan),
        (ordered_bytes.Float32, math.nan),
        (ordered_bytes.Float32, 0.1),
        (ordered_bytes.Float64, "1"),
        (ordered_bytes.String, "a\0b"),
        (ordered_bytes.String, "\ud800"),
        (ordered_bytes.String, b"a"),
        (ordered_bytes.BlobVar, "a"),
        (ordered_bytes.Blob, bytearray(b"a")),
        (ordered_bytes.Numeric, 1),
        (ordered_bytes.Numeric, Decimal("NaN")),
        (ordered_bytes.Numeric, Decimal("-Infinity")),
        (ordered_bytes.Numeric, Decimal(PARTS + "1")),
        (ordered_bytes.Numeric, Decimal("1E+702")),
        (ordered_bytes.Numeric, Decimal("-1E+702")),
        (ordered_bytes.Numeric, Decimal("1E-2147483647")),
    ],
    ids=lambda x: repr(x)[:40],
)
def test_values_that_java_could_not_read_back_are_refused(codec: hb.Codec[Any], value: Any) -> None:
    with pytest.raises(hb.EncodingError):
        codec.encode(value)


def test_a_blob_that_contains_00_has_no_descending_form() -> None:
    layout = KeyLayout((KeyField("f", ordered_bytes.Blob, desc=True),))
    with pytest.raises(hb.EncodingError, match="cannot contain 00"):
        layout.pack((b"a\0",))


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (ordered_bytes.Int8, "2a7e"),
        (ordered_bytes.Int8, "d681"),
        (ordered_bytes.Int32, "2b7fffff"),
        (ordered_bytes.Int64, "2b7fffffffffffffd6"),
        (ordered_bytes.Float32, "31bfc00000"),
        (ordered_bytes.Float64, "317fffffffffffffff"),
        (ordered_bytes.Float64, "31fff8000000000000"),
        (ordered_bytes.Float64(nan=True), "31fff8000000000001"),
        (ordered_bytes.Float64(nan=True), "310007ffffffffffff"),
        (ordered_bytes.String, ""),
        (ordered_bytes.String, "3461"),
        (ordered_bytes.String, "34610062"),
        (ordered_bytes.String, "34ff00"),
        (ordered_bytes.BlobVar, "37"),
        (ordered_bytes.BlobVar, "37ff"),
        (ordered_bytes.BlobVar, "3740"),
        (ordered_bytes.BlobVar, "37ff41"),
        (ordered_bytes.BlobVar, "370000"),
        (ordered_bytes.Blob, ""),
        (ordered_bytes.Blob, "3700"),
        (ordered_bytes.Numeric, ""),
        (ordered_bytes.Numeric, "07"),
        (ordered_bytes.Numeric, "23"),
        (ordered_bytes.Numeric, "26"),
        (ordered_bytes.Numeric, "1702"),
        (ordered_bytes.Numeric, "18"),
        (ordered_bytes.Numeric, "1803"),
        (ordered_bytes.Numeric, "1800"),
        (ordered_bytes.Numeric, "180300"),
        (ordered_bytes.Numeric, "18c8"),
        (ordered_bytes.Numeric, "1501"),
        (ordered_bytes.Numeric, "18" + "03" * 20 + "02"),
        (ordered_bytes.Numeric, "22"),
        (ordered_bytes.Numeric, "220a02"),
        (ordered_bytes.Numeric, "22f17002"),
        (ordered_bytes.Numeric, "22ff00000000000000ff02"),
        (ordered_bytes.Numeric, "16"),
    ],
    ids=repr,
)
def test_bytes_that_ordered_bytes_does_not_write_are_refused(codec: hb.Codec[Any], data: str) -> None:
    with pytest.raises(hb.DecodingError):
        codec.decode(bytes.fromhex(data))


@pytest.mark.parametrize("codec", [codec for codec, _ in VALUES], ids=repr)
def test_null_is_named(codec: hb.Codec[Any]) -> None:
    with pytest.raises(hb.DecodingError, match="NULL of OrderedBytes"):
        codec.decode(b"\x05")


def test_nan_has_no_order() -> None:
    with pytest.raises(hb.EncodingError, match="NaN has no order"):
        ordered_bytes.Float64(nan=True).floor(math.nan)
    assert math.isnan(ordered_bytes.Float64.floor(math.nan) or 0.0)
    with pytest.raises(hb.DeclarationError, match="cannot be part of a key"):
        KeyField("f", ordered_bytes.Float64(nan=True))
    with pytest.raises(hb.DeclarationError, match="True or False"):
        ordered_bytes.Float64(nan=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("codec", "given", "floor"),
    [
        (ordered_bytes.Int8, 300, 127),
        (ordered_bytes.Int8, -300, None),
        (ordered_bytes.Float32, 0.1, 0.09999999403953552),
        (ordered_bytes.Float64, 0.1, 0.1),
        (ordered_bytes.String, "a\0b", "a"),
        (ordered_bytes.String, "ab", "ab"),
    ],
    ids=repr,
)
def test_the_last_value_that_is_stored_before_another(codec: hb.Codec[Any], given: Any, floor: Any) -> None:
    assert codec.floor(given) == floor


def test_prefixes() -> None:
    assert ordered_bytes.String.encode_prefix("ab") == b"\x34ab"
    assert ordered_bytes.String.encode_prefix("a\0") is None
    assert ordered_bytes.Blob.encode_prefix(b"ab") == b"\x38ab"
    assert ordered_bytes.Blob.encode_prefix(b"a\0") is None
    assert ordered_bytes.Blob.raw_prefix(b"a\0") == b"\x38a\0"


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


def declared(hint: Any, key: Any, **more: Any) -> Any:
    """A model with one key field, or two."""
    hints = {"k": hint, **dict.fromkeys(more, hb.Key[int]), "c": hb.Column[int]}
    body = {"__annotations__": hints, "k": key, **more, "c": hb.column()}
    return hb.model(table="t", family="d", external=True)(type("Model", (), body))


@pytest.mark.parametrize(
    ("hint", "codec"),
    [
        (hb.Key[int | None], ordered_bytes.Int64),
        (hb.Key[str | None], ordered_bytes.String),
        (hb.Key[bytes | None], ordered_bytes.Blob),
        (hb.Key[Decimal | None], ordered_bytes.Numeric),
        (hb.Key[Level | None], hb.EnumOf(Level, ordered_bytes.Int8)),
    ],
    ids=repr,
)
def test_a_key_field_cannot_be_none(hint: Any, codec: hb.Codec[Any]) -> None:
    with pytest.raises(hb.DeclarationError, match="leave None out of the annotation") as info:
        declared(hint, hb.key(codec))
    assert info.value.details == {"model": "Model", "field": "k"}


@pytest.mark.parametrize("desc", [False, True])
def test_a_blob_is_the_last_field_of_a_key(desc: bool) -> None:
    with pytest.raises(hb.DeclarationError, match="declare it last"):
        declared(hb.Key[bytes], hb.key(ordered_bytes.Blob, desc=desc), n=hb.key())
    declared(hb.Key[bytes], hb.key(ordered_bytes.BlobVar, desc=desc), n=hb.key())


@hb.model(table="ordered_visits", family="d", external=True)
class Visit:
    """A row of a program that makes its keys with `Struct`, and its values with `OrderedBytes`."""

    site: hb.Key[str] = hb.key(ordered_bytes.String)
    day: hb.Key[int] = hb.key(ordered_bytes.Int32, desc=True)
    visitor: hb.Key[bytes] = hb.key(ordered_bytes.Blob)
    paid: hb.Column[Decimal | None] = hb.column("paid", ordered_bytes.Numeric, default=None)
    note: hb.Column[str | None] = hb.column("note", ordered_bytes.String, default=None)
    rate: hb.Column[float | None] = hb.column("rate", ordered_bytes.Float64(nan=True), default=None)


ROWS = {
    "34616200d47ffffff838780079": {"paid": "180364", "note": "3461c3a900", "rate": "31fff8000000000000"},
    "34616200d47ffffffc3861": {"paid": "12fc9b", "note": "3400"},
    "34616200d48000000038": {"paid": "15", "rate": "317fffffffffffffff"},
    "34616300d47ffffff83861": {"note": "347a00"},
}
"""Row keys and cells as Java writes them: ab on the days 7, 3 and -1, and ac on day 7."""


@pytest.fixture
def session(bed: Bed) -> hb.Session:
    """A session on a table with these rows."""
    session = bed.use(Visit)
    bed.store.put(
        "ordered_visits",
        [
            Put(bytes.fromhex(key), {f"d:{name}".encode(): bytes.fromhex(cell) for name, cell in cells.items()})
            for key, cells in ROWS.items()
        ],
    )
    return session


def found(query: hb.Query[Visit]) -> list[tuple[str, int, bytes]]:
    """The keys that a query finds, in order."""
    return [(visit.site, visit.day, visit.visitor) for visit in query.allow_full_scan()]


def test_a_table_of_ordered_bytes_answers_every_condition(session: hb.Session) -> None:
    query = session.query(Visit)
    ab = [("ab", 7, b"x\0y"), ("ab", 3, b"a"), ("ab", -1, b"")]
    assert found(query) == [*ab, ("ac", 7, b"a")]
    assert found(query.where(Visit.site == "ab")) == ab
    assert found(query.where(Visit.site.startswith("a"))) == [*ab, ("ac", 7, b"a")]
    assert found(query.where(Visit.site > "ab")) == [("ac", 7, b"a")]
    assert found(query.where(Visit.site > "ab\0c")) == [("ac", 7, b"a")]
    assert found(query.where(Visit.site == "ab", Visit.day >= 3)) == ab[:2]
    assert found(query.where(Visit.site == "ab", Visit.day < 7)) == ab[1:]
    assert found(query.where(Visit.site == "ab", Visit.day == 7, Visit.visitor.startswith(b"x\0"))) == ab[:1]
    assert found(query.where(Visit.site == "ab", Visit.day == 3, Visit.visitor >= b"a")) == ab[1:2]
    assert found(query.where(Visit.paid > Decimal(0))) == ab[:1]
    assert found(query.where(Visit.paid == Decimal("-1.50"))) == ab[1:2]
    assert found(query.where(Visit.note.startswith("a"))) == ab[:1]
    assert found(query.where(Visit.note == "")) == ab[1:2]
    assert found(query.where(Visit.rate == 0.0)) == ab[2:]
    assert found(query.where(Visit.rate == math.nan)) == ab[:1]  # noqa: PLW0177


def test_what_is_written_has_the_bytes_of_java(session: hb.Session, bed: Bed) -> None:
    visits = [attrs.evolve(visit) for visit in session.query(Visit).allow_full_scan()]  # as new objects
    for visit in visits:
        session.delete(visit)
    session.commit()
    for visit in visits:
        session.add(visit)
    session.commit()
    rows = bed.store.get("ordered_visits", [bytes.fromhex(key) for key in ROWS])
    stored = [{} if row is None else {str(c.decode()): v.value.hex() for c, v in row.columns.items()} for row in rows]
    assert stored == [{f"d:{name}": cell for name, cell in cells.items()} for cells in ROWS.values()]
