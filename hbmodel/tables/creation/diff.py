"""Compares live tables with the models that describe them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from hbmodel.errors import DeclarationError, SchemaMismatch
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.store.port import Store, check_store
from hbmodel.store.values import Family
from hbmodel.tables.creation.declared import DeclaredTable, SplitsOption, check_names, plan_tables
from hbmodel.tables.creation.existing_tables import (
    as_registered,
    is_external,
    is_live,
    missing_namespaces,
    namespace_of,
    needs_creation,
    registrations,
    state_of,
    unregistered_index,
)
from hbmodel.tables.creation.held_members import held_members
from hbmodel.tables.creation.index_tables import check_index_tables
from hbmodel.tables.creation.lacking_columns import lacking_columns
from hbmodel.tables.creation.undeclared_columns import registered_others, unmapped_columns
from hbmodel.tables.ids.id_tables import Declared, models_and_ids, opentsdb_dictionaries
from hbmodel.tables.ids.uid_check import uid_differences
from hbmodel.tables.registry.enum_members import MemberChange, member_changes
from hbmodel.tables.registry.gone_tables import WHY_GONE, WHY_PRIMARY_GONE
from hbmodel.tables.registry.layout_text import differing
from hbmodel.tables.registry.registered_fields import (
    SAFE,
    field_renames,
    layout_mismatches,
    match_indexes,
    moved_columns,
    renamed_index,
    same_entries,
    specs_to_compare,
    state_of_index,
)
from hbmodel.tables.registry.registration import ABSENT, READABLE, Registration
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry

Kind = Literal[
    "namespace", "table", "family", "option", "splits", "entry", "layout", "column", "member", "index", "rename"
]

Effect = Literal["safe", "lossy", "left", "refused"]

_SIGNS: Mapping[Effect, str] = {"safe": "~", "lossy": "-", "left": "=", "refused": "!"}

_NOT_BUILT = "registered as absent: its table is not created, and queries cannot use it until it is built"
UNDECLARED = (
    "the model does not declare this live index, so it may read but not write; hb.alter(..., drop=True) drops it"
)
_UNBUILT = (
    "queries cannot use it: it was declared on an existing table and is not built; hb.indexes.build_index() builds it"
)
_SAME_BYTES = "its bytes stay the same"
_SAME_ENTRIES = "its entries stay the same"
_NEW_MEMBER = (
    "programs whose enumeration lacks it cannot read rows that hold it, nor pages or scans with such rows "
    "(DecodingError): "
    "deploy it to all programs before one of them writes it"
)
_OLD_MEMBER = (
    "this model cannot read rows that hold it (DecodingError): keep the member until no row holds it, then "
    "hb.alter(..., drop=True) "
    "removes it from the registry"
)
_HELD_MEMBER = (
    "reading such a row would raise DecodingError: write another member into all of these rows with a model that has "
    "it, then repeat the call; or keep the member"
)
_UNMAPPED = "no field maps it: reads ignore it, and deleting the object deletes it too"
_LACKING = (
    "the column is required, and reading a row that lacks it raises IncompleteRow: give the column a default, and "
    "fill the rows before you "
    "make it required"
)
_UNREADABLE = (
    "the column is new and required, so programs with this model could not read these rows: give it a default, "
    "register and deploy the model, fill the rows, and then make the column required"
)
REQUIRED = "required"
"""What is declared in the difference of a required column that rows lack."""
_REPLACES = (
    "a new column: reads do not find the values that this field has in a column with another codec, which the model "
    "does not declare:"
)
_UNREGISTERED = (
    "the registry does not know the index table, nor its primary table: name the registry in which they are "
    "registered, or drop them"
)
_SHARED = "two models share it, and one of them would lose it"
_SHARED_FAMILY = (
    "two models share it, and a delete of one would delete cells of the other: choose another family; models can share "
    "a family if each had a kind= before it had rows"
)
_EXTERNAL = (
    "another program creates the table of an external model: correct its name, or call "
    "hb.create_tables(..., create_external=True)"
)
_UIDS = (
    "OpenTSDB creates its table of ids: correct its name, or the width of the ids; a table that is missing can be "
    "created with hb.create_tables(..., create_external=True)"
)
_FORGET = (
    "the registry knows another layout; if the model is right, hb.tables.forget(store, table, existing=True) removes "
    "it, and the table stays as it is"
)
_MISREAD = "rows are stored in the live layout: a model with another layout would misread or misplace them"


@frozen
class Difference:
    """One difference between a model and a live table.

    Attributes:
        table: the name of the table.
        kind: `namespace`, `table`, `family`, `option` (of a family), `splits`, `entry` (of the registry), `layout`,
            `column`, `member` (of an enumeration), `index`, or `rename` (of a key field, a column or an index).
        what: what differs, such as `family d ttl`.
        declared: what the model declares; None if it declares nothing.
        live: what the store has; None if it has nothing.
        effect: what `alter` does. `safe`: it applies the declaration. `lossy`: it does so only with `lossy=True`.
            `left`: it leaves the difference. `refused`: it refuses to change anything.
        why: the reason why it is not safe; for a safe difference, a remark.
        family: the name of the column family, for a `family`, an `option` or a `column`.
        option: the name of the option; a setting of the family's configuration begins with `configuration.`.
    """

    table: str
    kind: Kind
    what: str
    declared: Any
    live: Any
    effect: Effect = "safe"
    why: str | None = None
    family: str | None = None
    option: str | None = None

    @property
    def undeclared(self) -> bool:
        """Whether the difference is an index or an enumeration's member that the model does not declare."""
        return self.kind in {"index", "member"} and self.declared is None

    @property
    def safe(self) -> bool:
        """Whether `alter` applies the declaration without an option."""
        return self.effect == "safe"

    def __str__(self) -> str:
        if self.live is None and self.kind != "option":
            sign, told = "+" if self.safe else _SIGNS[self.effect], "missing"
        elif self.kind == "column" or (self.declared is None and self.kind == "member"):
            sign, told = _SIGNS[self.effect], str(self.live)
        elif self.kind == "rename":
            sign, told = _SIGNS[self.effect], f"renamed {self.live} -> {self.declared}"
        else:
            sign, told = _SIGNS[self.effect], f"{' -> '.join(reversed(self._values()))}"
        note = "" if self.why is None else f" ({self.why})"
        return f"{sign} {self.table}: {self.what}: {told}{note}"

    def _values(self) -> tuple[str, str]:
        """What is declared and what is live, for people."""
        if self.option == "ttl":
            return _seconds(self.declared), _seconds(self.live)
        if self.kind == "splits":
            return f"{len(self.declared) + 1} regions", f"{len(self.live) + 1} regions"
        if self.option is not None:
            return str(self.declared), str(self.live)
        return differing(self.declared, self.live)


