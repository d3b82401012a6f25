"""The write protocols of models without live indexes, as sans-IO generators: no system cells, and the server gives the time.

Only rows that expire have a time from here, and a cell that says when they end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol as Port

from attrs import field, frozen

from hbmodel.errors import ClockError, EncodingError, HbmodelError, RowExists
from hbmodel.lifetimes import end_of_plain, end_value, ends_by_family, family_life
from hbmodel.mapper import FLAG, RowReader, encode_cell
from hbmodel.mutations import FullWrite, Outcome, PartialWriteOf, RowDelete, RowWrite, not_found, without_nulls
from hbmodel.operations import Acknowledge, CheckAndMutate, DeleteRows, GetRows, MutateRow, Protocol, PutRows
from hbmodel.schema import TableSchema
from hbmodel.store import Delete, Put, Row


class PastClock(Port):
    """What these protocols ask of time."""

    bound: int
    """How far a timestamp may lie ahead of the server's clock, in ms."""

    def past(self) -> int:
        """Milliseconds since 1970 that the server's clock has certainly reached, so that its own times never lie below."""
        ...


@frozen
class End:
    """When a row ends: `at` a time (ms since 1970), or so long `after` its put."""

    at: int | None = None
    after: int = 0


@frozen(eq=False)
class PlainPlan:
    """What one write becomes: its outcome, a put, and deletes that follow the puts of the round."""

    outcome: Outcome
    put: Put | None = None
    deletes: Sequence[Delete] = ()


def plain_round(schema: TableSchema, writes: Sequence[RowWrite], clock: PastClock, atomic_rows: bool) -> Protocol[None]:
    """Writes rows of a model without live indexes, each row at most once.

    Args:
        schema: of the model.
        writes: at most one per row.
        clock: for rows that expire.
        atomic_rows: whether the store mutates a row atomically; then a single write that expires is one call.
    """
    writer = PlainWriter(schema)
    rows: dict[bytes, Row | None] = {}
    blind = [write.row for write in writes if isinstance(write, PartialWriteOf) and not writer.rewrites(write)]
    if blind:
        found: Sequence[Row | None] = yield GetRows(schema.table, blind, writer.glance)
        rows = dict(zip(blind, found, strict=True))
    expiring = {key for key, row in rows.items() if row is not None and schema.expiry_column in row.columns}
    whole = {write.row: None for write in writes if write.row in expiring or writer.rewrites(write)}
    if whole:
        found = yield GetRows(schema.table, tuple(whole), writer.columns)
        rows.update(zip(whole, found, strict=True))
    ends = {write.row: writer.end(write, rows.get(write.row)) for write in writes if write.row in whole}
    now = clock.past() if any(ends.values()) else 0
    plans = [writer.plan(write, rows.get(write.row), ends.get(write.row), now, clock.bound) for write in writes]
    puts = [plan.put for plan in plans if plan.put is not None]
    deletes = [delete for plan in plans for delete in plan.deletes]
    if atomic_rows and len(puts) == len(deletes) == 1 and puts[0].ttl is not None:
        yield MutateRow(schema.table, [*puts, *deletes])
    else:
        if puts:
            yield PutRows(schema.table, puts)
        if deletes:
            yield DeleteRows(schema.table, deletes)
    yield Acknowledge([plan.outcome for plan in plans])


