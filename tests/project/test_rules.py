"""The pages about the inside name what the code has: the rules that it refers to, files, classes and functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.project.test_layers import trees

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "index-protocol.md"
HEADING = re.compile(r"^### Rule (\d+): \S.*$", re.MULTILINE)
PATH = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|md|txt))`")
ROW = re.compile(r"^\| `([\w/]+\.py)` \| (.*) \|$", re.MULTILINE)
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


def definitions(module: str, tree: ast.Module) -> Iterator[str]:
    """The names by which pages may call a module and what it defines: each with and without what is before it."""
    yield from (module[at:] for at in [0, *(found.end() for found in re.finditer(r"\.", module))])
    stem = module.rpartition(".")[2]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield f"{stem}.{node.name}"
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{member.name}" for member in node.body if isinstance(member, ast.FunctionDef))


def test_each_folder_with_modules_is_described_once() -> None:
    page = (PAGE.parent / "index.md").read_text(encoding="utf-8")
    table = page.partition("## What each folder is for")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z_0-9/]+)/`", "".join(row.split(" | ")[0] for row in table.splitlines() if "|" in row))
    folders = {path.parent.relative_to(ROOT / "hbmodel") for path in (ROOT / "hbmodel").rglob("*.py")}
    described = {
        folder.as_posix()
        for folder in folders
        if folder.parts and folder.parts != ("codecs",) and any((ROOT / "hbmodel" / folder).glob("[!_]*.py"))
    }
    assert sorted(named) == sorted(described)


def test_each_rule_names_code_that_is_there() -> None:
    """Behind each rule stands where it is in the code: modules, classes and functions."""
    known = {name for module, tree in trees().items() for name in definitions(module, tree)}
    for rule in re.split(HEADING, PAGE.read_text(encoding="utf-8").partition("## What no rule can give")[0])[2::2]:
        (line,) = re.findall(r"^In the code: (.*?)\.$", rule, re.MULTILINE | re.DOTALL)
        assert [name for name in re.findall(r"`([^`]+)`", line) if name not in known] == []


def test_definitions_are_named_with_what_is_around_them() -> None:
    tree = ast.parse("def f(): ...\nclass A:\n    def g(self): ...")
    assert set(definitions("a.b", tree)) == {"a.b", "b", "b.f", "A", "A.g"}


def test_the_files_that_the_pages_name_are_there() -> None:
    """With the folder that a page names; a name without a folder may be anywhere."""
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in [*ROOT.glob("hbmodel/**/*"), *ROOT.glob("tests/**/*")]]
    files += [f"/docs/{path.relative_to(ROOT / 'docs').as_posix()}" for path in ROOT.glob("docs/**/*.py")]
    for page in PAGE.parent.glob("*.md"):
        named = {name for name in PATH.findall(page.read_text(encoding="utf-8")) if not re.search("[A-Z]{4}", name)}
        assert {name for name in named if not any(file.endswith(f"/{name}") for file in files)} == set(), page.name


def test_the_modules_of_a_journey_have_what_the_page_says() -> None:
    rows = ROW.findall((PAGE.parent / "index.md").read_text(encoding="utf-8"))
    assert len(rows) > 20
    for module, text in rows:
        code = (ROOT / "hbmodel" / module).read_text(encoding="utf-8")
        for name in re.findall(r"`([\w.]+)`", text):
            assert all(re.search(rf"\b{part}\b", code) for part in name.split(".")), (module, name)
