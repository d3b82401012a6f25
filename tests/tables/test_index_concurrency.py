"""Indexes that are dropped, built, repaired and purged by several programs at once, while others read and write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.store import Put
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.registry.registry_table import Registry
from tests.support.beds import HBASE, Bed, cells_of
from tests.support.faulty import Call, RecordingStore
from tests.support.waiting import PATIENCE
from tests.tables.test_indexes import Two, declare, versioned

TIMES = hb.indexes.IndexTimes(lease=0.3, longest_call=1.5, clock_bound=0.2, grace=4)
"""A busy machine may suspend a thread, or a call, for this long."""


class DistantStore(RecordingStore):
    """Takes a moment for each write, as a network does, so that other threads come in between."""

    def _do(self, call: Call, apply: Callable[[Sequence[Any]], Any]) -> Any:
        if call.writes:
            time.sleep(0.002)
        return super()._do(call, apply)


@pytest.fixture(params=["memory", HBASE[1]])
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    if request.param != "memory":
        yield Bed(request.param, request.getfixturevalue("real_beds")(request.param).store)
        return
    with DistantStore(EmbeddedStore(None)) as store:
        yield Bed(request.param, store)


def open_session(store: hb.Store) -> hb.Session:
    return hb.Session(
        store, lease=TIMES.lease, longest_call=TIMES.longest_call, clock_bound=TIMES.clock_bound, grace=TIMES.grace
    )


@contextmanager
def running(*loops: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Repeats each in a thread of its own, and yields what they raise; each ends when it raises, or with the block."""
    ended, errors = threading.Event(), list[BaseException]()

    def repeat(loop: Callable[[], object]) -> None:
        try:
            while not ended.is_set():
                loop()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield errors
    finally:
        ended.set()
        for thread in threads:
            thread.join()


class Writer:
    """Writes rows that are its own at random, and knows what they are."""

    def __init__(self, store: hb.Store, model: type[Any], own: int) -> None:
        self._session, self._model, self._random, self._own = open_session(store), model, Random(own), own
        self.rows: dict[str, str] = {}

    def __call__(self) -> None:
        """One commit."""
        number = self._random.randrange(12 if self._random.random() < 0.9 else 200)
        name, topic = f"w{self._own}-{number:03}", f"t{self._random.randrange(4)}"
        if name in self.rows and self._random.random() < 0.4:
            self._session.delete_key(self._model, name=name)
            del self.rows[name]
        else:
            self._session.add(self._model(name=name, topic=topic, note=f"{name}{topic}"))
            self.rows[name] = topic
        try:
            self._session.commit()
        except hb.UnknownOutcome:  # a call took longer than `longest_call`, and a purge changed its row meanwhile
            self._session.discard()
            self._read(name)

    def _read(self, name: str) -> None:
        found = self._session.get(self._model, name=name)
        if found is None:
            self.rows.pop(name, None)
        else:
            self.rows[name] = found.topic


@pytest.mark.lengthy
def test_queries_are_right_or_refused_while_an_index_is_built_and_dropped(bed: Bed) -> None:
    two = declare()
    model = two.after
    hb.create_tables(bed.store, two.before)
    with open_session(bed.store) as session:
        session.add_all(two.before(name=f"{n:03}", topic=f"fixed{n % 5}") for n in range(50))
    hb.create_tables(bed.store, model)
    answers: list[str] = []
    wrong: list[Any] = []

    class Reader:
        """One session that lives as long as the test."""

        def __init__(self, own: int) -> None:
            self._session, self._random = open_session(bed.store), Random(own)

        def __call__(self) -> None:
            topic = self._random.randrange(5)
            query = self._session.query(model).where(model.topic == f"fixed{topic}").use_index("by_topic")
            try:
                found = [item.name for item in query]
            except hb.errors.IndexUnavailable:
                answers.append("unavailable")
                time.sleep(0.005)
                return
            answers.append("right")
            if found != [f"{n:03}" for n in range(topic, 50, 5)]:
                wrong.append((topic, found))

    writers = [Writer(bed.store, model, own) for own in range(2)]
    with running(*(Reader(own) for own in range(2)), *writers) as errors:
        for _ in range(2):
            before = answers.count("right")
            assert hb.indexes.build_index(bed.store, model, "by_topic", times=TIMES, batch_size=10).readable
            deadline = time.monotonic() + PATIENCE
            while answers.count("right") < before + 10 and not errors and time.monotonic() < deadline:
                time.sleep(0.01)
            before = answers.count("unavailable")
            assert hb.indexes.drop_index(bed.store, model, "by_topic", times=TIMES)
            assert answers.count("unavailable") > before
        assert hb.indexes.build_index(bed.store, model, "by_topic", times=TIMES, batch_size=10).readable
    assert not errors, errors
    assert not wrong
    assert answers.count("right") >= 20
    written = {name: topic for writer in writers for name, topic in writer.rows.items()}
    check_indexed(bed, two, written)
    report = hb.indexes.verify_index(bed.store, model, "by_topic", times=TIMES)
    assert report.sound, str(report)
    assert report.rows == 50 + len(written)


