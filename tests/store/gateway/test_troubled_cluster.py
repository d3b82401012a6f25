"""The answers of HBase while region servers fail and regions are split, from simulated gateways and from a
real HBase.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.errors import StoreError, StoreUnavailable, UnknownOutcome
from hbmodel.localhbase import LocalHBase
from hbmodel.session.connect import connect
from hbmodel.store import Family, Put, Scan, Store
from hbmodel.store.gateway.store import GatewayStore
from hbmodel.store.ranges import KeyRange
from hbmodel.store.thrift1 import service as thrift1
from hbmodel.store.thrift1.store import Thrift1Store
from hbmodel.store.thrift2 import service as thrift2
from hbmodel.store.thrift2.service import ResultCell, ResultRow
from hbmodel.store.thrift2.store import Thrift2Store
from tests.support.own_gateway import own_gateway
from tests.support.region_server import LONG_SESSIONS, second_region_server
from tests.support.tested_version import TESTED

# --- increments -------------------------------------------------------------------------------------------------------


def counted(value: int | None, days: int = 0) -> ResultRow:
    """The answer to an increment, with the value of a number of days ago, or without any cell."""
    at = int(time.time() * 1000) - days * 24 * 3600 * 1000
    return ResultRow(b"k", [] if value is None else [ResultCell(b"d", b"n", value.to_bytes(8, signed=True), at)])


@pytest.mark.parametrize("answer", [counted(None), counted(5, days=5)])
def test_an_increment_whose_answer_has_no_new_value_is_in_doubt(answer: ResultRow) -> None:
    """HBase answers so to the gateway's second attempt, where the first was carried out by a server that failed
    then.
    """
    asked: list[str] = []

    def increment(table: bytes, increment: Any) -> ResultRow:
        asked.append("increment")
        return answer

    with own_gateway(thrift2.SERVICE, increment=increment) as port, Thrift2Store("127.0.0.1", port) as store:
        with pytest.raises(UnknownOutcome, match="may or may not have been applied") as caught:
            store.increment("t", b"k", b"d:n", 1)
        assert (caught.value.table, caught.value.key) == ("t", b"k")
        assert "without the counter's new value" in (caught.value.reason or "")
    assert asked == ["increment"]  # and is not sent again


def test_an_increment_whose_answer_has_a_value_is_not() -> None:
    with (
        own_gateway(thrift2.SERVICE, increment=lambda table, increment: counted(-7)) as port,
        Thrift2Store("127.0.0.1", port) as store,
    ):
        assert store.increment("t", b"k", b"d:n", 1) == -7


def test_a_sequence_takes_the_next_block_if_the_answer_has_no_value() -> None:
    """Each id is given at most once; the ids of the lost block are never given."""
    replies = [counted(None), counted(7, days=5), counted(20)]

    def increment(table: bytes, increment: Any) -> ResultRow:
        return replies.pop(0)

    with (
        own_gateway(thrift2.SERVICE, increment=increment) as port,
        connect(f"hbase+thrift2://127.0.0.1:{port}") as store,
    ):
        ids = hb.ids.IdSequence("orders", block=10).on(store)
        assert ids.take(10) == list(range(11, 21))


# --- regions ----------------------------------------------------------------------------------------------------------


class Splitting:
    """The regions of a table, one of which has no server at the first calls; the gateway then fails with one of Java's
    own exceptions.
    """

    def __init__(self, calls: int) -> None:
        self.left = calls

    def locations(self, table: bytes) -> list[Any]:
        self.left -= 1
        if self.left >= 0:
            raise AttributeError("the location has no server")
        bounds = [(b"m", b""), (b"", b"m")]
        if self.first:
            return [
                thrift1._generated.TRegionInfo(startKey=start, endKey=end, name=b"t,%s" % start, id=1, version=1)
                for start, end in bounds
            ]
        info, location = thrift2._definition.THRegionInfo, thrift2._definition.THRegionLocation
        return [location(regionInfo=info(tableName=b"t", startKey=start, endKey=end)) for start, end in bounds]

    first = True


class SplittingSecond(Splitting):
    """The same, as the second gateway tells it."""

    first = False


GATEWAYS: list[tuple[type[GatewayStore], type[Splitting], str]] = [
    (Thrift1Store, Splitting, "getTableRegions"),
    (Thrift2Store, SplittingSecond, "getAllRegionLocations"),
]


@pytest.mark.parametrize(("kind", "answering", "call"), GATEWAYS)
def test_regions_are_asked_for_again_while_one_has_no_server(
    kind: type[GatewayStore], answering: type[Splitting], call: str
) -> None:
    waits: list[float] = []
    splitting = answering(3)
    with (
        own_gateway(kind.SERVICE, **{call: splitting.locations}) as port,
        kind("127.0.0.1", port, sleep=waits.append) as store,
    ):
        assert [region.range for region in store.regions("t")] == [KeyRange(b"", b"m"), KeyRange(b"m", None)]
    assert len(waits) == 3
    assert splitting.left == -1


@pytest.mark.parametrize(("kind", "answering", "call"), GATEWAYS)
def test_a_region_that_stays_without_a_server_is_an_error_that_says_so(
    kind: type[GatewayStore], answering: type[Splitting], call: str
) -> None:
    with (
        own_gateway(kind.SERVICE, **{call: answering(1000).locations}) as port,
        kind("127.0.0.1", port, attempts=3, sleep=lambda seconds: None) as store,
    ):
        with pytest.raises(StoreUnavailable) as caught:
            store.regions("t")
        assert "has no server" in (caught.value.reason or "")


# --- a region server that does not answer -----------------------------------------------------------------------------


@pytest.mark.hbase
@pytest.mark.slow  # an HBase and a second region server of its own, which are silent until every limit has passed
def test_a_gateway_tells_of_a_stopped_region_server_before_its_caller_hangs_up(tmp_path: Path) -> None:
    """The reason is HBase's own, and not that nothing came in time."""
    rows = [b"%03d" % (3 * number) for number in range(300)]
    with (
        LocalHBase(properties=LONG_SESSIONS, version=TESTED) as hbase,
        second_region_server(hbase, tmp_path / "second") as server,
        ThreadPoolExecutor(20) as threads,
        ExitStack() as opened,
    ):
        table, row = server.table_on_both(Family(b"d"), [b"%03d" % start for start in range(100, 900, 100)])
        stores = [opened.enter_context(connect(f"{url}?attempts=1")) for url in (hbase.url, hbase.thrift2_url)]
        for store in stores:
            store.put(table, [Put(each, {b"d:a": b"1"}) for each in (*rows, row)])
        server.freeze()
        reads: list[Callable[[Store], object]] = [
            lambda store: store.get(table, [row]),
            lambda store: store.get(table, rows),
            lambda store: [list(batches) for batches in store.scan(table, [Scan(KeyRange(row, row + b"\x00"))])],
        ]
        writes: list[Callable[[Store], object]] = [
            lambda store: store.put(table, [Put(row, {b"d:a": b"2"})]),
            lambda store: store.put(table, [Put(each, {b"d:a": b"2"}) for each in rows]),
            lambda store: store.increment(table, row, b"d:n", 1),
            lambda store: store.check_and_put(table, row, b"d:a", b"1", Put(row, {b"d:a": b"2"})),
        ]
        calls = [threads.submit(call, store) for store in stores for call in (*reads, *writes)]
        errors = [call.exception() for call in calls]
        # The server of hbase:meta, and ZooKeeper: one call, since HBase 2.6 ends the thread of a batch without an
        # answer (HBASE-27781).
        os.kill(hbase.pids["server"], signal.SIGSTOP)
        lost = [threads.submit(writes[0], store) for store in stores]
        errors += [call.exception() for call in lost]
    kinds = [*[StoreUnavailable] * len(reads), *[UnknownOutcome] * len(writes)]
    assert [type(error) for error in errors] == [*kinds, *kinds, UnknownOutcome, UnknownOutcome]
    reasons = [str(error.reason) for error in errors if isinstance(error, StoreError)]
    # A call or a scan; a batch; ZooKeeper.
    told = re.compile(
        r"CallTimeoutException|Failed \d+ actions?: .*timeout|time out before the actionsInProgress|could not be "
        r"completed in"
    )
    assert [reason for reason in reasons if not told.search(reason)] == []
