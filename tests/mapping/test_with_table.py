"""Models that differ from a declared one in their table: the declarations, the objects and the parts of queries."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import pickle
import weakref
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest

import hbmodel as hb
from hbmodel.errors import DeclarationError, FrozenObject, QueryError, SchemaMismatch
from hbmodel.schema import schema_of, with_table
from tests.support.beds import Bed
from tests.support.models import Hit, Legacy, Order, Person, Sample, day, order


@hb.model(table="pages", salt=hb.HashSalt(2))
class CrawledPage:
    """Salted, versioned, with a unique and a covering index, and a map column."""

    site: hb.Key[str] = hb.key()
    path: hb.Key[str] = hb.key()
    status: hb.Column[int] = hb.column("s", hb.Int32)
    digest: hb.Column[str | None] = hb.column("g", default=None)
    version: hb.Column[int] = hb.version()
    headers: hb.Map[str, str] = hb.map_column("h")

    by_status = hb.index("status", covers=("digest",))
    by_digest = hb.index("digest", unique=True)


def page(model: Any, path: str, status: int = 200, digest: str | None = None) -> Any:
    return model(site="a", path=path, status=status, digest=digest)


def test_only_the_names_of_tables_differ() -> None:
    other = with_table(CrawledPage, "crawl1.pages")
    schema, declared = schema_of(other), schema_of(CrawledPage)
    assert schema.table == "crawl1.pages"
    assert {name: index.table for name, index in schema.indexes.items()} == {
        "by_status": "crawl1.pages.by_status",
        "by_digest": "crawl1.pages.by_digest",
    }
    assert declared.table == "pages"
    assert declared.indexes["by_status"].table == "pages.by_status"
    assert schema.layout_spec == declared.layout_spec
    assert [index.spec for index in schema.indexes.values()] == [index.spec for index in declared.indexes.values()]
    assert (schema.model, schema.declared, declared.declared) == (other, CrawledPage, None)


def test_one_table_has_one_model_while_it_is_used() -> None:
    other = with_table(CrawledPage, "crawl2")
    assert with_table(CrawledPage, "crawl2") is other
    assert with_table(other, "crawl2") is other
    assert with_table(other, "pages") is CrawledPage
    assert with_table(other, "crawl3") is with_table(CrawledPage, "crawl3")
    assert issubclass(other, CrawledPage)
    gone = weakref.ref(with_table(CrawledPage, "crawl4"))
    gc.collect()
    assert gone() is None


def test_objects_are_of_their_own_table() -> None:
    other = with_table(CrawledPage, "crawl2")
    mine, its = page(CrawledPage, "/"), page(other, "/")
    assert isinstance(its, CrawledPage)
    assert mine != its
    assert its == page(other, "/")
    assert attrs.asdict(mine) == attrs.asdict(its)
    assert hb.evolve(its, status=404) == page(other, "/", 404)
    with pytest.raises(FrozenObject):
        its.status = 3
    assert repr(its) == repr(mine)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda obj: pickle.loads(pickle.dumps(obj))])
def test_objects_can_be_copied_and_pickled(copied: Any) -> None:
    its = page(with_table(CrawledPage, "crawl2"), "/", digest="x")
    again = copied(its)
    assert again == its
    assert type(again) is type(its)


@pytest.mark.parametrize(
    ("table", "text"),
    [("a table", "may contain"), ("hbase:meta", "reserved"), ("default:x", "without"), (3, "contain")],
)
def test_a_wrong_name_is_refused(table: Any, text: str) -> None:
    with pytest.raises(DeclarationError, match=text) as caught:
        with_table(CrawledPage, table)
    assert (caught.value.model, caught.value.table) == ("CrawledPage", table)


def test_a_model_that_replaces_another_has_one_table() -> None:
    @hb.model(table="pages_by_path", replaces=Sample)
    class Turned:
        label: hb.Key[str] = hb.key()
        station: hb.Key[str] = hb.key()
        level: hb.Column[int] = hb.column("l", hb.Int32)
        remark: hb.Column[str | None] = hb.column("r", default=None)
        seen: hb.Column[int] = hb.counter("c")

    with pytest.raises(DeclarationError, match="replaces another"):
        with_table(Turned, "elsewhere")
    with pytest.raises(DeclarationError, match="not a model"):
        with_table(int, "elsewhere")


def in_table(model: Any, made: Order) -> Any:
    """The same order of another table."""
    values = {field.name: getattr(made, field.name) for field in attrs.fields(Order) if field.init}
    return model(**values)


def test_several_tables_in_one_session(bed: Bed) -> None:
    names = ("by_kind_of_store_1", "by_kind_of_store_2")
    first, second = (with_table(Order, name) for name in names)
    store = bed.store
    hb.create_tables(store, first, second)
    try:
        session = hb.Session(store)
        for number, model in enumerate((first, second), 1):
            for at in range(4 * number):
                made = order(at, "new" if at % 2 else "sent", amount=at * number)
                session.add(in_table(model, made))
        session.commit()
        assert [session.query(model).allow_full_scan().count() for model in (first, second)] == [4, 8]
        for number, model in enumerate((first, second), 1):
            query = session.query(model).where(model.state == "new", model.at >= day(1))
            assert query.explain().path == "by_state"
            found = query.all()
            newest = reversed(range(4 * number))
            assert [obj.amount for obj in found] == [at * number for at in newest if at % 2]
            assert {type(obj) for obj in found} == {model}
            # the fields of the declared model are those of each of its tables
            assert session.query(model).where(Order.state == "new").all() == found
        session.update(in_table(first, order(1, "new", amount=1)), state="sent")
        session.commit()
        assert session.query(first).where(first.state == "new").count() == 1
        assert session.query(second).where(second.state == "new").count() == 4
        for model in (first, second):
            assert all(hb.indexes.verify_index(store, model, name).sound for name in schema_of(model).indexes)
        session.close()
    finally:
        hb.drop_tables(store, first, second)
    assert not set(names) & set(store.tables())


def test_claims_and_maps_belong_to_one_table(atomic_bed: Bed) -> None:
    models = [with_table(CrawledPage, f"claimed_{number}") for number in (1, 2)]
    store = atomic_bed.store
    hb.create_tables(store, *models)
    try:
        session = hb.Session(store)
        for model in models:  # the same unique value in each table
            made = page(model, "/", digest="x")
            session.add(made)
            session.commit()
            session.put_entries(made, model.headers, {"table": schema_of(model).table})
            session.commit()
            session.add(page(model, "/again", digest="x"))
            with pytest.raises(hb.UniqueViolation):
                session.commit()
            session.discard()
        for model in models:
            assert dict(session.entries(model.headers, site="a", path="/")) == {"table": schema_of(model).table}
            (found,) = session.query(model).where(model.digest == "x")
            assert found.path == "/"
    finally:
        hb.drop_tables(store, *models)


def declared_for(table: str) -> Any:
    """The declaration that `with_table(Person, table)` must equal."""

    @hb.model(table=table, family="p")
    class Person:
        name: hb.Key[str] = hb.key()
        city: hb.Column[str | None] = hb.column("c", default=None)
        street: hb.Column[str | None] = hb.column("s", default=None)
        story: hb.Column[str] = hb.column("t", family="x", default="")
        visits: hb.Column[int] = hb.counter("v", family="x")

        by_place = hb.index("city", "street")

    return Person


def test_it_is_the_model_that_is_declared_for_the_table() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, with_table(Person, "clients"))
        assert not hb.diff(store, declared_for("clients")).differences
        session = hb.Session(store)
        session.add(with_table(Person, "clients")(name="ann", city="Oslo"))
        session.commit()
        declared = declared_for("clients")
        (found,) = hb.Session(store).query(declared).where(declared.city == "Oslo")
        assert (found.name, found.city) == ("ann", "Oslo")


@pytest.mark.parametrize("model", [Hit, Legacy, Sample, Person, Order, CrawledPage])
def test_every_kind_of_model_can_have_another_table(model: Any) -> None:
    with hb.connect("memory:") as store:
        other = with_table(model, "elsewhere")
        hb.create_tables(store, other, **({"create_external": True} if schema_of(model).external else {}))
        assert "elsewhere" in store.tables()
        assert not any(name.startswith(schema_of(model).table) for name in store.tables())
        assert not hb.diff(store, other).differences
        with pytest.raises(hb.HbmodelError):
            hb.Session(store).query(model).allow_full_scan().all()


def read(url: str, part: bytes) -> list[str]:
    """In another process: the objects of a part of a query."""
    with hb.connect(url) as store:
        return [obj.name for obj in hb.Session(store).read_partition(pickle.loads(part)).all()]


@pytest.mark.lengthy
def test_parts_of_a_query_are_read_in_other_processes(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'people'}"
    other = with_table(Person, "clients")
    with hb.connect(url) as store:
        hb.create_tables(store, other)
        session = hb.Session(store)
        session.add_all(other(name=name) for name in "abc")
        session.commit()
        parts = session.query(other).allow_full_scan().partitions(2)
        sent = [pickle.dumps(part) for part in parts]
        assert [pickle.loads(part) for part in sent] == list(parts)
        assert all(pickle.loads(part).model is other for part in sent)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert sorted(name for part in sent for name in pool.submit(read, url, part).result()) == ["a", "b", "c"]


def test_a_part_of_another_table_is_not_that_of_the_declared_one() -> None:
    with hb.connect("memory:") as store:
        other = with_table(Person, "clients")
        hb.create_tables(store, Person, other)
        session = hb.Session(store)
        (part,) = session.query(other).allow_full_scan().partitions(1)
        with pytest.raises(SchemaMismatch):
            session.read_partition(attrs.evolve(part, model=Person))
        session.add_all(model(name=name) for name in "ab" for model in (Person, other))
        session.commit()
        token = session.query(other).allow_full_scan().page(1).next_token
        assert token is not None
        with pytest.raises(QueryError):
            session.query(Person).allow_full_scan().page(1, token)
