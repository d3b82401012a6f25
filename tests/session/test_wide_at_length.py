"""A row of a million columns: the calls, the time and the memory that reading it takes."""

from __future__ import annotations

import logging
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Put
from tests.support.beds import HBASE, Bed

COLUMNS = 1_020_000
ALIASES = (b"a", b"b", b"c", b"d")
OBJECTS = COLUMNS // len(ALIASES)
IN_A_PUT = 1_250
PAGE = 20
TIMES = 40

logger = logging.getLogger(__name__)


@hb.model(table="million", family="d")
class Event:
    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    a: hb.Column[int] = hb.column("a")
    b: hb.Column[int] = hb.column("b")
    c: hb.Column[str] = hb.column("c")
    d: hb.Column[str] = hb.column("d")


def fill(bed: Bed) -> None:
    values = (b"\x80" + bytes(7), b"\x80" + bytes(7), b"some text", b"ok")
    for first in range(0, OBJECTS, IN_A_PUT):
        numbers = [number.to_bytes(4, "big") for number in range(first, first + IN_A_PUT)]
        cells = {
            b"d:" + number + alias: value for number in numbers for alias, value in zip(ALIASES, values, strict=True)
        }
        bed.store.put("million", [Put(b"ann", cells)])


def quickest(pages: Callable[[], object]) -> float:
    """Seconds that it takes when nothing else comes between."""
    taken = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        pages()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def scans(bed: Bed) -> int:
    found = sum(len(call.items) for call in bed.store.calls)
    bed.store.calls.clear()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("bed", ["embedded", *HBASE], indirect=True)
def test_a_row_of_a_million_columns(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    session = bed.use(Event)
    fill(bed)
    events: Any = session.query(Event).where(Event.owner == "ann")
    figures: dict[str, Any] = {"store": bed.kind}

    bed.store.calls.clear()
    last = events.last()
    assert last is not None
    assert last.number == OBJECTS - 1
    figures["calls of last()"] = scans(bed)
    assert figures["calls of last()"] < 100

    for name, first in (("front", 0), ("middle", OBJECTS // 2), ("end", OBJECTS - PAGE)):
        query = events.where(Event.number >= first)
        assert [event.number for event in query.page(PAGE).items] == list(range(first, first + PAGE))
        bed.store.calls.clear()
        figures[f"page at the {name}, ms"] = round(1000 * quickest(lambda query=query: query.page(PAGE)), 2)  # type: ignore[misc]
        assert scans(bed) == TIMES
    times = [value for name, value in figures.items() if name.startswith("page")]

    token = events.where(Event.number >= OBJECTS // 2).page(PAGE).next_token
    tracemalloc.start()
    events.where(Event.number >= OBJECTS // 2).page(PAGE, after=token)
    figures["peak of a page, MB"] = round(tracemalloc.get_traced_memory()[1] / 1e6, 2)
    tracemalloc.reset_peak()
    with caplog.at_level("WARNING", "hbmodel"):
        assert sum(1 for _ in events) == OBJECTS
        figures["peak of the whole row, MB"] = round(tracemalloc.get_traced_memory()[1] / 1e6, 1)
        tracemalloc.reset_peak()
        assert events.count() == OBJECTS
        figures["peak of count(), MB"] = round(tracemalloc.get_traced_memory()[1] / 1e6, 1)
    tracemalloc.stop()
    begun = time.perf_counter()
    assert sum(1 for _ in events) == OBJECTS
    figures["whole row, us for each cell"] = round((time.perf_counter() - begun) * 1e6 / COLUMNS, 1)
    logger.warning("%s", figures)
    assert max(times) <= 1.5 * times[0], figures  # as fast as the first one
    assert figures["peak of a page, MB"] < 5
    assert figures["peak of the whole row, MB"] < 64
    assert figures["peak of count(), MB"] < 64
    assert len([record for record in caplog.records if "of one row" in record.getMessage()]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("bed", ["embedded", *HBASE], indirect=True)
def test_a_prefix_of_every_row_costs_no_more_than_it_holds(bed: Bed) -> None:
    """Of the million columns and of small rows a slice of a few objects each."""
    session = bed.use(Event)
    fill(bed)
    session.add_all(Event(owner=f"o{n:04}", number=n % 7, a=1, b=2, c="c", d="d") for n in range(1_000))
    session.commit()
    query = session.query(Event).where(Event.number.between(2, 3)).allow_full_scan()
    begun = time.perf_counter()
    found = query.all()
    taken = time.perf_counter() - begun
    assert len(found) == 2 + 2 * 143
    assert taken < 5
