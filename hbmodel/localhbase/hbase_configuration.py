"""The configuration of a local HBase: its settings, site properties, logging, and the Java commands of its
processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from attrs import field, frozen

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase.java import Java
from hbmodel.localhbase.pinned_jars import checked
from hbmodel.localhbase.ports import ADDRESS

SERVER = "server"
GATEWAYS = ("thrift1", "thrift2")
ROLES = (SERVER, *GATEWAYS)
"""The processes of a local HBase, in the order in which they start."""

SERVER_PORTS = ("zookeeper", "master", "regionserver")
"""The names of the ports on which the server listens. Each gateway has one port, with the name of the gateway."""

_MAIN = {
    "server": "org.apache.hadoop.hbase.master.HMaster",
    "thrift1": "org.apache.hadoop.hbase.thrift.ThriftServer",
    "thrift2": "org.apache.hadoop.hbase.thrift2.ThriftServer",
}

_OPENED = ("java.lang", "java.nio", "sun.nio.ch", "java.lang.reflect", "java.util", "java.util.concurrent")
_EXPORTED = (
    "java.base/jdk.internal.misc",
    "java.security.jgss/sun.security.krb5",
    "java.base/sun.net.dns",
    "java.base/sun.net.util",
)
SURVIVED_PAUSE = 60
"""The number of seconds for which all threads of the server may be paused before the server ends."""

JVM_FLAGS = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTED),
    "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
    "-Djava.net.preferIPv4Stack=true",
    # One thread collects garbage, because heaps are small and several JVMs share few cores. Both JIT compilers stay on,
    # because a start with only the first one is not faster.
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-XX:+ExitOnOutOfMemoryError",
    # Otherwise a killed JVM would leave a file in the system's directory of Java performance data.
    "-XX:-UsePerfData",
)
"""The flags of every JVM, for Java 17 to 21. The `--add-opens` flags are the same as in `bin/hbase`."""

_HEAP = re.compile(r"[1-9]\d*[kKmMgG]?")


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(given))


def _pairs(given: Mapping[str, str]) -> Mapping[str, str]:
    return dict(given)


def _heap(_: object, attribute: Any, value: str) -> None:
    if not _HEAP.fullmatch(value):
        raise LocalHBaseError(
            "A heap size must be a number and k, m or g, as in '512m'.", setting=attribute.name, found=value
        )


def _gateways(_: object, __: Any, value: tuple[str, ...]) -> None:
    if unknown := [name for name in value if name not in GATEWAYS]:
        raise LocalHBaseError("There is no such gateway: name 'thrift1' or 'thrift2'.", found=unknown)


def _version(_: object, __: Any, value: str | None) -> None:
    if value is not None:
        checked(value)


@frozen
class Settings:
    """The settings with which a local HBase is started.

    Attributes:
        gateways: the gateways to start, from `thrift1` and `thrift2`.
        server_heap: maximum heap of the server (`-Xmx`).
        gateway_heap: maximum heap of each gateway.
        properties: HBase properties for every process; they override the properties of this module.
        gateway_properties: HBase properties for the gateways only; they override `properties`.
        version: the version of HBase, one of `VERSIONS`. None means the distribution in `HBASE_HOME` or, if it is not
            set, the version that wrote the directory or, in a new directory, the newest version.
    """

    gateways: tuple[str, ...] = field(default=GATEWAYS, converter=_names, validator=_gateways)
    server_heap: str = field(default="1g", validator=_heap)
    gateway_heap: str = field(default="512m", validator=_heap)
    properties: Mapping[str, str] = field(factory=dict, converter=_pairs)
    gateway_properties: Mapping[str, str] = field(factory=dict, converter=_pairs)
    version: str | None = field(default=None, validator=_version)

    @property
    def roles(self) -> tuple[str, ...]:
        """The processes to start."""
        return (SERVER, *self.gateways)

    @property
    def port_names(self) -> tuple[str, ...]:
        """Names of the ports that are needed."""
        return (*SERVER_PORTS, *self.gateways)


def ports_of(role: str) -> tuple[str, ...]:
    """Returns the names of the ports on which a process listens."""
    return SERVER_PORTS if role == SERVER else (role,)


def site_properties(role: str, directory: Path, settings: Settings, ports: Mapping[str, int]) -> dict[str, str]:
    """Returns the properties for the `hbase-site.xml` of a process.

    Args:
        role: the role of the process, one of `ROLES`.
        settings: the settings, whose properties override the properties that are set here.
        ports: the port numbers by the names of the ports.
    """
    common = {
        "hbase.cluster.distributed": "false",
        "hbase.rootdir": f"file://{directory}/data",
        "hbase.tmp.dir": f"{directory}/tmp",
        "hbase.zookeeper.quorum": ADDRESS,
        "hbase.zookeeper.property.clientPort": str(ports["zookeeper"]),
    }
    if role == SERVER:
        return {**common, **_server_properties(directory, ports), **settings.properties}
    return {**common, **_GATEWAY_PROPERTIES, **settings.properties, **settings.gateway_properties}


def _server_properties(directory: Path, ports: Mapping[str, int]) -> dict[str, str]:
    return {
        "hbase.zookeeper.property.dataDir": f"{directory}/zookeeper",
        "hbase.zookeeper.property.clientPortAddress": ADDRESS,
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.wal.provider": "filesystem",
        "hbase.master.hostname": "localhost",
        "hbase.regionserver.hostname": "localhost",
        "hbase.master.port": str(ports["master"]),
        "hbase.regionserver.port": str(ports["regionserver"]),
        "hbase.master.info.port": "-1",
        "hbase.regionserver.info.port": "-1",
        # There is one region server, in the master's own process. So the master need not wait 4.5 s for others, the
        # region server can report to it often, and the master can dispatch procedures with little delay.
        "hbase.master.wait.on.regionservers.mintostart": "1",
        "hbase.master.wait.on.regionservers.maxtostart": "1",
        "hbase.master.wait.on.regionservers.interval": "100",
        "hbase.regionserver.msginterval": "500",
        "hbase.procedure.remote.dispatcher.delay.msec": "10",
        # There are many small tables. Each would allocate a chunk of 2 MB for its first cell, and 400 of them would
        # fill the heap.
        "hbase.hregion.memstore.mslab.enabled": "false",
        # Few handlers are enough for one developer.
        "hbase.regionserver.handler.count": "10",
        "hbase.regionserver.metahandler.count": "4",
        "hbase.regionserver.replication.handler.count": "1",
        # ZooKeeper runs in the same process, so several retries of a failed call would only delay a stop.
        "zookeeper.recovery.retry": "1",
        "zookeeper.recovery.retry.intervalmill": "200",
        # The server may be paused, as on a busy or suspended machine, and no other server can take over. By default, it
        # would lose its session with its own ZooKeeper after ten seconds, and end. The timeout is not longer, because a
        # killed server that is started again on other ports waits for the end of its former session.
        "zookeeper.session.timeout.localHBaseCluster": str(1000 * SURVIVED_PAUSE),
        "hbase.zookeeper.property.maxSessionTimeout": str(1000 * SURVIVED_PAUSE),
    }


_GATEWAY_PROPERTIES = {
    # If the server does not run, a gateway must answer before the caller gives up (by default after 30 seconds), so
    # that the caller learns the reason. With HBase's defaults, a call may wait for twenty minutes. An attempt may begin
    # at the end of the time for an operation, and first looks up the location of the region. The look-up is not limited
    # by that time: it has as many attempts as a call, and each attempt may wait for the server of hbase:meta, or for
    # ZooKeeper if that does not answer. So there are few attempts, and short timeouts for the look-up.
    "hbase.client.operation.timeout": "12000",
    "hbase.client.scanner.timeout.period": "12000",
    "hbase.rpc.timeout": "8000",
    "hbase.client.retries.number": "6",
    "hbase.client.meta.operation.timeout": "1500",
    "hbase.client.meta.scanner.timeout.period": "1500",
    "hbase.client.meta.read.rpc.timeout": "1500",
    "zookeeper.registry.async.get.timeout": "1500",
    "zookeeper.recovery.retry": "1",
    "zookeeper.recovery.retry.intervalmill": "200",
    "hbase.thrift.minWorkerThreads": "4",
}


def site_xml(properties: Mapping[str, str]) -> str:
    """Returns the properties in Hadoop's XML format.

    Raises:
        LocalHBaseError: a name or value has a character that XML cannot contain.
    """
    root = ElementTree.Element("configuration")
    for name, value in sorted(properties.items()):
        entry = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(entry, "name").text = name
        ElementTree.SubElement(entry, "value").text = value
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    try:
        ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise LocalHBaseError(
            "An HBase property contains a character that XML does not allow: remove it.", cause=str(error)
        ) from error
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


LOG4J_PROPERTIES = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File=${hbmodel.log}
log4j.appender.file.MaxFileSize=20MB
log4j.appender.file.MaxBackupIndex=1
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d{ISO8601} %-5p [%t] %c{2}: %m%n
"""
"""The logging configuration for the pinned jars, which use reload4j."""

