"""Goes through every state that a few processes over one store can reach: every interleaving, every crash.

A state is the store, where each process stands, what is known of the reads under way, and how many crashes are left. Stores, and the
points where a process can stand, have numbers, so that a state is a short tuple of integers and each step of a process in a store is
carried out once, however many states share the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import define, field, frozen

from tests.checker.behaviour import DEAD, DONE, Behaviour, Start
from tests.checker.cells import Step, Store, Violation, apply_op

State = tuple[int, ...]
"""Number of the store, number of the monitor, crashes left, and the point where each process stands."""

FOREVER = 1 << 60
EAGER = frozenset({"acknowledge", "end"})
"""Steps that nobody else can tell from the step before them, and that are taken with it."""

PURE = frozenset({"read", "scan", "late"})
"""Steps that change nothing."""

MOST_STORES = 200_000
"""A pool with more stores than this is not used for the next model."""


@define(eq=False)
class Pool:
    """The stores that were seen, each with a number, and what was found out about them; for models with the same invariants."""

    stores: list[Store] = field(factory=list)
    moves: dict[tuple[int, Behaviour], dict[tuple[int, int], Any]] = field(factory=dict)
    facts: dict[Any, Any] = field(factory=dict)
    _numbers: dict[frozenset[Any], int] = field(factory=dict)

    def number(self, store: Store) -> int:
        """The number of a store."""
        key = frozenset(store.items())
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.stores)
            self.stores.append(store)
        return found


@frozen
class Monitor:
    """What is known of the past.

    Attributes:
        compacted: whether there was a compaction.
        reads: of each process that reads through an index, what it must return and what it may, or None.
    """

    compacted: bool
    reads: tuple[tuple[frozenset[Any], frozenset[Any]] | None, ...]


class Model:
    """Processes over one store, with what must hold.

    Args:
        store: to begin with.
        processes: name (`W...` writes and may crash), steps, reading of its clock.
        crashes: how many writers may crash.
        pool: of stores, to be shared by models with the same invariants.
        merged: whether points of a process with the same future are one; without it every history is a point of its own.
    """

    merged = True

    def __init__(self, store: Store, processes: Sequence[tuple[str, Start, int]], crashes: int = 0, pool: Pool | None = None) -> None:
        self._store, self._processes, self._crashes = dict(store), list(processes), crashes
        self._pool = pool if pool is not None else Pool()
        self._writers = [name.startswith("W") for name, _, _ in processes]

    # --- what a model says of its stores --------------------------------------------------------------------------------

    def broken(self, store: Store) -> str | None:
        """What must hold in every state and does not."""
        return None

    def unsettled(self, store: Store) -> str | None:
        """What must hold once everything has stopped and does not."""
        return None

    def shown(self, store: Store) -> tuple[Any, ...]:
        """What a reader may return, each with its key first."""
        return ()

    def completed(self, store: Store, dead: frozenset[int]) -> Store:
        """The store after a step, with what is to be noted of crashed processes."""
        return store

    def acknowledged(self, store: Store, step: Step) -> Store:
        """The store after an acknowledgement."""
        return store

    def over(self, store: Store, process: int) -> bool:
        """Whether a process that crashes now has nothing under way: it is then the same as one that has ended."""
        return False

    def compacted(self, store: Store, young: int) -> Store | None:
        """The store after a major compaction while writers with times from `young` on are under way, or None where there is none."""
        return None

    def observed(self, must: frozenset[Any], seen: frozenset[Any]) -> frozenset[Any]:
        """Which of the rows that matched throughout a read may not be missed, by all that was shown meanwhile."""
        return must

    def returned(self, found: Sequence[Any], matches: Callable[[Any], bool], seen: frozenset[Any]) -> None:
        """Raises `Violation` if a read must not return this."""

    # --- the search -----------------------------------------------------------------------------------------------------

    def run(self, limit: int | None = None) -> dict[str, Any]:
        """Goes through every state, or through `limit` of them: whether all is well, states, transitions, and else what is wrong."""
        found = self._search(limit, None)
        if found["ok"] is False:
            found = self._search(limit, {})
        return found

    def _begin(self) -> State:
        self._behaviours = [Behaviour.of(start, self.merged) for _, start, _ in self._processes]
        self._tables = [self._pool.moves.setdefault((i, b), {}) for i, b in enumerate(self._behaviours)]
        self._monitors: list[Monitor] = []
        self._monitor_numbers: dict[Monitor, int] = {}
        self._observed: dict[tuple[int, int], int] = {}
        self._watching: list[bool] = []
        store = self._pool.number(self._store)
        monitor = self._monitor(Monitor(False, (None,) * len(self._processes)))
        self._check(store)
        state: State = (store, monitor, self._crashes, *(behaviour.first for behaviour in self._behaviours))
        for i in range(len(self._processes)):
            state = self._settle(state, i)
        return state

    def _search(self, limit: int | None, parents: dict[State, tuple[State, str]] | None) -> dict[str, Any]:
        states = transitions = 0
        state: State = ()
        label: Any = "BEGIN"
        try:
            begin = self._begin()
            seen = {begin}
            stack = [begin]
            while stack:
                state = stack.pop()
                states += 1
                if limit is not None and states > limit:
                    return {"ok": None, "states": states, "trans": transitions, "error": "limit", "trace": ()}
                label = "TERMINAL"
                for reached, label in self._successors(state):
                    transitions += 1
                    successor = reached() if callable(reached) else reached  # a violation is found out once the step has its label
                    if successor not in seen:
                        seen.add(successor)
                        stack.append(successor)
                        if parents is not None:
                            parents[successor] = (state, self._said(state, label))
        except Violation as violation:
            error = str(violation)
            trace = [self._said(state, label)] if state else [str(label)]
            while parents is not None and state in parents:
                state, step = parents[state]
                trace.append(step)
            return {"ok": False, "states": states, "trans": transitions, "error": error, "trace": tuple(reversed(trace))}
        return {"ok": True, "states": states, "trans": transitions, "error": None, "trace": ()}

    def _successors(self, state: State) -> Iterator[tuple[Any, Any]]:
        store, monitor, crashes = state[:3]
        watching = self._watching[monitor]
        running = False
        for i, moves in enumerate(self._tables):
            point = state[i + 3]
            if point < 2:
                continue
            running = True
            found = moves.get((store, point))
            if found is None:
                found = moves[(store, point)] = self._moved(i, store, point)
            for move in found:
                after, stands, plain, _ = move
                if plain and (after == store or not watching):
                    yield (after, monitor, crashes, *state[3 : i + 3], stands, *state[i + 4 :]), (i, move)
                else:
                    yield from self._slowly(state, i, move)
            if crashes and self._writers[i] and point != self._behaviours[i].first and not self._crash_comes_later(store, found):
                yield self._crashed(state, i), (i, None)
        if not running:
            self._end(store)
            return
        if (compacted := self._compaction(state)) is not None:
            yield compacted, "COMPACTION"

    def _crash_comes_later(self, store: int, moves: Any) -> bool:
        """Whether the step changes nothing and the process can crash after it as well: the state would be the very same."""
        return (
            self.merged
            and all(after == store and stands > 1 and plain for after, stands, plain, step in moves if step is not None)
            and any(step is not None and step[0] in PURE for *_, step in moves)
        )

    def _moved(self, i: int, store: int, point: int) -> tuple[tuple[int, int, bool, Step | None], ...]:
        """The moves of a process in a store: the store and the point after it, whether nothing else is to be seen to, and the step."""
        behaviour = self._behaviours[i]
        step = behaviour.steps[point]
        assert step is not None
        if step[0] == "grace" or (step[0] == "scan" and len(step) > 5):
            return ((store, point, False, step),)
        parts = enumerate(step[1]) if step[0] == "par" else ((None, step),)
        moves = []
        for part, single in parts:
            after = dict(self._pool.stores[store])
            answer = apply_op(after, single)
            number = store if step[0] in PURE else self._pool.number(after)
            stands = behaviour.after(point, answer) if part is None else behaviour.without(point, part)
            said = behaviour.steps[stands]
            plain = (
                (said is None or said[0] not in EAGER) and self._broken(number) is None and self._completed(number, frozenset()) == number
            )
            moves.append((number, stands, plain, single))
        return tuple(moves)

    def _slowly(self, state: State, i: int, move: Any) -> Iterator[tuple[Any, Any]]:
        """A move that reads, waits, acknowledges or ends, or is seen by a reader."""
        after, stands, _, step = move
        store, monitor = state[:2]
        behaviour = self._behaviours[i]
        if step[0] == "grace":
            if step[1] < self._youngest(state):
                changed = (*state[: i + 3], behaviour.after(stands, True), *state[i + 4 :])
                yield (lambda: self._settle(changed, i)), (i, move)
            return
        if step[0] == "scan" and len(step) > 5:
            of = self._monitors[monitor]
            if of.reads[i] is None:
                now = self._shown(store)
                read = (frozenset(found[0] for found in now if step[5](found)), frozenset(now))
                monitor = self._monitor(Monitor(of.compacted, (*of.reads[:i], read, *of.reads[i + 1 :])))
            stands = behaviour.after(stands, apply_op(self._pool.stores[store], step))

        def made() -> State:
            seen = self._observe(monitor, after) if after != store else monitor
            if after != store:
                self._check(after)
            return self._settle((after, seen, state[2], *state[3 : i + 3], stands, *state[i + 4 :]), i)

        yield made, (i, move)

    def _settle(self, state: State, i: int) -> State:
        """Takes the steps of a process that nobody can tell from the one before; notes what crashed processes have left."""
        while True:
            dead = frozenset(j for j, point in enumerate(state[3:]) if point == DEAD)
            number = self._completed(state[0], dead)
            if number != state[0]:
                self._check(number)
                state = (number, *state[1:])
            behaviour, point = self._behaviours[i], state[i + 3]
            step = behaviour.steps[point]
            if step is None or step[0] not in EAGER:
                return state
            store, monitor = state[:2]
            if step[0] == "acknowledge":
                store = self._pool.number(self.acknowledged(dict(self._pool.stores[store]), step))
                self._check(store)
            else:
                monitor = self._ended(monitor, i, step[1])
            state = (store, monitor, *state[2 : i + 3], behaviour.after(point, None), *state[i + 4 :])

    def _crashed(self, state: State, i: int) -> State:
        over = self.merged and self._fact("over", state[0], lambda store: self.over(store, i), i)
        return (*state[:2], state[2] - 1, *state[3 : i + 3], DONE if over else DEAD, *state[i + 4 :])

    def _compaction(self, state: State) -> Any:
        of = self._monitors[state[1]]
        if of.compacted:
            return None
        young = self._youngest(state)
        made = self._fact("compacted", state[0], lambda store: self.compacted(store, young), young)
        if made is None:
            return None

        def compacted() -> State:
            after = self._pool.number(made)
            self._check(after)
            monitor = self._observe(self._monitor(Monitor(True, of.reads)), after)
            return (after, monitor, *state[2:])

        return compacted

    def _youngest(self, state: State) -> int:
        """The earliest time that a writer under way has put or may yet put."""
        times = [FOREVER]
        for i, (_, _, clock) in enumerate(self._processes):
            point = state[i + 3]
            if self._writers[i] and point > 1:
                issued = self._behaviours[i].issued[point]
                times.append(clock if issued is None else issued)
        return min(times)

    # --- monitors and facts ---------------------------------------------------------------------------------------------

    def _monitor(self, monitor: Monitor) -> int:
        number = self._monitor_numbers.get(monitor)
        if number is None:
            number = self._monitor_numbers[monitor] = len(self._monitors)
            self._monitors.append(monitor)
            self._watching.append(any(read is not None for read in monitor.reads))
        return number

    def _observe(self, monitor: int, store: int) -> int:
        """The monitor after a change of the store."""
        if not self._watching[monitor]:
            return monitor
        found = self._observed.get((monitor, store))
        if found is None:
            of, now = self._monitors[monitor], self._shown(store)
            reads = tuple(None if read is None else self._seen(i, read, now) for i, read in enumerate(of.reads))
            found = self._observed[(monitor, store)] = self._monitor(Monitor(of.compacted, reads))
        return found

    def _seen(self, i: int, read: Any, now: Any) -> tuple[frozenset[Any], frozenset[Any]]:
        must, seen = read
        matches = self._behaviours[i].matches
        assert matches is not None
        seen |= frozenset(now)
        return self.observed(must & frozenset(found[0] for found in now if matches(found)), seen), seen

    def _ended(self, monitor: int, i: int, found: Sequence[Any]) -> int:
        """The end of a read: nothing that matched throughout is missing, and nothing is returned that never was."""
        of = self._monitors[monitor]
        read, matches = of.reads[i], self._behaviours[i].matches
        assert read is not None
        assert matches is not None
        must, seen = read
        self.returned(found, matches, seen)
        if missing := must - {row for row, *_ in found}:
            raise Violation(f"MISS: the query missed {sorted(missing)}, which matched throughout; it returned {found}")
        for one in found:
            if one not in seen:
                raise Violation(f"DIRTY: the query returned {one}, which never was while it ran")
        return self._monitor(Monitor(of.compacted, (*of.reads[:i], None, *of.reads[i + 1 :])))

    def _fact(self, name: str, store: int, found_out: Callable[[Store], Any], *more: Any) -> Any:
        key = (name, store, *more)
        facts = self._pool.facts
        if key not in facts:
            facts[key] = found_out(self._pool.stores[store])
        return facts[key]

    def _broken(self, store: int) -> str | None:
        return self._fact("broken", store, self.broken)  # type: ignore[no-any-return]

    def _shown(self, store: int) -> Any:
        return self._fact("shown", store, self.shown)

    def _completed(self, store: int, dead: frozenset[int]) -> int:
        def completed(found: Store) -> int:
            after = self.completed(found, dead)
            return store if after is found else self._pool.number(after)

        return self._fact("completed", store, completed, dead)  # type: ignore[no-any-return]

    def _check(self, store: int) -> None:
        if (broken := self._broken(store)) is not None:
            raise Violation(broken)

    def _end(self, store: int) -> None:
        if (unsettled := self._fact("unsettled", store, self.unsettled)) is not None:
            raise Violation(unsettled)

    # --- traces ---------------------------------------------------------------------------------------------------------

    def _said(self, state: State, label: Any) -> str:
        if isinstance(label, str):
            return label
        i, move = label
        name = self._processes[i][0]
        return f"{name}: CRASH" if move is None else f"{name}: {move[3][:5] if move[3][0] == 'scan' else move[3]}"
