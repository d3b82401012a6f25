from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxy import Proxy

from hbmodel.errors import FamilyNotFound, StoreClosed, StoreError, StoreUnavailable, TableNotFound
from hbmodel.ranges import KeyRange
from hbmodel.store import MAX_ROW_LENGTH, Family, Put, Row, Scan
from hbmodel.stores import calls, scan_lane
from hbmodel.stores.thrift1 import Thrift1Store

pytestmark = pytest.mark.hbase

TABLE = "test_thrift1_scan"
COUNT = 300
KEYS = [b"k%04d" % number for number in range(COUNT)]
EDGES = [b"\x00", b"a", b"a\x00", b"a\x00\x00", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff", b"l" * MAX_ROW_LENGTH]
NUMBERED = KeyRange.prefix(b"k")


@pytest.fixture(scope="module")
def store(local_hbase: Any) -> Iterator[Thrift1Store]:
    with Thrift1Store.from_url(local_hbase.url) as store:
        if TABLE in store.tables():
            store.delete_table(TABLE)
        store.create_table(TABLE, [Family(b"d"), Family(b"e")])
        store.put(TABLE, [Put(key, {b"d:a": key, b"e:a": b"x" * 50}, 1) for key in KEYS + EDGES])
        yield store
        store.delete_table(TABLE)


@pytest.fixture
def proxy(store: Thrift1Store, local_hbase: Any) -> Iterator[Proxy]:
    with Proxy(local_hbase.url) as proxy:
        yield proxy


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between tries are told, not slept."""
    monkeypatch.setattr(scan_lane.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(calls.time, "sleep", lambda seconds: None)


def flat(scan: Iterable[Sequence[Row]]) -> list[bytes]:
    rows: list[bytes] = []
    for batch in scan:
        assert batch
        rows.extend(row.row for row in batch)
    return rows


def read(store: Thrift1Store, *scans: Scan) -> list[list[bytes]]:
    return [flat(scan) for scan in store.scan(TABLE, scans)]


# --- what is read -----------------------------------------------------------------------------------------------------

bounds = st.sampled_from(sorted({*EDGES, b"", b"c", b"a\x01", b"a\xfe", *KEYS[:3], KEYS[100], KEYS[-1], b"m"}))


@settings(max_examples=200, deadline=None)
@given(
    start=bounds,
    stop=st.none() | bounds,
    backwards=st.booleans(),
    limit=st.none() | st.integers(0, 12),
    batch_size=st.sampled_from([1, 2, 3, 5, 1000]),
)
def test_exactly_the_range_in_order(
    store: Thrift1Store, *, start: bytes, stop: bytes | None, backwards: bool, limit: int | None, batch_size: int
) -> None:
    keys = KeyRange(start, stop)
    expected = sorted((key for key in KEYS + EDGES if key in keys), reverse=backwards)
    if batch_size < 5 and limit is None:
        batch_size = 50  # not hundreds of round trips
    [found] = read(store, Scan(keys, reversed=backwards, limit=limit, batch_size=batch_size))
    assert found == expected[:limit]


def test_batches_are_no_larger_than_asked(store: Thrift1Store) -> None:
    [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=70)])
    assert [len(batch) for batch in scan] == [70, 70, 70, 70, 20]


def test_columns_and_rows_without_them(store: Thrift1Store) -> None:
    [scan] = store.scan(TABLE, [Scan(KeyRange(b"k0001", b"k0003"), columns=[b"e", b"d:b"])])
    assert [[(row.row, list(row.columns)) for row in batch] for batch in scan] == [[(b"k0001", [b"e:a"]), (b"k0002", [b"e:a"])]]
    assert read(store, Scan(columns=[b"d:b"])) == [[]]


def test_several_scans_are_read_in_any_order(store: Thrift1Store) -> None:
    scans = [Scan(KeyRange(key, None), limit=30, batch_size=7, reversed=number % 2 == 1) for number, key in enumerate(KEYS[::30])]
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


def test_a_missing_table_or_family_is_told_by_the_iterator(store: Thrift1Store) -> None:
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


def test_a_small_scan_takes_one_request_for_rows(proxy: Proxy) -> None:
    with Thrift1Store.from_url(proxy.url) as store:
        assert read(store, Scan(NUMBERED, limit=20)) == [KEYS[:20]]
        assert proxy.saw(1, "scannerClose")
        assert proxy.calls() == ["scannerOpenWithScan", "scannerGetList", "scannerClose"]
        assert proxy.rows_asked_for() == [20]


def test_a_limit_is_never_overstepped(proxy: Proxy) -> None:
    with Thrift1Store.from_url(proxy.url) as store:
        assert read(store, Scan(NUMBERED, limit=95, batch_size=20)) == [KEYS[:95]]
        assert proxy.rows_asked_for() == [20, 20, 20, 20, 15]


def test_a_long_scan_asks_ahead_and_only_a_long_one(proxy: Proxy) -> None:
    with Thrift1Store.from_url(proxy.url) as store:
        [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=50)])
        assert proxy.saw(1, "scannerGetList")
        store.tables()
        assert proxy.rows_asked_for() == [50]
        next(scan)
        assert proxy.saw(4, "scannerGetList")
        scan.close()  # type: ignore[attr-defined]
        assert proxy.saw(1, "scannerClose")
        assert proxy.rows_asked_for() == [50] * 4
        proxy.forget()
        assert read(store, Scan(KeyRange(b"k0000", b"k0010"))) == [KEYS[:10]]
        assert proxy.rows_asked_for() == [1000]


def test_scanners_are_closed_when_exhausted_limited_or_closed(proxy: Proxy) -> None:
    with Thrift1Store.from_url(proxy.url + "?pool=1") as store:
        read(store, Scan(NUMBERED, batch_size=100), Scan(NUMBERED, limit=3))
        early, never_read = store.scan(TABLE, [Scan(NUMBERED, batch_size=10), Scan(NUMBERED, batch_size=10)])
        assert len(next(early)) == 10
        early.close()  # type: ignore[attr-defined]
        early.close()  # type: ignore[attr-defined]
        assert next(early, None) is None
        never_read.close()  # type: ignore[attr-defined]
        assert len(store.get(TABLE, KEYS)) == COUNT
        assert proxy.saw(4, "scannerClose")
    opened = [call for call in proxy.calls() if call in {"scannerOpenWithScan", "scannerClose"}]
    assert opened.count("scannerOpenWithScan") == opened.count("scannerClose") == 4


def test_scans_spread_over_the_free_connections(proxy: Proxy) -> None:
    with Thrift1Store.from_url(proxy.url + "?pool=3") as store:
        assert read(store, *[Scan(KeyRange(key), limit=2) for key in KEYS[:12]]) == [KEYS[n : n + 2] for n in range(12)]
        assert proxy.connections == 3
        read(store, *[Scan(KeyRange(key), limit=2) for key in KEYS[:12]])
        store.get(TABLE, KEYS)
        assert proxy.connections == 3


def test_calls_inside_open_scans_have_connections_of_their_own(store: Thrift1Store, local_hbase: Any) -> None:
    with Thrift1Store.from_url(local_hbase.url + "?pool=1&timeout=5") as single:
        outer = flat_with_gets(single, 3)
    assert outer == KEYS[:3]


def flat_with_gets(store: Thrift1Store, depth: int) -> list[bytes]:
    [scan] = store.scan(TABLE, [Scan(NUMBERED, limit=3, batch_size=1)])
    rows = []
    for batch in scan:
        [row] = store.get(TABLE, [batch[0].row])
        assert row is not None
        rows.append(row.row)
        if depth:
            flat_with_gets(store, depth - 1)
    return rows


def test_an_iterator_that_is_dropped_gives_its_connection_back(store: Thrift1Store, local_hbase: Any) -> None:
    with Thrift1Store.from_url(local_hbase.url + "?pool=1&timeout=5") as single:
        for _ in range(20):
            next(single.scan(TABLE, [Scan(NUMBERED, batch_size=5)])[0])
            single.scan(TABLE, [Scan(NUMBERED, batch_size=5), Scan(NUMBERED, batch_size=5)])
        gc.collect()
        assert read(single, Scan(NUMBERED)) == [KEYS]


def test_a_scan_ends_with_its_store(local_hbase: Any, store: Thrift1Store) -> None:
    other = Thrift1Store.from_url(local_hbase.url)
    [scan] = other.scan(TABLE, [Scan(NUMBERED, batch_size=5)])
    next(scan)
    other.close()
    with pytest.raises(StoreClosed):
        flat(scan)
    scan.close()  # type: ignore[attr-defined]


# --- when it breaks ---------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(1, 45_000), min_size=1, max_size=3),
    backwards=st.booleans(),
    limit=st.none() | st.integers(1, COUNT),
    batch_size=st.sampled_from([7, 50, 1000]),
)
def test_a_scan_cut_anywhere_delivers_every_row_once(
    proxy: Proxy, quick: None, *, cuts: list[int], backwards: bool, limit: int | None, batch_size: int
) -> None:
    with Thrift1Store.from_url(proxy.url) as store:
        proxy.cut_after_reply_bytes(cuts[0])
        rest = iter(cuts[1:])
        found: list[bytes] = []
        [scan] = store.scan(TABLE, [Scan(NUMBERED, reversed=backwards, limit=limit, batch_size=batch_size)])
        for batch in scan:
            found.extend(row.row for row in batch)
            if proxy.has_cut and (following := next(rest, None)) is not None:
                proxy.cut_after_reply_bytes(following)
    assert found == (KEYS[::-1] if backwards else KEYS)[:limit]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(1, 60_000), pool=st.integers(1, 3))
def test_scans_that_share_a_cut_connection_all_go_on(proxy: Proxy, quick: None, cut: int, pool: int) -> None:
    ranges = [KeyRange(KEYS[number], KEYS[number + 50]) for number in range(0, 250, 50)]
    with Thrift1Store.from_url(f"{proxy.url}?pool={pool}") as store:
        proxy.cut_after_reply_bytes(cut)
        scans = store.scan(TABLE, [Scan(keys, batch_size=9) for keys in ranges])
        found: list[list[bytes]] = [[] for _ in scans]
        for _ in range(7):
            for number, scan in enumerate(scans):
                found[number].extend(row.row for row in next(scan, ()))
    assert found == [KEYS[number : number + 50] for number in range(0, 250, 50)]


def test_a_forgotten_scanner_is_opened_again_behind_the_last_row(store: Thrift1Store, local_hbase: Any, quick: None) -> None:
    for backwards in (False, True):
        [scan] = store.scan(TABLE, [Scan(NUMBERED, backwards, batch_size=40)])
        found = [row.row for row in next(scan)]
        threading.Event().wait(0.2)  # what was asked ahead is answered
        # Scanner numbers are the gateway's, so any connection can close any scanner, as an expired lease would.
        with Thrift1Store.from_url(local_hbase.url) as other, other._pool.lease() as lease:
            lease.connection().call("scannerClose", id=scan._cursor.scanner)  # type: ignore[attr-defined]
        assert found + flat(scan) == (KEYS[::-1] if backwards else KEYS)


def test_a_gateway_that_comes_back_in_time_is_waited_for(proxy: Proxy) -> None:
    with Thrift1Store.from_url(proxy.url) as store:
        [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=40)])
        found = [row.row for row in next(scan)]
        proxy.refuse()
        proxy.cut_all()
        threading.Timer(0.4, proxy.listen).start()
        assert found + flat(scan) == KEYS


def test_a_gateway_that_stays_away_ends_the_scan_with_an_error(proxy: Proxy, quick: None) -> None:
    with Thrift1Store.from_url(proxy.url) as store:
        [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=40)])
        next(scan)
        proxy.close()
        for _ in range(2):  # never as if the rows had ended
            with pytest.raises(StoreUnavailable, match="broke off"):
                flat(scan)


def test_a_silent_gateway_is_given_more_time_with_each_try(proxy: Proxy, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    patience: list[float] = []
    limit = scan_lane.ThriftConnection.limit
    monkeypatch.setattr(scan_lane.ThriftConnection, "limit", lambda self, timeout: (patience.append(timeout), limit(self, timeout)))
    with Thrift1Store.from_url(proxy.url + "?timeout=0.2") as store:
        proxy.on_call("scannerGetList", "pass", "mute", "mute")
        assert read(store, Scan(NUMBERED, batch_size=200)) == [KEYS]
        assert 0.4 in patience
        with store._pool.lease() as lease:  # the connection with the long limit was not given back
            assert lease.connection()._socket.sock.gettimeout() == 0.2


def test_an_interrupted_scan_never_goes_on_as_if_nothing_had_happened(store: Thrift1Store, monkeypatch: pytest.MonkeyPatch) -> None:
    [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=40)])
    next(scan)

    def interrupted(self: object, rows: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(scan_lane.Cursor, "accept", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(scan)
    with pytest.raises(StoreError, match="interrupted"):
        next(scan)
    assert read(store, Scan(NUMBERED)) == [KEYS]


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_forked_child_goes_on_with_a_scan_and_so_does_the_parent(store: Thrift1Store, caplog: pytest.LogCaptureFixture) -> None:
    [scan] = store.scan(TABLE, [Scan(NUMBERED, batch_size=40)])
    found = [row.row for row in next(scan)]
    for reads in (True, False):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                rest = flat(scan) if reads else KEYS[40:]
                scan.close()  # type: ignore[attr-defined]
                code = 0 if found + rest == KEYS else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert found + flat(scan) == KEYS
    assert not caplog.records  # the parent noticed nothing
