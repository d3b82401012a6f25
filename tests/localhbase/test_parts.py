from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase import Settings, hbase_configuration, ports, processes, readiness
from hbmodel.localhbase import directory as directories
from hbmodel.localhbase.java import Java
from hbmodel.localhbase.locks import file_lock
from hbmodel.localhbase.processes import Process
from hbmodel.store.gateway.wire.connection import Wire
from tests.support.examples import examples
from tests.support.waiting import wait_until

PORTS = {"zookeeper": 1, "master": 2, "regionserver": 3, "thrift1": 4, "thrift2": 5}


def one_line(error: pytest.ExceptionInfo[LocalHBaseError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


# --- ports ------------------------------------------------------------------------------------------------------------


def test_a_port_that_is_listened_on_is_not_free(listener: int) -> None:
    assert not ports.is_free(listener)
    assert ports.is_free(ports.choose_ports(["a"], given={}, before={})["a"])


def test_a_given_port_is_used_or_refused(listener: int) -> None:
    free = ports.choose_ports(["a"], given={}, before={})["a"]
    assert ports.choose_ports(["a", "b"], given={"b": free}, before={"a": free})["b"] == free
    with pytest.raises(LocalHBaseError, match="The port is taken; name another one") as error:
        ports.choose_ports(["a", "b"], given={"b": listener}, before={})
    assert (error.value.port, error.value.server) == (listener, "b")
    with pytest.raises(LocalHBaseError, match="given twice"):
        ports.choose_ports(["a", "b"], given={"a": free, "b": free}, before={})


def test_ports_of_the_last_run_are_kept_while_they_are_free(listener: int) -> None:
    free = ports.choose_ports(["a"], given={}, before={})["a"]
    chosen = ports.choose_ports(["a", "b"], given={}, before={"a": free, "b": listener})
    assert chosen["a"] == free
    assert chosen["b"] != listener


def test_a_range_without_a_free_port_is_one_sentence(listener: int) -> None:
    with pytest.raises(LocalHBaseError, match="No free port was found; stop other servers or name the ports") as error:
        ports.choose_ports(["a"], given={}, before={}, choice=range(listener, listener + 1))
    assert (error.value.lowest, error.value.highest) == (listener, listener + 1)
    one_line(error)


@settings(max_examples=examples(20))
@given(st.lists(st.text(min_size=1, max_size=3), unique=True, max_size=8), st.integers(20_000, 31_999))
def test_no_port_is_chosen_twice(names: list[str], before: int) -> None:
    chosen = ports.choose_ports(names, given={}, before=dict.fromkeys(names, before))
    assert list(chosen) == names
    assert len(set(chosen.values())) == len(names)
    assert all(port in ports.CHOICE for port in chosen.values())


# --- processes --------------------------------------------------------------------------------------------------------


def spawned(tmp_path: Path, *code: str, mark: str = "-Dno=mark") -> Process:
    return processes.spawn([sys.executable, "-IS", "-c", *code, mark], environment={}, output=tmp_path / "output")


def test_another_process_of_the_same_id_is_not_taken_for_the_recorded_one() -> None:
    me = processes.this_process()
    assert processes.is_alive(me)
    assert not processes.is_alive(Process(me.pid, me.created - 60))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system's time of the start is all there is")
def test_a_process_is_known_again_after_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    me = processes.this_process()
    since_1970 = psutil.Process(me.pid).create_time()
    boot = psutil.boot_time() + 3600
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot)
    assert psutil.Process(me.pid).create_time() > since_1970 + 3000
    assert processes.is_alive(me)
    assert processes.this_process() == me


def test_a_child_that_has_ended_is_dead_and_leaves_no_zombie(tmp_path: Path) -> None:
    process = spawned(tmp_path, "print('said')")
    wait_until(lambda: not processes.is_alive(process))
    assert not psutil.pid_exists(process.pid)
    assert (tmp_path / "output").read_text() == "said\n"
    with pytest.raises(
        LocalHBaseError, match="There is no process with this id; give the id of one that runs"
    ) as error:
        processes.known(process.pid)
    assert error.value.pid == process.pid


@pytest.mark.lengthy
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process whose first thread has ended is no zombie")
def test_a_process_whose_first_thread_has_ended_is_still_there(tmp_path: Path) -> None:
    code = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("one thread goes", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""
    process = spawned(tmp_path, code)
    wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    assert processes.is_alive(process)
    command = [
        sys.executable,
        "-c",
        f"from hbmodel.localhbase.processes import *; print(is_alive(Process({process.pid}, {process.created})))",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout == "True\n"
    processes.end([process], grace=0)
    assert not psutil.pid_exists(process.pid)


def test_a_process_that_ignores_its_end_is_killed(tmp_path: Path) -> None:
    process = spawned(
        tmp_path, "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    wait_until(lambda: bool((tmp_path / "output").read_text()))
    processes.end([process], grace=0.3)
    assert not processes.is_alive(process)


def test_processes_that_cannot_be_ended_are_named(tmp_path: Path) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    process = spawned(tmp_path, "import time; time.sleep(600)")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "kill", lambda pid, number: None)  # as if the system could not carry it out yet
            with pytest.raises(LocalHBaseError, match="A process could not be stopped; stop it by hand") as stuck:
                processes.end([process], grace=0.05, kill_timeout=0.05)
            patch.setattr(os, "kill", refuse)
            with pytest.raises(
                LocalHBaseError, match="The process belongs to another user; only that user can stop it"
            ) as foreign:
                processes.end([process], grace=0.05)
    finally:
        processes.end([process], grace=0)
    assert (stuck.value.pids, foreign.value.pid) == ([process.pid], process.pid)


def test_marked_compares_whole_arguments(tmp_path: Path) -> None:
    mark = f"-Dtest={tmp_path}"
    process = spawned(tmp_path, "import time; time.sleep(600)", mark=mark)
    try:
        wait_until(lambda: processes.marked(mark) == [process])
        assert processes.marked(mark[:-1]) == []
    finally:
        processes.end([process], grace=0)
    assert processes.marked(mark) == []


def test_a_process_is_asked_whether_it_listens_itself(listener: int, tmp_path: Path) -> None:
    assert processes.listens(processes.this_process(), listener)
    other = spawned(tmp_path, "import time; time.sleep(600)")
    try:
        assert not processes.listens(other, listener)
    finally:
        processes.end([other], grace=0)


def test_a_program_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(LocalHBaseError, match=r"could not be started.*No such file") as error:
        processes.spawn([str(tmp_path / "none")], environment={}, output=tmp_path / "output")
    one_line(error)


def test_a_lock_is_waited_for_and_then_refused(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with file_lock(path, timeout=1, busy="Held by the outer block."):
        before = time.monotonic()
        with (
            pytest.raises(LocalHBaseError, match="Somebody is busy"),
            file_lock(path, timeout=0.3, busy="Somebody is busy."),
        ):
            pass
        assert time.monotonic() - before >= 0.3
    with file_lock(path, timeout=0, busy="The lock was not given back."):
        assert path.exists()


@pytest.mark.lengthy
def test_a_forked_child_does_not_keep_a_lock(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from hbmodel.localhbase.locks import file_lock

path = Path(sys.argv[1])
until, end = os.pipe()
with file_lock(path, timeout=1, busy="Held by nobody."):
    child = os.fork()
    if not child:
        os.close(end)
        os.read(until, 1)
        os._exit(0)
with file_lock(path, timeout=1, busy="Kept by the child."):
    print("taken again")
os.close(end)
os.waitpid(child, 0)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, str(tmp_path / "lock")]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout == "taken again\n"
    )


# --- what is said to HBase --------------------------------------------------------------------------------------------


def test_the_commands_of_the_three_processes(tmp_path: Path) -> None:
    java = Java(Path("/j/bin/java"), 21)
    chosen = Settings(server_heap="2g", gateway_heap="300m")
    server, thrift1, thrift2 = (
        hbase_configuration.command(role, tmp_path, chosen, PORTS, java) for role in hbase_configuration.ROLES
    )
    assert server[0] == "/j/bin/java"
    assert server[-2:] == ["org.apache.hadoop.hbase.master.HMaster", "start"]
    assert "-Xmx2g" in server
    assert thrift1[thrift1.index("start") - 1 :] == [
        "org.apache.hadoop.hbase.thrift.ThriftServer",
        *("start", "--port", "4", "--infoport", "-1", "--bind", "127.0.0.1", "-threadpool"),
    ]
    assert "-Xmx300m" in thrift1
    assert "org.apache.hadoop.hbase.thrift2.ThriftServer" in thrift2
    assert all(hbase_configuration.mark(tmp_path) in command for command in (server, thrift1, thrift2))
    assert "--add-opens=java.base/java.nio=ALL-UNNAMED" in server


def test_the_gateway_answers_before_its_caller_hangs_up() -> None:
    """An attempt may begin at the end of an operation's time, with a look-up of its region that is not bounded by
    it.
    """
    gateway = hbase_configuration.site_properties("thrift2", Path("/d"), Settings(), PORTS)

    def seconds(name: str) -> float:
        return int(gateway[name]) / 1000

    operation, rpc, scan = (
        seconds(f"hbase.{name}")
        for name in ("client.operation.timeout", "rpc.timeout", "client.scanner.timeout.period")
    )
    retries = int(gateway["hbase.client.retries.number"])
    waits = 0.1 * sum((1, 2, 3, 5, 10, 20, 40, 100)[:retries])  # of HBase's client
    silent = (
        "hbase.client.meta.operation.timeout",
        "hbase.client.meta.scanner.timeout.period",
        "zookeeper.registry.async.get.timeout",
    )
    look_up = (retries + 1) * max(map(seconds, silent)) + waits
    assert max(operation, scan) + look_up < Wire().timeout - 3
    assert rpc < operation


def test_given_properties_win_and_gateway_properties_are_for_gateways() -> None:
    chosen = Settings(
        properties={"hbase.rpc.timeout": "1", "a": "all"},
        gateway_properties={"a": "gateways", "hbase.thrift.ssl.enabled": "true"},
    )
    server = hbase_configuration.site_properties("server", Path("/d"), chosen, PORTS)
    gateway = hbase_configuration.site_properties("thrift2", Path("/d"), chosen, PORTS)
    assert (server["a"], gateway["a"]) == ("all", "gateways")
    assert server["hbase.rpc.timeout"] == gateway["hbase.rpc.timeout"] == "1"
    assert "hbase.thrift.ssl.enabled" not in server
    assert server["hbase.rootdir"] == "file:///d/data"
    assert server["hbase.zookeeper.property.clientPort"] == gateway["hbase.zookeeper.property.clientPort"] == "1"
    assert (server["hbase.master.port"], server["hbase.regionserver.port"]) == ("2", "3")


XML_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="￾￿"), max_size=20)


@given(st.dictionaries(XML_TEXT, XML_TEXT, max_size=4))
def test_properties_come_back_from_their_xml(properties: dict[str, str]) -> None:
    root = ElementTree.fromstring(hbase_configuration.site_xml(properties).encode())
    assert {entry.findtext("name"): entry.findtext("value") for entry in root} == properties


def test_a_property_that_xml_cannot_hold_is_refused() -> None:
    with pytest.raises(LocalHBaseError, match="An HBase property contains a character"):
        hbase_configuration.site_xml({"a": "\x01"})


@pytest.mark.parametrize("heap", ["", "0", "1 g", "1gb", "-1g", "lots"])
def test_heap_sizes_are_checked(heap: str) -> None:
    with pytest.raises(LocalHBaseError, match="A heap size must be a number and k") as error:
        Settings(gateway_heap=heap)
    assert error.value.setting == "gateway_heap"


def test_gateways_are_checked_and_need_ports_of_their_own() -> None:
    with pytest.raises(LocalHBaseError, match="There is no such gateway"):
        Settings(gateways=("thrift3",))
    assert Settings(gateways=("thrift2", "thrift2")).roles == ("server", "thrift2")
    assert Settings(gateways=()).port_names == ("zookeeper", "master", "regionserver")


# --- readiness and its failure ----------------------------------------------------------------------------------------


@pytest.fixture
def gateway() -> Iterator[Callable[[bytes], int]]:
    """Start a server that answers one connection with these bytes, and give its port."""
    servers: list[socket.socket] = []

    def serve(answer: bytes) -> int:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def run() -> None:
            with contextlib.suppress(OSError):  # the test may be done with the connection, or the server, first
                connection, _ = server.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)

        threading.Thread(target=run, daemon=True).start()
        return server.getsockname()[1]

    yield serve
    for server in servers:
        server.close()


