"""The command that lists the programs on the writers' roll of a table, on a file and on HBase."""

from __future__ import annotations

import json
import os
import socket
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result

import hbmodel as hb
from hbmodel.protocol.roll_line_format import NOTHING, RollLine, Writer
from hbmodel.store import Put
from hbmodel.tables.registry.read_roll import LINE, line_key
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tools.cli import main


@hb.model(table="cli_rolled", family="d")
class Thing:
    name: hb.Key[str] = hb.key()
    rank: hb.Column[int] = hb.column("r", hb.codecs.UInt8)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A file with the table, which no program writes."""
    found = f"embedded:{tmp_path / 'store.db'}"
    with hb.connect(found) as store:
        hb.create_tables(store, Thing)
    return found


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["writers", *arguments, "--store", url])


def test_of_a_table_without_writers_a_sentence_is_printed(url: str) -> None:
    result = run(url, "cli_rolled")
    assert (result.exit_code, result.output) == (
        0,
        "This store keeps no list of programs, because changes of its indexes do not wait for other programs.\n",
    )
    assert run(url, "cli_rolled", "--json").output == ""


def test_a_program_that_cannot_be_told_is_listed_too(url: str) -> None:
    with hb.connect(url) as store:
        line = b"\x02" + registry_row(hb.schema.schema_of(Thing)) + b"\x00" + b"x" * 16
        store.put("hbmodel", [Put(line, {b"m:w": b'{"form":2}'})])
    result = run(url, "cli_rolled")
    assert result.exit_code == 0
    assert result.output.startswith("cli_rolled: ?, process 0 on ?: unknown, seen ")
    told = json.loads(run(url, "cli_rolled", "--json").output)
    assert (told["table"], told["state"], told["until"]) == ("cli_rolled", "unknown", None)


def test_a_table_that_the_registry_does_not_know_is_an_error(url: str) -> None:
    result = run(url, "other")
    assert result.exit_code == 2
    assert "The registry does not know the table" in result.output


def put_line(url: str, age: int) -> None:
    """Puts the line of a program that was killed `age` ms ago, with a lease of an hour and calls of up to 10 hours."""
    line = RollLine(1, "on", NOTHING, 3_600_000, 36_000_000, (), Writer("one", 7, "job.py"))
    with hb.connect(url) as store:
        stamp = Registry(store, "hbmodel").server_time() - age
        key = line_key(registry_row(hb.schema.schema_of(Thing)), b"a" * 16)
        store.put("hbmodel", [Put(key, {LINE: line.encode()}, stamp)])


def test_a_program_that_was_killed_is_forgotten(url: str) -> None:
    put_line(url, 3 * 3_600_000)
    assert "line " + "61" * 16 in run(url, "cli_rolled").output
    refused = run(url, "cli_rolled", "--forget", "one:7")
    assert refused.exit_code == 2
    assert "may still be carried out" in refused.output
    assert "reason='for another " in refused.output
    forgotten = run(url, "cli_rolled", "--forget", "one:7", "--longest-call", "10m", "--dead-for", "2h")
    assert forgotten.exit_code == 0
    assert forgotten.output.startswith(
        "no change waits for it any more: cli_rolled: job.py, process 7 on one: ended, seen "
    )
    told = json.loads(run(url, "cli_rolled", "--forget", "61" * 16, "--json").output)
    assert (told["state"], told["line"], told["until"]) == ("ended", "61" * 16, None)


def test_a_program_that_may_be_alive_is_forgotten_only_if_it_is_said_to_be_dead(url: str) -> None:
    put_line(url, 3_000_000)
    refused = run(url, "cli_rolled", "--forget", "one:7", "--longest-call", "10s")
    assert refused.exit_code == 2
    assert "may still be running" in refused.output
    forgotten = run(url, "cli_rolled", "--forget", "one:7", "--longest-call", "10s", "--dead-for", "40m")
    assert forgotten.exit_code == 0


def test_a_line_to_forget_must_be_there(url: str) -> None:
    refused = run(url, "cli_rolled", "--forget", "two:7")
    assert refused.exit_code == 2
    assert "Name exactly one line" in refused.output
    alone = run(url, "cli_rolled", "--dead-for", "1m")
    assert alone.exit_code == 2
    assert "--dead-for needs --forget." in alone.output


@pytest.mark.hbase
def test_programs_that_write_are_listed(hbmodel_hbase: Any) -> None:
    url = f"{hbmodel_hbase.thrift2_url}?table_prefix=r{uuid4().hex[:8]}"
    with hb.connect(url) as store, hb.Session(store) as session:
        hb.create_tables(store, Thing)
        assert run(url, "cli_rolled").output == "No program is on the writers' roll of this table.\n"
        session.add(Thing(name="a", rank=1))
        session.commit()
        shown = run(url, "cli_rolled")
        assert shown.exit_code == 0
        assert f"process {os.getpid()} on {socket.gethostname()}: writing, seen " in shown.output
        told = json.loads(run(url, "cli_rolled", "--json").output)
    assert (told["table"], told["state"], told["pid"]) == ("cli_rolled", "writing", os.getpid())
    assert datetime.fromisoformat(told["seen"]) < datetime.fromisoformat(told["until"])
