"""Many threads on few rows of a model without indexes: what is acknowledged and not overwritten is there, and no
piece stops a read.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from tests.support.beds import HBASE, Bed

THREADS, KEYS = 16, 20
SHARED = KEYS - THREADS
"""Every thread owns one key, which nobody else writes, and checks it; the others are anybody's."""

LIFE = 2_500
"""Milliseconds; more than any call takes, since a life that ends before its own write does leaves what others put
meanwhile.
"""

STORES = ("embedded", HBASE[0], pytest.param("thrift2", marks=[pytest.mark.hbase, pytest.mark.slow]))
"""By default one that changes rows atomically and one that does not."""

SECONDS = [pytest.param(5.0, id="short"), pytest.param(60.0, id="long", marks=pytest.mark.slow)]


@hb.model(table="crowded", family="d")
class Crowded:
    """Two required columns, so that a piece of a row may look like a damaged one."""

    name: hb.Key[str] = hb.key()
    owner: hb.Column[int] = hb.column("o", hb.Int32)
    page: hb.Column[str] = hb.column("p")
    note: hb.Column[str | None] = hb.column("n", default=None)


class Walker:
    """One thread: random calls, each acknowledged before the next.

    Attributes:
        expected: what the own key must show: an object, `absent`, or None where a life may have ended.
        faults: what went wrong.
    """

    def __init__(self, store: hb.Store, number: int, seed: int) -> None:
        self.store, self.number, self.random = store, number, random.Random(seed)
        self.own = f"own{number}"
        self.expected: Any = None
        self.faults: list[str] = []
        self.done: Counter[str] = Counter()

    def run(self, end: float) -> None:
        while time.monotonic() < end and not self.faults:
            try:
                self.step()
            except (hb.RowNotFound, hb.RowExists):
                pass
            except hb.UnknownOutcome as error:
                if error.key == self.own.encode():
                    self.faults.append(repr(error))  # no other thread deletes or overwrites it
            except Exception as error:
                self.faults.append(repr(error))

    def step(self) -> None:
        session = hb.Session(self.store)
        own = self.random.random() < 0.5
        name = self.own if own else f"shared{self.random.randrange(SHARED)}"
        call = self.random.choice(["add", "add", "expiring", "update", "update", "note", "delete", "insert", "read"])
        before = session.get(Crowded, name=name)
        if own:
            self.check(before, call)
        obj = Crowded(
            name=name, owner=self.number, page=str(self.random.random()), note=self.random.choice([None, "n"])
        )
        after: Any = self.expected
        self.done[call] += 1
        if call == "add":
            session.add(obj)
            after = obj
        elif call == "expiring":
            session.add(obj, ttl=timedelta(milliseconds=self.random.choice([LIFE, 3_600_000])))
            after = None  # it may end at any time: nothing is known until the next whole put
        elif call in {"update", "note"}:
            changes: dict[str, Any] = {"page": obj.page} if call == "update" else {"note": obj.note}
            after = None if self.expected is None else changed(self.expected, changes)
            session.update(obj, **changes)
        elif call == "delete":
            session.delete(obj)
            after = "absent"
        elif call == "insert" and self.store.capabilities.check_and_mutate:
            try:
                session.insert(obj)
            except hb.RowExists:
                if own and self.expected == "absent":
                    self.faults.append(f"an insert finds {name}, which was deleted")
                raise
            after = obj
        else:
            session.query(Crowded).allow_full_scan().all()
            return
        try:
            session.commit()
        except hb.RowNotFound:
            if own and isinstance(self.expected, Crowded):
                self.faults.append(f"an update does not find {name}")
            raise
        if own:
            self.expected = after

    def check(self, found: Any, call: str) -> None:
        if self.expected == "absent" and found is not None:
            self.faults.append(f"{self.own} is back before {call}: {found}")
        if isinstance(self.expected, Crowded) and found != self.expected:
            self.faults.append(f"{self.own} before {call} is {found}, not {self.expected}")


def changed(obj: Any, changes: dict[str, Any]) -> Any:
    if obj == "absent":
        return obj
    return Crowded(**{"name": obj.name, "owner": obj.owner, "page": obj.page, "note": obj.note, **changes})


@pytest.mark.lengthy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("bed", STORES, indirect=True)
def test_threads_on_few_rows(bed: Bed, seconds: float) -> None:
    bed.use(Crowded)
    seed = random.randrange(1 << 30)
    walkers = [Walker(bed.store.inner, number, seed + number) for number in range(THREADS)]
    threads = [threading.Thread(target=walker.run, args=(time.monotonic() + seconds,)) for walker in walkers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not [fault for walker in walkers for fault in walker.faults], f"seed {seed}"
    done = sum((walker.done for walker in walkers), Counter[str]())
    print(dict(done))
    assert min(done.values()) > 0
    hb.Session(bed.store).query(Crowded).allow_full_scan().all()
