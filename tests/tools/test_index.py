"""The commands `hbmodel index`, each as an operator runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hbmodel as hb
from hbmodel.store import Delete
from hbmodel.tools.cli import main
from tests.support.beds import cells_of

TIMES = ("--lease", "0.1", "--longest-call", "0.1s", "--clock-bound", "0.05", "--grace", "1")

MODELS = """
import hbmodel as hb

@hb.model(table="visits-cli", family="d")
class Plain:
    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")

@hb.model(table="visits-cli", family="d")
class Visit:
    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")

    by_page = hb.index("page")
"""


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store in a file with thirty rows, and a module with its models in the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"models_{tmp_path.name}.py").write_text(MODELS)
    url = f"embedded:{tmp_path / 'visits.db'}"
    with hb.connect(url) as store:
        plain = models(tmp_path).Plain
        hb.create_tables(store, plain)
        with hb.Session(store, lease=0) as session:
            session.add_all(plain(name=f"{n:02}", page=f"p{n % 3}") for n in range(30))
    return url


def models(path: Path):  # type: ignore[no-untyped-def]
    return __import__(f"models_{path.name}")


def run(url: str, path: Path, command: str, *options: str, model: str | None = "Visit") -> Result:
    named = () if model is None else ("--model", f"models_{path.name}:{model}")
    index = () if command in {"status", "purge"} else ("by_page",)
    return CliRunner().invoke(main, ["index", command, "visits-cli", *index, "--store", url, *named, *TIMES, *options])


def test_an_index_is_built_watched_repaired_and_dropped(url: str, tmp_path: Path) -> None:
    planned = run(url, tmp_path, "build", "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert "entries 30" in planned.output
    built = run(url, tmp_path, "build", "--json", "--rows-per-second", "100000")
    assert built.exit_code == 0, built.output
    assert json.loads(built.stdout)["entries"] == 30
    assert json.loads(built.stdout)["state"] == "readable"
    assert "sound" in run(url, tmp_path, "verify").output
    assert json.loads(run(url, tmp_path, "verify", "--sample", "10", "--json").stdout)["sampled"] is True
    shown = run(url, tmp_path, "status", "--sample", "20")
    assert shown.exit_code == 0
    assert "visits-cli.by_page: readable" in shown.output
    with hb.connect(url) as store:
        store.delete("visits-cli.by_page", [Delete(sorted(cells_of(store, "visits-cli.by_page"))[0])])
    broken = run(url, tmp_path, "verify", "--json")
    assert broken.exit_code == 1
    assert json.loads(broken.stdout)["missing"] == 1
    assert run(url, tmp_path, "status", "--sample", "100").exit_code == 1
    assert run(url, tmp_path, "repair", "--dry-run").exit_code == 1
    repaired = run(url, tmp_path, "repair", "--json")
    assert repaired.exit_code == 0
    assert json.loads(repaired.stdout)["put"] == 1
    assert run(url, tmp_path, "verify").exit_code == 0
    assert json.loads(run(url, tmp_path, "purge", "--json").stdout) == {"table": "visits-cli", "purged": 0, "dry_run": False}
    dropped = run(url, tmp_path, "drop", model=None)
    assert dropped.exit_code == 0, dropped.output
    assert dropped.output == "dropped visits-cli.by_page\n"
    assert run(url, tmp_path, "drop").output == "nothing was left\n"
    registered = run(url, tmp_path, "status", model=None)
    assert registered.output == "visits-cli.by_page: absent\n"


def test_rows_that_are_refused_are_an_exit_status(url: str, tmp_path: Path) -> None:
    with hb.connect(url) as store, hb.Session(store) as session:
        session.add(models(tmp_path).Plain(name="long", page="x" * 32_767))
    built = run(url, tmp_path, "build")
    assert built.exit_code == 1
    assert "rows refused: 1" in built.output


@pytest.mark.parametrize(
    ("model", "message"),
    [("Nothing", "no such model"), ("hb", "no such model"), ("Plain", "no such index")],
)
def test_a_wrong_model_is_one_line(url: str, tmp_path: Path, model: str, message: str) -> None:
    result = run(url, tmp_path, "build", model=model)
    assert result.exit_code == 1
    assert message in result.output
    assert result.output.count("\n") == 1


def test_a_model_of_another_table_is_refused(url: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["index", "verify", "other", "by_page", "--store", url, "--model", f"models_{tmp_path.name}:Visit"])
    assert result.exit_code == 1
    assert "The model belongs to another table: name the model of this table" in result.output
    result = CliRunner().invoke(main, ["index", "drop", "other", "by_page", "--store", url])
    assert "The registry does not know the index" in result.output


@pytest.mark.parametrize("text", ["10x", "-1", "", "s", "nan", "inf"])
def test_times_are_checked(url: str, tmp_path: Path, text: str) -> None:
    result = run(url, tmp_path, "verify", "--every", text)
    assert result.exit_code == 2
    assert "must be a time such as 30s, 10m or 6h" in result.output


def test_a_command_is_repeated(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("hbmodel.tools.cli.index.time.sleep", sleep)
    result = run(url, tmp_path, "verify", "--every", "10m")
    assert slept == [600, 600, 600]
    assert result.exit_code == 1
    assert result.output.count("not built") == 3  # an error is reported and the next time comes


@pytest.mark.parametrize("named", ["", ":", "json", "json:", ":Visit", ".models:Visit", "json:nothing", "json:loads"])
def test_a_name_that_is_no_model_is_refused_in_one_line(url: str, named: str) -> None:
    result = CliRunner().invoke(main, ["index", "verify", "visits-cli", "by_page", "--store", url, "--model", named, *TIMES])
    assert result.exit_code == 1
    assert "There is no such model" in result.output
