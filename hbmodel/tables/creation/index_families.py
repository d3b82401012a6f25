"""The column families of index tables, and their options."""

from __future__ import annotations

from hbmodel.mapping.rows.entries_of_row import entry_families
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.store.values import Family


def index_families(schema: TableSchema, index: Index) -> list[Family]:
    """Returns the families of an index table, see `entry_families`.

    The families have the compression and the TTL of the model's families, so that an index entry lives exactly as long
    as its row. In a table that other programs write, rows get their timestamps from the server, so entries with a TTL
    could expire a little before their rows. Therefore the index tables of external models have no TTL, and stale
    entries stay until a repair.
    """
    names = entry_families(schema, index)
    used = [family for family in schema.families if family.name in names]
    return [
        Family(family.name, ttl=None if schema.external else family.ttl, compression=family.compression)
        for family in used
    ]
