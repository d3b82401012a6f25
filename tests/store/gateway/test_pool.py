from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from hbmodel.errors import StoreClosed, StoreUnavailable
from hbmodel.store.gateway.pool import MAX_IDLE, STREAMS_PER_CALL, Pool
from hbmodel.store.gateway.wire.connection import ThriftConnection, Wire
from hbmodel.store.gateway.wire.gateways import Gateway
from hbmodel.store.thrift1.service import FAILURES, SERVICE
from tests.support.waiting import wait_until


class FakeConnection:
    def __init__(self) -> None:
        self.used_at = time.monotonic()
        self.expires_at = float("inf")
        self.good = True
        self.closed = False

    def ready(self) -> bool:
        return self.good

    def close(self) -> None:
        self.closed = True


def pool(size: int = 2, patience: float = 0.05) -> Pool[FakeConnection]:
    return Pool(FakeConnection, size, patience)


def test_a_released_connection_is_used_again() -> None:
    connections = pool()
    with connections.lease() as lease:
        first = lease.connection()
        assert lease.connection() is first
    with connections.lease() as lease:
        assert lease.connection() is first
        assert not first.closed


def test_the_connection_used_last_is_taken_first() -> None:
    connections = pool()
    one, other = connections.lease(), connections.lease()
    first, second = one.connection(), other.connection()
    assert first is not second
    one.release()
    other.release()
    assert connections.lease().connection() is second


def test_a_lease_opens_nothing_before_it_is_asked() -> None:
    def refuse() -> FakeConnection:
        raise AssertionError("connected")

    with Pool(refuse, 1, 0.05).lease():
        pass


def test_a_stale_connection_is_closed_and_replaced() -> None:
    connections = pool()
    with connections.lease() as lease:
        stale = lease.connection()
    stale.good = False
    with connections.lease() as lease:
        assert lease.connection() is not stale
    assert stale.closed


def test_a_connection_idle_for_long_is_replaced_even_if_it_seems_good() -> None:
    connections = pool()
    with connections.lease() as lease:
        old = lease.connection()
    old.used_at -= MAX_IDLE
    with connections.lease() as lease:
        assert lease.connection() is not old
    assert old.closed


def test_a_connection_that_has_grown_old_is_replaced() -> None:
    connections = pool()
    with connections.lease() as lease:
        old = lease.connection()
    old.expires_at = time.monotonic() + 100
    with connections.lease() as lease:
        assert lease.connection() is old
    old.expires_at = time.monotonic()
    with connections.lease() as lease:
        assert lease.connection() is not old
    assert old.closed


def test_connections_that_were_opened_together_do_not_expire_together(listener: socket.socket) -> None:
    gateway = Gateway("127.0.0.1", listener.getsockname()[1])
    opened = [ThriftConnection(gateway, Wire(max_age=100), SERVICE, FAILURES) for _ in range(10)]
    ages = [connection.expires_at - connection.opened_at for connection in opened]
    assert all(80 <= age <= 100 for age in ages)
    assert len(set(ages)) == len(ages)
    for connection in opened:
        connection.close()


def test_a_dropped_connection_is_closed_and_another_takes_its_place() -> None:
    connections = pool()
    with connections.lease() as lease:
        broken = lease.connection()
        lease.drop()
        assert broken.closed
        assert lease.connection() is not broken


def test_a_failed_connect_frees_its_place() -> None:
    def fail() -> FakeConnection:
        raise StoreUnavailable("Nobody there.")

    connections = Pool(fail, 1, 0.05)
    for _ in range(3):
        with connections.lease() as lease, pytest.raises(StoreUnavailable, match="Nobody there"):
            lease.connection()


def test_calls_are_bounded_and_wait_for_their_turn() -> None:
    connections = pool(size=1, patience=120)
    lease = connections.lease()
    begun = time.monotonic()
    threading.Timer(0.1, lease.release).start()
    connections.lease().release()
    assert 0.05 < time.monotonic() - begun < 100


def test_a_call_whose_turn_does_not_come_in_time_was_not_carried_out() -> None:
    connections = pool(size=1)
    with connections.lease(), pytest.raises(StoreUnavailable, match="larger pool"):
        connections.lease()


