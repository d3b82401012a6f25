"""Map columns: fields whose entries are separate cells in the row of their object, with `alias` and map key as the
qualifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, NoReturn

from attrs import field, frozen

from hbmodel.encoding.codecs import Codec
from hbmodel.encoding.codecs.base import JSON
from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.errors import DecodingError, EncodingError, HbmodelError, SessionError
from hbmodel.mapping.model_field import Field
from hbmodel.store.values import CELL_OVERHEAD, MAX_CELL_SIZE, MAX_ROW_LENGTH, Cell

MARK: Final = b"\x01"
"""The value of the cell whose qualifier is only the alias. The timestamp of that cell is the time at which entries were
last put.
"""


class NotLoadedType:
    """The type of `NotLoaded`: the value of a map column if the object was read without the column's entries."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NotLoaded"

    def __reduce__(self) -> str:
        return "NotLoaded"

    def _refuse(self, *_: object) -> NoReturn:
        raise SessionError(
            "The map column was not read with its object: add .load(Model.field) to the query, or read entries "
            "with session.entries()."
        )

    __getitem__ = __iter__ = __len__ = __contains__ = __bool__ = _refuse


NotLoaded: Final = NotLoadedType()
"""The value of a map column whose entries were not read."""


@frozen
class MapField:
    """A map column of a model.

    Attributes:
        key: codec of the keys.
        value: describes how values are written, which is the same as in a nullable column. None, written as the empty
            cell, means that the entry was removed.
        marked: whether every put of entries also writes the cell with only the alias, because rows have system cells.
    """

    name: str
    key: Codec[Any]
    value: Field
    marked: bool = False
    layout: KeyLayout = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "layout", KeyLayout((KeyField(self.name, self.key),)))

    @property
    def family(self) -> bytes:
        """The column family."""
        return self.value.family

    @property
    def qualifier(self) -> bytes:
        """The alias, the prefix of the qualifiers of all entries."""
        return self.value.qualifier

    @cached_property
    def column(self) -> bytes:
        """`family:alias`."""
        return self.value.column

    @property
    def spec(self) -> dict[str, JSON]:
        """The description of the map column in the registry."""
        codec = self.value.codec.spec
        return {
            "name": self.name,
            "kind": "map",
            "key": self.key.spec,
            "codec": codec,
            "nullable": True,
            "null": "marker",
        }

    def key_bytes(self, key: object) -> bytes:
        """Returns the bytes of a map key.

        Raises:
            EncodingError: the key cannot be stored, has no bytes, or makes the qualifier too long.
        """
        encoded = b"" if key is None else self.layout.pack((key,))
        if not encoded or len(self.qualifier) + len(encoded) > MAX_ROW_LENGTH:
            raise EncodingError(
                "A map key must have at least one byte, and at most 32,767 bytes with the alias.",
                field=self.name,
                length=len(encoded),
            )
        return encoded

    def key_of(self, data: bytes) -> Any:
        """Returns the map key that these bytes encode. Raises `DecodingError` if there is none."""
        try:
            return self.layout.unpack(data)[0]
        except DecodingError as error:
            raise DecodingError(error.message, **{**error.details, "field": self.name}) from None

    def value_of(self, data: bytes) -> Any:
        """Returns the value in a cell that is not empty. Raises `DecodingError` if the bytes are not valid."""
        try:
            return self.value.decode_cell(data)
        except DecodingError as error:
            raise DecodingError(error.message, **{**error.details, "field": self.name}) from None

    def cells(self, entries: object, row: bytes = b"") -> dict[bytes, bytes]:
        """Returns the cells that put the given entries. An entry whose value is None is removed. The argument `row` is
        needed only to check the size of the cells.

        Raises:
            EncodingError: `entries` is not a mapping, or a key or value cannot be stored; the error names the field.
        """
        if not isinstance(entries, Mapping):
            raise EncodingError("A map column must be given a mapping.", field=self.name, found=type(entries).__name__)
        cells: dict[bytes, bytes] = {}
        try:
            for key, value in entries.items():
                cells[self.column + self.key_bytes(key)] = self.value.encode_cell(value)
        except EncodingError as error:
            raise EncodingError(error.message, **{**error.details, "field": self.name}) from None
        for column, cell in cells.items():
            if len(row) + len(column) + len(cell) + CELL_OVERHEAD > MAX_CELL_SIZE:
                raise EncodingError(
                    "The value is too large: a cell of HBase, with its row key and column, has at most 10 MiB.",
                    field=self.name, length=len(cell),
                )  # fmt: skip
        if cells and self.marked:
            cells[self.column] = MARK
        return cells

    def settled(self, entries: object, row: bytes) -> dict[Any, Any]:
        """Returns a copy of the entries, with keys and values in the form that a read would return. Raises the same
        errors as `cells`.
        """
        start, cells = len(self.column), self.cells(entries, row)
        return {
            self.key_of(column[start:]): None if not cell else self.value_of(cell)
            for column, cell in cells.items()
            if len(column) > start
        }

    def entries(self, cells: Mapping[bytes, Cell]) -> dict[Any, Any]:
        """Returns the entries among the cells of a row, in the order of the keys' bytes.

        Raises:
            DecodingError: a cell cannot be read; the error names the field.
        """
        start, column = len(self.column), self.column
        by_key = {
            name[start:]: cell.value
            for name, cell in cells.items()
            if name.startswith(column) and len(name) > start and cell.value
        }
        return {self.key_of(key): self.value_of(by_key[key]) for key in sorted(by_key)}


def checked_values(map_field: MapField, entries: object) -> Mapping[Any, Any]:
    """Returns the entries to put. Raises `EncodingError` if an entry has the value None."""
    if isinstance(entries, Mapping) and any(value is None for value in entries.values()):
        raise EncodingError(
            "A map column cannot hold None: remove entries with session.remove_entries().", field=map_field.name
        )
    return entries  # type: ignore[return-value]  # `MapField.cells` refuses other types


Taken = tuple[dict[str, Any], bytes, dict[bytes, bytes]]
"""The data of an object to write: its values by field name, its row key, and its cells."""


def with_map_cells(maps: tuple[MapField, ...], table: str, take: Callable[[Any], Taken]) -> Callable[[Any], Taken]:
    """Extends the function `take`, which returns the data of an object to write. The new function also returns the
    cells of the object's map columns.
    """
    if not maps:
        return take

    def taken(obj: Any) -> Taken:
        values, row, cells = take(obj)
        return values, row, {**cells, **map_cells(maps, obj, row, table)}

    return taken


def map_cells(maps: tuple[MapField, ...], obj: object, row: bytes, table: str) -> dict[bytes, bytes]:
    """Returns the cells of the loaded map columns of an object.

    Raises:
        EncodingError: an entry cannot be stored; the error names the field.
    """
    cells: dict[bytes, bytes] = {}
    for map_field in maps:
        entries = getattr(obj, map_field.name)
        if entries is NotLoaded:
            continue
        try:
            cells |= map_field.cells(checked_values(map_field, entries), row)
        except HbmodelError as error:
            raise type(error)(error.message, **{"table": table, **error.details}) from None
    return cells
