"""The comparisons: each does the same work through hbmodel and by hand on happybase, and keeps the medians.

Machines are noisy, so only ratios within one run mean anything. `theirs` is what a careful user of happybase writes:
the row keys and values are packed with `struct`, pages and multi-gets take one batch, and reads stop at happybase's
dictionaries, while hbmodel's make typed objects.
"""

from __future__ import annotations

import heapq
import itertools
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

import happybase

import hbmodel as hb
from hbmodel.store import Scan
from hbmodel.store.ranges import KeyRange
from tests.benchmarks.comparison import IN_ROW, MANY, REPEATS, Case, Result, compare
from tests.benchmarks.distant import Distant, distant_cases, distant_objects
from tests.benchmarks.index_queries import Covered, Event, events, index_cases
from tests.benchmarks.latest import OBJECTS as LATEST_OBJECTS
from tests.benchmarks.latest import latest_cases
from tests.benchmarks.mapping import mapping_cases
from tests.benchmarks.prepend import Comment, prepend_cases
from tests.benchmarks.updates import UPDATED_MODELS, UPDATED_OBJECTS, update_cases
from tests.benchmarks.wide import MODELS as WIDE_MODELS
from tests.benchmarks.wide import OBJECTS as WIDE_OBJECTS
from tests.benchmarks.wide import backwards_cases, wide_cases

SUFFIX = f"{os.getpid()}"
SKIPPED = 10_000
"""Rows that an offset leaves out."""

START = datetime(2026, 1, 1, tzinfo=UTC)


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


@hb.model(table=f"bench_salted_{SUFFIX}", family="d", salt=hb.HashSalt(16, by=("number",)))
class Spread:
    group: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("n")
    size: hb.Column[int] = hb.column("s", hb.Int32)


MODELS = (Reading, Event, Covered, Spread, Comment, Distant, *LATEST_OBJECTS, *WIDE_MODELS, *UPDATED_MODELS)


def readings(rows: int) -> Iterator[Reading]:
    for n in range(rows):
        yield Reading(
            sensor=n % 100,
            at=START + timedelta(seconds=n),
            place=f"hall {n % 7}",
            value=n / 8,
            low=-n,
            high=n,
            note=None,
            count=n * 3,
        )


def spreads(rows: int) -> Iterator[Spread]:
    for n in range(rows):
        yield Spread(group=n % 20, number=n, name=f"name {n}", size=n)


OBJECTS: dict[type, Callable[[int], Iterator[Any]]] = {
    Reading: readings,
    Spread: lambda rows: spreads(min(rows, 20_000)),
    Event: lambda rows: events(min(rows, 20_000)),
    Covered: lambda rows: events(min(rows, 20_000), Covered),
    Distant: distant_objects,
    **LATEST_OBJECTS,
    **WIDE_OBJECTS,
    **UPDATED_OBJECTS,
}


def run_all(url: str, thrift2_url: str, rows: int, chosen: Callable[[str], bool], warm_up: float) -> list[Result]:
    """Every comparison whose name is chosen, against the two gateways of one HBase; the tables are dropped
    afterwards.
    """
    where, second_where = urlsplit(url), urlsplit(thrift2_url)
    by_hand = happybase.Connection(where.hostname, where.port)
    with (
        ExitStack() as stack,
        hb.connect(url) as first,
        hb.connect(thrift2_url) as second,
        hb.connect("memory:") as embedded,
    ):
        hb.create_tables(second, *MODELS)
        hb.create_tables(embedded, *WIDE_MODELS)
        try:
            cases = [
                *_scans(first, second, by_hand, rows),
                *_offsets(first, second, by_hand),
                *_pages(first, second, by_hand),
                *_buckets(first, second, by_hand),
            ]
            cases += [
                *_gets(first, second, by_hand),
                *index_cases(first, second, by_hand, second_where.hostname or "localhost", second_where.port or 9090),
            ]
            cases += [*_keysets(first, second), *latest_cases(first, second, by_hand)]
            cases += wide_cases(first, second, by_hand, embedded)
            cases += [
                *_single_puts(first, second, by_hand),
                *_puts(first, second, by_hand),
                *update_cases(first, second, by_hand),
                *mapping_cases(),
            ]
            # Last, since they use no connection of the others, and the gateway closes one that lies idle for a minute.
            cases += backwards_cases(first, second)
            cases += prepend_cases(first, second, where.hostname or "localhost", where.port or 9090)
            cases += distant_cases((url, thrift2_url), stack)
            cases = [case for case in cases if chosen(case.name)]
            session = hb.Session(first)
            for model in {model for case in cases for model in case.reads}:
                session.bulk_add(OBJECTS[model](rows))
                if model in WIDE_MODELS[1:]:
                    hb.Session(embedded).bulk_add(OBJECTS[model](rows))
            print(f"{'hbmodel by hand-written code':<56}  time    processor", flush=True)
            return [compare(case, warm_up) for case in cases]
        finally:
            by_hand.close()
            for name in first.tables():
                if name.startswith("bench_") and SUFFIX in name:
                    first.delete_table(name)


