"""Pending writes, and the batches in which a commit executes them; a batch writes each row at most once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import define, evolve, field

from hbmodel.errors import ConflictError, HbmodelError, RowNotFound, UnknownOutcome
from hbmodel.mapping.next_version import NextVersion, waiting
from hbmodel.mapping.rows.mapper import give_version
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.driver import Resumable
from hbmodel.protocol.indexed.placed_rows import PlacedRows
from hbmodel.protocol.relocation.migration_phases import Phase
from hbmodel.protocol.versioned.versioned_write import SentChanges
from hbmodel.protocol.writes import Outcome, PutObject, RowWrite, UpdateFields
from hbmodel.tables.registry.registration import Binding

BATCH_ROWS = 5_000
"""The default maximum number of writes in one batch. A commit with more writes makes several batches."""


@define(eq=False)
class Pending:
    """One call of a session: its writes (several under a random salt) and their result.

    Attributes:
        copy: for a versioned model, the object that gets the version of the row after the write; otherwise None.
        following: for an update of a versioned object, the version that the copy has until the write; otherwise None.
        base: the pending update that returned the object which this call writes, or None. If that update is refused,
            this call must not be carried out.
    """

    schema: TableSchema
    subject: Any
    writes: Sequence[RowWrite]
    outcome: Outcome | None = None
    remaining: int = field(default=0)
    superseded: Pending | None = None
    copy: Any = None
    following: NextVersion | None = None
    base: Pending | None = None

    def settle(self, outcome: Outcome) -> None:
        """Records the outcome of one of the writes.

        If there are several writes, the call has the outcome of a write that failed, or otherwise of a delete that
        found a row. If this call replaced an earlier call of the same commit, the earlier call gets its outcome now.
        """
        self.remaining -= 1
        if (
            self.outcome is None
            or outcome.action == "failed"
            or (self.outcome.action == "absent" and outcome.action == "deleted")
        ):
            self.outcome = outcome
        if outcome.version is not None and self.copy is not None:
            give_version(self.schema, self.copy, outcome.version)
        if outcome.error is not None:
            self.take_back()
        elif self.following is not None:
            self.following.settle(written=True)
        earlier = self.superseded
        if earlier is not None and outcome.error is None:
            outcome = Outcome("superseded", outcome.key)
        while earlier is not None:
            earlier.remaining -= 1
            earlier.outcome = outcome
            earlier = earlier.superseded

    @property
    def refused(self) -> bool:
        """Whether the write of the call was executed and failed."""
        return self.outcome is not None and self.outcome.error is not None

    def take_back(self) -> None:
        """If the call updates a versioned object, gives `copy` the version that the row had before the update."""
        if self.following is not None:
            self.following.settle(written=False)
            give_version(self.schema, self.copy, self.following.before)

    def require(self, version: int) -> None:
        """Makes the writes require this version of the row."""
        self.writes = [evolve(write, version=version) for write in self.writes]
        if self.following is not None:
            self.following = NextVersion(version)
            give_version(self.schema, self.copy, self.following)


def held_version(schema: TableSchema, obj: object) -> NextVersion | None:
    """Returns the version of an object that an update returned, if the outcome of that update is not known yet;
    otherwise None.
    """
    field = schema.version_field
    return None if field is None else waiting(getattr(obj, field.name, None))


@define(eq=False)
class Batch:
    """Writes of one model, each row at most once, and the protocol that executes them.

    Attributes:
        sent: the changes of versioned rows that were sent, by table.
        deleted: the outcomes of deletes that were executed, by row.
        placed: the rows of indexed objects that were put, or None before the first.
        together: for objects that share rows, the object keys that are written together with others of the same row,
            in this batch or another one.
        phase: for versioned objects that migrate between two tables, the phase in which the batch is written.
        restarted: whether the batch was started again because the indexes of the table changed, after it may have
            written some rows.
    """

    schema: TableSchema
    owners: list[Pending]
    writes: list[RowWrite]
    running: Resumable | None = None
    binding: Binding | None = None
    sent: dict[str, SentChanges] = field(factory=dict)
    deleted: dict[bytes, Outcome] = field(factory=dict)
    placed: PlacedRows | None = None
    together: frozenset[bytes] = frozenset()
    phase: Phase | None = None
    restarted: bool = False

    def reported(self, outcome: Outcome) -> Outcome:
        """Returns the outcome to report after a restart. If the new indexes refuse a write, this is `UnknownOutcome`,
        because the write may have been carried out before the restart.

        Outcomes of versioned models are not changed: their protocols find out what was carried out.
        """
        error = outcome.error
        if self.schema.versioned or error is None or isinstance(error, RowNotFound | UnknownOutcome):
            return outcome
        unknown = UnknownOutcome(
            "The indexes of the table changed during the write, and the write is refused with the new indexes. It may "
            "have been carried out before: read the row.",
            table=self.schema.table,
            key=outcome.key,
            reason=str(error),
        )
        unknown.__cause__ = error
        return evolve(outcome, error=unknown)

    def leave_out_dependents(self) -> None:
        """Refuses the writes of copies if the update that returned the copy was refused in an earlier batch. No row has
        the version of such a copy.

        The version check alone might accept these writes, because another program may have given the row the same
        version number.
        """
        if not any(owner.base is not None and owner.base.refused for owner in self.owners):
            return
        self.leave_out(
            ConflictError(
                "The update that returned this copy was refused, so no row has its version: read the object again.",
                table=self.schema.table,
                key=write.row,
            )
            if owner.base is not None and owner.base.refused
            else None
            for owner, write in zip(self.owners, self.writes, strict=True)
        )

    def leave_out(self, refusals: Iterable[HbmodelError | None]) -> None:
        """Refuses each write for which an error is given; the others stay in the batch."""
        left: list[tuple[Pending, RowWrite]] = []
        for owner, write, error in zip(self.owners, self.writes, refusals, strict=True):
            if error is None:
                left.append((owner, write))
            else:
                owner.settle(Outcome("failed", write.row, error=error))
        self.owners, self.writes = [owner for owner, _ in left], [write for _, write in left]

    @property
    def wrote(self) -> bool:
        """Whether anything that may have changed a table was sent."""
        return self.running is not None and self.running.wrote

    def sent_to(self, table: str) -> SentChanges:
        """Returns the changes of versioned rows of a table that were sent."""
        return self.sent.setdefault(table, {})

    def placing(self) -> PlacedRows:
        """Returns the rows of indexed objects that were put."""
        if self.placed is None:
            self.placed = PlacedRows()
        return self.placed


def _unique_fields(schema: TableSchema) -> frozenset[str]:
    """Returns the stored fields that unique indexes read."""
    return frozenset[str]().union(*(index.reads for index in schema.indexes.values() if index.unique))


def split_batches(pending: Sequence[Pending], size: int = BATCH_ROWS) -> list[Batch]:
    """Divides writes into batches, and sets how many outcomes each pending call waits for.

    The order of writes to one row is kept. A put is dropped if the next write of its row is a put with the same
    version, unless the model has unique indexes. Unique values are claimed and released in the order of the calls. So
    if a row's unique values change twice, both changes are written, and no later call is written before the second
    change.
    """
    if len(pending) == 1 and len(pending[0].writes) == 1:
        pending[0].remaining = 1
        return [Batch(pending[0].schema, [pending[0]], [pending[0].writes[0]])]
    batches: list[Batch] = []
    models: dict[int, _BatchesOfModel] = {}
    for call in pending:
        of_model = models.get(id(call.schema))
        if of_model is None:
            of_model = models[id(call.schema)] = _BatchesOfModel(call.schema, size, batches)
        call.remaining = len(call.writes)
        for write in call.writes:
            of_model.add(call, write)
    return batches


class _BatchesOfModel:
    """The batches of one model, while writes are added to them.

    Args:
        size: the maximum number of writes in a batch.
        made: the batches of all models in the order in which they were begun; a new batch is also appended here.
    """

    def __init__(self, schema: TableSchema, size: int, made: list[Batch]) -> None:
        self._schema, self._size, self._made = schema, size, made
        self._unique = _unique_fields(schema)
        self._salt_width = schema.salt.width if schema.salt.random else 0
        self._batches: list[Batch] = []
        self._first_open = 0  # no write of a new row is added to a batch before this one
        self._latest: dict[bytes, tuple[int, int]] = {}  # row -> batch of its last write, place in it
        self._drawn: dict[bytes, bytes] = {}  # key without a random salt -> row of its last put

    def add(self, call: Pending, write: RowWrite) -> None:
        """Adds the next write of a call."""
        if self._salt_width and isinstance(write, PutObject):
            write = self._in_bucket(write)
        before = self._latest.get(write.row)
        if before is None:
            at = self._first_open
        else:
            if isinstance(write, PutObject) and self._replaced(call, write, *before):
                return
            at = max(before[0] + 1, self._first_open)
        batches = self._batches
        while at < len(batches) and len(batches[at].writes) >= self._size:
            at += 1
            if before is None:
                self._first_open = at
        if before is not None and self._changes_unique(write):
            self._first_open = max(at, self._first_open)
        if at == len(batches):
            batches.append(Batch(self._schema, [], []))
            self._made.append(batches[at])
        batch = batches[at]
        self._latest[write.row] = (at, len(batch.writes))
        batch.owners.append(call)
        batch.writes.append(write)

    def _in_bucket(self, write: PutObject) -> PutObject:
        """Returns the put, moved to the bucket of the last put of its key if the last write of that row is a put. Puts
        of one key in several buckets would share a timestamp, and readers could not tell which is the newest.
        """
        bare = write.row[self._salt_width :]
        earlier = self._latest.get(self._drawn.get(bare, b""))
        if earlier is not None and isinstance(self._batches[earlier[0]].writes[earlier[1]], PutObject):
            write = write.moved_to(self._drawn[bare])
        self._drawn[bare] = write.row
        return write

    def _replaced(self, call: Pending, write: PutObject, at: int, place: int) -> bool:
        """If the put can replace the last write of its row, which is in this place, replaces it and returns True."""
        batch = self._batches[at]
        earlier = batch.writes[place]
        if not isinstance(earlier, PutObject) or earlier.version != write.version or self._unique:
            return False
        call.superseded = batch.owners[place]
        batch.owners[place] = call
        batch.writes[place] = write.over(earlier) if self._schema.maps else write
        return True

    def _changes_unique(self, write: RowWrite) -> bool:
        return bool(self._unique) and (
            not isinstance(write, UpdateFields) or not self._unique.isdisjoint(write.changes)
        )
