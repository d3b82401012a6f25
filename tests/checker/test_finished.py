"""Whole runs of the model checker that go on where they were stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checker import __main__ as whole
from tests.checker import finished
from tests.checker.finished import FinishedTasks, Result

SWEEP = "rounds of two rows"


def test_a_run_that_was_stopped_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "build" / "tasks.jsonl"
    monkeypatch.setattr(finished.FinishedTasks.__init__, "__defaults__", (file,))
    assert whole.main(SWEEP) == 0
    first = capsys.readouterr().out.splitlines()
    count = len(file.read_text().splitlines())
    assert count == len(list(whole.tasks(SWEEP))) > 1
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[1:]) + '{"code": "cut o')  # killed while it wrote
    assert whole.main(SWEEP) == 0
    second = capsys.readouterr().out.splitlines()
    assert second[0] == f"{count - 1} of {count} have passed in an earlier run"
    assert second[-5:-1] == first[-5:-1]  # the sums
    assert whole.main(SWEEP) == 0
    assert capsys.readouterr().out.startswith(f"{count} of {count} have passed")


def test_what_passed_with_other_code_is_run_again(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    result = Result(3, 400, 1.5, 1024)
    FinishedTasks("one", file).add("sweep", "a", result)
    assert FinishedTasks("one", file).result("sweep", "a") == result
    assert FinishedTasks("one", file).result("mutant", "a") is None
    assert FinishedTasks("other", file).result("sweep", "a") is None


def test_what_is_wrong_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tasks.jsonl"
    monkeypatch.setattr(finished.FinishedTasks.__init__, "__defaults__", (file,))
    monkeypatch.setattr(whole.Task, "wrong", lambda self, found: "so it is")
    assert whole.main(SWEEP) == 1
    assert not file.exists()
