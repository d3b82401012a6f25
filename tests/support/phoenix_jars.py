"""The jars of Apache Phoenix, without the jars of HBase."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

VERSION = "5.2.1"

TYPES = (
    ("org.apache.phoenix", "phoenix-core-client", VERSION),
    ("org.apache.phoenix.thirdparty", "phoenix-shaded-guava", "2.1.0"),
    ("joda-time", "joda-time", "2.10.5"),
)
"""The jars for Phoenix's types, 8 MB in all."""

CLIENT = (
    *TYPES,
    ("org.apache.phoenix", "phoenix-hbase-compat-2.6.0", VERSION),
    ("org.apache.phoenix.thirdparty", "phoenix-shaded-commons-cli", "2.1.0"),
    ("org.antlr", "antlr-runtime", "3.5.2"),
    ("com.google.protobuf", "protobuf-java", "2.5.0"),
    ("org.apache.htrace", "htrace-core", "3.1.0-incubating"),
    ("org.apache.htrace", "htrace-core4", "4.2.0-incubating"),
    ("org.iq80.snappy", "snappy", "0.3"),
)
"""The jars for Phoenix's client."""

SERVER = (
    *CLIENT,
    ("org.apache.phoenix", "phoenix-core-server", VERSION),
    ("com.jayway.jsonpath", "json-path", "2.9.0"),
    ("org.mongodb", "bson", "4.4.0"),
)
"""The jars for Phoenix's client and for its code in the servers of HBase."""


def downloaded(jars: Sequence[tuple[str, str, str]], cache: Path) -> list[Path]:
    """Returns the files of jars.

    Args:
        jars: group, artifact and version of each.
        cache: the directory for the jars.
    """
    from jgo.config import GlobalSettings
    from jgo.maven import MavenContext, PythonResolver

    context = MavenContext(resolver=PythonResolver(), repo_cache=cache)
    context.remote_repos.update(GlobalSettings.load().repositories)
    return [Path(context.project(g, a).at_version(v).artifact().resolve()) for g, a, v in jars]
