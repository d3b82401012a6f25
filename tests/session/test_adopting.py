"""Tables that had rows before their first index: the registry says which rows are live, and all programs follow it."""

from __future__ import annotations

import json

import pytest

import hbmodel as hb
from hbmodel.store import Delete, Family, Put
from hbmodel.tables.registry.registry_rows import INDEX_PREFIX, ROWS, registry_row
from hbmodel.tables.registry.registry_table import canonical_json
from tests.support.beds import Bed, cells_of, fresh, set_state


@hb.model(table="notes", family="d")
class Bare:
    """The model before it had an index."""

    name: hb.Key[str] = hb.key()
    topic: hb.Column[str] = hb.column("t")
    text: hb.Column[str | None] = hb.column("x", default=None)
    views: hb.Column[int] = hb.counter("v")


@hb.model(table="notes", family="d")
class Note:
    """The same with an index."""

    name: hb.Key[str] = hb.key()
    topic: hb.Column[str] = hb.column("t")
    text: hb.Column[str | None] = hb.column("x", default=None)
    views: hb.Column[int] = hb.counter("v")

    by_topic = hb.index("topic")


NAMES = ["a", "b", "c", "d", "e"]


def adopting(bed: Bed, state: str = "write-only") -> hb.Session:
    """Five rows from before the index, which is kept from now on."""
    session = bed.use(Bare)
    session.add_all(Bare(name=name, topic=f"t{name}") for name in NAMES)
    session.commit()
    hb.create_tables(bed.store, Note)
    bed.store.create_table(
        "notes.by_topic", [Family(b"d")]
    ) if "notes.by_topic" not in bed.store.tables() else bed.wipe("notes.by_topic")
    set_state(bed.store, Note, "by_topic", state)
    return hb.Session(bed.store)


@pytest.fixture
def forgotten(bed: Bed) -> Bed:
    """A store whose registry does not know the table."""
    for table in ("notes", "notes.by_topic"):
        if table in bed.store.tables():
            bed.store.delete_table(table)
    hb.create_tables(bed.store, Bare)
    bed.store.delete_table("notes")
    row = registry_row(hb.schema.schema_of(Note))
    bed.store.delete("hbmodel", [Delete(row)])
    return bed


def test_an_index_hides_no_row(forgotten: Bed) -> None:
    session = adopting(forgotten)
    for model in (Bare, Note):
        query = session.query(model).allow_full_scan()
        assert [item.name for item in query] == NAMES
        assert query.count() == 5
        assert [item.name for item in query.reversed().limit(2)] == ["e", "d"]
        assert query.select(model.name).all() == [(name,) for name in NAMES]
        assert query.where(model.topic == "tb").count() == 1
        assert session.get(model, name="c") is not None
        page = query.page(3)
        assert [item.name for item in page.items] == ["a", "b", "c"]
        assert [item.name for item in query.page(3, after=page.next_token).items] == ["d", "e"]


def test_writes_of_a_table_whose_rows_are_adopted(forgotten: Bed) -> None:
    session = adopting(forgotten)
    session.update(Note(name="a", topic=""), topic="new")
    session.update(Note(name="b", topic=""), text="x")
    session.delete_key(Note, name="c")
    session.add(Note(name="d", topic="again"))
    session.add(Note(name="f", topic="tf"))
    session.commit()
    assert session.increment(Note(name="e", topic=""), Note.views) == 1
    found = {note.name: (note.topic, note.text) for note in session.query(Note).allow_full_scan()}
    assert found == {"a": ("new", None), "b": ("tb", "x"), "d": ("again", None), "e": ("te", None), "f": ("tf", None)}
    assert session.query(Note).allow_full_scan().count() == 5
    assert session.query(Note).allow_full_scan().limit(3).count() == 3
    assert [note.name for note in session.query(Note).allow_full_scan().page(4).items] == ["a", "b", "d", "e"]
    entries = sorted(row.partition(b"\x00")[0] for row in cells_of(forgotten.store, "notes.by_topic"))
    assert entries == [b"again", b"new", b"tf"]
    session.delete_key(Bare, name="a")
    with pytest.raises(hb.errors.IndexUnavailable):
        session.commit()
    session.discard()
    if forgotten.atomic:
        for name in "ae":
            with pytest.raises(hb.RowExists):
                session.insert(Note(name=name, topic="x"))
        session.insert(Note(name="c", topic="back"))
        assert session.get(Note, name="c") == Note(name="c", topic="back")


def test_what_a_table_is_stands_in_the_registry() -> None:
    with fresh() as store:
        hb.create_tables(store, Bare)
        row = registry_row(hb.schema.schema_of(Bare))

        def rows() -> object:
            (found,) = store.get("hbmodel", [row])
            assert found is not None
            return json.loads(found.columns[ROWS].value)

        assert rows() == {"state": "unindexed"}
        hb.create_tables(store, Note)
        assert rows() == {"state": "unindexed"}
        store.put("hbmodel", [Put(row, {ROWS: canonical_json({"state": "indexed"})})])
        session = hb.Session(store)
        session.add(Bare(name="a", topic="t"))
        session.commit()
        assert b"d:_l" in cells_of(store, "notes")[b"a"]
        store.delete_table("notes")
    with fresh(Note) as store:
        assert json.loads(cells_of(store, "hbmodel")[row][ROWS]) == {"state": "indexed"}


def test_what_a_newer_program_says_of_an_index_stops_no_older_one() -> None:
    with fresh(Note) as store:
        row, column = registry_row(hb.schema.schema_of(Note)), INDEX_PREFIX + b"by_topic"
        entry = json.loads(cells_of(store, "hbmodel")[row][column])
        store.put("hbmodel", [Put(row, {column: canonical_json({**entry, "builders": [1, 2], "since": "later"})})])
        session = hb.Session(store)
        session.add(Note(name="a", topic="t"))
        session.commit()
        assert session.query(Note).where(Note.topic == "t").count() == 1
        # A state that is not known here: the index is kept, and not read.
        store.put("hbmodel", [Put(row, {column: canonical_json({**entry, "state": "resting"})})])
        session = hb.Session(store)
        session.add(Note(name="b", topic="t"))
        session.commit()
        assert len(cells_of(store, "notes.by_topic")) == 2
        with pytest.raises(hb.errors.IndexUnavailable):
            session.query(Note).where(Note.topic == "t").all()
