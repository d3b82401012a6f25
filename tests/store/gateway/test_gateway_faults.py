from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from attrs import frozen

from hbmodel.errors import FamilyNotFound, InvalidRequest, StoreUnavailable, TableNotFound, UnknownOutcome
from hbmodel.session.connect import connect
from hbmodel.store import ConditionalChange, ConditionalPut, Delete, Family, PipelinedStore, Put, Store
from hbmodel.store.gateway.wire.call_sizes import CALL_SIZES
from hbmodel.store.port import check_and_put_each
from hbmodel.store.thrift1.store import Thrift1Store
from tests.support.gateway_tables import store_with_table
from tests.support.proxy import Proxy
from tests.support.tested_version import TESTED
from tests.support.waiting import wait_until

pytestmark = pytest.mark.hbase

TABLE = f"test_gateway_faults_{uuid4().hex[:8]}"  # the workers of pytest-xdist share an HBase
A = b"d:a"


@frozen
class Gateway:
    """A gateway and how it calls what stores do."""

    url: str
    get: str
    put: str
    put_untimed: str
    put_many: str
    delete: str
    delete_untimed: str
    increment: str
    check: str
    tables: str


FIRST = (
    "getRowsWithColumns",
    "mutateRowTs",
    "mutateRow",
    "mutateRowsTs",
    "mutateRowTs",
    "mutateRow",
    "atomicIncrement",
    "checkAndPut",
)
SECOND = ("getMultiple", "put", "put", "putMultiple", "deleteSingle", "deleteSingle", "increment", "checkAndMutate")


@pytest.fixture(scope="module", params=["thrift1", "thrift2"])
def gateway(request: pytest.FixtureRequest) -> Gateway:
    hbase = request.getfixturevalue("hbmodel_hbase")
    if request.param == "thrift1":
        return Gateway(hbase.url, *FIRST, "getTableNames")
    return Gateway(hbase.thrift2_url, *SECOND, "getTableNamesByPattern")


@pytest.fixture(scope="module")
def store(gateway: Gateway) -> Iterator[Store]:
    with store_with_table(gateway.url, TABLE, Family(b"d", max_versions=10)) as store:
        yield store


