"""The key ranges of each salt bucket that can contain results of a query, and the rows to get if the whole key is
given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from attrs import evolve

from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.mapping.schema import TableSchema
from hbmodel.query.column_ranges import ColumnRanges
from hbmodel.query.key_conditions import KeyConditions
from hbmodel.query.merged_order import MergedOrder
from hbmodel.query.plan import Bucket, Path
from hbmodel.store.ranges import KeyRange, merge_ranges
from hbmodel.store.values import MAX_ROW_LENGTH


def buckets_and_rows(
    schema: TableSchema,
    path: Path,
    found: KeyConditions,
    columns: ColumnRanges | None,
    backwards: bool,
    order: MergedOrder | None = None,
) -> tuple[Sequence[Bucket], Sequence[bytes] | None]:
    """The ranges of each bucket that can contain a match, and the rows to get if the whole key is given.

    Args:
        schema: the schema of the model.
        path: the path to read.
        found: how the conditions match its key.
        columns: the columns of each row, if the key ranges alone would read more of it.
        backwards: the direction.
        order: the order in which ranges with several values of leading fields are merged, or None.
    """
    if columns is not None and not columns.ranges:
        gathered: Mapping[tuple[int, bytes], list[KeyRange]] = {}
    else:
        gathered = _ranges(
            path, found if columns is None else _of_rows(schema, found), 0 if order is None else order.cut
        )
    rows = None
    if path.index is None and found.complete(path.layout):
        # A key that HBase cannot store is absent; asking for it would be an error.
        keys = [r.start for ranges in gathered.values() for r in ranges if _can_be(schema, r.start)]
        rows = sorted(
            keys, key=path.position if order is None else lambda row: order.key(path.position(row)), reverse=backwards
        )
    runs = sorted(gathered.items(), key=itemgetter(0))
    return [Bucket(path.salt.prefix(bucket), merge_ranges(ranges), lead) for (bucket, lead), ranges in runs], rows


def _can_be(schema: TableSchema, key: bytes) -> bool:
    """Whether an object can have this key: of objects that share rows, that of the row, and the key fields in the
    qualifier.
    """
    parts = (key,) if schema.wide is None else schema.wide.form.cut(key)
    return all(0 < len(part) <= MAX_ROW_LENGTH for part in parts)


def only_range(
    schema: TableSchema, path: Path, found: KeyConditions, places: Sequence[int]
) -> Callable[[Sequence[bytes]], KeyRange] | None:
    """A function from the bytes of the fields at some places of a key to the range that can contain a match, salt
    included.

    Returns:
        The function; None if there may be several ranges for such fields, or if rows are read by get and not scanned.
    """
    layout, salt, bounds = path.layout, path.salt, found.bounds
    if (
        schema.wide is not None
        or found.pieces is not None
        or found.complete(layout)
        or not located(path, found.fixed(layout))
    ):
        return None
    if any(len(values) != 1 for at, values in enumerate(found.parts) if at not in places):
        return None
    parts = [values[0] if values else b"" for values in found.parts]

    def of(packed: Sequence[bytes]) -> KeyRange:
        for place, value in zip(places, packed, strict=True):
            parts[place] = value
        keys = layout.range_of(parts, bounds)
        return keys if salt.width == 0 or keys.empty else salt.range_in(salt.bucket_of(parts), keys)

    return of


def located(path: Path, fixed: Sequence[str]) -> bool:
    """Whether these fields determine the bucket."""
    return not path.salt.random and set(path.salt.by) <= set(fixed)


def scans_of(path: Path, found: KeyConditions) -> int:
    """The number of ranges of the pieces of a key over all buckets; 0 if there are no pieces."""
    names = path.layout.names
    depths = Counter(len(piece.parts) for piece in found.pieces or ())
    return sum(count * (1 if located(path, names[:depth]) else path.salt.buckets) for depth, count in depths.items())


def _of_rows(schema: TableSchema, found: KeyConditions) -> KeyConditions:
    """The conditions on the fields of the row, if column ranges express the rest."""
    rows = schema.layout.rows if isinstance(schema.layout, ObjectKeyLayout) else 0
    return found if len(found.parts) < rows else evolve(found, parts=found.parts[:rows], bounds=None)


def _ranges(path: Path, found: KeyConditions, cut: int) -> Mapping[tuple[int, bytes], list[KeyRange]]:
    """The key ranges of each bucket that can hold a match, salt included, separated by the bytes of the first `cut`
    fields.
    """
    names, salt = path.layout.names, path.salt
    gathered: dict[tuple[int, bytes], list[KeyRange]] = {}
    for piece in found.all_pieces(path.layout):
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
