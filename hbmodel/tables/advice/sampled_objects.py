"""Reads a sample of a model's objects, without rows that are not objects or cannot be read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from attrs import frozen

from hbmodel.encoding.codecs.dictionary import numbers_as_names
from hbmodel.mapping.rows.unreadable import TolerantDecoder, readable
from hbmodel.mapping.schema import TableSchema
from hbmodel.store.port import Store
from hbmodel.store.values import Row, Scan
from hbmodel.store.wide.folded import folded

SAMPLE = 10_000
"""The maximum number of objects that are sampled."""

REGIONS = 16
"""The maximum number of regions from which objects are sampled. The first objects of each region are read."""


@frozen
class SampledObjects:
    """Objects of a model, as rows.

    Attributes:
        rows: the rows of the objects; in a wide model, their row keys are object keys.
        unreadable: how many objects were left out because reading them raises an error.
    """

    rows: Sequence[Row]
    unreadable: int


def sampled_objects(schema: TableSchema, store: Store, count: int = SAMPLE) -> SampledObjects:
    """Returns the first objects of some regions.

    The ids of a dictionary are not translated to names.

    Args:
        count: the maximum number of rows that are read.
    """
    decoder = TolerantDecoder(schema, bool(schema.indexes) or schema.versioned, adopting=True)
    view = folded(store, schema.wide_rows)
    rows: list[Row] = []
    unreadable = 0
    with numbers_as_names():
        found = (each for each, _ in first_rows(view, schema.table, schema.family_names, count))
        for row in filter(decoder.exists, itertools.chain.from_iterable(found)):
            if readable(decoder.values(row)):
                rows.append(row)
            else:
                unreadable += 1
    return SampledObjects(rows, unreadable)


def first_rows(store: Store, table: str, columns: Sequence[bytes], count: int) -> Iterator[tuple[Sequence[Row], bool]]:
    """Yields the first rows of some regions, and for each region whether it may have more rows.

    Args:
        count: about how many rows are read in all. The same number of rows is read from each region.
    """
    regions = [region.range for region in store.regions(table)]
    chosen = regions[:: -(-len(regions) // REGIONS)] if regions else []
    share = -(-count // max(1, len(chosen)))
    for key_range in chosen:
        (batches,) = store.scan(table, [Scan(key_range, columns=columns, limit=share)])
        rows = list(itertools.chain.from_iterable(batches))
        yield rows, len(rows) == share
