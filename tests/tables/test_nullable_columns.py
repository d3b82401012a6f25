"""A column that may be None from now on, in a table with rows and programs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import Any

import pytest
from hypothesis import given, settings

import hbmodel as hb
from hbmodel.errors import StoreUnavailable
from hbmodel.mapping.rows.mapper import cells_of
from hbmodel.mapping.schema import schema_of
from hbmodel.store import Family
from hbmodel.tables.registry.layout_changes import allow_none, declare_nullable
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.registry.table_from_registry import TableFromRegistry
from tests.support.beds import Bed
from tests.support.examples import examples
from tests.support.faulty import FaultyStore, RecordingStore
from tests.support.strategies import KEY_CODECS, values_of
from tests.support.waiting import comes_true

ROWS = {"a": "text", "b": "\0", "e": ""}

ALLOWS = "hbmodel.tables.alter.allow_none"
"""What `hb.alter` calls when no program uses an earlier model any more."""

TIMES = hb.indexes.IndexTimes(lease=0.2, longest_call=0.2, clock_bound=0.1, grace=1)


def declare(
    kind: str,
    *,
    optional: bool,
    null: str | None = None,
    default: bool = False,
    renamed: bool = False,
    index: bool = False,
) -> Any:
    """A model whose field `note` may be None if `optional`."""
    note = {} if not optional else {**({"default": None} if default else {}), **({"null": null} if null else {})}
    if renamed:
        note["renamed_from"] = "note"
    name = "remark" if renamed else "note"
    body: dict[str, Any] = {"name": hb.key(), name: hb.column("n", **note)}
    types: dict[str, Any] = {"name": hb.Key[str], name: hb.Column[str | None] if optional else hb.Column[str]}
    options: dict[str, Any] = {}
    if kind != "alone":
        body["count"] = hb.column("c")
        types["count"] = hb.Column[int]
    if kind == "flag":
        options["exists"] = hb.flag("e")
    if kind == "external":
        options["external"] = True
    if kind == "wide":
        body = {"row": hb.key(), **body, "name": hb.key(in_qualifier=True)}
        types = {"row": hb.Key[int], **types}
    if kind == "versioned":
        body["version"], types["version"] = hb.version(), hb.Column[int]
    if kind in {"indexed", "versioned", "covering"}:
        body["by_count"] = hb.index("count", covers=("note",) if kind == "covering" else ())
    if index:
        body["by_note"] = hb.index(name)
    made = type("Thing", (), {**body, "__annotations__": types})
    return hb.model(table=f"nullable_{kind}", family="d", **options)(made)


KINDS = ("plain", "alone", "flag", "external", "wide", "indexed", "versioned", "covering")


def thing(model: Any, name: str, note: str | None) -> Any:
    fields = {f.name for f in schema_of(model).fields}
    values = {"name": name, "note": note, "remark": note, "count": 1, "row": 5}
    return model(**{field: value for field, value in values.items() if field in fields})


def key(model: Any, name: str) -> dict[str, Any]:
    return {"name": name, **({"row": 5} if "row" in schema_of(model).layout.names else {})}


def prepared(store: hb.Store, model: Any) -> None:
    """A table with rows of the earlier model."""
    schema = schema_of(model)
    if schema.external:
        store.create_table(schema.table, [Family(b"d")])
    hb.create_tables(store, model)
    with hb.Session(store, lease=TIMES.lease) as session:
        session.add_all(thing(model, name, note) for name, note in ROWS.items())


def notes(session: hb.Session, model: Any) -> dict[str, Any]:
    found = session.query(model).allow_full_scan().all()
    return {each.name: each.remark if hasattr(each, "remark") else each.note for each in found}


ABSENT = {"null": "delete", "default": True}
FORMS = [
    *((kind, form) for kind in KINDS if kind != "external" for form in ({}, {"default": True})),
    *((kind, ABSENT) for kind in ("plain", "alone", "flag")),
    ("external", {"default": True}),
]


@pytest.mark.parametrize(("kind", "form"), FORMS, ids=str)
def test_a_column_may_be_none_after_an_alteration(atomic_bed: Bed, kind: str, form: dict[str, Any]) -> None:
    store, before, after = atomic_bed.store, declare(kind, optional=False), declare(kind, optional=True, **form)
    table = schema_of(before).table
    for each in {table, f"{table}.by_count"} & set(store.tables()):
        store.delete_table(each)
    with suppress(hb.errors.TableNotFound):
        hb.tables.forget(store, table)
    prepared(store, before)
    with hb.Session(store, lease=0) as new, hb.Session(store, lease=0) as old:
        # the new model reads and writes everything but None, beside the earlier one
        assert notes(new, after) == ROWS
        new.add(thing(after, "c", "new"))
        new.update_key(after, **key(after, "a"), note="other")
        new.commit()
        assert notes(old, before) == {**ROWS, "a": "other", "c": "new"}
        writes: list[Callable[[], Any]] = [
            lambda: new.add(thing(after, "d", None)),
            lambda: new.update_key(after, **key(after, "a"), note=None),
        ]
        for write in writes:
            write()
            with pytest.raises(hb.SchemaMismatch, match=r"None in this column yet: .* call hb.alter\(\)") as refused:
                new.commit()
            assert refused.value.field == "note"
            new.discard()
        with pytest.raises(hb.SchemaMismatch, match="None in this column yet"):
            new.put(after, **key(after, "a"), note=None, **({} if kind == "alone" else {"count": 1}))
        if kind != "alone":
            with pytest.raises(hb.SchemaMismatch, match="None in this column yet"):
                new.insert(thing(after, "d", None))
        assert notes(old, before) == {**ROWS, "a": "other", "c": "new"}

        [line] = [str(each) for each in hb.diff(store, after, registry="hbmodel") if "nullable" in each.what]
        assert line.startswith(f"~ nullable_{kind}: column d:n nullable: no -> yes (its bytes stay the same")
        altered = hb.alter(store, after, times=TIMES)
        assert [each.what for each in altered.applied] == ["column d:n nullable"]
        assert not hb.diff(store, after)

        new.add(thing(after, "d", None))
        new.update_key(after, **key(after, "a"), note=None)
        new.commit()
        if kind != "alone":
            new.insert(thing(after, "f", None))
        else:
            new.add(thing(after, "f", None))
            new.commit()
        assert notes(new, after) == {"a": None, "b": "\0", "e": "", "c": "new", "d": None, "f": None}
        empty = new.query(after).where(after.note.is_(None)).allow_full_scan().all()
        assert {each.name for each in empty} == {"a", "d", "f"}
        if kind in {"indexed", "versioned", "covering"}:
            by_count = new.query(after).where(after.count == 1).use_index("by_count")
            assert {each.name: each.note for each in by_count} == notes(new, after)
        new.update_key(after, **key(after, "d"), note="set")
        new.delete_key(after, **key(after, "f"))
        new.commit()
        assert new.get(after, **key(after, "d")).note == "set"
        assert new.get(after, **key(after, "f")) is None

        for use in (lambda: old.get(before, **key(before, "b")), lambda: old.insert(thing(before, "a", "mine"))):
            with pytest.raises(hb.SchemaMismatch) as refused:
                use()
            assert any("column d:n nullable: declared no, live yes" in line for line in refused.value.differences)
    with pytest.raises(hb.SchemaMismatch):
        hb.alter(store, before, times=TIMES)


@pytest.fixture
def memory() -> Iterator[hb.Store]:
    with hb.connect("memory:") as store:
        yield store


def test_the_field_may_get_another_name_too(memory: hb.Store) -> None:
    before, after = declare("plain", optional=False), declare("plain", optional=True, renamed=True)
    prepared(memory, before)
    with hb.Session(memory, lease=0) as session:
        assert notes(session, after) == ROWS
        hb.alter(memory, after, times=TIMES)
        session.add(thing(after, "a", None))
        session.commit()
        assert session.get(after, name="a").remark is None
    assert not hb.diff(memory, after)


def test_an_index_on_the_column_must_be_built_anew(memory: hb.Store) -> None:
    before, after = declare("plain", optional=False, index=True), declare("plain", optional=True, index=True)
    prepared(memory, before)
    with pytest.raises(hb.SchemaMismatch) as refused:
        hb.alter(memory, after, times=TIMES)
    assert any("index by_note" in line for line in refused.value.differences)
    without = declare("plain", optional=True)
    hb.alter(memory, without, times=TIMES, drop=True)
    hb.alter(memory, after, times=TIMES)
    with hb.Session(memory, lease=0) as session:
        session.add(thing(after, "n", None))
        session.commit()
        hb.indexes.build_index(memory, after, "by_note", times=TIMES)
    with hb.Session(memory, lease=0) as session:
        assert [each.name for each in session.query(after).where(after.note.is_(None))] == ["n"]
        assert [each.name for each in session.query(after).where(after.note == "text")] == ["a"]


def test_a_column_cannot_be_required_again(memory: hb.Store) -> None:
    before, after = declare("plain", optional=False), declare("plain", optional=True)
    prepared(memory, after)
    assert [each.effect for each in hb.diff(memory, before)] == ["refused"]
    with pytest.raises(hb.SchemaMismatch):
        hb.create_tables(memory, before)


def test_how_none_is_stored_cannot_change(memory: hb.Store) -> None:
    prepared(memory, declare("plain", optional=True))
    with pytest.raises(hb.SchemaMismatch) as refused:
        hb.alter(memory, declare("plain", optional=True, **ABSENT), times=TIMES)
    assert any("column d:n null: " in line for line in refused.value.differences), refused.value.differences


def test_another_codec_is_still_refused(memory: hb.Store) -> None:
    prepared(memory, declare("plain", optional=False))

    @hb.model(table="nullable_plain", family="d")
    class Other:
        name: hb.Key[str] = hb.key()
        note: hb.Column[int | None] = hb.column("n")
        count: hb.Column[int] = hb.column("c")

    with pytest.raises(hb.SchemaMismatch):
        hb.alter(memory, Other, times=TIMES)


@pytest.mark.lengthy
def test_a_crash_at_any_call_of_an_alteration_is_finished_by_the_next_one() -> None:
    before, after = declare("plain", optional=False), declare("plain", optional=True)
    for at in range(1000):
        with hb.connect("memory:") as inner:
            prepared(inner, before)
            recorded = RecordingStore(inner)
            failing = FaultyStore(recorded, at, "after")
            try:
                hb.alter(failing, after, times=TIMES)
                done = True
            except (StoreUnavailable, hb.UnknownOutcome):
                done = False
            with hb.Session(inner, lease=0) as session:
                assert set(notes(session, after)) == {"a", "b", "e"}
            hb.alter(inner, after, times=TIMES)
            assert not hb.diff(inner, after)
            with hb.Session(inner, lease=0) as session:
                session.add(thing(after, "a", None))
                session.commit()
                assert session.get(after, name="a").note is None
        if done:
            assert at > 3
            return


@pytest.mark.lengthy
def test_an_alteration_waits_for_programs_that_write_with_the_earlier_model(memory: hb.Store) -> None:
    """Such a program could insert over a row in which the column is None."""
    store = RecordingStore(memory, gated=False)
    before, after = declare("plain", optional=False), declare("plain", optional=True)
    prepared(store, before)
    entered, leave = threading.Event(), threading.Event()

    class Slow(RecordingStore):
        def put(self, table: str, puts: Any) -> None:
            if table == "nullable_plain":
                entered.set()
                assert leave.wait(60)
            super().put(table, puts)

    times = hb.indexes.IndexTimes(lease=1, longest_call=60, clock_bound=0.1, grace=200)
    with hb.Session(Slow(memory, gated=False), lease=times.lease) as old:
        old.add(thing(before, "z", "late"))
        writer = threading.Thread(target=old.commit)
        writer.start()
        assert entered.wait(60)
        waits: list[Any] = []
        altering = threading.Thread(target=lambda: hb.alter(store, after, times=times, progress=waits.append))
        altering.start()
        assert comes_true(lambda: bool(waits))
        with hb.Session(memory, lease=0) as new:
            new.add(thing(after, "z", None))
            with pytest.raises(hb.SchemaMismatch, match="None in this column yet"):
                new.commit()  # it still waits
            new.discard()
        leave.set()
        writer.join()
        altering.join()
        assert waits[0].phase == "waiting"
        with hb.Session(memory, lease=0) as new:
            assert new.get(after, name="z").note == "late"
            new.add(thing(after, "z", None))
            new.commit()
        with pytest.raises(hb.SchemaMismatch):
            old.insert(thing(before, "z", "mine"))
        old.discard()


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("kind", ["plain", "alone"])
def test_an_alteration_waits_for_programs_that_read_with_the_earlier_model(
    memory: hb.Store, kind: str, gated: bool
) -> None:
    """Such a program could not read a row with None, or would not find it."""
    store = RecordingStore(memory, gated=gated)
    before, after = declare(kind, optional=False), declare(kind, optional=True, **ABSENT)
    prepared(store, before)
    with hb.Session(store, lease=TIMES.lease) as old, hb.Session(store, lease=0) as new:
        assert notes(old, before) == ROWS
        hb.alter(store, after, times=TIMES)
        new.update_key(after, name="a", note=None)
        new.commit()
        for read in (lambda: old.get(before, name="a"), lambda: notes(old, before)):
            with pytest.raises(hb.SchemaMismatch):
                read()


@pytest.mark.lengthy
@pytest.mark.parametrize("gated", [False, True])
def test_an_open_session_may_soon_write_none(memory: hb.Store, gated: bool) -> None:
    store = RecordingStore(memory, gated=gated)
    before, after = declare("plain", optional=False), declare("plain", optional=True)
    prepared(store, before)

    def writes_none(session: hb.Session) -> bool:
        session.update_key(after, name="a", note=None)
        try:
            session.commit()
        except hb.SchemaMismatch:
            session.discard()
            return False
        return True

    with hb.Session(store, lease=60) as session:
        assert not writes_none(session)
        hb.alter(memory, after, times=TIMES)
        assert comes_true(lambda: writes_none(session))


@pytest.mark.parametrize("form", [{}, {"default": True}, ABSENT], ids=str)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("field", ["note", "count"])
def test_an_update_beside_a_delete_leaves_nothing_that_the_earlier_model_cannot_read(
    memory: hb.Store, form: dict[str, Any], gated: bool, field: str
) -> None:
    before, after = declare("plain", optional=False), declare("plain", optional=True, **form)
    deleting = RecordingStore(memory, gated=gated)
    prepared(deleting, before)

    class Deleted(RecordingStore):
        """A store in which another program deletes the row directly before the first change of it."""

        pending = True

        def delete_first(self, table: str) -> None:
            if self.pending and table == "nullable_plain":
                self.pending = False
                with hb.Session(deleting) as old:
                    old.delete_key(before, name="a")

        def put(self, table: str, puts: Any) -> None:
            self.delete_first(table)
            super().put(table, puts)

        def check_and_mutate(self, table: str, row: bytes, column: bytes, expected: Any, mutations: Any) -> bool:
            self.delete_first(table)
            return super().check_and_mutate(table, row, column, expected, mutations)

    with hb.Session(Deleted(memory, gated=gated), lease=0) as new, hb.Session(memory, lease=0) as old:
        new.update_key(after, name="a", **{field: "new" if field == "note" else 2})
        with suppress(hb.RowNotFound):
            new.commit()
        new.discard()
        for model in (before, after):
            assert set(notes(old, model)) == {"b", "e"}
            assert old.get(model, name="a") is None


@pytest.mark.lengthy
def test_two_alterations_wait_for_their_own_columns_only(memory: hb.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def declared(*optional: str) -> Any:
        body: dict[str, Any] = {"name": hb.key(), "one": hb.column(), "two": hb.column()}
        types: dict[str, Any] = {field: hb.Column[str | None if field in optional else str] for field in ("one", "two")}
        body["__annotations__"] = {"name": hb.Key[str], **types}
        return hb.model(table="nullable_two", family="d")(type("Two", (), body))

    first, second = declared("one"), declared("one", "two")
    hb.create_tables(memory, declared())

    def other_begins(registry: Registry, *args: Any) -> None:
        monkeypatch.setattr(ALLOWS, allow_none)
        declare_nullable(registry, schema_of(second))
        allow_none(registry, *args)

    monkeypatch.setattr(ALLOWS, other_begins)
    with suppress(hb.SchemaMismatch):  # the other model is already registered
        hb.alter(memory, first, times=TIMES)
    with hb.Session(memory, lease=0) as session:
        session.add(second(name="a", one=None, two="text"))
        session.commit()
        session.update_key(second, name="a", two=None)
        with pytest.raises(hb.SchemaMismatch, match="None in this column yet"):
            session.commit()
        session.discard()
        hb.alter(memory, second, times=TIMES)
        session.update_key(second, name="a", two=None)
        session.commit()


@pytest.mark.lengthy
@pytest.mark.parametrize("declared_before", [False, True])
def test_objects_do_not_move_while_none_must_wait(memory: hb.Store, declared_before: bool) -> None:
    """After a rollback, programs with the earlier model could not read rows with None."""
    before, after = declare("versioned", optional=False), declare("versioned", optional=True)
    prepared(memory, before)
    if declared_before:
        declare_nullable(Registry(memory), schema_of(after))
    body = {"name": hb.key(), "note": hb.column("n"), "count": hb.column("c"), "version": hb.version()}
    types = {"name": hb.Key[str], "note": hb.Column[str | None], "count": hb.Column[int], "version": hb.Column[int]}
    made = type("Moved", (), {**body, "by_count": hb.index("count"), "__annotations__": types})
    moved = hb.model(table="nullable_moved", family="d", salt=hb.HashSalt(2), replaces=after)(made)
    with pytest.raises(hb.SchemaMismatch, match=r"call hb.alter\(\) with the model of the old table first"):
        hb.migration.migrate(memory, moved, times=TIMES).start()
    hb.alter(memory, after, times=TIMES)
    hb.migration.migrate(memory, moved, times=TIMES).start()
    with hb.Session(memory, lease=0) as session:
        session.update_key(moved, name="a", note=None)
        session.commit()
        assert session.get(moved, name="a").note is None


def test_a_model_from_the_registry_reads_the_table_meanwhile(memory: hb.Store) -> None:
    before, after = declare("plain", optional=False), declare("plain", optional=True)
    prepared(memory, before)
    declare_nullable(Registry(memory), schema_of(after))
    layout = json.loads(memory.get("hbmodel", [b"nullable_plain\0d"])[0].columns[b"m:layout"].value)  # type: ignore[union-attr]
    assert layout["waiting"] == ["d:n"]
    model = TableFromRegistry.find(Registry(memory), "nullable_plain").model
    with hb.Session(memory, lease=0) as session:
        assert notes(session, model) == ROWS
    hb.alter(memory, after, times=TIMES)
    assert not hb.diff(memory, after)


def test_a_column_may_not_become_none_while_the_objects_move(memory: hb.Store) -> None:
    before, after = declare("plain", optional=False), declare("plain", optional=True)
    prepared(memory, before)
    body = {"name": hb.key(), "note": hb.column("n"), "count": hb.column("c")}
    types = {"name": hb.Key[str], "note": hb.Column[str], "count": hb.Column[int]}
    made = type("Moved", (), {**body, "__annotations__": types})
    moved = hb.model(table="nullable_moved", family="d", salt=hb.HashSalt(2), replaces=before)(made)
    hb.create_tables(memory, moved)
    moving = hb.migration.migrate(memory, moved, times=TIMES, offline=True)
    moving.start()
    with pytest.raises(hb.errors.MigrationError, match="finish the migration, or roll it back"):
        hb.alter(memory, after, times=TIMES)
    body = {**body, "note": hb.column("n", default=None), "more": hb.column("m", default=0, family="e")}
    types = {**types, "note": hb.Column[str | None], "more": hb.Column[int]}
    wider = hb.model(table="nullable_plain", family="d")(type("Wider", (), {**body, "__annotations__": types}))
    with pytest.raises(hb.errors.MigrationError):
        hb.alter(memory, wider, times=TIMES)
    assert [family.name for family in memory.families("nullable_plain")] == [b"d"]  # nothing was changed
    moving.roll_back()
    hb.alter(memory, after, times=TIMES)
    with hb.Session(memory, lease=0) as session:
        session.add(thing(after, "a", None))
        session.commit()
        assert session.get(after, name="a").note is None


def test_a_column_of_the_new_table_may_become_none_once_the_model_replaces_none(memory: hb.Store) -> None:
    before = declare("plain", optional=False)
    prepared(memory, before)

    def new(optional: bool, **options: Any) -> Any:
        hint = hb.Column[str | None] if optional else hb.Column[str]
        note = hb.column("n", default=None) if optional else hb.column("n")
        body = {"name": hb.key(), "note": note, "count": hb.column("c")}
        body["__annotations__"] = {"name": hb.Key[str], "note": hint, "count": hb.Column[int]}
        return hb.model(table="nullable_moved", family="d", salt=hb.HashSalt(2), **options)(type("Moved", (), body))

    moving = hb.migration.migrate(memory, new(False, replaces=before), times=TIMES, offline=True)
    moving.start()
    for _ in range(2):
        (found,) = hb.diff(memory, new(True, replaces=before))
        assert (found.effect, found.what) == ("refused", "column d:n nullable")
        with pytest.raises(hb.SchemaMismatch, match="remove replaces= from the model, and repeat the call"):
            hb.alter(memory, new(True, replaces=before), times=TIMES)
        moving.cut_over()
    hb.alter(memory, new(True), times=TIMES)
    with hb.Session(memory, lease=0) as session:
        session.add(thing(new(True), "a", None))


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("codec", KEY_CODECS, ids=str)
def test_a_value_has_the_same_bytes_in_a_column_that_may_be_none(codec: Any, external: bool) -> None:
    def declared(hint: Any, **options: Any) -> Any:
        body = {"name": hb.key(), "value": hb.column("v", codec, **options)}
        body["__annotations__"] = {"name": hb.Key[str], "value": hb.Column[hint]}
        return hb.model(table="same", family="d", external=external)(type("Same", (), body))

    kinds = codec.python_type if isinstance(codec.python_type, tuple) else (codec.python_type,)
    before, after = declared(reduce(or_, kinds)), declared(reduce(or_, kinds) | None, default=None)

    @settings(max_examples=examples(10))
    @given(values_of(codec))
    def same(value: Any) -> None:
        one, two = (cells_of(schema_of(model), model(name="x", value=value)) for model in (before, after))
        assert one == two

    same()
