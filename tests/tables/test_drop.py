"""Dropping the tables of models, also after a crash in the middle of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.tables.registry.registration import READABLE
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from tests.support.beds import HBASE, Bed, rows_of, set_state
from tests.support.faulty import Crash, FaultyStore


@hb.model(table="dropped", family="d")
class Dropped:
    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    size: hb.Column[int] = hb.column("s", default=0)

    by_tag = hb.index("tag")
    by_size = hb.index("size")


@hb.model(table="dropped", family="x")
class Beside:
    name: hb.Key[str] = hb.key()
    other: hb.Column[str] = hb.column("o")


TABLES = ["dropped", "dropped.by_size", "dropped.by_tag"]


def fill(store: hb.Store) -> None:
    hb.create_tables(store, Dropped)
    with hb.Session(store) as session:
        session.add_all(Dropped(name=f"n{number}", tag="x", size=number) for number in range(3))


def found_by_tag(store: hb.Store) -> int:
    return hb.Session(store).query(Dropped).where(Dropped.tag == "x").count()


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ["memory", "embedded", *HBASE], indirect=True)
def test_nothing_is_left_and_the_tables_can_be_made_anew(bed: Bed) -> None:
    fill(bed.store)
    assert sorted(hb.drop_tables(bed.store, Dropped)) == TABLES
    assert not set(TABLES) & set(bed.store.tables())
    assert Registry(bed.store).read(hb.schema.schema_of(Dropped)) is None
    assert hb.drop_tables(bed.store, Dropped) == []
    fill(bed.store)
    assert found_by_tag(bed.store) == 3
    hb.drop_tables(bed.store, Dropped)


def test_without_a_registry_there_is_nothing_to_forget() -> None:
    with hb.connect("memory:") as store:
        assert hb.drop_tables(store, Dropped) == []
        store.create_table("dropped", [hb.store.Family(b"d")])
        assert hb.drop_tables(store, Dropped) == ["dropped"]


def test_an_index_is_dropped_where_it_lives() -> None:
    with hb.connect("memory:") as store:
        fill(store)
        store.delete_table("dropped.by_tag")
        store.create_table("dropped.by_tag.2", [hb.store.Family(b"d")])
        set_state(store, Dropped, "by_tag", READABLE, "dropped.by_tag.2")
        hb.drop_tables(store, Dropped)
        assert store.tables() == ["hbmodel"]


@pytest.mark.parametrize("registered", [True, False])
def test_a_table_of_other_programs_stays(registered: bool) -> None:
    @hb.model(table="theirs_dropped", family="info", external=True)
    class Theirs:
        name: hb.Key[str] = hb.key()
        city: hb.Column[str] = hb.column("c")

    with hb.connect("memory:") as store:
        store.create_table("theirs_dropped", [hb.store.Family(b"info"), hb.store.Family(b"own")])
        if registered:
            hb.create_tables(store, Theirs, Dropped)
        with hb.Session(store) as session:
            session.add(Theirs(name="a", city="b"))
        assert hb.drop_tables(store, Theirs) == []
        assert hb.Session(store).get(Theirs, name="a") == Theirs(name="a", city="b")
        if registered:
            assert list(rows_of(store, "hbmodel")) == [registry_row(hb.schema.schema_of(Dropped))]


def test_models_of_one_table_are_dropped_together() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Dropped, Beside)
        for one in (Dropped, Beside):
            with pytest.raises(hb.SchemaMismatch) as caught:
                hb.drop_tables(store, one)
            assert caught.value.table == "dropped"
        assert set(TABLES) <= set(store.tables())
        hb.drop_tables(store, Dropped, Beside)
        assert store.tables() == ["hbmodel"]


@hb.model(table="dropped.by_tag")
class Squatter:
    name: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("t")


@hb.model(table="hbmodel", family="x")
class Usurper:
    name: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("t")


def test_a_table_is_one_thing_only() -> None:
    with hb.connect("memory:") as store:
        for models in ((Dropped, Squatter), (Squatter, Dropped), (Usurper,)):
            for call in (hb.create_tables, hb.diff):
                with pytest.raises(hb.SchemaMismatch, match="table is already used for something else"):
                    call(store, *models)
        assert store.tables() == []
        fill(store)
        for call in (hb.create_tables, hb.drop_tables):
            with pytest.raises(hb.SchemaMismatch, match="index table of another model"):
                call(store, Squatter)
        assert "table: an index table of dropped -> " in str(hb.diff(store, Squatter))
        assert found_by_tag(store) == 3


def test_a_table_whose_registry_entry_is_lost_is_not_registered_as_new() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Dropped, registry="ours")
        with hb.Session(store, registry="ours") as session:
            session.add(Dropped(name="a", tag="x"))
        with pytest.raises(hb.SchemaMismatch, match="registered in this registry"):
            hb.Session(store).get(Dropped, name="a")
        with pytest.raises(hb.SchemaMismatch, match="registered in another registry") as known:
            hb.create_tables(store, Dropped)
        assert (known.value.registry, known.value.other) == ("hbmodel", "ours")
        with pytest.raises(hb.SchemaMismatch, match="name that registry") as kept:
            hb.drop_tables(store, Dropped)
        assert kept.value.other == "ours"
        assert sorted(store.tables()) == sorted([*TABLES, "ours"])
        hb.tables.forget(store, "dropped", existing=True, registry="ours")
        with pytest.raises(hb.SchemaMismatch, match="does not know them") as caught:
            hb.create_tables(store, Dropped)
        assert caught.value.registry == "hbmodel"
        (refused,) = [each for each in hb.diff(store, Dropped) if each.effect == "refused"]
        assert refused.what.startswith("index table dropped.")
        assert "the registry does not know the index table" in str(refused)
        with pytest.raises(hb.SchemaMismatch, match="cannot be altered"):
            hb.alter(store, Dropped)
        assert "hbmodel" not in store.tables()
        assert sorted(hb.drop_tables(store, Dropped)) == TABLES
        hb.create_tables(store, Dropped)


@pytest.mark.parametrize("bed", HBASE, indirect=True)
def test_two_programs_may_drop_at_once(bed: Bed) -> None:
    fill(bed.store)
    start, failures = threading.Barrier(2), []

    def drop() -> None:
        try:
            start.wait()
            hb.drop_tables(bed.store, Dropped)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=drop) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert not set(TABLES) & set(bed.store.tables())


def calls_of_a_drop() -> int:
    with FaultyStore(hb.connect("memory:")) as store:
        fill(store)
        store.calls.clear()
        hb.drop_tables(store, Dropped)
        return len(store.calls)


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("at", range(calls_of_a_drop()))
@pytest.mark.parametrize("then", ["repeat", "create"])
def test_after_a_crash_it_can_be_repeated_or_the_tables_used_anew(at: int, mode: Any, then: str) -> None:
    with hb.connect("memory:") as inner:
        fill(inner)
        with pytest.raises(Crash):
            hb.drop_tables(FaultyStore(inner, at, mode, crash=True), Dropped)
        if then == "repeat":
            hb.drop_tables(inner, Dropped)
            assert inner.tables() == ["hbmodel"]
            assert Registry(inner).read(hb.schema.schema_of(Dropped)) is None
            return
        untouched = "dropped" in inner.tables()
        hb.create_tables(inner, Dropped)
        assert found_by_tag(inner) == (3 if untouched else 0), "either nothing has happened, or no row is left"
        with hb.Session(inner) as session:
            session.add(Dropped(name="new", tag="x"))
        assert found_by_tag(inner) == (4 if untouched else 1)
