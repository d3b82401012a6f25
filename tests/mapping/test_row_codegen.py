from __future__ import annotations

import secrets
from collections import UserList
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from types import MappingProxyType
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.encoding.codecs import JSON, Codec, FixedWidth
from hbmodel.encoding.codecs.base import Source, source_of
from hbmodel.errors import KeyTooLong
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder, take, take_slow
from hbmodel.mapping.rows.row_codegen import compile_decode, compile_rows, compile_rows_of_entry, compile_take
from hbmodel.mapping.schema import COMPILED_KEPT
from hbmodel.store.embedded.cells import StoredCell, StoredRow
from tests.support.examples import examples
from tests.support.random_queries import RandomModel, models, stored_objects
from tests.support.strategies import BYTES, Level, as_read


def outcome(work: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, or what it raises."""
    try:
        return work(*arguments)
    except hb.HbmodelError as error:
        return type(error), str(error)


def fail(subject: object) -> Any:
    raise AssertionError("generated code gave up")


def made(of: RandomModel, values: dict[str, Any]) -> Any:
    obj = object.__new__(of.model)
    vars(obj).update(values)
    return obj


@pytest.mark.lengthy
@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_ordinary_rows_and_objects_need_no_plain_code(data: st.DataObject) -> None:
    of = data.draw(models(wide=True))
    indexed = bool(of.schema.indexes)
    for obj in data.draw(stored_objects(of, indexed)):
        reader = RowDecoder(of.schema, indexed)
        row = obj.read(reader.columns)
        assert row is not None
        decoded = compile_decode(of.schema, reader.fields, fail)(row)
        assert {name: as_read(value) for name, value in decoded.items()} == obj.values, (
            "a default is not read, and keeps its zone"
        )
        values, key, cells = compile_take(of.schema, fail)(made(of, dict(obj.values)))
        assert values == obj.values
        assert key == obj.row or of.schema.salt.random
        assert key[of.schema.salt.width :] == obj.row[of.schema.salt.width :]
        assert {c: v for c, v in obj.cells.items() if c in cells} == {c: v for c, v in cells.items() if c in obj.cells}


@pytest.mark.lengthy
@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_damaged_rows_mean_what_they_mean_to_plain_code(data: st.DataObject) -> None:
    of = data.draw(models(wide=True))
    indexed = bool(of.schema.indexes)
    reader = RowDecoder(of.schema, indexed)
    for obj in data.draw(stored_objects(of, indexed)):
        row, cells = obj.row, dict(obj.cells)
        for column in data.draw(st.lists(st.sampled_from(sorted(cells)), max_size=2)):
            if data.draw(st.booleans()):
                cells[column] = data.draw(BYTES)
            else:
                cells.pop(column, None)
        change = data.draw(st.sampled_from(["none", "cut", "longer", "other"]))
        row = {"none": row, "cut": row[:-1] or b"\0", "longer": row + b"\x01", "other": data.draw(BYTES.filter(bool))}[
            change
        ]
        stored: Any = StoredRow(row, {column: StoredCell(value, 1) for column, value in cells.items()})
        assert outcome(reader.values, stored) == outcome(reader.values_slow, stored)


class Whole(int):
    """A number of its own type."""


ODD = [
    None,
    True,
    0,
    2**70,
    Whole(1),
    1.5,
    float("nan"),
    -0.0,
    "text",
    "\ud800",
    "é\0",
    b"bytes",
    b"\0",
    bytearray(b"x"),
    Level.LOW,
    datetime(2026, 1, 1),
    datetime(2026, 1, 1, microsecond=1, tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    [],
    {},
]


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_odd_values_mean_what_they_mean_to_plain_code(data: st.DataObject) -> None:
    of = data.draw(models(wide=True))
    values = {name: data.draw(st.sampled_from([*pool, *ODD])) for name, pool in of.pools.items()}
    obj = made(of, values)
    found, expected = outcome(take, of.schema, obj), outcome(take_slow, of.schema, obj)
    if of.schema.salt.random and len(found) == len(expected) == 3:
        found, expected = (found[0], found[1][1:], found[2]), (expected[0], expected[1][1:], expected[2])
    assert repr(found) == repr(expected), "NaN is not equal to itself"


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_keys_mean_what_they_mean_to_plain_code(data: st.DataObject) -> None:
    of = data.draw(models(wide=True))
    keys = KeyMapper(of.schema)
    rows_code = KeyMapper.rows_code(of.schema)
    pools = {name: of.pools[name] for name in of.schema.layout.names}
    ordinary = {name: data.draw(st.sampled_from(pool)) for name, pool in pools.items()}
    for key in (ordinary, tuple(ordinary.values()), list(ordinary.values())):
        found = outcome(rows_code, key)
        assert found == outcome(keys.plain_rows, key)
        if isinstance(found, list):
            assert compile_rows(of.schema, fail)(key) == found
    odd: dict[str, Any] = {name: data.draw(st.sampled_from([*pool, *ODD])) for name, pool in pools.items()}
    if data.draw(st.booleans()):
        odd.pop(data.draw(st.sampled_from(sorted(odd))))
    if data.draw(st.booleans()):
        odd["another"] = 1
    values = list(odd.values())
    for key in (
        odd,
        MappingProxyType(odd),
        values,
        tuple(values),
        UserList(values),
        set(map(repr, values)),
        "text",
        None,
    ):
        assert outcome(rows_code, key) == outcome(keys.plain_rows, key)


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_index_entries_mean_what_they_mean_to_plain_code(data: st.DataObject) -> None:
    of = data.draw(models(wide=True).filter(lambda of: bool(of.schema.indexes)))
    keys = KeyMapper(of.schema)
    for obj in data.draw(stored_objects(of, True)):
        for index in of.schema.indexes.values():
            entries = keys.entries(index, obj.values, obj.row)
            if not of.schema.salt.random:
                assert all(compile_rows_of_entry(of.schema, index, fail)(entry) == [obj.row] for entry in entries)
            broken = [found for entry in entries[:1] for found in (entry[:-1] or b"\0", entry + data.draw(BYTES))]
            for found in (*entries, *broken, data.draw(BYTES.filter(bool))):
                made_rows, plain = (
                    outcome(keys.rows_of_entry_code(index), found),
                    outcome(keys.row_of_entry, index, found),
                )
                # Of a damaged entry the code decodes the key of the row alone; what else it holds, a read compares with
                # the row.
                damaged = found not in entries and isinstance(plain, tuple) and plain[0] is hb.DecodingError
                assert made_rows == plain or (damaged and isinstance(made_rows, list))


def test_a_function_is_made_once_for_a_model_and_a_choice_of_fields() -> None:
    @hb.model(table="rows", family="d")
    class Row:
        number: hb.Key[int] = hb.key(hb.UInt32)
        name: hb.Column[str] = hb.column("n")
        note: hb.Column[str | None] = hb.column("o", default=None)

    schema = hb.schema.schema_of(Row)
    assert RowDecoder(schema, False).values is RowDecoder(schema, True).values
    names = frozenset({"name"})
    assert RowDecoder(schema, False, names).values is RowDecoder(schema, False, frozenset(names)).values
    assert RowDecoder(schema, False, names).values is not RowDecoder(schema, False).values


@pytest.mark.lengthy
def test_a_model_remembers_so_many_choices_of_fields_and_no_more() -> None:
    fields = [f"f{n}" for n in range(9)]
    declared = {name: hb.column(name, default=0) for name in fields}
    annotations = {"number": hb.Key[int], **dict.fromkeys(fields, hb.Column[int])}
    schema = hb.schema.schema_of(
        hb.model(table="wide")(type("Wide", (), {"number": hb.key(), **declared, "__annotations__": annotations}))
    )
    stored: Any = StoredRow(bytes(8), {b"d:f0": StoredCell(bytes(8), 1)})
    for bits in range(2 ** len(fields)):
        names = frozenset(name for at, name in enumerate(fields) if bits >> at & 1)
        assert RowDecoder.of(schema, False, names).values(stored).keys() == {"number", *names}
        assert len(schema.compiled) <= COMPILED_KEPT


def test_a_row_key_that_is_too_long_or_empty_is_refused() -> None:
    @hb.model(table="words", family="d")
    class Word:
        text: hb.Key[str] = hb.key()
        count: hb.Column[int] = hb.column("c")

    for text in ("", "x" * 32_768):
        with pytest.raises(KeyTooLong):
            take(hb.schema.schema_of(Word), Word(text=text, count=1))


# --- codecs of one's own ----------------------------------------------------------------------------------------------


@frozen
class Lower(type(hb.Text)):  # type: ignore[misc]
    """Text without capitals; its base's expressions know nothing of that."""

    def encode(self, value: str) -> bytes:
        return bytes(super().encode(value.lower()))


@frozen
class Tenths(type(hb.Int32)):  # type: ignore[misc]
    """Numbers in tenths, with an expression for another width."""

    @property
    def source(self) -> Source:
        return Source(int, "{v}", "{v}", "B")


@frozen
class Sealed(FixedWidth[str]):
    """One character under a byte that is new each time."""

    python_type = str
    width = 2

    def encode(self, value: str) -> bytes:
        return bytes(((key := secrets.randbelow(256)), ord(value) ^ key))

    def decode(self, data: bytes) -> str:
        return chr(data[0] ^ data[1])

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "of a test"}


