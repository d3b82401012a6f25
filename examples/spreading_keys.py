"""The same events with increasing, salted, hashed, reversed and shuffled keys: in which regions they are stored, and
what reads cost.

    python examples/spreading_keys.py                              # in one temporary file
    python examples/spreading_keys.py --store hbase                # on a real HBase that is started for it
    python examples/spreading_keys.py --store hbase://host:9090    # in a cluster of your own

Every table has eight regions, with split keys that suit its row keys. The example counts calls and rows, and does not
measure time.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any
from zlib import crc32

import click
from rich.console import Console
from rich.table import Table
from stores import opened

import hbmodel as hb
from hbmodel.store import Scan

EVENTS = 4_000
REGIONS = 8
FIRST, LAST = 1_700, 1_799
"""The first and the last event of the ordered scan."""

PAGE = 20
BUSY = 40_000
"""The user who has every eighth event."""

NEWEST = 500
"""The number of events that are written last, one after the other."""


# --- the models -------------------------------------------------------------------------------------------------------


@hb.model(table="spread_plain", family="d")
class Plain:
    """Increasing numbers: adjacent numbers are in adjacent rows, and all new rows are at the end."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    user: hb.Column[int] = hb.column("u", hb.codecs.UInt16)


@hb.model(table="spread_salted", family="d", salt=hb.HashSalt(REGIONS))
class Salted:
    """A byte that is computed from the number precedes it."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    user: hb.Column[int] = hb.column("u", hb.codecs.UInt16)


@hb.model(table="spread_random", family="d", salt=hb.RandomSalt(REGIONS), immutable=True)
class Random:
    """A random byte precedes the number."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    user: hb.Column[int] = hb.column("u", hb.codecs.UInt16)


@hb.model(table="spread_hashed", family="d")
class Hashed:
    """The first two bytes of the number's md5 precede the number."""

    number: hb.Key[int] = hb.key(hb.codecs.DigestPrefixed(hb.UInt32, 2))
    user: hb.Column[int] = hb.column("u", hb.codecs.UInt16)


@hb.model(table="spread_reversed", family="d")
class Reversed:
    """The digits of the number in reverse order."""

    number: hb.Key[int] = hb.key(hb.codecs.ReversedDigits(6))
    user: hb.Column[int] = hb.column("u", hb.codecs.UInt16)


@hb.model(table="spread_shuffled", family="d")
class Shuffled:
    """The key fields in a different order: the user before the number. So the simultaneous events of many users are
    written to many places.
    """

    user: hb.Key[int] = hb.key(hb.codecs.UInt16)
    number: hb.Key[int] = hb.key(hb.UInt32)
    kind: hb.Column[str] = hb.column("k")


MODELS: Sequence[Any] = (Plain, Salted, Random, Hashed, Reversed, Shuffled)

GIVES_UP = {
    Plain: "an even spread of writes",
    Salted: "a single scan: there is one per bucket",
    Random: "a get from one bucket; changes to rows",
    Hashed: "order, ranges, pages in order",
    Reversed: "order, ranges, pages in order",
    Shuffled: "order over all users; an even spread of a busy user's rows",
}


def splits(model: Any) -> Any:
    """Returns eight regions for the keys of a model. For increasing keys, they leave room for four times as many
    events.
    """
    if hb.schema.schema_of(model).salt.buckets > 1:
        return hb.ByBucket()
    if model is Plain:
        return hb.tables.Uniform(REGIONS, low=0, high=4 * EVENTS - 1)
    if model is Shuffled:
        return hb.tables.Uniform(REGIONS)
    return hb.tables.FromSample([event(model, number) for number in range(0, 4 * EVENTS, 7)], REGIONS)


def user_of(number: int) -> int:
    """Returns the user of an event. One user has every eighth event, and a thousand users have the others."""
    return BUSY if number % 8 == 0 else crc32(b"%d" % (number % 1_000)) % 65_536


def event(model: Any, number: int) -> Any:
    """Returns the event with this number."""
    if model is Shuffled:
        return Shuffled(user=user_of(number), number=number, kind="view")
    return model(number=number, user=user_of(number))


def events(model: Any, start: int, stop: int) -> Iterator[Any]:
    """Yields events in the order of their numbers."""
    return (event(model, number) for number in range(start, stop))


# --- what is counted --------------------------------------------------------------------------------------------------


