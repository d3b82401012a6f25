"""Additional gateways of a local HBase, started with other options: HTTP, TLS, framed, compact."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from hbmodel.localhbase import LocalHBase, Settings
from hbmodel.localhbase.hbase_configuration import LOG4J_PROPERTIES, command, site_properties, site_xml
from hbmodel.localhbase.jars import class_path
from hbmodel.localhbase.java import find_java
from hbmodel.localhbase.ports import choose_ports
from hbmodel.localhbase.processes import Process, end, listens, spawn
from hbmodel.localhbase.readiness import gateway_answers
from tests.support.tested_version import TESTED


@frozen
class GatewayProcess:
    """A running gateway."""

    port: int
    process: Process

    def freeze(self) -> None:
        """Stops the gateway from answering, while its connections stay open."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets the gateway continue."""
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kills the gateway, so that it cannot close its connections."""
        end([self.process], grace=0)


Kind = tuple[str, Mapping[str, str]]
"""The kind of a gateway to start: `thrift1` or `thrift2`, and its properties."""


@contextmanager
def more_gateways(
    hbase: LocalHBase, directory: Path, kinds: Mapping[str, Kind], *, timeout: float = 120
) -> Iterator[dict[str, GatewayProcess]]:
    """Starts gateways of an HBase in parallel, and yields them by the given names.

    Args:
        hbase: the running HBase.
        directory: the directory for their configuration and logs.
        kinds: the gateways to start, by names that the caller chooses.
        timeout: the number of seconds within which all must answer.
    """
    chosen = choose_ports(list(kinds), given={}, before={})
    java, jars = find_java(), class_path(TESTED, progress=False)
    started = {}
    try:
        for name, (role, properties) in kinds.items():
            settings = Settings(gateway_heap="256m", gateway_properties=properties)
            ports = {**hbase.ports, role: chosen[name]}
            home = directory / name
            for part in ("conf", "logs", "tmp"):
                (home / part).mkdir(parents=True)
            (home / "conf" / "hbase-site.xml").write_text(
                site_xml(site_properties(role, hbase.directory, settings, ports))
            )
            (home / "conf" / "log4j.properties").write_text(LOG4J_PROPERTIES)
            started[name] = spawn(
                command(role, home, settings, ports, java),
                environment={**os.environ, "CLASSPATH": f"{home / 'conf'}{os.pathsep}{jars}"},
                output=home / "out",
            )
        deadline = time.monotonic() + timeout
        for name, (role, properties) in kinds.items():
            while not (
                listens(started[name], chosen[name]) and gateway_answers(role, chosen[name], properties, timeout=5)
            ):
                assert time.monotonic() < deadline, f"the gateway {name} did not start; see {directory / name}"
                time.sleep(0.1)
        yield {name: GatewayProcess(chosen[name], started[name]) for name in kinds}
    finally:
        end(started.values(), grace=0)
