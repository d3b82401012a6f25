"""Sweeps of the writers' roll, and every rule of it broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from attrs import evolve, frozen

from hbmodel.protocol.roll_line_format import NOTHING, Member, Revisions
from tests.checker.protocol_roll import SHIPPED, Bounds, Rules, configurations

SWEEPS: Mapping[str, Bounds] = {
    "one process": Bounds(),
    "one process, longer times": Bounds(lease=2, call=2),
    "two threads, two states": Bounds(threads=(2,), builders=(2,), killed=0, ends=False, rests=False, flips=0, work=2),
    "two processes": Bounds(threads=(1, 1), puts=(2, 1), work=2, lives=1, ends=False, rests=False, flips=0),
    "the collector meets a pause": Bounds(collected=2, ends=False, rests=False, work=5, flips=0),
    "the collector": Bounds(collected=2, ends=False, flips=0, unknown=0),
    "two builders, one killed": Bounds(
        puts=(2,), builders=(1, 1), builders_killed=1, killed=0, ends=False, flips=0, unknown=0
    ),
    "two builders of one index": Bounds(
        puts=(2,), builders=(1, 2), same=True, killed=0, rests=False, ends=False, flips=0, unknown=0
    ),
    "a fork": Bounds(threads=(1, 0), puts=(2, 1), forks=1, unknown=0, flips=0, work=1),
    "attempts that are told": Bounds(attempts=1, flips=0),
    "renewals without end": Bounds(puts=(1,), urgent=True, killed=0, flips=0, after=9, rests=False, ends=False),
    "renewals without end, two processes": Bounds(
        threads=(1, 1),
        puts=(1, 1),
        urgent=True,
        killed=0,
        unknown=0,
        flips=0,
        after=8,
        lives=1,
        rests=False,
        ends=False,
    ),
    "two processes, killed": Bounds(threads=(1, 1), puts=(1, 1), work=2, lives=1, killed=2, unknown=0),
    "two processes that rest": Bounds(threads=(1, 1), puts=(2, 2), work=1, lives=1, killed=0, unknown=0, flips=0),
    "two states": Bounds(builders=(2,), killed=0, flips=0),
    "two threads": Bounds(threads=(2,), ends=False, killed=0, flips=0),
    "two threads that end": Bounds(threads=(2,), puts=(2,), rests=False),
    "two unknown outcomes": Bounds(unknown=2, flips=0, lives=3),
    "other reads of the registry": Bounds(looks=True, flips=0),
    "other reads, two threads, two states": Bounds(
        threads=(2,), puts=(2,), looks=True, builders=(2,), killed=0, ends=False, rests=False, flips=0, work=2
    ),
}
"""What `make check-protocol` runs to the end."""

SAMPLED = ("a fork", "two processes that rest")
"""What the samples take of these."""

BESIDE = 20_000
"""States that the shipped rules go through beside each mutant."""


@frozen
class Forgetful(Member):
    """Lists no call of unknown outcome."""

    def ended(self, revisions: Revisions, now: int, *, unknown: bool) -> Member:
        """See `Member`."""
        return super().ended(revisions, now, unknown=False)


@frozen
class Hasty(Member):
    """Names its newest state while older calls are in progress."""

    @property
    def oldest(self) -> Revisions:
        """See `Member`."""
        return NOTHING if self.newest is None else self.newest


@frozen
class Mutant:
    """One broken rule, and where it shows."""

    rules: Rules
    bounds: Bounds
    violation: str = "a call by"

    def where(self, rules: Rules) -> Iterable[Any]:
        """The configuration. The shipped rules go through a part of it: all of it is among the whole sweeps."""
        return configurations({"roll": self.bounds}, rules, most=BESIDE if rules == SHIPPED else None)


_QUIET = Bounds(ends=False, rests=False, flips=0, unknown=0, killed=0)
_LOSSY = evolve(_QUIET, unknown=1)
_LASTING = evolve(_QUIET, work=5)

MUTANTS: Mapping[str, Mutant] = {
    "a lease needs no read": Mutant(Rules(validated="never"), _QUIET),
    "a renewal reads first": Mutant(Rules(validated="first"), _QUIET),
    "lines are put without a condition": Mutant(Rules(conditional=False), Bounds(ends=False, flips=0, killed=0)),
    "an id again after its delete": Mutant(Rules(ids="kept"), Bounds(unknown=0, flips=0, rests=False, killed=0)),
    "an id again, the delete is late": Mutant(Rules(ids="kept"), Bounds(rests=False, flips=0, killed=0)),
    "an id again after it was marked gone": Mutant(Rules(ids="kept"), evolve(_LASTING, collected=2)),
    "unknown outcomes are not listed": Mutant(Rules(member=Forgetful), _LOSSY),
    "unknown outcomes are not listed at the end": Mutant(
        Rules(member=Forgetful), Bounds(rests=False, flips=0, killed=0)
    ),
    "a line names its newest state at once": Mutant(Rules(member=Hasty), _QUIET),
    "the builder waits for the lease alone": Mutant(Rules(long=False), evolve(_QUIET, flips=1)),
    "the builder forgets the clocks": Mutant(Rules(skewed=False), evolve(_QUIET, flips=1)),
    "a lease counts from the answer": Mutant(Rules(from_answer=True), _LOSSY),
    "a put of unknown outcome counts": Mutant(Rules(unknown="done"), _LOSSY),
    "a call is counted after the look at its lease": Mutant(Rules(counted="later"), evolve(_QUIET, killed=1)),
    "a session writes by what it bound": Mutant(Rules(bound="kept"), _QUIET),
    "at rest while a call is under way": Mutant(Rules(quiet=False), Bounds(flips=0, unknown=0, killed=0)),
    "lines are collected without a mark": Mutant(Rules(compared=False), evolve(_LASTING, collected=1)),
    "a child continues as its parent": Mutant(
        Rules(fork="same"),
        Bounds(threads=(1, 0), puts=(3, 2), forks=1, unknown=0, flips=0, work=2, killed=0, rests=False, ends=False),
    ),
    "a lease on a wall clock that is set back": Mutant(Rules(running=False), evolve(_QUIET, jumps=1)),
    "a second attempt hides the first": Mutant(Rules(told=False), evolve(_QUIET, attempts=1)),
    "the lines are looked at before the change": Mutant(Rules(looks="before"), _QUIET),
    "the next builder trusts the first": Mutant(
        Rules(trusts=True), evolve(_QUIET, builders=(1, 1), builders_killed=1, puts=(2,))
    ),
    "a state is left by its value": Mutant(
        Rules(by_revision=False), evolve(_QUIET, builders=(1, 2), same=True, puts=(2,))
    ),
    "a writer that is not on the roll": Mutant(Rules(listed=False), _QUIET),
    "a line that is not found is sent again under its id": Mutant(
        Rules(ids="absent"), evolve(_LOSSY, collected=2, work=5)
    ),
    "an attempt is sent without a look at the lease": Mutant(Rules(again=False), _LOSSY),
}


def whole() -> Iterator[tuple[str, Callable[[], Iterable[Any]]]]:
    """Every whole sweep."""
    for name in SWEEPS:
        yield f"writers' roll: {name}", partial(configurations, SWEEPS, SHIPPED, (name,))
    of_mutants: dict[Bounds, str] = {}
    for name, mutant in MUTANTS.items():
        of_mutants.setdefault(mutant.bounds, name)
    for bounds, name in of_mutants.items():
        yield f"writers' roll, where {name}", partial(configurations, {name: bounds})


def sample() -> Iterable[Any]:
    """Some of them."""
    return configurations(SWEEPS, SHIPPED, SAMPLED)
