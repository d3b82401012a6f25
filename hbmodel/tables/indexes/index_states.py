"""Changes the registered state of an index step by step, and waits before each step as long as necessary.

For most steps, no program may follow the next state while another program still follows the state before the current
one. So the step waits until no program can still write according to that earlier state, see `other_programs`. If every
write checks the registry inside its transaction, steps wait only for the leases of readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from attrs import evolve, frozen

from hbmodel.errors import IndexUnavailable, SchemaMismatch, TableNotFound, UnknownIndex
from hbmodel.mapping.schema import TableSchema
from hbmodel.store.port import Store
from hbmodel.tables.creation.create import create_declared
from hbmodel.tables.creation.declared import SplitsOption, plan_tables
from hbmodel.tables.creation.existing_tables import is_dropping
from hbmodel.tables.creation.index_tables import may_be_taken, unused
from hbmodel.tables.indexes.shared_ranges import WORK, work_row
from hbmodel.tables.registry.registered_fields import (
    check_layout,
    generation_of,
    named_anew,
    same_entries,
    state_of_index,
)
from hbmodel.tables.registry.registration import (
    ABSENT,
    BUILDING,
    READABLE,
    VERIFYING,
    WRITE_ONLY,
    IndexState,
    Registration,
)
from hbmodel.tables.registry.registry_rows import ROWS, RegistryKey, index_cell, registry_row
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.other_programs import Drain, OtherPrograms, Waited


@frozen
class IndexStates:
    """Changes the states of one index.

    Attributes:
        place: the model, or the key of its row in the registry. To build an index, the model is needed.
        drain: how long other programs may still follow an earlier state.
        wait: waits for a part of the time that is left.
        cell: the name of the index's cell in the registry. It is given if the name of the index is ambiguous.
    """

    store: Store
    registry: Registry
    place: TableSchema | RegistryKey
    name: str
    drain: Drain
    wait: Waited
    cell: str | None = None

    @property
    def _schema(self) -> TableSchema:
        assert isinstance(self.place, TableSchema), "an index is built by the model that declares it"
        return self.place

    def registered(self) -> Registration:
        """Returns the registration of the table. Raises `SchemaMismatch` if the table is not registered."""
        registration = self.registry.read(self.place)
        if registration is None:
            raise SchemaMismatch(
                "The table is not registered: call hb.create_tables() first.",
                table=self.place.table,
                registry=self.registry.table,
            )
        return registration

    def state(self, registration: Registration) -> IndexState | None:
        """Returns the registered state of the index."""
        if self.cell is not None:
            return registration.indexes.get(self.cell)
        if isinstance(self.place, TableSchema):
            return state_of_index(self.place, registration, self.name)
        return registration.named(self.name)

    def _change(self, registration: Registration, before: IndexState | None, /, **changes: Any) -> bool:
        """Changes the entry of the index, unless another program has changed it since it was read. Returns whether this
        call changed it.
        """
        return self.registry.change_index(
            self.place, self.name if before is None else before.cell, registration, **changes
        )

    def as_declared(self) -> Registration:
        """Returns the registration of the table. Raises `SchemaMismatch` if the registered layout of rows or entries is
        not the model's.
        """
        registration = self.registered()
        check_layout(self._schema, registration)
        return registration

    def live(self) -> tuple[Registration, IndexState]:
        """Returns the registration and the state of an index that writers maintain.

        Raises `IndexUnavailable` if writers do not maintain the index, and `SchemaMismatch` if the registered index
        differs from the declared one.
        """
        registration = self.as_declared()
        state = self.state(registration)
        if state is None or state.state == ABSENT:
            raise IndexUnavailable(
                "The index is not built: build it with hb.indexes.build_index() or `hbmodel index build`.",
                table=self.place.table,
                index=self.name,
            )
        return registration, state

    def until_building(self, splits: SplitsOption = None) -> Registration:
        """Changes the state of an absent index to `building`. Does nothing if the index is already in that state or a
        later one.

        For the first index of a table, more steps are needed, because the table's rows have no system cells. First,
        sessions start to set such cells. When all sessions do so, they begin to write as in an indexed table (see
        `RowState`).
        """
        schema = self._schema
        while True:
            registration = self.as_declared()
            state = self.state(registration)
            if state is not None and state.state in {BUILDING, VERIFYING, READABLE}:
                return registration
            if state is not None and is_dropping(state):
                raise IndexUnavailable(
                    "The index is being dropped: let hb.indexes.drop_index() finish first.",
                    table=self.place.table,
                    index=self.name,
                )
            now = self.registry.server_time()
            if registration.rows == "unindexed" and schema.external:
                self.registry.change_rows(self.place, registration, "plain")
            elif registration.rows == "unindexed":
                self.registry.change_rows(self.place, registration, "marking")
            elif registration.rows == "marking":
                # The step waits only for writers, because sessions that still read according to an earlier state also
                # recognise dead markers.
                if self._written(registration, ROWS, registration.rows_since, now):
                    self.registry.change_rows(self.place, registration, "adopting" if self._others.gated else "mixed")
            elif state is None or state.state == ABSENT:
                self._create(registration, state, splits)
            elif registration.rows == "mixed":
                if self._written(registration, ROWS, registration.rows_since, now):
                    self.registry.change_rows(self.place, registration, "adopting")
            elif self._written(registration, index_cell(state.cell), state.since, now):
                self._change(registration, state, state=BUILDING)

    def _written(self, registration: Registration, cell: bytes, since: int, now: int) -> bool:
        """Returns whether no program can still write according to the state before a cell was changed. If a program
        can, waits a moment.
        """
        return self._others.have_written(registry_row(self.place), registration, cell, since, now)

    @property
    def _others(self) -> OtherPrograms:
        return OtherPrograms(self.store, self.registry, self.drain, self.wait)

    def _create(self, registration: Registration, state: IndexState | None, splits: SplitsOption) -> None:
        """Registers a name that no table of the index has had; the next call creates the index table with this name.
        From then on, writers maintain its entries.
        """
        schema = self._schema
        index = schema.index(self.name)
        if state is None or not state.entry.get("creating") or not same_entries(index, state):
            existing, generation = set(self.store.tables()), generation_of(index, state, registration)
            name = index.table if generation == 0 else f"{index.table}.{generation + 1}"
            while name in existing:
                generation += 1
                name = f"{index.table}.{generation + 1}"
            spec = {"spec": index.spec, "stored": index.stored_spec, **named_anew(index, state)}
            strays = [] if state is None else state.begun
            self._change(
                registration,
                state,
                state=ABSENT,
                table=name,
                generation=generation,
                creating=True,
                strays=strays,
                **spec,
            )
            return
        self._delete_tables(self._unused(evolve(state, entry={**state.entry, "creating": False}).begun))
        planned = next(t for t in plan_tables([schema], splits, self.registry.table) if t.index is index)
        created = create_declared(self.store, evolve(planned, name=state.table))
        if not created and not may_be_taken(self.store, self.registry, schema, index, state.table):
            # Either another program is already building the index, and the entry has changed; or another program has
            # created a table of this name for a different purpose.
            self._change(registration, state, creating=False)
            return
        if not self._change(registration, state, state=WRITE_ONLY, creating=False, strays=[]) and created:
            after = self.state(self.registered())
            if after is None or after.table != state.table:  # another declaration has been registered
                self._delete_tables([state.table])

    def _unused(self, names: Sequence[str]) -> list[str]:
        """Selects the tables in `names` that exist and are empty. They may have been created for the index."""
        return unused(self.store, self.registry, self.place, names)

    def _delete_tables(self, names: Sequence[str]) -> list[str]:
        """Deletes the tables that exist, and returns their names."""
        existing = set(self.store.tables()) if names else set[str]()
        existing_tables = [name for name in names if name in existing]
        for name in existing_tables:
            with suppress(TableNotFound):  # another program has just deleted it
                self.store.delete_table(name)
        return existing_tables

    def change(self, before: str, after: str) -> None:
        """Changes the state from `before` to `after`, unless another program has already changed it."""
        registration = self.registered()
        state = self.state(registration)
        if state is not None and state.state == before:
            self._change(registration, state, state=after)

    @property
    def rows_are_adopted(self) -> bool:
        """Whether only rows with system cells are live."""
        return self.registered().rows == "indexed"

    def rows_adopted(self) -> None:
        """Registers that only rows with system cells are live. Called when every row has such cells."""
        while (registration := self.registered()).rows == "adopting":
            self.registry.change_rows(self.place, registration, "indexed")

    def drop(self) -> list[str]:
        """Changes the state of an index to `absent`, drops its tables, and returns their names.

        First, queries stop using the index, then writes stop maintaining it, and then the table is deleted. In any
        other order, a session could read an index that other sessions do not maintain, or write into a table that no
        longer exists.
        """
        self._known()
        self.leave()
        while True:
            registration = self.registered()
            state = self.state(registration)
            if state is None or state.state != ABSENT or not state.entry.get("left"):  # done by another program
                return []
            if self._written(registration, index_cell(state.cell), state.since, self.registry.server_time()):
                tables = list(state.entry["left"])
                dropped = self._delete_tables(tables)
                rows = [work_row(registry_row(self.place), table, work) for table in tables for work in WORK]
                self.registry.delete(rows)
                self._change(registration, state, left=[])
                return dropped

    def to_drop(self) -> tuple[str, list[str]]:
        """Returns the state of the index, and the existing tables that `drop` would drop. Changes nothing."""
        state = self._known()
        existing = set(self.store.tables())
        gone = state.state == ABSENT and not state.entry.get("creating")
        return state.state, [
            name for name in (state.entry.get("left", ()) if gone else self._leaving(state)) if name in existing
        ]

    def _known(self) -> IndexState:
        """Returns the registered state of the index. Raises `UnknownIndex` if no index of this name is registered."""
        registration = self.registered()
        state = None
        if isinstance(self.name, str):
            state = self.state(registration) or registration.dropped(self.name)
        if state is None:
            raise UnknownIndex(
                "The registry has no such index of the model: `known` lists its indexes. If the table has several "
                "models, name the model that has the index.",
                table=self.place.table,
                index=str(self.name),
                known=sorted(each.name for each in registration.indexes.values()),
            )
        return state

    def hide(self) -> None:
        """Makes new queries stop using the index."""
        while (state := self.state(registration := self.registered())) is not None and state.state not in {
            ABSENT,
            WRITE_ONLY,
        }:
            self._change(registration, state, state=WRITE_ONLY, dropping=True)

    def leave(self) -> None:
        """Makes writes stop maintaining the index, as soon as no query uses it."""
        while (state := self.state(registration := self.registered())) is not None:
            if state.state == ABSENT and not state.entry.get("creating"):  # with `creating`, the table may exist
                return
            if state.state not in {ABSENT, WRITE_ONLY}:
                self.hide()
                continue
            hidden = state.state == WRITE_ONLY and state.entry.get("dropping")
            if not hidden or self._others.have_read(state.since, self.registry.server_time()):
                self._leave(registration, state)

    def _leave(self, registration: Registration, state: IndexState) -> None:
        """Registers an index as absent, and records which of its tables must be deleted."""
        changes: dict[str, Any] = {
            "state": ABSENT,
            "dropping": False,
            "creating": False,
            "generation": state.generation + 1,
            "left": self._leaving(state),
            "strays": [],
        }
        self._change(registration, state, **changes)

    def _leaving(self, state: IndexState) -> list[str]:
        """Returns the tables to delete when an index is dropped, including those that earlier, killed drops have
        left.
        """
        return sorted({*state.filled, *self._unused(state.begun)})
