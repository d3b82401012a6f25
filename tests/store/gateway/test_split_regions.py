"""Regions that are asked for while HBase splits them again and again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest

from hbmodel.session.connect import connect
from hbmodel.store import Family, Region, Store
from tests.support.java_client import JavaClient, java_client
from tests.support.waiting import comes_true

pytestmark = pytest.mark.hbase

REGIONS = 12


@pytest.fixture(scope="module")
def java(hbmodel_hbase: Any) -> Iterator[JavaClient]:
    with java_client(hbmodel_hbase.directory) as client:
        yield client


def covers(regions: list[Region]) -> bool:
    """Whether regions cover every key once."""
    ends = [(region.range.start, region.range.stop) for region in regions]
    return (ends[0][0], ends[-1][1]) == (b"", None) and all(stop == start for (_, stop), (start, _) in pairwise(ends))


@pytest.mark.parametrize("gateway", ["url", "thrift2_url"])
def test_regions_that_are_being_split_cover_every_key(hbmodel_hbase: Any, java: JavaClient, gateway: str) -> None:
    table = f"test_split_regions_{uuid4().hex[:8]}"
    seen: list[list[Region]] = []
    errors: list[Exception] = []
    done = threading.Event()

    def ask(store: Store) -> None:
        try:
            while not done.is_set():
                seen.append(store.regions(table))
        except Exception as error:
            errors.append(error)

    with connect(hbmodel_hbase.thrift2_url) as second, connect(getattr(hbmodel_hbase, gateway)) as store:
        second.create_table(table, [Family(b"d")], [b"%02d" % number for number in range(1, REGIONS)])
        asker = threading.Thread(target=ask, args=(store,))
        asker.start()
        try:
            assert comes_true(lambda: bool(seen))
            for number in range(REGIONS):
                java.ask("split", table, row=f"{number:02}5")
        finally:
            done.set()
            asker.join()
        assert not errors
        assert all(map(covers, seen))
        assert len({len(regions) for regions in seen}) > 2
        assert len(store.regions(table)) == 2 * REGIONS
        second.delete_table(table)
