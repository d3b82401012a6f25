"""Access to the declarations of a model: its table, key, columns and indexes, the fields of a stored key, and models
with the same declarations for another table.
"""

from __future__ import annotations

from hbmodel.mapping.declare.with_table import with_table
from hbmodel.mapping.rows.keys_of_objects import key_of
from hbmodel.mapping.schema import Index, TableSchema, schema_of

__all__ = [
    "Index",
    "TableSchema",
    "key_of",
    "schema_of",
    "with_table",
]
