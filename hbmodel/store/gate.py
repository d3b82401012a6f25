"""The gate before requests that change something, which checks in the middle of an operation whether the writer may
continue.

The code that carries out an operation of a protocol sets the gate for it. A store that sends several requests for one
operation, or sends one again, passes the gate before each of them, because the registry may have changed since the
previous request. A store whose requests are transactions passes the gate inside each transaction, where no other
program can change the registry any more (`Capabilities.gated_writes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hbmodel.errors import HbmodelError
from hbmodel.store.values import Row

Gate = Callable[[], None]
"""A function that raises `SchemaMismatch` if the registry entries that an operation has read have changed, or if the
lease has ended and cannot be renewed.
"""

GATE: ContextVar[Gate | None] = ContextVar("gate", default=None)
"""The gate that the requests of this thread must pass, or None."""

ReadRow = Callable[[str, bytes], Row | None]
"""A function that reads a row of a table, as the transaction of a request sees it. It raises `TableNotFound`."""

TRANSACTION: ContextVar[ReadRow | None] = ContextVar("transaction", default=None)
"""The function that reads in a transaction, while its request passes the gate inside the transaction, or that reads the
store, after a request that did not find its table; otherwise None.
"""


@contextmanager
def gated(gate: Gate | None) -> Iterator[None]:
    """Makes `gate` the gate of the requests of this thread in its block. None means that there is no gate."""
    token = GATE.set(gate)
    try:
        yield
    finally:
        GATE.reset(token)


def pass_gate(read: ReadRow | None = None) -> None:
    """Passes the gate of this thread. Raises the errors of the gate.

    Call this before each request that changes something, except the first request of an operation.

    Args:
        read: reads in the transaction of the request. It is given if the transaction has begun, so that no other
            program can write before it ends.
    """
    gate = GATE.get()
    if gate is None:
        return
    within, outside = TRANSACTION.set(read), GATE.set(None)  # the gate's own requests do not pass through a gate
    try:
        gate()
    finally:
        GATE.reset(outside)
        TRANSACTION.reset(within)


def may_pass() -> bool:
    """Returns whether the gate allows a request to be sent again. If the gate raises an error, returns False."""
    try:
        pass_gate()
    except HbmodelError:
        return False
    return True