def _seconds(ttl: int | None) -> str:
    return "forever" if ttl is None else f"{ttl} s"


@frozen
class Diff:
    """The differences between live tables and models; falsy if there are none.

    Its text has one line for each difference. The first character shows what `alter` does: with `+` it creates this,
    with `~` it changes this, with `-` it changes this only with `lossy=True`, and with `=` it leaves this as it is. If
    any line begins with `!`, `alter` refuses to change anything.
    """

    differences: Sequence[Difference]

    def __bool__(self) -> bool:
        return bool(self.differences)

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    def __len__(self) -> int:
        return len(self.differences)

    def __str__(self) -> str:
        return "\n".join(map(str, self.differences))


SAMPLE = 100
"""How many rows of each table are searched for columns that no model declares, for missing required columns, and for
members of enumerations that the registry is to forget.
"""


def diff(
    store: Store, *models: Declared, splits: SplitsOption = None, registry: str = REGISTRY_TABLE, sample: int = SAMPLE
) -> Diff:
    """Compares live tables with what models declare, and changes nothing.

    It reports missing tables and families. It compares the options of families that the model sets, the TTL (for an
    `external` model only if the model sets it), the registry's entry, and the indexes with their tables. Options that
    the store cannot read are not compared: the Thrift1 gateway returns neither block sizes nor configurations.

    A sample of rows is searched for columns that no model declares, and for required columns that are missing. Tables
    of `external` models are not searched, since they may hold any columns. If objects share rows, missing required
    columns are not searched.

    Args:
        store: the store that holds the tables.
        models: the models to compare, and sequences and dictionaries. The dictionaries that fields of models use are
            included.
        splits: as for `create_tables`. If it is given, the live regions are compared with it.
        registry: name of the registry table.
        sample: about how many rows of each table are searched; with 0, none are read.

    Raises:
        DeclarationError: no model was given, a strategy for splits does not suit its table, or the sample is not a
            whole number from 0 on.
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
    named, ids = models_and_ids(models)
    planned = [
        plan_tables([schema_of(model) for model in some], at, registry)
        for some, at in ((named, splits), (ids, None))
        if some
    ]
    check_names([table for some in planned for table in some], registry)
    differences = [
        difference for some in planned for difference in _differences(store, some, Registry(store, registry), sample)
    ]
    differences += _uid_differences(store, models)
    return Diff(tuple(difference for at, difference in enumerate(differences) if difference not in differences[:at]))


def _uid_differences(store: Store, models: Sequence[Declared]) -> Iterator[Difference]:
    """The differences in tables of OpenTSDB's ids."""
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
            yield from compare_families(store, table)
            yield from _compare_splits(store, table)
            if table.index is None and not any(schema.external for schema in table.schemas):
                yield from _unmapped_families(store, table, catalog, existing)
                if sample and catalog.table in existing:
                    yield from _unmapped_columns(store, table, catalog, entries, sample)
        if table.index is None:
            for schema in table.schemas:
                if table.name in existing or entries[schema] is not None:
                    yield from _compare_entry(catalog, schema, entries[schema], existing)
                yield from _conflicts(catalog, schema, existing)
        elif (
            entries[table.schemas[0]] is None and unregistered_index(table.schemas[0], existing, catalog) is table.index
        ):
            what = f"index table {table.name}"
            yield Difference(
                table.schemas[0].table, "index", what, "registered", "not registered", "refused", _UNREGISTERED
            )
        elif table.schemas[0].table in existing:
            yield from _compare_index(table, entries[table.schemas[0]], existing)
        else:
            yield from _other_entries(table, entries[table.schemas[0]])
            yield from _taken_index_table(store, catalog, table, existing)


