"""Commits objects that share rows, by running a separate protocol for each model and changing each row in one atomic
mutation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from itertools import islice
from typing import Any

from attrs import define, field

from hbmodel.errors import CapabilityError, SchemaMismatch
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.version_cell import VersionCell
from hbmodel.protocol.corrected_clock import ServerClock
from hbmodel.protocol.driver import may_have_written, perform_checked
from hbmodel.protocol.indexed.placed_rows import PlacedRows
from hbmodel.protocol.operations import (
    Acknowledge,
    Change,
    CheckAndMutateRows,
    CheckLease,
    DeleteRows,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    ReadClock,
    Together,
)
from hbmodel.protocol.writes import Outcome
from hbmodel.store.gate import gated
from hbmodel.store.port import Store
from hbmodel.store.row_changes import RowChanges, change_together
from hbmodel.store.values import ConditionalChange, Delete, Put
from hbmodel.store.wide.folded import FoldedStore
from hbmodel.store.wide.row_versions import link_apart


class _SeveralTimes(Exception):
    """Raised if objects of one row were planned with different times."""

    def __init__(self, latest: int) -> None:
        super().__init__()
        self.latest = latest


@define(eq=False)
class Part:
    """The writes of one model, and the state of their protocol.

    Attributes:
        check: raises `SchemaMismatch` if the protocol must be restarted.
        placed: where the protocol records the rows that it has put.
        protocol: the running protocol, or None before its start.
        operation: the operation whose result the protocol waits for.
        again: whether this operation was tried before.
        gathered: whether the protocol regards some row changes as done that are not carried out yet.
        timed: whether the protocol has read the clock. In this case its row changes have the time that was read.
        outcomes: the acknowledged outcomes, or None while there are none.
    """

    schema: TableSchema
    view: Store
    begin: Callable[[], Protocol[Any]]
    check: Callable[[], None]
    once: Callable[[Operation], bool] = lambda operation: False
    placed: PlacedRows = field(factory=PlacedRows)
    protocol: Protocol[Any] | None = None
    operation: Operation | None = None
    again: bool = False
    in_doubt: bool = False
    gathered: bool = False
    timed: bool = False
    outcomes: Sequence[Outcome] | None = None

    def start(self) -> None:
        """Starts the protocol, unless it is running or finished."""
        if self.protocol is None:
            self.protocol = self.begin()
            self.step(None)

    def step(self, answer: Any) -> None:
        """Sends the protocol the answer to its operation, and receives its next operation."""
        assert self.protocol is not None
        self.again = self.in_doubt = False
        try:
            self.operation = self.protocol.send(answer)
        except StopIteration:
            self.operation = None
        except BaseException:
            self.protocol, self.operation = None, None
            raise

    def rows_of(self, places: Sequence[bytes]) -> set[bytes]:
        """Returns the rows that hold these objects."""
        wide = self.schema.wide
        return set(places) if wide is None else {wide.form.cut(place)[0] for place in places}

    def failed(self, error: BaseException) -> bool:
        """Records that the operation failed; returns whether the operation may have changed a table."""
        self.again = True
        wrote = self.operation is not None and may_have_written(self.operation, error)
        if wrote and self.operation is not None:
            self.in_doubt = self.once(self.operation)
        return wrote

    @property
    def rows_of_changes(self) -> set[bytes]:
        """The rows of the conditional changes that the protocol requests."""
        operation = self.operation
        return (
            self.rows_of([change.row for change in operation.changes])
            if isinstance(operation, CheckAndMutateRows)
            else set()
        )

    def forget(self, waiting: Set[bytes], error: SchemaMismatch | None = None) -> None:
        """Drops the protocol, so that it is started again, unless it has acknowledged its writes.

        Args:
            waiting: the rows whose changes were gathered but not carried out, although the protocol regards them as
                done.
        """
        if self.outcomes is not None:
            return
        self.placed.forget({place for place in self.placed.outcomes if waiting and self.rows_of([place]) & waiting})
        if (
            error is not None
            and self.protocol is not None
            and isinstance(self.operation, CheckAndMutateRows)
            and not self.again
        ):
            with suppress(SchemaMismatch):  # this tells the protocol that the operation was not begun
                self.protocol.throw(error)
        self.protocol, self.operation, self.again, self.gathered, self.timed = None, None, False, False, False

    def changes_of_rows(self) -> list[Put | Delete] | None:
        """Returns the row changes of the operation, or None if the operation does anything else, or if the protocol
        needs its answer.
        """
        operation = self.operation
        each = operation.operations if isinstance(operation, Together) else [operation]
        row_changes: list[Put | Delete] = []
        for one in each:
            match one:
                case PutRows(table, puts) if table == self.schema.table:
                    row_changes += puts
                case DeleteRows(table, deletes) if table == self.schema.table:
                    row_changes += deletes
                case MutateRow(table, mutations) if table == self.schema.table:
                    row_changes += mutations
                case _:
                    return None
        return None if self._asks_for_time(row_changes) else row_changes

    def _asks_for_time(self, mutations: Sequence[Put | Delete]) -> bool:
        """Whether the mutations only put stamps. With a stamp, a protocol finds out the server's time for a row before
        it changes the row.
        """
        return all(
            isinstance(m, Put) and all(column.startswith(self.schema.stamp_prefix) for column in m.cells)
            for m in mutations
        )

    def of_rows(self, mutations: Sequence[Put | Delete]) -> Sequence[Put | Delete]:
        """Translates mutations of objects to mutations of the rows that hold them."""
        return self.view.of_rows(self.schema.table, mutations) if isinstance(self.view, FoldedStore) else mutations

    def has(self, change: ConditionalChange) -> bool:
        """Whether a change of a versioned object was carried out. If it was, its nonce is among those in the object's
        version cell.
        """
        schema = self.schema
        (row,) = self.view.get(schema.table, [change.row], [schema.version_column])
        cell = None if row is None else row.columns.get(schema.version_column)
        put = next((m.cells.get(schema.version_column) for m in change.mutations if isinstance(m, Put)), None)
        return (
            cell is not None and put is not None and VersionCell.of(put).nonces[0] in VersionCell.of(cell.value).nonces
        )

    def conditional(self, change: ConditionalChange) -> ConditionalChange:
        """Translates a conditional change of an object to one of the row that holds it."""
        return self.view.conditional(self.schema.table, change) if isinstance(self.view, FoldedStore) else change


class JointCommit:
    """Runs the protocols of several parts against a store. Their changes of rows are joined, so that each row is
    changed once.

    If a protocol changes rows, the change is gathered, and the protocol gets its answer immediately. As soon as every
    protocol requests something else, or conditional changes, the gathered changes of all parts are carried out, with
    one atomic mutation for each row. No protocol can read anything before that, because its next operation waits until
    its changes are carried out.

    All writes to one row that use the clock have the same timestamp. If they had different timestamps, that of another
    commit could lie between them, and only some of the writes of this commit would be newer than those of the other. If
    an object needs a later timestamp than others, all of them are planned again with that timestamp.

    Like a `Resumable`, it can be run again after an error of the store, and continues where it stopped.

    Args:
        shared: the rows in which several objects are written. Each of these rows changes completely, or not at all.
        clock: the clock that the protocols read. Until rows have changed, all of them read the same time.
    """

    def __init__(
        self, store: Store, table: str, parts: Sequence[Part], shared: frozenset[bytes], clock: ServerClock
    ) -> None:
        self._store, self._table, self._clock = store, table, clock
        self._parts = parts
        self._changes = RowChanges(store, table, shared)
        self._now: int | None = None
        self._fresh: dict[int, bool] = {}
        self._times: dict[bytes, set[int]] = {}
        self._wrote = False

    @property
    def wrote(self) -> bool:
        """Whether any table may have been changed."""
        return self._wrote or self._changes.wrote

    @property
    def in_doubt(self) -> bool:
        """As for `Resumable`."""
        return self._changes.in_doubt or any(part.in_doubt for part in self._parts)

    @property
    def outcomes(self) -> Sequence[Sequence[Outcome]] | None:
        """The acknowledged outcomes, by part; None until there are outcomes of all parts."""
        outcomes = [part.outcomes for part in self._parts if part.outcomes is not None]
        return outcomes if len(outcomes) == len(self._parts) else None

    def run(self, _: Store | None = None) -> None:
        """Continues until all protocols end.

        Raises:
            SchemaMismatch: the indexes of the table have changed; parts without an acknowledgement restart at the next
                call.
            CapabilityError: the store cannot change a row in one mutation; no row is changed.
        """
        while True:
            try:
                self._run()
            except SchemaMismatch as error:
                self._forget(error)
                raise
            except CapabilityError:
                self._forget()
                raise
            except _SeveralTimes as several:  # this can happen again only if another program writes one of the objects
                self._forget()
                self._now = several.latest
            else:
                return

    def _run(self) -> None:
        for part in self._parts:
            part.start()
        while any(part.operation is not None for part in self._parts) or self._changes:
            for part in self._parts:
                self._until_rows_change(part)
            conditional = [part for part in self._parts if self._joins(part)]
            self._check()
            if latest := max((max(times) for times in self._times.values() if len(times) > 1), default=None):
                raise _SeveralTimes(latest)
            with gated(self._check):
                self._carry_out({row for part in conditional for row in part.rows_of_changes})
            if conditional:
                self._change_if(conditional)

    def _check(self) -> None:
        """Raises `SchemaMismatch` if a part that has not acknowledged must be restarted."""
        for part in self._parts:
            if part.outcomes is None:
                part.check()

    def _forget(self, error: SchemaMismatch | None = None) -> None:
        waiting = self._changes.rows
        self._changes.clear()
        self._begin_round()
        for part in self._parts:
            part.forget(waiting, error)

    def _begin_round(self) -> None:
        self._now = None
        self._fresh.clear()
        self._times.clear()

    def _until_rows_change(self, part: Part) -> None:
        """Continues one part until it must wait for the other parts."""
        while (operation := part.operation) is not None:
            if part.outcomes is None and (changes := part.changes_of_rows()) is not None:
                self._gather(part, part.of_rows(changes))
                part.gathered = True
                part.step(None)
            elif part.gathered or self._joins(part):
                return
            elif isinstance(operation, Acknowledge):
                if self._changes:  # gathered changes wait for the conditional change of another part
                    return
                part.outcomes = operation.outcomes
                part.step(None)
            else:
                part.step(self._perform(part, operation))

    def _gather(self, part: Part, changes: Sequence[Put | Delete]) -> None:
        self._changes.add(changes)
        for change in changes if part.timed else ():
            if isinstance(change, Put) and change.timestamp is not None and change.row in self._changes.shared:
                self._times.setdefault(change.row, set()).add(change.timestamp)

    def _perform(self, part: Part, operation: Operation) -> Any:
        if isinstance(operation, ReadClock) and not operation.exact:
            if self._now is None:
                self._now = self._clock.now()
            part.timed = True
            return self._now
        if isinstance(operation, CheckLease):
            if operation.since not in self._fresh:  # all parts get the same answer
                self._fresh[operation.since] = self._clock.fresh(operation.since)
            return self._fresh[operation.since]
        try:
            answer = perform_checked(
                part.view, operation, self._clock, None if part.outcomes is not None else part.check, again=part.again
            )
        except SchemaMismatch:
            raise
        except BaseException as error:
            self._wrote |= part.failed(error)
            raise
        self._wrote |= isinstance(operation, Change)
        return answer

    def _carry_out(self, held_back: Set[bytes]) -> None:
        """Changes the rows, except those in `held_back`, which are changed under a condition."""
        if self._changes:
            self._changes.carry_out(held_back)
        self._begin_round()
        for part in self._parts:
            part.gathered = bool(self._changes)

    def _joins(self, part: Part) -> bool:
        """Whether a part requests conditional changes of its rows. These wait, so that they can be made together with
        the changes of the other parts.

        Other conditional changes are made immediately. These are fences, and claims of unique values, which are in
        other tables.
        """
        operation = part.operation
        return isinstance(operation, CheckAndMutateRows) and operation.table == self._table and not operation.fences

    def _change_if(self, parts: Sequence[Part]) -> None:
        """Makes conditional changes, in one mutation for each row. The mutation contains the conditional changes of all
        parts for the row, and the gathered changes of the row.

        If the condition for a row is not satisfied, its gathered changes are not lost. They are made later, either
        together with the next conditional change that a part requests for the row, or without a condition.

        The mutation of a row is postponed while one of its objects waits for a unique value.
        """
        operations = [part.operation for part in parts if isinstance(part.operation, CheckAndMutateRows)]
        changes_of_parts = [operation.changes for operation in operations]
        waiting = {
            row for part, operation in zip(parts, operations, strict=True) for row in part.rows_of(operation.waiting)
        }
        changes = [
            part.conditional(change)
            for part, of_partition in zip(parts, changes_of_parts, strict=True)
            for change in of_partition
        ]
        with gated(self._check):  # rows whose versions were checked in two families are planned again
            waiting |= link_apart(self._store, self._table, [change for change in changes if change.row not in waiting])
        ready = self._changes.joined([change for change in changes if change.row not in waiting])
        self._check()  # checked again, because rows may have been changed or read since the last check
        try:
            with gated(self._check):
                changed = change_together(self._store, self._table, ready)
            landed = iter(self._landed(parts, changes_of_parts, ready, changed))
        except SchemaMismatch:
            self._wrote |= len(ready) > 1  # some of the changes may have been made
            raise
        except BaseException as error:
            for part in parts:
                self._wrote |= part.failed(error)
            raise
        self._wrote |= any(change.mutations for change in ready)
        applied = [change.row not in waiting and next(landed) for change in changes]
        self._changes.drop({change.row for change, went_through in zip(changes, applied, strict=True) if went_through})
        for part in self._parts:
            part.gathered = bool(self._changes) and part not in parts
        sure = [change.row in waiting or self._store.capabilities.final_refusals for change in changes]
        answers = zip(applied, sure, strict=True)
        for part, of_partition in zip(parts, changes_of_parts, strict=True):
            part.step(
                [
                    went_through or (False if certain and not part.again else None)
                    for went_through, certain in islice(answers, len(of_partition))
                ]
            )

    def _landed(
        self,
        parts: Sequence[Part],
        changes_of_parts: Sequence[Sequence[ConditionalChange]],
        ready: Sequence[ConditionalChange],
        applied: Sequence[bool],
    ) -> Sequence[bool]:
        """Returns which changes were carried out, either by this call or by an earlier call whose answer was lost.

        After a refusal, a protocol usually looks for its changes in the row. But a write that changes nothing leaves no
        trace: its outcome depends on whether the other changes of the row were carried out. For rows with such writes,
        this method finds out the outcome from the versions of the other objects.
        """
        if self._store.capabilities.final_refusals and not any(part.again for part in parts):
            return applied
        refused = {change.row for change, went_through in zip(ready, applied, strict=True) if not went_through}
        rows = {change.row for change in ready if not change.mutations} & refused
        landed: set[bytes] = set()
        for part, changes in zip(parts, changes_of_parts, strict=True):
            for change in changes if rows else ():
                (row,) = part.rows_of([change.row])
                if row in rows - landed and change.mutations and part.has(change):
                    landed.add(row)
        return [went_through or change.row in landed for change, went_through in zip(ready, applied, strict=True)]
