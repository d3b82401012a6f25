"""Finds out which writes of one commit into shared rows belong together, and whether a store can make them in one
mutation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, evolve

from hbmodel.errors import CapabilityError, SessionError
from hbmodel.mapping.rows.cells_of_update import cells_of_changes, merged_changes
from hbmodel.mapping.rows.mapper import entries_of
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.writes import DeleteRow, PutObject, RowWrite, UpdateFields, under_condition
from hbmodel.session.commit.batches import BATCH_ROWS, Batch, Pending
from hbmodel.session.commit.shared_row_commit import JointCommit
from hbmodel.store.checks.row_sizes import cell_bytes, check_row_size
from hbmodel.store.port import Capabilities
from hbmodel.store.row_changes import NOT_ATOMIC

Call = tuple[Pending, RowWrite]

_TWICE = (
    "These two calls for an object of a wide row cannot be combined into one write, and a commit writes the row only "
    "once: make one call of them, commit between them, or, outside of a group, open the session with "
    "atomic_rows=False."
)

_ONE_CONDITION = (
    "Updates of objects of one row are written in one mutation. It can check that one object exists (none through a "
    'Thrift1 gateway): declare @hb.model(exists=hb.flag("e")) or a version, commit the objects separately, or open the '
    "session with atomic_rows=False."
)

_VERSIONS = (
    "Objects of versioned and unversioned models cannot be written to one row atomically: commit the objects of each "
    "model separately, or open the session with atomic_rows=False."
)

_ALONE = (
    "One object has a version of its own, and the others of its row share another version. HBase checks only one cell "
    "in a mutation: give the model a kind, commit them separately, or open the session with atomic_rows=False."
)


@define(eq=False)
class JointBatch:
    """Writes into one table with shared rows. All writes into the same row are in the same batch.

    Attributes:
        shared: the rows that are changed by several of the writes.
    """

    parts: Sequence[Batch]
    shared: frozenset[bytes]
    running: JointCommit | None = None

    @property
    def wrote(self) -> bool:
        """Whether anything that may have changed a table was sent."""
        return self.running is not None and self.running.wrote


def row_of(schema: TableSchema, place: bytes) -> bytes:
    """Returns the row that holds an object."""
    return place if schema.wide is None else schema.wide.form.cut(place)[0]


def joint_batches(
    calls: Sequence[Pending],
    can: Capabilities,
    at_server_time: Callable[[TableSchema], bool],
    batch_rows: int = BATCH_ROWS,
) -> list[JointBatch] | None:
    """Returns the batches of all writes into one table, or None if each write changes a different row, so that no
    writes need to be joined.

    Args:
        at_server_time: whether the rows of a model are written at the server's time.
        batch_rows: the number of writes after which another batch begins. The writes into one row always stay together.

    Raises:
        SessionError: an object is written twice, or models that share a row cannot be combined.
        CapabilityError: the store cannot write a row in one mutation.
        InvalidRequest: the change of a row would exceed 4 MiB.
    """
    rows: dict[bytes, list[Call]] = {}
    for call in calls:
        for write in call.writes:
            rows.setdefault(row_of(call.schema, write.row), []).append((call, write))
    if all(len(of_row) == 1 for of_row in rows.values()):
        return None
    for call in calls:
        call.remaining = len(call.writes)
    latest = {row: _latest(of_row) for row, of_row in rows.items()}
    shared = {row for row, of_row in latest.items() if len(of_row) > 1}
    for row, of_row in latest.items():
        if row in shared:
            _check(row, of_row, can, at_server_time)
    chunks: list[list[bytes]] = [[]]
    row_count = 0
    for row, of_row in latest.items():
        if row_count >= batch_rows:
            chunks.append([])
            row_count = 0
        chunks[-1].append(row)
        row_count += len(of_row)
    order = {id(call): number for number, call in enumerate(calls)}
    return [
        _batch(
            # in the order of the calls, in which they claim and release unique values
            sorted((each for row in chunk for each in latest[row]), key=lambda each: order[id(each[0])]),
            shared.intersection(chunk),
        )
        for chunk in chunks
    ]


def _latest(calls: Sequence[Call]) -> list[Call]:
    """Returns the writes of one row, in which several writes of the same object are combined into one."""
    latest: dict[tuple[int, bytes], Call] = {}
    for call, original in calls:
        write = original
        earlier = latest.get(key := (id(call.schema), write.row))
        if earlier is not None:
            before, other = earlier
            write = _both(call.schema, other, write)
            if call is not before:
                call.superseded = before
        latest[key] = call, write
    return list(latest.values())


def _both(schema: TableSchema, first: RowWrite, second: RowWrite) -> RowWrite:
    """Returns one write that has the same effect as two successive writes of an object.

    Raises:
        SessionError: no single write has this effect.
    """
    plain = not schema.versioned
    if first.version == second.version:
        match first, second:
            case PutObject(), PutObject():
                return second.over(first) if schema.maps else second
            case _, DeleteRow() if plain:
                return second
            case DeleteRow(), PutObject() if (
                plain and not schema.maps and all(f.kind == "column" for f in schema.columns)
            ):
                return second
            case PutObject(), UpdateFields(ttl=None) if plain:
                return _updated(schema, first, second)
            case UpdateFields(ttl=None), UpdateFields(ttl=None) if plain:
                return evolve(second, changes=merged_changes(first.changes, second.changes, schema.maps_by_name))
    raise SessionError(_TWICE, table=schema.table, key=second.row)


def _updated(schema: TableSchema, put: PutObject, update: UpdateFields) -> PutObject:
    """Returns the put of an object with the changes of an update."""
    stored = {f.name: f.decode_cell(put.cells[f.column]) for f in schema.columns if f.column in put.cells}
    values = {**update.key, **stored, **update.changes}
    cells = {**put.cells, **cells_of_changes(schema, update.changes)}
    return evolve(put, cells=cells, entries=entries_of(schema, values, put.row) if schema.indexes else {})


def _check(row: bytes, calls: Sequence[Call], can: Capabilities, at_server_time: Callable[[TableSchema], bool]) -> None:
    """Refuses, before anything is sent, calls that cannot be written in one mutation, if this can be seen from the
    calls.
    """
    schemas = {id(call.schema): call.schema for call, _ in calls}.values()
    table = next(iter(schemas)).table
    if any(schema.versioned for schema in schemas):
        _check_versions(row, list(schemas))
    check_row_size(
        table, row, sum(cell_bytes(row, write.cells.items()) for _, write in calls if isinstance(write, PutObject))
    )
    conditions = sum(_under_condition(call.schema, write, at_server_time) for call, write in calls)
    if conditions > 1 or (conditions and not can.check_and_mutate):
        raise CapabilityError(_ONE_CONDITION, table=table, key=row)
    if can.mutate_row:
        return
    deletes = sum(isinstance(write, DeleteRow) for _, write in calls)
    times = {at_server_time(schema) for schema in schemas}  # objects with system cells are deleted by putting a marker
    if (
        any(_expires(write) for _, write in calls)
        or len(times) > 1
        or deletes not in {0, len(calls) if True in times else 0}
    ):
        raise CapabilityError(NOT_ATOMIC, table=table, key=row)


def _check_versions(row: bytes, schemas: Sequence[TableSchema]) -> None:
    """Raises `SessionError` if one mutation of the row cannot check the versions of all these models' objects."""
    table = schemas[0].table
    if not all(schema.versioned for schema in schemas):
        raise SessionError(_VERSIONS, table=table, key=row)
    alone = next((schema for schema in schemas if schema.wide is None), None)
    if alone is not None and len({schema.family for schema in schemas}) > 1:
        raise SessionError(_ALONE, table=table, key=row, model=alone.model.__qualname__)


def _under_condition(schema: TableSchema, write: RowWrite, at_server_time: Callable[[TableSchema], bool]) -> bool:
    """Whether a write checks that its object still exists. An update with a TTL does not need this check, because its
    timestamp is below that of any later delete.
    """
    if not isinstance(write, UpdateFields) or write.ttl is not None or schema.versioned:
        return False
    return at_server_time(schema) and under_condition(schema, write)


def _expires(write: RowWrite) -> bool:
    return not isinstance(write, DeleteRow) and write.ttl is not None


def _batch(calls: Iterable[Call], shared: Iterable[bytes]) -> JointBatch:
    rows = frozenset(shared)
    parts: dict[int, Batch] = {}
    together: dict[int, set[bytes]] = {}
    for call, write in calls:
        part = parts.setdefault(id(call.schema), Batch(call.schema, [], []))
        part.owners.append(call)
        part.writes.append(write)
        if row_of(call.schema, write.row) in rows:
            together.setdefault(id(call.schema), set()).add(write.row)
    for schema, places in together.items():
        parts[schema].together = frozenset(places)
    return JointBatch(list(parts.values()), rows)
