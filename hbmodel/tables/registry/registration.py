"""The registration of a model, which is its layout and the states of its indexes, and the resulting binding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from attrs import evolve, field, frozen

from hbmodel.errors import IndexUnavailable, SchemaMismatch
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.relocation.migration_phases import BEFORE
from hbmodel.tables.registry.migration_phase import TableMove

ABSENT, WRITE_ONLY, BUILDING, VERIFYING, READABLE = "absent", "write-only", "building", "verifying", "readable"
STATES = (ABSENT, WRITE_ONLY, BUILDING, VERIFYING, READABLE)
"""The states of an index in their order. Writes maintain the index from the second state on. Queries use it only in the
last state. In a state that this version does not know, writes maintain the index, and queries do not use it.
"""

MAINTAINED_BY_ALL = frozenset((BUILDING, VERIFYING, READABLE))
"""The states in which every session maintains the index."""

LEASE = 60.0
"""The number of seconds for which a session trusts what it has read from the registry, unless it was opened with
another lease.
"""

RowState = Literal["plain", "unindexed", "marking", "mixed", "adopting", "indexed"]
"""The rule that decides which rows of a table are live, and the way in which rows are written.

The leases of sessions end at different times, so some sessions may write under a state while others write under the
next one. No other two states are in use at the same time, except mixed and indexed: the index of a small table may be
built before the last session has noticed the state adopting, which is between these two. This does no harm, because
every row has a liveness cell once the index is built. If every write checks the registry inside its transaction,
adopting follows marking. All states except plain and indexed have the same rule for reads, so sessions may read under
any of them at the same time.

- unindexed: a row with any cell of an object is live, unless its liveness cell says otherwise. Sessions that have
  noticed a later state may have put a liveness cell. Writes put no system cells, and the server sets their timestamps.
- marking: as unindexed, but a put of a whole object sets the liveness cell, so that the cell will hide an older dead
  marker. No session writes dead markers in this state.
- mixed: rows are written like indexed rows, and each write takes its time from the server. Sessions that are still in
  the state marking delete rows without a marker. So an update is conditional on its row, or has a timestamp so old that
  every delete hides it.
- adopting: as mixed, but updates need neither the condition nor the old timestamp. Rows without the liveness cell are
  still live, until a build has put that cell.
- indexed: a row is live only if its liveness cell says so.

