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
        check_and_mutate: conditional, atomic change of a whole row with timestamps.
        mutate_row: puts and deletes of one row in one atomic call.
        presplit: tables created with split keys.
        family_configuration: block sizes and free-form settings of families, both set and read.
        put_ttl_mixed: puts with different TTLs in one call.
        alter: column families of live tables added and changed.
        namespaces: namespaces created and deleted.
        one_call_scans: up to a batch of rows read in a single call, without opening a scanner first.
        final_refusals: a refused conditional change was certainly not applied. Without this, the gateway may have
            repeated the change, and the refusal may be caused by the effect of its first attempt.
        one_call_gets: different columns of each row read in one call.
        gated_writes: every write is a transaction that passes the gate of its writer inside (see `hbmodel.store.gate`).
            So nothing is written under an earlier state of the registry, and no change of an index waits for writers. A
            store that wraps another one and gives its tables other names, or its rows other keys, must not pass this
            on.
        versions_apart: in families that keep several versions, a put at the server's time never replaces a version of
            the same millisecond that an earlier call has put. Without this, callers wait a tick of the clock between
            two puts of a cell.
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
        that finds nothing.

        The same row may be requested several times. Each `Get` reads a consistent state of its row.
        """
        ...

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        """Starts scans; each result yields batches of rows (never an empty batch) and can be closed early (`close()`).

        The adapter may send the first requests of all scans before it waits for any answer.
        """
        ...


class Writes(Protocol):
    """Writes and deletes rows."""

    def put(self, table: str, puts: Sequence[Put]) -> None:
        """Writes many rows; atomic per row only. After an error, any subset may have been applied."""
        ...

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        """Carries out deletes in many rows. After an error, any subset may have been applied."""
        ...

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        """Applies puts and deletes of one row atomically. Needs `capabilities.mutate_row`, else `CapabilityError`."""
        ...

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        """Puts one cell if `column` holds exactly `expected`; None or empty expects an absent or empty cell.

        `put` holds exactly one cell of the same row. `put.timestamp` must be None: the server uses the larger of its
        clock and the checked cell's timestamp. Returns whether it was applied. The store never retries it.
        """
        ...

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        """Applies mutations of one row atomically if `column` holds exactly `expected` (None or empty: absent or
        empty).

        Needs `capabilities.check_and_mutate`, else `CapabilityError`. The store never retries it.
        """
        ...

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        """`check_and_mutate` for many rows, each independently, in the given order; returns for each change whether it
        was applied.

        The adapter sends requests before it waits for the answers to earlier ones. After an error, any subset may
        have been applied. Needs `capabilities.check_and_mutate`, else `CapabilityError`. The store never retries it.
        """
        ...

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        """Adds to an 8-byte counter atomically and returns its new value. The store never retries it."""
        ...


class Administers(Protocol):
    """Creates, describes, changes and drops tables, column families and namespaces."""

    def tables(self) -> list[str]:
        """Names of all tables, sorted."""
        ...

    def families(self, table: str) -> list[Family]:
        """The column families of a table, sorted by name, with all their options.

        A store without `capabilities.family_configuration` returns neither block sizes (None) nor configurations
        (empty).
        """
        ...

    def create_table(self, table: str, families: Sequence[Family], split_keys: Sequence[bytes] = ()) -> None:
        """Creates a table in an existing namespace; raises `TableExists`. Split keys need `capabilities.presplit`."""
        ...

    def add_family(self, table: str, family: Family) -> None:
        """Adds a column family to a live table; raises `FamilyExists`. Needs `capabilities.alter`, else
        `CapabilityError`.
        """
        ...

    def modify_family(self, table: str, family: Family) -> None:
        """Changes options of a live table's column family. Options that are None or missing in `family` are kept.

        A shorter TTL or fewer versions may remove cells permanently. Needs `capabilities.alter`, else
        `CapabilityError`.
        """
        ...

    def delete_table(self, table: str) -> None:
        """Disables and drops a table with all its rows."""
        ...

    def namespaces(self) -> list[str]:
        """Names of all namespaces, sorted: `default` and all created namespaces, without HBase's own.

        Raises `CapabilityError` if the store cannot list them.
        """
        ...

    def create_namespace(self, namespace: str) -> None:
        """Creates a namespace; raises `NamespaceExists`. Needs `capabilities.namespaces`, else `CapabilityError`."""
        ...

    def delete_namespace(self, namespace: str) -> None:
        """Deletes a namespace without tables. Needs `capabilities.namespaces`, else `CapabilityError`."""
        ...

    def regions(self, table: str) -> list[Region]:
        """The regions of a table in key order; together they cover every key."""
        ...


@runtime_checkable
class Store(Reads, Writes, Administers, Protocol):
    """A map of bytes with HBase's semantics. Thread-safe. Every method may raise `StoreError` and its subclasses.

    After `StoreUnavailable` nothing was done. After `UnknownOutcome` anything may have been done, so callers repeat the
    same mutation with the same timestamp.
    """

    token_key: bytes | str | None
    """The key with which sessions encrypt continuation tokens. The store only keeps it for the sessions."""

    @property
    def capabilities(self) -> Capabilities:
        """What this store supports."""
        ...

    def close(self) -> None:
        """Releases connections and files; further calls raise `StoreClosed`. Closing twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class RepeatingStore(Protocol):
    """A store that may retry requests by itself, and can report each retry."""

    def on_retry(self, repeated: Callable[[], None]) -> Store:
        """A view of the same store, on the same connections, that calls `repeated` each time it retries a request.

        `repeated` is called in the thread that waits for the answer.
        """
        ...


