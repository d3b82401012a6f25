"""Programs whose model lacks a column in another family: their deletes and moves include the cells of this column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from tests.support.beds import HBASE, Bed, cells_of, drop_left, fresh
from tests.support.examples import in_turn

NEW: Mapping[str, tuple[Any, Any]] = {
    "column": (hb.Column[int], hb.column("n", default=7, family="e")),
    "nullable": (hb.Column[int | None], hb.column("n", default=None, family="e")),
    "counter": (hb.Column[int], hb.counter("n", family="e")),
    "map": (hb.Map[str, int], hb.map_column("n", factory=dict, family="e")),
}
"""New columns of each kind."""

VERSION = {"version": (hb.Column[int], hb.version())}

KINDS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "flagged": {"options": {"exists": hb.flag("f")}},
    "indexed": {"more": {"by_topic": (None, hb.index("topic"))}},
    "versioned": {"more": VERSION},
    "unique": {"more": {**VERSION, "by_topic": (None, hb.index("topic", unique=True))}},
    "covering": {"more": {**VERSION, "by_topic": (None, hb.index("topic", covers=("rank",)))}},
    "salted": {"options": {"salt": hb.HashSalt(3)}},
}


def declare(
    table: str,
    new: str | None = None,
    *,
    more: Mapping[str, tuple[Any, Any]] = {},
    options: Mapping[str, Any] = {},
) -> Any:
    """A model of a table, with one of the new columns or without."""
    fields: dict[str, tuple[Any, Any]] = {
        "user": (hb.Key[str], hb.key()),
        "topic": (hb.Column[str], hb.column("t", hb.codecs.NonEmpty(hb.Text))),
        "rank": (hb.Column[int], hb.column("r", default=0)),
        **({} if new is None else {"new": NEW[new]}),
        **more,
    }
    body = {name: declaration for name, (_, declaration) in fields.items()}
    hints = {name: hint for name, (hint, _) in fields.items() if hint is not None}
    made = type("Note", (), {**body, "__annotations__": hints, "__module__": __name__})
    return hb.model(table=table, family="d", **options)(made)


def write(session: hb.Session, model: Any, new: str, user: str) -> None:
    """A newer program puts an object with a value in the new column."""
    if new == "counter":
        session.add(model(user=user, topic=user))
        session.commit()
        session.increment(model(user=user, topic=user), model.new, 9)
    else:
        session.add(model(user=user, topic=user, new={"a": 9} if new == "map" else 9))
        session.commit()


def new_value(session: hb.Session, model: Any, new: str, user: str) -> Any:
    """What a newer program reads in the new column; None if there is no object."""
    found = session.get(model, user=user)
    if found is None:
        return None
    return dict(session.entries(model.new, user=user)) if new == "map" else found.new


EMPTY: Mapping[str, Any] = {"column": 7, "nullable": None, "counter": 0, "map": {}}

DELETES: Mapping[str, Callable[[hb.Session, Any], object]] = {
    "delete": lambda session, model: session.delete(session.get(model, user="x")),
    "delete_key": lambda session, model: session.delete_key(model, user="x"),
    "query.delete": lambda session, model: session.query(model).where(model.user == "x").delete(),
}


def deleted_and_added(store: hb.Store, table: str, kind: str, new: str, delete: str, *, insert: bool) -> None:
    older, newer = declare(table, **KINDS[kind]), declare(table, new, **KINDS[kind])
    hb.create_tables(store, newer)
    session = hb.Session(store)
    write(session, newer, new, "x")
    write(session, newer, new, "y")
    old = hb.Session(store)
    DELETES[delete](old, older)
    old.commit()
    if insert:
        old.insert(older(user="x", topic="x"))
    else:
        old.add(older(user="x", topic="x"))
        old.commit()
    assert new_value(session, newer, new, "x") == EMPTY[new]
    assert new_value(session, newer, new, "y") == ({"a": 9} if new == "map" else 9)


@pytest.mark.parametrize("insert", [False, True], ids=["add", "insert"])
@pytest.mark.parametrize(("kind", "delete"), in_turn([*KINDS], [*DELETES]))
@pytest.mark.parametrize("new", NEW)
def test_a_deleted_value_does_not_appear_in_the_next_object(kind: str, new: str, delete: str, insert: bool) -> None:
    with fresh() as store:
        deleted_and_added(store, "newer", kind, new, delete, insert=insert)


@pytest.mark.parametrize("bed", HBASE, indirect=True)
@pytest.mark.parametrize("kind", ["plain", "flagged"])
def test_so_it_is_in_hbase(bed: Bed, kind: str) -> None:
    table = f"newer-{uuid4().hex[:10]}"
    deleted_and_added(bed.store, table, kind, "column", "delete_key", insert=False)
    drop_left(bed.store, table)


@pytest.mark.parametrize(("kind", "new"), in_turn([kind for kind in KINDS if kind != "plain"], [*NEW]))
def test_a_move_takes_the_values_along(kind: str, new: str) -> None:
    older, newer = declare("newer", **KINDS[kind]), declare("newer", new, **KINDS[kind])
    with fresh(older) as store:
        hb.alter(store, newer)
        session = hb.Session(store)
        write(session, newer, new, "x")
        old = hb.Session(store)
        old.rekey(old.get(older, user="x"), user="z")
        assert new_value(session, newer, new, "z") == ({"a": 9} if new == "map" else 9)
        assert new_value(session, newer, new, "x") is None
        assert not [
            row
            for row, cells in cells_of(store, "newer").items()
            if row.endswith(b"x") and any(column.startswith(b"e:") for column in cells)
        ]


@pytest.mark.parametrize("kind", KINDS)
def test_updates_and_reads_of_an_older_program_leave_the_values_alone(kind: str) -> None:
    older, newer = declare("newer", **KINDS[kind]), declare("newer", "column", **KINDS[kind])
    with fresh(older) as store:
        hb.alter(store, newer)
        session = hb.Session(store)
        write(session, newer, "column", "x")
        old = hb.Session(store)
        (found,) = old.query(older).allow_full_scan()
        assert old.get(older, user="x") == found
        old.update_key(older, user="x", rank=5)
        old.commit()
        old.put(older, user="x", topic="x", rank=6)
        old.commit()
        read = session.get(newer, user="x")
        assert (read.rank, read.new) == (6, 9)


def test_an_external_model_deletes_its_own_columns_alone() -> None:
    options = {"external": True, "exists": None}
    older, newer = declare("newer", options=options), declare("newer", "column", options=options)
    with fresh(newer) as store:
        session = hb.Session(store)
        write(session, newer, "column", "x")
        old = hb.Session(store)
        old.delete_key(older, user="x")
        old.commit()
        assert [*cells_of(store, "newer")[b"x"]] == [b"e:n"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_family_that_was_deleted_stops_no_write(kind: str) -> None:
    """The registry still lists the columns that it had."""
    older, newer = declare("newer", **KINDS[kind]), declare("newer", "column", **KINDS[kind])
    with fresh(newer) as store:
        assert {family.name for family in store.families("newer")} == {b"d", b"e"}
        store.delete_table("newer")
        store.create_table("newer", [hb.store.Family(b"d")])
        session = hb.Session(store)
        for topic in ("a", "b"):
            session.add(older(user="x", topic=topic))
            session.commit()
            session.update_key(older, user="x", rank=3)
            session.commit()
            assert session.get(older, user="x").topic == topic
            session.delete_key(older, user="x")
            session.commit()
            assert session.get(older, user="x") is None
