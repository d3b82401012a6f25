"""Implements the fixtures of the pytest plugin `pytest_hbmodel`, which imports this module only when it is needed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote
from uuid import uuid4

import pytest
from attrs import frozen

from hbmodel.errors import LocalHBaseError, StoreURLError, TableNotFound
from hbmodel.session.connect import connect

if TYPE_CHECKING:
    from hbmodel.localhbase import LocalHBase
    from hbmodel.store.port import Store


@frozen
class ExternalHBase:
    """The gateways of a cluster that the tests did not start; tests that kill or restart its processes are skipped.

    Attributes:
        thrift1: `HOST:PORT` of the Thrift1 gateway; empty if there is no such gateway.
        thrift2: `HOST:PORT` of the Thrift2 gateway; empty if there is no such gateway.
    """

    thrift1: str
    thrift2: str

    @property
    def url(self) -> str:
        """The store URL of the Thrift1 gateway."""
        return f"hbase://{_named(self.thrift1)}"

    @property
    def thrift2_url(self) -> str:
        """The store URL of the Thrift2 gateway."""
        return f"hbase+thrift2://{_named(self.thrift2)}"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(_local_hbase_class(), name):
            raise AttributeError(name)
        pytest.skip(f"`{name}` needs an HBase that the tests started themselves; unset HBMODEL_TEST_HBASE.")


def _local_hbase_class() -> type[LocalHBase]:
    from hbmodel.localhbase import LocalHBase

    return LocalHBase


def _named(gateway: str) -> str:
    return gateway or pytest.skip("HBMODEL_TEST_HBASE does not name this gateway: add its address.")


def external_hbase(named: str) -> ExternalHBase:
    """Returns the gateways that the environment variable `HBMODEL_TEST_HBASE` specifies.

    Raises:
        LocalHBaseError: the value does not have the form `HOST:PORT,HOST:PORT`.
    """
    gateways = [gateway.strip() for gateway in named.split(",")]
    if len(gateways) != 2 or not any(gateways) or not all(_is_address(gateway) for gateway in gateways if gateway):
        raise LocalHBaseError(
            "HBMODEL_TEST_HBASE must be HOST:PORT,HOST:PORT (Thrift1, Thrift2); one side may be empty.", found=named
        )
    return ExternalHBase(*gateways)


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon and port.isdecimal() and 0 < int(port) <= 65_535)


@contextmanager
def running_hbase(shared: Mapping[str, Any]) -> Iterator[LocalHBase | ExternalHBase]:
    """Runs the HBase of a test session for its block. If it cannot be started, tests that need it are skipped, or fail
    if `HBMODEL_REQUIRE_HBASE` is 1.

    Args:
        shared: the options that a worker of pytest-xdist has received from its parent process: `directory`, `owner` and
            `temporary`.
    """
    with ExitStack() as stack:
        try:
            hbase = stack.enter_context(_hbase(shared))
        except LocalHBaseError as error:
            if os.environ.get("HBMODEL_REQUIRE_HBASE") == "1":
                raise
            pytest.skip(f"no HBase: {error}")
        yield hbase


@contextmanager
def _hbase(shared: Mapping[str, Any]) -> Iterator[Any]:
    if named := os.environ.get("HBMODEL_TEST_HBASE"):
        yield external_hbase(named)
        return
    version = os.environ.get("HBMODEL_TEST_HBASE_VERSION") or None
    # A worker on another machine cannot share the HBase: its parent process is not the process that sent the directory.
    with _local_hbase_class()(version=version, **(shared if shared.get("owner") == os.getppid() else {})) as hbase:
        yield hbase


def check_running(hbase: LocalHBase | ExternalHBase) -> None:
    """Raises `LocalHBaseError` if a process of the local HBase has ended since its start. Otherwise every call of the
    test would be retried for half a minute, and its error would not show the cause.
    """
    if isinstance(hbase, ExternalHBase):
        return
    status = hbase.status()
    if status.missing:
        from hbmodel.localhbase.readiness import last_trouble

        role = status.missing[0]
        raise LocalHBaseError(
            "A process of the local HBase has ended since it was started; its log says why.",
            process=role,
            log=str(status.logs[role]),
            last_error=last_trouble(status.directory, role),
        )


@contextmanager
def store_without_tables(url: str, request: pytest.FixtureRequest) -> Iterator[Store]:
    """Opens a store for one test, at a URL of the fixture `hbmodel_url`. The tables that the test has created are
    dropped at the end.
    """
    if url == "local:":
        hbase = request.getfixturevalue("hbmodel_hbase")
        check_running(hbase)
        url = hbase.thrift2_url
    if url.startswith("embedded:"):
        if url != "embedded:":
            raise StoreURLError("Each test has its own file: write 'embedded:', without a path.", found=url)
        url += str(request.getfixturevalue("tmp_path") / "store.db")
    on_gateway = url.startswith("hbase")
    if on_gateway:
        url = own_tables(url, f"pytest_{uuid4().hex[:8]}")
    try:
        with connect(url) as store:
            yield store
    finally:
        if on_gateway:
            _drop_all(url)  # uses a separate connection, because the test may have closed its store


def own_tables(url: str, prefix: str) -> str:
    """Adds a prefix for table names to a gateway's URL. It is appended to the prefix that the URL or the environment
    has, if any.

    The separator of the URL or the environment only stands between the two prefixes: it may be the colon after a
    namespace, of which a table has one at most.
    """
    address, _, query = url.partition("?")
    options: dict[str, str] = {}
    for option in filter(None, query.split("&")):
        name, _, value = option.partition("=")
        options[name] = value
    given, separator = (
        options.pop(name, quote(os.environ.get(f"HBMODEL_{name.upper()}", "")))
        for name in ("table_prefix", "table_prefix_separator")
    )
    options["table_prefix"] = f"{given}{separator or '_'}{prefix}" if given else prefix
    if separator:
        options["table_prefix_separator"] = "_"
    return f"{address}?{'&'.join(f'{name}={value}' for name, value in options.items())}"


def _drop_all(url: str) -> None:
    with connect(url) as store:
        for table in store.tables():
            with suppress(TableNotFound):
                store.delete_table(table)
