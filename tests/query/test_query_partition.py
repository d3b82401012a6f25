"""Parts of queries: together exactly the query, in whichever process they are read."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from attrs import evolve
from hypothesis import event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import QueryError, SchemaMismatch
from hbmodel.mapping.predicates import conjuncts
from hbmodel.mapping.rows.mapper import KeyMapper, key_of
from hbmodel.mapping.schema import TableSchema
from hbmodel.query.ask.query import Query
from hbmodel.query.ask.query_partition import QueryPartition, described, rebuilt
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.match.index_applicability import fit
from hbmodel.query.match.partitioning import partition
from hbmodel.session.queries.query_runner import QueryRunner
from hbmodel.session.thread_guard import Guard
from hbmodel.store import Family, Put, Store
from hbmodel.store.ranges import KeyRange, merge_ranges
from hbmodel.store.wide.folded import folded
from hbmodel.tables.registry.registration import Binding, RowState
from tests.support.beds import drop_left, fresh, set_state
from tests.support.examples import examples
from tests.support.models import Hit, Logged, Order, Sample, day, order
from tests.support.orders import entry_of
from tests.support.partition_readers import read_part
from tests.support.random_queries import (
    RandomModel,
    StoredObject,
    conditions,
    models,
    paths,
    stored_keys,
    stored_objects,
)

SPLITS = {
    Order: hb.ByBucket(),
    "orders.by_state": hb.tables.AtKeys([b"new", entry_of(order(100, "paid"), "by_state"), b"sent"]),
}


def loaded(store: Store, url_prefix: str = "") -> hb.Session:
    """A session on a table of orders with a region for each bucket and an index of four regions."""
    hb.create_tables(store, Order, splits=SPLITS)
    session = hb.Session(store)
    states = ("new", "paid", "sent")
    session.bulk_add(order(n, states[n % 3], customer=n % 11, amount=n % 5) for n in range(200))
    return session


QUERIES: dict[str, tuple[Any, int, int]] = {
    # A query, how many parts 100 would give, and how many items it has.
    "everything": (lambda q: q.allow_full_scan(), 4, 200),
    "a bucket": (lambda q: q.where(Order.customer == 3), 1, 18),
    "several buckets": (lambda q: q.where(Order.customer.in_([1, 2, 3])), 3, 55),
    "a range of one key": (lambda q: q.where(Order.customer == 3, Order.at >= day(100)), 1, 9),
    "rows by key": (
        lambda q: q.where(Order.customer == 3, Order.at.in_([day(3), day(14)]), Order.number.in_([3, 14])),
        4,
        2,
    ),
    "an index": (lambda q: q.where(Order.state == "paid"), 2, 67),
    "a range of an index": (lambda q: q.where(Order.state > "a"), 4, 200),
    "a salted index": (lambda q: q.where(Order.amount.in_([Decimal(1), Decimal(2)])), 6, 80),
    "with a check": (lambda q: q.where(Order.state == "paid", Order.number < 100), 2, 33),
    "tuples": (lambda q: q.where(Order.state == "paid").select(Order.number), 2, 67),
    "nothing": (lambda q: q.where(Order.state == "paid", Order.state == "sent"), 0, 0),
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", QUERIES)
def test_parts_are_the_query(name: str, backwards: bool) -> None:
    refine, most, items = QUERIES[name]
    with hb.connect("memory:") as store:
        session = loaded(store)
        query = refine(session.query(Order))
        query = query.reversed() if backwards else query
        whole = query.all()
        assert len(whole) == items
        for count in (1, 2, 3, 100):
            parts = query.partitions(count)
            assert len(parts) == min(count, most)
            read = [session.read_partition(pickle.loads(pickle.dumps(part))) for part in parts]
            found = [part.all() for part in read]
            assert sorted(itertools.chain.from_iterable(found), key=repr) == sorted(whole, key=repr)
            assert [part.count() for part in read] == [len(part) for part in found]
            assert [list(part) for part in read] == found, "a part can be read again"
            # Each part keeps the query's order.
            assert all([item for item in whole if item in part] == part for part in found)


def test_parts_of_an_unsalted_path_follow_one_another() -> None:
    with hb.connect("memory:") as store:
        session = loaded(store)
        query = session.query(Order).where(Order.state > "a")
        for asked in (query, query.reversed()):
            assert [obj for part in asked.partitions(3) for obj in session.read_partition(part)] == asked.all()


def test_a_part_is_a_query_of_its_keys() -> None:
    with hb.connect("memory:") as store:
        session = loaded(store)
        query = session.query(Order).where(Order.state > "a")
        parts = query.partitions(4)
        (first, _, third, _) = [session.read_partition(part) for part in parts]
        assert third.explain().path == "by_state"
        assert third.explain().ranges == 1
        assert first.exists() is False
        assert first.first() is first.last() is None
        items = third.all()
        assert third.limit(3).offset(2).all() == items[2:5]
        assert third.reversed().all() == items[::-1]
        assert third.where(Order.number > 100).all() == [obj for obj in items if obj.number > 100]
        assert third.select(Order.number).all() == [(obj.number,) for obj in items]
        found: list[Any] = []
        token = None
        while True:
            page = third.page(7, after=token)
            found += page.items
            token = page.next_token
            if token is None:
                break
        assert found == items
        with pytest.raises(hb.TokenError):
            query.page(7, after=third.page(7).next_token)
        with pytest.raises(QueryError, match="A partition cannot be divided again"):
            third.partitions(2)
        assert repr(parts[2]).count("paid") == 0


def test_what_has_no_partitions() -> None:
    with hb.connect("memory:") as store:
        session = loaded(store)
        query = session.query(Order).where(Order.state == "new")
        bounded, ordered = (
            r"A query with limit\(\) or offset\(\) has no partitions",
            r"A query with order_by\(\) has no partitions",
        )
        for refused, message in (
            (query.limit(5), bounded),
            (query.offset(1), bounded),
            (query.order_by(Order.at.desc()), ordered),
        ):
            with pytest.raises(QueryError, match=message):
                refused.partitions(2)
        for count in (0, -1, True, 1.5, "2"):
            with pytest.raises(QueryError):
                query.partitions(count)  # type: ignore[arg-type]
        with pytest.raises(hb.FullScanRefused):
            session.query(Order).partitions(2)


def test_equal_keys_in_several_buckets_stay_in_one_part() -> None:
    cuts = [b"\x00" + bytes((0, 0, 0, 10)), b"\x01" + bytes((0, 0, 0, 20)), b"\x02" + bytes((0, 0, 0, 30))]
    with hb.connect("memory:") as store:
        hb.create_tables(store, Logged, splits=hb.tables.AtKeys(cuts))
        session = hb.Session(store)
        for text in "abc":  # the same keys again and again, in whichever bucket
            session.bulk_add(Logged(serial=n, page=f"{text}{n}") for n in range(40))
        for query in (
            session.query(Logged).allow_full_scan(),
            session.query(Logged).where(Logged.serial.between(5, 33)),
        ):
            parts = [session.read_partition(part) for part in query.partitions(9)]
            assert len(parts) == 4
            assert [obj for part in parts for obj in part] == query.all()
            assert [sum(part.count() for part in parts)] == [query.count()]
        keys = session.query(Logged).where(Logged.serial.in_([3, 7, 22]))
        assert [[obj.serial for obj in session.read_partition(part)] for part in keys.partitions(2)] == [[3], [7, 22]]
        hb.create_tables(store, Hit)
        session.bulk_add(Hit(at=day(n % 3), serial=n, page="/") for n in range(20))
        by_page = session.query(Hit).where(Hit.page == "/")
        assert [obj for part in by_page.partitions(4) for obj in session.read_partition(part)] == by_page.all()


# --- on the other side ------------------------------------------------------------------------------------------------


def test_another_layout_is_refused() -> None:
    with fresh(Sample) as store:
        session = hb.Session(store)
        (part,) = session.query(Sample).where(Sample.station == "s").partitions(2)
        assert session.read_partition(part).all() == []
        for changed in (evolve(part, model=Order), evolve(part, path="by_state"), evolve(part, layout=b"another")):
            with pytest.raises(SchemaMismatch):
                session.read_partition(changed)
        with pytest.raises(hb.DeclarationError):
            session.read_partition(evolve(part, model=int))
        with pytest.raises(QueryError, match=r"Give a partition of a query, from partitions\(\)"):
            session.read_partition("part")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "predicate",
    [
        ("drop", "label", b"x"),
        ("=", "nothing", b"x"),
        ("=", "level", b"not four bytes"),
        ("=", "level"),
        ("prefix", "level", b"x"),
        ("not", ("=", "label", b"x"), ("=", "label", b"x")),
        ("in", "label", 5),
        (),
        5,
    ],
)
def test_a_damaged_predicate_is_refused(predicate: Any) -> None:
    with fresh(Sample) as store:
        session = hb.Session(store)
        (part,) = session.query(Sample).where(Sample.station == "s").partitions(1)
        with pytest.raises(QueryError, match=r"The predicate in the partition does not fit this model|no such field"):
            session.read_partition(evolve(part, predicate=predicate))


def test_an_index_built_anew_is_noticed() -> None:
    with hb.connect("memory:") as store:
        session = loaded(store)
        parts = session.query(Order).where(Order.state == "new").partitions(2)
        store.create_table("orders.by_state.2", [Family(b"d")])
        set_state(store, Order, "by_state", "readable", "orders.by_state.2")
        with pytest.raises(QueryError):
            hb.Session(store, lease=0).read_partition(parts[0]).all()
        set_state(store, Order, "by_state", "write-only")
        with pytest.raises(hb.errors.IndexUnavailable, match="The index cannot be read"):
            hb.Session(store, lease=0).read_partition(parts[0]).all()


def in_processes(url: str, parts: Sequence[QueryPartition[Any]]) -> list[Any]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        answers = list(pool.map(read_part, [url] * len(parts), parts))
    assert all(count == len(items) for _, items, count in answers)
    assert multiprocessing.current_process().pid not in {process for process, _, _ in answers}
    return [item for _, items, _ in answers for item in items]


def check_processes(url: str) -> None:
    with hb.connect(url) as store:
        session = loaded(store)
        for query in (
            session.query(Order).allow_full_scan(),
            session.query(Order).where(Order.state > "a", Order.note.is_(None)),
        ):
            parts = query.partitions(4)
            assert len(parts) == 4
            assert sorted(in_processes(url, parts), key=repr) == sorted(query.all(), key=repr)


@pytest.mark.lengthy
def test_several_processes_over_a_file(tmp_path: Path) -> None:
    check_processes(f"embedded:{tmp_path / 'store.db'}")


@pytest.mark.hbase
def test_several_processes_over_hbase(hbmodel_hbase: Any) -> None:
    prefix = f"?table_prefix=p{uuid4().hex[:8]}"
    url = hbmodel_hbase.thrift2_url + prefix
    try:
        check_processes(url)
        with hb.connect(url) as store, hb.connect(hbmodel_hbase.url + prefix) as first:
            ours, theirs = (hb.Session(s).query(Order).where(Order.state > "a") for s in (store, first))
            assert theirs.partitions(3) == ours.partitions(3)
            assert [obj for part in ours.partitions(3) for obj in hb.Session(first).read_partition(part)] == ours.all()
    finally:
        with hb.connect(url) as store:
            drop_left(store)


# --- every layout, every query ----------------------------------------------------------------------------------------


def keys_of(items: Sequence[Any], schema: TableSchema) -> list[tuple[bytes, ...]]:
    return sorted(tuple(KeyMapper(schema).parts(key_of(schema, item))) for item in items)


def filled(
    store: Store, of: RandomModel, objects: Sequence[StoredObject], cuts: Sequence[tuple[int, int]]
) -> hb.Session | QueryRunner:
    """A reader of tables that hold the objects, split at some of their keys, or at beginnings of them."""
    schema = of.schema
    view = folded(store, schema.wide_rows)
    families = [Family(name) for name in schema.family_names]
    for index in paths(schema):
        table = schema.table if index is None else index.table
        keys = [key for obj in objects for key in stored_keys(schema, index, obj)]
        rows = keys if index is not None or schema.wide is None else [schema.wide.form.cut(key)[0] for key in keys]
        splits = {rows[at % len(rows)][: 1 + length] for at, length in cuts if rows}
        store.create_table(table, families, sorted(splits - {b""}))
        if index is None:
            view.put(table, [Put(obj.row, obj.cells, 1) for obj in objects])
        else:
            store.put(table, [Put(key, {schema.version_column: b"\x01" + bytes(8)}, 1) for key in keys])
    indexes = tuple(schema.indexes.values())
    state: RowState = "indexed" if indexes or schema.versioned else "unindexed"
    return QueryRunner(lambda _: view, lambda found: Binding(found, indexes, indexes, (), state), None, Guard())


def paged(query: Query[Any], size: int) -> list[Any]:
    """The items, page by page."""
    found: list[Any] = []
    token = None
    while True:
        page = query.page(size, token)
        found += page.items
        if (token := page.next_token) is None:
            return found


def check_parts(store: Store, data: st.DataObject) -> None:
    """For any model, rows, regions and query: every item of the query is in exactly one part."""
    of = data.draw(models(versions=True, wide=True))
    schema = of.schema
    objects = data.draw(stored_objects(of, indexed=bool(schema.indexes)))
    if schema.salt.random and objects and data.draw(st.booleans()):
        twin = objects[0]  # the same key once more, in another bucket
        prefix = data.draw(
            st.sampled_from([prefix for prefix in schema.salt.prefixes if not twin.row.startswith(prefix)])
        )
        objects.append(evolve(twin, row=prefix + twin.row[schema.salt.width :]))
    if not objects:
        return
    predicates, oracle = data.draw(conditions(of))
    reader = filled(
        store, of, objects, data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 8)), max_size=6))
    )
    try:
        query: Query[Any] = Query(QueryTerms(schema), reader).where(*predicates).allow_full_scan()  # type: ignore[arg-type]
        named = data.draw(st.sampled_from([None, *(index.name if index else "primary" for index in paths(schema))]))
        parts_of = [part for predicate in predicates for part in conjuncts(predicate)]
        fitting = [i.name for i in schema.indexes.values() if not i.is_plain and fit(i, parts_of) is not None]
        query = query.use_index(data.draw(st.sampled_from(fitting)) if fitting and data.draw(st.booleans()) else named)
        query = query.reversed() if data.draw(st.booleans()) else query
        try:
            parts = query.partitions(data.draw(st.integers(1, 9)))
        except QueryError:
            event("an index that lacks some rows")
            return
        event(f"{min(len(parts), 4)} parts, {'index' if parts and parts[0].path != 'primary' else 'primary'}")
        found: list[Any] = []
        for part in parts:
            sent = evolve(pickle.loads(pickle.dumps(evolve(part, model=Order))), model=of.model)
            assert sent == part
            restricted: Query[Any] = Query(reader.terms_of(sent), reader)  # type: ignore[arg-type,union-attr]
            items = restricted.all()
            assert restricted.count() == len(items)
            found += items
        assert keys_of(found, schema) == keys_of(query.all(), schema)
        assert keys_of(paged(query, data.draw(st.integers(1, 3))), schema) == keys_of(found, schema)
        keys = [(obj, [obj.values[name] for name in schema.layout.names]) for obj in objects]
        matching = {tuple(KeyMapper(schema).parts(key)) for obj, key in keys if oracle(obj.values)}
        assert set(keys_of(found, schema)) == matching
        assert len(found) == len(matching)
    finally:
        for table in store.tables():
            if table in {schema.table, *(index.table for index in schema.indexes.values())}:
                store.delete_table(table)


@pytest.mark.lengthy
@settings(max_examples=examples(120), deadline=None)
@given(st.data())
def test_every_item_is_in_exactly_one_part(data: st.DataObject) -> None:
    with hb.connect("memory:") as store:
        check_parts(store, data)


@pytest.mark.hbase
def test_every_item_is_in_exactly_one_part_on_hbase(hbmodel_hbase: Any) -> None:
    with hb.connect(f"{hbmodel_hbase.thrift2_url}?table_prefix=q{uuid4().hex[:8]}") as store:

        @settings(max_examples=examples(4), deadline=None)
        @given(st.data())
        def check(data: st.DataObject) -> None:
            check_parts(store, data)

        check()


@pytest.mark.lengthy
@given(st.data())
def test_predicates_survive_the_way(data: st.DataObject) -> None:
    of = data.draw(models(versions=True, wide=True))
    predicates, _ = data.draw(conditions(of))
    for predicate in predicates:
        again = rebuilt(of.schema, pickle.loads(pickle.dumps(described(predicate))))
        assert again.canonical() == predicate.canonical()
        assert described(again) == described(predicate)


# --- ranges -----------------------------------------------------------------------------------------------------------

KEYS = st.binary(max_size=2)
STARTS = st.lists(KEYS, max_size=6)


@pytest.mark.lengthy
@given(st.lists(st.tuples(KEYS, st.none() | KEYS), max_size=5), STARTS, st.integers(1, 6))
def test_parts_hold_every_key_of_the_plan_once(
    ranges: list[tuple[bytes, bytes | None]], starts: list[bytes], count: int
) -> None:
    with fresh(Sample) as store:
        reader = QueryRunner(lambda _: store, lambda schema: Binding(schema, (), (), ()), None, Guard())
        query = Query(QueryTerms(hb.schema.schema_of(Sample)), reader).allow_full_scan()
        plan = reader.planned(query.terms)
    (bucket,) = plan.buckets
    kept = merge_ranges(KeyRange(*bounds) for bounds in ranges)
    parts = partition(evolve(plan, buckets=[evolve(bucket, ranges=kept)]), starts, count)
    assert len(parts) <= count
    assert all(part and not any(r.empty for r in part) for part in parts)
    flat = [r for part in parts for r in part]
    assert all(a.stop is not None and a.stop <= b.start for a, b in itertools.pairwise(flat))
    assert merge_ranges(flat) == kept
