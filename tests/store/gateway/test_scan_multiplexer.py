from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from socket import socket
from typing import Any
from uuid import uuid4

import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hbmodel.errors import FamilyNotFound, StoreClosed, StoreError, StoreUnavailable, TableNotFound
from hbmodel.session.connect import connect
from hbmodel.store import MAX_ROW_LENGTH, Family, Put, Row, Scan
from hbmodel.store.gateway.scanning import scan_multiplexer
from hbmodel.store.gateway.store import GatewayStore
from hbmodel.store.gateway.wire.joined_socket import JoinedSocket
from hbmodel.store.ranges import KeyRange
from tests.support.examples import examples
from tests.support.gateway_tables import gateway_store, store_with_table
from tests.support.proxy import Proxy

pytestmark = pytest.mark.hbase

TABLE = f"test_gateway_scans_{uuid4().hex[:8]}"  # the workers of pytest-xdist share an HBase
COUNT = 300
KEYS = [b"k%04d" % number for number in range(COUNT)]
EDGES = [
    b"\x00",
    b"a",
    b"a\x00",
    b"a\x00\x00",
    b"a\xff",
    b"a\xff\xff",
    b"b",
    b"\xff",
    b"\xff\xff",
    b"l" * MAX_ROW_LENGTH,
]
NUMBERED = KeyRange.prefix(b"k")


@frozen
class Gateway:
    """A gateway and how it calls what scans do; `whole` is what reads a short scan to its end, in so many calls."""

    url: str
    whole: list[str]
    open: str
    rows: str
    close: str


@pytest.fixture(scope="module", params=["thrift1", "thrift2"])
def gateway(request: pytest.FixtureRequest) -> Gateway:
    hbase = request.getfixturevalue("hbmodel_hbase")
    if request.param == "thrift1":
        names = ("scannerOpenWithScan", "scannerGetList", "scannerClose")
        return Gateway(hbase.url, list(names), *names)
    return Gateway(hbase.thrift2_url, ["getScannerResults"], "openScanner", "getScannerRows", "closeScanner")


def opened(url: str) -> Any:
    return connect(url)


@pytest.fixture(scope="module")
def store(gateway: Gateway) -> Iterator[GatewayStore]:
    with store_with_table(gateway.url, TABLE, Family(b"d"), Family(b"e")) as store:
        store.put(TABLE, [Put(key, {b"d:a": key, b"e:a": b"x" * 50}, 1) for key in KEYS + EDGES])
        yield store


@pytest.fixture
def proxy(store: GatewayStore, gateway: Gateway) -> Iterator[Proxy]:
    with Proxy(gateway.url) as proxy:
        yield proxy


def quick(url: str) -> Any:
    """A store that does not wait between two tries."""
    return gateway_store(url, sleep=lambda seconds: None)


def flat(scan: Iterable[Sequence[Row]]) -> list[bytes]:
    rows: list[bytes] = []
    for batch in scan:
        assert batch
        rows.extend(row.row for row in batch)
    return rows


def read(store: GatewayStore, *scans: Scan) -> list[list[bytes]]:
    return [flat(scan) for scan in store.scan(TABLE, scans)]


# --- what is read -----------------------------------------------------------------------------------------------------

bounds = st.sampled_from(sorted({*EDGES, b"", b"c", b"a\x01", b"a\xfe", *KEYS[:3], KEYS[100], KEYS[-1], b"m"}))


@settings(max_examples=examples(100), deadline=None)
@given(
    start=bounds,
    stop=st.none() | bounds,
    backwards=st.booleans(),
    limit=st.none() | st.integers(0, 12),
    batch_size=st.sampled_from([1, 2, 3, 5, 1000]),
)
def test_exactly_the_range_in_order(
    store: GatewayStore, *, start: bytes, stop: bytes | None, backwards: bool, limit: int | None, batch_size: int
) -> None:
    keys = KeyRange(start, stop)
    expected = sorted((key for key in KEYS + EDGES if key in keys), reverse=backwards)
    if batch_size < 5 and limit is None:
        batch_size = 50  # not hundreds of round trips
    [found] = read(store, Scan(keys, reversed=backwards, limit=limit, batch_size=batch_size))
    assert found == expected[:limit]


def test_batches_are_no_larger_than_asked(store: GatewayStore) -> None:
    [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=70)])
    assert [len(batch) for batch in scan] == [70, 70, 70, 70, 20]


