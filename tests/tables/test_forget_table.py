"""Removing the registry's entry of a table that is gone, and of one that still exists."""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.errors import MigrationError, StoreError, TableExists, TableNotFound
from hbmodel.protocol.relocation.migration_phases import BEFORE, CUT, DONE, MOVING, RETURNING
from hbmodel.store import Family, Put, Row, Scan
from hbmodel.store.ranges import KeyRange
from hbmodel.tables.registry.layout_differences import canonical_json
from hbmodel.tables.registry.read_roll import RollLines
from hbmodel.tables.registry.registry_rows import INDEX_PREFIX, LAYOUT, registry_row
from hbmodel.tables.registry.registry_table import Registry
from tests.support.beds import Bed, fresh
from tests.support.faulty import Crash, FaultyStore
from tests.tables.migration_models import TIMES, Moved, Visit, visit
from tests.tables.test_renewed_lines import ONE, QUIET, add, session_of


@hb.model(table="gone", family="c")
class Content:
    key: hb.Key[bytes] = hb.key()
    body: hb.Column[bytes] = hb.column("b")

    by_body = hb.index("body")


@hb.model(table="gone", family="c")
class OtherCodec:
    key: hb.Key[bytes] = hb.key()
    body: hb.Column[str] = hb.column("b")


@hb.model(table="gone", family="c")
class OtherEntries:
    key: hb.Key[bytes] = hb.key()
    body: hb.Column[bytes] = hb.column("b")
    size: hb.Column[int] = hb.column("s", default=0)

    by_body = hb.index("size")


@hb.model(table="gone", family="m")
class OtherFamily:
    key: hb.Key[bytes] = hb.key()
    body: hb.Column[str] = hb.column("b")
    content: hb.Column[bytes] = hb.column("content", family="c", default=b"")


@hb.model(table="gone", family="m")
class OtherFamilySameIndex:
    key: hb.Key[bytes] = hb.key()
    body: hb.Column[str] = hb.column("b")

    by_body = hb.index("body")


@hb.model(table="gone", family="c", external=True, immutable=True)
class Foreign:
    key: hb.Key[bytes] = hb.key()
    body: hb.Column[bytes] = hb.column("b")

    by_body = hb.index("body")


@hb.model(table="gone", family="c", kind=b"k")
class OfAKind:
    key: hb.Key[bytes] = hb.key()
    at: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    body: hb.Column[bytes] = hb.column("b")


@hb.model(table="gone", family="m")
class Beside:
    key: hb.Key[bytes] = hb.key()
    body: hb.Column[bytes] = hb.column("b")


@hb.model(table="gone.by_body", family="c")
class IndexTable:
    key: hb.Key[bytes] = hb.key()
    body: hb.Column[bytes] = hb.column("b")


def near(table: str) -> type[Any]:
    """A model whose table's name is like the forgotten one's."""

    @hb.model(table=table, family="c")
    class Near:
        key: hb.Key[bytes] = hb.key()
        body: hb.Column[bytes] = hb.column("b")

        by_body = hb.index("body")

    return Near


NEIGHBOURS = [near("gon"), near("gone2"), near("gone.2")]
CALLS = "hb.tables.forget(store, table) or `hbmodel registry forget TABLE`"


def drop_without_hbmodel(store: hb.Store, *tables: str) -> None:
    for table in tables:
        store.delete_table(table)


def rows_from(store: hb.Store, start: bytes = b"\x03") -> list[Row]:
    """The rows of the registry: by default those of models, without the writers' roll and the clock."""
    (batches,) = store.scan("hbmodel", [Scan(KeyRange(start))])
    return [row for batch in batches for row in batch]


def clear(store: hb.Store) -> None:
    """Removes what another test has left of the tables."""
    for table in {"gone", "gone.by_body"} & set(store.tables()):
        store.delete_table(table)
    if "gone" in Registry(store).tables():
        hb.tables.forget(store, "gone")


def registered(store: hb.Store, table: str) -> dict[bytes, dict[bytes, bytes]]:
    """The cells of a table's rows in the registry."""
    return {
        row.row: {column: cell.value for column, cell in row.columns.items()}
        for row in rows_from(store)
        if row.row.startswith(table.encode() + b"\x00")
    }


