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
"""Raises `SchemaMismatch` if the binding on which the writes of a protocol rely no longer holds, or if its lease is
over and cannot be renewed.
"""

GATE: ContextVar[Gate | None] = ContextVar("gate", default=None)
"""The gate that requests of this thread pass, or None."""

ReadRow = Callable[[str, bytes], Row | None]
"""Reads a row of a table, as the transaction of a request sees it; raises `TableNotFound`."""

TRANSACTION: ContextVar[ReadRow | None] = ContextVar("transaction", default=None)
"""The function that reads in the transaction in which the gate is being passed; None outside of a transaction."""


@contextmanager
def gated(gate: Gate | None) -> Iterator[None]:
    """A block in which the requests of this thread pass `gate`, or no gate if it is None."""
    token = GATE.set(gate)
    try:
        yield
    finally:
        GATE.reset(token)


def pass_gate(read: ReadRow | None = None) -> None:
    """Passes the gate of this thread; raises what the gate raises.

    This is to be called before each request that changes something, except the first of an operation.

    Args:
        read: reads in the transaction of the request; given if that transaction has begun, and no one else can write
            before it ends.
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
    """Whether the gate allows a request to be sent again; False also if the gate could not find out."""
    try:
        pass_gate()
    except HbmodelError:
        return False
    return True
