"""A local HBase as a context manager."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase import start_and_stop
from hbmodel.localhbase.directory import Status
from hbmodel.localhbase.hbase_configuration import GATEWAYS, SERVER, Settings


class LocalHBase:
    """A real HBase on this machine, which runs as long as a `with` block or a process.

    Without a directory, it uses a temporary directory, which is deleted at the end. If this process ends in any other
    way (an exception, `kill -9`), a watchdog process stops the HBase about half a second later.

        with LocalHBase() as hbase, hbmodel.connect(hbase.url) as store:
            ...

    Args:
        directory: the directory for its data, which is kept at the end; with None, a temporary directory is used.
        gateways: the gateways to start, from `thrift1` and `thrift2`.
        server_heap: maximum heap of the server, such as `1g`.
        gateway_heap: maximum heap of each gateway, such as `512m`.
        properties: HBase properties for all processes.
        gateway_properties: HBase properties for the gateways, such as those of HTTP and TLS; they override
            `properties`.
        version: the version of HBase, one of `VERSIONS`. None means the distribution in `HBASE_HOME` or, if it is not
            set, the version that wrote the directory or, in a new directory, the newest version.
        ports: ports to use, by name (`zookeeper`, `master`, `regionserver`, `thrift1`, `thrift2`); free ports are
            chosen for the others.
        timeout: seconds that a start may take, without the first download of HBase.
        progress: whether to show the download on standard error.
        temporary: whether to delete the directory, with everything in it, at the end. By default, only a directory that
            was created here is deleted.
        owner: the id of the process whose end stops this HBase; None means this process. If it is another process, the
            HBase is shared: an HBase that already runs is used unchanged, and the end of the block does not stop it.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        gateways: Sequence[str] = GATEWAYS,
        server_heap: str = "1g",
        gateway_heap: str = "512m",
        properties: Mapping[str, str] | None = None,
        gateway_properties: Mapping[str, str] | None = None,
        version: str | None = None,
        ports: Mapping[str, int] | None = None,
        timeout: float = start_and_stop.START_TIMEOUT,
        progress: bool = True,
        temporary: bool | None = None,
        owner: int | None = None,
    ) -> None:
        self._settings = Settings(
            gateways, server_heap, gateway_heap, properties or {}, gateway_properties or {}, version
        )
        self._given = directory
        self._ports = dict(ports or {})
        self._timeout = timeout
        self._progress = progress
        self._temporary = directory is None if temporary is None else temporary
        self._owner = owner
        self._shared = owner is not None and owner != os.getpid()
        self._directory: Path | None = None
        if owner is not None and directory is None:
            raise LocalHBaseError("A shared HBase needs a directory, where other processes find it: name one.")

    def start(self) -> Self:
        """Starts this HBase and waits until it answers. A `with` statement does this.

        Raises:
            LocalHBaseError: this HBase cannot be started or is already started, or another HBase runs in the directory.
        """
        if self._directory is not None:
            raise LocalHBaseError(
                "This HBase was started already: enter its `with` block only once.", directory=str(self._directory)
            )
        directory = _temporary_directory() if self._given is None else Path(self._given)
        try:
            started = start_and_stop.start(
                directory,
                settings=self._settings,
                ports=self._ports,
                timeout=self._timeout,
                progress=self._progress,
                owner=self._owner or os.getpid(),
                temporary=self._temporary,
                exclusive=not self._shared,
            )
        except BaseException as error:
            if self._given is None:
                # If the error refers to a log, the log must be kept.
                start_and_stop.remove(directory, keep_logs=isinstance(error, LocalHBaseError) and error.log is not None)
            raise
        self._directory = started.directory
        return self

    def stop(self) -> None:
        """Stops this HBase and waits until its processes have ended. The end of the `with` block does this, unless the
        HBase is shared.
        """
        directory, self._directory = self._directory, None
        if directory is not None:
            start_and_stop.stop(directory, grace=0 if self._temporary else start_and_stop.STOP_GRACE)
            if self._temporary:
                start_and_stop.remove(directory)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._shared:
            self.stop()
        self._directory = None

    @property
    def directory(self) -> Path:
        """The directory of this HBase."""
        if self._directory is None:
            raise LocalHBaseError("This HBase is not running; enter its `with` block first.")
        return self._directory

    def status(self) -> Status:
        """Returns the current status of this HBase."""
        running = start_and_stop.status(self.directory)
        if running is None:
            raise LocalHBaseError("Another process stopped this HBase; start it again.", directory=str(self.directory))
        return running

    @property
    def url(self) -> str:
        """The store URL of the Thrift1 gateway, `hbase://127.0.0.1:PORT`."""
        return self._url(self.status().url)

    @property
    def thrift2_url(self) -> str:
        """The store URL of the Thrift2 gateway, `hbase+thrift2://127.0.0.1:PORT`."""
        return self._url(self.status().thrift2_url)

    @property
    def zookeeper_port(self) -> int:
        """The port of ZooKeeper, for clients other than hbmodel."""
        return self.status().zookeeper_port

    @property
    def ports(self) -> Mapping[str, int]:
        """All ports by name: `zookeeper`, `master`, `regionserver`, `thrift1`, `thrift2`."""
        return self.status().ports

    @property
    def pids(self) -> Mapping[str, int]:
        """The ids of the running processes, by role: `server`, `thrift1`, `thrift2`."""
        return self.status().pids

    def kill_server(self) -> None:
        """Kills the server immediately (SIGKILL), including the region server and ZooKeeper."""
        start_and_stop.kill(self.directory, SERVER)

    def restart_server(self) -> None:
        """Starts the server again with the same ports and data, and waits until it accepts requests. A server that
        still runs is killed first.
        """
        start_and_stop.restart(self.directory, SERVER, timeout=self._timeout)

    def kill_gateway(self, name: str) -> None:
        """Kills a gateway immediately (SIGKILL).

        Args:
            name: `thrift1` or `thrift2`.
        """
        start_and_stop.kill(self.directory, _gateway(name))

    def restart_gateway(self, name: str) -> None:
        """Starts a gateway again on the same port, and waits until it answers. A gateway that still runs is killed
        first.

        Args:
            name: `thrift1` or `thrift2`.
        """
        start_and_stop.restart(self.directory, _gateway(name), timeout=self._timeout)

    def _url(self, url: str | None) -> str:
        if url is None:
            raise LocalHBaseError(
                "This HBase was started without that gateway: name it in gateways=.",
                gateways=list(self._settings.gateways),
            )
        return url


def _gateway(name: str) -> str:
    if name not in GATEWAYS:
        raise LocalHBaseError("There is no such gateway: name 'thrift1' or 'thrift2'.", found=name)
    return name


def _temporary_directory() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="hbmodel-hbase-"))
    except OSError as error:
        raise LocalHBaseError("No temporary directory can be made; name a directory.", cause=error.strerror) from error
