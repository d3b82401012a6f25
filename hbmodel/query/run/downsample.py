"""Down-sampling during a read, which aggregates the values of an ordered query per span of time in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isnan
from typing import Any, Final, Generic, TypeVar, overload

from attrs import frozen

from hbmodel.errors import OrderNotAvailable, QueryError
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.query.ask.query import Query

AnyTime = Any
V = TypeVar("V")

ORIGINS: Final[dict[type, Any]] = {datetime: datetime(1970, 1, 1, tzinfo=UTC), date: date(1970, 1, 1), int: 0}
"""The time from which spans are counted, for each type of times."""

SUMMABLE: Final = (int, float, Decimal, timedelta)


@frozen
class TimeSpan(Generic[V]):
    """The aggregated values of one span of time; there is at least one value.

    Attributes:
        start: the beginning of the span. The span ends where the next one begins.
        count: the number of values.
        total: the sum of the values.
        least: the smallest value.
        greatest: the largest value.
        first: the earliest value; of several values at one time, the first in the order of the key.
        last: the latest value; of several values at one time, the last in the order of the key.
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


@overload
def downsample(
    query: Query[Any], at: FieldExpression[Any], every: Any, value: FieldExpression[V | None]
) -> Iterator[TimeSpan[V]]: ...
@overload
def downsample(
    query: Query[Any], at: FieldExpression[Any], every: Any, value: FieldExpression[V]
) -> Iterator[TimeSpan[V]]: ...
def downsample(
    query: Query[Any], at: FieldExpression[Any], every: Any, value: FieldExpression[Any]
) -> Iterator[TimeSpan[Any]]:
    """Aggregates the values of a query per span of time, one span in memory at a time.

    Spans without a value are omitted, and values that are None or NaN are ignored. Only the fields `at` and `value` are
    read. The spans are sorted by time. `order_by` sets the direction: `query.order_by(Reading.at.desc())` returns the
    newest span first. Without `order_by` the oldest span is first. However, if a query without `order_by` has a limit,
    an offset, a bound or `reversed()`, its order is kept, because a different order would select different items.

    Args:
        query: a query on one series: it fixes the key fields before the time. If it has several series, each span
            aggregates all of them. A limit counts the items of the query, not the spans.
        at: the time field: datetimes, dates or integers.
        every: the length of a span: a timedelta, or an integer if the times are integers. Spans are counted from 1970
            (UTC), or from 0.
        value: a field of numbers or timedeltas.

    Raises:
        QueryError: the types of the fields and the length do not match; the query is ordered by another field; or it
            has no `order_by`, but has a limit, an offset or a bound, and is not sorted by time.
        OrderNotAvailable: no path can be read in order of time.
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
            "The length of a span must be a positive timedelta, or a positive integer if the times are integers.",
            found=repr(every),
        )
    if kind is date and length % timedelta(days=1):
        raise QueryError("A span of dates must be a whole number of days.", found=repr(every))
    if any(part.field is not at.of for part in query.terms.ordering):
        raise QueryError(
            "downsample() reads in the order of its time field: leave out order_by(), or give that field.",
            field=at.of.name,
        )
    ordered = _in_order(query, at).select(at, value)
    return _spans(iter(ordered), origin, every, ordered.explain().backwards)


def _in_order(query: Query[Any], at: FieldExpression[Any]) -> Query[Any]:
    """Returns the query sorted by time, with the same items."""
    terms = query.terms
    chosen = terms.limit is not None or terms.offset or terms.row_bounds
    if terms.ordering or not (chosen or terms.backwards):
        return query if terms.ordering else query.order_by(at)
    own = query.explain()
    for ordering in (at, at.desc()):
        ordered = query.order_by(ordering)
        try:
            explained = ordered.explain()
        except OrderNotAvailable:
            continue
        if (explained.path, explained.backwards, explained.merged) == (own.path, own.backwards, own.merged):
            return ordered
    if chosen:
        raise QueryError(
            "The order of a query decides which items limit(), offset(), before() and after() keep, and this query is "
            "not in the order of time: give order_by() with the time field, or fix the key fields before it.",
            field=at.of.name,
        )
    return query.order_by(at)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and isnan(value)


def _spans(items: Iterator[tuple[Any, Any]], origin: Any, every: Any, backwards: bool) -> Iterator[TimeSpan[Any]]:
    """Yields the spans for pairs of time and value in ascending or descending order of time.

    Of several values with the same time, the first in the order of the key counts as the earliest, even if the scan
    reads `backwards`.
    """
    start: Any = None
    count = 0
    total = least = greatest = first = last = earliest = latest = None
    for when, value in items:
        if when is None or value is None or _is_nan(value):
            continue
        try:
            begin = when - (when - origin) % every
        except OverflowError:
            raise QueryError(
                "The first span would begin before the year 1: give a shorter span, or a condition for later times.",
                found=repr(every),
            ) from None
        if count and begin == start:
            count += 1
            total += value
            least, greatest = min(least, value), max(greatest, value)
            if when > latest or (when == latest and not backwards):
                last, latest = value, when
            if when < earliest or (when == earliest and backwards):
                first, earliest = value, when
            continue
        if count:
            yield TimeSpan(start, count, total, least, greatest, first, last)
        start, count = begin, 1
        total = least = greatest = first = last = value
        earliest = latest = when
    if count:
        yield TimeSpan(start, count, total, least, greatest, first, last)
