"""Tables of models: creating them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hbmodel.errors import CapabilityError, FamilyNotFound, SchemaMismatch, TableExists
from hbmodel.registry import ABSENT, READABLE, REGISTRY_TABLE, Binding, Registry
from hbmodel.schema import TableSchema, schema_of
from hbmodel.store import Store
from hbmodel.table_plan import PlannedTable, SplitsOption, plan_tables


def create_tables(store: Store, *models: type[Any], splits: SplitsOption = None, registry: str = REGISTRY_TABLE) -> None:
    """Creates what the models need and is not there: the registry table, index tables, primary tables.

    Repeating it is safe, also after a crash and beside another program that does the same. An index that is declared on a
    table which exists already is registered as absent: it must be built before queries can use it.

    Args:
        store: to create them in.
        models: whose tables.
        splits: where the regions of new tables begin: one strategy for each model's primary table, or a mapping from model or
            table name to a strategy (the table of an index is `<table>.<index>`). Tables that are there keep their regions.
        registry: name of the registry table.

    Raises:
        SchemaMismatch: a live table has another layout than its model, a live index has lost its table, or two models of one
            table share a family or an index name.
        FamilyNotFound: a live table lacks a column family of its model.
        CapabilityError: the store cannot create a table as declared; nothing was created, and `shell` has the lines that do it
            in HBase's own shell.
        DeclarationError: a strategy for splits does not suit its table.
    """
    schemas = [schema_of(model) for model in models]
    planned = plan_tables(schemas, splits)
    existing = set(store.tables())
    # The index tables of a primary table that is there are for the build to make.
    new = [p for p in planned if p.name not in existing and (p.index is None or p.schemas[0].table not in existing)]
    check_creatable(store, new)
    catalog = Registry(store, registry)
    catalog.create()
    for schema in schemas:
        present = schema.table in existing
        if present:
            _check_families(store, schema)
        for table in new:
            if table.index is not None and table.schemas[0] is schema:
                _create(store, table)
        # Registered as readable before the primary table exists: without it there are no rows that an index could lack, and
        # a crash here leaves nothing that a repeated call does not finish.
        catalog.register(schema, ABSENT if present else READABLE)
        if present:
            _check_index_tables(catalog.bind(schema), existing)
    for table in new:
        if table.index is None:
            _create(store, table)


def check_creatable(store: Store, tables: Sequence[PlannedTable]) -> None:
    """Raises `CapabilityError` with the lines for `hbase shell` if the store cannot create one of the tables as planned."""
    able = store.capabilities
    beyond = [
        table for table in tables
        if (table.split_keys and not able.presplit) or (_configured(table) and not able.family_configuration)
    ]  # fmt: skip
    if not beyond:
        return
    lines = [shell_line(store.create_table, table.name, table.families, table.split_keys) for table in beyond]
    if any(table.index is None and schema.indexes for table in beyond for schema in table.schemas):
        # With the primary table made in the shell, its indexes would be taken for new ones on rows that are there.
        raise CapabilityError(
            "This store cannot create the tables as declared. Create them through the second Thrift gateway (hbase+thrift2:): after "
            "the lines for `hbase shell` alone the indexes would be registered as absent, with no entries.",
            tables=[table.name for table in beyond], shell="\n".join(lines),
        )  # fmt: skip
    raise CapabilityError(
        "This store cannot create the tables as declared: run the lines in `hbase shell`, then repeat the call, or use an "
        "hbase+thrift2: store.",
        tables=[table.name for table in beyond], shell="\n".join(lines),
    )  # fmt: skip


def shell_line(call: Callable[..., object], *arguments: object) -> str:
    """The line for `hbase shell` in the refusal of a call that the store's capabilities exclude."""
    try:
        call(*arguments)
    except CapabilityError as error:
        return str(error.shell)
    raise AssertionError("A store did what its capabilities exclude.")


def _configured(table: PlannedTable) -> bool:
    return any(family.configuration or family.block_size is not None for family in table.families)


def _create(store: Store, table: PlannedTable) -> None:
    try:
        store.create_table(table.name, table.families, table.split_keys)
    except TableExists:  # somebody else was faster
        return


def _check_index_tables(binding: Binding, existing: set[str]) -> None:
    """A live index whose table was dropped must not come back empty: it would hide every row."""
    for index in binding.written:
        if index.table not in existing:
            raise SchemaMismatch(
                "The registry says that an index is live, but its table is gone: drop the primary table too and load it anew.",
                table=binding.schema.table, index=index.name, missing=index.table,
            )  # fmt: skip


def _check_families(store: Store, schema: TableSchema) -> None:
    live = {family.name for family in store.families(schema.table)}
    for family in schema.family_names:
        if family not in live:
            raise FamilyNotFound("The live table lacks a column family of the model.", table=schema.table, family=family.decode())
