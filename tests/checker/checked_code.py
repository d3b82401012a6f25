"""The fingerprint of the code that the model checker judges: if it equals the recorded fingerprint, `make test` skips
the samples.

`make check-samples` runs the samples and the mutants, and records the fingerprint if all of them pass; so does `make
check-protocol`. The record is committed with the change. Comments, docstrings, the layout of the code, the folder of a
module and the order of imports do not count.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
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
    """One text for the code of some files, by their paths."""
    files = sorted(shape for path, source in sources.items() if (shape := _shape(path, source)))
    return hashlib.sha256("".join(files).encode()).hexdigest()


def _shape(path: str, source: str) -> str:
    """The name and the code of a file; nothing for a file without code."""
    module = ast.parse(source)
    if all(_is_text(node) for node in module.body):
        return ""
    imports = (ast.Import, ast.ImportFrom)
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module is not None and _is_ours(node.module):
            node.module = node.module.rpartition(".")[2]
            node.names.sort(key=lambda alias: alias.name)
    parts = [path.rpartition("/")[2]]
    for shape in sorted(_parts(node) for node in module.body if isinstance(node, imports)):
        parts += shape
    module.body = [node for node in module.body if not isinstance(node, imports)]
    return "".join(f"{part}\0" for part in parts + _parts(module))


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in {"hbmodel", "tests"}


def _parts(node: ast.AST) -> list[str]:
    parts: list[str] = []
    _add_shape(node, parts.append)
    return parts


def _add_shape(node: object, add: Callable[[str], None]) -> None:
    """Adds the names and values of a tree without docstrings; what a version of Python knows and others do not is
    empty, and left out.
    """
    if isinstance(node, ast.AST):
        add(f"({type(node).__name__}")
        described = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for name in node._fields:
            value = getattr(node, name, None)
            if described and name == "body":
                value = [child for child in value if not _is_text(child)]
            if value is not None and value != []:
                add(name)
                _add_shape(value, add)
        add(")")
    elif isinstance(node, list):
        add("[")
        for child in node:
            _add_shape(child, add)
        add("]")
    else:
        add(repr(node))


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is a docstring, or a text after the constant that it describes."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def is_checked() -> bool:
    """Whether the samples have passed with the current code."""
    return RECORD.exists() and RECORD.read_text().strip() == fingerprint()


def record(found: str) -> None:
    """Notes that everything has passed with the code of a fingerprint."""
    RECORD.write_text(found + "\n")


def main(arguments: Iterable[str]) -> int:
    """Runs the samples and the mutants on two processes and records the fingerprint if all of them pass."""
    before = fingerprint()
    failed = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/checker", "-n", "2", "-m", "not slow", *arguments],
        cwd=ROOT,
        check=False,
    ).returncode
    if not failed and fingerprint() != before:
        print("The code has changed during the run: nothing is recorded.", file=sys.stderr)
        return 1
    if not failed:
        record(before)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
