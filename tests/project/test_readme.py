"""The README is short, and its first screen says what a reader needs to decide."""

from __future__ import annotations

import re
from pathlib import Path

from hbmodel.localhbase.pinned_jars import VERSIONS
from tests.project.test_release import CLASSIFIED

TEXT = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
FIRST_SCREEN = TEXT.partition("\n## ")[0]

MOST_LINES = 40
MOST_WORDS = 900


def test_it_is_short() -> None:
    assert len(FIRST_SCREEN.splitlines()) <= MOST_LINES
    assert len(TEXT.split()) <= MOST_WORDS


def test_its_lines_can_be_read_side_by_side() -> None:
    long = [line for line in TEXT.splitlines() if len(line) > 100 and not line.startswith("|")]
    assert long == []


def test_the_first_screen_says_what_a_reader_needs_to_decide() -> None:
    assert f"tested with HBase {VERSIONS[0]} to {VERSIONS[-1]}," in FIRST_SCREEN.replace("\n", " ")
    assert f"Python {CLASSIFIED[0]} to {CLASSIFIED[-1]}" in FIRST_SCREEN
    assert "pip install" in FIRST_SCREEN
    assert re.findall(r"^\| (bytes in HBase|Python API|command line) \|", FIRST_SCREEN, re.MULTILINE) == [
        "bytes in HBase",
        "Python API",
        "command line",
    ]
    unfit = FIRST_SCREEN.partition("**Do not use hbmodel**")[2]
    assert all(word in unfit for word in ("Kerberos", "gateway", "transactions", "joins", "Phoenix", "change its rows"))


def test_the_first_example_is_short() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", FIRST_SCREEN, re.MULTILINE | re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 13
