"""Logs long waits for other programs, for calls without a `progress` function that would report the waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from hbmodel.tables.roll.other_programs import Awaited
from hbmodel.tables.roll.wait_text import EVERY, SHORT, SHORTEN, wait_text

logger = logging.getLogger("hbmodel")

QUIET = 20.0
"""A wait is logged once it has lasted for this many seconds. Waits for programs that stopped writing are shorter."""

PAUSE = 10.0
"""If a call waits again after a pause of more than this many seconds, this counts as another wait."""


class LoggedWaits:
    """Logs each long wait of one call as a warning, after `QUIET` seconds and then once a minute.

    Args:
        now: the clock that measures waits, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.begin()

    def begin(self) -> None:
        """Begins another call: what earlier calls waited for does not count."""
        self._last = self._next = float("-inf")

    def __call__(self, seconds: float, whom: Awaited, writers: Sequence[str]) -> None:
        """Logs the wait if it is long.

        Args:
            seconds: the maximum remaining time of the wait, in seconds.
            whom: the programs for which the call waits.
            writers: descriptions of the writers, if they are known.
        """
        now = self._now()
        if now - self._last > PAUSE:
            self._next = now + QUIET
        self._last = now
        if now < self._next or seconds < SHORT:
            return
        self._next = now + EVERY
        logger.warning("%s%s", wait_text(seconds, whom, writers), f"; {SHORTEN}" if writers else "")
