"""Builds, verifies, repairs and drops the index tables of tables that are in use."""

from __future__ import annotations

from hbmodel.tables.indexes.index_calls import (
    build_index,
    drop_index,
    index_status,
    purge_rows,
    repair_index,
    verify_index,
)
from hbmodel.tables.indexes.index_report import IndexBuild, IndexReport
from hbmodel.tables.indexes.index_sweeps import IndexProgress
from hbmodel.tables.indexes.index_work import IndexTimes

__all__ = [
    "IndexBuild",
    "IndexProgress",
    "IndexReport",
    "IndexTimes",
    "build_index",
    "drop_index",
    "index_status",
    "purge_rows",
    "repair_index",
    "verify_index",
]
