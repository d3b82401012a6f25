"""Returns rows as Apache Phoenix writes them: its client compiles `UPSERT`s without a server, and returns their
cells.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.phoenix_jars import CLIENT, downloaded

IN_JAVA = """
import json, os, sys
import jpype, jpype.imports
from hbmodel.localhbase.jars import class_path
from hbmodel.localhbase.java import find_java

os.environ["JAVA_HOME"] = str(find_java().path.parents[1])
jpype.startJVM(
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    classpath=[*sys.argv[1:], *class_path(progress=False).split(os.pathsep)],
)
jpype.JClass("org.apache.phoenix.jdbc.PhoenixDriver")
runtime = jpype.JClass("org.apache.phoenix.util.PhoenixRuntime")
cells = jpype.JClass("org.apache.hadoop.hbase.CellUtil")
connection = jpype.java.sql.DriverManager.getConnection("jdbc:phoenix:none;rows")
statement = connection.createStatement()

def plain(array):
    return bytes(byte & 255 for byte in array)

asked = json.load(sys.stdin)
for line in asked["tables"]:
    statement.execute(line)
rows = []
for line in asked["upserts"]:
    statement.execute(line)
    puts = {}
    found = runtime.getUncommittedDataIterator(connection)
    while found.hasNext():
        for cell in found.next().getSecond():
            if cells.isPut(cell):
                column = plain(cells.cloneFamily(cell)) + b":" + plain(cells.cloneQualifier(cell))
                puts[column.hex()] = plain(cells.cloneValue(cell)).hex()
                key = plain(cells.cloneRow(cell))
    connection.rollback()
    rows.append([key.hex(), puts])
print(json.dumps(rows))
"""


def rows_of_upserts(
    tables: Sequence[str], upserts: Sequence[str], cache: Path
) -> Sequence[tuple[bytes, Mapping[bytes, bytes]]]:
    """Returns the row key and the cells of each `UPSERT`, in their order.

    Args:
        tables: the statements that create the tables.
        cache: a directory for the jars.
    """
    jars = map(str, downloaded(CLIENT, cache))
    done = subprocess.run(
        [sys.executable, "-c", IN_JAVA, *jars],
        input=json.dumps({"tables": tables, "upserts": upserts}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [
        (bytes.fromhex(key), {bytes.fromhex(column): bytes.fromhex(value) for column, value in cells.items()})
        for key, cells in json.loads(done.stdout.splitlines()[-1])
    ]
