"""The behaviour of one process of the model checker: its possible points, given the answers that it has received."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tests.checker.cells import Step
from tests.checker.fingerprint import fingerprint

Steps = Generator[Step, Any, None]
Start = Callable[[], Steps]

CALLS = frozenset({"write", "shared", "par", "check", "versioned", "grouped", "claim", "fence", "unindexed", "inc"})
"""Steps that may change something."""

P = ParamSpec("P")
R = TypeVar("R")

DONE, DEAD = 0, 1
"""The points of a process that has ended and of one that has crashed."""

_KNOWN: dict[Start, dict[bool, Behaviour]] = {}


_MADE: list[dict[Any, Any]] = []


def forget() -> None:
    """Drops all processes and what was found out with them."""
    for made in _MADE:
        made.clear()
    _KNOWN.clear()


def once(make: Callable[P, R]) -> Callable[P, R]:
    """A function that makes a process: for the same arguments it gives the same process, whose points the models
    then share.
    """
    made: dict[Any, tuple[Any, R]] = {}
    _MADE.append(made)

    @wraps(make)
    def found(*args: P.args, **options: P.kwargs) -> R:
        given = (*args, *options.items())
        key = tuple(map(_key, given))
        if key not in made:
            made[key] = (given, make(*args, **options))
        return made[key][1]

    return found


def _key(of: Any) -> Any:
    if isinstance(of, tuple | list):
        return tuple(map(_key, of))
    return (type(of), of) if isinstance(of, int | str | bytes | None) else id(of)


class Behaviour:
    """The points of one process, whose steps are a function of the answers that it has received.

    A process that was started is sent on by the next answer; where that point is left by another answer too, it is
    started once more. Histories after which a process holds the same lead to one point (`fingerprint.py`), but for
    where it begins: from there on it may crash.

    Attributes:
        first: where it begins.
        steps: the next step at each point, or None.
        issued: the earliest time that its present round puts, or None.
        matches: which rows its read returns.
    """

    @property
    def most_calls(self) -> int:
        """The maximum number of mutating calls that it has made so far."""
        return max(self._calls)

    def __init__(self, start: Start, merged: bool) -> None:
        self._start, self._merged = start, merged
        cells = getattr(start, "__closure__", None) or ()
        self._constant = frozenset(map(id, (*cells, *(cell.cell_contents for cell in cells))))
        self._known: dict[Any, int] = {}
        self.steps: list[Step | None] = [None, None]
        self.issued: list[int | None] = [None, None]
        self.matches: Callable[[Any], bool] | None = None
        self._came: list[tuple[int, Any] | None] = [None, None]
        self._standing: dict[int, Steps] = {}
        self._after: dict[tuple[int, Any], int] = {}
        self._calls = [0, 0]
        self._without: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._partial: dict[tuple[int, tuple[int, ...]], int] = {}
        self.first = self._reached(start(), None, None, None)

    @classmethod
    def of(cls, start: Start, merged: bool) -> Behaviour:
        """The one behaviour of a process, shared by all models that run it."""
        known = _KNOWN.setdefault(start, {})
        if merged not in known:
            known[merged] = cls(start, merged)
        return known[merged]

    def after(self, point: int, answer: Any) -> int:
        """The point that an answer leads to."""
        found = self._after.get((point, answer))
        if found is None:
            steps = self._standing.pop(point, None)
            if steps is None:
                steps = self._replayed(point)
            found = self._after[(point, answer)] = self._reached(steps, (point, answer), answer, self.issued[point])
        return found

    def without(self, point: int, part: int) -> int:
        """The point after one part of a step of several parts, which land in any order."""
        origin, left = self._without.get(point, (point, tuple(range(len(self.steps[point][1])))))  # type: ignore[index]
        kept = left[:part] + left[part + 1 :]
        if not kept:
            return self.after(origin, None)
        found = self._partial.get((origin, kept))
        if found is None:
            whole = self.steps[origin]
            assert whole is not None
            found = self._partial[(origin, kept)] = self._add(
                ("par", tuple(whole[1][n] for n in kept)), None, self.issued[origin]
            )
            self._without[found] = (origin, kept)
        return found

    def _reached(self, steps: Steps, came: tuple[int, Any] | None, answer: Any, issued: int | None) -> int:
        try:
            step = steps.send(answer)
            while step[0] == "issue":
                issued = step[1]
                step = steps.send(None)
        except StopIteration:
            return DONE
        if step[0] == "scan" and len(step) > 5:
            self.matches = step[5]
        calls = (0 if came is None else self._calls[came[0]]) + (step[0] in CALLS)
        known = fingerprint((step, steps), self._constant) if self._merged and came is not None else None
        point = self._known.get((known, issued, calls)) if known is not None else None
        if point is None:
            point = self._add(step, came, issued)
            if known is not None:
                self._known[(known, issued, calls)] = point
        self._standing[point] = steps
        return point

    def _add(self, step: Step, came: tuple[int, Any] | None, issued: int | None) -> int:
        if len(self.steps) >= 1 << 20:
            raise OverflowError("A process stands at more points than a state can name.")
        self.steps.append(step)
        self._came.append(came)
        self._calls.append((0 if came is None else self._calls[came[0]]) + (step[0] in CALLS))
        self.issued.append(issued)
        return len(self.steps) - 1

    def _replayed(self, point: int) -> Steps:
        answers = []
        came = self._came[point]
        while came is not None:
            answers.append(came[1])
            came = self._came[came[0]]
        steps = self._start()
        answer: Any = None
        while True:
            step = steps.send(answer)
            answer = None
            if step[0] != "issue":
                if not answers:
                    return steps
                answer = answers.pop()
