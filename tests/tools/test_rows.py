"""The commands that show keys, rows, regions and bytes from the registry's description, on a file and on HBase."""

from __future__ import annotations

import enum
import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import pytest
from click.testing import CliRunner, Result

import hbmodel as hb
from hbmodel.store import Put, Scan
from hbmodel.tools.cli import main
from tests.support.beds import HBASE
from tests.support.models import DAY


@hb.model(table="cli_actions", family="content", salt=hb.HashSalt(2, by=("user",)))
class Action:
    user: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    name: hb.Column[str] = hb.column("name")
    note: hb.Column[str | None] = hb.column("note", default=None)
    views: hb.Column[int] = hb.counter("views")

    by_name = hb.index("name", covers=("note",))


@hb.model(table="cli_pets", family="p")
class Pet:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    species: hb.Column[str] = hb.column("s")
    food: hb.Map[str, int] = hb.map_column("f")


@hb.model(table="cli_hits", family="d", salt=hb.RandomSalt(3), immutable=True)
class Hit:
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"))
    page: hb.Column[str] = hb.column("p")

    by_page = hb.index("page")


@hb.model(table="cli_points", family="d")
class Point:
    metric: hb.Key[str] = hb.key(hb.ids.dictionary("cli_metrics", hb.codecs.UInt16))
    number: hb.Key[int] = hb.key(hb.UInt32)
    value: hb.Column[int] = hb.column("v")


