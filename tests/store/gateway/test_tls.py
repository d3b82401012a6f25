"""TLS to gateways: who is trusted, who is refused and what is said then. HBase's own TLS is in test_https.py."""

from __future__ import annotations

import datetime
import shutil
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Family, Put, Scan
from hbmodel.store.gateway.wire.tls import Tls
from tests.store.gateway.test_pool import in_child
from tests.support.certificates import Authority, Signed
from tests.support.fronts import Front, TlsFront

SECRET = "kartoffelsalat"


class Cast:
    """A trusted authority, an untrusted one, and holders of certificates."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.unknown = Authority(directory, "unknown")
        self.server = self.authority.sign("server", "127.0.0.1", "localhost")
        self.impostor = self.unknown.sign("impostor", "127.0.0.1", "localhost")
        self.expired = self.authority.sign("expired", "127.0.0.1", ends=-datetime.timedelta(days=1))
        self.other_host = self.authority.sign("other", "127.0.0.2", "gateway.example")
        self.client = self.authority.sign("client", password=SECRET)
        self.stranger = self.unknown.sign("stranger")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Cast:
    return Cast(tmp_path_factory.mktemp("certificates"))


REFUSED = pytest.raises(hb.errors.CertificateRefused)

CALLS: list[Callable[[hb.Store], object]] = [
    lambda store: store.get("t", [b"k"]),
    lambda store: list(store.scan("t", [Scan()])[0]),
    lambda store: store.put("t", [Put(b"k", {b"d:a": b""}, 1)]),
    lambda store: store.increment("t", b"k", b"d:a", 1),
]


@pytest.mark.parametrize("transport", ["buffered", "framed", "http"])
@pytest.mark.parametrize(
    ("holder", "why"),
    [
        ("impostor", "unable to get local issuer certificate"),
        ("expired", "certificate has expired"),
        ("other_host", "IP address mismatch, certificate is not valid for '127.0.0.1'."),
    ],
)
def test_a_certificate_that_does_not_verify_is_refused_at_once(
    people: Cast, holder: str, why: str, transport: str
) -> None:
    with TlsFront(getattr(people, holder)) as front:
        url = f"hbase+thrift2://127.0.0.1:{front.port}?tls=true&ca_file={people.authority.file}&transport={transport}"
        with hb.connect(url) as store:
            for call in CALLS:
                with pytest.raises(hb.errors.CertificateRefused) as caught:
                    call(store)
                assert isinstance(caught.value, hb.StoreUnavailable)
                assert caught.value.reason == why
                assert caught.value.gateway == f"127.0.0.1:{front.port}"
        assert front.connections == len(CALLS)  # none was tried again
        assert front.handshakes == 0


def test_the_systems_authorities_do_not_know_ours(people: Cast) -> None:
    with TlsFront(people.server) as front, hb.connect(f"hbase://127.0.0.1:{front.port}?tls=true") as store, REFUSED:
        store.tables()


def test_there_is_no_way_around_checks(people: Cast) -> None:
    for tls in (
        Tls(),
        Tls(str(people.authority.file)),
        Tls(cert_file=str(people.server.cert_file), key_file=str(people.server.key_file)),
    ):
        context = tls.context()
        assert context.check_hostname
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_gateway_without_tls_is_told(people: Cast) -> None:
    class Silent(Front):
        def serve(self, client: Any) -> None:
            client.recv(1)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with (
        Silent() as front,
        hb.connect(f"hbase://127.0.0.1:{front.port}?tls=true&attempts=1") as store,
        pytest.raises(hb.StoreUnavailable) as caught,
    ):
        store.tables()
    assert type(caught.value) is hb.StoreUnavailable
    assert "TLS handshake" in caught.value.reason
    assert "see `reason`, and check that the port uses TLS" in str(caught.value.__cause__)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("transport", ["buffered", "http"])
def test_a_client_whose_certificate_is_missed_or_not_accepted_is_told_so(
    people: Cast, version: ssl.TLSVersion, transport: str
) -> None:
    url = f"tls=true&ca_file={people.authority.file}&transport={transport}&attempts=1"
    strange = f"&cert_file={people.stranger.cert_file}&key_file={people.stranger.key_file}"
    for more in ("", strange):
        with TlsFront(people.server, clients=people.authority, version=version) as front:
            with (
                hb.connect(f"hbase://127.0.0.1:{front.port}?{url}{more}") as store,
                pytest.raises(hb.StoreUnavailable) as caught,
            ):
                store.increment("t", b"k", b"d:n", 1)  # certainly not carried out, or it would be UnknownOutcome
            assert front.handshakes == 0
        if more or version is ssl.TLSVersion.TLSv1_3:
            assert isinstance(caught.value, hb.errors.CertificateRefused)
        else:  # which TLS 1.2 has no word for
            assert "HANDSHAKE_FAILURE" in caught.value.reason


def test_of_several_gateways_those_with_good_certificates_are_used(people: Cast, narrow: int) -> None:
    with TlsFront(people.expired) as bad, TlsFront(people.server, narrow) as good:
        url = f"hbase://127.0.0.1:{bad.port},127.0.0.1:{good.port}?tls=true&ca_file={people.authority.file}&pool=1"
        for _ in range(4):
            with hb.connect(url) as store:
                assert store.tables() == ["t"]
        assert good.handshakes == 4


def test_if_all_certificates_are_bad_each_is_told(people: Cast) -> None:
    with TlsFront(people.expired) as one, TlsFront(people.impostor) as other:
        url = f"hbase://127.0.0.1:{one.port},127.0.0.1:{other.port}?tls=true&ca_file={people.authority.file}"
        with (
            hb.connect(url) as store,
            pytest.raises(
                hb.errors.CertificateRefused, match="No HBase gateway can be used: its certificate was refused, or"
            ) as caught,
        ):
            store.tables()
    assert sorted(caught.value.tried) == sorted(
        [
            f"127.0.0.1:{one.port}: certificate has expired",
            f"127.0.0.1:{other.port}: unable to get local issuer certificate",
        ]
    )


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ({"ca_file": "none.pem"}, "ca_file"),
        ({"ca_file": "text.pem"}, "ca_file"),
        ({"cert_file": "none.pem"}, "cert_file"),
        ({"cert_file": "client.crt"}, "cert_file"),
        ({"cert_file": "client.crt", "key_file": "server.key"}, "cert_file"),
        ({"cert_file": "client.crt", "key_file": "client.key"}, "cert_file"),
        ({"cert_file": "client.crt", "key_file": "client.key", "key_password": SECRET + "x"}, "cert_file"),
        ({"cert_file": "client.crt", "key_file": "client.key", "key_password": SECRET * 100}, "cert_file"),
        ({"key_file": "client.key"}, "cert_file"),
        ({"key_password": SECRET}, "cert_file"),
    ],
)
def test_files_that_do_not_do_are_told_at_once(people: Cast, arguments: dict[str, str], option: str) -> None:
    directory = people.authority.directory
    (directory / "text.pem").write_text("no certificate")
    given = {name: value if name == "key_password" else str(directory / value) for name, value in arguments.items()}
    with pytest.raises(hb.errors.InvalidRequest) as caught:
        Tls(**given)
    assert caught.value.option == option
    assert SECRET not in str(caught.value)
    query = "&".join(f"{name}={value}" for name, value in given.items())
    with pytest.raises(hb.errors.StoreURLError) as told:
        hb.connect(f"hbase://localhost?tls=true&{query}")
    assert told.value.option == option
    assert SECRET not in str(told.value)


def test_certificates_without_tls_are_refused(people: Cast) -> None:
    for query in (f"ca_file={people.authority.file}", "cert_file=x", "key_file=x", f"key_password={SECRET}"):
        with pytest.raises(hb.errors.StoreURLError, match="tls=true") as caught:
            hb.connect(f"hbase://localhost?{query}")
        assert SECRET not in str(caught.value)


def test_files_that_change_are_read_again(people: Cast, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    shutil.copy(people.unknown.file, file)
    tls = Tls(str(file))
    first = tls.context()
    assert tls.context() is first
    file.write_text("half writ")
    assert tls.context() is first
    shutil.copy(people.authority.file, file)
    second = tls.context()
    assert second is not first
    assert "authority" in str(second.get_ca_certs()[0])
    assert tls.context() is second


# --- the good way -----------------------------------------------------------------------------------------------------


@pytest.fixture
def narrow() -> Iterator[int]:
    """The port of something that answers one call of the first gateway, without HBase."""
    import importlib

    from thriftpy2.protocol import TBinaryProtocol
    from thriftpy2.thrift import TProcessor
    from thriftpy2.transport import TBufferedTransport, TSocket, TTransportException

    thrift: Any = importlib.import_module("Hbase_thrift")

    class Tables:
        def getTableNames(self) -> list[bytes]:
            return [b"t"]

    class Answering(Front):
        def serve(self, client: Any) -> None:
            protocol = TBinaryProtocol(TBufferedTransport(TSocket(sock=client)))
            processor = TProcessor(thrift.Hbase, Tables())
            try:
                while True:
                    processor.process(protocol, protocol)
            except (TTransportException, OSError):
                pass

    with Answering() as front:
        yield front.port


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_forked_child_leaves_the_parents_connection_alone(people: Cast, narrow: int) -> None:
    with (
        TlsFront(people.server, narrow) as front,
        hb.connect(f"hbase://localhost:{front.port}?tls=true&ca_file={people.authority.file}&pool=1") as store,
    ):
        assert store.tables() == ["t"]

        def child() -> bool:
            found = store.tables() == ["t"]
            store.close()
            return found

        assert in_child(child) == 0
        assert store.tables() == ["t"]
        assert front.handshakes == 2


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_certificate_is_shown_and_the_connection_is_kept(
    people: Cast, narrow: int, version: ssl.TLSVersion
) -> None:
    client: Signed = people.client
    with TlsFront(people.server, narrow, people.authority, version) as front:
        url = f"hbase://localhost:{front.port}?tls=true&ca_file={people.authority.file}&pool=1"
        with hb.connect(
            f"{url}&cert_file={client.cert_file}&key_file={client.key_file}&key_password={SECRET}"
        ) as store:
            for _ in range(3):
                assert store.tables() == ["t"]
                time.sleep(0.01)  # for messages of TLS itself, which are no sign that the connection ends
        assert front.handshakes == 1


def test_a_connection_that_the_other_side_closes_is_noticed(people: Cast, narrow: int) -> None:
    with TlsFront(people.server, narrow) as front:
        with hb.connect(
            f"hbase://localhost:{front.port}?tls=true&ca_file={people.authority.file}&pool=1&attempts=1"
        ) as store:
            assert store.tables() == ["t"]
            with store._pool.lease() as lease:  # type: ignore[attr-defined]
                connection = lease.connection()
                assert connection.ready()
                connection.send("getTableNames")
                connection.receive()
            front.cut()
            time.sleep(0.05)
            assert not connection.ready()
            assert store.tables() == ["t"]
        assert front.handshakes == 2


@pytest.mark.hbase
@pytest.mark.parametrize("kind", ["thrift1", "thrift2"])
def test_all_goes_through_an_end_of_tls_in_front_of_a_gateway(people: Cast, hbmodel_hbase: Any, kind: str) -> None:
    scheme, _, address = (hbmodel_hbase.url if kind == "thrift1" else hbmodel_hbase.thrift2_url).partition("://")
    table = f"tls_{kind}"
    with (
        TlsFront(people.server, int(address.rpartition(":")[2])) as front,
        hb.connect(f"{scheme}://localhost:{front.port}?tls=true&ca_file={people.authority.file}") as store,
    ):
        if table in store.tables():
            store.delete_table(table)
        store.create_table(table, [Family(b"d")])
        store.put(table, [Put(b"%05d" % number, {b"d:a": bytes(200)}, 1) for number in range(5000)])
        assert sum(len(batch) for batch in store.scan(table, [Scan()])[0]) == 5000
        assert all(store.get(table, [b"%05d" % number for number in range(5000)]))
        assert store.increment(table, b"n", b"d:n", 3) == 3
        store.delete_table(table)
