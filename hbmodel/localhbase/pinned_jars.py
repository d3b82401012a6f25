"""The jars of each version of HBase that can be started, each with its coordinates, size and SHA-256.

With a list of jars, no dependencies have to be resolved. The jars are fetched immediately and in parallel, the number
of bytes is known in advance, and exactly the tested jars are used. `listing` makes the list for a version.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import frozen

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase.extras import required

VERSIONS = ("2.2.6", "2.3.3", "2.4.17", "2.5.8", "2.6.1")
"""The versions of HBase that have a list, the oldest first."""

HBASE_VERSION = VERSIONS[-1]
"""The version that is started by default."""

_LEFT_OUT = {
    # This is servlet API 2.5, but HBase needs 3.1. If 2.5 comes first, a gateway over HTTP does not start.
    ("javax.servlet", "servlet-api"),
}

_MODULES = [
    "asyncfs",
    "client",
    "common",
    "hadoop-compat",
    "hadoop2-compat",
    "http",
    "logging",
    "metrics",
    "metrics-api",
    "procedure",
    "protocol",
    "protocol-shaded",
    "replication",
    "server",
    "thrift",
    "zookeeper",
]
_SHADED = [
    "shaded-gson",
    "shaded-jersey",
    "shaded-jetty",
    "shaded-miscellaneous",
    "shaded-netty",
    "shaded-protobuf",
    "unsafe",
]
_JETTY = ["http", "io", "security", "server", "servlet", "util", "util-ajax", "webapp", "xml"]
_JERSEY = [
    "org.glassfish.jersey.core:jersey-client",
    "org.glassfish.jersey.core:jersey-common",
    "org.glassfish.jersey.core:jersey-server",
    "org.glassfish.jersey.containers:jersey-container-servlet-core",
]


@frozen
class Pin:
    """One jar.

    Attributes:
        sha256: digest of the file, in hex.
        size: the number of bytes of the file.
        group: Maven group, as in `org.apache.hbase`.
        artifact: Maven artifact, as in `hbase-thrift`.
        version: Maven version, as in `2.6.1`.
    """

    sha256: str
    size: int
    group: str
    artifact: str
    version: str

    @property
    def filename(self) -> str:
        """The name of the jar file."""
        return f"{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.sha256} {self.size} {self.group}:{self.artifact}:{self.version}"


def parse(line: str) -> Pin:
    """Reads one line of a list, in the form that `str(pin)` has."""
    sha256, size, coordinates = line.split()
    return Pin(sha256, int(size), *coordinates.split(":"))


def checked(version: str) -> str:
    """Returns the version if there is a list for it.

    Raises:
        LocalHBaseError: there is no list for this version.
    """
    if version not in VERSIONS:
        raise LocalHBaseError(
            "hbmodel cannot download this version of HBase: name one of the known ones, or set HBASE_HOME to an "
            "unpacked distribution.",
            found=version,
            known=list(VERSIONS),
        )
    return version


def pinned(version: str = HBASE_VERSION) -> tuple[Pin, ...]:
    """Returns all jars of the server and gateways of one of `VERSIONS`.

    Raises:
        LocalHBaseError: there is no list for this version.
    """
    lists = resources.files("hbmodel.localhbase").joinpath("versions")
    text = lists.joinpath(f"{checked(version)}.txt").read_text("utf-8")
    return tuple(parse(line) for line in text.splitlines() if line and not line.startswith("#"))


@frozen
class OlderVersion:
    """The libraries of an older version that differ from those of the newest version.

    The resolver cannot follow the dependencies of these versions. All versions were built for Hadoop 2.10 too, so the
    other libraries, including Hadoop's, are taken from the newest version.

    Attributes:
        shaded: version of `org.apache.hbase.thirdparty`, the property `hbase-thirdparty.version` of HBase's POM.
        thrift: version of `libthrift`.
        jetty: version of Jetty, if the shaded libraries do not contain it; in this case they do not contain Jersey
            either.
    """

    shaded: str
    thrift: str
    jetty: str | None = None

    def coordinates(self, version: str) -> list[str]:
        """Returns the coordinates of HBase's own modules and of these libraries. Some of them do not exist in every
        version.
        """
        return [
            *(f"org.apache.hbase:hbase-{name}:{version}" for name in _MODULES),
            *(f"org.apache.hbase.thirdparty:hbase-{name}:{self.shaded}" for name in _SHADED),
            f"org.apache.thrift:libthrift:{self.thrift}",
            *([f"org.eclipse.jetty:jetty-{name}:{self.jetty}" for name in _JETTY] if self.jetty else ()),
            *([f"{name}:2.25.1" for name in _JERSEY] + ["javax.ws.rs:javax.ws.rs-api:2.0.1"] if self.jetty else ()),
        ]


OLDER: Mapping[str, OlderVersion] = {
    "2.2.6": OlderVersion("2.2.1", "0.13.0", "9.3.27.v20190418"),
    "2.3.3": OlderVersion("3.3.0", "0.13.0", "9.3.28.v20191105"),
    "2.4.17": OlderVersion("4.1.4", "0.14.1"),
    "2.5.8": OlderVersion("4.1.5", "0.14.1"),
}
"""The older versions in `VERSIONS`, each with data from its POM."""


def listing(version: str) -> str:
    """Returns the text of the list for a version of HBase.

    Downloads the jars and pins each of them. For the newest version, the dependencies of `hbase-thrift` are resolved;
    for a version in `OLDER`, all other jars are those of the newest version.

    Raises:
        LocalHBaseError: this is neither the newest version nor one of `OLDER`.
    """
    if version in OLDER:
        pins = older_pins(OLDER[version].coordinates(version), pinned())
    else:
        pins = _resolved(f"org.apache.hbase:hbase-thrift:{checked(version)}")
    lines = [
        f"# The class path of HBase {version}, its server and gateways: SHA-256, bytes, group:artifact:version.",
        "# Made by hbmodel.localhbase.pinned_jars.listing.",
        *map(str, sorted(pins, key=lambda pin: (pin.group, pin.artifact))),
    ]
    return "\n".join(lines) + "\n"


def _resolved(coordinates: str) -> list[Pin]:
    """Returns the jars of an artifact and of its dependencies."""
    return [
        _pin(Path(each.resolve()), each.groupId, each.artifactId, each.version)
        for each in required("jgo").resolve(coordinates)
        if (each.groupId, each.artifactId) not in _LEFT_OUT
    ]


def older_pins(
    coordinates: Sequence[str], newest: Sequence[Pin], fetch: Callable[[str, str, str, Path], Path | None] | None = None
) -> list[Pin]:
    """Returns the jars of an older version of HBase. These are the jars in `coordinates`, and all other jars of the
    newest version that are not HBase's own.

    Args:
        coordinates: `group:artifact:version` of each jar.
        newest: the jars of the newest version.
        fetch: fetches a jar into a directory and returns its path, or None if there is no such jar.
    """
    fetch = fetch or _fetched
    own = []
    with tempfile.TemporaryDirectory() as scratch:
        for each in coordinates:
            group, artifact, version = each.split(":")
            if path := fetch(group, artifact, version, Path(scratch) / artifact):
                own.append(_pin(path, group, artifact, version))
    named = {(pin.group, pin.artifact) for pin in own}
    return own + [
        pin for pin in newest if (pin.group, pin.artifact) not in named and not pin.group.startswith("org.apache.hbase")
    ]


def _fetched(group: str, artifact: str, version: str, directory: Path) -> Path | None:
    maven: Any = required("jgo.maven")
    context = maven.MavenContext(resolver=maven.PythonResolver(), repo_cache=directory)
    try:
        return Path(context.project(group, artifact).at_version(version).artifact().resolve())
    except RuntimeError:  # jgo raises this if no repository has the jar
        return None


def _pin(path: Path, group: str, artifact: str, version: str) -> Pin:
    content = path.read_bytes()
    return Pin(hashlib.sha256(content).hexdigest(), len(content), group, artifact, version)
