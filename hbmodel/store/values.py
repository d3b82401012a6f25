"""The port to storage: the `Store` protocol that every adapter fulfils, and the values that pass through it.

A store speaks HBase's language (tables, rows, cells, timestamps) and knows nothing of models. Columns are written
`family:qualifier` as bytes, as everywhere in HBase. Timestamps are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from attrs import field, frozen

from hbmodel.errors import DeclarationError, InvalidRequest
from hbmodel.store.filters import Filter
from hbmodel.store.ranges import KeyRange

MAX_ROW_LENGTH = 32_767
"""Longest row key that HBase stores, in bytes (`HConstants.MAX_ROW_LENGTH`)."""

MAX_CELL_SIZE = 10 * 1024 * 1024
"""Largest cell that HBase accepts by default, in bytes (`hbase.client.keyvalue.maxsize`), key and overhead included."""


CELL_OVERHEAD = 20
"""Bytes of a stored cell beside row, column and value: lengths (8), row length (2), family length (1), timestamp (8), type (1)."""


CLOCK_TICK = 0.002
"""Seconds after which every server's clock, and this machine's, shows another millisecond. A delete at the server's time is
acknowledged so much later, since it hides puts of its own millisecond."""


class Cell(Protocol):
    """The newest visible version of one column of one row."""

    @property
    def value(self) -> bytes:
        """The stored bytes."""
        ...

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""
        ...


class Row(Protocol):
    """One row as read; adapters hand out their own types, unconverted, where these fit."""

    @property
    def row(self) -> bytes:
        """The row key."""
        ...

    @property
    def columns(self) -> Mapping[bytes, Cell]:
        """The cells that were asked for and exist, by `family:qualifier`. Never empty."""
        ...


@frozen
class Put:
    """Cells to write to one row, atomically.

    Attributes:
        row: row key, 1 to 32,767 bytes.
        cells: `family:qualifier` -> value; at least one.
        timestamp: of every cell, in ms; None lets the server give its time.
        ttl: life of the cells in ms, or None for the family's own.
    """

    row: bytes
    cells: Mapping[bytes, bytes]
    timestamp: int | None = None
    ttl: int | None = None


@frozen
class Delete:
    """Tombstones to write to one row.

    Attributes:
        row: row key.
        families: families whose cells up to `timestamp` go.
        columns: single columns (`family:qualifier`) whose cells up to `timestamp` go. With neither families nor columns the
            whole row goes.
        timestamp: in ms, inclusive: a cell of exactly this time goes, a newer one stays, and so does no older one that is
            put later (until a major compaction). None means the server's time.
    """

    row: bytes
    families: Sequence[bytes] = ()
    columns: Sequence[bytes] = ()
    timestamp: int | None = None


EVERYTHING = KeyRange()
"""All rows."""


@frozen
class Scan:
    """One range of one table to read.

    Attributes:
        range: the rows, half-open, whatever the direction.
        reversed: from the last row of the range to the first.
        columns: `family:qualifier` or `family` each; empty reads every family. A row with none of them is not returned.
        filter: evaluated by the store.
        limit: stop after so many rows, or None.
        batch_size: rows fetched in one round trip, at most.
    """

    range: KeyRange = EVERYTHING
    reversed: bool = False
    columns: Sequence[bytes] = ()
    filter: Filter | None = None
    limit: int | None = None
    batch_size: int = 1000


# --- tables -----------------------------------------------------------------------------------------------------------


FOREVER = 2**31 - 1
"""The TTL of cells that never end, in seconds (`HConstants.FOREVER`)."""


@frozen
class Family:
    """Options of one column family; None leaves the server's default.

    Attributes:
        name: without the colon.
        max_versions: how many versions of a cell are kept.
        ttl: life of cells, in seconds; they live forever by default, and with `FOREVER`, which `Store.families` tells as None.
        compression: e.g. `"SNAPPY"`.
        bloom_filter: `"NONE"`, `"ROW"` or `"ROWCOL"`.
        block_size: of HFile blocks, in bytes.
        in_memory: whether the block cache favours the family.
        configuration: further settings by name; stores without a place for them refuse them.
    """

    name: bytes
    max_versions: int | None = None
    ttl: int | None = None
    compression: str | None = None
    bloom_filter: str | None = None
    block_size: int | None = None
    in_memory: bool | None = None
    configuration: Mapping[str, str] = field(factory=dict)


@frozen
class Region:
    """One region of a table: its rows and the server's name for it."""

    range: KeyRange
    name: bytes


@frozen
class Capabilities:
    """What a store can do; callers ask, never guess.

    Attributes:
        check_and_mutate: conditional, atomic change of a whole row with timestamps.
        mutate_row: puts and deletes of one row in one atomic call.
        presplit: tables created with split keys.
        family_configuration: block sizes and free-form settings of families, given and shown.
        put_ttl_mixed: puts with different TTLs in one call.
        alter: column families of live tables added and changed.
        namespaces: namespaces created and deleted.
        one_call_scans: up to a batch of rows read in a single call, without a scanner that is opened first.
    """

    check_and_mutate: bool
    mutate_row: bool
    presplit: bool
    family_configuration: bool
    put_ttl_mixed: bool
    alter: bool
    namespaces: bool
    one_call_scans: bool


