"""Tests of what lives for a moment only, on machines that are sometimes slower than that."""

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
    """Runs a test once more if it fails and took longer than what it writes lives.

    A program or a server that stands still for that long is not what the test is about. What is wrong stays wrong the
    last time.

    Args:
        seconds: how long what the test writes lives, or stays young.
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
