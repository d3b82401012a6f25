"""Turns the read of one object, or of some of its columns, into the read of a part of a row."""

from __future__ import annotations

from hbmodel.store.values import Cell, Get, Row
from hbmodel.store.wide.wide_rows import ROW_VERSION, ObjectRow, WideRows


class PartOfRow:
    """The part of a row that is read for one object, from which the logical row is made.

    Attributes:
        get: the corresponding read of the row.
        versioned: whether the version of the row is wanted too, because all columns are read or the version is one of
            the columns.
    """

    def __init__(self, wide: WideRows, get: Get) -> None:
        self._row, self._lead, self._version = get.row, wide.lead, wide.row_version
        row, prefix = wide.places.cut(get.row)
        lead = len(wide.lead)
        self._cut = lead + len(prefix)
        columns = get.columns
        if wide.bare:
            columns = [wide.lead]
        elif not columns or any(b":" not in column for column in columns):
            columns = ()
        self.versioned = wide.row_version is not None and (not columns or wide.row_version in columns)
        self._nothing = False
        if not columns:
            self.get = Get(row, [wide.family], prefix + get.prefix)
            return
        if not get.prefix and wide.row_version is None:
            head = wide.lead + prefix
            self.get = Get(row, [head + column[lead:] for column in columns])
            return
        own = [column for column in columns if column != wide.row_version]
        wanted = [column for column in own if column[lead:].startswith(get.prefix)]
        self._nothing = not wanted
        self.get = Get(row, [wide.column(prefix, column) for column in wanted or own] or [wide.lead + ROW_VERSION])

    def object(self, row: Row | None, version: Cell | None = None) -> ObjectRow | None:
        """Returns the logical row, with the version of the wide row. There may be a version although there is no
        object.
        """
        columns: dict[bytes, Cell] = {}
        if row is not None and not self._nothing:
            cut, lead = self._cut, self._lead
            columns = {lead + column[cut:]: cell for column, cell in row.columns.items()}
        if self._version is not None:
            columns.pop(self._lead, None)  # the version of the row was read too if its qualifier equals the prefix
            if version is not None:
                columns[self._version] = version
        return ObjectRow(self._row, columns) if columns else None
