"""The rules of the index protocol that the code refers to by number are those of their page."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "index-protocol.md"
HEADING = re.compile(r"^### Rule (\d+): \S.*$", re.MULTILINE)
REFERENCE = re.compile(r"\brules? (\d+)(?: and (\d+))?")


def referred(text: str) -> set[int]:
    """The numbers of the rules that a text refers to."""
    return {int(number) for pair in REFERENCE.findall(text) for number in pair if number}


def test_the_rules_are_numbered_without_a_gap() -> None:
    found = [int(number) for number in HEADING.findall(PAGE.read_text(encoding="utf-8"))]
    assert found == list(range(1, len(found) + 1))
    assert len(found) == 11


def test_every_rule_that_is_referred_to_has_a_heading() -> None:
    rules = {int(number) for number in HEADING.findall(PAGE.read_text(encoding="utf-8"))}
    paths = [*(ROOT / "hbmodel").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    by_path = {path.relative_to(ROOT).as_posix(): referred(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: numbers - rules for name, numbers in by_path.items() if numbers - rules} == {}
    assert sum(map(bool, by_path.values())) > 10


def test_references_are_read() -> None:
    assert referred("as rule 3 says, (rules 4 and 6), rules 7") == {3, 4, 6, 7}
    assert referred("a ruler 5, the rule") == set()


def test_each_rule_names_code_that_is_there() -> None:
    """Behind each rule stands where it is in the code: modules, classes and functions."""
    code = {path: path.read_text(encoding="utf-8") for path in (ROOT / "hbmodel").rglob("*.py")}
    modules = {path.relative_to(ROOT / "hbmodel").with_suffix("").as_posix().replace("/", ".") for path in code}
    known = {name for text in code.values() for name in re.findall(r"^ *(?:def|class) (\w+)", text, re.MULTILINE)}
    for rule in re.split(HEADING, PAGE.read_text(encoding="utf-8").partition("## What no rule can give")[0])[2::2]:
        (line,) = re.findall(r"^In the code: (.*?)\.$", rule, re.MULTILINE | re.DOTALL)
        for name in re.findall(r"`([^`]+)`", line):
            last = name.rpartition(".")[2]
            assert last in known or any(f".{module}".endswith(f".{name}") for module in modules), name
