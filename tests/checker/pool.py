"""The parts of the model checker's states, each with a number: stores, monitors, and what was found out about them."""

from __future__ import annotations

from random import Random
from typing import Any

from attrs import define, field, frozen
from msgspec import Struct

from tests.checker.behaviour import Behaviour
from tests.checker.cells import Step, Store

STORE_BITS, MONITOR_BITS, CRASH_BITS, POINT_BITS = 26, 22, 4, 20
STORES, MONITORS, MOST_CRASHES, POINTS = (
    (1 << STORE_BITS) - 1,
    (1 << MONITOR_BITS) - 1,
    (1 << CRASH_BITS) - 1,
    (1 << POINT_BITS) - 1,
)
MONITOR_AT, CRASHES_AT = STORE_BITS, STORE_BITS + MONITOR_BITS
SHIFTS = tuple(CRASHES_AT + CRASH_BITS + n * POINT_BITS for n in range(16))
"""Where the parts of a state stand in its number: store, monitor, crashes left, and the point of each process."""

MOST_STORES = 400_000
"""A pool with more stores or monitors than this is not used for the next model."""

KEY_BITS = 128
ABSENT: Any = object()

Move = tuple[int, int, Step]
"""The store after a step, the point after it, and the step."""


class Moves(Struct, eq=False, gc=False):
    """The possible moves of a process in a store: one move, or one for each part of a step of several parts.

    Attributes:
        plain: moves after which nothing is to be seen to, each with what it adds to the number of a state.
        others: the rest.
        pure: whether nothing changes, and the process can crash after it as well as before it: the states are then the
            same.
        heeds: whether its result depends on which processes have died.
        later: what was found of the others; None before the first.
    """

    plain: tuple[tuple[int, Move], ...]
    others: tuple[Move, ...] = ()
    pure: bool = False
    heeds: bool = False
    later: dict[Any, tuple[int, int, int]] | None = None


Read = tuple[Behaviour, frozenset[Any], frozenset[Any]]
"""A read under way, with the rows that it must return and what it may."""


@frozen(cache_hash=True)
class Monitor:
    """The known facts about the past.

    Attributes:
        compacted: whether there was a compaction.
        reads: of each process, or None where there is none.
    """

    compacted: bool
    reads: tuple[Read | None, ...]


@define(eq=False)
class Pool:
    """The stores and monitors that were seen, each with a number, and what was found out; for models with the same
    invariants.
    """

    stores: list[Store] = field(factory=list)
    moves: dict[tuple[int, Behaviour], dict[int, Moves]] = field(factory=dict)
    facts: dict[Any, Any] = field(factory=dict)
    broken: dict[int, str | None] = field(factory=dict)
    over: dict[tuple[int, int], bool] = field(factory=dict)
    terminals: dict[int, str | None] = field(factory=dict)
    compactions: dict[tuple[int, int], int | None] = field(factory=dict)
    closed: dict[int, int] = field(factory=dict)
    monitors: list[Monitor] = field(factory=list)
    watching: list[bool] = field(factory=list)
    observed: dict[tuple[int, int], int] = field(factory=dict)
    _monitor_numbers: dict[Monitor, int] = field(factory=dict)
    _numbers: dict[int, int] = field(factory=dict)
    _keys: list[int] = field(factory=list)
    _parts: dict[tuple[Any, Any], int] = field(factory=dict)
    _random: Random = field(factory=lambda: Random(0))

    def number(self, store: Store, like: int | None = None) -> int:
        """The number of a store.

        Stores are distinguished by a key of 128 bits. Each part of a store (a row and its state) has a random number,
        and the key is the XOR of these numbers (Zobrist, *A new hashing method with application for game playing*,
        1970). A step changes only a few parts. The probability that two of a million stores have the same key is about
        1e-27.

        Args:
            store: is kept, if it is new.
            like: the number of a store that differs in few parts.
        """
        before, key = ({}, 0) if like is None else (self.stores[like], self._keys[like])
        same = 0
        for part, state in store.items():
            old = before.get(part, ABSENT)
            if old is not ABSENT:
                same += 1
                if old is state:
                    continue
                key ^= self._part(part, old)
            key ^= self._part(part, state)
        if same < len(before):
            for part, old in before.items():
                if part not in store:
                    key ^= self._part(part, old)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.stores)
            self.stores.append(store)
            self._keys.append(key)
            if found > STORES:
                raise OverflowError("There are more stores than a state can name.")
        return found

    def _part(self, part: Any, state: Any) -> int:
        found = self._parts.get((part, state))
        if found is None:
            found = self._parts[(part, state)] = self._random.getrandbits(KEY_BITS)
        return found

    def monitor(self, monitor: Monitor) -> int:
        """The number of a monitor."""
        found = self._monitor_numbers.get(monitor)
        if found is None:
            found = self._monitor_numbers[monitor] = len(self.monitors)
            self.monitors.append(monitor)
            self.watching.append(any(read is not None for read in monitor.reads))
            if found > MONITORS:
                raise OverflowError("There are more monitors than a state can name.")
        return found

    @property
    def full(self) -> bool:
        """Whether it is not to be used for a further model."""
        return max(len(self.stores), len(self.monitors)) > MOST_STORES