# --- tables and families ----------------------------------------------------------------------------------------------


def compare_families(store: Store, table: DeclaredTable) -> Iterator[Difference]:
    """The differences in the families of a live table."""
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


def _unmapped_families(
    store: Store, table: DeclaredTable, catalog: Registry, existing: Collection[str]
) -> Iterator[Difference]:
    """Families of a live table that belong to none of these or the registered models. Deletes of objects do not delete
    cells in such families.
    """
    mapped = {family.name for family in table.families}
    live = [family.name for family in store.families(table.name) if family.name not in mapped]
    registered = catalog.families_of(table.name) if live and catalog.table in existing else set()
    for name in live:
        if name not in registered:
            why = "no model maps it: a delete of an object leaves what its row holds there"
            subject = f"family {name.decode()}"
            yield Difference(table.name, "family", subject, None, name.decode(), "left", why, family=name.decode())


def _unmapped_columns(
    store: Store,
    table: DeclaredTable,
    catalog: Registry,
    entries: Mapping[TableSchema, Registration | None],
    sample: int,
) -> Iterator[Difference]:
    """Columns in sampled rows that are declared neither by these models nor by other registered ones, and required
    columns that are missing.
    """
    others = registered_others(catalog, table.schemas)
    if others is None:
        return
    unmapped = unmapped_columns(store, table.schemas, others, sample)
    known = {
        column: spec
        for entry in entries.values()
        if entry is not None
        for column, spec in entry.layout["columns"].items()
    }
    for column, rows in unmapped.held.items():
        name = "" if column not in known else f"; the registry has it as {known[column]['name']}"
        live = f"in {rows} of {len(unmapped.rows)} sampled rows"
        yield Difference(
            table.name, "column", f"column {column}", None, live, "left", _UNMAPPED + name, column.partition(":")[0]
        )
    for schema, entry in entries.items():
        if entry is not None and schema in table.schemas and schema.wide is None:
            moved_places = {each.declared for each in moved_columns(schema, entry.layout)}
            for each in lacking_columns(store, schema, unmapped.rows, entry):
                column = each.column.decode("latin-1")
                if each.unreadable and column in moved_places:  # which is a difference of its own
                    continue
                live = f"missing in {each.missing} of {each.objects} sampled rows"
                effect: Effect = "refused" if each.unreadable else "left"
                why, family = _UNREADABLE if each.unreadable else _LACKING, column.partition(":")[0]
                yield Difference(table.name, "column", f"column {column}", REQUIRED, live, effect, why, family)


