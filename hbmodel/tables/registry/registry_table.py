"""The registry table, which records the layout of each table and the state of its indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from hbmodel.errors import DeclarationError, SchemaMismatch, StoreError, TableExists, TableNotFound, UnknownOutcome
from hbmodel.mapping.newer_families import with_families
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.corrected_clock import wall_time
from hbmodel.protocol.relocation.migration_phases import DONE
from hbmodel.store.port import Store
from hbmodel.store.ranges import KeyRange
from hbmodel.store.shared_caches import renew_caches, trusted_for
from hbmodel.store.values import Delete, Family, Put, Row, Scan
from hbmodel.tables.registry.entry_shape import ENTRY
from hbmodel.tables.registry.enum_members import with_members
from hbmodel.tables.registry.layout_differences import canonical_json
from hbmodel.tables.registry.migration_phase import FROM, MOVE, check_moves
from hbmodel.tables.registry.nullable_columns import (
    BindingWithoutNone,
    none_must_wait,
)
from hbmodel.tables.registry.parse_entry import parse_registration
from hbmodel.tables.registry.read_roll import FROM_THE_START, LISTED, MARKED, next_revision
from hbmodel.tables.registry.registered_fields import (
    ALL_VERSIONED,
    TAKEN,
    check_layout,
    field_renames,
    first_layout,
    first_names,
    match_indexes,
    renamed_index,
    renamed_layout,
)
from hbmodel.tables.registry.registration import ABSENT, READABLE, Binding, IndexState, Registration, RowState, as_live
from hbmodel.tables.registry.registry_cells import (
    EXTERNAL,
    begun,
    cells_of,
    check_rows,
    first_rows,
    matched_states,
    registered_families,
    shows_external,
    written_columns,
)
from hbmodel.tables.registry.registry_rows import (
    CLOCK,
    CLOCK_ROW,
    FAMILY,
    INDEX_PREFIX,
    LAYOUT,
    MODEL_ROWS,
    ROWS,
    RegistryKey,
    index_cell,
    registry_row,
)
from hbmodel.tables.registry.shared_families import FamilyUse

REGISTRY_TABLE = "hbmodel"


class Registry:
    """Reads and changes the registry of a store.

    Attributes:
        table: the name of the registry table.
        trusted: the maximum time for which sessions rely on what they have read, in ms.
    """

    def __init__(self, store: Store, table: str = REGISTRY_TABLE) -> None:
        if not isinstance(table, str) or not table:
            raise DeclarationError(
                'registry must be the name of a table: registry="hbmodel".', option="registry", found=repr(table)
            )
        self._store = store
        self.table = table
        self.trusted = 1000 * trusted_for(store)

    def create(self) -> None:
        """Creates the registry table unless it exists."""
        if self.table not in self._store.tables():
            with suppress(TableExists):  # another program has just created it
                self._store.create_table(self.table, [Family(FAMILY)])

    def read(self, schema: TableSchema | RegistryKey) -> Registration | None:
        """Returns the registration of a model, or None if it is not registered."""
        return parse_registration(schema.table, self.table, self.row(schema))

    def row(self, schema: TableSchema | RegistryKey) -> Row | None:
        """Returns the registry's row of a model as it is stored, or None."""
        try:
            (row,) = self._store.get(self.table, [registry_row(schema)])
        except TableNotFound:
            return None
        return row

    def bind(self, schema: TableSchema) -> Binding:
        """Reads the registration of a model, and makes the model's binding from it. Raises the errors of `bound`."""
        return self.bound(schema, self.row(schema))

    def bound(self, schema: TableSchema, row: Row | None) -> Binding:
        """Checks a model against its row of the registry, which the caller has read, and makes the model's binding.

        Raises:
            SchemaMismatch: the layouts differ, or a model with indexes or a version is not registered.
        """
        registration = parse_registration(schema.table, self.table, row)
        if registration is None:
            if schema.successor:
                return self._bind_replaced(schema)
            if schema.indexes or schema.versioned:
                raise SchemaMismatch(
                    "A model with indexes or a version needs a table that is registered in this registry: call "
                    "hb.create_tables() first.",
                    table=schema.table,
                    registry=self.table,
                )
            return Binding(schema, (), (), ())
        phase = check_moves(schema, registration.move, registration.cells)
        check_rows(schema, registration)
        check_layout(schema, registration)
        matched = match_indexes(schema, registration)
        live = {name: state for name, state in matched.states.items() if state.state != ABSENT}
        declared, known = written_columns(schema.layout_spec), written_columns(registration.layout)
        complete = known <= declared and not matched.unknown
        unregistered = sorted(schema.layout_spec["columns"].keys() - registration.layout["columns"].keys())
        schema = self._with_newer_families(schema, registration)
        written = tuple(as_live(index, live[name], complete) for name, index in schema.indexes.items() if name in live)
        waiting = none_must_wait(schema, registration.layout)
        kind = partial(BindingWithoutNone, waiting=waiting) if waiting else Binding
        return kind(
            schema=schema,
            written=written,
            readable=tuple(index for index in written if live[index.name].state == READABLE),
            unknown=tuple(sorted(state.name for state in matched.unknown)),
            rows=registration.rows,
            states={name: matched.states[name].state if name in matched.states else ABSENT for name in schema.indexes},
            unregistered=unregistered,
            phase=phase,
            phase_since=0 if registration.move is None else registration.move.since,
            cells=registration.cells,
        )

    def _with_newer_families(self, schema: TableSchema, registration: Registration) -> TableSchema:
        """Returns the schema with the families in which newer programs have columns.

        Families that the table lacks are left out: the registry also lists columns that no model declares any more, and
        their families may have been deleted.
        """
        newer = registered_families(registration.layout) - set(schema.family_names)
        if not newer or schema.external:  # deletes of an external model remove only its own columns
            return schema
        try:
            there = {family.name for family in self._store.families(schema.table)}
        except TableNotFound:
            return schema
        return with_families(schema, newer & there)

    def _bind_replaced(self, schema: TableSchema) -> Binding:
        """Returns the binding of a replaced model that is not registered, because its table was dropped or never
        created.
        """
        if schema.table in self._store.tables():
            raise SchemaMismatch(
                "The table that the model replaces is not registered: call hb.create_tables() with the model of "
                "that table first.",
                table=schema.table,
                registry=self.table,
            )
        return Binding(schema, (), (), (), phase=DONE)

    def register(self, schema: TableSchema, new_state: str) -> None:
        """Registers the parts of a model that are not registered yet (the layout, new columns, and indexes in the state
        `new_state`), and checks everything else.

        Every change is a check-and-put against the cells that were read. So if two programs make changes at the same
        time, one of them must read again.

        Raises:
            SchemaMismatch: the registered layout differs.
        """
        self.check_neighbours(schema)
        row = registry_row(schema)
        while True:
            stored_row = self.row(schema)
            cells = {} if stored_row is None else cells_of(stored_row)
            registration = parse_registration(schema.table, self.table, stored_row)
            layout = first_layout(schema)
            states: Mapping[str, IndexState] = {}
            if registration is not None:
                check_rows(schema, registration)
                check_layout(schema, registration)
                layout = dict(schema.layout_spec)
                columns = {c: s for c, s in layout["columns"].items() if c not in registration.layout["columns"]}
                said = [rename for rename in field_renames(schema, registration.layout) if rename.how == "said"]
                layout = renamed_layout(
                    {**layout, **registration.layout, "columns": {**registration.layout["columns"], **columns}}, said
                )
                layout = with_members(schema.layout_spec, layout)
                states = matched_states(schema, registration)
            wanted: dict[bytes, bytes] = {}
            for name, index in schema.indexes.items():
                state = states.get(name)
                cell = INDEX_PREFIX + (name if state is None else state.cell).encode()
                renamed = None if state is None else renamed_index(index, state)
                if registration is None and new_state == READABLE:
                    renamed = first_names(index, schema)
                if state is None or state.state == ABSENT:  # without entries, the declaration of an index may change
                    entry = {
                        **begun(state, index, new_state),
                        "state": new_state,
                        "spec": index.spec,
                        "stored": index.stored_spec,
                    }
                    wanted[cell] = canonical_json({**entry, **(renamed or {})})
                elif renamed is not None:
                    wanted[cell] = canonical_json({**state.entry, **renamed})
            if registration is None or (new_state == READABLE and schema.indexes and registration.rows != "indexed"):
                # If the primary table does not exist yet, an index is readable at once, because all rows will be
                # indexed. A state from a build for an earlier table, which was dropped, is ignored.
                wanted[ROWS] = canonical_json({"state": first_rows(schema, new_state)})
            if registration is None and new_state == READABLE:
                wanted[LISTED] = FROM_THE_START
            if schema.external and (registration is None or shows_external(registration.layout)):
                wanted[EXTERNAL] = b"\x01"  # so another declaration may be registered with any other layout
            # The layout is written last. A row without a layout does not count as registered, so an interrupted
            # registration is repeated from the start.
            wanted[LAYOUT] = canonical_json(layout)
            if all(
                self._change(row, column, cells.get(column), value)
                for column, value in wanted.items()
                if cells.get(column) != value
            ):
                return

    def change_layout(self, schema: TableSchema, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Replaces the registered layout by the layout that `change` returns. If another program changes it at the same
        time, `change` is called again. Does nothing if the table is not registered.
        """
        while (registration := self.read(schema)) is not None:
            changed = change(registration.layout)
            if changed == registration.layout or self._change(
                registry_row(schema), LAYOUT, registration.cells[LAYOUT], canonical_json(changed)
            ):
                return

    def check_neighbours(self, schema: TableSchema) -> None:
        """Raises `SchemaMismatch` if this model and another model of the table must not share it.

        Their index tables must have different names. If the models share a family, no cell of the family may belong to
        both of them, and either both models or neither must be versioned.

        A delete of an index entry removes the whole row of the entry. If two models shared an index table, a delete
        would also remove entries of the other model.

        While objects are being moved into the table, it belongs to one model.
        """
        self.check_no_index(schema)
        own_use = FamilyUse.of(schema)
        for place, other in self._others(schema):
            if origin := other.cells.get(FROM):
                raise SchemaMismatch(
                    "Objects are being moved into this table, and a rollback would drop it: add another model to the "
                    "table after the migration.",
                    table=schema.table,
                    replaces=origin.decode(errors="replace"),
                )
            shared = own_use.conflicts(_family_use(place, other))
            if shared:
                raise SchemaMismatch(TAKEN, table=schema.table, family=shared[0].decode(), kind=place.kind or None)
            if place.kind and place.family == schema.family and bool(other.layout.get("version")) != schema.versioned:
                raise SchemaMismatch(ALL_VERSIONED, table=schema.table, family=schema.family.decode())
            tables = {table for state in other.indexes.values() for table in state.tables}
            declared = {
                state.table for state in other.indexes.values() if state.table == f"{schema.table}.{state.name}"
            }
            for index in schema.indexes.values():
                if index.table in tables | declared:
                    message = "Another model of the table has an index of this name: choose another name."
                    raise SchemaMismatch(message, table=schema.table, index=index.name)

    def _others(self, schema: TableSchema) -> Iterator[tuple[RegistryKey, Registration]]:
        """Yields the other models of a model's table, with their registrations."""
        own = registry_row(schema)
        for row in self._rows_of(schema.table):
            other = None if row.row == own else parse_registration(schema.table, self.table, row)
            if other is not None:
                yield RegistryKey.of_row(schema.table, row.row), other

    def uses_of_others(self, schema: TableSchema) -> list[FamilyUse]:
        """Returns how the other models of a model's table use its families."""
        try:
            return [_family_use(place, other) for place, other in self._others(schema)]
        except TableNotFound:  # there is no registry table yet
            return []

    def check_no_index(self, schema: TableSchema) -> None:
        """Raises `SchemaMismatch` if the model's table is an index table of another model, `<table>.<index>`."""
        primary = self._primary_of(schema.table)
        if primary is not None:
            message = "The table is an index table of another model: choose another name."
            raise SchemaMismatch(message, table=schema.table, primary=primary)

    def owner(self, table: str, but: TableSchema | RegistryKey | None = None) -> str | None:
        """Returns the registered primary table to which a table belongs. This is the table itself or, for an index
        table, its primary table. Returns None if the table belongs to no model.

        Args:
            table: the name of the table.
            but: a model whose entry is ignored.
        """
        try:
            if any(row.columns.get(LAYOUT) is not None for row in self._rows_of(table)):
                return table
            return self._primary_of(table, but)
        except TableNotFound:  # there is no registry table yet
            return None

    def _primary_of(self, table: str, but: TableSchema | RegistryKey | None = None) -> str | None:
        own = None if but is None else registry_row(but)
        for name in (table[:at] for at, letter in enumerate(table) if letter == "."):
            for row in self._rows_of(name):
                if row.row == own:
                    continue
                other = parse_registration(RegistryKey.of_row(name, row.row).table, self.table, row)
                if other is not None and any(table in state.tables for state in other.indexes.values()):
                    return name
        return None

    def change_rows(self, schema: TableSchema | RegistryKey, registration: Registration, rows: RowState) -> bool:
        """Changes the row state, unless another program has changed it since it was read. Returns whether this call
        changed it.
        """
        return self._change_state(schema, ROWS, registration, {"state": rows})

    def change_index(
        self, schema: TableSchema | RegistryKey, name: str, registration: Registration, /, **changes: Any
    ) -> bool:
        """Changes the entry of an index, unless another program has changed it since it was read. `name` is the name of
        the entry's cell. Returns whether this call changed it.
        """
        entry = dict(registration.indexes[name].entry) if name in registration.indexes else {}
        return self._change_state(schema, index_cell(name), registration, {**entry, **changes})

    def change_move(
        self, old: TableSchema, new: TableSchema, registration: Registration, phase: str, offline: bool = False
    ) -> bool:
        """Changes the phase of a table's migration, unless another program has changed it since it was read. Returns
        whether this call changed it.
        """
        return self._change_state(
            old, MOVE, registration, {"phase": phase, "to": new.table, **({"offline": True} if offline else {})}
        )

    def _change_state(
        self, schema: TableSchema | RegistryKey, column: bytes, registration: Registration, value: Mapping[str, Any]
    ) -> bool:
        """Changes a cell that determines how rows are written, and increases the revision of the cell."""
        current = registration.cells.get(column)
        changed = canonical_json({**value, "revision": next_revision(current, wall_time())})
        return self._change(registry_row(schema), column, current, changed)

    def mark_listed(self, row: bytes) -> None:
        """Records that programs that write the table are on the writers' roll. Programs with an older version, which
        are not on the roll, may still run for a while.
        """
        self._change(row, LISTED, None, MARKED)

    def mark_moving(self, old: TableSchema, new: TableSchema, *, moving: bool) -> None:
        """Records in the row of the new table whether objects of the old table are being moved into the new table."""
        self._store.put(self.table, [Put(registry_row(new), {FROM: old.table.encode() if moving else b""})])
        renew_caches(self._store)

    def moves_into(self, new: TableSchema) -> bool:
        """Returns whether the row of a table records that objects are being moved into it."""
        row = self.row(new)
        return row is not None and bool(cells_of(row).get(FROM))

    def delete(self, rows: Iterable[bytes]) -> None:
        """Deletes rows of the registry."""
        self._store.delete(self.table, [Delete(row, families=(FAMILY,)) for row in rows])
        renew_caches(self._store)

    def _change(self, row: bytes, column: bytes, expected: bytes | None, value: bytes) -> bool:
        try:
            if self._store.check_and_put(self.table, row, column, expected, Put(row, {column: value})):
                return True
        except UnknownOutcome:
            pass  # the cell is read below
        finally:
            renew_caches(self._store)
        (current,) = self._store.get(self.table, [row], [column])
        return current is not None and column in current.columns and current.columns[column].value == value

    def rows_of_table(self, table: str) -> list[bytes]:
        """Returns the registry's rows of all models of a table."""
        return [row.row for row in self._rows_of(table)]

    def work_rows(self, rows: Iterable[bytes]) -> list[bytes]:
        """Returns the registry's rows that describe work in progress for some models. `rows` are the rows of these
        models.
        """
        prefixes = [b"\x01" + row + b"\x00" for row in rows]
        scans = self._store.scan(self.table, [Scan(KeyRange.prefix(prefix)) for prefix in prefixes])
        return [
            row.row
            for prefix, batches in zip(prefixes, scans, strict=True)
            for batch in batches
            for row in batch
            if row.row.count(b"\x00", len(prefix)) == 1  # otherwise the model has a kind
        ]

    def work_rows_of_table(self, table: str) -> list[bytes]:
        """Returns the registry's rows that describe work in progress for any model of a table."""
        (batches,) = self._store.scan(self.table, [Scan(KeyRange.prefix(b"\x01" + table.encode() + b"\x00"))])
        return [row.row for batch in batches for row in batch]

    def tables(self) -> dict[str, list[RegistryKey]]:
        """Returns the registered primary tables, sorted by name, each with the keys of its models."""
        tables: dict[str, list[RegistryKey]] = {}
        try:
            (batches,) = self._store.scan(self.table, [Scan(KeyRange(MODEL_ROWS))])
            for row in (row.row for batch in batches for row in batch):
                name, _, rest = row.partition(b"\x00")
                family, _, kind = rest.partition(b"\x00")
                table = name.decode(errors="replace")  # a damaged file may hold any bytes
                tables.setdefault(table, []).append(RegistryKey(table, family, kind))
        except TableNotFound:  # there is no registry table yet
            return {}
        return dict(sorted(tables.items()))

    def is_damaged(self, key: RegistryKey) -> bool:
        """Returns whether this version cannot read the entry of a model."""
        try:
            self.read(key)
        except StoreError as error:
            if error.message != ENTRY:
                raise
            return True
        return False

    def keys_of_table(self, table: str) -> list[RegistryKey]:
        """Returns the keys of all models of a table."""
        return [RegistryKey.of_row(table, row) for row in self.rows_of_table(table)]

    def families_of(self, table: str) -> set[bytes]:
        """Returns the column families of all models of a table."""
        families: set[bytes] = set()
        for row in self._rows_of(table):
            place = RegistryKey.of_row(table, row.row)
            other = parse_registration(place.table, self.table, row)
            families |= {place.family, *(() if other is None else registered_families(other.layout))}
        return families

    def _rows_of(self, table: str) -> Iterator[Row]:
        (batches,) = self._store.scan(self.table, [Scan(KeyRange.prefix(table.encode() + b"\x00"))])
        return (row for batch in batches for row in batch)

    def server_time(self) -> int:
        """Returns the time of the server's clock in ms, which is the timestamp of a put of the clock cell."""
        self._store.put(self.table, [Put(CLOCK_ROW, {CLOCK: b"\x01"})])
        (row,) = self._store.get(self.table, [CLOCK_ROW], [CLOCK])
        if row is None:
            raise StoreError(
                "The clock cell of the registry was written but cannot be read: check the TTL of the registry table.",
                table=self.table,
            )
        return row.columns[CLOCK].timestamp


def _family_use(place: RegistryKey, registration: Registration) -> FamilyUse:
    """Returns how a registered model uses the families of its table."""
    external = EXTERNAL in registration.cells
    return FamilyUse.registered(place.family, place.kind, registration.layout, external=external)
