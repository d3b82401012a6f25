"""The results of mypy and pyright for the public names: exactly the errors that the files of `tests/project/typing`
mark, and no others.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((Path(__file__).parent / "typing").glob("*.py"))

# Behind a line of code: what mypy calls the error and what pyright calls it (each one name or several with commas; -
# for none).
MARK = re.compile(r"^(?P<code>.*\S)  # E: (?P<mypy>[\w,-]+) (?P<pyright>\w[\w,]*)(  # noqa: \w+)?$")
MYPY_LINE = re.compile(r"^(?P<file>.+?):(?P<line>\d+): error: .*\[(?P<code>[\w-]+)\]$")

Reports = Mapping[str, set[str]]
"""Names of the errors by `file:line`."""


def marked(checker: str) -> Reports:
    """The errors that the files promise."""
    found: dict[str, set[str]] = {}
    for path in FILES:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if (mark := MARK.match(line)) is not None and mark[checker] != "-":
                found[f"{path.name}:{number}"] = set(mark[checker].split(","))
    return found


def run(*command: str) -> str:
    """What a checker prints; it needs the library and its dependencies as they are here, whatever the working
    directory.
    """
    environment = {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.stdout


def test_the_files_hold_promises() -> None:
    assert [path.stem for path in FILES] == ["maps", "models", "objects", "queries", "sessions"]
    assert len(marked("mypy")) > 40
    for path in FILES:
        marks = [(number, line) for number, line in enumerate(path.read_text().splitlines(), 1) if "  # E: " in line]
        unread = [number for number, line in marks if not MARK.match(line)]
        assert not unread, f"{path.name}: marks that cannot be read, lines {unread}"


@pytest.mark.lengthy
def test_mypy(request: pytest.FixtureRequest) -> None:
    cache = getattr(request.config, "cache", None)
    directory = str(cache.mkdir("mypy")) if cache is not None else os.devnull
    printed = run("mypy", "--strict", "--no-error-summary", "--no-pretty", "--cache-dir", directory, *map(str, FILES))
    found: dict[str, set[str]] = defaultdict(set)
    for line in printed.splitlines():
        if (error := MYPY_LINE.match(line)) is not None:
            found[f"{Path(error['file']).name}:{error['line']}"].add(error["code"])
        else:
            assert ": note: " in line, line
    assert found == marked("mypy")


@pytest.mark.lengthy
def test_pyright() -> None:
    try:
        printed = run("pyright", "--pythonpath", sys.executable, "--outputjson", *map(str, FILES))
        report = json.loads(printed)
    except (AssertionError, ValueError) as error:
        # Its package fetches Node.js the first time, which a machine without a network cannot do.
        pytest.skip(f"pyright does not run here: {error}")
    found: dict[str, set[str]] = defaultdict(set)
    for each in report["generalDiagnostics"]:
        found[f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}"].add(each.get("rule", each["message"]))
    assert found == marked("pyright")
