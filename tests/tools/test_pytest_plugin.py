from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase import configuration, processes
from hbmodel.tools.pytest_plugin import external_hbase
from tests.support.waiting import wait_until

pytest_plugins = ["pytester"]

# Without an installed distribution pytest does not find the plugin by itself.
PLUGIN = [] if any(entry.name == "hbmodel" for entry in entry_points(group="pytest11")) else ["-p", "hbmodel.tools.pytest_plugin"]

CONFTEST = """
import tempfile
from pathlib import Path

from tests.support import fake_java
import pytest

fake_java.install(pytest.MonkeyPatch(), Path(tempfile.mkdtemp(dir={scratch!r})))
"""

TESTS = """
import json, os, time
from pathlib import Path

import pytest

@pytest.mark.hbase
def test_one(local_hbase):
    seen = {"directory": str(local_hbase.directory), "pids": dict(local_hbase.pids)}
    Path(os.environ["SEEN_IN"], str(os.getpid())).write_text(json.dumps(seen))
    assert local_hbase.url.startswith("hbase://127.0.0.1:")

def test_two(local_hbase):
    assert local_hbase.status().running
    time.sleep(float(os.environ.get("SLEEP", "0")))
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.Pytester]:
    """A project whose HBase is played by `fake_java`."""
    for name in ("HBMODEL_REQUIRE_HBASE", "HBMODEL_TEST_HBASE", "PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "seen").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("SEEN_IN", str(tmp_path / "seen"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    pytester.makeconftest(CONFTEST.format(scratch=str(tmp_path)))
    pytester.makepyfile(TESTS)
    yield pytester
    for seen in seen_in(tmp_path):
        processes.end(left_of(seen), grace=0)


def seen_in(directory: Path) -> list[dict[str, Any]]:
    """What the tests of the project wrote down, one entry for each of its processes."""
    return [json.loads(path.read_text()) for path in (directory / "seen").iterdir() if path.stat().st_size]


def left_of(seen: dict[str, Any]) -> list[processes.Process]:
    return processes.marked(configuration.mark(Path(seen["directory"])))


def options(*more: str) -> list[str]:
    return ["-p", "no:cacheprovider", *PLUGIN, *more]


@pytest.mark.lengthy
def test_one_hbase_serves_a_session_and_goes_with_it(project: pytest.Pytester, tmp_path: Path) -> None:
    project.runpytest_subprocess(*options("--strict-markers")).assert_outcomes(passed=2)
    (seen,) = seen_in(tmp_path)
    assert set(seen["pids"]) == {"server", "thrift1", "thrift2"}
    assert left_of(seen) == []
    assert not Path(seen["directory"]).exists()


@pytest.mark.lengthy
def test_workers_share_one_hbase(project: pytest.Pytester, tmp_path: Path) -> None:
    # `each` runs every test in every worker.
    project.runpytest_subprocess(*options("-n", "2", "--dist", "each")).assert_outcomes(passed=4)
    one, two = seen_in(tmp_path)
    assert one == two
    assert left_of(one) == []
    assert not Path(one["directory"]).exists()


@pytest.mark.lengthy
def test_a_session_that_is_killed_leaves_no_hbase(project: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLEEP", "600")
    command = [sys.executable, "-m", "pytest", *options("-n", "2", "--dist", "each")]
    session = project.popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(seen_in(tmp_path)) == 2)
        (seen, _) = seen_in(tmp_path)
        assert len(left_of(seen)) == 3
    finally:
        session.kill()
        session.wait()
    wait_until(lambda: not Path(seen["directory"]).exists())
    assert left_of(seen) == []


@pytest.mark.lengthy
def test_without_hbase_tests_are_skipped_or_fail_as_asked(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SERVER", "die")
    skipped = project.runpytest_subprocess(*options("-rs"))
    skipped.assert_outcomes(skipped=2)
    skipped.stdout.fnmatch_lines(["*no HBase: HBase exited during its start; its log says why.*no luck today*"])
    monkeypatch.setenv("HBMODEL_REQUIRE_HBASE", "1")
    project.runpytest_subprocess(*options()).assert_outcomes(errors=2)


@pytest.mark.lengthy
def test_a_running_cluster_is_used_where_it_is_named(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HBMODEL_TEST_HBASE", "a.example:9090,")
    project.makepyfile(
        """
        def test_url(local_hbase):
            assert local_hbase.url == "hbase://a.example:9090"

        def test_thrift2(local_hbase):
            local_hbase.thrift2_url

        def test_crash(local_hbase):
            local_hbase.kill_server()

        def test_mistake(local_hbase):
            assert not hasattr(local_hbase, "no_such_thing")
        """
    )
    result = project.runpytest_subprocess(*options("-rs"))
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(["*`kill_server` needs an HBase that the tests started themselves*"])


@pytest.mark.parametrize("named", ["", "a:1", "a:1,b", "a:1,b:x", "a:1,:2", ",", "a:1,b:2,c:3", "a:0,b:2", "a:1,b:65536"])
def test_a_cluster_that_is_misspelt_is_one_sentence(named: str) -> None:
    with pytest.raises(LocalHBaseError, match="must be HOST:PORT,HOST:PORT"):
        external_hbase(named)


def test_the_gateways_of_a_named_cluster() -> None:
    assert external_hbase("a:1, [::1]:2").thrift2_url == "hbase+thrift2://[::1]:2"
    assert external_hbase("a:1,b:2").url == "hbase://a:1"
