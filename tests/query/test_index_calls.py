"""The cost of a query through an index in calls to a gateway, counted on the wire."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from tests.support.beds import HBASE, drop_left
from tests.support.proxy import Proxy

CALLS = {
    "thrift1": ["scannerOpenWithScan", "scannerGetList", "scannerClose", "getRowsWithColumns"],
    "thrift2": ["getScannerResults", "getMultiple"],
}
"""Of one scan of the index, and one multi-get of all rows."""


@pytest.mark.parametrize("kind", HBASE)
def test_a_hundred_rows_through_an_index_are_one_scan_and_one_multi_get(kind: str, hbmodel_hbase: Any) -> None:
    @hb.model(table=f"calls_{uuid4().hex[:8]}", family="d")
    class Item:
        number: hb.Key[int] = hb.key(hb.UInt32)
        state: hb.Column[str] = hb.column("s")

        by_state = hb.index("state")

    url = hbmodel_hbase.url if kind == "thrift1" else hbmodel_hbase.thrift2_url
    with hb.connect(url) as setting:
        hb.create_tables(setting, Item)
        with hb.Session(setting) as session:
            session.add_all(Item(number=n, state="even" if n % 2 == 0 else "odd") for n in range(200))
    with Proxy(url) as proxy, hb.connect(proxy.url) as store:
        session = hb.Session(store)
        query = session.query(Item).where(Item.state == "odd").use_index("by_state")
        # The session learns the registry and the clock without a scan, whose close could come later.
        assert session.get(Item, number=1) is not None
        assert "scannerClose" not in proxy.calls()
        proxy.forget()
        assert [item.number for item in query.all()] == list(range(1, 200, 2))
        if kind == "thrift1":
            assert proxy.saw(1, "scannerClose")  # nobody waits for it
        assert sorted(proxy.calls()) == sorted(CALLS[kind])
        drop_left(store, *(table for table in store.tables() if table.startswith(hb.schema.schema_of(Item).table)))
