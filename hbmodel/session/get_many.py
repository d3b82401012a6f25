"""Reads many objects by their keys, in one call to the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from hbmodel.errors import UnknownName
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.indexed.entry_verifier import newest_of
from hbmodel.store.port import Store


def known_rows(schema: TableSchema, key: Mapping[str, Any] | Sequence[Any]) -> list[bytes]:
    """Returns the rows in which the object with a key may be stored. There are none if a dictionary has no id for a
    name in the key.
    """
    try:
        return KeyMapper.rows_code(schema)(key)
    except UnknownName:
        return []


def get_many(
    store: Store,
    schema: TableSchema,
    keys: Iterable[Mapping[str, Any] | Sequence[Any]],
    reader: Callable[[], RowDecoder],
) -> list[Any]:
    """Returns the objects with these keys, in the order of the keys, with None for each absent object.

    Args:
        reader: returns the decoder of the rows; called after the keys are checked.
    """
    if schema.dictionaries:
        homes = [known_rows(schema, key) for key in keys]
    else:
        rows_of = KeyMapper.rows_code(schema)
        homes = [rows_of(key) for key in keys]
    if not homes:
        return []
    decoder = reader()
    exists, values, make = decoder.exists, decoder.values, decoder.make
    wanted = list(dict.fromkeys(chain.from_iterable(homes)))
    if not wanted:
        return [None] * len(homes)
    got = store.get(schema.table, wanted, decoder.columns_of_gets)
    # each key has one row, and no two keys have the same row
    if len(wanted) == len(homes) == sum(map(len, homes)) and not schema.salt.random:
        return [make(values(row)) if row is not None and exists(row) else None for row in got]
    live_rows = {row.row: row for row in got if row is not None and exists(row)}
    objects: list[Any] = []
    for rows in homes:
        row = newest_of([live_rows[row] for row in rows if row in live_rows])
        objects.append(None if row is None else make(values(row)))
    return objects
