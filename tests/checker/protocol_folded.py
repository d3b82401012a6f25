"""Steps of the model checker for objects that share a row: the shipped folded view decides what is read, put and
deleted.

The checker's store keeps each object as a row of its own, since a cell of a row of the table is a cell of one object:
the view's calls on its table are split by the qualifiers. One call on a row of the table is one step, of however many
objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any, cast

from attrs import define, evolve

from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.operations import (
    CheckAndMutate,
    DeleteRows,
    GetRows,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    Together,
)
from hbmodel.store import Delete, Get, Put, Row
from hbmodel.store.port import EVERYTHING_POSSIBLE, Store
from hbmodel.store.row_changes import RowChanges
from hbmodel.store.values import ConditionalChange
from hbmodel.store.wide.folded import folded
from hbmodel.store.wide.wide_rows import ROW_VERSION, WideRows
from tests.checker.protocol_adapter import (
    SetClock,
    Step,
    Steps,
    StoredRow,
    Told,
    Translation,
    _changes,
    _writes,
    found_row,
)

Tombstones = Callable[[Delete, Collection[bytes]], Delete]
"""What becomes of a delete that the view sends, given the columns that it has listed before."""


def as_they_are(delete: Delete, listed: Collection[bytes]) -> Delete:
    """Deletes as the view makes them."""
    return delete


View = Callable[[Store, WideRows | None], Store]
"""Makes the folded view of a store."""


def versions_in(table: str) -> str:
    """Where the versions of the rows of a table stand: no object has them."""
    return table + " versions"


class Asked(Exception):
    """The view needs an answer that is not there yet."""

    def __init__(self, gets: Sequence[Get]) -> None:
        super().__init__()
        self.gets = gets


class Script:
    """The table under a view: gives answers in turn, and notes the changes, each of one row.

    Args:
        answers: to the reads, in their order.
        tombstones: what becomes of deletes.
    """

    capabilities = EVERYTHING_POSSIBLE

    def __init__(self, answers: Sequence[Sequence[Any]], tombstones: Tombstones = as_they_are) -> None:
        self._answers, self._tombstones = iter(answers), tombstones
        self._listed = {column for rows in answers for row in rows if row is not None for column in row.columns}
        self.changes: list[Sequence[Put | Delete]] = []
        self.conditional: list[ConditionalChange] = []

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes]) -> Sequence[Row | None]:
        return self.get_each(table, [Get(row, columns) for row in rows])

    def get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        found = next(self._answers, None)
        if found is None:
            raise Asked(gets)
        return found

    def put(self, table: str, puts: Sequence[Put]) -> None:
        self.changes += [[put] for put in puts]

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        self.changes += [[self._tombstones(delete, self._listed)] for delete in deletes]

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        self.changes.append([self._tombstones(m, self._listed) if isinstance(m, Delete) else m for m in mutations])

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        self.mutate_row(table, mutations)
        return True

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        self.conditional += [
            evolve(
                change,
                mutations=[self._tombstones(m, self._listed) if isinstance(m, Delete) else m for m in change.mutations],
            )
            for change in changes
        ]
        return [True] * len(changes)


def _wide(schema: TableSchema) -> WideRows:
    assert schema.wide_rows is not None
    return schema.wide_rows


def _object(wide: WideRows, row: bytes, column: bytes) -> tuple[bytes, bytes]:
    """The object key of the object to which a column of a row belongs, and the object's column."""
    qualifier = column[len(wide.lead) :]
    end = wide.prefix_end(qualifier)
    assert end is not None, "the view writes columns of objects alone"
    return wide.places.join(row, qualifier[:end]), wide.lead + qualifier[end:]


def is_row_version(wide: WideRows, get: Get) -> bool:
    """Whether the version of a row is read, and no object."""
    return not get.prefix and tuple(get.columns) == (wide.lead + ROW_VERSION,)


def _object_of_get(wide: WideRows, get: Get) -> tuple[bytes, tuple[bytes, ...]]:
    """The object key of the object that a part of a row is, and which of its columns are read."""
    if get.prefix:
        assert wide.prefix_end(get.prefix) == len(get.prefix), "the view reads objects"
        return wide.places.join(get.row, get.prefix), tuple(get.columns)
    found = [_object(wide, get.row, column) for column in get.columns]
    ((place,), columns) = {place for place, _ in found}, tuple(column for _, column in found)
    return place, columns


