"""Compares two pieces of work: many calls of one, then as many of the other, by time and by processor time of this
process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from attrs import field, frozen

REPEATS = 9
"""Calls of what takes a second."""

MANY = 300
"""Calls of what takes a millisecond or two."""

IN_ROW = 25
"""Calls of one side before the other has its turn. A gateway gives each connection a thread of its own, and a thread
that was just used answers sooner: taking turns call by call would add that delay to both sides and hide the difference.
"""


@frozen
class Case:
    """A piece of work through hbmodel, and the same work by hand.

    Attributes:
        name: by which it is chosen.
        ours: one call of ours.
        theirs: one call by hand.
        repeats: calls of each.
        target: the maximum ratio of the times, or None if there is no goal.
        in_row: calls of one side in a row.
        reads: the models whose tables must be filled.
        warm_up: the least seconds of unmeasured runs. Where one side uses all processors, servers that still compile
            slow it alone.
    """

    name: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    repeats: int
    target: float | None = None
    in_row: int = 1
    reads: tuple[type, ...] = ()
    warm_up: float = 0


@frozen
class Side:
    """The seconds that one side took for a call.

    Attributes:
        time: the median.
        processor: of this process alone, the mean of the median turn.
    """

    time: float
    processor: float


@frozen
class Result:
    """One comparison. A ratio is our time divided by theirs, so below one means that hbmodel is faster."""

    case: Case
    ours: Side
    theirs: Side
    ratio: float = field(init=False)
    processor: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "ratio", self.ours.time / self.theirs.time)
        object.__setattr__(self, "processor", self.ours.processor / self.theirs.processor)

    @property
    def met(self) -> bool:
        """Whether the target is kept; true where there is none."""
        return self.case.target is None or self.ratio <= self.case.target

    def as_json(self) -> dict[str, object]:
        """Everything measured, for a file."""
        made: dict[str, object] = {
            "name": self.case.name,
            "ours": self.ours.time,
            "theirs": self.theirs.time,
            "ratio": round(self.ratio, 3),
            "processor": round(self.processor, 3),
            "repeats": self.case.repeats,
        }
        return made if self.case.target is None else {**made, "target": self.case.target, "met": self.met}


def compare(case: Case, warm_up: float) -> Result:
    """Runs both sides in turns, first one then the other beginning, after some seconds of unmeasured runs.

    The gateways are Java programs, each its own, and become several times as fast while the same call is repeated.
    """
    warm = time.perf_counter() + max(warm_up, case.warm_up)
    while time.perf_counter() < warm:
        for work in (case.ours, case.theirs):
            for _ in range(case.in_row):
                work()
    times: tuple[list[float], list[float]] = ([], [])
    turns: tuple[list[float], list[float]] = ([], [])
    for turn in range(-(-case.repeats // case.in_row)):
        for side in (0, 1) if turn % 2 else (1, 0):
            work = (case.ours, case.theirs)[side]
            spent = time.process_time()
            for _ in range(case.in_row):
                begun = time.perf_counter()
                work()
                times[side].append(time.perf_counter() - begun)
            turns[side].append((time.process_time() - spent) / case.in_row)
    ours, theirs = (Side(statistics.median(times[side]), statistics.median(turns[side])) for side in (0, 1))
    result = Result(case, ours, theirs)
    goal = "" if case.target is None else f"target {case.target:.2f}: {'met' if result.met else 'MISSED'}"
    spans = (
        f"{ours.time * 1e6:8.0f} / {theirs.time * 1e6:.0f} us, processor {ours.processor * 1e6:.0f} / "
        f"{theirs.processor * 1e6:.0f} us"
    )
    print(f"{case.name:<56} {result.ratio:5.2f}   {result.processor:5.2f}   {goal:<20} {spans}", flush=True)
    return result
