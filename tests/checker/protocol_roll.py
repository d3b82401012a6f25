"""The model checker on the writers' roll: which writers may still write by an old state, and how long a builder must
wait for them.

Time passes in ticks. The server's clock shows the time plus `s`, which changes within 0 to `skew` (a region moves to
another server). A call takes effect at any tick up to `call` ticks after the lease was looked at for it; its caller may
be told before that the outcome is unknown. Reads are instants. Every step may be delayed without bound, except from a
look at the lease to the effect of the call.

One row of the registry, whose state is a number. What a process does is the shipped `Member`; what a builder waits for
is the shipped `RollLine.over`. What must hold: no call sent by a state takes effect after a builder of a later state
went on. And where no step is left, every builder that was not killed has gone on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from attrs import evolve, frozen

from hbmodel.protocol.roll_line_format import Member, Revisions, RollLine
from tests.checker.cells import Violation
from tests.checker.protocol_roll_states import (
    AHEAD,
    CALLS,
    COLLECTOR,
    GONE_ON,
    LEFT,
    PART,
    REGISTRY,
    TICK,
    Builder,
    Left,
    Numbered,
    Process,
    State,
    States,
    whole,
)

CELL = "s"
CALL, LINE, DELETE = range(3)
KINDS = ("call", "line", "delete")
NO_LINE = -1
NONE = b""
"""The id of a process that has used all that the model gives it."""


@frozen
class Rules:
    """The fault in the code around the roll, if any.

    Attributes:
        member: the class of the members.
        validated: when the registry is read: `after` the put of a line, `first` before it, or `never` but before the
            first one.
        unknown: what is done after a put of unknown outcome: `find` its line, or take it for `done`.
        counted: whether a call is counted in the step that looks at the lease; else in a `later` one.
        bound: whether a call is made by the newest state that the process knows, or by one that a session has `kept`.
        conditional: whether lines are put under a condition.
        ids: whether a process whose line is gone takes a new id; `kept` where it does not, `absent` where it does so
            but for a line that is not found.
        quiet: whether a line is put at rest, or deleted, only while no call is under way.
        fork: whether a child begins with nothing.
        running: whether leases are measured on a clock that never jumps.
        told: whether a call of several attempts has an unknown outcome unless every attempt was answered.
        again: whether an attempt looks at the lease again.
        listed: whether the process is on the roll at all.
        from_answer: whether a lease counts from the answer to its put.
        skewed: whether the builder waits for the difference of two servers' clocks.
        long: whether it waits for the longest call after the end of a lease.
        looks: whether it looks at the lines `after` it has changed the state.
        trusts: whether a builder that continues for another trusts that the other has looked.
        by_revision: whether a state is left under the condition that its revision is there; else its value is enough.
        compared: whether the collector marks lines under a condition before it deletes them.
    """

    member: type[Member] = Member
    validated: str = "after"
    unknown: str = "find"
    counted: str = "at once"
    bound: str = "newest"
    conditional: bool = True
    ids: str = "new"
    quiet: bool = True
    fork: str = "new"
    running: bool = True
    told: bool = True
    again: bool = True
    listed: bool = True
    from_answer: bool = False
    skewed: bool = True
    long: bool = True
    looks: str = "after"
    trusts: bool = False
    by_revision: bool = True
    compared: bool = True


SHIPPED = Rules()


@frozen
class Bounds:
    """The limits of what happens.

    Attributes:
        threads: of each process; 0 means that the process has not been forked yet.
        puts: of its line that each process may begin.
        writes: that each thread makes.
        builders: how many states each builder leads in.
        lease: ticks.
        call: ticks that a call lives.
        skew: ticks that two servers' clocks differ.
        work: the last tick at which a process begins anything.
        unknown: outcomes that are lost.
        killed: processes.
        builders_killed: likewise.
        flips: changes of the server's clock.
        forks: of the first process.
        collected: lines that the collector marks.
        jumps: of a wall clock, backwards.
        attempts: calls that are carried out at the second attempt while the first is under way.
        lives: ids that each process may use.
        same: whether the builders lead one index in and out again, rather than each to a state of its own.
        looks: whether processes read the registry for other reasons too.
        urgent: whether leases are renewed in time, without end.
        rests: whether processes put their line at rest.
        ends: whether they delete it.
        after: ticks after the last work; None for all that matter.
    """

    threads: tuple[int, ...] = (1,)
    puts: tuple[int, ...] = (3,)
    writes: int = 1
    builders: tuple[int, ...] = (1,)
    lease: int = 1
    call: int = 1
    skew: int = 1
    work: int = 3
    unknown: int = 1
    killed: int = 1
    builders_killed: int = 0
    flips: int = 1
    forks: int = 0
    collected: int = 0
    jumps: int = 0
    attempts: int = 0
    lives: int = 2
    same: bool = False
    looks: bool = False
    urgent: bool = False
    rests: bool = True
    ends: bool = True
    after: int | None = None


DEAD = Process(0, -1, "off", 0, ())
Labelled = tuple[tuple[Any, ...], State]
"""What is done, as a format and its arguments, and the state that follows."""


def of_state(state: int) -> Revisions:
    """The revisions of the registry row in a state."""
    return Revisions(((CELL, state),))


class Actor(NamedTuple):
    """Something that makes steps.

    Attributes:
        steps: the steps from a state, in which all parts that they do not depend on are hidden.
        sees: the bits of the parts that they read or change.
        known: what each step adds to the number of a state, by these bits; and what is done.
    """

    steps: Callable[[State], Iterator[Labelled]]
    sees: int
    known: dict[int, tuple[tuple[int, tuple[Any, ...]], ...]]


class RollModel:
    """Every state that the processes, builders and the collector can reach, shortest ways first."""

    def __init__(self, rules: Rules, bounds: Bounds, most: int | None = None) -> None:
        self.rules, self.bounds, self._most = rules, bounds, most
        self.members, self.lines = Numbered[Member](), Numbered[RollLine]()
        b = bounds
        self._rows = len(b.threads) * b.lives
        more = 2 * b.call + b.lease + 2 * b.skew + 2 if b.after is None else b.after
        self._last = b.work + more
        # a member, a tick and the clock of its process -> the member then
        self._aged: dict[tuple[int, int, int], int] = {}
        processes = [
            Process(1 if threads else 2, self._number(self._member(n)), "off", puts, (("idle", b.writes),) * threads)
            for n, (threads, puts) in enumerate(zip(b.threads, b.puts, strict=True))
        ]
        self._first = State(
            0,
            0,
            0,
            ((-1, None),) * self._rows,
            (),
            tuple(processes),
            tuple(Builder("start", 0, 0, (), n) for n in b.builders),
            ("idle", b.collected),
            Left(b.unknown, b.killed, b.builders_killed, b.flips, b.forks, b.jumps, b.attempts),
            0,
        )
        self._states = States(self._first)
        self._actors_of: dict[int, tuple[Actor, ...]] = {}
        self._landings: dict[int, Any] = {}
        self._clock = self._ticking()
        self._others = (
            *map(self._working, range(len(b.threads))),
            *map(self._building, range(len(b.builders))),
            Actor(self._flips, _bits(AHEAD, LEFT), {}),
            self._collecting(),
        )

    def _member(self, of: int) -> Member:
        return self.rules.member(bytes([of]), self.bounds.lease, self.bounds.call)

    def _number(self, member: Member) -> int:
        """Of a member; the order of its calls makes no difference."""
        calls, late = (
            tuple(sorted(member.calls, key=lambda of: of.cells)),
            tuple(sorted(member.late, key=lambda of: (of[0].cells, of[1]))),
        )
        return self.members.number(
            evolve(member, calls=calls, late=late) if (calls, late) != (member.calls, member.late) else member
        )

    # --- lines --------------------------------------------------------------------------------------------------------

    def _put(self, state: State, row: int, expected: int, line: int, condition: bool) -> tuple[tuple[Any, ...], bool]:
        """The lines after a put, by numbers, and whether it was carried out."""
        deleted, held = state.lines[row]
        if condition and (NO_LINE if held is None else held[1]) != expected:
            return state.lines, False
        now = state.tick + state.ahead
        time = max(now, held[0]) if condition and held is not None else now
        if held is not None and held[0] > time:
            return state.lines, True  # hidden under a later time
        found = None if time <= deleted else (time, line)
        return (*state.lines[:row], (deleted, found), *state.lines[row + 1 :]), True

    def _delete(self, state: State, row: int) -> tuple[Any, ...]:
        deleted, held = state.lines[row]
        deleted = max(state.tick + state.ahead, deleted)
        found = held if held is not None and held[0] > deleted else None
        return (*state.lines[:row], (deleted, found), *state.lines[row + 1 :])

    def _over(self, held: tuple[int, int] | None, now: int, target: int | None) -> bool:
        if held is None:
            return True
        stamp, line = held[0], self.lines[held[1]]
        if not self.rules.long:
            line = evolve(line, longest_call=0)
        skew = self.bounds.skew if self.rules.skewed else 0
        return line.over(stamp, now, skew) if target is None else line.over(stamp, now, skew, CELL, target)

    # --- processes ----------------------------------------------------------------------------------------------------

    def _with(
        self, state: State, n: int, process: Process, member: Member | None = None, call: Any = None, **more: Any
    ) -> State:
        if member is not None:
            process = process._replace(member=self._number(member))
        if call is not None:
            more["calls"] = tuple(sorted([*state.calls, call]))
        return state._replace(processes=(*state.processes[:n], process, *state.processes[n + 1 :]), **more)

    def _next_id(self, member: Member) -> bytes:
        if self.rules.ids == "kept":
            return member.id
        following = member.id[0] + len(self.bounds.threads) if member.id else self._rows
        return bytes([following]) if following < self._rows else NONE

    def _send(self, state: State, n: int, process: Process, member: Member, kind: Any) -> State:
        """The line is sent."""
        expected = NO_LINE if member.held is None else self.lines.number(member.held)
        sent = member.put(state.tick, kind)
        if kind == "rest" and not self.rules.quiet:
            sent = evolve(sent, until=member.until)
        assert sent.sent is not None, "a put sends"
        process = process._replace(point="sent", puts=process.puts - (not self.bounds.urgent))
        call = (LINE, state.tick + self.bounds.call, n, 0, member.id[0], expected, self.lines.number(sent.sent.line))
        return self._with(state, n, process, sent, call)

    def _answered(self, process: Process, member: Member, tick: int) -> tuple[Process, Member]:
        assert member.sent is not None, "a put was sent"
        rest = member.sent.line.kind == "rest"
        if self.rules.from_answer:
            member = evolve(member, sent=evolve(member.sent, since=tick))
        if not rest and self.rules.validated != "after" and member.newest is not None:
            return process._replace(point="on"), evolve(member.answered().read(member.newest), newest=member.newest)
        return process._replace(point="off" if rest else "read"), member.answered()

    def _thread(self, process: Process, at: int, now: tuple[Any, ...]) -> Process:
        return process._replace(threads=(*process.threads[:at], now, *process.threads[at + 1 :]))

    def _steps_of(self, state: State, n: int) -> Iterator[Labelled]:
        process = state.processes[n]
        member = self.members[process.member]
        working = state.tick <= self.bounds.work
        if working:
            for at in range(len(process.threads)):
                yield from self._calls_of(state, n, process, member, at)
        yield from self._line_of(state, n, process, member, working)
        if process.point == "find":
            held = state.lines[member.id[0]][1]
            line = None if held is None else self.lines[held[1]]
            yield ("W{} finds {}", n, line), self._found(state, n, process, member, line)
        if (
            self.bounds.looks
            and member.newest is not None
            and member.newest.at(CELL) < state.registry
            and process.point != "read"
        ):
            yield (
                ("W{} sees {}", n, state.registry),
                self._with(state, n, process, member.saw(of_state(state.registry))),
            )
        if state.left.killed and (process.point != "off" or member.sequence):
            calls = tuple(sorted((*c[:3], -1, *c[4:]) if c[2] == n else c for c in state.calls))
            yield (
                ("W{} KILLED", n),
                self._with(state, n, DEAD, calls=calls, left=state.left._replace(killed=state.left.killed - 1)),
            )

    def _calls_of(self, state: State, n: int, process: Process, member: Member, at: int) -> Iterator[Labelled]:
        """The steps of a thread that wants to write."""
        thread, tick = process.threads[at], state.tick
        if thread[0] == "looked":
            call = (CALL, thread[3] + self.bounds.call, n, at, thread[2])
            counted = evolve(member, calls=(*member.calls, of_state(thread[2])))
            yield (
                ("W{}.{} sends by {}", n, at, thread[2]),
                self._with(state, n, self._thread(process, at, ("wait", *thread[1:3])), counted, call),
            )
            return
        if thread[0] == "wait" or not thread[1] or member.newest is None:
            return
        newest = member.newest.at(CELL)
        if self.rules.bound == "kept" and thread[0] == "idle":
            yield (
                ("W{}.{} binds {}", n, at, newest),
                self._with(state, n, self._thread(process, at, ("bound", thread[1], newest))),
            )
            return
        if not member.may_call(tick + process.jumped):
            return
        by = thread[2] if thread[0] == "bound" else newest
        if self.rules.counted == "later":
            looked = self._thread(process, at, ("looked", thread[1] - 1, by, tick))
            yield ("W{}.{} looks at its lease, by {}", n, at, by), self._with(state, n, looked)
            return
        counted = member.began() if by == newest else evolve(member, calls=(*member.calls, of_state(by)))
        call = (CALL, tick + self.bounds.call, n, at, by)
        yield (
            ("W{}.{} sends by {}", n, at, by),
            self._with(state, n, self._thread(process, at, ("wait", thread[1] - 1, by)), counted, call),
        )

    def _line_of(self, state: State, n: int, process: Process, member: Member, working: bool) -> Iterator[Labelled]:
        """The steps of the thread that keeps the line."""
        tick, point, rules, bounds = state.tick, process.point, self.rules, self.bounds
        busy = any(thread[0] == "wait" for thread in process.threads)
        if point == "off" and working and member.id != NONE and any(thread[1] for thread in process.threads):
            if not rules.listed:
                alone = evolve(member, newest=of_state(state.registry), until=tick + bounds.lease)
                yield (
                    ("W{} reads {}, not on the roll", n, state.registry),
                    self._with(state, n, process._replace(point="on"), alone),
                )
            elif process.puts:
                yield ("W{} sends its line", n), self._begin_line(state, n, process, member)
        elif point == "read":
            read = member.read(of_state(state.registry))
            yield ("W{} reads {}", n, state.registry), self._with(state, n, process._replace(point="on"), read)
        elif point == "on" and rules.listed:
            if tick > (member.until or 0) - 1 if bounds.urgent else process.puts and working:
                yield ("W{} sends its line again", n), self._begin_line(state, n, process, member)
            may_rest = bounds.rests and process.puts and working and not bounds.urgent
            if may_rest and not (busy and rules.quiet):
                yield ("W{} sends rest", n), self._send(state, n, process, member, "rest")
        if (
            point in ("on", "off")
            and bounds.ends
            and member.held is not None
            and process.puts
            and working
            and member.id != NONE
        ):
            may_end = member.may_end(tick) if rules.quiet else all(sent + bounds.call < tick for _, sent in member.late)
            if may_end:
                ending = process._replace(point="ending", puts=process.puts - 1)
                call = (DELETE, tick + bounds.call, n, 0, member.id[0])
                ended = evolve(member, until=None) if rules.quiet else member
                yield ("W{} ends: deletes its line", n), self._with(state, n, ending, ended, call)

    def _begin_line(self, state: State, n: int, process: Process, member: Member) -> State:
        if self.rules.validated == "first" or (self.rules.validated == "never" and member.newest is None):
            member = evolve(member, newest=of_state(state.registry))
        return self._send(state, n, process, member, "on")

    def _found(self, state: State, n: int, process: Process, member: Member, line: RollLine | None) -> State:
        assert member.sent is not None, "a put was sent"
        if line == member.sent.line:
            return self._with(state, n, *self._answered(process, member, state.tick))
        if line is None and self.rules.ids == "absent" and member.held is None:
            return self._with(state, n, process._replace(point="off"), evolve(member, sent=None))
        if line is not None and line.kind == "gone" and self.rules.ids == "kept":
            return self._with(state, n, process._replace(point="off"), evolve(member, held=line, sent=None, until=None))
        after = member.found(line, self._next_id(member))
        point = "off" if after.until is None else "on"
        return self._with(state, n, process._replace(point=point), after)

    def _ended_thread(self, process: Process, at: int) -> Process:
        return self._thread(process, at, ("idle", process.threads[at][1]))

    # --- calls --------------------------------------------------------------------------------------------------------

    def _lands(self, state: State, at: int) -> Iterator[Labelled]:
        """A call takes effect, and its caller is answered."""
        call = state.calls[at]
        kind, deadline, n, live = call[:4]
        rest = (*state.calls[:at], *state.calls[at + 1 :])
        process = state.processes[n] if live >= 0 else None
        member = None if process is None else self.members[process.member]
        if kind == CALL:
            if state.gone_on > call[4]:
                raise Violation(f"a call by {call[4]} takes effect after {state.gone_on} went on")
            after = state._replace(calls=rest)
            if process is None or member is None:
                yield ("a late call by {} lands", call[4]), after
                return
            idle = self._ended_thread(process, live)
            answered = member.ended(of_state(call[4]), state.tick, unknown=False)
            yield ("W{}.{}: the call by {} is answered", n, live, call[4]), self._with(after, n, idle, answered)
            if state.left.attempts:
                told = member.ended(of_state(call[4]), deadline - self.bounds.call, unknown=self.rules.told)
                left = state.left._replace(attempts=state.left.attempts - 1)
                late = (*call[:3], -1, *call[4:])
                yield (
                    ("W{}.{}: answered at the second attempt", n, live),
                    self._with(after, n, idle, told, late, left=left),
                )
        elif kind == LINE:
            lines, done = self._put(state, call[4], call[5], call[6], self.rules.conditional)
            after = state._replace(lines=lines, calls=rest)
            if process is None or member is None:
                yield ("a late line of W{}: {}", n, done), after
            elif done:
                yield ("the line of W{} is put", n), self._with(after, n, *self._answered(process, member, state.tick))
            else:
                yield ("the line of W{} is refused", n), self._with(after, n, process._replace(point="find"))
        else:
            after = state._replace(lines=self._delete(state, call[4]), calls=rest)
            if process is None or member is None:
                yield ("a late delete of W{}", n), after
            else:
                again = member.renewed(self._next_id(member))
                yield ("the line of W{} is deleted", n), self._with(after, n, process._replace(point="off"), again)

    def _unknown(self, state: State, at: int) -> State:
        call = state.calls[at]
        kind, deadline, n, live = call[:4]
        late = (*call[:3], -1, *call[4:])
        calls = tuple(sorted([*state.calls[:at], *state.calls[at + 1 :], late]))
        state = state._replace(calls=calls, left=state.left._replace(unknown=state.left.unknown - 1))
        process = state.processes[n]
        member = self.members[process.member]
        if kind == CALL and not self.rules.again:
            return self._with(state, n, process, call=(kind, state.tick + self.bounds.call, *call[2:]))
        if kind == CALL:
            ended = member.ended(of_state(call[4]), deadline - self.bounds.call, unknown=True)
            return self._with(state, n, self._ended_thread(process, live), ended)
        if kind == DELETE:
            return self._with(state, n, process._replace(point="off"), member.renewed(self._next_id(member)))
        if self.rules.unknown == "done":
            return self._with(state, n, *self._answered(process, member, state.tick))
        if not self.rules.conditional:
            point = "on" if member.held is not None else "off"
            return self._with(state, n, process._replace(point=point), evolve(member, sent=None))
        return self._with(state, n, process._replace(point="find"))

    # --- builders and the collector -----------------------------------------------------------------------------------

    def _steps_of_builder(self, n: int, state: State) -> Iterator[Labelled]:
        b, now, rules, bounds = state.builders[n], state.tick + state.ahead, self.rules, self.bounds

        def go(new: Builder, **more: Any) -> State:
            return state._replace(builders=(*state.builders[:n], new, *state.builders[n + 1 :]), **more)

        def look() -> Builder:
            over = self._over(state.lines[b.at][1], now, b.target or state.registry + 1)
            return b._replace(at=b.at + 1, waits=b.waits if over else (*b.waits, b.at))

        if b.point == "start" and (not bounds.urgent or state.tick <= 1):
            early = rules.looks == "before"
            if early and b.at < self._rows:
                yield ("B{} looks at line {} too early", n, b.at), go(look())
                return
            following = "wait" if early else "look"
            if state.registry and not bounds.same and n:
                point = "wait" if rules.trusts else following
                yield ("B{} continues with {}", n, state.registry), go(b._replace(point=point, target=state.registry))
            if state.registry < 3:
                target = state.registry + 1
                yield ("B{} changes to {}", n, target), go(b._replace(point=following, target=target), registry=target)
        elif b.point == "look":
            new = look()
            after = go(new if new.at < self._rows else new._replace(point="wait", at=0))
            yield ("B{} looks at line {}, waits for {}", n, b.at, new.waits), after
        elif b.point == "wait":
            for row in b.waits:
                if self._over(state.lines[row][1], now, b.target):
                    left = tuple(other for other in b.waits if other != row)
                    yield ("B{} waits no longer for line {}", n, row), go(b._replace(waits=left))
            if not b.waits:
                target, same = b.target, state.registry == b.target
                if bounds.same:
                    current = same if rules.by_revision else state.registry % 2 == b.target % 2
                    target = state.registry if current else 0
                more = b.rounds > 1
                next_ = Builder("start" if more else "done", 0, 0, (), b.rounds - more)
                yield ("B{} goes on: {}", n, target), go(next_, gone_on=max(state.gone_on, target))
        if state.left.builders_killed and b.point in ("look", "wait"):
            left_ = state.left._replace(builders_killed=state.left.builders_killed - 1)
            yield ("B{} KILLED", n), go(Builder("dead", 0, 0, (), 0), left=left_)

    def _steps_of_collector(self, state: State) -> Iterator[Labelled]:
        doing = state.collector
        if doing[0] == "idle":
            for row, (_, held) in enumerate(state.lines if doing[1] else ()):
                if held is not None and self.lines[held[1]].kind == "gone":
                    yield (
                        ("the collector finds line {} gone", row),
                        state._replace(collector=("delete", doing[1], row, NO_LINE)),
                    )
                elif held is not None and self._over(held, state.tick + state.ahead, None):
                    step = "mark" if self.rules.compared else "delete"
                    yield (
                        ("the collector finds line {} over", row),
                        state._replace(collector=(step, doing[1], row, held[1])),
                    )
            return
        step, left, row, expected = doing
        idle = ("idle", left - 1)
        if step == "mark":
            gone = self.lines.number(evolve(self.lines[expected], kind="gone"))
            lines = self._put(state, row, expected, gone, True)[0]
            yield ("the collector marks line {}", row), state._replace(collector=idle, lines=lines)
        else:
            yield ("the collector deletes line {}", row), state._replace(collector=idle, lines=self._delete(state, row))

    # --- the search ---------------------------------------------------------------------------------------------------

    def _older(self, process: Process, tick: int) -> Process:
        """The state after a tick, without the things that are over."""
        if process.up != 1:
            return process
        known = process.member, tick, process.jumped
        older = self._aged.get(known)
        if older is None:
            member = self.members[process.member]
            late = tuple(of for of in member.late if of[1] + self.bounds.call >= tick)
            over = (
                member.until is not None
                and member.until < tick + process.jumped
                and self.rules.running
                and not self.bounds.urgent
            )
            older = self._aged[known] = self._number(evolve(member, late=late, until=None if over else member.until))
        return process if older == process.member else process._replace(member=older)

    def _ticks(self, state: State) -> Iterator[Labelled]:
        tick, bounds = state.tick, self.bounds
        hurried = bounds.urgent and (
            any(
                p.up == 1
                and (
                    p.point in ("read", "find") or (p.point == "on" and tick > (self.members[p.member].until or 0) - 1)
                )
                for p in state.processes
            )
            or (tick >= 1 and any(b.point == "start" for b in state.builders))
        )
        due = any(call[1] == tick for call in state.calls) or any(
            thread[0] == "looked" and thread[3] + bounds.call == tick for p in state.processes for thread in p.threads
        )
        if tick < self._last and not hurried and not due:
            processes = tuple(self._older(p, tick + 1) for p in state.processes)
            yield ("tick {}", tick + 1), state._replace(tick=tick + 1, processes=processes)

    def _steps_of_call(self, at: int, state: State) -> Iterator[Labelled]:
        call = state.calls[at]
        yield from self._lands(state, at)
        if call[3] >= 0 and state.left.unknown:
            yield ("W{}: the outcome of a {} is unknown", call[2], KINDS[call[0]]), self._unknown(state, at)
        if call[3] < 0 and call[1] == state.tick:
            yield ("a late call is lost",), state._replace(calls=(*state.calls[:at], *state.calls[at + 1 :]))

    def _steps_of_process(self, n: int, state: State) -> Iterator[Labelled]:
        process, bounds = state.processes[n], self.bounds
        if process.up == 1:
            yield from self._steps_of(state, n)
        elif (
            process.up == 2
            and state.left.forks
            and state.processes[0].up == 1
            and state.processes[0].point in ("on", "off", "sent")
        ):
            yield ("W0 forks W{}", n), self._forked(state, n)
        if not self.rules.running and state.left.jumps and process.up == 1:
            jumped = process._replace(jumped=process.jumped - bounds.call - 2 * bounds.skew - 1)
            left = state.left._replace(jumps=state.left.jumps - 1)
            yield ("the clock of W{} is set back", n), self._with(state, n, jumped, left=left)

    def _flips(self, state: State) -> Iterator[Labelled]:
        if state.left.flips:
            left = state.left._replace(flips=state.left.flips - 1)
            yield ("the server's clock changes",), state._replace(ahead=self.bounds.skew - state.ahead, left=left)

    def _forked(self, state: State, n: int) -> State:
        """A forked child, which begins without a line. In a mutant, it continues as its parent."""
        left = state.left._replace(forks=state.left.forks - 1)
        child = Process(1, self._number(self._member(n)), "off", self.bounds.puts[n], (("idle", self.bounds.writes),))
        if self.rules.fork == "new":
            return self._with(state, n, child, left=left)
        parent = self.members[state.processes[0].member]
        copied = evolve(parent, calls=(), late=(), sent=None)
        point = "on" if parent.until is not None else "off"
        return self._with(state, n, child._replace(point=point, puts=0), copied, left=left)

    def _actors(self, calls: int) -> tuple[Actor, ...]:
        """All that make steps, in order, while the calls with this number are under way."""
        found = self._actors_of.get(calls)
        if found is None:
            sent = self._states[calls << CALLS].calls
            landing = [self._landing(at, call) for at, call in enumerate(sent) if not at or sent[at - 1] != call]
            found = self._actors_of[calls] = (self._clock, *landing, *self._others)
        return found

    def _ticking(self) -> Actor:
        states = self._states
        builders = states.builders if self.bounds.urgent else ()
        return Actor(self._ticks, _bits(TICK, CALLS, *states.processes, *builders), {})

    def _landing(self, at: int, call: tuple[Any, ...]) -> Actor:
        states = self._states
        told = states.processes[call[2] : call[2] + 1] if call[3] >= 0 else ()
        lands_on = (GONE_ON,) if call[0] == CALL else (AHEAD, states.lines[call[4]])
        # calls with the same position may have what is known in common: the calls are a part that they see
        known = self._landings.setdefault(at, {})
        return Actor(partial(self._steps_of_call, at), _bits(TICK, LEFT, CALLS, *told, *lands_on), known)

    def _working(self, n: int) -> Actor:
        states, count = self._states, len(self.bounds.threads)
        rows, processes = states.lines[n::count], states.processes[n : n + 1]
        if self.bounds.forks:  # a child may have the line of its parent
            rows, processes = states.lines, states.processes
        sees = _bits(TICK, REGISTRY, LEFT, CALLS, *rows, *processes)
        return Actor(partial(self._steps_of_process, n), sees, {})

    def _building(self, n: int) -> Actor:
        states = self._states
        sees = _bits(TICK, AHEAD, REGISTRY, GONE_ON, LEFT, *states.lines, states.builders[n])
        return Actor(partial(self._steps_of_builder, n), sees, {})

    def _collecting(self) -> Actor:
        return Actor(self._steps_of_collector, _bits(TICK, AHEAD, COLLECTOR, *self._states.lines), {})

    def run(self, limit: int | None = None) -> Mapping[str, Any]:
        """Goes through every state: whether all is well, how many states, else what is wrong and the steps that lead
        there.
        """
        limit = self._most if limit is None else limit
        found = self._search(limit, None)
        return found if found["ok"] else self._search(limit, {})

    def _search(self, limit: int | None, parents: dict[int, tuple[int, str]] | None) -> Mapping[str, Any]:
        """States are known by their numbers; `parents` takes the step that leads to each."""
        begin = self._states.number(self._first)
        queue, seen = deque([begin]), {begin}

        def failed(at: int, label: str, error: str) -> Mapping[str, Any]:
            trace = [label]
            while parents is not None and at in parents:
                at, step = parents[at]
                trace.append(step)
            return {"ok": False, "states": len(seen), "error": error, "trace": trace[::-1]}

        actors_of = self._actors_of
        while queue:
            state = queue.popleft()
            moved = False
            calls = state >> CALLS & PART
            try:
                for steps, sees, known in actors_of.get(calls) or self._actors(calls):
                    seen_of_it = state & sees
                    moves = known.get(seen_of_it)
                    if moves is None:
                        moves = known[seen_of_it] = self._moves(steps, seen_of_it)
                    for distance, label in moves:
                        moved = True
                        new = state + distance
                        if new not in seen:
                            seen.add(new)
                            queue.append(new)
                            if parents is not None:
                                parents[new] = (state, label[0].format(*label[1:]))
            except Violation as violation:
                return failed(state, "VIOLATION", str(violation))
            if not moved and any(b.point not in ("done", "dead") for b in self._states[state].builders):
                return failed(state, "STUCK", "a builder never goes on")
            if limit is not None and len(seen) > limit:
                break
        return {"ok": True, "states": len(seen)}

    def _moves(
        self, steps: Callable[[State], Iterator[Labelled]], number: int
    ) -> tuple[tuple[int, tuple[Any, ...]], ...]:
        state, distance = self._states[number], self._states.distance
        return tuple((distance(number, state, after), label) for label, after in steps(state))


def _bits(*places: int) -> int:
    return sum(whole(place) for place in places)


def configurations(
    of: Mapping[str, Bounds], rules: Rules = SHIPPED, names: Sequence[str] = (), most: int | None = None
) -> Iterator[tuple[str, RollModel]]:
    """Models by name, one after the other, each up to a number of states."""
    for name in names or of:
        yield name, RollModel(rules, of[name], most)
