"""Stored cells and rows, their bytes, and the rules by which versions of a cell hide or outlive each other.

Versions that no read can see any more are not stored. There are two kinds of them. First, a tombstone hides versions up
to its time, even if they are put after the delete. Second, a read shows no more versions of a cell than its family
keeps. So a version is hidden permanently by that many newer versions, if they have different timestamps and live at
least as long. The stored versions of a cell form a chain, newest first. In a family that keeps one version, the chain
has more than one version only if puts with an explicit TTL (`Put.ttl`) are above versions that live longer.

The cells of a row are stored as one MessagePack map, from column to `[value, timestamp, ttl, older]`, sorted by column.
A row that becomes larger than a segment is cut into several segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from hbmodel.errors import StoreError
from hbmodel.store.values import Cell

SEGMENT_SIZE = 16 * 1024
"""The default size, in bytes, above which an encoded segment is cut into pieces of half this size."""

NEVER = 1 << 63
"""A time later than every timestamp."""


class StoredCell(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One version of one cell, as read and as stored.

    Attributes:
        value: the stored bytes.
        timestamp: milliseconds since 1970.
        ttl: the TTL of the put, in ms from `timestamp`, or None.
        older: the next older version that could still be seen, or None.
    """

    value: bytes
    timestamp: int
    ttl: int | None = None
    older: StoredCell | None = None

    @property
    def last_instant(self) -> int:
        """The last millisecond at which the version is visible, according to the TTL of its put."""
        return NEVER if self.ttl is None else self.timestamp + self.ttl


class StoredRow(msgspec.Struct, frozen=True, gc=False):
    """One row as it was read."""

    row: bytes
    columns: Mapping[bytes, Cell]


Cells = dict[bytes, StoredCell]
"""The chains of a row or of a segment by `family:qualifier`."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Cells)


def decode_cells(data: bytes) -> Cells:
    """Reads one segment.

    Raises:
        StoreError: the bytes were not written by this module.
    """
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise StoreError("The embedded store's file is damaged: the cells of a row cannot be read.") from error


def encode_segments(
    first: bytes, cells: Mapping[bytes, StoredCell], limit: int
) -> Iterator[tuple[bytes, Mapping[bytes, StoredCell], bytes]]:
    """Divides the sorted cells of one segment into as many segments as their size requires.

    Args:
        first: the lower bound of the segment; the first piece keeps it, and each other piece begins at its first
            column.
        cells: the cells, sorted by column.
        limit: the number of bytes above which an encoded segment is cut, unless it has only one cell.

    Yields:
        Lower bound, cells and encoded bytes of each piece.
    """
    data = _encoder.encode(cells)
    if len(data) <= limit or len(cells) == 1:
        yield first, cells, data
        return
    piece: Cells = {}
    size = 0
    for column, cell in cells.items():
        cost = len(column) + len(_encoder.encode(cell))
        if piece and size + cost > limit // 2:
            yield first, piece, _encoder.encode(piece)
            first, piece, size = column, {}, 0
        piece[column] = cell
        size += cost
    yield first, piece, _encoder.encode(piece)


def earliest_end(cells: Mapping[bytes, StoredCell]) -> int | None:
    """Returns the earliest time at which the newest version of a cell expires because of the TTL of its put. Returns
    None if none of these versions was put with a TTL.
    """
    earliest = min((cell.last_instant for cell in cells.values()), default=NEVER)
    return None if earliest >= NEVER else earliest


def visible(cell: StoredCell | None, now: int, oldest: int, before: int = NEVER) -> StoredCell | None:
    """Returns the newest version of a chain that is still alive, or None.

    A version whose age is exactly its TTL is still alive (HBase's `isCellTTLExpired` and `ColumnTracker.isExpired`).

    Args:
        cell: the chain.
        now: the server's time in ms.
        oldest: the oldest timestamp that is still alive under the family's TTL.
        before: versions with this timestamp or a later one are left out.
    """
    while cell is not None:
        if cell.timestamp < oldest:
            return None
        if cell.timestamp < before and (cell.ttl is None or cell.timestamp + cell.ttl >= now):
            return cell
        cell = cell.older
    return None


def visible_versions(cell: StoredCell | None, now: int, oldest: int, before: int, limit: int) -> list[StoredCell]:
    """Returns the versions of a chain that are alive, newest first: one for each timestamp, and at most `limit`. The
    other arguments are those of `visible`.
    """
    versions: list[StoredCell] = []
    while len(versions) < limit and (cell := visible(cell, now, oldest, before)) is not None:
        versions.append(cell)
        before = cell.timestamp
    return versions


def has_version_of(cell: StoredCell | None, timestamp: int) -> bool:
    """Returns whether a chain has a version, dead or alive, with this timestamp."""
    while cell is not None and cell.timestamp > timestamp:
        cell = cell.older
    return cell is not None and cell.timestamp == timestamp


def masked(cell: StoredCell | None, tombstone: int) -> StoredCell | None:
    """Returns the chain of the versions that are newer than a tombstone, or None."""
    if cell is None or cell.timestamp <= tombstone:
        return None
    if cell.older is None:
        return cell
    return _chain([version for version in _versions(cell) if version.timestamp > tombstone])


def with_version(
    chain: StoredCell | None, value: bytes, timestamp: int, ttl: int | None, max_versions: int
) -> StoredCell:
    """Returns the chain after a put. If several versions have the same timestamp, the version that was put last counts
    as the newest.

    Args:
        chain: the chain before the put.
        value: the bytes of the put.
        timestamp: the timestamp of the put, in ms.
        ttl: the TTL of the put, in ms, or None.
        max_versions: how many versions the family keeps. An older version is dropped if `max_versions` newer timestamps
            each have a version that lives at least as long. Reads could see the older version only after all these
            newer versions have expired, and a compaction may drop the older version before that. Versions with the same
            timestamp count once, because a compaction keeps only the newest of them, even if that version expires
            first.
    """
    if ttl is None and max_versions == 1:
        if chain is None or timestamp >= chain.timestamp:
            return StoredCell(value, timestamp)
        if chain.ttl is None:
            return chain
    versions = _versions(chain)
    place = next((place for place, version in enumerate(versions) if timestamp >= version.timestamp), len(versions))
    versions.insert(place, StoredCell(value, timestamp, ttl))
    remaining: list[StoredCell] = []
    for version in versions:
        outliving = {newer.timestamp for newer in remaining if newer.last_instant >= version.last_instant}
        if version.timestamp in outliving or len(outliving) >= max_versions:
            continue
        remaining.append(version)
    result = _chain(remaining)
    assert result is not None
    return result


def compacted(cell: StoredCell, now: int, oldest: int, max_versions: int) -> StoredCell | None:
    """Returns the chain of the versions that a major compaction keeps: the newest living versions, one for each
    timestamp, and at most `max_versions`.
    """
    remaining: list[StoredCell] = []
    for version in _versions(cell):
        if version.timestamp < oldest or len(remaining) == max_versions:
            break
        if version.last_instant < now or (remaining and remaining[-1].timestamp == version.timestamp):
            continue
        remaining.append(version)
    return _chain(remaining)


def _versions(cell: StoredCell | None) -> list[StoredCell]:
    versions = []
    while cell is not None:
        versions.append(cell)
        cell = cell.older
    return versions


def _chain(versions: list[StoredCell]) -> StoredCell | None:
    chain: StoredCell | None = None
    for version in reversed(versions):
        chain = StoredCell(version.value, version.timestamp, version.ttl, chain)
    return chain
