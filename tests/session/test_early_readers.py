"""Sessions that still read a table as it was before its first index, while others write it as an indexed one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.store import Family, Put
from hbmodel.store.gate import gated
from hbmodel.store.wide.folded import folded
from hbmodel.tables.registry.registration import RowState
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.binding_cache import BindingCache
from tests.support.beds import Bed, cells_of, drop_left, fresh, set_state
from tests.support.examples import examples, in_turn
from tests.support.faulty import Call, RecordingStore

HOUR = timedelta(hours=1)

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "salted": {"salt": hb.HashSalt(4, by=("name",))},
    "flagged": {"exists": hb.flag("e")},
    "nothing required": {"rank": "optional"},
    "empty values": {"rank": "text"},
    "two families": {"rank": "elsewhere"},
    "counter": {"views": True},
    "counter alone": {"rank": "optional", "views": True},
    "map column": {"marks": True},
    "versions": {"rank": "versions"},
    "wide": {"in_qualifier": True},
    "wide, flagged": {"in_qualifier": True, "exists": hb.flag("e")},
    "wide, nothing required": {"in_qualifier": True, "rank": "optional"},
    "a kind": {"in_qualifier": True, "kind": b"p"},
    "one row": {"row": b"all"},
}
"""What each kind of model is declared with."""

ENDING = [kind for kind, declared in KINDS.items() if not declared.keys() & {"views", "marks"}]
"""The kinds that take a TTL."""

RANKS: dict[str, Any] = {
    "required": (hb.Column[int], lambda: hb.column("r", hb.codecs.UInt8)),
    "optional": (hb.Column[int | None], lambda: hb.column("r", hb.codecs.UInt8, default=None)),
    "text": (hb.Column[str], lambda: hb.column("r")),
    "versions": (hb.Column[int], lambda: hb.column("r", hb.codecs.UInt8, versions=3)),
    "elsewhere": (hb.Column[int], lambda: hb.column("r", hb.codecs.UInt8, family="w")),
}


def declare(kind: str, table: str, indexed: bool) -> Any:
    """A model of this kind, with its index or before it had one."""
    declared = dict(KINDS[kind])
    of_rank, rank = RANKS[declared.pop("rank", "required")]
    in_qualifier = declared.pop("in_qualifier", False)
    every = "row" in declared
    types: dict[str, Any] = {"group": hb.Key[str], "name": hb.Key[str], "note": hb.Column[str | None], "rank": of_rank}
    body: dict[str, Any] = {
        "group": hb.key(in_qualifier=every), "name": hb.key(in_qualifier=every or in_qualifier),
        "note": hb.column("n", default=None), "rank": rank(),
    }  # fmt: skip
    if declared.pop("views", False):
        body["views"], types["views"] = hb.counter("v"), hb.Column[int]
    if declared.pop("marks", False):
        body["marks"], types["marks"] = hb.map_column("m"), hb.Map[str, str]
    if indexed:
        body["by_rank"] = hb.index("rank")
    return hb.model(table=table, family="d", **declared)(type("Thing", (), {**body, "__annotations__": types}))


@frozen
class Table:
    """A table that gets its first index, and the sessions around it.

    Attributes:
        store: with the table.
        old: the model before it had an index.
        new: the model with it.
        kind: of the model.
    """

    store: RecordingStore
    old: Any
    new: Any
    kind: str

    @classmethod
    def of(cls, store: RecordingStore, kind: str) -> Table:
        name = f"early-{uuid4().hex[:10]}"
        made = cls(store, declare(kind, name, False), declare(kind, name, True), kind)
        hb.create_tables(store, made.old)
        return made

    def early(self) -> hb.Session:
        """A session that will never notice that the table has changed."""
        cache = BindingCache(60, running=lambda: 0)
        for model in (self.old, self.new):
            assert cache.binding(hb.schema.schema_of(model), Registry(self.store)).rows == "unindexed"
        return hb.Session(self.store, cache=cache)

    def write_by(self, state: RowState) -> None:
        """Has sessions opened from now on write by a state of the rows."""
        schema, registry = hb.schema.schema_of(self.new), Registry(self.store)
        index = schema.indexes["by_rank"]
        if state in ("mixed", "adopting") and index.table not in self.store.tables():
            self.store.create_table(index.table, [Family(b"d")])
            set_state(self.store, self.new, "by_rank", "write-only")
        found = registry.read(schema)
        assert found is not None
        assert registry.change_rows(schema, found, state)

    def index(self) -> None:
        """Builds the index."""
        times = (
            hb.indexes.IndexTimes()
            if self.store.capabilities.gated_writes
            else hb.indexes.IndexTimes(lease=0.02, longest_call=0.02)
        )
        assert hb.indexes.build_index(self.store, self.new, "by_rank", times=times).readable

    def thing(self, name: str, rank: int = 0, note: str | None = None, **more: Any) -> Any:
        value: Any = "x" * rank if KINDS[self.kind].get("rank") == "text" else rank
        return self.new(group="g", name=name, rank=value, note=note, **more)

    def update_late(self, name: str) -> None:
        """An update of all columns that was on its way when its row was deleted."""
        schema, values = hb.schema.schema_of(self.new), self.thing(name, 7, "late")
        (place,) = KeyMapper(schema).rows(("g", name))
        cells = {of.column: of.encode_cell(getattr(values, of.name)) for of in schema.columns if of.kind == "column"}
        folded(self.store, schema.wide_rows).put(schema.table, [Put(place, cells)])


def read(session: hb.Session, model: Any, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Every way to read the objects of a model, by a name."""
    everything = session.query(model).allow_full_scan()
    group = session.query(model).where(model.group == "g")

    def values(found: Any) -> Any:
        """Objects of the old model and of the new one look the same."""
        return [None if one is None else {**vars(one), "marks": None} for one in found]

    yield "get", values(session.get(model, group="g", name=name) for name in names)
    yield "get_many", values(session.get_many(model, [("g", name) for name in names]))
    for name, query in (("all", everything), ("group", group)):
        yield f"{name}: scan", values(query)
        yield f"{name}: backwards", values(query.reversed())
        yield f"{name}: count", query.count()
        yield f"{name}: exists", query.exists()
        yield f"{name}: first", values([query.first(), query.last()])
        yield f"{name}: limit", (values(query.limit(2).offset(1)), query.limit(3).count())
        yield f"{name}: noted", values(query.where(model.note == "x"))
        yield (
            f"{name}: not noted",
            (values(query.where(model.note.is_(None))), query.where(model.note.is_(None)).count()),
        )
        yield f"{name}: keys", query.select(model.name).all()
        yield f"{name}: notes", query.select(model.name, model.note).all()
        yield f"{name}: ranks", query.select(model.rank).all()
        yield (
            f"{name}: named",
            [(query.where(model.name == one).exists(), query.where(model.name == one).count()) for one in names],
        )
        yield f"{name}: some", values(query.where(model.name.in_(names[::2])))
        yield f"{name}: pages", values(_paged(query))
        yield f"{name}: parts", sorted(one.name for part in query.partitions(3) for one in session.read_partition(part))
    yield "first of each", values(session.query(model).first_of_each(model.group, ["g", "h"]))
    yield "first of each name", values(group.first_of_each(model.name, names))