class Alike(Enum):
    """Members that are equal to each other."""

    A = "a"
    B = "b"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alike)

    def __hash__(self) -> int:
        return 1


class Plain(Enum):
    A = "A"
    B = "B"


def test_codecs_that_do_otherwise_than_their_bases_are_asked() -> None:
    @hb.model(table="odd", family="d")
    class Odd:
        name: hb.Key[str] = hb.key(Lower())
        last: hb.Key[str] = hb.key(Lower(), desc=True)
        number: hb.Column[int] = hb.column("n", Tenths(32, True))
        text: hb.Column[str] = hb.column("t", Lower())
        alike: hb.Column[Alike] = hb.column("a")

    schema = hb.schema.schema_of(Odd)
    _, row, cells = take(schema, Odd(name="AB", last="C", number=1, text="EF", alike=Alike.A))
    assert row == b"ab\x00\x01" + bytes(255 - byte for byte in b"c\x00\x01")
    assert cells == {b"d:n": b"\x80\x00\x00\x01", b"d:t": b"ef", b"d:a": b"a"}
    stored: Any = StoredRow(row, {column: StoredCell(value, 1) for column, value in cells.items()})
    found = RowDecoder(schema, indexed=False).values(stored)
    assert (found["name"], found["number"], found["text"]) == ("ab", 1, "ef")
    assert found["alike"] is Alike.A


