"""Every Python example of the documentation runs, each page from top to bottom in its own directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from hbmodel import errors, localhbase, store
from tests.project.test_public_names import PUBLIC

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROSE = [*PAGES, *sorted((ROOT / "docs" / "internals").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

OTHERS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages without examples."""

MADE = ("http", "reference/", "programs/")
"""What is no file of the repository: addresses, and pages that are made for the site, whose links `make docs`
checks.
"""


@pytest.mark.lengthy
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text()
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 1
        code = compile("\n" * line + block.group(1), str(page), "exec")
        exec(code, vars(module))


@pytest.mark.lengthy
def test_mypy_accepts_the_declarations_of_the_page_about_models(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "models.md").read_text()
    lines = [""] * len(text.splitlines())
    for block in BLOCK.finditer(text):
        for at, line in enumerate(block.group(1).splitlines(), text[: block.start()].count("\n") + 1):
            lines[at] = line
    module = tmp_path / "models_md.py"
    module.write_text("\n".join(lines) + "\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--cache-dir",
        str(tmp_path / "mypy"),
        str(module),
    ]
    environment = {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_every_page_but_a_reference_table_has_examples() -> None:
    assert {page.name for page in PAGES if not BLOCK.search(page.read_text())} <= {"bytes.md"}


@pytest.mark.parametrize("page", [*PAGES, *(ROOT / name for name in OTHERS)], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not target.startswith(MADE):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", [*(str(page.relative_to(ROOT)) for page in PROSE), *OTHERS])
def test_lines_of_prose_have_at_most_100_columns(name: str) -> None:
    """Code, tables, and lines that are one piece of code or link may be longer."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / name).read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in text.splitlines() if len(line) > 100 and not re.match(r"\||`[^`]*`|!?\[|<", line)] == []


def test_the_error_page_names_every_error() -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    declared = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.HbmodelError)
    }
    assert {name for name in declared if f"`{name}`" not in text} == set()


def test_the_pages_name_everything_that_is_public() -> None:
    text = "".join(page.read_text() for page in PAGES)
    public = {name for module, names in PUBLIC.items() if module not in {store, localhbase} for name in names}
    assert {name for name in public - {"__version__"} if not re.search(rf"(\bhb\.(\w+\.)?|`){name}\b", text)} == set()


@pytest.mark.parametrize("page", ["docs/index.md", "docs/queries.md", "docs/tables.md"])
def test_what_a_page_shows_as_printed_is_printed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    shown = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    module = types.ModuleType("docs_printed")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec("\n".join(block.group(1) for block in BLOCK.finditer(text)), vars(module))
    assert shown.group(1) in capsys.readouterr().out
