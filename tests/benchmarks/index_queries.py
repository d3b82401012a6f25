"""Comparisons of index queries with happybase, and with the Thrift2 gateway's own calls, which happybase does not
support.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import happybase
import thriftpy2
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.transport import TBufferedTransportFactory

import hbmodel as hb
from hbmodel.store import thrift2
from tests.benchmarks.comparison import IN_ROW, MANY, Case

SUFFIX = f"{os.getpid()}"
OWNER = "owner 42"
PREFIX = b"owner 42\x00\x01"
MOST = 100


@hb.model(table=f"bench_event_{SUFFIX}", family="d", immutable=True)
class Event:
    source: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32)
    kind: hb.Column[str] = hb.column("k")
    owner: hb.Column[str] = hb.column("o")
    size: hb.Column[int] = hb.column("s", hb.Int32)
    text: hb.Column[str] = hb.column("t")

    by_kind = hb.index("kind")
    by_owner = hb.index("owner")


@hb.model(table=f"bench_covered_{SUFFIX}", family="d", immutable=True)
class Covered:
    source: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32)
    kind: hb.Column[str] = hb.column("k")
    owner: hb.Column[str] = hb.column("o")
    size: hb.Column[int] = hb.column("s", hb.Int32)
    text: hb.Column[str] = hb.column("t")

    by_owner = hb.index("owner", covers=("kind", "size", "text"))


def events(rows: int, model: Any = Event) -> Iterator[Any]:
    for n in range(rows):
        yield model(source=n % 16, number=n, kind=f"kind {n % 9}", owner=f"owner {n % 99}", size=n, text="x" * 40)


def index_cases(
    first: hb.Store, second: hb.Store, by_hand: happybase.Connection, host: str, port: int
) -> Iterator[Case]:
    """The first hundred rows of an owner; by hand a scan of the index table and one call for the rows.

    happybase supports the Thrift1 gateway only, so the target of the index query applies to that gateway. Queries
    through Thrift2 are also compared with the two Thrift2 calls, made with thriftpy2. Those return bytes; hbmodel also
    verifies and decodes the rows.
    """
    yield from _on("thrift1", first, "scan and rows", partial(_with_happybase, by_hand), (1.0, 0.6))
    yield from _on(
        "thrift2", second, "happybase's scan and rows on thrift1", partial(_with_happybase, by_hand), (None, 0.6)
    )
    yield from _on("thrift2", second, "getScannerResults and getMultiple", _with_thriftpy2(host, port), (None, 0.6))


def _on(
    gateway: str,
    store: hb.Store,
    what: str,
    theirs: Callable[[str], object],
    targets: tuple[float | None, float | None],
) -> Iterator[Case]:
    for model, kind, target in zip((Event, Covered), ("index", "covering"), targets, strict=True):
        query = hb.Session(store).query(model).where(model.owner == OWNER).limit(MOST)
        work = partial(theirs, hb.schema.schema_of(model).table)
        yield Case(f"{gateway}: {kind} query of {MOST} rows / {what}", query.all, work, MANY, target, IN_ROW, (model,))


def _with_happybase(connection: happybase.Connection, name: str) -> object:
    entries = connection.table(f"{name}.by_owner").scan(
        row_prefix=PREFIX, limit=MOST, batch_size=MOST, columns=[b"d:_v"]
    )
    return connection.table(name).rows([entry[len(PREFIX) :] for entry, _ in entries])


def _with_thriftpy2(host: str, port: int) -> Callable[[str], object]:
    """The calls of a client that thriftpy2 generates from HBase's definition, with rows as happybase returns them."""
    # Under a name of its own: hbmodel changes how the classes of its own copy are decoded.
    service: Any = thriftpy2.load(Path(thrift2.__file__).with_name("hbase.thrift"), module_name="by_hand_thrift")
    client: Any = None

    def theirs(name: str) -> object:
        nonlocal client
        if client is None:  # when it is measured: a gateway closes connections that lie idle
            as_bytes = TBinaryProtocolFactory(decode_response=False)
            client = make_client(
                service.THBaseService,
                host,
                port,
                proto_factory=as_bytes,
                trans_factory=TBufferedTransportFactory(),
                timeout=60_000,
            )
        scan = service.TScan(
            startRow=PREFIX,
            stopRow=PREFIX[:-1] + b"\x02",
            columns=[service.TColumn(family=b"d", qualifier=b"_v")],
            caching=MOST,
            limit=MOST,
        )
        entries = client.getScannerResults(f"{name}.by_owner".encode(), scan, MOST)
        return _as_rows(
            client.getMultiple(name.encode(), [service.TGet(row=entry.row[len(PREFIX) :]) for entry in entries])
        )

    return theirs


def _as_rows(results: Iterable[Any]) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return [
        (result.row, {cell.family + b":" + cell.qualifier: cell.value for cell in result.columnValues})
        for result in results
    ]
