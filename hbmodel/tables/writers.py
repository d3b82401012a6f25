"""Lets operators list the programs on the writers' roll of a table, and forget programs that were killed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from attrs import asdict, evolve, frozen

from hbmodel.errors import DeclarationError, StoreError
from hbmodel.protocol.roll_line_format import RollLine, Writer
from hbmodel.store.checks.numbers import is_finite
from hbmodel.store.port import Store, check_store
from hbmodel.store.values import Put
from hbmodel.tables.indexes.index_work import TIMES, IndexTimes, check_times
from hbmodel.tables.registry.read_roll import ID_LENGTH, LINE, FoundLine, RollLines
from hbmodel.tables.registry.registry_rows import RegistryKey
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry


@frozen
class TableWriter:
    """A program on the writers' roll of a table.

    Attributes:
        table: the table that the program writes.
        family: the default column family of the model with which the program writes.
        kind: the kind of the model, or empty.
        state: `writing` while it may write; `resting` if it has not written for a while; `ended` if none of its calls
            can take effect any more although its line remains (it was killed, or cannot reach HBase); `unknown` if a
            newer version of hbmodel wrote its line.
        host: the name of the program's machine.
        pid: the number of the program's process.
        program: name of the program.
        seen: when the program last put its line, by the server's clock.
        until: the last time at which a call of the program can take effect, including calls that it may send before it
            puts its line again; None if there can be no such call.
        line: the id of its line, in hexadecimal digits.
    """

    table: str
    family: str
    kind: str
    state: Literal["writing", "resting", "ended", "unknown"]
    host: str
    pid: int
    program: str
    seen: datetime
    until: datetime | None
    line: str

    @property
    def as_json(self) -> Mapping[str, Any]:
        """The attributes as JSON values."""
        return {
            **asdict(self),
            "seen": self.seen.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }

    def __str__(self) -> str:
        """Describes the program in one line."""
        who = _described(Writer(self.host, self.pid, self.program))
        until = "" if self.until is None else f", calls until {self.until:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.table}: {who}: {self.state}, seen {self.seen:%Y-%m-%d %H:%M:%S} UTC{until}, line {self.line}"


def table_writers(
    store: Store, table: str, *, times: IndexTimes = TIMES, registry: str = REGISTRY_TABLE
) -> list[TableWriter]:
    """Returns the programs on the writers' roll of a table. These are the programs for which a change of its indexes
    waits, and resting programs.

    If the store checks the registry inside each of its writes, it has no roll, and the list is empty.

    Args:
        store: the store that holds the tables.
        table: name of the table.
        times: the times on which all programs that use the table agree.
        registry: name of the registry table.
    """
    check_store(store)
    check_times(times)
    lines = RollLines(store, registry).of_table(table)
    if not lines:
        return []
    now = Registry(store, registry).server_time()
    return [_writer(RegistryKey.of_row(table, row), line, now, times.drain.skew) for row, line in lines]


_UNCLEAR = (
    "Name exactly one line of the table's writers' roll, by its id or as HOST:PID: `hbmodel writers TABLE` shows both. "
    "`found` lists the lines that match."
)
_NEWER = "A newer version of hbmodel wrote this line of the writers' roll: forget it with that version."
_MAY_LIVE = (
    "The program may still be running: it has renewed its line on the writers' roll lately. If you are certain that "
    "it has ended, give the number of seconds since then: dead_for=... (--dead-for on the command line)."
)
_MAY_SEND = (
    "The lease of the program has ended, but the program may still be running, and may send a call that it began "
    "before. If you are certain that it has ended, give the number of seconds since then: dead_for=... (--dead-for on "
    "the command line). Only then can longest_call shorten the wait."
)
_PUT_SINCE = (
    "The program has put its line on the writers' roll since the time at which it is said to have been dead. Nothing "
    "was changed."
)
_RENEWED = "The program has put its line on the writers' roll in the meantime, so it is alive. Nothing was changed."
_ON_ITS_WAY = (
    "A request that the program sent may still be carried out, so its line on the writers' roll must stay. `reason` "
    "says for how long. If you are certain that the program's gateway gives up calls earlier, give "
    "longest_call=... (--longest-call on the command line) to shorten this time."
)


def forget_writer(
    store: Store,
    table: str,
    writer: str,
    *,
    dead_for: float | None = None,
    longest_call: float | None = None,
    times: IndexTimes = TIMES,
    registry: str = REGISTRY_TABLE,
) -> TableWriter:
    """Marks the line of a program that was killed as gone, so that no build, drop, `hb.alter` or migration waits for
    the program.

    A line may be forgotten only when no request of the program can be carried out any more. The gateway may carry out a
    request even if the program that sent it is dead. So by default, this function is refused until the time of the
    longest call in the program's line (20 minutes by default) has passed since its last request. A call that comes
    after this time saves at most the rest of the program's lease. Two arguments shorten the time, but hbmodel cannot
    check them. If one of them is wrong, a row that the program writes later may be missing in an index or in the new
    table:

    - `dead_for`: the program ended at least this long ago. Without this argument, the program counts as alive until its
      lease ends.
    - `longest_call`: each request of the program is carried out within this time after it was sent, or not at all,
      because its gateway gives up calls earlier than the program's line says. If the program was writing, `dead_for` is
      needed too, because a suspended program could send a call much later.

    The clock bound, `times.clock_bound`, is always added. If no change waits for the program any more, the call changes
    nothing.

    Args:
        store: the store that holds the tables.
        table: name of the table.
        writer: the program's line, given by its id, as in `TableWriter.line`, or as `HOST:PID` if only one line has
            this host and process.
        dead_for: the number of seconds for which the program has certainly been dead.
        longest_call: the maximum duration of a call of the program, in seconds: its gateway's
            `hbase.client.operation.timeout`, plus the time for the look-up of a region. The time in the program's line
            is used instead if it is shorter, or if this is None.
        times: the times on which all programs that use the table agree.
        registry: name of the registry table.

    Returns:
        The program as it is listed from now on.

    Raises:
        DeclarationError: no line, or more than one line, matches `writer`; or an argument has a value that cannot be
            used.
        StoreError: the program may be alive, or a request of the program may still be carried out. `process` describes
            the program, and `reason` says how long requests may still be carried out.
    """
    check_store(store)
    check_times(times)
    for option, seconds in {"dead_for": dead_for, "longest_call": longest_call}.items():
        if seconds is not None and (not is_finite(seconds) or seconds < 0):
            raise DeclarationError("Give a number of seconds, at least 0.", option=option, found=repr(seconds))
    lines, catalog = RollLines(store, registry).of_table(table), Registry(store, registry)
    now, skew = catalog.server_time() if lines else 0, times.drain.skew
    row, found = _the_line(table, writer, lines, now, skew)
    place, line = RegistryKey.of_row(table, row), found.line
    if line is None:
        raise StoreError(_NEWER, table=table, found=writer)
    if line.over(found.stamp, now, skew):
        return _writer(place, found, now, skew)
    who = _described(line.writer)
    dead_since = None if dead_for is None else now - round(1000 * dead_for)
    if dead_since is not None and found.stamp > dead_since + skew:
        raise StoreError(_PUT_SINCE, table=table, process=who)
    shorter = None if longest_call is None else round(1000 * longest_call)
    if line.kind == "on" and dead_since is None:
        if now <= found.stamp + line.lease + skew:
            raise StoreError(_MAY_LIVE, table=table, process=who)
        if shorter is not None and shorter < line.longest_call:
            raise StoreError(_MAY_SEND, table=table, process=who)
    until = _carried_out(found, line, dead_since, shorter) + skew
    if now <= until:
        reason = f"for another {(until - now) // 1000 + 1} s, until {_moment(until):%Y-%m-%d %H:%M:%S} UTC"
        raise StoreError(_ON_ITS_WAY, table=table, process=who, reason=reason)
    gone = evolve(line, kind="gone", late=())
    if not store.check_and_put(registry, found.key, LINE, found.value, Put(found.key, {LINE: gone.encode()})):
        raise StoreError(_RENEWED, table=table, process=who)
    return _writer(place, evolve(found, line=gone), now, skew)


def _the_line(
    table: str, writer: str, lines: Iterable[tuple[bytes, FoundLine]], now: int, skew: int
) -> tuple[bytes, FoundLine]:
    """Returns the line with this id, or the only line of `HOST:PID`. Lines that are gone are considered only if there
    are no other lines.

    Raises `DeclarationError` if there is no such line, or more than one.
    """
    named = [(row, found) for row, found in lines if writer in {_id(found), _host_and_pid(found)}]
    named = [(row, found) for row, found in named if found.line is None or found.line.kind != "gone"] or named
    if len(named) != 1:
        shown = [str(_writer(RegistryKey.of_row(table, row), found, now, skew)) for row, found in named]
        raise DeclarationError(_UNCLEAR, table=table, option="writer", value=repr(writer), found=shown)
    return named[0]


def _id(found: FoundLine) -> str:
    return found.key[-ID_LENGTH:].hex()


def _host_and_pid(found: FoundLine) -> str | None:
    return None if found.line is None else f"{found.line.writer.host}:{found.line.writer.pid}"


def _carried_out(found: FoundLine, line: RollLine, dead_since: int | None, longest_call: int | None) -> int:
    """Returns the last time at which a request of a program may be carried out, in ms by the server's clock. The clock
    bound is not included.

    Args:
        dead_since: when the program had certainly ended, in ms by the server's clock.
        longest_call: the maximum duration of a call of the program, in ms, if a better value than the one in its line
            is known.
    """
    longest = line.longest_call if longest_call is None else min(line.longest_call, longest_call)
    ends = [found.stamp + late.left - (line.longest_call - longest) for late in line.late]
    if line.kind == "on":
        last = found.stamp + line.lease
        ends.append((last if dead_since is None else min(last, dead_since)) + longest)
    return max(ends)


def _described(writer: Writer) -> str:
    return f"{writer.program or '?'}, process {writer.pid} on {writer.host or '?'}"


def _writer(place: RegistryKey, found_line: FoundLine, now: int, skew: int) -> TableWriter:
    family, kind, seen, line = (
        place.family.decode(),
        place.kind.decode("latin-1"),
        _moment(found_line.stamp),
        found_line.line,
    )
    if line is None:
        return TableWriter(place.table, family, kind, "unknown", "", 0, "", seen, None, _id(found_line))
    until = line.waits_until(found_line.stamp, skew)
    over = until is None or now > until
    state: Literal["writing", "resting", "ended"] = "resting" if line.kind == "rest" else "ended" if over else "writing"
    writer = line.writer
    return TableWriter(
        place.table,
        family,
        kind,
        state,
        writer.host,
        writer.pid,
        writer.program,
        seen,
        None if until is None or over else _moment(until),
        _id(found_line),
    )


def _moment(ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # the time in a damaged line is too far away
        return datetime.max.replace(tzinfo=UTC)
