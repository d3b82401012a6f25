"""Refusals around whole models and their sessions, each with its message; see `test_refusals`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import hbmodel as hb
from tests.support.beds import fresh

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@hb.model(table="refusing_events", family="d", immutable=True)
class Event:
    number: hb.Key[int] = hb.key(hb.UInt32)
    size: hb.Column[int] = hb.column("s", default=0)
    seen: hb.Column[int] = hb.counter("n")


@hb.model(table="refusing_drawn", family=hb.family("d", max_versions=3), immutable=True, salt=hb.RandomSalt(4))
class Drawn:
    number: hb.Key[int] = hb.key(hb.UInt32)
    size: hb.Column[int] = hb.column("s", default=0)


@hb.model(table="refusing_notes", family="d")
class Note:
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t", default="")
    marks: hb.Map[str, str] = hb.map_column("m", hb.Text, hb.Text)


@hb.model(table="refusing_shared", family="p")
class Pet:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    sort: hb.Column[str] = hb.column("s", default="")


@hb.model(table="refusing_shared", family="v")
class Visit:
    owner: hb.Key[str] = hb.key()
    day: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    text: hb.Column[str] = hb.column("t", default="")
    version: hb.Column[int] = hb.version()


@hb.model(table="refusing_moved", family="d", immutable=True)
class Before:
    a: hb.Key[int] = hb.key(hb.UInt32)
    b: hb.Key[int] = hb.key(hb.UInt32)
    size: hb.Column[int] = hb.column("s", default=0)


@hb.model(table="refusing_moved_on", family="d", immutable=True, replaces=Before)
class After:
    b: hb.Key[int] = hb.key(hb.UInt32)
    a: hb.Key[int] = hb.key(hb.UInt32)
    size: hb.Column[int] = hb.column("s", default=0)


def test_a_counter_of_an_immutable_model_is_not_incremented() -> None:
    with (
        fresh(Event) as store,
        pytest.raises(hb.SessionError, match="Rows of an immutable model cannot be incremented: declare"),
    ):
        hb.Session(store).increment(Event(number=1), Event.seen)


def test_a_row_in_an_unknown_bucket_has_no_versions() -> None:
    with (
        fresh(Drawn) as store,
        pytest.raises(hb.QueryError, match="Objects whose row may be in several buckets or tables"),
    ):
        hb.Session(store).versions(Drawn, Drawn.size, number=1)


def test_map_columns_are_not_read_as_of_a_time() -> None:
    with fresh(Note) as store, pytest.raises(hb.QueryError, match="Map columns cannot be read as of a time: leave out"):
        hb.Session(store).query(Note).load(Note.marks).as_of(NOW)


def test_a_model_that_replaces_another_is_not_read_as_of_a_time() -> None:
    with (
        fresh(Before) as store,
        pytest.raises(hb.QueryError, match="A model that replaces another cannot be read as of a time"),
    ):
        hb.Session(store).query(After).as_of(NOW)


def test_objects_move_only_with_indexes_that_are_built() -> None:
    @hb.model(table="refusing_moved", family="d", immutable=True)
    class Indexed:
        a: hb.Key[int] = hb.key(hb.UInt32)
        b: hb.Key[int] = hb.key(hb.UInt32)
        size: hb.Column[int] = hb.column("s", default=0)

        by_size = hb.index("size")

    @hb.model(table="refusing_moved_on", family="d", immutable=True, replaces=Indexed)
    class Turned:
        b: hb.Key[int] = hb.key(hb.UInt32)
        a: hb.Key[int] = hb.key(hb.UInt32)
        size: hb.Column[int] = hb.column("s", default=0)

    with fresh(Before) as store:
        hb.create_tables(store, Indexed)
        with pytest.raises(hb.SchemaMismatch, match="Build the indexes of the table first"):
            hb.migration.migrate(store, Turned).start()


def test_two_calls_for_an_object_of_a_wide_row_that_cannot_be_one_write() -> None:
    with fresh(Pet) as store, hb.Session(store) as session:
        pet = Pet(owner="ann", name="rex")
        session.update(pet, sort="dog")
        session.add(pet)
        with pytest.raises(
            hb.SessionError, match="These two calls for an object of a wide row cannot be combined into one write"
        ):
            session.commit()
        session.discard()


def test_a_row_of_versioned_and_other_objects_is_not_written_at_once() -> None:
    with fresh(Pet, Visit) as store, hb.Session(store) as session:
        session.add_all([Pet(owner="ann", name="rex"), Visit(owner="ann", day=1)])
        with pytest.raises(
            hb.SessionError, match="Objects of versioned and unversioned models cannot be written to one row"
        ):
            session.commit()
        session.discard()


def moved(**options: Any) -> Any:
    """A model that may not be replaced."""
    fields = options.pop("fields", {})
    hints = {
        "a": hb.Key[int],
        "b": hb.Key[int],
        "size": hb.Column[int],
        **{name: hint for name, (hint, _) in fields.items()},
    }

    def declared(order: str, **more: Any) -> Any:
        keys = {name: hb.key(hb.UInt32) for name in order}
        body = {**keys, "size": hb.column("s"), **{name: made() for name, (_, made) in fields.items()}}
        body["__annotations__"] = {name: hints[name] for name in body}
        return hb.model(**{"family": "d", **options, **more})(type("Moved", (), body))

    return declared("ba", table="refusing_moved_2", replaces=declared("ab", table="refusing_moved_1"))


WORDS = hb.ids.Dictionary("refusing_words", hb.UInt32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"fields": {"m": (hb.Map[str, str], lambda: hb.map_column("m", hb.Text, hb.Text))}},
            "have map columns cannot be moved this way",
        ),
        (
            {"fields": {"w": (hb.Column[str], lambda: hb.column("w", WORDS))}},
            "A table with fields of a dictionary cannot be moved this way",
        ),
        ({"external": True, "immutable": True}, "A table that other programs write cannot be moved"),
        ({"salt": hb.RandomSalt(4), "immutable": True}, "A table with a random salt cannot be moved this way"),
    ],
)
def test_what_cannot_be_moved(options: dict[str, Any], message: str) -> None:
    with pytest.raises(hb.DeclarationError, match=message):
        moved(**options)