def _options(family: Family, live: Family, configurable: bool, external: bool) -> Iterator[tuple[str, Any, Any]]:
    """The name, declared value and live value of each option that the model gives and the store can read."""
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
    if not table.split_keys:
        return
    live = [region.range.start for region in store.regions(table.name)][1:]
    if live != list(table.split_keys):
        why = "HBase splits and merges the regions of a live table itself"
        yield Difference(table.name, "splits", "split keys", list(table.split_keys), live, "left", why)


# --- the registry -----------------------------------------------------------------------------------------------------


def _compare_entry(
    catalog: Registry, schema: TableSchema, entry: Registration | None, existing: Collection[str]
) -> Iterator[Difference]:
    if entry is None:
        known = sorted(
            family.decode() for family in (catalog.families_of(schema.table) if catalog.table in existing else ())
        )
        why = f"the registry has models of this table with other families: {', '.join(known)}" if known else None
        yield Difference(
            schema.table,
            "entry",
            f"registry entry of family {schema.family.decode()}",
            schema.layout_spec,
            None,
            why=why,
        )
        return
    renames = field_renames(schema, entry.layout)
    moved = moved_columns(schema, entry.layout)
    hints, moved_places = {each.what: each.hint for each in moved}, {each.declared for each in moved}
    for subject, declared, live in layout_mismatches(schema, entry.layout, SAFE):
        why = hints.get(subject) or (
            f"{_MISREAD}; if a field was renamed, say renamed_from=..."
            if any(r.how == "ambiguous" for r in renames)
            else _FORGET
            if schema.external
            else _MISREAD
        )
        why = why if schema.table in existing else WHY_GONE
        yield Difference(schema.table, "layout", subject, declared, live, "refused", why)
    for rename in renames:
        if rename.how in SAFE:
            yield Difference(schema.table, "rename", rename.what, rename.declared, rename.live, why=_SAME_BYTES)
    yield from _compare_names(schema, entry)
    known = entry.layout.get("columns", {})
    for column, spec in schema.layout_spec["columns"].items():
        if column not in known and column not in moved_places:
            yield Difference(
                schema.table, "column", f"column {column}", spec, None, why=_replaces(schema, spec["name"], known)
            )
    for change in member_changes(schema.layout_spec, entry.layout):
        subject = _member(change)
        if change.declared:
            yield Difference(schema.table, "member", subject, change.member, None, why=_NEW_MEMBER)
        else:
            yield Difference(schema.table, "member", subject, None, "not declared", "left", _OLD_MEMBER)
    for state in match_indexes(schema, entry).unknown:
        why = UNDECLARED
        yield Difference(schema.table, "index", f"index {state.name}", None, dict(state.spec), "left", why)


def _replaces(schema: TableSchema, name: str, known: Mapping[str, Any]) -> str | None:
    """What to know about a new column, if the registry has its field in another column that the model lacks."""
    for column, spec in known.items():
        if spec["name"] == name and column not in schema.layout_spec["columns"]:
            return f"{_REPLACES} {column}"
    return None


def _member(change: MemberChange) -> str:
    return f"{'' if change.place.startswith('key ') else 'column '}{change.place} member {change.member}"


def members_in_use(store: Store, catalog: Registry, schema: TableSchema) -> Iterator[Difference]:
    """The members of enumerations that the model does not have and that a sample of rows holds, so that the registry
    must not forget them.
    """
    entry = catalog.read(schema) if {catalog.table, schema.table} <= set(store.tables()) else None
    if entry is None:
        return
    found = held_members(store, schema, entry, SAMPLE)
    for change, objects in found.held.items():
        live = f"field {found.fields[change]} holds it in {objects} of {found.objects} sampled objects"
        yield Difference(schema.table, "member", _member(change), None, live, "refused", _HELD_MEMBER)


