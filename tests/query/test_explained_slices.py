"""The output of `explain()` for wide models, compared with the calls that are really made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store.gateway.wire.connection import ThriftConnection
from tests.support.beds import HBASE, Bed
from tests.support.sizes import SMALL_SIZES

START = datetime(2026, 1, 1, tzinfo=UTC)


@hb.model(table="slices_said", family="d", kind=b"v", salt=hb.HashSalt(3, by=("owner",)))
class Visit:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8, in_qualifier=True)
    reason: hb.Column[str] = hb.column("r")
    price: hb.Column[int] = hb.column("p")
    by_price = hb.index("price")


@hb.model(table="slices_said_at", family="d")
class Reading:
    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=timedelta(hours=1))
    value: hb.Column[int] = hb.column("v")


@hb.model(table="slices_said_row", family="d", row=b"all")
class Word:
    text: hb.Key[str] = hb.key(in_qualifier=True)
    count: hb.Column[int] = hb.column("c")


@pytest.fixture
def session(bed: Bed) -> hb.Session:
    found = bed.use(Visit, Reading, Word)
    found.add_all(Visit(owner=f"o{n % 4}", name=f"m{n % 3}", number=n, reason="x", price=n) for n in range(24))
    found.add_all(
        Reading(sensor=sensor, at=START + timedelta(minutes=n), value=n) for sensor in "ab" for n in range(180)
    )
    found.add_all(Word(text=f"w{n}", count=n) for n in range(9))
    found.commit()
    return found


def queries(session: hb.Session) -> Iterator[Any]:
    visits, readings, words = session.query(Visit), session.query(Reading), session.query(Word)
    yield visits.where(Visit.name.startswith("m")).allow_full_scan()
    yield visits.where(Visit.name.in_(["m0", "m2"]), Visit.price >= 0).use_index("primary").allow_full_scan()
    yield visits.where(Visit.owner == "o1", Visit.name > "m0")
    yield visits.where(Visit.owner == "o1", Visit.name.in_(["m0", "m2"]))
    yield visits.where(Visit.owner == "o1", Visit.name == "m1", Visit.number == 1)
    yield visits.where(Visit.owner.in_(["o0", "o1", "o2"]), Visit.name == "m1", Visit.number.in_([1, 4, 10, 13]))
    yield visits.where(Visit.price == 3)
    yield readings.where(Reading.sensor == "a", Reading.at.between(START, START + timedelta(minutes=90)))
    yield readings.where(Reading.sensor >= "a", Reading.at == START + timedelta(minutes=5))
    yield words.where(Word.text > "w3")


@pytest.mark.parametrize("bed", HBASE, indirect=True)
@pytest.mark.parametrize("backwards", [False, True])
def test_the_calls_to_the_first_item_are_those_that_are_made(
    session: hb.Session, monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    sent: list[str] = []
    send = ThriftConnection.send

    def noted(self: ThriftConnection, api: str, **arguments: object) -> None:
        # another one keeps the lines of earlier sessions on the writers' roll
        if threading.current_thread() is threading.main_thread():
            sent.append(api)
        send(self, api, **arguments)

    wrong = []
    for query in queries(session):
        asked = query.reversed() if backwards else query
        explained = asked.explain()
        with monkeypatch.context() as watching:
            watching.setattr(ThriftConnection, "send", noted)
            sent.clear()
            assert asked.first() is not None
        called = [api for api in sent if "lose" not in api]
        if len(called) != explained.calls:
            wrong.append(f"{explained}\n{called}")
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_the_scans_to_the_first_item_are_those_that_are_made(session: hb.Session, bed: Bed) -> None:
    for query in queries(session):
        for asked in (query, query.reversed()):
            explained = asked.explain()
            bed.store.calls.clear()
            assert asked.first() is not None
            scans = sum(len(call.items) for call in bed.store.calls if call.name == "scan")
            gets = sum(1 for call in bed.store.calls if call.name != "scan")
            assert (scans, gets) == (explained.scan_calls, explained.gets), f"{explained}\n{bed.store.calls}"


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_slices_are_in_the_values_of_fields(session: hb.Session) -> None:
    visits, readings = session.query(Visit), session.query(Reading)
    told = visits.where(Visit.owner >= "o1", Visit.name.startswith("m"), Visit.price > 3).select(Visit.price).explain()
    assert str(told) == (
        "scan of slices_said (primary)\n"
        "  key:     nothing fixed, owner bounded\n"
        "  scans:   3 range(s) in 3 of 3 bucket(s)\n"
        "  server:  ranges of columns, pages of cells\n"
        "  client:  price > ...\n"
        "  rows:    owner >= 'o1'\n"
        "  columns: name starts with 'm'\n"
        "  slices:  3, of 1 range(s) of columns; the client checks conditions on columns, "
        "and select() does not reduce the cells read in a slice\n"
        "  calls:   at least 3 until the first item (3 for scans, 0 for gets), in at least 1 round trip(s)\n"
        "  why:     the client drops rows that fail price > ..., and reads on until one passes"
    )
    backwards = visits.where(Visit.owner == "o1", Visit.name > "m").reversed().explain()
    assert backwards.at_least
    assert str(backwards).splitlines()[-2:] == [
        "  calls:   at least 1 until the first item (1 for scans, 0 for gets), in at least 1 round trip(s)",
        "  why:     in a row of more than 100 columns, small scans first find where it ends, in about ten round trips",
    ]
    hour = timedelta(hours=1)
    split = (
        readings.where(Reading.sensor == "a", Reading.at.between(START + hour / 2, START + 4 * hour)).explain().slices
    )
    assert split is not None
    assert (split.number, split.ranges, split.scans) == (3, 1, 1)
    assert split.rows == "sensor == 'a', at >= 2026-01-01T00:30:00+00:00, at <= 2026-01-01T04:00:00+00:00"
    assert split.columns == "at >= 2026-01-01T00:30:00+00:00, at <= 2026-01-01T04:00:00+00:00"
    word = session.query(Word).allow_full_scan().explain().slices
    assert word is not None
    assert (word.rows, word.columns) == ("the only row of the model", "all of the model")
    several = visits.where(Visit.name.in_([f"m{n}" * 40 for n in range(6)])).allow_full_scan().explain().slices
    assert several is not None
    assert several.rows == "all"
    assert several.columns.startswith("name in 'm0m0")
    assert several.columns.endswith(", ... (6 values)")
    assert len(several.columns) < 300
    for other in (
        visits.where(Visit.price == 3),
        visits.where(Visit.owner == "o", Visit.name == "m", Visit.number == 1),
    ):
        assert other.explain().slices is None


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_a_wider_row_takes_a_page_after_the_other(session: hb.Session, bed: Bed) -> None:
    session = hb.Session(session.store, sizes=SMALL_SIZES)
    query = session.query(Visit).where(Visit.owner == "o1", Visit.name >= "m")
    calls = query.explain().calls
    bed.store.calls.clear()
    assert query.first() is not None
    assert len(bed.store.calls) == calls == 1
