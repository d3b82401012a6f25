"""The gate before requests that change something: asks, in the middle of an operation, whether its writer may go on.

Whoever carries out an operation of a protocol opens the gate around it. A store that sends several requests for one
operation, or sends one again, passes the gate before each of them, since the registry may have changed in the meantime.
A store whose requests are transactions passes it inside each transaction, where nobody can change the registry any more
(`Capabilities.gated_writes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hbmodel.errors import HbmodelError
from hbmodel.store.values import Row

Gate = Callable[[], None]
"""Raises `SchemaMismatch` if the binding that a protocol writes by no longer holds, or its lease is over and it
cannot be renewed.
"""

GATE: ContextVar[Gate | None] = ContextVar("gate", default=None)
"""The gate that requests of this thread pass, or None."""

ReadRow = Callable[[str, bytes], Row | None]
"""Reads a row of a table, as it is in the transaction that a request is; raises `TableNotFound`."""

TRANSACTION: ContextVar[ReadRow | None] = ContextVar("transaction", default=None)
"""Reads in the transaction inside which the gate is being passed; None elsewhere."""


@contextmanager
def gated(gate: Gate | None) -> Iterator[None]:
    """Requests sent meanwhile, by this thread, pass a gate; None means that they pass none."""
    token = GATE.set(gate)
    try:
        yield
    finally:
        GATE.reset(token)


def pass_gate(read: ReadRow | None = None) -> None:
    """To be called before a request that changes something, unless it is the first of its operation; raises what the
    gate raises.

    Args:
        read: reads in the transaction that the request is, if it has begun and nobody else can write before it ends.
    """
    gate = GATE.get()
    if gate is None:
        return
    within, outside = TRANSACTION.set(read), GATE.set(None)  # what the gate itself asks for passes none
    try:
        gate()
    finally:
        GATE.reset(outside)
        TRANSACTION.reset(within)


def may_pass() -> bool:
    """Whether the gate lets a request pass that is sent again; also False if it cannot be known."""
    try:
        pass_gate()
    except HbmodelError:
        return False
    return True