def test_members_are_written_as_their_codec_writes_them_then() -> None:
    assert source_of(hb.EnumOf(Plain, hb.Text)) is not None
    sealed = hb.EnumOf(Plain, Sealed())
    assert source_of(sealed) is None
    assert sealed.decode(sealed.encode(Plain.B)) is Plain.B
    assert source_of(hb.EnumOf(Plain, Lower())) is None, "it reads back nothing of what it writes"


@frozen
class Big(Codec[int]):
    """Numbers of any size, which makes a number of nothing too, and a mutable buffer of a number."""

    python_type = int

    def encode(self, value: int) -> bytes:
        return bytearray(value.to_bytes(2, "big"))

    encode_part = encode

    def decode(self, data: bytes) -> int:
        return int.from_bytes(data, "big")

    def decode_part(self, data: bytes, start: int) -> tuple[int, int]:
        return self.decode(data[start : start + 2]), start + 2

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "of a test"}


@hb.model(table="bigs", family="d")
class Bigs:
    number: hb.Key[int] = hb.key(Big())
    needed: hb.Column[int] = hb.column("n", Big())
    other: hb.Column[int] = hb.column("o", Big(), default=7)


def test_a_blank_is_no_value_though_its_codec_would_make_one_of_it() -> None:
    reader = RowDecoder(hb.schema.schema_of(Bigs), indexed=False)

    def values(needed: bytes, other: bytes) -> Any:
        stored: Any = StoredRow(b"\0\1", {b"d:n": StoredCell(needed, 1), b"d:o": StoredCell(other, 1)})
        assert outcome(reader.values, stored) == outcome(reader.values_slow, stored)
        return reader.values(stored)

    assert values(b"\0\2", b"\0\3") == {"number": 1, "needed": 2, "other": 3}
    assert values(b"\0\2", b"") == {"number": 1, "needed": 2, "other": 7}
    with pytest.raises(hb.IncompleteRow):
        values(b"", b"")


def test_row_keys_are_bytes_whatever_their_codecs_make() -> None:
    _, row, _ = take(hb.schema.schema_of(Bigs), Bigs(number=1, needed=2))
    assert (type(row), row) == (bytes, b"\0\1")


def test_a_refusal_carries_nothing_of_generated_code_that_gave_up() -> None:
    @hb.model(table="levels", family="d")
    class Levels:
        number: hb.Key[int] = hb.key()
        level: hb.Column[Level] = hb.column("l")

    stored: Any = StoredRow(hb.row_key(Levels, number=1), {b"d:l": StoredCell(b"secret", 1)})
    with pytest.raises(hb.DecodingError) as caught:
        RowDecoder(hb.schema.schema_of(Levels), indexed=False).values(stored)
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in repr(error)
        error = error.__context__
