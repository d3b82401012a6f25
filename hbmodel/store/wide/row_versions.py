"""The version of a row that objects share: a cell in each column family, or one cell to which links in other families
point.

A conditional mutation in HBase checks only one cell of a row. So objects of two families can be changed together only
if both families have their version in the same cell. Therefore, the first commit that writes objects of two families
into a row replaces the version of one family by a link. A link consists of 8 zero bytes and the column that has the
version from then on. A link is put only if the version has not changed since it was read. After that, a program that
has read the replaced version can no longer write. A link is never replaced. Of two columns, the later one in byte order
gets the link, so links form no cycle.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve, frozen

from hbmodel.store.gate import pass_gate
from hbmodel.store.port import Store
from hbmodel.store.values import Cell, ConditionalChange, Delete, Put

LENGTH = 8
"""The number of random bytes in a version."""

_LINK = bytes(LENGTH)
_SIZE = 2


@frozen
class RowVersionCell:
    """The version of a row as it was read.

    Attributes:
        value: the bytes of the version; empty if there is none.
        timestamp: the timestamp of the version's cell or, if there is no version, of the last link.
    """

    column: bytes
    value: bytes
    timestamp: int

    def shown(self, own: bytes) -> Cell:
        """Returns the cell that objects of a family get as the version of their row. If the version is not in the
        family's column `own`, the value also contains the column that has the version.
        """
        if self.column == own:
            return self
        return evolve(self, value=_LINK + len(self.column).to_bytes(_SIZE) + self.column + self.value)


def _placed(shown: bytes) -> tuple[bytes, bytes]:
    """Splits the value of a cell made by `shown` into column and version. The column is empty if it is the column of
    the object's family.
    """
    if not shown.startswith(_LINK) or len(shown) == LENGTH:
        return b"", shown
    start = LENGTH + _SIZE
    end = start + int.from_bytes(shown[LENGTH:start])
    return shown[start:end], shown[end:]


def version_shown(cell: bytes | None) -> bytes | None:
    """Returns the version in the value of a cell made by `shown`, without the column, or None if there is no
    version.
    """
    return None if cell is None else _placed(cell)[1] or None


def checked_where_it_stands(change: ConditionalChange, own: bytes) -> ConditionalChange:
    """Makes a change check and put the version in the column that has it, instead of the column `own` of the object's
    family.
    """
    if change.column != own or change.expected is None:
        return change
    column, expected = _placed(change.expected)
    if not column:
        return change
    return ConditionalChange(
        change.row, column, expected or None, [_in_column(mutation, own, column) for mutation in change.mutations]
    )


def _in_column(mutation: Put | Delete, own: bytes, column: bytes) -> Put | Delete:
    if not isinstance(mutation, Put) or own not in mutation.cells:
        return mutation
    return evolve(mutation, cells={column if name == own else name: value for name, value in mutation.cells.items()})


def read_row_versions(store: Store, table: str, column: bytes, rows: Iterable[bytes]) -> dict[bytes, RowVersionCell]:
    """Returns the versions of some rows for one family, by row. Rows without a version are left out. Links are followed
    in further calls.

    Args:
        column: the column of the family's versions.
    """
    versions: dict[bytes, RowVersionCell] = {}
    linked: dict[bytes, list[bytes]] = {column: sorted(rows)}
    while linked:
        column, linked_rows = linked.popitem()
        for row in store.get(table, linked_rows, [column]) if linked_rows else ():
            cell = None if row is None else row.columns.get(column)
            if row is None or cell is None:
                continue
            if leader := _linked_to(cell.value):
                versions[row.row] = RowVersionCell(leader, b"", cell.timestamp)
                linked.setdefault(leader, []).append(row.row)
            else:
                versions[row.row] = RowVersionCell(column, cell.value, cell.timestamp)
    return versions


def read_versions_of(
    store: Store, table: str, columns: Mapping[bytes, Iterable[bytes]]
) -> dict[bytes, list[RowVersionCell]]:
    """Returns the versions of some rows for several families. The list of each row has one version for each column that
    holds, or would hold, a version.

    Args:
        columns: the columns of the families' versions, by row.
    """
    versions_by_column: dict[bytes, dict[bytes, RowVersionCell]] = {row: {} for row in columns}
    for column in sorted(set().union(*columns.values())):
        rows = [row for row, some in columns.items() if column in some]
        versions = read_row_versions(store, table, column, rows)
        for row in rows:
            version = versions.get(row) or RowVersionCell(column, b"", 0)
            versions_by_column[row][version.column] = version
    return {row: list(of_row.values()) for row, of_row in versions_by_column.items()}


def _linked_to(value: bytes) -> bytes:
    """Returns the column to which a link points, or an empty column if the value is a version."""
    return value[LENGTH:] if value.startswith(_LINK) else b""


def link_row_versions(
    store: Store, table: str, rows: Mapping[bytes, Sequence[RowVersionCell]]
) -> dict[bytes, RowVersionCell]:
    """Joins the versions that a row has in several columns into one version, in the first of these columns.

    Args:
        rows: the versions of each row as they were read, all in different columns. An absent version has an empty
            value.

    Returns:
        The resulting version of each row, by row. The timestamps of these versions have no meaning. A row is left out
        if one of its versions was written since it was read.
    """
    leaders = {row: min(versions, key=lambda version: version.column) for row, versions in rows.items()}
    new = {row: evolve(leader, value=os.urandom(LENGTH)) for row, leader in leaders.items() if not leader.value}
    created = [ConditionalChange(row, to.column, None, [Put(row, {to.column: to.value})]) for row, to in new.items()]
    links = [
        ConditionalChange(row, version.column, version.value or None, [_link(row, version, leaders[row].column)])
        for row, versions in rows.items()
        for version in versions
        if version.column != leaders[row].column
    ]
    done = leaders | new
    for changes in (created, links):
        if changes:
            pass_gate()
            for change, applied in zip(changes, store.check_and_mutate_many(table, changes), strict=True):
                if not applied:
                    done.pop(change.row, None)
    return done


def _link(row: bytes, version: RowVersionCell, leader: bytes) -> Put:
    # The link gets a higher timestamp than the version that was read, even if clocks differ. Nothing is put over a
    # link.
    return Put(row, {version.column: _LINK + leader}, version.timestamp + 1 if version.value else None)


def link_apart(store: Store, table: str, changes: Sequence[ConditionalChange]) -> set[bytes]:
    """If some changes check the version of one row in several columns, links these versions. Returns the rows for which
    this was done.

    The versions of the returned rows must be read again. Rows that none of the changes writes are not changed.
    """
    written = {change.row for change in changes if change.mutations}
    columns: dict[bytes, set[bytes]] = {}
    for change in changes:
        if change.row in written:
            columns.setdefault(change.row, set()).add(change.column)
    apart = {row: of_row for row, of_row in columns.items() if len(of_row) > 1}
    if apart:
        link_row_versions(store, table, read_versions_of(store, table, apart))
    return set(apart)
