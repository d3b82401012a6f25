"""Starts processes that outlive this one, recognizes them later, and ends them.

A process is identified by its id and the time at which it began, because the system may give the same id to a later
process. A process that was started but never recorded is found by a mark on its command line.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase.extras import required

_ON_LINUX = sys.platform == "linux"

_SAME_START = 0.0 if _ON_LINUX else 2.0
"""The number of seconds by which two readings of the start time of a process may differ."""

KILL_TIMEOUT = 30.0
"""The number of seconds to wait for the end of a killed process, which takes a while if the process writes to a slow
disk.
"""

_POLL_INTERVAL = 0.02


@frozen
class Process:
    """One run of a program.

    Attributes:
        pid: the process id.
        created: when the process began, in seconds. On Linux, this is the time since boot, so that changes of the clock
            do not matter. On other systems, it is the time since 1970.
    """

    pid: int
    created: float


def this_process() -> Process:
    """Returns the process that runs this code."""
    return known(os.getpid())


def known(pid: int) -> Process:
    """Returns the process that currently has the given id.

    Raises:
        LocalHBaseError: no process has this id.
    """
    psutil = required("psutil")
    try:
        return Process(pid, _created(psutil.Process(pid)))
    except psutil.Error as error:
        raise LocalHBaseError("There is no process with this id; give the id of one that runs.", pid=pid) from error


def _created(process: Any) -> float:
    """Returns the value of `Process.created` for a process. On Linux, the time that psutil returns is the time since
    boot plus the clock's time at boot, so it depends on the clock.

    Raises:
        psutil.NoSuchProcess: the process has ended.
    """
    if not _ON_LINUX:
        created: float = process.create_time()
        return created
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError as error:
        raise required("psutil").NoSuchProcess(process.pid) from error
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def is_alive(process: Process) -> bool:
    """Returns whether exactly this process still runs. If it is a child that has ended, this call reaps it."""
    psutil = required("psutil")
    try:
        system_process = psutil.Process(process.pid)
        if abs(_created(system_process) - process.created) > _SAME_START:
            return False
        return system_process.status() != psutil.STATUS_ZOMBIE or _is_ending(system_process)
    except psutil.Error:
        return False


def _is_ending(zombie: Any) -> bool:
    """Returns whether only the first thread of a process has ended. Its other threads still run for a moment, and still
    use its ports.
    """
    try:
        return os.waitpid(zombie.pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        threads: int = zombie.num_threads()
        return threads > 1


def spawn(command: Sequence[str], *, environment: Mapping[str, str], output: Path) -> Process:
    """Starts a program in a separate session, so that a hang-up or an interrupt of this terminal does not reach it.

    Args:
        command: the path of the program, and its arguments.
        environment: the whole environment of the program.
        output: the file for its standard output and errors; it is emptied first.

    Raises:
        LocalHBaseError: the program cannot be run or the output file cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(output), flags, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        # This does not use subprocess.Popen, whose object warns if it is freed before the process ends: here the
        # process must live longer.
        pid = os.posix_spawn(command[0], list(command), dict(environment), file_actions=actions, setsid=True)
    except OSError as error:
        raise LocalHBaseError(
            "A program could not be started: see `cause`.", program=command[0], cause=error.strerror
        ) from error
    return known(pid)


def marked(mark: str) -> list[Process]:
    """Returns the running processes of this user that have `mark` as an argument."""
    psutil = required("psutil")
    processes = []
    for process in psutil.process_iter():
        try:
            if mark in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(Process(process.pid, _created(process)))
        except psutil.Error:
            continue  # the process has just ended, or belongs to another user
    return processes


def listens(process: Process, port: int) -> bool:
    """Returns whether the process itself listens on the TCP port."""
    psutil = required("psutil")
    try:
        connections = psutil.Process(process.pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in connections)


def end(processes: Iterable[Process], *, grace: float, kill_timeout: float = KILL_TIMEOUT) -> None:
    """Ends processes and waits until they have ended.

    Args:
        processes: the processes to end; processes that have already ended are ignored.
        grace: seconds that they have to end by themselves (SIGTERM) before they are killed; with 0, they are killed at
            once.
        kill_timeout: seconds to wait for the end of a process that was killed.

    Raises:
        LocalHBaseError: a process belongs to another user, or still exists after it was killed.
    """
    alive = [process for process in processes if is_alive(process)]
    if grace > 0:
        alive = _signal(alive, signal.SIGTERM, timeout=grace)
    if stuck := _signal(alive, signal.SIGKILL, timeout=kill_timeout):
        raise LocalHBaseError(
            "A process could not be stopped; stop it by hand.", pids=[process.pid for process in stuck]
        )


def _signal(processes: Iterable[Process], number: signal.Signals, *, timeout: float) -> list[Process]:
    """Sends a signal to processes, waits, and returns the processes that still run when the time is over."""
    alive = list(processes)
    for process in alive:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            continue
        except PermissionError as error:
            raise LocalHBaseError(
                "The process belongs to another user; only that user can stop it.", pid=process.pid
            ) from error
    deadline = time.monotonic() + timeout
    # This does not use psutil's wait, which also waits for a process that has ended but has not been reaped by its
    # parent.
    while alive := [process for process in alive if is_alive(process)]:
        if time.monotonic() >= deadline:
            break
        time.sleep(_POLL_INTERVAL)
    return alive
