"""Creates the tables of models, and reports how existing tables differ from their models."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Self

from attrs import evolve, frozen

from hbmodel.errors import (
    CapabilityError,
    DeclarationError,
    FamilyNotFound,
    NamespaceExists,
    NamespaceNotFound,
    SchemaMismatch,
    TableExists,
    TableNotFound,
)
from hbmodel.mapping.schema import TableSchema
from hbmodel.store.port import Store, check_store
from hbmodel.store.ranges import KeyRange
from hbmodel.store.shared_caches import renew_caches
from hbmodel.tables.adoption.sample_against_model import judge_sample
from hbmodel.tables.creation.comparison.compare_tables import compare_families
from hbmodel.tables.creation.comparison.differences_as_text import Difference
from hbmodel.tables.creation.comparison.entry_differences import UNDECLARED, unbuilt
from hbmodel.tables.creation.declared import DeclaredTable, SplitsOption
from hbmodel.tables.creation.existing_tables import (
    as_registered,
    is_external,
    missing_namespaces,
    namespace_of,
    needs_creation,
    other_registry,
    registrations,
    unregistered_index,
)
from hbmodel.tables.creation.index_tables import LOST_FAMILY, LOST_TABLE, check_index_table, check_index_tables
from hbmodel.tables.creation.live_regions import unreachable_regions
from hbmodel.tables.creation.new_regions import split_keys_of
from hbmodel.tables.creation.planned_tables import planned_tables
from hbmodel.tables.ids.id_tables import Declared, opentsdb_dictionaries
from hbmodel.tables.ids.uid_check import FAMILIES, check_uid_table_exists, check_uids
from hbmodel.tables.registry.gone_tables import naming_gone_tables
from hbmodel.tables.registry.migration_phase import check_moves
from hbmodel.tables.registry.registered_fields import check_layout
from hbmodel.tables.registry.registration import ABSENT, READABLE, Binding, Registration
from hbmodel.tables.registry.registry_cells import check_rows
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry

logger = logging.getLogger("hbmodel")

TABLES_SHOWN = 10
"""The maximum number of existing tables that an error names."""

ROWS_JUDGED = 100
"""About how many rows are judged before an external model is registered."""

SILENT = frozenset(
    {"key", "key-bytes", "bucket", "value", "value-bytes", "qualifier", "empty-qualifier", "system-cell"}
)
"""Findings that prevent the registration of an external model. With any of them, reads could fail or, worse, silently
miss rows or return wrong values.
"""


@frozen
class TableOutcome:
    """The result of `create_tables` for one table.

    Attributes:
        table: the name of the table.
        created: whether this call created the table; False if it already existed.
        differences: how an existing table differs from its models: options of families, live indexes that no model
            declares, and declared indexes that are not built. They are not changed. See `diff` for more.
        unreachable: the regions of a new table that cannot contain any key of its models, because the codecs never
            store such bytes.
        registered: the names of the columns that this call has registered for an existing table.
    """

    table: str
    created: bool
    differences: Sequence[Difference] = ()
    unreachable: Sequence[KeyRange] = ()
    registered: Sequence[str] = ()

    def __str__(self) -> str:
        if self.created:
            return f"+ {self.table}: created"
        if self.registered:
            return f"~ {self.table}: registered the new columns {', '.join(self.registered)}"
        return f"  {self.table}: exists"


@frozen
class Creation:
    """The result of `create_tables` for each table, beginning with the registry table."""

    tables: Sequence[TableOutcome]

    def __iter__(self) -> Iterator[TableOutcome]:
        return iter(self.tables)

    @property
    def created(self) -> list[str]:
        """The tables that were created."""
        return [table.table for table in self.tables if table.created]

    @property
    def existing(self) -> list[str]:
        """The tables that already existed."""
        return [table.table for table in self.tables if not table.created]

    @property
    def differences(self) -> list[Difference]:
        """All differences."""
        return [difference for table in self.tables for difference in table.differences]

    def __str__(self) -> str:
        regions = (line for table in self.tables for line in unreachable_lines(table))
        return "\n".join([*map(str, self.tables), *map(str, self.differences), *regions])


def create_tables(
    store: Store,
    *models: Declared,
    splits: SplitsOption = None,
    registry: str = REGISTRY_TABLE,
    create_external: bool = False,
) -> Creation:
    """Creates the namespaces, registry table, index tables and primary tables that the models need and the store lacks.

    The call can be repeated safely, even after a crash or while another program makes the same call. An index that is
    declared on an existing table is registered as absent: it must be built before queries can use it. If the family
    options of an existing table differ, they are not changed, but reported in the result and to the logger `hbmodel`.
    `alter` changes them. Regions of a new table that cannot hold any key are reported in the same way.

    If a model replaces another one, and its objects are not all in the new table yet, new columns are registered for
    both tables. `diff` and `alter` do the same.

    Args:
        store: the store in which the tables are created.
        models: the models whose tables are created; sequences and dictionaries may also be given. The tables of
            dictionaries that are used by fields of the models need not be named. OpenTSDB's table of ids is only
            checked.
        splits: where the regions of new tables begin: one strategy for each model's primary table, or a mapping from
            model or table name to a strategy (the table of an index is `<table>.<index>`). A salted table without a
            strategy has a region for each bucket, but at most 256, if the store can create such tables; any other table
            has one region.
            Existing tables keep their regions.
        registry: name of the registry table.
        create_external: whether the tables of external models, and OpenTSDB's table of ids, may be created too. If
            False, it is an error if such a table does not exist: another program should have created it, so the name is
            probably wrong.

    Raises:
        TableNotFound: the table of an external model, or OpenTSDB's table of ids, does not exist; nothing was created.
        SchemaMismatch: a live table does not have the layout of its model; a live index has lost its table or its
            registry entry; a table is registered in another registry, but not in this one; two models share a table, a
            family or an index name that they must not share; an existing table has the name of an index table
            (`<table>.<index>`) but is not an index table; rows of a table that is not registered yet contradict its
            external model, see `hb.tables.adopt`; or ids of OpenTSDB do not have the declared width.
        FamilyNotFound: a live table lacks a column family of its model; `alter` adds it.
        CapabilityError: the store cannot create a table or namespace as declared; nothing was created, and `shell` has
            the commands for HBase's shell.
        DeclarationError: no model was given, or a strategy for splits does not suit its table.
    """
    check_store(store)
    catalog = Registry(store, registry)
    plans = planned(store, models, splits, catalog, create_external=create_external)
    for plan in plans:
        plan.check_rows_of_others(store)
    uids = _uid_tables(store, models)
    creation = carried_out(store, plans, catalog)
    return evolve(creation, tables=(*creation.tables, *uids))


def planned(
    store: Store, models: Sequence[Declared], splits: SplitsOption, catalog: Registry, *, create_external: bool = False
) -> Sequence[Plan]:
    """Plans what to create and register, and changes nothing. Raises the errors of `create_tables`."""
    if not models:
        raise DeclarationError("Give the models whose tables are to be created: create_tables(store, Model).")
    groups = planned_tables(store, models, splits, catalog)
    _check_uids(store, models, create_external=create_external)
    return [Plan.of(store, tables, catalog, create_external) for tables in groups]


def _check_uids(store: Store, models: Sequence[Declared], *, create_external: bool) -> None:
    """Raises `TableNotFound` if a table of OpenTSDB's ids does not exist, and `SchemaMismatch` if its ids differ from
    the declared ones.
    """
    dictionaries = opentsdb_dictionaries(models)
    existing = set(store.tables()) if dictionaries else set()
    for dictionary in dictionaries:
        if dictionary.table in existing:
            check_uids(store, dictionary)
        elif not create_external:
            check_uid_table_exists(dictionary, existing)


def _uid_tables(store: Store, models: Sequence[Declared]) -> list[TableOutcome]:
    """Creates the missing tables of OpenTSDB's ids. This is called after all checks."""
    names = dict.fromkeys(dictionary.table for dictionary in opentsdb_dictionaries(models))
    existing = set(store.tables()) if names else set()
    outcomes = []
    for name in names:
        created = name not in existing
        if created:
            with suppress(TableExists):  # another program has just created it
                store.create_table(name, FAMILIES)
            renew_caches(store)
        outcomes.append(TableOutcome(name, created))
    return outcomes


