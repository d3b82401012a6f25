"""The comparisons: each does the same work through hbmodel and by hand on happybase, in turn, and keeps the medians.

Machines are noisy, so only ratios within one run mean anything. `theirs` is what a careful user of happybase writes: the row
keys and values are packed with `struct`, and reads stop at happybase's dictionaries, while hbmodel's make typed objects.
"""

from __future__ import annotations

import itertools
import os
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import happybase
from attrs import frozen

import hbmodel as hb

REPEATS = 7
SUFFIX = f"{os.getpid()}"
START = datetime(2026, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@hb.model(table=f"bench_reading_{SUFFIX}", family="d")
class Reading:
    sensor: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    place: hb.Column[str] = hb.column("p")
    value: hb.Column[float] = hb.column("v")
    low: hb.Column[int] = hb.column("l", hb.Int32)
    high: hb.Column[int] = hb.column("h", hb.Int32)
    note: hb.Column[str | None] = hb.column("n", default=None)
    count: hb.Column[int] = hb.column("c")


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


@frozen
class Result:
    """One comparison; `ours` and `theirs` are median seconds, `ratio` is ours by theirs (below one: hbmodel is faster)."""

    name: str
    ours: float
    theirs: float
    repeats: int

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    def as_json(self) -> dict[str, object]:
        return {"name": self.name, "ours": self.ours, "theirs": self.theirs, "ratio": round(self.ratio, 3), "repeats": self.repeats}


def compare(name: str, ours: Callable[[], object], theirs: Callable[[], object], repeats: int = REPEATS) -> Result:
    """Runs both in turn, first one then the other going first, after one unmeasured run of each."""
    ours(), theirs()
    measured: dict[str, list[float]] = {"ours": [], "theirs": []}
    for turn in range(repeats):
        order = [("ours", ours), ("theirs", theirs)]
        for which, work in order if turn % 2 else reversed(order):
            begun = time.perf_counter()
            work()
            measured[which].append(time.perf_counter() - begun)
    result = Result(name, statistics.median(measured["ours"]), statistics.median(measured["theirs"]), repeats)
    print(f"{name:<44} hbmodel / happybase = {result.ratio:5.2f}   ({repeats} repeats)", flush=True)
    return result


def readings(rows: int) -> Iterator[Reading]:
    for n in range(rows):
        yield Reading(
            sensor=n % 100, at=START + timedelta(seconds=n), place=f"hall {n % 7}", value=n / 8, low=-n, high=n, note=None, count=n * 3
        )


def run_all(url: str, rows: int) -> list[Result]:
    """Every comparison against the gateway at `url`; its tables are dropped afterwards."""
    where = urlsplit(url)
    by_hand = happybase.Connection(where.hostname, where.port)
    with hb.connect(url) as store:
        hb.create_tables(store, Reading, Event)
        try:
            return _results(store, by_hand, rows)
        finally:
            by_hand.close()
            for name in store.tables():
                if name.startswith((f"bench_reading_{SUFFIX}", f"bench_event_{SUFFIX}", f"bench_hand_{SUFFIX}")):
                    store.delete_table(name)


def _results(store: hb.Store, by_hand: happybase.Connection, rows: int) -> list[Result]:
    session = hb.Session(store)
    session.load(readings(rows))
    table = by_hand.table(f"bench_reading_{SUFFIX}")
    everything = session.query(Reading).allow_full_scan()
    one = {"sensor": 42, "at": START + timedelta(seconds=4242)}
    row = hb.row_key(Reading, **one)
    prefix = struct.pack(">I", 42)
    some = session.query(Reading).where(Reading.sensor == 42)
    results = [
        compare(f"full scan of {rows} rows", lambda: sum(1 for _ in everything), lambda: sum(1 for _ in table.scan(batch_size=1000))),
        compare(
            "page of 20, 100 times",
            lambda: [some.page(20) for _ in range(100)],
            lambda: [list(table.scan(row_prefix=prefix, limit=20)) for _ in range(100)],
        ),
        compare("get, 200 times", lambda: [session.get(Reading, **one) for _ in range(200)], lambda: [table.row(row) for _ in range(200)]),
        _puts(store, by_hand),
    ]
    return results


def _puts(store: hb.Store, by_hand: happybase.Connection) -> Result:
    """Batches of 1000 puts into a table with two indexes, against three hand-filled batches with the same keys and cells."""
    names = [f"bench_hand_{SUFFIX}{part}" for part in ("", ".by_kind", ".by_owner")]
    for name in names:
        by_hand.create_table(name, {"d": {"max_versions": 1}})
    tables = [by_hand.table(name) for name in names]
    numbers = itertools.count()
    session = hb.Session(store)

    def ours() -> None:
        first = next(numbers) * 1000
        session.load(
            Event(source=n % 16, number=n, kind=f"kind {n % 9}", owner=f"owner {n % 99}", size=n, text="x" * 40)
            for n in range(first, first + 1000)
        )

    def theirs() -> None:
        first = next(numbers) * 1000
        now = int(time.time() * 1000)
        batches = [table.batch(timestamp=now) for table in tables]
        for n in range(first, first + 1000):
            key = struct.pack(">II", n % 16, n)
            kind, owner = f"kind {n % 9}".encode(), f"owner {n % 99}".encode()
            version = b"\x01" + os.urandom(8)
            batches[1].put(kind + b"\x00\x01" + key, {b"d:_v": version})
            batches[2].put(owner + b"\x00\x01" + key, {b"d:_v": version})
            cells = {b"d:k": kind, b"d:o": owner, b"d:s": struct.pack(">i", n), b"d:t": b"x" * 40, b"d:_v": version, b"d:_l": b"\x01"}
            batches[0].put(key, cells)
        for batch in (*batches[1:], batches[0]):
            batch.send()

    return compare("1000 puts with two indexes", ours, theirs, repeats=9)
