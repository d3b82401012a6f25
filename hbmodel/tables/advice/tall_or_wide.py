"""Compares tall and wide layouts by the rows, bytes and calls that sampled objects need with more or fewer key fields
in the row key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.mapping.schema import TableSchema
from hbmodel.store.values import Row, Scan
from hbmodel.store.wide.page_sizes import PAGE_SIZES
from hbmodel.store.wide.slices import ROWS

PAGE = 20
"""The number of objects on a page, for counting the calls that read the page."""

CELL_BYTES = 20
"""Bytes of every cell in addition to row key, column and value: key and value length (8), row length (2), family length
(1), timestamp (8), type (1).
"""


@frozen
class KeyChoice:
    """The size of the sampled objects, if `row_fields` are in the row key and the other key fields are in the
    qualifier.

    Calls are counted for a gateway that needs one call for a scan (`Capabilities.one_call_scans`).

    Attributes:
        row_fields: names of the fields in the row key.
        column_fields: names of the fields in the qualifier; empty if each object has a separate row. A split field is
            in both lists.
        declared: whether the model declares this layout.
        rows: the number of rows of the sampled objects.
        objects_in_row: the number of objects in the widest row.
        cells_in_row: the number of cells in the widest row. Rows of any width can be read, because they are read in
            pages of up to 5,000 cells, but a row cannot be split over regions.
        bytes: bytes of all cells in HBase's format, before compression and block encoding.
        page_calls: calls for a page of 20 objects.
        scan_calls: calls for all objects.
    """

    row_fields: Sequence[str]
    column_fields: Sequence[str]
    declared: bool
    rows: int
    objects_in_row: int
    cells_in_row: int
    bytes: int
    page_calls: int
    scan_calls: int


@frozen
class Sample:
    """The size of sampled objects in tall and wide layouts.

    Attributes:
        objects: the number of sampled objects.
        cells: the number of their cells, including system cells.
        get_calls: calls for one object, in any layout.
        choices: the possible layouts, from the one with the fewest fields in the row key to the tall layout, in which
            all fields are in the row key.
        unreadable: how many objects were left out because reading them raises an error.
    """

    objects: int
    cells: int
    choices: Sequence[KeyChoice]
    get_calls: int = field(default=1)
    unreadable: int = 0

    def __str__(self) -> str:
        lines = [f"{self.objects} objects sampled, {self.cells} cells; a get is {self.get_calls} call"]
        if self.unreadable:
            lines.append(f"  {self.unreadable} more cannot be read: hb.tables.adopt(store, Model) says why")
        for each in self.choices:
            width = f"{', '.join(each.row_fields) or 'constant'} | {', '.join(each.column_fields) or 'alias'}"
            lines.append(
                f"  {'*' if each.declared else ' '} {width}: {each.rows} rows of up to {each.cells_in_row} cells, "
                f"{each.bytes} bytes, "
                f"page of {PAGE} in {each.page_calls} call(s), all in {each.scan_calls}"
            )
        return "\n".join(lines)


@frozen
class _Object:
    """A sampled object, with its key and the sizes of its cells (without row key and qualifier prefix)."""

    place: bytes
    values: tuple[Any, ...]
    cells: int
    bytes: int


def of_sample(schema: TableSchema, rows: Sequence[Row], unreadable: int = 0) -> Sample:
    """Returns the size of sampled objects in each possible layout of their key.

    Args:
        rows: the rows of the objects; in a wide model, their row keys are object keys.
        unreadable: how many objects of the sample were left out because they cannot be read.
    """
    lead = len(schema.family) + 1
    objects = [
        _Object(row.row, schema.layout.unpack(row.row, schema.salt.width), len(row.columns), _bytes(row, lead))
        for row in rows
    ]
    names, layout = schema.layout.names, schema.layout
    own = (layout.rows, layout.split is not None) if isinstance(layout, ObjectKeyLayout) else (len(names), False)
    choices = [_declared(schema, objects, *own)]
    choices += [_with(schema, objects, rows) for rows in range(1, len(names) + 1) if (rows, False) != own]
    return Sample(
        len(objects),
        sum(each.cells for each in objects),
        sorted(choices, key=lambda each: len(each.row_fields)),
        unreadable=unreadable,
    )


def _bytes(row: Row, lead: int) -> int:
    return sum(CELL_BYTES + len(column) - 1 + len(cell.value) for column, cell in row.columns.items())


def _declared(schema: TableSchema, objects: Sequence[_Object], rows: int, split: bool) -> KeyChoice:
    names, wide = schema.layout.names, schema.wide
    keys = [(each.place, b"") if wide is None else wide.form.cut(each.place) for each in objects]
    return _choice(objects, keys, names[:rows], names[rows - split :], declared=True)


def _with(schema: TableSchema, objects: Sequence[_Object], rows: int) -> KeyChoice:
    """Returns the layout with the given number of fields in the row key."""
    fields, salt = schema.layout.fields, schema.salt.width
    row, columns = KeyLayout(fields[:rows]), KeyLayout(fields[rows:], closed=True) if rows < len(fields) else None
    keys = [
        (
            bytes(salt) + row.pack(each.values[:rows]),
            schema.kind + (b"" if columns is None else columns.pack(each.values[rows:])),
        )
        for each in objects
    ]
    return _choice(objects, keys, row.names, () if columns is None else columns.names, declared=False)


def _choice(
    objects: Sequence[_Object],
    keys: Sequence[tuple[bytes, bytes]],
    row: Sequence[str],
    columns: Sequence[str],
    *,
    declared: bool,
) -> KeyChoice:
    row_sizes, cells = Counter(key for key, _ in keys), Counter[bytes]()
    for each, (key, _) in zip(objects, keys, strict=True):
        cells[key] += each.cells
    size = sum(
        each.bytes + each.cells * (len(key) + len(prefix)) for each, (key, prefix) in zip(objects, keys, strict=True)
    )
    batch, in_page = Scan().batch_size, Counter[bytes]()
    for each, (key, _) in zip(objects[: PAGE + 1], keys, strict=False):
        in_page[key] += each.cells
    return KeyChoice(
        row_fields=tuple(row),
        column_fields=tuple(columns),
        declared=declared,
        rows=len(row_sizes),
        objects_in_row=max(row_sizes.values(), default=0),
        cells_in_row=max(cells.values(), default=0),
        bytes=size,
        page_calls=1 + (_more_pages(in_page) if columns else 0),
        scan_calls=-(-_pieces(cells) // ROWS) if columns else -(-len(row_sizes) // batch),
    )


def _pieces(cells: Counter[bytes]) -> int:
    """Returns the number of pieces in which a scan of the table returns rows with these numbers of cells."""
    return sum(-(-many // PAGE_SIZES.cells[0]) for many in cells.values())


def _more_pages(cells: Counter[bytes]) -> int:
    """Returns the number of pages that rows with these numbers of cells need in addition to the first page of each
    row.
    """
    return sum(_pages(many) - 1 for many in cells.values())


def _pages(cells: int) -> int:
    """Returns the number of pages that are needed to read a row with this many cells."""
    count, sizes = 1, iter(PAGE_SIZES.cells)
    size = next(sizes)
    while cells >= size:
        cells -= size
        count, size = count + 1, next(sizes, PAGE_SIZES.cells[-1])
    return count
