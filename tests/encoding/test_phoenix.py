"""What Apache Phoenix writes: bytes that its own classes made, row keys that its own `UPSERT` made, and the promises of
each codec.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.codecs import check_codec, phoenix
from hbmodel.encoding.codecs.from_spec import codec_of
from hbmodel.encoding.codecs.phoenix import PhoenixDecimalCodec
from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.store import Put
from tests.support.beds import Bed
from tests.support.examples import examples
from tests.support.phoenix_jars import TYPES, downloaded
from tests.support.strategies import chars, in_units, numbers, phoenix_decimals

WHEN = datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
EVE = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)

# codec, value, its bytes, what Phoenix is asked: its class and the text of the value; times in ms and ns
GOLDEN: list[tuple[hb.Codec[Any], Any, str, str, str]] = [
    (phoenix.TinyInt, -2, "7e", "PTinyint", "-2"),
    (phoenix.SmallInt, -2, "7ffe", "PSmallint", "-2"),
    (phoenix.Integer, -42, "7fffffd6", "PInteger", "-42"),
    (phoenix.BigInt, -42, "7fffffffffffffd6", "PLong", "-42"),
    (phoenix.UnsignedTinyInt, 127, "7f", "PUnsignedTinyint", "127"),
    (phoenix.UnsignedSmallInt, 300, "012c", "PUnsignedSmallint", "300"),
    (phoenix.UnsignedInt, 42, "0000002a", "PUnsignedInt", "42"),
    (phoenix.UnsignedLong, 42, "000000000000002a", "PUnsignedLong", "42"),
    (phoenix.Double, 1.5, "bff8000000000001", "PDouble", "1.5"),
    (phoenix.Double, -1.5, "4008000000000000", "PDouble", "-1.5"),
    (phoenix.Double, 0.0, "8000000000000001", "PDouble", "0.0"),
    (phoenix.Double, math.inf, "fff0000000000001", "PDouble", "Infinity"),
    (phoenix.Double, -math.inf, "0010000000000000", "PDouble", "-Infinity"),
    (phoenix.Double, 5e-324, "8000000000000002", "PDouble", "4.9E-324"),
    (phoenix.Double, -5e-324, "7fffffffffffffff", "PDouble", "-4.9E-324"),
    (phoenix.Double(nan=True), math.nan, "fff8000000000001", "PDouble", "NaN"),
    (phoenix.Double(nan=True), -0.0, "8000000000000000", "PDouble", "-0.0"),
    (phoenix.Float, 1.5, "bfc00001", "PFloat", "1.5"),
    (phoenix.Float, -1.5, "40400000", "PFloat", "-1.5"),
    (phoenix.Float, 0.0, "80000001", "PFloat", "0.0"),
    (phoenix.Float, -math.inf, "00800000", "PFloat", "-Infinity"),
    (phoenix.Float(nan=True), math.nan, "ffc00001", "PFloat", "NaN"),
    (phoenix.Float(nan=True), -0.0, "80000000", "PFloat", "-0.0"),
    (phoenix.Decimal, Decimal(0), "80", "PDecimal", "0"),
    (phoenix.Decimal, Decimal(1), "c102", "PDecimal", "1"),
    (phoenix.Decimal, Decimal(-1), "3e6466", "PDecimal", "-1"),
    (phoenix.Decimal, Decimal("1E+1"), "c10b", "PDecimal", "10"),
    (phoenix.Decimal, Decimal("1E+2"), "c202", "PDecimal", "100"),
    (phoenix.Decimal, Decimal("-1E+2"), "3d6466", "PDecimal", "-100"),
    (phoenix.Decimal, Decimal("1.5"), "c10233", "PDecimal", "1.50"),
    (phoenix.Decimal, Decimal("-1.5"), "3e643366", "PDecimal", "-1.5"),
    (phoenix.Decimal, Decimal("0.01"), "c002", "PDecimal", "0.01"),
    (phoenix.Decimal, Decimal("-0.001"), "405b66", "PDecimal", "-0.001"),
    (phoenix.Decimal, Decimal(123456789), "c502182e445a", "PDecimal", "123456789"),
    (phoenix.Decimal, Decimal("-1.2345678901234567890123456789012345678"),
     "3e644e38220c644e38220c644e38220c644e382215", "PDecimal", "-1.2345678901234567890123456789012345678"),
    (phoenix.Decimal, Decimal(-12345678901234567890123456789012345678),
     "2c59432d170b59432d170b59432d170b59432d1766", "PDecimal", "-12345678901234567890123456789012345678"),
    (phoenix.Decimal, Decimal("1E+125"), "ff0b", "PDecimal", "1E+125"),
    (phoenix.Decimal, Decimal("1E-126"), "8202", "PDecimal", "1E-126"),
    (phoenix.Decimal, Decimal("-1E+123"), "015b66", "PDecimal", "-1E+123"),
    (phoenix.Boolean, True, "01", "PBoolean", "true"),
    (phoenix.Boolean, False, "00", "PBoolean", "false"),
    (phoenix.Date, WHEN, "8000018bcfe5687b", "PDate", "1700000000123"),
    (phoenix.Time, EVE, "7fffffffffffffff", "PTime", "-1"),
    (phoenix.UnsignedDate, WHEN, "0000018bcfe5687b", "PUnsignedDate", "1700000000123"),
    (phoenix.UnsignedTime, WHEN, "0000018bcfe5687b", "PUnsignedTime", "1700000000123"),
    (phoenix.Timestamp, WHEN.replace(microsecond=123_456), "8000018bcfe5687b0006f540", "PTimestamp",
     "1700000000123 123456000"),
    (phoenix.Timestamp, EVE, "7fffffffffffffff00000000", "PTimestamp", "-1 999000000"),
    (phoenix.UnsignedTimestamp, WHEN, "0000018bcfe5687b00000000", "PUnsignedTimestamp", "1700000000123 123000000"),
]  # fmt: skip

IN_JAVA = """
import json, os, sys
import jpype
from hbmodel.localhbase.jars import class_path
from hbmodel.localhbase.java import find_java

