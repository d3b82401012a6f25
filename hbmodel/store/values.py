"""The values that pass through a store: cells, rows, puts, deletes, scans and column families.

A store uses HBase's terms (tables, rows, cells, timestamps) and knows nothing of models. Columns are written
`family:qualifier` as bytes, as everywhere in HBase. Timestamps are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from hbmodel.store.filters import Filter
from hbmodel.store.ranges import KeyRange

MAX_ROW_LENGTH = 32_767
"""Longest row key that HBase stores, in bytes (`HConstants.MAX_ROW_LENGTH`)."""

MAX_CELL_SIZE = 10 * 1024 * 1024
"""Largest cell that HBase accepts by default, in bytes (`hbase.client.keyvalue.maxsize`), key and overhead included."""


CELL_OVERHEAD = 20
"""Bytes of a stored cell in addition to row, column and value: lengths (8), row length (2), family length (1),
timestamp (8), type (1).
"""


CLOCK_TICK = 0.002
"""Seconds after which the clock of every server, and of this machine, shows a later millisecond. A store waits this
long after a delete at the server's time, because the delete hides puts in the same millisecond.
"""


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
    """One row as read. Adapters may return objects of their own types that match this protocol."""

    @property
    def row(self) -> bytes:
        """The row key."""
        ...

    @property
    def columns(self) -> Mapping[bytes, Cell]:
        """The requested cells that exist, by `family:qualifier`. Never empty, except for the `BegunAgain` of
        `Scan.cells`.

        The cells of one family are adjacent, in the order of their qualifiers as unsigned bytes.
        """
        ...


@frozen
class Get:
    """One row to read, or a part of it.

    Attributes:
        row: row key.
        columns: each `family:qualifier` or `family`; empty reads every family.
        prefix: the prefix of the qualifiers to read; empty reads all of them.
        before: a time in ms: for each cell, the newest version before this time is read, as if there were no later
            versions. Deletes count whatever their time. None reads the newest version.
    """

    row: bytes
    columns: Sequence[bytes] = ()
    prefix: bytes = b""
    before: int | None = None


@frozen
class Put:
    """Cells to write to one row, atomically.

    Attributes:
        row: row key, 1 to 32,767 bytes.
        cells: `family:qualifier` -> value; at least one.
        timestamp: the timestamp of every cell, in ms; None uses the server's time.
        ttl: TTL of the cells in ms, or None for the family's own.
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
        families: families whose cells up to `timestamp` are deleted.
        columns: single columns (`family:qualifier`) whose cells up to `timestamp` are deleted. With neither families
            nor columns, the whole row is deleted.
        timestamp: in ms, inclusive: cells up to exactly this time are hidden, even if they are put later (until a major
            compaction). Newer cells stay. None means the server's time.
    """

    row: bytes
    families: Sequence[bytes] = ()
    columns: Sequence[bytes] = ()
    timestamp: int | None = None


@frozen
class ConditionalChange:
    """Mutations of one row that are applied together if a column holds exactly a value.

    Attributes:
        row: row key of all the mutations.
        column: the column to check, `family:qualifier`.
        expected: its value; None or empty expects an absent or empty cell.
        mutations: at least one.
    """

    row: bytes
    column: bytes
    expected: bytes | None
    mutations: Sequence[Put | Delete]


@frozen
class ConditionalPut:
    """A put of one cell that is applied if a column of its row holds exactly a value.

    Attributes:
        column: the column to check, `family:qualifier`.
        expected: its value; None or empty expects an absent or empty cell.
        put: exactly one cell, without a timestamp.
    """

    column: bytes
    expected: bytes | None
    put: Put


EVERYTHING = KeyRange()
"""All rows."""


@frozen
class Scan:
    """One range of one table to read.

    Attributes:
        range: the rows, half-open, in either direction.
        reversed: from the last row of the range to the first.
        columns: each `family:qualifier` or `family`; empty reads every family. A row with none of them is not returned.
        filter: evaluated by the store.
        limit: stop after this many rows, or None.
        batch_size: maximum number of rows per round trip.
        cells: maximum number of cells of a row to return at once; None for all. A row with more cells comes in pieces,
            in column order. All pieces except the last are full; `limit` and `batch_size` count pieces. All pieces come
            from one read of the row, unless the scan breaks between them: then a `BegunAgain` follows, and after it
            what is left of the row, from its first cell. For forward scans only, and not with filters on values, which
            evaluate whole rows.
        before: as in `Get`; filters see the same versions.
    """

    range: KeyRange = EVERYTHING
    reversed: bool = False
    columns: Sequence[bytes] = ()
    filter: Filter | None = None
    limit: int | None = None
    batch_size: int = 1000
    cells: int | None = None
    before: int | None = None


@frozen
class BegunAgain:
    """A row without columns among the pieces of a row (see `Scan.cells`): it announces that the row is read again, so
    the earlier pieces must not be joined to those that follow.

    Attributes:
        row: the row key.
        columns: none.
    """

    row: bytes
    columns: Mapping[bytes, Cell] = field(factory=dict, init=False)


# --- tables -----------------------------------------------------------------------------------------------------------


FOREVER = 2**31 - 1
"""The TTL of cells that never expire, in seconds (`HConstants.FOREVER`)."""


@frozen
class Family:
    """Options of one column family; an option that is None gets the server's default.

    Attributes:
        name: without the colon.
        max_versions: how many versions of a cell are kept.
        ttl: TTL of cells, in seconds. By default, and with `FOREVER`, cells live forever; `Store.families` returns this
            as None.
        compression: e.g. `"SNAPPY"`.
        bloom_filter: `"NONE"`, `"ROW"` or `"ROWCOL"`.
        block_size: of HFile blocks, in bytes.
        in_memory: whether the block cache favours the family.
        configuration: further settings by name; stores that do not support them refuse them.
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
