"""The gate before requests that change something: it asks, in the middle of an operation, whether the writer may
continue.

The code that carries out an operation of a protocol sets the gate for it. A store that sends several requests for one
operation, or sends one again, passes the gate before each of them, since the registry may have changed in the meantime.
A store whose requests are transactions passes the gate inside each transaction, where no other program can change the
registry any more (`Capabilities.gated_writes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hbmodel.errors import HbmodelError
from hbmodel.store.values import Row

Gate = Callable[[], None]
"""Raises `SchemaMismatch` if what an operation has read from the registry is no longer true, or if its lease has ended
and cannot be renewed.
"""

GATE: ContextVar[Gate | None] = ContextVar("gate", default=None)
"""The gate that is asked before requests of this thread, or None."""

ReadRow = Callable[[str, bytes], Row | None]
"""Reads a row of a table, as the transaction of a request sees it; raises `TableNotFound`."""

TRANSACTION: ContextVar[ReadRow | None] = ContextVar("transaction", default=None)
"""While the gate is asked inside a transaction, the function that reads in this transaction; otherwise None."""


@contextmanager
def gated(gate: Gate | None) -> Iterator[None]:
    """A block in which `gate` is asked before the requests of this thread; None means that no gate is asked."""
    token = GATE.set(gate)
    try:
        yield
    finally:
        GATE.reset(token)


def pass_gate(read: ReadRow | None = None) -> None:
    """Passes the gate of this thread; raises what the gate raises.

    This is to be called before each request that changes something, except the first of an operation.

    Args:
        read: reads in the transaction of the request. It is given if that transaction has begun, and no one else can
            write before it ends.
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
    """Whether the gate allows a request to be sent again. If the gate fails to find this out, the answer is False."""
    try:
        pass_gate()
    except HbmodelError:
        return False
    return True
