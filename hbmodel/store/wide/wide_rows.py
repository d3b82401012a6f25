"""Describes where the objects of a model are in wide rows, and converts their cells to one logical row for each
object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import Factory, field, frozen
from msgspec import Struct

from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Cell

ROW_VERSION = b"\x00"
"""The qualifier of the version of a row that objects share. No cell of an object of a versioned model has this
qualifier, because the qualifiers of such cells have an alias after the key fields.

The empty qualifier is not used. For an empty qualifier, the newest cell comes before the tombstone of the family, and a
range of columns begins after both. HBase then seeks past the tombstone, and returns cells that the tombstone has
deleted (observed with HBase 2.6.1; a test checks this).
"""


class Slice(Protocol):
    """A slice: the same range of qualifiers in each row of a range of rows."""

    @property
    def rows(self) -> KeyRange:
        """The row keys."""
        ...

    @property
    def first(self) -> bytes:
        """The first qualifier of the slice, inclusive."""
        ...

    @property
    def stop(self) -> bytes | None:
        """The first qualifier after the slice; None if the slice has no end."""
        ...


class Places(Protocol):
    """Converts object keys to pairs of row key and qualifier prefix, and back. Each object key has one such pair, and
    both have the same order.

    An object key ends with the unchanged bytes of the qualifier prefix, without the kind.
    """

    @property
    def kind(self) -> bytes:
        """The prefix of the qualifiers of all objects, or nothing."""
        ...

    def cut(self, place: bytes) -> tuple[bytes, bytes]:
        """Returns the row key and the qualifier prefix (which includes the kind) of an object key."""
        ...

    def join(self, row: bytes, prefix: bytes) -> bytes:
        """Returns the object key that belongs to a row key and a qualifier prefix (which includes the kind)."""
        ...

    def slices(self, places: KeyRange, prefix_end: Callable[[bytes], int | None] | None = None) -> Sequence[Slice]:
        """Returns the slices that contain the objects whose object keys are in a range, in the order of these keys."""
        ...

    def places(self, rows: KeyRange) -> KeyRange:
        """Returns the range of the object keys of all objects whose rows are in a range."""
        ...


STRANGE = b""
"""The column of the only cell of an `ObjectRow` that is not an object, but a cell whose qualifier does not belong to
the model. No real column has this name, because every column name contains a family.
"""


def _columns(columns: Sequence[bytes]) -> tuple[bytes, ...]:
    return tuple(columns)


@frozen
class WideRows:
    """The objects of one model in the rows of a table.

    Attributes:
        family: the only family of the model.
        places: converts object keys to the places of objects, and back.
        prefix_end: returns how many of a qualifier's bytes are the prefix of its object (which includes the kind), or
            None if the qualifier belongs to no object of the model. No prefix is the beginning of another one, unless
            objects have one cell each, whose alias is empty.
        columns: the columns of an object, `family:alias`, system columns included. A delete of the whole object lists
            all of them, even absent ones.
        view: the name of the table of logical rows; by default the name of the table.
        row_version: the column in which each object gets the version of its row, which is stored in `ROW_VERSION`. The
            version is read only with whole objects, or if this column is requested. None if rows have no version.
        kept: the columns that a delete of a whole object leaves unchanged, unless the delete lists them.
        more: whether an object may have any number of other columns. If they fill a page, the rest of them is not read
            with the object.
        rare: columns that few or no objects have; a delete of the whole object lists them too.
        strict: whether a cell whose qualifier has the kind, but belongs to no object, is returned as a separate row
            (see `STRANGE`). If not, the cell is left out.
        lead: the prefix of the family's columns: its name and the colon.
    """

    table: str
    family: bytes
    places: Places
    prefix_end: Callable[[bytes], int | None]
    columns: tuple[bytes, ...] = field(default=(), converter=_columns)
    view: str = ""
    row_version: bytes | None = None
    kept: tuple[bytes, ...] = field(default=(), converter=_columns)
    more: bool = False
    rare: tuple[bytes, ...] = ()
    strict: bool = False
    lead: bytes = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.family + b":", takes_self=True)
    )

    @property
    def name(self) -> str:
        """The name of the table of logical rows."""
        return self.view or self.table

    @property
    def bare(self) -> bool:
        """Whether objects have one cell each, whose alias is empty."""
        return self.columns == (self.lead,)

    def column(self, prefix: bytes, column: bytes) -> bytes:
        """Returns the column of the table that holds an object's column."""
        if column == self.row_version:
            return self.lead + ROW_VERSION
        start = len(self.family) + 1
        return column[:start] + prefix + column[start:]


class ObjectRow(Struct, gc=False):
    """A logical row: the cells of one object, by `family:alias`."""

    row: bytes
    columns: Mapping[bytes, Any]


class Unfolding:
    """Turns cells of a row into logical rows.

    Most objects have the same columns as the previous one. So the names of as many next cells as the previous object
    had are joined, and compared with the expected names in one step. If a key or an alias contains the family's name
    with its colon, different names may have the same bytes after joining. In this case, they are compared one by one.
    """

    def __init__(self, wide: WideRows) -> None:
        self._lead = wide.lead
        self._prefix_end = wide.prefix_end
        self._places = wide.places
        self._strict = wide.strict
        self._latest: tuple[list[bytes], list[bytes]] = [b""], []

    def objects(self, row: bytes, names: Sequence[bytes], cells: Sequence[Cell]) -> list[ObjectRow]:
        """Returns the objects to which the cells of a row belong, in their order.

        Args:
            names: the columns of the cells, in their order.
        """
        prefix_end, family, lead = self._prefix_end, self._lead, len(self._lead)
        kind = self._places.kind
        base, rest = self._places.join(row, kind), lead + len(kind)
        aliases, logical = self._latest
        size, count = len(logical), len(names)
        objects: list[ObjectRow] = []
        at = 0
        while at < count:
            name = names[at]
            end = prefix_end(name[lead:])
            if end is None:  # the cell belongs to another model
                if self._strict and name.startswith(kind, lead):
                    objects.append(ObjectRow(base + name[rest:], {STRANGE: cells[at]}))
                at += 1
                continue
            end += lead
            prefix = name[:end]
            stop = at + size
            joined = prefix.join(aliases)
            if (
                not size
                or stop > count
                or b"".join(names[at:stop]) != joined
                or (joined.count(family) != size and names[at:stop] != [prefix + alias for alias in aliases[1:]])
                or (stop < count and names[stop].startswith(prefix) and end < len(name))
            ):
                stop = at + 1
                if end < len(name):
                    while stop < count and names[stop].startswith(prefix):
                        stop += 1
                aliases = [b"", *(each[end:] for each in names[at:stop])]
                logical = [self._lead + alias for alias in aliases[1:]]
                size = stop - at
            objects.append(ObjectRow(base + name[rest:end], dict(zip(logical, cells[at:stop], strict=True))))
            at = stop
        self._latest = aliases, logical  # assigned at once, because several threads may use this object
        return objects
