"""Runs programs that pause after one of their calls to the store, while something else happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import hbmodel as hb
from tests.support.lease_clock import LeaseClock

OPTIONS: dict[str, Any] = {"lease": 60, "longest_call": 0.001, "clock_bound": 0.5, "grace": 30}
"""The times of a session. Its lease ends only in a pause, because the clock of leases moves only then."""

TIMES = hb.indexes.IndexTimes(**{**OPTIONS, "lease": 0.001})
"""The times of a build or a drop, which runs when the lease of the session has already ended, so that it need not wait
for the session.
"""


class Pause:
    """An `on_call` function that runs another function after one call of a session.

    Args:
        at: the number of the call, counted from 1.
        then: the function.

    Attributes:
        calls: the number of calls until now.
    """

    def __init__(self, at: int, then: Callable[[], object]) -> None:
        self.at, self.then, self.calls = at, then, 0

    def __call__(self, call: hb.store.Call) -> None:
        """Counts a call."""
        self.calls += 1
        if self.calls == self.at:
            self.then()

    @property
    def over(self) -> bool:
        """Whether the program ended before the call with the number `at`."""
        return self.calls < self.at


def at_each_call(
    lease_clock: LeaseClock,
    prepare: Callable[[hb.Store], object],
    run: Callable[[hb.Session], Any],
    then: Callable[[hb.Store], object],
) -> Iterator[tuple[int, hb.Store, Any]]:
    """Runs a program repeatedly, each time on a new store: paused after its first call, then after its second, and so
    on.

    Args:
        lease_clock: measures the leases of the sessions.
        prepare: creates the tables and rows.
        run: the program; its outcome is its result or its exception.
        then: the function that runs during the pause.

    Yields:
        The number of the call, the store as the program left it, and the outcome.
    """
    at = 0
    while True:
        at += 1
        with hb.connect("memory:") as store:
            prepare(store)
            pause = Pause(at, lambda store=store: (then(store), lease_clock.move(61)))  # type: ignore[misc]
            session = lease_clock.session(store, on_call=pause, **OPTIONS)
            try:
                outcome = run(session)
            except hb.HbmodelError as error:
                outcome = error
            if pause.over:
                assert at > 2, "the program has several calls"
                return
            yield at, store, outcome