def _paged(query: Any) -> Iterator[Any]:
    token = None
    while True:
        page = query.page(2, after=token)
        yield from page.items
        token = page.next_token
        if token is None:
            return


def check(table: Table, early: hb.Session, names: Sequence[str], expected: Sequence[str]) -> None:
    """A session that does not know the index reads these objects, like a session that was just opened."""
    now = hb.Session(table.store)
    assert [one.name for one in now.query(table.new).allow_full_scan()] == [*expected]
    for model in (table.old, table.new):
        truth = dict(read(now, model, names))
        for way, found in read(early, model, names):
            assert found == truth[way], way


NAMES = ["added", "again", "blank", "changed", "ends", "gone", "left", "moved", "stays", "target", "was"]


STATES: Sequence[RowState] = ("mixed", "adopting", "indexed")


def written_by_others(store: RecordingStore, kind: str, state: RowState) -> None:
    """Rows that others delete, blank, move and put as rows of an indexed table, before a session that knows of no
    index.
    """
    table, atomic = Table.of(store, kind), store.capabilities.check_and_mutate
    first = hb.Session(store)
    first.add_all(
        table.thing(name, at, "x")
        for at, name in enumerate(["again", "blank", "changed", "gone", "left", "moved", "stays"], 1)
    )
    first.commit()
    early = table.early()
    hb.create_tables(store, table.new)
    if state == "indexed":
        table.index()
    else:
        table.write_by(state)
    other = hb.Session(store, atomic_rows=False)
    for name in ("gone", "left", "again"):
        other.delete_key(table.new, group="g", name=name)
    other.update_key(table.new, group="g", name="blank", note=None)
    other.update_key(table.new, group="g", name="changed", note="y", rank=table.thing("changed", 9).rank)
    other.add_all([table.thing("added", 3), table.thing("was", 4)])
    other.commit()
    other.delete_key(table.new, group="g", name="was")
    other.add(table.thing("again", 0, "x"))
    other.commit()
    if atomic:
        other.rekey(other.get(table.new, group="g", name="moved"), name="target")
    else:
        other.add(table.thing("target", 6, "x"))
        other.delete_key(table.new, group="g", name="moved")
        other.commit()
    ends = ["ends"] if kind in ENDING and atomic else []
    if ends:
        other.add(table.thing("ends", 5, "x"), ttl=HOUR)
        other.commit()
    table.update_late("left")
    check(table, early, NAMES, ["added", "again", "blank", "changed", *ends, "stays", "target"])


