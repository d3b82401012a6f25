"""The command that checks a model against a table of other programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hbmodel as hb
from hbmodel.codecs import java
from hbmodel.store import Family, Put
from hbmodel.tools.cli import main


@hb.model(table="cli_adopted", family="d", external=True)
class Adopted:
    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s", java.Long)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A file with a table of another program: a row that fits, and one with a column more."""
    found = f"embedded:{tmp_path / 'store.db'}"
    with hb.connect(found) as store:
        store.create_table("cli_adopted", [Family(b"d", max_versions=2)])
        store.put("cli_adopted", [Put(b"a", {b"d:s": bytes(8)}), Put(b"b", {b"d:s": bytes(8), b"d:x": b"\xff"})])
    return found


def run(url: str, *arguments: str) -> Result:
    named = f"{__name__}:Adopted"
    return CliRunner().invoke(main, ["adopt", "cli_adopted", "--model", named, "--store", url, *arguments])


def registered(url: str) -> Sequence[str]:
    with hb.connect(url) as store:
        return store.tables()


def test_a_contradiction_is_printed_and_ends_with_status_1(url: str) -> None:
    result = run(url)
    assert result.exit_code == 1
    counts, undeclared, versions = result.output.splitlines()
    assert counts == "cli_adopted: 2 rows read: 2 objects of Adopted, 0 unreadable, 0 left out: not adopted"
    assert undeclared.startswith("! undeclared:d:x: 1: no field explains the column")
    assert "[key=b'b', found=b'\\xff']" in undeclared
    assert versions.startswith("~ family-versions:d: ")
    assert registered(url) == ["cli_adopted"]


def test_what_is_accepted_is_registered(url: str) -> None:
    result = run(url, "--accept", "value", "--accept", "undeclared:d:x", "--json")
    assert result.exit_code == 0
    told = json.loads(result.output)
    assert (told["table"], told["rows"], told["objects"], told["unreadable"], told["absent"], told["adopted"]) == (
        "cli_adopted", 2, 2, 0, 0, True,
    )  # fmt: skip
    undeclared, versions = told["findings"]
    assert (undeclared["name"], undeclared["accepted"], undeclared["note"]) == ("undeclared:d:x", True, False)
    assert (undeclared["key"], undeclared["found"], undeclared["count"]) == ("b", "\\xFF", 1)
    assert (versions["name"], versions["accepted"], versions["note"]) == ("family-versions:d", False, True)
    assert registered(url) == ["cli_adopted", "hbmodel"]


def test_what_cannot_be_judged_is_one_line(url: str) -> None:
    result = run(url, "--accept", "undeclred")
    assert result.exit_code == 2
    assert "There is no such kind of finding to accept" in result.output
    result = CliRunner().invoke(main, ["adopt", "other", "--model", f"{__name__}:Adopted", "--store", url])
    assert (result.exit_code, "belongs to another table" in result.output) == (2, True)