HEAD = b"\x80\x01\x00\x02\x00\x00\x00\x0dgetTableNames\x00\x00\x00\x00"


@pytest.mark.parametrize(
    ("answer", "ready"),
    [
        (HEAD + b"\x0f\x00\x00\x0b\x00\x00\x00\x00\x00", True),
        (HEAD + b"\x0c\x00\x01\x0b\x00\x01", False),  # field 1 is the IOError of a gateway without server
        (b"\x80\x01\x00\x03" + HEAD[4:] + b"\x0b\x00\x01", False),  # an application exception
        (b"HTTP/1.0 400 Bad Request\r\n\r\n", False),
        (b"", False),
    ],
)
def test_only_a_result_counts_as_an_answer(gateway: Callable[[bytes], int], answer: bytes, ready: bool) -> None:
    assert readiness.gateway_answers("thrift1", gateway(answer), {}, timeout=5) is ready


def test_a_gateway_over_http_is_asked_over_http(gateway: Callable[[bytes], int]) -> None:
    properties = {"hbase.regionserver.thrift.http": "true"}
    body = HEAD + b"\x0f\x00\x00\x0b\x00\x00\x00\x00\x00"
    assert readiness.gateway_answers("thrift1", gateway(b"HTTP/1.0 200 OK\r\n\r\n" + body), properties, timeout=5)
    assert not readiness.gateway_answers("thrift1", gateway(body), properties, timeout=5)


