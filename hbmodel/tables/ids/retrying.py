"""Runs protocols whose operations may all be repeated, and repeats an operation whose outcome is unknown."""

from __future__ import annotations

from typing import Any, TypeVar

from hbmodel.errors import UnknownOutcome
from hbmodel.protocol.driver import perform
from hbmodel.protocol.operations import Operation, Protocol
from hbmodel.store.port import Store

R = TypeVar("R")

TRIES = 3
"""The maximum number of times that an operation is tried."""


def drive_with_retries(store: Store, protocol: Protocol[R]) -> R:
    """Runs a protocol to its end.

    Raises:
        UnknownOutcome: an operation was tried `TRIES` times, and its outcome is still unknown.
    """
    answer: Any = None
    try:
        while True:
            answer = _performed(store, protocol.send(answer))
    except StopIteration as stop:
        result: R = stop.value
        return result
    finally:
        protocol.close()


def _performed(store: Store, operation: Operation) -> Any:
    for _ in range(TRIES - 1):
        try:
            return perform(store, operation)
        except UnknownOutcome:
            continue
    return perform(store, operation)
