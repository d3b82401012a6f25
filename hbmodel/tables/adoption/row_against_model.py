"""Judges rows of a table by decoding them with the model, encoding them again, and comparing the bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from attrs import Factory, define, field

from hbmodel.errors import DecodingError, EncodingError
from hbmodel.mapping.rows.liveness import existence
from hbmodel.mapping.schema import (
    CLAIM_QUALIFIER,
    EXPIRY_QUALIFIER,
    LIVENESS_QUALIFIER,
    ROW_VERSION_QUALIFIER,
    STATUS_QUALIFIER,
    VERSION_QUALIFIER,
    Field,
    TableSchema,
)
from hbmodel.store.port import Store
from hbmodel.store.values import Cell, Row
from hbmodel.store.wide.row_pieces import cut
from hbmodel.store.wide.wide_rows import ObjectRow, Unfolding
from hbmodel.tables.adoption.adopt_findings import Collected, Kind, text_of
from hbmodel.tables.adoption.table_sample import CELLS

LATE = 60_000
"""A timestamp is reported as in the future if it is more than this many milliseconds ahead of this machine's clock."""

MILLISECONDS = 10**14
"""Timestamps from here on (the year 5138) are surely not in milliseconds."""

SYSTEM = frozenset(
    (
        VERSION_QUALIFIER,
        LIVENESS_QUALIFIER,
        EXPIRY_QUALIFIER,
        CLAIM_QUALIFIER,
        STATUS_QUALIFIER,
        ROW_VERSION_QUALIFIER,
    )
)
"""The qualifiers of hbmodel's own cells."""

ColumnTest = Callable[[bytes], bool]
"""A condition on a column, which is given as `family:qualifier`."""


@define
class Tally:
    """The numbers of rows and objects that were judged. For a wide model, rows without a cell of the model count as
    absent.

    Attributes:
        rows: the rows that have a cell in the families of the model.
        objects: the objects that can be read.
        unreadable: the objects whose reading raises an error.
        absent: the rows or objects that the model leaves out.
    """

    rows: int = 0
    objects: int = 0
    unreadable: int = 0
    absent: int = 0


