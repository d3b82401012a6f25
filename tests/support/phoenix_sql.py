"""Runs the SQL of Apache Phoenix, on an HBase with Phoenix's classes and with its JDBC driver in a separate process.

Run with the port of ZooKeeper, a configuration directory and a directory of jars, this module reads requests from its
input, one line of JSON each. A request is a statement, and a list of rows of values to bind. It executes the statement
for each row, commits, and answers with the rows of the last result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from hbmodel.localhbase import VERSIONS, LocalHBase
from hbmodel.localhbase.hbase_configuration import JVM_FLAGS
from hbmodel.localhbase.jars import class_path
from hbmodel.localhbase.java import find_java
from tests.support.phoenix_jars import SERVER, downloaded

ROOT = Path(__file__).parents[2]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

PROPERTIES = {
    # Without it the server refuses tables with an index.
    "hbase.regionserver.wal.codec": "org.apache.hadoop.hbase.regionserver.wal.IndexedWALEditCodec",
}


@frozen
class Moment:
    """A time that is bound as `DATE` or `TIME`, because Phoenix does not compare values of these types with a
    `TIMESTAMP`.

    Attributes:
        kind: `Date` or `Time`.
    """

    at: datetime
    kind: str


class RefusedStatement(Exception):
    """Raised if Phoenix refuses a statement."""


class PhoenixSql:
    """Sends statements to the driver.

    Values are None, bool, int, float, str, bytes, Decimal, and datetime or `Moment`. Times are answered as datetime.

    Args:
        process: the process of the driver.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Executes one statement. Returns its rows, or no rows if it is no query."""
        return self.for_each(statement, [values])

    def for_each(self, statement: str, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Executes a statement with the values of each row, and returns the rows of the last result.

        Raises:
            RefusedStatement: Phoenix refused the statement.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([statement, [[_said(value) for value in row] for row in rows]]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "Phoenix's client has ended"
        answer = json.loads(line)
        if isinstance(answer, str):
            raise RefusedStatement(f"{statement}: {answer}")
        return [tuple(_heard(value) for value in row) for row in answer]


def _said(value: Any) -> Any:
    match value:
        case datetime():
            return _said(Moment(value, "Timestamp"))
        case Moment(at, kind):
            return {"time": (at - EPOCH) // MICROSECOND, "kind": kind}
        case Decimal():
            return {"decimal": f"{value:f}"}
        case bytes():
            return {"bytes": value.hex()}
    return value


def _heard(value: Any) -> Any:
    match value:
        case {"time": micros}:
            return EPOCH + micros * MICROSECOND
        case {"decimal": text}:
            return Decimal(text)
        case {"bytes": text}:
            return bytes.fromhex(text)
    return value


@contextmanager
def hbase_with_phoenix(directory: Path) -> Iterator[tuple[LocalHBase, PhoenixSql]]:
    """Starts an HBase with the classes of Phoenix, and a client of its SQL.

    Args:
        directory: an empty directory, for the jars and for HBase.
    """
    library = directory / "distribution" / "lib"
    library.mkdir(parents=True)
    # As Phoenix's manual says, its jars are put beside those of HBase.
    for jar in [*downloaded(SERVER, directory / "jars"), *map(Path, _jars_of_hbase())]:
        if not (library / jar.name).exists():
            (library / jar.name).symlink_to(jar)
    hbase = LocalHBase(directory / "hbase", properties=PROPERTIES, progress=False, temporary=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HBASE_HOME", str(library.parent))
        hbase.start()
    try:
        with tempfile.TemporaryFile() as log:
            conf = hbase.directory / "conf" / "server"
            command = [sys.executable, "-m", "tests.support.phoenix_sql", str(hbase.zookeeper_port), conf, library]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT
            ) as process:
                try:
                    yield hbase, PhoenixSql(process)
                finally:
                    if process.poll() is not None:  # the process has ended by itself, and its last output is the reason
                        log.seek(0)
                        sys.stderr.write(log.read().decode(errors="replace"))
                    process.kill()
    finally:
        hbase.stop()


def _jars_of_hbase() -> list[str]:
    return class_path(VERSIONS[-1], progress=False).split(os.pathsep)


def main(port: str, configuration: str, library: str) -> None:
    """Answers requests until the input ends."""
    import jpype

    os.environ["JAVA_HOME"] = str(find_java().path.parents[1])
    jpype.startJVM(*JVM_FLAGS, f"-Dhbmodel.log={os.devnull}", "-Xmx512m", classpath=[configuration, f"{library}/*"])
    sql, BigDecimal = jpype.java.sql, jpype.java.math.BigDecimal
    jpype.JClass("org.apache.phoenix.jdbc.PhoenixDriver")
    connection = sql.DriverManager.getConnection(f"jdbc:phoenix:127.0.0.1:{port}:/hbase")

    def to_java(value: Any) -> Any:
        match value:
            case {"time": micros, "kind": "Timestamp"}:
                made = sql.Timestamp(micros // 1_000_000 * 1_000)
                made.setNanos(micros % 1_000_000 * 1_000)
                return made
            case {"time": micros, "kind": kind}:
                return getattr(sql, kind)(micros // 1_000)
            case {"decimal": text}:
                return BigDecimal(text)
            case {"bytes": text}:
                return jpype.JArray(jpype.JByte)(bytes.fromhex(text))
            case bool():
                return jpype.java.lang.Boolean.valueOf(value)
            case int():
                return jpype.java.lang.Long.valueOf(value)
            case float():
                return jpype.java.lang.Double.valueOf(value)
        return value

    def from_java(value: Any) -> Any:
        match value:
            case None:
                return None
            case sql.Timestamp():
                micros, rest = divmod(int(value.getNanos()), 1_000)
                assert not rest
                return {"time": int(value.getTime()) // 1_000 * 1_000_000 + micros}
            case jpype.java.util.Date():
                return {"time": int(value.getTime()) * 1_000}
            case BigDecimal():
                return {"decimal": str(value.toPlainString())}
            case jpype.java.lang.Boolean():
                return bool(value)
            case jpype.java.lang.Float() | jpype.java.lang.Double():
                return float(value)
            case jpype.java.lang.Number():
                return int(value)
            case jpype.java.lang.String():
                return str(value)
        return {"bytes": bytes(byte & 255 for byte in value).hex()}

    def answer(statement: str, rows: list[list[Any]]) -> list[list[Any]]:
        prepared = connection.prepareStatement(statement)
        found: list[list[Any]] = []
        for row in rows:
            for place, value in enumerate(row, 1):
                prepared.setObject(place, to_java(value))
            if prepared.execute():
                results = prepared.getResultSet()
                columns = range(1, results.getMetaData().getColumnCount() + 1)
                found = []
                while results.next():
                    found.append([from_java(results.getObject(column)) for column in columns])
        prepared.close()
        connection.commit()
        return found

    for line in sys.stdin:
        try:
            said: Any = answer(*json.loads(line))
        except sql.SQLException as error:
            said = str(error)
            connection.rollback()
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
