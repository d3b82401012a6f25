"""Stores that all test modules share, so that HBase makes the tables of each model once, and a clock that tests
move.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from hbmodel.tools.pytest_plugin import check_running
from tests.checker import checked_code
from tests.support.beds import ATOMIC, HBASE, IN_MEMORY, KINDS, Bed, Beds, open_once
from tests.support.examples import examples
from tests.support.lease_clock import LeaseClock
from tests.support.left_out import mark_left_out
from tests.support.left_sessions import discard_left, watch_sessions

pytest_plugins = ["pytest_hbmodel"]  # of this checkout, whatever the environment has installed

settings.register_profile(
    "busy machines",
    settings(),
    max_examples=examples(100),
    deadline=None,  # an example may take any time there
    suppress_health_check=[HealthCheck.too_slow],  # and so may the drawing of one
    # Hypothesis has no database where it finds that it runs in CI, but .ci/run replays what it has found.
    database=DirectoryBasedExampleDatabase(Path(__file__).parents[1] / ".hypothesis" / "examples"),
)
settings.load_profile("busy machines")

watch_sessions()

# The JVMs of HBase live for minutes: the second compiler takes half of their CPU time, and pays nothing back.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

LONGEST = (
    "test_killed_processes.py",
    "test_renewed_lines.py",
    "test_wide.py",
    "test_gateway_cuts.py",
    "test_crashes.py",
    "test_examples.py",
    "test_rekey_builds.py",
    "test_soaks.py",
    "test_indexes.py",
    "test_index_concurrency.py",
    "test_migrate.py",
    "test_phase_waits.py",
    "test_forget_table.py",
    "test_copied_tables.py",
    "test_rows.py",
)
"""The modules that take long, the longest first, and those of the last folders that wait for HBase or for leases."""


MARKED = {"checker": pytest.mark.model}
"""Folders whose tests all have a marker."""


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells each worker of pytest-xdist whether the samples of the checker have passed, which takes seconds to find
    out. It does not matter if the checker is left out.
    """
    node.workerinput["checked"] = "not model" in node.config.option.markexpr or checked_code.is_checked()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the modules that take minutes first, so that in the end no worker of pytest-xdist waits for another.

    Tests that ask for HBase by name get the marker: a forgotten marker would start an HBase in the fast suite.
    """
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    for item in items:
        for folder in MARKED.keys() & set(item.path.parent.parts):
            item.add_marker(MARKED[folder])
        if "hbmodel_hbase" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.hbase)
    told: dict[str, Any] = getattr(config, "workerinput", {})
    mark_left_out(items, lambda: bool(told["checked"]) if "checked" in told else checked_code.is_checked())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Warnings about what a test has left do not appear in another test."""
    discard_left()


def pytest_collection_finish() -> None:
    """Takes what was collected, a million objects, out of every later collection of garbage, or each takes half a
    second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def fast_beds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beds]:
    """The stores of this process by their kind."""
    with ExitStack() as stack:
        file = tmp_path_factory.mktemp("beds") / "store.db"
        yield open_once(stack, {**dict.fromkeys(IN_MEMORY, "memory:"), "embedded": f"embedded:{file}"})


@pytest.fixture(scope="session")
def real_beds(hbmodel_hbase: Any) -> Iterator[Beds]:
    """HBase by its gateways."""
    with ExitStack() as stack:
        yield open_once(stack, {"thrift1": hbmodel_hbase.url, "thrift2": hbmodel_hbase.thrift2_url})


def _bed(request: pytest.FixtureRequest) -> Bed:
    real = request.param.startswith("thrift")
    if real:
        check_running(request.getfixturevalue("hbmodel_hbase"))
    made: Beds = request.getfixturevalue("real_beds" if real else "fast_beds")
    return made(request.param)


@pytest.fixture(params=KINDS)
def bed(request: pytest.FixtureRequest) -> Bed:
    """Every kind of store."""
    return _bed(request)


@pytest.fixture(params=ATOMIC)
def atomic_bed(request: pytest.FixtureRequest) -> Bed:
    """The stores that change rows atomically."""
    return _bed(request)


@pytest.fixture(params=HBASE)
def hbase_bed(request: pytest.FixtureRequest) -> Bed:
    """HBase."""
    return _bed(request)


@pytest.fixture
def lease_clock() -> LeaseClock:
    """A clock that measures the leases of its sessions."""
    return LeaseClock()
