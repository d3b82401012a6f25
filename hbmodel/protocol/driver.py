"""Runs sans-IO protocols against a store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from typing import Any, TypeVar
from typing import Protocol as Port

from attrs import define

from hbmodel.errors import (
    FamilyNotFound,
    SchemaMismatch,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    TableNotFound,
    UnknownOutcome,
)
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.operations import (
    Acknowledge,
    AskIfAhead,
    AwaitClock,
    Change,
    CheckAndMutate,
    CheckAndMutateRows,
    CheckAndPut,
    CheckAndPutRows,
    CheckBinding,
    CheckLease,
    DeleteRows,
    FirstRows,
    GetRows,
    Increment,
    LetClockTick,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    ReadClock,
    Together,
)
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.store.gate import GATE, Gate, pass_gate
from hbmodel.store.port import PipelinedStore, Store, change_and_get, check_and_put_each
from hbmodel.store.values import ConditionalChange, ConditionalPut, Delete, Put, Row, Scan

R = TypeVar("R")

log = logging.getLogger("hbmodel")

WELL_PAST = 1_000
"""If the corrected clock is more than this many ms past a time, the time has certainly passed. Otherwise, the server's
time is requested.
"""

STANDS_STILL = 1_000
"""If a clock has not advanced after a wait of this many ms, it stands still, as the clock of a test may."""

CHECKED = Change | CheckBinding
"""Operations before which the driver checks that the protocol's binding still holds."""


class Clock(Port):
    """Answers the clock operations of protocols. Every method may call the store."""

    def now(self, exact: bool = False) -> int:
        """Answers `ReadClock`."""
        ...

    def ahead(self, timestamp: int) -> int | None:
        """Answers `AskIfAhead`."""
        ...

    def fresh(self, since: int) -> bool:
        """Answers `CheckLease`."""
        ...


@define
class ReadBehind:
    """The answer to a read that was sent directly after a conditional change, for a protocol that makes this read next.

    Attributes:
        kept: the read and its answer, or None.
    """

    kept: tuple[GetRows, Sequence[Row | None]] | None = None

    def change(self, store: Store, change: ConditionalChange | ConditionalPut, then: GetRows) -> bool:
        """Carries out a change, together with the read `then` if the store supports this. Returns whether the change
        was applied.
        """
        applied, rows = change_and_get(store, then.table, change, then.columns)
        self.kept = None if rows is None else (then, rows)
        return applied

    def take(self, operation: Operation) -> Sequence[Row | None] | None:
        """Returns the answer to `operation`, or None if the operation is not the read that was sent. The answer can be
        used only for the next operation.
        """
        kept, self.kept = self.kept, None
        return None if kept is None or kept[0] != operation else kept[1]


def perform(
    store: Store,
    operation: Operation,
    clock: Clock | None = None,
    *,
    again: bool = False,
    behind: ReadBehind | None = None,
) -> Any:
    """Carries out one operation, and returns the answer for which its protocol waits.

    Args:
        again: whether the operation was tried before, and may have been carried out.
        behind: keeps the answers to reads that are sent directly after conditional changes; with None, no such reads
            are sent.
    """
    if behind is not None and behind.kept is not None and (answer := behind.take(operation)) is not None:
        return answer
    match operation:
        case PutRows(table, puts):
            store.put(table, puts)
        case Acknowledge() | CheckBinding():
            pass
        case GetRows(table, rows, columns):
            return store.get(table, rows, columns)
        case FirstRows():
            return _first_rows(store, operation)
        case ReadClock(exact):
            assert clock is not None
            return clock.now(exact)
        case AskIfAhead(timestamp):
            assert clock is not None
            return clock.ahead(timestamp)
        case CheckLease(since):
            assert clock is not None
            return clock.fresh(since)
        case LetClockTick():
            let_tick_pass()
        case AwaitClock(passed):
            assert clock is not None
            await_clock(clock, passed)
        case DeleteRows(table, deletes):
            store.delete(table, deletes)
        case MutateRow(table, mutations):
            store.mutate_row(table, mutations)
        case CheckAndMutate(table, row, column, expected, mutations, then):
            if behind is not None and then is not None:
                return behind.change(store, ConditionalChange(row, column, expected, mutations), then)
            return store.check_and_mutate(table, row, column, expected, mutations)
        case CheckAndMutateRows(table, changes):
            refused = False if store.capabilities.final_refusals and not again else None
            return [True if applied else refused for applied in store.check_and_mutate_many(table, changes)]
        case CheckAndPut(table, row, column, expected, put, then):
            if behind is not None and then is not None:
                return behind.change(store, ConditionalPut(column, expected, put), then)
            return store.check_and_put(table, row, column, expected, put)
        case CheckAndPutRows(table, conditional):
            return check_and_put_each(store, table, conditional)
        case Increment(table, row, column, amount):
            return store.increment(table, row, column, amount)
        case Together(operations):
            _together(store, operations)
    return None


