"""Drives sans-IO protocols against a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hbmodel.errors import StoreClosed, StoreUnavailable, TableNotFound
from hbmodel.operations import Acknowledge, CheckAndMutate, DeleteRows, GetRows, MutateRow, Operation, Protocol, PutRows, Together
from hbmodel.store import BeginningStore, Store

R = TypeVar("R")


def perform(store: Store, operation: Operation) -> Any:
    """Carries out one operation and returns the answer that its protocol waits for."""
    match operation:
        case GetRows(table, rows, columns):
            return store.get(table, rows, columns)
        case PutRows(table, puts):
            store.put(table, puts)
        case DeleteRows(table, deletes):
            store.delete(table, deletes)
        case MutateRow(table, mutations):
            store.mutate_row(table, mutations)
        case CheckAndMutate(table, row, column, expected, mutations):
            return store.check_and_mutate(table, row, column, expected, mutations)
        case Together(operations):
            _together(store, operations)
    return None


def _together(store: Store, operations: Sequence[PutRows | DeleteRows]) -> None:
    """Begins each put before it waits for the one before, where the store can.

    The first error, or interruption, is the one that counts: nothing else is waited for then, since all of it is done again.
    """
    if not operations:
        return
    first, rest = operations[0], operations[1:]
    if not rest or isinstance(first, DeleteRows) or not isinstance(store, BeginningStore):
        perform(store, first)
        _together(store, rest)
        return
    begun = store.begin_put(first.table, first.puts)
    try:
        _together(store, rest)
    except BaseException:
        begun.abandon()
        raise
    begun.end()


def drive(store: Store, protocol: Protocol[R]) -> R:
    """Runs a protocol to its end; an error of the store ends it."""
    answer: Any = None
    try:
        while True:
            answer = perform(store, protocol.send(answer))
    except StopIteration as stop:
        result: R = stop.value
        return result
    finally:
        protocol.close()


def may_have_written(operation: Operation, error: BaseException) -> bool:
    """Whether an operation that ended with `error` may have changed a table."""
    if isinstance(operation, GetRows | Acknowledge):
        return False
    alone = not isinstance(operation, Together) or len(operation.operations) == 1
    return not (alone and isinstance(error, StoreUnavailable | StoreClosed | TableNotFound))


class Resumable:
    """A protocol that can be taken up again at the operation that failed.

    After an error of the store the protocol stays suspended where it is, so the same operation, timestamps included, is
    carried out once more: that is how a put with an unknown outcome is retried (rule 3). A protocol that raised an error of
    its own is begun anew.

    Attributes:
        outcomes: what has been acknowledged, or None as long as nothing has.
        finished: whether the protocol came to its end.
        wrote: whether any mutation may have been applied.
    """

    def __init__(self, begin: Callable[[], Protocol[Any]]) -> None:
        self._begin = begin
        self._protocol: Protocol[Any] | None = None
        self._operation: Operation | None = None
        self.outcomes: Sequence[Any] | None = None
        self.finished = False
        self.wrote = False

    def run(self, store: Store) -> None:
        """Goes on until the protocol ends; an error of the store leaves it where it is."""
        if self._protocol is None:
            self._protocol = self._begin()
            self._advance(None)
        while self._operation is not None:
            try:
                answer = perform(store, self._operation)
            except BaseException as error:
                self.wrote |= may_have_written(self._operation, error)
                raise
            self.wrote |= not isinstance(self._operation, GetRows | Acknowledge)
            if isinstance(self._operation, Acknowledge):
                self.outcomes = self._operation.outcomes
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
