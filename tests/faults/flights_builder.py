"""A program that builds an index over all flights and notes what it puts: `python -m tests.faults.flights_builder
URL JOURNAL`.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

import attrs

import hbmodel as hb
from tests.project.test_flights import flights

TIMES = hb.indexes.IndexTimes(lease=1, longest_call=5, clock_bound=0.5, grace=15)
BATCH = 500

SALT = hb.HashSalt(4, by=("carrier",))


@hb.model(table="charted", family="f", salt=SALT)
class Unindexed:
    """A flight of the example, as long as it has no index."""

    carrier: hb.Key[str] = hb.key(hb.Text(2))
    departs: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    origin: hb.Key[str] = hb.key(hb.Text(3))
    plane: hb.Column[str | None] = hb.column("p", default=None)
    delay: hb.Column[int | None] = hb.column("l", hb.codecs.Int16, default=None)


@hb.model(table="charted", family="f", salt=SALT)
class Indexed:
    """The same flight with an index."""

    carrier: hb.Key[str] = hb.key(hb.Text(2))
    departs: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    origin: hb.Key[str] = hb.key(hb.Text(3))
    plane: hb.Column[str | None] = hb.column("p", default=None)
    delay: hb.Column[int | None] = hb.column("l", hb.codecs.Int16, default=None)

    by_plane = hb.index("plane", "departs")


def charted(model: type[Any], count: int | None = None) -> list[Any]:
    """The first flights, by default all, as objects of one of the models."""
    names = [field.name for field in attrs.fields(Unindexed)]
    return [model(**{name: getattr(flight, name) for name in names}) for flight in flights.flights(count)]


def build(url: str, journal: str) -> None:
    """Builds the index to its end; a line of the journal for each call that puts entries, with how many."""
    with open(journal, "a", buffering=1, encoding="ascii") as file:

        def note(call: hb.store.Call) -> None:
            if call.operation == "put" and call.table.endswith(".by_plane"):
                file.write(f"{call.rows}\n")

        with hb.connect(url, on_call=note) as store:
            hb.indexes.build_index(store, Indexed, "by_plane", times=TIMES, batch_size=BATCH, claim_life=5)


if __name__ == "__main__":
    build(sys.argv[1], sys.argv[2])
