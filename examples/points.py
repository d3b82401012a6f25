"""200,000 points of fifty sensors: the latest points, hourly means, high values, an export by several workers, and the
deletion of old points.

    python examples/points.py                              # in one temporary file
    python examples/points.py --points 6000 --export .     # fewer points, and the exported files are kept
    python examples/points.py --store hbase                # on a real HBase that is started for it
    python examples/points.py --store hbase://host:9090    # in a cluster of your own

Every answer is compared with what plain Python computes from the same points.
"""

from __future__ import annotations

import csv
import math
import tempfile
from collections.abc import Callable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from statistics import fmean
from time import monotonic, perf_counter, sleep
from typing import TypeVar

import click
from rich.console import Console
from rich.table import Table
from stores import opened

import hbmodel as hb

A = TypeVar("A", bound=Sized | int)

START = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SENSORS = [f"hall{number:02}" for number in range(50)]
ASKED = SENSORS[7]
HIGH = 24.9
BUCKETS = 8
WORKERS = 4
TRIAL = timedelta(seconds=1)
"""The lifetime of a trial point."""


# --- the model --------------------------------------------------------------------------------------------------------
#  Most queries are about one sensor and a range of time, so the row key is the sensor and then the time, newest first.
# The sensors write all the time, each at its own place in the table. A salt by sensor spreads these places over eight
# buckets. The buckets are separate regions from the start if the store can create them. A sensor is in one bucket, so
# one scan still reads its points.


@hb.model(
    table="sensor_points", family=hb.family("d", ttl=timedelta(days=400)), salt=hb.HashSalt(BUCKETS, by=("sensor",))
)
class Point:
    """A value that a sensor has measured. It expires 400 days after it was written, or sooner if it has its own TTL."""

    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)
    value: hb.Column[float] = hb.column("v")


def measured(count: int) -> Iterator[Point]:
    """Yields the points in the order in which they arrive: one per sensor and minute."""
    for number in range(count):
        minute, sensor = divmod(number, len(SENSORS))
        value = round(20 + 5 * math.sin(minute / 90 + sensor), 2)
        yield Point(sensor=SENSORS[sensor], at=START + minute * MINUTE, value=value)


# --- the questions ----------------------------------------------------------------------------------------------------


class Questions:
    """Runs queries, compares each answer with the expected one, and records its size and time."""

    def __init__(self) -> None:
        self.table = Table("question", "items", "ms")

    def ask(self, question: str, answer: Callable[[], A], expected: A) -> A:
        """Returns the answer if it is as expected; otherwise ends the program."""
        started = perf_counter()
        found = answer()
        took = (perf_counter() - started) * 1000
        if found != expected:
            raise click.ClickException(f"{question}: the answer differs from the data")
        self.table.add_row(question, f"{found if isinstance(found, int) else len(found):,}", f"{took:,.1f}")
        return found


def show_latest(console: Console, questions: Questions, session: hb.Session, points: list[Point]) -> None:
    """Shows the latest point of each sensor, and None for a sensor without points."""
    asked = [*SENSORS, "hall99"]
    # reversed, the newest point of each sensor comes last, so the dict keeps this point
    newest = {point.sensor: point for point in reversed(points)}
    latest = session.query(Point).order_by(Point.at.desc())
    expected = [newest.get(sensor) for sensor in asked]
    found = questions.ask(
        "the latest point of each sensor", lambda: latest.first_of_each(Point.sensor, asked), expected
    )
    table = Table("sensor", "latest", "value")
    for sensor, point in [*zip(asked, found, strict=True)][-4:]:
        table.add_row(sensor, *(("-", "-") if point is None else (f"{point.at:%d %b %H:%M}", f"{point.value:.2f}")))
    console.print(table)


def show_hours(console: Console, questions: Questions, session: hb.Session, points: list[Point]) -> None:
    """Shows one hour of a sensor, and the mean of each hour of this sensor."""
    of_sensor = session.query(Point).where(Point.sensor == ASKED)
    known = [point for point in points if point.sensor == ASKED]
    hour = of_sensor.where(Point.at >= START, Point.at < START + HOUR)
    questions.ask(f"an hour of {ASKED}", hour.all, [point for point in known if point.at < START + HOUR])
    by_hour = groupby(reversed(known), lambda point: point.at.replace(minute=0))
    means = [(start, round(fmean(point.value for point in group), 6)) for start, group in by_hour]

    def answer() -> list[tuple[datetime, float]]:
        spans = hb.timeseries.downsample(of_sensor, Point.at, HOUR, Point.value)
        return [(span.start, round(span.mean, 6)) for span in spans]

    found = questions.ask(f"the hourly means of {ASKED}", answer, means)
    table = Table(f"{ASKED}, hour", "mean")
    for start, mean in found[:4]:
        table.add_row(f"{start:%d %b %H:%M}", f"{mean:.2f}")
    console.print(table)


