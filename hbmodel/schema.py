"""What a model declares, for programs that read it: its table, key, columns and indexes."""

from __future__ import annotations

from hbmodel.mapping.schema import Index, TableSchema, schema_of

__all__ = [
    "Index",
    "TableSchema",
    "schema_of",
]
