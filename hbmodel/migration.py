"""Moves a table to another key or layout while programs use it."""

from __future__ import annotations

from hbmodel.tables.migration.migrate import Migration, migrate
from hbmodel.tables.migration.migration_report import MigrationProgress, MigrationReport

__all__ = [
    "Migration",
    "MigrationProgress",
    "MigrationReport",
    "migrate",
]
