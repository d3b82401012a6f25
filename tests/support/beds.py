"""Stores for tests to write into, each with the empty tables of some models."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.mapping.schema import STAMP_QUALIFIER
from hbmodel.session.commit.session_sizes import SESSION_SIZES, SessionSizes
from hbmodel.store import Delete, Put, Scan
from hbmodel.tables.registry.layout_differences import canonical_json
from hbmodel.tables.registry.registry_rows import INDEX_PREFIX, registry_row
from tests.support.cut_rows import CutStore
from tests.support.faulty import RecordingStore

HBASE = tuple(pytest.param(kind, marks=pytest.mark.hbase) for kind in ("thrift1", "thrift2"))
"""The kinds of stores on a real HBase, one for each of its gateways."""

ONE_GATEWAY = (pytest.param("thrift1", marks=[pytest.mark.hbase, pytest.mark.slow]), HBASE[1])
"""Both gateways, of which the default suite uses one, for tests of the behaviour of programs and not of the gateway's
answers.
"""

CUT = 3
"""The number of bytes of a row key before the cut."""

IN_MEMORY = ("memory", "limited", "cut")
"""The kinds that are views of a store in memory."""

KINDS = ("memory", "limited", "embedded", "cut", *HBASE)
"""A store in memory; a store in memory without atomic changes of rows; a store in a file; a store whose rows are
objects of wide rows; and HBase.
"""

ATOMIC = ("memory", "embedded", HBASE[1])
"""The kinds of stores that change rows atomically, so that `insert` works."""


def paired(*choices: tuple[Sequence[Any], Any]) -> list[Any]:
    """Returns the parameters of a test: each of the given kinds of stores with its value."""
    plain = [
        (store if hasattr(store, "values") else pytest.param(store), value)
        for stores, value in choices
        for store in stores
    ]
    return [pytest.param(store.values[0], value, marks=store.marks) for store, value in plain]


class Bed:
    """A store with its kind, for tests.

    Attributes:
        kind: `memory`, `limited`, `embedded`, `cut`, `thrift1` or `thrift2`.
        store: the store, which records its calls.
    """

    def __init__(self, kind: str, store: RecordingStore) -> None:
        self.kind, self.store = kind, store

    @property
    def real(self) -> bool:
        """Whether the store is a real HBase."""
        return self.kind.startswith("thrift")

    @property
    def atomic(self) -> bool:
        """Whether rows can be changed atomically, and `insert` works."""
        return self.store.capabilities.check_and_mutate

    def use(self, *models: type[Any], sizes: SessionSizes = SESSION_SIZES) -> hb.Session:
        """Creates the tables of the models, empties them, and opens a session."""
        if self.real:
            hb.create_tables(self.store, *models, create_external=True)
            for model in models:
                schema = hb.schema.schema_of(model)
                for table in (schema.table, *(index.table for index in schema.indexes.values())):
                    self.wipe(table)
        else:
            for table in self.store.tables():
                self.store.delete_table(table)
            hb.create_tables(self.store, *models, create_external=True)
        self.store.calls.clear()
        return hb.Session(self.store, sizes=sizes)

    def wipe(self, table: str) -> None:
        """Deletes every row at the time of its newest cell. Cells that an insert or a move leaves ahead of the clock
        are deleted separately.
        """
        families = [family.name for family in self.store.families(table)]
        rows: dict[bytes, int] = {}
        traces: list[Delete] = []
        (batches,) = self.store.scan(table, [Scan()])
        for row in (row for batch in batches for row in batch):
            for column, cell in row.columns.items():
                if column.partition(b":")[2].startswith(STAMP_QUALIFIER):  # no other put has this column
                    traces.append(Delete(row.row, columns=(column,), timestamp=cell.timestamp))
                else:
                    rows[row.row] = max(cell.timestamp, rows.get(row.row, 0))
        deletes = [Delete(row, families=families, timestamp=newest) for row, newest in rows.items()]
        self.store.delete(table, [*traces, *deletes])
        # The deletes hide puts up to their time, which may be ahead of the clock if a session measured the server's
        # clock slowly.
        now = time.time() * 1000
        last = max((newest for newest in rows.values() if newest < now + 60_000), default=0)
        if rows:
            time.sleep(max(0, last - now) / 1000 + 0.005)


def fresh(*models: type[Any], gated: bool = True, apart: bool = True) -> RecordingStore:
    """Returns a store in memory with the tables of the models.

    If it is not gated, changes of indexes wait for sessions, as on HBase.

    If `apart` is False, callers wait for a clock tick between two puts of a cell, as on HBase.
    """
    store = RecordingStore(hb.connect("memory:"), gated=gated, apart=apart)
    if models:
        hb.create_tables(store, *models, create_external=True)
    store.calls.clear()
    return store


def set_state(store: hb.Store, model: type[Any], index: str, state: str, table: str | None = None) -> None:
    """Writes the state of an index into the registry, as a build of the index does."""
    schema = hb.schema.schema_of(model)
    declared = schema.indexes[index]
    value = canonical_json({"state": state, "table": table or declared.table, "spec": declared.spec})
    store.put("hbmodel", [Put(registry_row(schema), {INDEX_PREFIX + index.encode(): value})])


def rows_of(store: hb.Store, table: str) -> dict[bytes, int]:
    """Returns every row key of a table with the time of its newest cell."""
    (batches,) = store.scan(table, [Scan()])
    return {row.row: max(cell.timestamp for cell in row.columns.values()) for batch in batches for row in batch}


def cells_of(store: hb.Store, table: str) -> dict[bytes, dict[bytes, bytes]]:
    """Returns every row of a table with its cells."""
    (batches,) = store.scan(table, [Scan()])
    return {row.row: {column: cell.value for column, cell in row.columns.items()} for batch in batches for row in batch}


OUTLIVES = "HBMODEL_TEST_HBASE" in os.environ
"""Whether the tests use an HBase that they do not start."""


def drop_left(store: hb.Store, *tables: str) -> None:
    """Drops the tables that a test leaves, or only the given ones, on an HBase that outlives the tests. Each drop takes
    up to a second.
    """
    for table in (tables or store.tables()) if OUTLIVES else ():
        store.delete_table(table)


@contextmanager
def open_bed(kind: str, url: str) -> Iterator[Bed]:
    """Opens a bed. On HBase, its tables have unique names, and are dropped at the end if the HBase outlives the
    tests.
    """
    real = kind.startswith("thrift")
    if real:
        url = f"{url}?table_prefix=t{uuid4().hex[:8]}"
    opened = hb.connect(url)
    with RecordingStore(CutStore(opened, CUT) if kind == "cut" else opened, limited=kind == "limited") as store:
        try:
            yield Bed(kind, store)
        finally:
            if real:
                drop_left(store)


Beds = Callable[[str], Bed]


def open_once(stack: ExitStack, urls: Mapping[str, str]) -> Beds:
    """Returns a function that returns the bed of a kind, which is always the same. The function refuses a kind without
    a URL.

    Args:
        stack: closes the beds at its end.
        urls: the URL of each kind of store.
    """
    beds: dict[str, Bed] = {}

    def get(kind: str) -> Bed:
        if kind not in urls:
            raise LookupError(f"no URL is known for the store {kind}: give it one in tests/conftest.py")
        if kind not in beds:
            beds[kind] = stack.enter_context(open_bed(kind, urls[kind]))
        return beds[kind]

    return get
