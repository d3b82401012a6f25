"""Several gateways of one HBase: which one is used next, and what survives the failure of one."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from hbmodel.errors import StoreUnavailable
from hbmodel.session.connect import connect
from hbmodel.store import Family, Put, Scan
from hbmodel.store.gateway.wire.gateways import FIRST_REST, LONGEST_REST, Gateway, Gateways
from tests.support.fronts import HttpFront
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE

# --- choosing ---------------------------------------------------------------------------------------------------------


class Network:
    """Notes who is asked for a connection, and refuses those that are down."""

    def __init__(self, *down: Gateway) -> None:
        self.down = set(down)
        self.asked: list[Gateway] = []

    def __call__(self, gateway: Gateway) -> Gateway:
        self.asked.append(gateway)
        if gateway in self.down:
            raise StoreUnavailable("Cannot connect.", gateway=str(gateway), reason=f"{gateway.host} sleeps")
        return gateway


A, B, C = "abc"


def three(now: Callable[[], float] = time.monotonic) -> list[Gateway]:
    return [Gateway(name, 9, now) for name in (A, B, C)]


def test_connections_go_to_all_gateways_in_turn() -> None:
    gateways, network = three(), Network()
    chosen = Gateways(gateways)
    for _ in range(2):
        assert {chosen.connect(network) for _ in range(3)} == set(gateways)


def test_clients_begin_anywhere() -> None:
    assert len({Gateways(three()).connect(Network()).host for _ in range(100)}) == 3


def test_a_gateway_that_refuses_is_left_alone_for_a_while() -> None:
    now = 1000.0
    gateways = three(lambda: now)
    network = Network(gateways[0])
    chosen = Gateways(gateways)
    assert {chosen.connect(network) for _ in range(9)} == set(gateways[1:])
    assert network.asked.count(gateways[0]) == 1
    now += FIRST_REST
    network.down.clear()
    assert gateways[0] in {chosen.connect(network) for _ in range(3)}


def test_rests_grow_up_to_a_cap_and_begin_anew_after_an_answer() -> None:
    now = 1000.0
    gateway = Gateway("a", 9, lambda: now)
    for failure in range(12):
        gateway.failed(answered=False)
        longest = min(LONGEST_REST, FIRST_REST * 2**failure)
        assert longest / 2 <= gateway.rests_until - now <= longest
        until = gateway.rests_until
        gateway.failed(answered=False)  # another connection that broke with the first
        assert gateway.rests_until == until
        now = until
    gateway.failed(answered=True)
    assert gateway.rests_until - now <= FIRST_REST


def test_when_all_are_down_all_are_tried_and_each_is_told_with_its_reason() -> None:
    gateways = three()
    network = Network(*gateways)
    chosen = Gateways(gateways)
    for _ in range(2):  # the second time all are resting
        network.asked.clear()
        with pytest.raises(StoreUnavailable, match="None of the HBase gateways accepts a connection") as caught:
            chosen.connect(network)
        assert sorted(caught.value.tried) == ["a:9: a sleeps", "b:9: b sleeps", "c:9: c sleeps"]
        assert len(network.asked) == 3
    network.down.remove(gateways[1])
    assert chosen.connect(network) is gateways[1]


# --- without anybody there --------------------------------------------------------------------------------------------


def free_ports(count: int) -> list[int]:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


@pytest.mark.parametrize("scheme", ["hbase", "hbase+thrift2"])
def test_an_error_names_every_gateway_and_why(scheme: str) -> None:
    one, other = free_ports(2)
    with connect(f"{scheme}://127.0.0.1:{one},127.0.0.1:{other}?attempts=2") as store:
        for call in (
            lambda: store.get("t", [b"k"]),
            lambda: next(store.scan("t", [Scan()])[0]),
            lambda: store.increment("t", b"k", b"d:n", 1),
        ):
            with pytest.raises(StoreUnavailable) as caught:
                call()
            for port in (one, other):
                assert f"127.0.0.1:{port}: Connection refused" in str(caught.value)
    with connect(f"{scheme}://127.0.0.1:{one}?attempts=1") as store, pytest.raises(StoreUnavailable) as caught:
        store.tables()
    assert (caught.value.gateway, caught.value.reason) == (f"127.0.0.1:{one}", "Connection refused")
    assert str(caught.value.__cause__).startswith("Cannot connect to the HBase gateway.")


def test_a_host_that_no_name_server_knows_is_told() -> None:
    with connect("hbase://no-such-host.invalid?attempts=1") as store, pytest.raises(StoreUnavailable) as caught:
        store.tables()
    assert caught.value.gateway == "no-such-host.invalid:9090"
    assert caught.value.reason


def message(name: str, fields: bytes) -> bytes:
    """A reply of the first gateway, over HTTP."""
    body = b"\x80\x01\x00\x02" + struct.pack(">i", len(name)) + name.encode() + bytes(4) + fields + b"\x00"
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/x-thrift\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.lengthy
def test_a_gateway_that_is_cut_off_from_hbase_is_left_for_another() -> None:
    text = b"org.apache.hadoop.hbase.client.NoServerForRegionException: none"
    cut_off = b"\x0c\x00\x01\x0b\x00\x01" + struct.pack(">i", len(text)) + text + b"\x00"
    nothing = {
        "scannerOpenWithScan": b"\x08\x00\x00\x00\x00\x00\x01",
        "scannerGetList": b"\x0f\x00\x00\x0c\x00\x00\x00\x00",
        "getRowsWithColumns": b"\x0f\x00\x00\x0c\x00\x00\x00\x00",
        "scannerClose": b"",
    }

    def bad(head: str) -> bytes:
        [name] = [name for name in nothing if name in head]
        return message(name, cut_off)

    def good(head: str) -> bytes:
        [name] = [name for name in nothing if name in head]
        return message(name, nothing[name])

    with HttpFront(bad) as one, HttpFront(good) as other:
        url = f"hbase://127.0.0.1:{one.port},127.0.0.1:{other.port}?transport=http"
        for _ in range(4):
            with connect(f"{url}&attempts=2") as store:
                assert store.get("t", [b"k"]) == [None]
            with connect(f"{url}&attempts=2") as store:
                assert [list(scan) for scan in store.scan("t", [Scan(), Scan()])] == [[], []]
        assert one.heads
        with (
            connect(f"hbase://127.0.0.1:{one.port}?transport=http&attempts=1") as store,
            pytest.raises(StoreUnavailable, match="HBase cannot be reached") as caught,
        ):
            next(store.scan("t", [Scan()])[0])
        assert caught.value.reason == text.decode()
        assert str(caught.value.__cause__).startswith("HBase cannot continue a scan.")


# --- two gateways of a real HBase -------------------------------------------------------------------------------------


class Beside:
    """A store on two ways to one HBase, and a table."""

    def __init__(self, store: Any, proxies: list[Proxy], table: str) -> None:
        self.store, self.proxies, self.table = store, proxies, table

    def in_use(self) -> Proxy:
        """The way that the store's only connection takes, while no scan holds it."""
        with self.store._pool.lease() as lease:
            port = lease.connection().gateway.port
        [found] = [proxy for proxy in self.proxies if proxy.port == port]
        return found


