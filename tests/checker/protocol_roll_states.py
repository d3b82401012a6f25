"""The states of the model of the writers' roll, each as one integer, with a place for each of its parts."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

PART_BITS = 20
PART = (1 << PART_BITS) - 1
HIDDEN = 0
"""The number of a part that is left out of a state; the part is then None."""

TICK, AHEAD, REGISTRY, GONE_ON, LEFT, COLLECTOR, CALLS = (n * PART_BITS for n in range(7))
"""The places of the parts that every model has once; lines, processes and builders follow."""

FIRST_LINE = 7 * PART_BITS


class Left(NamedTuple):
    """The remaining limits, see `Bounds`."""

    unknown: int
    killed: int
    builders_killed: int
    flips: int
    forks: int
    jumps: int
    attempts: int


class Process(NamedTuple):
    """One program. `up` is 0 if it was killed, and 2 if it has not been forked yet."""

    up: int
    member: int  # its number
    point: str  # off, sent, find, read, on, ending
    puts: int
    # ("idle", writes) | ("bound", writes, state) | ("looked", writes, state, tick) | ("wait", ...)
    threads: tuple[tuple[Any, ...], ...]
    jumped: int = 0


class Builder(NamedTuple):
    """Who changes the state."""

    point: str
    target: int
    at: int
    waits: tuple[int, ...]
    rounds: int


class State(NamedTuple):
    """Where everything stands. A line is (time, its number) or None, after the time of the last delete of its row."""

    tick: int
    ahead: int
    registry: int
    lines: tuple[tuple[int, tuple[int, int] | None], ...]
    calls: tuple[tuple[Any, ...], ...]
    processes: tuple[Process, ...]
    builders: tuple[Builder, ...]
    collector: tuple[Any, ...]
    left: Left
    gone_on: int


class Numbered(Generic[T]):
    """Values with numbers, so that a state holds numbers alone."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._values: list[T] = []

    def number(self, value: T) -> int:
        """The number of a value; equal values have the same number."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._values)
            self._values.append(value)
        return found

    def __getitem__(self, number: int) -> T:
        return self._values[number]


class States:
    """Gives each state its number, and the state of a number.

    The values of each part have numbers of their own, and these stand side by side in the number of the state. So a
    step adds the same to the number of each state in which the parts that it reads and changes are the same.

    Args:
        first: a state; all others have as many lines, processes and builders.

    Attributes:
        lines: the places of the lines.
        processes: likewise.
        builders: likewise.
    """

    def __init__(self, first: State) -> None:
        begins = FIRST_LINE
        places: list[tuple[int, ...]] = []
        for parts in (first.lines, first.processes, first.builders):
            ends = begins + len(parts) * PART_BITS
            places.append(tuple(range(begins, ends, PART_BITS)))
            begins = ends
        self.lines, self.processes, self.builders = places
        self._values: list[Numbered[Any]] = [Numbered() for _ in range(begins // PART_BITS)]
        for values in self._values:
            assert values.number(None) == HIDDEN

    def number(self, state: State) -> int:
        """The number of a state."""
        return self.distance(HIDDEN, self[HIDDEN], state)

    def distance(self, number: int, state: State, after: State) -> int:
        """What a step from a state of this number adds to it."""
        found, at = 0, 0
        for values, one, other in zip(self._values, _parts(state), _parts(after), strict=True):
            if one is not other:
                part = values.number(other)
                if part > PART:
                    raise OverflowError("A part has more values than a state can name.")
                found += (part - (number >> at & PART)) << at
            at += PART_BITS
        return found

    def __getitem__(self, number: int) -> State:
        parts = [values[number >> n * PART_BITS & PART] for n, values in enumerate(self._values)]
        tick, ahead, registry, gone_on, left, collector, calls = parts[:7]
        at, then = 7 + len(self.lines), 7 + len(self.lines) + len(self.processes)
        lines, processes, builders = tuple(parts[7:at]), tuple(parts[at:then]), tuple(parts[then:])
        return State(tick, ahead, registry, lines, calls, processes, builders, collector, left, gone_on)


def whole(place: int) -> int:
    """The bits of the part at a place."""
    return PART << place


def _parts(state: State) -> list[Any]:
    return [
        state.tick,
        state.ahead,
        state.registry,
        state.gone_on,
        state.left,
        state.collector,
        state.calls,
        *state.lines,
        *state.processes,
        *state.builders,
    ]
