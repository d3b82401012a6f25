"""Objects whose map columns were not read, put into their own rows and into others."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest

import hbmodel as hb
from tests.support.beds import ATOMIC, Bed


@hb.model(table="me_old", family="d", exists=hb.flag("f"))
class Old:
    key: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")
    notes: hb.Map[str, str] = hb.map_column("m", factory=dict)
    more: hb.Map[str, str] = hb.map_column("o", factory=dict)
    views: hb.Column[int] = hb.counter("v")


@hb.model(table="me_new", family="d", salt=hb.HashSalt(2), exists=hb.flag("f"))
class New:
    key: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")
    notes: hb.Map[str, str] = hb.map_column("m", factory=dict)
    more: hb.Map[str, str] = hb.map_column("o", factory=dict)
    views: hb.Column[int] = hb.counter("v")


@hb.model(table="me_versioned", family="d")
class Versioned:
    key: hb.Key[int] = hb.key()
    line: hb.Key[int] = hb.key(in_qualifier=True)
    notes: hb.Map[str, str] = hb.map_column("m", factory=dict)
    text: hb.Column[str] = hb.column("t", default="")
    version: hb.Column[int] = hb.version()


def entries(session: hb.Session, model: Any, **key: int) -> dict[str, str]:
    return session.entries(model.notes, **key).all()


EVERYWHERE = pytest.mark.parametrize("bed", ATOMIC, indirect=True)

COPIES: dict[str, Callable[[Any], Any]] = {
    "another model": lambda read: New(**hb.asdict(read)),
    "given": lambda read: New(key=1, text="x", notes=read.notes, more={}),
    "another key": lambda read: hb.evolve(read, key=2),
    "a copy of it": lambda read: hb.evolve(hb.evolve(read, key=2), text="y"),
    "pickled": lambda read: pickle.loads(pickle.dumps(hb.evolve(read, key=2))),
    "deep copied": lambda read: copy.deepcopy(hb.evolve(read, key=2)),
    "of attrs": lambda read: attrs.evolve(read, key=2),
    "one of two maps": lambda read: New(**{**hb.asdict(read), "notes": {}}),
}

WRITES: dict[str, Callable[[hb.Session, Any], Any]] = {
    "add": lambda session, made: session.add(made),
    "add_all": lambda session, made: session.add_all([made]),
    "bulk_add": lambda session, made: session.bulk_add([made]),
    "insert": lambda session, made: session.insert(made),
}


@EVERYWHERE
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("made", COPIES)
def test_a_row_without_the_entries_is_not_made(bed: Bed, made: str, write: str) -> None:
    session = bed.use(Old, New)
    session.add(Old(key=1, text="x", notes={"a": "b"}))
    session.commit()
    new = COPIES[made](session.get(Old, key=1))
    with pytest.raises(
        hb.SessionError, match=r"would lack the entries of the map column.*add \.load\(Model\.field\)"
    ) as caught:
        WRITES[write](session, new)
    assert caught.value.field == ("more" if made == "one of two maps" else "notes")
    assert session.commit() == []
    assert session.query(New).allow_full_scan().count() == 0


@EVERYWHERE
def test_the_objects_own_row_keeps_its_entries(bed: Bed) -> None:
    session = bed.use(Old)
    session.add(Old(key=1, text="x", notes={"a": "b"}))
    session.commit()
    read = session.get(Old, key=1)
    assert read is not None
    for write in (session.add, lambda obj: session.bulk_add([obj])):
        for same in (
            read,
            hb.evolve(read, text="y"),
            hb.evolve(read, key=1),
            pickle.loads(pickle.dumps(read)),
            copy.copy(read),
        ):
            write(same)
            session.commit()
            assert entries(session, Old, key=1) == {"a": "b"}
    changed = session.update(read, text="z")
    session.commit()
    session.add(changed)
    session.commit()
    assert entries(session, Old, key=1) == {"a": "b"}
    moved = session.rekey(changed, key=3)
    session.add(hb.evolve(moved, text="w"))
    session.commit()
    assert entries(session, Old, key=3) == {"a": "b"}


@EVERYWHERE
def test_an_insert_makes_a_row_even_of_an_object_that_was_read(bed: Bed) -> None:
    session = bed.use(Old)
    session.insert(Old(key=1, text="x", notes={"a": "b"}))
    read = session.get(Old, key=1)
    assert read is not None
    session.delete(read)
    session.commit()
    with pytest.raises(hb.SessionError, match="would lack the entries"):
        session.insert(read)
    session.insert(hb.evolve(read, notes={"a": "c"}, more={}))
    assert entries(session, Old, key=1) == {"a": "c"}


@EVERYWHERE
def test_versioned_objects_of_wide_rows_too(bed: Bed) -> None:
    session = bed.use(Versioned)
    session.add(Versioned(key=1, line=1, notes={"a": "b"}))
    session.commit()
    read = session.get(Versioned, key=1, line=1)
    assert read is not None
    session.add(hb.evolve(read, text="x"))
    session.commit()
    assert entries(session, Versioned, key=1, line=1) == {"a": "b"}
    with pytest.raises(hb.SessionError, match="would lack the entries"):
        session.add(hb.evolve(read, line=2))
    with session.group(Versioned, key=1) as group:
        held = group.get(Versioned, line=1)
        assert held is not None
        group.add(hb.evolve(held, text="y"))
        with pytest.raises(hb.SessionError, match="would lack the entries"):
            group.add(hb.evolve(held, line=2))
    assert entries(session, Versioned, key=1, line=1) == {"a": "b"}


@EVERYWHERE
def test_with_loaded_maps_and_increments_a_copy_is_whole(bed: Bed) -> None:
    session = bed.use(Old, New)
    old = Old(key=1, text="x", notes={"a": "b"})
    session.add(old)
    session.commit()
    session.increment(old, Old.views, 42)
    for old in session.query(Old).load(Old.notes, Old.more).allow_full_scan():
        new = New(**hb.asdict(old))
        session.add(new)
        session.commit()
        session.increment(new, New.views, old.views)
    (copied,) = session.query(New).load(New.notes).allow_full_scan()
    assert (copied.notes, copied.views, copied.text) == ({"a": "b"}, 42, "x")


def test_the_advice_for_models_that_cannot_be_moved_says_how_to_copy_all_of_an_object() -> None:
    with pytest.raises(hb.DeclarationError, match=r"\.load\(Model\.field\).*session\.increment\(\) after the commit"):

        @hb.model(table="me_newer", family="d", replaces=Old, exists=hb.flag("f"))
        class Newer:
            key: hb.Key[int] = hb.key(desc=True)
            text: hb.Column[str] = hb.column("t")
            views: hb.Column[int] = hb.counter("v")
