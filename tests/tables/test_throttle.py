"""Builds, checks and migrations read no faster than asked, each measured by itself, without what it waits for
sessions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.store.embedded.cells import StoredRow
from hbmodel.tables.indexes.index_sweeps import Throttle
from tests.support.beds import cells_of, fresh
from tests.tables.migration_models import Moved, Visit, session_of, visit

TIMES = hb.indexes.IndexTimes(lease=0.05, longest_call=0.05, clock_bound=0.25, grace=2)
QUICK = hb.indexes.IndexTimes(lease=0.1, longest_call=0.05, grace=20, clock_bound=2)
ROWS, BATCH = 200, 10
SECONDS = 0.5
"""Each phase must take longer than this at the speeds of these tests; without a limit it takes a tenth of it."""


class Watch:
    """Notes when each phase began and when it was last seen."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[float, float]] = {}

    def __call__(self, progress: hb.indexes.IndexProgress | hb.migration.MigrationProgress) -> None:
        now = time.monotonic()
        self.seen[progress.phase] = (self.seen.get(progress.phase, (now, now))[0], now)

    def seconds(self, phase: str) -> float:
        """From the first report of a phase to the last one."""
        began, ended = self.seen[phase]
        return ended - began


def size_of(store: hb.Store, table: str) -> int:
    """Bytes of the keys and cells of a table."""
    rows = cells_of(store, table)
    return sum(
        len(row) + sum(len(column) + len(value) for column, value in cells.items()) for row, cells in rows.items()
    )


SPEEDS: dict[str, Callable[[int], dict[str, float]]] = {
    "rows": lambda _: {"rows_per_second": ROWS / (2 * SECONDS)},
    "bytes": lambda size: {"bytes_per_second": size / (2 * SECONDS)},
}
"""Limits under which all rows take twice `SECONDS`, given their size: the first batch of a phase need not wait."""


@pytest.mark.lengthy
@pytest.mark.parametrize("limit", SPEEDS)
def test_a_build_reads_no_faster_than_asked(limit: str) -> None:
    table = f"throttled-{uuid4().hex[:10]}"

    @hb.model(table=table, family="d")
    class Before:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")

    @hb.model(table=table, family="d")
    class After:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")

        by_topic = hb.index("topic")

    with fresh(Before) as store:
        with hb.Session(store, lease=0.05, longest_call=0.05, clock_bound=0.25, grace=2) as session:
            session.bulk_add([Before(name=f"{n:03}", topic="t" * 100) for n in range(ROWS)])
        hb.create_tables(store, After)
        speed = SPEEDS[limit](size_of(store, table))
        options: dict[str, Any] = {"times": TIMES, "batch_size": BATCH, **speed}
        began = time.monotonic()
        assert hb.indexes.build_index(store, After, "by_topic", dry_run=True, **options).entries == ROWS
        assert time.monotonic() - began > SECONDS
        watch = Watch()
        built = hb.indexes.build_index(store, After, "by_topic", progress=watch, **options)
        assert (built.readable, built.rows) == (True, ROWS)
        assert watch.seconds("building") > SECONDS
        assert watch.seconds("verifying") > SECONDS
        for work, phase in ((hb.indexes.verify_index, "verifying"), (hb.indexes.repair_index, "repairing")):
            watch = Watch()
            assert work(store, After, "by_topic", progress=watch, **options).rows == ROWS
            assert watch.seconds(phase) > SECONDS


@pytest.mark.lengthy
@pytest.mark.parametrize("limit", SPEEDS)
def test_a_migration_reads_no_faster_than_asked(limit: str) -> None:
    with fresh(Visit) as store:
        session_of(store).bulk_add(visit(number) for number in range(ROWS))
        watch, speed = Watch(), SPEEDS[limit](size_of(store, hb.schema.schema_of(Visit).table))
        moving = hb.migration.migrate(store, Moved, times=QUICK, batch_size=BATCH, progress=watch, **speed)
        assert moving.start().copied
        assert watch.seconds("copying") > SECONDS
        assert moving.verify().sound
        assert watch.seconds("verifying") > SECONDS


def test_a_speed_that_no_work_reaches_is_a_long_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    for speed in (1e-320, 1e-300, 1e-12):
        Throttle(rows=speed).passed([StoredRow(b"a", {})])
    assert slept == [1e9] * 3
