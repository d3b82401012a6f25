"""Carries out the operations of a call that runs immediately, and notes whether the call may have changed a table."""

from __future__ import annotations

from typing import Any, TypeVar

from hbmodel.errors import SchemaMismatch
from hbmodel.protocol.driver import Clock, drive, may_have_written, perform
from hbmodel.protocol.operations import Change, CheckAndPutRows, Operation, Protocol, Together
from hbmodel.store.gate import Gate
from hbmodel.store.port import Store
from hbmodel.tables.roll.renewed_lines import Calls

R = TypeVar("R")


class Sending:
    """Carries out operations for one call of a session. Until one of them may have changed a table, the counted call is
    marked with `Calls.nothing_sent`. If a marked call fails, no change of the registry has to wait for it.

    Every change that the call makes must be carried out by this object.

    Args:
        calls: the counted call, or anything else if calls are not counted.
    """

    def __init__(self, calls: object = None) -> None:
        self._calls = calls if isinstance(calls, Calls) else None
        self._operation: Operation | None = None  # the operation that has begun and has not been answered yet
        self._changed = False  # whether an operation that has ended may have changed a table
        if self._calls is not None:
            self._calls.nothing_sent = True

    def drive(self, store: Store, protocol: Protocol[R], clock: Clock, check: Gate) -> R:
        """Runs a protocol to its end; see `hbmodel.protocol.driver.drive`."""
        try:
            return drive(store, self._noted(protocol), clock, check)
        except BaseException as error:
            self._failed(error)
            raise

    def perform(self, store: Store, operation: Change) -> Any:
        """Carries out one change, and returns its answer."""
        self._begun(operation)
        try:
            answer = perform(store, operation)
        except BaseException as error:
            self._failed(error)
            raise
        self._ended(changed=True)
        return answer

    def _noted(self, protocol: Protocol[R]) -> Protocol[R]:
        """Returns the same protocol, but notes each operation before it is carried out, and after it was answered."""
        try:
            operation = protocol.send(None)
            while True:
                self._begun(operation)
                try:
                    answer = yield operation
                except SchemaMismatch as error:  # none of the operation was sent, or only a part of it
                    self._ended(changed=isinstance(operation, Together | CheckAndPutRows))
                    operation = protocol.throw(error)
                    continue
                self._ended(changed=isinstance(operation, Change))
                operation = protocol.send(answer)
        except StopIteration as stop:
            result: R = stop.value
            return result
        finally:
            protocol.close()

    def _begun(self, operation: Operation) -> None:
        """Notes an operation that begins. A change counts as sent until it is certain that it was not sent. So it also
        counts as sent if an interrupt arrives before this is certain.
        """
        self._operation = operation
        if self._calls is not None and isinstance(operation, Change):
            self._calls.nothing_sent = False

    def _failed(self, error: BaseException) -> None:
        if self._operation is not None:
            self._ended(changed=may_have_written(self._operation, error))

    def _ended(self, *, changed: bool) -> None:
        """Notes that the operation has ended, and whether it may have changed a table."""
        self._operation, self._changed = None, self._changed or changed
        if self._calls is not None:
            self._calls.nothing_sent = not self._changed
