"""The phases in which the key of a table in use is changed, and the sans-IO generator that copies rows between layouts.

Rows of immutable models never change, and no program deletes rows while both tables are read. So no table loses rows,
and a row in both tables is the same in both. With any order of calls, the two tables together contain every
acknowledged row.

Rows of versioned models are sealed and moved one by one, see `seal_and_move`. So each object is in only one of the
tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import field, frozen

from hbmodel.errors import HbmodelError
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder, check_size, encode_cell
from hbmodel.mapping.schema import FLAG, Index, TableSchema
from hbmodel.protocol.expiry import end_of_adopted, end_of_live, end_of_unindexed, end_value, live_value
from hbmodel.protocol.indexed.index_build import ADOPTED, RowIndexer
from hbmodel.protocol.indexed.indexed_batch import by_table
from hbmodel.protocol.operations import CheckLease, Protocol, PutRows, Together
from hbmodel.protocol.relocation.undeclared_cells import undeclared_cells
from hbmodel.protocol.server_timed.unindexed_plan import nothing_to_store
from hbmodel.protocol.writes import without_nulls
from hbmodel.store.values import Put, Row

Side = Literal["old", "new"]

BEFORE, PREPARED, MOVING, CUT, DONE = "before", "prepared", "moving", "cut", "done"
RETURNING, RETURNED, CLOSED = "returning", "returned", "closed"
HALTING, TURNED = "halting", "turned"


@frozen
class Phase:
    """A phase, which determines how programs use the two tables. All programs that run at the same time are in the same
    phase or in two successive phases.

    Attributes:
        reads: the tables that are read, in this order.
        writes: the table into which new objects are put; None if programs are refused.
        changes: whether objects may be deleted. This is allowed only while a single table determines which objects
            exist.
        ends: whether a delete that began in the previous phase may be acknowledged, because all objects are still in
            one table.
        seals: whether writers of versioned models, which look for a row in both tables, move the row before they change
            it. None if all objects are in one table, so that writers do not look in the other table.
        lasts: for versioned models, the phases in which a read that began in this phase may end and still be complete.
    """

    name: str
    reads: tuple[Side, ...]
    writes: Side | None
    changes: bool = False
    ends: bool = False
    seals: bool | None = None
    lasts: frozenset[str] = frozenset()

    @property
    def back(self) -> bool:
        """Whether objects move back from the new table."""
        return self.reads[:1] == ("new",) and len(self.reads) > 1


PHASES: Mapping[str, Phase] = {
    phase.name: phase
    for phase in (
        Phase(BEFORE, ("old",), "old", changes=True, ends=True),
        # all programs must read both tables before any of them writes to the new table
        Phase(PREPARED, ("new", "old"), "old", ends=True),
        Phase(MOVING, ("new", "old"), "new"),  # once no program writes to the old table, its rows are copied
        Phase(CUT, ("new",), "new"),
        # no program may read the old table any more, where deleted rows would still be visible
        Phase(DONE, ("new",), "new", changes=True, ends=True),
        Phase(RETURNING, ("new", "old"), "old"),  # the way back: rows of the new table are copied into the old one
        Phase(RETURNED, ("old",), "old"),
        Phase(CLOSED, (), None),  # a maintenance window
    )
}
"""The phases of immutable models, and of a maintenance window, by name."""

_FORTH = frozenset((PREPARED, MOVING, HALTING, CUT, DONE))
_BACK = frozenset((TURNED, RETURNING, RETURNED))

VERSIONED_PHASES: Mapping[str, Phase] = {
    phase.name: phase
    for phase in (
        Phase(BEFORE, ("old",), "old", True, True, lasts=frozenset((BEFORE,))),
        # all programs must respect seals before any seal is put
        Phase(PREPARED, ("old", "new"), "old", True, True, seals=False, lasts=_FORTH),
        Phase(MOVING, ("old", "new"), "new", True, True, seals=True, lasts=_FORTH),
        Phase(CUT, ("new",), "new", True, True, lasts=frozenset((CUT, DONE))),  # everything is in the new table
        Phase(DONE, ("new",), "new", True, True, lasts=frozenset((CUT, DONE))),
        # the moves that have begun are finished
        Phase(HALTING, ("old", "new"), "old", True, True, seals=False, lasts=_FORTH),
        # all programs must read the tables in this order before rows move back
        Phase(TURNED, ("new", "old"), "new", True, True, seals=False, lasts=_BACK),
        Phase(RETURNING, ("new", "old"), "old", True, True, seals=True, lasts=_BACK),
        Phase(RETURNED, ("old",), "old", True, True, lasts=frozenset((RETURNED, BEFORE))),
    )
}
"""The phases of versioned models, by name."""


def phase_of(schema: TableSchema, name: str) -> Phase | None:
    """Returns the phase of this name. Returns None if models like this one have no such phase."""
    return (VERSIONED_PHASES if schema.versioned else PHASES).get(name)


@frozen(eq=False)
class TranslatedRow:
    """A row converted to the layout of the other table.

    Attributes:
        source: the row key in the table from which the row comes.
        put: the put of the row, with the timestamp of the original row.
        entries: puts of its index entries, by index table.
        error: the reason why the row cannot be converted, or None.
        target: the row key in the other table, if no put is given.
    """

    source: bytes
    put: Put | None
    entries: Sequence[tuple[str, Put]] = ()
    error: HbmodelError | None = None
    target: bytes | None = None


@frozen
class _CopiedCell:
    value: bytes
    timestamp: int


@frozen
class _CopiedRow:
    row: bytes
    columns: Mapping[bytes, _CopiedCell]


@frozen(eq=False)
class RowTranslator:
    """Converts rows of one layout to rows of another layout.

    Attributes:
        indexes: the indexes of the target table, as the registry has them.
        system_cells: whether rows of the target table have system cells.
    """

    reader: RowDecoder
    target: TableSchema
    indexes: Sequence[Index] = ()
    system_cells: bool = False
    _indexer: RowIndexer = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_indexer", RowIndexer(self.target, self.indexes))

    def of(self, row: Row) -> TranslatedRow | None:
        """Returns the row for the other table, or None if the given row is not an object. Every program converts the
        same row to the same result.
        """
        if not self.reader.exists(row):
            return None
        try:
            return self._moved(row)
        except HbmodelError as error:
            return TranslatedRow(row.row, None, (), error)

    def _moved(self, row: Row) -> TranslatedRow:
        target, values = self.target, self.reader.values(row)
        (key,) = KeyMapper(target).rows([values[name] for name in target.layout.names])
        end, timestamp = self._end(row), self._time(row)
        cells = {column.column: encode_cell(target, column, values[column.name]) for column in target.columns}
        for column in target.columns:
            check_size(target, column, cells[column.column], key)
        gone = frozenset(column.column for column in target.columns if column.null == "delete")
        cells = without_nulls(cells, target.optional_columns | gone)
        if target.exists_column is not None:
            cells[target.exists_column] = FLAG
        cells |= target.spare_flag(cells)
        if self.system_cells:
            cells |= {target.liveness_column: live_value(end), target.version_column: ADOPTED}
        elif end is not None:
            cells[target.expiry_column] = end_value(end)
        if not cells:
            raise nothing_to_store(target, key)
        cells |= undeclared_cells(self.reader.schema, target, row)
        entries: Sequence[tuple[str, Put]] = ()
        if self.indexes:
            row_entries = self._indexer.of(
                _CopiedRow(key, {column: _CopiedCell(value, timestamp) for column, value in cells.items()})
            )
            if row_entries is not None:
                if row_entries.error is not None:
                    raise row_entries.error
                entries = row_entries.entries
        return TranslatedRow(
            row.row, Put(key, cells, timestamp, None if end is None else max(1, end - timestamp)), entries
        )

    def _end(self, row: Row) -> int | None:
        """Returns the time at which the row expires, or None if it does not expire."""
        source, reader = self.reader.schema, self.reader
        if reader.adopting:
            return end_of_adopted(source, row)
        return (
            end_of_live(row, source.liveness_column) if reader.indexed else end_of_unindexed(row, source.expiry_column)
        )

    def _time(self, row: Row) -> int:
        """Returns the timestamp of the row's newest column cell, so that the TTL of a family makes the copy expire
        together with the row.
        """
        source = self.reader.schema
        own = [cell.timestamp for column, cell in row.columns.items() if not source.is_system(column)]
        return max(own or [cell.timestamp for cell in row.columns.values()])

    @property
    def columns(self) -> Sequence[bytes]:
        """The columns that must be read from a row."""
        return self.reader.schema.row_columns


def copy_rows(moved: Sequence[TranslatedRow], table: str, since: int) -> Protocol[bool]:
    """Puts the index entries of rows, and then the rows, into the new table. Any number of programs may do this, any
    number of times.

    Args:
        moved: the rows.
        since: a reading of the clock from before the rows were read.

    Returns:
        Whether the rows were put. False means that the rows are too old and must be read again.
    """
    good = [row for row in moved if row.put is not None]
    entries = by_table(entry for row in good for entry in row.entries)
    if entries:
        yield Together([PutRows(of_index, puts) for of_index, puts in entries.items()])
    if not (yield CheckLease(since)):
        return False
    if good:
        yield PutRows(table, [row.put for row in good if row.put is not None])
    return True
