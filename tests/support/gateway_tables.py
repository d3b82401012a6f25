"""Stores behind a gateway that wait or send as a test wants it; a table of a test module, while its tests run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hbmodel.session.connect import connect
from hbmodel.store import Family, Row
from hbmodel.store.gateway.store import GatewayStore
from hbmodel.store.thrift1.store import Thrift1Store
from hbmodel.store.thrift2.store import Thrift2Store
from tests.support.beds import drop_left


def gateway_store(url: str, **arguments: Any) -> GatewayStore:
    """The store of a gateway's URL.

    Args:
        url: the URL.
        **arguments: what no URL can give: `sizes`, `sleep`.
    """
    kind: type[GatewayStore] = Thrift2Store if url.startswith(Thrift2Store.SCHEME) else Thrift1Store
    return kind.from_url(url, **arguments)


def short_sleep(seconds: float) -> None:
    """Waits a millisecond between two tries, however long the wait should be."""
    time.sleep(min(seconds, 0.001))


@contextmanager
def store_with_table(url: str, table: str, *families: Family) -> Iterator[Any]:
    """A store with a new table; what an earlier run left, under that name or one that begins with it, is dropped."""
    with connect(url) as store:
        for left in store.tables():
            if left.startswith(table):
                store.delete_table(left)
        store.create_table(table, families)
        yield store
        drop_left(store, table)


def values(row: Row | None) -> dict[bytes, bytes]:
    """The cells of a row without their times; none of a row that is absent."""
    return {} if row is None else {column: cell.value for column, cell in row.columns.items()}
