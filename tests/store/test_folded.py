"""Objects of wide rows as rows of their own: the same random histories on a folded view of a store and on a plain
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hbmodel.session.connect import connect
from hbmodel.store import Family, Store
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.store.wide.page_sizes import PAGE_SIZES, PageSizes
from tests.conformance.test_store_machine import compare, filters_of, operations_of, several
from tests.support.cut_rows import CutStore
from tests.support.examples import examples
from tests.support.sizes import SMALL_PAGES, pages_of

NARROW = (Family(b"d"),)
COLUMNS = [b"d:" + qualifier for qualifier in (b"\x00", b"a", b"aa", b"b", b"c", b"\xff")]
SHARED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def cut(store: Store, table: str, length: int, pages: PageSizes) -> CutStore:
    return CutStore(store, length, folds=lambda name: name == table, columns=COLUMNS, pages=pages)


def check_same(plain: Store, store: Store, table: str, data: st.DataObject) -> None:
    # The prefix of an example has 33 bytes: its rows are cut inside of it, behind it, and behind all their bytes.
    length = data.draw(st.sampled_from([3, 33, 34, 40]))
    pages = data.draw(st.sampled_from([pages_of(1), pages_of(2, 3), SMALL_PAGES, PAGE_SIZES]))
    operations = operations_of(
        NARROW, filters=st.none() | filters_of(NARROW), rows_change=store.capabilities.mutate_row
    )
    compare(plain, table, cut(store, table, length, pages), table, data.draw(several(operations)))


@pytest.fixture(scope="module")
def memory() -> Iterator[tuple[Store, Store]]:
    """A plain store, and one that is read through a folded view."""
    with EmbeddedStore(None) as plain, EmbeddedStore(None) as store:
        for each in (plain, store):
            each.create_table("t", NARROW)
        yield plain, store


@pytest.mark.lengthy
@settings(max_examples=examples(90), deadline=None, suppress_health_check=SHARED)
@given(st.data())
def test_the_same_as_plain_rows(memory: tuple[Store, Store], data: st.DataObject) -> None:
    check_same(*memory, "t", data)


@pytest.fixture(scope="module", params=["thrift1", "thrift2"])
def hbase(request: pytest.FixtureRequest) -> Iterator[tuple[Store, Store, str]]:
    """A plain store in memory, HBase, and the table of both."""
    running = request.getfixturevalue("hbmodel_hbase")
    table = f"folded_{uuid4().hex}"
    with (
        EmbeddedStore(None) as plain,
        connect(running.url if request.param == "thrift1" else running.thrift2_url) as store,
    ):
        for each in (plain, store):
            each.create_table(table, NARROW)
        yield plain, store, table
        store.delete_table(table)


@pytest.mark.hbase
@settings(max_examples=examples(20), deadline=None, suppress_health_check=SHARED)
@given(st.data())
def test_the_same_as_plain_rows_on_hbase(hbase: tuple[Store, Store, str], data: st.DataObject) -> None:
    check_same(*hbase, data)
