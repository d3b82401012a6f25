"""Stores that wrap another store: one records calls, one fails at a chosen call, and one has a wrong clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from attrs import evolve, field, frozen

from hbmodel.errors import CapabilityError, StoreUnavailable, UnknownOutcome
from hbmodel.store import (
    Capabilities,
    Cell,
    ConditionalChange,
    ConditionalPut,
    Delete,
    Family,
    Get,
    Put,
    Region,
    Row,
    Scan,
    Store,
)
from hbmodel.store.closing import ClosingStore
from hbmodel.store.gate import gated
from hbmodel.store.port import check_and_put_each, read_versions
from hbmodel.tables.registry.registry_rows import CLOCK_ROW
from hbmodel.tables.roll.renewed_lines import KEEPER

Mode = Literal["before", "after", "first half", "second half"]
MODES: tuple[Mode, ...] = ("before", "after", "first half", "second half")

IN_PARTS = frozenset({"put", "delete", "check_and_put_each", "check_and_mutate_many"})
"""Calls that may be carried out for only some of their rows."""

READS = frozenset({"get", "get_each", "versions", "scan", "batch", "tables", "families", "regions", "namespaces"})


@frozen
class Call:
    """One call of a store; `batch` is one further fetch of a scan."""

    name: str
    table: str = ""
    items: Sequence[Any] = field(default=(), repr=len)

    @property
    def writes(self) -> bool:
        return self.name not in READS

    def __str__(self) -> str:
        return f"{self.name} {self.table}" if self.table else self.name


def failures_of(calls: Sequence[Call]) -> list[tuple[int, Mode]]:
    """Returns every call with each part of the call that may be carried out when it fails."""
    return [(at, mode) for at, call in enumerate(calls) for mode in MODES if _applies(call, mode)]


def _applies(call: Call, mode: Mode) -> bool:
    if mode in {"first half", "second half"}:
        return call.name in IN_PARTS and len(call.items) > 1
    return mode == "before" or call.writes


def is_repetition(at: int, mode: Mode) -> bool:
    """Returns whether a crash leaves the same contents as a crash at the previous call, because no other program is
    running.
    """
    return mode == "before" and at > 0


def _kept_later() -> bool:
    """Returns whether this call keeps a line on the writers' roll. Such calls are made at any time, even after the test
    that began the line has ended.
    """
    return threading.current_thread().name == KEEPER


class RecordingStore(ClosingStore):
    """Forwards and records every call.

    Args:
        store: the wrapped store.
        limited: whether it lacks atomic changes of rows, as HBase's first Thrift gateway does.
        gated: whether its writes may pass the gate inside their transactions; in a limited store they do not.
        apart: whether it may report the capability `versions_apart`.
    """

    token_key: bytes | str | None = None

    def __init__(self, store: Store, *, limited: bool = False, gated: bool = True, apart: bool = True) -> None:
        self.inner = store
        self.limited = limited
        self.gated = gated and not limited
        self.apart = apart
        self.calls: list[Call] = []

    @property
    def capabilities(self) -> Capabilities:
        known = self.inner.capabilities
        known = known if self.gated else evolve(known, gated_writes=False)
        known = known if self.apart else evolve(known, versions_apart=False)
        return evolve(known, check_and_mutate=False, mutate_row=False) if self.limited else known

    @property
    def shared_caches(self) -> None:
        """None, so that each session acts like a separate program."""

    @property
    def unobserved(self) -> Store:
        """The store for hbmodel's threads, for which no test waits."""
        return self.inner

    @property
    def of_rows(self) -> list[Call]:
        """The calls so far that change tables other than the registry."""
        return [call for call in self.calls if call.writes and call.table != "hbmodel"]

    def told(self) -> list[str]:
        """Returns the calls so far, each as its name and table, and forgets them."""
        told, self.calls = [str(call) for call in self.calls], []
        return told

    def _do(self, call: Call, apply: Callable[[Sequence[Any]], Any]) -> Any:
        if not _kept_later():
            self.calls.append(call)
        return self._carried_out(call, apply)

    def _carried_out(self, call: Call, apply: Callable[[Sequence[Any]], Any]) -> Any:
        if self.gated:
            return apply(call.items)
        with gated(None):
            return apply(call.items)

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        return self._do(Call("get", table, rows), lambda rows: self.inner.get(table, rows, columns))

    def get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        return self._do(Call("get_each", table, gets), lambda gets: self.inner.get_each(table, gets))

    def versions(self, table: str, row: bytes, columns: Sequence[bytes], most: int) -> Sequence[Sequence[Cell]]:
        return self._do(
            Call("versions", table, columns), lambda columns: read_versions(self.inner, table, row, columns, most)
        )

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        started = self._do(Call("scan", table, scans), lambda scans: self.inner.scan(table, scans))
        return [self._batches(table, batches) for batches in started]

    def _batches(self, table: str, batches: Any) -> Iterator[Sequence[Row]]:
        try:
            first = True
            for batch in batches:
                if not first:
                    self._do(Call("batch", table, batch), lambda batch: batch)
                first = False
                yield batch
        finally:
            batches.close()

    def put(self, table: str, puts: Sequence[Put]) -> None:
        self._do(Call("put", table, puts), lambda puts: self.inner.put(table, puts))

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        self._do(Call("delete", table, deletes), lambda deletes: self.inner.delete(table, deletes))

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        self._refuse()
        self._do(Call("mutate_row", table, [mutations]), lambda _: self.inner.mutate_row(table, mutations))

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        return bool(
            self._do(
                Call("check_and_put", table, [put]),
                lambda _: self.inner.check_and_put(table, row, column, expected, put),
            )
        )

    def check_and_put_each(self, table: str, puts: Sequence[ConditionalPut]) -> Sequence[bool]:
        return list(
            self._do(Call("check_and_put_each", table, puts), lambda puts: check_and_put_each(self.inner, table, puts))
        )

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        self._refuse()
        call = Call("check_and_mutate", table, [mutations])
        return bool(self._do(call, lambda _: self.inner.check_and_mutate(table, row, column, expected, mutations)))

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        self._refuse()
        call = Call("check_and_mutate_many", table, changes)
        return list(self._do(call, lambda changes: self.inner.check_and_mutate_many(table, changes)))

    def _refuse(self) -> None:
        if self.limited:
            raise CapabilityError("This store was told to be without atomic changes of rows.")

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        return int(
            self._do(Call("increment", table, [amount]), lambda _: self.inner.increment(table, row, column, amount))
        )

    def tables(self) -> list[str]:
        return list(self._do(Call("tables"), lambda _: self.inner.tables()))

    def families(self, table: str) -> list[Family]:
        return list(self._do(Call("families", table), lambda _: self.inner.families(table)))

    def create_table(self, table: str, families: Sequence[Family], split_keys: Sequence[bytes] = ()) -> None:
        self._do(
            Call("create_table", table, [families]), lambda _: self.inner.create_table(table, families, split_keys)
        )

    def add_family(self, table: str, family: Family) -> None:
        self._do(Call("add_family", table, [family]), lambda _: self.inner.add_family(table, family))

    def modify_family(self, table: str, family: Family) -> None:
        self._do(Call("modify_family", table, [family]), lambda _: self.inner.modify_family(table, family))

    def namespaces(self) -> list[str]:
        return list(self._do(Call("namespaces"), lambda _: self.inner.namespaces()))

    def create_namespace(self, namespace: str) -> None:
        self._do(Call("create_namespace", namespace), lambda _: self.inner.create_namespace(namespace))

    def delete_namespace(self, namespace: str) -> None:
        self._do(Call("delete_namespace", namespace), lambda _: self.inner.delete_namespace(namespace))

    def delete_table(self, table: str) -> None:
        self._do(Call("delete_table", table), lambda _: self.inner.delete_table(table))

    def regions(self, table: str) -> list[Region]:
        return list(self._do(Call("regions", table), lambda _: self.inner.regions(table)))

    def close(self) -> None:
        self.inner.close()