def test_columns_and_rows_without_them(store: GatewayStore) -> None:
    [scan] = store.scan(TABLE, [Scan(KeyRange(b"k0001", b"k0003"), columns=[b"e", b"d:b"])])
    assert [[(row.row, list(row.columns)) for row in batch] for batch in scan] == [
        [(b"k0001", [b"e:a"]), (b"k0002", [b"e:a"])]
    ]
    assert read(store, Scan(columns=[b"d:b"])) == [[]]


def test_several_scans_are_read_in_any_order(store: GatewayStore) -> None:
    scans = [
        Scan(KeyRange(key, None), limit=30, batch_size=7, reversed=number % 2 == 1)
        for number, key in enumerate(KEYS[::30])
    ]
    expected = read(store, *[Scan(scan.range, scan.reversed, limit=30) for scan in scans])
    iterators = list(enumerate(store.scan(TABLE, scans)))
    found: list[list[bytes]] = [[] for _ in scans]
    while iterators:
        number, scan = iterators.pop(len(iterators) // 2)
        batch = next(scan, None)
        if batch is not None:
            found[number].extend(row.row for row in batch)
            iterators.insert(0, (number, scan))
    assert found == expected


def test_a_missing_table_or_family_is_told_by_the_iterator(store: GatewayStore) -> None:
    good, missing = store.scan(TABLE, [Scan(limit=1), Scan(columns=[b"x"])])
    with pytest.raises(FamilyNotFound):
        next(missing)
    with pytest.raises(FamilyNotFound):
        next(missing)
    assert len(flat(good)) == 1
    [scan] = store.scan("absent", [Scan()])
    with pytest.raises(TableNotFound):
        next(scan)


# --- how it is read ---------------------------------------------------------------------------------------------------


def test_a_short_scan_takes_the_fewest_calls(proxy: Proxy, gateway: Gateway) -> None:
    with opened(proxy.url) as store:
        for scan in (Scan(NUMBERED, limit=20), Scan(KeyRange(b"k0000", b"k0020"))):
            proxy.forget()
            assert read(store, scan) == [KEYS[:20]]
            check_calls(proxy, gateway, store)


def check_calls(proxy: Proxy, gateway: Gateway, store: Any) -> None:
    """A short scan was read in the fewest calls; its scanner, if it had one, is closed behind the next call and not
    before.
    """
    assert proxy.saw(1, gateway.whole[:2][-1])
    assert proxy.calls() == gateway.whole[:2]
    store.get(TABLE, KEYS[:1])
    assert proxy.saw(1, gateway.whole[-1])
    calls = proxy.calls()
    at = len(gateway.whole[:2])
    assert (len(calls), [*calls[:at], *calls[at + 1 :]]) == (len(gateway.whole) + 1, gateway.whole)


@pytest.mark.parametrize("stop", [b"k0050", b"k0050\x00", b"k00500", None])
def test_a_short_reversed_scan_too_although_it_may_begin_outside_its_range(
    proxy: Proxy, gateway: Gateway, stop: bytes | None
) -> None:
    expected = sorted((key for key in KEYS + EDGES if key in KeyRange(b"k", stop)), reverse=True)
    with opened(proxy.url) as store:
        assert read(store, Scan(KeyRange(b"k", stop), reversed=True, limit=20)) == [expected[:20]]
        check_calls(proxy, gateway, store)


def test_a_limit_is_never_overstepped(proxy: Proxy, gateway: Gateway) -> None:
    with opened(proxy.url) as store:
        assert read(store, Scan(NUMBERED, limit=95, batch_size=20)) == [KEYS[:95]]
        in_one_call = gateway.whole.count("getScannerResults")
        assert proxy.rows_asked_for() == [20, 20, 20, 20, 15][in_one_call:]


def test_a_long_scan_asks_ahead_and_only_a_long_one(proxy: Proxy, gateway: Gateway) -> None:
    first = gateway.whole[-2:][0]  # the call that brings the first rows
    with opened(proxy.url) as store:
        [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=50)])
        assert proxy.saw(1, first)
        store.tables()
        assert proxy.calls().count(gateway.rows) == gateway.whole.count(gateway.rows)
        next(scan)
        next(scan)
        assert proxy.saw(4, gateway.rows)
        scan.close()
        assert proxy.saw(1, gateway.close)
        assert set(proxy.rows_asked_for()) == {50}
        assert 4 <= len(proxy.rows_asked_for()) <= 5
        proxy.forget()
        assert read(store, Scan(KeyRange(b"k0000", b"k0010"))) == [KEYS[:10]]
        check_calls(proxy, gateway, store)