@runtime_checkable
class VersionsStore(Protocol):
    """A store that can read more than the newest version of a cell."""

    def versions(self, table: str, row: bytes, columns: Sequence[bytes], limit: int) -> Sequence[Sequence[Cell]]:
        """The versions of some columns (`family:qualifier`) of one row, newest first, for each column in the order
        given.

        At most `limit` versions of each column are returned, and no more than its family keeps. No column is read
        before a column that precedes it in `columns`.
        """
        ...


def read_versions(
    store: Store, table: str, row: bytes, columns: Sequence[bytes], limit: int
) -> Sequence[Sequence[Cell]]:
    """Calls `VersionsStore.versions`; raises `CapabilityError` for a store that does not have it."""
    if not isinstance(store, VersionsStore):
        raise CapabilityError("This store reads only the newest version of a cell.", table=table)
    return store.versions(table, row, columns, limit)


@runtime_checkable
class ConditionalPutsStore(Protocol):
    """A store that can send conditional puts of many rows before it waits for the answers to the first ones."""

    def check_and_put_each(self, table: str, puts: Sequence[ConditionalPut]) -> Sequence[bool]:
        """`Store.check_and_put` in many rows, each by itself and in any order; returns for each whether it was applied.

        No row may occur twice. After an error, any subset may have been applied. The store never retries it.
        """
        ...


def check_and_put_each(store: Store, table: str, puts: Sequence[ConditionalPut]) -> Sequence[bool]:
    """Calls `ConditionalPutsStore.check_and_put_each`, or, for a store without it, `check_and_put` row by row."""
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
    """A store that can send a read of a row directly behind a conditional change of that row, so that both together
    take one round trip.
    """

    def change_and_get(
        self, table: str, change: ConditionalChange | ConditionalPut, columns: Sequence[bytes]
    ) -> tuple[bool, Sequence[Row | None] | None]:
        """`check_and_mutate`, or `check_and_put` for a `ConditionalPut`, and then `get` of the same row.

        Returns whether the change was applied, and the answer of the get. The second is None if the get was not made or
        failed: then the caller makes it again. All errors are those of the change.
        """
        ...


def change_and_get(
    store: Store, table: str, change: ConditionalChange | ConditionalPut, columns: Sequence[bytes]
) -> tuple[bool, Sequence[Row | None] | None]:
    """Calls `ChangeAndGetStore.change_and_get`, or, for a store without it, makes the change alone."""
    # for this question a runtime-checkable protocol would cost a tenth of a local call
    together = getattr(store, "change_and_get", None)
    if together is None:
        return carry_out(store, table, change), None
    answer: tuple[bool, Sequence[Row | None] | None] = together(table, change, columns)
    return answer


def carry_out(store: Writes, table: str, change: ConditionalChange | ConditionalPut) -> bool:
    """Carries out a conditional change or put; returns whether it was applied."""
    if isinstance(change, ConditionalPut):
        return store.check_and_put(table, change.put.row, change.column, change.expected, change.put)
    return store.check_and_mutate(table, change.row, change.column, change.expected, change.mutations)


class BegunPut(Protocol):
    """A put that was sent; exactly one of its methods must be called, once, in the thread that began it."""

    def end(self) -> None:
        """Waits for the answer and raises what `put` would have raised; anything that could not be sent earlier is
        sent now.
        """
        ...

    def abandon(self) -> None:
        """Does not wait: all, some or none of the put may be applied."""
        ...


@runtime_checkable
class PipelinedStore(Protocol):
    """A store that can send a put and return before the answer, so that the caller can do other work in the meantime,
    such as a put into another table.
    """

    def begin_put(self, table: str, puts: Sequence[Put]) -> BegunPut:
        """Begins a `put`; raises `InvalidRequest` and `StoreClosed` at once, and all other errors when the put is
        ended.
        """
        ...


class HasStore(Protocol):
    """The argument that functions accept in place of a store: a session."""

    @property
    def store(self) -> Store:
        """Its store."""
        ...


def store_of(given: Store | HasStore) -> Store:
    """The given store, or the store of the given session; anything else raises `DeclarationError`."""
    store = cast("Store", getattr(given, "store", given))
    check_store(store)
    return store


def check_store(store: object) -> None:
    """Raises `DeclarationError` if the argument is not a store but, for example, a URL or a model."""
    if isinstance(store, type) or not hasattr(store, "capabilities"):
        name = store.__name__ if isinstance(store, type) else type(store).__name__
        raise DeclarationError("Give a store first, as hb.connect(url) opens it.", found=name)
