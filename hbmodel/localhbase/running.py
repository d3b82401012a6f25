"""A local HBase as a context manager."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase import lifecycle
from hbmodel.localhbase.configuration import GATEWAYS, SERVER, Settings
from hbmodel.localhbase.directory import Status


class LocalHBase:
    """A real HBase on this machine for as long as a `with` block, or a process, lasts.

    With no directory it lives in a temporary one that goes with it. Whatever becomes of this process (an exception, `kill -9`), a watchdog
    process stops the HBase about half a second later.

        with LocalHBase() as hbase, hbmodel.connect(hbase.url) as store:
            ...

    Args:
        directory: where its data lives; it is kept after the end. None is a temporary directory.
        gateways: those to start, of `thrift1` and `thrift2`.
        server_heap: largest heap of the server, as in `1g`.
        gateway_heap: largest heap of each gateway, as in `512m`.
        properties: HBase properties for all processes.
        gateway_properties: HBase properties for the gateways, over `properties`, such as those of HTTP and TLS.
        ports: ports to use, by name (`zookeeper`, `master`, `regionserver`, `thrift1`, `thrift2`); free ones are chosen for the others.
        timeout: seconds that a start may take, the first download of HBase left out.
        progress: show that download on standard error.
        temporary: delete the directory, with all that is in it, at the end. By default only one that was made here.
        owner: id of the process that this HBase lives as long as. None is this process. With another one the HBase is shared: it is used
            as it is if it runs already, and leaving the block does not stop it.
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
        ports: Mapping[str, int] | None = None,
        timeout: float = lifecycle.START_TIMEOUT,
        progress: bool = True,
        temporary: bool | None = None,
        owner: int | None = None,
    ) -> None:
        self._settings = Settings(gateways, server_heap, gateway_heap, properties or {}, gateway_properties or {})
        self._given = directory
        self._ports = dict(ports or {})
        self._timeout = timeout
        self._progress = progress
        self._temporary = directory is None if temporary is None else temporary
        self._owner = owner
        self._shared = owner is not None and owner != os.getpid()
        self._directory: Path | None = None
        if owner is not None and directory is None:
            raise LocalHBaseError("A shared HBase needs a directory, by which the others find it.")

    def start(self) -> Self:
        """Start it and wait until it answers. `with` does this.

        Raises:
            LocalHBaseError: it cannot be started, is started already, or another one runs in the directory.
        """
        if self._directory is not None:
            raise LocalHBaseError("This HBase was started already.", directory=str(self._directory))
        directory = _temporary_directory() if self._given is None else Path(self._given)
        try:
            found = lifecycle.start(
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
                # An error that points to a log must not take it away.
                lifecycle.remove(directory, keep_logs=isinstance(error, LocalHBaseError) and error.log is not None)
            raise
        self._directory = found.directory
        return self

    def stop(self) -> None:
        """Stop it and wait until its processes are gone. Leaving the `with` block does this; a shared one is left alone then."""
        directory, self._directory = self._directory, None
        if directory is not None:
            lifecycle.stop(directory, grace=0 if self._temporary else lifecycle.STOP_GRACE)
            if self._temporary:
                lifecycle.remove(directory)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._shared:
            self.stop()
        self._directory = None

    @property
    def directory(self) -> Path:
        """Where it lives."""
        if self._directory is None:
            raise LocalHBaseError("This HBase does not run; enter its `with` block first.")
        return self._directory

    def status(self) -> Status:
        """What of it runs now."""
        found = lifecycle.status(self.directory)
        if found is None:
            raise LocalHBaseError("This HBase was stopped from elsewhere.", directory=str(self.directory))
        return found

    @property
    def url(self) -> str:
        """Store URL of the Thrift1 gateway, `hbase://127.0.0.1:PORT`."""
        return self._url(self.status().url)

    @property
    def thrift2_url(self) -> str:
        """Store URL of the Thrift2 gateway, `hbase+thrift2://127.0.0.1:PORT`."""
        return self._url(self.status().thrift2_url)

    @property
    def zookeeper_port(self) -> int:
        """Port of its ZooKeeper, for clients other than hbmodel."""
        return self.status().zookeeper_port

    @property
    def ports(self) -> Mapping[str, int]:
        """All its ports: `zookeeper`, `master`, `regionserver`, `thrift1`, `thrift2`."""
        return self.status().ports

    @property
    def pids(self) -> Mapping[str, int]:
        """Process ids of what runs, by role: `server`, `thrift1`, `thrift2`."""
        return self.status().pids

    def kill_server(self) -> None:
        """Kill the server on the spot (SIGKILL), region server and ZooKeeper with it."""
        lifecycle.kill(self.directory, SERVER)

    def restart_server(self) -> None:
        """Start the server again on the same ports and data, killed first if need be, and wait until it takes requests."""
        lifecycle.restart(self.directory, SERVER, timeout=self._timeout)

    def kill_gateway(self, name: str) -> None:
        """Kill a gateway on the spot (SIGKILL).

        Args:
            name: `thrift1` or `thrift2`.
        """
        lifecycle.kill(self.directory, _gateway(name))

    def restart_gateway(self, name: str) -> None:
        """Start a gateway again on the same port, killed first if need be, and wait until it answers.

        Args:
            name: `thrift1` or `thrift2`.
        """
        lifecycle.restart(self.directory, _gateway(name), timeout=self._timeout)

    def _url(self, url: str | None) -> str:
        if url is None:
            raise LocalHBaseError("This HBase was started without that gateway.", gateways=list(self._settings.gateways))
        return url


def _gateway(name: str) -> str:
    if name not in GATEWAYS:
        raise LocalHBaseError("The gateways are 'thrift1' and 'thrift2'.", found=name)
    return name


def _temporary_directory() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="hbmodel-hbase-"))
    except OSError as error:
        raise LocalHBaseError("No temporary directory can be made; name a directory.", cause=error.strerror) from error
