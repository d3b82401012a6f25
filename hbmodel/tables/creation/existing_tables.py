"""Finds out which of the declared tables exist, and what their live names are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import evolve

from hbmodel.errors import CapabilityError, StoreClosed, StoreError, StoreUnavailable
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.store.port import Store
from hbmodel.tables.creation.declared import DeclaredTable
from hbmodel.tables.registry.registered_fields import state_of_index
from hbmodel.tables.registry.registration import ABSENT, IndexState, Registration
from hbmodel.tables.registry.registry_rows import FAMILY
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry


def namespace_of(table: str) -> str:
    """Returns the namespace of a table's name, or an empty string."""
    return table.rpartition(":")[0]


def missing_namespaces(store: Store, tables: Iterable[str], existing: Collection[str]) -> list[str]:
    """Returns the missing namespaces of tables that will be created, sorted. Returns no namespaces if the store cannot
    list them.
    """
    needed = {namespace_of(table) for table in tables} - {namespace_of(table) for table in existing} - {""}
    if not needed:
        return []
    try:
        return sorted(needed - set(store.namespaces()))
    except CapabilityError:  # the creation of the first table will fail if its namespace is missing
        return []


def registrations(
    planned: Sequence[DeclaredTable], catalog: Registry, existing: Collection[str]
) -> dict[TableSchema, Registration | None]:
    """Returns the registration of each model, or None for a model that is not registered."""
    schemas = [schema for table in planned if table.index is None for schema in table.schemas]
    return {schema: catalog.read(schema) if catalog.table in existing else None for schema in schemas}


def as_registered(table: DeclaredTable, entries: Mapping[TableSchema, Registration | None]) -> DeclaredTable:
    """Returns the table with its live name. The live name of an index table is in the registry."""
    state = state_of(table, entries)
    return evolve(table, name=state.table) if state is not None and is_live(state) else table


def is_live(state: IndexState | None) -> bool:
    """Returns whether writes maintain an index."""
    return state is not None and state.state != ABSENT


def is_dropping(state: IndexState) -> bool:
    """Returns whether a drop of an index has begun but not ended."""
    return bool(state.entry.get("dropping") or state.entry.get("left"))


def state_of(table: DeclaredTable, entries: Mapping[TableSchema, Registration | None]) -> IndexState | None:
    """Returns the registered state of an index table's index. Returns None for a primary table, or if the index is not
    registered.
    """
    entry = entries[table.schemas[0]]
    return None if table.index is None or entry is None else state_of_index(table.schemas[0], entry, table.index.name)


def is_external(table: DeclaredTable) -> bool:
    """Returns whether a table is a primary table that only external models declare, so that other programs create
    it.
    """
    return table.index is None and all(schema.external for schema in table.schemas)


def needs_creation(table: DeclaredTable, existing: Collection[str]) -> bool:
    """Returns whether `create_tables` must create a table. If the primary table exists, its missing index tables are
    created by builds.
    """
    return table.name not in existing and (table.index is None or table.schemas[0].table not in existing)


def unregistered_index(schema: TableSchema, existing: Collection[str], catalog: Registry) -> Index | None:
    """Returns an index that is not registered although its table and the primary table exist, or None.

    The tables may be registered in another registry, or may be copies. If they were registered here as new tables,
    writes would not update the index.
    """
    if schema.table not in existing:
        return None
    return next(
        (index for index in schema.indexes.values() if index.table in existing and catalog.owner(index.table) is None),
        None,
    )


def other_registry(store: Store, schema: TableSchema, existing: Collection[str], catalog: Registry) -> str | None:
    """Returns the name of another registry in which the table of a model is registered, or None. This function is
    called only if the table is not registered in this registry.

    If this registry does not exist yet, its name may be mistyped, so every table of the store is examined, with one
    call each. This happens once for a registry, and only if the model's table exists. If this registry exists, only
    tables with the default name of a registry are examined.
    """
    if schema.table not in existing or schema.external:  # several registries may describe a table of other programs
        return None
    usual = sorted(name for name in existing if name.rpartition(":")[2] == REGISTRY_TABLE)
    others = [] if catalog.table in existing else sorted(set(existing).difference(usual))
    for name in (*usual, *others):
        if name not in {catalog.table, schema.table} and _knows(store, name, schema.table):
            return name
    return None


def _knows(store: Store, registry: str, table: str) -> bool:
    """Returns whether a table is a registry in which another table is registered."""
    try:
        families = [family.name for family in store.families(registry)]
        return families == [FAMILY] and bool(Registry(store, registry).rows_of_table(table))
    except (StoreClosed, StoreUnavailable):
        raise
    except StoreError:  # it was dropped just now, is disabled, or must not be read
        return False
