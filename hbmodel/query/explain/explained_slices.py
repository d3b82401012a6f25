"""The part of `explain()` for wide models, which describes the slices of rows that a plan reads by field values, and
counts calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence, Set
from datetime import date, datetime
from typing import Any

from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.mapping.predicates import Comparison, In, Not, Predicate, StartsWith, conjuncts
from hbmodel.mapping.wide import WideLayout
from hbmodel.query.ask.explain_text import Slices
from hbmodel.query.match.plan import Plan
from hbmodel.query.run.executor import FIRST_GET
from hbmodel.store.wide.intervals import EVERY_COLUMN, within
from hbmodel.store.wide.slices import SliceScan

RANGES_OF_COLUMNS = "ranges of columns, pages of cells"
"""The description of the server's filter for wide rows. HBase's value filters test whole rows and not the objects in
them, so they are not used.
"""

_BACKWARDS_BY_KEYS = 3
"""The number of scans until the first item if the keys of rows are read first: one for the rows, one for the key of the
last object, and one for the object itself.
"""


def slices_of(plan: Plan) -> Slices | None:
    """Returns the slices of a plan. Returns None if the plan reads an index, gets rows by key or reads nothing, or if
    its model is not wide.
    """
    schema = plan.terms.schema
    layout, wide = schema.layout, schema.wide
    if (
        wide is None
        or not isinstance(layout, ObjectKeyLayout)
        or plan.path.index is not None
        or plan.rows is not None
        or not plan.buckets
    ):
        return None
    buckets = [list(_slices(plan, wide, bucket.ranges)) for bucket in plan.buckets]
    slice_scans = [each for slices in buckets for each in slices]
    by_keys = any(slices and slices[-1 if plan.backwards else 0].keys_of_rows for slices in buckets)
    bounded = {*plan.match.names(layout)}
    rows, columns = set(layout.names[: layout.rows]), set(layout.names[layout.rows - (layout.split is not None) :])
    here = columns & {*bounded, *(() if plan.columns is None else plan.columns.fields)}
    return Slices(
        rows="the only row of the model" if not layout.rows else _text(plan, rows & bounded) or "all",
        columns=_text(plan, here) or "all of the model",
        number=len(slice_scans),
        ranges=max((len(each.ranges) for each in slice_scans), default=0),
        scans=len(buckets) * (_BACKWARDS_BY_KEYS if by_keys else 1),
        turns=1 + (_BACKWARDS_BY_KEYS - 1) * len(buckets) if by_keys else 1,
        end_searched=plan.backwards,
    )


def calls_of_gets(plan: Plan, one_call_gets: bool) -> int:
    """Returns the number of calls that read the first objects of a wide model by their keys.

    Args:
        plan: the plan. If it reads an index, it does not contain the objects that the entries lead to, so one object is
            counted.
        one_call_gets: whether one call can read different columns of each row. If not, one call reads the same columns
            of several rows, and an object whose columns are not named is read by a scan.
    """
    schema, wide = plan.terms.schema, plan.terms.schema.wide
    whole = not all(b":" in column for column in plan.reader.columns_of_gets)
    versions = int(whole and schema.row_version_column is not None)
    if one_call_gets or wide is None:
        return 1 + versions
    first = (plan.rows or [])[:FIRST_GET]
    if whole:
        return 2 * max(1, len(first)) + versions
    rows: dict[bytes, list[bytes]] = {}
    for row, prefix in map(wide.form.cut, first):
        rows.setdefault(row, []).append(prefix)
    return max(1, len(set(map(tuple, rows.values())))) + versions


def _slices(plan: Plan, wide: WideLayout, ranges: Sequence[Any]) -> Iterator[SliceScan]:
    columns = EVERY_COLUMN if plan.columns is None else plan.columns.ranges
    for each in itertools.chain.from_iterable(map(wide.slices, ranges)):
        if overlap := within(columns, each.first, each.stop):
            yield SliceScan(each.rows, overlap, plan.backwards)


def _text(plan: Plan, names: Set[str]) -> str:
    said = [
        p
        for p in conjuncts(plan.terms.predicate)
        if p.names() <= names and not (isinstance(p, Comparison) and p.operator == "!=")
    ]
    return ", ".join(text for text in map(_said, said) if text)


def _said(predicate: Predicate) -> str:
    """Returns a condition that bounds a key, as text with its values."""
    match predicate:
        case Comparison(field, operator, value):
            return f"{field.name} {'==' if operator == '=' else operator} {_value(value)}"
        case In(field, (None,)):
            return f"{field.name} is None"
        case In(field, values):
            shown = [_value(value) for value in values[:_MOST]]
            return f"{field.name} in {', '.join(shown)}" + (
                f", ... ({len(values)} values)" if len(values) > _MOST else ""
            )
        case StartsWith(field, prefix):
            return f"{field.name} starts with {_value(prefix)}"
        case Not((In(field, (None,)),)):
            return f"{field.name} is not None"
    return ""


_MOST = 4
"""How many values of a list are shown."""

_LONGEST = 60
"""How many characters of a value are shown."""


def _value(value: object) -> str:
    text = value.isoformat() if isinstance(value, datetime | date) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
