"""The lines of this program on the writers' roll, for the tables that it writes through one store, and the thread that
renews them.

A program puts itself on the roll before it writes. While it is on the roll, a thread renews its lines, reads the
registry every few seconds, and puts a line at rest soon after the last call. The thread ends when there are no more
lines. When the program ends, its lines are deleted.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from hbmodel.errors import HbmodelError, StoreClosed
from hbmodel.protocol.corrected_clock import SharedOffset, running_time
from hbmodel.protocol.roll_line_format import Member, Revisions, Writer
from hbmodel.store.port import Store
from hbmodel.tables.registry.read_roll import new_id
from hbmodel.tables.roll.child_processes import at_end_of_child
from hbmodel.tables.roll.own_line import ROLL_TIMES, OwnLine, RollTimes

log = logging.getLogger("hbmodel")

KEEPER = "hbmodel-writers-roll"
"""The name of the threads that keep lines."""

END = 5.0
"""The maximum number of seconds for which the end of a roll waits for the thread that keeps its lines."""


def this_program() -> Writer:
    """Returns the host, the process number and the program name of this process."""
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else ""
    return Writer(socket.gethostname(), os.getpid(), program)


class OwnLines:
    """The lines of this program, for all tables that it writes through one store.

    It is thread-safe. A forked child begins without lines, because the existing lines belong to the parent.

    Args:
        lease: the lease of the lines, in ms.
        longest_call: the maximum duration of a call, in ms.
        offset: the offset of the server's clock; it is learned from the first put of a line.
        running: the clock that measures leases, in ms.
    """

    def __init__(
        self,
        lease: int,
        longest_call: int,
        offset: SharedOffset,
        times: RollTimes = ROLL_TIMES,
        running: Callable[[], int] = running_time,
    ) -> None:
        self._lease, self._longest_call, self._offset, self._times, self._running = (
            lease,
            longest_call,
            offset,
            times,
            running,
        )
        self._at_exit: weakref.finalize[..., OwnLines] | None = None
        self._not_at_end_of_child: Callable[[], object] | None = None
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._lines: dict[tuple[str, bytes, int], OwnLine] = {}
        self._keeper: threading.Thread | None = None
        self._ended = False

    def line(self, store: Store, registry: str, row: bytes) -> OwnLine:
        """Returns the line for a row of the registry. If this thread puts the line, and calls a function such as
        `on_call` that requests the same line, the function cannot wait for the put, so it gets another line.
        """
        if self._pid != os.getpid():
            self._begin()
        depth = 0
        while (line := self._lines.get((registry, row, depth))) is not None:
            if line.busy_in is None or line.busy_in != threading.get_ident():
                return line
            depth += 1
        member, bare = (
            Member(new_id(), self._lease, self._longest_call, this_program()),
            getattr(store, "unobserved", store),
        )
        with self._changed:
            own_line = OwnLine(
                bare,
                registry,
                row,
                member,
                self._offset,
                self._times,
                self._running,
                self._lock,
                self._changed,
                self._keep,
            )
            return self._lines.setdefault((registry, row, depth), own_line)

    def calls(self, store: Store, registry: str, rows: Iterable[bytes]) -> Calls:
        """Returns a context manager that counts a call as in progress. The call relies on the state of the given rows
        of the registry.
        """
        return Calls(self, store, registry, rows)

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Starts the thread that keeps the lines, unless it is already running, and notifies it of a change."""
        with self._changed:
            if self._keeper is None and not self._ended:
                self._keeper = threading.Thread(target=self._keeping, args=(self._changed,), name=KEEPER, daemon=True)
                self._keeper.start()
                self._end_with_the_program(True)
            self._changed.notify_all()

    def _keeping(self, condition: threading.Condition) -> None:
        """Keeps the lines, in a separate thread, until no line is on the roll any more or the roll has ended."""
        while True:
            with condition:
                if self._changed is not condition:
                    return
                waiting = [(line.due(), line) for line in self._lines.values() if line.on]
                if not waiting or self._ended:
                    self._keeper = None
                    return
                due, line = min(waiting, key=lambda pair: pair[0])
                now = self._running()
                if due > now:
                    condition.wait(min((due - now) / 1000, self._times.poll))  # calls do not notify this thread
                    continue
            try:
                line.keep()
            except Exception as error:  # every error is caught, because no line would be renewed if the thread ended
                if not isinstance(error, StoreClosed):
                    log.warning("a line on the writers' roll could not be kept: %s", error)
                line.lose()

    # --- the end ------------------------------------------------------------------------------------------------------

    def end(self, store: Store | None = None) -> None:
        """Takes this program off the roll until it writes again. Lines that cannot be deleted end with their leases.

        Args:
            store: the store through which lines are deleted. With None, each line is deleted through the store that
                keeps it.
        """
        if self._pid != os.getpid():
            return
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            lines, keeper = [*self._lines.values()], self._keeper
        failed: list[Store] = []  # after one failure, the other lines of this store would fail as slowly
        for line in lines:
            through = line.store if store is None else store
            if any(through is each for each in failed):
                continue
            try:
                line.leave(through)
            except HbmodelError:
                failed.append(through)
        if keeper is not None and keeper is not threading.current_thread():
            keeper.join(END)
        self._end_with_the_program(False)
        self._begin()

    def _end_with_the_program(self, last: bool) -> None:
        """Arranges that the roll ends when the program ends, or when one of its stores is closed, if the store reports
        that. If `last` is False, this is undone.
        """
        if last and self._at_exit is None:
            self._at_exit = weakref.finalize(self, _end_at_exit, weakref.ref(self))
            self._not_at_end_of_child = at_end_of_child(self, _end_at_exit, weakref.ref(self))
        elif not last and self._at_exit is not None:
            self._at_exit.detach()
            self._at_exit = None
            if self._not_at_end_of_child is not None:
                self._not_at_end_of_child()
        for line in [*self._lines.values()]:
            ends: weakref.WeakSet[OwnLines] | None = getattr(line.store, "before_close", None)
            if ends is not None:
                ends.add(self) if last else ends.discard(self)


class Calls:
    """A context manager that counts a call as in progress. The call is counted in the program's lines for the registry
    rows on whose state it relies, from `begin` until the end of the block.

    Args:
        store: the store through which missing leases are taken.

    Attributes:
        nothing_sent: whether the block ends with an error but has certainly sent no change that the store may have
            carried out or may still carry out.
    """

    nothing_sent = False

    def __init__(self, roll: OwnLines, store: Store, registry: str, rows: Iterable[bytes]) -> None:
        self._roll, self._store, self._registry, self._waiting, self._pid = roll, store, registry, [*rows], os.getpid()
        self._begun: list[tuple[OwnLine, Revisions]] = []

    def begin(self) -> None:
        """Starts to count the call, in each line in which it is not counted yet."""
        while self._waiting:
            line = self._roll.line(self._store, self._registry, self._waiting[0])
            revisions = line.began(self._store)
            if revisions is not None:
                self._begun.append((line, revisions))
            del self._waiting[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.clear()
        if self._pid == os.getpid():  # otherwise this object is a copy in a forked child
            for line, revisions in self._begun:
                line.ended(revisions, error, known=self.nothing_sent)


def _end_at_exit(roll: weakref.ref[OwnLines]) -> None:
    """Ends a roll that is still alive when the program exits.

    If the roll was freed earlier, this does nothing.
    """
    if (writers_roll := roll()) is not None:
        writers_roll.end()
