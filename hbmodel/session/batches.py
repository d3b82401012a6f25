"""Pending writes, and the batches in which a commit executes them: a batch writes each row once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, evolve, field

from hbmodel.errors import ConflictError, RowNotFound, UnknownOutcome
from hbmodel.mapping.mapper import give_version, take_back_version
from hbmodel.mapping.next_version import NextVersion, waiting
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.driver import Resumable
from hbmodel.protocol.migration import Phase
from hbmodel.protocol.placed_rows import PlacedRows
from hbmodel.protocol.versioned_write import SentChanges
from hbmodel.protocol.writes import Outcome, PutObject, RowWrite, UpdateFields
from hbmodel.tables.registration import Binding

BATCH_ROWS = 5_000
"""Most writes in one batch, unless another number is given; what a commit holds beyond that follows in further
batches.
"""


@define(eq=False)
class Pending:
    """One call of a session: its writes (several under a random salt) and their result.

    Attributes:
        copy: the object that is given the version of the row after the write, for a versioned model, or None.
        following: the version of the copy until then, for the update of an object with a version, or None.
        base: the call that gave the subject its version, or None; without its write this one must not be made.
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

        A failure is kept, and a delete that found a row takes precedence over one that did not. The earlier put that
        this one replaced has the same result, so it counts as pending until this one is written.
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
        """Whether its write is done, and has failed."""
        return self.outcome is not None and self.outcome.error is not None

    def take_back(self) -> None:
        """Gives the copies of updates that are not carried out the version of the object that they were made of."""
        if self.following is not None:
            self.following.settle(written=False)
            take_back_version(self.schema, self.copy, self.following.before)

    def require(self, version: int) -> None:
        """Has the writes require another version of the row."""
        self.writes = [evolve(write, version=version) for write in self.writes]
        if self.following is not None:
            self.following = NextVersion(version)
            take_back_version(self.schema, self.copy, self.following)


def held_version(schema: TableSchema, obj: object) -> NextVersion | None:
    """The version of an object, if it is that of an update whose outcome is not known yet."""
    of = schema.version_field
    return None if of is None else waiting(getattr(obj, of.name, None))


