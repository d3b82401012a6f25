"""The commands `hbmodel registry`, on a file."""

from __future__ import annotations

import json
from pathlib import Path
from socket import socket

import pytest
from click.testing import CliRunner, Result

import hbmodel as hb
from hbmodel.store import Delete, Put
from hbmodel.tools.cli import main


@hb.model(table="left-cli", family="c")
class Left:
    key: hb.Key[str] = hb.key()
    body: hb.Column[str] = hb.column("b")

    by_body = hb.index("body")


@hb.model(table="kept-cli", family="c", kind=b"k")
class Kept:
    key: hb.Key[str] = hb.key()
    at: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    body: hb.Column[str] = hb.column("b")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store whose registry knows a table that exists and one that another program dropped."""
    url = f"embedded:{tmp_path / 'one.db'}"
    with hb.connect(url) as store:
        hb.create_tables(store, Left, Kept)
        store.delete_table("left-cli")
        store.delete_table("left-cli.by_body")
    return url


def run(url: str, *arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, ["registry", *arguments, "--store", url], input=answer)


def tables(url: str) -> dict[str, bool]:
    """The tables that the registry knows, and whether they exist."""
    lines = run(url, "list", "--json").stdout.splitlines()
    return {line["table"]: line["exists"] for line in map(json.loads, lines)}


def test_a_gateway_that_cannot_be_reached_is_named() -> None:
    with socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens on this port
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        result = run(f"hbase+thrift2://{address}?attempts=1", "list")
    assert result.exit_code != 0
    assert "HBase cannot be reached" in result.stderr
    assert f"gateway='{address}'" in result.stderr


def test_a_table_to_forget_can_be_looked_at_first(url: str) -> None:
    planned = run(url, "forget", "left-cli", "--dry-run", "--yes")
    assert (planned.exit_code, planned.stdout) == (0, "would forget left-cli: model c, index by_body\n")
    found = json.loads(run(url, "forget", "left-cli", "--dry-run", "--json").stdout)
    assert (found["dry_run"], found["models"]) == (True, ["c"])
    assert tables(url) == {"kept-cli": True, "left-cli": False}


def test_the_tables_that_the_registry_knows_are_listed(url: str) -> None:
    assert run(url, "list").stdout.splitlines() == [
        "table     exists  models",
        "kept-cli  yes     c k",
        "left-cli  no      c",
    ]
    assert [json.loads(line) for line in run(url, "list", "--json").stdout.splitlines()] == [
        {"table": "kept-cli", "exists": True, "models": ["c k"], "damaged": []},
        {"table": "left-cli", "exists": False, "models": ["c"], "damaged": []},
    ]
    assert run(url, "list", "--registry", "other").stdout.splitlines() == ["table  exists  models"]
    assert run(url, "list", "--registry", "other", "--json").stdout == ""


def test_a_damaged_entry_is_marked(url: str) -> None:
    with hb.connect(url) as store:
        store.put("hbmodel", [Put(b"kept-cli\0c\0k", {b"m:layout": b"{}"})])
    assert run(url, "list").stdout.splitlines()[1] == "kept-cli  yes     c k (damaged)"
    assert json.loads(run(url, "list", "--json").stdout.splitlines()[0])["damaged"] == ["c k"]
    assert run(url, "forget", "kept-cli", "--existing", "--yes").exit_code == 0
    assert run(url, "list").stdout.splitlines()[1:] == ["left-cli  no      c"]


def test_it_asks_before_it_forgets(url: str) -> None:
    for answer in ("", "n\n"):
        result = run(url, "forget", "left-cli", answer=answer)
        assert result.exit_code == 1
        assert "left-cli: model c, index by_body\nRemove this from the registry? [y/N]" in result.stderr
        assert result.stdout == ""
        assert tables(url) == {"kept-cli": True, "left-cli": False}
    result = run(url, "forget", "left-cli", answer="y\n")
    assert (result.exit_code, result.stdout) == (0, "forgot left-cli: model c, index by_body\n")
    assert tables(url) == {"kept-cli": True}


def test_it_does_not_ask_if_told_so(url: str) -> None:
    result = run(url, "forget", "left-cli", "--yes", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {
        "table": "left-cli",
        "models": ["c"],
        "indexes": ["by_body"],
        "remaining": [],
        "writers": [],
    }
    with hb.connect(url) as store:
        assert hb.create_tables(store, Left).created == ["left-cli.by_body", "left-cli"]


@pytest.mark.parametrize("yes", [(), ("--yes",)])
def test_what_it_refuses_is_one_line_and_nothing_is_asked(url: str, yes: tuple[str, ...]) -> None:
    result = run(url, "forget", "kept-cli", *yes)
    assert result.exit_code == 2
    assert "--existing on the command line" in result.output
    assert "(table-exists)" in result.output
    assert "[y/N]" not in result.output
    result = run(url, "forget", "nothing-cli", *yes)
    assert result.exit_code == 2
    assert "`hbmodel registry list` lists those that it knows" in result.output
    assert tables(url) == {"kept-cli": True, "left-cli": False}


def test_a_table_that_exists_is_forgotten_if_told_so(url: str) -> None:
    result = run(url, "forget", "kept-cli", "--existing", answer="y\n")
    assert result.exit_code == 0
    assert "kept-cli: exists, and the registry no longer names it" in result.stderr
    assert tables(url) == {"left-cli": False}
    with hb.connect(url) as store:
        assert "kept-cli" in store.tables()


@pytest.mark.parametrize("lost", ["entry", "registry"])
def test_a_damaged_entry_is_forgotten_and_its_table_used_again(tmp_path: Path, lost: str) -> None:
    url = f"embedded:{tmp_path / 'damaged.db'}"
    with hb.connect(url) as store:
        hb.create_tables(store, Left)
        with hb.Session(store) as session:
            session.add_all(Left(key=f"{n}", body="x") for n in range(5))
        if lost == "entry":
            store.put("hbmodel", [Put(b"left-cli\0c", {b"m:layout": b"{damaged"})])
        else:
            store.delete_table("hbmodel")
    if lost == "entry":
        refused = run(url, "forget", "left-cli", "--yes")
        assert refused.exit_code == 2
        assert "`hbmodel registry forget TABLE --existing`" in refused.output
        forgotten = run(url, "forget", "left-cli", "--existing", "--yes")
        assert forgotten.exit_code == 0, forgotten.output
        assert forgotten.stdout.splitlines() == [
            "forgot left-cli: model c",
            "left-cli: exists, and the registry no longer names it",
            "left-cli.by_body: exists, and the registry no longer names it",
        ]
    with hb.connect(url) as store:
        with pytest.raises(hb.SchemaMismatch, match="delete the index table only"):
            hb.create_tables(store, Left)
        store.delete_table("left-cli.by_body")
        hb.create_tables(store, Left)
        hb.indexes.build_index(store, Left, "by_body")
        assert hb.Session(store).query(Left).where(Left.body == "x").use_index("by_body").count() == 5
        assert not hb.diff(store, Left)


def test_an_entry_without_a_layout_is_an_error_of_the_status(url: str) -> None:
    with hb.connect(url) as store:
        store.delete("hbmodel", [Delete(b"left-cli\0c", columns=[b"m:layout"])])
    result = CliRunner().invoke(main, ["index", "status", "left-cli", "--store", url])
    assert result.exit_code == 2
    assert "The registry entry of the table cannot be read" in result.output


def test_a_registry_that_does_not_exist_is_mentioned(url: str) -> None:
    result = run(url, "list", "--registry", "no-registry", "--json")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "there is no registry table no-registry: `hbmodel create` creates one\n"
