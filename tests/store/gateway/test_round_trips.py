"""How often each call waits for an answer of the gateway, as the docs say."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.store import Store
from hbmodel.store.gateway.wire.connection import ThriftConnection
from hbmodel.tables.roll.binding_cache import BindingCache

pytestmark = pytest.mark.hbase

PAGE = Path(__file__).parents[3] / "docs" / "stores.md"
ID = uuid4().hex[:8]  # the workers of pytest-xdist share an HBase
ROWS = 60


@hb.model(table=f"trips_plain_{ID}", family="d")
class Plain:
    number: hb.Key[int] = hb.key(hb.UInt32)
    first: hb.Column[str] = hb.column("f")
    second: hb.Column[str | None] = hb.column("s", default=None)


@hb.model(table=f"trips_flag_{ID}", family="d", exists=hb.flag("e"))
class Flagged:
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t")


@hb.model(table=f"trips_counted_{ID}", family="d", exists=hb.flag("e"))
class Counted:
    number: hb.Key[int] = hb.key(hb.UInt32)
    hits: hb.Column[int] = hb.counter("h")


@hb.model(table=f"trips_bare_{ID}", family="d")
class Bare:
    number: hb.Key[int] = hb.key(hb.UInt32)
    hits: hb.Column[int] = hb.counter("h")


@hb.model(table=f"trips_indexed_{ID}", family="d")
class Indexed:
    number: hb.Key[int] = hb.key(hb.UInt32)
    group: hb.Column[int] = hb.column("g")
    by_group = hb.index("group")


@hb.model(table=f"trips_versioned_{ID}", family="d")
class Versioned:
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t")
    version: hb.Column[int] = hb.version()


@hb.model(table=f"trips_wide_{ID}", family="d")
class Wide:
    row: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    text: hb.Column[str] = hb.column("t")


@hb.model(table=f"trips_external_{ID}", family="d", external=True)
class External:
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str | None] = hb.column("t", default=None)


MODELS = (Plain, Flagged, Counted, Bare, Indexed, Versioned, Wide, External)

numbers = itertools.count(1_000)

Work = Callable[[hb.Session], Any]


CALLS: dict[str, list[Work]] = {
    "`get`, `get_many` of up to 1,000 objects": [
        lambda session: session.get(Plain, number=1),
        lambda session: session.get_many(Plain, [{"number": number} for number in range(1_000)]),
    ],
    "`add` and `commit`, of up to 1,000 objects": [
        lambda session: session.add(Plain(number=1, first="a")),
        lambda session: session.add_all(Plain(number=number, first="a") for number in range(1_000)),
    ],
    "`update` and `commit`": [
        lambda session: session.update_key(Plain, number=1, first=str(next(numbers))),
        lambda session: session.update_key(Plain, number=1, second=str(next(numbers))),
    ],
    "`delete` and `commit`": [lambda session: session.delete_key(Plain, number=next(numbers))],
    "`insert`": [lambda session: session.insert(Plain(number=next(numbers), first="a"))],
    "`insert` of a model with a flag": [lambda session: session.insert(Flagged(number=next(numbers), text="a"))],
    "`put`": [
        lambda session: session.put(Plain, number=1, first="b"),
        lambda session: session.put(Plain, number=next(numbers), first="b"),
    ],
    "`increment`, `increment_key`": [
        lambda session: session.increment(Counted(number=1), Counted.hits),
        lambda session: session.increment_key(Counted, Counted.hits, number=1),
    ],
    "`increment`, `increment_key` of a model that has no required column, index, version or flag": [
        lambda session: session.increment(Bare(number=1), Bare.hits),
        lambda session: session.increment_key(Bare, Bare.hits, number=1),
    ],
    "query: a page of 20, `first()`, `exists()` or `count()`": [
        lambda session: session.query(Plain).where(Plain.number >= 10).page(20),
        lambda session: session.query(Plain).where(Plain.number >= 10).first(),
        lambda session: session.query(Plain).where(Plain.number >= 10).exists(),
        lambda session: session.query(Plain).where(Plain.number >= 10, Plain.number < 50).count(),
    ],
    "query through an index: a page of 20": [
        lambda session: session.query(Indexed).where(Indexed.group == 1).page(20),
    ],
    "with an index: `add` and `commit`": [lambda session: session.add(Indexed(number=next(numbers), group=7))],
    "with an index: `update` of the indexed column and `commit`": [
        lambda session: session.update_key(Indexed, number=3, group=next(numbers)),
    ],
    "with an index: `delete` and `commit`": [
        lambda session: session.delete_key(Indexed, number=10 + next(numbers) % (ROWS - 10)),
    ],
    "with an index: `insert`": [lambda session: session.insert(Indexed(number=next(numbers), group=7))],
    "versioned: `add`, `update`, `delete` and `commit`, or `insert`": [
        lambda session: session.add(Versioned(number=next(numbers), text="a")),
        lambda session: session.update_key(Versioned, number=1, text=str(next(numbers))),
        lambda session: session.delete_key(Versioned, number=10 + next(numbers) % (ROWS - 10)),
        lambda session: session.insert(Versioned(number=next(numbers), text="a")),
    ],
    "wide rows: `get`, or `add` and `commit`": [
        lambda session: session.get(Wide, row=1, number=ROWS - 1),
        lambda session: session.add(Wide(row=1, number=ROWS - 1, text="a")),
    ],
    "wide rows: all objects of a short row, or a page in either direction": [
        lambda session: session.query(Wide).where(Wide.row == 1).all(),
        lambda session: session.query(Wide).where(Wide.row == 1).page(5),
        lambda session: session.query(Wide).where(Wide.row == 1).reversed().page(5),
    ],
    "wide rows: `update` of a required column and `commit`": [
        lambda session: session.update_key(Wide, row=1, number=ROWS - 1, text=str(next(numbers))),
    ],
    "wide rows: `delete` and `commit`": [lambda session: session.delete_key(Wide, row=2, number=next(numbers))],
    "tables of other programs: `put`, or `put_all` of up to 1,000 rows; see [rows that are written in parts]"
    "(sessions.md#rows-that-are-written-in-parts)": [
        lambda session: session.put(External, number=1, text="b"),
        lambda session: session.put_all(External, [{"number": number, "text": "b"} for number in range(1_000)]),
    ],
}

ALONE: dict[str, list[Work]] = {
    "the first `get` of a program": [lambda session: session.get(Plain, number=1)],
    "the first `add` of a program": [
        lambda session: session.add(Plain(number=1, first="a")),
        lambda session: session.add(External(number=1, text="a")),
    ],
    "the first `add` of a program, with an index": [
        lambda session: session.add(Indexed(number=next(numbers), group=7)),
    ],
}
"""Calls of programs that make no other call."""

TRIES = 5
"""How often each call is made. The fewest round trips count, because a call may also read the clock or the registry."""


def documented() -> dict[str, tuple[str, str]]:
    """The table of the page: the round trips of each call through both gateways."""
    section = PAGE.read_text().partition("## Round trips\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| (\S+) \| (\S+) \|$", section, re.MULTILINE)
    return {call: (first, second) for call, first, second in rows if call != "call"}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the requests that this thread sends while no reply is outstanding.

    Other threads send requests too: those that keep lines on the writers' roll, and those that earlier tests have left.
    """
    count, own = [0], threading.get_ident()

    def counted(send: Any) -> Any:
        def counting(self: ThriftConnection, *args: Any, **more: Any) -> None:
            count[0] += self.outstanding == 0 and threading.get_ident() == own
            send(self, *args, **more)

        return counting

    for name in ("send", "send_encoded"):
        monkeypatch.setattr(ThriftConnection, name, counted(getattr(ThriftConnection, name)))
    return count


