"""What every store promises about tables, regions, and its own end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

import pytest
from attrs import evolve

from hbmodel.errors import (
    CapabilityError,
    FamilyExists,
    FamilyNotFound,
    InvalidRequest,
    NamespaceExists,
    NamespaceNotFound,
    StoreClosed,
    StoreError,
    TableExists,
    TableNotFound,
)
from hbmodel.store import FOREVER, Delete, Family, Put, Scan, Store
from hbmodel.store.ranges import KeyRange
from tests.conformance.conformance import FAMILIES, Bed


class TableConformance:
    def test_tables_are_listed_sorted(self, bed: Bed) -> None:
        found = bed.store.tables()
        assert found == sorted(found)
        assert {bed.table, bed.narrow} <= set(found)

    def test_families(self, bed: Bed) -> None:
        found = bed.store.families(bed.table)
        assert [(family.name, family.max_versions, family.ttl) for family in found] == [
            (family.name, family.max_versions or 1, family.ttl) for family in FAMILIES
        ]

    def test_life_of_a_table(self, bed: Bed) -> None:
        table = f"life_{uuid4().hex}"
        with pytest.raises(TableNotFound):
            bed.store.families(table)
        bed.store.create_table(table, [Family(b"f", compression="NONE", bloom_filter="ROW", in_memory=False)])
        try:
            with pytest.raises(TableExists, match="There is already a table of that name"):
                bed.store.create_table(table, [Family(b"f")])
            bed.store.put(table, [Put(b"r", {b"f:a": b"1"})])
            assert bed.store.get(table, [b"r"]) != [None]
            (region,) = bed.store.regions(table)
            assert region.range == KeyRange()
            assert region.name
        finally:
            bed.store.delete_table(table)
        assert table not in bed.store.tables()
        with pytest.raises(TableNotFound):
            bed.store.delete_table(table)

    def test_a_table_made_anew_is_empty(self, bed: Bed) -> None:
        table = f"anew_{uuid4().hex}"
        for _ in range(2):
            bed.store.create_table(table, [Family(b"f")])
            assert bed.store.get(table, [b"r"]) == [None]
            # the second time: behind the tombstone of the first table
            bed.store.put(table, [Put(b"r", {b"f:a": b"1"}, 10)])
            assert bed.store.get(table, [b"r"]) != [None]
            bed.store.delete(table, [Delete(b"r", timestamp=20)])
            bed.store.delete_table(table)

    def test_unknown_table(self, bed: Bed) -> None:
        table = f"none_{uuid4().hex}"
        put = Put(b"r", {b"f:a": b"1"}, 1)
        for call in (
            lambda: bed.store.get(table, [b"r"]),
            lambda: [list(batches) for batches in bed.store.scan(table, [Scan()])],
            lambda: bed.store.put(table, [put]),
            lambda: bed.store.delete(table, [Delete(b"r", families=[b"f"], timestamp=1)]),
            lambda: bed.store.delete(table, [Delete(b"r", timestamp=1)]),
            lambda: bed.store.increment(table, b"r", b"f:a", 1),
            lambda: bed.store.check_and_put(table, b"r", b"f:a", None, Put(b"r", {b"f:a": b"1"})),
            lambda: bed.store.families(table),
            lambda: bed.store.regions(table),
        ):
            with pytest.raises(TableNotFound):
                call()

    def test_tables_that_cannot_be(self, bed: Bed) -> None:
        for table, families in (
            ("", [Family(b"f")]),
            ("with space", [Family(b"f")]),
            (".hidden", [Family(b"f")]),
            ("nothing", []),
            ("unnamed", [Family(b"")]),
            ("colon", [Family(b"a:b")]),
        ):
            with pytest.raises(InvalidRequest):
                bed.store.create_table(table, families)

    def test_split_keys(self, bed: Bed) -> None:
        table = f"split_{uuid4().hex}"
        if not bed.store.capabilities.presplit:
            with pytest.raises(CapabilityError):
                bed.store.create_table(table, [Family(b"f")], [b"g", b"p"])
            assert table not in bed.store.tables()
            return
        bed.store.create_table(table, [Family(b"f")], [b"p", b"g"])
        try:
            regions = bed.store.regions(table)
            assert [region.range for region in regions] == [
                KeyRange(b"", b"g"),
                KeyRange(b"g", b"p"),
                KeyRange(b"p", None),
            ]
            assert len({region.name for region in regions}) == 3
            bed.store.put(table, [Put(row, {b"f:a": b"1"}, 1) for row in (b"a", b"g", b"z")])
            (batches,) = bed.store.scan(table, [Scan()])
            assert [row.row for batch in batches for row in batch] == [b"a", b"g", b"z"]
        finally:
            bed.store.delete_table(table)

    def test_family_configuration(self, bed: Bed) -> None:
        table = f"configured_{uuid4().hex}"
        family = Family(b"f", configuration={"hbase.hstore.time.to.purge.deletes": "3600000"})
        if not bed.store.capabilities.family_configuration:
            with pytest.raises(CapabilityError):
                bed.store.create_table(table, [family])
            assert table not in bed.store.tables()
            return
        bed.store.create_table(table, [family])
        try:
            (found,) = bed.store.families(table)
            assert found.configuration["hbase.hstore.time.to.purge.deletes"] == "3600000"
        finally:
            bed.store.delete_table(table)


class ClosingConformance:
    def test_a_closed_store_says_so(self, bed: Bed) -> None:
        store = bed.open()
        with store as entered:
            assert entered is store
            store.tables()
        for call in (
            store.tables,
            lambda: store.get(bed.table, [b"r"]),
            lambda: store.put(bed.table, [Put(b"r", {b"d:a": b"1"})]),
            lambda: [list(batches) for batches in store.scan(bed.table, [Scan(limit=1)])],
            lambda: store.increment(bed.table, b"r", b"d:c", 1),
        ):
            with pytest.raises(StoreClosed):
                call()
        store.close()

    def test_a_scan_does_not_outlive_its_store(self, bed: Bed) -> None:
        store = bed.open()
        table = f"closing_{uuid4().hex}"
        store.create_table(table, [Family(b"d")])
        store.put(table, [Put(b"%d" % number, {b"d:a": b"1"}) for number in range(50)])
        (batches,) = store.scan(table, [Scan(batch_size=1)])
        next(batches)
        store.delete_table(table)
        store.close()
        with pytest.raises(StoreError):
            list(batches)


OPTIONS = Family(b"f", 3, 3600, "GZ", "ROWCOL", 32_768, True, {"hbase.hstore.blockingStoreFiles": "20"})


class AlterConformance:
    def test_options_left_open_are_those_of_hbase(self, bed: Bed) -> None:
        able = bed.store.capabilities.family_configuration
        with made(bed.store, [Family(b"f"), Family(b"g", ttl=FOREVER)]) as table:
            assert bed.store.families(table) == [
                Family(name, 1, None, "NONE", "ROW", 65_536 if able else None, False) for name in (b"f", b"g")
            ]

    def test_a_family_is_added(self, bed: Bed) -> None:
        with made(bed.store, [Family(b"d")]) as table:
            bed.store.put(table, [Put(b"r", {b"d:a": b"1"})])
            if not bed.store.capabilities.alter:
                refused(
                    lambda: bed.store.add_family(table, OPTIONS),
                    f"alter '{table}', {{NAME => 'f', VERSIONS => 3, TTL => 3600, ",
                )
                assert [family.name for family in bed.store.families(table)] == [b"d"]
                return
            bed.store.add_family(table, OPTIONS)
            assert bed.store.families(table)[1] == OPTIONS
            bed.store.put(table, [Put(b"r", {b"f:a": b"2"})])
            (row,) = bed.store.get(table, [b"r"])
            assert row is not None
            assert {column: cell.value for column, cell in row.columns.items()} == {b"d:a": b"1", b"f:a": b"2"}
            with pytest.raises(FamilyExists, match="The table already has a column family of that name"):
                bed.store.add_family(table, Family(b"d"))
            with pytest.raises(TableNotFound):
                bed.store.add_family(f"none_{uuid4().hex}", Family(b"d"))
            with pytest.raises(InvalidRequest, match="A column family's name must be 1 to 127 bytes without control"):
                bed.store.add_family(table, Family(b"a:b"))

    @pytest.mark.parametrize(
        ("change", "after"),
        [
            (Family(b"f", ttl=60), evolve(OPTIONS, ttl=60)),
            (Family(b"f", ttl=FOREVER), evolve(OPTIONS, ttl=None)),
            (Family(b"f", max_versions=1, in_memory=False), evolve(OPTIONS, max_versions=1, in_memory=False)),
            (
                Family(b"f", compression="NONE", bloom_filter="NONE"),
                evolve(OPTIONS, compression="NONE", bloom_filter="NONE"),
            ),
            (
                Family(b"f", block_size=8192, configuration={"x": "y"}),
                evolve(OPTIONS, block_size=8192, configuration={**OPTIONS.configuration, "x": "y"}),
            ),
            (
                Family(b"f", configuration={"hbase.hstore.blockingStoreFiles": "30"}),
                evolve(OPTIONS, configuration={"hbase.hstore.blockingStoreFiles": "30"}),
            ),
            (Family(b"f"), OPTIONS),
        ],
    )
    def test_options_that_are_not_changed_stay(self, bed: Bed, change: Family, after: Family) -> None:
        if not bed.store.capabilities.alter:
            with pytest.raises(CapabilityError):
                bed.store.modify_family(bed.table, evolve(change, name=b"d"))
            return
        with made(bed.store, [Family(b"d"), OPTIONS]) as table:
            bed.store.modify_family(table, change)
            assert bed.store.families(table)[1] == after
            assert bed.store.families(table)[0] == Family(b"d", 1, None, "NONE", "ROW", 65_536, False)

    def test_families_that_cannot_be_modified(self, bed: Bed) -> None:
        if not bed.store.capabilities.alter:
            return
        with pytest.raises(FamilyNotFound):
            bed.store.modify_family(bed.table, Family(b"nothing"))
        with pytest.raises(TableNotFound):
            bed.store.modify_family(f"none_{uuid4().hex}", Family(b"d"))
        with pytest.raises(InvalidRequest, match="A column family's TTL must be at least one second"):
            bed.store.modify_family(bed.table, Family(b"d", ttl=0))

    def test_a_shorter_life_ends_cells_that_are_there(self, bed: Bed) -> None:
        if not bed.store.capabilities.alter:
            return
        with made(bed.store, [Family(b"d")]) as table:
            old = int(time.time() * 1000) - 100_000
            bed.store.put(table, [Put(b"r", {b"d:a": b"1"}, old)])
            bed.store.modify_family(table, Family(b"d", ttl=3600))
            assert bed.store.get(table, [b"r"]) != [None]
            bed.store.modify_family(table, Family(b"d", ttl=10))
            assert bed.store.get(table, [b"r"]) == [None]


class NamespaceConformance:
    def test_life_of_a_namespace(self, bed: Bed) -> None:
        namespace = f"ns{uuid4().hex[:12]}"
        assert "default" in bed.store.namespaces()
        assert "hbase" not in bed.store.namespaces()
        assert namespace not in bed.store.namespaces()
        with pytest.raises(NamespaceNotFound, match="There is no such namespace"):
            bed.store.create_table(f"{namespace}:t", [Family(b"d")])
        if not bed.store.capabilities.namespaces:
            refused(lambda: bed.store.create_namespace(namespace), f"create_namespace '{namespace}'")
            with pytest.raises(CapabilityError):
                bed.store.delete_namespace(namespace)
            return
        bed.store.create_namespace(namespace)
        try:
            assert namespace in bed.store.namespaces()
            assert bed.store.namespaces() == sorted(bed.store.namespaces())
            with pytest.raises(NamespaceExists, match="There is already a namespace of that name"):
                bed.store.create_namespace(namespace)
            bed.store.create_table(f"{namespace}:t", [Family(b"d")])
            assert f"{namespace}:t" in bed.store.tables()
            with pytest.raises(StoreError):
                bed.store.delete_namespace(namespace)
            bed.store.delete_table(f"{namespace}:t")
        finally:
            bed.store.delete_namespace(namespace)
        assert namespace not in bed.store.namespaces()
        with pytest.raises(NamespaceNotFound):
            bed.store.delete_namespace(namespace)

    @pytest.mark.parametrize("namespace", ["", "a-b", "a:b", "with space"])
    def test_namespaces_that_cannot_be(self, bed: Bed, namespace: str) -> None:
        with pytest.raises(InvalidRequest):
            bed.store.create_namespace(namespace)

    def test_namespaces_that_must_be(self, bed: Bed) -> None:
        if bed.store.capabilities.namespaces:
            with pytest.raises(StoreError):
                bed.store.delete_namespace("default")
            for namespace in ("default", "hbase"):
                with pytest.raises(NamespaceExists):
                    bed.store.create_namespace(namespace)


@contextmanager
def made(store: Store, families: Sequence[Family]) -> Iterator[str]:
    """A table of its own."""
    table = f"altered_{uuid4().hex}"
    store.create_table(table, [f for f in families if store.capabilities.family_configuration or f is not OPTIONS])
    try:
        yield table
    finally:
        store.delete_table(table)


def refused(call: Callable[[], None], line: str) -> None:
    """Checks that the store cannot do something, and says which line does it in HBase's shell."""
    with pytest.raises(CapabilityError, match="hbase shell") as caught:
        call()
    assert caught.value.shell.startswith(line)
