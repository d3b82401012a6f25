"""Estimates from a sample of objects how the bytes of a table are used, and how many bytes would be needed with other
names and codecs.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from attrs import field, frozen

from hbmodel.encoding.codecs import Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64
from hbmodel.encoding.codecs.dictionary import Dictionary
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.errors import DecodingError
from hbmodel.mapping.model_field import Field
from hbmodel.mapping.schema import TableSchema
from hbmodel.store.values import CELL_OVERHEAD, Row

MILLION = 1_000_000

TIMESTAMP = 8
"""The number of bytes of a cell's timestamp."""

FRAME: Final = CELL_OVERHEAD - TIMESTAMP
"""The number of bytes of every cell that do not depend on its contents: the lengths of key and value (8), of row key
(2) and of family (1), and the type (1).
"""

_BINARY = (UInt8, UInt16, UInt32, UInt64, Int8, Int16, Int32, Int64)
"""Codecs of whole numbers: the unsigned ones, then the signed ones, each from the shortest to the longest."""

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEX = re.compile("[0-9a-f]+|[0-9A-F]+")
"""Hex digits of the same case. The text can be made from the bytes again only if all digits have the same case."""


@frozen
class NameCost:
    """The cost of a name that is stored in cells.

    Attributes:
        name: `family:qualifier`, or `family:` for the name of the family.
        bytes: length of the name; for a qualifier, without the key fields before it.
        cells: the number of cells in the sample that contain the name.
        saved: bytes per million objects that a name of one byte would save.
    """

    name: str
    bytes: int
    cells: int
    saved: int


@frozen
class CodecCost:
    """The size of a field's values in one form.

    Attributes:
        form: `stored` for the form in which the values are stored, or the name of a possible form: a binary number,
            decimal text, a digest, ...
        bytes: the average size of a value in this form.
        saved: bytes per million objects that this form would save; negative if it needs more. The bytes of a key field
            are counted for every cell, because every cell contains the key.
    """

    field: str
    form: str
    bytes: float
    saved: int


@frozen
class ByteCost:
    """How the bytes of sampled objects are used, before compression and block encoding.

    Attributes:
        objects: the number of sampled objects.
        cells: the number of their cells, including system cells.
        row_key: bytes of row keys, in all cells.
        family: bytes of the names of families.
        qualifier: bytes of qualifiers, with the key fields and map keys in them.
        timestamp: bytes of the cells' timestamps.
        value: bytes of values.
        frame: bytes of lengths and types.
        names: the cost of each name of a family and a column, the highest cost first.
        codecs: the costs of the values of key fields and columns that could have other forms.
    """

    objects: int
    cells: int
    row_key: int
    family: int
    qualifier: int
    timestamp: int
    value: int
    frame: int
    names: Sequence[NameCost] = field(default=())
    codecs: Sequence[CodecCost] = field(default=())

    @property
    def total(self) -> int:
        """All bytes of the sample."""
        return self.row_key + self.family + self.qualifier + self.timestamp + self.value + self.frame

    @property
    def parts(self) -> Mapping[str, int]:
        """The bytes of the sample by kind."""
        names = {
            "row key": self.row_key,
            "family": self.family,
            "qualifier": self.qualifier,
            "timestamp": self.timestamp,
        }
        return {**names, "value": self.value, "lengths and type": self.frame}

    def __str__(self) -> str:
        if not self.objects:
            return "no objects sampled"
        lines = [f"{self.objects} objects in {self.cells} cells, {self.total / self.objects:.1f} bytes each:"]
        lines += [
            f"  {name:<18} {size / self.objects:>8.1f}  {size / self.total:>4.0%}" for name, size in self.parts.items()
        ]
        longer = [each for each in self.names if each.saved]
        lines += ["a name of one byte saves, for a million objects:"] if longer else ["every name has one byte"]
        lines += [f"  {each.name:<18} {each.bytes:>3} bytes  {each.saved:>13,}" for each in longer]
        lines += ["other forms of values, and what they save for a million objects:"] if self.codecs else []
        lines += [
            f"  {each.field:<18} {each.form:<22} {each.bytes:>6.1f} bytes  {each.saved:>13,}" for each in self.codecs
        ]
        return "\n".join(lines)


