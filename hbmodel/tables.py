"""Tables of models: creating them, and what their keys and names cost."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from attrs import frozen

from hbmodel.codecs import Codec
from hbmodel.errors import FamilyNotFound, SchemaMismatch, TableExists
from hbmodel.keys import KeyLayout
from hbmodel.registry import ABSENT, READABLE, REGISTRY_TABLE, Binding, Registry
from hbmodel.schema import Index, TableSchema, schema_of
from hbmodel.store import Family, Store


def create_tables(store: Store, *models: type[Any], registry: str = REGISTRY_TABLE) -> None:
    """Creates what the models need and is not there: the registry table, index tables, primary tables.

    Repeating it is safe, also after a crash and beside another program that does the same. An index that is declared on a
    table which exists already is registered as absent: it must be built before queries can use it.

    Args:
        store: to create them in.
        models: whose tables.
        registry: name of the registry table.

    Raises:
        SchemaMismatch: a live table has another layout than its model, a live index has lost its table, or two models of one
            table share a family or an index name.
        FamilyNotFound: a live table lacks a column family of its model.
    """
    schemas = [schema_of(model) for model in models]
    catalog = Registry(store, registry)
    catalog.create()
    existing = set(store.tables())
    new: dict[str, dict[bytes, Family]] = {}
    for schema in schemas:
        present = schema.table in existing
        if present:
            _check_families(store, schema)
        else:  # models may share a table, each in its families
            new.setdefault(schema.table, {}).update((family.name, family) for family in schema.families)
        for index in schema.indexes.values():
            if index.table not in existing and not present:
                _create(store, index.table, [Family(family) for family in index_families(schema, index)])
        # Registered as readable before the primary table exists: without it there are no rows that an index could lack, and
        # a crash here leaves nothing that a repeated call does not finish.
        catalog.register(schema, ABSENT if present else READABLE)
        if present:
            _check_index_tables(catalog.bind(schema), existing)
    for table, families in new.items():
        _create(store, table, [families[name] for name in sorted(families)])


def index_families(schema: TableSchema, index: Index) -> list[bytes]:
    """The families of an index table: the model's, for the version cell, and those of covered columns."""
    return sorted({schema.family, *(schema.by_name[name].family for name in index.covers)})


def _create(store: Store, table: str, families: list[Family]) -> None:
    try:
        store.create_table(table, families)
    except TableExists:  # somebody else was faster
        return


def _check_index_tables(binding: Binding, existing: set[str]) -> None:
    """A live index whose table was dropped must not come back empty: it would hide every row."""
    for index in binding.written:
        if index.table not in existing:
            raise SchemaMismatch(
                "The registry says that an index is live, but its table is gone: drop the primary table too and load it anew.",
                table=binding.schema.table, index=index.name, missing=index.table,
            )  # fmt: skip


def _check_families(store: Store, schema: TableSchema) -> None:
    live = {family.name for family in store.families(schema.table)}
    for family in schema.family_names:
        if family not in live:
            raise FamilyNotFound("The live table lacks a column family of the model.", table=schema.table, family=family.decode())


@frozen
class Description:
    """What keys and names cost.

    Attributes:
        table: of the model.
        key_bytes: length of a row key, or None where a field's width varies.
        fixed_key_bytes: length of the shortest row key: salt, fixed-width fields, markers, terminators.
        cell_overhead: bytes per row that HBase stores beside the values: for each cell the row key (its fixed part), family,
            qualifier and 20 bytes of lengths, timestamp and type, before compression and block encoding.
        cells: cells per full row, system cells included.
        indexes: the same for the entries of each index.
    """

    table: str
    key_bytes: int | None
    fixed_key_bytes: int
    cell_overhead: int
    cells: int
    indexes: tuple[Description, ...] = ()

    def __str__(self) -> str:
        width = f"{self.key_bytes}" if self.key_bytes is not None else f"{self.fixed_key_bytes} + text"
        own = f"{self.table}: key {width} bytes, {self.cells} cells, {self.cell_overhead} bytes of keys and names per row"
        return "\n".join([own, *(str(index) for index in self.indexes)])


_CELL_BYTES = 20
"""Of every cell: key and value length (8), row length (2), family length (1), timestamp (8), type (1)."""


def describe(model: type[Any]) -> Description:
    """Reports the bytes per row that the keys and names of a model cost."""
    schema = schema_of(model)
    columns = [f.column for f in schema.columns]
    if schema.exists_column is not None:
        columns.append(schema.exists_column)
    if schema.indexes:
        columns += [schema.version_column, schema.liveness_column]
    indexes = tuple(
        _describe(index.table, index.salt.width, index.layout, [schema.version_column, *(schema.by_name[n].column for n in index.covers)])
        for index in schema.indexes.values()
    )
    made = _describe(schema.table, schema.salt.width, schema.layout, columns)
    return Description(made.table, made.key_bytes, made.fixed_key_bytes, made.cell_overhead, made.cells, indexes)


def _describe(table: str, salt_width: int, layout: KeyLayout, columns: list[bytes]) -> Description:
    fixed, varies = salt_width + layout.tail, False
    for at, of in enumerate(layout.fields):
        raw = at == len(layout.fields) - 1 and not of.desc and not layout.tail
        varies |= of.nullable or of.codec.width is None
        fixed += 1 if of.nullable else _shortest(of.codec, raw)
    overhead = sum(fixed + len(column) - 1 + _CELL_BYTES for column in columns)
    return Description(table, None if varies else fixed, fixed, overhead, len(columns))


def _shortest(codec: Codec[Any], raw: bool) -> int:
    """The least number of bytes that a codec writes for a value, at the end of a key (`raw`) or before another field."""
    encode = codec.encode if raw else codec.encode_part
    kind = codec.python_type
    if codec.width is not None:
        return codec.width
    if isinstance(kind, type) and issubclass(kind, Enum):
        return min(len(encode(member)) for member in kind)
    if kind == (IPv4Address, IPv6Address):
        return len(encode(IPv4Address(0)))
    # A codec of somebody else's, of another type, is taken for nothing.
    return len(encode(kind())) if kind in {str, bytes, Decimal} and isinstance(kind, type) else 0
