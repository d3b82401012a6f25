"""A versioned model whose key changes, and programs on it: `python -m tests.tables.versioned_migration_models URL
[count SEED]`.
"""

from __future__ import annotations

import random
import sys

import hbmodel as hb

TIMES = hb.indexes.IndexTimes(lease=0.3, longest_call=0.2, grace=20, clock_bound=2)


@hb.model(table="parcels_by_city", family="d")
class Parcel:
    """As it was: by city."""

    city: hb.Key[int] = hb.key(hb.codecs.UInt16)
    number: hb.Key[int] = hb.key(hb.UInt32)
    state: hb.Column[str] = hb.column("s")
    count: hb.Column[int] = hb.column("c", hb.UInt32)
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()

    by_state = hb.index("state")


@hb.model(table="parcels_by_number", family="d", salt=hb.HashSalt(3), replaces=Parcel)
class Sent:
    """As it will be: by number, the newest first, over three buckets."""

    number: hb.Key[int] = hb.key(hb.UInt32, desc=True)
    city: hb.Key[int] = hb.key(hb.codecs.UInt16)
    state: hb.Column[str] = hb.column("s")
    count: hb.Column[int] = hb.column("c", hb.UInt32)
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()

    by_state = hb.index("state", "number")


def parcel(number: int, count: int = 0) -> Sent:
    """One of many."""
    return Sent(
        number=number, city=number % 7, state=f"s{count % 5}", count=count, note=None if number % 3 else f"n{number}"
    )


def session_of(store: hb.Store) -> hb.Session:
    """A session that goes by `TIMES`, with room to spare."""
    return hb.Session(store, lease=0.1, longest_call=0.2, grace=20, clock_bound=2)


def main(url: str, work: str = "move", seed: str = "0") -> None:
    """Moves all objects slowly; or counts them up, deletes and inserts some, and prints what is acknowledged."""
    with hb.connect(url) as store:
        if work == "move":
            hb.migration.migrate(store, Sent, times=TIMES, rows_per_second=200, batch_size=20, claim_life=0.5).start()
            return
        session, drawn = session_of(store), random.Random(seed)
        own = int(seed)
        while True:
            number = drawn.randrange(100)
            found = session.get(Sent, number=number, city=number % 7)
            assert found is not None, f"{number} is not found"
            session.update(found, count=found.count + 1, state=f"s{(found.count + 1) % 5}")
            try:
                session.commit()
                print("counted", number, flush=True)
            except hb.ConflictError:
                session.discard()
            own += 1
            session.insert(parcel(own))
            print("added", own, flush=True)
            if own % 2:
                session.delete_key(Sent, number=own, city=own % 7)
                session.commit()
                print("deleted", own, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
