"""One line of this program on the writers' roll, with its lease and the count of calls in progress.

`protocol.writers_roll` decides what is allowed at which time, and this module makes the calls to the store. Only one
thread at a time puts or reads a line, but other threads can continue to write at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from attrs import evolve, frozen

from hbmodel.errors import HbmodelError, StoreError, StoreUnavailable, TableNotFound, UnknownOutcome
from hbmodel.protocol.corrected_clock import SharedOffset
from hbmodel.protocol.roll_line_format import Kind, Member, Revisions, RollLine
from hbmodel.store.gate import gated
from hbmodel.store.port import Store
from hbmodel.store.values import Cell, Delete, Put, Row
from hbmodel.tables.registry.read_roll import FAMILY, LINE, line_key, new_id, revisions_of
from hbmodel.tables.registry.registry_cells import cells_of

TRIES = 5
"""The maximum number of times that a line is put until it is found on the roll. The line is put again only if the
previous put was lost or late, or if the line was marked as gone.
"""

LEAVING = 5.0
"""The maximum number of seconds for which the request that takes a line off the roll is retried. It is short because
the program is about to end, and the line also ends without the request.
"""


@frozen
class RollTimes:
    """How a program keeps its lines, in seconds.

    Attributes:
        poll: the time between two reads of the registry while calls are made. It makes sure that a change is noticed
            long before the lease ends.
        idle: the time without calls after which a line is put at rest; less if the lease is short.
        short_idle: the minimum of this time for a lease shorter than `poll`. Such a line rests after two leases, but
            not before this time, and not after `idle`.
        renewed: the fraction of a lease, between 0 and 1, after which the lease is renewed.
    """

    poll: float = 5.0
    idle: float = 10.0
    short_idle: float = 1.0
    renewed: float = 2 / 3


ROLL_TIMES = RollTimes()


class OwnLine:
    """The line of this program for one row of the registry.

    Args:
        store: the store through which the line is kept while no session waits for it.
        row: the key of the registry's row.
        member: the program's state on the roll.
        offset: the offset of the server's clock, which is learned from the first put of the line.
        times: how lines are kept.
        running: the clock that measures leases, in ms.
        lock: guards the state of all lines of the program.
        changed: a condition variable with this lock, which is notified of changes.
        on_kept: called after a lease has been taken.

    Attributes:
        busy_in: the thread that puts or reads the line now, or None.
    """

    def __init__(
        self,
        store: Store,
        registry: str,
        row: bytes,
        member: Member,
        offset: SharedOffset,
        times: RollTimes,
        running: Callable[[], int],
        lock: threading.RLock,
        changed: threading.Condition,
        on_kept: Callable[[], None],
    ) -> None:
        self.store, self.member = store, member
        self._registry, self._row, self._offset, self._times = registry, row, offset, times
        self._lock, self._changed, self._on_kept, self._running = lock, changed, on_kept, running
        self._found: Row | None = None  # the row of the registry as it was last read
        self._looked = running()  # when the read of that row began, or when no registry table was found
        self._used = running()  # when a call last used the line
        self.busy_in: int | None = None
        self._listed = True  # False if there is no registry table; no program can change a state in this case
        self._troubled = False  # whether the last use of the store failed; if so, `leave` does not call the store

    # --- for writers --------------------------------------------------------------------------------------------------

    def state(self, store: Store) -> tuple[Row | None, int]:
        """Returns the registry row that writes must currently follow, and the time at which it was read. If there is no
        valid lease, a lease is taken or renewed first.
        """
        with self._lock:
            self._used = self._running()
            unlisted = not self._listed and self._used - self._looked < self.member.lease
            if unlisted or self.member.may_call(self._used):
                return self._found, self._looked
        with self._alone():
            if not self.member.may_call(self._running()):
                self._take_lease(store)
            return self._found, self._looked

    def look(self, store: Store) -> None:
        """Reads the registry again, although the lease is still valid."""
        with self._alone():
            self._poll(store)

    def began(self, store: Store) -> Revisions | None:
        """Counts a call that begins. Returns the revisions of the state on which the call relies, or None if there is
        no registry.
        """
        for _ in range(TRIES):
            with self._lock:
                self._used = self._running()
                if self._listed and self.member.may_call(self._used):
                    return self._count()
            with self._alone():
                if not self._listed or not self.member.may_call(self._running()):
                    self._take_lease(store)
                if not self._listed:
                    return None
        with self._lock:  # each lease has ended before it could be used
            return self._count()

    def _count(self) -> Revisions | None:
        self.member = self.member.began()
        return self.member.newest

    def ended(self, revisions: Revisions, error: BaseException | None, *, known: bool = False) -> None:
        """Counts the end of a call. Its outcome is unknown after an error of the store, or after an error that hbmodel
        does not define, unless `known` says that the outcome is known.
        """
        unclear = isinstance(error, StoreError) or not isinstance(error, HbmodelError)
        unknown = error is not None and unclear and not known
        with self._lock:
            if revisions not in self.member.calls:
                return
            self._used, self._troubled = self._running(), isinstance(error, StoreUnavailable | UnknownOutcome)
            self.member = self.member.ended(revisions, self._used, unknown=unknown)
            if self.member.behind:
                self._changed.notify_all()

    # --- the line -----------------------------------------------------------------------------------------------------

    @property
    def _key(self) -> bytes:
        return line_key(self._row, self.member.id)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lets only one thread at a time enter its block, to put and read the line. The lock is not held inside the
        block, so other threads can write.
        """
        with self._lock:
            while self.busy_in is not None:
                self._changed.wait()
            self.busy_in = threading.get_ident()
        try:
            with gated(None):
                yield
        finally:
            with self._lock:
                self.busy_in = None
                self._changed.notify_all()

    def _take_lease(self, store: Store) -> None:
        """Puts the line, and then reads the registry. Raises the errors of the store."""
        for _ in range(TRIES):
            if not self._put(store, "on"):
                if not self._listed:
                    return
                continue
            if self.member.sent is not None:  # the line was found on the roll, but the registry has not been read yet
                self._read(store)
            self._on_kept()
            return
        raise StoreUnavailable(
            "The program's line on the writers' roll could not be put, so nothing was written: try again.",
            table=self._registry,
        )

    def _put(self, store: Store, kind: Kind) -> bool:
        """Puts the line, and returns whether it is on the roll.

        If the store confirms the put of a line of the kind `on`, the line and the registry are read in one call.
        Without this confirmation, only the line is read, to find out whether it is on the roll, and the caller must
        read the registry.
        """
        with self._lock:
            self.member = self.member.put(self._running(), kind)
            sent, published, key = self.member.sent, self.member.held, self._key
        assert sent is not None, "a put sends"
        before, done = self._offset.wall(), False
        try:
            expected = None if published is None else published.encode()
            done = store.check_and_put(self._registry, key, LINE, expected, Put(key, {LINE: sent.line.encode()}))
        except TableNotFound:
            self._unlisted()
            return False
        except UnknownOutcome:
            pass  # a read of the line shows whether it was put
        after = self._offset.wall()
        if not done:
            return self._find(store, sent.line)
        if kind == "rest":
            with self._lock:
                self.member = self.member.answered()
            return True
        began = self._running()
        row, own = store.get(self._registry, [self._row, key])
        if own is not None and published is None and LINE in own.columns:
            self._offset.hear(before, own.columns[LINE].timestamp, after)
        with self._lock:
            self.member = self.member.answered()
            self._take_in(row, began)
        return True

    def _find(self, store: Store, sent: RollLine) -> bool:
        """Returns whether a line is on the roll although its put was refused or the response was lost.

        The registry must be read after this. A change does not wait for a program whose line it has not found on the
        roll, so this program must see such a change when it reads the registry.
        """
        (own,) = store.get(self._registry, [self._key], [LINE])
        line = None if own is None else RollLine.decode(own.columns[LINE].value)
        with self._lock:
            self.member = self.member.found(line, new_id())
            return self.member.held == sent

    def _read(self, store: Store) -> None:
        began = self._running()
        (row,) = store.get(self._registry, [self._row])
        with self._lock:
            self._take_in(row, began)

    def _take_in(self, row: Row | None, began: int) -> None:
        """Records the registry's row, whose read began at the time `began`. If the line was put and its lease has not
        begun yet, the lease begins with this read.
        """
        revisions = revisions_of({} if row is None else cells_of(row))
        self.member = self.member.saw(revisions) if self.member.sent is None else self.member.read(revisions)
        if self._found is None or row is None or not _same(self._found.columns, row.columns):
            self._found = row
        self._listed, self._looked = True, began

    def _unlisted(self) -> None:
        """Records that there is no registry table."""
        with self._lock:
            self.member = self.member.renewed(new_id())
            self._found, self._listed, self._looked = None, False, self._running()

    def _poll(self, store: Store) -> None:
        """Reads the registry, and renews the lease at once if the registry has changed and no older call is in
        progress.
        """
        if self.member.until is None:
            return
        if self.member.sent is None:
            self._read(store)
        if self.member.behind or self.member.sent is not None:
            self._take_lease(store)

    # --- keeping ------------------------------------------------------------------------------------------------------

    @property
    def on(self) -> bool:
        """Whether the line must be kept, because its lease was not given up."""
        return self.member.until is not None

    def due(self) -> float:
        """Returns when the line needs attention next, in ms on the clock that measures leases."""
        member, times, now = self.member, self._times, self._running()
        if member.behind and member.held is not None and member.held.revisions.cells:
            return now
        due = [] if member.calls else [self._used + self._idle]
        if member.lease >= 1000 * times.poll:  # shorter leases are renewed by the threads that write
            due.append(self._renewal)
            if member.calls or member.behind or self._used >= self._looked:
                due.append(self._looked + 1000 * times.poll)
        return min(due, default=now + 1000 * times.poll)

    @property
    def _idle(self) -> float:
        """The time without calls after which the line is put at rest, in ms.

        The thread does not renew a lease that is shorter than the time between two reads of the registry. Changes of
        the tables would wait for such a line until it is at rest, even if the lease has ended long ago.
        """
        idle, lease = 1000 * self._times.idle, self.member.lease
        if lease >= 1000 * self._times.poll:
            return idle
        return min(idle, max(1000 * self._times.short_idle, 2 * lease))

    @property
    def _renewal(self) -> float:
        return (self.member.until or 0) - (1 - self._times.renewed) * self.member.lease

    def keep(self) -> None:
        """Performs the work that the line needs now."""
        with self._alone():
            if self.member.until is None:
                return
            if self._put_down():
                self._put(self.store, "rest")
            elif self.member.behind or self._running() >= self._renewal:
                self._take_lease(self.store)
            else:
                self._poll(self.store)

    def _put_down(self) -> bool:
        """Gives up the lease if no call was made for the time `idle`. Returns whether it was given up."""
        with self._lock:
            if self.member.calls or self._running() < self._used + self._idle:
                return False
            self.lose_lease()
            return True

    def lose_lease(self) -> None:
        """Gives up the lease. The next write takes a new one."""
        self.member = evolve(self.member, until=None)

    def lose(self) -> None:
        """Gives up the lease because the store failed."""
        with self._lock:
            self._troubled = True
            self.lose_lease()

    def leave(self, store: Store) -> None:
        """Deletes the line, unless a call is in progress. If calls of unknown outcome may still take effect, the line
        is put at rest instead.

        Raises:
            HbmodelError: the store failed. The line then ends with its lease.
        """
        if self.member.held is None or self._troubled:
            return
        end = self._running() + 1000 * LEAVING

        def before_end() -> None:
            if self._running() >= end:
                raise StoreUnavailable("The line is left on the writers' roll.", table=self._registry)

        with self._alone(), gated(before_end):
            with self._lock:
                if self.member.calls:
                    return
                self.lose_lease()
                may_end, key = self.member.may_end(self._running()), self._key
                if may_end:
                    self.member = self.member.renewed(new_id())
            if may_end:
                store.delete(self._registry, [Delete(key, families=(FAMILY,))])
            else:
                self._put(store, "rest")


def _same(one: Mapping[bytes, Cell], other: Mapping[bytes, Cell]) -> bool:
    """Returns whether the cells of two reads have the same values."""
    return one.keys() == other.keys() and all(cell.value == other[column].value for column, cell in one.items())