def carried_out(store: Store, plans: Sequence[Plan], catalog: Registry) -> Creation:
    """Creates the planned tables, and registers the models."""
    outcomes: dict[str, TableOutcome] = {}
    for plan in plans:
        for outcome in plan.carry_out(store, catalog):
            outcomes.setdefault(outcome.table, outcome)
    creation = Creation(tuple(outcomes.values()))
    for difference in creation.differences:
        logger.warning("A live table differs from its model: %s", difference)
    for table in creation.tables:
        if table.unreachable:
            logger.warning(
                "Table %s was created with %d regions that can hold no key of its models: give another split "
                "strategy in splits=, see hb.tables.check_regions",
                table.table,
                len(table.unreachable),
            )
    return creation


def unreachable_lines(table: TableOutcome) -> list[str]:
    """Returns lines of text about the regions of a new table that will stay empty."""
    return [
        f"! {table.table}: no key can be in the region from {region.start!r} to "
        f"{'the end' if region.stop is None else repr(region.stop)}"
        for region in table.unreachable
    ]


@frozen
class Plan:
    """The tables to create, after all checks that change nothing.

    Attributes:
        planned: the declared tables, under their live names.
        existing: the names of the tables that existed before.
        found: the differences between existing primary tables and their models, by table name.
    """

    planned: Sequence[DeclaredTable]
    existing: Collection[str]
    entries: Mapping[TableSchema, Registration | None]
    new: Sequence[DeclaredTable]
    found: Mapping[str, list[Difference]]
    namespaces: Sequence[str]

    @classmethod
    def of(cls, store: Store, planned: Sequence[DeclaredTable], catalog: Registry, create_external: bool) -> Self:
        """Makes the plan for these tables. Raises the errors of `create_tables` if it contradicts live tables."""
        existing = set(store.tables())
        entries = registrations(planned, catalog, existing)
        planned = [as_registered(table, entries) for table in planned]
        new = [table for table in planned if needs_creation(table, existing)]
        if not create_external:
            _check_external(new, existing)
        for schema, entry in entries.items():
            if entry is not None:
                if schema.table in existing:  # a table that was lost during a move is created again, to roll back
                    check_moves(schema, entry.move, entry.cells)
                with naming_gone_tables(store):
                    check_rows(schema, entry)
                    check_layout(schema, entry)
            else:
                _check_unregistered(store, schema, existing, catalog)
        check_index_tables(store, catalog, planned, existing)
        for schema in entries:
            # Without this check, the registration would not refuse the model until its index tables had been created.
            if schema.indexes and schema.table not in existing and catalog.table in existing:
                with naming_gone_tables(store):
                    catalog.check_neighbours(schema)
        differences = {
            table.name: _compare_live(store, table)
            for table in planned
            if table.index is None and table.name in existing
        }
        namespaces = missing_namespaces(store, [catalog.table, *(table.name for table in new)], existing)
        _check_creatable(store, new, namespaces)
        return cls(planned, existing, entries, new, differences, namespaces)

    def has_system_cells(self, schema: TableSchema) -> bool:
        """Returns whether it is registered that hbmodel adds system cells to the rows of the model's table."""
        entry = self.entries.get(schema)
        return entry is not None and entry.rows not in {"plain", "unindexed"}

    def check_rows_of_others(self, store: Store) -> None:
        """Reads a few rows of each external table that is not registered yet. Raises `SchemaMismatch` if one of them
        contradicts the model.
        """
        for schema, entry in self.entries.items():
            if schema.external and entry is None and schema.table in self.existing:
                found = judge_sample(store, schema, ROWS_JUDGED, has_system_cells=False).findings
                wrong = [finding for finding in found if finding.kind in SILENT]
                if wrong:
                    raise SchemaMismatch(
                        "Rows of the external table contradict the model: correct the declaration. "
                        "hb.tables.adopt(store, Model) judges more rows, and registers the model nevertheless if the "
                        "findings are accepted.",
                        table=schema.table,
                        differences=list(map(str, wrong)),
                    )

    def carry_out(self, store: Store, catalog: Registry) -> Iterator[TableOutcome]:
        """Creates and registers everything, and yields the outcome for each table."""
        for namespace in self.namespaces:
            with suppress(NamespaceExists):  # another program has just created it
                store.create_namespace(namespace)
        catalog.create()
        created: set[str] = set()
        registered: dict[str, list[str]] = {}
        differences = dict(self.found)
        for schema, entry in self.entries.items():
            present = schema.table in self.existing
            created.update(self._index_tables(store, catalog, schema))
            # An index is registered as readable before the primary table exists. At that time there are no rows, so no
            # index entries are missing. After a crash here, a repeated call completes the work.
            with naming_gone_tables(store):
                catalog.register(schema, ABSENT if present else READABLE)
            if entry is not None:
                registered.setdefault(schema.table, []).extend(_new_columns(schema, entry))
            if present:
                binding = catalog.bind(schema)
                _check_index_tables(store, binding, self.existing)
                differences[schema.table] = differences[schema.table] + _index_differences(binding)
                live = {index.table for index in binding.written}
                differences.update(
                    {table.name: _compare_live(store, table) for table in self.planned if table.name in live}
                )
        created |= {table.name for table in self.new if table.index is None and create_declared(store, table)}
        yield TableOutcome(catalog.table, catalog.table not in self.existing)
        for table in self.planned:
            if table in self.new or table.name in self.existing:
                new = table.name in created
                found = tuple(differences.get(table.name, ()))
                columns = () if new else tuple(registered.get(table.name, ()))
                yield TableOutcome(table.name, new, found, _unreachable(table) if new else (), columns)

    def _index_tables(self, store: Store, catalog: Registry, schema: TableSchema) -> Iterator[str]:
        """Creates the missing index tables of a model, and yields the names of those that this call created."""
        for table in self.new:
            if table.index is not None and table.schemas[0] is schema:
                if create_declared(store, table):
                    yield table.name
                else:  # another program has just created it, perhaps with other families
                    check_index_table(store, catalog, schema, table.index, table.name)