def check_indexed(bed: Bed, two: Two, written: dict[str, str]) -> None:
    """Every row is found through the index with the value that was written last."""
    session, model = open_session(bed.store), two.after
    for topic in (f"t{n}" for n in range(4)):
        found = [item.name for item in session.query(model).where(model.topic == topic).use_index("by_topic")]
        assert found == sorted(name for name, now in written.items() if now == topic)


@pytest.mark.every_store
@pytest.mark.lengthy
@pytest.mark.parametrize("declaring", [declare, versioned], ids=["last write wins", "versioned"])
def test_several_repairs_and_purges_at_once_leave_what_writers_need(bed: Bed, declaring: Callable[[], Two]) -> None:
    two = declaring()
    model, schema = two.after, two.schema
    hb.create_tables(bed.store, model)
    writers = [Writer(bed.store, model, own) for own in range(2)]
    mended: list[hb.indexes.IndexReport] = []
    purged: list[int] = []

    def orphan(number: int) -> Put:
        """An old entry of a writer that was killed before it put the row."""
        name, topic = f"o{number}", f"t{number % 4}"
        (entry,) = KeyMapper(schema).entries(
            schema.indexes["by_topic"], {"name": name, "topic": topic}, hb.row_key(model, name=name)
        )
        return Put(entry, {b"d:_v": b"\x01" + bytes(8), b"d:n": b""}, Registry(bed.store).server_time() - 60_000)

    def mend() -> None:
        mended.append(hb.indexes.repair_index(bed.store, model, "by_topic", times=TIMES, batch_size=5))
        purged.append(hb.indexes.purge_rows(bed.store, model, times=TIMES, batch_size=5))

    session = open_session(bed.store)
    for change in (session.add, session.delete):
        for own, number in ((own, number) for own in range(2) for number in range(12, 100)):
            change(model(name=f"w{own}-{number:03}", topic="t0"))
        session.commit()
    bed.store.put(f"{schema.table}.by_topic", [orphan(number) for number in range(20)])
    with running(*writers, *[mend] * 4) as errors:
        began = time.monotonic()
        while not errors and time.monotonic() < began + 60 and (time.monotonic() < began + 2 or not any(purged)):
            time.sleep(0.05)
    assert not errors, errors
    assert not any(report.missing for report in mended), "a row lacked its entry"
    assert sum(report.deleted for report in mended) >= 20
    assert any(purged)
    written = {name: topic for writer in writers for name, topic in writer.rows.items()}
    check_indexed(bed, two, written)
    time.sleep(TIMES.grace + 0.1)
    mend()
    report = hb.indexes.verify_index(bed.store, model, "by_topic", times=TIMES)
    assert report.sound, str(report)
    assert (report.rows, report.stale, report.pending, report.bare) == (len(written), 0, 0, 0)
    assert report.entries == len(written)
    assert sorted(cells_of(bed.store, schema.table)) == sorted(hb.row_key(model, name=name) for name in written)
