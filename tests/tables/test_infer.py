"""Proposed models of tables of other programs: what is guessed from which bytes, and that the model fits them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any
from uuid import UUID
from zlib import crc32

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.codecs import java
from hbmodel.errors import DeclarationError, TableNotFound
from hbmodel.store import Family, Put
from hbmodel.tables.adoption.codec_guess import TIMES, literal
from hbmodel.tables.adoption.inferred_families import MANY, MOST
from hbmodel.tables.adoption.inferred_key import DELIMITERS
from hbmodel.tables.adoption.inferred_names import class_name
from hbmodel.tables.adoption.table_sample import CELLS
from tests.support.beds import Bed
from tests.support.examples import examples, in_turn

Rows = Mapping[bytes, Mapping[bytes, bytes]]

CONTRADICTIONS = {"key", "key-bytes", "bucket", "value", "value-bytes", "qualifier"}
"""Kinds of findings that no proposed model has on the sampled rows."""


def inferred(rows: Rows, families: Sequence[bytes] = (b"d",)) -> hb.tables.InferredModel:
    """The model that is proposed for a table of these rows; it is declared, and nothing in the rows contradicts it."""
    with hb.connect("memory:") as store:
        store.create_table("inferred", [Family(family) for family in families])
        store.put("inferred", [Put(key, cells) for key, cells in rows.items()])
        found = hb.tables.infer(store, "inferred")
        assert store.tables() == ["inferred"]
        adoption = hb.tables.adopt(store, declared(found))
        assert CONTRADICTIONS.isdisjoint(finding.kind for finding in adoption.findings), adoption
        if not any(guess.in_qualifier for guess in found.guesses):
            assert found.rows == adoption.rows == len(rows)
        for other in found.others:
            adoption = hb.tables.adopt(store, declared(other))
            assert CONTRADICTIONS.isdisjoint(finding.kind for finding in adoption.findings), adoption
            assert (other.rows, other.others) == (len(rows), ())
        return found


def declared(found: hb.tables.InferredModel) -> type[Any]:
    """The class that the source declares."""
    scope: dict[str, Any] = {"__name__": "proposed"}
    exec(found.source, scope)
    (model,) = (each for each in scope.values() if _declares(each, found))
    schema = hb.schema.schema_of(model)
    assert schema.external
    assert schema.table == found.table
    assert [field.name for field in schema.fields] == [guess.name for guess in found.guesses]
    return model


def _declares(value: Any, found: hb.tables.InferredModel) -> bool:
    """Whether a name of the source is the class with the guessed fields."""
    if not isinstance(value, type) or value.__module__ != "proposed":
        return False
    families = {guess.column.partition(b":")[0] for guess in found.guesses if guess.column is not None}
    return families <= {*hb.schema.schema_of(value).family_names}


def of_keys(*keys: bytes) -> hb.tables.InferredModel:
    """The model of rows with these keys."""
    return inferred({key: {b"d:n": b"name"} for key in keys})


def of_values(*values: bytes) -> hb.tables.InferredField:
    """The guess for a column with these values."""
    return inferred({b"row%d" % at: {b"d:c": value} for at, value in enumerate(values)}).guesses[-1]


def key_codecs(found: hb.tables.InferredModel) -> list[str]:
    return [guess.codec for guess in found.guesses if guess.column is None]


# --- keys -------------------------------------------------------------------------------------------------------------


def long_at(n: int) -> bytes:
    """A time in milliseconds, as `Bytes.toBytes` of Java writes it."""
    return struct.pack(">q", 1_583_020_800_000 + n * 86_400_000)


def reversed_at(n: int) -> bytes:
    """The same time, subtracted from the largest number, so that the newest is first."""
    return struct.pack(">q", (1 << 63) - 1 - 1_583_020_800_000 - n * 86_400_000)


KEYS: dict[str, tuple[Callable[[int], bytes], list[str], str]] = {
    "decimal digits": (lambda n: b"%010d" % n, ["hb.codecs.DecimalText(10)"], "likely"),
    "hex digits": (lambda n: hashlib.md5(b"%d" % n).hexdigest().encode(), ["hb.codecs.HexText(32)"], "likely"),
    "longs": (lambda n: (10**9 + n).to_bytes(8, "big"), ["hb.UInt64"], "unsure"),
    "ints": (lambda n: n.to_bytes(4, "big"), ["hb.UInt32"], "unsure"),
    "digests": (lambda n: hashlib.md5(b"%d" % n).digest(), ["hb.Bytes(16)"], "unsure"),
    "digests of 8 bytes": (lambda n: hashlib.md5(b"%d" % n).digest()[:8], ["hb.Bytes(8)"], "unsure"),
    "text": (lambda n: "ä".encode() * (n % 3 + 1) + b"%d" % n, ["hb.Text"], "likely"),
    "text of one width": (lambda n: b"web%02d" % n, ["hb.Text"], "likely"),
    "UUIDs": (lambda n: str(UUID(int=n << 64 | 15)).encode(), ["hb.Text"], "likely"),
    "numbers with leading zeros": (
        lambda n: b"u%d|%05d|%08x" % (n % 7, n, n * 7919),
        [
            'hb.codecs.Delimited("|")',
            'hb.codecs.Separated(hb.codecs.DecimalText(5), "|")',
            "hb.codecs.HexText(8)",
        ],
        "likely",
    ),
    "times": (
        lambda n: b"%d|%d" % (1_772_366_400_000 + n, 10**13 - 1 - 1_772_366_400_000 - n),
        ['hb.codecs.Separated(hb.codecs.DecimalText(13), "|")', "hb.codecs.ReverseDecimalText(13)"],
        "likely",
    ),
    "few digits": (lambda n: b"a|%d|x" % (100 + n % 900), ['hb.codecs.Delimited("|")'] * 2 + ["hb.Text"], "likely"),
    "two parts": (lambda n: b"u%d|%d" % (n % 7, n), ['hb.codecs.Delimited("|")', "hb.Text"], "likely"),
    "three parts": (
        lambda n: b"u%d:%d:x" % (n % 7, n),
        ['hb.codecs.Delimited(":")', 'hb.codecs.Delimited(":")', "hb.Text"],
        "unsure",
    ),
    "parts with a zero byte": (
        lambda n: b"u-%d\0%d" % (n % 7, n),
        [r"hb.codecs.Delimited(b'\x00')", "hb.Text"],
        "likely",
    ),
    "zero bytes in other numbers": (lambda n: b"a%d" % n + bytes(n % 3), ["hb.Bytes"], "unsure"),
    "many parts": (lambda n: b"a/" * 9 + b"%d" % n, ["hb.Text"], "likely"),
    "bytes": (lambda n: b"\xff" * (n % 5 + 1) + b"%d" % n, ["hb.Bytes"], "unsure"),
    "very many digits": (lambda n: b"%01500d" % n, ["hb.Text"], "likely"),
    "times of 8 bytes": (long_at, ["hb.UInt64"], "likely"),
    "reversed times of 8 bytes": (reversed_at, ["hb.codecs.ReverseStampInt"], "likely"),
    "a time behind text": (
        lambda n: b"EDP.LS_" * (n % 2) + b"KO_" * (1 - n % 2) + long_at(n),
        ['hb.codecs.Delimited("_")', "hb.UInt64"],
        "likely",
    ),
    "a reversed time behind two parts": (
        lambda n: b"u%d|/page%d|" % (n % 7, n % 9) + reversed_at(n),
        ['hb.codecs.Delimited("|")', 'hb.codecs.Delimited("|")', "hb.codecs.ReverseStampInt"],
        "likely",
    ),
    "a number behind text and a zero byte": (
        lambda n: b"user%d\0" % (n % 7) + struct.pack(">q", n),
        [r"hb.codecs.Delimited(b'\x00')", "hb.UInt64"],
        "unsure",
    ),
    "a time behind text without an end": (
        lambda n: b"user%d" % (n % 700) + reversed_at(n),
        ["hb.codecs.Unterminated(hb.Text, followed_by=8)", "hb.codecs.ReverseStampInt"],
        "likely",
    ),
    "other bytes behind text": (
        lambda n: b"ab" * (n % 2) + b"c" + hashlib.md5(b"%d" % n).digest()[:8],
        ["hb.Bytes"],
        "unsure",
    ),
}


@pytest.mark.parametrize("known", KEYS.values(), ids=list(KEYS))
def test_keys(known: tuple[Callable[[int], bytes], list[str], str]) -> None:
    key, codecs, confidence = known
    found = of_keys(*(key(n) for n in range(60)))
    assert key_codecs(found) == codecs
    assert {guess.confidence for guess in found.guesses if guess.column is None} == {confidence}
    assert found.salt is None
    few = of_keys(key(0), key(1))
    assert {guess.confidence for guess in few.guesses} == {"unsure"}


def test_a_number_without_leading_zeros_beside_others_is_unsure() -> None:
    found = of_keys(*(b"2026-%02d-%02d" % (1 + n % 12, 1 + n // 12 % 28) for n in range(60)))
    assert [(guess.codec, guess.confidence) for guess in found.guesses if guess.column is None] == [
        ('hb.codecs.Separated(hb.codecs.DecimalText(4), "-")', "unsure"),
        ('hb.codecs.Separated(hb.codecs.DecimalText(2), "-")', "likely"),
        ("hb.codecs.DecimalText(2)", "likely"),
    ]


def test_reversed_seconds_are_a_guess_in_words() -> None:
    said = "10 decimal digits, perhaps times in seconds that are subtracted from 9999999999"
    keys = [b"u%d|%010d|x%d" % (n % 7, 10**10 - 1 - 1_772_366_400 - n, n) for n in range(60)]
    found = of_keys(*keys)
    assert key_codecs(found)[1] == 'hb.codecs.Separated(hb.codecs.DecimalText(10), "|")'
    assert said in found.source
    assert "(hb.codecs.ReverseDecimalText(10))" in found.source
    for other in (b"u0|1772366400|x", b"u0|0000000001|x"):
        assert said not in of_keys(*keys, other).source


def salted(salt: hb.salts.Salt, keys: Sequence[bytes]) -> list[bytes]:
    return [salt.prefix(salt.bucket(key)) + key for key in keys]


SALTS = {
    "hb.HashSalt(8)": hb.HashSalt(8),
    "hb.salts.JavaHashSalt(5)": hb.salts.JavaHashSalt(5),
    "hb.salts.DigestSalt(1)": hb.salts.DigestSalt(1),
    "hb.salts.DigestSalt(2)": hb.salts.DigestSalt(2),
}


@pytest.mark.parametrize("text", SALTS)
def test_salts(text: str) -> None:
    keys = salted(SALTS[text], [b"%08d" % n for n in range(100)])
    found = of_keys(*keys)
    assert (found.salt, key_codecs(found)) == (text, ["hb.codecs.DecimalText(8)"])
    assert f"salt={text})" in found.source
    assert "# likely: this salt computes the bucket of every sampled row\n" in found.source
    wrong = bytes([keys[0][0] ^ 1]) + keys[0][1:]
    assert of_keys(wrong, *keys[1:]).salt is None, "a row that contradicts it refutes it"
    assert of_keys(*keys[:3]).salt is None, "three rows prove nothing"


SALTS_OF_FIRST = {
    'hb.HashSalt(8, by="part1")': hb.HashSalt(8),
    'hb.salts.JavaHashSalt(5, by="part1")': hb.salts.JavaHashSalt(5),
    **{f'hb.salts.DigestSalt({digits}, by="part1")': hb.salts.DigestSalt(digits) for digits in (1, 2, 3)},
}


@pytest.mark.parametrize("text", SALTS_OF_FIRST)
def test_salts_of_the_first_field(text: str) -> None:
    salt = SALTS_OF_FIRST[text]
    firsts = [b"user%d|" % (n % 40) for n in range(200)]
    keys = [salt.prefix(salt.bucket(first)) + first + b"%07d" % n for n, first in enumerate(firsts)]
    found = of_keys(*keys)
    assert found.salt == text
    assert key_codecs(found) == ['hb.codecs.Delimited("|")', "hb.codecs.DecimalText(7)"]
    few = [key for key, first in zip(keys, firsts, strict=True) if first in {b"user0|", b"user1|"}]
    assert of_keys(*few).salt is None, "two users prove nothing"


def hashed(name: str, length: int, *, hex: bool, separator: bytes, field: bytes) -> bytes:
    digest = hashlib.new(name, field)
    return (digest.hexdigest().encode() if hex else digest.digest())[:length] + separator + field


@pytest.mark.parametrize("name", ["md5", "sha1", "sha256"])
@pytest.mark.parametrize("separator", [b"", b"|", b":", b"\x00"])
@pytest.mark.parametrize(
    ("length", "hex"), [(1, True), (2, True), (3, True), (4, True), (8, True), (32, True), (4, False), (16, False)]
)
def test_a_digest_of_the_first_field(name: str, separator: bytes, length: int, hex: bool) -> None:
    users = [b"user%d" % (n % 40) for n in range(200)]
    begin = partial(hashed, name, length, hex=hex, separator=separator)
    keys = [begin(field=user) + b"|%07d" % n for n, user in enumerate(users)]
    found = of_keys(*keys)
    algorithm = "" if name == "md5" else f', algorithm="{name}"'
    digits = ", hex=True" if hex else ""
    between = f", separator={literal(separator.decode())}" if separator else ""
    codec = f'hb.codecs.DigestPrefixed(hb.codecs.Delimited("|"), {length}{algorithm}{digits}{between})'
    assert found.salt is None
    assert key_codecs(found) == [codec, "hb.codecs.DecimalText(7)"]
    (example,) = [each.example for each in found.guesses if each.name == "part1"]
    assert f"of its {name.upper()}; such as {example!r}" in found.source
    assert any(key.startswith(example) for key in keys)
    wrong = bytes([keys[0][0] ^ 1]) + keys[0][1:]
    assert "Digest" not in of_keys(wrong, *keys[1:]).source, "a row that contradicts it refutes it"
    alone = of_keys(*(begin(field=user) for user in users[:40]))
    if name == "md5" and hex and length < 4 and not separator:  # the digest of the whole key is a salt
        assert (alone.salt, key_codecs(alone)) == (f"hb.salts.DigestSalt({length})", ["hb.Text"])
    else:
        assert key_codecs(alone) == [codec.replace('hb.codecs.Delimited("|")', "hb.Text")]


def assert_single_keys(found: hb.tables.InferredModel, keys: Sequence[bytes]) -> None:
    """The only key field reads each of these keys, and a query for its value reads the range of this key alone."""
    model = declared(found)
    with hb.connect("memory:") as store:
        store.create_table("inferred", [Family(b"d")])
        store.put("inferred", [Put(key, {b"d:n": b"name"}) for key in keys])
        assert hb.tables.adopt(store, model).adopted
        with hb.Session(store) as session:
            objects = [*session.query(model).allow_full_scan()]
            assert [hb.row_key(model, key=each.key) for each in objects] == sorted(keys)
            for each, key in zip(objects, sorted(keys), strict=True):
                query = session.query(model).where(model.key == each.key)
                assert [part.ranges for part in query.partitions(1)] == [((key, key + b"\0"),)]
            assert [each.key for each in query] == [objects[-1].key]


def alike(n: int) -> int:
    """A number whose last two bytes are the same, and not 00."""
    return 0x0101 * (n + 1)


WHOLE: dict[str, tuple[Callable[[int], bytes], str]] = {
    "text with a dash": (lambda n: b"us-%d" % n, "hb.Text"),
    "text with an underscore": (lambda n: b"user_%d" % n, "hb.Text"),
    "UUIDs": (lambda n: str(UUID(bytes=hashlib.md5(b"%d" % n).digest())).encode(), "hb.Text"),
    "URLs": (lambda n: b"example.org/page/%d" % n, "hb.Text"),
    "dates": (lambda n: date.fromordinal(738_000 + n).isoformat().encode(), "hb.Text"),
    "text and a number": (lambda n: b"u%d|%07d" % (n % 7, n), "hb.Text"),
    "times of 8 bytes": (lambda n: (0x018B_0101_0000 + alike(n)).to_bytes(8, "big"), "hb.UInt64"),
    "longs": (lambda n: alike(n).to_bytes(8, "big"), "hb.UInt64"),
    "ints": (lambda n: alike(n).to_bytes(4, "big"), "hb.UInt32"),
    "text and a time": (lambda n: b"user%d|" % (n % 7) + (0x018B_0101_0000 + alike(n)).to_bytes(8, "big"), "hb.Bytes"),
    "two texts and a zero byte": (lambda n: b"u%d\0%d" % (n % 7, n), "hb.Bytes"),
}
"""Values whose bytes could be several fields, and the codec of the whole value."""

DIGESTS = [
    ("md5", 8, True, b"_"),
    ("md5", 8, True, b""),
    ("md5", 8, True, b"-"),
    ("md5", 4, True, b""),
    ("md5", 2, True, b"|"),
    ("sha1", 3, True, b":"),
    ("sha256", 64, True, b"/"),
    ("md5", 4, False, b""),
    ("md5", 16, False, b"\0"),
    ("sha1", 2, False, b"#"),
    ("sha256", 8, False, b"|"),
]
"""Digests: the algorithm, the length, whether they are hex digits, and the separator."""


@pytest.mark.parametrize(("kind", "digest"), in_turn([*WHOLE], DIGESTS))
def test_a_digest_of_a_whole_value_that_contains_delimiters(kind: str, digest: tuple[str, int, bool, bytes]) -> None:
    (make, codec), (name, length, hex, separator) = WHOLE[kind], digest
    keys = [hashed(name, length, hex=hex, separator=separator, field=make(n)) for n in range(60)]
    found = of_keys(*keys)
    algorithm = "" if name == "md5" else f', algorithm="{name}"'
    digits = ", hex=True" if hex else ""
    between = f", separator={literal(separator.decode())}" if separator else ""
    if codec == "hb.Bytes" and len({*map(len, keys)}) == 1:
        codec = f"hb.Bytes({len(make(0))})"
    (key,) = [guess for guess in found.guesses if guess.column is None]
    assert key.codec == f"hb.codecs.DigestPrefixed({codec}, {length}{algorithm}{digits}{between})"
    assert (key.confidence, found.salt) == ("likely", None)
    assert any(each.startswith(key.example) for each in keys)
    assert_single_keys(found, keys)
    wrong = bytes([keys[0][0] ^ 1]) + keys[0][1:]
    assert "Digest" not in of_keys(wrong, *keys[1:]).source, "a row that contradicts it refutes it"


@pytest.mark.parametrize(("length", "needed"), [(2, 4), (3, 3), (4, 2), (8, 1)])
def test_a_digest_of_few_whole_values_may_be_chance(length: int, needed: int) -> None:
    keys = [hashed("md5", length, hex=True, separator=b"_", field=b"us-%d" % n) for n in range(needed)]
    assert "Digest" in of_keys(*keys).source
    assert needed == 1 or "Digest" not in of_keys(*keys[1:]).source


@pytest.mark.lengthy
def test_an_unknown_salt_is_a_comment() -> None:
    found = of_keys(*(bytes([crc32(b"%d" % n) % 7]) + b"%08d" % n for n in range(200)))
    assert found.salt is None
    assert "# unsure: perhaps a salt: the first 1 byte of the keys take 7 values, about equally often" in found.source
    for plain in (
        [b"%08d" % n for n in range(200)],
        [hashlib.md5(b"%d" % n).hexdigest().encode() for n in range(200)],
        [(b"at", b"de", b"fr")[n % 3] + b"%03d" % n for n in range(200)],
    ):
        assert "perhaps a salt" not in of_keys(*plain).source


# --- values -----------------------------------------------------------------------------------------------------------


def longs(*numbers: int) -> list[bytes]:
    return [number.to_bytes(8, "big", signed=True) for number in numbers]


VALUES: dict[str, tuple[Sequence[bytes], str, str, str]] = {
    "Java booleans": ([b"\0", b"\xff"], "java.Boolean", "likely", "00 or FF"),
    "booleans": ([b"\0", b"\1"], "hb.codecs.Bool", "likely", "00 or 01"),
    "zero bytes": ([b"\0"], "hb.codecs.Bool", "unsure", "00 or 01"),
    "other bytes": ([b"\0", b"\2"], "hb.Bytes", "unsure", "1 byte of no known form"),
    "longs": (longs(0, -5, 10**12), "java.Long", "likely", "plausible"),
    "large longs": (longs(1, 1 << 60), "java.Long", "unsure", "plausible"),
    "zeros": (longs(0), "java.Long", "unsure", "plausible"),
    "random bytes": (longs(1, 1 << 62, -(1 << 62) - 999), "hb.Bytes", "unsure", "8 bytes of no known form"),
    "times": (longs(1_700_000_000_000, 1_800_000_000_000), "java.Long", "likely", "perhaps times in milliseconds"),
    "ints": ([b"\0\0\0\1", b"\xff\xff\xff\xff"], "java.Int", "likely", "4 bytes"),
    "large ints": ([b"\x7f\0\0\1", b"\0\0\0\1"], "java.Int", "unsure", "4 bytes"),
    "floats": ([struct.pack(">f", n) for n in (0.1, -3.5)], "java.Int", "unsure", "perhaps floats (java.Float)"),
    "doubles": ([struct.pack(">d", n) for n in (0.0, 2.0, -0.1)], "java.Double", "likely", "if read as doubles"),
    "numbers as text": ([b"0", b"-12"], "hb.Text", "likely", "every value fits hb.codecs.as_text.Int"),
    "0 and 1": ([b"0", b"1"], "hb.Text", "likely", 'as_text.Bool("1", "0")'),
    "True and False": ([b"True", b"False"], "hb.Text", "likely", 'as_text.Bool("True", "False")'),
    "floats as text": ([b"0.5", b"1e+16"], "hb.Text", "likely", "as_text.Float"),
    "prices as text": ([b"0.50", b"3"], "hb.Text", "likely", "as_text.Decimal"),
    "dates as text": ([b"2026-03-01"], "hb.Text", "likely", "as_text.Date()"),
    "dates as digits": ([b"20260301"], "hb.Text", "likely", 'as_text.Date("%Y%m%d")'),
    "nearly dates": ([b"20260301", b"20261301"], "hb.Text", "likely", "as_text.Int"),
    "times as text": ([b"2026-03-01T12:00:00Z"], "hb.Text", "likely", "as_text.Datetime()"),
    "text": (["grün".encode(), b"two\nlines\t", b"abcdefgh"], "hb.Text", "likely", "text (UTF-8)"),
    "text that is empty at times": ([b"", b"a"], "hb.Text", "likely", "some are empty"),
    "numbers that are empty at times": ([b"", *longs(5)], "hb.Bytes", "unsure", "some are empty"),
    "nothing": ([b""], "hb.Bytes", "unsure", "always empty"),
    "JSON objects": ([b'{"a":1}', b"{}"], "hb.Json(dict[str, Any])", "likely", "JSON objects"),
    "JSON arrays": ([b"[1,2]", b'["a"]'], "hb.Json(list[Any])", "likely", "JSON arrays"),
    "JSON with spaces": ([b'{"a": 1}'], "hb.Text", "likely", "JSON in a different form"),
    "nearly JSON": ([b"{a}"], "hb.Text", "likely", "text (UTF-8)"),
    "no text": ([b"\xff\xfe", b"abc"], "hb.Bytes", "unsure", "2 to 3 bytes of no known form"),
    "control characters": ([b"a\0b", b"\1"], "hb.Bytes", "unsure", "of no known form"),
}


@pytest.mark.parametrize("known", VALUES.values(), ids=list(VALUES))
def test_values(known: tuple[Sequence[bytes], str, str, str]) -> None:
    values, codec, confidence, reason = known
    guess = of_values(*(values[at % len(values)] for at in range(30)))
    assert (guess.name, guess.column, guess.codec, guess.confidence) == ("c", b"d:c", codec, confidence)
    assert reason in guess.reason
    assert guess.reason.endswith("in all 30 rows")
    assert "None" not in guess.annotation
    assert guess.example in values
    assert of_values(*values).confidence == "unsure", "a few rows are not enough"


def test_a_column_that_some_rows_lack_has_a_default() -> None:
    found = inferred({b"%d" % n: {b"d:a": b"1", **({b"d:b": b"2"} if n % 2 else {})} for n in range(40)})
    guess = found.guesses[-1]
    assert (guess.annotation, guess.confidence) == ("str | None", "likely")
    assert guess.reason.endswith("in 20 of 40 rows")
    assert 'b: hb.Column[str | None] = hb.column("b", hb.Text, default=None)\n' in found.source


def test_names_of_columns() -> None:
    qualifiers = {
        b"orderId": "order_id", b"order-id": "order_id_2", b"": "value", b"class": "class_", b"2x": "c_2x",
        b"str": "str_", b"_id": "id", b"\x80\x0b": "c_800b", b"d:L": "d_l", b"condition": "condition_",
        b"key": "key_2", b"a\nb": "a_b", b'q"\'': "q", "größe".encode(): "gr_e", b"hb": "hb_",
    }  # fmt: skip
    found = inferred({b"r%d" % n: {b"d:" + each: b"%d" % n for each in qualifiers} for n in range(3)})
    names = {guess.column: guess.name for guess in found.guesses}
    wanted = {b"d:" + qualifier: name for qualifier, name in qualifiers.items()}
    twins = {b"d:orderId", b"d:order-id"}
    assert {names[column] for column in twins} == {"order_id", "order_id_2"}
    assert {column: names[column] for column in wanted.keys() - twins} == {
        column: name for column, name in wanted.items() if column not in twins
    }


def test_system_cells_are_left_out() -> None:
    found = inferred({b"a": {b"d:_l": b"\1", b"d:x": b"1"}})
    assert [guess.column for guess in found.guesses] == [None, b"d:x"]
    assert "# left out: b'd:_l' has a name that hbmodel uses for its own cells" in found.source


def test_names_of_classes() -> None:
    known = {"orders": "Orders", "shop:order_items": "OrderItems", "STATS": "Stats", "2x": "Table2x", "any": "AnyRow",
             "none": "NoneRow", "-": "Table", "userEvents": "UserEvents"}  # fmt: skip
    assert {table: class_name(table) for table in known} == known


def test_several_families() -> None:
    found = inferred({b"a": {b"e:x": b"1"}, b"b": {b"d:x": b"\xff\xff"}}, [b"d", b"e"])
    assert 'x: hb.Column[bytes | None] = hb.column("x", hb.Bytes, default=None)\n' in found.source
    assert 'x_2: hb.Column[str | None] = hb.column("x", hb.Text, default=None, family="e")\n' in found.source


# --- wide rows, and rows without a required column --------------------------------------------------------------------


def test_wide_rows_are_described() -> None:
    rows = {
        b"m%d" % row: {b"d:" + struct.pack(">I", row << 16 | at): b"\1" for at in range(20)} | {b"d:name": b"nn"}
        for row in range(30)
    }
    found = inferred(rows)
    assert [guess.column for guess in found.guesses] == [None, b"d:name"]
    assert (
        f'# the rows may be wide, with objects in the qualifiers of the family "d": {30 * 20} qualifiers are not '
        "listed, of 4 bytes, such as b'\\x00\\x00\\x00\\x00'"
    ) in found.source
    mixed = {
        row: {c: v if c < b"d:\0\17" else b"v" for c, v in cells.items() if c != b"d:name"}
        for row, cells in rows.items()
    }
    only = inferred(mixed)
    assert len(only.guesses) == 2
    assert "# its column is declared only because a model needs one" in only.source


def test_a_column_of_one_row_is_not_listed_in_a_wide_family() -> None:
    rows = {b"r%d" % row: {b"d:%d" % (row * 20 + at): b"v" for at in range(20)} | {b"d:name": b"n"} for row in range(9)}
    assert [guess.column for guess in inferred(rows).guesses] == [None, b"d:name"]


def user_rows() -> dict[bytes, dict[bytes, bytes]]:
    """Users with fixed columns, posts by time, and followers by name."""
    rows: dict[bytes, dict[bytes, bytes]] = {}
    for n in range(60):
        rows[b"user%02d" % n] = {
            b"info:name": b"N%d" % n,
            **{b"posts:" + reversed_at(7 * n + at): b'{"n": %d}' % at for at in range(7)},
            **{b"followers:user%02d" % ((n * 7 + at) % 60): b"1" for at in range(1, 12)},
        }
    return rows


def test_a_family_whose_qualifiers_are_data_has_its_own_model() -> None:
    found = inferred(user_rows(), [b"followers", b"info", b"posts"])
    assert [guess.column for guess in found.guesses] == [None, b"info:name"]
    followers, posts = found.others
    assert [(guess.name, guess.codec, guess.in_qualifier, guess.column) for guess in followers.guesses] == [
        ("key", "hb.Text", False, None),
        ("qualifier", "hb.Text", True, None),
        ("value", "hb.Text", False, b"followers:"),
    ]
    assert [(guess.codec, guess.confidence) for guess in posts.guesses] == [
        ("hb.Text", "likely"), ("hb.codecs.ReverseStampInt", "likely"), ("hb.Text", "likely"),
    ]  # fmt: skip
    assert (
        "# unsure: the qualifiers of the family may be data: it has 420, and none of them is in more than half of the "
        'rows\n@hb.model(table="inferred", family="posts", external=True)\nclass InferredPosts:\n'
    ) in found.source
    assert "    qualifier: hb.Key[str] = hb.key(hb.Text, in_qualifier=True)\n" in found.source
    assert '    value: hb.Column[str] = hb.column("", hb.Text)\n' in found.source
    assert found.source.count("import hbmodel as hb") == posts.source.count("import hbmodel as hb") == 1


def test_all_models_of_one_table_are_adopted() -> None:
    with hb.connect("memory:") as store:
        store.create_table("inferred", [Family(family) for family in (b"followers", b"info", b"posts")])
        salt = hb.HashSalt(4)
        rows = user_rows()
        store.put("inferred", [Put(salted(salt, [key])[0], cells) for key, cells in rows.items()])
        found = hb.tables.infer(store, "inferred")
        assert found.salt == "hb.HashSalt(4)"
        scope: dict[str, Any] = {"__name__": "proposed"}
        exec(found.source, scope)
        user, follower, post = (scope[name] for name in ("Inferred", "InferredFollowers", "InferredPosts"))
        for model in (user, follower, post):
            assert hb.tables.adopt(store, model).adopted
        session = hb.Session(store)
        names = [each.qualifier for each in session.query(follower).where(follower.key == "user00")]
        assert names == [f"user{at:02d}" for at in range(1, 12)]
        assert session.query(post).where(post.key == "user00").count() == 7


def test_a_table_with_data_in_all_qualifiers() -> None:
    rows = {b"m%d" % row: {b"d:" + struct.pack(">I", row << 16 | at): b"\1" for at in range(20)} for row in range(30)}
    found = inferred(rows)
    assert [(guess.name, guess.codec, guess.column) for guess in found.guesses] == [
        ("key", "hb.Text", None),
        ("qualifier", "hb.UInt32", None),
        ("value", "hb.codecs.Bool", b"d:"),
    ]
    assert found.others == []


@pytest.mark.parametrize("value", [lambda at: b"v" if at % 2 else b"\xff", lambda at: b""])
def test_what_is_no_data(value: Callable[[int], bytes]) -> None:
    """Values of several forms, or an empty qualifier, speak for columns."""
    rows = {b"r%d" % row: {b"d:%d" % (row * 20 + at): value(at) for at in range(20)} for row in range(9)}
    rows[b"r0"][b"d:"] = value(0)
    assert "in_qualifier=True)" not in inferred(rows).source


@pytest.mark.parametrize(
    ("prefixes", "fixed", "advice"),
    [
        ((b"tag:",), b"name", "a model for those that begin with b'tag:', with kind= and a key field with"),
        ((b"at_", b"tag:"), b"name", "begin with b'at_' and one for b'tag:', with kind="),
        ((b"a.", b"b.", b"c.", b"d."), b"name", "if so, declare key fields with in_qualifier=True"),
        ((b"tag:", b""), b"name", "if so, declare key fields with in_qualifier=True"),
        ((b"tag:",), b"tag:first", "if so, declare key fields with in_qualifier=True"),
    ],
)
def test_prefixes_of_qualifiers_are_proposed_as_kinds(prefixes: Sequence[bytes], fixed: bytes, advice: str) -> None:
    rows = {
        b"r%d" % row: {b"d:%s%d" % (prefix, 1_000 + 20 * row + at): b"v" for prefix in prefixes for at in range(5)}
        | {b"d:" + fixed: b"nn"}
        for row in range(30)
    }
    found = inferred(rows)
    assert [guess.column for guess in found.guesses] == [None, b"d:" + fixed]
    assert advice in found.source


def test_many_columns_that_most_rows_have_are_listed() -> None:
    found = inferred({b"r%d" % row: {b"d:c%02d" % at: b"1" for at in range(MANY + 5)} for row in range(3)})
    assert len(found.guesses) == MANY + 6
    assert "wide" not in found.source


@pytest.mark.lengthy
def test_very_many_qualifiers_are_looked_at_in_part() -> None:
    with hb.connect("memory:") as store:
        store.create_table("inferred", [Family(b"d")])
        for row in range(MOST // 900 + 2):
            cells = {b"d:" + struct.pack(">HH", row, at): b"\1" for at in range(900)}
            store.put("inferred", [Put(b"m%02d" % row, cells)])
        assert f"it has more than {MOST}, and none" in hb.tables.infer(store, "inferred").source
        store.put("inferred", [Put(b"long", {b"d:%06d" % at: b"1" for at in range(CELLS + 5)})])
        found = hb.tables.infer(store, "inferred")
        declared(found)
    assert "more than " in found.source
    assert "# some rows have more cells than were read" in found.source


def test_a_cell_that_only_says_that_a_row_exists() -> None:
    found = inferred({b"a": {b"d:_0": b"x", b"d:HOST": b"h"}, b"b": {b"d:_0": b"x"}})
    assert found.exists == b"d:_0"
    assert 'exists=hb.flag("_0", b"x"))' in found.source
    assert "# unsure: every sampled row has the cell of exists=\n" in found.source
    assert [guess.name for guess in found.guesses] == ["key", "host"]
    named = inferred({b"a": {b"d:_0": b"x", b"d:HOST": b"h"}, b"b": {b"d:_0": b"x", b"d:HOST": b"g"}})
    assert named.exists is None
    assert [guess.annotation for guess in named.guesses] == ["str", "str", "str"]
    alone = inferred({b"a": {b"d:_0": b"x"}, b"b": {b"d:_0": b"x"}})
    assert (alone.exists, len(alone.guesses)) == (b"d:_0", 1)


# --- every store, every model -----------------------------------------------------------------------------------------


def test_every_store(bed: Bed) -> None:
    store = bed.store
    if "inferred_here" in store.tables():
        store.delete_table("inferred_here")
    store.create_table("inferred_here", [Family(b"d")])
    salt = hb.HashSalt(4)
    keys = salted(salt, [b"user%d|%d" % (n % 7, n) for n in range(60)])
    store.put("inferred_here", [Put(key, {b"d:paid": longs(n)[0], b"d:by": b"ann"}) for n, key in enumerate(keys)])
    before = store.tables()
    found = hb.tables.infer(store, "inferred_here", sample=40)
    assert store.tables() == before
    assert str(found) == found.source
    assert 40 <= found.rows <= 60
    assert found.salt == "hb.HashSalt(4)"
    assert [(guess.codec, guess.confidence) for guess in found.guesses] == [
        ('hb.codecs.Delimited("|")', "likely"),
        ("hb.Text", "likely"),
        ("hb.Text", "likely"),
        ("java.Long", "likely"),
    ]
    model = declared(found)
    assert hb.tables.adopt(store, model).adopted
    assert hb.Session(store).get(model, part1="user3", part2="10") == model(
        part1="user3", part2="10", paid=10, by="ann"
    )
    store.delete_table("inferred_here")
    hb.tables.forget(store, "inferred_here")


def test_what_infer_refuses() -> None:
    with hb.connect("memory:") as store:
        with pytest.raises(TableNotFound, match="There is no such table to read") as missing:
            hb.tables.infer(store, "inferred")
        assert missing.value.table == "inferred"
        store.create_table("inferred", [Family(b"d")])
        with pytest.raises(DeclarationError, match="this table has none"):
            hb.tables.infer(store, "inferred")
        for sample in (0, -1, 1.5, True, "9"):
            with pytest.raises(DeclarationError, match="sample must be a whole number"):
                hb.tables.infer(store, "inferred", sample=sample)  # type: ignore[arg-type]
        store.put("inferred", [Put(b"a", {b"d:_l": b"\1"})])
        with pytest.raises(DeclarationError, match="No column of the sampled rows can be declared"):
            hb.tables.infer(store, "inferred")


@attrs.frozen
class Made:
    """A codec of a random model, with its type and its values."""

    annotation: Any
    codec: hb.Codec[Any]
    values: st.SearchStrategy[Any]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
IN_KEYS = [
    Made(int, hb.codecs.DecimalText(6), st.integers(0, 10**6 - 1)),
    Made(int, hb.codecs.Separated(hb.codecs.DecimalText(6), "|"), st.integers(0, 10**6 - 1)),
    Made(int, hb.codecs.Separated(hb.codecs.HexText(8), "-"), st.integers(0, 16**8 - 1)),
    Made(int, hb.codecs.ReverseDecimalText(13), st.integers(0, 10**13 - 1) | st.integers(10**12, 3 * 10**12)),
    Made(int, hb.codecs.HexText(4), st.integers(0, 16**4 - 1)),
    Made(int, hb.UInt32, st.integers(0, 1 << 20)),
    Made(int, hb.UInt64, st.integers(0, (1 << 64) - 1)),
    Made(int, hb.UInt64, st.integers(TIMES.start, TIMES.stop - 1)),
    Made(int, hb.codecs.ReverseStampInt, st.integers(TIMES.start, TIMES.stop - 1)),
    Made(bytes, hb.Bytes(4), st.binary(min_size=4, max_size=4)),
    Made(str, hb.Text, TEXTS.filter(bool)),
    Made(str, hb.codecs.Delimited("|"), TEXTS.filter(lambda text: text and "|" not in text)),
]
IN_CELLS = [
    Made(int, java.Long, st.integers(-(1 << 63), (1 << 63) - 1)),
    Made(int, java.Int, st.integers(-(1 << 31), (1 << 31) - 1)),
    Made(float, java.Double, st.floats(allow_nan=False)),
    Made(bool, java.Boolean, st.booleans()),
    Made(bool, hb.codecs.Bool, st.booleans()),
    Made(int, java.IntText, st.integers()),
    Made(float, hb.codecs.as_text.Float, st.floats(allow_nan=False)),
    Made(date, hb.codecs.as_text.Date("%Y%m%d"), st.dates()),
    Made(bool, hb.codecs.as_text.Bool("1", "0"), st.booleans()),
    Made(str, hb.Text, TEXTS),
    Made(bytes, hb.Bytes, st.binary(max_size=9)),
    Made(dict[str, int], hb.Json(dict[str, int]), st.dictionaries(TEXTS, st.integers(-5, 5), max_size=3)),
    Made(list[float], hb.Json(list[float]), st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3)),
]
ALIASES = st.binary(max_size=4).filter(lambda name: not name.startswith(b"_"))
MADE_SALTS = st.sampled_from(
    [None, hb.HashSalt(3), hb.salts.JavaHashSalt(16), hb.salts.DigestSalt(1), hb.HashSalt(200, by="k0")]
)


@pytest.mark.lengthy
@settings(max_examples=examples(120))
@given(st.data())
def test_a_proposed_model_fits_whatever_was_written(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.sampled_from(IN_KEYS), min_size=1, max_size=3))
    aliases = data.draw(st.lists(ALIASES, min_size=1, max_size=4, unique=True))
    columns = [(data.draw(st.sampled_from(IN_CELLS)), data.draw(st.booleans())) for _ in aliases]
    body: dict[str, Any] = {"__annotations__": {}, "__module__": __name__}
    for at, made in enumerate(keys):
        body[f"k{at}"] = hb.key(made.codec)
        body["__annotations__"][f"k{at}"] = hb.Key[made.annotation]  # type: ignore[name-defined]
    for at, (alias, (made, optional)) in enumerate(zip(aliases, columns, strict=True)):
        body[f"c{at}"] = hb.column(alias, made.codec, default=None) if optional else hb.column(alias, made.codec)
        body["__annotations__"][f"c{at}"] = hb.Column[made.annotation | None if optional else made.annotation]
    body["e"] = hb.column("_e", hb.Text)
    body["__annotations__"]["e"] = hb.Column[str]
    salt = data.draw(MADE_SALTS)
    model: Any = hb.model(table="inferred", family="d", external=True, salt=salt)(type("Random", (), body))
    values = {f"k{at}": made.values for at, made in enumerate(keys)}
    values |= {
        f"c{at}": made.values | st.none() if optional else made.values for at, (made, optional) in enumerate(columns)
    }
    objects = data.draw(st.lists(st.fixed_dictionaries({**values, "e": st.just("e")}), min_size=1, max_size=25))
    with hb.connect("memory:") as store:
        hb.create_tables(store, model, create_external=True)
        with hb.Session(store) as session:
            for each in objects:
                session.add(model(**each))
        hb.tables.forget(store, "inferred", existing=True)
        found = hb.tables.infer(store, "inferred")
        adoption = hb.tables.adopt(store, declared(found))
    assert CONTRADICTIONS.isdisjoint(finding.kind for finding in adoption.findings), adoption


@pytest.mark.lengthy
@settings(max_examples=examples(120))
@given(
    st.dictionaries(
        st.binary(min_size=1, max_size=6),
        st.dictionaries(st.binary(max_size=6).map(lambda name: b"d:" + name), st.binary(max_size=9), min_size=1),
        min_size=1,
        max_size=30,
    )
)
def test_a_proposed_model_fits_any_bytes(rows: Rows) -> None:
    inferred({key: {**cells, b"d:e": b"e"} for key, cells in rows.items()})


DIGESTED = [
    TEXTS.filter(bool).map(str.encode),
    st.text("ab|:#_-/,.", min_size=1, max_size=9).map(str.encode),
    st.builds("{}-{}".format, st.sampled_from(["us", "de"]), st.integers(0, 10**9)).map(str.encode),
    st.uuids().map(str).map(str.encode),
    st.dates().map(str).map(str.encode),
    st.builds("https://example.org/{}/{}".format, st.integers(0, 99), st.integers(0, 99)).map(str.encode),
    st.integers(TIMES.start, TIMES.stop - 1).map(lambda time: struct.pack(">q", time)),
    st.integers(0, (1 << 32) - 1).map(lambda number: struct.pack(">I", number)),
    st.lists(st.sampled_from([b"\0", b"|", b"-", b"\xff"]), min_size=5, max_size=5).map(b"".join),
    st.binary(min_size=1, max_size=9),
]
"""Values of one kind each, of which a program may write digests."""


@pytest.mark.lengthy
@settings(max_examples=examples(120))
@given(st.data())
def test_a_digest_of_whole_values_is_found(data: st.DataObject) -> None:
    values = data.draw(st.sets(data.draw(st.sampled_from(DIGESTED)), min_size=20, max_size=40))
    name, hex = data.draw(st.sampled_from(["md5", "sha1", "sha256"])), data.draw(st.booleans())
    separator = data.draw(st.sampled_from([b"", *DELIMITERS]))
    length = data.draw(st.integers(4 if hex and not separator else 2, 8))  # a shorter one alone is a salt
    keys = [hashed(name, length, hex=hex, separator=separator, field=value) for value in values]
    found = of_keys(*keys)
    (key,) = [guess for guess in found.guesses if guess.column is None]
    assert (key.codec.startswith("hb.codecs.DigestPrefixed("), key.confidence) == (True, "likely"), key
    assert (name in key.codec, "hex=True" in key.codec) == (name != "md5", hex)
    assert f"the first {length} {'hex digits' if hex else 'bytes'}" in key.reason
    assert_single_keys(found, keys)


QUALIFIERS = [
    st.binary(min_size=1, max_size=12),
    st.binary(min_size=8, max_size=8),
    st.integers(TIMES.start, TIMES.stop - 1).map(lambda time: struct.pack(">q", (1 << 63) - 1 - time)),
    st.integers(0, 999).map(lambda n: b"u%d|" % n + struct.pack(">q", TIMES.start + n)),
    st.integers(0, 999).map(lambda n: b"%05d-%d" % (n, n % 7)),
    TEXTS.filter(bool).map(str.encode),
]
"""Qualifiers of one form each."""


@pytest.mark.lengthy
@settings(max_examples=examples(60))
@given(st.data())
def test_a_proposed_model_of_cells_fits_any_qualifiers(data: st.DataObject) -> None:
    of_one_form = data.draw(st.sampled_from([*QUALIFIERS, st.one_of(QUALIFIERS)]))
    usable = of_one_form.filter(lambda name: not name.startswith(b"_"))
    names = data.draw(st.sets(usable, min_size=MANY + 1, max_size=MANY + 20))
    values = data.draw(st.sampled_from(IN_CELLS))
    rows: dict[bytes, dict[bytes, bytes]] = {}
    for at, name in enumerate(sorted(names)):
        row = rows.setdefault(b"row%d" % (at % 7), {b"d:name": b"n"})
        row[b"e:" + name] = values.codec.encode(data.draw(values.values))
    inferred(rows, [b"d", b"e"])