def test_only_size_connections_are_kept() -> None:
    connections = pool(size=1)
    streams = connections.lease_streams(1) + connections.lease_streams(1)
    opened = [lease.connection() for lease in streams]
    for lease in streams:
        lease.release()
    assert [connection.closed for connection in opened] == [False, True]


def test_releasing_twice_frees_one_place() -> None:
    connections = pool(size=1)
    lease = connections.lease()
    lease.release()
    lease.release()
    with connections.lease(), pytest.raises(StoreUnavailable, match="All connections stayed in use"):
        connections.lease()


def test_scans_get_the_connections_that_are_free_and_at_least_one() -> None:
    connections = pool(size=4)
    with connections.lease():
        assert len(connections.lease_streams(16)) == 3
        assert len(connections.lease_streams(16)) == 1
    assert len(pool(size=4).lease_streams(2)) == 2


def test_many_brief_scans_get_more_connections_than_are_kept_up_to_those_of_scans() -> None:
    connections = pool(size=2)
    with connections.lease():
        leases = connections.lease_streams(1000, brief=5)
        assert len(leases) == 5
        assert len(connections.lease_streams(1000, brief=5)) == 2 * STREAMS_PER_CALL - 5 - 1
        with connections.lease():
            pass
    for lease in leases:
        lease.release()
    assert len(connections.lease_streams(3, brief=0)) == 1
    assert len(pool(size=4).lease_streams(1000, brief=2)) == 4


def test_open_scans_leave_room_for_calls() -> None:
    connections = pool(size=2)
    streams = connections.lease_streams(5)
    with connections.lease(), connections.lease():
        assert len(streams) == 2


def test_a_spare_lease_leaves_one_for_a_call_of_the_same_thread() -> None:
    connections = pool(size=3)
    with connections.lease():
        spare = connections.lease_spare()
        assert spare is not None
        assert connections.lease_spare() is None
        spare.release()
        assert connections.lease_spare() is not None
    assert pool(size=1).lease_spare() is None


def test_holders_of_spare_leases_never_wait_for_each_other() -> None:
    connections = pool(size=4)
    spares = [connections.lease_spare() for _ in range(4)]
    assert [spare is not None for spare in spares] == [True, True, True, False]
    calls = [connections.lease() for _ in range(4)]  # for each holder the call that it waits for
    with pytest.raises(StoreUnavailable):
        connections.lease()
    calls[0].release()
    connections.lease()


def test_a_closed_pool_spares_nothing() -> None:
    connections = pool()
    connections.close()
    with pytest.raises(StoreClosed):
        connections.lease_spare()


def test_scans_are_bounded_too() -> None:
    connections = pool(size=1)
    streams = [connections.lease_streams(1) for _ in range(STREAMS_PER_CALL)]
    with pytest.raises(StoreUnavailable, match="Too many scans"):
        connections.lease_streams(1)
    streams[0][0].release()
    assert connections.lease_streams(1)


@pytest.mark.lengthy
def test_an_abandoned_lease_is_reclaimed_by_whoever_needs_it() -> None:
    connections = pool(size=1, patience=5)
    lease = connections.lease()
    opened = lease.connection()
    threading.Timer(0.1, lease.abandon).start()
    connections.lease()
    assert opened.closed


def test_an_abandoned_lease_of_a_closed_pool_closes_its_connection() -> None:
    connections = pool(size=1)
    lease = connections.lease()
    opened = lease.connection()
    connections.close()
    assert not opened.closed
    lease.abandon()
    assert opened.closed


def test_closing_closes_unused_connections_now_and_leased_ones_later() -> None:
    connections = pool()
    with connections.lease() as lease:
        unused = lease.connection()
        with connections.lease() as other:
            leased = other.connection()
            lease.release()
            connections.close()
            connections.close()
            assert unused.closed
            assert not leased.closed
    assert leased.closed
    assert connections.closed
    with pytest.raises(StoreClosed):
        connections.lease()
    with pytest.raises(StoreClosed):
        connections.lease_streams(1)


def test_a_lease_of_a_closed_pool_gives_no_connection() -> None:
    connections = pool()
    with connections.lease() as lease:
        connections.close()
        with pytest.raises(StoreClosed):
            lease.connection()


