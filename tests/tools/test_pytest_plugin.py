from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import pytest_hbmodel
from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase import hbase_configuration, processes
from hbmodel.tools.pytest_plugin import external_hbase
from tests.support.waiting import wait_until

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]

# Without an installed distribution pytest does not find the plugin by itself.
PLUGIN = (
    [] if any(entry.value == "pytest_hbmodel" for entry in entry_points(group="pytest11")) else ["-p", "pytest_hbmodel"]
)

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

@pytest.mark.hbmodel_hbase
def test_one(hbmodel_hbase):
    seen = {"directory": str(hbmodel_hbase.directory), "pids": dict(hbmodel_hbase.pids)}
    Path(os.environ["SEEN_IN"], str(os.getpid())).write_text(json.dumps(seen))
    assert hbmodel_hbase.url.startswith("hbase://127.0.0.1:")

def test_two(hbmodel_hbase):
    assert hbmodel_hbase.status().running
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


MODULES = """
import json, sys
from pathlib import Path

def pytest_unconfigure():
    Path("modules.json").write_text(json.dumps(list(sys.modules)))
"""


def modules_of_a_run(pytester: pytest.Pytester, *plugins: str) -> set[str]:
    """What a test run has imported when it ends, with no other plugins than these."""
    pytester.runpytest_subprocess("-p", "no:cacheprovider", *(f"-p{plugin}" for plugin in plugins)).assert_outcomes(
        passed=1
    )
    return set(json.loads((pytester.path / "modules.json").read_text()))


def left_of(seen: dict[str, Any]) -> list[processes.Process]:
    return processes.marked(hbase_configuration.mark(Path(seen["directory"])))


def options(*more: str) -> list[str]:
    return ["-p", "no:cacheprovider", *PLUGIN, *more]


@pytest.mark.lengthy
def test_tests_fail_at_once_after_the_hbase_has_ended(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HBMODEL_TEST_URL", "local:")
    project.makepyfile(
        """
        def test_end(hbmodel_hbase):
            hbmodel_hbase.kill_server()

        def test_other(hbmodel_hbase):
            raise AssertionError("this is not reached")

        def test_store(hbmodel_store):
            raise AssertionError("this is not reached")

        def test_memory(hbmodel_memory_store):
            pass
        """
    )
    result = project.runpytest_subprocess(*options())
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["E *LocalHBaseError: A process of the local HBase has ended since it was started*"])
    assert "process='server'" in result.stdout.str()


@pytest.mark.lengthy
def test_a_run_without_its_fixtures_imports_the_plugin_alone(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(MODULES)
    pytester.makepyfile("def test_nothing(): pass")
    without = modules_of_a_run(pytester)
    assert modules_of_a_run(pytester, "pytest_hbmodel") - without == {"pytest_hbmodel"}
    pytester.makepyfile("def test_nothing(hbmodel_memory_store): pass")
    assert "hbmodel" in modules_of_a_run(pytester, "pytest_hbmodel")


def test_pytest_loads_what_is_outside_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert declared["project"]["entry-points"]["pytest11"] == {"pytest_hbmodel": "pytest_hbmodel"}
    assert "pytest_hbmodel.py" in declared["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]


@pytest.mark.lengthy
def test_all_that_it_adds_has_the_name_of_the_library(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixtures = [
        name for name, value in vars(pytest_hbmodel).items() if type(value).__name__ == "FixtureFunctionDefinition"
    ]
    assert sorted(fixtures) == ["hbmodel_hbase", "hbmodel_memory_store", "hbmodel_store", "hbmodel_url"]
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    shown = pytester.runpytest_subprocess("--markers", *options()).stdout.str()
    assert "@pytest.mark.hbmodel_hbase: needs a real HBase" in shown


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
def test_a_session_that_is_killed_leaves_no_hbase(
    project: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_without_hbase_tests_are_skipped_or_fail_as_asked(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        def test_url(hbmodel_hbase):
            assert hbmodel_hbase.url == "hbase://a.example:9090"

        def test_thrift2(hbmodel_hbase):
            hbmodel_hbase.thrift2_url

        def test_crash(hbmodel_hbase):
            hbmodel_hbase.kill_server()

        def test_mistake(hbmodel_hbase):
            assert not hasattr(hbmodel_hbase, "no_such_thing")
        """
    )
    result = project.runpytest_subprocess(*options("-rs"))
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(["*`kill_server` needs an HBase that the tests started themselves*"])


@pytest.mark.parametrize(
    "named", ["", "a:1", "a:1,b", "a:1,b:x", "a:1,:2", ",", "a:1,b:2,c:3", "a:0,b:2", "a:1,b:65536"]
)
def test_a_cluster_that_is_misspelt_is_one_sentence(named: str) -> None:
    with pytest.raises(LocalHBaseError, match="must be HOST:PORT,HOST:PORT"):
        external_hbase(named)


def test_the_gateways_of_a_named_cluster() -> None:
    assert external_hbase("a:1, [::1]:2").thrift2_url == "hbase+thrift2://[::1]:2"
    assert external_hbase("a:1,b:2").url == "hbase://a:1"
