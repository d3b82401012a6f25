"""Every store against what the port promises; HBase itself decides what that is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from hbmodel.session.connect import connect
from hbmodel.store import Family, Store
from hbmodel.store.embedded import EmbeddedStore
from tests.conformance.conformance import (
    FAMILIES,
    Bed,
    DeleteConformance,
    GetConformance,
    GetEachConformance,
    LifeConformance,
    PutConformance,
)
from tests.conformance.conformance_atomic import CheckAndPutConformance, CounterConformance, RowChangeConformance
from tests.conformance.conformance_pieces import PieceConformance
from tests.conformance.conformance_scans import FilterConformance, ScanConformance
from tests.conformance.conformance_tables import (
    AlterConformance,
    ClosingConformance,
    NamespaceConformance,
    TableConformance,
)
from tests.conformance.conformance_versions import VersionConformance
from tests.support.beds import drop_left

GATEWAYS = tuple(pytest.param(name, marks=pytest.mark.hbase) for name in ("thrift1", "thrift2"))


@pytest.fixture(scope="module", params=["memory", "embedded", *GATEWAYS])
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if request.param == "memory":

        def open_store() -> Store:
            return EmbeddedStore(None)
    elif request.param == "embedded":
        path: Path = tmp_path_factory.mktemp("store") / "store.db"

        def open_store() -> Store:
            return EmbeddedStore(str(path))
    elif request.param not in {"thrift1", "thrift2"}:
        raise LookupError(f"nothing here opens the store {request.param}")
    else:
        hbase = request.getfixturevalue("hbmodel_hbase")
        url = hbase.url if request.param == "thrift1" else hbase.thrift2_url

        def open_store() -> Store:
            return connect(url)

    table, narrow = (f"{name}_{uuid4().hex}" for name in ("conformance", "narrow"))
    with open_store() as store:
        store.create_table(table, FAMILIES)
        store.create_table(narrow, [Family(b"d")])
        yield Bed(store, open_store, table, narrow)
        drop_left(store, table, narrow)


class TestGet(GetConformance):
    pass


class TestGetEach(GetEachConformance):
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


class TestAlter(AlterConformance):
    pass


class TestNamespace(NamespaceConformance):
    pass


class TestClosing(ClosingConformance):
    pass


class TestPieces(PieceConformance):
    pass


class TestVersions(VersionConformance):
    pass