def byte_cost(schema: TableSchema, rows: Sequence[Row]) -> ByteCost:
    """Returns how the bytes of sampled objects are used.

    Args:
        rows: the rows of the objects; in a wide model, their row keys are object keys.
    """
    row_key = family = qualifier = value = cells = 0
    column_counts = Counter[bytes]()
    for row in rows:
        key, prefix = (row.row, b"") if schema.wide is None else schema.wide.form.cut(row.row)
        cells += len(row.columns)
        row_key += len(key) * len(row.columns)
        for column, cell in row.columns.items():
            name, _, alias = column.partition(b":")
            family += len(name)
            qualifier += len(prefix) + len(alias)
            value += len(cell.value)
            column_counts[column] += 1
    return ByteCost(
        objects=len(rows),
        cells=cells,
        row_key=row_key,
        family=family,
        qualifier=qualifier,
        timestamp=TIMESTAMP * cells,
        value=value,
        frame=FRAME * cells,
        names=_names(schema, column_counts, len(rows)),
        codecs=_codecs(schema, rows, cells),
    )


def _names(schema: TableSchema, column_counts: Mapping[bytes, int], objects: int) -> tuple[NameCost, ...]:
    """Returns the costs of the names that a model can choose, which are the names of families and the aliases of
    columns. The keys of maps are not included.
    """
    families, aliases = Counter[bytes](), Counter[bytes]()
    own = {f.column for f in schema.columns if f.kind != "version"}
    for column, count in column_counts.items():
        families[column.partition(b":")[0]] += count
        of_map = next((map_field.column for map_field in schema.maps if column.startswith(map_field.column)), None)
        if of_map is not None or (column in own and not column.partition(b":")[2].startswith(b"_")):
            aliases[of_map or column] += count
    sizes = [(name.decode() + ":", len(name), count) for name, count in families.items()]
    sizes += [(name.decode("utf-8", "replace"), len(name.partition(b":")[2]), count) for name, count in aliases.items()]
    costs = [
        NameCost(name, size, count, round(max(0, size - 1) * count * MILLION / objects)) for name, size, count in sizes
    ]
    return tuple(sorted(costs, key=lambda each: (-each.saved, each.name)))


# --- other forms ------------------------------------------------------------------------------------------------------


def _codecs(schema: TableSchema, rows: Sequence[Row], cells: int) -> tuple[CodecCost, ...]:
    costs: list[CodecCost] = []
    keys = [schema.layout.unpack(row.row, schema.salt.width) for row in rows]
    sizes = [_sizes(schema.layout, key) for key in keys]
    for at, key_field in enumerate(schema.key_fields):
        costs += _of_field(
            key_field, [key[at] for key in keys], [size[at] for size in sizes], len(rows), cells / max(1, len(rows))
        )
    for column in schema.columns:
        if column.kind == "column":
            data = [cell.value for row in rows if (cell := row.columns.get(column.column)) is not None and cell.value]
            costs += _of_field(column, _read(column, data), list(map(len, data)), len(rows), 1)
    return tuple(costs)


def _sizes(layout: KeyLayout, key: Sequence[Any]) -> list[int]:
    """Returns the number of bytes of each key field, in the row key or in the qualifier."""
    if not isinstance(layout, ObjectKeyLayout):
        return list(map(len, layout.pack_parts(key)))
    first, behind = layout.parts_of(key)
    row = [] if layout.row is None else list(map(len, layout.row.pack_parts(first)))
    columns = [] if layout.columns is None else list(map(len, layout.columns.pack_parts(behind)))
    if layout.split is not None:  # one part of the field is in the row key, the other in the qualifier
        row[-1] += columns.pop(0)
    return row + columns


