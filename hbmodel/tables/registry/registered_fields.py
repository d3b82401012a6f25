"""Finds the registered fields and indexes that correspond to those of a model, even under other names, and compares
them.

A key field is identified by its place in the key, a column, counter or map column by its family and qualifier, and an
index by its name and its entries. The registry keeps the earlier names of fields and indexes, so that programs from
before and after a rename use the same tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from hbmodel.errors import SchemaMismatch
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.tables.registry.layout_differences import (
    canonical_json,
    compare_layouts,
    difference_line,
    jsonable,
    same_spec,
)
from hbmodel.tables.registry.nullable_columns import new_nullable_columns
from hbmodel.tables.registry.registration import ABSENT, IndexState, Registration

How = Literal["said", "seen", "ambiguous"]
"""The evidence for a rename. `said`: it is declared. `seen`: the bytes allow no other rename. `ambiguous`: the bytes
allow several renames.
"""


TAKEN = (
    "Another model of the table has this column family: choose another family. Models can share a family if each had a "
    "kind= before it had rows, and if neither kind begins with the other. Two external models can share one if no "
    "column of the one, and no cell of hbmodel such as _t, begins with the kind of the other, and hb.create_tables() "
    "has registered both."
)
ALL_VERSIONED = (
    "Models whose objects share rows must all be versioned, or none of them: the version belongs to the row."
)

_LIVE = (
    "The live table does not have the layout that the model declares, and it cannot be changed: restore the "
    "declaration that `live` shows, declare a changed column under another name and alias and a changed index under "
    "another name, or move the objects to another table with hb.migration.migrate()."
)

_EXTERNAL = (
    "The registry knows this table of other programs with a layout that differs from the model. If the model is "
    "right, remove the registered layout with hb.tables.forget(store, table, existing=True) or `hbmodel registry "
    "forget TABLE --existing`: the table and its rows stay as they are. Then call hb.tables.adopt(store, Model)."
)

_DECLARED_BY = {"column": "hb.column", "counter": "hb.counter", "map": "hb.map_column"}
"""The functions that declare columns, by the kind of the column."""

SAFE: Sequence[How] = ("said", "seen")
"""The renames that `hb.alter` makes."""


@frozen
class Rename:
    """A field whose registered name differs from the declared name.

    Attributes:
        what: `key field` or `column d:n`.
        place: the place of the field's bytes, such as `key 0`, or the column.
    """

    what: str
    place: str
    live: str
    declared: str
    how: How


@frozen
class MovedColumn:
    """A field whose declared column differs from its column in the registry, so that reads would miss its values.

    Attributes:
        field: the declared name.
        live_name: the registered name.
        declared: the declared column, such as `d:amount`.
        live: the registered column; the model does not declare it.
        function: the function that declares such a column, such as `hb.counter`.
    """

    field: str
    live_name: str
    declared: str
    live: str
    function: str = "hb.column"

    @property
    def what(self) -> str:
        """The subject of the difference."""
        return f"column of {self.field}"

    @property
    def hint(self) -> str:
        """What the user should declare instead."""
        return (
            f"{self.field}: its values are in {self.live}: declare {self.declaration}. If it is a new column, give the "
            "field another name"
        )

    @property
    def declaration(self) -> str:
        """The declaration with which the field has the values of the registered column."""
        renamed = "" if self.field == self.live_name else f', renamed_from="{self.live_name}"'
        return f'{self.function}("{self.live.partition(":")[2]}"{renamed})'


@frozen
class MatchedIndexes:
    """The declared indexes of a model, compared with its registered indexes.

    Attributes:
        states: the states of declared indexes that are registered, by the declared name.
        undeclared: the registered indexes that the model does not declare.
        ambiguous: names of declared indexes that could be any of several registered ones.
        taken: the declared names that a different registered index has or had, each with that index. The declared index
            itself is either not registered, or is registered with a different name.
    """

    states: Mapping[str, IndexState]
    undeclared: Sequence[IndexState]
    ambiguous: Sequence[str]
    taken: Mapping[str, IndexState]

    @property
    def unknown(self) -> Sequence[IndexState]:
        """The undeclared indexes that are live."""
        return [state for state in self.undeclared if state.state != ABSENT]


# --- fields -----------------------------------------------------------------------------------------------------------


def has_place(layout: Mapping[str, Any], place: str) -> bool:
    """Returns whether a place of the model is in a registered layout. The version of a model is not."""
    return int(place[4:]) < len(layout["key"]) if place.startswith("key ") else place in layout["columns"]


def names_at(layout: Mapping[str, Any], place: str) -> list[str]:
    """Returns the names of a registered field, the current name first and then the earlier names."""
    spec = layout["key"][int(place[4:])] if place.startswith("key ") else layout["columns"][place]
    return [spec["name"], *layout.get("was", {}).get(place, ())]


def field_renames(schema: TableSchema, layout: Mapping[str, Any]) -> list[Rename]:
    """Returns the fields whose declared names are not registered."""
    return [*_key_renames(schema, layout), *_column_renames(schema, layout)]


def _key_renames(schema: TableSchema, layout: Mapping[str, Any]) -> Iterator[Rename]:
    declared, live = jsonable(schema.layout.field_specs), layout.get("key", [])
    if [_nameless(f) for f in declared] != [_nameless(f) for f in live]:
        return
    names = [names_at(layout, f"key {at}") for at in range(len(live))]
    changed = [at for at, f in enumerate(schema.key_fields) if f.name not in names[at]]
    unsaid = [at for at in changed if schema.key_fields[at].renamed_from not in names[at]]
    own, known = {f.name for f in schema.key_fields}, {each[0] for each in names}
    for at in changed:
        key_field = schema.key_fields[at]
        how: How = "said" if at not in unsaid else "seen"
        alike = [other for other in unsaid if _nameless(live[other]) == _nameless(live[at])]
        if how == "seen" and (len(alike) > 1 or key_field.name in known or names[at][0] in own):
            how = "ambiguous"
        yield Rename("key field", f"key {at}", names[at][0], key_field.name, how)


def _column_renames(schema: TableSchema, layout: Mapping[str, Any]) -> Iterator[Rename]:
    columns, declared = layout.get("columns", {}), jsonable(schema.layout_spec["columns"])
    for place, field in schema.stored_places:
        if place not in columns or place not in declared or _nameless(columns[place]) != _nameless(declared[place]):
            continue
        names = names_at(layout, place)
        if field.name in names:
            continue
        how: How = "said" if field.renamed_from in names else "seen"
        if how == "seen" and any(
            other != place and _nameless(spec) == _nameless(columns[place]) and field.name == spec["name"]
            for other, spec in columns.items()
        ):
            how = "ambiguous"
        yield Rename(f"column {place}", place, names[0], field.name, how)


def moved_columns(schema: TableSchema, layout: Mapping[str, Any]) -> list[MovedColumn]:
    """Returns the fields whose values are stored in a registered column that the model does not declare.

    These are the fields whose `renamed_from=` is the name of that column's field, and those that have the name and the
    codec of the registered column.

    A registered column with another codec was probably replaced on purpose. For an external model, only `renamed_from=`
    is considered, because its registered layout may simply be corrected.
    """
    columns, declared = layout.get("columns", {}), jsonable(schema.layout_spec["columns"])
    said = {place: field.renamed_from for place, field in schema.stored_places}
    moved: list[MovedColumn] = []
    for place, spec in declared.items():
        known = place in columns
        if known and said.get(place) in (None, *names_at(layout, place)):
            continue
        for live_place, live in columns.items():
            alike = not known and not schema.external and _nameless(live) == _nameless(spec)
            same = alike and live["name"] == spec["name"]
            if live_place not in declared and (same or said.get(place) in names_at(layout, live_place)):
                moved.append(MovedColumn(spec["name"], live["name"], place, live_place, _DECLARED_BY[spec["kind"]]))
    return moved


def possible_renames(schema: TableSchema, layout: Mapping[str, Any]) -> list[MovedColumn]:
    """Returns the new columns of a model that may be registered columns under other names and aliases.

    Each of them differs only in its name and alias from a registered column that the model does not declare. A field
    that is renamed without an alias gets another column too, because its alias is its name. Whether a field was
    renamed, or removed and another one added, is not known.
    """
    columns, declared = layout.get("columns", {}), jsonable(schema.layout_spec["columns"])
    return [
        MovedColumn(spec["name"], live["name"], place, live_place, _DECLARED_BY[spec["kind"]])
        for place, spec in declared.items()
        for live_place, live in columns.items()
        if place not in columns
        and live_place not in declared
        and _nameless(live) == _nameless(spec)
        and place.partition(":")[0] == live_place.partition(":")[0]
    ]


def _nameless(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in spec.items() if name != "name"}


def as_registered_names(schema: TableSchema, layout: Mapping[str, Any], renames: Sequence[Rename]) -> Mapping[str, Any]:
    """Returns the declared layout. A key field whose declared name is also registered, or that `renames` renames, has
    the registry's current name in it.
    """
    declared: Mapping[str, Any] = schema.layout_spec
    renamed = {rename.place for rename in renames}
    names: dict[str, str] = {}
    for at, key_field in enumerate(schema.key_fields[: len(layout.get("key", ()))]):
        known = names_at(layout, f"key {at}")
        if key_field.name in known or f"key {at}" in renamed:
            names[key_field.name] = known[0]
    key = [{**spec, "name": names.get(spec["name"], spec["name"])} for spec in declared["key"]]
    salt = {**declared["salt"], "by": [names.get(name, name) for name in declared["salt"]["by"]]}
    return {**declared, "key": key, "salt": salt}


def renamed_layout(layout: Mapping[str, Any], renames: Collection[Rename]) -> dict[str, Any]:
    """Returns a registered layout in which fields have new names. It also keeps their earlier names."""
    renamed: dict[str, Any] = {
        **layout,
        "key": [dict(spec) for spec in layout["key"]],
        "columns": dict(layout["columns"]),
    }
    was = {place: list(names) for place, names in layout.get("was", {}).items()}
    names = {rename.live: rename.declared for rename in renames if rename.place.startswith("key ")}
    renamed["salt"] = {**layout["salt"], "by": [names.get(name, name) for name in layout["salt"]["by"]]}
    for rename in renames:
        if rename.place.startswith("key "):
            renamed["key"][int(rename.place[4:])]["name"] = rename.declared
        else:
            renamed["columns"][rename.place] = {**renamed["columns"][rename.place], "name": rename.declared}
        was[rename.place] = sorted({rename.live, *was.get(rename.place, ())})
    return {**renamed, "was": was} if was else renamed


def first_layout(schema: TableSchema) -> dict[str, Any]:
    """Returns the layout of a table that is registered for the first time. It has the earlier names that the model
    declares, so that programs from before the renames can use the table.
    """
    was = {place: [field.renamed_from] for place, field in schema.stored_places if field.renamed_from is not None}
    return {**schema.layout_spec, "was": was} if was else dict(schema.layout_spec)


def layout_mismatches(
    schema: TableSchema, layout: Mapping[str, Any], hows: Sequence[How] = ("said",)
) -> list[tuple[str, Any, Any]]:
    """Returns the differences between the layout of a model and the registered layout. Each difference consists of its
    subject, the declared value, and the live value. New nullable columns do not count as differences.

    Args:
        hows: renames of key fields with this evidence do not count as differences.
    """
    renames = field_renames(schema, layout)
    mismatches = compare_layouts(as_registered_names(schema, layout, [r for r in renames if r.how in hows]), layout)
    may_be_none = {
        f"column {place} {part}" for place in new_nullable_columns(schema, layout) for part in ("nullable", "null")
    }
    mismatches = [mismatch for mismatch in mismatches if mismatch[0] not in may_be_none]
    mismatches += [(moved.what, moved.declared, moved.live) for moved in moved_columns(schema, layout)]
    return mismatches + [
        (r.what, r.declared, r.live) for r in renames if r.how == "ambiguous" and not r.place.startswith("key ")
    ]


def rename_hints(schema: TableSchema, layout: Mapping[str, Any]) -> list[str]:
    """Returns hints for renames that the model does not declare, and for columns with another alias. A hint says what
    to declare, or which function to call.
    """
    lines = [moved.hint for moved in moved_columns(schema, layout)]
    for rename in field_renames(schema, layout):
        is_key = rename.place.startswith("key ")
        function = "hb.key" if is_key else _DECLARED_BY[layout["columns"][rename.place]["kind"]]
        say = f'if it was called {rename.live} before, declare {function}(renamed_from="{rename.live}")'
        newer = f"if {rename.live} is its new name, this program is older: give the field this name"
        if rename.how == "ambiguous":
            lines.append(f"{rename.what} {rename.declared}: {say}; {newer}")
        elif rename.how == "seen" and is_key:
            lines.append(f"{rename.what} {rename.declared}: {say} or call hb.alter(); {newer}")
    return lines


# --- indexes ----------------------------------------------------------------------------------------------------------


def same_entries(index: Index, state: IndexState) -> bool:
    """Returns whether a registered index has the same entries as a declared index."""
    stored = state.entry.get("stored")
    return (
        same_spec(index.spec, state.spec)
        if stored is None
        else canonical_json(stored) == canonical_json(index.stored_spec)
    )


def specs_to_compare(index: Index, state: IndexState) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Returns the declared and the registered description of an index. Both contain the names of fields or, if only the
    names differ, the places of fields.
    """
    declared, live = index.spec, state.spec
    if same_spec(declared, live) and not same_entries(index, state):
        declared, live = index.stored_spec, state.entry["stored"]
    said = {"verified": False} if declared.get("verified") != live.get("verified") else {}
    return {**said, **declared}, {**said, **live}


