"""The major compaction of an embedded table, which removes tombstones and versions that no read can see any more."""

from __future__ import annotations

import sqlite3

from hbmodel.store.embedded.cells import NEVER, Cells, compacted, decode_cells, earliest_end, encode_segments
from hbmodel.store.embedded.descriptor import TableDescriptor
from hbmodel.store.embedded.write import REMOVE, store_segments

_PURGE_SETTING = "hbase.hstore.time.to.purge.deletes"
_SEGMENTS_READ = 512


def compact_table(
    connection: sqlite3.Connection, table_id: int, layout: TableDescriptor, now: int, segment_size: int
) -> None:
    """Compacts one table, in a writing transaction.

    Tombstones that are younger than the family's `hbase.hstore.time.to.purge.deletes` (in ms) are kept, as in HBase's
    `DropDeletesCompactionScanQueryMatcher`. Cells that tombstones hide were already removed earlier.

    Args:
        now: the server's time in ms.
        segment_size: the number of bytes above which an encoded segment is cut.
    """
    for family in layout.families:
        kept_for = int(family.configuration.get(_PURGE_SETTING, "0"))
        limit = now - kept_for if kept_for > 0 else NEVER - 1
        name = family.name
        connection.execute(
            "DELETE FROM tombstones WHERE table_id = ? AND (target = ? OR (target >= ? AND target < ?)) AND "
            "timestamp < ?",
            (table_id, name, name + b":", name + b";", limit),
        )
    _rewrite(connection, table_id, layout, now, segment_size)


def _rewrite(
    connection: sqlite3.Connection, table_id: int, layout: TableDescriptor, now: int, segment_size: int
) -> None:
    oldest = {family.name: now - layout.lives.get(family.name, now) for family in layout.families}
    row, first = b"", b""
    while True:
        segments = connection.execute(
            "SELECT row, first, ends, cells FROM segments WHERE table_id = ? AND (row, first) > (?, ?)"
            f" ORDER BY row, first LIMIT {_SEGMENTS_READ}",
            (table_id, row, first),
        ).fetchall()
        if not segments:
            return
        row, first = segments[-1][:2]
        for segment_row, segment_first, ends, data in segments:
            if ends is None and not layout.lives:
                continue
            remaining: Cells = {}
            before = decode_cells(data)
            for column, chain in before.items():
                family = column[: column.index(b":")]
                cell = compacted(chain, now, oldest[family], layout.versions[family])
                if cell is not None:
                    remaining[column] = cell
            if remaining == before:
                continue
            if remaining:
                pieces = encode_segments(segment_first, remaining, segment_size)
                store_segments(
                    connection,
                    [(table_id, segment_row, start, earliest_end(piece), data) for start, piece, data in pieces],
                )
            else:
                connection.execute(REMOVE, (table_id, segment_row, segment_first))
