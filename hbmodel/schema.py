"""What a model declares, for programs that read it: its table, key, columns and indexes; and the fields of a key."""

from __future__ import annotations

from hbmodel.mapping.rows.raw_access import key_of
from hbmodel.mapping.schema import Index, TableSchema, schema_of

__all__ = [
    "Index",
    "TableSchema",
    "key_of",
    "schema_of",
]
