"""Waits after a delete at the server's time, so that the delete does not hide puts that follow it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from hbmodel.store.values import CLOCK_TICK, Delete, Put


def let_tick_pass() -> None:
    """Waits until every clock shows a later millisecond."""
    time.sleep(CLOCK_TICK)


def deletes_now(mutations: Iterable[Put | Delete]) -> bool:
    """Returns whether a delete at the server's time is among the mutations."""
    return any(isinstance(mutation, Delete) and mutation.timestamp is None for mutation in mutations)
