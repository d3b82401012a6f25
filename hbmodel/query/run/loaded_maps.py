"""Map columns that are loaded together with the objects of a query."""

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
"""How many objects are read ahead for their map columns: the first time, the second time, and from then on."""


def with_maps(store: Store, terms: QueryTerms, items: Iterator[Any]) -> Iterator[Any]:
    """The objects of a query with the map columns that it loads; some objects are read ahead.

    The store must be as the model sees it, and the items must be whole objects.

    Args:
        items: the objects of the query, without these map columns.
    """
    number = 0
    while objects := list(islice(items, CHUNKS[min(number, len(CHUNKS) - 1)])):
        number += 1
        yield from load_maps(store, terms, objects)


def with_loaded(store: Store, terms: QueryTerms, items: Iterator[Found]) -> Generator[Found, None, None]:
    """The items of a query with the map columns that it loads; an item with a map column that cannot be read is
    `Unreadable`. Some items are read ahead. Closing the iterator closes the iterator of the items.
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
    """Reads the map columns that a query loads into these objects, by one call to the store, and returns the objects.

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