@pytest.fixture(scope="module", params=["file", *HBASE])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store with three tables and their rows; on HBase they have names of their own and are dropped in the end."""
    if request.param == "file":
        found = f"embedded:{tmp_path_factory.mktemp('rows') / 'rows.db'}"
    else:
        running = request.getfixturevalue("hbmodel_hbase")
        found = f"{running.url if request.param == 'thrift1' else running.thrift2_url}?table_prefix=r{uuid4().hex[:8]}"
    with hb.connect(found) as store:
        hb.create_tables(store, Action, Pet, Hit, Point)
        with hb.Session(store) as session:
            actions = [
                Action(user=n % 2, at=DAY + timedelta(hours=n), name="login" if n < 4 else "buy") for n in range(6)
            ]
            session.add_all(actions)
            session.add_all(Pet(owner=owner, name="rex", species="dog", food={"meat": 2}) for owner in ("ann", "bob"))
            session.add(Pet(owner="ann", name="tom", species="cat"))
            session.add_all(Point(metric=metric, number=1, value=5) for metric in ("cpu", "disk"))
            session.add(Hit(at=DAY, page="home"))
            session.commit()
            session.increment(actions[3], Action.views, 5)
            session.delete(actions[0])
        yield found
        for table in store.tables() if request.param != "file" else ():
            store.delete_table(table)


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--store", url])


def lines(url: str, *arguments: str) -> list[Any]:
    result = run(url, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(url: str, *arguments: str, status: int = 2) -> str:
    result = run(url, *arguments)
    assert result.exit_code == status, result.output
    assert result.output.count("\n") == 1
    return result.output


@pytest.mark.lengthy
def test_a_pasted_key_is_read_and_written(url: str) -> None:
    fields = {"user": 1, "at": "2026-03-01T03:00:00Z"}
    (written,) = lines(url, "key", "encode", "cli_actions", "user=1", "at=2026-03-01T03:00:00Z")
    for pasted in (written["hex"], written["hex"].upper(), written["shell"], f'"{written["shell"]}"'):
        (read,) = lines(url, "key", "decode", "cli_actions", pasted)
        assert read["fields"] == fields
        assert lines(url, "row", "get", "cli_actions", pasted) == [
            {**fields, "name": "login", "note": None, "views": 5}
        ]
    assert written["hex"] == hb.row_key(Action, user=1, at=DAY + timedelta(hours=3)).hex()
    shown = run(url, "key", "decode", "cli_actions", written["shell"]).output
    assert [line.split() for line in shown.splitlines()][1:] == [["user", "1"], ["at", "2026-03-01T03:00:00Z"]]
    assert "shell  " in run(url, "key", "encode", "cli_actions", "user=1", "at=2026-03-01T03:00:00Z").output


def test_the_store_comes_from_the_variable_that_connect_reads(url: str) -> None:
    result = CliRunner().invoke(main, ["regions", "cli_pets", "--json"], env={"HBMODEL_URL": url})
    assert result.exit_code == 0, result.output
    assert [json.loads(line) for line in result.stdout.splitlines()] == lines(url, "regions", "cli_pets")


def test_what_is_read_both_ways_is_asked_for(url: str) -> None:
    assert "--as hex or --as shell" in refused(url, "key", "decode", "cli_pets", "6162")
    assert lines(url, "key", "decode", "cli_pets", "6162", "--as", "hex")[0]["fields"] == {"owner": "ab"}
    assert lines(url, "key", "decode", "cli_pets", "6162", "--as", "shell")[0]["fields"] == {"owner": "6162"}
    assert "The key cannot be read in this notation" in refused(url, "key", "decode", "cli_pets", "ann", "--as", "hex")


def test_rows_of_wide_and_randomly_salted_tables(url: str) -> None:
    assert lines(url, "row", "get", "cli_pets", "ann") == [
        {"owner": "ann", "name": "rex", "species": "dog", "food": {"meat": 2}},
        {"owner": "ann", "name": "tom", "species": "cat", "food": {}},
    ]
    assert len(lines(url, "row", "get", "cli_pets", "ann", "--limit", "1")) == 1
    assert [row["name"] for row in lines(url, "row", "get", "cli_pets", "owner=ann", "name=tom")] == ["tom"]
    assert lines(url, "row", "get", "cli_hits", "at=2026-03-01T00:00:00Z") == [
        {"at": "2026-03-01T00:00:00Z", "page": "home"}
    ]
    assert len(lines(url, "key", "encode", "cli_hits", "at=2026-03-01T00:00:00Z")) == 3
    (entry,) = lines(url, "scan", "cli_hits.by_page", "--where", "page=home")
    assert entry["at"] == "2026-03-01T00:00:00Z"


class Status(enum.Enum):
    DRAFT = "draft"
    PAID = "paid"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@hb.model(table="cli_invoices", family="d")
class Invoice:
    status: hb.Key[Status] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32)
    was: hb.Column[Status | None] = hb.column("w", default=None)
    rights: hb.Column[Rights] = hb.column("r")

    by_was = hb.index("was")


@pytest.fixture
def invoices(file: str) -> str:
    """The URL of a store with a table whose fields are enumerations."""
    with hb.connect(file) as store:
        hb.create_tables(store, Invoice)
        with hb.Session(store) as session:
            session.add(Invoice(status=Status.PAID, number=7, was=Status.DRAFT, rights=Rights.READ | Rights.WRITE))
    return file


@pytest.mark.lengthy
def test_members_of_enumerations_are_given_by_value_and_others_are_an_error(invoices: str) -> None:
    scan = ("scan", "cli_invoices", "--full-scan", "--where")
    for found in ("status=paid", "was=draft", "was!=paid", "was^=dr", "was is not null", "rights=3", "status>=draft"):
        assert [each["number"] for each in lines(invoices, *scan, found)] == [7]
    assert len(lines(invoices, "scan", "cli_invoices.by_was", "--where", "was=draft")) == 1
    assert len(lines(invoices, "row", "get", "cli_invoices", "status=paid", "number=7")) == 1
    known = "[field='status', found='PAID', known=['draft (DRAFT)', 'paid (PAID)']]"
    for command in (
        (*scan, "status=PAID"),
        (*scan, "status>PAID"),
        ("row", "get", "cli_invoices", "status=PAID", "number=7"),
        ("key", "encode", "cli_invoices", "status=PAID", "number=7"),
    ):
        assert f"The text is not the value of a member of the enumeration. {known}" in refused(invoices, *command)
    assert "known=['draft (DRAFT)'" in refused(invoices, "scan", "cli_invoices.by_was", "--where", "was=gone")
    assert "known=['1 (READ)', '2 (WRITE)']" in refused(invoices, *scan, "rights=4")


def test_a_command_does_not_create_the_file_of_a_store(tmp_path: Path) -> None:
    missing = tmp_path / "typo.db"
    for command in (
        ("scan", "t"),
        ("row", "get", "t", "k"),
        ("key", "encode", "t", "k=1"),
        ("regions", "t"),
        ("describe", "t"),
        ("infer", "t"),
        ("writers", "t"),
        ("diff", "tests.tools.test_rows:Invoice"),
        ("registry", "list"),
        ("registry", "forget", "t", "--yes"),
        ("index", "status", "t"),
        ("index", "drop", "t", "by_x"),
        ("index", "build", "t", "by_x", "--model", "tests.tools.test_rows:Invoice"),
        ("migrate", "status", "t", "--model", "tests.tools.test_rows:Invoice"),
        ("adopt", "cli_invoices", "--model", "tests.tools.test_rows:Invoice"),
    ):
        told = refused(f"embedded:{missing}", *command)
        assert "There is no such file" in told, command
        assert not missing.exists()
    assert "follows the colon" in refused("embedded://typo.db", "registry", "list")


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The URL of an empty store in a file."""
    return f"embedded:{tmp_path / 'one.db'}"


