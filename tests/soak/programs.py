"""The programs of a soak, each a process of its own: `python -m tests.soak.programs ROLE URL DIRECTORY SEED`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import hbmodel as hb
from tests.soak.journal import Journal

TIMES = hb.IndexTimes(lease=2, longest_call=8, clock_bound=1, grace=25)
OPTIONS = {"lease": 2.0, "longest_call": 8.0, "clock_bound": 1.0, "grace": 25.0}
OWN = 40
"""Rows of each writer."""

WRITERS = 3
FIXED = 60
"""Rows that nobody changes."""


@hb.model(table="soaked", family="d", salt=hb.HashSalt(2))
class Item:
    """A row with two indexes, of which one is dropped and built again all the time."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    tag: hb.Column[str] = hb.column("t")
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_tag = hb.index("tag")
    by_note = hb.index("note", covers=("tag",))


def open_session(store: hb.Store) -> hb.Session:
    return hb.Session(store, lease=2, longest_call=8, clock_bound=1, grace=25)


def patiently(action: Callable[[], object]) -> None:
    """Does something until the store lets it: processes of HBase are killed."""
    while True:
        try:
            action()
        except (hb.StoreError, hb.PartialWrite, hb.ClockError):
            time.sleep(0.1)
        else:
            return


def write(url: str, directory: Path, seed: int, own: int) -> None:
    """Random writes of the rows of one writer, a commit each, without end."""
    random, journal = Random(seed), Journal(directory / f"writer-{own}.journal")
    with hb.connect(url) as store:
        session = open_session(store)
        while True:
            number = 1000 * (own + 1) + random.randrange(OWN)
            tag, note = f"t{random.randrange(6)}", random.choice([None, "a", "b", "c"])
            call = random.choice([["put", tag, note], ["put", tag, note], ["tag", tag], ["note", note], ["delete"]])
            journal.ask(number, call)
            match call:
                case ["put", *_]:
                    session.add(Item(number=number, tag=tag, note=note))
                case ["tag", _]:
                    session.update(Item(number=number, tag=""), tag=tag)
                case ["note", _]:
                    session.update(Item(number=number, tag=""), note=note)
                case _:
                    session.delete_key(Item, number=number)
            try:
                patiently(session.commit)
            except hb.RowNotFound:
                session.discard()
            journal.answer()


def read(url: str, directory: Path, seed: int) -> None:
    """Queries through the index that stays; notes what is wrong, without end."""
    random = Random(seed)
    with hb.connect(url) as store, (directory / "found.jsonl").open("a", buffering=1) as found:
        session = open_session(store)
        while True:
            fixed = random.randrange(10)
            tag = random.choice([f"t{random.randrange(6)}", f"fixed{fixed}"])
            try:
                items = session.query(Item).where(Item.tag == tag).use_index("by_tag").all()
            except (hb.StoreError, hb.ClockError):
                time.sleep(0.1)
                continue
            numbers = [item.number for item in items]
            wrong = [item.number for item in items if item.tag != tag]
            missing = [n for n in range(fixed, FIXED, 10) if n not in numbers] if tag.startswith("fixed") else []
            doubled = sorted({n for n in numbers if numbers.count(n) > 1})
            line = {"read": len(items), "wrong": wrong, "missing": missing, "doubled": doubled}
            found.write(json.dumps(line) + "\n")


def repair(url: str, directory: Path, seed: int) -> None:
    """Repairs and purges, without end."""
    with hb.connect(url) as store:
        while True:
            for index in ("by_tag", "by_note"):
                try:
                    report = hb.repair_index(store, Item, index, times=TIMES)
                except hb.IndexUnavailable:
                    continue
                except (hb.StoreError, hb.ClockError):
                    time.sleep(0.2)
                    continue
                if report.missing and index == "by_tag":
                    with (directory / "found.jsonl").open("a") as found:
                        found.write(json.dumps({"missing": list(report.samples)}) + "\n")
            try:
                hb.purge_rows(store, Item, times=TIMES)
            except (hb.StoreError, hb.ClockError, hb.CapabilityError):
                time.sleep(0.2)


def rebuild(url: str, directory: Path, seed: int) -> None:
    """Drops an index and builds it again, without end."""
    with hb.connect(url) as store:
        while True:
            try:
                hb.build_index(store, Item, "by_note", times=TIMES, batch_size=20, claim_life=3)
                time.sleep(1)
                hb.drop_index(store, Item, "by_note", times=TIMES)
            except hb.IndexUnavailable:
                patiently(lambda: hb.drop_index(store, Item, "by_note", times=TIMES))
            except (hb.StoreError, hb.ClockError):
                time.sleep(0.2)


def main() -> None:
    role, url, directory, seed = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    if role.startswith("writer"):
        write(url, directory, seed, int(role.removeprefix("writer")))
    {"reader": read, "repairer": repair, "builder": rebuild}[role](url, directory, seed)


if __name__ == "__main__":
    main()