def match_indexes(schema: TableSchema, registration: Registration) -> MatchedIndexes:
    """Finds the registered index of each declared one.

    The first choice is an index with a table that has, or once had, the declared name or the name in `renamed_from`.
    The second choice is the only index with the same entries. The last choice is an index without a table whose cell
    has one of these names. Nothing needs to be kept of an index without a table, so a declared index that has the name
    of the cell takes precedence over a declared index that has this name in `renamed_from`.
    """
    free = dict(registration.indexes)
    states: dict[str, IndexState] = {}

    def take(pairs: Iterable[tuple[str, str]]) -> None:
        for name, cell in pairs:
            if name not in states and cell in free:
                states[name] = free.pop(cell)

    by_name = [
        (_likeness(index, state), name, cell)
        for name, index in schema.indexes.items()
        for cell, state in registration.indexes.items()
        if state.tables and {name, index.renamed_from} & {state.name, *state.earlier_names}
    ]
    take((name, cell) for _, name, cell in sorted(by_name, key=lambda pair: pair[0], reverse=True))
    empty = {cell for cell, state in free.items() if not state.tables}
    own = {name for name, index in schema.indexes.items() if {name, index.renamed_from} & empty}
    ambiguous: list[str] = []
    for wanting in (
        [index for name, index in schema.indexes.items() if name not in states and (name in own) == late]
        for late in (False, True)
    ):
        for index in wanting:
            alike = [state for state in free.values() if state.state != ABSENT and same_entries(index, state)]
            others = [
                other for other in wanting if canonical_json(other.stored_spec) == canonical_json(index.stored_spec)
            ]
            if len(alike) == len(others) == 1:
                take([(index.name, alike[0].cell)])
            elif alike:
                ambiguous.append(index.name)
    take((name, cell) for name in schema.indexes for cell in empty if cell == name)
    take((name, cell) for name, index in schema.indexes.items() for cell in empty if cell == index.renamed_from)
    taken = dict(_taken(schema, registration, states))
    for name in taken:
        if name in states:
            state = states.pop(name)
            free[state.cell] = state
    return MatchedIndexes(states, list(free.values()), [name for name in ambiguous if name not in states], taken)