def take_away(proxy: Proxy) -> None:
    """Breaks the connections of one way and lets it take no others."""
    proxy.refuse()
    proxy.cut_all()


@pytest.fixture(scope="module")
def table(hbmodel_hbase: Any) -> Iterator[str]:
    name = f"gateways_{uuid4().hex}"
    with connect(hbmodel_hbase.url) as store:
        store.create_table(name, [Family(b"d")])
        yield name
        store.delete_table(name)


@pytest.fixture(params=["thrift1", "thrift2"])
def beside(request: pytest.FixtureRequest, hbmodel_hbase: Any, table: str) -> Iterator[Beside]:
    # A short limit only where a gateway never answers: a slow one must not be left for the other.
    wait = 2 if "mute" in request.node.name else PATIENCE
    url = hbmodel_hbase.url if request.param == "thrift1" else hbmodel_hbase.thrift2_url
    scheme = url.partition(":")[0]
    with (
        Proxy(url) as one,
        Proxy(url) as other,
        connect(f"{scheme}://127.0.0.1:{one.port},127.0.0.1:{other.port}?pool=1&timeout={wait}") as store,
    ):
        yield Beside(store, [one, other], table)


def puts(count: int) -> list[Put]:
    return [Put(b"%05d" % number, {b"d:a": b"%d" % number}, 5) for number in range(count)]


