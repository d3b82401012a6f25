"""Builds, verification and repair of covering indexes."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.store import Delete, Put
from tests.support.beds import Bed, cells_of, rows_of
from tests.support.examples import examples
from tests.support.random_queries import models
from tests.support.random_rows import written

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


def with_default(table: str, default: object, versioned: bool = True) -> Any:
    """A model whose index covers a column with this default."""
    body: dict[str, Any] = {"name": hb.key(), "topic": hb.column("t"), "note": hb.column("n", default=default)}
    hints: dict[str, Any] = {"name": hb.Key[str], "topic": hb.Column[str], "note": hb.Column[str | None]}
    if versioned:
        body["version"], hints["version"] = hb.version(), hb.Column[int]
    body["by_topic"] = hb.index("topic", covers=("note",))
    made = type("Defaulted", (), {**body, "__annotations__": hints, "__module__": __name__})
    return hb.model(table=table, family="d", immutable=not versioned)(made)


def notes_of(store: hb.Store, model: Any) -> dict[str, str | None]:
    """The notes that a query reads from the entries."""
    return {one.name: one.note for one in open_session(store).query(model).where(model.topic == "t")}


@pytest.mark.lengthy
@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "immutable"])
def test_repair_gives_entries_a_changed_default(atomic_bed: Bed, versioned: bool) -> None:
    store, table = atomic_bed.store, f"cov_default_{versioned}".lower()
    old = with_default(table, "old", versioned)
    hb.create_tables(store, old)
    with open_session(store) as session:
        session.add_all([old(name=name, topic="t", note=name) for name in "ab"])
    # Another program has written a row without the cell.
    store.delete(table, [Delete(hb.row_key(old, name="a"), columns=(b"d:n",))])
    hb.indexes.drop_index(store, old, "by_topic", times=TIMES)
    hb.indexes.build_index(store, old, "by_topic", times=TIMES)
    time.sleep(TIMES.grace + 0.1)
    assert hb.indexes.verify_index(store, old, "by_topic", times=TIMES).sound
    assert notes_of(store, old) == {"a": "old", "b": "b"}
    for default in ("new", None):
        model = with_default(table, default, versioned)
        found = hb.indexes.verify_index(store, model, "by_topic", times=TIMES)
        assert (found.outdated, found.missing, found.stale, found.sound, found.mended) == (1, 0, 0, False, False)
        assert [kind for kind, _ in found.samples] == ["outdated"]
        assert "NOT sound" in str(found)
        assert "with other values than their rows 1" in str(found)
        assert notes_of(store, model)["a"] != default
        mended = hb.indexes.repair_index(store, model, "by_topic", times=TIMES)
        assert (mended.outdated, mended.updated, mended.put, mended.deleted, mended.mended) == (1, 1, 0, 0, True)
        assert "updated 1" in str(mended)
        store.calls.clear()
        assert notes_of(store, model) == {"a": default, "b": "b"}
        (call,) = scans_and_gets(atomic_bed)  # the entries are verified: no row is read
        assert call.startswith(f"scan {table}.by_topic")
        again = hb.indexes.verify_index(store, model, "by_topic", times=TIMES)
        assert (again.outdated, again.sound) == (0, True)


@pytest.mark.lengthy
def test_repair_updates_only_entries_that_are_older_than_the_grace_time(atomic_bed: Bed) -> None:
    store, model, index = atomic_bed.store, with_default("cov_damaged", "old"), "cov_damaged.by_topic"
    hb.create_tables(store, model)
    with open_session(store) as session:
        session.add(model(name="a", topic="t", note="kept"))
    ((entry, timestamp),) = rows_of(store, index).items()
    store.put(index, [Put(entry, {b"d:n": b"damaged"}, timestamp)])
    young = hb.indexes.repair_index(store, model, "by_topic", times=TIMES)
    assert (young.outdated, young.updated, young.sound) == (0, 0, True)
    time.sleep(TIMES.grace + 0.1)
    mended = hb.indexes.repair_index(store, model, "by_topic", times=TIMES)
    assert (mended.outdated, mended.updated) == (1, 1)
    assert notes_of(store, model) == {"a": "kept"}


def test_a_mark_of_a_lost_entry_is_not_outdated(atomic_bed: Bed) -> None:
    store, model, index = atomic_bed.store, with_default("cov_marked", "old"), "cov_marked.by_topic"
    hb.create_tables(store, model)
    with open_session(store) as session:
        session.add(model(name="a", topic="t", note="n"))
    ((entry, timestamp),) = rows_of(store, index).items()
    store.delete(index, [Delete(entry, timestamp=timestamp)])
    store.put(index, [Put(entry, {b"d:_s": b"\x00loser..."}, timestamp + 1)])
    times = hb.indexes.IndexTimes(lease=0.001, longest_call=0.001, clock_bound=0.001, grace=0.01)
    time.sleep(0.05)
    found = hb.indexes.verify_index(store, model, "by_topic", times=times)
    assert (found.missing, found.outdated) == (1, 0)


def test_another_encoding_of_the_same_value_is_not_outdated(atomic_bed: Bed) -> None:
    @hb.model(table="cov_encoded", family="d")
    class Tagged:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")
        tags: hb.Column[dict[str, int] | None] = hb.column("g", hb.Json(dict), default=None)
        version: hb.Column[int] = hb.version()

        by_topic = hb.index("topic", covers=("tags",))

    store, index = atomic_bed.store, "cov_encoded.by_topic"
    hb.create_tables(store, Tagged)
    with open_session(store) as session:
        session.add(Tagged(name="a", topic="t", tags={"b": 1, "a": 2}))
    ((entry, timestamp),) = rows_of(store, index).items()
    times = hb.indexes.IndexTimes(lease=0.001, longest_call=0.001, clock_bound=0.001, grace=0.01)
    for text, outdated in ((b'{"a": 2, "b": 1}', 0), (b'{"a": 2, "b": 2}', 1), (b"{", 1)):
        store.put(index, [Put(entry, {b"d:g": text}, timestamp)])
        time.sleep(0.05)
        assert hb.indexes.verify_index(store, Tagged, "by_topic", times=times).outdated == outdated, text


def test_copies_of_values_are_not_compared(atomic_bed: Bed) -> None:
    """Queries do not read the entries of a model whose last write wins."""

    @hb.model(table="cov_copied", family="d")
    class Copied:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")
        note: hb.Column[str] = hb.column("n")

        by_topic = hb.index("topic", covers=("note",))

    store, index = atomic_bed.store, "cov_copied.by_topic"
    hb.create_tables(store, Copied)
    with open_session(store) as session:
        session.add(Copied(name="a", topic="t", note="n"))
    ((entry, timestamp),) = rows_of(store, index).items()
    store.put(index, [Put(entry, {b"d:n": b"other"}, timestamp)])
    times = hb.indexes.IndexTimes(lease=0.001, longest_call=0.001, clock_bound=0.001, grace=0.01)
    time.sleep(0.05)
    found = hb.indexes.verify_index(store, Copied, "by_topic", times=times)
    assert (found.entries, found.outdated, found.sound) == (1, 0, True)


@settings(max_examples=examples(40))
@given(st.data())
def test_entries_that_sessions_write_are_never_outdated(data: st.DataObject) -> None:
    of = data.draw(models(covering=True, wide=True))
    schema, store = hb.schema.schema_of(of.model), written(data.draw, of)
    times = hb.indexes.IndexTimes(lease=0.001, longest_call=0.001, clock_bound=0.001, grace=0.007)
    time.sleep(0.01)
    for name in schema.indexes:
        report = hb.indexes.verify_index(store, of.model, name, times=times)
        assert (report.outdated, report.stale, report.sound) == (0, 0, True)
