"""Reads the cells of a table's registry row, and makes their first values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from hbmodel.errors import SchemaMismatch
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.store.values import Cell, Row
from hbmodel.tables.registry.entry_shape import check_index_shape
from hbmodel.tables.registry.registered_fields import match_indexes, named_anew, same_entries
from hbmodel.tables.registry.registration import ABSENT, READABLE, ROW_STATES, IndexState, Registration, RowState


def written_columns(layout: Mapping[str, Any]) -> set[str]:
    """Returns the columns that writes of objects put, without counters."""
    return {column for column, spec in layout["columns"].items() if spec["kind"] == "column"}


EXTERNAL = b"m:external"
"""The cell that shows that the model of an entry is external."""

NOT_EXTERNAL = (
    "The registry says that other programs write the table, and a delete would remove their cells: declare the model "
    "with external=True. If hbmodel alone writes it now, remove the registered layout with hb.tables.forget("
    "store, table, existing=True) or `hbmodel registry forget TABLE --existing`: the table and its rows stay as they "
    "are."
)


def shows_external(layout: Mapping[str, Any]) -> bool:
    """Returns whether only an external model can have a layout. An external model can also have a layout that other
    models can have.
    """
    return layout.get("flag") == "any" or any(spec.get("null") == "absent" for spec in layout["columns"].values())


def registered_families(layout: Mapping[str, Any]) -> set[bytes]:
    """Returns the column families of all columns of a layout, counters and map columns included."""
    return {column.encode("latin-1").partition(b":")[0] for column in layout["columns"]}


def matched_states(schema: TableSchema, registration: Registration) -> Mapping[str, IndexState]:
    """Returns the registered indexes, by their names in the model. Raises `SchemaMismatch` if a match is ambiguous."""
    matched = match_indexes(schema, registration)
    if matched.ambiguous:
        raise SchemaMismatch(
            "Several indexes have the same entries, so it is unclear which of them was renamed: declare hb.index(..., "
            "renamed_from=...).",
            table=schema.table,
            index=matched.ambiguous[0],
            known=sorted(state.name for state in matched.unknown),
        )
    return matched.states


def begun(state: IndexState | None, index: Index, new_state: str) -> dict[str, Any]:
    """Returns the entry of an index that is registered again: the parts that are kept from its entry as an absent
    index, and the name of its table.

    A name that an earlier build has chosen for the table is kept. If the primary table is new, the declared name is
    used.
    """
    entry = {} if state is None else dict(state.entry)
    if state is not None and not state.tables:
        entry = {name: value for name, value in entry.items() if name not in {"name", "was", "former"}}
        entry |= (
            named_anew(index, state)
            if new_state == READABLE
            else {"former": list(state.dropped_names)}
            if state.dropped_names
            else {}
        )
    if state is not None and entry.get("creating") and not same_entries(index, state):
        entry = {**entry, "creating": False, "strays": sorted({*entry.get("strays", ()), state.table})}
    if new_state == READABLE:
        return (
            {**entry, "table": index.table, "creating": False}
            if "creating" in entry
            else {**entry, "table": index.table}
        )
    return {"table": index.table, **entry}


def index_state(name: str, cell: Cell) -> IndexState:
    """Reads the entry of one index. Additions by a newer version of hbmodel are ignored.

    A program may still use a former name of an index, so the index can be found by all names that it has had. An index
    without a table loses its former names, and has the name of its cell.
    """
    check_index_shape(entry := json.loads(cell.value))
    state, table, spec = str(entry["state"]), str(entry["table"]), dict(entry["spec"])
    generation, current, was = (
        int(entry.get("generation", 0)),
        str(entry.get("name", name)),
        tuple(map(str, entry.get("was", ()))),
    )
    former = tuple(map(str, entry.get("former", ())))
    parsed = IndexState(state, table, spec, cell.timestamp, generation, current, name, was, entry, former)
    return (
        parsed
        if parsed.tables
        else evolve(parsed, name=name, earlier_names=(), dropped_names=tuple(sorted({current, *was, *former} - {name})))
    )


def shown(indexes: Mapping[str, IndexState]) -> dict[str, IndexState]:
    """Returns the indexes of a registry row. An index without a table is left out if an index with a table has or had
    its name.
    """
    taken = {name for state in indexes.values() if state.tables for name in (state.name, *state.earlier_names)}
    return {cell: state for cell, state in indexes.items() if state.tables or state.name not in taken}


def check_rows(schema: TableSchema, registration: Registration) -> None:
    """Raises `SchemaMismatch` if the model's indexes need system cells but the table's rows have none, or if an
    external model has indexes but the table's rows have system cells. Also raises this error if other programs write
    the rows but the model is not external.
    """
    if schema.indexes and not schema.external and registration.rows == "plain":
        message = (
            "Other programs write the table, so its rows have no system cells: declare the model with "
            "external=True and immutable=True."
        )
        raise SchemaMismatch(message, table=schema.table)
    if not schema.external and EXTERNAL in registration.cells:
        raise SchemaMismatch(NOT_EXTERNAL, table=schema.table, family=schema.family.decode(), kind=schema.kind or None)
    if schema.external and schema.indexes and registration.rows not in {"plain", "unindexed"}:
        raise SchemaMismatch(
            "The rows of the table have system cells, because hbmodel writes them: declare the model without "
            "external=True.",
            table=schema.table,
            rows=registration.rows,
        )


def first_rows(schema: TableSchema, new_state: str) -> RowState:
    """Returns the row state with which a table is first registered.

    In a versioned model, rows that existed before the registration are also live.
    """
    if schema.external and schema.indexes:
        return "plain"
    if new_state == READABLE and (schema.indexes or schema.versioned):
        return "indexed"
    return "adopting" if schema.versioned else "unindexed"


def row_state(value: bytes | None, indexes: Mapping[str, IndexState]) -> RowState | None:
    """Returns the row state in the cell `m:rows`, or None if this version does not know it.

    If the cell is missing, the state is `indexed` if there is an index in a state other than absent, and otherwise
    `unindexed`. If the cell says `unindexed` although there is such an index, the state is `adopting`, so that rows
    without system cells stay live.
    """
    has_indexes = any(state.state != ABSENT for state in indexes.values())
    if not value:
        return "indexed" if has_indexes else "unindexed"
    word = json.loads(value)["state"]
    parsed: RowState | None = next((state for state in ROW_STATES if state == word), None)
    return "adopting" if parsed == "unindexed" and has_indexes else parsed


def cells_of(row: Row) -> Mapping[bytes, bytes]:
    """Returns the values of a row's cells."""
    return {column: cell.value for column, cell in row.columns.items()}
