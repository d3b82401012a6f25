"""HBase's Java client in a separate process, which represents programs that do not use hbmodel.

Run with the path of a configuration directory, it reads commands from its input, one line of JSON each, and answers
each with a line of JSON when it is done:

    {"do": "create", "table": "t", "family": "d"}
    {"do": "put", "table": "t", "family": "d", "row": "r", "columns": {"a": "text", "b": 5}, "timestamp": 10}
        a row may be a list of parts, joined by `Bytes.add`: text, ints, and {"reverse": 5} for `Long.MAX_VALUE - 5`
    {"do": "delete", "table": "t", "family": "d", "row": "r", "columns": ["a"]}
    {"do": "cells", "table": "t"}    the answer: [row, column, timestamp, value] of every cell, bytes in hex
    {"do": "flush", "table": "t"}
    {"do": "compact", "table": "t"}    a major compaction; answered when it is over
    {"do": "split", "table": "t", "row": "m"}    the region of the row, which begins the second half
    {"do": "copy", "table": "t", "to": "u"}    a snapshot of the table, cloned under another name
    {"do": "drop", "table": "t"}
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hbmodel.localhbase.hbase_configuration import JVM_FLAGS
from hbmodel.localhbase.jars import class_path
from hbmodel.localhbase.java import find_java
from tests.support.tested_version import TESTED

ROOT = Path(__file__).parents[2]

PATIENT = (
    "hbase.client.operation.timeout",
    "hbase.client.scanner.timeout.period",
    "hbase.rpc.timeout",
    "hbase.client.meta.operation.timeout",
    "hbase.client.meta.scanner.timeout.period",
    "hbase.client.meta.read.rpc.timeout",
    "zookeeper.registry.async.get.timeout",
)
"""The timeouts of the client, in ms."""

Cell = tuple[bytes, bytes, int, bytes]
"""A cell: row, `family:qualifier`, timestamp and value."""


class JavaClient:
    """Sends commands to the program with the Java client.

    Args:
        process: the process of the program.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, do: str, table: str, **more: Any) -> Any:
        """Returns the answer to one command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, "table": table, **more}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the Java client has ended"
        return json.loads(answer)

    def put(
        self,
        table: str,
        row: str | Sequence[Any],
        columns: Mapping[str, str | int],
        timestamp: int | None = None,
        family: str = "d",
    ) -> None:
        """Puts text and ints as `Bytes.toBytes` encodes them."""
        self.ask("put", table, family=family, row=row, columns=columns, timestamp=timestamp)

    def cells(self, table: str) -> Sequence[Cell]:
        """Returns every cell of a table."""
        return [
            (*map(bytes.fromhex, (row, column)), at, bytes.fromhex(value))
            for row, column, at, value in self.ask("cells", table)
        ]  # type: ignore[misc]


@contextmanager
def java_client(hbase: Path) -> Iterator[JavaClient]:
    """Runs a Java client of a local HBase, which is given by its directory."""
    with tempfile.TemporaryFile() as log:
        command = [sys.executable, "-m", "tests.support.java_client", str(hbase / "conf" / "gateways")]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT
        ) as process:
            try:
                yield JavaClient(process)
            finally:
                if process.poll() is not None:  # the process has ended by itself, and its last output is the reason
                    log.seek(0)
                    sys.stderr.write(log.read().decode(errors="replace"))
                process.kill()


def main(configuration: str) -> None:
    """Answers commands until the input ends."""
    import jpype

    java = find_java()
    os.environ["JAVA_HOME"] = str(java.path.parents[1])
    jpype.startJVM(
        *JVM_FLAGS,
        f"-Dhbmodel.log={os.devnull}",
        "-Xmx256m",
        classpath=[configuration, *class_path(TESTED, progress=False).split(os.pathsep)],
    )
    Bytes = jpype.JClass("org.apache.hadoop.hbase.util.Bytes")
    client = "org.apache.hadoop.hbase.client."
    TableName, CellUtil = (jpype.JClass(f"org.apache.hadoop.hbase.{name}") for name in ("TableName", "CellUtil"))
    Put, Delete, Scan, Factory, TableBuilder, Families = (
        jpype.JClass(client + name)
        for name in (
            "Put",
            "Delete",
            "Scan",
            "ConnectionFactory",
            "TableDescriptorBuilder",
            "ColumnFamilyDescriptorBuilder",
        )
    )

    def data(value: Any) -> Any:
        if isinstance(value, list):
            joined = data("")
            for part in value:
                joined = Bytes.add(joined, data(part))
            return joined
        if isinstance(value, dict):
            return Bytes.toBytes(jpype.JLong(jpype.java.lang.Long.MAX_VALUE - value["reverse"]))
        return Bytes.toBytes(jpype.JInt(value)) if isinstance(value, int) else Bytes.toBytes(jpype.JString(value))

    def put(table: Any, said: Any) -> None:
        made = Put(data(said["row"]))
        for column, value in said["columns"].items():
            cell = (data(said["family"]), data(column))
            if said["timestamp"] is None:
                made.addColumn(*cell, data(value))
            else:
                made.addColumn(*cell, jpype.JLong(said["timestamp"]), data(value))
        table.put(made)

    def delete(table: Any, said: Any) -> None:
        made = Delete(data(said["row"]))
        for column in said["columns"]:
            made.addColumns(data(said["family"]), data(column))
        table.delete(made)

    def cells(table: Any, said: Any) -> list[Any]:
        found = []
        for result in table.getScanner(Scan()):
            for cell in result.rawCells():
                column = "3a".join(
                    str(Bytes.toHex(part(cell))) for part in (CellUtil.cloneFamily, CellUtil.cloneQualifier)
                )
                row, value = (str(Bytes.toHex(part(cell))) for part in (CellUtil.cloneRow, CellUtil.cloneValue))
                found.append([row, column, int(cell.getTimestamp()), value])
        return found

    def compact(admin: Any, name: Any) -> None:
        admin.majorCompact(name)
        time.sleep(1)  # the operation has begun by then
        while str(admin.getCompactionState(name)) != "NONE":
            time.sleep(0.1)

    def split(admin: Any, name: Any, row: Any) -> None:
        [region] = [region for region in admin.getRegions(name) if region.containsRow(row)]
        admin.splitRegionAsync(region.getRegionName(), row).get()

    def copy(admin: Any, name: Any, to: Any) -> None:
        snapshot = jpype.JString(f"of-{to}")
        admin.snapshot(snapshot, name)
        admin.cloneSnapshot(snapshot, TableName.valueOf(jpype.JString(to)))
        admin.deleteSnapshot(snapshot)

    # The configuration of the gateways has short timeouts, which a busy machine may exceed.
    patient = jpype.JClass("org.apache.hadoop.hbase.HBaseConfiguration").create()
    for name in PATIENT:
        patient.set(name, "60000")
    with Factory.createConnection(patient) as connection:
        for line in sys.stdin:
            said = json.loads(line)
            name, admin = TableName.valueOf(jpype.JString(said["table"])), connection.getAdmin()
            answer = None
            if said["do"] == "create":
                family = Families.newBuilder(data(said["family"])).build()
                admin.createTable(TableBuilder.newBuilder(name).setColumnFamily(family).build())
            elif said["do"] == "flush":
                admin.flush(name)
            elif said["do"] == "compact":
                compact(admin, name)
            elif said["do"] == "split":
                split(admin, name, data(said["row"]))
            elif said["do"] == "copy":
                copy(admin, name, said["to"])
            elif said["do"] == "drop":
                admin.disableTable(name)
                admin.deleteTable(name)
            else:
                answer = {"put": put, "delete": delete, "cells": cells}[said["do"]](connection.getTable(name), said)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
