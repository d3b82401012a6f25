"""Changes the key of a table while a program reads and writes it, rolls the change back, and then makes it permanent.

    python examples/changing_the_key.py                              # in one temporary file
    python examples/changing_the_key.py --store hbase                # on a real HBase that is started for it
    python examples/changing_the_key.py --store hbase://host:9090    # in a cluster of your own

The readings were stored by sensor. Now the newest readings of all sensors are needed first, so the time becomes the
first field of the key.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
from rich.console import Console
from stores import opened

import hbmodel as hb
from hbmodel.store import Scan

START = datetime(2026, 3, 1, tzinfo=UTC)
TIMES = hb.indexes.IndexTimes(lease=0.5)
"""The default lease is one minute, and a cluster should keep it. The lease here is short so that the example runs fast.
"""


@hb.model(table="readings", family="d", immutable=True)
class BySensor:
    """The old layout, sorted by sensor."""

    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"))
    value: hb.Column[float] = hb.column("v")

    by_value = hb.index("value")


@hb.model(table="readings_by_time", family="d", immutable=True, salt=hb.HashSalt(4), replaces=BySensor)
class Reading:
    """The new layout: newest first, spread over four buckets. Programs use this model from the first day on."""

    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)
    sensor: hb.Key[str] = hb.key()
    value: hb.Column[float] = hb.column("v")

    by_value = hb.index("value")


def reading(number: int) -> Reading:
    """Returns the reading with this number."""
    return Reading(sensor=f"s{number % 5}", at=START + number * timedelta(seconds=30), value=float(number * 7 % 100))


class Program:
    """A program that adds ten readings at a time and reads the table."""

    def __init__(self, store: hb.Store, console: Console, first: int) -> None:
        self.session = hb.Session(store, lease=TIMES.lease)
        self.store, self.console, self.added = store, console, first

    def works(self, when: str) -> None:
        """Adds ten readings, counts all readings, and looks for high values."""
        self.session.add_all(reading(self.added + number) for number in range(10))
        self.session.commit()
        self.added += 10
        rows = {table: self._rows(table) for table in ("readings", "readings_by_time") if table in self.store.tables()}
        found = self.session.query(Reading).allow_full_scan().count()
        high = self.session.query(Reading).where(Reading.value >= 95).count()
        self.console.print(
            f"{when}: {found:,} readings, {high} with a value of 95 or more; rows "
            f"{' + '.join(f'{count:,}' for count in rows.values())}"
        )
        if found != self.added:
            raise click.ClickException(f"There should be {self.added}.")

    def _rows(self, table: str) -> int:
        (batches,) = self.store.scan(table, [Scan()])
        return sum(map(len, batches))


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
@click.option(
    "--rows", type=click.IntRange(1), default=2_000, show_default=True, help="Number of readings to begin with."
)
def main(store: str, rows: int) -> None:
    """Change the key of a table that is in use."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        with opened(console, store) as readings:
            hb.create_tables(readings, BySensor)
            program = Program(readings, console, rows)
            program.session.bulk_add(map(reading, range(rows)))
            moving = hb.migration.migrate(readings, Reading, times=TIMES)
            program.works("before")
            console.print(str(moving.start()))
            program.works("copied")
            console.print(moving.verify().as_check().splitlines()[1].strip())
            console.print(f"rolled back: {moving.roll_back().phase}")
            program.works("rolled back")
            console.print(str(moving.start()))
            program.works("copied")
            console.print(f"cut over: {moving.cut_over().phase}")
            console.print(f"dropped: {', '.join(hb.drop_tables(readings, BySensor))}")
            program.works("at the end")
            newest = program.session.query(Reading).allow_full_scan().first()
            console.print(f"the newest: {newest}")
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
