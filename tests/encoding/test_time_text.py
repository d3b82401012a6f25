"""Dates and times as text of a fixed width."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.codecs import as_text
from hbmodel.store import Scan
from tests.support.beds import fresh

NOON = datetime(2026, 3, 1, 12, 5, 9, tzinfo=UTC)
GOLDEN: list[tuple[hb.Codec[Any], Any, bytes]] = [
    (as_text.Date(), date(2026, 3, 1), b"2026-03-01"),
    (as_text.Date(), date.min, b"0001-01-01"),
    (as_text.Date("%Y%m%d"), date(2026, 12, 31), b"20261231"),
    (as_text.Date("%d.%m.%Y"), date(2026, 3, 1), b"01.03.2026"),
    (as_text.Date("day (%Y/%m/%d)"), date(2026, 3, 1), b"day (2026/03/01)"),
    (as_text.Datetime(), NOON, b"2026-03-01T12:05:09Z"),
    (as_text.Datetime("%Y-%m-%dT%H:%M:%S+00:00"), NOON, b"2026-03-01T12:05:09+00:00"),
    (as_text.Datetime("%Y%m%d%H"), NOON.replace(minute=0, second=0), b"2026030112"),
    (as_text.Datetime("%Y%m%d"), NOON.replace(hour=0, minute=0, second=0), b"20260301"),
    (as_text.Datetime("%Y-%m-%d %H:%M:%S.%f"), NOON.replace(microsecond=7), b"2026-03-01 12:05:09.000007"),
    (as_text.Datetime("%Y-%m-%dT%H:%M:%S.%3fZ"), NOON.replace(microsecond=7000), b"2026-03-01T12:05:09.007Z"),
]


@pytest.mark.parametrize(("codec", "value", "data"), GOLDEN, ids=repr)
def test_golden_bytes(codec: hb.Codec[Any], value: Any, data: bytes) -> None:
    assert codec.encode(value) == data
    assert codec.decode(data) == value
    assert type(codec.decode(data)) is type(value)
    assert codec.width == len(data)


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(["%Y-%m-%dT%H:%M:%S.%f", "%f %S:%M:%H %d.%m.%Y"]))
def test_the_format_means_what_it_means_for_strftime(at: datetime, form: str) -> None:
    text = as_text.Datetime(form).encode(at).decode()
    assert datetime.strptime(text, form).replace(tzinfo=UTC) == at


def test_times_of_other_zones_are_stored_in_utc() -> None:
    zoned = NOON.astimezone(timezone(timedelta(hours=5)))
    assert as_text.Datetime().encode(zoned) == b"2026-03-01T12:05:09Z"


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (as_text.Date(), NOON),
        (as_text.Date(), "2026-03-01"),
        (as_text.Datetime(), NOON.replace(tzinfo=None)),
        (as_text.Datetime(), date(2026, 3, 1)),
        (as_text.Datetime(), NOON.replace(microsecond=1)),
        (as_text.Datetime("%Y%m%d"), NOON),
        (as_text.Datetime("%Y%m%d %H%M%S.%3f"), NOON.replace(microsecond=1)),
    ],
    ids=repr,
)
def test_values_that_would_not_read_back_are_refused(codec: hb.Codec[Any], value: Any) -> None:
    with pytest.raises(hb.EncodingError):
        codec.encode(value)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (as_text.Date(), b"2026-02-30"),
        (as_text.Date(), b"0000-01-01"),
        (as_text.Date(), b"2026-3-1"),
        (as_text.Date(), b"2026/03/01"),
        (as_text.Date(), "2026-03-\u0660\u0661".encode()),
        (as_text.Datetime(), b"2026-03-01T24:00:00Z"),
        (as_text.Datetime(), b"2026-03-01T12:00:60Z"),
        (as_text.Datetime(), b"2026-03-01T12:00:00z"),
        (as_text.Datetime(), b"2026-03-01T12:00:00Z\n"),
        (as_text.Datetime("%Y%m%d%H.%M"), b"2026030112x00"),
    ],
    ids=repr,
)
def test_other_bytes_are_refused(codec: hb.Codec[Any], data: bytes) -> None:
    with pytest.raises(hb.DecodingError):
        codec.decode(data)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (partial(as_text.Date, "%Y-%m"), "the month and the day"),
        (partial(as_text.Date, "%Y-%m-%d %Y"), "no directive twice"),
        (partial(as_text.Datetime, "%Y%m%d%H%M%S%f%3f"), "no directive twice"),
        (partial(as_text.Date, "%y%m%d"), "no fixed number of digits"),
        (partial(as_text.Date, "%Y%m%d%"), "no fixed number of digits"),
        (partial(as_text.Date, "%Y%m%d%%"), "no fixed number of digits"),
        (partial(as_text.Date, "%Y%m%dé"), "must be ASCII text"),
        (partial(as_text.Date, None), "must be ASCII text"),  # type: ignore[arg-type]
        (partial(as_text.Date, "%Y%m%d%H"), r"A date has no hours: declare hb\.codecs\.as_text\.Datetime"),
        (partial(as_text.Datetime, "%Y%m%d%M"), "must not leave out a unit"),
        (partial(as_text.Datetime, "%Y%m%d%H%M%f"), "must not leave out a unit"),
        (partial(as_text.Datetime, round=1), "round must be True or False"),  # type: ignore[arg-type]
    ],
)
def test_formats_that_cannot_be_read_back_are_refused(declare: Any, message: str) -> None:
    with pytest.raises(hb.DeclarationError, match=message):
        declare()


@pytest.mark.parametrize(
    ("codec", "order"),
    [
        (as_text.Date(), "ascending"),
        (as_text.Date("%m/%d/%Y"), None),
        (as_text.Datetime("%Y%m%d%H%M%S%3f"), "ascending"),
        (as_text.Datetime("%Y%m%d%M%H"), None),
    ],
    ids=repr,
)
def test_order_is_that_of_the_units(codec: hb.Codec[Any], order: str | None) -> None:
    assert codec.order == codec.raw_order == order


@hb.model(table="readings", family="d", external=True)
class Reading:
    day: hb.Key[date] = hb.key(hb.codecs.Separated(as_text.Date("%Y%m%d"), "_"))
    sensor: hb.Key[str] = hb.key()
    at: hb.Column[datetime] = hb.column("at", as_text.Datetime("%Y-%m-%dT%H:%M:%SZ", round=True))


def test_ranges_of_keys_and_conditions_on_columns() -> None:
    session = hb.Session(fresh(Reading))
    days = [date(2025, 12, 31), date(2026, 1, 1), date(2026, 2, 1)]
    for day in days:
        at = datetime(day.year, day.month, day.day, 8, 30, 15, 999_999, tzinfo=UTC)
        session.add(Reading(day=day, sensor="s1", at=at))
    session.commit()
    (batches,) = session.store.scan("readings", [Scan()])
    assert [row.row for batch in batches for row in batch] == [b"20251231_s1", b"20260101_s1", b"20260201_s1"]
    query = session.query(Reading)
    assert [reading.day for reading in query.where(Reading.day >= date(2026, 1, 1))] == days[1:]
    assert [reading.day for reading in query.where(Reading.day < date(2026, 1, 1))] == days[:1]
    assert [reading.day for reading in query.where(Reading.day.between(days[0], days[1])).reversed()] == days[1::-1]
    every = query.allow_full_scan()
    first = datetime(2025, 12, 31, 8, 30, 15, tzinfo=UTC)
    assert [reading.at for reading in every.where(Reading.at == first.replace(microsecond=5))] == [first]
    assert [reading.day for reading in every.where(Reading.at > first)] == days[1:]
    assert [reading.day for reading in every.where(Reading.at < first.replace(microsecond=1))] == days[:1]