def test_a_pasted_key_of_a_split_time_is_its_bucket_from_the_first_time_on(file: str) -> None:
    @hb.model(table="cli_readings", family="d")
    class Reading:
        sensor: hb.Key[str] = hb.key()
        at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=timedelta(hours=1))
        value: hb.Column[int] = hb.column("v")

    with hb.connect(file) as store:
        hb.create_tables(store, Reading)
        with hb.Session(store) as session:
            session.add_all(Reading(sensor="a", at=DAY + timedelta(minutes=30 * n), value=n) for n in range(5))
    (key,) = {row["hex"] for row in lines(file, "key", "encode", "cli_readings", "sensor=a", "at=2026-03-01T01:30:00Z")}
    assert [row["value"] for row in lines(file, "row", "get", "cli_readings", key)] == [2, 3]


def test_fields_of_a_constant_row_that_name_no_beginning_of_a_key_are_refused(file: str) -> None:
    @hb.model(table="cli_words", family="d", row=b"all")
    class Word:
        language: hb.Key[str] = hb.key(in_qualifier=True)
        text: hb.Key[str] = hb.key(in_qualifier=True)
        count: hb.Column[int] = hb.column("c")

    with hb.connect(file) as store:
        hb.create_tables(store, Word)
        with hb.Session(store) as session:
            session.add(Word(language="en", text="dog", count=1))
    assert len(lines(file, "row", "get", "cli_words", "language=en")) == 1
    assert "whole table" in refused(file, "row", "get", "cli_words", "text=dog")


@pytest.mark.parametrize("name", ["owner", "owner is here", "owner=x", "owner is null"])
def test_a_pasted_key_may_look_like_a_field(file: str, name: str) -> None:
    with hb.connect(file) as store:
        hb.create_tables(store, Pet)
        with hb.Session(store) as session:
            session.add_all(Pet(owner=each, name="rex", species="dog", food={}) for each in (name, "x"))
    assert [row["owner"] for row in lines(file, "row", "get", "cli_pets", name, "--as", "shell")] == [name]
    if "=" in name:
        assert [row["owner"] for row in lines(file, "row", "get", "cli_pets", name)] == ["x"]
    elif "null" not in name:
        assert [row["owner"] for row in lines(file, "row", "get", "cli_pets", name)] == [name]


