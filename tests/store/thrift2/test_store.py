"""Behaviour that is specific to the second gateway, on a real one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.errors import (
    FamilyNotFound,
    InvalidRequest,
    NamespaceNotFound,
    RowExists,
    StoreError,
    TableNotFound,
    UnknownOutcome,
)
from hbmodel.store import ConditionalChange, Delete, Family, Put, Scan
from hbmodel.store.filters import ValueFilter
from hbmodel.store.ranges import KeyRange
from hbmodel.store.thrift1.store import Thrift1Store
from hbmodel.store.thrift2.family_descriptors import table_name
from hbmodel.store.thrift2.service import TColumnFamilyDescriptor, TTableDescriptor
from hbmodel.store.thrift2.store import Thrift2Store
from tests.support.gateway_tables import store_with_table, values
from tests.support.proxy import Proxy
from tests.support.slow_machines import lives_for

pytestmark = pytest.mark.hbase

TABLE = f"test_thrift2_{uuid4().hex[:8]}"  # the workers of pytest-xdist share an HBase
A, B, E = b"d:a", b"d:b", b"e:a"
CELLS = {A: b""}


@pytest.fixture(scope="module")
def store(hbmodel_hbase: Any) -> Iterator[Thrift2Store]:
    with store_with_table(hbmodel_hbase.thrift2_url, TABLE, Family(b"d"), Family(b"e")) as store:
        yield store


@pytest.fixture
def proxy(store: Thrift2Store, hbmodel_hbase: Any) -> Iterator[Proxy]:
    with Proxy(hbmodel_hbase.thrift2_url) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: Proxy) -> Iterator[Thrift2Store]:
    with Thrift2Store.from_url(proxy.url) as store:
        yield store


def read(store: Thrift2Store, row: bytes) -> dict[bytes, bytes]:
    return values(store.get(TABLE, [row])[0])


# --- calls ------------------------------------------------------------------------------------------------------------


def test_each_operation_is_one_call(proxy: Proxy, through: Thrift2Store) -> None:
    now = int(time.time() * 1000)
    puts = [Put(b"c1", CELLS, now), Put(b"c2", CELLS, now - 5, ttl=60_000), Put(b"c3", CELLS, None, ttl=70_000)]
    operations: list[tuple[str, Callable[[], object]]] = [
        ("putMultiple", lambda: through.put(TABLE, puts)),
        ("getMultiple", lambda: through.get(TABLE, [b"c1", b"c2", b"c3", b"c4"], [A])),
        ("getScannerResults", lambda: list(through.scan(TABLE, [Scan(KeyRange.prefix(b"c"), limit=2)])[0])),
        ("getScannerResults", lambda: list(through.scan(TABLE, [Scan(KeyRange.prefix(b"c"), reversed=True)])[0])),
        ("mutateRow", lambda: through.mutate_row(TABLE, [Put(b"c1", CELLS, now + 1), Delete(b"c1", timestamp=now)])),
        ("checkAndMutate", lambda: through.check_and_mutate(TABLE, b"c1", A, None, [Put(b"c1", CELLS, now + 2)])),
        ("checkAndMutate", lambda: through.check_and_put(TABLE, b"c1", A, None, Put(b"c1", CELLS))),
        (
            "deleteMultiple",
            lambda: through.delete(
                TABLE, [Delete(b"c1", timestamp=now), Delete(b"c2", families=[b"e"], timestamp=now)]
            ),
        ),
        ("mutateRow", lambda: through.delete(TABLE, [Delete(b"c1", families=[b"e"], columns=[B], timestamp=now)])),
        ("increment", lambda: through.increment(TABLE, b"c1", b"d:n", 1)),
    ]
    for method, operation in operations:
        proxy.forget()
        operation()
        assert proxy.calls() == [method]


def test_conditional_changes_of_many_rows_are_sent_ahead(proxy: Proxy, store: Thrift2Store) -> None:
    changes = [ConditionalChange(b"ahead%d" % n, A, None, [Put(b"ahead%d" % n, CELLS, 5)]) for n in range(9)]
    with Thrift2Store.from_url(proxy.url + "?timeout=2") as hasty:
        proxy.on_call("checkAndMutate", "mute")
        with pytest.raises(UnknownOutcome):
            hasty.check_and_mutate_many(TABLE, changes)
    assert proxy.calls().count("checkAndMutate") == 3  # though no answer came, and none was sent again
    assert all(store.check_and_mutate_many(TABLE, changes[3:]))


def test_many_conditional_changes_are_spread_over_connections(proxy: Proxy, store: Thrift2Store) -> None:
    rows = [b"spread%03d" % n for n in range(200)]
    store.put(TABLE, [Put(row, {B: b"%d" % (n % 3)}, 5) for n, row in enumerate(rows)])
    changes = [ConditionalChange(row, B, b"1", [Put(row, CELLS, 6)]) for row in rows]
    with Thrift2Store.from_url(proxy.url + "?timeout=20") as spread:
        assert spread.check_and_mutate_many(TABLE, changes) == [n % 3 == 1 for n in range(200)]
        assert proxy.connections == 4
        assert proxy.calls().count("checkAndMutate") == 200
    with Thrift2Store.from_url(proxy.url + "?timeout=20&pool=1") as alone:
        assert alone.check_and_mutate_many(TABLE, changes) == [n % 3 == 1 for n in range(200)]
        assert proxy.connections == 5


@pytest.mark.parametrize("after", [0, 100, 2000, 5000])
def test_an_answer_that_is_lost_of_many_changes_leaves_them_in_doubt(
    proxy: Proxy, store: Thrift2Store, after: int
) -> None:
    changes = [
        ConditionalChange(row, A, None, [Put(row, {A: b"1"}, 6)])
        for row in (b"lost%d-%03d" % (after, n) for n in range(200))
    ]
    with Thrift2Store.from_url(proxy.url + "?timeout=20") as spread:
        proxy.cut_after_reply_bytes(after)
        with pytest.raises(UnknownOutcome):
            spread.check_and_mutate_many(TABLE, changes)
        assert spread.get(TABLE, [b"none"]) == [None]  # no connection with answers to come is used again
        assert not all(spread.check_and_mutate_many(TABLE, changes))
        assert None not in store.get(TABLE, [change.row for change in changes])


def test_a_page_of_a_session_is_one_call(proxy: Proxy, through: Thrift2Store, store: Thrift2Store) -> None:
    @hb.model(table=TABLE + "_page", family="d")
    class Thing:
        at: hb.Key[int] = hb.key(hb.UInt32)
        name: hb.Column[str] = hb.column("n")

    hb.create_tables(store, Thing, registry=TABLE + "_registry")
    with hb.Session(store, registry=TABLE + "_registry") as session:
        session.add_all([Thing(at=number, name=str(number)) for number in range(50)])
    session = hb.Session(through, registry=TABLE + "_registry")
    things = session.query(Thing).where(Thing.at < 1000)
    things.limit(1).all()  # reads the registry
    proxy.forget()
    page = things.page(20)
    assert [thing.at for thing in page.items] == list(range(20))
    assert proxy.calls() == ["getScannerResults"]
    assert [thing.at for thing in things.page(20, after=page.next_token).items] == list(range(20, 40))
    assert [thing.at for thing in things.reversed().limit(20)] == list(range(49, 29, -1))
    assert proxy.calls() == ["getScannerResults"] * 3
    for table in (TABLE + "_page", TABLE + "_registry"):
        store.delete_table(table)


# --- changes of a row -------------------------------------------------------------------------------------------------


def test_a_change_of_a_row_is_never_seen_in_part(store: Thrift2Store) -> None:
    store.put(TABLE, [Put(b"whole", {A: b"0", E: b"0"}, 1)])
    seen: list[dict[bytes, bytes]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.append(read(store, b"whole"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(1, 150):
        value = b"%d" % number
        column = (b"d:%d" % (number % 3), b"e:%d" % (number % 3))
        time_ = 10 * number
        change = [
            Delete(b"whole", timestamp=time_ - 1),
            Put(b"whole", {column[0]: value}, time_),
            Put(b"whole", {column[1]: value}, time_),
        ]
        store.mutate_row(TABLE, change)
    done.set()
    watcher.join()
    assert len(seen) > 20
    for row in seen:
        assert len(row) == 2
        assert len(set(row.values())) == 1


def test_families_and_columns_of_a_change_go_up_to_its_time_only(store: Thrift2Store) -> None:
    store.put(
        TABLE, [Put(b"upto", {A: b"50", B: b"50", E: b"50"}, 50), Put(b"upto", {b"d:old": b"40", b"e:old": b"40"}, 40)]
    )
    store.mutate_row(
        TABLE,
        [Delete(b"upto", families=[b"d"], columns=[E, b"e:old"], timestamp=49), Put(b"upto", {b"d:new": b"45"}, 45)],
    )
    assert read(store, b"upto") == {A: b"50", B: b"50", E: b"50"}  # and the put at 45 is below the tombstone
    store.mutate_row(
        TABLE, [Put(b"upto", {b"d:new": b"51"}, 51), Delete(b"upto", families=[b"d"], columns=[E], timestamp=50)]
    )
    assert read(store, b"upto") == {b"d:new": b"51"}


def test_a_put_right_after_a_change_that_deletes_at_the_servers_time_is_kept(store: Thrift2Store) -> None:
    for number in range(60):
        row = b"tick%d" % number
        store.put(TABLE, [Put(row, {A: b"old"})])
        if number % 2:
            store.mutate_row(TABLE, [Delete(row)])
        else:
            assert store.check_and_mutate(TABLE, row, A, b"old", [Delete(row)])
        store.put(TABLE, [Put(row, {A: b"new"})])
        assert read(store, row) == {A: b"new"}


def test_of_many_conditional_changes_each_sees_the_one_before(store: Thrift2Store) -> None:
    """Sixteen threads count by check-and-mutate of a version: no step is lost, and the log has one entry for each."""
    store.put(TABLE, [Put(b"count", {A: b"0"}, 1)])
    steps: list[int] = []

    def work() -> None:
        taken = 0
        while taken < 5:
            row = read(store, b"count")
            version = int(row[A])
            change = [
                Put(b"count", {A: b"%d" % (version + 1), b"e:%03d" % version: b"x"}, version + 2),
                Delete(b"count", columns=[b"d:none"], timestamp=version + 1),
            ]
            if store.check_and_mutate(TABLE, b"count", A, row[A], change):
                steps.append(version)
                taken += 1

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(steps) == list(range(80))
    assert read(store, b"count") == {A: b"80", **{b"e:%03d" % number: b"x" for number in range(80)}}


def test_a_failed_condition_changes_nothing(store: Thrift2Store) -> None:
    store.put(TABLE, [Put(b"cond", {A: b"1"}, 10)])
    change = [Put(b"cond", {B: b"2"}, 20), Delete(b"cond", columns=[A], timestamp=20)]
    for expected in (None, b"", b"2", b"1\x00"):
        assert not store.check_and_mutate(TABLE, b"cond", A, expected, change)
        assert not store.check_and_put(TABLE, b"cond", A, expected, Put(b"cond", {B: b"2"}))
    assert read(store, b"cond") == {A: b"1"}


@lives_for(0.4)
def test_puts_of_one_call_have_lives_of_their_own(store: Thrift2Store) -> None:
    now = int(time.time() * 1000)
    store.put(TABLE, [Put(b"l1", CELLS, now, ttl=400), Put(b"l2", CELLS, now), Put(b"l3", CELLS, now, ttl=60_000)])
    store.mutate_row(TABLE, [Put(b"l4", {A: b"short"}, now, ttl=400), Put(b"l4", {B: b"long"}, now)])
    assert all(store.get(TABLE, [b"l1", b"l2", b"l3"]))
    time.sleep(0.6)
    assert [row and row.row for row in store.get(TABLE, [b"l1", b"l2", b"l3"])] == [None, b"l2", b"l3"]
    assert read(store, b"l4") == {B: b"long"}


def test_sessions_insert(store: Thrift2Store, hbmodel_hbase: Any) -> None:
    @hb.model(table=TABLE + "_insert", family="d")
    class Account:
        name: hb.Key[str] = hb.key()
        owner: hb.Column[str] = hb.column("o")
        note: hb.Column[str | None] = hb.column("n", default=None)
        by_owner = hb.index("owner")

    with hb.connect(hbmodel_hbase.thrift2_url + f"?table_prefix={TABLE}") as opened:
        hb.create_tables(opened, Account)
        session = hb.Session(opened)
        session.insert(Account(name="a", owner="ann"))
        with pytest.raises(RowExists):
            session.insert(Account(name="a", owner="bob"))
        assert session.query(Account).where(Account.owner == "ann").all() == [Account(name="a", owner="ann")]
        assert session.query(Account).where(Account.owner == "bob").all() == []
        for table in opened.tables():
            opened.delete_table(table)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_regions_are_made_and_read_back_with_their_names(store: Thrift2Store, hbmodel_hbase: Any) -> None:
    table = TABLE + "_split"
    keys = [b"\x00", b"a,b", b"m\x00\xff", b"\xff\xfe"]
    store.create_table(table, [Family(b"d")], [keys[2], keys[0], keys[3], keys[1]])
    found = store.regions(table)
    assert [region.range for region in found] == [
        KeyRange(start, stop) for start, stop in zip([b"", *keys], [*keys, None], strict=True)
    ]
    with Thrift1Store.from_url(hbmodel_hbase.url) as first:  # whose gateway knows the names
        assert found == first.regions(table)
    store.delete_table(table)


def test_every_setting_of_a_family_is_made_and_read_back(store: Thrift2Store) -> None:
    table = TABLE + "_settings"
    families = [
        Family(
            b"a",
            3,
            3600,
            "GZ",
            "ROWCOL",
            8192,
            True,
            {"hbase.hstore.time.to.purge.deletes": "3600000", "of our own": "é"},
        ),
        Family(b"b", 1, None, "NONE", "NONE", 65_536, False),
    ]
    store.create_table(table, families)
    assert store.families(table) == families
    store.delete_table(table)
    store.create_table(table, [Family(b"d")])
    assert store.families(table) == [Family(b"d", 1, None, "NONE", "ROW", 65_536, False)]
    store.delete_table(table)


def test_other_namespaces_are_reached_by_name(store: Thrift2Store) -> None:
    assert b"info" in [family.name for family in store.families("hbase:meta")]
    assert "hbase:meta" not in store.tables()
    with pytest.raises(NamespaceNotFound):
        store.create_table("no_such_namespace:t", [Family(b"d")])


@pytest.mark.parametrize("family", [Family(b"d", compression="NO_SUCH"), Family(b"d", bloom_filter="NO_SUCH")])
def test_what_hbase_refuses_is_told_in_one_line(store: Thrift2Store, family: Family) -> None:
    with pytest.raises(StoreError) as caught:
        store.create_table(TABLE + "_refused", [family])
    assert caught.value.reason
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_table_prefix_hides_other_tables(hbmodel_hbase: Any, store: Thrift2Store) -> None:
    with Thrift2Store.from_url(hbmodel_hbase.thrift2_url + "?table_prefix=test") as prefixed:
        inner = TABLE.removeprefix("test_")
        assert inner in prefixed.tables()
        prefixed.put(inner, [Put(b"prefixed", CELLS, 1)])
        assert read(store, b"prefixed") == CELLS
        assert prefixed.regions(inner) == store.regions(TABLE)
        assert prefixed.families(inner) == store.families(TABLE)


def test_a_table_prefix_follows_the_namespace(hbmodel_hbase: Any, store: Thrift2Store) -> None:
    namespace = f"ns{uuid4().hex[:12]}"
    url = hbmodel_hbase.thrift2_url
    store.create_namespace(namespace)
    try:
        with (
            hb.connect(f"{url}?table_prefix=app") as prefixed,
            hb.connect(f"{url}?table_prefix={namespace}:app") as inside,
        ):
            prefixed.create_table(f"{namespace}:t", [Family(b"d")])
            assert f"{namespace}:app_t" in store.tables()
            assert f"{namespace}:t" in prefixed.tables()
            assert inside.tables() == ["t"]
            inside.put("t", [Put(b"k", CELLS, 1)])
            assert prefixed.get(f"{namespace}:t", [b"k"]) != [None]
            with pytest.raises(InvalidRequest):
                inside.get("other:t", [b"k"])
            with pytest.raises(TableNotFound):
                inside.get("absent", [b"k"])
            with pytest.raises(TableNotFound):
                prefixed.put(f"{namespace}:absent", [Put(b"k", CELLS, 1)])
            inside.delete_table("t")
    finally:
        store.delete_namespace(namespace)


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_missing_table_is_not_found_by_any_call(hbmodel_hbase: Any) -> None:
    with Thrift2Store.from_url(hbmodel_hbase.thrift2_url + "?table_prefix=test") as store:
        change = [Put(b"k", CELLS, 1), Delete(b"k", timestamp=0)]
        calls: list[Callable[[], object]] = [
            lambda: store.get("absent", [b"k"]),
            lambda: list(store.scan("absent", [Scan()])[0]),
            lambda: list(store.scan("absent", [Scan(limit=1)])[0]),
            lambda: store.put("absent", [Put(b"k", CELLS, 1)]),
            lambda: store.put("absent", [Put(b"k", CELLS), Put(b"l", CELLS)]),
            lambda: store.delete("absent", [Delete(b"k", timestamp=1)]),
            lambda: store.delete("absent", [Delete(b"k"), Delete(b"l")]),
            lambda: store.mutate_row("absent", change),
            lambda: store.check_and_mutate("absent", b"k", A, None, change),
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


def test_a_missing_family_is_not_found_by_any_call(store: Thrift2Store) -> None:
    change = [Put(b"k", {b"x:a": b""}, 1), Delete(b"k", timestamp=0)]
    calls: list[Callable[[], object]] = [
        lambda: store.get(TABLE, [b"k"], [b"x"]),
        lambda: list(store.scan(TABLE, [Scan(columns=[b"x:a"])])[0]),
        lambda: store.put(TABLE, [Put(b"k", {b"x:a": b""}, 1)]),
        lambda: store.delete(TABLE, [Delete(b"k", families=[b"x"], timestamp=1)]),
        lambda: store.delete(TABLE, [Delete(b"k", columns=[b"x:a"]), Delete(b"l", columns=[b"x:a"])]),
        lambda: store.mutate_row(TABLE, change),
        lambda: store.check_and_mutate(TABLE, b"k", A, None, change),
        lambda: store.check_and_mutate(TABLE, b"k", b"x:a", None, [Put(b"k", CELLS, 1)]),
        lambda: store.increment(TABLE, b"k", b"x:a", 1),
    ]
    for call in calls:
        with pytest.raises(FamilyNotFound):
            call()


def test_a_disabled_table_is_told(store: Thrift2Store, hbmodel_hbase: Any) -> None:
    table = TABLE + "_disabled"
    store.create_table(table, [Family(b"d")])
    store._administrate(("disableTable", {"tableName": store._designation(table.encode())}), table=table)
    begun = time.monotonic()
    with Thrift2Store.from_url(hbmodel_hbase.thrift2_url + "?timeout=2&retry_for=120") as impatient:
        for call in (
            lambda: impatient.put(table, [Put(b"k", CELLS, 1)]),
            lambda: impatient.get(table, [b"k"]),
            lambda: list(impatient.scan(table, [Scan()])[0]),
        ):
            with pytest.raises(StoreError, match="disabled"):
                call()
    assert time.monotonic() - begun < 100
    store.delete_table(table)
    assert table not in store.tables()


def test_the_gateway_resets_what_it_is_not_given_and_the_store_gives_it_everything(store: Thrift2Store) -> None:
    table = f"{TABLE}_reset"
    settings = {
        b"VERSIONS": b"3",
        b"DATA_BLOCK_ENCODING": b"FAST_DIFF",
        b"KEEP_DELETED_CELLS": b"TRUE",
        b"MIN_VERSIONS": b"1",
    }
    descriptor = TTableDescriptor(
        tableName=table_name(table.encode()), columns=[TColumnFamilyDescriptor(name=b"d", attributes=settings)]
    )
    store._administrate(("createTable", {"desc": descriptor}), table=table)

    def told() -> dict[bytes, bytes]:
        (family,) = store._descriptors(table)
        return {name: value for name, value in family.attributes.items() if name in {*settings, b"TTL"}}

    try:
        store.modify_family(table, Family(b"d", ttl=60))
        assert told() == {**settings, b"TTL": b"60"}, "options that this library does not know stay too"
        bare = TColumnFamilyDescriptor(name=b"d", attributes={b"TTL": b"90"})
        store._administrate(
            ("modifyColumnFamily", {"tableName": table_name(table.encode()), "column": bare}), table=table
        )
        defaults = {
            b"VERSIONS": b"1",
            b"DATA_BLOCK_ENCODING": b"NONE",
            b"KEEP_DELETED_CELLS": b"FALSE",
            b"MIN_VERSIONS": b"0",
        }
        assert told() == {**defaults, b"TTL": b"90"}
    finally:
        store.delete_table(table)


@pytest.mark.slow  # HBase's client tries again for most of a minute
@pytest.mark.parametrize("gateway", ["thrift1", "thrift2"])
def test_hbase_refuses_pieces_of_rows_that_a_filter_judges(
    store: Thrift2Store, hbmodel_hbase: Any, gateway: str
) -> None:
    asked = Scan(cells=5, filter=ValueFilter(A, "=", b""))
    with hb.connect(hbmodel_hbase.url if gateway == "thrift1" else hbmodel_hbase.thrift2_url) as other:
        with pytest.raises(InvalidRequest):
            other.scan(TABLE, [asked])
        (batches,) = other._scan(TABLE.encode(), [asked], TABLE)  # without the check that stands before HBase's answer
        with pytest.raises(StoreError):
            list(batches)