A table that other programs write is always plain. It is like an unindexed table, but its rows, which never change, may
have index entries.
"""

AT_SERVER_TIME: Sequence[RowState] = ("plain", "unindexed", "marking")
"""The states in which the server sets the timestamps of writes."""

ROW_STATES: Sequence[RowState] = ("plain", "unindexed", "marking", "mixed", "adopting", "indexed")


@frozen
class IndexState:
    """The registered state of one index.

    Attributes:
        state: one of `STATES`.
        since: when this state was written to the registry, in ms by the clock of the registry's server.
        generation: how many tables the index has had before this one.
        name: the current name of the index.
        cell: the name with which the index was first registered. It is part of the name of the index's cell in the
            registry.
        earlier_names: its earlier names.
        dropped_names: names that the index had when it was dropped; other indexes may use them now.
        entry: its whole entry in the registry, as JSON. A newer version of hbmodel may have added parts to it.
    """

    state: str
    table: str
    spec: Mapping[str, Any]
    since: int = 0
    generation: int = 0
    name: str = ""
    cell: str = ""
    earlier_names: Sequence[str] = ()
    entry: Mapping[str, Any] = field(factory=dict, repr=False)
    dropped_names: Sequence[str] = ()

    @property
    def filled(self) -> Sequence[str]:
        """The tables that may hold entries: the table of a live index, and tables that a drop must still delete."""
        return sorted({*self.entry.get("left", ()), *([] if self.state == ABSENT else [self.table])})

    @property
    def begun(self) -> Sequence[str]:
        """The empty tables that may have been created for the index while it was absent, including those for an earlier
        declaration.
        """
        creating = self.state == ABSENT and self.entry.get("creating")
        return sorted({*self.entry.get("strays", ()), *([self.table] if creating else [])})

    @property
    def tables(self) -> Sequence[str]:
        """The tables in `filled` and `begun`. Before a build begins, an absent index has no table, and a table with the
        index's name may belong to another model.
        """
        return sorted({*self.filled, *self.begun})


def as_live(index: Index, state: IndexState, schema_complete: bool = True) -> Index:
    """Returns a declared index with its live table from the registry.

    Args:
        schema_complete: whether the model has all registered columns and indexes.
    """
    maintained = state.state in MAINTAINED_BY_ALL
    return evolve(index, table=state.table, maintained_by_all=maintained, schema_complete=schema_complete)


@frozen
class Registration:
    """The registry's entry of one table, with the bytes against which a change must be checked.

    Attributes:
        indexes: the indexes, by the name with which each was first registered.
        rows: the rule that decides which rows are live.
        cells: the cells of the registry's row.
        rows_since: when `rows` was written to the registry, in ms by the clock of the registry's server.
        move: the progress of moving the table's objects into another table, or None.
        listed: the time since which all programs that write the table are on the writers' roll, in ms by the server's
            clock; 0 if they always have been; None if the time is not recorded.
    """

    layout: Mapping[str, Any]
    indexes: Mapping[str, IndexState]
    rows: RowState
    cells: Mapping[bytes, bytes] = field(repr=False)
    rows_since: int = 0
    move: TableMove | None = None
    listed: int | None = None

    def named(self, name: str) -> IndexState | None:
        """Returns the index with this name or, if there is none, an index that had this name earlier."""
        states = self.indexes.values()
        return next((state for state in states if state.name == name), None) or next(
            (s for s in states if name in s.earlier_names), None
        )

    def dropped(self, name: str) -> IndexState | None:
        """Returns a dropped index that had this name, or None."""
        return next(
            (state for state in self.indexes.values() if name in state.dropped_names and not state.tables), None
        )


@frozen(eq=False)
class Binding:
    """How a model may be used at the moment, according to the registry.

    Attributes:
        written: the indexes that writes must maintain, with their live tables.
        readable: indexes that queries may use.
        unknown: names of live indexes that the model does not declare. If there are any, the model may read but not
            write.
        rows: the rule that decides which rows of the table are live.
        states: the states of the declared indexes, by name.
        unregistered: columns of the model that are not registered. Unless other programs write the table, the model may
            read but not write until they are registered.
        phase: how far the objects of the table have moved into another one, see `protocol.relocation.migration`.
        phase_since: when the phase was written to the registry, in ms by the clock of the registry's server.
        cells: the cells of the registry's row from which the binding was made.
    """

    schema: TableSchema
    written: Sequence[Index]
    readable: Sequence[Index]
    unknown: Sequence[str]
    rows: RowState = "unindexed"
    states: Mapping[str, str] = field(factory=dict)
    unregistered: Sequence[str] = ()
    phase: str = BEFORE
    phase_since: int = 0
    cells: Mapping[bytes, bytes] = field(factory=dict, repr=False)

    @property
    def indexed(self) -> bool:
        """Whether puts of whole objects set a liveness cell. This is so in all states except plain and unindexed."""
        return self.rows not in ("plain", "unindexed")

    @property
    def adopting(self) -> bool:
        """Whether rows without a liveness cell are live, in addition to rows whose liveness cell says that they are
        live.

        Rows have no liveness cell if other programs write the table, or if an object is a single cell.
        """
        if self.rows == "unindexed":
            return not self.schema.external and (self.schema.wide is None or not self.schema.wide.qualifiers.raw)
        return self.rows in ("marking", "mixed", "adopting")

    @property
    def writes_system_cells(self) -> bool:
        """Whether rows are written like indexed rows, with explicit timestamps, and with markers for deleted rows."""
        return self.rows not in AT_SERVER_TIME

    def writes_like(self, other: Binding) -> bool:
        """Returns whether a write that was planned with one binding is also correct with the other."""
        return self is other or (self.written, self.unknown, self.rows) == (other.written, other.unknown, other.rows)

    @cached_property
    def reader(self) -> RowDecoder:
        """Decodes whole objects."""
        return RowDecoder.of(self.schema, self.indexed, None, self.adopting)

    @cached_property
    def writable(self) -> bool:
        """Whether everything that writes of the model would put is registered, and the model declares every index that
        writes must maintain.
        """
        return not self.unknown and (not self.unregistered or self.schema.external)

    def check_registered(self) -> None:
        """Raises `SchemaMismatch` if the model has columns that are not registered. If they were written, another
        program could later declare them with another codec, without noticing that rows already have them.
        """
        if self.unregistered and not self.schema.external:
            raise SchemaMismatch(
                "The registry does not know all columns of the model: call hb.create_tables() or hb.alter() before "
                "the first write. Reads work until then.",
                table=self.schema.table,
                columns=list(self.unregistered),
            )

    def check_writable(self) -> None:
        """Refuses writes if the binding is not `writable`.

        Raises:
            SchemaMismatch: the model has columns that are not registered.
            IndexUnavailable: a write would not update a live index.
        """
        self.check_registered()
        if self.unknown:
            raise IndexUnavailable(
                "The table has a live index that the model does not declare: the model may read, but its writes would "
                "not update the index. Declare the index, or drop it with hb.alter(..., drop=True), "
                "hb.indexes.drop_index() or `hbmodel index drop`.",
                table=self.schema.table,
                index=self.unknown[0],
            )
