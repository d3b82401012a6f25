"""Refusals of requests to stores, each with its message; see `test_refusals`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import ConditionalChange, Delete, Family, Put, Scan
from hbmodel.store.as_of_view import AsOfStore
from hbmodel.store.embedded.sqlite_file import translated
from hbmodel.store.filters import And, Or, Pagination
from hbmodel.store.gateway.failures import store_error
from hbmodel.store.gateway.filter_language import filter_string
from hbmodel.store.key_text import shell_bytes
from hbmodel.store.thrift1.store import Thrift1Store
from hbmodel.store.thrift2.store import Thrift2Store
from hbmodel.tables.creation.live_regions import check_regions
from tests.faults.test_refusals import refused

A = b"d:a"
CELLS = {A: b""}


@hb.model(table="refused_requests")
class Event:
    number: hb.Key[int] = hb.key(hb.UInt32)
    size: hb.Column[int] = hb.column("s", default=0)


def first(call: Callable[[Any], Any]) -> Callable[[], Any]:
    """A call on a Thrift1 gateway that is not there."""
    return lambda: call(Thrift1Store("127.0.0.1", 1, attempts=1))


def second(call: Callable[[Any], Any]) -> Callable[[], Any]:
    """A call on a Thrift2 gateway that is not there."""
    return lambda: call(Thrift2Store("127.0.0.1", 1, attempts=1))


def embedded(call: Callable[[Any], Any]) -> Callable[[], Any]:
    """A call on a store in memory with a table."""

    def made() -> Any:
        with hb.connect("memory:") as store:
            hb.create_tables(store, Event)
            return call(store)

    return made


REQUESTS = [
    refused(
        hb.errors.InvalidRequest,
        "Columns and values must be bytes",
        second(lambda store: store.put("t", [Put(b"k", {A: "text"})])),
    ),  # type: ignore[dict-item]
    refused(
        hb.errors.InvalidRequest, "A put needs at least one cell", second(lambda store: store.put("t", [Put(b"k", {})]))
    ),
    refused(
        hb.errors.InvalidRequest,
        "A column family must have a name, without a colon",
        second(lambda store: store.delete("t", [Delete(b"k", families=[b"d:"])])),
    ),
    refused(
        hb.errors.InvalidRequest,
        "A conditional change needs at least one mutation",
        second(lambda store: store.check_and_mutate_many("t", [ConditionalChange(b"k", A, None, [])])),
    ),
    refused(
        hb.errors.InvalidRequest,
        "And and Or take at least one filter",
        second(lambda store: store.scan("t", [Scan(filter=Or([]))])),
    ),
    refused(
        hb.errors.InvalidRequest,
        "A piece of a row must have at least one cell",
        embedded(lambda store: store.scan("t", [Scan(cells=0)])),
    ),
    refused(
        hb.errors.InvalidRequest,
        "A table name must consist of letters, digits",
        second(lambda store: store.create_table("a b", [Family(b"d")])),
    ),
    refused(
        hb.errors.InvalidRequest,
        "A table needs at least one column family",
        second(lambda store: store.create_table("t", [])),
    ),
    refused(
        hb.errors.InvalidRequest,
        "Split keys must not be empty and must differ",
        second(lambda store: store.create_table("t", [Family(b"d")], [b"a", b"a"])),
    ),
    refused(
        hb.errors.InvalidRequest,
        "A column family must keep at least one version",
        embedded(lambda store: store.create_table("t", [Family(b"d", max_versions=0)])),
    ),
    refused(
        hb.CapabilityError,
        "The Thrift1 gateway cannot put and delete in a row atomically",
        first(lambda store: store.mutate_row("t", [Put(b"k", CELLS, 1)])),
    ),
    refused(
        hb.CapabilityError,
        "The Thrift1 gateway cannot check and change a whole row",
        first(lambda store: store.check_and_mutate("t", b"k", A, None, [Put(b"k", CELLS, 1)])),
    ),
    refused(
        hb.CapabilityError,
        "The Thrift1 gateway cannot alter a table",
        first(lambda store: store.add_family("t", Family(b"d"))),
    ),
    refused(
        hb.CapabilityError,
        "The Thrift1 gateway cannot create a namespace",
        first(lambda store: store.create_namespace("n")),
    ),
    refused(
        hb.errors.InvalidRequest,
        "A pagination filter takes no negative numbers",
        lambda: filter_string(Pagination(-1, 0)),
    ),
    refused(hb.errors.InvalidRequest, "And and Or take at least one filter", lambda: filter_string(And([]))),
    refused(hb.errors.InvalidRequest, "A store needs the address of at least one gateway", lambda: Thrift1Store([])),
    refused(
        hb.errors.InvalidRequest,
        "There is no such transport or protocol: see the options",
        lambda: Thrift1Store("a", transport="x"),
    ),
    refused(
        hb.errors.InvalidRequest,
        "Over HTTP, HBase's gateways use only the binary protocol: leave out protocol=",
        lambda: Thrift1Store("a", transport="http", protocol="compact"),
    ),
    refused(
        hb.errors.InvalidRequest,
        "A certificate or key file cannot be read: check its path and permissions",
        lambda: Thrift1Store("a", tls=True, ca_file="none.pem"),
    ),
    refused(
        hb.errors.InvalidRequest,
        "A certificate or key cannot be read: it is not PEM",
        lambda: Thrift1Store("a", tls=True, cert_file=__file__),
    ),
    refused(hb.errors.InvalidRequest, "Write bytes outside of ASCII as", lambda: shell_bytes("ä")),
    refused(
        hb.errors.InvalidRequest,
        "A view of a store as of a time is read-only: write to the store itself",
        embedded(lambda store: AsOfStore(store, 1).put("t", [])),
    ),
    refused(
        hb.DeclarationError,
        "An alphabet needs at least one byte",
        embedded(lambda store: check_regions(store, Event, alphabet=b"")),
    ),
    refused(
        hb.DeclarationError,
        "A split strategy is given for a table that none of these models has",
        embedded(lambda store: hb.create_tables(store, Event, splits={"nothing": hb.ByBucket()})),
    ),
    refused(
        hb.DeclarationError,
        "Two strategies give the same table different split keys",
        embedded(
            lambda store: hb.create_tables(
                store, Event, splits={Event: hb.tables.AtKeys([b"a"]), "refused_requests": hb.tables.AtKeys([b"b"])}
            )
        ),
    ),
]


class Answer(Exception):
    """The answer of a gateway."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            "org.apache.hadoop.hbase.DoNotRetryIOException: Field is not a long, it's 3 bytes wide",
            "Only a cell of eight bytes, or an absent",
        ),
        ("t is disabled.", "The table is disabled: enable it in `hbase shell`"),
    ],
)
def test_what_a_gateway_answers_is_said(answer: str, message: str) -> None:
    assert message in str(store_error(Answer(answer), "t"))


@pytest.mark.parametrize(("kind", "message", "call"), REQUESTS)
def test_each_refusal_has_its_message(kind: type[hb.HbmodelError], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (sqlite3.SQLITE_TOOBIG, "A value is too large for SQLite: write smaller cells"),
        (sqlite3.SQLITE_NOMEM, "The embedded store ran out of memory: read or write less at a time"),
        (sqlite3.SQLITE_MISMATCH, "SQLite refused an operation of the embedded store: see `reason`"),
    ],
)
def test_what_sqlite_refuses_is_said(code: int, message: str) -> None:
    error = sqlite3.OperationalError("it")
    error.sqlite_errorcode = code
    assert message in translated(error, "dev.db").message