def on_a_fresh_store(model: type[Any]) -> dict[bytes, dict[bytes, bytes]]:
    with hb.connect("memory:") as store:
        hb.create_tables(store, model)
        return registered(store, "gone")


# --- a table that is gone ---------------------------------------------------------------------------------------------


@pytest.mark.every_store
@pytest.mark.parametrize("now", [Content, OtherCodec, OtherFamily, OfAKind])
def test_any_model_of_its_name_is_created_as_on_a_fresh_store(bed: Bed, now: type[Any]) -> None:
    store = bed.store
    clear(store)
    hb.create_tables(store, Content)
    drop_without_hbmodel(store, "gone", "gone.by_body")
    if now is not Content:
        with pytest.raises(hb.SchemaMismatch, match="that does not exist, and its entry does not fit") as caught:
            hb.create_tables(store, now)
        assert CALLS in caught.value.message
        assert caught.value.table == "gone"
    forgotten = hb.tables.forget(store, "gone")
    assert forgotten == hb.tables.Forgotten("gone", ("c",), ("by_body",))
    assert "gone" not in Registry(store).tables()
    assert not [line for line in hb.diff(store, now) if not line.safe]
    hb.create_tables(store, now)
    assert registered(store, "gone") == on_a_fresh_store(now)
    value: Any = b"x" if now in {Content, OfAKind} else "x"
    fields: dict[str, Any] = {"key": b"k", "body": value, **({"at": 1} if now is OfAKind else {})}
    with hb.Session(store) as session:
        session.add(now(**fields))
    assert [found.key for found in hb.Session(store).query(now).where(now.body == value).allow_full_scan()] == [b"k"]
    hb.drop_tables(store, now)
    assert registered(store, "gone") == {}


@pytest.mark.every_store
def test_no_entry_of_any_other_table_changes(bed: Bed) -> None:
    store = bed.store
    clear(store)
    hb.create_tables(store, *NEIGHBOURS)
    before = rows_from(store)
    hb.create_tables(store, Content)
    drop_without_hbmodel(store, "gone", "gone.by_body")
    hb.tables.forget(store, "gone")
    assert rows_from(store) == before, "values and timestamps"
    hb.drop_tables(store, *NEIGHBOURS)


def test_rows_that_are_not_of_models_go_only_if_they_are_of_the_table() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Content)
        work = [b"\x01" + name + b"\x00c\x00by_body\x00build" for name in (b"gon", b"gone", b"gone2", b"gone.2")]
        line = b"\x02gone\x00c\x00" + bytes(16)
        store.put("hbmodel", [Put(row, {b"m:ranges": b"{}"}) for row in work])
        store.put("hbmodel", [Put(line, {b"m:w": b"of a newer version"})])
        drop_without_hbmodel(store, "gone", "gone.by_body")
        (writer,) = hb.tables.forget(store, "gone").writers
        assert writer.state == "unknown"
        assert [row.row for row in rows_from(store, b"\x01")] == sorted([work[0], *work[2:], line])


def test_all_models_of_the_table_are_forgotten() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Content, Beside)
        drop_without_hbmodel(store, "gone", "gone.by_body")
        for model in (Content, Beside):
            with pytest.raises(hb.SchemaMismatch, match="does not exist") as caught:
                hb.drop_tables(store, model)
            assert CALLS in caught.value.message
        forgotten = hb.tables.forget(store, "gone")
        assert forgotten.models == ("c", "m")
        assert str(forgotten) == "forgot gone: model c, model m, index by_body"
        assert rows_from(store) == []
        hb.create_tables(store, OfAKind)
        drop_without_hbmodel(store, "gone")
        assert hb.tables.forget(store, "gone").models == ("c k",)


def test_a_registration_that_was_killed_is_forgotten() -> None:
    row = registry_row(hb.schema.schema_of(Content))
    with hb.connect("memory:") as store:
        Registry(store).create()
        store.put("hbmodel", [Put(row, {INDEX_PREFIX + b"by_body": b"{}"})])
        assert hb.tables.forget(store, "gone") == hb.tables.Forgotten("gone", ("c",))
        store.put("hbmodel", [Put(b"\x01" + row + b"\x00by_body\x00build", {b"m:ranges": b"{}"})])
        assert str(hb.tables.forget(store, "gone")) == "forgot gone: no model"
        assert rows_from(store, b"\x01") == []


