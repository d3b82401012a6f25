"""A pytest plugin: stores for tests (`memory_store`, `fresh_store`), and a real HBase for the whole test session (`local_hbase`).

pytest loads it automatically if hbmodel is installed. HBase is started when the first test needs it and is stopped at the end of
the session, however that ends. The workers of pytest-xdist share one.

Environment:
    HBMODEL_TEST_URL: the store of `fresh_store`, see `hbmodel_url`.
    HBMODEL_REQUIRE_HBASE: with `1`, it is an error if HBase cannot be started; otherwise the tests that need it are skipped.
    HBMODEL_TEST_HBASE: `HOST:PORT,HOST:PORT`, the Thrift1 and Thrift2 gateways of a running cluster, used instead of starting one.
        Either side may be empty (`,HOST:PORT`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote
from uuid import uuid4

import pytest
from attrs import frozen

from hbmodel.errors import LocalHBaseError, StoreURLError, TableNotFound

if TYPE_CHECKING:
    from hbmodel.localhbase import LocalHBase
    from hbmodel.store.port import Store

_DIRECTORY = pytest.StashKey[Path]()
_SHARED = "hbmodel_hbase"  # name under which the workers of pytest-xdist receive what they share


@frozen
class ExternalHBase:
    """The gateways of a cluster that was not started here; tests that kill or restart its processes are skipped.

    Attributes:
        thrift1: `HOST:PORT` of the Thrift1 gateway, empty without one.
        thrift2: `HOST:PORT` of the Thrift2 gateway, empty without one.
    """

    thrift1: str
    thrift2: str

    @property
    def url(self) -> str:
        """Store URL of the Thrift1 gateway."""
        return f"hbase://{_named(self.thrift1)}"

    @property
    def thrift2_url(self) -> str:
        """Store URL of the Thrift2 gateway."""
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
    """Read `HBMODEL_TEST_HBASE`.

    Raises:
        LocalHBaseError: it does not have the form `HOST:PORT,HOST:PORT`.
    """
    gateways = [gateway.strip() for gateway in named.split(",")]
    if len(gateways) != 2 or not any(gateways) or not all(_is_address(gateway) for gateway in gateways if gateway):
        raise LocalHBaseError("HBMODEL_TEST_HBASE must be HOST:PORT,HOST:PORT (Thrift1, Thrift2); one side may be empty.", found=named)
    return ExternalHBase(*gateways)


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon and port.isdecimal() and 0 < int(port) <= 65_535)


@pytest.fixture(scope="session")
def local_hbase(request: pytest.FixtureRequest) -> Iterator[LocalHBase | ExternalHBase]:
    """A running HBase with both gateways; see `hbmodel.localhbase.LocalHBase`.

    All tests of the session share it: use unique table names, and kill processes only in an HBase that the test started itself.
    """
    with ExitStack() as stack:
        try:
            hbase = stack.enter_context(_hbase(request.config))
        except LocalHBaseError as error:
            if os.environ.get("HBMODEL_REQUIRE_HBASE") == "1":
                raise
            pytest.skip(f"no HBase: {error}")
        yield hbase


@pytest.fixture
def memory_store() -> Iterator[Store]:
    """An empty store in memory, closed after the test."""
    with _connect("memory:") as store:
        yield store


@pytest.fixture
def hbmodel_url() -> str:
    """The URL of the store that `fresh_store` opens: the environment variable `HBMODEL_TEST_URL`, or else `memory:`.

    Override it in a `conftest.py`, with parameters to run the tests on several stores. It returns the URL of a gateway, `memory:`,
    `embedded:` for a file in the test's own directory, or `local:` for the HBase of the fixture `local_hbase` (through its Thrift2
    gateway).
    """
    return os.environ.get("HBMODEL_TEST_URL") or "memory:"


@pytest.fixture
def fresh_store(request: pytest.FixtureRequest, hbmodel_url: str) -> Iterator[Store]:
    """A store without tables, at the URL of `hbmodel_url`; tables that the test creates belong to it and are dropped after it.

    On HBase their names have a prefix that is unique to the test, so that tests can run in parallel on one cluster. Namespaces are
    not dropped.
    """
    url = hbmodel_url
    if url == "local:":
        url = request.getfixturevalue("local_hbase").thrift2_url
    if url.startswith("embedded:"):
        if url != "embedded:":
            raise StoreURLError("Each test has a file of its own: write 'embedded:', without a path.", found=url)
        url += str(request.getfixturevalue("tmp_path") / "store.db")
    on_gateway = url.startswith("hbase")
    if on_gateway:
        url = own_tables(url, f"pytest_{uuid4().hex[:8]}")
    try:
        with _connect(url) as store:
            yield store
    finally:
        if on_gateway:
            _drop_all(url)  # through a separate connection: the test may have closed its store


def own_tables(url: str, prefix: str) -> str:
    """A gateway's URL with a prefix for table names, appended to the prefix in the URL or in the environment, if there is one."""
    address, _, query = url.partition("?")
    options = [option for option in query.split("&") if option]
    name = "table_prefix="
    inherited = quote(os.environ.get("HBMODEL_TABLE_PREFIX", ""))
    given = next((option.removeprefix(name) for option in options if option.startswith(name)), inherited)
    others = [option for option in options if not option.startswith(name)]
    return f"{address}?{'&'.join([*others, name + (f'{given}_{prefix}' if given else prefix)])}"


def _connect(url: str) -> Store:
    from hbmodel.session.connect import connect  # not before a test asks for it: it takes a while

    return connect(url)


def _drop_all(url: str) -> None:
    with _connect(url) as store:
        for table in store.tables():
            with suppress(TableNotFound):
                store.delete_table(table)


@contextmanager
def _hbase(config: pytest.Config) -> Iterator[Any]:
    if named := os.environ.get("HBMODEL_TEST_HBASE"):
        yield external_hbase(named)
        return
    shared: dict[str, Any] = getattr(config, "workerinput", {}).get(_SHARED, {})
    # A worker on another machine cannot share; there the parent process is not the one that sent the directory.
    with _local_hbase_class()(**(shared if shared.get("owner") == os.getppid() else {})) as hbase:
        yield hbase


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of tests that need the fixture."""
    config.addinivalue_line("markers", "hbase: needs a real HBase (started by the `local_hbase` fixture)")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass a worker of pytest-xdist the directory that all workers share; the HBase in it lives as long as this process."""
    stash = node.config.stash
    if _DIRECTORY not in stash:
        stash[_DIRECTORY] = Path(tempfile.mkdtemp(prefix="hbmodel-hbase-"))
    node.workerinput[_SHARED] = {"directory": str(stash[_DIRECTORY]), "owner": os.getpid(), "temporary": True}


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what the workers of pytest-xdist shared."""
    directory = config.stash.get(_DIRECTORY, None)
    if directory is None:
        return
    if (directory / "state.json").exists():
        from hbmodel import localhbase

        localhbase.stop(directory, grace=0)
    shutil.rmtree(directory, ignore_errors=True)
