"""Compares live tables with the models that describe them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from attrs import evolve

from hbmodel.errors import DeclarationError, TableNotFound
from hbmodel.store.port import Store, check_store
from hbmodel.store.values import Family
from hbmodel.tables.creation.comparison.column_differences import compare_columns
from hbmodel.tables.creation.comparison.differences_as_text import Diff, Difference, Effect
from hbmodel.tables.creation.comparison.entry_differences import (
    compare_entry,
    compare_index,
    conflicts,
    is_registered_index,
    lost_family,
    other_entries,
    taken_index_table,
)
from hbmodel.tables.creation.declared import DeclaredTable, SplitsOption
from hbmodel.tables.creation.existing_tables import (
    as_registered,
    is_external,
    is_live,
    missing_namespaces,
    namespace_of,
    needs_creation,
    other_registry,
    registrations,
    state_of,
    unregistered_index,
)
from hbmodel.tables.creation.planned_tables import planned_tables
from hbmodel.tables.creation.row_samples import SAMPLE
from hbmodel.tables.ids.id_tables import Declared, opentsdb_dictionaries
from hbmodel.tables.ids.uid_check import uid_differences
from hbmodel.tables.registry.registration import ABSENT
from hbmodel.tables.registry.registry_cells import registered_families
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry

_UNREGISTERED = (
    "the registry does not know the index table, nor its primary table: name the registry in which they are "
    "registered; if their entry is lost, delete the index table only, call hb.create_tables() and build the index"
)
_OTHER_REGISTRY = "the other registry knows the table: name that registry, or forget the table in it"
_EXTERNAL = (
    "another program creates the table of an external model: correct its name, or call "
    "hb.create_tables(..., create_external=True)"
)
SHARED_LIFE = (
    "a model that is not given shares the family and has indexes, whose entries would expire before its rows: give all "
    "models of the table, each with the same TTL"
)
_UIDS = (
    "OpenTSDB creates its table of ids: correct its name, or the width of the ids; a table that is missing can be "
    "created with hb.create_tables(..., create_external=True)"
)


def diff(
    store: Store, *models: Declared, splits: SplitsOption = None, registry: str = REGISTRY_TABLE, sample: int = SAMPLE
) -> Diff:
    """Compares live tables with their models, and changes nothing.

    It reports missing tables and families. It compares the options of families that the model sets, the registry's
    entry, and the indexes with their tables. It also compares the TTL, for an `external` model only if the model sets
    it. Options that the store cannot read are not compared: the Thrift1 gateway returns neither block sizes nor
    configurations.

    A sample of rows is searched for columns that no model declares, and for required columns that are missing. Tables
    of `external` models are not searched, since they may hold any columns. Rows that objects share are not searched for
    missing required columns. If no rows are found, registered columns that the model does not declare are reported,
    provided that an earlier model may require them.

    Args:
        store: the store that holds the tables.
        models: the models to compare; sequences and dictionaries may also be given. The dictionaries that fields of
            models use are included.
        splits: as for `create_tables`. If given, it is compared with the live regions.
        registry: name of the registry table.
        sample: about how many rows of each table are searched; with 0, none are read.

    Raises:
        DeclarationError: no model was given, a strategy for splits does not suit its table, or the sample is not a
            whole number of at least 0.
        SchemaMismatch: two of the models share a family or an index name.
    """
    check_store(store)
    if not models:
        raise DeclarationError("Give at least one model: without any there is nothing to compare.")
    if type(sample) is not int or sample < 0:
        raise DeclarationError(
            "sample must be a whole number of at least 0: the number of rows to search in each table.",
            found=repr(sample),
        )
    catalog = Registry(store, registry)
    planned = planned_tables(store, models, splits, catalog)
    differences = [difference for some in planned for difference in _differences(store, some, catalog, sample)]
    differences += _uid_differences(store, models)
    return Diff(tuple(difference for at, difference in enumerate(differences) if difference not in differences[:at]))


def _uid_differences(store: Store, models: Sequence[Declared]) -> Iterator[Difference]:
    """Yields the differences in the tables of OpenTSDB's ids."""
    dictionaries = opentsdb_dictionaries(models)
    existing = set(store.tables()) if dictionaries else set()
    for dictionary in dictionaries:
        table = dictionary.table
        if table not in existing:
            yield Difference(table, "table", "table", table, None, "refused", _UIDS)
            continue
        for each in uid_differences(store, dictionary):
            yield Difference(table, "layout", each.what, each.declared, each.live, "refused", _UIDS)