def calls_of_a_forget() -> int:
    with FaultyStore(hb.connect("memory:")) as store:
        hb.create_tables(store, Content, Beside)
        drop_without_hbmodel(store, "gone", "gone.by_body")
        store.calls.clear()
        hb.tables.forget(store, "gone")
        return len(store.calls)


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("at", range(calls_of_a_forget()))
def test_after_a_crash_it_can_be_repeated(at: int, mode: Any) -> None:
    with hb.connect("memory:") as inner:
        hb.create_tables(inner, Content, Beside)
        drop_without_hbmodel(inner, "gone", "gone.by_body")
        with pytest.raises(Crash):
            hb.tables.forget(FaultyStore(inner, at, mode, crash=True), "gone")
        if "gone" in Registry(inner).tables():
            hb.tables.forget(inner, "gone")
        assert rows_from(inner, b"\x01") == []


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.every_store
def test_a_table_that_exists_is_refused_unless_that_is_said(bed: Bed) -> None:
    store = bed.store
    clear(store)
    hb.create_tables(store, Content)
    before = rows_from(store)
    with pytest.raises(TableExists, match=r"The table exists.*hb\.drop_tables.*existing=True") as caught:
        hb.tables.forget(store, "gone")
    assert (caught.value.table, caught.value.tables) == ("gone", ["gone", "gone.by_body"])
    drop_without_hbmodel(store, "gone")
    with pytest.raises(TableExists, match="some of its index tables exist") as caught:
        hb.tables.forget(store, "gone")
    assert caught.value.tables == ["gone.by_body"]
    assert rows_from(store) == before
    forgotten = hb.tables.forget(store, "gone", existing=True)
    assert forgotten.remaining == ("gone.by_body",)
    assert "gone.by_body: exists, and the registry no longer names it" in str(forgotten)
    assert "gone.by_body" in store.tables()
    clear(store)


def test_a_table_of_hbmodel_without_its_entry_loses_its_indexes() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Content)
        with hb.Session(store) as session:
            session.add(Content(key=b"k", body=b"x"))
        forgotten = hb.tables.forget(store, "gone", existing=True)
        assert forgotten.remaining == ("gone", "gone.by_body")
        with pytest.raises(hb.SchemaMismatch, match="the registry does not know them"):
            hb.create_tables(store, Content)
        drop_without_hbmodel(store, "gone.by_body")
        (difference,) = hb.create_tables(store, Content).differences
        assert "is not built" in str(difference)
        hb.indexes.build_index(store, Content, "by_body")
        assert hb.Session(store).query(Content).where(Content.body == b"x").count() == 1


def test_a_table_of_another_program_keeps_its_rows() -> None:
    @hb.model(table="gone", family="info", external=True)
    class Theirs:
        name: hb.Key[str] = hb.key()
        city: hb.Column[str] = hb.column("c")

    with hb.connect("memory:") as store:
        store.create_table("gone", [Family(b"info")])
        store.put("gone", [Put(b"a", {b"info:c": b"b"})])
        hb.create_tables(store, Theirs)
        with pytest.raises(TableExists, match="for an external model removes only the entry"):
            hb.tables.forget(store, "gone")
        assert hb.tables.forget(store, "gone", existing=True).remaining == ("gone",)
        assert hb.Session(store).get(Theirs, name="a") == Theirs(name="a", city="b")
        hb.create_tables(store, Theirs)
        assert registered(store, "gone") != {}


def test_tables_that_were_begun_for_an_index_count_while_they_are_empty() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, OfAKind)
        place = hb.schema.schema_of(OfAKind)
        entry = {"state": "absent", "table": "gone.begun", "spec": {}, "creating": True}
        store.put("hbmodel", [Put(registry_row(place), {INDEX_PREFIX + b"begun": canonical_json(entry)})])
        store.create_table("gone.begun", [Family(b"c")])
        drop_without_hbmodel(store, "gone")
        with pytest.raises(TableExists) as caught:
            hb.tables.forget(store, "gone")
        assert caught.value.tables == ["gone.begun"]
        store.put("gone.begun", [Put(b"a", {b"c:b": b"of another program"})])
        assert hb.tables.forget(store, "gone").remaining == ()


