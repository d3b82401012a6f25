"""The clock for the timestamps of writes of indexed rows: this machine's clock, corrected to the server's clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import frozen

from hbmodel.errors import ClockError, SessionError, StoreUnavailable, UnknownOutcome

GRACE = 3_600_000
"""Default grace time G in ms: the age at which a repair may treat an entry as an orphan."""

LONGEST_CALL = 1_200_000
"""Default maximum time L, in ms, that one call may last (the gateway's `hbase.client.operation.timeout`)."""

CLOCK_BOUND = 60_000
"""Default maximum difference, in ms, between this machine's clock and the server's clock."""

PROBES = 3
"""The maximum number of requests for the server's time. If the response is too slow for a comparison of the clocks, the
request is repeated.
"""


def wall_time() -> int:
    """Returns the wall time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def running_time() -> int:
    """Returns the time of a monotonic clock in milliseconds. If the system has a clock that continues while the machine
    sleeps, it is used.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)) // 1_000_000


def time_above(table: str, row: bytes, newest: int, now: int, bound: int) -> tuple[int, ClockError | None]:
    """Returns the timestamp of a write to a row. It is above the timestamp of the row's newest cell, and not before
    `now`.

    The second value is an error if the timestamp is more than `bound` ms in the future, otherwise None.
    """
    timestamp = max(now, newest + 1)
    if timestamp <= now + bound:
        return timestamp, None
    return timestamp, ClockError(
        "The row has a cell whose timestamp is further in the future than the clock bound, so it cannot be overwritten "
        "safely: try again after that time, or delete the cell.",
        table=table,
        key=row,
        newest=newest,
        now=now,
        bound=bound,
    )


@frozen
class Offset:
    """A measurement of the offset, which is the time in ms by which the server's clock is ahead of this machine's
    clock.

    Attributes:
        value: the offset.
        running: the time of the monotonic clock at the measurement.
        now: the server's time at the measurement.
    """

    value: int
    running: int
    now: int


class SharedOffset:
    """This machine's clocks, and the latest offset of the server's clock.

    Several threads may measure the offset at the same time. Any of their results can be used.

    Args:
        wall: the wall clock in ms.
        running: a monotonic clock, in ms.
    """

    def __init__(self, wall: Callable[[], int] = wall_time, running: Callable[[], int] = running_time) -> None:
        self.wall, self.running = wall, running
        self.latest: Offset | None = None
        self._heard: tuple[int, int, int, int] | None = None

    def hear(self, before: int, server: int, after: int) -> None:
        """Records a time of the server's clock that was received between two readings of the wall clock, all in ms.

        The next measurement uses this time, and sends no request to the server.
        """
        self._heard = before, server, after, self.running()

    def heard(self, bound: int) -> Offset | None:
        """Returns the offset computed from the time that was last recorded. Each recorded time is used only once.
        Returns None if no time was recorded, or if the offset exceeds the bound.
        """
        heard, self._heard = self._heard, None
        if heard is None:
            return None
        before, server, after, running = heard
        offset = server - (before + after) // 2
        return Offset(offset, running, after + offset) if abs(offset) <= bound else None


def check_grace(grace: int, longest_call: int, bound: int) -> None:
    """Raises `SessionError` if the grace time is too short to be safe. All times are in ms."""
    if grace <= 2 * (longest_call + 2 * bound):
        raise SessionError(
            "The grace time must exceed twice the longest call plus four clock bounds.", grace=grace, bound=bound
        )


