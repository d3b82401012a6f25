"""HBase's processes are killed (SIGKILL) under scans and loaders, and come back: nothing is lost, doubled or out of
order.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from operator import itemgetter
from typing import Any

import attrs
import pytest

import hbmodel as hb
from hbmodel.localhbase import LocalHBase
from hbmodel.localhbase.hbase_configuration import mark
from hbmodel.localhbase.processes import marked
from hbmodel.store import Family, Scan
from tests.project.test_flights import flights
from tests.support.models import Order, Sample, order
from tests.support.scenarios import check_exact
from tests.support.tested_version import TESTED
from tests.support.workers import tables, work

pytestmark = pytest.mark.hbase


@hb.model(table="flown", family="f", salt=hb.HashSalt(4, by=("carrier",)))
class Flown:
    """A flight of the example, without its indexes."""

    carrier: hb.Key[str] = hb.key(hb.Text(2))
    departs: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    origin: hb.Key[str] = hb.key(hb.Text(3))
    destination: hb.Column[str] = hb.column("to", hb.Text(3))
    plane: hb.Column[str | None] = hb.column("p", default=None)
    delay: hb.Column[int | None] = hb.column("l", hb.codecs.Int16, default=None)


def flown(count: int) -> list[Flown]:
    """The given number of flights."""
    names = [field.name for field in attrs.fields(Flown)]
    return [Flown(**{name: getattr(flight, name) for name in names}) for flight in flights.flights(count)]


class Own:
    """An HBase of our own, whose processes may be killed.

    Attributes:
        hbase: the processes.
        kills: how many killings hit what was to be hit.
    """

    def __init__(self, hbase: LocalHBase) -> None:
        self.hbase = hbase
        self.kills = 0

    def url(self, gateway: str) -> str:
        """URL of the store behind a gateway."""
        return self.hbase.url if gateway == "thrift1" else self.hbase.thrift2_url

    def kill(self, role: str) -> None:
        """Kills a process on the spot."""
        if role == "server":
            self.hbase.kill_server()
        else:
            self.hbase.kill_gateway(role)

    def restart(self, role: str) -> None:
        """Starts it again on its port, and waits until it answers."""
        if role == "server":
            self.hbase.restart_server()
        else:
            self.hbase.restart_gateway(role)


@pytest.fixture(scope="module")
def own(hbmodel_hbase: Any) -> Iterator[Own]:
    """If the shared HBase cannot be started, this one is not tried. It leaves nothing behind."""
    with LocalHBase(version=TESTED) as hbase:
        yield Own(hbase)
        directory = hbase.directory
    assert not directory.exists()
    assert marked(mark(directory)) == []


# --- a machine that stands still --------------------------------------------------------------------------------------


def test_an_hbase_survives_that_its_machine_stands_still(own: Own) -> None:
    """By default HBase's server ends after ten seconds, and all calls after it fail."""
    pids = own.hbase.pids
    try:
        for pid in pids.values():
            os.kill(pid, signal.SIGSTOP)
        time.sleep(13)  # ten, and the interval in which ZooKeeper looks for sessions that are over
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGCONT)
    with hb.connect(own.url("thrift2")) as store:
        store.create_table("test_stood_still", [Family(b"d")])
        store.delete_table("test_stood_still")
    assert own.hbase.pids == pids


# --- gateways under scans ---------------------------------------------------------------------------------------------

Scanner = Callable[[hb.Store], Iterator[tuple[bytes, Any]]]
Expected = tuple[Scanner, list[tuple[bytes, Any]]]
"""A way to scan all flights, and what must come."""


def forward(store: hb.Store) -> Iterator[tuple[bytes, Any]]:
    """All flights by one scan."""
    (batches,) = store.scan("flown", [Scan(batch_size=500)])
    return ((row.row, hb.decode(Flown, row)) for batch in batches for row in batch)


def backward(store: hb.Store) -> Iterator[tuple[bytes, Any]]:
    """All flights by one scan, the last first."""
    (batches,) = store.scan("flown", [Scan(reversed=True, batch_size=500)])
    return ((row.row, hb.decode(Flown, row)) for batch in batches for row in batch)


