"""Computes the ranges of keys in each salt bucket that can match a query, or the rows to get if the query fixes the
whole key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from attrs import evolve

from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.mapping.schema import TableSchema
from hbmodel.query.match.column_ranges import ColumnRanges
from hbmodel.query.match.key_conditions import KeyConditions
from hbmodel.query.match.merged_order import MergedOrder
from hbmodel.query.match.plan import Bucket, Path
from hbmodel.store.ranges import KeyRange, merge_ranges
from hbmodel.store.values import MAX_ROW_LENGTH


def buckets_and_rows(
    schema: TableSchema,
    path: Path,
    matched: KeyConditions,
    columns: ColumnRanges | None,
    backwards: bool,
    order: MergedOrder | None = None,
) -> tuple[Sequence[Bucket], Sequence[bytes] | None]:
    """Returns the buckets with the ranges that can contain a match, and the rows to get (None if rows are scanned).

    Args:
        columns: the columns to read in each row; None if column ranges would exclude nothing more than the key ranges.
        backwards: whether the path is read from its last key to its first.
        order: the order in which ranges are merged if leading fields have several values, or None.
    """
    if columns is not None and not columns.ranges:
        gathered: Mapping[tuple[int, bytes], list[KeyRange]] = {}
    else:
        gathered = _ranges(
            path, matched if columns is None else _of_rows(schema, matched), 0 if order is None else order.cut
        )
    rows = None
    if path.index is None and matched.complete(path.layout):
        # There is no row whose key HBase cannot store, and reading such a key would be an error.
        keys = [r.start for ranges in gathered.values() for r in ranges if _can_be(schema, r.start)]
        rows = sorted(
            keys, key=path.position if order is None else lambda row: order.key(path.position(row)), reverse=backwards
        )
    runs = sorted(gathered.items(), key=itemgetter(0))
    return [Bucket(path.salt.prefix(bucket), merge_ranges(ranges), lead) for (bucket, lead), ranges in runs], rows


def _can_be(schema: TableSchema, key: bytes) -> bool:
    """Whether HBase can store this key. For objects that share rows, this must be true of the row key and of the key
    fields in the qualifier.
    """
    parts = (key,) if schema.wide is None else schema.wide.form.cut(key)
    return all(0 < len(part) <= MAX_ROW_LENGTH for part in parts)


def only_range(
    schema: TableSchema, path: Path, matched: KeyConditions, places: Sequence[int]
) -> Callable[[Sequence[bytes]], KeyRange] | None:
    """Makes a function that accepts the bytes of the key fields at `places`, and returns the only range of keys, with
    the salt, that can contain a match.

    Returns:
        The function. None if there may be several ranges for such values, or if rows are read by get instead of a scan.
    """
    layout, salt, bounds = path.layout, path.salt, matched.bounds
    if (
        schema.wide is not None
        or matched.pieces is not None
        or matched.complete(layout)
        or not located(path, matched.fixed(layout))
    ):
        return None
    if any(len(values) != 1 for at, values in enumerate(matched.parts) if at not in places):
        return None
    parts = [values[0] if values else b"" for values in matched.parts]

    def range_of(packed: Sequence[bytes]) -> KeyRange:
        for place, value in zip(places, packed, strict=True):
            parts[place] = value
        keys = layout.range_of(parts, bounds)
        return keys if salt.width == 0 or keys.empty else salt.range_in(salt.bucket_of(parts), keys)

    return range_of


def located(path: Path, fixed: Sequence[str]) -> bool:
    """Whether the values of these fields determine the salt bucket."""
    return not path.salt.random and set(path.salt.by) <= set(fixed)


def scans_of(path: Path, matched: KeyConditions) -> int:
    """Returns the number of ranges in all buckets that result from the pieces of the match; 0 if there are no
    pieces.
    """
    names = path.layout.names
    depths = Counter(len(piece.parts) for piece in matched.pieces or ())
    return sum(count * (1 if located(path, names[:depth]) else path.salt.buckets) for depth, count in depths.items())


def _of_rows(schema: TableSchema, matched: KeyConditions) -> KeyConditions:
    """Returns the match, restricted to the fields of the row key. The column ranges enforce the other conditions."""
    rows = schema.layout.rows if isinstance(schema.layout, ObjectKeyLayout) else 0
    return matched if len(matched.parts) < rows else evolve(matched, parts=matched.parts[:rows], bounds=None)


def _ranges(path: Path, matched: KeyConditions, cut: int) -> Mapping[tuple[int, bytes], list[KeyRange]]:
    """Returns the ranges of keys, with the salt, that can contain a match, by bucket and bytes of the first `cut`
    fields.
    """
    names, salt = path.layout.names, path.salt
    gathered: dict[tuple[int, bytes], list[KeyRange]] = {}
    for piece in matched.all_pieces(path.layout):
        if piece.range.empty:
            continue
        fixed = names[: len(piece.parts)]
        lead = b"".join(piece.parts[:cut])
        one = located(path, fixed)
        for bucket in (
            (salt.bucket_of_fields(dict(zip(fixed, piece.parts, strict=True))),) if one else range(salt.buckets)
        ):
            gathered.setdefault((bucket, lead), []).append(salt.range_in(bucket, piece.range))
    return gathered
