"""The jars of HBase that this release was tested with, each by coordinates, size and SHA-256.

With the list, no dependencies have to be resolved. Jars are fetched at once and in parallel, the number of bytes is
known in advance, and the jars are those that were tested. For another version of HBase, `listing` makes the list.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

from attrs import frozen

from hbmodel.localhbase.extras import required

HBASE_VERSION = "2.6.1"
"""The version of HBase in the list."""


_LEFT_OUT = {
    # This is servlet API 2.5, and HBase needs 3.1: if 2.5 comes first, a gateway over HTTP does not start.
    ("javax.servlet", "servlet-api"),
}


@frozen
class Pin:
    """One jar.

    Attributes:
        sha256: digest of the file, in hex.
        size: bytes.
        group: Maven group, as in `org.apache.hbase`.
        artifact: Maven artifact, as in `hbase-thrift`.
        version: as in `2.6.1`.
    """

    sha256: str
    size: int
    group: str
    artifact: str
    version: str

    @property
    def filename(self) -> str:
        """Name of the jar file."""
        return f"{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.sha256} {self.size} {self.group}:{self.artifact}:{self.version}"


def parse(line: str) -> Pin:
    """Read one line of the list, in the form that `str(pin)` gives."""
    sha256, size, coordinates = line.split()
    return Pin(sha256, int(size), *coordinates.split(":"))


def pinned() -> tuple[Pin, ...]:
    """All jars of HBase's server and gateways."""
    text = resources.files("hbmodel.localhbase").joinpath("jars.txt").read_text("utf-8")
    return tuple(parse(line) for line in text.splitlines() if line and not line.startswith("#"))


def listing(coordinates: str) -> str:
    """The text of the list for a version of HBase.

    Resolves the dependencies, downloads the jars into the user's Maven repository, and pins each of them.

    Args:
        coordinates: `group:artifact:version`, as in `org.apache.hbase:hbase-thrift:2.6.1`.
    """
    artifacts = [
        each for each in required("jgo").resolve(coordinates) if (each.groupId, each.artifactId) not in _LEFT_OUT
    ]
    lines = [
        f"# The class path of {coordinates} and all it needs: SHA-256, bytes, group:artifact:version.",
        "# Made by hbmodel.localhbase.pins.listing.",
    ]
    for artifact in sorted(artifacts, key=lambda each: (each.groupId, each.artifactId)):
        content = Path(artifact.resolve()).read_bytes()
        lines.append(
            str(
                Pin(
                    hashlib.sha256(content).hexdigest(),
                    len(content),
                    artifact.groupId,
                    artifact.artifactId,
                    artifact.version,
                )
            )
        )
    return "\n".join(lines) + "\n"
