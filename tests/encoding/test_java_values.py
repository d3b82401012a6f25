"""What Java programs write: bytes that HBase's class `Bytes` made, the promises of each codec, and tables that a
program in Java wrote.
"""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.codecs import check_codec, java
from hbmodel.encoding.codecs.from_spec import codec_of
from hbmodel.encoding.codecs.java_values import JavaFloatCodec
from hbmodel.store import Put
from tests.support.beds import Bed
from tests.support.examples import examples
from tests.support.strategies import in_units, numbers

WHEN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)

# codec, value, its bytes, what Java is asked: the type and the text of the value
GOLDEN: list[tuple[hb.Codec[Any], Any, str, str, str]] = [
    (java.Double, 1.5, "3ff8000000000000", "double", "1.5"),
    (java.Double, -1.5, "bff8000000000000", "double", "-1.5"),
    (java.Double, 0.0, "0000000000000000", "double", "0.0"),
    (java.Double, -0.0, "8000000000000000", "double", "-0.0"),
    (java.Double, math.inf, "7ff0000000000000", "double", "Infinity"),
    (java.Double, math.nan, "7ff8000000000000", "double", "NaN"),
    (java.Double, 5e-324, "0000000000000001", "double", "4.9E-324"),
    (java.Float, 1.5, "3fc00000", "float", "1.5"),
    (java.Float, -0.0, "80000000", "float", "-0.0"),
    (java.Float, -math.inf, "ff800000", "float", "-Infinity"),
    (java.Float, math.nan, "7fc00000", "float", "NaN"),
    (java.Float, 0.10000000149011612, "3dcccccd", "float", "0.1"),
    (java.Float, 3.4028234663852886e38, "7f7fffff", "float", "3.4028235E38"),
    (java.Short, -2, "fffe", "short", "-2"),
    (java.Short, 32767, "7fff", "short", "32767"),
    (java.Int, -42, "ffffffd6", "int", "-42"),
    (java.Long, -42, "ffffffffffffffd6", "long", "-42"),
    (java.Byte, -2, "fe", "byte", "-2"),
    (java.Boolean, True, "ff", "boolean", "true"),
    (java.Boolean, False, "00", "boolean", "false"),
    (java.LongTime, WHEN, "0000018bcfe56800", "long", "1700000000000"),
    (java.LongTime("s"), WHEN, "000000006553f100", "long", "1700000000"),
    (java.LongTime("us"), WHEN, "00060a24181e4000", "long", "1700000000000000"),
    (java.LongTime(signed=True), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), "fffffffffffffc18", "long", "-1000"),
    (java.IntTime, WHEN, "6553f100", "int", "1700000000"),
    (java.IntTime, datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC), "7fffffff", "int", "2147483647"),
    (java.IntTime(signed=True), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), "ffffffff", "int", "-1"),
    (java.BigDecimal, Decimal("1.50"), "00000002 0096", "decimal", "1.50"),
    (java.BigDecimal, Decimal("1.5"), "00000001 0f", "decimal", "1.5"),
    (java.BigDecimal, Decimal("-1.28"), "00000002 80", "decimal", "-1.28"),
    (java.BigDecimal, Decimal("1.28"), "00000002 0080", "decimal", "1.28"),
    (java.BigDecimal, Decimal(0), "00000000 00", "decimal", "0"),
    (java.BigDecimal, Decimal("0.000"), "00000003 00", "decimal", "0.000"),
    (java.BigDecimal, Decimal("1E+5"), "fffffffb 01", "decimal", "1E+5"),
    (java.BigDecimal, Decimal("-12345678901234567890.1"), "00000001 f94eb1607ed0c993cb", "decimal",
     "-12345678901234567890.1"),
    (java.IntText, -42, "2d3432", "text", "-42"),
    (java.IntText, 0, "30", "text", "0"),
    (java.UTF, "é", "0002c3a9", "utf", "é"),
]  # fmt: skip

