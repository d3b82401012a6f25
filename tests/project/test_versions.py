"""The tables of what hbmodel works with are those that the runs of `make test-versions` gave."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hbmodel.localhbase.pinned_jars import VERSIONS
from tests.support.outcomes import Outcomes, outcomes_of, recorded_in
from tests.versions import __main__ as versions
from tests.versions import works_with
from tests.versions.works_with import AREAS


@pytest.mark.parametrize(
    ("path", "table"), [(works_with.README, works_with.readme_table), (works_with.PAGE, works_with.page_table)]
)
def test_a_table_is_what_the_record_says(path: Path, table: object) -> None:
    assert callable(table)
    assert f"\n\n{table()}\n\n" in path.read_text("utf-8")


def test_each_version_has_a_run_behind_it() -> None:
    recorded = works_with.recorded()
    assert tuple(recorded) == VERSIONS
    assert all(passed.keys() == AREAS.keys() and min(passed.values()) > 20 for passed in recorded.values())


def test_a_run_renews_the_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outcomes = Outcomes(
        exit_status=0,
        collected=5,
        tests={
            "tests/store/thrift1/test_store.py::test_a": "passed",
            "tests/conformance/test_stores.py::test_b": "passed",
            "tests/query/test_query.py::test_c": "passed",
            "tests/query/test_query.py::test_d": "skipped",
            "tests/tables/test_drop.py::test_e": "failed",
        },
        uncollected=[],
    )
    passed = works_with.passed_of(outcomes)
    assert passed == {"stores": 2, "sessions": 0, "queries": 1, "tables and indexes": 0}
    for name in ("README", "PAGE"):
        monkeypatch.setattr(works_with, name, tmp_path / name)
    monkeypatch.setattr(works_with, "RECORD", tmp_path / "record")
    works_with.RECORD.write_text("{}")
    works_with.README.write_text(f"above\n\n{works_with.readme_table()}\n\nbelow\n")
    works_with.PAGE.write_text(f"{works_with.page_table()}\n\nbelow\n")
    for version in (VERSIONS[1], VERSIONS[0], VERSIONS[1]):
        works_with.record(version, passed | {"tables and indexes": 1_200})
    assert list(json.loads(works_with.RECORD.read_text())) == list(VERSIONS[:2])
    assert works_with.README.read_text().splitlines() == [
        "above",
        "",
        "| HBase | passed |",
        "|---|---:|",
        f"| {VERSIONS[0]} | 1,203 |",
        f"| {VERSIONS[1]} | 1,203 |",
        "",
        "below",
    ]
    assert f"| {VERSIONS[1]} | 2 | 0 | 1 | 1,200 |" in works_with.PAGE.read_text()


FAILING = """
from pathlib import Path

def test_sound():
    pass

def test_by_chance():
    assert Path(__file__).with_name("mended").exists()

def test_always():
    assert False
"""


@pytest.mark.lengthy
def test_what_failed_is_tried_again_alone(tmp_path: Path) -> None:
    path, tests = tmp_path / "2.2.6.json", tmp_path / "test_some.py"
    tests.write_text(FAILING, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *recorded_in(path)]
    outcomes = outcomes_of([*command, f"--rootdir={tmp_path}", str(tests)], path)
    assert outcomes is not None
    assert outcomes.is_whole
    assert [node_id.rpartition("::")[2] for node_id in outcomes.failed] == ["test_by_chance", "test_always"]
    (tmp_path / "mended").touch()
    passing = {node_id: node_id.endswith("by_chance") for node_id in outcomes.failed}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(versions, "passes_alone", passing.__getitem__)
        after = versions.tried_again(outcomes, path)
        assert [node_id.rpartition("::")[2] for node_id in after.failed] == ["test_always"]
        assert after.is_whole
        assert versions.last_run(path) == after
        patched.setattr(versions, "passes_alone", lambda node_id: True)
        assert versions.tried_again(after, path).failed == []
    last = versions.last_run(path)
    assert last is not None
    assert (last.is_whole, last.exit_status, len(last.tests)) == (True, 0, 3)
    assert versions.last_run(tmp_path / "none.json") is None