@pytest.mark.lengthy
@pytest.mark.parametrize(("kind", "state"), in_turn([*KINDS], STATES))
def test_a_session_that_knows_of_no_index_reads_what_is_there(kind: str, state: RowState) -> None:
    with fresh() as store:
        written_by_others(store, kind, state)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("plain", "indexed"),
        ("flagged", "mixed"),
        ("nothing required", "adopting"),
        ("two families", "adopting"),
        ("wide", "adopting"),
    ],
)
def test_so_it_does_in_every_store(bed: Bed, kind: str, state: RowState) -> None:
    written_by_others(bed.store, kind, state)
    drop_left(bed.store, *(table for table in bed.store.tables() if table.startswith("early-")))


ADVANCES: Sequence[RowState] = ("marking", "mixed", "adopting", "indexed")


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=examples(8), deadline=None)
def test_it_reads_what_is_there_whatever_is_written(kind: str, data: st.DataObject) -> None:
    """Writes under one state after the other, with a session that knows only the first state."""
    names, there = ["a", "b", "c"], set[str]()
    with fresh() as store:
        table = Table.of(store, kind)
        early = table.early()
        hb.create_tables(store, table.new)
        advances = iter(ADVANCES)
        session = hb.Session(store)
        for _ in range(data.draw(st.integers(1, 12), "steps")):
            step = data.draw(
                st.sampled_from(["advance", "add", "expiring", "delete", "note", "blank", "rank", "rekey", "insert"]),
                "step",
            )
            name = data.draw(st.sampled_from(names), "name")
            note = data.draw(st.sampled_from(["x", None]), "note")
            if step == "advance":
                if (state := next(advances, None)) is not None:
                    table.index() if state == "indexed" else table.write_by(state)
                    session = hb.Session(store)
            elif step == "delete":
                session.delete_key(table.new, group="g", name=name)
                there.discard(name)
            elif step == "expiring" and kind in ENDING:
                session.add(table.thing(name, 1, note), ttl=HOUR)
                there.add(name)
            elif step == "insert" and name not in there and KINDS[kind].get("rank") not in ("optional", "text"):
                session.insert(table.thing(name, 2, note))
                there.add(name)
            elif step == "rekey" and name in there and KINDS[kind].get("rank") not in ("optional", "text"):
                if free := sorted({*names} - there):
                    session.rekey(session.get(table.new, group="g", name=name), name=free[0])
                    there ^= {name, free[0]}
            elif step in ("note", "blank", "rank") and name in there:
                changes = (
                    {"note": note}
                    if step == "note"
                    else {"note": None}
                    if step == "blank"
                    else {"rank": table.thing(name, 7).rank}
                )
                session.update_key(table.new, group="g", name=name, **changes)
            elif step == "add":
                session.add(table.thing(name, 3, note))
                there.add(name)
            session.commit()
        check(table, early, names, sorted(there))