@pytest.fixture
def proxy(store: Store, gateway: Gateway) -> Iterator[Proxy]:
    with Proxy(gateway.url) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: Proxy, request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store that waits for silent gateways only as long as it must; others may be slow."""
    muted = hasattr(request.node, "callspec") and "mute" in request.node.callspec.params.values()
    with connect(f"{proxy.url}?timeout={2 if muted else 20}&attempts=3") as store:
        yield store


@pytest.mark.parametrize("break_", ["lose", "cut"])
def test_a_read_survives_a_broken_connection(
    store: Store, proxy: Proxy, gateway: Gateway, through: Store, break_: str
) -> None:
    store.put(TABLE, [Put(b"read", {A: b"1"}, 1)])
    proxy.on_call(gateway.get, break_)
    [row] = through.get(TABLE, [b"read"])
    assert row is not None
    assert row.columns[A].value == b"1"
    assert proxy.connections == 2


def test_a_read_that_never_succeeds_is_unavailable(proxy: Proxy, gateway: Gateway, through: Store) -> None:
    proxy.on_call(gateway.get, "cut", "lose", "cut")
    with pytest.raises(StoreUnavailable):
        through.get(TABLE, [b"read"])


def test_a_put_with_timestamps_is_repeated_with_the_same_ones(
    proxy: Proxy, gateway: Gateway, hbmodel_hbase: Any, through: Store
) -> None:
    proxy.on_call(gateway.put, "cut", "lose")
    through.put(TABLE, [Put(b"put", {A: b"1"}, 7)])
    assert proxy.calls().count(gateway.put) == 3
    with Thrift1Store.from_url(hbmodel_hbase.url) as first, first._pool.lease() as lease:  # which can read all versions
        cells = lease.connection().call(
            "getVer", tableName=TABLE.encode(), row=b"put", column=A, numVersions=10, attributes={}
        )
    assert [(cell.value, cell.timestamp) for cell in cells] == [(b"1", 7)]


def test_a_put_goes_on_behind_the_calls_that_were_acknowledged(
    proxy: Proxy, gateway: Gateway, store: Store, through: Store
) -> None:
    puts = [Put(b"many%05d" % number, {A: b"1"}, 7) for number in range(5 * CALL_SIZES.rows)]
    proxy.on_call(gateway.put_many, "pass", "pass", "cut")
    through.put(TABLE, puts)
    assert all(store.get(TABLE, [put.row for put in puts]))


def test_writes_with_timestamps_end_in_an_unknown_outcome(proxy: Proxy, gateway: Gateway, through: Store) -> None:
    change = [Put(b"unknown", {A: b"1"}, 7), Delete(b"unknown", timestamp=6)]
    writes: list[tuple[str, Callable[[], None]]] = [
        (gateway.put, lambda: through.put(TABLE, [Put(b"unknown", {A: b"1"}, 7)])),
        (gateway.delete, lambda: through.delete(TABLE, [Delete(b"unknown", timestamp=6)])),
    ]
    if through.capabilities.mutate_row:
        writes.append(("mutateRow", lambda: through.mutate_row(TABLE, change)))
    for method, write in writes:
        proxy.forget()
        proxy.on_call(method, "cut", "cut", "cut")
        with pytest.raises(UnknownOutcome) as caught:
            write()
        assert caught.value.table == TABLE
        assert proxy.calls().count(method) == 3


@pytest.mark.parametrize("break_", ["lose", "cut", "mute"])
def test_writes_that_count_anew_are_tried_once(
    proxy: Proxy, gateway: Gateway, store: Store, through: Store, break_: str
) -> None:
    store.put(TABLE, [Put(b"once", {b"d:n": bytes(8), b"d:c": b""})])
    writes: list[tuple[str, Callable[[], object]]] = [
        (gateway.increment, lambda: through.increment(TABLE, b"once", b"d:n", 1)),
        (gateway.check, lambda: through.check_and_put(TABLE, b"once", b"d:c", None, Put(b"once", {b"d:c": b"1"}))),
        (
            gateway.check,
            lambda: check_and_put_each(through, TABLE, [ConditionalPut(b"d:c", None, Put(b"once", {b"d:c": b"1"}))]),
        ),
        (gateway.put_untimed, lambda: through.put(TABLE, [Put(b"once", {A: b"1"})])),
        (gateway.delete_untimed, lambda: through.delete(TABLE, [Delete(b"once", columns=[A])])),
    ]
    if through.capabilities.mutate_row:
        change = [Put(b"once", {b"d:b": b"1"}, 5), Delete(b"once", columns=[A])]
        writes.append(("mutateRow", lambda: through.mutate_row(TABLE, change)))
        writes.append(("checkAndMutate", lambda: through.check_and_mutate(TABLE, b"once", b"d:x", None, change)))
        many = [ConditionalChange(b"once", b"d:x", None, change)]
        writes.append(("checkAndMutate", lambda: through.check_and_mutate_many(TABLE, many)))
    for method, write in writes:
        proxy.forget()
        proxy.on_call(method, break_)
        with pytest.raises(UnknownOutcome):
            write()
        assert proxy.calls().count(method) == 1
    counted = int.from_bytes(store.get(TABLE, [b"once"])[0].columns[b"d:n"].value)  # type: ignore[union-attr]
    assert counted == (0 if break_ == "lose" else 1)


def test_a_change_of_tables_without_an_answer_says_where_to_look(
    proxy: Proxy, gateway: Gateway, store: Store, through: Store
) -> None:
    proxy.on_call("createTable", "cut")
    with pytest.raises(UnknownOutcome, match="may still be working on it: look at them with") as caught:
        through.create_table(f"{TABLE}_cut", [Family(b"d")])
    assert caught.value.table == f"{TABLE}_cut"
    assert caught.value.reason
    assert proxy.calls().count("createTable") == 1
    wait_until(lambda: f"{TABLE}_cut" in store.tables())
    store.delete_table(f"{TABLE}_cut")


def conditional_puts(name: bytes) -> list[ConditionalPut]:
    return [ConditionalPut(A, None, Put(b"%s%03d" % (name, n), {A: b"1"})) for n in range(200)]


def test_many_conditional_puts_are_spread_over_connections(proxy: Proxy, gateway: Gateway, store: Store) -> None:
    puts = conditional_puts(b"spread")
    store.put(TABLE, [each.put for each in puts[::3]])
    with connect(proxy.url + "?timeout=20") as through, connect(proxy.url + "?timeout=20&pool=1") as alone:
        assert list(check_and_put_each(through, TABLE, puts)) == [n % 3 > 0 for n in range(200)]
        assert proxy.connections == 4
        assert proxy.calls().count(gateway.check) == 200
        assert not any(check_and_put_each(alone, TABLE, puts))
        assert proxy.connections == 5


@pytest.mark.parametrize("after", [0, 100, 2000, 5000])
def test_an_answer_that_is_lost_of_many_conditional_puts_leaves_them_in_doubt(
    proxy: Proxy, store: Store, after: int
) -> None:
    puts = conditional_puts(b"doubt%d-" % after)
    with connect(proxy.url + "?timeout=20") as through:
        proxy.cut_after_reply_bytes(after)
        with pytest.raises(UnknownOutcome):
            check_and_put_each(through, TABLE, puts)
        check_and_put_each(through, TABLE, puts)  # no connection with answers to come is used again
    assert None not in store.get(TABLE, [each.put.row for each in puts])


def test_a_connection_that_broke_while_unused_harms_nobody(proxy: Proxy, gateway: Gateway, through: Store) -> None:
    assert through.increment(TABLE, b"stale", A, 1) == 1
    proxy.cut_all()
    threading.Event().wait(0.1)
    assert through.increment(TABLE, b"stale", A, 1) == 2
    assert proxy.connections == 2


def test_part_of_a_write_is_not_told_as_nothing(proxy: Proxy, gateway: Gateway, through: Store) -> None:
    """StoreUnavailable promises that nothing was done, so the outcome of a put is unknown if it stops halfway because
    the gateway is gone.
    """

    # More calls than are sent ahead, whose replies may all come at once.
    puts = [
        Put(b"part%05d" % number, {A: b"1"}, timestamp)
        for timestamp in range(7, 12)
        for number in range(CALL_SIZES.rows)
    ]
    proxy.on_call(gateway.put_many, "last", "last")
    with pytest.raises(UnknownOutcome):
        through.put(TABLE, puts)


def test_a_silent_gateway_is_not_waited_for_for_ever(proxy: Proxy, gateway: Gateway) -> None:
    with connect(proxy.url + "?timeout=0.2&attempts=2") as impatient:
        proxy.on_call(gateway.tables, "mute", "mute")
        with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
            impatient.tables()
        assert "in time" in (caught.value.reason or "")


@pytest.mark.parametrize("wrong", ["transport=framed", "transport=http", "protocol=compact"])
def test_options_that_the_gateway_does_not_speak_are_told_long_before_retrying_ends(
    gateway: Gateway, wrong: str
) -> None:
    if wrong == "transport=http" and TESTED in {"2.2.6", "2.3.3"}:
        pytest.skip("the gateway takes the request for the length of a message, and ends for lack of memory")
    begun = time.monotonic()
    with (
        connect(f"{gateway.url}?{wrong}&timeout=0.5&retry_for=120") as store,
        pytest.raises(StoreUnavailable) as caught,
    ):
        store.tables()
    assert time.monotonic() - begun < 60
    assert "check the options transport, protocol and tls" in (caught.value.reason or "")


# --- puts that are begun ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reaction", ["pass", "mute", "lose", "cut"])
def test_a_put_goes_through_while_another_that_was_begun_has_no_answer(
    store: Store, proxy: Proxy, gateway: Gateway, through: Store, reaction: str
) -> None:
    assert isinstance(through, PipelinedStore)
    proxy.on_call(gateway.put, reaction)
    begun_put = through.begin_put(TABLE, [Put(b"begun", {A: reaction.encode()}, 5)])
    assert proxy.saw(1, gateway.put)
    through.put(TABLE, [Put(b"meanwhile", {A: reaction.encode()}, 5)])
    assert proxy.connections == 2
    (meanwhile,) = store.get(TABLE, [b"meanwhile"])
    assert meanwhile is not None
    assert meanwhile.columns[A].value == reaction.encode()
    begun_put.end()
    (begun,) = store.get(TABLE, [b"begun"])
    assert begun is not None
    assert begun.columns[A].value == reaction.encode()
    assert proxy.calls().count(gateway.put) == (2 if reaction == "pass" else 3)


def test_a_put_whose_time_the_server_gives_is_not_begun(
    store: Store, proxy: Proxy, gateway: Gateway, through: Store
) -> None:
    assert isinstance(through, PipelinedStore)
    begun_put = through.begin_put(TABLE, [Put(b"later", {A: b"1"})])
    assert store.get(TABLE, [b"later"]) == [None]
    assert proxy.connections == 0
    begun_put.end()
    assert store.get(TABLE, [b"later"]) != [None]


def test_beginning_a_put_of_nothing_does_nothing(proxy: Proxy, through: Store) -> None:
    assert isinstance(through, PipelinedStore)
    through.begin_put(TABLE, []).end()
    assert proxy.connections == 0


def test_a_put_that_was_begun_is_refused_when_it_ends(through: Store) -> None:
    assert isinstance(through, PipelinedStore)
    for table, error in (("none_such", TableNotFound), (TABLE, FamilyNotFound)):
        begun_put = through.begin_put(table, [Put(b"r", {b"none:a": b"1"}, 5)])
        with pytest.raises(error) as caught:
            begun_put.end()
        assert caught.value.table == table
    with pytest.raises(InvalidRequest):
        through.begin_put(TABLE, [Put(b"", {A: b"1"}, 5)])


def test_an_empty_pool_begins_nothing_and_does_everything(store: Store, proxy: Proxy) -> None:
    with connect(proxy.url + "?pool=1") as narrow:
        assert isinstance(narrow, PipelinedStore)
        begun = [narrow.begin_put(TABLE, [Put(b"narrow %d" % number, {A: b"1"}, 5)]) for number in range(3)]
        for each in begun:
            each.end()
    assert proxy.connections == 1
    assert None not in store.get(TABLE, [b"narrow %d" % number for number in range(3)])


@pytest.mark.parametrize("reaction", ["pass", "mute"])
def test_a_put_that_is_abandoned_is_not_waited_for(proxy: Proxy, gateway: Gateway, reaction: str) -> None:
    with connect(proxy.url + "?timeout=120&pool=2") as through:
        assert isinstance(through, PipelinedStore)
        proxy.on_call(gateway.put, reaction)
        begun = time.monotonic()
        for _ in range(5):
            through.begin_put(TABLE, [Put(b"abandoned", {A: b"1"}, 5)]).abandon()
        assert time.monotonic() - begun < 100
        through.put(TABLE, [Put(b"after", {A: b"1"}, 5)])
        assert proxy.falls_to(1)
        through.begin_put(TABLE, [Put(b"after", {A: b"2"}, 6)]).end()  # there is still a connection to spare
        assert proxy.connections == 6
