"""A program that moves objects between keys until it is killed: `python -m tests.faults.rekey_program URL NUMBER
PROGRAMS`.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import hbmodel as hb

OBJECTS = 8
PLACES = 3
"""The keys of an object are its number with each of so many shelves."""


@hb.model(table="shelved", family="d", salt=hb.HashSalt(2, by=("number",)))
class Shelved:
    """The last write wins; a counter and an index."""

    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    shelf: hb.Key[int] = hb.key(hb.codecs.UInt8)
    title: hb.Column[str] = hb.column("t")
    views: hb.Column[int] = hb.counter("v")

    by_title = hb.index("title")


@hb.model(table="shelved_unique", family="d")
class ShelvedOnce:
    """Versioned, with a value that stands once only."""

    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    shelf: hb.Key[int] = hb.key(hb.codecs.UInt8)
    title: hb.Column[str] = hb.column("t")
    version: hb.Column[int] = hb.version()

    by_title = hb.index("title", unique=True)


@hb.model(table="shelved_wide", family="d")
class ShelvedTogether:
    """All shelves in one row."""

    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    shelf: hb.Key[int] = hb.key(hb.codecs.UInt8, in_qualifier=True)
    title: hb.Column[str] = hb.column("t")

    by_title = hb.index("title")


@hb.model(table="shelved_bare", family="d")
class ShelvedBare:
    """No index."""

    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    shelf: hb.Key[int] = hb.key(hb.codecs.UInt8)
    size: hb.Column[int] = hb.column("s")


MODELS: tuple[type[Any], ...] = (Shelved, ShelvedOnce, ShelvedTogether, ShelvedBare)


def made(model: type[Any], number: int, shelf: int = 0) -> Any:
    """The object of a number."""
    return (
        model(number=number, shelf=shelf, size=number)
        if model is ShelvedBare
        else model(number=number, shelf=shelf, title=f"n{number}")
    )


def move(session: hb.Session, draw: random.Random, numbers: range) -> None:
    """Moves one object, which no other program moves. If the last program has left an unfinished move, completes it."""
    model, number = draw.choice(MODELS), draw.choice(numbers)
    found = [at for shelf in range(PLACES) if (at := session.get(model, number=number, shelf=shelf)) is not None]
    old = draw.choice(found)
    new = draw.choice([shelf for shelf in range(PLACES) if shelf != old.shelf])
    try:
        session.rekey(old, shelf=new)
    except (hb.ConflictError, hb.RowExists):
        end_move(session, model, number)


def end_move(session: hb.Session, model: type[Any], number: int) -> None:
    """Calls for the move that a program has begun: all others are refused."""
    for old in range(PLACES):
        for new in range(PLACES):
            found = session.get(model, number=number, shelf=old)
            if found is not None and old != new:
                try:
                    session.rekey(found, shelf=new)
                except (hb.ConflictError, hb.RowExists):
                    continue
                return


def main(url: str, number: int, programs: int) -> None:
    """Moves its own objects forever."""
    draw, share = random.Random(), OBJECTS // programs
    with hb.connect(url) as store:
        session, moved = hb.Session(store), 0
        while True:
            move(session, draw, range(number * share, (number + 1) * share))
            moved += 1
            if moved == 1:
                print("moved", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
