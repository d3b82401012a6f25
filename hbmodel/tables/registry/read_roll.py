"""Reads the lines of the writers' roll in the registry, and finds those for which a change of the state must wait.

Row key of a line: 02 `<row of the registry>` 00 `<id>`, with an id of 16 random bytes. `m:w` holds the line as JSON,
see `protocol.writers_roll`. `m:roll` in the row of a model records the time since which every program that writes its
table has been on the roll.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from attrs import evolve, frozen

from hbmodel.errors import TableNotFound, UnknownOutcome
from hbmodel.protocol.roll_line_format import Revisions, RollLine, Writer
from hbmodel.store.port import Store
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Delete, Put, Row, Scan

FAMILY = b"m"
LINE = b"m:w"
LISTED = b"m:roll"
STATE_CELLS = (b"m:rows", b"m:move")
INDEX_CELLS = b"m:i."
ID_LENGTH = 16

FROM_THE_START = b'"new"'
"""The value of `m:roll` if the table was created together with its entry, so that no program has written it before."""

MARKED = b'"marked"'
"""The value of `m:roll` if programs with an older version may have written the table before the time of this cell."""


def revisions_of(cells: Mapping[bytes, bytes]) -> Revisions:
    """Returns the revisions of the cells of a registry row that determine how a table is written. A cell that has never
    been changed has the revision 0.
    """
    revisions: dict[str, int] = {}
    for column, value in cells.items():
        if value and (column in STATE_CELLS or column.startswith(INDEX_CELLS)):
            revisions[column.decode()] = revision_of(value)
    return Revisions.of(revisions)


def revision_of(value: bytes | None) -> int:
    """Returns the revision in the value of a cell, or 0."""
    with suppress(ValueError, TypeError, AttributeError):
        return int(json.loads(value or b"{}").get("revision", 0))
    return 0


def listed_since(row: Row) -> int | None:
    """Returns the time since which every program that writes a table has been on the roll, in ms by the server's clock.

    The time is 0 if they always have been, and None if it is not known.
    """
    cell = row.columns.get(LISTED)
    if cell is None or not cell.value:
        return None
    return 0 if cell.value == FROM_THE_START else cell.timestamp


def next_revision(value: bytes | None, now: int) -> int:
    """Returns the revision of a cell after a change. It is higher than the former revision, and at least `now`. So if a
    table is dropped and created again, its revisions are higher than before.

    Args:
        value: the value of the cell, or None.
        now: this machine's clock in ms.
    """
    return max(revision_of(value) + 1, now)


def line_key(row: bytes, id_: bytes) -> bytes:
    """Returns the row key of a line that belongs to a row of the registry."""
    return b"\x02" + row + b"\x00" + id_


def new_id() -> bytes:
    """Returns an id that no line has had."""
    return os.urandom(ID_LENGTH)


@frozen
class FoundLine:
    """A line as it was read.

    Attributes:
        stamp: when the line was put, in ms by the server's clock.
        line: the decoded line; None if the bytes have an unknown form.
    """

    key: bytes
    stamp: int
    value: bytes
    line: RollLine | None


@frozen
class WaitedFor:
    """A program for which a change of the registry waits.

    Attributes:
        seen: when the program last put its line, in ms by the server's clock.
        until: the last time at which it may still write according to an earlier state, in ms by the server's clock.
        late: whether the change waits for calls whose outcome the program does not know.
    """

    writer: Writer
    seen: int
    until: int
    late: bool = False

    def described(self, now: int) -> str:
        """Returns one line of text with the program and the longest duration of the wait. `now` is the server's time in
        ms.
        """
        who = (
            f"{self.writer.program or 'a program'}, process {self.writer.pid} on "
            f"{self.writer.host or 'an unknown host'}"
        )
        status = (
            "has calls of unknown outcome" if self.late else f"last seen {max(0, now - self.seen) / 1000:.0f} s ago"
        )
        return f"{who}: {status}; at most {max(0, self.until - now) / 1000:.0f} s"


@frozen
class RollLines:
    """Reads, marks and deletes lines."""

    store: Store
    registry: str

    def of_row(self, row: bytes) -> list[FoundLine]:
        """Returns the lines of a row of the registry, in the order of their ids."""
        length = len(line_key(row, b"")) + ID_LENGTH
        return [line for line in self._lines(KeyRange.prefix(line_key(row, b""))) if len(line.key) == length]

    def of_table(self, table: str) -> list[tuple[bytes, FoundLine]]:
        """Returns the lines of all models of a table, each with the row of the registry to which it belongs."""
        prefix = b"\x02" + table.encode() + b"\x00"
        return [(line.key[1 : -ID_LENGTH - 1], line) for line in self._lines(KeyRange.prefix(prefix))]

    def _lines(self, key_range: KeyRange) -> Iterator[FoundLine]:
        try:
            (batches,) = self.store.scan(self.registry, [Scan(key_range, columns=(LINE,))])
            for batch in batches:
                for row in batch:
                    cell = row.columns[LINE]
                    yield FoundLine(row.row, cell.timestamp, cell.value, RollLine.decode(cell.value))
        except TableNotFound:
            return

    def waits(self, row: bytes, cell: bytes, revision: int, now: int, unread: int, skew: int) -> list[WaitedFor]:
        """Returns the programs that may still write according to the state before a change. Marks lines that have ended
        as gone, and later deletes them.

        Args:
            cell: the cell of the row that was changed. The caller must already have read the change.
            revision: the revision of the cell since the change.
            now: the server's time, in ms.
            unread: for how long a line of an unknown form is regarded as valid, in ms.
            skew: how far two servers' clocks may differ, in ms.
        """
        waited_for: list[WaitedFor] = []
        for each in self.of_row(row):
            if each.line is None:
                if now <= each.stamp + unread + skew:
                    waited_for.append(WaitedFor(Writer(), each.stamp, each.stamp + unread + skew))
                continue
            if each.line.over(each.stamp, now, skew):
                self._collect(each, now, unread, skew)
                continue
            until = each.line.waits_until(each.stamp, skew, cell.decode(), revision)
            if until is not None and now <= until:
                older = each.line.kind == "on" and each.line.revisions.at(cell.decode()) < revision
                waited_for.append(WaitedFor(each.line.writer, each.stamp, until, late=not older))
        return waited_for

    def _collect(self, found_line: FoundLine, now: int, unread: int, skew: int) -> None:
        """Marks a line that has ended as gone, unless it has changed since it was read. Deletes the line when no late
        put of it can arrive any more.
        """
        assert found_line.line is not None, "a line of another form is left alone"
        if found_line.line.kind == "gone":
            if now > found_line.stamp + unread + skew:
                self.store.delete(self.registry, [Delete(found_line.key, families=(FAMILY,))])
        elif found_line.line.kind == "on" or now > found_line.stamp + unread + skew:
            gone = evolve(found_line.line, kind="gone", late=()).encode()
            with suppress(UnknownOutcome):  # the next call tries again
                self.store.check_and_put(
                    self.registry, found_line.key, LINE, found_line.value, Put(found_line.key, {LINE: gone})
                )
