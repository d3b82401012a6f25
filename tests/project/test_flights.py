"""The ten questions of the flights example, each answered by hbmodel and again by brute force from the lines of the
file.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from attrs import frozen

import hbmodel as hb

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights.py"
NEW_YORK = ZoneInfo("America/New_York")
EIGHT_DAYS = 6_998
"""How many lines the file has for 1 to 8 January, with which it begins; every question has an answer in them."""

ALL = 336_776


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("flights", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


flights: Any = example()


class Line(NamedTuple):
    """A line of the file, as text."""

    year: str
    month: str
    day: str
    dep_time: str
    sched_dep_time: str
    dep_delay: str
    arr_time: str
    sched_arr_time: str
    arr_delay: str
    carrier: str
    flight: str
    tailnum: str
    origin: str
    dest: str
    air_time: str
    distance: str
    hour: str
    minute: str
    time_hour: str

    @property
    def date(self) -> tuple[int, int]:
        """Month and day."""
        return int(self.month), int(self.day)

    @property
    def departs(self) -> tuple[str, int]:
        """Sorts like the scheduled departure."""
        return self.time_hour, int(self.minute)

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that the model keeps."""
        return (
            *(self.year, self.month, self.day, self.dep_time, self.sched_dep_time, self.dep_delay, self.arr_delay),
            *(self.carrier, self.flight, self.tailnum, self.origin, self.dest, self.air_time, self.distance),
        )


def lines(count: int | None = None) -> Iterator[Line]:
    with zipfile.ZipFile(flights.data_file()) as archive, archive.open("flights.csv") as file:
        reader = csv.reader(io.TextIOWrapper(file, "ascii", newline=""))
        assert next(reader) == list(Line._fields)
        # There are few different texts: sharing them keeps all lines in a tenth of the memory.
        yield from (Line(*map(sys.intern, line)) for line in islice(reader, count))


def text(value: object) -> str:
    return "NA" if value is None else str(value)


def clock(instant: Any) -> str:
    """The local time as the file writes it: 517 is 5:17, and 2400 is midnight."""
    if instant is None:
        return "NA"
    local = instant.astimezone(NEW_YORK)
    return str(local.hour * 100 + local.minute or 2400)


def as_line(flight: Any) -> tuple[str, ...]:
    """The text of a flight in the file, from the object."""
    departs = flight.departs.astimezone(NEW_YORK)
    assert flight.day == departs.date()
    return (
        *(
            str(departs.year),
            str(departs.month),
            str(departs.day),
            clock(flight.departed),
            clock(departs),
            text(flight.delay),
        ),
        *(
            text(flight.arrival_delay),
            flight.carrier,
            str(flight.number),
            text(flight.plane),
            flight.origin,
            flight.destination,
        ),
        *(text(flight.minutes), str(flight.miles)),
    )


# --- the same questions by brute force --------------------------------------------------------------------------------


def newest_first(found: list[Line]) -> list[Line]:
    """In the order of the row key: departure descending, then flight number and origin."""
    return sorted(
        sorted(found, key=lambda line: (int(line.flight), line.origin)), key=lambda line: line.departs, reverse=True
    )


def kept(found: Sequence[Line]) -> list[tuple[str, ...]]:
    return [line.kept for line in found]


def latest_of_united(known: Sequence[Line]) -> Any:
    return kept(newest_first([line for line in known if line.carrier == "UA"])[:10])


def one_by_key(known: Sequence[Line]) -> Any:
    wanted = ("UA", "1545", "EWR", (1, 1), "515")
    return kept(
        [line for line in known if (line.carrier, line.flight, line.origin, line.date, line.sched_dep_time) == wanted]
    )


def day_of_american_in_pages(known: Sequence[Line]) -> Any:
    found = kept(newest_first([line for line in known if line.carrier == "AA" and line.date == (1, 3)])[::-1])
    return [found[at : at + 20] for at in range(0, len(found), 20)]


def route_by_two_airlines(known: Sequence[Line]) -> Any:
    found = [
        line
        for line in known
        if (line.origin, line.dest, line.date) == ("JFK", "LAX", (1, 2)) and line.carrier in {"AA", "B6"}
    ]
    return kept(sorted(newest_first(found), key=lambda line: line.carrier))


