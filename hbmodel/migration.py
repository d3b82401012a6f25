"""Moves a table to another key or layout while programs use it."""

from __future__ import annotations

from hbmodel.tables.migrate import Migration, migrate
from hbmodel.tables.migration_report import MigrationProgress, MigrationReport

__all__ = [
    "Migration",
    "MigrationProgress",
    "MigrationReport",
    "migrate",
]
