"""The latest value of each of many metrics: all at once, and by happybase's scans in turn."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import happybase

import hbmodel as hb
from tests.benchmarks.comparison import Case

SUFFIX = f"{os.getpid()}"
START = datetime(2026, 1, 1, tzinfo=UTC)
METRICS = 1_000

REPEATS = 25
"""Calls of each side: ours keep all processors busy, so that one of them takes up to a third longer than another."""

IN_ROW = 5
"""Calls of one side before the other has its turn: a program that asks for so many metrics does so again."""

WARM_UP = 60
"""Seconds until servers on two processors have compiled what these scans run; before that ours take up to twice as
long.
"""


@hb.model(table=f"bench_metric_{SUFFIX}", family="d")
class Measured:
    metric: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    value: hb.Column[float] = hb.column("v")


@hb.model(table=f"bench_long_metric_{SUFFIX}", family="d")
class LongMeasured:
    """Ten times as many values of each metric: a value a minute makes 1,440 a day."""

    metric: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    value: hb.Column[float] = hb.column("v")


def measurements(rows: int, model: Any = Measured) -> Iterator[Any]:
    """As many values of each metric."""
    for n in range(rows):
        yield model(metric=n % METRICS, at=START + timedelta(seconds=n), value=n / 8)


OBJECTS: dict[type, Callable[[int], Iterator[Any]]] = {
    Measured: measurements,
    LongMeasured: lambda rows: measurements(10 * rows, LongMeasured),
}


def latest_cases(first: hb.Store, second: hb.Store, by_hand: happybase.Connection) -> Iterator[Case]:
    """Of 1,000 metrics, with few values each and with many: without `batch_size`, happybase has HBase read up to
    1,000 rows ahead.
    """
    metrics = range(METRICS)

    def theirs(table: happybase.Table, **options: int) -> list[Any]:
        prefixes = [struct.pack(">I", metric) for metric in metrics]
        return [next(table.scan(row_prefix=prefix, limit=1, **options), None) for prefix in prefixes]

    for model, values in ((Measured, "few"), (LongMeasured, "many")):
        table = by_hand.table(hb.schema.schema_of(model).table)
        for name, store in (("thrift1", first), ("thrift2", second)):
            ours = partial(hb.Session(store).query(model).first_of_each, model.metric, metrics)
            for options in ({}, {"batch_size": 1}):
                shown = ", ".join(f"{option}={value}" for option, value in {"limit": 1, **options}.items())
                work = partial(theirs, table, **options)
                title = f"{name}: latest of 1000, {values} values / scans with {shown}"
                warm_up = 0 if options else WARM_UP
                yield Case(title, ours, work, REPEATS, 0.2, IN_ROW, (model,), warm_up)