@define
class RowJudge:
    """Collects the contradictions between stored rows and the model.

    Attributes:
        has_system_cells: whether it is registered that hbmodel adds cells to the table's rows.
        others: for each other registered model of the table, a function that tells whether a column belongs to that
            model. Such columns need no declaration.
    """

    store: Store
    schema: TableSchema
    has_system_cells: bool = False
    others: Sequence[ColumnTest] = ()
    collected: Collected = field(factory=Collected)
    tally: Tally = field(factory=Tally)
    _exists: Callable[[Row], bool] = field(
        init=False, default=Factory(lambda self: existence(self.schema, False, self.has_system_cells), takes_self=True)
    )
    _known: Mapping[bytes, Field] = field(
        init=False, default=Factory(lambda self: {f.column: f for f in self.schema.columns}, takes_self=True)
    )

    def judge(self, row: Row) -> None:
        """Judges one row, with at most `CELLS` of its cells."""
        self.tally.rows += 1
        schema, cells = self.schema, row.columns
        whole = len(cells) < CELLS
        self._times(row.row, cells)
        if schema.wide is None:
            self._object(row.row, row.row, cells if whole else {**cells, **self._declared_cells(row.row)})
        elif schema.row is not None and row.row != schema.row:
            self._count("absent")
            self.collected.add("other-row", key=row.row)
        else:
            self._wide(row.row, cells, whole)

    def _count(self, what: str) -> None:
        setattr(self.tally, what, getattr(self.tally, what) + 1)

    # --- cells --------------------------------------------------------------------------------------------------------

    def _times(self, key: bytes, cells: Mapping[bytes, Cell]) -> None:
        latest = time.time() * 1000 + LATE
        for column, cell in cells.items():
            if cell.timestamp > latest:
                kind: Kind = "no-milliseconds" if cell.timestamp >= MILLISECONDS else "future"
                self.collected.add(
                    kind, text_of(column.partition(b":")[0]), key=key, detail=f"timestamp={cell.timestamp}"
                )

    def _declared_cells(self, key: bytes) -> Mapping[bytes, Cell]:
        """Returns the cells of a long row that the model declares."""
        schema = self.schema
        columns = [*self._known, *([] if schema.exists_column is None else [schema.exists_column])]
        (row,) = self.store.get(schema.table, [key], columns)
        return {} if row is None else row.columns

    def _wide(self, key: bytes, cells: Mapping[bytes, Cell], whole: bool) -> None:
        wide = self.schema.wide_rows
        assert wide is not None
        start = len(wide.lead)
        names: list[bytes] = []
        for column, cell in cells.items():
            if not column.startswith(wide.lead):
                self.collected.add_column("undeclared", column, key=key, found=cell.value)
            elif wide.prefix_end(column[start:]) is not None:
                names.append(column)
            elif not column.startswith(self.schema.kind, start):
                continue  # a qualifier of another kind does not belong to the model
            elif wide.strict:
                kind: Kind = "qualifier" if len(column) > start else "empty-qualifier"
                self.collected.add(kind, key=key, found=column[start:] or cell.value)
            else:
                lead = text_of(wide.lead + self.schema.kind)
                self.collected.add("undeclared", f"{lead}*", key=key, found=column[start:])
        if names and not whole:
            names = names[: cut(wide, names)[1]]
        if not names:
            self._count("absent")
            return
        for obj in Unfolding(wide).objects(key, names, [cells[name] for name in names]):
            self._object(key, obj.row, obj.columns)

    # --- objects ------------------------------------------------------------------------------------------------------

    def _object(self, row: bytes, place: bytes, cells: Mapping[bytes, Cell]) -> None:
        """Judges one object, or a row that should be an object.

        Args:
            row: the row key.
            place: the object key, which is the row key unless objects share rows.
            cells: the cells of the object, by `family:alias`.
        """
        found = self.collected
        cells = self._without_system_cells(row, cells)
        if not self._exists(ObjectRow(place, cells)):
            deleted = self.has_system_cells and self.schema.liveness_column in cells
            if not deleted and any(not self._is_of_others(column) for column in cells):
                found.add("no-object", key=row)
            self._count("absent")
            return
        readable = self._key(row, place)  # queries read the keys of objects only
        self._undeclared(row, cells)
        for f in self.schema.columns:
            cell = cells.get(f.column)
            if cell is None:
                if f.required:
                    found.add("required", f.name, key=row)
                    readable = False
            elif not self._value(row, f, cell.value):
                readable = False
        if (
            not self.schema.required_columns
            and self.schema.exists_column is None
            and self._known.keys().isdisjoint(cells)
        ):
            found.add("no-column", key=row, detail=f"columns={[text_of(column) for column in [*cells][:5]]}")
        self._count("objects" if readable else "unreadable")

    def _key(self, row: bytes, place: bytes) -> bool:
        """Returns whether the key can be read. A key with a wrong salt bucket cannot be read."""
        schema, found = self.schema, self.collected
        width, salt = schema.salt.width, schema.salt
        try:
            values = schema.layout.unpack(place, width)
        except DecodingError as error:
            found.add("key", error.details.get("field"), key=row, found=place, detail=error.message)
            return False
        try:
            parts = schema.layout.pack_parts(values)
        except EncodingError as error:
            found.add("key-bytes", error.details.get("field"), key=row, found=place, detail=error.message)
            return True
        if b"".join(parts) != place[width:]:
            ends = accumulate(map(len, parts), initial=width)
            differs = next(
                (
                    name
                    for name, part, start in zip(schema.layout.names, parts, ends, strict=False)
                    if place[start : start + len(part)] != part
                ),
                schema.layout.names[-1],
            )
            found.add("key-bytes", differs, key=row, found=place, detail=f"written={b''.join(parts)!r}")
            return True
        if not width:
            return True
        prefix = place[:width]
        expected = None if salt.random else salt.prefix(salt.bucket_of(parts))
        right = prefix in salt.prefixes if expected is None else prefix == expected
        if not right:
            found.add("bucket", key=row, found=prefix, detail=None if expected is None else f"expected={expected!r}")
        return right

    def _without_system_cells(self, row: bytes, cells: Mapping[bytes, Cell]) -> Mapping[bytes, Cell]:
        if self.has_system_cells:
            return cells
        system = [
            column
            for column in cells
            if column not in self._known and column != self.schema.exists_column and column.partition(b":")[2] in SYSTEM
        ]
        for column in system:
            if column == self.schema.expiry_column:  # this model writes this cell too, into rows with a TTL
                continue
            self.collected.add_column("system-cell", column, key=row, found=cells[column].value)
        return {column: cell for column, cell in cells.items() if column not in system} if system else cells

    def _undeclared(self, row: bytes, cells: Mapping[bytes, Cell]) -> None:
        schema = self.schema
        for column, cell in cells.items():
            explained = column in self._known or column == schema.exists_column
            explained = explained or self._is_of_others(column)
            if not explained and not (self.has_system_cells and schema.is_system(column)):
                self.collected.add_column("undeclared", column, key=row, found=cell.value)

    def _is_of_others(self, column: bytes) -> bool:
        """Returns whether a cell belongs to another model or program. If objects share rows, a cell with the prefix of
        an object belongs to this model.
        """
        return self.schema.wide is None and any(test(column) for test in self.others)

    def _value(self, row: bytes, f: Field, data: bytes) -> bool:
        try:
            value = f.decode_cell(data)
        except DecodingError as error:
            self.collected.add("value", f.name, key=row, found=data, detail=error.message)
            return False
        try:
            again = f.encode_cell(value)
        except EncodingError as error:
            self.collected.add("value-bytes", f.name, key=row, found=data, detail=error.message)
            return True
        if again != data:
            kind: Kind = "value-bytes" if f.codec.canonical else "value-form"
            self.collected.add(kind, f.name, key=row, found=data, detail=f"written={again[:64]!r}")
        return True
