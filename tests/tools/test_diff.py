"""The command that compares models with live tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hbmodel as hb
from hbmodel.tools.cli import main


@hb.model(table="cli_compared", family="d")
class Stored:
    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")


@hb.model(table="cli_compared", family="d")
class Grown:
    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")
    note: hb.Column[str] = hb.column("n", default="")


@hb.model(table="cli_compared", family="d")
class Moved:
    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("size")


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"embedded:{tmp_path / 'store.db'}"
    with hb.connect(found) as store:
        hb.create_tables(store, Stored)
        with hb.Session(store) as session:
            session.add(Stored(name="a", size=1))
    return found


def run(url: str, *models: str, more: tuple[str, ...] = ()) -> Result:
    return CliRunner().invoke(main, ["diff", *(f"{__name__}:{each}" for each in models), "--store", url, *more])


def test_no_difference_prints_nothing(url: str) -> None:
    result = run(url, "Stored")
    assert (result.exit_code, result.output) == (0, "")


def test_what_can_be_applied_ends_with_status_1(url: str) -> None:
    result = run(url, "Grown")
    assert (result.exit_code, result.output) == (1, "+ cli_compared: column d:n: missing\n")


def test_what_is_refused_ends_with_status_3(url: str) -> None:
    result = run(url, "Moved", more=("--json",))
    assert result.exit_code == 3
    effects = [(line["kind"], line["effect"]) for line in map(json.loads, result.output.splitlines())]
    assert effects == [("column", "left"), ("layout", "refused")]
    assert run(url, "Moved", more=("--sample", "0")).output.startswith("! cli_compared: column of size: d:s -> d:size")


def test_a_wrong_name_is_one_line(url: str) -> None:
    result = CliRunner().invoke(main, ["diff", "no.such:Model", "--store", url])
    assert result.exit_code == 2
    assert result.output.startswith("Error: There is no such model: name it as package.module:Class.")


def test_no_file_is_created(tmp_path: Path) -> None:
    path = tmp_path / "typo.db"
    result = run(f"embedded:{path}", "Stored")
    assert result.exit_code == 2
    assert result.output.startswith("Error: There is no such file")
    assert not path.exists()
