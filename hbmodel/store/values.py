"""The values that pass through a store: cells, rows, puts, deletes, scans and column families.

A store uses HBase's terms (tables, rows, cells, timestamps) and does not depend on models. Columns are written
`family:qualifier` as bytes, as everywhere in HBase. Timestamps are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from hbmodel.store.filters import Filter
from hbmodel.store.ranges import KeyRange

MAX_ROW_LENGTH = 32_767
"""The length of the longest row key that HBase stores, in bytes (`HConstants.MAX_ROW_LENGTH`)."""

MAX_CELL_SIZE = 10 * 1024 * 1024
"""The size of the largest cell that HBase accepts by default, in bytes (`hbase.client.keyvalue.maxsize`), with key and
overhead.
"""


CELL_OVERHEAD = 20
"""The number of bytes of a stored cell in addition to row, column and value: lengths (8), row length (2), family length
(1), timestamp (8), type (1).
"""


CLOCK_TICK = 0.002
"""The number of seconds after which the clocks of all servers, and of this machine, show a later millisecond. A store
waits this long after a delete at the server's time, because the delete hides puts in the same millisecond.
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
    """One row as it was read. Adapters may return objects of their own types that match this protocol."""

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
        columns: each `family:qualifier` or `family`; if empty, every family is read.
        prefix: the prefix of the qualifiers to read; if empty, all of them are read.
        before: a time in ms: for each cell, the newest version before this time is read, as if there were no later
            versions. Deletes apply even if they are later. With None, the newest version is read.
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
        timestamp: the timestamp of every cell, in ms; None means the server's time.
        ttl: TTL of the cells in ms, or None for the TTL of the family.
    """

    row: bytes
    cells: Mapping[bytes, bytes]
    timestamp: int | None = None
    ttl: int | None = None


@frozen
class Delete:
    """Deletes of cells of one row, as tombstones.

    Attributes:
        row: row key.
        families: families whose cells up to `timestamp` are deleted.
        columns: single columns (`family:qualifier`) whose cells up to `timestamp` are deleted. With neither families
            nor columns, the whole row is deleted.
        timestamp: the time in ms, inclusive: cells up to exactly this time are hidden, even if they are put later
            (until a major compaction). Newer cells are kept. None means the server's time.
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
        expected: the value that the column must hold; None, or an empty value, expects an absent or empty cell.
        mutations: the mutations, at least one.
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
        expected: the value that the column must hold; None, or an empty value, expects an absent or empty cell.
        put: the put, with exactly one cell and without a timestamp.
    """

    column: bytes
    expected: bytes | None
    put: Put


EVERYTHING = KeyRange()
"""The range of all rows."""


@frozen
class Scan:
    """A read of one range of rows of a table.

    Attributes:
        range: the range of rows, half-open in either direction.
        reversed: whether to read from the last row of the range to the first.
        columns: each `family:qualifier` or `family`; if empty, every family is read. A row with none of the columns is
            not returned.
        filter: a filter that the store evaluates, or None.
        limit: the maximum number of rows; None for all.
        batch_size: maximum number of rows per round trip.
        cells: maximum number of cells of a row to return at once; None for all. A row with more cells comes in pieces,
            in column order. All pieces except the last are full; `limit` and `batch_size` count pieces. All pieces come
            from one read of the row, unless the scan breaks between them: in this case, a `BegunAgain` follows, and
            then the whole row again, from its first cell. This is only for forward scans, and not for filters on
            values, which evaluate whole rows.
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
    """A row without columns among the pieces of a row (see `Scan.cells`). It shows that the row is read again, so that
    earlier pieces must not be joined to the pieces that follow.

    Attributes:
        row: the row key.
        columns: always empty.
    """

    row: bytes
    columns: Mapping[bytes, Cell] = field(factory=dict, init=False)


# --- tables -----------------------------------------------------------------------------------------------------------


FOREVER = 2**31 - 1
"""The TTL of cells that never expire, in seconds (`HConstants.FOREVER`)."""


@frozen
class Family:
    """The options of one column family. An option that is None gets the server's default.

    Attributes:
        name: the name of the family, without the colon.
        max_versions: how many versions of a cell are kept.
        ttl: TTL of cells, in seconds. By default, and with `FOREVER`, cells live forever; `Store.families` returns this
            as None.
        compression: the compression, such as `"SNAPPY"`.
        bloom_filter: `"NONE"`, `"ROW"` or `"ROWCOL"`.
        block_size: the size of HFile blocks, in bytes.
        in_memory: whether the block cache prefers the family.
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
    """One region of a table, with the range of its rows and its name on the server."""

    range: KeyRange
    name: bytes