LOG4J2_PROPERTIES = """\
status = warn
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = ${sys:hbmodel.log}
appender.file.filePattern = ${sys:hbmodel.log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{ISO8601} %-5p [%t] %c{2}: %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
rootLogger = INFO, file
"""
"""The logging configuration for an installed distribution, which uses log4j 2."""


METRICS_PROPERTIES = """\
*.source.start_mbeans = false
"""
"""No metrics are published as JMX beans, because nothing reads them. HBase would make the beans of all tables again
whenever a table is created. With 800 tables, this took a third of the server's time.
"""


def mark(directory: Path) -> str:
    """Returns the command line argument that identifies the processes of a directory."""
    return f"-Dhbmodel.localhbase={directory}"


def command(role: str, directory: Path, settings: Settings, ports: Mapping[str, int], java: Java) -> list[str]:
    """Returns the Java command of one of `ROLES`. Its class path is not part of the command, but is set in the
    environment variable `CLASSPATH`.
    """
    heap = settings.server_heap if role == SERVER else settings.gateway_heap
    jvm = [
        str(java.path),
        mark(directory),
        f"-Dhbmodel.role={role}",
        f"-Dhbmodel.log={directory}/logs/{role}.log",
        f"-Djava.io.tmpdir={directory}/tmp",
        f"-XX:ErrorFile={directory}/logs/{role}.crash",
        f"-Xmx{heap}",
        *JVM_FLAGS,
        _MAIN[role],
        "start",
    ]
    if role == SERVER:
        return jvm
    return [*jvm, "--port", str(ports[role]), "--infoport", "-1", "--bind", ADDRESS, "-threadpool"]
