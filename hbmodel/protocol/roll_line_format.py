"""The writers' roll: lines in which programs record which state of the registry their writes follow, and until when.

A program that writes a table keeps one line on the roll for each row of the registry that its writes depend on. The
line records how long the program may write, and the oldest state that its writes may follow. A program that changes the
state reads the lines, and waits only for the programs whose writes may still follow an earlier state.

The following rules are easy to break, and then writes are lost:

- A lease begins, or is extended, with a put of the line. The registry is read after the put was answered or the line
  was found on the roll.
- A lease counts from a time before the put was sent, on a monotonic clock that continues while the machine sleeps.
- A line is put under the condition that the roll still has the line that the program has put before. If the answer is
  lost, the line is read.
- An id is used only once. A program whose line is gone continues with another id.
- A line names the oldest state on which a call in progress relies. The line is put again when that call is answered.
- A call whose outcome is unknown may rely on an earlier state than the line names. The line lists such a call until the
  call can no longer take effect.
- A line is put at rest, or deleted, only when no call is in progress and no more calls can begin.

The idea comes from F1, in which each server has a lease on its schema (Rae et al., Online, Asynchronous Schema Change
in F1, 2013), and from TiDB, in which each server reports the version of the schema that it has loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, Self

from attrs import evolve, frozen

Kind = Literal["on", "rest", "gone"]

KINDS: tuple[Kind, ...] = ("on", "rest", "gone")

FORM = 1
"""The form of a line. A line of another form is treated as if it covered calls of any state."""

UNKNOWN = -1
"""The revision of a cell that is not listed. It is older than all other revisions."""


@frozen
class Revisions:
    """The revision of each cell of a registry row. Every change of a cell increases its revision.

    Attributes:
        cells: names of cells and their revisions, sorted. A cell that is not listed has the revision `UNKNOWN`.
    """

    cells: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, revisions: Mapping[str, int]) -> Revisions:
        """Returns the revisions in a mapping from names of cells to revisions."""
        return cls(tuple(sorted(revisions.items())))

    def at(self, cell: str) -> int:
        """Returns the revision of one cell."""
        return next((revision for name, revision in self.cells if name == cell), UNKNOWN)

    def lowest(self, other: Revisions) -> Revisions:
        """Returns, for each cell that both list, the lower of its two revisions."""
        if self.cells == other.cells:
            return self
        other_revisions = dict(other.cells)
        return Revisions(
            tuple(
                (name, min(revision, other_revisions[name])) for name, revision in self.cells if name in other_revisions
            )
        )

    def reach(self, other: Revisions) -> bool:
        """Returns whether no cell has an older revision here than in `other`."""
        return all(self.at(name) >= revision for name, revision in other.cells)


NOTHING = Revisions()


@frozen
class LateCalls:
    """Calls whose outcome is unknown, and that may still take effect.

    Attributes:
        revisions: the revisions of the state under which the calls were sent.
        left: how long the calls may still take effect, in ms from the time of the line.
    """

    revisions: Revisions
    left: int


@frozen
class Writer:
    """The program that a line belongs to, described for people."""

    host: str = ""
    pid: int = 0
    program: str = ""


@frozen
class RollLine:
    """One program's line. The time of a line is the timestamp of its cell, which the server gave.

    Attributes:
        sequence: a number that increases with each put of the line.
        kind: `on` while the program may write, `rest` while it may not, `gone` once another program has found that the
            line has ended. A line that is gone is not used again.
        revisions: the revisions of the oldest state that the program's writes may follow.
        lease: how long the program may begin calls, in ms from the time of the line.
        longest_call: the maximum duration of a call, in ms.
        late: the calls of unknown outcome that were sent under an earlier state than `revisions`; in a line at rest,
            all calls of unknown outcome.
    """

    sequence: int
    kind: Kind
    revisions: Revisions
    lease: int
    longest_call: int
    late: tuple[LateCalls, ...] = ()
    writer: Writer = Writer()

    def encode(self) -> bytes:
        """Returns the value of the line's cell, as JSON."""
        value: dict[str, Any] = {
            "form": FORM,
            "sequence": self.sequence,
            "kind": self.kind,
            "revisions": dict(self.revisions.cells),
            "lease": self.lease,
            "longest_call": self.longest_call,
            "late": [[dict(late.revisions.cells), late.left] for late in self.late],
            "host": self.writer.host,
            "pid": self.writer.pid,
            "program": self.writer.program,
        }
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> RollLine | None:
        """Returns the line in the value of a cell, or None for a line of another form."""
        try:
            fields = json.loads(value)
            if fields["form"] != FORM or fields["kind"] not in KINDS:
                return None
            return cls(
                int(fields["sequence"]),
                fields["kind"],
                _revisions(fields["revisions"]),
                int(fields["lease"]),
                int(fields["longest_call"]),
                tuple(LateCalls(_revisions(revisions), int(left)) for revisions, left in fields["late"]),
                Writer(str(fields["host"]), int(fields["pid"]), str(fields["program"])),
            )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None

    def ends(self, stamp: int, skew: int) -> int:
        """Returns the last time, by the server's clock in ms, at which a call that the line covers may take effect."""
        return stamp + self.lease + self.longest_call + skew

    def waits_until(self, stamp: int, skew: int, cell: str | None = None, revision: int = UNKNOWN) -> int | None:
        """Returns the time until which the line covers calls of older states, in ms by the server's clock, or None if
        it covers no such call.

        Args:
            cell: the cell that has changed; with None, calls of any state count.
            revision: the revision of the cell since the change.
        """
        if self.kind == "gone":
            return None
        late = [
            stamp + late_calls.left + skew
            for late_calls in self.late
            if cell is None or late_calls.revisions.at(cell) < revision
        ]
        if self.kind == "on" and (cell is None or self.revisions.at(cell) < revision):
            late.append(self.ends(stamp, skew))
        return max(late, default=None)

    def over(self, stamp: int, now: int, skew: int, cell: str | None = None, revision: int = UNKNOWN) -> bool:
        """Returns whether no call of an older state can take effect any more. `now` is the server's time in ms; the
        other arguments are as for `waits_until`.
        """
        until = self.waits_until(stamp, skew, cell, revision)
        return until is None or now > until


