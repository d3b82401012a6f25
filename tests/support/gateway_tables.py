"""Stores behind a gateway with the waits and sizes that a test needs, and a table for the tests of a module."""

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
    """Returns the store of a gateway's URL.

    Args:
        url: the URL.
        **arguments: arguments that a URL cannot specify: `sizes`, `sleep`.
    """
    kind: type[GatewayStore] = Thrift2Store if url.startswith(Thrift2Store.SCHEME) else Thrift1Store
    return kind.from_url(url, **arguments)


def short_sleep(seconds: float) -> None:
    """Waits only a millisecond between two tries."""
    time.sleep(min(seconds, 0.001))


@contextmanager
def store_with_table(url: str, table: str, *families: Family) -> Iterator[Any]:
    """Opens a store with a new table. Tables from earlier runs, whose names begin with the name of the table, are
    dropped.
    """
    with connect(url) as store:
        for left in store.tables():
            if left.startswith(table):
                store.delete_table(left)
        store.create_table(table, families)
        yield store
        drop_left(store, table)


def values(row: Row | None) -> dict[bytes, bytes]:
    """Returns the values of the cells of a row, or an empty dictionary for an absent row."""
    return {} if row is None else {column: cell.value for column, cell in row.columns.items()}
