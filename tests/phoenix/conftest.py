"""An HBase with Apache Phoenix's classes, its SQL, and hbmodel's stores on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import hbmodel as hb
from hbmodel.localhbase import LocalHBase
from tests.support.phoenix_sql import PhoenixSql, hbase_with_phoenix

Phoenix = tuple[LocalHBase, PhoenixSql]


@pytest.fixture(scope="package")
def phoenix_hbase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phoenix]:
    with hbase_with_phoenix(tmp_path_factory.mktemp("phoenix")) as made:
        yield made


@pytest.fixture
def sql(phoenix_hbase: Phoenix) -> PhoenixSql:
    return phoenix_hbase[1]


@pytest.fixture(params=["thrift1", "thrift2"])
def store(request: pytest.FixtureRequest, phoenix_hbase: Phoenix) -> Iterator[hb.Store]:
    hbase, _ = phoenix_hbase
    with hb.connect(hbase.url if request.param == "thrift1" else hbase.thrift2_url) as made:
        yield made