class Store(Protocol):
    """A map of bytes with HBase's semantics. Thread-safe. Every method may raise `StoreError` and its subclasses.

    `StoreUnavailable` promises that nothing was done; `UnknownOutcome` promises nothing, so callers repeat the same
    mutation with the same timestamp.
    """

    token_key: bytes | str | None
    """Carried for sessions: seals their continuation tokens."""

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        ...

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        """Reads rows in one call; the answer has the order and length of `rows`, None where a row has none of the columns."""
        ...

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        """Starts scans; each answer yields batches of rows (never an empty batch) and can be closed early (`close()`).

        The adapter may send the first requests of all scans before it waits for any answer.
        """
        ...

    def put(self, table: str, puts: Sequence[Put]) -> None:
        """Writes many rows; atomic per row only. After an error any subset may be applied."""
        ...

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        """Deletes in many rows; after an error any subset may be applied."""
        ...

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        """Applies puts and deletes of one row atomically. Needs `capabilities.mutate_row`, else `CapabilityError`."""
        ...

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        """Puts one cell if `column` holds exactly `expected`; None or empty expects an absent or empty cell.

        `put.timestamp` must be None (the server gives the larger of its clock and the checked cell's time) and `put` holds
        exactly one cell of the same row. Returns whether it was applied. Never repeated by the store.
        """
        ...

    def check_and_mutate(self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]) -> bool:
        """Applies mutations of one row atomically if `column` holds exactly `expected` (None or empty: absent or empty).

        Needs `capabilities.check_and_mutate`, else `CapabilityError`. Never repeated by the store.
        """
        ...

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        """Adds to an 8-byte counter atomically and returns its new value. Never repeated by the store."""
        ...

    def tables(self) -> list[str]:
        """Names of all tables, sorted."""
        ...

    def families(self, table: str) -> list[Family]:
        """The column families of a table, sorted by name, with all their options.

        A store without `capabilities.family_configuration` shows neither block sizes (None) nor configurations (empty).
        """
        ...

    def create_table(self, table: str, families: Sequence[Family], split_keys: Sequence[bytes] = ()) -> None:
        """Creates a table in a namespace that exists; raises `TableExists`. Split keys need `capabilities.presplit`."""
        ...

    def add_family(self, table: str, family: Family) -> None:
        """Adds a column family to a live table; raises `FamilyExists`. Needs `capabilities.alter`, else `CapabilityError`."""
        ...

    def modify_family(self, table: str, family: Family) -> None:
        """Changes options of a live table's column family: what `family` leaves None, or out of its configuration, stays as it is.

        Cells that a shorter TTL or fewer versions leave out may be gone for good. Needs `capabilities.alter`, else
        `CapabilityError`.
        """
        ...

    def delete_table(self, table: str) -> None:
        """Disables and drops a table and all its rows."""
        ...

    def namespaces(self) -> list[str]:
        """Names of all namespaces, sorted: `default`, and those that were created, but not HBase's own.

        Raises `CapabilityError` where the store cannot tell them.
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

    def close(self) -> None:
        """Releases connections and files; further calls raise `StoreClosed`. Closing twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


@runtime_checkable
class RepeatingStore(Protocol):
    """A store that may repeat requests by itself, and tells on request how often it does."""

    def telling_repeats(self, repeated: Callable[[], None]) -> Store:
        """A view of the same store, on the same connections, that calls `repeated` each time it tries a request again.

        It is called in the thread that waits for the answer.
        """
        ...


class BegunPut(Protocol):
    """A put under way; one of its methods must be called, once, in the thread that began it."""

    def end(self) -> None:
        """Waits for the answer and raises what `put` would have raised; whatever could not be begun is done now."""
        ...

    def abandon(self) -> None:
        """Waits for nothing: all, some or none of it is done."""
        ...


@runtime_checkable
class BeginningStore(Protocol):
    """A store that can send a put and leave the caller to other work, such as a put into another table, until the answer is there."""

    def begin_put(self, table: str, puts: Sequence[Put]) -> BegunPut:
        """Begins what `put` does; raises `InvalidRequest` and `StoreClosed` at once, all else when it is ended."""
        ...


def check_store(store: object) -> None:
    """Raises `DeclarationError` for what is no store: a URL, a model that was given in its place."""
    if isinstance(store, type) or not hasattr(store, "capabilities"):
        name = store.__name__ if isinstance(store, type) else type(store).__name__
        raise DeclarationError("Give a store first, as hb.connect(url) opens it.", found=name)


# --- checks shared by adapters ----------------------------------------------------------------------------------------


NO_TABLE = "There is no such table; hb.create_tables() makes the tables of models."
"""What `TableNotFound` says."""


def check_row(table: str, row: bytes) -> None:
    """Raises `InvalidRequest` for a row key that is none, or that HBase answers only with "internal error"."""
    if not isinstance(row, bytes):
        raise InvalidRequest("A row key is bytes.", table=table, found=type(row).__name__)
    if not row:
        raise InvalidRequest("A row key must not be empty.", table=table)
    if len(row) > MAX_ROW_LENGTH:
        raise InvalidRequest("A row key must not be longer than 32,767 bytes.", table=table, length=len(row))


def check_cells(table: str, row: bytes, cells: Mapping[bytes, bytes]) -> None:
    """Raises `InvalidRequest` for cells that are none, or that HBase answers only with "internal error"."""
    if not cells:
        raise InvalidRequest("A put needs at least one cell.", table=table, key=row)
    for column, value in cells.items():
        if not isinstance(column, bytes) or not isinstance(value, bytes | bytearray | memoryview):
            raise InvalidRequest(
                "Columns and values are bytes.", table=table, key=row, found=sorted({type(column).__name__, type(value).__name__})
            )
        if b":" not in column:
            raise InvalidRequest("A column must be written family:qualifier.", table=table, key=row, column=column)
        if len(row) + len(column) + len(value) + CELL_OVERHEAD > MAX_CELL_SIZE:
            raise InvalidRequest("A cell is larger than the 10 MiB that HBase accepts.", table=table, key=row, column=column)