class Counted:
    """Counts the calls and rows that a session reads."""

    def __init__(self) -> None:
        self.calls = self.rows = 0

    def __call__(self, call: hb.store.Call) -> None:
        if call.table.startswith("spread_"):
            self.calls, self.rows = self.calls + 1, self.rows + call.rows

    def __str__(self) -> str:
        return f"{self.calls} / {self.rows:,}"


def rows_by_region(store: hb.Store, model: Any, since: int = 0) -> list[int]:
    """Counts the rows in each region, but only events whose number is at least `since`."""
    starts = hb.tables.split_keys(model, splits(model))
    counts = [0] * (len(starts) + 1)
    (batches,) = store.scan(hb.schema.schema_of(model).table, [Scan()])
    for row in (row for batch in batches for row in batch):
        found: Any = hb.decode(model, row)
        counts[bisect_right(starts, row.row)] += found.number >= since
    return counts


IN_ORDER = {Plain, Salted, Random}
"""Models whose rows the store returns in the order of their numbers."""


def get(store: hb.Store, model: Any) -> Counted:
    """Reads one event by its number; for a shuffled key, by user and number."""
    counted = Counted()
    session = hb.Session(store, on_call=counted)
    key = {"user": user_of(FIRST)} if model is Shuffled else {}
    assert session.get(model, number=FIRST, **key) is not None
    return counted


def scan(store: hb.Store, model: Any) -> Counted:
    """Reads a hundred events in order. If the table is not in this order, every row is read, and the program sorts the
    matching events.
    """
    counted = Counted()
    query = hb.Session(store, on_call=counted).query(model).where(model.number.between(FIRST, LAST))
    in_order = model in IN_ORDER
    query = query.order_by(model.number) if in_order else query.allow_full_scan()
    found = [each.number for each in query]
    assert (found if in_order else sorted(found)) == list(range(FIRST, LAST + 1))
    return counted


def page(store: hb.Store, model: Any) -> Counted | None:
    """Reads the second page in order. Returns None if the key does not allow pages. For a shuffled key, the pages are
    those of one user.
    """
    if model not in IN_ORDER and model is not Shuffled:
        return None
    counted = Counted()
    query = hb.Session(store, on_call=counted).query(model).order_by(model.number)
    query = query.where(Shuffled.user == BUSY) if model is Shuffled else query.where(model.number >= FIRST)
    token = query.page(PAGE).next_token
    counted.calls = counted.rows = 0
    assert len(query.page(PAGE, after=token).items) == PAGE
    return counted


# --- the program ------------------------------------------------------------------------------------------------------


def spread(store: hb.Store) -> dict[Any, tuple[list[int], list[int]]]:
    """Loads every table. Returns the number of rows in each region, for all events and for the newest ones."""
    found = {}
    for model in MODELS:
        presplit = {model: splits(model)} if store.capabilities.presplit else None
        hb.create_tables(store, model, splits=presplit)
        with hb.Session(store) as session:
            session.bulk_add(events(model, 0, EVENTS))
        found[model] = (rows_by_region(store, model), rows_by_region(store, model, EVENTS - NEWEST))
    return found


def fullest() -> int:
    """Returns how many rows the fullest region has, on average over many draws."""
    drawn = random.Random(1)
    return round(fmean(max(Counter(drawn.choices(range(REGIONS), k=NEWEST)).values()) for _ in range(1_000)))


def show(console: Console, store: hb.Store) -> None:
    """Prints the rows of each region, and the costs of reads."""
    regions = Table("rows in region", *map(str, range(1, REGIONS + 1)), f"of the last {NEWEST}, in the busiest region")
    for model, (rows, newest) in spread(store).items():
        drawn = model is Random  # the figures of this model differ in each run
        texts = [f"about {EVENTS // REGIONS}"] * REGIONS if drawn else [str(count) for count in rows]
        regions.add_row(model.__name__.lower(), *texts, f"about {fullest()}" if drawn else str(max(newest)))
    console.print(regions)
    costs = Table("calls / rows", "get", "100 in order", f"page of {PAGE}", "gives up")
    for model in MODELS:
        of_page = page(store, model)
        shown = "-" if of_page is None else str(of_page)
        costs.add_row(model.__name__.lower(), str(get(store, model)), str(scan(store, model)), shown, GIVES_UP[model])
    console.print(costs)


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
def main(store: str) -> None:
    """Load the same events under six kinds of key, and count the calls and rows of each."""
    console = Console(highlight=False)
    try:
        with opened(console, store) as found:
            show(console, found)
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
