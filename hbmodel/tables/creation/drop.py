"""Drops the tables of models, and their entries in the registry."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from hbmodel.errors import DeclarationError, SchemaMismatch, TableNotFound
from hbmodel.mapping.declare.dictionary_tables import SEQUENCES, sequence_model
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.protocol.relocation.migration_phases import BEFORE, DONE
from hbmodel.store.port import Store, check_store
from hbmodel.tables.creation.existing_tables import other_registry
from hbmodel.tables.creation.index_tables import has_families, may_be_taken, unused
from hbmodel.tables.ids.id_tables import Declared, models_and_ids
from hbmodel.tables.ids.sequence import IdSequence
from hbmodel.tables.registry.gone_tables import naming_gone_tables
from hbmodel.tables.registry.migration_phase import FROM
from hbmodel.tables.registry.registration import Registration
from hbmodel.tables.registry.registry_rows import RegistryKey, registry_row
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry


def drop_tables(store: Store, *models: Declared, registry: str = REGISTRY_TABLE) -> list[str]:
    """Disables and drops the primary tables of models with all their rows, their index tables and their registry
    entries.

    Tables that no longer exist are skipped, so the call can be repeated after a crash. Namespaces and the registry
    table remain, and so do the tables of `external` models, which belong to other programs. Programs that still use the
    tables get `TableNotFound`, or `SchemaMismatch` if the model has indexes or a version. But a program that has a
    lease (see `Session`; a minute by default) writes as the dropped registry entry says until the lease ends. If the
    tables are created again before that, its writes may be lost. So stop such programs, or wait for one lease, before
    you call `create_tables`.

    Args:
        store: the store that holds the tables.
        models: the models whose tables are dropped. All models of a table must be given together. A dictionary may be
            used by several models, so it is dropped only if it is given. Its counter remains, so that no id is assigned
            twice.
        registry: name of the registry table.

    Returns:
        The names of the tables that were dropped.

    Raises:
        DeclarationError: no model was given; or a sequence was given, which is not possible because all sequences share
            one table.
        SchemaMismatch: a model that was not given uses one of the tables; or a table is another model's index table; or
            objects are being migrated from or to one of the tables; or a table is registered in another registry, but
            not in this one.
    """
    dropped, rows = _planned(store, models, registry)
    for table in dropped:
        with suppress(TableNotFound):  # another program has just dropped it
            store.delete_table(table)
    catalog = Registry(store, registry)
    if rows:
        catalog.delete(sorted({*rows, *catalog.work_rows(rows)}))
    return dropped


def tables_to_drop(store: Store, *models: Declared, registry: str = REGISTRY_TABLE) -> list[str]:
    """Returns the names of the tables that `drop_tables` would drop. The arguments and errors are those of
    `drop_tables`.
    """
    return _planned(store, models, registry)[0]


def _planned(store: Store, models: Sequence[Declared], registry: str) -> tuple[list[str], Collection[bytes]]:
    """Returns the tables to drop, in the order in which they must be dropped, and the rows of the registry that are
    deleted after them.
    """
    check_store(store)
    if not models:
        raise DeclarationError("Give the models whose tables are to be dropped.")
    named, ids = models_and_ids(models, used=False)
    if any(isinstance(each, IdSequence) for each in models):
        raise DeclarationError(
            "Sequences share their table: delete it with store.delete_table() once no program uses them."
        )
    schemas = list(
        dict.fromkeys(schema_of(model) for model in (*named, *ids) if model is not sequence_model(SEQUENCES))
    )
    catalog = Registry(store, registry)
    existing = set(store.tables())
    rows = {registry_row(schema) for schema in schemas}
    index_tables: dict[str, None] = {}
    for schema in schemas:
        entry = None
        if registry in existing:
            with naming_gone_tables(store):
                _check_alone(catalog, schema, rows)
            entry = catalog.read(schema)
            _check_at_rest(schema, entry)
        other = None if entry is not None else other_registry(store, schema, existing, catalog)
        if other is not None:
            raise SchemaMismatch(
                "Another registry knows the table, and which models and indexes belong to it: name that registry.",
                table=schema.table,
                registry=registry,
                other=other,
            )
        index_tables.update(dict.fromkeys(_index_tables(store, catalog, schema, entry, existing)))
    # Primary tables are deleted first. Without rows, no index entries can be missing, so `create_tables` makes
    # consistent tables even after a crash. In any other order, a crash could leave rows whose registered indexes are
    # missing or incomplete. The registry's entry is deleted last, because a repeated call needs it to find the live
    # index tables.
    own = dict.fromkeys(schema.table for schema in schemas if not schema.external)
    return [table for table in [*own, *index_tables] if table in existing], rows if registry in existing else ()


def _index_tables(
    store: Store, catalog: Registry, schema: TableSchema, entry: Registration | None, existing: Collection[str]
) -> Iterator[str]:
    """Yields the index tables of a model. These are the registered index tables, and those that a killed call created
    but did not register.

    An unregistered table that has the name of an index table, and has rows, belongs to another program. But if the
    primary table exists and neither the model nor the index table is registered, a table of that name that has the
    families of the index is treated as the index's table.
    """
    states = [] if entry is None else [state for _, state in sorted(entry.indexes.items())]
    for state in states:  # the index may have a table whose name differs from the declared one
        yield from state.filled
        yield from unused(store, catalog, schema, state.begun)
    for index in schema.indexes.values():
        if index.table not in existing:
            continue
        if schema.table not in existing:
            tables = may_be_taken(store, catalog, schema, index, index.table)
        else:
            tables = (
                entry is None and catalog.owner(index.table) is None and has_families(store, schema, index, index.table)
            )
        if tables:
            yield index.table


def _check_alone(catalog: Registry, schema: TableSchema, rows: Collection[bytes]) -> None:
    """Raises `SchemaMismatch` if a table also belongs to models that were not given (`rows` are the registry rows of
    the given models).
    """
    catalog.check_no_index(schema)
    for row in [] if schema.external else catalog.rows_of_table(schema.table):
        if row not in rows:
            family = RegistryKey.of_row(schema.table, row).family.decode()
            raise SchemaMismatch(
                "Another model is stored in the table: drop both together.", table=schema.table, family=family
            )


def _check_at_rest(schema: TableSchema, entry: Registration | None) -> None:
    """Raises `SchemaMismatch` if objects are being moved from or to a table."""
    if entry is None:
        return
    if entry.cells.get(FROM) or (entry.move is not None and entry.move.phase not in {BEFORE, DONE}):
        raise SchemaMismatch(
            "Objects are being moved between tables: cut over or roll back first, see hb.migration.migrate.",
            table=schema.table,
        )
