"""Ids: order numbers that several programs draw from a sequence, and a time series that stores long metric names as
short ids.

python examples/ids.py                              # in one temporary file
python examples/ids.py --store hbase                # on a real HBase that is started for it
python examples/ids.py --store hbase://host:9090    # in a cluster of your own
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from stores import opened

import hbmodel as hb
from hbmodel.store import Scan

START = datetime(2026, 3, 1, tzinfo=UTC)
METRICS = tuple(
    f"datacenter.{city}.rack{rack:02}.cpu.user.percent" for city in ("london", "tokyo") for rack in range(5)
)

orders = hb.ids.IdSequence("orders", block=100)
metrics = hb.ids.dictionary("metrics", hb.UInt32)


@hb.model(table="orders", family="d")
class Order:
    """An order, whose key is its number."""

    number: hb.Key[int] = hb.key(hb.UInt64)
    item: hb.Column[str] = hb.column("i")


@hb.model(table="points", family="d")
class Point:
    """A value of a metric. The row key contains an id in place of the name."""

    metric: hb.Key[str] = hb.key(metrics)
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"))
    value: hb.Column[float] = hb.column("v")


@hb.model(table="points_by_name", family="d")
class NamedPoint:
    """The same value, with the name itself in the row key."""

    metric: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"))
    value: hb.Column[float] = hb.column("v")


def values(model: Any, count: int) -> Iterator[Any]:
    """Yields `count` values of each metric."""
    for number, metric in enumerate(METRICS):
        for at in range(count):
            yield model(
                metric=metric, at=START + timedelta(seconds=at), value=round(50 + 9 * math.sin(at / 40 + number), 1)
            )


def sell(store: hb.Store, console: Console) -> None:
    """Two programs draw numbers from one sequence. One of them is stopped in the middle of its block of numbers."""
    calls: list[hb.store.Call] = []
    with hb.Session(store, on_call=calls.append) as session:
        first, second = orders.on(session), orders.on(session)
        session.add_all(Order(number=first.next(), item=f"item {n}") for n in range(150))
        session.add_all(Order(number=second.next(), item=f"item {n}") for n in range(50))
        # the first program was stopped and starts again: the rest of its old block is never used
        third = orders.on(session)
        session.add_all(Order(number=third.next(), item=f"item {n}") for n in range(10))
    increments = sum(call.operation == "increment" for call in calls)
    numbers = [order.number for order in hb.Session(store).query(Order).allow_full_scan()]
    gaps = [(a, b) for a, b in itertools.pairwise(numbers) if b > a + 1]
    console.print(f"{len(numbers)} orders, {len(set(numbers))} numbers, {increments} increments of the counter")
    console.print("gaps:", ", ".join(f"{a + 1} to {b - 1}" for a, b in gaps))


def size_of(store: hb.Store, table: str) -> int:
    """Returns the size in bytes as HBase stores it: each cell with its row key, family, qualifier, time and value."""
    (batches,) = store.scan(table, [Scan()])
    rows = [row for batch in batches for row in batch]
    return sum(20 + len(row.row) + len(c) - 1 + len(cell.value) for row in rows for c, cell in row.columns.items())


def measure(store: hb.Store, console: Console, count: int) -> None:
    """Compares the size of the same values with ids and with names in their keys."""
    with hb.Session(store) as session:
        for model in (Point, NamedPoint):
            session.bulk_add(values(model, count))
    found = Table("", "ids in the keys", "names in the keys")
    found.add_row("rows", *[f"{count * len(METRICS):,}"] * 2)
    found.add_row("bytes", f"{size_of(store, 'points'):,}", f"{size_of(store, 'points_by_name'):,}")
    for table in ("metrics.ids", "metrics.names"):
        found.add_row(f"bytes of {table}", f"{size_of(store, table):,}", "")
    console.print(found)
    session = hb.Session(store)
    since = START + timedelta(seconds=10)
    answers = []
    models: tuple[Any, ...] = (Point, NamedPoint)
    for model in models:
        of_one = session.query(model).where(model.metric == METRICS[3], model.at >= since).limit(3)
        answers.append([(point.metric, point.at, point.value) for point in of_one])
    console.print("equal answers" if answers[0] == answers[1] else "different answers")


def ask(store: hb.Store, console: Console) -> None:
    """Finds names by their beginning, and values by the names of their metrics."""
    calls: list[hb.store.Call] = []
    session = hb.Session(store, on_call=calls.append)
    names = hb.ids.Names(session)
    tokyo = list(names.starting_with(metrics, "datacenter.tokyo."))
    console.print(f"{len(tokyo)} names begin with datacenter.tokyo., the first is {tokyo[0]}")
    console.print(f"{session.query(Point).where(Point.metric.in_(tokyo)).count():,} values of them")
    calls.clear()
    console.print(
        f"{session.query(Point).where(Point.metric == 'datacenter.paris.cpu').count()} values of a name that has no id,"
    )
    console.print(f"after {sum(call.table == 'points' for call in calls)} calls to the table of points")


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
@click.option("--count", type=click.IntRange(20), default=200, show_default=True, help="Values of each of ten metrics.")
def main(store: str, count: int) -> None:
    """Number orders, and store a time series by short ids."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        with opened(console, store) as opened_store:
            hb.create_tables(opened_store, orders, Order, Point, NamedPoint)
            sell(opened_store, console)
            measure(opened_store, console, count)
            ask(opened_store, console)
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