def _scans(first: hb.Store, second: hb.Store, by_hand: happybase.Connection, rows: int) -> Iterator[Case]:
    table = by_hand.table(f"bench_reading_{SUFFIX}")
    for name, store, target in (("thrift1", first, 1 / 1.3), ("thrift2", second, None)):
        everything = hb.Session(store).query(Reading).allow_full_scan()
        yield Case(
            f"{name}: typed full scan of {rows} rows / scan to dicts", partial(_exhaust, everything),
            lambda: _exhaust(table.scan(batch_size=1000)), REPEATS, target, reads=(Reading,),
        )  # fmt: skip


def _offsets(first: hb.Store, second: hb.Store, by_hand: happybase.Connection) -> Iterator[Case]:
    """Twenty rows after many others; the hand-written program reads only the keys of the skipped rows."""
    table = by_hand.table(f"bench_reading_{SUFFIX}")

    def theirs() -> list[Any]:
        keys = table.scan(filter=b"FirstKeyOnlyFilter() AND KeyOnlyFilter()", limit=SKIPPED, batch_size=1000)
        last = next(itertools.islice(keys, SKIPPED - 1, None))[0]
        return list(table.scan(row_start=last + b"\x00", limit=20, batch_size=20))

    for name, store in (("thrift1", first), ("thrift2", second)):
        behind = hb.Session(store).query(Reading).allow_full_scan().offset(SKIPPED).limit(20)
        yield Case(
            f"{name}: offset({SKIPPED}) / keys by hand, then a scan", behind.all, theirs, REPEATS, 1.0, reads=(Reading,)
        )


def _exhaust(items: Iterable[object]) -> None:
    for _ in items:
        pass


def _pages(first: hb.Store, second: hb.Store, by_hand: happybase.Connection) -> Iterator[Case]:
    table = by_hand.table(f"bench_reading_{SUFFIX}")
    prefix = struct.pack(">I", 42)
    for name, store in (("thrift1", first), ("thrift2", second)):
        some = hb.Session(store).query(Reading).where(Reading.sensor == 42)
        yield Case(
            f"{name}: page of 20 / scan(limit=20, batch_size=20)", partial(some.page, 20),
            lambda: list(table.scan(row_prefix=prefix, limit=20, batch_size=20)), MANY, 0.9, IN_ROW, (Reading,),
        )  # fmt: skip


def _keysets(first: hb.Store, second: hb.Store) -> Iterator[Case]:
    """A page after a row, by a keyset predicate and by the equivalent bounds; each call builds and plans its query."""
    for name, store in (("thrift1", first), ("thrift2", second)):
        every = hb.Session(store).query(Event)

        def by_keyset(every: hb.Query[Event] = every) -> object:
            return every.where((Event.source > 7) | ((Event.source == 7) & (Event.number > 42))).page(20)

        def by_hand(every: hb.Query[Event] = every) -> object:
            return every.where(Event.source == 7, Event.number > 42).page(20)

        yield Case(
            f"{name}: page by a keyset predicate / bounded by hand", by_keyset, by_hand, MANY, 1.2, IN_ROW, (Event,)
        )


