"""Tests replace no constant of the package: a size that a test changes is an argument of what uses it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SOURCES = sorted(TESTS.rglob("*.py"))

ADVICE = (
    "a constant of hbmodel is replaced. Give the value to the constructor or function that uses it (sizes=, pages=, "
    "sleep=, ...), and where it takes none, add an argument whose default is the constant."
)


def origins(tree: ast.Module) -> Mapping[str, str]:
    """The module from which each imported name comes."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: node.module or "" for alias in node.names}
    return found


def root_of(node: ast.expr) -> str:
    """The name with which `a.b.c` or `a().b` begins."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def is_constant(name: str) -> bool:
    """Whether the last part of a dotted name is the name of a constant."""
    return name.rpartition(".")[2].strip("_").isupper()


def replaced(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The constants that a module sets in another one, each with its line; of those that the language or others
    have, none.
    """
    modules = origins(tree)

    def ours(owner: ast.expr) -> bool:
        # A name that is not imported, such as the variable of a loop over modules, may be anything: it is taken to be
        # ours.
        return modules.get(root_of(owner), "hbmodel").partition(".")[0] == "hbmodel"

    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="setattr") | ast.Name(id="setattr"), args=[ast.Constant(str(path)), _, *_]
            ):
                if path.startswith("hbmodel.") and is_constant(path):
                    yield node.lineno, path
            case ast.Call(
                func=ast.Attribute(attr="setattr") | ast.Name(id="setattr"),
                args=[owner, ast.Constant(str(name)), _, *_],
            ):
                if is_constant(name) and ours(owner):
                    yield node.lineno, name
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                        if (
                            isinstance(each, ast.Attribute)
                            and is_constant(each.attr)
                            and root_of(each) in modules
                            and ours(each)
                        ):
                            yield node.lineno, each.attr


SUSPECT = re.compile(r"setattr|\.[A-Z_0-9]+\b[^()\n]*(?<![=!<>])=(?!=)")
"""What the text of a module holds if it sets a constant of another one, and of few others: parsing all takes long."""


@pytest.mark.lengthy
def test_no_constant_is_replaced() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES}
    found = [
        f"{path.relative_to(TESTS.parent)}:{line}: {name}"
        for path, text in texts.items()
        if SUSPECT.search(text)
        for line, name in replaced(ast.parse(text))
    ]
    assert not found, f"{ADVICE}\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (
            'monkeypatch.setattr("hbmodel.session.commit.batches.BATCH_ROWS", 3)',
            ["hbmodel.session.commit.batches.BATCH_ROWS"],
        ),
        ('from hbmodel.store.wide import slices\npatch.setattr(slices, "PAGES", (5, 7))', ["PAGES"]),
        (
            'from hbmodel.store.embedded import database as base\npatch.setattr(base, "_TIMEOUT", 1, raising=False)',
            ["_TIMEOUT"],
        ),
        ('import hbmodel.store\npatch.setattr(hbmodel.store.wide.slices, "PAGES", 1)', ["PAGES"]),
        ('for module in (a, b):\n    setattr(module, "PAGES", 1)', ["PAGES"]),
        ("from hbmodel.store import cells\nsize, cells.SIZE = cells.SIZE, 100", ["SIZE"]),
        ("from hbmodel.store import cells\ncells.SIZE = 3", ["SIZE"]),
        ('import os, sys\nmonkeypatch.setattr(os, "SEEK_SET", 1)\nsys.flags.X = 1', []),
        (
            'from hbmodel.store.wide import slices\npatch.setattr(slices, "read", None)\n'
            'patch.setattr("hbmodel.store.open.connect", None)',
            [],
        ),
        ("self.SIZE = 3\nevent.SIZE = 4\nSIZE = 5", []),
    ],
)
def test_what_replaces_a_constant_is_seen(code: str, names: list[str]) -> None:
    assert [name for _, name in replaced(ast.parse(code))] == names
    assert not names or SUSPECT.search(code)