def _check_external(new: Sequence[DeclaredTable], existing: Collection[str]) -> None:
    """Raises `TableNotFound` if a table that only external models declare does not exist."""
    for table in new:
        if is_external(table):
            raise TableNotFound(
                "The table of an external model does not exist: correct the name of the table. If no other program is "
                "to create it, call hb.create_tables(..., create_external=True).",
                table=table.name,
                known=get_close_matches(table.name, existing) or sorted(existing)[:TABLES_SHOWN],
            )


def _check_unregistered(store: Store, schema: TableSchema, existing: Collection[str], catalog: Registry) -> None:
    other = other_registry(store, schema, existing, catalog)
    if other is not None:
        raise SchemaMismatch(
            "The table is registered in another registry, and programs with two registries would damage each other's "
            "rows: name that registry. If no program uses it any more, `hbmodel registry forget TABLE --existing "
            "--registry OTHER` removes the table from it.",
            table=schema.table,
            registry=catalog.table,
            other=other,
        )
    unregistered = unregistered_index(schema, existing, catalog)
    if unregistered is not None:
        raise SchemaMismatch(
            "The table and an index table exist, but the registry does not know them: name the registry in which "
            "they are registered. If their entry is lost, delete the index table only, with store.delete_table() or "
            "HBase's shell, call hb.create_tables() again, and build the index.",
            table=schema.table,
            index=unregistered.name,
            registry=catalog.table,
        )


