"""A store that reports each call that it forwards, with operation, table, size and duration, but never with values."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

from attrs import frozen

from hbmodel.errors import DeclarationError, UnknownOutcome
from hbmodel.store.gate import gated
from hbmodel.store.port import (
    BegunPut,
    PipelinedStore,
    RepeatingStore,
    Store,
    change_and_get,
    check_and_put_each,
    read_versions,
)
from hbmodel.store.values import Cell, ConditionalChange, ConditionalPut, Delete, Get, Put, Row, Scan
from hbmodel.store.wide.slices import close_scan
from hbmodel.store.wrapping import WrappingStore

logger = logging.getLogger("hbmodel")

T = TypeVar("T")


@frozen
class Call:
    """One call to a store; for a scan, one batch of rows.

    Attributes:
        table: the name of the table.
        operation: `get`, `get_each`, `versions`, `scan`, `put`, `delete`, `mutate_row`, `check_and_put`,
            `check_and_put_each`, `check_and_mutate`, `check_and_mutate_many` or `increment`.
        rows: how many rows a read has received or a write has sent.
        bytes: total size of the row keys, column names and values that a read has received or a write has sent.
        duration: seconds until the store answered, including waits before retries. A scan's first batch includes its
            start. A get that is sent together with a conditional change has a duration of 0; the change has the
            duration of both.
        retries: how often the store retried.
        error: the exception of the call, or None. Its details may contain the row key.
    """

    table: str
    operation: str
    rows: int
    bytes: int
    duration: float
    retries: int = 0
    error: Exception | None = None


OnCall = Callable[[Call], object]
"""A function that receives each call. It is called in the thread that made the call, before that thread has the result.
"""


class _Stopwatch:
    """Measures the time and the retries of calls, each since the last reading."""

    def __init__(self) -> None:
        self._retries = 0
        self._read = 0
        self._spent = 0.0
        self._started = 0.0

    def repeated(self) -> None:
        self._retries += 1

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spent += time.perf_counter() - self._started

    def read(self) -> tuple[float, int]:
        """Returns the seconds and the retries since the last reading."""
        spent, retries = self._spent, self._retries - self._read
        self._spent, self._read = 0.0, self._retries
        return spent, retries


def check_on_call(on_call: object) -> None:
    """Checks that an argument can be called.

    Raises:
        DeclarationError: the argument cannot be called.
    """
    if not callable(on_call):
        raise DeclarationError("on_call takes a function that receives each call.", found=type(on_call).__name__)


class ObservedStore(WrappingStore):
    """Forwards every call to a store, and calls a function for each call that reads or writes rows.

    If the function raises an exception, the exception is only logged, because the call to the store was made and the
    caller must get its result.

    Args:
        on_call: the function. It must not use the store itself.
        repeated: a function that is called for each retry.
    """

    def __init__(self, store: Store, on_call: OnCall, repeated: Callable[[], None] | None = None) -> None:
        check_on_call(on_call)
        super().__init__(store)
        self._on_call = on_call
        self._repeating = store if isinstance(store, RepeatingStore) else None
        self._repeated = repeated

    @property
    def unobserved(self) -> Store:
        """The wrapped store, for calls that are not reported because no user waits for them."""
        inside: Store = getattr(self._store, "unobserved", self._store)
        return inside

    def on_retry(self, repeated: Callable[[], None]) -> ObservedStore:
        """See `RepeatingStore`."""
        return ObservedStore(self._store, self._on_call, self._both(repeated))

    def _view(self, repeated: Callable[[], None]) -> Store:
        return self._store if self._repeating is None else self._repeating.on_retry(self._both(repeated))

    def _both(self, repeated: Callable[[], None]) -> Callable[[], None]:
        also = self._repeated
        if also is None:
            return repeated

        def tell() -> None:
            repeated()
            also()

        return tell

    # --- rows ---------------------------------------------------------------------------------------------------------

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        """See `Store.get`."""
        return self._found(table, "get", lambda store: store.get(table, rows, columns))

    def get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        """See `Store.get_each`."""
        return self._found(table, "get_each", lambda store: store.get_each(table, gets))

    def versions(self, table: str, row: bytes, columns: Sequence[bytes], limit: int) -> Sequence[Sequence[Cell]]:
        """See `VersionsStore`. Raises `CapabilityError` if the store cannot read versions."""
        watch = _Stopwatch()
        try:
            with watch:
                versions_of_columns = read_versions(self._view(watch.repeated), table, row, columns, limit)
        except Exception as error:
            self._tell(watch, table, "versions", error=error)
            raise
        cells = [
            (column, cell) for column, versions in zip(columns, versions_of_columns, strict=True) for cell in versions
        ]
        self._tell(
            watch,
            table,
            "versions",
            int(bool(cells)),
            len(row) + sum(len(column) + len(cell.value) for column, cell in cells),
        )
        return versions_of_columns

    def _found(self, table: str, operation: str, read: Callable[[Store], Sequence[Row | None]]) -> Sequence[Row | None]:
        watch = _Stopwatch()
        try:
            with watch:
                rows = read(self._view(watch.repeated))
        except Exception as error:
            self._tell(watch, table, operation, error=error)
            raise
        self._tell(watch, table, operation, *_received(row for row in rows if row is not None))
        return rows

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        """See `Store.scan`."""
        watch = _Stopwatch()
        try:
            with watch:
                started = self._view(watch.repeated).scan(table, scans)
        except Exception as error:
            self._tell(watch, table, "scan", error=error)
            raise
        return [_ObservedBatches(self, watch, table, batches) for batches in started]

    def put(self, table: str, puts: Sequence[Put]) -> None:
        """See `Store.put`."""
        self._sent(table, "put", puts, lambda store: store.put(table, puts))

    def begin_put(self, table: str, puts: Sequence[Put]) -> BegunPut:
        """See `PipelinedStore`. The call is reported when it ends. If the store cannot begin a put, the put is made
        when it is ended.
        """
        return _ObservedPut(self, table, puts)

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        """See `Store.delete`."""
        self._sent(
            table,
            "delete",
            deletes,
            lambda store: store.delete(table, deletes),
            rows=len({delete.row for delete in deletes}),
        )

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        """See `Store.mutate_row`."""
        self._sent(table, "mutate_row", mutations, lambda store: store.mutate_row(table, mutations), rows=1)

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        """See `Store.check_and_put`."""
        check = len(column) + len(expected or b"")
        return self._sent(
            table,
            "check_and_put",
            [put],
            lambda store: store.check_and_put(table, row, column, expected, put),
            rows=1,
            more=check,
        )

    def check_and_put_each(self, table: str, puts: Sequence[ConditionalPut]) -> Sequence[bool]:
        """See `ConditionalPutsStore`. It is reported as one call, even if the store makes the puts one after
        another.
        """
        return self._sent(
            table,
            "check_and_put_each",
            [each.put for each in puts],
            lambda store: check_and_put_each(store, table, puts),
            more=sum(len(each.column) + len(each.expected or b"") for each in puts),
        )

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        """See `Store.check_and_mutate`."""
        return self._sent(
            table,
            "check_and_mutate",
            mutations,
            lambda store: store.check_and_mutate(table, row, column, expected, mutations),
            rows=1,
            more=len(column) + len(expected or b""),
        )

    def change_and_get(
        self, table: str, change: ConditionalChange | ConditionalPut, columns: Sequence[bytes]
    ) -> tuple[bool, Sequence[Row | None] | None]:
        """See `ChangeAndGetStore`. The change and the get are reported as two calls."""
        applied, rows = self._sent(
            table,
            "check_and_put" if isinstance(change, ConditionalPut) else "check_and_mutate",
            [change.put] if isinstance(change, ConditionalPut) else change.mutations,
            lambda store: change_and_get(store, table, change, columns),
            rows=1,
            more=len(change.column) + len(change.expected or b""),
        )
        if rows is not None:
            self._tell(_Stopwatch(), table, "get", *_received(row for row in rows if row is not None))
        return applied, rows

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        """See `Store.check_and_mutate_many`."""
        return self._sent(
            table,
            "check_and_mutate_many",
            [mutation for change in changes for mutation in change.mutations],
            lambda store: store.check_and_mutate_many(table, changes),
            rows=len(changes),
            more=sum(len(change.column) + len(change.expected or b"") for change in changes),
        )

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        """See `Store.increment`."""
        size = len(row) + len(column) + 8
        return self._sent(
            table, "increment", [], lambda store: store.increment(table, row, column, amount), rows=1, more=size
        )

    def _sent(
        self,
        table: str,
        operation: str,
        mutations: Sequence[Put | Delete],
        write: Callable[[Store], T],
        *,
        rows: int | None = None,
        more: int = 0,
    ) -> T:
        watch = _Stopwatch()
        count = len(mutations) if rows is None else rows
        size = sum(map(_size, mutations)) + more
        try:
            with watch:
                answer = write(self._view(watch.repeated))
        except Exception as error:
            self._tell(watch, table, operation, count, size, error=error)
            raise
        self._tell(watch, table, operation, count, size)
        return answer

    def _tell(
        self,
        watch: _Stopwatch,
        table: str,
        operation: str,
        rows: int = 0,
        size: int = 0,
        *,
        error: Exception | None = None,
    ) -> None:
        duration, retries = watch.read()
        call = Call(table, operation, rows, size, duration, retries, error)
        try:
            with gated(None):  # writes of the function do not belong to the reported operation
                self._on_call(call)
        except Exception:
            logger.warning("on_call raised an exception; the call that it received is not affected.", exc_info=True)

    def __repr__(self) -> str:
        return f"ObservedStore({self._store!r})"


class _ObservedPut:
    """A put in progress, which is reported when it ends or is abandoned."""

    def __init__(self, store: ObservedStore, table: str, puts: Sequence[Put]) -> None:
        self._store, self._table, self._puts = store, table, puts
        self._watch = _Stopwatch()
        view = store._view(self._watch.repeated)
        self._begun: BegunPut | None = None
        if isinstance(view, PipelinedStore):
            with self._telling():
                self._begun = view.begin_put(table, puts)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            with self._watch:
                yield
        except Exception as error:
            self._tell(error)
            raise

    def _tell(self, error: Exception | None = None) -> None:
        self._store._tell(self._watch, self._table, "put", len(self._puts), sum(map(_size, self._puts)), error=error)

    def end(self) -> None:
        """See `BegunPut`."""
        if self._begun is None:
            self._store.put(self._table, self._puts)
            return
        with self._telling():
            self._begun.end()
        self._tell()

    def abandon(self) -> None:
        """See `BegunPut`."""
        if self._begun is not None:
            self._begun.abandon()
            self._tell(UnknownOutcome("The put was abandoned because another one failed.", table=self._table))


class _ObservedBatches(Iterator[Sequence[Row]]):
    """The batches of a scan, each of which is reported as a call. A scan without rows is reported once, when it
    ends.
    """

    def __init__(self, store: ObservedStore, watch: _Stopwatch, table: str, batches: Iterator[Sequence[Row]]) -> None:
        self._store = store
        self._watch = watch
        self._table = table
        self._batches = batches
        self._told = False

    def __next__(self) -> Sequence[Row]:
        try:
            with self._watch:
                batch = next(self._batches)
        except StopIteration:
            if not self._told:
                self._tell()
            raise
        except Exception as error:
            self._tell(error=error)
            raise
        self._tell(*_received(batch))
        return batch

    def _tell(self, rows: int = 0, size: int = 0, *, error: Exception | None = None) -> None:
        self._told = True
        self._store._tell(self._watch, self._table, "scan", rows, size, error=error)

    def close(self) -> None:
        """Ends the scan early."""
        close_scan(self._batches)


def _received(rows: Iterator[Row] | Sequence[Row]) -> tuple[int, int]:
    """Returns the number of rows and of their bytes."""
    count = size = 0
    for row in rows:
        count += 1
        size += len(row.row) + sum(len(column) + len(cell.value) for column, cell in row.columns.items())
    return count, size


def _size(mutation: Put | Delete) -> int:
    """Returns the number of bytes of a mutation."""
    if isinstance(mutation, Put):
        return len(mutation.row) + sum(len(column) + len(value) for column, value in mutation.cells.items())
    return len(mutation.row) + sum(map(len, mutation.families)) + sum(map(len, mutation.columns))
