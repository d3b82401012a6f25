"""Plans the tables that models and ids need, including the tables that models replace while objects move."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.protocol.relocation.migration_phases import DONE
from hbmodel.store.port import Store
from hbmodel.tables.creation.declared import DeclaredTable, SplitsOption, check_names, plan_tables
from hbmodel.tables.ids.id_tables import Declared, models_and_ids
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry


def planned_tables(
    store: Store, declared: Sequence[Declared], splits: SplitsOption, catalog: Registry
) -> list[list[DeclaredTable]]:
    """Returns three groups: the tables of ids, the tables that models replace, and the tables of the models. Empty
    groups are left out.

    Raises the errors of `plan_tables`, and changes nothing.
    """
    models, ids = (list(map(schema_of, some)) for some in models_and_ids(declared))
    groups = [
        plan_tables(schemas, at, catalog.table)
        for schemas, at in ((ids, None), (replaced_tables(store, models, catalog), None), (models, splits))
        if schemas
    ]
    check_names([table for tables in groups for table in tables], catalog.table)
    return groups


def replaced_tables(store: Store, schemas: Sequence[TableSchema], catalog: Registry) -> list[TableSchema]:
    """Returns the earlier layouts of models whose objects are not all in the new table yet.

    Sessions write such objects in the earlier table, too. So the earlier table needs every family of the model, and its
    registry entry must list every column. A layout is left out if its table does not exist or is not registered, or if
    its model is among the given ones.
    """
    earlier = [schema.replaces for schema in schemas if schema.replaces is not None]
    if not earlier:
        return []
    existing, given = set(store.tables()), set(map(registry_row, schemas))
    return [
        schema
        for schema in dict.fromkeys(earlier)
        if registry_row(schema) not in given and _holds_objects(schema, catalog, existing)
    ]


def _holds_objects(schema: TableSchema, catalog: Registry, existing: Collection[str]) -> bool:
    if schema.table not in existing or catalog.table not in existing:
        return False
    entry = catalog.read(schema)
    return entry is not None and (entry.move is None or entry.move.phase != DONE)