@define(eq=False)
class Batch:
    """Writes of one model, each row at most once, and the protocol that executes them.

    Attributes:
        sent: the changes of versioned rows that were sent, by table.
        deleted: the outcomes of deletes that were executed, by row.
        placed: the rows of indexed objects that were put, or None before the first.
        together: for objects that share rows, the rows of the batch that are written together with others of this batch
            or of another one.
        phase: for versioned objects that migrate between two tables, the phase in which the batch is written.
        restarted: whether it was started again because the indexes of the table changed, after it may have written some
            rows.
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
        """The outcome that the caller gets. After a restart, a write that the new indexes refuse may have been carried
        out before.

        The protocols of versioned models detect this themselves.
        """
        error = outcome.error
        if self.schema.versioned or error is None or isinstance(error, RowNotFound | UnknownOutcome):
            return outcome
        unknown = UnknownOutcome(
            "The indexes of the table changed during the write, and the new ones refuse it. It may have been "
            "carried out before: read the "
            "row.",
            table=self.schema.table,
            key=outcome.key,
            reason=str(error),
        )
        unknown.__cause__ = error
        return evolve(outcome, error=unknown)

    def leave_out_dependents(self) -> None:
        """Refuses the writes of copies that no row has, because the update that made the copy was refused in an earlier
        batch.

        The row could have their version by the write of another program.
        """
        left = [
            (owner, write)
            for owner, write in zip(self.owners, self.writes, strict=True)
            if owner.base is None or not owner.base.refused
        ]
        if len(left) == len(self.owners):
            return
        for owner, write in zip(self.owners, self.writes, strict=True):
            if owner.base is not None and owner.base.refused:
                error = ConflictError(
                    "The update that returned this object was refused, so no row has its version: read the object "
                    "again.",
                    table=self.schema.table,
                    key=write.row,
                )
                owner.settle(Outcome("failed", write.row, error=error))
        self.owners, self.writes = [owner for owner, _ in left], [write for _, write in left]

    @property
    def wrote(self) -> bool:
        """Whether anything that may have changed a table was sent."""
        return self.running is not None and self.running.wrote

    def sent_to(self, table: str) -> SentChanges:
        """The changes of versioned rows of a table that were sent."""
        return self.sent.setdefault(table, {})

    def placing(self) -> PlacedRows:
        """The rows of indexed objects that were put."""
        if self.placed is None:
            self.placed = PlacedRows()
        return self.placed


def _unique_fields(schema: TableSchema) -> frozenset[str]:
    """The stored fields that unique indexes read."""
    return frozenset[str]().union(*(index.reads for index in schema.indexes.values() if index.unique))


def _changes_one_of(fields: frozenset[str], write: RowWrite) -> bool:
    return bool(fields) and (not isinstance(write, UpdateFields) or not fields.isdisjoint(write.changes))


def split_batches(pending: Sequence[Pending], most: int = BATCH_ROWS) -> list[Batch]:
    """Splits writes into batches. The order of writes to one row is kept, and a put followed by a put of the same row
    is dropped.

    Unique values are claimed and released in the order of the calls: what follows a second change of a row's values is
    not written before it, and both are written.

    Sets how many outcomes each pending call waits for.

    Args:
        pending: the calls.
        most: writes in one batch.
    """
    if len(pending) == 1 and len(pending[0].writes) == 1:
        pending[0].remaining = 1
        return [Batch(pending[0].schema, [pending[0]], [pending[0].writes[0]])]
    batches: list[Batch] = []
    of_model: dict[int, list[Batch]] = {}
    first_open: dict[int, int] = {}
    latest: dict[tuple[int, bytes], tuple[int, int]] = {}  # row -> batch of its model, place in it
    uniques: dict[int, frozenset[str]] = {}
    drawn: dict[tuple[int, bytes], bytes] = {}  # key without a random salt -> row of its last put
    for call in pending:
        model = id(call.schema)
        own = of_model.setdefault(model, [])
        if model not in uniques:
            uniques[model] = _unique_fields(call.schema)
        unique = uniques[model]
        call.remaining = len(call.writes)
        for asked in call.writes:
            write = asked
            if isinstance(write, PutObject) and call.schema.salt.random:
                # Puts of one key in several buckets would share a timestamp, and readers could not tell which is the
                # newest.
                bare = (model, write.row[call.schema.salt.width :])
                earlier = latest.get((model, drawn.get(bare, b"")))
                if earlier is not None and isinstance(own[earlier[0]].writes[earlier[1]], PutObject):
                    write = write.moved_to(drawn[bare])
                drawn[bare] = write.row
            key = (model, write.row)
            before = latest.get(key)
            if before is not None and isinstance(write, PutObject):
                holder, place = own[before[0]], before[1]
                earlier_write = holder.writes[place]
                if isinstance(earlier_write, PutObject) and earlier_write.version == write.version and not unique:
                    if call.schema.maps:
                        write = write.over(earlier_write)
                    call.superseded = holder.owners[place]
                    holder.owners[place], holder.writes[place] = call, write
                    continue
            at = max(-1 if before is None else before[0], first_open.get(model, 0) - 1) + 1
            while at < len(own) and len(own[at].writes) >= most:
                at += 1
                if before is None:
                    first_open[model] = at
            if before is not None and _changes_one_of(unique, write):
                first_open[model] = max(at, first_open.get(model, 0))
            if at == len(own):
                own.append(Batch(call.schema, [], []))
                batches.append(own[-1])
            latest[key] = (at, len(own[at].writes))
            own[at].owners.append(call)
            own[at].writes.append(write)
    return batches
