"""The port to storage: the `Store` protocol that every adapter implements, and protocols for optional features of
some stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self, cast, runtime_checkable

from attrs import frozen

from hbmodel.errors import CapabilityError, DeclarationError, StoreClosed, StoreUnavailable, UnknownOutcome
from hbmodel.store.gate import pass_gate
from hbmodel.store.values import Cell, ConditionalChange, ConditionalPut, Delete, Family, Get, Put, Region, Row, Scan


@frozen
class Capabilities:
    """The operations that a store supports; callers must check them.

    Attributes:
        check_and_mutate: a whole row can be changed atomically, on a condition and with timestamps.
        mutate_row: puts and deletes of one row can be made in one atomic call.
        presplit: tables can be created with split keys.
        family_configuration: block sizes and free-form settings of families can be set and read.
        put_ttl_mixed: puts with different TTLs can be made in one call.
        alter: column families of live tables can be added and changed.
        namespaces: namespaces can be created and deleted.
        one_call_scans: up to a batch of rows can be read in a single call, without opening a scanner first.
        final_refusals: a refused conditional change was certainly not applied. Without this, the gateway may have
            repeated the change, and the first attempt may have been applied and have caused the refusal.
        one_call_gets: different columns of each row can be read in one call.
        gated_writes: every write is a transaction that passes the writer's gate inside the transaction (see
            `hbmodel.store.gate`). So nothing is written under an earlier state of the registry, and no change of an
            index waits for writers. A store that wraps another store and gives its tables other names, or its rows
            other keys, must not have this capability.
        versions_apart: in families that keep several versions, a put at the server's time never replaces a version that
            an earlier call has put in the same millisecond. Without this, callers wait a tick of the clock between two
            puts of a cell.
    """

    check_and_mutate: bool
    mutate_row: bool
    presplit: bool
    family_configuration: bool
    put_ttl_mixed: bool
    alter: bool
    namespaces: bool
    one_call_scans: bool
    final_refusals: bool = False
    one_call_gets: bool = True
    gated_writes: bool = False
    versions_apart: bool = False


EVERYTHING_POSSIBLE = Capabilities(
    check_and_mutate=True,
    mutate_row=True,
    presplit=True,
    family_configuration=True,
    put_ttl_mixed=True,
    alter=True,
    namespaces=True,
    one_call_scans=True,
)
"""The capabilities of a store that supports every call of the port."""


class Reads(Protocol):
    """Reads rows."""

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        """Reads rows in one call. The result is in the order of `rows`, with None for a row that has none of the
        columns.
        """
        ...

    def get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        """Reads the requested part of each row. The result has the order and length of `gets`, with None for each get
        that finds no cell.

        The same row may be requested several times. Each `Get` reads a consistent state of its row.
        """
        ...

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        """Starts scans. Each result yields batches of rows, which are never empty, and can be closed early (`close()`).

        The adapter may send the first requests of all scans before it waits for any answer.
        """
        ...


class Writes(Protocol):
    """Writes and deletes rows."""

    def put(self, table: str, puts: Sequence[Put]) -> None:
        """Writes many rows, each atomically. After an error, any subset may have been applied."""
        ...

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        """Carries out deletes in many rows. After an error, any subset may have been applied."""
        ...

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        """Applies puts and deletes of one row atomically. Without `capabilities.mutate_row`, raises
        `CapabilityError`.
        """
        ...

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        """Puts one cell if `column` holds exactly `expected`. None, or an empty value, expects an absent or empty cell.

        `put` holds exactly one cell of the same row. `put.timestamp` must be None: the server uses the larger of its
        clock and the checked cell's timestamp. Returns whether the put was applied. The store never retries the call.
        """
        ...

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        """Applies mutations of one row atomically if `column` holds exactly `expected` (None, or an empty value,
        expects an absent or empty cell).

        Without `capabilities.check_and_mutate`, raises `CapabilityError`. The store never retries the call.
        """
        ...

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        """Carries out `check_and_mutate` for many rows, independently and in the given order. Returns for each change
        whether it was applied.

        The adapter sends requests before it waits for the answers to earlier ones. After an error, any subset may have
        been applied. Without `capabilities.check_and_mutate`, raises `CapabilityError`. The store never retries the
        call.
        """
        ...

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        """Adds to an 8-byte counter atomically, and returns its new value. The store never retries the call."""
        ...


class Administers(Protocol):
    """Creates, describes, changes and drops tables, column families and namespaces."""

    def tables(self) -> list[str]:
        """Returns the names of all tables, sorted."""
        ...

    def families(self, table: str) -> list[Family]:
        """Returns the column families of a table, sorted by name, with all their options.

        A store without `capabilities.family_configuration` returns neither block sizes (None) nor configurations
        (empty).
        """
        ...

    def create_table(self, table: str, families: Sequence[Family], split_keys: Sequence[bytes] = ()) -> None:
        """Creates a table in an existing namespace. Raises `TableExists` if the table exists. Split keys need
        `capabilities.presplit`.
        """
        ...

    def add_family(self, table: str, family: Family) -> None:
        """Adds a column family to a live table. Raises `FamilyExists` if the family exists. Without
        `capabilities.alter`, raises `CapabilityError`.
        """
        ...

    def modify_family(self, table: str, family: Family) -> None:
        """Changes options of a live table's column family. Options that are None or missing in `family` are kept.

        A shorter TTL or fewer versions may remove cells permanently. Without `capabilities.alter`, raises
        `CapabilityError`.
        """
        ...

    def delete_table(self, table: str) -> None:
        """Disables and drops a table with all its rows."""
        ...

    def namespaces(self) -> list[str]:
        """Returns the names of all namespaces, sorted: `default` and all created namespaces, but not HBase's own.

        Raises `CapabilityError` if the store cannot list them.
        """
        ...

    def create_namespace(self, namespace: str) -> None:
        """Creates a namespace. Raises `NamespaceExists` if it exists. Without `capabilities.namespaces`, raises
        `CapabilityError`.
        """
        ...

    def delete_namespace(self, namespace: str) -> None:
        """Deletes a namespace without tables. Without `capabilities.namespaces`, raises `CapabilityError`."""
        ...

    def regions(self, table: str) -> list[Region]:
        """Returns the regions of a table in key order. Together they cover every key."""
        ...


@runtime_checkable
class Store(Reads, Writes, Administers, Protocol):
    """A map of bytes with HBase's semantics. It is thread-safe. Every method may raise `StoreError` and its subclasses.

    After `StoreUnavailable` nothing was done. After `UnknownOutcome` anything may have been done, so callers repeat the
    same mutation with the same timestamp.
    """

    token_key: bytes | str | None
    """The key with which sessions encrypt continuation tokens. The store only keeps it for the sessions."""

    @property
    def capabilities(self) -> Capabilities:
        """The operations that this store supports."""
        ...

    def close(self) -> None:
        """Releases connections and files. Further calls raise `StoreClosed`. Closing twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class RepeatingStore(Protocol):
    """A store that may retry requests by itself, and can report each retry."""

    def on_retry(self, repeated: Callable[[], None]) -> Store:
        """Returns a view of the same store, on the same connections, that calls `repeated` each time it retries a
        request.

        `repeated` is called in the thread that waits for the answer.
        """
        ...


