"""The fixtures that give tests a store: empty, of their own on every store, and gone after the test."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.tools.pytest_plugin import own_tables

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]

# Without an installed distribution pytest does not find the plugin by itself.
PLUGIN = (
    [] if any(entry.value == "pytest_hbmodel" for entry in entry_points(group="pytest11")) else ["-p", "pytest_hbmodel"]
)
PAGE = ROOT / "docs" / "testing.md"

MODEL = """
import hbmodel as hb

@hb.model(table="fixture_things", family="d")
class Thing:
    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")

    by_size = hb.index("size")
"""

TESTS = """
import os
from pathlib import Path

import hbmodel as hb
import pytest
from thing import Thing

def use(store):
    assert store.tables() == []
    hb.create_tables(store, Thing)
    with hb.Session(store) as session:
        session.add(Thing(name="a", size=3))
    assert hb.Session(store).query(Thing).where(Thing.size == 3).count() == 1
    Path(os.environ["SEEN_IN"]).open("a").write(f"{type(store).__name__} {store.tables()}\\n")

@pytest.mark.parametrize("time", [1, 2])
def test_fresh(hbmodel_store, time):
    use(hbmodel_store)

def test_memory(hbmodel_memory_store):
    use(hbmodel_memory_store)

def test_both_are_stores_of_their_own(hbmodel_store, hbmodel_memory_store):
    use(hbmodel_store)
    use(hbmodel_memory_store)

def test_closed_by_the_test(hbmodel_store):
    use(hbmodel_store)
    hbmodel_store.close()
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.Pytester:
    for name in (
        "HBMODEL_TEST_URL",
        "HBMODEL_URL",
        "HBMODEL_TABLE_PREFIX",
        "HBMODEL_TABLE_PREFIX_SEPARATOR",
        "PYTEST_XDIST_WORKER",
        "PYTEST_ADDOPTS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SEEN_IN", str(tmp_path / "seen"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(thing=MODEL, test_things=TESTS)
    return pytester


def run(project: pytest.Pytester, *more: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", *PLUGIN, *more)


@pytest.mark.lengthy
@pytest.mark.parametrize("url", ["", "memory:", "embedded:"])
def test_every_test_has_a_store_of_its_own(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, url: str, tmp_path: Path
) -> None:
    monkeypatch.setenv("HBMODEL_TEST_URL", url)
    run(project).assert_outcomes(passed=5)
    tables = "['fixture_things', 'fixture_things.by_size', 'hbmodel']"
    assert set((tmp_path / "seen").read_text().splitlines()) == {f"EmbeddedStore {tables}"}


@pytest.mark.hbase
@pytest.mark.parametrize("side", [pytest.param("url", marks=pytest.mark.slow), "thrift2_url"])
def test_on_hbase_tables_are_a_test_s_own_and_are_dropped(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, hbmodel_hbase: Any, side: str
) -> None:
    """Creating and dropping six tables on HBase takes about 20 seconds on each side, and both sides run the same code
    of the plugin.

    So the Thrift1 side is slow: the default suite runs the Thrift2 side only.
    """
    monkeypatch.setenv("HBMODEL_TEST_URL", f"{getattr(hbmodel_hbase, side)}?table_prefix=fixtures_{side}")
    run(project, "-k", "test_fresh and 1 or closed").assert_outcomes(passed=2, deselected=3)
    with hb.connect(hbmodel_hbase.url) as store:
        assert [table for table in store.tables() if table.startswith(f"fixtures_{side}")] == []


@pytest.mark.lengthy
def test_the_local_hbase_is_asked_for_where_it_is_named(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HBMODEL_TEST_URL", "local:")
    monkeypatch.setenv("HBMODEL_TEST_HBASE", "a.example:9090,")
    result = run(project, "-rs", "-k", "test_fresh and 1")
    result.assert_outcomes(skipped=1, deselected=4)
    result.stdout.fnmatch_lines(["*HBMODEL_TEST_HBASE does not name this gateway: add its address*"])


@pytest.mark.lengthy
def test_a_path_for_the_file_of_each_test_is_refused(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HBMODEL_TEST_URL", "embedded:dev.db")
    result = run(project, "-k", "test_fresh and 1")
    result.assert_outcomes(errors=1, deselected=4)
    result.stdout.fnmatch_lines(["*Each test has its own file: write 'embedded:', without a path.*"])


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        ("hbase://a", "", "hbase://a?table_prefix=p"),
        ("hbase://a,b:1?timeout=3", "", "hbase://a,b:1?timeout=3&table_prefix=p"),
        ("hbase://a?table_prefix=mine&timeout=3", "other", "hbase://a?timeout=3&table_prefix=mine_p"),
        ("hbase://a?table_prefix=", "other", "hbase://a?table_prefix=p"),
        ("hbase+thrift2://a", "team:x&y", "hbase+thrift2://a?table_prefix=team%3Ax%26y_p"),
        (
            "hbase://a?table_prefix=shop&table_prefix_separator=:&tls=true",
            "",
            "hbase://a?tls=true&table_prefix=shop:p&table_prefix_separator=_",
        ),
        ("hbase://a?table_prefix_separator=-", "mine", "hbase://a?table_prefix=mine-p&table_prefix_separator=_"),
        ("hbase://a?table_prefix_separator=:", "", "hbase://a?table_prefix=p&table_prefix_separator=_"),
    ],
)
def test_a_prefix_is_put_behind_the_one_that_is_there(
    monkeypatch: pytest.MonkeyPatch, url: str, environment: str, expected: str
) -> None:
    monkeypatch.setenv("HBMODEL_TABLE_PREFIX", environment)
    assert own_tables(url, "p") == expected


def test_a_separator_of_the_environment_does_not_follow_the_prefix_of_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HBMODEL_TABLE_PREFIX", "shop")
    monkeypatch.setenv("HBMODEL_TABLE_PREFIX_SEPARATOR", ":")
    assert own_tables("hbase://a", "p") == "hbase://a?table_prefix=shop%3Ap&table_prefix_separator=_"


# --- the page ---------------------------------------------------------------------------------------------------------


def write_page(project: pytest.Pytester) -> None:
    """The examples of the page, each in the file that its first line names."""
    for name, code in re.findall(
        r"^```python[^\n]*\n# "
        r"(\w+)\.py\n(.*?)^```$",
        PAGE.read_text(),
        re.MULTILINE | re.DOTALL,
    ):
        (project.path / f"{name}.py").write_text(code)


@pytest.mark.lengthy
def test_the_examples_of_the_page_pass(project: pytest.Pytester) -> None:
    (project.path / "test_things.py").unlink()
    write_page(project)
    run(project, "--strict-markers", "-m", "not hbmodel_hbase").assert_outcomes(passed=7, deselected=1)


@pytest.mark.hbase
@pytest.mark.slow
def test_the_examples_of_the_page_pass_on_hbase(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, hbmodel_hbase: Any
) -> None:
    gateways = (url.partition("://")[2] for url in (hbmodel_hbase.url, hbmodel_hbase.thrift2_url))
    monkeypatch.setenv("HBMODEL_TEST_HBASE", ",".join(gateways))
    write_page(project)
    run(project, "-m", "hbmodel_hbase", "test_shop_everywhere.py").assert_outcomes(passed=1, deselected=2)
