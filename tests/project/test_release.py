"""The metadata of a release, the files that `make release` creates, and the checks of the public CI."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import hbmodel

ROOT = Path(__file__).parents[2]
DECLARED: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: dict[str, Any] = DECLARED["project"]
CLASSIFIED = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
LINK = re.compile(r"\]\(([^)]+)\)")


def shown_elsewhere() -> str:
    """The README as a wheel carries it, by the substitution that the build makes."""
    (substitution,) = DECLARED["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(substitution["pattern"], substitution["replacement"], text).replace(
        "$HFPR_VERSION", hbmodel.__version__
    )


def check_links(text: str) -> None:
    """Every link is an address; those into the repository are files of the commit that is tagged with the version."""
    files = f"{PROJECT['urls']['Source']}/blob/v{hbmodel.__version__}/"
    links = LINK.findall(text)
    assert len([link for link in links if link.startswith(files)]) > 5
    for link in links:
        assert re.match(r"https://|#", link), link
        if link.startswith(files):
            assert (ROOT / link.removeprefix(files).partition("#")[0]).exists(), link


def test_links_of_the_readme_work_where_it_is_shown_elsewhere() -> None:
    check_links(shown_elsewhere())


def test_the_project_says_who_makes_it_and_where() -> None:
    assert PROJECT["authors"] == [{"name": "The hbmodel developers"}]
    assert {"Documentation", "Source", "Issues", "Changelog"} <= set(PROJECT["urls"])
    assert all(url.startswith(PROJECT["urls"]["Source"]) for url in PROJECT["urls"].values())


def test_the_changelog_begins_with_the_version_that_is_built() -> None:
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert heading is not None
    assert re.fullmatch(rf"{re.escape(hbmodel.__version__)} \((unreleased|20\d\d-\d\d-\d\d)\)", heading[1])


def test_the_papers_name_the_same_repository() -> None:
    papers = [
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")
    ]
    named = {url for text in papers for url in re.findall(r"https://github\.com/[\w-]+/[\w-]+", text)}
    assert named == {PROJECT["urls"]["Source"]}


def test_ci_runs_the_fast_suite_on_every_python_that_is_named() -> None:
    jobs = workflow()["jobs"]
    assert jobs["fast"]["strategy"]["matrix"]["python"] == CLASSIFIED == ["3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == f">={CLASSIFIED[0]}"


def workflow() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    return loaded


def test_ci_runs_targets_of_the_makefile_alone() -> None:
    (targets,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    commands = [step["run"].split() for job in workflow()["jobs"].values() for step in job["steps"] if "run" in step]
    assert len(commands) >= 4
    for program, *named in commands:
        assert program == "make"
        assert set(named) <= set(targets.split())


@pytest.mark.slow  # pip fetches the build backend, and what the wheel needs
def test_a_release_is_built_checked_and_tried(tmp_path: Path) -> None:
    command = ["make", "release", f"WHEELS={tmp_path / 'made'}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=500)
    assert done.stdout.count("PASSED") == 2
    assert f"git tag -a v{hbmodel.__version__}" in done.stdout
    wheel, sdist = sorted((tmp_path / "made").iterdir(), key=lambda path: path.suffix, reverse=True)
    assert (wheel.suffix, sdist.suffix) == (".whl", ".gz")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        check_links(archive.read(metadata).decode())
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "Makefile",
        "constraints.txt",
        "pytest_hbmodel.py",
        "hbmodel/errors.py",
    } <= names