@pytest.mark.parametrize("scan_ends", [True, False])
def test_the_end_of_a_scan_wakes_a_scan_and_that_of_a_call_a_call(scan_ends: bool) -> None:
    connections = pool(size=1, patience=120)
    call, scans = connections.lease(), [connections.lease(streaming=True) for _ in range(STREAMS_PER_CALL)]
    members = connections._members()
    taken: dict[bool, threading.Event] = {streaming: threading.Event() for streaming in (False, True)}

    def wait(streaming: bool) -> None:
        with suppress(StoreClosed):
            lease = connections.lease(streaming)
            taken[streaming].set()
            lease.release()

    def all_wait() -> bool:
        return members.waiting == len(threads)

    woken: list[int] = []
    threads: list[threading.Thread] = []
    other = members.call_ended if scan_ends else members.scan_ended
    notify = other.notify
    other.notify = lambda n=1: (woken.append(n), notify(n))[1]  # type: ignore[method-assign, misc]
    for streaming in (not scan_ends, scan_ends):  # the one that must go on waiting is the first
        threads.append(threading.Thread(target=wait, args=(streaming,)))
        threads[-1].start()
        wait_until(all_wait)
    (scans[0] if scan_ends else call).release()
    assert taken[scan_ends].wait(60)
    assert (woken, taken[not scan_ends].is_set()) == ([], False)
    connections.close()
    for thread in threads:
        thread.join(60)


def test_closing_wakes_those_who_wait() -> None:
    connections = pool(size=1, patience=120)
    lease = connections.lease()
    threading.Timer(0.1, connections.close).start()
    begun = time.monotonic()
    with pytest.raises(StoreClosed):
        connections.lease()
    assert time.monotonic() - begun < 100
    lease.release()


def test_no_two_threads_have_the_same_connection() -> None:
    connections = pool(size=3, patience=30)
    in_use: list[FakeConnection] = []
    most: list[int] = []
    wrong: list[str] = []

    def work() -> None:
        for _ in range(100):
            with connections.lease() as lease:
                connection = lease.connection()
                if any(connection is other for other in in_use) or connection.closed:
                    wrong.append("shared")
                in_use.append(connection)
                most.append(len(in_use))
                time.sleep(0.0001)
                in_use.remove(connection)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert max(most) == 3


# --- forks ------------------------------------------------------------------------------------------------------------


def in_child(work: Callable[[], bool]) -> int:
    """Runs `work` in a forked child; its exit code is 0 where `work` returns True."""
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


def thrift_pool(listener: socket.socket) -> Pool[ThriftConnection]:
    gateway = Gateway("127.0.0.1", listener.getsockname()[1])
    return Pool(lambda: ThriftConnection(gateway, Wire(timeout=5), SERVICE, FAILURES), 2, 5)


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_forked_child_opens_its_own_connections_and_leaves_the_parents_alone(listener: socket.socket) -> None:
    connections = thrift_pool(listener)
    with connections.lease() as lease:
        parents = lease.connection()
    serving, _ = listener.accept()

    def child() -> bool:
        with connections.lease() as lease:
            own = lease.connection()
            different = own is not parents and own.ready()
        parents.close()  # as at the end of an interpreter
        connections.close()
        return different

    assert in_child(child) == 0
    with serving:
        serving.setblocking(False)
        with pytest.raises(BlockingIOError):  # neither data nor the end of the connection
            serving.recv(1)
        with connections.lease() as lease:
            assert lease.connection() is parents
    connections.close()


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_lease_taken_before_the_fork_gets_a_connection_of_the_childs_own(listener: socket.socket) -> None:
    connections = thrift_pool(listener)
    lease = connections.lease()
    parents = lease.connection()

    def child() -> bool:
        own = lease.connection()
        lease.release()
        with connections.lease() as again:
            return own is not parents and again.connection() is own

    assert in_child(child) == 0
    assert parents.ready()
    lease.release()
    connections.close()


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_lock_that_another_thread_held_at_the_fork_does_not_block_the_child() -> None:
    connections = pool()
    lock = connections._members().lock
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:

        def child() -> bool:
            with connections.lease() as lease:
                return lease.connection().good

        assert in_child(child) == 0
    finally:
        done.set()
        thread.join()


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_pool_closed_before_the_fork_is_closed_in_the_child() -> None:
    connections = pool()
    connections.close()

    def child() -> bool:
        with pytest.raises(StoreClosed):
            connections.lease()
        return True

    assert in_child(child) == 0
