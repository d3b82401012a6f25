"""Raw access: row keys of objects and objects of rows, without sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.store import Family, Put, Scan
from hbmodel.store.embedded.cells import StoredCell, StoredRow
from hbmodel.store.ranges import KeyRange
from tests.support.examples import examples
from tests.support.random_queries import RandomModel, models, stored_objects

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@hb.model(table="events", salt=hb.HashSalt(16, by=("model",)))
class Event:
    model: hb.Key[int] = hb.key(hb.codecs.UInt8)
    at: hb.Key[datetime] = hb.key(desc=True)
    name: hb.Column[str] = hb.column("n")
    note: hb.Column[str | None] = hb.column("x:_l", default=None)

    by_name = hb.index("name")


@hb.model(table="plain", exists=hb.flag("e"))
class Plain:
    k: hb.Key[str] = hb.key()
    note: hb.Column[str | None] = hb.column("x:_l", default=None)


@hb.model(table="drawn", salt=hb.RandomSalt(4), immutable=True)
class Drawn:
    k: hb.Key[int] = hb.key()
    a: hb.Column[int] = hb.column("a")


def stored(key: bytes, **cells: bytes) -> StoredRow:
    return StoredRow(key, {f"d:{name}".encode(): StoredCell(value, 1) for name, value in cells.items()})


def test_the_row_key_is_the_one_that_sessions_write() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Event)
        with hb.Session(store) as session:
            session.add(Event(model=7, at=NOON, name="x"))
        key = hb.row_key(Event, at=NOON, model=7)
        ((rows,),) = store.scan("events", [Scan(KeyRange.exactly(key))])
        assert [row.row for row in rows] == [key]
        assert hb.decode(Event, rows[0]) == Event(model=7, at=NOON, name="x")
        (entries,) = store.scan("events.by_name", [Scan()])
        assert len(next(iter(entries))) == 1


def test_row_keys_have_the_documented_bytes() -> None:
    assert hb.row_key(Plain, k="a\0b") == b"a\0b"
    assert hb.row_key(Event, model=7, at=datetime(1970, 1, 1, tzinfo=UTC))[1:] == b"\x07" + b"\x7f" + b"\xff" * 7


@pytest.mark.parametrize(
    ("key", "error", "name"),
    [
        ({"model": 7}, hb.errors.IncompleteKey, "missing"),
        ({"model": 7, "at": NOON, "name": "x"}, hb.errors.UnknownField, "field"),
        ({"model": "7", "at": NOON}, hb.EncodingError, "field"),
    ],
)
def test_a_key_that_is_none(key: dict[str, Any], error: type[hb.HbmodelError], name: str) -> None:
    with pytest.raises(error) as caught:
        hb.row_key(Event, **key)
    assert caught.value.details[name] is not None
    assert caught.value.table == "events"


def test_a_drawn_bucket_is_not_known() -> None:
    with pytest.raises(hb.CapabilityError, match="Under RandomSalt the row key cannot be") as caught:
        hb.row_key(Drawn, k=1)
    assert caught.value.table == "drawn"


def test_dead_rows_are_none() -> None:
    key = hb.row_key(Event, model=7, at=NOON)
    assert hb.decode(Event, stored(key, n=b"x", _l=b"\x01")) == Event(model=7, at=NOON, name="x")
    assert hb.decode(Event, stored(key, n=b"", _l=b"\x00nonce...")) is None
    assert hb.decode(Event, stored(key, n=b"x")) == Event(model=7, at=NOON, name="x"), "from before the first index"
    assert hb.decode(Plain, stored(b"a", e=b"\x01")) == Plain(k="a")
    assert hb.decode(Plain, stored(b"a", e=b"claim")) is None


@pytest.mark.parametrize("given", [b"key", {}, [], "row"])
def test_only_rows_are_decoded(given: Any) -> None:
    with pytest.raises(hb.errors.QueryError, match="Give a row as a store returns it") as caught:
        hb.decode(Plain, given)
    assert (caught.value.table, caught.value.found) == (hb.schema.schema_of(Plain).table, type(given).__name__)
    assert hb.decode(Plain, None) is None


def test_a_column_that_looks_like_the_liveness_cell_is_none() -> None:
    assert hb.decode(Plain, StoredRow(b"a", {b"d:e": StoredCell(b"\x01", 1), b"d:x:_l": StoredCell(b"n", 1)})) == Plain(
        k="a", note="n"
    )


@hb.model(table="parcels", family="i", external=True)
class Parcel:
    k: hb.Key[str] = hb.key()
    ref: hb.Column[str | None] = hb.column("ref", default=None)


@hb.model(table="parcels", family="c", external=True)
class Weight:
    k: hb.Key[str] = hb.key()
    grams: hb.Column[int] = hb.column("g", hb.codecs.java.Long)


@hb.model(table="boxes", family="i", families=(hb.family("l"),))
class Box:
    k: hb.Key[str] = hb.key()
    ref: hb.Column[str | None] = hb.column("ref", default=None)
    label: hb.Column[str | None] = hb.column("ref", family="l", default=None)


@pytest.mark.parametrize("columns", [[b"i:ref", b"c:g"], [b"i:ref"], [b"c:g"], [b"e:x"], [b"i:x", b"e:x"], [b"ic:x"]])
def test_one_read_gives_the_objects_of_all_models_that_share_the_row(columns: list[bytes]) -> None:
    """The cells of other families neither change an object nor make a row an object, as in `Session.get`."""
    cells = {b"i:ref": b"r", b"c:g": (7).to_bytes(8, "big"), b"e:x": b"x", b"i:x": b"x", b"ic:x": b"x"}
    with hb.connect("memory:") as store:
        store.create_table("parcels", [Family(name) for name in (b"i", b"c", b"e", b"ic")])
        store.put("parcels", [Put(b"a", {column: cells[column] for column in columns})])
        hb.create_tables(store, Parcel, Weight)
        session = hb.Session(store)
        (row,) = store.get("parcels", [b"a"])
        for model in (Parcel, Weight):
            assert hb.decode(model, row) == session.get(model, k="a")


def test_all_families_of_a_model_are_its_own() -> None:
    cells = {b"i:ref": StoredCell(b"r", 1), b"l:ref": StoredCell(b"l", 1), b"x:ref": StoredCell(b"x", 1)}
    assert hb.decode(Box, StoredRow(b"a", cells)) == Box(k="a", ref="r", label="l")
    assert hb.decode(Box, StoredRow(b"a", {b"x:ref": StoredCell(b"x", 1)})) is None


def test_rows_that_the_model_did_not_write() -> None:
    key = hb.row_key(Event, model=7, at=NOON)
    with pytest.raises(hb.IncompleteRow) as incomplete:
        hb.decode(Event, stored(key, _l=b"\x01"))
    assert incomplete.value.field == "name"
    with pytest.raises(hb.DecodingError) as damaged:
        hb.decode(Event, stored(key[:-1], n=b"x"))
    assert (damaged.value.table, damaged.value.key) == ("events", key[:-1])


def test_what_is_no_model() -> None:
    for call in (lambda: hb.row_key(int, k=1), lambda: hb.decode(int, stored(b"a", n=b"x"))):
        with pytest.raises(hb.DeclarationError):
            call()


def test_the_stores_own_calls_stand_beside_sessions() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Plain)
        store.put("plain", [Put(hb.row_key(Plain, k="a"), {b"d:e": b"\x01", b"d:x:_l": b"n"})])
        assert hb.Session(store).get(Plain, k="a") == Plain(k="a", note="n")


# --- fields of a key --------------------------------------------------------------------------------------------------


@hb.model(table="readings", salt=hb.HashSalt(4, by=("sensor",)))
class Reading:
    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=timedelta(hours=1))
    value: hb.Column[int] = hb.column("v")


@hb.model(table="cart_items")
class CartItem:
    customer: hb.Key[int] = hb.key(hb.UInt32)
    product: hb.Key[str] = hb.key(in_qualifier=True)
    count: hb.Column[int] = hb.column("c")


def refused(model: type[Any], key: Any, index: Any = None) -> hb.DecodingError:
    with pytest.raises(hb.DecodingError) as caught:
        hb.schema.key_of(model, key, index=index)
    return caught.value


def fields_or_error(model: type[Any], key: bytes) -> dict[str, Any] | hb.DecodingError:
    try:
        return hb.schema.key_of(model, key)
    except hb.DecodingError as error:
        return error


def test_the_fields_of_a_row_key() -> None:
    key = hb.row_key(Event, at=NOON, model=7)
    assert list(hb.schema.key_of(Event, key).items()) == [("model", 7), ("at", NOON)]
    assert hb.schema.key_of(Plain, b"a\0b") == {"k": "a\0b"}
    (drawn,) = KeyMapper(hb.schema.schema_of(Drawn)).rows([5])[2:3]
    assert hb.schema.key_of(Drawn, drawn) == {"k": 5}, "in the bucket that was drawn"


def test_the_fields_of_the_key_in_an_outcome_and_in_an_error() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Plain, CartItem)
        with pytest.raises(hb.RowNotFound) as plain, hb.Session(store) as session:
            session.update_key(Plain, k="a", note="n")
        assert hb.schema.key_of(Plain, plain.value.key) == {"k": "a"}
        with pytest.raises(hb.RowNotFound) as wide, hb.Session(store) as session:
            session.update_key(CartItem, customer=7, product="tea", count=1)
        assert hb.schema.key_of(CartItem, wide.value.key) == {"customer": 7, "product": "tea"}
        session = hb.Session(store)
        session.add(CartItem(customer=7, product="tea", count=2))
        (outcome,) = session.commit()
        assert outcome.key is not None
        assert hb.schema.key_of(CartItem, outcome.key) == {"customer": 7, "product": "tea"}


def test_the_fields_of_an_index_entry() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Event)
        with hb.Session(store) as session:
            session.add(Event(model=7, at=NOON, name="x"))
        (batches,) = store.scan("events.by_name", [Scan()])
        ((entry,),) = batches
    for index in ("by_name", Event.by_name):
        assert list(hb.schema.key_of(Event, entry.row, index=index).items()) == [
            ("name", "x"),
            ("model", 7),
            ("at", NOON),
        ]
    error = refused(Event, entry.row[:-1], "by_name")
    assert (error.table, error.index, error.key) == ("events.by_name", "by_name", entry.row[:-1])
    with pytest.raises(hb.errors.UnknownIndex):
        hb.schema.key_of(Event, entry.row, index="by_nothing")


def test_a_row_key_of_a_wide_model_has_the_fields_that_are_complete_in_it() -> None:
    assert hb.schema.key_of(CartItem, hb.row_key(CartItem, customer=7, product="tea")) == {"customer": 7}
    row = hb.row_key(Reading, sensor="a", at=NOON)
    assert hb.schema.key_of(Reading, row) == {"sensor": "a"}, "of the time only the hour is in the row key"
    wrong = bytes([row[0] ^ 1]) + row[1:]
    assert refused(Reading, wrong).key == wrong


@pytest.mark.parametrize("cut", [0, 1, 2, 9])
def test_a_key_that_the_model_does_not_write(cut: int) -> None:
    key = hb.row_key(Event, model=7, at=NOON)
    error = refused(Event, key[:cut])
    assert (error.table, error.key) == ("events", key[:cut])
    error = refused(Event, bytes([key[0] ^ 1]) + key[1:])
    assert "does not begin with the bucket" in error.message
    assert (error.table, error.expected, error.found) == ("events", key[0], key[0] ^ 1)
    assert refused(Event, b"\xf0" + key[1:]).prefix == b"\xf0"


def test_the_error_of_a_key_names_the_field() -> None:
    error = refused(Plain, b"\xff")
    assert (error.table, error.key, error.field) == ("plain", b"\xff", "k")
    assert refused(CartItem, b"\0\0\0\x07\xff").table == "cart_items"


def test_no_row_has_an_empty_key() -> None:
    error = refused(Plain, b"")
    assert (error.table, error.key, error.message) == ("plain", b"", "No row has an empty key.")


@pytest.mark.parametrize("key", [None, "text", 7, ("a",), {"k": "a"}])
def test_what_is_no_key(key: Any) -> None:
    with pytest.raises(hb.EncodingError, match="A row key must be bytes"):
        hb.schema.key_of(Plain, key)


@pytest.mark.lengthy
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_the_fields_of_any_key(data: st.DataObject) -> None:
    of: RandomModel = data.draw(models(wide=True))
    schema, mapper = of.schema, KeyMapper(of.schema)
    plain = {name for name, field in schema.by_name.items() if field in schema.fields}
    for stored in data.draw(stored_objects(of, indexed=bool(schema.indexes), max_size=4)):
        key = {name: stored.values[name] for name in schema.layout.names}
        found = hb.schema.key_of(of.model, stored.row)
        assert found == key
        assert list(found) == list(schema.layout.names)
        if schema.wide is not None and schema.row_layout is not None:
            part = hb.schema.key_of(of.model, schema.wide.form.cut(stored.row)[0])
            assert part == dict(list(key.items())[: len(part)]) or len(part) == len(key)
        elif schema.wide is None and not schema.salt.random:
            assert hb.schema.key_of(of.model, hb.row_key(of.model, **key)) == key
        for name, index in schema.indexes.items():
            for entry in mapper.entries(index, stored.values, stored.row):
                found = hb.schema.key_of(of.model, entry, index=name)
                assert list(found) == list(index.layout.names)
                same = [each for each in found if each in plain and each not in index.derived]
                assert {each: found[each] for each in same} == {each: stored.values[each] for each in same}
                assert set(same) >= set(key)


@pytest.mark.lengthy
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_bytes_that_are_no_key(data: st.DataObject) -> None:
    of: RandomModel = data.draw(models(wide=True))
    stored = data.draw(stored_objects(of, indexed=bool(of.schema.indexes), max_size=2))
    key = bytearray(stored[0].row if stored else b"ab")
    if data.draw(st.booleans()) and key:
        key[data.draw(st.integers(0, len(key) - 1))] = data.draw(st.integers(0, 255))
    else:
        key = bytearray(data.draw(st.binary(max_size=12)))
    found = fields_or_error(of.model, bytes(key))
    if isinstance(found, hb.DecodingError):
        assert (found.table, found.key) == ("t", bytes(key))
    elif len(found) == len(of.schema.layout.names):
        assert bytes(key) in KeyMapper(of.schema).rows(list(found.values()))