def _as_stored(wide: WideRows, get: Get, cells: Sequence[tuple[bytes, int, bytes]]) -> StoredRow | None:
    """The answers of the table."""
    place, _ = _object_of_get(wide, get)
    _, prefix = wide.places.cut(place)
    return found_row(get.row, [(wide.column(prefix, column), timestamp, value) for column, timestamp, value in cells])


def _objects(wide: WideRows, mutations: Sequence[Put | Delete]) -> dict[bytes, list[Put | Delete]]:
    """A change of a row of the table, by object."""
    found: dict[bytes, list[Put | Delete]] = {}
    for mutation in mutations:
        assert isinstance(mutation, Put) or not mutation.families, (
            "a delete of families is one of every object of the row"
        )
        of: dict[bytes, dict[bytes, bytes]] = {}
        cells = mutation.cells if isinstance(mutation, Put) else dict.fromkeys(mutation.columns, b"")
        for column, value in cells.items():
            place, alias = _object(wide, mutation.row, column)
            of.setdefault(place, {})[alias] = value
        for place, own in of.items():
            change = (
                evolve(mutation, row=place, cells=own)
                if isinstance(mutation, Put)
                else evolve(mutation, row=place, columns=[*own])
            )
            found.setdefault(place, []).append(change)
    return found


Call = Callable[[Any, Script], Any]
Changes = Sequence[dict[bytes, list[Put | Delete]]]


def _through_view(
    schema: TableSchema,
    call: Call,
    read: Callable[[bytes, tuple[bytes, ...]], Steps],
    tombstones: Tombstones = as_they_are,
    view: View = folded,
) -> Generator[Step, Any, tuple[Any, Changes]]:
    """The answer to a call on the view, and its changes to the rows of the table, by object."""
    answers: list[list[StoredRow | None]] = []
    while True:
        try:
            return _called(schema, call, answers, tombstones, view)
        except Asked as asked:
            gets = asked.gets
        wide = _wide(schema)
        rows: list[StoredRow | None] = []
        for get in gets:
            if is_row_version(wide, get):
                cells = yield Told(("read", versions_in(schema.table), get.row, tuple(get.columns)))
                rows.append(found_row(get.row, cells))
                continue
            cells = yield from read(*_object_of_get(wide, get))
            rows.append(_as_stored(wide, get, cells))  # type: ignore[arg-type]
        answers.append(rows)
        del gets, wide, rows


def _called(
    schema: TableSchema, call: Call, answers: Sequence[Sequence[Any]], tombstones: Tombstones, view: View
) -> tuple[Any, Changes]:
    table = Script(answers, tombstones)
    answer = call(view(cast(Store, table), schema.wide_rows), table)
    return answer, [_objects(_wide(schema), change) for change in table.changes]


@define
class FoldedTranslation(Translation):
    """One protocol of one process over objects that share rows.

    Attributes:
        schema: of the model.
        tombstones: what becomes of deletes.
        view: makes the folded view.
    """

    schema: TableSchema | None = None
    tombstones: Tombstones = as_they_are
    view: View = folded

    def _read(self, operation: GetRows, checked: bool, begun: set[bytes]) -> Generator[Step, Any, list[Any]]:
        if operation.table != self.table:
            return (yield from super()._read(operation, checked, begun))
        assert self.schema is not None

        def read(place: bytes, columns: tuple[bytes, ...]) -> Steps:
            (row,) = yield from super(FoldedTranslation, self)._read(
                evolve(operation, rows=[place], columns=columns), checked, begun
            )
            return (
                ()
                if row is None
                else tuple((column, cell.timestamp, cell.value) for column, cell in row.columns.items())
            )

        def get(view: Any, _: Script) -> Any:
            return view.get(self.table, operation.rows, operation.columns)

        found, _ = yield from _through_view(self.schema, get, read, view=self.view)
        return [None if row is None else StoredRow(row.row, dict(row.columns)) for row in found]

    def _made(self, operation: Operation) -> Generator[Step, Any, Step]:
        assert self.schema is not None
        call = _call(operation)
        if call is None or {table for table, _, _ in _writes(operation)} != {self.table}:
            return self._step(operation)

        def listed(place: bytes, columns: tuple[bytes, ...]) -> Steps:
            return (yield Told(("read", self.table, place, columns)))

        _, changes = yield from _through_view(self.schema, call, listed, self.tombstones, self.view)
        if isinstance(operation, CheckAndMutate):
            ((_, mutations),) = changes[0].items()
            return self._step(evolve(operation, mutations=mutations))
        steps = [self._on_row(objects) for objects in changes]
        return steps[0] if len(steps) == 1 else Told(("par", tuple(steps)))

    def _on_row(self, objects: dict[bytes, list[Put | Delete]]) -> Step:
        """One call on one row of the table."""
        numbers = {place: self.kinds[place][0] if place in self.kinds else None for place in objects}
        steps = tuple(
            Told(("write", self.table, place, _changes(mutations, numbers[place]), numbers[place]))
            for place, mutations in objects.items()
        )
        return steps[0] if len(steps) == 1 else Told(("shared", steps))