IN_JAVA = """
import json, os, sys
import jpype
from hbmodel.localhbase.hbase_configuration import JVM_FLAGS
from hbmodel.localhbase.jars import class_path
from hbmodel.localhbase.java import find_java

os.environ["JAVA_HOME"] = str(find_java().path.parents[1])
jpype.startJVM(*JVM_FLAGS, f"-Dhbmodel.log={os.devnull}", classpath=class_path(progress=False).split(os.pathsep))
Bytes = jpype.JClass("org.apache.hadoop.hbase.util.Bytes")
lang, math, io = jpype.java.lang, jpype.java.math, jpype.java.io

def written(method, text):
    stream = io.ByteArrayOutputStream()
    getattr(io.DataOutputStream(stream), method)(text)
    return stream.toByteArray()

makers = {
    "double": lambda text: Bytes.toBytes(jpype.JDouble(lang.Double.parseDouble(text))),
    "float": lambda text: Bytes.toBytes(jpype.JFloat(lang.Float.parseFloat(text))),
    "short": lambda text: Bytes.toBytes(jpype.JShort(int(text))),
    "int": lambda text: Bytes.toBytes(jpype.JInt(int(text))),
    "long": lambda text: Bytes.toBytes(jpype.JLong(int(text))),
    "byte": lambda text: written("writeByte", int(text)),
    "boolean": lambda text: Bytes.toBytes(jpype.JBoolean(text == "true")),
    "decimal": lambda text: Bytes.toBytes(math.BigDecimal(text)),
    "text": lambda text: Bytes.toBytes(jpype.JString(text)),
    "utf": lambda text: written("writeUTF", text),
}
print(json.dumps([str(Bytes.toHex(makers[kind](text))) for kind, text in json.load(sys.stdin)]))
"""


@pytest.mark.parametrize(("codec", "value", "data", "kind", "text"), GOLDEN, ids=lambda x: repr(x)[:40])
def test_golden_bytes(codec: hb.Codec[Any], value: Any, data: str, kind: str, text: str) -> None:
    written = bytes.fromhex(data)
    assert codec.encode(value) == written
    read = codec.decode(written)
    assert type(read) is type(value)
    assert repr(read) == repr(value)


@pytest.mark.lengthy
@pytest.mark.hbase
def test_java_itself_makes_the_golden_bytes() -> None:
    asked = json.dumps([(kind, text) for *_, kind, text in GOLDEN])
    done = subprocess.run([sys.executable, "-c", IN_JAVA], input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made == [bytes.fromhex(data).hex() for _, _, data, _, _ in GOLDEN]


DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False),
    st.builds(
        lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
        st.integers(0, 1),
        st.lists(st.integers(0, 9), min_size=1, max_size=60).map(tuple),
        st.one_of(st.integers(-40, 40), st.sampled_from([-(2**31) + 1, 2**31])),
    ),
)
LAST_SECOND = datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)
FIRST_SECOND = datetime(1901, 12, 13, 20, 45, 52, tzinfo=UTC)
SECONDS = st.integers(0, 2**31 - 1).map(lambda second: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second))

VALUES: list[tuple[hb.Codec[Any], st.SearchStrategy[Any]]] = [
    (java.Double, st.floats(allow_nan=False)),
    (java.Float, st.floats(allow_nan=False, width=32)),
    (java.Byte, numbers(-128, 127)),
    (java.Short, numbers(-(2**15), 2**15 - 1)),
    (java.Int, numbers(-(2**31), 2**31 - 1)),
    (java.Long, numbers(-(2**63), 2**63 - 1)),
    (java.Boolean, st.booleans()),
    (java.LongTime, in_units("ms", datetime(1970, 1, 1)).map(lambda at: at.astimezone(UTC))),
    (java.LongTime("us"), in_units("us", datetime(1970, 1, 1)).map(lambda at: at.astimezone(UTC))),
    (java.LongTime(signed=True), in_units("ms").map(lambda at: at.astimezone(UTC))),
    (java.IntTime, SECONDS),
    (java.IntTime(signed=True), st.one_of(SECONDS, st.just(FIRST_SECOND))),
    (java.BigDecimal, DECIMALS),
    (java.IntText, st.integers()),
]


