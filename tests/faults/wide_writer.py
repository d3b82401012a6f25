"""A program that changes several objects of few rows in each commit, until it is killed: `python -m
tests.faults.wide_writer URL SEED`.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import hbmodel as hb

ROWS = 3
OBJECTS = 4


@hb.model(table="whole", family="d", kind=b"o")
class Owner:
    """The row's own object."""

    owner: hb.Key[str] = hb.key()
    stamp: hb.Column[int] = hb.column("s")


@hb.model(table="whole", family="d", kind=b"p")
class Part:
    """Its parts, which every commit puts with one stamp. None is deleted: a delete hides what others put in its
    millisecond.
    """

    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt8, in_qualifier=True)
    stamp: hb.Column[int] = hb.column("s")
    parts: hb.Column[int] = hb.column("n", hb.codecs.UInt8)


@hb.model(table="whole_versioned", family="d", kind=b"p")
class Versioned:
    """The same in a row that has a version, by local transactions; some leave the last part out, and delete it."""

    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt8, in_qualifier=True)
    stamp: hb.Column[int] = hb.column("s")
    parts: hb.Column[int] = hb.column("n", hb.codecs.UInt8)
    version: hb.Column[int] = hb.version()


def write(session: hb.Session, draw: random.Random) -> None:
    """One commit over one row."""
    owner, stamp = f"row{draw.randrange(ROWS)}", draw.getrandbits(60)
    session.add(Owner(owner=owner, stamp=stamp))
    session.add_all(Part(owner=owner, number=number, stamp=stamp, parts=OBJECTS) for number in range(OBJECTS))
    session.commit()


def write_group(session: hb.Session, draw: random.Random) -> None:
    """One local transaction over one row: it continues to count from the value that it reads."""

    def count_on(group: Any) -> None:
        known = {part.number: part for part in group.query(Versioned)}
        stamp = max((part.stamp for part in known.values()), default=0) + 1
        parts = draw.choice([OBJECTS - 1, OBJECTS])
        for number in range(parts):
            if number in known:
                group.update(known[number], stamp=stamp, parts=parts)
            else:
                group.add(Versioned(owner=owner, number=number, stamp=stamp, parts=parts))
        if parts < OBJECTS and OBJECTS - 1 in known:
            group.delete(known[OBJECTS - 1])

    owner = f"row{draw.randrange(ROWS)}"
    session.group(Versioned, owner=owner).retry(count_on, attempts=1000)


def main() -> None:
    url, seed = sys.argv[1:]
    draw = random.Random(int(seed))
    with hb.connect(url) as store:
        while True:
            session = hb.Session(store)
            try:
                write(session, draw)
                if store.capabilities.check_and_mutate:
                    write_group(session, draw)
            # the row was written too often since for anybody to know; what was written is whole all the same
            except hb.UnknownOutcome:
                session.discard()
            print("done", flush=True)


if __name__ == "__main__":
    main()
