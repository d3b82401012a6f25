"""Reads more than the newest version of a cell of an embedded store."""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.store.embedded.cells import NEVER, StoredCell, visible_versions
from hbmodel.store.embedded.descriptor import TableDescriptor
from hbmodel.store.embedded.segments import RowSegments


def versions_of(
    layout: TableDescriptor, table: str, segments: RowSegments, columns: Sequence[bytes], limit: int, now: int
) -> list[Sequence[StoredCell]]:
    """Returns the living versions of some columns of a row, newest first. For each column there are at most `limit`
    versions, and no more than its family keeps.

    Raises:
        FamilyNotFound: the table has no such family.
    """
    versions: list[Sequence[StoredCell]] = []
    for column in columns:
        family = layout.family_of(table, column).name
        segment = segments.holding(column)
        chain = None if segment is None else segment.cells.get(column)
        versions.append(
            visible_versions(
                chain, now, now - layout.lives.get(family, now), NEVER, min(limit, layout.versions[family])
            )
        )
    return versions
