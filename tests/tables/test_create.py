"""Creating tables on an embedded store, and what keys and names cost."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.store import Family, Put
from hbmodel.store.embedded import EmbeddedStore
from tests.support.examples import examples
from tests.support.faulty import RecordingStore
from tests.support.random_queries import models, stored_objects


class Kind(Enum):
    LONG = "long"
    SHORT = "s"


class Mark(Enum):
    NONE = ""
    LONG = "long"
    SHORT = "s"


@hb.model(table="actions", family="d", salt=hb.HashSalt(16, by=("user_id",)))
class Action:
    user_id: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    action_id: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("n")
    amount: hb.Column[Decimal | None] = hb.column("am", default=None, family="x")
    views: hb.Column[int] = hb.counter("v")

    by_name = hb.index("name", "at", covers=("amount",))
    by_amount = hb.index("amount", salt=hb.HashSalt(4))


@hb.model(table="words", exists=hb.flag("e"))
class Word:
    language: hb.Key[str] = hb.key()
    word: hb.Key[str] = hb.key()
    note: hb.Column[str] = hb.column("note", default="")


@pytest.fixture
def store() -> Any:
    with hb.connect("memory:") as made:
        yield made


# --- creating ---------------------------------------------------------------------------------------------------------


def test_everything_that_a_model_needs_is_created(store: hb.Store) -> None:
    hb.create_tables(store, Action, Word)
    assert store.tables() == ["actions", "actions.by_amount", "actions.by_name", "hbmodel", "words"]
    assert [family.name for family in store.families("actions")] == [b"d", b"x"]
    assert [family.name for family in store.families("actions.by_name")] == [b"d", b"x"]
    assert [family.name for family in store.families("hbmodel")] == [b"m"]
    with hb.Session(store) as session:
        session.add(Word(language="en", word="a"))
    assert hb.Session(store).query(Word).where(Word.language == "en").count() == 1


def test_repeating_it_writes_nothing() -> None:
    with RecordingStore(hb.connect("memory:")) as recording:
        hb.create_tables(recording, Action, Word)
        recording.calls.clear()
        hb.create_tables(recording, Action, Word)
    assert recording.calls
    assert not any(call.writes for call in recording.calls)


def test_creating_nothing_is_a_mistake(store: hb.Store) -> None:
    with pytest.raises(hb.DeclarationError, match="the models whose tables are to be created"):
        hb.create_tables(store)
    assert store.tables() == []


def test_what_the_registry_holds(store: hb.Store) -> None:
    """A public, versioned contract: rows, columns and JSON are read by later versions and by other programs."""
    hb.create_tables(store, Action)
    (row,) = store.get("hbmodel", [b"actions\x00d"])
    assert row is not None
    cells = {column: json.loads(cell.value) for column, cell in row.columns.items()}
    schema = hb.schema.schema_of(Action)
    assert cells == {
        b"m:layout": json.loads(json.dumps(schema.layout_spec)),
        b"m:rows": {"state": "indexed"},
        b"m:roll": "new",
        **{
            f"m:i.{name}".encode(): {
                "state": "readable",
                "table": f"actions.{name}",
                "spec": json.loads(json.dumps(schema.indexes[name].spec)),
                "stored": json.loads(json.dumps(schema.indexes[name].stored_spec)),
            }
            for name in ("by_name", "by_amount")
        },
    }
    assert (
        row.columns[b"m:layout"].value == json.dumps(schema.layout_spec, sort_keys=True, separators=(",", ":")).encode()
    )


def test_a_table_that_is_there_is_taken_as_it_is(store: hb.Store) -> None:
    store.create_table("words", [Family(b"d", max_versions=3), Family(b"other")])
    store.put("words", [Put(hb.row_key(Word, language="en", word="a"), {b"d:e": b"\x01"})])
    hb.create_tables(store, Word)
    assert [family.max_versions for family in store.families("words")] == [3, 1]
    assert hb.Session(store).get(Word, language="en", word="a") == Word(language="en", word="a")


def test_a_table_that_lacks_a_family_is_told(store: hb.Store) -> None:
    store.create_table("actions", [Family(b"d")])
    with pytest.raises(hb.errors.FamilyNotFound, match="The live table lacks a column family of the model") as caught:
        hb.create_tables(store, Action)
    assert (caught.value.table, caught.value.family) == ("actions", "x")


def test_a_table_with_another_layout_is_told(store: hb.Store) -> None:
    @hb.model(table="words", exists=hb.flag("e"))
    class Turned:
        word: hb.Key[str] = hb.key()
        language: hb.Key[str] = hb.key()

    hb.create_tables(store, Word)
    with pytest.raises(hb.SchemaMismatch) as caught:
        hb.create_tables(store, Turned)
    assert caught.value.table == "words"
    assert [difference.split(":")[0] for difference in caught.value.differences] == ["key"]


def test_no_model_is_created_when_another_does_not_fit(store: hb.Store) -> None:
    @hb.model(table="words", exists=hb.flag("e"))
    class Turned:
        word: hb.Key[str] = hb.key()
        language: hb.Key[str] = hb.key()

    hb.create_tables(store, Word)
    with pytest.raises(hb.SchemaMismatch):
        hb.create_tables(store, Action, Turned)
    store.create_table("actions", [Family(b"d")])
    with pytest.raises(hb.errors.FamilyNotFound):
        hb.create_tables(store, Action, registry="other")
    assert store.tables() == ["actions", "hbmodel", "words"]


def test_a_table_that_another_registry_knows_is_not_registered_again(store: hb.Store) -> None:
    hb.create_tables(store, Word, registry="shop")
    with pytest.raises(hb.SchemaMismatch, match="registered in another registry") as caught:
        hb.create_tables(store, Word, registry="shpo")
    assert (caught.value.table, caught.value.registry, caught.value.other) == ("words", "shpo", "shop")
    assert store.tables() == ["shop", "words"]
    hb.create_tables(store, Action)  # a registry of its own, for other tables
    hb.create_tables(store, Word, registry="shop")
    hb.tables.forget(store, "words", existing=True, registry="shop")
    hb.create_tables(store, Word, registry="shop2")  # the advice of the error
    assert {"shop2", "hbmodel"} < set(store.tables())


def test_the_usual_registry_is_asked_also_if_the_named_one_exists(store: hb.Store) -> None:
    hb.create_tables(store, Word)
    hb.create_tables(store, Action, registry="other")
    with pytest.raises(hb.SchemaMismatch) as caught:
        hb.create_tables(store, Word, registry="other")
    assert caught.value.other == "hbmodel"


def test_other_registries_are_looked_for_only_if_a_table_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    families = EmbeddedStore.families

    def counted(store: EmbeddedStore, table: str) -> list[Family]:
        calls.append(table)
        return families(store, table)

    def asked() -> set[str]:
        found = set(calls) - {"words"}
        calls.clear()
        return found

    monkeypatch.setattr(EmbeddedStore, "families", counted)
    with hb.connect("memory:") as store:
        tables = {f"table{number}" for number in range(20)}
        for table in tables:
            store.create_table(table, [Family(b"m")])
        hb.create_tables(store, Word)
        hb.create_tables(store, Word)
        assert asked() == set()
        with pytest.raises(hb.SchemaMismatch):
            hb.create_tables(store, Word, registry="other")
        assert asked() == {"hbmodel"}
        hb.tables.forget(store, "words", existing=True)
        hb.create_tables(store, Word, registry="other")
        assert asked() == {"hbmodel", *tables}
        hb.create_tables(store, Word, registry="other")
        assert asked() == set()


def test_an_index_on_rows_that_are_there_must_be_built_first(store: hb.Store) -> None:
    @hb.model(table="words", exists=hb.flag("e"))
    class Indexed:
        language: hb.Key[str] = hb.key()
        word: hb.Key[str] = hb.key()
        note: hb.Column[str] = hb.column("note", default="")
        by_note = hb.index("note")

    hb.create_tables(store, Word)
    hb.create_tables(store, Indexed)
    assert "words.by_note" not in store.tables()
    with pytest.raises(hb.errors.IndexUnavailable):
        hb.Session(store).query(Indexed).where(Indexed.note == "x").all()


def test_only_models_have_tables(store: hb.Store) -> None:
    with pytest.raises(hb.DeclarationError):
        hb.create_tables(store, Word, int)
    assert store.tables() == [], "every model is looked at before anything is created"


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_bytes_of_keys_and_names() -> None:
    told = hb.describe(Action)
    key = 1 + 4 + 8 + 4
    own = [b"dn", b"xam", b"dv", b"d_v", b"d_l"]
    assert (told.table, told.key_bytes, told.fixed_key_bytes, told.cells) == ("actions", key, key, 5)
    assert told.cell_overhead == sum(key + len(name) + 20 for name in own)
    by_name, by_amount = told.indexes
    entry = 2 + 8 + 4 + 4  # the text's terminator, then at, user_id, action_id
    assert (by_name.table, by_name.key_bytes, by_name.fixed_key_bytes, by_name.cells) == (
        "actions.by_name",
        None,
        entry,
        2,
    )
    assert by_name.cell_overhead == sum(entry + len(name) + 20 for name in [b"d_v", b"xam"])
    assert by_amount.fixed_key_bytes == 1 + 1 + 4 + 8 + 4  # salt and the mark of None
    assert str(told).splitlines() == [
        f"actions: key 17 bytes (user_id, at descending, action_id), 5 cells, {told.cell_overhead} bytes of keys "
        "and names per row",
        "actions.by_name: key 18 + text bytes (name, at descending, user_id, action_id), "
        f"2 cells, {by_name.cell_overhead} bytes of keys and names per row",
        "actions.by_amount: key 18 + text bytes (amount, user_id, at descending, action_id), "
        f"1 cells, {by_amount.cell_overhead} bytes of keys and names per row",
    ]


def test_the_flag_is_a_cell_too() -> None:
    told = hb.describe(Word)
    assert (told.cells, told.fixed_key_bytes) == (2, 2)
    assert told.cell_overhead == (2 + 2 + 20) + (2 + 5 + 20)


@pytest.mark.parametrize(
    ("hint", "codec", "inner", "last"),
    [
        (int, hb.codecs.UInt8, 1, 1),
        (str, hb.Text, 2, 0),
        (bytes, hb.Bytes, 2, 0),
        (str, hb.Text(5), 5, 5),
        (str, hb.codecs.Delimited("::"), 2, 0),
        (str, hb.codecs.JavaUTF, 2, 2),
        (str, hb.codecs.DigestPrefixed(hb.Text, 3), 5, 3),
        (Decimal, hb.codecs.DecimalNumber, 1, 1),
        (Kind, hb.EnumOf(Kind), 3, 1),
        (str, hb.codecs.NonEmpty(hb.Text), 3, 1),
        (bytes, hb.codecs.NonEmpty(hb.Bytes), 3, 1),
        (Mark, hb.codecs.NonEmpty(hb.EnumOf(Mark)), 3, 1),
        (IPv4Address | IPv6Address, hb.codecs.IPAddress, 5, 5),
        (int | None, hb.UInt32, 1, 1),
    ],
)
def test_the_shortest_key(hint: Any, codec: hb.Codec[Any], inner: int, last: int) -> None:
    @hb.model(table="t")
    class Made:
        a: hb.Key[hint] = hb.key(codec)
        b: hb.Key[hint] = hb.key(codec)
        c: hb.Column[int] = hb.column("c")

    told = hb.describe(Made)
    assert told.fixed_key_bytes == inner + last
    assert told.key_bytes == (None if codec.width is None or hint == int | None else inner + last)


def test_the_end_of_a_key_that_does_not_end_by_itself() -> None:
    @hb.model(table="t", salt=hb.RandomSalt(2), immutable=True)
    class Made:
        k: hb.Key[str] = hb.key(desc=True)
        c: hb.Column[int] = hb.column("c")
        by_c = hb.index("c", hb.asc("k"))

    told = hb.describe(Made)
    assert told.fixed_key_bytes == 1 + 2  # the complemented terminator stays
    assert told.indexes[0].fixed_key_bytes == 8 + 2 + 1  # the bucket follows


@pytest.mark.lengthy
@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_no_key_is_shorter_than_told(data: st.DataObject) -> None:
    of = data.draw(models())
    told = hb.describe(of.model)
    for obj in data.draw(stored_objects(of, indexed=True)):
        assert told.fixed_key_bytes <= len(obj.row)
        assert told.key_bytes in {None, len(obj.row)}
        for index, cost in zip(of.schema.indexes.values(), told.indexes, strict=True):
            for entry in KeyMapper(of.schema).entries(index, obj.values, obj.row):
                assert cost.fixed_key_bytes <= len(entry)
                assert cost.key_bytes in {None, len(entry)}


def test_new_columns_of_an_existing_table_are_reported() -> None:
    @hb.model(table="grown", family="d")
    class Before:
        name: hb.Key[str] = hb.key()
        size: hb.Column[int] = hb.column("s", default=0)

    @hb.model(table="grown", family="d")
    class After:
        name: hb.Key[str] = hb.key()
        size: hb.Column[int] = hb.column("s", default=0)
        weight: hb.Column[int] = hb.column("w", default=0)
        notes: hb.Map[str, str] = hb.map_column("n:")

    with hb.connect("memory:") as store:
        first = hb.create_tables(store, Before)
        assert [table.registered for table in first] == [(), ()]
        grown = hb.create_tables(store, After)
        assert [table.registered for table in grown] == [(), ("weight", "notes")]
        assert str(grown) == "  hbmodel: exists\n~ grown: registered the new columns weight, notes"
        again = hb.create_tables(store, After)
        assert str(again) == "  hbmodel: exists\n  grown: exists"
