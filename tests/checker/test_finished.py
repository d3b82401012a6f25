"""Whole runs of the model checker that continue where they were stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checker import __main__ as whole
from tests.checker import finished
from tests.checker.finished import FinishedTasks, Result
from tests.checker.protocol_sweeps import Found

BROKEN = "broken"


def played(task: whole.Task) -> tuple[whole.Task, Found, float, int]:
    """A run that finds the same at once."""
    return task, Found(models=3, states=400, error="VIOLATION" if task.name == BROKEN else None), 1.5, 1024


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of results; the tasks are the words of the text that a run is given."""

    def tasks(text: str) -> Iterator[whole.Task]:
        return (whole.Task("sweep", name) for name in text.split())

    path = tmp_path / "build" / "tasks.jsonl"
    monkeypatch.setattr(finished.FinishedTasks.__init__, "__defaults__", (path,))
    monkeypatch.setattr(whole, "tasks", tasks)
    monkeypatch.setattr(whole, "fingerprint", lambda: "code")
    monkeypatch.setattr(whole.Task, "run", played)
    return path


def ran(out: str) -> set[str]:
    """The names of the tasks that a run has carried out."""
    return {line.split()[1].rstrip(":") for line in out.splitlines() if line.startswith("sweep")}


def test_a_run_that_was_stopped_continues_where_it_was(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert whole.main("one two") == 0
    assert ran(capsys.readouterr().out) == {"one", "two"}
    with file.open("a") as end:
        end.write('\n{"code": "co')  # killed while it wrote
    assert whole.main("one two three") == 0
    out = capsys.readouterr().out
    assert ran(out) == {"three"}
    assert "2 of 3 have passed in an earlier run" in out
    assert "3 whole sweeps, 9 configurations, 1200 states" in out
    assert whole.main("one two three") == 0
    assert ran(capsys.readouterr().out) == set()


def test_what_is_wrong_is_run_again(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for left in ({"one", BROKEN}, {BROKEN}):
        assert whole.main(f"one {BROKEN}") == 1
        out = capsys.readouterr().out
        assert ran(out) == left
        assert f"WRONG sweep {BROKEN}: 3 models, 400 states: VIOLATION" in out


def test_what_passed_with_other_code_is_run_again(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    result = Result(3, 400, 1.5, 1024)
    FinishedTasks("one", file).add("sweep", "a", result)
    assert FinishedTasks("one", file).result("sweep", "a") == result
    assert FinishedTasks("one", file).result("mutant", "a") is None
    assert FinishedTasks("other", file).result("sweep", "a") is None
    FinishedTasks("other", file).add("sweep", "b", result)
    assert FinishedTasks("one", file).result("sweep", "a") is None
    assert FinishedTasks("other", file).result("sweep", "b") == result
    assert len([line for line in file.read_text().splitlines() if line]) == 1