def test_scans_with_conditions(url: str) -> None:
    def times(*arguments: str) -> list[str]:
        return [row["at"][11:13] for row in lines(url, "scan", "cli_actions", *arguments)]

    assert sorted(times()) == ["01", "02", "03", "04", "05"]
    assert times("--where", "user=1") == ["05", "03", "01"]
    assert times("--where", "user=1", "--reversed", "--limit", "2") == ["01", "03"]
    assert times("--where", "user = 1", "--where", "at>=2026-03-01T02:30:00Z") == ["05", "03"]
    assert sorted(times("--where", "name=buy")) == ["04", "05"]
    assert times("--where", "views > 0", "--full-scan") == ["03"]
    assert sorted(times("--where", "note is null", "--where", "name ^=log", "--index", "by_name")) == ["01", "02", "03"]
    assert times("--where", "note is not null", "--full-scan") == []
    explained = run(url, "scan", "cli_actions", "--where", "name=buy", "--explain").stdout
    assert "by_name" in explained
    plan = json.loads(run(url, "scan", "cli_actions", "--where", "name=buy", "--explain", "--json").stdout)
    assert (plan["path"], plan["state"], f"{plan['text']}\n") == ("by_name", "readable", explained)
    shown = run(url, "scan", "cli_actions", "--where", "user=0").output.splitlines()
    assert shown[0].split() == ["user", "at", "name", "note", "views"]
    assert shown[1].split() == ["0", "2026-03-01T04:00:00Z", "buy", "null", "0"]
    assert {row["name"] for row in lines(url, "scan", "cli_actions.by_name", "--where", "name^=b")} == {"buy"}


def test_names_of_dictionaries(url: str) -> None:
    assert lines(url, "scan", "cli_points", "--where", "metric=disk") == [{"metric": "disk", "number": 1, "value": 5}]
    (written,) = lines(url, "key", "encode", "cli_points", "metric=disk", "number=1")
    assert len(written["hex"]) == 12
    assert lines(url, "key", "decode", "cli_points", written["hex"]) == [{"fields": {"metric": "disk", "number": 1}}]
    assert lines(url, "row", "get", "cli_points", "metric=cpu", "number=1")[0]["value"] == 5
    assert lines(url, "describe", "cli_points")[0]["row_key"] == 12
    assert "no id for the name" in refused(url, "key", "encode", "cli_points", "metric=tape", "number=1")


def test_mistakes_are_one_line(url: str) -> None:
    message = "No condition bounds a leading key field of the table or an index, so the whole table would be read"
    assert message in refused(url, "scan", "cli_actions", "--where", "views>0")
    assert "no such field" in refused(url, "scan", "cli_actions", "--where", "nothing=1")
    assert "a whole number" in refused(url, "scan", "cli_actions", "--where", "user=__import__('os')")
    assert "A condition is" in refused(url, "scan", "cli_actions", "--where", "user")
    unknown = refused(url, "regions", "cli_nothing")
    assert "does not know the table" in unknown
    assert "known=['cli_actions', 'cli_hits', 'cli_metrics.ids'," in unknown
    assert "every field" in refused(url, "row", "get", "cli_actions", "user=1")
    told = refused(url, "row", "get", "cli_actions", "5")
    assert "This is not a row key of the table: give each key field as field=value" in told
    assert "fields=['user', 'at'], reason=" in told
    assert "There is no object with this key" in refused(url, "row", "get", "cli_pets", "nobody", status=1)
    assert "no object" in refused(
        url, "row", "get", "cli_actions", "user=0", "at=2026-03-01T00:00:00Z", status=1
    )  # deleted
    assert "one pasted key" in refused(url, "row", "get", "cli_pets", "ann", "bob")
    for table, text in (("cli_actions", "usr=1"), ("cli_actions", "name=x"), ("cli_pets", "ower=ann")):
        told = refused(url, "row", "get", table, text, status=1 if table == "cli_pets" else 2)
        assert "neither the key of an object nor the value of a key field" in told
        assert f"found='{text}'" in told
    assert "no object with this key" in refused(url, "row", "get", "cli_pets", "ower=ann", "--as", "shell", status=1)
    assert "The table has a row for each object" in refused(url, "key", "decode", "cli_actions", "00", "00")


