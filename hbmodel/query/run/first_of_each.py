"""Reads the first item for each of many prefixes of a key, with one short scan for each prefix; many of these scans are
started together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from attrs import evolve, frozen

from hbmodel.mapping.predicates import In
from hbmodel.mapping.rows.unreadable import RowError, Unreadable
from hbmodel.protocol.driver import drive
from hbmodel.query.match.column_ranges import ColumnRanges, column_ranges
from hbmodel.query.match.key_conditions import KeyPiece
from hbmodel.query.match.key_ranges import buckets_and_rows, only_range
from hbmodel.query.match.plan import Bucket, Plan
from hbmodel.query.run.executor import Found, PlanExecutor, Started
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Row
from hbmodel.store.wide.slices import close_scan

TOGETHER = 1_000
"""The default maximum number of scans that are begun before the first answer is awaited."""

PLANNED = 1_000
"""The default maximum number of key ranges for which one plan is made."""

Key = tuple[Any, ...]
"""One value for each of the fields whose values are read separately."""


@frozen(eq=False)
class Portion:
    """The part of a plan that reads the items of one key.

    Attributes:
        buckets: as in the plan.
        rows: as in the plan.
        columns: as in the plan.
    """

    buckets: Sequence[Bucket]
    rows: Sequence[bytes] | None
    columns: ColumnRanges | None


_NONE = Portion((), None, None)


def in_plans(keys: Sequence[Key], size: int = PLANNED) -> Iterator[Sequence[Key]]:
    """Splits keys into lists; one plan is made for each list.

    Args:
        keys: the keys, without duplicates.
        size: the maximum number of key ranges for the values of one list.
    """
    if keys and len(keys[0]) == 1:
        for first in range(0, len(keys), size):
            yield keys[first : first + size]
        return
    some: list[Key] = []
    values: list[set[Any]] = []
    for key in keys:
        values = values or [set() for _ in key]
        ranges = 1
        for known, value in zip(values, key, strict=True):
            ranges *= len(known) + (value not in known)
        if some and ranges > size:
            yield some
            some, values = [], [set() for _ in key]
        some.append(key)
        for known, value in zip(values, key, strict=True):
            known.add(value)
    if some:
        yield some


def conditions_of(fields: Sequence[Any], keys: Sequence[Key]) -> list[In]:
    """Returns the conditions of one query that finds the items of all these keys."""
    return [In(field, tuple(dict.fromkeys(key[at] for key in keys))) for at, field in enumerate(fields)]


def _packed(plan: Plan, places: Sequence[int], keys: Sequence[Key]) -> list[tuple[bytes, ...] | None]:
    """Returns the packed values of each key, in the order of `places`, or None for a key with a value that the
    conditions of the query exclude.
    """
    slots = [
        (at, partial(plan.path.layout.pack_field, place), frozenset(plan.match.parts[place]))
        for at, place in enumerate(places)
    ]
    columns = [[value if (value := pack(key[at])) in allowed else None for key in keys] for at, pack, allowed in slots]
    return [None if None in chosen else chosen for chosen in zip(*columns, strict=True)]


def _portions(plan: Plan, places: Sequence[int], keys: Sequence[Sequence[bytes] | None]) -> list[Portion]:
    """Returns the portion of the plan for each key, given the packed values of the keys."""
    match, schema = plan.match, plan.reader.schema
    pieces: dict[tuple[bytes, ...], list[KeyPiece]] | None = None
    if match.pieces is not None:
        pieces = {}
        for piece in match.pieces:
            pieces.setdefault(tuple(piece.parts[place] for place in places), []).append(piece)
    portions = []
    for key in keys:
        if key is None:
            portions.append(_NONE)
            continue
        parts = list(match.parts)
        for place, packed in zip(places, key, strict=True):
            parts[place] = [packed]
        narrowed = evolve(match, parts=parts, pieces=None if pieces is None else pieces.get(tuple(key), ()))
        columns = None if schema.wide is None or plan.path.index is not None else column_ranges(schema, narrowed)
        portions.append(
            Portion(*buckets_and_rows(schema, plan.path, narrowed, columns, plan.backwards, plan.order), columns)
        )
    return portions


def first_of_each(
    executor: PlanExecutor,
    names: Sequence[str],
    keys: Sequence[Key],
    together: int = TOGETHER,
    errors: list[RowError] | None = None,
) -> list[Found | None]:
    """Returns the first item for each key, or None for a key without items.

    Args:
        executor: the executor of the plan for all keys; its `wanted` is 1.
        names: the fields whose values are read separately; the plan fixes them to the values of all keys.
        keys: the values of these fields.
        together: the maximum number of scans that are begun before the first answer is awaited.
        errors: if the query continues after rows that cannot be read, collects the errors of these rows.
    """
    plan = executor.plan
    places = [plan.path.layout.names.index(name) for name in names]
    packed = _packed(plan, places, keys)
    if plan.path.index is None and executor.scans_exactly and errors is None:
        # Usually one scan of one range has the first item, and reading it directly is faster than the general case.
        range_of = only_range(plan.reader.schema, plan.path, plan.match, places)
        if range_of is not None:
            return _in_ranges(executor, [None if key is None else range_of(key) for key in packed], together)
    portions = _portions(plan, places, packed)
    if plan.rows is not None:
        return _got(executor, portions, errors)
    firsts: list[Found | None] = []
    some: list[Portion] = []
    scans = 0
    for portion in portions:
        if some and scans + len(portion.buckets) > together:
            firsts += _scanned(executor, some, errors)
            some, scans = [], 0
        some.append(portion)
        scans += len(portion.buckets)
    return firsts + _scanned(executor, some, errors)


def _in_ranges(executor: PlanExecutor, ranges: Sequence[KeyRange | None], together: int) -> list[Found | None]:
    """Returns the first item in each range of keys. Apart from items, the ranges contain only rows that are not
    objects.
    """
    plan = executor.plan
    columns, exists, values, width = plan.reader.columns, plan.reader.exists, plan.reader.values, plan.path.salt.width
    live = [at for at, key_range in enumerate(ranges) if key_range is not None and not key_range.empty]
    firsts: list[Found | None] = [None] * len(ranges)
    for begin in range(0, len(live), together):
        some = live[begin : begin + together]
        scans = executor.scans(
            [key_range for at in some if (key_range := ranges[at]) is not None],
            plan.filter,
            columns,
            executor.first_limit,
        )
        started = executor.started(scans)
        try:
            read = [next(batches, ()) for batches in started]
        finally:
            for batches in started:
                close_scan(batches)
        executor.check()
        for at, scan, rows in zip(some, scans, read, strict=True):
            if rows:
                row = rows[0]
                firsts[at] = (
                    (row.row[width:], values(row)) if exists(row) else _behind(executor, scan.range, row.row, columns)
                )
    return firsts


def _behind(executor: PlanExecutor, key_range: KeyRange, last: bytes, columns: Sequence[bytes]) -> Found | None:
    """Returns the first item of a range that comes after the row `last`."""
    plan = executor.plan
    rest = key_range.before(last) if plan.backwards else key_range.after(last)
    with closing(
        executor.merged([Bucket(last[: plan.path.salt.width], () if rest.empty else (rest,))], plan.filter, columns)
    ) as batches:
        return next(executor.items_of(batches), None)


def _first_readable(items: Iterator[Found], errors: list[RowError] | None) -> Found | None:
    if errors is None:
        return next(items, None)
    for item in items:
        values = item[1]
        if not isinstance(values, Unreadable):
            return item
        errors.append(values.error)
    return None


def _got(executor: PlanExecutor, portions: Sequence[Portion], errors: list[RowError] | None) -> list[Found | None]:
    """Returns the first item of each portion, read by one multi-get, because the whole key is fixed."""
    plan = executor.plan
    wanted = list(dict.fromkeys(row for portion in portions for row in portion.rows or ()))
    answers = executor.store.get(plan.path.table, wanted, plan.reader.columns_of_gets) if wanted else ()
    executor.check()
    rows = {row: answer for row, answer in zip(wanted, answers, strict=True) if answer is not None}
    return [
        _first_readable(executor.items_of([[rows[row] for row in portion.rows or () if row in rows]]), errors)
        for portion in portions
    ]


def _scanned(executor: PlanExecutor, portions: Sequence[Portion], errors: list[RowError] | None) -> list[Found | None]:
    plan = executor.plan
    columns = plan.reader.columns if plan.path.index is None else plan.entry_columns
    executors = [
        executor if portion.columns is plan.columns else evolve(executor, plan=evolve(plan, columns=portion.columns))
        for portion in portions
    ]
    with ExitStack() as closed:
        started = _started(executors, portions, columns, closed)
        if plan.path.index is not None:
            merged = [
                executor.merged(portion.buckets, plan.filter, columns, begun)
                for portion, begun in zip(portions, started, strict=True)
            ]
            for batches in merged:
                closed.callback(batches.close)
            return _first_entries(executor, [executor.entries(batches) for batches in merged], errors)
        return [
            _first(each, portion.buckets, columns, begun, errors)
            for each, portion, begun in zip(executors, portions, started, strict=True)
        ]


def _first(
    executor: PlanExecutor,
    buckets: Sequence[Bucket],
    columns: Sequence[bytes],
    started: Started,
    errors: list[RowError] | None,
) -> Found | None:
    """Returns the first item in some buckets of the primary table. The first scan of each bucket is already started."""
    plan = executor.plan
    if errors is None and executor.scans_exactly and len(buckets) == 1 and len(buckets[0].ranges) == 1:
        # Usually one scan of one range has the item, and reading it directly is faster than the general case.
        rows = [row for batch in started[0] for row in batch]
        close_scan(started[0])
        executor.check()
        if not rows:
            return None
        if plan.reader.exists(rows[0]):
            return rows[0].row[plan.path.salt.width :], plan.reader.values(rows[0])
        return _behind(executor, buckets[0].ranges[0], rows[-1].row, columns)
    with closing(executor.merged(buckets, plan.filter, columns, started)) as batches:
        return _first_readable(executor.items_of(batches), errors)


def _started(
    executors: Sequence[PlanExecutor], portions: Sequence[Portion], columns: Sequence[bytes], closed: ExitStack
) -> list[Started]:
    """Starts the first scans of all buckets of all portions. They are started together, except those that read ranges
    of columns.
    """
    scans = [
        each.first_scans(portion.buckets, each.plan.filter, columns)
        for each, portion in zip(executors, portions, strict=True)
    ]
    plain = [scan for portion, own in zip(portions, scans, strict=True) if portion.columns is None for scan in own]
    store, table = executors[0].store, executors[0].plan.path.table
    begun = iter(store.scan(table, plain) if plain else ())
    started: list[Started] = []
    for each, portion, own in zip(executors, portions, scans, strict=True):
        started.append([next(begun) for _ in own] if portion.columns is None else each.started(own) if own else ())
        for scan in started[-1]:
            closed.callback(close_scan, scan)
    return started


def _first_entries(
    executor: PlanExecutor, streams: Sequence[Iterator[Row]], errors: list[RowError] | None
) -> list[Found | None]:
    """Returns the first entry of each stream that leads to an item. Each multi-get checks one entry of every stream for
    which no item was found so far.
    """
    read, key_test, width = executor.entry_reader(), executor.plan.entry_test, executor.plan.path.salt.width
    firsts: list[Found | None] = [None] * len(streams)
    left = list(range(len(streams)))
    while left:
        heads = []
        for at in left:
            entry = next((entry for entry in streams[at] if key_test is None or key_test(entry.row)), None)
            if entry is not None:
                heads.append((at, entry))
        answers = drive(executor.store, read([entry for _, entry in heads])) if heads else []
        executor.check()
        left = []
        for (at, entry), values in zip(heads, answers, strict=True):
            if values is None:
                left.append(at)
            elif isinstance(values, Unreadable):
                left.append(at)
                if errors is not None:
                    errors.append(values.error)
            else:
                firsts[at] = entry.row[width:], values
    return firsts
