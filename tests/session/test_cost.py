"""The amount of Python code that a read and a write of one row run: a gateway answers in the time of a few hundred
function calls, so each counts.
"""

from __future__ import annotations

import gc
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from attrs import evolve
from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TMemoryBuffer

import hbmodel as hb
from hbmodel.mapping.rows.mapper import take
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.roll_line_format import NOTHING
from hbmodel.store.thrift1.service import SERVICE, ResultCell, ResultRow
from hbmodel.tables.registry.registration import Binding
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.binding_cache import BindingCache


@hb.model(table="costs", family="d", salt=hb.HashSalt(16, by=("number",)))
class Cost:
    group: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("n")
    size: hb.Column[int] = hb.column("s", hb.Int32)


ONE = Cost(group=1, number=2, name="x", size=3)


class Known(BindingCache):
    """Needs no registry, and has a lease on the writers' roll."""

    def binding(self, schema: TableSchema, registry: Registry) -> Binding:
        return Binding(schema, (), (), ())

    def on_the_roll(self, store: hb.Store) -> Known:
        line = self.roll(1200).line(store, "hbmodel", registry_row(hb.schema.schema_of(Cost)))
        line.member = evolve(line.member, newest=NOTHING, until=1 << 60)
        return self


def reply(api: str, **fields: object) -> bytes:
    """The bytes of a gateway's answer."""
    buffer = TMemoryBuffer()
    protocol: Any = TBinaryProtocol(buffer)
    result = getattr(SERVICE, api + "_result")()
    for name, value in fields.items():
        setattr(result, name, value)
    protocol.write_message_begin(api, TMessageType.REPLY, 0)
    protocol.write_struct(result)
    return bytes(buffer.getvalue())


@contextmanager
def gateway(answer: bytes) -> Iterator[str]:
    """The address of a gateway that gives the same answer to every request."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            while connection.recv(1 << 16):
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"hbase://127.0.0.1:{server.getsockname()[1]}"
    thread.join()


def functions_run(work: Callable[[], object]) -> list[str]:
    """The functions in Python that it calls, once it has been done before: once to read the registry, and once to
    find out what is then kept of it.
    """
    work()
    work()
    gc.collect()  # what other tests have left: its finalizers would be counted
    gc.disable()
    found: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.append(frame.f_code.co_qualname)

    profiler = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(profiler)
        gc.enable()
    return found


def put(session: hb.Session) -> None:
    session.add(ONE)
    session.commit()


def get(session: hb.Session) -> None:
    assert session.get(Cost, group=1, number=2) == ONE


_, ROW, CELLS = take(hb.schema.schema_of(Cost), ONE)
FOUND = ResultRow(row=ROW, columns={column: ResultCell(value=value, timestamp=1) for column, value in CELLS.items()})


@pytest.mark.parametrize(
    ("work", "answer", "most"),
    [(put, reply("mutateRow"), 124), (get, reply("getRowsWithColumns", success=[FOUND]), 56)],
)
def test_a_call_of_one_row_runs_few_functions(work: Callable[[hb.Session], None], answer: bytes, most: int) -> None:
    with gateway(answer) as url, hb.connect(url) as store:
        session = hb.Session(store, cache=Known(60).on_the_roll(store))
        run = functions_run(lambda: work(session))
    print(len(run))
    assert len(run) <= most, run