def test_an_output_that_cannot_be_written_is_one_line(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(click, "echo", full)
    with pytest.raises(click.ClickException, match=r"The system refused to read or write: .*No space left on device"):
        main(["scan", "cli_actions", "--limit", "1", "--json", "--store", url], standalone_mode=False)


@pytest.mark.lengthy
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("scan", "--help"), ("scan", "cli_pets")])
def test_a_full_disk_under_the_output_is_one_line(file: str, arguments: tuple[str, ...]) -> None:
    with hb.connect(file) as store:
        hb.create_tables(store, Pet)
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "hbmodel", *arguments]
        environment = {**os.environ, "HBMODEL_URL": file}
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("Error: The system refused to read or write: ")
    assert result.stderr.count("\n") == 1


def test_a_reader_that_has_seen_enough_ends_the_program_without_a_word(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(click, "echo", gone)
    result = CliRunner().invoke(main, ["scan", "cli_actions", "--limit", "1", "--json", "--store", url])
    assert (result.exit_code, result.output) == (1, "")


def test_bytes_of_a_table(url: str) -> None:
    (found,) = lines(url, "describe", "cli_actions")
    assert found["total"] == sum(
        found[part] for part in ("row_key", "family", "qualifier", "timestamp", "value", "frame")
    )
    assert {name["name"] for name in found["names"]} == {"content:", "content:name", "content:note", "content:views"}
    shown = run(url, "describe", "cli_actions", "--sample", "2").output
    assert "objects in" in shown
    assert "row key" in shown
    assert lines(url, "describe", "cli_actions.by_name")[0]["objects"] == 5


def test_regions_are_shown_by_fields(url: str) -> None:
    assert lines(url, "regions", "cli_pets") == [{"start": "(start)", "stop": "(end)", "start key": "", "stop key": ""}]
    assert run(url, "regions", "cli_pets").output.splitlines()[0].split() == [
        "start",
        "stop",
        "start",
        "key",
        "stop",
        "key",
    ]


@pytest.mark.parametrize("kind", ["file", pytest.param("thrift2", marks=pytest.mark.hbase)])
def test_bounds_of_split_tables(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    @hb.model(table="cli_split", family="d")
    class Split:
        user: hb.Key[int] = hb.key(hb.UInt32)
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")

    url = f"embedded:{tmp_path / 's.db'}"
    if kind == "thrift2":
        url = f"{request.getfixturevalue('hbmodel_hbase').thrift2_url}?table_prefix=r{uuid4().hex[:8]}"
    with hb.connect(url) as store:
        hb.create_tables(
            store, Split, splits=hb.tables.AtKeys((hb.UInt32.encode(500), hb.row_key(Split, user=900, name="m")))
        )
        shown = lines(url, "regions", "cli_split")
        if kind == "thrift2":
            for table in store.tables():
                store.delete_table(table)
    assert [(each["start"], each["stop"]) for each in shown] == [
        ("(start)", "user=500"),
        ("user=500", "user=900, name=m"),
        ("user=900, name=m", "(end)"),
    ]
    assert shown[0]["stop key"] == r"\x00\x00\x01\xF4"


def test_a_scan_shows_the_rows_after_one_that_cannot_be_read(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'unreadable.db'}"
    with hb.connect(url) as store:
        hb.create_tables(store, Hit)
        with hb.Session(store) as session:
            session.add_all(Hit(at=DAY + timedelta(hours=n), page=f"p{n}") for n in range(3))
        (batches,) = store.scan("cli_hits", [Scan()])
        broken = sorted(row.row for batch in batches for row in batch)[0]
        store.put("cli_hits", [Put(broken, {b"d:p": b"\xff"})])
    refused = run(url, "scan", "cli_hits")
    assert refused.exit_code == 1
    assert "use --skip-unreadable to show the rows after it. (decoding-error)" in refused.output
    assert "on_unreadable" not in refused.output
    shown = run(url, "scan", "cli_hits", "--skip-unreadable", "--json")
    assert shown.exit_code == 1
    assert len(shown.stdout.splitlines()) == 2
    (line,) = shown.stderr.splitlines()
    assert line.startswith("left out: Stored bytes are not UTF-8. [table='cli_hits', key=")
    assert run(url, "scan", "cli_hits", "--skip-unreadable", "--explain").exit_code == 0
