"""Scans the objects in some ranges of columns, in any row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hbmodel.errors import InvalidRequest
from hbmodel.store.port import Store
from hbmodel.store.values import Row, Scan
from hbmodel.store.wide.folded import FoldedStore
from hbmodel.store.wide.intervals import Interval
from hbmodel.store.wide.slices import NO_OBJECTS


def scan_columns(
    store: Store, table: str, scans: Sequence[Scan], columns: Sequence[Interval]
) -> Sequence[Iterator[Sequence[Row]]]:
    """Starts scans like `Store.scan`, which read in every row only the objects whose qualifiers are in the given
    ranges.

    Args:
        columns: ranges of qualifiers as in a `SliceScan`.

    Raises:
        InvalidRequest: the table is not a table of logical rows.
    """
    if not isinstance(store, FoldedStore):
        raise InvalidRequest(NO_OBJECTS, table=table)
    return store.scan_columns(table, scans, columns)