@pytest.mark.parametrize(("codec", "values"), VALUES, ids=lambda x: repr(x)[:40])
@settings(max_examples=examples(60))
@given(data=st.data())
def test_every_codec_keeps_its_promises(
    codec: hb.Codec[Any], values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    check_codec(codec, data.draw(st.lists(values, max_size=6)))


@pytest.mark.parametrize("codec", [codec for codec, _ in VALUES], ids=repr)
def test_the_registry_describes_every_codec(codec: hb.Codec[Any]) -> None:
    assert codec_of(json.loads(json.dumps(codec.spec))) == codec


def test_existing_descriptions_stay() -> None:
    assert java.Int.spec == {"codec": "java_int", "bits": 32}
    assert java.Long is hb.codecs.JavaLong
    assert java.UTF is hb.codecs.JavaUTF
    assert java.LongTime("s", round=True).spec == java.LongTime("s").spec


@given(st.binary(min_size=8, max_size=8))
def test_every_double_reads_back_byte_for_byte(data: bytes) -> None:
    assert java.Double.encode(java.Double.decode(data)) == data


@given(
    st.one_of(st.binary(min_size=4, max_size=4), st.sampled_from([b"\x7f\xa0\0\0", b"\xff\xc0\0\0", b"\x7f\x80\0\1"]))
)
def test_every_float_reads_back_byte_for_byte_or_is_refused(data: bytes) -> None:
    try:
        number = java.Float.decode(data)
    except hb.DecodingError:
        assert math.isnan(struct.unpack(">f", data)[0])
    else:
        assert java.Float.encode(number) == data


@given(st.binary(max_size=12))
def test_other_bytes_read_back_byte_for_byte_or_are_refused(data: bytes) -> None:
    for codec, _ in VALUES:
        try:
            value = codec.decode(data)
        except hb.DecodingError:
            continue
        assert codec.encode(value) == data


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (java.Float, 0.1),
        (java.Float, 1e39),
        (java.Float, "1"),
        (java.Double, 2**53 + 1),
        (java.Double, True),
        (java.Short, 2**15),
        (java.Byte, -129),
        (java.Boolean, 1),
        (java.BigDecimal, Decimal("NaN")),
        (java.BigDecimal, Decimal("Infinity")),
        (java.BigDecimal, Decimal("1E+2147483649")),
        (java.BigDecimal, 1),
        (java.IntText, True),
        (java.IntText, 1.0),
        pytest.param(java.IntText, 10**5000, id="too many digits"),
        (java.LongTime, datetime(1969, 12, 31, tzinfo=UTC)),
        (java.LongTime, WHEN.replace(microsecond=1)),
        (java.LongTime, WHEN.replace(tzinfo=None)),
        (java.IntTime, LAST_SECOND + timedelta(seconds=1)),
        (java.IntTime(signed=True), FIRST_SECOND - timedelta(seconds=1)),
    ],
    ids=lambda x: repr(x)[:40],
)
def test_values_that_java_could_not_read_back_are_refused(codec: hb.Codec[Any], value: Any) -> None:
    with pytest.raises(hb.EncodingError):
        codec.encode(value)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (java.Boolean, b"\x01"),
        (java.BigDecimal, b"\0\0\0\2"),
        (java.BigDecimal, b"\0\0\0\2\0\1"),
        (java.BigDecimal, b"\0\0\0\2\xff\xff"),
        (java.IntText, b""),
        (java.IntText, b"-0"),
        (java.IntText, b"007"),
        (java.IntText, b"+7"),
        (java.IntText, b"7\n"),
        (java.IntText, b"9" * 5000),
        (java.LongTime, b"\xff" * 8),
        (java.LongTime("s"), b"\x7f" + b"\xff" * 7),
        (java.IntTime, b"\x80\0\0\0"),
        (java.Short, b"\0"),
    ],
    ids=lambda x: repr(x)[:40],
)
def test_bytes_that_java_does_not_write_are_refused(codec: hb.Codec[Any], data: bytes) -> None:
    with pytest.raises(hb.DecodingError):
        codec.decode(data)


@pytest.mark.parametrize("codec", [java.Double, java.Float, java.BigDecimal, java.IntText], ids=repr)
def test_codecs_without_an_order_are_refused_in_keys(codec: hb.Codec[Any]) -> None:
    with pytest.raises(hb.DeclarationError, match="cannot be part of a key"):
        hb.model(table="t", family="d")(
            type("Model", (), {"__annotations__": {"k": hb.Key[codec.python_type]}, "k": hb.key(codec)})
        )


@pytest.mark.parametrize(
    ("codec", "given", "floor"),
    [
        (java.LongTime, datetime(1969, 1, 1, tzinfo=UTC), None),
        (java.LongTime, WHEN.replace(microsecond=1_999), WHEN.replace(microsecond=1_000)),
        (java.IntTime, datetime(2050, 1, 1, tzinfo=UTC), LAST_SECOND),
        (java.IntTime(signed=True), datetime(1900, 1, 1, tzinfo=UTC), None),
        (java.IntTime(signed=True), datetime(1969, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)),
    ],
    ids=repr,
)
def test_the_last_time_that_is_stored_before_another(codec: hb.Codec[Any], given: Any, floor: Any) -> None:
    assert codec.floor(given) == floor


def test_a_time_is_rounded_where_its_codec_says_so() -> None:
    rounded = java.LongTime("s", round=True)
    assert rounded.encode(WHEN.replace(microsecond=5)) == java.LongTime("s").encode(WHEN)
    assert rounded.exact == java.LongTime("s")
    with pytest.raises(hb.EncodingError, match=r'hb\.codecs\.java\.IntTime\("s", round=True\)'):
        java.IntTime.encode(WHEN.replace(microsecond=5))


@pytest.mark.parametrize(
    "declare",
    [
        partial(java.LongTime, "h"),  # type: ignore[arg-type]
        partial(java.LongTime, signed=1),  # type: ignore[arg-type]
        partial(java.LongTime, round=1),  # type: ignore[arg-type]
    ],
)
def test_wrong_declarations_are_refused(declare: Callable[[], object]) -> None:
    with pytest.raises(hb.DeclarationError):
        declare()


