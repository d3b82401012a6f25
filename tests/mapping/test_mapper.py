"""Between objects and rows: what a row becomes, which columns are asked for, and where objects and entries lie."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder, cells_of, encode_cell, key_of
from hbmodel.mapping.schema import FLAG, LIVE
from hbmodel.store.embedded.cells import StoredCell, StoredRow
from tests.support.examples import examples
from tests.support.random_queries import models, stored_objects
from tests.support.strategies import as_read


@hb.model(table="things", salt=hb.HashSalt(4, by=("a",)))
class Thing:
    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    b: hb.Key[str] = hb.key(desc=True)
    name: hb.Column[str] = hb.column("n")
    price: hb.Column[Decimal | None] = hb.column("p", default=None, family="x")
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]), default=attrs.Factory(list))
    views: hb.Column[int] = hb.counter("v")

    by_name = hb.index("name", hb.asc("b"), salt=hb.HashSalt(2))


@hb.model(table="flags", exists=hb.flag("e"))
class Flagged:
    k: hb.Key[int] = hb.key(hb.codecs.UInt8)
    note: hb.Column[str | None] = hb.column("o", default=None)


@hb.model(table="loose")
class Loose:
    k: hb.Key[int] = hb.key(hb.codecs.UInt8)
    note: hb.Column[str] = hb.column("o", default="none")
    views: hb.Column[int] = hb.counter("v", family="x")


@hb.model(table="external", external=True)
class External:
    k: hb.Key[int] = hb.key(hb.codecs.UInt8)
    note: hb.Column[str | None] = hb.column("o", default=None)
    level: hb.Column[int] = hb.column("l", family="x")


@hb.model(table="witnessed", external=True, exists="level")
class Witnessed:
    k: hb.Key[int] = hb.key(hb.codecs.UInt8)
    note: hb.Column[str | None] = hb.column("o", default=None)
    level: hb.Column[int] = hb.column("l", family="x")


@hb.model(table="claimed", external=True, exists=hb.flag("e"))
class Claimed:
    k: hb.Key[int] = hb.key(hb.codecs.UInt8)
    note: hb.Column[str | None] = hb.column("o", default=None)


@hb.model(table="drawn", salt=hb.RandomSalt(3), immutable=True)
class Drawn:
    k: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")

    by_name = hb.index("name")


def row(key: bytes, cells: Mapping[bytes, bytes]) -> StoredRow:
    return StoredRow(key, {column: StoredCell(value, 1) for column, value in cells.items()})


def reader(model: type[Any], *, indexed: bool = False, names: set[str] | None = None) -> RowDecoder:
    return RowDecoder(hb.schema.schema_of(model), indexed, None if names is None else frozenset(names))


KEY = bytes((1,)) + b"x".translate(bytes(range(255, -1, -1))) + b"\xff\xfe"
BUCKET = KeyMapper(hb.schema.schema_of(Thing)).rows((1, "x"))[0][:1]
NINE = (9).to_bytes(8, "big")


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_row_becomes_an_object() -> None:
    of = reader(Thing)
    cells = {
        b"d:n": b"ann",
        b"x:p": hb.codecs.DecimalNumber.encode(Decimal("1.5")),
        b"d:t": b'["a"]',
        b"d:v": NINE,
        b"d:other": b"?",
    }
    made = of.make(of.values(row(BUCKET + KEY, cells)))
    assert made == Thing(a=1, b="x", name="ann", price=Decimal("1.5"), tags=["a"]) or made.views == 9
    assert (made.a, made.b, made.name, made.price, made.tags, made.views) == (1, "x", "ann", Decimal("1.5"), ["a"], 9)
    assert type(made) is Thing


def test_missing_cells_read_as_their_default() -> None:
    of = reader(Thing)
    first, second = (of.make(of.values(row(BUCKET + KEY, {b"d:n": b"ann"}))) for _ in range(2))
    assert (first.price, first.tags, first.views) == (None, [], 0)
    assert first.tags is not second.tags
    assert reader(Loose).values(row(b"\x01", {b"x:v": NINE}))["note"] == "none"


def test_an_empty_cell_is_none_whatever_the_default() -> None:
    assert reader(Flagged).values(row(b"\x01", {b"d:o": b""}))["note"] is None
    assert reader(Flagged).values(row(b"\x01", {b"d:o": b"\x00"}))["note"] == ""


def test_a_required_column_must_be_there() -> None:
    with pytest.raises(hb.IncompleteRow) as caught:
        reader(Thing).values(row(BUCKET + KEY, {b"d:v": NINE}))
    assert (caught.value.table, caught.value.key, caught.value.field) == ("things", BUCKET + KEY, "name")
    assert reader(Thing, names={"price"}).values(row(BUCKET + KEY, {b"d:v": NINE})) == {"a": 1, "b": "x", "price": None}


@pytest.mark.parametrize(
    ("key", "cells", "field"),
    [
        (BUCKET + KEY, {b"d:n": b"\xff"}, "name"),
        (BUCKET + KEY, {b"d:n": b"ann", b"x:p": b"\x09"}, "price"),
        (BUCKET + KEY, {b"d:n": b"ann", b"d:v": b"\x01"}, "views"),
        (BUCKET + KEY[:-1], {b"d:n": b"ann"}, "b"),
        (BUCKET, {b"d:n": b"ann"}, "a"),
        (BUCKET + KEY + b"x", {b"d:n": b"ann"}, None),
    ],
)
def test_bytes_that_the_model_does_not_write(key: bytes, cells: Mapping[bytes, bytes], field: str | None) -> None:
    with pytest.raises(hb.DecodingError) as caught:
        reader(Thing).values(row(key, cells))
    assert (caught.value.table, caught.value.key, caught.value.field) == ("things", key, field)


def test_what_exists() -> None:
    dead, live = {b"d:_l": b"\x00nonce...", b"d:n": b""}, {b"d:_l": LIVE, b"d:n": b""}
    exists = reader(Thing, indexed=True).exists
    assert [exists(row(b"r", cells)) for cells in (live, dead, {b"d:n": b"x"})] == [True, False, False]
    flagged = reader(Flagged).exists
    assert [flagged(row(b"r", cells)) for cells in ({b"d:e": FLAG}, {b"d:e": b"claim"}, {b"d:o": b"x"})] == [
        True,
        False,
        False,
    ]
    assert reader(Loose).exists(row(b"r", {b"x:v": NINE}))


@pytest.mark.parametrize(
    ("model", "indexed", "names", "columns"),
    [
        (Thing, True, None, (b"d", b"x")),
        (Thing, False, None, (b"d", b"x")),
        (Thing, True, {"price"}, (b"d:_l", b"x:p")),
        (Thing, True, {"a"}, (b"d:_l",)),
        (Thing, False, {"price"}, (b"d:n", b"x:p")),
        (Thing, False, set(), (b"d:n",)),
        (Flagged, False, {"note"}, (b"d:e", b"d:o")),
        (Flagged, False, set(), (b"d:e",)),
        (Loose, False, {"note"}, (b"d", b"x")),  # no column is in every row
        (External, False, None, (b"d", b"x")),  # a row may have only cells of other programs
        (External, False, {"note"}, (b"d", b"x")),
        (Witnessed, False, None, (b"d:o", b"x:l")),
        (Witnessed, False, {"note"}, (b"d:o", b"x:l")),
        (Witnessed, False, set(), (b"x:l",)),
        (Claimed, False, None, (b"d:e", b"d:o")),
    ],
)
def test_columns_to_ask_for(
    model: type[Any], indexed: bool, names: set[str] | None, columns: tuple[bytes, ...]
) -> None:
    assert tuple(reader(model, indexed=indexed, names=names).columns) == columns


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_every_object_reads_back(data: st.DataObject) -> None:
    of = data.draw(models(versions=True, wide=True))
    indexed = bool(of.schema.indexes) or of.schema.versioned
    for obj in data.draw(stored_objects(of, indexed)):
        made = RowDecoder(of.schema, indexed)
        found = obj.read(made.columns)
        assert found is not None
        assert made.exists(found)
        # a default is as it was given
        assert {name: as_read(value) for name, value in made.values(found).items()} == obj.values
        again = made.make(made.values(found))
        for f in of.schema.fields:
            assert as_read(getattr(again, f.name)) == obj.values[f.name]
        assert key_of(of.schema, again) == tuple(obj.values[name] for name in of.schema.layout.names)
        written = cells_of(of.schema, again)
        assert {c: v for c, v in obj.cells.items() if c in written} == {
            c: v for c, v in written.items() if c in obj.cells
        }


# --- writing ----------------------------------------------------------------------------------------------------------


def test_cells_of_an_object() -> None:
    schema = hb.schema.schema_of(Thing)
    thing = Thing(a=1, b="x", name="ann")
    assert cells_of(schema, thing) == {b"d:n": b"ann", b"x:p": b"", b"d:t": b"[]"}, "counters are never written so"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", None, r"does not allow None: give it a value, or add `\| None` to its annotation"),
        ("name", 3, "A value does not have the type"),
        ("tags", {"a"}, "A structured value would not be equal"),
        ("price", 1.5, "A value does not have the type"),
    ],
)
def test_a_cell_that_cannot_be_written_names_its_field(field: str, value: Any, message: str) -> None:
    schema = hb.schema.schema_of(Thing)
    with pytest.raises(hb.EncodingError, match=message) as caught:
        encode_cell(schema, schema.by_name[field], value)
    assert (caught.value.table, caught.value.field) == ("things", field)


# --- keys -------------------------------------------------------------------------------------------------------------


def test_keys_by_name() -> None:
    keys = KeyMapper(hb.schema.schema_of(Thing))
    assert keys.complete({"b": "x", "a": 1}) == (1, "x")
    with pytest.raises(hb.errors.IncompleteKey) as missing:
        keys.complete({"b": "x"})
    assert (missing.value.table, missing.value.missing) == ("things", ["a"])
    with pytest.raises(hb.errors.UnknownField, match="The row key has no such field") as unknown:
        keys.complete({"a": 1, "b": "x", "name": "ann"})
    assert (unknown.value.field, unknown.value.known) == ("name", ["a", "b"])


def test_where_an_object_lies() -> None:
    assert KeyMapper(hb.schema.schema_of(Thing)).rows((1, "x")) == [BUCKET + KEY]
    assert KeyMapper(hb.schema.schema_of(Loose)).rows((7,)) == [b"\x07"]
    assert KeyMapper(hb.schema.schema_of(Drawn)).rows((7,)) == [b"\x00\x07", b"\x01\x07", b"\x02\x07"]
    drawn = {KeyMapper(hb.schema.schema_of(Drawn)).new_row((7,)) for _ in range(200)}
    assert drawn == {b"\x00\x07", b"\x01\x07", b"\x02\x07"}


def test_a_key_that_cannot_be_written_names_its_field_and_table() -> None:
    with pytest.raises(hb.EncodingError) as caught:
        KeyMapper(hb.schema.schema_of(Thing)).rows((1, 2))
    assert (caught.value.table, caught.value.field) == ("things", "b")
    with pytest.raises(hb.errors.KeyTooLong, match="A row key must not be longer than 32,767 bytes") as long:
        KeyMapper(hb.schema.schema_of(Thing)).rows((1, "x" * 40_000))
    assert long.value.table == "things"


def test_where_an_entry_lies() -> None:
    schema = hb.schema.schema_of(Thing)
    keys, index = KeyMapper(schema), schema.indexes["by_name"]
    (entry,) = keys.entries(index, {"name": "ann", "b": "x", "a": 1}, BUCKET + KEY)
    assert entry[1:] == b"ann\x00\x01" + b"x\x00\x01" + b"\x01"
    assert keys.row_of_entry(index, entry) == [BUCKET + KEY]
    with pytest.raises(hb.EncodingError) as caught:
        keys.entries(index, {"name": None, "b": "x", "a": 1}, BUCKET + KEY)
    assert (caught.value.table, caught.value.index, caught.value.field) == ("things.by_name", "by_name", "name")
    with pytest.raises(hb.errors.KeyTooLong) as long:
        keys.entries(index, {"name": "x" * 40_000, "b": "x", "a": 1}, BUCKET + KEY)
    assert (long.value.table, long.value.index) == ("things.by_name", "by_name")


def test_an_entry_of_a_randomly_salted_model_ends_in_the_bucket() -> None:
    schema = hb.schema.schema_of(Drawn)
    keys, index = KeyMapper(schema), schema.indexes["by_name"]
    (entry,) = keys.entries(index, {"name": "ann", "k": 7}, b"\x02\x07")
    assert entry == b"ann\x00\x01\x07\x02"
    assert keys.row_of_entry(index, entry) == [b"\x02\x07", b"\x00\x07", b"\x01\x07"]


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_every_entry_leads_back_to_its_row(data: st.DataObject) -> None:
    of = data.draw(models(wide=True))
    keys = KeyMapper(of.schema)
    for obj in data.draw(stored_objects(of, indexed=True)):
        for index in of.schema.indexes.values():
            for entry in keys.entries(index, obj.values, obj.row):
                rows = keys.row_of_entry(index, entry)
                assert rows[0] == obj.row
                assert sorted(rows) == sorted(keys.rows(tuple(obj.values[name] for name in of.schema.layout.names)))
