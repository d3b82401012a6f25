"""Work on a table that several programs share: they claim key ranges in the registry, and record the progress of each
range there.

Each piece of work has one row in the registry: row key 01 `<table>` 00 `<family>` 00 `<index>` 00 `<work>`. `m:ranges`
holds the ranges, and `m:r<number>` the state of each range: who has claimed it and until when, the next row, and the
counts. If the work is begun again, `m:ranges` contains the number of the attempt, and the states of the ranges are in
`m:r<number>.<attempt>`. Every change is a check-and-put against the value that was read. If a program crashes, its
claim expires, and another program continues from the last checkpoint of the range; only the work since then is lost.

The online index builds of the FoundationDB Record Layer use the same technique (range sets).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import define, field, frozen

from hbmodel.errors import TableNotFound, UnknownOutcome
from hbmodel.store.jitter import jitter
from hbmodel.store.port import Store
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Delete, Put
from hbmodel.tables.indexes.index_report import SAMPLES
from hbmodel.tables.registry.entry_shape import check_plan_shape, check_state_shape, work_of
from hbmodel.tables.registry.layout_differences import canonical_json

FAMILY = b"m"
RANGES = b"m:ranges"
LOOK = 1.0
"""The number of seconds between two checks of the progress of other programs."""

CLAIM_LIFE = 60.0
"""For this many seconds after its last checkpoint, a range belongs to the program that claimed it."""


@frozen
class Counts:
    """The counts of one range or of all ranges.

    Attributes:
        rows: the number of rows that are objects.
        adopted: rows that got system cells.
        missing: entries that were missing.
        refused: rows for which no entries can be made.
        samples: some of the refused rows, as (row key in hex, reason).
        duplicates: rows whose value in a unique index is held by another row.
        duplicated: some of the duplicates, as (value, row key in hex, row key of the other row in hex).
    """

    rows: int = 0
    entries: int = 0
    adopted: int = 0
    missing: int = 0
    refused: int = 0
    samples: Sequence[Sequence[str]] = ()
    duplicates: int = 0
    duplicated: Sequence[Sequence[str]] = ()

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.rows + other.rows,
            self.entries + other.entries,
            self.adopted + other.adopted,
            self.missing + other.missing,
            self.refused + other.refused,
            tuple([*self.samples, *other.samples][:SAMPLES]),
            self.duplicates + other.duplicates,
            tuple([*self.duplicated, *other.duplicated][:SAMPLES]),
        )

    @property
    def unfinished(self) -> bool:
        """Whether there are rows for which the index cannot be completed."""
        return bool(self.refused or self.duplicates)

    @property
    def as_json(self) -> Mapping[str, Any]:
        """The counts in the form in which they are stored in the registry."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return {**numbers, **{name: [list(sample) for sample in getattr(self, name)] for name in _LISTS}}

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Counts:
        """Reads what `as_json` returned. Additions by a newer version are ignored."""
        counts: dict[str, Any] = {name: int(data.get(name, 0)) for name in _NUMBERS}
        counts |= {name: tuple(tuple(sample) for sample in data.get(name, ())) for name in _LISTS}
        return cls(**counts)


_NUMBERS = ("rows", "entries", "adopted", "missing", "refused", "duplicates")
_LISTS = ("samples", "duplicated")


class ClaimLost(Exception):
    """Raised if another program has taken the range in the meantime. The work that this program has already done in the
    range is harmless.
    """


@define
class RangeClaim:
    """A range that this program works on.

    Attributes:
        range: the part of the range that must still be done.
        counts: the counts of this range, from all programs that worked on it.
    """

    range: KeyRange
    counts: Counts
    _claims: SharedRanges
    _column: bytes
    _held: bytes

    def advance(self, start: bytes, counts: Counts) -> None:
        """Records that all rows before `start` are done, and renews this program's claim on the range.

        Raises `ClaimLost` if another program has taken the range.
        """
        self.range = KeyRange(start, self.range.stop)
        self.counts += counts
        self._write(done=False)

    def finish(self, counts: Counts) -> None:
        """Records that the range is done. Raises `ClaimLost` if another program has taken the range."""
        self.counts += counts
        self._write(done=True)

    def _write(self, *, done: bool) -> None:
        self._held = self._claims.write(self._column, self._held, self.range.start, self.counts, done)


@frozen
class Progress:
    """The progress of a piece of work.

    Attributes:
        ranges: how many ranges there are.
        done: how many of the ranges are done.
        counts: the sum of the counts of all ranges.
        free_at: if all unfinished ranges are taken, when the next claim expires, in ms by the server's clock; otherwise
            0.
        plan: the value of the cell `m:ranges`.
    """

    ranges: int
    done: int
    counts: Counts
    free_at: int = 0
    plan: bytes = b""