def _taken(
    schema: TableSchema, registration: Registration, states: Mapping[str, IndexState]
) -> Iterator[tuple[str, IndexState]]:
    """Yields the declared names that another registered index has or had, each with that index."""
    names = {state.cell: {state.name, *state.earlier_names} for state in registration.indexes.values() if state.tables}
    for name, state in states.items():
        if renamed_index(schema.indexes[name], state) is not None:
            names[state.cell] = {name}  # indexes that exchange their names are renamed together
    for name, index in schema.indexes.items():
        own = states.get(name)
        if own is None or not own.tables or renamed_index(index, own) is not None:
            for cell, index_names in names.items():
                if (own is None or cell != own.cell) and name in {*index_names, *([cell] if own is None else [])}:
                    yield name, registration.indexes[cell]
                    break


def _likeness(index: Index, state: IndexState) -> tuple[bool, ...]:
    return (
        same_entries(index, state),
        state.state != ABSENT,
        state.name == index.name,
        index.renamed_from in {state.name, *state.earlier_names},
    )


def state_of_index(schema: TableSchema, registration: Registration, name: str) -> IndexState | None:
    """Returns the state of an index in the registry. `name` is the name in the model or, if the model has no such
    index, in the registry.
    """
    return match_indexes(schema, registration).states.get(name) if name in schema.indexes else registration.named(name)


