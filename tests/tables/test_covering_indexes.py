"""Builds, verification and repair of covering indexes."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.store import Delete, Put
from tests.support.beds import Bed, cells_of, rows_of

TIMES = hb.indexes.IndexTimes(lease=0.15, longest_call=0.1, clock_bound=0.25, grace=1.3)
"""Small enough for tests."""


def declare(table: str, versioned: bool, index: bool = True) -> Any:
    """A model without or with its covering index."""
    body: dict[str, Any] = {"name": hb.key(), "topic": hb.column("t"), "note": hb.column("n", default=None)}
    hints: dict[str, Any] = {"name": hb.Key[str], "topic": hb.Column[str], "note": hb.Column[str | None]}
    if versioned:
        body["version"], hints["version"] = hb.version(), hb.Column[int]
    if index:
        body["by_topic"] = hb.index("topic", covers=("note",))
    made = type("Cov", (), {**body, "__annotations__": hints, "__module__": __name__})
    return hb.model(table=table, family="d", immutable=not versioned)(made)


@pytest.mark.lengthy
def test_programs_that_share_a_table_agree_whether_entries_are_verified(atomic_bed: Bed) -> None:
    """One that takes no verified entries back would leave them to answer for rows that it has changed."""

    def declared(immutable: bool, ttl: timedelta | None = None) -> Any:
        body = {
            "name": hb.key(),
            "topic": hb.column("t"),
            "note": hb.column("n"),
            "by_topic": hb.index("topic", covers=("note",)),
        }
        hints = {"name": hb.Key[str], "topic": hb.Column[str], "note": hb.Column[str]}
        family = hb.family("d", ttl=ttl)
        return hb.model(table="cov_agreed", family=family, immutable=immutable)(
            type("Cov", (), {**body, "__annotations__": hints, "__module__": __name__})
        )

    first, store = declared(True), atomic_bed.store
    hb.create_tables(store, first)
    with open_session(store) as session:
        session.add(first(name="ann", topic="a", note=""))
    for other in (declared(False), declared(True, timedelta(days=1))):
        with pytest.raises(hb.SchemaMismatch, match="index by_topic: declared verified no, live verified yes"):
            open_session(store).query(other).where(other.topic == "a").all()
        for change in (hb.create_tables, hb.alter):
            with pytest.raises(hb.SchemaMismatch, match="verified"):
                change(store, other)
    # Dropped and built again, the index is as its new model declares.
    changed = declared(False)
    hb.indexes.drop_index(store, changed, "by_topic", times=TIMES)
    assert hb.indexes.build_index(store, changed, "by_topic", times=TIMES).readable
    with open_session(store) as session:
        session.update(changed(name="ann", topic="a", note=""), topic="b")
    assert [one.name for one in open_session(store).query(changed).where(changed.topic == "b")] == ["ann"]
    with pytest.raises(hb.SchemaMismatch, match="index by_topic: declared verified yes, live verified no"):
        open_session(store).query(first).where(first.topic == "a").all()


def open_session(store: hb.Store) -> hb.Session:
    """A session by the times of these tests."""
    return hb.Session(
        store, lease=TIMES.lease, grace=600, clock_bound=TIMES.clock_bound, longest_call=TIMES.longest_call
    )


def entry_of(model: Any, **values: Any) -> bytes:
    """The key of an entry."""
    schema = hb.schema.schema_of(model)
    (entry,) = KeyMapper(schema).entries(schema.indexes["by_topic"], values, hb.row_key(model, name=values["name"]))
    return entry


def statuses(store: hb.Store, table: str) -> list[bytes]:
    """The first byte of the status of each entry that is not bare."""
    return [cells.get(b"d:_s", b"")[:1] for cells in cells_of(store, table).values() if b"d:_v" in cells]


@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "immutable"])
def test_a_build_puts_verified_entries(atomic_bed: Bed, versioned: bool) -> None:
    table = f"cov_built_{versioned}".lower()
    before, after = declare(table, versioned, index=False), declare(table, versioned)
    hb.create_tables(atomic_bed.store, before)
    session = open_session(atomic_bed.store)
    session.add_all(before(name=f"{n:02}", topic="ab"[n % 2], note=f"n{n}") for n in range(20))
    session.commit()
    hb.create_tables(atomic_bed.store, after)
    assert hb.indexes.build_index(atomic_bed.store, after, "by_topic", times=TIMES).readable
    assert statuses(atomic_bed.store, f"{table}.by_topic") == [b"\x01"] * 20
    session = open_session(atomic_bed.store)
    query = session.query(after).where(after.topic == "a")
    found = query.all()
    atomic_bed.store.calls.clear()
    assert [(one.name, one.note) for one in query] == [(f"{n:02}", f"n{n}") for n in range(0, 20, 2)]
    assert scans_and_gets(atomic_bed) == [f"scan {table}.by_topic"]
    # Rows that were adopted are taken back like any others.
    session.delete(found[0])
    if versioned:
        session.update(found[1], topic="b")
    session.commit()
    assert len(query.all()) == 8 + (not versioned)
    assert hb.indexes.verify_index(atomic_bed.store, after, "by_topic", times=TIMES).sound


def scans_and_gets(bed: Bed) -> list[str]:
    """The calls to other tables than the registry, which is looked at whenever the short lease of these tests is
    over.
    """
    return [call for call in bed.store.told() if not call.endswith(" hbmodel")]


@pytest.mark.lengthy
@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "immutable"])
def test_repair_verifies_what_writers_left_and_deletes_marks(atomic_bed: Bed, versioned: bool) -> None:
    table = f"cov_repaired_{versioned}".lower()
    model = declare(table, versioned)
    store = atomic_bed.store
    hb.create_tables(store, model)
    session = open_session(store)
    session.add_all(model(name=name, topic="t", note=name) for name in "abcd")
    session.commit()
    session.delete_key(model, name="d")
    session.commit()
    entries, index = rows_of(store, f"{table}.by_topic"), f"{table}.by_topic"
    for entry in (entry_of(model, name=name, topic="t") for name in "ab"):
        store.put(index, [Put(entry, {b"d:_s": b"\x00" + b"loser..."}, entries[entry] + 1)])
    time.sleep(TIMES.grace + 0.1)
    found = hb.indexes.verify_index(store, model, "by_topic", times=TIMES)
    assert (found.unverified, found.bare, found.entries, found.stale, found.missing, found.drift) == (
        2,
        1,
        3,
        0,
        0,
        0.0,
    )
    assert "unverified 2, bare marks 1" in str(found)
    assert statuses(store, index).count(b"\x01") == 1
    mended = hb.indexes.repair_index(store, model, "by_topic", times=TIMES)
    assert (mended.verified, mended.deleted, mended.put) == (2, 1, 0)
    assert statuses(store, index) == [b"\x01"] * 3
    assert len(cells_of(store, index)) == 3
    store.calls.clear()
    session = open_session(store)
    assert [(one.name, one.note) for one in session.query(model).where(model.topic == "t")] == [
        ("a", "a"),
        ("b", "b"),
        ("c", "c"),
    ]
    assert scans_and_gets(atomic_bed) == [f"scan {index}"]
    again = hb.indexes.repair_index(store, model, "by_topic", times=TIMES)
    assert (again.unverified, again.bare, again.verified, again.deleted) == (0, 0, 0, 0)


@pytest.mark.lengthy
def test_a_lost_entry_is_put_unverified_and_verified_when_it_is_old(atomic_bed: Bed) -> None:
    model = declare("cov_lost", True)
    store = atomic_bed.store
    hb.create_tables(store, model)
    session = open_session(store)
    session.add(model(name="a", topic="t", note="n"))
    session.commit()
    entry = entry_of(model, name="a", topic="t")
    store.delete("cov_lost.by_topic", [Delete(entry, timestamp=rows_of(store, "cov_lost.by_topic")[entry])])
    time.sleep(0.01)
    assert hb.indexes.repair_index(store, model, "by_topic", times=TIMES).put == 1
    assert statuses(store, "cov_lost.by_topic") == [b"\x00"]
    time.sleep(TIMES.grace + 0.1)
    assert hb.indexes.repair_index(store, model, "by_topic", times=TIMES).verified == 1
    assert statuses(store, "cov_lost.by_topic") == [b"\x01"]
