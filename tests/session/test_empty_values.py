"""Empty text and bytes: no value is an empty cell, so every column without a default shows that its row exists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store import Put, Scan
from tests.support.beds import Bed, fresh
from tests.support.examples import examples

TEXTS = ["", "\0", "\0\0a", "\x01", "a"]


@hb.model(table="empty_users", family="d")
class User:
    id: hb.Key[str] = hb.key()
    name: hb.Column[str] = hb.column("n")


@hb.model(table="empty_notes", family="d")
class Note:
    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t")
    data: hb.Column[bytes] = hb.column("d")
    more: hb.Column[str] = hb.column("m", default="more")
    less: hb.Column[str | None] = hb.column("l", default=None)

    by_text = hb.index("text", covers=("data", "more"))


@hb.model(table="empty_words", family="d", row=b"words")
class Word:
    word: hb.Key[str] = hb.key(in_qualifier=True)
    meaning: hb.Column[str] = hb.column("")


def cells(store: hb.Store, table: str) -> dict[bytes, bytes]:
    (batches,) = store.scan(table, [Scan()])
    return {
        row.row + b"/" + column: cell.value
        for batch in batches
        for row in batch
        for column, cell in row.columns.items()
        if b"_" not in column
    }


@pytest.mark.every_store
def test_a_model_of_text_alone_needs_no_flag_to_insert(bed: Bed) -> None:
    session = bed.use(User)
    for at, text in enumerate(TEXTS):
        session.insert(User(id=f"{at}", name=text))
        with pytest.raises(hb.RowExists):
            session.insert(User(id=f"{at}", name="again"))
    assert [user.name for user in session.query(User).allow_full_scan()] == TEXTS
    assert cells(bed.store, "empty_users") == {
        b"0/d:n": b"\0",
        b"1/d:n": b"\0\0",
        b"2/d:n": b"\0\0\0a",
        b"3/d:n": b"\x01",
        b"4/d:n": b"a",
    }
    session.update_key(User, id="4", name="")
    session.commit()
    with pytest.raises(hb.RowExists):
        session.insert(User(id="4", name="b"))
    assert not session.put(User, id="4", name="\0")
    assert session.put(User, id="5", name="")
    session.delete_key(User, id="4")
    session.commit()
    session.insert(User(id="4", name=""))
    assert [(user.id, user.name) for user in session.query(User).allow_full_scan()][4:] == [("4", ""), ("5", "")]


def test_an_update_of_empty_text_needs_no_flag() -> None:
    store = fresh(User)
    session = hb.Session(store)
    session.add(User(id="a", name=""))
    session.commit()
    assert list(cells(store, "empty_users")) == [b"a/d:n"]
    session.delete_key(User, id="a")
    session.commit()
    session.update_key(User, id="a", name="b")
    with pytest.raises(hb.RowNotFound):
        session.commit()
    assert cells(store, "empty_users") == {}


@pytest.mark.every_store
def test_an_object_that_is_one_cell_can_be_inserted(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Word)
    session.insert(Word(word="a", meaning=""))
    with pytest.raises(hb.RowExists):
        session.insert(Word(word="a", meaning="b"))
    session.insert(Word(word="b", meaning="\0"))
    assert [(word.word, word.meaning) for word in session.query(Word).allow_full_scan()] == [("a", ""), ("b", "\0")]


@pytest.mark.every_store
@pytest.mark.parametrize("text", TEXTS)
def test_conditions_and_covered_columns(bed: Bed, text: str) -> None:
    session = bed.use(Note)
    session.add_all(
        Note(owner="o", number=at, text=each, data=each.encode(), more=each, less=each) for at, each in enumerate(TEXTS)
    )
    session.commit()
    at, query = TEXTS.index(text), session.query(Note).where(Note.owner == "o")
    for field in (Note.text, Note.more, Note.less):
        assert [note.number for note in query.where(field == text)] == [at]
        assert [note.number for note in query.where(field.in_([text, "other"]))] == [at]
        assert [note.number for note in query.where(field < text)] == [n for n, each in enumerate(TEXTS) if each < text]
        assert [note.number for note in query.where(field >= text)] == [
            n for n, each in enumerate(TEXTS) if each >= text
        ]
        assert [note.number for note in query.where(field != text)] == [n for n in range(len(TEXTS)) if n != at]
        starting = [n for n, each in enumerate(TEXTS) if each.startswith(text)]
        assert [note.number for note in query.where(field.startswith(text))] == starting
    by_text = session.query(Note).use_index("by_text").where(Note.text == text)
    assert by_text.select(Note.number, Note.data, Note.more).all() == [(at, text.encode(), text)]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3), st.none() | st.text(max_size=2)), max_size=4))
def test_values_read_back_and_no_cell_of_a_value_is_empty(values: list[tuple[str, bytes, str | None]]) -> None:
    with fresh(Note) as store:
        session = hb.Session(store)
        notes = [
            Note(owner="o", number=at, text=text, data=data, more=text, less=less)
            for at, (text, data, less) in enumerate(values)
        ]
        session.add_all(notes)
        session.commit()
        assert session.query(Note).where(Note.owner == "o").all() == notes
        stored = cells(store, "empty_notes")
        assert all(value for column, value in stored.items() if not column.endswith(b"d:l"))
        assert all(
            stored.get(hb.row_key(Note, owner="o", number=note.number) + b"/d:l", b"") == b""
            for note in notes
            if note.less is None
        )


def test_the_command_line_reads_the_same_values() -> None:
    from hbmodel.tables.registry.registry_table import Registry
    from hbmodel.tables.registry.table_from_registry import TableFromRegistry

    with fresh(User) as store:
        session = hb.Session(store)
        session.add_all(User(id=f"{at}", name=text) for at, text in enumerate(TEXTS))
        session.commit()
        model: Any = TableFromRegistry.find(Registry(store), "empty_users").schema.model
        read = hb.Session(store).query(model).allow_full_scan().all()
        assert [each.name for each in read] == TEXTS


def test_cells_of_other_programs_stay_as_they_are() -> None:
    @hb.model(table="empty_external", family="d", external=True)
    class External:
        id: hb.Key[str] = hb.key()
        name: hb.Column[str] = hb.column("n")

    from hbmodel.tables.registry.registry_table import Registry
    from hbmodel.tables.registry.table_from_registry import TableFromRegistry

    with fresh(External) as store:
        rows = {f"{at}".encode(): text.encode() for at, text in enumerate(TEXTS)}
        store.put("empty_external", [Put(row, {b"d:n": value}) for row, value in rows.items()])
        registered: Any = TableFromRegistry.find(Registry(store), "empty_external").schema.model
        for model in (External, registered):
            found = hb.Session(store).query(model).allow_full_scan().all()
            assert [each.name for each in found] == TEXTS
        session = hb.Session(store)
        session.add_all(External(id=f"{at}", name=text) for at, text in enumerate(TEXTS))
        session.commit()
        assert cells(store, "empty_external") == {row + b"/d:n": value for row, value in rows.items()}
