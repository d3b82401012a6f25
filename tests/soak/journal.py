"""The requests of a writer and the acknowledgements, in a file that outlives the writer."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = tuple[str, str | None] | None
"""Tag and note of a row, or None where there is none."""


def after(row: Row, call: list[Any]) -> Row:
    """A row after a call: `put` tag and note, `tag`, `note`, or `delete`."""
    match call:
        case ["put", tag, note]:
            return tag, note
        case ["tag", tag]:
            return None if row is None else (tag, row[1])
        case ["note", note]:
            return None if row is None else (row[0], note)
        case _:
            return None


class Journal:
    """The calls of one writer, each written down before it is made and again when it is acknowledged.

    Args:
        path: of the file, which may be there from a writer that was killed.
    """

    def __init__(self, path: Path) -> None:
        self.possible: dict[int, set[Row]] = defaultdict(lambda: {None})
        self.acknowledged = self.refused = 0
        if path.exists():
            self._read(path.read_text().splitlines())
        self._file = path.open("a", buffering=1)
        self._file.write("\n")  # after a line that was cut
        self._asked: tuple[int, list[Any]] | None = None

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def ask(self, number: int, call: list[Any]) -> None:
        """Notes a call before it is made: the row is as before, or as after it."""
        self._file.write(json.dumps(["ask", number, call]) + "\n")
        self._ask(number, call)

    def answer(self) -> None:
        """Notes that the last call was acknowledged."""
        self._file.write(json.dumps(["answer"]) + "\n")
        self._answer()

    def refuse(self) -> None:
        """Notes that the last call was refused: the row is as before."""
        self._file.write(json.dumps(["refuse"]) + "\n")
        self._refuse()

    def _ask(self, number: int, call: list[Any]) -> None:
        self._asked = (number, call)
        self._before = set(self.possible[number])
        self.possible[number] = self._before | {after(row, call) for row in self._before}

    def _answer(self) -> None:
        assert self._asked is not None
        number, call = self._asked
        self.possible[number] = {after(row, call) for row in self._before}
        self.acknowledged += 1

    def _refuse(self) -> None:
        assert self._asked is not None
        self.possible[self._asked[0]] = self._before
        self.refused += 1

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            try:
                kind, *rest = json.loads(line)
            except ValueError:  # empty, or the writer was killed in the middle of it, before its call
                continue
            if kind == "ask":
                self._ask(*rest)
            elif kind == "answer":
                self._answer()
            else:
                self._refuse()