@runtime_checkable
class VersionsStore(Protocol):
    """A store that can read more than the newest version of a cell."""

    def versions(self, table: str, row: bytes, columns: Sequence[bytes], limit: int) -> Sequence[Sequence[Cell]]:
        """Returns the versions of some columns (`family:qualifier`) of one row, newest first, for each column in the
        given order.

        At most `limit` versions of each column are returned, and at most as many as its family keeps. No column is read
        before a column that precedes it in `columns`.
        """
        ...


def read_versions(
    store: Store, table: str, row: bytes, columns: Sequence[bytes], limit: int
) -> Sequence[Sequence[Cell]]:
    """Calls `VersionsStore.versions`. Raises `CapabilityError` for a store that cannot read versions."""
    if not isinstance(store, VersionsStore):
        raise CapabilityError("This store reads only the newest version of a cell.", table=table)
    return store.versions(table, row, columns, limit)


@runtime_checkable
class ConditionalPutsStore(Protocol):
    """A store that can send conditional puts of many rows before it waits for the answers to the first ones."""

    def check_and_put_each(self, table: str, puts: Sequence[ConditionalPut]) -> Sequence[bool]:
        """Carries out `Store.check_and_put` in many rows, independently and in any order. Returns for each put whether
        it was applied.

        No row may occur twice. After an error, any subset may have been applied. The store never retries the call.
        """
        ...


