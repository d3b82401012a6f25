"""The key ranges of each salt bucket that can contain results of a query, and the rows to get if the whole key is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter

from attrs import evolve

from hbmodel.encoding.place_layout import PlaceLayout
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
        gathered = _ranges(path, found if columns is None else _of_rows(schema, found), 0 if order is None else order.cut)
    rows = None
    if path.index is None and found.complete(path.layout):
        # A key that HBase cannot hold is not there; asking for it would be an error.
        keys = [r.start for ranges in gathered.values() for r in ranges if 0 < len(r.start) <= MAX_ROW_LENGTH]
        rows = sorted(keys, key=path.position if order is None else lambda row: order.key(path.position(row)), reverse=backwards)
    runs = sorted(gathered.items(), key=itemgetter(0))
    return [Bucket(path.salt.prefix(bucket), merge_ranges(ranges), lead) for (bucket, lead), ranges in runs], rows


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
    rows = schema.layout.rows if isinstance(schema.layout, PlaceLayout) else 0
    return found if len(found.parts) < rows else evolve(found, parts=found.parts[:rows], bounds=None)


def _ranges(path: Path, found: KeyConditions, cut: int) -> Mapping[tuple[int, bytes], list[KeyRange]]:
    """The key ranges of each bucket that can hold a match, salt included, apart by the bytes of as many leading fields as `cut` says."""
    names, salt = path.layout.names, path.salt
    gathered: dict[tuple[int, bytes], list[KeyRange]] = {}
    for piece in found.all_pieces(path.layout):
        if piece.range.empty:
            continue
        fixed = names[: len(piece.parts)]
        lead = b"".join(piece.parts[:cut])
        one = located(path, fixed)
        for bucket in (salt.bucket_of_fields(dict(zip(fixed, piece.parts, strict=True))),) if one else range(salt.buckets):
            gathered.setdefault((bucket, lead), []).append(salt.range_in(bucket, piece.range))
    return gathered
