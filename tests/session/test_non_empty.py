"""Columns of text that is never empty: they show that their row exists, so that no call needs a flag."""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Put
from tests.support.beds import Bed, fresh

NAME = hb.codecs.NonEmpty(hb.Text)


@hb.model(table="non_empty", family="d")
class Person:
    id: hb.Key[int] = hb.key(hb.codecs.UInt24)
    name: hb.Column[str] = hb.column("n", NAME)
    nick: hb.Column[str | None] = hb.column("k", NAME, nullable=True, default=None)


@hb.model(table="non_empty_words", family="d")
class Word:
    """Its key has such a text too."""

    page: hb.Key[str] = hb.key(NAME)
    number: hb.Key[int] = hb.key(hb.codecs.UInt24)
    text: hb.Column[str] = hb.column("t", NAME)

    by_text = hb.index("text")


def test_calls_that_need_a_column_that_is_never_empty(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Person)
    session.insert(Person(id=1, name="ann", nick="a"))
    with pytest.raises(hb.RowExists):
        session.insert(Person(id=1, name="bob"))
    assert session.put(Person, id=2, name="cid")
    session.rekey(Person(id=1, name="ann"), id=2**24 - 1)
    assert session.query(Person).limit(9).all() == [
        Person(id=2, name="cid"),
        Person(id=2**24 - 1, name="ann", nick="a"),
    ]


def test_prepend_needs_no_flag(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Word)
    assert [session.prepend(Word, page="p", text=text).number for text in "abc"] == [2**24 - 1, 2**24 - 2, 2**24 - 3]
    assert [each.text for each in session.query(Word).where(Word.page == "p")] == ["c", "b", "a"]


@pytest.mark.parametrize(
    "write",
    [
        lambda session: session.add(Person(id=1, name="")),
        lambda session: session.add(Person(id=1, name="a", nick="")),
        lambda session: session.add(Word(page="", number=1, text="a")),
        lambda session: session.update(Person(id=1, name="a"), name=""),
        lambda session: session.put(Person, id=1, name=""),
        lambda session: session.query(Person).where(Person.name == "").allow_full_scan().all(),
    ],
)
def test_the_empty_value_is_refused(write: Any) -> None:
    with pytest.raises(hb.EncodingError, match="The value is empty, and its field is declared as never empty"):
        write(hb.Session(fresh(Person, Word)))


def test_bounds_may_be_empty(bed: Bed) -> None:
    """A bound need not be a value that the codec stores."""
    session = bed.use(Word)
    session.bulk_add([Word(page=page, number=1, text=page * 2) for page in ("a", "ab", "b")])
    for field in (Word.page, Word.text):
        assert len(session.query(Word).where(field >= "").allow_full_scan().all()) == 3
        assert session.query(Word).where(field <= "").allow_full_scan().all() == []
        assert len(session.query(Word).where(field.startswith("a")).all()) == 2
        assert len(session.query(Word).where(field < "b").all()) == 2


def test_an_empty_cell_of_another_program_is_an_error() -> None:
    store = fresh(Person)
    session = hb.Session(store)
    session.add(Person(id=1, name="a"))
    session.commit()
    store.put("non_empty", [Put(hb.row_key(Person, id=1), {b"d:n": b""})])
    with pytest.raises(hb.IncompleteRow, match=r"lacks a required column.*field='name'"):
        session.get(Person, id=1)


def test_only_codecs_with_an_empty_value_need_it() -> None:
    for codec in (hb.UInt32, hb.Bytes(4), hb.codecs.NonEmpty(hb.Text)):
        with pytest.raises(hb.DeclarationError, match="No value of this codec is empty: use the codec without"):
            hb.codecs.NonEmpty(codec)