def check_and_put_each(store: Store, table: str, puts: Sequence[ConditionalPut]) -> Sequence[bool]:
    """Calls `ConditionalPutsStore.check_and_put_each` or, for a store without this method, `check_and_put` row by
    row.
    """
    if isinstance(store, ConditionalPutsStore):
        return store.check_and_put_each(table, puts)
    applied: list[bool] = []
    try:
        for each in puts:
            if applied:
                pass_gate()
            applied.append(store.check_and_put(table, each.put.row, each.column, each.expected, each.put))
    except (StoreUnavailable, StoreClosed) as error:
        if any(applied):
            raise UnknownOutcome(error.message, **error.details) from error
        raise
    return applied


class ChangeAndGetStore(Protocol):
    """A store that can send a read of a row directly after a conditional change of that row, so that both together need
    one round trip.
    """

    def change_and_get(
        self, table: str, change: ConditionalChange | ConditionalPut, columns: Sequence[bytes]
    ) -> tuple[bool, Sequence[Row | None] | None]:
        """Carries out `check_and_mutate`, or `check_and_put` for a `ConditionalPut`, and then a `get` of the same row.

        Returns whether the change was applied, and the result of the get. The result of the get is None if the get was
        not made or has failed. In this case, the caller must make it again. All errors are errors of the change.
        """
        ...


def change_and_get(
    store: Store, table: str, change: ConditionalChange | ConditionalPut, columns: Sequence[bytes]
) -> tuple[bool, Sequence[Row | None] | None]:
    """Calls `ChangeAndGetStore.change_and_get`. For a store without this method, makes only the change."""
    # a check of a runtime-checkable protocol would take a tenth of the time of a local call
    together = getattr(store, "change_and_get", None)
    if together is None:
        return carry_out(store, table, change), None
    answer: tuple[bool, Sequence[Row | None] | None] = together(table, change, columns)
    return answer


def carry_out(store: Writes, table: str, change: ConditionalChange | ConditionalPut) -> bool:
    """Carries out a conditional change or put. Returns whether it was applied."""
    if isinstance(change, ConditionalPut):
        return store.check_and_put(table, change.put.row, change.column, change.expected, change.put)
    return store.check_and_mutate(table, change.row, change.column, change.expected, change.mutations)


class BegunPut(Protocol):
    """A put that was sent. Exactly one of its methods must be called, once, in the thread that began the put."""

    def end(self) -> None:
        """Waits for the answer, and raises the errors of `put`. Parts of the put that could not be sent earlier are
        sent now.
        """
        ...

    def abandon(self) -> None:
        """Ends the put without waiting for the answer. All, some or none of it may be applied."""
        ...


@runtime_checkable
class PipelinedStore(Protocol):
    """A store that can send a put and return before the answer, so that the caller can do other work in the meantime,
    such as a put into another table.
    """

    def begin_put(self, table: str, puts: Sequence[Put]) -> BegunPut:
        """Begins a `put`. Raises `InvalidRequest` and `StoreClosed` at once, and all other errors when the put is
        ended.
        """
        ...


class HasStore(Protocol):
    """An object that functions accept instead of a store: a session."""

    @property
    def store(self) -> Store:
        """The store of the session."""
        ...


def store_of(given: Store | HasStore) -> Store:
    """Returns the given store, or the store of the given session. Raises `DeclarationError` for anything else."""
    store = cast("Store", getattr(given, "store", given))
    check_store(store)
    return store


def check_store(store: object) -> None:
    """Raises `DeclarationError` if the argument is not a store, but for example a URL or a model."""
    if isinstance(store, type) or not hasattr(store, "capabilities"):
        name = store.__name__ if isinstance(store, type) else type(store).__name__
        raise DeclarationError("Give a store first, as hb.connect(url) opens it.", found=name)
