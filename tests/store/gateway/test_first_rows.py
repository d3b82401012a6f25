"""Many scans of one row each on the real gateways: their results, the number of calls, and the effect of failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from hbmodel.errors import FamilyNotFound, StoreClosed, StoreUnavailable, TableNotFound
from hbmodel.session.connect import connect
from hbmodel.store import Family, Put, Scan
from hbmodel.store.filters import ColumnPrefix, Filter, ValueFilter
from hbmodel.store.gateway.scanning.first_rows import FEWEST, ReadScan, want_first_rows
from hbmodel.store.gateway.store import GatewayStore
from hbmodel.store.gateway.wire.call_sizes import CallSizes
from hbmodel.store.gateway.wire.connection import ThriftConnection
from hbmodel.store.ranges import KeyRange
from tests.support.examples import examples
from tests.support.gateway_tables import gateway_store, store_with_table
from tests.support.proxy import Proxy

TABLE = f"test_first_rows_{uuid4().hex[:8]}"
KEYS = [b"k%03d" % number for number in range(100)]
SOME = KEYS[:25]
EDGES = [b"\x00", b"a", b"a\x00", b"a\x00\x00", b"a\xff", b"b", b"\xff", b"\xff\xff"]
EVERY = sorted(KEYS + EDGES)

CALLS = {"thrift1": ["scannerOpenWithScan", "scannerGetList", "scannerClose"], "thrift2": ["getScannerResults"]}


@pytest.fixture(scope="module", params=sorted(CALLS))
def gateway(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def url(gateway: str, request: pytest.FixtureRequest) -> str:
    hbase = request.getfixturevalue("hbmodel_hbase")
    return str(hbase.url if gateway == "thrift1" else hbase.thrift2_url)


@pytest.fixture(scope="module")
def store(url: str) -> Iterator[GatewayStore]:
    with store_with_table(url, TABLE, Family(b"d"), Family(b"e")) as store:
        store.put(TABLE, [Put(key, {b"d:a": key, b"e:\x80": b"1", b"e:b": b"2"}, 1) for key in KEYS + EDGES])
        store.put(TABLE, [Put(key, {b"d:a": b"new"}, 5) for key in KEYS[::3]])
        yield store


@pytest.fixture
def proxy(store: GatewayStore, url: str) -> Iterator[Proxy]:
    with Proxy(url) as proxy:
        yield proxy


def read(store: GatewayStore, scans: Sequence[Scan]) -> list[list[bytes]]:
    """The rows of each scan."""
    return [[row.row for batch in batches for row in batch] for batches in store.scan(TABLE, scans)]


def behind_each(keys: Sequence[bytes], **options: object) -> list[Scan]:
    """Scans of the first row from each key on."""
    return [Scan(KeyRange(key), limit=1, **options) for key in keys]  # type: ignore[arg-type]


# --- what they find ---------------------------------------------------------------------------------------------------


bounds = st.sampled_from(
    [*EDGES, b"", b"c", b"a\x01", b"a\xfe", KEYS[0], KEYS[41], KEYS[41] + b"\x00", KEYS[-1], b"m", b"k" * 32_768]
)
filters: list[Filter | None] = [None, ValueFilter(b"d:a", "=", b"new"), ColumnPrefix(b"b")]


@pytest.mark.hbase
@settings(max_examples=examples(60), deadline=None)
@given(
    ranges=st.lists(st.builds(KeyRange, bounds, st.none() | bounds), min_size=FEWEST, max_size=30),
    backwards=st.booleans(),
    columns=st.sampled_from([(), (b"d",), (b"d:a",), (b"e", b"e:b"), (b"d:absent",)]),
    chosen=st.sampled_from(filters),
    before=st.sampled_from([None, 1, 5, 6]),
    batch_size=st.sampled_from([1, 2, 200]),
)
def test_the_same_as_of_each_alone(
    store: GatewayStore,
    *,
    ranges: list[KeyRange],
    backwards: bool,
    columns: Sequence[bytes],
    chosen: Filter | None,
    before: int | None,
    batch_size: int,
) -> None:
    scans = [Scan(of, backwards, columns, chosen, 1, batch_size, before=before) for of in ranges]
    found = store.scan(TABLE, scans)
    assert all(isinstance(batches, ReadScan) for batches in found)
    for scan, batches in zip(scans, found, strict=True):
        (alone,) = store.scan(TABLE, [scan])
        expected = [
            (row.row, [(column, cell.value) for column, cell in row.columns.items()])
            for batch in alone
            for row in batch
        ]
        got = [
            (row.row, [(column, cell.value) for column, cell in row.columns.items()])
            for batch in batches
            for row in batch
        ]
        assert got == expected
        if chosen is None and not columns and before is None:
            assert [row for row, _ in got] == sorted((key for key in EVERY if key in scan.range), reverse=backwards)[:1]


def test_which_scans_are_read_so() -> None:
    scans = behind_each(KEYS[:FEWEST], columns=[b"d:a"])
    assert want_first_rows(scans)
    assert not want_first_rows(scans[1:])
    for other in (
        evolve(scans[0], limit=2),
        evolve(scans[0], limit=None),
        evolve(scans[0], cells=3),
        evolve(scans[0], reversed=True),
        evolve(scans[0], columns=[b"d"]),
        evolve(scans[0], filter=ColumnPrefix(b"a")),
        evolve(scans[0], before=7),
    ):
        assert not want_first_rows([*scans, other])
        assert not want_first_rows([other, *scans])
    assert not want_first_rows([evolve(scan, cells=1) for scan in scans])


@pytest.mark.hbase
def test_an_iterator_may_be_closed_and_read_again(store: GatewayStore) -> None:
    first, second, *_ = store.scan(TABLE, behind_each(KEYS[:FEWEST]))
    assert [row.row for row in next(first)] == [KEYS[0]]
    assert next(first, None) is None
    second.close()  # type: ignore[attr-defined]
    second.close()  # type: ignore[attr-defined]
    assert next(second, None) is None


@pytest.mark.hbase
@pytest.mark.parametrize("backwards", [False, True])
def test_more_than_may_be_on_the_way_at_once(store: GatewayStore, url: str, backwards: bool) -> None:
    sizes = CallSizes(first_bytes=2000, packet=500)
    scans = [Scan(KeyRange(key, key + b"\x00"), backwards, limit=1) for key in KEYS]
    for pool in (1, 3):
        with gateway_store(f"{url}?pool={pool}", sizes=sizes) as narrow:
            assert read(narrow, scans) == [[key] for key in KEYS]  # type: ignore[arg-type]


# --- how they are read ------------------------------------------------------------------------------------------------


@pytest.mark.hbase
def test_in_the_fewest_calls_and_packets(proxy: Proxy, gateway: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packets: list[int] = []
    send = ThriftConnection.send_encoded

    def counted(connection: ThriftConnection, api: str, messages: Sequence[bytes], *, wanted: bool = True) -> None:
        packets.append(len(messages))
        send(connection, api, messages, wanted=wanted)

    monkeypatch.setattr(ThriftConnection, "send_encoded", counted)
    with connect(proxy.url + "?pool=2") as store:
        assert read(store, behind_each(KEYS)) == [[key] for key in KEYS]  # type: ignore[arg-type]
        assert proxy.connections == 2
        calls = CALLS[gateway]
        assert proxy.saw(len(KEYS), calls[-1])
        assert sorted(proxy.calls()) == sorted(calls * len(KEYS))
        assert sum(packets) == len(KEYS) * len(calls)
        assert len(packets) <= 16
        packets.clear()
        assert [row and row.row for row in store.get(TABLE, KEYS)] == KEYS
        assert read(store, behind_each(KEYS, reversed=True)) == [[EVERY[-1]]] * len(KEYS)  # type: ignore[arg-type]
        assert proxy.connections == 2


@pytest.mark.hbase
def test_many_scans_open_further_connections(proxy: Proxy) -> None:
    with gateway_store(proxy.url + "?pool=2", sizes=CallSizes(scans_each=20)) as store:
        assert read(store, behind_each(KEYS[:59])) == [[key] for key in KEYS[:59]]  # type: ignore[arg-type]
        assert proxy.connections == 2
        assert read(store, behind_each(KEYS)) == [[key] for key in KEYS]  # type: ignore[arg-type]
        assert proxy.connections == 2 + 3


# --- trouble ----------------------------------------------------------------------------------------------------------


@pytest.mark.hbase
def test_a_missing_table_or_family_is_told_by_the_iterators(store: GatewayStore) -> None:
    for batches in store.scan(TABLE, behind_each(KEYS[:FEWEST], columns=[b"x"])):
        with pytest.raises(FamilyNotFound):
            next(batches)
    for batches in store.scan("absent", behind_each(KEYS[:FEWEST])):
        with pytest.raises(TableNotFound):
            next(batches)
    assert read(store, behind_each(KEYS[:FEWEST])) == [[key] for key in KEYS[:FEWEST]]


def quick(url: str) -> GatewayStore:
    """A store that does not wait between two tries."""
    return gateway_store(url, sleep=lambda seconds: None)


@pytest.mark.hbase
@pytest.mark.parametrize("pool", [1, 2])
@settings(max_examples=examples(15), deadline=None)
@given(cut=st.integers(0, 3_000))
def test_a_connection_that_breaks_anywhere_costs_no_row(store: GatewayStore, url: str, cut: int, pool: int) -> None:
    repeated: list[None] = []
    with Proxy(url) as proxy, quick(f"{proxy.url}?pool={pool}") as through:
        view = through.on_retry(lambda: repeated.append(None))  # type: ignore[attr-defined]
        proxy.cut_after_reply_bytes(cut)
        assert read(view, behind_each(SOME)) == [[key] for key in SOME]
        assert not repeated or proxy.has_cut
        assert read(view, behind_each(SOME)) == [[key] for key in SOME]


@pytest.mark.hbase
def test_a_retry_is_reported_and_logged(proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    repeated: list[None] = []
    with quick(proxy.url + "?pool=1") as through:
        view = through.on_retry(lambda: repeated.append(None))  # type: ignore[attr-defined]
        proxy.cut_after_reply_bytes(1500)
        assert read(view, behind_each(KEYS)) == [[key] for key in KEYS]
        assert len(repeated) == 1
        assert "begun again" in caplog.text


@pytest.mark.hbase
@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_no_more_attempts_than_allowed(proxy: Proxy, gateway: str, attempts: int) -> None:
    with quick(f"{proxy.url}?pool=1&attempts={attempts}") as through:
        proxy.on_call(CALLS[gateway][0], *["cut"] * attempts)
        with pytest.raises(StoreUnavailable):
            read(through, behind_each(KEYS[:FEWEST]))  # type: ignore[arg-type]
        proxy.on_call(CALLS[gateway][0], *["cut"] * (attempts - 1))
        assert read(through, behind_each(KEYS[:FEWEST])) == [[key] for key in KEYS[:FEWEST]]  # type: ignore[arg-type]


@pytest.mark.hbase
def test_a_gateway_that_is_away(proxy: Proxy) -> None:
    with quick(proxy.url + "?retry_for=0&attempts=2") as through:
        assert read(through, behind_each(KEYS)) == [[key] for key in KEYS]  # type: ignore[arg-type]
        proxy.refuse()
        proxy.cut_all()
        for batches in through.scan(TABLE, behind_each(KEYS[:FEWEST])):
            with pytest.raises(StoreUnavailable):
                next(batches)
        proxy.listen()
        assert read(through, behind_each(KEYS)) == [[key] for key in KEYS]  # type: ignore[arg-type]
    with pytest.raises(StoreClosed):
        through.scan(TABLE, behind_each(KEYS))


@pytest.mark.hbase
def test_an_interruption_leaves_no_reply_behind(store: GatewayStore, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    receive = ThriftConnection.receive
    calls = 0

    def interrupted(connection: ThriftConnection) -> object:
        nonlocal calls
        calls += 1
        if calls == 30:
            raise KeyboardInterrupt
        return receive(connection)

    with connect(url + "?pool=2") as narrow:
        with monkeypatch.context() as patched:
            patched.setattr(ThriftConnection, "receive", interrupted)
            with pytest.raises(KeyboardInterrupt):
                narrow.scan(TABLE, behind_each(KEYS))
        for _ in range(3):
            assert read(narrow, behind_each(KEYS[50:])) == [[key] for key in KEYS[50:]]  # type: ignore[arg-type]