def _differences(
    store: Store, planned: Sequence[DeclaredTable], catalog: Registry, sample: int
) -> Iterator[Difference]:
    existing = set(store.tables())
    entries = registrations(planned, catalog, existing)
    wanted = [as_registered(table, entries) for table in planned]
    missing = [table for table in wanted if needs_creation(table, existing)]
    new = [catalog.table, *(table.name for table in missing)]
    for namespace in missing_namespaces(store, new, existing):
        first = next(name for name in new if namespace_of(name) == namespace)
        yield Difference(first, "namespace", f"namespace {namespace}", namespace, None)
    if catalog.table not in existing:
        yield Difference(catalog.table, "table", "registry table", catalog.table, None)
    for table in wanted:
        if table in missing:
            what = "table" if table.index is None else "index table"
            if is_external(table):
                yield Difference(table.name, "table", what, table.name, None, "refused", _EXTERNAL)
            else:
                yield Difference(table.name, "table", what, table.name, None)
        elif table.name in existing and (table.index is None or is_live(state_of(table, entries))):
            lost = is_registered_index(table, entries[table.schemas[0]])
            for difference in compare_families(store, table):
                if lost and difference.kind == "family":
                    yield lost_family(difference)
                elif difference.option == "ttl" and difference.safe and _outlives_entries(catalog, table, difference):
                    yield evolve(difference, effect="refused", why=SHARED_LIFE)
                else:
                    yield difference
            yield from _compare_splits(store, table)
            if table.index is None and not any(schema.external for schema in table.schemas):
                yield from _unmapped_families(store, table, catalog, existing)
                if sample and catalog.table in existing:
                    yield from compare_columns(store, table, catalog, entries, sample)
        if table.index is None:
            for schema in table.schemas:
                other = other_registry(store, schema, existing, catalog) if entries[schema] is None else None
                if other is not None:
                    yield Difference(table.name, "entry", "registry", catalog.table, other, "refused", _OTHER_REGISTRY)
                elif table.name in existing or entries[schema] is not None:
                    yield from compare_entry(catalog, schema, entries[schema], existing)
                yield from conflicts(catalog, schema, existing)
        elif (
            entries[table.schemas[0]] is None and unregistered_index(table.schemas[0], existing, catalog) is table.index
        ):
            what = f"index table {table.name}"
            yield Difference(
                table.schemas[0].table, "index", what, "registered", "not registered", "refused", _UNREGISTERED
            )
        elif table.schemas[0].table in existing:
            yield from compare_index(table, entries[table.schemas[0]], existing)
        else:
            yield from other_entries(table, entries[table.schemas[0]])
            yield from taken_index_table(store, catalog, table, existing)


# --- tables and families ----------------------------------------------------------------------------------------------


def compare_families(store: Store, table: DeclaredTable) -> Iterator[Difference]:
    """Yields the differences in the families of a live table."""
    live = {family.name: family for family in store.families(table.name)}
    configurable = store.capabilities.family_configuration
    external = {name for schema in table.schemas if schema.external for name in schema.family_names}
    for family in table.families:
        name = family.name.decode()
        live_family = live.get(family.name)
        if live_family is None:
            yield Difference(table.name, "family", f"family {name}", family, None, family=name)
            continue
        for option, declared, there in _options(family, live_family, configurable, family.name in external):
            if declared != there:
                loss = _loss(option, declared, there)
                effect: Effect = "safe" if loss is None else "lossy"
                yield Difference(
                    table.name, "option", f"family {name} {option}", declared, there, effect, loss, name, option
                )


def _outlives_entries(catalog: Registry, table: DeclaredTable, difference: Difference) -> bool:
    """Returns whether a longer TTL of a family would let rows of a model that is not given outlive their index entries.
    The TTL of the index tables of such a model does not change.
    """
    if table.index is not None:
        return False
    given = {registry_row(schema) for schema in table.schemas}
    family = str(difference.family).encode()
    try:
        keys = [key for key in catalog.keys_of_table(table.name) if registry_row(key) not in given]
    except TableNotFound:  # there is no registry table yet
        return False
    others = [(key, catalog.read(key)) for key in keys]
    return any(
        other is not None
        and family in {key.family, *registered_families(other.layout)}
        and any(state.state != ABSENT for state in other.indexes.values())
        for key, other in others
    )


def _unmapped_families(
    store: Store, table: DeclaredTable, catalog: Registry, existing: Collection[str]
) -> Iterator[Difference]:
    """Yields the families of a live table that belong neither to one of these models nor to a registered one. Deletes
    of objects do not delete cells in such families.
    """
    mapped = {family.name for family in table.families}
    live = [family.name for family in store.families(table.name) if family.name not in mapped]
    registered = catalog.families_of(table.name) if live and catalog.table in existing else set()
    for name in live:
        if name not in registered:
            why = "no model maps it: a delete of an object leaves what its row holds there"
            subject = f"family {name.decode()}"
            yield Difference(table.name, "family", subject, None, name.decode(), "left", why, family=name.decode())


def _options(family: Family, live: Family, configurable: bool, external: bool) -> Iterator[tuple[str, Any, Any]]:
    """Yields the name, declared value and live value of each option that the model sets and the store can read."""
    if family.ttl is not None or not external:
        yield "ttl", family.ttl, live.ttl
    names = ["max_versions", "compression", "bloom_filter", "in_memory", *(["block_size"] if configurable else [])]
    for option in names:
        if getattr(family, option) is not None:
            yield option, getattr(family, option), getattr(live, option)
    for setting in sorted(family.configuration) if configurable else []:
        yield f"configuration.{setting}", family.configuration[setting], live.configuration.get(setting)


def _loss(option: str, declared: Any, live: Any) -> str | None:
    if option == "ttl" and declared is not None and (live is None or declared < live):
        return "cells older than the new TTL disappear at once"
    if option == "max_versions" and declared < live:
        return "the next compaction removes older versions"
    return None


def _compare_splits(store: Store, table: DeclaredTable) -> Iterator[Difference]:
    if table.split_keys is None:
        return
    live = [region.range.start for region in store.regions(table.name)][1:]
    if live != list(table.split_keys):
        why = "HBase splits and merges the regions of a live table itself"
        yield Difference(table.name, "splits", "split keys", list(table.split_keys), live, "left", why)