os.environ["JAVA_HOME"] = str(find_java().path.parents[1])
jpype.startJVM(classpath=[*class_path(progress=False).split(os.pathsep), *sys.argv[1:]])
lang, sql = jpype.java.lang, jpype.java.sql

def timestamp(text):
    millis, nanos = map(int, text.split())
    made = sql.Timestamp(millis)
    made.setNanos(nanos)
    return made

makers = {
    "tinyint": lang.Byte.valueOf, "smallint": lang.Short.valueOf, "integer": lang.Integer.valueOf,
    "int": lang.Integer.valueOf, "long": lang.Long.valueOf, "double": lang.Double.valueOf,
    "float": lang.Float.valueOf, "decimal": jpype.java.math.BigDecimal, "boolean": lang.Boolean.valueOf,
    "date": lambda text: sql.Date(int(text)), "time": lambda text: sql.Time(int(text)), "timestamp": timestamp,
}
made = []
for kind, text in json.load(sys.stdin):
    type = jpype.JClass("org.apache.phoenix.schema.types." + kind).INSTANCE
    value = makers[kind.lower().removeprefix("p").removeprefix("unsigned")](text)
    made.append(bytes(byte & 255 for byte in type.toBytes(value)).hex())
print(json.dumps(made))
"""


@pytest.mark.parametrize(("codec", "value", "data", "kind", "text"), GOLDEN, ids=lambda x: repr(x)[:40])
def test_golden_bytes(codec: hb.Codec[Any], value: Any, data: str, kind: str, text: str) -> None:
    written = bytes.fromhex(data)
    assert codec.encode(value) == written
    read = codec.decode(written)
    assert type(read) is type(value)
    assert repr(read) == repr(value) or read == value


@pytest.mark.slow
@pytest.mark.hbase
def test_phoenix_itself_makes_the_golden_bytes(tmp_path: Path) -> None:
    jars = map(str, downloaded(TYPES, tmp_path))
    asked = json.dumps([(kind, text) for *_, kind, text in GOLDEN])
    command = [sys.executable, "-c", IN_JAVA, *jars]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [data for _, _, data, _, _ in GOLDEN]


ROW_KEYS: list[tuple[list[tuple[hb.Codec[Any], bool]], tuple[Any, ...], str]] = [
    ([(phoenix.Boolean, True)], (True,), "fe"),
    ([(phoenix.Boolean, True)], (False,), "ff"),
    ([(phoenix.Varchar, True)], ("ab",), "9e9dff"),
    ([(phoenix.Varchar, True), (phoenix.Integer, False)], ("ab", 1), "9e9dff80000001"),
    ([(phoenix.Varchar, False), (phoenix.Integer, False)], ("ab", 1), "61620080000001"),
    ([(phoenix.Integer, False), (phoenix.Varchar, False)], (1, "ab"), "800000016162"),
    ([(phoenix.Char(4), False)], ("ab",), "61622020"),
    ([(phoenix.Char(4), True)], ("ab",), "9e9ddfdf"),
    ([(phoenix.Char(4), True), (phoenix.Char(2), False)], ("ab", "x"), "9e9ddfdf7820"),
    ([(phoenix.Decimal, False)], (Decimal("-1.5"),), "3e643366"),
    ([(phoenix.Decimal, True)], (Decimal("-1.5"),), "c19bcc99ff"),
    ([(phoenix.Decimal, False), (phoenix.Integer, False)], (Decimal("-1.5"), 1), "3e6433660080000001"),
    ([(phoenix.Decimal, True), (phoenix.Integer, False)], (Decimal("-1.5"), 1), "c19bcc99ff80000001"),
    ([(phoenix.Decimal, True), (phoenix.Integer, True)], (Decimal("1.5"), 1), "3efdccff7ffffffe"),
    ([(phoenix.Double, True)], (1.5,), "4007fffffffffffe"),
    ([(phoenix.Float, True)], (-1.5,), "bfbfffff"),
    ([(phoenix.Timestamp, True)], (WHEN,), "7ffffe74301a9784ffffffff"),
    ([(phoenix.Date, True)], (WHEN.replace(microsecond=0),), "7ffffe74301a97ff"),
    ([(phoenix.UnsignedInt, True)], (42,), "ffffffd5"),
]
"""Fields with whether they are `DESC`, values, and the row key of an `UPSERT` of them.