def _check_creatable(store: Store, tables: Sequence[DeclaredTable], namespaces: Sequence[str]) -> None:
    """Raises `CapabilityError` with the commands for `hbase shell` if the store cannot create something as planned."""
    able = store.capabilities
    lines = [] if able.namespaces else [shell_line(store.create_namespace, namespace) for namespace in namespaces]
    beyond = [
        table for table in tables
        if (table.split_keys and not able.presplit) or (_configured(table) and not able.family_configuration)
    ]  # fmt: skip
    lines += [shell_line(store.create_table, table.name, table.families, split_keys_of(table)) for table in beyond]
    if not lines:
        return
    if any(table.index is None and schema.indexes for table in beyond for schema in table.schemas):
        # If the user creates the primary table in the shell, its indexes will be treated as new indexes of a table with
        # rows.
        message = (
            "This store cannot create the tables as declared. Create them through a Thrift2 gateway (hbase+thrift2:). "
            "The lines for `hbase shell` alone are not enough: the indexes would then be registered as absent, with no "
            "entries."
        )
    else:
        message = (
            "This store cannot create everything as declared: run the lines in `hbase shell`, then repeat the call, or "
            "use an hbase+thrift2: store."
        )
    tables_beyond = [table.name for table in beyond] or None
    raise CapabilityError(message, tables=tables_beyond, namespaces=list(namespaces) or None, shell="\n".join(lines))


