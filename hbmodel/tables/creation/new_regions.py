"""The split keys of new tables: those of a strategy, or else of salt buckets, with a maximum number of regions."""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.tables.creation.declared import DeclaredTable
from hbmodel.tables.creation.split_strategies import ByBucket, split_keys, table_layout

MOST_REGIONS = 256
"""The maximum number of regions of a new table for which no strategy is given."""


def split_keys_of(table: DeclaredTable) -> Sequence[bytes]:
    """Returns the split keys of a new table. Without a strategy, a salted table has a region for each bucket, but at
    most `MOST_REGIONS`, and any other table has one region. A table that models with different salts share also has one
    region.
    """
    if table.split_keys is not None:
        return table.split_keys
    named = None if table.index is None else table.index.name
    keys = {
        tuple(split_keys(schema.model, ByBucket(), index=named)) if table_layout(schema, named)[1].buckets > 1 else ()
        for schema in table.schemas
        if table.index is not None or schema.row_layout is not None
    }
    split_keys_found = keys.pop() if len(keys) == 1 else ()
    buckets_of_a_region = -(-(len(split_keys_found) + 1) // MOST_REGIONS)
    return split_keys_found[buckets_of_a_region - 1 :: buckets_of_a_region]
