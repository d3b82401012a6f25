"""The fingerprint of the code that the model checker judges: where it is the recorded one, `make test` leaves its samples out.

`make check-samples` runs the samples and the mutants, and records the fingerprint if all of them pass; so does `make check-protocol`. The
record is committed with the change. Comments, docstrings and the layout of the code do not count.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("checked.txt")


def judged(root: Path = ROOT) -> Iterator[Path]:
    """The checker, the room of the protocols, and the other modules of the package that the checker imports by name."""
    checker = sorted((root / "tests" / "checker").glob("*.py"))
    protocols = sorted((root / "hbmodel" / "protocol").rglob("*.py"))
    named = {path for of in checker for path in _imported(root, of)}
    yield from [*checker, *protocols, *sorted(named - set(protocols))]


def _imported(root: Path, checker: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(checker.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("hbmodel."):
            module = root.joinpath(*node.module.split("."))
            yield from (path for path in (module.with_suffix(".py"), module / "__init__.py") if path.exists())


def fingerprint(root: Path = ROOT) -> str:
    """One text for the code of all judged files."""
    return of_sources({path.relative_to(root).as_posix(): path.read_text() for path in judged(root)})


def of_sources(sources: Mapping[str, str]) -> str:
    """One text for the code of some files, by their names."""
    found = hashlib.sha256()
    for name, source in sources.items():
        for part in (name, *_shape(_without_docstrings(ast.parse(source)))):
            found.update(part.encode() + b"\0")
    return found.hexdigest()


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [child for child in node.body if not _is_text(child)]
    return tree


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is a docstring, or a text behind the constant that it describes."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _shape(node: object) -> Iterator[str]:
    """The names and values of a tree; what a version of Python knows and others do not is empty, and left out."""
    if isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name, value in ast.iter_fields(node):
            if value is not None and value != []:
                yield name
                yield from _shape(value)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for child in node:
            yield from _shape(child)
        yield "]"
    else:
        yield repr(node)


def is_checked() -> bool:
    """Whether the samples have passed with the code as it is."""
    return RECORD.exists() and RECORD.read_text().strip() == fingerprint()


def record(found: str) -> None:
    """Notes that everything has passed with the code of a fingerprint."""
    RECORD.write_text(found + "\n")


def main(arguments: Iterable[str]) -> int:
    """Runs the samples and the mutants on two processes and records the fingerprint if all of them pass."""
    before = fingerprint()
    failed = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/checker", "-n", "2", "-m", "not slow", *arguments], cwd=ROOT, check=False
    ).returncode
    if not failed and fingerprint() != before:
        print("The code has changed during the run: nothing is recorded.", file=sys.stderr)
        return 1
    if not failed:
        record(before)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
