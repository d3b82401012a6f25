"""A second region server of a local HBase, which can be stopped without stopping the master and ZooKeeper."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from attrs import frozen

from hbmodel.localhbase import LocalHBase, Settings
from hbmodel.localhbase.hbase_configuration import LOG4J_PROPERTIES, SERVER, command, mark, site_properties, site_xml
from hbmodel.localhbase.jars import class_path
from hbmodel.localhbase.java import find_java
from hbmodel.localhbase.ports import choose_ports
from hbmodel.localhbase.processes import Process, end, listens, spawn
from hbmodel.store import Family
from hbmodel.store.thrift1.store import Thrift1Store
from hbmodel.store.thrift2.store import Thrift2Store
from tests.support.tested_version import TESTED

LONG_SESSIONS: Mapping[str, str] = {
    "zookeeper.session.timeout": "900000",
    "hbase.zookeeper.property.maxSessionTimeout": "900000",
}
"""Properties with which HBase does not notice for a quarter of an hour that a server does not respond."""

_MASTER, _REGION_SERVER = "org.apache.hadoop.hbase.master.HMaster", "org.apache.hadoop.hbase.regionserver.HRegionServer"


@frozen
class RegionServer:
    """A running region server."""

    hbase: LocalHBase
    port: int
    process: Process
    timeout: float

    def freeze(self) -> None:
        """Stops the server from answering, while its connections stay open."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def table_on_both(self, family: Family, splits: list[bytes]) -> tuple[str, bytes]:
        """Creates a table with regions on both servers. Returns its name, and a row of a region on this server."""
        deadline = time.monotonic() + self.timeout
        # Only the second gateway creates regions, and only the first one returns their servers.
        with Thrift2Store.from_url(self.hbase.thrift2_url) as store, Thrift1Store.from_url(self.hbase.url) as first:
            while time.monotonic() < deadline:
                table = f"on_both_{uuid4().hex[:8]}"
                store.create_table(table, [family], splits)
                with first._pool.lease() as lease:
                    regions = lease.connection().call("getTableRegions", tableName=table.encode())
                here = [region.startKey or b"" for region in regions if region.port == self.port]
                if 0 < len(here) < len(regions):
                    return table, here[0] + b"x"
                time.sleep(0.5)  # the server is not registered with the master yet
        raise AssertionError("no table has regions on both servers")


@contextmanager
def second_region_server(hbase: LocalHBase, directory: Path, *, timeout: float = 120) -> Iterator[RegionServer]:
    """Starts a region server, and stops it at the end of the block.

    Args:
        hbase: the running HBase.
        directory: the directory for its configuration and logs.
        timeout: the number of seconds within which it must answer, and must receive regions.
    """
    ports = {**hbase.ports, "regionserver": choose_ports(["second"], given={}, before={})["second"]}
    settings = Settings(server_heap="512m", properties=LONG_SESSIONS)
    for part in ("conf", "logs", "tmp"):
        (directory / part).mkdir(parents=True)
    # A separate region server refuses to start in a cluster that is not distributed.
    properties = {**site_properties(SERVER, hbase.directory, settings, ports), "hbase.cluster.distributed": "true"}
    (directory / "conf" / "hbase-site.xml").write_text(site_xml(properties))
    (directory / "conf" / "log4j.properties").write_text(LOG4J_PROPERTIES)
    java, *rest = command(SERVER, directory, settings, ports, find_java())
    process = spawn(
        # The process has the mark of the HBase, so that the watchdog of the HBase also ends it if the tests are killed.
        [java, mark(hbase.directory), *(_REGION_SERVER if part == _MASTER else part for part in rest)],
        environment={
            **os.environ,
            "CLASSPATH": f"{directory / 'conf'}{os.pathsep}{class_path(TESTED, progress=False)}",
        },
        output=directory / "out",
    )
    try:
        deadline = time.monotonic() + timeout
        while not listens(process, ports["regionserver"]):
            assert time.monotonic() < deadline, f"the region server did not start; see {directory}"
            time.sleep(0.1)
        yield RegionServer(hbase, ports["regionserver"], process, timeout)
    finally:
        end([process], grace=0)
