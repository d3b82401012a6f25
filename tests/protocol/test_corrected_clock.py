"""The corrected clock, on clocks that the test moves."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbmodel.errors import ClockError, SessionError, StoreUnavailable, UnknownOutcome
from hbmodel.protocol.corrected_clock import (
    CLOCK_BOUND,
    GRACE,
    LONGEST_CALL,
    ServerClock,
    SharedOffset,
    running_time,
    time_above,
    wall_time,
)


class Clocks:
    """This machine's two clocks and the server's, in ms."""

    def __init__(self, ahead: int = 0) -> None:
        self.wall = self.running = 1_000_000
        self.ahead = ahead
        self.call = 0
        self.probes = 0
        self.lease = True

    def pass_time(self, ms: int) -> None:
        self.wall += ms
        self.running += ms

    def probe(self) -> int:
        """The server's time, read half way through a call that takes `call` ms."""
        self.probes += 1
        self.pass_time(self.call // 2)
        server = self.wall + self.ahead
        self.pass_time(self.call - self.call // 2)
        return server

    def shared(self) -> SharedOffset:
        """The clocks with an offset that is not measured yet."""
        return SharedOffset(lambda: self.wall, lambda: self.running)

    def clock(self, grace: int = GRACE, bound: int = CLOCK_BOUND) -> ServerClock:
        return ServerClock(self.probe, lambda: self.lease, grace=grace, bound=bound, shared=self.shared())


@pytest.mark.parametrize("ahead", [0, 5_000, -5_000, CLOCK_BOUND, -CLOCK_BOUND])
def test_the_offset_is_measured_once_and_added(ahead: int) -> None:
    clocks = Clocks(ahead)
    clock = clocks.clock()
    assert clock.now() == clocks.wall + ahead
    clocks.pass_time(12_345)
    assert clock.now() == clocks.wall + ahead
    assert clocks.probes == 1


def test_a_slow_probe_is_taken_for_its_middle() -> None:
    clocks = Clocks(ahead=300)
    clocks.call = 4_000
    assert clocks.clock().now() == clocks.wall + 300


@pytest.mark.parametrize("ahead", [CLOCK_BOUND + 1, -CLOCK_BOUND - 1])
def test_an_offset_beyond_the_bound_is_refused_either_way(ahead: int) -> None:
    clocks = Clocks(ahead)
    clock = clocks.clock()
    with pytest.raises(ClockError, match="This machine's clock and the server's differ by more than") as caught:
        clock.now()
    assert (caught.value.offset, caught.value.bound) == (ahead, CLOCK_BOUND)
    clocks.ahead = 0  # somebody set the clock right
    assert clock.now() == clocks.wall


def test_an_answer_that_took_longer_than_the_bound_is_no_reason_to_refuse_a_clock() -> None:
    """This machine was paused between the server's reading of its clock and its own."""
    clocks = Clocks()
    stalls = [900, 900, 0]

    def probe() -> int:
        server = clocks.probe()
        clocks.pass_time(stalls[clocks.probes - 1])
        return server

    clock = ServerClock(probe, lambda: True, bound=50, shared=clocks.shared())
    assert clock.now() == clocks.wall
    assert clocks.probes == 3
    clocks.ahead, clocks.probes = 900, 0
    clock = ServerClock(clocks.probe, lambda: True, bound=50, shared=clocks.shared())
    with pytest.raises(ClockError):
        clock.now()
    assert clocks.probes == 1


@pytest.mark.parametrize(
    ("ahead", "answered", "message"),
    [
        (0, 3, "The server answered too slowly"),
        (900, 3, "The server answered too slowly"),
        (-2_000, 1, "the server's differ by more than"),
    ],
)
def test_answers_that_are_all_slow_show_no_difference_that_may_not_be_there(
    ahead: int, answered: int, message: str
) -> None:
    clocks = Clocks(ahead)

    def probe() -> int:
        server = clocks.probe()
        clocks.pass_time(1_000)
        return server

    with pytest.raises(ClockError, match=message) as caught:
        ServerClock(probe, lambda: True, bound=50, shared=clocks.shared()).now()
    assert (clocks.probes, caught.value.bound) == (answered, 50)


def test_a_failed_probe_is_made_again() -> None:
    answers = iter([StoreUnavailable("Nobody is there."), 1_000_700])

    def probe() -> int:
        answer = next(answers)
        if isinstance(answer, StoreUnavailable):
            raise answer
        return answer

    clock = ServerClock(probe, lambda: True, shared=SharedOffset(lambda: 1_000_000, lambda: 5))
    with pytest.raises(StoreUnavailable):
        clock.now()
    assert clock.now() == 1_000_700


@pytest.mark.parametrize("lost", [1, 2])
def test_a_probe_that_got_lost_is_asked_once_more_and_takes_nothing_into_the_measure(lost: int) -> None:
    clocks = Clocks(ahead=3_000)

    def probe() -> int:
        if clocks.probes < lost:
            clocks.probes += 1
            clocks.pass_time(30_000)
            raise UnknownOutcome("lost")
        return clocks.probe()

    clock = ServerClock(probe, lambda: True, shared=clocks.shared())
    if lost == 2:
        # not that anything of the user's may be written
        with pytest.raises(StoreUnavailable, match="The server's clock cannot be read"):
            clock.now()
    assert clock.now() == clocks.wall + 3_000


@pytest.mark.parametrize("jump", [CLOCK_BOUND + 1, -CLOCK_BOUND - 1, 10 * GRACE])
def test_a_wall_clock_that_jumps_is_measured_again(jump: int) -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clock.now()
    clocks.pass_time(500)
    clocks.wall += jump
    clocks.ahead = -jump  # the server's clock did not jump
    if abs(jump) > CLOCK_BOUND:
        with pytest.raises(ClockError):
            clock.now()
    assert clocks.probes == 2


def test_a_wall_clock_set_right_is_measured_again() -> None:
    clocks = Clocks(ahead=-50_000)
    clock = clocks.clock(bound=55_000, grace=GRACE)
    before = clock.now()
    clocks.wall -= 50_000
    clocks.ahead = 0
    assert clock.now() == before - 50_000  # within the bound: not noticed, and no worse than the bound allows
    assert clocks.probes == 1
    clocks.wall -= 10_000
    clocks.ahead = 10_000
    assert clock.now() == clocks.wall + 10_000
    assert clocks.probes == 2


def test_a_write_is_fresh_for_half_the_grace_time_by_either_clock() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    since = clock.now()
    assert clock.fresh(since)
    clocks.pass_time(GRACE // 2 - 1)
    assert clock.fresh(since)
    clocks.wall += 1
    assert not clock.fresh(since)
    clocks.wall -= 1
    clocks.running += 1
    assert not clock.fresh(since)


def test_a_write_is_not_fresh_when_the_wall_clock_went_back_too_far() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    since = clock.now()
    clocks.wall -= CLOCK_BOUND
    assert clock.fresh(since)
    clocks.wall -= 1
    assert not clock.fresh(since)


def test_a_write_is_not_fresh_without_a_valid_lease() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    since = clock.now()
    clocks.lease = False
    assert not clock.fresh(since)


def test_clocks_that_share_an_offset_measure_it_once() -> None:
    clocks = Clocks(ahead=3_000)
    shared = clocks.shared()
    first, second = (ServerClock(clocks.probe, lambda: True, shared=shared) for _ in range(2))
    since = first.now()
    clocks.pass_time(7)
    assert second.now() == since + 7
    assert second.fresh(since)
    assert clocks.probes == 1
    shared.latest = None  # as when the other found the wall clock to have jumped
    assert not first.fresh(since)
    assert first.now() == since + 7
    assert first.fresh(since)
    assert clocks.probes == 2


def test_a_grace_time_that_is_too_short_is_refused() -> None:
    shortest = 2 * (LONGEST_CALL + 2 * CLOCK_BOUND) + 1
    clocks = Clocks()
    clocks.clock(grace=shortest)
    with pytest.raises(SessionError, match="The grace time must exceed twice the longest call plus four"):
        clocks.clock(grace=shortest - 1)
    with pytest.raises(SessionError):
        clocks.clock(grace=shortest, bound=CLOCK_BOUND + 1)


def test_the_machines_clocks_are_in_milliseconds() -> None:
    assert abs(wall_time() - time.time() * 1000) < 1_000
    before = running_time()
    time.sleep(0.02)
    assert 15 <= running_time() - before < 2_000


@given(st.integers(-1, 2**62), st.integers(0, 2**62), st.integers(0, 2**40))
def test_a_write_lies_above_every_cell_and_within_the_bound(newest: int, now: int, bound: int) -> None:
    timestamp, error = time_above("t", b"k", newest, now, bound)
    assert timestamp == max(now, newest + 1)
    assert (error is None) == (timestamp - now <= bound)
    if error is not None:
        assert error.details == {"table": "t", "key": b"k", "newest": newest, "now": now, "bound": bound}