def test_of_a_framed_gateway_only_the_connection_is_tested(gateway: Callable[[bytes], int]) -> None:
    properties = {"hbase.regionserver.thrift.framed": "true"}
    port = gateway(b"")
    assert readiness.gateway_answers("thrift1", port, properties, timeout=5)
    free = ports.choose_ports(["a"], given={}, before={})["a"]
    assert not readiness.gateway_answers("thrift1", free, properties, timeout=5)


def test_the_last_trouble_in_a_log_is_quoted(tmp_path: Path) -> None:
    directories.make(tmp_path)
    assert readiness.last_trouble(tmp_path, "server") is None
    output = directories.output_file(tmp_path, "server")
    output.write_text("Error occurred during initialization of VM\nToo small maximum heap\n")
    assert (
        readiness.last_trouble(tmp_path, "server")
        == "Error occurred during initialization of VM Too small maximum heap"
    )
    log = directories.log_file(tmp_path, "server")
    log.write_text(
        "INFO no ERRORs here\n ERROR [main] a: first\njava.io.IOException: x\nCaused by: b: second\n\tat c\nINFO done\n"
    )
    assert readiness.last_trouble(tmp_path, "server") == "Caused by: b: second"
    log.write_text("ERROR " + "x" * 1000)
    assert len(readiness.last_trouble(tmp_path, "server") or "") == 300
