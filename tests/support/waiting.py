"""Waits for other threads and programs, with timeouts that are long enough for busy machines."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0
"""The number of seconds after which a wait is given up. A test that passes waits only for a fraction of a second."""


def comes_true(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Waits until a condition is true. Returns whether it became true within a number of seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Waits until a condition is true, and fails after a number of seconds."""
    assert comes_true(condition, seconds), f"not true after {seconds} s"