def test_a_limit_of_a_few_batches_ends_in_one_call_where_there_is_such_a_call(proxy: Proxy, gateway: Gateway) -> None:
    with opened(proxy.url) as store:
        assert read(store, Scan(NUMBERED, limit=70, batch_size=50)) == [KEYS[:70]]
        assert proxy.saw(1, gateway.whole[:2][-1])
        if len(gateway.whole) == 1:
            assert proxy.calls() == gateway.whole * 2
        else:
            assert proxy.rows_asked_for() == [50, 20]


def test_scanners_are_closed_when_exhausted_limited_or_closed(proxy: Proxy, gateway: Gateway) -> None:
    with opened(proxy.url + "?pool=1") as store:
        read(store, Scan(NUMBERED, batch_size=100), Scan(NUMBERED, limit=150, batch_size=40))
        early, barely_read, never_read = store.scan(TABLE, [Scan(NUMBERED, batch_size=10)] * 3)
        assert [len(next(early)) for _ in range(3)] == [10] * 3
        assert len(next(barely_read)) == 10
        early.close()
        early.close()
        assert next(early, None) is None
        barely_read.close()
        never_read.close()
        assert len(store.get(TABLE, KEYS)) == COUNT
        count = proxy.calls().count(gateway.open)
        assert count >= 4
        assert proxy.saw(count, gateway.close)
        assert proxy.calls().count(gateway.close) == count


def test_scanners_that_came_to_their_end_are_closed_with_the_store_at_last(proxy: Proxy, gateway: Gateway) -> None:
    with opened(proxy.url) as store:
        read(store, Scan(NUMBERED, batch_size=100))
        assert proxy.saw(1, gateway.open)
        assert gateway.close not in proxy.calls()
    assert proxy.saw(1, gateway.close)


def test_first_requests_are_sent_before_any_reply_is_read_but_not_more_than_find_room(
    proxy: Proxy, gateway: Gateway
) -> None:
    scans = [Scan(KeyRange(key, key + b"\x00")) for key in KEYS] + [Scan(KeyRange(KEYS[0], b"k" * 30_000), limit=1)] * 5
    with opened(proxy.url + "?pool=1") as store:
        iterators = store.scan(TABLE, scans)
        sent = sum(cursor.under_way or cursor.finished for cursor in iterators[0]._multiplexer.cursors)
        assert 100 < sent < len(scans)
        assert [flat(iterator) for iterator in reversed(iterators)] == [[KEYS[0]]] * 5 + [
            [key] for key in reversed(KEYS)
        ]


def test_first_requests_of_many_scans_go_out_in_few_packets(
    store: GatewayStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []
    write = JoinedSocket.write

    def counted(joined: JoinedSocket, data: bytes) -> None:
        held.append(joined.joining)
        write(joined, data)

    scans = [Scan(KeyRange(key, key + b"\x00")) for key in KEYS[:200]]
    monkeypatch.setattr(JoinedSocket, "write", counted)
    assert read(store, *scans) == [[key] for key in KEYS[:200]]
    assert sum(held) >= 200  # with what was put off until the next request on a connection


def test_scans_spread_over_the_free_connections(proxy: Proxy) -> None:
    with opened(proxy.url + "?pool=3") as store:
        assert read(store, *[Scan(KeyRange(key), limit=2) for key in KEYS[:12]]) == [KEYS[n : n + 2] for n in range(12)]
        assert proxy.connections == 3
        read(store, *[Scan(KeyRange(key), limit=2) for key in KEYS[:12]])
        store.get(TABLE, KEYS)
        assert proxy.connections == 3


def test_calls_inside_open_scans_have_connections_of_their_own(store: GatewayStore, gateway: Gateway) -> None:
    with opened(gateway.url + "?pool=1&timeout=5") as single:
        outer = flat_with_gets(single, 3)
    assert outer == KEYS[:3]


def flat_with_gets(store: GatewayStore, depth: int) -> list[bytes]:
    [scan] = store.scan(TABLE, [Scan(NUMBERED, limit=3, batch_size=1)])
    rows = []
    for batch in scan:
        [row] = store.get(TABLE, [batch[0].row])
        assert row is not None
        rows.append(row.row)
        if depth:
            flat_with_gets(store, depth - 1)
    return rows


def test_an_iterator_that_is_dropped_gives_its_connection_back(store: GatewayStore, gateway: Gateway) -> None:
    with opened(gateway.url + "?pool=1&timeout=5") as single:
        for _ in range(20):
            next(single.scan(TABLE, [Scan(NUMBERED, batch_size=5)])[0])
            single.scan(TABLE, [Scan(NUMBERED, batch_size=5), Scan(NUMBERED, batch_size=5)])
        gc.collect()
        assert read(single, Scan(NUMBERED)) == [KEYS]


def test_a_scan_ends_with_its_store(gateway: Gateway, store: GatewayStore) -> None:
    other = opened(gateway.url)
    [scan] = other.scan(TABLE, [Scan(NUMBERED, batch_size=5)])
    next(scan)
    other.close()
    with pytest.raises(StoreClosed):
        flat(scan)
    scan.close()


# --- when it breaks ---------------------------------------------------------------------------------------------------


@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    cuts=st.lists(st.integers(1, 45_000), min_size=1, max_size=3),
    backwards=st.booleans(),
    limit=st.none() | st.integers(1, COUNT),
    batch_size=st.sampled_from([7, 50, 1000]),
)
def test_a_scan_cut_anywhere_delivers_every_row_once(
    proxy: Proxy, *, cuts: list[int], backwards: bool, limit: int | None, batch_size: int
) -> None:
    with quick(proxy.url) as store:
        proxy.cut_after_reply_bytes(cuts[0])
        rest = iter(cuts[1:])
        found: list[bytes] = []
        [scan] = store.scan(TABLE, [Scan(NUMBERED, reversed=backwards, limit=limit, batch_size=batch_size)])
        for batch in scan:
            found.extend(row.row for row in batch)
            if proxy.has_cut and (following := next(rest, None)) is not None:
                proxy.cut_after_reply_bytes(following)
    assert found == (KEYS[::-1] if backwards else KEYS)[:limit]