def _gets(first: hb.Store, second: hb.Store, by_hand: happybase.Connection) -> Iterator[Case]:
    table = by_hand.table(f"bench_reading_{SUFFIX}")
    keys = [{"sensor": n % 100, "at": START + timedelta(seconds=n)} for n in range(4242, 4292)]

    def packed(key: dict[str, Any]) -> bytes:
        micros = (key["at"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        return struct.pack(">IQ", key["sensor"], (1 << 64) - 1 - (micros + (1 << 63)))

    assert packed(keys[0]) == hb.row_key(Reading, **keys[0])
    for name, store in (("thrift1", first), ("thrift2", second)):
        session = hb.Session(store)
        yield Case(
            f"{name}: get / row", partial(session.get, Reading, **keys[0]), lambda: table.row(packed(keys[0])),
            MANY, 1.1, IN_ROW, (Reading,),
        )  # fmt: skip
        yield Case(
            f"{name}: get_many of 50 / rows", partial(session.get_many, Reading, keys),
            lambda: table.rows([packed(key) for key in keys]), MANY, 1.0, IN_ROW, (Reading,),
        )  # fmt: skip


def _single_puts(first: hb.Store, second: hb.Store, by_hand: happybase.Connection) -> Iterator[Case]:
    name = f"bench_hand_single_{SUFFIX}"
    by_hand.create_table(name, {"d": {"max_versions": 1}})
    table = by_hand.table(name)
    numbers = itertools.count()

    def ours(session: hb.Session) -> None:
        number = next(numbers)
        session.add(Spread(group=number % 20, number=number, name=f"name {number}", size=number))
        session.commit()

    def theirs() -> None:
        number = next(numbers)
        key = struct.pack(">II", number % 20, number)
        salt = bytes((crc32(key[4:]) % 16,))
        table.put(salt + key, {b"d:n": f"name {number}".encode(), b"d:s": struct.pack(">I", number + (1 << 31))})

    for gateway, store in (("thrift1", first), ("thrift2", second)):
        yield Case(f"{gateway}: single put / put", partial(ours, hb.Session(store)), theirs, MANY, 1.0, IN_ROW)


def _buckets(first: hb.Store, second: hb.Store, by_hand: happybase.Connection) -> Iterator[Case]:
    """A page over 16 salt buckets, whose requests are all sent before the first reply is awaited."""
    table = by_hand.table(f"bench_salted_{SUFFIX}")
    layout = hb.schema.schema_of(Spread)
    bounds = [(prefix + struct.pack(">I", 7), prefix + struct.pack(">I", 8)) for prefix in layout.salt.prefixes]

    def merged_by_hand() -> list[Any]:
        scans = [list(table.scan(row_start=start, row_stop=stop, limit=20, batch_size=20)) for start, stop in bounds]
        return list(itertools.islice(heapq.merge(*scans, key=lambda row: row[0][1:]), 20))

    def in_turn(store: hb.Store) -> list[Any]:
        scans = [Scan(KeyRange(start, stop), columns=(b"d",), limit=20, batch_size=20) for start, stop in bounds]
        answers = [
            [row for batches in store.scan(layout.table, [scan]) for batch in batches for row in batch]
            for scan in scans
        ]
        return list(itertools.islice(heapq.merge(*answers, key=lambda row: row.row[1:]), 20))

    for name, store in (("thrift1", first), ("thrift2", second)):
        page = partial(hb.Session(store).query(Spread).where(Spread.group == 7).page, 20)
        yield Case(
            f"{name}: page over 16 buckets / 16 scans merged by hand",
            page,
            merged_by_hand,
            MANY,
            0.5,
            IN_ROW,
            (Spread,),
        )
        yield Case(
            f"{name}: page over 16 buckets / our own 16 calls in turn",
            page,
            partial(in_turn, store),
            MANY,
            None,
            IN_ROW,
            (Spread,),
        )


def _puts(first: hb.Store, second: hb.Store, by_hand: happybase.Connection) -> Iterator[Case]:
    """Batches of 1000 puts into a table with two indexes, against three hand-filled batches with the same keys and
    cells.
    """
    names = [f"bench_hand_{SUFFIX}{part}" for part in ("", ".by_kind", ".by_owner")]
    for name in names:
        by_hand.create_table(name, {"d": {"max_versions": 1}})
    tables = [by_hand.table(name) for name in names]
    numbers = itertools.count()

    def ours(session: hb.Session) -> None:
        begin = next(numbers) * 1000
        session.bulk_add(
            Event(source=n % 16, number=n, kind=f"kind {n % 9}", owner=f"owner {n % 99}", size=n, text="x" * 40)
            for n in range(begin, begin + 1000)
        )

    def theirs() -> None:
        begin = next(numbers) * 1000
        now = int(time.time() * 1000)
        batches = [table.batch(timestamp=now) for table in tables]
        for n in range(begin, begin + 1000):
            key = struct.pack(">II", n % 16, n)
            kind, owner = f"kind {n % 9}".encode(), f"owner {n % 99}".encode()
            version = b"\x01" + os.urandom(8)
            batches[1].put(kind + b"\x00\x01" + key, {b"d:_v": version})
            batches[2].put(owner + b"\x00\x01" + key, {b"d:_v": version})
            cells = {
                b"d:k": kind,
                b"d:o": owner,
                b"d:s": struct.pack(">i", n),
                b"d:t": b"x" * 40,
                b"d:_v": version,
                b"d:_l": b"\x01",
            }
            batches[0].put(key, cells)
        for batch in (*batches[1:], batches[0]):
            batch.send()

    for name, store, target in (("thrift1", first, 1.25), ("thrift2", second, None)):
        yield Case(
            f"{name}: 1000 puts with two indexes / three batches", partial(ours, hb.Session(store)), theirs, 15, target
        )