def merged(store: hb.Store) -> Iterator[tuple[bytes, Any]]:
    """All flights by a query, which merges the scans of the salt's buckets."""
    return (
        (key_of(flight)[1:], flight) for flight in hb.Session(store).query(Flown).use_index("primary").allow_full_scan()
    )


def key_of(flight: Flown) -> bytes:
    return hb.row_key(Flown, carrier=flight.carrier, departs=flight.departs, number=flight.number, origin=flight.origin)


def scan_through_kills(
    own: Own, gateway: str, scanner: Scanner, expected: list[tuple[bytes, Any]], kills: int, role: str | None = None
) -> int:
    """Scans all flights while the gateway, or what has another role, is killed at random points; how many killings
    hit the scan.
    """
    points = sorted(random.sample(range(len(expected)), kills), reverse=True)
    hits = 0
    ended = threading.Event()

    def kill() -> None:
        nonlocal hits
        time.sleep(random.uniform(0, 0.02))
        own.kill(role or gateway)
        hits += not ended.is_set()
        own.restart(role or gateway)

    killer: threading.Thread | None = None
    with hb.connect(own.url(gateway)) as store:
        count = 0
        for found in scanner(store):
            assert found == expected[count]
            count += 1
            if points and count > points[-1] and not (killer and killer.is_alive()):
                points.pop()
                killer = threading.Thread(target=kill)
                killer.start()
        ended.set()
        assert count == len(expected)
    if killer is not None:
        killer.join()
    return hits


