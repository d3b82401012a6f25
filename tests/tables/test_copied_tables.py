"""Copies of the tables of indexed and versioned models, opened with `?table_prefix=`."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
from attrs import frozen

import hbmodel as hb
from hbmodel.store import Family, Put, Scan
from hbmodel.tables.roll.binding_cache import BindingCache
from tests.support.beds import drop_left
from tests.support.java_client import JavaClient, java_client

pytestmark = pytest.mark.hbase


@hb.model(table="copied_orders", family="d", salt=hb.HashSalt(4))
class Order:
    number: hb.Key[int] = hb.key(hb.UInt32)
    state: hb.Column[str] = hb.column("s")
    paid: hb.Column[int] = hb.column("p", default=0)
    by_state = hb.index("state", "number")


@hb.model(table="copied_accounts", family="a")
class Account:
    owner: hb.Key[str] = hb.key()
    city: hb.Column[str] = hb.column("c")
    version: hb.Column[int] = hb.version()
    by_city = hb.index("city")


MODELS = (Order, Account)
TIMES = hb.indexes.IndexTimes(lease=0.3, longest_call=1.5, clock_bound=0.2, grace=4)
TABLES = ["copied_accounts", "copied_accounts.by_city", "copied_orders", "copied_orders.by_state", "hbmodel"]


@frozen
class Copies:
    """What copies tables under another prefix.

    Attributes:
        url: of the copies.
        copy: copies one table, given its name without a prefix.
    """

    url: str
    copy: Callable[[str], None]

    def opened(self) -> hb.Store:
        """The copies, under the names of the originals."""
        return hb.connect(self.url)


def every_cell(store: hb.Store) -> Mapping[str, Mapping[bytes, Any]]:
    """The cells of all tables, with their timestamps."""
    found: dict[str, dict[bytes, Any]] = {}
    for table in store.tables():
        (batches,) = store.scan(table, [Scan()])
        found[table] = {
            row.row: {column: (cell.timestamp, cell.value) for column, cell in row.columns.items()}
            for batch in batches
            for row in batch
        }
    return found


def copy_cells(store: hb.Store, to: hb.Store, table: str) -> None:
    """Copies the newest cells as `CopyTable` does: with their timestamps, and without what is deleted."""
    to.create_table(table, [Family(family.name, max_versions=family.max_versions) for family in store.families(table)])
    puts = []
    for row, cells in every_cell(store)[table].items():
        at: dict[int, dict[bytes, bytes]] = defaultdict(dict)
        for column, (timestamp, value) in cells.items():
            at[timestamp][column] = value
        puts += [Put(row, columns, timestamp=timestamp) for timestamp, columns in at.items()]
    if puts:
        to.put(table, puts)


@pytest.fixture(scope="module")
def java(hbmodel_hbase: Any) -> Iterator[JavaClient]:
    with java_client(hbmodel_hbase.directory) as client:
        yield client


SELDOM = {("thrift1", "snapshot"), ("thrift2", "cells")}
"""What the default suite leaves out: it has each gateway, and each way to copy."""

WAYS = [
    pytest.param(given, id="-".join(given), marks=[pytest.mark.slow] if given in SELDOM else [])
    for given in itertools.product(("thrift1", "thrift2"), ("snapshot", "cells"))
]


@pytest.fixture(params=WAYS)
def copies(request: pytest.FixtureRequest, hbmodel_hbase: Any, java: JavaClient) -> Iterator[tuple[hb.Store, Copies]]:
    """The original, with rows that were changed and deleted, and how to copy it."""
    gateway, way = request.param
    original, prefix = (f"{word}{uuid4().hex[:8]}" for word in ("of", "copy"))
    url = f"{hbmodel_hbase.url if gateway == 'thrift1' else hbmodel_hbase.thrift2_url}?table_prefix={prefix}"
    with hb.connect(f"{hbmodel_hbase.thrift2_url}?table_prefix={original}") as store, hb.connect(url) as copied:

        def copy(table: str) -> None:
            if way == "cells":
                copy_cells(store, copied, table)
            else:
                java.ask("copy", f"{original}_{table}", to=f"{prefix}_{table}")

        hb.create_tables(store, *MODELS)
        program = BindingCache(60)
        with hb.Session(store, cache=program) as session:
            session.add_all(Order(number=n, state=("new", "sent")[n % 2]) for n in range(20))
            session.add_all(Account(owner=f"o{n}", city=("Oslo", "Rome")[n % 2]) for n in range(6))
        with hb.Session(store, cache=program) as session:
            for number in range(4):
                session.update(the(session.get(Order, number=number)), state="paid", paid=5)
            session.delete_key(Order, number=5)
            session.delete(the(session.get(Account, owner="o1")))
            session.update(the(session.get(Account, owner="o2")), city="Rome")
        program.leave(store)  # or its line would be put again while tables are copied
        assert store.tables() == TABLES
        yield store, Copies(url, copy)
        drop_left(store)
        drop_left(copied)


def the(found: Any) -> Any:
    assert found is not None
    return found


def orders(store: hb.Store, state: str) -> list[int]:
    """The numbers of the orders in a state, by the index."""
    query = hb.Session(store).query(Order).where(Order.state == state).order_by(Order.number)
    assert "by_state" in str(query.explain())
    return [order.number for order in query]


def owners(store: hb.Store, city: str) -> list[str]:
    query = hb.Session(store).query(Account).where(Account.city == city)
    assert "by_city" in str(query.explain())
    return sorted(account.owner for account in query)


def all_orders(store: hb.Store) -> dict[int, tuple[str, int]]:
    found = hb.Session(store).query(Order).allow_full_scan()
    return {order.number: (order.state, order.paid) for order in found}


def sound(store: hb.Store) -> bool:
    return (
        hb.indexes.verify_index(store, Order, "by_state").sound
        and hb.indexes.verify_index(store, Account, "by_city").sound
    )


def test_a_copy_with_its_registry_is_whole(copies: tuple[hb.Store, Copies]) -> None:
    store, made = copies
    for table in TABLES:
        made.copy(table)
    before = every_cell(store)
    with made.opened() as copy:
        assert copy.tables() == TABLES
        assert every_cell(copy) == before
        assert not hb.diff(copy, *MODELS)
        assert hb.create_tables(copy, *MODELS).created == []
        assert all_orders(copy) == all_orders(store)
        assert 5 not in all_orders(copy)
        assert orders(copy, "paid") == [0, 1, 2, 3]
        assert orders(copy, "sent") == [7, 9, 11, 13, 15, 17, 19]
        assert owners(copy, "Rome") == ["o2", "o3", "o5"]
        assert sound(copy)

        with hb.Session(copy) as session:
            session.update(the(session.get(Order, number=9)), state="paid")
            session.add(Order(number=5, state="new again"))
            session.delete_key(Order, number=0)
        if copy.capabilities.check_and_mutate:
            with hb.Session(copy) as session:
                session.update(the(session.get(Account, owner="o3")), city="Oslo")
                session.add(Account(owner="o1", city="Bonn"))
            assert owners(copy, "Oslo") == ["o0", "o3", "o4"]
            assert owners(copy, "Bonn") == ["o1"]
        assert orders(copy, "paid") == [1, 2, 3, 9]
        assert orders(copy, "new again") == [5]
        assert sound(copy)
    assert every_cell(store) == before
    assert orders(store, "paid") == [0, 1, 2, 3]
    with hb.Session(store) as session:
        session.delete_key(Order, number=1)
    with made.opened() as copy:
        assert orders(copy, "paid") == [1, 2, 3, 9]


def test_a_version_of_the_original_is_the_version_of_the_copy(copies: tuple[hb.Store, Copies]) -> None:
    store, made = copies
    for table in TABLES:
        made.copy(table)
    account = the(hb.Session(store).get(Account, owner="o4"))
    with made.opened() as copy:
        if not copy.capabilities.check_and_mutate:
            assert hb.Session(copy).get(Account, owner="o4") == account
            return
        with hb.Session(copy) as session:
            session.update(account, city="Bonn")
        with pytest.raises(hb.ConflictError), hb.Session(copy) as session:
            session.update(account, city="Rome")
        assert owners(copy, "Bonn") == ["o4"]
    assert the(hb.Session(store).get(Account, owner="o4")) == account


def test_a_copy_without_its_registry_is_refused(copies: tuple[hb.Store, Copies]) -> None:
    _, made = copies
    for table in TABLES[:-1]:
        made.copy(table)
    with made.opened() as copy:
        refused = [each for each in hb.diff(copy, Order) if each.effect == "refused"]
        assert [(each.kind, each.what) for each in refused] == [("index", "index table copied_orders.by_state")]
        with pytest.raises(hb.SchemaMismatch, match="the registry does not know them"):
            hb.create_tables(copy, Order)
        session = hb.Session(copy)
        session.add(Order(number=100, state="new"))
        calls: list[Callable[[], Any]] = [
            session.commit,
            lambda: session.get(Order, number=1),
            session.query(Order).where(Order.state == "new").all,
        ]
        for call in calls:
            with pytest.raises(hb.SchemaMismatch, match="needs a table that is registered in this registry"):
                call()
        assert copy.tables() == TABLES[:-1]


def test_the_indexes_of_a_copy_of_the_rows_alone_are_built(copies: tuple[hb.Store, Copies]) -> None:
    store, made = copies
    made.copy("copied_orders")
    with made.opened() as copy:
        assert [difference.what for difference in hb.create_tables(copy, Order).differences] == ["index by_state"]
        assert all_orders(copy) == all_orders(store)
        assert hb.indexes.build_index(copy, Order, "by_state", times=TIMES).entries == 19
        assert orders(copy, "paid") == [0, 1, 2, 3]
        assert hb.indexes.verify_index(copy, Order, "by_state").sound
