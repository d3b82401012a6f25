"""Start, stop and look at the HBase of a directory; kill and restart its processes one by one."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase import configuration, processes
from hbmodel.localhbase.configuration import GATEWAYS, ROLES, SERVER, Settings
from hbmodel.localhbase.directory import (
    State,
    Status,
    locked,
    log_file,
    make,
    output_file,
    read_state,
    resolved,
    write_state,
)
from hbmodel.localhbase.jars import class_path
from hbmodel.localhbase.java import Java, find_java
from hbmodel.localhbase.locks import POLL_INTERVAL
from hbmodel.localhbase.ports import ADDRESS, choose_ports
from hbmodel.localhbase.processes import Process
from hbmodel.localhbase.readiness import gateway_answers, last_trouble, port_was_taken, server_is_ready

WATCHDOG = "watchdog"
START_TIMEOUT = 120.0
"""Seconds that a start may take, the download of the jars left out."""

STOP_GRACE = 10.0
"""Seconds that processes have to stop by themselves. A server that is killed then has lost nothing: its log of writes is on disk."""

_PORT_ATTEMPTS = 4
_ANSWER_TIMEOUT = 5.0  # seconds for one probing call to a gateway

Directory = str | os.PathLike[str] | None


def start(
    directory: Directory = None,
    *,
    settings: Settings | None = None,
    ports: Mapping[str, int] | None = None,
    timeout: float = START_TIMEOUT,
    progress: bool = True,
    owner: int | None = None,
    temporary: bool = False,
) -> Status:
    """Start an HBase and wait until it answers. What runs already is left as it is; what of it has died is started again.

    Args:
        directory: where it lives; the user's default directory if None. Data in it is kept and used again.
        settings: gateways, heaps and properties; the defaults if None. For an HBase that runs, None takes it as it is.
        ports: ports to use, by name (`zookeeper`, `master`, `regionserver`, `thrift1`, `thrift2`); the others are those of the last run in this
            directory if they are free, else free ones.
        timeout: seconds that the start may take, the download of the jars left out.
        progress: show the download of the jars, if there is one, on standard error.
        owner: process id; this HBase is stopped when that process is gone, however it ends. None lets it run until it is stopped.
        temporary: delete the directory when the owner is gone.

    Raises:
        LocalHBaseError: it cannot be started; the message says why and what to do. Nothing is left running then.
    """
    path = resolved(directory)
    # Before the lock: a download may take minutes.
    java, jars = find_java(), class_path(progress=progress)
    make(path)
    with locked(path):
        state = read_state(path)
        if state and _alive(state):
            _refuse_other_settings(path, state, settings, ports or {})
            _start_roles(path, state, [role for role in state.settings.roles if not _runs(state, role)], java, jars, timeout)
        else:
            before = state.ports if state else {}
            # A start that was killed may have left a process that it had no time to record.
            processes.end(processes.marked(configuration.mark(path)), grace=0)
            new = State(settings or Settings(), {}, owner=processes.known(owner) if owner else None, temporary=temporary)
            _start_anew(path, new, ports or {}, before, java, jars, timeout)
        found = status(path)
    if found is None:
        raise LocalHBaseError("HBase ended as soon as it had started; its log says why.", log=str(log_file(path, SERVER)))
    return found


def stop(directory: Directory = None, *, grace: float = STOP_GRACE) -> bool:
    """Stop everything that runs in a directory and wait until it is gone. Data stays.

    Args:
        directory: the user's default directory if None.
        grace: seconds that the processes have to stop by themselves before they are killed; 0 kills at once.

    Returns:
        False if nothing ran.

    Raises:
        LocalHBaseError: a process cannot be ended.
    """
    path = resolved(directory)
    if not path.is_dir():
        return False
    with locked(path):
        state = read_state(path)
        hbase = [process for role, process in state.processes.items() if role != WATCHDOG] if state else []
        running = [process for process in hbase if processes.is_alive(process)]
        strays = [process for process in processes.marked(configuration.mark(path)) if process.pid not in {each.pid for each in running}]
        processes.end([*running, *strays], grace=grace)
        # The watchdog last: until here it stands in for an owner that dies in this very function.
        if state and (watchdog := state.processes.get(WATCHDOG)) and watchdog.pid != os.getpid():
            processes.end([watchdog], grace=0)
        if state:
            write_state(path, evolve(state, processes={}, owner=None))
    return bool(running or strays)


def status(directory: Directory = None) -> Status | None:
    """What was started in a directory and not stopped since, as it is now; None if nothing was.

    Args:
        directory: the user's default directory if None.
    """
    path = resolved(directory)
    state = read_state(path)
    if state is None or not any(role in state.processes for role in ROLES):
        return None
    roles = state.settings.roles
    pids = {role: state.processes[role].pid for role in roles if _runs(state, role)}
    return Status(
        directory=path,
        pids=pids,
        missing=tuple(role for role in roles if role not in pids),
        ports=state.ports,
        url=f"hbase://{ADDRESS}:{state.ports['thrift1']}" if "thrift1" in roles else None,
        thrift2_url=f"hbase+thrift2://{ADDRESS}:{state.ports['thrift2']}" if "thrift2" in roles else None,
        logs={role: log_file(path, role) for role in roles},
        owner=state.owner.pid if state.owner else None,
    )


def kill(directory: Directory, role: str) -> None:
    """Kill one process on the spot (SIGKILL), as a crash would.

    Args:
        directory: the user's default directory if None.
        role: `server`, `thrift1` or `thrift2`.

    Raises:
        LocalHBaseError: nothing was started in the directory, or not this process.
    """
    path = resolved(directory)
    with locked(path):
        processes.end([_recorded(path, role).processes[role]], grace=0)


def restart(directory: Directory, role: str, *, timeout: float = START_TIMEOUT) -> Status:
    """Start one process again on its old port, and wait until it answers; if it still runs, it is killed first.

    Args:
        directory: the user's default directory if None.
        role: `server`, `thrift1` or `thrift2`.
        timeout: seconds that the start may take.

    Raises:
        LocalHBaseError: nothing was started in the directory, or not this process, or it does not start.
    """
    path = resolved(directory)
    java, jars = find_java(), class_path()
    with locked(path):
        state = _recorded(path, role)
        processes.end([state.processes[role]], grace=0)
        _start_roles(path, state, [role], java, jars, timeout)
        found = status(path)
    if found is None:
        raise LocalHBaseError("HBase was stopped while it started.", directory=str(path))
    return found


def _alive(state: State) -> bool:
    return any(_runs(state, role) for role in ROLES)


def _runs(state: State, role: str) -> bool:
    return role in state.processes and processes.is_alive(state.processes[role])


def _recorded(path: Path, role: str) -> State:
    if role not in ROLES:
        raise LocalHBaseError("The processes are 'server', 'thrift1' and 'thrift2'.", found=role)
    state = read_state(path)
    if state is None or role not in state.processes:
        raise LocalHBaseError("This process was not started in the directory; start HBase with it first.", process=role, directory=str(path))
    return state


def _refuse_other_settings(path: Path, state: State, settings: Settings | None, ports: Mapping[str, int]) -> None:
    other_ports = any(state.ports.get(name) != port for name, port in ports.items())
    if other_ports or (settings is not None and settings != state.settings):
        raise LocalHBaseError("An HBase with other settings runs in the directory; stop it first, or choose another one.", directory=str(path))


def _start_anew(path: Path, state: State, given: Mapping[str, int], before: Mapping[str, int], java: Java, jars: str, timeout: float) -> None:
    """Choose ports and start everything; if another program was faster on a chosen port, choose again."""
    names = state.settings.port_names
    if unknown := sorted(set(given) - set(names)):
        raise LocalHBaseError("There is no such port to choose.", found=unknown, known=list(names))
    for attempt in range(1, _PORT_ATTEMPTS + 1):
        state = evolve(state, ports=choose_ports(names, given=given, before=before), processes={})
        try:
            if state.owner:
                state = state.with_process(WATCHDOG, _start_watchdog(path, state))
            _start_roles(path, state, state.settings.roles, java, jars, timeout)
            return
        except BaseException as error:
            _clear(path)
            if not (isinstance(error, _PortTaken) and attempt < _PORT_ATTEMPTS):
                raise
            before = {}


def _clear(path: Path) -> None:
    """End all that a failed start began."""
    state = read_state(path)
    if state:
        processes.end(state.processes.values(), grace=0)
        processes.end(processes.marked(configuration.mark(path)), grace=0)
        write_state(path, evolve(state, processes={}, owner=None))


def _start_watchdog(path: Path, state: State) -> Process:
    """The process that stops this HBase when its owner is gone; it must be there before what it watches over."""
    if state.owner is None:
        raise LocalHBaseError("Only an HBase with an owner has a watchdog.", directory=str(path))
    temporary = ["--temporary"] if state.temporary else []
    command = [sys.executable, "-W", "ignore", "-m", "hbmodel.localhbase.watchdog", str(path), str(state.owner.pid), repr(state.owner.created)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    return processes.spawn([*command, *temporary], environment=environment, output=output_file(path, WATCHDOG))


@frozen
class _Launch:
    """One process while it starts."""

    role: str
    process: Process
    port: int
    properties: Mapping[str, str]


class _PortTaken(LocalHBaseError):
    """A process found one of its ports taken."""


def _start_roles(path: Path, state: State, roles: Sequence[str], java: Java, jars: str, timeout: float) -> None:
    """Start processes side by side, record each, and wait until all answer. Gateways wait for the server by themselves."""
    write_state(path, state)
    launched: list[_Launch] = []
    try:
        for role in roles:
            launch = _launch(path, state, role, java, jars)
            launched.append(launch)
            state = state.with_process(role, launch.process)
            write_state(path, state)
        _await(path, launched, timeout)
    except BaseException:
        processes.end([launch.process for launch in launched], grace=0)
        raise


def _launch(path: Path, state: State, role: str, java: Java, jars: str) -> _Launch:
    properties = configuration.site_properties(role, path, state.settings, state.ports)
    conf = path / "conf" / ("server" if role == SERVER else "gateways")
    try:
        (conf / "hbase-site.xml").write_text(configuration.site_xml(properties), "utf-8")
        (conf / "log4j.properties").write_text(configuration.LOG4J_PROPERTIES, "utf-8")
        (conf / "log4j2.properties").write_text(configuration.LOG4J2_PROPERTIES, "utf-8")
        # A log of this run alone: whether the server is ready is read from it.
        log = log_file(path, role)
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
    except OSError as error:
        raise LocalHBaseError("The directory cannot be written; choose another one.", directory=str(path), cause=error.strerror) from error
    process = processes.spawn(
        configuration.command(role, path, state.settings, state.ports, java),
        environment={**os.environ, "CLASSPATH": f"{conf}{os.pathsep}{jars}"},
        output=output_file(path, role),
    )
    return _Launch(role, process, state.ports["zookeeper" if role == SERVER else role], properties)


def _await(path: Path, launched: Iterable[_Launch], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    # The server first: a gateway that is asked before it answers late, because its own retries slow down.
    for launch in sorted(launched, key=lambda each: ROLES.index(each.role)):
        while not _is_ready(path, launch):
            for each in launched:
                if not processes.is_alive(each.process):
                    _explain(path, each)
            if time.monotonic() >= deadline:
                raise LocalHBaseError(
                    "HBase did not answer in time; look at its log, or allow a longer timeout.",
                    process=launch.role,
                    timeout=timeout,
                    log=str(log_file(path, launch.role)),
                    last_error=last_trouble(path, launch.role),
                )
            time.sleep(POLL_INTERVAL)


def _is_ready(path: Path, launch: _Launch) -> bool:
    if launch.role == SERVER:
        return server_is_ready(path)
    # That it listens is asked first: another program may have been faster on the port.
    return processes.listens(launch.process, launch.port) and gateway_answers(
        launch.role, launch.port, launch.properties, timeout=_ANSWER_TIMEOUT
    )


def _explain(path: Path, launch: _Launch) -> None:
    """Raise what a process that ended at its start tells in its log."""
    log = log_file(path, launch.role)
    if not log.exists():
        log = output_file(path, launch.role)
    details = {"process": launch.role, "log": str(log), "last_error": last_trouble(path, launch.role)}
    if port_was_taken(path, launch.role):
        raise _PortTaken("A port of HBase was taken by another program while it started; start it again, or name free ports.", **details)
    raise LocalHBaseError("HBase ended while it started; its log says why.", **details)


def remove(directory: Path) -> None:
    """Delete the directory of an HBase that was stopped."""
    shutil.rmtree(directory, ignore_errors=True)


__all__ = ["GATEWAYS", "START_TIMEOUT", "STOP_GRACE", "kill", "remove", "restart", "start", "status", "stop"]
