"""Finds the columns to read in each row of a wide model from the conditions on column fields."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from attrs import evolve, frozen

from hbmodel.encoding.bounds import UNSET, Bounds
from hbmodel.encoding.codecs.base import below
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.encoding.object_keys import ObjectKeyForm
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.wide import WideLayout
from hbmodel.query.match.key_conditions import KeyConditions, bounds_of, match, values_left
from hbmodel.store.ranges import KeyRange, merge_ranges
from hbmodel.store.wide.intervals import Interval

MAX_COLUMN_RANGES = 100
"""The maximum number of column ranges in one row. There is a limit because HBase compares each cell with all of
them.
"""


@frozen(eq=False)
class ColumnRanges:
    """The ranges of columns to read, which are the same in each row.

    Attributes:
        ranges: ranges of qualifiers, sorted and disjoint; their bounds are never inside an object.
        fields: names of the column fields that bound the ranges.
        consumed: the predicates that the ranges enforce exactly.
    """

    ranges: Sequence[Interval]
    fields: Sequence[str]
    consumed: Sequence[Predicate]


def column_ranges(schema: TableSchema, key_conditions: KeyConditions) -> ColumnRanges | None:
    """Returns the ranges of columns that can match the conditions in each row, or None if column ranges would exclude
    nothing more than the key ranges.

    Column ranges are needed if a field of the row key is not fixed, so that key ranges cannot bound the fields after
    it, or if the conditions leave several ranges of one row. The conditions must be matched with the primary key.
    """
    layout, wide = schema.layout, schema.wide
    if (
        wide is None
        or not isinstance(layout, ObjectKeyLayout)
        or layout.columns is None
        or key_conditions.complete(layout)
    ):
        return None
    if len(key_conditions.parts) < layout.rows:
        matched = _matched(layout, layout.columns, schema, key_conditions)
    else:
        ahead = key_conditions.parts[layout.rows :]
        if (
            key_conditions.pieces is not None
            or layout.split is not None
            or not 1 < math.prod(map(len, ahead)) <= MAX_COLUMN_RANGES
        ):
            return None
        matched = evolve(key_conditions, parts=ahead)
    if not matched.parts and matched.bounds is None:
        return None
    columns, parts = layout.columns, itertools.product(*matched.parts)
    ranges = _intervals(wide, [columns.range_of(values, matched.bounds) for values in parts])
    fixed = len(matched.parts)
    return ColumnRanges(ranges, columns.names[: fixed + (matched.bounds is not None)], matched.consumed)


def _matched(
    layout: ObjectKeyLayout, columns: KeyLayout, schema: TableSchema, key_conditions: KeyConditions
) -> KeyConditions:
    """Matches the conditions with the column fields only."""
    if layout.halves is None:
        return match(columns, key_conditions.conditions, schema.by_name, MAX_COLUMN_RANGES)
    # Conditions on a time bound its offset within the bucket, and therefore the range of columns. The bucket is not
    # fixed, so the conditions are still tested on each object.
    name = layout.halves.of.name
    own = [c.on_entry for c in key_conditions.conditions if c.on_entry.names() == {name}]
    values = values_left(own, name)
    if values is not None:
        packed = sorted({columns.pack_field(0, value) for value in values})
        if len(packed) <= MAX_COLUMN_RANGES:
            return match(columns, key_conditions.conditions, schema.by_name, MAX_COLUMN_RANGES, [packed])
    bounds, _ = bounds_of(own, schema.by_name[name])
    return KeyConditions([], _offsets(layout, bounds), key_conditions.conditions, [])


def _offsets(layout: ObjectKeyLayout, bounds: Bounds | None) -> Bounds | None:
    """Turns bounds on a split time into bounds on its offset. None if the bounds are not two times in the same
    bucket.
    """
    assert layout.halves is not None
    if bounds is None or bounds.low is UNSET or bounds.high is UNSET:
        return None
    codec, bucket = layout.halves.of.codec, layout.halves.bucket.codec
    low, high = below(codec, bounds.low)[0], below(codec, bounds.high)[0]
    if low is None or high is None or low > high or bucket.encode(low) != bucket.encode(high):
        return None
    return Bounds(low=low, high=high)


def _intervals(wide: WideLayout, ranges: Sequence[KeyRange]) -> list[Interval]:
    """Returns the qualifiers of the objects whose column fields lie in some ranges."""
    form = ObjectKeyForm(row=b"any", kind=wide.kind)
    return [
        (each.first, each.stop)
        for key_range in merge_ranges(ranges)
        for each in form.slices(key_range, wide.prefix_end)
    ]
