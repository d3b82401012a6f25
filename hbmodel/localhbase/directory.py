"""The directory of one local HBase: its files, and the record of the processes that were started in it.

conf/server, conf/gateways   hbase-site.xml and logging
data, zookeeper, tmp         HBase's root directory, ZooKeeper's data, scratch files
logs                         NAME.log, and NAME.out for what a JVM prints before it can log
state.json, lock             what runs here, and the lock that a start or stop holds
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, field, frozen

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase.extras import required
from hbmodel.localhbase.hbase_configuration import SERVER, Settings
from hbmodel.localhbase.locks import file_lock
from hbmodel.localhbase.processes import Process

_FORMAT = 1
_LOCK_TIMEOUT = 300.0


def default_directory() -> Path:
    """Returns the directory of this user's local HBase if none is given."""
    path: Path = required("platformdirs").user_state_path("hbmodel")
    return path / "hbase"


def resolved(directory: str | os.PathLike[str] | None) -> Path:
    """Returns the absolute path of a directory. None stands for the default directory.

    Raises:
        LocalHBaseError: the path contains a character that Java's class path or Hadoop's paths do not allow.
    """
    path = default_directory() if directory is None else Path(directory).expanduser().resolve()
    if any(character in str(path) for character in ":*%\n\\"):
        raise LocalHBaseError(
            "The directory's path contains one of : * % or a backslash, which HBase does not accept; choose another.",
            directory=str(path),
        )
    return path


@frozen
class State:
    """The record of the processes that were started in a directory.

    Attributes:
        settings: the settings of the start.
        ports: the ports by name. They are kept after a stop, so that the next start can use them again.
        processes: the processes by role, with the watchdog; empty after a stop.
        owner: the process whose end stops this HBase; None if the HBase runs until it is stopped.
        temporary: whether the directory is deleted when the owner ends.
    """

    settings: Settings
    ports: Mapping[str, int]
    processes: Mapping[str, Process] = field(factory=dict)
    owner: Process | None = None
    temporary: bool = False

    def with_process(self, role: str, process: Process) -> State:
        """Returns the state after a process has started."""
        return evolve(self, processes={**self.processes, role: process})


@frozen
class Status:
    """The current status of a local HBase.

    Attributes:
        directory: the directory of the HBase.
        pids: the ids of the running processes, by role.
        missing: the roles that were started but are not running.
        ports: the ports by name: `zookeeper`, `master`, `regionserver`, `thrift1`, `thrift2`.
        url: store URL of the Thrift1 gateway; None if there is no such gateway.
        thrift2_url: store URL of the Thrift2 gateway; None if there is no such gateway.
        logs: the log files by role.
        version: the version of HBase; None if it is an installed distribution.
        owner: process id of the owner; None if the HBase runs until it is stopped.
    """

    directory: Path
    pids: Mapping[str, int]
    missing: tuple[str, ...]
    ports: Mapping[str, int]
    url: str | None
    thrift2_url: str | None
    logs: Mapping[str, Path]
    version: str | None
    owner: int | None = None

    @property
    def state(self) -> str:
        """`running`, or `partial` if a gateway has ended, or `failed` if the server has ended."""
        return "running" if self.running else "partial" if SERVER in self.pids else "failed"

    @property
    def running(self) -> bool:
        """Whether everything that was started is running."""
        return not self.missing

    @property
    def zookeeper_port(self) -> int:
        """The port of ZooKeeper, for clients other than hbmodel."""
        return self.ports["zookeeper"]

    def as_json(self) -> dict[str, Any]:
        """Returns the status as plain values for JSON."""
        return {
            "state": self.state,
            "version": self.version,
            "url": self.url,
            "thrift2_url": self.thrift2_url,
            "zookeeper_port": self.zookeeper_port,
            "ports": dict(self.ports),
            "pids": dict(self.pids),
            "missing": list(self.missing),
            "owner": self.owner,
            "directory": str(self.directory),
            "logs": {role: str(path) for role, path in self.logs.items()},
        }


def log_file(directory: Path, role: str) -> Path:
    """Returns the log file of a process."""
    return directory / "logs" / f"{role}.log"


def output_file(directory: Path, role: str) -> Path:
    """Returns the file for the standard output and the errors of a process."""
    return directory / "logs" / f"{role}.out"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Prevents other starts and stops of this directory while the block runs."""
    busy = "Another process is starting or stopping the HBase of this directory; try again when it has finished."
    with file_lock(directory / "lock", timeout=_LOCK_TIMEOUT, busy=busy):
        yield


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Turns an error into `LocalHBaseError` if its block cannot write a file of the directory."""
    try:
        yield
    except OSError as error:
        raise LocalHBaseError(
            "The directory is not writable; choose another one.", directory=str(directory), cause=error.strerror
        ) from error


def make(directory: Path) -> None:
    """Creates the directory and its subdirectories.

    Raises:
        LocalHBaseError: the directory cannot be written.
    """
    with writing(directory):
        for name in ("conf/server", "conf/gateways", "logs", "tmp"):
            (directory / name).mkdir(parents=True, exist_ok=True)


def read_state(directory: Path) -> State | None:
    """Returns the record of what was started in the directory, or None if nothing was ever started there.

    Raises:
        LocalHBaseError: the record cannot be read.
    """
    path = directory / "state.json"
    try:
        written = json.loads(path.read_text("utf-8"))
        if written["format"] != _FORMAT:
            raise LocalHBaseError(
                "The directory was written by another release of hbmodel; stop the HBase in it, or choose another "
                "directory.",
                file=str(path),
            )
        owner = written["owner"]
        return State(
            settings=Settings(**written["settings"]),
            ports=written["ports"],
            processes={role: Process(**process) for role, process in written["processes"].items()},
            owner=Process(**owner) if owner else None,
            temporary=written["temporary"],
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LocalHBaseError(
            "The record of what runs in the directory cannot be read; delete this file if nothing runs there.",
            file=str(path),
        ) from error


def write_state(directory: Path, state: State) -> None:
    """Writes the record of what was started, atomically.

    Raises:
        LocalHBaseError: the record cannot be written.
    """
    path = directory / "state.json"
    scratch = path.with_suffix(".new")
    with writing(directory):
        scratch.write_text(json.dumps({"format": _FORMAT, **asdict(state)}, indent=1), "utf-8")
        scratch.replace(path)
