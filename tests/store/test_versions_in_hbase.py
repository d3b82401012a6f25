"""What a running HBase does with versions, deletes and compactions where a time is read as of; the docs of cell
versions rest on it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.errors import IncompleteRow
from hbmodel.store import Delete, Family, Get, Put
from hbmodel.store.port import read_versions
from hbmodel.store.thrift2.family_descriptors import table_name
from hbmodel.store.thrift2.service import TColumnFamilyDescriptor, TTableDescriptor
from hbmodel.store.thrift2.store import Thrift2Store
from tests.support.beds import Bed
from tests.support.java_client import java_client

pytestmark = pytest.mark.hbase


def seen(store: hb.Store, table: str, row: bytes, *befores: int | None) -> list[bytes | None]:
    """The value of the only column as of some times."""
    found = store.get_each(table, [Get(row, before=before) for before in befores])
    return [None if each is None else each.columns[b"d:a"].value for each in found]


@pytest.fixture
def keeping(hbmodel_hbase: Any) -> Iterator[tuple[Thrift2Store, str]]:
    """A store with a table whose family keeps deleted cells."""
    table = f"keeping_{uuid4().hex[:8]}"
    family = TColumnFamilyDescriptor(name=b"d", attributes={b"VERSIONS": b"10", b"KEEP_DELETED_CELLS": b"TRUE"})
    descriptor = TTableDescriptor(tableName=table_name(table.encode()), columns=[family])
    with Thrift2Store.from_url(hbmodel_hbase.thrift2_url) as store:
        store._administrate(("createTable", {"desc": descriptor, "splitKeys": None}), table=table)
        yield store, table
        store.delete_table(table)


def test_with_deleted_cells_kept_a_delete_counts_from_its_time_on(
    keeping: tuple[Thrift2Store, str], hbmodel_hbase: Any
) -> None:
    store, table = keeping
    deletes = {
        b"family": Delete(b"family", [b"d"], timestamp=20),
        b"column": Delete(b"column", columns=[b"d:a"], timestamp=20),
        b"row": Delete(b"row", timestamp=20),
    }
    with hb.connect(hbmodel_hbase.url) as first:
        for row, delete in deletes.items():
            store.put(table, [Put(row, {b"d:a": b"10"}, 10)])
            store.delete(table, [delete])
            store.put(table, [Put(row, {b"d:a": b"30"}, 30)])
            for gateway in (store, first):
                assert seen(gateway, table, row, 5, 15, 21, 25, 35, None) == [None, b"10", None, None, b"30", b"30"]
                (versions,) = read_versions(gateway, table, row, [b"d:a"], 10)
                assert [cell.timestamp for cell in versions] == [30]


def test_with_deleted_cells_kept_deleted_objects_are_there_as_of_before(keeping: tuple[Thrift2Store, str]) -> None:
    store, table = keeping

    @hb.model(table=table, family="d")
    class Kept:
        number: hb.Key[int] = hb.key(hb.codecs.UInt8)
        text: hb.Column[str] = hb.column("a", versions=10)

    hb.create_tables(store, Kept)
    session = hb.Session(store)
    session.add(Kept(number=1, text="x"))
    session.commit()
    time.sleep(0.005)
    before = datetime.now(UTC)
    time.sleep(0.005)
    session.delete_key(Kept, number=1)
    session.commit()
    assert session.get(Kept, number=1) is None
    assert session.get(Kept, number=1, as_of=before) == Kept(number=1, text="x")
    assert session.versions(Kept, Kept.text, number=1) == []


@hb.model(table="versions_few", family="d")
class Few:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")
    text: hb.Column[str] = hb.column("a", versions=2)
    note: hb.Column[str] = hb.column("o", default="none")


def test_older_versions_than_kept_may_be_there_and_may_be_gone(hbase_bed: Bed) -> None:
    session = hbase_bed.use(Few)
    times = []
    for text in ("1", "2", "3", "4"):
        if text == "1":
            session.add(Few(number=1, name="n", text=text))
        else:
            session.update(Few(number=1, name="", text=""), text=text)
        session.commit()
        time.sleep(0.005)
        times.append(datetime.now(UTC))
        time.sleep(0.005)

    def text_as_of(time_: datetime) -> str | None:
        try:
            found = session.get(Few, number=1, as_of=time_)
        except IncompleteRow:
            return None
        assert found is not None
        return found.text

    found = [text_as_of(time_) for time_ in times]
    assert found[2:] == ["3", "4"]
    assert found[0] in {"1", None}
    assert found[1] in {"2", None}
    assert [value for _, value in session.versions(Few, Few.text, number=1)] == ["4", "3"]


@pytest.mark.slow
def test_flushes_and_compactions(hbmodel_hbase: Any) -> None:
    table = f"compacted_{uuid4().hex[:8]}"
    with hb.connect(hbmodel_hbase.thrift2_url) as store, java_client(hbmodel_hbase.directory) as client:
        store.create_table(table, [Family(b"d", max_versions=2)])
        for at in (10, 20, 30, 40):
            store.put(table, [Put(b"r", {b"d:a": b"%d" % at}, at)])
        store.put(table, [Put(b"deleted", {b"d:a": b"10"}, 10)])
        store.delete(table, [Delete(b"deleted", [b"d"], timestamp=20)])
        assert seen(store, table, b"r", 15, 25, 35, 45) == [b"10", b"20", b"30", b"40"], "nothing is dropped in memory"
        client.ask("flush", table)
        assert seen(store, table, b"r", 15, 25, 35, 45) == [None, None, b"30", b"40"], (
            "a flush drops what is above the number"
        )
        assert seen(store, table, b"deleted", 15, None) == [None, None], "the tombstone of a file hides older times"
        store.put(table, [Put(b"deleted", {b"d:a": b"late"}, 12)])
        assert seen(store, table, b"deleted", 15, None) == [None, None]
        client.ask("flush", table)
        client.ask("compact", table)
        assert seen(store, table, b"deleted", 15, None) == [None, None], "what was hidden went with the tombstone"
        assert seen(store, table, b"r", 15, 25, 35, 45) == [None, None, b"30", b"40"]
        store.put(table, [Put(b"deleted", {b"d:a": b"later"}, 12)])
        assert seen(store, table, b"deleted", 15, None) == [b"later", b"later"], "no tombstone any more"
        store.delete_table(table)
