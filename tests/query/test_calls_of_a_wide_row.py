"""The cost of a query on the objects of one wide row, in calls to a store and on the wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.store import Scan
from tests.support.beds import HBASE, drop_left
from tests.support.faulty import RecordingStore
from tests.support.proxy import Proxy

CALLS = {
    "thrift1": ["scannerGetList", "scannerOpenWithScan"],
    "thrift2": ["getMultiple"],
}
"""Of a read of one page of one row, without the close of a scanner, which is sent later and for which nobody waits."""

FEW, MANY = 7, 8
"""The rows: four objects, and 400."""


def declared() -> Any:
    @hb.model(table=f"calls_{uuid4().hex[:8]}", family="d")
    class Item:
        owner: hb.Key[int] = hb.key(hb.UInt32)
        number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
        name: hb.Column[str] = hb.column("n")
        size: hb.Column[int] = hb.column("s")

    return Item


def fill(store: hb.Store, model: Any) -> None:
    hb.create_tables(store, model)
    with hb.Session(store) as session:
        for owner, count in ((FEW, 4), (MANY, 400)):
            session.add_all(model(owner=owner, number=n, name=str(n), size=n) for n in range(count))


def reads_of(session: hb.Session, model: Any) -> Sequence[tuple[Callable[[], Sequence[Any]], int]]:
    """Reads, each of at most one page of cells, and how many objects they return."""
    few, many = (session.query(model).where(model.owner == owner) for owner in (FEW, MANY))
    return [
        (few.all, 4),
        (lambda: few.page(20).items, 4),
        (few.limit(3).all, 3),
        (lambda: many.page(20).items, 20),
        (many.limit(49).all, 49),
    ]


def test_a_query_of_one_row_is_one_scan_of_a_small_page() -> None:
    model = declared()
    with RecordingStore(hb.connect("memory:")) as store:
        fill(store, model)
        session = hb.Session(store)
        session.query(model).where(model.owner == FEW).all()  # now the session knows the registry
        for read, count in reads_of(session, model):
            store.calls.clear()
            found = read()
            (call,) = store.calls
            (scan,) = call.items
            assert call.name == "scan"
            assert isinstance(scan, Scan)
            assert (scan.limit, scan.filter) == (1, None)
            assert scan.cells in {100, 49 * 3 + 1}  # once the size of cells is known: room for all that are wanted
            assert found == session.get_many(model, [{"owner": o.owner, "number": o.number} for o in found])
            assert len(found) == count


@pytest.mark.parametrize("kind", HBASE)
def test_calls_of_a_query_of_one_row(kind: str, hbmodel_hbase: Any) -> None:
    model = declared()
    with (
        Proxy(hbmodel_hbase.url if kind == "thrift1" else hbmodel_hbase.thrift2_url) as proxy,
        hb.connect(proxy.url) as store,
    ):
        fill(store, model)
        session = hb.Session(store)
        few = session.query(model).where(model.owner == FEW)
        few.all()  # now the session knows the registry
        assert few.explain().calls == (1 if kind == "thrift2" else 2)
        for read, count in reads_of(session, model):
            proxy.forget()
            found = read()
            assert sorted(call for call in proxy.calls() if call != "scannerClose") == CALLS[kind]
            keys = [{"owner": each.owner, "number": each.number} for each in found]
            assert found == session.get_many(model, keys)
            assert len(found) == count
        every = session.query(model).where(model.owner == MANY)
        proxy.forget()
        assert [each.number for each in every] == list(range(400))
        if kind == "thrift2":
            assert proxy.calls() == ["getMultiple"]  # of up to 1,000 cells, since their size is known
        drop_left(store, *(table for table in store.tables() if table.startswith(hb.schema.schema_of(model).table)))