def early_and_late(kind: str, *names: str, **more: Any) -> tuple[Table, hb.Session, hb.Session]:
    """A table with these rows and an index, a session that does not know the index, and one that does."""
    table = Table.of(fresh(), kind)
    with hb.Session(table.store) as session:
        session.add_all(table.thing(name, 1, "x", **more) for name in names)
    early = table.early()
    hb.create_tables(table.store, table.new)
    table.index()
    return table, early, hb.Session(table.store)


def test_its_increments_find_the_rows_that_are_there() -> None:
    table, early, late = early_and_late("counter", "gone", "stays")
    late.delete_key(table.new, group="g", name="gone")
    late.commit()
    assert early.increment(table.thing("stays"), table.new.views, 2) == 2
    with pytest.raises(hb.RowNotFound):
        early.increment(table.thing("gone"), table.new.views)
    assert late.get(table.new, group="g", name="stays").views == 2


def test_its_increments_create_no_row_without_system_cells() -> None:
    table, early, late = early_and_late("counter alone", "stays")
    with pytest.raises(hb.RowNotFound):
        early.increment(table.thing("new"), table.new.views)
    assert early.increment(table.thing("stays"), table.new.views) == 1
    assert [one.name for one in late.query(table.new).allow_full_scan()] == ["stays"]


def test_it_reads_no_entries_of_an_object_that_was_deleted() -> None:
    table, early, late = early_and_late("map column", "gone", "stays", marks={"a": "1", "b": "2"})
    late.delete_key(table.new, group="g", name="gone")
    late.commit()
    for model in (table.old, table.new):
        assert dict(early.entries(model.marks, group="g", name="stays")) == {"a": "1", "b": "2"}
        assert dict(early.entries(model.marks, group="g", name="gone")) == {}
        loaded = early.query(model).where(model.group == "g").load(model.marks).all()
        assert [(one.name, dict(one.marks)) for one in loaded] == [("stays", {"a": "1", "b": "2"})]


def test_it_reads_the_versions_of_the_object_that_is_there() -> None:
    table, early, late = early_and_late("versions", "again", "gone")
    for name in ("again", "gone"):
        late.delete_key(table.new, group="g", name=name)
    late.commit()
    late.add(table.thing("again", 5))
    late.commit()
    for model in (table.old, table.new):
        assert [version.value for version in early.versions(model, model.rank, group="g", name="again")] == [5]
        assert list(early.versions(model, model.rank, group="g", name="gone")) == []


def test_it_deletes_the_rows_that_are_there() -> None:
    table, early, late = early_and_late("plain", "gone", "stays")
    late.delete_key(table.new, group="g", name="gone")
    late.commit()
    assert early.query(table.new).where(table.new.group == "g").delete() == 1
    assert late.query(table.new).allow_full_scan().all() == []


def test_it_writes_by_what_the_registry_says() -> None:
    """Where every write looks there inside its transaction: what it has read before is not enough."""
    table, early, late = early_and_late("plain", "gone", "stays", "taken")
    for name in ("gone", "taken"):
        late.delete_key(table.new, group="g", name=name)
    late.commit()
    early.update_key(table.new, group="g", name="gone", note="late")
    with pytest.raises(hb.RowNotFound):
        early.commit()
    early.discard()
    early.insert(table.thing("taken", 8))
    assert [one.name for one in late.query(table.new).where(table.new.rank == 8).use_index("by_rank")] == ["taken"]
    assert [one.name for one in late.query(table.new).allow_full_scan()] == ["stays", "taken"]