class ServerClock:
    """A clock that adds the offset of the server's clock to the wall time. The first write measures the offset.

    Args:
        probe: returns the server's time in ms.
        lease_valid: returns whether the schema that writes use is still current.
        grace: G in ms.
        bound: the largest offset that is allowed in either direction, in ms.
        longest_call: L in ms.
        shared: this machine's clocks and the offset; several clocks for the same server may share it.

    Raises:
        SessionError: the grace time is too short to be safe: G must exceed twice the longest call plus four times the
            bound.
    """

    def __init__(
        self,
        probe: Callable[[], int],
        lease_valid: Callable[[], bool],
        *,
        grace: int = GRACE,
        bound: int = CLOCK_BOUND,
        longest_call: int = LONGEST_CALL,
        shared: SharedOffset | None = None,
    ) -> None:
        check_grace(grace, longest_call, bound)
        self._probe, self._lease_valid = probe, lease_valid
        self.grace = grace
        self.bound = bound
        self._shared = SharedOffset() if shared is None else shared
        self._wall, self._running = self._shared.wall, self._shared.running

    @classmethod
    def of_seconds(
        cls,
        probe: Callable[[], int],
        lease_valid: Callable[[], bool],
        *,
        grace: float,
        bound: float,
        longest_call: float,
        shared: SharedOffset | None = None,
    ) -> ServerClock:
        """Returns a clock whose times are given in seconds."""
        return cls(
            probe,
            lease_valid,
            grace=round(1000 * grace),
            bound=round(1000 * bound),
            longest_call=round(1000 * longest_call),
            shared=shared,
        )

    def now(self, exact: bool = False) -> int:
        """Returns milliseconds since 1970 by the server's clock. The first call requests the server's time.

        Args:
            exact: whether the server's time is always requested.

        Raises:
            ClockError: the two clocks differ by more than the bound.
            StoreUnavailable: the server's time cannot be read.
        """
        offset = self._shared.latest
        if offset is None:
            offset = self._shared.latest = self._measured()
        if exact:
            return self._ask()[1]
        now = self._wall() + offset.value
        # If the wall clock has been set since the measurement, the measured offset no longer applies to the wall clock.
        drift = now - (offset.now + self._running() - offset.running)
        if abs(drift) > self.bound:
            self._shared.latest = None
            return self.now()
        return now

    def ahead(self, timestamp: int) -> int | None:
        """Returns None if this machine's clock has reached `timestamp`. Otherwise, requests the server's time and
        returns it, in ms.

        The difference of the two clocks is not limited here.

        Raises:
            StoreUnavailable: the server's time cannot be read.
        """
        offset = self._shared.latest
        now = self._wall() + (0 if offset is None else offset.value)
        return None if now >= timestamp else self._ask()[1]

    def _measured(self) -> Offset:
        heard = self._shared.heard(self.bound)
        if heard is not None:
            return heard
        took = 0
        for _ in range(PROBES):
            before, server, after = self._ask()
            offset = server - (before + after) // 2
            if abs(offset) <= self.bound:
                return Offset(offset, self._running(), after + offset)
            took = after - before
            if abs(offset) > self.bound + took // 2 or took <= self.bound:
                raise ClockError(
                    "This machine's clock and the server's differ by more than the clock bound: synchronize the "
                    "clocks.",
                    offset=offset,
                    bound=self.bound,
                )
        raise ClockError(
            "The server answered too slowly for its clock to be compared with this machine's. Try again, or give a "
            "larger clock bound.",
            took=took,
            bound=self.bound,
        )

    def _ask(self) -> tuple[int, int, int]:
        """Returns the server's time, with a reading of the wall clock from before and one from after the request.

        A request with an unknown outcome is repeated once. This is safe, because the request writes only the clock
        cell.
        """
        before = self._wall()
        try:
            return before, self._probe(), self._wall()
        except UnknownOutcome:
            before = self._wall()
        try:
            return before, self._probe(), self._wall()
        except UnknownOutcome as error:
            raise StoreUnavailable(
                "The server's clock cannot be read; nothing was written. Try again.", **error.details
            ) from error

    def fresh(self, since: int) -> bool:
        """Returns whether less than half the grace time has passed since `now` returned `since`, and the schema is
        current.
        """
        offset = self._shared.latest
        if offset is None:  # the offset has been found to be wrong
            return False
        by_wall = self._wall() + offset.value - since
        by_running = offset.now + self._running() - offset.running - since
        return -self.bound <= by_wall < self.grace // 2 and by_running < self.grace // 2 and self._lease_valid()
