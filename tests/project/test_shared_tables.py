"""Tests on HBase share its tables, so two files must not declare one table in two ways: whichever runs second fails."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

BEDS = {"bed", "atomic_bed", "hbase_bed"}
"""The fixtures that may be HBase."""

EVOLVED = {
    "tests/session/test_increment.py people": "an older version of the shared model",
    "tests/tables/test_registry.py people": "the shared model without its index",
}
"""Tables that a file declares anew on purpose."""


def on_a_bed(tree: ast.Module) -> bool:
    """Whether a test of the file may run on HBase."""
    return any(
        isinstance(node, ast.FunctionDef) and BEDS.intersection(arg.arg for arg in node.args.args)
        for node in ast.walk(tree)
    )


def declared(tree: ast.Module) -> Iterator[str]:
    """The names of the tables that the models of a file declare."""
    for node in ast.walk(tree):
        for decorator in node.decorator_list if isinstance(node, ast.ClassDef) else ():
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "hb.model":
                for keyword in decorator.keywords:
                    if keyword.arg == "table" and isinstance(keyword.value, ast.Constant):
                        yield keyword.value.value


def test_no_two_files_declare_one_table() -> None:
    files: dict[str, set[str]] = defaultdict(set)
    for path in sorted(TESTS.rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(TESTS.parent).as_posix()
        if "hb.model" not in text or path.parent.name in {"checker", "project"}:
            continue
        if path.parent.name != "support" and not any(bed in text for bed in BEDS):
            continue
        tree = ast.parse(text)
        if path.parent.name == "support" or on_a_bed(tree):
            for table in declared(tree):
                if f"{name} {table}" not in EVOLVED:
                    files[table].add(name)
    assert {table: sorted(names) for table, names in files.items() if len(names) > 1} == {}
