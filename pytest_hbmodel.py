"""A pytest plugin: stores for tests (`hbmodel_memory_store`, `hbmodel_store`), and a real HBase for the test session
(`hbmodel_hbase`).

pytest loads it automatically if hbmodel is installed. It stands outside of the package, and imports the package only
when a test asks for one of its fixtures, so that it costs other test runs nothing. HBase is started when the first test
needs it and is stopped at the end of the session, however that ends. The workers of pytest-xdist share one.

Environment:
    HBMODEL_TEST_URL: the store of `hbmodel_store`, see `hbmodel_url`.
    HBMODEL_REQUIRE_HBASE: with `1`, it is an error if HBase cannot be started; otherwise the tests that need it are
        skipped.
    HBMODEL_TEST_HBASE: `HOST:PORT,HOST:PORT`, the Thrift1 and Thrift2 gateways of a running cluster, used instead of
        starting one. Either side may be empty (`,HOST:PORT`).
    HBMODEL_TEST_HBASE_VERSION: the version of HBase to start, such as `2.4.17`; the newest by default.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hbmodel.localhbase import LocalHBase
    from hbmodel.store.port import Store
    from hbmodel.tools.pytest_plugin import ExternalHBase

_DIRECTORY = pytest.StashKey[Path]()
_HBASE: pytest.StashKey[LocalHBase | ExternalHBase] = pytest.StashKey()
_SHARED = "hbmodel_hbase"  # name under which the workers of pytest-xdist receive what they share


@pytest.fixture(scope="session")
def hbmodel_hbase(request: pytest.FixtureRequest) -> Iterator[LocalHBase | ExternalHBase]:
    """A running HBase with both gateways; see `hbmodel.localhbase.LocalHBase`.

    All tests of the session share it: use unique table names, and kill processes only in an HBase that the test started
    itself.
    """
    from hbmodel.tools.pytest_plugin import running_hbase

    with running_hbase(getattr(request.config, "workerinput", {}).get(_SHARED, {})) as hbase:
        request.config.stash[_HBASE] = hbase
        yield hbase
        del request.config.stash[_HBASE]


@pytest.fixture
def hbmodel_memory_store() -> Iterator[Store]:
    """An empty store in memory, closed after the test."""
    from hbmodel.session.connect import connect

    with connect("memory:") as store:
        yield store


@pytest.fixture
def hbmodel_url() -> str:
    """The URL of the store that `hbmodel_store` opens: the environment variable `HBMODEL_TEST_URL`, or else `memory:`.

    Override it in a `conftest.py`, with parameters to run the tests on several stores. It returns the URL of a gateway,
    `memory:`, `embedded:` for a file in the test's own directory, or `local:` for the HBase of the fixture
    `hbmodel_hbase` (through its Thrift2 gateway).
    """
    return os.environ.get("HBMODEL_TEST_URL") or "memory:"


@pytest.fixture
def hbmodel_store(request: pytest.FixtureRequest, hbmodel_url: str) -> Iterator[Store]:
    """A store without tables, at the URL of `hbmodel_url`; tables that the test creates belong to it and are dropped
    after it.

    On HBase their names have a prefix that is unique to the test, so that tests can run in parallel on one cluster.
    Namespaces are not dropped.
    """
    from hbmodel.tools.pytest_plugin import store_without_tables

    with store_without_tables(hbmodel_url, request) as store:
        yield store


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of tests that need the fixture."""
    config.addinivalue_line("markers", "hbmodel_hbase: needs a real HBase (started by the `hbmodel_hbase` fixture)")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test at once if the HBase that it needs has ended."""
    if _HBASE in item.config.stash and "hbmodel_hbase" in getattr(item, "fixturenames", ()):
        from hbmodel.tools.pytest_plugin import check_running

        check_running(item.config.stash[_HBASE])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass a worker of pytest-xdist the directory that all workers share; the HBase in it lives as long as this
    process.
    """
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
