"""The cost of a model's keys and names, in bytes per row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from attrs import evolve, frozen

from hbmodel.encoding.codecs import Codec
from hbmodel.encoding.codecs.dictionary import numbers_as_names
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.errors import EncodingError
from hbmodel.mapping.declare.key_order import source_of
from hbmodel.mapping.schema import Index, TableSchema, schema_of
from hbmodel.store.port import HasStore, Store, store_of
from hbmodel.tables.advice.byte_cost import ByteCost, byte_cost
from hbmodel.tables.advice.prefix_counts import PrefixCounts, prefix_counts
from hbmodel.tables.advice.sampled_objects import sampled_objects
from hbmodel.tables.advice.tall_or_wide import CELL_BYTES, Sample, of_sample


@frozen
class Description:
    """The cost of keys and names.

    Attributes:
        table: the table of the model.
        key_bytes: length of a row key; for a wide model this includes the prefix of its qualifiers. None if the width
            of a field varies.
        fixed_key_bytes: length of the shortest row key, with salt, fixed-width fields, markers and terminators.
        cell_overhead: bytes per row that HBase stores in addition to the values: for each cell the row key (its fixed
            part), family, qualifier and 20 bytes of lengths, timestamp and type, before compression and block encoding.
        cells: cells per full row, system cells included.
        indexes: for each index, the description of its entries.
        key: the fields of the key in their order, as text, such as `at descending` for a descending field, or `user (of
            Owned)` for a field that the base class `Owned` declares.
        sample: the size of the sampled objects in tall and wide layouts; None if there is no sample.
        prefixes: rows per prefix of the key and of each index, and hot values, counted in the sample; empty if there is
            no sample.
        bytes: how the bytes of the sampled objects are used, and their size with other names and codecs; None if there
            is no sample.
    """

    table: str
    key_bytes: int | None
    fixed_key_bytes: int
    cell_overhead: int
    cells: int
    indexes: tuple[Description, ...] = ()
    sample: Sample | None = None
    prefixes: tuple[PrefixCounts, ...] = ()
    bytes: ByteCost | None = None
    key: tuple[str, ...] = ()

    def __str__(self) -> str:
        width = f"{self.key_bytes}" if self.key_bytes is not None else f"{self.fixed_key_bytes} + text"
        key = f"{width} bytes ({', '.join(self.key)})"
        own = f"{self.table}: key {key}, {self.cells} cells, {self.cell_overhead} bytes of keys and names per row"
        sampled = [str(each) for each in (self.sample, self.bytes) if each is not None]
        return "\n".join([own, *(str(index) for index in self.indexes), *sampled, *map(str, self.prefixes)])


def describe(model: type[Any], sample: Store | HasStore | None = None) -> Description:
    """Reports how many bytes per row the keys and names of a model need.

    Args:
        model: the class.
        sample: a store, or a session, with objects of the model. Some of them are read, to report how their bytes are
            used, and to count rows per prefix of the key and of each index. Their size is also compared with the size
            that they would have with more or fewer key fields in the qualifier, with other names, or with other codecs.
    """
    schema = schema_of(model)
    described = _described(schema)
    if sample is None:
        return described
    store = store_of(sample)
    found = sampled_objects(schema, store)
    with numbers_as_names():
        return evolve(
            described,
            sample=of_sample(schema, found.rows, found.unreadable),
            prefixes=prefix_counts(schema, store),
            bytes=byte_cost(schema, found.rows),
        )


def _described(schema: TableSchema) -> Description:
    columns = [f.column for f in schema.columns if f.kind != "version"]
    if schema.exists_column is not None:
        columns.append(schema.exists_column)
    if schema.indexes or schema.versioned:
        columns += [schema.version_column, schema.liveness_column]
    indexes = tuple(
        evolve(
            _describe(index.table, index.salt.width, [index.layout], _entry_columns(schema, index)),
            key=tuple(_named(f.name, f.desc) for f in index.layout.fields),
        )
        for index in schema.indexes.values()
    )
    place = schema.layout
    layouts = (
        [part for part in (place.row, place.columns) if part is not None]
        if isinstance(place, ObjectKeyLayout)
        else [place]
    )
    cost = _describe(schema.table, schema.salt.width + len(schema.row or b"") + len(schema.kind), layouts, columns)
    brought = [(f, source_of(schema.model, f.name)) for f in schema.key_fields]
    key = tuple(_named(f.name, f.desc) + ("" if base is None else f" (of {base.__name__})") for f, base in brought)
    return evolve(cost, indexes=indexes, key=key)


def _named(name: str, desc: bool) -> str:
    return f"{name} descending" if desc else name


def _entry_columns(schema: TableSchema, index: Index) -> list[bytes]:
    """Returns the columns of the cells of an index entry."""
    status = [schema.status_column] if index.name in schema.covering else []
    return [schema.version_column, *status, *(schema.by_name[name].column for name in index.covers)]


def _describe(table: str, before: int, layouts: Sequence[KeyLayout], columns: list[bytes]) -> Description:
    fixed, varies = before + sum(layout.tail for layout in layouts), False
    for slot in (slot for layout in layouts for slot in layout.slots):
        key_field = slot.of
        varies |= key_field.nullable or key_field.codec.width is None
        fixed += 1 if key_field.nullable else _shortest(key_field.codec, slot.unterminated)
    overhead = sum(fixed + len(column) - 1 + CELL_BYTES for column in columns)
    return Description(table, None if varies else fixed, fixed, overhead, len(columns))


def _shortest(codec: Codec[Any], unterminated: bool) -> int:
    """Returns the length of a codec's shortest value, either at the end of a key (`unterminated`) or before another
    field.
    """
    if codec.width is not None:
        return codec.width
    kind = codec.python_type
    lengths = []
    for value in _first_values(kind) if isinstance(kind, type) else (IPv4Address(0),) if kind == _ADDRESSES else ():
        with suppress(EncodingError):  # the codec cannot encode this value
            lengths.append(len(codec.encode(value) if unterminated else codec.encode_part(value)))
    # A custom codec of any other type counts as 0 bytes.
    return min(lengths, default=0)


_ADDRESSES = (IPv4Address, IPv6Address)


def _first_values(kind: type) -> Iterable[Any]:
    """Yields some values of a type. In any codec of variable length, one of them has the shortest encoding."""
    if issubclass(kind, Enum):
        return kind
    return {str: ("", "0"), bytes: (b"", b"0"), Decimal: (Decimal(),)}.get(kind, ())
