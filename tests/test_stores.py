"""Every store against what the port promises; HBase itself decides what that is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from conformance import (
    FAMILIES,
    Bed,
    DeleteConformance,
    GetConformance,
    LifeConformance,
    PutConformance,
)
from conformance_atomic import CheckAndPutConformance, CounterConformance, RowChangeConformance
from conformance_scans import FilterConformance, ScanConformance
from conformance_tables import ClosingConformance, TableConformance

from hbmodel.store import Family
from hbmodel.stores.embedded import EmbeddedStore


@pytest.fixture(scope="module", params=["memory", "embedded", pytest.param("thrift1", marks=pytest.mark.hbase)])
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if request.param == "memory":

        def open_store() -> EmbeddedStore:
            return EmbeddedStore(None)
    elif request.param == "embedded":
        path: Path = tmp_path_factory.mktemp("store") / "store.db"

        def open_store() -> EmbeddedStore:
            return EmbeddedStore(str(path))
    else:
        from hbmodel.stores.thrift1 import Thrift1Store

        url = request.getfixturevalue("local_hbase").url

        def open_store() -> Thrift1Store:
            return Thrift1Store.from_url(url)

    table, narrow = (f"{name}_{uuid4().hex}" for name in ("conformance", "narrow"))
    with open_store() as store:
        store.create_table(table, FAMILIES)
        store.create_table(narrow, [Family(b"d")])
        yield Bed(store, open_store, table, narrow)
        store.delete_table(table)
        store.delete_table(narrow)


class TestGet(GetConformance):
    pass


class TestPut(PutConformance):
    pass


class TestDelete(DeleteConformance):
    pass


class TestLife(LifeConformance):
    pass


class TestCheckAndPut(CheckAndPutConformance):
    pass


class TestCounter(CounterConformance):
    pass


class TestRowChange(RowChangeConformance):
    pass


class TestScan(ScanConformance):
    pass


class TestFilter(FilterConformance):
    pass


class TestTable(TableConformance):
    pass


class TestClosing(ClosingConformance):
    pass