def perform_checked(
    store: Store,
    operation: Operation,
    clock: Clock | None,
    check: Gate | None,
    *,
    again: bool = False,
    first: bool = False,
    behind: ReadBehind | None = None,
) -> Any:
    """Carries out one operation like `perform`. If the operation changes something, the gate is called before each
    request.

    The gate is also called if a table is not found, because the index of that table may have been dropped. If changes
    of the registry do not wait for writers (`Capabilities.gated_writes`), the gate then reads the registry again.

    Args:
        check: the gate, or None.
        first: whether the first request needs no check, because the binding has just been read.
        behind: as in `perform`.
    """
    if check is None:
        return perform(store, operation, clock, again=again, behind=behind)
    changes = isinstance(operation, CHECKED)
    if changes and not first and (isinstance(operation, CheckBinding) or not store.capabilities.gated_writes):
        check()
    token = GATE.set(check if changes else None)  # `gated` would be slower, and this is called for every operation
    try:
        return perform(store, operation, clock, again=again, behind=behind)
    except TableNotFound:
        GATE.set(check)
        pass_gate(lambda table, row: store.get(table, [row])[0])  # reads the registry, whatever the lease says
        raise
    finally:
        GATE.reset(token)


def await_clock(clock: Clock, passed: int) -> None:
    """Waits until the server's clock shows a later time than `passed`, in ms. If the clock stands still, logs this
    once.
    """
    if clock.now() - passed > WELL_PAST:
        return
    first, waited, logged = None, 0, False
    while (now := clock.now(exact=True)) <= passed:
        first = now if first is None else first
        if now <= first and waited > STANDS_STILL and not logged:
            log.warning("a write waits, because the clock of the store stands still at %d ms since 1970", now)
            logged = True
        waited += passed - now + 1
        time.sleep((passed - now + 1) / 1000)


def _first_rows(store: Store, request: FirstRows) -> list[list[Row]]:
    """Reads the first rows of each range, with one scan per range. All scans are started at once."""
    size = max(2, request.limit)
    scans = [
        Scan(key_range, columns=request.columns, limit=request.limit, batch_size=size) for key_range in request.ranges
    ]
    started = store.scan(request.table, scans)
    with ExitStack() as closed:
        for batches in started:
            closed.callback(getattr(batches, "close", _nothing))
        return [list(chain.from_iterable(batches)) for batches in started]


def _nothing() -> None:
    """Does nothing. It replaces a missing `close`."""


def _together(store: Store, operations: Sequence[PutRows | DeleteRows | MutateRow]) -> None:
    """Begins each put before it waits for the answer to the previous one, if the store supports it.

    The first error or interruption is raised. The other answers are not read in this case, since all operations will be
    executed again. But if the gate raises `SchemaMismatch`, the answers to the puts in progress are read first.
    """
    if not operations:
        return
    first, rest = operations[0], operations[1:]
    if not rest or not isinstance(first, PutRows) or not isinstance(store, PipelinedStore):
        for number, operation in enumerate(operations):
            if number:
                pass_gate()
            perform(store, operation)
        return
    begun = store.begin_put(first.table, first.puts)
    try:
        pass_gate()
        _together(store, rest)
    except SchemaMismatch:
        begun.end()  # the response to a put in progress is read, so that its outcome is known
        raise
    except BaseException:
        begun.abandon()
        raise
    begun.end()


def drive(store: Store, protocol: Protocol[R], clock: Clock | None = None, check: Gate | None = None) -> R:
    """Runs a protocol to its end. An error of the store or of the clock ends the protocol.

    If the store fails after the acknowledgement, the error is logged. The acknowledged outcomes are still valid, and
    are returned.

    Args:
        check: called before each request that changes something, until the acknowledgement. If it raises
            `SchemaMismatch`, this error is thrown into the protocol at its operation. An operation of a single request
            has then not been sent. Of an operation of several requests, some may have been carried out.

    Raises:
        UnknownOutcome: the store could not be reached any more after a conditional change of a row was carried out.
    """
    changed = False
    acknowledged: Any = None
    behind = ReadBehind()
    try:
        operation = protocol.send(None)
        while True:
            try:
                gate = None if acknowledged is not None else check
                answer = perform_checked(store, operation, clock, gate, behind=behind)
            except SchemaMismatch as error:
                operation = protocol.throw(error)
                continue
            if isinstance(operation, Acknowledge):
                acknowledged = operation.outcomes
            changed = changed or (isinstance(operation, CheckAndMutate | CheckAndPut) and answer)
            changed = changed or (isinstance(operation, CheckAndMutateRows | CheckAndPutRows) and any(answer))
            operation = protocol.send(answer)
    except StopIteration as stop:
        result: R = stop.value
        return result
    except StoreError as error:
        if acknowledged is not None:
            log.warning("index entries could not be brought up to date: %s", error.message)
            returned: R = acknowledged
            return returned
        if not changed or not isinstance(error, StoreUnavailable):
            raise
        raise UnknownOutcome(
            "The row was put, but the store could not be reached to confirm it: read the row to find out.",
            **error.details,
        ) from error
    finally:
        protocol.close()