@pytest.mark.hbase
def test_reads_writes_and_scans_go_on_at_the_other_gateway(beside: Beside) -> None:
    store, table = beside.store, beside.table
    store.put(table, puts(1000))
    first = beside.in_use()
    take_away(first)
    assert all(store.get(table, [b"00000", b"00999"]))
    second = beside.in_use()
    assert second is not first
    first.listen()
    [scan] = store.scan(table, [Scan(batch_size=100)])
    rows = [row.row for row in next(scan)]
    take_away(second)
    rows += [row.row for batch in scan for row in batch]
    assert rows == [b"%05d" % number for number in range(1000)]
    assert beside.in_use() is first


@pytest.mark.hbase
@pytest.mark.parametrize("reaction", ["lose", "cut", "mute"])
def test_a_write_with_timestamps_goes_on_at_the_other_gateway(beside: Beside, reaction: str) -> None:
    store, table = beside.store, beside.table
    assert store.get(table, [b"nothing"]) == [None]
    first = beside.in_use()
    [other] = [proxy for proxy in beside.proxies if proxy is not first]
    many = "mutateRowsTs" if "Thrift1" in repr(store) else "putMultiple"
    first.on_call(many, reaction)
    other.forget()
    store.put(table, puts(1000))
    assert many in other.calls()
    assert all(store.get(table, [put.row for put in puts(1000)]))


@pytest.mark.hbase
def test_connections_move_back_to_a_gateway_that_has_come_back(beside: Beside) -> None:
    first = beside.in_use()
    take_away(first)
    scheme = first.url.partition(":")[0]
    hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in beside.proxies)
    with connect(f"{scheme}://{hosts}?max_age=0.2&pool=1") as store:
        moving = Beside(store, beside.proxies, beside.table)
        assert moving.in_use() is not first
        first.listen()
        deadline = time.monotonic() + PATIENCE
        while moving.in_use() is not first:
            store.get(beside.table, [b"00000"])
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.hbase
def test_many_threads_go_on_while_gateways_come_and_go(beside: Beside) -> None:
    beside.store.put(beside.table, puts(100))
    stop = threading.Event()
    failures: list[BaseException] = []
    counts = [0, 0, 0]

    def work(number: int, url: str) -> None:
        try:
            with connect(url) as store:
                while not stop.is_set():
                    assert all(store.get(beside.table, [b"00000", b"00099"]))
                    [scan] = store.scan(beside.table, [Scan(limit=100, batch_size=30)])
                    assert sum(len(batch) for batch in scan) == 100
                    store.put(beside.table, puts(3))
                    counts[number] += 1
        except BaseException as error:
            failures.append(error)

    hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in beside.proxies)
    scheme = beside.proxies[0].url.partition(":")[0]
    threads = [
        threading.Thread(target=work, args=(number, f"{scheme}://{hosts}?timeout=5&attempts=100&retry_for=120"))
        for number in range(3)
    ]
    for thread in threads:
        thread.start()
    for round_ in range(6):
        proxy = beside.proxies[round_ % 2]
        take_away(proxy)
        stop.wait(0.2)
        proxy.listen()
        stop.wait(0.1)
    deadline = time.monotonic() + PATIENCE
    while not all(counts) and not failures and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failures
    assert all(counts)
