"""Repeats tests of short-lived data on machines that are sometimes too slow for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import pytest

TRIES = 4

P = ParamSpec("P")
R = TypeVar("R")


def lives_for(seconds: float) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Runs a test once more if it failed and took longer than the lifetime of its data.

    Such a test is not meant to cover a program or a server that is paused for so long. A real mistake makes the last
    run fail too.

    Args:
        seconds: the lifetime of the data that the test writes.
    """

    def decorated(test: Callable[P, R]) -> Callable[P, R]:
        @wraps(test)
        def tried(*args: P.args, **options: P.kwargs) -> R:
            for _ in range(TRIES - 1):
                began = time.monotonic()
                try:
                    return test(*args, **options)
                except (Exception, pytest.fail.Exception):
                    if time.monotonic() - began < seconds:
                        raise
            return test(*args, **options)

        return tried

    return decorated
