"""Gateways started in other ways than by default: HBase's own TLS, which exists over HTTP only, and framed compact
messages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.localhbase import LocalHBase
from hbmodel.store import Delete, Family, Put, Scan, Store
from hbmodel.store.ranges import KeyRange
from tests.conformance.conformance import FAMILIES, Bed, DeleteConformance, GetConformance, PutConformance
from tests.conformance.conformance_atomic import CheckAndPutConformance, CounterConformance, RowChangeConformance
from tests.conformance.conformance_scans import ScanConformance
from tests.support.beds import drop_left
from tests.support.certificates import Authority
from tests.support.gateway_process import GatewayProcess, Kind, more_gateways
from tests.support.proxy import Proxy
from tests.support.tested_version import TESTED

pytestmark = pytest.mark.hbase

Opener = Callable[..., Store]

STORE_PASSWORD = "store password"


@pytest.fixture(scope="module")
def hbase(hbmodel_hbase: Any) -> Iterator[LocalHBase]:
    """One that more gateways can be started for."""
    if isinstance(hbmodel_hbase, LocalHBase):
        yield hbmodel_hbase
    else:
        with LocalHBase(gateways=(), version=TESTED) as own:
            yield own


class Gateways:
    """Both gateways over HTTPS, a spare one, and a framed, compact one."""

    def __init__(self, started: dict[str, GatewayProcess], https: str, compact: str) -> None:
        self._started, self._https, self._compact = started, https, compact

    def __getitem__(self, name: str) -> str:
        """The URL of one."""
        scheme = "hbase" if name == "https1" else "hbase+thrift2"
        return f"{scheme}://localhost:{self._started[name].port}?{self._compact if name == 'compact2' else self._https}"

    @property
    def pair(self) -> str:
        """The URL of two."""
        return self["https2"].replace("?", f",localhost:{self.spare.port}?")

    @property
    def spare(self) -> GatewayProcess:
        """The gateway that tests may stop or break."""
        return self._started["spare"]


@pytest.fixture(scope="module")
def gateways(hbase: LocalHBase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    directory: Path = tmp_path_factory.mktemp("gateways")
    authority = Authority(directory)
    keystore = authority.sign("gateway", "127.0.0.1", "localhost").keystore(STORE_PASSWORD)
    https = {
        "hbase.regionserver.thrift.http": "true",
        "hbase.thrift.ssl.enabled": "true",
        "hbase.thrift.ssl.keystore.store": str(keystore),
        "hbase.thrift.ssl.keystore.password": STORE_PASSWORD,
        "hbase.thrift.ssl.keystore.keypassword": STORE_PASSWORD,
        "hbase.thrift.ssl.keystore.type": "pkcs12",
    }
    compact = {"hbase.regionserver.thrift.framed": "true", "hbase.regionserver.thrift.compact": "true"}
    kinds: dict[str, Kind] = {
        "https1": ("thrift1", https),
        "https2": ("thrift2", https),
        "spare": ("thrift2", https),
        "compact2": ("thrift2", compact),
    }
    with more_gateways(hbase, directory, kinds) as started:
        yield Gateways(
            started, f"transport=http&tls=true&ca_file={authority.file}", "transport=framed&protocol=compact"
        )


# --- what every store promises of reads and writes, over HTTPS and in frames ------------------------------------------


@pytest.fixture(scope="module", params=[pytest.param("https2", marks=pytest.mark.slow), "compact2"])
def bed(request: pytest.FixtureRequest, gateways: Gateways) -> Iterator[Bed]:
    url = gateways[request.param]
    table, narrow = (f"{name}_{uuid4().hex}" for name in ("conformance", "narrow"))
    with hb.connect(url) as store:
        store.create_table(table, FAMILIES)
        store.create_table(narrow, [Family(b"d")])
        yield Bed(store, lambda: hb.connect(url), table, narrow)
        drop_left(store, table, narrow)


class TestGet(GetConformance):
    pass


class TestPut(PutConformance):
    pass


class TestDelete(DeleteConformance):
    pass


class TestCheckAndPut(CheckAndPutConformance):
    pass


class TestCounter(CounterConformance):
    pass


class TestRowChange(RowChangeConformance):
    pass


class TestScan(ScanConformance):
    pass


# --- what is particular to HTTPS --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(gateways: Gateways) -> Iterator[str]:
    name = f"https_{uuid4().hex}"
    with hb.connect(gateways["https2"]) as store:
        store.create_table(name, [Family(b"d")])
        store.put(
            name, [Put(b"%05d" % number, {b"d:a": bytes(300), b"d:b": b"%d" % number}, 1) for number in range(5000)]
        )
        yield name
        store.delete_table(name)


@pytest.fixture(params=["https1", "https2"])
def url(request: pytest.FixtureRequest, gateways: Gateways) -> str:
    return gateways[request.param]


def test_everything_works_over_https(url: str, table: str) -> None:
    with hb.connect(url) as store:
        keys = [b"%05d" % number for number in range(5000)]
        assert [row and row.row for row in store.get(table, keys)] == keys
        many = store.scan(
            table, [Scan(columns=[b"d:b"], batch_size=500), Scan(reversed=True, limit=3), Scan(batch_size=300)]
        )
        forward, back, all_ = ([row.row for batch in batches for row in batch] for batches in many)
        assert (forward, back, all_) == (keys, keys[:-4:-1], keys)
        row = uuid4().hex.encode()
        assert store.check_and_put(table, row, b"d:x", None, Put(row, {b"d:x": b"1"}))
        assert not store.check_and_put(table, row, b"d:x", None, Put(row, {b"d:x": b"2"}))
        assert [store.increment(table, row, b"d:n", 2) for _ in range(3)] == [2, 4, 6]
        if store.capabilities.check_and_mutate:
            change = [Put(row, {b"d:y": b"1"}, 9), Delete(row, columns=[b"d:x"])]
            assert store.check_and_mutate(table, row, b"d:x", b"1", change)
            assert not store.check_and_mutate(table, row, b"d:x", b"1", change)
        store.delete(table, [Delete(row)])
        assert store.get(table, [row]) == [None]
        with pytest.raises(hb.errors.TableNotFound):
            store.get("no_such_table", [b"k"])
        assert table in store.tables()
        assert len(store.regions(table)) == 1


def test_models_work_over_https(gateways: Gateways) -> None:
    @hb.model(table=f"https_model_{uuid4().hex}", exists=hb.flag("e"))
    class Thing:
        number: hb.Key[int] = hb.key()
        text: hb.Column[str] = hb.column("t")

    with hb.connect(gateways["https2"]) as store:
        hb.create_tables(store, Thing)
        with hb.Session(store) as session:
            assert (
                session.bulk_add((Thing(number=number, text=f"t{number}") for number in range(3000)), batch_size=500)
                == 3000
            )
            session.insert(Thing(number=-1, text="first"))
            with pytest.raises(hb.RowExists):
                session.insert(Thing(number=-1, text="again"))
            found = session.query(Thing).where(Thing.number >= 2990).all()
            assert [thing.text for thing in found] == [f"t{number}" for number in range(2990, 3000)]
            assert session.query(Thing).allow_full_scan().count() == 3001
        store.delete_table(hb.schema.schema_of(Thing).table)


def test_one_connection_serves_one_call_after_the_other(url: str, table: str) -> None:
    scheme, _, rest = url.partition("://")
    with Proxy(f"{scheme}://127.0.0.1:{rest.partition('?')[0].rpartition(':')[2]}") as proxy:
        with hb.connect(f"{scheme}://localhost:{proxy.port}?{rest.partition('?')[2]}&pool=1") as store:
            for number in range(20):
                assert store.get(table, [b"%05d" % number])[0] is not None
            [scan] = store.scan(table, [Scan(batch_size=100)])
            next(scan)
            scan.close()  # type: ignore[attr-defined]
            assert store.get(table, [b"00000"])[0] is not None
        assert proxy.connections == 1


def test_reads_and_scans_go_on_when_the_connection_breaks(url: str, table: str) -> None:
    scheme, _, rest = url.partition("://")
    with Proxy(f"{scheme}://127.0.0.1:{rest.partition('?')[0].rpartition(':')[2]}") as proxy:
        with hb.connect(f"{scheme}://localhost:{proxy.port}?{rest.partition('?')[2]}&pool=1") as store:
            [scan] = store.scan(table, [Scan(batch_size=250)])
            rows = [row.row for row in next(scan)]
            for after in (5_000, 100_000, 300_000):
                proxy.cut_after_reply_bytes(after)
                rows += [row.row for row in next(scan)]
                rows += [row.row for row in next(scan)]
            rows += [row.row for batch in scan for row in batch]
            assert rows == [b"%05d" % number for number in range(5000)]
            proxy.cut_after_reply_bytes(50)
            assert store.get(table, [b"00001"])[0] is not None
            assert proxy.has_cut
        assert proxy.connections >= 4


def test_threads_share_a_store_over_https(url: str, table: str) -> None:
    wrong: list[object] = []

    def work(start: int) -> None:
        try:
            for number in range(start, start + 40):
                [row] = store.get(table, [b"%05d" % number], [b"d:b"])
                if row is None or row.columns[b"d:b"].value != b"%d" % number:
                    wrong.append(number)
        except hb.HbmodelError as error:
            wrong.append(error)

    with hb.connect(url + "&pool=3") as store:
        threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 800, 100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_the_gateways_certificate_is_checked(url: str, tmp_path: Path) -> None:
    plain = url.partition("&ca_file")[0]
    for more in ("", f"&ca_file={Authority(tmp_path, 'unknown').file}"):
        with (
            hb.connect(plain + more) as store,
            pytest.raises(hb.errors.CertificateRefused, match="certificate is not accepted"),
        ):
            store.tables()
    with hb.connect(url.replace("://localhost", "://127.0.0.1")) as store:
        store.tables()


def test_the_wrong_kind_of_gateway_is_told(gateways: Gateways) -> None:
    for name, scheme, other in (("https1", "hbase", "hbase+thrift2"), ("https2", "hbase+thrift2", "hbase")):
        with hb.connect(gateways[name].replace(f"{scheme}:", f"{other}:")) as store:
            for call in (store.tables, lambda store=store: store.get("t", [b"k"])):  # type: ignore[misc]
                with pytest.raises(hb.StoreError, match="for Thrift2"):
                    call()


def test_the_wrong_transport_is_told(gateways: Gateways) -> None:
    """Each of these is a mistake in the options, told within seconds and not by a crash."""
    https, framed = gateways["https2"], gateways["compact2"]
    for url in (
        https.partition("?")[0],
        https.replace("transport=http", "transport=buffered"),
        https.partition("&tls")[0],
        framed.replace("framed&protocol=compact", "http"),
        framed.partition("&")[0],
    ):
        more = "&" if "?" in url else "?"
        with hb.connect(f"{url}{more}attempts=1&timeout=2") as store, pytest.raises(hb.StoreError) as caught:
            store.tables()
        assert isinstance(caught.value, hb.StoreUnavailable) or caught.value.status is not None


# --- one of two gateways ----------------------------------------------------------------------------------------------


def on_spare(gateways: Gateways) -> Any:
    """A store that uses the spare gateway, and can go to another one."""
    while True:
        store: Any = hb.connect(gateways.pair + "&pool=1&timeout=4")
        with store._pool.lease() as lease:
            if lease.connection().gateway.port == gateways.spare.port:
                return store
        store.close()


@pytest.mark.parametrize("harm", ["freeze", "kill"])  # in this order
def test_work_goes_on_when_a_gateway_freezes_and_when_it_is_killed(gateways: Gateways, table: str, harm: str) -> None:
    puts = [Put(b"~%s%05d" % (harm.encode(), number), {b"d:a": b"1"}, 5) for number in range(2500)]
    keys = [b"%05d" % number for number in range(5000)]
    with (
        on_spare(gateways) as reading,
        on_spare(gateways) as writing,
        on_spare(gateways) as scanning,
        on_spare(gateways) as counting,
    ):
        [scan] = scanning.scan(table, [Scan(KeyRange(b"0", b"~"), batch_size=100)])
        rows = [row.row for row in next(scan)]
        getattr(gateways.spare, harm)()
        try:
            assert all(reading.get(table, keys[:3]))
            writing.put(table, puts)
            rows += [row.row for batch in scan for row in batch]
            with suppress(hb.UnknownOutcome):  # it may not be repeated
                counting.increment(table, b"~n", b"d:n", 1)
            counting.increment(table, b"~n", b"d:n", 1)
        finally:
            if harm == "freeze":
                gateways.spare.thaw()
        assert rows == keys
        assert all(reading.get(table, [put.row for put in puts]))
    with hb.connect(gateways.pair) as anew:
        assert anew.get(table, [b"00000"])[0] is not None
