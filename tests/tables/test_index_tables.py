"""The existing tables that may become index tables, and the tables that are never deleted with an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.store import Family, Put, Scan
from tests.support.beds import HBASE, Bed
from tests.support.faulty import Crash, FaultyStore, RecordingStore
from tests.tables.test_indexes import TIMES


def declare(table: str, **indexes: Any) -> Any:
    """A model of one key field and one column."""
    names = {
        "__annotations__": {"name": hb.Key[str], "text": hb.Column[str]},
        "name": hb.key(),
        "text": hb.column("t"),
    }
    return hb.model(table=table, family="d")(type("Named", (), {**names, **indexes}))


def rows(store: hb.Store, table: str) -> list[bytes]:
    (batches,) = store.scan(table, [Scan()])
    return [row.row for batch in batches for row in batch]


def registered(store: hb.Store, table: str) -> None:
    """A model's table, without rows."""
    hb.create_tables(store, declare(table))


def another_registry(store: hb.Store, table: str) -> None:
    """The registry of other programs."""
    hb.create_tables(store, declare("elsewhere"), registry=table)


def of_other_programs(store: hb.Store, table: str) -> None:
    """A table with a row that the registry does not know."""
    store.create_table(table, [Family(b"d")])
    store.put(table, [Put(b"theirs", {b"d:x": b"precious"})])


def empty_of_other_programs(store: hb.Store, table: str) -> None:
    """One without rows, but with other families."""
    store.create_table(table, [Family(b"d"), Family(b"e")])


TAKEN: Sequence[Callable[[hb.Store, str], None]] = (
    registered,
    another_registry,
    of_other_programs,
    empty_of_other_programs,
)


@pytest.fixture
def name(bed: Bed) -> Any:
    """The name of a table that is not there, and goes afterwards with all whose names begin with it."""
    name = f"taken{uuid4().hex[:12]}"
    yield name
    for table in bed.store.tables():
        if table.startswith((name, "elsewhere")):
            bed.store.delete_table(table)


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ["memory", "embedded", *HBASE], indirect=True)
@pytest.mark.parametrize("prepare", TAKEN)
def test_another_table_is_not_taken_for_an_index_table(
    bed: Bed, name: str, prepare: Callable[[hb.Store, str], None]
) -> None:
    model = declare(name, by_text=hb.index("text"))
    prepare(bed.store, f"{name}.by_text")
    before, held = bed.store.tables(), rows(bed.store, f"{name}.by_text")
    bed.store.told()
    assert "refused" in {difference.effect for difference in hb.diff(bed.store, model)}
    with pytest.raises(hb.SchemaMismatch, match="another one exists") as caught:
        hb.create_tables(bed.store, model)
    assert (caught.value.table, caught.value.index, caught.value.primary) == (f"{name}.by_text", "by_text", name)
    assert caught.value.owner == (f"{name}.by_text" if prepare is registered else None)
    with pytest.raises(hb.SchemaMismatch):
        hb.alter(bed.store, model)
    assert not any(call.writes for call in bed.store.calls)
    assert hb.drop_tables(bed.store, model) == []
    assert (bed.store.tables(), rows(bed.store, f"{name}.by_text")) == (before, held)


@pytest.mark.parametrize("table", ["t", "ns:t", "t.by_text"])
def test_the_name_may_have_a_namespace_or_a_dot(table: str) -> None:
    with hb.connect("memory:") as store:
        if ":" in table:
            store.create_namespace("ns")
        of_other_programs(store, f"{table}.by_text")
        with pytest.raises(hb.SchemaMismatch, match="another one exists"):
            hb.create_tables(store, declare(table, by_text=hb.index("text")))
        hb.create_tables(store, model := declare(table, by_words=hb.index("text")))  # as the error says
        assert sorted(hb.drop_tables(store, model)) == [table, f"{table}.by_words"]
        assert rows(store, f"{table}.by_text") == [b"theirs"]


def test_no_index_has_the_table_of_a_dictionary() -> None:
    places = hb.ids.dictionary("places", hb.UInt32)
    names = {
        "__annotations__": {"name": hb.Key[str], "text": hb.Column[str]},
        "name": hb.key(places),
        "text": hb.column("t"),
    }
    together = hb.model(table="places", family="d")(type("RegistryKey", (), {**names, "ids": hb.index("text")}))
    with hb.connect("memory:") as store:
        for call in (hb.create_tables, hb.diff):
            with pytest.raises(hb.SchemaMismatch, match="is already used for something else"):
                call(store, together)
        assert store.tables() == []
        hb.create_tables(store, places)
        with pytest.raises(hb.SchemaMismatch, match="another one exists") as caught:
            hb.create_tables(store, declare("places", names=hb.index("text")))
        assert caught.value.owner == "places.names"


def test_what_a_killed_creation_left_is_taken() -> None:
    model = declare("t", by_text=hb.index("text"), by_name=hb.index("text", "name"))
    with FaultyStore(hb.connect("memory:")) as store:
        hb.create_tables(store, model)
        calls = list(store.calls)
    for at, call in enumerate(calls):
        if not call.writes:
            continue
        with hb.connect("memory:") as store:
            with pytest.raises(Crash):
                hb.create_tables(FaultyStore(store, at, "after", crash=True), model)
            if at % 2:
                hb.drop_tables(store, model)
                assert set(store.tables()) <= {"hbmodel"}
            hb.create_tables(store, model)
            with hb.Session(store) as session:
                session.add(model(name="a", text="x"))
            assert hb.Session(store).query(model).where(model.text == "x").count() == 1


