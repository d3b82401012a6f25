"""A table of a test module behind a gateway, while its tests run, and what is read from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hbmodel.session.connect import connect
from hbmodel.store import Family, Row
from tests.support.beds import drop_left


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