def test_it_prepends_before_the_first_row_that_is_there() -> None:
    def declare_notes(indexed: bool) -> Any:
        class Note:
            topic: hb.Key[str] = hb.key()
            number: hb.Key[int] = hb.key(hb.codecs.UInt8)
            text: hb.Column[int] = hb.column("t", hb.codecs.UInt8)

            if indexed:
                by_text = hb.index("text")

        return hb.model(table="notes", family="d")(Note)

    old, new = declare_notes(indexed=False), declare_notes(indexed=True)
    with fresh(old) as store:
        with hb.Session(store) as session:
            session.add_all(old(topic="a", number=number, text=1) for number in (100, 200))
        early = hb.Session(store, cache=BindingCache(60, running=lambda: 0))
        assert early.query(new).allow_full_scan().count() == 2
        hb.create_tables(store, new)
        assert hb.indexes.build_index(store, new, "by_text").readable
        with hb.Session(store) as late:
            late.delete_key(new, topic="a", number=100)
        assert early.prepend(new, topic="a", text=2).number == 199


def test_an_external_model_reads_a_table_that_has_an_index() -> None:
    table, _, late = early_and_late("plain", "gone", "stays")
    fields = {
        "group": hb.key(),
        "name": hb.key(),
        "rank": hb.column("r", hb.codecs.UInt8),
        "__annotations__": {"group": hb.Key[str], "name": hb.Key[str], "rank": hb.Column[int]},
    }
    declare = hb.model(table=hb.schema.schema_of(table.new).table, family="d", external=True)
    external: Any = declare(type("Theirs", (), dict(fields)))
    late.delete_key(table.new, group="g", name="gone")
    late.commit()
    stays = late.get(external, group="g", name="stays")
    assert late.get_many(external, [("g", "gone"), ("g", "stays")]) == [
        late.get(external, group="g", name="gone"),
        stays,
    ]
    for query in (late.query(external).allow_full_scan(), late.query(external).where(external.group == "g")):
        assert query.all() == query.reversed().all() == query.page(5).items == [stays]
        assert (query.count(), query.exists(), query.first(), query.select(external.name).all()) == (
            1, True, stays, [("stays",)],
        )  # fmt: skip
    # None is an empty cell in the table, and would be an empty value of the external model
    hints = {**fields["__annotations__"], "note": hb.Column[str | None]}  # type: ignore[dict-item]
    other: Any = declare(type("Other", (), {**fields, "note": hb.column("n", default=None), "__annotations__": hints}))
    with pytest.raises(hb.SchemaMismatch, match="null: declared absent, live marker"):
        late.get(other, group="g", name="stays")


class Beside(RecordingStore):
    """Another program puts an object when the first write is on its way."""

    act: Any = None

    def _do(self, call: Call, apply: Any) -> Any:
        if self.act is not None and call.writes:
            act, self.act = self.act, None
            with gated(None):
                act()
        return super()._do(call, apply)


@pytest.mark.parametrize("kind", ["plain", "wide", "wide, flagged", "one row"])
def test_a_delete_takes_the_liveness_cell_that_was_put_meanwhile(kind: str) -> None:
    """Of a model that declares no index yet: the columns of an object that shares a row are listed before they are
    deleted.
    """
    store = Beside(fresh())
    table = Table.of(store, kind)
    hb.create_tables(store, table.new)
    table.write_by("marking")

    def put() -> None:
        with hb.Session(store.inner) as session:
            session.add(table.thing("a", 1))

    with hb.Session(store) as session:
        session.delete_key(table.old, group="g", name="a")
        store.act = put
    assert store.act is None
    table.index()
    assert hb.Session(store).query(table.new).allow_full_scan().all() == []
    assert cells_of(store, hb.schema.schema_of(table.new).table) == {}