def test_what_a_scan_holds_goes_with_it_also_when_it_was_taken_up_again(proxy: Proxy) -> None:
    with quick(proxy.url) as store:
        gc.collect()
        gc.disable()
        try:
            [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=40)])
            next(scan)
            proxy.cut_all()
            while proxy.connections < 2:  # batches that had come before the cut
                next(scan)
            del scan
            assert proxy.falls_to(0)
        finally:
            gc.enable()


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(cut=st.integers(1, 60_000), pool=st.integers(1, 3))
def test_scans_that_share_a_cut_connection_all_go_on(proxy: Proxy, cut: int, pool: int) -> None:
    ranges = [KeyRange(KEYS[number], KEYS[number + 50]) for number in range(0, 250, 50)]
    with quick(f"{proxy.url}?pool={pool}") as store:
        proxy.cut_after_reply_bytes(cut)
        scans = store.scan(TABLE, [Scan(keys, batch_size=9) for keys in ranges])
        found: list[list[bytes]] = [[] for _ in scans]
        for _ in range(7):
            for number, scan in enumerate(scans):
                found[number].extend(row.row for row in next(scan, ()))
    assert found == [KEYS[number : number + 50] for number in range(0, 250, 50)]


def test_a_forgotten_scanner_is_opened_again_behind_the_last_row(store: GatewayStore, gateway: Gateway) -> None:
    for backwards in (False, True):
        [scan] = store.scan(TABLE, [Scan(NUMBERED, backwards, batch_size=40)])
        found = [row.row for _ in range(2) for row in next(scan)]
        threading.Event().wait(0.2)  # what was asked ahead is answered
        # Scanner numbers are the gateway's, so any connection can close any scanner, as an expired lease would.
        with opened(gateway.url) as other, other._pool.lease() as lease:
            api, arguments = other.SCAN_CALLS.close(scan._cursor.scanner)
            lease.connection().call(api, **arguments)
        assert found + flat(scan) == (KEYS[::-1] if backwards else KEYS)


def test_a_gateway_that_comes_back_in_time_is_waited_for(proxy: Proxy) -> None:
    with opened(proxy.url) as store:
        [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=40)])
        found = [row.row for row in next(scan)]
        proxy.refuse()
        proxy.cut_all()
        threading.Timer(1, proxy.listen).start()
        assert found + flat(scan) == KEYS


def test_a_gateway_that_stays_away_ends_the_scan_with_an_error(proxy: Proxy) -> None:
    with quick(proxy.url + "?retry_for=0") as store:
        [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=40)])
        next(scan)
        proxy.close()
        for _ in range(2):  # never as if the rows had ended
            with pytest.raises(StoreUnavailable, match="A scan was cut off: start it again"):
                flat(scan)


