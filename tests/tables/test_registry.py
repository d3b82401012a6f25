"""The registry: what a model is held against, what it may do then, and when a session looks again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.schema import schema_of
from hbmodel.store import Family, Put
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.registry.layout_differences import canonical_json
from hbmodel.tables.registry.registration import ABSENT, READABLE
from hbmodel.tables.registry.registry_rows import CLOCK_ROW, INDEX_PREFIX, LAYOUT, ROWS, RegistryKey, registry_row
from hbmodel.tables.registry.registry_table import Registry
from tests.support.beds import Bed, cells_of, fresh, rows_of, set_state
from tests.support.models import Order, Person, Sample, day, order

# --- rows of the registry ---------------------------------------------------------------------------------------------


@hb.model(table="zoo", kind=b"p")
class Animal:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    a: hb.Column[int] = hb.column("a")


@hb.model(table="zoo", kind=b"\0")
class Keeper:
    owner: hb.Key[str] = hb.key()
    a: hb.Column[int] = hb.column("a")


def test_a_kind_has_a_row_of_its_own() -> None:
    assert registry_row(schema_of(Person)) == b"people\x00p"
    for model, row in ((Animal, b"zoo\x00d\x00p"), (Keeper, b"zoo\x00d\x00\x00")):
        schema = schema_of(model)
        assert registry_row(schema) == row
        place = RegistryKey.of_row("zoo", row)
        assert place == RegistryKey("zoo", b"d", schema.kind)
        assert registry_row(place) == row
    with hb.connect("memory:") as store:
        catalog = Registry(store)
        catalog.create()
        for model in (Animal, Keeper):
            schema = schema_of(model)
            store.put(catalog.table, [Put(registry_row(schema), {LAYOUT: canonical_json(schema.layout_spec)})])
        assert catalog.keys_of_table("zoo") == [RegistryKey("zoo", b"d", b"\0"), RegistryKey("zoo", b"d", b"p")]
        assert catalog.families_of("zoo") == {b"d"}


@hb.model(table="zoo")
class Tall:
    owner: hb.Key[str] = hb.key()
    a: hb.Column[int] = hb.column("a")


def test_models_share_a_family_by_their_kinds_alone() -> None:
    with hb.connect("memory:") as store:
        catalog = Registry(store)
        catalog.create()
        schema = schema_of(Animal)
        store.put(catalog.table, [Put(registry_row(schema), {LAYOUT: canonical_json(schema.layout_spec)})])
        catalog.check_neighbours(schema_of(Keeper))
        with pytest.raises(hb.SchemaMismatch, match="column family"):
            catalog.check_neighbours(schema_of(Tall))


# --- layouts ----------------------------------------------------------------------------------------------------------


def declare(**changed: Any) -> Any:
    """A model with every kind of declaration, one of them possibly another than usual."""
    options: dict[str, Any] = {"salt": hb.HashSalt(4, by=("a",))} | {
        k: v for k, v in changed.items() if k in {"salt", "exists"}
    }
    key_order = changed.get("order", ("a", "b"))
    b_type = changed.get("b_type", str)
    y_type = changed.get("y_type", str)
    keys = {
        "a": (hb.Key[int], hb.key(changed.get("a", hb.Int32), desc=changed.get("a_desc", False))),
        "b": (hb.Key[b_type], hb.key(hb.Text)),
    }
    body: dict[str, Any] = {name: keys[name][1] for name in key_order}
    annotations: dict[str, Any] = {name: keys[name][0] for name in key_order}
    body |= {
        "x": changed.get("x", hb.column("x", hb.Int32)),
        "y": changed.get("y", hb.column("y", hb.Text, default="" if y_type is str else None)),
        "z": changed.get("z", hb.counter("z")),
    }
    annotations |= {"x": hb.Column[int], "y": hb.Column[y_type], "z": hb.Column[int]}
    if "extra" in changed:
        body["extra"], annotations["extra"] = hb.column("e", default=0), hb.Column[int]
    for name, index in {"by_x": hb.index("x", covers=("y",)), **changed.get("indexes", {})}.items():
        if index is not None:
            body[name] = index
    return hb.model(table="layouts", **options)(type("Layout", (), {**body, "__annotations__": annotations}))


def test_the_usual_declaration_fits_itself(bed: Bed) -> None:
    session = bed.use(declare())
    model = declare()
    hb.create_tables(bed.store, model)
    session.add(model(a=1, b="b", x=1))
    session.commit()
    assert session.query(model).where(model.x == 1).count() == 1


MISMATCHES = {
    "bucket count": ({"salt": hb.HashSalt(5, by=("a",))}, "salt"),
    "salt fields": ({"salt": hb.HashSalt(4)}, "salt"),
    "kind of salt": ({"salt": hb.salts.TextSalt(tuple("abcd"), by=("a",))}, "salt"),
    "no salt": ({"salt": None}, "salt"),
    "field order": ({"order": ("b", "a")}, "key"),
    "fewer fields": ({"order": ("a",)}, "key"),
    "codec of a key field": ({"a": hb.Int64}, "key"),
    "direction": ({"a_desc": True}, "key"),
    "nullable key field": ({"b_type": str | None}, "key"),
    "codec of a column": ({"x": hb.column("x", hb.Int64)}, "column d:x codec"),
    "counter to column": ({"z": hb.column("z", hb.codecs.JavaLong, default=0)}, "column d:z kind"),
    "flag": ({"exists": hb.flag("e")}, "exists"),
    "index fields": ({"indexes": {"by_x": hb.index("x", "y", covers=())}}, "index by_x"),
    "index direction": ({"indexes": {"by_x": hb.index(hb.desc("x"), covers=("y",))}}, "index by_x"),
    "index salt": ({"indexes": {"by_x": hb.index("x", covers=("y",), salt=hb.HashSalt(2))}}, "index by_x"),
    "covered columns": ({"indexes": {"by_x": hb.index("x")}}, "index by_x"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_every_change_of_layout_is_named_and_nothing_is_read_or_written(name: str) -> None:
    changed, named = MISMATCHES[name]
    usual, other = declare(), declare(**changed)
    with fresh(usual) as store:
        with hb.Session(store) as session:
            session.add(usual(a=1, b="b", x=1))
        registered, rows = cells_of(store, "hbmodel"), cells_of(store, "layouts")
        session = hb.Session(store)
        obj = other(
            **{key: value for key, value in {"a": 1, "b": "b", "x": 1}.items() if key in schema_of(other).by_name}
        )
        key = {field: getattr(obj, field) for field in schema_of(other).layout.names}
        session.add(obj)
        calls: list[Callable[[], Any]] = [
            lambda: hb.create_tables(store, other),
            lambda: session.get(other, **key),
            lambda: session.query(other).allow_full_scan().all(),
            lambda: session.query(other).allow_full_scan().count(),
            lambda: session.query(other).allow_full_scan().page(1),
            lambda: hb.Session(store).insert(obj),
            lambda: session.bulk_add([obj]),
            session.commit,
        ]
        if name != "counter to column":
            calls.append(lambda: hb.Session(store).increment(obj, other.z))
        for call in calls:
            with pytest.raises(hb.SchemaMismatch) as caught:
                call()
            assert caught.value.table == "layouts"
            assert any(difference.startswith(named) for difference in caught.value.differences), (
                caught.value.differences
            )
        assert (cells_of(store, "hbmodel"), cells_of(store, "layouts")) == (registered, rows)


def test_new_and_dropped_columns_fit(bed: Bed) -> None:
    usual, wider = declare(), declare(extra=True)
    session = bed.use(usual)
    session.add(usual(a=1, b="b", x=1, y="y"))
    session.commit()
    hb.create_tables(bed.store, wider)
    assert session.get(wider, a=1, b="b") == wider(a=1, b="b", x=1, y="y", extra=0)
    session.add(wider(a=2, b="b", x=1, extra=5))
    session.commit()
    hb.create_tables(bed.store, usual)  # an older program comes back; what it does not know stays registered
    assert session.get(usual, a=2, b="b") == usual(a=2, b="b", x=1)
    conflicting = declare(y=hb.column("e", hb.Text, default=""))
    with pytest.raises(hb.SchemaMismatch) as caught:
        hb.create_tables(bed.store, conflicting)
    assert [difference.split(":")[0:2] for difference in caught.value.differences] == [
        ["column d", "e codec"],
        ["index by_x", " declared covers (d"],
    ]


# --- without a registry -----------------------------------------------------------------------------------------------


def test_an_indexed_model_needs_its_registry_and_an_unindexed_one_does_not() -> None:
    with hb.connect("memory:") as store:
        store.create_table("orders", schema_of(Order).families)
        store.create_table("samples", schema_of(Sample).families)
        session = hb.Session(store)
        session.add(order(1))
        calls: list[Callable[[], Any]] = [
            session.commit,
            lambda: session.get(Order, customer=1, at=day(1), number=1),
            lambda: session.query(Order).where(Order.state == "new").all(),
            lambda: hb.Session(store).insert(order(1)),
            lambda: hb.Session(store).increment(order(1), Order.views),
            lambda: session.bulk_add([order(1)]),
        ]
        for call in calls:
            with pytest.raises(hb.SchemaMismatch, match="create_tables"):
                call()
        assert rows_of(store, "orders") == {}
        session.discard()
        session.add(Sample(station="s", label="l", level=1))
        session.commit()
        assert session.get(Sample, station="s", label="l") is not None


UNREADABLE = [b"{", b"[]", b"5", b"\xff"]


@pytest.mark.parametrize(
    ("column", "garbage"),
    [
        *((LAYOUT, garbage) for garbage in UNREADABLE),
        *(
            (INDEX_PREFIX + b"by_state", garbage)
            for garbage in [*UNREADABLE, b'{"state":5,"table":"t"}', b'{"spec":{}}']
        ),
        *((ROWS, garbage) for garbage in [*UNREADABLE, b'{"state":"elsewhere"}', b'{"state":["indexed"]}']),
    ],
)
def test_a_registry_entry_that_cannot_be_read_is_told(column: bytes, garbage: bytes) -> None:
    with fresh(Order) as store:
        store.put("hbmodel", [Put(registry_row(schema_of(Order)), {column: garbage})])
        session = hb.Session(store)
        for call in (
            lambda: session.get(Order, customer=1, at=day(1), number=1),
            lambda: hb.create_tables(store, Order),
        ):
            with pytest.raises(hb.StoreError) as caught:
                call()
            assert (caught.value.table, caught.value.registry) == ("orders", "hbmodel")


def test_a_layout_of_which_parts_are_missing_differs() -> None:
    with fresh(Order) as store:
        layout = dict(schema_of(Order).layout_spec)
        for missing in ("format", "exists"):
            del layout[missing]
        layout["salt"] = {"by": []}
        store.put("hbmodel", [Put(registry_row(schema_of(Order)), {LAYOUT: canonical_json(layout)})])
        with pytest.raises(hb.SchemaMismatch) as caught:
            hb.Session(store).get(Order, customer=1, at=day(1), number=1)
        assert len(caught.value.differences) >= 2
        store.put("hbmodel", [Put(registry_row(schema_of(Order)), {LAYOUT: b"{}"})])
        with pytest.raises(hb.StoreError, match="cannot be read"):
            hb.Session(store).get(Order, customer=1, at=day(1), number=1)


def test_a_registry_of_another_name() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Order, registry="catalogue")
        assert "hbmodel" not in store.tables()
        with hb.Session(store, registry="catalogue") as session:
            session.add(order(1))
        with pytest.raises(hb.SchemaMismatch):
            hb.Session(store).query(Order).where(Order.state == "new").all()
        assert CLOCK_ROW in rows_of(store, "catalogue")


def test_a_registry_whose_cells_expire_at_once_has_no_clock() -> None:
    clock = count(1_000_000, 2_000)
    with EmbeddedStore(None, lambda: next(clock)) as store:
        store.create_table("hbmodel", [Family(b"m", ttl=1)])
        with pytest.raises(
            hb.StoreError, match="clock cell of the registry was written but cannot be read: check the TTL"
        ) as caught:
            Registry(store).server_time()
        assert caught.value.table == "hbmodel"


# --- indexes ----------------------------------------------------------------------------------------------------------


@hb.model(table="people", family="p")
class Unindexed:
    """The people of another program, which knows no index."""

    name: hb.Key[str] = hb.key()
    city: hb.Column[str | None] = hb.column("c", default=None)
    street: hb.Column[str | None] = hb.column("s", default=None)
    story: hb.Column[str] = hb.column("t", family="x", default="")
    visits: hb.Column[int] = hb.counter("v", family="x")


def test_a_model_that_does_not_know_a_live_index_reads_and_does_not_write(bed: Bed) -> None:
    session = bed.use(Person)
    session.add_all([Person(name="ann", city="Oslo"), Person(name="bob")])
    session.commit()
    session.delete_key(Person, name="bob")
    session.commit()
    hb.create_tables(bed.store, Unindexed)
    other = hb.Session(bed.store)
    assert other.get(Unindexed, name="ann") == Unindexed(name="ann", city="Oslo")
    assert other.get(Unindexed, name="bob") is None
    assert other.query(Unindexed).allow_full_scan().all() == [Unindexed(name="ann", city="Oslo")]
    assert other.query(Unindexed).allow_full_scan().count() == 1
    before = cells_of(bed.store, "people")
    writes: list[Callable[[], Any]] = [
        lambda: other.add(Unindexed(name="cid")),
        lambda: other.update(Unindexed(name="ann"), story="long"),
        lambda: other.delete(Unindexed(name="ann")),
    ]
    for write in writes:
        write()
        with pytest.raises(hb.errors.IndexUnavailable) as caught:
            other.commit()
        assert (caught.value.table, caught.value.index) == ("people", "by_place")
        other.discard()
    at_once: list[Callable[[], Any]] = [lambda: other.bulk_add([Unindexed(name="cid")])]
    if bed.atomic:
        at_once.append(lambda: other.insert(Unindexed(name="cid", city="Oslo")))
    for call in at_once:
        with pytest.raises(hb.HbmodelError) as refused:
            call()
        assert isinstance(refused.value, hb.errors.IndexUnavailable | hb.CapabilityError)
    assert cells_of(bed.store, "people") == before
    assert session.query(Person).where(Person.city == "Oslo").count() == 1


def test_an_index_declared_on_an_existing_table_is_absent(bed: Bed) -> None:
    @hb.model(table="grown")
    class Before:
        name: hb.Key[str] = hb.key()
        tag: hb.Column[str] = hb.column("t")

    @hb.model(table="grown")
    class After:
        name: hb.Key[str] = hb.key()
        tag: hb.Column[str] = hb.column("t")
        by_tag = hb.index("tag")

    session = bed.use(Before)
    session.add(Before(name="a", tag="x"))
    session.commit()
    for register in (False, True):
        if register:
            hb.create_tables(bed.store, After)
            hb.create_tables(bed.store, After)
            assert "grown.by_tag" not in bed.store.tables()
        session = hb.Session(bed.store)
        by_tag = session.query(After).where(After.tag == "x")
        reads: list[Callable[[], Any]] = [
            by_tag.all,
            by_tag.count,
            lambda query=by_tag: query.page(1),
            by_tag.allow_full_scan().use_index("by_tag").all,
        ]
        for read in reads:
            with pytest.raises(hb.errors.IndexUnavailable) as caught:
                read()
            assert (caught.value.table, caught.value.index) == ("grown", "by_tag")
        assert by_tag.use_index("primary").allow_full_scan().all() == [After(name="a", tag="x")]
        session.add(After(name="b", tag="y"))
        session.update(After(name="a", tag=""), tag="x")
        session.commit()
        assert cells_of(bed.store, "grown") == {b"a": {b"d:t": b"x"}, b"b": {b"d:t": b"y"}}
        assert session.get(After, name="b") == After(name="b", tag="y")


def test_the_declaration_of_an_absent_index_may_still_change() -> None:
    with fresh(declare(indexes={"by_x": None})) as store:
        hb.create_tables(store, declare())
        other = declare(indexes={"by_x": hb.index("x", "b")})
        hb.create_tables(store, other)
        found = Registry(store).read(schema_of(other))
        assert found is not None
        assert found.indexes["by_x"].state == ABSENT
        assert canonical_json(found.indexes["by_x"].spec) == canonical_json(schema_of(other).indexes["by_x"].spec)
        set_state(store, other, "by_x", READABLE)
        with pytest.raises(hb.SchemaMismatch):
            hb.create_tables(store, declare())


@pytest.mark.parametrize("state", ["write-only", "building", "verifying"])
def test_an_index_on_its_way_is_written_and_not_read(state: str) -> None:
    with fresh(Person) as store:
        set_state(store, Person, "by_place", state)
        session = hb.Session(store)
        session.add(Person(name="ann", city="Oslo"))
        session.commit()
        assert len(rows_of(store, "people.by_place")) == 1
        with pytest.raises(hb.errors.IndexUnavailable):
            session.query(Person).where(Person.city == "Oslo").all()
        set_state(store, Person, "by_place", READABLE)
        assert hb.Session(store).query(Person).where(Person.city == "Oslo").count() == 1


def test_the_registry_names_the_live_table_of_an_index() -> None:
    with fresh(Person) as store:
        store.create_table("people.by_place.2", schema_of(Person).families)
        set_state(store, Person, "by_place", READABLE, "people.by_place.2")
        session = hb.Session(store)
        session.add(Person(name="ann", city="Oslo"))
        session.commit()
        assert rows_of(store, "people.by_place") == {}
        assert session.query(Person).where(Person.city == "Oslo").count() == 1
        session.delete_key(Person, name="ann")
        session.commit()
        assert rows_of(store, "people.by_place.2") == {}
