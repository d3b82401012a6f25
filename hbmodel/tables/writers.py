"""Lists the programs on the writers' roll of a table, for operators."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from attrs import asdict, frozen

from hbmodel.store.port import Store, check_store
from hbmodel.tables.indexes.index_work import TIMES, IndexTimes, check_times
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry, RegistryKey
from hbmodel.tables.registry.roll_lines import FoundLine, RollLines


@frozen
class TableWriter:
    """A program on the writers' roll of a table.

    Attributes:
        table: the table that it writes.
        family: the default column family of the model with which it writes.
        kind: the kind of the model, or empty.
        state: `writing` while it may write; `resting` if it has not written for a while; `ended` if none of its calls
            can take effect any more although its line remains (it was killed, or cannot reach HBase); `unknown` if a
            newer version of this library wrote its line.
        host: name of its machine.
        pid: number of its process.
        program: name of the program.
        seen: when it last put its line, by the server's clock.
        until: the last time at which a call of the program can take effect, including calls that it may send before it
            puts its line again; None if there can be no such call.
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

    @property
    def as_json(self) -> Mapping[str, Any]:
        """The attributes as values of JSON."""
        return {
            **asdict(self),
            "seen": self.seen.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }

    def __str__(self) -> str:
        """Describes the program in one line."""
        who = f"{self.program or '?'}, process {self.pid} on {self.host or '?'}"
        until = "" if self.until is None else f", calls until {self.until:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.table}: {who}: {self.state}, seen {self.seen:%Y-%m-%d %H:%M:%S} UTC{until}"


def table_writers(
    store: Store, table: str, *, times: IndexTimes = TIMES, registry: str = REGISTRY_TABLE
) -> list[TableWriter]:
    """The programs on the writers' roll of a table. These are the programs for which a change of its indexes waits, and
    resting programs.

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


def _writer(place: RegistryKey, found_line: FoundLine, now: int, skew: int) -> TableWriter:
    family, kind, seen, line = (
        place.family.decode(),
        place.kind.decode("latin-1"),
        _moment(found_line.stamp),
        found_line.line,
    )
    if line is None:
        return TableWriter(place.table, family, kind, "unknown", "", 0, "", seen, None)
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
    )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