def shell_line(call: Callable[..., object], *arguments: object) -> str:
    """Returns the command for `hbase shell` from the error of a call that the store does not support."""
    try:
        call(*arguments)
    except CapabilityError as error:
        return str(error.shell)
    raise AssertionError("The store carried out a call that its capabilities exclude: this is a bug in the store.")


def _configured(table: DeclaredTable) -> bool:
    return any(family.configuration or family.block_size is not None for family in table.families)


def _new_columns(schema: TableSchema, entry: Registration) -> list[str]:
    """Returns the names of the columns of a model that its registry entry did not have."""
    known = entry.layout["columns"]
    return [column["name"] for place, column in schema.layout_spec["columns"].items() if place not in known]


def _unreachable(table: DeclaredTable) -> Sequence[KeyRange]:
    """Returns the regions of a table that cannot contain a key of any of its models."""
    of_models = [unreachable_regions(schema, table.split_keys or (), table.index) for schema in table.schemas]
    return [region for region in of_models[0] if all(region in regions for regions in of_models[1:])]


def create_declared(store: Store, table: DeclaredTable) -> bool:
    """Creates a table, and returns whether this call created it."""
    split_keys = split_keys_of(table)
    if split_keys and table.split_keys is None and not store.capabilities.presplit:
        logger.warning(
            "Table %s is created with one region for all salt buckets, because this store cannot split new tables: "
            "split it in HBase's shell, or create it through a Thrift2 gateway",
            table.name,
        )
        split_keys = ()
    try:
        store.create_table(table.name, table.families, split_keys)
    except TableExists:  # another program has just created it
        return False
    except NamespaceNotFound:
        if not store.capabilities.namespaces:  # this store cannot list namespaces either
            _check_creatable(store, (), [namespace_of(table.name)])
        raise
    finally:  # the cache may describe a deleted table of the same name
        renew_caches(store)
    return True


def _compare_live(store: Store, table: DeclaredTable) -> list[Difference]:
    differences = list(compare_families(store, table))
    for difference in differences:
        if difference.kind == "family":
            raise FamilyNotFound(
                "The live table lacks a column family of the model; hb.alter(store, Model) adds it."
                if table.index is None
                else LOST_FAMILY,
                table=difference.table, family=difference.family,
            )  # fmt: skip
    return differences


def _index_differences(binding: Binding) -> list[Difference]:
    undeclared = [
        Difference(binding.schema.table, "index", f"index {name}", None, "live", "left", UNDECLARED)
        for name in binding.unknown
    ]
    live = {index.name for index in binding.written}
    return undeclared + [unbuilt(binding.schema, name) for name in binding.schema.indexes if name not in live]


def _check_index_tables(store: Store, binding: Binding, existing: Collection[str]) -> None:
    """Raises an error if the table of a live index was dropped. If the table were created again, it would be empty, and
    queries through the index would find no rows.
    """
    missing = [index for index in binding.written if index.table not in existing]
    if not missing:
        return
    since = set(store.tables())  # a build may have created the table just now
    for index in missing:
        if index.table not in since:
            raise SchemaMismatch(
                LOST_TABLE,
                table=binding.schema.table,
                index=index.name,
                missing=index.table,
            )
