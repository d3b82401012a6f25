from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import happybase
import psutil
import pytest

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase import (
    VERSIONS,
    LocalHBase,
    Settings,
    Status,
    hbase_configuration,
    ports,
    processes,
    readiness,
    start_and_stop,
)
from hbmodel.localhbase import directory as directories
from hbmodel.localhbase.processes import Process
from tests.support import fake_java
from tests.support.waiting import wait_until


def one_line(error: pytest.ExceptionInfo[LocalHBaseError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def processes_of(directory: Path) -> list[Process]:
    return processes.marked(hbase_configuration.mark(directory))


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


# --- start and stop, with a fake Java ---------------------------------------------------------------------------------


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A directory for an HBase whose processes are played by `fake_java`; what a test leaves running there is ended."""
    (tmp_path / "bin").mkdir()
    fake_java.install(monkeypatch, tmp_path / "bin")
    directory = tmp_path / "hbase"
    yield directory
    if directory.exists():
        start_and_stop.stop(directory, grace=0)


@pytest.mark.lengthy
def test_start_status_stop(fake: Path) -> None:
    assert start_and_stop.status(fake) is None
    assert start_and_stop.stop(fake) is False
    started = start_and_stop.start(fake)
    assert started == start_and_stop.status(fake)
    assert started.state == "running"
    assert set(started.pids) == {"server", "thrift1", "thrift2"}
    assert {process.pid for process in processes_of(fake)} == set(started.pids.values())
    assert started.url == f"hbase://127.0.0.1:{started.ports['thrift1']}"
    assert started.thrift2_url == f"hbase+thrift2://127.0.0.1:{started.ports['thrift2']}"
    assert "completed" in started.logs["server"].read_text()
    assert start_and_stop.stop(fake) is True
    assert processes_of(fake) == []
    assert start_and_stop.status(fake) is None


@pytest.mark.lengthy
def test_a_second_start_changes_nothing(fake: Path) -> None:
    first = start_and_stop.start(fake, settings=Settings(gateways=("thrift1",)))
    assert start_and_stop.start(fake) == first
    assert first.thrift2_url is None
    with pytest.raises(LocalHBaseError, match="An HBase with other settings is running in"):
        start_and_stop.start(fake, settings=Settings())
    with pytest.raises(LocalHBaseError, match="other settings"):
        start_and_stop.start(fake, ports={"thrift1": first.ports["thrift1"] - 1})
    with pytest.raises(LocalHBaseError, match="An HBase is already running in the"):
        LocalHBase(fake).start()
    assert start_and_stop.status(fake) == first


@pytest.mark.lengthy
def test_a_directory_keeps_the_version_that_wrote_it(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HBASE_HOME", raising=False)
    started = start_and_stop.start(fake, settings=Settings(gateways=("thrift1",), version="2.4.17"))
    assert started.version == started.as_json()["version"] == "2.4.17"
    assert start_and_stop.start(fake, settings=Settings(gateways=("thrift1",))) == started
    with pytest.raises(LocalHBaseError, match="other settings"):
        start_and_stop.start(fake, settings=Settings(gateways=("thrift1",), version="2.5.8"))
    start_and_stop.kill(fake, "thrift1")
    monkeypatch.setenv("HBASE_HOME", str(fake))  # what runs is completed with what it was started with
    assert start_and_stop.version_to_start(fake, None) == "2.4.17"
    start_and_stop.stop(fake, grace=0)
    assert start_and_stop.version_to_start(fake, None) is None
    assert start_and_stop.version_to_start(fake, "2.5.8") == "2.5.8"
    monkeypatch.delenv("HBASE_HOME")
    again = start_and_stop.start(fake)
    assert again.version == "2.4.17"
    start_and_stop.stop(fake, grace=0)
    newer = start_and_stop.start(fake, settings=Settings(version="2.5.8"))
    assert newer.version == "2.5.8"
    start_and_stop.stop(fake, grace=0)
    with pytest.raises(LocalHBaseError, match="written by a newer version") as error:
        start_and_stop.start(fake, settings=Settings(version="2.4.17"))
    assert (error.value.found, error.value.version) == ("2.5.8", "2.4.17")
    one_line(error)
    assert processes_of(fake) == []


def test_a_version_that_cannot_be_had_is_refused_before_anything_starts(fake: Path) -> None:
    with pytest.raises(LocalHBaseError, match="cannot download this version"):
        LocalHBase(fake, version="1.4")
    assert not fake.exists()


@pytest.mark.lengthy
def test_one_object_is_started_once(fake: Path) -> None:
    with (
        LocalHBase(fake) as hbase,
        pytest.raises(LocalHBaseError, match="This HBase was started already: enter its `with` block only once"),
    ):
        hbase.start()


def test_without_a_directory_for_temporary_files_one_must_be_named(
    fake: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(LocalHBaseError, match="No temporary directory can be made; name a directory"):
        LocalHBase().start()


@pytest.mark.lengthy
def test_an_hbase_that_another_process_stopped_has_no_status(fake: Path) -> None:
    with LocalHBase(fake) as hbase:
        start_and_stop.stop(fake, grace=0)
        with pytest.raises(LocalHBaseError, match="Another process stopped this HBase; start it again"):
            hbase.status()


@pytest.mark.lengthy
def test_starts_at_once_in_one_directory_start_one(fake: Path) -> None:
    found: list[Status] = []
    threads = [threading.Thread(target=lambda: found.append(start_and_stop.start(fake))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert found[0] == found[1] == found[2]
    assert len(processes_of(fake)) == 3


@pytest.mark.lengthy
def test_two_directories_are_two_hbases(fake: Path, tmp_path: Path) -> None:
    with LocalHBase(fake) as one, LocalHBase() as two:
        assert not set(one.ports.values()) & set(two.ports.values())
        assert not set(one.pids.values()) & set(two.pids.values())
        start_and_stop.stop(fake, grace=0)
        assert two.status().running


@pytest.mark.lengthy
def test_the_next_start_uses_the_same_ports(fake: Path) -> None:
    before = start_and_stop.start(fake).ports
    start_and_stop.stop(fake)
    assert start_and_stop.start(fake).ports == before


@pytest.mark.lengthy
def test_kill_and_restart_keep_the_port(fake: Path) -> None:
    with LocalHBase(fake) as hbase:
        before = hbase.status()
        hbase.kill_server()
        assert hbase.status().missing == ("server",)
        assert hbase.status().state == "failed"
        hbase.restart_server()
        hbase.kill_gateway("thrift2")
        assert hbase.status().missing == ("thrift2",)
        assert hbase.status().state == "partial"
        hbase.restart_gateway("thrift2")
        after = hbase.status()
        assert after.running
        assert after.ports == before.ports
        assert after.pids["thrift1"] == before.pids["thrift1"]
        assert after.pids["server"] != before.pids["server"]
        with pytest.raises(LocalHBaseError, match="There is no such gateway"):
            hbase.kill_gateway("server")


@pytest.mark.lengthy
def test_start_brings_back_what_has_died(fake: Path) -> None:
    before = start_and_stop.start(fake)
    start_and_stop.kill(fake, "thrift1")
    after = start_and_stop.start(fake)
    assert after.running
    assert after.ports == before.ports
    assert after.pids["server"] == before.pids["server"]


@pytest.mark.lengthy
def test_everything_dead_is_started_anew(fake: Path) -> None:
    before = start_and_stop.start(fake)
    processes.end(processes_of(fake), grace=0)
    found = start_and_stop.status(fake)
    assert found is not None
    assert found.missing == ("server", "thrift1", "thrift2")
    with LocalHBase(fake) as hbase:
        assert hbase.ports == before.ports


def test_kill_needs_something_to_kill(fake: Path) -> None:
    with pytest.raises(LocalHBaseError, match="directory"):
        start_and_stop.kill(fake, "server")
    start_and_stop.start(fake, settings=Settings(gateways=()))
    with pytest.raises(LocalHBaseError, match="was not started in the directory"):
        start_and_stop.kill(fake, "thrift1")
    with pytest.raises(LocalHBaseError, match="There is no such process"):
        start_and_stop.restart(fake, "thrift3")


@pytest.mark.lengthy
@pytest.mark.parametrize("role", ["server", "thrift1"])
def test_a_process_that_dies_at_its_start_is_quoted(fake: Path, monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    monkeypatch.setenv(f"FAKE_{role.upper()}", "die")
    with pytest.raises(LocalHBaseError, match="HBase exited during its start") as error:
        start_and_stop.start(fake)
    text = one_line(error)
    assert str(fake / "logs" / f"{role}.log") in text
    assert "Caused by: java.lang.IllegalStateException: no luck today" in text
    assert processes_of(fake) == []
    assert start_and_stop.status(fake) is None


@pytest.mark.lengthy
def test_a_start_that_takes_too_long_leaves_nothing(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_THRIFT2", "mute")
    with pytest.raises(LocalHBaseError, match="HBase did not answer in time") as error:
        start_and_stop.start(fake, timeout=5)
    assert error.value.process == "thrift2"
    one_line(error)
    assert processes_of(fake) == []


@pytest.mark.parametrize("again", [False, True], ids=["start", "restart"])
def test_a_directory_that_is_deleted_during_a_start_leaves_no_process(
    fake: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    if again:
        start_and_stop.start(fake, settings=Settings(gateways=()))

    def ready(directory: Path) -> bool:
        (directory / "state.json").unlink()
        return True

    monkeypatch.setattr("hbmodel.localhbase.startup.server_is_ready", ready)
    with pytest.raises(
        LocalHBaseError, match="HBase was stopped, or its directory deleted, while it was starting; start HBase again"
    ) as error:
        _ = (
            start_and_stop.restart(fake, "server")
            if again
            else start_and_stop.start(fake, settings=Settings(gateways=()))
        )
    assert str(fake) in one_line(error)
    assert processes_of(fake) == []


@pytest.mark.lengthy
@pytest.mark.parametrize("role", ["server", "thrift2"])
def test_a_port_lost_to_another_program_is_chosen_anew(
    fake: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, role: str
) -> None:
    chosen: list[dict[str, int]] = []

    def choose(*arguments: object, **named: object) -> dict[str, int]:
        chosen.append(ports.choose_ports(*arguments, **named))  # type: ignore[arg-type]
        return chosen[-1]

    monkeypatch.setattr("hbmodel.localhbase.startup.choose_ports", choose)
    taken = tmp_path / "taken"
    taken.write_text(role)
    monkeypatch.setenv("FAKE_TAKEN", str(taken))
    assert start_and_stop.start(fake).ports == chosen[1]
    assert len(chosen) == 2
    assert len(processes_of(fake)) == 3


def test_a_given_port_that_is_taken_is_one_sentence(fake: Path, listener: int) -> None:
    with pytest.raises(LocalHBaseError, match="The port is taken; name another one") as error:
        start_and_stop.start(fake, ports={"thrift1": listener})
    assert str(listener) in one_line(error)
    with pytest.raises(LocalHBaseError, match="no such port"):
        start_and_stop.start(fake, ports={"thrift9": 1})


def test_directories_that_cannot_be_used(fake: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for directory, message in (
        (file / "hbase", "The directory is not writable"),
        (tmp_path / "a:b", "The directory's path contains one of"),
    ):
        with pytest.raises(LocalHBaseError, match=message) as error:
            start_and_stop.start(directory)
        assert str(directory) in one_line(error)


@pytest.mark.lengthy
def test_a_record_that_cannot_be_read_is_one_sentence(fake: Path) -> None:
    start_and_stop.start(fake)
    start_and_stop.stop(fake)
    record = fake / "state.json"
    for text, message in (
        ('{"format": 99}', "The directory was written by another release of hbmodel"),
        ("{", "cannot be read; delete this file"),
    ):
        record.write_text(text)
        with pytest.raises(LocalHBaseError, match=message) as error:
            start_and_stop.status(fake)
        assert str(record) in one_line(error)
    record.unlink()


@pytest.mark.lengthy
def test_an_id_that_now_belongs_to_another_process_is_left_alone(fake: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-IS", "-c", "import time; time.sleep(600)"]
    bystander = processes.spawn(command, environment={}, output=tmp_path / "output")
    try:
        start_and_stop.start(fake)
        state = directories.read_state(fake)
        assert state is not None
        processes.end([state.processes["server"]], grace=0)
        directories.write_state(fake, state.with_process("server", Process(bystander.pid, bystander.created - 60)))
        found = start_and_stop.status(fake)
        assert found is not None
        assert found.missing == ("server",)
        start_and_stop.kill(fake, "server")
        start_and_stop.stop(fake, grace=0)
        assert processes.is_alive(bystander)
    finally:
        processes.end([bystander], grace=0)


@pytest.mark.lengthy
def test_a_process_that_was_never_recorded_is_ended(fake: Path) -> None:
    before = start_and_stop.start(fake)
    (fake / "state.json").unlink()
    assert start_and_stop.status(fake) is None
    after = start_and_stop.start(fake)
    assert {process.pid for process in processes_of(fake)} == set(after.pids.values())
    assert not set(before.pids.values()) & set(after.pids.values())
    (fake / "state.json").unlink()
    assert start_and_stop.stop(fake, grace=0) is True
    assert processes_of(fake) == []


@pytest.mark.lengthy
def test_stop_kills_what_does_not_stop(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SERVER", "stubborn")
    start_and_stop.start(fake)
    assert start_and_stop.stop(fake, grace=0.5) is True
    assert processes_of(fake) == []


# --- the context manager and its end ----------------------------------------------------------------------------------


@pytest.mark.lengthy
def test_a_temporary_hbase_leaves_nothing(fake: Path) -> None:
    with LocalHBase() as hbase:
        directory, pids = hbase.directory, hbase.pids
        watchdog = directories.read_state(directory).processes["watchdog"]  # type: ignore[union-attr]
        assert set(pids) == {"server", "thrift1", "thrift2"}
        assert processes.is_alive(watchdog)
    assert not directory.exists()
    assert not any(psutil.pid_exists(pid) for pid in pids.values())
    assert not processes.is_alive(watchdog)
    with pytest.raises(LocalHBaseError, match="This HBase is not running"):
        _ = hbase.url


@pytest.mark.lengthy
def test_a_named_directory_stays(fake: Path) -> None:
    with LocalHBase(fake, gateways=["thrift1"]) as hbase, pytest.raises(LocalHBaseError, match="without that gateway"):
        _ = hbase.thrift2_url
    assert processes_of(fake) == []
    assert (fake / "logs" / "server.log").exists()
    for name in ("server", "gateways"):
        text = (fake / "conf" / name / "hadoop-metrics2-hbase.properties").read_text()
        assert text == "*.source.start_mbeans = false\n"


@pytest.mark.lengthy
def test_an_error_that_points_to_a_log_leaves_the_log(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SERVER", "die")
    with pytest.raises(LocalHBaseError) as error:
        LocalHBase().start()
    log = Path(error.value.log)
    assert "no luck today" in log.read_text()
    assert [entry.name for entry in log.parent.parent.iterdir()] == ["logs"]
    start_and_stop.remove(log.parent.parent)


OWNER = """
import os, sys, time
import pytest
from tests.support import fake_java
from pathlib import Path
from hbmodel.localhbase import LocalHBase
fake_java.install(pytest.MonkeyPatch(), Path(sys.argv[1]))
hbase = LocalHBase(sys.argv[2] or None)
if sys.argv[3] == "leave":
    print(hbase.start().directory, flush=True)
    sys.exit()
with hbase:
    print(hbase.directory, flush=True)
    time.sleep(600)
"""


@pytest.mark.lengthy
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("end", ["kill", "leave"])
def test_an_hbase_goes_when_its_owner_dies(tmp_path: Path, named: bool, end: str) -> None:
    given = str(tmp_path / "hbase") if named else ""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), given, end], stdout=subprocess.PIPE, text=True, env=environment
    ) as owner:
        assert owner.stdout is not None
        directory = Path(owner.stdout.readline().strip())
        watchdog = directories.read_state(directory).processes["watchdog"]  # type: ignore[union-attr]
        if end == "kill":
            assert len(processes_of(directory)) == 3
            owner.kill()
    wait_until(lambda: not processes.is_alive(watchdog))
    assert processes_of(directory) == []
    assert directory.exists() is named


@pytest.mark.lengthy
def test_a_shared_hbase_outlives_those_who_share_it(fake: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        with LocalHBase(fake, owner=owner.pid, temporary=True) as one:
            pids = one.pids
        with LocalHBase(fake, owner=owner.pid, temporary=True) as two:
            assert two.pids == pids
            assert two.status().owner == owner.pid
        owner.kill()
    wait_until(lambda: not fake.exists())
    assert processes_of(fake) == []
    with pytest.raises(LocalHBaseError, match="needs a directory"):
        LocalHBase(owner=1)


# --- a real one -------------------------------------------------------------------------------------------------------


@pytest.fixture
def real() -> Iterator[LocalHBase]:
    hbase = LocalHBase()
    try:
        hbase.start()
    except LocalHBaseError as error:
        if os.environ.get("HBMODEL_REQUIRE_HBASE") == "1":
            raise
        pytest.skip(f"no HBase: {error}")
    yield hbase
    hbase.stop()


@pytest.mark.hbase
@pytest.mark.slow  # the tests that kill processes under programs end, restart and leave one too
def test_a_real_hbase_keeps_rows_over_a_crash_and_leaves_nothing(real: LocalHBase) -> None:
    def table() -> happybase.Table:
        return happybase.Connection("127.0.0.1", real.ports["thrift1"], timeout=120_000).table("t")

    log = (real.directory / "logs" / "server.log").read_text()
    assert "loaded properties from hadoop-metrics2-hbase.properties" in log
    happybase.Connection("127.0.0.1", real.ports["thrift1"], timeout=120_000).create_table("t", {"d": {}})
    for number in range(100):
        table().put(b"row %d" % number, {b"d:x": b"value"})
    assert table().row(b"row 1") == {b"d:x": b"value"}
    real.kill_server()
    real.restart_server()
    assert sum(1 for _ in table().scan()) == 100
    real.kill_gateway("thrift1")
    real.restart_gateway("thrift1")
    assert table().row(b"row 99") == {b"d:x": b"value"}
    assert readiness.gateway_answers("thrift2", real.ports["thrift2"], {}, timeout=30)
    directory, pids = real.directory, real.pids
    real.stop()
    assert not directory.exists()
    assert processes_of(directory) == []
    assert not any(psutil.pid_exists(pid) for pid in pids.values())


@pytest.mark.hbase
@pytest.mark.slow  # it starts and stops two servers
def test_a_newer_version_takes_over_the_data_of_an_older_one(tmp_path: Path) -> None:
    def table(hbase: LocalHBase) -> happybase.Table:
        return happybase.Connection("127.0.0.1", hbase.ports["thrift1"], timeout=120_000).table("t")

    with LocalHBase(tmp_path / "hbase", gateways=["thrift1"], version=VERSIONS[0]) as older:
        happybase.Connection("127.0.0.1", older.ports["thrift1"], timeout=120_000).create_table("t", {"d": {}})
        for number in range(100):
            table(older).put(b"row %d" % number, {b"d:x": b"value"})
    with LocalHBase(tmp_path / "hbase", gateways=["thrift1"], version=VERSIONS[-1]) as newer:
        assert sum(1 for _ in table(newer).scan()) == 100
