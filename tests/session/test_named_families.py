"""Deletes name the families of what they delete: through Thrift1 only HBase's master could tell them, and it may be
away.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.store import Delete, Scan, Store
from hbmodel.store.embedded.store import EmbeddedStore
from hbmodel.store.thrift1.store import Thrift1Store
from tests.support.proxy import Proxy

SHARED = {"lease": 0.15, "longest_call": 0.1, "clock_bound": 0.25, "grace": 1.3}
TIMES = hb.indexes.IndexTimes(**SHARED)
NAME = f"named_families_{uuid4().hex[:8]}"  # the workers of pytest-xdist share an HBase
REGISTRY = NAME + "_registry"


@hb.model(table=NAME, family="d")
class Note:
    """Its index table has two families, and the table has three."""

    name: hb.Key[str] = hb.key()
    topic: hb.Column[str] = hb.column("t")
    text: hb.Column[str] = hb.column("x", family="e")
    size: hb.Column[int] = hb.column("s", family="f", default=0)

    by_topic = hb.index("topic", covers=("text",))


def entries(store: Store) -> list[set[bytes]]:
    """The columns of each entry of the index."""
    [batches] = store.scan(f"{NAME}.by_topic", [Scan()])
    return [set(row.columns) for batch in batches for row in batch]


def work(store: Store, session: hb.Session) -> None:
    """Adds, updates and deletes objects."""
    session.add_all([Note(name="ann", topic="a", text="1"), Note(name="bob", topic="b", text="2")])
    session.commit()
    session.update(Note(name="ann", topic="a", text="1"), topic="c")
    session.commit()
    session.delete(Note(name="bob", topic="b", text="2"))
    session.commit()
    [columns] = entries(store)
    assert {column[:2] for column in columns} == {b"d:", b"e:"}
    session.close()


@pytest.fixture
def deletes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Delete]]:
    """All deletes that embedded stores get, each with its table."""
    found: list[tuple[str, Delete]] = []
    delete = EmbeddedStore.delete

    def recorded(self: EmbeddedStore, table: str, deletes: Any) -> None:
        found.extend((table, each) for each in deletes)
        delete(self, table, deletes)

    monkeypatch.setattr(EmbeddedStore, "delete", recorded)
    return found


@pytest.mark.lengthy
def test_deletes_of_index_entries_and_in_the_registry_name_families(deletes: list[tuple[str, Delete]]) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Note, registry=REGISTRY)
        work(store, hb.Session(store, registry=REGISTRY, **SHARED))
        # and leaves an entry, as a crash may
        (row,) = store.get(NAME, [hb.row_key(Note, name="ann")])
        assert row is not None
        newest = max(cell.timestamp for cell in row.columns.values())
        store.delete(NAME, [Delete(row.row, families=[b"d", b"e", b"f"], timestamp=newest)])
        time.sleep(TIMES.grace + 0.1)
        assert hb.indexes.repair_index(store, Note, "by_topic", times=TIMES, registry=REGISTRY).deleted == 1
        assert entries(store) == []
        hb.indexes.drop_index(store, Note, "by_topic", times=TIMES, registry=REGISTRY)
        hb.indexes.build_index(store, Note, "by_topic", times=TIMES, registry=REGISTRY)
        hb.drop_tables(store, Note, registry=REGISTRY)
    assert {table for table, _ in deletes} == {NAME, f"{NAME}.by_topic", REGISTRY}
    assert [each for each in deletes if not each[1].families and not each[1].columns] == []


@pytest.fixture
def tables(hbmodel_hbase: Any) -> Iterator[Store]:
    """The tables of the model in HBase."""
    with hb.connect(hbmodel_hbase.url) as store:
        hb.create_tables(store, Note, registry=REGISTRY)
        yield store
        for table in (NAME, f"{NAME}.by_topic", REGISTRY):
            store.delete_table(table)


@pytest.mark.hbase
def test_through_thrift1_no_write_asks_the_master(tables: Store, hbmodel_hbase: Any) -> None:
    with Proxy(hbmodel_hbase.url) as proxy, Thrift1Store.from_url(proxy.url) as store:
        work(store, hb.Session(store, registry=REGISTRY))
        calls = proxy.calls()
    assert calls.count("mutateRowTs") + calls.count("mutateRowsTs") > 5
    assert "getColumnDescriptors" not in calls
