from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hbmodel.errors import (
    CapabilityError,
    InvalidRequest,
    StoreClosed,
    StoreUnavailable,
    StoreURLError,
)
from hbmodel.store import (
    MAX_CELL_SIZE,
    Capabilities,
    ConditionalChange,
    ConditionalPut,
    Delete,
    Family,
    Put,
    Scan,
    Store,
)
from hbmodel.store.filters import Or
from hbmodel.store.gateway.store import GatewayStore
from hbmodel.store.ranges import KeyRange
from hbmodel.store.thrift1.store import Thrift1Store
from hbmodel.store.thrift2.store import Thrift2Store

A, B = b"d:a", b"d:b"


KINDS: list[type[GatewayStore]] = [Thrift1Store, Thrift2Store]
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(params=KINDS)
def nobody(request: pytest.FixtureRequest) -> Iterator[GatewayStore]:
    """A store at an address where no gateway listens, so all its answers are made without a call."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with request.param("127.0.0.1", port, attempts=2) as store:
        yield store


# --- addresses --------------------------------------------------------------------------------------------------------


@each_kind
def test_an_address_becomes_arguments(kind: type[GatewayStore]) -> None:
    given = kind.arguments_of(
        f"{kind.SCHEME}://gateway.example:9191?timeout=10&connect_timeout=.5&pool=8&transport=framed&protocol=compact&table_prefix=my&attempts=1"
        "&retry_for=0"
    )
    assert given == {
        "host": ["gateway.example:9191"],
        "timeout": 10.0,
        "connect_timeout": 0.5,
        "pool": 8,
        "transport": "framed",
        "protocol": "compact",
        "table_prefix": "my",
        "attempts": 1,
        "retry_for": 0.0,
    }


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("", "127.0.0.1:9090"),
        (":91", "127.0.0.1:91"),
        ("other", "other:9090"),
        ("other/", "other:9090"),
        ("[::1]:91", "[::1]:91"),
        ("a:1,b,[fe80::1%25eth0]:91,a:1", "a:1,b:9090,[fe80::1%eth0]:91"),
    ],
)
@each_kind
def test_hosts_of_an_address(kind: type[GatewayStore], hosts: str, expected: str) -> None:
    assert repr(kind.from_url(f"{kind.SCHEME}://{hosts}")) == f"{kind.__name__}({expected!r})"


def test_hosts_as_arguments() -> None:
    assert repr(Thrift1Store("::1", 91)) == "Thrift1Store('[::1]:91')"
    assert repr(Thrift1Store(["a", "b:9"], 91)) == "Thrift1Store('a:91,b:9')"
    for hosts in ("", [], "a,,b", "a b", "a:0", "a:70000", "a:b", "[a]:9", "u:pw@a"):
        with pytest.raises(InvalidRequest) as caught:
            Thrift1Store(hosts)
        assert "pw" not in str(caught.value)
    with pytest.raises(InvalidRequest, match="A port must be a number from 1 to 65,535"):
        Thrift1Store("a:0")
    with pytest.raises(InvalidRequest, match="host name contains an invalid character"):
        Thrift1Store("a b")


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
        ("retry_for=-1", "retry_for"),
        ("retry_for=inf", "retry_for"),
    ],
)
def test_a_bad_option_is_named(query: str, option: str) -> None:
    with pytest.raises(StoreURLError) as caught:
        Thrift1Store.from_url("hbase://localhost:9090?" + query)
    assert caught.value.option == option


@pytest.mark.parametrize(
    "url",
    [
        "hbase+thrift2://localhost",
        "hbase://localhost:port",
        "hbase://localhost/table",
        "hbase://me:secret@localhost",
        "hbase://h#f",
        "hbase://me:secret",
        "hbase://::1",
        "hbase://a,,b",
        "hbase://h:0",
    ],
)
def test_what_is_no_address_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(StoreURLError) as caught:
        Thrift1Store.from_url(url)
    assert "secret" not in str(caught.value)


@each_kind
@pytest.mark.parametrize(
    "arguments",
    [{"timeout": 0}, {"pool": 0}, {"attempts": 0}, {"retry_for": -1}, {"transport": "x"}, {"protocol": "x"}],
)
def test_bad_arguments_are_refused(kind: type[GatewayStore], arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        kind(**arguments)


# --- without a call ---------------------------------------------------------------------------------------------------

CELLS = {A: b""}

BAD: list[Callable[[GatewayStore], object]] = [
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
    lambda store: store.check_and_put_each(
        "t", [ConditionalPut(A, None, Put(b"k", CELLS)), ConditionalPut(A, None, Put(b"l", CELLS, 5))]
    ),
    lambda store: store.check_and_put_each("t", [ConditionalPut(b"d", None, Put(b"k", CELLS))]),
    lambda store: store.increment("t", b"", A, 1),
    lambda store: store.increment("t", b"k", b"d", 1),
    lambda store: store.increment("t", b"k", A, 2**63),
    lambda store: store.create_table("t", []),
    lambda store: store.create_table("hbase:t", [Family(b"d")]),
    lambda store: store.create_table("t", [Family(b"d:")]),
]


@pytest.mark.parametrize("call", BAD)
def test_bad_requests_are_refused_before_any_call(nobody: GatewayStore, call: Callable[[GatewayStore], object]) -> None:
    with pytest.raises(InvalidRequest):
        call(nobody)


def test_nothing_to_do_makes_no_call(nobody: GatewayStore) -> None:
    assert nobody.get("t", []) == []
    assert nobody.check_and_put_each("t", []) == []
    nobody.put("t", [])
    nobody.delete("t", [])
    empty = [
        Scan(KeyRange(b"b", b"a")),
        Scan(KeyRange(b"", b"")),
        Scan(limit=0),
        Scan(KeyRange(b"a", b"a"), reversed=True),
    ]
    for scan in nobody.scan("t", empty):
        assert list(scan) == []
        scan.close()  # type: ignore[attr-defined]
    assert nobody.scan("t", []) == []


def test_what_the_first_gateway_cannot_do_is_said() -> None:
    with Thrift1Store("127.0.0.1", 1, attempts=1) as store:
        assert store.capabilities == Capabilities(
            check_and_mutate=False,
            mutate_row=False,
            presplit=False,
            family_configuration=False,
            put_ttl_mixed=False,
            alter=False,
            namespaces=False,
            one_call_scans=False,
            one_call_gets=False,
        )
        with pytest.raises(CapabilityError, match=r"embedded.*thrift2"):
            store.mutate_row("t", [Put(b"k", CELLS, 1)])
        with pytest.raises(CapabilityError, match=r"embedded.*thrift2"):
            store.check_and_mutate("t", b"k", A, None, [Put(b"k", CELLS, 1)])
        with pytest.raises(CapabilityError, match=r"embedded.*thrift2"):
            store.check_and_mutate_many("t", [ConditionalChange(b"k", A, None, [Put(b"k", CELLS, 1)])])


BAD_CHANGES: list[Callable[[Thrift2Store], object]] = [
    lambda store: store.mutate_row("t", [Put(b"k", CELLS), Delete(b"other")]),
    lambda store: store.mutate_row("t", [Put(b"", CELLS)]),
    lambda store: store.mutate_row("t", [Put(b"k", {})]),
    lambda store: store.mutate_row("t", [Delete(b"k", columns=[b"d"])]),
    lambda store: store.mutate_row("", [Delete(b"k")]),
    lambda store: store.check_and_mutate("t", b"k", A, None, []),
    lambda store: store.check_and_mutate("t", b"k", A, None, [Put(b"other", CELLS)]),
    lambda store: store.check_and_mutate("t", b"k", b"d", None, [Put(b"k", CELLS)]),
    lambda store: store.check_and_mutate("t", b"k", A, None, [Put(b"k", CELLS, -1)]),
    lambda store: store.check_and_mutate_many("t", [ConditionalChange(b"k", A, None, [Put(b"other", CELLS)])]),
    lambda store: store.check_and_mutate_many("t", [ConditionalChange(b"k", A, None, [])]),
    lambda store: store.check_and_mutate("t", b"k" * 32768, A, None, [Put(b"k" * 32768, CELLS)]),
    lambda store: store.create_table("t", [Family(b"d")], [b"a", b"a"]),
    lambda store: store.create_table("t", [Family(b"d")], [b""]),
]


@pytest.mark.parametrize("call", BAD_CHANGES)
def test_bad_changes_are_refused_before_any_call(call: Callable[[Thrift2Store], object]) -> None:
    with Thrift2Store("127.0.0.1", 1, attempts=1) as store, pytest.raises(InvalidRequest):
        call(store)


def test_what_the_second_gateway_does_is_everything() -> None:
    with Thrift2Store("127.0.0.1", 1, attempts=1) as store:
        assert store.capabilities == Capabilities(
            check_and_mutate=True,
            mutate_row=True,
            presplit=True,
            family_configuration=True,
            put_ttl_mixed=True,
            alter=True,
            namespaces=True,
            one_call_scans=True,
        )
        store.mutate_row("t", [])
        with pytest.raises(StoreUnavailable):
            store.mutate_row("t", [Put(b"k", CELLS, 1)])
        with pytest.raises(StoreUnavailable):
            store.check_and_mutate("t", b"k", A, None, [Put(b"k", CELLS, 1)])
        assert store.check_and_mutate_many("t", []) == []
        with pytest.raises(StoreUnavailable):
            store.check_and_mutate_many("t", [ConditionalChange(b"k", A, None, [Put(b"k", CELLS, 1)])])


@pytest.mark.parametrize(
    ("families", "split_keys", "line"),
    [
        (
            [Family(b"d", 3, ttl=60, compression="SNAPPY")],
            [b"\x01", b"a'\\", b"\xff~"],
            r"create 'x.t', {NAME => 'd', VERSIONS => 3, TTL => 60, COMPRESSION => 'SNAPPY'}, SPLITS => ['\x01', "
            r"'a\x27\x5C', '\xFF~']",
        ),
        (
            [
                Family(b"d", configuration={"hbase.hstore.time.to.purge.deletes": "3600000"}),
                Family(b"e", block_size=8192, in_memory=True),
            ],
            [],
            "create 'x.t', {NAME => 'd', CONFIGURATION => {'hbase.hstore.time.to.purge.deletes' => '3600000'}}, "
            "{NAME => 'e', BLOCKSIZE => 8192, IN_MEMORY => true}",
        ),
        (
            [Family(b"d", bloom_filter="NONE")],
            [b"m"],
            "create 'x.t', {NAME => 'd', BLOOMFILTER => 'NONE'}, SPLITS => ['m']",
        ),
    ],
)
def test_tables_beyond_the_gateway_come_with_the_line_for_the_shell(
    families: list[Family], split_keys: list[bytes], line: str
) -> None:
    with (
        Thrift1Store("127.0.0.1", 1, table_prefix="x", table_prefix_separator=".") as store,
        pytest.raises(
            CapabilityError, match="cannot create a table with split keys, block sizes or family configuration"
        ) as caught,
    ):
        store.create_table("t", families, split_keys)
    assert caught.value.shell == line


@pytest.mark.lengthy
def test_an_unreachable_gateway_is_unavailable_for_every_call(nobody: GatewayStore) -> None:
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


def test_a_closed_store_says_so(nobody: GatewayStore) -> None:
    store: Store = nobody
    store.close()
    store.close()
    for call in (
        store.tables,
        lambda: store.get("t", [b"k"]),
        lambda: store.scan("t", [Scan()]),
        lambda: store.put("t", [Put(b"k", CELLS)]),
    ):
        with pytest.raises(StoreClosed):
            call()
