"""A time series stored twice: one row per value, and one row per hour with the values in columns; the same queries
return the same answers.

    python examples/series.py                              # in one temporary file
    python examples/series.py --store hbase                # on a real HBase that is started for it
    python examples/series.py --store hbase://host:9090    # in a cluster of your own

The example compares the rows, the cells, the bytes, and the time of each query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
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
STEP = timedelta(seconds=30)
SENSORS = ("attic", "cellar", "kitchen")


# --- the models -------------------------------------------------------------------------------------------------------


@hb.model(table="series_tall", family="d")
class Tall:
    """A row for each value."""

    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"))
    value: hb.Column[float] = hb.column("v")


@hb.model(table="series_wide", family="d")
class Wide:
    """A row for each hour: the row key has the hour, and the qualifier is the second within the hour."""

    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=timedelta(hours=1))
    value: hb.Column[float] = hb.column("")


Model = type[Tall] | type[Wide]


def values(model: Any, hours: int) -> Iterator[Any]:
    """Yields a value of each sensor every 30 seconds."""
    for number, sensor in enumerate(SENSORS):
        for count in range(hours * 120):
            yield model(sensor=sensor, at=START + count * STEP, value=round(20 + 5 * math.sin(count / 240 + number), 2))


# --- the questions ----------------------------------------------------------------------------------------------------


def ten_minutes(session: hb.Session, model: Any) -> Any:
    """Ten minutes around a full hour: the end of one row and the beginning of the next."""
    since = START + timedelta(minutes=55)
    return (
        session.query(model)
        .where(model.sensor == "cellar", model.at.between(since, since + timedelta(minutes=10)))
        .all()
    )


def all_of_one(session: hb.Session, model: Any) -> Any:
    """All of one sensor."""
    return session.query(model).where(model.sensor == "attic").all()


def newest(session: hb.Session, model: Any) -> Any:
    """The newest value of one sensor."""
    return session.query(model).where(model.sensor == "kitchen").last()


def warm(session: hb.Session, model: Any) -> Any:
    """The number of warm values in one hour."""
    since = START + timedelta(hours=1)
    hour = session.query(model).where(model.sensor == "attic", model.at >= since, model.at < since + timedelta(hours=1))
    return hour.where(model.value > 21.0).count()


def third_page(session: hb.Session, model: Any) -> Any:
    """The third page of 40."""
    query, token, page = session.query(model).where(model.sensor == "cellar"), None, None
    for _ in range(3):
        page = query.page(40, after=token)
        token = page.next_token
    return None if page is None else page.items


QUESTIONS: Sequence[Callable[[hb.Session, Any], Any]] = (ten_minutes, all_of_one, newest, warm, third_page)


def plain(answer: Any) -> Any:
    """Returns an answer as plain values, so that answers from different classes can be compared."""
    if isinstance(answer, list):
        return [plain(each) for each in answer]
    return (answer.sensor, answer.at, answer.value) if isinstance(answer, Tall | Wide) else answer


def size_of(answer: Any) -> str:
    """Describes the size of an answer."""
    return f"{len(answer)} values" if isinstance(answer, list) else str(answer)


# --- the program ------------------------------------------------------------------------------------------------------


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


def ask(session: hb.Session, models: Sequence[Model], table: Table) -> None:
    """Runs every query on both models, and compares the answers."""
    for question in QUESTIONS:
        answers, times = [], []
        for model in models:
            started = perf_counter()
            answers.append(plain(question(session, model)))
            times.append(f"{(perf_counter() - started) * 1000:.1f} ms")
        if answers[0] != answers[1]:
            raise click.ClickException(f"{question.__doc__} Tall and wide answer {answers}.")
        shown = size_of(answers[0]) if not isinstance(answers[0], tuple) else str(answers[0][2])
        table.add_row(f"{question.__doc__} ({shown})", *times)


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
@click.option(
    "--hours", type=click.IntRange(2), default=24, show_default=True, help="Hours, for each of three sensors."
)
def main(store: str, hours: int) -> None:
    """Load a time series into a tall and a wide table, and run the same queries on both."""
    console = Console(highlight=False)
    models: Sequence[Model] = (Tall, Wide)
    try:
        with opened(console, store) as series, hb.Session(series) as session:
            hb.create_tables(series, *models)
            for model in models:
                session.bulk_add(values(model, hours))
            sizes = [measured(series, hb.schema.schema_of(model).table) for model in models]
            found = Table("", "a row for each value", "a row for each hour")
            for number, name in enumerate(("rows", "cells", "bytes")):
                found.add_row(name, *(f"{size[number]:,}" for size in sizes))
            found.add_section()
            ask(session, models, found)
            console.print(found)
            console.print("Both give equal answers.")
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
