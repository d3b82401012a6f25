"""What every store promises, through a view in which each row is an object of a wide row, as far as one family goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import uuid4

import pytest

from hbmodel.errors import InvalidRequest
from hbmodel.session.connect import connect
from hbmodel.store import Family, Put
from tests.conformance.conformance import (
    Bed,
    DeleteConformance,
    GetConformance,
    GetEachConformance,
    LifeConformance,
    PutConformance,
)
from tests.conformance.conformance_atomic import CheckAndPutConformance, CounterConformance, RowChangeConformance
from tests.conformance.conformance_scans import FilterConformance, ScanConformance
from tests.support.beds import drop_left
from tests.support.cut_rows import CutStore

GATEWAYS = tuple(pytest.param((name, 34), marks=pytest.mark.hbase, id=name) for name in ("thrift1", "thrift2"))
COLUMNS = [b"d:" + alias for alias in (b"", b"a", b"b", b"c", b"n", b"v", b"w")]


@pytest.fixture(
    scope="module", params=[pytest.param(("memory", 3), id="3"), pytest.param(("memory", 34), id="34"), *GATEWAYS]
)
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    kind, length = request.param
    url = "memory:"
    if kind not in {"memory", "thrift1", "thrift2"}:
        raise LookupError(f"nothing here opens the store {kind}")
    if kind != "memory":
        running = request.getfixturevalue("hbmodel_hbase")
        url = running.url if kind == "thrift1" else running.thrift2_url
    table, narrow = (f"{name}_{uuid4().hex}" for name in ("folded_conformance", "folded_narrow"))
    with connect(url) as inner:
        cut = CutStore(inner, length, folds=lambda name: name in (table, narrow), columns=COLUMNS)
        for each in (table, narrow):
            inner.create_table(each, [Family(b"d")])
        yield Bed(cut, lambda: cut, table, narrow)
        drop_left(inner, table, narrow)


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
        """For one row of the table, which may hold many objects."""
        one, other = b"one" * 12, b"other" * 8
        if bed.store.capabilities.mutate_row:
            with pytest.raises(InvalidRequest):
                bed.store.mutate_row(bed.table, [Put(one, {b"d:a": b"1"}), Put(other, {b"d:a": b"1"})])
        if bed.store.capabilities.check_and_mutate:
            with pytest.raises(InvalidRequest):
                bed.store.check_and_mutate(bed.table, one, b"d:a", None, [Put(other, {b"d:a": b"1"})])
        assert bed.store.get(bed.table, [one, other]) == [None, None]


class TestScan(ScanConformance):
    many = 300


class TestFilter(FilterConformance):
    pass


SEVERAL_FAMILIES: Mapping[type, Sequence[str]] = {
    TestDelete: (
        "test_a_delete_of_older_versions_leaves_the_newest",
        "test_a_delete_reveals_no_older_version",
        "test_a_tombstone_also_hides_what_arrives_behind_it_in_an_absent_row",
        "test_families_and_columns_in_one_delete",
        "test_family_delete",
        "test_row_delete_hides_up_to_its_time",
    ),
    TestFilter: (
        "test_a_reversed_scan_takes_no_column_range_inside_or",
        "test_a_value_filter_in_a_reversed_scan_of_several_families",
        "test_a_value_filter_sees_only_the_columns_that_are_read",
        "test_and_of_values",
        "test_column_prefix",
        "test_column_range",
        "test_key_only_and_first_cell_only",
        "test_only_the_newest_version_counts",
        "test_or_of_values",
        "test_a_column_range_behind_a_filter_that_counts_is_refused",
        "test_pages_of_a_column_range",
        "test_pagination_counts_through_the_families_in_their_order",
        "test_rows_and_values",
        "test_several_column_ranges_under_one_count",
        "test_slices_of_a_row_and_of_rows",
        "test_value",
    ),
    TestGet: (
        "test_a_whole_family_is_read_although_one_of_its_columns_is_named_too",
        "test_projection",
        "test_the_cells_of_a_family_come_in_the_order_of_their_qualifiers",
    ),
    TestGetEach: (
        "test_by_the_prefix_of_qualifiers",
        "test_other_columns_in_each_row_and_one_row_several_times",
    ),
    TestLife: (
        "test_a_dead_row_is_absent",
        "test_a_put_cannot_outlive_its_family",
        "test_family_ttl",
    ),
    TestPut: (
        "test_columns_are_merged",
        "test_newest_timestamp_is_read_whatever_the_order",
    ),
    TestRowChange: (
        "test_check_and_mutate",
        "test_many_rows_are_changed_each_on_its_own_condition",
    ),
    TestScan: ("test_projection",),
}
"""What needs several families, and is not collected."""

for of, names in SEVERAL_FAMILIES.items():
    for name in names:
        assert hasattr(of, name), name
        setattr(of, name, None)
