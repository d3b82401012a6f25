"""A bounded pool of connections, safe with threads and forks, which leases connections and replaces stale or broken
ones.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from hbmodel.errors import StoreUnavailable
from hbmodel.store.closing import store_closed

MAX_IDLE = 45.0
"""The number of seconds after which an unused connection is not used again. HBase's gateways close it after 60 seconds
(`hbase.thrift.server.socket.read.timeout`), and a request that is sent at that moment would have an unknown outcome.
"""

STREAMS_PER_CALL = 4
"""Scans may use this many times as many connections as short calls."""

RECLAIM_INTERVAL = 0.5
"""The number of seconds after which a waiting thread looks again for leases whose owner was garbage-collected, because
such leases do not notify threads.
"""

_TOO_MANY_CALLS = "All connections stayed in use; give the store a larger pool."
_TOO_MANY_SCANS = "Too many scans are open; read them to the end or close them, or give the store a larger pool."


class Connection(Protocol):
    """The members of a connection that the pool uses."""

    used_at: float
    """The time at which the connection was opened, or its last reply was read, on the clock of `time.monotonic`."""

    expires_at: float
    """The time from which the connection is too old to be used again, on the same clock."""

    def ready(self) -> bool:
        """Returns whether the connection can send a new request."""
        ...

    def close(self) -> None:
        """Closes the connection. In a forked child, the parent's connection stays open."""
        ...


C = TypeVar("C", bound=Connection)