def _read(field: Field, data: Sequence[bytes]) -> list[Any]:
    try:
        return [field.decode_cell(each) for each in data]
    except DecodingError:
        return []


def _of_field(
    field: Field, values: Sequence[Any], stored: Sequence[int], objects: int, times: float
) -> list[CodecCost]:
    """Returns the sizes of a field's values in all forms. `times` is the number of cells of each object that contain
    the value. A field of a dictionary has no other forms: its ids are the shortest form of its names.
    """
    if isinstance(field.codec, Dictionary):
        return []
    present = [value for value in values if value is not None]
    forms = _forms(present)
    if not forms or len(present) != len(values):
        return []
    now = sum(stored)
    costs = [CodecCost(field.name, "stored", now / len(stored), 0)]
    for form, sizes in forms.items():
        saved = round((now - sum(sizes)) * times * MILLION / objects)
        costs.append(CodecCost(field.name, form, sum(sizes) / len(sizes), saved))
    return costs


def _forms(values: Sequence[Any]) -> dict[str, list[int]]:
    """Returns the sizes of values in the possible forms of numbers, times and texts."""
    if not values:
        return {}
    if all(type(value) is int for value in values):
        return _number_forms(values)
    if all(isinstance(value, datetime) for value in values):
        forms = {"ms, 8 bytes": [8] * len(values), "ISO 8601 text": [len(value.isoformat()) for value in values]}
        whole = all(0 <= value.timestamp() < 1 << 32 and not value.microsecond for value in values)
        return forms | ({"s, 4 bytes": [4] * len(values)} if whole else {})
    if all(isinstance(value, str) for value in values):
        return _text_forms(values) | _digests(len(values))
    return {}


def _text_forms(values: Sequence[str]) -> dict[str, list[int]]:
    """Returns the sizes of texts in other forms, if all texts are numbers, UUIDs or hex digits."""
    count, width = len(values), len(values[0]) if len(set(map(len, values))) == 1 else None
    if all(value.isascii() and value.isdigit() for value in values):
        numbers = list(map(int, values))
        shortest = _shortest(numbers)
        if shortest is None or (width is None and list(map(str, numbers)) != list(values)):
            return {}
        form, size = shortest
        return {f"number, {form}": [size] * count}
    if all(map(_UUID.fullmatch, values)):
        return {"UUID, 16 bytes": [16] * count}
    if width is not None and width % 2 == 0 and all(map(_HEX.fullmatch, values)):
        return {f"bytes, {width // 2}": [width // 2] * count}
    return {}


def _number_forms(values: Sequence[int]) -> dict[str, list[int]]:
    low, high = min(values), max(values)
    forms: dict[str, list[int]] = {}
    shortest = _shortest(values)
    if shortest is not None:
        form, size = shortest
        forms[form] = [size] * len(values)
    if low >= 0:
        width = len(str(high))
        forms[f"decimal text of {width}"] = [width] * len(values)
        forms[f"hex text of {len(f'{high:x}')}"] = [len(f"{high:x}")] * len(values)
    return forms | _digests(len(values))


def _shortest(numbers: Sequence[int]) -> tuple[str, int] | None:
    """Returns the shortest binary form of numbers, and its length in bytes, or None if the numbers need more than 64
    bits.
    """
    low, high = min(numbers), max(numbers)
    codec = next((codec for codec in _BINARY if codec.low <= low and high <= codec.high), None)
    if codec is None:
        return None
    sign = "signed" if codec.signed else "unsigned"
    return f"{sign}, {codec.width} byte{'s' if codec.width > 1 else ''}", codec.width


def _digests(count: int) -> dict[str, list[int]]:
    size = hashlib.md5(usedforsecurity=False).digest_size
    return {"md5": [size] * count, "md5 as hex text": [2 * size] * count}
