"""The fingerprint of what the model checker judges."""

from __future__ import annotations

import pytest

from tests.checker import checked_code
from tests.checker.checked_code import fingerprint, judged, of_sources

SOURCE = '''"""A module."""

LIMIT = 3
"""The most."""


def step(value: int, /, *, by: int = 1) -> str:
    """Goes on."""
    return f"{value + by!r:>3}"  # once
'''


def test_prose_and_layout_do_not_count() -> None:
    other = '''

"""Another text, and a longer one."""
LIMIT=3
def step(value: int,
         /, *, by: int = 1) -> str:
    # a comment
    return f"{value + by!r:>3}"
'''
    assert of_sources({"a.py": SOURCE}) == of_sources({"a.py": other})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("value + by", "value - by"),
        ("by: int = 1", "by: int = 0"),
        ("!r", "!s"),
        ("/, ", ""),
    ],
)
def test_code_counts(old: str, new: str) -> None:
    assert old in SOURCE
    assert of_sources({"a.py": SOURCE}) != of_sources({"a.py": SOURCE.replace(old, new)})


def test_the_file_counts() -> None:
    assert of_sources({"a.py": SOURCE}) != of_sources({"b.py": SOURCE})
    assert of_sources({"a.py": "x = 1\n", "b.py": "y = 1\n"}) != of_sources({"a.py": "x = 1\ny = 1\n", "b.py": ""})


def test_folders_and_the_order_of_imports_do_not_count() -> None:
    one = "import json\nfrom hbmodel.protocol.writes import Put\nfrom tests.checker.cells import Step, vis\nx = 1\n"
    other = "from tests.cells import vis, Step\nfrom hbmodel.writes import Put\nimport json\nx = 1\n"
    assert of_sources({"hbmodel/protocol/a.py": one}) == of_sources({"hbmodel/a.py": other})
    assert of_sources({"a.py": one}) == of_sources({"a.py": one, "protocol/__init__.py": '"""A room."""\n'})


@pytest.mark.parametrize(
    ("old", "new"),
    [("writes import Put", "reads import Put"), ("import Put", "import Delete"), ("import json", "import pickle")],
)
def test_imports_count(old: str, new: str) -> None:
    source = "import json\nfrom hbmodel.protocol.writes import Put\nx = 1\n"
    assert of_sources({"a.py": source}) != of_sources({"a.py": source.replace(old, new)})


def test_every_version_of_python_finds_the_same() -> None:
    assert of_sources({"a.py": SOURCE}) == "4c159b96c99e8327aba6aca6771660ab382e15b5b08cd43c9d51ee3ab385b025"


def test_the_protocols_and_the_checker_are_judged() -> None:
    names = {path.relative_to(checked_code.ROOT).as_posix() for path in judged()}
    assert {
        "tests/checker/search.py",
        "hbmodel/protocol/relocation/rekey.py",
        "hbmodel/session/commit/shared_row_commit.py",
        "hbmodel/errors.py",
    } <= names
    assert not any(name.startswith("hbmodel/localhbase") for name in names)


def test_the_fingerprint_is_that_of_the_files_as_they_are() -> None:
    assert fingerprint() == of_sources(
        {path.relative_to(checked_code.ROOT).as_posix(): path.read_text() for path in judged()}
    )
