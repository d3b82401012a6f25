"""Threads that take turns, so that a schedule decides in which order their requests are made."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

Schedule = Callable[[Sequence[int]], int]
"""A function that chooses one of the threads that may continue."""


class Crashed(BaseException):
    """Raised to end a program at this point. No `except Exception` of the program catches it."""


class Turns:
    """Decides which of several threads continues.

    Args:
        schedule: chooses one of the threads that may continue.
        crash: a thread, and the number of its turns before it crashes; or None.

    Attributes:
        taken: the threads that had the turns, in order.
        crashed: the threads that have crashed.
    """

    def __init__(self, schedule: Schedule, crash: tuple[int, int] | None = None) -> None:
        self._schedule, self._crash = schedule, crash
        self._gates: list[threading.Semaphore] = []
        self._arrived = threading.Semaphore(0)
        self._threads: dict[int, int] = {}
        self._alive: list[bool] = []
        self.taken: list[int] = []
        self.crashed: set[int] = set()

    def wait(self) -> None:
        """Waits for this thread's turn. Returns at once in a thread that takes no turns."""
        at = self._threads.get(threading.get_ident())
        if at is None:
            return
        self._arrived.release()
        self._gates[at].acquire()
        if self._crash is not None and at == self._crash[0] and self.taken.count(at) > self._crash[1]:
            self.crashed.add(at)
            raise Crashed

    @property
    def alone(self) -> bool:
        """Whether only one thread is left."""
        return sum(self._alive) <= 1

    def run(self, programs: Sequence[Callable[[], None]]) -> None:
        """Runs programs to their end."""
        self._gates = [threading.Semaphore(0) for _ in programs]
        self._alive = [True] * len(programs)

        def one(at: int) -> None:
            self._threads[threading.get_ident()] = at
            try:
                self.wait()
                programs[at]()
            except Crashed:
                pass
            finally:
                self._alive[at] = False
                self._arrived.release()

        threads = [threading.Thread(target=one, args=(at,)) for at in range(len(programs))]
        for thread in threads:
            thread.start()
            self._arrived.acquire()
        while any(self._alive):
            alive = [at for at, lives in enumerate(self._alive) if lives]
            at = self._schedule(alive) if len(alive) > 1 else alive[0]
            self.taken.append(at)
            self._gates[at].release()
            self._arrived.acquire()
        for thread in threads:
            thread.join()


def random_turns(seed: int) -> Schedule:
    """Returns a schedule that is drawn from a seed. Each thread gets several turns in a row, sometimes many."""
    drawn = random.Random(seed)
    return _in_stretches(lambda alive, _: drawn.choice(alive), lambda: drawn.choice((1, 1, 2, 3, 5, 8, 20, 1000)))


def short_turns(seed: int) -> Schedule:
    """Returns a schedule that is drawn from a seed. After at most five turns, another thread continues."""
    drawn = random.Random(seed)
    return _in_stretches(
        lambda alive, at: drawn.choice([other for other in alive if other != at]), lambda: drawn.randrange(1, 6)
    )


def _in_stretches(following: Callable[[Sequence[int], int], int], length: Callable[[], int]) -> Schedule:
    """Returns a schedule of stretches of turns, in each of which one thread continues. `following` chooses the thread
    of the next stretch, given the possible threads and the last one. `length` returns the length of the stretch.
    """
    at, left = -1, 0

    def choose(alive: Sequence[int]) -> int:
        nonlocal at, left
        if left == 0 or at not in alive:
            at, left = following(alive, at), length()
        left -= 1
        return at

    return choose
