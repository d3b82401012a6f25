from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from hbmodel.errors import (
    CapabilityError,
    FamilyNotFound,
    HbmodelError,
    InvalidRequest,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    StoreURLError,
    TableExists,
    TableNotFound,
)
from hbmodel.ranges import KeyRange
from hbmodel.store import MAX_CELL_SIZE, Capabilities, Delete, Family, KeyOnly, Or, Put, Row, Scan, Store
from hbmodel.stores.thrift1 import Thrift1Store
from hbmodel.stores.thrift1_writes import MAX_ROWS

TABLE = "test_thrift1"
A, B, E = b"d:a", b"d:b", b"e:a"


@pytest.fixture
def nobody() -> Iterator[Thrift1Store]:
    """A store at an address where nobody listens: whatever it answers, it answers without a call."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with Thrift1Store("127.0.0.1", port, attempts=2) as store:
        yield store


# --- addresses --------------------------------------------------------------------------------------------------------


def test_an_address_becomes_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(Thrift1Store, "__init__", lambda self, **arguments: given.update(arguments))
    Thrift1Store.from_url(
        "hbase://gateway.example:9191?timeout=10&connect_timeout=.5&pool=8&transport=framed&protocol=compact&table_prefix=my&attempts=1"
    )
    assert given == {
        "host": "gateway.example",
        "port": 9191,
        "timeout": 10.0,
        "connect_timeout": 0.5,
        "pool_size": 8,
        "transport": "framed",
        "protocol": "compact",
        "table_prefix": "my",
        "attempts": 1,
    }


def test_the_shortest_address_is_this_machines() -> None:
    assert repr(Thrift1Store.from_url("hbase://")) == "Thrift1Store('127.0.0.1', 9090)"
    assert repr(Thrift1Store.from_url("hbase://other")) == "Thrift1Store('other', 9090)"
    assert repr(Thrift1Store.from_url("hbase://[::1]:91")) == "Thrift1Store('::1', 91)"


@pytest.mark.parametrize(
    ("query", "option"),
    [
        ("timout=10", "timout"),
        ("timeout=soon", "timeout"),
        ("timeout=0", "timeout"),
        ("timeout=inf", "timeout"),
        ("pool=0", "pool"),
        ("pool=1.5", "pool"),
        ("transport=carrier", "transport"),
        ("protocol=json", "protocol"),
        ("pool=1&pool=2", "pool"),
        ("attempts=", "attempts"),
    ],
)
def test_a_bad_option_is_named(query: str, option: str) -> None:
    with pytest.raises(StoreURLError) as caught:
        Thrift1Store.from_url("hbase://localhost:9090?" + query)
    assert caught.value.option == option


@pytest.mark.parametrize(
    "url", ["hbase+thrift2://localhost", "hbase://localhost:port", "hbase://localhost/table", "hbase://me:secret@localhost", "hbase://h#f"]
)
def test_what_is_no_address_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(StoreURLError) as caught:
        Thrift1Store.from_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("arguments", [{"timeout": 0}, {"pool_size": 0}, {"attempts": 0}, {"transport": "x"}, {"protocol": "x"}])
def test_bad_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        Thrift1Store(**arguments)


# --- without a call ---------------------------------------------------------------------------------------------------

CELLS = {A: b""}

BAD: list[Callable[[Thrift1Store], object]] = [
    lambda store: store.get("t", [b"ok", b""]),
    lambda store: store.get("t", [b"k" * 32768]),
    lambda store: store.get("t", [b"k"], [b""]),
    lambda store: store.get("t", [b"k"], [b":q"]),
    lambda store: store.get("", [b"k"]),
    lambda store: store.put("t", [Put(b"", CELLS)]),
    lambda store: store.put("t", [Put(b"ok", CELLS), Put(b"k" * 32768, CELLS)]),
    lambda store: store.put("t", [Put(b"k", {})]),
    lambda store: store.put("t", [Put(b"k", {b"d": b""})]),
    lambda store: store.put("t", [Put(b"k", {b":q": b""})]),
    lambda store: store.put("t", [Put(b"k", {A: bytes(MAX_CELL_SIZE)})]),
    lambda store: store.put("t", [Put(b"k", CELLS, -1)]),
    lambda store: store.put("t", [Put(b"k", CELLS, 2**63 - 1)]),
    lambda store: store.put("t", [Put(b"k", CELLS, 1, ttl=0)]),
    lambda store: store.delete("t", [Delete(b"")]),
    lambda store: store.delete("t", [Delete(b"k", timestamp=-1)]),
    lambda store: store.delete("t", [Delete(b"k", families=[b"d:"])]),
    lambda store: store.delete("t", [Delete(b"k", families=[b""])]),
    lambda store: store.delete("t", [Delete(b"k", columns=[b"d"])]),
    lambda store: store.scan("t", [Scan(batch_size=0)]),
    lambda store: store.scan("t", [Scan(limit=-1)]),
    lambda store: store.scan("t", [Scan(columns=[b":a"])]),
    lambda store: store.scan("t", [Scan(filter=Or([]))]),
    lambda store: store.check_and_put("t", b"k", A, None, Put(b"other", CELLS)),
    lambda store: store.check_and_put("t", b"k", A, None, Put(b"k", CELLS, 5)),
    lambda store: store.check_and_put("t", b"k", A, None, Put(b"k", {A: b"", B: b""})),
    lambda store: store.check_and_put("t", b"k", b"d", None, Put(b"k", CELLS)),
    lambda store: store.increment("t", b"", A, 1),
    lambda store: store.increment("t", b"k", b"d", 1),
    lambda store: store.increment("t", b"k", A, 2**63),
    lambda store: store.create_table("t", []),
    lambda store: store.create_table("t", [Family(b"d:")]),
]


@pytest.mark.parametrize("call", BAD)
def test_bad_requests_are_refused_before_any_call(nobody: Thrift1Store, call: Callable[[Thrift1Store], object]) -> None:
    with pytest.raises(InvalidRequest):
        call(nobody)


def test_nothing_to_do_makes_no_call(nobody: Thrift1Store) -> None:
    assert nobody.get("t", []) == []
    nobody.put("t", [])
    nobody.delete("t", [])
    empty = [Scan(KeyRange(b"b", b"a")), Scan(KeyRange(b"", b"")), Scan(limit=0), Scan(KeyRange(b"a", b"a"), reversed=True)]
    for scan in nobody.scan("t", empty):
        assert list(scan) == []
        scan.close()  # type: ignore[attr-defined]
    assert nobody.scan("t", []) == []


def test_what_the_gateway_cannot_do_is_said(nobody: Thrift1Store) -> None:
    assert nobody.capabilities == Capabilities(
        check_and_mutate=False, mutate_row=False, presplit=False, family_configuration=False, put_ttl_mixed=False
    )
    with pytest.raises(CapabilityError, match="embedded.*thrift2"):
        nobody.mutate_row("t", [Put(b"k", CELLS, 1)])
    with pytest.raises(CapabilityError, match="embedded.*thrift2"):
        nobody.check_and_mutate("t", b"k", A, None, [Put(b"k", CELLS, 1)])


@pytest.mark.parametrize(
    ("families", "split_keys", "line"),
    [
        (
            [Family(b"d", 3, ttl=60, compression="SNAPPY")],
            [b"\x01", b"a'\\", b"\xff~"],
            r"create 'x.t', {NAME => 'd', VERSIONS => 3, TTL => 60, COMPRESSION => 'SNAPPY'}, SPLITS => ['\x01', 'a\x27\x5C', '\xFF~']",
        ),
        (
            [Family(b"d", configuration={"hbase.hstore.time.to.purge.deletes": "3600000"}), Family(b"e", block_size=8192, in_memory=True)],
            [],
            "create 'x.t', {NAME => 'd', VERSIONS => 1, CONFIGURATION => {'hbase.hstore.time.to.purge.deletes' => '3600000'}}, "
            "{NAME => 'e', VERSIONS => 1, BLOCKSIZE => 8192, IN_MEMORY => true}",
        ),
        ([Family(b"d", bloom_filter="NONE")], [b"m"], "create 'x.t', {NAME => 'd', VERSIONS => 1, BLOOMFILTER => 'NONE'}, SPLITS => ['m']"),
    ],
)
def test_tables_beyond_the_gateway_come_with_the_line_for_the_shell(families: list[Family], split_keys: list[bytes], line: str) -> None:
    with (
        Thrift1Store("127.0.0.1", 1, table_prefix="x", table_prefix_separator=".") as store,
        pytest.raises(CapabilityError, match="hbase shell") as caught,
    ):
        store.create_table("t", families, split_keys)
    assert caught.value.shell == line


def test_an_unreachable_gateway_is_unavailable_for_every_call(nobody: Thrift1Store) -> None:
    calls: list[Callable[[], object]] = [
        lambda: nobody.get("t", [b"k"]),
        lambda: next(nobody.scan("t", [Scan()])[0]),
        lambda: nobody.put("t", [Put(b"k", CELLS, 1)]),
        lambda: nobody.put("t", [Put(b"k", CELLS)]),
        lambda: nobody.delete("t", [Delete(b"k")]),
        lambda: nobody.check_and_put("t", b"k", A, None, Put(b"k", CELLS)),
        lambda: nobody.increment("t", b"k", A, 1),
        nobody.tables,
        lambda: nobody.families("t"),
        lambda: nobody.regions("t"),
        lambda: nobody.create_table("t", [Family(b"d")]),
        lambda: nobody.delete_table("t"),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable):
            call()


def test_a_host_that_cannot_be_named_is_unavailable() -> None:
    with Thrift1Store("x" * 70, attempts=1) as store, pytest.raises(StoreUnavailable):
        store.tables()


def test_a_closed_store_says_so(nobody: Thrift1Store) -> None:
    store: Store = nobody
    store.close()
    store.close()
    for call in (store.tables, lambda: store.get("t", [b"k"]), lambda: store.scan("t", [Scan()]), lambda: store.put("t", [Put(b"k", CELLS)])):
        with pytest.raises(StoreClosed):
            call()


# --- on HBase ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(local_hbase: Any) -> Iterator[Thrift1Store]:
    with Thrift1Store.from_url(local_hbase.url) as store:
        for table in (TABLE, TABLE + "_versions"):
            if table in store.tables():
                store.delete_table(table)
        store.create_table(TABLE, [Family(b"d"), Family(b"e")])
        yield store
        store.delete_table(TABLE)


def values(row: Row | None) -> dict[bytes, bytes] | None:
    return None if row is None else {column: cell.value for column, cell in row.columns.items()}


def read(store: Thrift1Store, row: bytes) -> dict[bytes, bytes] | None:
    return values(store.get(TABLE, [row])[0])


@pytest.mark.hbase
def test_get_keeps_order_and_repetitions_and_says_what_is_absent(store: Thrift1Store) -> None:
    store.put(TABLE, [Put(b"g1", {A: b"1", E: b"e"}, 5), Put(b"g2", {A: b"2"}, 6)])
    rows = store.get(TABLE, [b"g2", b"g0", b"g1", b"g2"])
    assert [row and row.row for row in rows] == [b"g2", None, b"g1", b"g2"]
    assert rows[2] is not None
    assert rows[2].columns[A].value == b"1"
    assert rows[2].columns[A].timestamp == 5
    assert [values(row) for row in store.get(TABLE, [b"g1", b"g2"], [E])] == [{E: b"e"}, None]
    assert [values(row) for row in store.get(TABLE, [b"g1"], [b"e", A])] == [{A: b"1", E: b"e"}]


@pytest.mark.hbase
def test_many_rows_take_several_calls(store: Thrift1Store) -> None:
    count = 2 * MAX_ROWS + 7
    store.put(TABLE, [Put(b"m%05d" % number, {A: b"%d" % number}, 5) for number in range(count)])
    rows = store.get(TABLE, [b"m%05d" % number for number in range(-1, count)])
    assert rows[0] is None
    assert [row and row.columns[A].value for row in rows[1:]] == [b"%d" % number for number in range(count)]
    store.delete(TABLE, [Delete(b"m%05d" % number, timestamp=5) for number in range(count)])
    assert store.get(TABLE, [b"m%05d" % number for number in range(count)]) == [None] * count


@pytest.mark.hbase
def test_empty_values_and_empty_qualifiers_are_cells(store: Thrift1Store) -> None:
    store.put(TABLE, [Put(b"empty", {b"d:": b"", A: b""}, 5)])
    assert read(store, b"empty") == {b"d:": b"", A: b""}
    assert values(store.get(TABLE, [b"empty"], [b"d:"])[0]) == {b"d:": b""}
    store.delete(TABLE, [Delete(b"empty", columns=[b"d:"], timestamp=5)])
    assert read(store, b"empty") == {A: b""}


@pytest.mark.hbase
def test_of_one_cell_put_twice_in_a_call_the_last_wins(store: Thrift1Store) -> None:
    for timestamp in (5, None):
        row = b"twice%r" % (timestamp,) if timestamp else b"twice"
        store.put(TABLE, [Put(row, {A: b"%d" % number}, timestamp) for number in range(50)])
        assert read(store, row) == {A: b"49"}


@pytest.mark.hbase
def test_puts_have_lives_of_their_own(store: Thrift1Store) -> None:
    now = int(time.time() * 1000)
    store.put(TABLE, [Put(b"l1", {A: b""}, now, ttl=400), Put(b"l2", {A: b""}, now), Put(b"l3", {A: b""}, now, ttl=60_000)])
    assert all(store.get(TABLE, [b"l1", b"l2", b"l3"]))
    time.sleep(0.6)
    assert [row and row.row for row in store.get(TABLE, [b"l1", b"l2", b"l3"])] == [None, b"l2", b"l3"]


@pytest.mark.hbase
def test_a_row_delete_hides_its_time_and_what_is_older(store: Thrift1Store) -> None:
    for time_, left in ((49, {A: b"x", E: b"x"}), (50, None)):
        row = b"rd%d" % time_
        store.put(TABLE, [Put(row, {A: b"x", E: b"x"}, 50)])
        store.delete(TABLE, [Delete(row, timestamp=time_)])
        assert read(store, row) == left
    store.put(TABLE, [Put(b"rd50", {A: b"again"}, 50)])
    assert read(store, b"rd50") is None
    store.put(TABLE, [Put(b"rd50", {A: b"newer"}, 51)])
    assert read(store, b"rd50") == {A: b"newer"}


@pytest.mark.hbase
def test_families_and_columns_are_deleted_up_to_a_time(store: Thrift1Store) -> None:
    store.put(TABLE, [Put(b"fd", {A: b"1", B: b"1", E: b"1"}, 50)])
    store.delete(TABLE, [Delete(b"fd", families=[b"d"], timestamp=49)])
    assert read(store, b"fd") == {A: b"1", B: b"1", E: b"1"}
    store.delete(TABLE, [Delete(b"fd", columns=[A], timestamp=50)])
    assert read(store, b"fd") == {B: b"1", E: b"1"}
    store.delete(TABLE, [Delete(b"fd", families=[b"e"], columns=[B], timestamp=50)])
    assert read(store, b"fd") is None


@pytest.mark.hbase
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


@pytest.mark.hbase
def test_a_put_right_after_a_delete_at_the_servers_time_is_kept(store: Thrift1Store) -> None:
    for number in range(100):
        row = b"tick%d" % number
        store.put(TABLE, [Put(row, {A: b"old"})])
        store.delete(TABLE, [Delete(row)])
        store.put(TABLE, [Put(row, {A: b"new"})])
        assert read(store, row) == {A: b"new"}


@pytest.mark.hbase
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


@pytest.mark.hbase
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
    assert read(store, b"capl") is None


@pytest.mark.hbase
def test_increment(store: Thrift1Store) -> None:
    assert store.increment(TABLE, b"i", A, 5) == 5
    assert store.increment(TABLE, b"i", A, -7) == -2
    assert store.increment(TABLE, b"i", A, 0) == -2
    assert read(store, b"i") == {A: (-2).to_bytes(8, "big", signed=True)}
    store.put(TABLE, [Put(b"i", {B: b"abc", E: b""}, 5)])
    for column in (B, E):
        with pytest.raises(InvalidRequest, match="eight bytes"):
            store.increment(TABLE, b"i", column, 1)


@pytest.mark.hbase
def test_a_missing_table_is_not_found_by_any_call(store: Thrift1Store) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.get("absent", [b"k"]),
        lambda: list(store.scan("absent", [Scan()])[0]),
        lambda: store.put("absent", [Put(b"k", CELLS, 1)]),
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


@pytest.mark.hbase
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


@pytest.mark.hbase
def test_what_hbase_refuses_is_told_in_one_line(store: Thrift1Store) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.create_table(TABLE + "_x", [Family(b"d", compression="NO_SUCH")]),
        lambda: store.create_table(TABLE + "_x", [Family(b"d", bloom_filter="NO_SUCH")]),
        lambda: store.create_table("no_such_namespace:t", [Family(b"d")]),
        lambda: store.put("no table's name", [Put(b"k", CELLS, 1)]),
    ]
    for call in calls:
        with pytest.raises(StoreError) as caught:
            call()
        assert "\n" not in str(caught.value)
        assert caught.value.reason
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


@pytest.mark.hbase
def test_a_disabled_table_is_told_at_once(store: Thrift1Store, local_hbase: Any) -> None:
    table = TABLE + "_disabled"
    store.create_table(table, [Family(b"d")])
    store._administrate("disableTable", table)
    begun = time.monotonic()
    with Thrift1Store.from_url(local_hbase.url + "?timeout=2") as impatient, pytest.raises(StoreError, match="disabled"):
        impatient.put(table, [Put(b"k", CELLS, 1)])
    assert time.monotonic() - begun < 10
    store.delete_table(table)
    assert table not in store.tables()


@pytest.mark.hbase
def test_tables_are_made_listed_and_dropped(store: Thrift1Store) -> None:
    table = TABLE + "_made"
    families = [Family(b"e", ttl=3600, in_memory=True, bloom_filter="ROWCOL"), Family(b"d", max_versions=3)]
    store.create_table(table, families)
    with pytest.raises(TableExists):
        store.create_table(table, families)
    assert table in store.tables()
    assert store.tables() == sorted(store.tables())
    assert store.families(table) == [
        Family(b"d", 3, None, "NONE", "ROW", None, False),
        Family(b"e", 1, 3600, "NONE", "ROWCOL", None, True),
    ]
    [region] = store.regions(table)
    assert region.range == KeyRange()
    assert region.name.startswith(table.encode())
    store.delete_table(table)
    assert table not in store.tables()


@pytest.mark.hbase
def test_a_table_made_anew_with_other_families_loses_whole_rows_too(store: Thrift1Store, local_hbase: Any) -> None:
    table = TABLE + "_anew"
    store.create_table(table, [Family(b"d")])
    store.delete(table, [Delete(b"k", timestamp=1)])  # the families are known now
    with Thrift1Store.from_url(local_hbase.url) as other:
        other.delete_table(table)
        other.create_table(table, [Family(b"e"), Family(b"f")])
    store.put(table, [Put(b"k", {E: b"", b"f:a": b""}, 1)])
    store.delete(table, [Delete(b"k", timestamp=1)])
    assert store.get(table, [b"k"]) == [None]
    store.delete_table(table)


@pytest.mark.hbase
def test_a_table_prefix_hides_other_tables(local_hbase: Any, store: Thrift1Store) -> None:
    with Thrift1Store.from_url(local_hbase.url + "?table_prefix=test") as prefixed:
        assert "thrift1" in prefixed.tables()
        assert all(f"test_{table}" in store.tables() for table in prefixed.tables())
        prefixed.put("thrift1", [Put(b"prefixed", CELLS, 1)])
    assert read(store, b"prefixed") == {A: b""}


@pytest.mark.hbase
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


@pytest.mark.hbase
def test_rows_and_errors_are_the_documented_kinds(store: Thrift1Store) -> None:
    rows: Sequence[Row | None] = store.get(TABLE, [b"threads"])
    assert type(rows[0]).__name__ == "TRowResult"  # as decoded, not copied
    with pytest.raises(HbmodelError):
        store.families("absent")
