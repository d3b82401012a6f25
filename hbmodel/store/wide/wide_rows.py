"""Wide rows: the places of a model's objects in the columns of rows, and the conversion of their cells to one logical
row for each object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import field, frozen
from msgspec import Struct

from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Cell

ROW_VERSION = b"\x00"
"""The qualifier of the version of a row that objects share. No cell of an object of a versioned model has this
qualifier, because the qualifiers of such cells have an alias after the key fields.

It is not the empty qualifier, for which the newest cell comes before the tombstone of the family, and a range of
columns begins after both. HBase then seeks past the tombstone, and shows cells that the tombstone has deleted (observed
with HBase 2.6.1; a test checks this).
"""


class Slice(Protocol):
    """The same range of qualifiers in each row of a range of rows."""

    @property
    def rows(self) -> KeyRange:
        """The row keys."""
        ...

    @property
    def first(self) -> bytes:
        """The first qualifier, inclusive."""
        ...

    @property
    def stop(self) -> bytes | None:
        """The first qualifier after the slice; None if it has no end."""
        ...


class Places(Protocol):
    """The bijection between object keys and pairs of row key and qualifier prefix; it keeps their order.

    An object key ends with the unchanged bytes of the qualifier prefix, without the kind.
    """

    @property
    def kind(self) -> bytes:
        """The prefix of the qualifiers of all objects, or nothing."""
        ...

    def cut(self, place: bytes) -> tuple[bytes, bytes]:
        """The row key and the qualifier prefix, kind included."""
        ...

    def join(self, row: bytes, prefix: bytes) -> bytes:
        """The object key of a row key and a qualifier prefix, kind included."""
        ...

    def slices(self, places: KeyRange, prefix_end: Callable[[bytes], int | None] | None = None) -> Sequence[Slice]:
        """The slices with the cells of the objects whose object keys lie in a range, in the order of these keys."""
        ...

    def places(self, rows: KeyRange) -> KeyRange:
        """The object keys of all objects whose rows lie in a range."""
        ...


STRANGE = b""
"""The column of the cell of an `ObjectRow` that is not an object: a cell whose qualifier is not one of the model. No
other column has this name, because every name has a family.
"""


def _columns(columns: Sequence[bytes]) -> tuple[bytes, ...]:
    return tuple(columns)


@frozen
class WideRows:
    """The objects of one model in the rows of a table.

    Attributes:
        family: the only family of the model.
        places: where each object lies.
        prefix_end: returns, for a qualifier, where the prefix of its object ends, kind included; None if the qualifier
            belongs to no object of the model. No prefix begins with another one, unless objects have one cell each,
            whose alias is empty.
        columns: the columns of an object, `family:alias`, system columns included. A delete of the whole object names
            all of them, even those that are absent.
        view: the name of the table of logical rows; by default the table's own.
        row_version: the column under which each object shows the version of its row, which is stored in `ROW_VERSION`.
            The version is read only with whole objects, or if this column is asked for. None if rows have no version.
        kept: the columns that a delete of a whole object leaves unchanged, unless the delete names them.
        more: whether an object may have any number of other columns, which are not read with it once they fill a page.
        rare: columns that few objects have, or none; a delete of the whole object names them too.
        strict: whether a cell whose qualifier has the kind but belongs to no object becomes a separate row, see
            `STRANGE`; otherwise it is left out.
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

    @property
    def name(self) -> str:
        """The name of the table of logical rows."""
        return self.view or self.table

    @property
    def lead(self) -> bytes:
        """The prefix of the family's columns: its name and the colon."""
        return self.family + b":"

    @property
    def bare(self) -> bool:
        """Whether objects have one cell each, whose alias is empty."""
        return self.columns == (self.lead,)

    def column(self, prefix: bytes, column: bytes) -> bytes:
        """The column of the table that holds an object's column."""
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

    It remembers the columns of the previous object, since most objects have the same ones. So it takes as many of the
    next cells as that object had, joins their names, and compares the result in one step with the names that are
    expected. If a key or an alias contains the family with its colon, other names may give the same bytes when they are
    joined; in that case the names are compared one by one.
    """

    def __init__(self, wide: WideRows) -> None:
        self._lead = wide.lead
        self._prefix_end = wide.prefix_end
        self._places = wide.places
        self._strict = wide.strict
        self._aliases: list[bytes] = [b""]
        self._names: list[bytes] = []

    def objects(self, row: bytes, names: Sequence[bytes], cells: Sequence[Cell]) -> list[ObjectRow]:
        """The objects whose cells are among those of a row, in their order.

        Args:
            names: the columns of the cells, in their order.
        """
        prefix_end, family, lead = self._prefix_end, self._lead, len(self._lead)
        kind = self._places.kind
        base, rest = self._places.join(row, kind), lead + len(kind)
        aliases, logical = self._aliases, self._names
        size, count = len(logical), len(names)
        objects: list[ObjectRow] = []
        at = 0
        while at < count:
            name = names[at]
            end = prefix_end(name[lead:])
            if end is None:  # of another model
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
        self._aliases, self._names = aliases, logical
        return objects
