"""Decides which existing tables belong to an index, and which tables may become its table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from hbmodel.errors import FamilyNotFound, SchemaMismatch, TableNotFound
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.store.port import Store
from hbmodel.store.values import Scan
from hbmodel.tables.creation.declared import DeclaredTable
from hbmodel.tables.creation.existing_tables import is_live
from hbmodel.tables.creation.index_families import index_families
from hbmodel.tables.registry.gone_tables import GONE_PRIMARY
from hbmodel.tables.registry.registered_fields import state_of_index
from hbmodel.tables.registry.registry_rows import RegistryKey
from hbmodel.tables.registry.registry_table import Registry

NOT_ITS_TABLE = (
    "The index needs a table of this name, but another one exists: it has rows, has other families, or belongs to "
    "another model. Choose another name for the index, or drop that table."
)

REBUILD = (
    "drop the index with hb.indexes.drop_index() or `hbmodel index drop TABLE INDEX`, then build it again with "
    "hb.indexes.build_index() or `hbmodel index build`"
)
LOST_INDEX = f"The table of a live index, or a column family of it, is gone: {REBUILD}."
LOST_TABLE = f"The registry says that an index is live, but its table is gone: {REBUILD}."
LOST_FAMILY = f"The table of a live index lacks a column family, so entries are lost: {REBUILD}."


@contextmanager
def naming_lost_tables(table: str, index: str, index_table: str) -> Iterator[None]:
    """Adds advice to errors in its block that say that the table of a live index, or a family of the table, is
    missing.
    """
    try:
        yield
    except TableNotFound as error:
        if error.table != index_table:
            raise
        raise TableNotFound(LOST_TABLE, table=table, index=index, missing=index_table) from error
    except FamilyNotFound as error:
        if error.table != index_table:
            raise
        raise FamilyNotFound(LOST_FAMILY, table=table, index=index, missing=index_table, family=error.family) from error


def check_readable(store: Store, table: str, index: str, index_table: str, family: bytes) -> None:
    """Raises an error if the table of a live index, its primary table, or the default family of one of them, is
    missing.

    Each table is read once, since reads work without HBase's master.
    """
    with naming_lost_tables(table, index, index_table):
        store.get(index_table, [b"\0"], [family + b":_v"])
    store.get(table, [b"\0"], [family + b":_v"])


def may_be_taken(store: Store, catalog: Registry, schema: TableSchema, index: Index, table: str) -> bool:
    """Returns whether an existing table may become the table of an index. It may if it is not registered, has the right
    families, and is empty.

    Such a table remains if a call is killed while it creates an index.
    """
    try:
        return (
            catalog.owner(table, schema) is None
            and has_families(store, schema, index, table)
            and not has_rows(store, table)
        )
    except TableNotFound:  # another program has deleted it
        return True


def has_families(store: Store, schema: TableSchema, index: Index, table: str) -> bool:
    """Returns whether a table has exactly the column families of the index's table."""
    return {family.name for family in store.families(table)} == {
        family.name for family in index_families(schema, index)
    }


def has_rows(store: Store, table: str) -> bool:
    """Returns whether a table has any rows."""
    (batches,) = store.scan(table, [Scan(limit=1)])
    return any(True for batch in batches for _ in batch)


def check_index_table(store: Store, catalog: Registry, schema: TableSchema, index: Index, table: str) -> None:
    """Raises `SchemaMismatch` if an existing table is not the table of the index and may not become its table."""
    if may_be_taken(store, catalog, schema, index, table):
        return
    # The registry is read after the rows, because another program may have registered the table before it wrote the
    # rows.
    registration = catalog.read(schema)
    state = None if registration is None else state_of_index(schema, registration, index.name)
    if state is None or not is_live(state) or state.table != table:
        owner = catalog.owner(table, schema)
        if owner is not None and owner != table and owner not in store.tables():
            raise SchemaMismatch(GONE_PRIMARY, table=table, index=index.name, primary=owner)
        raise SchemaMismatch(NOT_ITS_TABLE, table=table, index=index.name, primary=schema.table, owner=owner)


def check_index_tables(
    store: Store, catalog: Registry, planned: Iterable[DeclaredTable], existing: Collection[str]
) -> None:
    """Calls `check_index_table` for each existing index table whose primary table does not exist yet."""
    for table in planned:
        if table.index is not None and table.name in existing and table.schemas[0].table not in existing:
            check_index_table(store, catalog, table.schemas[0], table.index, table.name)


def unused(store: Store, catalog: Registry, place: TableSchema | RegistryKey, tables: Iterable[str]) -> list[str]:
    """Selects the given tables that exist, are empty, and belong to no other model. They may have been created for an
    index of the model.
    """
    tables = list(tables)
    existing = set(store.tables()) if tables else set[str]()

    def left(table: str) -> bool:
        try:
            return table in existing and catalog.owner(table, place) is None and not has_rows(store, table)
        except TableNotFound:  # another program has deleted it
            return False

    return [table for table in tables if left(table)]
