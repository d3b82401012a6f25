"""Models with columns that the registry does not know: they read, and write as soon as the columns are registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from tests.support.beds import HBASE, Bed, cells_of, drop_left, fresh
from tests.support.examples import in_turn
from tests.support.lease_clock import LeaseClock

EVERYWHERE = pytest.mark.parametrize("bed", ["memory", "embedded", *HBASE], indirect=True)

NEW: Mapping[str, tuple[Any, Any]] = {
    "column": (hb.Column[int], hb.column("n", default=7)),
    "nullable": (hb.Column[int | None], hb.column("n", default=None)),
    "family": (hb.Column[int], hb.column("n", default=7, family="e")),
    "counter": (hb.Column[int], hb.counter("n")),
    "map": (hb.Map[str, int], hb.map_column("n", factory=dict)),
}
"""New columns of each kind."""

VERSION = {"version": (hb.Column[int], hb.version())}

KINDS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "flagged": {"options": {"exists": hb.flag("f")}},
    "indexed": {"more": {"by_topic": (None, hb.index("topic"))}},
    "versioned": {"more": VERSION},
    "unique": {"more": {**VERSION, "by_topic": (None, hb.index("topic", unique=True))}},
    "wide": {"wide": True},
    "salted": {"options": {"salt": hb.HashSalt(3)}},
}


def declare(
    table: str,
    new: str | None = None,
    *,
    wide: bool = False,
    more: Mapping[str, tuple[Any, Any]] = {},
    options: Mapping[str, Any] = {},
    counted: bool = False,
) -> Any:
    """A model of a table, with one of the new columns or without."""
    fields: dict[str, tuple[Any, Any]] = {
        "user": (hb.Key[str], hb.key()),
        "at": (hb.Key[int], hb.key(hb.UInt32, in_qualifier=wide)),
        "topic": (hb.Column[str], hb.column("t", hb.codecs.NonEmpty(hb.Text))),
        **({} if wide else {"kept": (hb.Column[str], hb.column("k", default="", family="e"))}),
        **({"hits": (hb.Column[int], hb.counter("h"))} if counted else {}),
        **({} if new is None else {"new": NEW[new]}),
        **more,
    }
    body = {name: declaration for name, (_, declaration) in fields.items()}
    hints = {name: hint for name, (hint, _) in fields.items() if hint is not None}
    made = type("Note", (), {**body, "__annotations__": hints, "__module__": __name__})
    return hb.model(table=table, family="d", **options)(made)


WRITES: Mapping[str, Callable[[hb.Session, Any, Any], Any]] = {
    "add": lambda session, model, held: session.add(model(user="ann", at=1, topic="b")),
    "add another": lambda session, model, held: session.add(model(user="ann", at=2, topic="b")),
    "update": lambda session, model, held: session.update(held, topic="b"),
    "update_key": lambda session, model, held: session.update_key(model, user="ann", at=1, topic="b"),
    "delete": lambda session, model, held: session.delete(held),
    "delete_key": lambda session, model, held: session.delete_key(model, user="ann", at=1),
    "insert": lambda session, model, held: session.insert(model(user="ann", at=2, topic="b")),
    "put": lambda session, model, held: session.put(model, user="ann", at=1, topic="b"),
    "put_all": lambda session, model, held: session.put_all(model, [{"user": "ann", "at": 1, "topic": "b"}]),
    "rekey": lambda session, model, held: session.rekey(held, at=3),
    "increment": lambda session, model, held: session.increment(held, model.hits),
    "bulk_add": lambda session, model, held: session.bulk_add([model(user="bob", at=1, topic="b")]),
    "query.delete": lambda session, model, held: session.query(model).where(model.user == "ann").delete(),
}


def written(session: hb.Session, write: Callable[[hb.Session, Any, Any], Any], model: Any, held: Any) -> None:
    write(session, model, held)
    session.commit()


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("kind", "new"),
    [
        *in_turn([kind for kind in KINDS if kind != "wide"], [*NEW]),
        *in_turn(["wide"], [new for new in NEW if new not in {"family", "map"}]),
    ],
)
def test_every_write_is_refused_until_the_column_is_registered(kind: str, new: str) -> None:
    table = "unregistered"
    for name, write in WRITES.items():
        if new == "counter" and name in {"increment", "rekey"}:  # counters can be incremented, and not be moved
            continue
        older = declare(table, counted=name == "increment", **KINDS[kind])
        newer = declare(table, new, counted=name == "increment", **KINDS[kind])
        with fresh(older) as store:
            with hb.Session(store) as session:
                session.add(older(user="ann", at=1, topic="a"))
            before = cells_of(store, table)
            session = hb.Session(store)
            held = session.get(newer, user="ann", at=1)
            assert held is not None
            assert held.topic == "a"
            with pytest.raises(hb.SchemaMismatch, match=r"call hb\.create_tables\(\)") as refused:
                written(session, write, newer, held)
            column = "e:n" if new == "family" else "d:n"
            assert refused.value.details["columns"] == [column], name
            assert cells_of(store, table) == before, name
            session.discard()
            hb.create_tables(store, newer)
            session = hb.Session(store)
            written(session, write, newer, held)
            assert cells_of(store, table) != before, name


@pytest.mark.parametrize(
    ("new", "write"),
    [
        ("counter", lambda session, model, held: session.increment(held, model.new)),
        ("map", lambda session, model, held: session.put_entries(held, model.new, {"a": 1})),
        ("map", lambda session, model, held: session.remove_entries(held, model.new, ["a"])),
    ],
)
def test_writes_of_counters_and_maps_are_refused_too(new: str, write: Callable[[hb.Session, Any, Any], Any]) -> None:
    older, newer = declare("unregistered"), declare("unregistered", new)
    with fresh(older) as store:
        with hb.Session(store) as session:
            session.add(older(user="ann", at=1, topic="a"))
        session = hb.Session(store)
        held = session.get(newer, user="ann", at=1)
        with pytest.raises(hb.SchemaMismatch):
            written(session, write, newer, held)
        session.discard()
        hb.create_tables(store, newer)
        written(hb.Session(store), write, newer, held)


def add_to_group(session: hb.Session, model: Any, _: Any) -> None:
    with session.group(model, user="ann") as group:
        group.add(model(user="ann", at=5, topic="c"))


@pytest.mark.parametrize("kind", ["versioned", "unique"])
@pytest.mark.parametrize(
    "write",
    [
        lambda session, model, held: session.add_all(model(user="ann", at=at, topic=f"b{at}") for at in (1, 2, 3)),
        lambda session, model, held: (session.add(model(user="ann", at=2, topic="b")), session.delete(held)),
        add_to_group,
    ],
)
def test_writes_of_objects_that_share_a_row_are_refused_too(
    kind: str, write: Callable[[hb.Session, Any, Any], Any]
) -> None:
    older, newer = (declare("unregistered", new, wide=True, **KINDS[kind]) for new in (None, "column"))
    with fresh(older) as store:
        with hb.Session(store) as session:
            session.add(older(user="ann", at=1, topic="a"))
        before = cells_of(store, "unregistered")
        session = hb.Session(store)
        held = session.get(newer, user="ann", at=1)
        with pytest.raises(hb.SchemaMismatch):
            written(session, write, newer, held)
        assert cells_of(store, "unregistered") == before
        session.discard()
        hb.create_tables(store, newer)
        session = hb.Session(store)
        written(session, write, newer, session.get(newer, user="ann", at=1))


@EVERYWHERE
def test_a_session_notices_within_a_second_that_a_column_was_registered(bed: Bed, lease_clock: LeaseClock) -> None:
    table = f"unregistered-{uuid4().hex[:10]}"
    older, newer = declare(table, counted=True), declare(table, "column", counted=True)
    bed.use(older)
    with hb.Session(bed.store) as session:
        session.add(older(user="ann", at=1, topic="a"))
    session = lease_clock.session(bed.store)  # with a lease of a minute
    held = session.get(newer, user="ann", at=1)
    session.add(newer(user="ann", at=2, topic="a", new=9))
    with pytest.raises(hb.SchemaMismatch):
        session.commit()
    with pytest.raises(hb.SchemaMismatch):
        session.increment(held, newer.hits)
    hb.create_tables(bed.store, newer)
    lease_clock.move(1.1)
    assert session.increment(held, newer.hits) == 1
    session.commit()
    assert [each.new for each in session.query(newer).where(newer.user == "ann")] == [7, 9]
    drop_left(bed.store, table)


def test_the_codec_of_a_column_that_rows_hold_cannot_be_declared_anew() -> None:
    """Text would otherwise be read as a number."""
    older, newer = declare("unregistered"), declare("unregistered", "column")
    text = declare("unregistered", more={"new": (hb.Column[str], hb.column("n", default=""))})
    with fresh(older) as store:
        hb.create_tables(store, text)
        with hb.Session(store) as session:
            session.add(text(user="ann", at=1, topic="a", new="a word"))
        session = hb.Session(store)
        with pytest.raises(hb.SchemaMismatch):
            session.insert(newer(user="ann", at=2, topic="a"))
        with pytest.raises(hb.SchemaMismatch):
            session.get(newer, user="ann", at=1)
        with pytest.raises(hb.SchemaMismatch):
            hb.create_tables(store, newer)


def test_queries_by_an_unregistered_column_read_its_default() -> None:
    older, newer = declare("unregistered"), declare("unregistered", "column")
    with fresh(older) as store:
        with hb.Session(store) as session:
            session.add(older(user="ann", at=1, topic="a"))
        query = hb.Session(store).query(newer).where(newer.user == "ann")
        assert query.where(newer.new == 7).count() == 1
        assert query.where(newer.new == 8).count() == 0


def test_a_table_that_other_programs_write_takes_any_column() -> None:
    older = declare("unregistered", options={"external": True, "exists": None})
    newer = declare("unregistered", "nullable", options={"external": True, "exists": None})
    with fresh(older) as store:
        with hb.Session(store) as session:
            session.add(newer(user="ann", at=1, topic="a", new=3))
        (read,) = hb.Session(store).query(newer).where(newer.user == "ann")
        assert read.new == 3