class Beaten(RecordingStore):
    """Another program makes a table just before this one does, and may fill it."""

    rival: Callable[[str], None] | None = None

    def create_table(self, table: str, families: Any, split_keys: Any = ()) -> None:
        if "by_text" in table and self.rival is not None:
            rival, self.rival = self.rival, None
            rival(table)
        super().create_table(table, families, split_keys)


def test_a_program_that_was_faster_may_have_made_something_else() -> None:
    model = declare("t", by_text=hb.index("text"))
    with Beaten(hb.connect("memory:")) as store:
        store.rival = lambda table: of_other_programs(store.inner, table)
        with pytest.raises(hb.SchemaMismatch, match="another one exists"):
            hb.create_tables(store, model)
        assert "t" not in store.tables()
    with Beaten(hb.connect("memory:")) as store:

        def same(_: str) -> None:
            hb.create_tables(store.inner, model)
            with hb.Session(store.inner) as session:
                session.add(model(name="a", text="x"))

        store.rival = same
        hb.create_tables(store, model)
        assert hb.Session(store).query(model).where(model.text == "x").count() == 1


def test_a_build_leaves_another_table_alone_too() -> None:
    before, after = declare("t"), declare("t", by_text=hb.index("text"))
    with Beaten(hb.connect("memory:")) as store:
        hb.create_tables(store, before)
        with hb.Session(store) as session:
            session.add(before(name="a", text="x"))
        hb.create_tables(store, after)
        store.rival = lambda table: of_other_programs(store.inner, table)
        assert hb.indexes.build_index(store, after, "by_text", times=TIMES).readable
        assert store.tables() == ["hbmodel", "t", "t.by_text", "t.by_text.2"]
        assert hb.Session(store).query(after).where(after.text == "x").count() == 1
        assert hb.indexes.drop_index(store, after, "by_text", times=TIMES) == ["t.by_text.2"]
        assert hb.indexes.build_index(store, after, "by_text", times=TIMES).readable
        assert sorted(hb.drop_tables(store, after)) == ["t", "t.by_text.3"]
        assert rows(store, "t.by_text") == [b"theirs"]


@pytest.mark.parametrize("there", [True, False], ids=["before the index is declared", "after"])
def test_an_index_that_is_not_built_has_no_table(there: bool) -> None:
    """Its name is free for another model, whose table stays when the index is dropped, or its model."""
    before, after, other = declare("t"), declare("t", by_text=hb.index("text")), declare("t.by_text")
    with hb.connect("memory:") as store:
        hb.create_tables(store, before, *([other] if there else []))
        hb.create_tables(store, after)
        hb.create_tables(store, other)
        with hb.Session(store) as session:
            session.add(other(name="a", text="precious"))
        hb.create_tables(store, after)
        assert not hb.diff(store, other)
        assert hb.indexes.drop_index(store, after, "by_text", times=TIMES) == []
        assert hb.indexes.build_index(store, after, "by_text", times=TIMES).readable
        assert hb.indexes.drop_index(store, after, "by_text", times=TIMES) == ["t.by_text.2"]
        assert hb.drop_tables(store, after) == ["t"]
        assert hb.Session(store).get(other, name="a") is not None
        assert hb.drop_tables(store, other) == ["t.by_text"]


def test_a_table_that_was_begun_and_became_something_else_is_not_deleted() -> None:
    """A build is killed before it creates the table that it has named; another program takes the name."""
    before, after = declare("t"), declare("t", by_text=hb.index("text"))
    for finish in (
        lambda store: hb.indexes.drop_index(store, after, "by_text", times=TIMES),
        lambda store: hb.drop_tables(store, after),
        lambda store: hb.indexes.build_index(
            store, declare("t", by_text=hb.index("text", "name")), "by_text", times=TIMES
        ),
        lambda store: hb.indexes.build_index(store, after, "by_text", times=TIMES),
    ):
        with hb.connect("memory:") as store:
            hb.create_tables(store, before)
            hb.create_tables(store, after)
            calls = FaultyStore(store)
            calls.create_table = _killed  # type: ignore[method-assign]
            with pytest.raises(Crash):
                hb.indexes.build_index(calls, after, "by_text", times=TIMES)
            of_other_programs(store, "t.by_text")
            finish(store)
            assert rows(store, "t.by_text") == [b"theirs"]


def _killed(*_: Any) -> None:
    raise Crash


@pytest.mark.parametrize("lost", ["table", "family"])
def test_the_advice_for_a_lost_index_table_restores_the_index_and_keeps_the_rows(lost: str) -> None:
    model = declare("notes", by_text=hb.index("text"))
    with hb.connect("memory:") as store:
        hb.create_tables(store, model)
        with hb.Session(store) as session:
            session.add_all(model(name=f"{n}", text="x") for n in range(5))
        store.delete_table("notes.by_text")
        if lost == "family":
            store.create_table("notes.by_text", [Family(b"other")])
        (difference,) = hb.diff(store, model)
        assert difference.effect == "refused"
        errors = (hb.SchemaMismatch, hb.errors.TableNotFound, hb.errors.FamilyNotFound)
        for call in (
            lambda: hb.create_tables(store, model),
            lambda: hb.alter(store, model),
            lambda: hb.indexes.build_index(store, model, "by_text", times=TIMES),
            lambda: hb.indexes.verify_index(store, model, "by_text", times=TIMES),
            lambda: hb.indexes.repair_index(store, model, "by_text", times=TIMES),
        ):
            with pytest.raises(errors) as caught:
                call()
            assert "drop the index with hb.indexes.drop_index()" in str(caught.value)
        hb.indexes.drop_index(store, model, "by_text", times=TIMES)
        assert hb.indexes.build_index(store, model, "by_text", times=TIMES).readable
        assert hb.Session(store).query(model).where(model.text == "x").use_index("by_text").count() == 5
        assert not hb.diff(store, model)