class _Members(Generic[C]):
    """The state of a pool in one process; a forked child starts with a new state and new locks."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.lock = threading.RLock()
        # Calls and scans have separate limits. With one condition, the thread that is woken could be one that must go
        # on waiting, while the one that could proceed sleeps on.
        self.call_ended = threading.Condition(self.lock)
        self.scan_ended = threading.Condition(self.lock)
        self.idle: deque[C] = deque()
        self.calls = 0
        self.streams = 0
        self.waiting = 0
        self.closed = False
        # Leases whose owner was garbage-collected. A finaliser may run at any point, even while its thread holds the
        # lock, so it only puts the lease into this queue (SimpleQueue.put is reentrant).
        self.orphans: SimpleQueue[Lease[C]] = SimpleQueue()


class Lease(Generic[C]):
    """The right to use one connection at a time. It is released by `release` or at the end of a `with` block.

    A lease belongs to one thread at a time.
    """

    def __init__(self, pool: Pool[C], members: _Members[C], streaming: bool) -> None:
        self._pool = pool
        self._members = members
        self._streaming = streaming
        self._connection: C | None = None
        self._released = False

    def connection(self) -> C:
        """Returns the connection of this lease: a pooled connection that can still be used, or a new one.

        Raises:
            StoreUnavailable: no connection can be opened.
            StoreClosed: the pool was closed.
        """
        members = self._members
        if members.pid != os.getpid():  # in a forked child, the connection belongs to the parent
            self.drop()
            self._members = members = self._pool._members()
            with members.lock:
                self._count(1)
        if members.closed or self._released:
            raise store_closed()
        if self._connection is None:
            self._connection = self._pool._take(members)
        return self._connection

    @property
    def reached(self) -> bool:
        """Whether a gateway has ever answered on a connection of the pool."""
        return self._pool.reached()

    def drop(self) -> None:
        """Closes the connection, which may be broken. After that, `connection` returns another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def release(self) -> None:
        """Returns the connection to the pool. Releasing twice is allowed."""
        if self._released:
            return
        self._released = True
        connection, self._connection = self._connection, None
        members = self._members
        if members.pid != os.getpid():
            if connection is not None:
                connection.close()
            return
        with members.lock:
            self._count(-1)
            keep = connection is not None and not members.closed and len(members.idle) < self._pool.size
            if keep and connection is not None:
                members.idle.append(connection)
            if members.waiting:
                (members.scan_ended if self._streaming else members.call_ended).notify()
        if connection is not None and not keep:
            connection.close()

    def abandon(self) -> None:
        """Closes the connection. The pool releases the lease the next time that it looks for a free one. This is for
        finalisers.
        """
        self.drop()
        self._members.orphans.put(self)

    def _count(self, change: int) -> None:
        if self._streaming:
            self._members.streams += change
        else:
            self._members.calls += change

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Pool(Generic[C]):
    """A pool of connections that threads share.

    Short calls and scans are counted separately, because a scan keeps its connection while the caller does other work,
    including calls to the same store. If they were counted together, a thread with a few open scans could wait forever.

    Args:
        connect: opens a connection, or raises StoreUnavailable. It is called while no lock is held.
        size: how many short calls may be in progress at once, and how many unused connections are kept. In addition,
            scans may use `STREAMS_PER_CALL` times as many.
        patience: the maximum number of seconds to wait for a free connection.
        max_idle: seconds after which an unused connection is not used again.
        reached: whether a gateway has ever answered on any connection.
    """

    def __init__(
        self,
        connect: Callable[[], C],
        size: int,
        patience: float,
        max_idle: float = MAX_IDLE,
        reached: Callable[[], bool] = lambda: True,
    ) -> None:
        self.size = size
        self.reached = reached
        self._connect = connect
        self._patience = patience
        self._max_idle = max_idle
        pid = os.getpid()
        self._by_process: dict[int, _Members[C]] = {pid: _Members(pid)}

    def lease_streams(self, wanted: int, brief: int = 0) -> list[Lease[C]]:
        """Returns leases for scans: one for each free connection, at most `wanted`. If no connection is free, the call
        waits for one.

        Args:
            wanted: how many leases are useful.
            brief: how many leases are useful even if new connections must be opened, because there are many scans and
                all are short. This may be more than the number of connections that the pool keeps, up to the number
                that scans may use.

        Raises:
            StoreUnavailable: too many scans are open, and none ended in time.
            StoreClosed: the pool was closed.
        """
        first = self.lease(streaming=True)
        leases = [first] if wanted == 1 else [first, *self._spare(wanted - 1)]
        return (
            leases + self._spare(brief - len(leases), limit=self.size * STREAMS_PER_CALL)
            if len(leases) < brief
            else leases
        )

    def lease_spare(self) -> Lease[C] | None:
        """Returns a lease for an operation that a thread begins before it starts another short operation. Returns None
        if the pool does not have leases left for both.

        The thread will wait for the second lease. So the first lease is counted with the leases of scans, for which no
        short operation has to wait.

        Raises:
            StoreClosed: the pool was closed.
        """
        members = self._members()
        if members.closed:
            raise store_closed()
        self._reclaim(members)
        return next(iter(self._spare(1, remaining=1)), None)

    def _spare(self, wanted: int, remaining: int = 0, limit: int = 0) -> list[Lease[C]]:
        """Returns at most `wanted` leases for scans, without waiting. After that, at least `remaining` more leases are
        possible until there are `limit` leases in total (0 means the pool's size).
        """
        members = self._members()
        with members.lock:
            count = max(0, min(wanted, (limit or self.size) - remaining - members.calls - members.streams))
            members.streams += count
            return [Lease(self, members, streaming=True) for _ in range(count)]

    def close(self) -> None:
        """Closes the unused connections at once, and the others when they are released. Closing twice is allowed."""
        members = self._members()
        with members.lock:
            members.closed = True
            members.call_ended.notify_all()
            members.scan_ended.notify_all()
        with suppress(IndexError):
            while True:  # from now on no connection is added, but another thread may still be taking one
                members.idle.pop().close()
        self._reclaim(members)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._members().closed

    def lease(self, streaming: bool = False) -> Lease[C]:
        """Waits until a connection is free, and returns a lease for one short operation or for a scan.

        Raises:
            StoreUnavailable: no connection was free in time.
            StoreClosed: the pool was closed.
        """
        members = self._members()
        if not members.orphans.empty():
            self._reclaim(members)
        ended = members.scan_ended if streaming else members.call_ended
        with members.lock:
            deadline: float | None = None
            while not members.closed and (
                members.streams >= self.size * STREAMS_PER_CALL if streaming else members.calls >= self.size
            ):
                if deadline is None:
                    deadline = time.monotonic() + self._patience
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise StoreUnavailable(_TOO_MANY_SCANS if streaming else _TOO_MANY_CALLS, pool=self.size)
                members.waiting += 1
                try:
                    ended.wait(min(remaining, RECLAIM_INTERVAL))
                finally:
                    members.waiting -= 1
                self._reclaim(members)
            if members.closed:
                raise store_closed()
            lease = Lease(self, members, streaming)
            lease._count(1)
        return lease

    def _take(self, members: _Members[C]) -> C:
        """Returns an idle connection that can still be used (the most recently used one is tried first), or a new
        one.
        """
        while members.idle:
            try:
                connection = members.idle.pop()  # atomic, so no lock is needed
            except IndexError:
                break
            now = time.monotonic()
            if now - connection.used_at < self._max_idle and now < connection.expires_at and connection.ready():
                return connection
            connection.close()
        return self._connect()

    def _members(self) -> _Members[C]:
        pid = os.getpid()
        members = self._by_process.get(pid)
        if members is None:
            # This is a forked child. Its copies of the parent's locks may be held by threads that do not exist in the
            # child. So the parent's state is not used. Only the child's copies of the sockets are closed. `setdefault`
            # is atomic.
            members = _Members(pid)
            members.closed = all(others.closed for others in list(self._by_process.values()))
            members = self._by_process.setdefault(pid, members)
            for other in list(self._by_process):
                if other != pid:
                    parent = self._by_process.pop(other, None)
                    while parent is not None and parent.idle:
                        parent.idle.pop().close()
        return members

    def _reclaim(self, members: _Members[C]) -> None:
        while True:
            try:
                lease = members.orphans.get_nowait()
            except Empty:
                return
            lease.release()
