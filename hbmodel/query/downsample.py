"""Down-sampling during a read: aggregates the values of an ordered query per span of time, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

from attrs import frozen

from hbmodel.errors import QueryError
from hbmodel.mapping.expressions import FieldExpression
from hbmodel.query.query import Query

AnyTime = Any
V = TypeVar("V")

ORIGINS: Final[dict[type, Any]] = {datetime: datetime(1970, 1, 1, tzinfo=UTC), date: date(1970, 1, 1), int: 0}
"""The time from which spans are counted, by the type of times."""

SUMMABLE: Final = (int, float, Decimal, timedelta)


@frozen
class TimeSpan(Generic[V]):
    """The aggregated values of one span of time; there is at least one value.

    Attributes:
        start: its beginning; it ends before the beginning of the next.
        count: the number of values.
        total: their sum.
        least: the smallest value.
        greatest: the largest value.
        first: the earliest value.
        last: the latest value.
    """

    start: AnyTime
    count: int
    total: V
    least: V
    greatest: V
    first: V
    last: V

    @property
    def mean(self) -> Any:
        """The arithmetic mean."""
        total: Any = self.total
        return total / self.count


def downsample(query: Query[Any], at: FieldExpression[Any], every: Any, value: FieldExpression[V | None]) -> Iterator[TimeSpan[V]]:
    """Aggregates the values of a query per span of time, one span in memory at a time.

    Spans without a value are omitted, and None values are ignored. Only the two fields are read. The spans have the order of the
    time, newest first if the query has that order: `query.order_by(Reading.at.desc())`.

    Args:
        query: a query on one series: it fixes the key fields before the time. A limit counts its values, not the spans.
        at: the time field: datetimes, dates or integers.
        every: length of a span, counted from 1970 (UTC), or from 0: a timedelta, or an integer.
        value: a field of numbers or timedeltas.

    Raises:
        QueryError: the types of the fields and the length do not match, or the query has another order.
        OrderNotAvailable: no path gives the order of the time.
    """
    for given in (at, value):
        if not isinstance(given, FieldExpression):
            raise QueryError("Give fields as attributes of the model class: Model.field.", found=type(given).__name__)
    kind: Any = at.of.codec.python_type
    origin, wanted, length = ORIGINS.get(kind), int if kind is int else timedelta, every
    if origin is None:
        raise QueryError("downsample() needs a time field of datetimes, dates or integers.", field=at.of.name)
    if value.of.codec.python_type not in SUMMABLE:
        raise QueryError("downsample() needs a value field of numbers or timedeltas.", field=value.of.name)
    if isinstance(every, bool) or not isinstance(every, wanted) or length <= wanted():
        raise QueryError(
            "The length of a span must be a positive timedelta, or a positive integer if the times are integers.", found=repr(every)
        )
    if kind is date and length % timedelta(days=1):
        raise QueryError("A span of dates must be a whole number of days.", found=repr(every))
    if any(part.field is not at.of for part in query._ordering):
        raise QueryError("downsample() reads in the order of its time field: leave out order_by(), or give that field.", field=at.of.name)
    ordered = query if query._ordering else query.order_by(at)
    return _spans(iter(ordered.select(at, value)), origin, every)


def _spans(items: Iterator[tuple[Any, Any]], origin: Any, every: Any) -> Iterator[TimeSpan[Any]]:
    """The spans for pairs of time and value in ascending or descending order of time."""
    start: Any = None
    count = 0
    total = least = greatest = first = last = earliest = latest = None
    for when, found in items:
        if found is None:
            continue
        begin = when - (when - origin) % every
        if count and begin == start:
            count += 1
            total += found
            least, greatest = min(least, found), max(greatest, found)
            if when >= latest:
                last, latest = found, when
            if when < earliest:
                first, earliest = found, when
            continue
        if count:
            yield TimeSpan(start, count, total, least, greatest, first, last)
        start, count = begin, 1
        total = least = greatest = first = last = found
        earliest = latest = when
    if count:
        yield TimeSpan(start, count, total, least, greatest, first, last)
