"""Compares models with their entries in the registry: layouts, names, members of enumerations, and indexes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from attrs import evolve

from hbmodel.errors import SchemaMismatch
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.relocation.migration_phases import DONE
from hbmodel.store.port import Store
from hbmodel.tables.creation.comparison.differences_as_text import Difference
from hbmodel.tables.creation.declared import DeclaredTable
from hbmodel.tables.creation.existing_tables import is_dropping, is_live
from hbmodel.tables.creation.index_tables import REBUILD, check_index_tables
from hbmodel.tables.registry.enum_members import member_changes
from hbmodel.tables.registry.gone_tables import WHY_GONE, WHY_PRIMARY_GONE
from hbmodel.tables.registry.migration_phase import check_moves
from hbmodel.tables.registry.nullable_columns import none_must_wait, nullable_after_migration
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
from hbmodel.tables.registry.registration import ABSENT, READABLE, IndexState, Registration
from hbmodel.tables.registry.registry_cells import EXTERNAL
from hbmodel.tables.registry.registry_table import Registry

_NOT_BUILT = "registered as absent: its table is not created, and queries cannot use it until it is built"
UNDECLARED = (
    "the model does not declare this live index, so it may read but not write; hb.alter(..., drop=True) drops it"
)
_UNBUILT = (
    "queries cannot use it: it was declared on an existing table and is not built; hb.indexes.build_index(), or "
    "`hbmodel index build`, builds it"
)
_UNFINISHED = (
    "queries cannot use it: its build has not ended; if no build is running, hb.indexes.build_index(), or "
    "`hbmodel index build`, continues it"
)
_DROPPING = (
    "queries cannot use it: a drop of it has begun; let hb.indexes.drop_index(), or `hbmodel index drop`, finish, and "
    "then build it, or remove it from the model"
)
_OTHER_ENTRIES = (
    "its entries are stored as the live index declares: declare the changed index under another name, or drop the live "
    "one first, with hb.indexes.drop_index() or `hbmodel index drop`"
)
_NULL = ("nullable", "null")
_SAME_BYTES = "its bytes stay the same"
_SAME_ENTRIES = "its entries stay the same"
_NULLABLE = (
    "its bytes stay the same; hb.alter() refuses programs with the earlier model from then on, and None may be written "
    "after it: deploy this model to all programs first"
)
NULLABLE_LATER = (
    "a model that replaces another cannot newly allow None: let the migration end, remove replaces=, and then allow it"
)
_NEW_MEMBER = (
    "programs whose enumeration lacks it cannot read rows that hold it, nor pages or scans with such rows "
    "(DecodingError): deploy it to all programs before one of them writes it"
)
_OLD_MEMBER = (
    "this model cannot read rows that hold it (DecodingError): keep the member until no row holds it, then "
    "hb.alter(..., drop=True) removes it from the registry"
)
_REPLACES = (
    "a new column: reads do not find the values that this field has in a column with another codec, which the model "
    "does not declare:"
)
_SHARED = "two models share it, and one of them would lose it"
_SHARED_FAMILY = (
    "two models share it, and a delete of one would delete cells of the other: choose another family; models can share "
    "a family if each had a kind= before it had rows"
)
_FORGET = (
    "the registry knows another layout; if the model is right, hb.tables.forget(store, table, existing=True) removes "
    "it, and the table stays as it is"
)
_OTHERS_WRITE = "other programs write the table, and a delete would remove their cells: declare external=True"
_MISREAD = "rows are stored in the live layout: a model with another layout would misread or misplace them"


def compare_entry(
    catalog: Registry, schema: TableSchema, entry: Registration | None, existing: Collection[str]
) -> Iterator[Difference]:
    """Yields the differences between a model and its registry entry, except those of declared indexes."""
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
    try:
        check_moves(schema, entry.move, entry.cells)
    except SchemaMismatch as error:
        other, what = error.details.get("to"), "objects have moved to" if error.phase == DONE else "objects move to"
        live = f"objects move here from {error.replaces}" if other is None else f"{what} {other}"
        yield Difference(schema.table, "layout", "table", schema.table, live, "refused", error.message)
    renames = field_renames(schema, entry.layout)
    moved = moved_columns(schema, entry.layout)
    hints, moved_places = {each.what: each.hint for each in moved}, {each.declared for each in moved}
    later = {f"column {place} {part}" for place in nullable_after_migration(schema, entry.layout) for part in _NULL}
    hints |= dict.fromkeys(later, NULLABLE_LATER)
    for subject, declared, live in layout_mismatches(schema, entry.layout, SAFE):
        why = hints.get(subject) or (
            f"{_MISREAD}; if a field was renamed, declare renamed_from=..."
            if any(r.how == "ambiguous" for r in renames)
            else _FORGET
            if schema.external
            else _MISREAD
        )
        why = why if schema.table in existing else WHY_GONE
        yield Difference(schema.table, "layout", subject, declared, live, "refused", why)
    if EXTERNAL in entry.cells and not schema.external:
        yield Difference(schema.table, "layout", "external", False, True, "refused", _OTHERS_WRITE)
    for rename in renames:
        if rename.how in SAFE:
            yield Difference(schema.table, "rename", rename.what, rename.declared, rename.live, why=_SAME_BYTES)
    for field in none_must_wait(schema, entry.layout):
        what = f"column {field.column.decode('latin-1')} nullable"
        yield Difference(schema.table, "layout", what, True, False, why=_NULLABLE)
    yield from _compare_names(schema, entry)
    known = entry.layout.get("columns", {})
    for column, spec in schema.layout_spec["columns"].items():
        if column not in known and column not in moved_places:
            yield Difference(
                schema.table, "column", f"column {column}", spec, None, why=_replaces(schema, spec["name"], known)
            )
    for change in member_changes(schema.layout_spec, entry.layout):
        subject = change.what
        if change.declared:
            yield Difference(schema.table, "member", subject, change.member, None, why=_NEW_MEMBER)
        else:
            yield Difference(schema.table, "member", subject, None, "not declared", "left", _OLD_MEMBER)
    for state in match_indexes(schema, entry).unknown:
        why = UNDECLARED
        yield Difference(schema.table, "index", f"index {state.name}", None, dict(state.spec), "left", why)


def _replaces(schema: TableSchema, name: str, known: Mapping[str, Any]) -> str | None:
    """Returns a remark about a new column if its field is registered with another column, which the model lacks."""
    for column, spec in known.items():
        if spec["name"] == name and column not in schema.layout_spec["columns"]:
            return f"{_REPLACES} {column}"
    return None


def _compare_names(schema: TableSchema, entry: Registration) -> Iterator[Difference]:
    """Yields the differences for indexes with other names in the registry, for ambiguous indexes, and for indexes whose
    names are registered for different indexes.
    """
    matched = match_indexes(schema, entry)
    for name, state in sorted(matched.states.items()):
        if renamed_index(schema.indexes[name], state) is not None and (
            not is_live(state) or same_entries(schema.indexes[name], state)
        ):
            yield Difference(schema.table, "rename", "index", name, state.name, why=_SAME_ENTRIES)
    for name in matched.ambiguous:
        known = ", ".join(sorted(state.name for state in matched.unknown))
        why = "several indexes have the same entries: declare hb.index(..., renamed_from=...)"
        yield Difference(schema.table, "index", f"index {name}", name, known, "refused", why)
    for name, state in sorted(matched.taken.items()):
        why = f"the name belongs to an index that is called {state.name} now: choose another"
        yield Difference(schema.table, "index", f"index {name}", name, state.name, "refused", why)


def conflicts(catalog: Registry, schema: TableSchema, existing: Collection[str]) -> Iterator[Difference]:
    """Yields the difference for a family, an index name or a table that two models must not share, if there is one."""
    if catalog.table not in existing:
        return
    try:
        catalog.check_neighbours(schema)
    except SchemaMismatch as error:
        if "replaces" in error.details:
            live = f"objects of {error.details['replaces']} are being moved into it"
            yield Difference(schema.table, "layout", "table", schema.table, live, "refused", error.message)
            return
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
    """Returns the difference for a declared index that is registered as absent."""
    return Difference(schema.table, "index", f"index {name}", READABLE, ABSENT, "left", _UNBUILT)


def _unfinished(schema: TableSchema, state: IndexState, name: str) -> Difference:
    """Returns the difference for a declared index whose build or drop has begun but not ended."""
    why = _DROPPING if is_dropping(state) else _UNFINISHED
    return Difference(schema.table, "index", f"index {name}", READABLE, state.state, "left", why)


def other_entries(table: DeclaredTable, entry: Registration | None) -> Iterator[Difference]:
    """Yields a difference if the primary table does not exist and the registered index has other entries than the
    declared index.
    """
    index, schema = table.index, table.schemas[0]
    state = None if entry is None or index is None else state_of_index(schema, entry, index.name)
    if index is not None and state is not None and is_live(state) and not same_entries(index, state):
        specs = specs_to_compare(index, state)
        yield Difference(schema.table, "index", f"index {index.name}", *specs, "refused", WHY_GONE)


def taken_index_table(
    store: Store, catalog: Registry, table: DeclaredTable, existing: Collection[str]
) -> Iterator[Difference]:
    """Yields a difference if another table has the name of an index table that is to be created."""
    try:
        check_index_tables(store, catalog, [table], existing)
    except SchemaMismatch as error:
        yield Difference(
            table.name, "index", f"table of index {error.index}", table.name, "another table", "refused", error.message
        )


def is_registered_index(table: DeclaredTable, entry: Registration | None) -> bool:
    """Returns whether a table is the table of an index that is registered with the same entries."""
    index = table.index
    state = None if entry is None or index is None else state_of_index(table.schemas[0], entry, index.name)
    return index is not None and state is not None and same_entries(index, state)


def lost_family(difference: Difference) -> Difference:
    """Returns the difference for a family that the table of a live index has lost."""
    return evolve(difference, effect="refused", why=f"an empty one would hide rows: {REBUILD}")


def compare_index(table: DeclaredTable, entry: Registration | None, existing: Collection[str]) -> Iterator[Difference]:
    """Yields the differences in one index of a live primary table."""
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
            specs = specs_to_compare(index, state)
            yield Difference(schema.table, "index", subject, *specs, "refused", _OTHER_ENTRIES)
    elif is_dropping(state) or state.state not in {ABSENT, READABLE}:
        yield _unfinished(schema, state, index.name)
    elif not is_live(state):
        yield unbuilt(schema, index.name)
    if state is not None and is_live(state) and state.table not in existing:
        why = f"an empty one would hide every row: {REBUILD}"
        yield Difference(state.table, "index", f"table of index {index.name}", state.table, None, "refused", why)
