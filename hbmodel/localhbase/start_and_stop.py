"""Starts, stops and inspects the HBase of a directory, and kills and restarts single processes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase import hbase_configuration, processes
from hbmodel.localhbase.directory import (
    State,
    Status,
    locked,
    log_file,
    make,
    read_state,
    resolved,
    write_state,
)
from hbmodel.localhbase.hbase_configuration import ROLES, Settings
from hbmodel.localhbase.jars import class_path, installed_distribution
from hbmodel.localhbase.java import find_java
from hbmodel.localhbase.pinned_jars import HBASE_VERSION, VERSIONS
from hbmodel.localhbase.ports import ADDRESS
from hbmodel.localhbase.startup import WATCHDOG, launcher

START_TIMEOUT = 180.0
"""The number of seconds that a start may take, not counting the download of the jars."""

STOP_GRACE = 10.0
"""The number of seconds that processes have to stop by themselves. A server that is killed after that loses no data,
because its write-ahead log is on disk.
"""

Directory = str | os.PathLike[str] | None


def prepare(version: str | None = None, *, progress: bool = True) -> None:
    """Finds Java and downloads the jars in advance, so that starts are quick and need no network.

    Args:
        version: the version of HBase, one of `VERSIONS`; None means the distribution in `HBASE_HOME` or, if it is not
            set, the newest version.
        progress: whether to show the download on standard error.

    Raises:
        LocalHBaseError: there is no such version or no suitable Java, or the download failed.
    """
    find_java()
    class_path(version, progress=progress)


def version_to_start(directory: Directory, version: str | None) -> str | None:
    """Returns the version of HBase that a start in a directory uses. None means the distribution in `HBASE_HOME`.

    Args:
        directory: the user's default directory if None.
        version: the version that the user has chosen, or None.
    """
    state = read_state(resolved(directory))
    if version is None and state and _alive(state):
        return state.settings.version
    if version is None and installed_distribution() is None:
        return (state.settings.version if state else None) or HBASE_VERSION
    return version


def start(
    directory: Directory = None,
    *,
    settings: Settings | None = None,
    ports: Mapping[str, int] | None = None,
    timeout: float = START_TIMEOUT,
    progress: bool = True,
    owner: int | None = None,
    temporary: bool = False,
    exclusive: bool = False,
) -> Status:
    """Starts an HBase and waits until it answers. Processes that already run are not changed, and processes that have
    ended are started again.

    Args:
        directory: the directory of the HBase; the user's default directory if None. Existing data is kept and used.
        settings: gateways, heaps and properties; the defaults if None. With None, an HBase that already runs keeps its
            settings.
        ports: ports to use, by name (`zookeeper`, `master`, `regionserver`, `thrift1`, `thrift2`); the others are the
            ports of the last run in this directory if they are free, or else any free ports.
        timeout: seconds that the start may take, without the download of the jars.
        progress: whether to show a download of the jars on standard error.
        owner: the id of a process; this HBase is stopped when that process ends for any reason. With None, it runs
            until it is stopped.
        temporary: whether to delete the directory when the owner has ended.
        exclusive: whether to refuse a directory in which an HBase already runs.

    Raises:
        LocalHBaseError: HBase cannot be started; the message says why and what to do. No process that was started here
            is left running.
    """
    path = resolved(directory)
    # The lock is not held during a download, which may take minutes.
    version = version_to_start(path, settings.version if settings else None)
    launch = launcher(path, version, timeout=timeout, progress=progress)
    make(path)
    with locked(path):
        state = read_state(path)
        if state and _alive(state):
            if exclusive:
                raise LocalHBaseError(
                    "An HBase is already running in the directory; stop it first, or choose another directory.",
                    directory=str(path),
                )
            _refuse_other_settings(path, state, settings, ports or {})
            launch.start_roles(state, [role for role in state.settings.roles if not _runs(state, role)])
        else:
            _refuse_older_version(path, state, version)
            before = state.ports if state else {}
            # Ends what remains of an HBase that has failed: its watchdog, and processes that a killed start did not
            # record.
            left = state.processes.values() if state else ()
            processes.end([*left, *processes.marked(hbase_configuration.mark(path))], grace=0)
            new = State(
                evolve(settings or Settings(), version=version),
                {},
                owner=processes.known(owner) if owner else None,
                temporary=temporary,
            )
            launch.start_anew(new, given=ports or {}, before=before)
        return _started(path)


def stop(directory: Directory = None, *, grace: float = STOP_GRACE) -> bool:
    """Stops all processes in a directory, and waits until they have ended. Data is kept.

    Args:
        directory: the user's default directory if None.
        grace: seconds that the processes have to stop by themselves before they are killed; with 0, they are killed at
            once.

    Returns:
        False if nothing was running.

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
        strays = [
            process
            for process in processes.marked(hbase_configuration.mark(path))
            if process.pid not in {each.pid for each in running}
        ]
        processes.end([*running, *strays], grace=grace)
        # The watchdog is ended last, so that it can still stop HBase if the owner ends during this function.
        if state and (watchdog := state.processes.get(WATCHDOG)) and watchdog.pid != os.getpid():
            processes.end([watchdog], grace=0)
        if state:
            write_state(path, evolve(state, processes={}, owner=None))
    return bool(running or strays)


