"""What every store promises, through a view in which each row is an object of a wide row, as far as one family goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from hbmodel.errors import FamilyNotFound, InvalidRequest
from hbmodel.session.connect import connect
from hbmodel.store import Family, Put, Store
from tests.conformance.conformance import (
    FAMILIES,
    Bed,
    DeleteConformance,
    GetConformance,
    GetEachConformance,
    LifeConformance,
    PutConformance,
)
from tests.conformance.conformance_atomic import CheckAndPutConformance, CounterConformance, RowChangeConformance
from tests.conformance.conformance_scans import FilterConformance, ScanConformance
from tests.support.cut_rows import CutStore

GATEWAYS = tuple(pytest.param((name, 34), marks=pytest.mark.hbase, id=name) for name in ("thrift1", "thrift2"))
ABSENT = {family.name for family in FAMILIES[1:]}
COLUMNS = [b"d:" + alias for alias in (b"", b"a", b"b", b"c", b"n", b"v", b"w")]


class OneFamily:
    """A store whose tables have one family; a test that needs others is skipped."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)

        def call(*arguments: Any, **options: Any) -> Any:
            try:
                return found(*arguments, **options)
            except FamilyNotFound as error:
                # HBase does not say which one is missing.
                named = repr(arguments)
                if error.family in ABSENT or (
                    not error.family and any(repr(family)[:-1] + mark in named for family in ABSENT for mark in ":'")
                ):
                    pytest.skip("It needs several families.")
                raise

        return call if callable(found) else found


@pytest.fixture(scope="module", params=[pytest.param(("memory", 3), id="3"), pytest.param(("memory", 34), id="34"), *GATEWAYS])
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    kind, length = request.param
    url = "memory:"
    if kind != "memory":
        running = request.getfixturevalue("local_hbase")
        url = running.url if kind == "thrift1" else running.thrift2_url
    table, narrow = (f"{name}_{uuid4().hex}" for name in ("folded_conformance", "folded_narrow"))
    with connect(url) as inner:
        cut = CutStore(inner, length, folds=lambda name: name in (table, narrow), columns=COLUMNS)
        store: Any = OneFamily(cut)
        for each in (table, narrow):
            inner.create_table(each, [Family(b"d")])
        yield Bed(store, lambda: store, table, narrow)
        for each in (table, narrow):
            inner.delete_table(each)


class TestGet(GetConformance):
    pass


class TestGetEach(GetEachConformance):
    pass


class TestPut(PutConformance):
    pass


class TestDelete(DeleteConformance):
    pass


class TestLife(LifeConformance):
    pass


class TestCheckAndPut(CheckAndPutConformance):
    pass


class TestCounter(CounterConformance):
    pass


class TestRowChange(RowChangeConformance):
    def test_a_change_is_of_one_row(self, bed: Bed) -> None:
        """Of one row of the table, which may hold many objects."""
        one, other = b"one" * 12, b"other" * 8
        if bed.store.capabilities.mutate_row:
            with pytest.raises(InvalidRequest):
                bed.store.mutate_row(bed.table, [Put(one, {b"d:a": b"1"}), Put(other, {b"d:a": b"1"})])
        if bed.store.capabilities.check_and_mutate:
            with pytest.raises(InvalidRequest):
                bed.store.check_and_mutate(bed.table, one, b"d:a", None, [Put(other, {b"d:a": b"1"})])
        assert bed.store.get(bed.table, [one, other]) == [None, None]


class TestScan(ScanConformance):
    pass


class TestFilter(FilterConformance):
    pass
