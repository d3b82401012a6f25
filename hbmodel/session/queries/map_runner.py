"""Reads the entries of one object's map column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from hbmodel.errors import DeclarationError
from hbmodel.mapping.declare.map_declaration import MapExpression, map_of
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.query.ask.continuation_tokens import Seal
from hbmodel.query.run.map_entries import EntryReader, MapSlice
from hbmodel.session.get_many import known_rows
from hbmodel.store.port import Store
from hbmodel.store.wide.page_sizes import PageSizes
from hbmodel.tables.registry.registration import Binding


def slice_of(
    map_column: Any,
    key: Mapping[str, Any],
    store: Store,
    view: Callable[[TableSchema], Store],
    bind: Callable[[TableSchema], Binding],
    seal: Seal | None,
    pages: PageSizes,
) -> MapSlice[Any, Any]:
    """Returns the entries of one object's map column; see `Session.entries`."""
    if not isinstance(map_column, MapExpression):
        raise DeclarationError(
            "Give a map column as an attribute of the model class: Model.field.", found=type(map_column).__name__
        )
    schema = schema_of(map_column.model)
    entries = map_of(schema, map_column)
    rows = known_rows(schema, key)
    if not rows:  # the key contains a name that no row has
        return MapSlice(EntryReader(store, evolve(schema, wide=None), entries, b"\x00", lambda: False, seal))
    (row,) = rows

    def exists() -> bool:
        binding = bind(schema)
        reader = RowDecoder.of(schema, binding.indexed, frozenset(), binding.adopting)
        (current,) = view(schema).get(schema.table, [row], reader.columns)
        return current is not None and reader.exists(current)

    return MapSlice(EntryReader(store, schema, entries, row, exists, seal, pages))