def ask_high(questions: Questions, session: hb.Session, points: list[Point]) -> None:
    """Finds the high values of all time, for which the server reads every row, and those of the last hour, which are a
    short range of each sensor.
    """
    high = session.query(Point).where(Point.value > HIGH)
    expected = [point for point in points if point.value > HIGH]
    questions.ask(f"points above {HIGH}", high.allow_full_scan().all, expected)
    since = points[0].at - HOUR
    recent = high.where(Point.sensor.in_(SENSORS), Point.at > since)
    questions.ask(
        f"points above {HIGH} in the last hour", recent.all, [point for point in expected if point.at > since]
    )


# --- the export -------------------------------------------------------------------------------------------------------


def export(store: hb.Store, session: hb.Session, directory: Path) -> list[Path]:
    """Writes all points to CSV files, one for each part of the table.

    The workers are threads, so that the example works with any store. Each worker has its own session. A part can also
    be sent to another process, which opens the store itself.
    """

    def write(numbered: tuple[int, hb.types.QueryPartition[Point]]) -> Path:
        number, part = numbered
        path = directory / f"points-{number}.csv"
        with path.open("x", newline="", encoding="utf-8") as file, hb.Session(store) as own:
            lines = csv.writer(file)
            lines.writerows((point.sensor, point.at.isoformat(), point.value) for point in own.read_partition(part))
        return path

    parts = session.query(Point).allow_full_scan().partitions(BUCKETS)
    with ThreadPoolExecutor(WORKERS) as workers:
        return list(workers.map(write, enumerate(parts)))


def exported(paths: list[Path]) -> list[Point]:
    """Reads the points from the files, and returns them in the order of the table."""
    points = []
    for path in paths:
        with path.open(newline="", encoding="utf-8") as file:
            for sensor, at, value in csv.reader(file):
                points.append(Point(sensor=sensor, at=datetime.fromisoformat(at), value=float(value)))
    return in_order(points)


# --- the end of points ------------------------------------------------------------------------------------------------


def delete_old(questions: Questions, session: hb.Session, points: list[Point]) -> None:
    """Deletes the points of the older half of the time span. They are one range per sensor, so the newer points are not
    read.
    """
    cutoff = START + (points[0].at - START) / 2
    old = session.query(Point).where(Point.sensor.in_(SENSORS), Point.at < cutoff)
    left = [point for point in points if point.at >= cutoff]
    questions.ask("old points deleted", old.delete, len(points) - len(left))
    questions.ask("points that are left", session.query(Point).allow_full_scan().all, left)


def let_expire(console: Console, session: hb.Session) -> None:
    """Shows that a point with its own TTL disappears without a delete."""
    started = monotonic()
    session.add(Point(sensor="trial", at=START, value=0.0), ttl=TRIAL)
    session.commit()
    while session.get(Point, sensor="trial", at=START) is not None:
        if monotonic() - started > 60:
            raise click.ClickException("the trial point did not expire")
        sleep(0.05)
    if monotonic() - started < TRIAL.total_seconds() - 0.1:  # the two clocks may differ a little
        raise click.ClickException("the trial point expired too early")
    console.print(f"a point with a TTL of {TRIAL.total_seconds():g} s has expired")


# --- the program ------------------------------------------------------------------------------------------------------


def in_order(points: list[Point]) -> list[Point]:
    """Returns points in the order of queries: by sensor, newest first."""
    return sorted(points, key=lambda point: (point.sensor, START - point.at))


def report(console: Console, store: hb.Store, count: int, directory: Path) -> None:
    """Loads the points, runs the queries, exports all points, and deletes the old ones."""
    points = in_order(list(measured(count)))
    questions = Questions()
    hb.create_tables(store, Point)
    with hb.Session(store) as session:
        if session.query(Point).exists():
            raise click.ClickException("The table sensor_points has points already.")
        with console.status("loading points") as status:

            def loaded() -> int:
                return session.bulk_add(
                    measured(count), progress=lambda written: status.update(f"loading points: {written:,}")
                )

            questions.ask("points loaded", loaded, count)
        show_latest(console, questions, session, points)
        show_hours(console, questions, session, points)
        ask_high(questions, session, points)
        questions.ask(
            f"points exported by {WORKERS} workers", lambda: exported(export(store, session, directory)), points
        )
        delete_old(questions, session, points)
        let_expire(console, session)
    console.print(questions.table)


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
@click.option("--points", "count", type=click.IntRange(1), default=200_000, show_default=True, help="So many points.")
@click.option(
    "--export", "directory", type=click.Path(exists=True, file_okay=False), help="Keep the exported files here."
)
def main(store: str, count: int, directory: str | None) -> None:
    """Load the points of fifty sensors, and ask, export and delete."""
    console = Console(highlight=False)
    try:
        with opened(console, store) as found, tempfile.TemporaryDirectory() as temporary:
            report(console, found, count, Path(directory or temporary))
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
