"""The site: its navigation has every page, and its reference every public name."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe
import yaml

import hbmodel as hb
from tests.project.test_public_names import PUBLIC

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIGURATION: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
MADE: dict[str, Any] = runpy.run_path(str(DOCS / "made_pages.py"))


def in_navigation(entries: Any) -> Iterator[str]:
    for entry in entries:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else in_navigation(target)


def test_the_navigation_has_every_page_once() -> None:
    listed = list(in_navigation(CONFIGURATION["nav"]))
    assert len(listed) == len(set(listed))
    made = {*MADE["references"](), *(name for name, _ in MADE["programs"]())}
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} == set(listed) - made


def test_code_in_a_table_has_no_escaped_bar() -> None:
    """The site would show the backslash, so such code is written as HTML, with a character reference."""
    rows = [
        line
        for path in DOCS.rglob("*.md")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    assert [row for row in rows if any("|" in code for code in re.findall("`([^`]*)`", row))] == []


def test_the_page_that_leads_to_a_design_has_all_of_them() -> None:
    (designs,) = [entry["Designs"] for entry in CONFIGURATION["nav"] if "Designs" in entry]
    leading = (DOCS / "which-design.md").read_text(encoding="utf-8").partition("## All designs")[2]
    assert len(designs) >= 11
    assert [page for page in in_navigation(designs) if f"]({page})" not in leading] == []


def test_the_reference_has_every_public_name_once() -> None:
    listed = [name for text in MADE["references"]().values() for name in re.findall(r"^::: (\S+)", text, re.MULTILINE)]
    assert len(listed) == len(set(listed))
    top = set(hb.__all__) - {"__version__"}
    assert {name.removeprefix("hbmodel.") for name in listed if name.count(".") == 1} == top
    assert {name.rpartition(".")[2] for name in listed} == {
        name
        for module, names in PUBLIC.items()
        for name in names
        if name != "__version__" and not isinstance(getattr(module, name), ModuleType)
    }


def test_programs_have_pages_and_links_lead_to_them() -> None:
    rewritten = MADE["on_page_markdown"](
        "[a](../examples/comments.py) [b](../examples/feed) [c](indexes.md)\n```python no-run\n"
    )
    assert rewritten == "[a](programs/comments.md) [b](programs/index.md) [c](indexes.md)\n```python\n"
    pages = dict(MADE["programs"]())
    assert "programs/comments.md" in pages
    assert "](comments.md)" in pages["programs/index.md"]
    assert "](../paging.md)" in pages["programs/changes.md"]


def test_the_reference_shows_constructors_of_attrs_classes() -> None:
    extension = runpy.run_path(str(DOCS / "attrs_signatures.py"))["AttrsSignatures"]()
    code = '''
from attrs import field, frozen

@frozen
class Codec:
    """A codec.

    Args:
        width: of values.
    """

    width: int = field(alias="size")
    kind: str = field(default="k", kw_only=True)
    parts: list[str] = field(factory=list)
    order: str = field(init=False, default="up")
    _hidden: int = 0

    @property
    def spec(self) -> str:
        return "x"

Eight = Codec(8)
'''
    with griffe.temporary_visited_package(
        "made", {"__init__.py": code}, extensions=griffe.Extensions(extension)
    ) as package:
        shown = [(each.name, str(each.default), each.kind.name) for each in package["Codec.__init__"].parameters]
        assert shown == [
            ("self", "None", "positional_or_keyword"),
            ("size", "None", "positional_or_keyword"),
            ("kind", "'k'", "keyword_only"),
            ("parts", "...", "positional_or_keyword"),
        ]
        assert package["Eight"].docstring.value == "A codec."
