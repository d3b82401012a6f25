"""What every store promises about tables, regions, and its own end."""

from __future__ import annotations

from uuid import uuid4

import pytest
from conformance import FAMILIES, Bed

from hbmodel.errors import CapabilityError, InvalidRequest, StoreClosed, StoreError, TableExists, TableNotFound
from hbmodel.ranges import KeyRange
from hbmodel.store import Delete, Family, Put, Scan


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
            with pytest.raises(TableExists):
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
            bed.store.put(table, [Put(b"r", {b"f:a": b"1"}, 10)])  # the second time: behind the tombstone of the first table
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
            assert [region.range for region in regions] == [KeyRange(b"", b"g"), KeyRange(b"g", b"p"), KeyRange(b"p", None)]
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