def renamed_index(index: Index, state: IndexState) -> Mapping[str, Any] | None:
    """Returns the changes to the registry's entry of an index that has a new name. Returns None if the name is already
    registered, or if the index has no table.
    """
    if not state.tables or index.name in {state.name, *state.earlier_names}:
        return None
    return {"name": index.name, "was": sorted({state.name, *state.earlier_names})}


def named_anew(index: Index, state: IndexState | None) -> dict[str, Any]:
    """Returns the names in the registry's entry of an index that gets a table."""
    if state is None:
        return {}
    if state.tables:
        return dict(renamed_index(index, state) or {})
    former = sorted({*state.dropped_names} - {index.name})
    was = [] if index.name == state.cell else [state.cell]
    return {"name": index.name, "was": was, **({"former": former} if former else {})}


def first_names(index: Index, schema: TableSchema) -> dict[str, Any]:
    """Returns the names in the registry's entry of an index that is readable from the start: its declared name, and its
    name in `renamed_from` as the earlier name. Returns an empty dictionary if the index has no `renamed_from`, or if
    another index of the model has that name.
    """
    former = index.renamed_from
    return {} if former is None or former in schema.indexes else {"name": index.name, "was": [former]}


def generation_of(index: Index, state: IndexState | None, registration: Registration) -> int:
    """Returns how many tables an index of this name may have had. Dropped indexes that had the name are counted as
    well.
    """
    before = [state.generation for state in registration.indexes.values() if index.name in state.dropped_names]
    return max([0 if state is None else state.generation, *before])


# --- both -------------------------------------------------------------------------------------------------------------


def check_layout(schema: TableSchema, registration: Registration) -> None:
    """Raises `SchemaMismatch` with all differences because of which the model would misread or misplace rows."""
    mismatches = layout_mismatches(schema, registration.layout)
    differences = [difference_line(*difference) for difference in mismatches]
    same_key = all(subject != "key" for subject, _, _ in mismatches)  # with a different key, all entries differ
    matched = match_indexes(schema, registration)
    for name, state in sorted(matched.states.items()):
        index = schema.indexes[name]
        if same_key and state.state != ABSENT and not same_entries(index, state):
            differences.append(difference_line(f"index {name}", *specs_to_compare(index, state)))
    differences += [taken_line(name, state) for name, state in matched.taken.items()]
    if differences:
        raise SchemaMismatch(
            _EXTERNAL if schema.external else _LIVE,
            table=schema.table,
            differences=differences,
            renames=rename_hints(schema, registration.layout) or None,
        )


def taken_line(name: str, state: IndexState) -> str:
    """Returns a line for a message: the name of an index belongs, or once belonged, to another index."""
    return f"index {name}: the name belongs to an index that is called {state.name} now; choose another"
