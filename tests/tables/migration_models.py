"""A model whose key changes, and a program that moves its objects: `python -m tests.tables.migration_models URL [add
SEED]`.
"""

from __future__ import annotations

import sys
import time

import hbmodel as hb

TIMES = hb.indexes.IndexTimes(lease=0.3, longest_call=0.2, grace=20, clock_bound=2)


@hb.model(table="visits_by_user", family="d", immutable=True)
class Visit:
    """As it was: by user."""

    user: hb.Key[int] = hb.key(hb.codecs.UInt16)
    number: hb.Key[int] = hb.key(hb.UInt32)
    page: hb.Column[str] = hb.column("p")
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_page = hb.index("page")


@hb.model(table="visits_by_number", family="d", immutable=True, salt=hb.HashSalt(3), replaces=Visit)
class Moved:
    """As it will be: by number, the newest first, over three buckets."""

    number: hb.Key[int] = hb.key(hb.UInt32, desc=True)
    user: hb.Key[int] = hb.key(hb.codecs.UInt16)
    page: hb.Column[str] = hb.column("p")
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_page = hb.index("page", "number")


def visit(number: int) -> Moved:
    """One of many."""
    return Moved(user=number % 7, number=number, page=f"p{number % 5}", note=None if number % 3 else f"n{number}")


def session_of(store: hb.Store) -> hb.Session:
    """A session that goes by `TIMES`, with room to spare."""
    return hb.Session(store, lease=0.1, longest_call=0.2, grace=20, clock_bound=2)


def main(url: str, work: str = "move", first: str = "0") -> None:
    """Moves all objects slowly, or adds objects one by one and prints the number of each that is acknowledged."""
    with hb.connect(url) as store:
        if work == "move":
            hb.migration.migrate(store, Moved, times=TIMES, rows_per_second=200, batch_size=20, claim_life=0.5).start()
            return
        session, number = session_of(store), int(first)
        while True:
            session.add(visit(number))
            session.commit()
            print(number, flush=True)
            number += 1
            time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