def _call(operation: Operation) -> Call | None:
    """Carries out a mutating operation, as a driver does."""
    match operation:
        case PutRows(table, puts):
            return lambda view, _: view.put(table, puts)
        case DeleteRows(table, deletes):
            return lambda view, _: view.delete(table, deletes)
        case MutateRow(table, mutations):
            return lambda view, _: view.mutate_row(table, mutations)
        case CheckAndMutate(table, row, column, expected, mutations):
            return lambda view, _: view.check_and_mutate(table, row, column, expected, mutations)
        case Together(operations):
            return lambda view, table: _at_once(view, table, operations)
    return None


def _at_once(view: Any, table: Any, operations: Sequence[Any]) -> None:
    """Carries out changes of shared rows, as a commit does."""
    name = operations[0].table
    changes = RowChanges(
        table, name, frozenset(view.wide(name).places.cut(row)[0] for part in operations for _, row, _ in _writes(part))
    )
    changes.add(
        view.of_rows(
            name, [mutation for part in operations for _, _, mutations in _writes(part) for mutation in mutations]
        )
    )
    changes.carry_out()


def gathered(protocol: Protocol[Any], table: str) -> Protocol[Any]:
    """A protocol whose changes of rows of the table are carried out together, before what follows them, as a commit
    does.
    """
    waiting: list[PutRows | DeleteRows | MutateRow] = []
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = None
        if isinstance(operation, PutRows | DeleteRows | MutateRow) and operation.table == table:
            waiting.append(operation)
            continue
        if waiting:
            yield Together(waiting)
            waiting = []
        answer = yield operation


def translation(
    schema: TableSchema,
    clock: SetClock,
    kinds: dict[bytes, tuple[int, str]],
    order: Sequence[int],
    *more: Any,
    tombstones: Tombstones = as_they_are,
) -> Translation:
    """One protocol of one process; see `Translation`."""
    if schema.wide_rows is None:
        return Translation(schema.table, clock, kinds, order, *more)
    return FoldedTranslation(schema.table, clock, kinds, order, *more, schema=schema, tombstones=tombstones)


def purge_steps(
    schema: TableSchema, delete: Delete, aged: int, checked: tuple[bytes, bytes | None] | None = None
) -> Steps:
    """A repairer's delete of an object, with the time that it has found to be older than the grace time before, or -1.

    Where the object must still hold a value in a column, these are `checked`.
    """

    def listed(place: bytes, columns: tuple[bytes, ...]) -> Steps:
        return (yield Told(("read", schema.table, place, columns)))

    _, changes = yield from _through_view(schema, lambda view, _: view.delete(schema.table, [delete]), listed)
    for objects in changes:
        for place, deletes in objects.items():
            for change in deletes:
                assert isinstance(change, Delete)
                if checked is None:
                    yield Told(("repair", schema.table, place, change.timestamp, aged, tuple(change.columns)))
                else:
                    yield Told(
                        ("checked_repair", schema.table, place, *checked, change.timestamp, aged, tuple(change.columns))
                    )
