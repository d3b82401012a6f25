"""Down-sampling: spans of time are what Python makes of the values, in either direction; what cannot be is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import isnan, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from tests.support.beds import Bed, fresh
from tests.support.examples import examples

START = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@hb.model(table="down_newest", family="d", salt=hb.HashSalt(3))
class Newest:
    """Newest first, each metric in every bucket."""

    metric: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)
    value: hb.Column[Decimal | None] = hb.column("v", default=None)
    note: hb.Column[str] = hb.column("n", default="")


@hb.model(table="down_hours", family="d")
class Hours:
    """An hour in each row."""

    metric: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=HOUR)
    value: hb.Column[Decimal | None] = hb.column("v", default=None)


@hb.model(table="down_ticks", family="d")
class Tick:
    """Times that are integers, and dates."""

    at: hb.Key[int] = hb.key(hb.Int32)
    day: hb.Column[date] = hb.column("d")
    value: hb.Column[int] = hb.column("v", hb.Int32)
    lasted: hb.Column[timedelta] = hb.column("l")

    by_day = hb.index("day")


@hb.model(table="down_points", family="d", salt=hb.HashSalt(3, by=("sensor",)))
class Point:
    """Newest first, with several values at one time, some of them NaN."""

    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)
    seq: hb.Key[int] = hb.key(hb.codecs.UInt8)
    value: hb.Column[float | None] = hb.column("v", hb.Float64(nan=True), nullable=True, default=None)


@hb.model(table="down_spread", family="d", salt=hb.HashSalt(3))
class Spread:
    """Oldest first, in all buckets; a later key field sorts descending."""

    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"))
    seq: hb.Key[int] = hb.key(hb.codecs.UInt8, desc=True)
    value: hb.Column[float | None] = hb.column("v", hb.Float64(nan=True), nullable=True, default=None)


@hb.model(table="down_found", family="d")
class Found:
    """Times in an index."""

    seq: hb.Key[int] = hb.key(hb.codecs.UInt8)
    sensor: hb.Key[str] = hb.key()
    at: hb.Column[datetime | None] = hb.column("a", hb.Datetime("s"), nullable=True, default=None)
    value: hb.Column[float | None] = hb.column("v", hb.Float64(nan=True), nullable=True, default=None)

    by_sensor = hb.index("sensor", hb.desc("at"))


SECONDS = st.integers(-7200, 20_000)
SERIES = st.dictionaries(SECONDS, st.none() | st.integers(-50, 50).map(Decimal), max_size=40)


def expected(series: dict[int, Any], every: int) -> dict[int, list[Any]]:
    """The values of each span, in the order of time."""
    spans: dict[int, list[Any]] = {}
    for second in sorted(series):
        if series[second] is not None:
            spans.setdefault(second // every, []).append(series[second])
    return spans


@pytest.mark.lengthy
@settings(max_examples=examples(60))
@given(SERIES, st.integers(1, 9000), st.sampled_from([Newest, Hours]), st.booleans())
def test_spans_are_what_python_makes_of_the_values(
    series: dict[int, Any], every: int, model: Any, newest: bool
) -> None:
    with fresh(model) as store:
        session = hb.Session(store)
        session.add_all(
            model(metric=name, at=START + timedelta(seconds=s), value=v) for name in "ab" for s, v in series.items()
        )
        session.commit()
        query = session.query(model).where(model.metric == "a")
        if newest:
            query = query.order_by(model.at.desc())
        found = list(hb.timeseries.downsample(query, model.at, timedelta(seconds=every), model.value))
        spans = expected(series, every)
        assert [(span.start - START) // timedelta(seconds=every) for span in found] == sorted(spans, reverse=newest)
        for span in found:
            values = spans[(span.start - START) // timedelta(seconds=every)]
            assert (span.count, span.total, span.least, span.greatest) == (
                len(values),
                sum(values),
                min(values),
                max(values),
            )
            assert (span.first, span.last) == (values[0], values[-1])
            assert Fraction(span.total) / span.count - Fraction(span.mean) < Fraction(1, 10**9)


POINTS: dict[Any, Callable[[Any], Any]] = {
    Point: lambda p: (p.sensor, -p.at.timestamp(), p.seq),
    Spread: lambda p: (p.sensor, p.at.timestamp(), -p.seq),
    Found: lambda p: (p.sensor, 0 if p.at is None else -p.at.timestamp(), p.seq),
}
"""The order of the key, or of the entries of the index, by model."""

MOMENTS = st.integers(0, 5).map(lambda n: START + timedelta(minutes=7 * n))
FLOATS = st.sampled_from([None, nan, 1.0, -2.0, 4.0, 8.0])


@st.composite
def narrowed(draw: st.DrawFn, query: Any, model: Any, points: list[Any]) -> Any:
    """The query with some of what decides its items, called in any order."""
    steps: list[Callable[[Any], Any]] = []
    for _ in range(draw(st.integers(0, 3))):
        step = draw(st.sampled_from(["limit", "offset", "reversed", "bound", "order", "from"]))
        number, item = draw(st.integers(0, 6)), draw(st.sampled_from(points)) if points else None
        if step in {"limit", "offset"}:
            steps.append(lambda q, step=step, number=number: getattr(q, step)(number))
        elif step == "reversed":
            steps.append(lambda q: q.reversed())
        elif step == "bound" and item is not None:
            bound = draw(st.sampled_from(["after", "before"]))
            steps.append(lambda q, bound=bound, item=item: getattr(q, bound)(item))
        elif step == "order":
            descending = draw(st.booleans())
            steps.append(lambda q, descending=descending: q.order_by(model.at.desc() if descending else model.at))
        elif step == "from":
            since = draw(MOMENTS)
            steps.append(lambda q, since=since: q.where(model.at >= since))
    for step in draw(st.permutations(steps)):
        query = step(query)
    return query


def aggregated(items: list[Any], every: timedelta, of: Callable[[Any], Any]) -> dict[datetime, tuple[Any, ...]]:
    """The aggregates of some items, computed in Python."""
    spans: dict[datetime, list[Any]] = {}
    for item in items:
        if item.at is not None and item.value is not None and not isnan(item.value):
            spans.setdefault(START + (item.at - START) // every * every, []).append(item)
    made: dict[datetime, tuple[Any, ...]] = {}
    for begin, found in spans.items():
        values = [item.value for item in found]
        first = min(found, key=lambda item: (item.at, of(item)))
        last = max(found, key=lambda item: (item.at, of(item)))
        made[begin] = (len(values), sum(values), min(values), max(values), first.value, last.value)
    return made


@pytest.mark.lengthy
@settings(max_examples=examples(150))
@given(st.data(), st.sampled_from([*POINTS]), st.integers(1, 30))
def test_the_items_are_those_of_the_query(data: st.DataObject, model: Any, minutes: int) -> None:
    with fresh(model) as store:
        session = hb.Session(store)
        keys = data.draw(st.sets(st.tuples(st.sampled_from("ab"), MOMENTS, st.integers(0, 2)), max_size=12))
        points = [model(sensor=sensor, at=at, seq=seq, value=data.draw(FLOATS)) for sensor, at, seq in sorted(keys)]
        if model is Found:  # its key has no time
            points = list({(point.seq, point.sensor): point for point in points}.values())
            points += [Found(seq=9, sensor="a", at=None, value=1.0)] if data.draw(st.booleans()) else []
        session.add_all(points)
        session.commit()
        sensors = data.draw(st.sampled_from([["a"], ["b"], ["a", "b"]]))
        only = model.sensor == sensors[0] if len(sensors) == 1 else model.sensor.in_(sensors)
        query = data.draw(narrowed(session.query(model).where(only), model, points))
        try:
            items = list(query)
        except hb.QueryError:  # the bounds do not suit the order, for example
            return
        every = timedelta(minutes=minutes)
        decided = query.terms.limit is not None or query.terms.offset or query.terms.row_bounds
        in_order = query.terms.ordering or len(sensors) == 1
        if decided and not in_order:
            with pytest.raises(hb.QueryError, match="not in the order of time"):
                hb.timeseries.downsample(query, model.at, every, model.value)
            return
        found = list(hb.timeseries.downsample(query, model.at, every, model.value))
        wanted = aggregated(
            items, every, POINTS[model] if len(sensors) == 1 else lambda p: (POINTS[model](p)[1:], p.sensor)
        )
        assert {s.start: (s.count, s.total, s.least, s.greatest, s.first, s.last) for s in found} == wanted
        starts = [span.start for span in found]
        if in_order and (query.terms.ordering or decided or query.terms.backwards):
            assert starts == list(
                dict.fromkeys(
                    start for item in items for start in wanted if start <= (item.at or START) < start + every
                )
            )
        elif not query.terms.backwards:
            assert starts == sorted(starts)


def test_a_limit_counts_in_the_order_of_the_query() -> None:
    with fresh(Point) as store:
        session = hb.Session(store)
        session.add_all(Point(sensor="a", at=START + timedelta(minutes=n), seq=0, value=float(n)) for n in range(10))
        session.commit()
        query = session.query(Point).where(Point.sensor == "a")

        def total(of: Any) -> float:
            return sum(span.total for span in hb.timeseries.downsample(of, Point.at, HOUR, Point.value))

        assert total(query.limit(3)) == 9 + 8 + 7
        assert total(query.reversed().limit(3)) == total(query.order_by(Point.at).limit(3)) == 0 + 1 + 2
        assert total(query.offset(7)) == 2 + 1 + 0
        assert total(query.after({"at": START + timedelta(minutes=8), "seq": 0})) == sum(range(8))


def test_a_limit_on_series_that_are_not_read_in_the_order_of_time_is_refused() -> None:
    with fresh(Point) as store:
        query = hb.Session(store).query(Point).where(Point.sensor.in_(["a", "b"])).limit(3)
        with pytest.raises(hb.QueryError, match="not in the order of time: give order_by"):
            hb.timeseries.downsample(query, Point.at, HOUR, Point.value)
        assert list(hb.timeseries.downsample(query.order_by(Point.at), Point.at, HOUR, Point.value)) == []


@pytest.mark.parametrize("values", [[1.0, nan, 2.0], [nan, 1.0, 2.0], [2.0, 1.0, nan]])
def test_nan_is_skipped_in_either_direction(values: list[float]) -> None:
    with fresh(Spread) as store:
        session = hb.Session(store)
        session.add_all(
            Spread(sensor="a", at=START + timedelta(minutes=n), seq=0, value=value) for n, value in enumerate(values)
        )
        session.commit()
        query = session.query(Spread).where(Spread.sensor == "a")
        for directed in (query, query.order_by(Spread.at.desc())):
            (span,) = hb.timeseries.downsample(directed, Spread.at, HOUR, Spread.value)
            assert (span.count, span.least, span.greatest, span.total, span.mean) == (2, 1.0, 2.0, 3.0, 1.5)


@pytest.mark.parametrize(("model", "first", "last"), [(Point, 1.0, 3.0), (Spread, 3.0, 1.0)])
def test_values_at_one_time_are_in_the_order_of_the_key(model: Any, first: float, last: float) -> None:
    with fresh(model) as store:
        session = hb.Session(store)
        session.add_all(model(sensor="a", at=START, seq=n, value=float(n)) for n in (1, 2, 3))
        session.commit()
        query = session.query(model).where(model.sensor == "a")
        for directed in (query, query.order_by(model.at.desc()), query.reversed(), query.limit(3)):
            (span,) = hb.timeseries.downsample(directed, model.at, HOUR, model.value)
            assert (span.first, span.last) == (first, last)


@pytest.mark.every_store
def test_a_day_of_values(bed: Bed) -> None:
    session = bed.use(Newest)
    session.add_all(Newest(metric="cpu", at=START + timedelta(minutes=n), value=Decimal(n)) for n in range(150))
    session.commit()
    query = session.query(Newest).where(Newest.metric == "cpu", Newest.at >= START + HOUR)
    found = list(hb.timeseries.downsample(query, Newest.at, HOUR, Newest.value))
    assert [(span.start, span.count, span.mean) for span in found] == [
        (START + HOUR, 60, Decimal("89.5")),
        (START + 2 * HOUR, 30, Decimal("134.5")),
    ]


def test_integers_dates_and_timedeltas() -> None:
    with fresh(Tick) as store:
        session = hb.Session(store)
        session.add_all(Tick(at=n, day=date(2026, 3, 1 + n), value=n, lasted=timedelta(seconds=n)) for n in range(10))
        session.commit()
        query = session.query(Tick).allow_full_scan()
        assert [(s.start, s.total, s.mean) for s in hb.timeseries.downsample(query, Tick.at, 4, Tick.value)] == [
            (0, 6, 1.5),
            (4, 22, 5.5),
            (8, 17, 8.5),
        ]
        week = list(hb.timeseries.downsample(query, Tick.day, timedelta(days=7), Tick.lasted))
        assert [(s.start, s.total) for s in week] == [
            (date(2026, 2, 26), timedelta(seconds=6)),
            (date(2026, 3, 5), timedelta(seconds=39)),
        ]
        assert list(hb.timeseries.downsample(query.limit(5), Tick.at, 4, Tick.value))[-1].count == 1
        assert list(hb.timeseries.downsample(query.limit(0), Tick.at, 4, Tick.value)) == []


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda q: hb.timeseries.downsample(q, Newest.metric, HOUR, Newest.value), hb.QueryError, "needs a time field"),
        (lambda q: hb.timeseries.downsample(q, Newest.at, HOUR, Newest.note), hb.QueryError, "numbers or timedeltas"),
        (
            lambda q: hb.timeseries.downsample(q, "at", HOUR, Newest.value),
            hb.QueryError,
            r"Give fields as attributes of the model class: Model\.field\.",
        ),
        (lambda q: hb.timeseries.downsample(q, Newest.at, 60, Newest.value), hb.QueryError, "length of a span"),
        (
            lambda q: hb.timeseries.downsample(q, Newest.at, timedelta(0), Newest.value),
            hb.QueryError,
            "length of a span",
        ),
        (lambda q: hb.timeseries.downsample(q, Newest.at, -HOUR, Newest.value), hb.QueryError, "length of a span"),
        (
            lambda q: hb.timeseries.downsample(q.order_by(Newest.metric), Newest.at, HOUR, Newest.value),
            hb.QueryError,
            "order of its time",
        ),
        (lambda q: hb.timeseries.downsample(q, Hours.at, HOUR, Newest.value), hb.errors.UnknownField, "another model"),
        (
            lambda q: list(hb.timeseries.downsample(q.allow_full_scan(), Newest.at, HOUR, Newest.value)),
            hb.errors.OrderNotAvailable,
            "Neither the key",
        ),
    ],
)
def test_what_is_refused(ask: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with fresh(Newest) as store, pytest.raises(error, match=message):
        ask(hb.Session(store).query(Newest))


def test_a_span_begins_in_the_year_1_or_later() -> None:
    early = datetime(1, 1, 2, tzinfo=UTC)
    with fresh(Newest) as store:
        with hb.Session(store) as session:
            session.add(Newest(metric="m", at=early, value=Decimal(1)))
        query = hb.Session(store).query(Newest).where(Newest.metric == "m")
        (span,) = hb.timeseries.downsample(query, Newest.at, timedelta(days=1), Newest.value)
        assert span.start == early
        with pytest.raises(hb.QueryError, match="would begin before the year 1"):
            list(hb.timeseries.downsample(query, Newest.at, timedelta(days=300), Newest.value))


def test_dates_are_down_sampled_by_whole_days() -> None:
    with fresh(Tick) as store, pytest.raises(hb.QueryError, match="A span of dates must be a whole number of"):
        hb.timeseries.downsample(hb.Session(store).query(Tick), Tick.day, HOUR, Tick.value)
