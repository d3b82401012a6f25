"""Waits for programs that may still read or write according to an earlier state of the registry.

Readers notice a new state when their leases of the earlier state end. Writers are on the writers' roll, so a change
waits only for those writers that may still follow an earlier state. Programs with an older version are not on the roll.
If such programs may write the table, a change waits for the sum of the lease and the longest call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from attrs import frozen

from hbmodel.protocol.corrected_clock import CLOCK_BOUND, LONGEST_CALL
from hbmodel.store.port import Store
from hbmodel.tables.registry.read_roll import RollLines, revision_of
from hbmodel.tables.registry.registration import LEASE, Registration
from hbmodel.tables.registry.registry_table import Registry

Awaited = Literal["readers", "writers"]
"""The programs for which a change waits. `readers` are sessions that may read according to an earlier state until their
leases end. `writers` are all programs that may still write according to an earlier state.
"""

Waited = Callable[[float, Awaited, Sequence[str]], None]
"""A function that waits for a part of the time that is left. Its arguments are the seconds that are left, the kind of
programs for which the change waits, and descriptions of the writers, if they are known. When it returns, the registry
is read again.
"""


@frozen
class Drain:
    """How long sessions may still read and write according to an earlier state of the registry.

    Attributes:
        lease: the longest lease of all sessions that use the table, in seconds.
        longest_call: the maximum duration of a call to HBase, in seconds (the gateway's
            `hbase.client.operation.timeout`).
        clock_bound: how far the clocks of two servers may differ, in seconds.
    """

    lease: float = LEASE
    longest_call: float = LONGEST_CALL / 1000
    clock_bound: float = CLOCK_BOUND / 1000

    @property
    def read(self) -> int:
        """The maximum time until every session has noticed a change, in ms."""
        return round(self.lease * 1000) + 1

    @property
    def written(self) -> int:
        """The maximum time until no call that follows the earlier state can take effect any more, in ms."""
        return round((self.lease + self.longest_call) * 1000) + 1

    @property
    def skew(self) -> int:
        """How far the clocks of two servers may differ, in ms."""
        return round(self.clock_bound * 1000)


@frozen
class OtherPrograms:
    """The programs that use the tables of a store.

    Attributes:
        drain: how long programs may still follow an earlier state.
        wait: waits for a part of the time that is left.
    """

    store: Store
    registry: Registry
    drain: Drain
    wait: Waited

    def have_read(self, since: int, now: int) -> bool:
        """Returns whether no session can still read according to the state before `since`. If a session can, waits for
        a part of the time that is left.
        """
        return self._over(since, min(self.drain.read, self.registry.trusted + 1), now, "readers")

    def have_written(self, row: bytes, registration: Registration, cell: bytes, since: int, now: int) -> bool:
        """Returns whether no program can still write according to the state before a change. If a program can, waits a
        moment.

        Args:
            registration: the registration in the row, read after the change.
            cell: the cell of the row that was changed.
            since: when the change was written to the registry, in ms by its server's clock.
            now: the server's time, in ms.
        """
        if self.gated or since + self.drain.written < now:
            return True
        if not self._listed(row, registration, now):
            return self._over(since, self.drain.written, now, "writers")
        lines = RollLines(self.store, self.registry.table)
        waits = lines.waits(
            row, cell, revision_of(registration.cells.get(cell)), now, self.drain.written, self.drain.skew
        )
        if not waits:
            return True
        self.wait(
            max(0, max(waited_for.until for waited_for in waits) - now) / 1000,
            "writers",
            [waited_for.described(now) for waited_for in waits],
        )
        return False

    @property
    def gated(self) -> bool:
        """Whether every write checks the registry inside its transaction."""
        return self.store.capabilities.gated_writes

    def _listed(self, row: bytes, registration: Registration, now: int) -> bool:
        """Returns whether all programs that can still write according to an earlier state are on the roll.

        If the registry does not record since when programs are on the roll, this call records the present time.
        """
        if registration.listed is None:
            self.registry.mark_listed(row)
            return False
        return registration.listed == 0 or registration.listed + self.drain.written < now

    def _over(self, since: int, longest: float, now: int, whom: Awaited) -> bool:
        """Returns whether `longest` ms have passed since a change. If not, waits for a part of the time that is
        left.
        """
        left = since + longest - now
        if left <= 0:
            return True
        self.wait(left / 1000, whom, ())
        return False
