"""The server's clock of an embedded store, and the waits that give two changes of a cell different times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hbmodel.store.clock_tick import deletes_now
from hbmodel.store.embedded.descriptor import TableDescriptor
from hbmodel.store.embedded.write import RowWriter
from hbmodel.store.values import Delete, Put

_PAUSE = 0.0002
"""The number of seconds between two readings of the clock."""


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000


class EmbeddedClock:
    """A clock in ms since 1970. A call returns its time.

    Args:
        given: a clock that a test controls; nothing waits for such a clock. None means the machine's clock.
    """

    def __init__(self, given: Callable[[], int] | None = None) -> None:
        self._given = given

    def __call__(self) -> int:
        """Returns the current time."""
        return _milliseconds() if self._given is None else self._given()

    def pass_deletes(self, mutations: Sequence[Put | Delete], millisecond: int) -> None:
        """After a delete at the server's time, waits until its millisecond has passed, because its tombstones would
        hide puts in the same millisecond.
        """
        if deletes_now(mutations):
            while self._given is None and self() <= millisecond:
                time.sleep(_PAUSE)

    def time_apart(
        self, layout: TableDescriptor, changes: Sequence[tuple[RowWriter, Sequence[Put | Delete]]], now: int
    ) -> int:
        """Returns the time of a change: `now`, or the next millisecond if a cell that the change puts already has a
        version of `now`.

        Otherwise, the change would replace that version. Only families that keep several versions are checked.
        """
        if self._given is not None or not layout.keeps_versions:
            return now
        while any(writer.would_replace(mutation, now) for writer, mutations in changes for mutation in mutations):
            while (later := self()) == now:
                time.sleep(_PAUSE)
            now = later
        return now
