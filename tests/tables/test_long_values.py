"""Rows from before an index whose values are too long for a key of it: builds list them, and they can be corrected
and deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

import hbmodel as hb
from tests.support.beds import HBASE, Bed, fresh
from tests.support.examples import in_turn
from tests.tables.test_indexes import TIMES

LONG = "x" * 40_000


def declare(versioned: bool, wide: bool = False, table: str = "long", **indexes: Any) -> Any:
    """A model of texts, with lists of them."""
    names: dict[str, Any] = {
        "__annotations__": {
            "room": hb.Key[str],
            "seat": hb.Key[int],
            "text": hb.Column[str | None],
            "texts": hb.Column[list[str]],
            "other": hb.Column[int],
        },
        "room": hb.key(),
        "seat": hb.key(in_qualifier=True) if wide else hb.key(),
        "text": hb.column("t", default=None),
        "texts": hb.column("l", hb.Json(list[str]), default=attrs.Factory(list)),
        "other": hb.column("o", default=0),
    }
    if versioned:
        names["__annotations__"]["version"] = hb.Column[int]
        names["version"] = hb.version()
    return hb.model(table=table, family="d")(type("Long", (), {**names, **indexes}))


KINDS: Mapping[str, tuple[bool, Callable[[], Any]]] = {
    "unique": (True, lambda: hb.index("text", unique=True)),
    "unique of two": (True, lambda: hb.index("text", "other", unique=True, salt=hb.HashSalt(3))),
    "versioned": (True, lambda: hb.index("text")),
    "covering": (True, lambda: hb.index("text", covers=("other",))),
    "last write wins": (False, lambda: hb.index("text")),
    "each": (False, lambda: hb.index(hb.each("texts"))),
    "partial": (False, lambda: hb.index("text", skip_none=True)),
}

CORRECTIONS: Mapping[str, Callable[[hb.Session, Any], object]] = {
    "update": lambda session, model: session.update_key(model, room="r", seat=2, text="short", texts=["short"]),
    "add": lambda session, model: session.add(model(room="r", seat=2, text="short", texts=["short"])),
    "delete": lambda session, model: session.delete_key(model, room="r", seat=2),
    "delete of a query": lambda session, model: session.query(model).where(model.room == "r", model.seat == 2).delete(),
    "two objects": lambda session, model: session.add_all(
        model(room="r", seat=n, text=f"s{n}", texts=[f"s{n}"]) for n in (2, 3)
    ),
}


@pytest.mark.parametrize("wide", [False, True], ids=["tall", "wide"])
@pytest.mark.parametrize(("kind", "correction"), in_turn([*KINDS], [*CORRECTIONS]))
@pytest.mark.parametrize("bed", ["memory", "embedded"], indirect=True)
def test_a_value_that_is_too_long_for_a_new_index(bed: Bed, kind: str, wide: bool, correction: str) -> None:
    run(bed.store, kind, wide, correction)


@pytest.mark.parametrize("correction", ["update", "delete"])
@pytest.mark.parametrize("kind", ["unique", "last write wins"])
@pytest.mark.parametrize("bed", HBASE, indirect=True)
def test_the_same_in_hbase(bed: Bed, kind: str, correction: str) -> None:
    if KINDS[kind][0] and not bed.atomic:
        return  # versions need check-and-mutate
    run(bed.store, kind, False, correction)


def committed(session: hb.Session, call: Callable[[], object]) -> None:
    call()
    session.commit()


def run(store: hb.Store, kind: str, wide: bool, correction: str) -> None:
    versioned, index = KINDS[kind]
    before, model = declare(versioned, wide), declare(versioned, wide, ix=index())
    hb.drop_tables(store, model)
    hb.create_tables(store, before)
    with hb.Session(store, lease=TIMES.lease) as session:
        session.add_all(
            before(room="r", seat=n, text=text, texts=[text]) for n, text in ((1, "a"), (2, LONG), (3, "b"))
        )
    hb.create_tables(store, model)
    assert hb.indexes.build_index(store, model, "ix", times=TIMES, dry_run=True).refused == 1
    built = hb.indexes.build_index(store, model, "ix", times=TIMES)
    assert (built.readable, built.refused) == (False, 1)
    assert "must not be longer" in str(built.samples)
    for check in (hb.indexes.verify_index, hb.indexes.repair_index):
        report = check(store, model, "ix", times=TIMES)
        assert (report.refused, report.rows) == (1, 3)
    session = hb.Session(store, lease=TIMES.lease)
    for refused in (
        lambda: session.add(model(room="r", seat=4, text=LONG, texts=[LONG])),
        lambda: session.update_key(model, room="r", seat=3, text=LONG, texts=[LONG]),
    ):
        with pytest.raises(hb.errors.KeyTooLong):
            committed(session, refused)
        session.discard()
    assert session.get(model, room="r", seat=2).text == LONG
    CORRECTIONS[correction](session, model)
    session.commit()
    assert hb.indexes.build_index(store, model, "ix", times=TIMES).readable
    assert hb.indexes.verify_index(store, model, "ix", times=TIMES).sound
    left = {obj.seat: obj.text for obj in hb.Session(store).query(model).where(model.room == "r")}
    assert left[1] == "a"
    assert left.get(2) in {"short", "s2", None}
    hb.drop_tables(store, model)


@pytest.mark.parametrize("wide", [False, True], ids=["tall", "wide"])
def test_the_row_takes_part_in_nothing_but_its_correction(wide: bool) -> None:
    """Its old values claim nothing, so that others are free, and a group or a rekey of another object goes through."""
    before, model = declare(True, wide), declare(True, wide, ix=hb.index("text", unique=True))
    with fresh(before) as store:
        with hb.Session(store, lease=TIMES.lease) as session:
            session.add_all(before(room="r", seat=n, text=text) for n, text in ((1, "a"), (2, LONG)))
        hb.create_tables(store, model)
        assert hb.indexes.build_index(store, model, "ix", times=TIMES).refused == 1
        session = hb.Session(store, lease=TIMES.lease)
        if wide:
            with session.group(model, room="r") as group:
                group.update(group.get(model, seat=1), text="b")
                group.update(group.get(model, seat=2), text="c")
        else:
            session.update_key(model, room="r", seat=1, text="b")
            session.commit()
            session.update_key(model, room="r", seat=2, text="c")
            session.commit()
        session.update_key(model, room="r", seat=1, text="c")
        with pytest.raises(hb.UniqueViolation):
            session.commit()
        assert hb.indexes.build_index(store, model, "ix", times=TIMES).readable
