"""Looks up the ids of the names in many objects, rows or keys with few calls, before the objects, rows or keys are
encoded one by one.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hbmodel.errors import EncodingError
from hbmodel.mapping.schema import TableSchema, schema_of_object
from hbmodel.tables.ids.dictionaries import AT_ONCE, Names

Key = Mapping[str, Any] | Sequence[Any]


def objects_with_names(names: Names, objs: Iterable[Any], ahead: int = AT_ONCE) -> Iterator[Any]:
    """Yields the objects. If objects contain names of dictionaries, the ids of these names are looked up together
    before the objects are yielded.

    Args:
        ahead: how many objects are taken at once, if they have names.
    """
    rest, without_names = iter(objs), None
    for first in rest:
        if type(first) is without_names or not _has_names(first):
            without_names = type(first)
            yield first
            continue
        chunk, error = [first], None
        try:
            for obj in itertools.islice(rest, ahead - 1):
                chunk.append(obj)  # keeps what was yielded before an exception
        except Exception as raised:
            error = raised
        models: dict[type, list[Any]] = defaultdict(list)
        for named in filter(_has_names, chunk):
            models[type(named)].append(named)
        for group in models.values():
            look_up(names, schema_of_object(group[0]), group, getattr)
        yield from chunk
        if error is not None:  # the error of the caller's iterator comes after the objects that it has yielded
            raise error


def _has_names(obj: object) -> bool:
    schema = vars(type(obj)).get("__hbmodel__")
    return isinstance(schema, TableSchema) and bool(schema.dictionaries)


def look_up_rows(names: Names, schema: TableSchema, rows: Sequence[Mapping[str, Any]]) -> None:
    """Looks up the names in rows that are given as mappings of fields."""
    look_up(names, schema, rows, lambda row, field: row.get(field) if isinstance(row, Mapping) else None)


def look_up_keys(names: Names, schema: TableSchema, keys: Sequence[Key]) -> None:
    """Looks up the names in keys, each a mapping of key fields or their values in key order."""
    places = {field.name: at for at, field in enumerate(schema.key_fields)}

    def value_in(key: Key, field: str) -> Any:
        if isinstance(key, Mapping):
            return key.get(field)
        at = places.get(field)
        return None if at is None or not isinstance(key, Sequence) or at >= len(key) else key[at]

    look_up(names, schema, keys, value_in)


def look_up(names: Names, schema: TableSchema, items: Sequence[Any], value_in: Callable[[Any, str], Any]) -> None:
    """Looks up the names in items, so that they are cached. Names without an id stay unknown here: the call that writes
    them assigns an id. Values that are not names are skipped here, because their encoding raises an error that names
    the field.

    Args:
        value_in: returns the value of a field in an item, given the field's name.
    """
    if len(items) < 2:
        return
    for dictionary in schema.dictionaries:
        fields = [field.name for field in schema.fields if field.codec == dictionary]
        found = {value: None for item in items for field in fields if type(value := value_in(item, field)) is str}
        try:
            names.find(dictionary, found)
        except EncodingError:
            continue
