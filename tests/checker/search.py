"""Goes through every state that a few processes over one store can reach: every interleaving, every crash.

A state is the store, the point of each process, the known facts about the reads in progress, and the number of crashes
that are left. Stores, and the points where a process can stand, have numbers, so that a state is one integer, and each
step of a process in a store is carried out once, however many states and models share the two.

What is left out was seen already, or cannot be told from what was seen (`test_search.py` holds it against the full
search):

- Acknowledgements and the ends of reads come at once after the step before them: no other process reads what they
  change, and what must hold is looked at before and after. (Clarke, Grumberg and Peled, *Model Checking*, chapter 10:
  invisible steps that commute.)
- Histories of a process after which it holds the same are one point (`fingerprint.py`): its future is a function of
  what it holds.
- A crash is the last step of its process and changes nothing in the store. It commutes with every step of another
  process but one that looks at who has died: the beginning of a write, the end of a wait, and a compaction that keeps
  what is young. So it comes just before such a step, or once nobody else is left who could make one.
- A crash before a step that changes nothing leads to the state that a crash after it leads to.
- A crash of a process whose writes are all acknowledged is its end: nothing else is noted of the dead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.checker.behaviour import DEAD, DONE, Behaviour, Start
from tests.checker.cells import Step, Store, Violation, apply_op
from tests.checker.pool import (
    CRASHES_AT,
    MONITOR_AT,
    MONITORS,
    MOST_CRASHES,
    POINT_BITS,
    POINTS,
    SHIFTS,
    STORES,
    Monitor,
    Move,
    Moves,
    Pool,
    Read,
)

FOREVER = 1 << 60
EAGER = frozenset({"acknowledge", "end"})
"""Steps that nobody else can tell from the step before them, and that are taken with it."""

PURE = frozenset({"read", "scan", "late"})
"""Steps that change nothing."""

BEGINS = frozenset({"begin"})
"""Steps with which a write begins."""


class Model:
    """Processes on one store, and their invariants.

    Args:
        store: to begin with.
        processes: name (`W...` writes and may crash), steps, reading of its clock.
        crashes: how many writers may crash.
        pool: of stores, to be shared by models with the same invariants.

    Attributes:
        reduced: whether points of a process with the same future are one, and crashes that come to the same; without it
            every history is a point of its own.
        merges: whether the same goes for two processes alone: it does where they repeat what they do.
        compacts: whether there is a compaction.
        ages: whether what it leaves depends on who is under way.
        terminals: what is wrong with stores once everything has stopped; the pool's, where that depends on nothing
            else.
    """

    reduced = True
    merges = False
    compacts = False
    ages = False

    def __init__(
        self, store: Store, processes: Sequence[tuple[str, Start, int]], crashes: int = 0, pool: Pool | None = None
    ) -> None:
        self._store, self.procs, self._crashes = dict(store), list(processes), crashes
        self._pool = pool if pool is not None else Pool()
        self.terminals = self._pool.terminals
        self._writers = [name.startswith("W") for name, _, _ in processes]

    # --- what a model says of its stores ------------------------------------------------------------------------------

    def broken(self, store: Store) -> str | None:
        """The violation of an invariant of every state, if any."""
        return None

    def terminal(self, store: Store) -> str | None:
        """The violation of an invariant once everything has stopped, if any."""
        return None

    def primary(self, store: Store) -> tuple[Any, ...]:
        """The items that a reader may return, each with its key first."""
        return ()

    def remembered(self, answer: Any) -> Any:
        """The part of an answer that a process sees."""
        return answer

    def completed(self, store: Store, dead: frozenset[int]) -> Store:
        """The store after a write has begun, with what is to be noted of crashed processes."""
        return store

    def acknowledged(self, store: Store, step: Step) -> Store:
        """The store after an acknowledgement."""
        return store

    def over(self, store: Store, process: int) -> bool:
        """Whether a process that crashes now has no call in progress, so that it is equivalent to one
        that has ended.
        """
        return False

    def compacted(self, store: Store, young: int) -> Store | None:
        """The store after a major compaction while writers with times from `young` on are under way, or None where
        there is none.
        """
        return None

    def observed(self, must: frozenset[Any], seen: frozenset[Any]) -> frozenset[Any]:
        """The rows that matched throughout a read, and that the read must therefore return."""
        return must

    def returned(self, found: Sequence[Any], matches: Callable[[Any], bool], seen: frozenset[Any]) -> None:
        """Raises `Violation` if a read must not return this."""

    # --- the search ---------------------------------------------------------------------------------------------------

    def run(self, limit: int | None = None) -> dict[str, Any]:
        """Goes through every state, or through `limit` of them: whether all is well, states, transitions, and else
        what is wrong.
        """
        found = self._search(limit, None)
        return self._search(limit, {}) if found["ok"] is False else found  # once more for the steps that lead there

    def reached(self) -> frozenset[Any]:
        """What the invariants could see of the states of the last run: the number of a store, and what is known of
        reads.
        """
        found = {code & (1 << CRASHES_AT) - 1 for code in self._reached}
        monitors = [(of.compacted, tuple(read and read[1:] for read in of.reads)) for of in self._pool.monitors]
        return frozenset((code & STORES, monitors[code >> MONITOR_AT]) for code in found)

    def calls(self, process: int) -> int:
        """How many calls a process makes at most, by all that was seen of it so far."""
        return self._behaviours[process].most_calls

    def _begin(self) -> int:
        merging = self.merges or len(self.procs) > 2  # of two writers alone it costs more than it saves
        merged = [self.reduced and (merging or not writes) for writes in self._writers]
        self._behaviours = [Behaviour.of(start, of) for (_, start, _), of in zip(self.procs, merged, strict=True)]
        self._moves_of = [self._pool.moves.setdefault(found, {}) for found in enumerate(self._behaviours)]
        self._mortal = [i for i, writes in enumerate(self._writers) if writes]
        store = self._pool.number(self._store)
        monitor = self._monitor(Monitor(False, (None,) * len(self.procs)))
        self._check(store)
        code = self._crashes << CRASHES_AT
        for i, behaviour in enumerate(self._behaviours):
            store, monitor, point = self._settled(store, monitor, i, behaviour.first)
            code += point << SHIFTS[i]
        return code + store + (monitor << MONITOR_AT)

    def _search(self, limit: int | None, parents: dict[int, tuple[int, Any]] | None) -> dict[str, Any]:
        states = transitions = 0
        code = -1
        label: Any = "BEGIN"
        try:
            begin = self._begin()
            processes = [(i, SHIFTS[i], self._moves_of[i]) for i in range(len(self.procs))]
            watching, observed = self._pool.watching, self._pool.observed
            any_may_crash = not self.reduced or self.ages
            seen = self._reached = {begin}
            stack = [begin]
            while stack:
                code = stack.pop()
                states += 1
                if limit is not None and states > limit:
                    return {"ok": None, "states": states, "trans": transitions, "error": "limit", "trace": ()}
                store, monitor = code & STORES, code >> MONITOR_AT & MONITORS
                watched, at = watching[monitor], store << POINT_BITS
                running, heeded = 0, False
                for i, shift, moves in processes:
                    point = code >> shift & POINTS
                    if point <= DEAD:
                        continue
                    found = moves.get(at | point)
                    if found is None:
                        found = moves[at | point] = self._moved(i, store, point)
                    running += 1
                    if found.heeds:
                        heeded = True
                    for distance, move in found.plain:
                        there = code + distance
                        if watched and move[0] != store:
                            known = observed.get((monitor, move[0]))
                            there += (
                                (self._observe(monitor, move[0]) if known is None else known) - monitor
                            ) << MONITOR_AT
                        transitions += 1
                        if there not in seen:
                            seen.add(there)
                            stack.append(there)
                            if parents is not None:
                                parents[there] = (code, (i, move))
                    for move in found.others:
                        label = (i, move)
                        slowly = self._slowly(code, i, found, move)
                        transitions += slowly is not None
                        if slowly is not None and slowly not in seen:
                            seen.add(slowly)
                            stack.append(slowly)
                            if parents is not None:
                                parents[slowly] = (code, label)
                crashes = code >> CRASHES_AT & MOST_CRASHES
                if crashes and (any_may_crash or heeded or running <= crashes):  # else `_crashing` finds none
                    for i in self._crashing(code, self._running(code)):
                        there = self._crashed(code, i)
                        transitions += 1
                        if there not in seen:
                            seen.add(there)
                            stack.append(there)
                            if parents is not None:
                                parents[there] = (code, (i, None))
                if not running:
                    label = "TERMINAL"
                    self._end(store)
                elif self.compacts and not self._pool.monitors[monitor].compacted:
                    label = "COMPACTION"
                    compacted = self._compaction(code)
                    transitions += compacted is not None
                    if compacted is not None and compacted not in seen:
                        seen.add(compacted)
                        stack.append(compacted)
                        if parents is not None:
                            parents[compacted] = (code, label)
        except Violation as violation:
            return {
                "ok": False,
                "states": states,
                "trans": transitions,
                "error": str(violation),
                "trace": self._trace(code, label, parents),
            }
        return {"ok": True, "states": states, "trans": transitions, "error": None, "trace": ()}

    def _moved(self, i: int, store: int, point: int) -> Moves:
        behaviour = self._behaviours[i]
        step = behaviour.steps[point]
        assert step is not None
        if step[0] == "grace" or (step[0] == "scan" and len(step) > 5):
            return Moves((), ((store, point, step),), heeds=step[0] == "grace")
        parts = enumerate(step[1]) if step[0] == "par" else ((None, step),)
        plain: list[tuple[int, Move]] = []
        others: list[Move] = []
        for part, single in parts:
            after = dict(self._pool.stores[store])
            answer = self.remembered(apply_op(after, single))
            number = store if step[0] in PURE else self._pool.number(after, store)
            stands = behaviour.after(point, answer) if part is None else behaviour.without(point, part)
            if single[0] not in BEGINS and self._broken(number) is None:
                number, stands = self._noted(i, number, stands)
            said = behaviour.steps[stands]
            if (said is None or said[0] not in EAGER) and single[0] not in BEGINS and self._broken(number) is None:
                plain.append((number - store + ((stands - point) << SHIFTS[i]), (number, stands, single)))
            else:
                others.append((number, stands, single))
        unchanged = not others and all(number == store and stands > DEAD for _, (number, stands, _) in plain)
        pure = self.reduced and step[0] in PURE and unchanged
        return Moves(tuple(plain), tuple(others), pure, step[0] in BEGINS)

    def _noted(self, i: int, store: int, point: int) -> tuple[int, int]:
        """The store and the point after the acknowledgements that follow a step: readers see no more of them than of
        the step.
        """
        behaviour = self._behaviours[i]
        while (step := behaviour.steps[point]) is not None and step[0] == "acknowledge":
            after = self._pool.number(self.acknowledged(dict(self._pool.stores[store]), step), store)
            if self._broken(after) is not None:
                break
            store, point = after, behaviour.after(point, None)
        return store, point

    def _slowly(self, code: int, i: int, moves: Moves, move: Move) -> int | None:
        """A move that reads, waits, acknowledges, ends or is a violation, or None where it has to wait."""
        if move[2][0] == "grace" and move[2][1] >= self._youngest(code):
            return None
        point = code >> SHIFTS[i] & POINTS
        store, monitor = code & STORES, code >> MONITOR_AT & MONITORS
        dead = tuple(j for j in self._mortal if code >> SHIFTS[j] & POINTS == DEAD)
        known = (monitor, dead, move[0], move[1], i)
        if moves.later is None:
            moves.later = {}
        found = moves.later.get(known)
        if found is None:
            found = self._made(store, monitor, i, move, dead)
            moves.later[known] = found
        after, seen, stands = found
        return code - store + after + ((seen - monitor) << MONITOR_AT) + ((stands - point) << SHIFTS[i])

    def _made(self, store: int, monitor: int, i: int, move: Move, dead: tuple[int, ...]) -> tuple[int, int, int]:
        """The store, the monitor and the point after a move."""
        after, stands, step = move
        behaviour = self._behaviours[i]
        if step[0] == "grace":
            stands = behaviour.after(stands, True)
        elif step[0] == "scan" and len(step) > 5:
            of = self._pool.monitors[monitor]
            if of.reads[i] is None:
                now = self._readable(after)
                read = (behaviour, frozenset(found[0] for found in now if step[5](found)), frozenset(now))
                monitor = self._monitor(Monitor(of.compacted, (*of.reads[:i], read, *of.reads[i + 1 :])))
            stands = behaviour.after(stands, self.remembered(apply_op(self._pool.stores[after], step)))
        if after != store:
            monitor = self._observe(monitor, after)
            self._check(after)
        if step[0] in BEGINS:
            after = self._completed(after, frozenset(dead))
            self._check(after)
        return self._settled(after, monitor, i, stands)

    def _settled(self, store: int, monitor: int, i: int, point: int) -> tuple[int, int, int]:
        """Takes the steps of a process that no other process can observe."""
        while True:
            step = self._behaviours[i].steps[point]
            if step is None or step[0] not in EAGER:
                return store, monitor, point
            if step[0] == "acknowledge":
                store = self._pool.number(self.acknowledged(dict(self._pool.stores[store]), step), store)
                self._check(store)
            else:
                monitor = self._ended(monitor, i, step[1])
            point = self._behaviours[i].after(point, None)

    def _running(self, code: int) -> list[tuple[int, Moves, bool]]:
        """The processes that have not stopped, with their moves, which are known, and whether each may crash now."""
        found: list[tuple[int, Moves, bool]] = []
        for i, behaviour in enumerate(self._behaviours):
            point = code >> SHIFTS[i] & POINTS
            if point > DEAD:
                moves = self._moves_of[i][(code & STORES) << POINT_BITS | point]
                found.append((i, moves, self._writers[i] and point != behaviour.first and not moves.pure))
        return found

    def _crashing(self, code: int, running: Sequence[tuple[int, Moves, bool]]) -> Sequence[int]:
        """Which processes crash now: without reductions all that may, else those whose death a next step could tell,
        or that are left.
        """
        crashes = code >> CRASHES_AT & MOST_CRASHES
        if not crashes:
            return ()
        mortal = [i for i, _, may in running if may]
        if (
            not self.reduced
            or not mortal
            or (self.ages and not self._pool.monitors[code >> MONITOR_AT & MONITORS].compacted)
        ):
            return mortal
        heeding = [i for i, moves, _ in running if moves.heeds]
        if len(heeding) > 1 or (len(running) <= crashes and all(self._writers[i] for i, _, _ in running)):
            return mortal
        return [i for i in mortal if heeding and heeding != [i]]

    def _crashed(self, code: int, i: int) -> int:
        point = code >> SHIFTS[i] & POINTS
        return (
            code
            - (1 << CRASHES_AT)
            + (((DONE if self.reduced and self._over(code & STORES, i) else DEAD) - point) << SHIFTS[i])
        )

    def _over(self, store: int, i: int) -> bool:
        over = self._pool.over
        if (store, i) not in over:
            over[(store, i)] = self.over(self._pool.stores[store], i)
        return over[(store, i)]

    def _compaction(self, code: int) -> int | None:
        store, monitor = code & STORES, code >> MONITOR_AT & MONITORS
        young = self._youngest(code) if self.ages else FOREVER
        compactions, closed = self._pool.compactions, self._pool.closed
        if (store, young) not in compactions:
            made = self.compacted(self._pool.stores[store], young)
            compactions[(store, young)] = None if made is None else self._pool.number(made, store)
        after = compactions[(store, young)]
        if after is None:
            return None
        self._check(after)
        if monitor not in closed:
            closed[monitor] = self._monitor(Monitor(True, self._pool.monitors[monitor].reads))
        seen = self._observe(closed[monitor], after)
        return code - store + after + ((seen - monitor) << MONITOR_AT)

    def _youngest(self, code: int) -> int:
        """The earliest time that a writer in progress has put or may still put."""
        young = FOREVER
        for i in self._mortal:
            point = code >> SHIFTS[i] & POINTS
            if point > DEAD:
                issued = self._behaviours[i].issued[point]
                young = min(young, self.procs[i][2] if issued is None else issued)
        return young

    # --- monitors and facts -------------------------------------------------------------------------------------------

    def _monitor(self, monitor: Monitor) -> int:
        return self._pool.monitor(monitor)

    def _observe(self, monitor: int, store: int) -> int:
        """The monitor after a change of the store."""
        if not self._pool.watching[monitor]:
            return monitor
        found = self._pool.observed.get((monitor, store))
        if found is None:
            of, now = self._pool.monitors[monitor], self._readable(store)
            reads = tuple(None if read is None else self._seen(read, now) for read in of.reads)
            found = self._pool.observed[(monitor, store)] = self._monitor(Monitor(of.compacted, reads))
        return found

    def _seen(self, read: Read, now: Any) -> Read:
        behaviour, must, seen = read
        assert behaviour.matches is not None
        seen |= frozenset(now)
        return (
            behaviour,
            self.observed(must & frozenset(found[0] for found in now if behaviour.matches(found)), seen),
            seen,
        )

    def _ended(self, monitor: int, i: int, found: Sequence[Any]) -> int:
        """The end of a read: nothing that matched throughout is missing, and nothing is returned that never was."""
        of = self._pool.monitors[monitor]
        read = of.reads[i]
        assert read is not None
        behaviour, must, seen = read
        assert behaviour.matches is not None
        self.returned(found, behaviour.matches, seen)
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
        broken = self._pool.broken
        if store not in broken:
            broken[store] = self.broken(self._pool.stores[store])
        return broken[store]

    def _readable(self, store: int) -> Any:
        return self._fact("primary", store, self.primary)

    def _completed(self, store: int, dead: frozenset[int]) -> int:
        return self._pool.number(self.completed(self._pool.stores[store], dead), store)

    def _check(self, store: int) -> None:
        if (broken := self._broken(store)) is not None:
            raise Violation(broken)

    def _end(self, store: int) -> None:
        if store not in self.terminals:
            self.terminals[store] = self.terminal(self._pool.stores[store])
        if (wrong := self.terminals[store]) is not None:
            raise Violation(wrong)

    # --- traces -------------------------------------------------------------------------------------------------------

    def _trace(self, code: int, label: Any, parents: dict[int, tuple[int, Any]] | None) -> tuple[str, ...]:
        labels = [label]
        while parents is not None and code in parents:
            code, label = parents[code]
            labels.append(label)
        return tuple(label if isinstance(label, str) else self._said(*label) for label in reversed(labels))

    def _said(self, i: int, move: Move | None) -> str:
        name = self.procs[i][0]
        return f"{name}: CRASH" if move is None else f"{name}: {move[2][:5] if move[2][0] == 'scan' else move[2]}"