class Crash(BaseException):
    """Raised to simulate a crash of the process, so nothing may catch it."""


class FaultyStore(RecordingStore):
    """A store that fails at one call: before it, after it was carried out, or after half of its batch was carried out.

    Args:
        store: the wrapped store.
        at: the number of the failing call, from 0; with None, no call fails.
        mode: the part of the failing call that is carried out.
        crash: whether to raise `Crash`; if not, an error is raised that a store may raise.
        times: the number of calls that fail, from `at` on.
        limited: as for `RecordingStore`.
    """

    def __init__(
        self,
        store: Store,
        at: int | None = None,
        mode: Mode = "before",
        *,
        crash: bool = False,
        times: int = 1,
        limited: bool = False,
    ) -> None:
        super().__init__(store, limited=limited)
        self.at, self.mode, self.crash, self.times = at, mode, crash, times

    def _do(self, call: Call, apply: Callable[[Sequence[Any]], Any]) -> Any:
        if _kept_later():
            return apply(call.items)
        number = len(self.calls)
        self.calls.append(call)
        if self.at is None or not self.at <= number < self.at + self.times:
            return apply(call.items)
        half = len(call.items) // 2
        if self.mode == "after":
            apply(call.items)
        elif self.mode != "before" and call.name in IN_PARTS and len(call.items) > 1:
            apply(call.items[:half] if self.mode == "first half" else call.items[half:])
        if self.crash:
            raise Crash
        if self.mode == "before" or not call.writes:
            raise StoreUnavailable("The gateway is away, on purpose.", table=call.table)
        raise UnknownOutcome("The connection broke, on purpose.", table=call.table)


@frozen
class ShiftedCell:
    """A cell with a shifted timestamp."""

    value: bytes
    timestamp: int


@frozen
class ShiftedRow:
    """A row with shifted timestamps."""

    row: bytes
    columns: dict[bytes, ShiftedCell]


TIMES = (CLOCK_ROW, b"\x02")
"""The beginnings of the row keys of the clock cell and of the lines of the writers' roll."""


class ShiftedStore(RecordingStore):
    """A store whose server seems to be `ahead` ms ahead of this machine, for programs that read the timestamp of a cell
    that they have put into the registry.
    """

    def __init__(self, store: Store, ahead: int) -> None:
        super().__init__(store)
        self.ahead = ahead

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        found = super().get(table, rows, columns)
        return [row if row is None or not row.row.startswith(TIMES) else self._shifted(row) for row in found]

    def _shifted(self, row: Row) -> Row:
        return ShiftedRow(
            row.row, {c: ShiftedCell(cell.value, cell.timestamp + self.ahead) for c, cell in row.columns.items()}
        )