def late_flights_of_delta(known: Sequence[Line]) -> Any:
    week = [line for line in known if line.carrier == "DL" and (1, 1) <= line.date <= (1, 7)]
    late = newest_first([line for line in week if line.dep_delay != "NA" and int(line.dep_delay) > 60])
    return [
        (line.month, line.day, line.sched_dep_time, line.flight, line.origin, line.dest, line.dep_delay)
        for line in late
    ]


def january_of_a_plane(known: Sequence[Line]) -> Any:
    return kept(newest_first([line for line in known if line.tailnum == "N14228" and line.month == "1"])[::-1])


def first_and_last_of_a_plane(known: Sequence[Line]) -> Any:
    found = newest_first([line for line in known if line.tailnum == "N14228"])
    return kept([found[-1], found[0]])


def plane_at_united(known: Sequence[Line]) -> Any:
    plane = [line for line in known if line.tailnum == "N517UA" and line.carrier == "UA"]
    return kept(newest_first([line for line in plane if (1, 1) <= line.date <= (1, 7)]))


def cancelled_on_a_route(known: Sequence[Line]) -> Any:
    route = [line for line in known if (line.origin, line.dest, line.date) == ("LGA", "DFW", (1, 3))]
    return kept(sorted(newest_first([line for line in route if line.dep_time == "NA"]), key=lambda line: line.carrier))


def count_of_a_route(known: Sequence[Line]) -> Any:
    return sum(1 for line in known if (line.origin, line.dest, line.month) == ("EWR", "ORD", "1"))


def comparable(item: Any) -> Any:
    """An answer in the terms of the file."""
    if isinstance(item, list):
        return [comparable(part) for part in item]
    if isinstance(item, tuple):  # of late_flights_of_delta
        departs = item[0].astimezone(NEW_YORK)
        return (str(departs.month), str(departs.day), clock(departs), *map(str, item[1:]))
    return item if isinstance(item, int) else as_line(item)


@frozen
class Known:
    """The expected results: the answer by brute force, the number of items in all flights, and the plan."""

    answer: Callable[[Sequence[Line]], Any]
    in_all: int
    access: str
    path: str
    buckets: int
    ranges: int
    fixed: int
    bounded: str | None = None
    backwards: bool = False
    server: str | None = None
    client: Sequence[str] = ()


LIVE = "f:_l >= ..."
ROUTE_DAY = ["origin == ...", "destination == ...", "day == ..."]
WEEK = ["departs >= ...", "departs < ..."]
KNOWN = {
    known.answer.__name__: known
    for known in (
        Known(latest_of_united, 10, "scan", "primary", 4, 4, 1, server=LIVE),
        Known(one_by_key, 1, "get", "primary", 1, 1, 4),
        Known(day_of_american_in_pages, 5, "scan", "primary", 4, 4, 1, "departs", backwards=True, server=LIVE),
        Known(route_by_two_airlines, 14, "scan + get", "by_route", 1, 2, 4, client=[*ROUTE_DAY, "carrier in ..."]),
        Known(
            late_flights_of_delta,
            15,
            "scan",
            "primary",
            4,
            4,
            1,
            "departs",
            server=f"({LIVE} & f:l > ...)",
            client=["delay > ..."],
        ),
        Known(
            january_of_a_plane,
            15,
            "scan + get",
            "by_plane",
            1,
            1,
            1,
            "departs",
            backwards=True,
            client=["plane == ...", *WEEK],
        ),
        Known(first_and_last_of_a_plane, 2, "scan + get", "by_plane", 1, 1, 1, backwards=True, client=["plane == ..."]),
        Known(
            *(plane_at_united, 8, "scan + get", "by_plane", 1, 1, 1, "departs"),
            server="row key contains text",
            client=["carrier == ...", "plane == ...", *WEEK],
        ),
        Known(cancelled_on_a_route, 3, "scan + get", "by_route", 1, 1, 3, client=[*ROUTE_DAY, "departed is None"]),
        Known(
            count_of_a_route,
            502,
            "scan + get",
            "by_route",
            1,
            1,
            2,
            "day",
            client=[*ROUTE_DAY[:2], "day >= ...", "day <= ..."],
        ),
    )
}


# --- on every store ---------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Loaded:
    """A store with flights, and the lines that they were made of."""

    store: hb.Store
    lines: Sequence[Line]


