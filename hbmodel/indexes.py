"""Index tables of tables in use: build, verify, repair and drop them."""

from __future__ import annotations

from hbmodel.tables.index_report import IndexBuild, IndexReport
from hbmodel.tables.index_sweeps import IndexProgress
from hbmodel.tables.index_work import IndexTimes
from hbmodel.tables.indexes import build_index, drop_index, index_status, purge_rows, repair_index, verify_index

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