@pytest.mark.parametrize("scheme", ["hbase", "hbase+thrift2"])
def test_a_scan_without_any_row_says_that_the_gateway_cannot_be_reached(scheme: str) -> None:
    with socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens on this port
        port = unused.getsockname()[1]
        with connect(f"{scheme}://127.0.0.1:{port}?attempts=1") as store:
            [scan] = store.scan(TABLE, [Scan(NUMBERED)])
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="HBase cannot be reached") as caught:
                    next(scan)
            assert (caught.value.gateway, caught.value.reason) == (f"127.0.0.1:{port}", "Connection refused")


def test_a_gateway_that_ends_before_the_first_row_cannot_be_reached(proxy: Proxy) -> None:
    with quick(proxy.url + "?retry_for=0") as store:
        assert read(store, Scan(NUMBERED)) == [KEYS]
        proxy.close()
        with pytest.raises(StoreUnavailable, match="HBase cannot be reached"):
            read(store, Scan(NUMBERED))


def test_a_silent_gateway_is_given_more_time_with_each_try(
    proxy: Proxy, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience: list[float] = []
    limit = scan_multiplexer.ThriftConnection.limit
    monkeypatch.setattr(
        scan_multiplexer.ThriftConnection,
        "limit",
        lambda self, timeout: (patience.append(timeout), limit(self, timeout)),
    )
    with quick(proxy.url + "?timeout=0.2") as store:
        proxy.on_call(gateway.rows, *["pass"] * gateway.whole.count(gateway.rows), "mute", "mute")
        assert read(store, Scan(NUMBERED, batch_size=200)) == [KEYS]
        assert 0.4 in patience
        with store._pool.lease() as lease:  # the connection with the long limit was not given back
            assert lease.connection()._socket.sock.gettimeout() == 0.2


def answered(store: GatewayStore) -> None:
    """Waits until the gateway has answered once: a busy one may need longer than a short timeout."""
    for _ in range(50):
        with suppress(StoreUnavailable):
            store.get(TABLE, [b"none"])
            return
    raise AssertionError("the gateway does not answer")


@pytest.mark.parametrize(("options", "most"), [("attempts=1", 1), ("retry_for=0", 5)])
@pytest.mark.parametrize("scan", [Scan(NUMBERED), Scan(NUMBERED, limit=5)])
def test_a_gateway_that_falls_silent_is_given_up_after_as_many_tries_as_elsewhere(
    proxy: Proxy, gateway: Gateway, options: str, most: int, scan: Scan
) -> None:
    with quick(f"{proxy.url}?timeout=0.1&{options}") as store:
        answered(store)
        for method in {gateway.rows, gateway.open, *gateway.whole}:
            proxy.on_call(method, *["mute"] * 20)
        before = proxy.connections
        [rows] = store.scan(TABLE, [scan])
        with pytest.raises(StoreUnavailable):
            next(rows)
        assert proxy.connections - before <= most


def test_an_interrupted_scan_never_goes_on_as_if_nothing_had_happened(
    store: GatewayStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=40)])
    next(scan)

    def interrupted(self: object, rows: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(scan_multiplexer.Cursor, "accept", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(scan)
    with pytest.raises(StoreError, match="A scan was interrupted: start it again"):
        next(scan)
    assert read(store, Scan(NUMBERED)) == [KEYS]


def test_an_interrupted_close_leaves_the_other_scans_of_the_connection_right(
    gateway: Gateway, store: GatewayStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(gateway.url + "?pool=1") as single:
        one, other = single.scan(TABLE, [Scan(NUMBERED, batch_size=20)] * 2)
        assert one._multiplexer is other._multiplexer
        found = [[row.row for _ in range(3) for row in next(scan)] for scan in (one, other)]
        assert found == [KEYS[:60]] * 2
        send = scan_multiplexer.ThriftConnection.send

        def interrupted(self: Any, api: str, **arguments: Any) -> None:
            send(self, api, **arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(scan_multiplexer.ThriftConnection, "send", interrupted)
            with pytest.raises(KeyboardInterrupt):
                one.close()
        assert KEYS[:60] + flat(other) == KEYS


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_forked_child_goes_on_with_a_scan_and_so_does_the_parent(
    store: GatewayStore, caplog: pytest.LogCaptureFixture
) -> None:
    [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=40)])
    found = [row.row for row in next(scan)]
    for reads in (True, False):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                rest = flat(scan) if reads else KEYS[40:]
                scan.close()
                code = 0 if found + rest == KEYS else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert found + flat(scan) == KEYS
    assert not caplog.records  # the parent noticed nothing