@frozen(eq=False)
class PlainWriter:
    """Plans writes of a model without live indexes.

    Attributes:
        schema: of the model.
        reader: tells whether a row that is to be updated is there.
        gone: columns whose None is the absence of the cell.
    """

    schema: TableSchema
    reader: RowReader = field(init=False)
    gone: frozenset[bytes] = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "reader", RowReader(self.schema, indexed=False, names=frozenset()))
        object.__setattr__(self, "gone", frozenset(f.column for f in self.schema.columns if f.null == "delete"))

    def rewrites(self, write: RowWrite) -> bool:
        """Whether a write is known to need the whole row before anything is read."""
        if isinstance(write, PartialWriteOf):
            return write.ttl is not None or family_life(self.schema) is not None
        return isinstance(write, FullWrite) and write.ttl is not None

    @property
    def glance(self) -> Sequence[bytes]:
        """What tells whether a row is there and whether it expires."""
        columns = self.reader.columns
        return columns if columns == self.schema.family_names else self._with_end(columns)

    @property
    def columns(self) -> Sequence[bytes]:
        """Every column of the model, and in a table of its own whatever else is in its families."""
        columns = RowReader(self.schema, indexed=False).columns
        return self._with_end(columns) if self.schema.foreign else columns

    def _with_end(self, columns: Iterable[bytes]) -> Sequence[bytes]:
        return tuple(sorted({*columns, self.schema.expiry_column}))

    def end(self, write: RowWrite, row: Row | None) -> End | None:
        """When the row will end that a write makes of `row`, read with every column."""
        if isinstance(write, RowDelete):
            return None
        if write.ttl is not None:
            return End(after=write.ttl)
        at = None if row is None else end_of_plain(row, self.schema.expiry_column)
        return None if at is None else End(at=at)

    def plan(self, write: RowWrite, row: Row | None, end: End | None, now: int, bound: int) -> PlainPlan:
        """What `write` becomes over `row`, as far as it was read; `now` is past, in ms."""
        try:
            return self._plan(write, row, end, now, bound)
        except HbmodelError as error:  # this row cannot be written; the others of its round can
            return PlainPlan(Outcome("failed", write.row, error=error))

    def _plan(self, write: RowWrite, row: Row | None, end: End | None, now: int, bound: int) -> PlainPlan:
        schema = self.schema
        if isinstance(write, RowDelete):
            return PlainPlan(Outcome("deleted", write.row), deletes=[self.deletion(write.row)])
        if isinstance(write, PartialWriteOf) and (row is None or not self.reader.exists(row)):
            raise not_found(schema, write.row)
        cells = self.cells(write)
        if isinstance(write, PartialWriteOf) and row is not None and (end is not None or family_life(schema) is not None):
            # All of the row ends at once (rule 10), so all of it is written, or all that ends by its family's TTL.
            kept = {c: cell.value for c, cell in row.columns.items() if end is not None or ends_by_family(schema, c)}
            kept.pop(schema.expiry_column, None)
            cells = kept | cells
        if end is None:
            return self._put(write, cells)
        timestamp = time_above(schema, row, now, bound)
        at = end.at if end.at is not None else timestamp + end.after
        if at <= timestamp:
            raise not_found(schema, write.row)
        return self.expiring(write.row, cells, timestamp, at)

    def _put(self, write: FullWrite | PartialWriteOf, cells: Mapping[bytes, bytes]) -> PlainPlan:
        kept = {column: value for column, value in cells.items() if value or column not in self.gone}
        if not kept and isinstance(write, FullWrite):
            raise nothing_to_store(self.schema, write.row)
        nulls = tuple(column for column in cells if column not in kept)
        return PlainPlan(
            Outcome("put", write.row), Put(write.row, kept) if kept else None, [Delete(write.row, columns=nulls)] if nulls else ()
        )

    def expiring(self, row: bytes, cells: Mapping[bytes, bytes], timestamp: int, end: int) -> PlainPlan:
        """A put of a whole row that expires, and the delete of everything older, which would come back when it does."""
        kept = {column: value for column, value in cells.items() if value or column not in self.gone}
        if not kept:
            raise nothing_to_store(self.schema, row)
        kept[self.schema.expiry_column] = end_value(end)
        put = Put(row, kept, timestamp, end - timestamp)
        return PlainPlan(Outcome("put", row, timestamp), put, [self.deletion(row, timestamp - 1)])

    def cells(self, write: FullWrite | PartialWriteOf) -> dict[bytes, bytes]:
        """The cells of a write; None is still the empty cell here."""
        schema = self.schema
        if isinstance(write, PartialWriteOf):
            return {schema.by_name[n].column: encode_cell(schema, schema.by_name[n], value) for n, value in write.changes.items()}
        cells = dict(write.cells)
        if schema.exists_column is not None:
            cells[schema.exists_column] = FLAG
        return cells

    def deletion(self, row: bytes, timestamp: int | None = None) -> Delete:
        """Of the model's families, in a table that others write of its own columns."""
        schema = self.schema
        if not schema.foreign:
            return Delete(row, families=schema.family_names, timestamp=timestamp)
        flag = () if schema.exists_column is None else (schema.exists_column,)
        return Delete(row, columns=(*flag, *(f.column for f in schema.columns), schema.expiry_column), timestamp=timestamp)


def time_above(schema: TableSchema, row: Row | None, now: int, bound: int) -> int:
    """The time of a put over a row that was read with every column (rule 1): at least `now` and above every cell."""
    newest = -1 if row is None else max(cell.timestamp for cell in row.columns.values())
    if newest >= now + bound:
        raise ClockError(
            "The row holds a cell from the future beyond the clock bound; writing over it would not be safe.",
            table=schema.table, newest=newest, now=now, bound=bound,
        )  # fmt: skip
    return max(now, newest + 1)


def nothing_to_store(schema: TableSchema, row: bytes) -> EncodingError:
    """The error of an object whose row would have no cell, so that it would not be there."""
    return EncodingError(
        'The object has no cell to store, so its row would not exist: declare @hb.model(exists=hb.flag("e")).', table=schema.table, key=row
    )


def insert_plain(schema: TableSchema, write: FullWrite, column: bytes, clock: PastClock) -> Protocol[Outcome]:
    """Puts an object of a model without system cells if `column`, which is never empty in a row, is absent; raises `RowExists`."""
    writer = PlainWriter(schema)
    if write.ttl is None:
        cells = without_nulls(writer.cells(write), schema.optional_columns - {column})
        plan = PlainPlan(Outcome("put", write.row), Put(write.row, cells))
    else:
        (row,) = yield GetRows(schema.table, [write.row], writer.columns)
        timestamp = time_above(schema, row, clock.past(), clock.bound)
        plan = writer.expiring(write.row, writer.cells(write), timestamp, timestamp + write.ttl)
    assert plan.put is not None
    applied = yield CheckAndMutate(schema.table, write.row, column, None, [plan.put, *plan.deletes])
    if not applied:
        raise RowExists("There is a row under this key already.", table=schema.table, key=write.row)
    yield Acknowledge([plan.outcome])
    return plan.outcome
