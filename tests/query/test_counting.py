"""Counts: which calls they make, and what of each row they read."""

from __future__ import annotations

from typing import Any

import hbmodel as hb
from hbmodel.store import Scan
from hbmodel.store.filters import KeyOnly
from hbmodel.tables.roll.binding_cache import BindingCache
from tests.support.beds import fresh


def declare(indexed: bool) -> Any:
    class Leaf:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")
        note: hb.Column[str | None] = hb.column("n", default=None)

        if indexed:
            by_text = hb.index("text")

    return hb.model(table="leaves", family="d")(Leaf)


def test_rows_of_a_table_without_an_index_are_counted_by_their_keys() -> None:
    """In one scan; rows that others have marked as deleted in the meantime are read again."""
    old, new = declare(indexed=False), declare(indexed=True)
    with fresh(old) as store:
        with hb.Session(store) as session:
            session.add_all(old(name=f"{number:02}", text="x") for number in range(20))
        early = hb.Session(store, cache=BindingCache(60, running=lambda: 0))
        query = early.query(old).allow_full_scan()
        assert query.count() == 20
        store.calls.clear()
        assert query.count() == 20
        (call,) = store.calls
        (scan,) = call.items
        assert isinstance(scan, Scan)
        assert (call.name, scan.filter, scan.columns) == ("scan", KeyOnly(), (b"d:_l", b"d:t"))
        hb.create_tables(store, new)
        hb.indexes.build_index(store, new, "by_text")
        late = hb.Session(store)
        late.delete_key(new, name="03")
        late.commit()
        store.calls.clear()
        assert query.count() == 19
        assert store.told() == ["scan leaves", "get leaves"]
