"""Plans writes of models without live indexes, which put no system cells and leave the timestamps to the server.

Only rows with a TTL have an explicit timestamp, and a cell with the time of their expiry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import evolve, field, frozen

from hbmodel.errors import CapabilityError, ClockError, EncodingError, HbmodelError
from hbmodel.mapping.model_field import NO_CELL
from hbmodel.mapping.rows.cells_of_update import cells_of_changes
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import LIVE, TableSchema
from hbmodel.protocol.expiry import (
    end_of_adopted,
    end_of_live,
    end_of_unindexed,
    end_value,
    ends_by_family,
    family_life,
    live_value,
    read_end,
    refuses_ttl,
)
from hbmodel.protocol.future_cells import await_replaced, masks_of, read_masks
from hbmodel.protocol.operations import GetRows, Protocol
from hbmodel.protocol.server_timed.unindexed_batch import UnindexedRowPlan
from hbmodel.protocol.ttl_timestamps import OWN, STAMP_LIFE, StampedRow, draw_stamp, read_stamped, unstamped
from hbmodel.protocol.writes import DeleteRow, Outcome, PutObject, RowWrite, UpdateFields, not_found, under_condition
from hbmodel.store.values import Cell, Delete, Put, Row


@frozen
class End:
    """The expiry of a row, either `at` a time (in ms since 1970) or a number of ms `after` its put."""

    at: int | None = None
    after: int = 0


@frozen(eq=False)
class UnindexedRowPlanner:
    """Plans writes of a model without live indexes.

    Attributes:
        draw: the function that draws the names of stamps, see `read_stamped`.
        marking: whether rows of other programs may have a liveness cell, so that a put of a whole object sets it.
        reader: decodes the columns that decide whether a row exists.
        gone: columns in which None is stored as a missing cell.
        bare: the columns of `gone` in which an empty cell is an empty value.
        own_columns: the columns of the fields, and of the cells that show that a row exists or expires.
    """

    schema: TableSchema
    draw: Callable[[], bytes] = draw_stamp
    marking: bool = False
    reader: RowDecoder = field(init=False)
    gone: frozenset[bytes] = field(init=False)
    bare: frozenset[bytes] = field(init=False)
    own_columns: tuple[bytes, ...] = field(init=False)
    _declared: frozenset[bytes] = field(init=False, repr=False)

    @classmethod
    def of(cls, schema: TableSchema, marking: bool = False) -> UnindexedRowPlanner:
        """Returns the planner of a model, which is made once and kept."""
        planner: UnindexedRowPlanner | None = schema.compiled.get(("unindexed", marking))
        return schema.keep(("unindexed", marking), cls(schema, marking=marking)) if planner is None else planner

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "reader", RowDecoder.of(self.schema, self.marking, frozenset(), self.marking))
        object.__setattr__(self, "gone", frozenset(f.column for f in self.schema.columns if f.null == "delete"))
        object.__setattr__(self, "bare", frozenset(f.column for f in self.schema.columns if f.unescaped))
        flag = () if self.schema.exists_column is None else (self.schema.exists_column,)
        object.__setattr__(
            self, "own_columns", (*flag, *(f.column for f in self.schema.columns), self.schema.expiry_column)
        )

        object.__setattr__(self, "_declared", frozenset(self.own_columns))

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def glance(self) -> Sequence[bytes]:
        """The columns that show whether a row exists and whether it expires."""
        columns = self.reader.columns
        return columns if columns == self.schema.family_names else self._with_end(columns)

    @property
    def columns(self) -> Sequence[bytes]:
        """Every column of the model and, unless the table is external, all other columns in its families."""
        columns = RowDecoder.of(self.schema, indexed=False).columns
        return self._with_end(columns) if columns != self.schema.family_names and self.schema.external else columns

    def _with_end(self, columns: Iterable[bytes]) -> Sequence[bytes]:
        return tuple(sorted({*columns, self.schema.expiry_column}))

    def read(self, writes: Iterable[RowWrite]) -> Protocol[dict[bytes, Row | None]]:
        """Returns the rows of updates that specify no TTL, with the columns that the updates need."""
        updates = [write for write in writes if isinstance(write, UpdateFields) and write.ttl is None]
        if not updates:
            return {}
        columns = self._with_changed(updates)
        if family_life(self.schema) is not None:
            columns = self.columns
        elif any(under_condition(self.schema, write) for write in updates):
            columns = self._with_required(columns)
        rows_read: Sequence[Row | None] = yield GetRows(self.schema.table, [w.row for w in updates], columns)
        return {write.row: row for write, row in zip(updates, rows_read, strict=True)}

    def _with_changed(self, updates: Iterable[UpdateFields]) -> Sequence[bytes]:
        """Returns the columns to read for updates that need only the columns in `glance` and the columns that they
        change.
        """
        if self.glance == self.schema.family_names:
            return self.glance
        return tuple(sorted({*self.glance, *(column for write in updates for column in self._changed(write))}))

    def _with_required(self, columns: Sequence[bytes]) -> Sequence[bytes]:
        """Returns the columns that must be read for conditional updates, given the columns that other updates need.

        Usually these include the required columns, one of which is checked by the update. All columns are read if a row
        may need a flag or may have only empty cells, or if no column would be left out.
        """
        schema = self.schema
        if schema.external or schema.spare_flag_column is not None or columns == schema.family_names:
            return self.columns
        wanted = {*columns, *schema.required_columns}
        return self.columns if wanted.issuperset(f.column for f in schema.columns) else tuple(sorted(wanted))

    def _changed(self, write: UpdateFields) -> Sequence[bytes]:
        """Returns the columns that an update changes, without entries of map columns."""
        return [self.schema.by_name[name].column for name in write.changes if name in self.schema.by_name]

    def read_masks(self, writes: Iterable[RowWrite], bound: int) -> Protocol[dict[bytes, Delete | HbmodelError]]:
        """Returns the masks of cells that may be ahead of the server's clock, for the rows of deletes; see
        `read_masks`.

        A row that cannot be deleted has an error instead of a mask. Entries of map columns are not checked: an object
        may have any number of them.
        """
        rows = [write.row for write in writes if isinstance(write, DeleteRow)]
        if not rows:
            return {}
        if self.schema.any_cell_shows:
            return (yield from self._masks_of_external(rows, bound))
        columns = self.own_columns if self.schema.external or self.schema.maps else self.schema.family_names
        return dict((yield from read_masks(self.schema, rows, columns, bound)))

    def _masks_of_external(self, rows: Sequence[bytes], bound: int) -> Protocol[dict[bytes, Delete | HbmodelError]]:
        """Returns the masks of rows of other programs. A row has an error instead if, because of a cell that the model
        does not declare, it would still be an object after the delete.
        """
        schema, is_system = self.schema, self.schema.is_system
        rows_read: Sequence[Row | None] = yield GetRows(schema.table, rows, schema.family_names)
        refused: dict[bytes, Delete | HbmodelError] = {}
        cells: dict[bytes, Mapping[bytes, Cell]] = {}
        for row in rows_read:
            if row is None:
                continue
            others = [c for c in row.columns if c not in self._declared and not is_system(c)]
            if others:
                refused[row.row] = CapabilityError(_OTHERS_STAY, table=schema.table, key=row.row, columns=others)
            else:
                cells[row.row] = {c: cell for c, cell in row.columns.items() if c in self._declared}
        return {**refused, **(yield from masks_of(schema, cells, bound))}

    def await_replaced(
        self, writes: Iterable[RowWrite], rows: Mapping[bytes, Row | None], bound: int
    ) -> Protocol[dict[bytes, Delete | ClockError]]:
        """Waits until the server's clock has reached the timestamps of the cells that writes will replace.

        Returns the errors of rows with a cell that is too far ahead, by row key; see the function `await_replaced`. For
        puts of whole objects, the rows are read here, unless the model's puts need no read.
        """
        replaced: dict[bytes, int] = {}
        for write in writes:
            row = rows.get(write.row)
            if isinstance(write, UpdateFields) and row is not None and not isinstance(row, StampedRow):
                times = [row.columns[column].timestamp for column in self._changed(write) if column in row.columns]
                replaced |= {write.row: max(times)} if times else {}
        if not self.schema.blind_puts:
            replaced |= yield from self._replaced_by_puts(
                [w for w in writes if isinstance(w, PutObject) and w.ttl is None]
            )
        return dict((yield from await_replaced(self.schema, replaced, bound)))

    def _replaced_by_puts(self, writes: Sequence[PutObject]) -> Protocol[dict[bytes, int]]:
        """Returns the timestamp of the newest cell of each row that a put of a whole object will replace."""
        cells = {write.row: self.cells(write).keys() for write in writes}
        if not cells:
            return {}
        columns = sorted(frozenset[bytes]().union(*cells.values()))
        rows_read: Sequence[Row | None] = yield GetRows(self.schema.table, list(cells), columns)
        times = {
            row.row: [cell.timestamp for column, cell in row.columns.items() if column in cells[row.row]]
            for row in rows_read
            if row
        }
        return {row: max(of_row) for row, of_row in times.items() if of_row}

    def read_expiring(
        self, writes: Iterable[RowWrite], rows: Mapping[bytes, Row | None], bound: int
    ) -> Protocol[dict[bytes, Row | None]]:
        """Returns the rows that already expire, or will expire after the write, with all columns and the timestamp for
        the write.
        """
        expiring = [
            w.row
            for w in writes
            if not isinstance(w, DeleteRow) and (w.ttl is not None or self.expires(rows.get(w.row)))
        ]
        if not expiring:
            return {}
        return dict((yield from self.stamped(expiring, bound)))

    def stamped(self, rows: Iterable[bytes], bound: int) -> Protocol[dict[bytes, StampedRow]]:
        """Returns rows with all columns, and the timestamp with which each may be written; see `read_stamped`."""
        return read_stamped(self.schema, rows, self.columns, bound, self.draw)

    def expires(self, row: Row | None) -> bool:
        """Returns whether a row that was read has a cell with the time of its expiry."""
        if row is None:
            return False
        marked = self.marking and end_of_live(row, self.schema.liveness_column) is not None
        return marked or self.schema.expiry_column in row.columns

    # --- planning -----------------------------------------------------------------------------------------------------

    def puts_of_objects(self, writes: Iterable[RowWrite]) -> list[Put] | None:
        """Returns the puts of the writes if all of them put whole objects, read no rows and delete no cells. Otherwise
        returns None, because the writes need plans.
        """
        if (self.gone and not self.schema.immutable) or not self.schema.blind_puts:
            return None
        puts: list[Put] = []
        for write in writes:
            if not isinstance(write, PutObject) or write.ttl is not None:
                return None
            cells = self.cells(write)
            if self.gone:
                cells, _ = self.without_gone(cells)
            if not cells:
                return None
            puts.append(Put(write.row, cells))
        return puts

    def plan(self, write: RowWrite, row: Row | None, mask: Delete | HbmodelError | None = None) -> UnindexedRowPlan:
        """Returns the plan of `write` over `row`, which was read with the columns that the write needs.

        Args:
            row: the row, or None.
            mask: for a delete of a row, the mask of the row, see `mask_of`; or the error that says why the row cannot
                be written.
        """
        try:
            if isinstance(row, StampedRow) and row.error is not None:
                raise row.error
            return self._plan(write, row, mask)
        except HbmodelError as error:  # only this row of the batch cannot be written
            left = [unstamped(row)] if isinstance(row, StampedRow) and row.timestamp else []
            return UnindexedRowPlan(Outcome("failed", write.row, error=error), deletes=left)

    def _plan(self, write: RowWrite, row: Row | None, mask: Delete | HbmodelError | None = None) -> UnindexedRowPlan:
        if isinstance(mask, HbmodelError):
            raise mask
        if isinstance(write, DeleteRow):
            masks = () if mask is None else (mask,)
            return UnindexedRowPlan(Outcome("deleted", write.row), deletes=[self.deletion(write.row)], masks=masks)
        old_cells = {} if row is None else row.columns
        if isinstance(write, UpdateFields) and (row is None or not old_cells or not self.reader.exists(row)):
            raise not_found(self.schema, write.row)
        end = self._end(write, row)
        cells = self.cells(write)
        if isinstance(write, UpdateFields):
            cells = {**self._kept(old_cells, end), **cells}
            if end is not None or under_condition(self.schema, write):
                flag = self.schema.spare_flag({**{column: cell.value for column, cell in old_cells.items()}, **cells})
                cells |= {column: value for column, value in flag.items() if column not in old_cells}
        if end is not None and isinstance(row, StampedRow):
            plan = self._expiring(row, cells, end)
            return plan if isinstance(write, PutObject) else self._owned(plan, row)
        # if the row was wrongly treated as expiring, its stamp is left, because stamps soon expire
        return self._put(write, cells)

    def _end(self, write: PutObject | UpdateFields, row: Row | None) -> End | None:
        """Returns the expiry of the row after a write over `row`, or None if it will not expire."""
        if isinstance(write, PutObject) and write.end is not None:
            return End(at=write.end)
        if write.ttl is not None:
            return End(after=write.ttl)
        at = None if row is None else self.end_of(row)
        return None if at is None else End(at=at)

    def end_of(self, row: Row) -> int | None:
        """Returns the time at which a row expires, or None if it does not expire. The row was read with every column of
        the model.
        """
        return end_of_adopted(self.schema, row) if self.marking else end_of_unindexed(row, self.schema.expiry_column)

    def _kept(self, old_cells: Mapping[bytes, Cell], end: End | None) -> dict[bytes, bytes]:
        """Returns the cells that an update puts again unchanged, so that all cells of the row, or all its cells in a
        family with a TTL, expire together (rule 10).
        """
        schema = self.schema
        if end is None and family_life(schema) is None:
            return {}
        return {
            c: cell.value for c, cell in self.own(old_cells).items() if end is not None or ends_by_family(schema, c)
        }

    def own(self, old_cells: Mapping[bytes, Cell]) -> dict[bytes, Cell]:
        """Returns the cells of a row without its system cells, and in an external table without the cells of other
        programs.
        """
        if self.schema.any_cell_shows:
            old_cells = {column: old_cells[column] for column in self.own_columns if column in old_cells}
        return {column: cell for column, cell in old_cells.items() if not self.schema.is_system(column)}

    def _put(self, write: PutObject | UpdateFields, cells: Mapping[bytes, bytes]) -> UnindexedRowPlan:
        stored, nulls = self.without_gone(cells)
        if isinstance(write, PutObject) and stored.keys() <= {self.schema.liveness_column}:
            raise nothing_to_store(self.schema, write.row)
        deletes = [Delete(write.row, columns=nulls)] if nulls else []
        put = Put(write.row, stored) if stored else None
        return UnindexedRowPlan(Outcome("put", write.row), put, deletes, nulls, bare=self.bare)

    def without_gone(self, cells: Mapping[bytes, bytes]) -> tuple[Mapping[bytes, bytes], Sequence[bytes]]:
        """Returns the cells to put, and the columns to delete because their None is stored as a missing cell. A row of
        an immutable model has no older cells to delete.
        """
        if not self.gone:
            return cells, ()
        stored = {column: value for column, value in cells.items() if value is not NO_CELL}
        return stored, () if self.schema.immutable else tuple(column for column in cells if column not in stored)

    def _expiring(self, stamped: StampedRow, cells: Mapping[bytes, bytes], end: End) -> UnindexedRowPlan:
        """Returns a put of a whole row that expires, and the delete of all older cells, which would otherwise become
        visible again when the row expires.
        """
        row, timestamp = stamped.row, stamped.timestamp
        at = end.at if end.at is not None else timestamp + end.after
        if at <= timestamp:
            raise not_found(self.schema, row)
        stored = {column: value for column, value in cells.items() if value is not NO_CELL}
        if stored.keys() <= {self.schema.liveness_column}:
            raise nothing_to_store(self.schema, row)
        stored[self.schema.expiry_column] = end_value(at, stamped.stamps[-1].removeprefix(self.schema.stamp_prefix))
        if self.marking:
            stored[self.schema.liveness_column] = live_value(at)
        put = Put(row, stored, timestamp, at - timestamp)
        blanks = tuple(column for column in cells if column not in stored)
        older = [self.deletion(row, timestamp - 1), unstamped(stamped, blanks)]
        return UnindexedRowPlan(Outcome("put", row, timestamp), put, older, blanks, bare=self.bare)

    def _owned(self, plan: UnindexedRowPlan, row: StampedRow) -> UnindexedRowPlan:
        """Returns the plan with the marks of inserts and of a move, by which the programs that put or move the row
        recognize it.
        """
        if row.mark is not None and plan.put is not None:
            plan = evolve(plan, put=evolve(plan.put, cells={**plan.put.cells, self.schema.move_column: row.mark}))
        if not row.owners:
            return plan
        return evolve(plan, owners=Put(row.row, dict.fromkeys(row.owners, OWN), row.timestamp, STAMP_LIFE))

    def loose(self, row: Row) -> dict[bytes, int]:
        """Returns the loose cells of an expiring row: the cells that updates have put over it and that would outlive
        it. The result has their timestamps by column.
        """
        end = row.columns.get(self.schema.expiry_column)
        times = {column: cell.timestamp for column, cell in self.own(row.columns).items()}
        if end is None or end.timestamp not in times.values():
            return {}
        return {column: time for column, time in times.items() if time > end.timestamp}

    def renewed(self, row: StampedRow) -> UnindexedRowPlan:
        """Plans the put of a whole row with its loose cells, which then expire with it.

        If the row has no loose cells any more, nothing is put.
        """
        done = UnindexedRowPlan(Outcome("put", row.row), deletes=[unstamped(row)])
        try:
            if row.error is not None:
                raise row.error
            if self.loose(row):
                end = End(at=read_end(row.columns[self.schema.expiry_column].value))
                cells = {column: cell.value for column, cell in self.own(row.columns).items()}
                return self._owned(self._expiring(row, cells, end), row)
        except HbmodelError as error:
            return UnindexedRowPlan(
                Outcome("failed", row.row, error=error), deletes=done.deletes if row.timestamp else ()
            )
        return done

    @property
    def outlives(self) -> bool:
        """Whether a cell that an update puts over an expiring row would be an object after the row has expired."""
        return self.schema.exists_column is None and refuses_ttl(self.schema) is None

    def cells(self, write: PutObject | UpdateFields) -> Mapping[bytes, bytes]:
        """Returns the cells of a write, in which None is still an empty cell or `NO_CELL`."""
        schema = self.schema
        if isinstance(write, UpdateFields):
            return cells_of_changes(schema, write.changes)
        declared = schema.exists_column
        flag = schema.spare_flag(write.cells) if declared is None else {declared: schema.flag_value}
        marks = {schema.liveness_column: LIVE} if self.marking else {}
        return {**write.cells, **flag, **marks} if flag or marks else write.cells

    def deletion(self, row: bytes, timestamp: int | None = None) -> Delete:
        """Returns the delete of the model's families or, in an external table, of the model's columns."""
        schema = self.schema
        if not schema.external:
            return Delete(row, families=schema.family_names, timestamp=timestamp)
        return Delete(row, columns=self.own_columns, timestamp=timestamp)


_OTHERS_STAY = (
    "The row has cells that the model does not declare. A delete leaves them, and they show that the row exists. "
    "Declare which cell every row has, with exists=hb.flag(...) or exists='name of a required column', or declare "
    "these columns too."
)


def nothing_to_store(schema: TableSchema, row: bytes) -> EncodingError:
    """Returns the error for an object whose row would have no cells, and so would not exist."""
    return EncodingError(
        'The object has no cell to store, so its row would not exist: declare @hb.model(exists=hb.flag("e")).',
        table=schema.table,
        key=row,
    )