def test_names_that_the_registry_does_not_know_are_refused() -> None:
    with hb.connect("memory:") as store:
        for table in ("gone", "hbmodel"):
            with pytest.raises(TableNotFound, match="hbmodel registry list") as caught:
                hb.tables.forget(store, table)
            assert (caught.value.table, caught.value.registry, caught.value.primary) == (table, "hbmodel", None)
        hb.create_tables(store, Content)
        for table, primary in (("gone.by_body", "gone"), ("gon", None), ("gone.other", None)):
            with pytest.raises(TableNotFound) as caught:
                hb.tables.forget(store, table, existing=True)
            assert caught.value.primary == primary
        with pytest.raises(TableNotFound):
            hb.tables.forget(store, "gone", registry="other")


@pytest.mark.parametrize("table", [Content, b"gone", "", None])
def test_a_table_is_given_by_its_name(table: Any) -> None:
    with hb.connect("memory:") as store:
        with pytest.raises(hb.DeclarationError, match="by its name"):
            hb.tables.forget(store, table)
        with pytest.raises(hb.DeclarationError, match="True or False"):
            hb.tables.forget(store, "gone", existing="gone")  # type: ignore[arg-type]


def test_an_entry_that_cannot_be_read_is_left() -> None:
    row = registry_row(hb.schema.schema_of(Content))
    with hb.connect("memory:") as store:
        hb.create_tables(store, Content)
        drop_without_hbmodel(store, "gone", "gone.by_body")
        store.put("hbmodel", [Put(row, {LAYOUT: b"{"})])
        with pytest.raises(StoreError):
            hb.tables.forget(store, "gone")
        assert registered(store, "gone") != {}


# --- programs that write, and objects that move -----------------------------------------------------------------------


def test_programs_that_may_still_write_are_named_and_keep_their_lines() -> None:
    with fresh(ONE, gated=False) as store:
        add(session_of(store, QUIET), "a", ONE)
        drop_without_hbmodel(store, "rolled", "rolled.by_rank")
        before = RollLines(store, "hbmodel").of_table("rolled")
        forgotten = hb.tables.forget(store, "rolled")
        (writer,) = forgotten.writers
        assert writer.state == "writing"
        assert f"may still write in the layout of the removed entry: {writer}" in str(forgotten)
        assert forgotten.as_json["writers"] == [writer.as_json]
        assert RollLines(store, "hbmodel").of_table("rolled") == before
        hb.create_tables(store, ONE)
        add(session_of(store, QUIET), "b", ONE)


OLD, NEW = hb.schema.schema_of(Visit), hb.schema.schema_of(Moved)


def moving(store: hb.Store, phase: str) -> None:
    """Two tables, whose registry says that objects are in a phase of the move."""
    hb.create_tables(store, Visit, Moved)
    with hb.Session(store) as session:
        session.add_all(
            Visit(user=one.user, number=one.number, page=one.page, note=one.note) for one in map(visit, range(5))
        )
    catalog = Registry(store)
    found = catalog.read(OLD)
    assert found is not None
    assert catalog.change_move(OLD, NEW, found, phase)
    catalog.mark_moving(OLD, NEW, moving=phase not in {BEFORE, DONE})


def all_tables(schema: hb.schema.TableSchema) -> list[str]:
    return [schema.table, *(index.table for index in schema.indexes.values())]


@pytest.mark.parametrize("phase", [MOVING, CUT, RETURNING])
@pytest.mark.parametrize("gone", [OLD, NEW], ids=["old", "new"])
def test_a_table_whose_objects_move_is_refused_while_the_other_one_exists(
    gone: hb.schema.TableSchema, phase: str
) -> None:
    with hb.connect("memory:") as store:
        moving(store, phase)
        other = NEW if gone is OLD else OLD
        drop_without_hbmodel(store, *all_tables(gone))
        before = rows_from(store)
        for existing in (False, True):
            with pytest.raises(MigrationError, match="cut over or roll back first") as caught:
                hb.tables.forget(store, gone.table, existing=existing)
            assert (caught.value.table, caught.value.other) == (gone.table, other.table)
        assert rows_from(store) == before
        drop_without_hbmodel(store, *all_tables(other))
        for table in (OLD.table, NEW.table):
            hb.tables.forget(store, table)
        assert rows_from(store) == []


