"""The tasks that earlier runs of `make check-protocol` have finished for the same code. The record is committed, so a
whole check can be made in parts, on several machines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import frozen

FILE = Path(__file__).with_name("checked-tasks.jsonl")

SHOWN = 16
"""How much of a fingerprint a line has."""


@frozen
class Result:
    """The result of a task.

    Attributes:
        models: its configurations.
        states: the states that it went through.
        seconds: of a processor.
        memory: the most that it took, in kibibytes.
    """

    models: int
    states: int
    seconds: float
    memory: int


class FinishedTasks:
    """The results of tasks that ended as they should, in a file with a line for each. Lines of other code are ignored,
    and go with the first new result.

    Args:
        code: the fingerprint of the code that is judged.
        file: where the results are.
    """

    def __init__(self, code: str, file: Path = FILE) -> None:
        self._code, self._file = code[:SHOWN], file
        self._outdated = False
        self._results: dict[tuple[str, str], Result] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            self._take(line)

    def _take(self, line: str) -> None:
        try:
            read: dict[str, Any] = json.loads(line)
        except ValueError:  # an empty line, or the last one of a run that was killed
            return
        if read.pop("code") == self._code:
            kind, name = read.pop("kind"), read.pop("name")
            self._results[(kind, name)] = Result(**read)
        else:
            self._outdated = True

    def result(self, kind: str, name: str) -> Result | None:
        """The result of a task, or None."""
        return self._results.get((kind, name))

    def add(self, kind: str, name: str, result: Result) -> None:
        """Notes a result."""
        self._results[(kind, name)] = result
        line = {"code": self._code, "kind": kind, "name": name, "models": result.models, "states": result.states}
        line |= {"seconds": round(result.seconds, 2), "memory": result.memory}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        if self._outdated:
            self._file.unlink()
            self._outdated = False
        with self._file.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(line))  # the newline also ends what a killed run left of a line