@pytest.fixture(params=["thrift1", "thrift2"])
def gateway(request: pytest.FixtureRequest) -> Iterator[tuple[int, Store, hb.Session]]:
    hbase = request.getfixturevalue("hbmodel_hbase")
    place = 0 if request.param == "thrift1" else 1
    with hb.connect((hbase.url, hbase.thrift2_url)[place]) as store:
        hb.create_tables(store, *MODELS, create_external=True)
        try:
            with hb.Session(store) as session:
                for number in range(ROWS):
                    session.add(Plain(number=number, first="a"))
                    session.add(Counted(number=number))
                    session.add(Indexed(number=number, group=number % 2))
                    session.add(Wide(row=number % 3, number=number, text="a"))
                    if place:
                        session.add(Versioned(number=number, text="a"))
                session.commit()
                session.add(Wide(row=1, number=ROWS - 1, text="a"))
                session.commit()
                yield place, store, session
        finally:
            hb.drop_tables(store, *MODELS)


def test_the_round_trips_are_those_of_the_page(gateway: tuple[int, Store, hb.Session], begun: list[int]) -> None:
    place, store, session = gateway
    said = {call: trips[place] for call, trips in documented().items()}
    found = {call: trips_of(lambda: nullcontext(session), works, begun) for call, works in CALLS.items()}
    found |= {call: trips_of(lambda: program(store), works, begun) for call, works in ALONE.items()}
    assert found == said


@contextmanager
def program(store: Store) -> Iterator[hb.Session]:
    """The only session of a program that ends with it."""
    own = BindingCache(60)
    with hb.Session(store, cache=own) as session:
        yield session
    own.leave()


def test_a_session_for_each_call_takes_no_more_round_trips_than_one_session(
    gateway: tuple[int, Store, hb.Session], begun: list[int]
) -> None:
    _, store, session = gateway
    for works in (*CALLS.values(), *ALONE.values()):
        assert trips_of(lambda: hb.Session(store), works, begun) == trips_of(lambda: nullcontext(session), works, begun)


def trips_of(sessions: Callable[[], AbstractContextManager[hb.Session]], works: list[Work], begun: list[int]) -> str:
    """The round trips of some calls; `-` if the gateway cannot carry them out."""
    fewest: set[str] = set()
    for work in works:
        counts: list[int] = []
        try:
            for _ in range(TRIES):
                begun[0] = 0
                with sessions() as session:
                    work(session)
                    session.commit()
                counts.append(begun[0])
            fewest.add(str(min(counts)))
        except hb.errors.CapabilityError:
            if not session.closed:
                session.discard()
            fewest.add("-")
    return " or ".join(sorted(fewest))
