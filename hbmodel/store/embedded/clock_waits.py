"""The server's clock of an embedded store, and the waits that give two changes of a cell different times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hbmodel.store.clock_tick import deletes_now
from hbmodel.store.embedded.descriptor import TableDescriptor
from hbmodel.store.embedded.write import RowWriter
from hbmodel.store.values import CLOCK_TICK, Delete, Put

_PAUSE = 0.0002
"""The number of seconds between two readings of the clock."""

_LONGEST = 2 * CLOCK_TICK
"""The number of seconds after which a clock that a test controls is taken to move only when the test moves it."""


class SteadyClock:
    """The machine's clock in ms since 1970, which does not go back. A call returns its time.

    If the machine's clock is set back, this clock continues at half speed until the machine's clock has caught up.
    Otherwise, the tombstones of earlier deletes would hide the puts that follow.

    Args:
        machine: returns the time of the machine's clock, in ns.
        monotonic: returns the time of a clock that nobody sets, in ns.
    """

    def __init__(
        self, machine: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._machine, self._monotonic = machine, monotonic
        self._newest = (machine(), monotonic())  # the last time that was returned, and when

    def __call__(self) -> int:
        """Returns the current time."""
        newest, at = self._newest
        now, elapsed = self._machine(), self._monotonic()
        if now < newest:
            now = newest + (elapsed - at) // 2
        self._newest = now, elapsed
        return now // 1_000_000


class EmbeddedClock:
    """A clock in ms since 1970. A call returns its time.

    Args:
        given: a clock that a test controls. If it does not move by itself, nothing waits for it. None means the
            machine's clock.
    """

    def __init__(self, given: Callable[[], int] | None = None) -> None:
        self._read = SteadyClock() if given is None else given
        self._given = given is not None
        self._moves = True

    def __call__(self) -> int:
        """Returns the current time."""
        return self._read()

    def pass_deletes(self, mutations: Sequence[Put | Delete], millisecond: int) -> None:
        """After a delete at the server's time, waits until its millisecond has passed, because its tombstones would
        hide puts in the same millisecond.
        """
        if deletes_now(mutations):
            self._reach(millisecond + 1)

    def time_apart(
        self, layout: TableDescriptor, changes: Sequence[tuple[RowWriter, Sequence[Put | Delete]]], now: int
    ) -> int:
        """Returns the time of a change: `now`, or the next millisecond if a cell that the change puts already has a
        version of `now`.

        Otherwise, the change would replace that version. Only families that keep several versions are checked.
        """
        if not layout.keeps_versions:
            return now
        while any(writer.would_replace(mutation, now) for writer, mutations in changes for mutation in mutations):
            later = self._reach(now + 1)
            if later <= now:
                return now
            now = later
        return now

    def _reach(self, millisecond: int) -> int:
        """Waits until the clock shows `millisecond`, and returns the time that it then shows."""
        now = self()
        last = time.monotonic() + _LONGEST
        while now < millisecond and self._moves:
            time.sleep(_PAUSE)
            before, now = now, self()
            self._moves = not self._given or now != before or time.monotonic() < last
        return now
