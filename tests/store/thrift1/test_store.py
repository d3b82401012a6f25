"""Behaviour that is specific to the first gateway, on a real one."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest

from hbmodel.errors import (
    FamilyNotFound,
    HbmodelError,
    InvalidRequest,
    StoreError,
    TableExists,
    TableNotFound,
)
from hbmodel.store import Delete, Family, Put, Row, Scan
from hbmodel.store.filters import KeyOnly
from hbmodel.store.gateway.wire.call_sizes import CALL_SIZES
from hbmodel.store.ranges import KeyRange
from hbmodel.store.thrift1.store import Thrift1Store
from tests.support.gateway_tables import store_with_table, values
from tests.support.slow_machines import lives_for

pytestmark = pytest.mark.hbase

TABLE = f"test_thrift1_store_{uuid4().hex[:8]}"  # the workers of pytest-xdist share an HBase
A, B, E = b"d:a", b"d:b", b"e:a"
CELLS = {A: b""}


@pytest.fixture(scope="module")
def store(hbmodel_hbase: Any) -> Iterator[Thrift1Store]:
    with store_with_table(hbmodel_hbase.url, TABLE, Family(b"d"), Family(b"e")) as store:
        yield store


def read(store: Thrift1Store, row: bytes) -> dict[bytes, bytes]:
    return values(store.get(TABLE, [row])[0])


def test_get_keeps_order_and_repetitions_and_says_what_is_absent(store: Thrift1Store) -> None:
    store.put(TABLE, [Put(b"g1", {A: b"1", E: b"e"}, 5), Put(b"g2", {A: b"2"}, 6)])
    rows = store.get(TABLE, [b"g2", b"g0", b"g1", b"g2"])
    assert [row and row.row for row in rows] == [b"g2", None, b"g1", b"g2"]
    assert rows[2] is not None
    assert rows[2].columns[A].value == b"1"
    assert rows[2].columns[A].timestamp == 5
    assert [values(row) for row in store.get(TABLE, [b"g1", b"g2"], [E])] == [{E: b"e"}, {}]
    assert [values(row) for row in store.get(TABLE, [b"g1"], [b"e", A])] == [{A: b"1", E: b"e"}]


def test_many_rows_take_several_calls(store: Thrift1Store) -> None:
    count = 2 * CALL_SIZES.rows + 7
    store.put(TABLE, [Put(b"m%05d" % number, {A: b"%d" % number}, 5) for number in range(count)])
    rows = store.get(TABLE, [b"m%05d" % number for number in range(-1, count)])
    assert rows[0] is None
    assert [row and row.columns[A].value for row in rows[1:]] == [b"%d" % number for number in range(count)]
    store.delete(TABLE, [Delete(b"m%05d" % number, timestamp=5) for number in range(count)])
    assert store.get(TABLE, [b"m%05d" % number for number in range(count)]) == [None] * count


def test_empty_values_and_empty_qualifiers_are_cells(store: Thrift1Store) -> None:
    store.put(TABLE, [Put(b"empty", {b"d:": b"", A: b""}, 5)])
    assert read(store, b"empty") == {b"d:": b"", A: b""}
    assert values(store.get(TABLE, [b"empty"], [b"d:"])[0]) == {b"d:": b""}
    store.delete(TABLE, [Delete(b"empty", columns=[b"d:"], timestamp=5)])
    assert read(store, b"empty") == {A: b""}


def test_of_one_cell_put_twice_in_a_call_the_last_wins(store: Thrift1Store) -> None:
    for timestamp in (5, None):
        row = b"twice%r" % (timestamp,) if timestamp else b"twice"
        store.put(TABLE, [Put(row, {A: b"%d" % number}, timestamp) for number in range(50)])
        assert read(store, row) == {A: b"49"}


@lives_for(2.5)
def test_puts_have_lives_of_their_own(store: Thrift1Store) -> None:
    now = int(time.time() * 1000)
    store.put(
        TABLE, [Put(b"l1", {A: b""}, now, ttl=2_500), Put(b"l2", {A: b""}, now), Put(b"l3", {A: b""}, now, ttl=60_000)]
    )
    assert all(store.get(TABLE, [b"l1", b"l2", b"l3"]))
    time.sleep(max(0, now / 1000 + 2.7 - time.time()))
    assert [row and row.row for row in store.get(TABLE, [b"l1", b"l2", b"l3"])] == [None, b"l2", b"l3"]


def test_a_row_delete_hides_its_time_and_what_is_older(store: Thrift1Store) -> None:
    for time_, left in ((49, {A: b"x", E: b"x"}), (50, {})):
        row = b"rd%d" % time_
        store.put(TABLE, [Put(row, {A: b"x", E: b"x"}, 50)])
        store.delete(TABLE, [Delete(row, timestamp=time_)])
        assert read(store, row) == left
    store.put(TABLE, [Put(b"rd50", {A: b"again"}, 50)])
    assert read(store, b"rd50") == {}
    store.put(TABLE, [Put(b"rd50", {A: b"newer"}, 51)])
    assert read(store, b"rd50") == {A: b"newer"}


def test_families_and_columns_are_deleted_up_to_a_time(store: Thrift1Store) -> None:
    store.put(TABLE, [Put(b"fd", {A: b"1", B: b"1", E: b"1"}, 50)])
    store.delete(TABLE, [Delete(b"fd", families=[b"d"], timestamp=49)])
    assert read(store, b"fd") == {A: b"1", B: b"1", E: b"1"}
    store.delete(TABLE, [Delete(b"fd", columns=[A], timestamp=50)])
    assert read(store, b"fd") == {B: b"1", E: b"1"}
    store.delete(TABLE, [Delete(b"fd", families=[b"e"], columns=[B], timestamp=50)])
    assert read(store, b"fd") == {}


def test_a_column_delete_takes_all_older_versions(store: Thrift1Store) -> None:
    table = TABLE + "_versions"
    store.create_table(table, [Family(b"d", max_versions=10)])
    store.put(table, [Put(b"v", {A: b"%d" % time_}, time_) for time_ in (1, 2, 3, 4)])
    store.delete(table, [Delete(b"v", columns=[A], timestamp=3)])
    store.delete(table, [Delete(b"w", columns=[A], timestamp=3)])
    [cell] = [row and row.columns[A] for row in store.get(table, [b"v"])]
    assert cell is not None
    assert (cell.value, cell.timestamp) == (b"4", 4)
    # Once the newest is gone too, no older one may come to light.
    store.delete(table, [Delete(b"v", columns=[A], timestamp=4)])
    assert store.get(table, [b"v"]) == [None]
    store.delete_table(table)


def test_a_put_right_after_a_delete_at_the_servers_time_is_kept(store: Thrift1Store) -> None:
    for number in range(100):
        row = b"tick%d" % number
        store.put(TABLE, [Put(row, {A: b"old"})])
        store.delete(TABLE, [Delete(row)])
        store.put(TABLE, [Put(row, {A: b"new"})])
        assert read(store, row) == {A: b"new"}


def test_check_and_put(store: Thrift1Store) -> None:
    def attempt(expected: bytes | None, value: bytes) -> bool:
        return store.check_and_put(TABLE, b"cap", A, expected, Put(b"cap", {A: value}))

    assert attempt(None, b"")
    assert attempt(None, b"")  # empty counts as absent
    assert attempt(b"", b"1")
    assert not attempt(None, b"2")
    assert not attempt(b"", b"2")
    assert not attempt(b"0", b"2")
    assert attempt(b"1", b"2")
    assert read(store, b"cap") == {A: b"2"}
    assert store.check_and_put(TABLE, b"cap", A, b"2", Put(b"cap", {E: b"other column"}))


@lives_for(0.3)
def test_check_and_put_gives_the_larger_of_clock_and_checked_time_and_a_life(store: Thrift1Store) -> None:
    ahead = int(time.time() * 1000) + 3_600_000
    store.put(TABLE, [Put(b"capt", {A: b"1"}, ahead)])
    assert store.check_and_put(TABLE, b"capt", A, b"1", Put(b"capt", {A: b"2"}))
    [row] = store.get(TABLE, [b"capt"])
    assert row is not None
    assert (row.columns[A].value, row.columns[A].timestamp) == (b"2", ahead)
    assert store.check_and_put(TABLE, b"capl", A, None, Put(b"capl", {A: b"1"}, ttl=300))
    assert read(store, b"capl") == {A: b"1"}
    time.sleep(0.5)
    assert read(store, b"capl") == {}


def test_increment(store: Thrift1Store) -> None:
    assert store.increment(TABLE, b"i", A, 5) == 5
    assert store.increment(TABLE, b"i", A, -7) == -2
    assert store.increment(TABLE, b"i", A, 0) == -2
    assert read(store, b"i") == {A: (-2).to_bytes(8, "big", signed=True)}
    store.put(TABLE, [Put(b"i", {B: b"abc", E: b""}, 5)])
    for column in (B, E):
        with pytest.raises(InvalidRequest, match="eight bytes"):
            store.increment(TABLE, b"i", column, 1)


def test_a_missing_table_is_not_found_by_any_call(store: Thrift1Store) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.get("absent", [b"k"]),
        lambda: list(store.scan("absent", [Scan()])[0]),
        lambda: store.put("absent", [Put(b"k", CELLS, 1)]),
        lambda: store.put("absent", [Put(b"k", CELLS, 1), Put(b"l", CELLS, 1)]),
        lambda: store.put("absent", [Put(b"k", CELLS), Put(b"l", CELLS)]),
        lambda: store.put("absent", [Put(b"k", CELLS)]),
        lambda: store.delete("absent", [Delete(b"k", timestamp=1)]),
        lambda: store.delete("absent", [Delete(b"k", columns=[A])]),
        lambda: store.check_and_put("absent", b"k", A, None, Put(b"k", CELLS)),
        lambda: store.increment("absent", b"k", A, 1),
        lambda: store.families("absent"),
        lambda: store.regions("absent"),
        lambda: store.delete_table("absent"),
    ]
    for call in calls:
        with pytest.raises(TableNotFound) as caught:
            call()
        assert caught.value.table == "absent"


def test_a_missing_family_is_not_found_by_any_call(store: Thrift1Store) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.get(TABLE, [b"k"], [b"x"]),
        lambda: list(store.scan(TABLE, [Scan(columns=[b"x:a"])])[0]),
        lambda: store.put(TABLE, [Put(b"k", {b"x:a": b""}, 1)]),
        lambda: store.delete(TABLE, [Delete(b"k", families=[b"x"], timestamp=1)]),
        lambda: store.delete(TABLE, [Delete(b"k", columns=[b"x:a"])]),
        lambda: store.check_and_put(TABLE, b"k", b"x:a", None, Put(b"k", {b"x:a": b""})),
        lambda: store.increment(TABLE, b"k", b"x:a", 1),
    ]
    for call in calls:
        with pytest.raises(FamilyNotFound):
            call()


def test_what_hbase_refuses_is_told_in_one_line(store: Thrift1Store) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.create_table(TABLE + "_x", [Family(b"d", compression="NO_SUCH")]),
        lambda: store.create_table(TABLE + "_x", [Family(b"d", bloom_filter="NO_SUCH")]),
    ]
    for call in calls:
        with pytest.raises(StoreError) as caught:
            call()
        assert "\n" not in str(caught.value)
        assert caught.value.reason
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


def test_a_disabled_table_is_told_at_once(store: Thrift1Store, hbmodel_hbase: Any) -> None:
    table = TABLE + "_disabled"
    store.create_table(table, [Family(b"d")])
    store._administrate(("disableTable", {"tableName": table.encode()}), table=table)
    begun = time.monotonic()
    with (
        Thrift1Store.from_url(hbmodel_hbase.url + "?timeout=2&retry_for=120") as impatient,
        pytest.raises(StoreError, match="disabled"),
    ):
        impatient.put(table, [Put(b"k", CELLS, 1), Put(b"l", CELLS, 1)])
    assert time.monotonic() - begun < 100
    store.delete_table(table)
    assert table not in store.tables()


def test_tables_are_made_listed_and_dropped(store: Thrift1Store) -> None:
    table = TABLE + "_made"
    families = [Family(b"e", ttl=3600, in_memory=True, bloom_filter="ROWCOL"), Family(b"d", max_versions=3)]
    store.create_table(table, families)
    with pytest.raises(TableExists):
        store.create_table(table, families)
    assert table in store.tables()
    listed = store.tables()
    assert listed == sorted(listed)
    assert store.families(table) == [
        Family(b"d", 3, None, "NONE", "ROW", None, False),
        Family(b"e", 1, 3600, "NONE", "ROWCOL", None, True),
    ]
    [region] = store.regions(table)
    assert region.range == KeyRange()
    assert region.name.startswith(table.encode())
    store.delete_table(table)
    assert table not in store.tables()


def test_a_table_made_anew_with_other_families_loses_whole_rows_too(store: Thrift1Store, hbmodel_hbase: Any) -> None:
    table = TABLE + "_anew"
    store.create_table(table, [Family(b"d")])
    with Thrift1Store.from_url(hbmodel_hbase.url) as other, Thrift1Store.from_url(hbmodel_hbase.url) as third:
        for of in (store, third):
            of.delete(table, [Delete(b"k", timestamp=1)])  # the families are known now
        other.delete_table(table)
        other.create_table(table, [Family(b"e"), Family(b"f")])
        store.put(table, [Put(b"k", {E: b"", b"f:a": b""}, 1)])
        with pytest.raises(FamilyNotFound):  # at the server's time it is not sent again: that may hide a later put
            third.delete(table, [Delete(b"k")])
    assert values(store.get(table, [b"k"])[0]) == {E: b"", b"f:a": b""}
    store.delete(table, [Delete(b"k", timestamp=1)])
    assert store.get(table, [b"k"]) == [None]
    store.delete_table(table)


def test_a_table_prefix_hides_other_tables(hbmodel_hbase: Any, store: Thrift1Store) -> None:
    with Thrift1Store.from_url(hbmodel_hbase.url + "?table_prefix=test") as prefixed:
        inner = TABLE.removeprefix("test_")
        assert inner in prefixed.tables()
        assert TABLE not in prefixed.tables()
        prefixed.put(inner, [Put(b"prefixed", CELLS, 1)])
    assert read(store, b"prefixed") == {A: b""}


def test_threads_share_a_store(store: Thrift1Store) -> None:
    failures: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for number in range(20):
                row = b"t%d/%03d" % (name, number)
                store.put(TABLE, [Put(row, {A: b"%d" % name}, 1)])
                assert read(store, row) == {A: b"%d" % name}
                store.increment(TABLE, b"threads", A, 1)
                [scan] = store.scan(TABLE, [Scan(KeyRange.prefix(b"t%d/" % name), batch_size=7, filter=KeyOnly())])
                assert sum(len(batch) for batch in scan) == number + 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert store.increment(TABLE, b"threads", A, 0) == 200


def test_rows_and_errors_are_the_documented_kinds(store: Thrift1Store) -> None:
    rows: Sequence[Row | None] = store.get(TABLE, [b"threads"])
    assert type(rows[0]).__name__ == "ResultRow"  # as decoded, not copied
    assert not gc.is_tracked(rows[0])
    with pytest.raises(HbmodelError):
        store.families("absent")