@contextmanager
def loaded_with(count: int, url: str) -> Iterator[Loaded]:
    with hb.connect(url) as store:
        try:
            hb.create_tables(store, flights.Flight)
            with hb.Session(store) as session:
                assert session.bulk_add(flights.flights(count)) == count
            yield Loaded(store, list(lines(count)))
        finally:
            if url.startswith("hbase"):
                for table in store.tables():
                    store.delete_table(table)


@pytest.fixture(scope="module", params=["memory", "embedded"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    url = "memory:" if request.param == "memory" else f"embedded:{tmp_path_factory.mktemp('flights') / 'flights.db'}"
    with loaded_with(EIGHT_DAYS, url) as found:
        yield found


def check_answer(loaded: Loaded, question: Any) -> None:
    known = KNOWN[question.run.__name__]
    expected = known.answer(loaded.lines)
    assert expected, "a question without an answer checks nothing"
    if len(loaded.lines) == ALL:
        assert (expected if isinstance(expected, int) else len(expected)) == known.in_all
    assert comparable(question.run(hb.Session(loaded.store)).result) == expected


def check_plan(loaded: Loaded, question: Any) -> None:
    known = KNOWN[question.run.__name__]
    plan = question.run(hb.Session(loaded.store)).query.explain()
    assert (plan.access, plan.path, plan.buckets, plan.ranges) == (
        known.access,
        known.path,
        known.buckets,
        known.ranges,
    )
    assert (len(plan.equalities), plan.range_field, plan.backwards) == (known.fixed, known.bounded, known.backwards)
    assert (plan.server, list(plan.client)) == (known.server, list(known.client))


def check_every_flight(loaded: Loaded) -> None:
    query = hb.Session(loaded.store).query(flights.Flight).allow_full_scan()
    missing = {line.kept for line in loaded.lines}
    assert len(missing) == len(loaded.lines)
    for flight in query:
        missing.remove(as_line(flight))  # a KeyError for what is in no line, or comes twice
    assert not missing


EACH = pytest.mark.parametrize("question", flights.QUESTIONS, ids=lambda question: question.run.__name__)


def test_every_question_has_an_answer_by_brute_force() -> None:
    assert [question.run.__name__ for question in flights.QUESTIONS] == list(KNOWN)
    assert len(KNOWN) == 10


@pytest.mark.lengthy
@EACH
def test_the_answer_is_that_of_brute_force(loaded: Loaded, question: Any) -> None:
    check_answer(loaded, question)


@pytest.mark.lengthy
@EACH
def test_the_plan_is_the_one_the_question_is_there_to_show(loaded: Loaded, question: Any) -> None:
    check_plan(loaded, question)


@pytest.mark.lengthy
def test_every_flight_is_there_once_and_says_what_the_file_says(loaded: Loaded) -> None:
    check_every_flight(loaded)


def test_without_use_index_the_table_wins_the_tie(loaded: Loaded) -> None:
    query = flights.plane_at_united(hb.Session(loaded.store)).query.use_index(None)
    assert query.explain().path == "primary"
    assert sorted(map(as_line, query)) == sorted(plane_at_united(loaded.lines))


@pytest.mark.lengthy
def test_a_repeated_load_changes_no_answer(loaded: Loaded) -> None:
    session = hb.Session(loaded.store)
    plane = session.query(flights.Flight).where(flights.Flight.plane == "N14228")
    before = plane.all()
    assert session.bulk_add(flights.flights(500)) == 500
    assert plane.all() == before
    assert session.query(flights.Flight).allow_full_scan().count() == EIGHT_DAYS


@pytest.mark.lengthy
def test_the_key_is_unique_in_all_flights() -> None:
    seen = {(line.carrier, line.time_hour, line.minute, line.flight, line.origin) for line in lines()}
    assert len(seen) == ALL == flights.ALL_FLIGHTS


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["embedded", pytest.param("hbase", marks=pytest.mark.hbase)])
def test_all_flights(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """One test, so that the workers of pytest-xdist load them once."""
    url = f"embedded:{tmp_path / 'flights.db'}"
    if kind == "hbase":
        url = f"{request.getfixturevalue('hbmodel_hbase').url}?table_prefix=f{uuid4().hex[:8]}"
    with loaded_with(ALL, url) as found:
        for question in flights.QUESTIONS:
            check_answer(found, question)
            check_plan(found, question)
        check_every_flight(found)