def status(directory: Directory = None) -> Status | None:
    """Returns the status of the HBase that was started in a directory and has not been stopped since, or None.

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
        version=state.settings.version,
        owner=state.owner.pid if state.owner else None,
    )


def kill(directory: Directory, role: str) -> None:
    """Kills one process immediately (SIGKILL), as in a crash.

    Args:
        directory: the user's default directory if None.
        role: `server`, `thrift1` or `thrift2`.

    Raises:
        LocalHBaseError: this process was not started in the directory.
    """
    path = resolved(directory)
    with locked(path):
        processes.end([_recorded(path, role).processes[role]], grace=0)


def restart(directory: Directory, role: str, *, timeout: float = START_TIMEOUT) -> Status:
    """Starts one process again on its old port, and waits until it answers. If it still runs, it is killed first.

    Args:
        directory: the user's default directory if None.
        role: `server`, `thrift1` or `thrift2`.
        timeout: seconds that the start may take.

    Raises:
        LocalHBaseError: this process was never started in the directory, or it does not start now.
    """
    path = resolved(directory)
    launch = launcher(path, _recorded(path, role).settings.version, timeout=timeout, progress=True)
    with locked(path):
        state = _recorded(path, role)
        processes.end([state.processes[role]], grace=0)
        launch.start_roles(state, [role])
        return _started(path)


def _started(path: Path) -> Status:
    """Returns the status after a start. If the record of the start no longer exists, ends the processes and raises
    `LocalHBaseError`.
    """
    running = status(path)
    if running is None:
        processes.end(processes.marked(hbase_configuration.mark(path)), grace=0)
        raise LocalHBaseError(
            "HBase was stopped, or its directory deleted, while it was starting; start HBase again.",
            directory=str(path),
        )
    return running


def _alive(state: State) -> bool:
    return any(_runs(state, role) for role in ROLES)


def _runs(state: State, role: str) -> bool:
    return role in state.processes and processes.is_alive(state.processes[role])


def _recorded(path: Path, role: str) -> State:
    if role not in ROLES:
        raise LocalHBaseError("There is no such process: name 'server', 'thrift1' or 'thrift2'.", found=role)
    state = read_state(path)
    if state is None or role not in state.processes:
        raise LocalHBaseError(
            "This process was not started in the directory; start an HBase that includes it first.",
            process=role,
            directory=str(path),
        )
    return state


def _refuse_other_settings(path: Path, state: State, settings: Settings | None, ports: Mapping[str, int]) -> None:
    other_ports = any(state.ports.get(name) != port for name, port in ports.items())
    if settings is not None and settings.version is None:
        settings = evolve(settings, version=state.settings.version)
    if other_ports or (settings is not None and settings != state.settings):
        raise LocalHBaseError(
            "An HBase with other settings is running in the directory; stop it first, or choose another directory.",
            directory=str(path),
        )


def _refuse_older_version(path: Path, state: State | None, version: str | None) -> None:
    # A newer HBase can convert the data of an older one, but not the other way round.
    written = state.settings.version if state else None
    if written in VERSIONS and version in VERSIONS and VERSIONS.index(version) < VERSIONS.index(written):
        raise LocalHBaseError(
            "The directory's data was written by a newer version of HBase; name that version, or choose another "
            "directory.",
            directory=str(path),
            found=written,
            version=version,
        )


def remove(directory: Path, *, keep_logs: bool = False) -> None:
    """Deletes the directory of a stopped HBase."""
    if not keep_logs:
        shutil.rmtree(directory, ignore_errors=True)
        return
    for entry in directory.iterdir():
        if entry.is_dir() and entry.name != "logs":
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.is_file():
            entry.unlink(missing_ok=True)


__all__ = [
    "START_TIMEOUT",
    "STOP_GRACE",
    "kill",
    "prepare",
    "remove",
    "restart",
    "start",
    "status",
    "stop",
    "version_to_start",
]