@pytest.mark.parametrize("phase", [BEFORE, DONE])
def test_a_table_whose_objects_do_not_move_or_have_moved_is_forgotten(phase: str) -> None:
    with hb.connect("memory:") as store:
        moving(store, phase)
        drop_without_hbmodel(store, *all_tables(OLD))
        hb.tables.forget(store, OLD.table)
        assert list(Registry(store).tables()) == [NEW.table]


@pytest.mark.lengthy
@pytest.mark.parametrize("gone", [OLD, NEW], ids=["old", "new"])
def test_a_move_whose_table_is_gone_is_rolled_back_once_the_table_is_there_again(gone: hb.schema.TableSchema) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Visit)
        with hb.Session(store) as session:
            session.add_all(
                Visit(user=one.user, number=one.number, page=one.page, note=one.note) for one in map(visit, range(5))
            )
        hb.migration.migrate(store, Moved, times=TIMES).start()
        drop_without_hbmodel(store, *all_tables(gone))
        with pytest.raises(MigrationError):
            hb.tables.forget(store, gone.table)
        hb.create_tables(store, gone.model)
        hb.migration.migrate(store, Moved, times=TIMES).roll_back()
        assert hb.Session(store).query(Visit).allow_full_scan().count() == 5


# --- what other calls say ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("now", [OtherCodec, OtherEntries, OtherFamily, OtherFamilySameIndex])
def test_calls_with_another_model_name_the_call_that_forgets(now: type[Any]) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Content)
        drop_without_hbmodel(store, "gone", "gone.by_body")
        refused = [line for line in hb.diff(store, now) if line.effect == "refused"]
        assert refused
        assert all("does not exist" in str(line) and CALLS in str(line) for line in refused)
        for call in (hb.create_tables, hb.alter):
            with pytest.raises(hb.SchemaMismatch, match="The registry knows a table of this name that") as caught:
                call(store, now)
            assert CALLS in caught.value.message
            assert store.tables() == ["hbmodel"], "it is refused before anything is created"
        hb.tables.forget(store, "gone")
        hb.alter(store, now)
        assert "gone" in store.tables()


def test_a_model_with_system_cells_in_place_of_one_without_them_is_refused_in_the_same_way() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Foreign, create_external=True)
        drop_without_hbmodel(store, "gone", "gone.by_body")
        with pytest.raises(hb.SchemaMismatch, match="does not exist"):
            hb.create_tables(store, Content)
        assert store.tables() == ["hbmodel"]
        hb.tables.forget(store, "gone")
        hb.create_tables(store, Content)


def test_calls_with_a_model_of_its_index_table_name_it_too() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Content)
        drop_without_hbmodel(store, "gone")
        assert "`hbmodel registry forget PRIMARY`" in str(hb.diff(store, IndexTable))
        for call in (hb.create_tables, hb.drop_tables):
            with pytest.raises(hb.SchemaMismatch, match="index table of a table that does not exist") as caught:
                call(store, IndexTable)
            assert caught.value.primary == "gone"
        drop_without_hbmodel(store, "gone.by_body")
        hb.tables.forget(store, "gone")
        hb.create_tables(store, IndexTable)


def test_a_table_that_exists_is_spoken_of_as_before() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Content)
        store.add_family("gone", Family(b"m"))
        for now, said in (
            (OtherCodec, "The live table does not have the layout"),
            (OtherFamily, "choose another family"),
        ):
            with pytest.raises(hb.SchemaMismatch, match=said):
                hb.create_tables(store, now)
            assert "forget" not in str(hb.diff(store, now))
        with pytest.raises(hb.SchemaMismatch, match="drop both together"):
            hb.drop_tables(store, OtherFamily)
