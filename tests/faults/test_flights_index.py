"""An index over all flights, built by programs that are killed (SIGKILL), while others write."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import pytest

import hbmodel as hb
from tests.faults.flights_builder import BATCH, TIMES, Indexed, Unindexed, build, charted

WRITERS, KILLS = 4, 5
OWN = 2_000
"""Flights that each writer changes."""

SESSION = {
    "lease": TIMES.lease,
    "longest_call": TIMES.longest_call,
    "clock_bound": TIMES.clock_bound,
    "grace": TIMES.grace,
}


def key_of(flight: Any) -> tuple[Any, ...]:
    return flight.carrier, flight.departs, flight.number, flight.origin


class Writer(threading.Thread):
    """Changes its own flights, one in each commit, until it is ended, and knows their correct values.

    Args:
        store: to write to.
        own: its flights.
        seed: of what it does.
    """

    def __init__(self, store: hb.Store, own: Sequence[Any], seed: int) -> None:
        super().__init__()
        self.store, self.own, self.random = store, own, random.Random(seed)
        self.known: dict[tuple[Any, ...], Any] = {key_of(flight): flight for flight in own}
        self.ended = threading.Event()
        self.written = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        session = hb.Session(self.store, **SESSION)
        try:
            while not self.ended.is_set():
                self._write(session, self.random.choice(self.own))
                self.written += 1
        except BaseException as error:
            self.error = error

    def _write(self, session: hb.Session, flight: Any) -> None:
        key = key_of(flight)
        plane = self.random.choice([None, *(f"own{n}" for n in range(20))])
        known = self.known.get(key)
        match self.random.randrange(4):
            case 0:
                session.delete(flight)
                self.known.pop(key, None)
            case 1 if known is not None:
                session.update(flight, plane=plane)
                self.known[key] = attrs.evolve(known, plane=plane)
            case 2 if known is not None:
                session.update(flight, delay=(delay := self.random.randrange(100)))
                self.known[key] = attrs.evolve(known, delay=delay)
            case _:
                self.known[key] = added = attrs.evolve(flight, plane=plane)
                session.add(added)
        session.commit()


@contextmanager
def at_work(writers: Sequence[Writer]) -> Iterator[None]:
    """They write meanwhile."""
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join()


@contextmanager
def builders(url: str, directory: Path, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Programs that build; those left at the end are killed."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.flights_builder", url, str(directory / f"{uuid4().hex}.puts")]
        )
        for _ in range(count)
    ]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def entries_put(directory: Path) -> int:
    """By all builders; the last line of a builder that was killed may be incomplete."""
    texts = [path.read_text("ascii") for path in directory.glob("*.puts")]
    return sum(int(line) for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n"))


def kill_builders(url: str, directory: Path, rows: int) -> int:
    """Kills one after the other in the middle of its work; returns how many were killed."""
    kills = 0
    for _ in range(KILLS):
        before = entries_put(directory)
        with builders(url, directory, 1) as (builder,):
            while entries_put(directory) < before + rows // (4 * KILLS):
                assert builder.poll() is None, "it was done before it was killed"
                time.sleep(0.01)
            kills += 1
    return kills


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "kind", ["embedded", *(pytest.param(kind, marks=pytest.mark.hbase) for kind in ("thrift1", "thrift2"))]
)
def test_an_index_over_all_flights_is_built_while_programs_write(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"embedded:{tmp_path / 'flights.db'}"
    if kind != "embedded":
        hbase = request.getfixturevalue("hbmodel_hbase")
        url = f"{hbase.url if kind == 'thrift1' else hbase.thrift2_url}?table_prefix=c{uuid4().hex[:8]}"
    flights = charted(Indexed)
    with hb.connect(url) as store:
        hb.create_tables(store, Unindexed)
        assert hb.Session(store, **SESSION).bulk_add(charted(Unindexed)) == len(flights)
        chosen = random.Random(7).sample(flights, WRITERS * OWN)
        writers = [Writer(store, chosen[n * OWN : (n + 1) * OWN], n) for n in range(WRITERS)]
        hb.create_tables(store, Indexed)  # only says that the index is to be built
        with at_work(writers):
            kills = kill_builders(url, tmp_path, len(flights))
            with builders(url, tmp_path, 2) as running:
                build(url, str(tmp_path / "own.puts"))
                assert [builder.wait() for builder in running] == [0, 0]
        assert [writer.error for writer in writers] == [None] * WRITERS
        written = sum(writer.written for writer in writers)
        report = hb.indexes.verify_index(store, Indexed, "by_plane", times=TIMES)
        print(f"{kills} builders killed, {written} writes, {entries_put(tmp_path)} entries put by builders; {report}")
        assert report.missing == 0
        assert report.sound
        assert report.state == "readable"
        assert kills == KILLS
        assert written > 100
        # A row read while it is being changed may get an entry that its writer has replaced; nothing else is put twice
        # but what was in the hands of those killed.
        assert entries_put(tmp_path) <= len(flights) + KILLS * BATCH + written
        expected = {key_of(flight): flight for flight in flights} | {
            key_of(flight): writer.known.get(key_of(flight)) for writer in writers for flight in writer.own
        }
        session = hb.Session(store, **SESSION)
        found = {key_of(flight): flight for flight in session.query(Indexed).allow_full_scan()}
        assert found == {key: flight for key, flight in expected.items() if flight is not None}
        for plane in ("own3", "N14228", None):
            by_index = session.query(Indexed).where(Indexed.plane == plane).use_index("by_plane")
            assert {key_of(flight) for flight in by_index} == {
                key for key, flight in found.items() if flight.plane == plane
            }
        hb.drop_tables(store, Indexed)
