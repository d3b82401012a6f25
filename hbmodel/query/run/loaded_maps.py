"""Loads map columns together with the objects of a query."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from hbmodel.errors import DecodingError
from hbmodel.mapping.rows.mapper import KeyMapper, key_of
from hbmodel.mapping.rows.unreadable import Unreadable, readable
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.run.executor import Found
from hbmodel.store.port import Store
from hbmodel.store.values import Get

CHUNKS = (1, 10, 100)
"""For how many objects the map columns are read at once: in the first call, in the second, and in all later calls."""


def with_maps(store: Store, terms: QueryTerms, items: Iterator[Any]) -> Iterator[Any]:
    """Yields the objects of a query with the map columns that it loads; some objects are read ahead.

    The store must be the model's view (see `folded`), and the items must be whole objects.

    Args:
        items: the objects of the query, without these map columns.
    """
    number = 0
    while objects := list(islice(items, CHUNKS[min(number, len(CHUNKS) - 1)])):
        number += 1
        yield from load_maps(store, terms, objects)


def with_loaded(store: Store, terms: QueryTerms, items: Iterator[Found]) -> Generator[Found, None, None]:
    """Yields the items of a query with the map columns that it loads. An item whose map columns cannot be read is
    `Unreadable`. Some items are read ahead. Closing this iterator also closes `items`.
    """
    schema, number = terms.schema, 0
    rows_of = KeyMapper.rows_code(schema)
    with closing(items):  # type: ignore[type-var]
        while some := list(islice(items, CHUNKS[min(number, len(CHUNKS) - 1)])):
            number += 1
            wanted = [
                (at, map_field, row)
                for at, (_, values) in enumerate(some)
                if readable(values)
                for (row,) in (rows_of([values[name] for name in schema.layout.names]),)
                for map_field in terms.loading
            ]
            rows_read = store.get_each(
                schema.table, [Get(row, [map_field.family], map_field.qualifier) for _, map_field, row in wanted]
            )
            for (at, map_field, key), row in zip(wanted, rows_read, strict=True):
                position, values = some[at]
                try:
                    if readable(values):
                        values[map_field.name] = map_field.entries({} if row is None else row.columns)
                except DecodingError as error:
                    place = {**error.details, "table": schema.table, "key": key}
                    some[at] = position, Unreadable(DecodingError(error.message, **place))
            yield from some


def load_maps(store: Store, terms: QueryTerms, objects: Sequence[Any]) -> Sequence[Any]:
    """Reads the map columns that a query loads for some objects, by one call to the store, and returns the objects with
    these map columns.

    Raises:
        DecodingError: an entry cannot be read.
    """
    schema = terms.schema
    if not objects:
        return objects
    rows_of = KeyMapper.rows_code(schema)
    wanted = [
        (obj, map_field, row)
        for obj in objects
        for (row,) in (rows_of(key_of(schema, obj)),)
        for map_field in terms.loading
    ]
    rows_read = store.get_each(
        schema.table, [Get(row, [map_field.family], map_field.qualifier) for _, map_field, row in wanted]
    )
    for (obj, map_field, key), row in zip(wanted, rows_read, strict=True):
        try:
            vars(obj)[map_field.name] = map_field.entries({} if row is None else row.columns)
        except DecodingError as error:
            raise DecodingError(error.message, **{**error.details, "table": schema.table, "key": key}) from None
    return objects