def scan_at_once_through_a_kill(own: Own, gateway: str, scanners: Sequence[Expected]) -> list[Expected]:
    """Scans all flights in several ways at once while the gateway is killed, once for all; the scans that were not
    hit.
    """
    inside = threading.Barrier(len(scanners) + 1, timeout=60)

    def scan(scanner: Scanner, expected: list[tuple[bytes, Any]]) -> None:
        pause = random.randrange(len(expected) // 2)
        with hb.connect(own.url(gateway)) as store:
            count = 0
            for found in scanner(store):
                assert found == expected[count]
                if count == pause:
                    inside.wait()
                count += 1
            assert count == len(expected)

    with ThreadPoolExecutor(len(scanners)) as pool:
        scans = [pool.submit(scan, *each) for each in scanners]
        inside.wait()
        time.sleep(random.uniform(0, 0.02))
        own.kill(gateway)
        missed = [each for each, under_way in zip(scanners, scans, strict=True) if under_way.done()]
        own.restart(gateway)
        for each in scans:
            each.result()
    return missed


def load_flights(own: Own, count: int) -> list[Expected]:
    """Loads a number of flights; returns each way to scan them, with the expected rows."""
    everything = flown(count)
    with hb.connect(own.hbase.thrift2_url) as store:
        hb.drop_tables(store, Flown)  # another test may have left more flights
        hb.create_tables(store, Flown)
        assert hb.Session(store).bulk_add(everything) == count
    by_key = sorted(((key_of(flight), flight) for flight in everything), key=itemgetter(0))
    unsalted = sorted(((key[1:], flight) for key, flight in by_key), key=itemgetter(0))
    return [(forward, by_key), (merged, unsalted), (backward, by_key[::-1])]


@pytest.mark.timeout(300)
def test_a_gateway_is_killed_in_the_middle_of_scans(own: Own) -> None:
    scanners = load_flights(own, 8_000)
    for gateway in ("thrift1", "thrift2"):
        left: Sequence[Expected] = scanners
        while left:
            left = scan_at_once_through_a_kill(own, gateway, left)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_gateway_is_killed_many_times_in_long_scans(own: Own) -> None:
    kills = 20
    scanners = load_flights(own, 336_776)
    for gateway in ("thrift1", "thrift2"):
        hits = 0
        for scanner, expected in itertools.cycle(scanners):
            hits += scan_through_kills(own, gateway, scanner, expected, min(-(-kills // 3), kills - hits))
            if hits == kills:
                break


@pytest.mark.slow
@pytest.mark.parametrize("gateway", ["thrift1", "thrift2"])
def test_the_server_is_killed_in_the_middle_of_scans(own: Own, gateway: str) -> None:
    (scanner, expected), *_ = load_flights(own, 60_000)
    assert scan_through_kills(own, gateway, scanner, expected, 1, "server") == 1


@pytest.mark.parametrize("gateway", [pytest.param("thrift1", marks=pytest.mark.slow), "thrift2"])
def test_a_gateway_is_killed_under_threads_that_share_a_pool(own: Own, gateway: str) -> None:
    kills = 0

    def kill() -> None:
        nonlocal kills
        time.sleep(1)
        if not kills:
            own.kill(gateway)
            own.restart(gateway)
            kills += 1

    # While the gateway is away, no error may say that the pool is too small.
    with tables(own.url(gateway)) as options, hb.connect(f"{own.url(gateway)}?{options}&timeout=3") as store:
        assert work(store, 6, kill)
    assert kills == 1


# --- the server under loaders -----------------------------------------------------------------------------------------

ORDERS, SAMPLES = 5_000, 30_000
FIRST_KILL, LAST_KILL = 1_000, 3_000


def orders() -> Iterator[Order]:
    return (order(n, f"state {n % 5}", customer=n % 50, amount=n % 7 or None) for n in range(ORDERS))


def samples() -> Iterator[Sample]:
    return (Sample(station="s", label=f"{n:06}", level=n, remark="r" * 20) for n in range(SAMPLES))


def load_through_a_kill(
    own: Own, url: str, objs: Iterator[Any], restart: bool
) -> tuple[list[int], hb.HbmodelError | None]:
    """Loads while the server is killed, and maybe restarted at once; the positions reported, and the error that
    ended it.
    """
    positions: list[int] = []
    kill_at = random.randrange(FIRST_KILL, LAST_KILL)
    killer: threading.Thread | None = None

    def kill() -> None:
        time.sleep(random.uniform(0, 0.1))
        own.kill("server")
        if restart:
            own.restart("server")

    def progress(written: int) -> None:
        nonlocal killer
        positions.append(written)
        if killer is None and written >= kill_at:
            killer = threading.Thread(target=kill)
            killer.start()

    error: hb.HbmodelError | None = None
    with hb.connect(url) as store:
        try:
            hb.Session(store).bulk_add(objs, batch_size=500, progress=progress)
        except hb.HbmodelError as caught:
            error = caught
    assert killer is not None
    killer.join()
    return positions, error


def check_written(own: Own, gateway: str, objs: list[Any]) -> None:
    """These objects must exist, unchanged."""
    model = type(objs[0])
    names = hb.schema.schema_of(model).layout.names
    with hb.connect(own.url(gateway)) as store:
        assert hb.Session(store).get_many(model, [tuple(getattr(obj, name) for name in names) for obj in objs]) == objs


@pytest.mark.parametrize(
    ("gateway", "objects", "again"),
    [
        ("thrift2", orders, False),
        pytest.param("thrift2", orders, True, marks=pytest.mark.slow),
        pytest.param("thrift1", samples, False, marks=pytest.mark.slow),
    ],
)
def test_the_server_is_killed_under_a_loader(
    own: Own, gateway: str, objects: Callable[[], Iterator[Any]], again: bool
) -> None:
    everything = list(objects())
    model = type(everything[0])
    with hb.connect(own.url(gateway)) as store:
        hb.drop_tables(store, model)  # another test may have filled it
        hb.create_tables(store, model)
    positions, error = load_through_a_kill(own, own.url(gateway) + "?timeout=6&attempts=1", objects(), restart=False)
    assert isinstance(error, hb.PartialWrite)
    assert FIRST_KILL <= error.position == positions[-1] < len(everything)
    assert error.pending == everything[error.position : error.position + 500]
    own.restart("server")
    check_written(own, gateway, everything[: error.position])
    # Repeating the load completes it; with the default patience another killing does not even stop it.
    if again:
        positions, error = load_through_a_kill(own, own.url(gateway), objects(), restart=True)
        assert error is None
        assert positions[-1] == len(everything)
    else:
        with hb.connect(own.url(gateway)) as store:
            assert hb.Session(store).bulk_add(objects()) == len(everything)
    check_written(own, gateway, everything)
    with hb.connect(own.url(gateway)) as store:
        session = hb.Session(store)
        assert session.query(model).allow_full_scan().count() == len(everything)
        if model is Order:
            check_exact(store, Order)
            for number in range(5):
                found = session.query(Order).where(Order.state == f"state {number}").all()
                assert sorted(o.number for o in found) == list(range(number, ORDERS, 5))
