"""A plugin of pytest that runs tests as on another machine: one with a slow disk, a clock that is ahead of the store's,
or memory that is never collected.

Each machine shows tests that pass by chance elsewhere, in one run instead of many.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from attrs import evolve

from hbmodel.protocol.corrected_clock import Offset, ServerClock, wall_time
from hbmodel.store.embedded import EmbeddedStore

AHEAD = 20
"""The milliseconds by which the clock of a session is ahead: half of the time that the comparison took."""

_sleep = time.sleep  # tests replace it


def slow_disk(patch: pytest.MonkeyPatch) -> None:
    """Calls of embedded stores that take up to 3 ms longer, and at times 60 ms, before they do something and after."""
    chance = random.Random(1)

    def pause() -> None:
        drawn = chance.random()
        if drawn < 0.012:
            _sleep(0.06)
        elif drawn < 0.35:
            _sleep(0.003 * chance.random())

    def slow(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **options: Any) -> Any:
            pause()
            try:
                return method(*args, **options)
            finally:
                pause()

        return call

    for name in ("get", "get_each", "scan", "put", "delete", "mutate_row", "check_and_mutate", "increment"):
        patch.setattr(EmbeddedStore, name, slow(getattr(EmbeddedStore, name)))


def clocks_apart(patch: pytest.MonkeyPatch) -> None:
    """Sessions whose clock is ahead of the store's; those that are given a clock keep it."""
    measured = ServerClock._measured

    def ahead(self: ServerClock) -> Offset:
        offset = measured(self)
        if self._shared.wall is not wall_time:
            return offset
        return evolve(offset, value=offset.value + AHEAD, now=offset.now + AHEAD)

    patch.setattr(ServerClock, "_measured", ahead)


def no_collection(patch: pytest.MonkeyPatch) -> None:
    """Objects in cycles are never collected, unless a test asks for it."""
    gc.disable()
    patch.setattr(gc, "enable", lambda: None)


MACHINES = {"slow-disk": slow_disk, "clocks-apart": clocks_apart, "no-collection": no_collection}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--machine", choices=tuple(MACHINES), help="run the tests as on such a machine")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.machine is not None:
        patch = pytest.MonkeyPatch()
        config.add_cleanup(patch.undo)
        MACHINES[config.option.machine](patch)
