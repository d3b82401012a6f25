"""Down-sampling: spans of time are what Python makes of the values, in either direction; what cannot be is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
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
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), split=HOUR)
    value: hb.Column[Decimal | None] = hb.column("v", default=None)


@hb.model(table="down_ticks", family="d")
class Tick:
    """Times that are integers, and dates."""

    at: hb.Key[int] = hb.key(hb.Int32)
    day: hb.Column[date] = hb.column("d")
    value: hb.Column[int] = hb.column("v", hb.Int32)
    lasted: hb.Column[timedelta] = hb.column("l")

    by_day = hb.index("day")


SECONDS = st.integers(-7200, 20_000)
SERIES = st.dictionaries(SECONDS, st.none() | st.integers(-50, 50).map(Decimal), max_size=40)


def expected(series: dict[int, Any], every: int) -> dict[int, list[Any]]:
    """The values of each span, in the order of time."""
    spans: dict[int, list[Any]] = {}
    for second in sorted(series):
        if series[second] is not None:
            spans.setdefault(second // every, []).append(series[second])
    return spans


@settings(max_examples=examples(60))
@given(SERIES, st.integers(1, 9000), st.sampled_from([Newest, Hours]), st.booleans())
def test_spans_are_what_python_makes_of_the_values(series: dict[int, Any], every: int, model: Any, newest: bool) -> None:
    with fresh(model) as store:
        session = hb.Session(store)
        session.add_all(model(metric=name, at=START + timedelta(seconds=s), value=v) for name in "ab" for s, v in series.items())
        session.commit()
        query = session.query(model).where(model.metric == "a")
        if newest:
            query = query.order_by(model.at.desc())
        found = list(hb.downsample(query, model.at, timedelta(seconds=every), model.value))
        spans = expected(series, every)
        assert [(span.start - START) // timedelta(seconds=every) for span in found] == sorted(spans, reverse=newest)
        for span in found:
            values = spans[(span.start - START) // timedelta(seconds=every)]
            assert (span.count, span.total, span.least, span.greatest) == (len(values), sum(values), min(values), max(values))
            assert (span.first, span.last) == (values[0], values[-1])
            assert Fraction(span.total) / span.count - Fraction(span.mean) < Fraction(1, 10**9)


def test_a_day_of_values(bed: Bed) -> None:
    session = bed.use(Newest)
    session.add_all(Newest(metric="cpu", at=START + timedelta(minutes=n), value=Decimal(n)) for n in range(150))
    session.commit()
    query = session.query(Newest).where(Newest.metric == "cpu", Newest.at >= START + HOUR)
    found = list(hb.downsample(query, Newest.at, HOUR, Newest.value))
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
        assert [(s.start, s.total, s.mean) for s in hb.downsample(query, Tick.at, 4, Tick.value)] == [
            (0, 6, 1.5),
            (4, 22, 5.5),
            (8, 17, 8.5),
        ]
        week = list(hb.downsample(query, Tick.day, timedelta(days=7), Tick.lasted))
        assert [(s.start, s.total) for s in week] == [(date(2026, 2, 26), timedelta(seconds=6)), (date(2026, 3, 5), timedelta(seconds=39))]
        assert list(hb.downsample(query.limit(5), Tick.at, 4, Tick.value))[-1].count == 1
        assert list(hb.downsample(query.limit(0), Tick.at, 4, Tick.value)) == []


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda q: hb.downsample(q, Newest.metric, HOUR, Newest.value), hb.QueryError, "needs a time field"),
        (lambda q: hb.downsample(q, Newest.at, HOUR, Newest.note), hb.QueryError, "numbers or timedeltas"),
        (lambda q: hb.downsample(q, "at", HOUR, Newest.value), hb.QueryError, "attributes of the model class"),
        (lambda q: hb.downsample(q, Newest.at, 60, Newest.value), hb.QueryError, "length of a span"),
        (lambda q: hb.downsample(q, Newest.at, timedelta(0), Newest.value), hb.QueryError, "length of a span"),
        (lambda q: hb.downsample(q, Newest.at, -HOUR, Newest.value), hb.QueryError, "length of a span"),
        (lambda q: hb.downsample(q.order_by(Newest.metric), Newest.at, HOUR, Newest.value), hb.QueryError, "order of its time"),
        (lambda q: hb.downsample(q, Hours.at, HOUR, Newest.value), hb.UnknownField, "another model"),
        (lambda q: list(hb.downsample(q.allow_full_scan(), Newest.at, HOUR, Newest.value)), hb.OrderNotAvailable, "No path"),
    ],
)
def test_what_is_refused(ask: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with fresh(Newest) as store, pytest.raises(error, match=message):
        ask(hb.Session(store).query(Newest))


def test_dates_are_down_sampled_by_whole_days() -> None:
    with fresh(Tick) as store, pytest.raises(hb.QueryError, match="A span of dates must be a whole number of"):
        hb.downsample(hb.Session(store).query(Tick), Tick.day, HOUR, Tick.value)