def _revisions(decoded: Any) -> Revisions:
    return Revisions.of({str(name): int(revision) for name, revision in decoded.items()})


@frozen
class SentLine:
    """A put of the program's line whose outcome is not known yet.

    Attributes:
        since: when the put was begun, in ms on the monotonic clock.
    """

    line: RollLine
    since: int


@frozen
class Member:
    """The state of a program on the roll, for one row of the registry.

    A method that reports an event returns the member after the event. Times are in ms on a monotonic clock that
    continues while the machine sleeps.

    Attributes:
        id: the id of the program's line. An id is used only once.
        lease: the duration of a lease.
        longest_call: the maximum duration of a call.
        sequence: the sequence of the last line that was sent.
        held: the line that is known to be on the roll, or None.
        newest: the revisions of the newest state that the program has read; None before the first read with this id.
        until: the end of the lease; None if there is no lease.
        calls: for each call in progress, the state on which it relies.
        late: the states on which calls of unknown outcome rely, each with the time when such a call was last sent.
        sent: the put that is not settled, or None.
    """

    id: bytes
    lease: int
    longest_call: int
    writer: Writer = Writer()
    sequence: int = 0
    held: RollLine | None = None
    newest: Revisions | None = None
    until: int | None = None
    calls: tuple[Revisions, ...] = ()
    late: tuple[tuple[Revisions, int], ...] = ()
    sent: SentLine | None = None

    def may_call(self, now: int) -> bool:
        """Returns whether a call that changes something may be sent. With a lease of length 0, this is never
        allowed.
        """
        return self.until is not None and now <= self.until and self.lease > 0

    @property
    def oldest(self) -> Revisions:
        """The oldest state on which a call in progress, or a call that may still begin, relies."""
        oldest = NOTHING if self.newest is None else self.newest
        for revisions in self.calls:
            oldest = oldest.lowest(revisions)
        return oldest

    @property
    def behind(self) -> bool:
        """Whether the state in the line on the roll is older than the oldest state in use."""
        return self.held is not None and self.held.kind == "on" and self.held.revisions != self.oldest

    # --- calls --------------------------------------------------------------------------------------------------------

    def began(self) -> Member:
        """Reports that a call begins that relies on the newest state. `may_call` must be true in the same step."""
        assert self.newest is not None, "a lease begins with a read"
        return self._with_calls((*self.calls, self.newest), self.late)

    def ended(self, revisions: Revisions, now: int, *, unknown: bool) -> Member:
        """Reports that a call that relied on this state was answered, or that the program no longer waits for it."""
        calls = list(self.calls)
        calls.remove(revisions)
        late = self.late
        if late or unknown:
            late = tuple(
                (call_revisions, sent)
                for call_revisions, sent in late
                if sent + self.longest_call >= now and not (unknown and call_revisions == revisions)
            )
            late = (*late, (revisions, now)) if unknown else late
        return self._with_calls(tuple(calls), late)

    def _with_calls(self, calls: tuple[Revisions, ...], late: tuple[tuple[Revisions, int], ...]) -> Self:
        """Returns the member with these calls. It does not use `evolve`, which is slower, because each write calls this
        twice.
        """
        return type(self)(
            self.id,
            self.lease,
            self.longest_call,
            self.writer,
            self.sequence,
            self.held,
            self.newest,
            self.until,
            calls,
            late,
            self.sent,
        )

    # --- the line -----------------------------------------------------------------------------------------------------

    def put(self, now: int, kind: Kind = "on") -> Member:
        """Reports that a put of the program's line is sent, under the condition that `held` is on the roll.

        If the kind is `rest`, no call may be in progress, and no call begins after it.
        """
        oldest, late = self.oldest, dict[Revisions, int]()
        for revisions, sent in self.late:
            left = sent + self.longest_call - now
            if left >= 0 and (kind == "rest" or not revisions.reach(oldest)):
                late[revisions] = max(left, late.get(revisions, 0))
        listed = tuple(LateCalls(revisions, late[revisions]) for revisions in sorted(late, key=lambda each: each.cells))
        line = RollLine(self.sequence + 1, kind, oldest, self.lease, self.longest_call, listed, self.writer)
        return evolve(
            self, sequence=line.sequence, sent=SentLine(line, now), until=None if kind == "rest" else self.until
        )

    def answered(self) -> Member:
        """Reports that the put was carried out. The registry is read next, unless the line is at rest."""
        assert self.sent is not None, "nothing was sent"
        return evolve(self, held=self.sent.line, sent=None if self.sent.line.kind == "rest" else self.sent)

    def found(self, line: RollLine | None, new_id: bytes) -> Member:
        """Reports that the program's line was read after a put that was refused or not answered.

        If the line is absent, or its kind is `gone`, the program continues with the new id.
        """
        assert self.sent is not None, "nothing was sent"
        if line is None or line.kind == "gone":
            return self.renewed(new_id)
        return self.answered() if line == self.sent.line else evolve(self, held=line, sent=None)

    def read(self, revisions: Revisions) -> Member:
        """Reports that the registry was read after the put was carried out. A lease has begun, at the time of the
        put.
        """
        assert self.sent is not None, "nothing was sent"
        return evolve(self, newest=revisions, until=self.sent.since + self.lease, sent=None)

    def saw(self, revisions: Revisions) -> Member:
        """Reports that the registry was read for other reasons. The lease does not change."""
        return evolve(self, newest=revisions)

    def renewed(self, new_id: bytes) -> Member:
        """Reports that the program continues with another id, because its line is gone or is being deleted."""
        return evolve(self, id=new_id, held=None, newest=None, until=None, sent=None)

    def may_end(self, now: int) -> bool:
        """Returns whether the line may be deleted: no call is in progress, and no earlier call can still take
        effect.
        """
        return not self.calls and all(sent + self.longest_call < now for _, sent in self.late)
