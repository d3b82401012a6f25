"""The programs of a soak, each a separate process: `python -m tests.soak.programs ROLE URL DIRECTORY SEED`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import hbmodel as hb
from tests.soak.journal import Journal, Row

TIMES = hb.indexes.IndexTimes(lease=2, longest_call=8, clock_bound=1, grace=25)
OPTIONS = {"lease": 2.0, "longest_call": 8.0, "clock_bound": 1.0, "grace": 25.0}
OWN = 40
"""Rows of each writer."""

FIXED = 60
"""Rows that nobody changes."""


@hb.model(table="soaked", family="d", salt=hb.HashSalt(2))
class Item:
    """A row with two indexes, one of which is repeatedly dropped and built again."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    tag: hb.Column[str] = hb.column("t")
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_tag = hb.index("tag")
    by_note = hb.index("note", covers=("tag",))


@hb.model(table="soaked_versions", family="d")
class Account:
    """A versioned row with a covering index and a unique one, whose values are few."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    tag: hb.Column[str] = hb.column("t")
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", covers=("note",))
    by_note = hb.index("note", unique=True)


MODELS = (Item, Account)
NOTES = {Item: (None, "a", "b", "c"), Account: (None, *(f"n{number}" for number in range(30)))}
WRITERS = {Item: 3, Account: 2}


def fixed_rows(model: type[Any]) -> list[Any]:
    """Rows that no program changes."""
    return [model(number=n, tag=f"fixed{n % 10}", note=f"fixed{n}") for n in range(FIXED)]


def journal_of(directory: Path, model: type[Any], own: int) -> Journal:
    """The journal of one writer."""
    return Journal(directory / f"{model.__name__}-{own}.journal")


def open_session(store: hb.Store) -> hb.Session:
    return hb.Session(store, lease=2, longest_call=8, clock_bound=1, grace=25)


def patiently(action: Callable[[], object]) -> None:
    """Does something until the store lets it: processes of HBase are killed."""
    while True:
        try:
            action()
        except (hb.StoreError, hb.PartialWrite, hb.errors.ClockError):
            time.sleep(0.1)
        else:
            return


def write(url: str, directory: Path, seed: int, model: type[Any], own: int) -> None:
    """Random writes of the rows of one writer, a commit each, some of them read again through an index, without end."""
    random, journal = Random(seed), journal_of(directory, model, own)
    with hb.connect(url) as store, (directory / "found.jsonl").open("a", buffering=1) as found:
        session = open_session(store)
        while True:
            number = 1000 * (own + 1) + random.randrange(OWN)
            tag, note = f"t{random.randrange(6)}", random.choice(NOTES[model])
            call = random.choice([["put", tag, note], ["put", tag, note], ["tag", tag], ["note", note], ["delete"]])
            journal.ask(number, call)
            match call:
                case ["put", *_]:
                    session.add(model(number=number, tag=tag, note=note))
                case ["tag", _]:
                    session.update(model(number=number, tag=""), tag=tag)
                case ["note", _]:
                    session.update(model(number=number, tag=""), note=note)
                case _:
                    session.delete_key(model, number=number)
            try:
                patiently(session.commit)
            except (hb.UniqueViolation, hb.ConflictError):
                session.discard()
                journal.refuse()
            except hb.RowNotFound:
                session.discard()
                journal.answer()
            else:
                journal.answer()
            if random.random() < 0.3:
                line = reread(
                    session, model, number, journal.possible[number], random.choice([tag, f"t{random.randrange(6)}"])
                )
                found.write(json.dumps(line) + "\n")


def reread(session: hb.Session, model: Any, number: int, possible: set[Row], tag: str) -> dict[str, Any]:
    """Compares the index entries of a row that no other program writes with the possible ones."""
    read: list[Any] = []
    patiently(lambda: read.append(session.query(model).where(model.tag == tag).use_index("by_tag").all()))
    answers = [(item.tag, item.note) for item in read[0] if item.number == number]
    allowed = [[row] if row is not None and row[0] == tag else [] for row in possible]
    return {"reread": number} if answers in allowed else {"wrong": [model.__name__, number, tag, answers, allowed]}


def read_tags(url: str, directory: Path, seed: int, model: Any) -> None:
    """Queries through the index that stays; notes what is wrong, without end."""
    random, fixed_notes = Random(seed), {row.number: row.note for row in fixed_rows(model)}
    with hb.connect(url) as store, (directory / "found.jsonl").open("a", buffering=1) as found:
        session = open_session(store)
        while True:
            fixed = random.randrange(10)
            tag = random.choice([f"t{random.randrange(6)}", f"fixed{fixed}"])
            try:
                items = session.query(model).where(model.tag == tag).use_index("by_tag").all()
            except (hb.StoreError, hb.errors.ClockError):
                time.sleep(0.1)
                continue
            numbers = [item.number for item in items]
            wrong = [
                item.number for item in items if item.tag != tag or item.note != fixed_notes.get(item.number, item.note)
            ]
            missing = [n for n in range(fixed, FIXED, 10) if n not in numbers] if tag.startswith("fixed") else []
            doubled = sorted({n for n in numbers if numbers.count(n) > 1})
            line = {"read": len(items), "wrong": wrong, "missing": missing, "doubled": doubled}
            found.write(json.dumps(line) + "\n")


def read_notes(url: str, directory: Path, seed: int, model: Any) -> None:
    """Queries through the index that may be dropped and built again: the answer is right, or there is none; without
    end.
    """
    random = Random(seed)
    with hb.connect(url) as store, (directory / "found.jsonl").open("a", buffering=1) as found:
        session = open_session(store)
        while True:
            fixed = random.randrange(FIXED)
            note = random.choice([f"fixed{fixed}", f"fixed{fixed}", *NOTES[model][1:4]])
            try:
                items = session.query(model).where(model.note == note).use_index("by_note").all()
            except hb.errors.IndexUnavailable:
                found.write(json.dumps({"unavailable": note}) + "\n")
                time.sleep(0.05)
                continue
            except (hb.StoreError, hb.errors.ClockError):
                time.sleep(0.1)
                continue
            numbers = [item.number for item in items]
            wrong = [[item.number, item.note, note] for item in items if item.note != note]
            missing = [fixed] if note == f"fixed{fixed}" and fixed not in numbers else []
            doubled = sorted({n for n in numbers if numbers.count(n) > 1})
            line = {"read_notes": len(items), "wrong": wrong, "missing": missing, "doubled": doubled}
            found.write(json.dumps(line) + "\n")


def repair(url: str, directory: Path, seed: int) -> None:
    """Repairs and purges, without end."""
    with hb.connect(url) as store:
        while True:
            for model, index in product(MODELS, ("by_tag", "by_note")):
                try:
                    report = hb.indexes.repair_index(store, model, index, times=TIMES)
                except (hb.errors.IndexUnavailable, hb.CapabilityError):  # the gateway may not do what versions need
                    continue
                except (hb.StoreError, hb.errors.ClockError):
                    time.sleep(0.2)
                    continue
                if report.missing and index == "by_tag":
                    with (directory / "found.jsonl").open("a") as found:
                        found.write(json.dumps({"missing": list(report.samples)}) + "\n")
            for model in MODELS:
                try:
                    hb.indexes.purge_rows(store, model, times=TIMES)
                except (hb.StoreError, hb.errors.ClockError, hb.CapabilityError):
                    time.sleep(0.2)


def rebuild(url: str, directory: Path, seed: int) -> None:
    """Drops an index and builds it again, without end."""
    with hb.connect(url) as store:
        while True:
            try:
                hb.indexes.build_index(store, Item, "by_note", times=TIMES, batch_size=20, claim_life=3)
                time.sleep(1)
                hb.indexes.drop_index(store, Item, "by_note", times=TIMES)
            except hb.errors.IndexUnavailable:
                patiently(lambda: hb.indexes.drop_index(store, Item, "by_note", times=TIMES))
            except (hb.StoreError, hb.errors.ClockError):
                time.sleep(0.2)


def main() -> None:
    role, url, directory, seed = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    match role.split():
        case ["writer", model, own]:
            write(url, directory, seed, globals()[model], int(own))
        case ["reader", model, "by_tag"]:
            read_tags(url, directory, seed, globals()[model])
        case ["reader", model, _]:
            read_notes(url, directory, seed, globals()[model])
        case ["repairer", _]:
            repair(url, directory, seed)
        case _:
            rebuild(url, directory, seed)


if __name__ == "__main__":
    main()
