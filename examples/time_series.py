"""The latest value of each of many metrics, and down-sampling to hours when values are read, with a tall and a wide
time series.

python examples/time_series.py                              # in one temporary file
python examples/time_series.py --store hbase                # on a real HBase that is started for it
python examples/time_series.py --store hbase://host:9090    # in a cluster of your own
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from stores import opened

import hbmodel as hb
from hbmodel.store import Scan

START = datetime(2026, 3, 1, tzinfo=UTC)
STEP = timedelta(minutes=10)
VALUES = 36
"""The number of values per metric, which cover six hours."""


# --- the models -------------------------------------------------------------------------------------------------------


@hb.model(table="metrics_tall", family=hb.family("d", ttl=timedelta(days=3_650)))
class Tall:
    """One row per value, newest first."""

    metric: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)
    value: hb.Column[float] = hb.column("v")


@hb.model(table="metrics_wide", family=hb.family("d", ttl=timedelta(days=3_650)))
class Wide:
    """One row per hour of a metric. The newest hour comes first, and within an hour the newest value."""

    metric: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True, row_span=timedelta(hours=1))
    value: hb.Column[float] = hb.column("v")


def values(model: Any, metrics: Sequence[str]) -> Iterator[Any]:
    """Yields a value of each metric every ten minutes; some metrics end early."""
    for number, metric in enumerate(metrics):
        for count in range(VALUES - number % 3):
            yield model(metric=metric, at=START + count * STEP, value=round(20 + 5 * math.sin(count / 12 + number), 2))


# --- the questions ----------------------------------------------------------------------------------------------------


def one_by_one(session: hb.Session, model: Any, metrics: Sequence[str]) -> list[Any]:
    """Finds the latest value of each metric with a separate query per metric."""
    return [session.query(model).where(model.metric == metric).first() for metric in metrics]


def together(session: hb.Session, model: Any, metrics: Sequence[str]) -> list[Any]:
    """Finds the latest values of all metrics with one query."""
    return session.query(model).order_by(model.at.desc()).first_of_each(model.metric, metrics)


def hours(session: hb.Session, model: Any, metric: str) -> list[hb.timeseries.TimeSpan[float]]:
    """Returns the values of a metric, grouped by hour."""
    return list(
        hb.timeseries.downsample(
            session.query(model).where(model.metric == metric), model.at, timedelta(hours=1), model.value
        )
    )


# --- the program ------------------------------------------------------------------------------------------------------


def plain(items: Sequence[Any]) -> list[Any]:
    """Returns the values of objects as tuples, so that objects of different classes can be compared."""
    return [item and (item.metric, item.at, item.value) for item in items]


def measured(store: hb.Store, table: str) -> tuple[int, int, int]:
    """Counts rows, cells, and bytes as HBase stores them: each cell with its row key, family, qualifier, time and
    value.
    """
    rows = cells = size = 0
    (batches,) = store.scan(table, [Scan()])
    for batch in batches:
        for row in batch:
            rows += 1
            cells += len(row.columns)
            size += sum(20 + len(row.row) + len(column) - 1 + len(cell.value) for column, cell in row.columns.items())
    return rows, cells, size


def timed(question: Any, *arguments: Any) -> tuple[Any, str]:
    """Returns an answer, and the time that it took."""
    started = perf_counter()
    answer = question(*arguments)
    return answer, f"{(perf_counter() - started) * 1000:.1f} ms"


def report(console: Console, store: hb.Store, session: hb.Session, metrics: Sequence[str]) -> None:
    """Runs the same queries on both models, and prints the differences."""
    models: Sequence[Any] = (Tall, Wide)
    found = Table("", "a row for each value", "a row for each hour")
    sizes = [measured(store, hb.schema.schema_of(model).table) for model in models]
    for number, name in enumerate(("rows", "cells", "bytes")):
        found.add_row(name, *(f"{size[number]:,}" for size in sizes))
    found.add_section()
    asked = [*metrics, "nobody"]
    answers = []
    for name, question in (("one query each", one_by_one), ("first_of_each", together)):
        timings = [timed(question, session, model, asked) for model in models]
        answers += [plain(answer) for answer, _ in timings]
        found.add_row(f"the latest of {len(asked)} metrics, {name}", *(took for _, took in timings))
    console.print(found)
    if any(answer != answers[0] for answer in answers):
        raise click.ClickException("The answers differ.")
    console.print(f"The answers are equal; {sum(item is None for item in answers[0])} metric has no value.")
    spans = hours(session, Wide, metrics[0])
    if spans != hours(session, Tall, metrics[0]):
        raise click.ClickException("The hours differ.")
    by_hour = Table("hour", "values", "mean", "least", "greatest", "last")
    for span in spans:
        shown = (f"{value:.2f}" for value in (span.mean, span.least, span.greatest, span.last))
        by_hour.add_row(f"{span.start:%H:%M}", str(span.count), *shown)
    console.print(by_hour)


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
@click.option("--metrics", "count", type=click.IntRange(1), default=60, show_default=True, help="So many metrics.")
def main(store: str, count: int) -> None:
    """Load a time series into a tall and a wide table, and query both for the latest values and for hours."""
    console = Console(highlight=False)
    metrics = [f"host{number:04}.cpu" for number in range(count)]
    try:
        with opened(console, store) as series, hb.Session(series) as session:
            hb.create_tables(series, Tall, Wide)
            for model in (Tall, Wide):
                session.bulk_add(values(model, metrics))
            report(console, series, session, metrics)
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