def may_have_written(operation: Operation, error: BaseException) -> bool:
    """Returns whether an operation that ended with `error` may have changed a table."""
    if not isinstance(operation, Change):
        return False
    alone = not isinstance(operation, Together) or len(operation.operations) == 1
    if alone and isinstance(error, StoreUnavailable | StoreClosed | TableNotFound):
        return False
    return not (isinstance(error, FamilyNotFound) and _changes_one_row(operation))


def _changes_one_row(operation: Change) -> bool:
    match operation:
        case PutRows(_, changes) | DeleteRows(_, changes):
            return len({change.row for change in changes}) == 1
        case CheckAndMutateRows():
            return len(operation.changes) == 1
        case CheckAndPutRows():
            return len(operation.puts) == 1
        case MutateRow() | CheckAndMutate() | CheckAndPut() | Increment():
            return True
    return False


def counts_again(schema: TableSchema, operation: Operation) -> bool:
    """Returns whether carrying out an operation a second time could undo writes that another program has made since the
    first time.

    This is possible for a change in the model's table whose timestamp the server sets. It is also possible for a
    conditional change in this table: the row may satisfy the condition again, or the repetition is refused and the
    protocol plans the change again, over the cells that the other program has written. Puts of stamps, and changes in
    other tables, undo nothing.
    """
    mutations: Iterable[Put | Delete]
    match operation:
        case Together(operations):
            return any(counts_again(schema, each) for each in operations)
        case (
            CheckAndMutate(schema.table)
            | CheckAndMutateRows(schema.table)
            | CheckAndPut(schema.table)
            | CheckAndPutRows(schema.table)
        ):
            return True
        case (
            PutRows(schema.table, mutations) | DeleteRows(schema.table, mutations) | MutateRow(schema.table, mutations)
        ):
            return any(mutation.timestamp is None and not _is_stamp(schema, mutation) for mutation in mutations)
    return False


def _is_stamp(schema: TableSchema, mutation: Put | Delete) -> bool:
    return isinstance(mutation, Put) and all(column.startswith(schema.stamp_prefix) for column in mutation.cells)


class Resumable:
    """A protocol that can be resumed at the operation that failed.

    After an error of the store, or of the clock, the protocol stays suspended at the operation that failed. The next
    `run` executes the same operation again, with the same timestamps. In this way, a put with an unknown outcome is
    retried (rule 3). If the protocol itself raised an error, or if the indexes of its table changed while it ran, the
    next `run` starts it from the beginning.

    Args:
        check: called before each request that changes something, until the acknowledgement, except directly after the
            start. It raises `SchemaMismatch` if the protocol must be started again.
        once: returns whether carrying out an operation a second time could undo writes that another program has made
            since the first time.

    Attributes:
        outcomes: the acknowledged outcomes, or None before the acknowledgement.
        finished: whether the protocol has ended.
        wrote: whether any mutation may have been applied.
        in_doubt: whether the protocol stopped at an operation that may have been carried out and must not be carried
            out twice.
    """

    def __init__(
        self,
        begin: Callable[[], Protocol[Any]],
        clock: Clock | None = None,
        check: Gate | None = None,
        once: Callable[[Operation], bool] = lambda operation: False,
    ) -> None:
        self._begin, self._clock, self._check, self._once = begin, clock, check, once
        self._protocol: Protocol[Any] | None = None
        self._operation: Operation | None = None
        self._again = False
        self._behind = ReadBehind()
        self.outcomes: Sequence[Any] | None = None
        self.finished = False
        self.wrote = self.in_doubt = False

    def run(self, store: Store) -> None:
        """Runs the protocol to its end. After an error of the store, the protocol stays at the failed operation."""
        begun = self._protocol is None
        if begun:
            self._protocol = self._begin()
            self._advance(None)
        while self._operation is not None:
            if isinstance(self._operation, Acknowledge):
                self.outcomes = self._operation.outcomes
                self._advance(None)
                continue
            try:
                check = None if self.outcomes is not None else self._check
                answer = perform_checked(
                    store,
                    self._operation,
                    self._clock,
                    check,
                    again=self._again,
                    first=begun,
                    behind=self._behind,
                )
                begun = False
            except SchemaMismatch as error:
                self.wrote |= isinstance(self._operation, Together | CheckAndPutRows)  # a part may have been written
                # the error tells the protocol that the operation has not begun
                if not self._again and self._protocol is not None:
                    with suppress(SchemaMismatch):
                        self._protocol.throw(error)
                self._operation, self._protocol = None, None
                raise
            except BaseException as error:
                self._again = True
                if may_have_written(self._operation, error):
                    self.wrote, self.in_doubt = True, self._once(self._operation)
                raise
            self._again = self.in_doubt = False
            if not self.wrote:
                self.wrote = isinstance(self._operation, Change)
            self._advance(answer)

    def _advance(self, answer: Any) -> None:
        assert self._protocol is not None
        try:
            self._operation = self._protocol.send(answer)
        except StopIteration:
            self._operation, self.finished = None, True
        except BaseException:
            self._operation, self._protocol = None, None
            raise
