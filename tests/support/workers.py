"""Runs threads that each read and write separate rows through one store, and check the contents."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import hbmodel as hb
from hbmodel.store import Delete, Family, Put, Scan
from hbmodel.store.ranges import KeyRange
from tests.support.beds import drop_left
from tests.support.models import Sample
from tests.support.waiting import PATIENCE

THREADS = 16
ROWS = 60
COLUMN = b"d:a"
SAMPLES = 200


class Worker:
    """A thread that reads and writes rows that no other thread uses, and checks their contents.

    Args:
        number: the number of the thread, with which its row keys begin.
        store: the store that all threads share.
        end: the time on the clock of `time.monotonic` at which to stop, if each step has been done.
    """

    def __init__(self, number: int, store: hb.Store, end: float) -> None:
        self.store, self.end = store, end
        self.random = random.Random(number)
        self.keys = [b"%02d-%03d" % (number, row) for row in range(ROWS)]
        self.range = KeyRange.prefix(b"%02d-" % number)
        self.known: dict[bytes, bytes] = {}
        self.now = 1
        self.done: Counter[str] = Counter()
        self.longest = 0.0
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self.run, name=f"worker {number}")

    def run(self) -> None:
        session = hb.Session(self.store)
        steps: list[Callable[[hb.Session], None]] = [
            self.get,
            self.scan,
            self.scan_in_part,
            self.page,
            self.put,
            self.put,
            self.delete,
        ]
        try:
            first = self.random.sample(steps, len(steps))  # each step is done, even on a slow machine
            while (began := time.monotonic()) < self.end or first:
                step = first.pop() if first else self.random.choice(steps)
                step(session)
                self.done[step.__name__] += 1
                self.longest = max(self.longest, time.monotonic() - began)
        except BaseException as error:
            self.error = error

    def get(self, session: hb.Session) -> None:
        wanted = self.random.choices(self.keys, k=self.random.randrange(1, 30))
        found = self.store.get("rows", wanted)
        assert [None if row is None else row.columns[COLUMN].value for row in found] == [
            self.known.get(key) for key in wanted
        ]

    def scan(self, session: hb.Session) -> None:
        backwards = self.random.random() < 0.5
        limit = self.random.choice([None, 7, 20])
        (batches,) = self.store.scan(
            "rows", [Scan(self.range, reversed=backwards, limit=limit, batch_size=self.random.choice([3, 10, 50]))]
        )
        found = [(row.row, row.columns[COLUMN].value) for batch in batches for row in batch]
        assert found == sorted(self.known.items(), reverse=backwards)[:limit]

    def scan_in_part(self, session: hb.Session) -> None:
        """Runs several scans at the same time, each of which is abandoned in the middle, closed or dropped."""
        middle = self.keys[ROWS // 2]
        scans = [
            Scan(KeyRange(self.range.start, middle), batch_size=5),
            Scan(KeyRange(middle, self.range.stop), batch_size=5),
        ]
        rows = [sorted(row for row in self.known if row in scan.range) for scan in scans]
        for batches, right in zip(self.store.scan("rows", scans), rows, strict=True):
            assert [row.row for row in next(batches, ())] == right[:5]
            if self.random.random() < 0.8:
                batches.close()  # type: ignore[attr-defined]

    def page(self, session: hb.Session) -> None:
        first = self.random.randrange(SAMPLES)
        query = session.query(Sample).where(Sample.station == "s", Sample.label >= f"{first:03}")
        page = query.page(10)
        found = list(page.items)
        if page.next_token is not None:
            found += query.page(10, after=page.next_token).items
        assert [sample.level for sample in found] == list(range(first, SAMPLES))[:20]

    def put(self, session: hb.Session) -> None:
        self.now += 1
        values = dict.fromkeys(self.random.sample(self.keys, self.random.randrange(1, 20)), b"%d" % self.now)
        self.store.put("rows", [Put(key, {COLUMN: value}, self.now) for key, value in values.items()])
        self.known |= values

    def delete(self, session: hb.Session) -> None:
        self.now += 1
        gone = self.random.sample(self.keys, 5)
        self.store.delete("rows", [Delete(key, families=[b"d"], timestamp=self.now) for key in gone])
        for key in gone:
            self.known.pop(key, None)


@contextmanager
def tables(url: str) -> Iterator[str]:
    """Creates the tables that the threads need, and yields the URL options of a store with these tables."""
    options = f"table_prefix=t{uuid4().hex[:8]}"
    with hb.connect(f"{url}?{options}") as store:
        store.create_table("rows", [Family(b"d")])
        hb.create_tables(store, Sample)
        hb.Session(store).bulk_add(Sample(station="s", label=f"{n:03}", level=n) for n in range(SAMPLES))
        yield options
        drop_left(store)


def work(store: hb.Store, seconds: float, disturb: Callable[[], None]) -> list[Worker]:
    """Lets all threads work for some seconds, and calls a function repeatedly in the meantime. Returns the threads,
    whose steps were all correct.
    """
    end = time.monotonic() + seconds
    workers = [Worker(number, store, end) for number in range(THREADS)]
    for worker in workers:
        worker.thread.start()
    while time.monotonic() < end and not any(worker.error for worker in workers):
        disturb()
    for worker in workers:
        worker.thread.join(PATIENCE)
        assert not worker.thread.is_alive()
        if worker.error is not None:
            raise worker.error
        worker.scan(hb.Session(store))
        worker.get(hb.Session(store))
    done = sum(map(Counter, (worker.done for worker in workers)), Counter())
    assert set(done) == {"get", "scan", "scan_in_part", "page", "put", "delete"}
    return workers