Phoenix 5.2.1 made the keys without a server: a connection to `jdbc:phoenix:none;x`, a table with these columns as its
primary key, an `UPSERT`, and the rows of `PhoenixRuntime.getUncommittedDataIterator`.
"""


@pytest.mark.parametrize(("fields", "values", "key"), ROW_KEYS, ids=lambda x: repr(x)[:60])
def test_row_keys_are_those_of_an_upsert(
    fields: list[tuple[hb.Codec[Any], bool]], values: tuple[Any, ...], key: str
) -> None:
    layout = KeyLayout(tuple(KeyField(f"f{n}", codec, desc=desc) for n, (codec, desc) in enumerate(fields)))
    assert layout.pack(values).hex() == key
    assert layout.unpack(bytes.fromhex(key)) == values


VALUES: list[tuple[hb.Codec[Any], st.SearchStrategy[Any]]] = [
    (phoenix.UnsignedTinyInt, numbers(0, 127)),
    (phoenix.UnsignedSmallInt, numbers(0, 2**15 - 1)),
    (phoenix.UnsignedInt, numbers(0, 2**31 - 1)),
    (phoenix.UnsignedLong, numbers(0, 2**63 - 1)),
    (phoenix.Double, st.floats(allow_nan=False)),
    (phoenix.Double(nan=True), st.floats(allow_nan=False)),
    (phoenix.Float, st.floats(allow_nan=False, width=32)),
    (phoenix.Float(nan=True), st.floats(allow_nan=False, width=32)),
    (phoenix.Decimal, phoenix_decimals()),
    (phoenix.Timestamp, in_units("us").map(lambda at: at.astimezone(UTC))),
    (phoenix.UnsignedTimestamp, in_units("us", datetime(1970, 1, 1)).map(lambda at: at.astimezone(UTC))),
    (phoenix.Char(4), chars(4)),
]


@pytest.mark.parametrize(("codec", "values"), VALUES, ids=lambda x: repr(x)[:40])
@settings(max_examples=examples(60))
@given(data=st.data())
def test_every_codec_keeps_its_promises(
    codec: hb.Codec[Any], values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    check_codec(codec, data.draw(st.lists(values, max_size=6)))


@pytest.mark.parametrize("codec", [codec for codec, _ in VALUES if codec.key], ids=repr)
def test_the_registry_describes_every_codec(codec: hb.Codec[Any]) -> None:
    assert codec_of(json.loads(json.dumps(codec.spec))) == codec


@given(st.one_of(st.binary(max_size=22), st.binary(min_size=8, max_size=8), st.binary(min_size=12, max_size=12)))
def test_bytes_read_back_byte_for_byte_or_are_refused(data: bytes) -> None:
    for codec, _ in VALUES:
        try:
            value = codec.decode(data)
        except hb.DecodingError:
            continue
        assert codec.encode(value) == data


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (phoenix.UnsignedInt, 2**31),
        (phoenix.UnsignedInt, -1),
        (phoenix.Double, math.nan),
        (phoenix.Float, 0.1),
        (phoenix.Decimal, Decimal("NaN")),
        (phoenix.Decimal, Decimal(10) ** 126),
        (phoenix.Decimal, -(Decimal(10) ** 124)),
        (phoenix.Decimal, Decimal("1E-127")),
        (phoenix.Decimal, Decimal("1." + "1" * 38)),
        (phoenix.Decimal, 1),
        (phoenix.UnsignedTimestamp, EVE),
        (phoenix.Timestamp, date(2024, 1, 1)),
        (phoenix.Char(2), "abc"),
        (phoenix.Char(2), "a "),
        (phoenix.Char(2), "a\t"),
        (phoenix.Char(2), "é"),
    ],
    ids=lambda x: repr(x)[:40],
)
def test_values_that_phoenix_could_not_read_back_are_refused(codec: hb.Codec[Any], value: Any) -> None:
    with pytest.raises(hb.EncodingError):
        codec.encode(value)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (phoenix.UnsignedInt, "80000000"),
        (phoenix.Double, "fff8000000000001"),
        (phoenix.Double, "8000000000000000"),
        (phoenix.Double, "0000000000000000"),
        (phoenix.Double(nan=True), "fff8000000000002"),
        (phoenix.Decimal, ""),
        (phoenix.Decimal, "8002"),
        (phoenix.Decimal, "8102"),
        (phoenix.Decimal, "c1"),
        (phoenix.Decimal, "c101"),
        (phoenix.Decimal, "c165ff"),
        (phoenix.Decimal, "c1020a01"),
        (phoenix.Decimal, "3e64"),
        (phoenix.Decimal, "3e66"),
        (phoenix.Timestamp, "800000000000000000000001"),
        (phoenix.Timestamp, "8000000000000000000f4240"),
        (phoenix.Char(2), "6100"),
        (phoenix.Char(2), "c3a9"),
        (phoenix.Char(2), "61"),
    ],
    ids=repr,
)
def test_bytes_that_phoenix_does_not_write_are_refused(codec: hb.Codec[Any], data: str) -> None:
    with pytest.raises(hb.DecodingError):
        codec.decode(bytes.fromhex(data))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False, width=32))
def test_the_last_float_before_a_number(number: float, other: float) -> None:
    floor = phoenix.Float.floor(number)
    assert floor is not None
    assert floor <= number
    assert not floor < other <= number


def test_nan_has_no_order() -> None:
    with pytest.raises(hb.EncodingError, match="NaN has no order"):
        phoenix.Double(nan=True).floor(math.nan)
    with pytest.raises(hb.DeclarationError, match="cannot be part of a key"):
        KeyField("f", phoenix.Double(nan=True))
    with pytest.raises(hb.DeclarationError, match="True or False"):
        phoenix.Double(nan=1)  # type: ignore[arg-type]


def test_prefixes_of_char() -> None:
    assert phoenix.Char(3).encode_prefix("a b") == b"a b"
    assert phoenix.Char(3).encode_prefix("abcd") is None
    with pytest.raises(hb.QueryError, match="ends in a blank"):
        phoenix.Char(3).encode_prefix("a ")


def test_a_decimal_in_a_key_has_an_end() -> None:
    codec = PhoenixDecimalCodec()
    with pytest.raises(hb.DecodingError, match="no delimiter"):
        codec.decode_part(b"\xc1\x02", 0)


@hb.model(table="STATS", family="0", external=True)
class Stat:
    """A row of `CREATE TABLE STATS (SITE CHAR(4), AT TIMESTAMP, PRICE DECIMAL, ... PRIMARY KEY (SITE, PRICE DESC, AT
    DESC))`.
    """

    site: hb.Key[str] = hb.key(phoenix.Char(4))
    price: hb.Key[Decimal] = hb.key(phoenix.Decimal, desc=True)
    at: hb.Key[datetime] = hb.key(phoenix.Timestamp, desc=True)
    load: hb.Column[float | None] = hb.column("LOAD", phoenix.Double(nan=True), default=None)
    share: hb.Column[float | None] = hb.column("SHARE", phoenix.Float, default=None)
    label: hb.Column[str | None] = hb.column("LABEL", phoenix.Char(3), default=None)


CELLS = [
    ("6e793120", "c19bcc99ff", "7ffffe74301a9784fff90abf", "4008000000000000", "40400000", "782020"),
    ("6e793120", "3efdccff", "7ffffe74301a9784ffffffff", "8000000000000000", "80000001", "787920"),
    ("6e793120", "3efdccff", "7ffffe74301a9785ffffffff", "8000000000000001", "bfc00001", "207820"),
    ("6e793220", "7fff", "8000000000000000ffffffff", "fff8000000000001", "bf800001", "202020"),
]


@pytest.fixture
def session(bed: Bed) -> hb.Session:
    """A session on a table with rows as Phoenix writes them."""
    session = bed.use(Stat)
    puts = []
    for site, price, at, load, share, label in CELLS:
        cells = {b"0:_0": b"x", b"0:LOAD": load, b"0:SHARE": share, b"0:LABEL": label}
        data = {name: bytes.fromhex(value) if isinstance(value, str) else value for name, value in cells.items()}
        puts.append(Put(bytes.fromhex(site + price + at), data))
    bed.store.put("STATS", puts)
    return session


def loads(query: hb.Query[Stat]) -> list[str]:
    """The loads of the rows that a query finds, in order."""
    return [str(stat.load) for stat in query.allow_full_scan()]


def test_a_table_of_phoenix_answers_every_condition(session: hb.Session) -> None:
    query = session.query(Stat)
    of_site = query.where(Stat.site == "ny1")
    assert loads(of_site) == ["-0.0", "0.0", "-1.5"]
    assert [stat.price for stat in of_site] == [Decimal("1.5"), Decimal("1.5"), Decimal("-1.5")]
    assert loads(of_site.where(Stat.price > Decimal(0))) == ["-0.0", "0.0"]
    assert loads(of_site.where(Stat.price == Decimal("1.50"), Stat.at < WHEN)) == ["0.0"]
    assert loads(of_site.where(Stat.price == Decimal("1.50"), Stat.at >= WHEN)) == ["-0.0"]
    assert loads(query.where(Stat.site.startswith("ny"))) == ["-0.0", "0.0", "-1.5", "nan"]
    assert loads(query.where(Stat.site > "ny1")) == ["nan"]
    assert loads(query.where(Stat.load == 0.0)) == ["-0.0", "0.0"]
    assert loads(query.where(Stat.load < 0.0)) == ["-1.5"]
    assert loads(query.where(Stat.load == math.nan)) == ["nan"]  # noqa: PLW0177
    assert loads(query.where(Stat.share > 0.1)) == ["0.0", "nan"]
    assert loads(query.where(Stat.label == "x")) == ["-1.5"]
    assert loads(query.where(Stat.label.startswith("x"))) == ["-0.0", "-1.5"]
    assert loads(query.where(Stat.label == "")) == ["nan"]


def test_what_is_written_has_the_bytes_of_phoenix(session: hb.Session, bed: Bed) -> None:
    session.add(Stat(site="la", price=Decimal("-1.5"), at=WHEN, load=1.5, share=-1.5, label="z"))
    session.commit()
    (row,) = bed.store.get("STATS", [bytes.fromhex("6c612020" + "c19bcc99ff" + "7ffffe74301a9784ffffffff")])
    assert row is not None
    assert {column: cell.value.hex() for column, cell in row.columns.items()} == {
        b"0:LOAD": "bff8000000000001",
        b"0:SHARE": "40400000",
        b"0:LABEL": "7a2020",
    }
