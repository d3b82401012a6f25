"""The clocks of the writers of a configuration: every combination of some readings, or one combination, in turn, for
each choice of the writers' actions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen


@frozen
class InTurn:
    """Readings; each choice of the other factors gets one combination of them.

    What clocks show, what writers do, what there was before and who else is at work are the factors of a sweep. A fault
    needs few of them to meet (Kuhn, Wallace and Gallo, *Software Fault Interactions and Implications for Software
    Testing*, 2004). The combinations go round over the choices within a sweep, and each sweep begins with another one.
    So two writers whose clocks agree in one sweep have different clocks in another one.

    Attributes:
        readings: of the clocks.
        turn: of the sweep.
    """

    readings: tuple[int, ...]
    turn: int


Clocks = Sequence[int] | InTurn


class Turns:
    """Gives each sweep that asks the next turn.

    Args:
        *readings: of the clocks.
        every: whether the sweeps get every combination in place of a turn.
    """

    def __init__(self, *readings: int, every: bool = False) -> None:
        self._readings, self._every, self._turns = readings, every, itertools.count()

    def __call__(self) -> Clocks:
        """The clocks of the next sweep."""
        return self._readings if self._every else InTurn(self._readings, next(self._turns))


def combined(clocks: Clocks, count: int, place: int) -> Sequence[tuple[int, ...]]:
    """The combinations of readings that `count` writers have.

    Args:
        clocks: the readings.
        count: of the writers.
        place: the position of the choice in the sweep.
    """
    if not isinstance(clocks, InTurn):
        return list(itertools.product(clocks, repeat=count))
    every = list(itertools.product(clocks.readings, repeat=count))
    return [every[(place + clocks.turn) % len(every)]]


def at_clocks(clocks: Clocks, count: int, *factors: Sequence[Any]) -> Iterator[Any]:
    """The product of some factors, each element followed by the readings of `count` writers."""
    for numbered in itertools.product(*map(list[tuple[int, Any]], map(enumerate, factors))):
        for readings in combined(clocks, count, sum(place for place, _ in numbered)):
            yield (*(of for _, of in numbered), *readings)


def over_stores(
    stores: Sequence[str], names: Sequence[str], clocks: Clocks, count: int = 2, *, ordered: bool = False
) -> Iterator[tuple[str, tuple[tuple[str, ...], tuple[int, ...]]]]:
    """The earlier state, the writers' actions and their readings, see `combinations`."""
    for place, kind in enumerate(stores):
        yield from ((kind, chosen) for chosen in combinations(names, clocks, count, ordered=ordered, place=place))


def combinations(
    names: Sequence[str], clocks: Clocks, count: int = 2, *, ordered: bool = False, place: int = 0
) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The actions of the writers and their readings; without `ordered`, in any order of the writers.

    Args:
        names: the possible actions of each writer.
        clocks: their readings.
        count: of the writers.
        ordered: whether it matters which of them is the first.
        place: of what else is chosen, among the choices of the sweep.
    """
    chosen_of: Any = itertools.combinations_with_replacement if not ordered else _repeated
    if isinstance(clocks, InTurn):
        for numbered in chosen_of(list(enumerate(names)), count):
            at = place + sum(n for n, _ in numbered)
            yield from ((tuple(name for _, name in numbered), of) for of in combined(clocks, count, at))
    else:
        for writers in chosen_of(list(itertools.product(names, clocks)), count):
            yield tuple(name for name, _ in writers), tuple(clock for _, clock in writers)


def _repeated(of: Sequence[Any], count: int) -> Iterator[tuple[Any, ...]]:
    return itertools.product(of, repeat=count)