def test_floats_of_other_widths_do_not_exist() -> None:
    with pytest.raises(KeyError):
        JavaFloatCodec(16)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False, width=32))
def test_the_last_float_of_32_bits_before_a_number(number: float, other: float) -> None:
    floor = java.Float.floor(number)
    assert floor <= number
    assert java.Float.decode(java.Float.encode(floor)) == floor
    assert not floor < other <= number


@hb.model(table="java", family="d", external=True)
class Measured:
    """A row of a Java program."""

    at: hb.Key[datetime] = hb.key(java.LongTime)
    name: hb.Key[str] = hb.key()
    value: hb.Column[float | None] = hb.column("v", java.Double, default=None)
    single: hb.Column[float | None] = hb.column("f", java.Float, default=None)
    price: hb.Column[Decimal | None] = hb.column("p", java.BigDecimal, default=None)
    count: hb.Column[int | None] = hb.column("n", java.IntText, default=None)
    valid: hb.Column[bool | None] = hb.column("b", java.Boolean, default=None)
    born: hb.Column[datetime | None] = hb.column("t", java.LongTime(signed=True), default=None)


ROWS = [
    (-1.5, -0.5, "1.50", -42, True, -86_400_000),
    (-0.0, 0.25, "-0.5", 7, False, 0),
    (0.0, -0.0, "1.5", 0, True, 1),
    (2.5, 3.0, "1E+2", 100, False, 1_700_000_000_000),
    (math.nan, math.nan, "0.00", -7, True, -1),
]


@pytest.fixture
def session(bed: Bed) -> hb.Session:
    """A session on a table with rows as Java writes them."""
    session = bed.use(Measured)
    puts = []
    for n, (value, single, price, count, valid, born) in enumerate(ROWS):
        cells = {
            b"d:v": struct.pack(">d", value),
            b"d:f": struct.pack(">f", single),
            b"d:p": java.BigDecimal.encode(Decimal(price)),
            b"d:n": str(count).encode(),
            b"d:b": b"\xff" if valid else b"\0",
            b"d:t": struct.pack(">q", born),
        }
        puts.append(Put(struct.pack(">q", 1_700_000_000_000 + n * 1000) + b"row", cells))
    bed.store.put("java", puts)
    return session


def names(query: hb.Query[Measured]) -> list[int]:
    """Which of the rows a query finds."""
    return [int((found.at - WHEN).total_seconds()) for found in query.allow_full_scan()]


def test_a_table_of_a_java_program_answers_every_condition(session: hb.Session) -> None:
    query = session.query(Measured)
    assert names(query.where(Measured.value == 0.0)) == [1, 2], "0.0 equals -0.0, whose bytes differ"
    assert names(query.where(Measured.value < 0.0)) == [0]
    assert names(query.where(Measured.value >= 0.0)) == [1, 2, 3]
    assert names(query.where(Measured.value == math.nan)) == [4]  # noqa: PLW0177
    assert names(query.where(Measured.single.in_([-0.5, 0.0]))) == [0, 2]
    assert names(query.where(Measured.single > 0.1)) == [1, 3], "a bound need not be a float of 32 bits"
    assert names(query.where(Measured.single <= -0.3)) == [0]
    assert names(query.where(Measured.price == Decimal("1.5"))) == [0, 2], "1.50 equals 1.5, whose bytes differ"
    assert names(query.where(Measured.price > Decimal(2))) == [3]
    assert names(query.where(Measured.count == -42)) == [0]
    assert names(query.where(Measured.count < 0)) == [0, 4]
    assert names(query.where(Measured.count > 9)) == [3]
    assert names(query.where(Measured.valid == True)) == [0, 2, 4]  # noqa: E712
    assert names(query.where(Measured.born < datetime(1970, 1, 1, tzinfo=UTC))) == [0, 4]
    after = session.query(Measured).where(Measured.at > WHEN + timedelta(milliseconds=1_500))
    assert names(after) == [2, 3, 4]
    assert after.explain().path == "primary"


def test_what_is_written_has_the_bytes_of_java(session: hb.Session, bed: Bed) -> None:
    session.add(
        Measured(at=WHEN, name="new", value=-2.0, single=0.5, price=Decimal("-1.28"), count=-1, valid=True, born=WHEN)
    )
    session.commit()
    (row,) = bed.store.get("java", [bytes.fromhex("0000018bcfe56800") + b"new"])
    assert row is not None
    assert {column: cell.value.hex() for column, cell in row.columns.items()} == {
        b"d:v": "c000000000000000",
        b"d:f": "3f000000",
        b"d:p": "0000000280",
        b"d:n": "2d31",
        b"d:b": "ff",
        b"d:t": "0000018bcfe56800",
    }