def _compare_names(schema: TableSchema, entry: Registration) -> Iterator[Difference]:
    """Differences for indexes that have other names in the registry, for ambiguous indexes, and for indexes whose names
    belong to different indexes.
    """
    matched = match_indexes(schema, entry)
    for name, state in sorted(matched.states.items()):
        if renamed_index(schema.indexes[name], state) is not None and (
            not is_live(state) or same_entries(schema.indexes[name], state)
        ):
            yield Difference(schema.table, "rename", "index", name, state.name, why=_SAME_ENTRIES)
    for name in matched.ambiguous:
        known = ", ".join(sorted(state.name for state in matched.unknown))
        why = "several indexes have the same entries: say hb.index(..., renamed_from=...)"
        yield Difference(schema.table, "index", f"index {name}", name, known, "refused", why)
    for name, state in sorted(matched.taken.items()):
        why = f"the name belongs to an index that is called {state.name} now: choose another"
        yield Difference(schema.table, "index", f"index {name}", name, state.name, "refused", why)


def _conflicts(catalog: Registry, schema: TableSchema, existing: Collection[str]) -> Iterator[Difference]:
    if catalog.table not in existing:
        return
    try:
        catalog.check_neighbours(schema)
    except SchemaMismatch as error:
        kind, shared = next(
            (kind, error.details[kind]) for kind in ("family", "index", "primary") if kind in error.details
        )
        subject, live = (
            ("table", f"an index table of {shared}") if kind == "primary" else (f"{kind} {shared}", "another model's")
        )
        why = _SHARED_FAMILY if kind == "family" else _SHARED
        if (shared if kind == "primary" else schema.table) not in existing:
            why = WHY_PRIMARY_GONE if kind == "primary" else WHY_GONE
        yield Difference(schema.table, "layout", subject, shared, live, "refused", why)


def unbuilt(schema: TableSchema, name: str) -> Difference:
    """The difference for a declared index that is registered as absent."""
    return Difference(schema.table, "index", f"index {name}", READABLE, ABSENT, "left", _UNBUILT)


def _other_entries(table: DeclaredTable, entry: Registration | None) -> Iterator[Difference]:
    """A difference if the primary table does not exist, and the entries of the registered index differ from those of
    the declared index.
    """
    index, schema = table.index, table.schemas[0]
    state = None if entry is None or index is None else state_of_index(schema, entry, index.name)
    if index is not None and state is not None and is_live(state) and not same_entries(index, state):
        specs = specs_to_compare(index, state)
        yield Difference(schema.table, "index", f"index {index.name}", *specs, "refused", WHY_GONE)


def _taken_index_table(
    store: Store, catalog: Registry, table: DeclaredTable, existing: Collection[str]
) -> Iterator[Difference]:
    """A difference if another table has the name of an index table that is to be created."""
    try:
        check_index_tables(store, catalog, [table], existing)
    except SchemaMismatch as error:
        yield Difference(
            table.name, "index", f"table of index {error.index}", table.name, "another table", "refused", error.message
        )


def _compare_index(table: DeclaredTable, entry: Registration | None, existing: Collection[str]) -> Iterator[Difference]:
    """The differences in one index of a live primary table."""
    index, schema = table.index, table.schemas[0]
    if index is None:
        return
    subject = f"index {index.name}"
    state = None if entry is None else state_of_index(schema, entry, index.name)
    if (
        state is None
        and entry is not None
        and index.name in {*match_indexes(schema, entry).ambiguous, *match_indexes(schema, entry).taken}
    ):
        return
    if state is None:
        yield Difference(schema.table, "index", subject, dict(index.spec), None, why=_NOT_BUILT)
    elif not same_entries(index, state):
        if not is_live(state):
            yield Difference(schema.table, "index", subject, dict(index.spec), dict(state.spec), why=_NOT_BUILT)
        else:
            why = "its entries are stored as the live index declares"
            yield Difference(schema.table, "index", subject, *specs_to_compare(index, state), "refused", why)
    elif not is_live(state):
        yield unbuilt(schema, index.name)
    if state is not None and is_live(state) and state.table not in existing:
        why = "an empty one would hide every row: drop the primary table too, and load the objects again"
        yield Difference(state.table, "index", f"table of index {index.name}", state.table, None, "refused", why)