@define(eq=False)
class SharedRanges:
    """The ranges of one piece of work.

    Attributes:
        row: the registry's row for this work.
        now: returns the server's time in ms.
        life: how long a claim lasts without a checkpoint, in ms.
        owner: a value that identifies this program.
    """

    store: Store
    registry: str
    row: bytes
    now: Callable[[], int]
    life: int = round(CLAIM_LIFE * 1000)
    owner: str = field(factory=lambda: os.urandom(8).hex())

    def begin(self, ranges: Sequence[KeyRange]) -> None:
        """Writes the ranges to the registry. If another program has already written ranges, those are used."""
        self._plan(None, ranges, 0)

    def begin_again(self, progress: Progress, ranges: Sequence[KeyRange]) -> None:
        """Writes the ranges of a new attempt to the registry, unless another program has begun an attempt since
        `progress` was read.
        """
        self._plan(progress.plan, ranges, self._planned({RANGES: progress.plan})[1] + 1)

    def _plan(self, current: bytes | None, ranges: Sequence[KeyRange], attempt: int) -> None:
        spans = [[r.start.hex(), None if r.stop is None else r.stop.hex()] for r in ranges]
        plan = canonical_json({"ranges": spans, "attempt": attempt})
        with suppress(UnknownOutcome):  # the cell is read again later
            self.store.check_and_put(self.registry, self.row, RANGES, current, Put(self.row, {RANGES: plan}))

    def forget(self) -> None:
        """Deletes the plan and the progress of the work from the registry."""
        self.store.delete(self.registry, [Delete(self.row, families=(FAMILY,))])

    def progress(self) -> Progress | None:
        """Returns the progress of the work, or None if no program has started it."""
        cells = self._cells()
        if RANGES not in cells:
            return None
        ranges, attempt = self._planned(cells)
        states = [self._state(cells.get(_column(number, attempt))) for number in range(len(ranges))]
        total = Counts()
        for state in states:
            total += Counts.of_json(state)
        open_ones = [int(state.get("until", 0)) for state in states if not state.get("done")]
        now = self.now()
        taken = bool(open_ones) and all(until > now for until in open_ones)
        return Progress(len(ranges), len(states) - len(open_ones), total, min(open_ones) if taken else 0, cells[RANGES])

    def take(self) -> RangeClaim | None:
        """Claims a range on which no program works. Returns None if there is no such range.

        The search starts at a random range, so that two programs seldom choose the same range.
        """
        cells = self._cells()
        ranges, attempt = self._planned(cells)
        now = self.now()
        first = jitter.randrange(len(ranges)) if ranges else 0
        for number in (*range(first, len(ranges)), *range(first)):
            column = _column(number, attempt)
            current = cells.get(column)
            state = self._state(current)
            if state.get("done") or int(state.get("until", 0)) > now:
                continue
            span = ranges[number]
            at, counts = bytes.fromhex(state["at"]) if "at" in state else span.start, Counts.of_json(state)
            try:
                taken = self.write(column, current, at, counts, False)
            except ClaimLost:
                continue
            return RangeClaim(KeyRange(at, span.stop), counts, self, column, taken)
        return None

    def work_off(
        self,
        ranges: Callable[[], Sequence[KeyRange]],
        goes_on: Callable[[Progress | None], bool],
        through: Callable[[RangeClaim, Progress], None],
    ) -> None:
        """Works on the ranges until all of them are done. Other programs may work on them at the same time.

        Args:
            ranges: returns the ranges into which the work is divided, if no program has begun the work.
            goes_on: called before each step with the progress, or with None if no program has begun the work; returns
                whether to continue.
            through: works on one range until it is done. If it raises `ClaimLost`, the range is left to another
                program.
        """
        while goes_on(progress := self.progress()):
            if progress is None:
                self.begin(ranges())
            elif progress.done == progress.ranges:
                return
            elif (claim := self.take()) is None:
                time.sleep(min(LOOK, max(0.0, progress.free_at - self.now()) / 1000 + 0.01))
            else:
                with suppress(ClaimLost):
                    through(claim, progress)

    def write(self, column: bytes, current: bytes | None, at: bytes, counts: Counts, done: bool) -> bytes:
        """Changes the state of a range. Raises `ClaimLost` if the state is no longer `current`."""
        until = self.now() + self.life
        value = canonical_json({**counts.as_json, "at": at.hex(), "owner": self.owner, "until": until, "done": done})
        with suppress(UnknownOutcome):
            if self.store.check_and_put(self.registry, self.row, column, current, Put(self.row, {column: value})):
                return value
        if self._cells().get(column) == value:
            return value
        raise ClaimLost

    def _planned(self, cells: Mapping[bytes, bytes]) -> tuple[list[KeyRange], int]:
        """Returns the ranges, and how many times the work was restarted."""
        if RANGES not in cells:
            return [], 0
        with work_of(self.row, self.registry):
            check_plan_shape(plan := json.loads(cells[RANGES]))
            spans = [
                (bytes.fromhex(start), None if stop is None else bytes.fromhex(stop)) for start, stop in plan["ranges"]
            ]
            return [KeyRange(start, stop) for start, stop in spans], plan.get("attempt", 0)

    def _state(self, cell: bytes | None) -> Mapping[str, Any]:
        with work_of(self.row, self.registry):
            state: Mapping[str, Any] = json.loads(cell) if cell else {}
            check_state_shape(state)
            return state

    def _cells(self) -> Mapping[bytes, bytes]:
        try:
            (row,) = self.store.get(self.registry, [self.row], [FAMILY])
        except TableNotFound:
            return {}
        return {} if row is None else {column: cell.value for column, cell in row.columns.items()}


WORK = ("building", "verifying")
"""The names of the two steps of a build."""


def work_row(registry_row: bytes, index: str, work: str) -> bytes:
    """Returns the key of the registry's row for a piece of work on an index. `registry_row` is the key of the model's
    row.
    """
    return b"\x01" + registry_row + b"\x00" + index.encode() + b"\x00" + work.encode()


def _column(number: int, attempt: int) -> bytes:
    return b"m:r%d.%d" % (number, attempt) if attempt else b"m:r%d" % number
